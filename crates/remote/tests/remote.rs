//! Programs and a daemon, over a real socket.

use std::io::{IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_conformance::layout;
use thalweg_layout::{Container, Direct, Layout, Mount, Mounts, OpenWrite, WriterId, container::Options};
use thalweg_remote::message::{self, Reply, Request, VERSION};
use thalweg_remote::transport::unix;
use thalweg_remote::{Remote, Served};
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::ErrorKind;

fn serve(mounts: Arc<Mounts>, path: &Path) -> thalweg_types::Result<Served> {
    thalweg_remote::serve(mounts, Arc::new(unix::listen(path)?))
}

struct Daemon {
    served: Option<Served>,
    socket: PathBuf,
    store: Arc<dyn Store>,
    _folder: tempfile::TempDir,
}

impl Daemon {
    fn over(store: Arc<dyn Store>) -> Daemon {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("own/daemon.sock");
        let mut daemon = Daemon { _folder: folder, socket, store, served: None };
        daemon.start();
        daemon
    }

    fn start(&mut self) {
        let (of_direct, of_container) = (self.store.clone(), self.store.clone());
        let mounts = vec![
            Mount::new("/direct", move || Ok(Arc::new(Direct::new(of_direct.clone()).unwrap()))),
            Mount::new("/container", move || {
                Ok(Arc::new(Container::new(vec![of_container.clone()], Options::default()).unwrap()))
            }),
            Mount::new("/broken", || Err("mounts.toml:9: there is no folder /gone".into())),
        ];
        let plain = Arc::new(Direct::new(Arc::new(Memory::new())).unwrap());
        self.served = Some(serve(Arc::new(Mounts::new(mounts, plain)), &self.socket).unwrap());
    }

    fn remote(&self, prefix: &str) -> Remote {
        Remote::connect(&self.socket, prefix).unwrap()
    }
}

fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::new())
}

fn make(layout: &dyn Layout, name: &str, bytes: &[u8]) {
    let file = layout.open_write(name, OpenWrite::Replace, WriterId(0)).unwrap();
    thalweg_layout::write_all_at(&*file, 0, bytes).unwrap();
    file.close().unwrap();
}

#[test]
fn a_layout_behind_a_daemon_keeps_every_promise_of_layouts() {
    let daemon = Daemon::over(memory());
    layout::check(&daemon.remote("/direct"));
    layout::check(&daemon.remote("/container"));
    layout::check_order(&daemon.remote("/container"), &daemon.remote("/container"));
    layout::check_names_and_attributes(&daemon.remote("/container"));
}

#[test]
fn names_attributes_and_error_numbers_of_the_filesystem_come_through() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::over(Arc::new(Posix::at(folder.path()).unwrap()));
    let remote = daemon.remote("/direct");
    layout::check(&remote);
    layout::check_names_and_attributes(&remote);
    layout::check_error_numbers(&remote);
    assert_eq!(remote.plain_file("f"), Some(folder.path().join("f")));
    assert!(remote.space("").unwrap().bytes > 0);
}

#[test]
fn pieces_longer_than_a_message_arrive_whole() {
    let daemon = Daemon::over(memory());
    let remote = daemon.remote("/direct");
    let bytes: Vec<u8> = (0..20_000_003u32).map(|i| (i % 251) as u8).collect();
    let file = remote.open_write("f", OpenWrite::New, WriterId(1)).unwrap();
    let (head, tail) = bytes.split_at(17_000_001);
    file.write_at(5, &[IoSlice::new(head), IoSlice::new(b""), IoSlice::new(tail)]).unwrap();
    let mut out = vec![0; bytes.len() + 9];
    assert_eq!(file.read_at(5, &mut out).unwrap(), bytes.len());
    assert!(out[..bytes.len()] == bytes[..]);
}

#[test]
fn programs_of_one_daemon_see_each_others_writes_at_once() {
    let daemon = Daemon::over(memory());
    let (one, other) = (daemon.remote("/container"), daemon.remote("/container"));
    let file = one.open_write("f", OpenWrite::New, WriterId(1)).unwrap();
    thalweg_layout::write_all_at(&*file, 0, b"bytes").unwrap();
    let mut out = [0; 5];
    other.open_read("f").unwrap().read_exact_at(0, &mut out).unwrap();
    assert_eq!(&out, b"bytes");
}

#[test]
fn a_lease_is_taken_by_the_daemon_and_ends_with_its_client() {
    let daemon = Daemon::over(memory());
    let (one, other) = (daemon.remote("/direct"), daemon.remote("/direct"));
    let leased = || {
        let here = daemon.store.open_read("f").unwrap().life().unwrap().leased;
        assert_eq!(other.open_read("f").unwrap().life().unwrap().leased, here);
        here
    };
    let file = one.open_write("f", OpenWrite::New, WriterId(1)).unwrap();
    assert_eq!(leased(), Some(false));
    let lease = file.lease().unwrap().unwrap();
    file.close().unwrap();
    assert_eq!(leased(), Some(true), "also while the file is closed");
    drop(lease);
    assert_eq!(leased(), Some(false));
    let file = one.open_write("f", OpenWrite::Existing, WriterId(1)).unwrap();
    let lease = file.lease().unwrap().unwrap();
    drop((file, one));
    assert_eq!(leased(), Some(true), "a lease keeps its connection");
    drop(lease);
    soon(|| leased() == Some(false));
}

