//! Messages over a connection of any transport.

use crate::message::{self, LONGEST_BODY};
use crate::transport::{Connection, broken};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice};
use thalweg_types::{Error, ErrorKind, Result};

/// Memory for a body is allocated in steps of this many bytes while bytes arrive.
const STEP: usize = 1 << 20;

/// One end of a connection.
pub struct Channel(pub Box<dyn Connection>);

impl Channel {
    /// Sends a message.
    ///
    /// # Errors
    /// `PeerLost` if the connection ended.
    pub fn send(&self, head: &impl Serialize, body: &[IoSlice<'_>]) -> Result<()> {
        let head = message::encode(head)?;
        let length = body.iter().map(|piece| piece.len()).sum();
        let header = message::header(head.len(), length)?;
        let mut pieces = vec![IoSlice::new(&header), IoSlice::new(&head)];
        pieces.extend(body.iter().map(|piece| IoSlice::new(piece)));
        self.0.send(&mut pieces)
    }

    /// Fills `out`; `false` if the other end closed the connection before the first byte.
    fn fill(&self, out: &mut [u8]) -> Result<bool> {
        let mut done = 0;
        while done < out.len() {
            match self.0.receive(&mut out[done..])? {
                0 if done == 0 => return Ok(false),
                0 => return Err(broken(io::ErrorKind::UnexpectedEof)),
                got => done += got,
            }
        }
        Ok(true)
    }

    fn rest(&self, out: &mut [u8]) -> Result<()> {
        match out.is_empty() || self.fill(out)? {
            true => Ok(()),
            false => Err(broken(io::ErrorKind::UnexpectedEof)),
        }
    }

    /// Receives the next message's head and the length of its body; `None` if the other end closed the connection.
    ///
    /// # Errors
    /// `Corrupt` for an invalid message, `PeerLost`.
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

    /// Receives the body that the head announced.
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

    /// Receives the body into the first bytes of a buffer that grows as they arrive and never shrinks.
    ///
    /// # Errors
    /// As [`Channel::head`].
    pub fn body_again(&self, length: usize, buffer: &mut Vec<u8>) -> Result<()> {
        debug_assert!(length <= LONGEST_BODY);
        let mut done = 0;
        while done < length {
            let to = length.min(buffer.len().max(done + STEP));
            if buffer.len() < to {
                buffer.resize(to, 0);
            }
            self.rest(&mut buffer[done..to])?;
            done = to;
        }
        Ok(())
    }

    /// Receives the body into the caller's memory.
    ///
    /// # Errors
    /// `Corrupt` if the body is longer; `PeerLost`.
    pub fn body_into(&self, length: usize, out: &mut [u8]) -> Result<usize> {
        if length > out.len() {
            let what = format!("{length} bytes received, {} requested", out.len());
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        self.rest(&mut out[..length])?;
        Ok(length)
    }
}
