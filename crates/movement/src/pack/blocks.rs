//! The blocks of an output as the program wrote them, for methods that do not use process groups: HDF5, NetCDF, VTK, live
//! viewers.
//!
//! | question | answer |
//! |---|---|
//! | content of a block | name, path, type, shape (global extents, offsets, local extents), statistics, and the bytes of its values |
//! | location of the bytes | the process's buffer, the program's memory (deferred), or the object that the method returned from [`Method::through`](crate::Method::through) |
//! | access | [`CloseRequest::blocks`](crate::method::CloseRequest::blocks), any number of times |
//! | cost | no copy for contiguous blocks in memory without a transform; other blocks are read into memory one at a time |
//! | transforms | not applied if all methods of the group take blocks; if another method takes process groups, blocks are stored transformed and decoded here |

use crate::buffer::zeros;
use crate::pack::{BlockSpec, Pack, PackPiece, Placed};
use std::borrow::Cow;
use thalweg_bp::rows::Rows;
use thalweg_bp::statistics::Statistics;
use thalweg_layout::WriteObject;
use thalweg_transform::Block;
use thalweg_types::{ByteOrder, Error, ErrorKind, Result};

/// The data that a method takes at close, returned by [`Method::takes`](crate::Method::takes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Takes {
    /// A process group, for a BP file.
    #[default]
    ProcessGroup,
    /// The blocks as they were written. If no method of the group takes process groups, none is encoded: blocks are buffered
    /// without record heads, and transforms are not applied.
    Blocks,
    /// No values.
    Nothing,
}

/// The location of a block's bytes.
enum BlockLocation<'p> {
    /// In the process's buffer or the program's memory.
    Memory(Rows<'p>),
    /// In an object.
    Stored {
        object: &'p dyn WriteObject,
        /// Offset of the first byte.
        offset: u64,
        length: u64,
    },
}

impl BlockLocation<'_> {
    fn length(&self) -> u64 {
        match self {
            BlockLocation::Memory(rows) => rows.len() as u64,
            BlockLocation::Stored { length, .. } => *length,
        }
    }
}

/// A block of the output.
pub struct WrittenBlock<'p> {
    spec: &'p BlockSpec,
    statistics: Option<&'p Statistics>,
    location: BlockLocation<'p>,
    fortran: bool,
}

impl<'p> WrittenBlock<'p> {
    fn new(
        spec: &'p BlockSpec,
        statistics: Option<&'p Statistics>,
        location: BlockLocation<'p>,
        fortran: bool,
    ) -> WrittenBlock<'p> {
        WrittenBlock { spec, statistics, location, fortran }
    }

    /// Name, path, type, shape, and the value of a scalar or text. If the process group's header has `fortran` set, shapes list
    /// the fastest dimension first.
    pub fn spec(&self) -> &'p BlockSpec {
        self.spec
    }

    /// Statistics of the values, at the level that the schema requests.
    pub fn statistics(&self) -> Option<&'p Statistics> {
        self.statistics
    }

    /// Bytes of the values.
    ///
    /// # Errors
    /// `OutOfBounds` for a transformed block of more than 2^62 bytes.
    pub fn length(&self) -> Result<u64> {
        match &self.spec.transform {
            Some(_) => Block { name: &self.spec.name, element: self.spec.element, extents: &self.extents() }.bytes(),
            None => Ok(self.location.length()),
        }
    }

    /// The values in memory, contiguous or as rows; `None` if they are spilled or transformed.
    pub fn in_memory(&self) -> Option<Rows<'p>> {
        match &self.location {
            BlockLocation::Memory(rows) if self.spec.transform.is_none() => Some(rows.clone()),
            _ => None,
        }
    }

    /// Whether its bytes went to an object before the close.
    pub fn is_stored(&self) -> bool {
        matches!(self.location, BlockLocation::Stored { .. })
    }

    /// The object with the values and the offset of the first byte there, if they were spilled as they are; `None` if they are in memory or
    /// transformed.
    pub fn spilled(&self) -> Option<(&'p dyn WriteObject, u64)> {
        match &self.location {
            BlockLocation::Stored { object, offset, .. } if self.spec.transform.is_none() => Some((*object, *offset)),
            _ => None,
        }
    }

    /// The values in this machine's byte order, in the order of the block.
    ///
    /// # Errors
    /// `NoMemory`; `Torn` if the spill file no longer contains the bytes; errors of the store; `Corrupt` if a transform cannot
    /// be reversed.
    /// # Cost
    /// No copy for a contiguous block in memory without a transform; else memory for the block, twice for a spilled block with a
    /// transform.
    pub fn values(&self) -> Result<Cow<'p, [u8]>> {
        let stored: Cow<'p, [u8]> = match &self.location {
            BlockLocation::Memory(rows) => rows.as_one().map_or_else(|| Cow::Owned(rows.to_vec()), Cow::Borrowed),
            BlockLocation::Stored { object, offset, length } => Cow::Owned(self.read(*object, *offset, *length)?),
        };
        let Some(transform) = &self.spec.transform else { return Ok(stored) };
        let extents = self.extents();
        let block = Block { name: &self.spec.name, element: self.spec.element, extents: &extents };
        let mut values = zeros(usize::try_from(block.bytes()?).unwrap_or(usize::MAX), "for the values of a block")?;
        thalweg_transform::decode(transform.uid, &transform.metadata, &block, ByteOrder::NATIVE, &stored, &mut values)
            .map_err(|e| e.in_variable(&*self.spec.name))?;
        Ok(Cow::Owned(values))
    }

    fn read(&self, object: &dyn WriteObject, offset: u64, length: u64) -> Result<Vec<u8>> {
        let mut bytes = zeros(usize::try_from(length).unwrap_or(usize::MAX), "for a block that was spilled")?;
        match object.read_at(offset, &mut bytes)? == bytes.len() {
            true => Ok(bytes),
            false => Err(Error::new(ErrorKind::Torn, "bytes written before are lost")
                .at_byte(offset)
                .in_variable(&*self.spec.name)),
        }
    }

    /// Extents of the block, slowest dimension first.
    fn extents(&self) -> Vec<u64> {
        let mut extents = self.spec.shape.as_ref().map_or(Vec::new(), |shape| shape.local.clone());
        if self.fortran {
            extents.reverse();
        }
        extents
    }
}

