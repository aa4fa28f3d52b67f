//! Small objects other than logs: stamps, marks, attributes, snapshots. As far as the store can, others see the complete object or
//! none.

use std::io::IoSlice;
use thalweg_store::{OpenWrite, Rename, Store, StoreExt};
use thalweg_types::{ErrorKind, Result};

/// Prefix of the names of objects that are being made.
pub const TEMPORARY: &str = "t-";
/// How often to repeat a step that another process may undo.
pub const MOST_TRIES: usize = 100;

/// Creates a small object that other nodes read; `AlreadyExists` if the name is taken.
pub fn put_new(store: &dyn Store, name: &str, bytes: &[u8]) -> Result<()> {
    put_new_as(store, name, bytes, 0o666)
}

/// As [`put_new`], with these permission bits at most.
pub fn put_new_as(store: &dyn Store, name: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let object = store.make_for_all(name, mode)?;
    let put = object.write_at(0, &[IoSlice::new(bytes)]).and_then(|()| object.close());
    if let Err(e) = &put
        && e.kind() != ErrorKind::AlreadyExists
        && !store.capability().whole
    {
        // This call created the object, which is incomplete. On stores where objects appear complete, an object of this
        // name is another process's.
        let _ = remove_if_there(store, name);
    }
    put
}

/// Whether an object should be made under a temporary name and renamed, because the store shows objects before their bytes.
pub fn appears_early(store: &dyn Store) -> bool {
    let can = store.capability();
    !can.whole && can.rename == Rename::Atomic
}

/// Makes a small object that others see with all its bytes or not at all, as far as the store can; one that is there is
/// replaced.
///
/// - `temporary`: an unused name in an existing folder. A repair may remove it.
pub fn put_whole(store: &dyn Store, temporary: &str, name: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let put = |name: &str, how: OpenWrite| {
        let object = store.open_write_as(name, how, mode)?;
        object.write_at(0, &[IoSlice::new(bytes)])?;
        object.close()
    };
    if store.capability().whole {
        return put(name, OpenWrite::Replace);
    }
    if !appears_early(store) {
        return match put_new_as(store, name, bytes, mode) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => put_again(store, name, bytes, mode),
            outcome => outcome,
        };
    }
    let mut tried = 0;
    loop {
        let outcome = put(temporary, OpenWrite::New).and_then(|()| store.rename(temporary, name));
        match outcome {
            // Removed by a repair.
            Err(e) if e.kind() == ErrorKind::NotFound && tried < MOST_TRIES => tried += 1,
            Err(e) => {
                let _ = remove_if_there(store, temporary);
                return Err(e);
            }
            done => return done,
        }
    }
}

/// Replaces a small object that other nodes read, on stores without atomic rename: it is missing for a moment. If the store is full,
/// the old object is restored.
fn put_again(store: &dyn Store, name: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let before = store.read_all(name)?;
    remove_if_there(store, name)?;
    let put = put_new_as(store, name, bytes, mode);
    if put.is_err() {
        let _ = put_new_as(store, name, &before, mode);
    }
    put
}

/// Makes a small object that others see with all its bytes or not at all, where the store can; `AlreadyExists` where one is
/// there.
///
/// - `temporary`: as for [`put_whole`].
pub fn put_new_whole(store: &dyn Store, temporary: &str, name: &str, bytes: &[u8], mode: u32) -> Result<()> {
    if !appears_early(store) {
        return put_new_as(store, name, bytes, mode);
    }
    let mut tried = 0;
    loop {
        put_new_as(store, temporary, bytes, mode)?;
        match store.rename_new(temporary, name) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                remove_if_there(store, temporary)?;
                return put_new_as(store, name, bytes, mode);
            }
            // Removed by a repair, or there is no such folder.
            Err(e) if e.kind() == ErrorKind::NotFound && tried < MOST_TRIES && !store.exists(temporary)? => tried += 1,
            Err(e) => {
                let _ = remove_if_there(store, temporary);
                return Err(e);
            }
        }
    }
}

/// Renames; an error is ignored if the rename has taken effect.
pub fn moved(store: &dyn Store, from: &str, to: &str) -> Result<()> {
    match store.rename(from, to) {
        Err(_) if matches!((store.exists(from), store.exists(to)), (Ok(false), Ok(true))) => Ok(()),
        outcome => outcome,
    }
}

/// Removes an object; `NotFound` is no error.
pub fn remove_if_there(store: &dyn Store, name: &str) -> Result<()> {
    match store.remove(name) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use thalweg_store::wrap::Sequential;

    #[test]
    fn of_many_who_make_an_object_at_once_one_succeeds_and_its_object_stays() {
        const MAKERS: u8 = 4;
        for store in [Sequential::like_s3(), Sequential::like_hdfs()] {
            for round in 0..1000 {
                let (name, start) = (format!("{round}"), Barrier::new(MAKERS.into()));
                let made: Vec<u8> = std::thread::scope(|scope| {
                    let makers: Vec<_> = (0..MAKERS)
                        .map(|maker| {
                            scope.spawn({
                                let (store, name, start) = (&store, &name, &start);
                                move || {
                                    start.wait();
                                    put_new(store, name, &[maker]).map(|()| maker)
                                }
                            })
                        })
                        .collect();
                    let outcomes = makers.into_iter().map(|maker| maker.join().unwrap());
                    outcomes
                        .filter_map(|o| o.inspect_err(|e| assert_eq!(e.kind(), ErrorKind::AlreadyExists)).ok())
                        .collect()
                });
                assert_eq!(made.len(), 1, "round {round} over {}: {made:?}", store.describe());
                assert_eq!(store.read_all(&name).unwrap(), made);
            }
        }
    }
}
