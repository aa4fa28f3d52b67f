//! Permission bits and owner of a container's folders and objects: users who may not read a file cannot read its objects.

use super::inline_object::InlineObject;
use super::objects::MOST_TRIES;
use thalweg_store::{Attributes, Change, Kind, Store, name};
use thalweg_types::{Error, ErrorKind, Result};

/// Permission bits and owner of a container's folders, on stores that keep modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard {
    /// Permission bits of its folders.
    pub folder: u32,
    /// Owner.
    pub uid: u32,
    /// Owner's group.
    pub gid: u32,
}

impl Guard {
    /// Permission bits of the folder of a file of mode 0644.
    pub const USUAL: u32 = 0o755;

    /// The guard of a file with these permission bits: users who may write the file may make objects in its folders, users who may
    /// read the file may list them, others may do neither. The owner may do both.
    pub fn of(mode: u32, uid: u32, gid: u32) -> Guard {
        let class = |shift: u32| match mode >> shift & 7 {
            bits if bits & 2 != 0 => 7 << shift,
            bits if bits & 4 != 0 => 5 << shift,
            _ => 0,
        };
        Guard { folder: 0o700 | class(3) | class(0), uid, gid }
    }

    /// Permission bits of objects in these folders.
    pub fn object(&self) -> u32 {
        0o600 | self.folder & 0o066
    }

    fn change(&self, about: &Attributes) -> Change {
        let other = |now: u32, wanted: u32| (now != wanted).then_some(wanted);
        let mode = if about.kind == Kind::Folder { self.folder } else { self.object() };
        Change {
            mode: other(about.mode & 0o777, mode),
            uid: other(about.uid, self.uid),
            gid: other(about.gid, self.gid),
            ..Change::default()
        }
    }

    /// Applies it to one object or folder.
    pub fn give(&self, store: &dyn Store, name: &str) -> Result<()> {
        self.give_known(store, name, &store.attributes(name)?)
    }

    /// Applies it to the object of a file's name, which is open.
    pub fn give_open(&self, inline: &InlineObject) -> Result<()> {
        let change = self.change(&inline.attributes()?);
        if change.uid.is_some() || change.gid.is_some() {
            inline.set_attributes(&Change { mode: None, ..change }).or_else(foreign)?;
        }
        match change.mode {
            Some(_) => inline.set_attributes(&Change { mode: change.mode, ..Change::default() }),
            None => Ok(()),
        }
    }

    /// As [`Guard::give`], where its attributes are known.
    fn give_known(&self, store: &dyn Store, name: &str, about: &Attributes) -> Result<()> {
        let change = self.change(about);
        if change.uid.is_some() || change.gid.is_some() {
            // Without the privilege to change owners, objects keep theirs, as the file does.
            store.set_attributes(name, &Change { mode: None, ..change }).or_else(foreign)?;
        }
        match change.mode {
            Some(_) => store.set_attributes(name, &Change { mode: change.mode, ..Change::default() }),
            None => Ok(()),
        }
    }

    /// Applies it to a folder, then to everything in it. Objects of other users inside are skipped: the folder's mode keeps those
    /// users out.
    pub fn give_all(&self, store: &dyn Store, folder: &str) -> Result<()> {
        let about = store.attributes(folder)?;
        self.give_all_known(store, folder, &about)
    }

    fn give_all_known(&self, store: &dyn Store, folder: &str, about: &Attributes) -> Result<()> {
        self.give_known(store, folder, about)?;
        for name in store.list(folder)? {
            let name = format!("{folder}/{name}");
            let given = match store.attributes(&name) {
                Ok(about) if about.kind == Kind::Folder => self.give_all_known(store, &name, &about),
                Ok(about) => self.give_known(store, &name, &about),
                Err(e) => Err(e),
            };
            match given {
                // An object on another node of a burst buffer: until that node drains the object, its folder protects it.
                Err(e) if e.kind() == ErrorKind::NotReady => {}
                Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Ignores `PermissionDenied`: an object that one user makes in another's folder keeps its owner.
pub fn foreign(e: Error) -> Result<()> {
    if e.kind() == ErrorKind::PermissionDenied { Ok(()) } else { Err(e) }
}

/// Makes the folder that holds containers or logs of one group of numbers. Only its owner may list it; other users learn a
/// container's number from its stamp.
fn make_group(store: &dyn Store, folder: &str) -> Result<()> {
    store.make_folder(name::folder_of(folder))?;
    match store.make_one_folder(folder, 0o733) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome,
    }
}

/// Makes a folder below a group's; one that is there is no error. `true` where it was made.
pub fn make_in_group(store: &dyn Store, folder: &str, mode: u32) -> Result<bool> {
    for tried in 0.. {
        match store.make_one_folder(folder, mode) {
            Ok(()) => return Ok(true),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
            Err(e) if e.kind() == ErrorKind::NotFound && tried < MOST_TRIES => {
                make_group(store, name::folder_of(folder))?;
            }
            Err(e) => return Err(e),
        }
    }
    unreachable!("a hundred tries at most")
}
