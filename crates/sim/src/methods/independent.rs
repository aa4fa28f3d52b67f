//! `MPI` and `POSIX` in virtual time: every rank writes at once, to its place in one shared file or to its own file.
//!
//! A rank's part of a shared file is cut into as many pieces as targets it lies on, but at most [`PIECES`]; all flow at the same
//! time. A file of its own lies on one target, files go round the targets.

use super::{Job, Turns};
use crate::machine::Machine;
use crate::outcome::{Outcome, RankTimes};
use crate::world::{Happened, World};
use thalweg_movement::plan;
use thalweg_types::Result;

/// Most pieces of a rank's part of a shared file.
pub const PIECES: u32 = 16;

pub(crate) struct Shared {
    size: u64,
    stripe: u64,
    /// Targets under the file.
    width: u32,
    left: Vec<u32>,
    ranks_left: u32,
}

impl Shared {
    pub(crate) fn new(machine: &Machine, job: &Job) -> Result<Shared> {
        // The last rank's place is the one that could leave the file.
        plan::shared(job.ranks - 1, 0, u64::from(job.ranks - 1).saturating_mul(job.size), job.size)?;
        Ok(Shared {
            size: job.size,
            stripe: machine.stripe(),
            width: machine.targets_of_a_file(),
            left: vec![0; job.ranks as usize],
            ranks_left: job.ranks,
        })
    }

    fn write(&mut self, rank: u32, world: &mut World) {
        let offset = u64::from(rank) * self.size;
        let stripes = (self.size.div_ceil(self.stripe)).max(1);
        let spread = stripes.min(u64::from(self.width)) as f64;
        let pieces = (spread as u32).min(PIECES);
        let first = (offset / self.stripe) % u64::from(self.width);
        // Of the targets that a piece stands for it goes to one, each rank to another: together they meet all.
        let shift = (f64::from(rank) * 0.618_033_988_749_895).fract();
        let luck = world.luck(rank, 0);
        self.left[rank as usize] = pieces;
        for piece in 0..pieces {
            let within = ((f64::from(piece) + shift) * spread / f64::from(pieces)) as u64;
            let target = ((first + within) % u64::from(self.width)) as u32;
            world.write(rank, target, self.size as f64 / f64::from(pieces), luck);
        }
    }
}

impl Turns for Shared {
    fn begin(&mut self, world: &mut World, _: &mut [RankTimes]) {
        (0..self.ranks_left).for_each(|rank| world.open(rank));
    }

    fn happened(&mut self, what: Happened, world: &mut World, times: &mut [RankTimes]) {
        match what {
            Happened::Opened { rank } => {
                let of = &mut times[rank as usize];
                (of.opened, of.began) = (world.now() as f32, world.now() as f32);
                self.write(rank, world);
            }
            Happened::Wrote { rank, target, .. } => {
                times[rank as usize].ended = world.now() as f32;
                times[rank as usize].target = target;
                self.left[rank as usize] -= 1;
                self.ranks_left -= u32::from(self.left[rank as usize] == 0);
            }
            Happened::Later { .. } => {}
        }
    }

    fn done(&self) -> bool {
        self.ranks_left == 0
    }

    fn tell(&self, outcome: &mut Outcome) {
        outcome.writers = outcome.ranks;
        outcome.files = 1;
    }
}

pub(crate) struct Own {
    size: u64,
    targets: u32,
    left: u32,
}

impl Own {
    pub(crate) fn new(machine: &Machine, job: &Job) -> Own {
        Own { size: job.size, targets: machine.targets.count.0, left: job.ranks }
    }
}

impl Turns for Own {
    fn begin(&mut self, world: &mut World, _: &mut [RankTimes]) {
        (0..self.left).for_each(|rank| world.open(rank));
    }

    fn happened(&mut self, what: Happened, world: &mut World, times: &mut [RankTimes]) {
        match what {
            Happened::Opened { rank } => {
                let plan::File::Subfile(file) = plan::own(rank, 0, self.size).file else { return };
                let target = file % self.targets;
                times[rank as usize] =
                    RankTimes { opened: world.now() as f32, began: world.now() as f32, ended: 0.0, target };
                let luck = world.luck(rank, 0);
                world.write(rank, target, self.size as f64, luck);
            }
            Happened::Wrote { rank, .. } => {
                times[rank as usize].ended = world.now() as f32;
                self.left -= 1;
            }
            Happened::Later { .. } => {}
        }
    }

    fn done(&self) -> bool {
        self.left == 0
    }

    fn tell(&self, outcome: &mut Outcome) {
        outcome.writers = outcome.ranks;
        outcome.files = outcome.ranks;
    }
}
