//! Unix sockets. The program's side uses direct system calls, because it runs in processes whose C library calls are
//! intercepted.
//!
//! | question | answer |
//! |----------|--------|
//! | access   | processes of the server's user, and root: each side requests the other's user from the kernel |
//! | place    | [`default_socket`], in a folder that only the user may enter |
//! | a socket without a server | is replaced by the next server |
//! | long reads | pass through a [segment](super::segment) of the server |
//! | long writes | the server reads them from the program's memory, where it may: see [`super::Connection::pull`]. Through a segment of the client only if the program asks for that: it takes longer |

use super::memory::Peer;
use super::{Connection, Listener, Transport, Watch, broken, placed, socket};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SocketAddrUnix, SocketFlags, SocketType};
use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// The environment variable that names the daemon's socket.
pub const VARIABLE: &str = "THALWEG_DAEMON";

/// How long a connection waits in the queue of a server that takes none.
const QUEUED: Duration = Duration::from_secs(30);

/// The socket of a user's daemon: the value of [`VARIABLE`], else `thalweg/daemon.sock` in `XDG_RUNTIME_DIR`, else
/// `/tmp/thalweg-UID/daemon.sock`.
pub fn default_socket() -> PathBuf {
    let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    named.unwrap_or_else(|| match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute()) {
        Some(folder) => folder.join("thalweg/daemon.sock"),
        None => PathBuf::from(format!("/tmp/thalweg-{}/daemon.sock", user())),
    })
}

/// The process at the other end of a socket, as the kernel tells it.
pub(super) struct OtherEnd {
    /// `None` for a process of a PID namespace that this process does not see, such as a container's.
    pub pid: Option<i32>,
    /// Its user.
    pub user: u32,
}

impl OtherEnd {
    /// # Errors
    /// Errors of the system.
    pub(super) fn of(socket: impl AsFd) -> io::Result<OtherEnd> {
        // rustix takes PID 0 for an error.
        let told = getsockopt(&socket, PeerCredentials)?;
        Ok(OtherEnd { pid: Some(told.pid()).filter(|pid| *pid > 0), user: told.uid() })
    }
}

