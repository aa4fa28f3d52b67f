//! The judge: lets each system call of a worker fail once, and looks at what is left.

use crate::Outcome;
use crate::launch::{End, Fault, Launch, counts, lost_close, run, run_command, run_mounted, run_preloaded, tool};
use crate::worker::{ENDS, NEW, OLD, OPERATIONS, operate, row, write_bp};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use thalweg_io::mounts;
use thalweg_io::registry::{self, METHODS};
use thalweg_layout::{Direct, Layout, OpenWrite, WriterId, write_all_at};
use thalweg_reader::{FindingKind, Reader, verify};
use thalweg_store::Posix;
use thalweg_types::{ErrorKind, Selection};

/// The system calls that fail, one kind after the other, and with what.
const CALLS: &[(&str, &str)] = &[
    ("openat", "EIO"),
    ("openat", "ENOSPC"),
    ("read", "EIO"),
    ("pread64", "EIO"),
    ("preadv", "EIO"),
    ("preadv2", "EIO"),
    ("write", "ENOSPC"),
    ("pwrite64", "EIO"),
    ("pwrite64", "ENOSPC"),
    ("pwritev", "ENOSPC"),
    ("pwritev2", "ENOSPC"),
    ("fsync", "EIO"),
    ("fdatasync", "EIO"),
    ("close", "EIO"),
    ("rename", "EIO"),
    ("renameat", "EIO"),
    ("renameat2", "EIO"),
    ("unlink", "EIO"),
    ("unlinkat", "EIO"),
    ("mkdir", "ENOSPC"),
    ("mkdirat", "ENOSPC"),
    ("ftruncate", "EIO"),
    ("fallocate", "ENOSPC"),
    ("fallocate", "EIO"),
    ("getdents64", "EIO"),
    ("fstat", "EIO"),
    ("newfstatat", "EIO"),
    ("statx", "EIO"),
    ("lseek", "EIO"),
    ("linkat", "EIO"),
    ("utimensat", "EIO"),
    ("fchmod", "EIO"),
    ("fchmodat", "EIO"),
    ("flock", "EIO"),
    ("fcntl", "EIO"),
    ("fstatfs", "EIO"),
    ("statfs", "EIO"),
];
/// Those of a program that reads.
const READS: &[(&str, &str)] = &[
    ("openat", "EIO"),
    ("openat", "ESTALE"),
    ("read", "EIO"),
    ("pread64", "EIO"),
    ("pread64", "ESTALE"),
    ("preadv", "EIO"),
    ("preadv2", "EIO"),
    ("getdents64", "EIO"),
    ("getdents64", "ESTALE"),
    ("fstat", "ESTALE"),
    ("newfstatat", "EIO"),
    ("statx", "EIO"),
    ("statx", "ESTALE"),
    ("lseek", "EIO"),
];
/// One thing whose every system call fails once.
pub struct Sweep<'s> {
    name: String,
    /// The method or the layout.
    kind: String,
    folder: PathBuf,
    launch: Launch,
    worker: Vec<String>,
    calls: &'static [(&'static str, &'static str)],
    mounts: Option<PathBuf>,
    /// Puts the folder into the state before.
    prepare: Box<dyn Fn() -> Outcome<()> + 's>,
    /// Looks at what the worker has left.
    check: Box<dyn Fn(End) -> Outcome<()> + 's>,
}

/// Which faults are tried where not all are: always the same ones.
struct Choice {
    every: u64,
    /// Faults met so far, of each call and error, by method or layout, on its files and elsewhere.
    met: BTreeMap<(String, &'static str, &'static str, bool), u64>,
}

impl Choice {
    /// `THIN=N`: one of N faults alone is tried.
    fn new() -> Choice {
        let every = std::env::var("THIN").ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0).unwrap_or(1);
        Choice { every, met: BTreeMap::new() }
    }

    /// The first of its sort, and each N-th behind it.
    fn tries(&mut self, kind: &str, (call, error): (&'static str, &'static str), on_files: bool) -> bool {
        let met = self.met.entry((kind.to_string(), call, error, on_files)).or_default();
        *met += 1;
        (*met - 1).is_multiple_of(self.every)
    }
}

