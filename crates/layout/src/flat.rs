//! The flat layout: whole files, spread over several stores by a hash of their name.
//!
//! | question | answer |
//! |----------|--------|
//! | needs    | of each store: `write_at`, and renames that replace at once |
//! | where    | a file is one object, of the same name, on the store that the last part of its name picks; folders are on all stores |
//! | cost     | of a file: the store's own; a folder is made, listed, renamed and removed once per store |
//! | writers  | all the same, as on `direct` |
//! | rename of a folder | the last parts of names inside stay, so nothing moves: one rename per store. A note of it is left on the first store before; whoever opens the mount after a crash finishes it |
//! | rename of a file | onto a name of the same store: that store's. Else the bytes are copied under a name of their own, made durable, renamed into place at once, then the old name is removed: a crash leaves the old name, or both. A program that has the file open goes on with the old bytes |
//! | symbolic links | lie where their own name says; those whose end lies on another store are followed here, at the cost of looking at each part of a name that is not found, and of a name that is opened to be made |
//! | second names | on the same store only (`EXDEV` otherwise) |
//! | a lost store | each store holds a stamp with its number, their count and the mount's own number: a store that is exchanged, missing or empty is an error naming it, never an absent file |
//!
//! The stamp and the note are described in `docs/format/flat.md`.

use crate::wire::{self, Cursor};
use crate::{
    Attributes, Change, Kind, Layout, OpenWrite, ReadObject, SetXattr, Space, Stat, WriteObject, WriterId, errno,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_store::{Rename, Store, StoreExt, name};
use thalweg_types::{Error, ErrorKind, Result};

/// Folder of each store that holds what is not the user's.
pub const FOLDER: &str = ".thalweg-flat";
const STAMP: &str = ".thalweg-flat/stamp";
const NOTE: &str = ".thalweg-flat/rename";
const STAMP_MAGIC: &[u8; 8] = b"THWFSTMP";
const NOTE_MAGIC: &[u8; 8] = b"THWFNOTE";
const VERSION: u32 = 1;
/// Longest note that is believed.
const LONGEST_NOTE: u64 = 64 << 10;
/// Links followed before they are taken for a circle.
const MOST_LINKS: usize = 40;
/// Bytes copied at a time where a file moves to another store.
const COPY: usize = 4 << 20;

/// Which of `stores` stores keeps a file: FNV-1a of the last part of its name.
pub fn pick(path: &str, stores: usize) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in name::last_part(path).bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    (hash % stores.max(1) as u64) as usize
}

/// What tells the stores of a mount apart from each other and from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Which of them this is, from 0.
    pub number: u32,
    /// How many they are.
    pub count: u32,
    /// The same on all stores of a mount.
    pub mount: u64,
}

impl Stamp {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = STAMP_MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend(self.number.to_le_bytes());
        out.extend(self.count.to_le_bytes());
        out.extend(self.mount.to_le_bytes());
        wire::seal(&mut out);
        out
    }

    /// From bytes.
    ///
    /// # Errors
    /// `Torn` and `Corrupt` as told; `Unsupported` for a later version.
    pub fn decode(bytes: &[u8]) -> Result<Stamp> {
        let mut cursor = opened(bytes, STAMP_MAGIC, "stamp")?;
        let stamp = Stamp { number: cursor.u32("stamp")?, count: cursor.u32("stamp")?, mount: cursor.u64("stamp")? };
        match cursor.is_empty() && stamp.number < stamp.count {
            true => Ok(stamp),
            false => Err(Error::new(ErrorKind::Corrupt, "a stamp that makes no sense")),
        }
    }
}

/// A rename of a folder that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The old name.
    pub from: String,
    /// The new one.
    pub to: String,
}

impl Note {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = NOTE_MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        wire::put_counted(&mut out, self.from.as_bytes());
        wire::put_counted(&mut out, self.to.as_bytes());
        wire::seal(&mut out);
        out
    }

    /// From bytes.
    ///
    /// # Errors
    /// As [`Stamp::decode`].
    pub fn decode(bytes: &[u8]) -> Result<Note> {
        let mut cursor = opened(bytes, NOTE_MAGIC, "note")?;
        let note = Note { from: cursor.text("old name")?, to: cursor.text("new name")? };
        for side in [&note.from, &note.to] {
            name::relative(side)?;
        }
        match cursor.is_empty() && !note.from.is_empty() && !note.to.is_empty() {
            true => Ok(note),
            false => Err(Error::new(ErrorKind::Corrupt, "a note that makes no sense")),
        }
    }
}

