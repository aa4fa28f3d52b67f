//! A communicator whose collective calls are made of messages, over anything that carries messages between ranks ([`Courier`]).
//!
//! Small collective calls go through rank 0, which gathers what all ranks give and answers each. A broadcast, gather, scatter or exchange
//! sends its bytes to where they are needed. Each message of a collective call begins with the number and kind of the call, so that ranks
//! that make different calls are told; a rank that gives up tells those that may wait for it.

use crate::inbox::{Inbox, Ticket};
use crate::{Communicator, Message, Reduce, Request, SharedWindow, ThreadLevel, check};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thalweg_types::{Error, ErrorKind, Result};

/// Tag of messages inside collective calls, above all tags of the trait.
const INNER: u32 = check::TAG_LIMIT;
/// Kind of the message of a rank that gave up.
const GIVEN_UP: u8 = 255;
/// Bytes before the content: number and kind of the call.
const PREFIX: usize = 9;

/// Whether a process can still be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It takes part.
    Here,
    /// It dropped its communicators; with the number of the process.
    Finished(u32),
    /// It died; with the number of the process.
    Died(u32),
}

/// What a courier knows of the ranks from which messages are expected.
pub struct Others<'a> {
    /// The presence of a rank.
    pub presence: &'a dyn Fn(u32) -> Presence,
    /// Why no message can come any more.
    pub failure: Option<&'a Error>,
}

