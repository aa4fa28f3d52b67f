//! Where the parts of a container lie on the stores of a mount.
//!
//! | what | store | name |
//! |------|-------|------|
//! | stamp of a file | first | the logical file's name |
//! | identity | every | `.thalweg/store` |
//! | container | its home, as its stamp says | `.thalweg/c/XX/NUMBER/`, XX the first two figures of its number |
//! | stamp, again | home | `.../stamp` |
//! | marks, attributes, snapshots | home | `.../m/` |
//! | stamp of version 3 | first | the logical file's name; of the container's marks, attributes and logs it may hold some itself ([`drawer`](super::drawer)), and then the container's folder may not be there |
//! | logs | the one that host, writer, container and session spread to | `.thalweg/d/XX/NUMBER/FF/SESSION-SEGMENT.data` and `.index`, FF the folder they hash to |

use super::attributes::{self, StoredAttributes};
use super::drawer::{Drawer, Locked, Opened};
use super::index::Source;
use super::marks::Home;
use super::stamp::{Stamp, decode_identity, encode_identity};
use super::tail::Record;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
pub use thalweg_store::fresh;
use thalweg_store::{Attributes, Change, Kind, Life, OpenWrite, ReadObject, Rename, Store, StoreExt, name};
use thalweg_types::checksum::crc32c;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// The folder that holds what users don't see.
pub const HIDDEN: &str = ".thalweg";
/// How the names of objects begin that are being made.
pub const TEMPORARY: &str = "t-";
/// Parts of the names of folders that containers share: `.thalweg/c/XX`.
const SHARED: usize = 3;
/// How often what others may undo is tried.
pub const MOST_TRIES: usize = 100;

/// The stores of a mount and who they are.
pub struct Stores {
    stores: Vec<(Arc<dyn Store>, OnceLock<u64>)>,
    /// Folders that containers share whose names are durable, by the number of the store: they are never removed.
    durable: Mutex<BTreeSet<(usize, String)>>,
}

impl Stores {
    pub fn new(stores: Vec<Arc<dyn Store>>) -> Stores {
        let stores = stores.into_iter().map(|store| (store, OnceLock::new())).collect();
        Stores { stores, durable: Mutex::default() }
    }

    /// Makes a folder below `.thalweg` durable with the names in it, and the names that lead to it. Those of folders that containers
    /// share are synced once by a process.
    ///
    /// - `k`: which store.
    fn sync_down_to(&self, k: usize, folder: &str) -> Result<()> {
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

    fn durable(&self) -> MutexGuard<'_, BTreeSet<(usize, String)>> {
        self.durable.lock()
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
                    let temporary = format!("{HIDDEN}/{TEMPORARY}{:016x}", fresh());
                    match put_new_whole(&**store, &temporary, &name, &encode_identity(fresh()), 0o666) {
                        // Whatever lies on it is known by this.
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

/// Makes a small object that all nodes look for; `AlreadyExists` where one is there.
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
        // It was made here, and says nothing. Where objects appear whole there is none of ours: what has the name is another's,
        // who was faster.
        let _ = remove_if_there(store, name);
    }
    put
}

/// Whether an object of this store is best made under another name and renamed, so that nobody sees it before its bytes
/// are there.
pub fn appears_early(store: &dyn Store) -> bool {
    let can = store.capability();
    !can.whole && can.rename == Rename::Atomic
}

/// Makes a small object that others see with all its bytes or not at all, as far as the store can; one that is there is
/// replaced.
///
/// - `temporary`: a name in a folder that is there, which nobody else uses. Who tidies up may remove it.
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
            // Taken away by who tidied up.
            Err(e) if e.kind() == ErrorKind::NotFound && tried < MOST_TRIES => tried += 1,
            Err(e) => {
                let _ = remove_if_there(store, temporary);
                return Err(e);
            }
            done => return done,
        }
    }
}

