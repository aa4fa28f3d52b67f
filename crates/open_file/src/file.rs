//! Open files.

use crate::Access;
use crate::about::{self, bare};
use rustix::io::Errno;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};
use std::io::IoSlice;
use std::sync::{Arc, MutexGuard};
use thalweg_layout::{Attributes, Change, Kind, Layout, OpenWrite, ReadObject, WriteObject, WriterId, errno};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::View;

/// Mode of new files on layouts, unless the caller chooses another.
const USUAL_MODE: u32 = 0o644;

/// A new writer number for a process, or for a daemon that serves several: the same for all its handles, so that layouts keep the
/// order of its calls; a forked child needs another.
pub fn writer() -> WriterId {
    // Keys are random per thread, so that processes created at the same moment differ.
    let number = RandomState::new().hash_one((std::process::id(), rustix::system::uname().nodename().to_bytes()));
    WriterId((number >> 32) as u32)
}

/// An open file and the flags of its open. Any thread may call it at any time.
pub struct OpenFile {
    layout: Arc<dyn Layout>,
    access: Access,
    object: Object,
    name: Mutex<Name>,
}

enum Object {
    Read(Box<dyn ReadObject>),
    Write(Box<dyn WriteObject>),
}

enum Name {
    Is(String),
    /// Unlinked, or its name replaced: the attributes before that.
    Gone(Box<Attributes>),
}

impl OpenFile {
    /// Opens a file.
    ///
    /// - `name`: in the layout.
    /// - `mode`: permissions of a new file, the umask applied; `None` leaves them to the layout.
    ///
    /// # Errors
    /// As `open(2)`; `EISDIR` for every directory, which doors open themselves. A new file may exist, empty, after a failure.
    /// # Cost
    /// One open in the layout. With `create`, a mode and an existing file: a failed creation before it; for a new file whose mode
    /// is not the usual one, also an attribute change. One further request each for `no_follow`, for `directory`, for `truncate`
    /// without `create`, and for a failure that may be due to a directory; `create` for reading opens twice.
    pub fn open(
        layout: &Arc<dyn Layout>,
        name: &str,
        access: Access,
        mode: Option<u32>,
        writer: WriterId,
    ) -> Result<OpenFile> {
        let opened = open(layout, name, access, mode, writer);
        let object = opened.map_err(|e| match e.kind() {
            // Stores report a directory in various ways if an object was requested.
            ErrorKind::InvalidArgument | ErrorKind::AlreadyExists if is_folder(&**layout, name) => {
                let number = if access.create && access.exclusive { Errno::EXIST } else { Errno::ISDIR };
                errno::failure(number, "open", name)
            }
            _ => e,
        })?;
        Ok(OpenFile { layout: layout.clone(), access, object, name: Mutex::new(Name::Is(name.to_string())) })
    }

    /// A file for reading whose object the caller has opened.
    ///
    /// - `name`: in the layout.
    pub fn reading(layout: &Arc<dyn Layout>, name: &str, object: Box<dyn ReadObject>) -> OpenFile {
        let access = Access { read: true, ..Access::default() };
        let name = Mutex::new(Name::Is(name.to_string()));
        OpenFile { layout: layout.clone(), access, object: Object::Read(object), name }
    }

    /// The flags of its open.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Its layout.
    pub fn layout(&self) -> &Arc<dyn Layout> {
        &self.layout
    }

    /// Its name in the layout; `None` after it was unlinked or replaced.
    pub fn name(&self) -> Option<String> {
        match &*self.named() {
            Name::Is(name) => Some(name.clone()),
            Name::Gone(_) => None,
        }
    }