fn opened<'a>(bytes: &'a [u8], magic: &[u8; 8], what: &str) -> Result<Cursor<'a>> {
    let mut cursor = Cursor::new(wire::sealed(bytes, what)?);
    if cursor.take(8, what)? != magic {
        return Err(Error::new(ErrorKind::Corrupt, format!("this is no {what} of the flat layout")).at_byte(0));
    }
    match cursor.u32(what)? {
        VERSION => Ok(cursor),
        later => Err(Error::new(ErrorKind::Unsupported, format!("a {what} of version {later}, known is {VERSION}"))),
    }
}

/// Files spread over stores. See the module's page.
pub struct Flat {
    stores: Vec<Arc<dyn Store>>,
}

impl Flat {
    /// Over these stores, in this order; stores that were never used are stamped.
    ///
    /// # Errors
    /// `Config` names a store that lacks what the layout needs, or is not the one that belongs at its place.
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
        let flat = Flat { stores };
        flat.check_stamps()?;
        flat.finish_rename()?;
        Ok(flat)
    }

    fn check_stamps(&self) -> Result<()> {
        let stamps = self.stores.iter().map(|s| stamp_of(&**s)).collect::<Result<Vec<_>>>()?;
        let count = self.stores.len() as u32;
        if stamps.iter().all(Option::is_none) {
            // What lies there already was put there by `direct`, or by nobody who spread it.
            if let Some(used) = self.stores.iter().skip(1).find(|s| s.list("").is_ok_and(|names| !names.is_empty())) {
                let what =
                    format!("store {} is not empty and was no store of a \"flat\" mount before", used.describe());
                return Err(Error::new(ErrorKind::Config, what));
            }
            let mount = fresh();
            for (number, store) in self.stores.iter().enumerate() {
                store.make_folder(FOLDER)?;
                let stamp = Stamp { number: number as u32, count, mount };
                let object = match store.open_write(STAMP, OpenWrite::New) {
                    Ok(object) => object,
                    // Another process does the same at this moment: its stamps hold.
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => return self.await_stamps(),
                    Err(e) => return Err(e),
                };
                object.write_at(0, &[IoSlice::new(&stamp.encode())])?;
                object.sync()?;
                object.close()?;
                store.sync_folder(FOLDER)?;
            }
            return Ok(());
        }
        let first = stamps.iter().flatten().next().copied();
        for (number, (stamp, store)) in stamps.iter().zip(&self.stores).enumerate() {
            let told = store.describe();
            let wrong = match stamp {
                None => format!("store {told} bears no stamp, though others of the mount do: is it the right one?"),
                Some(s) if s.count != count => {
                    format!("store {told} belongs to a \"flat\" mount of {} stores, not of {count}", s.count)
                }
                Some(s) if s.number as usize != number => {
                    format!("store {told} is number {} of its mount and stands at place {number}", s.number)
                }
                Some(s) if Some(s.mount) != first.map(|f| f.mount) => format!("store {told} belongs to another mount"),
                Some(_) => continue,
            };
            return Err(Error::new(ErrorKind::Config, wrong));
        }
        Ok(())
    }

    /// Waits for another process that stamps the stores at this moment.
    fn await_stamps(&self) -> Result<()> {
        for _ in 0..500 {
            let done = self.stores.iter().map(|s| stamp_of(&**s)).collect::<Result<Vec<_>>>();
            if done.is_ok_and(|stamps| stamps.iter().all(Option::is_some)) {
                return self.check_stamps();
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Err(Error::new(
            ErrorKind::Config,
            "the stores of a \"flat\" mount were stamped in part: remove .thalweg-flat of those that hold no files",
        ))
    }

    fn at(&self, path: &str) -> &dyn Store {
        &*self.stores[pick(path, self.stores.len())]
    }

    /// A name that is not there may be on a store that is not there.
    fn found<T>(&self, store: &dyn Store, result: Result<T>) -> Result<T> {
        let Err(error) = result else { return result };
        if error.kind() == ErrorKind::NotFound && stamp_of(store).ok().flatten().is_none() {
            let what = format!("store {} of the mount is gone or was exchanged", store.describe());
            return Err(Error::new(ErrorKind::Io, what).in_object(error.place().object.clone().unwrap_or_default()));
        }
        Err(error)
    }

    fn on<T>(&self, path: &str, call: impl FnOnce(&dyn Store) -> Result<T>) -> Result<T> {
        reserved(path)?;
        let store = self.at(path);
        self.found(store, call(store))
    }

    /// Whether a name leads to a folder.
    fn is_folder(&self, path: &str) -> Result<bool> {
        Ok(self.on(path, |s| s.stat(path))?.is_folder)
    }

    /// What is kept of a folder is kept on all stores: a rename may make another of them the one that is asked.
    fn on_others_of_folder(&self, path: &str, call: impl Fn(&dyn Store) -> Result<()>) -> Result<()> {
        if self.stores.len() == 1 || self.kind(path)? != Kind::Folder {
            return Ok(());
        }
        let first = pick(path, self.stores.len());
        let mut others = self.stores.iter().enumerate().filter(|(n, _)| *n != first);
        others.try_for_each(|(_, store)| call(&**store))
    }

    /// What a name itself stands for.
    fn kind(&self, path: &str) -> Result<Kind> {
        match self.at(path).capability().attributes {
            true => Ok(self.on(path, |s| s.attributes(path))?.kind),
            false => Ok(if self.is_folder(path)? { Kind::Folder } else { Kind::File }),
        }
    }

    /// Where a name leads when the links on the way to it are followed, each on the store that its own name picks, and with
    /// `last` the link that it is itself. `None` where there is no link, or one that leads out of the mount.
    fn led(&self, path: &str, last: bool) -> Result<Option<String>> {
        if self.stores.len() == 1 || !self.stores[0].capability().attributes {
            return Ok(None);
        }
        let plain = name::relative(path)?;
        let mut to_come: Vec<String> = plain.split('/').rev().map(str::to_string).collect();
        let (mut so_far, mut links): (Vec<String>, usize) = (Vec::new(), 0);
        while let Some(part) = to_come.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." if so_far.pop().is_none() => return Ok(None),
                ".." => continue,
                _ => so_far.push(part),
            }
            let so_far_name = so_far.join("/");
            let store = self.at(&so_far_name);
            if (to_come.is_empty() && !last) || !store.attributes(&so_far_name).is_ok_and(|a| a.kind == Kind::Link) {
                continue;
            }
            links += 1;
            let target = store.read_link(&so_far_name)?;
            if links > MOST_LINKS {
                return Err(errno::failure(Errno::LOOP, "follow links", path));
            }
            if target.starts_with('/') {
                return Ok(None);
            }
            so_far.pop();
            to_come.extend(target.split('/').rev().map(str::to_string));
        }
        Ok((links > 0).then(|| so_far.join("/")))
    }

    /// Calls with a name; where it is not there, once more with what links lead to that lie on other stores.
    fn through_links<T>(&self, path: &str, last: bool, call: impl Fn(&str) -> Result<T>) -> Result<T> {
        match call(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => match self.led(path, last)? {
                Some(end) => call(&end),
                None => Err(e),
            },
            outcome => outcome,
        }
    }

    fn rename_folder(&self, from: &str, to: &str) -> Result<()> {
        // What a POSIX rename refuses is refused before anything is moved.
        if to == from {
            return Ok(());
        }
        if to.starts_with(&format!("{from}/")) {
            return Err(errno::failure(Errno::INVAL, "rename a folder into itself", from));
        }
        match self.kind(to) {
            Ok(Kind::File | Kind::Link) => {
                return Err(errno::failure(Errno::NOTDIR, "rename a folder over a file", to));
            }
            Ok(Kind::Folder) if !self.list(to)?.is_empty() => {
                return Err(errno::failure(Errno::NOTEMPTY, "rename over a folder", to));
            }
            Ok(Kind::Folder) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        let above = name::folder_of(to);
        if !above.is_empty() && !self.is_folder(above)? {
            return Err(errno::failure(Errno::NOTDIR, "rename", to));
        }
        if self.stores.len() == 1 {
            return self.stores[0].rename(from, to);
        }
        let first = &*self.stores[0];
        let note = Note { from: from.to_string(), to: to.to_string() };
        let object = match first.open_write(NOTE, OpenWrite::New) {
            Ok(object) => object,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                return Err(errno::failure(Errno::BUSY, "rename a folder while another is being renamed", from));
            }
            Err(e) => return Err(e),
        };
        object.write_at(0, &[IoSlice::new(&note.encode())])?;
        object.sync()?;
        // Held until the rename is done: it is finished by others only if this process died.
        let hold = object.hold();
        first.sync_folder(FOLDER)?;
        let done = self.carry_out(&note);
        if done.is_ok() {
            first.remove(NOTE)?;
        }
        drop((hold, object));
        done
    }

    fn carry_out(&self, note: &Note) -> Result<()> {
        for store in &self.stores {
            match store.rename(&note.from, &note.to) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::NotFound && store.exists(&note.to)? => {}
                Err(e) => {
                    return Err(e.safe("the rename of the folder is noted and finished when the mount is opened next"));
                }
            }
        }
        Ok(())
    }

    /// Finishes a rename whose process died.
    fn finish_rename(&self) -> Result<()> {
        let first = &*self.stores[0];
        let object = match first.open_read(NOTE) {
            Ok(object) => object,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        if object.life()?.held == Some(true) {
            return Ok(());
        }
        let length = object.length()?.min(LONGEST_NOTE);
        let mut bytes = vec![0; length as usize];
        object.read_exact_at(0, &mut bytes)?;
        match Note::decode(&bytes) {
            Ok(note) => self.carry_out(&note)?,
            // The process died while it wrote the note: nothing was renamed yet.
            Err(e) if matches!(e.kind(), ErrorKind::Torn | ErrorKind::Corrupt) => {}
            Err(e) => return Err(e),
        }
        match first.remove(NOTE) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn rename_plainly(&self, from: &str, to: &str) -> Result<()> {
        if self.kind(from)? == Kind::Folder {
            return self.rename_folder(from, to);
        }
        if pick(from, self.stores.len()) == pick(to, self.stores.len()) {
            return self.on(from, |s| s.rename(from, to));
        }
        if self.kind(to).is_ok_and(|kind| kind == Kind::Folder) {
            return Err(errno::failure(Errno::ISDIR, "rename a file over a folder", to));
        }
        let store = self.at(from);
        if store.capability().attributes && store.attributes(from)?.links > 1 {
            return Err(errno::failure(Errno::XDEV, "rename one of several names of a file to another store", from));
        }
        self.move_file(from, to)
    }

    fn remove_plainly(&self, path: &str) -> Result<()> {
        if self.kind(path)? != Kind::Folder {
            return self.on(path, |s| s.remove(path));
        }
        if !self.list(path)?.is_empty() {
            return Err(errno::failure(Errno::NOTEMPTY, "remove a folder that is not empty", path));
        }
        // The store that the folder's own name picks comes last: it decides whether the name is taken.
        let last = pick(path, self.stores.len());
        let order = (0..self.stores.len()).filter(|n| *n != last).chain([last]);
        let mut gone = Vec::new();
        for number in order {
            match self.stores[number].remove(path) {
                Ok(()) => gone.push(number),
                Err(e) if e.kind() == ErrorKind::NotFound && number != last => {}
                Err(e) => {
                    // Somebody made a file there meanwhile: the folder is put back where it is gone.
                    for number in gone {
                        let _ = self.stores[number].make_folder(path);
                    }
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    /// Moves a file to the store that its new name picks.
    fn move_file(&self, from: &str, to: &str) -> Result<()> {
        let (old, new) = (self.at(from), self.at(to));
        let folder = name::folder_of(to);
        let own = format!("{FOLDER}-{:016x}", fresh());
        let between = if folder.is_empty() { own } else { format!("{folder}/{own}") };
        let copied = self.copy(old, from, new, &between).and_then(|()| new.rename(&between, to));
        if let Err(e) = copied {
            // The failure that matters is the first.
            let _ = new.remove(&between);
            return Err(Error::new(e.kind(), format!("cannot rename to {to} on another store"))
                .caused_by(e)
                .in_object(from));
        }
        new.sync_folder(folder)?;
        old.remove(from)
    }

    fn copy(&self, old: &dyn Store, from: &str, new: &dyn Store, to: &str) -> Result<()> {
        if old.capability().attributes && new.capability().attributes {
            let kept = old.attributes(from)?;
            if kept.kind == Kind::Link {
                return new.make_link(&old.read_link(from)?, to);
            }
        }
        let source = old.open_read(from)?;
        let target = new.open_write(to, OpenWrite::New)?;
        let length = source.length()?;
        let mut buffer = vec![0; COPY.min(usize::try_from(length).unwrap_or(COPY)).max(1)];
        let mut at = 0;
        while at < length {
            let got = source.read_at(at, &mut buffer)?;
            if got == 0 {
                break;
            }
            target.write_at(at, &[IoSlice::new(&buffer[..got])])?;
            at += got as u64;
        }
        target.truncate(length)?;
        target.sync()?;
        target.close()?;
        if old.capability().attributes && new.capability().attributes {
            for key in old.list_xattrs(from)? {
                if let Some(value) = old.xattr(from, &key)? {
                    new.set_xattr(to, &key, &value, SetXattr::Any)?;
                }
            }
            let kept = old.attributes(from)?;
            let owner = new.attributes(to)?;
            let changed = |old: u32, new: u32| (old != new).then_some(old);
            new.set_attributes(
                to,
                &Change {
                    mode: Some(kept.mode),
                    uid: changed(kept.uid, owner.uid),
                    gid: changed(kept.gid, owner.gid),
                    atime: Some(kept.atime),
                    mtime: Some(kept.mtime),
                },
            )?;
        }
        Ok(())
    }
}

fn stamp_of(store: &dyn Store) -> Result<Option<Stamp>> {
    match store.read_all(STAMP) {
        Ok(bytes) => Stamp::decode(&bytes).map(Some).map_err(|e| e.in_object(format!("{}/{STAMP}", store.describe()))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// A number that no other has: time, process and a counter, mixed.
fn fresh() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one((std::process::id(), std::time::SystemTime::now()))
}

/// Names that are not the user's look absent, and cannot be made.
fn reserved(path: &str) -> Result<()> {
    match path.split('/').find(|part| !part.is_empty() && *part != ".").is_some_and(|first| first == FOLDER) {
        true => Err(errno::failure(Errno::NOENT, "use a name that the layout keeps for itself", path)),
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

    fn open_write(&self, path: &str, how: OpenWrite, _writer: WriterId) -> Result<Box<dyn WriteObject>> {
        let open = |path: &str| self.on(path, |s| s.open_write(path, how));
        match how {
            // The system would make what a link leads to on the link's own store.
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
                all.extend(self.found(&**store, store.list(folder))?.into_iter().filter(|name| !hidden(name)));
            }
            Ok(all.into_iter().collect())
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        reserved(from)?;
        reserved(to)?;
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

    fn remove(&self, path: &str) -> Result<()> {
        reserved(path)?;
        self.through_links(path, false, |path| self.remove_plainly(path))
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        reserved(path)?;
        // A file of that name is on the store that the name picks, for each part of the path.
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
            self.on(path, |s| s.make_one_folder(path, mode))?;
            let first = pick(path, self.stores.len());
            for (_, store) in self.stores.iter().enumerate().filter(|(n, _)| *n != first) {
                match self.found(&**store, store.make_one_folder(path, mode)) {
                    Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
                    _ => {}
                }
            }
            Ok(())
        })
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        reserved(folder)?;
        self.stores.iter().try_for_each(|s| self.found(&**s, s.sync_folder(folder)))
    }

    /// Of a folder: what the store keeps that its name picks, changed at the latest of all.
    fn attributes(&self, path: &str) -> Result<Attributes> {
        self.through_links(path, false, |path| {
            let mut kept = self.on(path, |s| s.attributes(path))?;
            if kept.kind == Kind::Folder {
                for store in &self.stores {
                    let other = self.found(&**store, store.attributes(path))?;
                    kept.mtime = kept.mtime.max(other.mtime);
                    kept.ctime = kept.ctime.max(other.ctime);
                    kept.atime = kept.atime.max(other.atime);
                    kept.links = kept.links.max(other.links);
                }
            }
            Ok(kept)
        })
    }

    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        self.through_links(path, false, |path| {
            self.on(path, |s| s.set_attributes(path, change))?;
            self.on_others_of_folder(path, |s| self.found(s, s.set_attributes(path, change)))
        })
    }

    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        let object = self.open_write(path, OpenWrite::Existing, WriterId(0))?;
        object.truncate(length)?;
        object.close()
    }

    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        self.through_links(path, false, |path| self.on(path, |s| s.make_link(target, path)))
    }

    fn read_link(&self, path: &str) -> Result<String> {
        self.through_links(path, false, |path| self.on(path, |s| s.read_link(path)))
    }

    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        reserved(to)?;
        if pick(from, self.stores.len()) != pick(to, self.stores.len()) {
            return Err(errno::failure(Errno::XDEV, "make a second name on another store", from));
        }
        self.on(from, |s| s.make_hard_link(from, to))
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

    /// That of all stores together.
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
