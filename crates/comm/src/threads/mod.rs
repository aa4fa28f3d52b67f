//! Ranks as threads of one process: for tests, and for machines without MPI.
//!
//! ```
//! use thalweg_comm::{Communicator, Reduce, threads};
//!
//! let sums = threads::run(100, |comm| comm.all_reduce(&[u64::from(comm.rank())], Reduce::Sum).unwrap()[0]);
//! assert_eq!(sums, vec![4950; 100]);
//! ```
//!
//! A send never waits: its bytes are copied into the receiver's mailbox. A rank that panics, calls
//! [`ThreadCommunicator::leave`] or drops its handle is noticed at once: whoever needs it gets `PeerLost`, while
//! messages it sent before are still received. A receive from anyone fails as soon as one rank has died, or when all
//! others are gone.
//!
//! All ranks that come to a collective call leave it with the same outcome; where ranks make different calls, all get
//! `InvalidArgument`.

mod group;

use crate::inbox::Ticket;
use crate::{Communicator, Message, Reduce, Request, SharedWindow, ThreadLevel, check};
use group::{CollectiveCall, Complete, Deposit, Group, Seat, World, deadline, pause};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;
use thalweg_types::mutex::RwLock;
use thalweg_types::{Error, ErrorKind, Result};

/// Runs `body` on `ranks` threads, all on one node; returns the results by rank.
///
/// # Panics
/// Where a rank panics: with the first one's message, when all are done.
pub fn run<T: Send>(ranks: u32, body: impl Fn(ThreadCommunicator) -> T + Sync) -> Vec<T> {
    Machine::new(ranks).run(body)
}

/// A machine with threads as ranks.
#[derive(Debug, Clone)]
pub struct Machine {
    ranks: u32,
    ranks_per_node: u32,
    timeout: Duration,
    stack_bytes: usize,
    level: ThreadLevel,
}

impl Machine {
    /// So many ranks, all on one node.
    ///
    /// # Panics
    /// With no rank at all.
    pub fn new(ranks: u32) -> Machine {
        assert!(ranks > 0, "a communicator has at least one rank");
        let level = ThreadLevel::Multiple;
        Machine { ranks, ranks_per_node: ranks, timeout: crate::DEFAULT_TIMEOUT, stack_bytes: 1 << 20, level }
    }

    /// Ranks are laid on nodes in order, so many on each (at least 1).
    pub fn ranks_per_node(self, ranks_per_node: u32) -> Machine {
        Machine { ranks_per_node: ranks_per_node.max(1), ..self }
    }

    /// Longest wait inside one call; 10 minutes if not set.
    pub fn timeout(self, timeout: Duration) -> Machine {
        Machine { timeout, ..self }
    }

    /// Bytes of each rank's stack; 1 MiB if not set.
    pub fn stack_bytes(self, stack_bytes: usize) -> Machine {
        Machine { stack_bytes, ..self }
    }

    /// Which threads may call; any thread if not set. Below [`ThreadLevel::Serialized`] calls of other threads than the rank's fail with
    /// `InvalidArgument`.
    pub fn thread_level(self, level: ThreadLevel) -> Machine {
        Machine { level, ..self }
    }

    /// Runs `body` on every rank; returns the results by rank.
    ///
    /// # Panics
    /// Where a rank panics: with the first one's message, when all are done.
    pub fn run<T: Send>(&self, body: impl Fn(ThreadCommunicator) -> T + Sync) -> Vec<T> {
        let world = World::new(self.ranks, self.ranks_per_node);
        let results = self.run_in(&world, body);
        // The others panic because of the first one; its message is the one to show.
        let first = world.first_panic();
        let mut returned = Vec::with_capacity(results.len());
        for (rank, result) in results.into_iter().enumerate() {
            match result {
                Ok(value) => returned.push(value),
                Err(panic) if first.is_none_or(|first| first as usize == rank) => resume_unwind(panic),
                Err(_) => {}
            }
        }
        returned
    }

    /// The same for ranks that may panic: returns results or panic payloads.
    pub fn run_each<T: Send>(&self, body: impl Fn(ThreadCommunicator) -> T + Sync) -> Vec<std::thread::Result<T>> {
        self.run_in(&World::new(self.ranks, self.ranks_per_node), body)
    }

