//! Following a running program: waits for its steps, which a signal or a time limit ends.

use crate::converter::told_to_end;
use crate::file;
use crate::outcome::Failure;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_reader::{Follower, Next, Reader, Wait};
use thalweg_types::ErrorKind;

/// How often a wait for a step looks whether the command was told to end.
const LOOK: Duration = Duration::from_millis(200);

/// How a wait for a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// A step was closed; it is the current one.
    Step,
    /// The file was closed for good.
    End,
    /// The writer died without closing the file for good.
    WriterDied,
    /// No step came in the time that was given.
    Late,
    /// The command was told to end.
    Stopped,
}

/// A file that is followed.
pub struct Follow {
    follower: Follower,
    told: Arc<AtomicBool>,
    wait: Option<Duration>,
    /// When the last step came.
    since: Instant,
}

impl Follow {
    /// Waits for the file, which may begin later, and for its first step, which is the current one then.
    ///
    /// - `through`: the configuration of a partition through whose staging server the file is read; `wait`: how long each step may take.
    ///
    /// # Errors
    /// `NotFound` if no step came in time, or the command was told to end before; errors of [`Follower::open`].
    pub fn open(path: &Path, through: Option<&Path>, wait: Option<Duration>) -> Result<Follow, Failure> {
        let told = told_to_end()?;
        let since = Instant::now();
        let goes_on = || wait.is_none_or(|wait| since.elapsed() < wait) && !told.load(Ordering::Relaxed);
        let follower = loop {
            let (layout, name) = match through {
                Some(partition) => thalweg_io::staging::held(partition, path)?,
                None => file::awaited(path)?,
            };
            match Follower::open(layout, &name, &short()) {
                Err(e) if e.kind() == ErrorKind::NotFound && goes_on() => {}
                follower => break follower?,
            }
        };
        Ok(Follow { follower, told, wait, since: Instant::now() })
    }

    /// The file with at least the current step.
    pub fn reader(&self) -> &Reader {
        self.follower.reader()
    }

    /// The current step.
    pub fn step(&self) -> u64 {
        self.follower.step()
    }

    /// Makes the last step that is closed the current one, without waiting.
    ///
    /// # Errors
    /// As [`Follower::advance`].
    pub fn skip_to_last(&mut self) -> Result<(), Failure> {
        self.follower.advance(true, &Wait { timeout: Some(Duration::ZERO), ..Wait::default() })?;
        Ok(())
    }

    /// Waits for the next step, or for the last of those that are closed.
    ///
    /// # Errors
    /// As [`Follower::advance`].
    pub fn next(&mut self, to_last: bool) -> Result<Came, Failure> {
        loop {
            match self.follower.advance(to_last, &short())? {
                Next::Step(_) => {
                    self.since = Instant::now();
                    return Ok(Came::Step);
                }
                Next::End => return Ok(Came::End),
                Next::WriterDied => return Ok(Came::WriterDied),
                Next::NotYet if self.told.load(Ordering::Relaxed) => return Ok(Came::Stopped),
                Next::NotYet if self.wait.is_some_and(|wait| self.since.elapsed() >= wait) => return Ok(Came::Late),
                Next::NotYet => {}
            }
        }
    }

    /// Whether the command was told to end.
    pub fn is_told_to_end(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }
}

fn short() -> Wait {
    Wait { timeout: Some(LOOK), ..Wait::default() }
}
