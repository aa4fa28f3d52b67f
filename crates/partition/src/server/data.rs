//! The stripes of files on one server, behind its cache.
//!
//! To clients this is a layout whose offsets are those of the whole file; of each file it holds the stripes of this server. So a view
//! of the file can be used as it is: its bytes are scattered into the blocks of the cache without another mapping.
//!
//! | question | answer |
//! |----------|--------|
//! | name of a file | [`DataName`]: identity, stripe, number of servers, this server's number; where its bytes are follows from the name alone |
//! | storage  | one object for each file, of its local bytes, of any layout; made by the first write-back |
//! | write    | into blocks of the cache; one that is written in part is read from the storage first, if it lies there |
//! | write-back | when the cache needs a block, at sync and at close; neighbouring dirty blocks with one call |
//! | after a sync or close | the storage has all bytes written before it: they survive every client, and this process |
//! | locks and counters | of the file's first server: [`super::locks`]. Each open description is an owner; the session of a client that has gone drops its descriptions |
//! | a file that was removed | is not found by later opens, although a client may have read its record just before; it looks for the name's new record then |
//! | a read beyond what the server holds | ends there; clients know the file's length from all servers |

use super::cache::{Block, Cache, Key};
use super::draining::{Meter, Outlook};
use super::locks::{LockStatus, Table};
use crate::striping::{self, Striping};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;
use thalweg_layout::errno::{Errno, failure};
use thalweg_layout::locks::{Count, Family, FileLocks, Kind, Met, Range, Refused};
use thalweg_layout::{Layout, OpenWrite, ReadObject, Stat, WriteObject, WriterId};
use thalweg_types::mutex::{Mutex, RwLock};
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::View;

/// Blocks that one call writes back.
const RUN: usize = 64;
/// Removed files that are remembered: only a client that read a record before and opens the file after can ask for them.
const REMOVED: usize = 1 << 16;
/// Files whose blocks stay although nobody has them open.
const IDLE_FILES: usize = 256;

/// What the name of a file's data says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataName {
    /// The file's identity.
    pub id: u128,
    /// How it is striped.
    pub striping: Striping,
    /// Which of the file's servers: see [`DataName::place`].
    pub server: u32,
}

impl std::fmt::Display for DataName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}.{}.{}.{}", self.id, self.striping.stripe(), self.striping.servers(), self.server)
    }
}

impl std::str::FromStr for DataName {
    type Err = Error;

    fn from_str(text: &str) -> Result<DataName> {
        let read = || -> Option<DataName> {
            let mut parts = text.split('.');
            let id = parts.next().filter(|id| id.len() == 32)?;
            let id = u128::from_str_radix(id, 16).ok()?;
            let striping = Striping::new(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?).ok()?;
            let server = parts.next()?.parse().ok().filter(|server| *server < striping.servers())?;
            parts.next().is_none().then_some(DataName { id, striping, server })
        };
        let wrong = || Error::new(ErrorKind::InvalidArgument, "this is no name of a file's data").in_object(text);
        let name = read().ok_or_else(wrong)?;
        // One spelling: two would be two files.
        if name.to_string() == text { Ok(name) } else { Err(wrong()) }
    }
}

impl DataName {
    /// The server of a partition of so many data servers that has this data.
    pub fn place(&self, servers: u32) -> u32 {
        striping::place(self.id, self.striping.servers(), servers, self.server)
    }

    fn folder(&self) -> String {
        format!("{:02x}", self.id >> 120)
    }

    /// The object in the storage.
    pub fn object(&self) -> String {
        format!("{}/{self}", self.folder())
    }
}

/// An open object of the storage.
struct Stored(Box<dyn WriteObject>);

