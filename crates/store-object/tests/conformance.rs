//! Stores that need no server keep their promises; the others are checked by `examples/stores.rs` on real servers, which
//! `tests/system/stores.sh` starts.

#![cfg(feature = "object")]

use thalweg_store_object::Object;

#[test]
fn the_library_s_store_in_memory_keeps_its_promises() {
    thalweg_conformance::store::check(&Object::memory().unwrap());
}
