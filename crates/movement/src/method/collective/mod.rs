//! Two-phase collective writing into one shared file: ranks send their bytes to aggregators, and each aggregator writes
//! whole stripes.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | each aggregator the stripes of its domain. Aggregators are `aggregators` ranks, spread evenly; by default the first rank of each node. Rank 0 writes the index, concurrently with the data of large outputs ([`crate::output_file::commit`]) |
//! | when         | inside `close`, in rounds: half of an aggregator's buffer is written while the other half fills |
//! | where        | one file; the process group of rank r follows those of ranks 0 to r-1, and the index follows all groups; only an output's first and last stripe may contain bytes of other outputs |
//! | what moves   | each byte once, to its aggregator: in a message, or through memory that a node's ranks share ([`crate::nodes::memory`]). An aggregator's own bytes are not moved. A few short messages per rank |
//! | memory       | the process group; beyond the buffer limit a spill file, as with [`MPI`](super::independent). An aggregator holds `buffer` bytes of other ranks, in messages and in shared memory; every rank copies at most one message of its group (4 MiB). A low buffer limit reduces these sizes (`Shares`) |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks sends an empty process group |
//! | on failure   | if an aggregator cannot write, the process groups with bytes from the failed offset to the end of its domain are lost: all ranks return its kind of error, the other groups are indexed, the step is partial. After the loss of a rank, the survivors write their own groups |
//!
//! The method does not use MPI-IO: bytes travel in messages ([`crate::method::collective::exchange`]), and the plan is a pure
//! function ([`crate::plan::domains`]).
//!
//! Cost per rank and output: one receive for the turn to open, and two scans or reductions more than `MPI`. For each aggregator
//! of a rank's bytes: two short messages, and per 4 MiB at most one request and one data message.
//!
//! Sources: Thakur, Gropp, Lusk, Frontiers 1999, two-phase writing; Lofstead et al., SAND2009-7763, the collective method.
//! Differs: an aggregator requests only as many bytes as fit in its buffer, so that its memory is bounded for any distribution of
//! data over ranks.

use crate::buffer::{self, LEAST_PIECE, Reservation, Room};
use crate::method::collective::exchange::{Exchange, Exchanged};
use crate::method::{
    CloseRequest, Closed, INDEX, INDEX_AHEAD, INDEX_FAN_IN, Indexing, Method, MethodKind, OpenRequest, Opened,
    Parameter, Parameters, SPILL_COPY, SYNC, Tried, not_open, spill_copy,
};
use crate::nodes;
use crate::nodes::memory::NodeMemory;
use crate::output_file::closing::Closing;
use crate::output_file::commit::{Ahead, Participant, Written};
use crate::output_file::shared_file::SharedFile;
use crate::output_file::spill;
use crate::pack::Reach;
use crate::plan;
use crate::plan::domains::{self, Domains};
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_comm::agreement::{self, Failed};
use thalweg_comm::guarded::caught;
use thalweg_layout::WriteObject;
use thalweg_types::{Extent, Result};

/// Largest data message, in bytes.
const PIECE: u64 = 4 << 20;
/// Most ranks per aggregator, if `aggregators` is not given.
const SERVED: u32 = 32;
/// Most aggregators, if `aggregators` is not given.
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
/// Smallest `buffer`, in bytes.
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
    /// 0: chosen from the nodes.
    aggregators: u32,
    stripe: u64,
    buffer: u64,
    spill_copy: usize,
    open: Option<CollectiveOutput>,
}

/// State of an output, from open to close.
struct CollectiveOutput {
    file: SharedFile,
    /// Ranks of the aggregators, in ascending order; rank 0 is the first.
    aggregators: Vec<u32>,
    /// Shared with the ranks of the node.
    memory: Option<NodeMemory>,
    shares: Shares,
    /// The buffer's bytes for `shares`, without the shared memory, which has its own reservation.
    _reservation: Reservation,
}

/// Most windows of an aggregator: two for messages, two in memory that its node's ranks write to.
const MOST_WINDOWS: u64 = 4;

/// Memory of a rank for an output: the parameters' sizes, reduced if the buffer limit is low.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shares {
    /// Windows whose bytes arrive in messages.
    in_messages: u64,
    /// Windows in memory that the node's ranks write to.
    in_memory: u64,
    /// Bytes of a window; used on aggregators.
    window: u64,
    /// Most bytes of a message.
    piece: u64,
}

impl Shares {
    /// - `writes`: this rank is an aggregator; `on`, `off`: other ranks are on its node, on other nodes; `buffer`: the parameter.
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

    /// Without shared memory: all bytes arrive in messages.
    fn without_memory(self) -> Shares {
        Shares { in_messages: self.in_messages.max(self.in_memory), in_memory: 0, ..self }
    }

