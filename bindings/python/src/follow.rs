//! Following a file to which a running writer appends steps.

use crate::failure::Outcome;
use crate::read::{Reader, layout};
use pyo3::prelude::*;
use std::time::Duration;
use thalweg_reader::follow::{self, Next, Wait};
use thalweg_types::mutex::Mutex;

/// A follower of a file. The Python code passes short timeouts, so that it can handle signals between waits.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Follower(Mutex<follow::Follower>);

fn wait(seconds: f64, poll: f64) -> Wait {
    let duration = |s: f64| Duration::try_from_secs_f64(s.max(0.0)).unwrap_or(Duration::MAX);
    Wait { timeout: Some(duration(seconds)), poll: duration(poll) }
}

impl Follower {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut follow::Follower) -> thalweg_types::Result<T> + Send,
    ) -> Outcome<T> {
        Ok(py.detach(|| f(&mut self.0.lock()))?)
    }
}

#[pymethods]
impl Follower {
    /// Waits up to `seconds` for the file and its first step, and checks every `poll` seconds; `NotFound` if there is none by then.
    #[new]
    #[pyo3(signature = (path, seconds, poll, reads="compared", digits=0))]
    fn new(py: Python<'_>, path: &str, seconds: f64, poll: f64, reads: &str, digits: u32) -> Outcome<Follower> {
        let reads = reads.parse()?;
        let mut opened = py.detach(|| follow::Follower::open(layout()?, path, &wait(seconds, poll)))?;
        opened.set_reads(reads);
        opened.set_digits(thalweg_reader::Digits::new(digits));
        Ok(Follower(Mutex::new(opened)))
    }

    /// Sets the time after which the writer of an unchanged file on another machine's filesystem is considered dead.
    fn set_patience(&self, py: Python<'_>, seconds: f64) -> Outcome<()> {
        let patience = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        self.with(py, |f| {
            f.set_patience(patience);
            Ok(())
        })
    }

    /// The current step.
    #[getter]
    fn step(&self, py: Python<'_>) -> Outcome<u64> {
        self.with(py, |f| Ok(f.step()))
    }

    /// The newest step seen so far.
    #[getter]
    fn last(&self, py: Python<'_>) -> Outcome<u64> {
        self.with(py, |f| Ok(f.last()))
    }

    /// A reader of the file in its state when the current step was found.
    fn reader(&self, py: Python<'_>) -> Outcome<Reader> {
        self.with(py, |f| Ok(Reader(f.reader().clone())))
    }

    /// Advances to the next step, or to the last one. Returns `step`, `not yet`, `end` or `died`.
    fn advance(&self, py: Python<'_>, to_last: bool, seconds: f64, poll: f64) -> Outcome<&'static str> {
        self.with(py, |f| {
            f.advance(to_last, &wait(seconds, poll)).map(|next| match next {
                Next::Step(_) => "step",
                Next::NotYet => "not yet",
                Next::End => "end",
                Next::WriterDied => "died",
            })
        })
    }
}
