//! One rank without peers, for serial programs.
//!
//! It can send to itself. A receive without a message fails immediately with `Timeout`, because no other rank can send one.

use crate::inbox::{Inbox, Ticket};
use crate::{Communicator, Message, Reduce, Request, SharedWindow, ThreadLevel, check};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Messages of this rank to itself, shared with its requests.
type Messages = Arc<Mutex<Inbox<Vec<u8>>>>;

/// See the module's page.
#[derive(Debug)]
pub struct Alone {
    inbox: Messages,
    timeout: Duration,
}

impl Alone {
    /// A communicator of one rank.
    pub fn new() -> Alone {
        Alone { inbox: Messages::default(), timeout: crate::DEFAULT_TIMEOUT }
    }

    fn fresh(&self) -> Box<dyn Communicator> {
        Box::new(Alone { inbox: Messages::default(), timeout: self.timeout })
    }

    fn post(&self, from: Option<u32>, tag: u32) -> Result<Receiving> {
        check::peer(from, 1, tag)?;
        let ticket = self.inbox.lock().post(from, tag);
        Ok(Receiving { inbox: self.inbox.clone(), ticket, tag })
    }
}

impl Default for Alone {
    fn default() -> Self {
        Alone::new()
    }
}

struct Sent;

impl Request for Sent {
    fn test(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn wait(self: Box<Self>) -> Result<Option<Message>> {
        Ok(None)
    }
}

/// A started receive; its drop withdraws it.
struct Receiving {
    inbox: Messages,
    ticket: Ticket,
    tag: u32,
}

impl Receiving {
    fn finish(&self) -> Result<Message> {
        let tag = self.tag;
        self.inbox.lock().take(self.ticket).map(|(from, bytes)| Message { from, tag, bytes }).ok_or_else(|| {
            let what = format!("no message with tag {tag} was sent, and there is no other rank to send one");
            Error::new(ErrorKind::Timeout, what).at_rank(0)
        })
    }
}

impl Request for Receiving {
    fn test(&mut self) -> Result<bool> {
        Ok(self.inbox.lock().matched(self.ticket).is_some())
    }

    fn wait(self: Box<Self>) -> Result<Option<Message>> {
        self.finish().map(Some)
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.inbox.lock().withdraw(self.ticket);
    }
}

impl Communicator for Alone {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn thread_level(&self) -> ThreadLevel {
        ThreadLevel::Multiple
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    fn send(&self, to: u32, tag: u32, bytes: &[u8]) -> Result<()> {
        self.start_send(to, tag, bytes.to_vec()).map(drop)
    }

    fn receive(&self, from: Option<u32>, tag: u32) -> Result<Message> {
        self.post(from, tag)?.finish()
    }

    fn start_send(&self, to: u32, tag: u32, bytes: Vec<u8>) -> Result<Box<dyn Request>> {
        check::peer(Some(to), 1, tag)?;
        self.inbox.lock().arrive(0, tag, bytes);
        Ok(Box::new(Sent))
    }

    fn start_receive(&self, from: Option<u32>, tag: u32) -> Result<Box<dyn Request>> {
        Ok(Box::new(self.post(from, tag)?))
    }

    fn probe(&self, from: Option<u32>, tag: u32) -> Result<Option<(u32, u64)>> {
        check::peer(from, 1, tag)?;
        Ok(self.inbox.lock().peek(from, tag).map(|(from, bytes)| (from, bytes.len() as u64)))
    }

    fn barrier(&self) -> Result<()> {
        Ok(())
    }

    fn broadcast(&self, root: u32, _bytes: &mut Vec<u8>) -> Result<()> {
        check::rank(root, 1)
    }

    fn gather(&self, root: u32, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        check::rank(root, 1)?;
        Ok(Some(vec![bytes.to_vec()]))
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![bytes.to_vec()])
    }

    fn scatter(&self, root: u32, parts: Option<&[Vec<u8>]>) -> Result<Vec<u8>> {
        check::rank(root, 1)?;
        let parts = parts.unwrap_or_default();
        check::parts(parts.len(), 1)?;
        Ok(parts[0].clone())
    }

    fn all_to_all(&self, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        check::parts(parts.len(), 1)?;
        Ok(parts.to_vec())
    }

    fn exclusive_scan(&self, _value: u64) -> Result<u64> {
        Ok(0)
    }

    fn all_reduce(&self, values: &[u64], _how: Reduce) -> Result<Vec<u64>> {
        Ok(values.to_vec())
    }

    fn duplicate(&self) -> Result<Box<dyn Communicator>> {
        Ok(self.fresh())
    }

    fn split(&self, color: Option<u32>, _key: u32) -> Result<Option<Box<dyn Communicator>>> {
        Ok(color.map(|_| self.fresh()))
    }

    fn split_by_node(&self) -> Result<Box<dyn Communicator>> {
        Ok(self.fresh())
    }

    fn shared_window(&self, bytes: u64) -> Result<Box<dyn SharedWindow>> {
        Ok(Box::new(Window { part: RefCell::new(crate::zeroed(bytes)?) }))
    }

    fn survivors(&self) -> Result<Box<dyn Communicator>> {
        Ok(self.fresh())
    }
}

struct Window {
    part: RefCell<Vec<u8>>,
}

impl SharedWindow for Window {
    fn length(&self, rank: u32) -> u64 {
        if rank == 0 { self.part.borrow().len() as u64 } else { 0 }
    }

    fn put(&self, rank: u32, offset: u64, bytes: &[u8]) -> Result<()> {
        check::rank(rank, 1)?;
        let range = check::window(rank, self.length(rank), offset, bytes.len())?;
        self.part.borrow_mut()[range].copy_from_slice(bytes);
        Ok(())
    }

    fn get(&self, rank: u32, offset: u64, out: &mut [u8]) -> Result<()> {
        check::rank(rank, 1)?;
        let range = check::window(rank, self.length(rank), offset, out.len())?;
        out.copy_from_slice(&self.part.borrow()[range]);
        Ok(())
    }

    fn show(&self, offset: u64, length: u64, with: &mut dyn FnMut(&[u8])) -> Result<()> {
        let range = check::window(0, self.length(0), offset, check::count(length)?)?;
        with(&self.part.borrow()[range]);
        Ok(())
    }

    fn fence(&self) -> Result<()> {
        Ok(())
    }
}
