//! Collective open of a file: each rank reads some of the index logs. This module contains the steps of one rank; the
//! caller (`thalweg_collective_open`) sends bytes between ranks.
//!
//! 1. One rank calls [`Container::opening`] and sends its bytes to all: the file's stamp and sessions at one moment.
//! 2. Each rank reads its share of the index logs, [`Opening::shares`].
//! 3. Index modules `flat` and `pattern`: each rank gathers its share ([`Container::read_share`]); fragments are joined on
//!    their way to one rank ([`Fragment::join`]), whose bytes go to all, and each opens: [`Container::open_joined`].
//! 4. Index module `distributed`: each entry that a rank reads ([`Container::tell_share`]) goes to the ranks that own the
//!    ranges it meets, and each rank opens with the entries it received: [`Container::open_part`]. No rank holds the whole
//!    index. The offsets of appended records are computed after all ranks have sent the length of each clock of each log
//!    ([`Reach`], [`Bases`]).
//!
//! Each index log is read once, and one rank lists the marks. With independent opens every rank would read every index log:
//! 10,000 ranks times 10,000 logs.
//!
//! Sources: Bent et al., SC 2009 (PLFS: ranks read some of the index each and exchange it).

use super::index::block::{self, BLOCK_HEADER, Entry};
use super::index::distributed::Part;
use super::index::run::Run;
use super::index::tables::Gather;
use super::index::{Build, Merged, Module, Source, moved};
use super::inline_object::Opened;
use super::marks::{self, Mark};
use super::part::PartBuilder;
use super::record::{MOST, SEGMENT_HEADER};
use super::stamp::Stamp;
use super::wire::{Cursor, bad, put_counted, put_varint, seal, sealed};
use super::{Container, Reader, load};
use std::collections::BTreeMap;
use thalweg_store::ReadObject;
use thalweg_types::{ErrorKind, Result};

/// Entries in a block of a fragment.
const MOST_ENTRIES: usize = 1 << 16;

/// The state of a container as one rank saw it, so that all ranks read the same state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The file's stamp.
    pub stamp: Stamp,
    /// Names in the folder of marks and in the inline object.
    pub names: Vec<String>,
    /// The stamp and the records behind it, of stamp version 3.
    pub behind: Vec<u8>,
}

impl Opening {
    /// Encodes the opening for other ranks.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = b"TWOPENIN".to_vec();
        put_counted(&mut out, &self.stamp.encode());
        put_varint(&mut out, self.names.len() as u64);
        self.names.iter().for_each(|name| put_counted(&mut out, name.as_bytes()));
        put_counted(&mut out, &self.behind);
        seal(&mut out);
        out
    }

    /// Decodes the result of [`Opening::encode`].
    ///
    /// # Errors
    /// `Torn` if bytes are missing, `Corrupt` for a wrong checksum or an invalid field.
    pub fn decode(bytes: &[u8]) -> Result<Opening> {
        let mut c = Cursor::new(sealed(bytes, "opening")?);
        if c.take(8, "opening")? != b"TWOPENIN" {
            return Err(bad(ErrorKind::Corrupt, "this is no opening of a container").at_byte(0));
        }
        let stamp = Stamp::decode(c.counted("stamp")?)?;
        let count = c.varint("names")?;
        let names = (0..count).map(|_| c.text("name")).collect::<Result<_>>()?;
        let behind = c.counted("bytes behind the stamp")?.to_vec();
        Ok(Opening { stamp, names, behind })
    }

    /// The container's index module.
    pub fn module(&self) -> Module {
        self.stamp.module
    }

    /// Whether all writes are published: then the index logs are complete, and ranks can share their reading. Otherwise
    /// data logs are scanned too, and their content changes with time: each rank opens such a file independently.
    ///
    /// A file of index module `distributed` with appends is not settled either: the offset of an append follows only from
    /// the whole index.
    ///
    /// # Errors
    /// `Corrupt` if the name of a mark is damaged.
    pub fn is_settled(&self) -> Result<bool> {
        let marks = self.marks()?;
        let placed = self.module() != Module::Distributed
            || !marks.iter().any(|m| m.published.is_some_and(|p| p.summary.base.is_some()));
        Ok(placed && marks.iter().all(|m| m.closed() || m.open.is_none()))
    }

    pub(super) fn marks(&self) -> Result<Vec<Mark>> {
        marks::read(&self.names)
    }

    /// Numbers, from 0, of the sessions that each rank reads: every session once, index bytes distributed evenly.
    ///
    /// # Errors
    /// `Corrupt` if the name of a mark is damaged.
    pub fn shares(&self, ranks: usize) -> Result<Vec<Vec<usize>>> {
        let lengths: Vec<u64> = self.marks()?.iter().map(|m| m.published.map_or(0, |p| p.index)).collect();
        Ok(share(&lengths, ranks))
    }
}

