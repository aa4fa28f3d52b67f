//! Files, storage targets and stripes: the extents of process groups in a scheduled output.
//!
//! | question | answer |
//! |---|---|
//! | length of a stripe | the largest process group, rounded up to a multiple of 64 KiB: every group fits in one stripe |
//! | file | rank r writes to file r modulo the number of files |
//! | stripe | the ranks of a file in order, each at a stripe boundary |
//! | target | one per file: file f is on target f modulo the number of targets |
//!
//! The rest of a stripe behind its group is a hole, counted by [`Striped::padding`]. If the rest is too short for a hole record
//! ([`thalweg_bp::hole`]), the group is extended with zeros instead.
//!
//! Source: Lofstead et al., CUG 2009: files split over targets, offsets at stripe boundaries, the stripe size rounded up from the
//! largest group. Lustre requires stripe sizes that are multiples of 64 KiB.

use super::{File, Placement};
use thalweg_bp::hole;
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// Stripe lengths are multiples of this.
pub const STEP: u64 = 64 << 10;

/// The distribution of an output over files, targets and stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Striped {
    /// Number of ranks.
    pub ranks: u32,
    /// Number of files.
    pub files: u32,
    /// Number of storage targets.
    pub targets: u32,
    /// Bytes of a stripe.
    pub stripe: u64,
}

impl Striped {
    /// - `largest`: bytes of the largest process group.
    ///
    /// # Errors
    /// `OutOfBounds` where a file would pass 2^63 bytes.
    pub fn new(ranks: u32, files: u32, targets: u32, largest: u64) -> Result<Striped> {
        let files = files.clamp(1, ranks.max(1));
        let stripe = largest.max(1).checked_next_multiple_of(STEP);
        let of_a_file = u64::from(ranks.div_ceil(files));
        let fits = stripe.and_then(|s| s.checked_mul(of_a_file)).is_some_and(|bytes| bytes < 1 << 63);
        match stripe {
            Some(stripe) if fits => Ok(Striped { ranks, files, targets: targets.max(1), stripe }),
            _ => {
                let what = format!("{of_a_file} process groups of up to {largest} bytes do not fit a file");
                Err(Error::new(ErrorKind::OutOfBounds, what))
            }
        }
    }

    /// The file of a rank.
    pub fn file(&self, rank: u32) -> u32 {
        rank % self.files
    }

    /// Position of a rank among the ranks of its file, from 0.
    pub fn place_in_file(&self, rank: u32) -> u32 {
        rank / self.files
    }

    /// Number of ranks that write to a file.
    pub fn ranks_of(&self, file: u32) -> u32 {
        if file >= self.files { 0 } else { (self.ranks - file).div_ceil(self.files) }
    }

    /// The storage target of a file's first stripe; files with one stripe are on this target only.
    pub fn target(&self, file: u32) -> u32 {
        file % self.targets
    }

    /// The first stripe boundary at or behind `base` that leaves no hole, or a hole with room for its record.
    pub fn start(&self, base: u64) -> Option<u64> {
        match base.checked_next_multiple_of(self.stripe)? {
            start if start == base || start - base >= hole::LENGTH => Some(start),
            start => start.checked_add(self.stripe),
        }
    }

    /// The extent of a rank's stripe, behind `base` bytes of its file; `None` beyond the range of offsets.
    pub fn stripe_of(&self, rank: u32, base: u64) -> Option<Extent> {
        let before = u64::from(self.place_in_file(rank)).checked_mul(self.stripe)?;
        let offset = self.start(base)?.checked_add(before)?;
        offset.checked_add(self.stripe).filter(|end| *end < 1 << 63)?;
        Some(Extent::new(offset, self.stripe))
    }

