//! One rank's process group while it is being written.
//!
//! Every block is in one of three states: *copied* into a chunk of the process's buffer; *deferred*: its bytes are not looked at until the
//! group is written, because the caller does not change their memory until close, because a copy in the buffer is theirs alone
//! ([`Pack::copy_to_write_later`]), or because the caller has given their memory away ([`Pack::give`]); or *gone*: written through to storage, because the buffer limit left no room
//! or the write-through threshold applies. Offsets inside the group are known immediately, because the length of a record's
//! head does not depend on its statistics. The offset of the group is known at close.
//!
//! Statistics and checksum of a block are computed in the same pass as its copy ([`thalweg_bp::pass`]); those of a large block that is
//! written from the caller's memory to a file of this machine, in turns with its writes (decision 0065).

use crate::buffer::{BufferPool, zeros};
pub use crate::laid::Laid;
use crate::transformed::Applied;
use std::io::IoSlice;
use std::sync::Arc;
use thalweg_bp::pass::{self, Digest, PIECE, Pass};
use thalweg_bp::process_group::{self, Block, Header, SECTION_HEAD};
use thalweg_bp::rows::Rows;
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::{Level, Statistics};
use thalweg_bp::trailer;
use thalweg_layout::WriteObject;
use thalweg_profile::{Phase, span};
use thalweg_types::{AttributeValue, ElementType, Error, ErrorKind, Extent, Result, Value};

pub mod blocks;
mod finished;
pub mod owned;

/// Writes of at least this many bytes reserve their space first, which is a quarter faster on ext4.
pub(crate) const WORTH_RESERVING: u64 = 1 << 20;
/// A block is written in turns of this many bytes with the pass over them: the kernel's copy leaves them in the core's second-level
/// cache, where statistics and checksum cost a tenth of the write. Decision 0065 has figures of other lengths and orders.
const TURN: usize = 256 << 10;
/// Blocks of at least this many bytes are written in turns.
const WORTH_TURNS: u64 = 2 << 20;
/// Blocks of at least this many bytes get a chunk of their own if they are copied to be written later; smaller ones share chunks.
pub const WORTH_A_CHUNK: u64 = 256 << 10;
/// Short rows are written through in pieces of this many bytes.
const GATHERED: usize = 64 * 1024;

/// Purpose of an allocation, for its error.
pub(crate) const COPIED: &str = "to copy data from the spill file";

pub(crate) fn reserve(object: &dyn WriteObject, offset: u64, length: u64) -> Result<()> {
    if length >= WORTH_RESERVING { object.reserve(offset, length) } else { Ok(()) }
}

/// Statistics and checksum of a block, without a copy.
fn look(data: &Rows<'_>, spec: &BlockSpec) -> Digest {
    let _taking = span(Phase::Characteristics, data.len() as u64);
    pass::look(data.clone(), spec.element, spec.taken())
}

/// Whether a block of this many bytes is written in turns with the pass over it.
fn takes_turns<'t>(data: &Rows<'_>, mut objects: impl Iterator<Item = &'t dyn WriteObject>) -> bool {
    data.len() as u64 >= WORTH_TURNS && objects.all(|object| object.is_file())
}

/// Writes a block's bytes to each place, in turns with the pass over them.
///
/// # Errors
/// Errors of the store.
fn write_in_turns(data: &Rows<'_>, spec: &BlockSpec, places: &[(&dyn WriteObject, u64)]) -> Result<Digest> {
    let _taking = span(Phase::Characteristics, data.len() as u64);
    if let (Some(bytes), Some((_, start))) = (data.as_one(), places.first()) {
        return write_in_turns_of_pages(bytes, spec, *start, places);
    }
    let mut done = 0;
    pass::over(data.clone(), spec.element, spec.taken(), TURN, |piece| {
        for (object, at) in places {
            object.write_at(at + done, &[IoSlice::new(piece)])?;
        }
        done += piece.len() as u64;
        Ok(())
    })
}

