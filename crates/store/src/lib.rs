//! Stores: where bytes rest.
//!
//! A store keeps named objects. It knows neither BP nor ranks. The trait requires few functions, and each store states its other
//! abilities as data ([`Capability`]), so that a layout that needs more is refused when it is configured.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`attributes`] | modes, owners, times, links, for stores that keep them |
//! | [`capability`] | abilities of a store, as data |
//! | [`mod@fresh`] | random numbers, distinct in all processes, after a `fork` too |
//! | [`life`] | leases: whether a process still extends an object |
//! | [`posix`] | files below a folder of a POSIX filesystem |
//! | [`lustre`] | storage targets of a Lustre filesystem: how many, and files on a chosen one |
//! | [`memory`] | objects in memory |
//! | [`wrap`] | wrappers: stores that count, delay, fail, retry, limit; the forgetful store; the burst buffer |
//! | [`viewed`] | bytes of a view, as calls on its extents |
//! | [`name`] | names of objects and folders, and their parts |
//! | [`pieces`] | the buffers of one vectored write |
#![deny(unsafe_code)]

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::View;

pub mod attributes;
pub mod capability;
pub mod fresh;
pub mod life;
#[cfg(target_os = "linux")]
pub mod lustre;
pub mod memory;
pub mod name;
pub mod pid;
pub mod pieces;
pub mod posix;
pub mod viewed;
pub mod wrap;

pub use attributes::{Attributes, Change, Kind, SetXattr, Space};
pub use capability::{Capability, Durability, ListConsistency, Rename, Visible};
pub use fresh::fresh;
pub use life::{Lease, Life};
pub use memory::Memory;
pub use pid::pid;
pub use posix::Posix;

/// Facts about an object or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Bytes; 0 for folders.
    pub length: u64,
    /// A folder rather than an object.
    pub is_folder: bool,
    /// Changes whenever the object is replaced by another one of the same name and other bytes (inode number, version, ...); an object
    /// that is only truncated keeps it where the store writes at any offset. Comparable within one process only.
    pub identity: u64,
}

/// How to open an object for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenWrite {
    /// Make the object, or truncate the existing one.
    Replace,
    /// Make the object; `AlreadyExists` if the name is taken.
    New,
    /// Open the existing object, its bytes kept; `NotFound` if there is none. `Unsupported` where the store lacks
    /// [`Capability::append`].
    Existing,
    /// Open the existing object, its bytes kept (as `Existing`), or make it.
    Any,
}