/// Carries the messages of one rank to and from all others: those of a first communicator, and of those made from it. Ranks are those of
/// the first communicator; a context is the number of a communicator, the same on all its ranks.
pub trait Courier: Send + Sync + Sized + 'static {
    /// State of a bounded wait.
    type Wait;

    /// This rank.
    fn rank(&self) -> u32;
    /// Number of ranks.
    fn size(&self) -> u32;
    /// The lowest context that this rank has not used.
    fn next_context(&self) -> u64;
    /// Begins to keep messages of a context.
    fn open(&self, context: u64);
    /// Messages of the context are dropped from now on.
    fn close(&self, context: u64);
    /// Sends a message, or starts to; the flag is set when its bytes have left.
    ///
    /// - `to`: rank of the first communicator; `from`: this rank in the communicator of the context.
    ///
    /// # Errors
    /// `PeerLost`; errors of the connection.
    fn send(&self, to: u32, context: u64, tag: u32, from: u32, bytes: Vec<u8>) -> Result<Arc<AtomicBool>>;
    /// Moves messages as far as possible without waiting; then runs `look` on those of a context.
    fn look<T>(&self, context: u64, look: impl FnOnce(&mut Inbox<Vec<u8>>, &Others<'_>) -> T) -> T;
    /// The receive is withdrawn.
    fn withdraw(&self, context: u64, ticket: Ticket);
    /// Begins a wait.
    fn wait(&self, timeout: Duration) -> Self::Wait;
    /// Waits until messages may have moved; `false` once the time of the wait has passed.
    fn pause(&self, wait: &mut Self::Wait) -> bool;
    /// As [`Communicator::clock`].
    fn clock(&self) -> Duration {
        crate::wall_clock()
    }
    /// As [`Communicator::set_idle`], of all contexts.
    fn set_idle(&self) {}
    /// As [`Communicator::shares_memory`].
    fn shares_memory(&self) -> bool;
    /// Collective: the ranks of `comm` that are on this rank's node.
    ///
    /// # Errors
    /// As [`Communicator::split_by_node`].
    fn split_by_node(comm: &MessageCommunicator<Self>) -> Result<MessageCommunicator<Self>>;
    /// Collective: memory that the ranks of `comm` share.
    ///
    /// # Errors
    /// As [`Communicator::shared_window`].
    fn shared_window(comm: MessageCommunicator<Self>, bytes: u64) -> Result<Box<dyn SharedWindow>>;
}

/// The error of an operation that needs a rank that is gone.
pub fn lost(rank: u32, presence: Presence) -> Error {
    let what = match presence {
        Presence::Here => format!("rank {rank} cannot be reached"),
        Presence::Finished(process) => format!("rank {rank} (process {process}) has closed its communicators"),
        Presence::Died(process) => format!("rank {rank} (process {process}) died"),
    };
    Error::new(ErrorKind::PeerLost, what)
}

/// What a communicator shares with its requests.
struct Shared<C: Courier> {
    courier: Arc<C>,
    context: u64,
    rank: u32,
    /// Ranks of the first communicator.
    members: Vec<u32>,
}

impl<C: Courier> Drop for Shared<C> {
    fn drop(&mut self) {
        self.courier.close(self.context);
    }
}

impl<C: Courier> Shared<C> {
    fn new(courier: Arc<C>, context: u64, rank: u32, members: Vec<u32>) -> Arc<Shared<C>> {
        courier.open(context);
        Arc::new(Shared { courier, context, rank, members })
    }

    /// The error of a receive from `from` that cannot complete.
    fn hopeless(&self, from: Option<u32>, others: &Others<'_>) -> Result<()> {
        if let Some(failure) = others.failure {
            return Err(failure.again().at_rank(self.rank));
        }
        let of = |rank: u32| (others.presence)(self.members[rank as usize]);
        let others = || (0..self.members.len() as u32).filter(|rank| *rank != self.rank);
        let gone = match from {
            Some(from) => Some(from).filter(|from| of(*from) != Presence::Here),
            None => others().find(|rank| matches!(of(*rank), Presence::Died(_))).or_else(|| {
                let nobody = others().all(|rank| of(rank) != Presence::Here);
                others().next().filter(|_| nobody)
            }),
        };
        gone.map_or(Ok(()), |rank| Err(lost(rank, of(rank)).at_rank(self.rank)))
    }

    fn look<T>(&self, look: impl FnOnce(&mut Inbox<Vec<u8>>, &Others<'_>) -> T) -> T {
        self.courier.look(self.context, look)
    }

    fn send(&self, to: u32, tag: u32, bytes: Vec<u8>) -> Result<Arc<AtomicBool>> {
        let sent = self.courier.send(self.members[to as usize], self.context, tag, self.rank, bytes);
        sent.map_err(|e| e.at_rank(self.rank))
    }

    /// Whether a message has left; fails if it never will.
    fn has_left(&self, to: u32, sent: &AtomicBool) -> Result<bool> {
        let lost = self.look(|_, others| self.hopeless(Some(to), others));
        match sent.load(Ordering::Acquire) {
            true => Ok(true),
            false => lost.map(|()| false),
        }
    }

    fn wait_until_left(&self, to: u32, tag: u32, sent: &AtomicBool, timeout: Duration) -> Result<()> {
        let mut wait = self.courier.wait(timeout);
        while !self.has_left(to, sent)? {
            if !self.courier.pause(&mut wait) {
                let what = format!("rank {to} did not take a message with tag {tag} within {timeout:?}");
                return Err(Error::new(ErrorKind::Timeout, what).at_rank(self.rank));
            }
        }
        Ok(())
    }

    fn post(self: &Arc<Self>, from: Option<u32>, tag: u32, timeout: Duration) -> Receiving<C> {
        let ticket = self.look(|inbox, _| inbox.post(from, tag));
        Receiving { shared: self.clone(), ticket, from, tag, timeout }
    }
}

struct Sending<C: Courier> {
    shared: Arc<Shared<C>>,
    to: u32,
    tag: u32,
    sent: Arc<AtomicBool>,
    timeout: Duration,
    ended: bool,
}

impl<C: Courier> Sending<C> {
    fn finish(&mut self) -> Result<()> {
        self.ended = true;
        self.shared.wait_until_left(self.to, self.tag, &self.sent, self.timeout)
    }
}

impl<C: Courier> Request for Sending<C> {
    fn test(&mut self) -> Result<bool> {
        self.shared.has_left(self.to, &self.sent)
    }

    fn wait(mut self: Box<Self>) -> Result<Option<Message>> {
        self.finish().map(|()| None)
    }
}

impl<C: Courier> Drop for Sending<C> {
    fn drop(&mut self) {
        if !self.ended && !std::thread::panicking() {
            let _ = self.finish();
        }
    }
}

/// A started receive; its drop withdraws it.
struct Receiving<C: Courier> {
    shared: Arc<Shared<C>>,
    ticket: Ticket,
    from: Option<u32>,
    tag: u32,
    timeout: Duration,
}

impl<C: Courier> Receiving<C> {
    fn finish(&self) -> Result<Message> {
        let mut wait = self.shared.courier.wait(self.timeout);
        loop {
            let came = self.shared.look(|inbox, others| match inbox.take(self.ticket) {
                Some(message) => Ok(Some(message)),
                None => self.shared.hopeless(self.from, others).map(|()| None),
            })?;
            if let Some((from, bytes)) = came {
                return Ok(Message { from, tag: self.tag, bytes });
            }
            // One rank alone: nobody can send while it waits.
            if self.shared.members.len() == 1 || !self.shared.courier.pause(&mut wait) {
                return Err(crate::no_message(self.from, self.tag, self.timeout).at_rank(self.shared.rank));
            }
        }
    }
}

impl<C: Courier> Request for Receiving<C> {
    fn test(&mut self) -> Result<bool> {
        self.shared.look(|inbox, others| match inbox.matched(self.ticket) {
            Some(_) => Ok(true),
            None => self.shared.hopeless(self.from, others).map(|()| false),
        })
    }

    fn wait(self: Box<Self>) -> Result<Option<Message>> {
        self.finish().map(Some)
    }
}

impl<C: Courier> Drop for Receiving<C> {
    fn drop(&mut self) {
        self.shared.courier.withdraw(self.shared.context, self.ticket);
    }
}

/// One rank of a communicator over a [`Courier`]. See the module's page.
pub struct MessageCommunicator<C: Courier> {
    shared: Arc<Shared<C>>,
    timeout: Duration,
    calls: Cell<u64>,
    /// The failure of a collective call: the ranks no longer agree on the number of calls.
    broken: Cell<Option<ErrorKind>>,
}

/// A collective call.
#[derive(Clone, Copy)]
struct Call {
    number: u64,
    kind: u8,
}

impl Call {
    fn message(self, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PREFIX + content.len());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.push(self.kind);
        bytes.extend_from_slice(content);
        bytes
    }
}

/// The kinds of collective calls.
mod kind {
    pub const BARRIER: u8 = 1;
    pub const BROADCAST: u8 = 2;
    pub const GATHER: u8 = 3;
    pub const ALL_GATHER: u8 = 4;
    pub const SCATTER: u8 = 5;
    pub const ALL_TO_ALL: u8 = 6;
    pub const SCAN: u8 = 7;
    pub const SUM: u8 = 8;
    pub const MIN: u8 = 9;
    pub const MAX: u8 = 10;
}

fn refused(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, what)
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number)).collect()
}

