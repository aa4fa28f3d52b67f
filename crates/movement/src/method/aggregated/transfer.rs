//! Process groups passed to the rank that writes for a set, a piece at a time.
//!
//! | question | answer |
//! |---|---|
//! | where a group lies | behind the writer's own and those of the set's ranks before it; the writer is told all sizes first and says each its place |
//! | simple | the ranks pass one after the other, each straight to the writer |
//! | brigade | the set is a chain: each rank passes its own group to the one before it, then all that comes from the one behind |
//! | memory | pieces of half a chunk, or as short as a rank of the set needs. Each rank needs two pieces: the one in use and the one being received |
//! | on one node | the two pieces are places in the taker's part of memory that both see ([`crate::nodes::memory`]): a rank fills one while the other is written or passed on from there, and what is sent says only that it is full. In a chain they are of 512 KiB at most, as all ranks but its last have such a part |
//! | small messages | a size, a place, an outcome per rank; an answer per piece |
//! | a store that fails | the answer to the next piece says so, and goes up the chain; what was not written yet is given up |
//! | a rank without memory | a rank that cannot allocate a receive buffer frees its reserve, receives the piece, discards it and reports `NoMemory` like a failed write |
//! | a rank that fails | says so in place of its last piece; its place stays a hole |
//! | a rank that is lost | whoever waits for it is told by the communicator; in a chain, those behind it have to write elsewhere |
//!
//! | message | to | says |
//! |---|---|---|
//! | size | the writer | bytes of a group; `u64::MAX`: no process group. Bytes of a piece that this rank has memory for |
//! | place | a rank | why not (0: write), its place, whom to pass to, who passes to it and how many groups; where to put its first piece (0 or 1), and how long pieces may be in memory (0: pieces are messages), in a chain for each two ranks that share memory; how long in messages |
//! | piece | whom to pass to | a flag, 7 bytes of nothing, bytes of a group, or how many were put |
//! | answer | whoever passed a piece | 0: the next one may come; else no more is wanted, and why |
//! | outcome | a rank | 0: its group is written; else why not |
//!
//! Source: Lofstead et al., "Petascale IO Using The Adaptable IO System", CUG 2009: aggregation, simple and as a brigade.
//! Differs: a piece is sent when it is asked for, so that no memory grows with the number of ranks.

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

/// Bytes of a piece in front of those of the group.
const HEAD: usize = 8;
/// More of the same group follows.
const MORE: u8 = 0;
/// The group ends here.
const LAST: u8 = 1;
/// The group ends here, and is not whole.
const FAILED: u8 = 2;
/// Nothing more comes: a rank was lost.
const BROKEN: u8 = 3;

/// Groups of so many bytes have their space found before they travel.
const WORTH_RESERVING: u64 = 1 << 20;
/// Longest piece that is put into memory of a rank of a chain, which every rank but the last has.
const LONGEST_IN_CHAIN: u64 = 512 << 10;
/// What memory is for that cannot be had.
const PASSED: &str = "for a piece of a process group that is passed on";
/// There is no group, or no rank.
const NONE: u64 = u64::MAX;
const NOBODY: u32 = u32::MAX;

/// In which way the ranks of a set pass their groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Each to the writer.
    Simple,
    /// Along a chain.
    Brigade,
}

impl Pattern {
    /// Bytes of a piece that is put into memory.
    ///
    /// - `piece`: bytes passed at a time.
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

/// What a message of one byte says.
fn said(bytes: &[u8]) -> Option<ErrorKind> {
    match bytes.first() {
        Some(0) => None,
        Some(code) => Some(ErrorKind::from_code(*code)),
        None => Some(ErrorKind::Corrupt),
    }
}

fn too_much(from: u32) -> Error {
    Error::new(ErrorKind::Corrupt, format!("rank {from} put more than there is room for"))
}

/// Sends something to a rank that may be gone: then it has no use for it.
fn tell(comm: &dyn Communicator, to: u32, tag: u32, bytes: &[u8]) {
    let _ = comm.send(to, tag, bytes);
}

/// Memory for one piece, within the share of pieces that come in messages. It is held so that a piece can be received where the system
/// has no more: its sender waits, and hears why no more is taken.
struct Spare(Vec<u8>);

impl Spare {
    /// For a piece of so many bytes of a group; nothing where the system has not as much.
    fn of(piece: u64) -> Spare {
        let mut held = Vec::new();
        if let Ok(piece) = usize::try_from(piece) {
            let _ = held.try_reserve_exact(piece.saturating_add(HEAD));
        }
        Spare(held)
    }

    /// Pieces are put into memory: messages are short.
    fn none() -> Spare {
        Spare(Vec::new())
    }

