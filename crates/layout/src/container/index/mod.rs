//! The index of a container: maps bytes of the logical file to offsets of data logs.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`run`] | records at regular strides |
//! | [`fold`] | detecting runs while records are written |
//! | [`block`] | the bytes of an index log |
//! | [`tables`] | the index of an open file in memory |
//! | [`distributed`] | the index of an open file in an ordered store on disk, or a part of it |
//! | [`spans`] | byte ranges, looked up by overlap |
//!
//! | module | index log of a writer | index of an open file |
//! |--------|-----------------------|-----------------------|
//! | `flat` | every record, about 7 bytes | 24.5 bytes a record |
//! | `pattern` | runs, about 20 to 40 bytes each, however many records | 129 bytes a run, 24.5 a record that fits none |
//! | `distributed` | as `pattern` | in a file on local disk; its cache, a few MiB, in memory |

use super::{clock, record};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use thalweg_types::{Error, ErrorKind, Result, holes};

pub mod block;
pub mod distributed;
pub mod fold;
pub mod run;
pub mod spans;
pub mod tables;

use block::Entry;
use run::Run;

/// The index module of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Module {
    /// Every record is an entry.
    Flat,
    /// Records at regular strides are folded into runs.
    #[default]
    Pattern,
    /// Runs in the index log; for reading, an ordered store on local disk.
    Distributed,
}

impl Module {
    /// The module of this name in a mount table.
    ///
    /// # Errors
    /// `Config`, listing the known names.
    pub fn from_name(name: &str) -> Result<Module> {
        match name {
            "flat" => Ok(Module::Flat),
            "pattern" => Ok(Module::Pattern),
            "distributed" => Ok(Module::Distributed),
            _ => {
                let what = format!("index module \"{name}\" is not known; modules: flat, pattern, distributed");
                Err(Error::new(ErrorKind::Config, what))
            }
        }
    }

    /// Its name in a mount table.
    pub fn name(self) -> &'static str {
        match self {
            Module::Flat => "flat",
            Module::Pattern => "pattern",
            Module::Distributed => "distributed",
        }
    }

    pub(super) fn code(self) -> u8 {
        self as u8
    }

    pub(super) fn from_code(code: u8) -> Option<Module> {
        [Module::Flat, Module::Pattern, Module::Distributed].into_iter().find(|m| m.code() == code)
    }

    /// A recorder for a writer's index log.
    pub fn recorder(self) -> Box<dyn Recorder> {
        match self {
            Module::Flat => Box::new(AsWritten::default()),
            Module::Pattern | Module::Distributed => Box::new(Folded::default()),
        }
    }
}

/// Collects a writer's records for the next block of its index log.
pub trait Recorder: Send {
    /// Adds a record, whose offset in the data log must exceed all earlier ones.
    fn add(&mut self, record: Run);
    /// The collected entries.
    fn buffered(&self) -> Vec<Entry>;
    /// Takes the collected entries out.
    fn take(&mut self) -> Vec<Entry>;
    /// Number of collected entries.
    fn count(&self) -> usize;
}

#[derive(Default)]
struct AsWritten(Vec<Entry>);

impl Recorder for AsWritten {
    fn add(&mut self, record: Run) {
        self.0.push(Entry::Run(record));
    }

    fn buffered(&self) -> Vec<Entry> {
        self.0.clone()
    }

    fn take(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.0)
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

#[derive(Default)]
struct Folded(fold::Fold);

impl Recorder for Folded {
    fn add(&mut self, record: Run) {
        self.0.add(record);
    }

    fn buffered(&self) -> Vec<Entry> {
        self.0.clone().take().into_iter().map(Entry::Run).collect()
    }

    fn take(&mut self) -> Vec<Entry> {
        self.0.take().into_iter().map(Entry::Run).collect()
    }

