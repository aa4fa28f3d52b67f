//! Methods: how data travels from ranks to a layout. One file each; its first page answers who writes, when and where.
//!
//! | method | names in the XML |
//! |---|---|
//! | [`null`] | `NULL` |
//! | [`posix`] | `POSIX`, `POSIX1` |
//! | [`independent`] | `MPI` |
//! | [`collective`] | `MPI_COLLECTIVE`, `MPI_CIO` |
//! | [`aggregated`] | `MPI_AGGREGATE`, `MPI_AMR`, `MPI_BGQ` |
//! | [`adaptive`] | `ADAPTIVE` |
//! | [`asynchronous`] | `ASYNC` |
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
pub mod asynchronous;
pub mod collective;
pub mod independent;
pub mod null;
pub mod pending;
pub mod posix;
pub mod scheduled;
pub mod template;
pub mod trigger;

/// Mode of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Creates the file, or replaces an existing one.
    Write,
    /// Adds a step.
    Append,
    /// Adds data to the last step.
    Update,
    /// Adds a step after this one (from 0) and drops all later steps, for a restart from a checkpoint. They are removed when the
    /// open returns; an open that fails on any rank drops nothing.
    AppendAfter(u64),
}

impl Mode {
    /// How the file is opened in the layout; a restart needs an existing file.
    pub(crate) fn how(self) -> OpenWrite {
        match self {
            Mode::Write => OpenWrite::Replace,
            Mode::Append | Mode::Update => OpenWrite::Any,
            Mode::AppendAfter(_) => OpenWrite::Existing,
        }
    }
}

/// Arguments of [`Method::open`].
pub struct OpenRequest<'r> {
    /// The ranks that open the output together.
    pub comm: &'r dyn Communicator,
    /// The layout of the file.
    pub layout: &'r Arc<dyn Layout>,
    /// Name of the file.
    pub path: &'r str,
    /// The group that is written.
    pub group: &'r str,
    /// Mode of the open.
    pub mode: Mode,
    /// Run id to use unless the file's run continues; rank 0's is used.
    pub run: u64,
    /// State that the process keeps between outputs.
    pub cache: &'r Arc<Cache>,
    /// The process's memory for output, in which memory for carrying process groups is counted.
    pub buffer: &'r Arc<BufferPool>,
    /// The arrays that may be written and the levels of their statistics; rank 0's are used.
    pub arrays: &'r [ArrayLevel],
}

/// Arguments of [`Method::close`]. `'a`: how long memory lent by the program stays unchanged.
pub struct CloseRequest<'c, 'a> {
    /// The ranks that opened the output together.
    pub comm: &'c dyn Communicator,
    /// Header of the process group.
    pub header: &'c Header,
    /// The process group.
    pub pack: &'c mut Pack<'a>,
    /// This rank's failure so far; its process group is then left out.
    pub failed: Option<Error>,
}

impl CloseRequest<'_, '_> {
    /// The blocks in the order of writing, for a method that [takes](Method::takes) them.
    ///
    /// - `spilled`: the object and offset returned by [`Method::through`], if it was called.
    ///
    /// # Errors
    /// As [`Pack::blocks`].
    pub fn blocks<'p>(&'p mut self, spilled: Option<(&'p dyn WriteObject, u64)>) -> Result<Vec<WrittenBlock<'p>>> {
        self.pack.blocks(spilled, self.header.fortran)
    }

    /// Bytes of the process group.
    ///
    /// # Errors
    /// `Io` if encoding its attributes panics.
    pub(crate) fn length(&self) -> Result<u64> {
        caught("measure the process group", || Ok(self.pack.length()))
    }

    /// The writer that the trailer of a process group in file `number` of an output names.
    pub(crate) fn writer(&self, index: &OpenIndex, number: u32) -> Writer {
        Writer { rank: index.rank, ranks: self.comm.size(), run: index.run, file_index: number }
    }
}

/// Result of an open, the same on all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The step, counted from `first_time`.
    pub time_index: u32,
    /// The time index of step 0: 1, except for files of another library that began later.
    pub first_time: u32,
    /// The run id, the same for all files and ranks of one open.
    pub run: u64,
    /// The arrays whose statistics the file records at another level, with that level, which blocks must use.
    pub levels: Vec<ArrayLevel>,
}

/// The result of an earlier method of the group for the same output.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Name of the method.
    pub method: &'static str,
    /// Whether it writes files.
    pub stores: bool,
    /// Name of the file.
    pub path: String,
    /// Step, from 0.
    pub step: u64,
    /// Bytes of all ranks, or the failure.
    pub outcome: std::result::Result<u64, (ErrorKind, String)>,
}