    fn named(&self) -> MutexGuard<'_, Name> {
        self.name.lock()
    }

    /// Reads at `offset` up to `out.len()` bytes; returns how many there were.
    ///
    /// # Errors
    /// `EBADF` if it was not opened for reading; errors of the layout.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        if !self.access.read {
            return Err(not_open("the file is open for writing only"));
        }
        match &self.object {
            Object::Read(object) => object.read_at(offset, out),
            Object::Write(object) => object.read_at(offset, out),
        }
    }

    fn writable(&self) -> Result<&dyn WriteObject> {
        match &self.object {
            Object::Write(object) if self.access.write => Ok(&**object),
            _ => Err(not_open("the file is open for reading only")),
        }
    }

    /// Writes all pieces, one after the other, from `offset`.
    ///
    /// # Errors
    /// `EBADF` if it was not opened for writing; errors of the layout, see [`WriteObject::write_at`].
    pub fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.writable()?.write_at(offset, pieces)
    }

    /// Writes bytes at `start..` of a view.
    ///
    /// # Errors
    /// `EBADF` if it was not opened for writing; errors of the layout, see [`WriteObject::write_view`].
    pub fn write_view(&self, view: &Arc<View>, start: u64, bytes: &[u8]) -> Result<()> {
        self.writable()?.write_view(view, start, bytes)
    }

    /// Reads bytes `start..` of a view; returns how many there were before the end of the file.
    ///
    /// # Errors
    /// `EBADF` if it was not opened for reading; errors of the layout, see [`ReadObject::read_view`].
    pub fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        if !self.access.read {
            return Err(not_open("the file is open for writing only"));
        }
        match &self.object {
            Object::Read(object) => object.read_view(view, start, out),
            Object::Write(object) => object.read_view(view, start, out),
        }
    }

    /// Appends all pieces; returns the new end. Appends of this process never overlap.
    ///
    /// # Errors
    /// As [`OpenFile::write_at`].
    /// # Cost
    /// Appends of this process to one name wait for each other.
    pub fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        let object = self.writable()?;
        let _turn = match &*self.named() {
            Name::Is(name) => turn(name),
            Name::Gone(about) => turn(&about.identity),
        };
        object.append(pieces)
    }

    /// Length in bytes.
    ///
    /// # Errors
    /// Errors of the layout.
    pub fn length(&self) -> Result<u64> {
        match &self.object {
            Object::Read(object) => object.length(),
            Object::Write(object) => object.length(),
        }
    }

    /// Truncates or extends (with zeros) to `length` bytes.
    ///
    /// # Errors
    /// `EBADF` if it was not opened for writing; errors of the layout.
    pub fn truncate(&self, length: u64) -> Result<()> {
        self.writable()?.truncate(length)
    }

    /// Punches a hole: frees the space of a run of bytes, which then read as zeros.
    ///
    /// # Errors
    /// As [`OpenFile::write_at`].
    pub fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.writable()?.punch(offset, length)
    }

    /// Makes written bytes durable and publishes them to other processes. Nothing to do for a file open for reading.
    ///
    /// # Errors
    /// Errors of the layout: bytes written since the last successful sync may be lost in a power cut.
    /// # Cost
    /// As [`WriteObject::sync`].
    pub fn sync(&self) -> Result<()> {
        match &self.object {
            Object::Read(_) => Ok(()),
            Object::Write(object) => object.sync(),
        }
    }

    /// Publishes written bytes to other processes: call before this process starts another that continues with the file.
    ///
    /// # Errors
    /// Errors of the layout: other processes may not see bytes written since the last publication.
    /// # Cost
    /// As [`WriteObject::publish`].
    pub fn publish(&self) -> Result<()> {
        match &self.object {
            Object::Read(_) => Ok(()),
            Object::Write(object) => object.publish(),
        }
    }

    /// As [`WriteObject::order`]; 0 for a file open for reading.
    pub fn order(&self) -> u64 {
        match &self.object {
            Object::Read(_) => 0,
            Object::Write(object) => object.order(),
        }
    }

    /// As [`WriteObject::order_from`].
    pub fn order_from(&self, number: u64) {
        if let Object::Write(object) = &self.object {
            object.order_from(number);
        }
    }

    /// Refreshes the view of the file: includes what other processes published since the open, if the layout can do that
    /// for an open file.
    ///
    /// # Errors
    /// Errors of [`Layout::open_read`]; the view stays as it was.
    /// # Cost
    /// One open for reading.
    pub fn refresh(&self) -> Result<()> {
        // Open files of one name share what is known of it.
        match self.name() {
            Some(name) => self.layout.open_read(&name).map(drop),
            None => Ok(()),
        }
    }

    /// Mode, owner, times, length of the open file, also after it was unlinked.
    ///
    /// # Errors
    /// Errors of the layout. A name that another process removed is no error: the number of links is then 0.
    /// # Cost
    /// One request for the attributes of the name and one for the length of the open object; the name of a file opened through a
    /// link is followed at the first call.
    pub fn attributes(&self) -> Result<Attributes> {
        let mut named = self.named();
        let known = match &mut *named {
            Name::Gone(about) => Some((**about).clone()),
            Name::Is(name) => match about::attributes(&*self.layout, name) {
                // Opened through a link: keeps the name that the link leads to.
                Ok(found) if found.kind == Kind::Link => {
                    let (leads, found) = about::followed(&*self.layout, name)?;
                    *name = leads;
                    Some(found)
                }
                Ok(found) => Some(found),
                Err(e) if e.kind() == ErrorKind::NotFound => None,
                Err(e) => return Err(e),
            },
        };
        drop(named);
        // Another process removed the name.
        let known = known.unwrap_or_else(|| Attributes { links: 0, ..bare(Kind::File, 0, USUAL_MODE, 1) });
        Ok(Attributes { length: self.length()?, ..known })
    }

    /// Like [`OpenFile::attributes`] for a file opened for writing, read from the open object itself.
    ///
    /// # Errors
    /// `Unsupported` if the layout knows attributes only by name; `EBADF` if it was not opened for writing.
    pub fn object_attributes(&self) -> Result<Attributes> {
        self.writable()?.attributes()
    }

    /// Like [`OpenFile::set_attributes`] for a file opened for writing, applied to the open object itself.
    ///
    /// # Errors
    /// `Unsupported`, and nothing done, if the layout changes attributes only by name; errors of the layout.
    pub fn set_object_attributes(&self, change: &Change) -> Result<()> {
        self.writable()?.set_attributes(change)
    }

    /// The open file of this machine that holds exactly the bytes, if it was opened for writing and there is one.
    pub fn file(&self) -> Option<&std::fs::File> {
        match &self.object {
            Object::Write(object) => object.file(),
            Object::Read(_) => None,
        }
    }

    /// Changes mode, owner or times; of an unlinked file only what this handle reports.
    ///
    /// One request, by name; none for an unlinked file.
    ///
    /// # Errors
    /// Errors of [`Layout::set_attributes`].
    pub fn set_attributes(&self, change: &Change) -> Result<()> {
        match self.name() {
            Some(name) => self.layout.set_attributes(&name, change),
            None => {
                if let Name::Gone(about) = &mut *self.named() {
                    about.mode = change.mode.unwrap_or(about.mode);
                    about.uid = change.uid.unwrap_or(about.uid);
                    about.gid = change.gid.unwrap_or(about.gid);
                    about.atime = change.atime.unwrap_or(about.atime);
                    about.mtime = change.mtime.unwrap_or(about.mtime);
                }
                Ok(())
            }
        }
    }

    /// Call before the file is unlinked or its name replaced: [`OpenFile::attributes`] stays usable.
    ///
    /// # Cost
    /// As [`OpenFile::attributes`].
    pub fn unlinked(&self) {
        // Before the lock, which `attributes` takes.
        let known = self.attributes();
        let mut named = self.named();
        if let Name::Is(_) = &*named {
            let mut known = known.unwrap_or_else(|_| bare(Kind::File, 0, USUAL_MODE, 1));
            known.links = known.links.saturating_sub(1);
            *named = Name::Gone(Box::new(known));
        }
    }

    /// Call after the file, or a directory above it, was renamed.
    pub fn renamed(&self, from: &str, to: &str) {
        if let Name::Is(name) = &mut *self.named()
            && let Some(rest) = name.strip_prefix(from)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            *name = format!("{to}{rest}");
        }
    }

    /// Closes the file: flushes and publishes written bytes.
    ///
    /// # Errors
    /// Written bytes that the layout could not store, even if their writes succeeded. The handle is closed in any case.
    /// # Cost
    /// As [`WriteObject::close`]; none for a file open for reading.
    pub fn close(self) -> Result<()> {
        match self.object {
            Object::Read(_) => Ok(()),
            Object::Write(object) => object.close(),
        }
    }
}

