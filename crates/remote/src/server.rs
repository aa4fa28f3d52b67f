//! The daemon's side: a thread for each connection, sessions and their handles.

use crate::channel::{Channel, WORTH_SHARING};
use crate::message::{self, Body, LONGEST_BODY, LONGEST_PIECE, MOST_PARTS, MOST_VIEWS, Reply, Request, VERSION};
use crate::transport::Listener;
use crate::transport::segment::{self, Filled};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Instant;
use thalweg_layout::locks::{self, FileLocks};
use thalweg_layout::{Change, Layout, Lease, Life, Mounts, ReadObject, Stripes, WriteObject, WriterId, errno, mount};
use thalweg_types::guarded::caught;
use thalweg_types::mutex::{Mutex, RwLock};
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::View;

/// Session of one client process: its handles, closed when its last connection ends.
struct Session {
    number: u128,
    layout: Arc<dyn Layout>,
    handles: RwLock<HashMap<u64, Arc<Handle>>>,
    next: AtomicU64,
    views: RwLock<HashMap<u64, Arc<View>>>,
}

/// An open file of a session; empty once it is closed.
enum Handle {
    Read(Box<dyn ReadObject>),
    Write(RwLock<Option<Box<dyn WriteObject>>>),
    Locks(Box<dyn FileLocks>),
    /// Ends when the handle is dropped.
    Lease {
        _lease: Lease,
    },
}

impl Drop for Session {
    fn drop(&mut self) {
        for (_, handle) in self.handles.get_mut().drain() {
            // No client is left to report the failure to.
            let _ = handle.close();
        }
    }
}

fn closed() -> Error {
    errno::failure(Errno::BADF, "use a file that is not open", "")
}

impl Handle {
    fn writing<T>(&self, call: impl FnOnce(&dyn WriteObject) -> Result<T>) -> Result<T> {
        let Handle::Write(object) = self else { return Err(closed()) };
        let object = object.read();
        call(&**object.as_ref().ok_or_else(closed)?)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        match self {
            Handle::Read(object) => object.read_at(offset, out),
            _ => self.writing(|object| object.read_at(offset, out)),
        }
    }

    fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        match self {
            Handle::Read(object) => object.read_view(view, start, out),
            _ => self.writing(|object| object.read_view(view, start, out)),
        }
    }

    /// Reads one part. What the file lacks is zeros.
    fn read_part(&self, view: Option<&Arc<View>>, start: u64, out: &mut [u8]) -> Result<()> {
        let Some(view) = view else {
            let mut done = 0;
            while done < out.len() {
                match self.read_at(start.saturating_add(done as u64), &mut out[done..])? {
                    0 => break,
                    got => done += got,
                }
            }
            out[done..].fill(0);
            return Ok(());
        };
        let got = self.read_view(view, start, out)?;
        if view.is_rising() {
            out[got as usize..].fill(0);
        } else if got < out.len() as u64 {
            // Bytes behind a missing one may be there.
            let mut at = got as usize;
            for extent in view.extents(start + got..start + out.len() as u64) {
                let end = at + extent.length as usize;
                self.read_part(None, extent.offset, &mut out[at..end])?;
                at = end;
            }
        }
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        match self {
            Handle::Read(object) => object.length(),
            _ => self.writing(|object| object.length()),
        }
    }

    fn life(&self) -> Result<Life> {
        match self {
            Handle::Read(object) => object.life(),
            _ => self.writing(|object| object.life()),
        }
    }

    fn locks(&self) -> Result<&dyn FileLocks> {
        match self {
            Handle::Locks(locks) => Ok(&**locks),
            _ => Err(closed()),
        }
    }

    fn take(&self) -> Option<Box<dyn WriteObject>> {
        match self {
            Handle::Read(_) | Handle::Locks(_) | Handle::Lease { .. } => None,
            Handle::Write(object) => object.write().take(),
        }
    }

    fn close(&self) -> Result<()> {
        self.take().map_or(Ok(()), |object| object.close())
    }
}

