//! Asynchronous writing in output windows, into one shared file or into subfiles: ranks give their bytes to *owners*, which gather whole stripes and write
//! them while all ranks compute.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | each owner the stripes that it owns ([`thalweg_owners::domains`]): one rank of each node, or `owners` ranks from rank `base` on. Rank 0 writes the index |
//! | when         | in the background, after the program's close has returned; with `async=no` inside `close`. An owner writes a stripe when all its bytes have come, in writes of at most `fraction` |
//! | where        | one file, or `subfiles` of them; the process group of rank r follows those of ranks 0 to r-1, and the index follows all groups. The bytes are those of `MPI` |
//! | what moves   | each byte once, to its owner, in messages of at most 4 MiB that the owner has granted memory for. Whole stripes of an owner's own group are written without a copy |
//! | memory       | the process group; beyond the buffer limit a spill file, as with [`MPI`](super::independent). Besides `buffer` bytes of each rank: half for bytes to send, half for stripes that are gathered; an owner that has no more writes stripes that are not whole |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks sends an empty process group |
//! | on failure   | if an owner cannot write, the process groups with bytes in its stripes are lost: all ranks return its kind of error, the other groups are indexed, the step is partial. After the loss of a rank, the survivors write their own groups |
//!
//! A single rank writes its group itself, without a copy.
//!
//! Cost per rank and output: a duplicate of the communicator, a scan and three reductions; for each owner of a rank's bytes a short message
//! and an answer per 4 MiB; two messages up and down a tree.
//!
//! Source: Miller et al., sections C3, C6 (CkIO). Differs: the window's place is agreed by a scan, because process groups differ in length;
//! the bytes that complete a window there are the index here, which a failed group does not enter.

use crate::buffer::Reservation;
use crate::laid::Laid;
use crate::method::asynchronous::subfiles::SetOutput;
use crate::method::{
    CloseRequest, Closed, INDEX, INDEX_AHEAD, INDEX_FAN_IN, Indexing, Method, MethodKind, OpenRequest, Opened,
    Parameter, Parameters, SPILL_COPY, SYNC, Tried, folder_of, not_open, spill_copy,
};
use crate::nodes;
use crate::output_file::closing::Closing;
use crate::output_file::commit::{Ahead, Participant, Written};
use crate::output_file::shared_file::SharedFile;
use crate::output_file::spill;
use crate::pack::Reach;
use crate::plan::{self, domains::spread};
use std::io::IoSlice;
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_comm::Reduce;
use thalweg_comm::guarded::caught;
use thalweg_layout::{OpenWrite, WriteObject};
use thalweg_owners::file::LEAST_MEMORY;
use thalweg_owners::window::Ended;
use thalweg_owners::{File, Machine, OpenFile, Options, Owners, WindowId};
use thalweg_types::{Error, Extent, Result};

mod subfiles;

/// Most bytes that are taken from the process group at a time: a piece of a spill file is copied.
const PIECE: u64 = 4 << 20;
/// A piece takes at most the eighth part of an output's memory.
const SHARE: u64 = 8;

/// How the registry lists it.
pub const KIND: MethodKind = MethodKind {
    names: &["ASYNC"],
    id: 252,
    about: "owners gather whole stripes of one shared file and write them while all ranks compute",
    parameters: &[
        SYNC,
        INDEX,
        INDEX_FAN_IN,
        INDEX_AHEAD,
        SUBFILES,
        OWNERS,
        BASE,
        SKIP,
        OWNER_STRIPE,
        WRITE_STRIPE,
        FRACTION,
        STRIPE,
        BUFFER,
        SPILL_COPY,
    ],
    least: LEAST_MEMORY + spill::LEAST,
    tried: &[
        Tried::powers_of_two(OWNERS, |ranks| ranks),
        Tried::these(WRITE_STRIPE, &["1MiB", "8MiB"]),
        Tried::these(BUFFER, &["8MiB", "128MiB"]),
    ],
    make,
};

/// `subfiles`.
pub const SUBFILES: Parameter = Parameter::count(
    "subfiles",
    0,
    "number of subfiles; the ranks are divided among them, those of one node together, and each has owners of its own. 0: one shared file",
);
/// `owners`.
pub const OWNERS: Parameter =
    Parameter::count("owners", 0, "number of ranks that write, at most all; 0: as if not given")
        .or_else("one per node, at most one per storage target")
        .also(&["activePEs"]);
/// `base`.
pub const BASE: Parameter =
    Parameter::count("base", 0, "the first owner; without owners and skip the only one. Of fewer ranks the last one")
        .also(&["basePE"]);
/// `skip`.
pub const SKIP: Parameter =
    Parameter::count("skip", 0, "distance between owners").at_least(1).or_else("evenly spread").also(&["skipPEs"]);
