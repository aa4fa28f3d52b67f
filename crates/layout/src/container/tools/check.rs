//! Check of a container: its sessions, its logs, and ties (bytes that two sessions wrote at the same clock).

use super::super::clock::{self, Summary};
use super::super::index::block::Entry;
use super::super::index::{MappedRange, Merged, Source};
use super::super::inline_object::Opened;
use super::super::load::{self, Alive};
use super::super::marks::Mark;
use super::super::objects::MOST_TRIES;
use super::super::place::{Place, data_name};
use super::super::record::{Kind, Log as Which};
use super::super::{Container, scan};
use super::{Report, Trouble, WINDOW, marks_of, upkeep};
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_store::{Store, StoreExt, name};
use thalweg_types::{ErrorKind, Extent, Result};

/// How many files that replace each other under one name are checked.
const CHECKS: usize = 100;

impl Container {
    /// Reads and checks a whole container. If another file gets the name meanwhile, that file is checked.
    ///
    /// # Errors
    /// `NotFound` if the name was removed; `Corrupt` or `Torn` if the stamp or the marks cannot be read; errors of the store from
    /// any call. Damage of logs is in the report.
    pub fn check(&self, path: &str) -> Result<Report> {
        let path = self.store_name(path, "check")?;
        let mut checked = 0;
        loop {
            let (_, opened) = self.follow(&path)?;
            let container = opened.stamp.container;
            let found = self.check_opened(opened);
            checked += 1;
            let is_in_doubt = match &found {
                Ok(report) => !report.is_clean(),
                Err(e) => e.kind() == ErrorKind::NotFound,
            };
            if !is_in_doubt || checked == CHECKS {
                return found;
            }
            // Objects may be missing because their file has been removed or replaced.
            match self.follow(&path) {
                Ok((_, now)) if now.stamp.container != container => {}
                Err(e) if e.kind() == ErrorKind::NotFound => return Err(e.in_object(path)),
                _ => return found,
            }
        }
    }

    fn check_opened(&self, opened: Opened) -> Result<Report> {
        let place = Place::new(opened, self.stores.clone());
        let mut report = Report::default();
        for k in 0..place.stamp.stores.len() {
            if let Err(e) = place.store(k as u8) {
                report.add(Trouble::Store, place.stamp.stores[k].1.clone(), e.what());
            }
        }
        if place.has_home().is_err() {
            // Its marks are on the missing store.
            return Ok(report);
        }
        // Logs first: each had a mark before it was created.
        let logs = logs_of(&place)?;
        let marks = marks_of(&place)?;
        report.sessions = marks.len();
        for mark in &marks {
            check_present(&place, mark, &mut report)?;
        }
        report_strays(&place, &logs, &mut report)?;
        match load::merged(&place, &self.options, &marks, &[], &[]) {
            Ok((index, _)) => {
                report.length = index.length;
                let mut at = 0;
                while at < index.length {
                    let stop = index.length.min(at + 64 * WINDOW);
                    for tie in ties(&index, at, stop)? {
                        let (a, b) = (tie.1, tie.2);
                        let bytes = format!("bytes {}..{}", tie.0.offset, tie.0.offset + tie.0.length);
                        let words = format!("writers {a} and {b} wrote them without having seen each other");
                        report.add(Trouble::Tie, bytes, words);
                    }
                    // Two holes are no tie.
                    at = index.recorded_after(stop, index.length)?;
                }
            }
            // The reason is among the findings.
            Err(_) => report.length = clock::length(summaries(&marks)).unwrap_or(0),
        }
        report.findings.sort();
        report.findings.dedup();
        Ok(report)
    }
}

pub(super) fn listed(store: &dyn Store, folder: &str) -> Result<Vec<String>> {
    match store.list(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        names => names,
    }
}

fn summaries(marks: &[Mark]) -> impl Iterator<Item = (u32, u64, Summary)> + Clone {
    marks.iter().map(|m| (m.home.writer, m.home.session, m.published.unwrap_or_default().summary))
}

