//! The flat layout: whole files, spread over several stores by a hash of their name.
//!
//! | question | answer |
//! |----------|--------|
//! | needs    | of each store: `write_at`, and renames that replace at once |
//! | where    | a file is one object, of the same name, on the store that the last part of its name picks; folders are on all stores |
//! | cost     | of a file: the store's own; a folder is made, listed, renamed and removed once per store |
//! | writers  | not distinguished, as on `direct` |
//! | a call that fails | if a folder cannot be created or renamed on every store, the change is rolled back; if the rollback fails, the next call completes it. The store that a folder's name hashes to decides whether the folder exists; a store that lacks it gets it when a name in it is created |
//! | rename of a folder | one rename per store; no file moves, because the last parts of names inside stay. The rename is first recorded in a journal entry on the first store; after a crash, the next process that opens the mount completes it |
//! | rename of a file | within one store: the store's rename. To another store: the bytes are copied to a temporary name, made durable, renamed into place atomically, then the old name is removed; a crash leaves the old name or both. Handles that are open stay on the old bytes |
//! | symbolic links | a link is stored on the store its own name hashes to; links to a file on another store are resolved by this layout ([`links`]), at one lookup per part of a name that is not found, or that an open may create |
//! | hard links | within one store, else `EXDEV` |
//! | a lost store | each store holds a stamp with its position, the number of stores and the mount's id: a store that is exchanged, missing or empty is an error that names it, not a missing file |
//!
//! `docs/format/flat.md` describes the stamp and the journal entry (the note).

mod moving;
mod records;
mod stamps;

pub use records::{Note, Stamp};

use crate::wire::{self, Cursor};
use crate::{
    Attributes, Change, Kind, Layout, Lease, OpenWrite, ReadObject, SetXattr, Space, Stat, WriteObject, WriterId,
    errno, links,
};
use moving::{AHEAD, Copied};
use rustix::io::Errno;
use stamps::stamp_of;
use std::collections::{BTreeSet, HashMap};
use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use thalweg_store::{Rename, Store, StoreExt, fresh, name};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Folder of each store for the layout's own objects.
pub const FOLDER: &str = ".thalweg-flat";
const STAMP: &str = ".thalweg-flat/stamp";
const NOTE: &str = ".thalweg-flat/rename";
/// Longest valid note.
const LONGEST_NOTE: u64 = 64 << 10;
/// Longer than the clock tick of filesystems: a file that changed earlier gets new times at its next change.
const TICK: Duration = Duration::from_millis(50);

/// Which of `stores` stores keeps a file: FNV-1a of the last part of its name.
pub fn pick(path: &str, stores: usize) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in name::last_part(path).bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    (hash % stores.max(1) as u64) as usize
}

/// Files spread over stores. See the module's page.
pub struct Flat {
    stores: Vec<Arc<dyn Store>>,
    /// A rename of a folder failed on one of the stores and its rollback failed: the next call completes it first.
    unfinished: AtomicBool,
    /// Copies that [`Layout::prepare_rename`] made, by old and new name.
    copies: Mutex<HashMap<(String, String), Copied>>,
}

impl Flat {
    /// A mount over these stores, in this order. Unused stores are stamped; a rename that a crash interrupted is completed.
    ///
    /// # Errors
    /// `Config` names a store that lacks a capability, or does not belong at its position; errors of the stores.
    pub fn new(stores: Vec<Arc<dyn Store>>) -> Result<Flat> {
        if stores.is_empty() {
            return Err(Error::new(ErrorKind::Config, "layout \"flat\" needs a store"));
        }
        for store in &stores {
            let can = store.capability();
            let lacks = match () {
                () if !can.write_at => "write_at (writes at any offset)",
                () if can.rename != Rename::Atomic => "renames that replace at once",
                () if stores.len() > 1 && !can.rename_folder => "renames of folders",
                () => continue,
            };
            let what = format!(
                "layout \"flat\" cannot lie on store {}: it needs {lacks}, which the store lacks",
                store.describe()
            );
            return Err(Error::new(ErrorKind::Config, what));
        }
        let flat = Flat { stores, unfinished: AtomicBool::new(false), copies: Mutex::default() };
        flat.check_stamps()?;
        flat.finish_rename()?;
        Ok(flat)
    }

    fn at(&self, path: &str) -> &dyn Store {
        &*self.stores[pick(path, self.stores.len())]
    }

