//! Mode, owner, times and extended attributes of a mount's files and folders: read, changed, one change after the other.

use super::attributes::{self, StoredAttributes};
use super::file::File;
use super::guard::Guard;
use super::inline_object::Locked;
use super::names::{self, NameState};
use super::objects::{self, remove_if_there};
use super::place::{HIDDEN, now};
use super::{Container, LONGEST_PAUSE, OF_FOLDER, PATIENCE, identity_of, most_inside};
use crate::{Attributes, Change, Kind, Lease, SetXattr, errno};
use rustix::io::Errno;
use std::time::{Duration, Instant};
use thalweg_store::{StoreExt, fresh};
use thalweg_types::{ErrorKind, Result};

/// A file's attributes, locked against other processes.
pub(super) struct Alone<'a> {
    inline: Option<Locked<'a>>,
    _lease: Option<Lease>,
}

impl Container {
    /// Makes a folder. On stores without modes, its mode is stored in it.
    pub(super) fn make_folder_with_mode(&self, path: &str, mode: u32) -> Result<()> {
        let path = self.store_name(path, "make folder")?;
        self.first().make_one_folder(&path, mode)?;
        if !self.first().capability().modes {
            let mut stored = self.folder_attributes(&path)?;
            stored.change(
                &Change { mode: Some(mode), mtime: Some(attributes::time(now() as i64)), ..Change::default() },
                now(),
            );
            self.put_folder_attributes(&of_folder(&path), &stored)?;
        }
        Ok(())
    }

    /// The attributes of a file, folder or link; see [`Layout::attributes`](crate::Layout::attributes).
    pub(super) fn attributes_of(&self, path: &str) -> Result<Attributes> {
        let inside = self.store_name(path, "look at")?;
        let (named, known) = self.known(&inside)?;
        if named.kind != Kind::File && self.first().capability().modes {
            // A store may have modes but no other property that identifies a link (HDFS).
            return named.about.map_or_else(|| self.first().attributes(&inside), Ok);
        }
        // A link that the store keeps has no mode: the mode of its target.
        let folder = match named.kind {
            Kind::File => None,
            _ => Some(self.first().stat(&inside)?).filter(|about| about.is_folder),
        };
        let identity = |named: &names::Named| match &named.about {
            Some(about) => Ok(about.identity),
            None => self.first().stat(&inside).map(|about| about.identity),
        };
        let (kind, length, stored, mtime, links, identity) = match folder {
            Some(about) => {
                let stored = self.folder_attributes(&inside)?;
                let mtime = stored.mtime;
                (Kind::Folder, 0, stored, mtime, 1, about.identity)
            }
            None => match self.seen(&inside, known)? {
                NameState::Link { length, stored } => {
                    let mtime = stored.mtime;
                    (Kind::Link, length, stored, mtime, 1, identity(&named)?)
                }
                NameState::File { file, length, stored } => {
                    let mtime = stored.written(file.written());
                    (Kind::File, length, stored, mtime, named.links, identity_of(&file))
                }
            },
        };
        Ok(stored.told(kind, length, mtime, links, identity))
    }

    /// Changes mode, owner or times; see [`Layout::set_attributes`](crate::Layout::set_attributes).
    pub(super) fn change_attributes(&self, path: &str, change: &Change) -> Result<()> {
        let inside = self.store_name(path, "change")?;
        let with = |stored: &mut StoredAttributes| {
            stored.change(change, now());
            Ok(())
        };
        if !self.first().capability().modes {
            return self.change(path, "change", with);
        }
        let (about, known) = match self.first().capability().attributes {
            true => self.first().open_known(&inside)?,
            false => (self.first().attributes(&inside)?, None),
        };
        match about.kind {
            Kind::File => {
                let known = known.map(|object| (object, about.length));
                self.change_known(&inside, false, known, with)
            }
            // The first store itself keeps mode, owner and times of folders and links.
            Kind::Folder | Kind::Link => self.first().set_attributes(&inside, change),
        }
    }

    /// An extended attribute.
    pub(super) fn xattr(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        match self.stores_own(path)? {
            true => self.first().xattr(&self.store_name(path, "look at")?, key),
            false => Ok(self.stored_attributes(path, "look at")?.xattrs.remove(key)),
        }
    }

