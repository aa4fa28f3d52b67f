//! State that the threads of one communicator share: presence, mailboxes, and the meetings that implement collective calls.
//!
//! In a collective call every rank deposits its part and waits until all parts are there; then each rank takes its own. A meeting
//! ends in the same way for every rank that came to it: with all parts, or with one failure.

use crate::in_calls;
use crate::inbox::Inbox;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};
use thalweg_types::mutex::{Condvar, Mutex, RwLock};
use thalweg_types::{Error, ErrorKind, Result};

/// Longest sleep of a rank between two moves of messages that its calls move.
const BETWEEN_MOVES: Duration = Duration::from_micros(200);

/// The end of a wait; `None` if the clock cannot represent it.
pub fn deadline(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// Waits for a change; `None` once the deadline has passed.
pub fn pause<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    deadline: Option<Instant>,
) -> (MutexGuard<'a, T>, bool) {
    // A rank that is waited for may itself wait for messages of this one.
    let moves = in_calls::is_needed();
    if moves {
        in_calls::move_messages();
    }
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    match (left, moves) {
        (None, false) => (changed.wait(guard), true),
        (Some(Duration::ZERO), _) => (guard, false),
        (left, true) => (changed.wait_timeout(guard, left.unwrap_or(BETWEEN_MOVES).min(BETWEEN_MOVES)).0, true),
        (Some(left), false) => (changed.wait_timeout(guard, left).0, true),
    }
}

/// Whether a rank can still take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Presence {
    /// Its handle exists.
    Here = 0,
    /// It dropped its handle of this communicator.
    Finished = 1,
    /// It panicked or left.
    Died = 2,
}

/// All ranks of one run, and every communicator made of them.
#[derive(Debug)]
pub struct World {
    pub ranks_per_node: u32,
    died: Mutex<Vec<bool>>,
    groups: Mutex<Vec<Weak<Group>>>,
    /// The rank whose panic was the first, not caused by another rank's.
    first_panic: OnceLock<u32>,
}

impl World {
    pub fn new(ranks: u32, ranks_per_node: u32) -> Arc<World> {
        let died = Mutex::new(vec![false; ranks as usize]);
        Arc::new(World { ranks_per_node, died, groups: Mutex::default(), first_panic: OnceLock::new() })
    }

    /// Records that a rank panics, before other ranks notice it.
    pub fn panics(&self, world_rank: u32) {
        self.first_panic.get_or_init(|| world_rank);
    }

    /// The rank that panicked first.
    pub fn first_panic(&self) -> Option<u32> {
        self.first_panic.get().copied()
    }

    /// Removes the rank from every communicator.
    pub fn leave(&self, world_rank: u32) {
        self.died.lock()[world_rank as usize] = true;
        let groups: Vec<_> = self.groups.lock().iter().filter_map(Weak::upgrade).collect();
        for group in groups {
            if let Some(rank) = group.members.iter().position(|m| *m == world_rank) {
                group.depart(rank as u32, Presence::Died);
            }
        }
    }

    pub fn node(&self, world_rank: u32) -> u32 {
        world_rank / self.ranks_per_node
    }
}

/// The messages of one rank in one communicator.
#[derive(Debug, Default)]
pub struct Mailbox {
    pub inbox: Mutex<Inbox<Vec<u8>>>,
    pub came: Condvar,
}

/// Which collective call, and its root: all ranks must make the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectiveCall {
    Barrier,
    Broadcast(u32),
    Gather(u32),
    AllGather,
    Scatter(u32),
    AllToAll,
    Scan,
    AllReduce(crate::Reduce, usize),
    Duplicate,
    Split,
    SplitByNode,
    SharedWindow,
}

/// The deposit of one rank in a meeting.
#[derive(Debug)]
pub struct Deposit {
    pub call: CollectiveCall,
    /// Each is taken by one rank or copied by many.
    pub parts: Vec<Mutex<Vec<u8>>>,
    pub numbers: Vec<u64>,
    pub memory: Option<Arc<RwLock<Vec<u8>>>>,
    /// An error of this rank, with which the meeting fails on all ranks.
    pub refusal: Option<(ErrorKind, String)>,
}

impl Deposit {
    pub fn empty(call: CollectiveCall) -> Deposit {
        Deposit { call, parts: Vec::new(), numbers: Vec::new(), memory: None, refusal: None }
    }

    pub fn bytes(call: CollectiveCall, bytes: &[u8]) -> Deposit {
        Deposit { parts: vec![Mutex::new(bytes.to_vec())], ..Deposit::empty(call) }
    }