/// Distributes items of these lengths to ranks: the longest first, each to the rank with the fewest bytes.
pub fn share(lengths: &[u64], ranks: usize) -> Vec<Vec<usize>> {
    let ranks = ranks.max(1);
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(lengths[*i]), *i));
    let mut least: std::collections::BinaryHeap<_> = (0..ranks).map(|rank| std::cmp::Reverse((0u64, rank))).collect();
    let mut shares = vec![Vec::new(); ranks];
    for i in order {
        let Some(std::cmp::Reverse((has, rank))) = least.pop() else { break };
        shares[rank].push(i);
        // Every log costs an open, also a short one.
        least.push(std::cmp::Reverse((has + lengths[i] + 4096, rank)));
    }
    shares.iter_mut().for_each(|share| share.sort_unstable());
    shares
}

/// Content of index logs, in the encoding for messages and snapshots: about 7 bytes a record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fragment {
    /// Number of data logs.
    logs: u64,
    /// The encoded data logs, one after the other.
    body: Vec<u8>,
}

const MAGIC: &[u8] = b"TWFRAGMT";

impl Fragment {
    /// Adds a data log.
    ///
    /// - `fill`: passes the entries, and returns the end of the part of the log that they cover.
    ///
    /// # Errors
    /// Errors of `fill`; nothing is added then.
    pub fn add(
        &mut self,
        source: &Source,
        fill: impl FnOnce(&mut dyn FnMut(Entry) -> Result<()>) -> Result<u64>,
    ) -> Result<()> {
        let (mut open, mut blocks, mut count) = (Vec::new(), Vec::new(), 0);
        let mut end_block = |open: &mut Vec<Entry>| {
            let to = open.iter().map(Entry::log_end).max().unwrap_or(SEGMENT_HEADER);
            put_counted(&mut blocks, &block::encode(source.session, SEGMENT_HEADER, to, open));
            count += 1;
            open.clear();
        };
        let to = fill(&mut |entry| {
            open.push(entry);
            if open.len() == MOST_ENTRIES {
                end_block(&mut open);
            }
            Ok(())
        })?;
        if !open.is_empty() {
            end_block(&mut open);
        }
        for v in [u64::from(source.writer), source.session, u64::from(source.segment)] {
            put_varint(&mut self.body, v);
        }
        self.body.extend_from_slice(&[source.store, source.folder]);
        put_varint(&mut self.body, count);
        self.body.append(&mut blocks);
        put_varint(&mut self.body, to);
        self.logs += 1;
        Ok(())
    }

    /// Adds the logs of another fragment.
    pub fn join(&mut self, mut other: Fragment) {
        self.logs += other.logs;
        self.body.append(&mut other.body);
    }

    /// Passes all entries to `tell`, each with its data log.
    ///
    /// # Errors
    /// `Corrupt` for invalid bytes, which no earlier call checks; errors of `tell`.
    pub fn each(&self, mut tell: impl FnMut(&Source, Entry) -> Result<()>) -> Result<()> {
        let mut c = Cursor::new(&self.body);
        for _ in 0..self.logs {
            let narrow = |v: u64| u32::try_from(v).map_err(|_| bad(ErrorKind::Corrupt, "a number beyond 32 bits"));
            let writer = narrow(c.varint("writer")?)?;
            let (session, segment) = (c.varint("session")?, narrow(c.varint("segment")?)?);
            let source = Source { writer, session, segment, store: c.u8("store")?, folder: c.u8("folder")? };
            for _ in 0..c.varint("blocks")? {
                let bytes = c.counted("block")?;
                let head = block::decode_head(bytes)?;
                let entries = bytes.get(BLOCK_HEADER as usize..).unwrap_or_default();
                block::decode(&head, entries, |entry| tell(&source, entry))?;
            }
            c.varint("end")?;
        }
        match c.is_empty() {
            true => Ok(()),
            false => Err(bad(ErrorKind::Corrupt, "bytes behind a fragment of an index")),
        }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.body.capacity()
    }

    /// Encodes the fragment, for messages and snapshots.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.body.len() + 24);
        out.extend_from_slice(MAGIC);
        put_varint(&mut out, self.logs);
        out.extend_from_slice(&self.body);
        seal(&mut out);
        out
    }

    /// Decodes the result of [`Fragment::encode`]. Compares the checksum; entries are checked by [`each`](Fragment::each).
    ///
    /// # Errors
    /// `Torn` if bytes are missing, `Corrupt` if the checksum does not match.
    pub fn decode(bytes: &[u8]) -> Result<Fragment> {
        let what = "fragment of an index";
        let inside = sealed(bytes, what)?;
        let mut c = Cursor::new(inside);
        if c.take(8, what)? != MAGIC {
            return Err(bad(ErrorKind::Corrupt, "this is no fragment of an index").at_byte(0));
        }
        let logs = c.varint("logs")?;
        Ok(Fragment { logs, body: c.rest().to_vec() })
    }
}

