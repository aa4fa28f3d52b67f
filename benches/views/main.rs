//! Bench: patterns of MPI-IO programs (NAS BTIO, MPI-Tile-IO, blocks of an array), four ranks: the MPI's own MPI-IO on the filesystem,
//! the door on `direct` and `container`, and on partitions whose servers use the views, or whose clients map them and exchange bytes
//! (two-phase). The tiles with two ranks of MPICH, too.
//!
//! Times are those of collective calls on the slowest rank. Each contender writes a new file, which is removed afterwards; bytes that
//! were read are compared. What a sync costs is in none of the times.

use std::path::Path;
use std::process::{Command, ExitCode};
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, folder, on_ranks};
use thalweg_benches::memory;
use thalweg_benches::options::Options;
use thalweg_benches::partitions::{Counted, Partitions};
use thalweg_benches::report::{Report, Table, number};

/// More than a contender writes, in MiB.
const WARM: u64 = 320;
const RANKS: u32 = 4;
/// Servers of a partition, and their host.
const SERVERS: usize = 4;
const SERVER: &str = "localhost";

/// Name, size, size with `--small`, how it is shown.
const PATTERNS: [(&str, u32, u32, &str); 3] =
    [("btio", 102, 24, "BTIO"), ("tile", 256, 16, "tiles of 4 KiB rows"), ("subarray", 320, 48, "blocks of an array")];

/// Hints for two-phase I/O, for an MPI's own or ours.
const TWO_PHASE: &[&str] = &["romio_cb_write=enable", "romio_cb_read=enable"];

