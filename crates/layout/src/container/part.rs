//! A file whose index is distributed over ranks: the result of a collective open with index module `distributed`.
//!
//! | question | answer |
//! |----------|--------|
//! | which part | the ranges of the file in [`Part`]; the rank that reads an index log sends its entries ([`PartBuilder::add`]) |
//! | other ranks' ranges | are requested from their owners: [`PartFile::answer`] there, [`PartFile::learn`] here. No call waits for another rank |
//! | independent reads | owned or learned ranges; else `NotReady`, naming the owner |
//! | memory | own part: `index_cache`, as in a single process; learned ranges: about 100 bytes a piece, until [`PartFile::trim`] |
//! | consistency | the file as it was opened. After a compaction or truncation reads are `NotReady`: open it again |

use super::file::File;
use super::index::block::Entry;
use super::index::distributed::{Part, RANGE};
use super::index::run::Run;
use super::index::tables::Gather;
use super::index::{Build, MappedRange, Merged, Module, Source};
use super::marks::Mark;
use super::parallel::Fragment;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
use thalweg_store::ReadObject;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes of the file that an answer covers per lookup; doubled while a lookup finds few pieces.
const FIRST_STEP: u64 = 256 << 10;

/// Collects entries of index logs for a part.
pub struct PartBuilder {
    file: Arc<File>,
    path: String,
    marks: Vec<Mark>,
    part: Part,
    build: Build,
    cache: usize,
}

impl PartBuilder {
    pub(super) fn new(
        file: Arc<File>,
        path: String,
        marks: Vec<Mark>,
        part: Part,
        build: Build,
        cache: usize,
    ) -> PartBuilder {
        PartBuilder { file, path, marks, part, build, cache }
    }

    /// Adds an entry that overlaps a range of this part; cuts go to every part. The order does not matter.
    ///
    /// # Errors
    /// Errors of the disk that holds the part's index.
    pub fn add(&mut self, source: &Source, entry: &Entry) -> Result<()> {
        let number = self.build.source(source);
        self.build.add(number, entry)
    }

    /// Finishes the part. Its length is what this part knows; the file's length is the largest of all parts' lengths and is
    /// set with [`PartFile::is_long`].
    ///
    /// # Errors
    /// Errors of the disk that holds the part's index.
    pub fn finish(self) -> Result<PartFile> {
        let PartBuilder { file, path, marks, part, build, cache } = self;
        let (own, asked) = (build.finish()?, Mutex::new(KnownParts::new()?));
        Ok(PartFile { file, path, marks, part, own, asked, cache })
    }
}

/// Ranges of other parts that were learned from their owners.
struct KnownParts {
    index: Merged,
    /// Completely known ranges: first byte, end.
    ranges: BTreeMap<u64, u64>,
}

impl KnownParts {
    fn new() -> Result<KnownParts> {
        Ok(KnownParts { index: Build::new(Box::new(Gather::default())).finish()?, ranges: BTreeMap::new() })
    }

    fn knows(&self, from: u64, to: u64) -> bool {
        self.ranges.range(..=from).next_back().is_some_and(|(_, end)| *end >= to)
    }

    fn add_range(&mut self, mut from: u64, mut to: u64) {
        while let Some((start, end)) =
            self.ranges.range(..=to).next_back().map(|(s, e)| (*s, *e)).filter(|(_, end)| *end >= from)
        {
            self.ranges.remove(&start);
            (from, to) = (from.min(start), to.max(end));
        }
        self.ranges.insert(from, to);
    }
}

/// A range of the file that one rank owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// The owning rank.
    pub owner: u64,
    /// First byte.
    pub from: u64,
    /// End.
    pub to: u64,
}

/// See the module's page.
pub struct PartFile {
    file: Arc<File>,
    path: String,
    marks: Vec<Mark>,
    part: Part,
    own: Merged,
    asked: Mutex<KnownParts>,
    cache: usize,
}

