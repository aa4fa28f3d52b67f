//! The program's side: a layout whose calls are sent over a transport. Blocking, without threads or a runtime.
//!
//! A process has one session with one connection per concurrent call. A child of `fork` or `vfork` that uses its parent's
//! layouts is a guest: each of its calls uses its own session and reopens files by name, and the parent's state is not
//! changed. Doors with `fork` handlers create new layouts in the child.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`link`] | the session, its connections, and the open files with unsent bytes |
//! | `open` | a file that is open at the daemon |
//! | [`locks`] | locks and counters of a file at its server |
//! | [`buffer`] | buffering of contiguous writes |

use crate::message::{self, Reply, Request};
use crate::transport::{Transport, unix::Socket};
use link::Link;
use locks::ServedLocks;
use open::RemoteHandle;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_layout::locks::FileLocks;
use thalweg_layout::{
    Attributes, Change, Layout, OpenWrite, ReadObject, SetXattr, Space, Stat, Stripes, WriteObject, WriterId,
};
use thalweg_types::Result;

pub mod buffer;
pub mod link;
pub mod locks;
mod open;

/// When a process sends long bodies of requests.
pub trait Pace: Send + Sync {
    /// Longest body in bytes that the calling thread sends at once.
    fn piece(&self) -> usize;
    /// Waits until the calling thread may send a body of so many bytes.
    fn before(&self, bytes: u64);
}

/// A layout that a daemon serves.
///
/// # Cost
/// Each call is one request to the daemon, which makes the calls of its own layout, except: a read or write of more than
/// [`message::LONGEST_PIECE`] bytes is one request for each such piece; a contiguous short write is buffered without a request
/// ([`buffer`]); a call that depends on unsent bytes sends them first, one request for each file with such bytes. A concurrent
/// call without an idle connection connects first, with one more request. In a guest each call on an open file also opens a
/// session, opens the file and closes it.
pub struct Remote {
    link: Arc<Link>,
}

impl Remote {
    /// Connects to a daemon.
    ///
    /// - `transport`: to the daemon.
    /// - `prefix`: of the mount, as in the daemon's mount table.
    ///
    /// # Errors
    /// `PeerLost` if no daemon is running; the daemon's error, such as `NotFound` for a prefix that is not in its mount table.
    /// # Cost
    /// One connection and one request.
    pub fn over(transport: Arc<dyn Transport>, prefix: &str) -> Result<Remote> {
        Ok(Remote { link: Arc::new(Link::new(transport, prefix)?) })
    }

    /// As [`Remote::over`], with a pace for the bytes of writes.
    ///
    /// # Errors
    /// As [`Remote::over`].
    pub fn paced(transport: Arc<dyn Transport>, prefix: &str, pace: Option<Arc<dyn Pace>>) -> Result<Remote> {
        Ok(Remote { link: Arc::new(Link::new(transport, prefix)?.paced(pace)) })
    }

    /// Connects to a daemon on this machine by its socket, see [`crate::default_socket`].
    ///
    /// # Errors
    /// As [`Remote::over`]. `PeerLost` names the command that starts a daemon.
    pub fn connect(socket: &Path, prefix: &str) -> Result<Remote> {
        Remote::over(Arc::new(Socket::at(socket)), prefix)
    }

    /// All bytes of a file, at most `most`.
    ///
    /// # Errors
    /// Those of [`Layout::open_read`] and of a read.
    /// # Cost
    /// One request.
    pub fn whole(&self, path: &str, most: u32) -> Result<Vec<u8>> {
        Ok(self.link.call(&Request::Whole(path.into(), most), &[])?.1)
    }

    fn call(&self, request: Request) -> Result<Reply> {
        self.link.call(&request, &[]).map(|(reply, _)| reply)
    }

    fn done(&self, request: Request) -> Result<()> {
        self.call(request).map(|_| ())
    }
}

impl Layout for Remote {
    fn describe(&self) -> String {
        self.link.describe()
    }

    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        let request = Request::OpenWrite { path: path.into(), how: how.into(), writer: writer.0 };
        Ok(Box::new(RemoteHandle::new(&self.link, path, &request, Some(writer.0))?))
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        Ok(Box::new(RemoteHandle::new(&self.link, path, &Request::OpenRead(path.into()), None)?))
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
        self.call(Request::Space(path.into()))?.space()
    }

    fn make_striped(&self, path: &str, asked: Stripes) -> Result<bool> {
        Ok(self.call(Request::MakeStriped(path.into(), asked.targets, asked.bytes))?.number()? != 0)
    }

    fn locks(&self, path: &str) -> Result<Option<Box<dyn FileLocks>>> {
        ServedLocks::open(&self.link, path.to_string(), path)
    }

    fn plain_file(&self, path: &str) -> Option<PathBuf> {
        match self.call(Request::PlainFile(path.into())).ok()? {
            Reply::Text(file) => Some(file.into()),
            _ => None,
        }
    }
}
