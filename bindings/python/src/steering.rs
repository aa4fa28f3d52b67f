//! Someone asks a run for a change of what it writes: `thalweg.control`.

use crate::failure::{Failure, Outcome};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_control::{Change, Method, Region, Stop};
use thalweg_io::steering::asking::{Run, Since};
use thalweg_io::steering::files;
use thalweg_types::{Error, ErrorKind};

/// Asks a run for a change and waits until it has taken it; returns the first output and step for which it holds.
///
/// - `only`, `region`: names and a box; none of the former, and `all`, stand for all; `method`: `declared` stands for the declared one.
#[pyfunction]
#[pyo3(signature = (path, control, every, only, region, method, stop, stop_after, timeout))]
#[allow(clippy::too_many_arguments)] // those of `thalweg.control`
pub fn control(
    py: Python<'_>,
    path: PathBuf,
    control: Option<PathBuf>,
    every: Option<u64>,
    only: Option<Vec<String>>,
    region: Option<&str>,
    method: Option<&str>,
    stop: Option<bool>,
    stop_after: Option<String>,
    timeout: Option<f64>,
) -> Outcome<(u64, u64)> {
    let control = control.unwrap_or_else(|| files::of_output(&path));
    let region = match region {
        Some("all") => Some(None),
        Some(text) => Some(Some(text.parse::<Region>()?)),
        None => None,
    };
    let only = only.map(|names| (!names.is_empty()).then(|| names.into_iter().collect()));
    let method = match method {
        Some("declared") => Some(None),
        Some(text) => Some(Some(text.parse::<Method>()?)),
        None => None,
    };
    let stop = match (stop, stop_after) {
        (None, None) => None,
        (None, Some(group)) => Some(Stop::After(group)),
        (Some(stop), None) => Some(if stop { Stop::Now } else { Stop::No }),
        (Some(_), Some(_)) => return Err(Failure::argument("stop and stop_after exclude each other")),
    };
    let change = Change { every, only, region, stop, method };
    if change.is_empty() {
        return Err(Failure::argument("nothing to change: give every, only, box, method, stop or stop_after"));
    }
    let wrong = |_| Failure::argument("timeout is a number of seconds, at least 0");
    let longest = timeout.map(Duration::try_from_secs_f64).transpose().map_err(wrong)?;
    let mut interrupted = None;
    let asked = py.detach(|| {
        let (run, _) = Run::find(&path, &control)?;
        run.ask(&change, longest, || {
            Python::attach(|py| py.check_signals()).map_err(|signal| {
                interrupted = Some(signal);
                Error::new(ErrorKind::Timeout, "interrupted")
            })
        })
    });
    match (interrupted, asked) {
        (Some(signal), _) => Err(signal.into()),
        (None, asked) => asked.map(|Since { output, step }| (output, step)).map_err(Failure::from),
    }
}
