//! How a wait spends its time: at once for what is about to come, politely for what takes longer.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Turns spent asking again at once: a message between two cores takes about a microsecond.
const EAGER_TURNS: u32 = 100;
/// The same where ranks are more than cores: the awaited one has no core before this one gives its own away.
const EAGER_TURNS_IN_A_CROWD: u32 = 2;
/// Whoever gives its core away and does not get it back within this time has let somebody else run.
const SOMEBODY_RAN: Duration = Duration::from_micros(3);
/// So many times in a row nobody wanted the core: there is no crowd any more.
const ALONE_AGAIN: u32 = 16;
/// Above zero while others of this machine want the core, as all waits of this process see it.
static CROWD: AtomicU32 = AtomicU32::new(0);
/// Turns spent letting others run: with more ranks than cores the awaited one may need this very core.
const YIELDING_TURNS: u32 = 200;
const SHORTEST_SLEEP: Duration = Duration::from_micros(5);
const LONGEST_SLEEP: Duration = Duration::from_micros(500);

/// One bounded wait.
pub struct Patience {
    /// `None` where it lies beyond what the clock can say.
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

    /// Waits a moment; false when the time is over.
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

/// What is known of a crowd, after the core was given away for so long.
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
        assert!(started.elapsed() >= Duration::from_millis(20) && started.elapsed() < Duration::from_secs(5));
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
