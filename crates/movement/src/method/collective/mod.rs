//! Collective writing, in two phases into one shared file: bytes go to the ranks that own their stripes, and these write
//! whole stripes.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | aggregators, each the stripes of its domain: `aggregators` ranks spread evenly, by default the first rank of each node; rank 0 the index, while others still write if much is written ([`crate::output_file::commit`]) |
//! | when         | inside `close`, in rounds: half of an aggregator's buffer is written while the other half fills |
//! | where        | one file; rank r behind the groups of ranks 0 to r-1, the index behind all; only the ends of the output share a stripe with others |
//! | what moves   | each byte once, to its aggregator: by message, or put into its memory by ranks on its node ([`crate::nodes::memory`]); an aggregator's own bytes not at all; a few short messages per rank |
//! | memory       | the process group, beyond the buffer limit a spill file as with [`MPI`](super::independent); an aggregator holds `buffer` bytes of others, in messages and in memory that it shares with its node; a rank copies at most one message of its group (4 MiB). All of it within the limit: shares are smaller where that is low (`Shares`) |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks sends an empty process group |
//! | on failure   | an aggregator that cannot write costs the groups with bytes from there to the end of its domain: all ranks get its kind of error, the others' groups are indexed, the step is partial. Where a rank is lost, those left write their own groups |
//!
//! It needs no MPI-IO below: the exchange is messages ([`crate::method::collective::exchange`]), the plan is pure
//! ([`crate::plan::domains`]).
//!
//! Per rank and output: one receive for the turn to open, two scans or reductions more than `MPI`; per rank and aggregator that
//! has stripes of it: two short messages, and for each 4 MiB at most one request and one message with data.
//!
//! Sources: Thakur, Gropp, Lusk, Frontiers 1999, two-phase writing; Lofstead et al., SAND2009-7763, the collective method.
//! Differs: aggregators ask for what they have room for, so that memory is bounded however uneven the ranks are.

use crate::buffer::{self, LEAST_PIECE, Reservation, Room};
use crate::method::collective::exchange::{Exchange, Exchanged};
use crate::method::{
    CloseRequest, Closed, INDEX, INDEX_AHEAD, INDEX_FAN_IN, Indexing, Method, MethodKind, OpenRequest, Opened,
    Parameter, Parameters, SPILL_COPY, SYNC, Tried, not_open, spill_copy,
};
use crate::nodes;
use crate::nodes::memory::NodeMemory;
use crate::output_file::closing::Closing;
use crate::output_file::commit::{Ahead, Part, Written};
use crate::output_file::shared_file::SharedFile;
use crate::output_file::spill;
use crate::pack::Reach;
use crate::plan;
use crate::plan::domains::{self, Domains};
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_comm::agreement;
use thalweg_comm::guarded::caught;
use thalweg_layout::WriteObject;
use thalweg_types::{Error, Extent, Result};

/// Largest message with data.
const PIECE: u64 = 4 << 20;
/// Ranks that one aggregator serves at most, where their number is not given.
const SERVED: u32 = 32;
/// Most aggregators, where their number is not given.
const MOST: usize = 1024;

/// How the registry lists it.
pub const KIND: MethodKind = MethodKind {
    names: &["MPI_COLLECTIVE", "MPI_CIO"],
    id: 6,
    about: "aggregators write whole stripes of one shared file",
    parameters: &[SYNC, INDEX, INDEX_FAN_IN, INDEX_AHEAD, AGGREGATORS, STRIPE, BUFFER, SPILL_COPY],
    least: (MOST_WINDOWS + 1) * LEAST_PIECE + spill::LEAST,
    tried: &[
        Tried::powers_of_two(AGGREGATORS, |ranks| ranks),
        Tried::these(STRIPE, &["256KiB", "4MiB", "16MiB"]),
        Tried::these(BUFFER, &["4MiB", "64MiB"]),
    ],
    make,
};

pub mod exchange;

/// `aggregators`.
pub const AGGREGATORS: Parameter =
    Parameter::count("aggregators", 0, "largest number of ranks that write; 0: as if not given")
        .or_else("one per node, at least one for 32 ranks, at most 1024")
        .also(&["num_aggregators"]);
/// `stripe`.
pub const STRIPE: Parameter = Parameter::size(
    "stripe",
    1 << 20,
    "stripe length of the file: each stripe has one writer. The stripe length of the filesystem is best",
)
.also(&["stripe_size"]);
/// Bytes of `buffer` at least.
pub const LEAST_BUFFER: u64 = 8 << 10;
/// `buffer`.
pub const BUFFER: Parameter = Parameter::size(
    "buffer",
    16 << 20,
    "memory of an aggregator for other ranks' data, within the buffer limit; less than 8 KiB counts as 8 KiB",
);

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    Ok(Box::new(Collective {
        sync: parameters.get(&SYNC)?,
        indexing: Indexing::of(parameters)?,
        aggregators: parameters.get::<Option<u32>>(&AGGREGATORS)?.unwrap_or(0),
        stripe: parameters.get(&STRIPE)?,
        buffer: parameters.get::<u64>(&BUFFER)?.max(LEAST_BUFFER),
        spill_copy: spill_copy(parameters)?,
        open: None,
    }))
}