impl Session {
    fn keep(&self, handle: Handle) -> Reply {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.handles.write().insert(number, Arc::new(handle));
        Reply::Number(number)
    }

    fn handle(&self, number: u64) -> Result<Arc<Handle>> {
        self.handles.read().get(&number).cloned().ok_or_else(closed)
    }

    fn take(&self, number: u64) -> Result<Arc<Handle>> {
        self.handles.write().remove(&number).ok_or_else(closed)
    }

    fn view(&self, number: Option<u64>) -> Result<Option<Arc<View>>> {
        let Some(number) = number else { return Ok(None) };
        let unknown = || Error::new(ErrorKind::Corrupt, "a message that names an unknown view");
        self.views.read().get(&number).cloned().map(Some).ok_or_else(unknown)
    }

    fn register(&self, number: u64, body: &[u8]) -> Result<()> {
        let view = Arc::new(View::decode(body)?);
        let mut views = self.views.write();
        if views.len() >= MOST_VIEWS && !views.contains_key(&number) {
            return Err(Error::new(ErrorKind::NoMemory, format!("a session has at most {MOST_VIEWS} views")));
        }
        views.insert(number, view);
        Ok(())
    }

    /// Bytes of the parts of a message.
    fn check_parts(parts: &[(u64, u64)]) -> Result<usize> {
        let total = parts.iter().try_fold(0u64, |total, (_, length)| total.checked_add(*length));
        match total.and_then(|total| usize::try_from(total).ok()) {
            Some(total) if total <= LONGEST_BODY && parts.len() <= MOST_PARTS => Ok(total),
            _ => Err(Error::new(ErrorKind::Corrupt, "a message of more parts or bytes than the protocol allows")),
        }
    }

    fn write_parts(&self, handle: u64, view: Option<u64>, parts: &[(u64, u64)], body: &[u8]) -> Result<()> {
        if Session::check_parts(parts)? != body.len() {
            return Err(Error::new(ErrorKind::Corrupt, "a message whose parts are not its bytes"));
        }
        let (handle, view) = (self.handle(handle)?, self.view(view)?);
        handle.writing(|object| {
            let mut rest = body;
            for (start, length) in parts {
                let (bytes, behind) = rest.split_at(*length as usize);
                match &view {
                    Some(view) => object.write_view(view, *start, bytes)?,
                    None => object.write_at(*start, &[IoSlice::new(bytes)])?,
                }
                rest = behind;
            }
            Ok(())
        })
    }

    fn read_parts(&self, handle: u64, view: Option<u64>, parts: &[(u64, u64)], out: &mut ReplyBody) -> Result<Reply> {
        let total = Session::check_parts(parts)?;
        let (handle, view) = (self.handle(handle)?, self.view(view)?);
        // Before the bytes: a file that grows meanwhile shows no bytes that were read before they were written.
        let length = handle.length()?;
        let mut rest = out.sized(total)?;
        for (start, length) in parts {
            let (bytes, behind) = rest.split_at_mut(*length as usize);
            handle.read_part(view.as_ref(), *start, bytes)?;
            rest = behind;
        }
        Ok(Reply::Number(length))
    }