    /// Receives a piece, and says why no more can be received where it took the spare. The piece is empty then.
    ///
    /// # Errors
    /// A lost rank; `NoMemory` without a spare: nobody is told.
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

/// The bytes of a group in order, for whom it is given and where the group lies.
pub type Pour<'p> = dyn FnMut(Extent, &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Index> + 'p;

/// On a rank that does not write: passes its group on, and what comes from ranks behind it.
///
/// - `length`: bytes of the group; `None`: this rank has failed, and only says so.
/// - `piece`: bytes passed at a time; `memory`: shared with the ranks of this node.
/// - `place`: set to where the group was to lie in the writer's file, once the writer has said so.
///
/// Returns what was written of this rank. `None` where a rank was lost on the way, so that the group has to be written
/// elsewhere (and some of it, or all, may lie at its place too), or where there was none.
///
/// # Errors
/// Of the kind that the writer's store failed with, if it did; else this rank's own.
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
    let said_place = Place::decode(&comm.receive(Some(writer), tags::TRANSFER_PLACE)?.bytes)?;
    if let Some(kind) = said_place.refused {
        return Err(refused(kind));
    }
    let extent = *place.insert(Extent::new(said_place.offset, length));
    let shares = |rank: u32| memory.filter(|memory| said_place.room > 0 && memory.reaches(rank));
    let mut out = Out {
        comm,
        to: said_place.to,
        size: piece.min(usize::try_from(said_place.piece).unwrap_or(piece)).max(1),
        left: length,
        piece: Vec::new(),
        in_memory: shares(said_place.to).map(|memory| InMemory {
            memory,
            room: said_place.room,
            place: said_place.first % 2,
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
    let comes = shares(said_place.from).map(|memory| Comes { memory, room: said_place.room, place: 0 });
    out.relay(said_place.from, said_place.groups, comes);
    let _ = out.answered();
    match (poured, out.stop) {
        (Err(e), Some(Stop::Lost(_))) => Err(e),
        (Err(e), None) => {
            // It is told all the same.
            let _ = comm.receive(Some(writer), tags::TRANSFER_OUTCOME);
            Err(e)
        }
        (poured, _) => match said(&comm.receive(Some(writer), tags::TRANSFER_OUTCOME)?.bytes) {
            None => poured.map(|fragment| Some(Written { fragment, extent })),
            Some(kind) => Err(refused(kind)),
        },
    }
}

/// Where a rank's group lies and how it gets there.
struct Place {
    refused: Option<ErrorKind>,
    offset: u64,
    to: u32,
    from: u32,
    groups: u32,
    /// Which of the two places in memory the first piece is put to.
    first: u32,
    /// Bytes of each; 0: pieces are messages.
    room: u64,
    /// Bytes of a piece that is a message.
    piece: u64,
}

impl Place {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u8(self.refused.map_or(0, number));
        out.put_u64(self.offset);
        [self.to, self.from, self.groups, self.first].into_iter().for_each(|n| out.put_u32(n));
        out.put_u64(self.room);
        out.put_u64(self.piece);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Place> {
        let refused = said(bytes);
        let mut c = Cursor::new(bytes, ByteOrder::NATIVE, 0);
        c.u8("outcome")?;
        let offset = c.u64("place")?;
        let (to, from, groups) = (c.u32("rank")?, c.u32("rank")?, c.u32("groups")?);
        let (first, room, piece) = (c.u32("first")?, c.u64("room")?, c.u64("piece")?);
        Ok(Place { refused, offset, to, from, groups, first, room, piece })
    }
}

/// Why nothing more can be passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The other side wants no more.
    Told(ErrorKind),
    /// The other side cannot be reached.
    Lost(ErrorKind),
}

impl Stop {
    fn kind(self) -> ErrorKind {
        match self {
            Stop::Told(kind) | Stop::Lost(kind) => kind,
        }
    }
}

/// The way out of a rank that does not write.
struct Out<'c> {
    comm: &'c dyn Communicator,
    to: u32,
    size: usize,
    /// Bytes of this rank's group that are not in a piece yet.
    left: u64,
    piece: Vec<u8>,
    /// Where pieces go that are no messages.
    in_memory: Option<InMemory<'c>>,
    unanswered: bool,
    stop: Option<Stop>,
}

/// Where a rank puts its pieces, by turns in two places of the writer's memory.
struct InMemory<'c> {
    memory: &'c NodeMemory,
    /// Bytes of a place.
    room: u64,
    /// The one that is filled now, and how far.
    place: u32,
    filled: u64,
}

/// Where the rank behind this one puts its pieces.
struct Comes<'c> {
    memory: &'c NodeMemory,
    /// Bytes of a place.
    room: u64,
    /// The one that it fills next.
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
            // The piece before is taken only when the one before that is written, which was in this place.
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