    /// Turns `NotFound` into `Io` if the store itself is missing.
    fn found<T>(&self, store: &dyn Store, result: Result<T>) -> Result<T> {
        let Err(error) = result else { return result };
        if error.kind() == ErrorKind::NotFound && stamp_of(store).ok().flatten().is_none() {
            let what = format!("store {} of the mount was removed or replaced", store.describe());
            return Err(Error::new(ErrorKind::Io, what).in_object(error.place().object.clone().unwrap_or_default()));
        }
        Err(error)
    }

    /// Completes a rename that this process could neither complete nor roll back.
    fn settle(&self) -> Result<()> {
        if self.unfinished.load(Ordering::Acquire) {
            self.finish_rename()?;
            self.unfinished.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Creates on a store the folders above a name that exist on the stores which their names hash to: left by a `mkdir` that failed
    /// or whose process died. Returns whether one was missing.
    fn complete(&self, folder: &str, store: &dyn Store) -> Result<bool> {
        let mut any = false;
        for (end, _) in folder.match_indices('/').chain([(folder.len(), "")]).filter(|(end, _)| *end > 0) {
            let part = &folder[..end];
            let keeper = self.at(part);
            if store.exists(part)? || !keeper.stat(part).is_ok_and(|about| about.is_folder) {
                continue;
            }
            let stored = if keeper.capability().attributes { Some(keeper.attributes(part)?) } else { None };
            match store.make_one_folder(part, stored.as_ref().map_or(0o777, |stored| stored.mode)) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
                _ => any = true,
            }
            if let Some(stored) = stored {
                let own = store.attributes(part)?;
                let changed = |old: u32, new: u32| (old != new).then_some(old);
                let (uid, gid) = (changed(stored.uid, own.uid), changed(stored.gid, own.gid));
                store.set_attributes(part, &Change { mode: Some(stored.mode), uid, gid, ..Change::default() })?;
            }
        }
        Ok(any)
    }

    /// Like [`Flat::on`], for a name that is created: tries again if its store lacked a folder above the name.
    fn on_new<T>(&self, path: &str, call: impl Fn(&dyn Store) -> Result<T>) -> Result<T> {
        match self.on(path, &call) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                match self.complete(name::folder_of(&name::relative(path)?), self.at(path))? {
                    true => self.on(path, call),
                    false => Err(e),
                }
            }
            outcome => outcome,
        }
    }

    /// Result of one store's call for a folder; `None` if only other stores have the folder.
    fn part<T>(&self, store: &dyn Store, folder: &str, told: Result<T>) -> Result<Option<T>> {
        match self.found(store, told) {
            Err(e) if e.kind() == ErrorKind::NotFound && !std::ptr::addr_eq(store, self.at(folder)) => Ok(None),
            other => other.map(Some),
        }
    }

    fn on<T>(&self, path: &str, call: impl FnOnce(&dyn Store) -> Result<T>) -> Result<T> {
        reserved(path)?;
        let store = self.at(path);
        self.found(store, call(store))
    }

    /// Whether a name is a folder, links followed.
    fn is_folder(&self, path: &str) -> Result<bool> {
        Ok(self.on(path, |s| s.stat(path))?.is_folder)
    }

    /// Applies a change of a folder to the other stores: after a rename the folder's name may hash to another of them.
    fn on_others_of_folder(&self, path: &str, call: impl Fn(&dyn Store) -> Result<()>) -> Result<()> {
        if self.stores.len() == 1 || self.kind(path)? != Kind::Folder {
            return Ok(());
        }
        let first = pick(path, self.stores.len());
        let mut others = self.stores.iter().enumerate().filter(|(n, _)| *n != first);
        others.try_for_each(|(_, store)| self.part(&**store, path, call(&**store)).map(drop))
    }

    /// Kind of a name itself.
    fn kind(&self, path: &str) -> Result<Kind> {
        match self.at(path).capability().attributes {
            true => Ok(self.on(path, |s| s.attributes(path))?.kind),
            false => Ok(if self.is_folder(path)? { Kind::Folder } else { Kind::File }),
        }
    }

    /// The name without links, each looked up on the store that its own name picks; with `last`, the last part is followed too.
    /// `None` if there is no link, or one that leads out of the mount.
    fn led(&self, path: &str, last: bool) -> Result<Option<String>> {
        if self.stores.len() == 1 || !self.stores[0].capability().attributes {
            return Ok(None);
        }
        let walked = links::walk(&name::relative(path)?, last, |name| {
            let store = self.at(name);
            links::target_of(store.attributes(name), || store.read_link(name))
        })?;
        Ok(walked.filter(|walked| walked.links > 0).map(|walked| walked.name))
    }

    /// Calls with a name; on `NotFound` once more with the name that links to other stores lead to.
    fn through_links<T>(&self, path: &str, last: bool, call: impl Fn(&str) -> Result<T>) -> Result<T> {
        self.settle()?;
        match call(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => match self.led(path, last)? {
                Some(end) => call(&end),
                None => Err(e),
            },
            outcome => outcome,
        }
    }

    fn remove_plainly(&self, path: &str) -> Result<()> {
        if self.kind(path)? != Kind::Folder {
            return self.on(path, |s| s.remove(path));
        }
        if !self.list(path)?.is_empty() {
            return Err(errno::failure(Errno::NOTEMPTY, "remove a folder that is not empty", path));
        }
        // The store that the folder's name hashes to is last: it decides whether the name is taken.
        let last = pick(path, self.stores.len());
        let order = (0..self.stores.len()).filter(|n| *n != last).chain([last]);
        let mut gone = Vec::new();
        for number in order {
            let store = &*self.stores[number];
            let removed = match store.remove(path) {
                Err(e) if e.kind() == ErrorKind::InvalidArgument && sweep(store, path)? => store.remove(path),
                other => other,
            };
            match removed {
                Ok(()) => gone.push(number),
                Err(e) if e.kind() == ErrorKind::NotFound && number != last => {}
                Err(e) => {
                    // Another process created a file in it meanwhile: the folder is restored.
                    for number in gone {
                        let _ = self.stores[number].make_folder(path);
                    }
                    return Err(e);
                }
            }
        }
        Ok(())
    }
}

