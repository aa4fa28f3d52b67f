//! The block cache of a server: one level, least recently used first out, blocks of one size that survive from one collective call to
//! the next (AHPIOS, section 3.1.2).
//!
//! | question | answer |
//! |----------|--------|
//! | memory   | so many blocks, their buffers used again and again; more only while every block is in use at the same moment |
//! | who writes back | who needs a buffer; [`super::data`] at sync and close |
//! | a block that cannot be written back | stays, with its bytes; a clean one is taken instead, else the caller gets the error |
//! | locks    | one for the table, held for no transfer; one for each block. A thread holds one block's lock, or those of one file in rising order |

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_types::Result;
use thalweg_types::mutex::Mutex;

/// File number and block number.
pub type Key = (u64, u64);

/// Bytes of a block.
pub struct Block {
    /// All bytes.
    pub bytes: Box<[u8]>,
    /// Whether the bytes are those of the file.
    pub loaded: bool,
    /// Bytes that the storage lacks; empty for none.
    pub dirty: Range<usize>,
}

struct Slot {
    block: Arc<Mutex<Block>>,
    tick: u64,
}

#[derive(Default)]
struct State {
    blocks: BTreeMap<Key, Slot>,
    /// Keys by the tick of their last use.
    order: BTreeMap<u64, Key>,
    next: u64,
    free: Vec<Box<[u8]>>,
    made: usize,
}

impl State {
    fn touch(&mut self, key: Key) -> Option<Arc<Mutex<Block>>> {
        self.next += 1;
        let slot = self.blocks.get_mut(&key)?;
        self.order.remove(&slot.tick);
        slot.tick = self.next;
        self.order.insert(self.next, key);
        Some(slot.block.clone())
    }

    fn insert(&mut self, key: Key, bytes: Box<[u8]>) -> Arc<Mutex<Block>> {
        let block = Arc::new(Mutex::new(Block { bytes, loaded: false, dirty: 0..0 }));
        self.next += 1;
        self.order.insert(self.next, key);
        self.blocks.insert(key, Slot { block: block.clone(), tick: self.next });
        block
    }

    /// Takes a block out; its buffer, if nobody uses it.
    fn remove(&mut self, key: Key) -> Option<Box<[u8]>> {
        let slot = self.blocks.remove(&key)?;
        self.order.remove(&slot.tick);
        let block = Arc::try_unwrap(slot.block).ok();
        if block.is_none() {
            self.made -= 1;
        }
        block.map(|block| block.into_inner().bytes)
    }
}

/// What a cache has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Blocks found.
    pub hits: u64,
    /// Blocks not found.
    pub misses: u64,
    /// Blocks in the cache.
    pub blocks: u64,
}