    /// The reply to a request.
    ///
    /// - `out`: the reply's body afterwards; its memory is used again from one request to the next.
    fn answer(&self, request: Request, body: &[u8], out: &mut ReplyBody) -> Result<Reply> {
        let layout = &self.layout;
        let reply = match request {
            Request::Hello { .. } => {
                return Err(Error::new(ErrorKind::Corrupt, "a second Hello on one connection"));
            }
            Request::OpenWrite { path, how, writer } => {
                let object = layout.open_write(&path, how.into(), WriterId(writer))?;
                self.keep(Handle::Write(RwLock::new(Some(object))))
            }
            Request::OpenRead(path) => self.keep(Handle::Read(layout.open_read(&path)?)),
            Request::Stat(path) => layout.stat(&path)?.into(),
            Request::List(path) => {
                out.bytes = message::names_out(&layout.list(&path)?);
                Reply::Done
            }
            Request::Rename(from, to) => done(layout.rename(&from, &to)?),
            Request::Remove(path) => done(layout.remove(&path)?),
            Request::MakeFolder(path) => done(layout.make_folder(&path)?),
            Request::MakeOneFolder(path, mode) => done(layout.make_one_folder(&path, mode)?),
            Request::SyncFolder(path) => done(layout.sync_folder(&path)?),
            Request::Attributes(path) => layout.attributes(&path)?.into(),
            Request::SetAttributes { path, mode, uid, gid, atime, mtime } => {
                let (atime, mtime) = (atime.map(Into::into), mtime.map(Into::into));
                done(layout.set_attributes(&path, &Change { mode, uid, gid, atime, mtime })?)
            }
            Request::MakeStriped(path, targets, bytes) => {
                Reply::Number(u64::from(layout.make_striped(&path, Stripes { targets, bytes })?))
            }
            Request::Truncate(path, length) => done(layout.truncate(&path, length)?),
            Request::MakeLink(target, path) => done(layout.make_link(&target, &path)?),
            Request::ReadLink(path) => Reply::Text(layout.read_link(&path)?),
            Request::MakeHardLink(from, to) => done(layout.make_hard_link(&from, &to)?),
            Request::XattrGet(path, key) => match layout.xattr_get(&path, &key)? {
                Some(value) => {
                    out.bytes = value;
                    Reply::Done
                }
                None => Reply::None,
            },
            Request::XattrSet(path, key, how) => done(layout.xattr_set(&path, &key, body, message::how_in(how)?)?),
            Request::XattrList(path) => {
                out.bytes = message::names_out(&layout.xattr_list(&path)?);
                Reply::Done
            }
            Request::XattrRemove(path, key) => done(layout.xattr_remove(&path, &key)?),
            Request::Space(path) => layout.space(&path)?.into(),
            Request::PlainFile(path) => {
                match layout.plain_file(&path).and_then(|file| file.into_os_string().into_string().ok()) {
                    Some(file) => Reply::Text(file),
                    None => Reply::None,
                }
            }
            Request::Read(handle, offset, length) => {
                let handle = self.handle(handle)?;
                let got = handle.read_at(offset, out.sized((length as usize).min(LONGEST_PIECE))?)?;
                out.shorten(got);
                Reply::Done
            }
            Request::Write(handle, offset) => {
                done(self.handle(handle)?.writing(|object| object.write_at(offset, &[IoSlice::new(body)]))?)
            }
            Request::Append(handle) => {
                Reply::Number(self.handle(handle)?.writing(|object| object.append(&[IoSlice::new(body)]))?)
            }
            Request::Length(handle) => Reply::Number(self.handle(handle)?.length()?),
            Request::Cut(handle, length) => done(self.handle(handle)?.writing(|object| object.truncate(length))?),
            Request::Reserve(handle, offset, length) => {
                done(self.handle(handle)?.writing(|object| object.reserve(offset, length))?)
            }
            Request::Punch(handle, offset, length) => {
                done(self.handle(handle)?.writing(|object| object.punch(offset, length))?)
            }
            Request::Sync(handle) => done(self.handle(handle)?.writing(|object| object.sync())?),
            Request::Publish(handle) => done(self.handle(handle)?.writing(|object| object.publish())?),
            Request::Close(handle) => done(self.take(handle)?.close()?),
            Request::Drop(handle) => {
                drop(self.take(handle)?.take());
                Reply::Done
            }
            Request::Whole(path, most) => {
                let object = layout.open_read(&path)?;
                let length = usize::try_from(object.length()?).unwrap_or(usize::MAX);
                object.read_exact_at(0, out.sized(length.min(most as usize).min(LONGEST_PIECE))?)?;
                Reply::Done
            }
            // Of the connection, not of the session.
            Request::Lend(..) | Request::Share | Request::Unshare => {
                return Err(Error::new(ErrorKind::Corrupt, "a question about memory was not answered"));
            }
            Request::View(number) => done(self.register(number, body)?),
            Request::ForgetView(number) => {
                self.views.write().remove(&number);
                Reply::Done
            }
            Request::WriteParts { handle, view, parts } => done(self.write_parts(handle, view, &parts, body)?),
            Request::ReadParts { handle, view, parts } => self.read_parts(handle, view, &parts, out)?,
            Request::Order(handle) => Reply::Number(self.handle(handle)?.writing(|object| Ok(object.order()))?),
            Request::Claim(handle, from, bytes) => {
                Reply::Number(self.handle(handle)?.writing(|object| object.claim(from, bytes))?)
            }
            Request::Lease(handle) => match self.handle(handle)?.writing(|object| object.lease())? {
                Some(lease) => self.keep(Handle::Lease { _lease: lease }),
                None => Reply::None,
            },
            Request::Life(handle) => {
                let life = self.handle(handle)?.life()?;
                Reply::Life(life.leased, life.modified.map(Into::into))
            }
            Request::OpenLocks(path) => match layout.locks(&path)? {
                Some(locks) => self.keep(Handle::Locks(locks)),
                None => Reply::None,
            },
            Request::Lock { handle, family, kind, start, length, again } => {
                let range = locks::Range { start, length };
                self.handle(handle)?.locks()?.lock(family.into(), kind.into(), range, again)?.into()
            }
            Request::TestLock(handle, kind, start, length) => {
                let met = self.handle(handle)?.locks()?.test(kind.into(), locks::Range { start, length })?;
                met.map(|met| locks::Refused { met, ahead: 0 }).into()
            }
            Request::MakeCounter(handle, key) => done(self.handle(handle)?.locks()?.make_counter(key)?),
            Request::Count(handle, key, count) => {
                Reply::Number(self.handle(handle)?.locks()?.count(key, count.into())?)
            }
            Request::OrderFrom(handle, number) => done(self.handle(handle)?.writing(|object| {
                object.order_from(number);
                Ok(())
            })?),
        };
        Ok(reply)
    }
}