fn as_bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

impl<C: Courier> MessageCommunicator<C> {
    /// Of all ranks of a courier.
    pub fn first(courier: Arc<C>, timeout: Duration) -> MessageCommunicator<C> {
        let (rank, members) = (courier.rank(), (0..courier.size()).collect());
        MessageCommunicator::of(Shared::new(courier, 0, rank, members), timeout)
    }

    fn of(shared: Arc<Shared<C>>, timeout: Duration) -> MessageCommunicator<C> {
        MessageCommunicator { shared, timeout, calls: Cell::new(0), broken: Cell::new(None) }
    }

    /// What carries its messages.
    pub fn courier(&self) -> &C {
        &self.shared.courier
    }

    /// Its number, the same on all its ranks.
    pub fn context(&self) -> u64 {
        self.shared.context
    }

    /// Makes a collective call; after a failure no further one can be made.
    fn call<T>(&self, kind: u8, body: impl FnOnce(Call) -> Result<T>) -> Result<T> {
        let me = self.rank();
        if let Some(kind) = self.broken.get() {
            return Err(Error::new(kind, "an earlier collective call of this communicator failed").at_rank(me));
        }
        let call = Call { number: self.calls.replace(self.calls.get() + 1), kind };
        body(call).map_err(|e| {
            // A refusal is known to all ranks, which go on.
            if !(e.kind() == ErrorKind::InvalidArgument && e.reported_by().is_none()) {
                self.broken.set(Some(e.kind()));
                let told = Call { number: call.number, kind: GIVEN_UP }.message(&[e.kind().code()]);
                for other in (0..self.size()).filter(|other| *other != me) {
                    _ = self.shared.send(other, INNER, told.clone());
                }
            }
            e.at_rank(me)
        })
    }