    /// Waits until the last piece was asked for.
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
            self.stop = Some(Stop::Told(kind));
            Err(self.stopped(Stop::Told(kind)))
        })
    }

    fn stopped(&self, stop: Stop) -> Error {
        Error::reported(stop.kind(), self.to, "no more of the process group is taken")
    }

    /// Passes on what comes from the rank behind this one: so many groups.
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
                    self.stop.get_or_insert(Stop::Told(e.kind()));
                    bytes
                }
                Err(e) => return self.say_broken(e.kind()),
            };
            if let Some(stop) = self.stop {
                // Whoever is behind a lost rank has to write elsewhere.
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
                self.stop = Some(Stop::Told(e.kind()));
            }
        }
    }

    /// Nothing more can come from the ranks behind this one.
    fn say_broken(&mut self, why: ErrorKind) {
        if self.stop.is_none() {
            let mut broken = vec![number(why); HEAD];
            broken[0] = BROKEN;
            let _ = self.send(broken);
        }
    }

    /// Passes on one piece of another rank's group.
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

/// What came to the rank that writes.
pub struct Collected {
    /// First byte behind the last group that is whole, or `start` if none is.
    pub end: u64,
    /// All groups that were to come are whole.
    pub all: bool,
    /// Why the store failed, if it did.
    pub failed: Option<Error>,
    /// It failed to keep what it had taken, as it said when the file was made durable and closed.
    pub unclosed: bool,
}

/// A rank that passes its group.
struct Passer {
    rank: u32,
    place: Extent,
    written: u64,
    /// It was told its place, or that it has none.
    told: bool,
    /// It has a place, and waits for an outcome.
    waits: bool,
    /// It puts its pieces into this rank's memory: in which of the two places the next one is, and how long they are.
    puts: Option<(u32, u64)>,
    whole: bool,
    /// Why it is not whole, where that is not the store's fault.
    why: ErrorKind,
}

/// The two places in this rank's memory that others put pieces to.
struct Slots {
    /// Bytes of a piece: all ranks of the set have memory for it.
    piece: u64,
    /// Where the next one goes that is not told of yet.
    next: u32,
    /// Nobody puts there who has not been told to.
    trusted: bool,
    /// For a piece that comes in a message.
    spare: Spare,
}

/// Collects the groups of a set: on the rank that writes it.
pub struct Collect<'c> {
    /// The ranks.
    pub comm: &'c dyn Communicator,
    /// Those that pass, in the order in which their groups lie.
    pub passers: &'c [u32],
    /// How.
    pub pattern: Pattern,
    /// What is written to.
    pub object: &'c dyn WriteObject,
    /// First byte behind the writer's own group.
    pub start: u64,
    /// Bytes of a piece that this rank has memory for.
    pub piece: u64,
    /// Shared with the ranks of this node: has room for two pieces.
    pub memory: Option<&'c NodeMemory>,
}

impl Collect<'_> {
    /// Writes what comes. Every rank of the set is told what became of its group, once `end` has closed the file.
    ///
    /// - `failed`: nothing can be written, for this reason. `end`: called where nothing has failed with the first byte behind the
    ///   last group that is whole, and whether all are.
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

    /// Where the groups lie. Ranks that have none, and those that are lost, are left out.
    ///
    /// - `piece`: becomes the shortest that a rank says.
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
        let place =
            Place { refused, offset: passers[i].place.offset, to, from, groups, first: slots.next, room, piece };
        (passers[i].told, passers[i].waits) = (true, refused.is_none());
        let puts = to == self.comm.rank() && self.memory.is_some_and(|memory| memory.reaches(passers[i].rank));
        passers[i].puts = (puts && room > 0).then_some((slots.next, room));
        tell(self.comm, passers[i].rank, tags::TRANSFER_PLACE, &place.encode());
    }

    fn tell_outcome(&self, passer: &mut Passer, outcome: u8) {
        if std::mem::take(&mut passer.waits) {
            tell(self.comm, passer.rank, tags::TRANSFER_OUTCOME, &[outcome]);
        }
    }

    /// Takes the next piece, of the `i`th group. Returns which group comes then.
    fn next(&self, passers: &mut [Passer], i: usize, slots: &mut Slots, collected: &mut Collected) -> usize {
        let (simple, all) = (self.pattern == Pattern::Simple, passers.len());
        if !passers[i].told {
            self.tell_place(passers, i, slots, collected);
        }
        if !passers[i].waits {
            return i + 1;
        }
        let from = if simple { passers[i].rank } else { passers[0].rank };
        // The last of its pieces, if none is wanted any more.
        let end = if simple { i + 1 } else { all };
        let bytes = match slots.spare.receive(self.comm, from) {
            Ok((bytes, lacking)) => {
                collected.failed = collected.failed.take().or(lacking);
                bytes
            }
            Err(e) => {
                passers[i..end].iter_mut().for_each(|p| p.why = e.kind());
                // It may still come, and put bytes where another's would be.
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
            // It fills its first piece while this one is written.
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
            let what = format!("rank {} passed another number of bytes than it said", passer.rank);
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        let at = passer.place.offset + passer.written;
        if passer.written == 0 && passer.place.length > n && passer.place.length >= WORTH_RESERVING {
            // A full store is known before its bytes travel.
            self.object.reserve(passer.place.offset, passer.place.length)?;
        }
        self.object.write_at(at, &[IoSlice::new(bytes)])?;
        passer.written += n;
        Ok(())
    }
}
