//! Bench: 100,000 appended steps of 20 small variables; then the file opened and one scalar read over all steps, beside
//! the BP4 engine of adios2 on a file of the same content.
//!
//! Reading is measured inside processes of their own, from before the open until the values are there; the page
//! cache is warm for all. `bench-steps read FILE` is such a process of ours.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, environment, folder};
use thalweg_benches::memory;
use thalweg_benches::options::Options;
use thalweg_benches::report::{Report, Table, number};
use thalweg_benches::samples::Samples;
use thalweg_comm::{Communicator, alone::Alone};
use thalweg_io::{Mode, Session};
use thalweg_layout::Direct;
use thalweg_reader::Reader;
use thalweg_store::posix::Posix;
use thalweg_types::Selection;

const METHODS: [&str; 2] = ["MPI", "POSIX"];

fn main() -> Result<ExitCode, Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, what, path, label] = arguments.as_slice()
        && what == "read"
    {
        return read(path, label);
    }
    let options = Options::from_arguments()?;
    let folder = folder("steps")?;
    let python = environment("PYTHON")?;
    let (steps, stretch, rounds) = options.size((100_000u64, 1000usize, 3), (2000, 100, 1));
    let path = |name: &str| format!("{folder}/{name}.bp");

    let mut all = Measurements::default();
    for _ in 0..rounds {
        for method in METHODS {
            remove(&path(method))?;
            write(method, &path(method), steps, stretch, &mut all)?;
        }
    }
    remove(&path("BP4"))?;
    all.run(Command::new(&python).args(["benches/steps/bp4.py", "write", &path("BP4"), &steps.to_string()]))?;
    let this = std::env::current_exe()?;
    for _ in 0..options.size(7, 2) {
        for method in METHODS {
            all.run(Command::new(&this).args(["read", &path(method), method]))?;
        }
        all.run(Command::new(&python).args(["benches/steps/bp4.py", "read", &path("BP4")]))?;
    }
    // All read the same values.
    for method in METHODS {
        let (ours, theirs) = (all.median(&format!("{method}:sum")), all.median("BP4:sum"));
        if ours != theirs {
            return Err(format!("{method} read values with sum {ours}, BP4 {theirs}").into());
        }
    }
    let bytes = METHODS.map(|m| size(&path(m))).into_iter().chain([size(&path("BP4"))]).collect::<Vec<_>>();
    METHODS.iter().chain(&["BP4"]).try_for_each(|name| remove(&path(name)))?;

    let about = format!(
        "{steps} appended steps of 10 scalars and 10 arrays of 8 doubles, one rank, each step opened, written and \
         closed; first and last {stretch} steps compared (mean, and the step in the middle), in {rounds} rounds. Then open, and one scalar over all steps."
    );
    let mut report = Report::new("steps", about, &folder);
    let mut table = Table::new([
        "writing",
        "first us",
        "last us",
        "last/first",
        "middle first us",
        "middle last us",
        "last/first",
        "all s",
        "finalize s",
    ]);
    for method in METHODS {
        let of = |what: &str| all.median(&format!("{method}:{what}"));
        let stretch = stretch as f64;
        table.row([
            format!("Thalweg {method}"),
            number(of("first") * 1e6 / stretch),
            number(of("last") * 1e6 / stretch),
            number(of("last/first")),
            number(of("middle first") * 1e6),
            number(of("middle last") * 1e6),
            number(of("middle last/first")),
            number(of("all")),
            number(of("finalize")),
        ]);
    }
    let mut row = vec!["-".to_string(); 9];
    (row[0], row[7]) = ("adios2 BP4 (file kept open)".into(), number(all.median("BP4:all")));
    table.row(row);
    report.table(table);
    let mut table = Table::new(["reading", "open ms", "open and read ms", "min ms", "memory MiB", "file MB"]);
    for (name, bytes) in METHODS.into_iter().chain(["BP4"]).zip(bytes) {
        let of = |what: &str| all.median(&format!("{name}:{what}"));
        table.row([
            if name == "BP4" { "adios2 BP4".into() } else { format!("Thalweg {name}") },
            number(of("open") * 1e3),
            number(of("read") * 1e3),
            number(all.find(&format!("{name}:read")).map_or(f64::NAN, |s| s.min()) * 1e3),
            number(of("memory") / 1048576.0),
            number(bytes as f64 * 1e-6),
        ]);
    }
    report.table(table);
    for method in METHODS {
        let got = all.median(&format!("{method}:last/first"));
        report.at_most(format!("{method}, a step of the last thousand beside one of the first"), 1.2, got);
    }
    for method in METHODS {
        let got = all.median("BP4:read") / all.median(&format!("{method}:read"));
        report.at_least(format!("{method}, open and read, times as fast as adios2 BP4"), 3.0, got);
    }
    report.finish(&all, options)
}