/// Replaces a small object that all nodes look for where no rename does that at once: it is gone for a moment. Of a store without room
/// the old one comes back.
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
            // Taken away by who tidied up, or there is no such folder.
            Err(e) if e.kind() == ErrorKind::NotFound && tried < MOST_TRIES && !store.exists(temporary)? => tried += 1,
            Err(e) => {
                let _ = remove_if_there(store, temporary);
                return Err(e);
            }
        }
    }
}

/// Renames, where the first answer may be lost.
pub fn moved(store: &dyn Store, from: &str, to: &str) -> Result<()> {
    match store.rename(from, to) {
        Err(_) if matches!((store.exists(from), store.exists(to)), (Ok(false), Ok(true))) => Ok(()),
        outcome => outcome,
    }
}

/// Makes a folder durable, and the names that lead to it.
fn sync_down_to(store: &dyn Store, folder: &str) -> Result<()> {
    store.sync_folder("")?;
    let mut ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
    ends.try_for_each(|end| store.sync_folder(&folder[..end]))
}

/// Removes what may be gone already.
pub fn remove_if_there(store: &dyn Store, name: &str) -> Result<()> {
    match store.remove(name) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Who may look into a container's folders, on stores that keep modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard {
    /// Permission bits of its folders.
    pub folder: u32,
    /// Owner.
    pub uid: u32,
    /// Owner's group.
    pub gid: u32,
}

impl Guard {
    /// As folders are made whose file is as files usually are.
    pub const USUAL: u32 = 0o755;

    /// Of a file with these permission bits. Who may write it makes objects in its folders, who may read it looks into
    /// them, and nobody else gets in; its owner always does.
    pub fn of(mode: u32, uid: u32, gid: u32) -> Guard {
        let class = |shift: u32| match mode >> shift & 7 {
            bits if bits & 2 != 0 => 7 << shift,
            bits if bits & 4 != 0 => 5 << shift,
            _ => 0,
        };
        Guard { folder: 0o700 | class(3) | class(0), uid, gid }
    }

    /// Permission bits of objects in these folders.
    pub fn object(&self) -> u32 {
        0o600 | self.folder & 0o066
    }

    fn change(&self, about: &Attributes) -> Change {
        let other = |now: u32, wanted: u32| (now != wanted).then_some(wanted);
        let mode = if about.kind == Kind::Folder { self.folder } else { self.object() };
        Change {
            mode: other(about.mode & 0o777, mode),
            uid: other(about.uid, self.uid),
            gid: other(about.gid, self.gid),
            ..Change::default()
        }
    }

    /// Gives it to one object or folder.
    pub fn give(&self, store: &dyn Store, name: &str) -> Result<()> {
        self.give_known(store, name, &store.attributes(name)?)
    }

    /// Gives it to the object of a file's name, which is open.
    fn give_open(&self, drawer: &Drawer) -> Result<()> {
        let change = self.change(&drawer.attributes()?);
        if change.uid.is_some() || change.gid.is_some() {
            drawer.set_attributes(&Change { mode: None, ..change }).or_else(foreign)?;
        }
        match change.mode {
            Some(_) => drawer.set_attributes(&Change { mode: change.mode, ..Change::default() }),
            None => Ok(()),
        }
    }

    /// As [`Guard::give`], where its attributes are known.
    fn give_known(&self, store: &dyn Store, name: &str, about: &Attributes) -> Result<()> {
        let change = self.change(about);
        if change.uid.is_some() || change.gid.is_some() {
            // Without the right to give objects away they stay who made them, as the file does for the system.
            store.set_attributes(name, &Change { mode: None, ..change }).or_else(foreign)?;
        }
        match change.mode {
            Some(_) => store.set_attributes(name, &Change { mode: change.mode, ..Change::default() }),
            None => Ok(()),
        }
    }

