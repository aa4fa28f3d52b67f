//! Open files: handles, state shared by all handles of a file, reading and writing.
//!
//! With passthrough the kernel reads and writes a file of this machine itself; all handles of a file have the same mode, as the kernel
//! requires.

use super::{Caller, Door, Entry, O_APPEND, O_EXCL, O_SYNC, O_TRUNC, Result, SGID, SUID, number, text};
use crate::open::OpenHandle;
use fuser::{BackingId, Errno, WriteFlags};
use rustix::fs::{FallocateFlags, SeekFrom};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_layout::ReadObject;
use thalweg_open_file::{Access, OpenFile};
use thalweg_types::{Error, ErrorKind};

/// State shared by all handles of a file.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) handles: Vec<u64>,
    /// The underlying file, if it is a file of this machine.
    pub(super) file: Option<Arc<File>>,
    /// setuid or setgid was set at open.
    special: bool,
    /// The mode of the first handle, which all later handles must have.
    pub(super) backing: Option<Option<Arc<BackingId>>>,
}

/// The underlying file of a handle, on this machine.
struct Below {
    file: Arc<File>,
    mode: u32,
}

impl Below {
    /// `None`: not a regular file.
    fn of(file: Arc<File>) -> Option<Below> {
        let about = file.metadata().ok()?;
        about.is_file().then(|| Below { mode: about.mode(), file })
    }
}

/// An underlying file opened for reading.
struct Plain(Arc<File>);

impl ReadObject for Plain {
    fn length(&self) -> thalweg_types::Result<u64> {
        self.0.metadata().map(|about| about.len()).map_err(|e| Error::io("cannot read the attributes of a file", e))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> thalweg_types::Result<usize> {
        let mut done = 0;
        while done < out.len() {
            match self.0.read_at(&mut out[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(got) => done += got,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("cannot read a file", e)),
            }
        }
        Ok(done)
    }
}

impl Door {
    pub(super) fn handle(&self, fh: u64) -> Result<Arc<OpenHandle>> {
        let handles = self.handles.read();
        handles.get(&fh).cloned().ok_or(Errno::EBADF)
    }

    /// A read-only handle of a file of this machine: one descriptor serves the handle, passthrough, and requests after the file's removal.
    fn open_plain(&self, ino: u64, path: &str) -> Option<(OpenHandle, Below)> {
        let file = Arc::new(File::open(self.layout.plain_file(path).filter(|_| self.plain)?).ok()?);
        let below = Below::of(file.clone())?;
        let open = OpenFile::reading(&self.layout, path, Box::new(Plain(file)));
        Some((OpenHandle::new(ino, open), below))
    }

    /// Registers a handle; the first of a file creates the shared state.
    ///
    /// - `below`: the underlying file, if known.
    fn keep_open(&self, open: OpenHandle, path: &str, below: Option<Below>) -> u64 {
        let (fh, ino) = (self.next.fetch_add(1, Ordering::Relaxed), open.ino);
        let own = if self.plain && below.is_none() { open.file() } else { None };
        self.handles.write().insert(fh, Arc::new(open));
        let mut all = self.shared.lock();
        let shared = all.entry(ino).or_default();
        shared.handles.push(fh);
        if shared.file.is_none() && self.plain {
            let named = || self.layout.plain_file(path).and_then(|plain| File::open(plain).ok());
            let below = below.or_else(|| Below::of(Arc::new(own.or_else(named)?)));
            shared.special = below.as_ref().is_some_and(|below| below.mode & (SUID | SGID) != 0);
            shared.file = below.map(|below| below.file);
        }
        fh
    }

    /// The passthrough id of the underlying file, if allowed; the same for all handles of a file.
    pub fn backing(
        &self,
        ino: u64,
        register: impl FnOnce(&File) -> std::io::Result<BackingId>,
    ) -> Option<Arc<BackingId>> {
        let mut all = self.shared.lock();
        let shared = all.get_mut(&ino)?;
        if let Some(known) = &shared.backing {
            return known.clone();
        }
        let may = !shared.special && self.passthrough.load(Ordering::Relaxed);
        let file = shared.file.as_ref().filter(|_| may);
        let backing = file.and_then(|file| match register(file) {
            Ok(backing) => Some(Arc::new(backing)),
            Err(_) => {
                // Not supported by the filesystem or not permitted: not tried again.
                self.passthrough.store(false, Ordering::Relaxed);
                None
            }
        });
        shared.backing = Some(backing.clone());
        backing
    }