/// Entries of data logs, collected in the order in which they are added.
#[derive(Debug, Default)]
pub struct Pile {
    logs: Vec<(Source, Vec<Entry>)>,
    count: usize,
}

impl Pile {
    /// Adds an entry; returns the number of entries.
    pub fn add(&mut self, source: &Source, entry: Entry) -> usize {
        match self.logs.last_mut() {
            Some((of, entries)) if of == source => entries.push(entry),
            _ => self.logs.push((source.clone(), vec![entry])),
        }
        self.count += 1;
        self.count
    }

    /// Takes all entries out.
    pub fn take(&mut self) -> Fragment {
        let mut fragment = Fragment::default();
        for (source, entries) in self.logs.drain(..) {
            // This `fill` cannot fail.
            let _ = fragment.add(&source, |tell| entries.into_iter().try_for_each(tell).map(|()| 0));
        }
        self.count = 0;
        fragment
    }
}

/// The largest end of the records of each clock in each data log, and all cuts. The offset of each appended record follows
/// from all ranks' values. 40 bytes for each clock of a log.
#[derive(Debug, Default)]
pub struct Reach {
    /// Largest end, by data log, clock, and whether the records are appends.
    ends: BTreeMap<(Source, u64, bool), u64>,
    cuts: Pile,
    appended: bool,
}

impl Reach {
    /// Includes an entry.
    pub fn note(&mut self, source: &Source, entry: &Entry) {
        match entry {
            Entry::Cut { .. } => {
                self.cuts.add(source, *entry);
            }
            Entry::Run(run) => {
                let end = self.ends.entry((source.clone(), run.clock, run.appended)).or_default();
                *end = (*end).max(run.bounds().1);
                self.appended |= run.appended;
            }
        }
    }

    /// Whether there are appends.
    pub fn has_appended(&self) -> bool {
        self.appended
    }

    /// Takes the values out, for messages: for each clock one record of that length, or a hole if the clock has no appends.
    pub fn take(&mut self) -> Fragment {
        let mut fragment = self.cuts.take();
        let mut pile = Pile::default();
        for ((source, clock, appended), end) in std::mem::take(&mut self.ends) {
            let run = Run::one(clock, 0, end, 2 * SEGMENT_HEADER);
            pile.add(&source, Entry::Run(Run { hole: !appended, appended, ..run }));
        }
        fragment.join(pile.take());
        fragment
    }
}

/// Offsets in the file at which appended records begin.
pub struct Bases(Merged);

impl Bases {
    /// Computes the offsets from all ranks' values ([`Reach`]).
    ///
    /// # Errors
    /// `Corrupt` where `all` is damaged.
    pub fn of(all: &Fragment) -> Result<Bases> {
        let mut build = Build::new(Box::new(Gather::default()));
        load::add_fragment(all, &mut build)?;
        build.finish().map(Bases)
    }

    /// Length of the file.
    pub fn length(&self) -> u64 {
        self.0.length
    }

    /// The appended records of a run, with their offsets in the file.
    ///
    /// # Errors
    /// `Corrupt` if they would exceed the largest offset, or if their log is unknown.
    pub fn place(&self, source: &Source, run: &Run) -> Result<Run> {
        let base = self.0.base(source, run.clock);
        let base = base.filter(|base| base.checked_add(run.bounds().1).is_some_and(|end| end <= MOST));
        let what = "appended bytes beyond the largest offset, or of a log that is not known";
        base.map(|base| moved(run, base)).ok_or_else(|| bad(ErrorKind::Corrupt, what))
    }
}

impl Container {
    /// Reads the state of a file that all ranks then open together.
    ///
    /// # Errors
    /// Errors of opening a file for reading.
    pub fn opening(&self, path: &str) -> Result<Opening> {
        let file = self.look(&self.store_name(path, "open")?)?;
        let behind = file.place.inline.as_ref().map(|inline| inline.bytes(&file.place.stamp)).unwrap_or_default();
        Ok(Opening { stamp: file.place.stamp.clone(), names: file.seen(), behind })
    }

    /// The stamp and the inline records of an opening. The inline object is opened when it is needed.
    fn opened_by(&self, path: &str, opening: &Opening) -> Result<Opened> {
        match opening.stamp.tail {
            true => Opened::new(self.first(), &self.store_name(path, "open")?, None, &opening.behind),
            false => Ok(Opened { stamp: opening.stamp.clone(), inline: None }),
        }
    }

