//! How a client reaches a server.
//!
//! | transport | when |
//! |-----------|------|
//! | Unix socket; long writes are read by the server from the program's memory, where it may | the server runs on this host |
//! | TCP, with the partition's token | it has an address: it was started with `listen` |
//!
//! [`VARIABLE`] asks for one of them.

use crate::registry::{Entry, Server};
use crate::server::CONTROL;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thalweg_remote::channel::Channel;
use thalweg_remote::message::{Reply, Request, VERSION};
use thalweg_remote::transport::tcp::Tcp;
use thalweg_remote::transport::token::Token;
use thalweg_remote::transport::unix::Socket;
use thalweg_remote::transport::{Connection, Transport, Watch};
use thalweg_types::{Error, ErrorKind, Result};

/// The environment variable that asks for a transport: `unix` (without reading memory), `tcp`, or `auto` (also without it).
pub const VARIABLE: &str = "THALWEG_TRANSPORT";

/// How long a client waits for an answer before it asks, over a connection of its own, whether the server is alive; and how long
/// it waits for that answer. A server that is stopped, or whose host is down, is an error after twice this time.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The way to a server, which messages name by partition and number.
pub(super) struct Place {
    about: String,
    inner: Arc<dyn Transport>,
}

/// This host's name.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Whether a configuration's host is this one.
pub fn is_here(name: &str) -> bool {
    let host = host();
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_string();
    name == "localhost" || name == host || short(name) == short(&host)
}

/// Which transports may be used.
struct Allowed {
    socket: bool,
    /// The server reads memory.
    memory: bool,
    tcp: bool,
}

fn allowed() -> Result<Allowed> {
    match std::env::var(VARIABLE).as_deref() {
        Err(_) | Ok("" | "auto") => Ok(Allowed { socket: true, memory: true, tcp: true }),
        Ok("unix") => Ok(Allowed { socket: true, memory: false, tcp: false }),
        Ok("tcp") => Ok(Allowed { socket: false, memory: false, tcp: true }),
        Ok(other) => Err(Error::new(ErrorKind::Config, format!("{VARIABLE}={other}: expected auto, unix or tcp"))),
    }
}

/// The way to a server of a running partition.
///
/// - `token`: the file with the partition's token.
///
/// # Errors
/// `PeerLost` for a server that has not started, or cannot be reached from this host; `Config` for an unknown transport; those of
/// [`Token::read`].
pub(super) fn of(entry: &Entry, number: u32, token: &Path) -> Result<Place> {
    let servers = entry.instance.iter().flat_map(|instance| &instance.servers);
    let Some(server) = servers.into_iter().find(|server| server.number == number) else {
        let what =
            format!("server {number} of partition {0} has not started: thalweg partition status {0}", entry.name);
        return Err(Error::new(ErrorKind::PeerLost, what));
    };
    let Server { host, socket, address, .. } = server;
    let about = format!("server {number} of partition {} on {host}", entry.name);
    let allowed = allowed()?;
    let inner: Arc<dyn Transport> = match address {
        _ if allowed.socket && is_here(host) => match Socket::at(Path::new(socket)) {
            socket if allowed.memory => Arc::new(socket),
            socket => Arc::new(socket.without_lending()),
        },
        Some(address) if allowed.tcp => Arc::new(Tcp::to(address, Token::read(token)?)),
        Some(_) => {
            return Err(Error::new(ErrorKind::PeerLost, format!("{about} is on another host, and {VARIABLE}=unix")));
        }
        None => {
            let what = format!("{about} cannot be reached from here: it was started without listen = ADDRESS");
            return Err(Error::new(ErrorKind::PeerLost, what));
        }
    };
    Ok(Place { about, inner })
}

/// Whether a server takes a new connection and answers its first request.
fn is_alive(inner: &dyn Transport, about: &str) -> Result<()> {
    let silent = || {
        let seconds = 2 * PATIENCE.as_secs();
        Error::new(
            ErrorKind::PeerLost,
            format!("{about} has not answered for {seconds} s: it is stopped, or its host is down"),
        )
    };
    let connection = inner.connect().map_err(|e| silent().caused_by(e))?;
    let text = about.to_string();
    connection.watch(Watch {
        every: PATIENCE,
        alive: Arc::new(move || Err(Error::new(ErrorKind::PeerLost, format!("{text} does not answer")))),
    });
    let channel = Channel::new(connection);
    let hello = Request::Hello { version: VERSION, prefix: CONTROL.into(), session: None };
    let answer = channel.send(&hello, &[]).and_then(|()| channel.head::<Reply>());
    match answer {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(silent()),
        Err(e) => Err(silent().caused_by(e)),
    }
}

impl Transport for Place {
    fn connect(&self) -> Result<Box<dyn Connection>> {
        let connection = self.inner.connect().map_err(|e| {
            let kind = if e.kind() == ErrorKind::PermissionDenied { e.kind() } else { ErrorKind::PeerLost };
            // A socket's own advice is about another kind of server.
            let cause = std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
            Error::new(kind, format!("{} does not answer", self.about))
                .caused_by(std::io::Error::other(cause))
                .safe("bytes closed or synced before, once the partition is started again")
        })?;
        let (inner, about) = (self.inner.clone(), self.about.clone());
        connection.watch(Watch { every: PATIENCE, alive: Arc::new(move || is_alive(&*inner, &about)) });
        Ok(connection)
    }

    fn describe(&self) -> String {
        self.about.clone()
    }
}
