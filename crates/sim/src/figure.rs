//! Series beside published numbers.
//!
//! The figures have the numbers of those in Lofstead et al., CUG 2009, and in SAND2009-7763; those named `ahpios-` are of Isaila et al.,
//! *AHPIOS*. The data points of those plots were not available; the series are ours, fitted to the published headline numbers. Unknown
//! numbers are not drawn.

use crate::load;
use crate::machine::Machine;
use crate::methods::{Job, run};
use crate::partition::published::ROWS;
use crate::partition::{Direction, advantage, compare};
use std::fmt::Write;
use thalweg_movement::method::{Parameters, aggregated, scheduled};
use thalweg_report::chart::{self, Chart, Ring, Series};
use thalweg_types::{Error, ErrorKind, Result};

/// The names of all figures.
pub const FIGURES: [&str; 9] = [
    "cug2009-4",
    "cug2009-5",
    "cug2009-6",
    "cug2009-7",
    "cug2009-8",
    "sand-5",
    "ahpios-btio-b",
    "ahpios-btio-c",
    "ahpios-tile",
];

/// A published number and the simulated one.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The number, in words.
    pub what: &'static str,
    /// Its publication.
    pub from: &'static str,
    /// Where it can be drawn: how high.
    pub value: Option<f64>,
    /// And at which place.
    pub x: Option<usize>,
    /// The number of the line that it is about, if it is one.
    pub series: Option<usize>,
    /// The simulated number.
    pub ours: String,
    /// Whether it was kept for checking, or a constant was fitted to it.
    pub used: &'static str,
}

/// A figure with its numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    /// Its name, as in [`FIGURES`].
    pub name: &'static str,
    /// Its caption.
    pub title: &'static str,
    /// The machine's name.
    pub machine: String,
    /// Title of the categories.
    pub x_name: &'static str,
    /// Title of the values.
    pub y_name: &'static str,
    /// The places.
    pub x: Vec<String>,
    /// The lines.
    pub series: Vec<Series>,
    /// A horizontal line: label and height.
    pub limit: Option<(String, f64)>,
    /// Published numbers.
    pub published: Vec<Published>,
    /// Remarks.
    pub remark: &'static str,
}

// Points that no constant was fitted to.
const HELD_OUT: &str = "kept for checking";
const FITTED: &str = "constants of the noise were fitted to it";
const AHPIOS: &str = "Isaila et al., AHPIOS";
const CUG: &str = "Lofstead et al., CUG 2009";
const OURS: &str = "Which points the paper's figure has was not at hand: the series are ours.";
const MIB: u64 = 1 << 20;
const PUBLISHED_RANKS: u32 = 32_768;

/// Runs the simulations of a figure and draws it.
///
/// # Errors
/// `NotFound` names the figures there are.
pub fn draw(name: &str, seed: u64) -> Result<Drawn> {
    match name {
        "cug2009-4" => by_ranks(seed),
        "cug2009-5" => by_size(seed),
        "cug2009-6" => by_files(seed),
        "cug2009-7" => by_aggregators(seed),
        "cug2009-8" => by_slow_targets(seed),
        "sand-5" => by_share_of_processes(seed),
        "ahpios-btio-b" => advantages("ahpios-btio-b", "btio-b", &[9, 16, 36, 64]),
        "ahpios-btio-c" => advantages("ahpios-btio-c", "btio-c", &[9, 16, 36, 64]),
        "ahpios-tile" => advantages("ahpios-tile", "tile", &[4, 8, 16, 32, 64]),
        _ => {
            let what = format!("no figure '{name}'; figures: {}", FIGURES.join(", "));
            Err(Error::new(ErrorKind::NotFound, what))
        }
    }
}

fn job(method: &str, ranks: u32, size: u64, seed: u64) -> Job {
    Job { method: method.to_string(), ranks, size, parameters: Parameters::default(), seed }
}

fn lines<T>(methods: &[&str], places: &[T], one: impl Fn(&str, &T) -> Result<f64>) -> Result<Vec<Series>> {
    methods
        .iter()
        .map(|method| {
            let y = places.iter().map(|place| one(method, place)).collect::<Result<Vec<f64>>>()?;
            Ok(Series { name: (*method).to_string(), y })
        })
        .collect()
}

fn jaguarpf() -> Result<(Machine, Option<(String, f64)>)> {
    let machine = Machine::shipped("jaguarpf-xt5")?;
    let limit =
        Some((format!("all {} targets: {} GB/s", machine.targets.count.0, machine.peak() / 1e9), machine.peak() / 1e9));
    Ok((machine, limit))
}