/// The body of a reply. Its memory is used again from one request to the next.
#[derive(Default)]
struct ReplyBody {
    bytes: Vec<u8>,
    /// Memory that the client reads.
    segment: Option<Filled>,
    /// The length, if the body is in the segment.
    shared: Option<usize>,
}

impl ReplyBody {
    fn clear(&mut self) {
        self.bytes.clear();
        self.shared = None;
    }

    /// The body with this length; what is in it means nothing.
    fn sized(&mut self, length: usize) -> Result<&mut [u8]> {
        if let Some(segment) = &mut self.segment
            && (WORTH_SHARING..=segment::LENGTH).contains(&length)
        {
            self.shared = Some(length);
            return Ok(&mut segment.bytes()[..length]);
        }
        let no_memory = |_| Error::new(ErrorKind::NoMemory, format!("cannot hold {length} bytes"));
        self.bytes.try_reserve_exact(length.saturating_sub(self.bytes.len())).map_err(no_memory)?;
        self.bytes.resize(length, 0);
        Ok(&mut self.bytes)
    }

    fn length(&self) -> usize {
        self.shared.unwrap_or(self.bytes.len())
    }

    /// Shortens the body.
    fn shorten(&mut self, length: usize) {
        match &mut self.shared {
            Some(shared) => *shared = length,
            None => self.bytes.truncate(length),
        }
    }

    fn send(&self, channel: &Channel, reply: &Reply) -> Result<()> {
        match self.shared {
            Some(length) => channel.send_shared(reply, length),
            None => channel.send(reply, &[IoSlice::new(&self.bytes)]),
        }
    }
}

