//! How a wait spends its time: at once for what is about to come, politely for what takes longer.

use std::time::{Duration, Instant};

/// Turns spent asking again at once: a message between two cores takes about a microsecond.
const EAGER_TURNS: u32 = 100;
/// Turns spent letting others run: with more ranks than cores the awaited one may need this very core.
const YIELDING_TURNS: u32 = 200;
const SHORTEST_SLEEP: Duration = Duration::from_micros(5);
const LONGEST_SLEEP: Duration = Duration::from_micros(500);

/// One bounded wait.
pub struct Patience {
    /// `None` where it lies beyond what the clock can say.
    deadline: Option<Instant>,
    turns: u32,
    sleep: Duration,
}

impl Patience {
    pub fn new(timeout: Duration) -> Patience {
        Patience { deadline: Instant::now().checked_add(timeout), turns: 0, sleep: SHORTEST_SLEEP }
    }

    /// Waits a moment; false when the time is over.
    pub fn pause(&mut self) -> bool {
        self.turns = self.turns.saturating_add(1);
        if self.turns <= EAGER_TURNS {
            std::hint::spin_loop();
            return true;
        }
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return false;
        }
        if self.turns <= EAGER_TURNS + YIELDING_TURNS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(left.map_or(self.sleep, |left| left.min(self.sleep)));
            self.sleep = (self.sleep * 3 / 2).min(LONGEST_SLEEP);
        }
        true
    }
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
}
