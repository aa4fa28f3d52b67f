//! Modes, owners and times of a burst buffer's objects and folders, in both stores.
//!
//! | question | answer |
//! |----------|--------|
//! | when     | both stores keep modes ([`Capability::modes`](crate::Capability::modes)); otherwise both stores make objects as the process' umask says |
//! | a copy, drained or fetched | has mode 0600 while it is written; it gets the original's mode, owner and times before it gets its name |
//! | an older copy in the canonical store | loses the permission bits that the newer object loses, and gets no new ones until it is replaced |
//! | a folder | mode and owner are those in the canonical store. The shadow store's folder gets them when it is made, when they are changed on this node, and from each drain that finds objects in it |
//! | an object that another node has not drained | `NotReady`, naming the node |
//! | an owner that a store refuses (`chown` without the right, a user that HDFS lacks) | the copy belongs to the user that drains, without permissions of the original's group and without set-ID bits |
//! | times of a folder | a drain leaves them as they were before each object's last step, so an entry made during that step leaves no newer time; the newer of both stores' is shown |
//! | a crash  | leaves the mode from before or after the call; never an object with more permissions than both |
//! | names    | those of all objects can be read in the burst buffer's own folder by users that can read the stores |

use super::{Shared, found, owner::Owner, wrong};
use crate::{Attributes, Change, Kind, Store};
use thalweg_types::{ErrorKind, Result};

/// Permission bits of a copy while it is written.
const PRIVATE: u32 = 0o600;

/// Gives an object or folder the mode and owner of another one, and its times.
///
/// - `times`: the times, too.
pub(super) fn give(store: &dyn Store, name: &str, of: &Attributes, times: bool) -> Result<()> {
    let now = store.attributes(name)?;
    let changed = |now: u32, of: u32| (now != of).then_some(of);
    let mut mode = of.mode;
    // Owners first: changing them clears bits of the mode.
    let uid = give_owner(store, name, Change { uid: changed(now.uid, of.uid), ..Change::default() })?;
    let gid = give_owner(store, name, Change { gid: changed(now.gid, of.gid), ..Change::default() })?;
    if !gid {
        // Another group's members get what everybody gets.
        mode &= !0o070 | (mode & 0o007) << 3;
    }
    if !(uid && gid) {
        mode &= 0o1777;
    }
    let (atime, mtime) = (times.then_some(of.atime), times.then_some(of.mtime));
    store.set_attributes(name, &Change { mode: Some(mode), atime, mtime, ..Change::default() })
}

/// Whether the store took the owner or the group.
fn give_owner(store: &dyn Store, name: &str, change: Change) -> Result<bool> {
    if change == Change::default() {
        return Ok(true);
    }
    match store.set_attributes(name, &change) {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidArgument) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Gives a folder its times, if the store has it and takes them.
fn give_times(store: &dyn Store, folder: &str, times: &Change) -> Result<()> {
    match store.set_attributes(folder, times) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => Ok(()),
        outcome => outcome,
    }
}

/// Takes the permissions away that a change takes away; adds none.
fn narrow(store: &dyn Store, name: &str, now: &Attributes, change: &Change) -> Result<()> {
    match change.mode.map(|mode| mode & now.mode) {
        Some(mode) if mode != now.mode => store.set_attributes(name, &Change { mode: Some(mode), ..Change::default() }),
        _ => Ok(()),
    }
}

impl Shared {
    /// Permission bits that a copy is made with.
    pub(super) fn mode_of_copies(&self) -> u32 {
        if self.modes { PRIVATE } else { 0o666 }
    }

    /// Makes a folder and those above it in one store, each with the attributes that it has in the other one.
    pub(super) fn mirror(&self, from: &dyn Store, to: &dyn Store, folder: &str) -> Result<()> {
        if !self.modes {
            return to.make_folder(folder);
        }
        let ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
        for level in ends.map(|end| &folder[..end]).filter(|level| !level.is_empty()) {
            match found(to.stat(level))? {
                Some(about) if about.is_folder => continue,
                // With the store's error.
                Some(_) => return to.make_folder(folder),
                None => {}
            }
            let Some(about) = found(from.attributes(level))? else {
                to.make_folder(level)?;
                continue;
            };
            let above = crate::name::folder_of(level);
            let before = if above.is_empty() { None } else { found(to.attributes(above))? };
            match to.make_one_folder(level, about.mode & 0o777) {
                Ok(()) => give(to, level, &about, true)?,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(e),
            }
            // No change that a user made.
            if let Some(before) = before {
                give_times(
                    to,
                    above,
                    &Change { atime: Some(before.atime), mtime: Some(before.mtime), ..Change::default() },
                )?;
            }
        }
        Ok(())
    }

    /// Times of a folder before one of its objects moves from one store to the other; `None` if neither store has the folder.
    pub(super) fn times_of_folder(&self, folder: &str) -> Result<Option<Change>> {
        let mut times: Option<Change> = None;
        for store in [&self.canonical, &self.shadow] {
            let Some(about) = found(store.attributes(folder))? else { continue };
            let (atime, mtime) = times.take().map_or((None, None), |times| (times.atime, times.mtime));
            let (atime, mtime) = (atime.max(Some(about.atime)), mtime.max(Some(about.mtime)));
            times = Some(Change { atime, mtime, ..Change::default() });
        }
        Ok(times)
    }

