//! Bench: the index of up to 100,000 process groups of 10 variables: merged, written, opened again, one variable listed;
//! beside ADIOS 1.13 opening the same file.
//!
//! A file is as 1000 ranks would write it, one process group each per step, without the payloads: the file is sparse
//! where they would lie, as nothing here reads them. Each measurement is taken inside a process of its own:
//!
//! | `bench-metadata ...` | what it does |
//! |---|---|
//! | `write FILE GROUPS LABEL` | merges the fragments of all ranks step by step, as a close does; encodes and writes |
//! | `open FILE VARIABLE LABEL` | opens the file and lists every block of the variable |
//!
//! Memory is the peak of the process less what it held before.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;
use thalweg_benches::contender::{Measurements, folder};
use thalweg_benches::options::Options;
use thalweg_benches::report::{Report, Table, number};
use thalweg_benches::{Failure, memory};
use thalweg_bp::characteristic::{Location, SINGLE_FILE};
use thalweg_bp::index::Index;
use thalweg_bp::process_group::{Block, Header};
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::{Accumulator, Level, Statistics};
use thalweg_layout::Direct;
use thalweg_reader::Reader;
use thalweg_store::posix::Posix;
use thalweg_types::ElementType;

const RANKS: u64 = 1000;
const VARIABLES: u64 = 10;
/// A block has 8 x 8 x 8 doubles.
const EDGE: u64 = 8;
const PAYLOAD: u64 = EDGE * EDGE * EDGE * 8;
/// Bytes a process group would take: each payload with its record's head, and 4 KiB for the rest.
const GROUP: u64 = VARIABLES * (PAYLOAD + 1024) + 4096;

fn main() -> Result<ExitCode, Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, what, path, detail, label] = arguments.as_slice() {
        match what.as_str() {
            "write" => return write(path, detail.parse()?, label),
            "open" => return open(path, detail, label),
            _ => {}
        }
    }
    let options = Options::from_arguments()?;
    let folder = folder("metadata")?;
    let adios1 = format!("{folder}/adios1");
    let this = std::env::current_exe()?;
    let sizes: &[u64] = options.size(&[1000, 3000, 10_000, 30_000, 100_000], &[1000, 3000]);
    let rounds = options.size(5, 2);

    let mut all = Measurements::default();
    for groups in sizes {
        let path = format!("{folder}/{groups}.bp");
        for _ in 0..rounds {
            all.run(Command::new(&this).args(["write", &path, &groups.to_string(), &format!("write-{groups}")]))?;
            all.run(Command::new(&this).args(["open", &path, "v3", &format!("thalweg-{groups}")]))?;
            if Path::new(&adios1).exists() {
                all.run(Command::new(&adios1).args([&path, "v3", &format!("adios1-{groups}")]))?;
                for what in ["blocks", "sum"] {
                    let of = |who: &str| all.median(&format!("{who}-{groups}:{what}"));
                    if of("thalweg") != of("adios1") {
                        return Err(format!("{what} of {path}: {} and {}", of("thalweg"), of("adios1")).into());
                    }
                }
            }
            std::fs::remove_file(&path)?;
        }
    }

    let about = format!(
        "Process groups of {RANKS} ranks with {VARIABLES} variables each, full statistics; {rounds} rounds. Open: from \
         before the open until every block of one variable is listed."
    );
    let mut report = Report::new("metadata", about, &folder);
    let blocks = |groups: u64| (groups * VARIABLES) as f64;
    let heads =
        ["process groups", "merge ms", "write ms", "us/group", "ns/block", "peak MiB", "bytes/block", "index MB"];
    let mut table = Table::new(heads);
    for groups in sizes {
        let of = |what: &str| all.median(&format!("write-{groups}:{what}"));
        let seconds = of("merge") + of("write");
        table.row([
            groups.to_string(),
            number(of("merge") * 1e3),
            number(of("write") * 1e3),
            number(seconds * 1e6 / *groups as f64),
            number(seconds * 1e9 / blocks(*groups)),
            number(of("memory") / 1048576.0),
            number(of("memory") / blocks(*groups)),
            number(of("index") * 1e-6),
        ]);
    }
    report.table(table);
    let heads = ["open and list one variable", "open ms", "open+list ms", "ns/block", "peak MiB", "bytes/block"];
    let mut table = Table::new(heads);
    for groups in sizes {
        for (who, shown) in [("thalweg", "Thalweg"), ("adios1", "ADIOS 1.13")] {
            let of = |what: &str| all.median(&format!("{who}-{groups}:{what}"));
            table.row([
                format!("{groups} groups, {shown}"),
                number(of("open") * 1e3),
                number(of("list") * 1e3),
                number(of("list") * 1e9 / blocks(*groups)),
                number(of("memory") / 1048576.0),
                number(of("memory") / blocks(*groups)),
            ]);
        }
    }
    report.table(table);
    let largest = sizes[sizes.len() - 1];
    for (what, shown) in [("list", "time"), ("memory", "memory")] {
        let got = all.median(&format!("adios1-{largest}:{what}")) / all.median(&format!("thalweg-{largest}:{what}"));
        report.at_least(format!("{largest} groups, open and list: times less {shown} than ADIOS 1.13"), 10.0, got);
    }
    let of = |groups: u64, what: &str| all.median(&format!("write-{groups}:{what}")) / groups as f64;
    let growth = (of(largest, "merge") + of(largest, "write"))
        / (of(10_000.min(largest), "merge") + of(10_000.min(largest), "write"));
    report.at_most("merge and write per group, largest beside 10,000: linear", 1.5, growth);
    report.finish(&all, options)
}