    pub(super) fn open_file(&self, path: &str, access: Access) -> thalweg_types::Result<OpenFile> {
        OpenFile::open(&self.layout, path, access, None, self.writer)
    }

    pub fn open(&self, ino: u64, writing: bool) -> Result<u64> {
        let _names = self.use_names();
        // Another process removed or replaced the name: ESTALE makes the kernel repeat the lookup.
        let path = self.path(ino).map_err(|_| Errno::ESTALE)?;
        if !writing && let Some((open, below)) = self.open_plain(ino, &path) {
            return Ok(self.keep_open(open, &path, Some(below)));
        }
        // The kernel checks permissions; it also reads on write-only handles, to fill partly written pages.
        let file = self.open_file(&path, Access { write: writing, ..Access::READ }).map_err(|e| match number(e) {
            Errno::ENOENT => Errno::ESTALE,
            other => other,
        })?;
        Ok(self.keep_open(OpenHandle::new(ino, file), &path, None))
    }

    pub fn create(&self, folder: u64, name: &OsStr, mode: u32, flags: i32, caller: Caller) -> Result<(Entry, u64)> {
        let name = text(name)?;
        let _names = self.use_names();
        let path = self.below(folder, name)?;
        let there = Access { write: true, ..Access::READ };
        let (file, made) = match self.open_file(&path, Access { create: true, exclusive: true, ..there }) {
            Ok(file) => (file, true),
            // Another process made the file after the kernel's lookup.
            Err(e) if e.kind() == ErrorKind::AlreadyExists && flags & O_EXCL == 0 => {
                (self.open_file(&path, there).map_err(number)?, false)
            }
            Err(e) => return Err(number(e)),
        };
        let about = match made {
            true => self.dress(folder, &path, Some(&file), Some(mode), caller)?,
            false => self.about(&path).map_err(number)?,
        };
        if !made && flags & O_TRUNC != 0 {
            file.truncate(0).map_err(number)?;
        }
        let entry = self.entry(folder, name, &about);
        let open = OpenHandle::new(entry.attributes.ino.0, file);
        // The attributes of a new file are known.
        let own = if made && self.plain { open.file() } else { None };
        let below = own.map(|file| Below { file: Arc::new(file), mode: about.mode });
        let fh = self.keep_open(open, &path, below);
        Ok((entry, fh))
    }

    pub fn read(&self, fh: u64, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.handle(fh)?.read_at(offset, out).map_err(number)
    }

    pub fn write(&self, fh: u64, offset: u64, bytes: &[u8], flags: i32, how: WriteFlags) -> Result<()> {
        let handle = self.handle(fh)?;
        // Pages that a program has mapped, or that the kernel kept, have their place.
        let appends = flags & O_APPEND != 0 && !how.contains(WriteFlags::FUSE_WRITE_CACHE);
        match appends {
            true => handle.append_at(offset, bytes).map_err(number)?,
            false => handle.write_at(offset, bytes).map_err(number)?,
        }
        if flags & O_SYNC != 0 {
            handle.sync().map_err(number)?;
        }
        if how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            let _names = self.use_names();
            self.drop_privilege(handle.ino)?;
        }
        Ok(())
    }

    /// Handles `flush`, which the kernel sends at every `close(2)`.
    ///
    /// - `owner`: lock owner of the process; its range locks end.
    pub fn flush(&self, fh: u64, owner: u64) -> Result<()> {
        let handle = self.handle(fh)?;
        let mut published = if self.plain { Ok(()) } else { handle.publish().map_err(number) };
        if !self.plain && handle.writes() && self.locks.has(handle.ino, owner) {
            // The handle is closed before the lock is released, so that the next holder of the lock does not meet a handle during its
            // close. Processes that share the description get a new handle.
            let _names = self.use_names();
            if let Some(path) = self.nodes().path(handle.ino) {
                let renewed = OpenHandle::renew(std::slice::from_ref(&handle), |access| self.open_file(&path, access));
                published = published.and(renewed.map_err(number));
            }
        }
        self.locks.process_closed(handle.ino, owner);
        published
    }