/// As [`write_in_turns`], for a block that is contiguous in memory: each write ends where a turn of the file ends, because a page that two
/// writes share costs both of them.
///
/// - `start`: of the block, in the first place's file.
fn write_in_turns_of_pages(
    bytes: &[u8],
    spec: &BlockSpec,
    start: u64,
    places: &[(&dyn WriteObject, u64)],
) -> Result<Digest> {
    let mut pass = Pass::new(spec.element, spec.taken());
    let (mut written, mut passed) = (0, 0);
    while written < bytes.len() {
        let turn = TURN - ((start + written as u64) % TURN as u64) as usize;
        let end = bytes.len().min(written + turn);
        for (object, at) in places {
            object.write_at(at + written as u64, &[IoSlice::new(&bytes[written..end])])?;
        }
        written = end;
        // In the pieces of all passes, so that sums do not depend on where a block stands.
        let whole = if end == bytes.len() { end } else { end - end % PIECE };
        pass.add(&bytes[passed..whole]);
        passed = whole;
    }
    Ok(pass.finish())
}

/// The description of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockSpec {
    /// Id of the variable in its group.
    pub id: u32,
    /// Name.
    pub name: Arc<str>,
    /// Path.
    pub path: Arc<str>,
    /// Type.
    pub element: ElementType,
    /// Whether other variables use it as a dimension.
    pub is_dimension: bool,
    /// Shape, in file order; `None` for scalars and strings.
    pub shape: Option<Shape>,
    /// Statistics level.
    pub level: Level,
    /// Value of a scalar or string.
    pub value: Option<Value>,
    /// The transform that was applied to its bytes; type, shape and level are those of the original values.
    pub transform: Option<Arc<Applied>>,
}

impl BlockSpec {
    fn record<'s>(&'s self, statistics: Option<&'s Statistics>, payload: u64) -> Block<'s> {
        Block {
            id: self.id,
            name: &self.name,
            path: &self.path,
            element: self.element,
            is_dimension: self.is_dimension,
            shape: self.shape.as_ref(),
            level: self.level,
            statistics,
            transform: self.transform.as_deref().map(|t| process_group::Applied { uid: t.uid, metadata: &t.metadata }),
            payload,
        }
    }

    /// Level of the statistics to compute from the given bytes: only arrays have statistics, and those of a transformed block
    /// were computed before the transform.
    pub(crate) fn taken(&self) -> Level {
        if self.shape.is_some() && self.transform.is_none() { self.level } else { Level::Off }
    }
}

struct Placed {
    spec: BlockSpec,
    /// Offset of the record, relative to the first one.
    record: u64,
    /// Bytes of the record before its payload.
    head: u64,
    payload: u64,
    digest: Option<Digest>,
    /// The head, once the statistics in it are known.
    head_bytes: Vec<u8>,
}

/// The encoding of a pack's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// Records of a process group: a head, then the bytes.
    ProcessGroup,
    /// Only the bytes.
    Blocks,
}

impl Encoding {
    /// The head of a block's record.
    fn head(self, spec: &BlockSpec, statistics: Option<&Statistics>, payload: u64, out: &mut Vec<u8>) {
        if self == Encoding::ProcessGroup {
            spec.record(statistics, payload).encode(out);
        }
    }
}

/// Consecutive bytes of a pack.
enum PackPiece<'a> {
    Chunk(Vec<u8>),
    Deferred { block: usize, data: DeferredBytes<'a> },
}

/// The bytes of a deferred block.
enum DeferredBytes<'a> {
    /// In the program's memory.
    Lent(Rows<'a>),
    /// In a chunk of the buffer that has nothing else.
    Own(Vec<u8>),
    /// The first `length` bytes of memory that the pack was given.
    Given { memory: Box<dyn AsRef<[u8]> + Send>, length: usize },
}

impl PackPiece<'_> {
    /// Returns its chunk, if it has one.
    fn give_back(self, pool: &BufferPool) {
        match self {
            PackPiece::Chunk(chunk) | PackPiece::Deferred { data: DeferredBytes::Own(chunk), .. } => pool.give(chunk),
            PackPiece::Deferred { data: DeferredBytes::Lent(_) | DeferredBytes::Given { .. }, .. } => {}
        }
    }
}

impl DeferredBytes<'_> {
    fn rows(&self) -> Rows<'_> {
        match self {
            DeferredBytes::Lent(rows) => rows.clone(),
            DeferredBytes::Own(chunk) => Rows::from(chunk),
            DeferredBytes::Given { memory, length } => Rows::from(&(**memory).as_ref()[..*length]),
        }
    }
}