fn headline(series: &[Series], at: usize) -> Published {
    let ours = series.iter().find(|s| s.name == "MPI_SCHEDULED").and_then(|s| s.y.get(at)).copied();
    Published {
        what: "83.7 GB/s, 32,768 ranks of 768 MiB",
        from: CUG,
        value: Some(83.7),
        x: Some(at),
        series: None,
        ours: ours.map_or("-".into(), |y| format!("MPI_SCHEDULED {y:.1} GB/s, {:+.1} %", (y / 83.7 - 1.0) * 100.0)),
        used: HELD_OUT,
    }
}

fn by_ranks(seed: u64) -> Result<Drawn> {
    let (machine, limit) = jaguarpf()?;
    let ranks = [1024, 2048, 4096, 8192, 16_384, PUBLISHED_RANKS];
    let series = lines(&["MPI", "POSIX", "MPI_SCHEDULED", "MPI_AGGREGATE", "ADAPTIVE"], &ranks, |method, ranks| {
        Ok(run(&machine, &job(method, *ranks, 768 * MIB, seed))?.bandwidth() / 1e9)
    })?;
    Ok(Drawn {
        name: "cug2009-4",
        title: "Bandwidth by ranks, 768 MiB each",
        machine: machine.name,
        x_name: "ranks",
        y_name: "GB/s",
        x: ranks.iter().map(u32::to_string).collect(),
        published: vec![headline(&series, ranks.len() - 1)],
        series,
        limit,
        remark: OURS,
    })
}

fn by_size(seed: u64) -> Result<Drawn> {
    let (machine, limit) = jaguarpf()?;
    let sizes = [8, 32, 128, 384, 768];
    let series = lines(&["MPI", "POSIX", "MPI_SCHEDULED", "MPI_AGGREGATE", "ADAPTIVE"], &sizes, |method, size| {
        Ok(run(&machine, &job(method, PUBLISHED_RANKS, size * MIB, seed))?.bandwidth() / 1e9)
    })?;
    Ok(Drawn {
        name: "cug2009-5",
        title: "Bandwidth by size, 32,768 ranks",
        machine: machine.name,
        x_name: "MiB a rank",
        y_name: "GB/s",
        x: sizes.iter().map(u64::to_string).collect(),
        published: vec![headline(&series, sizes.len() - 1)],
        series,
        limit,
        remark: OURS,
    })
}

fn by_files(seed: u64) -> Result<Drawn> {
    let (machine, limit) = jaguarpf()?;
    let files = [42, 84, 160, 336, 672, 1344];
    let series = lines(&["MPI_SCHEDULED"], &files, |method, files| {
        let mut job = job(method, PUBLISHED_RANKS, 768 * MIB, seed);
        job.parameters.push(scheduled::NUM_FILES.key, files.to_string());
        Ok(run(&machine, &job)?.bandwidth() / 1e9)
    })?;
    let shared = run(&machine, &job("MPI", PUBLISHED_RANKS, 768 * MIB, seed))?.bandwidth() / 1e9;
    Ok(Drawn {
        name: "cug2009-6",
        title: "Bandwidth by number of split files, each on one target",
        machine: machine.name,
        x_name: "files (num_files)",
        y_name: "GB/s",
        x: files.iter().map(u32::to_string).collect(),
        published: vec![
            headline(&series, 4),
            Published {
                what: "a file has at most 160 of the 672 targets",
                from: CUG,
                value: None,
                x: None,
                series: None,
                ours: format!("one shared file (MPI) {shared:.1} GB/s of at most {:.1}", 110.0 * 160.0 / 672.0),
                used: "part of the description",
            },
        ],
        series,
        limit,
        remark: OURS,
    })
}

fn by_aggregators(seed: u64) -> Result<Drawn> {
    let (machine, limit) = jaguarpf()?;
    let aggregators = [84, 168, 336, 442, 672];
    let with = |method: &str, count: u32, brigade: bool| {
        let mut job = job(method, 30_000, 8_000_000, seed);
        job.parameters.push(aggregated::AGGREGATORS.key, count.to_string());
        job.parameters.push(aggregated::PATTERN.key, if brigade { "brigade" } else { "simple" });
        run(&machine, &job)
    };
    let mut series = Vec::new();
    for (name, brigade) in [("pattern=simple", false), ("pattern=brigade", true)] {
        let y = aggregators.iter().map(|n| Ok(with("MPI_AGGREGATE", *n, brigade)?.bandwidth() / 1e9));
        series.push(Series { name: name.into(), y: y.collect::<Result<_>>()? });
    }
    let ours = with("MPI_AGGREGATE", 442, false)?.remarks.first().cloned().unwrap_or_default();
    Ok(Drawn {
        name: "cug2009-7",
        title: "Aggregated: 30,000 ranks of 8 MB",
        machine: machine.name,
        x_name: "aggregators",
        y_name: "GB/s",
        x: aggregators.iter().map(u32::to_string).collect(),
        published: vec![Published {
            what: "442 writers, 67 passers each, 11 for the last",
            from: CUG,
            value: None,
            x: None,
            series: None,
            ours,
            used: HELD_OUT,
        }],
        series,
        limit,
        remark: "Which points the paper's figure has was not at hand, nor a bandwidth for this case: the series are ours.",
    })
}

