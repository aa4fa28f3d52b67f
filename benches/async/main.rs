//! Bench: outputs in flight (`async=yes`). How long a program is blocked by an output, its whole run, and the processor time of both,
//! beside a copy of the same bytes in memory, plain writes, our own synchronous outputs, and BP5 of adios2.
//!
//! Two programs (`work.h`) on one rank, which leaves a core free, and on as many ranks as there are cores. The same on a store of
//! limited rate, where a synchronous output takes longest.

use std::path::Path;
use std::process::{Command, ExitCode};
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, environment, folder, on_ranks};
use thalweg_benches::memory;
use thalweg_benches::options::Options;
use thalweg_benches::report::{Report, Table, number};

/// A program, and its steps before each output.
struct Load {
    name: &'static str,
    shown: &'static str,
    steps: u32,
}

const LOADS: [Load; 2] = [
    Load { name: "gray-scott", shown: "two fields", steps: 32 },
    Load { name: "atoms", shown: "positions of atoms", steps: 3 },
];
/// MiB of the limited store per second.
const RATE: u32 = 50;
/// How much longer a program computes between two outputs to the limited store, to which an output of it takes that long.
const LONGER: u32 = 4;
const LIMITED_OUTPUTS: u32 = 4;

/// A contender: how it is called here and shown, MPI's thread level, method, parameters.
type Contender = (&'static str, &'static str, &'static str, &'static str, &'static str);

const REFERENCES: [Contender; 3] = [
    ("null", "method NULL", "multiple", "NULL", ""),
    ("copy", "copy in memory", "multiple", "copy", ""),
    ("pwrite", "pwrite, a file each", "multiple", "pwrite", ""),
];
const OURS: [Contender; 11] = [
    ("MPI", "MPI", "multiple", "MPI", ""),
    ("MPI-multiple", "MPI, async, THREAD_MULTIPLE", "multiple", "MPI", "async=yes"),
    ("MPI-single", "MPI, async, THREAD_SINGLE", "single", "MPI", "async=yes"),
    ("MPI-lent", "MPI, async, memory lent", "multiple", "MPI", "async=yes"),
    ("POSIX", "POSIX", "multiple", "POSIX", ""),
    ("POSIX-lent", "POSIX, async, memory lent", "multiple", "POSIX", "async=yes"),
    ("POSIX-multiple", "POSIX, async, THREAD_MULTIPLE", "multiple", "POSIX", "async=yes"),
    ("POSIX-single", "POSIX, async, THREAD_SINGLE", "single", "POSIX", "async=yes"),
    ("ASYNC", "ASYNC, async=no", "multiple", "ASYNC", "async=no"),
    ("ASYNC-multiple", "ASYNC, THREAD_MULTIPLE", "multiple", "ASYNC", "async=yes"),
    ("ASYNC-single", "ASYNC, THREAD_SINGLE", "single", "ASYNC", "async=yes"),
];
/// How the names of those end that lend their arrays to the output, of which they have three in turns.
const LENT: &str = "-lent";

/// Ranks of the curve by owners, which all compute.
const CURVE_RANKS: u32 = 4;
/// Its points: name, how it is shown, parameters of method ASYNC.
const CURVE: [(&str, &str, &str); 6] = [
    ("owners-1", "1 owner, one file", "owners=1"),
    ("owners-2", "2 owners, one file", "owners=2"),
    ("owners-4", "4 owners, one file", "owners=4"),
    ("subfiles-2", "2 subfiles, an owner each", "subfiles=2;owners=1"),
    ("subfiles-4", "4 subfiles, an owner each", "subfiles=4;owners=1"),
    ("curve-MPI", "(method MPI, all ranks write)", ""),
];

/// Whether a contender is for a program: that of atoms changes its positions in place.
fn suits(load: &Load, contender: &Contender) -> bool {
    load.name == "gray-scott" || !contender.0.ends_with(LENT)
}

/// BP5, on one rank: its name here, how it is shown, what `contender.py` is told. Not AsyncWrite=Guided: the wheel does not offer the
/// calls that tell it when the program computes.
const BP5: [(&str, &str, &str); 3] = [
    ("bp5-none", "(Python without output)", "none"),
    ("bp5", "adios2 BP5", "Off"),
    ("bp5-naive", "adios2 BP5, AsyncWrite=Naive", "Naive"),
];

fn main() -> Result<ExitCode, Failure> {
    let options = Options::from_arguments()?;
    let folder = folder("async")?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let (mib, outputs, rounds) = options.size((32, 6, 3), (2, 3, 1));
    let ranks: Vec<u32> = if cores > 1 { vec![1, cores] } else { vec![1] };
    let python = environment("PYTHON").ok().filter(|python| {
        let has = Command::new(python).args(["-c", "import adios2.bindings"]).output();
        has.is_ok_and(|output| output.status.success())
    });

    let place = format!("{folder}/files");
    let slow = format!("{folder}/slow.toml");
    let mount = format!(
        "[[mount]]\npath = \"{place}\"\nlayout = \"direct\"\nstore = \"posix:{place}\"\nrate = \"{RATE}MiB\"\n"
    );
    std::fs::write(&slow, mount)?;

    let mut all = Measurements::default();
    let limits = (0..rounds).map(|round| (round, false)).chain([(0, true)]);
    for (round, limited) in limits {
        for (load, ranks) in LOADS.iter().flat_map(|load| ranks.iter().map(move |ranks| (load, *ranks))) {
            let mut runs: Vec<(String, Command)> = Vec::new();
            let (steps, outputs) = if limited { (LONGER * load.steps, LIMITED_OUTPUTS) } else { (load.steps, outputs) };
            let numbers = [mib, outputs, steps].map(|n| n.to_string());
            let references = &REFERENCES[..if limited { 2 } else { 3 }];
            for (name, _, level, method, parameters) in references.iter().chain(&OURS).filter(|c| suits(load, c)) {
                let key = key(load, ranks, name, limited);
                let mut command = on_ranks(ranks, &format!("{folder}/load"))?;
                command.args([&place, &key, load.name]).args(&numbers).args([level, method, parameters]);
                command.env("THALWEG_MOUNTS", if limited { &slow } else { "" });
                if name.ends_with(LENT) {
                    command.arg("lend");
                }
                if round == 0 {
                    command.env("CHECK", "1");
                }
                runs.push((key, command));
            }
            if let (1, false, Some(python)) = (ranks, limited, &python) {
                for (name, _, engine) in BP5 {
                    let key = key(load, ranks, name, limited);
                    let mut command = Command::new(python);
                    command.args(["benches/async/contender.py", &place, &key, load.name]).args(&numbers).arg(engine);
                    runs.push((key, command));
                }
            }
            let count = runs.len();
            for i in 0..count {
                // Another one is the first in each round.
                let (key, command) = &mut runs[(i + 5 * round) % count];
                if Path::new(&place).exists() {
                    std::fs::remove_dir_all(&place)?;
                }
                std::fs::create_dir_all(&place)?;
                memory::warm(&folder, options.size(u64::from(mib * outputs * ranks * 3), 1))?;
                all.run(command.env("BENCH_FOLDER", &folder)).map_err(|e| format!("{key}: {e}"))?;
            }
        }
    }
    let curve = (0..rounds).flat_map(|round| [(round, false), (round, true)]);
    for (round, limited) in curve {
        let load = &LOADS[1];
        for i in 0..CURVE.len() {
            let (name, _, parameters) = CURVE[(i + 2 * round) % CURVE.len()];
            let key = key(load, CURVE_RANKS, name, limited);
            let method = if name == "curve-MPI" { "MPI" } else { "ASYNC" };
            let parameters = format!("async=no;{parameters}");
            let mut command = on_ranks(CURVE_RANKS, &format!("{folder}/load"))?;
            let numbers = [mib, LIMITED_OUTPUTS, load.steps].map(|n| n.to_string());
            command.args([&place, &key, load.name]).args(&numbers).args(["multiple", method, parameters.as_str()]);
            command.env("THALWEG_MOUNTS", if limited { &slow } else { "" });
            if round == 0 {
                command.env("CHECK", "1");
            }
            if Path::new(&place).exists() {
                std::fs::remove_dir_all(&place)?;
            }
            std::fs::create_dir_all(&place)?;
            memory::warm(&folder, options.size(u64::from(mib * LIMITED_OUTPUTS * CURVE_RANKS * 2), 1))?;
            all.run(command.env("BENCH_FOLDER", &folder)).map_err(|e| format!("{key}: {e}"))?;
        }
    }
    std::fs::remove_dir_all(&place)?;

    let about = format!(
        "Programs that compute all the time and write their state: two fields of 3-D Gray-Scott, every {} steps; positions of atoms, every {} \
         steps. {mib} MiB of each rank in each of {outputs} outputs, {rounds} rounds; before each run three times the memory of its files was \
         used once. \"blocked\": seconds of the slowest rank in open, writes and close, outputs after the first; \"first\": of the first \
         output; \"whole\": until all outputs have ended, computing included; \"processor\": of all ranks. The copy is into memory that was \
         used before. Limited store: {RATE} MiB/s for each rank, {LIMITED_OUTPUTS} outputs, {LONGER} times the steps, one round. Each file was \
         read back once.",
        LOADS[0].steps, LOADS[1].steps,
    );
    let mut report = Report::new("async", about, &folder);
    for load in &LOADS {
        for &ranks in &ranks {
            for limited in [false, true] {
                report.table(table(&all, load, ranks, limited, python.is_some()));
            }
        }
    }
    report.table(by_owners(&all, mib));
    for load in &LOADS {
        for &ranks in &ranks {
            targets(&mut report, &all, load, ranks, ranks < cores);
        }
    }
    report.finish(&all, options)
}

/// What is measured under one name.
fn key(load: &Load, ranks: u32, contender: &str, limited: bool) -> String {
    format!("{}/{ranks}/{}/{contender}", load.name, if limited { "limited" } else { "usual" })
}

fn table(all: &Measurements, load: &Load, ranks: u32, limited: bool, with_python: bool) -> Table {
    let of_ranks = if ranks == 1 { "one rank".into() } else { format!("{ranks} ranks") };
    let title = format!("{}, {of_ranks}{}", load.shown, if limited { ", limited store" } else { "" });
    let heads = ["blocked ms", "min ms", "of copy", "first ms", "whole s", "over NULL %", "processor s"];
    let mut table = Table::with_heads(std::iter::once(title.as_str()).chain(heads));
    let mut row = |name: &str, shown: &str, null: &str| {
        let key = key(load, ranks, name, limited);
        let of = |what: &str| all.median(&format!("{key}/{what}"));
        let least = all.find(&format!("{key}/blocked")).map_or(f64::NAN, |s| s.min());
        let copy = all.median(&format!("{}/blocked", self::key(load, ranks, "copy", limited)));
        let null = all.median(&format!("{}/whole", self::key(load, ranks, null, limited)));
        let (blocked, whole) = (of("blocked"), of("whole"));
        let cells = [
            blocked * 1e3,
            least * 1e3,
            blocked / copy,
            of("first") * 1e3,
            whole,
            100.0 * (whole / null - 1.0),
            of("processor"),
        ];
        table.row(std::iter::once(shown.to_string()).chain(cells.map(number)));
    };
    let shown = REFERENCES.iter().take(if limited { 2 } else { 3 }).chain(&OURS);
    shown.filter(|c| suits(load, c)).for_each(|c| row(c.0, c.1, "null"));
    if with_python && ranks == 1 && !limited {
        BP5.iter().for_each(|(name, shown, _)| row(name, shown, BP5[0].0));
    }
    table
}

/// Bandwidth of synchronous outputs by the number of owners.
fn by_owners(all: &Measurements, mib: u32) -> Table {
    let title = format!("by owners, {CURVE_RANKS} ranks");
    let heads = ["MiB/s", "best MiB/s", "MiB/s, limited store"];
    let mut table = Table::with_heads(std::iter::once(title.as_str()).chain(heads));
    let bytes = f64::from(mib * CURVE_RANKS);
    for (name, shown, _) in CURVE {
        let of = |limited| format!("{}/blocked", key(&LOADS[1], CURVE_RANKS, name, limited));
        let best = all.find(&of(false)).map_or(f64::NAN, |seconds| seconds.min());
        let cells = [bytes / all.median(&of(false)), bytes / best, bytes / all.median(&of(true))];
        table.row(std::iter::once(shown.to_string()).chain(cells.map(number)));
    }
    table
}

/// - `free`: whether the ranks leave a core free.
fn targets(report: &mut Report, all: &Measurements, load: &Load, ranks: u32, free: bool) {
    let of = |contender: &str, limited: bool, what: &str| {
        all.median(&format!("{}/{what}", key(load, ranks, contender, limited)))
    };
    for (name, shown, ..) in OURS.iter().filter(|c| c.4 == "async=yes" && suits(load, c)) {
        let synchronous = name.split('-').next().unwrap_or(name);
        let what = |what: &str| {
            format!("{}, {ranks} {}: {shown}, {what}", load.shown, if ranks == 1 { "rank" } else { "ranks" })
        };
        if name.ends_with(LENT) {
            report.at_most(what("blocked, ms"), 2.0, of(name, false, "blocked") * 1e3);
        } else {
            let got = of(name, false, "blocked") / of("copy", false, "blocked");
            report.at_most(what("blocked, beside a copy in memory"), 1.2, got);
        }
        let got = of(name, true, "blocked") / of(synchronous, true, "blocked");
        report.at_most(what("blocked, beside a synchronous output, limited store"), 0.05, got);
        if free {
            let got = of(name, false, "whole") / of("null", false, "whole");
            report.at_most(what("whole run, beside NULL"), 1.03, got);
        } else {
            let got = of(name, false, "processor") / of(synchronous, false, "processor");
            report.at_most(what("processor time, beside synchronous output"), 1.0, got);
        }
    }
}
