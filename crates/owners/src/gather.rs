//! What an owner holds of one window: bytes come in from any rank in any order, whole write stripes go out.
//!
//! | event | effect |
//! |---|---|
//! | [`Gather::insert`] | keeps the bytes; bytes that came before are counted as repeated and dropped |
//! | a write stripe is whole | its fractions are written in order, one for each [`Gather::next_write`] |
//! | memory is short, or no byte will come any more (`hurried`) | runs of bytes are written although their stripe is not whole |
//! | [`Gather::discard`] | after a failed write: bytes are counted and dropped, so that the senders can go on |
//!
//! A state machine without I/O: the engine and the simulated ranks of the tests use it alike.
//!
//! Source: Miller et al., section C6 (stripe buffering, pipelining).

use crate::domains::{Domains, Piece};
use crate::runs::Runs;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// Memory that a piece takes beside its bytes, counted in every limit: the entry of a map, the vector, the allocation.
pub const PIECE: u64 = 96;
/// Runs that are compared to find a long one when memory is short.
const COMPARED: usize = 256;

/// Memory of a piece, with unused capacity.
pub fn memory_of(bytes: &Vec<u8>) -> u64 {
    bytes.capacity() as u64 + PIECE
}

/// Bytes to write at one offset, at most one fraction.
#[derive(Debug, PartialEq, Eq)]
pub struct Write {
    /// First byte in the file.
    pub offset: u64,
    /// The bytes, one piece behind the other.
    pub pieces: Vec<Vec<u8>>,
}

impl Write {
    /// Number of bytes.
    pub fn length(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }
}

/// Bytes of the file, by their number and the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Number of bytes.
    pub bytes: u64,
    /// The first one, by offset; 0 if there is none.
    pub first: u64,
}

impl Count {
    fn add(&mut self, first: u64, bytes: u64) {
        self.first = if self.bytes == 0 { first } else { self.first.min(first) };
        self.bytes += bytes;
    }
}

/// See the module's page.
#[derive(Debug)]
pub struct Gather {
    domains: Arc<Domains>,
    owner: usize,
    /// Not yet written, by offset; each lies in one fraction.
    pieces: BTreeMap<u64, Vec<u8>>,
    memory: u64,
    /// Whole write stripes that are not written yet.
    whole: VecDeque<Extent>,
    came: Runs,
    received: u64,
    repeated: Count,
    discards: bool,
}

impl Gather {
    /// For the owner with this number in [`Domains::owners`].
    pub fn new(domains: Arc<Domains>, owner: usize) -> Gather {
        Gather {
            domains,
            owner,
            pieces: BTreeMap::new(),
            memory: 0,
            whole: VecDeque::new(),
            came: Runs::default(),
            received: 0,
            repeated: Count::default(),
            discards: false,
        }
    }

    /// Takes bytes of the window. The first copy of a byte counts.
    ///
    /// # Errors
    /// `OutOfBounds` or `InvalidArgument` for bytes that are not this owner's; those before them are kept.
    pub fn insert(&mut self, offset: u64, bytes: Vec<u8>) -> Result<()> {
        let all = Extent::new(offset, bytes.len() as u64);
        let cut: Vec<Piece> = self.domains.cut(all)?.collect();
        let mut whole = Some(bytes);
        for piece in cut {
            let new = self.count(piece)?;
            let any = !new.is_empty();
            for part in new {
                if self.discards {
                    continue;
                }
                // Whole pieces, the usual case, are not copied.
                let kept = match whole.take_if(|_| part == all) {
                    Some(bytes) => bytes,
                    None => whole.as_ref().map_or_else(Vec::new, |bytes| {
                        let at = (part.offset - offset) as usize;
                        bytes[at..at + part.length as usize].to_vec()
                    }),
                };
                self.memory += memory_of(&kept);
                self.pieces.insert(part.offset, kept);
            }
            let stripe = self.domains.write_stripe(piece.extent.offset);
            if any && !self.discards && self.came.first_gap(stripe.offset, stripe.offset + stripe.length).is_none() {
                self.whole.push_back(stripe);
            }
        }
        Ok(())
    }

    /// Counts bytes of a whole write stripe that the owner writes without giving them here.
    ///
    /// # Errors
    /// As [`Gather::insert`].
    pub fn pass(&mut self, bytes: Extent) -> Result<()> {
        let cut: Vec<Piece> = self.domains.cut(bytes)?.collect();
        cut.into_iter().try_for_each(|piece| self.count(piece).map(drop))
    }

