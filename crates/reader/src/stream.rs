//! Non-temporal copies: results larger than the caches are written without fetching the target lines first.
//!
//! An ordinary copy reads the lines of memory that it overwrites, a third of the traffic when a whole array is placed row by row: on the
//! machine of `benches/RESULTS.md` a 128 MiB array with rows of 512 bytes takes 24 ms with ordinary stores, 15 ms with these. Small
//! results stay in the cache for their reader.
//!
//! The only unsafe code of this crate: the processor's instruction takes a pointer. Every x86-64 processor has it; other architectures
//! copy ordinarily.
#![allow(unsafe_code)]

/// Whether this machine has non-temporal stores.
pub const HERE: bool = cfg!(target_arch = "x86_64");

/// Copies `from` to `to`, which have the same length. Call [`finish`] before another thread reads `to`.
#[cfg(target_arch = "x86_64")]
pub fn copy(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    /// Bytes of a line of the cache; only whole lines go past it.
    const LINE: usize = 64;
    assert_eq!(from.len(), to.len());
    let head = to.as_ptr().align_offset(LINE).min(to.len());
    let lines = (to.len() - head) / LINE;
    let tail = head + lines * LINE;
    to[..head].copy_from_slice(&from[..head]);
    for at in (head..tail).step_by(16) {
        // SAFETY: at + 16 <= tail <= the length of both. `to` is aligned to 16 at `at`, as `head` ends on a line's start
        // and steps are of 16; the load takes any alignment. SSE2 is part of x86-64.
        unsafe {
            let sixteen = _mm_loadu_si128(from.as_ptr().add(at).cast::<__m128i>());
            _mm_stream_si128(to.as_mut_ptr().add(at).cast::<__m128i>(), sixteen);
        }
    }
    to[tail..].copy_from_slice(&from[tail..]);
}

/// Orders the copies so far before this thread's later stores, for other threads.
#[cfg(target_arch = "x86_64")]
pub fn finish() {
    // SAFETY: SSE is part of x86-64; the instruction has no operands.
    unsafe { std::arch::x86_64::_mm_sfence() }
}

/// Copies `from` to `to`, which have the same length.
#[cfg(not(target_arch = "x86_64"))]
pub fn copy(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

/// Nothing waits here.
#[cfg(not(target_arch = "x86_64"))]
pub fn finish() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_wherever_it_begins_and_ends_and_no_other_changes() {
        let from: Vec<u8> = (0..1000u32).map(|i| (i * 7 % 251) as u8).collect();
        for start in (0..130).chain([511, 512, 513]) {
            for length in [0, 1, 15, 16, 63, 64, 65, 127, 128, 200, 256, 300, 400] {
                let mut to = vec![255u8; 1000];
                copy(&from[start..start + length], &mut to[start..start + length]);
                finish();
                assert_eq!(to[start..start + length], from[start..start + length], "{length} bytes from {start}");
                assert!(
                    to[..start].iter().chain(&to[start + length..]).all(|b| *b == 255),
                    "{length} bytes from {start}"
                );
            }
        }
    }

    #[test]
    #[should_panic(expected = "left == right")]
    fn pieces_of_different_lengths_are_refused() {
        copy(&[1, 2, 3], &mut [0, 0]);
    }
}
