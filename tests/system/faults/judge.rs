//! The judge: lets each system call of a worker fail once, and looks at what is left.

use crate::Outcome;
use crate::launch::{
    End, Fault, Launch, counts, lost_close, printed, run, run_command, run_mounted, run_preloaded, tool,
};
use crate::worker::{
    Before, ENDS, KEY, NAMES, NEW, OLD, OPERATIONS, TARGET, VALUE, WRITTEN, linked, operate, row, write_bp,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use thalweg_io::mounts;
use thalweg_io::registry::{self, METHODS};
use thalweg_layout::{Direct, Kind, Layout, OpenWrite, SetXattr, WriterId, write_all_at};
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
/// More of them, of which one in eight is tried where `LONG` does not ask for all: the same calls with errors that take the same ways as
/// the first, and calls that are rare.
const MORE: &[(&str, &str)] = &[
    ("openat", "ESTALE"),
    ("pread64", "ESTALE"),
    ("preadv2", "ESTALE"),
    ("fsync", "ENOSPC"),
    ("fsync", "EDQUOT"),
    ("fdatasync", "ENOSPC"),
    ("fdatasync", "EDQUOT"),
    ("syncfs", "EIO"),
    ("close", "ENOSPC"),
    ("close", "EDQUOT"),
    ("rmdir", "EIO"),
    ("symlink", "ENOSPC"),
    ("symlinkat", "ENOSPC"),
    ("readlink", "EIO"),
    ("readlinkat", "EIO"),
    ("link", "EIO"),
    ("getdents64", "ESTALE"),
    ("fstat", "ESTALE"),
    ("newfstatat", "ESTALE"),
    ("statx", "ESTALE"),
    ("fchmodat2", "EIO"),
    ("fchown", "EIO"),
    ("fchownat", "EIO"),
    ("getxattr", "EIO"),
    ("setxattr", "ENOSPC"),
    ("lgetxattr", "EIO"),
    ("lsetxattr", "ENOSPC"),
    ("llistxattr", "EIO"),
    ("lremovexattr", "EIO"),
    ("fgetxattr", "EIO"),
    ("fsetxattr", "ENOSPC"),
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
fn all_calls() -> Vec<(&'static str, &'static str)> {
    CALLS.iter().chain(MORE).copied().collect()
}

/// Operations that do little beside others.
const RARE: &[&str] =
    &["utimes", "rmdir", "rename_folder", "link", "symlink", "read_link", "xattr", "xattr_remove", "list", "read"];

/// One thing whose every system call fails once.
pub struct Sweep<'s> {
    name: String,
    /// The method or the layout.
    kind: String,
    folder: PathBuf,
    launch: Launch,
    worker: Vec<String>,
    calls: Vec<(&'static str, &'static str)>,
    /// One of eight faults alone is tried, unless all are asked for.
    rare: bool,
    mounts: Option<PathBuf>,
    /// Puts the folder into the state before.
    prepare: Box<dyn Fn() -> Outcome<()> + 's>,
    /// Looks at what the worker has left.
    check: Box<dyn Fn(End) -> Outcome<()> + 's>,
}

/// Which faults are tried where not all are: always the same ones.
struct Choice {
    every: u64,
    long: bool,
    /// Faults met so far, of each call and error, by method or layout, on its files and elsewhere.
    met: BTreeMap<(String, &'static str, &'static str, bool), u64>,
}

impl Choice {
    /// `THIN=N`: one of N faults alone is tried.
    fn new() -> Choice {
        let every = std::env::var("THIN").ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0).unwrap_or(1);
        let long = std::env::var("LONG").is_ok_and(|long| long != "0");
        Choice { every, long, met: BTreeMap::new() }
    }

    /// The first of its sort, and each N-th behind it; of the rare ones each eighth at most, unless all are asked for.
    fn tries(&mut self, sweep: &Sweep<'_>, (call, error): (&'static str, &'static str), on_files: bool) -> bool {
        let met = self.met.entry((sweep.kind.to_string(), call, error, on_files)).or_default();
        *met += 1;
        let rare = !self.long && (sweep.rare || MORE.contains(&(call, error)));
        (*met - 1).is_multiple_of(if rare { self.every.max(8) } else { self.every })
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

/// The names of the methods that write files.
pub fn methods() -> impl Iterator<Item = &'static str> {
    METHODS.iter().filter(|kind| registry::stores(kind)).map(|kind| kind.names[0])
}

/// One output by a method.
#[derive(Clone, Copy)]
struct Written {
    method: &'static str,
    parameters: &'static str,
    ranks: u32,
    /// Steps that are there before.
    first: u64,
}

/// On a plain folder.
pub fn sweeps_bp(folder: &Path, ranks: u32, only: Option<&str>) -> Vec<Sweep<'static>> {
    let mut sweeps = Vec::new();
    for method in methods().filter(|m| only.is_none_or(|o| o == *m)) {
        for parameters in parameters(method) {
            for first in [0, 2] {
                sweeps.push(sweep_bp(folder, Written { method, parameters, ranks, first }, None, Launch::Itself));
            }
        }
    }
    sweeps
}

