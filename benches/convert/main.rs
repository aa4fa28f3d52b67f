//! Bench: a BP file of 8,192 process groups into HDF5, netCDF-4 and Zarr, beside copying its bytes, and beside h5py, which copies the
//! datasets of the HDF5 file. Then a step read from views, and from converted files.
//!
//! Before each measurement memory is used once by a file that is removed: see [`memory::warm`].

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Instant;
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, environment, folder};
use thalweg_benches::memory;
use thalweg_benches::options::Options;
use thalweg_benches::report::{Report, Table, number};
use thalweg_comm::{Communicator, threads};
use thalweg_convert::InFolder;
use thalweg_io::{BlockBox, Mode, Session, WriteRequest};
use thalweg_layout::Direct;
use thalweg_reader::Reader;
use thalweg_schema::xml;
use thalweg_store::posix::Posix;
use thalweg_views::zarr::tables::Tables;

/// Elements of a block along each axis.
const BLOCK: u64 = 16;
/// Blocks along each axis: a rank for each of them.
const GRID: [u64; 3] = [4, 8, 8];
const VARIABLES: [&str; 4] = ["rho", "T", "u", "v"];
const XML: &str = r#"<adios-config><adios-group name="chimera"><global-bounds dimensions="64,128,128" offsets="0,0,0">
    <var name="rho" type="double" dimensions="16,16,16"/><var name="T" type="double" dimensions="16,16,16"/>
    <var name="u" type="double" dimensions="16,16,16"/><var name="v" type="double" dimensions="16,16,16"/>
    </global-bounds></adios-group><method group="chimera" method="MPI"/></adios-config>"#;

