//! A pack without blocks in the program's memory, for methods that complete an output after the program's close.

use super::{Pack, Piece, Through};
use thalweg_types::{Error, ErrorKind, Result};

impl Pack<'_> {
    /// Copies deferred blocks into the buffer. Returns `false` if the buffer limit does not allow all of them; the remaining blocks
    /// stay deferred.
    ///
    /// # Cost
    /// One copy of the deferred blocks.
    pub fn copy_deferred(&mut self) -> bool {
        self.settle_deferred();
        for piece in &mut self.pieces {
            let Piece::Deferred { block, data } = piece else { continue };
            let placed = &self.blocks[*block];
            let Some(mut chunk) = self.pool.take(placed.head + placed.payload, 0) else { return false };
            chunk.extend_from_slice(&placed.head_bytes);
            data.iter().for_each(|row| chunk.extend_from_slice(row));
            *piece = Piece::Chunk(chunk);
        }
        true
    }

    /// Flushes all buffered and deferred blocks to storage.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn spill(&mut self, to: &[Through<'_>]) -> Result<()> {
        self.flush(to, None)
    }

    /// An empty pack of the same kind, for a rank whose part of the output is lost.
    pub fn emptied(&self) -> Pack<'static> {
        Pack::with(self.pool.clone(), self.encoding, self.front)
    }

    /// Converts to a pack without a lifetime. Nothing is copied.
    ///
    /// # Errors
    /// `InvalidArgument` if blocks are deferred: see [`Pack::copy_deferred`] and [`Pack::spill`].
    pub fn into_owned(mut self) -> Result<Pack<'static>> {
        if self.pieces.iter().any(|piece| matches!(piece, Piece::Deferred { .. })) {
            return Err(Error::new(ErrorKind::InvalidArgument, "a deferred block is still in the program's memory"));
        }
        let chunk = |piece| match piece {
            Piece::Chunk(chunk) => Some(Piece::Chunk(chunk)),
            Piece::Deferred { .. } => None,
        };
        Ok(Pack {
            pool: self.pool.clone(),
            encoding: self.encoding,
            front: self.front,
            blocks: std::mem::take(&mut self.blocks),
            pieces: self.pieces.drain(..).filter_map(chunk).collect(),
            records: self.records,
            gone: self.gone,
            expected: self.expected,
            attributes: std::mem::take(&mut self.attributes),
            moved: std::mem::take(&mut self.moved),
            has_spare_core: self.has_spare_core,
        })
    }
}
