//! Methods: how bytes travel from ranks to a layout. One file each; its first page answers who, when and where.
//!
//! | method | names in the XML |
//! |---|---|
//! | [`null`] | `NULL` |
//! | [`posix`] | `POSIX`, `POSIX1` |
//! | [`independent`] | `MPI` |
//! | [`collective`] | `MPI_COLLECTIVE`, `MPI_CIO` |
//! | [`aggregated`] | `MPI_AGGREGATE`, `MPI_AMR`, `MPI_BGQ` |
//! | [`adaptive`] | `ADAPTIVE` |
//! | [`scheduled`] | `MPI_SCHEDULED`, `MPI_LUSTRE`, `MPI_STRIPE` |
//! | [`trigger`] | `TRIGGER` |

use self::pending::{OwnedOutput, Pending};
use crate::buffer::BufferPool;
use crate::output_file::cache::Cache;
use crate::output_file::levels::ArrayLevel;
use crate::output_file::open_index::OpenIndex;
use crate::pack::blocks::{Takes, WrittenBlock};
use crate::pack::{Pack, Reach, Writer};
use std::sync::Arc;
use thalweg_bp::process_group::Header;
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_comm::tree;
use thalweg_layout::{Layout, OpenWrite, WriteObject};
use thalweg_types::{Error, ErrorKind, Result};

pub use thalweg_params::{Parameter, Parameters};

pub mod adaptive;
pub mod aggregated;
pub mod collective;
pub mod independent;
pub mod null;
pub mod pending;
pub mod posix;
pub mod scheduled;
pub mod template;
pub mod trigger;

/// How a file is opened for output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A new file, whatever was there.
    Write,
    /// A further step.
    Append,
    /// More of the last step.
    Update,
    /// A step behind this one (from 0); all later ones are dropped, as a restart from a checkpoint needs it. They are gone
    /// when the open returns; an open that fails on any rank drops nothing.
    AppendAfter(u64),
}

impl Mode {
    /// How the file is opened: restarts need one.
    pub(crate) fn how(self) -> OpenWrite {
        match self {
            Mode::Write => OpenWrite::Replace,
            Mode::Append | Mode::Update => OpenWrite::Any,
            Mode::AppendAfter(_) => OpenWrite::Existing,
        }
    }
}

/// What a method is told when an output opens.
pub struct OpenRequest<'r> {
    /// The ranks that open together.
    pub comm: &'r dyn Communicator,
    /// Where files are.
    pub layout: &'r Arc<dyn Layout>,
    /// Name of the file.
    pub path: &'r str,
    /// The group whose output it is.
    pub group: &'r str,
    /// How.
    pub mode: Mode,
    /// A number for this opening, if none is kept; rank 0's counts.
    pub run: u64,
    /// What the process keeps between outputs.
    pub cache: &'r Arc<Cache>,
    /// The process's memory for output: what carries process groups counts there.
    pub buffer: &'r Arc<BufferPool>,
    /// The arrays that may be written and the levels of their statistics; rank 0's count.
    pub arrays: &'r [ArrayLevel],
}

/// What a method is told when an output closes. `'a`: how long memory that the program lends stays unchanged.
pub struct CloseRequest<'c, 'a> {
    /// The ranks that opened together.
    pub comm: &'c dyn Communicator,
    /// Header of the process group.
    pub header: &'c Header,
    /// The process group.
    pub pack: &'c mut Pack<'a>,
    /// This rank's own failure so far: its process group is then left out.
    pub failed: Option<Error>,
}

