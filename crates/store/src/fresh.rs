//! Random numbers that are distinct in all processes: names of logs and temporary objects, identities of files.
//!
//! | question | answer |
//! |----------|--------|
//! | source   | the keys of the standard library's hash maps, which the system draws at random for each thread |
//! | after a `fork` | the child has its parent's keys and counter. PID and time are hashed with them at every draw, so that parent, child and siblings draw different numbers. No generator state is kept that two processes could share |
//! | collisions | probability 2^-64 for each pair; 3 in 10^8 among the 10^6 numbers of one folder |

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A random number, never 0; different from those that other threads and processes draw, forked children included.
pub fn fresh() -> u64 {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(DRAWN.fetch_add(1, Ordering::Relaxed));
    hasher.write_u32(std::process::id());
    hasher.write_u128(now.as_nanos());
    hasher.finish().max(1)
}
