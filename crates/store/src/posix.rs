//! Files below a folder of a POSIX filesystem, or anywhere by plain paths.
//!
//! | question | answer |
//! |----------|--------|
//! | names    | [`Posix::at`]: relative to its folder, which they cannot leave (symbolic links aside); [`Posix::plain`]: paths as the system reads them |
//! | long paths | any length on Linux: the system's limit of 4095 bytes does not apply to names in the store |
//! | a write  | `pwritev` from the caller's memory, up to 1024 pieces and 1 GiB a call, repeated until all is written |
//! | atomic   | `rename` replaces; nothing else: a killed process leaves any prefix of its last write |
//! | `sync`   | `fdatasync`: bytes and length survive a power cut; the name only after `sync_folder` (`fsync` of the folder) |
//! | `reserve` | `fallocate`, on Linux: writing new files of hundreds of MiB became 20 to 40 % faster (ext4, page cache) |
//! | `punch`  | `fallocate` with `PUNCH_HOLE`, on Linux; a filesystem without it keeps the bytes |
//! | `stored_before` | `lseek` with `SEEK_DATA`, on Linux; reserved space that was never written is a hole. A filesystem that does not know its holes has none. OpenZFS before 2.1.14 and 2.2.2 may call bytes a hole that were written a moment ago |
//! | attributes | the filesystem's own; functions on attributes do not follow symbolic links |
//! | identity | device, inode and birth time in one number; comparable within one process |
//! | `lease`, `lock` | locks of the open file far behind its end, on Linux (`lock`). A lease ends with its process, even if children of the process live on. On filesystems of one machine a file without such a lock has no lease; on others the store cannot tell |
//! | `reopen` | through the process' own folder of descriptors (`/proc/self/fd`), on Linux: the same file, even if its name was changed or removed |
//! | full     | `NoSpace` with object and first byte not written; earlier bytes stay |
//! | `close`  | reports the system's error: network filesystems and quotas may refuse bytes as late as that |
//! | network filesystems | may report a failed write only at `close` or `sync` |

use crate::lustre;
use crate::pieces::{self, Rest};
use crate::{
    Attributes, Capability, Change, Durability, Kind, Lease, Life, ListConsistency, OpenWrite, ReadObject, Rename,
    SetXattr, Space, Stat, Store, Visible, WriteObject, name,
};
use lock::Leases;
use reach::Reach;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thalweg_types::{Error, ErrorKind, Result};

mod attributes;
#[cfg(target_os = "linux")]
mod forked;
mod lock;
mod reach;

/// Most pieces that one system call takes on Linux and elsewhere.
const MOST_PIECES: usize = 1024;
/// Most bytes handed to one system call: below every system's limit, so that large writes need no special case.
const MOST_BYTES: u64 = 1 << 30;

/// Files of a POSIX filesystem. See the module's page.
#[derive(Debug, Clone)]
pub struct Posix {
    root: Option<PathBuf>,
}

impl Posix {
    /// Files below `root`, a folder that exists.
    ///
    /// # Errors
    /// `NotFound` where there is no such folder.
    pub fn at(root: impl Into<PathBuf>) -> Result<Posix> {
        let root = root.into();
        let about = fs::metadata(&root).map_err(|e| failed("open the store's folder", &root, e))?;
        if !about.is_dir() {
            return Err(Error::new(ErrorKind::NotFound, "the store's folder is a file").in_object(shown(&root)));
        }
        Ok(Posix { root: Some(root) })
    }

    fn open_reading(&self, name: &str, more: OFlags) -> Result<Box<dyn ReadObject>> {
        let path = self.path(name)?;
        // Without the flag, opening a pipe waits for a writer; for files the flag has no effect.
        let flags = (OFlags::NONBLOCK | more).bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        let file = file.map_err(|e| failed("open", &path, e))?;
        let about = file.metadata().map_err(|e| failed("open", &path, e))?;
        if about.is_dir() {
            return Err(failed("open", &path, io::ErrorKind::IsADirectory.into()));
        }
        no_pipe(&about, &path)?;
        Ok(Box::new(PosixHandle::new(file, path.into_whole())))
    }

