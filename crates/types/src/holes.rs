//! Holes: byte ranges of a file in which nothing was stored. They read as zeros, and may be far longer than what a program can read.

use crate::Result;

/// Length of the shortest hole in a file of a foreign filesystem that is skipped, in bytes. A shorter one is read in a moment, and a
/// filesystem that takes fresh bytes for a hole (OpenZFS before 2.1.14 and 2.2.2) must not hide them.
pub const BELIEVED: u64 = 256 << 20;

/// An offset, `from..=end`, up to which nothing is stored from `from` on: the first stored byte, if `stored_before` is exact; `end`
/// where there is none.
///
/// - `stored_before`: the end of the last stored bytes before an offset, or a later offset, that offset at most.
///
/// # Errors
/// Errors of `stored_before`.
/// # Cost
/// One call where the byte at `from` is stored, two where nothing is, else up to 66.
pub fn stored_after(from: u64, end: u64, mut stored_before: impl FnMut(u64) -> Result<u64>) -> Result<u64> {
    if from >= end {
        return Ok(end);
    }
    if stored_before(from + 1)? > from {
        return Ok(from);
    }
    // Nothing is stored in `from..low`; something may be in `from..high`.
    let (mut low, mut high) = (from + 1, stored_before(end)?);
    if high <= from {
        return Ok(end);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match stored_before(middle)?.min(middle) {
            last if last <= from => low = middle,
            last => high = last.max(low + 1),
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stored_byte_is_found() {
        for stored in
            [vec![], vec![(0, 3)], vec![(5, 1)], vec![(7, 9), (40, 2)], vec![(0, 1), (3, 30), (20, 4), (63, 1)]]
        {
            let before = |offset: u64| {
                Ok(stored.iter().filter(|(at, _)| *at < offset).map(|(at, n)| (at + n).min(offset)).max().unwrap_or(0))
            };
            let byte = |b: &u64| stored.iter().any(|(at, n)| (*at..at + n).contains(b));
            for (from, end) in (0..66).flat_map(|from| (0..66).map(move |end| (from, end))) {
                let expected = (from..end).find(byte).unwrap_or(end);
                assert_eq!(stored_after(from, end, before).unwrap(), expected, "{stored:?}, {from}..{end}");
            }
        }
    }

    #[test]
    fn where_holes_are_not_known_nothing_is_skipped() {
        assert_eq!(stored_after(7, 1 << 60, Ok).unwrap(), 7);
    }

    #[test]
    fn a_file_of_the_largest_length_takes_66_calls_at_most() {
        let mut calls = 0;
        let found = stored_after(0, u64::MAX, |offset| {
            calls += 1;
            Ok(if offset > 1 << 40 { offset } else { 0 })
        });
        assert_eq!(found.unwrap(), 1 << 40);
        assert!(calls <= 66, "{calls}");
    }
}