    fn run_in<T: Send>(
        &self,
        world: &Arc<World>,
        body: impl Fn(ThreadCommunicator) -> T + Sync,
    ) -> Vec<std::thread::Result<T>> {
        let seats = Group::seats(world, (0..self.ranks).collect());
        let body = &body;
        std::thread::scope(|scope| {
            let threads: Vec<_> = seats
                .into_iter()
                .map(|seat| {
                    let rank = seat.rank;
                    std::thread::Builder::new()
                        .name(format!("rank {rank}"))
                        .stack_size(self.stack_bytes)
                        .spawn_scoped(scope, move || {
                            let comm = ThreadCommunicator::new(seat, self.timeout, Callers::of(self.level));
                            catch_unwind(AssertUnwindSafe(|| body(comm))).unwrap_or_else(|panic| {
                                // Where it had given up its handle before.
                                world.panics(rank);
                                world.leave(rank);
                                resume_unwind(panic)
                            })
                        })
                        .unwrap_or_else(|e| panic!("cannot start a thread for rank {rank}: {e}"))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join()).collect()
        })
    }
}

/// The threads that may call a communicator.
#[derive(Debug, Clone, Copy)]
struct Callers {
    level: ThreadLevel,
    /// The only one, if there is only one.
    thread: Option<ThreadId>,
}

impl Callers {
    fn of(level: ThreadLevel) -> Callers {
        Callers { level, thread: (level < ThreadLevel::Serialized).then(|| std::thread::current().id()) }
    }
}

/// One rank of a communicator whose ranks are threads.
#[derive(Debug)]
pub struct ThreadCommunicator {
    seat: Seat,
    timeout: Duration,
    callers: Callers,
    /// Collective calls made so far: ranks meet by this number.
    calls: Cell<u64>,
}

impl ThreadCommunicator {
    fn new(seat: Seat, timeout: Duration, callers: Callers) -> ThreadCommunicator {
        ThreadCommunicator { seat, timeout, callers, calls: Cell::new(0) }
    }

    /// Fails unless this thread may call.
    fn may_call(&self) -> Result<()> {
        match self.callers.thread.is_none_or(|thread| thread == std::thread::current().id()) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidArgument, "another thread than the rank's").at_rank(self.rank())),
        }
    }

    /// Ends this rank as if its process had been killed: it is removed from every communicator.
    pub fn leave(&self) {
        self.group().world.leave(self.group().members[self.rank() as usize]);
    }

    fn group(&self) -> &Group {
        &self.seat.group
    }

    fn meet(&self, deposit: Deposit) -> Result<Arc<Complete>> {
        self.may_call()?;
        let number = self.calls.replace(self.calls.get() + 1);
        self.group().meet(self.rank(), number, self.timeout, deposit)
    }

    fn boxed(&self, seat: Seat) -> Box<dyn Communicator> {
        Box::new(ThreadCommunicator::new(seat, self.timeout, self.callers))
    }

    /// New communicators of a meeting: ranks whose deposits have the same color, ordered by key, then rank.
    fn regroup(&self, deposit: Deposit) -> Result<Option<Seat>> {
        let complete = self.meet(deposit)?;
        Ok(complete.seat(self.rank(), |deposits| {
            let mut colors: BTreeMap<u64, Vec<(u64, u32)>> = BTreeMap::new();
            for (rank, deposit) in (0..).zip(deposits) {
                if let [color, key] = deposit.numbers[..] {
                    colors.entry(color).or_default().push((key, rank));
                }
            }
            let mut seats: Vec<Option<Seat>> = (0..self.size()).map(|_| None).collect();
            for mut ranks in colors.into_values() {
                ranks.sort_unstable();
                let members = ranks.iter().map(|(_, rank)| self.group().members[*rank as usize]).collect();
                for ((_, rank), seat) in ranks.iter().zip(Group::seats(&self.group().world, members)) {
                    seats[*rank as usize] = Some(seat);
                }
            }
            seats
        }))
    }

    fn needed(&self, seat: Option<Seat>) -> Result<Seat> {
        seat.ok_or_else(|| Error::new(ErrorKind::PeerLost, "this rank has no place there").at_rank(self.rank()))
    }

    fn post(&self, from: Option<u32>, tag: u32) -> Result<Receiving> {
        check::peer(from, self.size(), tag)?;
        self.may_call()?;
        self.group().here(self.rank())?;
        let ticket = self.group().mailboxes[self.rank() as usize].inbox.lock().post(from, tag);
        Ok(Receiving { group: self.seat.group.clone(), me: self.rank(), timeout: self.timeout, ticket, from, tag })
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
    group: Arc<Group>,
    me: u32,
    timeout: Duration,
    ticket: Ticket,
    from: Option<u32>,
    tag: u32,
}

