//! Which messages a load needs, by contender. Pure functions: no time passes here.
//!
//! | question | the partition's own way | two-phase |
//! |---|---|---|
//! | who sends to servers | every rank its own bytes | aggregators, one per node; each owns whole stripes of the file ([`Domains`]) |
//! | what is cut where | at stripes, by [`Striping::view_packets`]; [`units`] makes messages of at most `net_buf_kib` of them | an aggregator's bytes in rounds of `buffer_mib`; each round as on the left, without a view |
//! | places on the wire | the view's tree once, then first byte and length of a range of the view | first byte and length of every run, at every call |
//!
//! Messages are made by the client of `thalweg-partition` itself. Ours carry as many bytes of runs as their servers have to scatter.

use super::Contender;
use crate::load::Load;
use crate::machine::{Machine, Servers, TwoPhase};
use thalweg_movement::plan::domains::Domains;
use thalweg_partition::client::transfer::units;
use thalweg_partition::striping::Striping;
use thalweg_types::{Error, ErrorKind, Extent, Result};
use thalweg_view::View;

/// Bytes of a first byte and a length in a message to a server.
pub const PART_BYTES: u64 = 16;
/// Bytes of a pair in a list of ROMIO of 2008: an offset of eight bytes, a length of four.
pub const PAIR_BYTES: u64 = 12;

/// A message between a client and a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The server.
    pub server: u32,
    /// Payload.
    pub bytes: u64,
    /// Runs of the file that the server copies them to or from.
    pub runs: u64,
    /// Ranges in its header.
    pub parts: u64,
}

/// A client's messages. Those of a round are sent without waiting; the next round waits for all replies.
pub type Rounds = Vec<Vec<Message>>;

/// Bytes that a rank and an aggregator exchange in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The rank.
    pub rank: u32,
    /// Payload.
    pub bytes: u64,
    /// Runs of the file: offset-length pairs.
    pub pairs: u64,
}

/// One round of an aggregator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// What it exchanges with ranks.
    pub shares: Vec<Share>,
    /// What it exchanges with servers.
    pub messages: Rounds,
}

/// An aggregator in one collective call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregator {
    /// Its rank.
    pub rank: u32,
    /// Its rounds.
    pub rounds: Vec<Round>,
}

/// The messages of one collective call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// By rank.
    Full(Vec<Rounds>),
    /// By aggregator.
    TwoPhase(Vec<Aggregator>),
}

/// What crosses the network, or the memory of a node, in the writes of a load. The reads are the same, except that views are sent once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wire {
    /// Encoded views, to servers.
    pub view_bytes: u64,
    /// Places: ranges in messages to servers, and lists of offsets and lengths.
    pub place_bytes: u64,
    /// Payload that ranks send to other ranks.
    pub exchanged_bytes: u64,
    /// Of these, those whose rank is on another node.
    pub between_nodes_bytes: u64,
    /// Payload between clients and servers.
    pub server_bytes: u64,
    /// Messages to servers that carry payload.
    pub server_messages: u64,
}

/// All calls of a load, of one contender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Who sends.
    pub contender: Contender,
    /// Ranks.
    pub ranks: u32,
    /// Whether a write lasts until the disks have its bytes: [`Load::until_on_disk`].
    pub until_on_disk: bool,
    /// In order: the writes. The reads are the same.
    pub calls: Vec<Call>,
    /// What its messages are together.
    pub wire: Wire,
}

/// The tables that a machine needs for loads.
///
/// # Errors
/// `Config` where the description lacks one.
pub fn tables(machine: &Machine) -> Result<(&Servers, &TwoPhase)> {
    let lacks = |table: &str| {
        let what = format!("machine '{}' has no [{table}] table: loads need one", machine.name);
        Error::new(ErrorKind::Config, what)
    };
    let servers = machine.servers.as_ref().ok_or_else(|| lacks("servers"))?;
    Ok((servers, machine.two_phase.as_ref().ok_or_else(|| lacks("two_phase"))?))
}