/// On layouts. Where not all faults are tried, each method is on each layout once: with a new file or an appended one, from the first
/// of `ranks` or the second, in turn.
pub fn sweeps_over(folder: &Path, layout: Option<&str>, ranks: &[u32], only: Option<&str>) -> Vec<Sweep<'static>> {
    let thin = Choice::new().every > 1;
    let mut sweeps = Vec::new();
    let kinds = methods().flat_map(|method| parameters(method).iter().map(move |parameters| (method, *parameters)));
    for (k, (method, parameters)) in kinds.enumerate().filter(|(_, (method, _))| only.is_none_or(|o| o == *method)) {
        let layouts = LAYOUTS.iter().filter(|(name, _)| *name != "direct" && layout.is_none_or(|o| o == *name));
        for (l, over) in layouts.enumerate() {
            let number = ranks.len();
            let ways = ranks.iter().flat_map(|ranks| [(*ranks, 0), (*ranks, 2)]);
            for (w, (ranks, first)) in ways.enumerate() {
                if !thin || w == (k + l) % (2 * number) {
                    let written = Written { method, parameters, ranks, first };
                    sweeps.push(sweep_bp(folder, written, Some(over), Launch::Itself));
                }
            }
        }
    }
    sweeps
}

/// Through a mount of FUSE, whose process's calls fail.
pub fn sweeps_bp_through(folder: &Path, only: Option<&str>, launch: &dyn Fn(&Path) -> Launch) -> Vec<Sweep<'static>> {
    let mut sweeps = Vec::new();
    for over in LAYOUTS.iter().filter(|(name, _)| only.is_none_or(|o| o == *name)) {
        for (method, first) in [("MPI", 2), ("POSIX", 0)] {
            let written = Written { method, parameters: "", ranks: 2, first };
            let launch = launch(&folder.join(written.slug(Some(over.0))));
            sweeps.push(sweep_bp(folder, written, Some(over), launch));
        }
    }
    sweeps
}

impl Written {
    fn slug(&self, over: Option<&str>) -> String {
        let Written { method, parameters, ranks, first } = self;
        let over = over.map_or(String::new(), |over| format!("-{over}"));
        format!("{method}-{parameters}-{first}-{ranks}{over}").replace(['=', ';', ' '], "-")
    }
}