/// `owner_stripe`.
pub const OWNER_STRIPE: Parameter = Parameter::size(
    "owner_stripe",
    0,
    "consecutive bytes of the file that belong to one owner; owners take turns. 0: as if not given",
)
.or_else("one run for each owner")
.also(&["peStripe"]);
/// `write_stripe`.
pub const WRITE_STRIPE: Parameter =
    Parameter::size("write_stripe", 8 << 20, "bytes that an owner gathers before it writes them")
        .at_least(1)
        .also(&["writeStripe"]);
/// `fraction`.
pub const FRACTION: Parameter = Parameter::size("fraction", 8 << 20, "most bytes of one write").at_least(1);
/// `stripe`.
pub const STRIPE: Parameter = Parameter::size(
    "stripe",
    1 << 20,
    "runs of owners begin at multiples of this: the stripe length of the filesystem is best",
)
.at_least(1)
.also(&["stripe_size"]);
/// `buffer`.
pub const BUFFER: Parameter = Parameter::size(
    "buffer",
    32 << 20,
    "memory of a rank for bytes to send and for stripes that it gathers, within the buffer limit; less than 64 KiB counts as 64 KiB",
);

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    let chosen = Chosen {
        owners: parameters.get::<Option<u32>>(&OWNERS)?.unwrap_or(0),
        base: parameters.get(&BASE)?,
        skip: parameters.get(&SKIP)?,
    };
    let sync = parameters.get(&SYNC)?;
    let options = Options {
        owners: Owners::PerNode,
        owner_stripe: parameters.get::<Option<u64>>(&OWNER_STRIPE)?.filter(|bytes| *bytes > 0),
        write_stripe: parameters.get(&WRITE_STRIPE)?,
        fraction: parameters.get(&FRACTION)?,
        alignment: parameters.get(&STRIPE)?,
        time_limit: None,
        durable: sync,
        // Of a rank that failed after all ranks agreed on the window.
        holes: true,
        closes: true,
    };
    Ok(Box::new(Asynchronous {
        sync,
        indexing: Indexing::of(parameters)?,
        chosen,
        options,
        buffer: parameters.get::<u64>(&BUFFER)?.max(LEAST_MEMORY),
        spill_copy: spill_copy(parameters)?,
        subfiles: parameters.get(&SUBFILES)?,
        open: None,
    }))
}

/// The ranks that the parameters choose as owners.
#[derive(Debug, Clone, Copy)]
struct Chosen {
    /// 0: chosen from the nodes.
    owners: u32,
    base: u32,
    skip: Option<u32>,
}

impl Chosen {
    /// The owners of so many ranks, at least one.
    fn among(self, ranks: u32) -> Owners {
        let Chosen { owners, base, skip } = self;
        let base = base.min(ranks.saturating_sub(1));
        let there = ranks - base;
        match (owners, skip) {
            (0, None) if base == 0 => Owners::PerNode,
            (owners, Some(skip)) => {
                let most = there.div_ceil(skip);
                Owners::Every { active: if owners == 0 { most } else { owners.min(most) }, base, skip }
            }
            (owners, None) => {
                let owners = owners.clamp(1, there);
                Owners::Ranks((0..owners).map(|number| base + spread(number, owners, there)).collect())
            }
        }
    }
}

struct Asynchronous {
    sync: bool,
    indexing: Indexing,
    chosen: Chosen,
    options: Options,
    buffer: u64,
    spill_copy: usize,
    /// 0: one shared file.
    subfiles: u32,
    open: Option<Open>,
}

/// An output, from open to close.
enum Open {
    Shared(Box<AsynchronousOutput>),
    Sets(Box<SetOutput>),
}

/// State of an output into one shared file.
struct AsynchronousOutput {
    file: SharedFile,
    machine: Machine,
    options: Options,
    /// `buffer`, within the buffer limit.
    memory: Reservation,
}