pub fn judge(sweeps: &mut [Sweep<'_>]) {
    let mut broken = 0;
    let mut choice = Choice::new();
    for sweep in sweeps {
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
            (Launch::Command { out }, _) => run_command(&self.worker, out, fault, &log),
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
        let happens = |call: &str| call != "close" || !self.name.starts_with("tiered");
        for (call, error) in self.calls.iter().filter(|(call, _)| happens(call)) {
            let Some(made) = counts.get(*call) else { continue };
            // The last ones first: those at the end of a process are among the few that are tried.
            for k in (1..=made.most).rev() {
                if !choice.tries(&self.kind, (*call, *error), made.on_files.contains(&k)) {
                    continue;
                }
                (self.prepare)()?;
                let (end, words) = run(Some((call, error, k)))?;
                faults += 1;
                let words = words.lines().next().unwrap_or_default().to_string();
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
                if let Err(e) = (self.check)(end) {
                    wrong.push(format!("{call} {k} {error}: {end:?} ({words}), but {e}"));
                }
            }
        }
        Ok((faults, failed, wrong))
    }
}

fn anew(folder: &Path) -> Outcome<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(std::fs::create_dir_all(folder)?)
}

fn copy(from: &Path, to: &Path) -> Outcome<()> {
    anew(to)?;
    let done = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status()?;
    if done.success() { Ok(()) } else { Err("cp failed".into()) }
}

/// Parameters with which methods are swept.
fn parameters(method: &str) -> &'static [&'static str] {
    match method {
        "MPI_AGGREGATE" => &["pattern=simple;aggregators=1", "pattern=brigade"],
        "MPI_SCHEDULED" | "ADAPTIVE" => &["num_files=2"],
        "MPI" | "POSIX" => &["", "sync=yes;index=each"],
        _ => &[""],
    }
}

/// Where the BP file of a sweep lies: in a folder, or below a mount over it.
#[derive(Clone)]
pub struct Place {
    work: PathBuf,
    mounts: Option<PathBuf>,
}

impl Place {
    /// `x.bp` in this folder.
    pub fn plain(work: &Path) -> Place {
        Place { work: work.to_path_buf(), mounts: None }
    }

    /// The path of the file for a program.
    fn path(&self) -> String {
        match self.mounts {
            Some(_) => "/faults/x.bp".to_string(),
            None => self.work.join("x.bp").display().to_string(),
        }
    }

    /// A new one each time: another process, as far as layouts know.
    fn layout(&self) -> Outcome<(Arc<dyn Layout>, String)> {
        Ok(match &self.mounts {
            Some(mounts) => (mounts::of_files(std::slice::from_ref(mounts))?, self.path()),
            None => (Arc::new(Direct::new(Arc::new(Posix::at(&self.work)?))?), "x.bp".to_string()),
        })
    }

    fn write(&self, method: &str, parameters: &str, ranks: u32, steps: std::ops::Range<u64>) -> Outcome<()> {
        let (layout, path) = self.layout()?;
        for outcome in write_bp(Some(&layout), &path, method, parameters, ranks, steps) {
            outcome?;
        }
        Ok(())
    }
}

/// Empty stores, and the table of a mount over them.
fn stores(work: &Path, mounts: &Path, table: &str) -> Outcome<()> {
    std::fs::create_dir(work.join("a"))?;
    std::fs::create_dir(work.join("b"))?;
    let text = format!("[[mount]]\npath = \"/faults\"\n{table}");
    Ok(std::fs::write(mounts, text.replace('@', &work.display().to_string()))?)
}

