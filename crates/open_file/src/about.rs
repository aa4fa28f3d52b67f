//! Attributes of a name in a layout, also where the layout keeps none; symbolic links followed or not.

use rustix::io::Errno;
use std::time::UNIX_EPOCH;
use thalweg_layout::{Attributes, Kind, Layout, errno};
use thalweg_types::{ErrorKind, Result};

/// Links followed before one is taken for a circle, as on Linux.
const MOST_LINKS: usize = 40;

/// Attributes of a name; of a symbolic link itself.
///
/// A layout that keeps none tells kind and length; mode is `0644` or `0755`, the owner who asks, times are 1970.
pub fn attributes(layout: &dyn Layout, name: &str) -> Result<Attributes> {
    match layout.attributes(name) {
        Err(e) if e.kind() == ErrorKind::Unsupported => {}
        outcome => return outcome,
    }
    let about = layout.stat(name)?;
    let (kind, mode) = if about.is_folder { (Kind::Folder, 0o755) } else { (Kind::File, 0o644) };
    Ok(bare(kind, about.length, mode, about.identity))
}

/// Attributes of what a name leads to, and the name that has them.
///
/// # Errors
/// `ELOOP` for links in a circle; `ENOENT` for one that leads out of the layout, which a door may follow itself.
pub fn followed(layout: &dyn Layout, name: &str) -> Result<(String, Attributes)> {
    let mut name = name.to_string();
    for _ in 0..MOST_LINKS {
        let about = attributes(layout, &name)?;
        if about.kind != Kind::Link {
            return Ok((name, about));
        }
        let target = layout.read_link(&name)?;
        name = beside(&name, &target).ok_or_else(|| errno::failure(Errno::NOENT, "follow a link", &name))?;
    }
    Err(errno::failure(Errno::LOOP, "follow links", &name))
}

/// The name that a link at `name` leads to; `None` where it leads out of the layout.
pub fn beside(name: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// What can be told of a file without a name, or of one whose layout keeps nothing.
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

#[cfg(test)]
mod tests {
    use super::beside;

    #[test]
    fn links_are_read_beside_their_name_and_never_lead_out() {
        assert_eq!(beside("a/b", "c").as_deref(), Some("a/c"));
        assert_eq!(beside("a/b", "../c/./d").as_deref(), Some("c/d"));
        assert_eq!(beside("b", "..").as_deref(), None);
        assert_eq!(beside("a/b", "/c").as_deref(), None);
    }
}
