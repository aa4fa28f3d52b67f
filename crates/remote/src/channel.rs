//! Messages over a connection of any transport.

use crate::message::{self, Body, LENT, LONGEST_BODY, MOST_PARTS, Reply, Request, SHARED};
use crate::transport::segment::{self, Filled};
use crate::transport::{Connection, broken};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Memory for a body is allocated in steps of this many bytes while bytes arrive.
const STEP: usize = 1 << 20;

/// Bodies of at least this many bytes are lent where that is possible: shorter ones are copied in less time than a list of pieces needs.
pub const WORTH_LENDING: usize = 32 << 10;

/// Bodies of at least this many bytes pass through segments, where both ends have agreed on them.
pub const WORTH_SHARING: usize = 32 << 10;

/// What a client knows of a way for bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The other end was not asked yet.
    Unasked = 0,
    /// It may be used.
    Open = 1,
    /// It may not.
    Closed = 2,
}

/// A [`Way`] that any thread may read.
struct Known(AtomicU8);

impl Known {
    fn new(way: Way) -> Known {
        Known(AtomicU8::new(way as u8))
    }

    fn get(&self) -> Way {
        match self.0.load(Ordering::Relaxed) {
            0 => Way::Unasked,
            1 => Way::Open,
            _ => Way::Closed,
        }
    }

    fn set(&self, it_may: bool) {
        self.0.store(if it_may { Way::Open } else { Way::Closed } as u8, Ordering::Relaxed);
    }
}

/// [`Channel::from_segment`]: the body is received from the connection.
const ON_THE_CONNECTION: usize = usize::MAX;

/// One end of a connection.
pub struct Channel {
    /// The connection.
    pub connection: Box<dyn Connection>,
    lending: Known,
    sharing: Known,
    /// The segment of this end, if it is the client's.
    ours: Mutex<Option<Filled>>,
    /// The segment of the other end.
    theirs: OnceLock<segment::Read>,
    /// The next byte of the received message's body in `theirs`, or [`ON_THE_CONNECTION`].
    from_segment: AtomicUsize,
}

impl Channel {
    /// Over a connection.
    pub fn new(connection: Box<dyn Connection>) -> Channel {
        let way = |possible| Known::new(if possible { Way::Unasked } else { Way::Closed });
        let (lending, sharing) = (way(connection.lends()), way(connection.shares()));
        let (ours, theirs, from_segment) = (Mutex::default(), OnceLock::new(), AtomicUsize::new(ON_THE_CONNECTION));
        Channel { connection, lending, sharing, ours, theirs, from_segment }
    }

    /// Whether bodies may be lent.
    pub fn lending(&self) -> Way {
        self.lending.get()
    }

    /// The other end's answer.
    pub fn may_lend(&self, it_may: bool) {
        self.lending.set(it_may);
    }

    /// Whether bodies may be shared.
    pub fn sharing(&self) -> Way {
        self.sharing.get()
    }

    /// Whether bodies of requests are to be shared, too.
    pub fn shares_writes(&self) -> bool {
        self.connection.shares_writes()
    }

    /// Asks the server to use segments.
    ///
    /// # Errors
    /// `PeerLost`; whatever prevents their use is none.
    pub fn ask_to_share(&self) -> Result<()> {
        let ended = || Error::new(ErrorKind::PeerLost, "the connection ended");
        let Ok((ours, file)) = Filled::make(crate::transport::placed) else {
            self.sharing.set(false);
            return Ok(());
        };
        self.pass(&Request::Share, file)?;
        let (reply, _) = self.head::<Reply>()?.ok_or_else(ended)?;
        // Without a descriptor if this process has as many as it may have.
        let theirs = self.connection.passed().and_then(|file| segment::Read::mapped(file).ok());
        let usable = reply == Reply::Done && theirs.is_some_and(|theirs| self.theirs.set(theirs).is_ok());
        if reply == Reply::Done && !usable {
            self.send(&Request::Unshare, &[])?;
            self.head::<Reply>()?.ok_or_else(ended)?;
        }
        if usable {
            *self.ours.lock() = Some(ours);
        }
        self.sharing.set(usable);
        Ok(())
    }