    fn count(&self) -> usize {
        self.0.count()
    }
}

/// Collects the entries of all index logs when a file is opened.
pub trait Loader {
    /// Adds records of a strand.
    ///
    /// # Errors
    /// `NoMemory` where a table in memory cannot grow; `Io` where the index on disk cannot be written. The file's bytes
    /// are unaffected.
    fn add(&mut self, strand: u32, run: &Run) -> Result<()>;
    /// Finishes collecting; the result can be searched.
    ///
    /// # Errors
    /// `Io` where the index on disk cannot be written.
    fn finish(self: Box<Self>, strands: &[Strand], cuts: &Cuts) -> Result<Box<dyn Body>>;
}

/// The records of an open file, looked up by the bytes that they overlap.
pub trait Body: Send + Sync {
    /// Adds every record that overlaps bytes `from..to`, in any order; records may overlap each other.
    ///
    /// # Errors
    /// `Io` where the index on disk cannot be read.
    fn pieces(&self, from: u64, to: u64, out: &mut Vec<MappedRange>) -> Result<()>;
    /// The end, `offset` at most, of the last record before `offset` that is no hole, or a later offset, `offset` at most; 0 if there
    /// is none. Records count even if later ones replaced them. `None` where too many would have to be looked at.
    ///
    /// # Errors
    /// As [`Body::pieces`].
    fn end_before(&self, offset: u64) -> Result<Option<u64>>;
    /// Bytes of memory held.
    fn memory(&self) -> usize;
    /// Entries held: records, runs.
    fn entries(&self) -> u64;
}

/// A range of the file and its offset in a data log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappedRange {
    /// First byte.
    pub start: u64,
    /// End.
    pub end: u64,
    /// Offset of the first byte in the data log; for a hole, of its record.
    pub log: u64,
    /// Number of its strand.
    pub strand: u32,
    /// Whether the range is a hole.
    pub hole: bool,
}

impl MappedRange {
    fn cut(self, start: u64, end: u64) -> MappedRange {
        let log = if self.hole { self.log } else { self.log + (start - self.start) };
        MappedRange { start, end, log, ..self }
    }
}

/// A segment of a session: a data log.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// Writer number.
    pub writer: u32,
    /// The session.
    pub session: u64,
    /// Number of the segment.
    pub segment: u32,
    /// Number of the store, among the container's stores.
    pub store: u8,
    /// Number of the folder on that store.
    pub folder: u8,
}

/// A strand: the entries of a data log at one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Strand {
    /// Number of the source.
    pub source: u32,
    /// The clock.
    pub clock: u64,
    /// Whether the entries are appends: they are moved together to the file's end at their point of the order.
    pub appended: bool,
}

/// Position of a strand in the order of all records: clock, writer, session, segment.
type Turn = (u64, u32, u64, u32);

fn turn(clock: u64, source: &Source) -> Turn {
    (clock, source.writer, source.session, source.segment)
}

/// A new length of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Clock of the cut.
    pub clock: u64,
    /// Number of the source that contains the cut.
    pub source: u32,
    /// Offset of the cut in its data log.
    pub log: u64,
    /// The new length.
    pub length: u64,
}

/// For each clock, the length to which later cuts truncated its writes.
#[derive(Debug, Clone, Default)]
pub struct Cuts(BTreeMap<u64, u64>);

impl Cuts {
    /// Adds a cut.
    pub fn add(&mut self, clock: u64, length: u64) {
        // Each clock is assigned the shortest length of all cuts from that clock on.
        let from_here = self.0.range(clock..).next().map_or(u64::MAX, |(_, l)| *l).min(length);
        self.0.insert(clock, from_here);
        self.0.range_mut(..clock).for_each(|(_, l)| *l = (*l).min(length));
    }

    /// The length to which writes of a clock were truncated. Cuts of the same clock precede its writes.
    pub fn end(&self, clock: u64) -> u64 {
        self.0.range(clock.saturating_add(1)..).next().map_or(u64::MAX, |(_, length)| *length)
    }
}

/// Number of bytes that a search for stored bytes looks up at a time.
const STEP: u64 = 1 << 20;
/// Largest number of lookups of a search for stored bytes.
const MOST_STEPS: usize = 4096;

