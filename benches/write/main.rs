//! Bench: a large output written by four ranks, beside raw writes, ADIOS 1.13 and HDF5; and by one rank, beside the
//! adios2 wheel and h5py.
//!
//! The C programs beside do the writing; this one lets them run in turns and compares.

use std::path::Path;
use std::process::{Command, ExitCode};
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, environment, folder, on_ranks};
use thalweg_benches::memory;
use thalweg_benches::options::Options;
use thalweg_benches::report::{Report, Table, number};

const OURS: [&str; 6] = ["raw-shared", "MPI", "MPI-promise", "raw-each", "POSIX", "POSIX-promise"];
const ADIOS1: [&str; 2] = ["MPI", "POSIX"];
const HDF5: [&str; 2] = ["independent", "collective"];
const SERIAL: [&str; 3] = ["BP4", "BP5", "h5py"];
/// Before each program, so many times the bytes of an output are used once: the program's data, its file, its copy, and what is
/// freed while they are there.
const WARM: u64 = 4;

fn main() -> Result<ExitCode, Failure> {
    let options = Options::from_arguments()?;
    let folder = folder("write")?;
    let files = format!("{folder}/files");
    std::fs::create_dir_all(&files)?;
    let (mib, rounds, steps) = options.size((256u64, 3u32, 3u32), (8, 2, 2));
    // Who needs seconds for a step does with fewer of them.
    let (size, steps_text, fewer) = (mib.to_string(), steps.to_string(), "2".to_string());
    let python = environment("PYTHON")?;
    let program = |name: &str| Some(format!("{folder}/{name}")).filter(|p| Path::new(p).exists());
    let library = |ranks: u32, program: &str, steps: &str, label: &str, names: &[&str]| -> Result<Command, Failure> {
        let mut command = on_ranks(ranks, program)?;
        command.args([&files, &size, steps, label, "benches/write/write.xml"]).args(names);
        Ok(command)
    };

    let mut all = Measurements::default();
    let thalweg = program("thalweg").ok_or("the writer with Thalweg was not built")?;
    let mut commands = vec![library(4, &thalweg, &steps_text, "thalweg", &OURS)?];
    if let Some(adios1) = program("adios1") {
        commands.push(library(4, &adios1, &fewer, "adios1", &ADIOS1)?);
    }
    if let Some(hdf5) = program("hdf5") {
        let mut command = on_ranks(4, &hdf5)?;
        command.args([&files, &size, &fewer, "hdf5"]);
        commands.push(command);
    }
    commands.push(library(1, &thalweg, &steps_text, "one", &OURS)?);
    let mut serial = Command::new(&python);
    serial.args(["benches/write/serial.py", &files, &size, &steps_text]);
    commands.push(serial);
    for round in 0..rounds as usize {
        for turn in 0..commands.len() {
            let command = (round + turn) % commands.len();
            memory::warm(&files, WARM * 4 * mib)?;
            all.run(&mut commands[command])?;
        }
    }

    let about = format!(
        "Each step {mib} MiB of doubles from each of 4 ranks (or from one), with 7 scalars, into a file of its own that is \
         removed afterwards. Statistics and checksums on. {rounds} rounds of {steps} steps (ADIOS 1.13 and HDF5: 2), after a \
         first step, which the column \"first s\" shows; before each program, {} MiB of memory were used once; seconds per step, into the page cache.",
        WARM * 4 * mib
    );
    let mut report = Report::new("write", about, &files);
    tables(&mut report, &all, mib);
    targets(&mut report, &all);
    report.finish(&all, options)
}

fn tables(report: &mut Report, all: &Measurements, mib: u64) {
    type Group<'g> = (&'g str, &'g [&'g str]);
    let four: [Group<'_>; 3] = [("thalweg", &OURS), ("adios1", &ADIOS1), ("hdf5", &HDF5)];
    let one: [Group<'_>; 2] = [("one", &OURS), ("serial", &SERIAL)];
    for (ranks, groups) in [(4, &four[..]), (1, &one)] {
        let title = if ranks == 1 { "one rank" } else { "4 ranks" };
        let mut table = Table::new([title, "median s", "min s", "GB/s", "of raw", "first s"]);
        for (label, kind) in groups.iter().flat_map(|(label, kinds)| kinds.iter().map(|k| (*label, *k))) {
            let name = format!("{label}:{kind}");
            let samples = all.find(&name).cloned().unwrap_or_default();
            // A shared file is compared with raw writes into one, files apart with raw writes apart.
            let raw = if kind.contains("POSIX") || kind == "raw-each" { "raw-each" } else { "raw-shared" };
            let raw = all.median(&format!("{}:{raw}", groups[0].0));
            let bytes = (ranks * mib) as f64 * 1048576e-9;
            table.row([
                shown(label, kind),
                number(samples.median()),
                number(samples.min()),
                number(bytes / samples.median()),
                number(raw / samples.median()),
                number(all.median(&format!("{name}/first"))),
            ]);
        }
        report.table(table);
    }
}

fn shown(label: &str, kind: &str) -> String {
    let kind = kind.replace('-', " ").replace(" promise", ", copy-on-write=\"no\"");
    match label {
        _ if kind.starts_with("raw") => {
            format!("pwrite, {}", if kind == "raw each" { "a file each" } else { "one file" })
        }
        "thalweg" | "one" => format!("Thalweg {kind}"),
        "adios1" => format!("ADIOS 1.13 {kind}"),
        "hdf5" => format!("HDF5 {kind}"),
        _ if kind == "h5py" => kind,
        _ => format!("adios2 {kind}"),
    }
}

fn targets(report: &mut Report, all: &Measurements) {
    // How many times faster than what is named first.
    let times = |than: &str, ours: &str| all.median(than) / all.median(ours);
    for (ours, raw) in [("MPI-promise", "shared"), ("MPI", "shared"), ("POSIX-promise", "each"), ("POSIX", "each")] {
        for (label, ranks, wanted) in [("one", "one rank", 0.90), ("thalweg", "4 ranks", 0.85)] {
            let got = times(&format!("{label}:raw-{raw}"), &format!("{label}:{ours}"));
            report.at_least(format!("{}, {ranks}, speed beside raw pwrite", shown("thalweg", ours)), wanted, got);
            let first = all.median(&format!("{label}:{ours}/first")) / all.median(&format!("{label}:{ours}"));
            report.at_most(format!("{}, {ranks}, first output beside later ones", shown("thalweg", ours)), 1.3, first);
        }
    }
    for method in ["MPI", "POSIX"] {
        let got = times(&format!("adios1:{method}"), &format!("thalweg:{method}"));
        report.at_least(format!("{method}, times as fast as ADIOS 1.13"), 1.5, got);
        let hdf5 = all.median("hdf5:collective").min(all.median("hdf5:independent"));
        report.at_least(
            format!("{method}, times as fast as parallel HDF5"),
            1.0,
            hdf5 / all.median(&format!("thalweg:{method}")),
        );
    }
    for method in ["MPI", "POSIX"] {
        for other in SERIAL {
            let got = times(&format!("serial:{other}"), &format!("one:{method}"));
            let peer = shown("serial", other);
            report.at_least(format!("{method} on one rank, times as fast as {peer}"), 1.0, got);
        }
    }
}
