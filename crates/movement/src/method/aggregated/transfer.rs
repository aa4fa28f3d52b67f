//! The transfer of process groups to the writing rank of a set, in pieces.
//!
//! | question | answer |
//! |---|---|
//! | offset of a group | behind the writer's own group and the groups of the set's earlier ranks; the writer first receives all sizes, then sends each rank its offset |
//! | simple | the ranks send their groups one after the other, directly to the writer |
//! | brigade | the set is a chain: each rank sends its own group to the rank before it, then forwards the groups that it receives from the rank behind it |
//! | memory | a piece is half a chunk, or shorter if a rank of the set has less memory. Each rank needs memory for two pieces: the one in use and the one being received |
//! | on one node | the two pieces are slots in the receiver's part of the node's shared memory ([`crate::nodes::memory`]): the sender fills one slot while the receiver writes or forwards the other, and messages only announce a full slot. In a chain a slot has at most 512 KiB, because every rank except the last receives pieces |
//! | small messages | per rank: a size, an assignment, an outcome; per piece: an answer |
//! | a store that fails | the error is in the answer to the next piece, which is propagated along the chain; groups that are not yet written are given up |
//! | a rank without memory | a rank that cannot allocate a receive buffer frees its reserve, receives the piece, discards it and reports `NoMemory` like a failed write |
//! | a rank that fails | sends a failure flag in place of its last piece; its extent stays a hole |
//! | a rank that is lost | the communicator reports the loss to the ranks that wait for it; in a chain, the ranks after it must write elsewhere |
//!
//! | message | to | content |
//! |---|---|---|
//! | size | the writer | bytes of the group (`u64::MAX`: no process group); bytes of the longest piece for which the rank has memory |
//! | assignment | a rank | error kind (0: none), offset of its group, the rank to send to, the rank to receive from, and the number of groups to forward; slot of its first piece (0 or 1); bytes of a slot (0: pieces are messages), which in a chain apply to each pair of neighbours that share memory; bytes of a piece sent as a message |
//! | piece | the rank to send to | a flag, 7 unused bytes, then bytes of the group, or the number of bytes in the slot |
//! | answer | the sender of a piece | 0: send the next piece; otherwise stop, with the error kind |
//! | outcome | a rank | 0: its group is written; otherwise the error kind |
//!
//! Source: Lofstead et al., "Petascale IO Using The Adaptable IO System", CUG 2009: simple and brigade aggregation.
//! Differs: a piece is sent only after the receiver has answered the previous one, so that no rank's memory grows with the number
//! of ranks.

use crate::buffer::grow;
use crate::nodes::memory::NodeMemory;
use crate::output_file::commit::Written;
use crate::plan;
use std::io::IoSlice;
use thalweg_bp::index::Index;
use thalweg_bp::wire::{Cursor, Put};
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_comm::tags;
use thalweg_layout::WriteObject;
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

/// Bytes of a piece before the bytes of the group: flag and padding.
const HEAD: usize = 8;
/// Flag: further pieces of the same group follow.
const MORE: u8 = 0;
/// Flag: the last piece of a complete group.
const LAST: u8 = 1;
/// Flag: the last piece of an incomplete group.
const FAILED: u8 = 2;
/// Flag: no further pieces follow, because a rank was lost or has failed.
const BROKEN: u8 = 3;

/// Groups of at least this many bytes reserve their space in the file before they are transferred.
const WORTH_RESERVING: u64 = 1 << 20;
/// Longest slot in shared memory of a rank of a chain: every rank except the last has two slots.
const LONGEST_IN_CHAIN: u64 = 512 << 10;
/// Purpose of an allocation, for its error.
const PASSED: &str = "for a piece of a process group that is passed on";
/// No process group.
const NONE: u64 = u64::MAX;
/// No rank.
const NOBODY: u32 = u32::MAX;

/// The route of process groups to the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// From each rank directly to the writer.
    Simple,
    /// Along a chain of ranks.
    Brigade,
}

impl Pattern {
    /// Bytes of a slot in shared memory.
    ///
    /// - `piece`: bytes of a piece.
    pub fn room(self, piece: u64) -> u64 {
        match self {
            Pattern::Simple => piece,
            Pattern::Brigade => piece.min(LONGEST_IN_CHAIN),
        }
    }
}

