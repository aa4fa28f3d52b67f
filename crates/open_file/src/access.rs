//! The flags of an open.

use nix::libc;
use rustix::fs::OFlags;
use rustix::io::Errno;
use thalweg_layout::errno;
use thalweg_types::Result;

/// The flags of an open, as [`Access::of_flags`] reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// Bytes are read.
    pub read: bool,
    /// Bytes are written.
    pub write: bool,
    /// Every write appends.
    pub append: bool,
    /// A missing file is created.
    pub create: bool,
    /// With `create`: an existing file is an error.
    pub exclusive: bool,
    /// An existing file is truncated to zero bytes.
    pub truncate: bool,
    /// Anything but a directory is an error.
    pub directory: bool,
    /// A symbolic link is an error and not followed.
    pub no_follow: bool,
    /// Each write is synced before its call returns (`O_SYNC`, `O_DSYNC`).
    pub sync: bool,
}

impl Access {
    /// Reads an existing file.
    pub const READ: Access = Access {
        read: true,
        write: false,
        append: false,
        create: false,
        exclusive: false,
        truncate: false,
        directory: false,
        no_follow: false,
        sync: false,
    };

    /// Reads the flags of `open(2)`; those about descriptors (`O_CLOEXEC`, `O_NONBLOCK`, ...) are the door's.
    ///
    /// # Errors
    /// `EINVAL` for flags that exclude each other, `EOPNOTSUPP` for a file without a name (`O_TMPFILE`).
    pub fn of_flags(flags: i32) -> Result<Access> {
        let has = |flag: OFlags| flags & flag.bits() as i32 == flag.bits() as i32;
        let (read, write) = match flags & OFlags::RWMODE.bits() as i32 {
            mode if mode == OFlags::RDONLY.bits() as i32 => (true, false),
            mode if mode == OFlags::WRONLY.bits() as i32 => (false, true),
            mode if mode == OFlags::RDWR.bits() as i32 => (true, true),
            _ => return Err(errno::failure(Errno::INVAL, "open for neither reading nor writing", "")),
        };
        #[cfg(target_os = "linux")]
        if has(OFlags::TMPFILE) {
            return Err(errno::failure(Errno::OPNOTSUPP, "make a file without a name", ""));
        }
        let access = Access {
            read,
            write,
            append: has(OFlags::APPEND),
            create: has(OFlags::CREATE),
            exclusive: has(OFlags::EXCL),
            truncate: has(OFlags::TRUNC),
            directory: has(OFlags::DIRECTORY),
            no_follow: has(OFlags::NOFOLLOW),
            // A bit of `O_SYNC`, too.
            sync: flags & libc::O_DSYNC != 0,
        };
        match access.create && access.directory {
            true => Err(errno::failure(Errno::INVAL, "make a folder by opening it", "")),
            false => Ok(access),
        }
    }

    /// The flags that `fcntl(F_GETFL)` returns.
    pub fn flags(&self) -> i32 {
        let mode = match (self.read, self.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        let append = if self.append { OFlags::APPEND } else { OFlags::empty() };
        let sync = if self.sync { libc::O_SYNC } else { 0 };
        (mode | append).bits() as i32 | sync
    }

    /// Without the flags that act only at the first open: for opening the same file again.
    pub fn again(&self) -> Access {
        Access { create: false, exclusive: false, truncate: false, no_follow: false, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_an_access_and_those_that_exclude_each_other_are_refused() {
        let flags = |flags: OFlags| Access::of_flags(flags.bits() as i32);
        let append = flags(OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC).unwrap();
        assert_eq!(append, Access { write: true, append: true, create: true, ..Access::default() });
        assert_eq!(append.flags(), (OFlags::WRONLY | OFlags::APPEND).bits() as i32);
        assert_eq!(append.again(), Access { write: true, append: true, ..Access::default() });
        assert_eq!(flags(OFlags::RDONLY).unwrap(), Access::READ);
        for sync in [libc::O_SYNC, libc::O_DSYNC] {
            let access = Access::of_flags(OFlags::WRONLY.bits() as i32 | sync).unwrap();
            assert_eq!(access.again(), Access { write: true, sync: true, ..Access::default() });
            assert_eq!(access.flags(), OFlags::WRONLY.bits() as i32 | libc::O_SYNC);
        }
        for (wrong, number) in [
            (OFlags::RDWR | OFlags::WRONLY, Errno::INVAL),
            (OFlags::RDONLY | OFlags::CREATE | OFlags::DIRECTORY, Errno::INVAL),
            (OFlags::RDWR | OFlags::TMPFILE, Errno::OPNOTSUPP),
        ] {
            assert_eq!(errno::of(&flags(wrong).unwrap_err()), number.raw_os_error(), "{wrong:?}");
        }
    }
}