    pub fn parts(call: CollectiveCall, parts: &[Vec<u8>]) -> Deposit {
        Deposit { parts: parts.iter().map(|p| Mutex::new(p.clone())).collect(), ..Deposit::empty(call) }
    }

    pub fn numbers(call: CollectiveCall, numbers: &[u64]) -> Deposit {
        Deposit { numbers: numbers.to_vec(), ..Deposit::empty(call) }
    }
}

/// A meeting to which all ranks came.
#[derive(Debug)]
pub struct Complete {
    pub deposits: Vec<Deposit>,
    seats: OnceLock<Mutex<Vec<Option<Seat>>>>,
}

impl Complete {
    /// Takes the part that `from` deposited for one rank alone.
    pub fn take(&self, from: usize, part: usize) -> Vec<u8> {
        std::mem::take(&mut self.deposits[from].parts[part].lock())
    }

    /// Copies the part that `from` deposited for all ranks.
    pub fn copy(&self, from: usize) -> Vec<u8> {
        self.deposits[from].parts[0].lock().clone()
    }

    /// This rank's seat in the communicators created by the meeting; the first caller creates them for all.
    pub fn seat(&self, rank: u32, make: impl FnOnce(&[Deposit]) -> Vec<Option<Seat>>) -> Option<Seat> {
        self.seats.get_or_init(|| Mutex::new(make(&self.deposits))).lock()[rank as usize].take()
    }
}

#[derive(Debug, Clone)]
struct Failure {
    kind: ErrorKind,
    what: String,
    by: Option<u32>,
}

impl Failure {
    fn error(&self, rank: u32) -> Error {
        let error = match self.by {
            Some(by) if by != rank => Error::reported(self.kind, by, self.what.clone()),
            _ => Error::new(self.kind, self.what.clone()),
        };
        error.at_rank(rank)
    }
}

#[derive(Debug)]
struct Meeting {
    deposits: Vec<Option<Deposit>>,
    arrived: usize,
    left: usize,
    outcome: Option<std::result::Result<Arc<Complete>, Failure>>,
}

impl Meeting {
    fn new(size: usize) -> Meeting {
        Meeting { deposits: (0..size).map(|_| None).collect(), arrived: 0, left: 0, outcome: None }
    }

    fn fail(&mut self, failure: Failure) {
        for deposit in &mut self.deposits {
            *deposit = None;
        }
        self.outcome = Some(Err(failure));
    }

    /// All ranks are present: computes the outcome.
    fn conclude(&mut self) {
        let deposits: Vec<Deposit> = self.deposits.iter_mut().filter_map(Option::take).collect();
        let refused = deposits.iter().enumerate().find_map(|(rank, d)| Some((rank, d.refusal.clone()?)));
        let odd = deposits.iter().position(|d| d.call != deposits[0].call);
        self.outcome = Some(match (odd, refused) {
            (Some(odd), _) => Err(Failure {
                kind: ErrorKind::InvalidArgument,
                what: format!(
                    "ranks made different collective calls: rank 0 {:?}, rank {odd} {:?}",
                    deposits[0].call, deposits[odd].call
                ),
                by: None,
            }),
            (None, Some((rank, (kind, what)))) => Err(Failure { kind, what, by: Some(rank as u32) }),
            (None, None) => Ok(Arc::new(Complete { deposits, seats: OnceLock::new() })),
        });
    }
}

#[derive(Debug, Default)]
struct State {
    /// By number: a fast rank may be one call ahead of a slow one.
    meetings: HashMap<u64, Meeting>,
    /// Survivors that have come so far; empty while no rank gathers them.
    rally: Vec<bool>,
    rally_number: u64,
    /// Seats of finished rallies that were not taken yet, by number.
    rallied: HashMap<u64, Vec<Option<Seat>>>,
}

/// One communicator, shared by all its ranks.
#[derive(Debug)]
pub struct Group {
    pub world: Arc<World>,
    /// World rank of each rank.
    pub members: Vec<u32>,
    pub mailboxes: Vec<Mailbox>,
    presence: Vec<AtomicU8>,
    /// Set once survivors gather: all other waits end.
    revoked: AtomicU8,
    state: Mutex<State>,
    changed: Condvar,
}