    /// Gives it to a folder, then to all that is in it. What belongs to others inside is theirs to change: they don't reach it
    /// where the folder keeps them out.
    fn give_all(&self, store: &dyn Store, folder: &str) -> Result<()> {
        let about = store.attributes(folder)?;
        self.give_all_known(store, folder, &about)
    }

    fn give_all_known(&self, store: &dyn Store, folder: &str, about: &Attributes) -> Result<()> {
        self.give_known(store, folder, about)?;
        for name in store.list(folder)? {
            let name = format!("{folder}/{name}");
            let given = match store.attributes(&name) {
                Ok(about) if about.kind == Kind::Folder => self.give_all_known(store, &name, &about),
                Ok(about) => self.give_known(store, &name, &about),
                Err(e) => Err(e),
            };
            match given {
                // Of a burst buffer, an object that another node holds: until that node drains it, its folder protects it.
                Err(e) if e.kind() == ErrorKind::NotReady => {}
                Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }
}

/// What one user makes in another's folder stays that one's.
pub fn foreign(e: Error) -> Result<()> {
    if e.kind() == ErrorKind::PermissionDenied { Ok(()) } else { Err(e) }
}

/// Makes the folder that holds containers or logs of one group of numbers. Nobody but its owner lists it: the numbers of
/// containers are known to who may read their stamps.
fn make_group(store: &dyn Store, folder: &str) -> Result<()> {
    store.make_folder(name::folder_of(folder))?;
    match store.make_one_folder(folder, 0o733) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome,
    }
}

/// Makes a folder below a group's; one that is there is no error. `true` where it was made.
pub fn make_in_group(store: &dyn Store, folder: &str, mode: u32) -> Result<bool> {
    for tried in 0.. {
        match store.make_one_folder(folder, mode) {
            Ok(()) => return Ok(true),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
            Err(e) if e.kind() == ErrorKind::NotFound && tried < MOST_TRIES => {
                make_group(store, name::folder_of(folder))?;
            }
            Err(e) => return Err(e),
        }
    }
    unreachable!("a hundred tries at most")
}

/// A container and the stores it lies on.
pub struct Place {
    /// What its stamp says.
    pub stamp: Stamp,
    stores: Arc<Stores>,
    /// Number in the mount of each of the container's stores, or why it has none.
    found: Vec<std::result::Result<usize, String>>,
    /// Somebody wrote.
    written: AtomicBool,
    /// What of it lies behind its stamp.
    pub drawer: Option<Drawer>,
    /// Its last name was gone when its folder was made: nobody else removes that.
    nameless: AtomicBool,
    /// Whether the last look for a name failed.
    unsure: AtomicBool,
}

impl Place {
    pub fn new(opened: Opened, stores: Arc<Stores>) -> Place {
        let Opened { stamp, drawer } = opened;
        let found = stamp.stores.iter().map(|(identity, name)| stores.find(*identity, name)).collect();
        Place {
            stamp,
            stores,
            found,
            written: AtomicBool::new(false),
            drawer,
            nameless: AtomicBool::new(false),
            unsure: AtomicBool::new(false),
        }
    }

    /// Of which only the stamp is known.
    pub fn of_stamp(stamp: Stamp, stores: Arc<Stores>) -> Place {
        Place::new(Opened { stamp, drawer: None }, stores)
    }

    /// Whether the container has a folder: always, but where its objects may lie behind its stamp.
    pub fn has_folder(&self) -> bool {
        self.drawer.as_ref().is_none_or(Drawer::has_home)
    }

    /// Whether the container lost its last name before its folder was made.
    pub fn is_nameless(&self) -> bool {
        if let (Some(drawer), true) = (&self.drawer, self.unsure.load(Ordering::Relaxed)) {
            self.look_for_a_name(drawer);
        }
        self.nameless.load(Ordering::Relaxed)
    }

