//! The session, its connections, and the open files with unsent bytes.

use super::Pace;
use super::open::File;
use crate::channel::{Channel, WORTH_LENDING, WORTH_SHARING, Way};
use crate::message::{LONGEST_PIECE, Reply, Request, Unsent, VERSION};
use crate::transport::Transport;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::View;

/// A mount of a daemon, used by the process that created this value. A child that shares the parent's memory, or copied it
/// without `fork` handlers, is a guest: it changes nothing here, and each of its calls uses its own session.
pub struct Link {
    pid: u32,
    transport: Arc<dyn Transport>,
    prefix: String,
    about: Mutex<String>,
    session: Mutex<Option<Arc<Session>>>,
    /// Files whose next write may be buffered, by number.
    gathering: Mutex<HashMap<u64, Weak<File>>>,
    /// Counts files that began to buffer, so that a file checks the other files only after a change.
    begun: AtomicU64,
    /// Number of files with a buffer.
    buffers: AtomicUsize,
    /// Number of requests that changed names.
    names: AtomicU64,
    numbers: AtomicU64,
    /// When long bodies are sent.
    pace: Option<Arc<dyn Pace>>,
}

/// A process's session at the daemon.
pub struct Session {
    number: u128,
    idle: Mutex<Vec<Channel>>,
    lost: AtomicBool,
    /// Views that the daemon knows, with their numbers.
    views: Mutex<Vec<(Weak<View>, u64)>>,
    next_view: AtomicU64,
}

/// A request that was sent and whose reply was not received yet. Each one is passed to [`Link::finish`]: a session whose last
/// connection ends has no open files. The server may read the request's body from memory until then.
pub struct Sent<'b> {
    channel: Channel,
    /// A request whose body is lent, and the body.
    lent: Option<(Request, Vec<IoSlice<'b>>)>,
}

/// Views in use that a session keeps for further calls.
const VIEWS_KEPT: usize = crate::message::MOST_VIEWS / 2;

impl Session {
    /// Whether the daemon has ended: files that were open in this session stay lost.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Whether the daemon has ended, as far as the connections that nothing uses now show it. The session is then lost.
    fn has_ended(&self) -> bool {
        let mut idle = self.idle.lock();
        if idle.last().is_some_and(|channel| channel.connection.has_ended()) {
            self.lost.store(true, Ordering::Release);
            idle.clear();
        }
        self.is_lost()
    }
}

/// Reads and drops an unused body of a reply.
///
/// # Errors
/// `PeerLost`.
pub fn nothing(_: &Reply, channel: &Channel, length: usize) -> Result<()> {
    // Such replies have an empty body.
    channel.body(length).map(drop)
}

/// Asks the server whether it can read this process's memory.
///
/// # Errors
/// `PeerLost`.
fn ask_to_lend(channel: &Channel) -> Result<()> {
    let value = RandomState::new().hash_one(std::process::id()).to_ne_bytes();
    let value: Box<[u8; 16]> = Box::new(std::array::from_fn(|n| value[n % 8] ^ n as u8));
    channel.send(&Request::Lend(value.as_ptr() as u64, *value), &[])?;
    let ended = || Error::new(ErrorKind::PeerLost, "the connection ended");
    let (reply, _) = channel.head::<Reply>()?.ok_or_else(ended)?;
    channel.may_lend(reply == Reply::Done);
    Ok(())
}

