//! Creation of files: for a small file only the inline object; for others the container first and the name last.

use super::file::File;
use super::guard::{self, Guard};
use super::inline_object::{InlineObject, Opened};
use super::marks::{self, Home};
use super::names::{Looked, interrupted};
use super::objects::{self, put_new, remove_if_there};
use super::place::{self, HIDDEN, Place, now};
use super::session::LeasedObject;
use super::stamp::Stamp;
use super::{Container, load, packed, removal, synopsis, tail};
use crate::{OpenWrite, WriteObject, errno};
use rustix::io::Errno;
use std::io::IoSlice;
use std::sync::Arc;
use thalweg_store::{StoreExt, fresh, name};
use thalweg_types::{Error, ErrorKind, Result};

/// The way in which a file was created.
pub(super) enum Made {
    /// With the container's folder.
    Folder,
    /// As an inline object only, which contains this session's mark.
    Small(Home, LeasedObject),
}

impl Container {
    /// - `path`: of the name that it is made for.
    pub(super) fn stamp(&self, path: &str, link: Option<&str>) -> Result<Stamp> {
        let above = if link.is_none() && self.guesses() { synopsis::half(path) } else { fresh() };
        let container = u128::from(above) << 64 | u128::from(fresh());
        let stores = self.stores.identities()?;
        // A random number distributes containers over the stores.
        let home = if link.is_none() { (container % stores.len().max(1) as u128) as u8 } else { 0 };
        let packed =
            link.is_none() && self.stores.all().nth(usize::from(home)).is_some_and(|store| packed::can(&**store));
        Ok(Stamp {
            container,
            module: self.options.module,
            folders: self.options.folders,
            mode: 0o644,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            made: now(),
            stores,
            home,
            link: link.map(str::to_string),
            tail: false,
            packed,
        })
    }

