//! CRC-32C of a long piece, a block of registers at a time, for a loop that does more with the bytes it has loaded.
//!
//! The state is a block that has the same remainder as all bytes so far: each register is multiplied by what 256 bytes behind it make of
//! it, without carries, and the next bytes are added. The checksum is that of the last state.
//!
//! Source: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009.
//!
//! The caller has made sure that the processor has the instructions: it is compiled with the same target features, which the compiler
//! checks.

#![allow(unsafe_code)]

use std::arch::x86_64::*;
use thalweg_types::checksum::{crc32c, power, shifted};

/// Bytes of a block.
pub const BLOCK: usize = 256;

/// What a half of 128 bits is multiplied by, to stand a block further: its low half, whose bytes come first, and its high half.
const FACTORS: [i64; 2] = [factor(BLOCK as u32 * 8 + 32), factor(BLOCK as u32 * 8 - 32)];

/// x^`exponent` as the carry-less multiplication of reversed bits takes it: one place higher.
const fn factor(exponent: u32) -> i64 {
    (power(exponent) as i64) << 1
}

/// The checksum of `length` bytes that are as much as `state`, without the inversion of the first bits.
fn finished(state: &[u8; BLOCK], length: u64) -> u32 {
    let remainder = !crc32c(state) ^ shifted(!0, BLOCK as u64);
    !(remainder ^ shifted(!0, length))
}

/// With registers of 64 bytes.
#[derive(Clone, Copy)]
pub struct Wide([__m512i; 4]);

impl Wide {
    /// Of no bytes yet.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub fn new() -> Wide {
        Wide([_mm512_setzero_si512(); 4])
    }

    /// Adds a block.
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

    /// The checksum of all blocks, together `length` bytes.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub fn finish(self, length: u64) -> u32 {
        let mut state = [0; BLOCK];
        for (register, bytes) in self.0.iter().zip(state.as_chunks_mut::<64>().0) {
            // SAFETY: the store takes any alignment, and 64 bytes have room.
            unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), *register) };
        }
        finished(&state, length)
    }
}

/// With registers of 16 bytes.
#[derive(Clone, Copy)]
pub struct Narrow([__m128i; 16]);

impl Narrow {
    /// Of no bytes yet.
    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    pub fn new() -> Narrow {
        Narrow([_mm_setzero_si128(); 16])
    }

    /// Adds a block.
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

    /// The checksum of all blocks, together `length` bytes.
    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    pub fn finish(self, length: u64) -> u32 {
        let mut state = [0; BLOCK];
        for (register, bytes) in self.0.iter().zip(state.as_chunks_mut::<16>().0) {
            // SAFETY: the store takes any alignment, and 16 bytes have room.
            unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), *register) };
        }
        finished(&state, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn wide(bytes: &[u8]) -> u32 {
        let mut sum = Wide::new();
        bytes.as_chunks().0.iter().for_each(|block| sum.add(block));
        sum.finish(bytes.len() as u64)
    }

    #[target_feature(enable = "pclmulqdq")]
    fn narrow(bytes: &[u8]) -> u32 {
        let mut sum = Narrow::new();
        bytes.as_chunks().0.iter().for_each(|block| sum.add(block));
        sum.finish(bytes.len() as u64)
    }

    #[test]
    fn the_checksum_is_that_of_the_library() {
        let bytes: Vec<u8> = (0..40_u32 * BLOCK as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for blocks in 0..=40 {
            let some = &bytes[..blocks * BLOCK];
            let expected = crc32c(some);
            if is_x86_feature_detected!("pclmulqdq") {
                // SAFETY: the processor has the instructions.
                let sum = unsafe { narrow(some) };
                assert_eq!(sum, expected, "narrow, {blocks} blocks");
            }
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq") {
                // SAFETY: as above.
                let sum = unsafe { wide(some) };
                assert_eq!(sum, expected, "wide, {blocks} blocks");
            }
        }
    }
}
