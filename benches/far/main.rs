//! Bench: arrays and small steps on S3, beside zarr (with obstore) and h5py (with s3fs). A real server on loopback, behind a proxy that
//! counts requests and delays each of them by 0 and by 20 ms.
//!
//! Each read runs in a process of its own (`contender.py`), from before the open, in turns with the other libraries. Every value is
//! compared.

mod proxy;

use proxy::Proxy;
use std::process::{Command, ExitCode};
use thalweg_benches::Failure;
use thalweg_benches::contender::{Measurements, environment, folder};
use thalweg_benches::options::Options;
use thalweg_benches::report::{Report, Table, number};

/// Libraries, and how they are shown.
const LIBRARIES: [(&str, &str); 3] = [("thalweg", "Thalweg"), ("zarr", "zarr, obstore"), ("h5py", "h5py, s3fs")];
/// Delays of each request, in ms.
const DELAYS: [u64; 2] = [0, 20];

struct Bench {
    python: String,
    folder: String,
    proxy: Proxy,
    all: Measurements,
}

impl Bench {
    /// Runs the contender; what it measured, and its requests and bytes, under names with `delay` in front.
    fn run(&mut self, delay: u64, what: &str, library: &str, more: &[String]) -> Result<(), Failure> {
        let mut command = Command::new(&self.python);
        command.args(["benches/far/contender.py", what, library, &self.folder]).args(more);
        command.env("AWS_ENDPOINT_URL", self.proxy.url());
        self.proxy.delay(delay);
        let (requests, bytes) = self.proxy.counts();
        let mut measured = Measurements::default();
        measured.run(&mut command)?;
        let after = self.proxy.counts();
        let names = measured.names().to_vec();
        for name in names {
            self.all.add(&format!("{delay}:{name}"), measured.median(&name));
            self.all.add(&format!("{delay}:{name}:requests"), (after.0 - requests) as f64);
            self.all.add(&format!("{delay}:{name}:bytes"), (after.1 - bytes) as f64);
        }
        Ok(())
    }
}

fn main() -> Result<ExitCode, Failure> {
    let options = Options::from_arguments()?;
    let server = environment("AWS_ENDPOINT_URL")?;
    let server = server.strip_prefix("http://").ok_or("AWS_ENDPOINT_URL is no http:// address")?;
    let mut bench = Bench {
        python: environment("PYTHON")?,
        folder: folder("far")?,
        proxy: Proxy::start(server)?,
        all: Measurements::default(),
    };
    let (rows, columns) = options.size((4096, 8192), (1024, 2048));
    let (steps, rounds) = (options.size(2000, 40), options.size(5, 1));
    let shape = [rows, columns].map(|n: u64| n.to_string());
    // Of blocks of 512 x 1024.
    let reads = [
        ("whole", ":, :".to_string()),
        ("blocks", format!("0:{}, 0:1024", rows / 2)),
        ("block", "512:1024, 1024:2048".into()),
        ("box", "500:600, 1000:1100".into()),
        ("row", format!("{}, :", rows / 2 + 3)),
        ("column", format!(":, {}", columns / 2 + 3)),
        ("element", "700, 1500".into()),
    ];
    for (library, _) in LIBRARIES {
        bench.run(0, "write", library, &shape)?;
    }
    for delay in DELAYS {
        for (name, box_) in &reads {
            let more = [&shape[..], &[name.to_string(), box_.clone()]].concat();
            for turn in 0..rounds {
                for i in 0..LIBRARIES.len() {
                    bench.run(delay, "read", LIBRARIES[(i + turn) % LIBRARIES.len()].0, &more)?;
                }
            }
        }
    }
    let steps_text = [steps.to_string()];
    bench.run(0, "steps", "thalweg", &steps_text)?;
    for delay in DELAYS {
        for what in ["open", "series"] {
            for _ in 0..rounds {
                bench.run(delay, what, "thalweg", &steps_text)?;
            }
        }
    }

    let about = format!(
        "An array of {rows} x {columns} doubles in blocks of 512 x 1024 on S3 (versitygw on loopback), read from Python in processes of \
         their own, from before the open, {rounds} rounds; a proxy counts requests and delays each. Thalweg: BP in a container, with \
         statistics and checksums; zarr: uncompressed chunks through obstore; h5py: the same chunks through s3fs. Then {steps} steps of 20 \
         arrays of 100 doubles, each closed by itself."
    );
    let all = bench.all;
    let mut report = Report::new("far", about, &bench.folder);
    let mut heads = vec!["read".to_string()];
    for (_, shown) in LIBRARIES {
        heads.push(format!("{shown}: requests"));
        heads.push("MB".into());
        heads.extend(DELAYS.map(|delay| format!("ms, delay {delay}")));
    }
    let mut table = Table::with_heads(heads.iter().map(String::as_str));
    for (name, box_) in &reads {
        let mut cells = vec![format!("{name} [{box_}]")];
        for (library, _) in LIBRARIES {
            cells.push(number(all.median(&format!("0:{library}:{name}:requests"))));
            cells.push(number(all.median(&format!("0:{library}:{name}:bytes")) / 1e6));
            cells.extend(DELAYS.map(|delay| number(all.median(&format!("{delay}:{library}:{name}")) * 1e3)));
        }
        table.row(cells);
    }
    report.table(table);
    let mut table = Table::new(["small steps", "requests", "ms, delay 0", "ms, delay 20"]);
    let (per_step, mean) =
        (all.median("0:thalweg:step_requests"), all.median("0:thalweg:steps:requests") / steps as f64);
    let row = [
        format!("a step (mean {} requests)", number(mean)),
        number(per_step),
        number(all.median("0:thalweg:steps") * 1e3),
        "-".into(),
    ];
    table.row(row);
    for (what, shown) in [("open", "open of all"), ("series", "open, one element of all")] {
        let [at_once, delayed] = DELAYS.map(|delay| number(all.median(&format!("{delay}:thalweg:{what}")) * 1e3));
        table.row([shown.into(), number(all.median(&format!("0:thalweg:{what}:requests"))), at_once, delayed]);
    }
    report.table(table);
    for (name, _) in &reads {
        let requests = |library: &str| all.median(&format!("0:{library}:{name}:requests"));
        report.at_most(format!("{name}: requests, beside zarr"), 2.0, requests("thalweg") / requests("zarr"));
        for delay in DELAYS {
            let seconds = |library: &str| all.median(&format!("{delay}:{library}:{name}"));
            for (library, shown) in &LIBRARIES[1..] {
                let what = format!("{name}, delay {delay} ms, times as fast as {shown}");
                report.at_least(what, 1.0, seconds(library) / seconds("thalweg"));
            }
        }
    }
    report.at_most("requests of a small step (median)", 4.0, per_step);
    report.at_most(format!("requests to open {steps} steps"), 10.0, all.median("0:thalweg:open:requests"));
    report.finish(&all, options)
}
