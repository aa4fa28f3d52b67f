//! `thalweg tune`: measures methods and parameters on the storage of this machine, with a group's real sizes.

use crate::arguments::Tune;
use crate::outcome::{Failure, Outcome};
use crate::progress::Progress;
use crate::terminal::{HEADING, Terminal, plain};
use crate::tune::load::Load;
use crate::tune::measure::{self, OUTPUTS};
use crate::tune::search::{Candidate, Entry, Fate, Search, Verdict};
use crate::tune::variants;
use serde_json::{Value as Json, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use thalweg_io::registry;
use thalweg_schema::{Group, MethodChoice, Schema, xml};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind};

pub fn run(arguments: &Tune, out: &mut Terminal) -> Result<Outcome, Failure> {
    alone()?;
    let Some(schema) = read(&arguments.config)? else { return Ok(Outcome::No) };
    let group = chosen(&schema, arguments.group.as_deref())?;
    let load = Load::of(group, schema.host_language, &arguments.define).map_err(Failure::Usage)?;
    let used = schema.methods.iter().find(|m| m.group == group.name && writes(m));
    let folder = match (&arguments.folder, used.map(|m| m.base_path.as_str())) {
        (Some(folder), _) => folder.clone(),
        (None, Some("") | None) => PathBuf::from("."),
        (None, Some(base)) => PathBuf::from(base),
    };
    let ranks = arguments.ranks.unwrap_or_else(usual_ranks);
    let alone = Schema { groups: vec![group.clone()], methods: Vec::new(), ..schema.clone() };
    let setting = Setting { group, load: &load, used, folder, ranks, schema: &alone };
    let race = setting.race(arguments.budget)?;
    report(&setting, race, arguments, out)
}

fn writes(choice: &MethodChoice) -> bool {
    registry::find(&choice.method).is_some_and(registry::stores)
}

/// Number of processors, at least a few: methods differ only with several ranks.
fn usual_ranks() -> u32 {
    std::thread::available_parallelism().map_or(4, |n| n.get() as u32).clamp(4, 64)
}

/// Refuses to run under mpiexec: ranks are threads here, and each process would measure separately and disturb the others.
fn alone() -> Result<(), Failure> {
    let many = |key: &&&str| std::env::var(key).ok().and_then(|v| v.parse::<u32>().ok()).is_some_and(|n| n > 1);
    match ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"].iter().find(many) {
        None => Ok(()),
        Some(key) => Err(Failure::Usage(format!(
            "tune runs ranks as threads of one process: start it without mpiexec, with --ranks ({key} is set)"
        ))),
    }
}

/// The schema; `None` if it has errors, which are printed.
fn read(config: &Path) -> Result<Option<Schema>, Failure> {
    let shown = config.display().to_string();
    let bytes = std::fs::read(config).map_err(|e| Error::io(format!("cannot read '{shown}'"), e))?;
    let (schema, mut report) = match xml::decode(&bytes, &shown) {
        Ok(text) => xml::parse_with_warnings(&text, &shown),
        Err(report) => (None, report),
    };
    if let Some(schema) = &schema {
        registry::lint(schema, &mut report);
    }
    if report.errors() > 0 || schema.is_none() {
        eprint!("{}", report.render(false));
        return Ok(None);
    }
    Ok(schema)
}

fn chosen<'s>(schema: &'s Schema, name: Option<&str>) -> Result<&'s Group, Failure> {
    let names: Vec<&str> = schema.groups.iter().map(|g| g.name.as_str()).collect();
    match (name, schema.groups.as_slice()) {
        (Some(name), groups) => groups.iter().find(|g| g.name == name).ok_or_else(|| {
            let hint = thalweg_params::nearest(name, names.iter().copied())
                .map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
            Failure::Absent(format!("no group \"{name}\" is described{hint}"))
        }),
        (None, [one]) => Ok(one),
        (None, []) => Err(Failure::Absent("no group is described".into())),
        (None, _) => Err(Failure::Usage(format!("which group? --group {}", names.join(", --group ")))),
    }
}

/// Group, folder and number of ranks of a measurement.
struct Setting<'s> {
    group: &'s Group,
    load: &'s Load,
    used: Option<&'s MethodChoice>,
    folder: PathBuf,
    ranks: u32,
    schema: &'s Schema,
}

/// The result of a comparison of methods.
struct Race {
    search: Search,
    verdict: Option<Verdict>,
    runs: usize,
    seconds: f64,
    used_is_first: bool,
}

