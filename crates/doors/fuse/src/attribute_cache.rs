//! Attributes of folders, held where the kernel does not: it forgets them with every name that is made there, and asks again before
//! the next one. On stores that are far this would cost more than the file itself.
//!
//! | question | answer |
//! |----------|--------|
//! | how long | as names and attributes hold in the kernel (`--timeout`), from when the layout was asked |
//! | a file is made or removed there through this mount | the folder's times become the file's, or this machine's; the rest stays |
//! | anything else is done in it or to it through this mount | the layout is asked again |
//! | others change it | seen when the time is over |
//! | asked while something is done | an answer that may be older than that is not held |
//! | files of this machine | are asked each time, which costs nothing |
//!
//! Pure: nothing is asked of a layout here.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};
use thalweg_layout::Attributes;

/// A store's clock may be so far behind ours, also on one machine: the kernel stamps files by one that ticks so slowly.
const TICK: Duration = Duration::from_millis(20);

/// The attributes that are held. See the module's page.
pub struct AttributeCache {
    timeout: Duration,
    known: HashMap<u64, Known>,
    /// Counts what was asked and done, so that each can be told to be before or after another.
    turn: u64,
}

#[derive(Default)]
struct Known {
    /// What was told, and until when it holds.
    told: Option<(Attributes, Instant)>,
    /// When something was done there last that only the layout can tell the outcome of.
    changed: u64,
    /// When a file was made or removed there last, and the time of that.
    touched: Option<(u64, SystemTime)>,
}

/// A question to the layout that is on its way.
#[derive(Debug, Clone, Copy)]
pub struct AttributeRequest {
    turn: u64,
    at: Instant,
}

impl AttributeCache {
    /// - `timeout`: how long attributes are held; zero holds none.
    pub fn new(timeout: Duration) -> AttributeCache {
        AttributeCache { timeout, known: HashMap::new(), turn: 0 }
    }

    fn next(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    /// A folder's attributes, and how much longer they hold.
    pub fn get(&self, ino: u64, now: Instant) -> Option<(Attributes, Duration)> {
        let (about, until) = self.known.get(&ino)?.told.as_ref()?;
        let left = until.saturating_duration_since(now);
        (!left.is_zero()).then(|| (about.clone(), left))
    }

    /// Before the layout is asked for a folder's attributes.
    pub fn ask(&mut self, now: Instant) -> AttributeRequest {
        AttributeRequest { turn: self.next(), at: now }
    }

    /// What the layout answered; returns what is to be told.
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

    /// A file was made in a folder, or removed from it, at this time.
    pub fn touched(&mut self, ino: u64, time: SystemTime) {
        let turn = self.next();
        let known = self.known.entry(ino).or_default();
        // Of two threads the later one may come first.
        let time = known.touched.map_or(time, |(_, before)| before.max(time));
        known.touched = Some((turn, time));
        if let Some((about, _)) = &mut known.told {
            (about.mtime, about.ctime) = (time, time);
        }
    }

    /// Something else was done to a folder or in it.
    pub fn changed(&mut self, ino: u64) {
        let changed = self.next();
        self.known.insert(ino, Known { told: None, changed, touched: None });
    }

    /// The kernel does not know the folder any more.
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
        let mut held = AttributeCache::new(SECOND);
        let began = Instant::now();
        let asked = held.ask(began);
        held.answer(5, asked, folder(0o755, at(0)));
        let (about, left) = held.get(5, began + SECOND / 4).unwrap();
        assert_eq!((about.mode, left), (0o755, SECOND * 3 / 4));
        assert!(held.get(5, began + SECOND).is_none() && held.get(6, began).is_none());
        held.forget(5);
        assert!(held.get(5, began).is_none());
        let mut never = AttributeCache::new(Duration::ZERO);
        let asked = never.ask(began);
        never.answer(5, asked, folder(0o755, at(0)));
        assert!(never.get(5, began).is_none(), "a timeout of zero holds nothing");
    }

    #[test]
    fn files_that_are_made_move_times_and_nothing_else() {
        let mut held = AttributeCache::new(SECOND);
        let began = Instant::now();
        let asked = held.ask(began);
        held.answer(5, asked, folder(0o2770, at(1000)));
        held.touched(5, at(3000));
        held.touched(5, at(2999));
        let (about, _) = held.get(5, began).unwrap();
        assert_eq!((about.mtime, about.ctime, about.atime, about.mode), (at(3000), at(3000), at(1000), 0o2770));
        // Asked again: the store's clock is a tick behind, which nobody shall see as a time that went back.
        let asked = held.ask(began + SECOND);
        assert_eq!(held.answer(5, asked, folder(0o2770, at(2996))).mtime, at(3000));
        let asked = held.ask(began + SECOND);
        assert_eq!(held.answer(5, asked, folder(0o2770, at(1500))).mtime, at(1500), "others set it");
    }

    #[test]
    fn an_answer_that_was_overtaken_is_not_held() {
        let mut held = AttributeCache::new(SECOND);
        let now = Instant::now();
        let asked = held.ask(now);
        held.changed(5);
        held.answer(5, asked, folder(0o700, at(0)));
        assert!(held.get(5, now).is_none(), "a chmod meanwhile");
        let asked = held.ask(now);
        held.touched(5, at(9000));
        held.answer(5, asked, folder(0o750, at(0)));
        assert_eq!(held.get(5, now).unwrap().0.mtime, at(9000), "a file made meanwhile");
        held.changed(5);
        assert!(held.get(5, now).is_none());
        let asked = held.ask(now);
        assert_eq!(held.answer(5, asked, folder(0o750, at(0))).mtime, at(0));
    }
}
