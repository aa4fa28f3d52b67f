//! Who writes where next: rank 0 decides while data is written, the other ranks ask.
//!
//! | message | to | says |
//! |---|---|---|
//! | order | a rank | write your group there; it rests; it is lost, and why; stop, a rank was lost |
//! | report | rank 0 | written there; left to itself there; failed there, and why; cannot be written at all, and why |
//!
//! Every rank receives orders until one says that its process group is written or lost, so that no order is left in the queue for
//! the next output. Rank 0 decides with [`next`], a pure function of the state and the event.

use crate::plan::adaptive::{Decision, Event, State, next};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};
use thalweg_bp::wire::{Cursor, Put};
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_comm::tags;
use thalweg_profile::recorder::Running;
use thalweg_profile::{Phase, span};
use thalweg_types::{ByteOrder, Error, ErrorKind, Result};

/// Shortest and longest sleep while waiting for reports.
const NAPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_micros(500));

/// What a rank is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Write its group.
    Write {
        /// Where to.
        target: u32,
        /// First byte.
        offset: u64,
    },
    /// Done: the process group was written at its target.
    Rests,
    /// Nothing more: no target could take its group.
    Lost {
        /// Why.
        kind: ErrorKind,
        /// Who saw that.
        by: u32,
    },
    /// Nothing more: whoever decides cannot go on.
    Stop(ErrorKind),
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// It succeeded.
    Wrote,
    /// It was abandoned: it may still end, without effect.
    Left,
    /// It failed.
    Failed(ErrorKind),
    /// It cannot be tried, here or elsewhere.
    Broken(ErrorKind),
}

/// A rank's connection to the coordinator.
pub trait Coordinator {
    /// The next order; `None` where there is none yet and `wait` is `false`.
    ///
    /// # Errors
    /// `PeerLost`; `Timeout` where no message came within the communicator's timeout.
    fn next(&mut self, wait: bool) -> Result<Option<Order>>;

    /// Reports the outcome of a write to `target`.
    ///
    /// # Errors
    /// `PeerLost`, `Timeout`.
    fn tell(&mut self, target: u32, report: Report) -> Result<()>;
}

/// A rank that asks rank 0.
pub struct Asks<'c> {
    comm: &'c dyn Communicator,
    token: Token,
}

/// A number that tells messages of one output from those of another.
type Token = [u8; 12];

fn token(run: u64, time_index: u32) -> Token {
    let mut token = [0; 12];
    token[..8].copy_from_slice(&run.to_le_bytes());
    token[8..].copy_from_slice(&time_index.to_le_bytes());
    token
}

fn encode(token: Token, what: u8, target: u32, offset: u64, kind: u8) -> Vec<u8> {
    let mut out = token.to_vec();
    out.put_u8(what);
    out.put_u32(target);
    out.put_u64(offset);
    out.put_u8(kind);
    out
}

/// `None` for one of another output.
fn decode(token: Token, bytes: &[u8]) -> Result<Option<(u8, u32, u64, ErrorKind)>> {
    let mut c = Cursor::new(bytes, ByteOrder::NATIVE, 0);
    if c.take(12, "output")? != token {
        return Ok(None);
    }
    let (what, target, offset) = (c.u8("message")?, c.u32("target")?, c.u64("place")?);
    Ok(Some((what, target, offset, ErrorKind::from_code(c.u8("kind")?))))
}

impl<'c> Asks<'c> {
    /// - `run`, `time_index`: of the output.
    pub fn new(comm: &'c dyn Communicator, run: u64, time_index: u32) -> Asks<'c> {
        Asks { comm, token: token(run, time_index) }
    }
}

impl Coordinator for Asks<'_> {
    fn next(&mut self, wait: bool) -> Result<Option<Order>> {
        while wait || self.comm.probe(Some(0), tags::COORDINATOR_ORDER)?.is_some() {
            let message = self.comm.receive(Some(0), tags::COORDINATOR_ORDER)?;
            let Some((what, target, offset, kind)) = decode(self.token, &message.bytes)? else { continue };
            return Ok(Some(match what {
                0 => Order::Write { target, offset },
                1 => Order::Rests,
                2 => Order::Lost { kind, by: target },
                _ => Order::Stop(kind),
            }));
        }
        Ok(None)
    }

