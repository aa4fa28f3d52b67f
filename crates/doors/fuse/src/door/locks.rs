//! Locks of programs, shared with other doors: see [`thalweg_open_file::lock`].
//!
//! | question | answer |
//! |----------|--------|
//! | owners | each owner that the kernel names gets its own open file description per file: a process for its ranges, an open file description for `flock` and its own ranges. The system then separates the owners within this one process |
//! | `flock` or a range | the kernel's field for this is not available through the library; `/proc` shows which call the program makes. If it does not, and the range is the whole file, both are locked: too much is excluded, never too little |
//! | waiting | by repeated attempts, so that a signal ends the wait and no thread of the door is blocked |
//! | after a lock is taken | the view of the file is refreshed, and the kernel's cache of the file is invalidated |
//! | before a lock is released or its file closed | written bytes are published |
//! | deadlocks | are not detected (`EDEADLK`) |

use super::{Door, Result, number};
use crate::open::OpenHandle;
use fuser::{Errno, INodeNo, Notifier};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use thalweg_layout::errno;
use thalweg_open_file::lock::{Kind, LockDescription, LockFile, Range};
use thalweg_types::mutex::Mutex;

/// Longest pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);
/// The kernel's value for the end of an unbounded range.
const TO_THE_END: u64 = i64::MAX as u64;
const F_RDLCK: i32 = 0;
const F_WRLCK: i32 = 1;
const F_UNLCK: i32 = 2;

/// The call that a program makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockCall {
    Flock,
    Range,
    Unknown,
}

/// A lock request of a program.
#[derive(Debug, Clone)]
pub struct LockRequest {
    fh: u64,
    owner: u64,
    kind: Kind,
    range: Range,
    thread: u32,
    wait: bool,
}

impl LockRequest {
    /// No conflicting lock.
    pub const UNLOCKED: i32 = F_UNLCK;

    /// - `end`: the last byte.
    pub fn range(fh: u64, owner: u64, start: u64, end: u64, kind: i32) -> Result<LockRequest> {
        let kind = match kind {
            F_RDLCK => Kind::Shared,
            F_WRLCK => Kind::Exclusive,
            F_UNLCK => Kind::None,
            _ => return Err(Errno::EINVAL),
        };
        let length = match end {
            TO_THE_END.. => 0,
            end => end.checked_sub(start).ok_or(Errno::EINVAL)? + 1,
        };
        Ok(LockRequest { fh, owner, kind, range: Range { start, length }, thread: 0, wait: false })
    }

    /// - `thread`: the calling thread.
    pub fn by(self, thread: u32, wait: bool) -> LockRequest {
        LockRequest { thread, wait, ..self }
    }

    /// Whether the request never waits.
    pub fn gives_up(&self) -> bool {
        self.kind == Kind::None
    }

    fn is_whole(&self) -> bool {
        self.range == Range { start: 0, length: 0 }
    }

    /// The call of the request.
    fn call(&self) -> LockCall {
        if !self.is_whole() {
            return LockCall::Range;
        }
        let told = std::fs::read_to_string(format!("/proc/{}/syscall", self.thread)).unwrap_or_default();
        match told.split(' ').next().and_then(|number| number.parse::<i64>().ok()) {
            Some(number) if number == nix::libc::SYS_flock => LockCall::Flock,
            Some(number) if number == nix::libc::SYS_fcntl => LockCall::Range,
            _ => LockCall::Unknown,
        }
    }
}

/// An owner's locks on a file.
struct OwnerLocks {
    file: Arc<LockDescription>,
    /// The handle that the owner used last.
    fh: u64,
}

/// All locks. See the module's page.
#[derive(Default)]
pub(super) struct Locks {
    owners: Mutex<HashMap<(u64, u64), OwnerLocks>>,
    kernel: OnceLock<Notifier>,
}

impl Locks {
    /// Whether a file may be locked.
    pub(super) fn any(&self, ino: u64) -> bool {
        let owners = self.owners.lock();
        !owners.is_empty() && owners.keys().any(|(of, _)| *of == ino)
    }

    /// Whether an owner may have locked a file.
    pub(super) fn has(&self, ino: u64, owner: u64) -> bool {
        self.owners.lock().contains_key(&(ino, owner))
    }

