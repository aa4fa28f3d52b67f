//! Open files and folders behind placeholders: the layout's handle, and the lock on the offset.

use crate::border::{Fail, Outcome, tell, tell_always};
use crate::lock::Companion;
use crate::placeholder::{self, Description, Kind};
use crate::world::{Followed, Located, Place, World, current_world};
use libc::{c_int, mode_t};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, MutexGuard};
use thalweg_layout::{Attributes, Kind as LayoutKind, errno};
use thalweg_open_file::{Access, OpenFile, about};
use thalweg_types::ErrorKind;
use thalweg_types::mutex::Mutex;

/// An open file or folder of this process, with one or more descriptors.
pub struct OpenFileDescription {
    pub mount: usize,
    pub access: Access,
    what: What,
    /// Name in the layout and absolute path; both follow renames.
    names: Mutex<(String, String)>,
    /// The file was removed.
    gone: AtomicBool,
    /// A child or the parent process shares the description.
    pub shared: AtomicBool,
    /// `errno` of a failed publish that no call has reported; 0: none.
    pub failed: AtomicI32,
    /// Held by the call that moves the offset.
    turn: Mutex<()>,
    /// The lock object, after the first lock.
    pub lock: Mutex<Option<Arc<Companion>>>,
}

enum What {
    Folder,
    File(Mutex<Option<Arc<OpenFile>>>),
}

impl OpenFileDescription {
    fn new(place: &Place, access: Access, what: What) -> OpenFileDescription {
        OpenFileDescription {
            mount: place.mount,
            access,
            what,
            names: Mutex::new((place.name.clone(), place.path.clone())),
            gone: AtomicBool::new(false),
            shared: AtomicBool::new(false),
            failed: AtomicI32::new(0),
            turn: Mutex::new(()),
            lock: Mutex::new(None),
        }
    }

    /// A file that the previous program opened before `exec`.
    pub fn inherited(world: &World, told: &Description) -> Option<OpenFileDescription> {
        let Located::Ours(place) = world.locate(libc::AT_FDCWD, told.path.as_bytes()) else { return None };
        let what = if told.kind == Kind::Folder { What::Folder } else { What::File(Mutex::new(None)) };
        let open = OpenFileDescription::new(&place, told.access, what);
        open.shared.store(true, Ordering::Relaxed);
        Some(open)
    }

    /// The entry for a child of `fork`, which reopens the file at its first use.
    pub fn for_child(&self) -> OpenFileDescription {
        self.shared.store(true, Ordering::Relaxed);
        let what = if self.is_folder() { What::Folder } else { What::File(Mutex::new(None)) };
        let (name, path) = self.names().clone();
        let open = OpenFileDescription::new(&Place { mount: self.mount, name, path }, self.access.again(), what);
        open.shared.store(true, Ordering::Relaxed);
        open.gone.store(self.gone.load(Ordering::Relaxed), Ordering::Relaxed);
        let companion = self.companion_in_child().map(|c| c.in_child());
        *open.lock.lock() = companion.map(Arc::new);
        open
    }