/// A file's stripes on this server.
struct DataFile {
    number: u64,
    name: DataName,
    /// Writes and reads share it; what changes the length downwards or drops blocks is alone.
    gate: RwLock<()>,
    /// The storage's object, while the file is open for writing there.
    object: Mutex<Option<Arc<Stored>>>,
    /// Local length.
    length: AtomicU64,
    /// Local length in the storage: bytes from here on are not there.
    stored: AtomicU64,
    dirty: Mutex<BTreeSet<u64>>,
    /// Open handles.
    users: Mutex<u64>,
    removed: AtomicBool,
    /// Where the next append begins, if the file is not longer: behind what others claimed, also if they have not written it.
    claimed: AtomicU64,
    locks: Mutex<Table>,
}

#[derive(Default)]
struct Files {
    by_name: HashMap<DataName, Arc<DataFile>>,
    by_number: HashMap<u64, Weak<DataFile>>,
    /// Files that nobody had open when they were put here, the oldest first.
    idle: VecDeque<DataName>,
    removed: HashSet<DataName>,
    removed_in_order: VecDeque<DataName>,
}

struct Inner {
    storage: Arc<dyn Layout>,
    cache: Cache,
    files: Mutex<Files>,
    next: AtomicU64,
    server: u32,
    /// Data servers of the partition.
    servers: u32,
    failures: Mutex<Failures>,
    /// Files that clients have open.
    open: AtomicU64,
    /// Files with descriptions for locks; no call to the storage is made while this is locked.
    locked: Mutex<Vec<Weak<DataFile>>>,
    /// Of the storage: whole blocks and what is longer. Short writes tell its latency.
    meter: Meter,
}

/// Failures that no client was left to be told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// The last one.
    pub last: Option<String>,
}

/// The data of one server. A layout to its clients.
#[derive(Clone)]
pub struct Data(Arc<Inner>);

impl Inner {
    fn write_back_of(&self, key: Key, block: &mut Block) -> Result<()> {
        let file = self.files.lock().by_number.get(&key.0).and_then(Weak::upgrade);
        match file {
            Some(file) => self.write_back(&file, key.1, &mut [block]).map(drop),
            // Nobody can ask for its bytes.
            None => {
                block.dirty = 0..0;
                Ok(())
            }
        }
    }