    /// Names of the container's marks, attributes and snapshots, sorted, as of the last look at what lies behind its stamp; `None` where
    /// some may lie elsewhere.
    pub fn names_inside(&self) -> Option<Vec<String>> {
        let mut names = self.drawer.as_ref()?.all_names()?;
        names.retain(|name| !is_log(name));
        Some(names)
    }

    /// Names of the container's marks, attributes and snapshots, wherever they lie, sorted.
    pub fn list(&self) -> Result<Vec<String>> {
        // What goes from behind the stamp into the folder is there before it is gone here.
        let mut names = match &self.drawer {
            None => return self.first().list(&self.marks()),
            Some(drawer) => {
                drawer.look()?;
                drawer.names()
            }
        };
        names.retain(|name| !is_log(name));
        if self.has_folder() {
            names.extend(self.first().list(&self.marks())?);
            return Ok(BTreeSet::from_iter(names).into_iter().collect());
        }
        Ok(names)
    }

    /// Opens one of them for reading.
    pub fn open(&self, name: &str) -> Result<Box<dyn ReadObject + '_>> {
        if let Some(drawer) = &self.drawer {
            if let Some(bytes) = drawer.get(name) {
                return Ok(Box::new(Inside { drawer, bytes }));
            }
            if !drawer.has_home() {
                return Err(Error::new(ErrorKind::NotFound, "no such object").in_object(name));
            }
        }
        self.first().open_read(&format!("{}/{name}", self.marks()))
    }

