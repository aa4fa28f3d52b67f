//! CRC-32C of a long piece, a block of registers at a time: for long pieces, and for a loop that does more with the bytes it has loaded.
//!
//! The state is a block that has the same remainder as all bytes so far: each register is multiplied by what 256 bytes behind it make of
//! it, without carries, and the next bytes are added. The checksum is that of the last state. The first state is one that, 256 bytes
//! behind, has the remainder of the bytes before.
//!
//! Source: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009.
//!
//! The caller has made sure that the processor has the instructions: it is compiled with the same target features, which the compiler
//! checks.

#![allow(unsafe_code)]

use super::{multiplied, power, shifted};
use std::arch::x86_64::*;

/// Bytes of a block.
pub const BLOCK: usize = 256;

/// What a half of 128 bits is multiplied by, to stand a block further: its low half, whose bytes come first, and its high half.
const FACTORS: [i64; 2] = [factor(BLOCK as u32 * 8 + 32), factor(BLOCK as u32 * 8 - 32)];

/// x^`exponent` as the carry-less multiplication of reversed bits takes it: one place higher.
const fn factor(exponent: u32) -> i64 {
    (power(exponent) as i64) << 1
}

/// x^-(bits of a block): x^(2^31 - 1) is 1.
const BEFORE: u32 = power((1 << 31) - 1 - 8 * BLOCK as u32);

/// The first 32 bits of a block that has, at the place of the next block, the remainder of bytes with this checksum.
const fn before(crc: u32) -> u32 {
    multiplied(!crc, BEFORE)
}

/// Before any bytes.
const FIRST: u32 = before(0);

/// What the inversion of the first bits, which only the first block has, makes of the checksum of a state.
const INVERTED: u32 = shifted(!0, BLOCK as u64);

/// The checksum of all bytes that have the same remainder as `state`.
fn finished(state: &[u8; BLOCK]) -> u32 {
    // Not by `crc32c`, which takes long pieces here.
    crc32c::crc32c(state) ^ INVERTED
}

/// Whether the processor has the instructions of [`Wide`].
pub fn wide_is_here() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq")
}

/// Adds bytes, which are at least a block, to a checksum.
///
/// # Cost
/// 60 to 90 GB/s of bytes in the cache, where the processor's instruction for CRC-32C has 20 (Intel Xeon, Sapphire Rapids).
///
/// # Safety
/// The processor has AVX-512 and VPCLMULQDQ.
#[target_feature(enable = "avx512f,vpclmulqdq")]
pub fn wide(crc: u32, bytes: &[u8]) -> u32 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let mut sum = Wide::behind(crc);
    blocks.iter().for_each(|block| sum.add(block));
    crc32c::crc32c_append(sum.finish(), rest)
}

/// With registers of 64 bytes.
#[derive(Clone, Copy)]
pub struct Wide([__m512i; 4]);

impl Wide {
    /// Of no bytes yet.
    ///
    /// # Safety
    /// The processor has AVX-512 and VPCLMULQDQ.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub fn new() -> Wide {
        Wide::from_first(FIRST)
    }

    /// Of bytes with this checksum.
    ///
    /// # Safety
    /// The processor has AVX-512 and VPCLMULQDQ.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub fn behind(crc: u32) -> Wide {
        Wide::from_first(before(crc))
    }

    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn from_first(first: u32) -> Wide {
        let zero = _mm512_setzero_si512();
        Wide([_mm512_zextsi128_si512(_mm_cvtsi32_si128(first as i32)), zero, zero, zero])
    }

    /// Adds a block.
    ///
    /// # Safety
    /// The processor has AVX-512 and VPCLMULQDQ.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub fn add(&mut self, block: &[u8; BLOCK]) {
        let [low, high] = FACTORS;
        let factors = _mm512_set_epi64(high, low, high, low, high, low, high, low);
        for (register, bytes) in self.0.iter_mut().zip(block.as_chunks::<64>().0) {
            // SAFETY: the load takes any alignment, and 64 bytes are there.
            let next = unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
            let low = _mm512_clmulepi64_epi128::<0x00>(*register, factors);
            let high = _mm512_clmulepi64_epi128::<0x11>(*register, factors);
            // All three, each bit of an odd number of them.
            *register = _mm512_ternarylogic_epi64::<0x96>(low, high, next);
        }
    }

    /// The checksum of all bytes.
    ///
    /// # Safety
    /// The processor has AVX-512 and VPCLMULQDQ.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub fn finish(self) -> u32 {
        let mut state = [0; BLOCK];
        for (register, bytes) in self.0.iter().zip(state.as_chunks_mut::<64>().0) {
            // SAFETY: the store takes any alignment, and 64 bytes have room.
            unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), *register) };
        }
        finished(&state)
    }
}

