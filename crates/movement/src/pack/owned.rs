//! A pack without blocks in the program's memory, for methods that complete an output after the program's close.

use super::{DeferredBytes, Pack, PackPiece, Through};
use thalweg_types::{Error, ErrorKind, Result};

impl Pack<'_> {
    /// Copies deferred blocks into the buffer; their statistics are computed when the group is written. Returns `false` if the buffer
    /// limit does not allow all of them; the remaining blocks stay deferred.
    ///
    /// # Cost
    /// One copy of the deferred blocks.
    pub fn copy_deferred(&mut self) -> bool {
        for at in 0..self.pieces.len() {
            let PackPiece::Deferred { data: DeferredBytes::Lent(rows), .. } = &self.pieces[at] else { continue };
            let Some(chunk) = self.copied(rows) else { return false };
            if let PackPiece::Deferred { data, .. } = &mut self.pieces[at] {
                *data = DeferredBytes::Own(chunk);
            }
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
    /// `InvalidArgument` if blocks are in the program's memory: see [`Pack::copy_deferred`] and [`Pack::spill`].
    pub fn into_owned(mut self) -> Result<Pack<'static>> {
        let is_lent = |piece: &PackPiece<'_>| matches!(piece, PackPiece::Deferred { data: DeferredBytes::Lent(_), .. });
        if self.pieces.iter().any(is_lent) {
            return Err(Error::new(ErrorKind::InvalidArgument, "a deferred block is still in the program's memory"));
        }
        let own = |piece| match piece {
            PackPiece::Chunk(chunk) => Some(PackPiece::Chunk(chunk)),
            PackPiece::Deferred { data: DeferredBytes::Lent(_), .. } => None,
            PackPiece::Deferred { block, data: DeferredBytes::Own(chunk) } => {
                Some(PackPiece::Deferred { block, data: DeferredBytes::Own(chunk) })
            }
            PackPiece::Deferred { block, data: DeferredBytes::Given { memory, length } } => {
                Some(PackPiece::Deferred { block, data: DeferredBytes::Given { memory, length } })
            }
        };
        Ok(Pack {
            pool: self.pool.clone(),
            encoding: self.encoding,
            front: self.front,
            blocks: std::mem::take(&mut self.blocks),
            pieces: self.pieces.drain(..).filter_map(own).collect(),
            records: self.records,
            gone: self.gone,
            expected: self.expected,
            attributes: std::mem::take(&mut self.attributes),
            moved: std::mem::take(&mut self.moved),
        })
    }
}