    /// Gives a folder the times back that it had before one of its objects moved: the move is no change that a user made. Under the
    /// lock of the folder.
    pub(super) fn keep_times_of_folder(&self, folder: &str, times: &Change) -> Result<()> {
        let (there, here) = (give_times(&*self.canonical, folder, times), give_times(&*self.shadow, folder, times));
        there.and(here)
    }

    /// Makes one folder in the canonical store; the shadow store's is made with the first object in it.
    pub(super) fn make_one_folder(&self, name: &str, mode: u32) -> Result<()> {
        const WHAT: &str = "make folder";
        let _lock = self.lock(&[name])?;
        let there = match found(self.shadow.stat(name))? {
            Some(about) => !about.is_folder || !self.is_left_over(name)?,
            None => matches!(self.pointers.owner(name)?, Some(Owner::Other(_))),
        };
        if there {
            return Err(wrong(ErrorKind::AlreadyExists, WHAT, name));
        }
        let made = self.canonical.make_one_folder(name, mode);
        let above = crate::name::folder_of(name);
        match made {
            Err(e)
                if e.kind() == ErrorKind::NotFound && found(self.shadow.stat(above))?.is_some_and(|a| a.is_folder) =>
            {
                self.mirror(&*self.shadow, &*self.canonical, above)?;
                self.canonical.make_one_folder(name, mode)
            }
            made => made,
        }
    }

    /// Attributes of an object from the store that has its newest bytes; of a folder, mode and owner from the canonical store.
    pub(super) fn attributes(&self, name: &str) -> Result<Attributes> {
        const WHAT: &str = "get attributes";
        let about = self.either_or(ErrorKind::NotReady, WHAT, name, |store| store.attributes(name))?;
        if about.kind != Kind::Folder {
            return Ok(about);
        }
        if self.is_left_over(name)? {
            return Err(wrong(ErrorKind::NotFound, WHAT, name));
        }
        // A drain that shows an object here gives the folder its times back under this lock: without it the time of the move would be
        // seen in between. Who may not lock (a user that only reads) sees it.
        let _lock = match self.lock(&[name]) {
            Err(e) if e.kind() == ErrorKind::PermissionDenied => Vec::new(),
            lock => lock?,
        };
        let about = found(self.shadow.attributes(name))?.filter(|about| about.kind == Kind::Folder).unwrap_or(about);
        let Some(there) = found(self.canonical.attributes(name))? else { return Ok(about) };
        Ok(Attributes {
            mode: there.mode,
            uid: there.uid,
            gid: there.gid,
            atime: about.atime.max(there.atime),
            mtime: about.mtime.max(there.mtime),
            ctime: about.ctime.max(there.ctime),
            ..about
        })
    }

    /// Changes attributes wherever the object or folder is.
    pub(super) fn set_attributes(&self, name: &str, change: &Change) -> Result<()> {
        const WHAT: &str = "change attributes";
        // No object of this name is drained, fetched or made on this node meanwhile.
        let _lock = self.lock(&[name])?;
        let (shadow, canonical) = (&*self.shadow, &*self.canonical);
        let (here, there) = (found(shadow.attributes(name))?, found(canonical.attributes(name))?);
        match (&here, &there) {
            (Some(here), Some(there)) if here.kind == Kind::Folder && there.kind == Kind::Folder => {
                narrow(shadow, name, here, change)?;
                canonical.set_attributes(name, change)?;
                shadow.set_attributes(name, change)
            }
            (Some(here), None) if here.kind == Kind::Folder && self.is_left_over(name)? => {
                Err(wrong(ErrorKind::NotFound, WHAT, name))
            }
            (Some(_), there) => {
                there.iter().try_for_each(|there| narrow(canonical, name, there, change))?;
                shadow.set_attributes(name, change)
            }
            (None, Some(there)) if there.kind == Kind::Folder => canonical.set_attributes(name, change),
            (None, there) => {
                self.pointers.not_elsewhere(ErrorKind::NotReady, WHAT, name)?;
                if there.is_none() {
                    return Err(wrong(ErrorKind::NotFound, WHAT, name));
                }
                canonical.set_attributes(name, change)?;
                // A node that has fetched it meanwhile may have done so with the attributes of before.
                self.pointers.not_elsewhere(ErrorKind::NotReady, WHAT, name)
            }
        }
    }

    /// Gives folders of the shadow store the mode and owner that another node has given them in the canonical store.
    pub(super) fn follow_folder(&self, folder: &str) -> Result<()> {
        let _lock = self.lock(&[folder])?;
        let (here, there) = (found(self.shadow.attributes(folder))?, found(self.canonical.attributes(folder))?);
        let (Some(here), Some(there)) = (here, there) else { return Ok(()) };
        let of = |about: &Attributes| (about.kind, about.mode, about.uid, about.gid);
        match of(&here) == of(&there) || here.kind != Kind::Folder || there.kind != Kind::Folder {
            true => Ok(()),
            false => give(&*self.shadow, folder, &there, false),
        }
    }
}
