//! The one table of layouts: creates a layout over stores from a name and parameters.

use crate::starting;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_layout::container::{self, index::Module};
use thalweg_layout::write_behind::Promise;
use thalweg_layout::{Container, Direct, Flat, Layout, SmallFile, small_file};
use thalweg_params::{Parameter, Parameters};
use thalweg_partition::Partition;
use thalweg_partition::client::staging;
use thalweg_partition::configuration::Configuration;
use thalweg_store::Store;
use thalweg_types::{Error, ErrorKind, Result};

/// Creates a layout over stores and checks its parameters; refuses stores that lack a capability it needs.
pub type Make = fn(&[Arc<dyn Store>], &Parameters) -> Result<Arc<dyn Layout>>;

/// A kind of layout.
pub struct LayoutKind {
    /// Its name in the mount table.
    pub name: &'static str,
    /// How it stores files, in a few words.
    pub about: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Largest number of stores; 0 for a layout whose files lie elsewhere.
    pub most_stores: usize,
    /// Creates it.
    pub make: Make,
}

/// `index` of `container`.
pub const INDEX: Parameter = Parameter::choice(
    "index",
    &["pattern", "flat", "distributed"],
    "index module of new files. flat: every record; pattern: runs of regular records; distributed: the index of an open file is kept on a local disk",
);
/// `buffer` of `container`.
pub const BUFFER: Parameter = Parameter::size("buffer", 2 << 20, "size of an open file's write buffer");
/// `folders` of `container`.
pub const FOLDERS: Parameter =
    Parameter::count("folders", 16, "folders of logs on each store, of new files").within(1, 255);
/// `inline` of `container`.
pub const INLINE: Parameter = Parameter::size(
    "inline",
    32 << 10,
    "largest data log stored inline, in the object of its file's name on the first store, if that store can; 0: none",
)
.or_else("32 KiB; over several stores 0, so that small files are spread");
/// `segment` of `container`.
pub const SEGMENT: Parameter =
    Parameter::size("segment", 1 << 40, "longest data log; shorter where the store takes no object of this size");
/// `host` of `container`.
pub const HOST: Parameter =
    Parameter::text("host", "a host name", "name of this host; selects the store of its logs").or_else("the system's");
/// `index_folder` of `container`.
pub const INDEX_FOLDER: Parameter = Parameter::text(
    "index_folder",
    "a folder",
    "index=distributed: folder on a local disk for the index of open files",
)
.or_else("TMPDIR");
/// `index_cache` of `container`.
pub const INDEX_CACHE: Parameter =
    Parameter::size("index_cache", 4 << 20, "index=distributed: memory for the index of an open file");
/// `small` of `small_file`.
pub const SMALL: Parameter = Parameter::size("small", 1 << 20, "largest file stored in a log").within(0, 1 << 30);
/// `log` of `small_file`.
pub const LOG: Parameter =
    Parameter::size("log", 1 << 30, "length at which a log is ended and the next one begins").at_least(1 << 16);
/// `publish` of `small_file`.
pub const PUBLISH: Parameter = Parameter::choice(
    "publish",
    &["close", "sync"],
    "when other processes see a file, on stores that show objects only after their close (HDFS, S3). close: at its close, which ends the log; sync: at a sync, with fewer objects",
);

/// `partition` of `partition`.
pub const PARTITION: Parameter =
    Parameter::text("partition", "a file", "configuration of the partition, whose servers have the files");

/// `promise` of `staging`.
pub const PROMISE: Parameter = Parameter::choice(
    "promise",
    &["held", "stored"],
    "when a close returns. held: when the server has the bytes in memory; stored: when they lie in its storage",
);

