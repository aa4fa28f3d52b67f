//! TCP, for data servers on several machines.
//!
//! | question | answer |
//! |----------|--------|
//! | access   | processes that know the server's [`Token`], and the server must know it as well: both prove it without sending it |
//! | afterwards | bytes are neither encrypted nor signed: who can alter packets between the machines can alter data. Use it within a cluster's network, or over a tunnel |
//! | a peer that vanished | is noticed within some 30 s, by keepalive and by the limit on unacknowledged bytes ([`GONE`]) |
//! | a peer that lives and does not receive for [`GONE`] while bytes wait for it | is treated as vanished: Linux counts this time as well |
//! | a silent or foreign peer | is dropped after [`HANDSHAKE`], or with its first 8 bytes; other connections do not wait for it |
//! | system calls | direct, except for the lookup of host names (`getaddrinfo`) |
//!
//! The handshake. The client sends nothing that depends on the token before the server has proved its own:
//!
//! | from   | bytes | content |
//! |--------|-------|---------|
//! | client | 8     | `THALWEG1` |
//! |        | 32    | nonce of the client |
//! | server | 8     | `THALWEG1` |
//! |        | 32    | nonce of the server |
//! |        | 32    | proof of the server, see [`super::token`] |
//! | client | 32    | proof of the client |

pub use super::token::Token;
use super::token::{Nonce, Role, random};
use super::{Connection, Listener, Transport, Watch, broken, placed, socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, Shutdown, SocketFlags, SocketType, sockopt};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_types::{Error, ErrorKind, Result};

/// First bytes in both directions.
const MAGIC: &[u8; 8] = b"THALWEG1";

/// Longest time for a connection to one of the server's addresses, of which each has an equal share of the rest.
pub const CONNECT: Duration = Duration::from_secs(10);

/// Longest time until the other end has proved the token.
pub const HANDSHAKE: Duration = Duration::from_secs(5);

/// Longest time without an acknowledgement, for bytes under way and for keepalive.
pub const GONE: Duration = Duration::from_secs(30);

/// Connections that may wait for [`Listener::accept`]: all ranks of a job may connect at once.
const WAITING: i32 = 4096;

/// Largest number of receive calls by which [`End::end`] discards bytes, for a peer that keeps sending.
const DISCARDED: usize = 1024;

/// Keepalive probes follow 10, 15, 20 and 25 s after the last received packet.
fn prepare(socket: &OwnedFd) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(10))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(socket, 3)?;
    sockopt::set_tcp_user_timeout(socket, GONE.as_millis() as u32)
}

/// Waits for an event of the socket.
fn wait(socket: &OwnedFd, event: PollFlags, until: Instant) -> rustix::io::Result<()> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(socket, event)], Some(&left)) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
}

fn connect(address: SocketAddr, until: Instant) -> rustix::io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(e) => return Err(e),
    }
    wait(&socket, PollFlags::OUT, until)?;
    sockopt::socket_error(&socket)??;
    // Without a listener, the kernel can choose the server's port for this end and connect the socket with itself.
    if rustix::net::getsockname(&socket)? == rustix::net::getpeername(&socket)?.ok_or(Errno::NOTCONN)? {
        return Err(Errno::CONNREFUSED);
    }
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(socket)
}

/// One side of the handshake.
struct Handshake<'a> {
    socket: &'a OwnedFd,
    token: &'a Token,
    /// The other end, for messages.
    other: &'a str,
    until: Instant,
}

