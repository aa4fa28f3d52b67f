//! Pace: how long a request to a store takes before its bytes come, and how fast they come; measured with the reads that
//! programs make.
//!
//! Both are needed to say what one more request costs ([`thalweg_store::Store::request_cost`]): the bytes that could be read
//! in the time that a request waits for its first byte.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Cost of a request before any was measured: 10 ms at 100 MB/s.
const ASSUMED: u64 = 1 << 20;
/// Least and greatest cost: however near the store is, a request takes processor time; however far, memory is bounded.
const LEAST: u64 = 256 << 10;
const GREATEST: u64 = 8 << 20;
/// Reads up to this many bytes measure the latency of a request; reads of at least [`LONG`] the bandwidth.
const SHORT: usize = 32 << 10;
const LONG: usize = 1 << 20;

/// Measurements so far. Any thread may add to them.
#[derive(Debug, Default)]
pub struct Pace {
    /// Nanoseconds until the answer to a short request; 0: none was measured.
    wait: AtomicU64,
    /// Nanoseconds for each MiB of long ones; 0: none was measured.
    per_mib: AtomicU64,
}

impl Pace {
    /// Runs a read and measures it.
    ///
    /// # Errors
    /// Those of `read`, which is not measured then.
    pub fn of<T, E>(&self, bytes: usize, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let began = Instant::now();
        let outcome = read()?;
        self.add(bytes, began.elapsed());
        Ok(outcome)
    }

    fn add(&self, bytes: usize, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        if bytes <= SHORT {
            follow(&self.wait, took);
        } else if bytes >= LONG {
            let moving = took.saturating_sub(self.wait.load(Relaxed).min(took / 2)).max(1);
            follow(&self.per_mib, (u128::from(moving) * (1 << 20) / bytes as u128).max(1) as u64);
        }
    }

    /// Cost of one more request, in bytes.
    pub fn request_cost(&self) -> u64 {
        let (wait, per_mib) = (self.wait.load(Relaxed), self.per_mib.load(Relaxed));
        if wait == 0 || per_mib == 0 {
            return ASSUMED;
        }
        let bytes = u128::from(wait) * (1 << 20) / u128::from(per_mib);
        u64::try_from(bytes).unwrap_or(GREATEST).clamp(LEAST, GREATEST)
    }
}

/// Moves a quarter of the way to a new measurement, so that one that was disturbed changes little.
fn follow(kept: &AtomicU64, new: u64) {
    let _ = kept.fetch_update(Relaxed, Relaxed, |old| Some(if old == 0 { new } else { (old - old / 4) + new / 4 }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_costs_the_bytes_that_come_while_it_waits() {
        let pace = Pace::default();
        assert_eq!(pace.request_cost(), ASSUMED);
        // 20 ms, and 100 MiB a second behind it.
        for _ in 0..10 {
            pace.add(1000, Duration::from_millis(20));
            pace.add(10 << 20, Duration::from_millis(120));
        }
        let cost = pace.request_cost();
        assert!((cost as f64 / (2 << 20) as f64 - 1.0).abs() < 0.02, "{cost}");
    }

    #[test]
    fn the_cost_stays_within_its_bounds_whatever_is_measured() {
        for (wait, long) in [(1, 1_000_000_000), (u64::MAX, 1), (1, 1), (u64::MAX, u64::MAX)] {
            let pace = Pace::default();
            pace.add(1, Duration::from_nanos(wait));
            pace.add(1 << 30, Duration::from_nanos(long));
            assert!((LEAST..=GREATEST).contains(&pace.request_cost()), "{wait} {long}");
        }
    }

    #[test]
    fn a_failed_read_is_not_measured() {
        let pace = Pace::default();
        assert_eq!(pace.of(10, || Err::<(), _>("no")), Err("no"));
        assert_eq!(pace.of(10, || Ok::<_, ()>(3)), Ok(3));
        assert!(pace.wait.load(Relaxed) > 0);
    }
}
