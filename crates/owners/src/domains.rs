//! Which rank owns which bytes of an output window: a pure function, computed by every rank for itself.
//!
//! The window's bytes are divided at multiples of the owner stripe from the *origin*, the window's first byte rounded down. Owner stripe
//! `k` belongs to owner `k` modulo the number of owners, so every byte has an owner whatever the options are; the mapping that is printed
//! in the paper has no modulo, and names ranks that do not exist if the stripes of all owners do not cover the file.
//!
//! ```text
//! file      0        64       128      192      256   MiB
//! owner     |<-- rank 0, one owner stripe -->|<-- rank 8 ...
//! write     |<--64-->|<--64-->|<--64-->|<--->|           write stripes: gathered as a whole
//! fraction  |16|16|16|16|                                one write each
//! ```
//!
//! Source: Miller et al., section C3B, figure 6.

use crate::options::{Machine, Options};
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// The owners of the bytes of one window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domains {
    window: Extent,
    origin: u64,
    owner_stripe: u64,
    write_stripe: u64,
    fraction: u64,
    owners: Vec<u32>,
}

/// A part of the window: one owner, one fraction of one write stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Number of the owner in [`Domains::owners`].
    pub owner: usize,
    /// The bytes.
    pub extent: Extent,
}

impl Domains {
    /// The owners of `window` on `machine`.
    ///
    /// # Errors
    /// `OutOfBounds` for a window that ends beyond 2^63 - 1; errors of [`Options::owners_on`].
    pub fn new(window: Extent, options: &Options, machine: &Machine) -> Result<Domains> {
        let owners = options.owners_on(machine)?;
        let end = window.end().filter(|end| *end <= i64::MAX as u64).ok_or_else(|| {
            let what = format!("a window of {} bytes ends beyond the largest offset", window.length);
            Error::new(ErrorKind::OutOfBounds, what).at_byte(window.offset)
        })?;
        let unit = options.owner_stripe.unwrap_or(options.alignment);
        let origin = window.offset - window.offset % unit;
        let owner_stripe = options.owner_stripe.unwrap_or_else(|| {
            let share = (end - origin).div_ceil(owners.len() as u64).max(1);
            // A share that cannot be rounded up is longer than any file.
            share.checked_next_multiple_of(options.alignment).unwrap_or(u64::MAX)
        });
        let write_stripe = options.write_stripe.min(owner_stripe);
        let fraction = options.fraction.min(write_stripe);
        Ok(Domains { window, origin, owner_stripe, write_stripe, fraction, owners })
    }

    /// The window.
    pub fn window(&self) -> Extent {
        self.window
    }

    /// Byte after the last one of the window.
    fn end(&self) -> u64 {
        self.window.offset + self.window.length
    }

    /// The owners: ranks, in the order of their stripes. Owners of a small window may have no bytes.
    pub fn owners(&self) -> &[u32] {
        &self.owners
    }

    /// Most bytes of one write.
    pub fn fraction(&self) -> u64 {
        self.fraction
    }

    /// The number of a rank among the owners.
    pub fn number_of(&self, rank: u32) -> Option<usize> {
        self.owners.iter().position(|owner| *owner == rank)
    }

    /// The owner stripe with the byte `offset` of the window.
    fn stripe_of(&self, offset: u64) -> Piece {
        let number = (offset - self.origin) / self.owner_stripe;
        let start = self.origin + number * self.owner_stripe;
        let end = start.saturating_add(self.owner_stripe).min(self.end());
        let start = start.max(self.window.offset);
        let owner = (number % self.owners.len() as u64) as usize;
        Piece { owner, extent: Extent::new(start, end - start) }
    }

    /// The part of `outer` with the byte `offset`, if `outer` is divided at multiples of `length` in the file.
    fn divided(outer: Extent, offset: u64, length: u64) -> Extent {
        let grid = offset - offset % length;
        let start = grid.max(outer.offset);
        let end = grid.saturating_add(length).min(outer.offset + outer.length);
        Extent::new(start, end - start)
    }