/// - `over`: the layout, one of `LAYOUTS`, below the files; a plain folder where `None`.
pub fn sweeps_bp(folder: &Path, ranks: u32, only: Option<&str>, over: Option<&str>) -> Vec<Sweep<'static>> {
    let mut sweeps = Vec::new();
    let table = over.map(|over| {
        let of = LAYOUTS.iter().find(|(name, _)| *name == over);
        of.unwrap_or_else(|| panic!("no layout {over}")).1
    });
    let methods = METHODS.iter().filter(|kind| registry::stores(kind)).map(|kind| kind.names[0]);
    for method in methods.filter(|m| only.is_none_or(|o| o == *m)) {
        for parameters in parameters(method) {
            for first in [0, 2] {
                let what = if first == 0 { "new file" } else { "append" };
                let slug = format!("{method}-{}-{what}-{ranks}", parameters.replace(['=', ';'], "-")).replace(' ', "-");
                let (work, before) = (folder.join(&slug), folder.join(format!("{slug}-before")));
                let mounts = table.map(|_| folder.join(format!("{slug}.toml")));
                let place = Place { work: work.clone(), mounts: mounts.clone() };
                let worker = ["bp", &place.path(), method, parameters, &ranks.to_string(), &first.to_string(), "1"];
                let worker: Vec<String> = worker.iter().map(|w| w.to_string()).collect();
                let prepare = {
                    let (place, work, before) = (place.clone(), work.clone(), before.clone());
                    move || -> Outcome<()> {
                        if !before.exists() {
                            anew(&work)?;
                            if let (Some(mounts), Some(table)) = (&place.mounts, table) {
                                stores(&work, mounts, table)?;
                            }
                            place.write(method, parameters, ranks, 0..first)?;
                            copy(&work, &before)?;
                        }
                        copy(&before, &work)
                    }
                };
                let check = move |end: End| check_bp(&place, method, parameters, ranks, first, end);
                let on = over.map_or(String::new(), |over| format!(" on {over}"));
                sweeps.push(Sweep {
                    name: format!("{method} {parameters}{on}, {ranks} ranks, {what}"),
                    kind: method.to_string(),
                    folder: work,
                    launch: Launch::Itself,
                    worker,
                    calls: CALLS,
                    mounts,
                    prepare: Box::new(prepare),
                    check: Box::new(check),
                });
            }
        }
    }
    sweeps
}

/// All steps before `first` are there; the one behind them is where the worker says so; one more goes on.
pub fn check_bp(place: &Place, method: &str, parameters: &str, ranks: u32, first: u64, end: End) -> Outcome<()> {
    let (layout, path) = place.layout()?;
    let steps = match Reader::open(layout.clone(), &path) {
        Ok(reader) => reads(&reader, ranks, first)?,
        Err(e) if first == 0 && end != End::Success => {
            // Nothing was closed; what is left must not stop a new file.
            let _ = e;
            0
        }
        Err(e) => return Err(format!("the file cannot be opened: {e}").into()),
    };
    if steps < first || (end == End::Success && steps != first + 1) {
        return Err(format!("{steps} steps are there").into());
    }
    place.write(method, parameters, ranks, steps..steps + 1).map_err(|e| format!("the next output fails: {e}"))?;
    let (layout, path) = place.layout()?;
    let reader = Reader::open(layout.clone(), &path)?;
    if reads(&reader, ranks, first)? != steps + 1 {
        return Err(format!("the next output leaves {} steps", reader.status().steps).into());
    }
    let partial = !reader.status().partial.is_empty();
    let report = verify(&*layout, &path)?;
    match report.findings.iter().find(|f| !(partial && matches!(f.kind, FindingKind::Gap | FindingKind::Partial))) {
        Some(finding) => Err(format!("verify after the next output: {finding:?}").into()),
        None => Ok(()),
    }
}

