//! The promises of stores: `Store`, `ReadObject`, `WriteObject`, as far as the store's abilities go.
//!
//! | room | promises about |
//! |------|----------------|
//! | `opening` | how objects are opened and made, and when their bytes are seen |
//! | `bytes` | effects of writes, reads, truncation, holes and reservations on bytes |
//! | `names` | names, folders, lists, renames, identity of objects |
//! | `attributes` | modes, owners, times, links and extended attributes |
//! | `leases` | leases, locks, handles opened anew, settling |

mod attributes;
mod bytes;
mod leases;
mod names;
mod opening;

use std::io::IoSlice;
use thalweg_store::{Capability, ListConsistency, OpenWrite, Rename, Store, StoreExt, WriteObject, name};
use thalweg_types::{ErrorKind, Result};

/// Checks every promise, in a folder `conformance` of the store, which is removed at the end.
///
/// # Panics
/// At the first promise that is broken, naming it on standard error.
pub fn check(store: &dyn Store) {
    for outside in ["/absolute", "../beside", "a/../../beside"] {
        fails(store.open_write(outside, OpenWrite::Any), ErrorKind::InvalidArgument, outside);
        fails(store.stat(outside), ErrorKind::InvalidArgument, outside);
    }
    check_in(store, "conformance");
}

/// As [`check`], in a folder of this name that isn't there yet; names need not stay inside the store.
pub fn check_in(store: &dyn Store, folder: &str) {
    check_but(store, folder, &[]);
}

/// As [`check_in`], except for promises whose text contains one of these.
pub fn check_but(store: &dyn Store, folder: &str, but: &[&str]) {
    assert!(
        but.iter().all(|but| PROMISES.iter().any(|promise| promise.words.contains(but))),
        "known promises: {but:?}"
    );
    assert!(!store.describe().is_empty(), "a store has a name");
    assert!(!store.exists(folder).unwrap(), "{folder} is not there before the suite runs");
    let asked = PROMISES.iter().filter(|promise| (promise.asked_of)(&store.capability()));
    for promise in asked.filter(|promise| !but.iter().any(|but| promise.words.contains(but))) {
        let report = PanicReport { store: store.describe(), promise: promise.words };
        store.make_folder(folder).unwrap();
        (promise.check)(&Room { store, folder });
        clear(store, folder);
        drop(report);
    }
}