    /// Call when a process closed a descriptor of a file: releases the process's range locks.
    pub(super) fn process_closed(&self, ino: u64, owner: u64) {
        let ended = self.owners.lock().remove(&(ino, owner));
        drop(ended);
    }

    /// Call when the last descriptor of a handle is closed.
    pub(super) fn released(&self, fh: u64) {
        let mut owners = self.owners.lock();
        if owners.is_empty() {
            return;
        }
        let gone: Vec<(u64, u64)> = owners.iter().filter(|(_, locks)| locks.fh == fh).map(|(key, _)| *key).collect();
        let ended: Vec<OwnerLocks> = gone.iter().filter_map(|key| owners.remove(key)).collect();
        drop(owners);
        drop(ended);
    }
}

fn system(e: std::io::Error) -> Errno {
    Errno::from_i32(e.raw_os_error().unwrap_or(Errno::EIO.code()))
}

impl Door {
    /// Sets the notifier that invalidates the kernel's cache of a file.
    pub fn tells(&self, kernel: Notifier) {
        let _ = self.locks.kernel.set(kernel);
    }

    /// Opens a separate open file description of a file's lock object.
    fn lock_file(&self, ino: u64) -> Result<LockDescription> {
        let plain = self.shared.lock().get(&ino).and_then(|shared| shared.file.clone());
        if let Some(plain) = plain {
            return LockFile::of_plain(&plain).map(LockDescription::System).map_err(system);
        }
        let _names = self.use_names();
        let path = self.nodes().path(ino);
        let about = match &path {
            Some(path) => self.about(path).map_err(number)?,
            None => self.about_nameless(ino)?,
        };
        LockDescription::open(&*self.layout, path.as_deref().unwrap_or(""), &about).map_err(|e| {
            // Once, because programs repeat the request.
            static TOLD: std::sync::Once = std::sync::Once::new();
            TOLD.call_once(|| crate::errors::write(&e.to_string()));
            Errno::from_i32(errno::of(&e))
        })
    }

    /// The handles of a file.
    fn handles_of(&self, ino: u64) -> Vec<Arc<OpenHandle>> {
        let handles = self.shared.lock().get(&ino).map(|shared| shared.handles.clone()).unwrap_or_default();
        handles.iter().filter_map(|fh| self.handle(*fh).ok()).collect()
    }

    fn publish_file(&self, ino: u64) -> Result<()> {
        match self.plain {
            true => Ok(()),
            false => self.handles_of(ino).iter().try_for_each(|handle| handle.publish().map_err(number)),
        }
    }

    /// Refreshes the view: bytes that others closed or synced become visible.
    fn see_others(&self, ino: u64) -> Result<()> {
        if !self.plain {
            let names = self.use_names();
            let path = self.nodes().path(ino);
            let handles = self.handles_of(ino);
            match path {
                Some(path) if self.layout.keeps_whole(&path) => {
                    OpenHandle::renew(&handles, |access| self.open_file(&path, access)).map_err(number)?;
                }
                Some(_) => handles.iter().try_for_each(|handle| handle.refresh()).map_err(number)?,
                // The file was removed: no other process can open it.
                None => {}
            }
            drop(names);
        }
        if let Some(kernel) = self.locks.kernel.get() {
            // The kernel has no cache of a file that it has forgotten.
            let _ = kernel.inval_inode(INodeNo(ino), 0, 0);
        }
        Ok(())
    }

    /// Takes or releases a lock.
    pub fn lock(&self, asked: &LockRequest) -> Result<()> {
        let ino = self.handle(asked.fh)?.ino;
        let key = (ino, asked.owner);
        self.publish_file(ino)?;
        let known = self.locks.owners.lock().get(&key).map(|locks| locks.file.clone());
        let file = match (known, asked.kind) {
            (Some(file), _) => file,
            (None, Kind::None) => return Ok(()),
            (None, _) => {
                let new = Arc::new(self.lock_file(ino)?);
                let mut owners = self.locks.owners.lock();
                let locks = owners.entry(key).or_insert_with(|| OwnerLocks { file: new, fh: asked.fh });
                locks.file.clone()
            }
        };
        let call = asked.call();
        if asked.kind == Kind::None {
            if call != LockCall::Range {
                file.try_whole(Kind::None, false).map_err(number)?;
            }
            if call != LockCall::Flock {
                file.try_range(Kind::None, asked.range, false).map_err(number)?;
            }
            return Ok(());
        }
        self.wait_for(asked, || {
            if call != LockCall::Range {
                file.try_whole(asked.kind, asked.wait)?;
            }
            if call != LockCall::Flock {
                let ranged = file.try_range(asked.kind, asked.range, asked.wait);
                if ranged.is_err() && call == LockCall::Unknown {
                    file.try_whole(Kind::None, false)?;
                }
                ranged?;
            }
            Ok(())
        })?;
        // The program may have closed the file while it waited: the lock then ends with `file`.
        if let Some(locks) = self.locks.owners.lock().get_mut(&key) {
            locks.fh = asked.fh;
        }
        self.see_others(ino)
    }

