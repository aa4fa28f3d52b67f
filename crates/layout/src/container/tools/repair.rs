//! Repair of a container: sessions of dead writers closed, index logs rebuilt, leftovers of kills removed.

use super::super::clock::Summary;
use super::super::guard::Guard;
use super::super::index::Source;
use super::super::index::block::{self, Entry};
use super::super::load::{self, Alive};
use super::super::marks::{self, Mark, Published};
use super::super::objects::{TEMPORARY, put_new, put_new_as, remove_if_there};
use super::super::place::{Place, now};
use super::super::record::{Kind, Log as Which, Record, SEGMENT_HEADER, Segment};
use super::super::{Container, removal, scan};
use super::check::{check_present, logs_of, strays};
use super::{Accept, Finding, Report, Trouble, alone, marks_of};
use thalweg_types::{Error, ErrorKind, Result};

/// Entries in a block of a rebuilt index log.
const MOST_ENTRIES: usize = 1 << 16;

impl Container {
    /// Closes sessions of dead writers, rebuilds index logs that do not match their data logs, removes logs without a mark.
    /// Returns the repaired findings, which a later [`check`](Container::check) no longer reports, and the others
    /// ([`Finding::left`]).
    ///
    /// # Errors
    /// `NotReady` if this process writes the file; `Torn` if published bytes are missing and `accept` does not allow that;
    /// errors of the stores. Earlier repairs stay; safe to repeat.
    pub fn repair(&self, path: &str, accept: Accept) -> Result<Vec<Finding>> {
        let path = self.store_name(path, "repair")?;
        let (_, opened) = self.follow(&path)?;
        let file = self.file(opened);
        file.place.has_home().map_err(|e| e.in_object(path.clone()))?;
        if !file.place.has_folder() && marks_of(&file.place)?.iter().all(Mark::closed) {
            // The file is one object, which was whole when it was read.
            return Ok(Vec::new());
        }
        let _alone = alone(&file.place, true)?;
        if file.is_written() {
            return Err(Error::new(ErrorKind::NotReady, "cannot repair: this process writes the file").in_object(path));
        }
        let place = &file.place;
        let mut done = Report::default();
        for mark in marks_of(place)? {
            let mut found = Report::default();
            let Some(mark) = &check_present(place, &mark, &mut found)? else { continue };
            let idle = mark.open.is_none() && !mark.closed();
            let gone = idle && load::alive(place, mark)?.0 == Alive::No;
            let due = |f: &Finding| match f.trouble {
                Trouble::Open => accept.open,
                Trouble::Lost => accept.lost,
                Trouble::Idle => accept.open || gone,
                Trouble::Died | Trouble::Index => true,
                _ => false,
            };
            let at_work = found
                .findings
                .iter()
                .any(|f| f.trouble == Trouble::Writing || (f.trouble == Trouble::Open && !accept.open));
            let waits = found.findings.iter().find(|f| f.trouble == Trouble::Lost && !accept.lost).cloned();
            if let Some(lost) = waits {
                done.findings.push(Finding { left: true, ..lost });
            } else if !at_work && found.findings.iter().any(due) {
                let words = match mark.open.is_some() && load::compacts(&load::alive(place, mark)?.1) {
                    // Its bytes are still in the sessions that it was to replace.
                    true => removal::remove_session(place, mark)
                        .map(|()| "removed an interrupted compaction".to_string())?,
                    false => rebuild(place, mark, accept.lost)?,
                };
                let finding = found.findings.iter().find(|f| due(f));
                done.add(finding.map_or(Trouble::Index, |f| f.trouble), place.data(&mark.home, 0), words);
            }
        }
        for (name, store) in strays(place, &logs_of(place)?)? {
            remove_if_there(&*store, &name)?;
            done.add(Trouble::Stray, name, "removed");
        }
        tidy(place)?;
        file.look()?;
        // Objects of earlier releases, made before their folders had the file's access rights.
        if let (stored, Some(_)) = self.file_attributes(&file)? {
            file.place
                .put_guard(Guard::of(stored.mode, stored.uid, stored.gid), &path)
                .map_err(|e| e.in_object(path))?;
        }
        Ok(done.findings)
    }
}

/// Removes leftovers of kills in a container's folder of marks: temporary objects, commit marks of compactions.
pub(super) fn tidy(place: &Place) -> Result<()> {
    let (first, folder) = (place.first(), place.marks());
    let names = first.list(&folder)?;
    for name in names.iter().filter(|name| name.starts_with(TEMPORARY)) {
        let name = format!("{folder}/{name}");
        // A living process that is about to rename it creates it again.
        let life = first.open_read(&name).and_then(|object| object.life());
        if life.is_ok_and(|life| life.leased != Some(true)) {
            remove_if_there(&**first, &name)?;
        }
    }
    let marks = marks::read(&names)?;
    for name in names.iter().filter(|name| name.starts_with("k-")) {
        let open = marks.iter().any(|m| *name == marks::commit_name(m.home.session) && !m.closed());
        if !open {
            remove_if_there(&**first, &format!("{folder}/{name}"))?;
        }
    }
    Ok(())
}

