//! Windows: bytes read along with the trailers of process groups, cached until the values of the same call are placed. Values near the
//! end of their group need no read of their own then.

use crate::object::Object;
use crate::plan::Limits;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thalweg_bp::source::Source;
use thalweg_types::Result;

/// Bytes of an object from `start` on.
#[derive(Debug, Clone)]
pub struct Window {
    /// The first one's place.
    pub start: u64,
    /// They.
    pub bytes: Vec<u8>,
}

/// Windows of one object, by rising start.
#[derive(Debug, Clone, Default)]
pub struct Windows(Arc<Vec<Window>>);

impl Windows {
    /// In any order.
    pub fn new(mut all: Vec<Window>) -> Windows {
        all.sort_by_key(|w| w.start);
        Windows(all.into())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes there, where one window has all of them.
    pub fn get(&self, offset: u64, length: usize) -> Option<&[u8]> {
        find(&self.0, offset, length)
    }
}

fn find(windows: &[Window], offset: u64, length: usize) -> Option<&[u8]> {
    let window = &windows[..windows.partition_point(|w| w.start <= offset)].last()?;
    let skip = usize::try_from(offset - window.start).ok()?;
    window.bytes.get(skip..skip.checked_add(length)?)
}

/// A request for values of a process group, and the expected end of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Near {
    /// First byte of the values.
    pub start: u64,
    /// Behind their last byte.
    pub end: u64,
    /// Requested bytes among these.
    pub useful: u64,
    /// Behind the last byte of their group; `None`: not known.
    pub group_end: Option<u64>,
}

/// Bytes to be read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
    /// It contains values: cached.
    pub keep: bool,
}

/// Size of a group's trailer as read first: by [`thalweg_bp::scan::trailer_before`] reads.
const TAIL: u64 = 512;
/// Ranges closer to each other than this are read as one.
const CLOSE: u64 = 16 << 10;
/// Up to so many bytes.
const AHEAD: u64 = 256 << 10;

/// The reads that fetch the trailers of groups in ascending order: values together with the end of their group if the gap between them is
/// allowed, and many small groups at a time.
///
/// - `room`: grants memory to cache so many bytes.
pub fn stretches(all: &[Near], limits: &Limits, room: &mut dyn FnMut(u64) -> bool) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    for near in all {
        let Some(end) = near.group_end.filter(|end| *end >= near.end) else { continue };
        let tail = end.saturating_sub(TAIL);
        let length = near.end - near.start;
        let joined = length < limits.direct
            && limits.joins(length - near.useful.min(length), near.useful)
            && limits.joins(tail.saturating_sub(near.end), near.useful);
        let start = if joined { near.start.min(tail) } else { tail };
        if let Some(last) = stretches.last_mut()
            && start >= last.start
            && start <= last.end.saturating_add(CLOSE)
            && end.max(last.end) - last.start <= AHEAD
            && (!last.keep || room(end.saturating_sub(last.end)))
        {
            last.end = end.max(last.end);
            last.keep = last.keep || (joined && room(last.end - last.start));
            continue;
        }
        let keep = joined && room(end - start);
        // Without room for the values they are read once more.
        let start = if keep { start } else { tail };
        stretches.push(Stretch { start, end, keep });
    }
    stretches
}

/// Capacity of the windows of one call, in bytes.
const CAPACITY: u64 = 16 << 20;

/// Remaining capacity of the windows of one call.
pub struct Room(AtomicU64);

impl Default for Room {
    fn default() -> Room {
        Room(AtomicU64::new(CAPACITY))
    }
}

impl Room {
    /// Takes so many bytes, or none if fewer remain.
    pub fn take(&self, bytes: u64) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

/// An object whose ranges are read in full at the first request for one of their bytes.
pub struct Ahead<'a> {
    object: &'a Object,
    /// Rising.
    stretches: Vec<Stretch>,
    windows: RefCell<Vec<Window>>,
    /// The last range that is not cached.
    last: RefCell<Option<Window>>,
}