impl Setting<'_> {
    fn race(&self, budget: Duration) -> Result<Race, Failure> {
        let scratch = Scratch::new(&self.folder)?;
        let first = variants::first(self.used);
        let used_is_first = self.used.is_some();
        let mut search = Search::new(first, variants::of, self.ranks);
        let began = Instant::now();
        let mut progress = Progress::share("measuring");
        let (mut runs, mut failure) = (0, None);
        while !scratch.is_interrupted()
            && let Some(next) = search.next(budget.saturating_sub(began.elapsed()).as_secs_f64())
        {
            let choice = variants::choice(&self.group.name, &search.entries()[next].candidate);
            let run = scratch.run(|folder| measure::run(self.schema, &choice, self.load, self.ranks, folder));
            match run {
                Ok(seconds) => search.ran(next, seconds),
                Err(e) => {
                    search.failed(next, plain(&e.to_string()).chars().take(200).collect());
                    failure = Some(e);
                }
            }
            runs += 1;
            progress.at(began.elapsed().min(budget).as_millis() as u64, budget.as_millis() as u64);
        }
        drop(progress);
        scratch.remove()?;
        let verdict = search.verdict();
        match (&verdict, failure) {
            // Where nothing works at all, the storage is to blame, not a method.
            (None, Some(e)) => Err(Failure::File(e)),
            (None, None) => Err(Failure::Usage("the budget is too small for a single run".into())),
            _ => Ok(Race { search, verdict, runs, seconds: began.elapsed().as_secs_f64(), used_is_first }),
        }
    }

    /// Bytes of values of an output, all ranks.
    fn bytes(&self) -> u64 {
        self.load.bytes().saturating_mul(u64::from(self.ranks))
    }
}

/// A temporary folder in the measured one; removed when this is dropped, and when the command is interrupted.
struct Scratch {
    folder: Arc<Mutex<Option<TempDir>>>,
    interrupted: Arc<AtomicBool>,
}

/// How long an interrupted run may take to end before its folder is removed.
const PATIENCE: Duration = Duration::from_secs(2);

impl Scratch {
    fn new(inside: &Path) -> Result<Scratch, Failure> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let cannot = || format!("cannot write in '{}'", inside.display());
        let made = tempfile::Builder::new().prefix(".thalweg-tune-").tempdir_in(inside);
        let made = made.map_err(|e| Error::io(cannot(), e))?;
        let path = made.path().to_path_buf();
        let scratch = Scratch { folder: Arc::new(Mutex::new(Some(made))), interrupted: Arc::default() };
        let signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]);
        let mut signals = signals.map_err(|e| Error::io("cannot listen for signals", e))?;
        let (folder, interrupted) = (scratch.folder.clone(), scratch.interrupted.clone());
        std::thread::spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            interrupted.store(true, Ordering::SeqCst);
            let until = Instant::now() + PATIENCE;
            while path.exists() && Instant::now() < until {
                if let Some(mut folder) = folder.try_lock() {
                    drop(folder.take());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            // A run that takes long may go on making files for a moment.
            for _ in 0..20 {
                let _ = std::fs::remove_dir_all(&path);
                if !path.exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            std::process::exit(128 + signal);
        });
        Ok(scratch)
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// Runs in an empty folder, which is emptied again.
    fn run<T>(&self, run: impl FnOnce(&Path) -> thalweg_types::Result<T>) -> thalweg_types::Result<T> {
        let folder = self.folder.lock();
        let gone = || Error::new(ErrorKind::Io, "interrupted");
        let path = folder.as_ref().ok_or_else(gone)?.path().join("run");
        std::fs::create_dir(&path).map_err(|e| Error::io("cannot make a folder", e))?;
        let outcome = run(&path);
        std::fs::remove_dir_all(&path).map_err(|e| Error::io("cannot remove the files of a run", e))?;
        outcome
    }

    fn remove(&self) -> Result<(), Failure> {
        let folder = self.folder.lock().take();
        folder.map_or(Ok(()), |folder| folder.close().map_err(|e| Error::io("cannot remove the files of a run", e)))?;
        if self.is_interrupted() {
            // The other thread ends the program.
            std::thread::sleep(2 * PATIENCE);
        }
        Ok(())
    }
}

fn words(candidate: &Candidate) -> String {
    let text = candidate.parameter_text();
    if text.is_empty() { candidate.method.clone() } else { format!("{} {text}", candidate.method) }
}

/// The line for the XML; other parameters of the group's method are kept.
fn line(setting: &Setting<'_>, candidate: &Candidate) -> String {
    use thalweg_schema::escape::escaped as escape;
    let base = match setting.used.map(|m| m.base_path.as_str()) {
        Some("") | None => String::new(),
        Some(base) => format!(" base-path=\"{}\"", escape(base)),
    };
    let head =
        format!("<method group=\"{}\" method=\"{}\"{base}", escape(&setting.group.name), escape(&candidate.method));
    match candidate.parameter_text().as_str() {
        "" => format!("{head}/>"),
        text => format!("{head}>{}</method>", escape(text)),
    }
}

fn megabytes_per_second(setting: &Setting<'_>, seconds: f64) -> f64 {
    setting.bytes() as f64 / 1e6 / seconds.max(1e-9)
}

