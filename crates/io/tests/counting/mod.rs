//! The allocator of tests that measure memory: what all threads of the process hold, and memory that is refused.
// The trait that an allocator implements is unsafe: a foreign border.
#![allow(unsafe_code, dead_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Counts what the process holds, and refuses large pieces of memory when told to.
pub struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
/// Large pieces that are given before they are refused; negative: none is refused.
pub static GIVEN: AtomicI64 = AtomicI64::new(-1);
/// Large pieces that were refused.
pub static REFUSED: AtomicUsize = AtomicUsize::new(0);
/// How many are refused, one behind the other.
pub static IN_A_ROW: AtomicUsize = AtomicUsize::new(1);

/// From this many bytes a piece of memory is large.
pub const LARGE: usize = 60 << 10;

fn refuses(bytes: usize) -> bool {
    if bytes < LARGE || GIVEN.load(Ordering::SeqCst) < 0 || GIVEN.fetch_sub(1, Ordering::SeqCst) > 0 {
        return false;
    }
    let refused = REFUSED.fetch_add(1, Ordering::SeqCst) + 1;
    GIVEN.store(if refused < IN_A_ROW.load(Ordering::SeqCst) { 0 } else { -1 }, Ordering::SeqCst);
    true
}

// SAFETY: every call is passed on to the system's allocator unchanged, or answered with null, as the trait allows.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if refuses(layout.size()) {
            return std::ptr::null_mut();
        }
        let now = HELD.fetch_add(layout.size(), Ordering::SeqCst) + layout.size();
        MOST.fetch_max(now, Ordering::SeqCst);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::SeqCst);
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes held now; the most that are held is counted from here on.
pub fn begin() -> usize {
    let before = HELD.load(Ordering::SeqCst);
    MOST.store(before, Ordering::SeqCst);
    before
}

/// The most bytes that were held at once since [`begin`].
pub fn most() -> usize {
    MOST.load(Ordering::SeqCst)
}