    /// Sets an extended attribute. `EEXIST` and `ENODATA` where `how` asks for a new or an existing one.
    pub(super) fn set_xattr(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        if self.stores_own(path)? {
            return self.first().set_xattr(&self.store_name(path, "change")?, key, value, how);
        }
        crate::takes_xattr(key, path)?;
        self.change(path, "set an extended attribute", |stored| {
            match (how, stored.xattrs.contains_key(key)) {
                (SetXattr::New, true) => return Err(errno::failure(Errno::EXIST, "set an extended attribute", path)),
                (SetXattr::Existing, false) => {
                    return Err(errno::failure(Errno::NODATA, "set an extended attribute", path));
                }
                _ => {}
            }
            stored.xattrs.insert(key.into(), value.into());
            stored.ctime = now();
            Ok(())
        })
    }

    /// The keys of all extended attributes.
    pub(super) fn xattr_keys(&self, path: &str) -> Result<Vec<String>> {
        match self.stores_own(path)? {
            true => self.first().list_xattrs(&self.store_name(path, "look at")?),
            false => Ok(self.stored_attributes(path, "look at")?.xattrs.into_keys().collect()),
        }
    }

    /// Removes an extended attribute; `ENODATA` if there is none.
    pub(super) fn remove_xattr(&self, path: &str, key: &str) -> Result<()> {
        if self.stores_own(path)? {
            return self.first().remove_xattr(&self.store_name(path, "change")?, key);
        }
        self.change(path, "remove an extended attribute", |stored| match stored.xattrs.remove(key) {
            Some(_) => {
                stored.ctime = now();
                Ok(())
            }
            None => Err(errno::failure(Errno::NODATA, "remove an extended attribute", path)),
        })
    }

    pub(super) fn file_attributes(&self, file: &File) -> Result<(StoredAttributes, Option<(u64, u64)>)> {
        let (started, mut pause) = (Instant::now(), Duration::from_millis(1));
        loop {
            let newest = file.beside().iter().filter_map(|name| attributes::parse(name)).max();
            let Some((version, number)) = newest else { return Ok((StoredAttributes::of(&file.place.stamp), None)) };
            let name = attributes::name(version, number);
            match file.place.read(&name).and_then(|bytes| StoredAttributes::decode(&bytes)) {
                Ok(stored) => return Ok((stored, newest)),
                // Replaced since the last refresh, or still being written on a store that shows objects before their bytes.
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Torn) && started.elapsed() < PATIENCE => {
                    if e.kind() == ErrorKind::Torn {
                        std::thread::sleep(pause);
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                    file.look()?;
                }
                Err(e) => return Err(e.in_object(name)),
            }
        }
    }

    pub(super) fn put_attributes(&self, file: &File, stored: &StoredAttributes, alone: Alone<'_>) -> Result<()> {
        let beside = file.beside();
        let old: Vec<String> = beside.into_iter().filter(|name| attributes::parse(name).is_some()).collect();
        let versions = old.iter().filter_map(|name| attributes::parse(name));
        let version = versions.map(|(version, _)| version + 1).max().unwrap_or(1);
        let most = 2 * most_inside(self.options.inline(1));
        file.place.put_attributes((version, fresh()), stored, &old, alone.inline.as_ref(), most)?;
        match alone.inline {
            Some(locked) => {
                file.look_locked()?;
                locked.close()
            }
            None => file.look(),
        }
    }