    fn object(&self, file: &DataFile) -> Result<Arc<Stored>> {
        let mut object = file.object.lock();
        if let Some(object) = &*object {
            return Ok(object.clone());
        }
        let open = || self.storage.open_write(&file.name.object(), OpenWrite::Any, WriterId(self.server));
        let opened = match open() {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                self.storage.make_folder(&file.name.folder())?;
                open()?
            }
            opened => opened?,
        };
        Ok(object.insert(Arc::new(Stored(opened))).clone())
    }

    /// Writes the dirty bytes of consecutive blocks with one call; all bytes between the first and the last dirty one.
    fn write_back(&self, file: &DataFile, first: u64, blocks: &mut [&mut Block]) -> Result<u64> {
        let size = self.cache.block();
        let (Some(begin), Some(end)) = (blocks.first().map(|b| b.dirty.start), blocks.last().map(|b| b.dirty.end))
        else {
            return Ok(0);
        };
        let last = blocks.len() - 1;
        if last == 0 && begin >= end {
            return Ok(0);
        }
        let offset = first * size as u64 + begin as u64;
        let mut pieces = Vec::with_capacity(blocks.len());
        for (n, block) in blocks.iter().enumerate() {
            let from = if n == 0 { begin } else { 0 };
            let to = if n == last { end } else { size };
            pieces.push(IoSlice::new(&block.bytes[from..to]));
        }
        let total: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let object = self.object(file)?;
        match total >= size as u64 {
            true => self.meter.time(total, || object.0.write_at(offset, &pieces))?,
            false => object.0.write_at(offset, &pieces)?,
        }
        file.stored.fetch_max(offset + total, Ordering::AcqRel);
        let mut dirty = file.dirty.lock();
        for (n, block) in blocks.iter_mut().enumerate() {
            block.dirty = 0..0;
            dirty.remove(&(first + n as u64));
        }
        Ok(total)
    }

    /// Writes all dirty bytes of a file to the storage; returns their number.
    fn flush(&self, file: &DataFile) -> Result<u64> {
        let mut written = 0;
        let numbers: Vec<u64> = file.dirty.lock().iter().copied().collect();
        for run in numbers.chunk_by(|a, b| a + 1 == *b).flat_map(|run| run.chunks(RUN)) {
            let blocks: Vec<_> = run.iter().map(|number| self.cache.peek((file.number, *number))).collect();
            let mut at = 0;
            while at < blocks.len() {
                // A block that was written back meanwhile ends the run.
                let mut locked = Vec::new();
                for block in &blocks[at..] {
                    let Some(block) = block else { break };
                    let block = block.lock();
                    let clean = block.dirty.is_empty();
                    locked.push(block);
                    if clean {
                        break;
                    }
                }
                let first = run[at];
                at += locked.len().max(1);
                let mut run: Vec<&mut Block> = locked.iter_mut().map(|block| &mut **block).collect();
                if run.last().is_some_and(|block| block.dirty.is_empty()) {
                    run.pop();
                }
                written += self.write_back(file, first, &mut run)?;
            }
        }
        Ok(written)
    }

    /// Runs a call that makes bytes durable or visible, which counts as part of their writing: of so many that were written just before.
    fn settle(&self, written: u64, call: impl FnOnce() -> Result<()>) -> Result<()> {
        if written >= self.cache.block() as u64 { self.meter.time(0, call) } else { call() }
    }

    /// Fills a block from the storage.
    fn load(&self, file: &DataFile, number: u64, block: &mut Block) -> Result<()> {
        let size = block.bytes.len() as u64;
        let offset = number * size;
        let there = file.stored.load(Ordering::Acquire).saturating_sub(offset).min(size) as usize;
        let mut done = 0;
        if there > 0 {
            let object = self.object(file)?;
            while done < there {
                match object.0.read_at(offset + done as u64, &mut block.bytes[done..there])? {
                    0 => break,
                    got => done += got,
                }
            }
        }
        block.bytes[done..].fill(0);
        block.loaded = true;
        Ok(())
    }

    fn block(&self, file: &DataFile, number: u64) -> Result<Arc<Mutex<Block>>> {
        self.cache.get((file.number, number), &|key, block| self.write_back_of(key, block))
    }

    /// Writes bytes at a local offset. With the gate open to readers and writers.
    fn write(&self, file: &DataFile, offset: u64, bytes: &[u8]) -> Result<()> {
        let size = self.cache.block();
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (number, from) = (at / size as u64, (at % size as u64) as usize);
            let now = rest.len().min(size - from);
            let shared = self.block(file, number)?;
            let mut block = shared.lock();
            if !block.loaded && now < size {
                self.load(file, number, &mut block)?;
            }
            block.loaded = true;
            block.bytes[from..from + now].copy_from_slice(&rest[..now]);
            if block.dirty.is_empty() {
                block.dirty = from..from + now;
                file.dirty.lock().insert(number);
            } else {
                block.dirty = block.dirty.start.min(from)..block.dirty.end.max(from + now);
            }
            at += now as u64;
            file.length.fetch_max(at, Ordering::AcqRel);
            rest = &rest[now..];
        }
        Ok(())
    }

    /// Reads bytes at a local offset, all of which are below the local length.
    fn read(&self, file: &DataFile, offset: u64, out: &mut [u8]) -> Result<()> {
        let size = self.cache.block();
        let (mut at, mut rest) = (offset, out);
        while !rest.is_empty() {
            let (number, from) = (at / size as u64, (at % size as u64) as usize);
            let now = rest.len().min(size - from);
            let shared = self.block(file, number)?;
            let mut block = shared.lock();
            if !block.loaded {
                self.load(file, number, &mut block)?;
            }
            let (out, behind) = rest.split_at_mut(now);
            out.copy_from_slice(&block.bytes[from..from + now]);
            at += now as u64;
            rest = behind;
        }
        Ok(())
    }

    /// Cuts or extends to a local length.
    fn truncate(&self, file: &DataFile, length: u64) -> Result<()> {
        let _alone = file.gate.write();
        if length == 0 && file.length.load(Ordering::Acquire) == 0 && file.stored.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        self.flush(file)?;
        self.object(file)?.0.truncate(length)?;
        self.cache.drop_from(file.number, length / self.cache.block() as u64);
        file.length.store(length, Ordering::Release);
        file.stored.store(length, Ordering::Release);
        Ok(())
    }

    fn close(&self, file: &Arc<DataFile>) -> Result<()> {
        let flushed = match file.removed.load(Ordering::Acquire) {
            // Nobody can open it again.
            true => Ok(0),
            false => {
                let _shared = file.gate.read();
                self.flush(file)
            }
        };
        let (written, flushed) = (*flushed.as_ref().unwrap_or(&0), flushed.map(drop));
        let mut files = self.files.lock();
        let mut users = file.users.lock();
        *users -= 1;
        if *users > 0 {
            return flushed;
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
        if file.removed.load(Ordering::Acquire) {
            self.forget(&mut files, file);
            return flushed;
        }
        files.idle.retain(|name| *name != file.name);
        files.idle.push_back(file.name);
        // With the lock of the table: who opens the file from here on opens the storage's object again.
        let object = file.object.lock().take();
        drop(users);
        while files.idle.len() > IDLE_FILES {
            let Some(oldest) = files.idle.pop_front() else { break };
            let Some(idle) = files.by_name.get(&oldest).cloned() else { continue };
            if *idle.users.lock() > 0 {
                continue;
            }
            // Bytes that could not be written: the file stays, and is looked at again.
            if !idle.dirty.lock().is_empty() {
                files.idle.push_back(oldest);
                break;
            }
            self.forget(&mut files, &idle);
        }
        drop(files);
        match object.map(Arc::try_unwrap) {
            // The layout's close shows what a close must show (an object store's object).
            Some(Ok(object)) => flushed.and(self.settle(written, || object.0.close())),
            _ => flushed,
        }
    }

    fn forget(&self, files: &mut Files, file: &DataFile) {
        if files.by_name.get(&file.name).is_some_and(|known| known.number == file.number) {
            files.by_name.remove(&file.name);
        }
        files.by_number.remove(&file.number);
        self.cache.drop_from(file.number, 0);
    }
}

