//! One storage target: concurrent writes share its bandwidth evenly, and seeks between them reduce it.
//!
//! | symbol | meaning |
//! |---|---|
//! | B | bytes per second of one writer alone, after background load and slowness |
//! | c | seek loss: time of a seek over the time to write one run of bytes of one writer |
//! | k | writes under way |
//! Together they get B / (1 + c (1 - 1/k)): runs come in random order, so that the next run belongs to another writer with
//! probability 1 - 1/k, and then requires a seek. One write gets at most the bandwidth of its rank.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A write under way, by the bytes that each write to its target will have got when it ends.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Flow {
    ends_at: f64,
    id: u32,
}

impl Eq for Flow {}

impl Ord for Flow {
    fn cmp(&self, other: &Flow) -> Ordering {
        other.ends_at.total_cmp(&self.ends_at).then(other.id.cmp(&self.id))
    }
}

impl PartialOrd for Flow {
    fn partial_cmp(&self, other: &Flow) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A storage target and the writes in progress.
#[derive(Debug)]
pub struct Target {
    bandwidth: f64,
    seek_loss: f64,
    sender: f64,
    flows: BinaryHeap<Flow>,
    /// Bytes that a write would have got that was under way from the beginning.
    got: f64,
    at: f64,
    written: f64,
    busy: f64,
}

impl Target {
    /// - `bandwidth`: B; `seek_loss`: c; `sender`: most that one write gets, all in bytes per second but for c.
    pub fn new(bandwidth: f64, seek_loss: f64, sender: f64) -> Target {
        Target { bandwidth, seek_loss, sender, flows: BinaryHeap::new(), got: 0.0, at: 0.0, written: 0.0, busy: 0.0 }
    }

    /// Bytes per second of each of `k` writes.
    pub fn each(&self, k: usize) -> f64 {
        let k = k.max(1) as f64;
        (self.bandwidth / (1.0 + self.seek_loss * (1.0 - 1.0 / k)) / k).min(self.sender)
    }

    fn advance(&mut self, now: f64) {
        let passed = now - self.at;
        if passed > 0.0 && !self.flows.is_empty() {
            let each = passed * self.each(self.flows.len());
            self.got += each;
            self.written += each * self.flows.len() as f64;
            self.busy += passed;
        }
        self.at = self.at.max(now);
    }

    /// A write of so many bytes begins.
    pub fn begin(&mut self, now: f64, id: u32, bytes: f64) {
        self.advance(now);
        self.flows.push(Flow { ends_at: self.got + bytes.max(0.0), id });
    }

    /// When the next write ends, if nothing else happens.
    pub fn next(&self) -> Option<f64> {
        let flow = self.flows.peek()?;
        Some(self.at + (flow.ends_at - self.got).max(0.0) / self.each(self.flows.len()))
    }

    /// The write that ends now, at the time that [`Target::next`] gave.
    pub fn end(&mut self, now: f64) -> Option<u32> {
        self.advance(now);
        let flow = self.flows.pop()?;
        // Compensates rounding; otherwise writes of equal size would end at slightly different times.
        self.got = self.got.max(flow.ends_at);
        Some(flow.id)
    }

    /// Writes under way.
    pub fn writers(&self) -> usize {
        self.flows.len()
    }

    /// Bytes written, and the seconds in which any were.
    pub fn so_far(&self) -> (f64, f64) {
        (self.written, self.busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_share_and_seeks_cost() {
        let target = Target::new(100.0, 0.5, 1000.0);
        assert_eq!(target.each(1), 100.0);
        assert_eq!(target.each(2), 40.0);
        assert!((target.each(1000) * 1000.0 - 66.7).abs() < 0.1);
        assert_eq!(Target::new(100.0, 0.5, 7.0).each(2), 7.0);
    }

    #[test]
    fn a_write_ends_when_its_bytes_are_through() {
        let mut target = Target::new(100.0, 0.0, 1000.0);
        target.begin(0.0, 1, 100.0);
        target.begin(0.5, 2, 100.0);
        // 50 left for the first, at 50 a second.
        assert_eq!(target.next(), Some(1.5));
        assert_eq!(target.end(1.5), Some(1));
        assert_eq!(target.next(), Some(2.0));
        assert_eq!(target.end(2.0), Some(2));
        assert_eq!((target.next(), target.so_far()), (None, (200.0, 2.0)));
    }
}
