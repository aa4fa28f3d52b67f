//! The message exchange of a two-phase output: process groups travel to the aggregators of their stripes, with a bounded number
//! of bytes in flight.
//!
//! | message | from | to | content |
//! |---|---|---|---|
//! | part | a rank with bytes in a domain | the domain's aggregator | the extent of these bytes |
//! | call | the aggregator | such a rank | an extent to send now; if both share memory ([`crate::nodes::memory`]), the offset there |
//! | data | the rank | the aggregator | the bytes, or that they are in the shared memory, or the kind of error |
//! | done | the aggregator | the rank | its bytes are written, or the kind of error |
//!
//! An aggregator requests two windows of its domain at a time and writes one while the other fills. Every rank answers each
//! message as it arrives, also while it waits for another one, so that the exchange cannot deadlock. A rank sends bytes only on
//! request: an aggregator never holds more than its two windows.

use crate::buffer::grow;
use crate::nodes::memory::NodeMemory;
use crate::pack::{Laid, reserve};
use crate::plan::domains::{self, Domains};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::IoSlice;
use thalweg_bp::wire::{Cursor, Put};
use thalweg_comm::guarded::caught;
use thalweg_comm::{Communicator, Message, tags};
use thalweg_layout::WriteObject;
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

/// Bytes of a message's header.
const HEAD: usize = 18;

const PART: u8 = 1;
const CALL: u8 = 2;
const DATA: u8 = 3;
const DONE: u8 = 4;

/// In a call, instead of an offset: send the bytes in a message.
const SEND: u64 = u64::MAX;

/// One rank's view of an exchange.
pub struct Exchange<'x> {
    /// The output's communicator.
    pub comm: &'x dyn Communicator,
    /// The domains and their aggregators.
    pub domains: Domains,
    /// Ranks of the aggregators.
    pub aggregators: &'x [u32],
    /// The extent of this rank's process group; its length is 0 without a group.
    pub place: Extent,
    /// The process group.
    pub group: Option<&'x Laid<'x>>,
    /// The output file; `Some` on aggregators.
    pub object: Option<&'x dyn WriteObject>,
    /// Bytes that an aggregator requests at a time; it holds two windows.
    pub window: u64,
    /// Most bytes of a message, and of one copy out of a spill file.
    pub piece: u64,
    /// Shared with the ranks of this node; an aggregator's part has two windows.
    pub memory: Option<&'x NodeMemory>,
    /// Closes the file, durably if the output is durable, before the aggregator reports outcomes.
    pub end: &'x dyn Fn() -> Result<()>,
}

/// The outcome of an exchange on one rank.
pub struct Exchanged {
    /// Outcome of writing this rank's process group.
    pub own: Result<()>,
    /// Outcome of writing other ranks' bytes on this aggregator.
    pub others: Result<()>,
    /// Most bytes of other ranks that this aggregator held or had requested at one time.
    pub peak_bytes: u64,
}

/// A rank with bytes in the domain.
struct Sender {
    rank: u32,
    extent: Extent,
    failed: Option<ErrorKind>,
}

/// The bytes that one rank contributes to a window.
struct Contribution {
    sender: usize,
    extent: Extent,
    state: State,
}

enum State {
    /// This rank's own bytes.
    Own,
    /// Requested; `put`: through the shared memory.
    Called { put: bool },
    /// Received: the whole message, with its header.
    Here(Vec<u8>),
    /// In the window's part of the shared memory.
    Put,
    /// The sender failed to read them, or this rank dropped them.
    Missing,
}

struct Window {
    extent: Extent,
    pieces: Vec<Contribution>,
    /// Offset of the window in this rank's part of the shared memory.
    room: u64,
}

impl Window {
    fn is_full(&self) -> bool {
        !self.pieces.iter().any(|p| matches!(p.state, State::Called { .. }))
    }
}

