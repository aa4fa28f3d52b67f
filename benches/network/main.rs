//! Bench: patterns of MPI-IO programs (NAS BTIO, MPI-Tile-IO, blocks of an array) on partitions whose servers are on four nodes, each
//! behind a link of limited rate: servers that use the views, beside clients that map them and exchange bytes first (two-phase).
//!
//! The nodes are network namespaces of this machine (`scripts/servers/nodes.sh`): what crosses a link takes as long as on a network of
//! that rate, and nothing else does.

use std::path::Path;
use std::process::{Command, ExitCode};
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, environment, folder};
use thalweg_benches::memory;
use thalweg_benches::options::Options;
use thalweg_benches::partitions::Partitions;
use thalweg_benches::report::{Report, Table, number};

/// More than a contender writes, in MiB.
const WARM: u64 = 320;

/// Name, size, size with `--small`, how it is shown; how many times as fast writes and reads should be.
type Shape = (&'static str, u32, u32, &'static str, Option<(f64, f64)>);

const PATTERNS: [Shape; 3] = [
    ("btio", 102, 24, "BTIO", Some((1.8, 1.3))),
    ("tile", 256, 16, "tiles of 4 KiB rows", Some((1.1, 2.0))),
    ("subarray", 320, 48, "blocks of an array", None),
];

/// Label and mount, `optimizations` of the partition, hints, how it is shown.
const CONTENDERS: [(&str, u32, &[&str], &str); 3] = [
    ("partition", 0, &[], "partition"),
    ("mapped", 1, &["romio_cb_write=enable", "romio_cb_read=enable"], "two-phase over the servers"),
    ("independent", 1, &["collective_buffering=false"], "views in clients, no exchange"),
];

/// The bytes that passed each link so far, both ways.
fn passed(tag: &str, nodes: usize) -> Result<f64, Failure> {
    let mut sum = 0.0;
    for node in 0..nodes {
        for way in ["rx_bytes", "tx_bytes"] {
            let text = std::fs::read_to_string(format!("/sys/class/net/{tag}v{node}/statistics/{way}"))?;
            sum += text.trim().parse::<f64>()?;
        }
    }
    // What one node sends another receives.
    Ok(sum / 2.0)
}

fn main() -> Result<ExitCode, Failure> {
    let options = Options::from_arguments()?;
    let folder = folder("network")?;
    let (on, network, nodes) = (environment("ON")?, environment("NODES_NETWORK")?, environment("NODES")?);
    let nodes: Vec<&str> = nodes.split_whitespace().collect();
    let tag = std::fs::read_to_string(format!("{folder}/nodes/made"))?;
    let tag = tag.split_whitespace().next().ok_or("the nodes have no name")?.to_string();
    let files = format!("{folder}/files");
    if Path::new(&files).exists() {
        std::fs::remove_dir_all(&files)?;
    }
    std::fs::create_dir_all(&files)?;
    let mut partitions = Partitions::new(Some(on.clone()));
    let mut table = String::new();
    for (name, optimizations, ..) in CONTENDERS {
        let more = format!("stripe_size = 64k\nlisten = 0.0.0.0\noptimizations = {optimizations}");
        partitions.start(&files, name, &nodes, &more)?;
        table += &format!(
            "[[mount]]\npath = \"/bench/{name}\"\nlayout = \"partition\"\npartition = \"{files}/{name}.cfg\"\n\n"
        );
    }
    std::fs::write(format!("{files}/mounts.toml"), table)?;

    let rounds = options.size(5, 1);
    let mpiexec = environment("MPIEXEC")?;
    let program = format!("{folder}/patterns");
    let mut all = Measurements::default();
    for (pattern, usual, small, ..) in PATTERNS {
        let size = options.size(usual, small).to_string();
        for round in 0..rounds {
            for i in 0..CONTENDERS.len() {
                let (label, _, hints, _) = CONTENDERS[(i + round) % CONTENDERS.len()];
                let mut words = mpiexec.split_whitespace();
                let mut command = Command::new(words.next().unwrap_or("mpiexec"));
                command.args(words).args(["-n", &nodes.len().to_string(), "--host", &nodes.join(",")]);
                // One rank on each node, which others reach over its link alone.
                let settings = [
                    ("plm_rsh_agent", on.as_str()),
                    ("plm_rsh_no_tree_spawn", "1"),
                    ("btl", "tcp,self"),
                    ("btl_tcp_if_include", &network),
                    ("oob_tcp_if_include", &network),
                    ("mpi_yield_when_idle", "1"),
                ];
                for (name, value) in settings {
                    command.args(["--mca", name, value]);
                }
                command.args(["thalweg", "run", "--mpi", "openmpi", "--", &program]);
                command.args([label, pattern, &size, &format!("/bench/{label}/{label}")]);
                command.args(hints).env("THALWEG_MOUNTS", format!("{files}/mounts.toml"));
                memory::warm(&files, WARM)?;
                let before = passed(&tag, nodes.len())?;
                all.run(&mut command)?;
                all.add(&format!("{label}/{pattern}:passed"), passed(&tag, nodes.len())? - before);
            }
        }
    }
    drop(partitions);

    let about = format!(
        "{} nodes (network namespaces), one rank and one server on each, links of 1 Gbit/s both ways, stripes of 64 KiB, Open MPI over \
         TCP; {rounds} rounds. Seconds of all collective writes, then of all collective reads, on the slowest rank; BTIO has five of each. \
         Bytes that passed the links are those of the whole program, beside the bytes written and read.",
        nodes.len()
    );
    let mut report = Report::new("network", about, &folder);
    for (pattern, _, _, shown, wanted) in PATTERNS {
        let bytes = all.median(&format!("{pattern}:bytes"));
        let title = format!("{shown}, {:.0} MB", bytes * 1e-6);
        let mut table = Table::with_heads([title.as_str(), "write s", "least", "read s", "least", "passed links, MB"]);
        for (label, .., shown) in CONTENDERS {
            let of = |what: &str| format!("{label}/{pattern}:{what}");
            let cells = ["write", "read"].into_iter().flat_map(|what| {
                let least = all.find(&of(what)).map_or(f64::NAN, |samples| samples.min());
                [number(all.median(&of(what))), number(least)]
            });
            let passed = number(all.median(&of("passed")) * 1e-6);
            table.row(std::iter::once(shown.to_string()).chain(cells).chain([passed]));
        }
        report.table(table);
        let ratio = |what: &str| {
            all.median(&format!("mapped/{pattern}:{what}")) / all.median(&format!("partition/{pattern}:{what}"))
        };
        if let Some((write, read)) = wanted {
            report.at_least(
                format!("{shown}, write: the partition, times as fast as two-phase"),
                write,
                ratio("write"),
            );
            report.at_least(format!("{shown}, read: the partition, times as fast as two-phase"), read, ratio("read"));
        }
    }
    report.finish(&all, options)
}