fn main() -> Result<ExitCode, Failure> {
    let options = Options::from_arguments()?;
    let own = folder("convert")?;
    let folder = format!("{own}/work");
    fs::create_dir_all(&folder)?;
    let (python, thalweg) = (environment("PYTHON")?, environment("THALWEG")?);
    let (steps, rounds) = options.size((32u64, 5), (2, 1));
    let source = format!("{folder}/run.bp");
    write(&folder, steps)?;
    let ranks = GRID.iter().product::<u64>();
    let blocks = ranks * steps * VARIABLES.len() as u64;
    let bytes = fs::metadata(&source)?.len();
    let mib = bytes >> 20;
    let mut all = Measurements::default();
    let targets = ["h5", "nc", "zarr", "bp2"];
    for turn in 0..rounds {
        for number in 0..6 {
            let which = (number + turn) % 6;
            memory::warm(&folder, mib)?;
            let target = format!("{folder}/out");
            let start = Instant::now();
            match which {
                0 => copy(&source, &target)?,
                1..=3 => {
                    let target = format!("{folder}/out.{}", targets[which - 1]);
                    call(Command::new(&thalweg).args(["convert", &source, &target]))?;
                }
                4 => call(Command::new(&thalweg).args(["copy", &source, &format!("{folder}/out.bp")]))?,
                _ => {
                    let from = format!("{folder}/own.h5");
                    if !fs::exists(&from)? {
                        call(Command::new(&thalweg).args(["convert", &source, &from]))?;
                        memory::warm(&folder, mib)?;
                    }
                    all.run(Command::new(&python).args(["benches/convert/peer.py", "copy", &from, &target]))?;
                }
            }
            let name = ["raw", "h5", "nc", "zarr", "bp"].get(which);
            if let Some(name) = name {
                all.add(&format!("{name}:s"), start.elapsed().as_secs_f64());
            }
            for ending in ["out", "out.h5", "out.nc", "out.bp"] {
                let _ = fs::remove_file(format!("{folder}/{ending}"));
            }
            let _ = fs::remove_dir_all(format!("{folder}/out.zarr"));
        }
    }
    // Views, and what reads them.
    call(Command::new(&thalweg).args(["convert", &source, &format!("{folder}/own.zarr")]))?;
    for _ in 0..rounds {
        for (name, form, ending) in
            [("hdf5", "hdf5", "view.h5"), ("zarr", "zarr", "view.json"), ("tables", "zarr", "view.parquet")]
        {
            let view = format!("{folder}/{ending}");
            let start = Instant::now();
            call(Command::new(&thalweg).args(["view", form, &source, "-o", &view]))?;
            all.add(&format!("view {name}:ms"), start.elapsed().as_secs_f64() * 1e3);
        }
    }
    // Steps joined to a view, over several times the rows of a file of each table.
    let (joined, step_blocks) = options.size((64u64, 1024u64), (16, 64));
    for _ in 0..rounds {
        let each = join_steps(&folder, &thalweg, joined, step_blocks)?;
        let few = each.len() / 4;
        each[..few].iter().for_each(|ms| all.add("step early:ms", *ms));
        each[each.len() - few..].iter().for_each(|ms| all.add("step late:ms", *ms));
        fs::remove_dir_all(format!("{folder}/joined.parquet"))?;
        fs::remove_file(format!("{folder}/joined.bp"))?;
    }
    let reads = [
        ("hdf5", "own.h5", "read:own:hdf5"),
        ("hdf5", "view.h5", "read:view:hdf5"),
        ("zarr", "own.zarr", "read:own:zarr"),
        ("references", "view.json", "read:view:zarr"),
        ("references", "view.parquet", "read:view:tables"),
    ];
    for _ in 0..rounds {
        for (form, file, name) in reads {
            let path = format!("{folder}/{file}");
            all.run(Command::new(&python).args(["benches/convert/peer.py", "read", form, &path, "T", name]))?;
        }
    }
    fs::remove_dir_all(&folder)?;

    let about = format!(
        "{steps} steps of {ranks} ranks, {} process groups: {} arrays of 64 x 128 x 128 doubles in blocks of {BLOCK} x {BLOCK} x {BLOCK}, {blocks} blocks, \
         {mib} MiB with statistics and checksums. Whole processes, into new files, {rounds} rounds; into the page cache. h5py copies the datasets of the \
         converted file, a step at a time. Reads: one step of one array, 8 MiB, in an open file.",
        ranks * steps,
        VARIABLES.len()
    );
    let mut report = Report::new("convert", about, &own);
    let mut table = Table::new(["from BP", "s", "min s", "MiB/s", "of raw"]);
    let raw = all.median("raw:s");
    for (name, shown) in [
        ("raw:s", "bytes copied"),
        ("h5:s", "thalweg convert, HDF5"),
        ("nc:s", "thalweg convert, netCDF-4"),
        ("zarr:s", "thalweg convert, Zarr"),
        ("bp:s", "thalweg copy"),
        ("h5py:copy", "h5py, HDF5 to HDF5"),
    ] {
        let least = all.find(name).map_or(f64::NAN, |samples| samples.min());
        let median = all.median(name);
        table.row([
            shown.to_string(),
            number(median),
            number(least),
            number(mib as f64 / median),
            number(raw / median),
        ]);
    }
    report.table(table);
    let mut table = Table::new(["view", "ms", "ms per 1,000 blocks", "a step, ms", "converted file, ms"]);
    for (form, own, shown) in [
        ("hdf5", "hdf5", "HDF5, h5py"),
        ("zarr", "zarr", "kerchunk JSON, zarr"),
        ("tables", "zarr", "kerchunk Parquet, zarr"),
    ] {
        let ms = all.median(&format!("view {form}:ms"));
        let read = |name: String| number(all.median(&name) * 1e3);
        table.row([
            shown.to_string(),
            number(ms),
            number(ms * 1e3 / blocks as f64),
            read(format!("read:view:{form}")),
            read(format!("read:own:{own}")),
        ]);
    }
    report.table(table);
    let mut table = Table::new(["a step joined to kerchunk Parquet", "ms", "ms per 1,000 new blocks"]);
    for which in ["early", "late"] {
        let ms = all.median(&format!("step {which}:ms"));
        table.row([format!("{which}, {step_blocks} blocks"), number(ms), number(ms * 1e3 / step_blocks as f64)]);
    }
    report.table(table);
    for (name, shown) in [("h5", "HDF5"), ("nc", "netCDF-4"), ("zarr", "Zarr")] {
        report.at_least(format!("{shown}, speed beside copied bytes"), 0.5, raw / all.median(&format!("{name}:s")));
    }
    report.at_least("HDF5, times as fast as h5py's copy", 1.0, all.median("h5py:copy") / all.median("h5:s"));
    let per = |form: &str| all.median(&format!("view {form}:ms")) * 1e3 / blocks as f64;
    report.at_most("view for HDF5, ms per 1,000 blocks", 50.0, per("hdf5"));
    report.at_most("view for Zarr, ms per 1,000 blocks", 1.0, per("zarr"));
    report.at_most("view for Zarr as tables, ms per 1,000 blocks", 1.0, per("tables"));
    let of_step = |which: &str| all.median(&format!("step {which}:ms"));
    report.at_most("a step joined to tables, ms per 1,000 new blocks", 1.0, of_step("late") * 1e3 / step_blocks as f64);
    report.at_most("a late step joined to tables, beside an early one", 1.5, of_step("late") / of_step("early"));
    for (form, own) in [("hdf5", "hdf5"), ("zarr", "zarr"), ("tables", "zarr")] {
        let speed = all.median(&format!("read:own:{own}")) / all.median(&format!("read:view:{form}"));
        report.at_least(format!("view for {form}, speed of a step beside the converted file"), 0.8, speed);
    }
    report.finish(&all, options)
}

