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

use std::collections::VecDeque;

/// How eager to be.
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

impl Default for Params {
    fn default() -> Params {
        Params { writers_per_target: 1, stuck: 2.0, patience: 0.0, copies: 3, align: 1 }
    }
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

    /// Bytes per second of a write, on average.
    fn usual(&self) -> Option<f64> {
        (self.wrote_seconds > 0.0 && self.wrote_bytes > 0.0).then(|| self.wrote_bytes / self.wrote_seconds)
    }

    fn rate_of(&self, target: usize) -> f64 {
        self.targets[target].rate.or_else(|| self.usual()).unwrap_or(1.0).max(f64::MIN_POSITIVE)
    }

    /// Seconds until a target is through with its queue and its writes.
    fn drain(&self, target: usize) -> f64 {
        let rate = self.rate_of(target) * f64::from(self.turns_allowed());
        let of = &self.targets[target];
        let under_way: f64 = of
            .flights
            .iter()
            .filter(|f| !f.stuck)
            .map(|f| (self.sizes[f.group as usize] as f64 - (self.now - f.since) * self.rate_of(target)).max(0.0))
            .sum();
        (of.queued_bytes as f64 + under_way) / rate
    }

    fn turns_allowed(&self) -> u32 {
        self.params.writers_per_target.max(1)
    }

    /// Seconds until all would be through, were the work spread evenly.
    fn horizon(&self) -> f64 {
        let usual = self.usual().unwrap_or(1.0).max(f64::MIN_POSITIVE);
        let turns = self.targets.iter().filter(|t| !t.failed && t.stuck_in_a_row < SLOW).count().max(1);
        self.left_bytes as f64 / (usual * f64::from(self.turns_allowed()) * turns as f64)
    }

