//! The one table of layouts: a name and parameters become a layout over stores.

use std::sync::Arc;
use thalweg_layout::{Direct, Flat, Layout, SmallFile, small_file};
use thalweg_movement::method::{Parameter, Parameters};
use thalweg_store::Store;
use thalweg_types::{Error, ErrorKind, Result};

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
    /// Makes it, parameters checked; refuses stores that lack what it needs.
    pub make: fn(&[Arc<dyn Store>], &Parameters) -> Result<Arc<dyn Layout>>,
}

/// Every kind.
pub const LAYOUTS: &[LayoutKind] = &[
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