impl Data {
    /// The data of a server.
    ///
    /// - `storage`: where objects lie; any layout that can write at any offset.
    /// - `cache`: size of the cache in bytes.
    /// - `block`: size of its blocks.
    /// - `server`: this server's number.
    /// - `servers`: number of data servers of the partition.
    pub fn new(storage: Arc<dyn Layout>, cache: u64, block: usize, server: u32, servers: u32) -> Data {
        let cache = Cache::new(cache, block);
        let (files, failures) = (Mutex::default(), Mutex::default());
        let (next, open, meter, locked) = (AtomicU64::new(1), AtomicU64::new(0), Meter::default(), Mutex::default());
        Data(Arc::new(Inner { storage, cache, files, next, server, servers, failures, open, locked, meter }))
    }

    /// What the cache has done.
    pub fn counts(&self) -> super::cache::Counts {
        self.0.cache.counts()
    }

    /// What failed when no client was left to be told.
    pub fn failures(&self) -> Failures {
        self.0.failures.lock().clone()
    }

    /// Number of files that clients have open.
    pub fn open_files(&self) -> u64 {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Locks that clients have or wait for. Never waits for the storage.
    pub fn lock_status(&self) -> Vec<LockStatus> {
        let files: Vec<Arc<DataFile>> = self.0.locked.lock().iter().filter_map(Weak::upgrade).collect();
        let of = |file: &Arc<DataFile>| {
            let (name, all) = (file.name.to_string(), file.locks.lock().status(Instant::now()));
            all.into_iter().map(move |lock| LockStatus { file: name.clone(), ..lock })
        };
        files.iter().flat_map(of).collect()
    }

    /// What is not in the storage, and how long that takes. Never waits for the storage.
    pub fn outlook(&self) -> Outlook {
        Outlook::of(self.0.cache.dirty(), self.0.meter.rate())
    }

    /// Writes all dirty bytes of all files to the storage: before the server ends.
    ///
    /// # Errors
    /// The first failure, after all files were tried.
    pub fn drain(&self) -> Result<()> {
        let files: Vec<Arc<DataFile>> = self.0.files.lock().by_name.values().cloned().collect();
        let mut outcome = Ok(());
        for file in files {
            let _shared = file.gate.read();
            let flushed = self.0.flush(&file);
            let written = *flushed.as_ref().unwrap_or(&0);
            // The object's lock is held: a close by a client waits, and closes an object that nobody else has.
            let object = file.object.lock();
            let synced = object.as_ref().map_or(Ok(()), |object| self.0.settle(written, || object.0.sync()));
            outcome = outcome.and(flushed.map(drop)).and(synced);
        }
        outcome
    }

    /// Writes the dirty bytes of all files to the storage while clients go on, without making them durable there. A failure is met again
    /// by a sync, a close or [`Data::drain`].
    pub fn write_back(&self) {
        let files: Vec<Arc<DataFile>> = self.0.files.lock().by_name.values().cloned().collect();
        for file in files {
            let _shared = file.gate.read();
            // The object of a removed file would be made anew.
            if !file.removed.load(Ordering::Acquire) {
                let _ = self.0.flush(&file);
            }
        }
    }

    fn named(&self, path: &str) -> Result<DataName> {
        let name: DataName = path.parse()?;
        let place = name.place(self.0.servers);
        if place != self.0.server {
            let what = format!("this is server {}, not {place}", self.0.server);
            return Err(Error::new(ErrorKind::InvalidArgument, what).in_object(path));
        }
        Ok(name)
    }

    fn stored_length(&self, name: &DataName) -> Result<u64> {
        match self.0.storage.stat(&name.object()) {
            Ok(about) => Ok(about.length),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(0),
            Err(e) => Err(e),
        }
    }

    fn open(&self, path: &str) -> Result<DataObject> {
        let name = self.named(path)?;
        let mut files = self.0.files.lock();
        let file = match files.by_name.get(&name) {
            Some(file) => file.clone(),
            None if files.removed.contains(&name) => return Err(gone(path)),
            None => {
                let stored = self.stored_length(&name)?;
                let file = Arc::new(DataFile {
                    number: self.0.next.fetch_add(1, Ordering::Relaxed),
                    name,
                    gate: RwLock::default(),
                    object: Mutex::default(),
                    length: AtomicU64::new(stored),
                    stored: AtomicU64::new(stored),
                    dirty: Mutex::default(),
                    users: Mutex::new(0),
                    removed: AtomicBool::new(false),
                    claimed: AtomicU64::new(0),
                    locks: Mutex::default(),
                });
                files.by_number.insert(file.number, Arc::downgrade(&file));
                files.by_name.insert(name, file.clone());
                file
            }
        };
        {
            let mut users = file.users.lock();
            if *users == 0 {
                self.0.open.fetch_add(1, Ordering::Relaxed);
            }
            *users += 1;
        }
        Ok(DataObject { inner: self.0.clone(), file, closed: AtomicBool::new(false) })
    }
}

fn gone(path: &str) -> Error {
    failure(Errno::NOENT, "use the data of a file that was removed", path)
}

/// An open file's stripes. Offsets are those of the whole file.
struct DataObject {
    inner: Arc<Inner>,
    file: Arc<DataFile>,
    closed: AtomicBool,
}

impl DataObject {
    fn length(&self) -> u64 {
        self.file.name.striping.length_up_to(self.file.name.server, self.file.length.load(Ordering::Acquire))
    }