impl CloseRequest<'_, '_> {
    /// The blocks as they were written, in that order, for a method that [takes](Method::takes) them.
    ///
    /// - `spilled`: the object of [`Method::through`] and the offset that it said, where it was called.
    ///
    /// # Errors
    /// As [`Pack::blocks`].
    pub fn blocks<'p>(&'p mut self, spilled: Option<(&'p dyn WriteObject, u64)>) -> Result<Vec<WrittenBlock<'p>>> {
        self.pack.blocks(spilled, self.header.fortran)
    }

    /// Bytes of the process group.
    ///
    /// # Errors
    /// `Io` where encoding its attributes panics.
    pub(crate) fn length(&self) -> Result<u64> {
        caught("measure the process group", || Ok(self.pack.length()))
    }

    /// Who writes, for the trailer of a process group in file `number` of an output.
    pub(crate) fn writer(&self, index: &OpenIndex, number: u32) -> Writer {
        Writer { rank: index.rank, ranks: self.comm.size(), run: index.run, file_index: number }
    }
}

/// What all ranks know after an open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The step, counted from `first_time`.
    pub time_index: u32,
    /// The time index of step 0: 1, but for files that another library began later.
    pub first_time: u32,
    /// One number for all files and ranks of one opening.
    pub run: u64,
    /// The arrays whose statistics the file records at another level, with that level: blocks must keep to it.
    pub levels: Vec<ArrayLevel>,
}

/// An output of the same group that a method before this one has closed.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Name of the method.
    pub method: &'static str,
    /// It writes files.
    pub stores: bool,
    /// Name of the file.
    pub path: String,
    /// Step, from 0.
    pub step: u64,
    /// Bytes all ranks wrote, or what went wrong.
    pub outcome: std::result::Result<u64, (ErrorKind, String)>,
}

/// What all ranks know after a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Closed {
    /// Bytes all ranks wrote.
    pub bytes: u64,
    /// Methods are still to end the output: they have not written it yet, and `bytes` are those of the others.
    pub pending: bool,
}

impl Closed {
    /// An output that has ended, of so many bytes of all ranks.
    pub fn of(bytes: u64) -> Closed {
        Closed { bytes, pending: false }
    }
}

/// A way for bytes to travel. One value serves one output: `open`, any number of `through`, `close`.
///
/// `open` and `close` are collective over the request's communicator, also on ranks that failed: every rank returns.
/// Dropped without close, it leaves the file as it was before `open`.
pub trait Method: Send {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Opens the output.
    ///
    /// # Errors
    /// On all ranks the same kind; the failing rank keeps the cause. The file is then as it was.
    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened>;

    /// Write-through threshold: blocks this large are written immediately from the caller's buffer, because their file offset
    /// is already known. `None`: all blocks are buffered until close. `reach`: of the group with the block in question.
    fn at_once(&self, reach: &Reach) -> Option<u64> {
        let _ = reach;
        None
    }

    /// What it takes at close.
    fn takes(&self) -> Takes {
        Takes::ProcessGroup
    }

    /// Where bytes go that find no room in the buffer: an object, and where the process group starts in it. What of the
    /// group is in storage already is there. Not collective.
    ///
    /// # Errors
    /// `InvalidArgument` where no output is open; those of the store.
    fn through(&mut self, reach: &Reach) -> Result<(&dyn WriteObject, u64)>;

    /// Called before `close` with what the methods before this one have closed, in their order: their files are finished.
    fn after(&mut self, finished: &[Finished]) {
        let _ = finished;
    }

    /// Writes what is left of the process group, and commits the step.
    ///
    /// # Errors
    /// On all ranks the same kind; the failing rank keeps the cause.
    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed>;

    /// Whether the method takes outputs over to end them after the program's close has returned; the same on all ranks and
    /// for all its outputs.
    fn ends_later(&self) -> bool {
        false
    }

    /// Instead of [`Method::close`] where the method [ends outputs later](Method::ends_later): takes the output over. Called
    /// inside the program's close, on every rank. [`pending::close_later`] ends it by the method's own `close`.
    fn take_over(self: Box<Self>, output: OwnedOutput) -> Box<dyn Pending> {
        pending::not_taken(output)
    }
}

