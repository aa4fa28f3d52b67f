//! Adaptive writing: assigns process groups to storage targets while data is written.
//!
//! A pure function, [`next`], maps the state and an event to the new state and decisions. It does no I/O and reads no clock:
//! events contain their time. The method and a simulated machine both call it.
//!
//! | question | answer |
//! |---|---|
//! | a group's first queue | that of its home target; in later outputs, queue lengths are proportional to the targets' speed |
//! | when does another target take the group | when the other target's own queue is empty, and it would write the group before the group's target drains |
//! | which group is taken | the last group of the queue that takes longest to drain |
//! | when is a write stuck | when it takes longer than `patience` seconds and than `stuck` times the average time for its bytes |
//! | what happens to a stuck write | its group is written to another target (at most one write of a group is in flight at each); the copy that ends later is dead bytes, and no rank waits for it |
//! | when is a target slow | after two stuck writes in a row: it gets no groups while these are in flight, then only groups that it would finish before all other work is done |
//! | when does it recover | each output without work doubles its estimated speed, up to the average, until it gets a group |
//! | which writes are measured | those of at least a quarter of the average size: latency dominates the time of shorter ones |
//! | offset in the target's file | behind all extents assigned there before, including dead copies: no two extents overlap |
//!
//! Source: Lofstead et al., SAND2009-7763: writers that finish early take work from slow storage targets.
//! Differs: stuck groups are written again while in flight, and the targets' speed is kept between outputs.

mod rates;
mod turns;

use std::collections::VecDeque;
use turns::Through;

/// The method's parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    /// Most concurrent writes at one target (0 counts as 1).
    pub writers_per_target: u32,
    /// A write is stuck if it takes this many times the average time for its bytes,
    pub stuck: f64,
    /// and at least this many seconds.
    pub patience: f64,
    /// A stuck write is repeated only if its group has had fewer writes than this in the output (0 counts as 1).
    pub copies: u32,
    /// Offsets are multiples of this many bytes (0 counts as 1).
    pub align: u64,
}

/// An event, with its time in seconds from any fixed moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// The output begins.
    Begin {
        /// Time of the event.
        now: f64,
    },
    /// A write succeeded.
    Wrote {
        /// The process group.
        group: u32,
        /// The storage target.
        target: u32,
        /// Time of the event.
        now: f64,
    },
    /// A write failed: its target gets no further groups in this output.
    Failed {
        /// The process group.
        group: u32,
        /// The storage target.
        target: u32,
        /// Time of the event.
        now: f64,
    },
    /// A write was abandoned, because its group is written elsewhere: no further event will report it. While its target is slow,
    /// the target gets no groups in this output.
    Left {
        /// The process group.
        group: u32,
        /// The storage target.
        target: u32,
        /// Time of the event.
        now: f64,
    },
    /// A group cannot be written to any target.
    Broken {
        /// The process group.
        group: u32,
        /// Time of the event.
        now: f64,
    },
    /// The time of a [`Decision::Wake`] has come.
    Tick {
        /// Time of the event.
        now: f64,
    },
}

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// Write a group, now.
    Write {
        /// The process group.
        group: u32,
        /// The storage target.
        target: u32,
        /// Offset in the target's file.
        offset: u64,
    },
    /// Send [`Event::Tick`] at this time, unless a subsequent `Wake` replaces it.
    Wake {
        /// Time of the tick.
        at: f64,
    },
    /// No target can take this group.
    Lost {
        /// The process group.
        group: u32,
    },
    /// Every group is written or lost; writes still in flight are dead bytes.
    Done,
}

/// The location of a written group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rests {
    /// The target.
    pub target: u32,
    /// Offset in the target's file.
    pub offset: u64,
}