/// A log: its name, its store, and its kind.
pub(super) type Lying = (String, Arc<dyn Store>, u8);

/// All logs of a container.
pub(super) fn logs_of(place: &Place) -> Result<Vec<Lying>> {
    let mut found = Vec::new();
    for k in 0..place.stamp.stores.len() as u8 {
        let Ok(store) = place.store(k) else { continue };
        for folder in listed(&**store, &place.logs())? {
            let folder = format!("{}/{folder}", place.logs());
            found.extend(listed(&**store, &folder)?.iter().map(|name| (format!("{folder}/{name}"), store.clone(), k)));
        }
    }
    Ok(found)
}

/// The logs without a mark. Marks are listed after the logs: a session makes its mark before its logs and has one at every moment
/// until it is removed. A list may miss a mark that is renamed meanwhile, so marks are listed twice.
pub(super) fn strays(place: &Place, logs: &[Lying]) -> Result<Vec<(String, Arc<dyn Store>)>> {
    let mut left: Vec<&Lying> = logs.iter().collect();
    for _ in 0..2 {
        if left.is_empty() {
            break;
        }
        let marks = marks_of(place)?;
        let known: BTreeMap<u64, &Mark> = marks.iter().map(|m| (m.home.session, m)).collect();
        left.retain(|(name, _, k)| {
            let told = log_name(name::last_part(name)).is_some_and(|(session, segment)| {
                known.get(&session).is_some_and(|m| {
                    !m.closed() || (segment < m.published.map_or(0, |p| p.segments) && m.home.store == *k)
                })
            });
            !told
        });
    }
    // A log that was removed meanwhile is no log without a mark.
    let there = |(name, store, _): &&&Lying| store.exists(name).unwrap_or(true);
    Ok(left.iter().filter(there).map(|(name, store, _)| (name.clone(), store.clone())).collect())
}

/// Reports the logs without a mark. Who removes sessions (a truncation, a compaction) locks the container's maintenance, and removes
/// marks before logs: such logs are damage only where nobody has the lock.
fn report_strays(place: &Place, logs: &[Lying], report: &mut Report) -> Result<()> {
    let mut found = strays(place, logs)?;
    if found.is_empty() {
        return Ok(());
    }
    // A store without locks, or another user's: nobody can be asked.
    let lock = place.first().lock(&upkeep(place), false);
    let (trouble, words) = match lock {
        Ok(None) => (Trouble::Writing, "another process is removing this log"),
        _ => (Trouble::Stray, "this log has no mark"),
    };
    // The process that had the lock may have removed them since.
    found.retain(|(name, store)| store.exists(name).unwrap_or(true));
    found.into_iter().for_each(|(name, _)| report.add(trouble, name, words));
    Ok(())
}

/// Checks a session; again if it publishes meanwhile. Returns its mark; `None` if the session was removed.
pub(super) fn check_present(place: &Place, mark: &Mark, report: &mut Report) -> Result<Option<Mark>> {
    let mut mark = mark.clone();
    for _ in 0..MOST_TRIES {
        let mut found = Report::default();
        let outcome = check_session(place, &mark, &mut found);
        let fine = outcome.is_ok() && found.findings.is_empty();
        if !fine {
            // Closed, published more or removed since.
            match marks_of(place)?.into_iter().find(|m| m.home.session == mark.home.session) {
                None => return Ok(None),
                Some(now) if now != mark => {
                    mark = now;
                    continue;
                }
                Some(_) => {}
            }
        }
        outcome?;
        report.records += found.records;
        report.bytes += found.bytes;
        report.findings.append(&mut found.findings);
        return Ok(Some(mark));
    }
    // The session publishes faster than the check reads.
    report.add(Trouble::Writing, place.data(&mark.home, 0), "a writer is writing");
    Ok(Some(mark))
}

fn log_name(name: &str) -> Option<(u64, u32)> {
    let stem = name.strip_suffix(".data").or_else(|| name.strip_suffix(".index"))?;
    let (session, segment) = stem.split_once('-')?;
    Some((u64::from_str_radix(session, 16).ok()?, segment.parse().ok()?))
}