impl Method for Asynchronous {
    fn name(&self) -> &'static str {
        "ASYNC"
    }

    fn subfiles(&self) -> Option<bool> {
        Some(self.subfiles > 0)
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let about = |e: Error| e.in_object(request.path);
        let ranks = request.comm.size();
        let (nodes, _) = nodes::of(request, None).map_err(about)?;
        if self.subfiles > 0 {
            let (open, opened) = SetOutput::open(self, request, &nodes)?;
            self.open = Some(Open::Sets(Box::new(open)));
            return Ok(opened);
        }
        let leaders = (0..ranks).filter(|rank| nodes.get(*rank as usize) == Some(rank)).collect();
        // Where the file system does not tell, owners are chosen without it.
        let targets = match request.comm.rank() {
            0 => request.layout.targets(folder_of(request.path)).ok().flatten(),
            _ => None,
        };
        let told = [targets.map_or(0, |targets| u64::from(targets) + 1)];
        let memory = request.buffer.reserve(nodes::room(request).share(self.buffer, LEAST_MEMORY));
        let (file, opened, told) = SharedFile::open(request, self.sync, self.spill_copy, false, &told)?;
        let targets = told.first().and_then(|targets| targets.checked_sub(1)).map(|targets| targets as u32);
        let options = Options { owners: self.chosen.among(ranks), ..self.options.clone() };
        let machine = Machine { ranks, leaders, targets };
        self.open = Some(Open::Shared(Box::new(AsynchronousOutput { file, machine, options, memory })));
        Ok(opened)
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        match self.open.as_mut().ok_or_else(not_open)? {
            Open::Shared(open) => Ok((open.file.spill(None)?, 0)),
            Open::Sets(open) => Ok((open.spill.through()?, 0)),
        }
    }

    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed> {
        let AsynchronousOutput { file, machine, options, memory } = match self.open.take().ok_or_else(not_open)? {
            Open::Shared(open) => *open,
            Open::Sets(open) => return open.close(request, self.indexing),
        };
        let how = file.index.commit(self.indexing, false);
        let (mut closing, mut part) = Closing::begin(file, request, how);
        let exchanged = exchange(&machine, &options, memory.bytes(), &mut part, &mut closing);
        let first = exchanged.and_then(|ahead| closing.commit(&mut part, ahead));
        let outcome = closing.end(first, &mut part);
        closing.open.close(part.is_indexed());
        outcome
    }

    fn in_background(&self) -> bool {
        true
    }
}

/// Collective: computes the extents of all process groups and writes them. May send this rank's index fragment ahead.
///
/// # Errors
/// `PeerLost`, `Timeout`; other failures are recorded in `part`.
fn exchange<'c>(
    machine: &Machine,
    options: &Options,
    memory: u64,
    part: &mut Participant,
    closing: &mut Closing<'c, '_, SharedFile>,
) -> Result<Option<Ahead<'c>>> {
    let (comm, how) = (closing.request.comm, closing.how);
    let (base, rank, size) = (closing.open.index.base, closing.open.index.rank, part.size());
    let before = comm.exclusive_scan(size)?;
    let all = comm.all_reduce(&[before.saturating_add(size)], Reduce::Max)?[0];
    // All ranks compute the same totals: if the output exceeds the range of offsets, all ranks fail here.
    if let Err(e) = plan::shared(rank, base, 0, all) {
        part.fail(e);
        return Ok(None);
    }
    let place = Extent::new(base + before, size);
    if comm.size() == 1 {
        let ahead = closing.ahead(part, place, SINGLE_FILE, size);
        part.write(place, closing);
        return Ok(ahead);
    }
    // An owner's bytes may lie anywhere behind.
    part.may_lie_at(Extent::new(place.offset, all - before));
    if all == 0 {
        return Ok(None);
    }
    let writer = closing.request.writer(&closing.open.index, SINGLE_FILE);
    let (path, layout) = (closing.open.index.path.clone(), closing.open.index.layout.clone());
    let laid = match size {
        0 => None,
        _ => {
            let (pack, header, spilled) = (&mut *closing.request.pack, closing.request.header, closing.open.spilled());
            Some(caught("pack the process group", || pack.lay(spilled, place, header, writer)))
        }
    };
    let (mut group, mut ahead, mut fragment) = (Ok(None), None, None);
    match laid {
        Some(Ok((laid, index))) => {
            ahead = part.ahead(comm, how, place, all, || Ok(index.clone()));
            fragment = Some(index);
            group = Ok(Some(laid));
        }
        Some(Err(e)) => group = Err(e),
        None => {}
    }
    let how = OpenWrite::Existing;
    let request = OpenFile { comm, layout: &layout, path: &path, how, memory, machine: Some(machine.clone()) };
    let (own, ended) = write(&request, Extent::new(base, all), options, group, place)?;
    let failed = failure(rank, own, &ended, place);
    match (failed, fragment) {
        (Failure::OfGroup(e), _) => part.wrote(Err(e.at_rank(rank).in_object(path))),
        (failed, fragment) => {
            if let Failure::OfOthers(e) = failed {
                part.spoiled(e.in_object(path));
            }
            if let Some(fragment) = fragment {
                let ended = caught("close the spill file", || closing.open.end_spill());
                part.wrote(ended.map(|()| Written { fragment, extent: place }));
            }
        }
    }
    Ok(ahead)
}