impl Receiving {
    fn finish(&self) -> Result<Message> {
        let deadline = deadline(self.timeout);
        let mailbox = &self.group.mailboxes[self.me as usize];
        let mut inbox = mailbox.inbox.lock();
        loop {
            if let Some((from, bytes)) = inbox.take(self.ticket) {
                return Ok(Message { from, tag: self.tag, bytes });
            }
            self.group.hopeless(self.me, self.from)?;
            let waiting;
            (inbox, waiting) = pause(&mailbox.came, inbox, deadline);
            if !waiting {
                return Err(crate::no_message(self.from, self.tag, self.timeout).at_rank(self.me));
            }
        }
    }
}

impl Request for Receiving {
    fn test(&mut self) -> Result<bool> {
        let mut inbox = self.group.mailboxes[self.me as usize].inbox.lock();
        if inbox.matched(self.ticket).is_some() {
            return Ok(true);
        }
        self.group.hopeless(self.me, self.from).map(|()| false)
    }

    fn wait(self: Box<Self>) -> Result<Option<Message>> {
        self.finish().map(Some)
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.group.mailboxes[self.me as usize].inbox.lock().withdraw(self.ticket);
    }
}

impl Communicator for ThreadCommunicator {
    fn rank(&self) -> u32 {
        self.seat.rank
    }

    fn size(&self) -> u32 {
        self.group().size()
    }

    fn thread_level(&self) -> ThreadLevel {
        self.callers.level
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
        check::peer(Some(to), self.size(), tag)?;
        self.may_call()?;
        self.group().deliver(self.rank(), to, tag, bytes)?;
        Ok(Box::new(Sent))
    }

    fn start_receive(&self, from: Option<u32>, tag: u32) -> Result<Box<dyn Request>> {
        Ok(Box::new(self.post(from, tag)?))
    }

    fn probe(&self, from: Option<u32>, tag: u32) -> Result<Option<(u32, u64)>> {
        check::peer(from, self.size(), tag)?;
        self.may_call()?;
        self.group().here(self.rank())?;
        let inbox = self.group().mailboxes[self.rank() as usize].inbox.lock();
        match inbox.peek(from, tag) {
            Some((from, bytes)) => Ok(Some((from, bytes.len() as u64))),
            None => self.group().hopeless(self.rank(), from).map(|()| None),
        }
    }

    fn barrier(&self) -> Result<()> {
        self.meet(Deposit::empty(CollectiveCall::Barrier)).map(drop)
    }

    fn broadcast(&self, root: u32, bytes: &mut Vec<u8>) -> Result<()> {
        check::rank(root, self.size())?;
        let call = CollectiveCall::Broadcast(root);
        if self.rank() == root {
            self.meet(Deposit::bytes(call, bytes)).map(drop)
        } else {
            *bytes = self.meet(Deposit::empty(call))?.copy(root as usize);
            Ok(())
        }
    }

    fn gather(&self, root: u32, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        check::rank(root, self.size())?;
        let complete = self.meet(Deposit::bytes(CollectiveCall::Gather(root), bytes))?;
        let all = || (0..self.size() as usize).map(|from| complete.take(from, 0)).collect();
        Ok((self.rank() == root).then(all))
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let complete = self.meet(Deposit::bytes(CollectiveCall::AllGather, bytes))?;
        Ok((0..self.size() as usize).map(|from| complete.copy(from)).collect())
    }

    fn scatter(&self, root: u32, parts: Option<&[Vec<u8>]>) -> Result<Vec<u8>> {
        check::rank(root, self.size())?;
        let call = CollectiveCall::Scatter(root);
        let mut deposit = Deposit::empty(call);
        if self.rank() == root {
            let parts = parts.unwrap_or_default();
            match check::parts(parts.len(), self.size()) {
                Ok(()) => deposit = Deposit::parts(call, parts),
                Err(error) => deposit.refusal = Some((error.kind(), error.what().to_owned())),
            }
        }
        Ok(self.meet(deposit)?.take(root as usize, self.rank() as usize))
    }

    fn all_to_all(&self, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let mut deposit = Deposit::parts(CollectiveCall::AllToAll, parts);
        if let Err(error) = check::parts(parts.len(), self.size()) {
            deposit.refusal = Some((error.kind(), error.what().to_owned()));
        }
        let complete = self.meet(deposit)?;
        Ok((0..self.size() as usize).map(|from| complete.take(from, self.rank() as usize)).collect())
    }