    /// Local runs of a range of the file, with where they begin in the range.
    fn mine(&self, offset: u64, length: u64) -> impl Iterator<Item = (u64, usize, usize)> + use<> {
        let DataName { striping, server, .. } = self.file.name;
        let packets = striping.packets(offset..offset.saturating_add(length));
        packets
            .filter(move |packet| packet.server == server)
            .map(move |packet| (striping.local(packet.start), (packet.start - offset) as usize, packet.length as usize))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        for (local, from, length) in self.mine(offset, bytes.len() as u64) {
            self.inner.write(&self.file, local, &bytes[from..from + length])?;
            done += length;
        }
        match done == bytes.len() {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidArgument, "bytes of another server's stripes").at_byte(offset)),
        }
    }

    /// As [`DataObject::write`] and [`DataObject::read`], of a view's extents, one after the other.
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let there = self.length().saturating_sub(offset).min(out.len() as u64) as usize;
        for (local, from, length) in self.mine(offset, there as u64) {
            self.inner.read(&self.file, local, &mut out[from..from + length])?;
        }
        Ok(there)
    }

    fn close_once(&self) -> Result<()> {
        match self.closed.swap(true, Ordering::AcqRel) {
            true => Ok(()),
            false => self.inner.close(&self.file),
        }
    }
}

