//! A container keeps the promises of layouts over each store that suffices, with each index module.

use std::sync::Arc;
use thalweg_conformance::{layout, scratch::Scratch};
use thalweg_layout::Container;
use thalweg_layout::container::{Options, index::Module};
use thalweg_store::wrap::{Counting, Forgetful, Sequential};
use thalweg_store::{Memory, Posix, Store};

fn container(stores: Vec<Arc<dyn Store>>, module: Module, buffer: usize, inline: Option<usize>) -> Container {
    Container::new(stores, Options { module, buffer, inline, host: "host".into(), ..Options::default() }).unwrap()
}

fn check_all(store: impl Fn() -> Arc<dyn Store>) {
    layout::check(&container(vec![store()], Module::Pattern, 4 << 20, None));
    layout::check(&container(vec![store(), store(), store()], Module::Flat, 10_000, None));
    layout::check(&container(vec![store()], Module::Distributed, 0, None));
    // On other stores no data log is inline.
    if store().capability().modes {
        for (module, buffer) in [(Module::Pattern, 4 << 20), (Module::Flat, 10_000), (Module::Distributed, 0)] {
            layout::check(&container(vec![store()], module, buffer, Some(0)));
        }
    }
}

#[test]
fn over_posix() {
    let scratch = Scratch::new();
    let mut number = 0;
    let next = std::sync::Mutex::new(&mut number);
    let store = || -> Arc<dyn Store> {
        let mut number = next.lock().unwrap();
        **number += 1;
        let folder = scratch.join(number.to_string());
        std::fs::create_dir(&folder).unwrap();
        Arc::new(Posix::at(folder).unwrap())
    };
    check_all(store);
    for (inline, in_log) in [(None, false), (Some(0), true)] {
        let layout = container(vec![store()], Module::Pattern, 4 << 20, inline);
        layout::check_short_file(&layout, scratch.path(), in_log);
    }
}

#[test]
fn over_memory() {
    check_all(|| Arc::new(Memory::new()));
}

#[test]
fn over_a_store_that_forgets() {
    check_all(|| Arc::new(Forgetful::new()));
}

#[test]
fn over_a_store_that_counts() {
    check_all(|| Arc::new(Counting::new(Arc::new(Memory::new()))));
}

#[test]
fn over_a_store_that_only_takes_bytes_at_the_end_and_shows_them_when_synced() {
    check_all(|| Arc::new(Sequential::like_hdfs()));
}

#[test]
fn over_a_store_that_shows_bytes_once_closed() {
    check_all(|| Arc::new(Sequential::like_s3()));
}
