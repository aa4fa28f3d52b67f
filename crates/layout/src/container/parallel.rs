//! Opening a file by many ranks: each reads some of the index logs, the parts travel up a tree, the whole comes back down.
//! Who reads what and who sends to whom is a pure plan; moving the bytes is the caller's.
//!
//! 1. One rank asks [`Container::opening`](crate::Container::opening), and all get its bytes: which sessions there are, seen at one moment.
//! 2. Each rank reads its share: [`Container::read_share`](crate::Container::read_share).
//! 3. Along [`tree`], each rank sends what it has to the one above, which adds it: [`Fragment::join`].
//! 4. The first rank's bytes go to all, and each opens: [`Container::open_joined`](crate::Container::open_joined). No index log was read twice.
//!
//! Without it every rank reads every index log: 10,000 ranks times 10,000 logs.

use super::index::Source;
use super::index::block::{self, BLOCK_HEADER, Entry};
use super::marks::{self, Mark};
use super::wire::{Cursor, bad, put_counted, put_varint, seal, sealed};
use thalweg_types::{ErrorKind, Result};

/// Entries in a block of a fragment.
const MOST_ENTRIES: usize = 1 << 16;

/// What one rank saw of a container, for all to read the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Names of the marks.
    pub names: Vec<String>,
}

impl Opening {
    /// For sending.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = b"TWOPENIN".to_vec();
        put_varint(&mut out, self.names.len() as u64);
        self.names.iter().for_each(|name| put_counted(&mut out, name.as_bytes()));
        seal(&mut out);
        out
    }

    /// What was sent.
    pub fn decode(bytes: &[u8]) -> Result<Opening> {
        let mut c = Cursor::new(sealed(bytes, "opening")?);
        if c.take(8, "opening")? != b"TWOPENIN" {
            return Err(bad(ErrorKind::Corrupt, "this is no opening of a container").at_byte(0));
        }
        let count = c.varint("names")?;
        let names = (0..count).map(|_| c.text("name")).collect::<Result<_>>()?;
        Ok(Opening { names })
    }

    pub(super) fn marks(&self) -> Result<Vec<Mark>> {
        marks::read(&self.names)
    }

    /// Which sessions each rank reads, as numbers from 0: every session once, index bytes spread evenly.
    pub fn shares(&self, ranks: usize) -> Result<Vec<Vec<usize>>> {
        let lengths: Vec<u64> = self.marks()?.iter().map(|m| m.published.map_or(0, |p| p.index)).collect();
        Ok(share(&lengths, ranks))
    }
}

/// Deals things of these lengths to ranks, the longest first, each to the rank that has least.
pub fn share(lengths: &[u64], ranks: usize) -> Vec<Vec<usize>> {
    let ranks = ranks.max(1);
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(lengths[*i]), *i));
    let mut least: std::collections::BinaryHeap<_> = (0..ranks).map(|rank| std::cmp::Reverse((0u64, rank))).collect();
    let mut shares = vec![Vec::new(); ranks];
    for i in order {
        let Some(std::cmp::Reverse((has, rank))) = least.pop() else { break };
        shares[rank].push(i);
        // A log costs an open, however short it is.
        least.push(std::cmp::Reverse((has + lengths[i] + 4096, rank)));
    }
    shares.iter_mut().for_each(|share| share.sort_unstable());
    shares
}

/// Rounds of messages (from, to) that bring everything to rank 0; nobody receives from more than `fan - 1` others in a round.
pub fn tree(ranks: usize, fan: usize) -> Vec<Vec<(usize, usize)>> {
    let (fan, mut step, mut rounds) = (fan.max(2), 1, Vec::new());
    while step < ranks {
        let reach = step.saturating_mul(fan);
        let senders = (0..ranks).step_by(step).filter(|rank| rank % reach != 0);
        rounds.push(senders.map(|rank| (rank, rank - rank % reach)).collect());
        step = reach;
    }
    rounds
}

/// What index logs say, gathered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fragment {
    /// Each data log, how far of it is covered, and what it holds.
    pub logs: Vec<(Source, u64, Vec<Entry>)>,
}

impl Fragment {
    /// Adds another's.
    pub fn join(&mut self, other: Fragment) {
        self.logs.extend(other.logs);
    }

    /// For sending, and for snapshots.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = b"TWFRAGMT".to_vec();
        put_varint(&mut out, self.logs.len() as u64);
        for (source, to, entries) in &self.logs {
            for v in [u64::from(source.writer), source.session, u64::from(source.segment)] {
                put_varint(&mut out, v);
            }
            out.extend_from_slice(&[source.store, source.folder]);
            put_varint(&mut out, entries.chunks(MOST_ENTRIES).len() as u64);
            for run in entries.chunks(MOST_ENTRIES) {
                put_counted(&mut out, &block::encode(source.session, 64, *to, run));
            }
            put_varint(&mut out, *to);
        }
        seal(&mut out);
        out
    }

    /// What was sent.
    pub fn decode(bytes: &[u8]) -> Result<Fragment> {
        let mut c = Cursor::new(sealed(bytes, "fragment of an index")?);
        if c.take(8, "fragment of an index")? != b"TWFRAGMT" {
            return Err(bad(ErrorKind::Corrupt, "this is no fragment of an index").at_byte(0));
        }
        let mut fragment = Fragment::default();
        for _ in 0..c.varint("logs")? {
            let narrow = |v: u64| u32::try_from(v).map_err(|_| bad(ErrorKind::Corrupt, "a number beyond 32 bits"));
            let writer = narrow(c.varint("writer")?)?;
            let (session, segment) = (c.varint("session")?, narrow(c.varint("segment")?)?);
            let source = Source { writer, session, segment, store: c.u8("store")?, folder: c.u8("folder")? };
            let mut entries = Vec::new();
            for _ in 0..c.varint("blocks")? {
                let bytes = c.counted("block")?;
                let head = block::decode_head(bytes)?;
                block::decode(&head, bytes.get(BLOCK_HEADER as usize..).unwrap_or_default(), |entry| {
                    entries.push(entry);
                    Ok(())
                })?;
            }
            fragment.logs.push((source, c.varint("end")?, entries));
        }
        match c.is_empty() {
            true => Ok(fragment),
            false => Err(bad(ErrorKind::Corrupt, "bytes behind a fragment of an index")),
        }
    }
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
        fn the_tree_brings_everything_to_the_first(ranks in 1..700usize, fan in 2..20usize) {
            let mut has: Vec<Vec<usize>> = (0..ranks).map(|rank| vec![rank]).collect();
            let rounds = tree(ranks, fan);
            for round in &rounds {
                let mut received = vec![0; ranks];
                for (from, to) in round {
                    prop_assert!(!has[*from].is_empty(), "who has sent once sends nothing more");
                    let moved = std::mem::take(&mut has[*from]);
                    has[*to].extend(moved);
                    received[*to] += 1;
                }
                prop_assert!(received.iter().all(|n| *n < fan));
            }
            has[0].sort_unstable();
            prop_assert_eq!(&has[0], &(0..ranks).collect::<Vec<_>>());
            prop_assert!(fan.pow(rounds.len() as u32) < ranks * fan, "no round too many");
        }

        #[test]
        fn no_bytes_make_a_fragment_by_chance(bytes: Vec<u8>) {
            prop_assert!(Fragment::decode(&bytes).is_err() && Opening::decode(&bytes).is_err());
        }
    }
}
