//! Runs of blocks in a file that is one array of elements: pure functions of places.
//!
//! A view that lists each block of each step grows with the steps, and so does the time in which HDF5 opens it. But most programs write
//! the same boxes in each step, at a constant distance in the file: all these blocks are one regular selection of the file, a *run*.
//!
//! A file is one array of elements of `size` bytes only from the byte on where a block begins: blocks whose offsets differ by no multiple of
//! `size` are in different arrays, which begin at the bytes `offset % size` of the file, the array's *phase*.

use std::collections::HashMap;
use thalweg_types::BoundingBox;

/// Boxes of the same extents at regular places of an array, and of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The first box.
    pub bounds: BoundingBox,
    /// Number of boxes.
    pub times: u64,
    /// Distance of two boxes along the first axis of the array; 1 for a single box.
    pub every: u64,
    /// The file with their elements.
    pub file: usize,
    /// First byte of the file that is an element.
    pub phase: u64,
    /// First element of the first box, counted from `phase`.
    pub first: u64,
    /// Distance of two boxes there, in elements; the number of a box's elements for a single box.
    pub stride: u64,
}

impl Run {
    /// Elements of a box.
    pub fn elements(&self) -> u64 {
        self.bounds.count.iter().product()
    }

    /// One element behind the last one, counted from `phase`; `None` if 64 bits do not count it.
    pub fn end(&self) -> Option<u64> {
        (self.times - 1).checked_mul(self.stride)?.checked_add(self.first)?.checked_add(self.elements())
    }
}

/// The runs of an array's boxes, in the order of their first boxes.
///
/// - `size`: bytes of an element.
/// - `has_steps`: the first axis is that of steps; without one, each box is a run.
/// - `boxes`: not empty, in the order of steps: bounds, file, offset of the first byte.
pub fn of(size: u64, has_steps: bool, boxes: impl IntoIterator<Item = (BoundingBox, usize, u64)>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    // The run that a box of these places may continue.
    let mut open: HashMap<(usize, u64, BoundingBox), usize> = HashMap::new();
    for (bounds, file, offset) in boxes {
        let (phase, first, step) = (offset % size, offset / size, bounds.offset.first().copied().unwrap_or(0));
        let stride = bounds.count.iter().product();
        let run = Run { bounds, times: 1, every: 1, file, phase, first, stride };
        if !has_steps {
            runs.push(run);
            continue;
        }
        let mut anywhere = run.bounds.clone();
        anywhere.offset[0] = 0;
        match open.get_mut(&(file, phase, anywhere.clone())) {
            Some(number) if continued(&mut runs[*number], step, first) => {}
            Some(number) => {
                *number = runs.len();
                runs.push(run);
            }
            None => {
                open.insert((file, phase, anywhere), runs.len());
                runs.push(run);
            }
        }
    }
    runs
}

/// Adds a box to a run, if it lies where the run's next box does.
fn continued(run: &mut Run, step: u64, first: u64) -> bool {
    if run.times == 1 {
        // A selection goes forward, and its boxes do not meet.
        let stride = first.checked_sub(run.first).filter(|stride| *stride >= run.elements());
        let (Some(stride), Some(every)) = (stride, step.checked_sub(run.bounds.offset[0]).filter(|every| *every > 0))
        else {
            return false;
        };
        (run.stride, run.every) = (stride, every);
    } else if run.bounds.offset[0] + run.times * run.every != step
        || run.times.checked_mul(run.stride).and_then(|behind| run.first.checked_add(behind)) != Some(first)
    {
        return false;
    }
    run.times += 1;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All boxes of runs: where they are, and the file and byte of their first elements.
    fn boxes(size: u64, runs: &[Run]) -> Vec<(BoundingBox, usize, u64)> {
        let mut all = Vec::new();
        for run in runs {
            for time in 0..run.times {
                let mut bounds = run.bounds.clone();
                if time > 0 {
                    bounds.offset[0] += time * run.every;
                }
                all.push((bounds, run.file, run.phase + (run.first + time * run.stride) * size));
            }
        }
        all.sort_by(|a, b| (&a.0.offset, a.2).cmp(&(&b.0.offset, b.2)));
        all
    }

    proptest! {
        #[test]
        fn runs_have_each_box_once_and_at_its_byte(
            size in prop::sample::select(vec![1u64, 2, 4, 8, 16]),
            // Per step: which of four boxes are there, and the bytes in front of each.
            steps in prop::collection::vec(prop::collection::vec((0u64..4, 0u64..3), 0..5), 0..12),
        ) {
            let (mut given, mut at) = (Vec::new(), 3);
            for (step, written) in steps.iter().enumerate() {
                let mut seen = [false; 4];
                for (place, gap) in written {
                    if std::mem::replace(&mut seen[*place as usize], true) {
                        continue;
                    }
                    let bounds = BoundingBox { offset: vec![step as u64, place * 5], count: vec![1, 2 + place] };
                    at += gap * 4;
                    given.push((bounds, (place % 2) as usize, at));
                    at += (2 + place) * size;
                }
            }
            let runs = of(size, true, given.clone());
            given.sort_by(|a, b| (&a.0.offset, a.2).cmp(&(&b.0.offset, b.2)));
            prop_assert_eq!(boxes(size, &runs), given);
            for run in &runs {
                prop_assert!(run.stride >= run.elements() && run.every > 0 && run.phase < size);
            }
        }
    }

    fn plane(step: u64) -> BoundingBox {
        BoundingBox { offset: vec![step, 0, 4], count: vec![1, 2, 3] }
    }

    #[test]
    fn steps_at_a_constant_distance_are_one_run() {
        let runs = of(8, true, (0..1000).map(|step| (plane(step), 0, 13 + step * 400)));
        assert_eq!(runs, [Run { bounds: plane(0), times: 1000, every: 1, file: 0, phase: 5, first: 1, stride: 50 }]);
    }

    #[test]
    fn steps_at_a_distance_of_no_whole_elements_are_a_run_for_each_phase() {
        let runs = of(8, true, (0..100).map(|step| (plane(step), 0, step * 404)));
        let told: Vec<_> = runs.iter().map(|run| (run.times, run.every, run.phase, run.first, run.stride)).collect();
        assert_eq!(told, [(50, 2, 0, 0, 101), (50, 2, 4, 50, 101)]);
    }

    #[test]
    fn a_file_that_another_program_wrote_backwards_has_a_run_for_each_box() {
        let runs = of(8, true, (0..4).map(|step| (plane(step), 0, 4000 - step * 400)));
        assert_eq!(runs.iter().map(|run| run.times).collect::<Vec<_>>(), [1, 1, 1, 1]);
    }
}
