//! Sweeps over outputs: BP files by every method, in a folder, on layouts and through FUSE; commands that read one.

use crate::Outcome;
use crate::calls::{READS, all_calls};
use crate::files::LAYOUTS;
use crate::judge::{Choice, Sweep, anew, copy};
use crate::launch::{End, Launch};
use crate::worker::{How, row, write_bp};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use thalweg_io::mounts;
use thalweg_io::registry;
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{FindingKind, Reader, verify};
use thalweg_store::Posix;
use thalweg_types::Selection;

/// Parameters with which methods are swept.
fn parameters(method: &str) -> &'static [&'static str] {
    match method {
        "MPI_AGGREGATE" => &["pattern=simple;aggregators=1", "pattern=brigade"],
        "MPI_SCHEDULED" | "ADAPTIVE" => &["num_files=2"],
        "ASYNC" => &["async=no;owners=2;stripe=256", "async=no;subfiles=2;stripe=256"],
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

    fn write(&self, method: &str, parameters: &str, ranks: u32, steps: Range<u64>) -> Outcome<()> {
        let (layout, path) = self.layout()?;
        for outcome in write_bp(Some(&layout), &path, method, parameters, ranks, How::Steps, steps) {
            outcome?;
        }
        Ok(())
    }
}

/// Empty stores, and the table of a mount over them.
pub fn stores(work: &Path, mounts: &Path, table: &str) -> Outcome<()> {
    std::fs::create_dir(work.join("a"))?;
    std::fs::create_dir(work.join("b"))?;
    let text = format!("[[mount]]\npath = \"/faults\"\n{table}");
    Ok(std::fs::write(mounts, text.replace('@', &work.display().to_string()))?)
}

/// The names of the methods that write files.
pub fn methods() -> impl Iterator<Item = &'static str> {
    registry::that_write_by_themselves().map(|kind| kind.names[0])
}

/// One output by a method.
#[derive(Clone, Copy)]
struct Written {
    method: &'static str,
    parameters: &'static str,
    ranks: u32,
    /// Steps that are there before.
    first: u64,
    how: How,
    /// Number of steps that the worker writes.
    count: u64,
}

impl Written {
    /// A step after `first` others.
    fn new(method: &'static str, parameters: &'static str, ranks: u32, first: u64) -> Written {
        Written { method, parameters, ranks, first, how: How::Steps, count: 1 }
    }

    /// The steps that the worker writes.
    fn steps(&self) -> Range<u64> {
        let from = match self.how {
            How::Steps | How::Large => self.first,
            How::Update => self.first - 1,
            How::Restart => 1,
        };
        from..from + self.count
    }

    fn what(&self) -> &'static str {
        match (self.how, self.count) {
            (How::Large, _) => "large blocks",
            (How::Steps, 1) if self.first == 0 => "new file",
            (How::Steps, 1) => "append",
            (How::Steps, _) => "two appends",
            (How::Update, _) => "update",
            (How::Restart, _) => "restart",
        }
    }
}

