//! `MPI_COLLECTIVE` in virtual time: ranks exchange so that each aggregator owns whole stripes of one shared file, then aggregators write.
//!
//! Domains are those of [`Domains`]. It goes in rounds of `buffer` bytes an aggregator: exchange, then write to the targets on which
//! these stripes lie. To save events, rounds are put together to at most [`ROUNDS`], with the seconds of all of them. A rank's bytes
//! rest when all do.

use super::{Job, Turns};
use crate::machine::Machine;
use crate::outcome::{Outcome, RankTimes};
use crate::world::{Happened, Luck, World};
use thalweg_movement::method::collective::{AGGREGATORS, BUFFER, LEAST_BUFFER};
use thalweg_movement::plan;
use thalweg_movement::plan::domains::{Domains, spread};
use thalweg_types::{Extent, Result};

/// Most rounds of an aggregator that are simulated one by one.
pub const ROUNDS: u64 = 64;

/// Most targets that a round is simulated to write to at a time.
pub const PIECES: u64 = 8;

pub(crate) struct Collective {
    domains: Domains,
    ranks: u32,
    aggregators: u32,
    stripe: u64,
    width: u32,
    chunk: u64,
    /// By domain: rounds to come, pieces of this one under way.
    rounds_left: Vec<u32>,
    pieces_left: Vec<u32>,
    pieces: u32,
    link: f64,
    round_trip: f64,
    left: u32,
}

impl Collective {
    pub(crate) fn new(machine: &Machine, job: &Job) -> Result<Collective> {
        let before = u64::from(job.ranks - 1).saturating_mul(job.size);
        let last = plan::shared(job.ranks - 1, 0, before, job.size)?.extent;
        let stripe = machine.stripe();
        let width = machine.targets_of_a_file();
        let all = Extent::new(0, last.offset + last.length);
        let aggregators: Option<u32> = job.parameters.get(&AGGREGATORS)?;
        let aggregators = aggregators.filter(|n| *n > 0).unwrap_or(width).min(job.ranks);
        let chunk = job.parameters.get::<u64>(&BUFFER)?.max(LEAST_BUFFER);
        let domains = Domains::new(all, stripe, aggregators);
        let count = domains.count();
        // The bytes for all aggregators of a node arrive over the node's link.
        let nodes = job.ranks.div_ceil(machine.nodes.ranks_per_node.0).max(1);
        let rounds = (0..count).map(|n| domains.domain(n).length.div_ceil(chunk).clamp(1, ROUNDS) as u32);
        Ok(Collective {
            domains,
            ranks: job.ranks,
            aggregators,
            stripe,
            width,
            chunk,
            rounds_left: rounds.collect(),
            pieces_left: vec![0; count as usize],
            pieces: (chunk / stripe).clamp(1, PIECES.min(u64::from(width))) as u32,
            link: machine.node_bandwidth() / f64::from(count.div_ceil(nodes).max(1)),
            round_trip: 2.0 * f64::from(32 - job.ranks.leading_zeros()) * machine.network.latency_seconds.0,
            left: count,
        })
    }

    /// Rounds of a domain as they are simulated, and the bytes of each.
    fn rounds(&self, number: u32) -> (u32, f64) {
        let length = self.domains.domain(number).length;
        let rounds = length.div_ceil(self.chunk).clamp(1, ROUNDS);
        (rounds as u32, length as f64 / rounds as f64)
    }

    /// The rank that writes a domain.
    fn writer(&self, number: u32) -> u32 {
        spread(self.domains.aggregator(number), self.aggregators, self.ranks)
    }

    fn exchange(&self, number: u32, world: &mut World) {
        let bytes = self.rounds(number).1;
        let rounds_in_it = (bytes / self.chunk as f64).max(1.0);
        world.later(world.now() + bytes / self.link + rounds_in_it * self.round_trip, u64::from(number));
    }
}

impl Turns for Collective {
    fn begin(&mut self, world: &mut World, _: &mut [RankTimes]) {
        (0..self.domains.count()).for_each(|number| world.open(number));
    }

    fn happened(&mut self, what: Happened, world: &mut World, times: &mut [RankTimes]) {
        match what {
            Happened::Opened { rank: number } => {
                let of = &mut times[self.writer(number) as usize];
                (of.opened, of.began) = (world.now() as f32, world.now() as f32);
                self.exchange(number, world);
            }
            Happened::Later { tag } => {
                let number = tag as u32;
                let (rounds, bytes) = self.rounds(number);
                let round = rounds - self.rounds_left[number as usize];
                let writer = self.writer(number);
                // One writing process stalls at most once in an output.
                let stall = if round == 0 { world.luck(writer, 0).stall } else { 0.0 };
                let luck = Luck { stall, ..world.luck(writer, round) };
                let first = self.domains.domain(number).offset / self.stripe + u64::from(round * self.pieces);
                self.pieces_left[number as usize] = self.pieces;
                for piece in 0..self.pieces {
                    let target = ((first + u64::from(piece)) % u64::from(self.width)) as u32;
                    world.write(number, target, bytes / f64::from(self.pieces), luck);
                }
            }
            Happened::Wrote { rank: number, target, .. } => {
                let at = number as usize;
                self.pieces_left[at] -= 1;
                if self.pieces_left[at] > 0 {
                    return;
                }
                self.rounds_left[at] -= 1;
                if self.rounds_left[at] > 0 {
                    self.exchange(number, world);
                    return;
                }
                let of = &mut times[self.writer(number) as usize];
                (of.ended, of.target) = (world.now() as f32, target);
                self.left -= 1;
                if self.left == 0 {
                    let end = world.now() as f32;
                    times.iter_mut().filter(|t| t.ended == 0.0).for_each(|t| t.ended = end);
                }
            }
        }
    }

    fn done(&self) -> bool {
        self.left == 0
    }

    fn tell(&self, outcome: &mut Outcome) {
        outcome.writers = self.domains.count();
        outcome.files = 1;
        outcome.memory = outcome.size + self.chunk;
        outcome.remarks = vec![format!("{} aggregators write whole stripes of one file", self.domains.count())];
    }
}
