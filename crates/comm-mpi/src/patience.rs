//! Bounded waits: continuous polling at first, then yields, then sleeps.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Continuous polls: a message between two cores takes about a microsecond.
const EAGER_TURNS: u32 = 100;
/// Continuous polls on an oversubscribed machine: the awaited rank may need this rank's core.
const EAGER_TURNS_IN_A_CROWD: u32 = 2;
/// A yield that takes at least this long has let another thread run.
const SOMEBODY_RAN: Duration = Duration::from_micros(3);
/// Number of consecutive short yields after which the machine no longer counts as oversubscribed.
const ALONE_AGAIN: u32 = 16;
/// Above zero while other threads of this machine use the cores; shared by all waits of the process.
static CROWD: AtomicU32 = AtomicU32::new(0);
/// Polls with a yield: with more ranks than cores, the awaited rank may need this core.
const YIELDING_TURNS: u32 = 200;
const SHORTEST_SLEEP: Duration = Duration::from_micros(5);
const LONGEST_SLEEP: Duration = Duration::from_micros(500);

/// One bounded wait.
pub struct Patience {
    /// `None` beyond the range of the clock.
    deadline: Option<Instant>,
    turns: u32,
    eager: u32,
    sleep: Duration,
}

impl Patience {
    pub fn new(timeout: Duration) -> Patience {
        let eager = if CROWD.load(Ordering::Relaxed) > 0 { EAGER_TURNS_IN_A_CROWD } else { EAGER_TURNS };
        Patience { deadline: Instant::now().checked_add(timeout), turns: 0, eager, sleep: SHORTEST_SLEEP }
    }

    /// Waits before the next poll; `false` after the timeout.
    pub fn pause(&mut self) -> bool {
        self.turns = self.turns.saturating_add(1);
        if self.turns <= self.eager {
            std::hint::spin_loop();
            return true;
        }
        let now = Instant::now();
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(now));
        if left.is_some_and(|left| left.is_zero()) {
            return false;
        }
        if self.turns <= self.eager + YIELDING_TURNS {
            std::thread::yield_now();
            let crowd = CROWD.load(Ordering::Relaxed);
            let seen = crowd_after(crowd, now.elapsed());
            if seen != crowd {
                CROWD.store(seen, Ordering::Relaxed);
            }
        } else {
            std::thread::sleep(left.map_or(self.sleep, |left| left.min(self.sleep)));
            self.sleep = (self.sleep * 3 / 2).min(LONGEST_SLEEP);
        }
        true
    }
}

/// The next value of [`CROWD`], after a yield that took `away`.
fn crowd_after(crowd: u32, away: Duration) -> u32 {
    if away >= SOMEBODY_RAN { ALONE_AGAIN } else { crowd.saturating_sub(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_soon_after_its_time() {
        let started = Instant::now();
        let mut patience = Patience::new(Duration::from_millis(20));
        while patience.pause() {}
        assert!(started.elapsed() >= Duration::from_millis(20) && started.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn it_can_be_endless() {
        let mut patience = Patience::new(Duration::MAX);
        assert!((0..EAGER_TURNS + YIELDING_TURNS + 3).all(|_| patience.pause()));
    }

    #[test]
    fn in_a_crowd_the_core_is_given_away_at_once_until_nobody_wants_it() {
        let mut crowd = crowd_after(0, Duration::from_micros(40));
        for _ in 0..ALONE_AGAIN {
            assert!(crowd > 0);
            crowd = crowd_after(crowd, Duration::from_nanos(300));
        }
        assert_eq!(crowd, 0);
    }
}
