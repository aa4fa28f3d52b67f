//! Objects in memory, shared by all handles and by all clones of the store.
//!
//! | question | answer |
//! |----------|--------|
//! | names    | relative to the store's folder; folders must be made before their objects |
//! | a write  | excludes other writes and reads of the object: no reader sees half of a write |
//! | atomic   | every operation |
//! | `sync`   | promises nothing: objects end with the process |
//! | `lease`  | counted per object, within the process |
//! | memory   | pages of 16 KiB, allocated when first written; holes take none |
//! | removed while open | bytes stay until the last handle is dropped, as in POSIX |

use crate::{
    Capability, Durability, Lease, Life, ListConsistency, OpenWrite, ReadObject, Rename, Stat, Store, Visible,
    WriteObject, name, pieces,
};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_types::mutex::{Condvar, Mutex, RwLock};
use thalweg_types::{Error, ErrorKind, Result};

const PAGE: usize = 16 << 10;

/// Objects in memory. A clone is the same store; [`Memory::snapshot`] is another one with the same content.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    entries: Arc<Mutex<BTreeMap<String, Entry>>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Entry {
    Folder,
    Object(Arc<Object>),
}

/// One object: its pages and its length.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) identity: u64,
    content: RwLock<Content>,
    /// Shared with each lease.
    leases: Arc<()>,
    lock: Arc<Lock>,
}

#[derive(Debug, Clone, Default)]
struct Content {
    /// Pages by number; a missing page holds zeros. Shared with snapshots until written.
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
    length: u64,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// A copy of the store as it is now. Pages are shared until either store writes them.
    pub fn snapshot(&self) -> Memory {
        let copy = |entry: &Entry| match entry {
            Entry::Folder => Entry::Folder,
            Entry::Object(object) => Entry::Object(Arc::new(object.copy())),
        };
        let entries = self.lock().iter().map(|(name, entry)| (name.clone(), copy(entry))).collect();
        Memory { entries: Arc::new(Mutex::new(entries)) }
    }

    pub(crate) fn from_entries(entries: BTreeMap<String, Entry>) -> Memory {
        Memory { entries: Arc::new(Mutex::new(entries)) }
    }

    pub(crate) fn entries(&self) -> BTreeMap<String, Entry> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock()
    }

    /// The object of this name, and whether it was made by this call.
    pub(crate) fn open(&self, name: &str, how: OpenWrite) -> Result<(Arc<Object>, bool)> {
        let name = &*relative(name, "open")?;
        let mut entries = self.lock();
        need_folder(&entries, name, "open")?;
        match entries.get(name) {
            Some(Entry::Folder) => Err(is_folder("open", name)),
            None if name.is_empty() => Err(is_folder("open", name)),
            Some(Entry::Object(_)) if how == OpenWrite::New => Err(failed(ErrorKind::AlreadyExists, "make", name)),
            Some(Entry::Object(object)) => {
                if how == OpenWrite::Replace {
                    object.truncate(0);
                }
                Ok((object.clone(), false))
            }
            None if how == OpenWrite::Existing => Err(failed(ErrorKind::NotFound, "open", name)),
            None => {
                let object = Arc::new(Object::new());
                entries.insert(name.to_string(), Entry::Object(object.clone()));
                Ok((object, true))
            }
        }
    }

    /// Puts an object under a name: in place of one that is there, or not at all where `how` is `New`.
    pub(crate) fn put(&self, name: &str, object: Arc<Object>, how: OpenWrite) -> Result<()> {
        let name = &*relative(name, "make")?;
        let mut entries = self.lock();
        may_put(&entries, name, how)?;
        entries.insert(name.to_string(), Entry::Object(object));
        Ok(())
    }

    /// Whether [`put`](Memory::put) would succeed now.
    pub(crate) fn may_put(&self, name: &str, how: OpenWrite) -> Result<()> {
        may_put(&self.lock(), &relative(name, "make")?, how)
    }

    fn find(&self, name: &str, what: &str) -> Result<Arc<Object>> {
        let name = &*relative(name, what)?;
        match self.lock().get(name) {
            Some(Entry::Object(object)) => Ok(object.clone()),
            Some(Entry::Folder) => Err(is_folder(what, name)),
            None if name.is_empty() => Err(is_folder(what, name)),
            None => Err(failed(ErrorKind::NotFound, what, name)),
        }
    }

    /// Names of the objects that begin with `prefix`.
    pub(crate) fn beginning(&self, prefix: &str) -> Vec<String> {
        let entries = self.lock();
        let rest = entries.range(prefix.to_string()..).take_while(|(name, _)| name.starts_with(prefix));
        rest.filter(|(_, entry)| matches!(entry, Entry::Object(_))).map(|(name, _)| name.clone()).collect()
    }

    /// Makes a folder and those above it; returns the ones that were not there, outermost first.
    pub(crate) fn make_folders(&self, name: &str) -> Result<Vec<String>> {
        let name = &*relative(name, "make folder")?;
        let mut entries = self.lock();
        let mut made = Vec::new();
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        for folder in ends.map(|end| &name[..end]).filter(|folder| !folder.is_empty()) {
            match entries.get(folder) {
                Some(Entry::Folder) => {}
                Some(Entry::Object(_)) if folder == name => {
                    return Err(failed(ErrorKind::AlreadyExists, "make folder", name));
                }
                Some(Entry::Object(_)) => return Err(failed(ErrorKind::NotFound, "make folder", name)),
                None => {
                    entries.insert(folder.to_string(), Entry::Folder);
                    made.push(folder.to_string());
                }
            }
        }
        Ok(made)
    }
}

