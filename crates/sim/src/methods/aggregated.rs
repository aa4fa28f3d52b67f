//! `MPI_AGGREGATE` in virtual time: the first rank of each set writes its own group, then those that the others pass it.
//!
//! Sets are those of [`Sets`]. While a chunk is written the next one arrives, so that a set's bytes flow as fast as the slower of
//! network and storage lets them; only the first chunk is waited for, with `pattern=brigade` along the whole chain. An aggregator
//! is one writing process: it stalls at most once in an output.

use super::{Job, Turns};
use crate::machine::Machine;
use crate::outcome::{Outcome, RankTimes};
use crate::world::{Happened, Luck, World};
use thalweg_movement::method::aggregated::{AGGREGATORS, CHUNK, PATTERN};
use thalweg_movement::plan::sets::Sets;
use thalweg_types::Result;

pub(crate) struct Aggregated {
    sets: Sets,
    size: u64,
    targets: u32,
    chunk: u64,
    /// Until the first chunk of a passer is there, by the length of its way.
    first_chunk: f64,
    brigade: bool,
    left: u32,
}

impl Aggregated {
    pub(crate) fn new(machine: &Machine, job: &Job) -> Result<Aggregated> {
        let targets = machine.targets.count.0;
        let chunk = job.parameters.get::<u64>(&CHUNK)?.min(job.size);
        let aggregators: Option<u32> = job.parameters.get(&AGGREGATORS)?;
        Ok(Aggregated {
            sets: Sets::new(job.ranks, aggregators.unwrap_or(targets)),
            size: job.size,
            targets,
            chunk,
            first_chunk: chunk as f64 / machine.node_bandwidth() + machine.network.latency_seconds.0,
            brigade: job.parameters.get::<String>(&PATTERN)? == "brigade",
            left: job.ranks,
        })
    }

    fn write(&self, rank: u32, world: &mut World, times: &mut [RankTimes]) {
        let set = self.sets.of(rank);
        let writer = self.sets.writer(set);
        let target = set % self.targets;
        times[rank as usize].began = world.now() as f32;
        times[rank as usize].target = target;
        let mut luck = Luck { stall: 0.0, ..world.luck(writer, rank - writer) };
        if rank == writer {
            luck.stall = world.luck(writer, 0).stall;
        } else if rank == writer + 1 {
            let passers = if self.brigade { self.sets.passers(set) } else { 1 };
            luck.stall = self.first_chunk * f64::from(passers);
        }
        world.write(rank, target, self.size as f64, luck);
    }
}

impl Turns for Aggregated {
    fn begin(&mut self, world: &mut World, _: &mut [RankTimes]) {
        (0..self.sets.count()).for_each(|set| world.open(self.sets.writer(set)));
    }

    fn happened(&mut self, what: Happened, world: &mut World, times: &mut [RankTimes]) {
        match what {
            Happened::Opened { rank } => {
                for member in self.sets.members(self.sets.of(rank)) {
                    times[member as usize].opened = world.now() as f32;
                }
                self.write(rank, world, times);
            }
            Happened::Wrote { rank, .. } => {
                times[rank as usize].ended = world.now() as f32;
                self.left -= 1;
                if self.sets.members(self.sets.of(rank)).contains(&(rank + 1)) {
                    self.write(rank + 1, world, times);
                }
            }
            Happened::Later { .. } => {}
        }
    }

    fn done(&self) -> bool {
        self.left == 0
    }

    fn tell(&self, outcome: &mut Outcome) {
        let count = self.sets.count();
        outcome.writers = count;
        outcome.files = count;
        outcome.memory = self.size + self.chunk;
        let (first, last) = (self.sets.passers(0), self.sets.passers(count - 1));
        outcome.remarks = vec![format!("{count} aggregators, {first} ranks pass data to each, {last} to the last")];
    }
}
