//! Extents of chunks, where another format stores an array in chunks. Pure.

use thalweg_choice::Pattern;
use thalweg_choice::written::assigned;
use thalweg_types::{Error, ErrorKind, Result};

/// Most bytes of a chunk that nobody has asked for.
const MOST: u64 = 4 << 20;
/// Bytes up to which steps share a chunk.
const SHARED: u64 = 64 << 10;

/// The extents of the chunks of an array.
///
/// - `has_steps`: the first axis is that of steps. A chunk has one step, or several small ones.
/// - `wanted`: extents that the user asks for, without the axis of steps; used if they are as many as the array has axes.
pub fn extents(shape: &[u64], size: u64, has_steps: bool, wanted: Option<&[u64]>) -> Vec<u64> {
    let (steps, rest) = shape.split_at(usize::from(has_steps && !shape.is_empty()));
    let mut chunk: Vec<u64> = match wanted.filter(|wanted| wanted.len() == rest.len()) {
        Some(wanted) => wanted.iter().zip(rest).map(|(wanted, extent)| (*wanted).clamp(1, (*extent).max(1))).collect(),
        None => {
            let mut chunk: Vec<u64> = rest.iter().map(|extent| (*extent).max(1)).collect();
            // The slowest axes are cut first: what is left is contiguous.
            for axis in 0..chunk.len() {
                let row = bytes(&chunk[axis + 1..], size);
                chunk[axis] = chunk[axis].min((MOST / row.max(1)).max(1));
                if row <= MOST {
                    break;
                }
            }
            chunk
        }
    };
    if let [steps] = steps {
        let together = SHARED / bytes(&chunk, size).max(1);
        chunk.insert(0, together.clamp(1, (*steps).max(1)));
    }
    chunk
}

fn bytes(extents: &[u64], size: u64) -> u64 {
    extents.iter().fold(size.max(1), |bytes, extent| bytes.saturating_mul(*extent))
}

/// Reads `PATTERN=64x64`.
///
/// # Errors
/// `InvalidArgument` for anything else.
pub fn parse(text: &str) -> Result<(Pattern, Vec<u64>)> {
    let (pattern, extents) = assigned(text, "--chunks u=64x64")?;
    let extents: Option<Vec<u64>> =
        extents.split('x').map(|part| part.parse().ok().filter(|extent| *extent > 0)).collect();
    let refused = || Error::new(ErrorKind::InvalidArgument, format!("'{text}': extents are numbers from 1, as 64x64"));
    Ok((pattern, extents.ok_or_else(refused)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_chunk_is_a_step_or_a_slab_of_one_or_several_small_steps() {
        assert_eq!(extents(&[10, 64, 64], 8, true, None), [2, 64, 64]);
        assert_eq!(extents(&[10, 256, 256], 8, true, None), [1, 256, 256]);
        assert_eq!(extents(&[10, 1024, 1024], 8, true, None), [1, 512, 1024]);
        assert_eq!(extents(&[10, 3, 1 << 20], 8, true, None), [1, 1, 1 << 19]);
        assert_eq!(extents(&[1000], 8, true, None), [1000]);
        assert_eq!(extents(&[100_000], 8, true, None), [8192]);
        assert_eq!(extents(&[1024, 1024], 8, false, None), [512, 1024]);
        assert_eq!(extents(&[], 8, false, None), [0u64; 0]);
        assert_eq!(extents(&[0, 5], 8, true, None), [1, 5]);
    }

    #[test]
    fn wanted_extents_are_taken_where_they_fit() {
        assert_eq!(extents(&[10, 64, 64], 8, true, Some(&[16, 100])), [8, 16, 64]);
        assert_eq!(extents(&[10, 64, 64], 8, true, Some(&[16])), [2, 64, 64]);
        assert_eq!(extents(&[64, 64], 8, false, Some(&[16, 32])), [16, 32]);
    }

    proptest! {
        #[test]
        fn chunks_have_elements_and_are_bounded(
            shape in proptest::collection::vec(0u64..1 << 40, 1..5), size in 1u64..17, has_steps: bool,
        ) {
            let chunk = extents(&shape, size, has_steps, None);
            prop_assert_eq!(chunk.len(), shape.len());
            prop_assert!(chunk.iter().zip(&shape).all(|(chunk, extent)| (1..=(*extent).max(1)).contains(chunk)));
            prop_assert!(bytes(&chunk, size) <= MOST);
        }
    }
}
