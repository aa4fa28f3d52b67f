//! Numbers of the outputs that a program offers, and which of them are wanted.
//!
//! A program that asks gives each output a number, such as its own time step; of one that doesn't ask outputs are counted from 0. With
//! `every` N the first output at or after each multiple of N is wanted, and the first one of a run: so multiples of N for a program that
//! counts by one, and never nothing for one that offers every seventh step.

/// The outputs of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbering {
    /// The number that the program has asked about since the last open.
    asked: Option<u64>,
    next: u64,
    last_written: Option<u64>,
    /// The one before it.
    written_before: Option<u64>,
}

impl Numbering {
    /// Whether an output is wanted that the program is about to open under this number.
    pub fn ask(&mut self, number: u64, every: u64) -> bool {
        self.asked = Some(number);
        self.wants(number, every)
    }

    /// The number of the output that the program opens, and whether it is wanted. Call once for each open.
    pub fn open(&mut self, every: u64) -> (u64, bool) {
        let number = self.asked.take().unwrap_or(self.next);
        self.next = number.saturating_add(1);
        let wanted = self.wants(number, every);
        if wanted {
            self.written_before = self.last_written.replace(number);
        }
        (number, wanted)
    }

    /// The number on which all ranks agreed for the output that they have just opened: the largest of theirs. A rank whose program went
    /// wrong before an earlier open has counted less.
    pub fn agreed(&mut self, number: u64) {
        self.next = number.saturating_add(1);
        self.last_written = Some(number);
    }

    /// The number of the last output that was offered; 0 before the first one.
    pub fn last(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// The output that was just opened, and wanted, failed: the next one is wanted in its place.
    pub fn failed(&mut self) {
        self.last_written = self.written_before;
    }

    fn wants(&self, number: u64, every: u64) -> bool {
        let every = every.max(1);
        self.last_written.is_none_or(|last| number == last || number / every != last / every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(numbering: &mut Numbering, every: u64, outputs: usize) -> Vec<u64> {
        (0..outputs).map(|_| numbering.open(every)).filter(|(_, wanted)| *wanted).map(|(number, _)| number).collect()
    }

    #[test]
    fn multiples_are_written_and_a_change_holds_for_the_next_output() {
        let mut numbering = Numbering::default();
        assert_eq!(written(&mut numbering, 10, 21), [0, 10, 20]);
        assert_eq!(written(&mut numbering, 1, 3), [21, 22, 23]);
        assert_eq!(written(&mut numbering, 10, 8), [30]);
    }

    #[test]
    fn the_output_after_one_that_failed_is_wanted_on_all_ranks_and_they_count_alike_again() {
        for mistaken in [false, true] {
            let (mut here, mut there) = (Numbering::default(), Numbering::default());
            for numbering in [&mut here, &mut there] {
                assert_eq!(written(numbering, 10, 20), [0, 10]);
            }
            // An open fails; where the program names no group, the library does not even learn of the output.
            assert_eq!(here.open(10), (20, true));
            here.failed();
            if !mistaken {
                assert_eq!(there.open(10), (20, true));
                there.failed();
            }
            let (a, b) = (here.open(10), there.open(10));
            assert!(a.1 && b.1, "{a:?} {b:?}");
            for numbering in [&mut here, &mut there] {
                numbering.agreed(a.0.max(b.0));
            }
            assert_eq!(written(&mut here, 10, 30), [30, 40, 50]);
            assert_eq!(written(&mut there, 10, 30), [30, 40, 50]);
        }
    }

    #[test]
    fn a_program_that_asks_counts_as_it_likes() {
        let mut numbering = Numbering::default();
        let steps: Vec<u64> = (100..200).step_by(7).collect();
        let mut opened = Vec::new();
        for step in steps {
            if numbering.ask(step, 20) {
                assert_eq!(numbering.open(20), (step, true));
                opened.push(step);
            }
        }
        assert_eq!(opened, [100, 121, 142, 163, 184]);
        assert_eq!(numbering.open(1), (198, true), "asked, and not opened before");
    }
}