/// The index of an open file: all records, all cuts, in one order.
pub struct Merged {
    /// Data logs.
    pub sources: Vec<Source>,
    /// Strands: entries of the data logs, by clock.
    pub strands: Vec<Strand>,
    /// Cuts.
    pub cut_list: Vec<Cut>,
    cuts: Cuts,
    body: Box<dyn Body>,
    /// Entries written since the index was loaded.
    overlay: BTreeMap<u64, MappedRange>,
    found: HashMap<Source, u32>,
    found_strands: HashMap<Strand, u32>,
    /// Offsets in the file at which the strands of appended records begin.
    bases: BTreeMap<Turn, u64>,
    /// The last position in the order of all records.
    last: Turn,
    /// Length of the file.
    pub length: u64,
}

impl Merged {
    /// Precedence of overlapping records: the greater one wins.
    fn order(&self, piece: &MappedRange) -> (u64, u32, u64, u32, u64) {
        let strand = self.strands[piece.strand as usize];
        let source = &self.sources[strand.source as usize];
        (strand.clock, source.writer, source.session, source.segment, piece.log)
    }

    /// Adds an entry that was written to a data log since the index was loaded. `false` if the entry would move an append
    /// that the index contains, or is an append before known entries: the index is then invalid.
    pub fn add(&mut self, source: &Source, entry: &Entry) -> bool {
        let turn = match entry {
            Entry::Cut { clock, .. } => (*clock, 0, 0, 0),
            Entry::Run(run) => turn(run.clock, source),
        };
        let base = match entry {
            Entry::Run(run) if run.appended => match self.bases.get(&turn) {
                Some(base) => *base,
                None if turn < self.last => return false,
                None => {
                    self.bases.insert(turn, self.length);
                    self.length
                }
            },
            _ => 0,
        };
        if let Entry::Run(run) = entry {
            let from = if run.appended { Bound::Excluded(turn) } else { Bound::Included(turn) };
            let next = self.bases.range((from, Bound::Unbounded)).next();
            if next.is_some_and(|(_, next)| base.saturating_add(run.bounds().1) > *next) {
                return false;
            }
        }
        if matches!(entry, Entry::Cut { .. }) && turn < self.last {
            return false;
        }
        self.last = self.last.max(turn);
        let source = self.source(source);
        match entry {
            Entry::Cut { clock, length, log } => {
                self.cut_list.push(Cut { clock: *clock, source, log: *log, length: *length });
                self.cuts.add(*clock, *length);
                self.length = *length;
                // Bytes after the cut are removed permanently.
                let behind: Vec<u64> = self.overlay.range(*length..).map(|(start, _)| *start).collect();
                for start in behind {
                    let clock_of = |p: &MappedRange| self.strands[p.strand as usize].clock;
                    if self.overlay.get(&start).is_some_and(|p| clock_of(p) < *clock) {
                        self.overlay.remove(&start);
                    }
                }
            }
            Entry::Run(run) => {
                let strand = self.strand(Strand { source, clock: run.clock, appended: run.appended });
                let run = moved(run, base).normal();
                let mut pieces = Vec::new();
                run.meeting(0, u64::MAX, |start, log| {
                    pieces.push(MappedRange { start, end: start + run.length, log, strand, hole: run.hole });
                });
                for piece in pieces {
                    let end = piece.end.min(self.cuts.end(run.clock));
                    self.length = self.length.max(end);
                    if end > piece.start {
                        self.paint(MappedRange { end, ..piece });
                    }
                }
            }
        }
        true
    }

    /// Offset in the file at which a data log's appends of a clock begin.
    pub fn base(&self, source: &Source, clock: u64) -> Option<u64> {
        self.bases.get(&turn(clock, source)).copied()
    }

    /// Highest clock in the index, of published records and of unpublished ones found in logs.
    pub fn clock_of_last(&self) -> u64 {
        self.last.0
    }

    /// Whether the index contains entries later in the order than a data log's entries of this clock.
    pub fn has_after(&self, source: &Source, clock: u64) -> bool {
        self.last > turn(clock, source)
    }