    /// Files by plain paths: absolute, or relative to the current folder of the process.
    pub fn plain() -> Posix {
        Posix { root: None }
    }

    fn path(&self, name: &str) -> Result<Reach> {
        match &self.root {
            Some(root) => Reach::of(root.join(&*name::relative(name)?)),
            None if name.is_empty() => Reach::of(PathBuf::from(".")),
            None => Reach::of(PathBuf::from(name)),
        }
    }
}

impl Store for Posix {
    fn describe(&self) -> String {
        match &self.root {
            Some(root) => format!("posix:{}", root.display()),
            None => "posix:".into(),
        }
    }

    /// With the folders' real names: a working directory that a link leads to is another one for other programs.
    fn url(&self, name: &str) -> Option<String> {
        let path = match &self.root {
            Some(root) => root.join(&*name::relative(name).ok()?),
            None => PathBuf::from(name),
        };
        let real = fs::canonicalize(path).ok()?;
        Some(format!("file://{}", real.to_str()?))
    }

    fn capability(&self) -> Capability {
        Capability {
            write_at: true,
            append: true,
            truncate: true,
            punch: cfg!(target_os = "linux"),
            rename: Rename::Atomic,
            rename_folder: true,
            durability: Durability::Device,
            visible: Visible::AtWrite,
            whole: false,
            exclusive: true,
            list: ListConsistency::Strong,
            attributes: true,
            modes: true,
            moves: false,
            largest_object: i64::MAX as u64,
        }
    }

    fn open_write(&self, name: &str, how: OpenWrite) -> Result<Box<dyn WriteObject>> {
        self.open_write_as(name, how, 0o666)
    }

    fn open_write_as(&self, name: &str, how: OpenWrite, mode: u32) -> Result<Box<dyn WriteObject>> {
        let path = self.path(name)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(mode & 0o7777);
        match how {
            OpenWrite::Replace => options.create(true).truncate(true),
            OpenWrite::New => options.create_new(true),
            OpenWrite::Existing => &mut options,
            OpenWrite::Any => options.create(true),
        };
        let file = options.open(&path).map_err(|e| failed("open for writing", &path, e))?;
        Ok(Box::new(PosixHandle::new(file, path.into_whole())))
    }

    fn reopens(&self) -> bool {
        cfg!(target_os = "linux")
    }

    fn open_read(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        self.open_reading(name, OFlags::empty())
    }

    #[cfg(target_os = "linux")]
    fn open_copied(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        match self.open_reading(name, OFlags::NOATIME) {
            // The flag is the owner's.
            Err(e) if e.kind() == ErrorKind::PermissionDenied => self.open_read(name),
            outcome => outcome,
        }
    }

