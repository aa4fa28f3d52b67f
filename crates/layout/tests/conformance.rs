//! Every layout, over several stores, keeps the promises of the trait.

use std::sync::Arc;
use thalweg_conformance::{layout, scratch::Scratch};
use thalweg_layout::Direct;
use thalweg_store::wrap::{Counting, Forgetful};
use thalweg_store::{Memory, Posix, Store};

fn check_direct(store: impl Store + 'static) {
    layout::check(&Direct::new(Arc::new(store)).unwrap());
}

#[test]
fn direct_over_posix_keeps_its_promises() {
    let scratch = Scratch::new();
    check_direct(Posix::at(scratch.path()).unwrap());
}

#[test]
fn direct_over_memory_keeps_its_promises() {
    check_direct(Memory::new());
    check_direct(Forgetful::new());
    check_direct(Counting::new(Arc::new(Memory::new())));
}
