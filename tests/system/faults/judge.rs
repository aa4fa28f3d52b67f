//! The judge: lets each system call of a worker fail once, and looks at what is left.

use crate::Outcome;
use crate::calls::MORE;
use crate::launch::{End, Fault, Launch, counts, lost_close, run, run_command, run_mounted, run_preloaded};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One thing whose every system call fails once.
pub struct Sweep<'s> {
    pub name: String,
    /// The method or the layout.
    pub kind: String,
    pub folder: PathBuf,
    pub launch: Launch,
    pub worker: Vec<String>,
    pub calls: Vec<(&'static str, &'static str)>,
    /// One of eight faults alone is tried, unless all are asked for.
    pub rare: bool,
    pub mounts: Option<PathBuf>,
    /// Puts the folder into the state before.
    pub prepare: Box<dyn Fn() -> Outcome<()> + 's>,
    /// Looks at what the worker has left.
    pub check: Box<dyn Fn(End) -> Outcome<()> + 's>,
}

/// Which faults are tried where not all are.
pub struct Choice {
    pub every: u64,
    /// Number of the first one, below `every`.
    first: u64,
    long: bool,
    /// Faults met so far, of each call and error, by method or layout, on its files and elsewhere.
    met: BTreeMap<(String, &'static str, &'static str, bool), u64>,
}

impl Choice {
    /// `THIN=N`: one of N faults alone is tried; `FIRST=K`: from the K-th on.
    pub fn new() -> Choice {
        let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
        let every = number("THIN").filter(|n| *n > 0).unwrap_or(1);
        let long = std::env::var("LONG").is_ok_and(|long| long != "0");
        Choice { every, first: number("FIRST").unwrap_or(0) % every, long, met: BTreeMap::new() }
    }

    /// Each N-th of its sort; of the rare ones each eighth at most, unless all are asked for.
    fn tries(&mut self, sweep: &Sweep<'_>, (call, error): (&'static str, &'static str), on_files: bool) -> bool {
        let met = self.met.entry((sweep.kind.to_string(), call, error, on_files)).or_default();
        *met += 1;
        let rare = !self.long && (sweep.rare || MORE.contains(&(call, error)));
        (*met - 1) % if rare { self.every.max(8) } else { self.every } == self.first
    }
}

pub fn judge(sweeps: &mut [Sweep<'_>]) {
    let mut broken = 0;
    let mut choice = Choice::new();
    for sweep in sweeps {
        if std::env::var("SWEEP").is_ok_and(|part| !sweep.name.contains(&part)) {
            continue;
        }
        match sweep.run(&mut choice) {
            Ok((faults, failed, wrong)) => {
                let said = if wrong.is_empty() { "ok" } else { "not ok" };
                println!("{said} {}: {faults} failing system calls, {failed} told as errors", sweep.name);
                wrong.iter().for_each(|line| println!("  {line}"));
                broken += wrong.len();
            }
            Err(e) => {
                println!("not ok {}: {e}", sweep.name);
                broken += 1;
            }
        }
    }
    std::process::exit(i32::from(broken > 0));
}

impl Sweep<'_> {
    fn run(&self, choice: &mut Choice) -> Outcome<(u64, u64, Vec<String>)> {
        let worker: Vec<&str> = self.worker.iter().map(String::as_str).collect();
        let log = self.folder.with_extension("strace");
        let mounts = self.mounts.as_deref();
        (self.prepare)()?;
        let run = |fault: Fault<'_>| match (&self.launch, mounts) {
            (Launch::Preload { thalweg }, Some(mounts)) => run_preloaded(thalweg, &self.worker, mounts, fault, &log),
            (Launch::Fuse { thalweg, at }, Some(mounts)) => {
                run_mounted((thalweg, at), &self.worker, mounts, fault, &log)
            }
            (Launch::Command { out }, mounts) => run_command(&self.worker, mounts, out, fault, &log),
            _ => run(&worker, mounts, fault, &log),
        };
        let (end, words) = run(None)?;
        if end != End::Success {
            return Err(format!("fails without a fault: {end:?} {words}").into());
        }
        (self.check)(end)?;
        let counts = counts(&log, &self.folder)?;
        let (mut faults, mut failed, mut wrong) = (0, 0, Vec::new());
        // strace keeps a call that it lets fail from happening. A close that fails has closed all the same, and with it given up
        // the locks of its descriptor; a burst buffer then waits for its own process for ever.
        let happens = |call: &str| call != "close" || !self.name.contains("tiered");
        for (call, error) in self.calls.iter().filter(|(call, _)| happens(call)) {
            let Some(made) = counts.get(*call) else { continue };
            // The last ones first: those at the end of a process are among the few that are tried.
            for k in (1..=made.most).rev() {
                if !choice.tries(self, (*call, *error), made.on_files.contains(&k)) {
                    continue;
                }
                if std::env::var("ONLY").is_ok_and(|only| only != format!("{call}:{error}")) {
                    continue;
                }
                (self.prepare)()?;
                let (end, words) = run(Some((call, error, k)))?;
                faults += 1;
                // A warning comes before what was wrong.
                let words = match end {
                    End::Other(_) => words.replace('\n', " | "),
                    _ => words.lines().next().unwrap_or_default().to_string(),
                };
                match end {
                    End::Success if *call == "close" => {
                        if let Some(path) = lost_close(&log, &self.folder)? {
                            wrong.push(format!(
                                "close {k} {error}: {path} was not closed, and nobody was told ({words})"
                            ));
                        }
                    }
                    End::Success => {}
                    End::Failed(_) => failed += 1,
                    end => wrong.push(format!("{call} {k} {error}: {end:?}: {words}")),
                }
                let left = std::env::var_os("KEEP").map(|_| self.folder.with_extension("left"));
                if let Some(left) = &left {
                    copy(&self.folder, left)?;
                }
                if let Err(e) = (self.check)(end) {
                    if let Some(left) = &left {
                        let kept = self.folder.with_extension(format!("{call}-{k}-{error}"));
                        copy(left, &kept)?;
                        std::fs::copy(&log, kept.with_extension("strace"))?;
                    }
                    wrong.push(format!("{call} {k} {error}: {end:?} ({words}), but {e}"));
                }
            }
        }
        Ok((faults, failed, wrong))
    }
}

pub fn anew(folder: &Path) -> Outcome<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(std::fs::create_dir_all(folder)?)
}

pub fn copy(from: &Path, to: &Path) -> Outcome<()> {
    anew(to)?;
    let done = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status()?;
    if done.success() { Ok(()) } else { Err("cp failed".into()) }
}