fn number(kind: ErrorKind) -> u8 {
    kind.code()
}

/// Decodes an answer or outcome: the error kind, `None` for success.
fn said(bytes: &[u8]) -> Option<ErrorKind> {
    match bytes.first() {
        Some(0) => None,
        Some(code) => Some(ErrorKind::from_code(*code)),
        None => Some(ErrorKind::Corrupt),
    }
}

fn too_much(from: u32) -> Error {
    Error::new(ErrorKind::Corrupt, format!("rank {from} announced a piece larger than its slot in shared memory"))
}

/// Sends a message; ignores errors, because a lost rank does not need it.
fn tell(comm: &dyn Communicator, to: u32, tag: u32, bytes: &[u8]) {
    let _ = comm.send(to, tag, bytes);
}

/// A reserve of memory for one piece, part of the share for pieces in messages. It is freed to receive a piece when the system has
/// no other memory, because the sender waits for an answer with the error.
struct Spare(Vec<u8>);

impl Spare {
    /// A reserve for a piece with `piece` bytes of a group; empty if the system does not have the memory.
    fn of(piece: u64) -> Spare {
        let mut spare = Vec::new();
        if let Ok(piece) = usize::try_from(piece) {
            let _ = spare.try_reserve_exact(piece.saturating_add(HEAD));
        }
        Spare(spare)
    }

    /// An empty reserve: pieces arrive in shared memory, and messages are short.
    fn none() -> Spare {
        Spare(Vec::new())
    }

    /// Receives a piece. If this required the reserve, the piece is discarded: returns an empty piece and the error that prevents
    /// further pieces.
    ///
    /// # Errors
    /// `PeerLost` or `Timeout`; `NoMemory` if the reserve is empty: the sender then gets no answer.
    fn receive(&mut self, comm: &dyn Communicator, from: u32) -> Result<(Vec<u8>, Option<Error>)> {
        match comm.receive(Some(from), tags::TRANSFER_PIECE) {
            Err(e) if e.kind() == ErrorKind::NoMemory && self.0.capacity() > 0 => {
                self.0 = Vec::new();
                comm.receive(Some(from), tags::TRANSFER_PIECE).map(|_| (Vec::new(), Some(e)))
            }
            received => received.map(|message| (message.bytes, None)),
        }
    }
}

/// Produces the bytes of a process group at a given extent, in order, passes them to a function, and returns the group's index.
pub type Pour<'p> = dyn FnMut(Extent, &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Index> + 'p;

/// On a rank that does not write: sends its group, and forwards the groups of the ranks behind it in the chain.
///
/// - `length`: bytes of the group; `None`: this rank has failed, and only reports that it has no group.
/// - `piece`: bytes of a piece; `memory`: shared with the ranks of this node.
/// - `place`: set to the group's extent in the writer's file, once the writer has assigned it.
///
/// Returns the written process group. `None` if there was no group, or if a rank on the path was lost: the group must then be
/// written elsewhere, and its extent in the writer's file may also contain part or all of it.
///
/// # Errors
/// The kind of the writer's error if its store failed; otherwise this rank's own error.
pub fn pass(
    comm: &dyn Communicator,
    writer: u32,
    length: Option<u64>,
    piece: usize,
    memory: Option<&NodeMemory>,
    place: &mut Option<Extent>,
    pour: &mut Pour<'_>,
) -> Result<Option<Written>> {
    match pass_on(comm, writer, length, piece, memory, place, pour) {
        Err(e) if e.kind() == ErrorKind::PeerLost => Ok(None),
        other => other,
    }
}