/// An aggregator's work.
struct Duty<'o> {
    object: &'o dyn WriteObject,
    domain: Extent,
    /// Sorted by offset once all are known.
    senders: Vec<Sender>,
    /// Bytes of the domain without a known sender.
    unknown: u64,
    /// First byte that was not requested.
    next: u64,
    windows: VecDeque<Window>,
    /// Offset of the next window in this rank's part of the shared memory.
    room: u64,
    /// Most bytes of other ranks in the windows at one time.
    peak_bytes: u64,
    /// First byte that may not be written, and the error.
    failed: Option<(u64, Error)>,
}

fn message(kind: u8, code: u8, extent: Extent) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD);
    bytes.put_u8(kind);
    bytes.put_u8(code);
    bytes.put_u64(extent.offset);
    bytes.put_u64(extent.length);
    bytes
}

fn unexpected(from: u32) -> Error {
    Error::new(ErrorKind::Corrupt, format!("rank {from} sent a message that this rank did not expect"))
}

fn no_group() -> Error {
    Error::new(ErrorKind::InvalidArgument, "no process group")
}

/// A second error of the same kind and text: errors are not `Clone`.
fn again(e: &Error) -> Error {
    Error::new(e.kind(), e.what())
}

impl Exchange<'_> {
    /// Collective: returns when the outcomes of this rank's bytes and of its domain are known.
    ///
    /// # Errors
    /// `PeerLost`; `Timeout` if a rank does not answer; `Corrupt` for an unexpected message.
    pub fn run(&self) -> Result<Exchanged> {
        let me = self.comm.rank();
        let place = self.aggregators.iter().position(|rank| *rank == me);
        let number = place.and_then(|place| self.domains.number_of(place as u32));
        let mut duty = match (number, self.object) {
            (Some(number), Some(object)) => Some(Duty::of(object, self.domains.domain(number))),
            _ => None,
        };
        let mut own = Ok(());
        let mut waiting = 0;
        for number in self.domains.met(self.place) {
            let part = domains::shared_part(self.place, self.domains.domain(number));
            match self.writer(number) {
                to if to == me => duty.iter_mut().try_for_each(|duty| self.heard(duty, me, part))?,
                to => {
                    self.comm.send(to, tags::EXCHANGE, &message(PART, 0, part))?;
                    waiting += 1;
                }
            }
        }
        loop {
            if let Some(busy) = duty.as_mut().filter(|duty| duty.unknown == 0) {
                while busy.windows.front().is_some_and(Window::is_full)
                    && let Some(window) = busy.windows.pop_front()
                {
                    self.write(busy, window, &mut own);
                    self.call(busy)?;
                }
            }
            let busy = duty.as_ref().is_some_and(|duty| !duty.is_over());
            if waiting == 0 && !busy {
                break;
            }
            if !busy && let Some(duty) = duty.as_mut().filter(|duty| !duty.senders.is_empty()) {
                self.tell(duty, &mut own)?;
            }
            let Message { from, bytes, .. } = match self.comm.receive(None, tags::EXCHANGE) {
                // The message stays in the queue and is received in the next iteration.
                Err(e) if e.kind() == ErrorKind::NoMemory && duty.as_mut().is_some_and(|duty| duty.lets_go(&e)) => {
                    continue;
                }
                received => received?,
            };
            let (kind, code, extent, room) = {
                let mut c = Cursor::new(&bytes, ByteOrder::NATIVE, 0);
                let (kind, code, extent) =
                    (c.u8("kind")?, c.u8("code")?, Extent::new(c.u64("place")?, c.u64("length")?));
                (kind, code, extent, if kind == CALL { c.u64("room")? } else { SEND })
            };
            match (kind, &mut duty) {
                (PART, Some(duty)) => self.heard(duty, from, extent)?,
                (CALL, _) => self.answer(from, extent, room, &mut own)?,
                (DATA, Some(duty)) => duty.take(from, code, extent, bytes)?,
                (DONE, _) if waiting > 0 => {
                    waiting -= 1;
                    if code > 0 && own.is_ok() {
                        let what = "cannot write the process group";
                        own = Err(Error::reported(ErrorKind::from_code(code), from, what).at_rank(me));
                    }
                }
                _ => return Err(unexpected(from)),
            }
        }
        let (mut others, mut peak_bytes) = (Ok(()), 0);
        if let Some(mut duty) = duty {
            self.tell(&mut duty, &mut own)?;
            peak_bytes = duty.peak_bytes;
            if let Some((_, e)) = duty.failed {
                // The cause is returned once: for this rank's own group if the failure affects it.
                match &own {
                    Err(told) if told.reported_by().is_none() => own = Err(e),
                    _ => others = Err(e),
                }
            }
        }
        Ok(Exchanged { own, others, peak_bytes })
    }

    fn writer(&self, number: u32) -> u32 {
        self.aggregators[self.domains.aggregator(number) as usize]
    }

    /// Handles a part message: `rank` has the bytes of `extent`.
    fn heard(&self, duty: &mut Duty<'_>, rank: u32, extent: Extent) -> Result<()> {
        if domains::shared_part(duty.domain, extent) != extent || extent.length > duty.unknown {
            return Err(unexpected(rank));
        }
        duty.senders.push(Sender { rank, extent, failed: None });
        duty.unknown -= extent.length;
        if duty.unknown == 0 {
            duty.senders.sort_by_key(|s| s.extent.offset);
            self.call(duty)?;
            self.call(duty)?;
        }
        Ok(())
    }

    /// Requests the next window, if there is one and no write has failed.
    fn call(&self, duty: &mut Duty<'_>) -> Result<()> {
        let end = duty.domain.offset + duty.domain.length;
        if duty.next >= end || duty.failed.is_some() {
            return Ok(());
        }
        let extent = self.domains.round(duty.domain, duty.next, self.window);
        let mut pieces = Vec::new();
        let room = duty.room;
        duty.room = self.window - room;
        let first = duty.senders.partition_point(|s| s.extent.offset + s.extent.length <= extent.offset);
        for (sender, s) in duty.senders.iter().enumerate().skip(first).take_while(|(_, s)| s.extent.meets(extent)) {
            for part in domains::pieces(domains::shared_part(s.extent, extent), self.piece) {
                let put = self.memory.is_some_and(|memory| memory.reaches(s.rank));
                let state = if s.rank == self.comm.rank() { State::Own } else { State::Called { put } };
                if let State::Called { put } = state {
                    let mut call = message(CALL, 0, part);
                    call.put_u64(if put { room + part.offset - extent.offset } else { SEND });
                    self.comm.send(s.rank, tags::EXCHANGE, &call)?;
                }
                pieces.push(Contribution { sender, extent: part, state });
            }
        }
        duty.next += extent.length;
        duty.windows.push_back(Window { extent, pieces, room });
        let others = duty.windows.iter().flat_map(|w| &w.pieces).filter(|p| !matches!(p.state, State::Own));
        duty.peak_bytes = duty.peak_bytes.max(others.map(|p| p.extent.length).sum());
        Ok(())
    }

    /// Answers a call: sends the bytes, or copies them to offset `room` of the shared memory.
    fn answer(&self, to: u32, extent: Extent, room: u64, own: &mut Result<()>) -> Result<()> {
        if domains::shared_part(self.place, extent) != extent {
            return Err(unexpected(to));
        }
        let put = |parts: &[Cow<'_, [u8]>]| -> Result<()> {
            let mut at = room;
            for part in parts {
                self.memory.ok_or_else(|| unexpected(to))?.put(to, at, part)?;
                at += part.len() as u64;
            }
            Ok(())
        };
        let made = match room {
            SEND => caught("pack the process group", || self.own_message(extent)),
            _ => match caught("pack the process group", || self.own_part(extent)) {
                Ok(parts) => put(&parts).map(|()| Ok(message(DATA, 0, extent)))?,
                Err(e) => Err(e),
            },
        };
        let bytes = match made {
            Ok(bytes) => bytes,
            Err(e) => {
                let bytes = message(DATA, e.kind().code(), extent);
                if own.is_ok() {
                    *own = Err(e);
                }
                bytes
            }
        };
        self.comm.start_send(to, tags::EXCHANGE, bytes)?.wait().map(drop)
    }

    /// A data message with bytes of this rank's group.
    fn own_message(&self, extent: Extent) -> Result<Vec<u8>> {
        let Some(group) = self.group else { return Err(no_group()) };
        let mut bytes = Vec::new();
        grow(&mut bytes, HEAD + extent.length as usize, "for a message to the rank that writes")?;
        bytes.put(&message(DATA, 0, extent));
        group.append_to(Extent::new(extent.offset - self.place.offset, extent.length), &mut bytes)?;
        Ok(bytes)
    }

    /// Bytes of this rank's group; `extent` is in the file.
    fn own_part(&self, extent: Extent) -> Result<Vec<Cow<'_, [u8]>>> {
        match self.group {
            Some(group) => group.get(Extent::new(extent.offset - self.place.offset, extent.length)),
            None => Err(no_group()),
        }
    }

    /// Writes a full window, unless an earlier write failed.
    fn write(&self, duty: &mut Duty<'_>, window: Window, own: &mut Result<()>) {
        if duty.failed.is_some() {
            return;
        }
        let is_put = window.pieces.iter().any(|p| matches!(p.state, State::Put));
        let mut write = |put: &[u8]| {
            caught("write a piece of the output", || {
                self.write_pieces(duty, &window, put, own);
                Ok(())
            })
        };
        let written = match self.memory.filter(|_| is_put) {
            None => write(&[]),
            Some(memory) => memory.show(window.room, window.extent.length, write),
        };
        if let Err(e) = written {
            duty.failed.get_or_insert((window.extent.offset, e.at_rank(self.comm.rank())));
        }
    }

    /// - `put`: the window's shared memory.
    fn write_pieces(&self, duty: &mut Duty<'_>, window: &Window, put: &[u8], own: &mut Result<()>) {
        // Contiguous bytes; a rank that could not read its bytes leaves a gap.
        let mut run: Option<(u64, Vec<Cow<'_, [u8]>>)> = None;
        let mut end = None;
        for piece in &window.pieces {
            let mut is_copied = false;
            let parts = match &piece.state {
                State::Here(bytes) => vec![Cow::Borrowed(&bytes[HEAD..])],
                State::Put => {
                    let at = (piece.extent.offset - window.extent.offset) as usize;
                    vec![Cow::Borrowed(&put[at..at + piece.extent.length as usize])]
                }
                State::Own => match self.own_part(piece.extent) {
                    Ok(parts) => {
                        is_copied = parts.iter().any(|part| matches!(part, Cow::Owned(_)));
                        parts
                    }
                    Err(e) => {
                        duty.senders[piece.sender].failed = Some(e.kind());
                        if own.is_ok() {
                            *own = Err(e);
                        }
                        continue;
                    }
                },
                State::Called { .. } | State::Missing => continue,
            };
            if end != Some(piece.extent.offset)
                && let Some(run) = run.take()
                && !self.write_run(duty, window, &run)
            {
                return;
            }
            run.get_or_insert_with(|| (piece.extent.offset, Vec::new())).1.extend(parts);
            end = piece.extent.end();
            // Write bytes copied from the spill file before the next copy, to hold only one.
            if is_copied
                && let Some(run) = run.take()
                && !self.write_run(duty, window, &run)
            {
                return;
            }
        }
        if let Some(run) = run {
            self.write_run(duty, window, &run);
        }
    }

    /// Returns whether the write succeeded.
    fn write_run(&self, duty: &mut Duty<'_>, window: &Window, run: &(u64, Vec<Cow<'_, [u8]>>)) -> bool {
        let (start, parts) = run;
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let length = parts.iter().map(|part| part.len() as u64).sum();
        let written = reserve(duty.object, *start, length).and_then(|()| duty.object.write_at(*start, &slices));
        let written = written.map_err(|e| duty.failed = Some((window.extent.offset, e.at_rank(self.comm.rank()))));
        written.is_ok()
    }

    /// Closes the file, and sends each rank with bytes in the domain their outcome; later calls do nothing.
    fn tell(&self, duty: &mut Duty<'_>, own: &mut Result<()>) -> Result<()> {
        if duty.failed.is_none()
            && !duty.senders.is_empty()
            && let Err(e) = (self.end)()
        {
            duty.failed = Some((duty.domain.offset, e.at_rank(self.comm.rank())));
        }
        for sender in std::mem::take(&mut duty.senders) {
            let unsafe_from = duty.failed.as_ref().filter(|(at, _)| sender.extent.end().is_none_or(|end| end > *at));
            if sender.rank == self.comm.rank() {
                if let (Some((_, e)), true) = (unsafe_from, own.is_ok()) {
                    *own = Err(again(e));
                }
                continue;
            }
            let kind = sender.failed.or(unsafe_from.map(|(_, e)| e.kind()));
            let done = message(DONE, kind.map_or(0, ErrorKind::code), sender.extent);
            self.comm.send(sender.rank, tags::EXCHANGE, &done)?;
        }
        Ok(())
    }
}

