//! Someone asks a run for a change, and waits for its answer: `thalweg control`, and analyses in Python.

use super::files::{self, Seen, Watch};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_control::{Change, Request, Verdict};
use thalweg_types::{Error, ErrorKind, Result};

/// Between two looks at the run.
const BETWEEN: Duration = Duration::from_millis(100);
/// How long an answer is awaited of a run on another host of which nothing shows that it is alive.
const UNKNOWN: Duration = Duration::from_secs(600);
/// How long a run that has taken a request may need to answer it.
const ANSWERING: Duration = Duration::from_secs(60);

/// A run that may be alive.
pub struct Run<'a> {
    /// The output, for messages.
    output: &'a Path,
    control: &'a Path,
    watch: Watch,
}

/// From where on a change holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since {
    /// The output, counted by the program.
    pub output: u64,
    /// The step that this is in the file, if all goes well.
    pub step: u64,
}

impl<'a> Run<'a> {
    /// The run that an output's control file steers, and what it says of itself.
    ///
    /// # Errors
    /// `NotFound` if no run has told of itself; `PeerLost` if it has ended; `PermissionDenied`, `Io`.
    pub fn find(output: &'a Path, control: &'a Path) -> Result<(Run<'a>, Seen)> {
        let Some(watch) = Watch::open(&files::run_file(control))? else {
            let what = format!(
                "no run that can be steered writes {}: it has ended, has not opened the file yet, or its method has no control=yes",
                output.display()
            );
            return Err(Error::new(ErrorKind::NotFound, what));
        };
        let run = Run { output, control, watch };
        let seen = run.watch.look()?;
        run.alive(&seen)?;
        Ok((run, seen))
    }

    /// # Errors
    /// `PeerLost` for a run that is not alive. That of one on another host without a lock can't be told.
    fn alive(&self, seen: &Seen) -> Result<()> {
        match !seen.locked && seen.record.host == files::host() {
            false => Ok(()),
            true => {
                let (output, pid) = (self.output.display(), seen.record.pid);
                let what = format!("the run that wrote {output}, process {pid}, has ended or is dead");
                Err(Error::new(ErrorKind::PeerLost, what))
            }
        }
    }

    /// Asks for a change, and waits until the run has taken it. A request without an answer is withdrawn.
    ///
    /// - `longest`: how long to wait for the run's next written output; `None`: as long as the run lives.
    /// - `go_on`: called between two looks; its failure ends the wait.
    ///
    /// # Errors
    /// `InvalidArgument` if the run refuses the change; `AlreadyExists` if another change waits; `Timeout`; `PeerLost` if the run ends
    /// before it answers; those of `go_on`.
    pub fn ask(
        &self,
        change: &Change,
        longest: Option<Duration>,
        mut go_on: impl FnMut() -> Result<()>,
    ) -> Result<Since> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        let id = format!("{}-{}-{now}", files::host(), std::process::id());
        files::place(self.control, &Request { id: id.clone(), change: change.clone() }.encode())?;
        let answered = self.answer(&id, longest, &mut go_on);
        match answered {
            Ok(Verdict::Accepted { output, step }) => Ok(Since { output, step }),
            Ok(Verdict::Refused(why)) => {
                Err(Error::new(ErrorKind::InvalidArgument, format!("the run refuses the change: {why}")))
            }
            Err(e) => {
                self.withdraw(&id);
                Err(e)
            }
        }
    }

    fn answer(&self, id: &str, longest: Option<Duration>, go_on: &mut impl FnMut() -> Result<()>) -> Result<Verdict> {
        let begun = Instant::now();
        // Since when the run has had the request.
        let mut taken: Option<Instant> = None;
        loop {
            let seen = self.watch.look()?;
            if let Some(answer) = seen.record.answers.iter().find(|answer| answer.id == id) {
                return Ok(answer.verdict.clone());
            }
            self.alive(&seen)?;
            go_on()?;
            let longest = longest.or((!seen.locked).then_some(UNKNOWN));
            let expired = longest.is_some_and(|longest| begun.elapsed() >= longest);
            if taken.is_none() && expired && self.withdraw(id) {
                let what = "the run has written no output meanwhile; the change is withdrawn";
                return Err(Error::new(ErrorKind::Timeout, what));
            }
            if taken.is_none() && !self.waits(id) {
                taken = Some(Instant::now());
            }
            if taken.is_some_and(|taken| taken.elapsed() > ANSWERING) {
                let what =
                    "the run has taken the change and does not answer; it may hold all the same: --status shows it";
                return Err(Error::new(ErrorKind::Timeout, what));
            }
            std::thread::sleep(BETWEEN);
        }
    }

    /// Whether the run has not yet taken the request.
    fn waits(&self, id: &str) -> bool {
        let own = files::read_owned(self.control).ok().flatten().and_then(|bytes| Request::id_of(&bytes));
        own.as_deref() == Some(id)
    }

    /// Removes the request; `false` if the run has taken it.
    fn withdraw(&self, id: &str) -> bool {
        self.waits(id) && std::fs::remove_file(self.control).is_ok()
    }
}