/// - `over`: one of `LAYOUTS`, below the files; a plain folder where `None`.
fn sweep_bp(
    folder: &Path,
    written: Written,
    over: Option<&(&'static str, &'static str)>,
    launch: Launch,
) -> Sweep<'static> {
    let Written { method, parameters, ranks, first } = written;
    let slug = written.slug(over.map(|(name, _)| *name));
    let (work, before) = (folder.join(&slug), folder.join(format!("{slug}-before")));
    let mounts = over.map(|_| folder.join(format!("{slug}.toml")));
    let place = Place { work: work.clone(), mounts: mounts.clone() };
    let worker = ["bp", &place.path(), method, parameters, &ranks.to_string(), &first.to_string(), "1"];
    let mut worker: Vec<String> = worker.iter().map(|w| w.to_string()).collect();
    if !launch.is_itself() {
        let this = std::env::current_exe().unwrap_or_else(|e| panic!("{e}"));
        worker.insert(0, this.display().to_string());
    }
    let table = over.map(|(_, table)| *table);
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
    let on = over.map_or(String::new(), |(over, _)| format!(" on {over}"));
    let what = if first == 0 { "new file" } else { "append" };
    Sweep {
        name: format!("{method} {parameters}{on}, {ranks} ranks, {what}"),
        // On layouts those of all methods together are thinned: each has its calls on a plain folder, too.
        kind: over.map_or(method, |(over, _)| over).to_string(),
        folder: work,
        launch,
        worker,
        calls: all_calls(),
        rare: false,
        mounts,
        prepare: Box::new(prepare),
        check: Box::new(check),
    }
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

/// Commands on one file: `thalweg ls`, `verify`, `recover`, `dump`, `find`, `index`. Success says what it says without a failure, and
/// leaves the files as they are then; a failure leaves them as they were.
pub fn sweeps_read(folder: &Path, thalweg: &str) -> Vec<Sweep<'static>> {
    let mut sweeps = Vec::new();
    for method in ["MPI", "POSIX", "MPI_SCHEDULED"] {
        let words: [&[&str]; 6] =
            [&["ls", "-l", "-a"], &["verify"], &["recover"], &["dump"], &["find", "--blocks"], &["index"]];
        for words in words {
            let slug = format!("{method}-{}", words[0]);
            let (work, before, after) =
                (folder.join(&slug), folder.join(format!("{slug}-before")), folder.join(format!("{slug}-after")));
            let place = Place::plain(&work);
            let out = folder.join(format!("{slug}.out"));
            let mut worker: Vec<String> = [thalweg].iter().chain(words).map(|w| w.to_string()).collect();
            worker.push(place.path());
            match words[0] {
                "dump" => worker.push("t".into()),
                "find" => worker.push("t > 10100".into()),
                // Beside the folder: a file that this command alone writes.
                "index" => worker.extend(["-o".into(), folder.join(format!("{slug}.index")).display().to_string()]),
                _ => {}
            }
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
                calls: if words[0] == "index" { all_calls() } else { READS.to_vec() },
                rare: matches!(words[0], "dump" | "find" | "index"),
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

/// What a layout does not have.
const LACKS: &[(&str, &str)] = &[("small_file", "link"), ("tiered", "link"), ("tiered", "rename_folder")];

/// A table of a mount, and the folders it is over; `/faults/d` with what the operations find.
fn prepare_files(work: &Path, mounts: &Path, table: &str, there: Before) -> Outcome<()> {
    anew(work)?;
    stores(work, mounts, table)?;
    let layout = mounts::of_files(&[mounts.to_path_buf()])?;
    layout.make_folder("/faults/d")?;
    for name in ["kept", "other"] {
        operate(&*layout, &format!("/faults/d/{name}"), "prepare")?;
    }
    let x = "/faults/d/x";
    match there {
        Before::Nothing => {}
        Before::File => operate(&*layout, x, "prepare")?,
        Before::Marked => {
            operate(&*layout, x, "prepare")?;
            operate(&*layout, x, "xattr")?;
        }
        Before::Folder => operate(&*layout, x, "mkdir")?,
        Before::Filled => {
            operate(&*layout, x, "mkdir")?;
            operate(&*layout, &format!("{x}/in"), "prepare")?;
        }
        Before::Link => operate(&*layout, x, "symlink")?,
    }
    Ok(())
}

pub fn sweeps_file(folder: &Path, only: Option<&str>, launch: &dyn Fn(&Path) -> Launch) -> Vec<Sweep<'static>> {
    let mut sweeps = Vec::new();
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join("new"), NEW))
        .unwrap_or_else(|e| panic!("{e}"));
    for (layout, table) in LAYOUTS.iter().filter(|(name, _)| only.is_none_or(|o| o == *name)) {
        let programs = if launch(folder).is_itself() { &[] } else { ENDS };
        let lacks = |operation: &str| LACKS.contains(&(*layout, operation));
        for (operation, there) in OPERATIONS.iter().chain(programs).filter(|(operation, _)| !lacks(operation)) {
            let slug = format!("{}-{operation}", layout.replace(' ', "-"));
            let work = folder.join(&slug);
            let launch = launch(&work);
            // The system's programs set no extended attribute here, and an interpreter's start has a thousand calls of its own, which
            // would fail under preload.
            if matches!(launch, Launch::Preload { .. }) && operation.starts_with("xattr") {
                continue;
            }
            let before = folder.join(format!("{slug}-before"));
            let mounts = folder.join(format!("{slug}.toml"));
            let prepare = {
                let (work, before, mounts) = (work.clone(), before.clone(), mounts.clone());
                move || -> Outcome<()> {
                    if !before.exists() {
                        prepare_files(&work, &mounts, table, *there)?;
                        copy(&work, &before)?;
                    }
                    copy(&before, &work)
                }
            };
            let check = {
                let mounts = mounts.clone();
                let out = (!launch.is_itself()).then(|| printed(&work.with_extension("strace")));
                move |end: End| {
                    if let (End::Success, Some(out)) = (end, &out) {
                        check_printed(out, operation)?;
                    }
                    check_file(&mounts, operation, *there, end)
                }
            };
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
                calls: all_calls(),
                rare: RARE.contains(operation),
                mounts: Some(mounts),
                prepare: Box::new(prepare),
                check: Box::new(check),
            });
        }
    }
    sweeps
}

