//! Collective writing, in two phases into one shared file: bytes go to the ranks that own their stripes, and these write
//! whole stripes.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | aggregators, each the stripes of its domain: `aggregators` ranks spread evenly, by default the first rank of each node; rank 0 the index, while others still write if much is written ([`crate::parts::step_commit`]) |
//! | when         | inside `close`, in rounds: half of an aggregator's buffer is written while the other half fills |
//! | where        | one file; rank r behind the groups of ranks 0 to r-1, the index behind all; only the ends of the output share a stripe with others |
//! | what moves   | each byte once, to its aggregator: by message, or put into its memory by ranks on its node ([`crate::parts::node_memory`]); an aggregator's own bytes not at all; a few short messages per rank |
//! | memory       | the process group, within the buffer limit, beyond it a spill file as with [`MPI`](super::independent); an aggregator holds `buffer` bytes of others; a rank copies at most one message of its group (4 MiB) |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks sends an empty process group |
//! | on failure   | an aggregator that cannot write costs the groups with bytes from there to the end of its domain: all ranks get its kind of error, the others' groups are indexed, the step is partial. Where a rank is lost, those left write their own groups |
//!
//! It needs no MPI-IO below: the exchange is messages ([`crate::parts::exchange`]), the plan is pure
//! ([`crate::plan::domains`]).
//!
//! Per rank and output: one receive for the turn to open, two scans or reductions more than `MPI`; per rank and aggregator that
//! has stripes of it: two short messages, and for each 4 MiB at most one request and one message with data.
//!
//! Sources: Thakur, Gropp, Lusk, Frontiers 1999, two-phase writing; Lofstead et al., SAND2009-7763, the collective method.
//! Differs: aggregators ask for what they have room for, so that memory is bounded however uneven the ranks are.

use super::{
    Closed, INDEX, INDEX_AHEAD, INDEX_FAN_IN, Indexing, Method, MethodKind, OpenRequest, Opened, Parameter, Parameters,
    SPILL_COPY, SYNC, not_open,
};
use crate::pack::{Pack, Reach};
use crate::parts::exchange::{Exchange, Exchanged};
use crate::parts::node_memory::NodeMemory;
use crate::parts::nodes;
use crate::parts::shared_file::{Closing, SharedFile};
use crate::parts::step_commit::{self, Ahead, Commit, Part, Written};
use crate::plan;
use crate::plan::domains::{self, Domains};
use thalweg_bp::process_group::Header;
use thalweg_comm::{Communicator, Reduce};
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
    parameters: &[
        SYNC,
        INDEX,
        INDEX_FAN_IN,
        INDEX_AHEAD,
        AGGREGATORS,
        STRIPE,
        BUFFER,
        SPILL_COPY,
        NUM_AGGREGATORS,
        STRIPE_SIZE,
    ],
    make,
};

const AGGREGATORS: Parameter = Parameter {
    key: "aggregators",
    about: "ranks that write; default one per node, at least one for 32 ranks, at most 1024",
};
const STRIPE: Parameter =
    Parameter { key: "stripe", about: "bytes of a stripe of the file: every stripe has one writer; default 1 MiB" };
const BUFFER: Parameter = Parameter {
    key: "buffer",
    about: "bytes of other ranks that an aggregator holds at a time; default 16 MiB, at least 8 KiB",
};
const NUM_AGGREGATORS: Parameter =
    Parameter { key: "num_aggregators", about: "as aggregators, where that is not given (ADIOS 1.x)" };
