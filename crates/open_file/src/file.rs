//! A file that is open.

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

/// The mode that layouts give a file which nobody chose one for.
const USUAL_MODE: u32 = 0o644;

/// A new number for a process that writes, or for a daemon through which several do: the same for all its handles, so
/// that the order of its calls is kept, and after a `fork` another one in the child.
pub fn writer() -> WriterId {
    // Random keys for each thread that asks: two processes that are made at once differ.
    let number = RandomState::new().hash_one((std::process::id(), rustix::system::uname().nodename().to_bytes()));
    WriterId((number >> 32) as u32)
}

/// A file that is open, with what the open asked for. Any thread may call it at any time.
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
    /// Removed, or another file's now; what was known before.
    Gone(Box<Attributes>),
}

impl OpenFile {
    /// Opens a file.
    ///
    /// - `name`: in the layout.
    /// - `mode`: permissions of a file that is made, what the process withholds taken off; `None` leaves them to the layout.
    ///
    /// # Errors
    /// As `open(2)`: `EISDIR` for every folder, which doors open by themselves.
    pub fn open(
        layout: &Arc<dyn Layout>,
        name: &str,
        access: Access,
        mode: Option<u32>,
        writer: WriterId,
    ) -> Result<OpenFile> {
        let opened = open(layout, name, access, mode, writer);
        let object = opened.map_err(|e| match e.kind() {
            // Stores have various words for a folder where an object is asked for.
            ErrorKind::InvalidArgument | ErrorKind::AlreadyExists if is_folder(&**layout, name) => {
                let number = if access.create && access.exclusive { Errno::EXIST } else { Errno::ISDIR };
                errno::failure(number, "open", name)
            }
            _ => e,
        })?;
        Ok(OpenFile { layout: layout.clone(), access, object, name: Mutex::new(Name::Is(name.to_string())) })
    }

    /// A file that was opened in another way, to be read.
    ///
    /// - `name`: in the layout.
    pub fn reading(layout: &Arc<dyn Layout>, name: &str, object: Box<dyn ReadObject>) -> OpenFile {
        let access = Access { read: true, ..Access::default() };
        let name = Mutex::new(Name::Is(name.to_string()));
        OpenFile { layout: layout.clone(), access, object: Object::Read(object), name }
    }

    /// What it was opened for.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Its layout.
    pub fn layout(&self) -> &Arc<dyn Layout> {
        &self.layout
    }

    /// Its name in the layout; `None` once that is gone.
    pub fn name(&self) -> Option<String> {
        match &*self.named() {
            Name::Is(name) => Some(name.clone()),
            Name::Gone(_) => None,
        }
    }