/// Whether the client's memory can be read: 16 bytes of it must be what the client says.
///
/// # Errors
/// `Unsupported` if it cannot.
fn can_pull(channel: &Channel, address: u64, value: [u8; 16]) -> Result<()> {
    let mut got = [0; 16];
    channel.connection.pull(&[(address, 16)], &mut got)?;
    let other = || Error::new(ErrorKind::Unsupported, "the client's memory is not what the client sees");
    (got == value).then_some(()).ok_or_else(other)
}

/// Most bytes that a connection keeps for its next request.
const KEPT: usize = LONGEST_PIECE;

fn done((): ()) -> Reply {
    Reply::Done
}

struct Shared {
    mounts: Arc<Mounts>,
    sessions: Mutex<HashMap<u128, Weak<Session>>>,
    connections: Arc<Connections>,
    random: RandomState,
}

/// What clients have sent and received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Requests.
    pub requests: u64,
    /// Bytes that came with them, without views.
    pub received: u64,
    /// Bytes that went with replies.
    pub sent: u64,
    /// Bytes of views.
    pub views: u64,
}

impl Traffic {
    fn add(&mut self, other: &Traffic) {
        let Traffic { requests, received, sent, views } = *other;
        self.requests += requests;
        self.received += received;
        self.sent += sent;
        self.views += views;
    }
}

/// The connections of one or several servers of a process.
#[derive(Default)]
pub struct Connections {
    all: Mutex<BTreeMap<u64, Arc<Open>>>,
    /// Of those that have ended, by the prefix of their mount.
    ended: Mutex<BTreeMap<String, Traffic>>,
    next: AtomicU64,
}

/// A connection that stands.
struct Open {
    channel: Channel,
    /// Which [`serve`] it belongs to.
    listener: u64,
    since: Instant,
    /// Prefix of its mount, once the client has named it.
    prefix: OnceLock<String>,
    session: OnceLock<Weak<Session>>,
    /// Whether the client's memory is read; `None` before it asked for that.
    memory: OnceLock<std::result::Result<(), String>>,
    /// Whether segments are used; `None` before the client asked for them.
    segments: Mutex<Option<std::result::Result<(), String>>>,
    /// Whether a request's body was in the client's segment.
    shared_writes: AtomicBool,
    doing: Mutex<Option<(&'static str, Instant)>>,
    traffic: Mutex<Traffic>,
}

/// What a server knows of one of its connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// The other end and the transport: `process 4711 over a Unix socket`.
    pub client: String,
    /// Prefix of the mount that it uses; empty before the client has named it.
    pub mount: String,
    /// How the bytes of long writes come and those of long reads go, and why not faster.
    pub bytes: String,
    /// Seconds since it began.
    pub seconds: u64,
    /// Open files of its session, which all connections of a process to a mount share.
    #[serde(default)]
    pub files: u64,
    /// Views of its session.
    #[serde(default)]
    pub views: u64,
    /// The request that the client waits for.
    pub waits_for: Option<String>,
    /// Milliseconds that it has waited.
    pub waits_ms: u64,
}

impl Open {
    /// See [`ConnectionStatus::bytes`].
    fn bytes(&self) -> String {
        let writes = match self.memory.get() {
            _ if self.shared_writes.load(Ordering::Relaxed) => "pass through shared memory".to_string(),
            Some(Ok(())) => "are read from the client's memory".to_string(),
            Some(Err(why)) => format!("are sent: {why}"),
            None => "are sent: the client has not asked whether its memory can be read".to_string(),
        };
        let reads = match &*self.segments.lock() {
            Some(Ok(())) => "pass through shared memory".to_string(),
            Some(Err(why)) => format!("are sent: {why}"),
            None => "are sent: the client has not asked for shared memory".to_string(),
        };
        format!("long writes {writes}; long reads {reads}")
    }
}