/// Named objects and folders. Names are relative, parts separated by `/`; the empty name is the store's own folder.
///
/// # Errors
/// All functions: errors name the object and keep the cause.
///
/// | kind | when |
/// |------|------|
/// | `NotFound` | no object or folder of this name, or a part of the name that should be a folder is an object |
/// | `InvalidArgument` | an object is expected and the name is a folder's; a name that would leave the store's folder |
/// | `PermissionDenied` | the system or the service refuses this user |
/// | `NoSpace` | the store or a quota is full |
/// | `Timeout`, `PeerLost` | a service does not answer in time, or closes the connection |
/// | `Unsupported` | [`Store::capability`] does not promise the operation; nothing was done |
/// | `Io` | everything else |
///
/// A function that fails may have done its work if the answer was lost (network filesystems, services); other objects are unaffected.
///
/// # Cost
/// One request to the store, unless a function says otherwise.
pub trait Store: Send + Sync {
    /// For messages: `posix:/scratch/run7`, `memory:`.
    fn describe(&self) -> String;
    /// The URL by which programs without this library find an object, not percent-encoded: `file:///scratch/run7/x.bp`; `None` if
    /// they cannot.
    fn url(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
    /// The store's abilities.
    fn capability(&self) -> Capability;
    /// Opens an object for writing. The folders above must exist.
    ///
    /// # Errors
    /// Errors of the trait; `NotFound` without the folder above, or with `Existing` without the object; `AlreadyExists` with `New`. The
    /// object is unchanged then, unless `Replace` has truncated it.
    fn open_write(&self, name: &str, how: OpenWrite) -> Result<Box<dyn WriteObject>>;
    /// Like [`Store::open_write`]. An object that this call makes has at most these permission bits from its first moment on, where
    /// the store keeps modes ([`Capability::modes`]); an existing one keeps its mode. Other stores ignore `mode`.
    ///
    /// - `mode`: permission bits; the process' umask is subtracted.
    ///
    /// # Errors
    /// As [`Store::open_write`].
    fn open_write_as(&self, name: &str, how: OpenWrite, mode: u32) -> Result<Box<dyn WriteObject>> {
        let _ = mode;
        self.open_write(name, how)
    }
    /// Makes a small object that processes of all nodes look for (a stamp, a mark). Like [`Store::open_write_as`] with
    /// [`OpenWrite::New`], except that a burst buffer makes the object in the store that all nodes share. No other process may make
    /// an object of the same name with `open_write` at the same time.
    ///
    /// - `mode`: as for [`Store::open_write_as`].
    ///
    /// # Errors
    /// As [`Store::open_write`]; `AlreadyExists` if the name is taken, where the store makes names at close also from
    /// [`WriteObject::close`].
    fn make_for_all(&self, name: &str, mode: u32) -> Result<Box<dyn WriteObject>> {
        self.open_write_as(name, OpenWrite::New, mode)
    }
    /// Makes an object under a name that no other process uses, because it contains a random number, in a folder that exists. Like
    /// [`Store::open_write_as`] with [`OpenWrite::New`]; a store that would have to send requests to check the name or the folder
    /// checks neither.
    ///
    /// # Errors
    /// As [`Store::open_write`], from here or from [`WriteObject::close`].
    fn make_unused(&self, name: &str, mode: u32) -> Result<Box<dyn WriteObject>> {
        self.open_write_as(name, OpenWrite::New, mode)
    }
    /// Makes a closed object durable. Objects of stores without [`Capability::append`] are durable since their close.
    ///
    /// # Errors
    /// Errors of the trait. The object is readable; it may be lost in a power cut.
    /// # Cost
    /// An open and a sync, or no request.
    fn sync_closed(&self, name: &str) -> Result<()> {
        match self.capability().append {
            true => self.open_write(name, OpenWrite::Existing)?.sync(),
            false => Ok(()),
        }
    }
    /// Cost of one more request, in bytes that could be read in the same time: readers read through gaps that are shorter, join
    /// neighbouring reads, and keep several requests in flight. 0 for stores whose requests are system calls.
    fn request_cost(&self) -> u64 {
        0
    }
    /// Whether [`WriteObject::lease`] may work on objects of this store.
    fn has_leases(&self) -> bool {
        true
    }
    /// Whether open objects of this store may be reopened and locked: [`WriteObject::reopen`], [`WriteObject::lock`].
    fn reopens(&self) -> bool {
        false
    }
    /// Opens an object for reading.
    ///
    /// # Errors
    /// Errors of the trait.
    fn open_read(&self, name: &str) -> Result<Box<dyn ReadObject>>;
    /// Opens an object for a copy that no user asked for: where the store can, its time of access stays.
    ///
    /// # Errors
    /// As [`Store::open_read`].
    fn open_copied(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        self.open_read(name)
    }
    /// Opens an object that exists as far as the caller knows: a store far away may ask nothing before the first read or query, which then
    /// fails with `NotFound`.
    ///
    /// # Errors
    /// As [`Store::open_read`].
    fn open_known_to_exist(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        self.open_read(name)
    }
    /// Opens an object for reading and reads its first bytes: as many as it has, at most `most`.
    ///
    /// # Errors
    /// As [`Store::open_read`] and [`ReadObject::read_exact_at`].
    /// # Cost
    /// One request where the store can, else an open, a query of the length and a read.
    fn open_first(&self, name: &str, most: usize) -> Result<(Box<dyn ReadObject>, Vec<u8>)> {
        let object = self.open_read(name)?;
        let there = usize::try_from(object.length()?).unwrap_or(usize::MAX).min(most);
        let mut bytes = Vec::new();
        let no_memory = |_| Error::new(ErrorKind::NoMemory, format!("cannot hold {there} bytes")).in_object(name);
        bytes.try_reserve_exact(there).map_err(no_memory)?;
        bytes.resize(there, 0);
        object.read_exact_at(0, &mut bytes).map_err(|e| e.in_object(name))?;
        Ok((object, bytes))
    }
    /// The first bytes of an object that may be missing: as many as it has, at most `most`. `None` if there is no object; a folder is
    /// none.
    ///
    /// # Errors
    /// As [`Store::open_first`].
    /// # Cost
    /// That of [`Store::open_first`]; one request also for an object that is missing, where the store can.
    fn first_if_there(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>> {
        match self.open_first(name, most) {
            Ok((_, bytes)) => Ok(Some(bytes)),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => Ok(None),
            Err(e) => Err(e),
        }
    }
    /// Attributes of an object, folder or symbolic link itself, as [`Store::attributes`]; for an object also the object, opened for
    /// reading. Where the store can, both belong to the same object even if names change meanwhile.
    ///
    /// # Errors
    /// As [`Store::attributes`] and [`Store::open_read`].
    /// # Cost
    /// One operation on the name where the store can, else two.
    fn open_known(&self, name: &str) -> Result<(Attributes, Option<Box<dyn ReadObject>>)> {
        let about = self.attributes(name)?;
        let object = match about.kind {
            Kind::File => Some(self.open_read(name)?),
            Kind::Folder | Kind::Link => None,
        };
        Ok((about, object))
    }
    /// Length, kind and identity of an object or folder.
    ///
    /// # Errors
    /// Errors of the trait.
    fn stat(&self, name: &str) -> Result<Stat>;
    /// Names directly inside a folder, sorted.
    ///
    /// # Errors
    /// Errors of the trait; `NotFound` also for an object.
    /// # Cost
    /// One request, or one for each page of names of a service.
    fn list(&self, folder: &str) -> Result<Vec<String>>;
    /// Names of all objects that begin with `prefix`, in folders too, in any order; names of folders may be missing. `None` where the store
    /// cannot list them without asking for each folder.
    ///
    /// # Errors
    /// Errors of the trait; no object at all is no error.
    /// # Cost
    /// As [`Store::list`].
    fn list_beginning(&self, prefix: &str) -> Result<Option<Vec<String>>> {
        let _ = prefix;
        Ok(None)
    }
    /// Renames an object, replacing an existing one at `to`; [`Capability::rename`] describes its safety. A folder is renamed
    /// with its contents if [`Capability::rename_folder`] is set; `to` may then be an empty folder.
    ///
    /// # Errors
    /// Errors of the trait, `NotFound` also without the folder above `to`; `InvalidArgument` for a folder at `to` that is not empty,
    /// and for a folder moved into itself. At least one of the two names has the object.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Like [`Store::rename`] of an object, but only to a free name, in one operation.
    ///
    /// # Errors
    /// As [`Store::rename`]; `AlreadyExists` if `to` is taken, `Unsupported` where the store or its filesystem cannot.
    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        let _ = to;
        Err(unsupported(&self.describe(), "rename to a free name only", from))
    }
    /// Removes an object or an empty folder.
    ///
    /// # Errors
    /// Errors of the trait; `InvalidArgument` for a folder that is not empty.
    fn remove(&self, name: &str) -> Result<()>;
    /// Removes objects. A name without an object is no error.
    ///
    /// # Errors
    /// Errors of the trait, except `NotFound`. Some of the objects may be removed.
    /// # Cost
    /// One request for many objects where the store can, else one for each.
    fn remove_many(&self, names: &[String]) -> Result<()> {
        names.iter().try_for_each(|name| match self.remove(name) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        })
    }
    /// Makes a folder and those above it. An existing folder is no error.
    ///
    /// # Errors
    /// Errors of the trait; `AlreadyExists` if an object has the name. Folders above may be made.
    fn make_folder(&self, name: &str) -> Result<()>;
    /// Like [`Store::make_folder`]. Returns whether this call created the folder, so that it is empty; `false` also if the store
    /// cannot determine that.
    ///
    /// # Errors
    /// As [`Store::make_folder`].
    fn make_new_folder(&self, name: &str) -> Result<bool> {
        self.make_folder(name).map(|()| false)
    }
    /// Makes the names inside a folder durable (creations, renames, removals).
    ///
    /// # Errors
    /// Errors of the trait. Names are visible; changes of them may be lost in a power cut.
    fn sync_folder(&self, folder: &str) -> Result<()>;
    /// The number of storage targets that objects in a folder are spread over; `None` where the store does not know.
    ///
    /// # Errors
    /// Errors of the trait.
    fn targets(&self, folder: &str) -> Result<Option<u32>> {
        let _ = folder;
        Ok(None)
    }
    /// Makes an empty object, in place of an existing one, with all its bytes on one storage target (from 0).
    /// `false`, and nothing done, where the store knows of no targets.
    ///
    /// - `stripe`: bytes of a stripe, as the filesystem requires them; rounded up to a size that the filesystem accepts.
    ///
    /// # Errors
    /// Errors of the trait; the name may be free then.
    fn make_on_target(&self, name: &str, target: u32, stripe: u64) -> Result<bool> {
        let _ = (name, target, stripe);
        Ok(false)
    }
    /// Makes one folder.
    ///
    /// - `mode`: permission bits, where the store keeps modes; the process' umask is subtracted.
    ///
    /// # Errors
    /// Errors of the trait; `AlreadyExists` if the name is taken, `NotFound` without the folder above.
    /// # Cost
    /// One request where the store keeps attributes, else up to three; of two processes both may succeed then.
    fn make_one_folder(&self, name: &str, mode: u32) -> Result<()> {
        let _ = mode;
        match self.stat(name) {
            Ok(_) => return Err(Error::new(ErrorKind::AlreadyExists, "cannot make folder").in_object(name)),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        let above = name::folder_of(name);
        match above.is_empty() || self.stat(above)?.is_folder {
            true => self.make_folder(name),
            false => Err(Error::new(ErrorKind::NotFound, "cannot make folder: an object is above it").in_object(name)),
        }
    }
    /// The file of this machine that holds exactly the object's bytes, if there is one.
    fn plain_file(&self, name: &str) -> Option<std::path::PathBuf> {
        let _ = name;
        None
    }
    /// A path of this machine for this name, at which all machines that use the store find the same file: for files that are
    /// locked. `None` if there is no such path.
    fn lock_place(&self, name: &str) -> Option<std::path::PathBuf> {
        self.plain_file(name)
    }
    /// Ends the writing of an object whose writer is known to have died. Afterwards the bytes that the writer synced are there and
    /// never change again, and the name can be removed, renamed or replaced. Writes of a writer that is still alive fail.
    /// An object without a writer is left as it is.
    ///
    /// # Errors
    /// Errors of the trait; `Timeout` where the store needs longer than it may take. A repeated call goes on.
    fn settle(&self, name: &str) -> Result<()> {
        self.stat(name).map(|_| ())
    }
    /// Locks an object, made if missing, until the lease is dropped or the process ends, however it ends. Excludes locks of other
    /// threads and processes and nothing else; the name must not be removed. `None` if the object is locked and `wait` is not set.
    ///
    /// # Errors
    /// Errors of the trait; `Unsupported` where the store or its filesystem has no locks.
    fn lock(&self, name: &str, wait: bool) -> Result<Option<Lease>> {
        let _ = wait;
        Err(unsupported(&self.describe(), "lock an object", name))
    }
    /// Attributes of an object, folder or symbolic link itself.
    ///
    /// # Errors
    /// Errors of the trait. `Unsupported` unless [`Capability::attributes`] or [`Capability::modes`] is set. `NotReady` for an object
    /// that another node's fast store holds.
    fn attributes(&self, name: &str) -> Result<Attributes> {
        Err(unsupported(&self.describe(), "get attributes", name))
    }
    /// Changes attributes of an object, folder or symbolic link itself: owner, then mode, then times.
    ///
    /// # Errors
    /// As [`Store::attributes`]; `InvalidArgument` for an owner that the store does not know. Changes before the failed one are made.
    /// # Cost
    /// Up to one request for each of owner, mode and times.
    fn set_attributes(&self, name: &str, change: &Change) -> Result<()> {
        let _ = change;
        Err(unsupported(&self.describe(), "change attributes", name))
    }
    /// Makes a symbolic link; `target` is stored unchanged.
    ///
    /// # Errors
    /// Errors of the trait; `AlreadyExists` if the name is taken. `Unsupported` unless [`Capability::attributes`], as for all functions
    /// below.
    fn make_link(&self, target: &str, name: &str) -> Result<()> {
        let _ = target;
        Err(unsupported(&self.describe(), "make a symbolic link", name))
    }
    /// The target of a symbolic link.
    ///
    /// # Errors
    /// Errors of the trait; `InvalidArgument` for anything but a symbolic link, `Unsupported` for a target that is not UTF-8.
    fn read_link(&self, name: &str) -> Result<String> {
        Err(unsupported(&self.describe(), "read a symbolic link", name))
    }
    /// Makes a hard link to an object.
    ///
    /// # Errors
    /// Errors of the trait; `AlreadyExists` if `to` is taken.
    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        let _ = to;
        Err(unsupported(&self.describe(), "make a hard link", from))
    }
    /// An extended attribute; `None` if the key is missing.
    ///
    /// # Errors
    /// Errors of the trait; `Unsupported` also for a filesystem without extended attributes.
    fn xattr(&self, name: &str, key: &str) -> Result<Option<Vec<u8>>> {
        let _ = key;
        Err(unsupported(&self.describe(), "read an extended attribute", name))
    }
    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As [`Store::xattr`]; `AlreadyExists` and `NotFound` depending on [`SetXattr`].
    fn set_xattr(&self, name: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        let _ = (key, value, how);
        Err(unsupported(&self.describe(), "set an extended attribute", name))
    }
    /// Keys of all extended attributes, sorted.
    ///
    /// # Errors
    /// As [`Store::xattr`].
    fn list_xattrs(&self, name: &str) -> Result<Vec<String>> {
        Err(unsupported(&self.describe(), "list extended attributes", name))
    }
    /// Removes an extended attribute.
    ///
    /// # Errors
    /// As [`Store::xattr`]; `NotFound` if the key is missing.
    fn remove_xattr(&self, name: &str, key: &str) -> Result<()> {
        let _ = key;
        Err(unsupported(&self.describe(), "remove an extended attribute", name))
    }
    /// Size and free space of the filesystem that a folder lies on.
    ///
    /// # Errors
    /// Errors of the trait.
    fn space(&self, folder: &str) -> Result<Space> {
        Err(unsupported(&self.describe(), "get its free space", folder))
    }
}

