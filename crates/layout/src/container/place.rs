//! Where the parts of a container lie on the stores of a mount.
//!
//! | what | store | name |
//! |------|-------|------|
//! | stamp of a file | first | the logical file's name |
//! | identity | every | `.thalweg/store` |
//! | container | first | `.thalweg/c/XX/NUMBER/`, XX the first two figures of its number |
//! | stamp, again | first | `.../stamp` |
//! | marks, attributes, snapshots | first | `.../m/` |
//! | logs | the one that host and writer hash to | `.thalweg/d/XX/NUMBER/FF/SESSION-SEGMENT.data` and `.index`, FF the folder they hash to |

use super::index::Source;
use super::marks::Home;
use super::stamp::{Stamp, decode_identity, encode_identity};
use std::io::IoSlice;
use std::sync::{Arc, OnceLock};
pub use thalweg_store::fresh;
use thalweg_store::{OpenWrite, Store, StoreExt};
use thalweg_types::{Error, ErrorKind, Result};

/// The folder that holds what users don't see.
pub const HIDDEN: &str = ".thalweg";

/// The stores of a mount and who they are.
pub struct Stores {
    stores: Vec<(Arc<dyn Store>, OnceLock<u64>)>,
}

impl Stores {
    pub fn new(stores: Vec<Arc<dyn Store>>) -> Stores {
        Stores { stores: stores.into_iter().map(|store| (store, OnceLock::new())).collect() }
    }

    /// The store that holds names.
    pub fn first(&self) -> &Arc<dyn Store> {
        &self.stores[0].0
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Store>> {
        self.stores.iter().map(|(store, _)| store)
    }

    /// Identity and name of every store.
    pub fn identities(&self) -> Result<Vec<(u64, String)>> {
        (0..self.stores.len()).map(|k| Ok((self.identity(k)?, self.stores[k].0.describe()))).collect()
    }

    /// What a store is known by, whatever the mount table calls it; given to it where it has none.
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
                    match put_new(&**store, &name, &encode_identity(fresh())) {
                        // Whatever lies on it is known by this.
                        Ok(()) => sync_closed(&**store, &name).and_then(|()| sync_down_to(&**store, HIDDEN))?,
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

    /// The store of this identity.
    fn find(&self, identity: u64, name: &str) -> std::result::Result<usize, String> {
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

/// Nanoseconds since 1970.
pub fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Makes a small object; `AlreadyExists` where one is there.
pub fn put_new(store: &dyn Store, name: &str, bytes: &[u8]) -> Result<()> {
    let object = store.open_write(name, OpenWrite::New)?;
    object.write_at(0, &[IoSlice::new(bytes)])?;
    object.close()
}

/// Makes a folder durable, and the names that lead to it.
pub fn sync_down_to(store: &dyn Store, folder: &str) -> Result<()> {
    store.sync_folder("")?;
    let mut ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
    ends.try_for_each(|end| store.sync_folder(&folder[..end]))
}

/// Makes an object durable that was closed; one that cannot be opened again is durable since.
pub fn sync_closed(store: &dyn Store, name: &str) -> Result<()> {
    match store.capability().append {
        true => store.open_write(name, OpenWrite::Existing)?.sync(),
        false => Ok(()),
    }
}

/// Removes what may be gone already.
pub fn remove_if_there(store: &dyn Store, name: &str) -> Result<()> {
    match store.remove(name) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// A container and the stores it lies on.
pub struct Place {
    /// What its stamp says.
    pub stamp: Stamp,
    stores: Arc<Stores>,
    /// Number in the mount of each of the container's stores, or why it has none.
    found: Vec<std::result::Result<usize, String>>,
}

impl Place {
    pub fn new(stamp: Stamp, stores: Arc<Stores>) -> Place {
        let found = stamp.stores.iter().map(|(identity, name)| stores.find(*identity, name)).collect();
        Place { stamp, stores, found }
    }

    /// The store that holds names and marks.
    pub fn first(&self) -> &Arc<dyn Store> {
        self.stores.first()
    }

    /// One of the container's stores.
    ///
    /// # Errors
    /// `Io` naming a store that is not there.
    pub fn store(&self, number: u8) -> Result<&Arc<dyn Store>> {
        match self.found.get(usize::from(number)) {
            Some(Ok(k)) => Ok(&self.stores.stores[*k].0),
            Some(Err(why)) => Err(self.lost(why.clone())),
            None => Err(self.lost(format!("a log is said to lie on store {number} of {}", self.found.len()))),
        }
    }

    fn lost(&self, what: String) -> Error {
        Error::new(ErrorKind::Io, what).in_object(format!("container {:032x}", self.stamp.container))
    }

    /// The container's folder on the first store.
    pub fn folder(&self) -> String {
        folder(self.stamp.container)
    }

    /// The folder of marks.
    pub fn marks(&self) -> String {
        format!("{}/m", self.folder())
    }

    /// The folder of logs on every store.
    pub fn logs(&self) -> String {
        let number = format!("{:032x}", self.stamp.container);
        format!("{HIDDEN}/d/{}/{number}", &number[..2])
    }

    /// One of the folders of logs.
    pub fn log_folder(&self, folder: u8) -> String {
        format!("{}/{folder:02x}", self.logs())
    }

    /// A data log.
    pub fn data(&self, home: &Home, segment: u32) -> String {
        format!("{}/{:016x}-{segment}.data", self.log_folder(home.folder), home.session)
    }

    /// The index log beside it.
    pub fn index(&self, home: &Home, segment: u32) -> String {
        format!("{}/{:016x}-{segment}.index", self.log_folder(home.folder), home.session)
    }

    /// Where a writer's logs go.
    pub fn home(&self, host: &str, writer: u32) -> Home {
        let hash = spread(host, writer);
        let stores = self.found.len().max(1) as u64;
        let store = (hash % stores) as u8;
        let folder = (hash / stores % u64::from(self.stamp.folders)) as u8;
        Home { session: fresh(), writer, store, folder }
    }

    /// What a data log is called in messages.
    pub fn shown(&self, source: &Source) -> String {
        let store = self.stamp.stores.get(usize::from(source.store)).map_or("?", |(_, name)| name);
        format!("{store}/{}", self.data(&source.home(), source.segment))
    }
}

impl Source {
    /// Where it lies.
    pub fn home(&self) -> Home {
        Home { session: self.session, writer: self.writer, store: self.store, folder: self.folder }
    }

    /// A segment of a session.
    pub fn of(home: &Home, segment: u32) -> Source {
        Source { writer: home.writer, session: home.session, segment, store: home.store, folder: home.folder }
    }
}

/// The folder of a container.
pub fn folder(container: u128) -> String {
    let number = format!("{container:032x}");
    format!("{HIDDEN}/c/{}/{number}", &number[..2])
}

/// Spreads hosts by hash and the writers of a host evenly.
fn spread(host: &str, writer: u32) -> u64 {
    u64::from(super::wire::crc32c(host.as_bytes())).wrapping_add(u64::from(writer))
}