/// What a program printed that says it has succeeded.
fn check_printed(out: &Path, operation: &str) -> Outcome<()> {
    let wanted = match operation {
        "read" => OLD.to_string(),
        "list" => format!("{}\n", NAMES.join("\n")),
        "read_link" => format!("{TARGET}\n"),
        _ => return Ok(()),
    };
    let said = std::fs::read_to_string(out)?;
    if said == wanted { Ok(()) } else { Err(format!("it prints {said:?}").into()) }
}

/// `thalweg layout` and `thalweg drain` on a mount with a closed file, one that was written in two sessions, and one whose writer
/// died. Success is what the command does without a failure; after a failure nothing that was closed has changed, and the next
/// command without one does it all.
pub fn sweeps_upkeep(folder: &Path, thalweg: &str) -> Vec<Sweep<'static>> {
    let mut sweeps = Vec::new();
    const OF_CONTAINERS: &[&str] = &["check", "repair", "compact", "flatten"];
    const KINDS: [(&str, &[&str]); 4] = [
        ("container", OF_CONTAINERS),
        ("container folders", OF_CONTAINERS),
        ("small_file", &["check", "repair", "compact"]),
        ("tiered", &["drain"]),
    ];
    for (layout, commands) in KINDS {
        let table = LAYOUTS.iter().find(|(name, _)| *name == layout).map_or("", |(_, table)| *table);
        for command in commands {
            let slug = format!("{layout}-{command}").replace(' ', "-");
            let (work, before) = (folder.join(&slug), folder.join(format!("{slug}-before")));
            let (mounts, out) = (folder.join(format!("{slug}.toml")), folder.join(format!("{slug}.out")));
            let flat = work.join("flat");
            let thalweg = thalweg.to_string();
            let tiered = format!("tiered:posix:{0}/a=>posix:{0}/b", work.display());
            let words: Vec<String> = match *command {
                "drain" => [thalweg.as_str(), "drain", &tiered, "--once"].map(str::to_string).to_vec(),
                "flatten" => [thalweg.as_str(), "layout", command, "/faults/d/x", &flat.display().to_string()]
                    .map(str::to_string)
                    .to_vec(),
                // A container's alone: a folder has none.
                "compact" if layout != "small_file" => {
                    [thalweg.as_str(), "layout", command, "/faults/d/x"].map(str::to_string).to_vec()
                }
                // The whole mount, so that what no name leads to is looked for, too.
                "check" | "repair" if layout != "small_file" => {
                    [thalweg.as_str(), "layout", command, "/faults"].map(str::to_string).to_vec()
                }
                _ => [thalweg.as_str(), "layout", command, "/faults/d"].map(str::to_string).to_vec(),
            };
            let repairs = *command == "repair";
            let prepare = {
                let (work, before, mounts) = (work.clone(), before.clone(), mounts.clone());
                move || -> Outcome<()> {
                    if !before.exists() {
                        prepare_files(&work, &mounts, table, Before::File)?;
                        let layout = mounts::of_files(std::slice::from_ref(&mounts))?;
                        operate(&*layout, "/faults/d/x", "append")?;
                        if repairs {
                            operate(&*layout, "/faults/d/dead", "prepare")?;
                        }
                        drop(layout);
                        if repairs {
                            dies(&mounts, "/faults/d/dead")?;
                        }
                        copy(&work, &before)?;
                    }
                    copy(&before, &work)
                }
            };
            let check = {
                let (work, mounts, out, words) = (work.clone(), mounts.clone(), out.clone(), words.clone());
                move |end: End| -> Outcome<()> {
                    let wanted = out.with_extension("wanted");
                    let said = std::fs::read_to_string(&out)?;
                    if !wanted.exists() {
                        std::fs::write(&wanted, &said)?;
                    }
                    // The others tell how much they did: nothing of a writer whose end a store cannot tell, or in two rounds.
                    let tells = matches!(*command, "check" | "flatten");
                    if tells && end == End::Success && said != std::fs::read_to_string(&wanted)? {
                        return Err(format!("it says {said:?}").into());
                    }
                    check_upkeep(&work, &mounts, command, end == End::Success)?;
                    // A target that is there is never replaced.
                    let _ = std::fs::remove_file(work.join("flat"));
                    let again = Command::new(&words[0]).args(&words[1..]).env("THALWEG_MOUNTS", &mounts).output()?;
                    if !again.status.success() {
                        return Err(format!("the next one fails: {}", String::from_utf8_lossy(&again.stderr)).into());
                    }
                    check_upkeep(&work, &mounts, command, true).map_err(|e| format!("after the next one: {e}").into())
                }
            };
            sweeps.push(Sweep {
                name: format!("{command}, {layout}"),
                kind: format!("{command} {layout}"),
                folder: work,
                launch: Launch::Command { out },
                worker: words,
                calls: all_calls(),
                rare: true,
                mounts: Some(mounts),
                prepare: Box::new(prepare),
                check: Box::new(check),
            });
        }
    }
    sweeps
}

