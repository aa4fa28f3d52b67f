//! Passes the kernel's requests to the door and encodes the replies.

use crate::door::{Caller, Door, LockRequest, now};
use crate::readers::Readers;
use crate::settings::Cache;
use fuser::{
    Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner,
    OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;
use thalweg_layout::{Change, SetXattr};

/// Largest write and largest read, in bytes.
const LONGEST: u32 = 1 << 20;
/// Largest depth of stacked filesystems for passthrough, this mount included.
const DEPTH: u32 = 2;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;
const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;

/// Answers the kernel's requests.
pub struct Kernel(pub Arc<Door>, pub Arc<Readers>);

thread_local! {
    /// Buffer for the bytes of a read.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid() }
}

fn time(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => now(),
    }
}

/// Replies with the value, or with its size if the kernel requests only that.
fn value(reply: ReplyXattr, size: u32, value: Result<Vec<u8>, Errno>) {
    match value {
        Err(e) => reply.error(e),
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}

fn done(reply: ReplyEmpty, outcome: Result<(), Errno>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

impl Kernel {
    fn entry(&self, reply: ReplyEntry, entry: Result<crate::door::Entry, Errno>) {
        match entry {
            Ok(entry) => reply.entry(&self.0.timeout(), &entry.attributes, Generation(entry.generation)),
            Err(e) => reply.error(e),
        }
    }
}

impl Filesystem for Kernel {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        use InitFlags as F;
        for flag in [
            // Always: on every layout the type of an entry, which a plain listing also needs, costs as much as its
            // attributes.
            F::FUSE_DO_READDIRPLUS,
            F::FUSE_PARALLEL_DIROPS,
            F::FUSE_ASYNC_DIO,
            // The door clears setuid and setgid bits: else the kernel requests an attribute before each write.
            F::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            // Capabilities that this kernel lacks are left out.
            let _ = config.add_capabilities(flag);
        }
        // Kernels with this capability invalidate cached pages of direct writes.
        let drops = config.add_capabilities(F::FUSE_DIRECT_IO_ALLOW_MMAP).is_ok();
        self.0.drops_what_is_written.store(drops, Ordering::Relaxed);
        if self.0.settings.locks {
            let _ = config.add_capabilities(F::FUSE_POSIX_LOCKS);
            let _ = config.add_capabilities(F::FUSE_FLOCK_LOCKS);
        }
        match self.0.settings.cache {
            Cache::Through => {}
            Cache::Writeback => {
                let _ = config.add_capabilities(F::FUSE_WRITEBACK_CACHE);
            }
            Cache::Passthrough => {
                let can = config.add_capabilities(F::FUSE_PASSTHROUGH).is_ok();
                let deep = config.set_max_stack_depth(DEPTH).is_ok();
                self.0.passthrough.store(can && deep, Ordering::Relaxed);
            }
        }
        let _ = config.set_max_write(LONGEST);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn destroy(&mut self) {
        self.0.close_all_at_end();
    }

    fn lookup(&self, _request: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.1.begin();
        self.entry(reply, self.0.lookup(folder.0, name));
    }

    fn forget(&self, _request: &Request, ino: INodeNo, times: u64) {
        // One message may contain many of these requests, each of which is short: no turn.
        self.0.forget(ino.0, times);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let _turn = self.1.begin();
        match self.0.attributes(ino.0) {
            Ok((attributes, holds)) => reply.attr(&holds, &attributes),
            Err(e) => reply.error(e),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _turn = self.1.begin();
        let mode = mode.map(|mode| mode & 0o7777);
        let change = Change { mode, uid, gid, atime: atime.map(time), mtime: mtime.map(time) };
        match self.0.change(ino.0, change, size, fh.map(|fh| fh.0), caller(request)) {
            Ok(attributes) => reply.attr(&self.0.timeout(), &attributes),
            Err(e) => reply.error(e),
        }
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        let _turn = self.1.begin();
        match self.0.read_link(ino.0) {
            Ok(target) => reply.data(target.as_bytes()),
            Err(e) => reply.error(e),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.1.begin();
        self.entry(reply, self.0.make_node(folder.0, name, mode, caller(request)));
    }

    fn mkdir(&self, request: &Request, folder: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let _turn = self.1.begin();
        self.entry(reply, self.0.make_folder(folder.0, name, mode, caller(request)));
    }

    fn unlink(&self, _request: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.1.begin();
        done(reply, self.0.remove(folder.0, name));
    }

    fn rmdir(&self, _request: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.1.begin();
        done(reply, self.0.remove(folder.0, name));
    }

    fn symlink(&self, request: &Request, folder: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let _turn = self.1.begin();
        self.entry(reply, self.0.make_link(folder.0, name, target.as_os_str(), caller(request)));
    }

    fn rename(
        &self,
        _request: &Request,
        folder: INodeNo,
        name: &OsStr,
        to_folder: INodeNo,
        to: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _turn = self.1.begin();
        let replace = match flags {
            flags if flags.is_empty() => true,
            RenameFlags::RENAME_NOREPLACE => false,
            _ => return reply.error(Errno::EINVAL),
        };
        done(reply, self.0.rename(folder.0, name, to_folder.0, to, replace));
    }

    fn link(&self, _request: &Request, ino: INodeNo, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.1.begin();
        self.entry(reply, self.0.make_hard_link(ino.0, folder.0, name));
    }

    fn open(&self, _request: &Request, ino: INodeNo, how: OpenFlags, reply: ReplyOpen) {
        let _turn = self.1.begin();
        let writing = how.acc_mode() != OpenAccMode::O_RDONLY;
        match self.0.open(ino.0, writing) {
            Err(e) => reply.error(e),
            Ok(fh) => {
                let flags = self.0.flags(ino.0, writing);
                match self.0.backing(ino.0, |file| reply.open_backing(file)) {
                    Some(backing) => reply.opened_passthrough(FileHandle(fh), flags, &backing),
                    None => reply.opened(FileHandle(fh), flags | self.0.open_flags(how.0)),
                }
            }
        }
    }

    fn create(
        &self,
        request: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        how: i32,
        reply: ReplyCreate,
    ) {
        let _turn = self.1.begin();
        match self.0.create(folder.0, name, mode, how, caller(request)) {
            Err(e) => reply.error(e),
            Ok((entry, fh)) => {
                let (timeout, generation, fh) = (self.0.timeout(), Generation(entry.generation), FileHandle(fh));
                let about = &entry.attributes;
                let flags = self.0.flags(about.ino.0, true);
                match self.0.backing(about.ino.0, |file| reply.open_backing(file)) {
                    Some(backing) => {
                        reply.created_passthrough(&timeout, about, generation, fh, flags, &backing);
                    }
                    None => reply.created(&timeout, about, generation, fh, flags | self.0.open_flags(how)),
                }
            }
        }
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _turn = self.1.begin();
        BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            match self.0.read(fh.0, offset, &mut buffer[..size]) {
                Ok(got) => reply.data(&buffer[..got]),
                Err(e) => reply.error(e),
            }
        });
    }

    fn write(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        bytes: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _turn = self.1.begin();
        match self.0.write(fh.0, offset, bytes, flags.0, write_flags) {
            // The kernel sends at most `LONGEST` bytes.
            Ok(()) => reply.written(bytes.len() as u32),
            Err(e) => reply.error(e),
        }
    }

    fn flush(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, owner: LockOwner, reply: ReplyEmpty) {
        let _turn = self.1.begin();
        done(reply, self.0.flush(fh.0, owner.0));
    }

    fn getlk(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        let _turn = self.1.begin();
        match LockRequest::range(fh.0, owner.0, start, end, kind).and_then(|asked| self.0.test_lock(&asked)) {
            Ok(None) => reply.locked(start, end, LockRequest::UNLOCKED, pid),
            Ok(Some((start, end, kind, pid))) => reply.locked(start, end, kind, pid),
            Err(e) => reply.error(e),
        }
    }

    fn setlk(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        _pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.1.begin();
        let asked = match LockRequest::range(fh.0, owner.0, start, end, kind) {
            Ok(asked) => asked.by(request.pid(), sleep),
            Err(e) => return reply.error(e),
        };
        if asked.gives_up() {
            return done(reply, self.0.lock(&asked));
        }
        // In a thread of its own: a waiting lock blocks no other request, among them the kernel's requests for pages that
        // the lock invalidates.
        let door = self.0.clone();
        let thread = std::thread::Builder::new().name("lock".into());
        let reply = Arc::new(thalweg_types::mutex::Mutex::new(Some(reply)));
        let given = reply.clone();
        let take = move || given.lock().take();
        let spawned = thread.spawn(move || {
            let outcome = door.lock(&asked);
            take().into_iter().for_each(|reply| done(reply, outcome));
        });
        if spawned.is_err() {
            let left = reply.lock().take();
            left.into_iter().for_each(|reply| reply.error(Errno::ENOLCK));
        }
    }

    fn release(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.1.begin();
        done(reply, self.0.release(fh.0));
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        let _turn = self.1.begin();
        done(reply, self.0.sync(fh.0));
    }

    fn opendir(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let _turn = self.1.begin();
        match self.0.open_folder(ino.0) {
            Ok(fh) => reply.opened(FileHandle(fh), FopenFlags::empty()),
            Err(e) => reply.error(e),
        }
    }

    fn readdir(&self, _request: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let _turn = self.1.begin();
        let names = match self.0.names(ino.0, fh.0, offset == 0) {
            Ok(names) => names,
            Err(e) => return reply.error(e),
        };
        let dots = [(".", ino.0), ("..", self.0.folder_of(ino.0))];
        for (at, (name, number)) in dots.into_iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(number), at as u64 + 1, fuser::FileType::Directory, name) {
                return reply.ok();
            }
        }
        for (at, name) in names.iter().enumerate().skip((offset as usize).saturating_sub(2)) {
            let Some((number, kind)) = self.0.listed(ino.0, name) else { continue };
            if reply.add(INodeNo(number), at as u64 + 3, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _turn = self.1.begin();
        let names = match self.0.names(ino.0, fh.0, offset == 0) {
            Ok(names) => names,
            Err(e) => return reply.error(e),
        };
        let timeout = self.0.timeout();
        let dots = [(".", ino.0), ("..", self.0.folder_of(ino.0))];
        for (at, (name, number)) in dots.into_iter().enumerate().skip(offset as usize) {
            // Without a lookup: the kernel does not count lookups of these names.
            let (about, holds) = match self.0.attributes(number) {
                Ok(known) => known,
                Err(e) => return reply.error(e),
            };
            if reply.add(INodeNo(number), at as u64 + 1, name, &holds, &about, Generation(0)) {
                return reply.ok();
            }
        }
        let from = (offset as usize).saturating_sub(2).min(names.len());
        self.0.list_plus(ino.0, fh.0, &names, from, &mut |at, entry| {
            let (about, generation) = (&entry.attributes, Generation(entry.generation));
            reply.add(about.ino, at as u64 + 3, &names[at], &timeout, about, generation)
        });
        reply.ok();
    }

    fn releasedir(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        let _turn = self.1.begin();
        self.0.release_folder(fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, _request: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        let _turn = self.1.begin();
        done(reply, self.0.sync_folder(ino.0));
    }

    fn statfs(&self, _request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let _turn = self.1.begin();
        const BLOCK: u64 = 4096;
        match self.0.space(ino.0) {
            Some(s) => {
                let (bytes, free, available) = (s.bytes / BLOCK, s.free / BLOCK, s.available / BLOCK);
                reply.statfs(bytes, free, available, s.objects, s.objects_free, BLOCK as u32, 255, BLOCK as u32);
            }
            None => reply.statfs(0, 0, 0, 0, 0, BLOCK as u32, 255, BLOCK as u32),
        }
    }

    fn setxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        key: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.1.begin();
        let how = match flags & (XATTR_CREATE | XATTR_REPLACE) {
            0 => SetXattr::Any,
            XATTR_CREATE => SetXattr::New,
            XATTR_REPLACE => SetXattr::Existing,
            _ => return reply.error(Errno::EINVAL),
        };
        done(reply, self.0.set_xattr(ino.0, key, value, how));
    }

    fn getxattr(&self, _request: &Request, ino: INodeNo, key: &OsStr, size: u32, reply: ReplyXattr) {
        let _turn = self.1.begin();
        value(reply, size, self.0.xattr(ino.0, key));
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let _turn = self.1.begin();
        value(reply, size, self.0.xattrs(ino.0));
    }

    fn removexattr(&self, _request: &Request, ino: INodeNo, key: &OsStr, reply: ReplyEmpty) {
        let _turn = self.1.begin();
        done(reply, self.0.remove_xattr(ino.0, key));
    }

    fn fallocate(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.1.begin();
        done(reply, self.0.allocate(fh.0, offset, length, mode));
    }

    fn lseek(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let _turn = self.1.begin();
        let outcome = match (whence, u64::try_from(offset)) {
            (SEEK_DATA, Ok(offset)) => self.0.seek(fh.0, offset, false),
            (SEEK_HOLE, Ok(offset)) => self.0.seek(fh.0, offset, true),
            (SEEK_DATA | SEEK_HOLE, Err(_)) => Err(Errno::ENXIO),
            _ => Err(Errno::EINVAL),
        };
        match outcome {
            Ok(at) => reply.offset(i64::try_from(at).unwrap_or(i64::MAX)),
            Err(e) => reply.error(e),
        }
    }

    fn ioctl(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        let _turn = self.1.begin();
        reply.error(Errno::ENOTTY);
    }
}
