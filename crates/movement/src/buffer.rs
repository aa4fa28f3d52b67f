//! The memory of the process for output, all groups together, and its limit (the buffer limit).
//!
//! Every byte that an output copies is in a chunk from this pool, so that the limit holds by construction: data beyond it is
//! written through. Chunks return to the pool when an output closes and are used again, because touching fresh memory costs a
//! page fault per 4 KiB. Framing of a few hundred bytes per block (names, shapes, statistics) is not counted.
//!
//! Memory that carries process groups to files (exchange windows, forwarded pieces, copies from a spill file) is counted, too: an
//! output reserves it at open, at most a quarter of the limit, or the method's least ([`crate::method::MethodKind::least`]) if
//! the limit is lower. All outputs that are open at a time therefore use at most the limit, or the sum of their least if that is
//! more.

use std::sync::Arc;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Smallest chunk, in bytes.
const SMALLEST: u64 = 64 * 1024;
/// Largest chunk taken for small blocks, in bytes.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Smallest piece, in bytes, in which process groups are carried if the limit is low; smaller pieces would be slow.
pub const LEAST_PIECE: u64 = 64 * 1024;
/// Memory left free besides that of an output, for small allocations.
const SPARE: u64 = 1 << 20;

/// Memory of blocks begins at a multiple of this many bytes: a cache line, or the widest vector register.
const ALIGNMENT: usize = 64;

/// Memory with a limit.
#[derive(Debug)]
pub struct BufferPool {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: Option<u64>,
    used: u64,
    peak: u64,
    /// Unused chunks, with what they contained.
    spare: Vec<Vec<u8>>,
}

impl State {
    /// What the limit leaves.
    fn room(&self) -> u64 {
        self.limit.map_or(u64::MAX, |l| l.saturating_sub(self.used))
    }

    fn spare_bytes(&self) -> u64 {
        self.spare.iter().map(|c| c.capacity() as u64).sum()
    }

    fn count(&mut self, chunk: &Vec<u8>) {
        self.used += chunk.capacity() as u64;
        self.peak = self.peak.max(self.used);
    }

    /// An unused chunk with a capacity of at least `least` and at most `most` bytes. The smallest one: otherwise a small block takes the
    /// chunk of a large one, for which fresh memory is touched.
    fn reuse(&mut self, least: u64, most: u64) -> Option<Vec<u8>> {
        let most = most.min(self.room());
        let lengths = self.spare.iter().map(|c| c.capacity() as u64).enumerate();
        let fitting = lengths.filter(|(_, length)| (least..=most).contains(length)).min_by_key(|(_, length)| *length);
        let chunk = self.spare.swap_remove(fitting?.0);
        self.count(&chunk);
        Some(chunk)
    }

    /// Frees unused chunks, which are memory of the process as well, until `size` bytes more fit the limit.
    fn make_room(&mut self, size: u64) {
        let room = self.room();
        let mut spare = self.spare_bytes();
        while spare > room.saturating_sub(size) {
            match self.spare.pop() {
                Some(chunk) => spare -= chunk.capacity() as u64,
                None => break,
            }
        }
    }
}

