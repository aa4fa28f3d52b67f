//! A run: records of one length at regular distances, in the file and in the data log, on two levels. One record is a run of
//! one.

use crate::container::record::{MOST, RECORD_HEADER, SEGMENT_HEADER};

/// One level of regularity: `count` times, `stride` bytes apart in the file, `log_stride` in the data log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Distance between successive ones in the file, in bytes.
    pub stride: i64,
    /// Distance between successive ones in the data log, in bytes.
    pub log_stride: i64,
    /// Count, at least 1.
    pub count: u64,
}

impl Level {
    /// No repetition.
    pub const ONE: Level = Level { stride: 0, log_stride: 0, count: 1 };

    fn span(&self) -> i128 {
        i128::from(self.stride) * i128::from(self.count - 1)
    }

    fn log_span(&self) -> i128 {
        i128::from(self.log_stride) * i128::from(self.count - 1)
    }
}

/// Records `(i, j)`, `i < outer.count`, `j < inner.count`, at `start + i * outer.stride + j * inner.stride`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Clock of all records.
    pub clock: u64,
    /// Offset of the first record in the file.
    pub start: u64,
    /// Length of each record in bytes.
    pub length: u64,
    /// Offset of the first record's payload in the data log; for a hole, of its header.
    pub log: u64,
    /// The records are holes: zeros without bytes in the log.
    pub hole: bool,
    /// The records are appends: `start` is relative to the file's end before the first append of their strand.
    pub appended: bool,
    /// The inner repetition.
    pub inner: Level,
    /// The outer repetition.
    pub outer: Level,
}

impl Run {
    /// One record.
    pub fn one(clock: u64, start: u64, length: u64, log: u64) -> Run {
        Run { clock, start, length, log, hole: false, appended: false, inner: Level::ONE, outer: Level::ONE }
    }

    /// Number of records.
    pub fn records(&self) -> u64 {
        self.inner.count.saturating_mul(self.outer.count)
    }

    /// First byte and end in the file. The run must have passed [`is_sound`](Run::is_sound).
    pub fn bounds(&self) -> (u64, u64) {
        let (low, high) = bounds(self.start, [self.inner.span(), self.outer.span()]);
        (low as u64, (high + i128::from(self.length)) as u64)
    }

    /// Length of the shortest data log that has room for all records: at least the end of the last one, and at least the
    /// total length of all.
    pub fn log_end(&self) -> u64 {
        let (_, high) = bounds(self.log, [self.inner.log_span(), self.outer.log_span()]);
        let (payload, header) = if self.hole { (0, RECORD_HEADER) } else { (self.length, 0) };
        let room = i128::from(self.records()) * i128::from(payload + RECORD_HEADER);
        (high + i128::from(payload + header)).max(room).clamp(0, i128::from(MOST / 4)) as u64
    }

    /// Whether all records are within the largest file offset and fit in a data log of `log_end` bytes.
    pub fn is_sound(&self, log_end: u64) -> bool {
        if self.length == 0 || self.inner.count == 0 || self.outer.count == 0 {
            return false;
        }
        let Some(records) = self.inner.count.checked_mul(self.outer.count) else { return false };
        let (low, high) = bounds(self.start, [self.inner.span(), self.outer.span()]);
        let (log_low, log_high) = bounds(self.log, [self.inner.log_span(), self.outer.log_span()]);
        let (payload, first) = match self.hole {
            true => (0, SEGMENT_HEADER),
            false => (self.length, SEGMENT_HEADER + RECORD_HEADER),
        };
        low >= 0
            && high + i128::from(self.length) <= i128::from(MOST)
            && log_low >= i128::from(first)
            && log_high + i128::from(payload) <= i128::from(log_end)
            && i128::from(records) * i128::from(payload + RECORD_HEADER) <= i128::from(log_end)
    }

    /// The same records with positive strides, the larger one outside. Of records at one offset the last stays.
    pub fn normal(mut self) -> Run {
        for level in [&mut self.inner, &mut self.outer] {
            if level.count == 1 {
                *level = Level::ONE;
            } else if level.stride == 0 {
                if level.log_stride > 0 {
                    self.log = (i128::from(self.log) + level.log_span()) as u64;
                }
                *level = Level::ONE;
            } else if level.stride < 0 {
                self.start = (i128::from(self.start) + level.span()) as u64;
                self.log = (i128::from(self.log) + level.log_span()) as u64;
                *level = Level {
                    stride: level.stride.wrapping_neg(),
                    log_stride: level.log_stride.wrapping_neg(),
                    count: level.count,
                };
            }
        }
        if self.outer.stride < self.inner.stride {
            std::mem::swap(&mut self.inner, &mut self.outer);
        }
        self
    }

