//! Buffering of contiguous writes, as in streams of the C library. Pure: decides the requests to send, without sending.
//!
//! | question | answer |
//! |----------|--------|
//! | which writes | those that continue at the end of the handle's last write and are shorter than [`WHOLE`]. The first write of a run is sent immediately: a store's refusal is reported by that write, and a single write leaves nothing unsent |
//! | how long | until [`LIMIT`] bytes are buffered, or until a write more than [`OLDEST`] after the first unsent one |
//! | sent before | a read, length request, truncation, hole, sync, publish or close of the handle; a call by name that reads or changes lengths, times or names; a use of another handle that may refer to the same file |
//! | memory | [`LIMIT`] for each file that is being written, at most [`FILES`] files; further files are written without a buffer |
//! | failures | bytes that cannot be sent are lost, and their handle is unusable: each later call on it, close included, fails with the same error |
//! | a fork | unsent bytes stay the parent's: the child does not send them |
//! | a killed process | loses its unsent bytes |

use std::io::IoSlice;
use std::time::{Duration, Instant};

/// Capacity of a handle's buffer in bytes.
pub const LIMIT: usize = 256 << 10;
/// Writes of at least this many bytes are sent immediately.
pub const WHOLE: usize = 64 << 10;
/// Age of unsent bytes after which the next write sends them.
pub const OLDEST: Duration = Duration::from_secs(1);
/// Largest number of handles of a mount with a buffer.
pub const FILES: usize = 64;

/// Destination of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// To an offset, in bytes.
    At(u64),
    /// At the end of the file.
    End,
}

/// Action for a write.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The write was buffered.
    Gathered,
    /// Send the unsent bytes and this write as one write to this destination.
    Joined(Destination),
    /// Send the unsent bytes, then this write separately.
    Apart,
}

/// Contiguous bytes that a handle has written.
#[derive(Debug, Default)]
pub struct Run {
    /// Whether the run consists of appends, and its end; `None` if no write can continue it.
    next: Option<(bool, u64)>,
    unsent: Vec<u8>,
    /// Time of the first unsent write.
    since: Option<Instant>,
}

impl Run {
    /// Whether a further write may be buffered.
    pub fn is_open(&self) -> bool {
        self.next.is_some()
    }

    /// Whether the run has a buffer.
    pub fn has_room(&self) -> bool {
        self.unsent.capacity() > 0
    }

    /// Buffers a write, or decides how to send it.
    ///
    /// - `room`: called for permission to allocate a buffer.
    pub fn take(
        &mut self,
        destination: Destination,
        pieces: &[IoSlice<'_>],
        now: Instant,
        room: impl FnOnce() -> bool,
    ) -> Step {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let goes_on = match (destination, self.next) {
            (Destination::At(offset), Some((false, next))) => offset == next,
            (Destination::End, Some((true, _))) => true,
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
                Some((destination, _)) => Step::Joined(destination),
                None => Step::Apart,
            },
        }
    }

    /// The unsent bytes and their destination.
    pub fn unsent(&self) -> Option<(Destination, &[u8])> {
        let (behind, next) = self.next?;
        let start = next.checked_sub(self.unsent.len() as u64)?;
        let destination = if behind { Destination::End } else { Destination::At(start) };
        (!self.unsent.is_empty()).then_some((destination, &self.unsent))
    }

    /// End of the file for this process, after a buffered append.
    pub fn end(&self) -> u64 {
        self.next.map_or(0, |(_, next)| next)
    }

    /// The unsent bytes were sent, or are lost.
    pub fn clear(&mut self) {
        self.unsent.clear();
        self.since = None;
    }

    /// All bytes up to `end` were sent; a write may continue there.
    pub fn sent(&mut self, destination: Destination, end: Option<u64>) {
        self.clear();
        self.next = end.map(|end| (destination == Destination::End, end));
    }

    /// Ends the run and frees the buffer.
    pub fn close(&mut self) {
        *self = Run::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(run: &mut Run, destination: Destination, bytes: &[u8], now: Instant) -> Step {
        run.take(destination, &[IoSlice::new(bytes)], now, || true)
    }

    #[test]
    fn only_writes_that_go_on_are_gathered_and_the_first_of_a_run_is_not() {
        let (mut run, now) = (Run::default(), Instant::now());
        assert_eq!(write(&mut run, Destination::At(5), b"ab", now), Step::Apart);
        run.sent(Destination::At(5), Some(7));
        assert_eq!(write(&mut run, Destination::At(7), b"cd", now), Step::Gathered);
        assert_eq!(run.unsent(), Some((Destination::At(7), &b"cd"[..])));
        for elsewhere in [Destination::At(8), Destination::At(6), Destination::End] {
            assert_eq!(write(&mut run, elsewhere, b"x", now), Step::Apart);
        }
        assert_eq!(write(&mut run, Destination::At(9), b"ef", now), Step::Gathered);
        assert_eq!(run.unsent(), Some((Destination::At(7), &b"cdef"[..])));
    }

    #[test]
    fn what_is_long_or_late_or_without_memory_is_sent_with_what_came_before() {
        let (mut run, now) = (Run::default(), Instant::now());
        run.sent(Destination::End, Some(10));
        assert_eq!(run.take(Destination::End, &[IoSlice::new(b"a")], now, || false), Step::Apart);
        assert_eq!(write(&mut run, Destination::End, b"a", now), Step::Gathered);
        assert_eq!(run.end(), 11);
        assert_eq!(write(&mut run, Destination::End, &[0; WHOLE], now), Step::Joined(Destination::End));
        assert_eq!(write(&mut run, Destination::End, b"b", now + 2 * OLDEST), Step::Joined(Destination::End));
        assert_eq!(write(&mut run, Destination::End, b"b", now), Step::Gathered);
    }

    #[test]
    fn writes_at_the_end_of_all_offsets_are_not_gathered() {
        let (mut run, now) = (Run::default(), Instant::now());
        run.sent(Destination::At(0), Some(u64::MAX - 1));
        assert_eq!(write(&mut run, Destination::At(u64::MAX - 1), b"ab", now), Step::Apart);
    }

    proptest! {
        /// The sent writes produce the same file as the original writes, and memory stays bounded.
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
            let offset = |to: Destination| match to {
                Destination::At(at) => at as usize,
                Destination::End => unreachable!(),
            };
            for (kind, length, byte) in writes {
                let at = if kind == 0 { next / 2 } else { next };
                let length = if kind == 1 { length } else { length % 300 };
                let bytes = vec![byte; length];
                put(&mut wanted, at, &bytes);
                next = at + length;
                match write(&mut run, Destination::At(at as u64), &bytes, now) {
                    Step::Gathered => {}
                    Step::Joined(destination) => {
                        let all = [run.unsent().unwrap().1, &bytes].concat();
                        put(&mut got, offset(destination), &all);
                        run.sent(Destination::At(0), Some(next as u64));
                    }
                    Step::Apart => {
                        if let Some((destination, bytes)) = run.unsent() {
                            put(&mut got, offset(destination), bytes);
                        }
                        put(&mut got, at, &bytes);
                        run.sent(Destination::At(0), Some(next as u64));
                    }
                }
                prop_assert!(run.unsent.capacity() <= LIMIT);
            }
            if let Some((destination, bytes)) = run.unsent() {
                put(&mut got, offset(destination), bytes);
            }
            prop_assert!(wanted == got);
        }
    }
}