/// What reads a file: `thalweg ls`, `verify`, `recover`. Success says what it says without a failure, and leaves the files as
/// they are then; a failure leaves them as they were.
pub fn sweeps_read(folder: &Path, thalweg: &str) -> Vec<Sweep<'static>> {
    let mut sweeps = Vec::new();
    for method in ["MPI", "POSIX", "MPI_SCHEDULED"] {
        for words in [&["ls", "-l", "-a"][..], &["verify"], &["recover"]] {
            let slug = format!("{method}-{}", words[0]);
            let (work, before, after) =
                (folder.join(&slug), folder.join(format!("{slug}-before")), folder.join(format!("{slug}-after")));
            let place = Place::plain(&work);
            let out = folder.join(format!("{slug}.out"));
            let mut worker: Vec<String> = [thalweg].iter().chain(words).map(|w| w.to_string()).collect();
            worker.push(place.path());
            let prepare = {
                let (work, before) = (work.clone(), before.clone());
                let recovers = words[0] == "recover";
                move || -> Outcome<()> {
                    if !before.exists() {
                        anew(&work)?;
                        place.write(method, "", 3, 0..3)?;
                        // An end that is cut off is what is recovered.
                        let file = std::fs::File::options().write(true).open(place.path())?;
                        if recovers {
                            file.set_len(file.metadata()?.len() - 24)?;
                        }
                        copy(&work, &before)?;
                    }
                    copy(&before, &work)
                }
            };
            let check = {
                let (work, out) = (work.clone(), out.clone());
                move |end: End| -> Outcome<()> {
                    let said = std::fs::read_to_string(&out)?;
                    let wanted = out.with_extension("wanted");
                    // The first run is the one without a failure.
                    if !after.exists() {
                        copy(&work, &after)?;
                        std::fs::write(&wanted, &said)?;
                    }
                    if end != End::Success {
                        return same(&before, &work).or_else(|e| same(&after, &work).map_err(|_| e));
                    }
                    if said != std::fs::read_to_string(&wanted)? {
                        return Err(format!("it says {said:?}").into());
                    }
                    same(&after, &work)
                }
            };
            sweeps.push(Sweep {
                name: format!("{}, {method}", words[0]),
                kind: words[0].to_string(),
                folder: work,
                launch: Launch::Command { out },
                worker,
                calls: READS,
                mounts: None,
                prepare: Box::new(prepare),
                check: Box::new(check),
            });
        }
    }
    sweeps
}

fn same(wanted: &Path, is: &Path) -> Outcome<()> {
    let differs = Command::new("diff").arg("-rq").arg(wanted).arg(is).output()?;
    match differs.status.success() {
        true => Ok(()),
        false => Err(format!("the files differ: {}", String::from_utf8_lossy(&differs.stdout)).into()),
    }
}

/// Compares every value. Steps before `whole` must have all ranks, and those that are not marked partial. Returns the number of steps.
fn reads(reader: &Reader, ranks: u32, whole: u64) -> Outcome<u64> {
    let steps = reader.status().steps;
    for step in 0..steps {
        let partial: Vec<u32> = reader.status().partial.iter().filter(|p| p.step == step).map(|p| p.rank).collect();
        let blocks = reader.blocks("t", step).map_err(|e| format!("step {step}: {e}"))?;
        if blocks.len() != ranks as usize - partial.len() || (step < whole && !partial.is_empty()) {
            return Err(format!("step {step} has {} blocks, lost ranks {partial:?}", blocks.len()).into());
        }
        for block in blocks {
            let values: Vec<f64> = reader.read_as("t", step, &Selection::Block(block.number))?;
            if values != row(block.offset[0] as u32, step) {
                return Err(format!("step {step}, block {} has other values", block.number).into());
            }
        }
    }
    Ok(steps)
}

/// Layouts, and the lines of their mount tables.
const LAYOUTS: &[(&str, &str)] = &[
    ("direct", "layout = \"direct\"\nstore = \"posix:@/a\"\n"),
    ("flat", "layout = \"flat\"\nstores = [\"posix:@/a\", \"posix:@/b\"]\n"),
    ("container", "layout = \"container\"\nstores = [\"posix:@/a\", \"posix:@/b\"]\n"),
    // Each file a folder of logs and marks, also a small one.
    ("container folders", "layout = \"container\"\nstores = [\"posix:@/a\", \"posix:@/b\"]\ninline = 0\n"),
    ("small_file", "layout = \"small_file\"\nstore = \"posix:@/a\"\n"),
    ("tiered", "layout = \"container\"\nstore = \"tiered:posix:@/a=>posix:@/b\"\ndrain = \"manual\"\n"),
];