impl Handshake<'_> {
    fn send(&self, pieces: &[&[u8]]) -> Result<()> {
        socket::send(self.socket, &mut pieces.iter().map(|piece| IoSlice::new(piece)).collect::<Vec<_>>(), None, None)
    }

    fn receive<const N: usize>(&self) -> Result<[u8; N]> {
        let (mut out, mut done) = ([0; N], 0);
        let lost = |what| Error::new(ErrorKind::PeerLost, format!("{} {what}", self.other));
        while done < N {
            wait(self.socket, PollFlags::IN, self.until).map_err(|e| match e {
                Errno::TIMEDOUT => lost(format!("did not prove its token within {} s", HANDSHAKE.as_secs())),
                e => broken(e),
            })?;
            match socket::receive(self.socket, &mut out[done..], None)? {
                0 => return Err(lost("closed the connection before it proved its token".into())),
                got => done += got,
            }
        }
        Ok(out)
    }

    fn magic(&self) -> Result<()> {
        if self.receive::<8>()? == *MAGIC {
            return Ok(());
        }
        let what = format!("{} speaks another protocol: is it a data server of Thalweg?", self.other);
        Err(Error::new(ErrorKind::Config, what))
    }

    /// Receives the other end's proof.
    fn proved(&self, by: Role, its: &Nonce, own: &Nonce) -> Result<()> {
        if blake3::Hash::from_bytes(self.receive()?) == self.token.proof(by, its, own) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::PermissionDenied, format!("{} has another token", self.other)))
    }

    fn of_client(&self) -> Result<()> {
        let own = random()?;
        self.send(&[MAGIC, &own])?;
        self.magic()?;
        let its = self.receive()?;
        self.proved(Role::Server, &its, &own)?;
        self.send(&[self.token.proof(Role::Client, &own, &its).as_bytes()])
    }

    fn of_server(&self) -> Result<()> {
        self.magic()?;
        let (own, its) = (random()?, self.receive()?);
        self.send(&[MAGIC, &own, self.token.proof(Role::Server, &own, &its).as_bytes()])?;
        self.proved(Role::Client, &its, &own)
    }
}

struct End {
    socket: OwnedFd,
    watch: OnceLock<Watch>,
    /// The other end, for messages.
    other: String,
    token: Token,
    /// Whether the other end has proved the token. The client's end is made when the server has.
    proved: AtomicBool,
    /// Whether this end was ended by [`Connection::end`].
    ended: AtomicBool,
}

impl End {
    /// No byte passes without a proof.
    fn checked(&self) -> Result<()> {
        match self.proved.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::PermissionDenied, format!("{} has not proved its token", self.other))),
        }
    }
}

impl Connection for End {
    fn watch(&self, watch: Watch) {
        socket::watch(&self.socket, &self.watch, watch);
    }

    fn send(&self, pieces: &mut [IoSlice<'_>]) -> Result<()> {
        self.checked()?;
        socket::send(&self.socket, pieces, self.watch.get(), None)
    }

    fn receive(&self, out: &mut [u8]) -> Result<usize> {
        self.checked()?;
        let got = socket::receive(&self.socket, out, self.watch.get())?;
        // `end` discards bytes: these may not be the next ones.
        match got > 0 && self.ended.load(Ordering::Acquire) {
            true => Err(broken(io::ErrorKind::ConnectionAborted)),
            false => Ok(got),
        }
    }

    /// Shutting both directions down does not wake the other end if it waits to send: its kernel waits for room in this end's
    /// buffer. So the buffer is emptied, and the last packet announces the room; the bytes that follow are refused.
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
        let mut out = [0; 16 << 10];
        for _ in 0..DISCARDED {
            match rustix::net::recv(&self.socket, &mut out[..], RecvFlags::DONTWAIT) {
                Ok((1.., _)) | Err(Errno::INTR) => {}
                _ => break,
            }
        }
        socket::end(&self.socket);
    }

    fn has_ended(&self) -> bool {
        socket::has_ended(&self.socket)
    }

    fn describe(&self) -> String {
        format!("{} over TCP", self.other)
    }

    /// The server's side of the handshake; takes up to [`HANDSHAKE`]. A peer that fails is disconnected.
    fn admit(&self) -> Result<()> {
        if self.proved.load(Ordering::Acquire) {
            return Ok(());
        }
        let (socket, token, other) = (&self.socket, &self.token, &*self.other);
        let until = Instant::now() + HANDSHAKE;
        let proved = prepare(socket).map_err(broken);
        match proved.and_then(|()| Handshake { socket, token, other, until }.of_server()) {
            Ok(()) => {
                self.proved.store(true, Ordering::Release);
                Ok(())
            }
            Err(e) => {
                self.end();
                Err(e)
            }
        }
    }
}

/// The program's side: a data server's address and token.
pub struct Tcp {
    address: String,
    token: Token,
}

impl Tcp {
    /// The data server that listens at an address.
    ///
    /// - `address`: host and port, `node17:4711`, `10.0.0.17:4711` or `[fe80::17]:4711`; looked up for each connection.
    pub fn to(address: &str, token: Token) -> Tcp {
        Tcp { address: address.to_string(), token }
    }