impl Store for Memory {
    fn describe(&self) -> String {
        "memory:".into()
    }

    fn capability(&self) -> Capability {
        Capability {
            write_at: true,
            append: true,
            truncate: true,
            punch: true,
            rename: Rename::Atomic,
            rename_folder: true,
            durability: Durability::None,
            visible: Visible::AtWrite,
            whole: false,
            exclusive: true,
            list: ListConsistency::Strong,
            attributes: false,
            modes: false,
            moves: false,
            largest_object: u64::MAX,
        }
    }

    fn open_write(&self, name: &str, how: OpenWrite) -> Result<Box<dyn WriteObject>> {
        let (object, _) = self.open(name, how)?;
        Ok(Box::new(MemoryHandle { object, name: name.into() }))
    }

    fn open_read(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        Ok(Box::new(MemoryHandle { object: self.find(name, "open")?, name: name.into() }))
    }

    fn stat(&self, name: &str) -> Result<Stat> {
        let name = &*relative(name, "stat")?;
        match self.lock().get(name) {
            Some(Entry::Object(object)) => {
                Ok(Stat { length: object.length(), is_folder: false, identity: object.identity })
            }
            Some(Entry::Folder) => Ok(Stat { length: 0, is_folder: true, identity: 0 }),
            None if name.is_empty() => Ok(Stat { length: 0, is_folder: true, identity: 0 }),
            None => Err(failed(ErrorKind::NotFound, "stat", name)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let folder = &*relative(folder, "list")?;
        let entries = self.lock();
        if !folder.is_empty() && !matches!(entries.get(folder), Some(Entry::Folder)) {
            return Err(failed(ErrorKind::NotFound, "list", folder));
        }
        Ok(inside(&entries, folder).map(|name| name::last_part(name).to_string()).collect())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (&*relative(from, "rename")?, &*relative(to, "rename to")?);
        let mut entries = self.lock();
        need_folder(&entries, to, "rename to")?;
        let object = match entries.get(from) {
            Some(Entry::Object(object)) => object.clone(),
            Some(Entry::Folder) => return rename_folder(&mut entries, from, to),
            None if from.is_empty() => return Err(is_folder("rename", from)),
            None => return Err(failed(ErrorKind::NotFound, "rename", from)),
        };
        if to.is_empty() || matches!(entries.get(to), Some(Entry::Folder)) {
            return Err(is_folder("rename to", to));
        }
        entries.remove(from);
        entries.insert(to.to_string(), Entry::Object(object));
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let name = &*relative(name, "remove")?;
        let mut entries = self.lock();
        match entries.get(name) {
            None if name.is_empty() => {
                Err(Error::new(ErrorKind::InvalidArgument, "cannot remove the store's own folder"))
            }
            None => Err(failed(ErrorKind::NotFound, "remove", name)),
            Some(Entry::Folder) if inside(&entries, name).next().is_some() => {
                Err(failed(ErrorKind::InvalidArgument, "remove a folder that is not empty", name))
            }
            Some(_) => {
                entries.remove(name);
                Ok(())
            }
        }
    }

    fn make_folder(&self, name: &str) -> Result<()> {
        self.make_folders(name).map(|_| ())
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        match self.stat(folder)?.is_folder {
            true => Ok(()),
            false => Err(failed(ErrorKind::NotFound, "sync folder", folder)),
        }
    }

    fn lock(&self, name: &str, wait: bool) -> Result<Option<Lease>> {
        let (object, _) = self.open(name, OpenWrite::Any)?;
        let mut locked = object.lock.taken.lock();
        while *locked {
            if !wait {
                return Ok(None);
            }
            locked = object.lock.free.wait(locked);
        }
        *locked = true;
        drop(locked);
        Ok(Some(Lease::new(Locked(object.lock.clone()))))
    }
}

/// The lock of an object.
#[derive(Debug, Default)]
struct Lock {
    taken: Mutex<bool>,
    free: Condvar,
}

struct Locked(Arc<Lock>);

impl Drop for Locked {
    fn drop(&mut self) {
        *self.0.taken.lock() = false;
        self.0.free.notify_one();
    }
}

/// Whole names directly inside a folder, in order.
fn inside<'a>(entries: &'a BTreeMap<String, Entry>, folder: &str) -> impl Iterator<Item = &'a str> {
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let first = prefix.clone();
    entries
        .range(first..)
        .map(|(name, _)| name.as_str())
        .take_while({
            let prefix = prefix.clone();
            move |name| name.starts_with(&prefix)
        })
        .filter(move |name| !name[prefix.len()..].contains('/'))
}

