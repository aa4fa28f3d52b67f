//! Messages over a connection of any transport.

use crate::message::{self, Body, LENT, LONGEST_BODY, MOST_PARTS};
use crate::transport::{Connection, broken};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU8, Ordering};
use thalweg_types::{Error, ErrorKind, Result};

/// Memory for a body is allocated in steps of this many bytes while bytes arrive.
const STEP: usize = 1 << 20;

/// Bodies of at least this many bytes are lent where that is possible: shorter ones are copied in less time than a list of pieces needs.
pub const WORTH_LENDING: usize = 32 << 10;

/// Whether bodies may be lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lending {
    /// The other end was not asked yet.
    Unasked = 0,
    /// Yes.
    Yes = 1,
    /// No.
    No = 2,
}

/// One end of a connection.
pub struct Channel {
    /// The connection.
    pub connection: Box<dyn Connection>,
    lending: AtomicU8,
}

impl Channel {
    /// Over a connection.
    pub fn new(connection: Box<dyn Connection>) -> Channel {
        let lending = if connection.lends() { Lending::Unasked } else { Lending::No };
        Channel { connection, lending: AtomicU8::new(lending as u8) }
    }

    /// Whether bodies may be lent.
    pub fn lending(&self) -> Lending {
        match self.lending.load(Ordering::Relaxed) {
            0 => Lending::Unasked,
            1 => Lending::Yes,
            _ => Lending::No,
        }
    }

    /// The other end's answer.
    pub fn may_lend(&self, it_may: bool) {
        let answer = if it_may { Lending::Yes } else { Lending::No };
        self.lending.store(answer as u8, Ordering::Relaxed);
    }

    /// Sends a message whose body the other end reads from this process's memory: it stays unchanged until the reply. Bodies that are not
    /// worth it, or have too many pieces, are sent; returns whether this one is lent.
    ///
    /// # Errors
    /// As [`Channel::send`].
    pub fn lend(&self, head: &impl Serialize, body: &[IoSlice<'_>]) -> Result<bool> {
        let length: usize = body.iter().map(|piece| piece.len()).sum();
        if self.lending() != Lending::Yes || length < WORTH_LENDING || body.len() > MOST_PARTS {
            return self.send(head, body).map(|()| false);
        }
        let head = message::encode(head)?;
        let mut header = message::header(head.len(), length)?;
        header[4..].copy_from_slice(&(LENT | body.len() as u32).to_le_bytes());
        let pieces: Vec<(u64, u64)> = body.iter().map(|p| (p.as_ptr() as u64, p.len() as u64)).collect();
        let list = message::pieces_out(&pieces);
        self.connection.send(&mut [IoSlice::new(&header), IoSlice::new(&head), IoSlice::new(&list)])?;
        Ok(true)
    }

    /// Receives a request's body into the first bytes of a buffer that grows and never shrinks, and returns its length. Of a lent body
    /// that cannot be read, the error: the connection is still usable.
    ///
    /// # Errors
    /// As [`Channel::head`].
    pub fn request_body(&self, body: Body, buffer: &mut Vec<u8>) -> Result<Result<usize>> {
        let pieces = match body {
            Body::Sent(length) => {
                self.body_again(length, buffer)?;
                return Ok(Ok(length));
            }
            Body::Lent(pieces) => pieces,
        };
        let (pieces, total) = message::pieces_in(&self.body(16 * pieces)?)?;
        if let Err(e) = buffer.try_reserve(total.saturating_sub(buffer.len())) {
            return Ok(Err(Error::new(ErrorKind::NoMemory, format!("cannot hold {total} bytes: {e}"))));
        }
        if buffer.len() < total {
            buffer.resize(total, 0);
        }
        match self.connection.pull(&pieces, &mut buffer[..total]) {
            Err(e) if e.kind() == ErrorKind::PeerLost => Err(e),
            pulled => Ok(pulled.map(|()| total)),
        }
    }

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
        self.connection.send(&mut pieces)
    }

    /// Fills `out`; `false` if the other end closed the connection before the first byte.
    fn fill(&self, out: &mut [u8]) -> Result<bool> {
        let mut done = 0;
        while done < out.len() {
            match self.connection.receive(&mut out[done..])? {
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

    /// Receives the next message's head, and what its body is; `None` if the other end closed the connection.
    ///
    /// # Errors
    /// `Corrupt` for an invalid message, `PeerLost`.
    pub fn head<T: for<'a> Deserialize<'a>>(&self) -> Result<Option<(T, Body)>> {
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
