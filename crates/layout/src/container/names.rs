//! Lookup of a name: a file's stamp and the records behind it, or a link; and the file's present state.
//!
//! | question | answer |
//! |----------|--------|
//! | one open | attributes, stamp and records are read from one object, opened once: one query of the open object, one read |
//! | a file that this process has open | is queried through its open object; any other file is as it was just read |
//! | links    | are the store's own if it keeps links; else a stamp contains the target |
//! | replaced meanwhile | if the container is gone, the name is looked up once more |
//! | far away | while the name is read, the marks of the container that it probably names are listed, and the file's synopsis is read ([`synopsis`](super::synopsis)) |
//! | an empty name object | another process is creating it: the lookup waits |

use super::attributes::StoredAttributes;
use super::file::File;
use super::inline_object::{self, Opened};
use super::place::Place;
use super::stamp::Stamp;
use super::synopsis::Guessed;
use super::{Container, LONGEST_PAUSE, PATIENCE};
use crate::links::{self, Step};
use crate::{Attributes, Kind, ReadObject, Stat, errno};
use rustix::io::Errno;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_store::name;
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes of the object of a name that are read with the request that opens it.
const FIRST: usize = 64 << 10;
/// Folders whose parts are known to be no links out of the layout.
const MOST_INSIDE: usize = 4096;

/// What a file is looked up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Its state.
    Look,
    /// Its bytes.
    Read,
    /// A handle that may write: the marks of a container with packed sessions are refreshed by the first call that needs them.
    Write,
}

/// The result of a lookup.
pub(super) enum Found {
    File(Box<Opened>),
    Link(String),
}

/// The error for a name whose making was interrupted, where a file is needed.
pub(super) fn interrupted(path: &str) -> Error {
    let what = "the creation of this file was interrupted, and nothing was written to it";
    Error::new(ErrorKind::Torn, what).in_object(path)
}

/// The result of a lookup of a name whose making may have been interrupted.
pub(super) enum Looked {
    File(Arc<File>),
    /// Nothing was written to it: the empty object that its interrupted making left.
    Empty(Stat),
}

/// A name as the store of names describes it, links not followed.
pub(super) struct Named {
    pub(super) kind: Kind,
    pub(super) links: u64,
    /// Its attributes, on stores that keep them.
    pub(super) about: Option<Attributes>,
}

/// An object of the store of names, opened for reading, and its length.
pub(super) type Object = (Box<dyn ReadObject>, u64);

/// The present state of a name that a stamp describes.
pub(super) enum NameState {
    Link { length: u64, stored: StoredAttributes },
    File { file: Arc<File>, length: u64, stored: StoredAttributes },
}

impl Container {
    /// A name as the store describes it; and its object, opened, if it has one and the store does both in one call.
    pub(super) fn known(&self, path: &str) -> Result<(Named, Option<Object>)> {
        if !self.first().capability().attributes {
            return Ok((self.named(path)?, None));
        }
        let (about, object) = self.first().open_known(path)?;
        let object = object.map(|object| (object, about.length));
        Ok((Named { kind: about.kind, links: about.links, about: Some(about) }, object))
    }

    /// A name as the store describes it. A link that only a stamp describes counts as a file.
    pub(super) fn named(&self, path: &str) -> Result<Named> {
        if self.first().capability().attributes {
            let about = self.first().attributes(path)?;
            return Ok(Named { kind: about.kind, links: about.links, about: Some(about) });
        }
        let kind = if self.first().stat(path)?.is_folder { Kind::Folder } else { Kind::File };
        Ok(Named { kind, links: 1, about: None })
    }

    /// As [`Container::known`], with the store's own links followed.
    pub(super) fn stat_known(&self, path: &str) -> Result<(Stat, Option<Object>)> {
        if self.first().capability().attributes {
            let (about, object) = self.first().open_known(path)?;
            let is_folder = about.kind == Kind::Folder;
            if about.kind != Kind::Link {
                let object = object.map(|object| (object, about.length));
                return Ok((Stat { length: about.length, is_folder, identity: about.identity }, object));
            }
        }
        Ok((self.first().stat(path)?, None))
    }