impl BufferPool {
    /// A pool of at most `limit` bytes; `None` for no limit.
    pub fn new(limit: Option<u64>) -> BufferPool {
        BufferPool { state: Mutex::new(State { limit, used: 0, peak: 0, spare: Vec::new() }) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic while the lock is held leaves plain numbers, which stay usable.
        self.state.lock()
    }

    /// Changes the limit; memory in use is not affected.
    pub fn set_limit(&self, limit: Option<u64>) {
        let mut state = self.state();
        state.limit = limit;
        state.spare.clear();
    }

    /// The limit in bytes.
    pub fn limit(&self) -> Option<u64> {
        self.state().limit
    }

    /// Largest number of bytes that were in use at one time.
    pub fn peak(&self) -> u64 {
        self.state().peak
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.state().used
    }

    /// An empty chunk with a capacity of at least `least` bytes; `hint` more are expected to follow. `None` if the limit does not
    /// allow it.
    pub fn take(&self, least: u64, hint: u64) -> Option<Vec<u8>> {
        let mut state = self.state();
        let room = state.room();
        if least > room {
            return None;
        }
        if let Some(mut chunk) = state.reuse(least, u64::MAX) {
            chunk.clear();
            return Some(chunk);
        }
        let size = least.max(hint.clamp(SMALLEST, LARGEST)).min(room).max(least);
        state.make_room(size);
        let mut chunk = Vec::new();
        if chunk.try_reserve_exact(usize::try_from(size).ok()?).is_err() {
            state.spare.clear();
            chunk.try_reserve_exact(usize::try_from(least).ok()?).ok()?;
        }
        state.count(&chunk);
        Some(chunk)
    }

    /// Memory for the values of a block, which the program fills: zeros, or bytes of an earlier block. `None` if the limit does not allow
    /// it, or the system has none.
    ///
    /// # Cost
    /// Fresh memory is touched when it is filled, not here.
    pub fn block(self: &Arc<BufferPool>, bytes: u64) -> Option<BlockMemory> {
        let length = usize::try_from(bytes).ok()?;
        let aligned = length.checked_add(ALIGNMENT - 1)?;
        let mut state = self.state();
        // A block that takes all of the limit begins anywhere.
        let needed = if aligned as u64 <= state.room() { aligned } else { length };
        // A block has its chunk alone: a much longer one would be memory that nobody can use.
        let chunk = match state.reuse(needed as u64, 2 * needed as u64) {
            Some(chunk) => chunk,
            None if needed as u64 > state.room() => return None,
            None => {
                state.make_room(needed as u64);
                let zeroed = || bytemuck::allocation::try_zeroed_vec(needed);
                let chunk = zeroed().or_else(|()| {
                    state.spare.clear();
                    zeroed()
                });
                let chunk = chunk.ok()?;
                state.count(&chunk);
                chunk
            }
        };
        drop(state);
        let mut memory = BlockMemory { pool: self.clone(), chunk, start: 0, length };
        if memory.chunk.len() < needed {
            // Within the capacity.
            memory.chunk.resize(needed, 0);
        }
        if needed == aligned {
            memory.start = memory.chunk.as_ptr().addr().wrapping_neg() % ALIGNMENT;
        }
        Some(memory)
    }

    /// Returns a chunk.
    pub fn give(&self, chunk: Vec<u8>) {
        let mut state = self.state();
        state.used = state.used.saturating_sub(chunk.capacity() as u64);
        let held = state.used + state.spare_bytes() + chunk.capacity() as u64;
        if state.limit.is_none_or(|l| held <= l) {
            state.spare.push(chunk);
        }
    }

    /// Counts memory of others, such as a library, as in use; `None` if the limit does not allow it.
    pub fn try_reserve(self: &Arc<BufferPool>, bytes: u64) -> Option<Reservation> {
        let mut state = self.state();
        (bytes <= state.room()).then(|| self.reserved(&mut state, bytes))
    }

    /// As [`BufferPool::try_reserve`], also beyond the limit: for an amount that [`Room::share`] has allowed.
    pub fn reserve(self: &Arc<BufferPool>, bytes: u64) -> Reservation {
        self.reserved(&mut self.state(), bytes)
    }

    fn reserved(self: &Arc<BufferPool>, state: &mut State, bytes: u64) -> Reservation {
        state.make_room(bytes);
        state.used += bytes;
        state.peak = state.peak.max(state.used);
        Reservation { pool: self.clone(), bytes }
    }

    /// Memory that the limit leaves for carrying process groups.
    ///
    /// - `had`: bytes in use that will be used for it again.
    pub fn room(&self, had: u64) -> Room {
        let state = self.state();
        let left = |limit: u64| (limit / 4).min(limit.saturating_sub(state.used.saturating_sub(had)));
        Room { most: state.limit.map_or(u64::MAX, left) }
    }

    /// Frees unused chunks.
    pub fn trim(&self) {
        self.state().spare.clear();
    }
}

/// Memory of the buffer for the values of one block. The program fills it and gives it to an output ([`crate::Pack::give`]), which copies
/// nothing. It returns to the buffer when it is dropped.
#[derive(Debug)]
pub struct BlockMemory {
    pool: Arc<BufferPool>,
    chunk: Vec<u8>,
    /// Of the values in the chunk.
    start: usize,
    length: usize,
}

impl std::ops::Deref for BlockMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.chunk[self.start..self.start + self.length]
    }
}