/// The error of an operation that the store's [`Capability`] does not promise; `what` completes "cannot ...".
pub fn unsupported(store: &str, what: &str, name: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("store {store} cannot {what}")).in_object(name)
}

/// An object open for reading; any thread may call it.
///
/// # Errors
/// Kinds are those of [`Store`]; reads name the byte. `NotReady` where a service has replaced the object since it was opened.
pub trait ReadObject: Send + Sync {
    /// The current length in bytes.
    ///
    /// # Errors
    /// Errors of the trait.
    /// # Cost
    /// A system call, or no request where objects never change once closed.
    fn length(&self) -> Result<u64>;
    /// Reads at `offset` as many bytes as the object has, up to `out.len()`; returns how many.
    ///
    /// # Errors
    /// Errors of the trait; `out` may be filled in part then.
    /// # Cost
    /// One request, or one for each part that the system returns.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize>;
    /// Fills `out` from `offset`.
    ///
    /// # Errors
    /// As [`ReadObject::read_at`]; `Torn` naming the byte where the object ends.
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let got = self.read_at(offset, out)?;
        if got == out.len() {
            return Ok(());
        }
        let end = offset.saturating_add(got as u64);
        let wanted = out.len();
        Err(Error::new(ErrorKind::Torn, format!("cannot read {wanted} bytes from byte {offset}: the object ends"))
            .at_byte(end))
    }
    /// Reads consecutive bytes into several buffers, one after the other; returns how many bytes.
    ///
    /// # Errors
    /// As [`ReadObject::read_at`].
    /// # Cost
    /// One request where the store can read into several buffers, else one for each 4 MiB, and a copy.
    fn read_vectored_at(&self, offset: u64, pieces: &mut [IoSliceMut<'_>]) -> Result<usize> {
        pieces::read_joined(pieces, |done, out| self.read_at(offset.saturating_add(done), out))
    }
    /// Reads bytes `start..` of a view; returns how many there were before the end of the object.
    ///
    /// # Errors
    /// As [`ReadObject::read_at`]; `OutOfBounds` for bytes that the view does not have.
    /// # Cost
    /// One request for each group of neighbouring extents: see [`viewed`].
    fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        viewed::read(view, start, out, &mut |offset, out| self.read_at(offset, out))
    }
    /// Whether the bytes of a view are picked out where they lie, by a server, so that [`ReadObject::read_view`] moves no others. False
    /// also for an object that makes reads of a view.
    fn picks(&self) -> bool {
        false
    }
    /// The end of the last stored bytes before `offset`, or a later offset, `offset` at most: bytes between the returned offset and
    /// `offset` are a hole and read as zeros. Searches skip the hole. `offset` itself where the store does not know holes, and for an
    /// `offset` behind the end of the object.
    ///
    /// # Errors
    /// Errors of the trait: where the bytes are stored is not known.
    /// # Cost
    /// None where the store does not know holes. A system call if the byte before `offset` is stored; else up to 64.
    fn stored_before(&self, offset: u64) -> Result<u64> {
        Ok(offset)
    }
    /// How many bytes at the end of the object are in memory, so that reads of them ask no store; 0 also where that is not known.
    fn at_hand(&self) -> u64 {
        0
    }
    /// Whether a process still extends the object, if the store can determine that: see [`WriteObject::lease`].
    ///
    /// # Errors
    /// Errors of the trait.
    fn life(&self) -> Result<Life> {
        Ok(Life::default())
    }
    /// Opens the same object for writing, even if its name was changed or removed.
    ///
    /// # Errors
    /// Errors of the trait; `Unsupported` where the store cannot ([`Store::reopens`]).
    fn reopen(&self) -> Result<Box<dyn WriteObject>> {
        Err(Error::new(ErrorKind::Unsupported, "cannot open an open object anew"))
    }
    /// Attributes of the open object, even if its name was changed or removed.
    ///
    /// # Errors
    /// Errors of the trait; `Unsupported` where the store knows attributes by name only ([`Store::attributes`]).
    fn attributes(&self) -> Result<Attributes> {
        Err(Error::new(ErrorKind::Unsupported, "cannot get the attributes of an open object"))
    }
}

