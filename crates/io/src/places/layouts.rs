//! The one table of layouts: a name and parameters become a layout over stores.

use std::sync::Arc;
use thalweg_layout::container::{self, index::Module};
use thalweg_layout::{Container, Direct, Flat, Layout, SmallFile, small_file};
use thalweg_movement::method::{Parameter, Parameters};
use thalweg_store::Store;
use thalweg_types::{Error, ErrorKind, Result};

/// Makes a layout over stores, its parameters checked; refuses stores that lack what it needs.
pub type Make = fn(&[Arc<dyn Store>], &Parameters) -> Result<Arc<dyn Layout>>;

/// A kind of layout.
pub struct LayoutKind {
    /// As the mount table names it.
    pub name: &'static str,
    /// What it does with files, in a few words.
    pub about: &'static str,
    /// Parameters it knows.
    pub parameters: &'static [Parameter],
    /// Over how many stores it lies at most.
    pub most_stores: usize,
    /// Makes it.
    pub make: Make,
}

/// Every kind.
pub const LAYOUTS: &[LayoutKind] = &[
    LayoutKind {
        name: "container",
        about: "a file is a folder of logs, one for each writer; many processes write it at once",
        parameters: &[
            Parameter { key: "index", about: "index module of new files: flat, pattern, distributed; default pattern" },
            Parameter { key: "buffer", about: "bytes that an open file gathers before it writes them; default 4 MiB" },
            Parameter { key: "folders", about: "folders of logs on each store, of new files; default 16" },
            Parameter {
                key: "segment",
                about: "bytes of the longest data log; default 1 TiB, or what the store takes",
            },
            Parameter { key: "host", about: "name of this host, which spreads logs; default what the system says" },
            Parameter {
                key: "index_folder",
                about: "folder of a local disk for the index of open files with index=distributed; default TMPDIR",
            },
            Parameter {
                key: "inline",
                about: "longest data log that lies in the object of its file's name, bytes; 0 for none; default 32 KiB",
            },
            Parameter { key: "index_cache", about: "bytes of memory that such an index may use; default 4 MiB" },
        ],
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
        name: "small_file",
        about: "all small files that a process makes in a folder lie in one log",
        parameters: &[
            Parameter { key: "small", about: "bytes of the largest file that stays in a log; default 1 MiB" },
            Parameter { key: "log", about: "bytes after which a log is ended and another begun; default 1 GiB" },
            Parameter {
                key: "publish",
                about: "close: files are seen by others once closed, also on stores where that ends a log; sync: there, once synced; default close",
            },
        ],
        most_stores: 1,
        make: small_files,
    },
];

/// The layout of this name, in any letter case.
pub fn find(name: &str) -> Option<&'static LayoutKind> {
    LAYOUTS.iter().find(|kind| kind.name.eq_ignore_ascii_case(name))
}

fn one(stores: &[Arc<dyn Store>]) -> Result<Arc<dyn Store>> {
    stores.first().cloned().ok_or_else(|| Error::new(ErrorKind::Config, "a layout needs a store"))
}

fn small_files(stores: &[Arc<dyn Store>], parameters: &Parameters) -> Result<Arc<dyn Layout>> {
    let default = small_file::Settings::default();
    let publish_at_close = match parameters.get("publish") {
        None | Some("close") => true,
        Some("sync") => false,
        Some(other) => {
            let what = format!("parameter publish={other}: expected close or sync");
            return Err(Error::new(ErrorKind::Config, what));
        }
    };
    let settings = small_file::Settings {
        small: parameters.bytes("small", default.small)?,
        log: parameters.bytes("log", default.log)?,
        publish_at_close,
    };
    Ok(Arc::new(SmallFile::new(one(stores)?, settings)?))
}

fn containers(stores: &[Arc<dyn Store>], parameters: &Parameters) -> Result<Arc<dyn Layout>> {
    let default = container::Options::default();
    let short = |key: &str, default: usize| -> Result<usize> {
        let bytes = parameters.bytes(key, default as u64)?;
        usize::try_from(bytes).map_err(|_| Error::new(ErrorKind::Config, format!("parameter {key}={bytes}: too large")))
    };
    let module = match parameters.get("index") {
        Some(name) => Module::from_name(name)
            .map_err(|e| Error::new(ErrorKind::Config, format!("parameter index={name}: {}", e.what())))?,
        None => default.module,
    };
    let folders = parameters.count("folders", u32::from(default.folders))?;
    let options = container::Options {
        module,
        buffer: short("buffer", default.buffer)?,
        inline: short("inline", default.inline)?,
        folders: u8::try_from(folders)
            .map_err(|_| Error::new(ErrorKind::Config, format!("parameter folders={folders}: expected 1 to 255")))?,
        segment: parameters.bytes("segment", default.segment)?,
        host: parameters.get("host").map_or(default.host, str::to_string),
        index_folder: parameters.get("index_folder").map_or(default.index_folder, Into::into),
        index_cache: short("index_cache", default.index_cache)?,
    };
    Ok(Arc::new(Container::new(stores.to_vec(), options)?))
}