fn pass_on(
    comm: &dyn Communicator,
    writer: u32,
    length: Option<u64>,
    piece: usize,
    memory: Option<&NodeMemory>,
    place: &mut Option<Extent>,
    pour: &mut Pour<'_>,
) -> Result<Option<Written>> {
    let mut size = length.unwrap_or(NONE).to_le_bytes().to_vec();
    size.put(&(piece as u64).to_le_bytes());
    comm.send(writer, tags::TRANSFER_SIZE, &size)?;
    let Some(length) = length else { return Ok(None) };
    let refused = |kind| Error::reported(kind, writer, "cannot write the process group of this rank");
    let assigned = Assignment::decode(&comm.receive(Some(writer), tags::TRANSFER_ASSIGNMENT)?.bytes)?;
    if let Some(kind) = assigned.refused {
        return Err(refused(kind));
    }
    let extent = *place.insert(Extent::new(assigned.offset, length));
    let shares = |rank: u32| memory.filter(|memory| assigned.room > 0 && memory.reaches(rank));
    let mut out = Out {
        comm,
        to: assigned.to,
        size: piece.min(usize::try_from(assigned.piece).unwrap_or(piece)).max(1),
        left: length,
        piece: Vec::new(),
        in_memory: shares(assigned.to).map(|memory| InMemory {
            memory,
            room: assigned.room,
            place: assigned.first % 2,
            filled: 0,
        }),
        unanswered: false,
        stop: None,
    };
    let poured = caught("pack the process group", || pour(extent, &mut |bytes| out.push(bytes)));
    let poured = poured.and_then(|index| out.end(LAST).map(|()| index));
    if poured.is_err() && out.stop.is_none() {
        let _ = out.end(FAILED);
    }
    let comes = shares(assigned.from).map(|memory| Comes { memory, room: assigned.room, place: 0 });
    out.relay(assigned.from, assigned.groups, comes);
    let _ = out.answered();
    match (poured, out.stop) {
        (Err(e), Some(Stop::Lost(_))) => Err(e),
        (Err(e), None) => {
            // The writer sends an outcome to failed ranks too.
            let _ = comm.receive(Some(writer), tags::TRANSFER_OUTCOME);
            Err(e)
        }
        (poured, _) => match said(&comm.receive(Some(writer), tags::TRANSFER_OUTCOME)?.bytes) {
            None => poured.map(|fragment| Some(Written { fragment, extent })),
            Some(kind) => Err(refused(kind)),
        },
    }
}

/// The message `assignment`: the offset of a rank's group in the file and its route to the writer.
struct Assignment {
    refused: Option<ErrorKind>,
    offset: u64,
    to: u32,
    from: u32,
    groups: u32,
    /// Slot of the first piece: 0 or 1.
    first: u32,
    /// Bytes of a slot; 0: pieces are messages.
    room: u64,
    /// Bytes of a piece sent as a message.
    piece: u64,
}

impl Assignment {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u8(self.refused.map_or(0, number));
        out.put_u64(self.offset);
        [self.to, self.from, self.groups, self.first].into_iter().for_each(|n| out.put_u32(n));
        out.put_u64(self.room);
        out.put_u64(self.piece);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Assignment> {
        let refused = said(bytes);
        let mut c = Cursor::new(bytes, ByteOrder::NATIVE, 0);
        c.u8("outcome")?;
        let offset = c.u64("offset")?;
        let (to, from, groups) = (c.u32("rank")?, c.u32("rank")?, c.u32("groups")?);
        let (first, room, piece) = (c.u32("first")?, c.u64("room")?, c.u64("piece")?);
        Ok(Assignment { refused, offset, to, from, groups, first, room, piece })
    }
}

/// Why a rank stopped sending pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// An error was reported: the receiver accepts no further pieces, or this rank cannot forward them.
    Reported(ErrorKind),
    /// The receiver cannot be reached.
    Lost(ErrorKind),
}

impl Stop {
    fn kind(self) -> ErrorKind {
        match self {
            Stop::Reported(kind) | Stop::Lost(kind) => kind,
        }
    }
}

/// The sending side of a rank that does not write.
struct Out<'c> {
    comm: &'c dyn Communicator,
    to: u32,
    size: usize,
    /// Bytes of this rank's group that are not in a piece yet.
    left: u64,
    piece: Vec<u8>,
    /// The receiver's slots, if pieces are sent through shared memory.
    in_memory: Option<InMemory<'c>>,
    unanswered: bool,
    stop: Option<Stop>,
}