/// An object open for writing; any thread may call it.
///
/// # Errors
/// Kinds are those of [`Store`]; functions on bytes name the byte.
pub trait WriteObject: Send + Sync {
    /// Writes all pieces, one behind the other, from `offset`: one operation however many pieces.
    /// Bytes between the old end and `offset` read as zeros. Without bytes nothing is done and the length stays.
    ///
    /// # Errors
    /// Object and first byte not known to be written; bytes before it are written, later ones perhaps. `Unsupported`,
    /// nothing written, for any `offset` but the current end where the store lacks [`Capability::write_at`]. After any
    /// other failure such a store's object is lost, and `close` reports it. `OutOfBounds` beyond the largest offset.
    /// # Cost
    /// No copy where the store writes at any offset; else a copy into the part or packet that is sent.
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()>;
    /// Writes bytes at `start..` of a view, in the order of the view.
    ///
    /// - `view`: kept by a layout that passes it on to servers, once for all calls with the same one.
    ///
    /// # Errors
    /// As [`WriteObject::write_at`]: bytes of the view before the one that is named are written. `OutOfBounds` for bytes that the view
    /// does not have, and nothing is written then.
    /// # Cost
    /// One request for each extent, unless the layout's page says otherwise.
    fn write_view(&self, view: &Arc<View>, start: u64, bytes: &[u8]) -> Result<()> {
        viewed::write(view, start, bytes, &mut |offset, part| self.write_at(offset, &[IoSlice::new(part)]))
    }
    /// Reads bytes of a view back, as [`ReadObject::read_view`].
    ///
    /// # Errors
    /// As [`WriteObject::read_at`] and [`ReadObject::read_view`].
    /// # Cost
    /// As [`ReadObject::read_view`].
    fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        viewed::read(view, start, out, &mut |offset, out| self.read_at(offset, out))
    }
    /// Writes all pieces at the end; returns the new end. Two simultaneous calls on one object may get the same offset: callers
    /// with several threads serialise them, unless the layout's page declares that it does.
    ///
    /// # Errors
    /// As [`WriteObject::write_at`].
    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        let end = self.length()?;
        self.write_at(end, pieces)?;
        Ok(end + pieces::total(pieces))
    }
    /// Claims bytes for an append by a caller that writes them itself, because one server of several holds this object: where they begin.
    /// That is at `from`, or behind what others claimed.
    ///
    /// # Errors
    /// `Unsupported` for objects that are written by one process, or append themselves.
    fn claim(&self, from: u64, bytes: u64) -> Result<u64> {
        let _ = (from, bytes);
        Err(Error::new(ErrorKind::Unsupported, "no bytes can be claimed here"))
    }
    /// Allocates space for bytes that are about to be written: large writes become faster, and a full store is known
    /// before they begin. Length and content stay as they are. Does nothing where the store cannot.
    ///
    /// # Errors
    /// `NoSpace`; part of the space may be taken then, until the object is truncated or removed.
    fn reserve(&self, offset: u64, length: u64) -> Result<()> {
        let _ = (offset, length);
        Ok(())
    }
    /// The current length in bytes.
    ///
    /// # Errors
    /// Errors of the trait.
    fn length(&self) -> Result<u64>;
    /// Reads written bytes back, as [`ReadObject::read_at`].
    ///
    /// # Errors
    /// As [`ReadObject::read_at`]; `Unsupported` where the store lacks [`Capability::write_at`].
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize>;
    /// As [`ReadObject::stored_before`], of the bytes that [`WriteObject::read_at`] reads.
    ///
    /// # Errors
    /// As [`ReadObject::stored_before`].
    fn stored_before(&self, offset: u64) -> Result<u64> {
        Ok(offset)
    }
    /// Truncates or extends (with zeros) the object to `length` bytes.
    ///
    /// # Errors
    /// Errors of the trait; `Unsupported` where the store lacks [`Capability::truncate`], `OutOfBounds` beyond the largest length.
    fn truncate(&self, length: u64) -> Result<()>;
    /// Gives the space of a run of bytes back; they read as zeros afterwards, and the length stays. Does nothing where the store (see
    /// [`Capability::punch`]) or its filesystem cannot.
    ///
    /// # Errors
    /// Errors of the trait; each byte keeps its value or reads as zero.
    fn punch(&self, offset: u64, length: u64) -> Result<()>;
    /// Makes all bytes written so far durable, as far as [`Capability::durability`] promises.
    ///
    /// # Errors
    /// Errors of the trait. Any byte written since the last successful sync may be lost; a second sync that succeeds does not change
    /// that.
    fn sync(&self) -> Result<()>;
    /// Makes all bytes written so far visible to other processes, durable or not.
    ///
    /// # Errors
    /// As [`WriteObject::sync`].
    /// # Cost
    /// None where bytes are visible at once ([`Visible::AtWrite`]); else a sync.
    fn publish(&self) -> Result<()> {
        self.sync()
    }
    /// Ends writing. Afterwards readers see the whole object; without [`Capability::append`] it never changes again. The result
    /// of dropping an object without a close is on the store's page: no object, if names appear at close.
    ///
    /// # Errors
    /// Errors of the trait, also errors of earlier writes that the system reports late; `AlreadyExists` for a name opened with `New`
    /// that another writer has made. The handle is gone; bytes of the last successful sync are safe.
    /// # Cost
    /// A system call; on services the last part, and a request that completes the object.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
    /// Attributes of the open object, even if its name was changed or removed.
    ///
    /// # Errors
    /// Errors of the trait; `Unsupported` where the store knows attributes by name only ([`Store::attributes`]).
    fn attributes(&self) -> Result<Attributes> {
        Err(Error::new(ErrorKind::Unsupported, "cannot get the attributes of an open object"))
    }
    /// Changes attributes of the open object.
    ///
    /// # Errors
    /// As [`Store::set_attributes`]; `Unsupported`, nothing changed, where the store knows attributes by name only.
    fn set_attributes(&self, change: &Change) -> Result<()> {
        let _ = change;
        Err(Error::new(ErrorKind::Unsupported, "cannot change attributes of an open object"))
    }
    /// The caller is about to write: a layout whose writers register first does that here, so that what the caller asks before its
    /// first write (length, bytes) and the registration share one refresh. Does nothing elsewhere.
    ///
    /// # Errors
    /// As [`WriteObject::write_at`]; nothing was written.
    fn will_write(&self) -> Result<()> {
        Ok(())
    }
    /// Highest number in the order of writes that this handle knows of; 0 where a write replaces every earlier one, whoever made it.
    ///
    /// A layout that keeps each writer's bytes apart orders overlapping writes by such numbers: writers that have not seen each other
    /// may use the same ones. Writers that know from elsewhere which of them comes later say so with [`WriteObject::order_from`].
    fn order(&self) -> u64 {
        0
    }
    /// Writes that follow come after all writes with lower numbers, published or not.
    ///
    /// # Cost
    /// None.
    fn order_from(&self, number: u64) {
        let _ = number;
    }
    /// The open file of this machine that holds exactly the object's bytes, if there is one: a door may pass its descriptor on.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }
    /// Whether the object's bytes are a file of this machine ([`WriteObject::file`]): a large write may then be split, because a call
    /// costs little beside its bytes, and in any order.
    fn is_file(&self) -> bool {
        self.file().is_some()
    }
    /// Takes a lease: [`ReadObject::life`] shows others that this process still extends the object, until the lease is dropped or
    /// the process ends in any way. An object may have any number of leases, which do not exclude each other. `None` if the store
    /// has no leases.
    ///
    /// # Errors
    /// Errors of the store: others would take this process for dead, so nothing should be written without the lease.
    fn lease(&self) -> Result<Option<Lease>> {
        Ok(None)
    }
    /// As [`ReadObject::life`]. Leases of this handle are not counted: call it on a handle that was opened again.
    ///
    /// # Errors
    /// Errors of the trait.
    fn life(&self) -> Result<Life> {
        Ok(Life::default())
    }
    /// As [`ReadObject::reopen`]. The new handle has no leases and locks, and is not shared with other processes after a `fork`.
    ///
    /// # Errors
    /// As [`ReadObject::reopen`].
    fn reopen(&self) -> Result<Box<dyn WriteObject>> {
        Err(Error::new(ErrorKind::Unsupported, "cannot open an open object anew"))
    }
    /// As [`Store::lock`], for the open object, even if its name was changed or removed. Excludes locks of other handles, in this
    /// process too, and those by name; a second lock of the same handle has no effect.
    ///
    /// # Errors
    /// Errors of the trait; `Unsupported` where the store has no locks.
    fn lock(&self, wait: bool) -> Result<Option<Lease>> {
        let _ = wait;
        Err(Error::new(ErrorKind::Unsupported, "cannot lock an open object"))
    }
}

