//! The container layout: a logical file is a folder of logs, one data log and one index log for each writer, over one or more
//! stores. Programs write N to 1, stores see N to N.
//!
//! | question | answer |
//! |----------|--------|
//! | needs    | of each store: making new objects from front to back, reading ranges, lists that tell what just happened. No positional writes, no append after close, no rename |
//! | writers  | each handle has logs of its own; nobody waits for anybody, no lock is taken |
//! | overlaps | the later write wins by a logical clock ([`clock`]); wall clocks order nothing |
//! | promises | close-to-open between processes, POSIX within one: `docs/consistency.md` |
//! | a name   | is a small object, the stamp; renames and removals touch no log |
//! | a small file | lies in the object of its name, behind the stamp, on POSIX filesystems ([`tail`]); it has a folder once something needs one |
//! | cost     | an open: one list of the marks, whose names grow with the sessions that wrote, none where it makes the file; one for a handle's first write and for each sync, none for a close. A writer session: three marks, one folder, two logs; of a small file one write at its end; a write: a copy into the buffer |
//! | memory   | a handle that writes: its buffer; a file that is read: its index ([`index`]) |
//! | a writer that dies | is noticed: what it synced is read, what is missing is an error and never zeros; [`repair`](crate::Container::repair) accepts what is there |
//!
//! The bytes are described in `docs/format/container.md`.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`stamp`] | what stands under a file's name, what a store is known by |
//! | `names` | what stands under a name, opened once |
//! | [`tail`] | objects of a small file that lie behind its stamp |
//! | `drawer` | the object of a name as one process has it open, and what is added to it |
//! | [`marks`] | names that tell which sessions wrote, and how far |
//! | [`clock`] | the order of writes, the length of a file |
//! | [`record`] | data logs |
//! | [`index`] | index logs, and the index of an open file |
//! | [`attributes`] | mode, owner, times, extended attributes |
//! | [`snapshot`] | the index of a whole container in one object |
//! | [`parallel`] | opening a file by many ranks, each reading some of the index logs |
//! | [`part`] | a file of which a rank holds a part of the index |
//! | [`tools`] | map, flatten, compact, check, repair |
//!
//! Sources: Bent et al., SC 2009 (PLFS: a log for each writer); Cranor, Polte, Gibson, PDSW 2013 (containers over stores).
//! Differs: data logs tell where their bytes belong; nothing is ordered by wall clocks; names are objects of their own.

use crate::{
    Attributes, Change, Kind, Layout, Lease, OpenWrite, ReadObject, SetXattr, Space, Stat, WriteObject, WriterId,
    errno, wire,
};
use attributes::StoredAttributes;
use drawer::{Drawer, Locked, Opened};
use file::File;
use handle::{Reader, Writer};
use index::Module;
use marks::Home;
use names::{Found, Seen};
use place::{Guard, HIDDEN, Place, Stores, fresh, now, put_new, remove_if_there};
use rustix::io::Errno;
use session::LeasedObject;
use stamp::Stamp;
use std::collections::HashMap;
use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use thalweg_store::{ListConsistency, Rename, Store, StoreExt, name};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

pub mod attributes;
pub mod clock;
mod drawer;
mod file;
mod handle;
pub mod index;
mod load;
pub mod marks;
mod names;
pub mod parallel;
pub mod part;
mod place;
pub mod record;
mod removal;
mod scan;
mod session;
pub mod snapshot;
pub mod stamp;
pub mod tail;
pub mod tools;

