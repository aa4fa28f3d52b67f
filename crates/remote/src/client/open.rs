//! A file that is open at the daemon.

use super::buffer::{Destination, Run, Step};
use super::link::{Link, Session, nothing};
use crate::channel::Channel;
use crate::message::{LONGEST_PIECE, Reply, Request};
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use thalweg_layout::{Lease, Life, OpenWrite, ReadObject, WriteObject};
use thalweg_store::viewed;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, Result};
use thalweg_view::View;

/// A layout's handle of a file that is open at the daemon.
pub struct RemoteHandle(Arc<File>);

/// State of a handle, with its unsent bytes.
pub struct File {
    /// Number of the file in the link.
    pub number: u64,
    link: Arc<Link>,
    path: String,
    /// [`Link::names`] when the file was opened.
    names: u64,
    /// The file's identity, after the first request for it; `None` if it is unknown.
    identity: OnceLock<Option<u64>>,
    /// Writer number; `None` for a handle that reads.
    writer: Option<u32>,
    session: Arc<Session>,
    handle: u64,
    closed: AtomicBool,
    tail: Mutex<Tail>,
    /// State of [`Link::before_use`].
    looked: AtomicU64,
}

/// The last writes.
struct Tail {
    run: Run,
    /// The failure that lost bytes although their writes had succeeded.
    lost: Option<Reply>,
}

impl Tail {
    fn usable(&self) -> Result<()> {
        match &self.lost {
            None => Ok(()),
            Some(why) => Err(match why.clone().or_failure() {
                Err(e) => e.safe("bytes closed or synced before"),
                Ok(other) => other.unexpected(),
            }),
        }
    }
}

impl RemoteHandle {
    pub fn new(link: &Arc<Link>, path: &str, request: &Request, writer: Option<u32>) -> Result<RemoteHandle> {
        link.before(request);
        let names = link.names();
        let session = link.session()?;
        let (reply, ()) = link.call_in(&session, request, &[], nothing)?;
        let tail = Mutex::new(Tail { run: Run::default(), lost: None });
        Ok(RemoteHandle(Arc::new(File {
            number: link.number(),
            link: link.clone(),
            path: path.to_string(),
            names,
            identity: OnceLock::new(),
            writer,
            session,
            handle: reply.number()?,
            closed: AtomicBool::new(false),
            tail,
            looked: AtomicU64::new(0),
        })))
    }
}

impl File {
    /// Runs calls on the handle; for a guest (see [`Link`]) on its own handle, which is opened by name and closed.
    fn with<T>(&self, calls: impl FnOnce(&Session, u64) -> Result<T>) -> Result<T> {
        if self.link.is_ours() {
            return calls(&self.session, self.handle);
        }
        let path = self.path.clone();
        let request = match self.writer {
            Some(writer) => Request::OpenWrite { path, how: OpenWrite::Existing.into(), writer },
            None => Request::OpenRead(path),
        };
        let session = self.link.session()?;
        let handle = self.link.call_in(&session, &request, &[], nothing)?.0.number()?;
        let outcome = calls(&session, handle);
        let closed = self.link.call_in(&session, &Request::Close(handle), &[], nothing);
        outcome.and_then(|value| closed.map(|_| value))
    }

    /// Ends the run: no later write continues it.
    fn stop(&self, tail: &mut Tail) {
        if tail.run.has_room() {
            self.link.give_buffer_back();
        }
        if tail.run.is_open() {
            self.link.ends(self.number);
        }
        tail.run.close();
    }

    /// Whether the two are certainly different files. Requests each file's identity once.
    pub fn differs_from(&self, other: &File) -> bool {
        match self.path != other.path {
            true => matches!((self.identity(), other.identity()), (Some(one), Some(other)) if one != other),
            false => false,
        }
    }

    fn identity(&self) -> Option<u64> {
        if let Some(known) = self.identity.get() {
            return *known;
        }
        // The name may now refer to another file.
        if self.link.names() != self.names {
            return None;
        }
        let session = self.link.session().ok()?;
        let answer = self.link.call_in(&session, &Request::Stat(self.path.clone()), &[], nothing);
        let identity = answer.and_then(|(reply, ())| reply.stat()).ok().map(|about| about.identity);
        *self.identity.get_or_init(|| identity.filter(|identity| *identity != 0))
    }

    fn call(&self, request: impl Fn(u64) -> Request) -> Result<Reply> {
        self.with(|session, handle| self.link.call_in(session, &request(handle), &[], nothing).map(|(reply, ())| reply))
    }

