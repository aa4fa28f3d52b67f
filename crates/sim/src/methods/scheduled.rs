//! `MPI_SCHEDULED` in virtual time: openings one after the other in each file, files staggered; writes in turns.
//!
//! Places are those of [`Striped`], turns those of [`turns`]. A rank opens when the one before it in its file has; the first of a file
//! when the first of the file before has. A rank writes when it has its file open and the rank that
//! [`turns::after`] names has ended.

use super::{Job, Turns};
use crate::machine::Machine;
use crate::outcome::{Outcome, RankTimes};
use crate::world::{Happened, World};
use thalweg_movement::method::scheduled::{NUM_FILES, WRITERS};
use thalweg_movement::plan::stripes::Striped;
use thalweg_movement::plan::turns;
use thalweg_types::Result;

pub(crate) struct Scheduled {
    striped: Striped,
    size: u64,
    writers_per_target: u32,
    /// Two bits: it is open, its turn has come.
    ready: Vec<u8>,
    left: u32,
}

const OPEN: u8 = 1;
const TURN: u8 = 2;

impl Scheduled {
    pub(crate) fn new(machine: &Machine, job: &Job) -> Result<Scheduled> {
        let targets = machine.targets.count.0;
        let files = job.parameters.get::<Option<u32>>(&NUM_FILES)?.unwrap_or(targets);
        Ok(Scheduled {
            striped: Striped::new(job.ranks, files, targets, job.size)?,
            size: job.size,
            writers_per_target: job.parameters.get(&WRITERS)?,
            ready: vec![0; job.ranks as usize],
            left: job.ranks,
        })
    }

    fn ready(&mut self, rank: u32, what: u8, world: &mut World, times: &mut [RankTimes]) {
        self.ready[rank as usize] |= what;
        if self.ready[rank as usize] == OPEN | TURN {
            let target = self.striped.target(self.striped.file(rank));
            times[rank as usize].began = world.now() as f32;
            times[rank as usize].target = target;
            let luck = world.luck(rank, 0);
            world.write(rank, target, self.size as f64, luck);
        }
    }
}

impl Turns for Scheduled {
    fn begin(&mut self, world: &mut World, times: &mut [RankTimes]) {
        for rank in 0..self.striped.ranks {
            if turns::after(&self.striped, rank, self.writers_per_target).is_none() {
                self.ready(rank, TURN, world, times);
            }
        }
        world.open(0);
    }

    fn happened(&mut self, what: Happened, world: &mut World, times: &mut [RankTimes]) {
        match what {
            Happened::Opened { rank } => {
                times[rank as usize].opened = world.now() as f32;
                if let Some(next) = rank.checked_add(self.striped.files).filter(|next| *next < self.striped.ranks) {
                    world.open(next);
                }
                if self.striped.place_in_file(rank) == 0 && rank + 1 < self.striped.files {
                    world.open(rank + 1);
                }
                self.ready(rank, OPEN, world, times);
            }
            Happened::Wrote { rank, .. } => {
                times[rank as usize].ended = world.now() as f32;
                self.left -= 1;
                if let Some(next) = turns::before(&self.striped, rank, self.writers_per_target) {
                    self.ready(next, TURN, world, times);
                }
            }
            Happened::Later { .. } => {}
        }
    }

    fn done(&self) -> bool {
        self.left == 0
    }

    fn tell(&self, outcome: &mut Outcome) {
        outcome.writers = self.striped.ranks.min(self.striped.targets.saturating_mul(self.writers_per_target));
        outcome.files = self.striped.files;
    }
}
