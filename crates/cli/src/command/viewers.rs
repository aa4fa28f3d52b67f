//! `thalweg viewers`: serves the page and the WebSocket of viewers, for a running program with method `SOCKET`, which starts it.
//!
//! | question | answer |
//! |---|---|
//! | who connects | browsers, and any client that has the token of the page's address; a WebSocket of another site's page is refused by its `Origin` |
//! | what they get | what an output has, as text (`protocol::Told::Step`); the planes they asked for, as bytes: length of the head, head, values |
//! | what they say | `{"asks": [...]}`; what exceeds the elements that all viewers see together is refused, with a message |
//! | a viewer that stalls | is left after [`PATIENCE`]; nobody else waits for it, and it gets the last output when it goes on |
//! | memory | the planes of the last output |
//! | when it ends | with the program |

mod http;

use crate::arguments::Viewers;
use crate::outcome::{Failure, Outcome};
use http::Request;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{ErrorKind as Cause, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use thalweg_io::socket::plane::{Ask, affordable};
use thalweg_io::socket::protocol::{MOST_ELEMENTS, Ready, Told, Wanted};
use thalweg_types::Error;
use thalweg_types::mutex::Mutex;
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Bytes, Message, Utf8Bytes, WebSocket};

/// The page: one file, nothing else is loaded.
const PAGE: &str = include_str!("viewers/page.html");
/// Most viewers at a time.
const MOST_VIEWERS: usize = 64;
/// Most connections at a time, those of viewers and others.
const MOST_CONNECTIONS: usize = 256;
/// How long a viewer may take to take a message, and to say what it is.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a thread listens to its viewer before it looks for news.
const TURN: Duration = Duration::from_millis(20);
/// Most bytes of a head, and of the values behind it, that the program sends.
const LARGEST: usize = 64 << 20;

/// What threads share.
struct Shared {
    /// To the program.
    out: File,
    /// Counts what came from the program.
    news: u64,
    /// What the last output has.
    step: Option<(u64, Utf8Bytes)>,
    /// Planes of the last output, by what was asked for.
    frames: HashMap<Ask, (u64, Bytes)>,
    /// What each viewer asks for; who came first gets it first.
    viewers: BTreeMap<u64, Vec<Ask>>,
    /// What was told to the program.
    told: Wanted,
}

pub fn run(arguments: &Viewers) -> Result<Outcome, Failure> {
    let failed = |what: &str, e| Error::io(format!("{what} {}", arguments.listen), e);
    let listener = TcpListener::bind(arguments.listen).map_err(|e| failed("cannot listen at", e))?;
    let address = listener.local_addr().map_err(|e| failed("cannot listen at", e))?;
    let token = token().map_err(|e| Error::io("cannot make a token", e))?;
    let ready = Ready { url: format!("http://{address}/?token={token}") };
    // The command holds the lock of its standard output.
    let out =
        std::io::stdout().as_fd().try_clone_to_owned().map_err(|e| Error::io("cannot speak with the program", e))?;
    let out = File::from(out);
    say(&out, &serde_json::to_string(&ready).unwrap_or_default());
    let (frames, viewers) = (HashMap::new(), BTreeMap::new());
    let shared = Arc::new(Mutex::new(Shared { out, news: 0, step: None, frames, viewers, told: Wanted::default() }));
    let own = shared.clone();
    thread::spawn(move || accept(&listener, &Arc::from(token), &own));
    hear(std::io::stdin().lock(), &shared);
    Ok(Outcome::Done)
}

/// A line for the program. Where it has ended, so does this process.
fn say(mut out: &File, line: &str) {
    let _ = out.write_all(format!("{line}\n").as_bytes());
}

/// 128 bits that nobody can guess, as hexadecimal digits.
fn token() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Takes the program's messages until it ends.
fn hear(mut from: impl Read, shared: &Mutex<Shared>) {
    loop {
        let (mut head, mut values) = ([0; 4], [0; 4]);
        if from.read_exact(&mut head).and_then(|()| from.read_exact(&mut values)).is_err() {
            return;
        }
        let lengths = [u32::from_le_bytes(head) as usize, u32::from_le_bytes(values) as usize];
        if lengths.iter().any(|length| *length > LARGEST) {
            return;
        }
        let mut bytes = vec![0; 4 + lengths[0] + lengths[1]];
        bytes[..4].copy_from_slice(&head);
        if from.read_exact(&mut bytes[4..]).is_err() {
            return;
        }
        let text = &bytes[4..4 + lengths[0]];
        let mut shared = shared.lock();
        shared.news += 1;
        let news = shared.news;
        match serde_json::from_slice(text) {
            Ok(Told::Step { .. }) => {
                let Ok(text) = std::str::from_utf8(text) else { continue };
                shared.step = Some((news, text.to_string().into()));
                let wanted = shared.told.asks.clone();
                shared.frames.retain(|ask, _| wanted.contains(ask));
            }
            Ok(Told::Frame { ask, .. }) => {
                shared.frames.insert(ask, (news, bytes.into()));
            }
            Err(_) => {}
        }
    }
}