/// A cache.
pub struct Cache {
    block: usize,
    most: usize,
    state: Mutex<State>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Cache {
    /// - `bytes`: size of the cache; at least four blocks are kept.
    /// - `block`: size of a block.
    pub fn new(bytes: u64, block: usize) -> Cache {
        let most = usize::try_from(bytes / block as u64).unwrap_or(usize::MAX).max(4);
        Cache { block, most, state: Mutex::default(), hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// Size of a block in bytes.
    pub fn block(&self) -> usize {
        self.block
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        Counts {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            blocks: self.state.lock().blocks.len() as u64,
        }
    }

    /// Bytes that the storage lacks; of a block that is being used now, all.
    ///
    /// # Cost
    /// Looks at each block, with the table's lock.
    pub fn dirty(&self) -> u64 {
        let state = self.state.lock();
        let of = |slot: &Slot| slot.block.try_lock().map_or(self.block, |block| block.dirty.len());
        state.blocks.values().map(|slot| of(slot) as u64).sum()
    }

    /// A block, if it is in the cache. Counts as no use.
    pub fn peek(&self, key: Key) -> Option<Arc<Mutex<Block>>> {
        self.state.lock().blocks.get(&key).map(|slot| slot.block.clone())
    }

    /// A block; one that is not in the cache is not loaded.
    ///
    /// - `write_back`: writes the dirty bytes of a block and leaves it clean; called without the table's lock.
    ///
    /// # Errors
    /// Those of `write_back`, if no clean block can be taken instead.
    pub fn get(&self, key: Key, write_back: &dyn Fn(Key, &mut Block) -> Result<()>) -> Result<Arc<Mutex<Block>>> {
        let mut failed = None;
        loop {
            let dirty = {
                let mut state = self.state.lock();
                if let Some(block) = state.touch(key) {
                    self.hits.fetch_add(1, Ordering::Relaxed);
                    return Ok(block);
                }
                let buffer = state.free.pop().or_else(|| {
                    (state.made < self.most).then(|| {
                        state.made += 1;
                        vec![0; self.block].into_boxed_slice()
                    })
                });
                if let Some(buffer) = buffer {
                    self.misses.fetch_add(1, Ordering::Relaxed);
                    return Ok(state.insert(key, buffer));
                }
                match Cache::victim(&state, failed.is_some()) {
                    Some((victim, true)) => {
                        let buffer = state.remove(victim).unwrap_or_else(|| {
                            state.made += 1;
                            vec![0; self.block].into_boxed_slice()
                        });
                        self.misses.fetch_add(1, Ordering::Relaxed);
                        return Ok(state.insert(key, buffer));
                    }
                    Some((victim, false)) => state.blocks.get(&victim).map(|slot| (victim, slot.block.clone())),
                    None => match failed {
                        Some(e) => return Err(e),
                        // All are in use at this moment.
                        None => {
                            state.made += 1;
                            self.misses.fetch_add(1, Ordering::Relaxed);
                            return Ok(state.insert(key, vec![0; self.block].into_boxed_slice()));
                        }
                    },
                }
            };
            if let Some((victim, block)) = dirty
                && let Err(e) = write_back(victim, &mut block.lock())
            {
                failed = Some(e);
            }
        }
    }

    /// The block to be replaced and whether it is clean: the oldest one that nobody uses, with `clean` the oldest clean one.
    fn victim(state: &State, clean: bool) -> Option<(Key, bool)> {
        state.order.values().find_map(|key| {
            let slot = state.blocks.get(key)?;
            if Arc::strong_count(&slot.block) > 1 {
                return None;
            }
            let is_clean = slot.block.try_lock().is_some_and(|block| block.dirty.is_empty());
            (is_clean || !clean).then_some((*key, is_clean))
        })
    }

    /// Drops blocks `from..` of a file with their bytes, dirty or not.
    pub fn drop_from(&self, file: u64, from: u64) {
        let mut state = self.state.lock();
        let keys: Vec<Key> = state.blocks.range((file, from)..=(file, u64::MAX)).map(|(key, _)| *key).collect();
        for key in keys {
            let buffer = state.remove(key);
            let room = state.made <= self.most;
            match buffer {
                Some(buffer) if room => state.free.push(buffer),
                Some(_) => state.made -= 1,
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_types::{Error, ErrorKind};

    fn nothing(_: Key, _: &mut Block) -> Result<()> {
        panic!("nothing is dirty")
    }

    #[test]
    fn the_least_recently_used_block_goes_first() {
        let cache = Cache::new(4 * 16, 16);
        for n in 0..4 {
            cache.get((1, n), &nothing).unwrap().lock().loaded = true;
        }
        cache.get((1, 0), &nothing).unwrap();
        cache.get((1, 9), &nothing).unwrap();
        assert!(cache.peek((1, 1)).is_none());
        assert!([0, 2, 3, 9].iter().all(|n| cache.peek((1, *n)).is_some()));
        assert_eq!(cache.counts(), Counts { hits: 1, misses: 5, blocks: 4 });
    }

    #[test]
    fn a_dirty_block_is_written_back_first_and_one_that_cannot_be_stays() {
        let cache = Cache::new(4 * 16, 16);
        for n in 0..4 {
            let block = cache.get((1, n), &nothing).unwrap();
            *block.lock() = Block { bytes: vec![n as u8; 16].into(), loaded: true, dirty: 0..16 };
        }
        let full = |_: Key, _: &mut Block| Err(Error::new(ErrorKind::NoSpace, "full"));
        assert_eq!(cache.dirty(), 64);
        assert_eq!(cache.get((1, 9), &full).err().unwrap().kind(), ErrorKind::NoSpace);
        assert!((0..4).all(|n| cache.peek((1, n)).unwrap().lock().bytes[0] == n as u8));
        cache.peek((1, 2)).unwrap().lock().dirty = 0..0;
        let used = cache.peek((1, 2)).unwrap();
        let locked = used.lock();
        assert_eq!(cache.dirty(), 64, "of a block in use all bytes count");
        drop(locked);
        drop(used);
        assert_eq!(cache.dirty(), 48);
        cache.get((1, 9), &full).unwrap();
        assert!(cache.peek((1, 2)).is_none(), "the clean one was taken");
        let clean = |key: Key, block: &mut Block| {
            assert_eq!(key, (1, 0));
            block.dirty = 0..0;
            Ok(())
        };
        cache.get((1, 10), &clean).unwrap();
        assert!(cache.peek((1, 0)).is_none());
    }

    #[test]
    fn while_all_blocks_are_in_use_there_are_more_and_later_no_more() {
        let cache = Cache::new(4 * 16, 16);
        let held: Vec<_> = (0..6).map(|n| cache.get((1, n), &nothing).unwrap()).collect();
        assert_eq!(cache.counts().blocks, 6);
        drop(held);
        cache.drop_from(1, 0);
        assert_eq!(cache.counts().blocks, 0);
        let held: Vec<_> = (0..4).map(|n| cache.get((2, n), &nothing).unwrap()).collect();
        drop(held);
        cache.get((2, 9), &nothing).unwrap();
        assert_eq!(cache.counts().blocks, 4);
    }
}
