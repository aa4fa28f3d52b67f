//! `MPI_COLLECTIVE` in virtual time: ranks exchange so that each aggregator owns whole stripes of one shared file, then aggregators write.
//!
//! It goes in rounds of `chunk` bytes an aggregator: exchange, then write. To save events, rounds are put together to at most
//! [`ROUNDS`]; their seconds are those of all rounds in them. A rank's bytes rest when all do.

use super::{Job, Turns};
use crate::machine::Machine;
use crate::outcome::{Outcome, RankTimes};
use crate::world::{Happened, Luck, World};

/// Most rounds that are simulated one by one.
pub const ROUNDS: u64 = 64;

pub(crate) struct Collective {
    ranks: u32,
    aggregators: u32,
    width: u32,
    chunk: u64,
    rounds: u64,
    exchange_seconds: f64,
    write_bytes: f64,
    done_rounds: Vec<u64>,
    left: u32,
}

impl Collective {
    pub(crate) fn new(machine: &Machine, job: &Job) -> Collective {
        let width = machine.targets_of_a_file();
        let aggregators = job.params.aggregators.unwrap_or(width).min(job.ranks);
        let of_each = (u64::from(job.ranks).saturating_mul(job.size)).div_ceil(u64::from(aggregators));
        let real_rounds = of_each.div_ceil(job.params.chunk).max(1);
        let rounds = real_rounds.min(ROUNDS);
        let together = real_rounds as f64 / rounds as f64;
        let write_bytes = of_each as f64 / rounds as f64;
        // One link takes in what all aggregators of its node receive.
        let nodes = job.ranks.div_ceil(machine.nodes.ranks_per_node.0).max(1);
        let link = machine.node_bandwidth() / f64::from(aggregators.div_ceil(nodes).max(1));
        let levels = f64::from(32 - job.ranks.leading_zeros());
        Collective {
            ranks: job.ranks,
            aggregators,
            width,
            chunk: job.params.chunk,
            rounds,
            exchange_seconds: write_bytes / link + together * levels * machine.network.latency_seconds.0,
            write_bytes,
            done_rounds: vec![0; aggregators as usize],
            left: aggregators,
        }
    }
}

impl Turns for Collective {
    fn begin(&mut self, world: &mut World, _: &mut [RankTimes]) {
        (0..self.aggregators).for_each(|aggregator| world.open(aggregator));
    }

    fn happened(&mut self, what: Happened, world: &mut World, times: &mut [RankTimes]) {
        match what {
            Happened::Opened { rank } => {
                times[rank as usize].opened = world.now() as f32;
                times[rank as usize].began = world.now() as f32;
                world.later(world.now() + self.exchange_seconds, u64::from(rank));
            }
            Happened::Later { tag } => {
                let rank = tag as u32;
                let round = self.done_rounds[rank as usize];
                let mut luck = Luck { stall: 0.0, ..world.luck(rank, round as u32) };
                if round == 0 {
                    luck.stall = world.luck(rank, 0).stall;
                }
                world.write(rank, rank % self.width, self.write_bytes, luck);
            }
            Happened::Wrote { rank, target, .. } => {
                times[rank as usize].target = target;
                let done = &mut self.done_rounds[rank as usize];
                *done += 1;
                if *done < self.rounds {
                    world.later(world.now() + self.exchange_seconds, u64::from(rank));
                    return;
                }
                times[rank as usize].ended = world.now() as f32;
                self.left -= 1;
                if self.left == 0 {
                    let end = world.now() as f32;
                    times.iter_mut().skip(self.aggregators as usize).for_each(|t| t.ended = end);
                }
            }
        }
    }

    fn done(&self) -> bool {
        self.left == 0
    }

    fn tell(&self, outcome: &mut Outcome) {
        outcome.writers = self.aggregators.min(self.ranks);
        outcome.files = 1;
        outcome.memory = outcome.size + self.chunk;
    }
}