/// PID of the process that serves a socket; `None` if the socket is not served, or its server not visible.
pub fn server_of(socket: &Path) -> Option<u32> {
    let end = connect(socket).ok()?;
    u32::try_from(OtherEnd::of(&end).ok()?.pid?).ok()
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn connect(path: &Path) -> rustix::io::Result<OwnedFd> {
    let socket =
        rustix::net::socket_with(rustix::net::AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let address = SocketAddrUnix::new(path)?;
    // A server that is stopped takes connections until its queue is full; then this one would wait without end.
    let limit = |time| {
        let _ = set_socket_timeout(&socket, Timeout::Send, time);
    };
    limit(Some(QUEUED));
    loop {
        match rustix::net::connect(&socket, &address) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Err(Errno::TIMEDOUT),
            other => {
                limit(None);
                return other.map(|()| socket);
            }
        }
    }
}

struct End {
    socket: OwnedFd,
    watch: OnceLock<Watch>,
    /// Whether this is the server's end.
    serves: bool,
    /// Whether the server may read this process's memory.
    lends: bool,
    /// The client's process, once its memory was read.
    peer: OnceLock<Peer>,
    /// Whether this client uses segments.
    shares: bool,
    shares_writes: bool,
    /// The last descriptor that arrived.
    passed: Mutex<Option<OwnedFd>>,
}

impl End {
    fn new(socket: OwnedFd, serves: bool, lends: bool, shares: bool, shares_writes: bool) -> End {
        let (watch, peer, passed) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        End { socket, watch, serves, lends, peer, shares, shares_writes, passed }
    }
}

impl Connection for End {
    fn watch(&self, watch: Watch) {
        socket::watch(&self.socket, &self.watch, watch);
    }

    fn send(&self, pieces: &mut [IoSlice<'_>]) -> Result<()> {
        socket::send(&self.socket, pieces, self.watch.get(), None)
    }

    fn receive(&self, out: &mut [u8]) -> Result<usize> {
        socket::receive_with(&self.socket, out, self.watch.get(), &self.passed)
    }

    fn end(&self) {
        socket::end(&self.socket);
    }

    fn lends(&self) -> bool {
        self.lends
    }

    fn pull(&self, pieces: &[(u64, u64)], out: &mut [u8]) -> Result<()> {
        let peer = match self.peer.get() {
            Some(peer) => peer,
            None => {
                let peer = Peer::of(&self.socket)?;
                self.peer.get_or_init(|| peer)
            }
        };
        peer.pull(&self.socket, pieces, out)
    }

    fn shares(&self) -> bool {
        self.shares
    }

    fn shares_writes(&self) -> bool {
        self.shares_writes
    }

    fn pass(&self, pieces: &mut [IoSlice<'_>], descriptor: BorrowedFd<'_>) -> Result<()> {
        socket::send(&self.socket, pieces, self.watch.get(), Some(descriptor))
    }

    fn passed(&self) -> Option<OwnedFd> {
        let arrived = self.passed.lock().take()?;
        Some(if self.serves { arrived } else { placed(arrived) })
    }

    fn has_ended(&self) -> bool {
        socket::has_ended(&self.socket)
    }

    fn describe(&self) -> String {
        match OtherEnd::of(&self.socket) {
            Ok(OtherEnd { pid: Some(pid), .. }) => format!("process {pid} over a Unix socket"),
            _ => "a process over a Unix socket".into(),
        }
    }

    fn admit(&self) -> Result<()> {
        let peer = OtherEnd::of(&self.socket).map_err(broken)?.user;
        if peer == user() || peer == 0 {
            return Ok(());
        }
        let what = match self.serves {
            true => format!("this daemon serves user {}, not user {peer}", user()),
            false => format!("the daemon at this socket is user {peer}'s, not ours"),
        };
        Err(Error::new(ErrorKind::PermissionDenied, what))
    }
}

/// The program's side of a socket.
pub struct Socket {
    path: PathBuf,
    lends: bool,
    shares: bool,
    shares_writes: bool,
}

impl Socket {
    /// The socket of the server that listens at `path`.
    pub fn at(path: &Path) -> Socket {
        Socket { path: path.to_path_buf(), lends: true, shares: true, shares_writes: false }
    }

    /// Long writes are sent, not read from this process's memory by the server.
    pub fn without_lending(self) -> Socket {
        Socket { lends: false, ..self }
    }

    /// Long writes pass through a segment, as long reads do.
    pub fn with_shared_writes(self) -> Socket {
        Socket { lends: false, shares: true, shares_writes: true, ..self }
    }

    /// Long reads are sent, not passed through segments.
    pub fn without_segments(self) -> Socket {
        Socket { shares: false, shares_writes: false, ..self }
    }
}

impl Transport for Socket {
    fn connect(&self) -> Result<Box<dyn Connection>> {
        let nobody = |cause: Errno| {
            let what = format!(
                "no daemon serves the socket; start a daemon with `thalweg mount --socket-only --socket {}`",
                self.path.display()
            );
            Error::new(ErrorKind::PeerLost, what).caused_by(io::Error::from(cause))
        };
        let socket = connect(&self.path).map_err(|e| nobody(e).in_object(self.path.display().to_string()))?;
        let socket = placed(socket);
        let end = End::new(socket, false, self.lends, self.shares, self.shares_writes);
        end.admit().map_err(|e| e.in_object(self.path.display().to_string()))?;
        Ok(Box::new(end))
    }

    fn describe(&self) -> String {
        format!("the daemon at {}", self.path.display())
    }
}

/// The server's side of a socket; dropping it removes the socket's name.
pub struct Listening {
    path: PathBuf,
    socket: UnixListener,
    ended: AtomicBool,
}

fn failed(what: &str, path: &Path, cause: impl Into<io::Error>) -> Error {
    Error::io(format!("cannot {what}"), cause.into()).in_object(path.display().to_string())
}

/// Listens at a socket, for processes of the same user and of root. The socket's folder is created for this user alone; an
/// existing socket without a server is replaced.
///
/// # Errors
/// `AlreadyExists` if another daemon serves the socket; `PermissionDenied` if other users may enter the folder; `Io` if the folder or
/// the socket cannot be made.
pub fn listen(path: &Path) -> Result<Listening> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.exists() {
        fs::create_dir_all(folder).map_err(|e| failed("make the socket's folder", folder, e))?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
            .map_err(|e| failed("close the socket's folder to others", folder, e))?;
    }
    let about = fs::metadata(folder).map_err(|e| failed("look at the socket's folder", folder, e))?;
    if about.mode() & 0o077 != 0 || about.uid() != user() {
        let what = format!(
            "the socket's folder must be this user's alone: it is user {}'s, mode {:o}",
            about.uid(),
            about.mode() & 0o7777
        );
        return Err(Error::new(ErrorKind::PermissionDenied, what).in_object(folder.display().to_string()));
    }
    match connect(path) {
        Ok(_) => {
            let what = "another daemon serves this socket";
            return Err(Error::new(ErrorKind::AlreadyExists, what).in_object(path.display().to_string()));
        }
        // A socket without a server.
        Err(Errno::CONNREFUSED) => fs::remove_file(path).map_err(|e| failed("replace the socket", path, e))?,
        Err(_) => {}
    }
    let socket = UnixListener::bind(path).map_err(|e| failed("make the socket", path, e))?;
    Ok(Listening { path: path.to_path_buf(), socket, ended: AtomicBool::new(false) })
}

impl Listener for Listening {
    fn accept(&self) -> Result<Option<Box<dyn Connection>>> {
        let accepted = self.socket.accept();
        if self.ended.load(Ordering::Acquire) {
            return Ok(None);
        }
        let (connection, _) = accepted.map_err(|e| failed("take a connection", &self.path, e))?;
        Ok(Some(Box::new(End::new(connection.into(), true, false, false, false))))
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        // Wakes the thread that waits for the next connection, also if the socket's name was removed.
        socket::end(&self.socket);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