    /// Whether the index contains appends.
    pub fn has_appended(&self) -> bool {
        !self.bases.is_empty()
    }

    fn source(&mut self, source: &Source) -> u32 {
        if let Some(found) = self.found.get(source) {
            return *found;
        }
        self.sources.push(source.clone());
        let number = self.sources.len() as u32 - 1;
        self.found.insert(source.clone(), number);
        number
    }

    fn strand(&mut self, strand: Strand) -> u32 {
        if let Some(found) = self.found_strands.get(&strand) {
            return *found;
        }
        self.strands.push(strand);
        let number = self.strands.len() as u32 - 1;
        self.found_strands.insert(strand, number);
        number
    }

    fn paint(&mut self, piece: MappedRange) {
        let mut map = std::mem::take(&mut self.overlay);
        paint(&mut map, piece, |a, b| self.order(a) > self.order(b));
        self.overlay = map;
    }

    /// The pieces of bytes `from..to`, in order. Bytes without a piece were never written or are beyond the end.
    ///
    /// # Errors
    /// For module `distributed`, errors of the disk that stores the index; `Corrupt` for a damaged entry.
    pub fn resolve(&self, from: u64, to: u64) -> Result<Vec<MappedRange>> {
        let mut pieces = self.layers(from, to)?;
        pieces.sort_unstable_by_key(|p| p.start);
        if pieces.windows(2).all(|pair| pair[0].end <= pair[1].start) {
            return Ok(pieces);
        }
        let mut map = BTreeMap::new();
        for piece in pieces {
            paint(&mut map, piece, |a, b| self.order(a) > self.order(b));
        }
        Ok(map.into_values().collect())
    }

    /// The end of the last stored bytes before `offset`, or a later offset, `offset` at most: no byte between the returned offset and
    /// `offset` is stored. `offset` itself behind the end of the file.
    ///
    /// # Errors
    /// As [`Merged::resolve`].
    /// # Cost
    /// A few lookups; more where much was written and then punched or truncated away, 4096 at most.
    pub fn stored_before(&self, offset: u64) -> Result<u64> {
        let mut at = offset;
        for _ in 0..MOST_STEPS {
            if at == 0 || offset > self.length {
                break;
            }
            let Some(end) = self.recorded_before(at)? else { break };
            at = end;
            // Later holes and truncations may have removed the record, or a part of it.
            let from = at.saturating_sub(STEP);
            if let Some(last) = self.resolve(from, at)?.iter().rev().find(|p| !p.hole) {
                return Ok(last.end);
            }
            at = from;
        }
        Ok(at)
    }

    /// The first byte of `from..end` that a record covers which is no hole, even if later ones replaced it; or an earlier byte where
    /// too much would have to be looked at. `end` where there is none: nothing is stored in between.
    ///
    /// # Errors
    /// As [`Merged::resolve`].
    /// # Cost
    /// As [`holes::stored_after`].
    pub fn recorded_after(&self, from: u64, end: u64) -> Result<u64> {
        holes::stored_after(from, end, |offset| Ok(self.recorded_before(offset)?.unwrap_or(offset)))
    }

    /// As [`Body::end_before`], with the records that were added since the index was loaded.
    fn recorded_before(&self, offset: u64) -> Result<Option<u64>> {
        let new = self.overlay.range(..offset).rev().map(|(_, p)| p).find(|p| !p.hole);
        let new = new.map_or(0, |p| p.end.min(offset));
        Ok(self.body.end_before(offset)?.map(|end| end.max(new)))
    }

    /// Every record that overlaps bytes `from..to` and was not truncated away; records may overlap each other.
    ///
    /// # Errors
    /// As [`Merged::resolve`].
    pub fn layers(&self, from: u64, to: u64) -> Result<Vec<MappedRange>> {
        let to = to.min(self.length);
        let mut pieces = Vec::new();
        if from >= to {
            return Ok(pieces);
        }
        self.body.pieces(from, to, &mut pieces)?;
        if !self.overlay.is_empty() {
            let before = self.overlay.range(..from).next_back().filter(|(_, p)| p.end > from);
            pieces.extend(before.into_iter().chain(self.overlay.range(from..to)).map(|(_, p)| *p));
        }
        let mut last = (u32::MAX, u64::MAX);
        pieces.retain_mut(|p| {
            if last.0 != p.strand {
                last = (p.strand, self.cuts.end(self.strands[p.strand as usize].clock));
            }
            let (start, end) = (p.start.max(from), p.end.min(to).min(last.1));
            if start < end {
                *p = p.cut(start, end);
            }
            start < end
        });
        Ok(pieces)
    }