impl Connections {
    /// What the clients of all mounts but one have sent and received so far.
    pub fn traffic(&self, except: &str) -> Traffic {
        let mut sum = Traffic::default();
        // In this order: a connection that ends meanwhile is counted once.
        let all = self.all.lock();
        self.ended.lock().iter().filter(|(prefix, _)| *prefix != except).for_each(|(_, of)| sum.add(of));
        let counted = |open: &&Arc<Open>| open.prefix.get().is_some_and(|prefix| prefix != except);
        all.values().filter(counted).for_each(|open| sum.add(&open.traffic.lock()));
        sum
    }

    fn end(&self, number: u64) {
        let mut all = self.all.lock();
        let Some(open) = all.remove(&number) else { return };
        // Not of those that were refused.
        if let (Some(prefix), Some(_)) = (open.prefix.get(), open.session.get()) {
            self.ended.lock().entry(prefix.clone()).or_default().add(&open.traffic.lock());
        }
    }

    /// Their state, the oldest first.
    pub fn status(&self) -> Vec<ConnectionStatus> {
        let all: Vec<_> = self.all.lock().values().cloned().collect();
        all.iter()
            .map(|open| {
                let doing = *open.doing.lock();
                let session = open.session.get().and_then(Weak::upgrade);
                let is_file = |handle: &&Arc<Handle>| matches!(***handle, Handle::Read(_) | Handle::Write(_));
                let files = |session: &Arc<Session>| session.handles.read().values().filter(is_file).count() as u64;
                let views = |session: &Arc<Session>| session.views.read().len() as u64;
                let counted = session.as_ref().map_or((0, 0), |session| (files(session), views(session)));
                if let Some(session) = session.filter(|session| Arc::strong_count(session) == 1) {
                    // Its client has gone, and its files are closed here, which may take as long as the storage does.
                    let _ = std::thread::Builder::new().name("close".into()).spawn(move || drop(session));
                }
                ConnectionStatus {
                    client: open.channel.connection.describe(),
                    mount: open.prefix.get().cloned().unwrap_or_default(),
                    bytes: open.bytes(),
                    seconds: open.since.elapsed().as_secs(),
                    files: counted.0,
                    views: counted.1,
                    waits_for: doing.map(|(what, _)| what.to_string()),
                    waits_ms: doing.map_or(0, |(_, since)| since.elapsed().as_millis() as u64),
                }
            })
            .collect()
    }
}

thread_local! {
    static CLIENT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The client whose request this thread answers, as [`ConnectionStatus::client`]; empty in other threads.
pub fn current_client() -> String {
    CLIENT.with_borrow(String::clone)
}

/// The kind of a request, for [`ConnectionStatus::waits_for`].
fn kind(request: &Request) -> &'static str {
    match request {
        Request::Read(..) | Request::ReadParts { .. } | Request::Whole(..) => "read",
        Request::Write(..) | Request::WriteParts { .. } | Request::Append(_) => "write",
        Request::Sync(_) | Request::Publish(_) => "sync",
        Request::Close(_) | Request::Drop(_) => "close",
        Request::OpenWrite { .. } | Request::OpenRead(_) | Request::OpenLocks(_) => "open",
        Request::Lock { .. } | Request::TestLock(..) => "lock",
        _ => "a question about names or views",
    }
}

/// A running server; dropping it ends the service.
pub struct Served {
    listener: Arc<dyn Listener>,
    listens: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    number: u64,
}

/// Serves the mounts of a table to all processes that may connect, see [`crate::transport`].
///
/// # Errors
/// `Io` if the listening thread cannot be created.
pub fn serve(mounts: Arc<Mounts>, listener: Arc<dyn Listener>) -> Result<Served> {
    serve_among(mounts, listener, Arc::default())
}

