//! Aggregated writing: the aggregator of each set writes a subfile; the set's other ranks pass their process groups to it.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | one rank of each set; `aggregators` is the number of sets, by default one per node and at least one per 64 ranks. A set takes ranks of one node first |
//! | when         | inside `close`; the aggregator's own large blocks inside `write` |
//! | where        | `<name>.dir/<name>.<set>`: the aggregator's group first, then the other groups in the set's order; the index in `<name>`, written by rank 0, concurrently with the data of large outputs ([`crate::output_file::commit`]) |
//! | what moves   | process groups to the aggregator, in pieces, directly (`pattern=simple`) or along the chain of the set (`pattern=brigade`); index fragments up a tree to rank 0, outcomes (reductions) |
//! | memory       | a rank's own group and at most one chunk (`chunk`), two if both ranks of its node and ranks of other nodes pass to it, independent of the set's size; within the buffer limit, with a smaller chunk if it is low (`Shares`). A passing rank without buffer space spills to `<name>.spill.<rank>` until close |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks passes an empty process group |
//! | on failure   | an aggregator whose store fails reports the error in answer to the next piece: the set's unwritten groups fail with the same kind, written groups stay. A rank that fails loses only its own group. All ranks return the kind of the lowest failing rank's error, the step is partial. After the loss of a rank, if the communicator can continue without it, the ranks whose groups the lost rank should have written or passed on write subfiles of their own (`<name>.<sets + rank>`), and the survivors close the step: [`crate::output_file::commit`] |
//!
//! Cost per set and output: one open and one write per piece; a message and an answer per piece, and three small messages per
//! rank. The node of each rank is determined once per session: [`crate::nodes`]. On the same node, a rank copies its pieces into
//! the receiver's shared memory ([`crate::nodes::memory`]); the chunk is then the receiver's, and pieces need no messages.
//!
//! Sources: Lofstead et al., "Petascale IO Using The Adaptable IO System", CUG 2009 (simple and brigade aggregation);
//! SAND2009-7763, MPI_AMR.
//! Differs: pieces are requested, so that memory does not grow with the set; each process group is contiguous in the
//! aggregator's file, with the index in one place; a lost rank loses only its own data.

use crate::buffer::{self, LEAST_PIECE, Reservation, Room};
use crate::method::aggregated::transfer::{Collect, Pattern};
use crate::method::{
    CloseRequest, Closed, DIRECT, HAVE_METADATA, INDEX, INDEX_AHEAD, INDEX_FAN_IN, Indexing, Method, MethodKind,
    OpenRequest, Opened, Parameter, Parameters, SPILL_COPY, SYNC, Tried, have_metadata_file, not_open, spill_copy,
};
use crate::nodes;
use crate::nodes::memory::NodeMemory;
use crate::output_file::closing::{Closing, OpenOutput};
use crate::output_file::commit::{Ahead, IndexKeeper, Participant, Written};
use crate::output_file::open_index::OpenIndex;
use crate::output_file::spill::{self, Spill};
use crate::output_file::subfile_output::{SubfileOutput, When};
use crate::pack::Reach;
use crate::plan::sets::Role;
use thalweg_comm::guarded::caught;
use thalweg_layout::WriteObject;
use thalweg_types::{Error, Extent, Result};

/// The method's entry in the registry.
pub const KIND: MethodKind = MethodKind {
    names: &["MPI_AGGREGATE", "MPI_AMR", "MPI_BGQ"],
    id: 16,
    about: "one writer for a set of ranks, a file per writer",
    parameters: &[
        SYNC,
        INDEX,
        INDEX_FAN_IN,
        INDEX_AHEAD,
        DIRECT,
        AGGREGATORS,
        CHUNK,
        PATTERN,
        AGGREGATION_TYPE,
        SPILL_COPY,
        HAVE_METADATA,
        COLOR,
        hint("num_ost"),
        hint("striping"),
        hint("stripe_count"),
        hint("stripe_size"),
        hint("random_offset"),
        hint("osts_to_skip"),
        hint("threading"),
    ],
    least: MOST_PIECES * LEAST_PIECE + spill::LEAST,
    tried: &[
        Tried::powers_of_two(AGGREGATORS, |ranks| ranks / 2),
        Tried::these(PATTERN, &["brigade"]),
        Tried::these(CHUNK, &["2MiB", "32MiB"]),
    ],
    make,
};