fn is_folder(layout: &dyn Layout, name: &str) -> bool {
    layout.stat(name).is_ok_and(|about| about.is_folder)
}

fn open(layout: &Arc<dyn Layout>, name: &str, access: Access, mode: Option<u32>, writer: WriterId) -> Result<Object> {
    if access.no_follow && layout.attributes(name).is_ok_and(|about| about.kind == Kind::Link) {
        let number = if access.create && access.exclusive { Errno::EXIST } else { Errno::LOOP };
        return Err(errno::failure(number, "open a link without following it", name));
    }
    if access.directory {
        let number = if layout.stat(name)?.is_folder { Errno::ISDIR } else { Errno::NOTDIR };
        return Err(errno::failure(number, "open", name));
    }
    if !access.create {
        return match (access.write, access.truncate) {
            (true, truncate) => {
                let object = layout.open_write(name, OpenWrite::Existing, writer)?;
                if truncate {
                    object.truncate(0)?;
                }
                Ok(Object::Write(object))
            }
            (false, true) => {
                // Linux truncates it, whatever the access mode.
                layout.truncate(name, 0)?;
                Ok(Object::Read(layout.open_read(name)?))
            }
            (false, false) => Ok(Object::Read(layout.open_read(name)?)),
        };
    }
    let object = make(layout, name, access, mode, writer)?;
    if access.write {
        return Ok(Object::Write(object));
    }
    object.close()?;
    Ok(Object::Read(layout.open_read(name)?))
}

