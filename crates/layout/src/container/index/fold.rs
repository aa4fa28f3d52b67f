//! Folds records into runs while they are written: detects regular strides on two levels.
//!
//! A few runs stay open. A record that continues an open run in the file and in the data log extends that run; else the
//! record forms a run with the last single record of the same length, which gives the stride; else the record begins a run.
//! Evicted runs, oldest first, are folded into runs of runs in the same way.
//!
//! Sources: He et al., PDSW 2012 and HPDC 2013 (patterns in the index of a log-structured file).

use super::run::{Level, Run};
use std::collections::VecDeque;

/// Open runs on each level. A program that writes several variables in turn needs one for each.
const OPEN: usize = 8;

/// Folds records in the order in which they are added.
#[derive(Debug, Clone, Default)]
pub struct Fold {
    inner: VecDeque<Run>,
    outer: VecDeque<Run>,
    done: Vec<Run>,
}

impl Fold {
    /// Adds a record, whose offset in the data log must exceed all earlier ones.
    pub fn add(&mut self, record: Run) {
        if join(&mut self.inner, &record, |run| &mut run.inner, same_record) {
            return;
        }
        if self.inner.len() == OPEN {
            let oldest = self.inner.pop_front();
            oldest.into_iter().for_each(|run| self.add_run(run));
        }
        self.inner.push_back(record);
    }

    fn add_run(&mut self, run: Run) {
        if join(&mut self.outer, &run, |run| &mut run.outer, same_run) {
            return;
        }
        if self.outer.len() == OPEN {
            self.done.extend(self.outer.pop_front());
        }
        self.outer.push_back(run);
    }

    /// Number of runs.
    pub fn count(&self) -> usize {
        self.inner.len() + self.outer.len() + self.done.len()
    }

    /// Takes all runs out.
    pub fn take(&mut self) -> Vec<Run> {
        while let Some(run) = self.inner.pop_front() {
            self.add_run(run);
        }
        self.done.extend(self.outer.drain(..));
        std::mem::take(&mut self.done)
    }
}

fn same_record(open: &Run, next: &Run) -> bool {
    (open.length, open.clock, open.hole, open.appended) == (next.length, next.clock, next.hole, next.appended)
}

fn same_run(open: &Run, next: &Run) -> bool {
    same_record(open, next) && open.inner == next.inner
}

/// Adds `next` to one of the open runs on a level, if it continues that run.
fn join(
    open: &mut VecDeque<Run>,
    next: &Run,
    level: impl Fn(&mut Run) -> &mut Level,
    same: impl Fn(&Run, &Run) -> bool,
) -> bool {
    if next.hole {
        return false;
    }
    let goes_on = |run: &mut Run| {
        let (start, log) = (run.start, run.log);
        let level = level(run);
        let ahead = |base: u64, stride: i64| {
            let by = i64::try_from(level.count).ok().and_then(|n| stride.checked_mul(n));
            by.and_then(|by| base.checked_add_signed(by))
        };
        level.count > 1
            && ahead(start, level.stride) == Some(next.start)
            && ahead(log, level.log_stride) == Some(next.log)
    };
    if let Some(run) = open.iter_mut().rev().find_map(|run| (same(run, next) && goes_on(run)).then_some(run)) {
        level(run).count += 1;
        return true;
    }
    for run in open.iter_mut().rev().filter(|run| same(run, next)) {
        let (start, log) = (run.start, run.log);
        let level = level(run);
        let (Ok(from), Ok(to)) = (i64::try_from(start), i64::try_from(next.start)) else { continue };
        let Some(log_stride) = next.log.checked_sub(log).and_then(|by| i64::try_from(by).ok()) else { continue };
        if level.count == 1 {
            *level = Level { stride: to - from, log_stride, count: 2 };
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Records of these places and lengths, as a data log would hold them.
    fn fold(records: impl IntoIterator<Item = (u64, u64)>) -> (Vec<Run>, Vec<(u64, u64, u64)>) {
        let (mut fold, mut log, mut all) = (Fold::default(), 112, Vec::new());
        for (start, length) in records {
            fold.add(Run::one(1, start, length, log));
            all.push((log, start, length));
            log += length + 48;
        }
        (fold.take(), all)
    }

    fn unfold(runs: &[Run]) -> Vec<(u64, u64, u64)> {
        let mut all = Vec::new();
        for run in runs {
            for i in 0..run.outer.count as i64 {
                for j in 0..run.inner.count as i64 {
                    let start = run.start as i64 + i * run.outer.stride + j * run.inner.stride;
                    let log = run.log as i64 + i * run.outer.log_stride + j * run.inner.log_stride;
                    all.push((log as u64, start as u64, run.length));
                }
            }
        }
        all.sort_unstable();
        all
    }

    proptest! {
        #[test]
        fn what_is_folded_unfolds(records in prop::collection::vec((0..40u64, 1..4u64), 0..200)) {
            let (runs, all) = fold(records.into_iter().map(|(at, length)| (at * 10, length)));
            prop_assert_eq!(unfold(&runs), all);
        }
    }

    #[test]
    fn a_strided_checkpoint_is_one_run() {
        let (runs, _) = fold((0..100_000).map(|i| (i * 4 * 47_001, 47_001)));
        assert_eq!((runs.len(), runs[0].inner.count), (1, 100_000));
    }

    #[test]
    fn rows_of_a_block_at_every_step_are_one_run_of_runs() {
        let steps = (0..200u64).flat_map(|step| (0..50u64).map(move |row| (step * 1_000_000 + row * 4096, 512)));
        let (runs, all) = fold(steps);
        assert_eq!(runs.len(), 1, "{runs:?}");
        assert_eq!((runs[0].inner.count, runs[0].outer.count), (50, 200));
        assert_eq!(unfold(&runs), all);
    }

    #[test]
    fn variables_of_different_lengths_written_in_turn_are_a_run_each() {
        let (runs, all) = fold((0..1000).flat_map(|i| [(i * 9000, 100), (i * 9000 + 400, 700), (i * 9000 + 8000, 64)]));
        assert!(runs.len() <= 4, "{} runs", runs.len());
        assert_eq!(unfold(&runs), all);
    }

    #[test]
    fn a_block_rewritten_at_every_step_is_one_run() {
        let (runs, all) = fold((0..500).flat_map(|_| (0..10).map(|row| (row * 100, 30))));
        assert!(runs.len() <= 3, "{} runs", runs.len());
        assert_eq!(unfold(&runs), all);
    }
}
