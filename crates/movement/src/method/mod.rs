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

use crate::buffer::BufferPool;
use crate::output_file::cache::Cache;
use crate::output_file::levels::ArrayLevel;
use crate::pack::{Pack, Reach};
use std::sync::Arc;
use thalweg_bp::process_group::Header;
use thalweg_comm::Communicator;
use thalweg_comm::tree;
use thalweg_layout::{Layout, OpenWrite, WriteObject};
use thalweg_types::{Error, ErrorKind, Result};

pub mod adaptive;
pub mod aggregated;
pub mod collective;
pub mod independent;
pub mod null;
pub mod posix;
pub mod scheduled;
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
}

/// A way for bytes to travel. One value serves one output: `open`, any number of `through`, `close`.
///
/// `open` and `close` are collective over the request's communicator, also on ranks that failed: every rank returns.
/// Dropped without close, it leaves the file as it was before `open`.
pub trait Method: Send {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Opens the output.
    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened>;

    /// Blocks of at least this many bytes are written at once from the caller's memory, as the place is known and a copy
    /// would only cost time. `None`: they wait for close. `reach`: of the group with the block in question.
    fn at_once(&self, reach: &Reach) -> Option<u64> {
        let _ = reach;
        None
    }

    /// Where bytes go that find no room in the buffer: an object, and where the process group starts in it. What of the
    /// group is in storage already is there. Not collective.
    fn through(&mut self, reach: &Reach) -> Result<(&dyn WriteObject, u64)>;

    /// Called before `close` with what the methods before this one have closed, in their order: their files are finished.
    fn after(&mut self, finished: &[Finished]) {
        let _ = finished;
    }

    /// Writes what is left of `pack`, and commits the step. `failed` is this rank's own failure so far: its process
    /// group is then left out.
    fn close(
        &mut self,
        comm: &dyn Communicator,
        header: &Header,
        pack: &mut Pack<'_>,
        failed: Option<Error>,
    ) -> Result<Closed>;
}

/// A parameter that a method knows: for parsing, help and manual.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its key.
    pub key: &'static str,
    /// What it does, with unit and default.
    pub about: &'static str,
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
    /// Makes one for an output.
    pub make: fn(&Parameters) -> Result<Box<dyn Method>>,
}

/// Parameters with values, in the order given.
#[derive(Debug, Clone, Default)]
pub struct Parameters(pub Vec<(String, String)>);

