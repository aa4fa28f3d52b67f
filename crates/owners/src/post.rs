//! The messages of a file between its ranks, sent and received without waiting; those of a rank to itself included.

use std::collections::VecDeque;
use thalweg_comm::{Communicator, Request};
use thalweg_types::{Error, ErrorKind, Result};

/// A message that can be sent.
pub(crate) trait Letter: Sized {
    /// As bytes.
    fn encode(self) -> Vec<u8>;
    /// What [`Letter::encode`] encoded; `None` for other bytes.
    fn decode(bytes: Vec<u8>) -> Option<Self>;
    /// Memory of a message of this rank to itself that counts.
    fn memory(&self) -> u64 {
        0
    }
}

/// Receives that are started at once: so many large messages can arrive at the same time.
const RECEIVES: usize = 4;

/// See the module's page.
pub(crate) struct Post<L> {
    pub comm: Box<dyn Communicator>,
    tag: u32,
    receives: Vec<Box<dyn Request>>,
    /// Messages in flight, their memory, and to whom they go.
    sends: Vec<(Box<dyn Request>, u64, u32)>,
    to_self: VecDeque<L>,
    /// Why no message comes any more.
    pub broken: Option<Error>,
}

impl<L: Letter> Post<L> {
    /// Starts to receive messages with this tag.
    pub fn new(comm: Box<dyn Communicator>, tag: u32) -> Post<L> {
        let (receives, sends, to_self) = (Vec::new(), Vec::new(), VecDeque::new());
        let mut post = Post { comm, tag, receives, sends, to_self, broken: None };
        post.start_receives();
        post
    }

    fn start_receives(&mut self) {
        while self.comm.size() > 1 && self.receives.len() < RECEIVES && self.broken.is_none() {
            match self.comm.start_receive(None, self.tag) {
                Ok(receive) => self.receives.push(receive),
                Err(e) => self.lose(e),
            }
        }
    }

    /// The messages that have come, with their senders.
    pub fn receive(&mut self) -> Vec<(u32, L)> {
        let mut came = Vec::new();
        for mut receive in std::mem::take(&mut self.receives) {
            match receive.test() {
                Ok(false) => self.receives.push(receive),
                Ok(true) => match receive.wait() {
                    Ok(message) => came.extend(message),
                    Err(e) => self.lose(e),
                },
                Err(e) => self.lose(e),
            }
        }
        self.start_receives();
        let rank = self.comm.rank();
        let mut letters: Vec<(u32, L)> = self.to_self.drain(..).map(|letter| (rank, letter)).collect();
        for message in came {
            let length = message.bytes.len();
            match L::decode(message.bytes) {
                Some(letter) => letters.push((message.from, letter)),
                None => {
                    let what = format!("{length} bytes from rank {} are no message", message.from);
                    self.lose(Error::new(ErrorKind::Corrupt, what));
                }
            }
        }
        letters
    }

    /// Sends a message, or keeps it for this rank.
    pub fn send(&mut self, to: u32, letter: L) {
        self.send_counted(to, letter, true);
    }

    /// As [`Post::send`], for a short message whose memory does not count.
    pub fn send_short(&mut self, to: u32, letter: L) {
        self.send_counted(to, letter, false);
    }

    fn send_counted(&mut self, to: u32, letter: L, counted: bool) {
        if to == self.comm.rank() {
            self.to_self.push_back(letter);
            return;
        }
        let bytes = letter.encode();
        let memory = if counted { bytes.capacity() as u64 } else { 0 };
        match self.comm.start_send(to, self.tag, bytes) {
            Ok(send) => self.sends.push((send, memory, to)),
            Err(e) => self.lose(e),
        }
    }

    /// Forgets the messages that have arrived; whether there were any.
    pub fn end_sends(&mut self) -> bool {
        let before = self.sends.len();
        let mut failure = None;
        self.sends.retain_mut(|(send, ..)| match send.test() {
            Ok(done) => !done,
            Err(e) => {
                failure.get_or_insert(e);
                false
            }
        });
        failure.into_iter().for_each(|e| self.lose(e));
        self.sends.len() < before
    }

    /// Whether messages to other ranks are in flight.
    pub fn is_sending(&self) -> bool {
        !self.sends.is_empty()
    }

    /// Whether short messages, whose memory does not count, are in flight.
    pub fn is_sending_short(&self) -> bool {
        self.sends.iter().any(|(_, memory, _)| *memory == 0)
    }

    /// Memory of the messages in flight to a rank.
    pub fn memory_to(&self, rank: u32) -> u64 {
        let own = self.to_self.iter().filter(|_| rank == self.comm.rank()).map(Letter::memory);
        self.sends.iter().filter(|(_, _, to)| *to == rank).map(|(_, memory, _)| memory).sum::<u64>() + own.sum::<u64>()
    }

    /// Whether this rank has messages of its own to act on.
    pub fn has_own(&self) -> bool {
        !self.to_self.is_empty()
    }

    /// Memory of messages in flight.
    pub fn memory(&self) -> u64 {
        let own: u64 = self.to_self.iter().map(Letter::memory).sum();
        self.sends.iter().map(|(_, memory, _)| memory).sum::<u64>() + own
    }

    /// Records why no message comes any more. A rank that left because another one died is not named in its place.
    pub fn lose(&mut self, error: Error) {
        if self.broken.is_some() {
            return;
        }
        let first = match self.comm.probe(None, self.tag) {
            Err(first) if error.kind() == ErrorKind::PeerLost && first.kind() == ErrorKind::PeerLost => first,
            _ => error,
        };
        self.broken = Some(first);
    }

    /// After a loss: nothing is received any more.
    pub fn stop(&mut self) {
        self.receives.clear();
        self.to_self.clear();
    }

    /// Ends the receives.
    pub fn end_receives(&mut self) {
        self.receives.clear();
    }

    /// The loss, if there was one.
    ///
    /// # Errors
    /// That of [`Post::lose`].
    pub fn works(&self) -> Result<()> {
        self.broken.as_ref().map_or(Ok(()), |e| Err(e.again()))
    }
}

/// Returns at once: the memory of a message that no rank receives stays allocated.
impl<L> Drop for Post<L> {
    fn drop(&mut self) {
        for (mut send, ..) in self.sends.drain(..) {
            if !matches!(send.test(), Ok(true)) {
                // Its own drop would wait for the receiver.
                std::mem::forget(send);
            }
        }
    }
}