/// Bytes that two sessions wrote at the same clock: extent and both writers.
fn ties(index: &Merged, from: u64, to: u64) -> Result<Vec<(Extent, u32, u32)>> {
    let mut pieces = index.layers(from, to)?;
    pieces.sort_unstable_by_key(|p| p.start);
    let mut found: Vec<(Extent, u32, u32)> = Vec::new();
    let mut open: Vec<MappedRange> = Vec::new();
    for piece in pieces {
        open.retain(|p| p.end > piece.start);
        for other in &open {
            let (a, b) = (index.source_of(other), index.source_of(&piece));
            if a.session != b.session && index.clock(other) == index.clock(&piece) {
                let length = other.end.min(piece.end) - piece.start;
                let (low, high) = (a.writer.min(b.writer), a.writer.max(b.writer));
                found.push((Extent { offset: piece.start, length }, low, high));
            }
        }
        open.push(piece);
    }
    Ok(found)
}

/// A sum over records, independent of their order, to compare an index log with its data log.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum(u64, u64);

impl Sum {
    fn add(&mut self, clock: u64, start: u64, length: u64, log: u64, kind: u64) {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for word in [clock, start, length, log, kind] {
            hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
        }
        self.0 = self.0.wrapping_add(hash);
        self.1 += 1;
    }

    fn entry(&mut self, entry: &Entry) {
        match entry {
            Entry::Cut { clock, length, log } => self.add(*clock, *length, 0, *log, 2),
            Entry::Run(run) => {
                for i in 0..run.outer.count as i128 {
                    for j in 0..run.inner.count as i128 {
                        let at = |base: u64, a: i64, b: i64| {
                            (i128::from(base) + i * i128::from(a) + j * i128::from(b)) as u64
                        };
                        let start = at(run.start, run.outer.stride, run.inner.stride);
                        let log = at(run.log, run.outer.log_stride, run.inner.log_stride);
                        let kind = u64::from(run.hole) + 4 * u64::from(run.appended);
                        self.add(run.clock, start, run.length, log, kind);
                    }
                }
            }
        }
    }
}

fn check_session(place: &Place, mark: &Mark, report: &mut Report) -> Result<()> {
    let segments = mark.published.map_or(0, |p| p.segments);
    if place.store(mark.home.store).is_err() && !place.is_inside(&data_name(&mark.home, 0)) {
        // Reported once, for the store.
        return Ok(());
    }
    for k in 0..segments {
        let p = mark.published.unwrap_or_default();
        let (index, data) = if k + 1 < segments { (u64::MAX, u64::MAX) } else { (p.index, p.data) };
        check_segment(place, &Source::of(&mark.home, k), index, data, report)?;
    }
    if mark.closed() {
        return Ok(());
    }
    let (alive, who) = load::alive(place, mark)?;
    if alive == Alive::Yes {
        report.add(Trouble::Writing, place.data(&mark.home, segments.saturating_sub(1)), who);
        return Ok(());
    }
    if mark.open.is_none() {
        let words = "a writer has not closed; all its writes are published";
        report.add(Trouble::Idle, place.data(&mark.home, segments.saturating_sub(1)), words);
        return Ok(());
    }
    let (records, bytes, torn) = tail(place, mark)?;
    let trouble = if alive == Alive::No { Trouble::Died } else { Trouble::Open };
    let mut words = format!("{who}: {bytes} bytes in {records} records after its last sync are there");
    if torn > 0 {
        words.push_str(&format!(", {torn} bytes of a torn record are not"));
    }
    words.push_str("; bytes that it had only buffered are lost");
    report.add(trouble, place.data(&mark.home, segments.saturating_sub(1)), words);
    Ok(())
}