impl Parameters {
    /// The last value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|(k, _)| k.eq_ignore_ascii_case(key)).map(|(_, v)| v.as_str())
    }

    /// A yes or no.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.get(key).map(str::to_ascii_lowercase).as_deref() {
            None => Ok(default),
            Some("yes" | "y" | "true" | "on" | "1" | "") => Ok(true),
            Some("no" | "n" | "false" | "off" | "0") => Ok(false),
            Some(other) => Err(Error::new(ErrorKind::Config, format!("parameter {key}={other}: expected yes or no"))),
        }
    }

    /// A number of bytes: `65536`, `64k`, `8M`, `8MiB`, `1G`.
    pub fn bytes(&self, key: &str, default: u64) -> Result<u64> {
        let Some(text) = self.get(key) else { return Ok(default) };
        let digits = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim();
        let unit = text.trim()[digits.len()..].trim().to_ascii_lowercase();
        let factor = match unit.as_str() {
            "" | "b" => Some(1),
            "k" | "kb" | "kib" => Some(1 << 10),
            "m" | "mb" | "mib" => Some(1 << 20),
            "g" | "gb" | "gib" => Some(1 << 30),
            _ => None,
        };
        factor.and_then(|f| digits.parse::<u64>().ok()?.checked_mul(f)).ok_or_else(|| {
            Error::new(ErrorKind::Config, format!("parameter {key}={text}: expected bytes, as 65536, 64k or 8MiB"))
        })
    }

    /// Bytes from which blocks are written at once.
    pub fn direct(&self) -> Result<u64> {
        self.bytes("direct", 1 << 20)
    }

    /// A whole number.
    pub fn count(&self, key: &str, default: u32) -> Result<u32> {
        let Some(text) = self.get(key) else { return Ok(default) };
        text.trim()
            .parse()
            .map_err(|_| Error::new(ErrorKind::Config, format!("parameter {key}={text}: expected a whole number")))
    }

    /// A whole number that is given, and not below `least`.
    pub fn at_least(&self, key: &str, least: u32) -> Result<Option<u32>> {
        let Some(text) = self.get(key) else { return Ok(None) };
        text.trim().parse().ok().filter(|n| *n >= least).map(Some).ok_or_else(|| {
            Error::new(ErrorKind::Config, format!("parameter {key}={text}: expected a whole number, at least {least}"))
        })
    }

    /// Bytes copied at a time from the spill file.
    pub fn spill_copy(&self) -> Result<usize> {
        Ok(self.bytes(SPILL_COPY.key, 64 * 1024)?.clamp(512, 1 << 30) as usize)
    }

    /// Checks what is said of the merged index.
    ///
    /// # Errors
    /// `Unsupported` where there is to be none.
    pub fn have_metadata_file(&self) -> Result<()> {
        if self.flag(HAVE_METADATA.key, true)? {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Unsupported, "have_metadata_file=0: the merged index is always written"))
    }

    /// How the index is built.
    pub fn indexing(&self) -> Result<Indexing> {
        let each = match self.get(INDEX.key) {
            None | Some("auto") => false,
            Some("each") => true,
            Some(other) => {
                return Err(Error::new(ErrorKind::Config, format!("parameter index={other}: expected each or auto")));
            }
        };
        let fan_in = self.at_least(INDEX_FAN_IN.key, 1)?.unwrap_or(tree::FAN_IN);
        Ok(Indexing { each, fan_in, ahead: self.bytes(INDEX_AHEAD.key, 4 << 20)? })
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

/// `sync`, known to every method that writes files.
pub const SYNC: Parameter =
    Parameter { key: "sync", about: "yes: close returns when file and folder are on the device (fsync); default no" };
/// `index`, known to every method that writes files.
pub const INDEX: Parameter = Parameter {
    key: "index",
    about: "each: a full index after each output, for foreign readers that follow along; default auto",
};
/// `index_fan_in`, known to every method that writes files.
pub const INDEX_FAN_IN: Parameter = Parameter {
    key: "index_fan_in",
    about: "ranks from which one rank takes index entries at most, on their way up a tree to rank 0; default 64",
};
/// `index_ahead`, known to methods under which a rank knows before it writes where its process group will lie.
pub const INDEX_AHEAD: Parameter = Parameter {
    key: "index_ahead",
    about: "bytes to write at close from which index entries go ahead of them: the index is written meanwhile; default 4 MiB",
};
/// `direct`, known to methods that may write blocks before close.
pub const DIRECT: Parameter = Parameter {
    key: "direct",
    about: "bytes from which a block is written at once from the program's memory, where its place is known; default 1 MiB",
};

/// `spill_copy`, known to methods under which a rank learns at close where its process group goes.
pub const SPILL_COPY: Parameter = Parameter {
    key: "spill_copy",
    about: "bytes copied at a time from the spill file at close, where the buffer was too small; default 64 KiB",
};
/// `strict`, known to every method.
pub const STRICT: Parameter = Parameter {
    key: "strict",
    about: "yes: an unknown parameter or a value that makes no sense refuses the method; default no: a warning, and the default",
};
/// `have_metadata_file`, known to methods that write subfiles.
pub const HAVE_METADATA: Parameter = Parameter {
    key: "have_metadata_file",
    about: "as in ADIOS 1.x; the merged index is always written, so only 1 is accepted",
};

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