/// What [`CONTENDERS`] says of one.
type Contender = (&'static str, &'static str, &'static str, &'static [&'static str], &'static str);

/// Label, mount, `io` of Open MPI for those of the MPI itself, hints, how it is shown.
const CONTENDERS: [Contender; 9] = [
    ("romio", "", "romio321", &[], "ROMIO"),
    // One rank gathers for all: on one node the hint that programs set.
    (
        "romio-hints",
        "",
        "romio321",
        &["cb_nodes=1", "romio_cb_write=enable", "romio_cb_read=enable", "cb_buffer_size=16777216"],
        "ROMIO, hints",
    ),
    ("ompio", "", "ompio", &[], "OMPIO"),
    ("ompio-hints", "", "ompio", &["cb_nodes=1", "cb_buffer_size=16777216"], "OMPIO, hints"),
    ("direct", "direct", "", &[], "door on direct"),
    ("container", "container", "", &[], "door on container"),
    ("partition", "partition", "", &[], "partition"),
    ("mapped", "mapped", "", TWO_PHASE, "two-phase over a partition"),
    ("independent", "mapped", "", &["collective_buffering=false"], "partition, views in clients"),
];

/// Two ranks of MPICH: label, mount, how it is shown.
const WITH_MPICH: [(&str, &str, &str); 5] = [
    ("mpich-own", "", "MPICH's ROMIO"),
    ("mpich-direct", "direct", "door on direct"),
    ("mpich-container", "container", "door on container"),
    ("mpich-partition", "partition", "partition"),
    ("mpich-mapped", "mapped", "two-phase over a partition"),
];
const MPICH_RANKS: u32 = 2;

fn main() -> Result<ExitCode, Failure> {
    let options = Options::from_arguments()?;
    let folder = folder("views")?;
    let files = format!("{folder}/files");
    if Path::new(&files).exists() {
        std::fs::remove_dir_all(&files)?;
    }
    std::fs::create_dir_all(format!("{files}/container"))?;
    std::fs::create_dir_all(format!("{files}/direct"))?;
    std::fs::create_dir_all(format!("{files}/plain"))?;
    let mut partitions = Partitions::new(None);
    for (name, optimizations) in [("partition", 0), ("mapped", 1)] {
        let more = format!("stripe_size = 64k\noptimizations = {optimizations}");
        partitions.start(&files, name, &[SERVER; SERVERS], &more)?;
    }
    let mut table: String = ["direct", "container"]
        .map(|layout| {
            format!(
                "[[mount]]\npath = \"/bench/{layout}\"\nlayout = \"{layout}\"\nstore = \"posix:{files}/{layout}\"\n\n"
            )
        })
        .concat();
    for name in ["partition", "mapped"] {
        table += &format!(
            "[[mount]]\npath = \"/bench/{name}\"\nlayout = \"partition\"\npartition = \"{files}/{name}.cfg\"\n\n"
        );
    }
    std::fs::write(format!("{files}/mounts.toml"), table)?;

    let rounds = options.size(5, 1);
    let program = format!("{folder}/patterns");
    let mut all = Measurements::default();
    for (pattern, usual, small, _) in PATTERNS {
        let size = options.size(usual, small).to_string();
        for round in 0..rounds {
            for i in 0..CONTENDERS.len() {
                let (label, mount, io, hints, _) = CONTENDERS[(i + round) % CONTENDERS.len()];
                let mut command = match mount {
                    "" => {
                        let mut command = on_ranks(RANKS, &program)?;
                        command.args([label, pattern, &size, &format!("{files}/plain/{label}")]);
                        command
                    }
                    mount => {
                        let mut command = on_ranks(RANKS, "thalweg")?;
                        command.args(["run", "--mpi", "openmpi", "--", &program]);
                        command.args([label, pattern, &size, &format!("/bench/{mount}/{label}")]);
                        command
                    }
                };
                command.args(hints).env("THALWEG_MOUNTS", format!("{files}/mounts.toml"));
                if !io.is_empty() {
                    command.env("OMPI_MCA_io", io);
                }
                // Ranks and servers share the cores.
                command.env("OMPI_MCA_mpi_yield_when_idle", "1");
                memory::warm(&files, WARM)?;
                let served = ["partition", "mapped"].contains(&mount).then_some(mount);
                let before = served.map(|name| partitions.counted(&files, name)).transpose()?;
                all.run(&mut command)?;
                if let (Some(name), Some(before)) = (served, before) {
                    let Counted { requests, views, payload, hits, misses } =
                        partitions.counted(&files, name)?.since(before);
                    for (what, value) in [
                        ("requests", requests),
                        ("views", views),
                        ("payload", payload),
                        ("found", hits / (hits + misses).max(1.0)),
                    ] {
                        all.add(&format!("{label}/{pattern}:{what}"), value);
                    }
                }
            }
        }
    }
    let mpich = format!("{folder}/patterns.mpich");
    let has_mpich = Path::new(&mpich).exists();
    if has_mpich {
        let (pattern, usual, small, _) = PATTERNS[1];
        let size = options.size(usual, small).to_string();
        for i in (0..rounds).flat_map(|round| (0..WITH_MPICH.len()).map(move |i| i + round)) {
            let (label, mount, _) = WITH_MPICH[i % WITH_MPICH.len()];
            let mut command = Command::new("mpiexec.mpich");
            command.args(["-n", &MPICH_RANKS.to_string()]);
            match mount {
                "" => command.args([&mpich, label, pattern, &size, &format!("{files}/plain/{label}")]),
                mount => {
                    command.args(["thalweg", "run", "--mpi", "mpich", "--", &mpich]);
                    command.args([label, pattern, &size, &format!("/bench/{mount}/{label}")])
                }
            };
            if mount == "mapped" {
                command.args(TWO_PHASE);
            }
            command.env("THALWEG_MOUNTS", format!("{files}/mounts.toml"));
            memory::warm(&files, WARM)?;
            all.run(&mut command)?;
        }
    }
    drop(partitions);

    let about = format!(
        "{RANKS} ranks, {SERVERS} servers with stripes of 64 KiB on the same machine, Open MPI; {rounds} rounds. Seconds of all collective \
         writes, then of all collective reads, on the slowest rank; BTIO has five of each. Before each program 320 MiB of memory were used once. Everything stays in memory: of the transfer that a \
         partition saves only the copy is seen here."
    );
    let mut report = Report::new("views", about, &folder);
    for (pattern, .., shown) in PATTERNS {
        let megabytes = all.median(&format!("{pattern}:bytes")) * 1e-6;
        let title = format!("{shown}, {megabytes:.0} MB");
        let mut table = Table::with_heads([title.as_str(), "write s", "least", "read s", "least"]);
        for (label, .., shown) in CONTENDERS {
            let cells = ["write", "read"].into_iter().flat_map(|what| {
                let key = format!("{label}/{pattern}:{what}");
                [number(all.median(&key)), number(all.find(&key).map_or(f64::NAN, |samples| samples.min()))]
            });
            table.row(std::iter::once(shown.to_string()).chain(cells));
        }
        report.table(table);
    }
    // What the paper says is saved: bytes of views, messages, copies of the payload, and blocks that stay between calls.
    for (pattern, .., shown) in PATTERNS {
        let bytes = all.median(&format!("{pattern}:bytes"));
        let title = format!("{shown}, servers");
        let heads = [
            "messages",
            "bytes of views",
            "payload at servers, of what was written and read",
            "blocks found in the cache",
        ];
        let mut table = Table::with_heads(std::iter::once(title.as_str()).chain(heads));
        for (label, _, _, _, shown) in CONTENDERS.iter().filter(|c| ["partition", "mapped"].contains(&c.1)) {
            let of = |what: &str| all.median(&format!("{label}/{pattern}:{what}"));
            let cells = [of("requests"), of("views"), of("payload") / (2.0 * bytes), of("found")];
            table.row(std::iter::once(shown.to_string()).chain(cells.map(number)));
        }
        report.table(table);
    }
    if has_mpich {
        let title = format!("tiles of 4 KiB rows, {MPICH_RANKS} ranks of MPICH");
        let mut table = Table::with_heads([title.as_str(), "write s", "least", "read s", "least"]);
        for (label, _, shown) in WITH_MPICH {
            let cells = ["write", "read"].into_iter().flat_map(|what| {
                let key = format!("{label}/tile:{what}");
                [number(all.median(&key)), number(all.find(&key).map_or(f64::NAN, |samples| samples.min()))]
            });
            table.row(std::iter::once(shown.to_string()).chain(cells));
        }
        report.table(table);
    }
    let best = |pattern: &str, what: &str| {
        let of = |label: &str| all.median(&format!("{label}/{pattern}:{what}"));
        of("romio").min(of("romio-hints"))
    };
    let ratio =
        |pattern: &str, what: &str, ours: &str| best(pattern, what) / all.median(&format!("{ours}/{pattern}:{what}"));
    report.at_least(
        "BTIO writes: the door on container, times as fast as ROMIO",
        2.0,
        ratio("btio", "write", "container"),
    );
    for (pattern, .., shown) in PATTERNS {
        for what in ["write", "read"] {
            let got = ratio(pattern, what, "container");
            report.at_least(format!("{shown}, {what}: the door on container, times as fast as ROMIO"), 0.9, got);
        }
    }
    let got = ratio("subarray", "write", "container").max(ratio("subarray", "write", "direct"));
    if has_mpich {
        for what in ["write", "read"] {
            let of = |label: &str| all.median(&format!("{label}/tile:{what}"));
            let got = of("mpich-own") / of("mpich-container");
            report.at_least(
                format!("tiles, {what}, MPICH: the door on container, times as fast as its ROMIO"),
                0.9,
                got,
            );
        }
    }
    report.at_least("blocks of an array, write: the door, times as fast as ROMIO with its best hints", 1.3, got);
    report.finish(&all, options)
}