/// Steps of so many small blocks joined to a view as tables while they are written: from the end of each output until the view shows it.
/// The first two make the view; they are not among the measurements.
fn join_steps(folder: &str, thalweg: &str, steps: u64, blocks: u64) -> Result<Vec<f64>, Failure> {
    let view = format!("{folder}/joined.parquet");
    fs::create_dir_all(&view)?;
    let mut program = Command::new(format!("{thalweg}-convert"))
        .arg("references")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{thalweg}-convert: {e}"))?;
    let mut asked = program.stdin.take().ok_or("no pipe")?;
    let mut told = program.stdout.take().ok_or("no pipe")?;
    let layout = Arc::new(Direct::new(Arc::new(Posix::at(folder)?))?);
    let schema = xml::parse(XML, "chimera").map_err(|report| report.render(false))?;
    let comm = thalweg_comm::alone::Alone::new();
    let session = Session::with_layout(schema, layout.clone(), comm.duplicate()?)?;
    let (mut reader, mut tables): (Option<Reader>, Option<Tables>) = (None, None);
    let mut all = Vec::new();
    for step in 0..steps {
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        let mut output = session.open("chimera", "joined.bp", mode, comm.duplicate()?)?;
        for name in VARIABLES {
            let each = blocks / VARIABLES.len() as u64;
            for block in 0..each {
                let (shape, offset) = (Some(vec![1, each, 16]), Some(vec![0, block, 0]));
                let place = BlockBox { count: vec![1, 1, 16], shape, offset };
                output.put(WriteRequest::new(name, &[0; 128]).in_box(place))?;
            }
        }
        output.close()?;
        let start = Instant::now();
        let known = match &mut reader {
            Some(reader) => {
                reader.catch_up()?;
                reader
            }
            none => none.insert(Reader::open(layout.clone(), "joined.bp")?),
        };
        let grown = tables.as_mut().map(|tables| tables.advance(known)).transpose()?.flatten();
        let tabled = match grown {
            Some(tabled) => tabled,
            None if step < 2 => {
                let (made, tabled) = Tables::of(known, None)?;
                tables = Some(made);
                tabled
            }
            None => return Err(format!("step {step}: the tables do not grow").into()),
        };
        let shown = view.clone();
        serde_json::to_writer(&mut asked, &InFolder { folder: view.clone(), shown, change: tabled.change })?;
        asked.write_all(b"\n")?;
        told.read_exact(&mut [0])?;
        if step >= 2 {
            all.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    session.finalize()?;
    drop(asked);
    match program.wait()?.success() {
        true => Ok(all),
        false => Err("thalweg-convert failed".into()),
    }
}

/// Copies bytes by plain reads and writes.
fn copy(from: &str, to: &str) -> Result<(), Failure> {
    let (mut from, mut to) = (fs::File::open(from)?, fs::File::create(to)?);
    let mut piece = vec![0; 8 << 20];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(()),
            length => to.write_all(&piece[..length])?,
        }
    }
}

fn call(command: &mut Command) -> Result<(), Failure> {
    let ended = command.stdout(Stdio::null()).output()?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&ended.stderr)).into()),
    }
}

fn write(folder: &str, steps: u64) -> Result<(), Failure> {
    let layout = Arc::new(Direct::new(Arc::new(Posix::at(folder)?))?);
    let schema = xml::parse(XML, "chimera").map_err(|report| report.render(false))?;
    let ranks = GRID.iter().product::<u64>() as u32;
    threads::run(ranks, |comm| {
        let written = (|| -> thalweg_types::Result<()> {
            let session = Session::with_layout(schema.clone(), layout.clone(), comm.duplicate()?)?;
            let rank = u64::from(comm.rank());
            let at = [rank / (GRID[1] * GRID[2]), rank / GRID[2] % GRID[1], rank % GRID[2]];
            let place = BlockBox {
                count: vec![BLOCK; 3],
                shape: Some(GRID.iter().map(|blocks| blocks * BLOCK).collect()),
                offset: Some(at.iter().map(|at| at * BLOCK).collect()),
            };
            for step in 0..steps {
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                let mut output = session.open("chimera", "run.bp", mode, comm.duplicate()?)?;
                for (number, name) in VARIABLES.iter().enumerate() {
                    let values: Vec<f64> =
                        (0..BLOCK.pow(3)).map(|i| (i + rank * 7 + step * 3 + number as u64) as f64).collect();
                    output.put(WriteRequest::new(*name, bytemuck::cast_slice(&values)).in_box(place.clone()))?;
                }
                output.close()?;
            }
            session.finalize()
        })();
        written.map_err(|e| e.to_string())
    })
    .into_iter()
    .collect::<Result<Vec<()>, String>>()?;
    Ok(())
}