    fn tell(&self, call: Call, to: u32, content: &[u8]) -> Result<(u32, Arc<AtomicBool>)> {
        Ok((to, self.shared.send(to, INNER, call.message(content))?))
    }

    fn hear(&self, call: Call, from: u32) -> Result<Vec<u8>> {
        let mut bytes = self.shared.post(Some(from), INNER, self.timeout).finish()?.bytes;
        let content = bytes.split_off(PREFIX.min(bytes.len()));
        if bytes == call.message(&[]) {
            return Ok(content);
        }
        match (bytes.last(), content.first()) {
            (Some(&GIVEN_UP), Some(code)) => {
                Err(Error::reported(ErrorKind::from_code(*code), from, "another rank gave up a collective call"))
            }
            _ => Err(Error::reported(ErrorKind::InvalidArgument, from, "the ranks make different collective calls")),
        }
    }

    fn left(&self, sends: Vec<(u32, Arc<AtomicBool>)>) -> Result<()> {
        sends.iter().try_for_each(|(to, sent)| self.shared.wait_until_left(*to, INNER, sent, self.timeout))
    }

    /// Rank 0 gathers the bytes of all ranks and answers each with its part of `combine`'s result; one part is for all.
    ///
    /// - `combine`: an error is a refusal, which all ranks get.
    fn through_first(
        &self,
        kind: u8,
        own: Vec<u8>,
        combine: impl FnOnce(&[Vec<u8>]) -> std::result::Result<Vec<Vec<u8>>, &'static str>,
    ) -> Result<Vec<u8>> {
        self.call(kind, |call| {
            let answered = |mut answer: Vec<u8>| match answer.pop() {
                Some(0) => Ok(answer),
                _ => Err(refused(&String::from_utf8_lossy(&answer))),
            };
            if self.rank() > 0 {
                let sent = self.tell(call, 0, &own)?;
                let answer = self.hear(call, 0)?;
                self.left(vec![sent])?;
                return answered(answer);
            }
            let mut all = vec![own];
            for from in 1..self.size() {
                all.push(self.hear(call, from)?);
            }
            let (mut answers, end) = match combine(&all) {
                Ok(answers) => (answers, 0),
                Err(what) => (vec![what.as_bytes().to_vec()], 1),
            };
            answers.iter_mut().for_each(|answer| answer.push(end));
            let of = |rank: u32| &answers[(rank as usize).min(answers.len() - 1)];
            let sends = (1..self.size()).map(|rank| self.tell(call, rank, of(rank))).collect::<Result<_>>()?;
            self.left(sends)?;
            answered(of(0).clone())
        })
    }
}

impl<C: Courier> Communicator for MessageCommunicator<C> {
    fn rank(&self) -> u32 {
        self.shared.rank
    }