fn write(method: &str, path: &str, steps: u64, stretch: usize, all: &mut Measurements) -> Result<(), Failure> {
    let variables: String = (0..10)
        .map(|i| format!(r#"<var name="s{i}" type="double"/><var name="a{i}" type="double" dimensions="8"/>"#))
        .collect();
    let xml = format!(
        r#"<adios-config><adios-group name="g">{variables}</adios-group><method group="g" method="{method}"/></adios-config>"#
    );
    let comm = Alone::new();
    let session = Session::from_xml(&xml, "bench", comm.duplicate()?)?;
    let names: Vec<(String, String)> = (0..10).map(|i| (format!("s{i}"), format!("a{i}"))).collect();
    let mut seconds = Vec::with_capacity(steps as usize);
    let begin = Instant::now();
    for step in 0..steps {
        let start = Instant::now();
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        let mut output = session.open("g", path, mode, comm.duplicate()?)?;
        for (i, (scalar, array)) in names.iter().enumerate() {
            output.write_values(scalar, &[step as f64 + i as f64])?;
            output.write_values(array, &[step as f64; 8])?;
        }
        output.close()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    all.add(&format!("{method}:all"), begin.elapsed().as_secs_f64());
    let start = Instant::now();
    session.finalize()?;
    all.add(&format!("{method}:finalize"), start.elapsed().as_secs_f64());
    let first: f64 = seconds[..stretch].iter().sum();
    let last: f64 = seconds[seconds.len() - stretch..].iter().sum();
    all.add(&format!("{method}:first"), first);
    all.add(&format!("{method}:last"), last);
    all.add(&format!("{method}:last/first"), last / first);
    // The step in the middle: what a step costs where nothing else wants the machine.
    let middle = |of: &[f64]| Samples(of.to_vec()).median();
    let (first, last) = (middle(&seconds[..stretch]), middle(&seconds[seconds.len() - stretch..]));
    all.add(&format!("{method}:middle first"), first);
    all.add(&format!("{method}:middle last"), last);
    all.add(&format!("{method}:middle last/first"), last / first);
    Ok(())
}

fn read(path: &str, label: &str) -> Result<ExitCode, Failure> {
    let before = memory::resident();
    let start = Instant::now();
    let reader = Reader::open(Arc::new(Direct::new(Arc::new(Posix::plain()))?), path)?;
    let opened = start.elapsed().as_secs_f64();
    let steps = reader.variable("s3")?.steps;
    let values = reader.read_steps_as::<f64>("s3", &steps, &Selection::All)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("value {label}:open {opened:.9}");
    println!("value {label}:read {seconds:.9}");
    println!("value {label}:memory {}", memory::peak() - before);
    println!("value {label}:sum {:.1}", values.iter().sum::<f64>());
    Ok(ExitCode::SUCCESS)
}

/// Removes a file, its folder of subfiles, or a folder that is the file.
fn remove(path: &str) -> Result<(), Failure> {
    for path in [path.to_string(), format!("{path}.dir")] {
        match std::fs::metadata(&path) {
            Ok(m) if m.is_dir() => std::fs::remove_dir_all(&path)?,
            Ok(_) => std::fs::remove_file(&path)?,
            Err(_) => {}
        }
    }
    Ok(())
}

/// Bytes of a file and of what lies in its folder.
fn size(path: &str) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let of_folder = |folder: &str| -> u64 {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files.filter_map(|f| Some(f.metadata().ok()?.blocks() * 512)).sum()
    };
    let own = std::fs::metadata(path).map_or(0, |m| if m.is_dir() { of_folder(path) } else { m.blocks() * 512 });
    own + of_folder(&format!("{path}.dir"))
}
