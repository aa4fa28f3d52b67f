//! Writes that are gathered, as the C library's streams do it: what goes where, computed without sending anything.
//!
//! | question | answer |
//! |----------|--------|
//! | which writes | those that go on where the handle's last write ended; shorter than [`WHOLE`]. The first of a run is sent at once: a store that refuses says so where it happens, and who writes once has nothing unsent |
//! | how long | until [`LIMIT`] bytes are gathered, or a write comes more than [`OLDEST`] after the first unsent one |
//! | sent before | a read, length, cut, hole, sync, publish or close of the handle; a call by name that tells or changes lengths, times or names; a use of another handle that may be the same file |
//! | memory | [`LIMIT`] for each file that is being written, at most [`FILES`] of them; further files are written without |
//! | failures | bytes that cannot be sent are lost, and their handle with them: each later call on it, its close included, fails with the same error |
//! | a fork | what the parent has not sent is the parent's: the child sends none of it |
//! | a process that is killed | loses what it had not sent |

use std::io::IoSlice;
use std::time::{Duration, Instant};

/// Bytes that a handle gathers.
pub const LIMIT: usize = 256 << 10;
/// Writes of so many bytes are sent at once.
pub const WHOLE: usize = 64 << 10;
/// Unsent bytes are sent with the next write that comes later than this.
pub const OLDEST: Duration = Duration::from_secs(1);
/// Handles of a mount that gather at one time.
pub const FILES: usize = 64;

/// Where a write goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// To an offset, in bytes.
    At(u64),
    /// Behind the end.
    End,
}

/// What becomes of a write.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It was gathered.
    Gathered,
    /// It is sent with the unsent bytes before it, as one write to this place.
    Joined(Place),
    /// The unsent bytes are sent, then this write by itself.
    Apart,
}

/// A run of bytes that a handle has written, each behind the last.
#[derive(Debug, Default)]
pub struct Run {
    /// Whether the run was written behind the end, and where it ends; `None` where no write can go on.
    next: Option<(bool, u64)>,
    unsent: Vec<u8>,
    /// When the first unsent byte came.
    since: Option<Instant>,
}

impl Run {
    /// Whether a further write may be gathered.
    pub fn is_open(&self) -> bool {
        self.next.is_some()
    }

    /// Whether it has memory for unsent bytes.
    pub fn has_room(&self) -> bool {
        self.unsent.capacity() > 0
    }

    /// Takes a write, or says how it is to be sent.
    ///
    /// - `room`: whether memory may be taken if there is none yet.
    pub fn take(&mut self, place: Place, pieces: &[IoSlice<'_>], now: Instant, room: impl FnOnce() -> bool) -> Step {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let goes_on = match (place, self.next) {
            (Place::At(offset), Some((false, next))) => offset == next,
            (Place::End, Some((true, _))) => true,
            _ => false,
        };
        if !goes_on {
            return Step::Apart;
        }
        let old = self.since.is_some_and(|since| now.duration_since(since) > OLDEST);
        let end = self.next.and_then(|(_, next)| next.checked_add(total as u64));
        let fits = total > 0 && total < WHOLE && self.unsent.len() + total <= LIMIT && !old;
        match (fits, end, &mut self.next) {
            (true, Some(end), Some((_, next))) if self.unsent.capacity() > 0 || room() => {
                if self.unsent.capacity() == 0 {
                    self.unsent.reserve_exact(LIMIT);
                }
                self.since.get_or_insert(now);
                pieces.iter().for_each(|piece| self.unsent.extend_from_slice(piece));
                *next = end;
                Step::Gathered
            }
            _ => match self.unsent() {
                Some((place, _)) => Step::Joined(place),
                None => Step::Apart,
            },
        }
    }

    /// Where the unsent bytes go, and these.
    pub fn unsent(&self) -> Option<(Place, &[u8])> {
        let (behind, next) = self.next?;
        let start = next.checked_sub(self.unsent.len() as u64)?;
        let place = if behind { Place::End } else { Place::At(start) };
        (!self.unsent.is_empty()).then_some((place, &self.unsent))
    }

    /// Where the file ends for this process, after an append that was gathered.
    pub fn end(&self) -> u64 {
        self.next.map_or(0, |(_, next)| next)
    }

    /// The unsent bytes were sent, or are lost.
    pub fn clear(&mut self) {
        self.unsent.clear();
        self.since = None;
    }

