//! The methods in virtual time: who opens, waits, sends and writes, in the order that the planner says.
//!
//! | method | who writes where | room |
//! |---|---|---|
//! | `NULL` | nobody | here |
//! | `MPI` | every rank its place in one shared file, all at once | [`independent`] |
//! | `POSIX` | every rank its own file, all at once | [`independent`] |
//! | `MPI_SCHEDULED` | every rank a stripe of one of the split files, in turns | [`scheduled`] |
//! | `MPI_AGGREGATE` | the first rank of each set, for the set | [`aggregated`] |
//! | `MPI_COLLECTIVE` | aggregators, whole stripes of one shared file, after an exchange | [`collective`] |
//! | `ADAPTIVE` | every rank where and when [`next`](thalweg_movement::plan::adaptive::next) says | [`adaptive`] |
//!
//! What all have in common: ranks pack their groups, agree once at the beginning and once at the end, characteristics go up a tree
//! to one rank, which writes the index.

pub mod adaptive;
pub mod aggregated;
pub mod collective;
pub mod independent;
pub mod scheduled;

use crate::machine::Machine;
use crate::noise::Noise;
use crate::outcome::{Outcome, RankTimes};
use crate::world::{Happened, World, slow_targets};
use thalweg_types::{Error, ErrorKind, Result};

/// Parameters, as in the XML. What a method doesn't know, it ignores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    /// `num_files`: split files; by default as many as there are targets.
    pub num_files: Option<u32>,
    /// `writers_per_target`: ranks that write to a target at a time; by default 2 for `MPI_SCHEDULED`, 1 for `ADAPTIVE`.
    pub writers_per_target: Option<u32>,
    /// `aggregators`: ranks that write for others; by default as many as there are targets (`MPI_AGGREGATE`), or targets under a file.
    pub aggregators: Option<u32>,
    /// `pattern`: whether sets pass data along a chain (`brigade`) or straight to their writer (`simple`).
    pub brigade: bool,
    /// `chunk` (`MPI_COLLECTIVE`: `buffer`): bytes that pass through an aggregator at a time.
    pub chunk: u64,
    /// `stuck`: how many times what is usual makes a write stuck.
    pub stuck: f64,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            num_files: None,
            writers_per_target: None,
            aggregators: None,
            brigade: false,
            chunk: 8 << 20,
            stuck: 2.0,
        }
    }
}

impl Params {
    /// From `name=value` pairs between semicolons.
    ///
    /// # Errors
    /// `Config` names the parameter.
    pub fn parse(text: &str) -> Result<Params> {
        let mut params = Params::default();
        for pair in text.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (name.trim(), value.trim());
            let bad =
                |what: &str| Error::new(ErrorKind::Config, format!("parameter '{name}': '{value}' is not {what}"));
            let count = || value.parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(|| bad("a number above 0"));
            match name {
                "num_files" => params.num_files = Some(count()?),
                "writers_per_target" => params.writers_per_target = Some(count()?),
                "aggregators" | "num_aggregators" => params.aggregators = Some(count()?),
                "pattern" => {
                    params.brigade = match value {
                        "simple" => false,
                        "brigade" => true,
                        _ => return Err(bad("simple or brigade")),
                    }
                }
                "chunk" | "buffer" => {
                    params.chunk = size(value).filter(|n| *n > 0).ok_or_else(|| bad("a size above 0"))?
                }
                "stuck" => {
                    let stuck = value.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 1.0);
                    params.stuck = stuck.ok_or_else(|| bad("a number of at least 1"))?;
                }
                _ => return Err(Error::new(ErrorKind::Config, format!("no parameter '{name}' is simulated"))),
            }
        }
        Ok(params)
    }
}

/// Bytes of a text such as `768MiB`, `8 MB` or `4096`; `None` where it is none.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit: f64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "kib" | "k" => 1024.0,
        "mib" | "m" => 1024.0 * 1024.0,
        "gib" | "g" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = text[..digits].parse::<f64>().ok()? * unit;
    (bytes.is_finite() && (0.0..1e15).contains(&bytes)).then_some(bytes.round() as u64)
}

/// One output to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// A method's name or alias, in any case.
    pub method: String,
    /// Ranks, at most ten million.
    pub ranks: u32,
    /// Bytes of each.
    pub size: u64,
    /// Parameters.
    pub params: Params,
    /// Of the noise.
    pub seed: u64,
}

/// The methods that are simulated, by their first name.
pub const METHODS: [&str; 7] = ["NULL", "MPI", "POSIX", "MPI_SCHEDULED", "MPI_AGGREGATE", "MPI_COLLECTIVE", "ADAPTIVE"];

fn known(name: &str) -> Option<&'static str> {
    let upper = name.to_ascii_uppercase();
    Some(match upper.as_str() {
        "MPI_LUSTRE" | "MPI_STRIPE" => "MPI_SCHEDULED",
        "MPI_AMR" | "MPI_BGQ" => "MPI_AGGREGATE",
        "MPI_CIO" => "MPI_COLLECTIVE",
        other => METHODS.into_iter().find(|method| *method == other)?,
    })
}

/// What a method does when something happened; [`run`] carries time along.
pub(crate) trait Turns {
    fn begin(&mut self, world: &mut World, times: &mut [RankTimes]);
    fn happened(&mut self, what: Happened, world: &mut World, times: &mut [RankTimes]);
    /// No rank waits for anything any more. What still flows is of no use to anybody.
    fn done(&self) -> bool;
    /// What the outcome says beside times.
    fn tell(&self, outcome: &mut Outcome);
}