/// Where the attributes of a folder are kept that the store keeps none of.
const OF_FOLDER: &str = ".thalweg.folder";
/// How long a name without bytes is waited for: another process is making it.
const PATIENCE: Duration = Duration::from_millis(2000);
/// Between two looks while it is waited for.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// How containers of a mount are made and opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Index module of new containers; others keep theirs. Default `pattern`.
    pub module: Module,
    /// Bytes that a handle gathers before it writes them. Default 2 MiB: more made writing slower and less even
    /// (RESULTS.md, layouts).
    pub buffer: usize,
    /// Folders of logs on each store, of new containers. Default 16.
    pub folders: u8,
    /// Longest data log, in bytes, that lies behind the stamp of its file, so that a small file has no objects but that of its
    /// name; 0 for none. `None`: 32 KiB over one store; over several 0, as names lie on the first alone and small files are to
    /// be spread. On stores of POSIX filesystems; elsewhere every log is an object.
    pub inline: Option<usize>,
    /// Longest data log, in bytes. Default 1 TiB, or what the store takes.
    pub segment: u64,
    /// Name of this host, which with the writer's number decides where logs lie.
    pub host: String,
    /// Where `distributed` keeps the index of an open file: a folder of this host's own disk. Default the system's
    /// temporary folder.
    pub index_folder: PathBuf,
    /// Bytes of memory that `distributed` may use for each open file. Default 4 MiB.
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
    /// Longest data log behind a stamp, over so many stores; [`Container::new`] settles it.
    fn inline(&self, stores: usize) -> usize {
        self.inline.unwrap_or(if stores == 1 { 32 << 10 } else { 0 })
    }
}

/// Bytes behind a stamp at which another session begins there; attributes may take as much again.
fn most_inside(inline: usize) -> u64 {
    4 * inline as u64
}

/// Files as containers. See the module's page.
pub struct Container {
    stores: Arc<Stores>,
    options: Arc<Options>,
    files: Mutex<HashMap<u128, Weak<File>>>,
    going: Arc<removal::Going>,
}

/// How a file was made.
enum Made {
    /// With the container's folder.
    Folder,
    /// As the object of its name alone, which holds this session's mark.
    Small(Home, LeasedObject),
}

/// What keeps others from changing what is kept of a file.
struct Alone<'a> {
    drawer: Option<Locked<'a>>,
    _lease: Option<Lease>,
}

impl Container {
    /// Over these stores; the first holds names.
    ///
    /// # Errors
    /// `Config` names a store that cannot do what is needed, and what that is.
    pub fn new(stores: Vec<Arc<dyn Store>>, options: Options) -> Result<Container> {
        let refuse = |what: String| Err(Error::new(ErrorKind::Config, what));
        if stores.is_empty() || stores.len() > 255 {
            return refuse(format!("layout \"container\" lies on 1 to 255 stores, not on {}", stores.len()));
        }
        if options.folders == 0 {
            return refuse("layout \"container\" needs at least one folder of logs on each store".into());
        }
        for store in &stores {
            if store.capability().list != ListConsistency::Strong {
                return refuse(format!(
                    "layout \"container\" cannot lie on store {}: it needs lists that tell what just happened, which the store lacks",
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
        })
    }

    fn first(&self) -> &Arc<dyn Store> {
        self.stores.first()
    }

    /// The name as the store has it.
    fn inside(&self, path: &str, what: &str) -> Result<String> {
        let inside = name::relative(path)
            .map_err(|e| Error::new(e.kind(), format!("cannot {what}")).caused_by(e).in_object(path))?;
        if inside == HIDDEN || inside.starts_with(&format!("{HIDDEN}/")) || name::last_part(&inside) == OF_FOLDER {
            return Err(errno::failure(Errno::NOENT, what, path));
        }
        Ok(inside.into_owned())
    }

    fn stamp(&self, link: Option<&str>) -> Result<Stamp> {
        let container = u128::from(fresh()) << 64 | u128::from(fresh());
        let stores = self.stores.identities()?;
        // The number is drawn: so containers are spread over the stores.
        let home = if link.is_none() { (container % stores.len().max(1) as u128) as u8 } else { 0 };
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
        })
    }

