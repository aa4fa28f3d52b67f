//! Whether boxes of an array meet: pure functions of boxes.

use std::collections::HashSet;
use thalweg_types::BoundingBox;

/// A box that has elements in common with another one; `None` if no two boxes meet.
///
/// - `boxes`: of the same number of axes, not empty, with ends that 64 bits count.
///
/// # Cost
/// For n boxes of a grid with k layers along its most divided axis: n * n / k comparisons.
pub fn meets_another(boxes: &[BoundingBox]) -> Option<usize> {
    let axes = boxes.first()?.count.len();
    // Arrays without axes have one element.
    let layers = |axis: &usize| boxes.iter().map(|one| one.offset[*axis]).collect::<HashSet<u64>>().len();
    let Some(axis) = (0..axes).max_by_key(layers) else { return (boxes.len() > 1).then_some(1) };
    let mut order: Vec<usize> = (0..boxes.len()).collect();
    order.sort_by_key(|number| boxes[*number].offset[axis]);
    // The boxes that have not ended where the next one begins.
    let mut open: Vec<usize> = Vec::new();
    for number in order {
        let begin = boxes[number].offset[axis];
        open.retain(|other| boxes[*other].offset[axis] + boxes[*other].count[axis] > begin);
        if let Some(other) = open.iter().find(|other| meet(&boxes[**other], &boxes[number])) {
            return Some(number.max(*other));
        }
        open.push(number);
    }
    None
}

fn meet(a: &BoundingBox, b: &BoundingBox) -> bool {
    (0..a.count.len())
        .all(|axis| a.offset[axis] < b.offset[axis] + b.count[axis] && b.offset[axis] < a.offset[axis] + a.count[axis])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn a_box() -> impl Strategy<Value = BoundingBox> {
        (prop::collection::vec(0u64..6, 2), prop::collection::vec(1u64..3, 2))
            .prop_map(|(offset, count)| BoundingBox { offset, count })
    }

    proptest! {
        #[test]
        fn boxes_meet_exactly_if_an_element_is_in_two_of_them(boxes in prop::collection::vec(a_box(), 0..6)) {
            let mut seen = HashSet::new();
            let mut twice = false;
            for one in &boxes {
                for i in 0..one.count[0] {
                    for j in 0..one.count[1] {
                        twice |= !seen.insert((one.offset[0] + i, one.offset[1] + j));
                    }
                }
            }
            prop_assert_eq!(meets_another(&boxes).is_some(), twice);
        }
    }

    #[test]
    fn two_boxes_without_axes_meet() {
        let point = BoundingBox { offset: vec![], count: vec![] };
        assert_eq!(meets_another(std::slice::from_ref(&point)), None);
        assert_eq!(meets_another(&[point.clone(), point]), Some(1));
    }
}
