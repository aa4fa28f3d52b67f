//! Recovery: afterwards a file ends with a full index that every reader opens. No closed step is lost.
//!
//! | state of the file | repair | with `keep_partial` |
//! |---|---|---|
//! | ends with a full index | none; if it could be followed, it is marked as closed for good | process groups left by an earlier recovery are indexed |
//! | a full index, then torn bytes | the torn bytes are truncated | the same |
//! | step records after the last full index | a full index is written after the records, over torn bytes | the same |
//! | whole process groups of an output that was not closed after any of these, or in subfiles | they remain and are listed ([`Tag::Left`]), a full index without them is written after them; only torn bytes after the last of them are cut off | they are indexed, and their step is marked partial if ranks are missing |
//! | an index that drops steps before it, from an interrupted restart | those steps are cut off | the same |
//! | torn bytes that contain a whole, damaged index or step record | they contain a closed step: the index is rebuilt as below if that gives more steps or process groups; else a full index is written after them and nothing is cut | the same, incomplete steps included |
//! | a full index whose checksum is wrong, the file closed for good | as below | as below |
//! | no index and no step record with a valid checksum | the process groups are scanned, an index of the whole steps is written after them | of all steps, incomplete ones marked partial |
//! | a lost or torn metadata file | as above, from the subfiles | as above |
//!
//! A file with a living writer is refused: recovery would truncate the output in flight without an error to the writer. Not every store
//! shows whether a writer lives: see [`crate::writers`] and [`Options::even_if_written`].
//!
//! A whole process group is never truncated. A dry run returns the same [`Recovery`] and changes nothing.
//!
//! An index is written and synced before anything is cut, and never over bytes of a step that remains: an interrupted recovery
//! can be repeated.
//!
//! A scan indexes a step if the trailers of every rank that wrote it exist; it stops at the first step with missing process
//! groups. The process groups of that step and all later ones remain in the file; `keep_partial` indexes them, incomplete steps
//! marked partial, also in a second recovery. If two opens wrote the same group of the same step, and the first is incomplete or
//! was left, only the later is indexed. Files of ADIOS 1.13 have no trailers: every process group up to the first torn one is
//! kept.

use crate::decode;
use crate::object::{self, Before, Object};
use crate::writers;
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::IoSlice;
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_bp::extension::{self, Tag};
use thalweg_bp::footer::FOOTER;
use thalweg_bp::index::Index;
use thalweg_bp::live::{Base, Live};
use thalweg_bp::opening::{Opening, Openings};
use thalweg_bp::process_group::{Header, SECTION_HEAD, put_section_head};
use thalweg_bp::scan::{self, Found, Scan};
use thalweg_bp::source::{self, Source};
use thalweg_bp::step_record;
use thalweg_bp::trailer::{self, Trailer};
use thalweg_bp::wire::{Cursor, Put, patch_u64};
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId, write_all_at};
use thalweg_types::checksum::crc32c;
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

/// How to recover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Return the repairs, change nothing.
    pub dry_run: bool,
    /// Keep steps without all process groups, marked partial, and later ones.
    pub keep_partial: bool,
    /// Do not check whether a process writes the file. If one does, its output in flight may be lost.
    pub even_if_written: bool,
}

/// The repairs of a recovery.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Steps of the file afterwards: one more than the last step.
    pub steps: u64,
    /// Number of indexed process groups, if the index was rebuilt from them.
    pub process_groups: Option<u64>,
    /// Steps with process groups in the file that are not indexed; `keep_partial` indexes them.
    pub dropped: Vec<u64>,
    /// Whether the file was changed, or would be without a dry run.
    pub changed: bool,
    /// The repairs as text, in order.
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
/// `NotReady` if a process writes the file, or may write it, in a dry run too; `NotFound` if there is neither file nor subfile; `Torn` if
/// it contains no whole step; `Unsupported` for files of the other byte order; the failure of a read. The file is unchanged in all these
/// cases; a failed write leaves a file that can be recovered again.
pub fn recover(layout: &dyn Layout, path: &str, options: Options) -> Result<Recovery> {
    let numbers = object::subfiles(layout, path)?;
    let file = match Object::open(layout, path) {
        Ok(file) => Some(file),
        Err(e) if e.kind() == ErrorKind::NotFound && !numbers.is_empty() => None,
        Err(e) => return Err(e),
    };
    if !options.even_if_written {
        writers::check_no_writer(layout, path)?;
    }
    let run = Run { layout, path, options };
    let stale = run.stale_spills()?;
    let mut done = run.file(file, &numbers)?;
    for path in stale {
        done.act(format!("removed {path}, which a process that was killed left"));
        if !options.dry_run {
            layout.remove(&path)?;
        }
    }
    Ok(done)
}