/// Parameters of ADIOS 1.x's methods that mean nothing here, by method: programs and documents give them, to whichever method.
pub const OF_ADIOS1: &[(&str, &[&str])] = &[
    (
        "every method",
        &[
            "verbose",
            "verbosity",
            "quiet",
            "debug",
            "abort_on_error",
            "show_hidden_attrs",
            "max_chunk_size",
            "poll_interval",
        ],
    ),
    ("MPI", &["romio_ds_read", "romio_ds_write", "ind_wr_buffer_size"]),
    ("POSIX", &["have_metadata_file", "local-fs"]),
    (
        "MPI_LUSTRE",
        &[
            "stripe_count",
            "stripe_size",
            "stripe_offset",
            "block_size",
            "striping_unit",
            "romio_ds_read",
            "romio_ds_write",
            "ind_wr_buffer_size",
        ],
    ),
    (
        "MPI_AGGREGATE",
        &[
            "num_aggregators",
            "num_ost",
            "aggregation_type",
            "color",
            "striping",
            "stripe_count",
            "stripe_size",
            "threading",
            "random_offset",
            "osts_to_skip",
            "have_metadata_file",
            "local-fs",
            "merging_pgs",
            "max_storage_targets",
        ],
    ),
    (
        "MPI_STAGGER",
        &[
            "max_storage_targets",
            "files_number",
            "max_io_count",
            "min_stripe_count",
            "max_stripe_count",
            "start_ost",
            "stagger",
        ],
    ),
    ("VAR_MERGE", &["chunk_size", "io_method", "io_parameters"]),
    ("PHDF5, NC4", &["cb_align", "romio_cb_write", "romio_ds_write"]),
    ("DATASPACES, DIMES", &["app_id", "lock_type", "check_read_status", "max_versions", "num_clients", "num_servers"]),
    ("FLEXPATH", &["queue_size", "max_procs", "writer_control", "cm_transport"]),
    ("ICEE", &["cm_host", "cm_port", "cm_attr", "is_passive", "max_client", "num_parallel"]),
];

/// Whether a parameter means something to a method of ADIOS 1.x.
pub fn is_of_adios1(key: &str) -> bool {
    OF_ADIOS1.iter().any(|(_, keys)| keys.iter().any(|k| k.eq_ignore_ascii_case(key)))
}

/// Id of methods that store nothing: process groups do not name them.
pub const STORES_NOTHING: u8 = 254;

/// A method as the registry lists it.
#[derive(Clone, Copy)]
pub struct MethodKind {
    /// Names in the XML; the first is ours.
    pub names: &'static [&'static str],
    /// Id stored in process groups.
    pub id: u8,
    /// One line.
    pub about: &'static str,
    /// Keys it knows.
    pub parameters: &'static [Parameter],
    /// Bytes that it takes to carry process groups to their files even where the buffer limit is lower.
    pub least: u64,
    /// Parameters that `thalweg tune` changes, as they decide how fast bytes travel.
    pub tried: &'static [Tried],
    /// Makes one for an output.
    pub make: fn(&Parameters) -> Result<Box<dyn Method>>,
}

/// A parameter worth changing, with the values worth trying.
#[derive(Clone, Copy)]
pub struct Tried {
    /// The parameter.
    pub parameter: Parameter,
    /// Its values.
    pub values: Values,
}

/// Values worth trying.
#[derive(Clone, Copy)]
pub enum Values {
    /// These.
    These(&'static [&'static str]),
    /// 1, 2, 4 and so on, up to the number that so many ranks give.
    PowersOfTwo(fn(u32) -> u32),
}

impl Tried {
    /// A parameter with these values.
    pub const fn these(parameter: Parameter, values: &'static [&'static str]) -> Tried {
        Tried { parameter, values: Values::These(values) }
    }

    /// A count, up to the number that so many ranks give.
    pub const fn powers_of_two(parameter: Parameter, most: fn(u32) -> u32) -> Tried {
        Tried { parameter, values: Values::PowersOfTwo(most) }
    }

    /// The values for so many ranks.
    pub fn values(&self, ranks: u32) -> Vec<String> {
        match self.values {
            Values::These(values) => values.iter().map(|value| (*value).to_string()).collect(),
            Values::PowersOfTwo(most) => {
                let powers = (0..u32::BITS).map(|n| 1u32 << n);
                powers.take_while(|n| *n <= most(ranks)).map(|n| n.to_string()).collect()
            }
        }
    }
}