/// Rebuilds a session's index logs from its data logs and writes its closed mark.
///
/// - `accept`: published bytes may be missing at the end of a log.
fn rebuild(place: &Place, mark: &Mark, accept: bool) -> Result<String> {
    let (home, store) = (mark.home, place.store(mark.home.store)?.clone());
    if place.is_packed(mark) {
        let what = "cannot repair: the object of a small session is damaged";
        return Err(Error::new(ErrorKind::Torn, what).in_object(place.shown(&Source::of(&home, 0))));
    }
    let published = mark.published.unwrap_or_default();
    let mut new = Published {
        version: published.version + 1,
        closed: true,
        segments: 0,
        data: 0,
        index: 0,
        summary: Summary::default(),
        time: if published.time > 0 { published.time } else { now() },
    };
    let (mut torn, mut missing) = (0, 0);
    for k in 0.. {
        let source = Source::of(&home, k);
        let inside = place.has_inside(&home, k)?;
        let name = load::name(place, &source, Which::Data);
        if !inside && load::open(place, &source, Which::Data)?.is_some() {
            store.settle(&name)?;
        }
        let Some(object) = load::open(place, &source, Which::Data)? else {
            match k < published.segments {
                true => return Err(load::lost(place, &source, Which::Data)),
                false => break,
            }
        };
        // Of a closed session, bytes behind the published end do not count.
        let last = k + 1 == published.segments;
        let end = if mark.closed() && last { published.data.min(object.length()?) } else { object.length()? };
        let trusted = if last {
            published.data
        } else if k < published.segments {
            u64::MAX
        } else {
            0
        };
        let mut recorder = place.stamp.module.recorder();
        let mut others = Vec::new();
        let mut summary = new.summary;
        let mut take = |record: &Record| {
            match scan::entry_of(record) {
                Some(Entry::Run(run)) if !run.hole => recorder.add(run),
                Some(entry) => others.push(entry),
                None => {}
            }
            match record.kind {
                Kind::Write => summary.write(record.clock, record.offset + record.length, record.length),
                Kind::Append => summary.append(record.clock, Summary::UNSEEN, record.length),
                Kind::Hole => summary.write(record.clock, record.offset + record.length, 0),
                Kind::Cut => summary.cut(record.clock, record.offset),
                Kind::End => {}
            }
            Ok(())
        };
        // Published records are kept even where their bytes are damaged; unpublished ones must be whole.
        let (mut from, mut ends_early) = (0, false);
        if trusted > 0 {
            let scanned = scan::data_log(place, &source, &*object, 0, end.min(trusted), false, &mut take)?;
            ends_early = scanned.whole < trusted && !(scanned.ended && trusted == u64::MAX);
            if ends_early && !accept {
                let what = "cannot repair: bytes that were published are missing; --lost accepts the remaining bytes";
                let torn = Error::new(ErrorKind::Torn, what);
                return Err(torn.in_object(place.shown(&source)).at_byte(scanned.whole));
            }
            from = scanned.whole;
            missing += if ends_early && trusted < u64::MAX { trusted - scanned.whole } else { 0 };
        }
        let scanned = scan::data_log(place, &source, &*object, from, end, true, &mut take)?;
        torn += end - scanned.whole.min(end);
        let nothing = scanned.whole <= SEGMENT_HEADER && !scanned.ended;
        if nothing && (k >= published.segments || (last && ends_early)) {
            break;
        }
        let covered = scanned.whole.max(SEGMENT_HEADER);
        new.summary = summary;
        if inside {
            // Without an index log, and without further segments.
            (new.segments, new.data) = (k + 1, scanned.whole);
            break;
        }
        let mut entries = recorder.take();
        entries.append(&mut others);
        let head = Segment { container: place.stamp.container, session: home.session, writer: home.writer, number: k };
        let mut bytes = head.encode(Which::Index).to_vec();
        if entries.is_empty() {
            bytes.extend_from_slice(&block::encode(home.session, SEGMENT_HEADER, covered, &[]));
        }
        for run in entries.chunks(MOST_ENTRIES) {
            bytes.extend_from_slice(&block::encode(home.session, SEGMENT_HEADER, covered, run));
        }
        let name = load::name(place, &source, Which::Index);
        if load::open(place, &source, Which::Index)?.is_some() {
            store.settle(&name)?;
        }
        // Until the new one is there, readers scan the data log.
        remove_if_there(&*store, &name)?;
        put_new_as(&*store, &name, &bytes, place.guard()?.map_or(0o666, |guard| guard.object()))?;
        (new.segments, new.data, new.index) = (k + 1, scanned.whole, bytes.len() as u64);
        if !scanned.ended && k >= published.segments.saturating_sub(1) {
            break;
        }
    }
    let (first, folder) = (place.first(), place.marks());
    put_new(&**first, &format!("{folder}/{}", marks::published_name(home, &new)), &[])?;
    let old = mark.published.filter(|p| *p != new).map(|p| marks::published_name(home, &p));
    for name in mark.overridden.iter().chain(&old) {
        place.remove_if_there(name)?;
    }
    if let Some(name) = &mark.open {
        if !place.is_inside(name) {
            let name = format!("{folder}/{name}");
            first.settle(&name).or_else(|e| if e.kind() == ErrorKind::NotFound { Ok(()) } else { Err(e) })?;
        }
        place.remove_if_there(name)?;
    }
    // Segments behind the last whole record.
    for k in new.segments.. {
        let names = [Which::Data, Which::Index].map(|which| load::name(place, &Source::of(&home, k), which));
        if names.iter().all(|name| store.stat(name).is_err()) {
            break;
        }
        names.iter().try_for_each(|name| remove_if_there(&*store, name))?;
    }
    let mut words = format!("closed with {} bytes in {} logs, index made again", new.summary.bytes, new.segments);
    if missing > 0 {
        words.push_str(&format!("; {missing} bytes of its log that were published are missing"));
    }
    if torn > 0 {
        words.push_str(&format!("; {torn} bytes of a torn record are left out"));
    }
    Ok(words)
}