impl Pack<'_> {
    /// The blocks as they were written, in that order.
    ///
    /// - `spilled`: the object with written-through bytes, and the offset of the group in it, as
    ///   [`Method::through`](crate::Method::through) returned them; `fortran`: shapes list the fastest dimension first.
    ///
    /// # Errors
    /// `InvalidArgument` if bytes were written through and `spilled` is `None`.
    /// # Cost
    /// Computes statistics of deferred blocks, unless this was done before. No values are copied.
    pub fn blocks<'p>(
        &'p mut self,
        spilled: Option<(&'p dyn WriteObject, u64)>,
        fortran: bool,
    ) -> Result<Vec<WrittenBlock<'p>>> {
        self.settle_deferred();
        let mut locations: Vec<Option<BlockLocation<'p>>> = Vec::with_capacity(self.blocks.len());
        for placed in self.blocks.iter().take_while(|placed| placed.record < self.gone) {
            let (object, start) =
                spilled.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "where bytes went through to is lost"))?;
            let offset = start + self.front + placed.record + placed.head;
            locations.push(Some(BlockLocation::Stored { object, offset, length: placed.payload }));
        }
        let mut end = self.gone;
        for piece in &self.pieces {
            match piece {
                PackPiece::Chunk(chunk) => {
                    let start = end;
                    end += chunk.len() as u64;
                    let here = self.blocks[locations.len()..].iter().take_while(|placed| placed.record < end);
                    let at = |placed: &Placed| (placed.record + placed.head - start) as usize;
                    let bytes = |placed: &Placed| chunk.get(at(placed)..)?.get(..placed.payload as usize);
                    let found: Vec<_> = here.map(|p| bytes(p).map(|b| BlockLocation::Memory(Rows::from(b)))).collect();
                    locations.extend(found);
                }
                PackPiece::Deferred { block, data } => {
                    end += self.blocks[*block].head + self.blocks[*block].payload;
                    // Empty blocks without heads between two pieces are in neither piece.
                    locations.resize_with(*block, || Some(BlockLocation::Memory(Rows::from(&[][..]))));
                    locations.push(Some(BlockLocation::Memory(data.rows())));
                }
            }
        }
        locations.resize_with(self.blocks.len(), || Some(BlockLocation::Memory(Rows::from(&[][..]))));
        let blocks = self.blocks.iter().zip(locations).map(|(placed, location)| {
            let statistics = placed.digest.as_ref().and_then(|digest| digest.statistics.as_ref());
            let lost = || Error::new(ErrorKind::InvalidArgument, "the bytes of a block are lost");
            let location = location.ok_or_else(|| lost().in_variable(&*placed.spec.name))?;
            Ok(WrittenBlock::new(&placed.spec, statistics, location, fortran))
        });
        blocks.collect()
    }
}