/// Until `done` says so.
#[track_caller]
fn soon(done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(300), "it did not happen in 300 s, the limit for hangs");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_client_that_dies_leaves_no_handle_and_what_it_wrote_is_published() {
    let daemon = Daemon::over(memory());
    // A program of its own, to be killed while its file is open.
    let mut client = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writes_and_waits"])
        .env("SOCKET", &daemon.socket)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let others = Container::new(vec![daemon.store.clone()], Options::default()).unwrap();
    soon(|| others.stat("f").is_ok());
    let here = daemon.remote("/container");
    soon(|| here.stat("f").is_ok_and(|about| about.length == 5));
    assert_eq!(others.stat("f").unwrap().length, 0, "not published yet");
    client.kill().unwrap();
    client.wait().unwrap();
    soon(|| others.stat("f").unwrap().length == 5);
}

/// The program that is killed; nothing where no other test starts it.
#[test]
fn writes_and_waits() {
    let Some(socket) = std::env::var_os("SOCKET") else { return };
    let remote = Remote::connect(Path::new(&socket), "/container").unwrap();
    let file = remote.open_write("f", OpenWrite::New, WriterId(1)).unwrap();
    thalweg_layout::write_all_at(&*file, 0, b"bytes").unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_daemon_that_goes_is_named_and_another_one_serves_again_but_not_files_that_were_open() {
    let mut daemon = Daemon::over(memory());
    let remote = daemon.remote("/direct");
    make(&remote, "f", b"bytes");
    let file = remote.open_read("f").unwrap();
    let lease = remote.open_write("f", OpenWrite::Existing, WriterId(0)).unwrap().lease().unwrap().unwrap();
    assert!(!lease.is_lost());
    daemon.served = None;
    for failed in [file.length().err(), remote.stat("f").err(), remote.rename("f", "g").err()] {
        let error = failed.unwrap();
        assert_eq!(error.kind(), ErrorKind::PeerLost, "{error}");
        assert!(error.to_string().contains(daemon.socket.to_str().unwrap()), "{error}");
    }
    assert!(lease.is_lost(), "it ended with the daemon");
    daemon.start();
    assert_eq!(remote.stat("f").unwrap().length, 5);
    assert_eq!(file.length().unwrap_err().kind(), ErrorKind::PeerLost);
    make(&remote, "g", b"more");
}

#[test]
fn nobody_at_the_socket_is_said_with_the_command_that_helps() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("daemon.sock");
    let error = Remote::connect(&socket, "/direct").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::PeerLost);
    assert!(error.to_string().contains("thalweg mount --socket-only"), "{error}");
}

#[test]
fn mounts_that_are_not_there_or_cannot_work_are_said() {
    let daemon = Daemon::over(memory());
    let error = Remote::connect(&daemon.socket, "/elsewhere").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let error = Remote::connect(&daemon.socket, "/broken").err().unwrap();
    assert!(error.to_string().contains("mounts.toml:9: there is no folder /gone"), "{error}");
}

#[test]
fn two_daemons_do_not_serve_one_socket_and_a_socket_left_behind_is_replaced() {
    let daemon = Daemon::over(memory());
    let mounts = || Arc::new(Mounts::new(Vec::new(), Arc::new(Direct::new(memory()).unwrap())));
    let error = serve(mounts(), &daemon.socket).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let left = daemon.socket.with_file_name("left.sock");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
    assert!(left.exists());
    let _served = serve(mounts(), &left).unwrap();
    UnixStream::connect(&left).unwrap();
}

