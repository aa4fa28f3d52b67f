//! What every transport must do.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use thalweg_conformance::layout;
use thalweg_layout::{Container, Direct, Layout, Mount, Mounts, OpenWrite, WriterId, container::Options};
use thalweg_remote::transport::{Connection, Listener, Transport, pair, tcp, tcp::Token, unix};
use thalweg_remote::{Remote, serve};
use thalweg_store::Memory;
use thalweg_types::ErrorKind;

/// A server and the way to it.
struct ServerAndClient {
    client: Arc<dyn Transport>,
    server: Arc<dyn Listener>,
    _folder: Option<tempfile::TempDir>,
}

fn over_a_socket(ways: fn(unix::Socket) -> unix::Socket) -> ServerAndClient {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own/socket");
    let server = Arc::new(unix::listen(&path).unwrap());
    ServerAndClient { client: Arc::new(ways(unix::Socket::at(&path))), server, _folder: Some(folder) }
}

fn over_tcp() -> ServerAndClient {
    let folder = tempfile::tempdir().unwrap();
    let token = Token::make(&folder.path().join("token")).unwrap();
    let (server, address) = tcp::listen("127.0.0.1:0", token.clone()).unwrap();
    let client = Arc::new(tcp::Tcp::to(&address.to_string(), token));
    ServerAndClient { client, server: Arc::new(server), _folder: Some(folder) }
}

fn in_process() -> ServerAndClient {
    let (client, server) = pair::new();
    ServerAndClient { client: Arc::new(client), server: Arc::new(server), _folder: None }
}

fn each(check: impl Fn(ServerAndClient)) {
    // Writes from memory, reads through segments; both through segments; both through the socket.
    check(over_a_socket(|socket| socket));
    check(over_a_socket(unix::Socket::with_shared_writes));
    check(over_a_socket(|socket| socket.without_lending().without_segments()));
    check(over_tcp());
    check(in_process());
}

fn whole(connection: &dyn Connection, out: &mut [u8]) {
    let mut done = 0;
    while done < out.len() {
        let got = connection.receive(&mut out[done..]).unwrap();
        assert!(got > 0, "ended after {done} bytes");
        done += got;
    }
}

/// The next connection, admitted.
fn admitted(server: &dyn Listener) -> Box<dyn Connection> {
    let end = server.accept().unwrap().unwrap();
    end.admit().unwrap();
    end
}

/// Both ends of one connection.
fn ends(pair: &ServerAndClient) -> (Box<dyn Connection>, Box<dyn Connection>) {
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| admitted(&*pair.server));
        let one = pair.client.connect().unwrap();
        (one, accepted.join().unwrap())
    })
}

fn bytes(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 31 + seed) as u8).collect()
}

#[test]
fn bytes_arrive_in_order_in_both_directions_at_once_however_many() {
    each(|pair| {
        let (one, other) = ends(&pair);
        one.admit().unwrap();
        other.admit().unwrap();
        std::thread::scope(|scope| {
            for (from, to, seed) in [(&one, &other, 1), (&other, &one, 2)] {
                scope.spawn(move || {
                    for round in 0..40 {
                        // Empty pieces, many pieces, more than is under way at once.
                        let all = bytes(round * 20_001, seed);
                        let mut pieces = vec![IoSlice::new(&[])];
                        pieces.extend(all.chunks(17 + round * 5).map(IoSlice::new));
                        pieces.push(IoSlice::new(&[]));
                        from.send(&mut pieces).unwrap();
                    }
                });
                scope.spawn(move || {
                    for round in 0..40 {
                        let mut out = vec![0; round * 20_001];
                        whole(&**to, &mut out);
                        assert!(out == bytes(out.len(), seed), "round {round}");
                    }
                });
            }
        });
    });
}

#[test]
fn what_was_sent_before_an_end_arrives_and_then_the_end_does() {
    each(|pair| {
        let (one, other) = ends(&pair);
        one.send(&mut [IoSlice::new(b"last words")]).unwrap();
        drop(one);
        let mut out = [0; 10];
        whole(&*other, &mut out);
        assert_eq!(&out, b"last words");
        assert_eq!(other.receive(&mut out).unwrap(), 0);
        let sent = (0..1000).find_map(|_| other.send(&mut [IoSlice::new(&[0; 1000])]).err());
        assert_eq!(sent.expect("nobody takes it").kind(), ErrorKind::PeerLost);
    });
}

