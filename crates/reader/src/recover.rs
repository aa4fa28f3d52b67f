//! Recovering: after it a file ends with a full index that every reader opens. Closed steps are never lost by it.
//!
//! | what is found | what is done |
//! |---|---|
//! | the file ends with a full index | nothing; where it was to be followed, it is marked as closed for good |
//! | a full index, torn bytes behind it | the torn bytes are cut off |
//! | step records behind the last full index | a full index is written behind them, over torn bytes |
//! | an index that drops steps in front of it, as a restart had begun to | those steps are cut off |
//! | torn bytes that hold a whole, damaged index or step record | a closed step lies there: an index is made as below where that gives more steps, or more process groups; else a full index is written behind and nothing is cut |
//! | a full index whose checksum is wrong, the file closed for good | as below |
//! | no index and no step record that checks | the process groups are scanned, an index of the whole steps is written behind them |
//! | a metadata file that is lost or torn | as before, from the subfiles |
//!
//! An index is written and synced before anything is cut, and never over bytes of a step that is kept: a recovery that is
//! itself interrupted can be repeated.
//!
//! A scan keeps a step when the trailers of every rank that wrote it are there; it stops at the first step of which
//! process groups are missing. Steps behind that one are left in the file; `keep_partial` indexes them, and the
//! incomplete ones, marked partial. Files of ADIOS 1.13 have no trailers: every process group up to the first torn one is
//! kept.

use crate::decode;
use crate::object::{self, Before, Object};
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_bp::checksum::crc32c;
use thalweg_bp::extension::{self, Tag};
use thalweg_bp::footer::FOOTER;
use thalweg_bp::index::Index;
use thalweg_bp::live::{Base, Live};
use thalweg_bp::process_group::{Header, SECTION_HEAD, put_section_head};
use thalweg_bp::scan::{self, Found, Scan};
use thalweg_bp::source::{self, Source};
use thalweg_bp::step_record;
use thalweg_bp::trailer::{self, Trailer};
use thalweg_bp::wire::{Put, patch_u64};
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId, write_all_at};
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

/// How to recover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Say what would be done, change nothing.
    pub dry_run: bool,
    /// Keep steps that lack process groups, marked partial, and those behind them.
    pub keep_partial: bool,
}

/// What recovering did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Steps of the file afterwards: one more than the last step.
    pub steps: u64,
    /// Process groups that are indexed afterwards, where the index was made from them.
    pub process_groups: Option<u64>,
    /// Steps seen in the data but not indexed.
    pub dropped: Vec<u64>,
    /// Whether anything was changed (would be, in a dry run).
    pub changed: bool,
    /// What was done, in words, in order.
    pub actions: Vec<String>,
}

impl Recovery {
    fn act(&mut self, what: String) {
        self.changed = true;
        self.actions.push(what);
    }
}

/// Recovers a file, or a metadata file and its subfiles.
///
/// # Errors
/// `NotFound` where there is neither file nor subfile; `Torn` where no whole step is in it, which is then left as it is; where
/// bytes cannot be read, that failure, before anything was changed;
/// `Unsupported` for files of the other byte order.
pub fn recover(layout: &dyn Layout, path: &str, options: Options) -> Result<Recovery> {
    let numbers = object::subfiles(layout, path)?;
    let file = match Object::open(layout, path) {
        Ok(file) => Some(file),
        Err(e) if e.kind() == ErrorKind::NotFound && !numbers.is_empty() => None,
        Err(e) => return Err(e),
    };
    let run = Run { layout, path, options };
    let found = file.as_ref().map(|f| Live::find(f).map_err(|e| e.in_object(path)));
    match (found, &file) {
        (Some(Ok(live)), Some(file)) => run.keep(file, &live, &numbers),
        (Some(Err(e)), _) if e.kind() != ErrorKind::Torn => Err(e),
        (reason, _) => run.rebuild(file.as_ref(), &numbers, reason.and_then(|r| r.err())),
    }
}

#[derive(Clone, Copy)]
struct Run<'a> {
    layout: &'a dyn Layout,
    path: &'a str,
    options: Options,
}