    fn size(&self) -> u32 {
        self.shared.members.len() as u32
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

    fn clock(&self) -> Duration {
        self.shared.courier.clock()
    }

    fn send(&self, to: u32, tag: u32, bytes: &[u8]) -> Result<()> {
        self.start_send(to, tag, bytes.to_vec())?.wait().map(drop)
    }

    fn receive(&self, from: Option<u32>, tag: u32) -> Result<Message> {
        check::peer(from, self.size(), tag)?;
        self.shared.post(from, tag, self.timeout).finish()
    }

    fn start_send(&self, to: u32, tag: u32, bytes: Vec<u8>) -> Result<Box<dyn Request>> {
        check::peer(Some(to), self.size(), tag)?;
        let sent = self.shared.send(to, tag, bytes)?;
        Ok(Box::new(Sending { shared: self.shared.clone(), to, tag, sent, timeout: self.timeout, ended: false }))
    }

    fn start_receive(&self, from: Option<u32>, tag: u32) -> Result<Box<dyn Request>> {
        check::peer(from, self.size(), tag)?;
        Ok(Box::new(self.shared.post(from, tag, self.timeout)))
    }

    fn probe(&self, from: Option<u32>, tag: u32) -> Result<Option<(u32, u64)>> {
        check::peer(from, self.size(), tag)?;
        self.shared.look(|inbox, others| match inbox.peek(from, tag) {
            Some((from, bytes)) => Ok(Some((from, bytes.len() as u64))),
            None => self.shared.hopeless(from, others).map(|()| None),
        })
    }

    fn barrier(&self) -> Result<()> {
        self.through_first(kind::BARRIER, Vec::new(), |_| Ok(vec![Vec::new()])).map(drop)
    }

    fn broadcast(&self, root: u32, bytes: &mut Vec<u8>) -> Result<()> {
        check::rank(root, self.size())?;
        self.call(kind::BROADCAST, |call| {
            if self.rank() != root {
                *bytes = self.hear(call, root)?;
                return Ok(());
            }
            let others = (0..self.size()).filter(|rank| *rank != root);
            self.left(others.map(|rank| self.tell(call, rank, bytes)).collect::<Result<_>>()?)
        })
    }

    fn gather(&self, root: u32, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        check::rank(root, self.size())?;
        self.call(kind::GATHER, |call| {
            if self.rank() != root {
                let sent = self.tell(call, root, bytes)?;
                return self.left(vec![sent]).map(|()| None);
            }
            let of = |from: u32| if from == root { Ok(bytes.to_vec()) } else { self.hear(call, from) };
            (0..self.size()).map(of).collect::<Result<_>>().map(Some)
        })
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let joined = self.through_first(kind::ALL_GATHER, bytes.to_vec(), |all| {
            let lengths: Vec<u64> = all.iter().map(|bytes| bytes.len() as u64).collect();
            Ok(vec![[as_bytes(&lengths), all.concat()].concat()])
        })?;
        let (lengths, mut rest) = joined.split_at(8 * self.size() as usize);
        let mut parts = Vec::with_capacity(self.size() as usize);
        for length in numbers(lengths) {
            let (part, behind) = rest.split_at(length as usize);
            parts.push(part.to_vec());
            rest = behind;
        }
        Ok(parts)
    }

    fn scatter(&self, root: u32, parts: Option<&[Vec<u8>]>) -> Result<Vec<u8>> {
        check::rank(root, self.size())?;
        self.call(kind::SCATTER, |call| {
            const WHAT: &str = "a part for each rank is required";
            if self.rank() != root {
                let mut part = self.hear(call, root)?;
                return if part.pop() == Some(0) { Ok(part) } else { Err(refused(WHAT)) };
            }
            let parts = parts.filter(|parts| parts.len() == self.size() as usize);
            let others = (0..self.size()).filter(|rank| *rank != root);
            let tell = |rank: u32| match parts {
                Some(parts) => self.tell(call, rank, &[&parts[rank as usize][..], &[0]].concat()),
                None => self.tell(call, rank, &[1]),
            };
            self.left(others.map(tell).collect::<Result<_>>()?)?;
            parts.map(|parts| parts[root as usize].clone()).ok_or_else(|| refused(WHAT))
        })
    }

    fn all_to_all(&self, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        self.call(kind::ALL_TO_ALL, |call| {
            let me = self.rank();
            let mut refusal = check::parts(parts.len(), self.size());
            let tell = |rank: u32| match &refusal {
                Ok(()) => self.tell(call, rank, &[&parts[rank as usize][..], &[0]].concat()),
                Err(_) => self.tell(call, rank, &[1]),
            };
            let sends = (0..self.size()).filter(|rank| *rank != me).map(tell).collect::<Result<_>>()?;
            let mut came = Vec::with_capacity(parts.len());
            for from in 0..self.size() {
                if from == me {
                    came.push(parts.get(me as usize).cloned().unwrap_or_default());
                    continue;
                }
                let mut part = self.hear(call, from)?;
                if part.pop() != Some(0) && refusal.is_ok() {
                    refusal = Err(refused("a part for each rank is required"));
                }
                came.push(part);
            }
            self.left(sends)?;
            refusal.map(|()| came)
        })
    }

    fn exclusive_scan(&self, value: u64) -> Result<u64> {
        let lower = self.through_first(kind::SCAN, as_bytes(&[value]), |all| {
            let mut sum = 0u64;
            let sums = all.iter().map(|bytes| {
                let lower = sum;
                sum = sum.wrapping_add(numbers(bytes).first().copied().unwrap_or(0));
                as_bytes(&[lower])
            });
            Ok(sums.collect())
        })?;
        Ok(numbers(&lower).first().copied().unwrap_or(0))
    }

    fn all_reduce(&self, values: &[u64], how: Reduce) -> Result<Vec<u64>> {
        let kind = match how {
            Reduce::Sum => kind::SUM,
            Reduce::Min => kind::MIN,
            Reduce::Max => kind::MAX,
        };
        let combined = self.through_first(kind, as_bytes(values), |all| {
            if all.iter().any(|bytes| bytes.len() != all[0].len()) {
                return Err("the ranks reduce lists of different lengths");
            }
            let mut result = numbers(&all[0]);
            for bytes in &all[1..] {
                result.iter_mut().zip(numbers(bytes)).for_each(|(a, b)| *a = how.combine(*a, b));
            }
            Ok(vec![as_bytes(&result)])
        })?;
        Ok(numbers(&combined))
    }

    fn duplicate(&self) -> Result<Box<dyn Communicator>> {
        let part = self.part(Some(0), 0)?;
        part.map(|part| Box::new(part) as Box<dyn Communicator>).ok_or_else(|| refused("no duplicate"))
    }

    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        Ok(self.part(color, key)?.map(|part| Box::new(part) as Box<dyn Communicator>))
    }

