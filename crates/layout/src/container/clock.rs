//! The logical clock of a container, and the file length that follows from it.
//!
//! Wall clocks of different hosts differ, so they order nothing. A session takes the highest published clock plus one when
//! it begins, and again when it syncs if others have published since. Writes that follow a refresh are therefore later by
//! the clock than everything that the refresh showed. Sessions that have not seen each other may have the same clock: then
//! the writer number decides, and `check` reports it.
//!
//! Records are ordered by (clock, cuts before writes, writer, session, segment, offset in the data log).
//!
//! An append is placed at the end that the file has at that point of the order. Each append takes a new clock, above all
//! clocks that its process knows, unless it follows an append of the same handle and nothing newer is known: bytes seen
//! before the append are before it in the file.

/// Summary of a session's writes, to compute the file's length. Clocks count from 1; 0: never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Clock of the first write after the session's last cut.
    pub first: u64,
    /// Clock of the last write.
    pub last: u64,
    /// Largest end offset of the writes after the last cut.
    pub end: u64,
    /// Clock of the last cut.
    pub cut_clock: u64,
    /// New length set by that cut (a cut may extend the file).
    pub cut_length: u64,
    /// Number of bytes written by the session.
    pub bytes: u64,
    /// End of the file before the session's first append, as its process saw it; `None` without appends,
    /// [`Summary::UNSEEN`] after a cut or if unknown. `end` is computed from it.
    pub base: Option<u64>,
}

impl Summary {
    /// An unknown length.
    pub const UNSEEN: u64 = u64::MAX;

    /// Adds a write that ends at byte `end`.
    pub fn write(&mut self, clock: u64, end: u64, bytes: u64) {
        if self.first == 0 {
            self.first = clock;
        }
        self.last = clock;
        self.end = self.end.max(end);
        self.bytes += bytes;
    }

    /// Adds an append to a file whose end, as its process saw it, is byte `from`.
    pub fn append(&mut self, clock: u64, from: u64, bytes: u64) {
        self.base = match self.base {
            None => Some(from),
            // Bytes of other sessions are in between: a reader that does not see those sessions yet would compute another
            // place.
            Some(_) if from != self.end => Some(Summary::UNSEEN),
            known => known,
        };
        self.write(clock, from.saturating_add(bytes), bytes);
    }

    /// Adds a cut. Writes of the same clock come after the cut, wherever they are in the log.
    pub fn cut(&mut self, clock: u64, length: u64) {
        if self.first < clock {
            (self.first, self.last, self.end) = (0, 0, 0);
            // The session still has appends, but `base` no longer gives the place of later ones.
            self.base = self.base.map(|_| Summary::UNSEEN);
        }
        (self.cut_clock, self.cut_length) = (clock, length);
    }

    /// The highest clock of the session's writes and cuts.
    pub fn clock(&self) -> u64 {
        self.last.max(self.cut_clock)
    }
}

/// Length of a file, computed from the sessions' summaries; `None` if only the index gives it: a session wrote both before
/// and after another's cut, or appended without having seen all earlier writes.
///
/// - `sessions`: writer, session, summary of its writes.
pub fn length(sessions: impl Iterator<Item = (u32, u64, Summary)> + Clone) -> Option<u64> {
    let cuts = sessions.clone().filter(|(_, _, s)| s.cut_clock > 0);
    let last = cuts.max_by_key(|(writer, session, s)| (s.cut_clock, *writer, *session));
    let (cut, mut length) = last.map_or((0, 0), |(_, _, s)| (s.cut_clock, s.cut_length));
    let behind = sessions.filter(|(_, _, s)| s.last > 0 && s.last >= cut);
    if behind.clone().any(|(_, _, s)| s.first < cut) {
        return None;
    }
    if behind.clone().all(|(_, _, s)| s.base.is_none()) {
        return Some(behind.fold(length, |length, (_, _, s)| length.max(s.end)));
    }
    // An append starts at the end that its process saw: that view must include all earlier writes, and no other session may
    // write in between.
    let mut behind: Vec<_> = behind.collect();
    behind.sort_unstable_by_key(|(writer, session, s)| (s.first, *writer, *session));
    let (mut last, mut last_append) = (0, 0);
    for (_, _, s) in behind {
        if s.first <= if s.base.is_some() { last } else { last_append } || s.base.is_some_and(|base| base != length) {
            return None;
        }
        length = length.max(s.end);
        last = last.max(s.last);
        if s.base.is_some() {
            last_append = s.last;
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

    #[test]
    fn appends_that_saw_all_before_them_tell_the_length_and_others_do_not() {
        let appended = |clock, from, bytes| {
            let mut s = Summary::default();
            s.append(clock, from, bytes);
            s
        };
        let (a, b, unseen) = (appended(1, 0, 10), appended(2, 10, 5), appended(2, 0, 7));
        assert_eq!(length([(0, 1, a), (0, 2, b)].into_iter()), Some(15));
        assert_eq!(length([(9, 1, a), (0, 2, b)].into_iter()), Some(15), "whatever the writers' numbers");
        assert_eq!(length([(0, 1, a), (0, 2, unseen)].into_iter()), None, "it did not see the one before");
        assert_eq!(length([(0, 1, a), (0, 2, b), (0, 3, unseen)].into_iter()), None, "two at one clock");
        let mut long = appended(1, 0, 10);
        long.append(3, 15, 10);
        assert_eq!(length([(0, 1, long), (0, 2, b)].into_iter()), None, "one lies between two appends of the other");
        assert_eq!(length([(0, 1, long)].into_iter()), None, "what lies between is not published");
        let mut own = appended(1, 0, 10);
        own.append(3, 10, 10);
        assert_eq!(length([(0, 1, own)].into_iter()), Some(20));
        let mut written = Summary::default();
        written.write(2, 100, 1);
        assert_eq!(length([(0, 1, own), (0, 2, written)].into_iter()), None);
        written.last = 4;
        written.first = 4;
        assert_eq!(length([(0, 1, own), (0, 2, written)].into_iter()), Some(100));
        let mut cut = Summary::default();
        cut.cut(4, 3);
        assert_eq!(length([(0, 1, own), (0, 2, cut)].into_iter()), Some(3));
        assert_eq!(length([(0, 1, own), (0, 2, cut), (0, 3, appended(5, 3, 4))].into_iter()), Some(7));
        assert_eq!(length([(0, 1, appended(1, Summary::UNSEEN, 4))].into_iter()), None);
    }
}