impl<'o> Duty<'o> {
    fn of(object: &'o dyn WriteObject, domain: Extent) -> Duty<'o> {
        let windows = VecDeque::with_capacity(2);
        let unknown = domain.length;
        let senders = Vec::new();
        Duty { object, domain, senders, unknown, next: domain.offset, windows, room: 0, peak_bytes: 0, failed: None }
    }

    fn is_over(&self) -> bool {
        let all = self.next >= self.domain.offset + self.domain.length || self.failed.is_some();
        self.unknown == 0 && self.windows.is_empty() && all
    }

    /// Frees the received bytes of unwritten windows after `NoMemory`; returns whether there were any.
    fn lets_go(&mut self, why: &Error) -> bool {
        let at = self.windows.front().map_or(self.next, |window| window.extent.offset);
        let mut any = false;
        for piece in self.windows.iter_mut().flat_map(|w| &mut w.pieces) {
            if let State::Here(_) = piece.state {
                (piece.state, any) = (State::Missing, true);
            }
        }
        if any && self.failed.is_none() {
            self.failed = Some((at, again(why)));
        }
        any
    }

    /// Handles a data message; `bytes` is the whole message.
    fn take(&mut self, from: u32, code: u8, extent: Extent, bytes: Vec<u8>) -> Result<()> {
        let window = self.windows.iter_mut().find(|w| w.extent.meets(extent)).ok_or_else(|| unexpected(from))?;
        let at = window.pieces.partition_point(|p| p.extent.offset < extent.offset);
        let called = window.pieces.get_mut(at).filter(|p| p.extent == extent && self.senders[p.sender].rank == from);
        let piece = called.ok_or_else(|| unexpected(from))?;
        let State::Called { put } = piece.state else { return Err(unexpected(from)) };
        if code > 0 {
            self.senders[piece.sender].failed = Some(ErrorKind::from_code(code));
            piece.state = State::Missing;
        } else if put && bytes.len() == HEAD {
            piece.state = State::Put;
        } else if !put && bytes.len() as u64 == HEAD as u64 + extent.length {
            piece.state = State::Here(bytes);
        } else {
            return Err(unexpected(from));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::BufferPool;
    use crate::pack::{BlockSpec, Pack, Writer};
    use crate::plan::{domains::spread, shared_by_all};
    use std::sync::Arc;
    use thalweg_bp::process_group::Header;
    use thalweg_bp::shape::Shape;
    use thalweg_bp::statistics::Level;
    use thalweg_comm::threads::Machine;
    use thalweg_store::memory::Memory;
    use thalweg_store::{OpenWrite, Store};
    use thalweg_types::ElementType;

    #[test]
    fn a_buffer_far_smaller_than_a_group_is_enough_and_no_byte_is_missing() {
        // By messages alone, by both, and through memory alone.
        [1, 5, 24].into_iter().for_each(no_byte_is_missing);
    }

    fn no_byte_is_missing(ranks_per_node: u32) {
        const RANKS: u32 = 24;
        let (window, stripe, aggregators) = (10_000, 3000, 5);
        let writers: Vec<u32> = (0..aggregators).map(|n| spread(n, aggregators, RANKS)).collect();
        let store = Memory::new();
        store.open_write("x", OpenWrite::Replace).unwrap();
        let sizes: Vec<u64> = (0..RANKS).map(|rank| 2000 + u64::from(rank % 7 == 3) * 200_000).collect();
        let places: Vec<Extent> = shared_by_all(1234, &sizes).unwrap().iter().map(|p| p.extent).collect();
        let all = Extent::new(1234, sizes.iter().sum());
        let peaks = Machine::new(RANKS).ranks_per_node(ranks_per_node).run(|comm| {
            let rank = comm.rank();
            let nodes: Vec<u32> = (0..RANKS).map(|rank| rank - rank % ranks_per_node).collect();
            let room = if writers.contains(&rank) { 2 * window } else { 0 };
            let shared = comm.split_by_node().unwrap().shared_window(room).unwrap();
            let memory = (ranks_per_node > 1).then(|| NodeMemory::new(1, room, Some(shared), &nodes, rank, None));
            let header = Header { group: "g".into(), time_index: 1, ..Header::default() };
            let writer = Writer { rank, ranks: RANKS, run: 1, file_index: 0 };
            let place = places[rank as usize];
            let object = store.open_write("x", OpenWrite::Existing).unwrap();
            let data: Vec<u8> =
                (0..place.length - 1500).map(|i| (i * 7 + i / 251 + u64::from(rank) * 13) as u8).collect();
            let spec = BlockSpec {
                id: 1,
                name: "v".into(),
                path: "".into(),
                element: ElementType::U8,
                is_dimension: false,
                shape: Some(Shape::local([data.len() as u64])),
                level: Level::Off,
                value: None,
                transform: None,
            };
            let mut pack = Pack::new(Arc::new(BufferPool::new(None)), &header);
            if rank % 2 == 0 {
                pack.defer(spec, data.as_slice()).unwrap();
            } else {
                assert!(pack.copy(&spec, data.as_slice()).unwrap());
            }
            let (laid, _) = pack.lay(None, place, &header, writer).unwrap();
            assert_eq!(laid.length(), place.length);
            let exchange = Exchange {
                comm: &comm,
                domains: Domains::new(all, stripe, aggregators),
                aggregators: &writers,
                place,
                group: Some(&laid),
                object: writers.contains(&rank).then_some(&*object),
                window,
                piece: 1500,
                memory: memory.as_ref(),
                end: &|| Ok(()),
            };
            let done = exchange.run().unwrap();
            done.own.and(done.others).unwrap();
            let mut read = vec![0; place.length as usize];
            assert_eq!(object.read_at(place.offset, &mut read).unwrap(), read.len());
            assert!(read == laid.get(Extent::new(0, place.length)).unwrap().concat(), "rank {rank}");
            done.peak_bytes
        });
        assert!(peaks.iter().all(|peak| *peak <= 2 * window), "{peaks:?}");
        assert_eq!(peaks.iter().filter(|peak| **peak > window).count(), aggregators as usize, "{peaks:?}");
    }
}