fn by_slow_targets(seed: u64) -> Result<Drawn> {
    let (machine, limit) = jaguarpf()?;
    let shares = [0.0, 0.0025, 0.005, 0.01, 0.02, 0.05];
    let series = lines(&["POSIX", "MPI_SCHEDULED", "MPI_AGGREGATE", "ADAPTIVE"], &shares, |method, share| {
        let mut machine = machine.clone();
        (machine.slow.share.0, machine.slow.times.0) = (*share, 20.0);
        Ok(run(&machine, &job(method, PUBLISHED_RANKS, 768 * MIB, seed))?.bandwidth() / 1e9)
    })?;
    let kept = |name: &str| {
        let y = &series.iter().find(|s| s.name == name)?.y;
        Some(format!("{name} keeps {:.1} %", y.get(3)? / y.first()? * 100.0))
    };
    let ours = ["MPI_SCHEDULED", "ADAPTIVE"].into_iter().filter_map(kept).collect::<Vec<_>>().join(", ");
    Ok(Drawn {
        name: "cug2009-8",
        title: "Some targets 20 times slower",
        machine: machine.name,
        x_name: "share of targets that are slow",
        y_name: "GB/s",
        x: shares.iter().map(|s| format!("{} %", s * 100.0)).collect(),
        published: vec![Published {
            what: "targets slower by a factor of 100 were seen",
            from: "the papers",
            value: None,
            x: None,
            series: None,
            ours: format!("with 1 % of them 20 times slower: {ours}"),
            used: "not used",
        }],
        series,
        limit,
        remark: OURS,
    })
}

fn by_share_of_processes(seed: u64) -> Result<Drawn> {
    let machine = Machine::shipped("jaguar-xt4")?;
    let shares = [0.0, 0.25, 0.5, 0.75, 0.9, 0.98, 0.99, 0.995, 0.999, 1.0];
    // Bytes that one writer sends to a target in 2.5 s.
    let size = (machine.target_bandwidth() * 2.5) as u64;
    let mut stalled = 0.0;
    let mut series = Vec::new();
    for (method, writers) in [("MPI_SCHEDULED", 1), ("ADAPTIVE", 1)] {
        let mut job = job(method, 8192, size, seed);
        job.parameters.push(scheduled::WRITERS.key, writers.to_string());
        let outcome = run(&machine, &job)?;
        if method == "MPI_SCHEDULED" {
            let slow = outcome.times.iter().filter(|t| (10.5..70.5).contains(&t.writing())).count();
            stalled = slow as f64 / f64::from(outcome.ranks) * 100.0;
        }
        series.push(Series {
            name: method.into(),
            y: shares.iter().map(|share| f64::from(outcome.quantile(*share))).collect(),
        });
    }
    Ok(Drawn {
        name: "sand-5",
        title: "Seconds a process writes, 8,192 processes in turns",
        machine: machine.name,
        x_name: "share of the processes that are through",
        y_name: "seconds",
        x: shares.iter().map(|s| format!("{}%", s * 100.0)).collect(),
        published: vec![
            Published {
                what: "most processes took 2 to 3 s",
                from: "the papers",
                value: None,
                x: None,
                series: None,
                ours: format!("the middle half {:.1} to {:.1} s", series[0].y[1], series[0].y[3]),
                used: FITTED,
            },
            Published {
                what: "1 % took 11 to 70 s",
                from: "the papers",
                value: None,
                x: None,
                series: None,
                ours: format!("{stalled:.1} %, at most {:.0} s", series[0].y[9]),
                used: FITTED,
            },
        ],
        series,
        limit: None,
        remark: "Which points the report's figure has was not at hand: the series are ours.",
    })
}

