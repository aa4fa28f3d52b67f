//! The container layout: a logical file is a folder of logs, one data log and one index log for each writer, over one or more
//! stores. Programs write N to 1, stores see N to N.
//!
//! | question | answer |
//! |----------|--------|
//! | needs    | of each store: new objects written front to back, range reads, strongly consistent lists. Positional writes, appends after close and renames are not needed |
//! | writers  | each handle writes its own logs, without locks and without waiting for others |
//! | overlaps | the later write by a logical clock ([`clock`]) wins; wall clocks are not used for order |
//! | promises | close-to-open between processes, POSIX within one: `docs/consistency.md` |
//! | a name   | is a small object, the stamp. A rename moves only the stamp |
//! | a small file | on POSIX filesystems is stored in the inline object, after the stamp ([`tail`]); the container's folder is created when it is needed |
//! | a small session far away | is one object, and closed ones are merged into one (`packed`): a step is four requests on S3 |
//! | cost     | an open: one list of the marks (their number grows with the writer sessions), none if the open creates the file; one list for a handle's first write and for each sync, none for a close. A writer session: three marks, one folder, two logs; for a small file one write at its end. A write: a copy into the buffer |
//! | memory   | a handle that writes: its buffer; a file that is read: its index ([`index`]) |
//! | a full store | a write is accepted once space for its bytes is reserved, so that `close` does not run out of space |
//! | a writer that dies | readers get the bytes that it synced; missing bytes are an error, never zeros. [`repair`](crate::Container::repair) closes its session |
//!
//! The bytes are described in `docs/format/container.md`.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`stamp`] | the object of a file's name; the identity of a store |
//! | `names` | lookup of a name: its stamp, or its link |
//! | `making` | creation of files |
//! | `changing` | reads and changes of attributes and extended attributes |
//! | `place` | locations of a container's parts |
//! | `stores` | the stores of a mount and their identities |
//! | `guard` | permission bits and owner of a container's objects |
//! | `objects` | small objects, created atomically |
//! | [`tail`] | the records of an inline object |
//! | `inline_object` | the inline object as one process has it open: the stamp and small sessions after it |
//! | [`marks`] | objects whose names list the sessions and how far each is published |
//! | [`clock`] | the order of writes, the length of a file |
//! | [`record`] | data logs |
//! | [`index`] | index logs, and the index of an open file |
//! | [`attributes`] | mode, owner, times, extended attributes |
//! | [`snapshot`] | the index of a whole container in one object |
//! | [`synopsis`] | what an open far away needs, in one object whose name follows from the file's; the guess of a container from a name |
//! | `packed` | small closed sessions as one object each, and many of them in one |
//! | [`parallel`] | a collective open: each rank reads some of the index logs |
//! | [`part`] | a file whose index is distributed over ranks |
//! | [`tools`] | map, flatten, compact, check, repair |
//!
//! Sources: Bent et al., SC 2009 (PLFS: a log for each writer); Cranor, Polte, Gibson, PDSW 2013 (containers over stores).
//! Differs: data logs contain the offsets of their bytes; nothing is ordered by wall clocks; names are separate objects.

use crate::{
    Attributes, Change, Kind, Layout, OpenWrite, OtherNodes, ReadObject, SetXattr, Space, Stat, WriteObject, WriterId,
    errno, wire,
};
use file::File;
use handle::{Reader, Writer};
use index::Module;
use inline_object::Opened;
use making::Made;
use names::{Found, Looked};
use place::HIDDEN;
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;
use stores::Stores;
use thalweg_store::{ListConsistency, Rename, Store, StoreExt, fresh, name};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

pub mod attributes;
mod changing;
pub mod clock;
mod file;
mod guard;
mod handle;
pub mod index;
mod inline_object;
mod load;
mod making;
pub mod marks;
mod names;
mod objects;
mod packed;
pub mod parallel;
pub mod part;
mod place;
pub mod record;
mod removal;
mod scan;
mod session;
pub mod snapshot;
pub mod stamp;
mod stores;
pub mod synopsis;
pub mod tail;
pub mod tools;