/// Asks the server, once for each connection, for a way for the long bodies of this request and its reply.
///
/// # Errors
/// `PeerLost`.
fn prepare(channel: &Channel, request: &Request, body: &[IoSlice<'_>]) -> Result<()> {
    let length: usize = body.iter().map(|piece| piece.len()).sum();
    let shares = request.wanted() >= WORTH_SHARING as u64 || channel.shares_writes() && length >= WORTH_SHARING;
    if shares && channel.sharing() == Way::Unasked {
        channel.ask_to_share()?;
    }
    if length >= WORTH_LENDING && channel.lending() == Way::Unasked {
        ask_to_lend(channel)?;
    }
    Ok(())
}

impl Link {
    /// Connects.
    ///
    /// - `prefix`: of the mount.
    ///
    /// # Errors
    /// As [`super::Remote::over`].
    pub fn new(transport: Arc<dyn Transport>, prefix: &str) -> Result<Link> {
        let link = Link {
            pid: std::process::id(),
            transport,
            prefix: prefix.to_string(),
            about: Mutex::default(),
            session: Mutex::default(),
            gathering: Mutex::default(),
            begun: AtomicU64::new(1),
            buffers: AtomicUsize::new(0),
            names: AtomicU64::new(0),
            numbers: AtomicU64::new(0),
            pace: None,
        };
        link.session()?;
        Ok(link)
    }

    /// With a pace for the bytes of writes.
    pub fn paced(self, pace: Option<Arc<dyn Pace>>) -> Link {
        Link { pace, ..self }
    }

    /// Longest body of a write.
    pub fn longest_piece(&self) -> usize {
        self.pace.as_ref().map_or(LONGEST_PIECE, |pace| pace.piece().clamp(1, LONGEST_PIECE))
    }

    /// For messages.
    pub fn describe(&self) -> String {
        format!("{} through {}", self.about.lock(), self.transport.describe())
    }

    fn gone(&self, cause: Error) -> Error {
        let what = format!("{} has ended", self.transport.describe());
        Error::new(ErrorKind::PeerLost, what).caused_by(cause).safe("bytes closed or synced before")
    }

    fn greet(&self, session: Option<u128>) -> Result<(Channel, u128)> {
        let channel = Channel::new(self.transport.connect()?);
        channel.send(&Request::Hello { version: VERSION, prefix: self.prefix.clone(), session }, &[])?;
        let ended = || self.gone(Error::new(ErrorKind::PeerLost, "the connection ended"));
        let (reply, _) = channel.head::<Reply>()?.ok_or_else(ended)?;
        match reply.or_failure()? {
            Reply::Welcome { session, about } => {
                if self.is_ours() {
                    *self.about.lock() = about;
                }
                Ok((channel, session))
            }
            other => Err(other.unexpected()),
        }
    }

    /// Whether this process created the link; `false` in a guest, see [`Link`].
    pub fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    /// This process's session; a new one if the daemon was restarted, and for each call of a guest. So a call by name that follows a
    /// restart is made once, to the new daemon, whatever it changes.
    ///
    /// # Errors
    /// As [`super::Remote::over`].
    pub fn session(&self) -> Result<Arc<Session>> {
        let begin = || -> Result<Arc<Session>> {
            let (channel, number) = self.greet(None)?;
            let idle = Mutex::new(vec![channel]);
            let (lost, views, next_view) = (AtomicBool::new(false), Mutex::default(), AtomicU64::new(1));
            Ok(Arc::new(Session { number, idle, lost, views, next_view }))
        };
        if !self.is_ours() {
            return begin();
        }
        let mut known = self.session.lock();
        match &*known {
            Some(session) if !session.has_ended() => Ok(session.clone()),
            _ => Ok(known.insert(begin()?).clone()),
        }
    }

    /// Makes a call by name; the reply and its body.
    ///
    /// # Errors
    /// The reported failure; `PeerLost` if the daemon has ended.
    pub fn call(&self, request: &Request, body: &[IoSlice<'_>]) -> Result<(Reply, Vec<u8>)> {
        self.before(request);
        let take = |_: &Reply, channel: &Channel, length| channel.body(length);
        let session = self.session()?;
        match self.call_in(&session, request, body, take) {
            // The daemon may have been restarted.
            Err(_) if request.only_looks() && session.is_lost() => {
                let session = self.session()?;
                self.call_in(&session, request, body, take)
            }
            other => other,
        }
    }

    /// Sends a request in a session without waiting for the reply, so that several servers work at once.
    ///
    /// # Errors
    /// `PeerLost` if the daemon has ended. `OutOfBounds` for a message that is too long.
    pub fn begin<'b>(&self, session: &Session, request: &Request, body: &[IoSlice<'b>]) -> Result<Sent<'b>> {
        if session.is_lost() {
            return Err(self.gone(Error::new(ErrorKind::PeerLost, "this file was open there")));
        }
        if let Some(pace) = self.pace.as_ref().filter(|_| !body.is_empty()) {
            pace.before(body.iter().map(|piece| piece.len() as u64).sum());
        }
        let idle = session.idle.lock().pop();
        let channel = match idle {
            Some(channel) => Ok(channel),
            None => self.greet(Some(session.number)).map(|(channel, _)| channel),
        };
        let channel = channel.map_err(|e| self.lost(session, e))?;
        match prepare(&channel, request, body).and_then(|()| channel.request(request, body)) {
            Ok(lent) => {
                let lent = lent.then(|| (request.clone(), body.to_vec()));
                Ok(Sent { channel, lent })
            }
            Err(e) if e.kind() == ErrorKind::PeerLost => Err(self.lost(session, e)),
            // Nothing was sent.
            Err(e) => {
                session.idle.lock().push(channel);
                Err(e)
            }
        }
    }

    /// Receives the reply to a request.
    ///
    /// - `take`: receives the reply's body of so many bytes; the reply may be a failure.
    ///
    /// # Errors
    /// The reported failure; errors of `take`; `PeerLost` if the daemon has ended.
    pub fn finish<T>(
        &self,
        session: &Session,
        Sent { channel, lent }: Sent<'_>,
        take: impl FnOnce(&Reply, &Channel, usize) -> Result<T>,
    ) -> Result<(Reply, T)> {
        let received = || -> Result<(Reply, T)> {
            let broke = || Error::new(ErrorKind::PeerLost, "the connection ended");
            let (mut reply, mut body) = channel.head::<Reply>()?.ok_or_else(broke)?;
            if let (Reply::Unread, Some((request, bytes))) = (&reply, &lent) {
                channel.may_lend(false);
                channel.send(request, bytes)?;
                (reply, body) = channel.head::<Reply>()?.ok_or_else(broke)?;
            }
            let body = take(&reply, &channel, body.sent()?)?;
            Ok((reply, body))
        };
        match received() {
            Ok((reply, body)) => {
                session.idle.lock().push(channel);
                Ok((reply.or_failure()?, body))
            }
            Err(e) => Err(self.lost(session, e)),
        }
    }

    /// The error of a session whose connection broke: it is lost.
    fn lost(&self, session: &Session, e: Error) -> Error {
        if e.kind() != ErrorKind::PeerLost {
            return e;
        }
        session.lost.store(true, Ordering::Release);
        session.idle.lock().clear();
        self.gone(e)
    }

    /// Makes a call in a session: [`Link::begin`] and [`Link::finish`].
    ///
    /// # Errors
    /// Theirs.
    pub fn call_in<T>(
        &self,
        session: &Session,
        request: &Request,
        body: &[IoSlice<'_>],
        take: impl FnOnce(&Reply, &Channel, usize) -> Result<T>,
    ) -> Result<(Reply, T)> {
        let sent = self.begin(session, request, body)?;
        self.finish(session, sent, take)
    }

    /// The number of a view in a session; a view that the daemon does not know is sent first.
    ///
    /// # Errors
    /// As [`Link::call_in`].
    /// # Cost
    /// One request for a view that is new to the session, and one for each that nobody uses any more.
    pub fn view(&self, session: &Session, view: &Arc<View>) -> Result<u64> {
        let mut old = Vec::new();
        {
            let mut views = session.views.lock();
            if let Some(at) = views.iter().rposition(|(known, _)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(view))) {
                // Its memory cannot be another view's: the weak pointer keeps it.
                let known = views.remove(at);
                let number = known.1;
                views.push(known);
                return Ok(number);
            }
            views.retain(|(known, number)| {
                let lives = known.strong_count() > 0;
                if !lives {
                    old.push(*number);
                }
                lives
            });
            if views.len() >= VIEWS_KEPT {
                old.push(views.remove(0).1);
            }
        }
        for number in old {
            self.call_in(session, &Request::ForgetView(number), &[], nothing)?;
        }
        let number = session.next_view.fetch_add(1, Ordering::Relaxed);
        self.call_in(session, &Request::View(number), &[IoSlice::new(&view.encode())], nothing)?;
        session.views.lock().push((Arc::downgrade(view), number));
        Ok(number)
    }

    /// Call before a request by name: sends the unsent bytes that the request depends on. Failures are reported by the
    /// handles that wrote the bytes.
    pub fn before(&self, request: &Request) {
        if !self.is_ours() {
            return;
        }
        if request.changes_names() {
            self.names.fetch_add(1, Ordering::AcqRel);
        }
        let unsent = request.of_unsent();
        if unsent != Unsent::Apart {
            for file in self.gathering(None) {
                file.give_out(unsent == Unsent::Settled);
            }
        }
    }

    /// Call before a use of a file: sends unsent bytes of other handles that may refer to the same file.
    ///
    /// - `looked`: the file's value of `begun` at its last check; used only by this function.
    pub fn before_use(&self, file: &File, looked: &AtomicU64) {
        let begun = self.begun.load(Ordering::Acquire);
        if looked.load(Ordering::Acquire) == begun {
            return;
        }
        for other in self.gathering(Some(file.number)) {
            // Handles of other files continue to buffer; a handle of the same file starts a new run and is checked again.
            if !file.differs_from(&other) {
                other.give_out(true);
            }
        }
        looked.store(begun, Ordering::Release);
    }

    fn gathering(&self, but: Option<u64>) -> Vec<Arc<File>> {
        let gathering = self.gathering.lock();
        gathering.iter().filter(|(number, _)| Some(**number) != but).filter_map(|(_, file)| file.upgrade()).collect()
    }

    /// Records that a file's next write may be buffered.
    pub fn begins(&self, number: u64, file: Weak<File>) {
        self.gathering.lock().insert(number, file);
        self.begun.fetch_add(1, Ordering::AcqRel);
    }

    /// Records that a file's next write is sent immediately.
    pub fn ends(&self, number: u64) {
        self.gathering.lock().remove(&number);
    }

    /// Reserves a buffer; `false` if all are in use.
    pub fn take_buffer(&self) -> bool {
        let more = |taken| (taken < super::buffer::FILES).then_some(taken + 1);
        self.buffers.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Ends a [`Link::take_buffer`].
    pub fn give_buffer_back(&self) {
        self.buffers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Number of requests of this process that changed names.
    pub fn names(&self) -> u64 {
        self.names.load(Ordering::Acquire)
    }

    /// A number that no other file of this link has.
    pub fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}