#[test]
fn an_end_wakes_who_waits_at_either_side() {
    each(|pair| {
        for ends_here in [true, false] {
            let (one, other) = ends(&pair);
            std::thread::scope(|scope| {
                for end in [&one, &other] {
                    scope.spawn(move || assert!(!matches!(end.receive(&mut [0; 1]), Ok(1))));
                }
                std::thread::sleep(Duration::from_millis(20));
                if ends_here { one.end() } else { other.end() }
            });
        }
        // One that sends more than is taken.
        let (one, other) = ends(&pair);
        std::thread::scope(|scope| {
            let sends = scope.spawn(|| one.send(&mut [IoSlice::new(&bytes(20_000_000, 0))]).map_err(|e| e.kind()));
            std::thread::sleep(Duration::from_millis(20));
            let ended = Instant::now();
            other.end();
            assert_eq!(sends.join().unwrap(), Err(ErrorKind::PeerLost));
            assert!(ended.elapsed() < Duration::from_secs(60), "it waited on");
        });
    });
}

#[test]
fn a_listener_that_ends_takes_no_connection_and_leaves_those_that_were_made() {
    each(|pair| {
        let (one, other) = ends(&pair);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| pair.server.accept().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(20));
            pair.server.end();
            assert!(waits.join().unwrap(), "it waits on");
        });
        assert!(pair.server.accept().unwrap().is_none());
        one.send(&mut [IoSlice::new(b"on")]).unwrap();
        let mut out = [0; 2];
        whole(&*other, &mut out);
        let ServerAndClient { client, server, _folder } = pair;
        drop(server);
        assert_eq!(client.connect().err().expect("nobody listens").kind(), ErrorKind::PeerLost);
    });
}

#[test]
fn many_connections_are_made_at_once_and_kept_apart() {
    each(|pair| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..64 {
                    let end = pair.server.accept().unwrap().unwrap();
                    scope.spawn(move || {
                        end.admit().unwrap();
                        let mut out = [0; 8];
                        for _ in 0..50 {
                            whole(&*end, &mut out);
                            end.send(&mut [IoSlice::new(&out)]).unwrap();
                        }
                    });
                }
            });
            for number in 0..64u64 {
                let client = &pair.client;
                scope.spawn(move || {
                    let end = client.connect().unwrap();
                    for round in 0..50 {
                        let sent = (number << 32 | round).to_le_bytes();
                        end.send(&mut [IoSlice::new(&sent)]).unwrap();
                        let mut out = [0; 8];
                        whole(&*end, &mut out);
                        assert_eq!(out, sent);
                    }
                });
            }
        });
    });
}

fn mounts() -> Arc<Mounts> {
    let (of_direct, of_container) = (Arc::new(Memory::new()), Arc::new(Memory::new()));
    let of_container: Arc<dyn thalweg_store::Store> = of_container;
    let mounts = vec![
        Mount::new("/direct", move || Ok(Arc::new(Direct::new(of_direct.clone()).unwrap()))),
        Mount::new("/container", move || {
            Ok(Arc::new(Container::new(vec![of_container.clone()], Options::default()).unwrap()))
        }),
    ];
    Arc::new(Mounts::new(mounts, Arc::new(Direct::new(Arc::new(Memory::new())).unwrap())))
}

#[test]
fn a_layout_over_any_transport_keeps_every_promise_of_layouts() {
    each(|pair| {
        let _served = serve(mounts(), pair.server).unwrap();
        layout::check(&Remote::over(pair.client.clone(), "/direct").unwrap());
        layout::check(&Remote::over(pair.client.clone(), "/container").unwrap());
        layout::check_names_and_attributes(&Remote::over(pair.client, "/container").unwrap());
    });
}

#[test]
fn thousands_of_requests_from_many_programs_are_answered_each_with_its_own() {
    each(|pair| {
        let _served = serve(mounts(), pair.server).unwrap();
        let asked = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for program in 0..4u32 {
                let (client, asked) = (pair.client.clone(), &asked);
                scope.spawn(move || {
                    let remote = Remote::over(client, "/direct").unwrap();
                    for round in 0..250u32 {
                        let name = format!("{program}.{round}");
                        let file = remote.open_write(&name, OpenWrite::New, WriterId(program)).unwrap();
                        let wanted = bytes(round as usize + 1, program as usize);
                        thalweg_layout::write_all_at(&*file, 0, &wanted).unwrap();
                        file.close().unwrap();
                        let mut out = vec![0; wanted.len()];
                        remote.open_read(&name).unwrap().read_exact_at(0, &mut out).unwrap();
                        assert!(out == wanted, "{name}");
                        assert_eq!(remote.stat(&name).unwrap().length, wanted.len() as u64);
                        asked.fetch_add(7, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(asked.into_inner(), 7000);
    });
}