    /// Everything was sent up to `end`; a write may go on there.
    pub fn sent(&mut self, place: Place, end: Option<u64>) {
        self.clear();
        self.next = end.map(|end| (place == Place::End, end));
    }

    /// No write goes on; gives the memory back.
    pub fn close(&mut self) {
        *self = Run::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(run: &mut Run, place: Place, bytes: &[u8], now: Instant) -> Step {
        run.take(place, &[IoSlice::new(bytes)], now, || true)
    }

    #[test]
    fn only_writes_that_go_on_are_gathered_and_the_first_of_a_run_is_not() {
        let (mut run, now) = (Run::default(), Instant::now());
        assert_eq!(write(&mut run, Place::At(5), b"ab", now), Step::Apart);
        run.sent(Place::At(5), Some(7));
        assert_eq!(write(&mut run, Place::At(7), b"cd", now), Step::Gathered);
        assert_eq!(run.unsent(), Some((Place::At(7), &b"cd"[..])));
        for elsewhere in [Place::At(8), Place::At(6), Place::End] {
            assert_eq!(write(&mut run, elsewhere, b"x", now), Step::Apart);
        }
        assert_eq!(write(&mut run, Place::At(9), b"ef", now), Step::Gathered);
        assert_eq!(run.unsent(), Some((Place::At(7), &b"cdef"[..])));
    }

    #[test]
    fn what_is_long_or_late_or_without_memory_is_sent_with_what_came_before() {
        let (mut run, now) = (Run::default(), Instant::now());
        run.sent(Place::End, Some(10));
        assert_eq!(run.take(Place::End, &[IoSlice::new(b"a")], now, || false), Step::Apart);
        assert_eq!(write(&mut run, Place::End, b"a", now), Step::Gathered);
        assert_eq!(run.end(), 11);
        assert_eq!(write(&mut run, Place::End, &[0; WHOLE], now), Step::Joined(Place::End));
        assert_eq!(write(&mut run, Place::End, b"b", now + 2 * OLDEST), Step::Joined(Place::End));
        assert_eq!(write(&mut run, Place::End, b"b", now), Step::Gathered);
    }

    #[test]
    fn writes_at_the_end_of_all_offsets_are_not_gathered() {
        let (mut run, now) = (Run::default(), Instant::now());
        run.sent(Place::At(0), Some(u64::MAX - 1));
        assert_eq!(write(&mut run, Place::At(u64::MAX - 1), b"ab", now), Step::Apart);
    }

    proptest! {
        /// What is sent, in order, makes the same file as the writes themselves, and memory stays bounded.
        #[test]
        fn sending_gathered_writes_makes_the_same_file(
            writes in prop::collection::vec((0..4u8, 0..70_000usize, any::<u8>()), 1..60)
        ) {
            let (mut run, now) = (Run::default(), Instant::now());
            let (mut wanted, mut got, mut next) = (Vec::new(), Vec::new(), 0);
            let put = |file: &mut Vec<u8>, at: usize, bytes: &[u8]| {
                file.resize(file.len().max(at + bytes.len()), 0);
                file[at..at + bytes.len()].copy_from_slice(bytes);
            };
            let offset = |place: Place| match place { Place::At(at) => at as usize, Place::End => unreachable!() };
            for (kind, length, byte) in writes {
                let at = if kind == 0 { next / 2 } else { next };
                let length = if kind == 1 { length } else { length % 300 };
                let bytes = vec![byte; length];
                put(&mut wanted, at, &bytes);
                next = at + length;
                match write(&mut run, Place::At(at as u64), &bytes, now) {
                    Step::Gathered => {}
                    Step::Joined(place) => {
                        let all = [run.unsent().unwrap().1, &bytes].concat();
                        put(&mut got, offset(place), &all);
                        run.sent(Place::At(0), Some(next as u64));
                    }
                    Step::Apart => {
                        if let Some((place, bytes)) = run.unsent() {
                            put(&mut got, offset(place), bytes);
                        }
                        put(&mut got, at, &bytes);
                        run.sent(Place::At(0), Some(next as u64));
                    }
                }
                prop_assert!(run.unsent.capacity() <= LIMIT);
            }
            if let Some((place, bytes)) = run.unsent() {
                put(&mut got, offset(place), bytes);
            }
            prop_assert!(wanted == got);
        }
    }
}
