//! Stores: where bytes rest.
//!
//! A store keeps named objects. It knows neither BP nor ranks. The trait asks for little, and each store states as
//! data ([`Capability`]) what else it can do, so that layouts are refused when they are configured, not when they run.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`attributes`] | modes, owners, times, links, for stores that keep them |
//! | [`capability`] | what a store can do, as data |
//! | [`mod@fresh`] | numbers that nobody else draws, also after a `fork` |
//! | [`life`] | whether somebody still extends an object |
//! | [`posix`] | files below a folder of a POSIX filesystem |
//! | [`lustre`] | storage targets of a Lustre filesystem: how many, and files on a chosen one |
//! | [`memory`] | objects in memory, shared by all handles |
//! | [`wrap`] | counting, slow and failing stores around any other; the forgetful store |
//! | [`name`] | names of objects and folders, and their parts |
//! | [`pieces`] | the runs of memory that one write puts behind each other |
#![deny(unsafe_code)]

use std::io::{IoSlice, IoSliceMut};
use thalweg_types::{Error, ErrorKind, Result};

pub mod attributes;
pub mod capability;
pub mod fresh;
pub mod life;
#[cfg(target_os = "linux")]
pub mod lustre;
pub mod memory;
pub mod name;
pub mod pieces;
pub mod posix;
pub mod wrap;

pub use attributes::{Attributes, Change, Kind, SetXattr, Space};
pub use capability::{Capability, Durability, ListConsistency, Rename, Visible};
pub use fresh::fresh;
pub use life::{Lease, Life};
pub use memory::Memory;
pub use posix::Posix;

/// What is known about an object or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Bytes; 0 for folders.
    pub length: u64,
    /// A folder rather than an object.
    pub is_folder: bool,
    /// Changes whenever the object is replaced by another of the same name and other bytes (inode number, version, ...); one
    /// that is only emptied keeps it where the store writes at any offset. Means something within one process only.
    pub identity: u64,
}

/// How to open an object for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenWrite {
    /// Make it, or empty the one that is there.
    Replace,
    /// Make it; `AlreadyExists` where one is there.
    New,
    /// Open the one that is there, its bytes kept; `NotFound` where there is none. `Unsupported` where the store lacks
    /// [`Capability::append`].
    Existing,
    /// Open the one that is there, its bytes kept (as `Existing`), or make it.
    Any,
}