    /// Looks a name up.
    pub(super) fn found(&self, path: &str) -> Result<Found> {
        // A link of the store's own is followed by an open of its name.
        let object = match self.first().capability().attributes {
            true => {
                let (named, object) = self.known(path)?;
                if named.kind == Kind::Link {
                    self.stays_inside(path)?;
                }
                object
            }
            false => None,
        };
        self.found_in(path, object)
    }

    /// Fails for a name that a link of the store's own leads out of the layout: the store follows it to a file that may exist,
    /// but is none of this layout.
    ///
    /// # Errors
    /// `ENOENT`, with which a door follows the link itself; a failed lookup.
    /// # Cost
    /// One lookup per part of the name, on stores that keep links.
    fn stays_inside(&self, path: &str) -> Result<()> {
        if !self.first().capability().attributes {
            return Ok(());
        }
        match links::walk(path, true, |name| self.link_at(name))? {
            Some(_) => Ok(()),
            None => Err(errno::failure(Errno::NOENT, "follow a link that leads out of the layout", path)),
        }
    }

    /// As [`Container::stays_inside`], for the folder of a name that is about to be created; asked once for each folder.
    pub(super) fn folder_stays_inside(&self, path: &str) -> Result<()> {
        let folder = name::folder_of(path);
        if folder.is_empty() || self.folders_inside.lock().contains(folder) {
            return Ok(());
        }
        self.stays_inside(folder)?;
        let mut inside = self.folders_inside.lock();
        if inside.len() >= MOST_INSIDE {
            inside.clear();
        }
        inside.insert(folder.to_string());
        Ok(())
    }

