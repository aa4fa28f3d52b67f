//! Lookup of a name: its folder and its last part, symbolic links followed. Known folders cost no store request while they stay.
//!
//! | question | answer |
//! |---|---|
//! | which folder | the one that was read under this name before; if its bell has rung or a call finds it missing, the one that has the name now |
//! | links in a name | followed only if a folder is not found, so that names without links cost nothing |
//! | a circle of links | `ELOOP` after 40 ([`links`]) |

use super::folder::{Folder, below};
use super::{HIDDEN, LONGEST_NAME, SmallFile};
use crate::errno;
use crate::links::{self, Step};
use rustix::io::Errno;
use std::sync::Arc;
use thalweg_store::name;
use thalweg_types::{Error, ErrorKind, Result};

impl SmallFile {
    /// Calls with the folder of a name and the last part of the name; once more if the known folder was removed or
    /// renamed meanwhile.
    pub(super) fn at<T>(&self, path: &str, mut call: impl FnMut(&Arc<Folder>, &str) -> Result<T>) -> Result<T> {
        let plain = name::relative(path)?;
        if plain.split('/').any(|part| part == HIDDEN) {
            return Err(errno::failure(Errno::NOENT, "use a name reserved for the layout", path));
        }
        let (above, last) = (name::folder_of(&plain), name::last_part(&plain));
        if last.is_empty() {
            return Err(errno::failure(Errno::ISDIR, "use the root folder as a file", path));
        }
        if last.len() > LONGEST_NAME {
            return Err(errno::failure(Errno::NAMETOOLONG, "use a name of more than 255 bytes", path));
        }
        let known = self.map().contains_key(above);
        // The error names the requested path, not only an object below.
        let told = |e: Error| match e.place().object.as_deref().is_none_or(|o| o == path) {
            true => e.in_object(path),
            false => Error::new(e.kind(), "cannot do this with a small file").caused_by(e).in_object(path),
        };
        match self.folder(above).and_then(|folder| call(&folder, last)) {
            Err(e) if known && e.kind() == ErrorKind::NotFound && !self.stays(above)? => {
                self.map().remove(above);
                let above = self.through_links(above).map_err(told)?;
                self.folder(&above).and_then(|folder| call(&folder, last)).map_err(told)
            }
            Err(e) if !known && matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => {
                match self.through_links(above) {
                    Ok(led) if led != above => self.folder(&led).and_then(|folder| call(&folder, last)).map_err(told),
                    Err(links) if errno::of(&links) == Errno::LOOP.raw_os_error() => Err(told(links)),
                    _ => Err(told(e)),
                }
            }
            other => other.map_err(told),
        }
    }

    /// Like [`SmallFile::at`]; tries again if a file was removed while it was opened.
    pub(super) fn until_opened<T>(
        &self,
        path: &str,
        mut call: impl FnMut(&Arc<Folder>, &str) -> Result<Option<T>>,
    ) -> Result<T> {
        for _ in 0..1000 {
            if let Some(opened) = self.at(path, &mut call)? {
                return Ok(opened);
            }
        }
        Err(errno::failure(Errno::BUSY, "open a file that others replace all the time", path))
    }

    /// Whether a known folder still exists. Removing or renaming it rings its bell: while the bell does not change, no request is
    /// sent to the store.
    pub(super) fn stays(&self, folder: &str) -> Result<bool> {
        let known = self.map().get(folder).cloned();
        match known.is_some_and(|known| known.is_silent()) {
            true => Ok(true),
            false => self.is_there(folder),
        }
    }

    /// The folder of this name, symbolic links followed.
    pub(super) fn through_links(&self, folder: &str) -> Result<String> {
        match links::walk(folder, true, |name| self.link(name))? {
            Some(walked) => Ok(walked.name),
            None => Err(errno::failure(Errno::NOENT, "follow a link that leads out of the layout", folder)),
        }
    }

    /// Contents of the link of a name whose folder is no link; `None` for any other name.
    fn link(&self, path: &str) -> Result<Option<String>> {
        self.folder(name::folder_of(path))?.fresh()?.target(name::last_part(path))
    }

    /// A name with the links in its folder followed, for calls that pass it to the store.
    pub(super) fn plain(&self, path: &str) -> Result<String> {
        let plain = name::relative(path)?.into_owned();
        let above = name::folder_of(&plain);
        if above.is_empty() || self.map().contains_key(above) || self.is_there(above)? {
            return Ok(plain);
        }
        // If the folder cannot be resolved, the call itself reports the error.
        let led = self.through_links(above).unwrap_or_else(|_| above.to_string());
        Ok(below(&led, name::last_part(&plain)))
    }

    /// Calls with a name and, as long as that is a symbolic link, with the name it leads to.
    pub(super) fn led<T>(&self, path: &str, call: impl FnMut(&str) -> Result<Step<T>>) -> Result<T> {
        links::follow(path, call, |name| self.link(name))
    }

    pub(super) fn is_there(&self, folder: &str) -> Result<bool> {
        match self.store.stat(folder) {
            Ok(about) => Ok(about.is_folder),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    pub(super) fn is_folder(&self, path: &str) -> Result<bool> {
        if name::relative(path)?.is_empty() {
            return Ok(true);
        }
        self.at(path, |folder, last| {
            let mut inner = folder.fresh()?;
            if inner.file(last).is_some() {
                return Ok(false);
            }
            match folder.real(&mut inner, last)? {
                Some(is_folder) => Ok(is_folder),
                None => Err(errno::failure(Errno::NOENT, "find", path)),
            }
        })
    }
}