/// The object with a folder's attributes, on stores without attributes.
const OF_FOLDER: &str = ".thalweg.folder";
/// How long to wait for an empty name object, which another process is creating.
const PATIENCE: Duration = Duration::from_millis(2000);
/// Longest pause between two checks of it.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// Options of the containers of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Index module of new containers; existing ones keep theirs. Default `pattern`.
    pub module: Module,
    /// Write buffer of a handle, in bytes. Default 2 MiB: larger buffers made writing slower and less even (RESULTS.md,
    /// layouts).
    pub buffer: usize,
    /// Folders of logs on each store, of new containers. Default 16.
    pub folders: u8,
    /// Largest data log, in bytes, that is stored in the inline object, so that a small file is one object; 0: none.
    /// `None`: 32 KiB over one store; 0 over several, because names are on the first store and small files would not be
    /// spread. Only on POSIX filesystems; elsewhere every log is an object.
    pub inline: Option<usize>,
    /// Longest data log, in bytes. Default 1 TiB, or the store's largest object.
    pub segment: u64,
    /// Name of this host; with the writer's number, picks the store and folder of its logs.
    pub host: String,
    /// Folder on a local disk where `distributed` keeps the index of an open file. Default: the system's temporary folder.
    pub index_folder: PathBuf,
    /// Memory that `distributed` uses for each open file, in bytes. Default 4 MiB.
    pub index_cache: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            module: Module::Pattern,
            buffer: 2 << 20,
            inline: None,
            folders: 16,
            segment: 1 << 40,
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            index_folder: std::env::temp_dir(),
            index_cache: 4 << 20,
        }
    }
}

impl Options {
    /// Largest inline data log, given the number of stores; [`Container::new`] stores the result.
    fn inline(&self, stores: usize) -> usize {
        self.inline.unwrap_or(if stores == 1 { 32 << 10 } else { 0 })
    }
}

/// Largest number of bytes after the stamp at which another session may begin inline; attributes may use the same number in
/// addition.
fn most_inside(inline: usize) -> u64 {
    4 * inline as u64
}

/// The layout that stores files as containers; see the module's page.
pub struct Container {
    stores: Arc<Stores>,
    options: Arc<Options>,
    files: Mutex<HashMap<u128, Weak<File>>>,
    going: Arc<removal::Going>,
    /// Folders that no link leads out of the layout, see [`Container::folder_stays_inside`]. Another process may put such a link in
    /// the place of a folder later; this one forgets them at each change of a name that may be a folder's or link's.
    folders_inside: Mutex<HashSet<String>>,
}

impl Container {
    /// A layout over these stores; the first stores the names.
    ///
    /// # Errors
    /// `Config`, naming the store and the missing capability.
    pub fn new(stores: Vec<Arc<dyn Store>>, options: Options) -> Result<Container> {
        let refuse = |what: String| Err(Error::new(ErrorKind::Config, what));
        if stores.is_empty() || stores.len() > 255 {
            return refuse(format!("layout \"container\" needs 1 to 255 stores, not {}", stores.len()));
        }
        if options.folders == 0 {
            return refuse("layout \"container\" needs at least one folder of logs on each store".into());
        }
        for store in &stores {
            if store.capability().list != ListConsistency::Strong {
                return refuse(format!(
                    "layout \"container\" cannot use store {}: it needs strongly consistent lists, which the store lacks",
                    store.describe()
                ));
            }
        }
        let options = Options { inline: Some(options.inline(stores.len())), ..options };
        Ok(Container {
            stores: Arc::new(Stores::new(stores)),
            options: Arc::new(options),
            files: Mutex::default(),
            going: Arc::default(),
            folders_inside: Mutex::default(),
        })
    }

    fn first(&self) -> &Arc<dyn Store> {
        self.stores.first()
    }

    /// A path of the mount as a name of the first store. `NotFound` for names that the layout hides.
    fn store_name(&self, path: &str, what: &str) -> Result<String> {
        let inside = name::relative(path)
            .map_err(|e| Error::new(e.kind(), format!("cannot {what}")).caused_by(e).in_object(path))?;
        if inside == HIDDEN || inside.starts_with(&format!("{HIDDEN}/")) || name::last_part(&inside) == OF_FOLDER {
            return Err(errno::failure(Errno::NOENT, what, path));
        }
        Ok(inside.into_owned())
    }

    /// Call before a file loses its last name: if this process has the file open, a lease shows that to others.
    ///
    /// # Errors
    /// Errors of the store; the name is not removed then.
    fn lease_if_open(&self, opened: Option<&Opened>) -> Result<()> {
        let Some(opened) = opened else { return Ok(()) };
        let file = self.files.lock().get(&opened.stamp.container).and_then(Weak::upgrade);
        file.map_or(Ok(()), |file| file.place.lease_unlinked())
    }