/// As [`serve`].
///
/// - `connections`: receives the connections, for [`Connections::status`].
///
/// # Errors
/// As [`serve`].
pub fn serve_among(mounts: Arc<Mounts>, listener: Arc<dyn Listener>, connections: Arc<Connections>) -> Result<Served> {
    let number = connections.next.fetch_add(1, Ordering::Relaxed);
    let shared = Arc::new(Shared { mounts, sessions: Mutex::default(), connections, random: RandomState::new() });
    let (of_thread, ours) = (listener.clone(), shared.clone());
    let listens = std::thread::Builder::new()
        .name("daemon".into())
        .spawn(move || ours.listen(&*of_thread, number))
        .map_err(|e| Error::io("cannot serve", e))?;
    Ok(Served { listener, listens: Some(listens), shared, number })
}

impl Served {
    /// Number of connections to all mounts but one, by its prefix.
    pub fn connections(&self, except: &str) -> usize {
        let counts = |open: &&Arc<Open>| {
            open.listener == self.number && open.prefix.get().is_some_and(|prefix| prefix != except)
        };
        self.shared.connections.all.lock().values().filter(counts).count()
    }
}

impl Drop for Served {
    /// Ends all connections; their handles are closed.
    fn drop(&mut self) {
        self.listener.end();
        if let Some(listens) = self.listens.take() {
            let _ = listens.join();
        }
    }
}

impl Shared {
    fn listen(self: Arc<Shared>, listener: &dyn Listener, number_of_listener: u64) {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        loop {
            let connection = match listener.accept() {
                Ok(Some(connection)) => connection,
                Ok(None) => break,
                Err(_) => {
                    // For example too many open files.
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    continue;
                }
            };
            threads.retain(|thread| !thread.is_finished());
            let open = Arc::new(Open {
                channel: Channel::new(connection),
                listener: number_of_listener,
                since: Instant::now(),
                prefix: OnceLock::new(),
                session: OnceLock::new(),
                memory: OnceLock::new(),
                segments: Mutex::default(),
                shared_writes: AtomicBool::new(false),
                doing: Mutex::default(),
                traffic: Mutex::default(),
            });
            let number = self.connections.next.fetch_add(1, Ordering::Relaxed);
            let shared = self.clone();
            self.connections.all.lock().insert(number, open.clone());
            let thread = std::thread::Builder::new().name("connection".into()).spawn(move || {
                // The other end has received the error that ended the connection, if it still exists.
                let _ = shared.talk(&open);
                shared.connections.end(number);
            });
            match thread {
                Ok(thread) => threads.push(thread),
                Err(_) => drop(self.connections.all.lock().remove(&number)),
            }
        }
        for open in self.connections.all.lock().values().filter(|open| open.listener == number_of_listener) {
            open.channel.connection.end();
        }
        for thread in threads {
            let _ = thread.join();
        }
    }