/// Named objects and folders. Names are relative, parts separated by `/`; the empty name is the store's own folder.
///
/// Errors name the object. `NotFound` also where a part of the name that should be a folder is an object;
/// `InvalidArgument` where an object is asked for and a folder is there, and for names that would leave the store.
pub trait Store: Send + Sync {
    /// For messages: `posix:/scratch/run7`, `memory:`.
    fn describe(&self) -> String;
    /// What it can do.
    fn capability(&self) -> Capability;
    /// Opens an object for writing. Folders above it must exist (`NotFound` otherwise).
    fn open_write(&self, name: &str, how: OpenWrite) -> Result<Box<dyn WriteObject>>;
    /// As [`Store::open_write`]. An object that this makes has these permission bits at most from its first moment on, where
    /// the store keeps modes ([`Capability::modes`]); one that is there keeps its own. Other stores open it as ever.
    ///
    /// - `mode`: permission bits; what the process withholds (umask) is taken off.
    fn open_write_as(&self, name: &str, how: OpenWrite, mode: u32) -> Result<Box<dyn WriteObject>> {
        let _ = mode;
        self.open_write(name, how)
    }
    /// Makes a small object that the processes of all nodes look for (a stamp, a mark); `AlreadyExists` where one is there.
    /// As `open_write` with [`OpenWrite::New`], but for a burst buffer, which makes it in the store that all nodes share. Nobody
    /// may make an object of the same name with `open_write` at the same moment.
    ///
    /// - `mode`: as for [`Store::open_write_as`].
    fn make_for_all(&self, name: &str, mode: u32) -> Result<Box<dyn WriteObject>> {
        self.open_write_as(name, OpenWrite::New, mode)
    }
    /// Makes an object durable that was closed; one that cannot be opened again is durable since.
    fn sync_closed(&self, name: &str) -> Result<()> {
        match self.capability().append {
            true => self.open_write(name, OpenWrite::Existing)?.sync(),
            false => Ok(()),
        }
    }
    /// What one more request costs, in bytes that could be read in the same time: readers read through gaps that are shorter,
    /// join what lies near, and keep several requests under way. 0 for stores whose requests are system calls.
    fn request_cost(&self) -> u64 {
        0
    }
    /// Whether [`WriteObject::lease`] may work on objects of this store.
    fn tells_holders(&self) -> bool {
        true
    }
    /// Whether open objects of this store may be opened anew and locked: [`WriteObject::reopen`], [`WriteObject::lock`].
    fn reopens(&self) -> bool {
        false
    }
    /// Opens an object for reading.
    fn open_read(&self, name: &str) -> Result<Box<dyn ReadObject>>;
    /// Attributes of an object, folder or symbolic link itself, as [`Store::attributes`], and where it is an object, that object opened
    /// for reading. Where the store can, both are of one object whatever is renamed meanwhile, and cost one operation on the name.
    fn open_known(&self, name: &str) -> Result<(Attributes, Option<Box<dyn ReadObject>>)> {
        let about = self.attributes(name)?;
        let object = match about.kind {
            Kind::File => Some(self.open_read(name)?),
            Kind::Folder | Kind::Link => None,
        };
        Ok((about, object))
    }
    /// What is known about an object or folder.
    fn stat(&self, name: &str) -> Result<Stat>;
    /// Names directly inside a folder, sorted.
    fn list(&self, folder: &str) -> Result<Vec<String>>;
    /// Moves an object, replacing one at `to`; [`Capability::rename`] says how safely. A folder too, with all that is in
    /// it, where [`Capability::rename_folder`] says so; `to` may be an empty folder then (`InvalidArgument` for one that
    /// is not empty, and for a folder moved into itself).
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// As [`Store::rename`] of an object, in one operation, to a name that is free: `AlreadyExists` where it is taken.
    /// `Unsupported` where the store cannot.
    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        let _ = to;
        Err(unsupported(&self.describe(), "rename to a free name only", from))
    }
    /// Removes an object or an empty folder (`InvalidArgument` for one that is not).
    fn remove(&self, name: &str) -> Result<()>;
    /// Makes a folder and those above it; one that is there already is no error, an object is (`AlreadyExists`).
    fn make_folder(&self, name: &str) -> Result<()>;
    /// As [`Store::make_folder`]. Returns whether this has made it, so that nothing older lies in it; `false` also where that
    /// is not known.
    fn make_new_folder(&self, name: &str) -> Result<bool> {
        self.make_folder(name).map(|()| false)
    }
    /// Makes the names inside a folder durable (creations, renames, removals).
    fn sync_folder(&self, folder: &str) -> Result<()>;
    /// How many storage targets the bytes of objects in a folder are spread over; `None` where that is not known.
    fn targets(&self, folder: &str) -> Result<Option<u32>> {
        let _ = folder;
        Ok(None)
    }
    /// Makes an empty object, in place of one that is there, whose bytes will all lie on one storage target (from 0).
    /// `false`, and nothing done, where the store knows of no targets.
    ///
    /// - `stripe`: bytes of a stripe, as the filesystem wants to know it; rounded up to what it takes.
    fn make_on_target(&self, name: &str, target: u32, stripe: u64) -> Result<bool> {
        let _ = (name, target, stripe);
        Ok(false)
    }
    /// Makes one folder: `AlreadyExists` where the name is taken, `NotFound` where the folder above is not there. One
    /// operation only where the store keeps attributes.
    ///
    /// - `mode`: permission bits, where the store keeps them; what the process withholds is taken off.
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
    /// The file of this machine that holds exactly the object's bytes, where there is one.
    fn plain_file(&self, name: &str) -> Option<std::path::PathBuf> {
        let _ = name;
        None
    }
    /// A path of this machine for this name, at which all machines that use the store find the same file: for files that are
    /// locked. `None` where there is no such path.
    fn lock_place(&self, name: &str) -> Option<std::path::PathBuf> {
        self.plain_file(name)
    }
    /// Ends the writing of an object whose writer is known to have died: afterwards what it had synced is there and
    /// never changes again, and the name is free to be removed, renamed or replaced. A writer that lives after all fails.
    /// Nothing happens to an object that nobody writes.
    fn settle(&self, name: &str) -> Result<()> {
        self.stat(name).map(|_| ())
    }
    /// Keeps others from locking an object, made where it is not there, until the lock is dropped or the process ends,
    /// however it ends. Excludes other threads and processes, and nothing but their locks; the name must not be removed.
    /// `None` where another has it and `wait` is not set. `Unsupported` where the store cannot.
    fn lock(&self, name: &str, wait: bool) -> Result<Option<Lease>> {
        let _ = wait;
        Err(unsupported(&self.describe(), "lock an object", name))
    }
    /// Attributes of an object, folder or symbolic link itself. This and all below: `Unsupported` unless
    /// [`Capability::attributes`].
    fn attributes(&self, name: &str) -> Result<Attributes> {
        Err(unsupported(&self.describe(), "tell attributes", name))
    }
    /// Changes attributes of an object, folder or symbolic link itself.
    fn set_attributes(&self, name: &str, change: &Change) -> Result<()> {
        let _ = change;
        Err(unsupported(&self.describe(), "change attributes", name))
    }
    /// Makes a symbolic link; `target` is kept as it is. `AlreadyExists` where the name is taken.
    fn make_link(&self, target: &str, name: &str) -> Result<()> {
        let _ = target;
        Err(unsupported(&self.describe(), "make a symbolic link", name))
    }
    /// What a symbolic link leads to; `InvalidArgument` for anything else.
    fn read_link(&self, name: &str) -> Result<String> {
        Err(unsupported(&self.describe(), "read a symbolic link", name))
    }
    /// Gives an object a second name.
    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        let _ = to;
        Err(unsupported(&self.describe(), "give an object a second name", from))
    }
    /// An extended attribute; `None` where there is none of this key.
    fn xattr(&self, name: &str, key: &str) -> Result<Option<Vec<u8>>> {
        let _ = key;
        Err(unsupported(&self.describe(), "read an extended attribute", name))
    }
    /// Sets an extended attribute.
    fn set_xattr(&self, name: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        let _ = (key, value, how);
        Err(unsupported(&self.describe(), "set an extended attribute", name))
    }
    /// Keys of all extended attributes, sorted.
    fn list_xattrs(&self, name: &str) -> Result<Vec<String>> {
        Err(unsupported(&self.describe(), "list extended attributes", name))
    }
    /// Removes an extended attribute; `NotFound` where there is none of this key.
    fn remove_xattr(&self, name: &str, key: &str) -> Result<()> {
        let _ = key;
        Err(unsupported(&self.describe(), "remove an extended attribute", name))
    }
    /// Space below a folder.
    fn space(&self, folder: &str) -> Result<Space> {
        Err(unsupported(&self.describe(), "tell its space", folder))
    }
}