/// The two slots in the receiver's memory, which this rank fills alternately.
struct InMemory<'c> {
    memory: &'c NodeMemory,
    /// Bytes of a slot.
    room: u64,
    /// The slot being filled.
    place: u32,
    /// Bytes already in it.
    filled: u64,
}

/// The two slots in this rank's memory, which the rank behind it in the chain fills alternately.
struct Comes<'c> {
    memory: &'c NodeMemory,
    /// Bytes of a slot.
    room: u64,
    /// The slot that is filled next.
    place: u32,
}

impl Out<'_> {
    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        if self.in_memory.is_some() { self.put(bytes) } else { self.add(bytes) }
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.in_memory.as_ref().is_some_and(|put| put.filled == put.room) {
                self.end(MORE)?;
            }
            // The previous piece is answered only after the piece before it, which used this slot, was written.
            self.answered()?;
            let Some(put) = &mut self.in_memory else { break };
            let n = bytes.len().min(usize::try_from(put.room - put.filled).unwrap_or(usize::MAX));
            let at = u64::from(put.place) * put.room + put.filled;
            put.memory.put(self.to, at, &bytes[..n])?;
            put.filled += n as u64;
            bytes = &bytes[n..];
        }
        Ok(())
    }

    fn add(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.piece.len() == self.size + HEAD {
                self.end(MORE)?;
            }
            if self.piece.is_empty() {
                let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.size);
                grow(&mut self.piece, room + HEAD, PASSED)?;
                self.piece.resize(HEAD, MORE);
            }
            let n = bytes.len().min(self.size + HEAD - self.piece.len());
            self.piece.extend_from_slice(&bytes[..n]);
            self.left = self.left.saturating_sub(n as u64);
            bytes = &bytes[n..];
        }
        Ok(())
    }

    fn end(&mut self, flag: u8) -> Result<()> {
        let mut piece = std::mem::take(&mut self.piece);
        if let Some(put) = &mut self.in_memory {
            piece.resize(HEAD, flag);
            piece.put_u64(put.filled);
            (put.place, put.filled) = (1 - put.place, 0);
        }
        if piece.is_empty() {
            piece.resize(HEAD, flag);
        }
        piece[0] = flag;
        self.send(piece)
    }

    fn send(&mut self, piece: Vec<u8>) -> Result<()> {
        self.answered()?;
        let sent = self.comm.start_send(self.to, tags::TRANSFER_PIECE, piece).and_then(|request| request.wait());
        self.unanswered = sent.is_ok();
        sent.map(drop).inspect_err(|e| self.stop = Some(Stop::Lost(e.kind())))
    }

    /// Waits for the answer to the last piece.
    fn answered(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.unanswered) {
            return match self.stop {
                None => Ok(()),
                Some(stop) => Err(self.stopped(stop)),
            };
        }
        let answer = self
            .comm
            .receive(Some(self.to), tags::TRANSFER_ANSWER)
            .inspect_err(|e| self.stop = Some(Stop::Lost(e.kind())))?;
        said(&answer.bytes).map_or(Ok(()), |kind| {
            self.stop = Some(Stop::Reported(kind));
            Err(self.stopped(Stop::Reported(kind)))
        })
    }

    fn stopped(&self, stop: Stop) -> Error {
        Error::reported(stop.kind(), self.to, "the receiver accepts no further pieces of the process group")
    }

    /// Forwards `groups` process groups that arrive from the rank behind this one.
    fn relay(&mut self, from: u32, mut groups: u32, mut comes: Option<Comes<'_>>) {
        let mut spare = match groups > 0 && comes.is_none() {
            true => Spare::of(self.size as u64),
            false => Spare::none(),
        };
        while groups > 0 {
            let bytes = match spare.receive(self.comm, from) {
                Ok((bytes, None)) => bytes,
                Ok((bytes, Some(e))) => {
                    self.say_broken(e.kind());
                    self.stop.get_or_insert(Stop::Reported(e.kind()));
                    bytes
                }
                Err(e) => return self.say_broken(e.kind()),
            };
            if let Some(stop) = self.stop {
                // Passes the error to the rank behind; after a loss, that rank must write elsewhere.
                tell(self.comm, from, tags::TRANSFER_ANSWER, &[number(stop.kind())]);
                return;
            }
            tell(self.comm, from, tags::TRANSFER_ANSWER, &[0]);
            let flag = bytes.first().copied().unwrap_or(BROKEN);
            match flag {
                MORE => {}
                LAST | FAILED => groups -= 1,
                _ => groups = 0,
            }
            let passed = match &mut comes {
                Some(comes) if flag < BROKEN => {
                    let at = u64::from(comes.place) * comes.room;
                    comes.place = 1 - comes.place;
                    let length = bytes.get(HEAD..).and_then(|n| n.try_into().ok()).map_or(u64::MAX, u64::from_le_bytes);
                    match length <= comes.room {
                        true => comes.memory.show(at, length, |bytes| self.forward(flag, bytes)),
                        false => Err(too_much(from)),
                    }
                }
                _ if self.in_memory.is_some() && flag < BROKEN => {
                    self.forward(flag, bytes.get(HEAD..).unwrap_or_default())
                }
                _ => self.send(bytes),
            };
            if let (Err(e), None) = (passed, self.stop) {
                self.say_broken(e.kind());
                self.stop = Some(Stop::Reported(e.kind()));
            }
        }
    }

    /// Reports that no further pieces follow from this rank and the ranks behind it.
    fn say_broken(&mut self, why: ErrorKind) {
        if self.stop.is_none() {
            let mut broken = vec![number(why); HEAD];
            broken[0] = BROKEN;
            let _ = self.send(broken);
        }
    }

    /// Forwards one piece of another rank's group.
    fn forward(&mut self, flag: u8, bytes: &[u8]) -> Result<()> {
        if self.in_memory.is_some() {
            self.put(bytes)?;
        } else {
            grow(&mut self.piece, HEAD + bytes.len(), PASSED)?;
            self.piece.resize(HEAD, flag);
            self.piece.extend_from_slice(bytes);
        }
        self.end(flag)
    }
}

