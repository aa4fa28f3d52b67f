//! Whether boxes overlap, in less than quadratic time: checked for the blocks of every step.
//!
//! Boxes are divided at the median of their starts, along the dimension that separates best, until few are left in a part. Blocks of a
//! regular decomposition separate completely: n log² n.

use thalweg_types::BoundingBox;

/// Parts this small are compared pair by pair.
const FEW: usize = 16;

/// Two boxes that share elements, by their numbers, the smaller first; `None` where no two do.
pub fn find(boxes: &[BoundingBox]) -> Option<(usize, usize)> {
    let ids: Vec<usize> = (0..boxes.len()).filter(|i| !boxes[*i].is_empty()).collect();
    part(boxes, ids)
}

fn end(b: &BoundingBox, d: usize) -> u64 {
    b.offset[d].saturating_add(b.count[d])
}

fn part(boxes: &[BoundingBox], ids: Vec<usize>) -> Option<(usize, usize)> {
    if ids.len() <= FEW {
        return pairs(boxes, &ids);
    }
    let rank = boxes[ids[0]].rank();
    let mut best: Option<(usize, usize, u64)> = None;
    for d in 0..rank {
        let mut starts: Vec<u64> = ids.iter().filter(|i| boxes[**i].rank() > d).map(|i| boxes[*i].offset[d]).collect();
        starts.sort_unstable();
        // The start nearest above the median's run, so that something lies before the cut.
        let Some(cut) = starts.get(starts.len() / 2).copied() else { continue };
        let cut = if starts.first() == Some(&cut) {
            match starts.iter().find(|s| **s > cut) {
                Some(next) => *next,
                None => continue,
            }
        } else {
            cut
        };
        let (mut before, mut behind) = (0, 0);
        for b in ids.iter().map(|i| &boxes[*i]).filter(|b| b.rank() > d) {
            before += usize::from(b.offset[d] < cut);
            behind += usize::from(end(b, d) > cut);
        }
        let larger = before.max(behind);
        if best.is_none_or(|(least, _, _)| larger < least) {
            best = Some((larger, d, cut));
        }
    }
    match best {
        // A cut that leaves nearly everything on one side leads nowhere.
        Some((larger, d, cut)) if larger * 10 <= ids.len() * 9 => {
            let side = |behind: bool| {
                ids.iter()
                    .copied()
                    .filter(|i| boxes[*i].rank() > d)
                    .filter(|i| if behind { end(&boxes[*i], d) > cut } else { boxes[*i].offset[d] < cut })
                    .collect()
            };
            part(boxes, side(false)).or_else(|| part(boxes, side(true)))
        }
        _ => pairs(boxes, &ids),
    }
}

fn pairs(boxes: &[BoundingBox], ids: &[usize]) -> Option<(usize, usize)> {
    for (n, i) in ids.iter().enumerate() {
        for j in &ids[..n] {
            if boxes[*i].intersect(&boxes[*j]).is_some() {
                return Some((*i.min(j), *i.max(j)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_fine_decomposition_is_free_of_overlaps_until_one_block_grows() {
        let mut boxes = Vec::new();
        for z in 0..20 {
            for y in 0..20 {
                for x in 0..20 {
                    boxes.push(BoundingBox::new([z * 4, y * 5, x * 6], [4, 5, 6]));
                }
            }
        }
        assert_eq!(find(&boxes), None);
        boxes[4321].count[2] = 7;
        assert_eq!(find(&boxes), Some((4321, 4322)));
    }

    proptest! {
        #[test]
        fn it_agrees_with_looking_at_every_pair(
            boxes in prop::collection::vec(((0u64..30, 0u64..30), (0u64..4, 0u64..4)), 0..60)
        ) {
            let boxes: Vec<_> = boxes.into_iter().map(|((a, b), (c, d))| BoundingBox::new([a, b], [c, d])).collect();
            let ids: Vec<usize> = (0..boxes.len()).collect();
            let found = find(&boxes);
            prop_assert_eq!(found.is_some(), pairs(&boxes, &ids).is_some());
            if let Some((i, j)) = found {
                prop_assert!(i < j && boxes[i].intersect(&boxes[j]).is_some());
            }
        }
    }
}
