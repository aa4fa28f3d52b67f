//! Bodies that pass through memory of both processes.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::pwrite;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::io::IoSlice;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_layout::{Direct, Layout, Mount, Mounts, OpenWrite, WriterId, write_all_at};
use thalweg_remote::channel::{Channel, WORTH_SHARING, Way};
use thalweg_remote::message::{self, Body, LENT, Reply, Request, SHARED, VERSION};
use thalweg_remote::transport::segment::LENGTH;
use thalweg_remote::transport::{Connection, Transport, unix};
use thalweg_remote::{Connections, Remote, Served, serve_among};
use thalweg_store::{Memory, StoreExt};
use thalweg_types::mutex::Mutex;
use thalweg_types::{ErrorKind, Result};

/// Tests of this file look at the memory and descriptors of their process: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A connection that counts the bytes in both directions, and may lose the descriptors that arrive.
struct Counted {
    inner: Box<dyn Connection>,
    passed: Arc<AtomicU64>,
    takes: bool,
}

impl Connection for Counted {
    fn send(&self, pieces: &mut [IoSlice<'_>]) -> Result<()> {
        self.passed.fetch_add(pieces.iter().map(|piece| piece.len() as u64).sum(), Ordering::Relaxed);
        self.inner.send(pieces)
    }

    fn receive(&self, out: &mut [u8]) -> Result<usize> {
        let got = self.inner.receive(out)?;
        self.passed.fetch_add(got as u64, Ordering::Relaxed);
        Ok(got)
    }

    fn end(&self) {
        self.inner.end();
    }

    fn shares(&self) -> bool {
        self.inner.shares()
    }

    fn shares_writes(&self) -> bool {
        self.inner.shares_writes()
    }

    fn pass(&self, pieces: &mut [IoSlice<'_>], descriptor: BorrowedFd<'_>) -> Result<()> {
        self.inner.pass(pieces, descriptor)
    }

    fn passed(&self) -> Option<OwnedFd> {
        self.inner.passed().filter(|_| self.takes)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

struct Client {
    socket: unix::Socket,
    passed: Arc<AtomicU64>,
    takes: bool,
}

impl Transport for Client {
    fn connect(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(Counted { inner: self.socket.connect()?, passed: self.passed.clone(), takes: self.takes }))
    }

    fn describe(&self) -> String {
        self.socket.describe()
    }
}

struct Daemon {
    socket: PathBuf,
    store: Arc<Memory>,
    connections: Arc<Connections>,
    _served: Served,
    _folder: tempfile::TempDir,
}

impl Daemon {
    fn new() -> Daemon {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("own/socket");
        let store = Arc::new(Memory::new());
        let layout: Arc<dyn Layout> = Arc::new(Direct::new(store.clone()).unwrap());
        let of_mount = layout.clone();
        let mounts = Mounts::new(vec![Mount::new("/m", move || Ok(of_mount.clone()))], layout);
        let (listener, connections) = (Arc::new(unix::listen(&socket).unwrap()), Arc::new(Connections::default()));
        let served = serve_among(Arc::new(mounts), listener, connections.clone()).unwrap();
        Daemon { socket, store, connections, _served: served, _folder: folder }
    }

    /// A client, and the bytes that pass over its connections.
    fn remote(&self, takes: bool) -> (Remote, Arc<AtomicU64>) {
        let passed = Arc::<AtomicU64>::default();
        let socket = unix::Socket::at(&self.socket).with_shared_writes();
        let client = Client { socket, passed: passed.clone(), takes };
        (Remote::over(Arc::new(client), "/m").unwrap(), passed)
    }

    /// A connection that has greeted, and a handle that writes `f`.
    fn raw(&self) -> (Channel, u64) {
        let channel = Channel::new(unix::Socket::at(&self.socket).with_shared_writes().connect().unwrap());
        let hello = Request::Hello { version: VERSION, prefix: "/m".into(), session: None };
        assert!(matches!(ask(&channel, &hello), Reply::Welcome { .. }));
        let open = Request::OpenWrite { path: "f".into(), how: OpenWrite::Any.into(), writer: 0 };
        let handle = ask(&channel, &open).number().unwrap();
        (channel, handle)
    }

    fn written(&self, name: &str) -> Vec<u8> {
        self.store.read_all(name).unwrap()
    }

    fn status(&self) -> Vec<String> {
        self.connections.status().into_iter().map(|connection| connection.bytes).collect()
    }
}

fn ask(channel: &Channel, request: &Request) -> Reply {
    channel.send(request, &[]).unwrap();
    channel.head::<Reply>().unwrap().unwrap().0
}

/// Sends a request with this second length.
fn send_marked(channel: &Channel, request: &Request, body: u32) {
    let head = message::encode(request).unwrap();
    let mut header = message::header(head.len(), 0).unwrap();
    header[4..].copy_from_slice(&body.to_le_bytes());
    channel.connection.send(&mut [IoSlice::new(&header), IoSlice::new(&head)]).unwrap();
}

fn memory(length: usize, seals: SealFlags) -> OwnedFd {
    let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, length as u64).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

/// Mappings and descriptors of segments that this process has.
fn held() -> (usize, usize) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap().matches("memfd:thalweg messages").count();
    let descriptors =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    (maps, descriptors.filter(|path| path.to_string_lossy().contains("memfd:thalweg messages")).count())
}

#[test]
fn long_reads_and_writes_pass_through_memory_and_short_ones_over_the_connection() {
    let _alone = ALONE.lock();
    let daemon = Daemon::new();
    let (remote, passed) = daemon.remote(true);
    let count = |wanted: &dyn Fn(u64) -> bool| {
        let now = passed.swap(0, Ordering::Relaxed);
        assert!(wanted(now), "{now} bytes");
    };
    let all = bytes(2 * LENGTH + 12_345);
    for pieces in [1, 7, 3000] {
        let name = format!("in {pieces}");
        let file = remote.open_write(&name, OpenWrite::New, WriterId(0)).unwrap();
        let parts: Vec<IoSlice<'_>> = all.chunks(all.len().div_ceil(pieces)).map(IoSlice::new).collect();
        file.write_at(0, &parts).unwrap();
        let mut out = vec![0; all.len() + 1];
        let mut got = 0;
        while got < all.len() {
            got += file.read_at(got as u64, &mut out[got..]).unwrap();
        }
        assert!(out[..got] == all);
        file.close().unwrap();
        assert!(daemon.written(&name) == all);
        // The last piece is shorter than what is worth it.
        count(&|now| now < 2 * WORTH_SHARING as u64 + 2000);
    }
    // A view's reads and writes, and what is short.
    let file = remote.open_write("short", OpenWrite::New, WriterId(0)).unwrap();
    file.write_at(0, &[IoSlice::new(&all[..WORTH_SHARING - 1])]).unwrap();
    file.publish().unwrap();
    count(&|now| now >= WORTH_SHARING as u64 - 1);
    let mut out = vec![0; WORTH_SHARING];
    assert_eq!(file.read_at(0, &mut out).unwrap(), WORTH_SHARING - 1);
    assert!(out[..WORTH_SHARING - 1] == all[..WORTH_SHARING - 1]);
    assert_eq!(file.read_at(1 << 40, &mut out).unwrap(), 0, "behind the end");
    count(&|now| now < 1000);
    assert_eq!(daemon.status(), ["long writes pass through shared memory; long reads pass through shared memory"]);
}

#[test]
fn a_client_keeps_no_descriptor_and_nothing_is_left_when_both_have_ended() {
    let _alone = ALONE.lock();
    assert_eq!(held(), (0, 0));
    let daemon = Daemon::new();
    let (remote, _) = daemon.remote(true);
    let file = remote.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
    write_all_at(&*file, 0, &bytes(100_000)).unwrap();
    // Each end has mapped its own, the client the server's; the server reads the client's by its descriptor.
    assert_eq!(held(), (3, 1));
    drop((file, remote));
    let begun = std::time::Instant::now();
    while held() != (0, 0) {
        assert!(begun.elapsed().as_secs() < 60, "{:?}", held());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(daemon.status(), [""; 0]);
}

#[test]
fn a_client_that_gets_no_descriptor_is_served_over_the_connection() {
    let _alone = ALONE.lock();
    let daemon = Daemon::new();
    let (remote, passed) = daemon.remote(false);
    let all = bytes(1_000_000);
    let file = remote.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
    write_all_at(&*file, 0, &all).unwrap();
    let mut out = vec![0; all.len()];
    assert_eq!(file.read_at(0, &mut out).unwrap(), all.len());
    assert!(out == all && daemon.written("f") == all);
    assert!(passed.load(Ordering::Relaxed) > 2_000_000);
    let status = daemon.status();
    assert!(status.iter().all(|how| how.contains("long reads are sent: the client cannot map it")), "{status:?}");
}

#[test]
fn a_program_that_may_write_short_files_only_is_not_ended_by_a_signal() {
    let _alone = ALONE.lock();
    let daemon = Daemon::new();
    let (remote, _) = daemon.remote(true);
    let before = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(1 << 20), ..before }).unwrap();
    let all = bytes(1_000_000);
    let file = remote.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
    let written = write_all_at(&*file, 0, &all);
    let mut out = vec![0; all.len()];
    let read = file.read_at(0, &mut out);
    setrlimit(Resource::Fsize, before).unwrap();
    written.unwrap();
    assert_eq!(read.unwrap(), all.len());
    assert!(out == all && daemon.written("f") == all);
    let status = daemon.status();
    assert!(status.iter().all(|how| how.contains("long reads are sent")), "{status:?}");
}

#[test]
fn memory_that_can_be_shortened_or_is_none_is_refused_and_the_connection_goes_on() {
    let _alone = ALONE.lock();
    let daemon = Daemon::new();
    let (channel, handle) = daemon.raw();
    let whole = SealFlags::SHRINK;
    for (file, words) in [
        (memory(LENGTH, SealFlags::GROW), "not sealed"),
        (memory(4096, whole), "too short"),
        (std::io::pipe().unwrap().0.into(), "that is none"),
    ] {
        channel.pass(&Request::Share, file).unwrap();
        let refused = channel.head::<Reply>().unwrap().unwrap().0.or_failure().unwrap_err();
        assert!(refused.kind() == ErrorKind::Unsupported && refused.to_string().contains(words), "{refused}");
        assert!(channel.connection.passed().is_none());
    }
    let without = ask(&channel, &Request::Share).or_failure().unwrap_err();
    assert!(without.to_string().contains("has arrived"), "{without}");
    channel.send(&Request::Write(handle, 0), &[IoSlice::new(b"sent")]).unwrap();
    assert_eq!(channel.head::<Reply>().unwrap().unwrap().0, Reply::Done);
    assert_eq!(daemon.written("f"), b"sent");
    assert!(daemon.status()[0].contains("long reads are sent: no memory"), "{:?}", daemon.status());
}

#[test]
fn what_a_client_claims_of_its_memory_is_checked() {
    let _alone = ALONE.lock();
    let daemon = Daemon::new();
    let shared = || {
        let (channel, handle) = daemon.raw();
        let file = memory(LENGTH, SealFlags::SHRINK);
        channel.pass(&Request::Share, file.try_clone().unwrap()).unwrap();
        assert_eq!(channel.head::<Reply>().unwrap().unwrap().0, Reply::Done);
        (channel, handle, file)
    };
    let ends = |channel: &Channel, request: &Request, body: u32| {
        send_marked(channel, request, body);
        let refused = channel.head::<Reply>().unwrap().unwrap().0.or_failure().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
        assert!(!matches!(channel.head::<Reply>(), Ok(Some(_))), "the connection goes on");
    };
    let write = |handle| Request::Write(handle, 0);
    // Nothing was passed; more than there is; in two places at once.
    let (channel, handle) = daemon.raw();
    ends(&channel, &write(handle), SHARED | 100);
    for body in [SHARED | (LENGTH as u32 + 1), SHARED | (1 << 29), SHARED | LENT | 1, SHARED | LENT] {
        let (channel, handle, _file) = shared();
        ends(&channel, &write(handle), body);
    }
    assert_eq!(daemon.written("f"), b"");

    // It cannot be shortened, and is as long as it may be.
    let (channel, handle, file) = shared();
    assert!(ftruncate(&file, 0).is_err());
    pwrite(&file, b"in memory", 0).unwrap();
    send_marked(&channel, &write(handle), SHARED | 9);
    assert_eq!(channel.head::<Reply>().unwrap().unwrap().0, Reply::Done);
    assert_eq!(daemon.written("f"), b"in memory");
    send_marked(&channel, &write(handle), SHARED | LENGTH as u32);
    assert_eq!(channel.head::<Reply>().unwrap().unwrap().0, Reply::Done);
    assert_eq!(daemon.written("f").len(), LENGTH);
    // A second segment is refused. After Unshare, replies are sent.
    channel.pass(&Request::Share, memory(LENGTH, SealFlags::SHRINK)).unwrap();
    assert!(channel.head::<Reply>().unwrap().unwrap().0.or_failure().is_err());
    let read = Request::Read(handle, 0, 100_000);
    channel.send(&read, &[]).unwrap();
    assert!(
        channel.head::<Reply>().is_err_and(|e| e.kind() == ErrorKind::Corrupt),
        "the reply is in a segment that this end has not mapped"
    );
    assert_eq!(ask(&channel, &Request::Unshare), Reply::Done);
    channel.send(&read, &[]).unwrap();
    let (reply, body) = channel.head::<Reply>().unwrap().unwrap();
    assert_eq!((reply, body), (Reply::Done, Body::Sent(100_000)));
    assert_eq!(channel.body(100_000).unwrap()[..9], *b"in memory");
}

#[test]
fn a_write_of_a_client_that_is_gone_is_whole_or_nothing() {
    let _alone = ALONE.lock();
    let daemon = Daemon::new();
    let all = vec![7; 1_000_000];
    for asks in [false, true] {
        let (channel, handle) = daemon.raw();
        channel.ask_to_share().unwrap();
        assert_eq!(channel.sharing(), Way::Open);
        let sent = asks.then(|| channel.request(&Request::Write(handle, 0), &[IoSlice::new(&all)]).unwrap());
        assert_ne!(sent, Some(true), "it is shared, not lent");
        drop(channel);
        let begun = std::time::Instant::now();
        while !daemon.status().is_empty() {
            assert!(begun.elapsed().as_secs() < 60);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let written = daemon.written("f");
        assert!(if asks { written == all } else { written.is_empty() }, "{} bytes", written.len());
    }
}

#[test]
fn a_program_chooses_the_ways_of_its_long_reads_and_writes() {
    let _alone = ALONE.lock();
    let daemon = Daemon::new();
    let all = bytes(300_000);
    for (socket, words) in [
        (
            unix::Socket::at(&daemon.socket),
            "long writes are read from the client's memory; long reads pass through shared memory",
        ),
        (
            unix::Socket::at(&daemon.socket).with_shared_writes(),
            "long writes pass through shared memory; long reads pass through shared memory",
        ),
        (
            unix::Socket::at(&daemon.socket).without_segments(),
            "long writes are read from the client's memory; long reads are sent: the client has not asked for shared memory",
        ),
        (unix::Socket::at(&daemon.socket).without_segments().without_lending(), "long writes are sent: the client has"),
    ] {
        let remote = Remote::over(Arc::new(socket), "/m").unwrap();
        let file = remote.open_write("f", OpenWrite::Replace, WriterId(0)).unwrap();
        write_all_at(&*file, 0, &all).unwrap();
        let mut out = vec![0; all.len()];
        assert_eq!(file.read_at(0, &mut out).unwrap(), all.len());
        assert!(out == all);
        let status = daemon.status();
        assert!(status.last().unwrap().contains(words), "{status:?}");
        drop((file, remote));
    }
}