/// An abandoned write of an earlier output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Late {
    /// Storage target.
    pub target: u32,
    /// Bytes of the write.
    pub bytes: u64,
    /// Its duration, so far if it has not ended.
    pub seconds: f64,
    /// The write has ended.
    pub landed: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct PlannedWrite {
    group: u32,
    offset: u64,
    since: f64,
    /// The write is stuck, or its group is written elsewhere: it does not count as a writer of the target.
    stuck: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Target {
    queue: VecDeque<u32>,
    queued_bytes: u64,
    writes: Vec<PlannedWrite>,
    end: u64,
    /// Measured bytes per second of one write.
    rate: Option<f64>,
    stuck_in_a_row: u32,
    failed: bool,
    /// An abandoned write may be in flight.
    late: bool,
    /// The target got a group in this output.
    used: bool,
}

/// The state of an output in flight, with the targets' measured speed.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    params: Params,
    sizes: Vec<u64>,
    rests: Vec<Option<Rests>>,
    copies: Vec<u32>,
    lost: Vec<bool>,
    targets: Vec<Target>,
    left: usize,
    left_bytes: u64,
    /// Average bytes of a group.
    average: u64,
    now: f64,
    wrote_bytes: f64,
    wrote_seconds: f64,
    wake: Option<f64>,
    dead_bytes: u64,
    moved: u32,
    done: bool,
}

impl State {
    /// The state of a first output.
    ///
    /// - `sizes`: bytes of each group; `home`: home target of each group (modulo `targets`).
    /// - `ends`: first free byte of each target's file; 0 for targets beyond its length.
    pub fn new(params: Params, sizes: Vec<u64>, home: &[u32], targets: u32, ends: &[u64]) -> State {
        let targets = targets.max(1) as usize;
        let end = |i: usize| ends.get(i).copied().unwrap_or(0);
        let targets: Vec<Target> = (0..targets)
            .map(|i| Target {
                queue: VecDeque::new(),
                queued_bytes: 0,
                writes: Vec::new(),
                end: end(i),
                rate: None,
                stuck_in_a_row: 0,
                failed: false,
                late: false,
                used: false,
            })
            .collect();
        let mut state = State {
            params,
            rests: Vec::new(),
            copies: Vec::new(),
            lost: Vec::new(),
            sizes: Vec::new(),
            targets,
            left: 0,
            left_bytes: 0,
            average: 0,
            now: 0.0,
            wrote_bytes: 0.0,
            wrote_seconds: 0.0,
            wake: None,
            dead_bytes: 0,
            moved: 0,
            done: false,
        };
        state.load(sizes);
        for group in 0..state.sizes.len() {
            let home = home.get(group).copied().unwrap_or(group as u32) as usize % state.targets.len();
            state.put(home, group as u32);
        }
        state
    }

    /// The state of the next output: keeps the targets' speed, and distributes groups in proportion to it.
    ///
    /// - `ends`: as in [`State::new`]; `late`: abandoned writes of earlier outputs.
    ///
    /// Failed targets are tried again.
    #[must_use]
    pub fn again(mut self, params: Params, sizes: Vec<u64>, ends: &[u64], late: &[Late]) -> State {
        self.params = params;
        let usual = self.usual();
        for (i, target) in self.targets.iter_mut().enumerate() {
            // Dead copies of the last output do not count as writers.
            target.writes.clear();
            target.queue.clear();
            target.queued_bytes = 0;
            target.failed = false;
            target.late = false;
            target.end = ends.get(i).copied().unwrap_or(0);
            let used = std::mem::take(&mut target.used);
            if target.stuck_in_a_row >= SLOW && !used {
                target.rate = target.rate.zip(usual).map(|(rate, usual)| (2.0 * rate).min(usual));
            }
        }
        for seen in late {
            let Some(target) = self.targets.get_mut(seen.target as usize).filter(|_| seen.bytes > 0) else { continue };
            let shown = seen.bytes as f64 / seen.seconds.max(1e-9);
            target.late |= !seen.landed;
            target.stuck_in_a_row = target.stuck_in_a_row.max(SLOW);
            target.rate = Some(target.rate.map_or(shown, |rate| rate.min(shown)));
        }
        self.load(sizes);
        let usual = self.usual().unwrap_or(1.0).max(f64::MIN_POSITIVE);
        // Each group goes to the target that would finish it first.
        let mut order: std::collections::BinaryHeap<Through> =
            (0..self.targets.len()).map(|target| Through { at: 0.0, target }).collect();
        for group in 0..self.sizes.len() {
            let Some(first) = order.pop() else { break };
            let rate = self.targets[first.target].rate.unwrap_or(usual).max(f64::MIN_POSITIVE);
            self.put(first.target, group as u32);
            order.push(Through { at: first.at + (self.sizes[group].max(1)) as f64 / rate, target: first.target });
        }
        self
    }

