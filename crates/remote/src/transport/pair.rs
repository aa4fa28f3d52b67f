//! Connections within one process: a server and its clients without system calls.

use super::{Connection, Listener, Transport, broken};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use thalweg_types::mutex::{Condvar, Mutex};
use thalweg_types::{Error, ErrorKind, Result};

/// Capacity of one direction in bytes; then a sender waits.
const UNDER_WAY: usize = 64 << 10;

/// Both sides of a transport.
pub fn new() -> (Client, Server) {
    let queue = Arc::new(Queue::default());
    (Client(queue.clone()), Server(queue))
}

/// The program's side.
#[derive(Clone)]
pub struct Client(Arc<Queue>);

/// The server's side.
pub struct Server(Arc<Queue>);

#[derive(Default)]
struct Queue {
    arrived: Mutex<Arrived>,
    changed: Condvar,
}

#[derive(Default)]
struct Arrived {
    ends: VecDeque<End>,
    ended: bool,
}

/// Bytes in one direction.
#[derive(Default)]
struct Pipe {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    ended: bool,
}

impl Pipe {
    fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }
}

struct End {
    to: Arc<Pipe>,
    from: Arc<Pipe>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.end();
    }
}

impl Connection for End {
    fn send(&self, pieces: &mut [IoSlice<'_>]) -> Result<()> {
        for mut rest in pieces.iter().map(|piece| &**piece) {
            while !rest.is_empty() {
                let full = |state: &mut State| !state.ended && state.bytes.len() >= UNDER_WAY;
                let state = self.to.state.lock();
                let mut state = self.to.changed.wait_while(state, full);
                if state.ended {
                    return Err(broken(io::ErrorKind::BrokenPipe));
                }
                let (now, later) = rest.split_at(rest.len().min(UNDER_WAY - state.bytes.len()));
                state.bytes.extend(now);
                rest = later;
                self.to.changed.notify_all();
            }
        }
        Ok(())
    }

    fn receive(&self, out: &mut [u8]) -> Result<usize> {
        let empty = |state: &mut State| !state.ended && state.bytes.is_empty();
        let state = self.from.state.lock();
        let mut state = self.from.changed.wait_while(state, empty);
        let count = out.len().min(state.bytes.len());
        for (to, byte) in out.iter_mut().zip(state.bytes.drain(..count)) {
            *to = byte;
        }
        self.from.changed.notify_all();
        Ok(count)
    }

    fn end(&self) {
        self.to.end();
        self.from.end();
    }

    fn describe(&self) -> String {
        "this process".into()
    }
}

impl Transport for Client {
    fn connect(&self) -> Result<Box<dyn Connection>> {
        let mut arrived = self.0.arrived.lock();
        if arrived.ended {
            return Err(Error::new(ErrorKind::PeerLost, "no server for this process"));
        }
        let (there, back) = (Arc::new(Pipe::default()), Arc::new(Pipe::default()));
        arrived.ends.push_back(End { to: back.clone(), from: there.clone() });
        self.0.changed.notify_all();
        Ok(Box::new(End { to: there, from: back }))
    }

    fn describe(&self) -> String {
        "the server in this process".into()
    }
}

impl Listener for Server {
    fn accept(&self) -> Result<Option<Box<dyn Connection>>> {
        let none = |arrived: &mut Arrived| !arrived.ended && arrived.ends.is_empty();
        let arrived = self.0.arrived.lock();
        let mut arrived = self.0.changed.wait_while(arrived, none);
        if arrived.ended {
            arrived.ends.clear();
            return Ok(None);
        }
        Ok(arrived.ends.pop_front().map(|end| Box::new(end) as Box<dyn Connection>))
    }

    fn end(&self) {
        self.0.arrived.lock().ended = true;
        self.0.changed.notify_all();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut arrived = self.0.arrived.lock();
        arrived.ended = true;
        arrived.ends.clear();
    }
}
