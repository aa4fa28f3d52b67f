//! The result of a simulation: seconds by rank, bandwidth, share of the peak, the slowest ranks.

/// Seconds of one rank, from before the first opening of any.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankTimes {
    /// It had its file open.
    pub opened: f32,
    /// Its write was set off: it, or its aggregator, had its turn.
    pub began: f32,
    /// Its bytes rested on the target.
    pub ended: f32,
    /// The storage target; of several, the last one to end.
    pub target: u32,
}

impl RankTimes {
    /// A rank that has done nothing yet.
    pub const NOTHING: RankTimes = RankTimes { opened: 0.0, began: 0.0, ended: 0.0, target: 0 };

    /// Seconds between set off and rest, stalls included.
    pub fn writing(&self) -> f32 {
        (self.ended - self.began).max(0.0)
    }
}

/// One simulated output.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The method, by its first name.
    pub method: &'static str,
    /// Ranks.
    pub ranks: u32,
    /// Bytes of each.
    pub size: u64,
    /// From before the first opening to after the last close, on the slowest rank.
    pub seconds: f64,
    /// Bytes per second of all targets.
    pub peak: f64,
    /// By rank.
    pub times: Vec<RankTimes>,
    /// Ranks that write to storage.
    pub writers: u32,
    /// Files that hold data.
    pub files: u32,
    /// Process groups that other targets took over.
    pub moved: u32,
    /// Bytes of copies that count for nothing.
    pub dead_bytes: u64,
    /// Largest memory of a rank: its own group and the data that it forwards.
    pub memory: u64,
    /// Number of events, as a measure of the simulation's cost.
    pub events: u64,
    /// Remarks for the user.
    pub remarks: Vec<String>,
}

impl Outcome {
    /// Bytes of the application, all ranks together.
    pub fn bytes(&self) -> u64 {
        u64::from(self.ranks) * self.size
    }

    /// Bytes of the application per second.
    pub fn bandwidth(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes() as f64 / self.seconds } else { 0.0 }
    }

    /// Share of the peak; above 1 where nothing was written.
    pub fn share(&self) -> f64 {
        self.bandwidth() / self.peak
    }

    /// The ranks whose bytes took longest to write, the slowest first.
    pub fn slowest(&self, count: usize) -> Vec<(u32, RankTimes)> {
        let mut order: Vec<u32> = (0..self.times.len() as u32).collect();
        let seconds = |rank: u32| self.times[rank as usize].writing();
        order.sort_by(|a, b| seconds(*b).total_cmp(&seconds(*a)).then(a.cmp(b)));
        order.truncate(count);
        order.into_iter().map(|rank| (rank, self.times[rank as usize])).collect()
    }

    /// The seconds of writing that this share of the ranks don't exceed.
    pub fn quantile(&self, share: f64) -> f32 {
        let mut seconds: Vec<f32> = self.times.iter().map(RankTimes::writing).collect();
        if seconds.is_empty() {
            return 0.0;
        }
        let at = ((seconds.len() - 1) as f64 * share.clamp(0.0, 1.0)).round() as usize;
        *seconds.select_nth_unstable_by(at, f32::total_cmp).1
    }
}
