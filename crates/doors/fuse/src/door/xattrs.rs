//! Extended attributes: those of files, and those of the root that describe the FUSE server.

use super::{Door, Errno, Result, number, sought, text};
use crate::nodes::ROOT;
use std::ffi::OsStr;
use thalweg_layout::SetXattr;
use thalweg_types::{Error, ErrorKind};

/// Extended attribute of the root: PID of the FUSE server. Not listed.
pub const PROCESS: &str = "user.thalweg.process";

/// Extended attribute of the root: errors since the mount, one line each for their number, the time of the last in seconds since 1970,
/// the log file, and the last error. Not listed.
pub const ERRORS: &str = "user.thalweg.errors";

impl Door {
    pub fn xattr(&self, ino: u64, key: &OsStr) -> Result<Vec<u8>> {
        let key = sought(key).map_err(|_| Errno::ENODATA)?;
        if ino == ROOT && key == PROCESS {
            return Ok(std::process::id().to_string().into_bytes());
        }
        if ino == ROOT && key == ERRORS {
            return Ok(crate::errors::so_far().to_string().into_bytes());
        }
        not_of_the_system(key)?;
        let _names = self.use_names();
        let path = self.path(ino).map_err(|_| Errno::ENODATA)?;
        self.layout.xattr_get(&path, key).map_err(number)?.ok_or(Errno::ENODATA)
    }

    pub fn set_xattr(&self, ino: u64, key: &OsStr, value: &[u8], how: SetXattr) -> Result<()> {
        let key = text(key)?;
        not_of_the_system(key)?;
        let _names = self.use_names();
        let path = self.path(ino)?;
        self.layout.xattr_set(&path, key, value, how).map_err(xattr_number)?;
        self.changed(ino);
        Ok(())
    }

    pub fn xattrs(&self, ino: u64) -> Result<Vec<u8>> {
        let _names = self.use_names();
        let Ok(path) = self.path(ino) else { return Ok(Vec::new()) };
        match self.layout.xattr_list(&path) {
            Ok(keys) => {
                let keys = keys.iter().filter(|key| not_of_the_system(key).is_ok());
                Ok(keys.flat_map(|key| key.bytes().chain([0])).collect())
            }
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(Vec::new()),
            Err(e) => Err(number(e)),
        }
    }

    pub fn remove_xattr(&self, ino: u64, key: &OsStr) -> Result<()> {
        let key = text(key)?;
        not_of_the_system(key)?;
        let _names = self.use_names();
        self.layout.xattr_remove(&self.path(ino)?, key).map_err(xattr_number)?;
        self.changed(ino);
        Ok(())
    }
}

/// Refuses the `system.` namespace: it holds access control lists, which the kernel ignores for this mount (it checks modes).
fn not_of_the_system(key: &str) -> Result<()> {
    let known = ["user.", "trusted.", "security."].iter().any(|space| key.starts_with(space));
    if known { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

/// `NotFound` of an existing file means the attribute.
fn xattr_number(error: Error) -> Errno {
    match number(error) {
        Errno::ENOENT => Errno::ENODATA,
        other => other,
    }
}