    /// Reads the index logs of some sessions of an opening, given by their numbers in it.
    ///
    /// # Errors
    /// `NotReady` or `Torn` if a session is not closed ([`Opening::is_settled`]); the failure of a log, with the log's
    /// name.
    pub fn read_share(&self, path: &str, opening: &Opening, sessions: &[usize]) -> Result<Fragment> {
        let file = self.file(self.opened_by(path, opening)?);
        load::gathered(&file.place, &chosen(opening, sessions)?).map_err(|e| named(e, path))
    }

    /// As [`read_share`](Container::read_share), but passes each entry to `tell` while reading, in the order of its log.
    /// Only one block of a log is in memory at a time.
    ///
    /// # Errors
    /// Errors of [`read_share`](Container::read_share), and of `tell`.
    pub fn tell_share(
        &self,
        path: &str,
        opening: &Opening,
        sessions: &[usize],
        tell: impl FnMut(&Source, Entry) -> Result<()>,
    ) -> Result<()> {
        let file = self.file(self.opened_by(path, opening)?);
        load::told(&file.place, &chosen(opening, sessions)?, tell).map_err(|e| named(e, path))
    }

    /// Opens a file with an index that ranks gathered; if sessions have published since, the index is loaded again at the
    /// first read.
    ///
    /// # Errors
    /// `Corrupt` where `all` or `opening` is damaged; errors of opening a file for reading.
    pub fn open_joined(&self, path: &str, opening: &Opening, all: &Fragment) -> Result<Box<dyn ReadObject>> {
        let path = self.store_name(path, "open")?;
        let file = self.file(self.opened_by(&path, opening)?);
        file.see(&opening.names)?;
        let index = load::joined(&file.place, &self.options, all)?;
        file.take_index(&opening.marks()?, index);
        Ok(Box::new(Reader { file, path }))
    }

    /// Begins to open a file with a part of its index, whose entries are added to the [`PartBuilder`].
    ///
    /// # Errors
    /// `Corrupt` if `opening` is damaged; `Io` if the container was removed.
    pub fn open_part(&self, path: &str, opening: &Opening, part: Part) -> Result<PartBuilder> {
        let path = self.store_name(path, "open")?;
        let file = self.file(self.opened_by(&path, opening)?);
        let build = load::builder(&file.place, &self.options, part)?;
        Ok(PartBuilder::new(file, path, opening.marks()?, part, build, self.options.index_cache))
    }
}

fn named(e: thalweg_types::Error, path: &str) -> thalweg_types::Error {
    // An error that names a log keeps that name.
    if e.place().object.is_some() { e } else { e.in_object(path) }
}

fn chosen(opening: &Opening, sessions: &[usize]) -> Result<Vec<Mark>> {
    let marks = opening.marks()?;
    Ok(sessions.iter().filter_map(|k| marks.get(*k).cloned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_log_is_read_once_and_no_rank_reads_much_more(lengths in prop::collection::vec(0..100_000u64, 0..200), ranks in 1..40usize) {
            let shares = share(&lengths, ranks);
            let mut all: Vec<usize> = shares.iter().flatten().copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..lengths.len()).collect::<Vec<_>>());
            let cost = |share: &Vec<usize>| share.iter().map(|i| lengths[*i] + 4096).sum::<u64>();
            let (most, total) = (shares.iter().map(cost).max().unwrap(), shares.iter().map(cost).sum::<u64>());
            let longest = lengths.iter().max().map_or(0, |l| l + 4096);
            prop_assert!(most <= total / ranks as u64 + longest);
        }

        #[test]
        fn no_bytes_make_a_fragment_by_chance(bytes: Vec<u8>) {
            prop_assert!(Fragment::decode(&bytes).is_err() && Opening::decode(&bytes).is_err());
        }

        #[test]
        fn fragments_say_the_same_joined_and_sent(counts in prop::collection::vec(0..5u64, 0..6), many in any::<bool>()) {
            let (mut joined, mut expected) = (Fragment::default(), Vec::new());
            for (writer, count) in counts.into_iter().enumerate() {
                let count = if many { count * (MOST_ENTRIES as u64 - 1) / 2 } else { count };
                let source = Source { writer: writer as u32, session: 7, segment: 1, store: 2, folder: 3 };
                let entries: Vec<Entry> = (0..count).map(|i| Entry::Run(Run::one(1, i * 9, 5, 112 + i * 53))).collect();
                let mut one = Fragment::default();
                one.add(&source, |tell| entries.iter().try_for_each(|e| tell(*e)).map(|()| 112 + count * 53)).unwrap();
                joined.join(Fragment::decode(&one.encode()).unwrap());
                expected.extend(entries.into_iter().map(|e| (source.clone(), e)));
            }
            let mut told = Vec::new();
            Fragment::decode(&joined.encode()).unwrap().each(|source, e| { told.push((source.clone(), e)); Ok(()) }).unwrap();
            prop_assert!(told == expected);
        }
    }
}