    /// The end, `offset` at most, of the bytes before `offset` that the records store; 0 if they store none, as holes do. `offset`
    /// itself where too many repetitions overlap each other. The run must be [`normal`](Run::normal).
    pub fn end_before(&self, offset: u64) -> u64 {
        /// Number of overlapping repetitions that are looked at.
        const MOST_LOOKED_AT: usize = 64;
        if self.hole {
            return 0;
        }
        // The last of the repetitions from `start` that begins before `offset`.
        let last = |start: u64, level: &Level| {
            let before = offset.checked_sub(start)?.checked_sub(1)?;
            Some(before.checked_div(level.stride as u64).map_or(0, |k| k.min(level.count - 1)))
        };
        let Some(outer) = last(self.start, &self.outer) else { return 0 };
        let (span, mut best) = (self.inner.span() as u64 + self.length, 0);
        for (looked_at, i) in (0..=outer).rev().enumerate() {
            let start = self.start + i * self.outer.stride as u64;
            if start + span <= best {
                return best;
            }
            if looked_at == MOST_LOOKED_AT {
                return offset;
            }
            let inner = last(start, &self.inner).unwrap_or(0);
            best = best.max((start + inner * self.inner.stride as u64 + self.length).min(offset));
        }
        best
    }

    /// Passes each record that overlaps bytes `from..to` to `tell`: its offset, and the offset of its payload. The run must
    /// be [`normal`](Run::normal).
    pub fn meeting(&self, from: u64, to: u64, mut tell: impl FnMut(u64, u64)) {
        let span = self.inner.span() as u64 + self.length;
        for i in overlapping(self.start, span, self.outer.stride as u64, self.outer.count, from, to) {
            let start = self.start + i * self.outer.stride as u64;
            for j in overlapping(start, self.length, self.inner.stride as u64, self.inner.count, from, to) {
                let log = i128::from(self.log)
                    + i128::from(i) * i128::from(self.outer.log_stride)
                    + i128::from(j) * i128::from(self.inner.log_stride);
                tell(start + j * self.inner.stride as u64, log as u64);
            }
        }
    }
}

fn bounds(start: u64, spans: [i128; 2]) -> (i128, i128) {
    let low: i128 = spans.iter().map(|s| (*s).min(0)).sum();
    let high: i128 = spans.iter().map(|s| (*s).max(0)).sum();
    (i128::from(start) + low, i128::from(start) + high)
}

/// Numbers of the spans, of `count` spans `stride` apart from `start`, that overlap `from..to`.
fn overlapping(start: u64, span: u64, stride: u64, count: u64, from: u64, to: u64) -> std::ops::Range<u64> {
    if start >= to {
        return 0..0;
    }
    if stride == 0 {
        return if start + span > from { 0..count } else { 0..0 };
    }
    // The first span that ends after `from`, and the first that begins at or after `to`.
    let low = (from + 1).saturating_sub(start + span).div_ceil(stride);
    let high = (to - start).div_ceil(stride);
    low..high.min(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn level() -> impl Strategy<Value = Level> {
        (-60..60i64, 0..4i64, 1..7u64).prop_map(|(stride, log, count)| Level { stride, log_stride: log * 100, count })
    }

    proptest! {
        #[test]
        fn a_normal_run_tells_the_records_that_meet(inner in level(), outer in level(), from in 0..3000u64, length in 1..20u64,
                                                    span in 1..400u64) {
            let run = Run { inner, outer, ..Run::one(1, 1000, length, 5000) };
            let to = from + span;
            let mut expected = Vec::new();
            for i in 0..outer.count as i64 {
                for j in 0..inner.count as i64 {
                    let start = (1000 + i * outer.stride + j * inner.stride) as u64;
                    let log = (5000 + i * outer.log_stride + j * inner.log_stride) as u64;
                    if start < to && start + length > from {
                        expected.push((start, log));
                    }
                }
            }
            let mut told = Vec::new();
            run.normal().meeting(from, to, |start, log| told.push((start, log)));
            if inner.stride != 0 && outer.stride != 0 {
                expected.sort_unstable();
                told.sort_unstable();
                prop_assert_eq!(told, expected);
            } else {
                // Of records at one offset only the last counts.
                let last = |v: &[(u64, u64)]| v.iter().fold(std::collections::BTreeMap::new(), |mut m, (s, l)| {
                    let e = m.entry(*s).or_insert(*l);
                    *e = (*e).max(*l);
                    m
                });
                prop_assert_eq!(last(&told), last(&expected));
            }
            let all = (0..outer.count as i64).flat_map(|i| (0..inner.count as i64).map(move |j| (1000 + i * outer.stride + j * inner.stride) as u64));
            let exact = all.filter(|start| *start < to).map(|start| (start + length).min(to)).max().unwrap_or(0);
            prop_assert_eq!(run.normal().end_before(to), exact);
            let (low, high) = run.bounds();
            run.normal().meeting(0, u64::MAX, |start, _| assert!(start >= low && start + length <= high));
        }
    }
}