fn accept(listener: &TcpListener, token: &Arc<str>, shared: &Arc<Mutex<Shared>>) {
    for (number, stream) in (0..).zip(listener.incoming()) {
        // Each connection holds the shared state.
        let Ok(stream) = stream
            .map_err(drop)
            .and_then(|own| if Arc::strong_count(shared) > MOST_CONNECTIONS { Err(()) } else { Ok(own) })
        else {
            // Too many open files: others may end.
            thread::sleep(TURN);
            continue;
        };
        let (token, shared) = (token.clone(), shared.clone());
        // A connection for which there is no thread is closed.
        let _ = thread::Builder::new().name("viewer".into()).spawn(move || {
            let _ = serve(stream, number, &token, &shared);
        });
    }
}

/// A connection.
fn serve(mut stream: TcpStream, number: u64, token: &str, shared: &Mutex<Shared>) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let Some(request) = request(&mut stream)? else { return Ok(()) };
    let refuse = |mut stream: TcpStream, what: &str| stream.write_all(http::refusal(what).as_bytes());
    if !request.has_token(token) {
        return refuse(stream, "403 Forbidden");
    }
    match request.path() {
        "/" => stream.write_all(http::page(PAGE).as_bytes()),
        "/ws" if !request.is_of_this_site() => refuse(stream, "403 Forbidden"),
        "/ws" => {
            let Some(key) = request.key() else { return refuse(stream, "400 Bad Request") };
            {
                let mut shared = shared.lock();
                if shared.viewers.len() >= MOST_VIEWERS {
                    drop(shared);
                    return refuse(stream, "503 Service Unavailable");
                }
                shared.viewers.insert(number, Vec::new());
                tell_wanted(&mut shared);
            }
            let _leaves = Leaves { number, shared };
            stream.write_all(http::upgrade(key).as_bytes())?;
            stream.set_read_timeout(Some(TURN))?;
            let limits = WebSocketConfig::default().max_message_size(Some(1 << 16)).max_frame_size(Some(1 << 16));
            converse(WebSocket::from_raw_socket(stream, Role::Server, Some(limits)), number, shared);
            Ok(())
        }
        _ => refuse(stream, "404 Not Found"),
    }
}

/// Takes a viewer from the list when its connection ends, however that is.
struct Leaves<'s> {
    number: u64,
    shared: &'s Mutex<Shared>,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        let mut shared = self.shared.lock();
        shared.viewers.remove(&self.number);
        tell_wanted(&mut shared);
    }
}

/// Reads a request up to its empty line; `None` if there is none.
fn request(stream: &mut TcpStream) -> std::io::Result<Option<Request>> {
    let until = Instant::now() + PATIENCE;
    let mut text = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || text.len() > 1 << 14 {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left))?;
        let mut byte = [0; 1];
        if stream.read(&mut byte)? == 0 {
            return Ok(None);
        }
        text.push(byte[0]);
        if text.ends_with(b"\r\n\r\n") {
            return Ok(Request::parse(&text));
        }
    }
}

#[derive(Deserialize)]
struct Says {
    asks: Vec<Ask>,
}

/// Speaks with a viewer until it leaves, or stalls.
fn converse(mut socket: WebSocket<TcpStream>, number: u64, shared: &Mutex<Shared>) {
    let mut seen = 0;
    let mut asks: Vec<Ask> = Vec::new();
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => {
                let Ok(says) = serde_json::from_str::<Says>(&text) else { return };
                asks = affordable(&says.asks, MOST_ELEMENTS);
                let shown = {
                    let mut shared = shared.lock();
                    shared.viewers.insert(number, asks.clone());
                    tell_wanted(&mut shared);
                    says.asks.iter().filter(|ask| shared.told.asks.contains(ask)).count()
                };
                if shown < says.asks.len() {
                    let why = format!(
                        "{} planes are not shown: all viewers together see {MOST_ELEMENTS} elements",
                        says.asks.len() - shown
                    );
                    let refused = serde_json::json!({ "type": "refused", "why": why });
                    if socket.send(Message::Text(refused.to_string().into())).is_err() {
                        return;
                    }
                }
            }
            Ok(Message::Close(_)) => {
                let _ = socket.flush();
                return;
            }
            Ok(_) => {}
            Err(tungstenite::Error::Io(e)) if matches!(e.kind(), Cause::WouldBlock | Cause::TimedOut) => {}
            Err(_) => return,
        }
        let mut news: Vec<Message> = Vec::new();
        {
            let shared = shared.lock();
            let is_new = |at: u64| at > seen;
            if let Some((_, text)) = shared.step.as_ref().filter(|(at, _)| is_new(*at)) {
                news.push(Message::Text(text.clone()));
            }
            let frames = asks.iter().filter_map(|ask| shared.frames.get(ask)).filter(|(at, _)| is_new(*at));
            news.extend(frames.map(|(_, bytes)| Message::Binary(bytes.clone())));
            seen = shared.news;
        }
        for message in news {
            if socket.send(message).is_err() {
                return;
            }
        }
    }
}

/// Tells the program what viewers want, if that has changed.
fn tell_wanted(shared: &mut Shared) {
    let asks = affordable(shared.viewers.values().flatten(), MOST_ELEMENTS);
    let wanted = Wanted { viewers: shared.viewers.len() as u32, asks };
    if wanted != shared.told {
        say(&shared.out, &serde_json::to_string(&wanted).unwrap_or_default());
        shared.told = wanted;
    }
}
