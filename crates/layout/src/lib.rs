//! Layouts: how a logical file lies on stores.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`container`] | a logical file is a folder of logs, one for each writer |
//! | [`direct`] | a logical file is one object of one store |
//! | [`errno`] | the system's error numbers for our failures |
//! | [`flat`] | files are spread over stores by a hash of their name |
//! | [`links`] | symbolic links that a layout follows itself |
//! | [`locks`] | locks and counters that a file's server keeps |
//! | [`mount`] | path prefixes bound to layouts; lookup of the mount of a path |
//! | [`small_file`] | all small files that a process creates in a folder are in one log |
//! | `wire` | encoding of numbers in the records of layouts |
//! | [`write_behind`] | writes are held in memory and reach another layout later, in order |
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
pub mod locks;
pub mod mount;
pub mod small_file;
mod wire;
pub mod write_behind;

pub use container::Container;
pub use direct::Direct;
pub use flat::Flat;
pub use mount::{Mount, Mounts};
pub use small_file::SmallFile;
pub use thalweg_store::{
    Attributes, Change, Kind, Lease, Life, OpenWrite, ReadObject, SetXattr, Space, Stat, WriteObject,
};

/// A writer of a logical file: a number unique among the writers that have the file open. Layouts with a log per writer need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriterId(pub u32);

/// What processes on other nodes can do with a file while a burst buffer with a fast store on each node still keeps bytes of it on
/// one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherNodes {
    /// Read and write it: no burst buffer, or none whose fast stores differ.
    ReadAndWrite,
    /// Write it. Bytes of another node can be read once they are drained.
    Write,
    /// Nothing: to open it is an error until it is drained.
    Nothing,
}

impl OtherNodes {
    /// Of a layout whose file, or folder of files, is one object of `store`.
    fn of_objects(store: &dyn thalweg_store::Store) -> OtherNodes {
        if store.capability().moves { OtherNodes::Nothing } else { OtherNodes::ReadAndWrite }
    }
}