    fn open_known(&self, name: &str) -> Result<(Attributes, Option<Box<dyn ReadObject>>)> {
        let path = self.path(name)?;
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(failed("open", &path, e));
            }
            // A symbolic link, or a folder that this process may not list.
            Err(e) => {
                let about = self.attributes_of(&path)?;
                return if about.kind == Kind::File { Err(failed("open", &path, e)) } else { Ok((about, None)) };
            }
        };
        let about = file.metadata().map_err(|e| failed("read attributes", &path, e))?;
        let told = attributes::of(&about);
        if told.kind != Kind::File {
            return Ok((told, None));
        }
        no_pipe(&about, &path)?;
        Ok((told, Some(Box::new(PosixHandle::new(file, path.into_whole())))))
    }

    fn stat(&self, name: &str) -> Result<Stat> {
        let path = self.path(name)?;
        let about = fs::metadata(&path).map_err(|e| failed("stat", &path, e))?;
        let is_folder = about.is_dir();
        let length = if is_folder { 0 } else { about.len() };
        Ok(Stat { length, is_folder, identity: identity(&about) })
    }

    /// Names that are not UTF-8 are left out: this trait cannot open them.
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.path(folder)?;
        let mut names = names_in(&path).map_err(|e| failed("list", &path, e))?;
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.path(from)?, self.path(to)?);
        fs::rename(&from, &to).map_err(|e| {
            let what = format!("rename to {}", shown(&to));
            // A folder renamed over a file, rather than a name below a file.
            match e.kind() == io::ErrorKind::NotADirectory && fs::symlink_metadata(&to).is_ok() {
                true => Error::new(ErrorKind::InvalidArgument, format!("cannot {what}"))
                    .caused_by(e)
                    .in_object(shown(&from)),
                false => failed(&what, &from, e),
            }
        })
    }

    #[cfg(target_os = "linux")]
    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        let (from_path, to_path) = (self.path(from)?, self.path(to)?);
        match renameat_with(CWD, &*from_path, CWD, &*to_path, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            // The filesystem or the system lacks the flag.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                Err(crate::unsupported(&self.describe(), "rename to a free name only", from))
            }
            Err(e) => Err(failed(&format!("rename to {}", shown(&to_path)), &from_path, e.into())),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        if name::relative(name).is_ok_and(|name| name.is_empty()) {
            return Err(Error::new(ErrorKind::InvalidArgument, "cannot remove the store's own folder"));
        }
        let path = self.path(name)?;
        let removed = match fs::remove_file(&path) {
            // The error of a folder, among others.
            Err(e) if matches!(e.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::PermissionDenied) => {
                match fs::symlink_metadata(&path).is_ok_and(|about| about.is_dir()) {
                    true => fs::remove_dir(&path),
                    false => Err(e),
                }
            }
            outcome => outcome,
        };
        removed.map_err(|e| failed("remove", &path, e))
    }

    fn make_folder(&self, name: &str) -> Result<()> {
        let path = self.path(name)?;
        let made = match fs::create_dir_all(&path) {
            // Also if the standard library could not inspect the existing object.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => match fs::metadata(&path) {
                Ok(about) if about.is_dir() => Ok(()),
                Ok(_) => Err(e),
                Err(looked) if looked.kind() == io::ErrorKind::NotFound => fs::create_dir_all(&path),
                Err(looked) => Err(looked),
            },
            made => made,
        };
        made.map_err(|e| failed("make folder", &path, e))
    }

    fn make_new_folder(&self, name: &str) -> Result<bool> {
        match fs::create_dir(self.path(name)?) {
            Ok(()) => Ok(true),
            // If folders above are missing, another process may make this one meanwhile.
            Err(_) => self.make_folder(name).map(|()| false),
        }
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        let path = self.path(folder)?;
        let opened =
            rustix::fs::open(&*path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, rustix::fs::Mode::empty());
        let opened = match (opened, &self.root) {
            // This process may not read the folder: the whole filesystem is made durable.
            (Err(rustix::io::Errno::ACCESS), Some(root)) => {
                let root = File::open(root).map_err(|e| failed("sync folder", &path, e))?;
                return sync_all(&root).map_err(|e| failed("sync folder", &path, e));
            }
            (opened, _) => opened.map_err(|e| failed("sync folder", &path, e.into()))?,
        };
        match rustix::fs::fsync(&opened) {
            // Filesystems that cannot sync folders make names durable by themselves.
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(e) => Err(failed("sync folder", &path, e.into())),
        }
    }

    #[cfg(target_os = "linux")]
    fn targets(&self, folder: &str) -> Result<Option<u32>> {
        let path = self.path(folder)?;
        lustre::targets(&lustre::System, &path).map_err(|e| failed("count storage targets of", &path, e))
    }

    #[cfg(target_os = "linux")]
    fn make_on_target(&self, name: &str, target: u32, stripe: u64) -> Result<bool> {
        let path = self.path(name)?;
        let made = lustre::make_on(&lustre::System, &path, target, stripe);
        made.map_err(|e| failed(&format!("make on storage target {target}"), &path, e))
    }

    fn make_one_folder(&self, name: &str, mode: u32) -> Result<()> {
        let path = self.path(name)?;
        let mode = rustix::fs::Mode::from_raw_mode((mode & 0o7777) as _);
        rustix::fs::mkdir(&*path, mode).map_err(|e| failed("make folder", &path, e.into()))
    }

    fn plain_file(&self, name: &str) -> Option<PathBuf> {
        self.path(name).ok()?.plain()
    }

    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.path(from)?, self.path(to)?);
        fs::hard_link(&from, &to).map_err(|e| failed(&format!("make a hard link {}", shown(&to)), &from, e))
    }

    fn lock(&self, name: &str, wait: bool) -> Result<Option<Lease>> {
        let path = self.path(name)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|e| failed("open for locking", &path, e))?;
        match lock::exclusive(&file, wait) {
            Ok(true) => Ok(Some(Lease::new(file))),
            Ok(false) => Ok(None),
            Err(e) => Err(failed("lock", &path, e)),
        }
    }

    fn attributes(&self, name: &str) -> Result<Attributes> {
        self.attributes_of(&self.path(name)?)
    }

    fn set_attributes(&self, name: &str, change: &Change) -> Result<()> {
        self.change(&self.path(name)?, change)
    }

    fn make_link(&self, target: &str, name: &str) -> Result<()> {
        self.link(target, &self.path(name)?)
    }

    fn read_link(&self, name: &str) -> Result<String> {
        self.target(&self.path(name)?)
    }

    fn xattr(&self, name: &str, key: &str) -> Result<Option<Vec<u8>>> {
        self.xattr_of(&self.path(name)?, key)
    }

    fn set_xattr(&self, name: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        self.set_xattr_of(&self.path(name)?, key, value, how)
    }

    fn list_xattrs(&self, name: &str) -> Result<Vec<String>> {
        self.xattrs_of(&self.path(name)?)
    }

    fn remove_xattr(&self, name: &str, key: &str) -> Result<()> {
        self.remove_xattr_of(&self.path(name)?, key)
    }

    fn space(&self, folder: &str) -> Result<Space> {
        self.space_of(&self.path(folder)?)
    }
}

