//! The connections of this process to all others, shared by all its communicators.
//!
//! A message is one frame: header, then bytes.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 8 | context: the communicator; [`FAREWELL`] without bytes when the process has dropped all communicators |
//! | 8 | 4 | tag |
//! | 12 | 4 | sender's rank in the communicator |
//! | 16 | 8 | number of bytes |

use crate::window::Window;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind as IoKind, IoSlice, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_comm::SharedWindow;
use thalweg_comm::inbox::{Inbox, Ticket};
use thalweg_comm::messages::{Courier, MessageCommunicator, Others, Presence, lost};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// In place of a context: the process leaves.
const FAREWELL: u64 = u64::MAX;
const HEADER: usize = 24;
/// Bytes of one read.
const READ: usize = 1 << 20;
/// Longest wait for bytes that are not sent when the last communicator is dropped.
const LAST_BYTES: Duration = Duration::from_secs(10);

/// A frame on its way out.
struct Outgoing {
    header: [u8; HEADER],
    bytes: Vec<u8>,
    written: usize,
    sent: Arc<AtomicBool>,
}

/// The connection to one process.
struct Peer {
    stream: Arc<UnixStream>,
    process: u32,
    presence: Presence,
    outgoing: VecDeque<Outgoing>,
    /// The frame that is being received: its header, then its bytes.
    header: Vec<u8>,
    body: Option<(u64, u32, u32, Vec<u8>, usize)>,
}

struct State {
    /// By rank of the rendezvous; `None` for this process.
    peers: Vec<Option<Peer>>,
    inboxes: HashMap<u64, Inbox<Vec<u8>>>,
    next_context: u64,
    buffer: Vec<u8>,
}

/// See the module's page.
pub struct Mesh {
    pub rank: u32,
    pub size: u32,
    pub folder: PathBuf,
    state: Mutex<State>,
}

impl Mesh {
    /// - `streams`: by rank; `None` for this process. With the number of the process.
    pub fn new(rank: u32, folder: PathBuf, streams: Vec<Option<(UnixStream, u32)>>) -> Result<Mesh> {
        let size = streams.len() as u32;
        let peer = |(stream, process): (UnixStream, u32)| {
            stream.set_nonblocking(true).map_err(|e| Error::io("cannot use a connection", e))?;
            let (header, outgoing) = (Vec::new(), VecDeque::new());
            Ok(Peer { stream: Arc::new(stream), process, presence: Presence::Here, outgoing, header, body: None })
        };
        let peers = streams.into_iter().map(|stream| stream.map(peer).transpose()).collect::<Result<_>>()?;
        let state = State { peers, inboxes: HashMap::new(), next_context: 0, buffer: vec![0; READ] };
        Ok(Mesh { rank, size, folder, state: Mutex::new(state) })
    }

    /// Waits until bytes can be moved, at most until `deadline`; `false` once that has passed.
    fn until(&self, deadline: Option<Instant>) -> bool {
        /// Another thread of this process may have received what is waited for.
        const LONGEST: Duration = Duration::from_millis(20);
        let left = deadline.map_or(LONGEST, |deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return false;
        }
        let waiting: Vec<(Arc<UnixStream>, PollFlags)> = {
            let state = self.state.lock();
            let here = state.peers.iter().flatten().filter(|peer| peer.presence == Presence::Here);
            here.map(|peer| {
                let writes = if peer.outgoing.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
                (peer.stream.clone(), PollFlags::IN | writes)
            })
            .collect()
        };
        let mut polled: Vec<PollFd<'_>> =
            waiting.iter().map(|(stream, flags)| PollFd::new(&**stream, *flags)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: left.min(LONGEST).as_nanos() as i64 };
        if poll(&mut polled, Some(&timeout)).is_err() {
            // A signal; or too many connections, which are then looked at in turn.
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    }
}

impl Courier for Mesh {
    /// The end of the wait; `None` beyond the range of the clock.
    type Wait = Option<Instant>;

    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn next_context(&self) -> u64 {
        self.state.lock().next_context
    }