/// Bytes that [`StoreExt::read_all`] reads with the first request.
const FIRST: usize = 1 << 20;

/// Shorthands for any store.
pub trait StoreExt: Store {
    /// All bytes of an object.
    ///
    /// # Errors
    /// As [`Store::open_read`] and [`ReadObject::read_exact_at`]; `NoMemory` for an object that does not fit in memory.
    fn read_all(&self, name: &str) -> Result<Vec<u8>> {
        let (object, mut bytes) = self.open_first(name, FIRST)?;
        let length = object.length()?;
        let too_long = || Error::new(ErrorKind::NoMemory, format!("cannot hold {length} bytes")).in_object(name);
        let length = usize::try_from(length).map_err(|_| too_long())?;
        let first = bytes.len();
        if length > first {
            bytes.try_reserve_exact(length - first).map_err(|_| too_long())?;
            bytes.resize(length, 0);
            object.read_exact_at(first as u64, &mut bytes[first..]).map_err(|e| e.in_object(name))?;
        }
        Ok(bytes)
    }

    /// Makes an object of these bytes, in place of an existing one.
    ///
    /// # Errors
    /// As [`Store::open_write`], [`WriteObject::write_at`] and [`WriteObject::close`]. Where objects do not appear whole
    /// ([`Capability::whole`]), the first bytes may be written and the earlier object is gone.
    fn write_all(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let object = self.open_write(name, OpenWrite::Replace)?;
        object.write_at(0, &[IoSlice::new(bytes)])?;
        object.close()
    }

    /// Whether there is an object or folder of this name.
    ///
    /// # Errors
    /// Errors of [`Store::stat`] except `NotFound`.
    fn exists(&self, name: &str) -> Result<bool> {
        match self.stat(name) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}

impl<S: Store + ?Sized> StoreExt for S {}