/// A partition's own way beside the better of both two-phase contenders.
fn advantages(name: &'static str, load: &str, ranks: &[u32]) -> Result<Drawn> {
    let machine = Machine::shipped("lonestar")?;
    let (title, load_of) = load::named(load)?;
    let timed = ranks.iter().map(|ranks| compare(&machine, load_of, *ranks)).collect::<Result<Vec<_>>>()?;
    let directions = [Direction::Write, Direction::Read];
    let series: Vec<Series> = directions
        .iter()
        .zip(["writes", "reads"])
        .map(|(direction, name)| {
            let y = timed.iter().map(|all| advantage(all, *direction)).collect();
            Series { name: name.into(), y }
        })
        .collect();
    let published = ROWS.iter().filter(|row| row.load == load).map(|row| {
        let line = directions.iter().position(|direction| *direction == row.direction);
        let at = ranks.iter().position(|ranks| *ranks == row.ranks);
        let ours = line.zip(at).and_then(|(line, at)| series.get(line)?.y.get(at).copied());
        let deviation = |ours: f64| format!("{ours:.2}, {:+.0} %", (ours / row.advantage - 1.0) * 100.0);
        Published {
            what: row.what,
            from: AHPIOS,
            value: Some(row.advantage),
            x: at,
            series: line,
            ours: ours.map_or("-".into(), deviation),
            used: if row.fitted { "constants were fitted to it" } else { HELD_OUT },
        }
    });
    let mut published: Vec<Published> = published.collect();
    let what = ["writes elsewhere lie between these", "reads elsewhere lie between these"];
    for ((line, direction), what) in directions.iter().enumerate().zip(what) {
        let told = ROWS.iter().filter(|row| row.load == load && row.direction == *direction).map(|row| row.advantage);
        let (least, most) = told.fold((f64::INFINITY, 0.0_f64), |(least, most), at| (least.min(at), most.max(at)));
        let elsewhere =
            |ranks: u32| ROWS.iter().all(|row| (row.load, row.direction, row.ranks) != (load, *direction, ranks));
        let outside =
            ranks.iter().zip(&series[line].y).filter(|(at, y)| elsewhere(**at) && !(least..=most).contains(*y));
        let outside: Vec<String> = outside.map(|(at, y)| format!("{y:.2} at {at}")).collect();
        published.push(Published {
            what,
            from: AHPIOS,
            value: None,
            x: None,
            series: Some(line),
            ours: if outside.is_empty() { "all do".into() } else { format!("outside: {}", outside.join(", ")) },
            used: "not used",
        });
    }
    Ok(Drawn {
        name,
        title,
        machine: machine.name,
        x_name: "ranks",
        y_name: "times as fast as the better two-phase",
        x: ranks.iter().map(u32::to_string).collect(),
        published,
        series,
        limit: Some(("1: as fast as the better two-phase".into(), 1.0)),
        remark: "The paper's curves were not at hand, only the least and the most of each: the series are ours.",
    })
}

impl Drawn {
    /// The figure as text.
    pub fn table(&self) -> String {
        let mut out = format!("{}: {}\n{}\n\n", self.name, self.title, self.machine);
        let first = self.x.iter().map(String::len).chain([self.x_name.len()]).max().unwrap_or(0);
        let width = |s: &Series| s.name.len().max(8);
        let _ = write!(out, "{:>first$}", self.x_name);
        for series in &self.series {
            let _ = write!(out, "  {:>1$}", series.name, width(series));
        }
        let _ = writeln!(out, "  {}", self.y_name);
        for (i, place) in self.x.iter().enumerate() {
            let _ = write!(out, "{place:>first$}");
            for series in &self.series {
                let value = series.y.get(i).copied().unwrap_or(f64::NAN);
                let _ = write!(out, "  {value:>0$.2}", width(series));
            }
            out.push('\n');
        }
        if let Some((name, _)) = &self.limit {
            let _ = write!(out, "\n{name}\n");
        }
        out.push_str("\npublished beside ours\n");
        for published in &self.published {
            let _ =
                writeln!(out, "  {} ({})\n    {}; {}", published.what, published.from, published.ours, published.used);
        }
        let _ = writeln!(out, "\n{}", self.remark);
        out
    }

    /// The figure as an SVG document.
    pub fn picture(&self) -> String {
        chart::picture(&Chart {
            title: self.title,
            subtitle: &self.machine,
            x_name: self.x_name,
            y_name: self.y_name,
            x: &self.x,
            series: &self.series,
            limit: self.limit.as_ref().map(|(name, value)| (name.as_str(), *value)),
            published: self
                .published
                .iter()
                .filter_map(|p| Some(Ring { at: p.x?, value: p.value?, series: p.series }))
                .collect(),
        })
    }
}
