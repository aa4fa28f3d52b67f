//! Layouts: how a logical file lies on stores.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`container`] | a logical file is a folder of logs, one for each writer |
//! | [`direct`] | a logical file is one object of one store |
//! | [`errno`] | the system's error numbers for our failures |
//! | [`flat`] | files spread over stores by a hash of their name |
//! | [`links`] | symbolic links that a layout follows itself |
//! | [`mount`] | path prefixes bound to layouts; which one a path lies under |
//! | [`small_file`] | all small files that a process makes in a folder, in one log |
//! | `wire` | numbers in what layouts store |
#![forbid(unsafe_code)]

use rustix::io::Errno;
use std::io::IoSlice;
use std::path::PathBuf;
use thalweg_types::{Error, ErrorKind, Result};

pub mod container;
pub mod direct;
pub mod errno;
pub mod flat;
pub mod links;
pub mod mount;
pub mod small_file;
mod wire;

pub use container::Container;
pub use direct::Direct;
pub use flat::Flat;
pub use mount::{Mount, Mounts};
pub use small_file::SmallFile;
pub use thalweg_store::{
    Attributes, Change, Kind, Lease, Life, OpenWrite, ReadObject, SetXattr, Space, Stat, WriteObject,
};

/// Who writes, where a layout keeps writers apart: a number unique among the writers of one logical file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriterId(pub u32);