    fn load(&mut self, sizes: Vec<u64>) {
        self.left = sizes.len();
        self.left_bytes = sizes.iter().sum();
        self.average = self.left_bytes / (sizes.len() as u64).max(1);
        self.rests = vec![None; sizes.len()];
        self.copies = vec![0; sizes.len()];
        self.lost = vec![false; sizes.len()];
        self.sizes = sizes;
        self.wake = None;
        self.dead_bytes = 0;
        self.moved = 0;
        self.done = false;
    }

    /// Location of a group; `None` while it is not written.
    pub fn rests(&self, group: u32) -> Option<Rests> {
        self.rests.get(group as usize).copied().flatten()
    }

    /// Target and end of each written group.
    pub fn written(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let written = self.rests.iter().zip(&self.sizes);
        written.filter_map(|(rests, size)| rests.map(|rests| (rests.target, rests.offset.saturating_add(*size))))
    }

    /// Whether every group is written or lost.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Bytes of dead copies so far.
    pub fn dead_bytes(&self) -> u64 {
        self.dead_bytes
    }

    /// Number of groups moved to other targets so far.
    pub fn moved(&self) -> u32 {
        self.moved
    }

    /// Measured bytes per second of one write to a target.
    pub fn rate(&self, target: u32) -> Option<f64> {
        self.targets.get(target as usize)?.rate
    }

    /// End of all extents assigned in a target's file.
    pub fn end(&self, target: u32) -> u64 {
        self.targets.get(target as usize).map_or(0, |t| t.end)
    }

    /// Number of writes in flight at a target, without stuck ones.
    pub fn writing(&self, target: u32) -> u32 {
        self.targets.get(target as usize).map_or(0, Target::turns)
    }

    fn put(&mut self, target: usize, group: u32) {
        self.targets[target].queue.push_back(group);
        self.targets[target].queued_bytes += self.sizes[group as usize];
    }

    fn start(&mut self, target: usize, group: u32, out: &mut Vec<Decision>) {
        let align = self.params.align.max(1);
        let of = &mut self.targets[target];
        let offset = of.end.checked_next_multiple_of(align).unwrap_or(of.end);
        of.end = offset.saturating_add(self.sizes[group as usize]);
        of.used = true;
        of.writes.push(PlannedWrite { group, offset, since: self.now, stuck: false });
        self.copies[group as usize] += 1;
        out.push(Decision::Write { group, target: target as u32, offset });
    }

    fn is_open(&self, group: u32) -> bool {
        self.rests[group as usize].is_none() && !self.lost[group as usize]
    }

    /// Whether a write of the group is in flight at the target.
    fn is_writing(&self, target: usize, group: u32) -> bool {
        self.targets[target].writes.iter().any(|f| f.group == group)
    }

    /// Starts writes at a target, up to its limit, while there are groups for it.
    fn fill(&mut self, target: usize, out: &mut Vec<Decision>) {
        while !self.targets[target].failed && self.targets[target].turns() < self.turns_allowed() {
            let Some(group) = self.own(target).or_else(|| self.take(target)) else { return };
            // A group whose write is in flight here comes back with that write's report.
            if self.is_open(group) && !self.is_writing(target, group) {
                self.start(target, group, out);
            }
        }
    }

    fn land(&mut self, target: usize, group: u32) -> Option<PlannedWrite> {
        let writes = &mut self.targets.get_mut(target)?.writes;
        let i = writes.iter().position(|f| f.group == group)?;
        Some(writes.swap_remove(i))
    }

    fn lose(&mut self, group: u32, out: &mut Vec<Decision>) {
        self.lost[group as usize] = true;
        self.settle(group);
        out.push(Decision::Lost { group });
    }