impl Drop for DataObject {
    fn drop(&mut self) {
        // A client that ended without a close.
        if let Err(e) = self.close_once() {
            let mut failures = self.inner.failures.lock();
            failures.count += 1;
            failures.last = Some(e.in_object(self.file.name.object()).to_string());
        }
    }
}

impl ReadObject for DataObject {
    fn length(&self) -> Result<u64> {
        Ok(DataObject::length(self))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let _shared = self.file.gate.read();
        self.read(offset, out)
    }

    fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        let _shared = self.file.gate.read();
        // Small extents are picked out of what one look at the cache brings.
        thalweg_store::viewed::read(view, start, out, &mut |offset, part| self.read(offset, part))
    }
}

impl WriteObject for DataObject {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let _shared = self.file.gate.read();
        let mut at = offset;
        for piece in pieces {
            self.write(at, piece)?;
            at = at.saturating_add(piece.len() as u64);
        }
        Ok(())
    }

    fn write_view(&self, view: &Arc<View>, start: u64, bytes: &[u8]) -> Result<()> {
        let _shared = self.file.gate.read();
        thalweg_store::viewed::write(view, start, bytes, &mut |offset, part| self.write(offset, part))
    }

    fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        ReadObject::read_view(self, view, start, out)
    }

    fn append(&self, _: &[IoSlice<'_>]) -> Result<u64> {
        Err(Error::new(ErrorKind::Unsupported, "a server does not know the end of the file"))
    }

    fn claim(&self, from: u64, bytes: u64) -> Result<u64> {
        let _shared = self.file.gate.read();
        let behind = |claimed: u64| claimed.max(from).checked_add(bytes).filter(|end| *end <= i64::MAX as u64);
        let claimed = self.file.claimed.fetch_update(Ordering::AcqRel, Ordering::Acquire, behind);
        let beyond = |_| Error::new(ErrorKind::OutOfBounds, "beyond the largest file").at_byte(from);
        claimed.map(|claimed| claimed.max(from)).map_err(beyond)
    }

    fn reserve(&self, offset: u64, length: u64) -> Result<()> {
        let _shared = self.file.gate.read();
        let mut runs = self.mine(offset, length);
        let Some((first, _, of_first)) = runs.next() else { return Ok(()) };
        // Local stripes follow each other.
        let end = runs.last().map_or(first + of_first as u64, |(local, _, length)| local + length as u64);
        self.inner.object(&self.file)?.0.reserve(first, end - first)
    }

    fn length(&self) -> Result<u64> {
        Ok(DataObject::length(self))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        ReadObject::read_at(self, offset, out)
    }

    fn truncate(&self, length: u64) -> Result<()> {
        let DataName { striping, server, .. } = self.file.name;
        self.inner.truncate(&self.file, striping.local_length(server, length))?;
        self.file.claimed.fetch_min(length, Ordering::AcqRel);
        Ok(())
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        let _alone = self.file.gate.write();
        self.inner.flush(&self.file)?;
        let stored = self.file.stored.load(Ordering::Acquire);
        let object = self.inner.object(&self.file)?;
        for (local, _, length) in self.mine(offset, length.min(DataObject::length(self).saturating_sub(offset))) {
            let length = (length as u64).min(stored.saturating_sub(local));
            if length > 0 {
                object.0.punch(local, length)?;
            }
        }
        self.inner.cache.drop_from(self.file.number, 0);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let written = {
            let _shared = self.file.gate.read();
            self.inner.flush(&self.file)?
        };
        // Also what was closed before, which no sync has made durable.
        match self.file.stored.load(Ordering::Acquire) > 0 || self.file.object.lock().is_some() {
            true => {
                let object = self.inner.object(&self.file)?;
                self.inner.settle(written, || object.0.sync())
            }
            false => Ok(()),
        }
    }

    /// Clients see bytes once they are here.
    fn publish(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.close_once()
    }
}