/// Collective: writes process groups in an output window of a file that exists; `group`: that of this rank, at `place`. Returns whether this
/// rank gave its bytes, and how the window ended.
///
/// # Errors
/// Of a window of which nobody knows what was written: `PeerLost`, `Timeout`.
fn write(
    request: &OpenFile<'_>,
    window: Extent,
    options: &Options,
    group: Result<Option<Laid<'_>>>,
    place: Extent,
) -> Result<(Result<()>, Ended)> {
    let mut file = File::open(request)?;
    let window = file.start(window.offset, window.length, options)?;
    let own = group.and_then(|group| match &group {
        Some(group) => give(&mut file, window, group, place, PIECE.min(request.memory / SHARE)),
        None => Ok(()),
    });
    file.end(window)?;
    let ended = file.wait_for_end(window)?;
    // Those left write their groups again: nobody knows what the owners have written.
    match &ended.outcome {
        Err(e) if !ended.is_complete() => return Err(e.again()),
        _ => {}
    }
    // The owners have closed their files: that all ranks are here is all that can fail.
    file.close()?;
    Ok((own, ended))
}

/// Gives a process group at `place` to the owners of its bytes, at most `most` bytes at a time. Whole stripes that this rank owns are
/// written without a copy.
fn give(file: &mut File, window: WindowId, group: &Laid<'_>, place: Extent, most: u64) -> Result<()> {
    let (domains, rank) = (file.domains(window)?, file.rank());
    let end = place.offset + place.length;
    let mut at = place.offset;
    while at < end {
        let stripe = domains.write_stripe(at);
        let fraction = domains.fraction_of(at);
        let is_whole = stripe.offset >= place.offset && stripe.end().is_some_and(|stripe| stripe <= end);
        let is_own = is_whole && domains.owners().get(fraction.owner) == Some(&rank);
        let within = if is_own { fraction.extent } else { Extent::new(at, stripe.offset + stripe.length - at) };
        let until = (within.offset + within.length).min(end).min(at.saturating_add(most));
        let piece = Extent::new(at, until - at);
        let of_group = Extent::new(at - place.offset, piece.length);
        let slices = caught("take bytes of the process group", || group.get(of_group))?;
        if is_own {
            let slices: Vec<IoSlice<'_>> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
            file.write_own(window, at, &slices)?;
        } else {
            let mut to = at;
            for slice in &slices {
                file.write(window, to, slice)?;
                to += slice.len() as u64;
            }
        }
        at += piece.length;
    }
    Ok(())
}

/// What the end of the window means for a rank.
enum Failure {
    None,
    /// Its process group is not written.
    OfGroup(Error),
    /// Its process group is written, or it has none; bytes of others are not.
    OfOthers(Error),
}

/// - `own`: whether this rank gave all its bytes; `place`: its process group.
fn failure(rank: u32, own: Result<()>, ended: &Ended, place: Extent) -> Failure {
    match (&ended.outcome, own) {
        (Ok(_), Ok(())) => Failure::None,
        (Ok(_), Err(e)) => Failure::OfGroup(e),
        (Err(e), own) if !ended.wrote(place) || own.is_err() => {
            Failure::OfGroup(own.err().unwrap_or_else(|| e.again()))
        }
        (Err(e), _) => Failure::OfOthers(e.again().at_rank(rank)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_types::ErrorKind;

    #[test]
    fn owners_are_spread_or_at_a_distance_and_there_is_always_one() {
        let among = |owners, base, skip, ranks| {
            let owners = Chosen { owners, base, skip }.among(ranks);
            let machine = Machine { ranks, leaders: vec![0], targets: None };
            Options { owners, ..Options::default() }.owners_on(&machine).unwrap()
        };
        assert_eq!(among(0, 0, None, 8), [0], "one of the node");
        assert_eq!(among(3, 0, None, 8), [0, 2, 5]);
        assert_eq!(among(100, 0, None, 3), [0, 1, 2]);
        assert_eq!(among(2, 4, None, 8), [4, 6]);
        assert_eq!(among(0, 4, None, 8), [4]);
        assert_eq!(among(0, 1, Some(3), 8), [1, 4, 7]);
        assert_eq!(among(2, 1, Some(3), 8), [1, 4]);
        assert_eq!(among(2, 9, Some(3), 8), [7]);
        assert_eq!(among(3, 5, None, 1), [0]);
    }

    #[test]
    fn names_of_ckio_are_understood_and_nonsense_is_named() {
        let with = |key: &str, value: &str| make(&Parameters::from_iter([(key, value)])).map(|_| ());
        assert!(with("activePEs", "4").is_ok() && with("peStripe", "1M").is_ok() && with("skipPEs", "2").is_ok());
        for (key, value) in
            [("owners", "many"), ("skip", "0"), ("fraction", "0"), ("write_stripe", "0"), ("stripe", "0")]
        {
            let e = with(key, value).unwrap_err();
            assert!(e.kind() == ErrorKind::Config && e.what().contains(key), "{e}");
        }
    }
}
