//! Who may connect over TCP, and what becomes of the others.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_layout::{Direct, Layout, Mount, Mounts};
use thalweg_remote::transport::{Listener, Transport, tcp, tcp::Token};
use thalweg_remote::{Remote, Served, serve};
use thalweg_store::Memory;
use thalweg_types::{ErrorKind, Result};

fn token() -> Token {
    Token::make(&tempfile::tempdir().unwrap().path().join("token")).unwrap()
}

fn served(token: &Token) -> (Served, SocketAddr) {
    let direct = || Arc::new(Direct::new(Arc::new(Memory::new())).unwrap());
    let mounts = Mounts::new(vec![Mount::new("/direct", move || Ok(direct()))], direct());
    let (server, address) = tcp::listen("127.0.0.1:0", token.clone()).unwrap();
    (serve(Arc::new(mounts), Arc::new(server)).unwrap(), address)
}

fn remote(address: impl ToString, token: &Token) -> Result<Remote> {
    Remote::over(Arc::new(tcp::Tcp::to(&address.to_string(), token.clone())), "/direct")
}

fn error(address: impl ToString, token: &Token) -> thalweg_types::Error {
    tcp::Tcp::to(&address.to_string(), token.clone()).connect().err().expect("must be refused")
}

/// Waits until the server has ended the connection and returns what it sent before.
fn until_end(mut stream: &TcpStream) -> Vec<u8> {
    let mut out = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    match stream.read_to_end(&mut out) {
        Err(e) if e.kind() != std::io::ErrorKind::ConnectionReset => panic!("still connected: {e}"),
        _ => out,
    }
}

#[test]
fn a_client_with_another_token_is_told_so_and_the_server_goes_on() {
    let (ours, theirs) = (token(), token());
    let (_served, address) = served(&ours);
    let refused = error(address, &theirs);
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    assert_eq!(refused.what(), format!("the server at {address} has another token"));
    remote(address, &ours).unwrap().list("").unwrap();
}

#[test]
fn a_server_admits_no_false_proof_and_not_its_own_one() {
    let (server, address) = tcp::listen("127.0.0.1:0", token()).unwrap();
    for own in [false, true] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let end = server.accept().unwrap().unwrap();
                let refused = end.admit().unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
                assert!(refused.what().starts_with("the client at 127.0.0.1:"), "{refused}");
                assert_eq!(end.receive(&mut [0; 9]).unwrap_err().kind(), ErrorKind::PermissionDenied);
                assert_eq!(end.send(&mut []).unwrap_err().kind(), ErrorKind::PermissionDenied);
            });
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(&[b"THALWEG1", &[7; 32][..]].concat()).unwrap();
            let mut answer = [0; 72];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(&answer[..8], b"THALWEG1");
            client.write_all(if own { &answer[40..] } else { &[0; 32] }).unwrap();
            assert!(until_end(&client).is_empty());
        });
    }
}

#[test]
fn no_byte_passes_before_the_proof() {
    let (server, address) = tcp::listen("127.0.0.1:0", token()).unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"hello").unwrap();
    let end = server.accept().unwrap().unwrap();
    assert_eq!(end.receive(&mut [0; 5]).unwrap_err().kind(), ErrorKind::PermissionDenied);
}

#[test]
fn a_client_proves_nothing_to_a_server_without_the_token() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut connection, _) = server.accept().unwrap();
            let mut greeting = [0; 40];
            connection.read_exact(&mut greeting).unwrap();
            // The client's own greeting, and something as the proof.
            connection.write_all(&[&greeting[..], &[9; 32]].concat()).unwrap();
            assert!(until_end(&connection).is_empty());
        });
        assert_eq!(error(address, &token()).kind(), ErrorKind::PermissionDenied);
    });
}

#[test]
fn a_foreign_protocol_is_dropped_at_once_and_the_server_goes_on() {
    let token = token();
    let (_served, address) = served(&token);
    let mut browser = TcpStream::connect(address).unwrap();
    let begun = Instant::now();
    browser.write_all(b"GET / HTTP/1.1\r\nHost: node17\r\n\r\n").unwrap();
    assert!(until_end(&browser).is_empty());
    assert!(begun.elapsed() < Duration::from_secs(3));
    remote(address, &token).unwrap().list("").unwrap();
}

#[test]
fn a_server_of_a_foreign_protocol_is_named() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| server.accept().unwrap().0.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").unwrap());
        let refused = error(address, &token());
        assert_eq!(refused.kind(), ErrorKind::Config);
        assert!(refused.what().starts_with(&format!("the server at {address} speaks another protocol")), "{refused}");
    });
}

#[test]
fn silent_and_slow_peers_are_dropped_while_others_are_served() {
    let token = token();
    let (_served, address) = served(&token);
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let begun = Instant::now();
    let in_time = || {
        let taken = begun.elapsed();
        assert!(taken > tcp::HANDSHAKE / 2 && taken < 2 * tcp::HANDSHAKE, "{taken:?}");
    };
    let (silent, mut slow) = (TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(until_end(&silent).is_empty());
            in_time();
        });
        scope.spawn(|| {
            // One byte every 400 ms: each arrives in time, all together do not.
            let sent = b"THALWEG1".iter().chain(&[0; 32]).all(|byte| {
                std::thread::sleep(Duration::from_millis(400));
                slow.write_all(&[*byte]).is_ok()
            });
            assert!(!sent);
            in_time();
        });
        scope.spawn(|| {
            let refused = error(mute.local_addr().unwrap(), &token);
            assert_eq!(refused.kind(), ErrorKind::PeerLost);
            assert!(refused.what().ends_with("did not prove its token within 5 s"), "{refused}");
            in_time();
        });
        remote(address, &token).unwrap().list("").unwrap();
        assert!(begun.elapsed() < tcp::HANDSHAKE / 2);
    });
}

#[test]
fn a_server_that_stops_ends_its_connections_at_once_also_those_without_a_proof() {
    let token = token();
    let (served, address) = served(&token);
    let remote = remote(address, &token).unwrap();
    let silent = TcpStream::connect(address).unwrap();
    // Until the silent one is accepted.
    std::thread::sleep(Duration::from_millis(50));
    let begun = Instant::now();
    drop(served);
    assert!(until_end(&silent).is_empty());
    assert!(begun.elapsed() < Duration::from_secs(2));
    for lost in [remote.list("").unwrap_err(), error(address, &token)] {
        assert_eq!(lost.kind(), ErrorKind::PeerLost);
        assert!(lost.what().contains(&format!("no data server answers at {address}")), "{lost}");
    }
}

#[test]
fn ipv6_addresses_are_served() {
    let token = token();
    let Ok((server, address)) = tcp::listen("[::1]:0", token.clone()) else {
        return eprintln!("skipped: no IPv6 loopback");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| server.accept().unwrap().unwrap().admit().unwrap());
        tcp::Tcp::to(&format!("[::1]:{}", address.port()), token).connect().unwrap();
    });
}

#[test]
fn a_host_without_an_address_and_an_address_without_a_port_are_named() {
    let lost = error("no-such-host.invalid:4711", &token());
    assert_eq!(lost.kind(), ErrorKind::PeerLost);
    assert!(lost.what().contains("no-such-host.invalid:4711 cannot be looked up"), "{lost}");
    let wrong = error("node17", &token());
    assert_eq!(wrong.kind(), ErrorKind::Config);
    assert!(wrong.what().contains("node17 is no address of the form HOST:PORT"), "{wrong}");
}
