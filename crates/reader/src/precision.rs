//! Lower precision: of real numbers a reader may ask for so many decimal digits, and gets the bytes that hold them.
//!
//! The first bytes of a real number are its sign, its exponent and the leading bits of its fraction; a server that picks bytes out of a file sends these
//! alone. The other bits become 0, so a number is rounded towards 0, and one of few digits (0, 1, 0.5, a small whole number) stays as it is.
//! What cannot be picked out is rounded when it has been read: a reader gets the same numbers whichever way they come.
//!
//! | number | bytes for 1, 2, 3, 4, 5, 6, 7, 8 digits |
//! |--------|------------------------------------------|
//! | 64 bits, each part of a double complex number | 2, 3, 3, 4, 4, 4, 5, 5 |
//! | 32 bits, each part of a complex number | 2, 2, 3, 3, 4, 4, 4, 4 |
//!
//! Source: the binary formats of IEEE 754.

use crate::plan::{Piece, Stride};
use thalweg_types::{ByteOrder, ElementType};

/// Decimal digits that reads keep of real numbers.
///
/// The relative error of a number is below 10 to the power of minus these, but for denormal ones. Infinities stay, and what is not a number stays so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digits(u32);

impl Digits {
    /// All.
    pub const ALL: Digits = Digits(0);

    /// So many; 0 means all.
    pub fn new(digits: u32) -> Digits {
        Digits(digits)
    }

    /// The part of the numbers of a type that is kept; `None` where it is all.
    pub(crate) fn kept(self, element: ElementType, order: ByteOrder) -> Option<Kept> {
        let before = match element {
            ElementType::F32 | ElementType::Complex => 9,
            ElementType::F64 | ElementType::DoubleComplex => 12,
            _ => return None,
        };
        if self.0 == 0 {
            return None;
        }
        // The power of 2 above 10 to the power of the digits.
        let bits = (f64::from(self.0) * std::f64::consts::LOG2_10).ceil() as u64;
        let bytes = (before + bits).div_ceil(8);
        (bytes < element.word()).then_some(Kept { word: element.word(), bytes, order })
    }
}

/// The first bytes of each number: those with its sign, its exponent and the leading bits of its fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Bytes of a number.
    word: u64,
    /// Kept ones.
    bytes: u64,
    /// Of the numbers in the file.
    order: ByteOrder,
}

impl Kept {
    /// Where the kept bytes begin in a number.
    fn first(&self, order: ByteOrder) -> u64 {
        if order == ByteOrder::Little { self.word - self.bytes } else { 0 }
    }

    /// The kept bytes of a piece whose runs are whole numbers.
    pub fn of(&self, piece: &Piece) -> Piece {
        let mut kept = piece.clone();
        kept.source += self.first(self.order);
        kept.target += self.first(ByteOrder::NATIVE);
        kept.run = self.bytes;
        if piece.run > self.word {
            kept.strides.push(Stride { count: piece.run / self.word, source: self.word, target: self.word });
        }
        kept
    }

    /// Whether kept bytes are those of an infinity, in this machine's order: what is not a number may differ from it in the other bytes alone.
    pub fn may_lose(&self, kept: &[u8]) -> bool {
        let mut number = [0; 8];
        let at = if ByteOrder::NATIVE == ByteOrder::Little { 8 - kept.len() } else { 0 };
        number[at..at + kept.len()].copy_from_slice(kept);
        let number = u64::from_ne_bytes(number) << 1 >> 1;
        number == if self.word == 8 { 0x7ff << 52 } else { 0x7f80 << 48 }
    }

