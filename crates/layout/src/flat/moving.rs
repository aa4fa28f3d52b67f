//! Renames: of folders on all stores, of files from one store to another.

use super::*;

/// Bytes per read of a copy to another store.
pub(super) const COPY: usize = 4 << 20;

/// Smallest file in bytes that is copied before its rename: shorter ones are copied as fast as their attributes are read.
pub(super) const AHEAD: u64 = 4 << 20;

/// A copy of a file on another store, under a temporary name.
pub(super) struct Copied {
    pub(super) between: String,
    /// Attributes of the file before the copy.
    pub(super) of: Attributes,
    pub(super) _lease: Option<Lease>,
}

impl Flat {
    pub(super) fn rename_folder(&self, from: &str, to: &str) -> Result<()> {
        // Everything that a POSIX rename refuses is refused before any change.
        if to == from {
            return Ok(());
        }
        if to.starts_with(&format!("{from}/")) {
            return Err(errno::failure(Errno::INVAL, "rename a folder into itself", from));
        }
        let mut replaced = None;
        match self.kind(to) {
            Ok(Kind::File | Kind::Link) => {
                return Err(errno::failure(Errno::NOTDIR, "rename a folder over a file", to));
            }
            Ok(Kind::Folder) if !self.list(to)?.is_empty() => {
                return Err(errno::failure(Errno::NOTEMPTY, "rename over a folder", to));
            }
            Ok(Kind::Folder) => replaced = Some(self.at(to).attributes(to).map_or(0o755, |about| about.mode)),
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
        for store in &self.stores {
            self.complete(from, &**store)?;
            self.complete(above, &**store)?;
        }
        let first = &*self.stores[0];
        let note = Note { from: from.to_string(), to: to.to_string() };
        // The lease lasts until the rename is done: other processes complete the rename only if this one died. If another process
        // finds the note before the lease is taken, it removes the note as that of a dead process: the note is then written again.
        let (object, lease, noted) = loop {
            let object = match first.open_write(NOTE, OpenWrite::New) {
                Ok(object) => object,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    return Err(errno::failure(Errno::BUSY, "rename a folder while another is being renamed", from));
                }
                Err(e) => return Err(e),
            };
            let (lease, leased) = match object.lease() {
                Ok(lease) => (lease, Ok(())),
                Err(e) => (None, Err(e)),
            };
            let noted = leased
                .and_then(|()| object.write_at(0, &[IoSlice::new(&note.encode())]))
                .and_then(|()| object.sync())
                .and_then(|()| first.sync_folder(FOLDER))
                .and_then(|()| first.exists(NOTE));
            if !matches!(noted, Ok(false)) {
                break (object, lease, noted.map(drop));
            }
        };
        let done = noted.and_then(|()| self.carry_out(&note));
        // A rename that fails half way is rolled back.
        let settled = done.is_ok() || self.take_back(&note, replaced).is_ok();
        let removed = if settled { first.remove(NOTE) } else { Ok(()) };
        self.unfinished.store(!settled || removed.is_err(), Ordering::Release);
        drop((lease, object));
        match done {
            // A note that stays is true, and the next call removes it.
            Ok(()) => Ok(()),
            Err(e) if settled => Err(e),
            Err(e) => Err(e.safe("the rename of the folder is recorded; the next use of the mount completes it")),
        }
    }

    /// - `replaced`: the mode of an empty folder that had the new name.
    pub(super) fn take_back(&self, note: &Note, replaced: Option<u32>) -> Result<()> {
        for store in &self.stores {
            if !store.exists(&note.from)? {
                store.rename(&note.to, &note.from)?;
            }
            if let (Some(mode), false) = (replaced, store.exists(&note.to)?) {
                store.make_one_folder(&note.to, mode)?;
            }
        }
        Ok(())
    }