    /// Makes a file of which nothing is needed but the object of its name, with a session of this writer begun. `None` where the
    /// store cannot.
    fn make_small(&self, path: &str, writer: u32) -> Result<Option<(Opened, Home, LeasedObject)>> {
        let first = self.first();
        let can = first.capability();
        let able = self.options.inline(1) > 0 && can.write_at && can.truncate && can.modes && first.reopens();
        if !able || !place::appears_early(&**first) {
            return Ok(None);
        }
        let stamp = Stamp { tail: true, ..self.stamp(None)? };
        let container = stamp.container;
        let mut bytes = stamp.encode();
        let start = bytes.len() as u64;
        let place = Place::of_stamp(stamp.clone(), self.stores.clone());
        let home = place.home(&self.options.host, writer, 0);
        let begins = tail::Record::Put(marks::open_name(home), load::about(&format!("writer {writer}")).into_bytes());
        begins.encode(container, start, &mut bytes);
        let guard = Guard::of(stamp.mode, stamp.uid, stamp.gid);
        for tried in 0.. {
            let temporary = format!("{HIDDEN}/{}{:016x}", place::TEMPORARY, fresh());
            let object = first.open_write_as(&temporary, OpenWrite::New, guard.object())?;
            let remove = || drop(remove_if_there(&**first, &temporary));
            // Held before it has its name, so that nobody takes the session for a dead one; by a handle that is not the one that is
            // written to and closed.
            let held: Option<LeasedObject> =
                object.reopen().ok().map(Arc::from).and_then(|again: Arc<dyn WriteObject>| {
                    let lease = again.lease()?;
                    Some((again, lease))
                });
            let Some((again, lease)) = held else {
                remove();
                return Ok(None);
            };
            let written = object.write_at(0, &[IoSlice::new(&bytes)]).and_then(|()| object.close());
            match written.and_then(|()| first.rename_new(&temporary, path)) {
                Ok(()) => {
                    let object = again;
                    let drawer = Drawer::of_new(container, first, path, object.clone(), start);
                    drawer.made(begins, bytes.len() as u64 - start);
                    return Ok(Some((Opened { stamp, drawer: Some(drawer) }, home, (object, lease))));
                }
                Err(e) if e.kind() == ErrorKind::Unsupported => {
                    remove();
                    return Ok(None);
                }
                // Taken away by who tidied up, or there is no such folder.
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    self.has_above(path)?;
                    if tried >= place::MOST_TRIES || first.exists(&temporary)? {
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

    /// Makes a file: the container first, then its name. `AlreadyExists` where another was faster.
    fn make(&self, path: &str, torn: bool) -> Result<Stamp> {
        // Where the stamp is renamed to its name, the store itself says that it cannot be there.
        let renamed = !torn && place::appears_early(&**self.first());
        if !renamed {
            self.has_above(path)?;
        }
        let stamp = self.stamp(None)?;
        let (folder, bytes) = (place::folder(stamp.container), stamp.encode());
        let home = self.stores.all().nth(usize::from(stamp.home)).unwrap_or(self.first());
        match home.capability().modes {
            true => {
                place::make_in_group(&**home, &folder, Guard::USUAL)?;
                home.make_one_folder(&format!("{folder}/m"), Guard::USUAL)?;
            }
            false => home.make_folder(&format!("{folder}/m"))?,
        }
        put_new(&**home, &format!("{folder}/stamp"), &bytes)?;
        // Its own store may be another than that of names: what is being made lies where names do.
        let temporary = format!("{HIDDEN}/{}{:016x}", place::TEMPORARY, fresh());
        let named = match torn {
            false => place::put_new_whole(&**self.first(), &temporary, path, &bytes, 0o666),
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

    /// An error where the folder that a name would be in is none.
    fn has_above(&self, path: &str) -> Result<()> {
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

    /// Gives a name a stamp whose making was interrupted; `AlreadyExists` where another did that meanwhile.
    fn replace_torn(&self, temporary: &str, path: &str, bytes: &[u8]) -> Result<()> {
        let first = self.first();
        let _alone = match first.lock(path, true) {
            Err(e) if e.kind() == ErrorKind::Unsupported => None,
            outcome => outcome?,
        };
        match first.stat(path)?.length {
            0 => place::put_whole(&**first, temporary, path, bytes, 0o666),
            _ => Err(errno::failure(Errno::EXIST, "make", path)),
        }
    }

    /// A file to be written, and how it was made, where it was.
    fn open_or_make(&self, path: &str, how: OpenWrite, writer: u32) -> Result<(Arc<File>, Option<Made>)> {
        let mut path = path.to_string();
        // Another may remove it between a look and the next.
        for _ in 0..100 {
            let path = &mut path;
            // One that is new needs no look: making it tells whether the name is free.
            if how == OpenWrite::New
                && let Some((opened, home, held)) = self.make_small(path, writer)?
            {
                return Ok((self.file(opened), Some(Made::Small(home, held))));
            }
            match self.look(path) {
                Ok(_) if how == OpenWrite::New => return Err(errno::failure(Errno::EXIST, "make", path)),
                Ok(file) => return Ok((file, None)),
                Err(e) if how == OpenWrite::Existing => return Err(e),
                // A link is a name that is taken, wherever it leads.
                Err(e) if how == OpenWrite::New && e.kind() != ErrorKind::NotFound && self.link_at(path)?.is_some() => {
                    return Err(errno::failure(Errno::EXIST, "make", path));
                }
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Torn) => {
                    let torn = e.kind() == ErrorKind::Torn && self.first().stat(path).is_ok_and(|s| s.length == 0);
                    if e.kind() == ErrorKind::Torn && !torn {
                        return Err(e);
                    }
                    let made = match torn {
                        true => Ok(None),
                        false => self.make_small(path, writer),
                    };
                    let made = made.and_then(|made| match made {
                        Some((opened, home, held)) => Ok((opened, Made::Small(home, held))),
                        None => self.make(path, torn).map(|stamp| (Opened { stamp, drawer: None }, Made::Folder)),
                    });
                    match made {
                        // Nobody has written to it yet: there is nothing to look at.
                        Ok((opened, made)) => return Ok((self.file(opened), Some(made))),
                        // Perhaps a link that leads to a name that is free.
                        Err(e) if e.kind() == ErrorKind::AlreadyExists && how != OpenWrite::New => {
                            *path = self.end_of_links(path)?;
                        }
                        Err(e) => return Err(e),
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Err(Error::new(ErrorKind::Io, "cannot open: the file is made and removed all the time").in_object(path))
    }

    /// Gives a container up: at once, or with the last handle that this process has of it.
    fn give_up(&self, opened: Opened) {
        // Dropped here, where nobody else holds it.
        self.file(opened).unlink(&self.going);
    }

    fn kept(&self, file: &File) -> Result<(StoredAttributes, Option<(u64, u64)>)> {
        let (started, mut pause) = (Instant::now(), Duration::from_millis(1));
        loop {
            let newest = file.beside().iter().filter_map(|name| attributes::parse(name)).max();
            let Some((version, number)) = newest else { return Ok((StoredAttributes::of(&file.place.stamp), None)) };
            let name = attributes::name(version, number);
            match file.place.read(&name).and_then(|bytes| StoredAttributes::decode(&bytes)) {
                Ok(kept) => return Ok((kept, newest)),
                // Replaced since the last look, or being written where the store shows objects before their bytes.
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

    fn keep(&self, file: &File, kept: &StoredAttributes, alone: Alone<'_>) -> Result<()> {
        let beside = file.beside();
        let old: Vec<String> = beside.into_iter().filter(|name| attributes::parse(name).is_some()).collect();
        let versions = old.iter().filter_map(|name| attributes::parse(name));
        let version = versions.map(|(version, _)| version + 1).max().unwrap_or(1);
        let most = 2 * most_inside(self.options.inline(1));
        file.place.keep((version, fresh()), kept, &old, alone.drawer.as_ref(), most)?;
        match alone.drawer {
            Some(locked) => {
                file.look_locked()?;
                locked.close()
            }
            None => file.look(),
        }
    }

    /// Keeps other processes from changing what is kept of a file, where the store can; each would begin with what the others
    /// replace.
    fn changing<'a>(&self, file: &'a File) -> Result<Alone<'a>> {
        match &file.place.drawer {
            Some(drawer) => Ok(Alone { drawer: Some(drawer.lock()?), _lease: None }),
            None => Ok(Alone { drawer: None, _lease: self.changing_folder(file)? }),
        }
    }

    fn changing_folder(&self, file: &File) -> Result<Option<Lease>> {
        let name = format!("{}/stamp", file.place.folder());
        // A lock makes what it locks, also where it was removed just now.
        let locked = file.place.first().stat(&name).and_then(|_| file.place.first().lock(&name, true));
        match locked {
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(file.gone(e)),
            outcome => outcome,
        }
    }

    /// Changes what is kept of a file or folder.
    fn change(&self, path: &str, what: &str, change: impl Fn(&mut StoredAttributes) -> Result<()>) -> Result<()> {
        let path = self.inside(path, what)?;
        let (about, known) = self.stat_known(&path)?;
        self.change_known(&path, about.is_folder, known, change)
    }

    /// - `known`: as for [`Container::found_in`].
    fn change_known(
        &self,
        path: &str,
        is_folder: bool,
        mut known: Option<names::Object>,
        change: impl Fn(&mut StoredAttributes) -> Result<()>,
    ) -> Result<()> {
        if is_folder {
            let name = of_folder(path);
            let mut kept = self.kept_of_folder(path)?;
            change(&mut kept)?;
            return self.keep_of_folder(&name, &kept);
        }
        let mut before = None;
        loop {
            // As `steady`, of a file that stays locked.
            let (inside, opened) = self.follow_from(path, known.take())?;
            let number = opened.stamp.container;
            let file = self.file(opened);
            file.place.has_home().map_err(|e| e.in_object(inside.clone()))?;
            let alone = self.changing(&file);
            let looked = alone.and_then(|alone| {
                match &alone.drawer {
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

    fn change_alone(
        &self,
        file: &File,
        alone: Alone<'_>,
        path: &str,
        change: &impl Fn(&mut StoredAttributes) -> Result<()>,
    ) -> Result<()> {
        let mut kept = self.kept(file)?.0;
        let before = (kept.mode, kept.uid, kept.gid);
        change(&mut kept)?;
        // First: what is stricter from now on is so at no moment less than it says.
        if (kept.mode, kept.uid, kept.gid) != before {
            let guard = Guard::of(kept.mode, kept.uid, kept.gid);
            file.place.put_guard(guard, path).map_err(|e| e.in_object(path))?;
        }
        self.keep(file, &kept, alone).map_err(|e| e.in_object(path))
    }

    fn keep_of_folder(&self, name: &str, kept: &StoredAttributes) -> Result<()> {
        let first = self.first();
        if place::appears_early(&**first) {
            first.make_folder(HIDDEN)?;
        }
        let temporary = format!("{HIDDEN}/{}{:016x}", place::TEMPORARY, fresh());
        place::put_whole(&**first, &temporary, name, &kept.encode(), 0o666)
    }

    fn kept_of_folder(&self, path: &str) -> Result<StoredAttributes> {
        match self.first().read_all(&of_folder(path)) {
            Ok(bytes) => StoredAttributes::decode(&bytes).map_err(|e| e.in_object(of_folder(path))),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
                Ok(StoredAttributes::new(0o755, uid, gid, 0))
            }
            Err(e) => Err(e),
        }
    }

    /// What is kept of a file or folder.
    fn kept_of(&self, path: &str, what: &str) -> Result<StoredAttributes> {
        let path = self.inside(path, what)?;
        match self.first().stat(&path)?.is_folder {
            true => self.kept_of_folder(&path),
            false => Ok(self.kept(&*self.look(&path)?)?.0),
        }
    }

    /// Whether the first store itself keeps what is asked about a name: folders and links, where it keeps attributes.
    fn stores_own(&self, path: &str) -> Result<bool> {
        if !self.first().capability().attributes {
            return Ok(false);
        }
        Ok(self.first().attributes(&self.inside(path, "look at")?)?.kind != Kind::File)
    }
}

fn of_folder(folder: &str) -> String {
    if folder.is_empty() { OF_FOLDER.into() } else { format!("{folder}/{OF_FOLDER}") }
}

/// What tells a file from one that takes its name.
fn identity_of(file: &File) -> u64 {
    let number = file.place.stamp.container;
    (number >> 64) as u64 ^ number as u64
}

impl Layout for Container {
    fn concrete(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    fn describe(&self) -> String {
        let stores: Vec<String> = self.stores.all().map(|store| store.describe()).collect();
        format!("container over {}", stores.join(", "))
    }

    fn request_cost(&self, _path: &str) -> u64 {
        self.stores.all().map(|store| store.request_cost()).max().unwrap_or(0)
    }

    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        let path = self.inside(path, "open")?;
        let (file, made) = self.open_or_make(&path, how, writer.0)?;
        let new = made.is_some();
        let handle = match made {
            Some(Made::Small(home, held)) => Writer::of_new(file.first_session(home, held), file, &path),
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
        let path = self.inside(path, "open")?;
        let file = match self.look(&path) {
            // Nothing was ever written to it.
            Err(e) if e.kind() == ErrorKind::Torn && self.first().stat(&path).is_ok_and(|about| about.length == 0) => {
                return self.first().open_read(&path);
            }
            file => file?,
        };
        Ok(Box::new(Reader { file, path }))
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        let path = self.inside(path, "stat")?;
        let (about, known) = self.stat_known(&path)?;
        if about.is_folder {
            return Ok(about);
        }
        let file = match self.look_in(&path, known) {
            Err(e) if e.kind() == ErrorKind::Torn && about.length == 0 => return Ok(about),
            // A link to a folder, on a store that knows no links.
            Err(e) if e.kind() == ErrorKind::InvalidArgument && !self.first().capability().attributes => {
                let end = self.first().stat(&self.end_of_links(&path)?)?;
                return if end.is_folder { Ok(end) } else { Err(e) };
            }
            file => file?,
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
        let folder = self.inside(folder, "list")?;
        let mut names = self.first().list(&folder)?;
        names.retain(|name| name != OF_FOLDER && !(folder.is_empty() && name == HIDDEN));
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.inside(from, "rename")?, self.inside(to, "rename to")?);
        let named = self.named(&from)?;
        if from == to {
            return Ok(());
        }
        // A link of the store's own may lead nowhere.
        if named.about.is_some() && named.kind != Kind::File {
            let lost = self.last_name_at(&to);
            self.first().rename(&from, &to)?;
            lost.into_iter().for_each(|opened| self.give_up(opened));
            return Ok(());
        }
        if named.kind == Kind::Folder {
            if !self.first().capability().rename_folder {
                return Err(thalweg_store::unsupported(&self.first().describe(), "rename a folder", &from));
            }
            // An empty folder gives way, also one of which only attributes are kept.
            if self.first().list(&to).is_ok_and(|names| names == [OF_FOLDER]) {
                remove_if_there(&**self.first(), &of_folder(&to))?;
            }
            return self.first().rename(&from, &to);
        }
        let lost = self.last_name_at(&to);
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
        let path = self.inside(path, "remove")?;
        let (named, known) = self.known(&path)?;
        if named.about.is_some() && named.kind != Kind::File {
            return self.first().remove(&path);
        }
        if named.kind == Kind::Folder {
            if !path.is_empty() && self.first().list(&path)? == [OF_FOLDER] {
                remove_if_there(&**self.first(), &of_folder(&path))?;
            }
            return self.first().remove(&path);
        }
        let lost = self.last_name(&path, &named, known);
        self.first().remove(&path)?;
        lost.into_iter().for_each(|opened| self.give_up(opened));
        Ok(())
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        self.first().make_folder(&self.inside(path, "make folder")?)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.first().sync_folder(&self.inside(folder, "sync folder")?)
    }

    fn make_one_folder(&self, path: &str, mode: u32) -> Result<()> {
        let path = self.inside(path, "make folder")?;
        self.first().make_one_folder(&path, mode)?;
        if !self.first().capability().modes {
            let mut kept = self.kept_of_folder(&path)?;
            kept.change(
                &Change { mode: Some(mode), mtime: Some(attributes::time(now() as i64)), ..Change::default() },
                now(),
            );
            self.keep_of_folder(&of_folder(&path), &kept)?;
        }
        Ok(())
    }

    fn attributes(&self, path: &str) -> Result<Attributes> {
        let inside = self.inside(path, "look at")?;
        let (named, known) = self.known(&inside)?;
        if named.kind != Kind::File && self.first().capability().modes {
            // A store may keep modes and nothing else that a link would be told by (HDFS).
            return named.about.map_or_else(|| self.first().attributes(&inside), Ok);
        }
        // Of a link that the store keeps without a mode: where it leads.
        let folder = match named.kind {
            Kind::File => None,
            _ => Some(self.first().stat(&inside)?).filter(|about| about.is_folder),
        };
        let identity = |named: &names::Named| match &named.about {
            Some(about) => Ok(about.identity),
            None => self.first().stat(&inside).map(|about| about.identity),
        };
        let (kind, length, kept, mtime, links, identity) = match folder {
            Some(about) => {
                let kept = self.kept_of_folder(&inside)?;
                let mtime = kept.mtime;
                (Kind::Folder, 0, kept, mtime, 1, about.identity)
            }
            None => match self.seen(&inside, known)? {
                Seen::Link { length, kept } => {
                    let mtime = kept.mtime;
                    (Kind::Link, length, kept, mtime, 1, identity(&named)?)
                }
                Seen::File { file, length, kept } => {
                    let mtime = kept.written(file.written());
                    (Kind::File, length, kept, mtime, named.links, identity_of(&file))
                }
            },
        };
        Ok(kept.told(kind, length, mtime, links, identity))
    }

    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        let inside = self.inside(path, "change")?;
        let with = |kept: &mut StoredAttributes| {
            kept.change(change, now());
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

    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        let path = self.inside(path, "truncate")?;
        let handle = Box::new(Writer::new(self.look(&path)?, 0, &path));
        handle.truncate(length)?;
        handle.close()
    }

    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        let path = self.inside(path, "make a link")?;
        match self.first().capability().attributes {
            true => self.first().make_link(target, &path),
            false => put_new(&**self.first(), &path, &self.stamp(Some(target))?.encode()),
        }
    }

    fn read_link(&self, path: &str) -> Result<String> {
        let path = self.inside(path, "read a link")?;
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
        // A second name for the stamp is one for the file.
        self.first().make_hard_link(&self.inside(from, "link")?, &self.inside(to, "link to")?)
    }

    fn xattr_get(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        match self.stores_own(path)? {
            true => self.first().xattr(&self.inside(path, "look at")?, key),
            false => Ok(self.kept_of(path, "look at")?.xattrs.remove(key)),
        }
    }

    fn xattr_set(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        if self.stores_own(path)? {
            return self.first().set_xattr(&self.inside(path, "change")?, key, value, how);
        }
        crate::takes_xattr(key, path)?;
        self.change(path, "set an extended attribute", |kept| {
            match (how, kept.xattrs.contains_key(key)) {
                (SetXattr::New, true) => return Err(errno::failure(Errno::EXIST, "set an extended attribute", path)),
                (SetXattr::Existing, false) => {
                    return Err(errno::failure(Errno::NODATA, "set an extended attribute", path));
                }
                _ => {}
            }
            kept.xattrs.insert(key.into(), value.into());
            kept.ctime = now();
            Ok(())
        })
    }

    fn xattr_list(&self, path: &str) -> Result<Vec<String>> {
        match self.stores_own(path)? {
            true => self.first().list_xattrs(&self.inside(path, "look at")?),
            false => Ok(self.kept_of(path, "look at")?.xattrs.into_keys().collect()),
        }
    }

    fn xattr_remove(&self, path: &str, key: &str) -> Result<()> {
        if self.stores_own(path)? {
            return self.first().remove_xattr(&self.inside(path, "change")?, key);
        }
        self.change(path, "remove an extended attribute", |kept| match kept.xattrs.remove(key) {
            Some(_) => {
                kept.ctime = now();
                Ok(())
            }
            None => Err(errno::failure(Errno::NODATA, "remove an extended attribute", path)),
        })
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
