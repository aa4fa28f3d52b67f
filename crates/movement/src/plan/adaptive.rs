//! Adaptive writing: which process group goes to which storage target next, decided while bytes move.
//!
//! One function, [`next`], takes the state and what happened and gives the new state and what is to be done. It does no I/O and
//! looks at no clock: events carry their time. A method and a simulated machine both call it.
//!
//! | question | answer |
//! |---|---|
//! | where does a group go at first | to the queue of the target its place in the plan names; in later outputs queues are as long as targets were fast |
//! | when does another target take it | when that one's own queue is empty and the group would be written there before its own target gets to it |
//! | which queue is taken from | the one that would take longest; its last group |
//! | when is a write stuck | when it takes `stuck` times as long as the writes so far took on average for so many bytes, and `patience` seconds |
//! | what happens to it | its group is written again elsewhere; the copy that ends later is dead bytes; nobody waits for it |
//! | when is a target slow | two writes in a row were stuck there: it gets nothing while they are under way, then only what it would end before all others are through |
//! | how does it become fast again | each output that it does nothing in halves what was seen of its slowness, until it gets a group to try |
//! | what teaches how fast a target is | writes of a quarter of the average or more: the time of short ones is not that of their bytes |
//! | where in the target's file | behind everything given out there before, dead copies too: no two places overlap |
//!
//! Source: Lofstead et al., SAND2009-7763: writers that finish early take work from slow storage targets.
//! Differs: groups stuck in flight are written again, and what was learnt of targets is kept from output to output.

mod rates;
mod turns;

use std::collections::VecDeque;
use turns::Through;

/// How eager to be: the values of the method's parameters, whose defaults the method declares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    /// Groups written to one target at a time, at most (0 counts as 1).
    pub writers_per_target: u32,
    /// A write is stuck that takes so many times what is usual.
    pub stuck: f64,
    /// And at least so many seconds.
    pub patience: f64,
    /// Writes of one group that may be under way at a time, or were, at most.
    pub copies: u32,
    /// Places begin at multiples of so many bytes (0 counts as 1).
    pub align: u64,
}

/// What happened, with its time in seconds from any fixed moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// The output begins.
    Begin {
        /// When.
        now: f64,
    },
    /// A write ended well.
    Wrote {
        /// Whose group.
        group: u32,
        /// Where to.
        target: u32,
        /// When.
        now: f64,
    },
    /// A write failed: its target gets nothing more in this output.
    Failed {
        /// Whose group.
        group: u32,
        /// Where to.
        target: u32,
        /// When.
        now: f64,
    },
    /// A write is left to itself, for its group is to be written elsewhere: nobody will hear of it any more. Its target gets
    /// nothing more in this output.
    Left {
        /// Whose group.
        group: u32,
        /// Where to.
        target: u32,
        /// When.
        now: f64,
    },
    /// A group cannot be written, wherever to.
    Broken {
        /// Whose group.
        group: u32,
        /// When.
        now: f64,
    },
    /// The time of a [`Decision::Wake`] has come.
    Tick {
        /// When.
        now: f64,
    },
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// Write a group, now.
    Write {
        /// Whose group.
        group: u32,
        /// Where to.
        target: u32,
        /// First byte in the target's file.
        offset: u64,
    },
    /// Send [`Event::Tick`] at this time, if there was none later than it.
    Wake {
        /// When.
        at: f64,
    },
    /// No target is left that could take this group.
    Lost {
        /// Whose group.
        group: u32,
    },
    /// Every group has its place, or is lost; writes still under way are dead bytes.
    Done,
}

/// Where a group rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rests {
    /// The target.
    pub target: u32,
    /// First byte in the target's file.
    pub offset: u64,
}

