//! Bench: the whole run time of a simulation with its output and without, the measure of the papers.
//!
//! The Gray-Scott example runs on four ranks with method NULL, MPI and POSIX, chosen in its XML; the same source runs
//! with ADIOS 1.13, and with plain writes of the same bytes (`raw.c`). The time is that of the whole program, its start and end included;
//! time in calls of output is what the program says.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, folder, on_ranks};
use thalweg_benches::memory;
use thalweg_benches::options::Options;
use thalweg_benches::report::{Report, Table, number};

const METHODS: [&str; 3] = ["NULL", "MPI", "POSIX"];
const LIBRARIES: [(&str, &str); 2] = [("thalweg", "Thalweg"), ("adios1", "ADIOS 1.13")];
/// Plain writes: `RAW`, and how they are shown.
const RAW: [(&str, &str); 2] = [("shared", "pwrite, one file"), ("each", "pwrite, a file each")];
/// Used once before each run, in MiB: about what a run writes.
const WARM: u64 = 512;

fn main() -> Result<ExitCode, Failure> {
    let options = Options::from_arguments()?;
    let folder = folder("application")?;
    let (size, steps, gap, rounds) = options.size((128, 200, 20, 5), (32, 40, 20, 2));
    let document = std::fs::read_to_string("examples/gray-scott/gray-scott.xml")?;

    let mut contenders: Vec<(String, &str, &str)> = Vec::new();
    for (library, _) in LIBRARIES {
        contenders.extend(METHODS.map(|method| (format!("{library}:{method}"), library, method)));
    }
    contenders.extend(RAW.map(|(files, _)| (format!("raw:{files}"), "raw", files)));
    contenders.retain(|(_, library, _)| Path::new(&format!("{folder}/{library}/gray-scott")).exists());
    let mut all = Measurements::default();
    for round in 0..=rounds {
        for i in 0..contenders.len() {
            // Another one is the first in each round.
            let (name, library, method) = &contenders[(i + round) % contenders.len()];
            let place = format!("{folder}/files");
            let _ = std::fs::remove_dir_all(&place);
            std::fs::create_dir_all(&place)?;
            let mut command = on_ranks(4, &format!("{folder}/{library}/gray-scott"))?;
            match *library {
                "raw" => drop(command.env("RAW", method)),
                _ => std::fs::write(format!("{place}/gray-scott.xml"), with_method(&document, method)?)?,
            }
            for (option, value) in [("size", size), ("steps", steps), ("plotgap", gap), ("checkpoint", steps / 2)] {
                command.args([format!("--{option}"), value.to_string()]);
            }
            memory::warm(&place, options.size(WARM, 1))?;
            let (whole, output) = run(command.current_dir(&place))?;
            std::fs::remove_dir_all(&place)?;
            // The first round warms up.
            if round > 0 {
                all.add(&format!("{name}:whole"), whole);
                all.add(&format!("{name}:output"), output);
            }
        }
    }

    let about = format!(
        "Gray-Scott, {size}^3 cells on 4 ranks, {steps} steps, {} outputs of two fields and 2 restarts, {:.0} MiB in all; \
         {rounds} rounds; before each run {WARM} MiB of memory were used once. The whole program, start and end included.",
        steps / gap + 1,
        f64::from(steps / gap + 3) * 2.0 * 8.0 * f64::from(size).powi(3) / 1048576.0
    );
    let mut report = Report::new("application", about, &folder);
    let mut table = Table::new(["method", "median s", "min s", "over NULL s", "over NULL %", "in output calls s"]);
    let whole = |library: &str, method: &str| all.median(&format!("{library}:{method}:whole"));
    for (library, shown) in LIBRARIES {
        for method in METHODS {
            let over = whole(library, method) - whole(library, "NULL");
            table.row([
                format!("{shown} {method}"),
                number(whole(library, method)),
                number(all.find(&format!("{library}:{method}:whole")).map_or(f64::NAN, |s| s.min())),
                number(over),
                number(100.0 * over / whole(library, "NULL")),
                number(all.median(&format!("{library}:{method}:output"))),
            ]);
        }
    }
    for (files, shown) in RAW {
        let of = |what: &str| all.median(&format!("raw:{files}:{what}"));
        let least = all.find(&format!("raw:{files}:whole")).map_or(f64::NAN, |s| s.min());
        let over = of("whole") - whole("thalweg", "NULL");
        let share = 100.0 * over / whole("thalweg", "NULL");
        let cells = [of("whole"), least, over, share, of("output")].map(number);
        table.row([shown.to_string()].into_iter().chain(cells));
    }
    report.table(table);
    for (method, files, what) in [("MPI", "shared", "one shared file"), ("POSIX", "each", "a file each")] {
        let of = |contender: &str| all.median(&format!("{contender}:output"));
        let got = of(&format!("thalweg:{method}")) / of(&format!("raw:{files}"));
        report.at_most(format!("{method}, time in calls of output beside plain writes, {what}"), 1.2, got);
    }
    for method in METHODS {
        let got = whole("thalweg", method) / whole("adios1", method);
        report.at_most(format!("{method}, whole run beside ADIOS 1.13"), 1.0, got);
    }
    report.finish(&all, options)
}

/// The document with both groups travelling by this method.
fn with_method(document: &str, method: &str) -> Result<String, Failure> {
    let mut changed = 0;
    let lines: Vec<String> = document
        .lines()
        .map(|line| match line.split_once(" method=\"") {
            Some((front, rest)) if front.trim_start().starts_with("<method ") => {
                changed += 1;
                let back = rest.split_once('"').map_or("", |(_, back)| back);
                format!("{front} method=\"{method}\"{back}")
            }
            _ => line.to_string(),
        })
        .collect();
    if changed != 2 {
        return Err(format!("{changed} methods in gray-scott.xml, 2 were there").into());
    }
    Ok(lines.join("\n"))
}

/// Seconds of the whole program, and what it says it spent in calls of output.
fn run(command: &mut Command) -> Result<(f64, f64), Failure> {
    let start = Instant::now();
    let output = command.output()?;
    let whole = start.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{command:?} failed:\n{said}{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let spent = said.split_once("of which output ").and_then(|(_, s)| s.split(' ').next()?.parse().ok());
    Ok((whole, spent.ok_or_else(|| format!("no time of output in:\n{said}"))?))
}