fn may_put(entries: &BTreeMap<String, Entry>, name: &str, how: OpenWrite) -> Result<()> {
    need_folder(entries, name, "make")?;
    match entries.get(name) {
        _ if name.is_empty() => Err(is_folder("make", name)),
        Some(Entry::Folder) => Err(is_folder("make", name)),
        Some(Entry::Object(_)) if how == OpenWrite::New => Err(failed(ErrorKind::AlreadyExists, "make", name)),
        _ => Ok(()),
    }
}

/// Moves a folder and all below it.
fn rename_folder(entries: &mut BTreeMap<String, Entry>, from: &str, to: &str) -> Result<()> {
    if to == from {
        return Ok(());
    }
    if to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
        return Err(failed(ErrorKind::InvalidArgument, &format!("rename a folder into itself, to {to}"), from));
    }
    match entries.get(to) {
        _ if to.is_empty() => return Err(is_folder("rename to", to)),
        Some(Entry::Object(_)) => {
            return Err(failed(ErrorKind::InvalidArgument, "rename a folder to an object", to));
        }
        Some(Entry::Folder) if inside(entries, to).next().is_some() => {
            return Err(failed(ErrorKind::InvalidArgument, "rename to a folder that is not empty", to));
        }
        _ => {}
    }
    let below = format!("{from}/");
    let moved = entries.range(from.to_string()..).map(|(name, _)| name);
    let moved: Vec<String> = moved
        .take_while(|name| name.starts_with(from))
        .filter(|n| *n == from || n.starts_with(&below))
        .cloned()
        .collect();
    for name in moved {
        if let Some(entry) = entries.remove(&name) {
            entries.insert(format!("{to}{}", &name[from.len()..]), entry);
        }
    }
    Ok(())
}

fn need_folder(entries: &BTreeMap<String, Entry>, name: &str, what: &str) -> Result<()> {
    let folder = name::folder_of(name);
    if folder.is_empty() || matches!(entries.get(folder), Some(Entry::Folder)) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::NotFound, format!("cannot {what}: there is no folder {folder}")).in_object(shown(name)))
}

fn relative<'a>(name: &'a str, what: &str) -> Result<std::borrow::Cow<'a, str>> {
    name::relative(name).map_err(|e| Error::new(e.kind(), format!("cannot {what}")).caused_by(e).in_object(shown(name)))
}

fn failed(kind: ErrorKind, what: &str, name: &str) -> Error {
    Error::new(kind, format!("cannot {what}")).in_object(shown(name))
}

fn is_folder(what: &str, name: &str) -> Error {
    failed(ErrorKind::InvalidArgument, &format!("{what}: it is a folder"), name)
}

fn shown(name: &str) -> String {
    format!("memory:{name}")
}