/// Removes the temporary copies that interrupted renames left in a folder; returns whether there were any.
fn sweep(store: &dyn Store, folder: &str) -> Result<bool> {
    let mut any = false;
    for name in store.list(folder)?.into_iter().filter(|name| hidden(name)) {
        let path = format!("{folder}/{name}");
        if store.open_read(&path)?.life()?.leased != Some(true) {
            store.remove(&path)?;
            any = true;
        }
    }
    Ok(any)
}

/// The layout's own names appear absent and cannot be created.
fn reserved(path: &str) -> Result<()> {
    match path.split('/').find(|part| !part.is_empty() && *part != ".").is_some_and(|first| first == FOLDER) {
        true => Err(errno::failure(Errno::NOENT, "use a name reserved for the layout", path)),
        false => Ok(()),
    }
}

fn hidden(name: &str) -> bool {
    name.starts_with(FOLDER)
}

impl Layout for Flat {
    fn describe(&self) -> String {
        let stores: Vec<String> = self.stores.iter().map(|s| s.describe()).collect();
        format!("flat over {}", stores.join(", "))
    }

    fn request_cost(&self, _path: &str) -> u64 {
        self.stores.iter().map(|store| store.request_cost()).max().unwrap_or(0)
    }

    fn open_write(&self, path: &str, how: OpenWrite, _writer: WriterId) -> Result<Box<dyn WriteObject>> {
        self.settle()?;
        let open = |path: &str| match how {
            OpenWrite::Existing => self.on(path, |s| s.open_write(path, how)),
            _ => self.on_new(path, |s| s.open_write(path, how)),
        };
        match how {
            // The system would create the target of a link on the link's own store.
            OpenWrite::Any | OpenWrite::Replace => match self.led(path, true)? {
                Some(end) => open(&end),
                None => open(path),
            },
            OpenWrite::Existing => self.through_links(path, true, open),
            OpenWrite::New => self.through_links(path, false, open),
        }
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        self.through_links(path, true, |path| self.on(path, |s| s.open_read(path)))
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        self.through_links(path, true, |path| self.on(path, |s| s.stat(path)))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        reserved(folder)?;
        self.through_links(folder, true, |folder| {
            let mut all = BTreeSet::new();
            for store in &self.stores {
                let names = self.part(&**store, folder, store.list(folder))?;
                all.extend(names.into_iter().flatten().filter(|name| !hidden(name)));
            }
            Ok(all.into_iter().collect())
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        reserved(from)?;
        reserved(to)?;
        self.settle()?;
        let (from, to) = (&*name::relative(from)?, &*name::relative(to)?);
        match self.rename_plainly(from, to) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let (old, new) = (self.led(from, false)?, self.led(to, false)?);
                match old.is_some() || new.is_some() {
                    true => self.rename_plainly(old.as_deref().unwrap_or(from), new.as_deref().unwrap_or(to)),
                    false => Err(e),
                }
            }
            outcome => outcome,
        }
    }

