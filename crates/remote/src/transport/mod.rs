//! What carries the protocol: connections that pass bytes in both directions, in order and without loss. The protocol knows nothing else
//! of them; `tests/transport.rs` holds what every transport must do.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`unix`] | sockets of one machine, for one user and root |
//! | [`pair`] | two ends in one process |

use std::io::IoSlice;
use thalweg_types::{Error, ErrorKind, Result};

pub mod pair;
pub mod unix;

/// One end of a connection. Any thread may send while another receives.
pub trait Connection: Send + Sync {
    /// Sends all pieces, one behind the other; waits while the other end takes none.
    ///
    /// # Errors
    /// `PeerLost` where the connection ended; some of the bytes may have arrived.
    fn send(&self, pieces: &mut [IoSlice<'_>]) -> Result<()>;

    /// Waits for bytes and takes as many as there are, up to `out.len()`; returns how many. 0 where the other end ended the connection
    /// and everything it sent has been taken.
    ///
    /// # Errors
    /// `PeerLost` where the connection broke.
    fn receive(&self, out: &mut [u8]) -> Result<usize>;

    /// Ends the connection in both directions. Calls that wait at either end return.
    fn end(&self);

    /// Whether the other end may be talked to, as far as the transport can tell.
    ///
    /// # Errors
    /// `PermissionDenied` says who the other end is.
    fn admit(&self) -> Result<()> {
        Ok(())
    }
}

/// The program's side: how connections to one server are made.
pub trait Transport: Send + Sync {
    /// A new connection, whose other end [`Connection::admit`] has accepted.
    ///
    /// # Errors
    /// `PeerLost` where no server listens, with what helps; `PermissionDenied` where the server may not be talked to.
    fn connect(&self) -> Result<Box<dyn Connection>>;

    /// The server, for messages: `the daemon at /run/user/1000/thalweg/daemon.sock`.
    fn describe(&self) -> String;
}

/// The server's side: where connections arrive.
pub trait Listener: Send + Sync {
    /// Waits for the next connection; `None` once [`Listener::end`] was called.
    ///
    /// # Errors
    /// What keeps this one connection from being made (too many open files, say): the next call waits again.
    fn accept(&self) -> Result<Option<Box<dyn Connection>>>;

    /// No connection arrives any more; a call that waits for one returns. Connections that were made go on.
    fn end(&self);
}

/// A connection that does not carry bytes any more.
pub(crate) fn broken(cause: impl Into<std::io::Error>) -> Error {
    Error::new(ErrorKind::PeerLost, "the connection broke").caused_by(cause.into())
}
