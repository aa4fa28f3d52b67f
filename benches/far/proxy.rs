//! A proxy in front of an S3 server: counts HTTP requests and the bytes of replies, and delays each request, as a service far away would.
//! It tells whoever requests [`COUNTED`] how many it has passed on.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use thalweg_benches::Failure;

/// The longest head of a request that is passed on, in bytes.
const LONGEST_HEAD: u64 = 1 << 20;

/// How a request begins that the proxy answers itself: with the number of requests so far. No bucket's name begins so.
const COUNTED: &[u8] = b"GET /_requests ";

/// What passed through, and how long a request is delayed.
#[derive(Debug, Default)]
struct State {
    requests: AtomicU64,
    /// Of replies, heads included.
    bytes: AtomicU64,
    delay_ms: AtomicU64,
}

/// A proxy that runs as long as the process does.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

impl Proxy {
    /// Starts one on loopback.
    ///
    /// - `server`: what it stands in front of, as `HOST:PORT`.
    ///
    /// # Errors
    /// Where no port or no thread can be had.
    pub fn start(server: &str) -> Result<Proxy, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let proxy = Proxy { address: listener.local_addr()?, state: Arc::default() };
        let (state, server) = (proxy.state.clone(), server.to_string());
        std::thread::Builder::new().name("proxy".into()).spawn(move || {
            for client in listener.incoming().flatten() {
                let (state, server) = (state.clone(), server.clone());
                // A connection that breaks is its client's to report.
                std::thread::spawn(move || pass(client, &server, &state));
            }
        })?;
        Ok(proxy)
    }

    /// As clients name it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on, each request waits so long.
    pub fn delay(&self, ms: u64) {
        self.state.delay_ms.store(ms, Relaxed);
    }

    /// Requests and bytes of replies so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.state.requests.load(Relaxed), self.state.bytes.load(Relaxed))
    }
}

/// One connection of a client, until either side closes it.
fn pass(client: TcpStream, server: &str, state: &Arc<State>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut replies, mut to_client, counted) = (server.try_clone()?, client.try_clone()?, state.clone());
    let own_replies = client.try_clone()?;
    let back = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 18];
        while let Ok(count @ 1..) = replies.read(&mut buffer) {
            counted.bytes.fetch_add(count as u64, Relaxed);
            if to_client.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let result = requests(BufReader::with_capacity(1 << 18, client), own_replies, &server, state);
    let _ = server.shutdown(Shutdown::Write);
    let _ = back.join();
    result
}

/// Passes on requests, one after the other.
fn requests(
    mut client: impl BufRead,
    mut own_replies: impl Write,
    mut server: impl Write,
    state: &State,
) -> io::Result<()> {
    loop {
        let mut head = Vec::new();
        let mut rest = (&mut client).take(LONGEST_HEAD);
        while !head.ends_with(b"\r\n\r\n") {
            if rest.read_until(b'\n', &mut head)? == 0 {
                return Ok(());
            }
        }
        if head.starts_with(COUNTED) {
            let count = state.requests.load(Relaxed).to_string();
            write!(own_replies, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{count}", count.len())?;
            continue;
        }
        state.requests.fetch_add(1, Relaxed);
        std::thread::sleep(Duration::from_millis(state.delay_ms.load(Relaxed)));
        server.write_all(&head)?;
        let length = body_length(&head)?;
        io::copy(&mut (&mut client).take(length), &mut server)?;
    }
}

/// Bytes behind the head of a request.
///
/// # Errors
/// Where the head does not state them.
fn body_length(head: &[u8]) -> io::Result<u64> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if field("transfer-encoding:").is_some() {
        return Err(io::Error::other("this proxy passes on bodies of stated length alone"));
    }
    field("content-length:").map_or(Ok(0), |n| n.parse().map_err(io::Error::other))
}
