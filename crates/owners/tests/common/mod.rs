//! What the tests of the engine share.
#![allow(dead_code, reason = "each test uses a part")]

use std::sync::Arc;
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_layout::{Direct, Layout, OpenWrite};
use thalweg_owners::{File, OpenFile, Options, Owners};
use thalweg_store::Store;

pub fn direct(store: Arc<dyn Store>) -> Arc<dyn Layout> {
    Arc::new(Direct::new(store).unwrap())
}

pub fn open(comm: &dyn Communicator, layout: &Arc<dyn Layout>, memory: u64) -> File {
    File::open(&OpenFile { memory, ..OpenFile::new(comm, layout, "out", OpenWrite::Replace) }).unwrap()
}

/// Two owners or more where there are ranks, small stripes, and a time limit that ends a test that would hang.
pub fn small(active: u32) -> Options {
    Options {
        owners: Owners::Every { active, base: 0, skip: 1 },
        owner_stripe: Some(4000),
        write_stripe: 1000,
        fraction: 400,
        time_limit: Some(Duration::from_secs(60)),
        ..Options::default()
    }
}

/// The byte that belongs at an offset.
pub fn value(byte: u64) -> u8 {
    (byte.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

pub fn content(start: u64, length: u64) -> Vec<u8> {
    (start..start + length).map(value).collect()
}

/// A sequence that looks random, the same in every run.
pub struct Sequence(pub u64);

impl Sequence {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % bound.max(1)
    }
}