/// The result of collecting a set's groups on the writing rank.
pub struct Collected {
    /// First byte behind the last complete group, or `start` if there is none.
    pub end: u64,
    /// All expected groups are complete.
    pub all: bool,
    /// The error that stopped the writing, if any.
    pub failed: Option<Error>,
    /// The error occurred when the file was synced and closed: bytes that the store had accepted may be lost.
    pub unclosed: bool,
}

/// A rank that sends its group to the writer.
struct Passer {
    rank: u32,
    place: Extent,
    written: u64,
    /// The message `assignment` was sent to it.
    told: bool,
    /// It was assigned an extent, and waits for the outcome.
    waits: bool,
    /// If it sends pieces through this rank's shared memory: the slot of its next piece, and the bytes of a slot.
    puts: Option<(u32, u64)>,
    whole: bool,
    /// Why its group is incomplete, unless the store failed.
    why: ErrorKind,
}

/// The two slots in this rank's shared memory to which other ranks write pieces.
struct Slots {
    /// Bytes of a piece for which all ranks of the set have memory.
    piece: u64,
    /// The next free slot.
    next: u32,
    /// No other rank than the current sender can write to the slots.
    trusted: bool,
    /// Reserve for a piece that arrives as a message.
    spare: Spare,
}

/// Collects the groups of a set, on the rank that writes them.
pub struct Collect<'c> {
    /// The communicator.
    pub comm: &'c dyn Communicator,
    /// The sending ranks, in the order of their groups in the file.
    pub passers: &'c [u32],
    /// The route of the groups.
    pub pattern: Pattern,
    /// The file.
    pub object: &'c dyn WriteObject,
    /// First byte behind the writer's own group.
    pub start: u64,
    /// Bytes of the longest piece for which this rank has memory.
    pub piece: u64,
    /// Memory shared with the ranks of this node, with room for two pieces.
    pub memory: Option<&'c NodeMemory>,
}