    fn prepare_rename(&self, from: &str, to: &str) -> Result<()> {
        reserved(from)?;
        reserved(to)?;
        let (from, to) = (&*name::relative(from)?, &*name::relative(to)?);
        let (old, new) = (self.at(from), self.at(to));
        if std::ptr::addr_eq(old, new) || !old.capability().attributes || !new.capability().attributes {
            return Ok(());
        }
        let of = old.attributes(from)?;
        if of.kind != Kind::File
            || of.length < AHEAD
            || of.links > 1
            || self.kind(to).is_ok_and(|kind| kind == Kind::Folder)
        {
            return Ok(());
        }
        if SystemTime::now().duration_since(of.ctime).is_ok_and(|age| age < TICK) {
            std::thread::sleep(TICK);
        }
        let of = old.attributes(from)?;
        let folder = name::folder_of(to);
        self.complete(folder, new)?;
        let between = Self::between(folder);
        match self.copy(old, from, new, &between) {
            Ok(_lease) => {
                let mut copies = self.copies.lock();
                let before = copies.insert((from.to_string(), to.to_string()), Copied { between, of, _lease });
                drop(copies);
                // The copy of another thread that renames the same file.
                before.map_or(Ok(()), |before| new.remove(&before.between))
            }
            Err(e) => {
                let _ = new.remove(&between);
                Err(e)
            }
        }
    }

    fn remove(&self, path: &str) -> Result<()> {
        reserved(path)?;
        self.through_links(path, false, |path| self.remove_plainly(path))
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        reserved(path)?;
        self.settle()?;
        // For each part of the path, a file of that name would be on the store that the name hashes to.
        let plain = name::relative(path)?;
        for (end, _) in plain.match_indices('/').chain([(plain.len(), "")]) {
            let part = &plain[..end];
            if !part.is_empty() {
                let store = self.at(part);
                self.found(store, store.make_folder(part)).map_err(|e| match e.kind() {
                    ErrorKind::AlreadyExists if end < plain.len() => {
                        errno::failure(Errno::NOTDIR, "make folder: a file is above it", path)
                    }
                    _ => e,
                })?;
                for other in &self.stores {
                    self.found(&**other, other.make_folder(part))?;
                }
            }
        }
        Ok(())
    }

    fn make_one_folder(&self, path: &str, mode: u32) -> Result<()> {
        self.through_links(path, false, |path| {
            self.on_new(path, |s| s.make_one_folder(path, mode))?;
            let first = pick(path, self.stores.len());
            let mut made = vec![first];
            for (number, store) in self.stores.iter().enumerate().filter(|(n, _)| *n != first) {
                let above = name::folder_of(path);
                let one = match self.found(&**store, store.make_one_folder(path, mode)) {
                    Err(e) if e.kind() == ErrorKind::NotFound && self.complete(above, &**store)? => {
                        store.make_one_folder(path, mode)
                    }
                    other => other,
                };
                match one {
                    Ok(()) => made.push(number),
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                    Err(e) => {
                        // Rolled back as far as possible; the store that decides whether the name is taken is last.
                        made.iter().rev().for_each(|number| drop(self.stores[*number].remove(path)));
                        return Err(e);
                    }
                }
            }
            Ok(())
        })
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        reserved(folder)?;
        self.stores.iter().try_for_each(|s| self.found(&**s, s.sync_folder(folder)))
    }

