//! A stream: rank 0 follows the file and decides which step comes; the others go on to the same step.
//!
//! | question | answer |
//! |---|---|
//! | which rank waits | rank 0, in turns shorter than the communicator's timeout; between them all ranks meet |
//! | the wait of the other ranks | for the step that rank 0 has found, at most as long as the communicator's timeout |

use super::{ADVANCING, Advance, Layouts, OPENING, options};
use crate::adios1::error::{Doing, Failure, Outcome, number};
use crate::collective::on_all_ranks;
use std::time::{Duration, Instant};
use thalweg_comm::Communicator;
use thalweg_comm::agreement::agree;
use thalweg_comm::guarded::caught;
use thalweg_reader::Reader;
use thalweg_reader::follow::{Follower, Next, Wait};
use thalweg_types::{Error, ErrorKind, Result};

pub struct Stream {
    follower: Follower,
    poll: Duration,
}

/// Decisions that rank 0 sends to the others. An agreement takes the maximum of numbers: other ranks pass 0.
const STEP: u64 = 1;
const NOT_YET: u64 = 2;
const END: u64 = 3;
const DIED: u64 = 4;
const STILL_WAITING: u64 = 5;

/// Rank 0 waits, turn by turn; the others learn its decision. `look`: one turn.
fn decide(
    comm: &dyn Communicator,
    doing: &str,
    timeout: Option<Duration>,
    mut look: impl FnMut(Option<Duration>) -> Result<(u64, u64)>,
) -> Result<(u64, u64)> {
    let start = Instant::now();
    // A single rank has no other rank to meet.
    let turn = if comm.size() == 1 { None } else { Some((comm.timeout() / 4).min(Duration::from_secs(10))) };
    loop {
        let left = timeout.map(|t| t.saturating_sub(start.elapsed()));
        let mut own = Ok((0, 0));
        if comm.rank() == 0 {
            let wait = match (left, turn) {
                (Some(left), Some(turn)) => Some(left.min(turn)),
                (left, turn) => left.or(turn),
            };
            own = caught(doing, || look(wait));
            let over = left.is_some_and(|left| wait.is_none_or(|w| w >= left));
            if let (Ok((NOT_YET, _)), false) = (&own, over) {
                own = Ok((STILL_WAITING, 0));
            }
        }
        let (outcome, numbers) = match own {
            Ok((what, step)) => (Ok(()), [what, step]),
            Err(e) => (Err(e), [0, 0]),
        };
        let numbers = agree(comm, outcome, doing, &numbers)?;
        if numbers[0] != STILL_WAITING {
            return Ok((numbers[0], numbers[1]));
        }
    }
}

impl Stream {
    /// Collective: waits for the file's first step.
    ///
    /// # Errors
    /// On all ranks the same number: a file that has no step in time, or is damaged; a lost rank.
    pub fn open(
        layout: Layouts<'_>,
        path: &str,
        comm: &dyn Communicator,
        timeout: Option<Duration>,
    ) -> Outcome<Stream> {
        let failed = |e: Error| Doing::OpenToRead.failed(e);
        let poll = options::now().poll;
        let mut follower = None;
        let mut missing = None;
        let (what, step) = decide(comm, OPENING, timeout, |timeout| {
            match Follower::open(layout()?, path, &Wait { timeout, poll }) {
                Ok(opened) => {
                    let step = opened.step();
                    follower = Some(opened);
                    Ok((STEP, step))
                }
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    missing = Some(e);
                    Ok((NOT_YET, 0))
                }
                // Its writer died before the first step was whole.
                Err(e) if e.kind() == ErrorKind::PeerLost => Ok((DIED, 0)),
                Err(e) => Err(e),
            }
        })
        .map_err(failed)?;
        match what {
            STEP => {}
            NOT_YET => {
                let other = || Error::reported(ErrorKind::NotFound, 0, "cannot open the stream").in_object(path);
                return Err(failed(missing.unwrap_or_else(other)));
            }
            _ => {
                let text = format!("{path}: its writer ended without writing a step");
                return Err(Failure::new(number::END_OF_STREAM, text));
            }
        }
        let open = || {
            let mut follower = match follower {
                Some(follower) => follower,
                None => Follower::open(layout()?, path, &Wait { timeout: Some(comm.timeout() / 2), poll })?,
            };
            go_to(&mut follower, step, comm, poll)?;
            Ok(follower)
        };
        let mut follower = on_all_ranks(comm, OPENING, open).map_err(failed)?;
        follower.set_reads(options::now().reads);
        follower.set_digits(options::now().digits);
        Ok(Stream { follower, poll })
    }

    pub fn reader(&self) -> &Reader {
        self.follower.reader()
    }

    pub fn step(&self) -> u64 {
        self.follower.step()
    }

    pub fn last(&self) -> u64 {
        self.follower.last()
    }

    /// Collective: advances to a later step.
    ///
    /// # Errors
    /// On all ranks the same number: a file that is damaged, a lost rank. That no step came is no failure.
    pub fn advance(&mut self, to_last: bool, comm: &dyn Communicator, timeout: Option<Duration>) -> Outcome<Advance> {
        let failed = |e: Error| Doing::Read.failed(e);
        let poll = self.poll;
        let follower = &mut self.follower;
        let (what, step) = decide(comm, ADVANCING, timeout, |timeout| {
            Ok(match follower.advance(to_last, &Wait { timeout, poll })? {
                Next::Step(step) => (STEP, step),
                Next::NotYet => (NOT_YET, 0),
                Next::End => (END, 0),
                Next::WriterDied => (DIED, 0),
            })
        })
        .map_err(failed)?;
        match what {
            NOT_YET => return Ok(Advance::NotYet),
            END => return Ok(Advance::End),
            DIED => return Ok(Advance::WriterDied),
            _ => {}
        }
        on_all_ranks(comm, ADVANCING, || go_to(follower, step, comm, poll)).map_err(failed)?;
        Ok(Advance::Step)
    }
}

/// Advances to a step that another rank has found.
fn go_to(follower: &mut Follower, step: u64, comm: &dyn Communicator, poll: Duration) -> Result<()> {
    let wait = Wait { timeout: Some(comm.timeout() / 2), poll };
    while follower.step() < step {
        match follower.advance(false, &wait)? {
            Next::Step(_) => {}
            other => {
                let what = format!("rank 0 found step {step}, this rank did not: {other:?}");
                return Err(Error::new(ErrorKind::NotReady, what));
            }
        }
    }
    Ok(())
}