/// How an index is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indexing {
    /// A full index follows each output.
    pub each: bool,
    /// Ranks from which one rank takes index fragments at most.
    pub fan_in: u32,
    /// Bytes that a rank has still to write from which on its index fragment goes ahead of them.
    pub ahead: u64,
}

impl Indexing {
    /// How the index is built, as the parameters say.
    ///
    /// # Errors
    /// `Config` as of [`Parameters::get`].
    pub fn of(parameters: &Parameters) -> Result<Indexing> {
        Ok(Indexing {
            each: parameters.get::<String>(&INDEX)? == "each",
            fan_in: parameters.get(&INDEX_FAN_IN)?,
            ahead: parameters.get(&INDEX_AHEAD)?,
        })
    }
}

/// `sync`, known to every method that writes files.
pub const SYNC: Parameter =
    Parameter::switch("sync", false, "close returns when data, index and names are on the device (fsync)");
/// `index`, known to every method that writes files.
pub const INDEX: Parameter = Parameter::choice(
    "index",
    &["auto", "each"],
    "each: a full index after each output, for foreign readers that follow the run; auto: when it is cheap, and in finalize",
);
/// `index_fan_in`, known to every method that writes files.
pub const INDEX_FAN_IN: Parameter = Parameter::count(
    "index_fan_in",
    tree::FAN_IN as u64,
    "largest number of ranks that send their index entries to the same rank, on the way up a tree to rank 0: 64 makes one level up to 65 ranks, two up to 4,161, three for 140,000",
)
.at_least(1);
/// `index_ahead`, known to methods under which a rank knows before it writes where its process group will lie.
pub const INDEX_AHEAD: Parameter = Parameter::size(
    "index_ahead",
    4 << 20,
    "a rank with at least this much to write at close sends its index entries to rank 0 ahead of its data: rank 0 writes the index while data are still being written, and its last 56 or 64 bytes, which make the step readable, when all data are there. Costs one short message",
);
/// `direct`, known to methods that may write blocks before close.
pub const DIRECT: Parameter = Parameter::size(
    "direct",
    1 << 20,
    "blocks of at least this size are written immediately from the program's memory, if their place in the file is known (MPI_AGGREGATE: on ranks that write)",
);
/// `spill_copy`, known to methods under which a rank learns at close where its process group goes.
pub const SPILL_COPY: Parameter = Parameter::size(
    "spill_copy",
    64 << 10,
    "piece size for copying from the spill file at close, where the buffer limit was reached; 512 bytes to 1 GiB are used",
);
/// `strict`, known to every method.
pub const STRICT: Parameter = Parameter::switch(
    "strict",
    false,
    "yes: an unknown parameter or an invalid value is an error; no: a warning, and the default counts",
);
/// `have_metadata_file`, known to methods that write subfiles.
pub const HAVE_METADATA: Parameter = Parameter::switch(
    "have_metadata_file",
    true,
    "as in ADIOS 1.x; the merged index is always written, so only yes is accepted",
);

/// Bytes copied at a time from the spill file.
///
/// # Errors
/// `Config` as of [`Parameters::get`].
pub fn spill_copy(parameters: &Parameters) -> Result<usize> {
    Ok(parameters.get::<u64>(&SPILL_COPY)?.clamp(512, 1 << 30) as usize)
}

/// Checks what the parameters say of the merged index.
///
/// # Errors
/// `Unsupported` where there is to be none.
pub fn have_metadata_file(parameters: &Parameters) -> Result<()> {
    if parameters.get(&HAVE_METADATA)? {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported, "have_metadata_file=0: the merged index is always written"))
}

pub(crate) fn not_open() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the output is not open")
}

/// The folder a path lies in, for syncing names; `.` where it names none.
pub fn folder_of(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) => "/",
        Some(i) => &path[..i],
        None => ".",
    }
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
