//! The logical clock of a container, and the length of a file by it.
//!
//! Wall clocks of different hosts differ, so none of them orders anything. A session takes a number one above the highest
//! it has seen published when it opens, and again when it syncs, if others have published since. So whatever is written
//! after a look at what another published comes later by the clock. Sessions that never looked at each other may hold the
//! same number: then the writer's number decides, and `check` tells of it.
//!
//! The order of records is that of (clock, cuts before writes, writer, session, segment, place in its data log).

/// What a session wrote, as far as the length of the file needs it. Clocks count from 1; 0 is "never".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Clock of the first write behind the session's last cut.
    pub first: u64,
    /// Clock of its last write.
    pub last: u64,
    /// Where the furthest of the writes behind its last cut ends.
    pub end: u64,
    /// Clock of its last cut.
    pub cut_clock: u64,
    /// The length that it cut or extended to.
    pub cut_length: u64,
    /// Bytes written, all of them.
    pub bytes: u64,
}

impl Summary {
    /// Adds a write that ends at byte `end`.
    pub fn write(&mut self, clock: u64, end: u64, bytes: u64) {
        if self.first == 0 {
            self.first = clock;
        }
        self.last = clock;
        self.end = self.end.max(end);
        self.bytes += bytes;
    }

    /// Adds a cut. Writes of the same clock come after it, wherever they are in the log.
    pub fn cut(&mut self, clock: u64, length: u64) {
        if self.first < clock {
            (self.first, self.last, self.end) = (0, 0, 0);
        }
        (self.cut_clock, self.cut_length) = (clock, length);
    }

    /// The highest clock in use.
    pub fn clock(&self) -> u64 {
        self.last.max(self.cut_clock)
    }
}

/// How long a file is; `None` where a session wrote both before and behind another's cut, so that only the index knows.
///
/// - `sessions`: writer, session, what it wrote.
pub fn length(sessions: impl Iterator<Item = (u32, u64, Summary)> + Clone) -> Option<u64> {
    let cuts = sessions.clone().filter(|(_, _, s)| s.cut_clock > 0);
    let last = cuts.max_by_key(|(writer, session, s)| (s.cut_clock, *writer, *session));
    let (cut, mut length) = last.map_or((0, 0), |(_, _, s)| (s.cut_clock, s.cut_length));
    for (_, _, s) in sessions {
        if s.first >= cut {
            length = length.max(s.end);
        } else if s.last >= cut {
            return None;
        }
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_ends_what_came_before_and_nothing_that_came_after() {
        let mut a = Summary::default();
        a.write(1, 100, 100);
        let mut b = Summary::default();
        b.cut(2, 40);
        assert_eq!(length([(0, 1, a)].into_iter()), Some(100));
        assert_eq!(length([(0, 1, a), (0, 2, b)].into_iter()), Some(40));
        b.write(2, 60, 5);
        assert_eq!(length([(0, 1, a), (0, 2, b)].into_iter()), Some(60));
        a.write(2, 100, 1);
        assert_eq!(length([(0, 1, a), (0, 2, b)].into_iter()), None, "only the index knows where each write ends");
        assert_eq!(length(std::iter::empty()), Some(0));
    }
}