    /// The extent of a rank's group of `size` bytes, behind `base` bytes of its file; `turn`: as in [`super::turns`].
    ///
    /// # Errors
    /// `OutOfBounds` where the group is larger than a stripe, or its stripe exceeds the range of offsets.
    pub fn place(&self, rank: u32, base: u64, size: u64, turn: u32) -> Result<Placement> {
        match self.stripe_of(rank, base) {
            Some(stripe) if size <= stripe.length => {
                let hole = stripe.length - size;
                let length = if hole < hole::LENGTH { stripe.length } else { size };
                let extent = Extent::new(stripe.offset, length);
                Ok(Placement { rank, file: File::Subfile(self.file(rank)), extent, turn })
            }
            _ => {
                let what = format!("{size} bytes do not fit a stripe of {} bytes behind {base}", self.stripe);
                Err(Error::new(ErrorKind::OutOfBounds, what).at_rank(rank))
            }
        }
    }

    /// Bytes of the holes behind `groups` groups with a total of `bytes` bytes.
    pub fn padding(&self, groups: u64, bytes: u64) -> u64 {
        groups.saturating_mul(self.stripe).saturating_sub(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hundred_and_forty_thousand_ranks_go_round_672_targets() {
        let striped = Striped::new(140_000, 672, 672, 8_000_000).unwrap();
        assert_eq!(striped.stripe, 8_060_928); // 123 steps of 64 KiB
        // 140,000 = 208 * 672 + 224: the first 224 files have one rank more.
        assert!((0..224).all(|file| striped.ranks_of(file) == 209));
        assert!((224..672).all(|file| striped.ranks_of(file) == 208));
        assert_eq!((0..672).map(|file| u64::from(striped.ranks_of(file))).sum::<u64>(), 140_000);
        let last = striped.place(139_999, 0, 8_000_000, 0).unwrap();
        assert_eq!(last.file, File::Subfile(223));
        assert_eq!(last.extent, Extent::new(208 * 8_060_928, 8_000_000));
        assert_eq!(striped.padding(140_000, 140_000 * 8_000_000), 140_000 * 60_928);
        // More files than targets: they go round.
        let round = Striped::new(140_000, 1000, 672, 1).unwrap();
        assert_eq!((round.target(671), round.target(672), round.target(999)), (671, 0, 327));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        assert_eq!(Striped::new(8, 1, 1, 1 << 61).unwrap_err().kind(), ErrorKind::OutOfBounds);
        assert_eq!(Striped::new(1, 1, 1, u64::MAX).unwrap_err().kind(), ErrorKind::OutOfBounds);
        let striped = Striped::new(4, 2, 2, 100).unwrap();
        assert_eq!(striped.place(3, 0, STEP + 1, 0).unwrap_err().kind(), ErrorKind::OutOfBounds);
        assert_eq!(striped.place(3, 1 << 63, 1, 0).unwrap_err().kind(), ErrorKind::OutOfBounds);
    }

    proptest! {
        #[test]
        fn groups_begin_at_stripes_and_never_overlap(ranks in 1u32..3000, files in 0u32..100, base in prop_oneof![0u64..1 << 40, (1..1u64 << 20, 0..40u64).prop_map(|(n, less)| n * STEP - less)], sizes in prop::collection::vec(prop_oneof![0u64..1 << 30, (1..100u64, 0..40u64).prop_map(|(n, less)| n * STEP - less)], 1..20)) {
            let size = |rank: u32| sizes[rank as usize % sizes.len()];
            let striped = Striped::new(ranks, files, 7, sizes.iter().copied().max().unwrap()).unwrap();
            let mut ends = vec![base; striped.files as usize];
            for rank in 0..ranks {
                let placed = striped.place(rank, base, size(rank), 0).unwrap();
                let File::Subfile(file) = placed.file else { panic!() };
                prop_assert_eq!(placed.extent.offset % striped.stripe, 0);
                let hole = placed.extent.offset.checked_sub(ends[file as usize]).unwrap();
                prop_assert!(hole == 0 || hole >= hole::LENGTH, "a hole of {} bytes", hole);
                prop_assert!(placed.extent.length >= size(rank) && placed.extent.length - size(rank) < hole::LENGTH);
                ends[file as usize] = placed.extent.offset + placed.extent.length;
            }
        }
    }
}
