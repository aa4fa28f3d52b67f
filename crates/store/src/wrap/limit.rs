//! A store with a rate limit: it leaves the rest of a shared device to others.
//!
//! Bytes and operations have a limit each, shared by all callers. Up to one second's worth of unused rate is saved, so that
//! a caller may pause without losing its share. Operations wait before they start.

use super::{Operation, StoreCall, Verdict, Watch, Wrapped};
use crate::Store;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_types::mutex::Mutex;

/// A store with a rate limit.
pub type Limited = Wrapped<Limit>;

/// Delays operations to keep to the limits.
#[derive(Debug)]
pub struct Limit {
    bytes: Bucket,
    operations: Bucket,
}

/// A rate, and its use so far.
#[derive(Debug)]
struct Bucket {
    per_second: f64,
    /// When the rate has covered everything taken so far.
    paid_at: Mutex<Instant>,
}

impl Bucket {
    /// - `per_second`: smaller values count as 1; `f64::INFINITY` for no limit.
    fn new(per_second: f64) -> Bucket {
        Bucket { per_second: per_second.max(1.0), paid_at: Mutex::new(Instant::now()) }
    }

    /// Takes an amount; returns how long to wait.
    fn take(&self, amount: f64, now: Instant) -> Duration {
        const SAVED: Duration = Duration::from_secs(1);
        let takes =
            Duration::try_from_secs_f64(amount / self.per_second).unwrap_or(Duration::from_secs(u32::MAX.into()));
        let mut paid_at = self.paid_at.lock();
        let earliest = now.checked_sub(SAVED).unwrap_or(now);
        *paid_at = (*paid_at).max(earliest) + takes;
        paid_at.saturating_duration_since(now)
    }
}

impl Wrapped<Limit> {
    /// - `bytes_per_second`: read and written, together.
    /// - `operations_per_second`: all but asking the length of an open object.
    pub fn new(inner: Arc<dyn Store>, bytes_per_second: f64, operations_per_second: f64) -> Limited {
        Wrapped::with(
            inner,
            Limit { bytes: Bucket::new(bytes_per_second), operations: Bucket::new(operations_per_second) },
        )
    }
}

impl Watch for Limit {
    fn describe(&self) -> &'static str {
        "limited"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        let now = Instant::now();
        let mut wait = match operation.asked {
            StoreCall::Length | StoreCall::Lease => Duration::ZERO,
            _ => self.operations.take(1.0, now),
        };
        if matches!(operation.asked, StoreCall::Read | StoreCall::Write) {
            wait = wait.max(self.bytes.take(operation.bytes as f64, now));
        }
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
        Verdict::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_up_goes_at_once_and_the_rest_at_its_rate() {
        let bucket = Bucket::new(100.0);
        let start = Instant::now() + Duration::from_secs(10);
        assert_eq!(bucket.take(60.0, start), Duration::ZERO, "one second was saved up");
        assert_eq!(bucket.take(60.0, start), Duration::from_millis(200));
        assert_eq!(bucket.take(50.0, start), Duration::from_millis(700));
        assert_eq!(bucket.take(0.0, start + Duration::from_millis(700)), Duration::ZERO);
        let much_later = start + Duration::from_secs(100);
        assert_eq!(bucket.take(150.0, much_later), Duration::from_millis(500), "no more than one second is saved up");
    }
}
