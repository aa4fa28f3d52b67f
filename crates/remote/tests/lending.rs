//! Long writes that the server reads from its client's memory.

use std::io::{IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use thalweg_layout::{Direct, Layout, Mount, Mounts, OpenWrite, WriteObject, WriterId};
use thalweg_remote::channel::WORTH_LENDING;
use thalweg_remote::message::{self, LENT, MOST_PARTS, Reply, Request, VERSION};
use thalweg_remote::transport::{Connection, Listener, Transport, unix};
use thalweg_remote::{Connections, Remote, Served, serve, serve_among};
use thalweg_store::wrap::{Operation, StoreCall, Verdict, Watch, Wrapped};
use thalweg_store::{Memory, StoreExt};
use thalweg_types::{ErrorKind, Result};

/// A connection that counts what it sends, and may be without lending on the client's side or without pulling on the server's.
struct Counted {
    inner: Box<dyn Connection>,
    sent: Arc<AtomicU64>,
    pulls: Pulls,
}

/// What a server reads of its client's memory.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Pulls {
    All,
    Nothing,
    /// Answers the question, and no more.
    Little,
}

impl Connection for Counted {
    fn send(&self, pieces: &mut [IoSlice<'_>]) -> Result<()> {
        self.sent.fetch_add(pieces.iter().map(|piece| piece.len() as u64).sum(), Ordering::Relaxed);
        self.inner.send(pieces)
    }

    fn receive(&self, out: &mut [u8]) -> Result<usize> {
        self.inner.receive(out)
    }

    fn end(&self) {
        self.inner.end();
    }

    fn lends(&self) -> bool {
        self.inner.lends()
    }

    fn pull(&self, pieces: &[(u64, u64)], out: &mut [u8]) -> Result<()> {
        match self.pulls {
            Pulls::All => self.inner.pull(pieces, out),
            Pulls::Little if out.len() <= 16 => self.inner.pull(pieces, out),
            _ => Err(thalweg_types::Error::new(ErrorKind::Unsupported, "not here")),
        }
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

struct Client(unix::Socket, Arc<AtomicU64>);

impl Transport for Client {
    fn connect(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(Counted { inner: self.0.connect()?, sent: self.1.clone(), pulls: Pulls::Nothing }))
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

struct Server(unix::Listening, Pulls);

impl Listener for Server {
    fn accept(&self) -> Result<Option<Box<dyn Connection>>> {
        let wrap = |inner| Box::new(Counted { inner, sent: Arc::default(), pulls: self.1 }) as Box<dyn Connection>;
        Ok(self.0.accept()?.map(wrap))
    }

    fn end(&self) {
        self.0.end();
    }
}

struct Daemon {
    socket: PathBuf,
    store: Arc<Memory>,
    sent: Arc<AtomicU64>,
    _served: Served,
    _folder: tempfile::TempDir,
}

impl Daemon {
    fn new(pulls: Pulls) -> Daemon {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("own/socket");
        let store = Arc::new(Memory::new());
        let layout: Arc<dyn Layout> = Arc::new(Direct::new(store.clone()).unwrap());
        let of_mount = layout.clone();
        let mounts = Mounts::new(vec![Mount::new("/m", move || Ok(of_mount.clone()))], layout);
        let listener = Arc::new(Server(unix::listen(&socket).unwrap(), pulls));
        let served = serve(Arc::new(mounts), listener).unwrap();
        Daemon { socket, store, sent: Arc::default(), _served: served, _folder: folder }
    }

    fn remote(&self, lends: bool) -> Remote {
        let socket = unix::Socket::at(&self.socket);
        let socket = if lends { socket } else { socket.without_lending() };
        Remote::over(Arc::new(Client(socket, self.sent.clone())), "/m").unwrap()
    }

    fn sent(&self) -> u64 {
        self.sent.swap(0, Ordering::Relaxed)
    }

    fn written(&self, name: &str) -> Vec<u8> {
        self.store.read_all(name).unwrap()
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

fn write_in_pieces(file: &dyn WriteObject, bytes: &[u8], pieces: usize) {
    let pieces: Vec<IoSlice<'_>> = bytes.chunks(bytes.len().div_ceil(pieces)).map(IoSlice::new).collect();
    file.write_at(0, &pieces).unwrap();
}

#[test]
fn long_writes_are_read_from_memory_and_short_ones_sent() {
    let daemon = Daemon::new(Pulls::All);
    let remote = daemon.remote(true);
    let all = bytes(3_000_001);
    for (name, pieces) in [("one", 1), ("some", 7), ("many", MOST_PARTS)] {
        let file = remote.open_write(name, OpenWrite::New, WriterId(0)).unwrap();
        daemon.sent();
        write_in_pieces(&*file, &all, pieces);
        assert!(daemon.sent() < 64_000, "{name}: lists of pieces alone");
        file.close().unwrap();
        assert!(daemon.written(name) == all, "{name}");
    }
    let file = remote.open_write("short", OpenWrite::New, WriterId(0)).unwrap();
    file.write_at(0, &[IoSlice::new(&all[..WORTH_LENDING - 1])]).unwrap();
    file.sync().unwrap();
    assert!(daemon.sent() >= WORTH_LENDING as u64 - 1);
    file.close().unwrap();
    assert!(daemon.written("short") == all[..WORTH_LENDING - 1]);
}

#[test]
fn where_the_server_may_not_read_or_the_program_does_not_lend_bytes_are_sent() {
    let cases = [(Pulls::Nothing, true), (Pulls::Little, true), (Pulls::All, false), (Pulls::Nothing, false)];
    for (pulls, lends) in cases {
        let daemon = Daemon::new(pulls);
        let remote = daemon.remote(lends);
        let all = bytes(500_000);
        let file = remote.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
        for n in 0..3 {
            file.write_at(n * 500_000, &[IoSlice::new(&all)]).unwrap();
        }
        file.close().unwrap();
        assert!(daemon.sent() > 1_500_000, "{pulls:?} {lends}");
        assert!(daemon.written("f") == [&all[..], &all, &all].concat(), "{pulls:?} {lends}");
    }
}

/// A connection by hand.
struct Raw(UnixStream);

impl Raw {
    fn to(socket: &Path) -> Raw {
        let mut raw = Raw(UnixStream::connect(socket).unwrap());
        let hello = Request::Hello { version: VERSION, prefix: "/m".into(), session: None };
        assert!(matches!(raw.ask(&hello, 0, &[]), Reply::Welcome { .. }));
        raw
    }

    fn send(&mut self, request: &Request, body: u32, rest: &[u8]) {
        let head = message::encode(request).unwrap();
        let header = [(head.len() as u32).to_le_bytes(), body.to_le_bytes()].concat();
        self.0.write_all(&[&header[..], &head, rest].concat()).unwrap();
    }

    fn ask(&mut self, request: &Request, body: u32, rest: &[u8]) -> Reply {
        self.send(request, body, rest);
        let mut header = [0; 8];
        self.0.read_exact(&mut header).unwrap();
        let (head, body) = message::lengths(header).unwrap();
        let mut bytes = vec![0; head + body.sent().unwrap()];
        self.0.read_exact(&mut bytes).unwrap();
        message::decode(&bytes[..head]).unwrap()
    }
}

#[test]
fn lent_memory_that_cannot_be_read_is_asked_for_and_nothing_is_written() {
    let daemon = Daemon::new(Pulls::All);
    daemon.store.write_all("f", b"as before").unwrap();
    let mut raw = Raw::to(&daemon.socket);
    let open = Request::OpenWrite { path: "f".into(), how: message::How::Existing, writer: 0 };
    let handle = raw.ask(&open, 0, &[]).number().unwrap();
    let text = Box::new(*b"sixteen letters.");
    let here = text.as_ptr() as u64;
    assert_eq!(raw.ask(&Request::Lend(here, *text), 0, &[]), Reply::Done);
    let other = raw.ask(&Request::Lend(here, *b"sixteen others.."), 0, &[]).or_failure().unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Unsupported, "{other}");
    let write = Request::Write(handle, 0);
    let lent = |pieces: &[(u64, u64)]| (LENT | pieces.len() as u32, message::pieces_out(pieces));
    // Not mapped; the kernel's; partly there.
    for pieces in [&[(8, 100)][..], &[(u64::MAX - 200, 100)], &[(here, 16), (0, 5)], &[(here, 16), (1 << 63, 1)]] {
        let (body, list) = lent(pieces);
        assert_eq!(raw.ask(&write, body, &list), Reply::Unread, "{pieces:?}");
    }
    assert_eq!(daemon.written("f"), b"as before");
    let (body, list) = lent(&[(here + 8, 7), (here, 0), (here, 7)]);
    assert_eq!(raw.ask(&write, body, &list), Reply::Done);
    assert_eq!(daemon.written("f"), b"letterssixteen");
    // More than a body may have: the connection ends.
    for (body, list) in [lent(&[(here, u64::MAX), (here, 2)]), lent(&[(here, message::LONGEST_BODY as u64 + 1)])] {
        let mut raw = Raw::to(&daemon.socket);
        raw.send(&write, body, &list);
        assert!(!matches!(raw.0.read(&mut [0; 1]), Ok(1..)));
    }
    let mut raw = Raw::to(&daemon.socket);
    let refused = raw.ask(&write, LENT | (MOST_PARTS as u32 + 1), &[]).or_failure().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
}

#[test]
fn a_server_says_who_waits_for_what_and_how_bytes_come() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("own/socket");
    // A write lasts until it is let go.
    let (gate, waiting) = (Arc::new(Mutex::new(())), Mutex::new(None));
    let store = Arc::new(Wrapped::with(Arc::new(Memory::new()), Gate(gate.clone())));
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(store).unwrap());
    let of_mount = layout.clone();
    let mounts = Arc::new(Mounts::new(vec![Mount::new("/m", move || Ok(of_mount.clone()))], layout));
    let connections = Arc::new(Connections::default());
    let served = serve_among(mounts, Arc::new(unix::listen(&socket).unwrap()), connections.clone()).unwrap();
    let remote = Remote::over(Arc::new(unix::Socket::at(&socket).without_segments()), "/m").unwrap();
    let file = remote.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
    let idle = connections.status();
    assert!(
        idle.iter().all(|c| c.mount == "/m" && c.waits_for.is_none() && c.bytes.contains("has not asked")),
        "{idle:?}"
    );
    std::thread::scope(|scope| {
        let held = gate.lock().unwrap();
        scope.spawn(|| file.write_at(0, &[IoSlice::new(&bytes(100_000))]).unwrap());
        let begun = std::time::Instant::now();
        while waiting.lock().unwrap().is_none() {
            assert!(begun.elapsed().as_secs() < 60, "{:?}", connections.status());
            let now =
                connections.status().into_iter().find(|c| c.waits_for.as_deref() == Some("write") && c.waits_ms > 20);
            *waiting.lock().unwrap() = now;
        }
        drop(held);
    });
    let waited = waiting.lock().unwrap().take().unwrap();
    assert_eq!(waited.client, format!("process {} over a Unix socket", std::process::id()));
    assert!(waited.bytes.contains("read from the client's memory"), "{waited:?}");
    drop((file, remote, served));
    assert_eq!(connections.status(), [], "a connection that ended is not listed");
}

/// Lets writes pass while nobody holds it.
struct Gate(Arc<Mutex<()>>);

impl Watch for Gate {
    fn describe(&self) -> &'static str {
        "gate"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        if operation.asked == StoreCall::Write {
            drop(self.0.lock().unwrap());
        }
        Verdict::Pass
    }
}

#[test]
fn memory_of_a_client_that_has_gone_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("own/socket");
    let server = unix::listen(&socket).unwrap();
    let text = Box::new(*b"sixteen letters.");
    let pieces = [(text.as_ptr() as u64, 16)];
    let client = unix::Socket::at(&socket).connect().unwrap();
    let end = server.accept().unwrap().unwrap();
    let mut out = [0; 16];
    end.pull(&pieces, &mut out).unwrap();
    assert_eq!(out, *text);
    drop(client);
    // The process is there, and so is its memory, but nobody waits for a reply.
    assert_eq!(end.pull(&pieces, &mut out).unwrap_err().kind(), ErrorKind::PeerLost);

    // A process that has ended, and a connection that lives on in its child.
    let mut child = std::process::Command::new("python3")
        .args(["-c", "import os, socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\nif os.fork() == 0: os.read(0, 1)\n"])
        .arg(&socket)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let end = server.accept().unwrap().unwrap();
    let parent_ended = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(parent_ended.elapsed().as_secs() < 60);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let refused = end.pull(&pieces, &mut out).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Unsupported | ErrorKind::PeerLost), "{refused}");
}