struct Collective {
    sync: bool,
    indexing: Indexing,
    /// 0: by nodes.
    aggregators: u32,
    stripe: u64,
    buffer: u64,
    spill_copy: usize,
    open: Option<Open>,
}

struct Open {
    file: SharedFile,
    /// Their ranks, rank 0 first.
    aggregators: Vec<u32>,
    /// Shared with the ranks of the node.
    memory: Option<NodeMemory>,
    shares: Shares,
    /// These count in the buffer, but for the memory, which counts itself.
    _held: Reservation,
}

/// Most windows that an aggregator has memory for: two for messages, two that ranks of its node put bytes into.
const MOST_WINDOWS: u64 = 4;

/// What a rank holds for an output: as much as the parameters say, less where the buffer's limit is low.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shares {
    /// Windows whose bytes come in messages.
    in_messages: u64,
    /// Windows in memory that ranks of the node put bytes into.
    in_memory: u64,
    /// Bytes of a window, on aggregators.
    window: u64,
    /// Most bytes of a message.
    piece: u64,
}

impl Shares {
    /// - `writes`: this rank is an aggregator; `on`, `off`: there are others on its node, and elsewhere; `buffer`: the parameter.
    fn of(room: Room, writes: bool, (on, off): (bool, bool), buffer: u64) -> Shares {
        let (in_memory, in_messages) = if writes { (2 * u64::from(on), 2 * u64::from(off)) } else { (0, 0) };
        let windows = in_memory + in_messages;
        let piece = PIECE.min(buffer / 2);
        let window = if writes { buffer / 2 } else { piece };
        let wanted = windows * window + piece;
        let share = room.share(wanted, (windows + 1) * LEAST_PIECE);
        if share == wanted {
            return Shares { in_messages, in_memory, window, piece };
        }
        let window = window.min(share / (windows + 1));
        Shares { in_messages, in_memory, window, piece: piece.min(window) }
    }

    /// Where no memory is shared, all come in messages.
    fn without_memory(self) -> Shares {
        Shares { in_messages: self.in_messages.max(self.in_memory), in_memory: 0, ..self }
    }

    /// Bytes of memory that ranks of the node put theirs into.
    fn memory(&self) -> u64 {
        self.in_memory * self.window
    }

    /// Bytes besides.
    fn besides(&self) -> u64 {
        self.in_messages * self.window + self.piece
    }

    /// As much as the system has memory for.
    fn obtainable(self) -> Result<Shares> {
        let window = buffer::obtainable(self.in_messages + 1, self.window.max(self.piece), LEAST_PIECE)?;
        Ok(Shares { window: self.window.min(window), piece: self.piece.min(window), ..self })
    }
}

/// Who may be an aggregator.
///
/// - `nodes`: by rank, a number for its node; `wanted`: how many, 0 for as many as there are nodes, within bounds.
fn aggregators(nodes: &[u32], wanted: u32) -> Vec<u32> {
    let ranks = nodes.len() as u32;
    let spread = |count: u32| (0..count).map(|n| domains::spread(n, count, ranks)).collect();
    if wanted > 0 {
        return spread(wanted.min(ranks));
    }
    let first: Vec<u32> = (0..).zip(nodes.iter()).filter(|(rank, node)| rank == *node).map(|(rank, _)| rank).collect();
    let least = ranks.div_ceil(SERVED).min(MOST as u32);
    if first.len() < least as usize || first.len() > MOST {
        spread(least.max(first.len().min(MOST) as u32))
    } else {
        first
    }
}

impl Method for Collective {
    fn name(&self) -> &'static str {
        "MPI_COLLECTIVE"
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let rank = request.comm.rank();
        let room = nodes::room(request);
        let shares = |nodes: &[u32]| {
            let writes = aggregators(nodes, self.aggregators).contains(&rank);
            Shares::of(room, writes, nodes::on_and_off(nodes, 0..nodes.len() as u32, rank), self.buffer)
        };
        let wanted = |nodes: &[u32]| shares(nodes).memory();
        let (nodes, memory) = nodes::of(request, Some(&wanted)).map_err(|e| e.in_object(request.path))?;
        let shares = if memory.as_ref().is_some_and(|m| m.reaches(rank)) {
            shares(&nodes)
        } else {
            shares(&nodes).without_memory()
        };
        let held = request.buffer.reserve(shares.besides());
        let aggregators = aggregators(&nodes, self.aggregators);
        let opens = aggregators.contains(&rank);
        let (file, opened, _) = SharedFile::open(request, self.sync, self.spill_copy, opens, &[])?;
        self.open = Some(Open { file, aggregators, memory, shares, _held: held });
        Ok(opened)
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        Ok((open.file.spill(None)?, 0))
    }

    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed> {
        let Open { file, aggregators, memory, shares, _held } = self.open.take().ok_or_else(not_open)?;
        let how = file.index.commit(self.indexing, false);
        let comm = request.comm;
        let (mut closing, mut part) = Closing::begin(file, request, how);
        let exchanged = self.exchange((&aggregators, memory.as_ref(), shares), &mut part, &mut closing);
        let first = exchanged.and_then(|ahead| closing.commit(&mut part, ahead));
        if first.is_ok() {
            // All have met since anybody put anything there.
            nodes::keep(&closing.open.index.cache, comm, memory);
        }
        let outcome = closing.end(first, &mut part);
        closing.open.close(part.is_indexed());
        outcome
    }
}

