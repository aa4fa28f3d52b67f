//! One rank's process group while it is being written.
//!
//! Every block is in one of three states: *copied* into a chunk of the process's buffer, *deferred* (the caller promised
//! to leave the memory alone until close: nothing is copied), or *gone through* to storage because the buffer's limit
//! left no room or because a copy would only cost time. Offsets inside the group are known at once, as the head of a
//! record has the same length whatever its statistics turn out to be; where the group lies is known at close.
//!
//! Statistics and checksum of a block are taken in the same pass as its copy ([`thalweg_bp::pass`]).

use crate::buffer::{BufferPool, zeros};
pub use crate::laid::Laid;
use crate::transformed::Applied;
use std::io::IoSlice;
use std::sync::Arc;
use thalweg_bp::pass::{self, Digest};
use thalweg_bp::process_group::{self, Block, Header, SECTION_HEAD};
use thalweg_bp::rows::Rows;
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::{Level, Statistics};
use thalweg_bp::trailer;
use thalweg_layout::WriteObject;
use thalweg_profile::{Phase, span};
use thalweg_types::{AttributeValue, ElementType, Error, ErrorKind, Result, Value};

pub mod blocks;
mod finished;
pub mod owned;

/// Runs of at least this many bytes have their space found before they are written: a quarter faster on ext4.
pub(crate) const WORTH_RESERVING: u64 = 1 << 20;
/// Short rows that find no room in the buffer are written by so many bytes.
const GATHERED: usize = 64 * 1024;

/// What memory is for that cannot be had.
pub(crate) const COPIED: &str = "to copy what lies in the spill file";

pub(crate) fn reserve(object: &dyn WriteObject, offset: u64, length: u64) -> Result<()> {
    if length >= WORTH_RESERVING { object.reserve(offset, length) } else { Ok(()) }
}

/// Statistics and checksum of a block that stays where it is.
fn look(data: &Rows<'_>, spec: &BlockSpec) -> Digest {
    let _taking = span(Phase::Characteristics, data.len() as u64);
    pass::look(data.clone(), spec.element, spec.taken())
}

/// What a block is.
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
    /// How much is recorded.
    pub level: Level,
    /// Value of a scalar or string.
    pub value: Option<Value>,
    /// What its bytes went through; type, shape and level are those before.
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

    /// Level at which statistics are taken of the bytes given: only arrays have any, and those of a transformed block
    /// were taken before.
    pub(crate) fn taken(&self) -> Level {
        if self.shape.is_some() && self.transform.is_none() { self.level } else { Level::Off }
    }
}

struct Placed {
    spec: BlockSpec,
    /// Start of the record, behind the head of the variables' section.
    record: u64,
    /// Bytes of the record before its payload.
    head: u64,
    payload: u64,
    digest: Option<Digest>,
    /// The head, once the statistics in it are known.
    head_bytes: Vec<u8>,
}

/// What the records of a pack are, while it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// Those of a process group: a head, then the bytes.
    ProcessGroup,
    /// The bytes alone.
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

enum Piece<'a> {
    Chunk(Vec<u8>),
    Deferred { block: usize, data: Rows<'a> },
}

/// What became of a block that another one supersedes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// The other block has taken its place.
    Replaced,
    /// It is taken out, numbers of later blocks have gone down by one; the other block is yet to be added.
    Withdrawn,
    /// Nothing has changed, as its bytes are in storage, or there is no room for those of the other block: see
    /// [`Pack::overwrite_stored`].
    Stored,
}

/// Where bytes go that cannot wait for close: an object and the byte where the group starts in it.
pub struct Through<'t> {
    /// The object.
    pub object: &'t dyn WriteObject,
    /// Where the process group starts.
    pub start: u64,
    /// Its header, for a first version of it.
    pub header: &'t Header,
}

/// How far a process group reaches while it is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Bytes from its start that are in storage already.
    pub stored: u64,
    /// Bytes of the whole group if the block in question were the last and no attributes followed.
    pub length: u64,
    /// What the caller expects to write; 0 where it did not say.
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

/// An attribute with its value settled.
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

/// A process group in the making. `'a` is how long deferred memory stays as it is.
pub struct Pack<'a> {
    pool: Arc<BufferPool>,
    encoding: Encoding,
    /// Bytes before the first record.
    front: u64,
    blocks: Vec<Placed>,
    pieces: Vec<Piece<'a>>,
    /// Bytes of all records so far.
    records: u64,
    /// Bytes of these that went through already.
    gone: u64,
    expected: u64,
    attributes: Vec<AttributeSpec>,
    /// Blocks that went through and whose heads have changed since.
    moved: Vec<usize>,
}

