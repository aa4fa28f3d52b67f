//! Openings: the runs that wrote the process groups of each step, as listed in record 5 of the extension section.
//!
//! | size | field |
//! |---|---|
//! | u64 | run id, as in the trailers of the groups; 0: groups of any run, or without trailer |
//! | u32 | first time index |
//! | u32 | ranks |
//!
//! An entry is valid from its time index up to that of the next entry. Entries of the same time index are valid together: an
//! output may add to a step of another opening.

use crate::wire::{Cursor, Put};
use thalweg_types::ByteOrder;

/// Bytes of an entry.
const ENTRY: usize = 16;

/// One opening of a file for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Run id in all trailers of the opening; 0: not known.
    pub run: u64,
    /// The first time index with groups of the opening.
    pub first_time: u32,
    /// Ranks.
    pub ranks: u32,
}

/// The openings of a file, in ascending order of time index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Openings(Vec<Opening>);

impl Openings {
    /// Adds the entries of a record.
    pub fn add(&mut self, record: &[u8], order: ByteOrder) {
        for entry in record.chunks_exact(ENTRY) {
            let mut c = Cursor::new(entry, order, 0);
            if let (Ok(run), Ok(first_time), Ok(ranks)) = (c.u64("opening"), c.u32("opening"), c.u32("opening")) {
                self.0.push(Opening { run, first_time, ranks });
            }
        }
        if !self.0.is_sorted_by_key(|o| o.first_time) {
            self.0.sort_by_key(|o| o.first_time);
        }
    }

    /// The openings that may have written groups of a time index; empty if the file does not list them.
    pub fn of(&self, time: u32) -> &[Opening] {
        let end = self.0.partition_point(|o| o.first_time <= time);
        let first = self.0[..end].last().map_or(0, |last| last.first_time);
        let start = self.0[..end].partition_point(|o| o.first_time < first);
        &self.0[start..end]
    }

    /// Whether the file lists this run.
    pub fn names(&self, run: u64) -> bool {
        self.0.iter().any(|o| o.run == run)
    }

    /// Whether the file lists no run.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries to be appended when `new` writes its first groups.
    ///
    /// - `joins`: the time index already has groups of other openings.
    pub fn missing(&self, new: Opening, joins: bool) -> Vec<Opening> {
        let known = self.of(new.first_time);
        if known.iter().any(|o| o.run == new.run && (joins || o.ranks == new.ranks)) {
            return Vec::new();
        }
        let mut all = Vec::new();
        if joins && known.iter().all(|o| o.first_time < new.first_time) {
            all.extend(known.iter().map(|o| Opening { first_time: new.first_time, ..*o }));
            if known.is_empty() {
                all.push(Opening { run: 0, first_time: new.first_time, ranks: 0 });
            }
        }
        all.push(new);
        all
    }
}

impl Opening {
    /// Appends the entry.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.put_u64(self.run);
        out.put_u32(self.first_time);
        out.put_u32(self.ranks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(run: u64, first_time: u32) -> Opening {
        Opening { run, first_time, ranks: 2 }
    }

    fn listed(all: &[Opening]) -> Openings {
        let mut record = Vec::new();
        all.iter().for_each(|o| o.encode(&mut record));
        let mut openings = Openings::default();
        openings.add(&record, ByteOrder::NATIVE);
        openings
    }

    #[test]
    fn an_opening_holds_up_to_the_next() {
        let all = listed(&[opening(7, 2), opening(8, 5)]);
        let runs = |time| all.of(time).iter().map(|o| o.run).collect::<Vec<_>>();
        assert_eq!((runs(1), runs(2), runs(4), runs(5), runs(9)), (vec![], vec![7], vec![7], vec![8], vec![8]));
    }

    #[test]
    fn an_output_that_joins_a_step_leaves_room_for_who_wrote_it_before() {
        let first = listed(&[opening(7, 1)]);
        assert_eq!(first.missing(opening(7, 4), false), []);
        assert_eq!(first.missing(opening(8, 4), false), [opening(8, 4)]);
        assert_eq!(first.missing(opening(8, 4), true), [opening(7, 4), opening(8, 4)]);
        let both = listed(&[opening(7, 1), opening(7, 4), opening(8, 4)]);
        assert_eq!(both.of(4).len(), 2);
        assert_eq!(both.missing(opening(9, 4), true), [opening(9, 4)]);
        assert_eq!(both.missing(opening(9, 5), false), [opening(9, 5)]);
        let unknown = Openings::default().missing(opening(9, 3), true);
        assert_eq!(unknown.iter().map(|o| o.run).collect::<Vec<_>>(), [0, 9]);
    }
}