    fn open(&self, context: u64) {
        let mut state = self.state.lock();
        state.next_context = state.next_context.max(context + 1);
        state.inboxes.entry(context).or_default();
    }

    fn close(&self, context: u64) {
        self.state.lock().inboxes.remove(&context);
    }

    fn send(&self, to: u32, context: u64, tag: u32, from: u32, bytes: Vec<u8>) -> Result<Arc<AtomicBool>> {
        let mut state = self.state.lock();
        let sent = Arc::new(AtomicBool::new(to == self.rank));
        if to == self.rank {
            state.arrive(context, tag, from, bytes);
            return Ok(sent);
        }
        let peer = state.peer(to)?;
        if peer.presence != Presence::Here {
            return Err(peer.lost(to));
        }
        peer.outgoing.push_back(Outgoing {
            header: header(context, tag, from, bytes.len()),
            bytes,
            written: 0,
            sent: sent.clone(),
        });
        peer.write();
        Ok(sent)
    }

    fn look<T>(&self, context: u64, look: impl FnOnce(&mut Inbox<Vec<u8>>, &Others<'_>) -> T) -> T {
        let mut state = self.state.lock();
        state.progress();
        let mut inbox = state.inboxes.remove(&context).unwrap_or_default();
        let presence = |rank: u32| match state.peers.get(rank as usize) {
            Some(Some(peer)) => peer.presence,
            _ => Presence::Here,
        };
        let seen = look(&mut inbox, &Others { presence: &presence, failure: None });
        state.inboxes.insert(context, inbox);
        seen
    }

    fn withdraw(&self, context: u64, ticket: Ticket) {
        if let Some(inbox) = self.state.lock().inboxes.get_mut(&context) {
            inbox.withdraw(ticket);
        }
    }

    fn wait(&self, timeout: Duration) -> Option<Instant> {
        Instant::now().checked_add(timeout)
    }

    fn pause(&self, wait: &mut Option<Instant>) -> bool {
        self.until(*wait)
    }

    fn shares_memory(&self) -> bool {
        true
    }

    fn split_by_node(comm: &MessageCommunicator<Mesh>) -> Result<MessageCommunicator<Mesh>> {
        let all = comm.part(Some(0), 0)?;
        all.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "no duplicate"))
    }

    fn shared_window(comm: MessageCommunicator<Mesh>, bytes: u64) -> Result<Box<dyn SharedWindow>> {
        Ok(Box::new(Window::new(comm, bytes)?))
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if std::thread::panicking() {
            // Others then find that this process died.
            return;
        }
        for peer in state.peers.iter_mut().flatten().filter(|peer| peer.presence == Presence::Here) {
            let sent = Arc::new(AtomicBool::new(false));
            peer.outgoing.push_back(Outgoing {
                header: header(FAREWELL, 0, 0, 0),
                bytes: Vec::new(),
                written: 0,
                sent,
            });
        }
        drop(state);
        let deadline = Instant::now() + LAST_BYTES;
        loop {
            let mut state = self.state.lock();
            state.progress();
            let done =
                state.peers.iter().flatten().all(|peer| peer.outgoing.is_empty() || peer.presence != Presence::Here);
            drop(state);
            if done || !self.until(Some(deadline)) {
                return;
            }
        }
    }
}

/// Writes to a connection, without the signal that would end a program where the other process is gone.
pub fn send(stream: &UnixStream, bytes: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
    sendmsg(stream, bytes, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
}

fn header(context: u64, tag: u32, from: u32, bytes: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&context.to_le_bytes());
    header[8..12].copy_from_slice(&tag.to_le_bytes());
    header[12..16].copy_from_slice(&from.to_le_bytes());
    header[16..].copy_from_slice(&(bytes as u64).to_le_bytes());
    header
}

impl State {
    fn peer(&mut self, rank: u32) -> Result<&mut Peer> {
        let unknown = || Error::new(ErrorKind::InvalidArgument, format!("no connection to rank {rank}"));
        self.peers.get_mut(rank as usize).and_then(Option::as_mut).ok_or_else(unknown)
    }