/// On a plain folder: a new file and an appended step each; where blocks are written in turns, two of them; an append by the process that
/// wrote before, an update and a restart as rare ones.
pub fn sweeps_bp(folder: &Path, ranks: u32, only: Option<&str>) -> Vec<Sweep<'static>> {
    let mut sweeps = Vec::new();
    for method in methods().filter(|m| only.is_none_or(|o| o == *m)) {
        for parameters in parameters(method) {
            for first in [0, 2] {
                let written = Written::new(method, parameters, ranks, first);
                sweeps.push(sweep_bp(folder, written, None, Launch::Itself));
            }
            let large = matches!(method, "MPI" | "POSIX") && parameters.is_empty();
            let rare = [(How::Steps, 2, 2), (How::Update, 2, 1), (How::Restart, 3, 1)];
            for (how, first, count) in rare.into_iter().chain(large.then_some((How::Large, 0, 2))) {
                let written = Written { how, count, ..Written::new(method, parameters, ranks, first) };
                let sweep = sweep_bp(folder, written, None, Launch::Itself);
                sweeps.push(Sweep { rare: how != How::Large, ..sweep });
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
            let runs = ranks.iter().flat_map(|ranks| [(*ranks, 0), (*ranks, 2)]);
            for (w, (ranks, first)) in runs.enumerate() {
                if !thin || w == (k + l) % (2 * number) {
                    let written = Written::new(method, parameters, ranks, first);
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
            let written = Written::new(method, "", 2, first);
            let launch = launch(&folder.join(written.slug(Some(over.0))));
            sweeps.push(sweep_bp(folder, written, Some(over), launch));
        }
    }
    sweeps
}

impl Written {
    fn slug(&self, over: Option<&str>) -> String {
        let Written { method, parameters, ranks, first, .. } = self;
        let over = over.map_or(String::new(), |over| format!("-{over}"));
        format!("{method}-{parameters}-{}-{first}-{ranks}{over}", self.what()).replace(['=', ';', ' '], "-")
    }
}

/// - `over`: one of `LAYOUTS`, below the files; a plain folder where `None`.
fn sweep_bp(
    folder: &Path,
    written: Written,
    over: Option<&(&'static str, &'static str)>,
    launch: Launch,
) -> Sweep<'static> {
    let Written { method, parameters, ranks, first, how, count } = written;
    let slug = written.slug(over.map(|(name, _)| *name));
    let (work, before) = (folder.join(&slug), folder.join(format!("{slug}-before")));
    let mounts = over.map(|_| folder.join(format!("{slug}.toml")));
    let place = Place { work: work.clone(), mounts: mounts.clone() };
    let numbers = [ranks.to_string(), written.steps().start.to_string(), count.to_string()];
    let worker = ["bp", &place.path(), method, parameters, &numbers[0], how.name(), &numbers[1], &numbers[2]];
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
    let check = move |end: End| check_bp(&place, written, end);
    let on = over.map_or(String::new(), |(over, _)| format!(" on {over}"));
    Sweep {
        name: format!("{method} {parameters}{on}, {ranks} ranks, {}", written.what()),
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

/// As [`check_bp`], of a step that another program wrote after `first` others.
pub fn check_steps(place: &Place, method: &str, parameters: &str, ranks: u32, first: u64, end: End) -> Outcome<()> {
    let method = methods().find(|name| *name == method).ok_or("no such method")?;
    check(place, Written::new(method, "", ranks, first), parameters, end)
}

/// All steps before those that the worker wrote are there; its own are where it says so; one more goes on.
fn check_bp(place: &Place, written: Written, end: End) -> Outcome<()> {
    check(place, written, written.parameters, end)
}

fn check(place: &Place, written: Written, parameters: &str, end: End) -> Outcome<()> {
    let Written { method, ranks, how, .. } = written;
    let Range { start: first, end: after } = written.steps();
    let (layout, path) = place.layout()?;
    let steps = match Reader::open(layout.clone(), &path) {
        Ok(reader) => reads(&reader, ranks, first, how)?,
        Err(e) if first == 0 && end != End::Success => {
            // Nothing was closed; what is left must not stop a new file.
            let _ = e;
            0
        }
        Err(e) => return Err(format!("the file cannot be opened: {e}").into()),
    };
    if steps < first || (end == End::Success && steps != after) {
        return Err(format!("{steps} steps are there").into());
    }
    place.write(method, parameters, ranks, steps..steps + 1).map_err(|e| format!("the next output fails: {e}"))?;
    let (layout, path) = place.layout()?;
    let reader = Reader::open(layout.clone(), &path)?;
    if reads(&reader, ranks, first, how)? != steps + 1 {
        return Err(format!("the next output leaves {} steps", reader.status().steps).into());
    }
    let partial = !reader.status().partial.is_empty();
    let report = verify(&*layout, &path)?;
    let known = |kind| match kind {
        FindingKind::Gap | FindingKind::Partial => partial || !matches!(how, How::Steps | How::Large),
        // An update writes the same blocks again; one that failed may leave groups in subfiles that no index lists.
        FindingKind::Overlap | FindingKind::IndexDiffers => how == How::Update,
        _ => false,
    };
    match report.findings.iter().find(|f| !known(f.kind)) {
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

pub fn same(wanted: &Path, is: &Path) -> Outcome<()> {
    let differs = Command::new("diff").arg("-rq").arg(wanted).arg(is).output()?;
    match differs.status.success() {
        true => Ok(()),
        false => Err(format!("the files differ: {}", String::from_utf8_lossy(&differs.stdout)).into()),
    }
}

/// Compares every value. Steps before `whole` must have all ranks, and those that are not marked partial. Returns the number of steps.
///
/// - `how`: an update adds blocks to a step.
fn reads(reader: &Reader, ranks: u32, whole: u64, how: How) -> Outcome<u64> {
    let steps = reader.status().steps;
    for step in 0..steps {
        let partial: Vec<u32> = reader.status().partial.iter().filter(|p| p.step == step).map(|p| p.rank).collect();
        let blocks = reader.blocks("t", step).map_err(|e| format!("step {step}: {e}"))?;
        let few = ranks as usize - partial.len();
        let many = if how == How::Update { few + ranks as usize } else { few };
        if !(few..=many).contains(&blocks.len()) || (step < whole && !partial.is_empty()) {
            return Err(format!("step {step} has {} blocks, lost ranks {partial:?}", blocks.len()).into());
        }
        for block in blocks {
            let values: Vec<f64> = reader.read_as("t", step, &Selection::Block(block.number))?;
            // The next output after a large one is a small one.
            let lengths = [how.values(), How::Steps.values()];
            if !lengths.contains(&values.len()) || values != row(block.offset[0] as u32, step, values.len()) {
                return Err(format!("step {step}, block {} has other values", block.number).into());
            }
        }
    }
    Ok(steps)
}
