//! The communicator, and collective calls of any length on top of MPI's.
//!
//! MPI requires all lengths in advance, as `int`. A gather, scatter or exchange is therefore one collective call with a small
//! piece per rank, `[length][the first bytes]`; the remaining bytes follow in direct messages. A broadcast starts with a larger
//! piece of the same form, and continues in chunks.

use crate::core::{Core, Started};
use crate::ffi::{Operation, RawComm};
use crate::window::{self, Windows};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use thalweg_comm::{Communicator, DEFAULT_TIMEOUT, Message, Reduce, Request, SharedWindow, ThreadLevel, check};
use thalweg_types::{Error, ErrorKind, Result};

/// Tag of messages inside collective calls, above all tags of the trait.
const INNER_TAG: u32 = check::TAG_LIMIT;
/// Bytes of the piece that every rank contributes to a gather, scatter or exchange.
const PIECE: usize = 256;
/// Bytes of the first piece of a broadcast.
const BROADCAST_PIECE: usize = 1024;
/// Most ranks whose numbers are combined by rank 0. A tree has fewer steps per rank, but with more ranks than cores each step
/// waits for the scheduler: 8 ranks on 2 cores take 20 us this way, and 45 us with MPI's reduction. MPI's scan goes from rank to
/// rank: in a small output of 8 ranks on 2 cores it took 300 us.
const FEW: u32 = 16;
/// Most bytes of one MPI call inside a longer collective call.
const CHUNK: u64 = 16 << 20;
/// In place of a length: this rank's arguments are invalid.
const REFUSED: u64 = u64::MAX;

/// A communicator of MPI, made by [`MpiCommunicator::from_raw`]. See the crate's page.
pub struct MpiCommunicator {
    core: Arc<Core>,
    windows: Windows,
    timeout: Duration,
}

/// The piece with the length of `bytes` and as many of them as fit.
fn piece(bytes: &[u8], piece_bytes: usize) -> Vec<u8> {
    let mut piece = Vec::with_capacity(piece_bytes);
    piece.extend((bytes.len() as u64).to_le_bytes());
    piece.extend(&bytes[..bytes.len().min(piece_bytes - 8)]);
    piece.resize(piece_bytes, 0);
    piece
}

fn refusal(piece_bytes: usize) -> Vec<u8> {
    let mut piece = REFUSED.to_le_bytes().to_vec();
    piece.resize(piece_bytes, 0);
    piece
}

/// The length in a piece, and the first bytes.
fn open(piece: &[u8]) -> (u64, &[u8]) {
    let (length, rest) = piece.split_first_chunk::<8>().expect("a piece begins with a length");
    let length = u64::from_le_bytes(*length);
    (length, &rest[..rest.len().min(usize::try_from(length).unwrap_or(rest.len()))])
}

fn fits(length: u64) -> bool {
    length <= (PIECE - 8) as u64
}

fn refused_by(rank: u32) -> Error {
    Error::reported(ErrorKind::InvalidArgument, rank, "a part for each rank is required")
}