    /// Counts a piece; returns the parts of it that have not come before.
    fn count(&mut self, Piece { owner, extent }: Piece) -> Result<Vec<Extent>> {
        if owner != self.owner {
            let what = format!("owner {} got bytes of owner {owner}", self.owner);
            return Err(Error::new(ErrorKind::InvalidArgument, what).at_byte(extent.offset));
        }
        self.received += extent.length;
        let new = self.came.add(extent.offset, extent.offset + extent.length);
        let fresh: u64 = new.iter().map(|part| part.length).sum();
        if fresh < extent.length {
            let first = match new.first() {
                Some(part) if part.offset == extent.offset => part.offset + part.length,
                _ => extent.offset,
            };
            self.repeated.add(first, extent.length - fresh);
        }
        Ok(new)
    }

    /// The next bytes to write; the caller writes them before it asks again.
    ///
    /// - `hurried`: also bytes of stripes that are not whole.
    pub fn next_write(&mut self, hurried: bool) -> Option<Write> {
        while let Some(stripe) = self.whole.front() {
            match self.pieces.range(stripe.offset..stripe.offset + stripe.length).next() {
                Some((first, _)) => return Some(self.take_run(*first)),
                None => self.whole.pop_front(),
            };
        }
        if !hurried {
            return None;
        }
        let (mut longest, mut run, mut compared) = ((0, 0), (0, 0), 0);
        let mut end = None;
        for (at, piece) in &self.pieces {
            if end != Some(*at) || self.domains.fraction_of(*at) != self.domains.fraction_of(run.0) {
                compared += 1;
                if compared > COMPARED {
                    break;
                }
                run = (*at, 0);
            }
            run.1 += piece.len();
            end = Some(at + piece.len() as u64);
            if run.1 > longest.1 {
                longest = run;
            }
        }
        (longest.1 > 0).then(|| self.take_run(longest.0))
    }

    /// Removes the pieces that follow each other from `start`, in one fraction.
    fn take_run(&mut self, start: u64) -> Write {
        let Extent { offset, length } = self.domains.fraction_of(start).extent;
        let (mut at, mut pieces) = (start, Vec::new());
        while at < offset + length
            && let Some(piece) = self.pieces.remove(&at)
        {
            self.memory -= memory_of(&piece);
            at += piece.len() as u64;
            pieces.push(piece);
        }
        Write { offset: start, pieces }
    }

    /// From now on bytes are counted, not kept.
    pub fn discard(&mut self) {
        self.discards = true;
        self.pieces.clear();
        self.whole.clear();
        self.memory = 0;
    }

    /// Memory of the bytes that are held, in bytes.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Whether bytes are held that are not yet written.
    pub fn holds_bytes(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Bytes that came, repeated ones included.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Bytes that came more than once.
    pub fn repeated(&self) -> Count {
        self.repeated
    }

    /// Bytes of this owner that did not come.
    pub fn missing(&self) -> Count {
        let mut missing = Count::default();
        for Extent { offset, length } in self.domains.stripes_of(self.owner) {
            let end = offset + length;
            if let Some(gap) = self.came.first_gap(offset, end) {
                missing.add(gap.offset, length - self.came.count(offset, end));
            }
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Machine, Options};

    #[test]
    fn a_stripe_that_the_owner_writes_itself_is_counted_and_not_kept() {
        let machine = Machine { ranks: 2, leaders: vec![0, 1], targets: None };
        let options = Options { owner_stripe: Some(50), write_stripe: 10, fraction: 10, ..Options::default() };
        let domains = Arc::new(Domains::new(Extent::new(0, 100), &options, &machine).unwrap());
        let mut gather = Gather::new(domains, 0);
        gather.pass(Extent::new(10, 20)).unwrap();
        assert_eq!((gather.memory(), gather.received(), gather.missing()), (0, 20, Count { bytes: 30, first: 0 }));
        assert_eq!(gather.next_write(true), None);
        gather.insert(0, vec![1; 15]).unwrap();
        assert_eq!(gather.repeated(), Count { bytes: 5, first: 10 });
        assert_eq!(gather.next_write(false).unwrap().length(), 10);
        assert_eq!(gather.pass(Extent::new(45, 10)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn after_a_failure_bytes_are_counted_and_not_kept() {
        let machine = Machine { ranks: 1, leaders: vec![0], targets: None };
        let domains = Arc::new(Domains::new(Extent::new(0, 100), &Options::default(), &machine).unwrap());
        let mut gather = Gather::new(domains, 0);
        gather.insert(0, vec![1; 40]).unwrap();
        assert_eq!(gather.memory(), 40 + PIECE);
        gather.discard();
        gather.insert(40, vec![1; 60]).unwrap();
        assert_eq!((gather.memory(), gather.received(), gather.missing().bytes), (0, 100, 0));
        assert_eq!(gather.next_write(true), None);
    }
}