/// With registers of 16 bytes.
#[derive(Clone, Copy)]
pub struct Narrow([__m128i; 16]);

impl Narrow {
    /// Of no bytes yet.
    ///
    /// # Safety
    /// The processor has PCLMULQDQ.
    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    pub fn new() -> Narrow {
        let mut registers = [_mm_setzero_si128(); 16];
        registers[0] = _mm_cvtsi32_si128(FIRST as i32);
        Narrow(registers)
    }

    /// Adds a block.
    ///
    /// # Safety
    /// The processor has PCLMULQDQ.
    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    pub fn add(&mut self, block: &[u8; BLOCK]) {
        let [low, high] = FACTORS;
        let factors = _mm_set_epi64x(high, low);
        for (register, bytes) in self.0.iter_mut().zip(block.as_chunks::<16>().0) {
            // SAFETY: the load takes any alignment, and 16 bytes are there.
            let next = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
            let low = _mm_clmulepi64_si128::<0x00>(*register, factors);
            let high = _mm_clmulepi64_si128::<0x11>(*register, factors);
            *register = _mm_xor_si128(_mm_xor_si128(low, high), next);
        }
    }

    /// The checksum of all bytes.
    ///
    /// # Safety
    /// The processor has PCLMULQDQ.
    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    pub fn finish(self) -> u32 {
        let mut state = [0; BLOCK];
        for (register, bytes) in self.0.iter().zip(state.as_chunks_mut::<16>().0) {
            // SAFETY: the store takes any alignment, and 16 bytes have room.
            unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), *register) };
        }
        finished(&state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn wide_in_pieces(bytes: &[u8]) -> u32 {
        let mut sum = Wide::new();
        bytes.as_chunks().0.iter().for_each(|block| sum.add(block));
        sum.finish()
    }

    #[target_feature(enable = "pclmulqdq")]
    fn narrow(bytes: &[u8]) -> u32 {
        let mut sum = Narrow::new();
        bytes.as_chunks().0.iter().for_each(|block| sum.add(block));
        sum.finish()
    }

    #[test]
    fn the_checksum_is_that_of_the_library() {
        let bytes: Vec<u8> = (0..40_u32 * BLOCK as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for blocks in 0..=40 {
            let some = &bytes[..blocks * BLOCK];
            let expected = crc32c::crc32c(some);
            if is_x86_feature_detected!("pclmulqdq") {
                // SAFETY: the processor has the instructions.
                let sum = unsafe { narrow(some) };
                assert_eq!(sum, expected, "narrow, {blocks} blocks");
            }
            if wide_is_here() {
                // SAFETY: as above.
                let sum = unsafe { wide_in_pieces(some) };
                assert_eq!(sum, expected, "wide, {blocks} blocks");
                for extra in [0, 1, 63, 255] {
                    let end = (blocks * BLOCK + extra).min(bytes.len());
                    let start = blocks.min(3) * 77;
                    let before = crc32c::crc32c(&bytes[..start.min(end)]);
                    // SAFETY: as above.
                    let sum = unsafe { wide(before, &bytes[start.min(end)..end]) };
                    assert_eq!(sum, crc32c::crc32c(&bytes[..end]), "bytes {start}..{end}");
                }
            }
        }
    }
}