    /// When a write that began at `since` counts as stuck.
    fn deadline(&self, group: u32, since: f64) -> Option<f64> {
        let usual = self.usual()?;
        let takes = self.params.stuck.max(1.0) * self.sizes[group as usize].max(1) as f64 / usual;
        Some(since + takes.max(self.params.patience))
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

    /// The next group of its own queue.
    fn own(&mut self, target: usize) -> Option<u32> {
        let group = *self.targets[target].queue.front()?;
        let bytes = self.sizes[group as usize];
        let of = &self.targets[target];
        if of.stuck_in_a_row >= SLOW && self.another(target) {
            // While stuck writes are under way there, nobody knows how slow it is.
            let under_way = of.late || of.flights.iter().any(|f| f.stuck);
            if under_way || bytes as f64 / self.rate_of(target) > self.horizon() {
                return None;
            }
        }
        self.targets[target].queue.pop_front();
        self.targets[target].queued_bytes -= bytes;
        Some(group)
    }

    /// Whether another target could take what this one leaves.
    fn another(&self, target: usize) -> bool {
        (0..self.targets.len()).any(|other| other != target && !self.refuses(other))
    }

    /// Whether a target may do nothing for its own groups.
    fn refuses(&self, target: usize) -> bool {
        self.targets[target].failed || self.targets[target].stuck_in_a_row >= SLOW
    }

    /// A group from the queue that would take longest.
    fn take(&mut self, target: usize) -> Option<u32> {
        if self.targets[target].stuck_in_a_row >= SLOW && self.another(target) {
            return None;
        }
        let mut longest: Option<(f64, usize)> = None;
        for other in 0..self.targets.len() {
            if other != target && !self.targets[other].queue.is_empty() {
                // A slow target may refuse its own groups: they must be taken.
                let drain = if self.refuses(other) { f64::INFINITY } else { self.drain(other) };
                if longest.is_none_or(|(most, _)| drain > most) {
                    longest = Some((drain, other));
                }
            }
        }
        let (drain, from) = longest?;
        let group = *self.targets[from].queue.back()?;
        let bytes = self.sizes[group as usize];
        if !self.refuses(from) && bytes as f64 / self.rate_of(target) > drain {
            return None;
        }
        self.targets[from].queue.pop_back();
        self.targets[from].queued_bytes -= bytes;
        self.moved += 1;
        Some(group)
    }

    /// Where a group is written again: the target that would be through with it first.
    fn elsewhere(&self, group: u32, not: usize) -> Option<usize> {
        let bytes = self.sizes[group as usize] as f64;
        let mut best: Option<(f64, usize)> = None;
        for target in 0..self.targets.len() {
            let of = &self.targets[target];
            if target == not || of.failed || of.flights.iter().any(|f| f.group == group) {
                continue;
            }
            let slow = if of.stuck_in_a_row >= SLOW { 1e12 } else { 0.0 };
            let through = self.drain(target) + bytes / self.rate_of(target) + slow;
            if best.is_none_or(|(least, _)| through < least) {
                best = Some((through, target));
            }
        }
        best.map(|(_, target)| target)
    }

    /// Puts a group first into the queue of the target that would be through with it first, and has it begin where it can.
    fn rewrite(&mut self, group: u32, not: usize, out: &mut Vec<Decision>) -> bool {
        let Some(target) = self.elsewhere(group, not) else { return false };
        self.moved += 1;
        self.targets[target].queue.push_front(group);
        self.targets[target].queued_bytes += self.sizes[group as usize];
        self.fill(target, out);
        true
    }

    /// Finds writes that are stuck.
    fn look(&mut self, out: &mut Vec<Decision>) {
        let mut found = Vec::new();
        for target in 0..self.targets.len() {
            for (i, flight) in self.targets[target].flights.iter().enumerate() {
                let late = self.deadline(flight.group, flight.since).is_some_and(|at| at <= self.now);
                if late && !flight.stuck && self.is_open(flight.group) {
                    found.push((target, i));
                }
            }
        }
        for &(target, i) in &found {
            let flight = &self.targets[target].flights[i];
            let (group, since) = (flight.group, flight.since);
            if self.copies[group as usize] >= self.params.copies.max(1) || !self.another(target) {
                continue;
            }
            let of = &mut self.targets[target];
            of.flights[i].stuck = true;
            of.stuck_in_a_row += 1;
            if of.stuck_in_a_row >= SLOW {
                let shown = self.sizes[group as usize] as f64 / (self.now - since).max(f64::MIN_POSITIVE);
                of.rate = Some(of.rate.map_or(shown, |rate| rate.min(shown)));
            }
        }
        for (target, i) in found {
            let flight = &self.targets[target].flights[i];
            if flight.stuck {
                let group = flight.group;
                self.rewrite(group, target, out);
                self.fill(target, out);
            }
        }
    }

    /// Targets without work look for some: what one end has left to do may now be another's.
    fn idle(&mut self, out: &mut Vec<Decision>) {
        for target in 0..self.targets.len() {
            if self.targets[target].turns() < self.turns_allowed() {
                self.fill(target, out);
            }
        }
    }

    /// Where nothing is under way that is not stuck, groups wait and every target would rather leave them to another, the
    /// fastest begins.
    fn insist(&mut self, out: &mut Vec<Decision>) {
        if self.left == 0 || self.targets.iter().any(|t| t.turns() > 0) {
            return;
        }
        self.idle(out);
        let willing = |(_, t): &(usize, &Target)| !t.failed;
        while self.targets.iter().all(|t| t.turns() == 0) {
            let Some(from) = self.targets.iter().position(|t| !t.queue.is_empty()) else { return };
            let targets = self.targets.iter().enumerate().filter(willing);
            let Some((target, _)) = targets.max_by(|a, b| self.rate_of(a.0).total_cmp(&self.rate_of(b.0))) else {
                return;
            };
            let Some(group) = self.targets[from].queue.pop_front() else { return };
            self.targets[from].queued_bytes -= self.sizes[group as usize];
            if self.is_open(group) && !self.targets[target].flights.iter().any(|f| f.group == group) {
                self.start(target, group, out);
            }
        }
    }

    /// Asks for a look at the time when the first write could be found stuck.
    fn wake(&mut self, out: &mut Vec<Decision>) {
        if self.wake.is_some_and(|asked| asked > self.now) {
            return;
        }
        let mut first: Option<f64> = None;
        // As `another` for all at once.
        let willing = (0..self.targets.len()).filter(|t| !self.refuses(*t)).take(2).count();
        for (i, target) in self.targets.iter().enumerate() {
            if willing == 0 || (willing == 1 && !self.refuses(i)) {
                continue;
            }
            for flight in target.flights.iter().filter(|f| !f.stuck) {
                let more = self.copies[flight.group as usize] < self.params.copies.max(1);
                if !more || !self.is_open(flight.group) {
                    continue;
                }
                // What was learnt since may have it stuck by now.
                if let Some(at) = self.deadline(flight.group, flight.since).map(|at| at.max(self.now)) {
                    first = Some(first.map_or(at, |f| f.min(at)));
                }
            }
        }
        if let Some(at) = first {
            self.wake = Some(at);
            out.push(Decision::Wake { at });
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

/// When a target would be through; the earliest is the greatest, as a heap wants it.
#[derive(PartialEq)]
struct Through {
    at: f64,
    target: usize,
}

impl Eq for Through {}

impl Ord for Through {
    fn cmp(&self, other: &Through) -> std::cmp::Ordering {
        other.at.total_cmp(&self.at).then(other.target.cmp(&self.target))
    }
}

impl PartialOrd for Through {
    fn partial_cmp(&self, other: &Through) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const MIB: u64 = 1 << 20;

    /// Carries decisions out: targets write one byte after the other at their own speed, however many write at a time.
    struct Bench {
        seconds_per_mib: Vec<f64>,
        /// Writes that fail: by how many a target carried out before.
        fails_behind: Vec<Option<u32>>,
        carried: Vec<u32>,
        /// Who is told to write elsewhere leaves its first write to itself, and nobody hears of that any more.
        leaves: bool,
    }

    struct Ran {
        state: State,
        seconds: f64,
        places: Vec<(u32, u64, u64)>,
        lost: Vec<u32>,
    }

    impl Bench {
        fn new(seconds_per_mib: Vec<f64>) -> Bench {
            let n = seconds_per_mib.len();
            Bench { seconds_per_mib, fails_behind: vec![None; n], carried: vec![0; n], leaves: false }
        }

        fn run(&mut self, mut state: State, sizes: &[u64]) -> Ran {
            let mut waiting: Vec<(f64, u64, Event)> = vec![(0.0, 0, Event::Begin { now: 0.0 })];
            let (mut count, mut places, mut lost) = (0u64, Vec::new(), Vec::new());
            let mut seconds = 0.0;
            while !waiting.is_empty() {
                let first = (0..waiting.len())
                    .min_by(|a, b| waiting[*a].0.total_cmp(&waiting[*b].0).then(waiting[*a].1.cmp(&waiting[*b].1)));
                let (now, _, event) = waiting.swap_remove(first.unwrap());
                let again = state.clone();
                let (then, decisions) = next(state, event);
                assert_eq!(next(again, event).1, decisions, "the same twice");
                state = then;
                for decision in decisions {
                    count += 1;
                    assert!(count < 1_000_000, "it ends");
                    match decision {
                        Decision::Write { group, target, offset } => {
                            let (t, bytes) = (target as usize, sizes[group as usize]);
                            let of = |event: &Event| match event {
                                Event::Wrote { group: g, target, .. } | Event::Failed { group: g, target, .. } => {
                                    (*g == group).then_some(*target)
                                }
                                _ => None,
                            };
                            let before = waiting.iter().position(|(_, _, event)| of(event).is_some());
                            if let Some(before) = before.filter(|_| self.leaves) {
                                let target = of(&waiting.swap_remove(before).2).unwrap();
                                waiting.push((now, count, Event::Left { group, target, now }));
                                count += 1;
                            }
                            places.push((target, offset, bytes));
                            let end = now + bytes.max(1) as f64 / MIB as f64 * self.seconds_per_mib[t];
                            let fails = self.fails_behind[t].is_some_and(|n| self.carried[t] >= n);
                            self.carried[t] += 1;
                            waiting.push((
                                end,
                                count,
                                if fails {
                                    Event::Failed { group, target, now: end }
                                } else {
                                    Event::Wrote { group, target, now: end }
                                },
                            ));
                        }
                        Decision::Wake { at } => waiting.push((at, count, Event::Tick { now: at })),
                        Decision::Lost { group } => lost.push(group),
                        Decision::Done => seconds = now,
                    }
                }
            }
            assert!(state.is_done());
            Ran { state, seconds, places, lost }
        }
    }

    fn ends_of(state: &State) -> Vec<u64> {
        (0..state.targets.len() as u32).map(|t| state.end(t)).collect()
    }

    #[test]
    fn a_slow_target_is_tried_again_when_it_did_nothing_for_some_outputs() {
        let (sizes, state) = even(80, 8);
        let mut speeds = vec![1.0; 8];
        speeds[3] = 100.0;
        let mut bench = Bench::new(speeds);
        let mut ran = bench.run(state, &sizes);
        bench.seconds_per_mib[3] = 1.0;
        for output in 0.. {
            assert!(output < 12, "it is never tried");
            bench.carried.fill(0);
            let again = ran.state.clone().again(Params::default(), sizes.clone(), &ends_of(&ran.state), &[]);
            ran = bench.run(again, &sizes);
            if bench.carried[3] > 0 {
                assert!(output > 1, "at once");
                break;
            }
        }
        let again = ran.state.clone().again(Params::default(), sizes.clone(), &ends_of(&ran.state), &[]);
        assert!(bench.run(again, &sizes).seconds <= 11.0, "it carries its share");
    }

    #[test]
    fn what_was_left_to_itself_says_how_slow_its_target_is() {
        let (sizes, state) = even(80, 8);
        let (state, _) = next(state, Event::Begin { now: 0.0 });
        let late = [Late { target: 3, bytes: MIB, seconds: 50.0, landed: false }];
        let mut bench = Bench::new(vec![1.0; 8]);
        let ran = bench.run(state.again(Params::default(), sizes.clone(), &[], &late), &sizes);
        assert_eq!((bench.carried[3], ran.lost.len()), (0, 0));
        // Left to itself at a target and failing at all others, a group is lost and not waited for.
        let (_, state) = even(1, 2);
        let (state, first) = next(state, Event::Begin { now: 0.0 });
        assert_eq!(first, [Decision::Write { group: 0, target: 0, offset: 0 }]);
        let (state, _) = next(state, Event::Left { group: 0, target: 0, now: 1.0 });
        let (state, _) = next(state, Event::Broken { group: 0, now: 2.0 });
        assert!(state.is_done() && state.rests(0).is_none());
    }

    fn homes(groups: usize, targets: u32) -> Vec<u32> {
        (0..groups as u32).map(|group| group % targets).collect()
    }

    fn even(groups: usize, targets: u32) -> (Vec<u64>, State) {
        let sizes = vec![MIB; groups];
        let state = State::new(Params::default(), sizes.clone(), &homes(groups, targets), targets, &[]);
        (sizes, state)
    }

    #[test]
    fn where_all_are_equal_the_plan_is_kept() {
        let (sizes, state) = even(80, 8);
        let ran = Bench::new(vec![1.0; 8]).run(state, &sizes);
        assert_eq!(ran.seconds, 10.0);
        assert_eq!((ran.state.moved(), ran.state.dead_bytes()), (0, 0));
        assert!((0..80).all(|g| ran.state.rests(g) == Some(Rests { target: g % 8, offset: u64::from(g / 8) * MIB })));
    }

    #[test]
    fn one_of_eight_targets_a_hundred_times_slower_costs_less_than_half_the_time() {
        let (sizes, state) = even(80, 8);
        let mut speeds = vec![1.0; 8];
        speeds[3] = 100.0;
        let mut bench = Bench::new(speeds);
        let ran = bench.run(state, &sizes);
        assert!(ran.seconds < 15.0, "{} s", ran.seconds);
        assert_eq!((ran.state.moved(), ran.state.dead_bytes()), (10, 2 * MIB));
        // What was learnt helps the next output: nothing begins there, nothing is written twice.
        bench.carried.fill(0);
        let ran =
            bench.run(ran.state.clone().again(Params::default(), sizes.clone(), &ends_of(&ran.state), &[]), &sizes);
        assert!(ran.seconds <= 12.0, "{} s", ran.seconds);
        assert_eq!((bench.carried[3], ran.state.dead_bytes()), (0, 0));
    }

    #[test]
    fn a_target_that_fails_loses_no_group_as_long_as_there_is_another() {
        let (sizes, state) = even(20, 2);
        let mut bench = Bench::new(vec![1.0; 2]);
        bench.fails_behind[1] = Some(3);
        let ran = bench.run(state, &sizes);
        assert!(ran.lost.is_empty());
        assert_eq!((0..20).filter(|g| ran.state.rests(*g).unwrap().target == 1).count(), 3);
    }

    #[test]
    fn where_every_target_fails_what_was_not_written_is_named() {
        let (sizes, state) = even(20, 2);
        let mut bench = Bench::new(vec![1.0; 2]);
        bench.fails_behind = vec![Some(3), Some(2)];
        let ran = bench.run(state, &sizes);
        assert_eq!(ran.lost.len(), 15);
        assert!(ran.lost.iter().all(|g| ran.state.rests(*g).is_none()));
    }

    proptest! {
        #[test]
        fn every_group_rests_once_and_no_two_places_meet(
            sizes in prop::collection::vec(0u64..4 * MIB, 0..120),
            speeds in prop::collection::vec(prop_oneof![4 => 0.5f64..2.0, 1 => 10.0f64..200.0], 1..12),
            fails in prop::collection::vec(prop::option::weighted(0.2, 0u32..5), 12),
            writers in 0u32..4,
            align in prop_oneof![Just(0u64), Just(1), Just(65536)],
            end in 0u64..1000,
            leaves in any::<bool>(),
            stuck in prop_oneof![Just(1.0), Just(2.0)],
        ) {
            let targets = speeds.len() as u32;
            let params = Params { writers_per_target: writers, stuck, align, ..Params::default() };
            let ends = vec![end; speeds.len()];
            let state = State::new(params, sizes.clone(), &homes(sizes.len(), targets), targets, &ends);
            let mut bench = Bench::new(speeds);
            bench.fails_behind = fails[..targets as usize].to_vec();
            bench.leaves = leaves;
            let mut ran = bench.run(state, &sizes);
            for output in 0..2 {
                let all_failed = bench.fails_behind.iter().all(Option::is_some);
                prop_assert!(ran.lost.is_empty() || all_failed);
                let mut by_target: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
                for (target, offset, bytes) in &ran.places {
                    prop_assert_eq!(offset % align.max(1), 0);
                    prop_assert!(*offset >= end);
                    by_target.entry(*target).or_default().push((*offset, *bytes));
                }
                for places in by_target.values_mut() {
                    places.sort();
                    prop_assert!(places.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
                }
                for group in 0..sizes.len() as u32 {
                    let lost = ran.lost.contains(&group);
                    match ran.state.rests(group) {
                        Some(rests) => {
                            prop_assert!(!lost);
                            prop_assert!(ran.places.contains(&(rests.target, rests.offset, sizes[group as usize])));
                        }
                        None => prop_assert!(lost),
                    }
                }
                if output == 0 {
                    let before = ran.places.clone();
                    ran = bench.run(ran.state.clone().again(params, sizes.clone(), &ends_of(&ran.state), &[]), &sizes);
                    ran.places.extend(before);
                }
            }
        }

        #[test]
        fn no_target_has_more_writers_than_may(
            groups in 1usize..100, targets in 1u32..8, writers in 1u32..4, steps in prop::collection::vec(any::<prop::sample::Index>(), 200),
        ) {
            let params = Params { writers_per_target: writers, ..Params::default() };
            let state = State::new(params, vec![MIB; groups], &homes(groups, targets), targets, &[]);
            let mut under_way = Vec::new();
            let mut now = 0.0;
            let (mut state, mut decisions) = next(state, Event::Begin { now });
            for step in &steps {
                for decision in &decisions {
                    if let Decision::Write { group, target, .. } = decision {
                        under_way.push((*group, *target));
                    }
                }
                prop_assert!((0..targets).all(|t| state.writing(t) <= writers));
                now += 1.0;
                if under_way.is_empty() {
                    break;
                }
                // Any write may end next; a look at stuck ones comes at any time.
                let (group, target) = under_way.swap_remove(step.index(under_way.len()));
                let (then, mut more) = next(state, Event::Wrote { group, target, now });
                let (then, looked) = next(then, Event::Tick { now });
                more.extend(looked);
                (state, decisions) = (then, more);
            }
        }
    }
}