    /// Bytes of shared memory that the node's ranks write to.
    fn memory(&self) -> u64 {
        self.in_memory * self.window
    }

    /// Bytes of private memory.
    fn besides(&self) -> u64 {
        self.in_messages * self.window + self.piece
    }

    /// Reduces the sizes to the memory that the system can allocate.
    fn obtainable(self) -> Result<Shares> {
        let window = buffer::obtainable(self.in_messages + 1, self.window.max(self.piece), LEAST_PIECE)?;
        Ok(Shares { window: self.window.min(window), piece: self.piece.min(window), ..self })
    }
}

/// The aggregators' ranks.
///
/// - `nodes`: by rank, the lowest rank of its node; `wanted`: number of aggregators, 0: one per node, within bounds.
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

    fn subfiles(&self) -> Option<bool> {
        Some(false)
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
        let reservation = request.buffer.reserve(shares.besides());
        let aggregators = aggregators(&nodes, self.aggregators);
        let opens = aggregators.contains(&rank);
        let (file, opened, _) = SharedFile::open(request, self.sync, self.spill_copy, opens, &[])?;
        self.open = Some(CollectiveOutput { file, aggregators, memory, shares, _reservation: reservation });
        Ok(opened)
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        Ok((open.file.spill(None)?, 0))
    }

    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed> {
        let CollectiveOutput { file, aggregators, memory, shares, _reservation } =
            self.open.take().ok_or_else(not_open)?;
        let how = file.index.commit(self.indexing, false);
        let comm = request.comm;
        let (mut closing, mut part) = Closing::begin(file, request, how);
        let exchanged = self.exchange((&aggregators, memory.as_ref(), shares), &mut part, &mut closing);
        let first = exchanged.and_then(|ahead| closing.commit(&mut part, ahead));
        if first.is_ok() {
            // All ranks have synchronised since the last write to the shared memory.
            nodes::keep(&closing.open.index.cache, comm, memory);
        }
        let outcome = closing.end(first, &mut part);
        closing.open.close(part.is_indexed());
        outcome
    }
}

impl Collective {
    /// Collective: computes the extents of all process groups and writes them. May send this rank's index fragment ahead.
    ///
    /// # Errors
    /// `PeerLost`, `Timeout`; other failures are recorded in `part`.
    fn exchange<'c>(
        &self,
        (aggregators, memory, shares): (&[u32], Option<&NodeMemory>, Shares),
        part: &mut Participant,
        closing: &mut Closing<'c, '_, SharedFile>,
    ) -> Result<Option<Ahead<'c>>> {
        let (comm, how, file) = (closing.request.comm, closing.how, &closing.open);
        let (base, rank, size) = (file.index.base, file.index.rank, part.size());
        let before = comm.exclusive_scan(size)?;
        let (shares, lacking) = buffer::or_requested(shares.obtainable(), shares);
        let lacking = lacking.map_or(Ok(()), |e| Err(e.at_rank(rank)));
        // The complement makes the maximum yield the smallest piece: a rank must be able to send pieces of any requested length.
        let numbers = [before.saturating_add(size), !shares.piece];
        let (verdict, told) = agreement::exchange(comm, rank, lacking.as_ref().err().map(Failed::from), &numbers)?;
        let (all, piece) = (told[0], !told[1]);
        if let Err(e) = verdict.apply(rank, lacking, "get memory to carry the process groups") {
            // A rank that failed earlier reports its own error.
            part.wrote(Err(e));
            return Ok(None);
        }
        // All ranks compute the same totals: if the output exceeds the range of offsets, all ranks fail here.
        if let Err(e) = plan::shared(rank, base, 0, all) {
            part.fail(e);
            return Ok(None);
        }
        let place = Extent::new(base + before, size);
        let writer = closing.request.writer(&file.index, SINGLE_FILE);
        let domains = Domains::new(Extent::new(base, all), self.stripe, aggregators.len() as u32);
        let aggregator = aggregators.iter().position(|a| *a == rank);
        let domain = aggregator.and_then(|number| domains.number_of(number as u32));
        // An aggregator's bytes are those of its domain, too.
        let domain_end = domain.and_then(|number| domains.domain(number).end()).unwrap_or(0);
        part.may_lie_at(Extent::new(place.offset, size.max(domain_end.saturating_sub(place.offset))));
        // An aggregator reports the outcome of its own group only after it has written its whole domain.
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
            end: &|| caught("close the file", || file.end_data_of_others()),
        };
        let Exchanged { own, others, peak_bytes } = exchange.run()?;
        tracing::debug!(peak_bytes, window = shares.window, "peak of buffered bytes of other ranks");
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
            // The rank failed earlier.
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