impl Collective {
    /// Collective: finds the places, and moves all groups there. This rank's index fragment may go ahead.
    ///
    /// # Errors
    /// A lost rank; what else goes wrong is told to `part`.
    fn exchange<'c>(
        &self,
        (aggregators, memory, shares): (&[u32], Option<&NodeMemory>, Shares),
        part: &mut Part,
        closing: &mut Closing<'c, '_, SharedFile>,
    ) -> Result<Option<Ahead<'c>>> {
        let (comm, how, file) = (closing.request.comm, closing.how, &closing.open);
        let (base, rank, size) = (file.index.base, file.index.rank, part.size());
        let before = comm.exclusive_scan(size)?;
        let (shares, lacking) = buffer::or_wanted(shares.obtainable(), shares);
        let lacking = lacking.map_or(Ok(()), |e| Err(e.at_rank(rank)));
        // The shortest piece, upside down: a rank answers with pieces as long as an aggregator asks for.
        let numbers = [before.saturating_add(size), !shares.piece];
        let (verdict, told) = agreement::exchange(comm, rank, lacking.as_ref().err().map(Error::kind), &numbers)?;
        let (all, piece) = (told[0], !told[1]);
        if let Err(e) = verdict.apply(rank, lacking, "get memory to carry the process groups") {
            // A rank that has failed before says why itself.
            part.wrote(Err(e));
            return Ok(None);
        }
        // Where the output leaves the range of offsets, that is so for all.
        if let Err(e) = plan::shared(rank, base, 0, all) {
            part.fail(e);
            return Ok(None);
        }
        let place = Extent::new(base + before, size);
        let writer = closing.request.writer(&file.index, SINGLE_FILE);
        let domains = Domains::new(Extent::new(base, all), self.stripe, aggregators.len() as u32);
        let aggregator = aggregators.iter().position(|a| *a == rank);
        let domain = aggregator.and_then(|number| domains.number_of(number as u32));
        // An aggregator tells what became of its own group when it has written those of others, too.
        let unwritten = domain.map_or(0, |number| domains.domain(number).length).max(size);
        let mut fragment = None;
        let mut group = None;
        let laid = match size {
            0 => None,
            _ => {
                let (pack, header) = (&mut *closing.request.pack, closing.request.header);
                Some(caught("pack the process group", || pack.lay(file.spilled(), place, header, writer)))
            }
        };
        let (mut unlaid, mut ahead) = (None, None);
        match laid {
            Some(Ok((laid, index))) => {
                ahead = part.ahead(comm, how, place, unwritten, || Ok(index.clone()));
                (group, fragment) = (Some(laid), Some(index));
            }
            Some(Err(e)) => unlaid = Some(e),
            None => {}
        }
        let exchange = Exchange {
            comm,
            domains,
            aggregators,
            place,
            group: group.as_ref(),
            object: if aggregator.is_some() { Some(file.opened()?) } else { None },
            window: shares.window,
            piece,
            memory,
            end: &|| caught("close the file", || file.end_data()),
        };
        let Exchanged { own, others, held } = exchange.run()?;
        tracing::debug!(held, window = shares.window, "bytes of other ranks held at most");
        let path = file.index.path.clone();
        if let Err(e) = others {
            part.spoiled(e.in_object(path.clone()));
        }
        match (unlaid, own, fragment) {
            (Some(e), ..) | (None, Err(e), _) => part.fail(e.at_rank(rank).in_object(path)),
            (None, Ok(()), Some(fragment)) => {
                let ended = caught("close the spill file", || file.end_spill());
                part.wrote(ended.map(|()| Written { fragment, extent: place }));
            }
            // It has failed before.
            (None, Ok(()), None) => {}
        }
        Ok(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_types::ErrorKind;

    #[test]
    fn old_names_of_parameters_are_understood_and_nonsense_is_named() {
        let with = |key: &str, value: &str| make(&Parameters::from_iter([(key, value)])).map(|_| ());
        assert!(with("num_aggregators", "4").is_ok() && with("stripe_size", "65536").is_ok());
        for key in ["aggregators", "num_aggregators", "stripe", "buffer"] {
            let e = with(key, "many").unwrap_err();
            assert!(e.kind() == ErrorKind::Config && e.what().contains(key), "{e}");
        }
    }
}
