//! A rank that dies at a chosen moment: a communicator that leaves the run, and a store whose write does.

#![allow(dead_code)]

use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_comm::threads::ThreadCommunicator;
use thalweg_comm::{Communicator, Message, Reduce, Request, SharedWindow, ThreadLevel};
use thalweg_movement::parts::step_commit;
use thalweg_store::Store;
use thalweg_store::wrap::{Around, Asked, Operation, Verdict, Watch};
use thalweg_types::{Error, ErrorKind, Result};

/// When a rank dies, from the moment it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before it makes so many more collective calls and one. To gather index fragments up the tree counts as one: where a
    /// rank sends its own, and where rank 0 begins to hear.
    Call(u32),
    /// The same, a moment later: what the others do without it they have done.
    CallLate(u32),
    /// Before it sends or receives so many more messages and one.
    Message(u32),
    /// Half way through its next write.
    Write,
}

struct State {
    moment: Option<Moment>,
    handle: ThreadCommunicator,
    /// Dies when its write has ended: nobody hears of a death before that.
    dying: bool,
    /// A dead process writes nothing, however long its thread goes on.
    dead: bool,
}

impl State {
    fn die(&mut self) {
        self.moment = None;
        self.dead = true;
        self.handle.leave();
    }
}

/// The life of one rank, shared by its communicators and its store.
#[derive(Clone)]
pub struct Life(Arc<Mutex<State>>);

impl Life {
    pub fn of(handle: ThreadCommunicator) -> Life {
        Life(Arc::new(Mutex::new(State { moment: None, handle, dying: false, dead: false })))
    }

    /// From now on.
    pub fn ends(&self, moment: Option<Moment>) {
        self.0.lock().unwrap().moment = moment;
    }

    /// Now.
    pub fn end(&self) {
        self.0.lock().unwrap().die();
    }

    pub fn communicator(&self) -> Mortal {
        let inner = self.0.lock().unwrap().handle.duplicate().unwrap();
        Mortal { inner, life: self.clone() }
    }

    pub fn store(&self, inner: Arc<dyn Store>) -> Around<Deadly> {
        Around::with(inner, Deadly(self.clone()))
    }

    fn message(&self) {
        let mut state = self.0.lock().unwrap();
        match &mut state.moment {
            Some(Moment::Message(0)) => {
                state.die();
            }
            Some(Moment::Message(n)) => *n -= 1,
            _ => {}
        }
    }

    fn call(&self) {
        let mut state = self.0.lock().unwrap();
        match &mut state.moment {
            Some(Moment::Call(0)) => {
                state.die();
            }
            Some(Moment::CallLate(0)) => {
                std::thread::sleep(Duration::from_millis(50));
                state.die();
            }
            Some(Moment::Call(n) | Moment::CallLate(n)) => *n -= 1,
            _ => {}
        }
    }
}

/// A store that lets its rank die in the middle of a write.
pub struct Deadly(Life);

impl Watch for Deadly {
    fn describe(&self) -> &'static str {
        "deadly"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        let mut state = self.0.0.lock().unwrap();
        if state.dead {
            return Verdict::Fail(Error::new(ErrorKind::Io, "dead"));
        }
        if operation.asked != Asked::Write || state.moment != Some(Moment::Write) {
            return Verdict::Pass;
        }
        (state.moment, state.dying) = (None, true);
        Verdict::FailAfter(operation.bytes / 2, Error::new(ErrorKind::Io, "died"))
    }

    fn after(&self, operation: &Operation<'_>, _: std::result::Result<u64, &Error>) {
        let mut state = self.0.0.lock().unwrap();
        if state.dying && operation.asked == Asked::Write {
            state.dying = false;
            state.die();
        }
    }
}

/// A communicator whose rank dies when its time has come.
pub struct Mortal {
    inner: Box<dyn Communicator>,
    life: Life,
}

impl Mortal {
    fn wrap(&self, inner: Box<dyn Communicator>) -> Box<dyn Communicator> {
        Box::new(Mortal { inner, life: self.life.clone() })
    }
}

impl Communicator for Mortal {
    fn rank(&self) -> u32 {
        self.inner.rank()
    }
    fn size(&self) -> u32 {
        self.inner.size()
    }
    fn thread_level(&self) -> ThreadLevel {
        self.inner.thread_level()
    }
    fn timeout(&self) -> Duration {
        self.inner.timeout()
    }
    fn set_timeout(&mut self, timeout: Duration) {
        self.inner.set_timeout(timeout);
    }
    fn send(&self, to: u32, tag: u32, bytes: &[u8]) -> Result<()> {
        if tag == step_commit::TAG {
            self.life.call()
        } else {
            self.life.message()
        }
        self.inner.send(to, tag, bytes)
    }
    fn receive(&self, from: Option<u32>, tag: u32) -> Result<Message> {
        if tag != step_commit::TAG {
            self.life.message();
        } else if self.rank() == 0 && from == Some(1) {
            self.life.call();
        }
        self.inner.receive(from, tag)
    }
    fn start_send(&self, to: u32, tag: u32, bytes: Vec<u8>) -> Result<Box<dyn Request + '_>> {
        if tag == step_commit::TAG {
            self.life.call()
        } else {
            self.life.message()
        }
        self.inner.start_send(to, tag, bytes)
    }
    fn start_receive(&self, from: Option<u32>, tag: u32) -> Result<Box<dyn Request + '_>> {
        self.inner.start_receive(from, tag)
    }
    fn probe(&self, from: Option<u32>, tag: u32) -> Result<Option<(u32, u64)>> {
        self.inner.probe(from, tag)
    }
    fn barrier(&self) -> Result<()> {
        self.life.call();
        self.inner.barrier()
    }
    fn broadcast(&self, root: u32, bytes: &mut Vec<u8>) -> Result<()> {
        self.life.call();
        self.inner.broadcast(root, bytes)
    }
    fn gather(&self, root: u32, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        self.life.call();
        self.inner.gather(root, bytes)
    }
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.life.call();
        self.inner.all_gather(bytes)
    }
    fn scatter(&self, root: u32, parts: Option<&[Vec<u8>]>) -> Result<Vec<u8>> {
        self.life.call();
        self.inner.scatter(root, parts)
    }
    fn all_to_all(&self, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        self.life.call();
        self.inner.all_to_all(parts)
    }
    fn exclusive_scan(&self, value: u64) -> Result<u64> {
        self.life.call();
        self.inner.exclusive_scan(value)
    }
    fn all_reduce(&self, values: &[u64], how: Reduce) -> Result<Vec<u64>> {
        self.life.call();
        self.inner.all_reduce(values, how)
    }
    fn duplicate(&self) -> Result<Box<dyn Communicator>> {
        self.inner.duplicate().map(|inner| self.wrap(inner))
    }
    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        Ok(self.inner.split(color, key)?.map(|inner| self.wrap(inner)))
    }
    fn split_by_node(&self) -> Result<Box<dyn Communicator>> {
        self.inner.split_by_node().map(|inner| self.wrap(inner))
    }
    fn shared_window(&self, bytes: u64) -> Result<Box<dyn SharedWindow>> {
        self.inner.shared_window(bytes)
    }
    fn survivors(&self) -> Result<Box<dyn Communicator>> {
        self.life.call();
        self.inner.survivors().map(|inner| self.wrap(inner))
    }
}