    pub(super) fn carry_out(&self, note: &Note) -> Result<()> {
        for store in &self.stores {
            match store.rename(&note.from, &note.to) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::NotFound && store.exists(&note.to)? => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Completes a rename whose process died or failed.
    pub(super) fn finish_rename(&self) -> Result<()> {
        let first = &*self.stores[0];
        let object = match first.open_read(NOTE) {
            Ok(object) => object,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        if object.life()?.leased == Some(true) {
            return Ok(());
        }
        let length = object.length()?.min(LONGEST_NOTE);
        let mut bytes = vec![0; length as usize];
        object.read_exact_at(0, &mut bytes)?;
        // A process removes its note before it drops the lease; a process that has just begun has the lease by now.
        match first.open_read(NOTE).and_then(|again| again.life()) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
            Ok(life) if life.leased == Some(true) => return Ok(()),
            Ok(_) => {}
        }
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

    pub(super) fn rename_plainly(&self, from: &str, to: &str) -> Result<()> {
        if self.kind(from)? == Kind::Folder {
            return self.rename_folder(from, to);
        }
        if pick(from, self.stores.len()) == pick(to, self.stores.len()) {
            return self.on_new(to, |s| s.rename(from, to));
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

    /// Moves a file to the store that its new name hashes to.
    pub(super) fn move_file(&self, from: &str, to: &str) -> Result<()> {
        let (old, new) = (self.at(from), self.at(to));
        let folder = name::folder_of(to);
        self.complete(folder, new)?;
        let (between, copied) = match self.copy_made(from, to) {
            Some(copy) if Self::unchanged(&copy.of, &old.attributes(from)?) => {
                let renamed = new.rename(&copy.between, to);
                (copy.between, renamed)
            }
            outdated => {
                if let Some(copy) = outdated {
                    let _ = new.remove(&copy.between);
                }
                let between = Self::between(folder);
                let copied = self.copy(old, from, new, &between).and_then(|_| new.rename(&between, to));
                (between, copied)
            }
        };
        if let Err(e) = copied {
            // The first failure is reported.
            let _ = new.remove(&between);
            return Err(Error::new(e.kind(), format!("cannot rename to {to} on another store"))
                .caused_by(e)
                .in_object(from));
        }
        new.sync_folder(folder)?;
        old.remove(from)
    }

    /// Temporary name for a copy in a folder.
    pub(super) fn between(folder: &str) -> String {
        let own = format!("{FOLDER}-{:016x}", fresh());
        if folder.is_empty() { own } else { format!("{folder}/{own}") }
    }

    pub(super) fn copy_made(&self, from: &str, to: &str) -> Option<Copied> {
        let mut copies = self.copies.lock();
        copies.remove(&(from.to_string(), to.to_string()))
    }

    /// Whether a file is unchanged since it was copied.
    pub(super) fn unchanged(before: &Attributes, now: &Attributes) -> bool {
        let of = |a: &Attributes| (a.identity, a.length, a.mtime, a.ctime, a.mode, a.uid, a.gid);
        of(before) == of(now)
    }

    /// Copies a file; returns the lease that shows that this process lives.
    pub(super) fn copy(&self, old: &dyn Store, from: &str, new: &dyn Store, to: &str) -> Result<Option<Lease>> {
        if old.capability().attributes && new.capability().attributes {
            let stored = old.attributes(from)?;
            if stored.kind == Kind::Link {
                return new.make_link(&old.read_link(from)?, to).map(|()| None);
            }
        }
        let source = old.open_read(from)?;
        let target = new.open_write(to, OpenWrite::New)?;
        // Never appends to a copy that a dead process has left.
        let lease = target.lease()?;
        if new.capability().modes {
            // No user can read the copy before it has the file's mode.
            new.set_attributes(to, &Change { mode: Some(0o600), ..Change::default() })?;
        }
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
            let stored = old.attributes(from)?;
            let owner = new.attributes(to)?;
            let changed = |old: u32, new: u32| (old != new).then_some(old);
            new.set_attributes(
                to,
                &Change {
                    mode: Some(stored.mode),
                    uid: changed(stored.uid, owner.uid),
                    gid: changed(stored.gid, owner.gid),
                    atime: Some(stored.atime),
                    mtime: Some(stored.mtime),
                },
            )?;
        }
        Ok(lease)
    }
}