    fn tell(&mut self, target: u32, report: Report) -> Result<()> {
        let (what, kind) = match report {
            Report::Wrote => (0, 0),
            Report::Left => (1, 0),
            Report::Failed(kind) => (2, kind.code()),
            Report::Broken(kind) => (3, kind.code()),
        };
        self.comm.send(0, tags::COORDINATOR_REPORT, &encode(self.token, what, target, 0, kind))
    }
}

/// Tells all other ranks that no order will come: rank 0 cannot decide. Ranks that wait for none pass over it.
pub fn stop_all(comm: &dyn Communicator, run: u64, time_index: u32, why: ErrorKind) {
    let stop = encode(token(run, time_index), 3, 0, 0, why.code());
    for rank in (0..comm.size()).filter(|rank| *rank != comm.rank()) {
        // A lost rank waits for nothing.
        let _ = comm.send(rank, tags::COORDINATOR_ORDER, &stop);
    }
}

/// Rank 0, which decides, and takes its own orders from itself.
pub struct Decides<'c> {
    comm: &'c dyn Communicator,
    token: Token,
    state: Option<State>,
    /// By group, whose it is.
    ranks: Vec<u32>,
    groups: HashMap<u32, u32>,
    /// Ranks that wait for the end of their group.
    waiting: usize,
    told: Vec<bool>,
    began: Instant,
    wake: Option<f64>,
    own: VecDeque<Order>,
    /// Why a write failed, and whose: the last one.
    failed: (ErrorKind, u32),
    heard: Instant,
    nap: Duration,
    /// For the profile: waiting for whoever is heard next.
    waits: Option<Running>,
}

impl<'c> Decides<'c> {
    /// - `ranks`: by group of `state`, the rank that has it.
    pub fn new(comm: &'c dyn Communicator, run: u64, time_index: u32, state: State, ranks: Vec<u32>) -> Decides<'c> {
        Decides {
            comm,
            token: token(run, time_index),
            state: Some(state),
            groups: (0..).zip(&ranks).map(|(group, rank)| (*rank, group)).collect(),
            waiting: ranks.len(),
            told: vec![false; ranks.len()],
            ranks,
            began: Instant::now(),
            wake: None,
            own: VecDeque::new(),
            failed: (ErrorKind::Io, 0),
            heard: Instant::now(),
            nap: NAPS.0,
            waits: None,
        }
    }

    /// Tells the first ranks what to write.
    ///
    /// # Errors
    /// A lost rank.
    pub fn begin(&mut self) -> Result<()> {
        let outcome = self.happened(Event::Begin { now: self.now() });
        self.stop_if(outcome)
    }

    /// Goes on until every rank knows the end of its group. Returns what was learnt.
    ///
    /// # Errors
    /// A lost rank; `Timeout` where one says nothing any more.
    pub fn finish(&mut self) -> Result<()> {
        while self.waiting > 0 {
            let outcome = self.pump(true);
            self.stop_if(outcome)?;
        }
        Ok(())
    }

    /// What was learnt of targets.
    pub fn into_state(self) -> Option<State> {
        self.state
    }

    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// After a failure of rank 0, stops all ranks that still wait for orders.
    fn stop_if<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if let Err(e) = &outcome {
            for group in 0..self.ranks.len() {
                if !std::mem::replace(&mut self.told[group], true) && self.ranks[group] != self.comm.rank() {
                    // Whoever is lost does not wait.
                    let stop = encode(self.token, 3, 0, 0, e.kind().code());
                    let _ = self.comm.send(self.ranks[group], tags::COORDINATOR_ORDER, &stop);
                }
            }
            self.waiting = 0;
            self.waits = None;
        }
        outcome
    }