/// Most ranks that can be simulated.
pub const MOST_RANKS: u32 = 10_000_000;

/// Simulates one output.
///
/// # Errors
/// `NotFound` for a method that is not simulated; `InvalidArgument` for no ranks or more than [`MOST_RANKS`]; `OutOfBounds`
/// where the planner finds no place.
pub fn run(machine: &Machine, job: &Job) -> Result<Outcome> {
    let Some(method) = known(&job.method) else {
        let what = format!("method '{}' is not simulated; there are {}", job.method, METHODS.join(", "));
        return Err(Error::new(ErrorKind::NotFound, what));
    };
    if job.ranks == 0 || job.ranks > MOST_RANKS {
        let what = format!("{} ranks can't be simulated; 1 to {MOST_RANKS} can", job.ranks);
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    let mut outcome = Outcome {
        method,
        ranks: job.ranks,
        size: job.size,
        seconds: 0.0,
        peak: machine.peak(),
        times: vec![RankTimes::NOTHING; job.ranks as usize],
        writers: 0,
        files: 0,
        moved: 0,
        dead_bytes: 0,
        memory: job.size,
        events: 0,
        remarks: Vec::new(),
    };
    let mut turns: Box<dyn Turns> = match method {
        "NULL" => Box::new(Nothing),
        "MPI" => Box::new(independent::Shared::new(machine, job)?),
        "POSIX" => Box::new(independent::Own::new(machine, job)),
        "MPI_SCHEDULED" => Box::new(scheduled::Scheduled::new(machine, job)?),
        "MPI_AGGREGATE" => Box::new(aggregated::Aggregated::new(machine, job)),
        "MPI_COLLECTIVE" => Box::new(collective::Collective::new(machine, job)?),
        _ => Box::new(adaptive::Adaptive::new(machine, job)?),
    };
    turns.tell(&mut outcome);
    let mut world = World::new(machine, job.seed, sender(machine, job.ranks, outcome.writers));
    turns.begin(&mut world, &mut outcome.times);
    while !turns.done() {
        match world.step() {
            Some(what) => turns.happened(what, &mut world, &mut outcome.times),
            None => break,
        }
    }
    debug_assert!(turns.done());
    turns.tell(&mut outcome);
    // Two agreements of all ranks, a tree up and down each; packing; the index, up a tree and to one target.
    let levels = f64::from(32 - job.ranks.leading_zeros());
    let agreements = 4.0 * levels * machine.network.latency_seconds.0;
    let index_bytes = f64::from(job.ranks) * machine.files.index_bytes_per_rank.0;
    let writes_index = if method == "NULL" { 0.0 } else { index_bytes / machine.target_bandwidth() };
    let index = index_bytes / machine.node_bandwidth() + levels * machine.network.latency_seconds.0 + writes_index;
    outcome.seconds = world.now() + agreements + machine.copy_seconds(job.size) + index;
    outcome.events = world.handled();
    if machine.slow.share.0 > 0.0 && matches!(method, "MPI" | "MPI_COLLECTIVE") {
        let width = machine.targets_of_a_file() as usize;
        let slow = slow_targets(machine, Noise::new(job.seed)).iter().take(width).filter(|slow| **slow).count();
        outcome.remarks.push(format!("{slow} of the {width} targets under its one file are slow"));
    }
    let memory = machine.nodes.memory_gib_per_rank.0 * (1u64 << 30) as f64;
    if outcome.memory as f64 > memory {
        let what = format!(
            "a rank needs {:.2} GiB and has {}",
            outcome.memory as f64 / (1u64 << 30) as f64,
            machine.nodes.memory_gib_per_rank.0
        );
        outcome.remarks.push(what);
    }
    Ok(outcome)
}

/// What one write gets at most: its node's link, shared by the writers of the node.
fn sender(machine: &Machine, ranks: u32, writers: u32) -> f64 {
    let nodes = ranks.div_ceil(machine.nodes.ranks_per_node.0).max(1);
    machine.node_bandwidth() / f64::from(writers.div_ceil(nodes).max(1))
}

struct Nothing;

impl Turns for Nothing {
    fn begin(&mut self, _: &mut World, _: &mut [RankTimes]) {}
    fn happened(&mut self, _: Happened, _: &mut World, _: &mut [RankTimes]) {}
    fn done(&self) -> bool {
        true
    }
    fn tell(&self, _: &mut Outcome) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("768MiB"), Some(768 << 20));
        assert_eq!(size("8 MB"), Some(8_000_000));
        assert_eq!((size("4096"), size("0"), size("1.5GiB")), (Some(4096), Some(0), Some(3 << 29)));
        assert_eq!((size("MiB"), size("-1"), size("8 parsec"), size("1e30GB")), (None, None, None, None));
    }

    #[test]
    fn parameters_are_those_of_the_xml() {
        let params = Params::parse("num_files=12; writers_per_target=3;pattern=brigade;chunk=4MiB").unwrap();
        assert_eq!((params.num_files, params.writers_per_target), (Some(12), Some(3)));
        assert!(params.brigade && params.chunk == 4 << 20);
        for wrong in ["num_files=0", "pattern=up", "chunk=", "stuck=0.5", "colour=red"] {
            let error = Params::parse(wrong).unwrap_err();
            assert!(error.to_string().contains(wrong.split('=').next().unwrap()), "{error}");
        }
    }
}
