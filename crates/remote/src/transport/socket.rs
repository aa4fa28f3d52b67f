//! Streams of bytes over a connected socket of any address family. Direct system calls, because the program's side runs in processes
//! whose C library calls are intercepted, and so that a closed socket is an error and not SIGPIPE.

use super::broken;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};
use std::io::IoSlice;
use thalweg_types::Result;

/// Largest number of pieces per system call.
const PIECES: usize = 1024;

/// As [`super::Connection::send`].
pub(super) fn send(socket: impl AsFd, pieces: &mut [IoSlice<'_>]) -> Result<()> {
    let mut rest = pieces;
    // Empty pieces are skipped.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let now = rest.len().min(PIECES);
        match sendmsg(&socket, &rest[..now], &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
            Ok(sent) => IoSlice::advance_slices(&mut rest, sent),
            Err(Errno::INTR) => {}
            Err(e) => return Err(broken(e)),
        }
    }
    Ok(())
}

/// As [`super::Connection::receive`].
pub(super) fn receive(socket: impl AsFd, out: &mut [u8]) -> Result<usize> {
    loop {
        let got: rustix::io::Result<(usize, usize)> = recv(&socket, &mut *out, RecvFlags::empty());
        match got {
            Ok((got, _)) => return Ok(got),
            Err(Errno::INTR) => {}
            Err(e) => return Err(broken(e)),
        }
    }
}

/// Shuts both directions down, of a connection or of a socket that listens: calls that wait on this socket return.
pub(super) fn end(socket: impl AsFd) {
    let _ = shutdown(socket, Shutdown::Both);
}