impl Group {
    /// Creates a communicator of these ranks, and a seat for each.
    pub fn seats(world: &Arc<World>, members: Vec<u32>) -> Vec<Seat> {
        let size = members.len();
        let group = Arc::new(Group {
            world: Arc::clone(world),
            members,
            mailboxes: (0..size).map(|_| Mailbox::default()).collect(),
            presence: (0..size).map(|_| AtomicU8::new(Presence::Here as u8)).collect(),
            revoked: AtomicU8::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        {
            let mut groups = world.groups.lock();
            if groups.len().is_power_of_two() {
                groups.retain(|g| g.strong_count() > 0);
            }
            groups.push(Arc::downgrade(&group));
        }
        let died = world.died.lock().clone();
        for (rank, member) in group.members.iter().enumerate() {
            if died[*member as usize] {
                group.depart(rank as u32, Presence::Died);
            }
        }
        (0..size as u32).map(|rank| Seat { group: Arc::clone(&group), rank }).collect()
    }

    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    pub fn presence(&self, rank: u32) -> Presence {
        match self.presence[rank as usize].load(Ordering::SeqCst) {
            0 => Presence::Here,
            1 => Presence::Finished,
            _ => Presence::Died,
        }
    }

    fn gone(&self) -> Option<u32> {
        (0..self.size()).find(|r| self.presence(*r) != Presence::Here)
    }

    /// Marks a rank as gone and wakes all that may wait for it.
    fn depart(&self, rank: u32, how: Presence) {
        if self.presence[rank as usize].fetch_max(how as u8, Ordering::SeqCst) >= how as u8 {
            return;
        }
        let mut state = self.state.lock();
        for meeting in state.meetings.values_mut() {
            if meeting.outcome.is_none() && meeting.deposits[rank as usize].is_none() {
                meeting.fail(self.lost(rank));
            }
        }
        self.conclude_rally(&mut state);
        self.changed.notify_all();
        drop(state);
        self.wake_receivers();
    }

    fn wake_receivers(&self) {
        for mailbox in &self.mailboxes {
            // With the lock, a receiver cannot start to wait between its check and this notification.
            drop(mailbox.inbox.lock());
            mailbox.came.notify_all();
        }
    }

    fn lost(&self, rank: u32) -> Failure {
        let how = match self.presence(rank) {
            Presence::Died => "died",
            _ => "has let go of this communicator",
        };
        Failure { kind: ErrorKind::PeerLost, what: format!("rank {rank} {how}"), by: None }
    }

    /// The error of a receive from `from` that cannot complete. A message that has arrived is received all the same.
    pub fn hopeless(&self, me: u32, from: Option<u32>) -> Result<()> {
        if self.revoked.load(Ordering::SeqCst) != 0 {
            let what = "a rank was lost, and the survivors are gathering a communicator of their own";
            return Err(Error::new(ErrorKind::PeerLost, what).at_rank(me));
        }
        let lost = match from {
            Some(from) => (self.presence(from) != Presence::Here).then_some(from),
            // Another rank may still send, unless all others are gone.
            None => {
                let died = (0..self.size()).find(|r| self.presence(*r) == Presence::Died);
                let nobody = (0..self.size()).all(|r| r == me || self.presence(r) != Presence::Here);
                died.or(if nobody && self.size() > 1 { self.gone() } else { None })
            }
        };
        lost.map_or(Ok(()), |rank| Err(self.lost(rank).error(me)))
    }

    /// Delivers a message.
    pub fn deliver(&self, from: u32, to: u32, tag: u32, bytes: Vec<u8>) -> Result<()> {
        self.here(from)?;
        if self.presence(to) != Presence::Here {
            return Err(self.lost(to).error(from));
        }
        let mailbox = &self.mailboxes[to as usize];
        mailbox.inbox.lock().arrive(from, tag, bytes);
        mailbox.came.notify_all();
        Ok(())
    }

    /// A rank that has left can make no further calls.
    pub fn here(&self, rank: u32) -> Result<()> {
        match self.presence(rank) {
            Presence::Here => Ok(()),
            _ => Err(Error::new(ErrorKind::PeerLost, "this rank has left the run").at_rank(rank)),
        }
    }

    /// One collective call, the `number`th of this rank.
    pub fn meet(&self, rank: u32, number: u64, timeout: Duration, deposit: Deposit) -> Result<Arc<Complete>> {
        self.here(rank)?;
        let deadline = deadline(timeout);
        let size = self.members.len();
        let call = deposit.call;
        let mut state = self.state.lock();
        let meeting = state.meetings.entry(number).or_insert_with(|| Meeting::new(size));
        if meeting.outcome.is_none() {
            meeting.deposits[rank as usize] = Some(deposit);
            meeting.arrived += 1;
            if meeting.arrived == size {
                meeting.conclude();
                self.changed.notify_all();
            } else if let Some(lost) = (0..size as u32)
                .find(|r| meeting.deposits[*r as usize].is_none() && self.presence(*r) != Presence::Here)
            {
                meeting.fail(self.lost(lost));
                self.changed.notify_all();
            }
        }
        loop {
            let Some(meeting) = state.meetings.get_mut(&number) else {
                unreachable!("a meeting stays until every rank has left it")
            };
            if let Some(outcome) = &meeting.outcome {
                let outcome = outcome.clone();
                meeting.left += 1;
                if meeting.left == size {
                    state.meetings.remove(&number);
                }
                return outcome.map_err(|failure| failure.error(rank));
            }
            let waiting;
            (state, waiting) = pause(&self.changed, state, deadline);
            if !waiting && let Some(meeting) = state.meetings.get_mut(&number).filter(|m| m.outcome.is_none()) {
                let missing: Vec<_> = (0..size).filter(|r| meeting.deposits[*r].is_none()).collect();
                let what = format!("{call:?}: {} did not come within {timeout:?}", named(&missing));
                meeting.fail(Failure { kind: ErrorKind::Timeout, what, by: Some(rank) });
                self.changed.notify_all();
            }
        }
    }

    /// Gathers the remaining ranks.
    pub fn rally(&self, rank: u32, timeout: Duration) -> Result<Seat> {
        self.here(rank)?;
        let deadline = deadline(timeout);
        let mut state = self.state.lock();
        if let Some(lost) = self.gone()
            && self.revoked.swap(1, Ordering::SeqCst) == 0
        {
            for meeting in state.meetings.values_mut().filter(|m| m.outcome.is_none()) {
                meeting.fail(self.lost(lost));
            }
            self.changed.notify_all();
            drop(state);
            self.wake_receivers();
            state = self.state.lock();
        }
        let number = state.rally_number;
        state.rally.resize(self.members.len(), false);
        state.rally[rank as usize] = true;
        self.conclude_rally(&mut state);
        loop {
            if let Some(seats) = state.rallied.get_mut(&number) {
                let seat = seats[rank as usize].take();
                if seats.iter().all(Option::is_none) {
                    state.rallied.remove(&number);
                }
                return seat.ok_or_else(|| Error::new(ErrorKind::PeerLost, "the others went on without this rank"));
            }
            let waiting;
            (state, waiting) = pause(&self.changed, state, deadline);
            if !waiting && !state.rallied.contains_key(&number) {
                if let Some(here) = state.rally.get_mut(rank as usize) {
                    *here = false;
                }
                let what = format!("survivors: not all that are left came within {timeout:?}");
                return Err(Error::new(ErrorKind::Timeout, what).at_rank(rank));
            }
        }
    }

    fn conclude_rally(&self, state: &mut State) {
        let here = &state.rally;
        let all_came = |r: u32| here[r as usize] || self.presence(r) != Presence::Here;
        if here.is_empty() || !(0..self.size()).all(all_came) {
            return;
        }
        let left: Vec<u32> =
            (0..self.size()).filter(|r| here[*r as usize] && self.presence(*r) == Presence::Here).collect();
        let members = left.iter().map(|r| self.members[*r as usize]).collect();
        let mut seats: Vec<Option<Seat>> = (0..self.size()).map(|_| None).collect();
        for (rank, seat) in left.iter().zip(Group::seats(&self.world, members)) {
            seats[*rank as usize] = Some(seat);
        }
        state.rallied.insert(state.rally_number, seats);
        state.rally_number += 1;
        state.rally.clear();
        self.changed.notify_all();
    }
}

fn named(ranks: &[usize]) -> String {
    let shown: Vec<_> = ranks.iter().take(5).map(usize::to_string).collect();
    let more = ranks.len() - shown.len();
    let plural = if ranks.len() == 1 { "rank" } else { "ranks" };
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{plural} {}{tail}", shown.join(", "))
}

/// The seat of one rank in one communicator; dropping it removes the rank from the communicator.
#[derive(Debug)]
pub struct Seat {
    pub group: Arc<Group>,
    pub rank: u32,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let how = if std::thread::panicking() { Presence::Died } else { Presence::Finished };
        if how == Presence::Died {
            self.group.world.panics(self.group.members[self.rank as usize]);
        }
        self.group.depart(self.rank, how);
    }
}