    fn named(&self) -> MutexGuard<'_, Name> {
        self.name.lock()
    }

    /// Reads at `offset` as much as there is, up to `out.len()`; returns how much.
    ///
    /// # Errors
    /// `EBADF` where it was not opened for reading; what the layout says.
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

    /// Writes all pieces, one behind the other, from `offset`.
    ///
    /// # Errors
    /// `EBADF` where it was not opened for writing; what the layout says.
    pub fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.writable()?.write_at(offset, pieces)
    }

    /// Writes all pieces behind the end; returns the new end. No two appends of this process meet.
    ///
    /// # Errors
    /// As [`OpenFile::write_at`].
    pub fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        let object = self.writable()?;
        let _turn = match &*self.named() {
            Name::Is(name) => turn(name),
            Name::Gone(about) => turn(&about.identity),
        };
        object.append(pieces)
    }

    /// Bytes now.
    pub fn length(&self) -> Result<u64> {
        match &self.object {
            Object::Read(object) => object.length(),
            Object::Write(object) => object.length(),
        }
    }

    /// Cuts or extends (with zeros) to `length` bytes.
    ///
    /// # Errors
    /// `EBADF` where it was not opened for writing; what the layout says.
    pub fn truncate(&self, length: u64) -> Result<()> {
        self.writable()?.truncate(length)
    }

    /// Gives the space of a run of bytes back; they read as zeros.
    ///
    /// # Errors
    /// As [`OpenFile::write_at`].
    pub fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.writable()?.punch(offset, length)
    }

    /// Makes what was written durable, and lets others see it.
    pub fn sync(&self) -> Result<()> {
        match &self.object {
            Object::Read(_) => Ok(()),
            Object::Write(object) => object.sync(),
        }
    }

    /// Lets others see what was written: before this process makes another that goes on with the file.
    pub fn publish(&self) -> Result<()> {
        match &self.object {
            Object::Read(_) => Ok(()),
            Object::Write(object) => object.publish(),
        }
    }

    /// Looks at what others let be seen since the open, where the layout can do that with a file that is open.
    pub fn refresh(&self) -> Result<()> {
        // Open files of one name share what is known of it.
        match self.name() {
            Some(name) => self.layout.open_read(&name).map(drop),
            None => Ok(()),
        }
    }

    /// Mode, owner, times, length of the open file, also when its name is gone.
    pub fn attributes(&self) -> Result<Attributes> {
        let mut named = self.named();
        let known = match &mut *named {
            Name::Gone(about) => Some((**about).clone()),
            Name::Is(name) => match about::attributes(&*self.layout, name) {
                // Opened through a link: from now on under the name that it leads to.
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
        // Another process took the name away.
        let known = known.unwrap_or_else(|| Attributes { links: 0, ..bare(Kind::File, 0, USUAL_MODE, 1) });
        Ok(Attributes { length: self.length()?, ..known })
    }

    /// As [`OpenFile::attributes`] of a file that was opened for writing, asked of the open object itself.
    ///
    /// # Errors
    /// `Unsupported` where the layout must be asked by name.
    pub fn object_attributes(&self) -> Result<Attributes> {
        self.writable()?.attributes()
    }

    /// As [`OpenFile::set_attributes`] of a file that was opened for writing, done to the open object itself.
    ///
    /// # Errors
    /// `Unsupported`, and nothing done, where the layout must be asked by name; what the layout says.
    pub fn set_object_attributes(&self, change: &Change) -> Result<()> {
        self.writable()?.set_attributes(change)
    }

    /// The open file of this machine that holds exactly the bytes, where it was opened for writing and there is one.
    pub fn file(&self) -> Option<&std::fs::File> {
        match &self.object {
            Object::Write(object) => object.file(),
            Object::Read(_) => None,
        }
    }

    /// Changes mode, owner or times.
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

    /// To be told before the file's name is removed or given to another: [`OpenFile::attributes`] keeps answering.
    pub fn unlinked(&self) {
        // Asked outside the lock, which `attributes` takes.
        let known = self.attributes();
        let mut named = self.named();
        if let Name::Is(_) = &*named {
            let mut known = known.unwrap_or_else(|_| bare(Kind::File, 0, USUAL_MODE, 1));
            known.links = known.links.saturating_sub(1);
            *named = Name::Gone(Box::new(known));
        }
    }

    /// To be told after the file, or a folder above it, was renamed.
    pub fn renamed(&self, from: &str, to: &str) {
        if let Name::Is(name) = &mut *self.named()
            && let Some(rest) = name.strip_prefix(from)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            *name = format!("{to}{rest}");
        }
    }

    /// Ends it. What was written is seen by others afterwards.
    ///
    /// # Errors
    /// What was not written, whatever the writes said.
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
                // Linux empties it, whatever the mode.
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
    // Who makes the file gives it its mode; who finds it leaves that alone. Nobody asks first: stores are far.
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

/// Turns of those who append, by the name of the file.
static TURNS: [Mutex<()>; 16] = [const { Mutex::new(()) }; 16];

fn turn(key: &impl Hash) -> MutexGuard<'static, ()> {
    let mut hash = DefaultHasher::new();
    key.hash(&mut hash);
    TURNS[hash.finish() as usize % TURNS.len()].lock()
}

/// All turns of those who append: see [`hold_appends`].
pub struct Appends(#[allow(dead_code)] Vec<MutexGuard<'static, ()>>);

/// Waits for the appends of this process and keeps others from beginning: for a door that forks, so that the child finds
/// no turn taken by a thread it does not have.
pub fn hold_appends() -> Appends {
    Appends(TURNS.iter().map(|turn| turn.lock()).collect())
}