#[test]
fn a_folder_that_others_may_enter_takes_no_socket() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mounts = Arc::new(Mounts::new(Vec::new(), Arc::new(Direct::new(memory()).unwrap())));
    let error = serve(mounts, &folder.path().join("daemon.sock")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

fn talk(socket: &Path, request: &Request) -> (UnixStream, Reply) {
    let mut stream = UnixStream::connect(socket).unwrap();
    let head = message::encode(request).unwrap();
    stream.write_all(&message::header(head.len(), 0).unwrap()).unwrap();
    stream.write_all(&head).unwrap();
    let reply = reply(&mut stream);
    (stream, reply)
}

fn reply(stream: &mut UnixStream) -> Reply {
    let mut header = [0; 8];
    stream.read_exact(&mut header).unwrap();
    let (head, body) = message::lengths(header).unwrap();
    let mut bytes = vec![0; head + body.sent().unwrap()];
    stream.read_exact(&mut bytes).unwrap();
    message::decode(&bytes[..head]).unwrap()
}

#[test]
fn damaged_and_foreign_messages_end_their_connection_and_no_other() {
    let daemon = Daemon::over(memory());
    let remote = daemon.remote("/direct");
    make(&remote, "f", b"bytes");
    let hello = |version| Request::Hello { version, prefix: "/direct".into(), session: None };
    let (_, refused) = talk(&daemon.socket, &hello(VERSION + 1));
    let error = refused.or_failure().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let (_, refused) = talk(&daemon.socket, &Request::Remove("f".into()));
    assert_eq!(refused.or_failure().unwrap_err().kind(), ErrorKind::Corrupt, "no greeting");
    for bytes in [&[0xff; 16][..], &[3, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff]] {
        let (mut stream, welcome) = talk(&daemon.socket, &hello(VERSION));
        assert!(matches!(welcome, Reply::Welcome { .. }));
        stream.write_all(bytes).unwrap();
        assert_eq!(reply(&mut stream).or_failure().unwrap_err().kind(), ErrorKind::Corrupt);
        // Bytes of ours that were not read make it a reset.
        assert!(!matches!(stream.read(&mut [0; 1]), Ok(1..)), "the connection ended");
    }
    // A body that never comes takes no memory worth naming, and its end is noticed.
    let (mut stream, _) = talk(&daemon.socket, &hello(VERSION));
    let head = message::encode(&Request::Write(1, 0)).unwrap();
    stream.write_all(&message::header(head.len(), message::LONGEST_BODY).unwrap()).unwrap();
    stream.write_all(&head).unwrap();
    drop(stream);
    let (_, unknown) =
        talk(&daemon.socket, &Request::Hello { version: VERSION, prefix: "/direct".into(), session: Some(7) });
    assert_eq!(unknown.or_failure().unwrap_err().kind(), ErrorKind::PeerLost, "sessions cannot be guessed");
    assert_eq!(remote.stat("f").unwrap().length, 5);
}

#[test]
fn parts_and_views_that_make_no_sense_are_refused_and_the_connection_goes_on() {
    let daemon = Daemon::over(memory());
    let remote = daemon.remote("/direct");
    make(&remote, "f", b"bytes");
    let hello = Request::Hello { version: VERSION, prefix: "/direct".into(), session: None };
    let (mut stream, _) = talk(&daemon.socket, &hello);
    let mut ask = |request: &Request, body: &[u8]| {
        let head = message::encode(request).unwrap();
        stream.write_all(&message::header(head.len(), body.len()).unwrap()).unwrap();
        stream.write_all(&head).unwrap();
        stream.write_all(body).unwrap();
        reply(&mut stream)
    };
    let open = Request::OpenWrite { path: "f".into(), how: message::How::Existing, writer: 0 };
    let handle = ask(&open, &[]).number().unwrap();
    let write = |view, parts: Vec<(u64, u64)>| Request::WriteParts { handle, view, parts };
    let read = |view, parts: Vec<(u64, u64)>| Request::ReadParts { handle, view, parts };
    for (request, body) in [
        // Parts of more bytes than came, and of fewer.
        (write(None, vec![(0, 3), (9, 2)]), &b"four"[..]),
        (write(None, vec![(0, 3)]), b"four"),
        (write(None, vec![(0, u64::MAX), (0, 5)]), b"four"),
        (write(None, vec![(0, 0); message::MOST_PARTS + 1]), b""),
        (read(None, vec![(0, message::LONGEST_BODY as u64 + 1)]), b""),
        (read(None, vec![(0, u64::MAX), (0, 2)]), b""),
        (write(Some(1), vec![(0, 4)]), b"four"),
        (read(Some(1), vec![(0, 4)]), b""),
        (Request::View(1), b"no view"),
    ] {
        let failure = ask(&request, body).or_failure().unwrap_err();
        let is_view = matches!(request, Request::View(_)) && failure.kind() == ErrorKind::Unsupported;
        assert!(is_view || failure.kind() == ErrorKind::Corrupt, "{request:?}: {failure}");
    }
    // Beyond the largest offset.
    assert!(ask(&write(None, vec![(u64::MAX - 1, 4)]), b"four").or_failure().is_err());
    assert_eq!(ask(&read(None, vec![(u64::MAX - 1, 4), (1, 2)]), &[]).number().unwrap(), 5);
    assert_eq!(remote.stat("f").unwrap().length, 5, "nothing was written");
    assert_eq!(ask(&Request::Length(handle), &[]).number().unwrap(), 5);
}

#[test]
fn many_threads_share_one_session() {
    let daemon = Daemon::over(memory());
    let remote = daemon.remote("/direct");
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let remote = &remote;
            scope.spawn(move || {
                for round in 0..50u8 {
                    let name = format!("{thread}-{round}");
                    make(remote, &name, &[thread; 1000]);
                    let mut out = [0; 1000];
                    remote.open_read(&name).unwrap().read_exact_at(0, &mut out).unwrap();
                    assert_eq!(out, [thread; 1000]);
                }
            });
        }
    });
    assert_eq!(remote.list("").unwrap().len(), 400);
}
