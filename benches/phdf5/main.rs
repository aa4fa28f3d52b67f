//! Bench: outputs as HDF5 files by method PHDF5, beside our methods for BP files and parallel HDF5 itself, with the calls that each makes: the
//! comparison of SAND2009-7763 (Chimera; 100 arrays of 64 KiB on each rank), on 1 to 8 ranks.
//!
//! The C programs are those of the bench of movement; `calls.c` counts.

use std::path::Path;
use std::process::ExitCode;
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, folder, on_ranks};
use thalweg_benches::memory;
use thalweg_benches::options::Options;
use thalweg_benches::report::{Report, Table, number};

/// Numbers of ranks: the size of an output grows with them.
const RANKS: [u32; 4] = [1, 2, 4, 8];
/// Outputs of each contender in a program, and rounds of programs.
const OUTPUTS: u32 = 5;
const ROUNDS: usize = 5;
/// MiB of memory that are used once before each program.
const WARM: u64 = 512;
/// Outputs of a program whose calls are counted, one before them included.
const COUNTED: u32 = 5;

/// Ours, and those of parallel HDF5.
const OURS: [&str; 4] = ["PHDF5", "MPI", "POSIX", "MPI_COLLECTIVE"];
const HDF5: [&str; 2] = ["independent", "collective"];
const CALLS: [&str; 7] =
    ["write", "open", "MPI_send", "MPI_receive", "MPI_collective", "MPI_File_open", "MPI_File_write"];

fn contenders() -> impl Iterator<Item = (&'static str, &'static str)> {
    OURS.iter().map(|name| ("thalweg", *name)).chain(HDF5.iter().map(|name| ("hdf5", *name)))
}

fn shown(label: &str, name: &str) -> String {
    if label == "hdf5" { format!("parallel HDF5, {name}") } else { format!("Thalweg {name}") }
}

fn main() -> Result<ExitCode, Failure> {
    let options = Options::from_arguments()?;
    let folder = folder("phdf5")?;
    let files = format!("{folder}/files");
    if Path::new(&files).exists() {
        std::fs::remove_dir_all(&files)?;
    }
    let (rounds, kib) = (options.size(ROUNDS, 1), options.size(64, 8));
    let mut all = Measurements::default();
    for round in 0..rounds {
        for ranks in RANKS {
            for turn in 0..2 {
                let label = ["thalweg", "hdf5"][(turn + round) % 2];
                let program = format!("{folder}/{label}");
                if !Path::new(&program).exists() {
                    continue;
                }
                let launch = format!("{files}/{round}-{ranks}-{label}");
                std::fs::create_dir_all(&launch)?;
                memory::warm(&launch, options.size(WARM, 1))?;
                // Outputs are read back and compared once; those of PHDF5 by the tests.
                let check = if round == 0 { "1" } else { "0" };
                let load = format!("{ranks}:100:{kib}:{OUTPUTS}");
                let named = OURS.map(|name| format!("{name}={name}"));
                let more = if label == "thalweg" { &named[..] } else { &[] };
                all.run(on_ranks(ranks, &program)?.args([&launch, label, check, &load]).args(more))?;
            }
        }
    }
    // Calls are counted apart from what is measured, one contender in a program.
    let most = RANKS[RANKS.len() - 1];
    for (label, name) in contenders() {
        let program = format!("{folder}/{label}");
        if !Path::new(&program).exists() {
            continue;
        }
        let launch = format!("{files}/calls-{label}-{name}");
        std::fs::create_dir_all(&launch)?;
        let load = format!("counted:100:{kib}:{}", COUNTED - 1);
        let mut command = on_ranks(most, &program)?;
        command.args([&launch, label, "0", &load]).env("LD_PRELOAD", format!("{folder}/calls.so"));
        command.env("CALLS_OF", format!("{label}/{name}"));
        match label {
            "thalweg" => command.arg(format!("{name}={name}")),
            _ => command.arg(name),
        };
        all.run(&mut command)?;
    }
    let about = format!(
        "100 arrays of {kib} KiB on each rank (a load like Chimera's), so larger outputs on more ranks; parallel HDF5 with datasets that are \
         contiguous, no fill values and collective metadata. Milliseconds from before the first rank's open until after the last rank's close, \
         {rounds} rounds of {OUTPUTS} outputs; before each program {WARM} MiB of memory were used once. Calls: sums over {most} ranks and \
         {COUNTED} outputs, with the seconds inside of them; the program thalweg-convert, which writes what an HDF5 file says of PHDF5's arrays, \
         is not counted, and a call of MPI-IO counts as the calls of the system that it makes, too."
    );
    let mut report = Report::new("phdf5", about, &files);
    let of = |ranks: u32, label: &str, name: &str| all.median(&format!("{ranks}/{label}/{name}"));
    let heads = RANKS.map(|ranks| format!("{ranks} ranks, ms"));
    let mut table = Table::with_heads(std::iter::once("median").chain(heads.iter().map(String::as_str)));
    for (label, name) in contenders() {
        let cells = RANKS.iter().map(|ranks| number(of(*ranks, label, name) * 1e3));
        table.row(std::iter::once(shown(label, name)).chain(cells));
    }
    report.table(table);
    let mut table = Table::with_heads(std::iter::once("calls").chain(CALLS.iter().flat_map(|call| [*call, "s"])));
    for (label, name) in contenders() {
        let cells = CALLS.iter().flat_map(|call| {
            let of = |what: &str| all.median(&format!("{what}/{label}/{name}/{call}"));
            [format!("{}", of("calls")), number(of("seconds"))]
        });
        table.row(std::iter::once(shown(label, name)).chain(cells));
    }
    report.table(table);
    for ranks in RANKS {
        let peer = HDF5.iter().map(|name| of(ranks, "hdf5", name)).fold(f64::NAN, f64::min);
        let what = format!("{ranks} ranks: PHDF5, times as fast as parallel HDF5 at its best");
        report.at_least(what, 1.0, peer / of(ranks, "thalweg", "PHDF5"));
    }
    report.finish(&all, options)
}
