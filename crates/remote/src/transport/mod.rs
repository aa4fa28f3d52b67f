//! Transports of the protocol: connections that pass bytes in both directions, in order and without loss. The protocol assumes nothing
//! else; `tests/transport.rs` is the test every transport must pass.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`unix`] | Unix sockets, for one user and root |
//! | [`tcp`] | TCP, for processes of several machines that share a token |
//! | [`token`] | that token: its file, and how it is proved |
//! | `memory` | bytes that the server takes from its client's memory, for [`unix`] |
//! | [`segment`] | memory that one end fills and the other one reads, for [`unix`] |
//! | [`pair`] | connections within one process |
//! | `socket` | bytes over a connected socket, for [`unix`] and [`tcp`] |

use std::io::IoSlice;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use thalweg_types::{Error, ErrorKind, Result};

mod memory;
pub mod pair;
pub mod segment;
mod socket;
pub mod tcp;
pub mod token;
pub mod unix;

/// One end of a connection. Any thread may send while another receives.
pub trait Connection: Send + Sync {
    /// Sends all pieces in order; blocks while the other end does not receive.
    ///
    /// # Errors
    /// `PeerLost` if the connection ended; some of the bytes may have arrived.
    fn send(&self, pieces: &mut [IoSlice<'_>]) -> Result<()>;

    /// Waits for bytes, receives up to `out.len()` and returns their number. 0: the other end closed the connection and all of its bytes
    /// were received.
    ///
    /// # Errors
    /// `PeerLost` if the connection broke.
    fn receive(&self, out: &mut [u8]) -> Result<usize>;

    /// Ends the connection in both directions. Calls that wait at either end return.
    fn end(&self);

    /// Whether the other end is known to have ended the connection, without waiting. `false` also where only a use of the connection
    /// would tell, such as after the power of the other host failed.
    fn has_ended(&self) -> bool {
        false
    }

    /// Sets what happens while [`Connection::send`] and [`Connection::receive`] wait; once, before their first use. Without it, and on
    /// transports that cannot, they wait as long as the connection stands.
    fn watch(&self, watch: Watch) {
        let _ = watch;
    }

    /// Whether the other end, a server, may be able to [pull](Connection::pull) bytes from this process's memory.
    fn lends(&self) -> bool {
        false
    }

    /// For a server: fills `out` with bytes of the client's memory at these addresses and lengths, together `out.len()` bytes. The client
    /// leaves them unchanged until the reply.
    ///
    /// # Errors
    /// `Unsupported` on transports that cannot, and without permission; `InvalidArgument` for memory that is not there; `PeerLost` if
    /// the client has ended: what was copied means nothing then.
    fn pull(&self, pieces: &[(u64, u64)], out: &mut [u8]) -> Result<()> {
        let _ = (pieces, out);
        Err(Error::new(ErrorKind::Unsupported, "bytes are sent over this transport, not read from the client's memory"))
    }

    /// Whether descriptors may be passed over this connection, and this client wants to use [segments](segment).
    fn shares(&self) -> bool {
        false
    }

    /// Whether this client puts bodies of requests into its segment, too.
    fn shares_writes(&self) -> bool {
        false
    }

    /// As [`Connection::send`]; a descriptor arrives with the first of the bytes.
    ///
    /// # Errors
    /// Also `Unsupported` on transports that pass none.
    fn pass(&self, pieces: &mut [IoSlice<'_>], descriptor: BorrowedFd<'_>) -> Result<()> {
        let _ = (pieces, descriptor);
        Err(Error::new(ErrorKind::Unsupported, "this transport passes no descriptors"))
    }

    /// The last descriptor that arrived with received bytes, once.
    fn passed(&self) -> Option<OwnedFd> {
        None
    }

    /// The other end, for messages about connections: `process 4711 over a Unix socket`.
    fn describe(&self) -> String;

    /// Checks the identity of the other end, if the transport knows it. The server calls it before the first byte, from a thread of
    /// the connection: it may exchange bytes with [`Transport::connect`] of the other end, which then waits for it. If it fails, a
    /// server may tell the other end why; a transport that forbids this fails each later send and receive.
    ///
    /// # Errors
    /// `PermissionDenied` with the user of the other end, or if its secret is another one; `PeerLost` if it does not prove its identity.
    fn admit(&self) -> Result<()> {
        Ok(())
    }
}

/// What a connection does while it waits for its other end.
#[derive(Clone)]
pub struct Watch {
    /// How long it waits before it asks.
    pub every: Duration,
    /// Asks whether the other end is alive: the connection waits on, or fails with the error.
    pub alive: Arc<dyn Fn() -> Result<()> + Send + Sync>,
}

static PLACE: OnceLock<fn(OwnedFd) -> OwnedFd> = OnceLock::new();

/// For use inside a program that expects the lowest free number from each open and may close any descriptor; the first call counts.
///
/// - `place`: receives the descriptor of each new connection of this process to a server, and returns the descriptor to use instead.
pub fn place_descriptors(place: fn(OwnedFd) -> OwnedFd) {
    let _ = PLACE.set(place);
}

/// The descriptor to use for a new connection.
pub(crate) fn placed(descriptor: OwnedFd) -> OwnedFd {
    match PLACE.get() {
        Some(place) => place(descriptor),
        None => descriptor,
    }
}

/// The program's side: creates connections to one server.
pub trait Transport: Send + Sync {
    /// A new connection, whose other end [`Connection::admit`] has accepted.
    ///
    /// # Errors
    /// `PeerLost` if no server listens, with the command that starts one; `PermissionDenied` if [`Connection::admit`] refuses the server.
    fn connect(&self) -> Result<Box<dyn Connection>>;

    /// The server, for messages: `the daemon at /run/user/1000/thalweg/daemon.sock`.
    fn describe(&self) -> String;
}

/// The server's side: accepts connections.
pub trait Listener: Send + Sync {
    /// Waits for the next connection; `None` once [`Listener::end`] was called.
    ///
    /// # Errors
    /// `Io` if this connection cannot be accepted, such as for too many open files. The listener stays usable.
    fn accept(&self) -> Result<Option<Box<dyn Connection>>>;

    /// Stops listening; a waiting [`Listener::accept`] returns. Established connections stay.
    fn end(&self);
}

/// The error for a broken connection.
pub(crate) fn broken(cause: impl Into<std::io::Error>) -> Error {
    Error::new(ErrorKind::PeerLost, "the connection broke").caused_by(cause.into())
}