impl<'a> Ahead<'a> {
    /// Nothing is read yet.
    pub fn new(object: &'a Object, stretches: Vec<Stretch>) -> Ahead<'a> {
        Ahead { object, stretches, windows: RefCell::default(), last: RefCell::default() }
    }

    /// The ranges to cache.
    pub fn into_windows(self) -> Vec<Window> {
        self.windows.into_inner()
    }
}

impl Source for Ahead<'_> {
    fn length(&self) -> u64 {
        self.object.length()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let (mut windows, mut last) = (self.windows.borrow_mut(), self.last.borrow_mut());
        if let Some(bytes) = find(&windows, offset, out.len()).or_else(|| find(last.as_slice(), offset, out.len())) {
            out.copy_from_slice(bytes);
            return Ok(());
        }
        let end = offset.saturating_add(out.len() as u64);
        let before = self.stretches.partition_point(|s| s.start <= offset);
        let Some(stretch) = self.stretches[..before].last().filter(|s| end <= s.end && s.end <= self.length()) else {
            return self.object.read(offset, out);
        };
        let mut bytes = vec![0; (stretch.end - stretch.start) as usize];
        self.object.read(stretch.start, &mut bytes)?;
        let skip = (offset - stretch.start) as usize;
        out.copy_from_slice(&bytes[skip..skip + out.len()]);
        let window = Window { start: stretch.start, bytes };
        match stretch.keep {
            true => {
                let place = windows.partition_point(|w| w.start < window.start);
                windows.insert(place, window);
            }
            false => *last = Some(window),
        }
        Ok(())
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.object.stored_before(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(start: u64, end: u64, group_end: u64) -> Near {
        Near { start, end, useful: end - start, group_end: Some(group_end) }
    }

    fn plan(all: &[Near], mut room: u64) -> Vec<(u64, u64, bool)> {
        let mut take = |bytes| {
            let enough = bytes <= room;
            room -= if enough { bytes } else { 0 };
            enough
        };
        stretches(all, &Limits::default(), &mut take).into_iter().map(|s| (s.start, s.end, s.keep)).collect()
    }

    const MUCH: u64 = 1 << 30;

    #[test]
    fn values_near_the_end_of_their_group_are_read_with_it() {
        assert_eq!(plan(&[near(1000, 1512, 2100)], MUCH), [(1000, 2100, true)]);
        assert_eq!(plan(&[near(1900, 1908, 2100)], MUCH), [(1588, 2100, true)]);
        // As far behind as there are values.
        assert_eq!(plan(&[near(1000, 11_000, 21_000)], MUCH), [(1000, 21_000, true)]);
    }

    #[test]
    fn of_others_the_end_alone_is_looked_at() {
        assert_eq!(plan(&[near(1000, 1008, 50_000)], MUCH), [(49_488, 50_000, false)]);
        // These are read straight to their place.
        assert_eq!(plan(&[near(0, 1 << 20, (1 << 20) + 100)], MUCH), [((1 << 20) - 412, (1 << 20) + 100, false)]);
        // Few bytes of a long span.
        let sparse = Near { useful: 800, ..near(0, 200_000, 200_100) };
        assert_eq!(plan(&[sparse], MUCH), [(199_588, 200_100, false)]);
    }

    #[test]
    fn small_groups_are_looked_at_together() {
        let groups: Vec<Near> = (0..1000).map(|i| near(1000 * i, 1000 * i + 500, 1000 * i + 1000)).collect();
        let planned = plan(&groups, MUCH);
        assert_eq!((planned[0], planned.len()), ((0, 262_000, true), 4));
        // Without memory for values, the ends alone.
        let planned = plan(&groups, 0);
        assert!(planned.iter().all(|(start, end, keep)| end - start <= AHEAD && !keep), "{planned:?}");
    }

    #[test]
    fn what_a_damaged_index_says_plans_nothing() {
        assert_eq!(plan(&[near(1000, 1512, 1200), Near { group_end: None, ..near(5, 6, 0) }], MUCH), []);
        let wrong = [near(0, 10, u64::MAX), near(u64::MAX - 20, u64::MAX - 10, u64::MAX)];
        assert_eq!(plan(&wrong, MUCH).len(), 1);
    }

    #[test]
    fn bytes_are_found_in_the_window_that_has_all_of_them() {
        let window = |start: u64, n: u8| Window { start, bytes: (0..n).collect() };
        let all = Windows::new(vec![window(20, 5), window(0, 10)]);
        assert_eq!(all.get(3, 2), Some(&[3, 4][..]));
        assert_eq!(all.get(20, 5), Some(&[0, 1, 2, 3, 4][..]));
        assert_eq!((all.get(9, 2), all.get(15, 1), all.get(24, usize::MAX)), (None, None, None));
    }
}