    /// Keeps a message, unless its communicator was dropped here.
    fn arrive(&mut self, context: u64, tag: u32, from: u32, bytes: Vec<u8>) {
        if context >= self.next_context {
            // The communicator is being made; this rank comes later.
            self.inboxes.entry(context).or_default().arrive(from, tag, bytes);
        } else if let Some(inbox) = self.inboxes.get_mut(&context) {
            inbox.arrive(from, tag, bytes);
        }
    }

    fn progress(&mut self) {
        let mut arrived = Vec::new();
        for peer in self.peers.iter_mut().flatten().filter(|peer| peer.presence == Presence::Here) {
            peer.write();
            peer.read(&mut self.buffer, &mut arrived);
        }
        for (context, tag, from, bytes) in arrived {
            self.arrive(context, tag, from, bytes);
        }
    }
}

impl Peer {
    fn lost(&self, rank: u32) -> Error {
        lost(rank, self.presence)
    }

    fn gone(&mut self, presence: Presence) {
        // A process that said farewell has not died.
        if self.presence == Presence::Here {
            self.presence = presence;
        }
        self.outgoing.clear();
    }

    fn write(&mut self) {
        while let Some(frame) = self.outgoing.front_mut() {
            let header = &frame.header[frame.written.min(HEADER)..];
            let bytes = &frame.bytes[frame.written.saturating_sub(HEADER)..];
            match send(&self.stream, &[IoSlice::new(header), IoSlice::new(bytes)]) {
                Ok(count) => {
                    frame.written += count;
                    if frame.written == HEADER + frame.bytes.len() {
                        frame.sent.store(true, Ordering::Release);
                        self.outgoing.pop_front();
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // What the other process sent before may still be there: the end is found by reading.
                Err(_) => return self.outgoing.clear(),
            }
        }
    }

    /// Receives what is there.
    fn read(&mut self, buffer: &mut [u8], arrived: &mut Vec<(u64, u32, u32, Vec<u8>)>) {
        loop {
            // The bytes of a long message go where they stay.
            if let Some((context, tag, from, bytes, filled)) = &mut self.body {
                if *filled < bytes.len() {
                    match (&*self.stream).read(&mut bytes[*filled..]) {
                        Ok(0) => return self.gone(Presence::Died(self.process)),
                        Ok(count) => *filled += count,
                        Err(e) if e.kind() == IoKind::Interrupted => {}
                        Err(e) if e.kind() == IoKind::WouldBlock => return,
                        Err(_) => return self.gone(Presence::Died(self.process)),
                    }
                    continue;
                }
                arrived.push((*context, *tag, *from, std::mem::take(bytes)));
                self.body = None;
                continue;
            }
            let wanted = HEADER - self.header.len();
            match (&*self.stream).read(&mut buffer[..wanted]) {
                Ok(0) => return self.gone(Presence::Died(self.process)),
                Ok(count) => self.header.extend_from_slice(&buffer[..count]),
                Err(e) if e.kind() == IoKind::Interrupted => continue,
                Err(e) if e.kind() == IoKind::WouldBlock => return,
                Err(_) => return self.gone(Presence::Died(self.process)),
            }
            if self.header.len() < HEADER {
                continue;
            }
            let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| self.header[at + i]));
            let (context, length) = (number(0), number(16));
            let (tag, from) = (number(8) as u32, (number(8) >> 32) as u32);
            self.header.clear();
            if context == FAREWELL {
                return self.gone(Presence::Finished(self.process));
            }
            let mut bytes = Vec::new();
            let room = usize::try_from(length).ok().filter(|length| bytes.try_reserve_exact(*length).is_ok());
            match room {
                Some(length) => bytes.resize(length, 0),
                // The rest of the stream cannot be understood without this message.
                None => return self.gone(Presence::Died(self.process)),
            }
            self.body = Some((context, tag, from, bytes, 0));
        }
    }
}
