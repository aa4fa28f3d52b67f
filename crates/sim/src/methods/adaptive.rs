//! `ADAPTIVE` in virtual time: [`next`] assigns ranks to targets, two messages after a write has ended.
//!
//! Initial queues are those of [`Striped`]: a file for each target. A rank opens its file when it receives an order to write. The
//! output ends when every group is written; copies in flight continue and use bandwidth until then.

use super::{Job, Turns};
use crate::machine::Machine;
use crate::outcome::{Outcome, RankTimes};
use crate::world::{Happened, World};
use std::collections::{HashMap, VecDeque};
use thalweg_movement::method::adaptive::eagerness;
use thalweg_movement::plan::adaptive::{Decision, Event, Params, State, next};
use thalweg_movement::plan::stripes::Striped;
use thalweg_types::Result;

pub(crate) struct Adaptive {
    state: Option<State>,
    size: u64,
    latency: f64,
    /// Targets whose files a rank is opening, in this order.
    opening: HashMap<u32, VecDeque<u32>>,
    attempts: Vec<u8>,
    /// The reports to the coordinator, delivered when their message arrives.
    told: HashMap<u64, (u32, u32)>,
    messages: u64,
    done: bool,
    told_apart: (u32, u32, u32),
    moved: u32,
    dead_bytes: u64,
}

const TICK: u64 = u64::MAX;

impl Adaptive {
    pub(crate) fn new(machine: &Machine, job: &Job) -> Result<Adaptive> {
        let targets = machine.targets.count.0;
        let striped = Striped::new(job.ranks, targets, targets, job.size)?;
        let home: Vec<u32> = (0..job.ranks).map(|rank| striped.target(striped.file(rank))).collect();
        let params = Params { align: striped.stripe, ..eagerness(&job.parameters)? };
        let state = State::new(params, vec![job.size; job.ranks as usize], &home, targets, &[]);
        Ok(Adaptive {
            state: Some(state),
            size: job.size,
            latency: machine.network.latency_seconds.0,
            opening: HashMap::new(),
            attempts: vec![0; job.ranks as usize],
            told: HashMap::new(),
            messages: 0,
            done: false,
            told_apart: (targets, params.writers_per_target, job.ranks),
            moved: 0,
            dead_bytes: 0,
        })
    }

    fn decide(&mut self, event: Event, world: &mut World, times: &mut [RankTimes]) {
        let Some(state) = self.state.take() else { return };
        let (state, decisions) = next(state, event);
        for decision in decisions {
            match decision {
                Decision::Write { group, target, .. } => {
                    let of = &mut times[group as usize];
                    if self.attempts[group as usize] == 0 {
                        of.began = world.now() as f32;
                    }
                    self.opening.entry(group).or_default().push_back(target);
                    world.open(group);
                }
                Decision::Wake { at } => world.later(at, TICK),
                Decision::Lost { .. } => {}
                Decision::Done => self.done = true,
            }
        }
        (self.moved, self.dead_bytes) = (state.moved(), state.dead_bytes());
        self.state = Some(state);
    }
}

impl Turns for Adaptive {
    fn begin(&mut self, world: &mut World, times: &mut [RankTimes]) {
        self.decide(Event::Begin { now: world.now() }, world, times);
    }

    fn happened(&mut self, what: Happened, world: &mut World, times: &mut [RankTimes]) {
        match what {
            Happened::Opened { rank } => {
                let Some(target) = self.opening.get_mut(&rank).and_then(VecDeque::pop_front) else { return };
                if self.opening.get(&rank).is_some_and(VecDeque::is_empty) {
                    self.opening.remove(&rank);
                }
                let attempt = self.attempts[rank as usize];
                self.attempts[rank as usize] = attempt.saturating_add(1);
                if attempt == 0 {
                    times[rank as usize].opened = world.now() as f32;
                }
                let luck = world.luck(rank, u32::from(attempt));
                world.write(rank, target, self.size as f64, luck);
            }
            Happened::Wrote { rank, target, .. } => {
                let of = &mut times[rank as usize];
                if of.ended == 0.0 {
                    of.ended = world.now() as f32;
                    of.target = target;
                }
                self.messages += 1;
                self.told.insert(self.messages, (rank, target));
                world.later(world.now() + 2.0 * self.latency, self.messages);
            }
            Happened::Later { tag: TICK } => self.decide(Event::Tick { now: world.now() }, world, times),
            Happened::Later { tag } => {
                if let Some((group, target)) = self.told.remove(&tag) {
                    self.decide(Event::Wrote { group, target, now: world.now() }, world, times);
                }
            }
        }
    }

    fn done(&self) -> bool {
        self.done
    }

    fn tell(&self, outcome: &mut Outcome) {
        let (targets, writers, ranks) = self.told_apart;
        outcome.writers = ranks.min(targets.saturating_mul(writers));
        outcome.files = targets.min(ranks);
        outcome.moved = self.moved;
        outcome.dead_bytes = self.dead_bytes;
    }
}