/// Every kind.
pub const LAYOUTS: &[LayoutKind] = &[
    LayoutKind {
        name: "container",
        about: "a file is a folder of logs, one for each writer; many processes write it at once",
        parameters: &[INDEX, BUFFER, FOLDERS, INLINE, SEGMENT, HOST, INDEX_FOLDER, INDEX_CACHE],
        most_stores: 255,
        make: containers,
    },
    LayoutKind {
        name: "direct",
        about: "a file is one object of one store",
        parameters: &[],
        most_stores: 1,
        make: |stores, _| Ok(Arc::new(Direct::new(one(stores)?)?)),
    },
    LayoutKind {
        name: "flat",
        about: "files are spread over stores by a hash of their name",
        parameters: &[],
        most_stores: usize::MAX,
        make: |stores, _| Ok(Arc::new(Flat::new(stores.to_vec())?)),
    },
    LayoutKind {
        name: "partition",
        about: "files are striped over the servers of a partition",
        parameters: &[PARTITION],
        most_stores: 0,
        make: |_, parameters| {
            let file = configuration(parameters)?;
            Ok(Arc::new(Partition::open(&file, starting::start_partition)?))
        },
    },
    LayoutKind {
        name: "small_file",
        about: "all small files that a process creates in a folder are in one log",
        parameters: &[SMALL, LOG, PUBLISH],
        most_stores: 1,
        make: small_files,
    },
    LayoutKind {
        name: "staging",
        about: "a server of a partition holds what is written, and stores it in order while programs go on",
        parameters: &[PARTITION, PROMISE],
        most_stores: 0,
        make: |_, parameters| {
            let promise = match parameters.get::<String>(&PROMISE)?.as_str() {
                "stored" => Promise::Stored,
                _ => Promise::Held,
            };
            Ok(staged(&configuration(parameters)?, promise, None)?.0)
        },
    },
];

/// The file that `partition` names.
fn configuration(parameters: &Parameters) -> Result<PathBuf> {
    let file: String = parameters.get(&PARTITION)?;
    if !Path::new(&file).is_absolute() {
        let what = format!("partition={file} means another file in every folder: expected one that begins with /");
        return Err(Error::new(ErrorKind::Config, what));
    }
    Ok(file.into())
}

/// The files that a partition's server takes over, as a layout, and the partition's configuration.
///
/// - `pace`: when this process sends long writes.
///
/// # Errors
/// As [`staging::open`].
pub fn staged(
    file: &Path,
    promise: Promise,
    pace: Option<Arc<dyn staging::Pace>>,
) -> Result<(Arc<dyn Layout>, Configuration)> {
    let (files, configuration) = staging::open(file, promise, pace, starting::start_partition)?;
    Ok((Arc::new(files), configuration))
}

/// The layout of this name, in any letter case.
pub fn find(name: &str) -> Option<&'static LayoutKind> {
    LAYOUTS.iter().find(|kind| kind.name.eq_ignore_ascii_case(name))
}

fn one(stores: &[Arc<dyn Store>]) -> Result<Arc<dyn Store>> {
    stores.first().cloned().ok_or_else(|| Error::new(ErrorKind::Config, "a layout needs a store"))
}

fn small_files(stores: &[Arc<dyn Store>], parameters: &Parameters) -> Result<Arc<dyn Layout>> {
    Ok(Arc::new(SmallFile::new(one(stores)?, settings(parameters)?)?))
}

fn settings(parameters: &Parameters) -> Result<small_file::Settings> {
    Ok(small_file::Settings {
        small: parameters.get(&SMALL)?,
        log: parameters.get(&LOG)?,
        publish_at_close: parameters.get::<String>(&PUBLISH)? == "close",
    })
}

fn containers(stores: &[Arc<dyn Store>], parameters: &Parameters) -> Result<Arc<dyn Layout>> {
    Ok(Arc::new(Container::new(stores.to_vec(), options(parameters)?)?))
}

fn options(parameters: &Parameters) -> Result<container::Options> {
    let default = container::Options::default();
    Ok(container::Options {
        module: Module::from_name(&parameters.get::<String>(&INDEX)?)?,
        buffer: parameters.get(&BUFFER)?,
        folders: parameters.get(&FOLDERS)?,
        inline: parameters.get(&INLINE)?,
        segment: parameters.get(&SEGMENT)?,
        host: parameters.text(&HOST).map_or(default.host, str::to_string),
        index_folder: parameters.text(&INDEX_FOLDER).map_or(default.index_folder, Into::into),
        index_cache: parameters.get(&INDEX_CACHE)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_without_parameters_has_the_defaults_of_the_layouts_themselves() {
        assert_eq!(options(&Parameters::default()).unwrap(), container::Options::default());
        assert_eq!(settings(&Parameters::default()).unwrap(), small_file::Settings::default());
    }
}
