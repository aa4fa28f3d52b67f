//! Moves the files of one partition into another one, which has other static settings: another stripe, other servers.
//!
//! | question | answer |
//! |----------|--------|
//! | what moves | folders, files, symbolic and hard links, with modes, owners, times and extended attributes |
//! | meanwhile | nobody may change files of the old partition: a file that changes while it is copied is an error |
//! | afterwards | the old partition is as before; it is removed by a command of its own |
//! | a move that fails | is started again on a new partition that is empty, or has what an earlier move copied: files that are there are copied again |

use std::collections::HashMap;
use std::io::IoSlice;
use thalweg_layout::{Attributes, Change, Kind, Layout, OpenWrite, SetXattr, WriterId};
use thalweg_types::checksum::Crc32c;
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes that are copied at once.
const PIECE: usize = 4 << 20;

/// What was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// Files.
    pub files: u64,
    /// Folders, without the root.
    pub folders: u64,
    /// Bytes of files.
    pub bytes: u64,
}

/// Copies everything of one layout to another.
///
/// # Errors
/// Of the first name that cannot be copied, naming it; `NotReady` for a file that changed meanwhile; `Corrupt` for a copy that reads
/// differently.
pub fn copy_all(from: &dyn Layout, to: &dyn Layout) -> Result<Moved> {
    let mut moved = Moved::default();
    // Files with several names, by identity: the first one.
    let mut linked: HashMap<u64, String> = HashMap::new();
    let mut folders = vec![String::new()];
    let mut times = Vec::new();
    while let Some(folder) = folders.pop() {
        for last in from.list(&folder)? {
            let path = if folder.is_empty() { last } else { format!("{folder}/{last}") };
            let named = |e: Error| if e.place().object.is_some() { e } else { e.in_object(path.as_str()) };
            let about = from.attributes(&path).map_err(named)?;
            match about.kind {
                Kind::Folder => {
                    to.make_folder(&path).map_err(named)?;
                    moved.folders += 1;
                    times.push((path.clone(), about));
                    folders.push(path);
                }
                Kind::Link => to.make_link(&from.read_link(&path)?, &path).or_else(there).map_err(named)?,
                Kind::File => {
                    if about.links > 1 {
                        if let Some(first) = linked.get(&about.identity) {
                            to.make_hard_link(first, &path).or_else(there).map_err(named)?;
                            continue;
                        }
                        linked.insert(about.identity, path.clone());
                    }
                    moved.bytes += copy(from, to, &path).map_err(named)?;
                    moved.files += 1;
                    dress(from, to, &path, &about).map_err(named)?;
                }
            }
        }
    }
    // The deepest first: what is made in a folder changes its time.
    for (path, about) in times.iter().rev() {
        dress(from, to, path, about)?;
    }
    Ok(moved)
}

/// What an earlier move has made is no error.
fn there(e: Error) -> Result<()> {
    if e.kind() == ErrorKind::AlreadyExists { Ok(()) } else { Err(e) }
}

fn copy(from: &dyn Layout, to: &dyn Layout, path: &str) -> Result<u64> {
    let (source, target) = (from.open_read(path)?, to.open_write(path, OpenWrite::Replace, WriterId(0))?);
    let length = source.length()?;
    let (mut piece, mut sum, mut at) = (vec![0; PIECE], Crc32c::new(), 0);
    while at < length {
        let now = (length - at).min(PIECE as u64) as usize;
        let got = source.read_at(at, &mut piece[..now])?;
        if got == 0 {
            break;
        }
        target.write_at(at, &[IoSlice::new(&piece[..got])])?;
        sum.update(&piece[..got]);
        at += got as u64;
    }
    if at != length || source.length()? != length {
        return Err(Error::new(ErrorKind::NotReady, "the file changed while it was copied").in_object(path));
    }
    // A file that ends in a hole is as long.
    target.truncate(length)?;
    target.sync()?;
    target.close()?;
    let (copy, mut read, mut at) = (to.open_read(path)?, Crc32c::new(), 0);
    loop {
        match copy.read_at(at, &mut piece)? {
            0 => break,
            got => {
                read.update(&piece[..got]);
                at += got as u64;
            }
        }
    }
    match at == length && read.finish() == sum.finish() {
        true => Ok(length),
        false => Err(Error::new(ErrorKind::Corrupt, "the copy reads differently").in_object(path)),
    }
}

/// Gives a copy the original's mode, owner, times and extended attributes.
fn dress(from: &dyn Layout, to: &dyn Layout, path: &str, about: &Attributes) -> Result<()> {
    match from.xattr_list(path) {
        Ok(keys) => {
            for key in keys {
                if let Some(value) = from.xattr_get(path, &key)? {
                    to.xattr_set(path, &key, &value, SetXattr::Any)?;
                }
            }
        }
        Err(e) if e.kind() == ErrorKind::Unsupported => {}
        Err(e) => return Err(e),
    }
    let now = to.attributes(path)?;
    let changed = |old: u32, new: u32| (old != new).then_some(old);
    let change = Change {
        mode: Some(about.mode),
        uid: changed(about.uid, now.uid),
        gid: changed(about.gid, now.gid),
        atime: Some(about.atime),
        mtime: Some(about.mtime),
    };
    to.set_attributes(path, &change)
}