    /// Clock of a piece.
    pub fn clock(&self, piece: &MappedRange) -> u64 {
        self.strands[piece.strand as usize].clock
    }

    /// Data log of a piece.
    pub fn source_of(&self, piece: &MappedRange) -> &Source {
        &self.sources[self.strands[piece.strand as usize].source as usize]
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        // The nodes of a B-tree are at least half full.
        let overlay = self.overlay.len() * (size_of::<(u64, MappedRange)>() * 3 / 2);
        let tables =
            self.sources.capacity() * size_of::<Source>() * 2 + self.strands.capacity() * size_of::<Strand>() * 2;
        self.body.memory() + overlay + tables + self.cut_list.capacity() * size_of::<Cut>()
    }

    /// Number of entries: records, runs, and pieces written since the index was loaded.
    pub fn entries(&self) -> u64 {
        self.body.entries() + self.overlay.len() as u64
    }
}

/// Inserts a piece into non-overlapping pieces. Of overlapping bytes the piece that `wins` prefers stays.
fn paint(map: &mut BTreeMap<u64, MappedRange>, piece: MappedRange, wins: impl Fn(&MappedRange, &MappedRange) -> bool) {
    let before = map.range(..piece.start).next_back().map(|(_, p)| *p).filter(|p| p.end > piece.start);
    let met: Vec<MappedRange> = before.into_iter().chain(map.range(piece.start..piece.end).map(|(_, p)| *p)).collect();
    let mut at = piece.start;
    for old in met {
        if wins(&old, &piece) {
            if old.start > at {
                map.insert(at, piece.cut(at, old.start));
            }
            at = at.max(old.end);
            continue;
        }
        map.remove(&old.start);
        if old.start < piece.start {
            map.insert(old.start, old.cut(old.start, piece.start));
        }
        if old.end > piece.end {
            map.insert(piece.end, old.cut(piece.end, old.end));
        }
    }
    if at < piece.end {
        map.insert(at, piece.cut(at, piece.end));
    }
}

/// Gathers entries of index logs, in any order, into the index of an open file.
pub struct Build {
    sources: Vec<Source>,
    strands: Vec<Strand>,
    /// Largest end of each strand.
    ends: Vec<u64>,
    found: HashMap<Source, u32>,
    found_strands: HashMap<Strand, u32>,
    cut_list: Vec<Cut>,
    /// Appends by strand: their offsets are known when all entries were added.
    appended: Vec<(u32, Run)>,
    loader: Box<dyn Loader>,
}

impl Build {
    /// An empty builder; records go to `loader`.
    pub fn new(loader: Box<dyn Loader>) -> Build {
        Build {
            sources: Vec::new(),
            strands: Vec::new(),
            ends: Vec::new(),
            found: HashMap::new(),
            found_strands: HashMap::new(),
            cut_list: Vec::new(),
            appended: Vec::new(),
            loader,
        }
    }

