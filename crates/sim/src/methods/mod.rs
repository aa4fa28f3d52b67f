//! The methods in virtual time: ranks open, wait, send and write in the planner's order.
//!
//! | method | writers and targets | room |
//! |---|---|---|
//! | `NULL` | no rank writes | here |
//! | `MPI` | every rank its place in one shared file, all at once | [`independent`] |
//! | `POSIX` | every rank its own file, all at once | [`independent`] |
//! | `MPI_SCHEDULED` | every rank a stripe of one of the split files, in turns | [`scheduled`] |
//! | `MPI_AGGREGATE` | the first rank of each set, for the set | [`aggregated`] |
//! | `MPI_COLLECTIVE` | aggregators, whole stripes of one shared file, after an exchange | [`collective`] |
//! | `ADAPTIVE` | every rank where and when [`next`](thalweg_movement::plan::adaptive::next) says | [`adaptive`] |
//!
//! Common to all: ranks pack their groups, agree once at the beginning and once at the end, and send characteristics up a tree to
//! one rank, which writes the index.

pub mod adaptive;
pub mod aggregated;
pub mod collective;
pub mod independent;
pub mod scheduled;

use crate::machine::Machine;
use crate::noise::Noise;
use crate::outcome::{Outcome, RankTimes};
use crate::world::{Happened, World, slow_targets};
use thalweg_movement::method::{
    MethodKind, Parameter, Parameters, adaptive as adaptive_method, aggregated as aggregated_method,
    collective as collective_method, independent as independent_method, null as null_method, posix as posix_method,
    scheduled as scheduled_method,
};
use thalweg_types::{Error, ErrorKind, Result};

/// A method that is simulated.
struct Simulated {
    /// Its names and parameters.
    kind: MethodKind,
    /// The parameters that are simulated: the method's own declarations, with its own defaults.
    parameters: &'static [Parameter],
    make: fn(&Machine, &Job) -> Result<Box<dyn Turns>>,
}

/// The simulated methods. A further method is added here, and nowhere else in this crate.
const SIMULATED: [Simulated; 7] = [
    Simulated { kind: null_method::KIND, parameters: &[], make: |_, _| Ok(Box::new(Nothing)) },
    Simulated {
        kind: independent_method::KIND,
        parameters: &[],
        make: |machine, job| Ok(Box::new(independent::Shared::new(machine, job)?)),
    },
    Simulated {
        kind: posix_method::KIND,
        parameters: &[],
        make: |machine, job| Ok(Box::new(independent::Own::new(machine, job))),
    },
    Simulated {
        kind: scheduled_method::KIND,
        parameters: &[scheduled_method::NUM_FILES, scheduled_method::WRITERS],
        make: |machine, job| Ok(Box::new(scheduled::Scheduled::new(machine, job)?)),
    },
    Simulated {
        kind: aggregated_method::KIND,
        parameters: &[aggregated_method::AGGREGATORS, aggregated_method::CHUNK, aggregated_method::PATTERN],
        make: |machine, job| Ok(Box::new(aggregated::Aggregated::new(machine, job)?)),
    },
    Simulated {
        kind: collective_method::KIND,
        parameters: &[collective_method::AGGREGATORS, collective_method::BUFFER],
        make: |machine, job| Ok(Box::new(collective::Collective::new(machine, job)?)),
    },
    Simulated {
        kind: adaptive_method::KIND,
        parameters: &[adaptive_method::WRITERS, adaptive_method::STUCK, adaptive_method::PATIENCE],
        make: |machine, job| Ok(Box::new(adaptive::Adaptive::new(machine, job)?)),
    },
];

/// The methods that are simulated, by their first name.
pub const METHODS: [&str; SIMULATED.len()] = {
    let mut names = [""; SIMULATED.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = SIMULATED[i].kind.names[0];
        i += 1;
    }
    names
};

fn known(name: &str) -> Option<&'static Simulated> {
    const ALL: &[Simulated] = &SIMULATED;
    ALL.iter().find(|simulated| simulated.kind.names.iter().any(|known| known.eq_ignore_ascii_case(name)))
}

/// Reads `key=value;key=value`, as in the XML. One text serves all methods of a comparison, each takes the parameters that it
/// knows: so `chunk` counts as `buffer` and the other way round, unless both are given.
///
/// # Errors
/// `Config` for a parameter that no method simulates, and for a value that one of the methods that know the parameter refuses.
pub fn parameters(text: &str) -> Result<Parameters> {
    let mut given = Parameters::parse(text);
    let known: Vec<Parameter> = SIMULATED.iter().flat_map(|simulated| simulated.parameters.iter().copied()).collect();
    given.check_known(&known)?;
    known.iter().try_for_each(|parameter| given.check(parameter))?;
    let (chunk, buffer) = (&aggregated_method::CHUNK, &collective_method::BUFFER);
    match (given.text(chunk).map(str::to_string), given.text(buffer).map(str::to_string)) {
        (Some(size), None) => given.push(buffer.key, size),
        (None, Some(size)) => given.push(chunk.key, size),
        _ => {}
    }
    Ok(given)
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
    /// Parameters, as [`parameters`] reads them. A method ignores unknown ones.
    pub parameters: Parameters,
    /// Of the noise.
    pub seed: u64,
}

/// The reaction of a method to an event; [`run`] advances time.
pub(crate) trait Turns {
    fn begin(&mut self, world: &mut World, times: &mut [RankTimes]);
    fn happened(&mut self, what: Happened, world: &mut World, times: &mut [RankTimes]);
    /// No rank waits any more; writes in progress are irrelevant.
    fn done(&self) -> bool;
    /// Remarks for the outcome.
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
    let Some(simulated) = known(&job.method) else {
        let what = format!("method '{}' is not simulated; simulated methods: {}", job.method, METHODS.join(", "));
        return Err(Error::new(ErrorKind::NotFound, what));
    };
    if job.ranks == 0 || job.ranks > MOST_RANKS {
        let what = format!("{} ranks can't be simulated; 1 to {MOST_RANKS} can", job.ranks);
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    let method = simulated.kind.names[0];
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
    let mut turns = (simulated.make)(machine, job)?;
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

/// Largest bandwidth of one write: its node's link, shared by the writers of the node.
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
    fn parameters_are_those_of_the_methods_with_their_defaults() {
        let given = parameters("num_files=12; writers_per_target=3;pattern=brigade;chunk=4MB").unwrap();
        assert_eq!(given.get::<u32>(&scheduled_method::NUM_FILES).unwrap(), 12);
        assert_eq!(given.get::<u32>(&adaptive_method::WRITERS).unwrap(), 3);
        assert_eq!(given.get::<String>(&aggregated_method::PATTERN).unwrap(), "brigade");
        // A size is the same as in the XML, for both methods that move data in pieces.
        assert_eq!(given.get::<u64>(&aggregated_method::CHUNK).unwrap(), 4 << 20);
        assert_eq!(given.get::<u64>(&collective_method::BUFFER).unwrap(), 4 << 20);
        assert_eq!(parameters("").unwrap(), Parameters::default());
        for wrong in ["num_files=0", "pattern=up", "chunk=", "chunk=0", "stuck=0.5", "colour=red"] {
            let error = parameters(wrong).unwrap_err();
            assert!(error.to_string().contains(wrong.split('=').next().unwrap()), "{error}");
        }
    }
}
