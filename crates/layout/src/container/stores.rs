//! The stores of a mount: their order, and the identities by which containers name them.

use super::objects::{TEMPORARY, put_new_whole};
use super::packed::Cache;
use super::place::HIDDEN;
use super::stamp::{decode_identity, encode_identity};
use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, OnceLock};
use thalweg_store::{Store, StoreExt, fresh};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Parts of the names of folders that containers share: `.thalweg/c/XX`.
const SHARED: usize = 3;

/// The stores of a mount, with their identities.
pub struct Stores {
    stores: Vec<(Arc<dyn Store>, OnceLock<u64>)>,
    /// Shared folders that are durable already, with the number of the store. They are never removed.
    durable: Mutex<BTreeSet<(usize, String)>>,
    cache: Mutex<Cache>,
}

impl Stores {
    pub fn new(stores: Vec<Arc<dyn Store>>) -> Stores {
        let stores = stores.into_iter().map(|store| (store, OnceLock::new())).collect();
        Stores { stores, durable: Mutex::default(), cache: Mutex::default() }
    }

    /// Makes a folder below `.thalweg` durable with the names in it, and the names that lead to it. Those of folders that containers
    /// share are synced once by a process.
    ///
    /// - `k`: which store.
    pub fn sync_down_to(&self, k: usize, folder: &str) -> Result<()> {
        let store = &self.stores[k].0;
        let (mut above, mut depth) = ("", 0);
        for end in folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]) {
            let inner = &folder[..end];
            depth += 1;
            let shared = (depth <= SHARED).then(|| (k, inner.to_string()));
            let known = |key: &(usize, String)| self.durable().contains(key);
            if !shared.as_ref().is_some_and(known) {
                store.sync_folder(above)?;
                self.durable().extend(shared);
            }
            above = inner;
        }
        store.sync_folder(folder)
    }

    /// Objects with packed sessions that were read or written last.
    pub fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock()
    }

    fn durable(&self) -> MutexGuard<'_, BTreeSet<(usize, String)>> {
        self.durable.lock()
    }

    /// The store of the files' names.
    pub fn first(&self) -> &Arc<dyn Store> {
        &self.stores[0].0
    }

    /// The store of this number.
    pub fn nth(&self, k: usize) -> &Arc<dyn Store> {
        &self.stores[k].0
    }

    /// All of them, the store of names first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Store>> {
        self.stores.iter().map(|(store, _)| store)
    }

    /// Identity and name of every store.
    pub fn identities(&self) -> Result<Vec<(u64, String)>> {
        (0..self.stores.len()).map(|k| Ok((self.identity(k)?, self.stores[k].0.describe()))).collect()
    }

    /// Identity of a store, independent of its name in the mount table; made if the store has none.
    fn identity(&self, k: usize) -> Result<u64> {
        let (store, known) = &self.stores[k];
        if let Some(identity) = known.get() {
            return Ok(*identity);
        }
        let name = format!("{HIDDEN}/store");
        for _ in 0..100 {
            match store.read_all(&name).and_then(|bytes| decode_identity(&bytes)) {
                Ok(identity) => {
                    let _ = known.set(identity);
                    return Ok(identity);
                }
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    store.make_folder(HIDDEN)?;
                    let temporary = format!("{HIDDEN}/{TEMPORARY}{:016x}", fresh());
                    match put_new_whole(&**store, &temporary, &name, &encode_identity(fresh()), 0o666) {
                        // Every container on it will name this identity.
                        Ok(()) => store.sync_closed(&name).and_then(|()| sync_down_to(&**store, HIDDEN))?,
                        Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
                        // Another's is read back.
                        Err(_) => {}
                    }
                }
                // Another process is making it.
                Err(e) if e.kind() == ErrorKind::Torn => std::thread::sleep(std::time::Duration::from_millis(10)),
                Err(e) => return Err(e),
            }
        }
        Err(Error::new(ErrorKind::Torn, format!("store {} has a torn identity", store.describe())).in_object(name))
    }

    /// Makes a call that will ask for the identity of the first store: where requests take long and it is not known yet, it is read
    /// meanwhile.
    pub fn while_identified<T>(&self, call: impl FnOnce() -> T) -> T {
        let (store, known) = &self.stores[0];
        if known.get().is_some() || store.request_cost() == 0 {
            return call();
        }
        std::thread::scope(|scope| {
            // What fails is asked again.
            let read = || store.read_all(&format!("{HIDDEN}/store")).and_then(|bytes| decode_identity(&bytes));
            let ahead = std::thread::Builder::new().spawn_scoped(scope, move || read().map(|found| known.set(found)));
            let outcome = call();
            drop(ahead.map(|ahead| ahead.join()));
            outcome
        })
    }

    /// The store of this identity.
    pub fn find(&self, identity: u64, name: &str) -> std::result::Result<usize, String> {
        let mut failures = String::new();
        for k in 0..self.stores.len() {
            match self.identity(k) {
                Ok(found) if found == identity => return Ok(k),
                Ok(_) => {}
                Err(e) => failures.push_str(&format!("; {e}")),
            }
        }
        let there: Vec<String> = self.all().map(|store| store.describe()).collect();
        Err(format!(
            "backing store {name} (identity {identity:016x}) is not among the stores of this mount ({}){failures}",
            there.join(", ")
        ))
    }
}

/// Makes a folder durable, and the names that lead to it.
fn sync_down_to(store: &dyn Store, folder: &str) -> Result<()> {
    store.sync_folder("")?;
    let mut ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
    ends.try_for_each(|end| store.sync_folder(&folder[..end]))
}
