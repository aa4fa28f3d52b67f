//! The memory of the process for output, all groups together, and its limit.
//!
//! Every byte that an output copies lies in a chunk taken here, so the limit is kept by construction: what does not
//! fit is written through. Chunks go back when an output closes and are used again, as touching fresh memory costs a
//! page fault per 4 KiB. Framing of a few hundred bytes per block (names, shapes, statistics) is not counted.

use std::sync::Mutex;
use thalweg_types::{Error, ErrorKind};

/// Smallest chunk, in bytes.
const SMALLEST: u64 = 64 * 1024;
/// Largest chunk taken for small blocks, in bytes.
const LARGEST: u64 = 16 * 1024 * 1024;

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
    spare: Vec<Vec<u8>>,
}

impl BufferPool {
    /// A pool of at most `limit` bytes; `None` for no limit.
    pub fn new(limit: Option<u64>) -> BufferPool {
        BufferPool { state: Mutex::new(State { limit, used: 0, peak: 0, spare: Vec::new() }) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic while the lock is held leaves plain numbers behind, which stay usable.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changes the limit; memory that is in use stays.
    pub fn set_limit(&self, limit: Option<u64>) {
        let mut state = self.state();
        state.limit = limit;
        state.spare.clear();
    }

    /// The limit in bytes.
    pub fn limit(&self) -> Option<u64> {
        self.state().limit
    }

    /// Most bytes that were in use at one time.
    pub fn peak(&self) -> u64 {
        self.state().peak
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.state().used
    }

    /// An empty chunk that holds at least `least` bytes; `hint` more are expected to follow. `None` where the limit is
    /// in the way.
    pub fn take(&self, least: u64, hint: u64) -> Option<Vec<u8>> {
        let mut state = self.state();
        let room = state.limit.map_or(u64::MAX, |l| l.saturating_sub(state.used));
        if least > room {
            return None;
        }
        if let Some(i) = state.spare.iter().position(|c| c.capacity() as u64 >= least && c.capacity() as u64 <= room) {
            let chunk = state.spare.swap_remove(i);
            state.used += chunk.capacity() as u64;
            state.peak = state.peak.max(state.used);
            return Some(chunk);
        }
        let size = least.max(hint.clamp(SMALLEST, LARGEST)).min(room).max(least);
        // Spare chunks are memory of the process as well.
        let mut spare: u64 = state.spare.iter().map(|c| c.capacity() as u64).sum();
        while spare + size > room {
            match state.spare.pop() {
                Some(chunk) => spare -= chunk.capacity() as u64,
                None => break,
            }
        }
        let mut chunk = Vec::new();
        chunk.try_reserve_exact(usize::try_from(size).ok()?).ok()?;
        state.used += chunk.capacity() as u64;
        state.peak = state.peak.max(state.used);
        Some(chunk)
    }

    /// Gives a chunk back.
    pub fn give(&self, mut chunk: Vec<u8>) {
        let mut state = self.state();
        state.used = state.used.saturating_sub(chunk.capacity() as u64);
        chunk.clear();
        let spare: u64 = state.spare.iter().map(|c| c.capacity() as u64).sum();
        if state.limit.is_none_or(|l| state.used + spare + chunk.capacity() as u64 <= l) {
            state.spare.push(chunk);
        }
    }

    /// Counts memory as in use that others take, such as a library; `false` where the limit is in the way.
    pub fn hold(&self, bytes: u64) -> bool {
        let mut state = self.state();
        let room = state.limit.map_or(u64::MAX, |l| l.saturating_sub(state.used));
        if bytes > room {
            return false;
        }
        // Spare chunks are memory of the process as well.
        let mut spare: u64 = state.spare.iter().map(|c| c.capacity() as u64).sum();
        while spare > room - bytes {
            match state.spare.pop() {
                Some(chunk) => spare -= chunk.capacity() as u64,
                None => break,
            }
        }
        state.used += bytes;
        state.peak = state.peak.max(state.used);
        true
    }

    /// Ends what [`BufferPool::hold`] began.
    pub fn release(&self, bytes: u64) {
        let mut state = self.state();
        state.used = state.used.saturating_sub(bytes);
    }

    /// Frees chunks that nobody uses.
    pub fn trim(&self) {
        self.state().spare.clear();
    }
}

/// Share of the memory that is free now, in bytes.
///
/// # Errors
/// `Config` for a share outside 0 to 100; `Unsupported` where the system does not say what is free.
pub fn share_of_free_memory(percent: f64) -> thalweg_types::Result<u64> {
    if !(0.0..=100.0).contains(&percent) {
        return Err(Error::new(ErrorKind::Config, format!("{percent} percent of the free memory")));
    }
    let text = std::fs::read_to_string("/proc/meminfo").map_err(|e| {
        Error::new(ErrorKind::Unsupported, "this system does not say how much memory is free; give a size instead")
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
    fn a_limit_of_nothing_gives_nothing() {
        let pool = BufferPool::new(Some(0));
        assert!(pool.take(1, 1).is_none());
        assert!(share_of_free_memory(50.0).unwrap() > 0);
        assert_eq!(share_of_free_memory(101.0).unwrap_err().kind(), ErrorKind::Config);
    }
}