impl Collect<'_> {
    /// Receives and writes all groups. After `end` has closed the file, each rank of the set is sent the outcome of its group.
    ///
    /// - `failed`: an earlier error because of which nothing can be written. `end`: called if no error occurred, with the first
    ///   byte behind the last complete group, and whether all groups are complete.
    pub fn run(&self, failed: Option<Error>, end: &dyn Fn(u64, bool) -> Result<()>) -> Collected {
        let mut collected = Collected { end: self.start, all: true, failed, unclosed: false };
        let mut slots = Slots { piece: self.piece, next: 0, trusted: true, spare: Spare::none() };
        let mut passers = self.places(&mut collected, &mut slots.piece);
        let from: &[Passer] = if self.pattern == Pattern::Simple { &passers } else { &passers[..passers.len().min(1)] };
        if from.iter().any(|passer| !self.memory.is_some_and(|memory| memory.reaches(passer.rank))) {
            slots.spare = Spare::of(slots.piece);
        }
        if self.pattern == Pattern::Brigade {
            (0..passers.len()).for_each(|i| self.tell_place(&mut passers, i, &slots, &collected));
        }
        let mut i = 0;
        while i < passers.len() {
            i = self.next(&mut passers, i, &mut slots, &mut collected);
        }
        collected.all &= passers.iter().all(|p| p.whole);
        if collected.failed.is_none()
            && let Err(e) = end(collected.end, collected.all)
        {
            passers.iter_mut().for_each(|p| p.whole = false);
            (collected.end, collected.all) = (self.start, passers.is_empty());
            (collected.failed, collected.unclosed) = (Some(e), true);
        }
        for passer in &mut passers {
            let why = collected.failed.as_ref().map_or(passer.why, Error::kind);
            self.tell_outcome(passer, if passer.whole { 0 } else { number(why) });
        }
        collected
    }

    /// Receives the sizes and assigns the extents of the groups. Ranks without a group and lost ranks are left out.
    ///
    /// - `piece`: reduced to the shortest piece that a rank reports.
    fn places(&self, collected: &mut Collected, piece: &mut u64) -> Vec<Passer> {
        let size = |rank: &u32| {
            let message = self.comm.receive(Some(*rank), tags::TRANSFER_SIZE).ok()?;
            let mut c = Cursor::new(&message.bytes, ByteOrder::NATIVE, 0);
            let (size, longest) = (c.u64("size").unwrap_or(NONE), c.u64("piece").unwrap_or(0));
            *piece = (*piece).min(longest).max(1);
            Some((*rank, size)).filter(|(_, size)| *size != NONE)
        };
        let (ranks, sizes): (Vec<u32>, Vec<u64>) = self.passers.iter().filter_map(size).unzip();
        collected.all = ranks.len() == self.passers.len();
        let places = match plan::shared_by_all(self.start, &sizes) {
            Ok(places) => places.into_iter().map(|p| p.extent).collect(),
            Err(e) => {
                collected.failed.get_or_insert(e);
                vec![Extent::new(self.start, 0); ranks.len()]
            }
        };
        let passer = |(rank, place)| Passer {
            rank,
            place,
            written: 0,
            told: false,
            waits: false,
            puts: None,
            whole: false,
            why: ErrorKind::PeerLost,
        };
        ranks.into_iter().zip(places).map(passer).collect()
    }

    fn tell_place(&self, passers: &mut [Passer], i: usize, slots: &Slots, collected: &Collected) {
        let refused = collected.failed.as_ref().map(Error::kind);
        let (to, from) = match self.pattern {
            Pattern::Simple => (self.comm.rank(), NOBODY),
            Pattern::Brigade => (
                if i == 0 { self.comm.rank() } else { passers[i - 1].rank },
                passers.get(i + 1).map_or(NOBODY, |p| p.rank),
            ),
        };
        let groups = if from == NOBODY { 0 } else { (passers.len() - i - 1) as u32 };
        let piece = slots.piece;
        let room = self.memory.filter(|_| slots.trusted).map_or(0, |_| self.pattern.room(piece));
        let assignment =
            Assignment { refused, offset: passers[i].place.offset, to, from, groups, first: slots.next, room, piece };
        (passers[i].told, passers[i].waits) = (true, refused.is_none());
        let puts = to == self.comm.rank() && self.memory.is_some_and(|memory| memory.reaches(passers[i].rank));
        passers[i].puts = (puts && room > 0).then_some((slots.next, room));
        tell(self.comm, passers[i].rank, tags::TRANSFER_ASSIGNMENT, &assignment.encode());
    }

    fn tell_outcome(&self, passer: &mut Passer, outcome: u8) {
        if std::mem::take(&mut passer.waits) {
            tell(self.comm, passer.rank, tags::TRANSFER_OUTCOME, &[outcome]);
        }
    }

    /// Receives the next piece, of group `i`. Returns the group of the piece after it.
    fn next(&self, passers: &mut [Passer], i: usize, slots: &mut Slots, collected: &mut Collected) -> usize {
        let (simple, all) = (self.pattern == Pattern::Simple, passers.len());
        if !passers[i].told {
            self.tell_place(passers, i, slots, collected);
        }
        if !passers[i].waits {
            return i + 1;
        }
        let from = if simple { passers[i].rank } else { passers[0].rank };
        // The next group to receive if this sender sends no further pieces.
        let end = if simple { i + 1 } else { all };
        let bytes = match slots.spare.receive(self.comm, from) {
            Ok((bytes, lacking)) => {
                collected.failed = collected.failed.take().or(lacking);
                bytes
            }
            Err(e) => {
                passers[i..end].iter_mut().for_each(|p| p.why = e.kind());
                // The sender may be alive and still write to a slot that another rank would use.
                slots.trusted = false;
                return end;
            }
        };
        if let Some(e) = &collected.failed {
            tell(self.comm, from, tags::TRANSFER_ANSWER, &[number(e.kind())]);
            return end;
        }
        tell(self.comm, from, tags::TRANSFER_ANSWER, &[0]);
        let flag = bytes.first().copied().unwrap_or(BROKEN);
        let puts = if simple { i } else { 0 };
        let here = passers[puts].puts;
        if let Some((place, room)) = here.filter(|_| flag < BROKEN) {
            slots.next = 1 - place;
            passers[puts].puts = Some((slots.next, room));
        }
        if flag == FAILED {
            return i + 1;
        }
        if flag > FAILED {
            let why = bytes.get(1).map_or(ErrorKind::Corrupt, |code| ErrorKind::from_code(*code));
            passers[i..end].iter_mut().for_each(|p| p.why = why);
            return end;
        }
        if flag == LAST && simple && i + 1 < all {
            // The next rank fills its first piece while this piece is written.
            self.tell_place(passers, i + 1, slots, collected);
        }
        let bytes = bytes.get(HEAD..).unwrap_or_default();
        let written = match (here, self.memory) {
            (Some((place, room)), Some(memory)) => {
                let length = bytes.try_into().map_or(u64::MAX, u64::from_le_bytes);
                match length <= room {
                    true => memory.show(u64::from(place) * room, length, |bytes| {
                        self.write(&mut passers[i], bytes, flag == LAST)
                    }),
                    false => Err(too_much(from)),
                }
            }
            _ => self.write(&mut passers[i], bytes, flag == LAST),
        };
        match written {
            Ok(()) if flag == LAST => {
                let passer = &mut passers[i];
                passer.whole = true;
                collected.end = passer.place.offset + passer.place.length;
            }
            Ok(()) => {}
            Err(e) => collected.failed = Some(e),
        }
        if flag == LAST { i + 1 } else { i }
    }

    fn write(&self, passer: &mut Passer, bytes: &[u8], last: bool) -> Result<()> {
        caught("write a piece of a process group", || self.write_piece(passer, bytes, last))
    }

    fn write_piece(&self, passer: &mut Passer, bytes: &[u8], last: bool) -> Result<()> {
        let n = bytes.len() as u64;
        let left = passer.place.length - passer.written;
        if n > left || (last && n < left) {
            let what = format!("rank {} sent a process group of another size than it announced", passer.rank);
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        let at = passer.place.offset + passer.written;
        if passer.written == 0 && passer.place.length > n && passer.place.length >= WORTH_RESERVING {
            // Detects a full store before the rest of the group is transferred.
            self.object.reserve(passer.place.offset, passer.place.length)?;
        }
        self.object.write_at(at, &[IoSlice::new(bytes)])?;
        passer.written += n;
        Ok(())
    }
}