pub fn sweeps_file(folder: &Path, only: Option<&str>, launch: &dyn Fn(&Path) -> Launch) -> Vec<Sweep<'static>> {
    let mut sweeps = Vec::new();
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join("new"), NEW))
        .unwrap_or_else(|e| panic!("{e}"));
    for (layout, table) in LAYOUTS.iter().filter(|(name, _)| only.is_none_or(|o| o == *name)) {
        let programs = if launch(folder).is_itself() { &[] } else { ENDS };
        for (operation, there) in OPERATIONS.iter().chain(programs) {
            let slug = format!("{}-{operation}", layout.replace(' ', "-"));
            let work = folder.join(&slug);
            let before = folder.join(format!("{slug}-before"));
            let mounts = folder.join(format!("{slug}.toml"));
            let prepare = {
                let (work, before, mounts) = (work.clone(), before.clone(), mounts.clone());
                move || -> Outcome<()> {
                    if !before.exists() {
                        anew(&work)?;
                        stores(&work, &mounts, table)?;
                        let layout = mounts::of_files(std::slice::from_ref(&mounts))?;
                        layout.make_folder("/faults/d")?;
                        for name in ["kept", "other"] {
                            operate(&*layout, &format!("/faults/d/{name}"), "prepare")?;
                        }
                        if *there {
                            operate(&*layout, "/faults/d/x", "prepare")?;
                        }
                        drop(layout);
                        copy(&work, &before)?;
                    }
                    copy(&before, &work)
                }
            };
            let check = {
                let mounts = mounts.clone();
                move |end: End| check_file(&mounts, operation, *there, end)
            };
            let launch = launch(&work);
            let worker = match &launch {
                Launch::Itself => ["file", "/faults/d/x", operation].map(str::to_string).to_vec(),
                _ => tool(operation, "/faults/d/x", &folder.join("new")),
            };
            sweeps.push(Sweep {
                name: format!("{layout}, {operation}"),
                kind: layout.to_string(),
                folder: work,
                launch,
                worker,
                calls: CALLS,
                mounts: Some(mounts),
                prepare: Box::new(prepare),
                check: Box::new(check),
            });
        }
    }
    sweeps
}

/// The text of a file, `None` where there is none.
fn text(layout: &dyn Layout, path: &str) -> Outcome<Option<String>> {
    let object = match layout.open_read(path) {
        Ok(object) => object,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(format!("{path} cannot be opened: {e}").into()),
    };
    let mut bytes = vec![0; object.length()? as usize];
    object.read_exact_at(0, &mut bytes).map_err(|e| format!("{path} cannot be read: {e}"))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn check_file(mounts: &Path, operation: &str, there: bool, end: End) -> Outcome<()> {
    // A new table: another process, as far as layouts know.
    let layout = mounts::of_files(&[mounts.to_path_buf()])?;
    let layout = &*layout;
    for name in ["kept", "other"] {
        if text(layout, &format!("/faults/d/{name}"))?.as_deref() != Some(OLD) {
            return Err(format!("{name}, which nobody touched, is not as it was").into());
        }
    }
    let x = "/faults/d/x";
    let folder = operation == "mkdir";
    let found = if folder { layout.stat(x).ok().map(|_| String::new()) } else { text(layout, x)? };
    let before = there.then(|| OLD.to_string());
    let after = match operation {
        "create" | "replace" => Some(NEW.to_string()),
        "append" | "exec" | "leave" => Some(format!("{OLD}{NEW}")),
        "rename" | "remove" => None,
        "truncate" => Some(OLD[..11].to_string()),
        "mkdir" => Some(String::new()),
        _ => before.clone(),
    };
    // A file is emptied, or made, before bytes are written to it.
    let between = [&before, &after].contains(&&found)
        || (matches!(operation, "create" | "replace") && found.as_deref() == Some(""));
    if (end == End::Success && found != after) || !between {
        return Err(format!("the file has {found:?}, before {before:?}, wanted {after:?}").into());
    }
    if operation == "rename" {
        let renamed = text(layout, &format!("{x}.renamed"))?;
        if renamed.as_deref() == Some(OLD) && found.is_none() || renamed.is_none() && found.is_some() {
            // One of both names.
        } else {
            return Err(format!("old name {found:?}, new name {renamed:?}").into());
        }
    }
    // The name is usable: it can be written, read, and removed.
    if folder {
        if found.is_none() {
            layout.make_one_folder(x, 0o755).map_err(|e| format!("the folder cannot be made afterwards: {e}"))?;
        }
    } else {
        let object = layout.open_write(x, OpenWrite::Any, WriterId(2)).map_err(|e| format!("cannot be opened: {e}"))?;
        write_all_at(&*object, 0, b"AGAIN")?;
        object.close()?;
        if text(layout, x)?.is_none_or(|t| !t.starts_with("AGAIN")) {
            return Err("what was written afterwards is not there".into());
        }
    }
    layout.remove(x).map_err(|e| format!("the name cannot be removed afterwards: {e}"))?;
    Ok(())
}