/// A process of its own that writes more to a file and dies.
fn dies(mounts: &Path, path: &str) -> Outcome<()> {
    let mut command = Command::new(std::env::current_exe()?);
    let ended = command.args(["file", path, "abandon"]).env("THALWEG_MOUNTS", mounts).output()?;
    match ended.status.code() {
        None => Ok(()),
        Some(code) => Err(format!("ends with {code}: {}", String::from_utf8_lossy(&ended.stderr)).into()),
    }
}

fn check_upkeep(work: &Path, mounts: &Path, command: &str, done: bool) -> Outcome<()> {
    let long = format!("{OLD}{NEW}");
    let is = |layout: &dyn Layout, at: &str| -> Outcome<()> {
        for (name, wanted) in [("kept", OLD), ("other", OLD), ("x", &long)] {
            let found = found(layout, &format!("/faults/d/{name}"))?;
            if found != Found::Text(wanted.to_string()) {
                return Err(format!("{name}{at} has {found:?}").into());
            }
        }
        Ok(())
    };
    let layout = mounts::of_files(&[mounts.to_path_buf()])?;
    is(&*layout, "")?;
    if command == "repair" {
        match found(&*layout, "/faults/d/dead")? {
            Found::Text(text) if text == OLD || text == long => {}
            other => return Err(format!("dead has {other:?}").into()),
        }
    }
    if command == "flatten" && done && std::fs::read_to_string(work.join("flat"))? != long {
        return Err("the flat file is not the file".into());
    }
    if command == "drain" && done {
        let slow = work.with_extension("slow.toml");
        let table = "[[mount]]\npath = \"/faults\"\nlayout = \"container\"\nstore = \"posix:@/b\"\n";
        std::fs::write(&slow, table.replace('@', &work.display().to_string()))?;
        is(&*mounts::of_files(&[slow])?, " in the slow store")?;
    }
    Ok(())
}

