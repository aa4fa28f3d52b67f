//! How a client reaches a server.
//!
//! | transport | when |
//! |-----------|------|
//! | Unix socket | the server runs on this host. Long reads pass through memory of both, and the server reads long writes from the program's memory; what is not possible is sent |
//! | TCP, with the partition's token | it has an address: it was started with `listen` |
//!
//! The configuration's `transport` asks for one of them, and [`VARIABLE`] for one program.

use crate::configuration::Choice;
use crate::instance;
use crate::registry::{Entry, Server};
use crate::server::CONTROL;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_remote::channel::Channel;
use thalweg_remote::message::{Reply, Request, VERSION};
use thalweg_remote::transport::tcp::Tcp;
use thalweg_remote::transport::token::Token;
use thalweg_remote::transport::unix::Socket;
use thalweg_remote::transport::{Connection, Transport, Watch};
use thalweg_types::{Error, ErrorKind, Result};

/// The environment variable that asks for a transport, as the configuration's `transport`.
pub const VARIABLE: &str = "THALWEG_TRANSPORT";

/// How long a client waits for an answer before it asks, over a connection of its own, whether the server is alive; and how long
/// it waits for that answer. A server that is stopped, or whose host is down, is an error after twice this time.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How often it asks a server of this host whose process runs, and may wait for its turn on a machine that is overloaded.
const ASKS: u32 = 6;

/// The way to a server, which messages name by partition and number.
pub(super) struct Place {
    about: String,
    inner: Arc<dyn Transport>,
    patience: Duration,
    /// The server's process, if its socket is one of this host.
    process: Option<Process>,
}

/// A process of this host.
#[derive(Debug, Clone, Copy)]
struct Process {
    pid: u32,
    /// See [`Server::started`].
    started: u64,
}

impl Process {
    /// Whether it runs and is not stopped: it may answer yet.
    fn may_answer(self) -> bool {
        instance::started(self.pid) == Some(self.started) && !matches!(instance::state(self.pid), Some('T' | 't'))
    }

    /// In words, for messages: with how many of its threads wait for a device.
    fn describe(self) -> String {
        if instance::started(self.pid) != Some(self.started) {
            return format!("its process {} has ended", self.pid);
        }
        if let Some('T' | 't') = instance::state(self.pid) {
            return format!("its process {} is stopped", self.pid);
        }
        let states = instance::thread_states(self.pid);
        let count = |wanted: char| states.iter().filter(|state| **state == wanted).count();
        let (all, waits, runs) = (states.len(), count('D'), count('R'));
        format!("of the {all} threads of its process {}, {waits} wait for a device and {runs} run", self.pid)
    }
}

impl Place {
    /// With another [`PATIENCE`].
    pub(super) fn with(self, patience: Duration) -> Place {
        Place { patience, ..self }
    }
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

/// The server that a client begins each round of messages with: another one for other clients, also if their process numbers are the
/// same on several machines, or rise by the number of servers.
///
/// - `machine`: what tells this machine from others.
pub(super) fn first(machine: &str, pid: u32, servers: usize) -> usize {
    let mut hash = DefaultHasher::new();
    (machine, pid).hash(&mut hash);
    (hash.finish() % servers.max(1) as u64) as usize
}

/// What tells this machine from others: its name, and the system's number of this boot.
pub(super) fn machine() -> String {
    host() + std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim()
}

/// The transport that the variable asks for, else the configuration.
fn choice(of_partition: Choice) -> Result<Choice> {
    match std::env::var(VARIABLE) {
        Err(_) => Ok(of_partition),
        Ok(word) if word.is_empty() => Ok(of_partition),
        Ok(word) => Choice::of(&word).ok_or_else(|| {
            Error::new(ErrorKind::Config, format!("{VARIABLE}={word}: expected auto, memfd, memory, unix or tcp"))
        }),
    }
}

/// The way to a server of a running partition.
///
/// - `token`: the file with the partition's token.
///
/// # Errors
/// `PeerLost` for a server that has not started, or cannot be reached from this host by this transport; `Config` for an unknown one; those of
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
    let choice = choice(entry.instance.as_ref().map(|instance| instance.transport).unwrap_or_default())?;
    let mut process = None;
    let inner: Arc<dyn Transport> = match address {
        _ if choice != Choice::Tcp && is_here(host) => {
            process = Some(Process { pid: server.pid, started: server.started });
            let socket = Socket::at(Path::new(socket));
            Arc::new(match choice {
                Choice::Auto | Choice::Tcp => socket,
                Choice::Memfd => socket.with_shared_writes(),
                Choice::Memory => socket.without_segments(),
                Choice::Unix => socket.without_lending().without_segments(),
            })
        }
        Some(address) if matches!(choice, Choice::Auto | Choice::Tcp) => {
            Arc::new(Tcp::to(address, Token::read(token)?))
        }
        Some(_) => {
            let what =
                format!("{about} is on another host, and the transport asked for ({choice}) is of its own host only");
            return Err(Error::new(ErrorKind::PeerLost, what));
        }
        None => {
            let what = format!("{about} cannot be reached from here: it was started without listen = ADDRESS");
            return Err(Error::new(ErrorKind::PeerLost, what));
        }
    };
    Ok(Place { about, inner, patience: PATIENCE, process })
}