    /// Removes a container: immediately, or with this process's last handle.
    fn give_up(&self, opened: Opened) {
        // Without other handles, dropped here.
        self.file(opened).unlink(&self.going);
    }
}

/// Identity of a file, which another file of the same name does not share.
fn identity_of(file: &File) -> u64 {
    let number = file.place.stamp.container;
    (number >> 64) as u64 ^ number as u64
}

impl Layout for Container {
    fn concrete(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    fn write_synopsis(&self, path: &str) -> Result<()> {
        let path = self.store_name(path, "write the synopsis of")?;
        self.put_synopsis(&path).map_err(|e| e.in_object(path))
    }

    fn describe(&self) -> String {
        let stores: Vec<String> = self.stores.all().map(|store| store.describe()).collect();
        format!("container over {}", stores.join(", "))
    }

    fn request_cost(&self, _path: &str) -> u64 {
        self.stores.all().map(|store| store.request_cost()).max().unwrap_or(0)
    }

    fn other_nodes(&self, _path: &str) -> OtherNodes {
        match self.stores.all().any(|store| store.capability().moves) {
            true => OtherNodes::Write,
            false => OtherNodes::ReadAndWrite,
        }
    }

    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        let path = self.store_name(path, "open")?;
        let (file, made) = self.open_or_make(&path, how, writer.0)?;
        let new = made.is_some();
        let handle = match made {
            Some(Made::Small(home, inline)) => Writer::of_new(file.first_session(home, inline), file, &path),
            Some(Made::Folder) => Writer::of_new(file.session(writer.0), file, &path),
            None => Writer::new(file, writer.0, &path),
        };
        if how == OpenWrite::Replace && !new {
            handle.truncate(0)?;
            handle.file.drop_dead().map_err(|e| e.in_object(path.clone()))?;
        }
        Ok(Box::new(handle))
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        let path = self.store_name(path, "open")?;
        loop {
            match self.made_or_empty(&path, || self.look_to_read(&path))? {
                Looked::File(file) => return Ok(Box::new(Reader { file, path })),
                Looked::Empty(_) => {
                    let empty = self.first().open_read(&path)?;
                    // Else another process has made the file since, and these are bytes of its stamp.
                    if empty.length()? == 0 {
                        return Ok(empty);
                    }
                }
            }
        }
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        let path = self.store_name(path, "stat")?;
        // A store without attributes is asked for the stamp at once: a look at the name before would be one more request.
        let told = self.first().capability().attributes;
        let (about, mut known) = match told {
            true => self.stat_known(&path).map(|(about, known)| (Some(about), known))?,
            false => (None, None),
        };
        if let Some(about) = about.as_ref().filter(|about| about.is_folder) {
            return Ok(about.clone());
        }
        let file = match self.made_or_empty(&path, || self.look_in(&path, known.take())) {
            Ok(Looked::File(file)) => file,
            Ok(Looked::Empty(about)) => return Ok(about),
            Err(e) if matches!(e.kind(), ErrorKind::Torn | ErrorKind::InvalidArgument) => {
                let about = about.map_or_else(|| self.first().stat(&path), Ok)?;
                if about.is_folder {
                    return Ok(about);
                }
                // A link to a folder, on a store without links.
                if e.kind() == ErrorKind::InvalidArgument && !told {
                    let end = self.first().stat(&self.end_of_links(&path)?)?;
                    return if end.is_folder { Ok(end) } else { Err(e) };
                }
                return Err(e);
            }
            Err(e) => return Err(e),
        };
        let measured = match file.length() {
            Err(e) if e.kind() == ErrorKind::Io => self.steady(&path, || {
                let file = self.look(&path)?;
                let length = file.length()?;
                Ok((file, length))
            }),
            length => length.map(|length| (file, length)),
        };
        let (file, length) = measured.map_err(|e| e.in_object(path))?;
        Ok(Stat { length, is_folder: false, identity: identity_of(&file) })
    }

