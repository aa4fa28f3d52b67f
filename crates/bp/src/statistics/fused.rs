//! Statistics and checksum in one loop over a register's worth of bytes: what a core loads once it uses for both. Two loops, one after the
//! other, cost nearly the sum of both where a core waits for memory.
//!
//! | processor | loop |
//! |-----------|------|
//! | x86-64 with AVX-512 and VPCLMULQDQ | registers of 64 bytes |
//! | x86-64 with AVX2 and PCLMULQDQ | registers of 32 bytes, checksum in those of 16 |
//! | others | none: two loops |
//!
//! Bytes are requested [`AHEAD`] of the loop: the processor does so by itself only up to the end of a page.
// Newer compilers know that a request for bytes is safe.
#![allow(unsafe_code, unused_unsafe)]

use super::Lanes;

/// Pieces shorter than this are left to two loops.
#[cfg(target_arch = "x86_64")]
const LEAST: usize = 4096;

/// Adds a piece of whole elements to its statistics, and returns its CRC-32C; `None`, with nothing added, if this processor or piece has no
/// such loop.
#[cfg(target_arch = "x86_64")]
pub(super) fn add<L: Lanes>(bytes: &[u8], total: &mut L::Total) -> Option<u32> {
    if bytes.len() < LEAST {
        return None;
    }
    if x86_64::wide_is_here() {
        // SAFETY: the processor has the instructions.
        return Some(unsafe { x86_64::wide::<L>(bytes, total) });
    }
    if x86_64::narrow_is_here() {
        // SAFETY: as above.
        return Some(unsafe { x86_64::narrow::<L>(bytes, total) });
    }
    None
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn add<L: Lanes>(_: &[u8], _: &mut L::Total) -> Option<u32> {
    None
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::super::{LANES, Lanes, STRETCH};
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    use thalweg_types::checksum::appended;
    use thalweg_types::checksum::folding::{BLOCK, Narrow, Wide};

    /// How far ahead of the loop bytes are requested.
    const AHEAD: usize = 2048;
    /// Bytes that a request brings.
    const LINE: usize = 64;

    pub(super) fn wide_is_here() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("vpclmulqdq")
    }

    pub(super) fn narrow_is_here() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("pclmulqdq")
    }

    macro_rules! fused {
        ($name:ident, $folding:ty, $features:literal) => {
            #[target_feature(enable = $features)]
            pub(super) fn $name<L: Lanes>(bytes: &[u8], total: &mut L::Total) -> u32 {
                // A stretch and a block have whole numbers of elements, and a block has whole numbers of lanes.
                const { assert!(STRETCH * L::SIZE % BLOCK == 0 && BLOCK % (LANES * L::SIZE) == 0) };
                let mut sum = <$folding>::new();
                let mut rest: &[u8] = &[];
                for stretch in bytes.chunks(STRETCH * L::SIZE) {
                    let mut lanes = L::start();
                    let (blocks, behind) = stretch.as_chunks::<BLOCK>();
                    for block in blocks {
                        for line in (0..BLOCK).step_by(LINE) {
                            let ahead = block.as_ptr().wrapping_add(AHEAD + line);
                            // SAFETY: a request for bytes that are not there does nothing.
                            unsafe { _mm_prefetch::<_MM_HINT_T0>(ahead.cast()) };
                        }
                        sum.add(block);
                        block.chunks_exact(LANES * L::SIZE).for_each(|elements| lanes.add(elements));
                    }
                    behind.chunks(LANES * L::SIZE).for_each(|elements| lanes.add(elements));
                    lanes.finish(stretch, total);
                    // Only the last stretch has any.
                    rest = behind;
                }
                appended(sum.finish(), rest)
            }
        };
    }
    fused!(wide, Wide, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,vpclmulqdq");
    fused!(narrow, Narrow, "avx2,fma,pclmulqdq");

    #[cfg(test)]
    mod tests {
        use super::super::super::{Accumulator, Level, RealLanes, State, Statistics, WholeLanes};
        use super::*;
        use thalweg_types::ElementType;
        use thalweg_types::checksum::crc32c;

        /// Statistics by the loop alone, the checksum by the library, of the same bytes.
        fn expected(element: ElementType, bytes: &[u8]) -> (Option<Statistics>, u32) {
            let mut all = Accumulator::new(element, Level::Full);
            all.update(bytes);
            (all.finish(), crc32c(bytes))
        }

        fn by(form: &str, element: ElementType, bytes: &[u8]) -> (Option<Statistics>, u32) {
            let mut all = Accumulator::new(element, Level::Full);
            macro_rules! by {
                ($lanes:ty, $total:expr) => {
                    // SAFETY: the caller has looked.
                    match form {
                        "wide" => unsafe { wide::<$lanes>(bytes, $total) },
                        _ => unsafe { narrow::<$lanes>(bytes, $total) },
                    }
                };
            }
            let crc = match &mut all.state {
                State::F32(t) => by!(RealLanes<f32>, t),
                State::F64(t) => by!(RealLanes<f64>, t),
                State::I8(t) => by!(WholeLanes<i8>, t),
                State::I16(t) => by!(WholeLanes<i16>, t),
                State::I32(t) => by!(WholeLanes<i32>, t),
                State::I64(t) => by!(WholeLanes<i64>, t),
                State::U8(t) => by!(WholeLanes<u8>, t),
                State::U16(t) => by!(WholeLanes<u16>, t),
                State::U32(t) => by!(WholeLanes<u32>, t),
                State::U64(t) => by!(WholeLanes<u64>, t),
                _ => panic!("{element:?} has no such loop"),
            };
            (all.finish(), crc)
        }

        #[test]
        fn one_loop_gives_what_two_give_bit_for_bit() {
            use ElementType::*;
            let forms = [("wide", wide_is_here()), ("narrow", narrow_is_here())];
            let mut word = 88_172_645_463_325_252u64;
            let mut draw = || {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                word
            };
            // Numbers of all sizes, denormals too, and in some stretches NaN and infinities.
            let doubles: Vec<u8> = (0..9000u64)
                .flat_map(|i| match draw() % 5000 {
                    0 => f64::NAN.to_ne_bytes(),
                    1 if i > 5000 => f64::NEG_INFINITY.to_ne_bytes(),
                    n if n % 7 == 0 => f64::from_bits(draw() % (1 << 40)).to_ne_bytes(),
                    n => ((n as f64 - 2500.0) * (draw() % 1000) as f64).to_ne_bytes(),
                })
                .collect();
            let singles: Vec<u8> = (0..18000u64)
                .flat_map(|_| match draw() % 9000 {
                    0 => f32::INFINITY.to_ne_bytes(),
                    n => ((n as f32 - 4500.0) / 7.0).to_ne_bytes(),
                })
                .collect();
            let wholes: Vec<u8> = (0..9000).flat_map(|_| draw().to_ne_bytes()).collect();
            for element in [F32, F64, I8, I16, I32, I64, U8, U16, U32, U64] {
                let all = match element {
                    F32 => &singles,
                    F64 => &doubles,
                    _ => &wholes,
                };
                let size = element.size() as usize;
                for elements in [0, 1, 15, 16, 17, 31, 33, 255, 256, 257, 1000, 4095, 4096, 4097, 8192, 8999] {
                    let bytes = &all[..elements * size];
                    for (form, _) in forms.iter().filter(|(_, here)| *here) {
                        let (statistics, crc) = expected(element, bytes);
                        assert_eq!(by(form, element, bytes), (statistics, crc), "{form} {element:?} {elements}");
                    }
                }
            }
        }
    }
}
