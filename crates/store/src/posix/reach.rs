//! Paths of any length: the system's limit of 4095 bytes includes the store's folder, which programs do not know.
//!
//! | question | answer |
//! |---|---|
//! | how | the folders above are opened piece by piece; the rest of the path is relative to the last one, through the process' folder of descriptors (`/proc/self/fd`), on Linux |
//! | cost | none for paths up to the limit; else an open and a close per 4000 bytes |
//! | single names | up to the filesystem's limit (255 bytes) |
//! | in messages | the whole path |

use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use thalweg_types::Result;

/// Shortest path that the system refuses.
const TOO_LONG: usize = 4096;
/// Most bytes of a path in one open.
#[cfg(target_os = "linux")]
const PIECE: usize = 4000;

/// A path within the system's limit, valid while this value lives.
pub struct Reach {
    path: PathBuf,
    /// For a long path: the whole path, and the open folder that `path` begins with.
    long: Option<(PathBuf, OwnedFd)>,
}

impl Reach {
    /// Makes a path of any length usable.
    ///
    /// # Errors
    /// Errors of opening the folders above: missing, or a name too long.
    pub fn of(path: PathBuf) -> Result<Reach> {
        if path.as_os_str().len() < TOO_LONG {
            return Ok(Reach { path, long: None });
        }
        through_descriptors(path)
    }

    /// The path, if it is within the limit.
    pub fn plain(self) -> Option<PathBuf> {
        self.long.is_none().then_some(self.path)
    }

    /// The whole path, for messages.
    pub fn into_whole(self) -> PathBuf {
        self.long.map_or(self.path, |(whole, _)| whole)
    }
}

impl Deref for Reach {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for Reach {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

#[cfg(target_os = "linux")]
fn through_descriptors(whole: PathBuf) -> Result<Reach> {
    use super::failed;
    use rustix::fs::{CWD, Mode, OFlags, openat};
    use std::ffi::OsStr;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    let open = |above: Option<&OwnedFd>, part: &[u8]| {
        let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match above {
            Some(above) => openat(above, part, how, Mode::empty()),
            None => openat(CWD, part, how, Mode::empty()),
        };
        opened.map_err(|e| failed("open the folders above", &whole, e.into()))
    };
    let (mut above, mut rest) = (None, whole.as_os_str().as_bytes());
    while rest.len() > PIECE {
        // The system refuses a longer part.
        let end = rest[..PIECE].iter().rposition(|byte| *byte == b'/').filter(|end| *end > 0).unwrap_or(PIECE);
        above = Some(open(above.as_ref(), &rest[..end])?);
        rest = &rest[end..];
        let slashes = rest.iter().take_while(|byte| **byte == b'/').count();
        rest = &rest[slashes..];
    }
    let Some(above) = above else { return Ok(Reach { path: whole, long: None }) };
    let path = Path::new(&format!("/proc/self/fd/{}", above.as_raw_fd())).join(OsStr::from_bytes(rest));
    Ok(Reach { path, long: Some((whole, above)) })
}

#[cfg(not(target_os = "linux"))]
fn through_descriptors(path: PathBuf) -> Result<Reach> {
    // The system refuses the path.
    Ok(Reach { path, long: None })
}