impl Finished {
    /// The last of them that stores the output.
    pub fn last_stored(all: &[Finished]) -> Option<&Finished> {
        all.iter().rev().find(|one| one.stores)
    }

    /// Whether a rank did not answer: whoever waits for all ranks would wait for it again.
    pub fn lost_a_rank(&self) -> bool {
        matches!(&self.outcome, Err((ErrorKind::PeerLost | ErrorKind::Timeout, _)))
    }
}

/// Result of a close, the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Closed {
    /// Bytes of all ranks.
    pub bytes: u64,
    /// Some methods have not written the output yet; `bytes` counts the others.
    pub pending: bool,
}

impl Closed {
    /// The result of an output that has ended, with the bytes of all ranks.
    pub fn of(bytes: u64) -> Closed {
        Closed { bytes, pending: false }
    }
}

/// A method for one output: `open`, any number of `through`, `close`.
///
/// `open` and `close` are collective over the request's communicator, also on ranks that failed: they return on every rank. A
/// method that is dropped without close leaves the file as it was before `open`.
pub trait Method: Send {
    /// Its name in the XML.
    fn name(&self) -> &'static str;

    /// Whether payloads are in subfiles; `None`: there are none. A file is continued by methods that give the same answer.
    fn subfiles(&self) -> Option<bool> {
        None
    }

    /// Opens the output.
    ///
    /// # Errors
    /// The same kind on all ranks; the failing rank keeps the cause. The file is unchanged.
    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened>;

    /// Write-through threshold: blocks this large are written immediately from the caller's buffer, because their file offset is
    /// already known. `None`: buffer all blocks until close. `reach`: the size of the group including the block.
    fn at_once(&self, reach: &Reach) -> Option<u64> {
        let _ = reach;
        None
    }

    /// The form in which it takes data at close.
    fn takes(&self) -> Takes {
        Takes::ProcessGroup
    }

    /// Whether its file keeps the attributes of earlier outputs; else it gets all of them at each output.
    fn keeps_attributes(&self) -> bool {
        true
    }

    /// The object for blocks that exceed the buffer, and the offset of the process group in it. Data of the group that is in
    /// storage already is there. Not collective.
    ///
    /// # Errors
    /// `InvalidArgument` if no output is open; errors of the store.
    fn through(&mut self, reach: &Reach) -> Result<(&dyn WriteObject, u64)>;

    /// Called before `close` with the results of the earlier methods of the group, in their order; their files are finished.
    fn after(&mut self, finished: &[Finished]) {
        let _ = finished;
    }

    /// Writes the remaining data of the process group, and commits the step.
    ///
    /// # Errors
    /// The same kind on all ranks; the failing rank keeps the cause.
    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed>;

    /// Whether the method ends outputs after the program's close has returned; the same on all ranks and for all its outputs.
    fn ends_later(&self) -> bool {
        false
    }

    /// Whether its outputs end in the background unless `async=no` is given.
    fn in_background(&self) -> bool {
        false
    }

    /// Called instead of [`Method::close`] if the method [ends outputs later](Method::ends_later), inside the program's close, on
    /// every rank: takes ownership of the output. [`pending::close_later`] ends it by the method's own `close`.
    fn take_over(self: Box<Self>, output: OwnedOutput) -> Box<dyn Pending> {
        pending::not_taken(output)
    }
}

/// Parameters of ADIOS 1.x's methods that have no effect here, by method. Programs and documents give them to any method.
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

/// Whether a parameter belongs to a method of ADIOS 1.x.
pub fn is_of_adios1(key: &str) -> bool {
    OF_ADIOS1.iter().any(|(_, keys)| keys.iter().any(|k| k.eq_ignore_ascii_case(key)))
}

/// Id of methods that store nothing; process groups do not contain it.
pub const STORES_NOTHING: u8 = 254;

/// Entry of a method in the registry.
#[derive(Clone, Copy)]
pub struct MethodKind {
    /// Names in the XML; the first is used in messages.
    pub names: &'static [&'static str],
    /// Id stored in process groups.
    pub id: u8,
    /// Description, one line.
    pub about: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Memory in bytes that it needs to carry process groups to files even if the buffer limit is lower.
    pub least: u64,
    /// Parameters that `thalweg tune` varies, because they affect the speed.
    pub tried: &'static [Tried],
    /// Creates a method for one output.
    pub make: fn(&Parameters) -> Result<Box<dyn Method>>,
}

