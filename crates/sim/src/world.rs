//! Virtual time: the queue of events, and their delivery.
//!
//! | thing | how it behaves |
//! |---|---|
//! | metadata server | requests are served in the order they come, each takes 1 / rate; an answer takes the network's latency |
//! | write | stalls first, if the noise model selects it; then its bytes flow to the target |
//! | background load | takes its share of a target's bandwidth all the time |
//! | a slow target | has its bandwidth divided |
//!
//! Two things at the same time happen in the order in which they were set off.

use crate::machine::Machine;
use crate::noise::{Noise, What};
use crate::target::Target;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Happened {
    /// A rank has its answer from the metadata server.
    Opened {
        /// Which rank.
        rank: u32,
    },
    /// The bytes of a write rest on the target.
    Wrote {
        /// As [`World::write`] got it.
        rank: u32,
        /// As [`World::write`] got it.
        target: u32,
        /// When the writer set it off, before it stalled.
        since: f64,
    },
    /// A time requested by [`World::later`].
    Later {
        /// As it was given.
        tag: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Opened { rank: u32 },
    Begins { flow: u32 },
    Next { target: u32, version: u32 },
    Later { tag: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    at: f64,
    count: u64,
    event: Event,
}

impl Eq for Entry {}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        other.at.total_cmp(&self.at).then(other.count.cmp(&self.count))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    rank: u32,
    target: u32,
    bytes: f64,
    since: f64,
}

/// How a write meets the noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Luck {
    /// Seconds before its first byte flows.
    pub stall: f64,
    /// Its bytes count so many times.
    pub factor: f64,
}

impl Luck {
    /// No noise.
    pub const NONE: Luck = Luck { stall: 0.0, factor: 1.0 };
}

/// The machine while it runs.
pub struct World {
    now: f64,
    count: u64,
    events: BinaryHeap<Entry>,
    targets: Vec<Target>,
    versions: Vec<u32>,
    flows: Vec<Flow>,
    free_flows: Vec<u32>,
    server_free: f64,
    open_seconds: f64,
    latency: f64,
    noise: Noise,
    stall_share: f64,
    stall: (f64, f64),
    jitter: f64,
    handled: u64,
}

impl World {
    /// - `sender`: bytes per second that one write gets at most.
    pub fn new(machine: &Machine, seed: u64, sender: f64) -> World {
        let noise = Noise::new(seed);
        let slow = slow_targets(machine, noise);
        let seek_loss = machine.targets.seek_seconds.0 * machine.target_bandwidth() / machine.targets.run_mib.0 / MIB;
        let targets = (0..machine.targets.count.0)
            .map(|i| {
                let load = 2.0 * machine.background.share.0 * noise.draw(What::Background, u64::from(i), 0);
                let slower = if slow[i as usize] { machine.slow.times.0 } else { 1.0 };
                let bandwidth = machine.target_bandwidth() * (1.0 - load.min(0.99)) / slower;
                // A seek takes the same time on a slow target: it is not the head that is slow.
                Target::new(bandwidth, seek_loss * bandwidth / machine.target_bandwidth(), sender)
            })
            .collect::<Vec<_>>();
        World {
            now: 0.0,
            count: 0,
            events: BinaryHeap::new(),
            versions: vec![0; targets.len()],
            targets,
            flows: Vec::new(),
            free_flows: Vec::new(),
            server_free: 0.0,
            open_seconds: 1.0 / machine.metadata.opens_per_second.0,
            latency: machine.network.latency_seconds.0,
            noise,
            stall_share: machine.noise.stalled_share.0,
            stall: (machine.noise.stall_seconds[0].0, machine.noise.stall_seconds[1].0),
            jitter: machine.noise.jitter.0,
            handled: 0,
        }
    }

