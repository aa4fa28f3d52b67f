//! How a client reaches a server: the socket of its node, if it runs there.

use crate::registry::{Entry, Server};
use std::path::Path;
use thalweg_remote::transport::unix::Socket;
use thalweg_remote::transport::{Connection, Transport};
use thalweg_types::{Error, ErrorKind, Result};

/// The way to a server, which messages name by partition and number.
pub(super) struct Place {
    about: String,
    inner: Socket,
}

/// This host's name.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Whether a configuration's host is this one.
pub(crate) fn is_here(name: &str) -> bool {
    let host = host();
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_string();
    name == "localhost" || name == host || short(name) == short(&host)
}

/// The way to a server of a running partition.
///
/// # Errors
/// `PeerLost` for a server that has not started, or cannot be reached from this host.
pub(super) fn of(entry: &Entry, number: u32) -> Result<Place> {
    let servers = entry.instance.iter().flat_map(|instance| &instance.servers);
    let Some(server) = servers.into_iter().find(|server| server.number == number) else {
        let what =
            format!("server {number} of partition {0} has not started: thalweg partition status {0}", entry.name);
        return Err(Error::new(ErrorKind::PeerLost, what));
    };
    let Server { host, socket, .. } = server;
    let about = format!("server {number} of partition {} on {host}", entry.name);
    if !is_here(host) {
        return Err(Error::new(ErrorKind::PeerLost, format!("{about} has no address for clients of other nodes")));
    }
    Ok(Place { about, inner: Socket::at(Path::new(socket)) })
}

impl Transport for Place {
    fn connect(&self) -> Result<Box<dyn Connection>> {
        self.inner.connect().map_err(|e| {
            Error::new(ErrorKind::PeerLost, format!("{} does not answer", self.about))
                .caused_by(e)
                .safe("bytes closed or synced before, once the partition is started again")
        })
    }

    fn describe(&self) -> String {
        self.about.clone()
    }
}