    /// As [`Container::found`].
    ///
    /// - `known`: the object of the name, if it was just opened.
    pub(super) fn found_in(&self, path: &str, mut known: Option<Object>) -> Result<Found> {
        let (started, mut pause, mut empty) = (Instant::now(), Duration::from_millis(1), false);
        loop {
            let mut first = None;
            let (object, length) = match known.take() {
                Some(known) => known,
                None => {
                    let (object, bytes) = self.first().open_first(path, FIRST)?;
                    let length = object.length().map_err(|e| e.in_object(path))?;
                    first = Some(bytes);
                    (object, length)
                }
            };
            let bytes = match first.filter(|bytes| bytes.len() as u64 == length) {
                Some(bytes) => bytes,
                None => inline_object::read(&*object, length).map_err(|e| e.in_object(path))?,
            };
            if bytes.is_empty() && !empty {
                empty = true;
                self.stays_inside(path)?;
            }
            if bytes.is_empty() && started.elapsed() < PATIENCE {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            if bytes.is_empty() {
                return Err(interrupted(path));
            }
            let opened = Opened::new(self.first(), path, Some(object), &bytes);
            if opened.as_ref().is_err_and(|e| e.kind() == ErrorKind::Corrupt) {
                self.stays_inside(path)?;
            }
            let opened = opened.map_err(|e| e.in_object(path))?;
            return Ok(match opened.stamp.link {
                Some(target) => Found::Link(target),
                None => Found::File(Box::new(opened)),
            });
        }
    }

    /// The file under a name, links followed, and the name it has.
    pub(super) fn follow(&self, path: &str) -> Result<(String, Opened)> {
        self.follow_from(path, None)
    }

    pub(super) fn follow_from(&self, path: &str, mut known: Option<Object>) -> Result<(String, Opened)> {
        let step = |path: &str| {
            let found = match known.take() {
                Some(object) => self.found_in(path, Some(object))?,
                None => self.found(path)?,
            };
            Ok(match found {
                Found::File(opened) => Step::Here((path.to_string(), *opened)),
                Found::Link(target) => Step::Link { at: path.to_string(), target },
            })
        };
        links::follow(path, step, |name| self.link_at(name))
    }

    /// The container's open state in this process, created if there is none.
    pub(super) fn file(&self, opened: Opened) -> Arc<File> {
        self.open_here(opened).0
    }

    /// As [`Container::file`]; also whether it was open before.
    fn open_here(&self, opened: Opened) -> (Arc<File>, bool) {
        let mut files = self.files.lock();
        let number = opened.stamp.container;
        if let Some(file) = files.get(&number).and_then(std::sync::Weak::upgrade) {
            return (file, true);
        }
        let place = Arc::new(Place::new(opened, self.stores.clone()));
        let file = Arc::new(File::new(place, self.options.clone()));
        files.retain(|_, file| file.strong_count() > 0);
        files.insert(number, Arc::downgrade(&file));
        (file, false)
    }

    /// As [`Container::file`], with marks refreshed.
    fn looked_at(&self, opened: Opened) -> Result<Arc<File>> {
        self.looked_at_for(opened, Purpose::Look, None)
    }

    /// - `guessed`: what was read while the name was looked up.
    fn looked_at_for(&self, opened: Opened, purpose: Purpose, guessed: Option<Guessed>) -> Result<Arc<File>> {
        let (file, was_open) = self.open_here(opened);
        // Asked after it is registered: a later removal by this process finds this handle and leaves the container to it.
        if self.going.has(file.place.stamp.container) {
            return Err(Error::new(ErrorKind::Io, "the container of this file is gone"));
        }
        file.place.has_home()?;
        match file.place.names_inside().filter(|_| !was_open) {
            _ if purpose == Purpose::Write && !was_open && file.place.stamp.packed => file.look_later(),
            None if !was_open && guessed.is_some() => file.see_guessed(guessed.unwrap_or_default())?,
            Some(names) => file.see(&names)?,
            None => file.look()?,
        }
        Ok(file)
    }

    /// A file by its name, with marks refreshed.
    pub(super) fn look(&self, path: &str) -> Result<Arc<File>> {
        self.look_in(path, None)
    }

    /// As [`Container::look`].
    ///
    /// - `known`: as for [`Container::found_in`].
    pub(super) fn look_in(&self, path: &str, known: Option<Object>) -> Result<Arc<File>> {
        self.look_for(path, known, Purpose::Look)
    }

    /// As [`Container::look`], for a handle that may write.
    pub(super) fn look_to_write(&self, path: &str) -> Result<Arc<File>> {
        self.look_for(path, None, Purpose::Write)
    }

    /// As [`Container::look`], for a handle that reads.
    pub(super) fn look_to_read(&self, path: &str) -> Result<Arc<File>> {
        self.look_for(path, None, Purpose::Read)
    }

    fn look_for(&self, path: &str, mut known: Option<Object>, purpose: Purpose) -> Result<Arc<File>> {
        let mut last = None;
        loop {
            let mut follow = || self.stores.while_identified(|| self.follow_from(path, known.take()));
            let (found, guess) = match purpose {
                // What is guessed may have changed since.
                _ if last.is_some() => (follow(), None),
                Purpose::Write => (follow(), None),
                Purpose::Look | Purpose::Read => self.while_guessed(path, purpose == Purpose::Read, follow),
            };
            let (path, opened) = found?;
            let number = opened.stamp.container;
            let guessed = guess.and_then(|guess| guess.of(&opened.stamp));
            match self.looked_at_for(opened, purpose, guessed) {
                // Replaced or removed since its stamp was read: look the name up again, unless it leads to the same container.
                Err(e) if e.kind() == ErrorKind::Io && last != Some(number) => last = Some(number),
                outcome => return outcome.map_err(|e| e.in_object(path)),
            }
        }
    }

    /// Looks a file up whose name may be one whose making was interrupted.
    ///
    /// - `look`: the lookup. It fails with `Torn` for an empty name; another process may have made the file since, so that the
    ///   name is looked up again where it is no longer empty.
    ///
    /// # Errors
    /// Errors of `look`.
    pub(super) fn made_or_empty(&self, path: &str, mut look: impl FnMut() -> Result<Arc<File>>) -> Result<Looked> {
        let mut again = true;
        loop {
            match look() {
                Err(e) if e.kind() == ErrorKind::Torn => match self.first().stat(path) {
                    Ok(about) if !about.is_folder && about.length == 0 => return Ok(Looked::Empty(about)),
                    _ if !std::mem::take(&mut again) => return Err(e),
                    _ => {}
                },
                outcome => return outcome.map(Looked::File),
            }
        }
    }

    /// The present state of a file or link that a stamp describes.
    ///
    /// - `known`: as for [`Container::found_in`].
    pub(super) fn seen(&self, path: &str, known: Option<Object>) -> Result<NameState> {
        let known = Cell::new(known);
        let found = || match known.take() {
            Some(object) => self.found_in(path, Some(object)),
            None => self.found(path),
        };
        self.steady(path, || match found()? {
            Found::Link(target) => {
                let stamp = Stamp::decode(&thalweg_store::StoreExt::read_all(&**self.first(), path)?)?;
                Ok(NameState::Link {
                    length: target.len() as u64,
                    stored: StoredAttributes { mode: 0o777, ..StoredAttributes::of(&stamp) },
                })
            }
            Found::File(opened) => {
                let file = self.looked_at(*opened)?;
                let length = file.length()?;
                let (stored, _) = self.file_attributes(&file)?;
                Ok(NameState::File { file, length, stored })
            }
        })
        .map_err(|e| e.in_object(path))
    }

    /// Runs the call; again if it fails because another file now has the name.
    ///
    /// # Errors
    /// `NotFound` if the name was removed; else errors of the call.
    pub(super) fn steady<T>(&self, path: &str, call: impl Fn() -> Result<T>) -> Result<T> {
        let mut before = None;
        loop {
            let e = match call() {
                Err(e) if e.kind() == ErrorKind::Io => e,
                outcome => return outcome,
            };
            match self.follow(path) {
                Ok((_, opened)) if before == Some(opened.stamp.container) => return Err(e),
                Ok((_, opened)) => before = Some(opened.stamp.container),
                Err(missing) if missing.kind() == ErrorKind::NotFound => return Err(missing),
                Err(_) => return Err(e),
            }
        }
    }

    /// Target of the link of this name; `None` if it is no link.
    pub(super) fn link_at(&self, path: &str) -> Result<Option<String>> {
        if self.first().capability().attributes {
            return links::target_of(self.first().attributes(path), || self.first().read_link(path));
        }
        match self.found(path) {
            Ok(Found::Link(target)) => Ok(Some(target)),
            Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => Err(e),
            _ => Ok(None),
        }
    }

    /// Final target of links: a file, a folder or a free name.
    pub(super) fn end_of_links(&self, path: &str) -> Result<String> {
        let step = |path: &str| {
            Ok(match self.link_at(path)? {
                Some(target) => Step::Link { at: path.to_string(), target },
                None => Step::Here(path.to_string()),
            })
        };
        links::follow(path, step, |name| self.link_at(name))
    }

    /// The container that loses its last name. A link is no name of its target.
    ///
    /// - `known`: as for [`Container::found_in`].
    pub(super) fn last_name(&self, path: &str, named: &Named, known: Option<Object>) -> Option<Opened> {
        if named.kind != Kind::File || named.links > 1 {
            return None;
        }
        match self.found_in(path, known) {
            Ok(Found::File(opened)) => Some(*opened),
            _ => None,
        }
    }

    /// As [`Container::last_name`], for a name that is about to be replaced.
    pub(super) fn last_name_at(&self, path: &str) -> Option<Opened> {
        let (named, known) = self.known(path).ok()?;
        self.last_name(path, &named, known)
    }
}