/// A description of a file for locks. The file stays known while it exists.
struct DataLocks {
    open: DataObject,
    owner: u64,
}

impl FileLocks for DataLocks {
    fn lock(&self, family: Family, kind: Kind, range: Range, again: bool) -> Result<Option<Refused>> {
        self.open.file.locks.lock().lock(self.owner, (family, kind, range), Instant::now(), again)
    }

    fn test(&self, kind: Kind, range: Range) -> Result<Option<Met>> {
        Ok(self.open.file.locks.lock().test(self.owner, kind, range))
    }

    fn make_counter(&self, key: u64) -> Result<()> {
        self.open.file.locks.lock().make_counter(self.owner, key)
    }

    fn count(&self, key: u64, count: Count) -> Result<u64> {
        self.open.file.locks.lock().count(key, count)
    }
}

impl Drop for DataLocks {
    fn drop(&mut self) {
        self.open.file.locks.lock().release(self.owner);
    }
}

impl Layout for Data {
    fn describe(&self) -> String {
        format!("stripes on {}", self.0.storage.describe())
    }

    fn open_write(&self, path: &str, how: OpenWrite, _writer: WriterId) -> Result<Box<dyn WriteObject>> {
        let object = self.open(path)?;
        if how == OpenWrite::Replace {
            WriteObject::truncate(&object, 0)?;
        }
        Ok(Box::new(object))
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        Ok(Box::new(self.open(path)?))
    }

    fn locks(&self, path: &str) -> Result<Option<Box<dyn FileLocks>>> {
        let open = self.open(path)?;
        if open.file.name.server != 0 {
            let what = "locks are kept by the file's first server";
            return Err(Error::new(ErrorKind::InvalidArgument, what).in_object(path));
        }
        let owner = self.0.next.fetch_add(1, Ordering::Relaxed);
        open.file.locks.lock().name(owner, thalweg_remote::server::current_client());
        let mut locked = self.0.locked.lock();
        locked.retain(|file| file.strong_count() > 0);
        if !locked.iter().any(|file| std::ptr::eq(file.as_ptr(), Arc::as_ptr(&open.file))) {
            locked.push(Arc::downgrade(&open.file));
        }
        drop(locked);
        Ok(Some(Box::new(DataLocks { open, owner })))
    }

