//! Sorted byte ranges with lookup by overlap.

/// An item that covers a byte range.
pub trait Span {
    /// First byte and end.
    fn bounds(&self) -> (u64, u64);
    /// The end, `offset` at most, of the stored bytes before `offset`; 0 for none.
    fn end_before(&self, offset: u64) -> u64 {
        let (start, end) = self.bounds();
        if start < offset { end.min(offset) } else { 0 }
    }
}

/// Number of items per entry of the next level.
const FAN: usize = 16;

/// Spans sorted by first byte, with the largest end of each 16 of them, of each 256, and so on.
#[derive(Debug)]
pub struct Spans<T> {
    items: Vec<T>,
    /// Largest ends, each of [`FAN`] items of the level below.
    ends: Vec<Vec<u64>>,
}

impl<T: Span> Spans<T> {
    /// Builds the lookup from spans in any order.
    pub fn new(mut items: Vec<T>) -> Spans<T> {
        items.shrink_to_fit();
        if !items.is_sorted_by_key(|item| item.bounds().0) {
            items.sort_unstable_by_key(|item| item.bounds().0);
        }
        let mut ends: Vec<Vec<u64>> = Vec::new();
        let furthest = |run: &[T]| run.iter().map(|item| item.bounds().1).max().unwrap_or(0);
        ends.push(items.chunks(FAN).map(furthest).collect());
        while let Some(below) = ends.last().filter(|level| level.len() > 1) {
            let above = below.chunks(FAN).map(|run| run.iter().copied().max().unwrap_or(0)).collect();
            ends.push(above);
        }
        Spans { items, ends }
    }

    /// Passes every span that overlaps bytes `from..to` to `tell`.
    pub fn meeting(&self, from: u64, to: u64, mut tell: impl FnMut(&T)) {
        let stop = self.items.partition_point(|item| item.bounds().0 < to);
        self.visit(self.ends.len() - 1, 0, from, stop, &mut tell);
    }

    fn visit(&self, level: usize, node: usize, from: u64, stop: usize, tell: &mut impl FnMut(&T)) {
        let reach = FAN.pow(level as u32 + 1);
        if node * reach >= stop || self.ends[level].get(node).is_none_or(|end| *end <= from) {
            return;
        }
        if level == 0 {
            let run = &self.items[node * FAN..stop.min((node + 1) * FAN)];
            run.iter().filter(|item| item.bounds().1 > from).for_each(tell);
            return;
        }
        for child in node * FAN..(node + 1) * FAN {
            self.visit(level - 1, child, from, stop, tell);
        }
    }

    /// The largest [`Span::end_before`] of all spans; 0 for none.
    pub fn end_before(&self, offset: u64) -> u64 {
        let stop = self.items.partition_point(|item| item.bounds().0 < offset);
        let mut best = 0;
        self.climb(self.ends.len() - 1, 0, stop, offset, &mut best);
        best
    }

    fn climb(&self, level: usize, node: usize, stop: usize, offset: u64, best: &mut u64) {
        let reach = FAN.pow(level as u32 + 1);
        if node * reach >= stop || self.ends[level].get(node).is_none_or(|end| (*end).min(offset) <= *best) {
            return;
        }
        if level == 0 {
            let run = &self.items[node * FAN..stop.min((node + 1) * FAN)];
            *best = run.iter().map(|item| item.end_before(offset)).fold(*best, u64::max);
            return;
        }
        for child in (node * FAN..(node + 1) * FAN).rev() {
            self.climb(level - 1, child, stop, offset, best);
        }
    }

    /// Number of spans.
    pub fn count(&self) -> usize {
        self.items.len()
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        let ends: usize = self.ends.iter().map(|level| level.capacity() * 8).sum();
        self.items.capacity() * size_of::<T>() + ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Span for (u64, u64) {
        fn bounds(&self) -> (u64, u64) {
            *self
        }
    }

    proptest! {
        #[test]
        fn all_that_meet_are_found(items in prop::collection::vec((0..1000u64, 1..80u64), 0..700), from in 0..1100u64, span in 1..100u64) {
            let items: Vec<(u64, u64)> = items.into_iter().map(|(at, length)| (at, at + length)).collect();
            let mut expected: Vec<_> = items.iter().copied().filter(|(s, e)| *s < from + span && *e > from).collect();
            let spans = Spans::new(items);
            let mut told = Vec::new();
            spans.meeting(from, from + span, |item| told.push(*item));
            told.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(told, expected);
        }

        #[test]
        fn the_last_end_before_an_offset_is_found(items in prop::collection::vec((0..3000u64, 1..20u64), 0..300)) {
            let items: Vec<(u64, u64)> = items.into_iter().map(|(at, length)| (at, at + length)).collect();
            let spans = Spans::new(items.clone());
            for offset in 0..3100 {
                let expected = items.iter().filter(|(s, _)| *s < offset).map(|(_, e)| (*e).min(offset)).max().unwrap_or(0);
                prop_assert_eq!(spans.end_before(offset), expected);
            }
        }
    }
}