    /// Of a folder: those on the store that its name hashes to, with the latest times of all stores.
    fn attributes(&self, path: &str) -> Result<Attributes> {
        self.through_links(path, false, |path| {
            let mut stored = self.on(path, |s| s.attributes(path))?;
            if stored.kind == Kind::Folder {
                for store in &self.stores {
                    let Some(other) = self.part(&**store, path, store.attributes(path))? else { continue };
                    stored.mtime = stored.mtime.max(other.mtime);
                    stored.ctime = stored.ctime.max(other.ctime);
                    stored.atime = stored.atime.max(other.atime);
                    stored.links = stored.links.max(other.links);
                }
            }
            Ok(stored)
        })
    }

    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        self.through_links(path, false, |path| {
            self.on(path, |s| s.set_attributes(path, change))?;
            self.on_others_of_folder(path, |s| s.set_attributes(path, change))
        })
    }

    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        let object = self.open_write(path, OpenWrite::Existing, WriterId(0))?;
        object.truncate(length)?;
        object.close()
    }

    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        self.through_links(path, false, |path| self.on_new(path, |s| s.make_link(target, path)))
    }

    fn read_link(&self, path: &str) -> Result<String> {
        self.through_links(path, false, |path| self.on(path, |s| s.read_link(path)))
    }

    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        reserved(to)?;
        if pick(from, self.stores.len()) != pick(to, self.stores.len()) {
            return Err(errno::failure(Errno::XDEV, "make a hard link on another store", from));
        }
        self.settle()?;
        self.on_new(to, |s| s.make_hard_link(from, to))
    }

    fn xattr_get(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        self.through_links(path, false, |path| self.on(path, |s| s.xattr(path, key)))
    }

    fn xattr_set(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        self.through_links(path, false, |path| {
            self.on(path, |s| s.set_xattr(path, key, value, how))?;
            self.on_others_of_folder(path, |s| s.set_xattr(path, key, value, SetXattr::Any))
        })
    }

    fn xattr_list(&self, path: &str) -> Result<Vec<String>> {
        self.through_links(path, false, |path| self.on(path, |s| s.list_xattrs(path)))
    }

    fn xattr_remove(&self, path: &str, key: &str) -> Result<()> {
        self.through_links(path, false, |path| {
            self.on(path, |s| s.remove_xattr(path, key))?;
            self.on_others_of_folder(path, |s| match s.remove_xattr(path, key) {
                Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            })
        })
    }

    /// The sum of all stores.
    fn space(&self, path: &str) -> Result<Space> {
        let mut all = Space { bytes: 0, free: 0, available: 0, objects: 0, objects_free: 0 };
        let folder = if self.is_folder(path)? { path } else { name::folder_of(path) };
        for store in &self.stores {
            let one = self.found(&**store, store.space(folder))?;
            all.bytes = all.bytes.saturating_add(one.bytes);
            all.free = all.free.saturating_add(one.free);
            all.available = all.available.saturating_add(one.available);
            all.objects = all.objects.saturating_add(one.objects);
            all.objects_free = all.objects_free.saturating_add(one.objects_free);
        }
        Ok(all)
    }

    fn plain_file(&self, path: &str) -> Option<PathBuf> {
        reserved(path).ok()?;
        let end = self.led(path, true).ok()?;
        let path = end.as_deref().unwrap_or(path);
        self.at(path).plain_file(path)
    }

    fn targets(&self, folder: &str) -> Result<Option<u32>> {
        match self.stores.len() {
            1 => self.stores[0].targets(folder),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_hash_is_the_one_that_is_written_down() {
        // FNV-1a of 64 bits, known values.
        assert_eq!(pick("", usize::MAX), 0xcbf2_9ce4_8422_2325u64 as usize);
        assert_eq!(pick("a", 1 << 16), 0xaf63_dc4c_8601_ec8cu64 as usize % (1 << 16));
        assert_eq!(pick("some/folder/foobar", 1 << 16), 0x8594_4171_f739_67e8u64 as usize % (1 << 16));
        let mut counts = [0; 3];
        (0..3000).for_each(|i| counts[pick(&format!("file.{i}"), 3)] += 1);
        assert!(counts.iter().all(|n| (900..1100).contains(n)), "{counts:?}");
    }

    proptest! {
        #[test]
        fn stamps_and_notes_come_back_as_they_were(number in 0u32..9, more in 1u32..9, mount: u64, from in "[a-z/]{1,40}", to in "[a-zé]{1,9}") {
            let stamp = Stamp { number, count: number + more, mount };
            prop_assert_eq!(Stamp::decode(&stamp.encode()).unwrap(), stamp);
            let from = format!("x{}", from.replace("//", "/"));
            let note = Note { from, to };
            prop_assert_eq!(Note::decode(&note.encode()).unwrap(), note);
        }

        #[test]
        fn any_damage_of_a_stamp_or_note_is_seen(at: prop::sample::Index, flip in 1u8..) {
            let stamp = Stamp { number: 1, count: 3, mount: 77 };
            let note = Note { from: "a/b".into(), to: "c".into() };
            for good in [stamp.encode(), note.encode()] {
                let mut bytes = good.clone();
                bytes[at.index(good.len())] ^= flip;
                prop_assert!(Stamp::decode(&bytes).is_err() && Note::decode(&bytes).is_err());
                prop_assert!(Stamp::decode(&good[..at.index(good.len())]).is_err());
            }
        }
    }
}