/// Logical files below a mount point. Paths are relative to it, parts separated by `/`.
///
/// `direct` passes every call on to its store; other layouts make one logical file out of many objects.
///
/// Calls apply to a symbolic link itself, except opens, `stat`, `list` and `truncate`, which follow it.
///
/// # Errors
/// Of every call that returns a `Result`, unless its own section differs:
///
/// - `NotFound`: the path, or a directory in it, does not exist; a part of the path that must be a directory is a file.
/// - `InvalidArgument`: the path is absolute, has a part `..` or holds a zero byte; a name is too long; a file is given where a
///   directory is needed or the reverse; a circle of symbolic links.
/// - `PermissionDenied`: the user may not do this on the store.
/// - `Unsupported`: the layout or its store cannot do this; the error names the layout. Nothing was changed.
/// - `Io`, `Timeout`, `NoSpace`, `NoMemory`: the store failed. `Corrupt`, `Torn`: the layout's own records cannot be read.
///
/// A failed call does not change what was closed before. [`errno`] gives the number that a program sees.
///
/// # Cost
/// On `direct` each call is the store's call. Costs named below are those of the other layouts.
pub trait Layout: Send + Sync {
    /// For messages: `direct over posix:/scratch/run7`.
    fn describe(&self) -> String;
    /// Opens a logical file for writing.
    ///
    /// - `how`: whether the file may or must exist, and whether it is emptied.
    /// - `writer`: this writer's number.
    ///
    /// # Errors
    /// `NotFound` for [`OpenWrite::Existing`] if the file does not exist; `AlreadyExists` for [`OpenWrite::New`] if the name is
    /// taken, also by a symbolic link. After any error the file may exist, empty, if `how` creates it.
    /// # Cost
    /// `container`: up to ten store calls to create a file, and one listing per open; logs are created by the first write.
    /// `small_file`: no store call once its folder is open, except [`OpenWrite::New`], which writes one record.
    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>>;
    /// Opens a logical file for reading.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` for a directory; `Corrupt` or `Torn` if the layout's records of the file cannot be read.
    /// # Cost
    /// `container`: reads the file's index logs, or what changed in them since this process read them.
    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>>;
    /// Cost of one more request for bytes below `path`, in bytes that could be read in the same time
    /// ([`thalweg_store::Store::request_cost`]): the largest of the stores below. 0 if requests are system calls.
    fn request_cost(&self, path: &str) -> u64 {
        let _ = path;
        0
    }
    /// The URL of the object whose bytes are those of the file, at the same offsets ([`thalweg_store::Store::url`]); `None` if the
    /// layout arranges them in another way, or if only this library can find the object.
    fn url(&self, path: &str) -> Option<String> {
        let _ = path;
        None
    }
    /// Kind, length and identity of a logical file or directory; a symbolic link is followed.
    ///
    /// The length covers every byte written through a handle that was closed before this call, if nothing truncated the file
    /// since; other handles that are still open do not matter. Bytes that open handles wrote may be counted. Two limits: bytes of
    /// another process are covered once the store shows them; and while this process has a file open that the layout keeps
    /// whole ([`Layout::keeps_whole`]), only bytes that this process closed are.
    ///
    /// # Errors
    /// `NotFound`; errors of the store.
    /// # Cost
    /// `container`: one store call for a directory; for a file also its stamp and what changed in its index logs.
    fn stat(&self, path: &str) -> Result<Stat>;
    /// Names directly inside a directory, sorted.
    ///
    /// # Errors
    /// `NotFound`, also for a file.
    /// # Cost
    /// `flat`: one listing per store.
    fn list(&self, folder: &str) -> Result<Vec<String>>;
    /// Renames a logical file, replacing a file at `to`; or a directory with its contents, replacing an empty directory.
    ///
    /// # Errors
    /// `InvalidArgument`: `to` is a directory that is not empty, or lies inside `from`; a file would replace a directory or the
    /// reverse. `Unsupported` if the store cannot rename (a directory); programs then copy (`EXDEV`).
    /// After an error the file is under its old name, or complete under both.
    /// # Cost
    /// `flat`, `small_file`: a file that moves to another store or folder is copied.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Performs the slow part of a rename that follows with the same names. A door calls this without the locks that keep names
    /// from changing; [`Layout::rename`] repeats outdated parts. No name changes.
    ///
    /// # Errors
    /// Errors of the copy. The rename may be tried all the same.
    fn prepare_rename(&self, from: &str, to: &str) -> Result<()> {
        let _ = (from, to);
        Ok(())
    }
    /// Removes a logical file, a symbolic link or an empty directory. Open handles of a file stay usable.
    ///
    /// # Errors
    /// `InvalidArgument` for a directory that is not empty. After other errors the name is gone or unchanged.
    fn remove(&self, path: &str) -> Result<()>;
    /// Creates a directory and those above it; existing ones are no error.
    ///
    /// # Errors
    /// `AlreadyExists` or `NotFound` if a file has one of the names. Directories above may have been created.
    fn make_folder(&self, path: &str) -> Result<()>;
    /// Like [`Layout::make_folder`]. Returns whether this call created the directory, so that nothing older lies in it; `false`
    /// if that is not known.
    ///
    /// # Errors
    /// Errors of [`Layout::make_folder`].
    fn make_new_folder(&self, path: &str) -> Result<bool> {
        self.make_folder(path).map(|()| false)
    }
    /// Makes the names inside a directory durable: creations, renames, removals.
    ///
    /// # Errors
    /// After an error a power cut may undo some of them.
    fn sync_folder(&self, folder: &str) -> Result<()>;
    /// Creates one directory.
    ///
    /// - `mode`: permission bits, where the layout keeps them.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken; `NotFound` if the directory above does not exist.
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
    /// Kind, length, mode, owner, times and number of hard links of a file, directory or symbolic link.
    ///
    /// # Errors
    /// `NotFound`; `Unsupported` if the layout keeps no attributes.
    /// # Cost
    /// That of [`Layout::stat`].
    fn attributes(&self, path: &str) -> Result<Attributes> {
        Err(lacks(&self.describe(), "keeps no attributes", path))
    }
    /// Changes mode, owner or times.
    ///
    /// # Errors
    /// `PermissionDenied` if this user may not; `Unsupported` if the layout keeps no attributes. Fields that were applied before
    /// the failure stay changed.
    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        let _ = change;
        Err(lacks(&self.describe(), "keeps no attributes", path))
    }
    /// Truncates a file, or extends it with zeros. No handle needs to be open.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` for a directory. The file has its old length or the new one.
    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        let _ = length;
        Err(lacks(&self.describe(), "cannot truncate files", path))
    }
    /// Creates a symbolic link with the contents `target`, which need not exist.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken; `Unsupported` if the layout keeps no links.
    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        let _ = target;
        Err(lacks(&self.describe(), "keeps no symbolic links", path))
    }
    /// Contents of a symbolic link.
    ///
    /// # Errors
    /// `InvalidArgument` if the name is no link.
    fn read_link(&self, path: &str) -> Result<String> {
        Err(lacks(&self.describe(), "keeps no symbolic links", path))
    }
    /// Creates a hard link: `to` becomes another name of the file `from`.
    ///
    /// # Errors
    /// `AlreadyExists` if `to` is taken; `Unsupported` if the layout has no hard links, or (`EXDEV`) not between these names.
    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        let _ = to;
        Err(lacks(&self.describe(), "has no hard links", from))
    }
    /// Value of an extended attribute (`user.comment`); `None` if the file has none of this name.
    ///
    /// # Errors
    /// `NotFound` for the path; `Unsupported` if the layout keeps no extended attributes.
    fn xattr_get(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        let _ = key;
        Err(lacks(&self.describe(), "keeps no extended attributes", path))
    }
    /// Sets an extended attribute.
    ///
    /// # Errors
    /// Depending on `how`: `AlreadyExists` or `NotFound` for the attribute. `Unsupported` for names reserved by the system
    /// (`system.`), if the layout keeps extended attributes itself; `InvalidArgument` or `NoSpace` for a value that is too large.
    fn xattr_set(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        let _ = (key, value, how);
        Err(lacks(&self.describe(), "keeps no extended attributes", path))
    }
    /// Names of the extended attributes, sorted.
    ///
    /// # Errors
    /// `NotFound` for the path; `Unsupported` if the layout keeps no extended attributes.
    fn xattr_list(&self, path: &str) -> Result<Vec<String>> {
        Err(lacks(&self.describe(), "keeps no extended attributes", path))
    }
    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name.
    fn xattr_remove(&self, path: &str, key: &str) -> Result<()> {
        let _ = key;
        Err(lacks(&self.describe(), "keeps no extended attributes", path))
    }
    /// Size and free space of the filesystem or service that holds `path`; of several stores, their sum.
    ///
    /// # Errors
    /// `Unsupported` if the store does not provide it.
    fn space(&self, path: &str) -> Result<Space> {
        Err(lacks(&self.describe(), "does not report free space", path))
    }
    /// The file of this machine that holds exactly the logical file's bytes, if there is one: a door may open it directly.
    fn plain_file(&self, path: &str) -> Option<PathBuf> {
        let _ = path;
        None
    }
    /// Whether one long write costs much less than short ones of as many bytes in all: processes that write a file together may
    /// exchange bytes first, so that each writes a run.
    fn prefers_runs(&self, path: &str) -> bool {
        self.plain_file(path).is_some()
    }
    /// Whether an open file shows what other processes wrote only after all its handles in this process were closed and
    /// opened again.
    fn keeps_whole(&self, path: &str) -> bool {
        let _ = path;
        false
    }
    /// What processes on other nodes can do with a file while a burst buffer still keeps bytes of it on this node.
    fn other_nodes(&self, path: &str) -> OtherNodes {
        let _ = path;
        OtherNodes::ReadAndWrite
    }
    /// The folder of this machine that holds the files which programs lock in place of the logical file at `path`; it need not
    /// exist. `None` if the stores of this machine cannot hold such files.
    fn lock_folder(&self, path: &str) -> Option<PathBuf> {
        let _ = path;
        None
    }
    /// A new description of the file for locks that its server keeps, for layouts whose servers do: for processes of all hosts that
    /// open the file.
    ///
    /// # Errors
    /// Those of [`Layout::open_read`].
    /// # Cost
    /// `partition`: two requests.
    fn locks(&self, path: &str) -> Result<Option<Box<dyn locks::FileLocks>>> {
        let _ = path;
        Ok(None)
    }
    /// Closes what this process keeps open between calls, such as the logs of small files, and frees the room reserved in
    /// them. Call before the process ends; the layout may be used again.
    ///
    /// # Errors
    /// Errors of the store. Everything that was closed before is safe.
    fn finish(&self) -> Result<()> {
        Ok(())
    }
    /// Nobody is about to write a file that was just closed: a layout far away stores what an open needs first where one request finds
    /// it.
    ///
    /// # Errors
    /// Errors of the store. The file is as it was, and readers open it with more requests.
    /// # Cost
    /// `container` far away: about ten requests; nothing elsewhere.
    fn write_synopsis(&self, path: &str) -> Result<()> {
        let _ = path;
        Ok(())
    }
    /// The layout itself, for tools for one kind of layout.
    fn concrete(&self) -> Option<&dyn std::any::Any> {
        None
    }
    /// How many storage targets the bytes of files in a directory are spread over; `None` if that is not known.
    ///
    /// # Errors
    /// Errors of the store.
    fn targets(&self, folder: &str) -> Result<Option<u32>> {
        let _ = folder;
        Ok(None)
    }
    /// Creates an empty file, replacing an existing one, whose bytes will all lie on one storage target (from 0).
    /// `false`, and nothing done, if the layout knows of no targets.
    ///
    /// - `stripe`: stripe size in bytes for the filesystem, which rounds it up.
    ///
    /// # Errors
    /// Errors of the store. The file may exist, empty.
    fn make_on_target(&self, name: &str, target: u32, stripe: u64) -> Result<bool> {
        let _ = (name, target, stripe);
        Ok(false)
    }
    /// Creates an empty file whose bytes will be spread as asked for, as far as the layout can. `false`, and nothing done, if it spreads
    /// all files alike.
    ///
    /// # Errors
    /// `AlreadyExists`; errors of the store.
    fn make_striped(&self, path: &str, asked: Stripes) -> Result<bool> {
        let _ = (path, asked);
        Ok(false)
    }
    /// How the bytes of a file are spread; `None` if that is not known.
    ///
    /// # Errors
    /// `NotFound`; errors of the store.
    fn stripes(&self, path: &str) -> Result<Option<Stripes>> {
        let _ = path;
        Ok(None)
    }
}

/// How the bytes of a file are spread over storage targets, one stripe after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stripes {
    /// Number of targets. Asked for: 0 for as many as the layout takes for other files.
    pub targets: u32,
    /// Bytes of a stripe. Asked for: 0 for those of other files.
    pub bytes: u64,
}

/// Writes one slice: [`WriteObject::write_at`] for most callers.
///
/// # Errors
/// Errors of [`WriteObject::write_at`].
pub fn write_all_at(object: &dyn WriteObject, offset: u64, bytes: &[u8]) -> Result<()> {
    object.write_at(offset, &[IoSlice::new(bytes)])
}

/// Refuses extended attributes with a meaning of the system's (`system.`, access control lists): a layout that keeps extended
/// attributes itself does not enforce them. Programs that copy files then set the mode instead.
fn takes_xattr(key: &str, path: &str) -> Result<()> {
    match key.starts_with("system.") {
        true => Err(errno::failure(Errno::OPNOTSUPP, "set an extended attribute of the system", path)),
        false => Ok(()),
    }
}

fn lacks(layout: &str, what: &str, path: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("layout {layout} {what}")).in_object(path)
}