    /// Seconds since the beginning.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Number of events so far, as a measure of the simulation's cost.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Storage targets.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The noise a writer meets at its `attempt`-th write.
    ///
    /// Stalls are spread evenly by the logarithm of their length: short ones are more frequent.
    pub fn luck(&self, writer: u32, attempt: u32) -> Luck {
        let (writer, attempt) = (u64::from(writer), u64::from(attempt));
        let stalls = self.noise.draw(What::Stalls, writer, attempt) < self.stall_share;
        let (least, most) = self.stall;
        let stall =
            if stalls { least * (most / least).powf(self.noise.draw(What::Stall, writer, attempt)) } else { 0.0 };
        Luck { stall, factor: 1.0 + self.jitter * (2.0 * self.noise.draw(What::Jitter, writer, attempt) - 1.0) }
    }

    /// Sends an open of a rank to the metadata server.
    pub fn open(&mut self, rank: u32) {
        self.server_free = self.server_free.max(self.now + self.latency) + self.open_seconds;
        self.push(self.server_free + self.latency, Event::Opened { rank });
    }

    /// A rank writes so many bytes to a target.
    pub fn write(&mut self, rank: u32, target: u32, bytes: f64, luck: Luck) {
        let flow = Flow { rank, target, bytes: bytes * luck.factor, since: self.now };
        let id = match self.free_flows.pop() {
            Some(id) => {
                self.flows[id as usize] = flow;
                id
            }
            None => {
                self.flows.push(flow);
                self.flows.len() as u32 - 1
            }
        };
        if luck.stall > 0.0 {
            self.push(self.now + luck.stall, Event::Begins { flow: id });
        } else {
            self.begin(id);
        }
    }

    /// Something is to happen at a time.
    pub fn later(&mut self, at: f64, tag: u64) {
        self.push(at.max(self.now), Event::Later { tag });
    }

    fn begin(&mut self, id: u32) {
        let flow = self.flows[id as usize];
        self.targets[flow.target as usize].begin(self.now, id, flow.bytes);
        self.expect(flow.target);
    }

    fn expect(&mut self, target: u32) {
        let version = self.versions[target as usize].wrapping_add(1);
        self.versions[target as usize] = version;
        if let Some(at) = self.targets[target as usize].next() {
            self.push(at, Event::Next { target, version });
        }
    }

    fn push(&mut self, at: f64, event: Event) {
        self.count += 1;
        self.events.push(Entry { at, count: self.count, event });
    }

    /// The next thing that happens; `None` when nothing is left.
    pub fn step(&mut self) -> Option<Happened> {
        while let Some(entry) = self.events.pop() {
            self.handled += 1;
            let stale =
                matches!(entry.event, Event::Next { target, version } if self.versions[target as usize] != version);
            if stale {
                continue;
            }
            self.now = self.now.max(entry.at);
            match entry.event {
                Event::Opened { rank } => return Some(Happened::Opened { rank }),
                Event::Later { tag } => return Some(Happened::Later { tag }),
                Event::Begins { flow } => self.begin(flow),
                Event::Next { target, .. } => {
                    let ended = self.targets[target as usize].end(self.now);
                    self.expect(target);
                    if let Some(id) = ended {
                        let flow = self.flows[id as usize];
                        self.free_flows.push(id);
                        return Some(Happened::Wrote { rank: flow.rank, target: flow.target, since: flow.since });
                    }
                }
            }
        }
        None
    }
}

const MIB: f64 = (1 << 20) as f64;

/// The slow targets, drawn at random: exactly the share of all targets, rounded.
pub(crate) fn slow_targets(machine: &Machine, noise: Noise) -> Vec<bool> {
    let count = machine.targets.count.0 as usize;
    let slow = (machine.slow.share.0 * count as f64).round() as usize;
    let mut order: Vec<usize> = (0..count).collect();
    let draw = |i: usize| noise.draw(What::Slow, i as u64, 0);
    order.sort_by(|a, b| draw(*a).total_cmp(&draw(*b)));
    let mut is = vec![false; count];
    for target in order.into_iter().take(slow.min(count)) {
        is[target] = true;
    }
    is
}