impl Plan {
    /// The messages of a load.
    ///
    /// # Errors
    /// `InvalidArgument` where the load cannot be divided among the ranks; `Config` for a machine without servers.
    /// # Cost
    /// Constant for each run of the file.
    pub fn new(machine: &Machine, load: Load, ranks: u32, contender: Contender) -> Result<Plan> {
        let (servers, two_phase) = tables(machine)?;
        let striping = Striping::new(machine.stripe(), machine.targets_of_a_file())?;
        let views = load.views(ranks)?;
        let mut plan =
            Plan { contender, ranks, until_on_disk: load.until_on_disk(), calls: Vec::new(), wire: Wire::default() };
        if contender == Contender::Full {
            let encoded = views.iter().map(|view| view.encode().len() as u64).sum::<u64>();
            plan.wire.view_bytes = encoded * u64::from(striping.servers());
        }
        for call in 0..load.calls() {
            let planned = match contender {
                Contender::Full => Call::Full(
                    views
                        .iter()
                        .map(|view| rounds(striping, view, load.range(view, call), kib(servers.net_buf_kib.0)))
                        .collect(),
                ),
                Contender::TwoPhase | Contender::Pvfs2 => {
                    let unit = if contender == Contender::Pvfs2 { two_phase.flow_kib.0 } else { servers.net_buf_kib.0 };
                    let start = u64::from(call) * load.bytes_of_call();
                    let all = Extent::new(start, load.bytes_of_call());
                    let window = (two_phase.buffer_mib.0 * (1 << 20) as f64) as u64;
                    Call::TwoPhase(aggregators(machine, striping, &views, all, window, kib(unit), contender))
                }
            };
            plan.count(machine, &planned);
            plan.calls.push(planned);
        }
        Ok(plan)
    }

    fn count(&mut self, machine: &Machine, call: &Call) {
        let wire = &mut self.wire;
        let mut to_servers = |rounds: &Rounds| {
            for message in rounds.iter().flatten() {
                wire.server_bytes += message.bytes;
                wire.server_messages += 1;
                wire.place_bytes += message.parts * PART_BYTES;
            }
        };
        match call {
            Call::Full(ranks) => ranks.iter().for_each(to_servers),
            Call::TwoPhase(aggregators) => {
                aggregators.iter().flat_map(|a| &a.rounds).for_each(|round| to_servers(&round.messages));
                for aggregator in aggregators {
                    let others = aggregator.rounds.iter().flat_map(|round| &round.shares);
                    for share in others.filter(|share| share.rank != aggregator.rank) {
                        wire.exchanged_bytes += share.bytes;
                        wire.place_bytes += share.pairs * PAIR_BYTES;
                        if machine.node_of(share.rank) != machine.node_of(aggregator.rank) {
                            wire.between_nodes_bytes += share.bytes;
                        }
                    }
                }
            }
        }
    }
}

fn kib(kib: f64) -> u64 {
    ((kib * 1024.0) as u64).max(1)
}

/// A client's messages for bytes `range` of a view.
fn rounds(striping: Striping, view: &View, range: std::ops::Range<u64>, unit: u64) -> Rounds {
    let servers = striping.servers();
    let by_server = units(striping.view_packets(view, range), servers, unit as usize);
    let rounds = by_server.iter().map(Vec::len).max().unwrap_or(0);
    (0..rounds)
        .map(|round| {
            let of = |server: u32| {
                let parts = by_server[server as usize].get(round)?;
                let mut message = Message { server, bytes: 0, runs: 0, parts: parts.len() as u64 };
                for part in parts {
                    message.bytes += part.length as u64;
                    message.runs += view.extents(part.start..part.start + part.length as u64).count() as u64;
                }
                Some(message)
            };
            (0..servers).filter_map(of).collect()
        })
        .collect()
}

/// The aggregators of a call that covers `all`: the first rank of each node.
fn aggregators(
    machine: &Machine,
    striping: Striping,
    views: &[View],
    all: Extent,
    window: u64,
    unit: u64,
    contender: Contender,
) -> Vec<Aggregator> {
    let per_node = machine.nodes.ranks_per_node.0;
    let domains = Domains::new(all, striping.stripe(), (views.len() as u32).div_ceil(per_node));
    let whole = View::whole();
    let plan = |number: u32| {
        let domain = domains.domain(number);
        let (mut at, mut rounds_of) = (domain.offset, Vec::new());
        while at < domain.offset + domain.length {
            let extent = domains.round(domain, at, window);
            let end = extent.offset + extent.length;
            let share = |(rank, view): (usize, &View)| {
                // Views of loads rise.
                let (from, to) = (view.count_below(extent.offset)?, view.count_below(end)?);
                let pairs = view.extents(from..to).count() as u64;
                (from < to).then_some(Share { rank: rank as u32, bytes: to - from, pairs })
            };
            let mut messages = rounds(striping, &whole, extent.offset..end, unit);
            if contender == Contender::Pvfs2 {
                // A request to each server, whose bytes then flow without waiting.
                messages = vec![messages.into_iter().flatten().collect()];
            }
            rounds_of.push(Round { shares: views.iter().enumerate().filter_map(share).collect(), messages });
            at = end;
        }
        Aggregator { rank: domains.aggregator(number) * per_node, rounds: rounds_of }
    };
    (0..domains.count()).map(plan).collect()
}
