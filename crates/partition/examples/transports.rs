//! Measures reads and writes of a partition over each transport:
//! `cargo run --release -p thalweg-partition --example transports [ROUNDS [NET_BUF_SIZE]]`.
//!
//! A data server in a process of its own has the file in its cache. Each round uses all transports, one after the other, for each size; the
//! figures are medians of the rounds, as bandwidth and as multiple of the plain socket's bandwidth in the same round.

use std::io::{BufRead, BufReader, IoSlice};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;
use thalweg_layout::{Direct, Layout, OpenWrite, WriterId};
use thalweg_partition::Partition;
use thalweg_partition::configuration::Configuration;
use thalweg_partition::registry::Entry;
use thalweg_partition::server::{Serve, Serving};
use thalweg_remote::transport::tcp::{self, Tcp};
use thalweg_remote::transport::token::Token;
use thalweg_remote::transport::unix::{self, Socket};
use thalweg_remote::transport::{Listener, Transport};
use thalweg_store::Posix;
use thalweg_types::Result;

/// Bytes of the file.
const FILE: usize = 64 << 20;
const SIZES: [usize; 6] = [32 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20, 64 << 20];
const WAYS: [&str; 5] = ["unix", "memory", "memfd", "auto", "tcp"];

fn store(folder: &Path) -> Result<Arc<dyn Layout>> {
    std::fs::create_dir_all(folder).map_err(|e| thalweg_types::Error::io("cannot make a folder", e))?;
    Ok(Arc::new(Direct::new(Arc::new(Posix::at(folder)?))?))
}

/// The server: until its standard input ends.
fn serve(folder: &Path) -> Result<()> {
    let text = "name = p\nstripe_size = 1M\nahpios_server = localhost:/data\nmetadata = localhost:/names\n";
    let entry = Entry::new(&Configuration::parse(text, "f", "f", folder)?.fixed);
    let (data, names) = (Some(store(&folder.join("data"))?), Some(store(&folder.join("names"))?));
    let token = Token::make(&folder.join("token"))?;
    let (tcp, address) = tcp::listen("127.0.0.1:0", token)?;
    let listeners: Vec<Arc<dyn Listener>> = vec![Arc::new(unix::listen(&folder.join("own/socket"))?), Arc::new(tcp)];
    let kill_wait = std::time::Duration::from_secs(30);
    let what = Serve { entry: &entry, number: 0, data, names, cache: 256 << 20, staging: None, kill_wait };
    let _serving = Serving::begin(&what, listeners)?;
    println!("{address}");
    let _ = std::io::stdin().lock().read_until(0, &mut Vec::new());
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn measure(folder: &Path, rounds: usize, unit: usize) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut server = Command::new(std::env::current_exe()?)
        .arg("serve")
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut address = String::new();
    BufReader::new(server.stdout.as_mut().ok_or("no output")?).read_line(&mut address)?;
    let socket = || Socket::at(&folder.join("own/socket"));
    let client = |way: &str| -> Result<Partition> {
        let transport: Arc<dyn Transport> = match way {
            "unix" => Arc::new(socket().without_lending().without_segments()),
            "memory" => Arc::new(socket().without_segments()),
            "memfd" => Arc::new(socket().with_shared_writes()),
            "tcp" => Arc::new(Tcp::to(address.trim(), Token::read(&folder.join("token"))?)),
            _ => Arc::new(socket()),
        };
        Partition::over("p".into(), transport.clone(), vec![transport], unit, false)
    };
    let mut bytes: Vec<u8> = (0..FILE).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    let mut files = Vec::new();
    for way in WAYS {
        let file = client(way)?.open_write("f", OpenWrite::Any, WriterId(0))?;
        file.write_at(0, &[IoSlice::new(&bytes)])?;
        file.read_at(0, &mut bytes)?;
        files.push(file);
    }
    // By size, write or read, way and round.
    let mut rates = vec![[const { [const { Vec::new() }; WAYS.len()] }; 2]; SIZES.len()];
    for round in 0..rounds {
        for (size, rates) in SIZES.iter().zip(&mut rates) {
            // Each way begins as often as the others.
            for way in (0..WAYS.len()).map(|n| (n + round) % WAYS.len()) {
                let file = &files[way];
                let count = (FILE / size).min(64);
                let begun = Instant::now();
                for n in 0..count {
                    let at = n * size;
                    file.write_at(at as u64, &[IoSlice::new(&bytes[at..at + size])])?;
                }
                let written = Instant::now();
                for n in 0..count {
                    let at = n * size;
                    let got = file.read_at(at as u64, &mut bytes[at..at + size])?;
                    assert_eq!(got, *size);
                }
                let moved = (count * size) as f64;
                rates[0][way].push(moved / (written - begun).as_secs_f64());
                rates[1][way].push(moved / written.elapsed().as_secs_f64());
            }
        }
    }
    for (size, rates) in SIZES.iter().zip(&rates) {
        for (what, rates) in ["write", "read"].into_iter().zip(rates) {
            for (way, name) in WAYS.into_iter().enumerate() {
                let times = rates[way].iter().zip(&rates[0]).map(|(rate, socket)| rate / socket).collect();
                let rate = median(rates[way].clone()) / 1e9;
                println!("{:>6} KiB {what:<6}{name:<18}{rate:6.2} GB/s  {:5.2}", size >> 10, median(times));
            }
        }
    }
    drop(server.stdin.take());
    server.wait()?;
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("serve") => Ok(serve(Path::new(&arguments.next().ok_or("no folder")?))?),
        rounds => {
            let rounds = rounds.map_or(Ok(21), str::parse)?;
            let unit = arguments.next().map_or(Ok(1 << 20), |unit| unit.parse())?;
            measure(tempfile::tempdir()?.path(), rounds, unit)
        }
    }
}
