//! Placement as pure functions: from the sizes of all ranks to the extents that each rank writes. Nothing here does I/O.
//!
//! A rank of a running program knows its own size and the result of a scan over the ranks; a test or a simulated machine knows
//! all sizes. Both call the same functions.

pub mod adaptive;
pub mod domains;
pub mod sets;
pub mod stripes;
pub mod turns;

use thalweg_types::{Error, ErrorKind, Extent, Result};

/// A file of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum File {
    /// The file shared by all ranks.
    Shared,
    /// The subfile of this number.
    Subfile(u32),
}

/// The extent that a rank writes, and its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The writing rank.
    pub rank: u32,
    /// The file.
    pub file: File,
    /// The extent in the file.
    pub extent: Extent,
    /// The turn, from 0; ranks of one turn write concurrently.
    pub turn: u32,
}

/// The extent of one rank's process group in a shared file: behind those of all lower ranks.
///
/// - `base`: first free byte of the file; `before`: bytes of all lower ranks; `size`: bytes of this rank.
///
/// # Errors
/// `OutOfBounds` where the file would pass 2^63 bytes.
pub fn shared(rank: u32, base: u64, before: u64, size: u64) -> Result<Placement> {
    let offset = base.checked_add(before);
    let end = offset.and_then(|o| o.checked_add(size)).filter(|end| *end < 1 << 63);
    match (offset, end) {
        (Some(offset), Some(_)) => {
            Ok(Placement { rank, file: File::Shared, extent: Extent::new(offset, size), turn: 0 })
        }
        _ => Err(Error::new(
            ErrorKind::OutOfBounds,
            format!("{size} bytes after {base} + {before} exceed the largest offset"),
        )
        .at_rank(rank)),
    }
}

/// The extents of all ranks in a shared file.
///
/// # Errors
/// As [`shared`].
pub fn shared_by_all(base: u64, sizes: &[u64]) -> Result<Vec<Placement>> {
    let mut before = 0u64;
    let mut places = Vec::with_capacity(sizes.len());
    for (rank, size) in sizes.iter().enumerate() {
        places.push(shared(rank as u32, base, before, *size)?);
        before = before.saturating_add(*size);
    }
    Ok(places)
}

/// The extent of one rank's process group in its own subfile.
pub fn own(rank: u32, end: u64, size: u64) -> Placement {
    Placement { rank, file: File::Subfile(rank), extent: Extent::new(end, size), turn: 0 }
}

/// Extents after the loss of ranks during an output: written groups stay, the other groups follow behind them.
///
/// - `survivors`: per surviving rank its size, and the extent that it has written, if any.
///
/// # Errors
/// As [`shared`].
pub fn after_loss(base: u64, survivors: &[(u64, Option<Extent>)]) -> Result<Vec<Extent>> {
    let mut free = survivors.iter().filter_map(|(_, at)| at.and_then(Extent::end)).fold(base, u64::max);
    let mut places = Vec::with_capacity(survivors.len());
    for (rank, (size, at)) in survivors.iter().enumerate() {
        places.push(match at {
            Some(extent) => *extent,
            None => {
                let place = shared(rank as u32, free, 0, *size)?;
                free += size;
                place.extent
            }
        });
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn thousands_of_ranks_fill_the_file_without_gap_or_overlap(base in 0u64..1 << 40, sizes in prop::collection::vec(0u64..1 << 32, 1..5000)) {
            let places = shared_by_all(base, &sizes).unwrap();
            let mut at = base;
            for (place, size) in places.iter().zip(&sizes) {
                prop_assert_eq!(place.extent, Extent::new(at, *size));
                at += size;
            }
        }

        #[test]
        fn after_a_loss_nobody_overlaps(base in 0u64..1000, sizes in prop::collection::vec((1u64..100, any::<bool>()), 1..50)) {
            let mut at = base;
            let survivors: Vec<(u64, Option<Extent>)> = sizes.iter().map(|(size, wrote)| {
                let place = Extent::new(at, *size);
                at += size;
                (*size, wrote.then_some(place))
            }).collect();
            let places = after_loss(base, &survivors).unwrap();
            for i in 0..places.len() {
                for j in 0..i {
                    prop_assert!(!places[i].meets(places[j]));
                }
                if let Some(kept) = survivors[i].1 {
                    prop_assert_eq!(places[i], kept);
                }
            }
        }
    }

    #[test]
    fn a_file_cannot_pass_the_range_of_offsets() {
        assert_eq!(shared(3, 1 << 62, 1 << 62, 1).unwrap_err().kind(), ErrorKind::OutOfBounds);
        assert_eq!(shared(3, u64::MAX, 1, 1).unwrap_err().kind(), ErrorKind::OutOfBounds);
    }
}