impl std::ops::DerefMut for BlockMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.chunk[self.start..self.start + self.length]
    }
}

impl AsRef<[u8]> for BlockMemory {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for BlockMemory {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.chunk));
    }
}

/// Memory that one output may use to carry process groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// A quarter of the limit, or the rest of the limit if that is less.
    most: u64,
}

impl Room {
    /// The part of `requested` bytes that may be taken: as the limit allows, but not less than `least`.
    pub fn share(self, requested: u64, least: u64) -> u64 {
        requested.min(self.most.max(least))
    }
}

/// Bytes of a pool that are in use until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    pool: Arc<BufferPool>,
    bytes: u64,
}

impl Reservation {
    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        state.used = state.used.saturating_sub(self.bytes);
    }
}

fn no_memory(bytes: u64, what: &str) -> Error {
    Error::new(ErrorKind::NoMemory, format!("cannot get {bytes} bytes of memory {what}"))
}

/// Reserves capacity for exactly `more` further bytes.
///
/// # Errors
/// `NoMemory` if the system has none, instead of the abort of a growing vector.
pub fn grow(bytes: &mut Vec<u8>, more: usize, what: &str) -> Result<()> {
    bytes.try_reserve_exact(more).map_err(|_| no_memory(more as u64, what))
}

/// A vector of `count` zeros.
///
/// # Errors
/// As [`grow`].
pub fn zeros(count: usize, what: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    grow(&mut bytes, count, what)?;
    bytes.resize(count, 0);
    Ok(bytes)
}

/// Checks that the system has memory for `count` pieces of `requested` bytes, or of fewer; returns the length that it has memory
/// for. The receiver of a message cannot check this itself, because it could not report the failure.
///
/// - `least`: smallest useful length.
///
/// # Errors
/// `NoMemory`.
pub fn obtainable(count: u64, requested: u64, least: u64) -> Result<u64> {
    let mut piece = requested;
    if count == 0 {
        return Ok(piece);
    }
    loop {
        let bytes = count.saturating_mul(piece).saturating_add(SPARE.min(piece));
        let mut tried = Vec::<u8>::new();
        let is_had = usize::try_from(bytes).is_ok_and(|bytes| tried.try_reserve_exact(bytes).is_ok());
        // Otherwise the compiler may omit the unused allocation and assume that it succeeds.
        std::hint::black_box(&tried);
        if is_had {
            return Ok(piece);
        }
        if piece <= least {
            return Err(no_memory(bytes, "to carry process groups"));
        }
        piece = (piece / 2).max(least);
    }
}

/// The length with available memory, or `requested` and the error if there is none. A rank without memory continues to the point
/// where ranks exchange their results, and reports the failure there.
pub fn or_requested<T>(obtained: Result<T>, requested: T) -> (T, Option<Error>) {
    match obtained {
        Ok(obtained) => (obtained, None),
        Err(e) => (requested, Some(e)),
    }
}

