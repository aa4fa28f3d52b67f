//! Bench: what statistics and checksum of 512 million doubles cost, alone and beside the write of the same bytes.
//!
//! One thread. The doubles are taken in pieces of 512 MiB, far beyond any cache; each piece is written to a file of its
//! own that is removed before the next, so that the kernel never holds more unwritten pages than one piece.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, folder};
use thalweg_benches::options::Options;
use thalweg_benches::report::{Report, Table, number};
use thalweg_bp::pass;
use thalweg_bp::statistics::{Accumulator, Level};
use thalweg_comm::{Communicator, alone::Alone};
use thalweg_io::{Mode, Session, WriteRequest};
use thalweg_types::ElementType;
use thalweg_types::checksum::crc32c;

const PIECE_DOUBLES: usize = 64 << 20;

/// What is measured on every piece, and what the rows are called.
const VARIANTS: [(&str, &str); 9] = [
    ("read", "reading alone (a sum)"),
    ("copy", "copy alone"),
    ("statistics", "statistics"),
    ("checksum", "checksum"),
    ("both", "statistics and checksum"),
    ("all", "statistics, checksum and copy"),
    ("pwrite", "pwrite"),
    ("output", "Thalweg output, stats=\"on\""),
    ("output-off", "Thalweg output, stats=\"off\""),
];

fn session(statistics: &str) -> Result<Session, Failure> {
    let xml = format!(
        r#"<adios-config><adios-group name="g" stats="{statistics}"><var name="n" type="unsigned long"/>
        <var name="t" type="double" dimensions="n" copy-on-write="no"/></adios-group><method group="g" method="MPI"/></adios-config>"#
    );
    Ok(Session::from_xml(&xml, "bench", Box::new(Alone::new()))?)
}

fn output(session: &Session, path: &str, data: &[f64]) -> Result<(), Failure> {
    let mut output = session.open("g", path, Mode::Write, Alone::new().duplicate()?)?;
    output.write_values("n", &[data.len() as u64])?;
    output.put(WriteRequest::deferred("t", bytemuck::cast_slice(data)))?;
    output.close()?;
    Ok(())
}

fn main() -> Result<ExitCode, Failure> {
    let options = Options::from_arguments()?;
    let folder = folder("characteristics")?;
    let path = format!("{folder}/piece.bp");
    let (doubles, pieces) = options.size((PIECE_DOUBLES, 8), (1 << 20, 2));
    let mut state = 88172645463325252u64;
    let data: Vec<f64> = (0..doubles)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 * 1e-16
        })
        .collect();
    let bytes: &[u8] = bytemuck::cast_slice(&data);
    let mut copied: Vec<u8> = Vec::with_capacity(bytes.len());
    copied.resize(bytes.len(), 1); // its pages are there before anything is measured
    let (with, without) = (session("On")?, session("Off")?);

    let mut all = Measurements::default();
    // The first piece warms up and is not kept.
    for piece in 0..=pieces {
        for i in 0..VARIANTS.len() {
            let variant = VARIANTS[(i + piece) % VARIANTS.len()].0;
            let start = Instant::now();
            match variant {
                "read" => {
                    let words: &[u64] = bytemuck::cast_slice(&data);
                    black_box(words.iter().fold(0u64, |a, b| a.wrapping_add(*b)));
                }
                "copy" => copied.copy_from_slice(bytes),
                "statistics" => {
                    let mut statistics = Accumulator::new(ElementType::F64, Level::Full);
                    bytes.chunks(pass::PIECE).for_each(|p| statistics.update(p));
                    black_box(statistics.finish());
                }
                "checksum" => {
                    black_box(crc32c(bytes));
                }
                "both" => {
                    black_box(pass::look(bytes, ElementType::F64, Level::Full));
                }
                "all" => {
                    copied.clear();
                    black_box(pass::copy(bytes, ElementType::F64, Level::Full, &mut copied));
                }
                "pwrite" => File::create(&path)?.write_all(bytes)?,
                "output" => output(&with, &path, &data)?,
                _ => output(&without, &path, &data)?,
            }
            let seconds = start.elapsed().as_secs_f64();
            if piece > 0 {
                all.add(variant, seconds);
            }
            let _ = std::fs::remove_file(&path);
        }
    }

    let total = (doubles * pieces) as f64;
    let about = format!(
        "{:.0} million doubles in {pieces} pieces of {} MiB, one thread, each way in turn on every piece; written into the \
         page cache.",
        total / f64::from(1 << 20),
        bytes.len() >> 20
    );
    let mut report = Report::new("characteristics", about, &folder);
    let mut table = Table::new(["one pass", "median GB/s", "best GB/s", "s for all", "beside pwrite"]);
    let whole = |variant: &str| all.median(variant) * pieces as f64;
    for (variant, shown) in VARIANTS {
        let best = all.find(variant).map_or(f64::NAN, |s| s.min());
        table.row([
            shown.into(),
            number(bytes.len() as f64 * 1e-9 / all.median(variant)),
            number(bytes.len() as f64 * 1e-9 / best),
            number(whole(variant)),
            number(whole(variant) / whole("pwrite")),
        ]);
    }
    report.table(table);
    let mut table = Table::new(["share of an output's time", "percent"]);
    table.row(["statistics and checksum".into(), number(100.0 * all.median("both") / all.median("output"))]);
    table.row([
        "statistics (output with, less output without)".into(),
        number(100.0 * (all.median("output") - all.median("output-off")) / all.median("output")),
    ]);
    report.table(table);
    report.finish(&all, options)
}
