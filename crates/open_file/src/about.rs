//! Attributes of a name in a layout, also for layouts that keep none; symbolic links followed or not.

use std::time::UNIX_EPOCH;
use thalweg_layout::links::{self, Step};
use thalweg_layout::{Attributes, Kind, Layout};
use thalweg_types::{ErrorKind, Result};

/// Attributes of a name; of a symbolic link itself.
///
/// If the layout keeps none: its kind and length; mode `0644` or `0755`, the user of this process, times of 1970.
///
/// # Errors
/// Errors of the layout, `NotFound` first of all.
/// # Cost
/// One request.
pub fn attributes(layout: &dyn Layout, name: &str) -> Result<Attributes> {
    match layout.attributes(name) {
        Err(e) if e.kind() == ErrorKind::Unsupported => {}
        outcome => return outcome,
    }
    let about = layout.stat(name)?;
    let (kind, mode) = if about.is_folder { (Kind::Folder, 0o755) } else { (Kind::File, 0o644) };
    Ok(bare(kind, about.length, mode, about.identity))
}

/// Attributes of the file or directory to which a name leads, and the name that has them.
///
/// # Errors
/// `ELOOP` for a circle of links; `ENOENT` for a link that leads out of the layout, which a door may follow itself; errors of
/// the layout.
/// # Cost
/// One request without links. Two for each link, and up to two for each part of a target that contains `..`.
pub fn followed(layout: &dyn Layout, name: &str) -> Result<(String, Attributes)> {
    let step = |name: &str| {
        let about = attributes(layout, name)?;
        Ok(match about.kind {
            Kind::Link => Step::Link { at: name.to_string(), target: layout.read_link(name)? },
            _ => Step::Here((name.to_string(), about)),
        })
    };
    links::follow(name, step, |name| links::target_of(attributes(layout, name), || layout.read_link(name)))
}

/// Attributes of a file without a name, or on a layout that keeps none.
pub(crate) fn bare(kind: Kind, length: u64, mode: u32, identity: u64) -> Attributes {
    Attributes {
        kind,
        length,
        mode,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        links: 1,
        identity,
    }
}
