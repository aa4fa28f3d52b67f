//! Bench: whole steps, restarts, planes and pencils of a three-dimensional array in many blocks, and single points over
//! many steps; beside raw `pread`, ADIOS 1.13, adios2 (on the same files and on its own BP5) and h5py.
//!
//! Every contender reads in a process of its own, into memory that is there already, from the page cache. What is asked is
//! in a file that all read: one line per call, `PATTERN OFFSETS COUNTS`. `bench-read (raw|thalweg) ARRAY SERIES ASKED
//! ROUNDS` are such processes of ours.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, environment, folder};
use thalweg_benches::options::Options;
use thalweg_benches::report::{Report, Table, number};
use thalweg_comm::{Communicator, threads};
use thalweg_io::{Mode, Session};
use thalweg_layout::Direct;
use thalweg_reader::Reader;
use thalweg_store::posix::Posix;
use thalweg_types::{BoundingBox, Selection};

const PATTERNS: [&str; 9] =
    ["whole", "restart", "plane_x", "plane_y", "plane_z", "pencil_x", "pencil_y", "pencil_z", "series"];
const CONTENDERS: [(&str, &str); 6] = [
    ("raw", "pread"),
    ("thalweg", "Thalweg"),
    ("ADIOS1", "ADIOS 1.13"),
    ("BP3", "adios2 BP3"),
    ("BP5", "adios2 BP5"),
    ("h5py", "h5py"),
];
/// Ranks that write, and blocks each way.
const RANKS: u32 = 4;
const CUTS: u64 = 4;

fn main() -> Result<ExitCode, Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, what, array, series, asked, rounds] = arguments.as_slice() {
        return read(what, array, series, &std::fs::read_to_string(asked)?, rounds.parse()?);
    }
    let options = Options::from_arguments()?;
    let folder = folder("read")?;
    let python = environment("PYTHON")?;
    let (edge, small, steps) = options.size((256u64, 32u64, 1000u64), (64, 16, 50));
    let rounds = options.size(5u32, 2);
    let path = |name: &str| format!("{folder}/{name}");
    let (array, series, asked) = (path("array.bp"), path("series.bp"), path("asked"));
    write(&array, edge, 1)?;
    write(&series, small, steps)?;
    std::fs::write(&asked, questions(edge, small, steps))?;
    let mut all = Measurements::default();
    let serial = |what: &str| {
        let mut command = Command::new(&python);
        command.args(["benches/read/serial.py", what, &folder, &rounds.to_string()]);
        command.args([edge, small, steps].map(|n| n.to_string()));
        command
    };
    all.run(&mut serial("write"))?;
    let this = std::env::current_exe()?;
    let adios1 = path("adios1");
    for turn in 0..options.size(5, 1) {
        for i in 0..CONTENDERS.len() {
            let (name, _) = CONTENDERS[(i + turn) % CONTENDERS.len()];
            let own = [&array, &series, &asked].map(String::as_str);
            match name {
                "raw" | "thalweg" => {
                    all.run(Command::new(&this).arg(name).args(own).arg(rounds.to_string()))?;
                }
                "ADIOS1" if std::path::Path::new(&adios1).exists() => {
                    all.run(Command::new(&adios1).args(own).arg(rounds.to_string()))?;
                }
                "ADIOS1" => {}
                other => all.run(&mut serial(other))?,
            }
        }
    }
    for name in ["array.bp", "series.bp", "array.h5", "series.h5"] {
        std::fs::remove_file(path(name))?;
    }
    for name in ["array.bp5", "series.bp5"] {
        std::fs::remove_dir_all(path(name))?;
    }
    // All read the same values.
    for pattern in PATTERNS {
        let wanted = all.median(&format!("thalweg:{pattern}:sum"));
        for (name, _) in CONTENDERS.iter().filter(|(name, _)| *name != "raw") {
            let got = all.median(&format!("{name}:{pattern}:sum"));
            if got != wanted && !got.is_nan() {
                return Err(format!("{pattern}: {name} read values with sum {got}, Thalweg {wanted}").into());
            }
        }
    }
    let about = format!(
        "An array of {edge}^3 doubles in {} blocks, and {steps} steps of {small}^3 doubles in {0} blocks, written by {RANKS} ranks; \
         read by one, milliseconds per pattern. whole: everything; restart: the boxes of 6 ranks; 8 planes across each dimension \
         (x is the slowest), 32 pencils along each; series: 8 points over all steps. h5py and adios2 BP5 read files of their own; \
         HDF5's is contiguous.",
        CUTS.pow(3)
    );
    let mut report = Report::new("read", about, &folder);
    for (title, scale, what) in [("median ms", 1e3, ""), ("bytes read / asked", 1.0, ":ratio")] {
        let mut table = Table::new([
            title, "whole", "restart", "plane x", "plane y", "plane z", "pencil x", "pencil y", "pencil z", "series",
        ]);
        for (name, shown) in CONTENDERS {
            let cells = PATTERNS.map(|p| number(all.median(&format!("{name}:{p}{what}")) * scale));
            table.row([shown.to_string()].into_iter().chain(cells));
        }
        report.table(table);
    }
    let of = |name: &str, pattern: &str| all.median(&format!("{name}:{pattern}"));
    report.at_least("whole steps, of raw pread", 0.95, of("raw", "whole") / of("thalweg", "whole"));
    for (name, shown) in &CONTENDERS[2..] {
        for pattern in PATTERNS {
            let got = of(name, pattern) / of("thalweg", pattern);
            report.at_least(format!("{pattern}, times as fast as {shown}"), 1.0, got);
        }
    }
    report.at_most("bytes read over bytes asked, planes along blocks", 1.1, all.median("thalweg:plane_x:ratio"));
    report.finish(&all, options)
}