    /// Sets the other bits of numbers to 0, in this machine's order.
    pub fn round(&self, numbers: &mut [u8]) {
        let drop = 8 * (self.word - self.bytes);
        match self.word {
            8 => {
                for number in numbers.as_chunks_mut::<8>().0 {
                    let bits = u64::from_ne_bytes(*number);
                    let quiet = u64::from(f64::from_bits(bits).is_nan()) << 51;
                    *number = ((bits | quiet) >> drop << drop).to_ne_bytes();
                }
            }
            _ => {
                for number in numbers.as_chunks_mut::<4>().0 {
                    let bits = u32::from_ne_bytes(*number);
                    let quiet = u32::from(f32::from_bits(bits).is_nan()) << 22;
                    *number = ((bits | quiet) >> drop << drop).to_ne_bytes();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(digits: u32, element: ElementType) -> u64 {
        Digits::new(digits).kept(element, ByteOrder::NATIVE).map_or(element.word(), |kept| kept.bytes)
    }

    #[test]
    fn as_many_bytes_are_kept_as_the_digits_need() {
        assert_eq!(
            (0..=17).map(|n| kept(n, ElementType::F64)).collect::<Vec<u64>>(),
            [8, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6, 7, 7, 7, 8, 8, 8, 8]
        );
        assert_eq!((0..=6).map(|n| kept(n, ElementType::Complex)).collect::<Vec<u64>>(), [4, 2, 2, 3, 3, 4, 4]);
        assert_eq!((kept(1, ElementType::I64), kept(1, ElementType::String)), (8, 1));
        assert_eq!((kept(1, ElementType::LongDouble), kept(u32::MAX, ElementType::F64)), (16, 8));
    }

    #[test]
    fn numbers_are_rounded_towards_0_by_less_than_the_digits_allow() {
        let mut seed = 88_172_645_463_325_252u64;
        for digits in 1..=14 {
            let kept = Digits::new(digits).kept(ElementType::F64, ByteOrder::NATIVE);
            let single = Digits::new(digits).kept(ElementType::F32, ByteOrder::NATIVE);
            for _ in 0..2000 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                let number = f64::from_bits(seed);
                if let Some(kept) = kept.filter(|_| number.is_normal()) {
                    let mut bytes = number.to_ne_bytes();
                    kept.round(&mut bytes);
                    let rounded = f64::from_ne_bytes(bytes);
                    let error = (number - rounded) / number;
                    assert!((0.0..10f64.powi(-(digits as i32))).contains(&error), "{digits}: {number} {rounded}");
                }
                let number = f32::from_bits(seed as u32);
                if let Some(kept) = single.filter(|_| number.is_normal()) {
                    let mut bytes = number.to_ne_bytes();
                    kept.round(&mut bytes);
                    let error = (f64::from(number) - f64::from(f32::from_ne_bytes(bytes))) / f64::from(number);
                    assert!((0.0..10f64.powi(-(digits as i32))).contains(&error), "{digits}: {number}");
                }
            }
        }
    }

    #[test]
    fn the_kept_bytes_of_a_piece_are_those_of_its_numbers_in_both_orders() {
        let numbers: Vec<f64> = (0..24).map(|n| (f64::from(n) - 11.0) * 1.234_567_89e-7).collect();
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let bytes = |n: &f64| if order == ByteOrder::Big { n.to_be_bytes() } else { n.to_le_bytes() };
            let file: Vec<u8> = numbers.iter().flat_map(bytes).collect();
            let kept = Digits::new(4).kept(ElementType::F64, order).unwrap();
            // Every second pair of numbers, behind the first number.
            let strides = vec![Stride { count: 5, source: 32, target: 16 }];
            let piece = Piece { file: None, source: 8, target: 0, run: 16, strides };
            let part = kept.of(&piece);
            assert_eq!(part.bytes() * 2, piece.bytes());
            let mut out = vec![0; piece.bytes() as usize];
            part.for_each_run(&mut |source, target| {
                let from = &file[(part.source + source) as usize..][..part.run as usize];
                let to = &mut out[(part.target + target) as usize..][..part.run as usize];
                to.copy_from_slice(from);
                if order != ByteOrder::NATIVE {
                    to.reverse();
                }
            });
            let at = (0..5).flat_map(|n| [1 + 4 * n, 2 + 4 * n]);
            let mut wanted: Vec<u8> = at.flat_map(|at| numbers[at].to_ne_bytes()).collect();
            kept.round(&mut wanted);
            assert_eq!(out, wanted, "{order:?}");
        }
    }

    #[test]
    fn infinities_and_what_is_not_a_number_stay_and_few_digits_too() {
        let round = |number: f64| {
            let mut bytes = number.to_ne_bytes();
            Digits::new(1).kept(ElementType::F64, ByteOrder::NATIVE).unwrap().round(&mut bytes);
            f64::from_ne_bytes(bytes)
        };
        for number in [0.0, -0.0, 1.0, -0.5, 24.0, 1e-310 * 0.0, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(round(number).to_bits(), number.to_bits());
        }
        // Not a number by its last bits alone, as R marks a missing value.
        assert!(round(f64::NAN).is_nan() && round(f64::from_bits(0x7ff0_0000_0000_07a2)).is_nan());
        let kept = Digits::new(1).kept(ElementType::F64, ByteOrder::NATIVE).unwrap();
        let part = |number: f64| {
            let first = kept.first(ByteOrder::NATIVE) as usize;
            number.to_ne_bytes()[first..first + 2].to_vec()
        };
        assert!(kept.may_lose(&part(f64::INFINITY)) && kept.may_lose(&part(f64::NEG_INFINITY)));
        assert!(kept.may_lose(&part(f64::from_bits(0xfff0_0000_0000_07a2))));
        assert!(!kept.may_lose(&part(f64::NAN)) && !kept.may_lose(&part(f64::MAX)) && !kept.may_lose(&part(0.0)));
        let single = Digits::new(1).kept(ElementType::F32, ByteOrder::NATIVE).unwrap();
        let first = single.first(ByteOrder::NATIVE) as usize;
        assert!(single.may_lose(&f32::INFINITY.to_ne_bytes()[first..first + 2]));
        assert!(!single.may_lose(&f32::MAX.to_ne_bytes()[first..first + 2]));
    }
}
