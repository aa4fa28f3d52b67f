//! Creation of names, with their owner and mode.

use super::{Caller, Door, Entry, PosixCall, Result, SGID, number, number_of, text};
use fuser::Errno;
use std::ffi::OsStr;
use thalweg_layout::{Attributes, Change, Kind, OpenWrite};
use thalweg_open_file::OpenFile;
use thalweg_types::ErrorKind;

const S_IFMT: u32 = 0o170_000;
const S_IFREG: u32 = 0o100_000;

impl Door {
    /// Sets owner and mode of a created file; removes the file if that fails.
    ///
    /// - `open`: the open file, if an open created it.
    pub(super) fn dress(
        &self,
        folder: u64,
        path: &str,
        open: Option<&OpenFile>,
        mode: Option<u32>,
        caller: Caller,
    ) -> Result<Attributes> {
        let dressed = self.try_dress(folder, path, open, mode, caller);
        match &dressed {
            Ok(about) if about.kind == Kind::File => self.attributes.lock().touched(folder, about.ctime),
            Ok(_) => self.changed(folder),
            Err(_) => {
                let _ = self.layout.remove(path);
                self.changed(folder);
            }
        }
        dressed.map_err(number)
    }

    fn try_dress(
        &self,
        folder: u64,
        path: &str,
        open: Option<&OpenFile>,
        mode: Option<u32>,
        caller: Caller,
    ) -> thalweg_types::Result<Attributes> {
        // A file of this machine that the mount's own user creates has the right owner and no more permissions than its
        // mode: one request for its attributes suffices, after the mode is set.
        let own = self.plain && caller.uid == self.uid && caller.gid == self.gid;
        if let (Some(open), Some(mode), true) = (open, mode, own) {
            let change = Change { mode: Some(mode & 0o7777), ..Change::default() };
            match open.set_object_attributes(&change) {
                Err(e) if e.kind() != ErrorKind::Unsupported => return Err(e),
                _ => {}
            }
        }
        let about = self.about_made(path, open)?;
        // On this machine the system itself lets files inherit the folder's group if required: a file with the user's group
        // needs no change.
        let has_group = self.plain && about.kind != Kind::Folder && about.gid == caller.gid;
        let (inherits, gid) = match has_group {
            true => (false, about.gid),
            false => {
                let path_above = self.nodes().path(folder).unwrap_or_default();
                let (above, _) = self.about_known(folder, &path_above)?;
                let inherits = above.mode & SGID != 0;
                (inherits, if inherits { above.gid } else { caller.gid })
            }
        };
        let mode = mode.map(|mode| match about.kind {
            Kind::Folder => mode & 0o1777 | if inherits { SGID } else { 0 },
            _ => mode & 0o7777,
        });
        let other = |now: u32, wanted: u32| (now != wanted).then_some(wanted);
        let change = Change {
            mode: mode.and_then(|mode| other(about.mode, mode)),
            uid: other(about.uid, caller.uid),
            gid: other(about.gid, gid),
            ..Change::default()
        };
        if change == Change::default() {
            return Ok(about);
        }
        let changed = match open.map(|open| open.set_object_attributes(&change)) {
            Some(Err(e)) if e.kind() == ErrorKind::Unsupported => self.layout.set_attributes(path, &change),
            None => self.layout.set_attributes(path, &change),
            Some(outcome) => outcome,
        };
        match changed {
            Ok(()) => self.about_made(path, open),
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(about),
            Err(e) => Err(e),
        }
    }

    /// As [`Door::about`], for a created file: from the open file, if the layout supports that.
    fn about_made(&self, path: &str, open: Option<&OpenFile>) -> thalweg_types::Result<Attributes> {
        match open.map(OpenFile::object_attributes) {
            Some(Err(e)) if e.kind() == ErrorKind::Unsupported => self.about(path),
            None => self.about(path),
            Some(told) => told,
        }
    }

    pub fn make_node(&self, folder: u64, name: &OsStr, mode: u32, caller: Caller) -> Result<Entry> {
        if ![0, S_IFREG].contains(&(mode & S_IFMT)) {
            // Pipes, sockets and devices.
            return Err(Errno::EPERM);
        }
        let name = text(name)?;
        let _names = self.use_names();
        let path = self.below(folder, name)?;
        let made = self.layout.open_write(&path, OpenWrite::New, self.writer).map_err(number)?;
        made.close().map_err(number)?;
        let about = self.dress(folder, &path, None, Some(mode), caller)?;
        Ok(self.entry(folder, name, &about))
    }

    pub fn make_folder(&self, folder: u64, name: &OsStr, mode: u32, caller: Caller) -> Result<Entry> {
        let name = text(name)?;
        let _names = self.use_names();
        let path = self.below(folder, name)?;
        self.layout.make_one_folder(&path, mode & 0o7777).map_err(number)?;
        let about = self.dress(folder, &path, None, Some(mode), caller)?;
        Ok(self.entry(folder, name, &about))
    }

    pub fn make_link(&self, folder: u64, name: &OsStr, target: &OsStr, caller: Caller) -> Result<Entry> {
        let (name, target) = (text(name)?, target.to_str().ok_or(Errno::EILSEQ)?);
        let _names = self.use_names();
        let path = self.below(folder, name)?;
        self.layout.make_link(target, &path).map_err(number_of(PosixCall::Make))?;
        let about = self.dress(folder, &path, None, None, caller)?;
        Ok(self.entry(folder, name, &about))
    }

    pub fn make_hard_link(&self, ino: u64, folder: u64, name: &OsStr) -> Result<Entry> {
        let name = text(name)?;
        let _names = self.change_names();
        let (from, to) = (self.path(ino)?, self.below(folder, name)?);
        self.layout.make_hard_link(&from, &to).map_err(number_of(PosixCall::Make))?;
        self.nodes().linked(ino, folder, name);
        self.changed(folder);
        let about = self.about(&to).map_err(number)?;
        Ok(self.entry(folder, name, &about))
    }
}