struct Promise {
    words: &'static str,
    asked_of: fn(&Capability) -> bool,
    check: fn(&Room<'_>),
}

const PROMISES: &[Promise] = &[
    Promise { words: "opening makes or replaces as asked", asked_of: any, check: opening::opening },
    Promise { words: "opening keeps the bytes as asked", asked_of: |can| can.append, check: opening::keeping },
    Promise {
        words: "a closed object stays closed where it cannot be extended",
        asked_of: |can| !can.append,
        check: opening::closed,
    },
    Promise { words: "what is closed is whole", asked_of: any, check: opening::whole },
    Promise {
        words: "writes go to the end and nowhere else",
        asked_of: |can| !can.write_at,
        check: opening::sequential,
    },
    Promise { words: "what cannot be cut is not", asked_of: |can| !can.truncate, check: opening::uncut },
    Promise { words: "bytes are seen when promised", asked_of: any, check: opening::visible },
    Promise {
        words: "what is not closed is not there, nor does it take what was there",
        asked_of: |can| can.whole,
        check: opening::unclosed,
    },
    Promise {
        words: "one of many writers makes a new object",
        asked_of: |can| can.exclusive,
        check: opening::exclusive,
    },
    Promise {
        words: "a list tells what just happened",
        asked_of: |can| can.list == ListConsistency::Strong,
        check: names::listing,
    },
    Promise { words: "objects are found by how their names begin", asked_of: any, check: names::beginnings },
    Promise { words: "first bytes are those of an object that is there", asked_of: any, check: names::first_bytes },
    Promise { words: "what is not there is not found", asked_of: any, check: names::missing },
    Promise { words: "folders are made, listed and removed", asked_of: any, check: names::folders },
    Promise { words: "a folder is no object, an object no folder", asked_of: any, check: names::mixed_up },
    Promise { words: "reads end where the object ends", asked_of: any, check: bytes::ends },
    Promise { words: "sync succeeds", asked_of: any, check: bytes::syncing },
    Promise { words: "bytes of a view lie where its extents are", asked_of: writes_at, check: bytes::views },
    Promise { words: "pieces are written behind each other", asked_of: writes_at, check: bytes::pieces },
    Promise { words: "later writes win where they overlap", asked_of: writes_at, check: bytes::overlaps },
    Promise { words: "holes read as zeros", asked_of: writes_at, check: bytes::holes },
    Promise { words: "what may be skipped as a hole reads as zeros", asked_of: writes_at, check: bytes::skipped },
    Promise { words: "offsets beyond 32 bits", asked_of: writes_at, check: bytes::far_offsets },
    Promise { words: "offsets beyond the largest are refused", asked_of: writes_at, check: bytes::too_far },
    Promise { words: "a write of no bytes does nothing", asked_of: writes_at, check: bytes::no_bytes },
    Promise { words: "reserving changes no byte", asked_of: writes_at, check: bytes::reserving },
    Promise { words: "threads write disjoint extents at once", asked_of: writes_at, check: bytes::threads },
    Promise { words: "an object is extended when opened again", asked_of: |can| can.append, check: bytes::appends },
    Promise { words: "truncation cuts and extends", asked_of: |can| can.truncate, check: bytes::truncation },
    Promise { words: "what is punched reads as zeros", asked_of: |can| can.punch, check: bytes::punching },
    Promise { words: "renaming replaces", asked_of: |can| can.rename != Rename::None, check: names::renaming },
    Promise {
        words: "a name is never gone while renamed over",
        asked_of: |can| matches!(can.rename, Rename::Atomic | Rename::Copy),
        check: names::atomic,
    },
    Promise { words: "folders move with all that is in them", asked_of: |can| can.rename_folder, check: names::moving },
    Promise {
        words: "modes, owners, times and links are kept",
        asked_of: |can| can.attributes,
        check: attributes::attributes,
    },
    Promise { words: "modes, owners and times are kept", asked_of: |can| can.modes, check: attributes::modes },
    Promise { words: "what keeps no modes says so", asked_of: |can| !can.modes, check: attributes::no_modes },
    Promise { words: "what keeps no links says so", asked_of: |can| !can.attributes, check: attributes::no_links },
    Promise { words: "identity tells objects apart", asked_of: any, check: names::identity },
    Promise { words: "a lease is seen until it is dropped", asked_of: any, check: leases::leases },
    Promise { words: "a lock keeps others out until it is dropped", asked_of: any, check: leases::locks },
    Promise {
        words: "an open object is opened anew, and locked, whatever its name is",
        asked_of: any,
        check: leases::reopening,
    },
    Promise { words: "settling what nobody writes changes nothing", asked_of: any, check: leases::settling },
];

fn any(_: &Capability) -> bool {
    true
}

fn writes_at(can: &Capability) -> bool {
    can.write_at
}

/// A store and the folder in it where one promise is checked.
struct Room<'a> {
    store: &'a dyn Store,
    folder: &'a str,
}

impl Room<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    fn open(&self, name: &str, how: OpenWrite) -> Box<dyn WriteObject> {
        self.store.open_write(&self.name(name), how).unwrap()
    }

    /// Makes an object of these bytes and closes it.
    fn put(&self, name: &str, how: OpenWrite, bytes: &[u8]) {
        let object = self.open(name, how);
        write(&*object, 0, bytes);
        object.close().unwrap();
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        self.store.read_all(&self.name(name)).unwrap()
    }
}

/// Prints the promise being checked when the suite panics.
struct PanicReport {
    store: String,
    promise: &'static str,
}

impl Drop for PanicReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("store {} does not keep: {}", self.store, self.promise);
        }
    }
}

#[track_caller]
fn fails<T>(result: Result<T>, kind: ErrorKind, name: &str) {
    let Err(error) = result else { panic!("{name}: succeeded, should fail with {kind:?}") };
    assert_eq!(error.kind(), kind, "{name}: {error}");
    assert!(error.to_string().contains(name::last_part(name)), "the error does not name {name}: {error}");
}

fn write(object: &dyn WriteObject, offset: u64, bytes: &[u8]) {
    object.write_at(offset, &[IoSlice::new(bytes)]).unwrap();
}

fn clear(store: &dyn Store, folder: &str) {
    for entry in store.list(folder).unwrap() {
        let name = format!("{folder}/{entry}");
        if store.stat(&name).unwrap().is_folder { clear(store, &name) } else { store.remove(&name).unwrap() }
    }
    store.remove(folder).unwrap();
    assert!(!store.exists(folder).unwrap(), "{folder} was removed");
}
