//! Streams of bytes over a connected socket of any address family. Direct system calls, because the program's side runs in processes
//! whose C library calls are intercepted, and so that a closed socket is an error and not SIGPIPE.

use super::{Watch, broken};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    Shutdown, recv, recvmsg, sendmsg, shutdown,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use thalweg_types::Result;
use thalweg_types::mutex::Mutex;

/// Largest number of pieces per system call.
const PIECES: usize = 1024;

/// Sets what happens while a connection waits.
pub(super) fn watch(socket: impl AsFd, kept: &OnceLock<Watch>, watch: Watch) {
    // A socket that takes no limit waits without one.
    for side in [Timeout::Recv, Timeout::Send] {
        let _ = set_socket_timeout(&socket, side, Some(watch.every));
    }
    let _ = kept.set(watch);
}

/// As [`super::Connection::send`] and [`super::Connection::pass`].
pub(super) fn send(
    socket: impl AsFd,
    pieces: &mut [IoSlice<'_>],
    watch: Option<&Watch>,
    mut descriptor: Option<BorrowedFd<'_>>,
) -> Result<()> {
    let mut rest = pieces;
    // Empty pieces are skipped.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let now = rest.len().min(PIECES);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        if let Some(descriptor) = &descriptor {
            with.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptor)));
        }
        match sendmsg(&socket, &rest[..now], &mut with, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                IoSlice::advance_slices(&mut rest, sent);
                descriptor = None;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => watch.map_or(Ok(()), |watch| (watch.alive)())?,
            Err(e) => return Err(broken(e)),
        }
    }
    Ok(())
}

/// As [`super::Connection::receive`].
pub(super) fn receive(socket: impl AsFd, out: &mut [u8], watch: Option<&Watch>) -> Result<usize> {
    loop {
        let got: rustix::io::Result<(usize, usize)> = recv(&socket, &mut *out, RecvFlags::empty());
        match got {
            Ok((got, _)) => return Ok(got),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => watch.map_or(Ok(()), |watch| (watch.alive)())?,
            Err(e) => return Err(broken(e)),
        }
    }
}

/// As [`receive`], of a Unix socket: keeps a descriptor that arrives with the bytes.
pub(super) fn receive_with(
    socket: impl AsFd,
    out: &mut [u8],
    watch: Option<&Watch>,
    passed: &Mutex<Option<OwnedFd>>,
) -> Result<usize> {
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        match recvmsg(&socket, &mut [IoSliceMut::new(out)], &mut with, RecvFlags::CMSG_CLOEXEC) {
            Ok(got) => {
                for message in with.drain() {
                    if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                        descriptors.for_each(|descriptor| *passed.lock() = Some(descriptor));
                    }
                }
                return Ok(got.bytes);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => watch.map_or(Ok(()), |watch| (watch.alive)())?,
            Err(e) => return Err(broken(e)),
        }
    }
}

/// Shuts both directions down, of a connection or of a socket that listens: calls that wait on this socket return.
pub(super) fn end(socket: impl AsFd) {
    let _ = shutdown(socket, Shutdown::Both);
}

/// As [`super::Connection::has_ended`].
pub(super) fn has_ended(socket: impl AsFd) -> bool {
    let mut asked = [PollFd::new(&socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // A signal: the next use of the connection tells.
    poll(&mut asked, Some(&now)).is_ok()
        && asked[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR)
}