/// Whether a server takes a new connection and answers its first request. One of this host whose process runs is asked [`ASKS`] times: it may
/// wait for its turn, or the machine may have stood still.
fn is_alive(inner: &dyn Transport, about: &str, patience: Duration, process: Option<Process>) -> Result<()> {
    let (mut asked, begun) = (0, Instant::now());
    loop {
        let Err(cause) = answers(inner, about, patience) else { return Ok(()) };
        asked += 1;
        // One that refuses does not wait for its turn. Not by the clock: where a whole machine stood still, such as a virtual one, all times
        // are over at once.
        let was_silent = cause.kind() == ErrorKind::Timeout;
        if asked < ASKS && was_silent && process.is_some_and(Process::may_answer) {
            continue;
        }
        let seconds = (patience + begun.elapsed()).as_secs();
        let why = process.map_or("it is stopped, or its host is down".to_string(), Process::describe);
        let what = format!("{about} has not answered for {seconds} s: {why}");
        return Err(Error::new(ErrorKind::PeerLost, what).caused_by(cause));
    }
}

/// Asks a server once.
fn answers(inner: &dyn Transport, about: &str, patience: Duration) -> Result<()> {
    let connection = inner.connect()?;
    let text = about.to_string();
    connection.watch(Watch {
        every: patience,
        alive: Arc::new(move || Err(Error::new(ErrorKind::Timeout, format!("{text} does not answer")))),
    });
    let channel = Channel::new(connection);
    let hello = Request::Hello { version: VERSION, prefix: CONTROL.into(), session: None };
    channel.send(&hello, &[])?;
    let ended = || Error::new(ErrorKind::PeerLost, format!("{about} has ended the connection"));
    channel.head::<Reply>()?.map(drop).ok_or_else(ended)
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
        let (inner, about, every, process) = (self.inner.clone(), self.about.clone(), self.patience, self.process);
        connection.watch(Watch { every, alive: Arc::new(move || is_alive(&*inner, &about, every, process)) });
        Ok(connection)
    }

    fn describe(&self) -> String {
        self.about.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_clients_begin_at_all_servers_alike() {
        for servers in [1, 2, 3, 4, 8, 16, 64] {
            for stride in [1, 2, servers as u32, 100] {
                for nodes in [1, 10, 1000u32] {
                    let mut clients = vec![0u32; servers];
                    for n in 0..1000 {
                        // The same numbers on each node.
                        let (node, pid) = (n % nodes, 4000 + n / nodes * stride);
                        clients[first(&format!("n{node}"), pid, servers)] += 1;
                    }
                    let even = 1000 / servers as u32;
                    let spread = clients.iter().all(|clients| (even / 3..=even * 2 + 5).contains(clients));
                    assert!(spread, "{servers} servers, {nodes} nodes, every {stride}th process: {clients:?}");
                }
            }
        }
        assert_eq!(first("n1", 7, 5), first("n1", 7, 5));
    }
}