impl Object {
    pub(crate) fn new() -> Object {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Object::with_identity(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn with_identity(identity: u64) -> Object {
        Object { identity, content: RwLock::default(), leases: Arc::default(), lock: Arc::default() }
    }

    /// Another object with the same identity and bytes.
    pub(crate) fn copy(&self) -> Object {
        Object {
            identity: self.identity,
            content: RwLock::new(self.read().clone()),
            leases: Arc::default(),
            lock: Arc::default(),
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Content> {
        self.content.read()
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Content> {
        self.content.write()
    }

    pub(crate) fn length(&self) -> u64 {
        self.read().length
    }

    pub(crate) fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let total = pieces::total(pieces);
        let Some(end) = offset.checked_add(total) else {
            return Err(Error::new(ErrorKind::OutOfBounds, "cannot write: offsets end at 2^64 - 1").at_byte(offset));
        };
        if total == 0 {
            return Ok(());
        }
        let mut content = self.write();
        let mut at = offset;
        for piece in pieces {
            content.copy_in(at, piece);
            at += piece.len() as u64;
        }
        content.length = content.length.max(end);
        Ok(())
    }

    pub(crate) fn read_at(&self, offset: u64, out: &mut [u8]) -> usize {
        let content = self.read();
        let there = content.length.saturating_sub(offset);
        let count = usize::try_from(there).unwrap_or(usize::MAX).min(out.len());
        for (number, within, run) in split(offset, count) {
            match content.pages.get(&number) {
                Some(page) => out[run.clone()].copy_from_slice(&page[within..within + run.len()]),
                None => out[run].fill(0),
            }
        }
        count
    }

    /// The end of the last page before `offset`.
    pub(crate) fn stored_before(&self, offset: u64) -> u64 {
        let content = self.read();
        if offset == 0 || offset > content.length {
            return offset;
        }
        let page = PAGE as u64;
        let last = content.pages.range(..=(offset - 1) / page).next_back();
        last.map_or(0, |(number, _)| (number * page).saturating_add(page).min(offset))
    }

    pub(crate) fn truncate(&self, length: u64) {
        let mut content = self.write();
        if length < content.length {
            let old = content.length;
            content.zero(length, old);
        }
        content.length = length;
    }

    pub(crate) fn punch(&self, offset: u64, length: u64) {
        let mut content = self.write();
        let end = offset.saturating_add(length).min(content.length);
        content.zero(offset, end);
    }
}

impl Content {
    fn copy_in(&mut self, offset: u64, bytes: &[u8]) {
        for (number, within, run) in split(offset, bytes.len()) {
            let page = self.pages.entry(number).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[within..within + run.len()].copy_from_slice(&bytes[run]);
        }
    }

    /// Makes bytes `start..end` zeros, dropping pages that lie within.
    fn zero(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let page = PAGE as u64;
        let touched: Vec<u64> = self.pages.range(start / page..=(end - 1) / page).map(|(number, _)| *number).collect();
        for number in touched {
            let (first, next) = (number * page, (number * page).saturating_add(page));
            if start <= first && next <= end {
                self.pages.remove(&number);
            } else if let Some(bytes) = self.pages.get_mut(&number) {
                let (from, to) = (start.max(first) - first, end.min(next) - first);
                Arc::make_mut(bytes)[from as usize..to as usize].fill(0);
            }
        }
    }
}

/// A run of `count` bytes from `offset`, cut at pages: page number, first byte within it, which bytes of the run.
fn split(offset: u64, count: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == count {
            return None;
        }
        let at = offset + done as u64;
        let (number, within) = (at / PAGE as u64, (at % PAGE as u64) as usize);
        let run = done..count.min(done + PAGE - within);
        done = run.end;
        Some((number, within, run))
    })
}

/// An object, open.
struct MemoryHandle {
    object: Arc<Object>,
    name: String,
}

impl ReadObject for MemoryHandle {
    fn length(&self) -> Result<u64> {
        Ok(self.object.length())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        Ok(self.object.read_at(offset, out))
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        Ok(self.object.stored_before(offset))
    }

    fn life(&self) -> Result<Life> {
        Ok(Life { leased: Some(Arc::strong_count(&self.object.leases) > 1), modified: None })
    }
}

impl WriteObject for MemoryHandle {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.object.write_at(offset, pieces).map_err(|e| e.in_object(shown(&self.name)))
    }

    fn length(&self) -> Result<u64> {
        Ok(self.object.length())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        Ok(self.object.read_at(offset, out))
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        Ok(self.object.stored_before(offset))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.object.truncate(length);
        Ok(())
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.object.punch(offset, length);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn lease(&self) -> Result<Option<Lease>> {
        Ok(Some(Lease::new(self.object.leases.clone())))
    }
}
