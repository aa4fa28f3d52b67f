//! Locations of the parts of a container on the stores of a mount.
//!
//! | what | store | name |
//! |------|-------|------|
//! | stamp of a file | first | the logical file's name |
//! | identity | every | `.thalweg/store` |
//! | synopsis, far away | first | `.thalweg/e/XX/HALF`, HALF the upper half of the container's number, which follows from the file's name ([`synopsis`](super::synopsis)) |
//! | container | its home, as its stamp says | `.thalweg/c/XX/NUMBER/`, XX the first two figures of its number |
//! | stamp, again | home | `.../stamp` |
//! | marks, attributes, snapshots | home | `.../m/` |
//! | stamp of version 3 | first | the logical file's name; marks, attributes and logs may be stored behind it ([`inline_object`](super::inline_object)), and the container's folder may be missing |
//! | logs | picked by host, writer, container and session | `.thalweg/d/XX/NUMBER/FF/SESSION-SEGMENT.data` and `.index`, FF a folder that is picked the same way |
//! | leases | home | `.../held` for handles that lease the file, `.../unlinked` for processes that have the unlinked file open, `.../upkeep` of maintenance |

use super::attributes::{self, StoredAttributes};
use super::guard::{Guard, foreign, make_in_group};
use super::index::Source;
use super::inline_object::{InlineObject, Locked, Opened};
use super::marks::Home;
use super::objects::{TEMPORARY, put_whole, remove_if_there};
use super::packed::Packs;
use super::stamp::Stamp;
use super::stores::Stores;
use super::tail::Record;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
pub use thalweg_store::fresh;
use thalweg_store::{Lease, Life, OpenWrite, ReadObject, Store, StoreExt};
use thalweg_types::checksum::crc32c;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Last part of the name of the stamp's copy.
pub(super) const STAMP: &str = "stamp";

/// The folder that the layout hides from users.
pub const HIDDEN: &str = ".thalweg";

/// Nanoseconds since 1970.
pub fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A container and its stores.
pub struct Place {
    /// Its stamp.
    pub stamp: Stamp,
    pub(super) stores: Arc<Stores>,
    /// Number in the mount of each of the container's stores, or why it has none.
    found: Vec<std::result::Result<usize, String>>,
    /// Marks of sessions were seen.
    written: AtomicBool,
    /// The inline object, if the stamp's version allows one.
    pub inline: Option<InlineObject>,
    /// The last name was gone when the folder was made: this process removes the folder.
    nameless: AtomicBool,
    /// The last check for a name failed.
    unsure: AtomicBool,
    /// Closed sessions that are stored in their marks and in bundles, as far as they were listed.
    pub(super) packs: Mutex<Packs>,
    /// The lease while this process has the unlinked file open, so that other processes do not remove the container.
    unlinked_lease: Mutex<Option<Lease>>,
}

impl Place {
    pub fn new(opened: Opened, stores: Arc<Stores>) -> Place {
        let Opened { stamp, inline } = opened;
        let found = stamp.stores.iter().map(|(identity, name)| stores.find(*identity, name)).collect();
        Place {
            stamp,
            stores,
            found,
            written: AtomicBool::new(false),
            inline,
            nameless: AtomicBool::new(false),
            unsure: AtomicBool::new(false),
            packs: Mutex::default(),
            unlinked_lease: Mutex::default(),
        }
    }

    /// A container of which only the stamp is known.
    pub fn of_stamp(stamp: Stamp, stores: Arc<Stores>) -> Place {
        Place::new(Opened { stamp, inline: None }, stores)
    }

    /// Whether the container has a folder; `false` only for containers whose objects are all in the inline object.
    pub fn has_folder(&self) -> bool {
        self.inline.as_ref().is_none_or(InlineObject::has_home)
    }

    /// Whether the container lost its last name before its folder was made.
    pub fn is_nameless(&self) -> bool {
        if let (Some(inline), true) = (&self.inline, self.unsure.load(Ordering::Relaxed)) {
            self.look_for_a_name(inline);
        }
        self.nameless.load(Ordering::Relaxed)
    }