impl Run<'_> {
    fn file(&self, file: Option<Object>, numbers: &[u32]) -> Result<Recovery> {
        let (path, run) = (self.path, self);
        let found = file.as_ref().map(|f| Live::find(f).map_err(|e| e.in_object(path)));
        match (found, &file) {
            (Some(Ok(live)), Some(file)) => run.keep(file, &live, numbers),
            (Some(Err(e)), _) if e.kind() != ErrorKind::Torn => Err(e),
            (reason, _) => run.rebuild(file.as_ref(), numbers, reason.and_then(|r| r.err())),
        }
    }

    /// Spill files beside the output; its writers have ended.
    fn stale_spills(&self) -> Result<Vec<String>> {
        let last = self.path.rsplit('/').next().unwrap_or(self.path);
        let folder = match self.path.strip_suffix(last).unwrap_or("") {
            "/" => "/",
            other => other.trim_end_matches('/'),
        };
        let names = match self.layout.list(folder) {
            Ok(names) => names,
            // If the folder cannot be listed, its files remain; the output can be recovered nevertheless.
            Err(e) if e.kind() != ErrorKind::Io => {
                return Ok(Vec::new());
            }
            Err(e) => return Err(e),
        };
        let rank = |name: &&String| {
            let rank = name.strip_prefix(last).and_then(|rest| rest.strip_prefix(".spill."));
            rank.is_some_and(|rank| !rank.is_empty() && rank.bytes().all(|b| b.is_ascii_digit()))
        };
        let beside = |name: &String| self.path[..self.path.len() - last.len()].to_string() + name;
        let mut stale: Vec<String> = names.iter().filter(rank).map(beside).collect();
        stale.sort();
        Ok(stale)
    }
}

#[derive(Clone, Copy)]
struct Run<'a> {
    layout: &'a dyn Layout,
    path: &'a str,
    options: Options,
}

/// A process group to be indexed, and its position.
struct Item<'a> {
    object: usize,
    found: &'a Found,
    time: u32,
    rank: u32,
    /// Number among this rank's groups of one open, group and step: updates follow the output that they extend.
    nth: u32,
}

/// A scanned object.
struct Scanned {
    object: Object,
    file_index: u32,
    scan: Scan,
    /// End of the last whole process group found by the scan; 0 for none. Bytes before it are never truncated.
    end: u64,
    /// It ends with another library's index: not truncated.
    foreign: bool,
}

/// Empty process groups of lost steps, to be written at byte `at` of an object.
#[derive(Default)]
struct Fillers {
    object: usize,
    at: u64,
    bytes: Vec<u8>,
}

/// A process group that is not indexed and stays, as [`Tag::Left`] lists it: time index, rank, subfile, offset.
type LeftGroup = (u32, u32, u32, u64);

fn put_left(index: &mut Index, groups: &[LeftGroup]) {
    index.records.0.remove(&(Tag::Left as u32));
    for (time, rank, subfile, offset) in groups {
        let list = index.records.list(Tag::Left);
        [*time, *rank, *subfile, 0].into_iter().for_each(|n| list.put_u32(n));
        list.put_u64(*offset);
    }
}

