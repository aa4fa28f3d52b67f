//! What stands under a name: a file's stamp, with what lies behind it, or a link; and the file as it is now.
//!
//! | question | answer |
//! |----------|--------|
//! | one open | attributes of a name, its stamp and all behind it are of one object, opened once: one look at the open object, one read |
//! | a file that nobody here has open | is as it was read just now; one that is open here is looked at through what has it open |
//! | links    | of stores that keep links are the store's; of others a stamp says where they lead |
//! | replaced meanwhile | whoever finds its container gone asks the name once more |
//! | a name without bytes | is waited for: another process is making it |

use super::attributes::StoredAttributes;
use super::drawer::{self, Opened};
use super::file::File;
use super::place::Place;
use super::stamp::Stamp;
use super::{Container, LONGEST_PAUSE, PATIENCE};
use crate::links::{self, Step};
use crate::{Attributes, Kind, ReadObject, Stat};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_types::{Error, ErrorKind, Result};

/// What stands under a name.
pub(super) enum Found {
    File(Box<Opened>),
    Link(String),
}

/// What the store of names says of a name itself, in one call.
pub(super) struct Named {
    pub(super) kind: Kind,
    pub(super) links: u64,
    /// All that it says, where it keeps attributes.
    pub(super) about: Option<Attributes>,
}

/// An object of the store of names, opened for reading, and its length.
pub(super) type Object = (Box<dyn ReadObject>, u64);

/// A name as it is now, but for folders and links that the store keeps itself.
pub(super) enum Seen {
    Link { length: u64, kept: StoredAttributes },
    File { file: Arc<File>, length: u64, kept: StoredAttributes },
}

impl Container {
    /// What the store of names says of a name itself, and its object, opened, where it is one and the store tells both at once.
    pub(super) fn known(&self, path: &str) -> Result<(Named, Option<Object>)> {
        if !self.first().capability().attributes {
            return Ok((self.named(path)?, None));
        }
        let (about, object) = self.first().open_known(path)?;
        let object = object.map(|object| (object, about.length));
        Ok((Named { kind: about.kind, links: about.links, about: Some(about) }, object))
    }

    /// What the store of names says of a name itself; of a link that it does not know as one that it is a file.
    pub(super) fn named(&self, path: &str) -> Result<Named> {
        if self.first().capability().attributes {
            let about = self.first().attributes(path)?;
            return Ok(Named { kind: about.kind, links: about.links, about: Some(about) });
        }
        let kind = if self.first().stat(path)?.is_folder { Kind::Folder } else { Kind::File };
        Ok(Named { kind, links: 1, about: None })
    }

    /// As [`Container::known`], of what a link of the store's own leads to.
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

    /// What stands under a name.
    pub(super) fn found(&self, path: &str) -> Result<Found> {
        // A link of the store's own is followed by an open of its name.
        let object = match self.first().capability().attributes {
            true => self.known(path)?.1,
            false => None,
        };
        self.found_in(path, object)
    }

    /// As [`Container::found`].
    ///
    /// - `known`: the object of the name, where it was opened just now.
    pub(super) fn found_in(&self, path: &str, mut known: Option<Object>) -> Result<Found> {
        let (started, mut pause) = (Instant::now(), Duration::from_millis(1));
        loop {
            let (object, length) = match known.take() {
                Some(known) => known,
                None => {
                    let object = self.first().open_read(path)?;
                    let length = object.length().map_err(|e| e.in_object(path))?;
                    (object, length)
                }
            };
            let bytes = drawer::read(&*object, length).map_err(|e| e.in_object(path))?;
            if bytes.is_empty() && started.elapsed() < PATIENCE {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            if bytes.is_empty() {
                let what = "the making of this file was interrupted; nothing was ever written to it";
                return Err(Error::new(ErrorKind::Torn, what).in_object(path));
            }
            let opened = Opened::new(self.first(), path, Some(object), &bytes).map_err(|e| e.in_object(path))?;
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

    /// A container, as this process has it open.
    pub(super) fn file(&self, opened: Opened) -> Arc<File> {
        self.open_here(opened).0
    }

    /// As [`Container::file`]; whether it was open here before.
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

    /// As [`Container::file`], looked at.
    fn looked_at(&self, opened: Opened) -> Result<Arc<File>> {
        let (file, was_open) = self.open_here(opened);
        // Asked once it is known here: whoever takes the name afterwards finds this handle, and leaves the rest to it.
        if self.going.has(file.place.stamp.container) {
            return Err(Error::new(ErrorKind::Io, "the container of this file is gone"));
        }
        file.place.has_home()?;
        match file.place.names_inside().filter(|_| !was_open) {
            Some(names) => file.see(&names)?,
            None => file.look()?,
        }
        Ok(file)
    }

    /// A file by its name, looked at.
    pub(super) fn look(&self, path: &str) -> Result<Arc<File>> {
        self.look_in(path, None)
    }

    /// As [`Container::look`].
    ///
    /// - `known`: as for [`Container::found_in`].
    pub(super) fn look_in(&self, path: &str, mut known: Option<Object>) -> Result<Arc<File>> {
        let mut last = None;
        loop {
            let (path, opened) = self.follow_from(path, known.take())?;
            let number = opened.stamp.container;
            match self.looked_at(opened) {
                // Replaced or removed since its stamp was read, which is read again; unless that still says the same.
                Err(e) if e.kind() == ErrorKind::Io && last != Some(number) => last = Some(number),
                outcome => return outcome.map_err(|e| e.in_object(path)),
            }
        }
    }

    /// A file or link that a stamp tells of, as it is now.
    ///
    /// - `known`: as for [`Container::found_in`].
    pub(super) fn seen(&self, path: &str, known: Option<Object>) -> Result<Seen> {
        let known = Cell::new(known);
        let found = || match known.take() {
            Some(object) => self.found_in(path, Some(object)),
            None => self.found(path),
        };
        self.steady(path, || match found()? {
            Found::Link(target) => {
                let stamp = Stamp::decode(&thalweg_store::StoreExt::read_all(&**self.first(), path)?)?;
                Ok(Seen::Link {
                    length: target.len() as u64,
                    kept: StoredAttributes { mode: 0o777, ..StoredAttributes::of(&stamp) },
                })
            }
            Found::File(opened) => {
                let file = self.looked_at(*opened)?;
                let length = file.length()?;
                let (kept, _) = self.kept(&file)?;
                Ok(Seen::File { file, length, kept })
            }
        })
        .map_err(|e| e.in_object(path))
    }

    /// Calls, and once more where it fails since another file has the name now.
    ///
    /// # Errors
    /// `NotFound` where the name is gone, too; else those of the call.
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

    /// What the link of this name holds; `None` where it is no link.
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

    /// Where links lead: to a file, a folder or a name that is free.
    pub(super) fn end_of_links(&self, path: &str) -> Result<String> {
        let step = |path: &str| {
            Ok(match self.link_at(path)? {
                Some(target) => Step::Link { at: path.to_string(), target },
                None => Step::Here(path.to_string()),
            })
        };
        links::follow(path, step, |name| self.link_at(name))
    }

    /// The container that loses a name, where that is its last one. A link is no name of what it leads to.
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

    /// As [`Container::last_name`], of a name that is about to be replaced.
    pub(super) fn last_name_at(&self, path: &str) -> Option<Opened> {
        let (named, known) = self.known(path).ok()?;
        self.last_name(path, &named, known)
    }
}
