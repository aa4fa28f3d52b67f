//! Cache of directory attributes. The kernel drops a directory's attributes at every entry made in it and requests them again before the
//! next one; on far stores these requests would cost more than the file itself.
//!
//! | question | answer |
//! |----------|--------|
//! | lifetime | that of names and attributes in the kernel (`--timeout`), from the request to the layout |
//! | a file made or removed through this mount | the directory's times become the file's, or this machine's; the other attributes stay |
//! | any other change through this mount | the entry is invalid; the layout is asked again |
//! | a change by another process | visible after the lifetime |
//! | a request during a change | an answer that may be older than the change is not cached |
//! | files of this machine | not cached: requests are cheap |
//!
//! Pure: makes no calls on a layout.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};
use thalweg_layout::Attributes;

/// How far a store's clock may be behind ours, even on one machine: the kernel's clock for file times has this resolution.
const TICK: Duration = Duration::from_millis(20);

/// The cache. See the module's page.
pub struct AttributeCache {
    timeout: Duration,
    known: HashMap<u64, CachedAttributes>,
    /// Counts requests and changes, which orders them.
    turn: u64,
}

/// The cached attributes of a file or directory, and the changes that outdate answers in progress.
#[derive(Default)]
struct CachedAttributes {
    /// The attributes, and when they expire.
    told: Option<(Attributes, Instant)>,
    /// Time of the last operation whose effect on the attributes only the layout knows.
    changed: u64,
    /// Order and time of the last file made or removed in the directory.
    touched: Option<(u64, SystemTime)>,
}

/// A request to the layout in progress.
#[derive(Debug, Clone, Copy)]
pub struct AttributeRequest {
    turn: u64,
    at: Instant,
}

impl AttributeCache {
    /// - `timeout`: lifetime of entries; zero caches none.
    pub fn new(timeout: Duration) -> AttributeCache {
        AttributeCache { timeout, known: HashMap::new(), turn: 0 }
    }

    fn next(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    /// A directory's cached attributes, and their remaining lifetime.
    pub fn get(&self, ino: u64, now: Instant) -> Option<(Attributes, Duration)> {
        let (about, until) = self.known.get(&ino)?.told.as_ref()?;
        let left = until.saturating_duration_since(now);
        (!left.is_zero()).then(|| (about.clone(), left))
    }

    /// Call before a request to the layout for a directory's attributes.
    pub fn ask(&mut self, now: Instant) -> AttributeRequest {
        AttributeRequest { turn: self.next(), at: now }
    }

    /// Call with the layout's answer; returns the attributes to report.
    pub fn answer(&mut self, ino: u64, asked: AttributeRequest, mut about: Attributes) -> Attributes {
        let known = self.known.entry(ino).or_default();
        if let Some((turn, time)) = known.touched {
            let missing = time.duration_since(about.mtime).unwrap_or_default();
            if turn > asked.turn || missing <= TICK {
                (about.mtime, about.ctime) = (about.mtime.max(time), about.ctime.max(time));
            }
        }
        if known.changed < asked.turn && !self.timeout.is_zero() {
            known.told = asked.at.checked_add(self.timeout).map(|until| (about.clone(), until));
        }
        about
    }

    /// Call after a file was made in a directory, or removed from it, at this time.
    pub fn touched(&mut self, ino: u64, time: SystemTime) {
        let turn = self.next();
        let known = self.known.entry(ino).or_default();
        // Two threads may report in the reverse order.
        let time = known.touched.map_or(time, |(_, before)| before.max(time));
        known.touched = Some((turn, time));
        if let Some((about, _)) = &mut known.told {
            (about.mtime, about.ctime) = (time, time);
        }
    }

    /// Call after any other change to a directory.
    pub fn changed(&mut self, ino: u64) {
        let changed = self.next();
        self.known.insert(ino, CachedAttributes { told: None, changed, touched: None });
    }

    /// Call when the kernel has forgotten the directory.
    pub fn forget(&mut self, ino: u64) {
        self.known.remove(&ino);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;
    use thalweg_layout::Kind;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(milliseconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(milliseconds)
    }

    fn folder(mode: u32, time: SystemTime) -> Attributes {
        Attributes {
            kind: Kind::Folder,
            length: 0,
            mode,
            uid: 1,
            gid: 2,
            atime: time,
            mtime: time,
            ctime: time,
            links: 2,
            identity: 7,
        }
    }

    #[test]
    fn what_was_told_holds_from_the_asking_for_the_timeout() {
        let mut cache = AttributeCache::new(SECOND);
        let began = Instant::now();
        let asked = cache.ask(began);
        cache.answer(5, asked, folder(0o755, at(0)));
        let (about, left) = cache.get(5, began + SECOND / 4).unwrap();
        assert_eq!((about.mode, left), (0o755, SECOND * 3 / 4));
        assert!(cache.get(5, began + SECOND).is_none() && cache.get(6, began).is_none());
        cache.forget(5);
        assert!(cache.get(5, began).is_none());
        let mut never = AttributeCache::new(Duration::ZERO);
        let asked = never.ask(began);
        never.answer(5, asked, folder(0o755, at(0)));
        assert!(never.get(5, began).is_none(), "a timeout of zero holds nothing");
    }

    #[test]
    fn files_that_are_made_move_times_and_nothing_else() {
        let mut cache = AttributeCache::new(SECOND);
        let began = Instant::now();
        let asked = cache.ask(began);
        cache.answer(5, asked, folder(0o2770, at(1000)));
        cache.touched(5, at(3000));
        cache.touched(5, at(2999));
        let (about, _) = cache.get(5, began).unwrap();
        assert_eq!((about.mtime, about.ctime, about.atime, about.mode), (at(3000), at(3000), at(1000), 0o2770));
        // A further request: the store's clock is one tick behind, but the reported time must not decrease.
        let asked = cache.ask(began + SECOND);
        assert_eq!(cache.answer(5, asked, folder(0o2770, at(2996))).mtime, at(3000));
        let asked = cache.ask(began + SECOND);
        assert_eq!(cache.answer(5, asked, folder(0o2770, at(1500))).mtime, at(1500), "others set it");
    }

    #[test]
    fn an_answer_that_was_overtaken_is_not_held() {
        let mut cache = AttributeCache::new(SECOND);
        let now = Instant::now();
        let asked = cache.ask(now);
        cache.changed(5);
        cache.answer(5, asked, folder(0o700, at(0)));
        assert!(cache.get(5, now).is_none(), "a chmod meanwhile");
        let asked = cache.ask(now);
        cache.touched(5, at(9000));
        cache.answer(5, asked, folder(0o750, at(0)));
        assert_eq!(cache.get(5, now).unwrap().0.mtime, at(9000), "a file made meanwhile");
        cache.changed(5);
        assert!(cache.get(5, now).is_none());
        let asked = cache.ask(now);
        assert_eq!(cache.answer(5, asked, folder(0o750, at(0))).mtime, at(0));
    }
}