    /// Assigns a number to a data log.
    pub fn source(&mut self, source: &Source) -> u32 {
        if let Some(found) = self.found.get(source) {
            return *found;
        }
        self.sources.push(source.clone());
        let number = self.sources.len() as u32 - 1;
        self.found.insert(source.clone(), number);
        number
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// Errors of the disk that holds the index, of module `distributed`.
    pub fn add(&mut self, source: u32, entry: &Entry) -> Result<()> {
        match entry {
            Entry::Cut { clock, length, log } => {
                self.cut_list.push(Cut { clock: *clock, source, log: *log, length: *length });
                Ok(())
            }
            Entry::Run(run) => {
                let strand = Strand { source, clock: run.clock, appended: run.appended };
                let number = match self.found_strands.get(&strand) {
                    Some(found) => *found,
                    None => {
                        self.strands.push(strand);
                        self.ends.push(0);
                        let number = self.strands.len() as u32 - 1;
                        self.found_strands.insert(strand, number);
                        number
                    }
                };
                let end = &mut self.ends[number as usize];
                *end = (*end).max(run.bounds().1);
                if run.appended {
                    self.appended.push((number, *run));
                    return Ok(());
                }
                self.loader.add(number, run)
            }
        }
    }

    /// The index.
    ///
    /// # Errors
    /// Errors of the disk that holds the index, of module `distributed`.
    pub fn finish(mut self) -> Result<Merged> {
        let mut cuts = Cuts::default();
        self.cut_list.iter().for_each(|cut| cuts.add(cut.clock, cut.length));
        let order = |cut: &Cut| {
            let source = &self.sources[cut.source as usize];
            (cut.clock, source.writer, source.session, source.segment, cut.log)
        };
        let last = self.cut_list.iter().max_by_key(|cut| order(cut)).copied();
        let (last_cut, mut length) = last.map_or((0, 0), |cut| (cut.clock, cut.length));
        for (strand, end) in self.strands.iter().zip(&self.ends) {
            if strand.clock >= last_cut {
                length = length.max(*end);
            }
        }
        self.cut_list.sort_unstable_by_key(order);
        let mut bases = BTreeMap::new();
        if !self.appended.is_empty() {
            length = self.settle(&mut bases);
            for (strand, run) in std::mem::take(&mut self.appended) {
                let of = self.strands[strand as usize];
                let base = bases.get(&turn(of.clock, &self.sources[of.source as usize])).copied().unwrap_or(0);
                if base.saturating_add(run.bounds().1) > record::MOST {
                    return Err(Error::new(ErrorKind::Corrupt, "appended bytes beyond the largest offset"));
                }
                self.loader.add(strand, &moved(&run, base))?;
            }
        }
        let turns = self.strands.iter().map(|s| turn(s.clock, &self.sources[s.source as usize]));
        let last = turns.chain(self.cut_list.last().map(|cut| (cut.clock, 0, 0, 0))).max().unwrap_or_default();
        let body = self.loader.finish(&self.strands, &cuts)?;
        Ok(Merged {
            sources: self.sources,
            strands: self.strands,
            cut_list: self.cut_list,
            cuts,
            body,
            overlay: BTreeMap::new(),
            found: self.found,
            found_strands: self.found_strands,
            bases,
            last,
            length,
        })
    }

    /// Computes the offset at which each strand of appended records begins, from all strands and cuts in their order.
    /// Returns the file's length.
    fn settle(&self, bases: &mut BTreeMap<Turn, u64>) -> u64 {
        let mut strands: Vec<_> = self.strands.iter().zip(&self.ends).collect();
        let turn_of = |s: &Strand| turn(s.clock, &self.sources[s.source as usize]);
        strands.sort_unstable_by_key(|(s, _)| (turn_of(s), s.appended));
        let mut cuts = self.cut_list.iter().peekable();
        let mut length = 0;
        for (strand, end) in strands {
            while let Some(cut) = cuts.next_if(|cut| cut.clock <= strand.clock) {
                length = cut.length;
            }
            if strand.appended {
                bases.insert(turn_of(strand), length);
                length = length.saturating_add(*end);
            } else {
                length = length.max(*end);
            }
        }
        cuts.last().map_or(length, |cut| cut.length)
    }
}

/// Appended records with their offsets in the file.
pub(super) fn moved(run: &Run, base: u64) -> Run {
    Run { start: run.start.saturating_add(base), appended: false, ..*run }
}

/// The highest clock of the sessions.
pub(super) fn highest(summaries: impl Iterator<Item = clock::Summary>) -> u64 {
    summaries.map(|s| s.clock()).max().unwrap_or(0)
}