    fn order(&mut self, group: u32, order: Order) -> Result<()> {
        let Some(rank) = self.ranks.get(group as usize).copied() else { return Ok(()) };
        if !matches!(order, Order::Write { .. }) {
            if std::mem::replace(&mut self.told[group as usize], true) {
                return Ok(());
            }
            self.waiting -= 1;
        }
        if rank == self.comm.rank() {
            self.own.push_back(order);
            return Ok(());
        }
        let message = match order {
            Order::Write { target, offset } => encode(self.token, 0, target, offset, 0),
            Order::Rests => encode(self.token, 1, 0, 0, 0),
            Order::Lost { kind, by } => encode(self.token, 2, by, 0, kind.code()),
            Order::Stop(kind) => encode(self.token, 3, 0, 0, kind.code()),
        };
        self.comm.send(rank, tags::COORDINATOR_ORDER, &message)
    }

    fn happened(&mut self, event: Event) -> Result<()> {
        let Some(state) = self.state.take() else { return Ok(()) };
        let (state, decisions) = caught("decide who writes next", || Ok(next(state, event)))?;
        self.state = Some(state);
        for decision in decisions {
            match decision {
                Decision::Write { group, target, offset } => self.order(group, Order::Write { target, offset })?,
                Decision::Wake { at } => self.wake = Some(at),
                Decision::Lost { group } => {
                    let (kind, by) = self.failed;
                    self.order(group, Order::Lost { kind, by })?;
                }
                Decision::Done => {}
            }
        }
        Ok(())
    }

    fn reported(&mut self, rank: u32, target: u32, report: Report) -> Result<()> {
        let Some(group) = self.groups.get(&rank).copied() else { return Ok(()) };
        (self.heard, self.nap) = (Instant::now(), NAPS.0);
        let now = self.now();
        if let Report::Failed(kind) | Report::Broken(kind) = report {
            self.failed = (kind, rank);
        }
        match report {
            Report::Wrote => {
                self.happened(Event::Wrote { group, target, now })?;
                self.order(group, Order::Rests)
            }
            Report::Left => self.happened(Event::Left { group, target, now }),
            Report::Failed(_) => self.happened(Event::Failed { group, target, now }),
            Report::Broken(_) => self.happened(Event::Broken { group, now }),
        }
    }

    /// Receives reports, and checks periodically for stuck writes.
    fn pump(&mut self, wait: bool) -> Result<()> {
        let mut heard = false;
        while let Some((from, _)) = self.comm.probe(None, tags::COORDINATOR_REPORT)? {
            if let Some(mut waits) = self.waits.take() {
                waits.with(from);
            }
            let message = self.comm.receive(Some(from), tags::COORDINATOR_REPORT)?;
            let Some((what, target, _, kind)) = decode(self.token, &message.bytes)? else { continue };
            heard = true;
            let report = match what {
                0 => Report::Wrote,
                1 => Report::Left,
                2 => Report::Failed(kind),
                _ => Report::Broken(kind),
            };
            self.reported(from, target, report)?;
        }
        if self.wake.is_some_and(|at| at <= self.now()) {
            self.wake = None;
            self.happened(Event::Tick { now: self.now() })?;
        }
        if self.heard.elapsed() > self.comm.timeout() {
            let what = format!(
                "{} ranks have not said for {:?} what became of their writes",
                self.waiting,
                self.heard.elapsed()
            );
            return Err(Error::new(ErrorKind::Timeout, what));
        }
        if wait && !heard && self.waiting > 0 && self.own.is_empty() {
            self.waits.get_or_insert_with(|| span(Phase::Wait, 0));
            std::thread::sleep(self.nap);
            self.nap = (2 * self.nap).min(NAPS.1);
        } else {
            self.waits = None;
        }
        Ok(())
    }
}

impl Coordinator for Decides<'_> {
    fn next(&mut self, wait: bool) -> Result<Option<Order>> {
        loop {
            let outcome = self.pump(wait);
            self.stop_if(outcome)?;
            let order = self.own.pop_front();
            if order.is_some() || !wait {
                return Ok(order);
            }
        }
    }

    fn tell(&mut self, target: u32, report: Report) -> Result<()> {
        let outcome = self.reported(self.comm.rank(), target, report);
        self.stop_if(outcome)
    }
}