    fn names(&self) -> MutexGuard<'_, (String, String)> {
        self.names.lock()
    }

    pub fn is_folder(&self) -> bool {
        matches!(self.what, What::Folder)
    }

    /// Whether the file was removed.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Absolute.
    pub fn path(&self) -> String {
        self.names().1.clone()
    }

    /// The current name and path.
    pub fn place(&self) -> Place {
        let (name, path) = self.names().clone();
        Place { mount: self.mount, name, path }
    }

    /// Whether the file has this name or lies below it.
    pub fn lies_below(&self, name: &str) -> bool {
        let names = self.names();
        !self.gone.load(Ordering::Relaxed) && crate::paths::under(name.as_bytes(), names.0.as_bytes())
    }

    fn handle(&self) -> Outcome<MutexGuard<'_, Option<Arc<OpenFile>>>> {
        match &self.what {
            What::Folder => Err(Errno::ISDIR.into()),
            What::File(handle) => Ok(handle.lock()),
        }
    }

    /// The layout's handle, opened at the first use if another process opened the file.
    pub fn file(&self) -> Outcome<Arc<OpenFile>> {
        let mut handle = self.handle()?;
        if let Some(file) = &*handle {
            return Ok(file.clone());
        }
        let world = current_world().ok_or(Fail(libc::EBADF))?;
        let place = self.place();
        if self.gone.load(Ordering::Relaxed) {
            tell(&format!("{}: removed files are not handed on to other processes", place.path));
            return Err(Errno::STALE.into());
        }
        let file = OpenFile::open(place.layout(world)?, &place.name, self.access.again(), None, world.writer);
        let file = Arc::new(file.map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                tell(&format!("{} was opened by another process and does not exist any more", place.path));
                Fail(libc::ESTALE)
            }
            _ => e.into(),
        })?);
        Ok(handle.insert(file).clone())
    }

    /// The lock object of a parent's entry, in a child of `fork`. `None` if a thread of the parent was creating it.
    pub fn companion_in_child(&self) -> Option<Arc<Companion>> {
        self.lock.try_lock().and_then(|known| known.clone())
    }

    pub fn companion(&self) -> Option<Arc<Companion>> {
        self.lock.lock().clone()
    }

    fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// The file, refreshed with writes of processes that share the description.
    fn caught_up(&self) -> Outcome<Arc<OpenFile>> {
        let file = self.file()?;
        if !self.is_shared() || !self.access.write {
            return Ok(file);
        }
        if !is_whole(&file) {
            file.refresh()?;
            return Ok(file);
        }
        drop(file);
        self.settle_all_of_it()?;
        self.file()
    }

    /// Refreshes the view, after a lock was taken and at a sync: bytes that others closed or synced become visible.
    pub fn see_others(&self) -> Outcome<()> {
        if self.is_folder() || self.gone.load(Ordering::Relaxed) {
            return Ok(());
        }
        let known = self.handle()?.clone();
        if known.as_ref().is_some_and(|file| is_whole(file)) {
            drop(known);
            return self.settle_all_of_it();
        }
        if let Some(file) = known.filter(|file| !file.access().write) {
            file.refresh()?;
        }
        // A write handle orders its writes after those of others only after its own refresh.
        let world = current_world().ok_or(Fail(libc::EBADF))?;
        world.open_below(&self.place()).iter().try_for_each(|open| open.publish())
    }

    /// Completes a sync: bytes that others closed or synced become visible.
    fn synced(&self) -> Outcome<()> {
        if self.gone.load(Ordering::Relaxed) {
            return Ok(());
        }
        let known = self.handle()?.clone();
        match known {
            Some(file) if is_whole(&file) => {
                drop(file);
                self.settle_all_of_it()
            }
            Some(file) if !file.access().write => self.unless_removed(file.refresh().map_err(Fail::from)),
            // The layout refreshes a handle that writes at its sync.
            _ => Ok(()),
        }
    }

    /// Whether a publish failed because another process removed the file, which is no error.
    fn is_removed(&self) -> bool {
        let Some(world) = current_world() else { return false };
        let place = self.place();
        let gone = |e: thalweg_types::Error| e.kind() == ErrorKind::NotFound;
        place
            .layout(world)
            .is_ok_and(|layout| layout.stat("").is_ok() && about::attributes(&**layout, &place.name).is_err_and(gone))
    }

    fn unless_removed(&self, outcome: Outcome<()>) -> Outcome<()> {
        match outcome {
            Err(Fail(libc::ENOENT | libc::EIO | libc::ESTALE)) if self.is_removed() => Ok(()),
            other => other,
        }
    }

    /// Closes all layout handles of the file: while one is open, new handles of this process see its bytes.
    fn settle_all_of_it(&self) -> Outcome<()> {
        let world = current_world().ok_or(Fail(libc::EBADF))?;
        for open in world.open_below(&self.place()) {
            open.settle()?;
        }
        Ok(())
    }

    /// `read`: at the offset, which moves.
    pub fn read(&self, fd: RawFd, pieces: &mut [&mut [u8]]) -> Outcome<usize> {
        if self.is_folder() {
            return Err(Errno::ISDIR.into());
        }
        if !self.access.read {
            return Err(Errno::BADF.into());
        }
        let _turn = self.take_turn();
        let file = self.caught_up()?;
        let at = placeholder::offset(borrow(fd))?;
        let got = read_pieces(&file, at, pieces)?;
        if got > 0 {
            placeholder::seek(borrow(fd), SeekFrom::Current(got as i64))?;
        }
        Ok(got)
    }

    /// `pread`.
    pub fn read_at(&self, at: i64, pieces: &mut [&mut [u8]]) -> Outcome<usize> {
        let at = u64::try_from(at).map_err(|_| Errno::INVAL)?;
        read_pieces(&*self.caught_up()?, at, pieces)
    }

    /// Whether `O_APPEND` is set, a flag of the shared description.
    fn appends(&self, fd: RawFd) -> Outcome<bool> {
        Ok(rustix::fs::fcntl_getfl(borrow(fd))?.contains(OFlags::APPEND))
    }

    /// `write`.
    pub fn write(&self, fd: RawFd, pieces: &[IoSlice<'_>]) -> Outcome<usize> {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        if !self.access.write {
            return Err(Errno::BADF.into());
        }
        if total == 0 {
            return Ok(0);
        }
        let _turn = self.take_turn();
        let file = self.to_write()?;
        if self.appends(fd)? {
            let end = self.append(&file, pieces)?;
            placeholder::seek(borrow(fd), SeekFrom::Start(end))?;
            drop(file);
            self.write_through()?;
            return Ok(total);
        }
        // The offset moves first: processes that share it write after this range.
        let end = placeholder::seek(borrow(fd), SeekFrom::Current(total as i64)).map_err(|e| match e {
            Errno::OVERFLOW | Errno::INVAL => Errno::FBIG,
            other => other,
        })?;
        let written = file.write_at(end - total as u64, pieces);
        if let Err(e) = written {
            let _ = placeholder::seek(borrow(fd), SeekFrom::Current(-(total as i64)));
            return Err(e.into());
        }
        self.wrote(&file)?;
        drop(file);
        self.write_through()?;
        Ok(total)
    }

    /// `pwrite`, which on Linux appends where `O_APPEND` is set.
    pub fn write_at(&self, fd: RawFd, at: i64, pieces: &[IoSlice<'_>]) -> Outcome<usize> {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let at = u64::try_from(at).map_err(|_| Errno::INVAL)?;
        if !self.access.write {
            return Err(Errno::BADF.into());
        }
        let file = self.to_write()?;
        if self.appends(fd)? {
            self.append(&file, pieces)?;
        } else {
            file.write_at(at, pieces)?;
            self.wrote(&file)?;
        }
        drop(file);
        self.write_through()?;
        Ok(total)
    }

    /// Completes a write: with `O_SYNC` it is flushed before the call returns.
    fn write_through(&self) -> Outcome<()> {
        if self.access.sync { self.sync() } else { Ok(()) }
    }

    /// `fsync` of a file.
    pub fn sync(&self) -> Outcome<()> {
        self.file()?.sync()?;
        self.synced()
    }

    fn append(&self, file: &OpenFile, pieces: &[IoSlice<'_>]) -> Outcome<u64> {
        if self.is_shared() && !is_whole(file) {
            file.refresh()?;
        }
        let end = file.append(pieces)?;
        if self.is_shared() {
            file.publish()?;
        } else {
            self.wrote(file)?;
        }
        Ok(end)
    }

    /// The file for a write; refreshed first on layouts that store a shared file as a whole.
    fn to_write(&self) -> Outcome<Arc<OpenFile>> {
        let file = self.file()?;
        match self.is_shared() && is_whole(&file) {
            true => {
                drop(file);
                self.caught_up()
            }
            false => Ok(file),
        }
    }

    fn wrote(&self, file: &OpenFile) -> Outcome<()> {
        if crate::process::is_ending() || self.is_shared() && is_whole(file) {
            file.publish()?;
        }
        Ok(())
    }

    /// `lseek`.
    pub fn seek(&self, fd: RawFd, to: i64, whence: c_int) -> Outcome<i64> {
        let _turn = self.take_turn();
        let back = |outcome: rustix::io::Result<u64>| outcome.map(|at| at as i64).map_err(Fail::from);
        if self.is_folder() {
            let to = u64::try_from(to).map_err(|_| Errno::INVAL)?;
            return back(placeholder::seek(borrow(fd), SeekFrom::Start(to)));
        }
        let from_end = |file: &OpenFile| -> Outcome<i64> { Ok(file.length()? as i64) };
        let start = match whence {
            libc::SEEK_SET => to,
            libc::SEEK_CUR => return back(placeholder::seek(borrow(fd), SeekFrom::Current(to))),
            libc::SEEK_END => from_end(&*self.caught_up()?)?.checked_add(to).ok_or(Errno::OVERFLOW)?,
            // The file is reported as one extent of data, as by filesystems without holes.
            libc::SEEK_DATA | libc::SEEK_HOLE => {
                let end = from_end(&*self.caught_up()?)?;
                match to {
                    to if to < 0 || to >= end => return Err(Errno::NXIO.into()),
                    to if whence == libc::SEEK_DATA => to,
                    _ => end,
                }
            }
            _ => return Err(Errno::INVAL.into()),
        };
        back(placeholder::seek(borrow(fd), SeekFrom::Start(u64::try_from(start).map_err(|_| Errno::INVAL)?)))
    }

    pub fn attributes(&self) -> Outcome<Attributes> {
        match &self.what {
            What::Folder => {
                let world = current_world().ok_or(Fail(libc::EBADF))?;
                let place = self.place();
                Ok(about::attributes(&**place.layout(world)?, &place.name)?)
            }
            What::File(_) => Ok(self.caught_up()?.attributes()?),
        }
    }

    /// Call before the file is unlinked or its name replaced.
    pub fn unlinked(&self) {
        if let Ok(file) = self.file() {
            file.unlinked();
        }
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Call after a rename of the file or of a folder above.
    pub fn renamed(&self, from: &Place, to: &Place) {
        let mut names = self.names();
        let rest = names.0[from.name.len()..].to_string();
        *names = (format!("{}{rest}", to.name), format!("{}{rest}", to.path));
        drop(names);
        if let Ok(handle) = self.handle()
            && let Some(file) = &*handle
        {
            file.renamed(&from.name, &to.name);
        }
    }

    /// Publishes written bytes; does not open a handle.
    pub fn publish(&self) -> Outcome<()> {
        let file = self.handle().ok().and_then(|handle| handle.clone());
        match file {
            Some(file) if self.access.write => self.unless_removed(file.publish().map_err(Fail::from)),
            _ => Ok(()),
        }
    }

    /// Closes the layout's handle; the next use reopens it.
    pub fn settle(&self) -> Outcome<()> {
        if self.is_folder() || self.gone.load(Ordering::Relaxed) {
            return Ok(());
        }
        let file = self.handle()?.take();
        self.unless_removed(close(file))
    }

    /// Closes the file, after its last descriptor.
    pub fn close(self) -> Outcome<()> {
        match self.is_folder() {
            true => Ok(()),
            false => {
                let file = self.handle()?.take();
                self.unless_removed(close(file))?;
                match self.failed.load(Ordering::Relaxed) {
                    0 => Ok(()),
                    number => Err(Fail(number)),
                }
            }
        }
    }
}

/// Whether the layout stores the file as a whole (the last close wins), so that open files do not see writes of other processes.
fn is_whole(file: &OpenFile) -> bool {
    file.name().is_some_and(|name| file.layout().keeps_whole(&name))
}

/// Closes a handle. If another thread is using it, written bytes are published and that thread's drop closes the handle.
fn close(file: Option<Arc<OpenFile>>) -> Outcome<()> {
    let Some(file) = file else { return Ok(()) };
    match Arc::try_unwrap(file) {
        Ok(file) => Ok(file.close()?),
        Err(file) if file.access().write => Ok(file.publish()?),
        Err(_) => Ok(()),
    }
}

/// Closes an open file if this was its last descriptor.
pub fn drop_one(open: Option<Arc<OpenFileDescription>>) -> Outcome<()> {
    match open.and_then(Arc::into_inner) {
        Some(open) => open.close(),
        None => Ok(()),
    }
}

/// [`drop_one`] for `close`, `dup2` and `close_range`. Programs may ignore the result of `close`, and the other two report no failure:
/// if written bytes are lost, a line on standard error says so, and the process does not exit with 0.
///
/// # Errors
/// As [`OpenFileDescription::close`].
pub fn drop_last(open: Option<Arc<OpenFileDescription>>) -> Outcome<()> {
    let written = open.as_ref().filter(|open| open.access.write).map(|open| open.path());
    let outcome = drop_one(open);
    if let (Err(fail), Some(path)) = (outcome, written) {
        tell_loss(&path, fail);
        thalweg_exit_status::record_loss();
    }
    outcome
}

fn tell_loss(path: &str, Fail(number): Fail) {
    tell_always(&format!("{path}: written bytes are lost: {}", std::io::Error::from_raw_os_error(number)));
}

fn read_pieces(file: &OpenFile, at: u64, pieces: &mut [&mut [u8]]) -> Outcome<usize> {
    let mut done = 0;
    for piece in pieces {
        let got = file.read_at(at.checked_add(done as u64).ok_or(Errno::INVAL)?, piece)?;
        done += got;
        if got < piece.len() {
            break;
        }
    }
    Ok(done)
}

#[allow(unsafe_code)]
pub fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: a number that the program uses as a descriptor; the system checks it.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// `open` of a path under a mount; symbolic links may lead out of the mount.
pub fn open(world: &World, place: &Place, flags: c_int, mode: mode_t) -> Outcome<RawFd> {
    let ends_at_link = |fail: &Fail| flags & libc::O_NOFOLLOW != 0 && fail.0 == libc::ELOOP;
    let opened = world.follow(place, |place| match open_here(world, place, flags, mode) {
        Err(fail) if ends_at_link(&fail) => Ok(Err(fail)),
        outcome => outcome.map(Ok),
    })?;
    match opened {
        Followed::Here(outcome) => outcome,
        Followed::Outside(path) => {
            let fd = rustix::fs::open(&*path, OFlags::from_bits_retain(flags as u32), Mode::from_raw_mode(mode))?;
            Ok(fd.into_raw_fd())
        }
    }
}

fn open_here(world: &World, place: &Place, flags: c_int, mode: mode_t) -> Outcome<RawFd> {
    let close_on_exec = flags & libc::O_CLOEXEC != 0;
    if let Some(plain) = world.plain(place)? {
        // The underlying file may be the target of a link.
        let stays =
            flags & libc::O_NOFOLLOW != 0 || flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL;
        if stays && place.layout(world)?.attributes(&place.name).is_ok_and(|about| about.kind == LayoutKind::Link) {
            return Err(if flags & libc::O_NOFOLLOW != 0 { Errno::LOOP } else { Errno::EXIST }.into());
        }
        match open_plain(&plain, flags, mode)? {
            Some(fd) => return Ok(fd),
            None => return folder(world, place, close_on_exec),
        }
    }
    let layout = place.layout(world)?;
    let access = Access::of_flags(flags)?;
    if access.directory {
        return match layout.stat(&place.name)?.is_folder {
            true => folder(world, place, close_on_exec),
            false => Err(Errno::NOTDIR.into()),
        };
    }
    let mode = mode & !crate::process::umask();
    let file = match OpenFile::open(layout, &place.name, access, Some(mode), world.writer) {
        Ok(file) => file,
        Err(e) => {
            return match errno::of(&e) {
                libc::EISDIR if !access.write && !access.create => folder(world, place, close_on_exec),
                _ => Err(e.into()),
            };
        }
    };
    let told = Description { kind: Kind::File, access, path: place.path.clone() };
    let open = OpenFileDescription::new(place, access, What::File(Mutex::new(Some(Arc::new(file)))));
    hand_out(world, &told, open, close_on_exec)
}

fn folder(world: &World, place: &Place, close_on_exec: bool) -> Outcome<RawFd> {
    let told = Description { kind: Kind::Folder, access: Access::READ, path: place.path.clone() };
    hand_out(world, &told, OpenFileDescription::new(place, Access::READ, What::Folder), close_on_exec)
}

fn hand_out(world: &World, told: &Description, open: OpenFileDescription, close_on_exec: bool) -> Outcome<RawFd> {
    let fd = placeholder::make(told, close_on_exec)?;
    match crate::table::insert(world, fd, Arc::new(open)) {
        Ok(before) => {
            // The descriptor was closed by a call that is not hooked.
            drop_one(before)?;
            Ok(fd)
        }
        Err(fail) => {
            close_raw(fd);
            Err(fail)
        }
    }
}

#[allow(unsafe_code)]
pub fn close_raw(fd: RawFd) {
    // SAFETY: a descriptor without other users.
    unsafe { rustix::io::close(fd) };
}

/// Opens the underlying file of a name; `None` for a folder, whose descriptor programs never get.
fn open_plain(path: &Path, flags: c_int, mode: mode_t) -> Outcome<Option<RawFd>> {
    let fd = rustix::fs::open(path, OFlags::from_bits_retain(flags as u32), Mode::from_raw_mode(mode))?;
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    let is_folder = !writes
        && rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) == rustix::fs::FileType::Directory;
    Ok(if is_folder { None } else { Some(fd.into_raw_fd()) })
}

/// Calls [`OpenFileDescription::publish`] on all open files.
///
/// A failure is one line on standard error: the handle keeps the bytes, and its `fsync` or `close` reports the outcome.
pub fn publish_all(world: &World) {
    let _ = each(world, OpenFileDescription::publish);
}

/// Releases all locks at exit; the last user of a lock object removes it.
pub fn unlock_all(world: &World) {
    let _ = each(world, |open| {
        drop(open.lock.lock().take());
        Ok(())
    });
}

/// Ends this process's logs and returns their reserved space.
///
/// # Errors
/// The first failure, after all logs were tried; each failure is a line on standard error.
pub fn end_logs(world: &World) -> Outcome<()> {
    let mut outcome = Ok(());
    for mounted in &*world.mounts {
        if let Err(e) = mounted.mount.finish() {
            tell_always(&format!("ending logs: {e}"));
            outcome = outcome.and(Err(e.into()));
        }
    }
    outcome
}

/// [`OpenFileDescription::settle`] of each.
///
/// # Errors
/// As [`end_logs`].
pub fn settle_all(world: &World) -> Outcome<()> {
    each(world, OpenFileDescription::settle)
}

fn each(world: &World, what: impl Fn(&OpenFileDescription) -> Outcome<()>) -> Outcome<()> {
    let mut outcome = Ok(());
    if !crate::table::any() {
        return outcome;
    }
    let all: Vec<Arc<OpenFileDescription>> = {
        let table = world.table.read();
        table.all().cloned().collect()
    };
    for open in all {
        if let Err(fail) = what(&open) {
            tell_loss(&open.path(), fail);
            outcome = outcome.and(Err(fail));
        }
    }
    outcome
}