/// The state of an earlier block that a later write of the same block supersedes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// The earlier block was replaced by the later one.
    Replaced,
    /// The earlier block was removed, and later blocks are renumbered; the new block is not yet added.
    Withdrawn,
    /// Unchanged: the earlier block's bytes are in storage, or the buffer has no room for the new ones: see
    /// [`Pack::overwrite_stored`].
    Stored,
}

/// A destination of written-through bytes: an object and the offset of the process group in it.
pub struct Through<'t> {
    /// The object.
    pub object: &'t dyn WriteObject,
    /// Offset of the process group.
    pub start: u64,
    /// The group's header, for its preliminary front.
    pub header: &'t Header,
}

/// The size of a process group while it is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Bytes from the start of the group that are in storage.
    pub stored: u64,
    /// Bytes of the whole group, if the block in question is the last and no attributes follow.
    pub length: u64,
    /// Bytes that the caller expects to write; 0: not known.
    pub expected: u64,
}

/// Moves `length` bytes from one object to another, `step` bytes at a time.
pub(crate) fn move_bytes(
    from: &dyn WriteObject,
    source: u64,
    to: &dyn WriteObject,
    target: u64,
    length: u64,
    step: usize,
) -> Result<()> {
    let mut chunk = zeros(usize::try_from(length).unwrap_or(step).min(step), COPIED)?;
    let mut at = 0;
    while at < length {
        let n = (length - at).min(chunk.len() as u64) as usize;
        if from.read_at(source + at, &mut chunk[..n])? != n {
            return Err(Error::new(ErrorKind::Torn, "bytes written before are lost").at_byte(source + at));
        }
        to.write_at(target + at, &[IoSlice::new(&chunk[..n])])?;
        at += n as u64;
    }
    Ok(())
}

/// An attribute with its final value.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeSpec {
    /// Id in the group.
    pub id: u32,
    /// Name.
    pub name: Arc<str>,
    /// Path.
    pub path: Arc<str>,
    /// Value.
    pub value: AttributeValue,
}

/// A process group being written. `'a` is the lifetime of deferred memory.
pub struct Pack<'a> {
    pool: Arc<BufferPool>,
    encoding: Encoding,
    /// Bytes before the first record.
    front: u64,
    blocks: Vec<Placed>,
    pieces: Vec<PackPiece<'a>>,
    /// Bytes of all records so far.
    records: u64,
    /// Bytes of the records that were written through.
    gone: u64,
    expected: u64,
    attributes: Vec<AttributeSpec>,
    /// Written-through blocks whose heads have changed since.
    moved: Vec<usize>,
}

/// The writer of a process group, for its trailer.
#[derive(Debug, Clone, Copy)]
pub struct Writer {
    /// Rank.
    pub rank: u32,
    /// Ranks that write this step.
    pub ranks: u32,
    /// Run id.
    pub run: u64,
    /// Subfile, or [`thalweg_bp::characteristic::SINGLE_FILE`].
    pub file_index: u32,
}

