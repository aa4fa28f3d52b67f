//! Placeholders: the descriptors that stand for open files of mounts.
//!
//! | question | answer |
//! |----------|--------|
//! | form     | a sealed memory file (`memfd_create`) whose contents describe the open file, reopened for writing only |
//! | purpose  | the kernel keeps the offset and `O_APPEND`, shared over `dup`, `fork` and `exec` |
//! | system calls that bypass the hooks | fail: reads with `EBADF`, writes and maps with `EPERM`, so that no bytes are lost silently |
//! | after `exec` | found by the name in `/proc/self/fd` |

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, SeekFrom};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use thalweg_open_file::Access;

/// Prefix of each placeholder's name.
const NAME: &str = "thalweg:";
const FIRST_LINE: &str = "thalweg placeholder 1";
/// Longest valid description.
const LONGEST: usize = 16 << 10;

/// Kind of object behind a placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    /// The current folder, passed on to the next program at `exec`.
    Current,
}

/// The decoded contents of a placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    pub kind: Kind,
    pub access: Access,
    /// Absolute.
    pub path: String,
}

impl Description {
    fn encode(&self) -> String {
        let kind = match self.kind {
            Kind::File => "file",
            Kind::Folder => "folder",
            Kind::Current => "current",
        };
        let (read, write) = (u8::from(self.access.read), u8::from(self.access.write));
        let sync = if self.access.sync { "s" } else { "" };
        format!("{FIRST_LINE}\n{kind}\n{read}{write}{sync}\n{}", self.path)
    }

    fn decode(text: &str) -> Option<Description> {
        let mut lines = text.splitn(4, '\n');
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let kind = match lines.next()? {
            "file" => Kind::File,
            "folder" => Kind::Folder,
            "current" => Kind::Current,
            _ => return None,
        };
        let access = lines.next()?;
        let (access, sync) = access.strip_suffix('s').map_or((access, false), |access| (access, true));
        let access = match access {
            "10" => Access { read: true, ..Access::default() },
            "01" => Access { write: true, ..Access::default() },
            "11" => Access { read: true, write: true, ..Access::default() },
            _ => return None,
        };
        let path = lines.next().filter(|path| path.starts_with('/'))?;
        Some(Description { kind, access: Access { sync, ..access }, path: path.to_string() })
    }
}

/// Creates a placeholder at the lowest free descriptor.
pub fn make(told: &Description, close_on_exec: bool) -> Result<RawFd, Errno> {
    // The name is for people; only its prefix is read.
    let last = told.path.rsplit('/').next().unwrap_or_default();
    let mut shown = format!("{NAME}{last}");
    shown.truncate((0..=200).rev().find(|at| shown.is_char_boundary(*at)).unwrap_or(0));
    let first = rustix::fs::memfd_create(shown, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let text = told.encode();
    if text.len() > LONGEST {
        return Err(Errno::NAMETOOLONG);
    }
    rustix::io::write(&first, text.as_bytes())?;
    let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&first, all)?;
    let again = format!("/proc/self/fd/{}", first.as_raw_fd());
    let second = rustix::fs::open(again, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut first = first;
    let flags = if close_on_exec { rustix::io::DupFlags::CLOEXEC } else { rustix::io::DupFlags::empty() };
    rustix::io::dup3(&second, &mut first, flags)?;
    if told.access.append {
        rustix::fs::fcntl_setfl(&first, OFlags::APPEND)?;
    }
    Ok(first.into_raw_fd())
}

/// The contents of a descriptor's placeholder; `None` for other descriptors.
pub fn look(fd: RawFd) -> Option<Description> {
    let at = format!("/proc/self/fd/{fd}");
    let link = rustix::fs::readlink(&*at, Vec::new()).ok()?;
    if !link.to_bytes().starts_with(format!("/memfd:{NAME}").as_bytes()) {
        return None;
    }
    let inside: OwnedFd = rustix::fs::open(at, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let seals = rustix::fs::fcntl_get_seals(&inside).ok()?;
    let mut bytes = vec![0; LONGEST];
    let got = rustix::io::read(&inside, &mut bytes).ok().filter(|_| seals.contains(SealFlags::WRITE))?;
    Description::decode(std::str::from_utf8(&bytes[..got]).ok()?)
}

/// All descriptors of this process.
pub fn descriptors() -> Vec<RawFd> {
    let mut all = Vec::new();
    let Ok(folder) =
        rustix::fs::open("/proc/self/fd", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    else {
        return all;
    };
    let own = folder.as_raw_fd();
    let mut space = Vec::with_capacity(4096);
    let mut entries = rustix::fs::RawDir::new(folder, space.spare_capacity_mut());
    while let Some(Ok(entry)) = entries.next() {
        all.extend(entry.file_name().to_str().ok().and_then(|name| name.parse::<RawFd>().ok()).filter(|fd| *fd != own));
    }
    all
}

/// The offset, shared by all users of the placeholder.
pub fn offset(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    rustix::fs::seek(fd, SeekFrom::Current(0))
}

/// Moves the offset.
pub fn seek(fd: BorrowedFd<'_>, to: SeekFrom) -> Result<u64, Errno> {
    rustix::fs::seek(fd, to)
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;

    fn told() -> Description {
        Description { kind: Kind::File, access: Access::READ, path: "/mnt/a\nb/ü".into() }
    }

    #[test]
    fn a_placeholder_tells_what_it_is_and_refuses_calls_that_get_around_the_hooks() {
        let fd = make(&told(), true).unwrap();
        // SAFETY: just made.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        assert_eq!(look(fd.as_raw_fd()), Some(told()));
        assert_eq!(rustix::io::read(&fd, &mut [0; 4]), Err(Errno::BADF));
        assert_eq!(rustix::io::write(&fd, b"x"), Err(Errno::PERM));
        assert_eq!(seek(std::os::fd::AsFd::as_fd(&fd), SeekFrom::Start(1 << 60)), Ok(1 << 60));
        assert!(descriptors().contains(&fd.as_raw_fd()));
        assert_eq!(look(0).map(|told| told.kind), None);
    }

    #[test]
    fn contents_that_are_not_ours_are_not_believed() {
        assert_eq!(Description::decode(&told().encode()), Some(told()));
        let synced = Description { access: Access { write: true, sync: true, ..Access::default() }, ..told() };
        assert_eq!(Description::decode(&synced.encode()), Some(synced));
        for wrong in [
            "",
            "thalweg placeholder 2\nfile\n10\n/a",
            "thalweg placeholder 1\nfile\n10\na",
            "thalweg placeholder 1\nx\n10\n/a",
        ] {
            assert_eq!(Description::decode(wrong), None, "{wrong}");
        }
    }
}