fn make(
    layout: &Arc<dyn Layout>,
    name: &str,
    access: Access,
    mode: Option<u32>,
    writer: WriterId,
) -> Result<Box<dyn WriteObject>> {
    let there = if access.truncate { OpenWrite::Replace } else { OpenWrite::Any };
    let Some(mode) = mode else {
        return layout.open_write(name, if access.exclusive { OpenWrite::New } else { there }, writer);
    };
    // Only the creator sets the mode. Creation is tried first: a lookup before it would cost a request on far stores.
    let object = match layout.open_write(name, OpenWrite::New, writer) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists && !access.exclusive => {
            return layout.open_write(name, there, writer);
        }
        outcome => outcome?,
    };
    let mode = mode & 0o7777;
    if mode != USUAL_MODE || layout.plain_file(name).is_some() {
        match layout.set_attributes(name, &Change { mode: Some(mode), ..Change::default() }) {
            Err(e) if e.kind() != ErrorKind::Unsupported => return Err(e),
            _ => {}
        }
    }
    Ok(object)
}

fn not_open(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, what).caused_by(std::io::Error::from(Errno::BADF))
}

/// Locks of appends, by the file's name.
static TURNS: [Mutex<()>; 16] = [const { Mutex::new(()) }; 16];

fn turn(key: &impl Hash) -> MutexGuard<'static, ()> {
    let mut hash = DefaultHasher::new();
    key.hash(&mut hash);
    TURNS[hash.finish() as usize % TURNS.len()].lock()
}

/// All locks of appends: see [`lock_appends`].
pub struct Appends(#[allow(dead_code)] Vec<MutexGuard<'static, ()>>);

/// Waits for the appends of this process and blocks new ones: for a door that forks, so that the child inherits no lock of a
/// thread that it does not have.
pub fn lock_appends() -> Appends {
    Appends(TURNS.iter().map(|turn| turn.lock()).collect())
}