pub mod transfer;

/// `aggregators`.
pub const AGGREGATORS: Parameter = Parameter::count("aggregators", 0, "largest number of ranks that write")
    .at_least(1)
    .or_else("one per node, and at least one for 64 ranks")
    .also(&["num_aggregators"]);
/// `chunk`.
pub const CHUNK: Parameter = Parameter::size(
    "chunk",
    8 << 20,
    "largest memory of a rank for other ranks' data: half for the piece being written or passed on, half for the next one. pattern=brigade: 1 MiB of it is shared by the ranks of a node",
)
.at_least(2);
/// `pattern`.
pub const PATTERN: Parameter = Parameter::choice(
    "pattern",
    &["simple", "brigade"],
    "simple: ranks pass their data directly to the writer, one after the other; brigade: along a chain, each rank to the one before it",
);
const AGGREGATION_TYPE: Parameter =
    Parameter::choice("aggregation_type", &["1", "2"], "as in ADIOS 1.x: 1 is pattern=simple, 2 is pattern=brigade")
        .or_nothing();
const COLOR: Parameter = Parameter::no_effect(
    "color",
    "as in ADIOS 1.x, where it put ranks into sets; sets follow from nodes and the number of aggregators",
);

const fn hint(key: &'static str) -> Parameter {
    Parameter::no_effect(key, "as in ADIOS 1.x; files are striped as their folder is")
}

/// Most pieces in a rank's memory: two from messages, two in memory that its node's ranks write to.
const MOST_PIECES: u64 = 4;

/// Memory of a rank for other ranks' groups: pieces of the parameters' size, shorter if the buffer limit is low.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shares {
    /// Pieces in messages.
    in_messages: u64,
    /// Pieces in memory that the node's ranks write to.
    in_memory: u64,
    /// Bytes of a piece.
    piece: u64,
    /// The pattern determines the shared memory of a piece.
    pattern: Pattern,
}

impl Shares {
    /// - `piece`: half of the parameter.
    fn of(room: Room, role: &Role, nodes: &[u32], rank: u32, pattern: Pattern, piece: u64) -> Shares {
        let place = role.members.iter().position(|member| *member == rank).unwrap_or(0);
        let passes_to = |member: usize| role.members.get(member).copied();
        // The ranks whose pieces arrive here, and the rank that receives this rank's own.
        let (from, to) = match (pattern, role.writes) {
            (Pattern::Simple, true) => (role.members.clone(), None),
            (Pattern::Simple, false) => (Vec::new(), passes_to(0)),
            // Ranks in between may have nothing to pass.
            (Pattern::Brigade, _) => (role.members[place + 1..].to_vec(), place.checked_sub(1).and_then(passes_to)),
        };
        let (on, off) = nodes::on_and_off(nodes, from, rank);
        let (_, sends) = nodes::on_and_off(nodes, to, rank);
        let (in_memory, in_messages) = (2 * u64::from(on), (2 * u64::from(off)).max(u64::from(sends)));
        let pieces = in_memory + in_messages;
        let share = room.share(pieces * piece, pieces * LEAST_PIECE);
        let piece = share.checked_div(pieces).unwrap_or(piece);
        Shares { in_messages, in_memory, piece, pattern }
    }

    /// Without shared memory: all pieces arrive in messages.
    fn without_memory(self, role: &Role) -> Shares {
        let passes = u64::from(!role.writes);
        Shares { in_messages: self.in_messages.max(self.in_memory).max(passes), in_memory: 0, ..self }
    }

    /// Bytes of shared memory that the node's ranks write to.
    fn memory(&self) -> u64 {
        self.in_memory * self.pattern.room(self.piece)
    }

    /// Bytes of private memory.
    fn besides(&self) -> u64 {
        self.in_messages * self.piece
    }