/// What a store answers that is asked for more than its [`Capability`] says; `what` completes "cannot ...".
pub fn unsupported(store: &str, what: &str, name: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("store {store} cannot {what}")).in_object(name)
}

/// An object open for reading; any thread may call it.
pub trait ReadObject: Send + Sync {
    /// Bytes now.
    fn length(&self) -> Result<u64>;
    /// Reads at `offset` as much as there is, up to `out.len()`; returns how much. Never more than the object holds.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize>;
    /// Fills `out` from `offset`, or fails with `Torn` naming the byte where the object ends.
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
    /// Reads bytes that lie behind each other into pieces of memory, one after the other; returns how many were there.
    ///
    /// # Cost
    /// One operation where the store reads into several pieces; else one for each 4 MiB, which are copied once more.
    fn read_vectored_at(&self, offset: u64, pieces: &mut [IoSliceMut<'_>]) -> Result<usize> {
        pieces::read_joined(pieces, |done, out| self.read_at(offset.saturating_add(done), out))
    }
    /// What can be told about whether somebody still extends the object: see [`WriteObject::lease`].
    fn life(&self) -> Result<Life> {
        Ok(Life::default())
    }
    /// Opens the same object for writing, whatever its name leads to now. `Unsupported` where the store cannot
    /// ([`Store::reopens`]).
    fn reopen(&self) -> Result<Box<dyn WriteObject>> {
        Err(Error::new(ErrorKind::Unsupported, "cannot open an open object anew"))
    }
    /// Attributes of the open object, whatever its name leads to now. `Unsupported` where it must be asked by its name.
    fn attributes(&self) -> Result<Attributes> {
        Err(Error::new(ErrorKind::Unsupported, "cannot tell attributes of an open object"))
    }
}

/// An object open for writing; any thread may call it.
pub trait WriteObject: Send + Sync {
    /// Writes all pieces, one behind the other, from `offset`: one operation however many pieces.
    /// Bytes between the old end and `offset` read as zeros. Zero bytes in all do nothing, the length stays.
    ///
    /// # Errors
    /// Place and byte say where it stopped: bytes before it are written, bytes from it on may be or not. `Unsupported`,
    /// nothing written, for any `offset` but the present end where the store lacks [`Capability::write_at`]. After any
    /// other failure such a store's object is lost, and `close` says so.
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()>;
    /// Writes all pieces behind the end; returns the new end. Two calls on one object may meet: whoever has several threads
    /// append keeps them apart, but on a layout whose page says otherwise.
    ///
    /// # Errors
    /// As [`WriteObject::write_at`].
    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        let end = self.length()?;
        self.write_at(end, pieces)?;
        Ok(end + pieces::total(pieces))
    }
    /// Finds space for a run of bytes about to be written, which makes large writes faster and a full store known
    /// before they begin. The length and what is read stay as they are. Where the store cannot, nothing happens.
    ///
    /// # Errors
    /// `NoSpace`; some of the space may be taken then, until the object is truncated or removed.
    fn reserve(&self, offset: u64, length: u64) -> Result<()> {
        let _ = (offset, length);
        Ok(())
    }
    /// Bytes now.
    fn length(&self) -> Result<u64>;
    /// Reads back what is there, as [`ReadObject::read_at`]. `Unsupported` where the store lacks [`Capability::write_at`].
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize>;
    /// Cuts or extends (with zeros) to `length` bytes.
    fn truncate(&self, length: u64) -> Result<()>;
    /// Gives the space of a run of bytes back; they read as zeros afterwards, the length stays. Where the store (see
    /// [`Capability::punch`]) or the filesystem below it cannot, nothing happens.
    fn punch(&self, offset: u64, length: u64) -> Result<()>;
    /// Makes all bytes written so far durable, as far as [`Capability::durability`] promises.
    fn sync(&self) -> Result<()>;
    /// Lets others see all bytes written so far, durable or not.
    fn publish(&self) -> Result<()> {
        self.sync()
    }
    /// Ends writing. After it the object is whole and seen by readers; where [`Capability::append`] is not set, it never
    /// changes again. An object dropped without is what the store's page says: for those that make it visible when
    /// it is closed, nothing.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
    /// Attributes of the open object, whatever its name leads to now. This and [`WriteObject::set_attributes`]: `Unsupported` where the
    /// object must be asked by its name; then nothing was done.
    fn attributes(&self) -> Result<Attributes> {
        Err(Error::new(ErrorKind::Unsupported, "cannot tell attributes of an open object"))
    }
    /// Changes attributes of the open object.
    fn set_attributes(&self, change: &Change) -> Result<()> {
        let _ = change;
        Err(Error::new(ErrorKind::Unsupported, "cannot change attributes of an open object"))
    }
    /// The open file of this machine that holds exactly the object's bytes, where there is one: a door may hand it out.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }
    /// Lets [`ReadObject::life`] tell others that this process still extends the object, until the lease is dropped or the
    /// process ends, however it ends. Any number may hold an object; nobody is kept from anything. `None` where the
    /// store cannot.
    fn lease(&self) -> Option<Lease> {
        None
    }
    /// As [`ReadObject::life`]. What this very handle holds does not count: ask one that was opened anew.
    fn life(&self) -> Result<Life> {
        Ok(Life::default())
    }
    /// As [`ReadObject::reopen`]. The new handle holds and locks nothing, and is no other process' after a `fork`.
    fn reopen(&self) -> Result<Box<dyn WriteObject>> {
        Err(Error::new(ErrorKind::Unsupported, "cannot open an open object anew"))
    }
    /// As [`Store::lock`] of the object that is open here, whatever its name leads to now. Excludes locks of other handles, in this
    /// process too, and those by name; a second lock of one handle excludes nobody. `Unsupported` where the store cannot.
    fn lock(&self, wait: bool) -> Result<Option<Lease>> {
        let _ = wait;
        Err(Error::new(ErrorKind::Unsupported, "cannot lock an open object"))
    }
}

/// What callers often want of any store.
pub trait StoreExt: Store {
    /// All bytes of an object.
    fn read_all(&self, name: &str) -> Result<Vec<u8>> {
        let object = self.open_read(name)?;
        let length = object.length()?;
        let too_long = || Error::new(ErrorKind::NoMemory, format!("cannot hold {length} bytes")).in_object(name);
        let length = usize::try_from(length).map_err(|_| too_long())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| too_long())?;
        bytes.resize(length, 0);
        object.read_exact_at(0, &mut bytes).map_err(|e| e.in_object(name))?;
        Ok(bytes)
    }

    /// Makes an object of these bytes, in place of one that is there.
    fn write_all(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let object = self.open_write(name, OpenWrite::Replace)?;
        object.write_at(0, &[IoSlice::new(bytes)])?;
        object.close()
    }

    /// Whether there is an object or folder of this name.
    fn exists(&self, name: &str) -> Result<bool> {
        match self.stat(name) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}

impl<S: Store + ?Sized> StoreExt for S {}