    /// A file without bytes here has length 0.
    fn stat(&self, path: &str) -> Result<Stat> {
        let name = self.named(path)?;
        let known = {
            let files = self.0.files.lock();
            if files.removed.contains(&name) {
                return Err(gone(path));
            }
            files.by_name.get(&name).map(|file| file.length.load(Ordering::Acquire))
        };
        let local = known.map_or_else(|| self.stored_length(&name), Ok)?;
        Ok(Stat { length: name.striping.length_up_to(name.server, local), is_folder: false, identity: 0 })
    }

    /// Of the root: the objects that the storage has, as `XX/NAME`, whatever they are.
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        if !folder.is_empty() {
            return Err(Error::new(ErrorKind::Unsupported, "data servers have no folders to list").in_object(folder));
        }
        let mut all = Vec::new();
        for folder in self.0.storage.list("")?.into_iter().filter(|name| name != super::names::OURS) {
            match self.0.storage.list(&folder) {
                Ok(names) => all.extend(names.into_iter().map(|name| format!("{folder}/{name}"))),
                // No folder, or no longer.
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => all.push(folder),
                Err(e) => return Err(e),
            }
        }
        Ok(all)
    }

    fn rename(&self, from: &str, _to: &str) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "data of files are not renamed").in_object(from))
    }

    fn remove(&self, path: &str) -> Result<()> {
        let name = self.named(path)?;
        let mut files = self.0.files.lock();
        if files.removed.insert(name) {
            files.removed_in_order.push_back(name);
        }
        if files.removed_in_order.len() > REMOVED
            && let Some(oldest) = files.removed_in_order.pop_front()
        {
            files.removed.remove(&oldest);
        }
        if let Some(file) = files.by_name.remove(&name) {
            let in_use = *file.users.lock() > 0;
            // Who has it open goes on with its bytes.
            if in_use && file.stored.load(Ordering::Acquire) > 0 {
                self.0.object(&file)?;
            }
            file.removed.store(true, Ordering::Release);
            if !in_use {
                self.0.forget(&mut files, &file);
            }
        }
        drop(files);
        match self.0.storage.remove(&name.object()) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "data servers have no folders").in_object(path))
    }

    fn sync_folder(&self, _folder: &str) -> Result<()> {
        Ok(())
    }

    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        let object = self.open(path)?;
        WriteObject::truncate(&object, length)?;
        object.close_once()
    }

    fn space(&self, _path: &str) -> Result<thalweg_layout::Space> {
        self.0.storage.space("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_comes_back(id: u128, stripe in 1u64..1 << 40, servers in 1u32..4097, server in 0u32..4097) {
            let striping = Striping::new(stripe, servers).unwrap();
            let name = DataName { id, striping, server: server % servers };
            prop_assert_eq!(name.to_string().parse::<DataName>().unwrap(), name);
        }

        #[test]
        fn other_texts_are_no_names(text in "[0-9a-fA-F./+-]{0,60}") {
            if let Ok(name) = text.parse::<DataName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }

    #[test]
    fn a_name_has_one_spelling() {
        let good = "0123456789abcdef0123456789abcdef.4096.3.2";
        assert_eq!(good.parse::<DataName>().unwrap().object(), format!("01/{good}"));
        for bad in [
            "0123456789ABCDEF0123456789abcdef.4096.3.2",
            "0123456789abcdef0123456789abcdef.4096.3.3",
            "0123456789abcdef0123456789abcdef.04096.3.2",
            "0123456789abcdef0123456789abcdef.+4096.3.2",
            "0123456789abcdef0123456789abcdef.0.3.2",
            "0123456789abcdef0123456789abcdef.4096.3.2.1",
            "0123456789abcdef0123456789abcdef.4096.3",
            "123456789abcdef0123456789abcdef.4096.3.2",
            "../23456789abcdef0123456789abcdef.4096.3.2",
        ] {
            assert_eq!(bad.parse::<DataName>().unwrap_err().kind(), ErrorKind::InvalidArgument, "{bad}");
        }
    }
}