/// Who writes, for the trailer.
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
    /// An empty group. `header` fixes the length of the header: group name, time name and methods.
    pub fn new(pool: Arc<BufferPool>, header: &Header) -> Pack<'a> {
        Pack::with(pool, Encoding::ProcessGroup, (header.length() + SECTION_HEAD) as u64)
    }

    /// No blocks yet, and none will be encoded: for methods that take [`blocks`] and no process group.
    pub fn of_blocks(pool: Arc<BufferPool>) -> Pack<'a> {
        Pack::with(pool, Encoding::Blocks, 0)
    }

    fn with(pool: Arc<BufferPool>, encoding: Encoding, front: u64) -> Pack<'a> {
        Pack {
            pool,
            encoding,
            front,
            blocks: Vec::new(),
            pieces: Vec::new(),
            records: 0,
            gone: 0,
            expected: 0,
            attributes: Vec::new(),
            moved: Vec::new(),
        }
    }

    /// Whether a process group is made of the blocks; if not, they wait as they were written.
    pub fn is_process_group(&self) -> bool {
        self.encoding == Encoding::ProcessGroup
    }

    /// How many bytes the caller expects to write: decides how much memory is taken at a time.
    pub fn expect(&mut self, bytes: u64) {
        self.expected = bytes;
    }

    /// What the caller expects to write; 0 where it did not say.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// Whether bytes went through already.
    pub fn has_gone_through(&self) -> bool {
        self.gone > 0
    }

    /// Bytes from the start of the group that are in storage already.
    pub fn stored(&self) -> u64 {
        if self.gone > 0 { self.front + self.gone } else { 0 }
    }

    /// How far the group reaches with one more block.
    pub fn reach(&self, spec: &BlockSpec, payload: u64) -> Reach {
        let mut head = Vec::new();
        self.encoding.head(spec, None, payload, &mut head);
        let length = [self.records, head.len() as u64, payload, self.back(self.blocks.len() + 1)];
        let length = length.into_iter().fold(self.front, u64::saturating_add);
        Reach { stored: self.stored(), length, expected: self.expected }
    }

    /// Bytes behind so many records, without attributes.
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

    /// Says where a block lies along one dimension of its array, and how long that is: known only once all ranks are asked.
    ///
    /// # Panics
    /// Where there is no such block or dimension.
    pub fn set_place(&mut self, block: usize, dimension: usize, offset: u64, extent: u64) {
        let placed = &mut self.blocks[block];
        let Some(shape) = &mut placed.spec.shape else { return };
        (shape.offset[dimension], shape.global[dimension]) = (offset, extent);
        shape.place_nothing();
        // Else the head is made later.
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

    /// The record of a block that waits in a chunk.
    fn in_chunk(&mut self, block: usize) -> Option<&mut [u8]> {
        let placed = &self.blocks[block];
        let length = (placed.head + placed.payload) as usize;
        let mut at = placed.record.checked_sub(self.gone)?;
        for piece in &mut self.pieces {
            match piece {
                Piece::Chunk(chunk) => match at.checked_sub(chunk.len() as u64) {
                    Some(behind) => at = behind,
                    None => return chunk.get_mut(at as usize..)?.get_mut(..length),
                },
                // Its head is not here but with the block.
                Piece::Deferred { block, .. } => {
                    at = at.checked_sub(self.blocks[*block].head + self.blocks[*block].payload)?;
                }
            }
        }
        None
    }

    /// Lets a block take the place of one that was given before; see [`Earlier`] for what became of that.
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

    /// As [`Pack::supersede`], for memory that stays as it is until close: where the earlier block is such, too, nothing is
    /// copied.
    pub fn supersede_deferred(&mut self, block: usize, spec: &BlockSpec, data: impl Into<Rows<'a>>) -> Earlier {
        let data = data.into();
        if self.takes_the_place(block, spec, &data)
            && let Some(piece) = self.deferred(block)
        {
            self.pieces[piece] = Piece::Deferred { block, data };
            let placed = &mut self.blocks[block];
            (placed.spec, placed.digest) = (spec.clone(), None);
            return Earlier::Replaced;
        }
        self.supersede(block, spec, data)
    }

    /// The piece of a block that lies with the program.
    fn deferred(&self, block: usize) -> Option<usize> {
        self.pieces.iter().position(|piece| matches!(piece, Piece::Deferred { block: other, .. } if *other == block))
    }

    /// Makes room in the buffer for a block that lies with the program, in its place; `false` where there is none.
    fn make_chunk_of_deferred(&mut self, block: usize) -> bool {
        let length = self.blocks[block].head + self.blocks[block].payload;
        let Some(piece) = self.deferred(block) else { return false };
        let Some(mut chunk) = self.pool.take(length, 0) else { return false };
        chunk.resize(length as usize, 0);
        self.pieces[piece] = Piece::Chunk(chunk);
        true
    }

    /// Whether a block has the length of an earlier one, in head and payload.
    fn takes_the_place(&self, block: usize, spec: &BlockSpec, data: &Rows<'_>) -> bool {
        let mut head = Vec::new();
        self.encoding.head(spec, None, data.len() as u64, &mut head);
        let placed = &self.blocks[block];
        (head.len() as u64, data.len() as u64) == (placed.head, placed.payload)
    }

    /// Takes out a block that waits; numbers of later blocks go down by one.
    fn withdraw(&mut self, block: usize) {
        if let Some(length) = self.in_chunk(block).map(|bytes| bytes.len()) {
            let mut at = self.blocks[block].record - self.gone;
            for piece in &mut self.pieces {
                let waiting = match piece {
                    Piece::Chunk(chunk) if at < chunk.len() as u64 => {
                        chunk.drain(at as usize..at as usize + length);
                        break;
                    }
                    Piece::Chunk(chunk) => chunk.len() as u64,
                    Piece::Deferred { block, .. } => self.blocks[*block].head + self.blocks[*block].payload,
                };
                at -= waiting;
            }
        } else {
            self.pieces.retain(|piece| !matches!(piece, Piece::Deferred { block: other, .. } if *other == block));
        }
        let gone = self.blocks.remove(block);
        let length = gone.head + gone.payload;
        self.records -= length;
        self.blocks[block..].iter_mut().for_each(|later| later.record -= length);
        for piece in &mut self.pieces {
            if let Piece::Deferred { block: other, .. } = piece
                && *other > block
            {
                *other -= 1;
            }
        }
    }

    /// Writes a block over an earlier one that is in storage, after all that waits, where that one waits, too.
    ///
    /// # Errors
    /// `Unsupported` where it has another length than the earlier one, which then stays; those of the store.
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

    /// Whether [`Pack::overwrite_stored`] can put this block over an earlier one.
    ///
    /// # Errors
    /// `Unsupported` where it has another length.
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

    /// How far the group reaches as it is.
    pub fn reached(&self) -> Reach {
        let length = self.front + self.records + self.back(self.blocks.len());
        Reach { stored: self.stored(), length, expected: self.expected }
    }

    /// Writes the heads that have changed since they went through; the group starts at `start`.
    fn write_moved(&self, object: &dyn WriteObject, start: u64) -> Result<()> {
        self.moved.iter().map(|block| &self.blocks[*block]).try_for_each(|placed| {
            object.write_at(start + self.front + placed.record, &[IoSlice::new(&placed.head_bytes)])
        })
    }

    fn place(&mut self, spec: BlockSpec, payload: u64) -> Result<usize> {
        let mut head = Vec::new();
        self.encoding.head(&spec, None, payload, &mut head);
        let head = head.len() as u64;
        let end = self.records.checked_add(head).and_then(|e| e.checked_add(payload)).filter(|e| *e < 1 << 62);
        let end =
            end.ok_or_else(|| Error::new(ErrorKind::OutOfBounds, format!("{payload} bytes leave the process group")))?;
        self.blocks.push(Placed { spec, record: self.records, head, payload, digest: None, head_bytes: Vec::new() });
        self.records = end;
        Ok(self.blocks.len() - 1)
    }

    /// Takes the block's statistics as settled and returns the head of its record.
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

    /// Copies a block into the buffer; returns `false`, and does nothing, where the limit leaves no room.
    ///
    /// # Errors
    /// `OutOfBounds` where the process group leaves the range of offsets.
    pub fn copy<'d>(&mut self, spec: &BlockSpec, data: impl Into<Rows<'d>>) -> Result<bool> {
        let data = data.into();
        let mut probe = Vec::new();
        self.encoding.head(spec, None, data.len() as u64, &mut probe);
        let need = (probe.len() + data.len()) as u64;
        let fits = matches!(self.pieces.last(), Some(Piece::Chunk(c)) if (c.capacity() - c.len()) as u64 >= need);
        if !fits {
            let hint = self.expected.saturating_sub(self.records).max(self.records.min(1 << 24));
            match self.pool.take(need, hint) {
                Some(chunk) => self.pieces.push(Piece::Chunk(chunk)),
                None => return Ok(false),
            }
        }
        let block = self.place(spec.clone(), data.len() as u64)?;
        let Some(Piece::Chunk(mut chunk)) = self.pieces.pop() else { return Ok(false) };
        let _copying = span(Phase::Copy, data.len() as u64);
        let at = chunk.len();
        chunk.extend_from_slice(&probe);
        let digest = pass::copy(data, spec.element, spec.taken(), &mut chunk);
        let head = self.settle(block, digest);
        chunk[at..at + head.len()].copy_from_slice(head);
        self.pieces.push(Piece::Chunk(chunk));
        Ok(true)
    }

    /// Keeps a block where it is until close.
    ///
    /// # Errors
    /// As [`Pack::copy`].
    pub fn defer(&mut self, spec: BlockSpec, data: impl Into<Rows<'a>>) -> Result<()> {
        let data = data.into();
        let block = self.place(spec, data.len() as u64)?;
        self.pieces.push(Piece::Deferred { block, data });
        Ok(())
    }

    /// Writes everything that waits, and then this block, to storage; its memory is free when this returns.
    ///
    /// # Errors
    /// As [`Pack::copy`]; those of the store, after which the pack is of no use.
    pub fn through<'d>(&mut self, spec: BlockSpec, data: impl Into<Rows<'d>>, to: &[Through<'_>]) -> Result<()> {
        let data = data.into();
        let digest = look(&data, &spec);
        let block = self.place(spec, data.len() as u64)?;
        self.settle(block, digest);
        self.flush(to, Some((block, &data)))
    }

    /// What waits, one piece behind the other; everything deferred must be settled.
    fn waiting(&self) -> Vec<&[u8]> {
        let mut slices: Vec<&[u8]> = Vec::with_capacity(2 * self.pieces.len() + 2);
        for piece in &self.pieces {
            match piece {
                Piece::Chunk(chunk) => slices.push(chunk),
                Piece::Deferred { block, data } => {
                    slices.push(self.blocks[*block].head_bytes.as_slice());
                    slices.extend(data.iter());
                }
            }
        }
        slices
    }

    /// Writes what waits, and one more block behind it.
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
        for piece in self.pieces.drain(..) {
            if let Piece::Chunk(chunk) = piece {
                self.pool.give(chunk);
            }
        }
    }

    /// Takes the statistics of deferred blocks. Several methods may write one pack: the first settles it.
    fn settle_deferred(&mut self) {
        for i in 0..self.pieces.len() {
            if let Piece::Deferred { block, data } = &self.pieces[i] {
                let (block, placed) = (*block, &self.blocks[*block]);
                if placed.digest.is_none() {
                    let digest = look(data, &placed.spec);
                    self.settle(block, digest);
                }
            }
        }
    }

    /// What each block is, in the order they were written, and what is known of its values.
    pub fn facts(&mut self) -> impl Iterator<Item = (&BlockSpec, Option<&Statistics>)> {
        self.settle_deferred();
        self.blocks.iter().map(|placed| (&placed.spec, placed.digest.as_ref().and_then(|d| d.statistics.as_ref())))
    }

    /// The attributes, those of rank 0 on rank 0.
    pub fn attributes(&self) -> &[AttributeSpec] {
        &self.attributes
    }

    /// Sets the attributes, written behind the variables.
    pub fn set_attributes(&mut self, attributes: Vec<AttributeSpec>) {
        self.attributes = attributes;
    }

    /// Bytes of the whole group, trailer included; of blocks that are not encoded, their own.
    pub fn length(&self) -> u64 {
        match self.encoding {
            Encoding::ProcessGroup => {
                let (attributes, _) = self.encode_attributes();
                self.front + self.records + attributes.len() as u64 + trailer::length(self.blocks.len())
            }
            Encoding::Blocks => self.records,
        }
    }

    /// Bytes of the group that are not in storage yet.
    pub fn unwritten(&self) -> u64 {
        self.length().saturating_sub(self.stored())
    }
}

impl Drop for Pack<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}