/// What lies at a name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    Nothing,
    Text(String),
    /// Its names, sorted.
    Folder(Vec<String>),
    Link(String),
}

fn found(layout: &dyn Layout, path: &str) -> Outcome<Found> {
    let about = match layout.attributes(path) {
        Ok(about) => about,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(e) => return Err(format!("{path} cannot be looked at: {e}").into()),
    };
    Ok(match about.kind {
        Kind::Folder => {
            let mut names = layout.list(path).map_err(|e| format!("{path} cannot be listed: {e}"))?;
            names.sort();
            Found::Folder(names)
        }
        Kind::Link => Found::Link(layout.read_link(path)?),
        Kind::File => {
            let object = layout.open_read(path).map_err(|e| format!("{path} cannot be opened: {e}"))?;
            let mut bytes = vec![0; object.length()? as usize];
            object.read_exact_at(0, &mut bytes).map_err(|e| format!("{path} cannot be read: {e}"))?;
            Found::Text(String::from_utf8_lossy(&bytes).into_owned())
        }
    })
}

fn check_file(mounts: &Path, operation: &str, there: Before, end: End) -> Outcome<()> {
    // A new table: another process, as far as layouts know.
    let layout = mounts::of_files(&[mounts.to_path_buf()])?;
    let layout = &*layout;
    for name in ["kept", "other"] {
        if found(layout, &format!("/faults/d/{name}"))? != Found::Text(OLD.into()) {
            return Err(format!("{name}, which nobody touched, is not as it was").into());
        }
    }
    let x = "/faults/d/x";
    let is = found(layout, x)?;
    let before = match there {
        Before::Nothing => Found::Nothing,
        Before::File | Before::Marked => Found::Text(OLD.into()),
        Before::Folder => Found::Folder(Vec::new()),
        Before::Filled => Found::Folder(vec!["in".into()]),
        Before::Link => Found::Link(TARGET.into()),
    };
    let after = match operation {
        "create" | "replace" => Found::Text(NEW.into()),
        "append" | "exec" | "leave" => Found::Text(format!("{OLD}{NEW}")),
        "rename" | "remove" | "rmdir" | "rename_folder" => Found::Nothing,
        "truncate" => Found::Text(OLD[..11].into()),
        "mkdir" => Found::Folder(Vec::new()),
        "symlink" => Found::Link(TARGET.into()),
        _ => before.clone(),
    };
    // A file is emptied, or made, before bytes are written to it.
    let between =
        is == before || is == after || (matches!(operation, "create" | "replace") && is == Found::Text(String::new()));
    if (end == End::Success && is != after) || !between {
        return Err(format!("it has {is:?}, before {before:?}, wanted {after:?}").into());
    }
    let others = check_others(layout, x, operation, (&before, &is), end == End::Success)?;
    // The names are usable: what is there can be written, read, and removed.
    match &before {
        Found::Folder(_) => {}
        _ if operation == "mkdir" || operation == "symlink" => {}
        Found::Link(_) => {}
        _ => {
            let object =
                layout.open_write(x, OpenWrite::Any, WriterId(2)).map_err(|e| format!("cannot be opened: {e}"))?;
            write_all_at(&*object, 0, b"AGAIN")?;
            object.close()?;
            if !matches!(found(layout, x)?, Found::Text(text) if text.starts_with("AGAIN")) {
                return Err("what was written afterwards is not there".into());
            }
        }
    }
    let made = match operation {
        "mkdir" | "rmdir" if is == Found::Nothing => layout.make_one_folder(x, 0o755),
        "symlink" if is == Found::Nothing => layout.make_link(TARGET, x),
        _ => Ok(()),
    };
    made.map_err(|e| format!("it cannot be made afterwards: {e}"))?;
    for name in [x].into_iter().map(str::to_string).chain(others) {
        if let Found::Folder(names) = found(layout, &name)? {
            for inside in names {
                layout.remove(&format!("{name}/{inside}"))?;
            }
        } else if found(layout, &name)? == Found::Nothing {
            continue;
        }
        layout.remove(&name).map_err(|e| format!("{name} cannot be removed afterwards: {e}"))?;
    }
    match found(layout, "/faults/d")? {
        Found::Folder(names) if names == NAMES[..2] => Ok(()),
        other => Err(format!("afterwards the folder has {other:?}").into()),
    }
}