/// What is asked, one call a line.
fn questions(edge: u64, small: u64, steps: u64) -> String {
    let mut text = String::new();
    let mut ask = |name: &str, offset: [u64; 3], count: [u64; 3]| {
        let numbers = offset.iter().chain(&count).map(u64::to_string).collect::<Vec<_>>().join(" ");
        text += &format!("{name} {numbers}\n");
    };
    ask("whole", [0; 3], [edge; 3]);
    for rank in 0..6 {
        let cut = |n: u64, of: u64| edge * n / of;
        let (y, z) = (rank / 2, rank % 2);
        ask("restart", [0, cut(y, 3), cut(z, 2)], [edge, cut(y + 1, 3) - cut(y, 3), cut(z + 1, 2) - cut(z, 2)]);
    }
    for (d, name) in ["x", "y", "z"].into_iter().enumerate() {
        for i in 0..8 {
            let (mut offset, mut count) = ([0; 3], [edge; 3]);
            (offset[d], count[d]) = ((5 + 31 * i) % edge, 1);
            ask(&format!("plane_{name}"), offset, count);
        }
    }
    for (d, name) in ["x", "y", "z"].into_iter().enumerate() {
        for i in 0..32 {
            let (mut offset, mut count) = ([13 * i % edge, 29 * i % edge, (7 * i + 3) % edge], [1; 3]);
            (offset[d], count[d]) = (0, edge);
            ask(&format!("pencil_{name}"), offset, count);
        }
    }
    for i in 0..8 {
        ask("series", [3 * i % small, 5 * i % small, 7 * i % small], [steps, 1, 1]);
    }
    text
}

/// Writes an array of `edge` elements each way, [`CUTS`] blocks each way, every rank a part of them.
fn write(path: &str, edge: u64, steps: u64) -> Result<(), Failure> {
    let size = edge / CUTS;
    let xml = format!(
        r#"<adios-config host-language="C"><adios-group name="g">
             <var name="x" type="long"/><var name="y" type="long"/><var name="z" type="long"/>
             <global-bounds dimensions="{edge},{edge},{edge}" offsets="x,y,z">
               <var name="v" type="double" dimensions="{size},{size},{size}"/>
             </global-bounds>
           </adios-group><method group="g" method="MPI"/></adios-config>"#
    );
    let outcomes = threads::run(RANKS, |comm| -> Result<(), String> {
        let go = || -> Result<(), Failure> {
            let session = Session::from_xml(&xml, "bench", comm.duplicate()?)?;
            let mut values = vec![0.0f64; (size * size * size) as usize];
            for step in 0..steps {
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                let mut output = session.open("g", path, mode, comm.duplicate()?)?;
                for block in (0..CUTS.pow(3)).filter(|b| b % u64::from(RANKS) == u64::from(comm.rank())) {
                    let at = [block / CUTS / CUTS, block / CUTS % CUTS, block % CUTS].map(|n| n * size);
                    for (value, i) in values.iter_mut().zip(0..) {
                        let [x, y, z] = [at[0] + i / size / size, at[1] + i / size % size, at[2] + i % size];
                        *value = (step + (x * edge + y) * edge + z) as f64;
                    }
                    for (name, number) in ["x", "y", "z"].into_iter().zip(at) {
                        output.write_values(name, &[number as i64])?;
                    }
                    output.write_values("v", &values)?;
                }
                output.close()?;
            }
            session.finalize()?;
            Ok(())
        };
        go().map_err(|e| e.to_string())
    });
    outcomes.into_iter().collect::<Result<(), String>>().map_err(Into::into)
}

