//! State of adaptive writing between outputs: the measured speed of storage targets, the assigned extents of subfiles, and
//! abandoned writes.
//!
//! | state | on | key |
//! |---|---|---|
//! | speed of targets | rank 0 | folder and number of subfiles |
//! | ends of assigned extents, abandoned copies included | rank 0 | file |
//! | last process group of each subfile | rank 0 | file |
//! | abandoned writes | the rank that started them | file |

use crate::method::adaptive::in_flight::Late;
use crate::output_file::memory::{Memory, Remembered};
use crate::output_file::subfiles::LastGroup;
use crate::plan::adaptive::{self, State};
use std::collections::HashMap;
use thalweg_types::{Error, Result};

/// Most files whose ends are kept, which bounds the memory of a program that writes one file per output.
const MOST: usize = 64;

struct LeftThere {
    file: String,
    targets: String,
    late: Late,
}

/// The state of adaptive writing between outputs, of one process.
#[derive(Default)]
pub struct TargetRates {
    learnt: HashMap<String, State>,
    ends: HashMap<String, (u64, Vec<u64>)>,
    lasts: HashMap<String, (u64, Vec<LastGroup>)>,
    left: Vec<LeftThere>,
    /// The session has opened a file by this method; the same on all ranks.
    used: bool,
}

impl TargetRates {
    /// The method opens a file.
    pub fn uses(&mut self) {
        self.used = true;
    }

    /// The last state of these targets.
    pub fn learnt(&self, targets: &str) -> Option<State> {
        self.learnt.get(targets).cloned()
    }

    /// Records the state of these targets.
    pub fn learn(&mut self, targets: &str, state: State) {
        self.learnt.insert(targets.to_string(), state);
    }

    /// Run id of the last output of a file, and the end of assigned extents in each of its `files` subfiles.
    pub fn ends(&self, file: &str, files: usize) -> Option<(u64, Vec<u64>)> {
        self.ends.get(file).filter(|(_, ends)| ends.len() == files).cloned()
    }

    /// Records the ends, or removes them (`None`).
    pub fn set_ends(&mut self, file: &str, run: u64, ends: Option<Vec<u64>>) {
        self.ends.remove(file);
        if self.ends.len() >= MOST {
            self.ends.clear();
        }
        if let Some(ends) = ends {
            self.ends.insert(file.to_string(), (run, ends));
        }
    }

    /// Run id of the last output of a file, and the last process group of each of its `files` subfiles.
    pub fn lasts(&self, file: &str, files: usize) -> Option<(u64, Vec<LastGroup>)> {
        self.lasts.get(file).filter(|(_, lasts)| lasts.len() == files).cloned()
    }

    /// Records the last process groups.
    pub fn set_lasts(&mut self, file: &str, run: u64, lasts: Vec<LastGroup>) {
        if self.lasts.len() >= MOST && !self.lasts.contains_key(file) {
            self.lasts.clear();
        }
        self.lasts.insert(file.to_string(), (run, lasts));
    }

    /// Records an abandoned write to this file and these targets.
    pub fn leave(&mut self, file: &str, targets: &str, late: Late) {
        self.left.push(LeftThere { file: file.to_string(), targets: targets.to_string(), late });
    }

    /// Whether an abandoned write to this file has not ended.
    pub fn is_late(&self, file: &str) -> bool {
        self.left.iter().any(|l| l.file == file && !l.late.has_landed())
    }

    /// The state of abandoned writes to these targets; a write that has ended is returned once and removed.
    pub fn late(&mut self, targets: &str) -> Vec<adaptive::Late> {
        let mut told = Vec::new();
        self.left.retain(|l| {
            if l.targets != targets {
                return true;
            }
            let (landed, seconds) = (l.late.has_landed(), l.late.took().as_secs_f64());
            told.push(adaptive::Late { target: l.late.target, bytes: l.late.bytes, seconds, landed });
            !landed
        });
        told
    }

    /// Removes and returns the abandoned writes to a file, or all.
    fn take(&mut self, file: Option<&str>) -> Vec<LeftThere> {
        let left = std::mem::take(&mut self.left);
        let (taken, stay) = left.into_iter().partition(|l| file.is_none_or(|file| l.file == file));
        self.left = stay;
        taken
    }
}

impl Memory for TargetRates {
    fn settle(memory: &Remembered<TargetRates>, name: &str) -> Result<()> {
        wait(memory, Some(name))
    }

    fn forget(memory: &Remembered<TargetRates>, name: &str) -> bool {
        let mut rates = memory.lock();
        rates.ends.remove(name);
        rates.lasts.remove(name);
        rates.used
    }

    fn end(memory: &Remembered<TargetRates>) -> Result<()> {
        wait(memory, None)
    }
}

/// Waits, without holding the lock, until the abandoned writes to a file, or all, have ended.
///
/// # Errors
/// `Timeout` if a write has not ended.
fn wait(memory: &Remembered<TargetRates>, file: Option<&str>) -> Result<()> {
    let mut taken = memory.lock().take(file);
    let outcome = taken.iter_mut().map(|l| l.late.wait()).fold(Ok(()), Result::and);
    memory.lock().left.append(&mut taken);
    outcome.map_err(|e: Error| {
        e.safe("all indexed steps; do not append to the file or replace it while this write may still end")
    })
}
