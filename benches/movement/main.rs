//! Bench: every method beside raw writes, its namesake in ADIOS 1.13, parallel HDF5 and PnetCDF; eight ranks.
//!
//! The C programs beside do the writing; this one lets them run in turns and compares. Time is from before the first rank's
//! open until after the last rank's close, application bytes only, as the papers count.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, folder, on_ranks};
use thalweg_benches::memory;
use thalweg_benches::options::Options;
use thalweg_benches::report::{Report, Table, number};
use thalweg_io::registry;

const RANKS: u32 = 8;
/// Writers of aggregated writing, ours and theirs.
const WRITERS: u32 = 2;

/// Name, arrays, KiB of each per rank, outputs measured per round.
type Load = (&'static str, u32, u32, u32);

/// Rounds, and those of small outputs: from one to the next the machine's own speed differs by a half, and what takes a
/// millisecond shows it most.
const ROUNDS: usize = 3;
const SMALL_ROUNDS: usize = 12;
/// KiB of a rank in all that count as small.
const SMALL_KIB: u32 = 1024;

const LOADS: [Load; 5] = [
    ("64 KiB", 1, 64, 10),
    ("1 MiB", 1, 1024, 8),
    ("8 MiB", 1, 8192, 4),
    ("64 MiB", 1, 65536, 2),
    (CHIMERA, 100, 64, 4),
];
/// MiB of memory that are used once before each program: four times the largest output, as data, file and copy are there at once.
const WARM: u64 = 2048;
const SMALL: [Load; 2] = [("64 KiB", 1, 64, 2), (CHIMERA, 100, 8, 2)];
const CHIMERA: &str = "100 x 64 KiB";

/// Ours, and which method of ADIOS 1.13 does the same: its namesake, or the one that programs took for that.
const METHODS: [(&str, &str); 7] = [
    ("MPI", "MPI"),
    ("POSIX", "POSIX"),
    ("MPI_COLLECTIVE", "MPI"),
    ("MPI_SCHEDULED", "MPI_LUSTRE"),
    ("MPI_AGGREGATE simple", "MPI_AGGREGATE simple"),
    ("MPI_AGGREGATE brigade", "MPI_AGGREGATE brigade"),
    ("ADAPTIVE", ""),
];
const ADIOS1: [&str; 5] = ["MPI", "POSIX", "MPI_LUSTRE", "MPI_AGGREGATE simple", "MPI_AGGREGATE brigade"];
const HDF5: [&str; 2] = ["independent", "collective"];
const PNETCDF: [&str; 2] = ["blocking", "nonblocking"];

/// As a program is told and as it says it: without spaces.
fn word(name: &str) -> String {
    name.replace(' ', "_")
}

fn contender(name: &str) -> String {
    let (method, pattern) = name.split_once(' ').unwrap_or((name, ""));
    let aggregation = match pattern {
        "simple" => format!(";num_aggregators={WRITERS};num_ost={WRITERS};aggregation_type=1"),
        "brigade" => format!(";num_aggregators={WRITERS};num_ost={WRITERS};aggregation_type=2"),
        _ => String::new(),
    };
    format!("{}={method}{aggregation}", word(name))
}

/// Those that are built.
fn ours() -> Vec<&'static str> {
    METHODS
        .iter()
        .map(|(ours, _)| *ours)
        .filter(|m| registry::find(m.split(' ').next().unwrap_or(m)).is_some())
        .collect()
}

/// What is measured under one name: a load, the program, its contender.
fn key(load: &str, label: &str, contender: &str) -> String {
    format!("{}/{label}/{}", word(load), word(contender))
}

/// Lets a filesystem like ext4 put what is in the folders inside this one far apart. It does not give out again the number of a file
/// that was removed in the last minutes, and looks at each of them whenever it makes one close by: beside 50 outputs that were
/// removed, raw writing of 8 files of 64 KiB took 1.3 ms instead of 0.12. So whoever makes the most files would slow all down,
/// those behind it most.
fn spread(folder: &str) {
    // Where it is not known nothing is lost but this.
    let _ = Command::new("chattr").args(["+T", folder]).stderr(Stdio::null()).status();
}

fn main() -> Result<ExitCode, Failure> {
    let options = Options::from_arguments()?;
    let folder = folder("movement")?;
    let files = format!("{folder}/files");
    if Path::new(&files).exists() {
        std::fs::remove_dir_all(&files)?;
    }
    std::fs::create_dir_all(&files)?;
    spread(&files);
    let rounds = options.size(SMALL_ROUNDS, 1);
    let loads: Vec<Load> = if options.small { SMALL.to_vec() } else { LOADS.to_vec() };
    let told = |round: usize| -> String {
        let of_round = loads.iter().filter(|(_, n, kib, _)| round < ROUNDS || n * kib <= SMALL_KIB);
        let told: Vec<_> = of_round.map(|(name, n, kib, steps)| format!("{}:{n}:{kib}:{steps}", word(name))).collect();
        told.join(",")
    };

    let programs: [(&str, Vec<String>); 5] = [
        ("raw", Vec::new()),
        ("thalweg", ours().into_iter().map(contender).collect()),
        ("adios1", ADIOS1.iter().map(|m| contender(m)).collect()),
        ("hdf5", Vec::new()),
        ("pnetcdf", Vec::new()),
    ];
    let mut all = Measurements::default();
    for round in 0..rounds {
        for i in 0..programs.len() {
            let (label, contenders) = &programs[(i + round) % programs.len()];
            let program = format!("{folder}/{label}");
            if !Path::new(&program).exists() {
                continue;
            }
            // All outputs are read back and compared once, outside of what is measured.
            let check = if round == 0 { "1" } else { "0" };
            let launch = format!("{files}/{round}-{label}");
            std::fs::create_dir_all(&launch)?;
            spread(&launch);
            memory::warm(&launch, options.size(WARM, 1))?;
            all.run(on_ranks(RANKS, &program)?.args([&launch, *label, check, &told(round)]).args(contenders))?;
        }
    }

    let about = format!(
        "{RANKS} ranks; one array with so much per rank, or {CHIMERA} arrays per rank (a load like Chimera's). Milliseconds from before the \
         first rank's open until after the last rank's close, {rounds} rounds (of outputs above 1 MiB a rank at most {ROUNDS}); before each program \
         {WARM} MiB of memory were used once; files are removed after each output. Nobody calls fsync. \
         MPI_AGGREGATE has {WRITERS} writers here as there. Every contender's output was read back and compared once per load."
    );
    let mut report = Report::new("movement", about, &files);
    tables(&mut report, &all, &loads);
    targets(&mut report, &all, &loads);
    report.finish(&all, options)
}