    fn wait_for(&self, asked: &LockRequest, take: impl Fn() -> thalweg_types::Result<()>) -> Result<()> {
        let mut pause = Duration::from_micros(100);
        loop {
            match take() {
                Ok(()) => return Ok(()),
                Err(e) => match number(e) {
                    Errno::EAGAIN | Errno::EACCES if asked.wait => {}
                    Errno::EAGAIN | Errno::EACCES => return Err(Errno::EAGAIN),
                    other => return Err(other),
                },
            }
            if is_interrupted(asked.thread) {
                return Err(Errno::EINTR);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE);
        }
    }

    /// A conflicting lock: first and last byte, kind, PID.
    pub fn test_lock(&self, asked: &LockRequest) -> Result<Option<(u64, u64, i32, u32)>> {
        let ino = self.handle(asked.fh)?.ino;
        let known = self.locks.owners.lock().get(&(ino, asked.owner)).map(|locks| locks.file.clone());
        let file = match known {
            Some(file) => file,
            None => Arc::new(self.lock_file(ino)?),
        };
        let met = file.test(asked.kind, asked.range).map_err(number)?;
        Ok(met.map(|met| {
            let end = match met.range.length {
                0 => TO_THE_END,
                length => met.range.start + length - 1,
            };
            let kind = if met.kind == Kind::Shared { F_RDLCK } else { F_WRLCK };
            (met.range.start, end, kind, u32::try_from(met.pid).unwrap_or(0))
        }))
    }
}

/// Whether a waiting thread has a pending signal or has ended; `false` for threads that this process cannot see.
fn is_interrupted(thread: u32) -> bool {
    if thread == 0 {
        return false;
    }
    match std::fs::read_to_string(format!("/proc/{thread}/status")) {
        Ok(status) => pending(&status),
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Whether a thread's status shows pending signals that are not blocked.
fn pending(status: &str) -> bool {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    let waiting = field("SigPnd:").unwrap_or(0) | field("ShdPnd:").unwrap_or(0);
    waiting & !field("SigBlk:").unwrap_or(0) & !field("SigIgn:").unwrap_or(0) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_a_thread_does_not_hold_back_end_its_wait() {
        let status = |pending: &str, blocked: &str| {
            format!(
                "Name:\tx\nSigPnd:\t{pending}\nShdPnd:\t0000000000000000\nSigBlk:\t{blocked}\nSigIgn:\t0000000000001000\n"
            )
        };
        assert!(super::pending(&status("0000000000000100", "0000000000000000")));
        assert!(!super::pending(&status("0000000000000100", "0000000000000100")));
        assert!(!super::pending(&status("0000000000001000", "0000000000000000")), "ignored");
        assert!(!super::pending(&status("0000000000000000", "0000000000000000")));
        assert!(!is_interrupted(std::process::id()));
        assert!(is_interrupted(u32::MAX >> 2), "no such thread");
    }

    #[test]
    fn ranges_of_the_kernel_are_ranges_of_ours() {
        let asked = |start, end| LockRequest::range(1, 2, start, end, F_WRLCK).map(|asked| asked.range);
        assert_eq!(asked(5, 5).unwrap(), Range { start: 5, length: 1 });
        assert_eq!(asked(5, TO_THE_END).unwrap(), Range { start: 5, length: 0 });
        assert!(asked(5, 3).is_err());
        assert!(LockRequest::range(1, 2, 0, 1, 7).is_err());
    }
}