fn names() -> Vec<String> {
    (0..VARIABLES).map(|v| format!("v{v}")).collect()
}

/// The index of one rank's process group.
fn fragment(names: &[String], rank: u64, time: u64, statistics: &Statistics) -> Result<Vec<u8>, Failure> {
    let header = Header {
        group: "fields".into(),
        fortran: false,
        time_name: String::new(),
        time_index: time as u32,
        methods: vec![(0, String::new())],
    };
    let start = ((time - 1) * RANKS + rank) * GROUP;
    let mut index = Index::default();
    index.add_process_group(&header, rank as u32, start);
    let shape = Shape::global([EDGE; 3], [EDGE * RANKS, EDGE, EDGE], [EDGE * rank, 0, 0]);
    for (v, name) in names.iter().enumerate() {
        let block = Block {
            id: v as u32 + 1,
            name,
            path: "",
            element: ElementType::F64,
            is_dimension: false,
            shape: Some(&shape),
            level: Level::Full,
            statistics: Some(statistics),
            transform: None,
            payload: PAYLOAD,
        };
        let record_offset = start + 1024 + v as u64 * (PAYLOAD + 1024);
        let at = Location {
            record_offset,
            payload_offset: record_offset + 1024,
            file_index: SINGLE_FILE,
            time_index: time as u32,
        };
        index.add_block("fields", &block, at, None)?;
    }
    Ok(index.to_fragment())
}

fn write(path: &str, groups: u64, label: &str) -> Result<ExitCode, Failure> {
    let names = names();
    let mut values = Accumulator::new(ElementType::F64, Level::Full);
    values.update(bytemuck::cast_slice(&[0.25f64, 0.5, 1.0]));
    let statistics = values.finish().ok_or("doubles have statistics")?;
    let of_step = |time: u64| (0..RANKS).map(|r| fragment(&names, r, time, &statistics)).collect::<Result<Vec<_>, _>>();
    // What one step's fragments take is the network's, and is there before memory is looked at.
    drop(of_step(1)?);
    let before = memory::resident();
    let mut merging = 0.0;
    let mut index = Index::default();
    for time in 1..=groups / RANKS {
        let fragments = of_step(time)?;
        let start = Instant::now();
        let mut step = Index::default();
        fragments.iter().try_for_each(|f| step.append_fragment(f))?;
        index.append_fragment(&step.to_fragment())?;
        merging += start.elapsed().as_secs_f64();
    }
    let file = File::create(path)?;
    let end = groups * GROUP;
    file.set_len(end)?;
    let start = Instant::now();
    let encoded = index.encode(end, false, true)?;
    encoded.write(|before, slices| {
        let mut at = end + before;
        slices.iter().try_for_each(|s| {
            file.write_all_at(s, at)?;
            at += s.len() as u64;
            Ok::<_, std::io::Error>(())
        })
    })?;
    let writing = start.elapsed().as_secs_f64();
    println!("value {label}:merge {merging:.9}\nvalue {label}:write {writing:.9}");
    println!("value {label}:memory {}\nvalue {label}:index {}", memory::peak() - before, encoded.length);
    Ok(ExitCode::SUCCESS)
}

fn open(path: &str, variable: &str, label: &str) -> Result<ExitCode, Failure> {
    let before = memory::resident();
    let start = Instant::now();
    let reader = Reader::open(Arc::new(Direct::new(Arc::new(Posix::plain()))?), path)?;
    let opened = start.elapsed().as_secs_f64();
    let (mut blocks, mut sum) = (0u64, 0u64);
    reader.for_each_block(variable, 0..u64::MAX, &mut |b| {
        blocks += 1;
        sum += b.offset[0] + b.count[0];
        Ok(())
    })?;
    let listed = start.elapsed().as_secs_f64();
    println!("value {label}:open {opened:.9}\nvalue {label}:list {listed:.9}");
    println!("value {label}:memory {}", memory::peak() - before);
    println!("value {label}:blocks {blocks}\nvalue {label}:sum {sum}");
    Ok(ExitCode::SUCCESS)
}