/// Every contender: label, name, and how it is shown.
fn contenders() -> Vec<(&'static str, &'static str, String)> {
    let mut shown =
        vec![("raw", "shared", "pwrite, one file".to_string()), ("raw", "each", "pwrite, a file each".to_string())];
    shown.extend(ours().into_iter().map(|m| ("thalweg", m, format!("Thalweg {m}"))));
    shown.extend(ADIOS1.iter().map(|m| ("adios1", *m, format!("ADIOS 1.13 {m}"))));
    shown.extend(HDF5.iter().map(|m| ("hdf5", *m, format!("HDF5 {m}"))));
    shown.extend(PNETCDF.iter().map(|m| ("pnetcdf", *m, format!("PnetCDF {m}"))));
    shown
}

fn tables(report: &mut Report, all: &Measurements, loads: &[Load]) {
    type Shown = fn(&Measurements, &str, f64) -> f64;
    let shown_values: [(&str, Shown); 3] = [
        ("median ms", |all, key, _| all.median(key) * 1e3),
        ("min ms", |all, key, _| all.find(key).map_or(f64::NAN, |s| s.min()) * 1e3),
        ("GB/s of the median", |all, key, bytes| bytes * 1e-9 / all.median(key)),
    ];
    for (title, value) in shown_values {
        let mut table = Table::with_heads(std::iter::once(title).chain(loads.iter().map(|l| l.0)));
        for (label, name, shown) in contenders() {
            let cells = loads.iter().map(|(load, arrays, kib, _)| {
                let bytes = f64::from(RANKS) * f64::from(*arrays) * f64::from(*kib) * 1024.0;
                number(value(all, &key(load, label, name), bytes))
            });
            table.row(std::iter::once(shown).chain(cells));
        }
        report.table(table);
    }
}

fn targets(report: &mut Report, all: &Measurements, loads: &[Load]) {
    for (load, ..) in loads {
        for (method, theirs) in METHODS.iter().filter(|(m, theirs)| ours().contains(m) && !theirs.is_empty()) {
            let got = all.median(&key(load, "adios1", theirs)) / all.median(&key(load, "thalweg", method));
            let other = if method == theirs { "" } else { theirs };
            report.at_least(format!("{load}: {method}, times as fast as ADIOS 1.13 {other}").trim_end(), 1.0, got);
        }
    }
    let best = |label: &str, names: &[&str]| {
        names.iter().map(|name| all.median(&key(CHIMERA, label, name))).fold(f64::NAN, f64::min)
    };
    let got = best("hdf5", &HDF5) / best("thalweg", &ours());
    report.at_least(format!("{CHIMERA}: the best of ours, times as fast as parallel HDF5 at its best"), 1.5, got);
    for (load, _, kib, _) in loads {
        let of = |label: &str, name: &str| all.median(&key(load, label, name));
        let least = |label: &str, names: &[&str]| names.iter().map(|name| of(label, name)).fold(f64::NAN, f64::min);
        let ours = of("thalweg", "MPI").min(of("thalweg", "POSIX"));
        for (label, names, peer) in
            [("hdf5", &HDF5[..], "parallel HDF5"), ("pnetcdf", &PNETCDF, "PnetCDF"), ("adios1", &ADIOS1, "ADIOS 1.13")]
        {
            let what = format!("{load}: MPI or POSIX, times as fast as {peer} at its best");
            report.at_least(what, 1.0, least(label, names) / ours);
        }
        report.at_least(
            format!("{load}: MPI, times as fast as parallel HDF5 at its best"),
            1.0,
            least("hdf5", &HDF5) / of("thalweg", "MPI"),
        );
        report.at_most(format!("{load}: ADAPTIVE beside MPI"), 1.3, of("thalweg", "ADAPTIVE") / of("thalweg", "MPI"));
        let wanted = match *load {
            CHIMERA => 1.5,
            _ if *kib == 64 => 4.0,
            _ => continue,
        };
        for (method, raw, files) in [("MPI", "shared", "one file"), ("POSIX", "each", "a file each")] {
            report.at_most(
                format!("{load}: {method} beside raw, {files}"),
                wanted,
                of("thalweg", method) / of("raw", raw),
            );
        }
    }
}
