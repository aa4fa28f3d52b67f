//! Partitions by name: a path like `thalweg:NAME/path` is a file of the partition NAME, without an entry of the mount table.
//!
//! | question | answer |
//! |----------|--------|
//! | which partitions | that of the configuration that [`VARIABLE`] names, else of [`USUAL`] in the working directory; and those of the mount table |
//! | when | at the first such path; a program that uses none reads no configuration |
//! | two of one name | the first in this order |

use crate::starting;
use crate::table::{Entry, is_there, started_in};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_layout::{Layout, Mount};
use thalweg_partition::Partition;
use thalweg_partition::configuration::{self, Configuration};
use thalweg_types::{Error, ErrorKind, Result};

/// The environment variable that names the configuration of a partition.
pub const VARIABLE: &str = "THALWEG_PARTITION";
/// The configuration that is used without it, in the working directory.
pub const USUAL: &str = "filesystem.cfg";

/// The configuration that this process names, else [`USUAL`], whether it exists or not.
pub fn usual() -> PathBuf {
    let named = std::env::var_os(VARIABLE).filter(|named| !named.is_empty());
    named.map_or_else(|| USUAL.into(), PathBuf::from)
}

/// The configuration that this process names, or that is in its working directory; `None` without one.
///
/// # Errors
/// `NotFound` if [`VARIABLE`] names a missing file; `Io` if the system cannot say whether there is one.
pub fn configuration() -> Result<Option<PathBuf>> {
    const WHAT: &str = "the configuration of a partition";
    let is_named = std::env::var_os(VARIABLE).is_some_and(|named| !named.is_empty());
    let folder = started_in().map_or_else(std::env::current_dir, |folder| Ok(folder.to_path_buf()));
    // Without a working directory a relative path names nothing.
    let path = folder.map_or_else(|_| usual(), |folder| folder.join(usual()));
    match is_there(&configuration::parts(&path).0, WHAT)? {
        true => Ok(Some(path)),
        false if is_named => {
            let what = format!("{VARIABLE} names a configuration that does not exist");
            Err(Error::new(ErrorKind::NotFound, what).in_object(path.display().to_string()))
        }
        false => Ok(None),
    }
}

/// The partitions that this process knows by name.
///
/// - `entries`: of the mount table.
///
/// # Errors
/// As [`configuration`], and those of each configuration: with one that cannot be read, a name may be that partition's, and its files
/// would be looked for, or made, in another place.
pub(crate) fn find(entries: &[Entry]) -> Result<Vec<Mount>> {
    let mount = |file: PathBuf, name: &str| {
        Mount::named(name, move || -> std::result::Result<Arc<dyn Layout>, String> {
            let opened = Partition::open(&file, starting::start_partition).map_err(|e| e.to_string())?;
            Ok(Arc::new(opened))
        })
    };
    let mut found = Vec::new();
    if let Some(file) = configuration()? {
        let name = Configuration::read(&file)?.fixed.name;
        found.push(mount(file, &name));
    }
    for file in entries.iter().filter_map(Entry::partition) {
        let name = Configuration::read(Path::new(file))?.fixed.name;
        found.push(mount(PathBuf::from(file), &name));
    }
    Ok(found)
}