    /// All bytes of one of them.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        match self.drawer.as_ref().and_then(|drawer| drawer.get(name)) {
            Some(bytes) => Ok(bytes.to_vec()),
            None if !self.has_folder() => Err(Error::new(ErrorKind::NotFound, "no such object").in_object(name)),
            None => self.first().read_all(&format!("{}/{name}", self.marks())),
        }
    }

    /// Whether one of them is there now.
    pub fn exists(&self, name: &str) -> Result<bool> {
        if let Some(drawer) = &self.drawer {
            drawer.look()?;
            if drawer.get(name).is_some() || !drawer.has_home() {
                return Ok(drawer.get(name).is_some());
            }
        }
        self.first().exists(&format!("{}/{name}", self.marks()))
    }

    /// Whether an object lies behind the stamp.
    pub fn is_inside(&self, name: &str) -> bool {
        self.drawer.as_ref().is_some_and(|drawer| drawer.get(name).is_some())
    }

    /// Removes a mark; `NotFound` where it is not there.
    pub fn remove(&self, name: &str) -> Result<()> {
        if let Some(drawer) = self.drawer.as_ref().filter(|_| self.is_inside(name) || !self.has_folder()) {
            let locked = drawer.lock()?;
            return match self.is_inside(name) {
                true => locked.add(vec![Record::Gone(name.into())]),
                false => Err(Error::new(ErrorKind::NotFound, "no such object").in_object(name)),
            };
        }
        self.first().remove(&format!("{}/{name}", self.marks()))
    }

    /// As [`Place::remove`]; what is not there is no error.
    pub fn remove_if_there(&self, name: &str) -> Result<()> {
        match self.remove(name) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Makes the container's folder where it is not there. Any number of processes may.
    pub fn make_home(&self) -> Result<()> {
        match &self.drawer {
            Some(drawer) if !drawer.has_home() => {
                let locked = drawer.lock()?;
                self.make_home_of(&locked)?;
                locked.close()
            }
            _ => Ok(()),
        }
    }

    /// As [`Place::make_home`], where others are kept out: what guards the folder does not change meanwhile.
    pub fn make_home_of(&self, locked: &Locked<'_>) -> Result<()> {
        let Some(drawer) = self.drawer.as_ref().filter(|drawer| !drawer.has_home()) else { return Ok(()) };
        let (home, folder) = (self.home_store()?, self.folder());
        let guard = self.guard()?.filter(|_| home.capability().modes);
        match guard {
            Some(guard) => {
                if make_in_group(&**home, &folder, guard.folder)? {
                    guard.give(&**home, &folder).or_else(foreign)?;
                }
                match home.make_one_folder(&self.marks(), guard.folder) {
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                    made => made.and_then(|()| guard.give(&**home, &self.marks()).or_else(foreign))?,
                }
            }
            None => home.make_folder(&self.marks())?,
        }
        let mode = guard.map_or(0o666, |guard| guard.object());
        put_whole(&**home, &self.temporary(), &format!("{folder}/stamp"), &self.stamp.encode(), mode)?;
        locked.add_and_keep(vec![Record::Home])?;
        // Who takes the last name looks for the folder afterwards, so that one of us sees the other.
        self.look_for_a_name(drawer);
        Ok(())
    }

    /// Whether the file that got a folder still has a name; a look that fails is repeated by [`Place::is_nameless`].
    fn look_for_a_name(&self, drawer: &Drawer) {
        let links = drawer.attributes().map(|about| about.links);
        self.nameless.store(links.as_ref().is_ok_and(|links| *links == 0), Ordering::Relaxed);
        let is_told = match &links {
            Ok(_) => true,
            // Will not be told later either.
            Err(e) => e.kind() == ErrorKind::Unsupported,
        };
        self.unsure.store(!is_told, Ordering::Relaxed);
    }

    /// What is kept of the file by what lies behind its stamp, or the stamp.
    fn kept_inside(&self, drawer: &Drawer) -> Result<StoredAttributes> {
        let newest = drawer.names().iter().filter_map(|name| attributes::parse(name)).max();
        let newest = newest.and_then(|(version, number)| drawer.get(&attributes::name(version, number)));
        newest.map_or_else(|| Ok(StoredAttributes::of(&self.stamp)), |bytes| StoredAttributes::decode(&bytes))
    }

    /// Makes the container's folder durable: the names in it, and those that lead to it.
    pub fn sync_folder(&self) -> Result<()> {
        let k = self.number_of(self.stamp.home).filter(|_| self.stamp.home != 0).unwrap_or(0);
        self.stores.sync_down_to(k, &self.folder())
    }

    /// As [`Place::sync_folder`], of one of the folders of logs.
    pub fn sync_logs(&self, home: &Home) -> Result<()> {
        self.store(home.store)?;
        self.stores.sync_down_to(self.number_of(home.store).unwrap_or(0), &self.log_folder(home.folder))
    }

    /// Number in the mount of one of the container's stores, where it is there.
    fn number_of(&self, store: u8) -> Option<usize> {
        self.found.get(usize::from(store))?.as_ref().ok().copied()
    }

    /// Notes that marks of sessions were seen.
    pub fn note_written(&self) {
        self.written.store(true, Ordering::Relaxed);
    }

    /// Whether marks of sessions were seen: there are folders of logs.
    pub fn was_written(&self) -> bool {
        self.written.load(Ordering::Relaxed)
    }

    /// The store that holds names.
    pub fn names(&self) -> &Arc<dyn Store> {
        self.stores.first()
    }

    /// The store that holds the container's folder: marks, attributes, snapshots. Where it is not there, which
    /// [`Place::has_home`] tells, the first.
    pub fn first(&self) -> &Arc<dyn Store> {
        match self.stamp.home {
            0 => self.stores.first(),
            home => self.store(home).unwrap_or(self.stores.first()),
        }
    }

    /// Whether the store is there that holds the container's folder, where it has one.
    ///
    /// # Errors
    /// `Io` naming it.
    pub fn has_home(&self) -> Result<()> {
        match self.has_folder() {
            true => self.home_store().map(|_| ()),
            false => Ok(()),
        }
    }

    fn home_store(&self) -> Result<&Arc<dyn Store>> {
        match self.stamp.home {
            0 => Ok(self.stores.first()),
            home => self.store(home),
        }
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

    /// Who may look into it; `None` where its store keeps no modes.
    pub fn guard(&self) -> Result<Option<Guard>> {
        if let Some(drawer) = self.drawer.as_ref().filter(|drawer| !drawer.has_home()) {
            let kept = self.kept_inside(drawer)?;
            return Ok(Some(Guard::of(kept.mode, kept.uid, kept.gid)));
        }
        if !self.first().capability().modes {
            return Ok(None);
        }
        let about = self.first().attributes(&self.folder())?;
        Ok(Some(Guard { folder: about.mode & 0o777, uid: about.uid, gid: about.gid }))
    }

    /// Makes all objects of the container such that only those reach them who may reach the file. Its own folders first.
    ///
    /// - `path`: the file's name.
    pub fn put_guard(&self, guard: Guard, path: &str) -> Result<()> {
        let (first, folder) = (self.first(), self.folder());
        if let Some(drawer) = &self.drawer {
            guard.give_open(drawer)?;
            if !drawer.has_home() {
                return Ok(());
            }
        }
        if !first.capability().modes || self.guard()? == Some(guard) {
            return Ok(());
        }
        guard.give(&**first, &folder)?;
        for k in 0..self.stamp.stores.len() {
            let Ok(store) = self.store(k as u8) else { continue };
            if store.capability().modes && store.exists(&self.logs())? {
                guard.give_all(&**store, &self.logs())?;
            }
        }
        guard.give_all(&**first, &folder)?;
        match self.names().capability().modes && self.drawer.is_none() {
            true => guard.give(&**self.names(), path),
            false => Ok(()),
        }
    }

    /// Puts attributes beside the marks, and takes others away.
    ///
    /// - `number`: version, and what tells it from others of this version.
    /// - `old`: names of those that it replaces.
    /// - `locked`: of a container that has a drawer.
    /// - `most`: bytes behind the stamp, at most.
    pub fn keep(
        &self,
        number: (u64, u64),
        kept: &StoredAttributes,
        old: &[String],
        locked: Option<&Locked<'_>>,
        most: u64,
    ) -> Result<()> {
        let name = attributes::name(number.0, number.1);
        let inside = |name: &&String| self.is_inside(name);
        let gone = |name: &String| Record::Gone(name.clone());
        if let (Some(drawer), Some(locked)) = (&self.drawer, locked) {
            let bytes = kept.encode();
            if drawer.length() + bytes.len() as u64 <= most {
                let first = Record::Put(name, bytes);
                locked.add_and_keep([first].into_iter().chain(old.iter().filter(inside).map(gone)).collect())?;
            } else {
                self.make_home_of(locked)?;
                self.keep_in_folder(&name, kept)?;
                let old: Vec<Record> = old.iter().filter(inside).map(gone).collect();
                if !old.is_empty() {
                    locked.add_and_keep(old)?;
                }
            }
        } else {
            self.keep_in_folder(&name, kept)?;
        }
        let (first, folder) = (self.first(), self.marks());
        let mut outside = old.iter().filter(|name| self.has_folder() && !self.is_inside(name));
        outside.try_for_each(|old| remove_if_there(&**first, &format!("{folder}/{old}")))
    }

    fn keep_in_folder(&self, name: &str, kept: &StoredAttributes) -> Result<()> {
        let name = format!("{}/{name}", self.marks());
        let mode = Guard::of(kept.mode, 0, 0).object();
        put_whole(&**self.first(), &self.temporary(), &name, &kept.encode(), mode)
    }

    /// Makes a folder of logs, guarded as the container's own.
    pub fn make_log_folder(&self, store: &dyn Store, folder: u8, guard: Option<Guard>) -> Result<()> {
        let (logs, inner) = (self.logs(), self.log_folder(folder));
        let Some(guard) = guard.filter(|_| store.capability().modes) else { return store.make_folder(&inner) };
        for folder in [&logs, &inner] {
            if make_in_group(store, folder, guard.folder)? {
                guard.give(store, folder).or_else(foreign)?;
            }
        }
        Ok(())
    }

    /// A name beside the marks for an object that is being made: a sync of their folder makes durable what it becomes.
    pub fn temporary(&self) -> String {
        format!("{}/{TEMPORARY}{:016x}", self.marks(), fresh())
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
        format!("{}/{}", self.log_folder(home.folder), data_name(home, segment))
    }

    /// Opens a data log for reading; `None` where it is nowhere. One that its session took out from behind the stamp is longer
    /// where it was taken to, once it is whole there.
    pub fn open_data(&self, home: &Home, segment: u32) -> Result<Option<Box<dyn ReadObject>>> {
        let inside = self.drawer.as_ref().and_then(|drawer| drawer.get(&data_name(home, segment)));
        if let Some(bytes) = inside.as_ref().filter(|_| !self.has_folder()) {
            return Ok(Some(Box::new(LogInside(bytes.clone()))));
        }
        let outside = match self.store(home.store)?.open_read(&self.data(home, segment)) {
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            object => Some(object?),
        };
        let Some(bytes) = inside else { return Ok(outside) };
        match outside {
            Some(object) if object.length()? >= bytes.len() as u64 => Ok(Some(object)),
            _ => Ok(Some(Box::new(LogInside(bytes)))),
        }
    }

    /// Whether it is the one behind the stamp that [`Place::open_data`] opens.
    pub fn has_inside(&self, home: &Home, segment: u32) -> Result<bool> {
        let Some(bytes) = self.drawer.as_ref().and_then(|drawer| drawer.get(&data_name(home, segment))) else {
            return Ok(false);
        };
        match self.store(home.store)?.stat(&self.data(home, segment)) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(true),
            about => Ok(about?.length < bytes.len() as u64),
        }
    }

    /// The index log beside it.
    pub fn index(&self, home: &Home, segment: u32) -> String {
        format!("{}/{:016x}-{segment}.index", self.log_folder(home.folder), home.session)
    }

    /// Where a writer's logs go.
    ///
    /// - `before`: how many sessions this process began before in this container.
    pub fn home(&self, host: &str, writer: u32, before: u64) -> Home {
        let hash = spread(host, writer).wrapping_add(self.stamp.container as u64 >> 32).wrapping_add(before);
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

/// Whether a name behind a stamp is that of a log.
fn is_log(name: &str) -> bool {
    name.ends_with(".data")
}

/// The name of a data log, in its folder or behind the stamp.
pub fn data_name(home: &Home, segment: u32) -> String {
    format!("{:016x}-{segment}.data", home.session)
}

/// An object that lies behind a stamp.
struct Inside<'a> {
    drawer: &'a Drawer,
    bytes: Arc<Vec<u8>>,
}

impl ReadObject for Inside<'_> {
    fn length(&self) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        read_from(&self.bytes, offset, out)
    }

    /// That of the session which has not closed: there is one at most.
    fn life(&self) -> Result<Life> {
        self.drawer.life()
    }
}

/// A data log that lies behind a stamp, as of the last look.
struct LogInside(Arc<Vec<u8>>);

impl ReadObject for LogInside {
    fn length(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        read_from(&self.0, offset, out)
    }
}

fn read_from(bytes: &[u8], offset: u64, out: &mut [u8]) -> Result<usize> {
    let rest = usize::try_from(offset).ok().and_then(|from| bytes.get(from..)).unwrap_or_default();
    let got = rest.len().min(out.len());
    out[..got].copy_from_slice(&rest[..got]);
    Ok(got)
}

/// The folder of a container.
pub fn folder(container: u128) -> String {
    let number = format!("{container:032x}");
    format!("{HIDDEN}/c/{}/{number}", &number[..2])
}

/// Spreads hosts by hash and the writers of a host evenly.
fn spread(host: &str, writer: u32) -> u64 {
    u64::from(crc32c(host.as_bytes())).wrapping_add(u64::from(writer))
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