/// What an operation changes beside the file itself; the names that it gives. `states`: what lay at the name, and what lies there now.
fn check_others(
    layout: &dyn Layout,
    x: &str,
    operation: &str,
    states: (&Found, &Found),
    success: bool,
) -> Outcome<Vec<String>> {
    let (before, is) = states;
    match operation {
        "rename" | "rename_folder" => {
            let name = format!("{x}.renamed");
            let renamed = found(layout, &name)?;
            // One of both names.
            if (renamed == *before) == (is == before) || (renamed != *before && renamed != Found::Nothing) {
                return Err(format!("old name {is:?}, new name {renamed:?}").into());
            }
            if operation == "rename_folder" {
                let folder = if renamed == *before { &name } else { x };
                let inside = found(layout, &format!("{folder}/in"))?;
                if inside != Found::Text(OLD.into()) {
                    return Err(format!("the file in the folder has {inside:?}").into());
                }
            }
            Ok(vec![name])
        }
        "link" => {
            let name = linked(x);
            let second = found(layout, &name)?;
            if second != *before && (success || second != Found::Nothing) {
                return Err(format!("the hard link has {second:?}").into());
            }
            Ok(vec![name])
        }
        "chmod" if success && layout.attributes(x)?.mode & 0o777 != 0o600 => Err("the mode is another".into()),
        "utimes" if success && layout.attributes(x)?.mtime != SystemTime::UNIX_EPOCH + Duration::from_secs(WRITTEN) => {
            Err("the time is another".into())
        }
        "xattr" | "xattr_remove" => {
            let value = layout.xattr_get(x, KEY)?;
            let (old, new) = if operation == "xattr" { (None, Some(VALUE)) } else { (Some(VALUE), None) };
            let value = value.as_deref();
            if value != new && (success || value != old) {
                return Err(format!("the extended attribute is {value:?}").into());
            }
            layout.xattr_set(x, KEY, VALUE, SetXattr::Any)?;
            if layout.xattr_list(x)? != [KEY] {
                return Err("the extended attribute is not listed".into());
            }
            Ok(Vec::new())
        }
        _ => Ok(Vec::new()),
    }
}