/// Logical files below a mount point. Paths are relative to it, parts separated by `/`.
///
/// `direct` passes every call on; other layouts make one logical file out of many objects.
///
/// What a layout cannot do is `Unsupported` and names the layout; [`errno`] says what a program gets to see. Calls that name
/// a symbolic link mean the link itself, but for opens, `stat`, `list` and `truncate`.
pub trait Layout: Send + Sync {
    /// For messages: `direct over posix:/scratch/run7`.
    fn describe(&self) -> String;
    /// Opens a logical file for writing.
    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>>;
    /// Opens a logical file for reading.
    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>>;
    /// What is known about a logical file or folder.
    fn stat(&self, path: &str) -> Result<Stat>;
    /// Names directly inside a folder, sorted.
    fn list(&self, folder: &str) -> Result<Vec<String>>;
    /// Moves a logical file, replacing one at `to`; a folder with all that is in it, replacing an empty folder.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Does ahead what takes long of a rename that follows with the same names: a door calls this without the locks that keep names
    /// from changing meanwhile. Nothing has another name afterwards; what the rename finds changed is done again.
    fn prepare_rename(&self, from: &str, to: &str) -> Result<()> {
        let _ = (from, to);
        Ok(())
    }
    /// Removes a logical file or an empty folder.
    fn remove(&self, path: &str) -> Result<()>;
    /// Makes a folder and those above it.
    fn make_folder(&self, path: &str) -> Result<()>;
    /// As [`Layout::make_folder`]. Returns whether this has made it, so that nothing older lies in it; `false` also where that
    /// is not known.
    fn make_new_folder(&self, path: &str) -> Result<bool> {
        self.make_folder(path).map(|()| false)
    }
    /// Makes the names inside a folder durable.
    fn sync_folder(&self, folder: &str) -> Result<()>;
    /// Makes one folder: `AlreadyExists` where the name is taken, `NotFound` where the folder above is not there.
    ///
    /// - `mode`: permission bits, where the layout keeps them.
    fn make_one_folder(&self, path: &str, mode: u32) -> Result<()> {
        let _ = mode;
        match self.stat(path) {
            Ok(_) => return Err(errno::failure(Errno::EXIST, "make folder", path)),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        let above = thalweg_store::name::folder_of(path);
        match above.is_empty() || self.stat(above)?.is_folder {
            true => self.make_folder(path),
            false => Err(errno::failure(Errno::NOTDIR, "make folder", path)),
        }
    }
    /// Kind, length, mode, owner, times and number of names of a file, folder or symbolic link.
    fn attributes(&self, path: &str) -> Result<Attributes> {
        Err(lacks(&self.describe(), "keeps no attributes", path))
    }
    /// Changes mode, owner or times.
    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        let _ = change;
        Err(lacks(&self.describe(), "keeps no attributes", path))
    }
    /// Cuts or extends (with zeros) a file that nobody needs to have open.
    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        let _ = length;
        Err(lacks(&self.describe(), "cannot cut files", path))
    }
    /// Makes a symbolic link that holds `target`, which need not be there.
    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        let _ = target;
        Err(lacks(&self.describe(), "keeps no symbolic links", path))
    }
    /// What a symbolic link holds; `InvalidArgument` for anything else.
    fn read_link(&self, path: &str) -> Result<String> {
        Err(lacks(&self.describe(), "keeps no symbolic links", path))
    }
    /// Gives a file a second name.
    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        let _ = to;
        Err(lacks(&self.describe(), "gives a file one name only", from))
    }
    /// The bytes of an extended attribute; `None` where there is none of this name (`user.comment`).
    fn xattr_get(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        let _ = key;
        Err(lacks(&self.describe(), "keeps no extended attributes", path))
    }
    /// Sets an extended attribute.
    fn xattr_set(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        let _ = (key, value, how);
        Err(lacks(&self.describe(), "keeps no extended attributes", path))
    }
    /// Names of the extended attributes, sorted.
    fn xattr_list(&self, path: &str) -> Result<Vec<String>> {
        Err(lacks(&self.describe(), "keeps no extended attributes", path))
    }
    /// Removes an extended attribute; `NotFound` where there is none of this name.
    fn xattr_remove(&self, path: &str, key: &str) -> Result<()> {
        let _ = key;
        Err(lacks(&self.describe(), "keeps no extended attributes", path))
    }
    /// Room where `path` lies.
    fn space(&self, path: &str) -> Result<Space> {
        Err(lacks(&self.describe(), "does not know the room left", path))
    }
    /// The file of this machine that holds exactly the logical file's bytes, where there is one: a door may hand it out.
    fn plain_file(&self, path: &str) -> Option<PathBuf> {
        let _ = path;
        None
    }
    /// Whether a file is kept as a whole: one that is open shows what others wrote once all its
    /// handles in this process were closed and opened again.
    fn keeps_whole(&self, path: &str) -> bool {
        let _ = path;
        false
    }
    /// The folder of this machine that holds the files which programs lock in place of the logical file at `path`; it need not
    /// be there. `None` where the stores of this machine cannot hold such files.
    fn lock_folder(&self, path: &str) -> Option<PathBuf> {
        let _ = path;
        None
    }
    /// Ends what this process keeps open between calls, such as the logs of small files: others get the room that they hold.
    /// The layout may be used again. For a process that ends.
    ///
    /// # Errors
    /// What the store says; everything that was closed is there all the same.
    fn finish(&self) -> Result<()> {
        Ok(())
    }
    /// The layout itself, for tools that look after one kind.
    fn concrete(&self) -> Option<&dyn std::any::Any> {
        None
    }
    /// How many storage targets the bytes of files in a folder are spread over; `None` where that is not known.
    fn targets(&self, folder: &str) -> Result<Option<u32>> {
        let _ = folder;
        Ok(None)
    }
    /// Makes an empty file, in place of one that is there, whose bytes will all lie on one storage target (from 0).
    /// `false`, and nothing done, where the layout knows of no targets.
    ///
    /// - `stripe`: bytes of a stripe, as the filesystem wants to know it; rounded up to what it takes.
    fn make_on_target(&self, name: &str, target: u32, stripe: u64) -> Result<bool> {
        let _ = (name, target, stripe);
        Ok(false)
    }
}

/// Writes one slice: what most callers of [`WriteObject::write_at`] want.
pub fn write_all_at(object: &dyn WriteObject, offset: u64, bytes: &[u8]) -> Result<()> {
    object.write_at(offset, &[IoSlice::new(bytes)])
}

/// Refuses extended attributes that the system gives a meaning (`system.`, access control lists): a layout that keeps them
/// itself does not protect by them. Programs that copy files then set the mode instead.
fn takes_xattr(key: &str, path: &str) -> Result<()> {
    match key.starts_with("system.") {
        true => Err(errno::failure(Errno::OPNOTSUPP, "set an extended attribute of the system", path)),
        false => Ok(()),
    }
}

fn lacks(layout: &str, what: &str, path: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("layout {layout} {what}")).in_object(path)
}
