//! Estimates from the targets' measured speed, and the deadline of a write.

use super::*;

impl State {
    /// Average bytes per second of a write; `None` before the first one.
    pub(super) fn usual(&self) -> Option<f64> {
        (self.wrote_seconds > 0.0 && self.wrote_bytes > 0.0).then(|| self.wrote_bytes / self.wrote_seconds)
    }

    pub(super) fn rate_of(&self, target: usize) -> f64 {
        self.targets[target].rate.or_else(|| self.usual()).unwrap_or(1.0).max(f64::MIN_POSITIVE)
    }

    /// Estimated seconds until a target has drained its queue and its writes.
    pub(super) fn drain(&self, target: usize) -> f64 {
        let rate = self.rate_of(target) * f64::from(self.turns_allowed());
        let of = &self.targets[target];
        let under_way: f64 = of
            .writes
            .iter()
            .filter(|f| !f.stuck)
            .map(|f| (self.sizes[f.group as usize] as f64 - (self.now - f.since) * self.rate_of(target)).max(0.0))
            .sum();
        (of.queued_bytes as f64 + under_way) / rate
    }

    pub(super) fn turns_allowed(&self) -> u32 {
        self.params.writers_per_target.max(1)
    }

    /// Estimated seconds until all groups are written, if the work is spread evenly over fast targets.
    pub(super) fn horizon(&self) -> f64 {
        let usual = self.usual().unwrap_or(1.0).max(f64::MIN_POSITIVE);
        let turns = self.targets.iter().filter(|t| !t.failed && t.stuck_in_a_row < SLOW).count().max(1);
        self.left_bytes as f64 / (usual * f64::from(self.turns_allowed()) * turns as f64)
    }

    /// The time at which a write that began at `since` counts as stuck; `None` without an average.
    pub(super) fn deadline(&self, group: u32, since: f64) -> Option<f64> {
        let usual = self.usual()?;
        let takes = self.params.stuck.max(1.0) * self.sizes[group as usize].max(1) as f64 / usual;
        Some(since + takes.max(self.params.patience))
    }
}