/// A file, open.
struct PosixHandle {
    /// Dropped before the file.
    leases: Leases,
    file: File,
    path: PathBuf,
}

/// Allocation or release of the space of a run of bytes; the file's length stays.
enum Blocks {
    Take,
    GiveBack,
}

impl PosixHandle {
    fn new(file: File, path: PathBuf) -> PosixHandle {
        PosixHandle { leases: Leases::default(), file, path }
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, blocks: Blocks, offset: u64, length: u64) -> io::Result<()> {
        use rustix::{fs::FallocateFlags, io::Errno};
        let length = length.min((i64::MAX as u64).saturating_sub(offset));
        if length == 0 {
            return Ok(());
        }
        let how = match blocks {
            Blocks::Take => FallocateFlags::KEEP_SIZE,
            Blocks::GiveBack => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        };
        loop {
            match rustix::fs::fallocate(&self.file, how, offset, length) {
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Err(io::ErrorKind::Unsupported.into()),
                outcome => return Ok(outcome?),
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, _blocks: Blocks, _offset: u64, _length: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Opens the same file again, by a description of its own: a description from before a `fork` is shared with the other process,
    /// with its locks.
    #[cfg(target_os = "linux")]
    fn anew(&self) -> Result<PosixHandle> {
        use std::os::fd::AsRawFd;
        let through = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = OpenOptions::new().read(true).write(true).open(through);
        let file = file.map_err(|e| failed("open anew", &self.path, e))?;
        Ok(PosixHandle::new(file, self.path.clone()))
    }

    #[cfg(not(target_os = "linux"))]
    fn anew(&self) -> Result<PosixHandle> {
        Err(Error::new(ErrorKind::Unsupported, "cannot open an open object anew").in_object(shown(&self.path)))
    }

    fn told(&self) -> Result<Attributes> {
        Ok(attributes::of(&self.file.metadata().map_err(|e| failed("read attributes", &self.path, e))?))
    }

    fn alive(&self) -> Result<Life> {
        let about = self.file.metadata().map_err(|e| failed("stat", &self.path, e))?;
        let leased = lock::is_leased(&self.file).map_err(|e| failed("look for a writer of", &self.path, e))?;
        Ok(Life { leased, modified: about.modified().ok() })
    }

    fn bytes(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|e| failed("stat", &self.path, e))?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        // No file has bytes beyond this offset, and the system refuses to read there.
        let there = (i64::MAX as u64).saturating_sub(offset);
        let most = usize::try_from(there).unwrap_or(usize::MAX).min(out.len());
        let mut done = 0;
        while done < most {
            let at = offset + done as u64;
            match self.file.read_at(&mut out[done..most], at) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed("read", &self.path, e).at_byte(at)),
            }
        }
        Ok(done)
    }