/// A process group to be indexed, and where it lies.
struct Item<'a> {
    object: usize,
    found: &'a Found,
    time: u32,
    rank: u32,
    /// Which of this rank's groups of one opening, group and step: updates follow the output they add to.
    nth: u32,
}

/// An object that was scanned.
struct Scanned {
    object: Object,
    file_index: u32,
    scan: Scan,
    /// It ends with another library's index: nothing is cut off.
    foreign: bool,
}

impl Run<'_> {
    /// The file has a last good end.
    fn keep(&self, file: &Object, live: &Live, numbers: &[u32]) -> Result<Recovery> {
        let mut done = Recovery { steps: u64::from(live.step_count()), ..Recovery::default() };
        // Opening a file that was closed for good trusts its mark; here every byte of the index counts.
        if let Some(Err(e)) = live.base.as_ref().map(|b| b.check_bytes(file)) {
            if !source::is_damage(&e) {
                return Err(e.in_object(self.path).safe("nothing was changed"));
            }
            if self.trial(file, numbers)?.is_some_and(|r| r.steps >= done.steps && r.dropped.is_empty()) {
                return self.rebuild(Some(file), numbers, None);
            }
            return Err(e.in_object(self.path).safe("nothing was changed; steps that still read can be copied"));
        }
        let subfiles = live.base.as_ref().map_or(!numbers.is_empty(), |b| b.footer.subfiles);
        let ours = !live.step_records.is_empty() || live.base.as_ref().is_some_and(|b| b.extension.is_some());
        if ours && live.torn > 0 && holds_an_index(file, live.end)? {
            let mut index = live.load(file).map_err(|e| e.in_object(self.path))?;
            // What is closed is a further step, or an update of the last one.
            let known = (done.steps, Some(index.process_group_count()));
            let more = |r: Recovery| (r.steps, r.process_groups) > known && r.dropped.is_empty();
            if self.trial(file, numbers)?.is_some_and(more) {
                return self.rebuild(Some(file), numbers, None);
            }
            let damaged = index.records.list(Tag::Damaged);
            [live.end, live.torn].into_iter().for_each(|n| damaged.put_u64(n));
            done.act(format!(
                "wrote a full index behind {} bytes that hold a damaged one; they stay, and steps in them can't be read",
                live.torn
            ));
            self.write_index(&index, file.length(), subfiles, OpenWrite::Existing)?;
            return Ok(done);
        }
        if let Some(start) = live.dropped_from() {
            let mut index = live.load(file).map_err(|e| e.in_object(self.path))?;
            index.records.0.remove(&(Tag::Dropped as u32));
            done.act("dropped the steps that a restart was about to drop".into());
            self.write_index(&index, start, false, OpenWrite::Existing)?;
            return Ok(done);
        }
        if live.step_records.is_empty() {
            if live.torn > 0 {
                done.act(format!("cut {} torn bytes behind the last index", live.torn));
                self.change(|object| {
                    object.truncate(live.end)?;
                    object.sync()
                })?;
            }
            if let Some(e) = live.base.as_ref().and_then(|b| b.extension.as_ref()).filter(|e| !e.finished) {
                done.act("marked the file as closed for good".into());
                self.change(|object| {
                    write_all_at(object, extension::state_offset(e.extent), extension::FINISHED)?;
                    object.sync()
                })?;
            }
        } else {
            let index = live.load(file).map_err(|e| e.in_object(self.path))?;
            let over = if live.torn > 0 { format!(", over {} torn bytes", live.torn) } else { String::new() };
            done.act(format!("wrote a full index behind {} step records{over}", live.step_records.len()));
            self.write_index(&index, live.end, subfiles, OpenWrite::Existing)?;
        }
        if ours && subfiles {
            let index = live.load(file).map_err(|e| e.in_object(self.path))?;
            // Steps that only a damaged index lists are in the subfiles, where they stay.
            if index.records.get(Tag::Damaged).is_empty() {
                let offsets: Vec<u64> = index.process_groups()?.into_iter().map(|g| g.offset).collect();
                self.trim(live.step_count(), &offsets, numbers, &mut done)?;
            }
        }
        Ok(done)
    }

    /// What making an index from the process groups would give; `None` where it cannot be made from them.
    ///
    /// # Errors
    /// Where the file could not be read: then nothing is known.
    fn trial(&self, file: &Object, numbers: &[u32]) -> Result<Option<Recovery>> {
        let trial = Run { options: Options { dry_run: true, ..self.options }, ..*self };
        match trial.rebuild(Some(file), numbers, None) {
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
            outcome => source::unless_damaged(outcome),
        }
    }

    fn change(&self, act: impl FnOnce(&dyn WriteObject) -> Result<()>) -> Result<()> {
        if self.options.dry_run {
            return Ok(());
        }
        let object = self.layout.open_write(self.path, OpenWrite::Existing, WriterId(0))?;
        act(&*object).map_err(|e| e.in_object(self.path))
    }

    /// Writes a full index at `start`, syncs it, then cuts what lies behind it.
    fn write_index(&self, index: &Index, start: u64, subfiles: bool, how: OpenWrite) -> Result<()> {
        let encoded = index.encode(start, subfiles, true)?;
        if self.options.dry_run {
            return Ok(());
        }
        let object = self.layout.open_write(self.path, how, WriterId(0))?;
        let pieces: Vec<IoSlice<'_>> =
            encoded.pieces.iter().filter(|p| !p.is_empty()).map(|p| IoSlice::new(p)).collect();
        let end = start + encoded.length;
        let write = || {
            object.write_at(start, &pieces)?;
            object.sync()?;
            if object.length()? > end {
                object.truncate(end)?;
                object.sync()?;
            }
            Ok(())
        };
        write().map_err(|e: Error| e.in_object(self.path))
    }

    /// Cuts what lies behind the closed steps of subfiles. `offsets`: where indexed process groups start, whatever their
    /// subfile; a torn place that is not behind all of them is damage, not an output cut off, and stays.
    fn trim(&self, steps: u32, offsets: &[u64], numbers: &[u32], done: &mut Recovery) -> Result<()> {
        for k in numbers {
            let path = object::subfile(self.path, *k);
            let object = Object::open(self.layout, &path)?;
            if foreign_end(&object)?.is_some() {
                continue;
            }
            let scan = scan::scan(&object, ByteOrder::NATIVE).map_err(|e| e.in_object(&*path))?;
            let kept = scan.groups.iter().filter(|g| g.header.time_index <= steps);
            let end = kept.filter_map(|g| g.extent.end()).max().unwrap_or(0);
            let damaged = scan.torn.as_ref().is_some_and(|(at, _)| offsets.iter().any(|o| o >= at));
            if end < object.length() && !damaged && end > 0 {
                done.act(format!("cut {} bytes of no closed step off {path}", object.length() - end));
                self.cut(&path, end)?;
            }
        }
        Ok(())
    }

    fn cut(&self, path: &str, end: u64) -> Result<()> {
        if self.options.dry_run {
            return Ok(());
        }
        let object = self.layout.open_write(path, OpenWrite::Existing, WriterId(0))?;
        object.truncate(end).and_then(|()| object.sync()).map_err(|e| e.in_object(path))
    }

    /// No index is left: one is made from the process groups.
    fn rebuild(&self, file: Option<&Object>, numbers: &[u32], reason: Option<Error>) -> Result<Recovery> {
        let mut scanned = Vec::new();
        if let Some(file) = file {
            scanned.push(self.scan(file.clone(), SINGLE_FILE)?);
        }
        let subfiles = scanned.first().is_none_or(|s| s.scan.groups.is_empty()) && !numbers.is_empty();
        let mut partial: Vec<(u32, u32, u32)> = scanned.iter().flat_map(|s| s.scan.partial.clone()).collect();
        if subfiles {
            scanned.clear();
            for k in numbers {
                scanned.push(self.scan(Object::open(self.layout, &object::subfile(self.path, *k))?, *k)?);
            }
        }
        let groups = chosen(&scanned, &mut partial, self.options.keep_partial);
        if groups.kept.is_empty() {
            let mut error =
                Error::new(ErrorKind::Torn, "no whole step is in it; nothing was changed").in_object(self.path);
            if let Some(reason) = reason {
                error = error.caused_by(reason);
            }
            return Err(error);
        }
        let mut done = Recovery { dropped: groups.dropped, ..Recovery::default() };
        let mut index = Index::default();
        let mut runs: BTreeSet<u64> = BTreeSet::new();
        let mut kept = groups.kept.iter().peekable();
        let mut fillers = Vec::new();
        let mut end = groups.end_of_data;
        let first_time = groups.kept.first().map_or(1, |i| i.time);
        let last_time = groups.kept.last().map_or(0, |i| i.time);
        let lost = u64::from(last_time - first_time.min(last_time)).saturating_sub(groups.kept.len() as u64);
        if lost > (1 << 16) + 16 * groups.kept.len() as u64 {
            let what =
                format!("{} process groups say they are of steps {first_time} to {last_time}", groups.kept.len());
            return Err(Error::new(ErrorKind::Corrupt, what).in_object(self.path));
        }
        for time in first_time..=last_time {
            if kept.peek().is_some_and(|i| i.time > time) {
                // A lost step gets an empty process group: ADIOS 1.13 breaks on files with fewer groups than steps.
                let group = groups.kept.first().map_or(String::new(), |i| i.found.header.group.clone());
                let header = Header { group, time_index: time, ..Header::default() };
                let bytes = if subfiles { None } else { Some(empty_group(&header, end)) };
                index.add_process_group(&header, 0, if subfiles { 0 } else { end });
                if let Some(bytes) = bytes {
                    end += bytes.len() as u64;
                    fillers.extend(bytes);
                }
                continue;
            }
            while let Some(item) = kept.next_if(|i| i.time == time) {
                let s = &scanned[item.object];
                let fragment = item
                    .found
                    .fragment_undoing(&s.object, s.file_index, item.rank, ByteOrder::NATIVE, &|transform, bytes| {
                        // What only the values tell is not worth losing the index for.
                        let transform = decode::before(transform.clone(), item.found.header.fortran);
                        if !decode::worthwhile(&transform, bytes.len() as u64).unwrap_or(false) {
                            return Ok(None);
                        }
                        Ok(decode::values(&transform, ByteOrder::NATIVE, bytes).ok())
                    })
                    .map_err(|e| e.in_object(&*s.object.path))?;
                index.append_fragment(&fragment.to_fragment())?;
                if let Some(t) = item.found.trailer.as_ref().filter(|t| runs.insert(t.run)) {
                    let list = index.records.list(Tag::Run);
                    list.put_u64(t.run);
                    list.put_u32(time);
                    list.put_u32(t.ranks);
                }
            }
        }
        for (time, rank, kind) in partial.iter().filter(|(time, ..)| *time <= last_time) {
            let list = index.records.list(Tag::Partial);
            [*time, *rank, *kind, 0].into_iter().for_each(|n| list.put_u32(n));
        }
        done.steps = u64::from(index.last_time());
        let n = index.process_group_count();
        done.process_groups = Some(n);
        done.act(format!("made an index of {n} process groups, {} steps", done.steps));
        if !groups.left.is_empty() {
            done.actions.push(format!(
                "left whole steps behind an incomplete one in the file, not indexed: {}; keeping partial steps indexes them",
                groups.left.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
            ));
        }
        if subfiles {
            self.write_index(&index, 0, true, OpenWrite::Any)?;
            for (i, s) in scanned.iter().enumerate() {
                let end = groups.ends[i];
                if !s.foreign && end > 0 && end < s.object.length() {
                    done.act(format!("cut {} bytes of no whole step off {}", s.object.length() - end, s.object.path));
                    self.cut(&s.object.path, end)?;
                }
            }
        } else {
            let lost = file.map_or(0, Object::length).saturating_sub(groups.end_of_data);
            if lost > 0 {
                done.act(format!("cut {lost} bytes behind the last whole step"));
            }
            if !fillers.is_empty() && !self.options.dry_run {
                let object = self.layout.open_write(self.path, OpenWrite::Existing, WriterId(0))?;
                write_all_at(&*object, groups.end_of_data, &fillers).map_err(|e| e.in_object(self.path))?;
            }
            self.write_index(&index, end, false, OpenWrite::Existing)?;
        }
        Ok(done)
    }

    fn scan(&self, object: Object, file_index: u32) -> Result<Scanned> {
        let end = foreign_end(&object)?;
        let view = Before { source: &object, end: end.unwrap_or(object.length()) };
        let scan = scan::scan(&view, ByteOrder::NATIVE).map_err(|e| e.in_object(&*object.path))?;
        if scan.groups.is_empty() {
            let other = if ByteOrder::NATIVE == ByteOrder::Little { ByteOrder::Big } else { ByteOrder::Little };
            if source::unless_damaged(scan::group_at(&view, 0, other))?.is_some() {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "written in the other byte order: recover it on a machine of that order",
                )
                .in_object(&*object.path));
            }
        }
        Ok(Scanned { object, file_index, scan, foreign: end.is_some() })
    }
}

