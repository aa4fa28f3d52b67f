//! The coordinator (rank 0) assigns writes to storage targets while data is written; the other ranks follow its orders.
//!
//! | message | to | content |
//! |---|---|---|
//! | order | a rank | write the group to a target and offset; the group is written; the group is lost, with the kind of error; stop, with the kind of error |
//! | report | rank 0 | of a target: written; abandoned; failed, with the kind of error; or the group cannot be written at all, with the kind of error |
//!
//! Every rank receives orders until a final order reports its process group as written or lost, so that no order is left in the queue for
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

/// An order to a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Write the rank's process group.
    Write {
        /// Storage target.
        target: u32,
        /// Offset in the target's subfile.
        offset: u64,
    },
    /// Final: the process group is written.
    Rests,
    /// Final: no target could take the process group.
    Lost {
        /// Kind of the last error.
        kind: ErrorKind,
        /// The rank that reported the error.
        by: u32,
    },
    /// Final: the coordinator failed.
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
    /// The group cannot be written to any target.
    Broken(ErrorKind),
}

/// A rank's connection to the coordinator.
pub trait Coordinator {
    /// The next order; `None` if `wait` is `false` and no order has arrived.
    ///
    /// # Errors
    /// `PeerLost`; `Timeout` if no message arrives within the communicator's timeout.
    fn next(&mut self, wait: bool) -> Result<Option<Order>>;

    /// Reports the outcome of a write to `target`.
    ///
    /// # Errors
    /// `PeerLost`, `Timeout`.
    fn tell(&mut self, target: u32, report: Report) -> Result<()>;
}

/// The connection of a rank other than rank 0.
pub struct Asks<'c> {
    comm: &'c dyn Communicator,
    token: Token,
}

/// Identifies the output of a message: run id and time index.
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

/// Decodes a message; `None` for a message of another output.
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

/// Sends stop orders to all other ranks: rank 0 cannot plan the output. Ranks without a process group ignore the order.
pub fn stop_all(comm: &dyn Communicator, run: u64, time_index: u32, why: ErrorKind) {
    let stop = encode(token(run, time_index), 3, 0, 0, why.code());
    for rank in (0..comm.size()).filter(|rank| *rank != comm.rank()) {
        // A failed send is ignored: a lost rank does not wait.
        let _ = comm.send(rank, tags::COORDINATOR_ORDER, &stop);
    }
}

/// The coordinator's connection on rank 0, which also follows its own orders.
pub struct Decides<'c> {
    comm: &'c dyn Communicator,
    token: Token,
    state: Option<State>,
    /// Rank of each group.
    ranks: Vec<u32>,
    /// Group of each rank.
    groups: HashMap<u32, u32>,
    /// Ranks without a final order.
    waiting: usize,
    /// Per group: whether the final order was sent.
    told: Vec<bool>,
    began: Instant,
    /// Time of the next check for stuck writes.
    wake: Option<f64>,
    own: VecDeque<Order>,
    /// Kind and rank of the last failed write.
    failed: (ErrorKind, u32),
    heard: Instant,
    nap: Duration,
    /// Profile span: waiting for the next report.
    waits: Option<Running>,
}

impl<'c> Decides<'c> {
    /// - `ranks`: rank of each group of `state`.
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

    /// Sends the first orders.
    ///
    /// # Errors
    /// `PeerLost`; all ranks have then been stopped.
    pub fn begin(&mut self) -> Result<()> {
        let outcome = self.happened(Event::Begin { now: self.now() });
        self.stop_if(outcome)
    }

    /// Handles reports until every rank has its final order.
    ///
    /// # Errors
    /// `PeerLost`; `Timeout` if no report arrives within the communicator's timeout. All ranks have then been stopped.
    pub fn finish(&mut self) -> Result<()> {
        while self.waiting > 0 {
            let outcome = self.pump(true);
            self.stop_if(outcome)?;
        }
        Ok(())
    }

    /// The planner's state, with the measured speed of targets.
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
                    // A failed send is ignored: a lost rank does not wait.
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
        let (state, decisions) = caught("choose the next writer", || Ok(next(state, event)))?;
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
                "{} ranks have not reported the outcome of their writes for {:?}",
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