    /// Sends pieces to a destination, at most [`LONGEST_PIECE`] bytes per request; returns their end.
    fn send(&self, destination: Destination, pieces: &[IoSlice<'_>]) -> Result<u64> {
        self.with(|session, handle| {
            let send = |end: u64, gathered: usize, now: &[IoSlice<'_>]| -> Result<u64> {
                match destination {
                    Destination::At(_) => {
                        self.link.call_in(session, &Request::Write(handle, end), now, nothing)?;
                        Ok(end.saturating_add(gathered as u64))
                    }
                    Destination::End => self.link.call_in(session, &Request::Append(handle), now, nothing)?.0.number(),
                }
            };
            let mut end = match destination {
                Destination::At(offset) => offset,
                Destination::End => 0,
            };
            let mut now: Vec<IoSlice<'_>> = Vec::new();
            let mut gathered = 0;
            let longest = self.link.longest_piece();
            for piece in pieces.iter().flat_map(|piece| piece.chunks(longest)) {
                if gathered + piece.len() > longest {
                    end = send(end, gathered, &now)?;
                    (gathered, now) = (0, Vec::new());
                }
                now.push(IoSlice::new(piece));
                gathered += piece.len();
            }
            send(end, gathered, &now)
        })
    }

    /// Sends the unsent bytes.
    fn flush(&self, tail: &mut Tail) -> Result<()> {
        let Some((destination, bytes)) = tail.run.unsent() else { return tail.usable() };
        match self.send(destination, &[IoSlice::new(bytes)]) {
            Ok(end) => {
                tail.run.sent(destination, Some(end));
                Ok(())
            }
            Err(e) => Err(self.lost(tail, e)),
        }
    }

    /// Bytes that were reported as written are lost: every later call on the handle must fail.
    fn lost(&self, tail: &mut Tail, cause: Error) -> Error {
        self.stop(tail);
        tail.lost = Some(Reply::from(&cause));
        cause
    }

    /// Sends the unsent bytes for another handle or a call by name. The next call on this handle reports a failure.
    ///
    /// - `all`: also ends the run, so that no later write continues it.
    pub fn give_out(&self, all: bool) {
        if !self.link.is_ours() {
            return;
        }
        let mut tail = self.tail.lock();
        let _ = self.flush(&mut tail);
        if all {
            self.stop(&mut tail);
        }
    }

    /// Call before a request on the handle: sends the unsent bytes that the request depends on.
    ///
    /// - `all`: also ends the run, so that no later write continues it.
    fn before(&self, all: bool) -> Result<()> {
        if !self.link.is_ours() {
            return Ok(());
        }
        self.link.before_use(self, &self.looked);
        let mut tail = self.tail.lock();
        let flushed = self.flush(&mut tail);
        if all {
            self.stop(&mut tail);
        }
        flushed
    }

    fn done(&self, request: impl Fn(u64) -> Request) -> Result<()> {
        self.before(false)?;
        self.call(request).map(|_| ())
    }

    /// As [`File::done`], for calls other than writes that change bytes or the length.
    fn changed(&self, request: impl Fn(u64) -> Request) -> Result<()> {
        self.before(true)?;
        self.call(request).map(|_| ())
    }

    /// Sends or buffers a write; returns the end of the bytes.
    fn write(self: &Arc<File>, destination: Destination, pieces: &[IoSlice<'_>]) -> Result<u64> {
        if !self.link.is_ours() {
            return self.send(destination, pieces);
        }
        self.link.before_use(self, &self.looked);
        let mut tail = self.tail.lock();
        tail.usable()?;
        match tail.run.take(destination, pieces, Instant::now(), || self.link.take_buffer()) {
            Step::Gathered => Ok(tail.run.end()),
            Step::Joined(destination) => {
                let unsent = tail.run.unsent().map_or(&[][..], |(_, bytes)| bytes);
                let mut all = vec![IoSlice::new(unsent)];
                all.extend(pieces.iter().map(|piece| IoSlice::new(piece)));
                let sent = self.send(destination, &all);
                drop(all);
                match sent {
                    Ok(end) => {
                        tail.run.sent(destination, Some(end));
                        Ok(end)
                    }
                    Err(e) => Err(self.lost(&mut tail, e)),
                }
            }
            Step::Apart => {
                self.flush(&mut tail)?;
                self.stop(&mut tail);
                // Threads that write at different offsets of a file do not wait for each other.
                drop(tail);
                let end = self.send(destination, pieces)?;
                let mut tail = self.tail.lock();
                // No write can continue at the largest offset, or if another thread has begun a run.
                if !tail.run.is_open() && end < i64::MAX as u64 {
                    tail.run.sent(destination, Some(end));
                    self.link.begins(self.number, Arc::downgrade(self));
                }
                Ok(end)
            }
        }
    }

    fn length(&self) -> Result<u64> {
        self.before(false)?;
        self.call(Request::Length)?.number()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.before(false)?;
        self.with(|session, handle| {
            let mut done = 0;
            for piece in out.chunks_mut(LONGEST_PIECE) {
                let request = Request::Read(handle, offset.saturating_add(done as u64), piece.len() as u32);
                let wanted = piece.len();
                let take = |_: &Reply, channel: &Channel, length| channel.body_into(length, piece);
                let (_, got) = self.link.call_in(session, &request, &[], take)?;
                done += got;
                if got < wanted {
                    break;
                }
            }
            Ok(done)
        })
    }

    /// Writes bytes of a view, in messages of at most [`LONGEST_PIECE`] bytes.
    fn write_view(&self, view: &Arc<View>, start: u64, bytes: &[u8]) -> Result<()> {
        viewed::reachable(view, start, bytes.len())?;
        self.before(true)?;
        self.with(|session, handle| {
            let number = self.link.view(session, view)?;
            let mut at = start;
            for piece in bytes.chunks(LONGEST_PIECE) {
                let parts = vec![(at, piece.len() as u64)];
                let request = Request::WriteParts { handle, view: Some(number), parts };
                self.link.call_in(session, &request, &[IoSlice::new(piece)], nothing)?;
                at += piece.len() as u64;
            }
            Ok(())
        })
    }

    fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        viewed::reachable(view, start, out.len())?;
        self.before(false)?;
        self.with(|session, handle| {
            let number = self.link.view(session, view)?;
            let mut done = 0;
            for piece in out.chunks_mut(LONGEST_PIECE) {
                let (from, wanted) = (start + done, piece.len() as u64);
                let request = Request::ReadParts { handle, view: Some(number), parts: vec![(from, wanted)] };
                let take = |_: &Reply, channel: &Channel, length| channel.body_into(length, piece);
                let (reply, _) = self.link.call_in(session, &request, &[], take)?;
                let there = viewed::bytes_before(view, from..from + wanted, reply.number()?);
                done += there;
                if there < wanted {
                    break;
                }
            }
            Ok(done)
        })
    }

    /// A guest takes none: its calls have handles of their own.
    fn lease(&self) -> Result<Option<Lease>> {
        if !self.link.is_ours() {
            return Ok(None);
        }
        self.before(false)?;
        match self.call(Request::Lease)? {
            Reply::None => Ok(None),
            reply => {
                let (link, session) = (self.link.clone(), self.session.clone());
                let of = session.clone();
                let lease = RemoteLease { link, session, handle: reply.number()? };
                Ok(Some(Lease::of_server(lease, move || of.is_lost())))
            }
        }
    }

    fn publish(&self) -> Result<()> {
        // Every call of a guest publishes by itself.
        if self.link.is_ours() { self.done(Request::Publish) } else { Ok(()) }
    }

    fn close(&self) -> Result<()> {
        // A guest does not close its parent's file.
        if !self.link.is_ours() {
            return Ok(());
        }
        let flushed = self.before(true);
        self.closed.store(true, Ordering::Relaxed);
        let closed = self.call(Request::Close).map(|_| ());
        flushed.and(closed)
    }
}

/// A lease that the daemon has taken.
struct RemoteLease {
    link: Arc<Link>,
    session: Arc<Session>,
    handle: u64,
}

impl Drop for RemoteLease {
    fn drop(&mut self) {
        // A guest does not end its parent's lease.
        if self.link.is_ours() && !self.session.is_lost() {
            let _ = self.link.call_in(&self.session, &Request::Drop(self.handle), &[], nothing);
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.closed.load(Ordering::Relaxed) || !self.link.is_ours() {
            return;
        }
        // Bytes that were reported as written are sent, as they would have been without buffering.
        self.give_out(true);
        if !self.session.is_lost() {
            let _ = self.link.call_in(&self.session, &Request::Drop(self.handle), &[], nothing);
        }
    }
}

impl ReadObject for RemoteHandle {
    fn length(&self) -> Result<u64> {
        self.0.length()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, out)
    }

    fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        self.0.read_view(view, start, out)
    }

    fn picks(&self) -> bool {
        true
    }

    fn life(&self) -> Result<Life> {
        self.0.call(Request::Life)?.life()
    }
}

impl WriteObject for RemoteHandle {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.0.write(Destination::At(offset), pieces).map(|_| ())
    }

    fn write_view(&self, view: &Arc<View>, start: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_view(view, start, bytes)
    }

    fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        self.0.read_view(view, start, out)
    }

    /// 0 if the daemon has ended: the next write reports it.
    fn order(&self) -> u64 {
        self.0.call(Request::Order).and_then(Reply::number).unwrap_or(0)
    }

    fn order_from(&self, number: u64) {
        let _ = self.0.done(|handle| Request::OrderFrom(handle, number));
    }

    /// Pieces of up to [`LONGEST_PIECE`] bytes are contiguous.
    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        self.0.write(Destination::End, pieces)
    }

    fn reserve(&self, offset: u64, length: u64) -> Result<()> {
        self.0.done(|handle| Request::Reserve(handle, offset, length))
    }

    fn length(&self) -> Result<u64> {
        self.0.length()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, out)
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.0.changed(|handle| Request::Cut(handle, length))
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.0.changed(|handle| Request::Punch(handle, offset, length))
    }

    fn sync(&self) -> Result<()> {
        self.0.done(Request::Sync)
    }

    fn publish(&self) -> Result<()> {
        self.0.publish()
    }

    fn lease(&self) -> Result<Option<Lease>> {
        self.0.lease()
    }

    fn life(&self) -> Result<Life> {
        self.0.before(false)?;
        self.0.call(Request::Life)?.life()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}