/// A parameter with the values that `thalweg tune` tries.
#[derive(Clone, Copy)]
pub struct Tried {
    /// The parameter.
    pub parameter: Parameter,
    /// Its values.
    pub values: Values,
}

/// Values to try.
#[derive(Clone, Copy)]
pub enum Values {
    /// These.
    These(&'static [&'static str]),
    /// 1, 2, 4 and so on, up to a function of the number of ranks.
    PowersOfTwo(fn(u32) -> u32),
}

impl Tried {
    /// A parameter with these values.
    pub const fn these(parameter: Parameter, values: &'static [&'static str]) -> Tried {
        Tried { parameter, values: Values::These(values) }
    }

    /// A count from 1 to a function of the number of ranks.
    pub const fn powers_of_two(parameter: Parameter, most: fn(u32) -> u32) -> Tried {
        Tried { parameter, values: Values::PowersOfTwo(most) }
    }

    /// The values for this number of ranks.
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

/// How the index is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indexing {
    /// Write a full index after each output.
    pub each: bool,
    /// Largest number of ranks that send index fragments to the same rank.
    pub fan_in: u32,
    /// A rank with at least this many bytes to write sends its index fragment ahead of them.
    pub ahead: u64,
}

impl Indexing {
    /// Reads the parameters.
    ///
    /// # Errors
    /// As [`Parameters::get`].
    pub fn of(parameters: &Parameters) -> Result<Indexing> {
        Ok(Indexing {
            each: parameters.get::<String>(&INDEX)? == "each",
            fan_in: parameters.get(&INDEX_FAN_IN)?,
            ahead: parameters.get(&INDEX_AHEAD)?,
        })
    }
}

/// `sync`, of every method that writes files.
pub const SYNC: Parameter =
    Parameter::switch("sync", false, "close returns when data, index and names are on the device (fsync)");
/// `index`, of every method that writes files.
pub const INDEX: Parameter = Parameter::choice(
    "index",
    &["auto", "each"],
    "each: a full index after each output, for foreign readers that follow the run; auto: when it is cheap, and in finalize",
);
/// `index_fan_in`, of every method that writes files.
pub const INDEX_FAN_IN: Parameter = Parameter::count(
    "index_fan_in",
    tree::FAN_IN as u64,
    "largest number of ranks that send their index entries to the same rank, on the way up a tree to rank 0: 64 makes one level up to 65 ranks, two up to 4,161, three for 140,000",
)
.at_least(1);
/// `index_ahead`, of methods in which a rank knows the offset of its process group before it writes.
pub const INDEX_AHEAD: Parameter = Parameter::size(
    "index_ahead",
    4 << 20,
    "a rank with at least this much to write at close sends its index entries to rank 0 ahead of its data: rank 0 writes the index while data are still being written, and its last 56 or 64 bytes, which make the step readable, when all data are there. Costs one short message",
);
/// `direct`, of methods that may write blocks before close.
pub const DIRECT: Parameter = Parameter::size(
    "direct",
    1 << 20,
    "blocks of at least this size are written immediately from the program's memory, if their place in the file is known (MPI_AGGREGATE: on ranks that write)",
);
/// `spill_copy`, of methods in which a rank learns the offset of its process group at close.
pub const SPILL_COPY: Parameter = Parameter::size(
    "spill_copy",
    64 << 10,
    "piece size for copying from the spill file at close, where the buffer limit was reached; 512 bytes to 1 GiB are used",
);
/// `strict`, of every method.
pub const STRICT: Parameter = Parameter::switch(
    "strict",
    false,
    "yes: an unknown parameter or an invalid value is an error; no: a warning, and the default counts",
);
/// `have_metadata_file`, of methods that write subfiles.
pub const HAVE_METADATA: Parameter = Parameter::switch(
    "have_metadata_file",
    true,
    "as in ADIOS 1.x; the merged index is always written, so only yes is accepted",
);

/// Bytes copied at a time from the spill file.
///
/// # Errors
/// As [`Parameters::get`].
pub fn spill_copy(parameters: &Parameters) -> Result<usize> {
    Ok(parameters.get::<u64>(&SPILL_COPY)?.clamp(512, 1 << 30) as usize)
}

/// Checks the parameter of the merged index.
///
/// # Errors
/// `Unsupported` if it is switched off.
pub fn have_metadata_file(parameters: &Parameters) -> Result<()> {
    if parameters.get(&HAVE_METADATA)? {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported, "have_metadata_file=0: the merged index is always written"))
}

/// The failure of a method that is called between two outputs.
pub fn not_open() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the output is not open")
}

/// The parent folder of a path, for syncing names; `.` if the path has none.
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
