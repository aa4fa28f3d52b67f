//! The program's side: a layout whose calls go over the socket. Blocking, no thread, no runtime.
//!
//! A process has a session with as many connections as it makes calls at once. After a `fork` the child has a session of its own; files
//! that were open are opened again there by their names, when they are used.

use crate::channel::Channel;
use crate::message::{self, LONGEST_PIECE, Reply, Request, VERSION};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thalweg_layout::{Attributes, Change, Layout, OpenWrite, ReadObject, SetXattr, Space, Stat, WriteObject, WriterId};
use thalweg_types::{Error, ErrorKind, Result};

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A layout that a daemon serves. See the module's page.
pub struct Remote {
    link: Arc<Link>,
}

struct Link {
    socket: PathBuf,
    prefix: String,
    about: Mutex<String>,
    session: Mutex<Option<Arc<Session>>>,
    place: fn(OwnedFd) -> OwnedFd,
}

struct Session {
    pid: u32,
    number: u128,
    idle: Mutex<Vec<Channel>>,
    lost: AtomicBool,
}

impl Session {
    fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }
}

impl Remote {
    /// - `socket`: of the daemon, see [`crate::default_socket`].
    /// - `prefix`: of the mount, as in the mount table.
    ///
    /// # Errors
    /// `NotReady` where no daemon serves the socket: names the command that starts one. What the daemon says.
    pub fn connect(socket: &Path, prefix: &str) -> Result<Remote> {
        Remote::connect_with(socket, prefix, |connection| connection)
    }

    /// As [`Remote::connect`], inside a program that expects the lowest free number of each open and closes what it finds.
    ///
    /// - `place`: is given each connection that is made, and gives back the descriptor to use from then on.
    ///
    /// # Errors
    /// As [`Remote::connect`].
    pub fn connect_with(socket: &Path, prefix: &str, place: fn(OwnedFd) -> OwnedFd) -> Result<Remote> {
        let link = Arc::new(Link {
            socket: socket.to_path_buf(),
            prefix: prefix.to_string(),
            about: Mutex::default(),
            session: Mutex::default(),
            place,
        });
        link.session()?;
        Ok(Remote { link })
    }

    fn call(&self, request: Request) -> Result<Reply> {
        self.link.call(&request, &[]).map(|(reply, _)| reply)
    }

    fn done(&self, request: Request) -> Result<()> {
        self.call(request).map(|_| ())
    }
}

impl Link {
    fn nobody(&self, cause: Errno) -> Error {
        let what = format!(
            "no daemon serves the socket; start one with `thalweg mount --socket-only --socket {}`",
            self.socket.display()
        );
        Error::new(ErrorKind::PeerLost, what)
            .caused_by(std::io::Error::from(cause))
            .in_object(self.socket.display().to_string())
    }

    fn gone(&self, cause: Error) -> Error {
        let what = format!("the daemon at {} is gone", self.socket.display());
        Error::new(ErrorKind::PeerLost, what).caused_by(cause).safe("what was closed or synced before")
    }

    fn greet(&self, session: Option<u128>) -> Result<(Channel, u128)> {
        let channel = Channel::connect(&self.socket).map_err(|e| self.nobody(e))?;
        let channel = Channel((self.place)(channel.0));
        let ours = rustix::process::geteuid().as_raw();
        let peer = channel.peer().map_err(|e| self.nobody(e))?;
        if peer != ours && peer != 0 {
            let what = format!("the daemon at this socket is user {peer}'s, not ours");
            return Err(Error::new(ErrorKind::PermissionDenied, what).in_object(self.socket.display().to_string()));
        }
        channel.send(&Request::Hello { version: VERSION, prefix: self.prefix.clone(), session }, &[])?;
        let (reply, _) = channel.head::<Reply>()?.ok_or_else(|| self.nobody(Errno::CONNRESET))?;
        match reply.or_failure()? {
            Reply::Welcome { session, about } => {
                *locked(&self.about) = about;
                Ok((channel, session))
            }
            other => Err(other.unexpected()),
        }
    }

    /// This process's session; a new one after a fork, and where the daemon was started again.
    fn session(&self) -> Result<Arc<Session>> {
        let mut known = locked(&self.session);
        if let Some(session) = &*known
            && session.is_ours()
            && !session.lost.load(Ordering::Acquire)
        {
            return Ok(session.clone());
        }
        let (channel, number) = self.greet(None)?;
        let idle = Mutex::new(vec![channel]);
        let session = Arc::new(Session { pid: std::process::id(), number, idle, lost: AtomicBool::new(false) });
        *known = Some(session.clone());
        Ok(session)
    }