impl MpiCommunicator {
    /// Wraps a communicator that no other code uses.
    ///
    /// # Errors
    /// `Unsupported` where MPI's largest tag is too small; errors of MPI.
    pub(crate) fn on(raw: RawComm) -> Result<MpiCommunicator> {
        let largest = raw.largest_tag()?;
        if (1..INNER_TAG).contains(&largest) {
            let what = format!("an MPI whose largest tag is {largest}; {INNER_TAG} is needed");
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        Ok(MpiCommunicator::new(raw, DEFAULT_TIMEOUT))
    }

    fn new(raw: RawComm, timeout: Duration) -> MpiCommunicator {
        MpiCommunicator { core: Core::new(raw), windows: Windows::default(), timeout }
    }

    fn collective(&self, what: &str, start: impl FnOnce(&RawComm) -> Result<Operation>) -> Result<crate::ffi::Buffers> {
        self.settle()?;
        self.core.collective(self.timeout, what, start)
    }

    /// Collective while the program's own communicator is in use: switches to a duplicate.
    ///
    /// # Errors
    /// `PeerLost`, `Timeout`; errors of MPI. Further collective calls then fail.
    pub(crate) fn settle(&self) -> Result<()> {
        match self.core.raw.is_unsettled() {
            true => self.reduce_and_settle(&[]).map(drop),
            false => Ok(()),
        }
    }

    /// Reduces `values` to their maxima on the program's own communicator, and switches to a duplicate: the cached one, if it is
    /// the same on all ranks, else a new one.
    fn reduce_and_settle(&self, values: &[u64]) -> Result<Vec<u64>> {
        let offer = self.core.raw.offer();
        // The maxima of a number and of its complement: both match on all ranks only if all numbers are equal.
        let numbers = [values, &[offer, !offer]].concat();
        let mut agreed =
            self.core.collective(self.timeout, "all_reduce", |raw| raw.all_reduce(&numbers, Reduce::Max))?.numbers_in;
        let offers = agreed.split_off(values.len());
        let same = offers == [offer, !offer];
        self.core.raw.settle(if same { offer } else { 0 }).map_err(|e| self.core.break_off(e))?;
        Ok(agreed)
    }

    /// Fails unless messages may be sent and received now.
    fn ready(&self) -> Result<()> {
        self.core.ready()?;
        match self.core.raw.is_unsettled() {
            false => Ok(()),
            true => {
                let what = "the first call on a program's communicator is one that all ranks make";
                Err(Error::new(ErrorKind::InvalidArgument, what).at_rank(self.rank()))
            }
        }
    }

    /// Waits for all ranks, with a timeout, then makes a call that blocks in MPI.
    fn make<T>(&self, what: &str, make: impl FnOnce(&RawComm) -> Result<T>) -> Result<T> {
        self.collective(what, RawComm::barrier)?;
        make(&self.core.raw).map_err(|e| self.core.break_off(e))
    }

    /// Most bytes of one MPI call.
    fn chunk(&self) -> usize {
        self.core.raw.library().large_bytes().clamp(1, CHUNK) as usize
    }

    /// Few ranks send numbers to rank 0 and get numbers back, as many as they sent.
    ///
    /// - `answers`: called on rank 0 with the numbers of all ranks, which it replaces by the answers.
    fn ask_first(&self, what: &str, values: &[u64], answers: impl FnOnce(&mut [Vec<u64>])) -> Result<Vec<u64>> {
        self.core.ready_for_all()?;
        let bytes = |numbers: &[u64]| -> Vec<u8> { numbers.iter().flat_map(|v| v.to_ne_bytes()).collect() };
        let numbers =
            |bytes: &[u8]| -> Vec<u64> { bytes.as_chunks().0.iter().map(|v| u64::from_ne_bytes(*v)).collect() };
        let own = bytes(values);
        let length = own.len() as u64;
        if self.rank() > 0 {
            let came = self.exchange(what, vec![(0, &own)], vec![(0, length)])?;
            return Ok(came.first().map_or(Vec::new(), |(_, bytes)| numbers(bytes)));
        }
        let mut all = vec![Vec::new(); self.size() as usize];
        all[0] = values.to_vec();
        for (rank, bytes) in self.exchange(what, Vec::new(), (1..self.size()).map(|rank| (rank, length)).collect())? {
            all[rank as usize] = numbers(&bytes);
        }
        answers(&mut all);
        let told: Vec<Vec<u8>> = all.iter().map(|answer| bytes(answer)).collect();
        self.exchange(what, (1..).zip(&told[1..]).map(|(rank, told)| (rank, &told[..])).collect(), Vec::new())?;
        Ok(all.swap_remove(0))
    }

    /// Sends and receives messages inside a collective call; `receives` has the lengths. Both lists are in an order that is
    /// consistent over the ranks, which prevents deadlocks.
    fn exchange(&self, what: &str, sends: Vec<(u32, &[u8])>, receives: Vec<(u32, u64)>) -> Result<Vec<(u32, Vec<u8>)>> {
        const RECEIVES_AT_ONCE: usize = 64;
        const BYTES_SENT_AT_ONCE: u64 = 64 << 20;
        let raw = &self.core.raw;
        let (mut sends, mut receives) = (sends.into_iter().peekable(), receives.into_iter());
        let mut sending: VecDeque<Operation> = VecDeque::new();
        let mut receiving: VecDeque<(u32, Operation)> = VecDeque::new();
        let mut came = Vec::new();
        let over = || Error::new(ErrorKind::Timeout, format!("{what}: not all bytes came within {:?}", self.timeout));
        let done = self.core.wait(self.timeout, over, || {
            while receiving.len() < RECEIVES_AT_ONCE {
                let Some((from, length)) = receives.next() else { break };
                receiving.push_back((from, raw.receive(from, INNER_TAG, length)?));
            }
            let mut under_way: u64 = sending.iter().map(Operation::outgoing_bytes).sum();
            while let Some((to, bytes)) = sends.next_if(|_| under_way < BYTES_SENT_AT_ONCE) {
                under_way += bytes.len() as u64;
                sending.push_back(raw.send(to, INNER_TAG, bytes.to_vec())?);
            }
            for _ in 0..receiving.len() {
                let Some((from, mut operation)) = receiving.pop_front() else { break };
                if operation.test()? {
                    came.push((from, operation.finish().incoming));
                } else {
                    receiving.push_back((from, operation));
                }
            }
            for _ in 0..sending.len() {
                let Some(mut operation) = sending.pop_front() else { break };
                if !operation.test()? {
                    sending.push_back(operation);
                }
            }
            Ok(sending.is_empty() && receiving.is_empty() && sends.peek().is_none() && receives.len() == 0)
        });
        done.map_err(|error| self.core.break_off(error))?;
        Ok(came)
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

struct Sending {
    core: Arc<Core>,
    timeout: Duration,
    to: u32,
    tag: u32,
    operation: Operation,
    given_up: bool,
}

impl Sending {
    fn finish(&mut self) -> Result<()> {
        let Sending { to, tag, timeout, .. } = *self;
        self.core.ready()?;
        let over = || {
            let what = format!("rank {to} did not take a message with tag {tag} within {timeout:?}");
            Error::new(ErrorKind::Timeout, what)
        };
        let done = self.core.wait(timeout, over, || self.operation.test());
        self.given_up = done.is_err();
        done
    }
}

impl Request for Sending {
    fn test(&mut self) -> Result<bool> {
        self.core.ready()?;
        self.operation.test()
    }

    fn wait(mut self: Box<Self>) -> Result<Option<Message>> {
        self.finish().map(|()| None)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        // Waits once; after a failure or a panic, the bytes stay allocated for MPI.
        if !self.given_up && !std::thread::panicking() {
            let _ = self.finish();
        }
    }
}

struct Receiving {
    timeout: Duration,
    started: Started,
    from: Option<u32>,
    tag: u32,
}

impl Request for Receiving {
    fn test(&mut self) -> Result<bool> {
        self.started.core.ready()?;
        self.started.core.poll(self.started.ticket)
    }

    fn wait(self: Box<Self>) -> Result<Option<Message>> {
        let core = &self.started.core;
        core.ready()?;
        let over = || thalweg_comm::no_message(self.from, self.tag, self.timeout);
        core.wait(self.timeout, over, || core.poll(self.started.ticket))?;
        let (from, bytes) = core.take(self.started.ticket)?;
        Ok(Some(Message { from, tag: self.tag, bytes }))
    }
}

impl Communicator for MpiCommunicator {
    fn rank(&self) -> u32 {
        self.core.raw.rank()
    }

    fn size(&self) -> u32 {
        self.core.raw.size()
    }

    fn thread_level(&self) -> ThreadLevel {
        match self.core.raw.library().thread_level() {
            0 => ThreadLevel::Single,
            1 => ThreadLevel::Funneled,
            2 => ThreadLevel::Serialized,
            _ => ThreadLevel::Multiple,
        }
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    fn send(&self, to: u32, tag: u32, bytes: &[u8]) -> Result<()> {
        self.start_send(to, tag, bytes.to_vec())?.wait().map(drop)
    }

    fn receive(&self, from: Option<u32>, tag: u32) -> Result<Message> {
        check::peer(from, self.size(), tag)?;
        self.ready()?;
        let ticket = self.core.post(from, tag);
        let over = || thalweg_comm::no_message(from, tag, self.timeout);
        let came = self.core.wait(self.timeout, over, || self.core.poll(ticket)).and_then(|()| self.core.take(ticket));
        if came.is_err() {
            self.core.withdraw(ticket);
        }
        came.map(|(from, bytes)| Message { from, tag, bytes })
    }

    fn start_send(&self, to: u32, tag: u32, bytes: Vec<u8>) -> Result<Box<dyn Request>> {
        check::peer(Some(to), self.size(), tag)?;
        self.ready()?;
        if to == self.rank() {
            self.core.deliver_to_self(tag, bytes);
            return Ok(Box::new(Sent));
        }
        let operation = self.core.raw.send(to, tag, bytes).map_err(|e| e.at_rank(self.rank()))?;
        let (core, timeout) = (self.core.clone(), self.timeout);
        Ok(Box::new(Sending { core, timeout, to, tag, operation, given_up: false }))
    }

    fn start_receive(&self, from: Option<u32>, tag: u32) -> Result<Box<dyn Request>> {
        check::peer(from, self.size(), tag)?;
        self.ready()?;
        let started = Started::new(&self.core, from, tag);
        Ok(Box::new(Receiving { timeout: self.timeout, started, from, tag }))
    }

    fn probe(&self, from: Option<u32>, tag: u32) -> Result<Option<(u32, u64)>> {
        check::peer(from, self.size(), tag)?;
        self.ready()?;
        self.core.peek(from, tag)
    }

    fn barrier(&self) -> Result<()> {
        self.collective("barrier", RawComm::barrier).map(drop)
    }

    fn broadcast(&self, root: u32, bytes: &mut Vec<u8>) -> Result<()> {
        check::rank(root, self.size())?;
        let is_root = self.rank() == root;
        let first = if is_root { piece(bytes, BROADCAST_PIECE) } else { vec![0; BROADCAST_PIECE] };
        let first = self.collective("broadcast", |raw| raw.broadcast(root, first))?.incoming;
        let (length, start) = open(&first);
        if !is_root {
            *bytes = start.to_vec();
        }
        let mut at = start.len() as u64;
        while at < length {
            let count = (length - at).min(self.chunk() as u64) as usize;
            let chunk = if is_root { bytes[at as usize..][..count].to_vec() } else { vec![0; count] };
            let chunk = self.collective("broadcast", |raw| raw.broadcast(root, chunk))?.incoming;
            if !is_root {
                bytes.extend(chunk);
            }
            at += count as u64;
        }
        Ok(())
    }

    fn gather(&self, root: u32, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        check::rank(root, self.size())?;
        let me = self.rank();
        let pieces = self.collective("gather", |raw| raw.gather(root, piece(bytes, PIECE)))?.incoming;
        if me != root {
            let long = !fits(bytes.len() as u64);
            self.exchange("gather", long.then_some((root, bytes)).into_iter().collect(), Vec::new())?;
            return Ok(None);
        }
        let mut all = Vec::with_capacity(self.size() as usize);
        let mut long = Vec::new();
        for (rank, piece) in (0..).zip(pieces.chunks_exact(PIECE)) {
            let (length, start) = open(piece);
            if rank != me && !fits(length) {
                long.push((rank, length));
            }
            all.push(if rank == me { bytes.to_vec() } else { start.to_vec() });
        }
        for (rank, bytes) in self.exchange("gather", Vec::new(), long)? {
            all[rank as usize] = bytes;
        }
        Ok(Some(all))
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let pieces = self.collective("all_gather", |raw| raw.all_gather(piece(bytes, PIECE)))?.incoming;
        let (lengths, mut all): (Vec<u64>, Vec<Vec<u8>>) =
            pieces.chunks_exact(PIECE).map(open).map(|(length, start)| (length, start.to_vec())).unzip();
        // The rest in rounds, from each rank as much as lets a round fit.
        let most = (self.chunk() as u64 / u64::from(self.size())).max(1);
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut at = (PIECE - 8) as u64;
        while at < longest {
            let counts: Vec<usize> = lengths.iter().map(|l| l.saturating_sub(at).min(most) as usize).collect();
            let own = &bytes[bytes.len().min(at as usize)..][..counts[self.rank() as usize]];
            let round = self.collective("all_gather", |raw| raw.all_gather_lengths(own.to_vec(), &counts))?.incoming;
            let mut rest = &round[..];
            for (bytes, count) in all.iter_mut().zip(counts) {
                let (own, others) = rest.split_at(count);
                bytes.extend(own);
                rest = others;
            }
            at += most;
        }
        Ok(all)
    }

    fn scatter(&self, root: u32, parts: Option<&[Vec<u8>]>) -> Result<Vec<u8>> {
        check::rank(root, self.size())?;
        let (me, size) = (self.rank(), self.size());
        let parts = if me == root { parts.unwrap_or_default() } else { &[] };
        let valid = me != root || parts.len() == size as usize;
        let pieces = match (me == root, valid) {
            (false, _) => Vec::new(),
            (true, true) => parts.iter().flat_map(|part| piece(part, PIECE)).collect(),
            (true, false) => refusal(PIECE).repeat(size as usize),
        };
        let own = self.collective("scatter", |raw| raw.scatter(root, pieces, PIECE))?.incoming;
        let (length, start) = open(&own);
        if !valid {
            return check::parts(parts.len(), size).map(|()| Vec::new()).map_err(|e| e.at_rank(me));
        }
        if length == REFUSED {
            return Err(refused_by(root).at_rank(me));
        }
        if me == root {
            let long = |(rank, part): (u32, &Vec<u8>)| rank != me && !fits(part.len() as u64);
            let sends = (0..).zip(parts).filter(|p| long(*p)).map(|(rank, part)| (rank, &part[..])).collect();
            self.exchange("scatter", sends, Vec::new())?;
            return Ok(parts[me as usize].clone());
        }
        if fits(length) {
            return Ok(start.to_vec());
        }
        let came = self.exchange("scatter", Vec::new(), vec![(root, length)])?;
        Ok(came.into_iter().next().map(|(_, bytes)| bytes).unwrap_or_default())
    }

    fn all_to_all(&self, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let (me, size) = (self.rank(), self.size());
        let valid = parts.len() == size as usize;
        let pieces = if valid {
            parts.iter().flat_map(|part| piece(part, PIECE)).collect()
        } else {
            refusal(PIECE).repeat(size as usize)
        };
        let pieces = self.collective("all_to_all", |raw| raw.all_to_all(pieces, PIECE))?.incoming;
        let opened: Vec<(u64, &[u8])> = pieces.chunks_exact(PIECE).map(open).collect();
        if !valid {
            return check::parts(parts.len(), size).map(|()| Vec::new()).map_err(|e| e.at_rank(me));
        }
        if let Some((rank, _)) = (0..).zip(&opened).find(|(_, (length, _))| *length == REFUSED) {
            return Err(refused_by(rank).at_rank(me));
        }
        // Step n sends to the rank n higher and receives from the rank n lower: the nth send of a rank is the nth receive of
        // another.
        let long = |rank: &u32, length: u64| *rank != me && !fits(length);
        let sends = (1..size).map(|step| (me + step) % size);
        let sends = sends.filter(|to| long(to, parts[*to as usize].len() as u64));
        let receives = (1..size).map(|step| (me + size - step) % size);
        let receives = receives.filter(|from| long(from, opened[*from as usize].0));
        let came = self.exchange(
            "all_to_all",
            sends.map(|to| (to, &parts[to as usize][..])).collect(),
            receives.map(|from| (from, opened[from as usize].0)).collect(),
        )?;
        let mut all: Vec<Vec<u8>> = opened.iter().map(|(_, start)| start.to_vec()).collect();
        all[me as usize] = parts[me as usize].clone();
        for (rank, bytes) in came {
            all[rank as usize] = bytes;
        }
        Ok(all)
    }

    fn exclusive_scan(&self, value: u64) -> Result<u64> {
        self.settle()?;
        if self.size() <= FEW {
            let sums = self.ask_first("exclusive_scan", &[value], |all| {
                let mut sum = 0_u64;
                for of_rank in all.iter_mut().flatten() {
                    let before = sum;
                    sum = sum.wrapping_add(std::mem::replace(of_rank, before));
                }
            })?;
            return Ok(sums[0]);
        }
        let sum = self.collective("exclusive_scan", |raw| raw.exclusive_scan(value))?.numbers_in[0];
        Ok(if self.rank() == 0 { 0 } else { sum })
    }

    fn all_reduce(&self, values: &[u64], how: Reduce) -> Result<Vec<u64>> {
        let most = (self.chunk() / 8).max(1);
        if self.core.raw.is_unsettled() && how == Reduce::Max && values.len() + 2 <= most {
            return self.reduce_and_settle(values);
        }
        self.settle()?;
        if self.size() <= FEW && values.len() <= PIECE / 8 {
            return self.ask_first("all_reduce", values, |all| {
                let combined = all.iter().skip(1).fold(values.to_vec(), |combined, of_rank| {
                    combined.iter().zip(of_rank).map(|(a, b)| how.combine(*a, *b)).collect()
                });
                all.fill(combined);
            });
        }
        let mut all = Vec::with_capacity(values.len());
        for chunk in values.chunks(most) {
            all.extend(self.collective("all_reduce", |raw| raw.all_reduce(chunk, how))?.numbers_in);
        }
        Ok(all)
    }

    fn duplicate(&self) -> Result<Box<dyn Communicator>> {
        let raw = self.make("duplicate", RawComm::duplicate)?;
        Ok(Box::new(MpiCommunicator::new(raw, self.timeout)))
    }

    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        // MPI's colors are not negative. Its keys are signed: the flipped top bit keeps the order of unsigned keys.
        let colors = self.all_reduce(&[color.map_or(0, u64::from)], Reduce::Max)?[0];
        if colors > i32::MAX as u64 {
            let what = format!("color {colors}; MPI's end at {}", i32::MAX);
            return Err(Error::new(ErrorKind::Unsupported, what).at_rank(self.rank()));
        }
        let color = color.map_or(-1, |color| color as i32);
        let raw = self.core.raw.split(color, (key ^ (1 << 31)) as i32).map_err(|e| self.core.break_off(e))?;
        Ok(raw.map(|raw| Box::new(MpiCommunicator::new(raw, self.timeout)) as Box<dyn Communicator>))
    }

    fn split_by_node(&self) -> Result<Box<dyn Communicator>> {
        let raw = self.make("split_by_node", RawComm::split_by_node)?;
        Ok(Box::new(MpiCommunicator::new(raw, self.timeout)))
    }

    fn shared_window(&self, bytes: u64) -> Result<Box<dyn SharedWindow>> {
        self.settle()?;
        Ok(Box::new(window::make(&self.core, &self.windows, bytes, self.timeout)?))
    }

    fn set_idle(&self) {
        self.core.raw.set_idle();
    }

    fn survivors(&self) -> Result<Box<dyn Communicator>> {
        if self.size() == 1 {
            return self.duplicate();
        }
        let what = "MPI cannot continue without a lost rank";
        Err(Error::new(ErrorKind::Unsupported, what).at_rank(self.rank()))
    }
}