    /// Reduces the pieces to the memory that the system can allocate.
    fn obtainable(self) -> Result<Shares> {
        Ok(Shares { piece: buffer::obtainable(self.in_messages, self.piece, LEAST_PIECE)?, ..self })
    }
}

/// Most ranks per aggregator, if `aggregators` is not given.
const MOST_PER_WRITER: u32 = 64;

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    have_metadata_file(parameters)?;
    let brigade = match parameters.text(&PATTERN) {
        Some(_) => parameters.get::<String>(&PATTERN)? == "brigade",
        None => parameters.get::<Option<String>>(&AGGREGATION_TYPE)?.is_some_and(|number| number == "2"),
    };
    let pattern = if brigade { Pattern::Brigade } else { Pattern::Simple };
    let chunk: u64 = parameters.get(&CHUNK)?;
    Ok(Box::new(Aggregated {
        sync: parameters.get(&SYNC)?,
        indexing: Indexing::of(parameters)?,
        direct: parameters.get(&DIRECT)?,
        aggregators: parameters.get(&AGGREGATORS)?,
        // Messages of more than 1 GiB are slow in MPI libraries that count in int.
        piece: (chunk / 2).min(1 << 30) as usize,
        pattern,
        spill_copy: spill_copy(parameters)?,
        open: None,
    }))
}

struct Aggregated {
    sync: bool,
    indexing: Indexing,
    direct: u64,
    aggregators: Option<u32>,
    piece: usize,
    pattern: Pattern,
    spill_copy: usize,
    open: Option<AggregatedOutput>,
}

/// State of an output, from open to close.
struct AggregatedOutput {
    output: SubfileOutput,
    role: Role,
    /// Shared with the ranks of the node.
    memory: Option<NodeMemory>,
    /// Spill file of a passing rank whose blocks exceed the buffer.
    spill: Spill,
    shares: Shares,
    /// The buffer's bytes for `shares`, without the shared memory, which has its own reservation.
    _reservation: Reservation,
    /// Extent of this rank's group in its aggregator's file, once assigned.
    place: Option<Extent>,
}

/// A rank's part in its set.
///
/// - `nodes`: node of each rank; `aggregators`: number of sets; `None`: chosen from nodes and ranks.
fn role(rank: u32, nodes: &[u32], aggregators: Option<u32>) -> Role {
    let ranks = nodes.len() as u32;
    let mut distinct = nodes.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let writers = aggregators.unwrap_or_else(|| ranks.div_ceil(MOST_PER_WRITER).max(distinct.len() as u32));
    Role::of(rank, nodes, writers)
}

impl Method for Aggregated {
    fn name(&self) -> &'static str {
        "MPI_AGGREGATE"
    }

    fn subfiles(&self) -> Option<bool> {
        Some(true)
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let rank = request.comm.rank();
        let room = nodes::room(request);
        let shares = |nodes: &[u32]| {
            let role = role(rank, nodes, self.aggregators);
            Shares::of(room, &role, nodes, rank, self.pattern, self.piece as u64)
        };
        let asked = nodes::of(request, Some(&|nodes| shares(nodes).memory()));
        let (nodes, memory) = asked.map_err(|e| e.in_object(request.path))?;
        let (role, mut shares) = (role(rank, &nodes, self.aggregators), shares(&nodes));
        if !memory.as_ref().is_some_and(|memory| memory.reaches(rank)) {
            shares = shares.without_memory(&role);
        }
        let reservation = request.buffer.reserve(shares.besides());
        let number = role.writes.then_some(role.set);
        let (output, opened) = SubfileOutput::open(request, role.sets, number, When::Together, self.sync)?;
        let spill = Spill::new(request.layout, request.path, rank, self.spill_copy, request.buffer);
        self.open =
            Some(AggregatedOutput { output, role, memory, spill, shares, _reservation: reservation, place: None });
        Ok(opened)
    }

    fn at_once(&self, _: &Reach) -> Option<u64> {
        self.open.as_ref().filter(|open| open.role.writes).map(|_| self.direct)
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        if open.role.writes {
            let (own, start) = open.output.start()?;
            return Ok((&own.object, start));
        }
        Ok((open.spill.through()?, 0))
    }

    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed> {
        let open = self.open.take().ok_or_else(not_open)?;
        let how = open.output.metadata.index.commit(self.indexing, false);
        let comm = request.comm;
        let (mut closing, mut part) = Closing::begin(open, request, how);
        let whole = !part.has_failed();
        let (end, ahead);
        if closing.open.role.writes {
            (end, ahead) = collect(&mut closing, whole, self.pattern, &mut part);
        } else {
            let passed;
            (passed, ahead) = pass(&mut closing, whole, &part);
            end = None;
            if let Some(written) = passed.transpose() {
                let end_spill = || caught("close the spill file", || closing.open.spill.end());
                part.wrote(written.and_then(|written| end_spill().map(|()| written)));
            }
        }
        let first = closing.commit(&mut part, ahead);
        if first.is_ok() {
            // All ranks have synchronised since the last write to the shared memory.
            let memory = closing.open.memory.take();
            nodes::keep(&closing.open.output.metadata.index.cache, comm, memory);
        }
        let outcome = closing.end(first, &mut part);
        closing.open.output.closed(&part, end.filter(|_| outcome.is_ok()));
        outcome
    }
}