    fn settle(&mut self, group: u32) {
        self.left -= 1;
        self.left_bytes -= self.sizes[group as usize];
    }
}

/// Number of consecutive stuck writes that make a target slow.
const SLOW: u32 = 2;

impl Target {
    fn turns(&self) -> u32 {
        self.writes.iter().filter(|f| !f.stuck).count() as u32
    }
}

/// The decisions that follow from an event.
///
/// Events of unknown writes are ignored. Events after [`Decision::Done`] only update the targets' speed.
///
/// # Cost
/// Constant if the target's own queue has groups; else linear in the number of targets.
pub fn next(mut state: State, event: Event) -> (State, Vec<Decision>) {
    let mut out = Vec::new();
    let now = match event {
        Event::Begin { now } | Event::Tick { now } | Event::Broken { now, .. } => now,
        Event::Wrote { now, .. } | Event::Failed { now, .. } | Event::Left { now, .. } => now,
    };
    state.now = if matches!(event, Event::Begin { .. }) { now } else { state.now.max(now) };
    match event {
        Event::Begin { .. } => state.idle(&mut out),
        Event::Tick { .. } => {
            state.look(&mut out);
            state.idle(&mut out);
        }
        Event::Wrote { group, target, .. } => {
            let Some(write) = state.land(target as usize, group) else { return (state, out) };
            let (at, bytes) = (target as usize, state.sizes[group as usize]);
            let seconds = (state.now - write.since).max(1e-9);
            let rate = bytes.max(1) as f64 / seconds;
            // Stuck writes are not part of the average: they would raise the threshold for the next ones.
            if !write.stuck {
                state.wrote_bytes += bytes.max(1) as f64;
                state.wrote_seconds += seconds;
                state.targets[at].stuck_in_a_row = 0;
            }
            // The new rate is the harmonic mean of the previous rate and this measurement.
            let teaches = bytes >= state.average / 4;
            let of = &mut state.targets[at];
            if teaches && (!write.stuck || of.stuck_in_a_row >= SLOW) {
                of.rate = Some(of.rate.map_or(rate, |before| 2.0 / (1.0 / before + 1.0 / rate)));
            }
            if state.is_open(group) {
                state.rests[group as usize] = Some(Rests { target, offset: write.offset });
                state.settle(group);
                // Other copies are dead from now on, and do not count as writers.
                let others = state.copies[group as usize] - 1;
                if others > 0 {
                    state.dead_bytes += u64::from(others) * bytes;
                    for other in &mut state.targets {
                        other.writes.iter_mut().filter(|f| f.group == group).for_each(|f| f.stuck = true);
                    }
                }
            }
            state.fill(at, &mut out);
        }
        Event::Left { group, target, .. } => {
            if state.land(target as usize, group).is_some() {
                state.targets[target as usize].late = true;
            }
        }
        Event::Broken { group, .. } => {
            if !state.sizes.get(group as usize).is_some_and(|_| state.is_open(group)) {
                return (state, out);
            }
            state.lose(group, &mut out);
            for target in &mut state.targets {
                target.writes.retain(|f| f.group != group);
            }
            state.idle(&mut out);
        }
        Event::Failed { group, target, .. } => {
            if state.land(target as usize, group).is_none() {
                return (state, out);
            }
            state.targets[target as usize].failed = true;
            let under_way = state.targets.iter().any(|t| t.writes.iter().any(|f| f.group == group));
            if state.is_open(group) && !under_way && !state.rewrite(group, target as usize, &mut out) {
                state.lose(group, &mut out);
            }
            state.idle(&mut out);
            if state.targets.iter().all(|t| t.failed) {
                for group in 0..state.sizes.len() as u32 {
                    let under_way = state.targets.iter().any(|t| t.writes.iter().any(|f| f.group == group));
                    if state.is_open(group) && !under_way {
                        state.lose(group, &mut out);
                    }
                }
            }
        }
    }
    state.insist(&mut out);
    if state.left == 0 {
        if !state.done {
            state.done = true;
            out.push(Decision::Done);
        }
    } else {
        state.wake(&mut out);
    }
    (state, out)
}

#[cfg(test)]
mod tests;