    fn lock_folder(&self, _path: &str) -> Option<PathBuf> {
        self.first().lock_place(&format!("{HIDDEN}/locks"))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let folder = self.store_name(folder, "list")?;
        let mut names = self.first().list(&folder)?;
        names.retain(|name| name != OF_FOLDER && !(folder.is_empty() && name == HIDDEN));
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.store_name(from, "rename")?, self.store_name(to, "rename to")?);
        let named = self.named(&from)?;
        if from == to {
            return Ok(());
        }
        // A link of the store's own may lead nowhere.
        if named.about.is_some() && named.kind != Kind::File {
            self.folders_inside.lock().clear();
            let lost = self.last_name_at(&to);
            self.lease_if_open(lost.as_ref())?;
            self.first().rename(&from, &to)?;
            lost.into_iter().for_each(|opened| self.give_up(opened));
            return Ok(());
        }
        if named.kind == Kind::Folder {
            if !self.first().capability().rename_folder {
                return Err(thalweg_store::unsupported(&self.first().describe(), "rename a folder", &from));
            }
            // An empty folder is replaced, also one that contains only attributes.
            return self.without_attributes(&to, || self.first().rename(&from, &to));
        }
        let lost = self.last_name_at(&to);
        self.lease_if_open(lost.as_ref())?;
        match self.first().capability().rename {
            Rename::None => {
                let bytes = self.first().read_all(&from)?;
                self.first().write_all(&to, &bytes)?;
                self.first().remove(&from)?;
            }
            _ => self.first().rename(&from, &to)?,
        }
        lost.into_iter().for_each(|opened| self.give_up(opened));
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        let path = self.store_name(path, "remove")?;
        let (named, known) = self.known(&path)?;
        if named.about.is_some() && named.kind != Kind::File {
            return self.first().remove(&path);
        }
        if named.kind == Kind::Folder {
            return self.without_attributes(&path, || self.first().remove(&path));
        }
        let lost = self.last_name(&path, &named, known);
        self.lease_if_open(lost.as_ref())?;
        self.first().remove(&path)?;
        lost.into_iter().for_each(|opened| self.give_up(opened));
        Ok(())
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        self.first().make_folder(&self.store_name(path, "make folder")?)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.first().sync_folder(&self.store_name(folder, "sync folder")?)
    }

    fn make_one_folder(&self, path: &str, mode: u32) -> Result<()> {
        self.make_folder_with_mode(path, mode)
    }

    fn attributes(&self, path: &str) -> Result<Attributes> {
        self.attributes_of(path)
    }

    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        self.change_attributes(path, change)
    }

    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        let path = self.store_name(path, "truncate")?;
        let handle = Box::new(Writer::new(self.look(&path)?, 0, &path));
        handle.truncate(length)?;
        handle.close()
    }

    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        let path = self.store_name(path, "make a link")?;
        self.folders_inside.lock().clear();
        match self.first().capability().attributes {
            true => self.first().make_link(target, &path),
            false => {
                let bytes = self.stamp(&path, Some(target))?.encode();
                let temporary = format!("{HIDDEN}/{}{:016x}", objects::TEMPORARY, fresh());
                objects::put_new_whole(&**self.first(), &temporary, &path, &bytes, 0o666)
            }
        }
    }

    fn read_link(&self, path: &str) -> Result<String> {
        let path = self.store_name(path, "read a link")?;
        if self.first().capability().attributes {
            return self.first().read_link(&path);
        }
        if self.first().stat(&path)?.is_folder {
            return Err(errno::failure(Errno::INVAL, "read a link", &path));
        }
        match self.found(&path)? {
            Found::Link(target) => Ok(target),
            Found::File(_) => Err(errno::failure(Errno::INVAL, "read a link", &path)),
        }
    }

    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        // A hard link of the stamp is a hard link of the file.
        self.first().make_hard_link(&self.store_name(from, "link")?, &self.store_name(to, "link to")?)
    }

    fn xattr_get(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        self.xattr(path, key)
    }

    fn xattr_set(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        self.set_xattr(path, key, value, how)
    }

    fn xattr_list(&self, path: &str) -> Result<Vec<String>> {
        self.xattr_keys(path)
    }

    fn xattr_remove(&self, path: &str, key: &str) -> Result<()> {
        self.remove_xattr(path, key)
    }

    fn space(&self, path: &str) -> Result<Space> {
        let _ = path;
        let mut all = self.first().space("")?;
        for store in self.stores.all().skip(1) {
            let more = store.space("")?;
            all.bytes += more.bytes;
            all.free += more.free;
            all.available += more.available;
        }
        Ok(all)
    }
}
