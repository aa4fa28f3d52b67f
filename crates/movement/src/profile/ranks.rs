//! A communicator whose waits and sends are recorded.
//!
//! Calls that all ranks make are *meetings*, counted in their order, which is the same on all ranks: whoever comes last to
//! one keeps the others waiting. Communicators and windows made from this one are recorded too, in whatever output they are
//! used, but their meetings are not counted, as only some ranks may be in them.

use super::Phase;
use super::recorder::{Recorder, Running, span};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thalweg_comm::{Communicator, Message, Reduce, Request, SharedWindow, ThreadLevel};
use thalweg_types::Result;

/// See the module's page.
pub struct Recorded {
    inner: Box<dyn Communicator>,
    /// Of the communicator that has the ranks of the output, in their order.
    meetings: Option<Arc<Recorder>>,
    left: Left,
}

/// The ranks that are left where some were lost, among themselves.
pub type Left = Arc<Mutex<Option<Box<dyn Communicator>>>>;

impl Recorded {
    /// Records what passes through `inner`, the communicator of an output.
    pub fn new(inner: Box<dyn Communicator>, recorder: Arc<Recorder>) -> Recorded {
        Recorded { inner, meetings: Some(recorder), left: Left::default() }
    }

    /// Set once ranks are lost and the others go on.
    pub fn left(&self) -> Left {
        self.left.clone()
    }

    fn part(inner: Box<dyn Communicator>) -> Box<dyn Communicator> {
        Box::new(Recorded { inner, meetings: None, left: Left::default() })
    }

    fn meet(&self) -> Running {
        self.meetings.as_ref().map_or_else(|| span(Phase::Wait, 0), Recorder::meeting)
    }

    fn send_to(&self, to: u32, bytes: usize) -> Running {
        let mut running = span(Phase::Send, bytes as u64);
        if self.meetings.is_some() {
            running.with(to);
        }
        running
    }

    fn wait_for(&self, from: Option<u32>) -> Running {
        let mut running = span(Phase::Wait, 0);
        if let (true, Some(from)) = (self.meetings.is_some(), from) {
            running.with(from);
        }
        running
    }

    fn came(&self, running: &mut Running, message: &Message) {
        running.bytes(message.bytes.len() as u64);
        if self.meetings.is_some() {
            running.with(message.from);
        }
    }
}

struct RecordedRequest<'a> {
    inner: Box<dyn Request + 'a>,
    comm: &'a Recorded,
    /// Of a send: to whom.
    sends: Option<u32>,
    from: Option<u32>,
}

impl Request for RecordedRequest<'_> {
    fn test(&mut self) -> Result<bool> {
        self.inner.test()
    }

    fn wait(self: Box<Self>) -> Result<Option<Message>> {
        let mut running = match self.sends {
            // Its bytes were counted when it began.
            Some(to) => self.comm.send_to(to, 0),
            None => self.comm.wait_for(self.from),
        };
        let message = self.inner.wait()?;
        if let Some(message) = &message {
            self.comm.came(&mut running, message);
        }
        Ok(message)
    }
}

struct RecordedWindow {
    inner: Box<dyn SharedWindow>,
}

impl SharedWindow for RecordedWindow {
    fn length(&self, rank: u32) -> u64 {
        self.inner.length(rank)
    }

    fn put(&self, rank: u32, offset: u64, bytes: &[u8]) -> Result<()> {
        let _running = span(Phase::Send, bytes.len() as u64);
        self.inner.put(rank, offset, bytes)
    }

    fn get(&self, rank: u32, offset: u64, out: &mut [u8]) -> Result<()> {
        self.inner.get(rank, offset, out)
    }

    fn show(&self, offset: u64, length: u64, with: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.inner.show(offset, length, with)
    }

    fn fence(&self) -> Result<()> {
        let _running = span(Phase::Wait, 0);
        self.inner.fence()
    }
}

impl Communicator for Recorded {
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
        let _running = self.send_to(to, bytes.len());
        self.inner.send(to, tag, bytes)
    }

    fn receive(&self, from: Option<u32>, tag: u32) -> Result<Message> {
        let mut running = self.wait_for(from);
        self.inner.receive(from, tag).inspect(|message| self.came(&mut running, message))
    }

    fn start_send(&self, to: u32, tag: u32, bytes: Vec<u8>) -> Result<Box<dyn Request + '_>> {
        let running = self.send_to(to, bytes.len());
        let inner = self.inner.start_send(to, tag, bytes)?;
        drop(running);
        Ok(Box::new(RecordedRequest { inner, comm: self, sends: Some(to), from: None }))
    }

    fn start_receive(&self, from: Option<u32>, tag: u32) -> Result<Box<dyn Request + '_>> {
        let inner = self.inner.start_receive(from, tag)?;
        Ok(Box::new(RecordedRequest { inner, comm: self, sends: None, from }))
    }

    fn probe(&self, from: Option<u32>, tag: u32) -> Result<Option<(u32, u64)>> {
        self.inner.probe(from, tag)
    }

    fn barrier(&self) -> Result<()> {
        let _running = self.meet();
        self.inner.barrier()
    }

    fn broadcast(&self, root: u32, bytes: &mut Vec<u8>) -> Result<()> {
        let _running = self.meet();
        self.inner.broadcast(root, bytes)
    }

    fn gather(&self, root: u32, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let mut running = self.meet();
        running.bytes(bytes.len() as u64);
        self.inner.gather(root, bytes)
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut running = self.meet();
        running.bytes(bytes.len() as u64);
        self.inner.all_gather(bytes)
    }

    fn scatter(&self, root: u32, parts: Option<&[Vec<u8>]>) -> Result<Vec<u8>> {
        let _running = self.meet();
        self.inner.scatter(root, parts)
    }

    fn all_to_all(&self, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let mut running = self.meet();
        running.bytes(parts.iter().map(|part| part.len() as u64).sum());
        self.inner.all_to_all(parts)
    }

    fn exclusive_scan(&self, value: u64) -> Result<u64> {
        let _running = self.meet();
        self.inner.exclusive_scan(value)
    }

    fn all_reduce(&self, values: &[u64], how: Reduce) -> Result<Vec<u64>> {
        let _running = self.meet();
        self.inner.all_reduce(values, how)
    }

    fn duplicate(&self) -> Result<Box<dyn Communicator>> {
        let _running = self.meet();
        self.inner.duplicate().map(Recorded::part)
    }

    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        let _running = self.meet();
        Ok(self.inner.split(color, key)?.map(Recorded::part))
    }

    fn split_by_node(&self) -> Result<Box<dyn Communicator>> {
        let _running = self.meet();
        self.inner.split_by_node().map(Recorded::part)
    }

    fn shared_window(&self, bytes: u64) -> Result<Box<dyn SharedWindow>> {
        let _running = self.meet();
        let inner = self.inner.shared_window(bytes)?;
        Ok(Box::new(RecordedWindow { inner }))
    }

    fn survivors(&self) -> Result<Box<dyn Communicator>> {
        // Not all ranks come.
        let _running = span(Phase::Wait, 0);
        let made = self.inner.survivors()?;
        // For the profile, at the end of close; all that are left come by here.
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = made.duplicate().ok();
        Ok(Recorded::part(made))
    }
}