    fn split_by_node(&self) -> Result<Box<dyn Communicator>> {
        Ok(Box::new(C::split_by_node(self)?))
    }

    fn shares_memory(&self) -> bool {
        self.shared.courier.shares_memory()
    }

    fn shared_window(&self, bytes: u64) -> Result<Box<dyn SharedWindow>> {
        C::shared_window(self.part(Some(0), 0)?.ok_or_else(|| refused("no duplicate"))?, bytes)
    }

    fn set_idle(&self) {
        // A part's messages have ended, not those of the communicator that it is a part of.
        if self.shared.context == 0 {
            self.shared.courier.set_idle();
        }
    }

    fn survivors(&self) -> Result<Box<dyn Communicator>> {
        if self.size() == 1 {
            return self.duplicate();
        }
        Err(Error::new(ErrorKind::Unsupported, "ranks cannot continue without one of them").at_rank(self.rank()))
    }
}

impl<C: Courier> MessageCommunicator<C> {
    /// Collective: the communicator of the ranks with the same color.
    ///
    /// # Errors
    /// As [`Communicator::split`].
    pub fn part(&self, color: Option<u32>, key: u32) -> Result<Option<MessageCommunicator<C>>> {
        let color = color.map_or(u64::MAX, u64::from);
        let all = self.all_gather(&as_bytes(&[color, u64::from(key), self.shared.courier.next_context()]))?;
        let all: Vec<Vec<u64>> = all.iter().map(|bytes| numbers(bytes)).collect();
        // No process of this communicator has used it.
        let context = all.iter().map(|of| of[2]).max().unwrap_or(0);
        if color == u64::MAX {
            return Ok(None);
        }
        let mut ranks: Vec<(u64, u32)> =
            (0..).zip(&all).filter(|(_, of)| of[0] == color).map(|(rank, of)| (of[1], rank)).collect();
        ranks.sort_unstable();
        let members = ranks.iter().map(|(_, rank)| self.shared.members[*rank as usize]).collect();
        let own = ranks.iter().position(|(_, rank)| *rank == self.rank()).unwrap_or(0) as u32;
        let shared = Shared::new(self.shared.courier.clone(), context, own, members);
        Ok(Some(MessageCommunicator::of(shared, self.timeout)))
    }
}