/// Whether a whole index or step record lies behind byte `from`, although it does not check: one that was cut off by
/// a kill has no end, one that was damaged later has both ends but for one.
fn holds_an_index(file: &Object, from: u64) -> Result<bool> {
    const STRETCH: u64 = 1 << 20;
    const LONGEST: u64 = 64;
    let length = file.length();
    let mut at = from;
    while at < length {
        let bytes = source::bytes(file, at, (length - at).min(STRETCH + LONGEST), "torn bytes")?;
        let fits = |start: u64, length_of: Option<u64>| {
            length_of.and_then(|n| start.checked_add(n)).is_some_and(|end| end <= length)
        };
        let head = memmem::find_iter(&bytes, extension::MAGIC).any(|i| {
            let head = bytes[i..].first_chunk();
            fits(at + i as u64, head.and_then(|h| extension::length_from_head(h, ByteOrder::NATIVE)))
        });
        let record = memmem::find_iter(&bytes, step_record::MAGIC).any(|i| {
            let head = bytes[i..].first_chunk();
            fits(at + i as u64, head.and_then(|h| step_record::length_from_head(h, ByteOrder::NATIVE)))
        });
        let tag = memmem::find_iter(&bytes, b"ADIOS-BP v").any(|i| at + i as u64 + FOOTER <= length);
        if head || record || tag || memmem::find(&bytes, step_record::END).is_some() {
            return Ok(true);
        }
        at += STRETCH;
    }
    Ok(false)
}