/// The reason for the choice, in a sentence or two.
fn reason(race: &Race, verdict: &Verdict) -> String {
    let entries = race.search.entries();
    let name = |i: usize| words(&entries[i].candidate);
    let median = |i: usize| entries[i].summary().map_or(f64::INFINITY, |t| t.median);
    let runs = |i: usize| entries[i].times.len();
    let mut said = Vec::new();
    let mut others: Vec<String> = verdict.alike.iter().take(3).map(|i| name(*i)).collect();
    if let more @ 1.. = verdict.alike.len().saturating_sub(3) {
        others.push(format!("{more} more"));
    }
    if verdict.few {
        said.push(format!(
            "Too few runs to distinguish a difference from noise: {} has {}. Increase --budget.",
            name(verdict.choice),
            runs(verdict.choice)
        ));
    } else if others.is_empty() {
        let next = (0..entries.len()).filter(|i| *i != verdict.choice && runs(*i) > 0);
        if let Some(next) = next.min_by(|a, b| median(*a).total_cmp(&median(*b))) {
            let times = median(next) / median(verdict.choice);
            said.push(format!("{} is fastest, {times:.2} times as fast as {}.", name(verdict.choice), name(next)));
        }
    } else {
        let stays = if race.used_is_first && verdict.choice == 0 {
            "it is in use and stays"
        } else {
            "it needs the fewest words"
        };
        said.push(format!(
            "No difference beyond the noise between {chosen} and {}; {chosen} is taken, as {stays}.",
            others.join(", "),
            chosen = name(verdict.choice)
        ));
    }
    if race.used_is_first && verdict.choice != 0 && runs(0) > 0 && !verdict.alike.contains(&0) && !verdict.few {
        let times = median(0) / median(verdict.choice);
        said.push(format!("In use is {}: {times:.2} times as long.", name(0)));
    }
    said.join("\n")
}

fn report(setting: &Setting<'_>, race: Race, arguments: &Tune, out: &mut Terminal) -> Result<Outcome, Failure> {
    let entries = race.search.entries();
    let Some(verdict) = &race.verdict else { return Ok(Outcome::No) };
    let line = line(setting, &entries[verdict.choice].candidate);
    let reason = reason(&race, verdict);
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    let key = |e: &Entry| e.summary().map_or(f64::INFINITY, |t| t.median);
    sorted.sort_by(|a, b| key(a).total_cmp(&key(b)));
    if arguments.json {
        let document = json!({
            "group": setting.group.name, "ranks": setting.ranks, "folder": setting.folder.display().to_string(),
            "bytes_per_output": setting.bytes(), "outputs_per_run": OUTPUTS, "runs": race.runs, "seconds": race.seconds,
            "tried": sorted.iter().map(|e| of_entry(setting, e)).collect::<Vec<_>>(),
            "line": line, "reason": reason, "beyond_noise": verdict.alike.is_empty() && !verdict.few,
        });
        serde_json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)?;
        return Ok(Outcome::Done);
    }
    writeln!(
        out,
        "{}: {} ranks as threads, {:.3} MB a rank, {:.3} MB an output; in {}; {} runs in {:.1} s",
        plain(&setting.group.name),
        setting.ranks,
        setting.load.bytes() as f64 / 1e6,
        setting.bytes() as f64 / 1e6,
        plain(&setting.folder.display().to_string()),
        race.runs,
        race.seconds
    )?;
    let width = sorted.iter().map(|e| words(&e.candidate).chars().count()).max().unwrap_or(0).max(6);
    out.styled(
        HEADING,
        &format!("{:<width$}  {:>9}  {:>9}  {:>9}  {:>4}", "method", "median s", "spread s", "MB/s", "runs"),
    )?;
    writeln!(out)?;
    for entry in sorted {
        let name = words(&entry.candidate);
        let end = match &entry.fate {
            Fate::Racing => String::new(),
            Fate::LeftBehind => "  left behind".into(),
            Fate::Failed(why) => format!("  failed: {why}"),
        };
        match entry.summary() {
            Some(t) => writeln!(
                out,
                "{name:<width$}  {:>9.5}  {:>9.5}  {:>9.1}  {:>4}{end}",
                t.median,
                t.upper - t.lower,
                megabytes_per_second(setting, t.median),
                entry.times.len()
            )?,
            None => writeln!(out, "{name:<width$}  {:>9}  {:>9}  {:>9}  {:>4}{end}", "-", "-", "-", 0)?,
        }
    }
    writeln!(out, "\n{reason}\n\n{line}")?;
    Ok(Outcome::Done)
}

fn of_entry(setting: &Setting<'_>, entry: &Entry) -> Json {
    let times = entry.summary();
    json!({
        "method": entry.candidate.method,
        "parameters": entry.candidate.parameter_text(),
        "median_seconds": times.map(|t| t.median),
        "quartiles_seconds": times.map(|t| [t.lower, t.upper]),
        "bytes_per_second": times.map(|t| setting.bytes() as f64 / t.median.max(1e-9)),
        "runs": entry.times.len(),
        "left_behind": entry.fate == Fate::LeftBehind,
        "failed": match &entry.fate { Fate::Failed(why) => Some(why), _ => None },
    })
}

/// `nx=100`.
pub fn define(text: &str) -> Result<(String, i64), String> {
    let (name, value) = text.split_once('=').ok_or("is not as in nx=100")?;
    let value = value.trim().parse().map_err(|_| format!("'{}' is no whole number", value.trim()))?;
    match name.trim() {
        "" => Err("is not as in nx=100".into()),
        name => Ok((name.to_string(), value)),
    }
}