impl PartFile {
    fn asked(&self) -> MutexGuard<'_, KnownParts> {
        self.asked.lock()
    }

    /// Length of the file.
    pub fn bytes(&self) -> u64 {
        self.own.length
    }

    /// Sets the length of the file.
    pub fn is_long(&mut self, bytes: u64) {
        self.own.length = bytes;
    }

    /// Splits bytes `from..to`, up to the end of the file, by owner.
    pub fn sections(&self, from: u64, to: u64) -> impl Iterator<Item = Section> + use<> {
        let (mut at, end, of) = (from, to.min(self.own.length), self.part.of);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let to = if of <= 1 { end } else { end.min((at / RANGE + 1).saturating_mul(RANGE)) };
            let section = Section { owner: Part::owner(at, of), from: at, to };
            at = to;
            Some(section)
        })
    }

    /// Whether the pieces of this section are known here: owned or learned.
    pub fn knows(&self, section: &Section) -> bool {
        section.owner == self.part.number || self.asked().knows(section.from, section.to)
    }

    /// The pieces of bytes `from..to`, which this part owns: about `most` pieces. Returns the end of the answered range and
    /// the pieces.
    ///
    /// # Errors
    /// `InvalidArgument` if another part owns some of the bytes: the requesting rank counts parts differently.
    pub fn answer(&self, from: u64, to: u64, most: usize) -> Result<(u64, Fragment)> {
        if from < to && self.sections(from, to).any(|section| section.owner != self.part.number) {
            let what =
                format!("part {} of {} got a request for a range of another part", self.part.number, self.part.of);
            return Err(Error::new(ErrorKind::InvalidArgument, what).at_byte(from));
        }
        let end = to.min(self.own.length);
        let (mut at, mut step, mut pieces) = (from, FIRST_STEP, Vec::<MappedRange>::new());
        while at < end && pieces.len() < most {
            let stop = end.min(at.saturating_add(step));
            let found = self.own.resolve(at, stop)?;
            if found.len() < most / 4 {
                step = step.saturating_mul(2);
            }
            for piece in found {
                match pieces.last_mut().filter(|last| goes_on(last, &piece)) {
                    Some(last) => last.end = piece.end,
                    None => pieces.push(piece),
                }
            }
            at = stop;
        }
        let upto = if at < end { at } else { to };
        // In the order of their logs, in which strides are most likely regular.
        pieces.sort_unstable_by_key(|p| (p.strand, p.log));
        let mut fragment = Fragment::default();
        for of_one in pieces.chunk_by(|a, b| self.own.source_of(a) == self.own.source_of(b)) {
            fragment.add(self.own.source_of(&of_one[0]), |tell| {
                let mut recorder = Module::Distributed.recorder();
                for p in of_one {
                    let run = Run { hole: p.hole, ..Run::one(self.own.clock(p), p.start, p.end - p.start, p.log) };
                    match p.hole {
                        true => tell(Entry::Run(run))?,
                        false => recorder.add(run),
                    }
                }
                recorder.take().into_iter().try_for_each(&mut *tell)?;
                Ok(of_one.last().map_or(0, |p| p.log))
            })?;
        }
        Ok((upto, fragment))
    }

    /// Adds an owner's answer for bytes `from..to`.
    ///
    /// # Errors
    /// `Corrupt` if `answer` is damaged; errors of the disk that holds the part's index.
    pub fn learn(&self, from: u64, to: u64, answer: &Fragment) -> Result<()> {
        let mut asked = self.asked();
        answer.each(|source, entry| match asked.index.add(source, &entry) {
            true => Ok(()),
            // Owners send appended records with their offsets in the file.
            false => Err(Error::new(ErrorKind::Corrupt, "an answer contains appended records")),
        })?;
        asked.add_range(from, to);
        Ok(())
    }

    /// Drops all learned entries if they use more memory than `index_cache`.
    ///
    /// # Errors
    /// Errors of the disk that holds the part's index.
    pub fn trim(&self) -> Result<()> {
        let mut asked = self.asked();
        if asked.index.memory() > self.cache {
            *asked = KnownParts::new()?;
        }
        Ok(())
    }

    /// Memory in bytes: of the own part, and of learned ranges.
    pub fn memory(&self) -> (usize, usize) {
        (self.own.memory(), self.asked().index.memory())
    }

    /// Number of entries of the own part.
    pub fn entries(&self) -> u64 {
        self.own.entries()
    }

    fn pieces(&self, from: u64, to: u64) -> Result<Vec<(MappedRange, Source)>> {
        let mut out = Vec::new();
        for section in self.sections(from, to) {
            let mut put = |index: &Merged| {
                let found = index.resolve(section.from, section.to)?;
                out.extend(found.into_iter().map(|p| (p, index.source_of(&p).clone())));
                Ok::<(), Error>(())
            };
            if section.owner == self.part.number {
                put(&self.own)?;
                continue;
            }
            let asked = self.asked();
            if !asked.knows(section.from, section.to) {
                let what = format!(
                    "rank {} of {} owns the index of these bytes and was not asked: read collectively, or call look_up_all before",
                    section.owner, self.part.of
                );
                return Err(Error::new(ErrorKind::NotReady, what).at_byte(section.from).safe("the file's bytes"));
            }
            put(&asked.index)?;
        }
        Ok(out)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let there = usize::try_from(self.own.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = there.min(out.len());
        let pieces = self.pieces(offset, offset.saturating_add(count as u64))?;
        match self.file.fill(offset, &mut out[..count], &pieces, None) {
            Err(e) if matches!(e.kind(), ErrorKind::Io | ErrorKind::Torn) && self.is_stale() => {
                let what = "the file was compacted, emptied or removed since it was opened: open it again";
                Err(Error::new(ErrorKind::NotReady, what).caused_by(e))
            }
            outcome => outcome.map(|()| count),
        }
    }

    fn is_stale(&self) -> bool {
        self.file.look().is_err() || self.file.marks() != self.marks
    }
}

fn goes_on(last: &MappedRange, piece: &MappedRange) -> bool {
    let log = if last.hole { last.log } else { last.log + (last.end - last.start) };
    (last.end, last.strand, last.hole, log) == (piece.start, piece.strand, piece.hole, piece.log)
}

impl ReadObject for PartFile {
    fn length(&self) -> Result<u64> {
        Ok(self.bytes())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.read(offset, out).map_err(|e| if e.place().object.is_some() { e } else { e.in_object(self.path.clone()) })
    }

    /// Within the range of the file that holds the byte before `offset`, if this part owns the range.
    fn stored_before(&self, offset: u64) -> Result<u64> {
        let of = self.part.of.max(1);
        let Some(last) = offset.checked_sub(1) else { return Ok(0) };
        if Part::owner(last, of) != self.part.number {
            return Ok(offset);
        }
        let start = if of == 1 { 0 } else { last / RANGE * RANGE };
        Ok(self.own.stored_before(offset).map_err(|e| e.in_object(self.path.clone()))?.max(start))
    }
}