/// Passes the group of a rank that is no aggregator; `whole`: it has a group. May send its index fragment ahead, once the
/// group's extent is assigned.
fn pass<'c>(
    closing: &mut Closing<'c, '_, AggregatedOutput>,
    whole: bool,
    part: &Participant,
) -> (Result<Option<Written>>, Option<Ahead<'c>>) {
    let (comm, header, how) = (closing.request.comm, closing.request.header, closing.how);
    let writer = closing.writer(closing.open.role.set);
    let AggregatedOutput { output, role, memory, spill, shares, place, .. } = &mut closing.open;
    let (to, rank) = (role.members[0], output.rank());
    let (shares, lacking) = buffer::or_requested(shares.obtainable(), *shares);
    let pack = &mut *closing.request.pack;
    // A rank that failed earlier has no length: its pack may be unusable.
    let (piece, length) = (shares.piece as usize, (whole && lacking.is_none()).then(|| part.size()));
    let mut ahead = None;
    let passed = transfer::pass(comm, to, length, piece, memory.as_ref(), place, &mut |place, sink| {
        ahead = part.ahead(comm, how, place, place.length, || pack.fragment(place, header, writer));
        pack.pour(spill.object(), place, header, writer, spill.step(), sink)
    });
    (lacking.filter(|_| whole).map_or(passed, Err).map_err(|e| e.at_rank(rank)), ahead)
}

/// Writes an aggregator's own group, then the other groups of its set. Returns the end of the subfile; may send the index
/// fragment ahead.
fn collect<'c>(
    closing: &mut Closing<'c, '_, AggregatedOutput>,
    whole: bool,
    pattern: Pattern,
    part: &mut Participant,
) -> (Option<u64>, Option<Ahead<'c>>) {
    let (comm, header, how) = (closing.request.comm, closing.request.header, closing.how);
    let (writer, unwritten) = (closing.writer(closing.open.role.set), closing.unwritten(false));
    let (open, pack) = (&closing.open, &mut *closing.request.pack);
    let (rank, passers) = (open.output.rank(), &open.role.members[1..]);
    let (shares, lacking) = buffer::or_requested(open.shares.obtainable(), open.shares);
    let piece = shares.piece;
    let (own, start) = match open.output.start() {
        Ok(started) => started,
        Err(e) => {
            // Nothing can be written to a file whose end is not known: the set's ranks get the error.
            if let Some(own) = open.output.own() {
                let failed = Error::new(e.kind(), e.what());
                Collect { comm, passers, pattern, object: &own.object, start: 0, piece, memory: None }
                    .run(Some(failed), &|_, _| Ok(()));
            }
            part.fail(e);
            return (None, None);
        }
    };
    let at = |e: Error| e.at_rank(rank).in_object(own.path.clone());
    let extent = Extent::new(start, part.size());
    let (mut written, mut failed, mut ahead) = (None, None, None);
    if whole {
        ahead = part.ahead(comm, how, extent, unwritten, || pack.fragment(extent, header, writer));
        match caught("write the process group", || pack.write(&own.object, extent, header, writer)) {
            Ok(fragment) => written = Some(Written { fragment, extent }),
            Err(e) => failed = Some(e),
        }
    }
    let failed = failed.or(lacking);
    let free = written.as_ref().map_or(start, |w| w.extent.offset + w.extent.length);
    let cut = |end: u64| {
        // Removes an incomplete group; if this fails, the next output truncates the subfile.
        let _ = caught("truncate a subfile", || own.object.truncate(end));
    };
    let is_lost = whole && written.is_none();
    let end_own = |end: u64, all: bool| {
        if !all || is_lost {
            cut(end);
        }
        caught("close a subfile", || open.output.end_own())
    };
    let memory = open.memory.as_ref();
    let collect = Collect { comm, passers, pattern, object: &own.object, start: free, piece, memory };
    let collected = collect.run(failed, &end_own);
    if collected.failed.is_some() && own.object.is_open() {
        cut(collected.end);
        // The output has failed with an earlier error.
        let _ = caught("close a subfile", || own.object.end(false));
    }
    match (collected.failed.map(at), written) {
        (Some(e), Some(_)) if collected.unclosed => part.fail(e),
        (Some(e), None) if whole => part.fail(e),
        (failed, written) => {
            if let Some(written) = written {
                part.wrote(Ok(written));
            }
            if let Some(e) = failed {
                part.spoiled(e);
            }
        }
    }
    (Some(collected.end), ahead)
}