    /// The write stripe with the byte `offset` of the window.
    pub fn write_stripe(&self, offset: u64) -> Extent {
        Self::divided(self.stripe_of(offset).extent, offset, self.write_stripe)
    }

    /// The fraction of a write stripe with the byte `offset` of the window.
    pub fn fraction_of(&self, offset: u64) -> Piece {
        let Piece { owner, extent } = self.stripe_of(offset);
        let stripe = Self::divided(extent, offset, self.write_stripe);
        // Counted from the grid of write stripes, of which `fraction` need not be a divisor.
        let grid = offset - offset % self.write_stripe;
        let start = grid + (offset - grid) / self.fraction * self.fraction;
        let end = start.saturating_add(self.fraction).min(stripe.offset + stripe.length);
        let start = start.max(stripe.offset);
        Piece { owner, extent: Extent::new(start, end - start) }
    }

    /// Cuts bytes of the window at the boundaries of fractions, in order.
    ///
    /// # Errors
    /// `OutOfBounds` if a byte lies outside the window.
    pub fn cut(&self, bytes: Extent) -> Result<impl Iterator<Item = Piece> + '_> {
        let inside = bytes.offset >= self.window.offset && bytes.end().is_some_and(|end| end <= self.end());
        if !inside && bytes.length > 0 {
            let what = format!(
                "{} bytes leave the window of {} bytes from byte {}",
                bytes.length, self.window.length, self.window.offset
            );
            return Err(Error::new(ErrorKind::OutOfBounds, what).at_byte(bytes.offset));
        }
        let (mut at, end) = (bytes.offset, bytes.offset.saturating_add(bytes.length));
        Ok(std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let Piece { owner, extent } = self.fraction_of(at);
            let to = (extent.offset + extent.length).min(end);
            let piece = Piece { owner, extent: Extent::new(at, to - at) };
            at = to;
            Some(piece)
        }))
    }

    /// The owner stripes of an owner, in order.
    pub fn stripes_of(&self, owner: usize) -> impl Iterator<Item = Extent> + '_ {
        let stride = self.owner_stripe.saturating_mul(self.owners.len() as u64);
        let first = (owner as u64).checked_mul(self.owner_stripe).and_then(|skip| self.origin.checked_add(skip));
        std::iter::successors(first, move |start| start.checked_add(stride))
            .take_while(|start| *start < self.end())
            .filter_map(|start| {
                let end = start.saturating_add(self.owner_stripe).min(self.end());
                let start = start.max(self.window.offset);
                (start < end).then(|| Extent::new(start, end - start))
            })
    }

    /// A number that differs, with near certainty, if two ranks describe different windows.
    pub fn fingerprint(&self) -> u64 {
        let Domains { window, origin, owner_stripe, write_stripe, fraction, owners } = self;
        let numbers = [window.offset, window.length, *origin, *owner_stripe, *write_stripe, *fraction];
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for number in numbers.into_iter().chain(owners.iter().map(|owner| u64::from(*owner))) {
            for byte in number.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Owners;
    use proptest::prelude::*;

    fn machine(ranks: u32) -> Machine {
        Machine { ranks, leaders: vec![0], targets: None }
    }

    #[test]
    fn by_default_each_owner_has_one_long_aligned_stripe() {
        let options = Options { owners: Owners::Every { active: 3, base: 1, skip: 2 }, ..Options::default() };
        let domains = Domains::new(Extent::new(3, 10 << 20), &options, &machine(6)).unwrap();
        assert_eq!(domains.owners(), [1, 3, 5]);
        let stripes: Vec<Vec<Extent>> = (0..3).map(|owner| domains.stripes_of(owner).collect()).collect();
        let mib = 1u64 << 20;
        assert_eq!(stripes[0], [Extent::new(3, 4 * mib - 3)]);
        assert_eq!(stripes[1], [Extent::new(4 * mib, 4 * mib)]);
        assert_eq!(stripes[2], [Extent::new(8 * mib, 2 * mib + 3)]);
    }

    #[test]
    fn a_write_stripe_of_64_mib_is_four_fractions_of_16() {
        let domains = Domains::new(Extent::new(0, 256 << 20), &Options::default(), &machine(1)).unwrap();
        let pieces: Vec<Piece> = domains.cut(Extent::new(64 << 20, 64 << 20)).unwrap().collect();
        assert_eq!(pieces.len(), 4);
        assert!(pieces.iter().all(|p| p.extent.length == 16 << 20 && p.extent.offset % (16 << 20) == 0));
        assert_eq!(domains.write_stripe(100 << 20), Extent::new(64 << 20, 64 << 20));
    }

    #[test]
    fn bytes_outside_the_window_are_refused_and_no_bytes_are_not() {
        let domains = Domains::new(Extent::new(100, 50), &Options::default(), &machine(1)).unwrap();
        for (offset, length) in [(99, 1), (149, 2), (150, 1), (u64::MAX, 2), (0, 500)] {
            let e = domains.cut(Extent::new(offset, length)).err().unwrap();
            assert_eq!((e.kind(), e.place().byte), (ErrorKind::OutOfBounds, Some(offset)));
        }
        assert_eq!(domains.cut(Extent::new(7, 0)).unwrap().count(), 0);
        let beyond = Domains::new(Extent::new(u64::MAX - 5, 50), &Options::default(), &machine(1)).unwrap_err();
        assert_eq!(beyond.kind(), ErrorKind::OutOfBounds);
    }

    proptest! {
        /// Every byte of every window has one owner, and all views of the mapping agree.
        #[test]
        fn each_byte_has_one_owner(
            offset in 0u64..500, length in 0u64..400,
            active in 1u32..6, base in 0u32..4, skip in 1u32..4,
            owner_stripe in proptest::option::of(1u64..70), write_stripe in 1u64..50, fraction in 1u64..40, alignment in 1u64..33,
        ) {
            let options = Options {
                owners: Owners::Every { active, base, skip }, owner_stripe, write_stripe, fraction, alignment, ..Options::default()
            };
            let domains = Domains::new(Extent::new(offset, length), &options, &machine(base + active * skip)).unwrap();
            // As published, where the stripes of all owners cover the window.
            let stripe = owner_stripe.unwrap_or(domains.owner_stripe);
            let mut of_byte = vec![None; (offset + length) as usize];
            for number in 0..active as usize {
                for extent in domains.stripes_of(number) {
                    for byte in extent.offset..extent.offset + extent.length {
                        prop_assert_eq!(of_byte[byte as usize].replace(number), None, "byte {} has two owners", byte);
                    }
                }
            }
            for byte in offset..offset + length {
                let number = of_byte[byte as usize].expect("an owner");
                let published = (byte - domains.origin) / stripe;
                if published < u64::from(active) {
                    prop_assert_eq!(u64::from(domains.owners()[number]), u64::from(base) + published * u64::from(skip));
                }
                let piece = domains.fraction_of(byte);
                prop_assert_eq!(piece.owner, number);
                let unit = domains.write_stripe(byte);
                prop_assert!(unit.offset <= byte && byte < unit.offset + unit.length && unit.length <= write_stripe);
                prop_assert!(piece.extent.offset >= unit.offset && piece.extent.offset + piece.extent.length <= unit.offset + unit.length);
                prop_assert!(piece.extent.offset <= byte && byte < piece.extent.offset + piece.extent.length);
                prop_assert!(piece.extent.length <= fraction);
                for other in [unit.offset, unit.offset + unit.length - 1] {
                    prop_assert_eq!(domains.write_stripe(other), unit);
                }
                for other in [piece.extent.offset, piece.extent.offset + piece.extent.length - 1] {
                    prop_assert_eq!(domains.fraction_of(other), piece);
                }
            }
            let pieces: Vec<Piece> = domains.cut(Extent::new(offset, length)).unwrap().collect();
            prop_assert_eq!(pieces.iter().map(|p| p.extent.length).sum::<u64>(), length);
            prop_assert!(pieces.windows(2).all(|p| p[0].extent.offset + p[0].extent.length == p[1].extent.offset));
            if owner_stripe.is_none() {
                prop_assert!((0..active as usize).all(|number| domains.stripes_of(number).count() <= 1), "long stripes");
            }
        }
    }
}
