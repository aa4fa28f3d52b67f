//! Bench: the Python package. Large outputs, small steps, one element over many steps, and a mean by xarray and dask; beside raw
//! writes and reads by Python, h5py, h5netcdf and the BP5 engine of adios2.
//!
//! Each contender runs in a process of its own (`contender.py`), in turns with the others. Before a large output the process takes
//! the memory for it from the host of a virtual machine, by writing and removing as much by plain means, which is not counted.

use std::process::{Command, ExitCode};
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, environment, folder};
use thalweg_benches::options::Options;
use thalweg_benches::report::{Report, Table, number};

const LARGE: [(&str, &str); 5] = [
    ("raw", "write"),
    ("thalweg", "Thalweg"),
    ("deferred", "Thalweg, copy=False"),
    ("h5py", "h5py"),
    ("BP5", "adios2 BP5"),
];
const SMALL: [&str; 4] = ["raw", "thalweg", "h5py", "BP5"];
const READ: [&str; 3] = ["raw", "thalweg", "h5py"];

/// Sizes of the measurements.
struct Sizes {
    /// Outputs of a large file.
    outputs: u64,
    /// MiB of a large output.
    mib: u64,
    /// Small steps.
    steps: u64,
}

fn main() -> Result<ExitCode, Failure> {
    let options = Options::from_arguments()?;
    let folder = folder("python")?;
    let python = environment("PYTHON")?;
    let sizes = Sizes { outputs: options.size(4, 3), mib: options.size(256, 8), steps: options.size(2000, 100) };
    let contender = |what: &str, name: &str| {
        let mut command = Command::new(&python);
        command.args(["benches/python/contender.py", what, name, &folder]);
        command.args([sizes.outputs, sizes.mib, sizes.steps].map(|n| n.to_string()));
        command
    };
    let mut all = Measurements::default();
    // In turns, with another one first in each round.
    let mut rounds = |what: &str, names: &[&str], rounds: usize| -> Result<(), Failure> {
        for turn in 0..rounds {
            for i in 0..names.len() {
                all.run(&mut contender(what, names[(i + turn) % names.len()]))?;
            }
        }
        Ok(())
    };
    let rounds_wanted = options.size(7, 1);
    rounds("large", &LARGE.map(|(name, _)| name), rounds_wanted)?;
    rounds("small", &SMALL, rounds_wanted)?;
    rounds("files", &READ, 1)?;
    rounds("read", &READ, options.size(5, 1))?;
    rounds("xarray", &READ, options.size(5, 1))?;
    for name in READ {
        std::fs::remove_file(format!("{folder}/{name}.bp"))?;
    }
    // All read the same values.
    for what in ["series", "xarray"] {
        let wanted = all.median(&format!("raw:{what}:sum"));
        for name in READ {
            let got = all.median(&format!("{name}:{what}:sum"));
            if (got - wanted).abs() > 1e-9 * wanted.abs() {
                return Err(format!("{what}: {name} read values with sum {got}, plain Python {wanted}").into());
            }
        }
    }
    let Sizes { outputs, mib, steps } = sizes;
    let about = format!(
        "From Python, one process. Large: {outputs} outputs of {mib} MiB of doubles into one file, the first one with the creation of the \
         file, {rounds_wanted} rounds. Small: {steps} steps of 20 arrays of 100 doubles, with open and close of the file. Series: one \
         element over {steps} steps of 100 doubles, in an open file. xarray: the mean of these steps with chunks={{}}, with the open; the \
         peer is h5netcdf. \"raw\" writes with os.write and reads with numpy."
    );
    let mut report = Report::new("python", about, &folder);
    let mut table = Table::new(["large", "first ms", "min ms", "later ms", "min ms"]);
    for (name, shown) in LARGE {
        let cells = ["first", "later"].into_iter().flat_map(|when| {
            let of = all.find(&format!("{name}:large:{when}"));
            [of.map_or(f64::NAN, |s| s.median()), of.map_or(f64::NAN, |s| s.min())]
        });
        table.row([shown.to_string()].into_iter().chain(cells.map(|seconds| number(seconds * 1e3))));
    }
    report.table(table);
    let mut table = Table::new(["ms", "small", "min", "series", "min", "xarray", "min"]);
    for (name, shown) in [("raw", "raw"), ("thalweg", "Thalweg"), ("h5py", "h5py, h5netcdf"), ("BP5", "adios2 BP5")] {
        let cells = ["small", "series", "xarray"].into_iter().flat_map(|what| {
            let of = all.find(&format!("{name}:{what}"));
            [of.map_or(f64::NAN, |s| s.median()), of.map_or(f64::NAN, |s| s.min())]
        });
        table.row([shown.to_string()].into_iter().chain(cells.map(|seconds| number(seconds * 1e3))));
    }
    report.table(table);
    let of = |name: &str, what: &str| all.median(&format!("{name}:{what}"));
    report.at_most("first output, beside h5py", 1.15, of("thalweg", "large:first") / of("h5py", "large:first"));
    report.at_most("later outputs, beside raw", 1.25, of("thalweg", "large:later") / of("raw", "large:later"));
    for when in ["first", "later"] {
        let what = format!("large:{when}");
        let got = of("deferred", &what) / of("raw", &what);
        report.at_most(format!("copy=False, {when} output, beside raw"), 1.25, got);
    }
    report.at_least("small steps, times as fast as adios2 BP5", 1.0, of("BP5", "small") / of("thalweg", "small"));
    report.at_least("series, times as fast as h5py", 1.0, of("h5py", "series") / of("thalweg", "series"));
    report.at_least("xarray, times as fast as h5netcdf", 1.0, of("h5py", "xarray") / of("thalweg", "xarray"));
    report.finish(&all, options)
}
