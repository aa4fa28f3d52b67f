//! A store that takes its time, like one far away.
//!
//! Each operation waits for `latency`, all callers at the same time. Bytes pass at a rate that all callers share, one
//! behind the other, as through one device. Waiting comes before the operation itself.

use super::{Around, Asked, Operation, Verdict, Watch};
use crate::Store;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A store slower than the one inside.
pub type Slow = Around<Delay>;

/// Delays operations.
#[derive(Debug)]
pub struct Delay {
    latency: Duration,
    bytes_per_second: f64,
    /// When the device has moved all bytes given to it.
    idle_from: Mutex<Instant>,
}

impl Around<Delay> {
    /// Adds `latency` to each operation but asking an open object's length, and moves bytes no faster than
    /// `bytes_per_second` (`f64::INFINITY` for no limit; at least 1 is taken).
    pub fn new(inner: Arc<dyn Store>, latency: Duration, bytes_per_second: f64) -> Slow {
        let delay =
            Delay { latency, bytes_per_second: bytes_per_second.max(1.0), idle_from: Mutex::new(Instant::now()) };
        Around::with(inner, delay)
    }
}

impl Watch for Delay {
    fn describe(&self) -> &'static str {
        "slow"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        if operation.asked == Asked::Length {
            return Verdict::Pass;
        }
        let now = Instant::now();
        let mut until = now + self.latency;
        if operation.bytes > 0 && matches!(operation.asked, Asked::Read | Asked::Write) {
            let takes = operation.bytes as f64 / self.bytes_per_second;
            let takes = Duration::try_from_secs_f64(takes).unwrap_or(Duration::from_secs(u32::MAX.into()));
            let mut idle_from = self.idle_from.lock().unwrap_or_else(PoisonError::into_inner);
            *idle_from = (*idle_from).max(now) + takes;
            until = *idle_from + self.latency;
        }
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        Verdict::Pass
    }
}