impl<'a> Pack<'a> {
    /// An empty process group. Group name, time name and methods of `header` must not change later: they determine its length.
    pub fn new(pool: Arc<BufferPool>, header: &Header) -> Pack<'a> {
        Pack::with(pool, Encoding::ProcessGroup, (header.length() + SECTION_HEAD) as u64)
    }

    /// An empty pack without encoded records, for methods that take [`blocks`] instead of a process group.
    pub fn of_blocks(pool: Arc<BufferPool>) -> Pack<'a> {
        Pack::with(pool, Encoding::Blocks, 0)
    }

    fn with(pool: Arc<BufferPool>, encoding: Encoding, front: u64) -> Pack<'a> {
        Pack {
            pool,
            encoding,
            front,
            blocks: Vec::with_capacity(32),
            pieces: Vec::new(),
            records: 0,
            gone: 0,
            expected: 0,
            attributes: Vec::new(),
            moved: Vec::new(),
        }
    }

    /// Whether the blocks are encoded as a process group.
    pub fn is_process_group(&self) -> bool {
        self.encoding == Encoding::ProcessGroup
    }

    /// Sets the number of bytes that the caller expects to write, which determines the size of memory chunks.
    pub fn expect(&mut self, bytes: u64) {
        self.expected = bytes;
    }

    /// Bytes that the caller expects to write; 0: not known.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// Whether bytes were written through.
    pub fn has_gone_through(&self) -> bool {
        self.gone > 0
    }

    /// Bytes from the start of the group that are in storage.
    pub fn stored(&self) -> u64 {
        if self.gone > 0 { self.front + self.gone } else { 0 }
    }

    /// Size of the group with one more block.
    pub fn reach(&self, spec: &BlockSpec, payload: u64) -> Reach {
        let mut head = Vec::new();
        self.encoding.head(spec, None, payload, &mut head);
        let length = [self.records, head.len() as u64, payload, self.back(self.blocks.len() + 1)];
        let length = length.into_iter().fold(self.front, u64::saturating_add);
        Reach { stored: self.stored(), length, expected: self.expected }
    }

    /// Bytes behind the records of `blocks` blocks, without attributes.
    fn back(&self, blocks: usize) -> u64 {
        match self.encoding {
            Encoding::ProcessGroup => SECTION_HEAD as u64 + trailer::length(blocks),
            Encoding::Blocks => 0,
        }
    }

    /// Number of blocks so far.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Sets a block's offset and its array's extent along one dimension, which are known only after communication of all ranks.
    ///
    /// # Panics
    /// If there is no such block or dimension.
    pub fn set_place(&mut self, block: usize, dimension: usize, offset: u64, extent: u64) {
        let placed = &mut self.blocks[block];
        let Some(shape) = &mut placed.spec.shape else { return };
        (shape.offset[dimension], shape.global[dimension]) = (offset, extent);
        shape.place_nothing();
        // Otherwise the head is encoded later.
        if let Some(digest) = placed.digest.take() {
            let record = placed.record;
            let head = self.settle(block, digest).to_vec();
            if record < self.gone {
                self.moved.push(block);
            } else if let Some(bytes) = self.in_chunk(block) {
                bytes[..head.len()].copy_from_slice(&head);
            }
        }
    }

    /// The record of a block in a chunk.
    fn in_chunk(&mut self, block: usize) -> Option<&mut [u8]> {
        let placed = &self.blocks[block];
        let length = (placed.head + placed.payload) as usize;
        let mut at = placed.record.checked_sub(self.gone)?;
        for piece in &mut self.pieces {
            match piece {
                PackPiece::Chunk(chunk) => match at.checked_sub(chunk.len() as u64) {
                    Some(behind) => at = behind,
                    None => return chunk.get_mut(at as usize..)?.get_mut(..length),
                },
                // The head of a deferred block is in `Placed`.
                PackPiece::Deferred { block, .. } => {
                    at = at.checked_sub(self.blocks[*block].head + self.blocks[*block].payload)?;
                }
            }
        }
        None
    }

    /// Replaces an earlier block; see [`Earlier`] for the outcome.
    pub fn supersede<'d>(&mut self, block: usize, spec: &BlockSpec, data: impl Into<Rows<'d>>) -> Earlier {
        let data = data.into();
        if self.blocks[block].record < self.gone {
            return Earlier::Stored;
        }
        if !self.takes_the_place(block, spec, &data) {
            self.withdraw(block);
            return Earlier::Withdrawn;
        }
        if self.in_chunk(block).is_none() && !self.make_chunk_of_deferred(block) {
            return Earlier::Stored;
        }
        let digest = look(&data, spec);
        self.blocks[block].spec = spec.clone();
        let head = self.settle(block, digest).to_vec();
        if let Some(bytes) = self.in_chunk(block) {
            let (first, rest) = bytes.split_at_mut(head.len());
            first.copy_from_slice(&head);
            let mut at = 0;
            for row in data.iter() {
                rest[at..at + row.len()].copy_from_slice(row);
                at += row.len();
            }
        }
        Earlier::Replaced
    }

    /// As [`Pack::supersede`], for deferred memory: if the earlier block is also deferred, nothing is copied.
    pub fn supersede_deferred(&mut self, block: usize, spec: &BlockSpec, data: impl Into<Rows<'a>>) -> Earlier {
        let data = data.into();
        if self.takes_the_place(block, spec, &data)
            && let Some(piece) = self.deferred(block)
        {
            let lent = PackPiece::Deferred { block, data: DeferredBytes::Lent(data) };
            let before = std::mem::replace(&mut self.pieces[piece], lent);
            before.give_back(&self.pool);
            let placed = &mut self.blocks[block];
            (placed.spec, placed.digest) = (spec.clone(), None);
            return Earlier::Replaced;
        }
        self.supersede(block, spec, data)
    }

    /// The piece of a deferred block.
    fn deferred(&self, block: usize) -> Option<usize> {
        self.pieces
            .iter()
            .position(|piece| matches!(piece, PackPiece::Deferred { block: other, .. } if *other == block))
    }

    /// Replaces a deferred block's piece by an empty chunk of its size; `false` if the buffer has no room.
    fn make_chunk_of_deferred(&mut self, block: usize) -> bool {
        let length = self.blocks[block].head + self.blocks[block].payload;
        let Some(piece) = self.deferred(block) else { return false };
        let Some(mut chunk) = self.pool.take(length, 0) else { return false };
        chunk.resize(length as usize, 0);
        std::mem::replace(&mut self.pieces[piece], PackPiece::Chunk(chunk)).give_back(&self.pool);
        true
    }

    /// Whether a new block has the same lengths of head and payload as an earlier one.
    fn takes_the_place(&self, block: usize, spec: &BlockSpec, data: &Rows<'_>) -> bool {
        let mut head = Vec::new();
        self.encoding.head(spec, None, data.len() as u64, &mut head);
        let placed = &self.blocks[block];
        (head.len() as u64, data.len() as u64) == (placed.head, placed.payload)
    }

    /// Removes a block that is not in storage, and renumbers later blocks.
    fn withdraw(&mut self, block: usize) {
        if let Some(length) = self.in_chunk(block).map(|bytes| bytes.len()) {
            let mut at = self.blocks[block].record - self.gone;
            for piece in &mut self.pieces {
                let waiting = match piece {
                    PackPiece::Chunk(chunk) if at < chunk.len() as u64 => {
                        chunk.drain(at as usize..at as usize + length);
                        break;
                    }
                    PackPiece::Chunk(chunk) => chunk.len() as u64,
                    PackPiece::Deferred { block, .. } => self.blocks[*block].head + self.blocks[*block].payload,
                };
                at -= waiting;
            }
        } else if let Some(piece) = self.deferred(block) {
            self.pieces.remove(piece).give_back(&self.pool);
        }
        let gone = self.blocks.remove(block);
        let length = gone.head + gone.payload;
        self.records -= length;
        self.blocks[block..].iter_mut().for_each(|later| later.record -= length);
        for piece in &mut self.pieces {
            if let PackPiece::Deferred { block: other, .. } = piece
                && *other > block
            {
                *other -= 1;
            }
        }
    }

    /// Overwrites an earlier block in storage; if the earlier block is still in memory, flushes the pack first.
    ///
    /// # Errors
    /// `Unsupported` if the lengths differ, and the earlier block then stays; errors of the store.
    pub fn overwrite_stored<'d>(
        &mut self,
        block: usize,
        spec: BlockSpec,
        data: impl Into<Rows<'d>>,
        to: &[Through<'_>],
    ) -> Result<()> {
        let data = data.into();
        self.check_overwrites(block, &spec, data.clone())?;
        if self.blocks[block].record >= self.gone {
            self.flush(to, None)?;
        }
        let digest = look(&data, &spec);
        self.blocks[block].spec = spec;
        let record = self.blocks[block].record;
        let head = self.settle(block, digest).to_vec();
        to.iter().try_for_each(|through| {
            let mut at = through.start + self.front + record;
            through.object.write_at(at, &[IoSlice::new(&head)])?;
            at += head.len() as u64;
            data.pieces(GATHERED, |piece| {
                through.object.write_at(at, &[IoSlice::new(piece)])?;
                at += piece.len() as u64;
                Ok(())
            })
        })
    }

    /// Checks that [`Pack::overwrite_stored`] can overwrite an earlier block with this one.
    ///
    /// # Errors
    /// `Unsupported` if the lengths differ.
    pub fn check_overwrites<'d>(&self, block: usize, spec: &BlockSpec, data: impl Into<Rows<'d>>) -> Result<()> {
        let data = data.into();
        if self.takes_the_place(block, spec, &data) {
            return Ok(());
        }
        let (bytes, stored) = (data.len(), self.blocks[block].payload);
        let what = format!(
            "it was written in this step before, and these {stored} bytes are in storage already (large blocks are \
             written at once, and so are all that find no room below the buffer limit): {bytes} bytes cannot take their \
             place; the value written first stays"
        );
        Err(Error::new(ErrorKind::Unsupported, what))
    }

    /// Current size of the group.
    pub fn reached(&self) -> Reach {
        let length = self.front + self.records + self.back(self.blocks.len());
        Reach { stored: self.stored(), length, expected: self.expected }
    }

    /// Writes the changed heads of written-through blocks; the group starts at `start`.
    fn write_moved(&self, object: &dyn WriteObject, start: u64) -> Result<()> {
        self.moved.iter().map(|block| &self.blocks[*block]).try_for_each(|placed| {
            object.write_at(start + self.front + placed.record, &[IoSlice::new(&placed.head_bytes)])
        })
    }

    fn place(&mut self, spec: BlockSpec, payload: u64) -> Result<usize> {
        let mut head = Vec::new();
        self.encoding.head(&spec, None, payload, &mut head);
        self.place_behind(head.len() as u64, spec, payload)
    }

    /// As `place`, of a block whose head has so many bytes.
    fn place_behind(&mut self, head: u64, spec: BlockSpec, payload: u64) -> Result<usize> {
        let end = self.records.checked_add(head).and_then(|e| e.checked_add(payload)).filter(|e| *e < 1 << 62);
        let end =
            end.ok_or_else(|| Error::new(ErrorKind::OutOfBounds, format!("{payload} bytes leave the process group")))?;
        self.blocks.push(Placed { spec, record: self.records, head, payload, digest: None, head_bytes: Vec::new() });
        self.records = end;
        Ok(self.blocks.len() - 1)
    }

    /// Sets the block's final statistics, and returns the head of its record.
    fn settle(&mut self, block: usize, mut digest: Digest) -> &[u8] {
        let encoding = self.encoding;
        let placed = &mut self.blocks[block];
        if let Some(transform) = &placed.spec.transform {
            digest.statistics = transform.statistics.clone();
        }
        let mut head = Vec::with_capacity(placed.head as usize);
        encoding.head(&placed.spec, digest.statistics.as_ref(), placed.payload, &mut head);
        debug_assert_eq!(head.len() as u64, placed.head);
        placed.digest = Some(digest);
        placed.head_bytes = head;
        &placed.head_bytes
    }

    /// Copies a block into the buffer; returns `false`, without a change, if the buffer limit leaves no room.
    ///
    /// # Errors
    /// `OutOfBounds` if the process group exceeds the range of offsets.
    pub fn copy<'d>(&mut self, spec: &BlockSpec, data: impl Into<Rows<'d>>) -> Result<bool> {
        let data = data.into();
        let mut probe = Vec::new();
        self.encoding.head(spec, None, data.len() as u64, &mut probe);
        let need = (probe.len() + data.len()) as u64;
        let fits = matches!(self.pieces.last(), Some(PackPiece::Chunk(c)) if (c.capacity() - c.len()) as u64 >= need);
        if !fits {
            let hint = self.expected.saturating_sub(self.records).max(self.records.min(1 << 24));
            match self.pool.take(need, hint) {
                Some(chunk) => self.pieces.push(PackPiece::Chunk(chunk)),
                None => return Ok(false),
            }
        }
        let block = self.place_behind(probe.len() as u64, spec.clone(), data.len() as u64)?;
        let Some(PackPiece::Chunk(mut chunk)) = self.pieces.pop() else { return Ok(false) };
        let _copying = span(Phase::Copy, data.len() as u64);
        let at = chunk.len();
        chunk.extend_from_slice(&probe);
        let digest = pass::copy(data, spec.element, spec.taken(), &mut chunk);
        let head = self.settle(block, digest);
        chunk[at..at + head.len()].copy_from_slice(head);
        self.pieces.push(PackPiece::Chunk(chunk));
        Ok(true)
    }

    /// Adds a deferred block, whose bytes stay in the caller's memory until close.
    ///
    /// # Errors
    /// As [`Pack::copy`].
    pub fn defer(&mut self, spec: BlockSpec, data: impl Into<Rows<'a>>) -> Result<()> {
        let data = data.into();
        let block = self.place(spec, data.len() as u64)?;
        self.pieces.push(PackPiece::Deferred { block, data: DeferredBytes::Lent(data) });
        Ok(())
    }

    /// Adds a block in memory that the pack keeps until its bytes are written; its values are the first `length` bytes. Nothing is copied:
    /// statistics and checksum are computed when the group is written.
    ///
    /// # Errors
    /// As [`Pack::copy`]; `InvalidArgument` for memory below `length` bytes. The memory is returned.
    pub fn give<M>(&mut self, spec: BlockSpec, memory: M, length: usize) -> std::result::Result<(), (Error, M)>
    where
        M: AsRef<[u8]> + Send + 'static,
    {
        let bytes = memory.as_ref().len();
        if bytes < length {
            let what = format!("the memory has {bytes} bytes, the block {length}");
            return Err((Error::new(ErrorKind::InvalidArgument, what), memory));
        }
        match self.place(spec, length as u64) {
            Ok(block) => {
                let data = DeferredBytes::Given { memory: Box::new(memory), length };
                self.pieces.push(PackPiece::Deferred { block, data });
                Ok(())
            }
            Err(e) => Err((e, memory)),
        }
    }

    /// As [`Pack::copy`], with the statistics and the checksum computed when the group is written: for an output that is written in the
    /// background, whose program waits for nothing but the copy.
    ///
    /// # Errors
    /// As [`Pack::copy`].
    pub fn copy_to_write_later<'d>(&mut self, spec: &BlockSpec, data: impl Into<Rows<'d>>) -> Result<bool> {
        let data = data.into();
        if (data.len() as u64) < WORTH_A_CHUNK {
            return self.copy(spec, data);
        }
        let Some(chunk) = self.copied(&data) else { return Ok(false) };
        match self.place(spec.clone(), data.len() as u64) {
            Ok(block) => self.pieces.push(PackPiece::Deferred { block, data: DeferredBytes::Own(chunk) }),
            Err(e) => {
                self.pool.give(chunk);
                return Err(e);
            }
        }
        Ok(true)
    }

    /// A chunk with these bytes; `None` if the buffer has no room.
    fn copied(&self, data: &Rows<'_>) -> Option<Vec<u8>> {
        let mut chunk = self.pool.take(data.len() as u64, 0)?;
        let _copying = span(Phase::Copy, data.len() as u64);
        data.iter().for_each(|row| chunk.extend_from_slice(row));
        Some(chunk)
    }

    /// Flushes all blocks, then writes this block through to storage; its memory may be reused on return.
    ///
    /// # Errors
    /// As [`Pack::copy`]; errors of the store, after which the pack must be discarded.
    pub fn through<'d>(&mut self, spec: BlockSpec, data: impl Into<Rows<'d>>, to: &[Through<'_>]) -> Result<()> {
        let data = data.into();
        if takes_turns(&data, to.iter().map(|through| through.object)) {
            let block = self.place(spec, data.len() as u64)?;
            let placed = &self.blocks[block];
            let (record, head, length) = (placed.record, placed.head, placed.head + placed.payload);
            to.iter().try_for_each(|t| reserve(t.object, t.start + self.front + record, length))?;
            self.flush(to, None)?;
            let places: Vec<_> = to.iter().map(|t| (t.object, t.start + self.front + record + head)).collect();
            let digest = write_in_turns(&data, &self.blocks[block].spec, &places)?;
            self.settle(block, digest);
            let head = &self.blocks[block].head_bytes;
            to.iter().try_for_each(|t| t.object.write_at(t.start + self.front + record, &[IoSlice::new(head)]))?;
            self.gone = record + length;
            return Ok(());
        }
        let digest = look(&data, &spec);
        let block = self.place(spec, data.len() as u64)?;
        self.settle(block, digest);
        self.flush(to, Some((block, &data)))
    }

    /// Whether a deferred block is to be written in turns.
    fn has_turns(&self, object: &dyn WriteObject) -> bool {
        self.pieces.iter().any(|piece| self.in_turns(piece, object))
    }

    fn in_turns(&self, piece: &PackPiece<'_>, object: &dyn WriteObject) -> bool {
        match piece {
            PackPiece::Deferred { block, data } => {
                self.blocks[*block].digest.is_none() && takes_turns(&data.rows(), std::iter::once(object))
            }
            PackPiece::Chunk(_) => false,
        }
    }

    /// Writes the large deferred blocks of the group at `start` in turns with the pass over them, and settles them; returns their payloads,
    /// relative to the group's start and in order.
    fn write_deferred_in_turns(&mut self, object: &dyn WriteObject, start: u64) -> Result<Vec<Extent>> {
        let mut written = Vec::new();
        for i in 0..self.pieces.len() {
            let PackPiece::Deferred { block, data } = &self.pieces[i] else { continue };
            if !self.in_turns(&self.pieces[i], object) {
                continue;
            }
            let (block, placed) = (*block, &self.blocks[*block]);
            let payload = Extent::new(self.front + placed.record + placed.head, placed.payload);
            let digest = write_in_turns(&data.rows(), &placed.spec, &[(object, start + payload.offset)])?;
            self.settle(block, digest);
            written.push(payload);
        }
        Ok(written)
    }

    /// The bytes that are not in storage, in order; deferred blocks must be settled.
    fn waiting(&self) -> Vec<&[u8]> {
        let mut slices: Vec<&[u8]> = Vec::with_capacity(2 * self.pieces.len() + 2);
        for piece in &self.pieces {
            match piece {
                PackPiece::Chunk(chunk) => slices.push(chunk),
                PackPiece::Deferred { block, data } => {
                    slices.push(self.blocks[*block].head_bytes.as_slice());
                    slices.extend(data.rows().iter());
                }
            }
        }
        slices
    }

    /// Writes all blocks that are not in storage, then one more block.
    fn flush(&mut self, to: &[Through<'_>], more: Option<(usize, &Rows<'_>)>) -> Result<()> {
        self.settle_deferred();
        let mut slices = self.waiting();
        let mut gathered = None;
        if let Some((block, data)) = more {
            slices.push(self.blocks[block].head_bytes.as_slice());
            if data.are_long() {
                slices.extend(data.iter());
            } else {
                gathered = Some(data);
            }
        }
        let before: u64 = slices.iter().map(|s| s.len() as u64).sum();
        let length = before + gathered.map_or(0, |data| data.len() as u64);
        for through in to {
            let mut front = Vec::new();
            let mut at = through.start;
            if self.gone == 0 && self.encoding == Encoding::ProcessGroup {
                through.header.encode(&mut front);
                front.extend_from_slice(&[0; SECTION_HEAD]);
            } else {
                at += self.front + self.gone;
            }
            let io: Vec<IoSlice<'_>> = std::iter::once(front.as_slice())
                .chain(slices.iter().copied())
                .filter(|s| !s.is_empty())
                .map(IoSlice::new)
                .collect();
            reserve(through.object, at, length)?;
            through.object.write_at(at, &io)?;
            let mut at = at + front.len() as u64 + before;
            gathered.map_or(Ok(()), |data| {
                data.pieces(GATHERED, |piece| {
                    through.object.write_at(at, &[IoSlice::new(piece)])?;
                    at += piece.len() as u64;
                    Ok(())
                })
            })?;
        }
        self.gone += length;
        self.give_back();
        Ok(())
    }

    fn give_back(&mut self) {
        self.pieces.drain(..).for_each(|piece| piece.give_back(&self.pool));
    }

    /// Computes the statistics of deferred blocks. Several methods may write one pack: the first one settles it.
    fn settle_deferred(&mut self) {
        for i in 0..self.pieces.len() {
            if let PackPiece::Deferred { block, data } = &self.pieces[i] {
                let (block, placed) = (*block, &self.blocks[*block]);
                if placed.digest.is_none() {
                    let digest = look(&data.rows(), &placed.spec);
                    self.settle(block, digest);
                }
            }
        }
    }

    /// Description and statistics of each block, in the order of writing.
    pub fn facts(&mut self) -> impl Iterator<Item = (&BlockSpec, Option<&Statistics>)> {
        self.settle_deferred();
        self.blocks.iter().map(|placed| (&placed.spec, placed.digest.as_ref().and_then(|d| d.statistics.as_ref())))
    }

    /// The attributes that this rank writes.
    pub fn attributes(&self) -> &[AttributeSpec] {
        &self.attributes
    }

    /// Sets the attributes, which follow the variables.
    pub fn set_attributes(&mut self, attributes: Vec<AttributeSpec>) {
        self.attributes = attributes;
    }

    /// Bytes of the whole group, including the trailer; without encoded records, bytes of the blocks.
    pub fn length(&self) -> u64 {
        match self.encoding {
            Encoding::ProcessGroup => {
                let (attributes, _) = self.encode_attributes();
                self.front + self.records + attributes.len() as u64 + trailer::length(self.blocks.len())
            }
            Encoding::Blocks => self.records,
        }
    }

    /// Bytes of the group that are not in storage.
    pub fn unwritten(&self) -> u64 {
        self.length().saturating_sub(self.stored())
    }
}

impl Drop for Pack<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}