const STRIPE_SIZE: Parameter =
    Parameter { key: "stripe_size", about: "as stripe, where that is not given (ADIOS 1.x)" };

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    let old = parameters.count("num_aggregators", 0)?;
    let old_stripe = parameters.bytes("stripe_size", 1 << 20)?;
    Ok(Box::new(Collective {
        sync: parameters.flag("sync", false)?,
        indexing: parameters.indexing()?,
        aggregators: parameters.count("aggregators", old)?,
        stripe: parameters.bytes("stripe", old_stripe)?,
        buffer: parameters.bytes("buffer", 16 << 20)?.max(8 << 10),
        spill_copy: parameters.spill_copy()?,
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
        let window = self.buffer / 2;
        let wanted = |nodes: &[u32]| {
            if aggregators(nodes, self.aggregators).contains(&rank) { 2 * window } else { 0 }
        };
        let (nodes, memory) = nodes::of(request, Some(&wanted)).map_err(|e| e.in_object(request.path))?;
        let aggregators = aggregators(&nodes, self.aggregators);
        let opens = aggregators.contains(&rank);
        let (file, opened, _) = SharedFile::open(request, self.sync, self.spill_copy, opens, &[])?;
        self.open = Some(Open { file, aggregators, memory });
        Ok(opened)
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        Ok((open.file.spill(None)?, 0))
    }

    fn close(
        &mut self,
        comm: &dyn Communicator,
        header: &Header,
        pack: &mut Pack<'_>,
        failed: Option<Error>,
    ) -> Result<Closed> {
        let mut open = self.open.take().ok_or_else(not_open)?;
        let mut part = Part::new(open.file.index.rank, comm.size(), pack.length(), failed);
        let how = open.file.index.commit(self.indexing, false);
        let mut files = Closing { file: &mut open.file, ranks: comm.size(), header, pack };
        let exchanged = self.exchange(comm, &open.aggregators, open.memory.as_ref(), &mut part, &mut files, how);
        let first = exchanged.and_then(|ahead| part.commit(comm, &mut files, how, ahead));
        if first.is_ok() {
            // All have met since anybody put anything there.
            nodes::keep(&files.file.index.kept, comm, open.memory);
        }
        let outcome = step_commit::finish(comm, first, &mut part, &mut files, how);
        let path = open.file.index.path.clone();
        open.file.close(part.is_indexed());
        outcome.map(|bytes| Closed { bytes }).map_err(|e| e.in_group(header.group.clone()).in_object(path))
    }
}

impl Collective {
    /// Collective: finds the places, and moves all groups there. This rank's index fragment may go ahead.
    ///
    /// # Errors
    /// A lost rank; what else goes wrong is told to `part`.
    fn exchange<'c>(
        &self,
        comm: &'c dyn Communicator,
        aggregators: &[u32],
        memory: Option<&NodeMemory>,
        part: &mut Part,
        files: &mut Closing<'_, '_>,
        how: Commit,
    ) -> Result<Option<Ahead<'c>>> {
        let (base, rank, size) = (files.file.index.base, files.file.index.rank, part.size());
        let before = comm.exclusive_scan(size)?;
        let all = comm.all_reduce(&[before.saturating_add(size)], Reduce::Max)?[0];
        // Where the output leaves the range of offsets, that is so for all.
        if let Err(e) = plan::shared(rank, base, 0, all) {
            part.fail(e);
            return Ok(None);
        }
        let place = Extent::new(base + before, size);
        let writer = files.file.writer(files.ranks);
        let domains = Domains::new(Extent::new(base, all), self.stripe, aggregators.len() as u32);
        let aggregator = aggregators.iter().position(|a| *a == rank);
        let domain = aggregator.and_then(|number| domains.number_of(number as u32));
        // An aggregator tells what became of its own group when it has written those of others, too.
        let unwritten = domain.map_or(0, |number| domains.domain(number).length).max(size);
        let mut fragment = None;
        let mut group = None;
        let laid = match size {
            0 => None,
            _ => Some(files.pack.lay(files.file.spilled(), place, files.header, writer)),
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
            object: if aggregator.is_some() { Some(files.file.opened()?) } else { None },
            window: self.buffer / 2,
            piece: PIECE.min(self.buffer / 2),
            memory,
            end: &|| files.file.end_data(),
        };
        let Exchanged { own, others, held } = exchange.run()?;
        tracing::debug!(held, window = self.buffer / 2, "bytes of other ranks held at most");
        let path = files.file.index.path.clone();
        if let Err(e) = others {
            part.spoiled(e.in_object(path.clone()));
        }
        match (unlaid, own, fragment) {
            (Some(e), ..) | (None, Err(e), _) => part.fail(e.at_rank(rank).in_object(path)),
            (None, Ok(()), Some(fragment)) => {
                let ended = files.file.end_spill();
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
        let with = |key: &str, value: &str| make(&Parameters(vec![(key.into(), value.into())])).map(|_| ());
        assert!(with("num_aggregators", "4").is_ok() && with("stripe_size", "65536").is_ok());
        for key in ["aggregators", "num_aggregators", "stripe", "buffer"] {
            let e = with(key, "many").unwrap_err();
            assert!(e.kind() == ErrorKind::Config && e.what().contains(key), "{e}");
        }
    }
}