    fn exclusive_scan(&self, value: u64) -> Result<u64> {
        let complete = self.meet(Deposit::numbers(CollectiveCall::Scan, &[value]))?;
        let lower = &complete.deposits[..self.rank() as usize];
        Ok(lower.iter().fold(0, |sum, deposit| sum.wrapping_add(deposit.numbers[0])))
    }

    fn all_reduce(&self, values: &[u64], how: Reduce) -> Result<Vec<u64>> {
        let complete = self.meet(Deposit::numbers(CollectiveCall::AllReduce(how, values.len()), values))?;
        let mut result = complete.deposits[0].numbers.clone();
        for deposit in &complete.deposits[1..] {
            for (so_far, value) in result.iter_mut().zip(&deposit.numbers) {
                *so_far = how.combine(*so_far, *value);
            }
        }
        Ok(result)
    }

    fn duplicate(&self) -> Result<Box<dyn Communicator>> {
        let seat = self.regroup(Deposit::numbers(CollectiveCall::Duplicate, &[0, 0]))?;
        Ok(self.boxed(self.needed(seat)?))
    }

    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        let deposit = match color {
            Some(color) => Deposit::numbers(CollectiveCall::Split, &[u64::from(color), u64::from(key)]),
            None => Deposit::empty(CollectiveCall::Split),
        };
        Ok(self.regroup(deposit)?.map(|seat| self.boxed(seat)))
    }

    fn split_by_node(&self) -> Result<Box<dyn Communicator>> {
        let node = self.group().world.node(self.group().members[self.rank() as usize]);
        let seat = self.regroup(Deposit::numbers(CollectiveCall::SplitByNode, &[u64::from(node), 0]))?;
        Ok(self.boxed(self.needed(seat)?))
    }

    fn shared_window(&self, bytes: u64) -> Result<Box<dyn SharedWindow>> {
        let world = &self.group().world;
        let mut deposit = Deposit::numbers(CollectiveCall::SharedWindow, &[0, 0]);
        match crate::zeroed(bytes) {
            Ok(part) => deposit.memory = Some(Arc::new(RwLock::new(part))),
            Err(error) => deposit.refusal = Some((error.kind(), error.what().to_owned())),
        }
        if self.group().members.iter().any(|m| world.node(*m) != world.node(self.group().members[0])) {
            let what = "a shared window over ranks of different nodes; split by node first".to_owned();
            deposit.refusal = Some((ErrorKind::InvalidArgument, what));
        }
        let complete = self.meet(deposit)?;
        let parts = complete.deposits.iter().filter_map(|d| d.memory.clone()).collect();
        let duplicate = self.regroup(Deposit::numbers(CollectiveCall::Duplicate, &[0, 0]))?;
        Ok(Box::new(Window {
            parts,
            comm: ThreadCommunicator::new(self.needed(duplicate)?, self.timeout, self.callers),
        }))
    }

    fn survivors(&self) -> Result<Box<dyn Communicator>> {
        Ok(self.boxed(self.group().rally(self.rank(), self.timeout)?))
    }
}

struct Window {
    parts: Vec<Arc<RwLock<Vec<u8>>>>,
    /// For the fences; its messages and calls never mix with others.
    comm: ThreadCommunicator,
}

impl SharedWindow for Window {
    fn length(&self, rank: u32) -> u64 {
        let part = self.parts.get(rank as usize);
        part.map_or(0, |part| part.read().len() as u64)
    }

    fn put(&self, rank: u32, offset: u64, bytes: &[u8]) -> Result<()> {
        check::rank(rank, self.comm.size())?;
        let mut part = self.parts[rank as usize].write();
        let range = check::window(rank, part.len() as u64, offset, bytes.len())?;
        part[range].copy_from_slice(bytes);
        Ok(())
    }

    fn get(&self, rank: u32, offset: u64, out: &mut [u8]) -> Result<()> {
        check::rank(rank, self.comm.size())?;
        let part = self.parts[rank as usize].read();
        let range = check::window(rank, part.len() as u64, offset, out.len())?;
        out.copy_from_slice(&part[range]);
        Ok(())
    }

    fn show(&self, offset: u64, length: u64, with: &mut dyn FnMut(&[u8])) -> Result<()> {
        let own = self.comm.rank();
        let part = self.parts[own as usize].read();
        let range = check::window(own, part.len() as u64, offset, check::count(length)?)?;
        with(&part[range]);
        Ok(())
    }

    fn fence(&self) -> Result<()> {
        self.comm.barrier()
    }
}
