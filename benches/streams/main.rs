//! Bench: one writer and one reader of a stream, from Python: method STAGING with a reader that follows the file, over the transport that is
//! chosen and over TCP; beside SST of adios2 (whose wheel has no MPI) and a plain TCP stream of the same bytes.

use std::path::Path;
use std::process::{Command, ExitCode};
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, environment, folder};
use thalweg_benches::memory;
use thalweg_benches::options::Options;
use thalweg_benches::partitions::Partitions;
use thalweg_benches::report::{Report, Table, number};

/// Name, kind of `stream.py`, transport of the servers, how it is shown.
const CONTENDERS: [(&str, &str, &str, &str); 5] = [
    ("staging", "staging", "auto", "STAGING"),
    ("tcp", "staging", "tcp", "STAGING over TCP"),
    ("mount", "mount", "auto", "STAGING, reader served from memory"),
    ("sst", "sst", "", "adios2 SST"),
    ("raw", "raw", "", "TCP stream"),
];

/// A port of this machine that nobody listens at.
fn free_port() -> Result<String, Failure> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string())
}

fn main() -> Result<ExitCode, Failure> {
    let options = Options::from_arguments()?;
    let folder = folder("streams")?;
    let python = environment("PYTHON")?;
    let (mib, steps, rounds): (u32, u32, usize) = options.size((64, 12, 5), (1, 3, 1));
    let files = format!("{folder}/files");
    if Path::new(&files).exists() {
        std::fs::remove_dir_all(&files)?;
    }
    std::fs::create_dir_all(&files)?;
    let mut partitions = Partitions::new(None);
    let mut mounts = String::new();
    for (name, kind, transport, _) in CONTENDERS.iter().filter(|c| !c.2.is_empty()) {
        let place = format!("{files}/{name}.stream");
        std::fs::create_dir_all(&place)?;
        let listen = if *transport == "tcp" { "listen = 127.0.0.1\n" } else { "" };
        let transport = if *transport == "auto" { String::new() } else { format!("transport = {transport}\n") };
        let more = format!("staging = {place}\nstaging_memory = 2G\n{transport}{listen}");
        partitions.start(&files, name, &["localhost"], &more)?;
        if *kind == "mount" {
            mounts +=
                &format!("[[mount]]\npath = \"{place}\"\nlayout = \"staging\"\npartition = \"{files}/{name}.cfg\"\n\n");
        }
    }
    std::fs::write(format!("{files}/mounts.toml"), mounts)?;

    let mut all = Measurements::default();
    for round in 0..rounds {
        for i in 0..CONTENDERS.len() {
            let (name, kind, ..) = CONTENDERS[(i + round) % CONTENDERS.len()];
            let place = format!("{files}/{name}.stream");
            std::fs::create_dir_all(&place)?;
            let mut command = Command::new(&python);
            command.args(["benches/streams/stream.py", kind, name, &place, &steps.to_string(), &mib.to_string()]);
            command.env("STREAM_ROUND", round.to_string());
            match kind {
                "staging" | "mount" => command.arg(format!("{files}/{name}.cfg")),
                "raw" => command.arg(free_port()?),
                _ => &mut command,
            };
            if kind == "mount" {
                command.env("THALWEG_MOUNTS", format!("{files}/mounts.toml"));
            }
            memory::warm(&files, options.size(u64::from(mib * steps * 2), 1))?;
            all.run(&mut command).map_err(|e| format!("{name}: {e}"))?;
            if matches!(kind, "staging" | "mount") {
                std::fs::remove_file(format!("{place}/stream-{round}.bp"))?;
            }
        }
    }
    drop(partitions);

    let about = format!(
        "{steps} steps of {mib} MiB from one process to another, from Python; {rounds} rounds. \"blocked\": seconds of the writer in a step after \
         the first. Rate: from the first step's begin until the reader has checked the last one. SST has a queue of 2 steps and its socket \
         transport; the plain stream's writer is blocked by the sending itself. Before each run twice the memory was used once."
    );
    let mut report = Report::new("streams", about, &folder);
    let mut table = Table::with_heads(["", "blocked ms", "min ms", "MiB/s", "best MiB/s"]);
    for (name, .., shown) in CONTENDERS {
        let (blocked, rate) = (format!("{name}/blocked"), format!("{name}/rate"));
        let least = all.find(&blocked).map_or(f64::NAN, |s| s.min());
        let most = all.find(&rate).map_or(f64::NAN, |s| s.max());
        let cells = [all.median(&blocked) * 1e3, least * 1e3, all.median(&rate), most];
        table.row(std::iter::once(shown.to_string()).chain(cells.map(number)));
    }
    report.table(table);
    let ratio = |what: &str, a: &str, b: &str| all.median(&format!("{a}/{what}")) / all.median(&format!("{b}/{what}"));
    report.at_least("STAGING, throughput beside SST", 5.0, ratio("rate", "staging", "sst"));
    report.at_least("STAGING over TCP, throughput beside a plain TCP stream", 0.6, ratio("rate", "tcp", "raw"));
    report.at_most("STAGING, blocked, beside SST", 1.0 / 3.0, ratio("blocked", "staging", "sst"));
    report.finish(&all, options)
}
