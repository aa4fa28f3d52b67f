//! Index modules of `container`: a file of many records is made, and opened in a process of its own: by one, and by ranks
//! together.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use thalweg_benches::contender::Measurements;
use thalweg_benches::{Failure, memory};
use thalweg_collective_open::CollectiveFile;
use thalweg_comm::tree::FAN_IN;
use thalweg_comm::{Communicator, threads};
use thalweg_layout::container::{Options, index::Module};
use thalweg_layout::{Container, Layout, OpenWrite, WriterId, write_all_at};
use thalweg_store::Posix;

/// Writers of the file.
const WRITERS: u64 = 4;
/// Ranks that open it together: threads of one process.
pub const RANKS: u32 = 4;
/// Bytes of the file for each record.
const SLOT: u64 = 64;

/// Module, and whether records lie at regular distances.
pub const CASES: [(Module, bool); 5] = [
    (Module::Flat, true),
    (Module::Pattern, true),
    (Module::Distributed, true),
    (Module::Pattern, false),
    (Module::Distributed, false),
];

/// A case in one word.
pub fn word((module, regular): (Module, bool)) -> String {
    format!("{}/{}", module.name(), if regular { "strided" } else { "irregular" })
}

fn container(folder: &str, module: Module) -> Result<Container, Failure> {
    let options = Options { module, ..Options::default() };
    Ok(Container::new(vec![Arc::new(Posix::at(Path::new(folder))?)], options)?)
}

/// Where a record begins in its slot, and its bytes.
fn record(number: u64, regular: bool) -> (u64, usize) {
    match regular {
        true => (0, SLOT as usize),
        false => {
            let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            (mixed % 24, 8 + (mixed / 24 % 32) as usize)
        }
    }
}

/// Makes the file, opens it in other processes, and removes it.
pub fn measure(all: &mut Measurements, folder: &str, records: u64, rounds: u32) -> Result<(), Failure> {
    for (module, regular) in CASES {
        let name = word((module, regular));
        let folder = format!("{folder}/index");
        std::fs::create_dir_all(&folder)?;
        let layout = container(&folder, module)?;
        layout.open_write("file", OpenWrite::New, WriterId(0))?.close()?;
        let began = Instant::now();
        let bytes = [7; SLOT as usize];
        for writer in 0..WRITERS {
            let file = layout.open_write("file", OpenWrite::Existing, WriterId(writer as u32))?;
            for number in (writer..records).step_by(WRITERS as usize) {
                let (at, length) = record(number, regular);
                write_all_at(&*file, number * SLOT + at, &bytes[..length])?;
            }
            file.close()?;
        }
        all.add(&format!("index/{name}/make"), began.elapsed().as_secs_f64());
        all.add(&format!("index/{name}/logs"), logs(Path::new(&folder))? as f64);
        for _ in 0..rounds {
            let program = std::env::current_exe()?;
            let records = records.to_string();
            let kind = if regular { "strided" } else { "irregular" };
            for how in ["--open", "--open-together"] {
                all.run(Command::new(&program).args([how, &folder, module.name(), kind, &records]))?;
            }
        }
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// Bytes of all index logs.
fn logs(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        if kind.is_dir() {
            bytes += logs(&entry.path())?;
        } else if name.to_string_lossy().ends_with(".index") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

/// What another process does: opens the file, reads a record, then a thousand.
pub fn open(arguments: &[String]) -> Result<(), Failure> {
    let [folder, module, kind, records] = arguments else { return Err("FOLDER MODULE KIND RECORDS".into()) };
    let (module, regular, records) = (Module::from_name(module)?, kind == "strided", records.parse::<u64>()?);
    let name = word((module, regular));
    let layout = container(folder, module)?;
    let before = memory::resident();
    let began = Instant::now();
    let file = layout.open_read("file")?;
    let mut bytes = [0; SLOT as usize];
    let mut get = |number: u64| -> Result<(), Failure> {
        let (at, length) = record(number, regular);
        file.read_exact_at(number * SLOT + at, &mut bytes[..length])?;
        match bytes[..length].iter().all(|b| *b == 7) {
            true => Ok(()),
            false => Err(format!("record {number} reads as something else").into()),
        }
    };
    get(records / 2)?;
    println!("value index/{name}/open {}", began.elapsed().as_secs_f64());
    println!("value index/{name}/memory {}", memory::resident().saturating_sub(before));
    println!("value index/{name}/peak {}", memory::peak().saturating_sub(before));
    let began = Instant::now();
    for k in 0..1000u64 {
        get(k.wrapping_mul(0x9e37_79b9_7f4a_7c15) % records)?;
    }
    println!("value index/{name}/find {}", began.elapsed().as_secs_f64() / 1000.0);
    Ok(())
}

/// What another process does: its ranks open the file together, each with a container of its own, and hold what they hold.
pub fn open_together(arguments: &[String]) -> Result<(), Failure> {
    let [folder, module, kind, records] = arguments else { return Err("FOLDER MODULE KIND RECORDS".into()) };
    let (module, regular, records) = (Module::from_name(module)?, kind == "strided", records.parse::<u64>()?);
    let name = word((module, regular));
    let before = memory::resident();
    let said = |e: &dyn std::fmt::Display| e.to_string();
    let ranks = threads::run(RANKS, |comm| -> Result<_, String> {
        let rank = u64::from(comm.rank());
        let layout = container(folder, module).map_err(|e| said(&e))?;
        let began = Instant::now();
        let file = CollectiveFile::open(Box::new(comm), Ok((&layout, "file")), FAN_IN).map_err(|e| said(&e))?;
        let opened = began.elapsed().as_secs_f64();
        let began = Instant::now();
        for k in 0..100u64 {
            let number = (k * u64::from(RANKS) + rank).wrapping_mul(0x9e37_79b9_7f4a_7c15) % records;
            let ((at, length), mut bytes) = (record(number, regular), [0; SLOT as usize]);
            file.read_all(number * SLOT + at, &mut bytes[..length]).map_err(|e| said(&e))?;
            if !bytes[..length].iter().all(|b| *b == 7) {
                return Err(format!("record {number} reads as something else"));
            }
        }
        let find = began.elapsed().as_secs_f64() / 100.0;
        let held = match file.memory() {
            Some((own, _)) => own,
            None => layout.about("file").map_err(|e| said(&e))?.memory,
        };
        Ok((file, layout, opened, find, held))
    });
    let ranks = ranks.into_iter().collect::<Result<Vec<_>, _>>()?;
    let resident = memory::resident().saturating_sub(before);
    let most = |of: fn(&(CollectiveFile, Container, f64, f64, usize)) -> f64| ranks.iter().map(of).fold(0.0, f64::max);
    println!("value together/{name}/open {}", most(|r| r.2));
    println!("value together/{name}/find {}", most(|r| r.3));
    println!("value together/{name}/held {}", most(|r| r.4 as f64));
    println!("value together/{name}/memory {resident}");
    println!("value together/{name}/peak {}", memory::peak().saturating_sub(before));
    Ok(())
}