    fn call(&self, request: &Request, body: &[IoSlice<'_>]) -> Result<(Reply, Vec<u8>)> {
        let take = |channel: &Channel, length| channel.body(length);
        let session = self.session()?;
        match self.call_in(&session, request, body, take) {
            // The daemon was started again since, perhaps.
            Err(_) if request.only_looks() && session.lost.load(Ordering::Acquire) => {
                let session = self.session()?;
                self.call_in(&session, request, body, take)
            }
            other => other,
        }
    }

    fn call_in<T>(
        &self,
        session: &Session,
        request: &Request,
        body: &[IoSlice<'_>],
        take: impl FnOnce(&Channel, usize) -> Result<T>,
    ) -> Result<(Reply, T)> {
        if session.lost.load(Ordering::Acquire) {
            return Err(self.gone(Error::new(ErrorKind::PeerLost, "this file was open there")));
        }
        let idle = locked(&session.idle).pop();
        let channel = match idle {
            Some(channel) => Ok(channel),
            None => self.greet(Some(session.number)).map(|(channel, _)| channel),
        };
        let talked = channel.and_then(|channel| {
            channel.send(request, body)?;
            let broke = || Error::new(ErrorKind::PeerLost, "the connection ended");
            let (reply, length) = channel.head::<Reply>()?.ok_or_else(broke)?;
            let body = take(&channel, length)?;
            Ok((channel, reply, body))
        });
        match talked {
            Ok((channel, reply, body)) => {
                locked(&session.idle).push(channel);
                Ok((reply.or_failure()?, body))
            }
            Err(e) if e.kind() == ErrorKind::PeerLost => {
                session.lost.store(true, Ordering::Release);
                locked(&session.idle).clear();
                Err(self.gone(e))
            }
            Err(e) => Err(e),
        }
    }
}

/// A file that is open there.
struct Open {
    link: Arc<Link>,
    path: String,
    /// Who writes; `None` where it reads.
    writer: Option<u32>,
    at: Mutex<(Arc<Session>, u64)>,
    closed: bool,
}

impl Open {
    fn new(link: &Arc<Link>, path: &str, request: &Request, writer: Option<u32>) -> Result<Open> {
        let session = link.session()?;
        let (reply, ()) = link.call_in(&session, request, &[], nothing)?;
        let at = Mutex::new((session, reply.number()?));
        Ok(Open { link: link.clone(), path: path.to_string(), writer, at, closed: false })
    }

    /// The session and handle; in a child of the process that opened it, opened again.
    fn at(&self) -> Result<(Arc<Session>, u64)> {
        let mut at = locked(&self.at);
        if !at.0.is_ours() {
            let path = self.path.clone();
            let request = match self.writer {
                Some(writer) => Request::OpenWrite { path, how: OpenWrite::Existing.into(), writer },
                None => Request::OpenRead(path),
            };
            let session = self.link.session()?;
            let (reply, ()) = self.link.call_in(&session, &request, &[], nothing)?;
            *at = (session, reply.number()?);
        }
        Ok(at.clone())
    }

    fn call(&self, request: impl Fn(u64) -> Request) -> Result<Reply> {
        let (session, handle) = self.at()?;
        self.link.call_in(&session, &request(handle), &[], nothing).map(|(reply, ())| reply)
    }

    fn done(&self, request: impl Fn(u64) -> Request) -> Result<()> {
        self.call(request).map(|_| ())
    }

    fn length(&self) -> Result<u64> {
        self.call(Request::Length)?.number()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let (session, handle) = self.at()?;
        let mut done = 0;
        for piece in out.chunks_mut(LONGEST_PIECE) {
            let request = Request::Read(handle, offset.saturating_add(done as u64), piece.len() as u32);
            let wanted = piece.len();
            let (_, got) =
                self.link.call_in(&session, &request, &[], |channel, length| channel.body_into(length, piece))?;
            done += got;
            if got < wanted {
                break;
            }
        }
        Ok(done)
    }
}

fn nothing(channel: &Channel, length: usize) -> Result<()> {
    // A reply that needs none has none; what comes all the same is taken off the connection.
    channel.body(length).map(drop)
}

impl Drop for Open {
    fn drop(&mut self) {
        let (session, handle) = locked(&self.at).clone();
        // The file of a parent process is its own.
        if !self.closed && session.is_ours() && !session.lost.load(Ordering::Acquire) {
            let _ = self.link.call_in(&session, &Request::Drop(handle), &[], nothing);
        }
    }
}

impl ReadObject for Open {
    fn length(&self) -> Result<u64> {
        Open::length(self)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        Open::read_at(self, offset, out)
    }
}

impl WriteObject for Open {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let (session, handle) = self.at()?;
        let mut at = offset;
        let mut now: Vec<IoSlice<'_>> = Vec::new();
        let mut gathered = 0;
        let send = |at: u64, now: &[IoSlice<'_>]| {
            self.link.call_in(&session, &Request::Write(handle, at), now, nothing).map(|_| ())
        };
        for piece in pieces.iter().flat_map(|piece| piece.chunks(LONGEST_PIECE)) {
            if gathered + piece.len() > LONGEST_PIECE {
                send(at, &now)?;
                at = at.saturating_add(gathered as u64);
                (gathered, now) = (0, Vec::new());
            }
            now.push(IoSlice::new(piece));
            gathered += piece.len();
        }
        send(at, &now)
    }

    /// Pieces of up to [`LONGEST_PIECE`] bytes lie together.
    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        let (session, handle) = self.at()?;
        let mut end = None;
        let mut now: Vec<IoSlice<'_>> = Vec::new();
        let mut gathered = 0;
        let send = |now: &[IoSlice<'_>]| {
            let (reply, ()) = self.link.call_in(&session, &Request::Append(handle), now, nothing)?;
            reply.number()
        };
        for piece in pieces.iter().flat_map(|piece| piece.chunks(LONGEST_PIECE)) {
            if gathered + piece.len() > LONGEST_PIECE {
                end = Some(send(&now)?);
                (gathered, now) = (0, Vec::new());
            }
            now.push(IoSlice::new(piece));
            gathered += piece.len();
        }
        match end {
            Some(end) if now.is_empty() => Ok(end),
            _ => send(&now),
        }
    }