    pub fn sync(&self, fh: u64) -> Result<()> {
        self.handle(fh)?.sync().map_err(number)
    }

    pub fn release(&self, fh: u64) -> Result<()> {
        let handle = self.handles.write().remove(&fh);
        let handle = handle.ok_or(Errno::EBADF)?;
        let mut all = self.shared.lock();
        let last = all.get_mut(&handle.ino).map(|shared| {
            shared.handles.retain(|known| *known != fh);
            shared.handles.is_empty()
        });
        let gone = if last == Some(true) { all.remove(&handle.ino) } else { None };
        drop(all);
        drop(gone);
        let closed = handle.close();
        self.locks.released(fh);
        // No program waits for this error: `unmount` reports it.
        closed.map_err(|e| self.lose(handle.ino, e))
    }

    /// Records that accepted bytes cannot be published.
    fn lose(&self, ino: u64, error: Error) -> Errno {
        let path = self.nodes().path(ino).unwrap_or_else(|| "a removed file".into());
        crate::errors::write(&format!("{path}: cannot publish written bytes: {error}"));
        let number = Errno::from_i32(thalweg_layout::errno::of(&error));
        self.unpublished.lock().get_or_insert_with(|| {
            Error::new(error.kind(), "cannot publish bytes that programs wrote").in_object(path).caused_by(error)
        });
        number
    }

    /// Closes every handle. Returns the first failure, including earlier publish errors that no program received.
    pub fn close_all(&self) -> thalweg_types::Result<()> {
        let handles: Vec<Arc<OpenHandle>> = self.handles.write().drain().map(|(_, handle)| handle).collect();
        for handle in handles {
            // A failure does not keep the other handles open.
            if let Err(e) = handle.close() {
                self.lose(handle.ino, e);
            }
        }
        self.unpublished.lock().take().map_or(Ok(()), Err)
    }

    /// Like [`Door::close_all`] for callers that cannot return an error: the next call reports it.
    pub fn close_all_at_end(&self) {
        if let Err(e) = self.close_all() {
            *self.unpublished.lock() = Some(e);
        }
    }

    pub fn allocate(&self, fh: u64, offset: u64, length: u64, mode: i32) -> Result<()> {
        let handle = self.handle(fh)?;
        let file = self.shared.lock().get(&handle.ino).and_then(|shared| shared.file.clone());
        // Other modes cannot be guaranteed.
        let file = file.ok_or(Errno::EOPNOTSUPP)?;
        let again = OpenOptions::new().write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let again = again.map_err(|_| Errno::EOPNOTSUPP)?;
        let mode = FallocateFlags::from_bits(mode as u32).ok_or(Errno::EOPNOTSUPP)?;
        rustix::fs::fallocate(&again, mode, offset, length).map_err(|e| Errno::from_i32(e.raw_os_error()))
    }

    /// Finds the next data or hole (`SEEK_DATA`, `SEEK_HOLE`).
    pub fn seek(&self, fh: u64, offset: u64, hole: bool) -> Result<u64> {
        let handle = self.handle(fh)?;
        let file = self.shared.lock().get(&handle.ino).and_then(|shared| shared.file.clone());
        let Some(file) = file else {
            // The whole file counts as data.
            let length = handle.length().map_err(number)?;
            return match (offset < length, hole) {
                (false, _) => Err(Errno::ENXIO),
                (true, true) => Ok(length),
                (true, false) => Ok(offset),
            };
        };
        let to = if hole { SeekFrom::Hole(offset) } else { SeekFrom::Data(offset) };
        rustix::fs::seek(&*file, to).map_err(|e| Errno::from_i32(e.raw_os_error()))
    }
}