impl OpenOutput for AggregatedOutput {
    fn index(&self) -> &OpenIndex {
        &self.output.metadata.index
    }

    /// Called if this rank's group did not reach its aggregator, or if it is not known whether it did. The survivors have
    /// synchronised since, so that no rank writes to the first extent.
    fn write(&mut self, request: &mut CloseRequest<'_, '_>, _: Extent) -> Result<Written> {
        let (role, place) = ((self.role.sets, self.role.set), self.place.take());
        self.output.write_after_loss(request, role, place, &self.spill)
    }

    fn keeper(&mut self) -> &mut dyn IndexKeeper {
        &mut self.output.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(text: &[(&str, &str)]) -> Parameters {
        text.iter().copied().collect()
    }

    #[test]
    fn each_node_has_its_writer_unless_their_number_is_given() {
        // Four ranks a node, dealt out in turn.
        let nodes: Vec<u32> = (0..12).map(|rank| rank % 3).collect();
        for rank in 0..12 {
            let role = role(rank, &nodes, None);
            assert_eq!((role.sets, role.set), (3, rank % 3));
            assert_eq!(role.members, [rank % 3, rank % 3 + 3, rank % 3 + 6, rank % 3 + 9]);
            assert_eq!(role.writes, rank < 3);
        }
        assert_eq!(role(5, &nodes, Some(1)).sets, 1);
        assert_eq!(role(5, &nodes, Some(6)).members, [5 - 3, 5]);
    }

    #[test]
    fn one_node_has_a_writer_for_64_ranks() {
        assert_eq!(role(0, &[0; 64], None).sets, 1);
        assert_eq!(role(0, &[0; 65], None).sets, 2);
        assert_eq!(role(256, &[0; 257], None).sets, 5);
    }

    #[test]
    fn parameters_of_adios_1_are_taken_or_refused_in_words() {
        let taken =
            parameters(&[("num_aggregators", "4"), ("color", "1"), ("aggregation_type", "2"), ("threading", "1")]);
        assert!(make(&taken).is_ok());
        for (wrong, says) in [
            ([("aggregators", "0")], "at least 1"),
            ([("pattern", "fast")], "simple or brigade"),
            ([("aggregation_type", "3")], "1 or 2"),
            ([("have_metadata_file", "0")], "have_metadata_file"),
            ([("num_aggregators", "none")], "num_aggregators=none"),
            ([("chunk", "1")], "at least 2"),
        ] {
            let e = make(&parameters(&wrong)).err().unwrap().to_string();
            assert!(e.contains(says), "{e}");
        }
    }
}
