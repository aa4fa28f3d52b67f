//! The bytes of a block in the program's memory: contiguous, or rows of a box in a larger array.

use thalweg_types::memory_selection::Runs;
use thalweg_types::{Error, ErrorKind, MemorySelection, Result};

/// Rows of at least this many bytes are written from their place in memory; shorter rows are gathered first.
const LONG: usize = 4096;

/// The bytes of a block in memory, in the order of the block.
#[derive(Debug, Clone)]
pub struct Rows<'d> {
    data: &'d [u8],
    /// Starts and length of the rows, in elements, and the bytes of an element.
    rows: Option<(Runs, usize)>,
}

impl<'d> From<&'d [u8]> for Rows<'d> {
    fn from(data: &'d [u8]) -> Rows<'d> {
        Rows { data, rows: None }
    }
}

impl<'d> From<&'d Vec<u8>> for Rows<'d> {
    fn from(data: &'d Vec<u8>) -> Rows<'d> {
        Rows::from(data.as_slice())
    }
}

impl<'d> Rows<'d> {
    /// A block of extents `count`, with elements of `size` bytes, in `data`, an array with the shape of `memory`.
    ///
    /// # Errors
    /// As [`MemorySelection::check`]; `InvalidArgument` where `data` has another length than the shape of `memory`.
    pub fn in_memory(data: &'d [u8], memory: &MemorySelection, count: &[u64], size: u64) -> Result<Rows<'d>> {
        let runs = memory.runs(count)?;
        let elements = memory.elements()?;
        if elements.checked_mul(size) != Some(data.len() as u64) {
            let what = format!("{} bytes were given, a memory of {elements} elements has {size} each", data.len());
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let rows = Rows { data, rows: Some((runs, size as usize)) };
        Ok(match (rows.count(), rows.iter().next()) {
            (0, _) => Rows::from(&data[..0]),
            (1, Some(row)) => Rows::from(row),
            _ => rows,
        })
    }

    fn count(&self) -> usize {
        self.rows.as_ref().map_or(1, |(runs, _)| runs.size_hint().0)
    }

    /// Bytes of a row.
    fn row(&self) -> usize {
        self.rows.as_ref().map_or(self.data.len(), |(runs, size)| runs.length() as usize * size)
    }

    /// Bytes of the block.
    pub fn len(&self) -> usize {
        self.count() * self.row()
    }

    /// Whether the block is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the rows are long enough to be written without gathering.
    pub fn are_long(&self) -> bool {
        self.rows.is_none() || self.row() >= LONG
    }

    /// The bytes of the block, if they are contiguous.
    pub fn as_one(&self) -> Option<&'d [u8]> {
        self.rows.is_none().then_some(self.data)
    }

    /// The rows.
    pub fn iter(&self) -> impl Iterator<Item = &'d [u8]> + use<'d> {
        let (data, row) = (self.data, self.row());
        let (runs, size) = self.rows.clone().map_or((None, 1), |(runs, size)| (Some(runs), size));
        let one = runs.is_none().then_some(0u64);
        let starts = runs.into_iter().flatten().chain(one);
        starts.map(move |start| {
            let at = start as usize * size;
            &data[at..at + row]
        })
    }

    /// Passes the bytes to `each` in pieces of `length` bytes, the last one shorter: without a copy if a row has as many bytes,
    /// gathered otherwise. The pieces do not depend on the block's memory layout.
    ///
    /// # Errors
    /// Errors of `each`, which is not called again then.
    pub fn pieces<E>(
        &self,
        length: usize,
        mut each: impl FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        if self.rows.is_none() {
            return self.data.chunks(length).try_for_each(each);
        }
        let mut piece = Vec::with_capacity(length.min(self.len()));
        for mut row in self.iter() {
            while !row.is_empty() {
                if piece.is_empty() && row.len() >= length {
                    each(&row[..length])?;
                    row = &row[length..];
                    continue;
                }
                let n = row.len().min(length - piece.len());
                piece.extend_from_slice(&row[..n]);
                row = &row[n..];
                if piece.len() == length {
                    each(&piece)?;
                    piece.clear();
                }
            }
        }
        if piece.is_empty() { Ok(()) } else { each(&piece) }
    }

    /// A contiguous copy of the block's bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        self.iter().for_each(|row| all.extend_from_slice(row));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_gives_the_same_pieces_wherever_it_lies() {
        let data: Vec<u8> = (0..=255).collect();
        let memory = MemorySelection::new([8, 16], [2, 3]);
        let rows = Rows::in_memory(&data, &memory, &[5, 7], 2).unwrap();
        let block = rows.to_vec();
        assert_eq!((rows.len(), block.len()), (70, 70));
        assert_eq!(block[..3], [70, 71, 72]);
        assert_eq!(block[14], 102);
        for length in [1, 5, 14, 16, 70, 1000] {
            let of = |rows: &Rows<'_>| {
                let mut pieces = Vec::new();
                rows.pieces(length, |p| {
                    pieces.push(p.to_vec());
                    Ok::<(), ()>(())
                })
                .unwrap();
                pieces
            };
            assert_eq!(of(&rows), of(&Rows::from(block.as_slice())), "{length}");
        }
    }

    #[test]
    fn memory_of_another_size_is_refused() {
        let data = [0u8; 100];
        for (shape, kind) in [([5, 5], ErrorKind::InvalidArgument), ([2, 13], ErrorKind::OutOfBounds)] {
            let refused = Rows::in_memory(&data, &MemorySelection::new(shape, [1, 1]), &[2, 2], 2).unwrap_err();
            assert_eq!(refused.kind(), kind);
        }
        assert!(Rows::in_memory(&data, &MemorySelection::new([5, 10], [5, 1]), &[0, 3], 2).unwrap().is_empty());
    }
}