    /// Leases the object `unlinked` until the place is dropped: shows others that this process has the file open although
    /// its last name is being or was removed. Does nothing if the store has no leases or no space for the object, or
    /// if this user may not change the container.
    ///
    /// # Errors
    /// Errors of the store: without the lease a repair could remove the container.
    pub fn lease_unlinked(&self) -> Result<()> {
        if !self.has_folder() || !self.first().has_leases() {
            return Ok(());
        }
        let mut lease = self.unlinked_lease.lock();
        if lease.is_none() {
            match self.first().open_write(&self.unlinked(), OpenWrite::Any) {
                Ok(object) => *lease = object.lease()?,
                // A file must be removable from a full store, and by a user who may change its folder but not the container.
                Err(e) if matches!(e.kind(), ErrorKind::NoSpace | ErrorKind::PermissionDenied) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Whether the container is leased: by a handle that leases the file
    /// ([`WriteObject::lease`](thalweg_store::WriteObject::lease)), or by a process that has the unlinked file open.
    ///
    /// # Errors
    /// Errors of the store, except `NotFound`.
    pub fn is_leased(&self) -> Result<bool> {
        for name in [self.lease_object(), self.unlinked()] {
            match self.first().open_read(&name) {
                Ok(object) if object.life()?.leased == Some(true) => return Ok(true),
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(false)
    }

    /// The object that handles lease for [`WriteObject::lease`](thalweg_store::WriteObject::lease).
    pub fn lease_object(&self) -> String {
        format!("{}/held", self.folder())
    }

    /// The object that processes lease while they have the unlinked file open.
    pub fn unlinked(&self) -> String {
        format!("{}/unlinked", self.folder())
    }

    /// Names of the container's marks, attributes and snapshots, sorted, as of the last refresh of the inline object;
    /// `None` if some may be stored elsewhere.
    pub fn names_inside(&self) -> Option<Vec<String>> {
        let mut names = self.inline.as_ref()?.all_names()?;
        names.retain(|name| !is_log(name));
        Some(names)
    }

    /// Names of the container's marks, attributes and snapshots, from the inline object and the folder, sorted.
    pub fn list(&self) -> Result<Vec<String>> {
        // Objects that move from the inline object to the folder are created there before they are removed here.
        let mut names = match &self.inline {
            None if self.stamp.packed => return self.list_packed(),
            None => return self.first().list(&self.marks()),
            Some(inline) => {
                inline.look()?;
                inline.names()
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
        if let Some(inline) = &self.inline {
            if let Some(bytes) = inline.get(name) {
                return Ok(Box::new(Inside { inline, bytes }));
            }
            if !inline.has_home() {
                return Err(Error::new(ErrorKind::NotFound, "no such object").in_object(name));
            }
        }
        self.first().open_read(&format!("{}/{name}", self.marks()))
    }

    /// All bytes of one of them.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        match self.inline.as_ref().and_then(|inline| inline.get(name)) {
            Some(bytes) => Ok(bytes.to_vec()),
            None if !self.has_folder() => Err(Error::new(ErrorKind::NotFound, "no such object").in_object(name)),
            None => self.first().read_all(&format!("{}/{name}", self.marks())),
        }
    }

    /// Whether one of them is there now.
    pub fn exists(&self, name: &str) -> Result<bool> {
        if let Some(inline) = &self.inline {
            inline.look()?;
            if inline.get(name).is_some() || !inline.has_home() {
                return Ok(inline.get(name).is_some());
            }
        }
        self.first().exists(&format!("{}/{name}", self.marks()))
    }

    /// Whether an object is in the inline object.
    pub fn is_inside(&self, name: &str) -> bool {
        self.inline.as_ref().is_some_and(|inline| inline.get(name).is_some())
    }

    /// Removes a mark; `NotFound` if it does not exist.
    pub fn remove(&self, name: &str) -> Result<()> {
        if let Some(inline) = self.inline.as_ref().filter(|_| self.is_inside(name) || !self.has_folder()) {
            let locked = inline.lock()?;
            return match self.is_inside(name) {
                true => locked.add(vec![Record::Gone(name.into())]),
                false => Err(Error::new(ErrorKind::NotFound, "no such object").in_object(name)),
            };
        }
        self.first().remove(&format!("{}/{name}", self.marks()))
    }

    /// As [`Place::remove`]; `NotFound` is no error.
    pub fn remove_if_there(&self, name: &str) -> Result<()> {
        match self.remove(name) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Makes the container's folder if it is missing. Safe to call from several processes at once.
    pub fn make_home(&self) -> Result<()> {
        match &self.inline {
            Some(inline) if !inline.has_home() => {
                let locked = inline.lock()?;
                self.make_home_of(&locked)?;
                locked.close()
            }
            _ => Ok(()),
        }
    }

    /// As [`Place::make_home`], with the inline object locked: the file's access rights do not change meanwhile.
    pub fn make_home_of(&self, locked: &Locked<'_>) -> Result<()> {
        let Some(inline) = self.inline.as_ref().filter(|inline| !inline.has_home()) else { return Ok(()) };
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
        put_whole(&**home, &self.temporary(), &self.stamp_copy(), &self.stamp.encode(), mode)?;
        locked.add_and_keep(vec![Record::Home])?;
        // A process that removes the last name checks for the folder afterwards: one of the two notices the other.
        self.look_for_a_name(inline);
        Ok(())
    }

    /// Checks whether the file still has a name after it got a folder; [`Place::is_nameless`] repeats a failed check.
    fn look_for_a_name(&self, inline: &InlineObject) {
        let links = inline.attributes().map(|about| about.links);
        self.nameless.store(links.as_ref().is_ok_and(|links| *links == 0), Ordering::Relaxed);
        let is_told = match &links {
            Ok(_) => true,
            // Will not be told later either.
            Err(e) => e.kind() == ErrorKind::Unsupported,
        };
        self.unsure.store(!is_told, Ordering::Relaxed);
        if self.nameless.load(Ordering::Relaxed) && self.lease_unlinked().is_err() {
            // The next check tries again.
            self.unsure.store(true, Ordering::Relaxed);
        }
    }

    /// The file's attributes, from the records of the inline object or from the stamp itself.
    fn inline_attributes(&self, inline: &InlineObject) -> Result<StoredAttributes> {
        let newest = inline.names().iter().filter_map(|name| attributes::parse(name)).max();
        let newest = newest.and_then(|(version, number)| inline.get(&attributes::name(version, number)));
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

    /// Number in the mount of one of the container's stores, if the mount has that store.
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

    /// The store of the files' names.
    pub fn names(&self) -> &Arc<dyn Store> {
        self.stores.first()
    }

    /// The store of the container's folder: marks, attributes, snapshots. The first store if the mount does not have that
    /// store, see [`Place::has_home`].
    pub fn first(&self) -> &Arc<dyn Store> {
        match self.stamp.home {
            0 => self.stores.first(),
            home => self.store(home).unwrap_or(self.stores.first()),
        }
    }

    /// Whether the mount has the store of the container's folder, if the container has a folder.
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
            Some(Ok(k)) => Ok(self.stores.nth(*k)),
            Some(Err(why)) => Err(self.lost(why.clone())),
            None => Err(self.lost(format!("a log refers to store {number} of {}", self.found.len()))),
        }
    }

    fn lost(&self, what: String) -> Error {
        Error::new(ErrorKind::Io, what).in_object(format!("container {:032x}", self.stamp.container))
    }

    /// The container's folder on the first store.
    pub fn folder(&self) -> String {
        folder(self.stamp.container)
    }

    /// The copy of the stamp. With packed sessions it is beside the marks: one list shows both.
    pub fn stamp_copy(&self) -> String {
        Place::stamp_of(&self.stamp)
    }

    /// As [`Place::stamp_copy`], of a container of this stamp.
    pub fn stamp_of(stamp: &Stamp) -> String {
        let [beside, above] = Place::names_of_stamp(stamp.container);
        if stamp.packed { beside } else { above }
    }

    /// The names that the copy of a container's stamp may have.
    pub fn names_of_stamp(container: u128) -> [String; 2] {
        let folder = folder(container);
        [format!("{folder}/m/{STAMP}"), format!("{folder}/{STAMP}")]
    }

    /// The folder of marks.
    pub fn marks(&self) -> String {
        format!("{}/m", self.folder())
    }

    /// Permission bits and owner of the container's folder; `None` if its store has no modes.
    pub fn guard(&self) -> Result<Option<Guard>> {
        if let Some(inline) = self.inline.as_ref().filter(|inline| !inline.has_home()) {
            let stored = self.inline_attributes(inline)?;
            return Ok(Some(Guard::of(stored.mode, stored.uid, stored.gid)));
        }
        if !self.first().capability().modes {
            return Ok(None);
        }
        let about = self.first().attributes(&self.folder())?;
        Ok(Some(Guard { folder: about.mode & 0o777, uid: about.uid, gid: about.gid }))
    }

    /// Applies the file's access rights to all objects of the container, first to its folders.
    ///
    /// - `path`: the file's name.
    pub fn put_guard(&self, guard: Guard, path: &str) -> Result<()> {
        let (first, folder) = (self.first(), self.folder());
        if let Some(inline) = &self.inline {
            guard.give_open(inline)?;
            if !inline.has_home() {
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
        match self.names().capability().modes && self.inline.is_none() {
            true => guard.give(&**self.names(), path),
            false => Ok(()),
        }
    }

    /// Stores attributes in the folder of marks, and removes others.
    ///
    /// - `number`: version, and a number that distinguishes attributes of the same version.
    /// - `old`: names of those that it replaces.
    /// - `locked`: of a container with an inline object.
    /// - `most`: largest number of bytes after the stamp.
    pub fn put_attributes(
        &self,
        number: (u64, u64),
        stored: &StoredAttributes,
        old: &[String],
        locked: Option<&Locked<'_>>,
        most: u64,
    ) -> Result<()> {
        let name = attributes::name(number.0, number.1);
        let inside = |name: &&String| self.is_inside(name);
        let gone = |name: &String| Record::Gone(name.clone());
        if let (Some(inline), Some(locked)) = (&self.inline, locked) {
            let bytes = stored.encode();
            if inline.length() + bytes.len() as u64 <= most {
                let first = Record::Put(name, bytes);
                locked.add_and_keep([first].into_iter().chain(old.iter().filter(inside).map(gone)).collect())?;
            } else {
                self.make_home_of(locked)?;
                self.put_in_folder(&name, stored)?;
                let old: Vec<Record> = old.iter().filter(inside).map(gone).collect();
                if !old.is_empty() {
                    locked.add_and_keep(old)?;
                }
            }
        } else {
            self.put_in_folder(&name, stored)?;
        }
        let (first, folder) = (self.first(), self.marks());
        let mut outside = old.iter().filter(|name| self.has_folder() && !self.is_inside(name));
        outside.try_for_each(|old| remove_if_there(&**first, &format!("{folder}/{old}")))
    }

    fn put_in_folder(&self, name: &str, stored: &StoredAttributes) -> Result<()> {
        let name = format!("{}/{name}", self.marks());
        let mode = Guard::of(stored.mode, 0, 0).object();
        put_whole(&**self.first(), &self.temporary(), &name, &stored.encode(), mode)
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

    /// Opens a data log for reading; `None` if it does not exist. A log that its session moved out of the inline object is
    /// longer at its new location once the move is complete.
    pub fn open_data(&self, home: &Home, segment: u32) -> Result<Option<Box<dyn ReadObject>>> {
        self.open_data_by(home, segment, |store, name| store.open_read(name))
    }

    /// As [`Place::open_data`], of a log of which the index names bytes: a store far away is not asked before the first read, which fails
    /// with `NotFound` if the log is missing.
    pub fn open_known_data(&self, home: &Home, segment: u32) -> Result<Option<Box<dyn ReadObject>>> {
        self.open_data_by(home, segment, |store, name| store.open_known_to_exist(name))
    }

    fn open_data_by(
        &self,
        home: &Home,
        segment: u32,
        open: impl FnOnce(&dyn Store, &str) -> Result<Box<dyn ReadObject>>,
    ) -> Result<Option<Box<dyn ReadObject>>> {
        if let Some(log) = self.open_packed(home)? {
            return Ok((segment == 0).then(|| -> Box<dyn ReadObject> { Box::new(log) }));
        }
        let inside = self.inline.as_ref().and_then(|inline| inline.get(&data_name(home, segment)));
        if let Some(bytes) = inside.as_ref().filter(|_| !self.has_folder()) {
            return Ok(Some(Box::new(LogInside(bytes.clone()))));
        }
        let outside = match open(&**self.store(home.store)?, &self.data(home, segment)) {
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            object => Some(object?),
        };
        let Some(bytes) = inside else { return Ok(outside) };
        match outside {
            Some(object) if object.length()? >= bytes.len() as u64 => Ok(Some(object)),
            _ => Ok(Some(Box::new(LogInside(bytes)))),
        }
    }

    /// Whether [`Place::open_data`] opens the log in the inline object.
    pub fn has_inside(&self, home: &Home, segment: u32) -> Result<bool> {
        let Some(bytes) = self.inline.as_ref().and_then(|inline| inline.get(&data_name(home, segment))) else {
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

    /// The location of a writer's logs.
    ///
    /// - `before`: how many sessions this process began before in this container.
    pub fn home(&self, host: &str, writer: u32, before: u64) -> Home {
        let hash = spread(host, writer).wrapping_add(self.stamp.container as u64 >> 32).wrapping_add(before);
        let stores = self.found.len().max(1) as u64;
        let store = (hash % stores) as u8;
        let folder = (hash / stores % u64::from(self.stamp.folders)) as u8;
        Home { session: fresh(), writer, store, folder }
    }

    /// A data log's name in messages.
    pub fn shown(&self, source: &Source) -> String {
        let store = self.stamp.stores.get(usize::from(source.store)).map_or("?", |(_, name)| name);
        format!("{store}/{}", self.data(&source.home(), source.segment))
    }
}

impl Source {
    /// Its location.
    pub fn home(&self) -> Home {
        Home { session: self.session, writer: self.writer, store: self.store, folder: self.folder }
    }

    /// A segment of a session.
    pub fn of(home: &Home, segment: u32) -> Source {
        Source { writer: home.writer, session: home.session, segment, store: home.store, folder: home.folder }
    }
}

/// Whether a name in the inline object is that of a log.
fn is_log(name: &str) -> bool {
    name.ends_with(".data")
}

/// The name of a data log, in its folder or in the inline object.
pub fn data_name(home: &Home, segment: u32) -> String {
    format!("{:016x}-{segment}.data", home.session)
}

/// An object in the inline object.
struct Inside<'a> {
    inline: &'a InlineObject,
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
        self.inline.life()
    }
}

/// A data log in memory: that of the inline object, as of the last refresh, or one that is being packed.
pub(super) struct LogInside(pub Arc<Vec<u8>>);

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