    /// Locks a file's attributes against other processes, if the store can: concurrent changes would overwrite each other.
    pub(super) fn changing<'a>(&self, file: &'a File) -> Result<Alone<'a>> {
        match &file.place.inline {
            Some(inline) => Ok(Alone { inline: Some(inline.lock()?), _lease: None }),
            None => Ok(Alone { inline: None, _lease: self.changing_folder(file)? }),
        }
    }

    pub(super) fn changing_folder(&self, file: &File) -> Result<Option<Lease>> {
        let name = file.place.stamp_copy();
        // A lock creates its object, even if the object was just removed.
        let locked = file.place.first().stat(&name).and_then(|_| file.place.first().lock(&name, true));
        match locked {
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(file.gone(e)),
            outcome => outcome,
        }
    }

    /// Changes attributes of a file or folder.
    pub(super) fn change(
        &self,
        path: &str,
        what: &str,
        change: impl Fn(&mut StoredAttributes) -> Result<()>,
    ) -> Result<()> {
        let path = self.store_name(path, what)?;
        let (about, known) = self.stat_known(&path)?;
        self.change_known(&path, about.is_folder, known, change)
    }

    /// - `known`: as for [`Container::found_in`].
    pub(super) fn change_known(
        &self,
        path: &str,
        is_folder: bool,
        mut known: Option<names::Object>,
        change: impl Fn(&mut StoredAttributes) -> Result<()>,
    ) -> Result<()> {
        if is_folder {
            let name = of_folder(path);
            let mut stored = self.folder_attributes(path)?;
            change(&mut stored)?;
            return self.put_folder_attributes(&name, &stored);
        }
        let mut before = None;
        loop {
            // Like `steady`, for a file that stays locked.
            let (inside, opened) = self.follow_from(path, known.take())?;
            let number = opened.stamp.container;
            let file = self.file(opened);
            file.place.has_home().map_err(|e| e.in_object(inside.clone()))?;
            let alone = self.changing(&file);
            let looked = alone.and_then(|alone| {
                match &alone.inline {
                    Some(_) => file.look_locked()?,
                    None => file.look()?,
                }
                Ok(alone)
            });
            match looked {
                Err(e) if e.kind() == ErrorKind::Io && before != Some(number) => before = Some(number),
                looked => {
                    let alone = looked.map_err(|e| e.in_object(inside))?;
                    return self.change_alone(&file, alone, path, &change);
                }
            }
        }
    }

    pub(super) fn change_alone(
        &self,
        file: &File,
        alone: Alone<'_>,
        path: &str,
        change: &impl Fn(&mut StoredAttributes) -> Result<()>,
    ) -> Result<()> {
        let mut stored = self.file_attributes(file)?.0;
        let before = (stored.mode, stored.uid, stored.gid);
        change(&mut stored)?;
        // Permission bits of the objects first: at no moment are they wider than the file's new mode.
        if (stored.mode, stored.uid, stored.gid) != before {
            let guard = Guard::of(stored.mode, stored.uid, stored.gid);
            file.place.put_guard(guard, path).map_err(|e| e.in_object(path))?;
        }
        self.put_attributes(file, &stored, alone).map_err(|e| e.in_object(path))
    }

    pub(super) fn put_folder_attributes(&self, name: &str, stored: &StoredAttributes) -> Result<()> {
        let first = self.first();
        if objects::appears_early(&**first) {
            first.make_folder(HIDDEN)?;
        }
        let temporary = format!("{HIDDEN}/{}{:016x}", objects::TEMPORARY, fresh());
        objects::put_whole(&**first, &temporary, name, &stored.encode(), 0o666)
    }

    /// Removes or replaces a folder that may contain its attributes and nothing else: without them while `change` is made. After a
    /// failure it has them again.
    ///
    /// # Errors
    /// Errors of `change`; `Io` if the folder cannot be listed or its attributes be read.
    pub(super) fn without_attributes(&self, folder: &str, change: impl FnOnce() -> Result<()>) -> Result<()> {
        match self.first().list(folder) {
            Ok(names) if !folder.is_empty() && names == [OF_FOLDER] => {}
            // Not taken for a folder with other contents.
            Err(e) if e.kind() == ErrorKind::Io => return Err(e),
            _ => return change(),
        }
        let of_folder = of_folder(folder);
        let stored = match self.folder_attributes(folder) {
            // A folder with damaged attributes can be removed.
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Torn) => None,
            stored => Some(stored?),
        };
        remove_if_there(&**self.first(), &of_folder)?;
        change().map_err(|failed| {
            let Some(stored) = &stored else { return failed };
            // The change may have had its effect, or another process may have removed the folder.
            if !self.first().stat(folder).is_ok_and(|about| about.is_folder) {
                return failed;
            }
            match self.put_folder_attributes(&of_folder, stored) {
                Ok(()) => failed,
                Err(e) => failed.safe(format!("the folder; its attributes are lost ({e})")),
            }
        })
    }

    pub(super) fn folder_attributes(&self, path: &str) -> Result<StoredAttributes> {
        match self.first().read_all(&of_folder(path)) {
            Ok(bytes) => StoredAttributes::decode(&bytes).map_err(|e| e.in_object(of_folder(path))),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
                Ok(StoredAttributes::new(0o755, uid, gid, 0))
            }
            Err(e) => Err(e),
        }
    }

    /// The stored attributes of a file or folder.
    pub(super) fn stored_attributes(&self, path: &str, what: &str) -> Result<StoredAttributes> {
        let path = self.store_name(path, what)?;
        match self.first().stat(&path)?.is_folder {
            true => self.folder_attributes(&path),
            false => Ok(self.file_attributes(&*self.look(&path)?)?.0),
        }
    }

    /// Whether the first store itself keeps the attributes of this name: of folders and links, on stores with attributes.
    pub(super) fn stores_own(&self, path: &str) -> Result<bool> {
        if !self.first().capability().attributes {
            return Ok(false);
        }
        Ok(self.first().attributes(&self.store_name(path, "look at")?)?.kind != Kind::File)
    }
}

pub(super) fn of_folder(folder: &str) -> String {
    if folder.is_empty() { OF_FOLDER.into() } else { format!("{folder}/{OF_FOLDER}") }
}