/// Records, bytes, and torn bytes after a session's published part.
fn tail(place: &Place, mark: &Mark) -> Result<(u64, u64, u64)> {
    let segments = mark.published.map_or(0, |p| p.segments);
    let mut from = if segments > 0 { mark.published.map_or(0, |p| p.data) } else { 0 };
    let (mut records, mut bytes, mut torn) = (0, 0, 0);
    for k in segments.saturating_sub(1).. {
        let source = Source::of(&mark.home, k);
        let Some(object) = load::open(place, &source, Which::Data)? else { break };
        let end = object.length()?;
        if from < end {
            let scanned = scan::data_log(place, &source, &*object, from, end, true, |record| {
                records += 1;
                bytes += record.payload();
                Ok(())
            })?;
            torn += end - scanned.whole.min(end);
            if !scanned.ended {
                break;
            }
        }
        from = 0;
    }
    Ok((records, bytes, torn))
}

fn check_segment(place: &Place, source: &Source, index: u64, data: u64, report: &mut Report) -> Result<()> {
    let shown = place.shown(source);
    let mut sums = (Sum::default(), Sum::default());
    let mut whole = false;
    // Byte at which a closed log ends early.
    let mut broken_off = None;
    match load::open(place, source, Which::Data)? {
        None => report.add(Trouble::Data, shown.clone(), "the data log is gone"),
        Some(object) => {
            let there = object.length()?;
            let end = if data == u64::MAX { there } else { data };
            if there < end {
                let words = format!("the data log has {there} bytes of {end}");
                report.add(Trouble::Lost, shown.clone(), words);
            }
            let mut damaged = Vec::new();
            let scanned = scan::data_log(place, source, &*object, 0, end.min(there), false, |record| {
                report.records += 1;
                report.bytes += record.payload();
                if !scan::is_intact(&*object, record)? {
                    damaged.push(*record);
                }
                scan::entry_of(record).iter().for_each(|entry| sums.0.entry(entry));
                Ok(())
            })?;
            for record in damaged {
                let words = match record.kind {
                    Kind::Append => format!("{} bytes that were appended are damaged", record.length),
                    _ => format!("bytes {}..{} of the file are damaged", record.offset, record.offset + record.length),
                };
                report.add(Trouble::Data, format!("{shown} at byte {}", record.at), words);
            }
            whole = scanned.whole >= end || (data == u64::MAX && scanned.ended);
            if let Some(e) = scanned.torn.filter(|_| there >= end) {
                match data {
                    u64::MAX => broken_off = Some((scanned.whole, e)),
                    _ => report.add(Trouble::Lost, format!("{shown} at byte {}", scanned.whole), e.what()),
                }
            }
        }
    }
    // An inline data log has no index log.
    if index == 0 {
        return Ok(());
    }
    let mut told_to = u64::MAX;
    let outcome = match load::open(place, source, Which::Index)? {
        None => Err("the index log is gone".to_string()),
        Some(object) => {
            let end = if index == u64::MAX { object.length()? } else { index };
            let told = scan::index_log(place, source, &*object, end, |entry| {
                // A run is expanded only if the data log has room for its records.
                match entry {
                    Entry::Run(run) if run.records() > sums.0.1 => sums.1.1 = u64::MAX,
                    entry if sums.1.1 <= sums.0.1 => sums.1.entry(&entry),
                    _ => {}
                }
                Ok(())
            });
            match told {
                Ok((_, Some(e))) => Err(e.what().to_string()),
                Ok((covered, None)) if data != u64::MAX && covered < data => Err("the index log ends early".into()),
                Ok((covered, None)) => {
                    told_to = covered;
                    Ok(())
                }
                Err(e) => return Err(e),
            }
        }
    };
    // After a repair with `lost`, the log ends where its index log ends.
    if let Some((at, e)) = broken_off.filter(|(at, _)| told_to > *at) {
        report.add(Trouble::Lost, format!("{shown} at byte {at}"), e.what());
    }
    let name = load::name(place, source, Which::Index);
    match outcome {
        Err(words) => report.add(Trouble::Index, name, words),
        Ok(()) if whole && sums.0 != sums.1 => {
            report.add(Trouble::Index, name, "the index log does not match the data log")
        }
        Ok(()) => {}
    }
    Ok(())
}
