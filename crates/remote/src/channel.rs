//! Messages through a socket. System calls of our own, as the client lives in processes whose calls are intercepted, and so that a
//! socket that was closed is an error and no signal.

use crate::message::{self, LONGEST_BODY};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recv, sendmsg};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::path::Path;
use thalweg_types::{Error, ErrorKind, Result};

/// Memory is taken in steps of so many bytes, as bytes arrive.
const STEP: usize = 1 << 20;

/// One end of a connection.
#[derive(Debug)]
pub struct Channel(pub OwnedFd);

fn lost(cause: impl Into<io::Error>) -> Error {
    Error::new(ErrorKind::PeerLost, "the connection broke").caused_by(cause.into())
}

impl Channel {
    /// To a daemon's socket.
    pub fn connect(path: &Path) -> rustix::io::Result<Channel> {
        let socket =
            rustix::net::socket_with(rustix::net::AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let address = SocketAddrUnix::new(path)?;
        loop {
            match rustix::net::connect(&socket, &address) {
                Err(Errno::INTR) => {}
                other => return other.map(|()| Channel(socket)),
            }
        }
    }

    /// The user at the other end.
    pub fn peer(&self) -> rustix::io::Result<u32> {
        Ok(rustix::net::sockopt::socket_peercred(&self.0)?.uid.as_raw())
    }

    /// Sends a message.
    ///
    /// # Errors
    /// `PeerLost` where nobody takes it.
    pub fn send(&self, head: &impl Serialize, body: &[IoSlice<'_>]) -> Result<()> {
        let head = message::encode(head)?;
        let length = body.iter().map(|piece| piece.len()).sum();
        let header = message::header(head.len(), length)?;
        let mut pieces = vec![IoSlice::new(&header), IoSlice::new(&head)];
        pieces.extend(body.iter().map(|piece| IoSlice::new(piece)));
        let mut rest = &mut pieces[..];
        while !rest.is_empty() {
            let now = rest.len().min(1024);
            match sendmsg(&self.0, &rest[..now], &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
                Ok(sent) => IoSlice::advance_slices(&mut rest, sent),
                Err(Errno::INTR) => {}
                Err(e) => return Err(lost(e)),
            }
            while rest.first().is_some_and(|piece| piece.is_empty()) {
                rest = &mut std::mem::take(&mut rest)[1..];
            }
        }
        Ok(())
    }

    /// Fills `out`; `false` where the other end had ended before the first byte.
    fn fill(&self, out: &mut [u8]) -> Result<bool> {
        let mut done = 0;
        while done < out.len() {
            let got: rustix::io::Result<(usize, usize)> = recv(&self.0, &mut out[done..], RecvFlags::empty());
            match got {
                Ok((0, _)) if done == 0 => return Ok(false),
                Ok((0, _)) => return Err(lost(io::Error::from(io::ErrorKind::UnexpectedEof))),
                Ok((got, _)) => done += got,
                Err(Errno::INTR) => {}
                Err(e) => return Err(lost(e)),
            }
        }
        Ok(true)
    }

    fn rest(&self, out: &mut [u8]) -> Result<()> {
        match out.is_empty() || self.fill(out)? {
            true => Ok(()),
            false => Err(lost(io::Error::from(io::ErrorKind::UnexpectedEof))),
        }
    }

    /// The next message's head, and the length of its body; `None` where the other end ended.
    ///
    /// # Errors
    /// `Corrupt` for what is no message, `PeerLost`.
    pub fn head<T: for<'a> Deserialize<'a>>(&self) -> Result<Option<(T, usize)>> {
        let mut header = [0; 8];
        if !self.fill(&mut header)? {
            return Ok(None);
        }
        let (head, body) = message::lengths(header)?;
        let mut bytes = vec![0; head];
        self.rest(&mut bytes)?;
        Ok(Some((message::decode(&bytes)?, body)))
    }

    /// The body that a head announced.
    ///
    /// # Errors
    /// As [`Channel::head`].
    pub fn body(&self, length: usize) -> Result<Vec<u8>> {
        debug_assert!(length <= LONGEST_BODY);
        let mut out = Vec::new();
        while out.len() < length {
            let (from, to) = (out.len(), length.min(out.len() + STEP));
            out.resize(to, 0);
            self.rest(&mut out[from..])?;
        }
        Ok(out)
    }

    /// The body, into memory of the caller.
    ///
    /// # Errors
    /// `Corrupt` where it is longer.
    pub fn body_into(&self, length: usize, out: &mut [u8]) -> Result<usize> {
        if length > out.len() {
            let what = format!("{length} bytes came where {} were asked for", out.len());
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        self.rest(&mut out[..length])?;
        Ok(length)
    }
}