struct ReadCase {
    pattern: String,
    offset: Vec<u64>,
    count: Vec<u64>,
}

fn parse(asked: &str) -> Result<Vec<ReadCase>, Failure> {
    let line = |line: &str| -> Result<ReadCase, Failure> {
        let mut words = line.split(' ');
        let pattern = words.next().unwrap_or_default().to_string();
        let numbers = words.map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        Ok(ReadCase { pattern, offset: numbers[..3].to_vec(), count: numbers[3..].to_vec() })
    };
    asked.lines().map(line).collect()
}

/// Memory as numpy gives it to the contenders in Python: in huge pages where the machine has them, touched before.
fn memory(most: usize) -> Result<memmap2::MmapMut, Failure> {
    let mut memory = memmap2::MmapMut::map_anon(most * size_of::<f64>())?;
    memory.advise(memmap2::Advice::HugePage)?;
    memory.fill(1);
    Ok(memory)
}

/// Bytes this process has read so far.
fn bytes_read() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let line = text.lines().find_map(|l| l.strip_prefix("rchar: ")).ok_or("no rchar")?;
    Ok(line.parse()?)
}

fn read(what: &str, array: &str, series: &str, asked: &str, rounds: u32) -> Result<ExitCode, Failure> {
    use std::os::unix::fs::FileExt;
    let asked = parse(asked)?;
    let layout: Arc<Direct> = Arc::new(Direct::new(Arc::new(Posix::plain()))?);
    let readers = [array, series].map(|path| Reader::open(layout.clone(), path));
    let [in_array, in_series] = readers;
    let (in_array, in_series) = (in_array?, in_series?);
    let files = [std::fs::File::open(array)?, std::fs::File::open(series)?];
    let (steps, whole) = (in_series.variable("v")?.steps, in_array.shape("v", 0)?);
    let most = whole.iter().product::<u64>() as usize;
    let mut out = memory(most)?;
    let out: &mut [f64] = bytemuck::cast_slice_mut(&mut out);
    for round in 0..=rounds {
        for pattern in PATTERNS {
            let (mut seconds, mut bytes, mut sum) = (0.0, 0, 0.0);
            let before = bytes_read()?;
            for ask in asked.iter().filter(|a| a.pattern == pattern) {
                let n = ask.count.iter().product::<u64>() as usize;
                let memory: &mut [u8] = bytemuck::cast_slice_mut(&mut out[..n]);
                bytes += memory.len() as u64;
                let start = Instant::now();
                match what {
                    // As many bytes, in one piece.
                    "raw" => files[usize::from(pattern == "series")].read_exact_at(memory, 0)?,
                    _ if pattern == "series" => {
                        let point = Selection::Points(vec![ask.offset.clone()]);
                        in_series.read_steps("v", &steps, &point, memory)?;
                    }
                    _ => {
                        let wanted = BoundingBox::new(ask.offset.clone(), ask.count.clone());
                        in_array.read("v", 0, &Selection::Box(wanted), memory)?;
                    }
                }
                seconds += start.elapsed().as_secs_f64();
                if round == 0 {
                    sum += out[..n].iter().sum::<f64>();
                }
            }
            let read = bytes_read()?.saturating_sub(before);
            if round == 0 {
                println!("value {what}:{pattern}:sum {sum}");
            } else {
                println!("value {what}:{pattern} {seconds:.9}");
                println!("value {what}:{pattern}:ratio {:.4}", read as f64 / bytes as f64);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