/// Steps in words: `3, 4, 7`. `first_time`: the time index of step 0.
fn steps_of(first_time: u32, times: impl Iterator<Item = u32>) -> String {
    let steps: BTreeSet<u32> = times.map(|t| t.saturating_sub(first_time)).collect();
    steps.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

impl Run<'_> {
    /// Recovers a file that has a valid last end.
    fn keep(&self, file: &Object, live: &Live, numbers: &[u32]) -> Result<Recovery> {
        let mut done = Recovery { steps: u64::from(live.step_count()), ..Recovery::default() };
        // Opening a file that was closed for good trusts its mark; here every byte of the index is checked.
        if let Some(Err(e)) = live.base.as_ref().map(|b| b.check_bytes(file)) {
            if !source::is_damage(&e) {
                return Err(e.in_object(self.path).safe("nothing was changed"));
            }
            let as_many = |r: Recovery| r.steps >= done.steps && r.dropped.iter().all(|s| *s >= done.steps);
            if self.trial(file, numbers)?.is_some_and(as_many) {
                return self.rebuild(Some(file), numbers, None);
            }
            return Err(e.in_object(self.path).safe("nothing was changed; steps that still read can be copied"));
        }
        let subfiles = live.base.as_ref().map_or(!numbers.is_empty(), |b| b.footer.subfiles);
        let ours = !live.step_records.is_empty() || live.base.as_ref().is_some_and(|b| b.extension.is_some());
        if ours && live.torn > 0 && holds_an_index(file, live.end)? {
            let mut index = live.load(file).map_err(|e| e.in_object(self.path))?;
            // The closed output is a further step, or an update of the last one.
            let known = (done.steps, Some(index.process_group_count()));
            let more = |r: Recovery| (r.steps, r.process_groups) > known && r.dropped.is_empty();
            if self.trial(file, numbers)?.is_some_and(more) {
                return self.rebuild(Some(file), numbers, None);
            }
            let damaged = index.records.list(Tag::Damaged);
            [live.end, live.torn].into_iter().for_each(|n| damaged.put_u64(n));
            done.act(format!(
                "wrote a full index after {} bytes with a damaged index, which remain; steps in them can't be read",
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
        let mut open = self.unindexed(file, live, numbers, (ours, subfiles))?;
        let mut done = self.keep_open(file, live, open.as_mut(), subfiles, done)?;
        if let Some(open) = &open.filter(|_| subfiles) {
            self.trim(open, &mut done)?;
        }
        Ok(done)
    }

    /// The process groups of an output that was not closed, in the file or its subfiles; `None` if there can be none.
    ///
    /// - `ours`, `subfiles`: whether the file has our index, and subfiles.
    fn unindexed(
        &self,
        file: &Object,
        live: &Live,
        numbers: &[u32],
        (ours, subfiles): (bool, bool),
    ) -> Result<Option<Unindexed>> {
        let order = live.base.as_ref().map_or(ByteOrder::NATIVE, |b| b.footer.order);
        if order != ByteOrder::NATIVE {
            let groups =
                if subfiles || live.torn == 0 { Scan::default() } else { scan::scan_from(file, live.end, order)? };
            if groups.groups.iter().any(|g| g.trailer.is_some()) {
                return Err(other_order().in_object(self.path));
            }
            return Ok(None);
        }
        if if subfiles { !ours } else { live.torn == 0 && !self.options.keep_partial } {
            return Ok(None);
        }
        let index = live.load(file).map_err(|e| e.in_object(self.path))?;
        // Steps that only a damaged index lists are in the subfiles, where they stay.
        if subfiles && !index.records.get(Tag::Damaged).is_empty() {
            return Ok(None);
        }
        let indexed: HashSet<(u32, u32, u64)> =
            index.process_groups()?.into_iter().map(|g| (g.time_index, g.rank, g.offset)).collect();
        let scanned = if subfiles {
            numbers
                .iter()
                .map(|k| self.scan(Object::open(self.layout, &object::subfile(self.path, *k))?, *k))
                .collect::<Result<Vec<_>>>()?
        } else {
            // After the last indexed group; an earlier recovery's index may be between.
            let last = indexed.iter().map(|(.., offset)| *offset).max();
            let from = last.filter(|_| self.options.keep_partial).map_or(live.end, |last| last.min(live.end));
            let scan = scan::scan_from(file, from, order).map_err(|e| e.in_object(self.path))?;
            vec![Scanned { end: end_of(&scan), object: file.clone(), file_index: SINGLE_FILE, scan, foreign: false }]
        };
        let last_time = live.last_time();
        let partial = scan::partial_steps(index.records.get(Tag::Partial), order);
        let last_run = index.records.get(Tag::Run).chunks_exact(16).last().map(<[u8]>::to_vec);
        let last_run = last_run.and_then(|entry| Cursor::new(&entry, order, 0).u64("").ok());
        let mut offsets: Vec<u64> = indexed.iter().map(|(.., offset)| *offset).collect();
        offsets.sort_unstable();
        let mut open = Unindexed { index, scanned, offsets };
        for s in &mut open.scanned {
            let is_indexed = |g: &Found| {
                let rank = g.trailer.as_ref().map_or(0, |t| t.rank);
                indexed.contains(&(g.header.time_index, rank, g.extent.offset))
            };
            let behind = s.scan.groups.iter().filter(|g| is_indexed(g)).filter_map(|g| g.extent.end()).max();
            let behind = behind.unwrap_or(0);
            let run = |t: &Trailer| !subfiles || Some(t.run) == last_run;
            s.scan.groups.retain(|g| {
                let Some(trailer) = g.trailer.as_ref().filter(|t| t.time_index == g.header.time_index) else {
                    return false;
                };
                // More of the last step, unless that was closed without it or another open replaced the open that wrote it.
                let more = trailer.time_index == last_time
                    && run(trailer)
                    && !partial.iter().any(|(time, ..)| *time == last_time);
                !is_indexed(g) && g.extent.offset >= behind && (trailer.time_index > last_time || more)
            });
        }
        Ok(Some(open))
    }

    /// Writes the index that a file with a live end needs, and cuts torn bytes off.
    fn keep_open(
        &self,
        file: &Object,
        live: &Live,
        open: Option<&mut Unindexed>,
        subfiles: bool,
        mut done: Recovery,
    ) -> Result<Recovery> {
        let groups = open.iter().flat_map(|o| o.scanned.iter()).map(|s| s.scan.groups.len()).sum::<usize>();
        let records = live.base.as_ref().and_then(|b| b.records()).into_iter().chain([&live.steps.records]);
        let listed: Vec<LeftGroup> = records.flat_map(scan::left_groups).collect();
        let mut left = listed.clone();
        let (mut indexed, mut end) = (0, live.end);
        let mut index = match open.as_deref() {
            Some(open) => open.index.clone(),
            None if live.step_records.is_empty() => Index::default(),
            None => live.load(file).map_err(|e| e.in_object(self.path))?,
        };
        let (first_time, mut filled_to) = (live.first_time(), None);
        if let Some(open) = open.as_deref().filter(|_| groups > 0) {
            let known = scan::partial_steps(index.records.get(Tag::Partial), ByteOrder::NATIVE);
            let mut partial = known.clone();
            let none = HashSet::new();
            let chosen =
                chosen(&open.scanned, &mut partial, &none, self.options.keep_partial, live.last_time(), first_time);
            let at = |s: &Scanned, g: &Found| {
                let rank = g.trailer.as_ref().map_or(0, |t| t.rank);
                (g.header.time_index, rank, s.file_index, g.extent.offset)
            };
            if !subfiles {
                end = end.max(chosen.end_of_data);
            }
            let all = open.scanned.iter().flat_map(|s| s.scan.groups.iter().map(move |g| at(s, g)));
            let mut kept = HashSet::new();
            if self.options.keep_partial {
                kept = chosen.kept.iter().map(|i| at(&open.scanned[i.object], i.found)).collect();
                let fillers = self.add(&mut index, &open.scanned, &chosen.kept, end)?;
                let filled = self.fill(&open.scanned, &fillers)?;
                end = if subfiles { end } else { end.max(filled) };
                filled_to = (!fillers.bytes.is_empty()).then_some((fillers.object, filled));
                put_partial(&mut index, &partial[known.len()..]);
                indexed = kept.len();
            }
            left.extend(all);
            left.retain(|group| !kept.contains(group));
            left.sort_unstable();
            left.dedup();
        }
        let (shown, last_time) = (live.last_time(), index.last_time().max(live.last_time()));
        if indexed > 0 {
            let times = index.process_groups()?;
            let n = times.len() - indexed;
            let steps = steps_of(first_time, times[n..].iter().map(|g| g.time_index));
            let partial = scan::partial_steps(index.records.get(Tag::Partial), ByteOrder::NATIVE);
            let partial = steps_of(first_time, partial.iter().map(|(time, ..)| *time).filter(|time| *time >= shown));
            let marked = if partial.is_empty() { String::new() } else { format!("; marked partial: {partial}") };
            done.act(format!("indexed {indexed} process groups that were not closed, of step {steps}{marked}"));
            done.process_groups = Some(index.process_group_count());
            done.steps = u64::from(index.last_time().saturating_sub(first_time)) + 1;
        }
        let more: Vec<LeftGroup> = left.iter().filter(|group| !listed.contains(group)).copied().collect();
        if !more.is_empty() {
            let steps = steps_of(first_time, more.iter().map(|(time, ..)| *time));
            done.act(format!(
                "left {} whole process groups of step {steps}, which was not closed, in the file, not indexed; keeping partial \
                 steps indexes them",
                more.len()
            ));
        }
        let beyond: BTreeSet<u64> =
            left.iter().filter(|(time, ..)| *time > last_time).map(|(time, ..)| live.step_of(*time)).collect();
        done.dropped = beyond.into_iter().collect();
        if indexed > 0 || !more.is_empty() || !live.step_records.is_empty() {
            let over = file.length().saturating_sub(end.min(file.length()));
            let over = if live.torn > 0 && over > 0 { format!(", over {over} torn bytes") } else { String::new() };
            let behind = match live.step_records.len() {
                0 => String::new(),
                n => format!(" behind {n} step records"),
            };
            done.act(format!("wrote a full index{behind}{over}"));
            put_left(&mut index, &left);
            self.write_index(&index, end, subfiles, OpenWrite::Existing)?;
            if let (Some(open), Some((i, filled))) = (open, filled_to) {
                open.scanned[i].end = open.scanned[i].end.max(filled);
            }
            return Ok(done);
        }
        if live.torn > 0 {
            done.act(format!("cut {} torn bytes after the last index", live.torn));
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
        Ok(done)
    }

    /// The result of rebuilding the index from the process groups; `None` if it cannot be rebuilt.
    ///
    /// # Errors
    /// The failure of reading the file: then the result is unknown.
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
        act(&*object).and_then(|()| object.close()).map_err(|e| e.in_object(self.path))
    }

    /// Writes a full index at `start`, syncs it, then cuts off all later bytes.
    fn write_index(&self, index: &Index, start: u64, subfiles: bool, how: OpenWrite) -> Result<()> {
        let encoded = index.encode(start, subfiles, true)?;
        if self.options.dry_run {
            return Ok(());
        }
        let object = self.layout.open_write(self.path, how, WriterId(0))?;
        let end = start + encoded.length;
        let write = || {
            encoded.write(|before, slices| {
                let slices: Vec<IoSlice<'_>> = slices.iter().map(|s| IoSlice::new(s)).collect();
                object.write_at(start + before, &slices)
            })?;
            object.sync()?;
            if object.length()? > end {
                object.truncate(end)?;
                object.sync()?;
            }
            Ok(())
        };
        write().and_then(|()| object.close()).map_err(|e: Error| e.in_object(self.path))
    }

    /// Cuts off the bytes after the last whole process group of each subfile. Torn bytes that do not follow all indexed process
    /// groups of all subfiles are damage instead of an interrupted output, and remain.
    fn trim(&self, open: &Unindexed, done: &mut Recovery) -> Result<()> {
        for s in open.scanned.iter().filter(|s| !s.foreign) {
            let last = open.offsets.last();
            let damaged = s.scan.torn.as_ref().is_some_and(|(at, _)| last.is_some_and(|o| o >= at));
            if s.end > 0 && s.end < s.object.length() && !damaged {
                done.act(format!(
                    "cut {} bytes of no whole process group off {}",
                    s.object.length() - s.end,
                    s.object.path
                ));
                self.cut(&s.object.path, s.end)?;
            }
        }
        Ok(())
    }

    fn cut(&self, path: &str, end: u64) -> Result<()> {
        if self.options.dry_run {
            return Ok(());
        }
        let object = self.layout.open_write(path, OpenWrite::Existing, WriterId(0))?;
        let cut = object.truncate(end).and_then(|()| object.sync());
        cut.and_then(|()| object.close()).map_err(|e| e.in_object(path))
    }

    /// No index is left: it is rebuilt from the process groups.
    fn rebuild(&self, file: Option<&Object>, numbers: &[u32], reason: Option<Error>) -> Result<Recovery> {
        let mut scanned = Vec::new();
        if let Some(file) = file {
            scanned.push(self.scan(file.clone(), SINGLE_FILE)?);
        }
        let subfiles = scanned.first().is_none_or(|s| s.scan.groups.is_empty()) && !numbers.is_empty();
        let mut partial: Vec<(u32, u32, u32)> = scanned.iter().flat_map(|s| s.scan.partial.clone()).collect();
        let listed: HashSet<(u32, u64)> = scanned
            .iter()
            .flat_map(|s| s.scan.left.iter().map(|(_, _, subfile, offset)| (*subfile, *offset)))
            .collect();
        if subfiles {
            scanned.clear();
            for k in numbers {
                scanned.push(self.scan(Object::open(self.layout, &object::subfile(self.path, *k))?, *k)?);
            }
        }
        // Files of ours count from 1, even if process groups are lost. In files of other libraries the first group determines the
        // number.
        let first = scanned.iter().flat_map(|s| &s.scan.groups).min_by_key(|g| g.header.time_index);
        let first_time = first.filter(|g| g.trailer.is_none()).map_or(1, |g| g.header.time_index.max(1));
        let groups = chosen(&scanned, &mut partial, &listed, self.options.keep_partial, 0, first_time);
        if groups.kept.is_empty() {
            let more = match groups.left.len() {
                0 => String::new(),
                n => format!("; keeping partial steps indexes {n} whole process groups"),
            };
            let mut error =
                Error::new(ErrorKind::Torn, format!("it contains no whole step; nothing was changed{more}"))
                    .in_object(self.path);
            if let Some(reason) = reason {
                error = error.caused_by(reason);
            }
            return Err(error);
        }
        let mut done = Recovery { dropped: groups.dropped.clone(), ..Recovery::default() };
        let mut index = Index::default();
        let fillers = self.add(&mut index, &scanned, &groups.kept, groups.end_of_data)?;
        let filler_of = fillers.object;
        let last_time = index.last_time();
        partial.retain(|(time, ..)| *time <= last_time);
        put_partial(&mut index, &partial);
        put_left(&mut index, &groups.left);
        done.steps = u64::from(index.last_time().saturating_sub(first_time)) + 1;
        index.set_first_time(first_time);
        let n = index.process_group_count();
        done.process_groups = Some(n);
        done.act(format!("made an index of {n} process groups, {} steps", done.steps));
        if !groups.left.is_empty() {
            done.actions.push(format!(
                "left {} whole process groups of step {} in the file, not indexed; keeping partial steps indexes them",
                groups.left.len(),
                steps_of(first_time, groups.left.iter().map(|(time, ..)| *time))
            ));
        }
        let filled = self.fill(&scanned, &fillers)?;
        if subfiles {
            if !fillers.bytes.is_empty() {
                scanned[filler_of].end = filled;
            }
            self.write_index(&index, 0, true, OpenWrite::Any)?;
            for s in scanned.iter().filter(|s| !s.foreign && s.end > 0 && s.end < s.object.length()) {
                let bytes = s.object.length() - s.end;
                done.act(format!("cut {bytes} bytes of no whole process group off {}", s.object.path));
                self.cut(&s.object.path, s.end)?;
            }
        } else {
            let lost = file.map_or(0, Object::length).saturating_sub(groups.end_of_data);
            if lost > 0 {
                done.act(format!("cut {lost} bytes after the last whole process group"));
            }
            self.write_index(&index, filled.max(groups.end_of_data), false, OpenWrite::Existing)?;
        }
        Ok(done)
    }

    /// Adds process groups to an index, in their order. Returns data to be written first, after the data of an object: an empty
    /// process group for each step between them that has none.
    ///
    /// - `end`: end of the file's data, if it has no subfiles.
    fn add(&self, index: &mut Index, scanned: &[Scanned], items: &[Item<'_>], end: u64) -> Result<Fillers> {
        let mut fillers = Fillers::default();
        let (Some(first), Some(last)) = (items.first(), items.last()) else { return Ok(fillers) };
        let of = &scanned[first.object];
        let is_subfile = of.file_index != SINGLE_FILE;
        (fillers.object, fillers.at) = (first.object, if is_subfile { of.end } else { end });
        let before = index.last_time();
        let first_time = if before > 0 && first.time > before { before + 1 } else { first.time };
        let lost = u64::from(last.time - first_time.min(last.time)).saturating_sub(items.len() as u64);
        if lost > (1 << 16) + 16 * items.len() as u64 {
            let what = format!("{} process groups have step numbers from {first_time} to {}", items.len(), last.time);
            return Err(Error::new(ErrorKind::Corrupt, what).in_object(self.path));
        }
        let mut openings = Openings::default();
        openings.add(index.records.get(Tag::Run), ByteOrder::NATIVE);
        let mut kept = items.iter().peekable();
        for time in first_time..=last.time {
            if kept.peek().is_some_and(|i| i.time > time) {
                // A lost step gets an empty process group: ADIOS 1.13 breaks on files with fewer groups than steps.
                let header = Header { group: first.found.header.group.clone(), time_index: time, ..Header::default() };
                let offset = fillers.at + fillers.bytes.len() as u64;
                // Nothing is written after another library's index.
                index.add_process_group(&header, 0, if of.foreign { 0 } else { offset });
                if !of.foreign {
                    fillers.bytes.extend(empty_group(&header, offset, of.file_index));
                }
                continue;
            }
            while let Some(item) = kept.next_if(|i| i.time == time) {
                let s = &scanned[item.object];
                let fragment = item
                    .found
                    .fragment_undoing(&s.object, s.file_index, item.rank, ByteOrder::NATIVE, &|transform, bytes| {
                        // Facts that only the values contain are not worth losing the index.
                        let transform = decode::before(transform.clone(), item.found.header.fortran);
                        if !decode::worthwhile(&transform, bytes.len() as u64).unwrap_or(false) {
                            return Ok(None);
                        }
                        Ok(decode::values(&transform, ByteOrder::NATIVE, bytes).ok())
                    })
                    .map_err(|e| e.in_object(&*s.object.path))?;
                let (run, ranks) = item.found.trailer.as_ref().map_or((0, 0), |t| (t.run, t.ranks));
                // Files of other libraries contain no run ids.
                if run != 0 || !openings.of(time).is_empty() {
                    let opening = Opening { run, first_time: time, ranks };
                    let mut entries = Vec::new();
                    let joins = index.last_time() >= time;
                    openings.missing(opening, joins).into_iter().for_each(|o| o.encode(&mut entries));
                    openings.add(&entries, ByteOrder::NATIVE);
                    index.records.list(Tag::Run).extend(entries);
                }
                index.append_fragment(&fragment.to_fragment())?;
            }
        }
        Ok(fillers)
    }

    /// Writes the empty process groups of lost steps; returns the new end of their object's data.
    fn fill(&self, scanned: &[Scanned], fillers: &Fillers) -> Result<u64> {
        let end = fillers.at + fillers.bytes.len() as u64;
        if fillers.bytes.is_empty() || self.options.dry_run {
            return Ok(end);
        }
        let path = &*scanned[fillers.object].object.path;
        let object = self.layout.open_write(path, OpenWrite::Existing, WriterId(0))?;
        let written = write_all_at(&*object, fillers.at, &fillers.bytes).and_then(|()| object.sync());
        written.and_then(|()| object.close()).map_err(|e| e.in_object(path))?;
        Ok(end)
    }

    fn scan(&self, object: Object, file_index: u32) -> Result<Scanned> {
        let end = foreign_end(&object)?;
        let view = Before { source: &object, end: end.unwrap_or(object.length()) };
        let scan = scan::scan(&view, ByteOrder::NATIVE).map_err(|e| e.in_object(&*object.path))?;
        if scan.groups.is_empty() {
            let other = if ByteOrder::NATIVE == ByteOrder::Little { ByteOrder::Big } else { ByteOrder::Little };
            if source::unless_damaged(scan::group_at(&view, 0, other))?.is_some() {
                return Err(other_order().in_object(&*object.path));
            }
        }
        Ok(Scanned { end: end_of(&scan), object, file_index, scan, foreign: end.is_some() })
    }
}

fn other_order() -> Error {
    Error::new(ErrorKind::Unsupported, "written in the other byte order: recover it on a machine of that order")
}

/// First byte after the last whole process group.
fn end_of(scan: &Scan) -> u64 {
    scan.groups.iter().filter_map(|g| g.extent.end()).max().unwrap_or(0)
}

fn put_partial(index: &mut Index, partial: &[(u32, u32, u32)]) {
    for (time, rank, kind) in partial {
        let list = index.records.list(Tag::Partial);
        [*time, *rank, *kind, 0].into_iter().for_each(|n| list.put_u32(n));
    }
}

/// The part of a file with a live end that belongs to an output that was not closed.
struct Unindexed {
    /// The index of all closed steps.
    index: Index,
    /// The file or its subfiles, with only the whole process groups of that output.
    scanned: Vec<Scanned>,
    /// Offsets of the indexed process groups in all subfiles, ascending.
    offsets: Vec<u64>,
}

/// Whether a whole index or step record with a wrong checksum follows byte `from`: if it was interrupted by a kill it has no end,
/// if it was damaged later it has both ends, or one of them.
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

/// End of the process groups of an object that ends with another library's own index.
fn foreign_end(object: &Object) -> Result<Option<u64>> {
    let base =
        source::unless_damaged(Base::ending_at(object, object.length())).map_err(|e| e.in_object(&*object.path))?;
    Ok(base.flatten().filter(|b| b.extension.is_none()).map(|b| b.footer.process_groups))
}

struct Chosen<'a> {
    /// In the order of the index.
    kept: Vec<Item<'a>>,
    /// Steps not indexed.
    dropped: Vec<u64>,
    /// Process groups of ours that remain in the file without being indexed.
    left: Vec<LeftGroup>,
    /// First byte after the last whole process group of any object.
    end_of_data: u64,
}

/// Identifies the data of one open, group and step: time index, group, run.
type Output<'a> = (u32, &'a str, Option<u64>);

/// Whether a later open wrote an output again that is incomplete or was left by an earlier recovery.
fn superseded(key: &Output<'_>, items: &[Item<'_>], outputs: &BTreeMap<Output<'_>, Vec<Item<'_>>>) -> bool {
    let of_step = outputs.range((key.0, key.1, None)..=(key.0, key.1, Some(u64::MAX)));
    of_step.filter(|(other, _)| other.2 != key.2).any(|(_, later)| {
        // The order of two opens follows from an object that both wrote to.
        let orders = items.iter().flat_map(|i| {
            let there = later.iter().filter(|l| l.object == i.object);
            there.map(|l| l.found.extent.offset > i.found.extent.offset)
        });
        let mut shared = orders.peekable();
        if shared.peek().is_none() { missing(later, 1).is_empty() } else { shared.all(|behind| behind) }
    })
}

/// The ranks that are missing from an output, at most `most`.
fn missing(items: &[Item<'_>], most: usize) -> Vec<u32> {
    let there: BTreeSet<u32> = items.iter().map(|i| i.rank).collect();
    let wanted = items.iter().filter_map(|i| i.found.trailer.as_ref()).map(|t| t.ranks).max().unwrap_or(0);
    (0..wanted).filter(|r| !there.contains(r)).take(most).collect()
}

/// Selects the process groups to keep. `partial` gains the missing ranks of kept steps.
///
/// - `listed`: subfile and offset of process groups that an earlier recovery left; `closed`: the last indexed time index, 0 for
///   none: a later step is whole only if a scan finds no index at all; `first_time`: the time index of step 0.
fn chosen<'a>(
    scanned: &'a [Scanned],
    partial: &mut Vec<(u32, u32, u32)>,
    listed: &HashSet<(u32, u64)>,
    keep_partial: bool,
    closed: u32,
    first_time: u32,
) -> Chosen<'a> {
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
    // The number of ranks comes from a trailer, which may be damaged: the list is limited.
    const MOST_MISSING: usize = 1 << 16;
    let known: BTreeSet<u32> = partial.iter().map(|(time, ..)| *time).collect();
    let was_left = |items: &[Item<'_>]| {
        items.iter().any(|i| listed.contains(&(scanned[i.object].file_index, i.found.extent.offset)))
    };
    let closed_whole = |time: u32, items: &[Item<'_>]| {
        closed == 0 && !was_left(items) && (missing(items, 1).is_empty() || known.contains(&time))
    };
    let mut replaced: BTreeSet<Output<'a>> = BTreeSet::new();
    let mut times: BTreeMap<u32, bool> = BTreeMap::new();
    for (key, items) in &outputs {
        let whole = closed_whole(key.0, items);
        if !whole && superseded(key, items, &outputs) {
            replaced.insert(*key);
        } else {
            *times.entry(key.0).or_default() |= whole;
        }
    }
    // Up to the first time index that is missing or not whole.
    let mut last = 0;
    for (time, whole) in &times {
        if !keep_partial && (!whole || (last > 0 && *time != last + 1)) {
            break;
        }
        last = *time;
    }
    let mut chosen = Chosen {
        kept: Vec::new(),
        dropped: times.keys().filter(|t| **t > last).map(|t| u64::from(t.saturating_sub(first_time))).collect(),
        left: Vec::new(),
        end_of_data: scanned.iter().map(|s| s.end).max().unwrap_or(0),
    };
    for (key, items) in outputs {
        let time = key.0;
        let keep = time <= last && !replaced.contains(&key) && (keep_partial || closed_whole(time, &items));
        if keep {
            if !known.contains(&time) {
                let missing = missing(&items, MOST_MISSING.saturating_sub(partial.len()).max(1));
                partial.extend(missing.iter().map(|r| (time, *r, u32::from(ErrorKind::Torn.code()))));
            }
            chosen.kept.extend(items);
        } else {
            let ours = items.iter().filter(|i| i.found.trailer.is_some());
            let left = ours.map(|i| (i.time, i.rank, scanned[i.object].file_index, i.found.extent.offset));
            chosen.left.extend(left);
        }
    }
    // Outputs of one step in the order of writing, each in the order of ranks.
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

/// An empty process group, for a step whose own groups are lost.
fn empty_group(header: &Header, offset: u64, file_index: u32) -> Vec<u8> {
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
        file_index,
        framing: crc32c(&bytes),
        blocks: Vec::new(),
    };
    trailer.encode(&mut bytes);
    bytes
}