/// A percentage of the memory that is free now, in bytes.
///
/// # Errors
/// `Config` for a share outside 0 to 100; `Unsupported` if the system does not report its free memory.
pub fn share_of_free_memory(percent: f64) -> Result<u64> {
    if !(0.0..=100.0).contains(&percent) {
        return Err(Error::new(ErrorKind::Config, format!("{percent} percent of the free memory")));
    }
    let text = std::fs::read_to_string("/proc/meminfo").map_err(|e| {
        Error::new(ErrorKind::Unsupported, "the free memory is unknown on this system; give a size instead")
            .caused_by(e)
    })?;
    let free = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse::<u64>().ok())
        .ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "/proc/meminfo has no MemAvailable line; give a size instead")
        })?;
    Ok((free as f64 * 1024.0 * percent / 100.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_never_passed_and_memory_comes_back() {
        let pool = BufferPool::new(Some(1 << 20));
        let a = pool.take(600_000, 600_000).unwrap();
        assert!(pool.take(600_000, 600_000).is_none());
        let b = pool.take(1000, 1 << 30).unwrap();
        assert!(pool.peak() <= 1 << 20, "{}", pool.peak());
        pool.give(a);
        pool.give(b);
        assert_eq!(pool.used(), 0);
        assert!(pool.take(1 << 20, 0).is_some());
        assert!(pool.peak() <= 1 << 20);
    }

    #[test]
    fn a_small_block_leaves_the_large_chunks_to_large_ones() {
        let pool = BufferPool::new(None);
        let chunks = [1 << 20, 1 << 16, 1 << 18].map(|bytes| pool.take(bytes, 0).unwrap());
        chunks.into_iter().for_each(|chunk| pool.give(chunk));
        assert_eq!(pool.take(100, 0).unwrap().capacity(), 1 << 16);
        assert_eq!(pool.take(100_000, 0).unwrap().capacity(), 1 << 18);
        assert_eq!(pool.take(100_000, 0).unwrap().capacity(), 1 << 20);
    }

    #[test]
    fn memory_of_blocks_is_aligned_counts_in_the_limit_and_is_used_again() {
        let pool = Arc::new(BufferPool::new(Some(3 << 20)));
        let mut first = pool.block((1 << 20) + 5).unwrap();
        assert_eq!((first.len(), first.as_ptr().addr() % ALIGNMENT), ((1 << 20) + 5, 0));
        assert!(first.iter().all(|byte| *byte == 0));
        first.fill(7);
        let second = pool.block(1 << 20).unwrap();
        assert!(pool.block(1 << 20).is_none() && pool.used() > 2 << 20);
        let place = first.as_ptr();
        drop(first);
        // What a chunk contained is neither cleared nor seen by those who add to it.
        let again = pool.block((1 << 20) + 1).unwrap();
        assert_eq!((again.as_ptr(), again[1 << 20]), (place, 7));
        drop(again);
        assert_eq!(pool.take(1 << 20, 0).unwrap().len(), 0);
        drop(second);
        // Chunks that were filled in part.
        let pool = Arc::new(BufferPool::new(None));
        let mut chunk = pool.take(1 << 20, 0).unwrap();
        chunk.extend_from_slice(&[3; 1000]);
        pool.give(chunk);
        assert!(pool.block(1 << 19).unwrap()[1000..].iter().all(|byte| *byte == 0));
        assert_eq!(pool.block(1000).unwrap().chunk.len(), 1063, "much longer chunks are left to others");
        let pool = Arc::new(BufferPool::new(Some(1 << 20)));
        assert_eq!(pool.block(1 << 20).unwrap().len(), 1 << 20, "all of the limit");
        assert!(pool.block((1 << 20) + 1).is_none());
        assert_eq!((pool.block(0).unwrap().len(), pool.block(u64::MAX).is_none()), (0, true));
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn a_limit_of_nothing_gives_nothing() {
        let pool = BufferPool::new(Some(0));
        assert!(pool.take(1, 1).is_none());
        assert!(share_of_free_memory(50.0).unwrap() > 0);
        assert_eq!(share_of_free_memory(101.0).unwrap_err().kind(), ErrorKind::Config);
    }

    #[test]
    fn what_carries_groups_has_a_quarter_of_the_limit_or_the_rest_or_its_least() {
        let pool = Arc::new(BufferPool::new(Some(1000)));
        assert_eq!(pool.room(0).share(2000, 10), 250);
        assert_eq!(pool.room(0).share(100, 10), 100);
        let reservation = pool.reserve(900);
        assert_eq!((pool.room(0).share(2000, 10), pool.room(100).share(2000, 10)), (100, 200));
        let more = pool.reserve(100);
        assert_eq!((pool.room(0).share(2000, 10), pool.room(0).share(5, 10)), (10, 5));
        assert!(pool.try_reserve(1).is_none() && pool.take(1, 1).is_none());
        drop((reservation, more));
        assert_eq!((pool.used(), pool.peak()), (0, 1000));
        assert_eq!(BufferPool::new(None).room(0).share(2000, 10), 2000);
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error_and_shorter_pieces_are_tried_first() {
        assert_eq!(zeros(usize::MAX / 2, "for a test").unwrap_err().kind(), ErrorKind::NoMemory);
        assert_eq!(obtainable(2, 1 << 20, 1 << 16).unwrap(), 1 << 20);
        assert!(obtainable(2, 1 << 61, 1 << 16).unwrap() < 1 << 50);
        assert_eq!(obtainable(2, 1 << 61, 1 << 61).unwrap_err().kind(), ErrorKind::NoMemory);
    }
}