/// Where the process groups of an object end that ends with another library's own index.
fn foreign_end(object: &Object) -> Result<Option<u64>> {
    let base =
        source::unless_damaged(Base::ending_at(object, object.length())).map_err(|e| e.in_object(&*object.path))?;
    Ok(base.flatten().filter(|b| b.extension.is_none()).map(|b| b.footer.process_groups))
}

struct Chosen<'a> {
    /// In the order they are to be indexed.
    kept: Vec<Item<'a>>,
    /// Steps not indexed.
    dropped: Vec<u64>,
    /// Those of them that are whole and stay in the file.
    left: Vec<u64>,
    /// Where data that stays ends: in each object, and the largest.
    ends: Vec<u64>,
    end_of_data: u64,
}

/// Which process groups are kept. `partial` gains the ranks that are missing from what is kept.
fn chosen<'a>(scanned: &'a [Scanned], partial: &mut Vec<(u32, u32, u32)>, keep_partial: bool) -> Chosen<'a> {
    // What one opening wrote of one group in one step is whole or not.
    type Output<'a> = (u32, &'a str, Option<u64>);
    let mut outputs: BTreeMap<Output<'a>, Vec<Item<'a>>> = BTreeMap::new();
    let mut written: BTreeMap<(Output<'a>, u32), u32> = BTreeMap::new();
    for (object, s) in scanned.iter().enumerate() {
        for found in &s.scan.groups {
            let run = found.trailer.as_ref().map(|t| t.run);
            let key: Output<'a> = (found.header.time_index, &found.header.group, run);
            let output = outputs.entry(key).or_default();
            let rank = found.trailer.as_ref().map_or(output.len() as u32, |t| t.rank);
            let count = written.entry((key, rank)).or_default();
            output.push(Item { object, found, time: found.header.time_index, rank, nth: *count });
            *count += 1;
        }
    }
    // How many ranks there were is what a trailer says: not four thousand millions are listed for it.
    const MOST_MISSING: usize = 1 << 16;
    let missing = |items: &[Item<'_>], most: usize| -> Vec<u32> {
        let there: BTreeSet<u32> = items.iter().map(|i| i.rank).collect();
        let wanted = items.iter().filter_map(|i| i.found.trailer.as_ref()).map(|t| t.ranks).max().unwrap_or(0);
        (0..wanted).filter(|r| !there.contains(r)).take(most).collect()
    };
    let known: BTreeSet<u32> = partial.iter().map(|(time, ..)| *time).collect();
    let mut times: BTreeMap<u32, bool> = BTreeMap::new();
    for ((time, ..), items) in &outputs {
        let whole = missing(items, 1).is_empty() || known.contains(time);
        *times.entry(*time).or_default() |= whole;
    }
    // Up to the first time that is not there or not whole.
    let mut last = 0;
    for (time, whole) in &times {
        if !keep_partial && (!whole || (last > 0 && *time != last + 1)) {
            break;
        }
        last = *time;
    }
    let mut chosen = Chosen {
        kept: Vec::new(),
        dropped: times.keys().filter(|t| **t > last).map(|t| u64::from(t.saturating_sub(1))).collect(),
        left: times.iter().filter(|(t, w)| **t > last && **w).map(|(t, _)| u64::from(t.saturating_sub(1))).collect(),
        ends: vec![0; scanned.len()],
        end_of_data: 0,
    };
    for ((time, ..), items) in outputs {
        let missing = missing(&items, MOST_MISSING.saturating_sub(partial.len()).max(1));
        let whole = missing.is_empty() || known.contains(&time);
        let keep = time <= last && (whole || keep_partial);
        if keep || whole {
            for i in &items {
                let end = i.found.extent.end().unwrap_or(0);
                chosen.ends[i.object] = chosen.ends[i.object].max(end);
                chosen.end_of_data = chosen.end_of_data.max(end);
            }
        }
        if keep {
            if !known.contains(&time) {
                partial.extend(missing.iter().map(|r| (time, *r, u32::from(ErrorKind::Torn.code()))));
            }
            chosen.kept.extend(items);
        }
    }
    // Outputs of one step in the order they were written, each in the order of ranks.
    let mut first: BTreeMap<(u32, Option<u64>, String), u64> = BTreeMap::new();
    let key = |i: &Item<'_>| (i.time, i.found.trailer.as_ref().map(|t| t.run), i.found.header.group.clone());
    for i in &chosen.kept {
        let at = first.entry(key(i)).or_insert(u64::MAX);
        *at = (*at).min(i.found.extent.offset);
    }
    chosen.kept.sort_by_cached_key(|i| {
        let started = first.get(&key(i)).copied().unwrap_or(0);
        (i.time, started, key(i), i.nth, i.rank, i.object, i.found.extent.offset)
    });
    chosen
}

/// A process group that holds nothing, for a step whose own are lost.
fn empty_group(header: &Header, offset: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.encode(&mut bytes);
    for _ in 0..2 {
        let at = bytes.len();
        bytes.extend([0; SECTION_HEAD]);
        put_section_head(&mut bytes, at, 0, SECTION_HEAD as u64);
    }
    let length = bytes.len() as u64 + trailer::length(0);
    patch_u64(&mut bytes, 0, length);
    let trailer = Trailer {
        run: 0,
        group: Extent::new(offset, length),
        rank: 0,
        ranks: 1,
        time_index: header.time_index,
        file_index: SINGLE_FILE,
        framing: crc32c(&bytes),
        blocks: Vec::new(),
    };
    trailer.encode(&mut bytes);
    bytes
}