    /// The system moves the descriptor's position, which nothing uses: all reads and writes name their offset.
    #[cfg(target_os = "linux")]
    fn stored(&self, offset: u64) -> Result<u64> {
        use rustix::fs::SeekFrom;
        use rustix::io::Errno;
        let outcome = stored_end(offset, |from| {
            loop {
                match rustix::fs::seek(&self.file, SeekFrom::Data(from)) {
                    Err(Errno::INTR) => {}
                    Err(Errno::NXIO) => return Ok(None),
                    outcome => return outcome.map(Some),
                }
            }
        });
        match outcome {
            Ok(end) if end == offset || offset > self.bytes()? => Ok(offset),
            Ok(end) => Ok(end),
            // The filesystem does not know its holes, or the file has no positions.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::SPIPE) => Ok(offset),
            Err(e) => Err(failed("find the holes", &self.path, e.into()).at_byte(offset)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn stored(&self, offset: u64) -> Result<u64> {
        Ok(offset)
    }
}

impl ReadObject for PosixHandle {
    fn length(&self) -> Result<u64> {
        self.bytes()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.read(offset, out)
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.stored(offset)
    }

    fn read_vectored_at(&self, offset: u64, pieces: &mut [IoSliceMut<'_>]) -> Result<usize> {
        let (mut done, mut rest) = (0, pieces);
        while !rest.is_empty() {
            let now = rest.len().min(MOST_PIECES);
            let wanted: usize = rest[..now].iter().map(|p| p.len()).sum();
            let at = offset.saturating_add(done as u64);
            let got = match rustix::io::preadv(&self.file, &mut rest[..now], at) {
                Ok(got) => got,
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(failed("read", &self.path, e.into()).at_byte(at)),
            };
            done += got;
            if got == wanted {
                rest = &mut rest[now..];
            } else if got == 0 {
                break;
            } else {
                IoSliceMut::advance_slices(&mut rest, got);
            }
        }
        Ok(done)
    }

    fn life(&self) -> Result<Life> {
        self.alive()
    }

    fn reopen(&self) -> Result<Box<dyn WriteObject>> {
        Ok(Box::new(self.anew()?))
    }

    fn attributes(&self) -> Result<Attributes> {
        self.told()
    }
}

impl WriteObject for PosixHandle {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let in_range = offset.checked_add(pieces::total(pieces)).is_some_and(|end| end <= i64::MAX as u64);
        if !in_range {
            return Err(beyond_range(&self.path, offset));
        }
        write_out(pieces, offset, |pieces, at| rustix::io::pwritev(&self.file, pieces, at))
            .map_err(|(at, cause)| failed("write", &self.path, cause).at_byte(at))
    }

    fn length(&self) -> Result<u64> {
        self.bytes()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.read(offset, out)
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.stored(offset)
    }

    fn truncate(&self, length: u64) -> Result<()> {
        if length > i64::MAX as u64 {
            return Err(beyond_range(&self.path, length));
        }
        self.file.set_len(length).map_err(|e| failed("truncate", &self.path, e).at_byte(length))
    }

    fn reserve(&self, offset: u64, length: u64) -> Result<()> {
        match self.allocate(Blocks::Take, offset, length) {
            Err(cause)
                if cause.kind() == io::ErrorKind::StorageFull || cause.kind() == io::ErrorKind::QuotaExceeded =>
            {
                Err(failed("find space", &self.path, cause).at_byte(offset))
            }
            // The write that follows reports other errors.
            _ => Ok(()),
        }
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        match self.allocate(Blocks::GiveBack, offset, length) {
            Err(cause) if cause.kind() != io::ErrorKind::Unsupported => {
                Err(failed("give space back", &self.path, cause).at_byte(offset))
            }
            _ => Ok(()),
        }
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| failed("sync", &self.path, e))
    }

    fn publish(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let PosixHandle { leases, file, path } = *self;
        drop(leases);
        // The descriptor is closed even if the system reports an error: no retry, not even after an interrupt.
        nix::unistd::close(file).map_err(|e| failed("close", &path, e.into()))
    }

    fn attributes(&self) -> Result<Attributes> {
        self.told()
    }

    fn set_attributes(&self, change: &Change) -> Result<()> {
        attributes::change_open(&self.file, &self.path, change)
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn lease(&self) -> Result<Option<Lease>> {
        self.leases.take(&self.file).map_err(|e| failed("take a lease", &self.path, e))
    }

    fn life(&self) -> Result<Life> {
        self.alive()
    }

    fn reopen(&self) -> Result<Box<dyn WriteObject>> {
        Ok(Box::new(self.anew()?))
    }

    fn lock(&self, wait: bool) -> Result<Option<Lease>> {
        lock::handle(&self.file, wait).map_err(|e| failed("lock", &self.path, e))
    }
}

#[cfg(target_os = "linux")]
fn sync_all(within: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(within)?)
}

#[cfg(not(target_os = "linux"))]
fn sync_all(_within: &File) -> io::Result<()> {
    rustix::fs::sync();
    Ok(())
}

/// First size of the buffer for names, in bytes; then eight times as large, up to [`MOST_NAMES`].
#[cfg(target_os = "linux")]
const FEW_NAMES: usize = 32 << 10;
/// Largest buffer for names, in bytes: some 40,000 names.
#[cfg(target_os = "linux")]
const MOST_NAMES: usize = 4 << 20;

/// Names in a folder. One system call returns the names of one moment, as the filesystem locks the folder during the call. A list made
/// by several calls may lack a name that is renamed between them; so a folder with more names is listed again, with a larger
/// buffer.
#[cfg(target_os = "linux")]
fn names_in(path: &Path) -> io::Result<Vec<String>> {
    use rustix::fs::{Mode, RawDir};
    let mut room = FEW_NAMES;
    'again: loop {
        let folder = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut buffer = Vec::with_capacity(room);
        let mut told = RawDir::new(folder, buffer.spare_capacity_mut());
        let (mut names, mut bytes, mut ended) = (Vec::new(), 0, false);
        while let Some(entry) = told.next() {
            let entry = match entry {
                Err(rustix::io::Errno::INTR) => continue,
                entry => entry?,
            };
            // A second call was needed: the first one filled the buffer.
            if ended && room < MOST_NAMES && bytes * 2 > room {
                room *= 8;
                continue 'again;
            }
            let name = entry.file_name().to_bytes();
            bytes += name.len() + 24;
            if name != b"." && name != b".." {
                names.extend(std::str::from_utf8(name).ok().map(str::to_string));
            }
            ended |= told.is_buffer_empty();
        }
        return Ok(names);
    }
}

#[cfg(not(target_os = "linux"))]
fn names_in(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.extend(entry?.file_name().into_string().ok());
    }
    Ok(names)
}

