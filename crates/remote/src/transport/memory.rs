//! Bytes that a server takes from its client's memory, instead of receiving them: one copy instead of two, and none by the client.
//!
//! | question | answer |
//! |----------|--------|
//! | direction | the server reads (`process_vm_readv`); nothing writes into a client's memory |
//! | whose memory | that of the process that the kernel names as the other end of the connection, held by a descriptor (`pidfd`): a PID may be given to another process |
//! | permission | as for a debugger: the same user, and no stricter setting of the machine (Yama); asked before the first use, see [`crate::message::Request::Lend`] |
//! | a client that dies | its bytes count only if the process and the connection are there after the copy |

use super::broken;
use super::unix::OtherEnd;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use thalweg_types::{Error, ErrorKind, Result};

/// Largest number of pieces per system call.
const PIECES: usize = 1024;

/// The process at the other end of a connection.
pub(super) struct Peer {
    pid: rustix::process::Pid,
    process: OwnedFd,
}

fn refused(what: &str, cause: impl Into<io::Error>) -> Error {
    Error::new(ErrorKind::Unsupported, what.to_string()).caused_by(cause.into())
}

impl Peer {
    /// The process at the other end of a socket.
    ///
    /// # Errors
    /// `Unsupported` if it is no process of this PID namespace, or the kernel has no descriptors of processes.
    pub(super) fn of(socket: impl AsFd) -> Result<Peer> {
        let unknown = "the client's memory cannot be read: its process is not visible to the server";
        let pid = OtherEnd::of(socket).map_err(|e| refused(unknown, e))?.pid.and_then(rustix::process::Pid::from_raw);
        let pid = pid.ok_or_else(|| Error::new(ErrorKind::Unsupported, unknown))?;
        let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| refused(unknown, e))?;
        Ok(Peer { pid, process })
    }

    /// Fills `out` with the bytes of the process's memory at these addresses and lengths, which are together `out.len()` bytes.
    ///
    /// - `socket`: the connection.
    ///
    /// # Errors
    /// `Unsupported` without permission, `InvalidArgument` for memory that is not there, `PeerLost` if the process or the connection has
    /// ended. What is in `out` then means nothing.
    pub(super) fn pull(&self, socket: impl AsFd, pieces: &[(u64, u64)], out: &mut [u8]) -> Result<()> {
        let mut pieces: Vec<RemoteIoVec> = pieces
            .iter()
            .map(|(base, len)| RemoteIoVec { base: *base as usize, len: *len as usize })
            .filter(|piece| piece.len > 0)
            .collect();
        let total: usize = pieces.iter().map(|piece| piece.len).sum();
        if total != out.len() {
            return Err(Error::new(ErrorKind::Corrupt, format!("{total} bytes lent, {} expected", out.len())));
        }
        let pid = Pid::from_raw(self.pid.as_raw_nonzero().get());
        let (mut first, mut done) = (0, 0);
        while done < out.len() {
            let now = &pieces[first..pieces.len().min(first + PIECES)];
            let mut got = match process_vm_readv(pid, &mut [IoSliceMut::new(&mut out[done..])], now) {
                Ok(0) => return Err(broken(io::ErrorKind::UnexpectedEof)),
                Ok(got) => got,
                Err(nix::Error::ESRCH) => return Err(broken(io::ErrorKind::BrokenPipe)),
                Err(e @ (nix::Error::EPERM | nix::Error::ENOSYS)) => {
                    return Err(refused("the client's memory cannot be read by the server", e));
                }
                Err(e) => {
                    let what = "the memory that a message lends is not there";
                    return Err(Error::new(ErrorKind::InvalidArgument, what).caused_by(io::Error::from(e)));
                }
            };
            done += got;
            while got > 0 {
                let piece = &mut pieces[first];
                let of_piece = got.min(piece.len);
                (piece.base, piece.len, got) = (piece.base + of_piece, piece.len - of_piece, got - of_piece);
                first += usize::from(piece.len == 0);
            }
        }
        self.is_there(socket)
    }

    /// Whether process and connection are there: then the bytes were the process's, and it has waited for the reply.
    fn is_there(&self, socket: impl AsFd) -> Result<()> {
        let ended = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
        let mut both = [PollFd::new(&self.process, PollFlags::IN), PollFd::new(&socket, PollFlags::RDHUP)];
        loop {
            match poll(&mut both, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(e) => return Err(broken(e)),
            }
        }
        // A descriptor of a process is readable once the process has ended.
        let process = both[0].revents().intersects(PollFlags::IN | ended);
        match process || both[1].revents().intersects(ended) {
            true => Err(broken(io::ErrorKind::BrokenPipe)),
            false => Ok(()),
        }
    }
}