    fn reach(&self) -> Result<OwnedFd> {
        let unknown = |cause: io::Error| {
            let (kind, what) = match cause.kind() {
                io::ErrorKind::InvalidInput => (ErrorKind::Config, "is no address of the form HOST:PORT"),
                _ => (ErrorKind::PeerLost, "cannot be looked up"),
            };
            Error::new(kind, format!("the server's address {} {what}", self.address)).caused_by(cause)
        };
        let addresses: Vec<SocketAddr> = self.address.to_socket_addrs().map_err(unknown)?.collect();
        let until = Instant::now() + CONNECT;
        let mut failure = Errno::ADDRNOTAVAIL;
        for (number, address) in addresses.iter().enumerate() {
            let now = Instant::now();
            let share = until.saturating_duration_since(now) / (addresses.len() - number) as u32;
            match connect(*address, now + share).and_then(|socket| prepare(&socket).map(|()| socket)) {
                Ok(socket) => return Ok(socket),
                Err(e) => failure = e,
            }
        }
        let what = format!("no data server answers at {}", self.address);
        Err(Error::new(ErrorKind::PeerLost, what).caused_by(io::Error::from(failure)))
    }
}

impl Transport for Tcp {
    /// # Errors
    /// `PeerLost` if the host cannot be looked up, no server answers or the server does not prove a token; `PermissionDenied` if the
    /// server has another token; `Config` if the address is invalid or the server speaks another protocol.
    /// # Cost
    /// A lookup and two round trips; at most [`CONNECT`] and [`HANDSHAKE`] after the lookup.
    fn connect(&self) -> Result<Box<dyn Connection>> {
        let socket = placed(self.reach()?);
        let other = format!("the server at {}", self.address);
        let until = Instant::now() + HANDSHAKE;
        Handshake { socket: &socket, token: &self.token, other: &other, until }.of_client()?;
        let (proved, ended) = (AtomicBool::new(true), AtomicBool::new(false));
        Ok(Box::new(End { socket, watch: OnceLock::new(), other, token: self.token.clone(), proved, ended }))
    }

    fn describe(&self) -> String {
        format!("the data server at {}", self.address)
    }
}

/// The server's side.
pub struct TcpServer {
    address: SocketAddr,
    socket: TcpListener,
    token: Token,
    ended: AtomicBool,
}

/// Listens at an address, for processes that know the token.
///
/// - `address`: host and port; port 0 lets the kernel choose one.
///
/// Returns the server and the address at which it listens.
///
/// # Errors
/// `Io` if the host cannot be looked up or the address cannot be bound, for example because another server listens there;
/// `PermissionDenied` for a port that is reserved for root.
pub fn listen(address: &str, token: Token) -> Result<(TcpServer, SocketAddr)> {
    let failed = |cause| Error::io(format!("cannot listen at {address}"), cause);
    let socket = TcpListener::bind(address).map_err(failed)?;
    // Extends the queue that std has asked for.
    rustix::net::listen(&socket, WAITING).map_err(|e| failed(e.into()))?;
    let bound = socket.local_addr().map_err(failed)?;
    Ok((TcpServer { address: bound, socket, token, ended: AtomicBool::new(false) }, bound))
}

impl Listener for TcpServer {
    fn accept(&self) -> Result<Option<Box<dyn Connection>>> {
        let accepted = self.socket.accept();
        if self.ended.load(Ordering::Acquire) {
            return Ok(None);
        }
        let failed = |cause| Error::io(format!("cannot accept a connection at {}", self.address), cause);
        let (connection, from) = accepted.map_err(failed)?;
        let (proved, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let other = format!("the client at {from}");
        Ok(Some(Box::new(End {
            socket: connection.into(),
            watch: OnceLock::new(),
            other,
            token: self.token.clone(),
            proved,
            ended,
        })))
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        // Wakes the thread that waits for the next connection: Linux stops to listen.
        socket::end(&self.socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vanished_peer_is_noticed_by_keepalive_and_by_the_limit_on_unacknowledged_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = connect(listener.local_addr().unwrap(), Instant::now() + CONNECT).unwrap();
        prepare(&socket).unwrap();
        assert!(sockopt::tcp_nodelay(&socket).unwrap() && sockopt::socket_keepalive(&socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), Duration::from_secs(10));
        assert_eq!(sockopt::tcp_keepintvl(&socket).unwrap(), Duration::from_secs(5));
        assert_eq!(sockopt::tcp_keepcnt(&socket).unwrap(), 3);
        assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), 30_000);
    }
}