/// Passes pieces to `call` until all bytes are written, however few it accepts at a time. On failure: the first byte not
/// written, and the cause.
fn write_out(
    pieces: &[IoSlice<'_>],
    offset: u64,
    mut call: impl FnMut(&[IoSlice<'_>], u64) -> rustix::io::Result<usize>,
) -> std::result::Result<(), (u64, io::Error)> {
    let (mut rest, mut at) = (Rest::new(pieces), offset);
    while !rest.is_empty() {
        let done = match call(&rest.next(MOST_PIECES, MOST_BYTES), at) {
            Ok(0) => return Err((at, io::ErrorKind::WriteZero.into())),
            Ok(done) => done as u64,
            Err(rustix::io::Errno::INTR) => 0,
            Err(cause) => return Err((at, cause.into())),
        };
        rest = rest.after(done);
        at += done;
    }
    Ok(())
}

/// The end of the last stored bytes before `offset`, 0 for none: a bisection, as the system finds only the next stored bytes. Takes a
/// call if the byte before `offset` is stored, else up to 64. `offset` for a device that has no positions: it answers with any number.
///
/// - `next`: the first stored byte at or behind an offset, if there is any.
#[cfg(target_os = "linux")]
fn stored_end(offset: u64, mut next: impl FnMut(u64) -> rustix::io::Result<Option<u64>>) -> rustix::io::Result<u64> {
    let Some(last) = offset.checked_sub(1) else { return Ok(0) };
    if next(last)? == Some(last) {
        return Ok(offset);
    }
    // The end lies in `low..=high`.
    let (mut low, mut high) = (0, last);
    while low < high {
        let middle = low + (high - low) / 2;
        match next(middle)? {
            Some(at) if at < middle => return Ok(offset),
            Some(at) if at < high => low = at + 1,
            _ => high = middle,
        }
    }
    Ok(high)
}

/// Filesystems reuse the inode number of a removed file; the birth time distinguishes the files.
fn identity(about: &fs::Metadata) -> u64 {
    let mut identity = DefaultHasher::new();
    (about.dev(), about.ino(), about.created().ok()).hash(&mut identity);
    identity.finish()
}

fn no_pipe(about: &fs::Metadata, path: &Path) -> Result<()> {
    let kind = about.file_type();
    if kind.is_fifo() || kind.is_socket() {
        let what = "cannot open: it is a pipe, not a file";
        return Err(Error::new(ErrorKind::InvalidArgument, what).in_object(shown(path)));
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn beyond_range(path: &Path, byte: u64) -> Error {
    Error::new(ErrorKind::OutOfBounds, "file offsets end at 2^63 - 1").in_object(shown(path)).at_byte(byte)
}

/// Translates the system's errors: the only place.
fn failed(what: &str, path: &Path, cause: io::Error) -> Error {
    let what = format!("cannot {what}");
    let error = match cause.kind() {
        // A part of the name that should be a folder is a file.
        io::ErrorKind::NotADirectory => Error::new(ErrorKind::NotFound, what).caused_by(cause),
        io::ErrorKind::IsADirectory | io::ErrorKind::DirectoryNotEmpty => {
            Error::new(ErrorKind::InvalidArgument, what).caused_by(cause)
        }
        _ => Error::io(what, cause),
    };
    error.in_object(shown(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    /// A system that takes at most `most` bytes a call, is interrupted every third time, and is full at `full` bytes.
    fn system(
        out: &mut Vec<u8>,
        most: usize,
        full: usize,
    ) -> impl FnMut(&[IoSlice<'_>], u64) -> rustix::io::Result<usize> {
        let mut calls = 0;
        move |pieces, at| {
            calls += 1;
            assert!(pieces.len() <= MOST_PIECES && pieces::total(pieces) <= MOST_BYTES);
            assert_eq!(at, 100 + out.len() as u64, "every call goes on where the last one stopped");
            if calls % 3 == 0 {
                return Err(Errno::INTR);
            }
            let room = most.min(full - out.len());
            if room == 0 {
                return Err(Errno::NOSPC);
            }
            let before = out.len();
            out.extend(pieces.iter().flat_map(|piece| piece.iter()).take(room));
            Ok(out.len() - before)
        }
    }

    #[test]
    fn short_and_interrupted_writes_are_gone_on_with() {
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i % 251) as u8).collect();
        let pieces: Vec<IoSlice<'_>> = bytes.chunks(7).map(IoSlice::new).collect();
        for most in [1, 6, 7, 8, 1000, 7168, 100_000] {
            let mut out = Vec::new();
            write_out(&pieces, 100, system(&mut out, most, usize::MAX)).unwrap();
            assert!(out == bytes, "{most} bytes a call");
        }
    }

    #[test]
    fn a_write_that_fails_later_names_the_first_byte_not_written() {
        let bytes = [5; 1000];
        let mut out = Vec::new();
        let (at, cause) = write_out(&[IoSlice::new(&bytes)], 100, system(&mut out, 64, 300)).unwrap_err();
        assert_eq!((at, cause.kind(), out.len()), (400, io::ErrorKind::StorageFull, 300));
        let (at, cause) = write_out(&[IoSlice::new(&bytes)], 100, |_, _| Ok(0)).unwrap_err();
        assert_eq!(
            (at, cause.kind()),
            (100, io::ErrorKind::WriteZero),
            "a system that takes nothing is no endless loop"
        );
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn writes_longer_than_one_call_takes_are_cut() {
        // Zeros that are never touched take no memory.
        let zeros = vec![0u8; (MOST_BYTES as usize) * 5 / 2];
        let mut calls = Vec::new();
        let pieces = [IoSlice::new(b"head"), IoSlice::new(&zeros), IoSlice::new(b"tail")];
        let taken = write_out(&pieces, 0, |pieces, at| {
            calls.push(at);
            Ok(pieces::total(pieces) as usize)
        });
        assert!(taken.is_ok());
        assert_eq!(calls, [0, MOST_BYTES, 2 * MOST_BYTES]);
    }

    /// The stored bytes `from..to` of a file, as the system reports them, and the number of calls.
    #[cfg(target_os = "linux")]
    fn found(stored: &[(u64, u64)], offset: u64) -> (u64, u32) {
        let mut calls = 0;
        let end = stored_end(offset, |from| {
            calls += 1;
            Ok(stored.iter().find(|(_, to)| *to > from).map(|(start, _)| from.max(*start)))
        });
        (end.unwrap(), calls)
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_last_stored_byte_is_found_by_a_bisection() {
        let runs: Vec<(u64, u64)> = (0..50).map(|k| (k * k * 1000, k * k * 1000 + 1 + k * 17)).collect();
        for offset in 0..60_000 {
            let ends = runs.iter().filter(|(from, _)| *from < offset).map(|(_, to)| (*to).min(offset));
            assert_eq!(found(&runs, offset).0, ends.max().unwrap_or(0), "before byte {offset}");
        }
        assert_eq!(found(&[], 1 << 62).0, 0);
        assert_eq!(found(&[(3, 1 << 50)], 1 << 40), (1 << 40, 1), "one call where the byte before is stored");
        let (end, calls) = found(&[(0, 5_000_000), (1 << 62, 1 << 63)], 1 << 62);
        assert!(end == 5_000_000 && calls <= 64, "{end} after {calls} calls");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_failing_device_is_no_hole() {
        for good in 0..30 {
            let mut calls = 0;
            let end = stored_end(1 << 30, |_| {
                calls += 1;
                if calls == good + 1 { Err(Errno::IO) } else { Ok(None) }
            });
            assert_eq!(end, Err(Errno::IO), "after {good} calls");
        }
    }
}