    /// Creates a small file: only the inline object, with a new session of this writer. `None` if the store cannot.
    pub(super) fn make_small(&self, path: &str, writer: u32) -> Result<Option<(Opened, Home, LeasedObject)>> {
        let first = self.first();
        let can = first.capability();
        let able = self.options.inline(1) > 0 && can.write_at && can.truncate && can.modes && first.reopens();
        if !able || !objects::appears_early(&**first) {
            return Ok(None);
        }
        let stamp = Stamp { tail: true, packed: false, ..self.stamp(path, None)? };
        let container = stamp.container;
        let mut bytes = stamp.encode();
        let start = bytes.len() as u64;
        let place = Place::of_stamp(stamp.clone(), self.stores.clone());
        let home = place.home(&self.options.host, writer, 0);
        let begins = tail::Record::Put(marks::open_name(home), load::about(&format!("writer {writer}")).into_bytes());
        begins.encode(container, start, &mut bytes);
        let guard = Guard::of(stamp.mode, stamp.uid, stamp.gid);
        for tried in 0.. {
            let temporary = format!("{HIDDEN}/{}{:016x}", objects::TEMPORARY, fresh());
            let object = first.open_write_as(&temporary, OpenWrite::New, guard.object())?;
            let remove = || drop(remove_if_there(&**first, &temporary));
            // Leased before it gets its name, so that the session is never taken for a dead writer's. The lease is on a
            // second handle: the first is closed after its write.
            let leased: Option<LeasedObject> =
                object.reopen().ok().map(Arc::from).and_then(|again: Arc<dyn WriteObject>| {
                    let lease = again.lease().ok().flatten()?;
                    Some((again, lease))
                });
            let Some((again, lease)) = leased else {
                remove();
                return Ok(None);
            };
            let written = object.write_at(0, &[IoSlice::new(&bytes)]).and_then(|()| object.close());
            match written.and_then(|()| first.rename_new(&temporary, path)) {
                Ok(()) => {
                    let object = again;
                    let inline = InlineObject::of_new(container, first, path, object.clone(), start);
                    inline.made(begins, bytes.len() as u64 - start);
                    return Ok(Some((Opened { stamp, inline: Some(inline) }, home, (object, lease))));
                }
                Err(e) if e.kind() == ErrorKind::Unsupported => {
                    remove();
                    return Ok(None);
                }
                // Removed by a repair, or there is no such folder.
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    self.has_above(path)?;
                    if tried >= objects::MOST_TRIES || first.exists(&temporary)? {
                        remove();
                        return Err(e);
                    }
                }
                Err(e) => {
                    remove();
                    return Err(match e.kind() {
                        ErrorKind::AlreadyExists => errno::failure(Errno::EXIST, "make", path),
                        _ => e,
                    });
                }
            }
        }
        Ok(None)
    }

    /// Creates a file: the container first, then its name. `AlreadyExists` if another process created it first.
    pub(super) fn make(&self, path: &str, torn: bool) -> Result<Stamp> {
        // If the stamp is renamed to its name, the rename fails for a missing folder.
        let renamed = !torn && objects::appears_early(&**self.first());
        if !renamed {
            self.has_above(path)?;
        }
        let stamp = self.stamp(path, None)?;
        let (folder, bytes) = (place::folder(stamp.container), stamp.encode());
        let home = self.stores.all().nth(usize::from(stamp.home)).unwrap_or(self.first());
        match home.capability().modes {
            true => {
                guard::make_in_group(&**home, &folder, Guard::USUAL)?;
                home.make_one_folder(&format!("{folder}/m"), Guard::USUAL)?;
            }
            false => home.make_folder(&format!("{folder}/m"))?,
        }
        put_new(&**home, &Place::stamp_of(&stamp), &bytes)?;
        // The container may be on another store than names: the temporary object is on the store of names.
        let temporary = format!("{HIDDEN}/{}{:016x}", objects::TEMPORARY, fresh());
        let named = match torn {
            false => objects::put_new_whole(&**self.first(), &temporary, path, &bytes, 0o666),
            true => self.replace_torn(&temporary, path, &bytes),
        };
        if let Err(e) = named {
            let _ = removal::remove_container(&Place::of_stamp(stamp, self.stores.clone()));
            if renamed && e.kind() == ErrorKind::NotFound {
                self.has_above(path)?;
            }
            return Err(e);
        }
        Ok(stamp)
    }

    /// Fails if the parent of a name is no folder.
    pub(super) fn has_above(&self, path: &str) -> Result<()> {
        let above = name::folder_of(path);
        if above.is_empty() {
            return Ok(());
        }
        let about = self.first().stat(above);
        let about = about.map_err(|e| Error::new(e.kind(), "cannot make").caused_by(e).in_object(path))?;
        match about.is_folder {
            true => Ok(()),
            false => Err(errno::failure(Errno::NOTDIR, "make", path)),
        }
    }

    /// Writes the stamp of a name whose creation was interrupted; `AlreadyExists` if another process did that meanwhile.
    pub(super) fn replace_torn(&self, temporary: &str, path: &str, bytes: &[u8]) -> Result<()> {
        let first = self.first();
        let _alone = match first.lock(path, true) {
            Err(e) if e.kind() == ErrorKind::Unsupported => None,
            outcome => outcome?,
        };
        match first.stat(path)?.length {
            0 => objects::put_whole(&**first, temporary, path, bytes, 0o666),
            _ => Err(errno::failure(Errno::EXIST, "make", path)),
        }
    }

    /// Opens a file for writing, or creates it; also returns how it was created.
    pub(super) fn open_or_make(&self, path: &str, how: OpenWrite, writer: u32) -> Result<(Arc<File>, Option<Made>)> {
        let mut path = path.to_string();
        if how != OpenWrite::Existing {
            self.folder_stays_inside(&path)?;
        }
        // Another process may remove the file between two steps.
        for _ in 0..100 {
            let path = &mut path;
            // No lookup first: the creation fails if the name is taken.
            if how == OpenWrite::New
                && let Some((opened, home, inline)) = self.make_small(path, writer)?
            {
                return Ok((self.file(opened), Some(Made::Small(home, inline))));
            }
            let looked = match self.made_or_empty(path, || self.look_to_write(path)) {
                Err(e) if e.kind() == ErrorKind::NotFound && how != OpenWrite::Existing => None,
                // A link occupies its name, whatever its target.
                Err(_) if how == OpenWrite::New && self.link_at(path)?.is_some() => {
                    return Err(errno::failure(Errno::EXIST, "make", path));
                }
                looked => Some(looked?),
            };
            let torn = match looked {
                Some(Looked::File(_)) if how == OpenWrite::New => {
                    return Err(errno::failure(Errno::EXIST, "make", path));
                }
                Some(Looked::File(file)) => return Ok((file, None)),
                Some(Looked::Empty(_)) if how == OpenWrite::Existing => return Err(interrupted(path)),
                Some(Looked::Empty(_)) => true,
                None => false,
            };
            let made = match torn {
                true => Ok(None),
                false => self.make_small(path, writer),
            };
            let made = made.and_then(|made| match made {
                Some((opened, home, inline)) => Ok((opened, Made::Small(home, inline))),
                None => self.make(path, torn).map(|stamp| (Opened { stamp, inline: None }, Made::Folder)),
            });
            match made {
                // New: there are no marks to read.
                Ok((opened, made)) => return Ok((self.file(opened), Some(made))),
                // Possibly a link to a name that is free.
                Err(e) if e.kind() == ErrorKind::AlreadyExists && how != OpenWrite::New => {
                    *path = self.end_of_links(path)?;
                }
                Err(e) => return Err(e),
            }
        }
        Err(Error::new(ErrorKind::Io, "cannot open: other processes make and remove the file all the time")
            .in_object(path))
    }
}
