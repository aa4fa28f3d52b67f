//! Every store, and every wrapper in a setting that changes nothing, keeps the promises of the traits.

use std::sync::Arc;
use std::time::Duration;
use thalweg_conformance::{scratch::Scratch, store};
use thalweg_store::wrap::{Counting, Failing, Fault, Forgetful, Limited, Patience, Retry, Sequential, Slow, StoreCall};
use thalweg_store::{Memory, Posix};

#[test]
fn posix_below_a_folder_keeps_its_promises() {
    let scratch = Scratch::new();
    store::check(&Posix::at(scratch.path()).unwrap());
}

#[test]
fn posix_by_plain_paths_keeps_its_promises() {
    let scratch = Scratch::new();
    store::check_in(&Posix::plain(), scratch.join("by absolute path").to_str().unwrap());
}

#[test]
fn memory_keeps_its_promises() {
    store::check(&Memory::new());
}

#[test]
fn counting_keeps_the_promises_of_the_store_inside() {
    let scratch = Scratch::new();
    store::check(&Counting::new(Arc::new(Posix::at(scratch.path()).unwrap())));
}

#[test]
fn slow_keeps_the_promises_of_the_store_inside() {
    store::check(&Slow::new(Arc::new(Memory::new()), Duration::from_micros(10), 1e12));
}

#[test]
fn failing_keeps_the_promises_of_the_store_inside_while_nothing_is_due() {
    let failing = Failing::new(Arc::new(Memory::new()));
    failing.fail(Fault::of(StoreCall::Write).named("of another name"));
    failing.space(Some(1 << 40));
    store::check(&failing);
}

#[test]
fn forgetful_keeps_its_promises() {
    store::check(&Forgetful::new());
}

#[test]
fn sequential_keeps_its_promises() {
    store::check(&Sequential::like_hdfs());
    store::check(&Sequential::like_s3());
}

#[test]
fn retry_and_limit_keep_the_promises_of_the_store_inside() {
    store::check(&Retry::new(Arc::new(Memory::new()), Patience::default()));
    store::check(&Retry::new(Arc::new(Sequential::like_s3()), Patience::default()));
    store::check(&Limited::new(Arc::new(Memory::new()), 1e12, 1e9));
}