    /// For a server: uses the segment that the client has passed, and makes one for replies. The second value is its descriptor.
    ///
    /// # Errors
    /// `Unsupported` if one of them cannot be used.
    pub fn share(&self) -> Result<(Filled, OwnedFd)> {
        let none = || Error::new(ErrorKind::Unsupported, "no memory for messages has arrived");
        let theirs = segment::Read::of(self.connection.passed().ok_or_else(none)?)?;
        let made = Filled::make(|file| file)?;
        let twice = |_| Error::new(ErrorKind::Unsupported, "this connection has memory for messages");
        self.theirs.set(theirs).map_err(twice)?;
        Ok(made)
    }

    /// Sends a message with a descriptor.
    ///
    /// # Errors
    /// As [`Channel::send`].
    pub fn pass(&self, head: &impl Serialize, descriptor: OwnedFd) -> Result<()> {
        let head = message::encode(head)?;
        let header = message::header(head.len(), 0)?;
        self.connection.pass(&mut [IoSlice::new(&header), IoSlice::new(&head)], descriptor.as_fd())
    }

    /// Sends a request with a long body in the way that is open: shared, if this client asked for that, or lent. A lent body stays unchanged until the reply: the
    /// other end reads it from this process's memory. Returns whether it is lent.
    ///
    /// # Errors
    /// As [`Channel::send`].
    pub fn request(&self, head: &impl Serialize, body: &[IoSlice<'_>]) -> Result<bool> {
        let length: usize = body.iter().map(|piece| piece.len()).sum();
        if self.shares_writes()
            && self.sharing() == Way::Open
            && (WORTH_SHARING..=segment::LENGTH).contains(&length)
            && let Some(ours) = &mut *self.ours.lock()
        {
            let mut rest = ours.bytes();
            for piece in body {
                let (to, behind) = rest.split_at_mut(piece.len());
                to.copy_from_slice(piece);
                rest = behind;
            }
            return self.send_shared(head, length).map(|()| false);
        }
        if self.lending() == Way::Open && length >= WORTH_LENDING && body.len() <= MOST_PARTS {
            let pieces: Vec<(u64, u64)> = body.iter().map(|p| (p.as_ptr() as u64, p.len() as u64)).collect();
            let list = message::pieces_out(&pieces);
            return self.marked(head, LENT | body.len() as u32, &list).map(|()| true);
        }
        self.send(head, body).map(|()| false)
    }

    /// Sends a message whose body of `length` bytes is in this end's segment.
    ///
    /// # Errors
    /// As [`Channel::send`].
    pub fn send_shared(&self, head: &impl Serialize, length: usize) -> Result<()> {
        self.marked(head, SHARED | length as u32, &[])
    }

    /// Sends a message with this second length.
    fn marked(&self, head: &impl Serialize, body: u32, list: &[u8]) -> Result<()> {
        let head = message::encode(head)?;
        let mut header = message::header(head.len(), 0)?;
        header[4..].copy_from_slice(&body.to_le_bytes());
        self.connection.send(&mut [IoSlice::new(&header), IoSlice::new(&head), IoSlice::new(list)])
    }

    /// Receives a request's body into the first bytes of a buffer that grows and never shrinks, and returns its length. Of a lent body
    /// that cannot be read, the error: the connection is still usable.
    ///
    /// # Errors
    /// As [`Channel::head`].
    pub fn request_body(&self, body: Body, buffer: &mut Vec<u8>) -> Result<Result<usize>> {
        let pieces = match body {
            Body::Sent(length) | Body::Shared(length) => {
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

    /// The next bytes of the body, wherever it is.
    fn of_body(&self, out: &mut [u8]) -> Result<()> {
        let at = self.from_segment.load(Ordering::Relaxed);
        match self.theirs.get() {
            Some(theirs) if at != ON_THE_CONNECTION => {
                theirs.copy(at, out)?;
                self.from_segment.store(at + out.len(), Ordering::Relaxed);
                Ok(())
            }
            _ => self.rest(out),
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
        let from = match body {
            Body::Shared(_) if self.theirs.get().is_none() => {
                return Err(Error::new(ErrorKind::Corrupt, "a message whose body is in memory that was not passed"));
            }
            Body::Shared(_) => 0,
            Body::Sent(_) | Body::Lent(_) => ON_THE_CONNECTION,
        };
        self.from_segment.store(from, Ordering::Relaxed);
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
            self.of_body(&mut out[from..])?;
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
            self.of_body(&mut buffer[done..to])?;
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
        self.of_body(&mut out[..length])?;
        Ok(length)
    }
}
