//! Each layout keeps its promises over each store that suffices, wrapped or not. Real servers are asked by `tests/system/stores.sh`.

use std::sync::Arc;
use std::time::Duration;
use thalweg_conformance::{layout, scratch::Scratch};
use thalweg_layout::container::{Options, index::Module};
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Container, Direct, Flat, SmallFile};
use thalweg_store::wrap::retry::Patience;
use thalweg_store::wrap::{Counting, Failing, Fault, Forgetful, Limited, Retry, Sequential, Slow, StoreCall, Tiered};
use thalweg_store::{Memory, Posix, Rename, Store};
use thalweg_types::ErrorKind;

/// - `make`: a new, empty store.
fn check(make: impl Fn() -> Arc<dyn Store>) {
    let capability = make().capability();
    if capability.write_at {
        layout::check(&Direct::new(make()).unwrap());
    }
    if capability.write_at && capability.rename == Rename::Atomic {
        layout::check(&Flat::new(vec![make()]).unwrap());
        if capability.rename_folder {
            layout::check(&Flat::new(vec![make(), make(), make()]).unwrap());
        }
    }
    if capability.write_at {
        // Larger files get an object of their own.
        layout::check(&SmallFile::new(make(), Settings::default()).unwrap());
    }
    let options = || Options { host: "host".into(), ..Options::default() };
    layout::check(&Container::new(vec![make()], options()).unwrap());
    let small = Options { module: Module::Distributed, buffer: 10_000, ..options() };
    layout::check(&Container::new(vec![make(), make(), make()], small).unwrap());
    layout::check_names_and_attributes(&Container::new(vec![make()], options()).unwrap());
    closed_lengths_are_told_to_others(&make(), &options());
    // On other stores no data log is inline.
    if capability.modes {
        let in_logs = Options { inline: Some(0), ..options() };
        layout::check(&Container::new(vec![make()], in_logs.clone()).unwrap());
        layout::check_names_and_attributes(&Container::new(vec![make()], in_logs.clone()).unwrap());
        closed_lengths_are_told_to_others(&make(), &in_logs);
    }
}

/// By layouts of their own over the same store, as those of two processes.
fn closed_lengths_are_told_to_others(store: &Arc<dyn Store>, options: &Options) {
    let container = || Container::new(vec![store.clone()], options.clone()).unwrap();
    layout::check_closed_lengths(&container(), &container());
    layout::check_order(&container(), &container());
    let can = store.capability();
    if !can.write_at {
        return;
    }
    let direct = || Direct::new(store.clone()).unwrap();
    layout::check_closed_lengths(&direct(), &direct());
    layout::check_order(&direct(), &direct());
    let small_file = || SmallFile::new(store.clone(), Settings::default()).unwrap();
    layout::check_closed_lengths(&small_file(), &small_file());
}

/// Stores in folders of their own.
struct Folders {
    scratch: Scratch,
    made: std::cell::Cell<u32>,
}

impl Folders {
    fn new() -> Folders {
        Folders { scratch: Scratch::new(), made: 0.into() }
    }

    fn next(&self) -> Arc<dyn Store> {
        self.made.set(self.made.get() + 1);
        let folder = self.scratch.join(self.made.get().to_string());
        std::fs::create_dir(&folder).unwrap();
        Arc::new(Posix::at(folder).unwrap())
    }
}

#[test]
fn over_memory() {
    check(|| Arc::new(Memory::new()));
}

#[test]
fn over_folders() {
    let folders = Folders::new();
    check(|| folders.next());
    for (inline, in_log) in [(None, false), (Some(0), true)] {
        let options = Options { inline, host: "host".into(), ..Options::default() };
        let layout = Container::new(vec![folders.next()], options).unwrap();
        layout::check_short_file(&layout, folders.scratch.path(), in_log);
    }
}

#[test]
fn over_a_burst_buffer() {
    let folders = Folders::new();
    check(|| Arc::new(Tiered::new(folders.next(), folders.next()).unwrap()));
}

#[test]
fn over_a_burst_buffer_before_a_store_that_only_takes_bytes_at_the_end() {
    let folders = Folders::new();
    check(|| Arc::new(Tiered::new(folders.next(), Arc::new(Sequential::like_s3())).unwrap()));
}

#[test]
fn over_stores_that_only_take_bytes_at_the_end() {
    check(|| Arc::new(Sequential::like_hdfs()));
    check(|| Arc::new(Sequential::like_s3()));
}

#[test]
fn over_a_slow_store() {
    check(|| Arc::new(Slow::new(Arc::new(Memory::new()), Duration::from_micros(50), 1e9)));
    check(|| Arc::new(Limited::new(Arc::new(Memory::new()), 1e9, 1e6)));
}

#[test]
fn over_stores_that_forget_or_count() {
    check(|| Arc::new(Forgetful::new()));
    check(|| Arc::new(Counting::new(Arc::new(Memory::new()))));
}

/// What fails for a moment is tried again below the layout, which notices nothing.
#[test]
fn over_a_store_whose_failures_pass() {
    let pause = Duration::from_micros(10);
    check(|| {
        let failing = Failing::new(Arc::new(Memory::new()));
        for (k, asked) in [StoreCall::OpenRead, StoreCall::Stat, StoreCall::List, StoreCall::Read, StoreCall::Write]
            .into_iter()
            .enumerate()
        {
            (0..5).for_each(|n| {
                failing.fail(Fault::of(asked).skipping(n * 17 + k as u64).times(2).with(ErrorKind::Timeout))
            });
        }
        let patience = Patience { first: pause, longest: pause, budget: 10_000, times: 40 };
        Arc::new(Retry::new(Arc::new(failing), patience))
    });
}