/// A write that was left to itself in an earlier output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Late {
    /// Where to.
    pub target: u32,
    /// Bytes that it was about.
    pub bytes: u64,
    /// What it took, or has taken so far.
    pub seconds: f64,
    /// It has ended.
    pub landed: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct InFlight {
    group: u32,
    offset: u64,
    since: f64,
    /// It was found stuck and holds no turn any more.
    stuck: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Target {
    queue: VecDeque<u32>,
    queued_bytes: u64,
    flights: Vec<InFlight>,
    end: u64,
    /// Bytes per second of one write, as last seen.
    rate: Option<f64>,
    stuck_in_a_row: u32,
    failed: bool,
    /// A write that was left to itself may be under way.
    late: bool,
    /// It carried something in this output.
    used: bool,
}

/// All that is known of an output under way, and of the targets from the outputs before.
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
    /// Bytes of a group.
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
    /// The first output.
    ///
    /// - `sizes`: bytes by group; `home`: by group, the target its plan names (modulo `targets`).
    /// - `ends`: by target, the first free byte of its file; where it is short, 0.
    pub fn new(params: Params, sizes: Vec<u64>, home: &[u32], targets: u32, ends: &[u64]) -> State {
        let targets = targets.max(1) as usize;
        let end = |i: usize| ends.get(i).copied().unwrap_or(0);
        let targets: Vec<Target> = (0..targets)
            .map(|i| Target {
                queue: VecDeque::new(),
                queued_bytes: 0,
                flights: Vec::new(),
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

    /// The next output: what was learnt of targets stays, and each gets as much as it is fast.
    ///
    /// - `ends`: by target, the first free byte of its file; where it is short, 0.
    /// - `late`: what has become of writes that were left to themselves.
    ///
    /// Targets that failed are tried again.
    #[must_use]
    pub fn again(mut self, params: Params, sizes: Vec<u64>, ends: &[u64], late: &[Late]) -> State {
        self.params = params;
        let usual = self.usual();
        for (i, target) in self.targets.iter_mut().enumerate() {
            // Its own view of the time to come starts anew: a dead copy of the last output never holds a turn.
            target.flights.clear();
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
        // Each group goes to the target that would be through with it first.
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

    /// Where a group rests; `None` while it is not written.
    pub fn rests(&self, group: u32) -> Option<Rests> {
        self.rests.get(group as usize).copied().flatten()
    }

    /// Whether every group rests somewhere or is lost.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Bytes of copies that count for nothing, so far.
    pub fn dead_bytes(&self) -> u64 {
        self.dead_bytes
    }

    /// Groups that other targets took, so far.
    pub fn moved(&self) -> u32 {
        self.moved
    }

    /// Bytes per second of one write to a target, as last seen.
    pub fn rate(&self, target: u32) -> Option<f64> {
        self.targets.get(target as usize)?.rate
    }

    /// First byte of a target's file behind everything given out there.
    pub fn end(&self, target: u32) -> u64 {
        self.targets.get(target as usize).map_or(0, |t| t.end)
    }

    /// Writes under way at a target that hold a turn there.
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
        of.flights.push(InFlight { group, offset, since: self.now, stuck: false });
        self.copies[group as usize] += 1;
        out.push(Decision::Write { group, target: target as u32, offset });
    }

    fn is_open(&self, group: u32) -> bool {
        self.rests[group as usize].is_none() && !self.lost[group as usize]
    }

    /// Gives a target work as long as it has turns and there is some that it should do.
    fn fill(&mut self, target: usize, out: &mut Vec<Decision>) {
        while !self.targets[target].failed && self.targets[target].turns() < self.turns_allowed() {
            let Some(group) = self.own(target).or_else(|| self.take(target)) else { return };
            if self.is_open(group) {
                self.start(target, group, out);
            }
        }
    }

    fn land(&mut self, target: usize, group: u32) -> Option<InFlight> {
        let flights = &mut self.targets.get_mut(target)?.flights;
        let i = flights.iter().position(|f| f.group == group)?;
        Some(flights.swap_remove(i))
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

/// So many stuck writes in a row make a target slow.
const SLOW: u32 = 2;

impl Target {
    fn turns(&self) -> u32 {
        self.flights.iter().filter(|f| !f.stuck).count() as u32
    }
}

/// What follows from what happened.
///
/// Events of writes that nobody asked for change nothing; so do events behind [`Decision::Done`], but for what they teach about
/// targets.
///
/// # Cost
/// Constant where a target has work of its own; else linear in targets.
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
            let Some(flight) = state.land(target as usize, group) else { return (state, out) };
            let (at, bytes) = (target as usize, state.sizes[group as usize]);
            let seconds = (state.now - flight.since).max(1e-9);
            let rate = bytes.max(1) as f64 / seconds;
            // The average is that of writes that went well: one that was stuck must not make the next one look usual.
            if !flight.stuck {
                state.wrote_bytes += bytes.max(1) as f64;
                state.wrote_seconds += seconds;
                state.targets[at].stuck_in_a_row = 0;
            }
            // What was seen before counts as much as what is seen now.
            let teaches = bytes >= state.average / 4;
            let of = &mut state.targets[at];
            if teaches && (!flight.stuck || of.stuck_in_a_row >= SLOW) {
                of.rate = Some(of.rate.map_or(rate, |before| 2.0 / (1.0 / before + 1.0 / rate)));
            }
            if state.is_open(group) {
                state.rests[group as usize] = Some(Rests { target, offset: flight.offset });
                state.settle(group);
                // Copies still under way count for nothing from now on, and hold no turn.
                let others = state.copies[group as usize] - 1;
                if others > 0 {
                    state.dead_bytes += u64::from(others) * bytes;
                    for other in &mut state.targets {
                        other.flights.iter_mut().filter(|f| f.group == group).for_each(|f| f.stuck = true);
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
                target.flights.retain(|f| f.group != group);
            }
            state.idle(&mut out);
        }
        Event::Failed { group, target, .. } => {
            if state.land(target as usize, group).is_none() {
                return (state, out);
            }
            state.targets[target as usize].failed = true;
            let under_way = state.targets.iter().any(|t| t.flights.iter().any(|f| f.group == group));
            if state.is_open(group) && !under_way && !state.rewrite(group, target as usize, &mut out) {
                state.lose(group, &mut out);
            }
            state.idle(&mut out);
            if state.targets.iter().all(|t| t.failed) {
                for group in 0..state.sizes.len() as u32 {
                    let under_way = state.targets.iter().any(|t| t.flights.iter().any(|f| f.group == group));
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