    fn talk(&self, open: &Open) -> Result<()> {
        let channel = &open.channel;
        CLIENT.set(channel.connection.describe());
        let admitted = channel.connection.admit();
        // A refused peer whose transport still passes bytes is told the reason.
        let Some((greeting, _)) = channel.head::<Request>()? else { return Ok(()) };
        if let Request::Hello { prefix, .. } = &greeting {
            let _ = open.prefix.set(mount::normal(prefix, "/"));
        }
        let session = match admitted.and_then(|()| self.greet(greeting)) {
            Ok(session) => session,
            Err(e) => return channel.send(&Reply::from(&e), &[]),
        };
        let _ = open.session.set(Arc::downgrade(&session));
        let welcome = Reply::Welcome { session: session.number, about: session.layout.describe() };
        channel.send(&welcome, &[])?;
        // Fresh memory for each request costs its page faults: as much as the copy into it.
        let (mut body, mut out) = (Vec::new(), ReplyBody::default());
        loop {
            let (request, sent) = match channel.head::<Request>() {
                Ok(Some(next)) => next,
                Ok(None) => return Ok(()),
                Err(e) => {
                    let _ = channel.send(&Reply::from(&e), &[]);
                    return Err(e);
                }
            };
            *open.doing.lock() = Some((kind(&request), Instant::now()));
            if matches!(sent, Body::Shared(_)) {
                open.shared_writes.store(true, Ordering::Relaxed);
            }
            let received = channel.request_body(sent, &mut body)?;
            {
                let mut traffic = open.traffic.lock();
                let bytes = *received.as_ref().unwrap_or(&0) as u64;
                traffic.requests += 1;
                match request {
                    Request::View(_) => traffic.views += bytes,
                    _ => traffic.received += bytes,
                }
            }
            // Of most requests none; those with one give it its length.
            out.clear();
            let answer = match (received, request) {
                // Memory of a device, for example, or a process that has changed its user since.
                (Err(_), _) => Ok(Reply::Unread),
                (Ok(_), Request::Lend(address, value)) => {
                    let answer = can_pull(channel, address, value);
                    let _ = open.memory.set(answer.as_ref().copied().map_err(ToString::to_string));
                    answer.map(done)
                }
                (Ok(_), Request::Share) => {
                    let made = channel.share();
                    *open.segments.lock() = Some(made.as_ref().map(|_| ()).map_err(ToString::to_string));
                    *open.doing.lock() = None;
                    match made {
                        Ok((segment, file)) => {
                            out.segment = Some(segment);
                            channel.pass(&Reply::Done, file)?;
                        }
                        Err(e) => channel.send(&Reply::from(&e), &[])?,
                    }
                    continue;
                }
                (Ok(_), Request::Unshare) => {
                    out.segment = None;
                    *open.segments.lock() = Some(Err("the client cannot map it".into()));
                    Ok(Reply::Done)
                }
                (Ok(length), request) => {
                    caught("answer a request", || session.answer(request, &body[..length], &mut out))
                }
            };
            *open.doing.lock() = None;
            match answer {
                Ok(reply) => {
                    open.traffic.lock().sent += out.length() as u64;
                    out.send(channel, &reply)?;
                }
                Err(e) => channel.send(&Reply::from(&e), &[])?,
            }
            for buffer in [&mut body, &mut out.bytes] {
                if buffer.capacity() > KEPT {
                    *buffer = Vec::new();
                }
            }
        }
    }

    fn greet(&self, greeting: Request) -> Result<Arc<Session>> {
        let Request::Hello { version, prefix, session } = greeting else {
            return Err(Error::new(ErrorKind::Corrupt, "a connection must begin with Hello"));
        };
        if version != VERSION {
            let what = format!(
                "the daemon uses protocol version {VERSION}, this program version {version}; start both from the same release"
            );
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        if let Some(number) = session {
            let known = self.sessions.lock().get(&number).and_then(Weak::upgrade);
            let gone = || Error::new(ErrorKind::PeerLost, "the daemon has lost the open files of this process");
            return known.ok_or_else(gone);
        }
        let wanted = mount::normal(&prefix, "/");
        let Some(mount) = self.mounts.mounts().iter().find(|mount| mount.prefix() == wanted) else {
            let what = "the daemon's mount table has no such mount: was it started with another table?";
            return Err(Error::new(ErrorKind::Config, what).in_object(wanted));
        };
        let unusable = |why| Error::new(ErrorKind::Config, format!("the mount {wanted} cannot be used: {why}"));
        let layout = mount.layout().map_err(unusable)?.clone();
        // Unpredictable, although only admitted processes can connect.
        let draw = || u128::from(self.random.hash_one((std::process::id(), std::time::Instant::now())));
        let number = draw() << 64 | u128::from(RandomState::new().hash_one(draw()));
        let (handles, next, views) = (RwLock::default(), AtomicU64::new(1), RwLock::default());
        let session = Arc::new(Session { number, layout, handles, next, views });
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, session| session.strong_count() > 0);
        sessions.insert(number, Arc::downgrade(&session));
        Ok(session)
    }
}
