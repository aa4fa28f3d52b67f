//! A set of bytes of a file, as runs that neither meet nor touch.

use std::collections::BTreeMap;
use thalweg_types::Extent;

/// The set: first byte of each run, and the byte after its last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs(BTreeMap<u64, u64>);

impl Runs {
    /// Adds the bytes `start..end`; returns the parts that were not in the set before, in order.
    ///
    /// # Cost
    /// Logarithmic in the number of runs, and linear in the runs that the range meets.
    pub fn add(&mut self, start: u64, end: u64) -> Vec<Extent> {
        let mut new = Vec::new();
        if start >= end {
            return new;
        }
        let first = self.0.range(..start).next_back().filter(|(_, to)| **to >= start).map_or(start, |(from, _)| *from);
        let met: Vec<(u64, u64)> = self.0.range(first..=end).map(|(from, to)| (*from, *to)).collect();
        let (mut at, mut from, mut to) = (start, start, end);
        for (run_from, run_to) in met {
            self.0.remove(&run_from);
            if run_from > at {
                new.push(Extent::new(at, run_from.min(end) - at));
            }
            at = at.max(run_to);
            from = from.min(run_from);
            to = to.max(run_to);
        }
        if at < end {
            new.push(Extent::new(at, end - at));
        }
        self.0.insert(from, to);
        new
    }

    /// The first part of `start..end` that is not in the set.
    pub fn first_gap(&self, start: u64, end: u64) -> Option<Extent> {
        let covered = self.0.range(..=start).next_back().map_or(start, |(_, to)| (*to).max(start));
        if covered >= end {
            return None;
        }
        let to = self.0.range(covered..).next().map_or(end, |(from, _)| (*from).min(end));
        Some(Extent::new(covered, to - covered))
    }

    /// Number of bytes of `start..end` that are in the set.
    pub fn count(&self, start: u64, end: u64) -> u64 {
        let mut count = 0;
        if let Some((_, to)) = self.0.range(..start).next_back() {
            count += (*to).min(end).saturating_sub(start);
        }
        let inside = self.0.range(start..).take_while(|(from, _)| **from < end);
        count + inside.map(|(from, to)| (*to).min(end) - from).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_join_and_what_is_there_is_not_new() {
        let mut runs = Runs::default();
        assert_eq!(runs.add(10, 20), [Extent::new(10, 10)]);
        assert_eq!(runs.add(20, 30), [Extent::new(20, 10)]);
        assert_eq!(runs.0.len(), 1);
        assert_eq!(runs.add(12, 18), []);
        assert_eq!(runs.add(5, 40), [Extent::new(5, 5), Extent::new(30, 10)]);
        assert_eq!(runs.add(7, 7), []);
        assert_eq!(runs.first_gap(0, 100), Some(Extent::new(0, 5)));
        assert_eq!(runs.first_gap(5, 40), None);
    }

    proptest! {
        #[test]
        fn runs_are_a_set_of_bytes(added in proptest::collection::vec((0u64..60, 0u64..20), 0..30), from in 0u64..70, length in 0u64..30) {
            let mut runs = Runs::default();
            let mut bytes = [false; 100];
            for (start, length) in added {
                let new = runs.add(start, start + length);
                let mut is_new = [false; 100];
                for extent in &new {
                    prop_assert!(extent.length > 0);
                    is_new[extent.offset as usize..(extent.offset + extent.length) as usize].fill(true);
                }
                for byte in 0..100u64 {
                    let inside = (start..start + length).contains(&byte);
                    prop_assert_eq!(is_new[byte as usize], inside && !bytes[byte as usize]);
                    bytes[byte as usize] |= inside;
                }
            }
            let end = from + length;
            let range = from as usize..end as usize;
            prop_assert_eq!(runs.count(from, end), bytes[range.clone()].iter().filter(|b| **b).count() as u64);
            let gap = range.clone().find(|b| !bytes[*b]).map(|start| {
                let to = range.clone().skip_while(|b| *b < start).find(|b| bytes[*b]).unwrap_or(range.end);
                Extent::new(start as u64, (to - start) as u64)
            });
            prop_assert_eq!(runs.first_gap(from, end), gap);
            let separate: Vec<_> = runs.0.iter().collect();
            prop_assert!(separate.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