    fn reserve(&self, offset: u64, length: u64) -> Result<()> {
        self.done(|handle| Request::Reserve(handle, offset, length))
    }

    fn length(&self) -> Result<u64> {
        Open::length(self)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        Open::read_at(self, offset, out)
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.done(|handle| Request::Cut(handle, length))
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.done(|handle| Request::Punch(handle, offset, length))
    }

    fn sync(&self) -> Result<()> {
        self.done(Request::Sync)
    }

    fn publish(&self) -> Result<()> {
        self.done(Request::Publish)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.closed = true;
        let at = locked(&self.at).0.clone();
        match at.is_ours() {
            true => self.done(Request::Close),
            // Never used in this process.
            false => Ok(()),
        }
    }
}

impl Layout for Remote {
    fn describe(&self) -> String {
        format!("{} through the daemon at {}", locked(&self.link.about), self.link.socket.display())
    }

    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        let request = Request::OpenWrite { path: path.into(), how: how.into(), writer: writer.0 };
        Ok(Box::new(Open::new(&self.link, path, &request, Some(writer.0))?))
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        Ok(Box::new(Open::new(&self.link, path, &Request::OpenRead(path.into()), None)?))
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        self.call(Request::Stat(path.into()))?.stat()
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        message::names_in(&self.link.call(&Request::List(folder.into()), &[])?.1)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.done(Request::Rename(from.into(), to.into()))
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.done(Request::Remove(path.into()))
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        self.done(Request::MakeFolder(path.into()))
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.done(Request::SyncFolder(folder.into()))
    }

    fn make_one_folder(&self, path: &str, mode: u32) -> Result<()> {
        self.done(Request::MakeOneFolder(path.into(), mode))
    }

    fn attributes(&self, path: &str) -> Result<Attributes> {
        self.call(Request::Attributes(path.into()))?.attributes()
    }

    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        self.done(Request::change(path, change))
    }

    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        self.done(Request::Truncate(path.into(), length))
    }

    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        self.done(Request::MakeLink(target.into(), path.into()))
    }

    fn read_link(&self, path: &str) -> Result<String> {
        match self.call(Request::ReadLink(path.into()))? {
            Reply::Text(target) => Ok(target),
            other => Err(other.unexpected()),
        }
    }

    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        self.done(Request::MakeHardLink(from.into(), to.into()))
    }

    fn xattr_get(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        match self.link.call(&Request::XattrGet(path.into(), key.into()), &[])? {
            (Reply::None, _) => Ok(None),
            (_, value) => Ok(Some(value)),
        }
    }

    fn xattr_set(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        let request = Request::XattrSet(path.into(), key.into(), message::how_out(how));
        self.link.call(&request, &[IoSlice::new(value)]).map(|_| ())
    }

    fn xattr_list(&self, path: &str) -> Result<Vec<String>> {
        message::names_in(&self.link.call(&Request::XattrList(path.into()), &[])?.1)
    }

    fn xattr_remove(&self, path: &str, key: &str) -> Result<()> {
        self.done(Request::XattrRemove(path.into(), key.into()))
    }

    fn space(&self, path: &str) -> Result<Space> {
        match self.call(Request::Space(path.into()))? {
            Reply::Space([bytes, free, available, objects, objects_free]) => {
                Ok(Space { bytes, free, available, objects, objects_free })
            }
            other => Err(other.unexpected()),
        }
    }

    fn plain_file(&self, path: &str) -> Option<PathBuf> {
        match self.call(Request::PlainFile(path.into())).ok()? {
            Reply::Text(file) => Some(file.into()),
            _ => None,
        }
    }
}
