//! A store in memory that records every change, and can show its content after a kill or a power cut.
//!
//! Every operation that changes the store or makes a change durable gets a number: write, truncate, punch, sync, creation,
//! rename, removal, making and syncing a folder. For any number `n` of operations:
//!
//! | question | answer |
//! |----------|--------|
//! | a killed process leaves | exactly the first `n` operations ([`Forgetful::crash_after`]), or these and the first bytes of the next write ([`Forgetful::crash_after_bytes`]) |
//! | a power cut leaves | the synced changes among the first `n` operations, and of the others those that a seed chooses ([`Forgetful::power_cut`]) |
//! | bytes are durable | once their object is synced after the write |
//! | names are durable | once their folder is synced; a rename between two folders once both are |
//! | bytes not synced | each write by itself: complete, lost, lost with the length grown (zeros), or torn: its first sectors, or any of its sectors (512 bytes) |
//! | truncations, holes, names not synced | each by itself: kept or lost; a rename is atomic |
//!
//! These are the promises of POSIX. Most filesystems promise more (a journal keeps operations in order), so programs that survive this
//! store survive on them.

use crate::memory::{Entry, Memory, Object};
use crate::{Capability, Durability, OpenWrite, ReadObject, Stat, Store, WriteObject, name, pieces};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::sync::{Arc, MutexGuard};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

const SECTOR: u64 = 512;

/// A store that records its changes. See the module's page.
pub struct Forgetful {
    live: Memory,
    before: Memory,
    log: Arc<Mutex<Log>>,
    replayed: Mutex<(usize, Replay)>,
}

/// Locked during every change, so that the log has the order of the changes.
type Log = Vec<Change>;

/// One numbered operation. Objects are named by their identity, which a rename keeps.
#[derive(Debug, Clone)]
enum Change {
    Create { name: String, object: u64 },
    MakeFolder { name: String },
    Rename { from: String, to: String, object: u64 },
    RenameFolder { from: String, to: String },
    Remove { name: String },
    SyncFolder { folder: String },
    Write { object: u64, opened_as: Arc<str>, offset: u64, bytes: Vec<u8> },
    Truncate { object: u64, opened_as: Arc<str>, length: u64 },
    Punch { object: u64, opened_as: Arc<str>, offset: u64, length: u64 },
    Sync { object: u64, opened_as: Arc<str> },
}

impl Default for Forgetful {
    fn default() -> Forgetful {
        Forgetful::new()
    }
}

impl Forgetful {
    /// An empty store.
    pub fn new() -> Forgetful {
        Forgetful::over(&Memory::new())
    }

    /// A store with a copy of `content`, all of it durable.
    pub fn over(content: &Memory) -> Forgetful {
        let before = content.snapshot();
        let replayed = Mutex::new((0, Replay::from(&before)));
        Forgetful { live: before.snapshot(), before, log: Arc::default(), replayed }
    }

    /// Number of operations so far; `crash_after(0)` is the initial content.
    pub fn operations(&self) -> usize {
        self.lock().len()
    }

    /// Operation `n` (from 0) in words, for test messages.
    pub fn operation(&self, n: usize) -> String {
        match self.lock().get(n) {
            None => "nothing".into(),
            Some(Change::Create { name, .. }) => format!("create {name}"),
            Some(Change::MakeFolder { name }) => format!("make folder {name}"),
            Some(Change::Rename { from, to, .. } | Change::RenameFolder { from, to }) => {
                format!("rename {from} to {to}")
            }
            Some(Change::Remove { name }) => format!("remove {name}"),
            Some(Change::SyncFolder { folder }) => format!("sync folder \"{folder}\""),
            Some(Change::Write { opened_as, offset, bytes, .. }) => {
                format!("write {} bytes to {opened_as} at {offset}", bytes.len())
            }
            Some(Change::Truncate { opened_as, length, .. }) => format!("truncate {opened_as} to {length}"),
            Some(Change::Punch { opened_as, offset, length, .. }) => {
                format!("punch {length} bytes from {opened_as} at {offset}")
            }
            Some(Change::Sync { opened_as, .. }) => format!("sync {opened_as}"),
        }
    }

    /// Number of bytes that operation `n` (from 0) writes; `None` if it is not a write.
    pub fn bytes_written_by(&self, n: usize) -> Option<u64> {
        match self.lock().get(n) {
            Some(Change::Write { bytes, .. }) => Some(bytes.len() as u64),
            _ => None,
        }
    }

    /// The content if the process is killed after its first `n` operations, or after all if there are fewer.
    ///
    /// # Cost
    /// A replay of the operations since the last call, or of all `n` if that call had a larger `n`.
    pub fn crash_after(&self, n: usize) -> Memory {
        self.crash_after_bytes(n, 0)
    }

    /// Like [`crash_after`](Forgetful::crash_after), with the first `bytes` of the next operation if that is a write.
    pub fn crash_after_bytes(&self, n: usize, bytes: u64) -> Memory {
        let log = self.lock();
        let n = n.min(log.len());
        let mut replayed = self.replayed.lock();
        if replayed.0 > n {
            *replayed = (0, Replay::from(&self.before));
        }
        for change in &log[replayed.0..n] {
            replayed.1.apply(change);
        }
        replayed.0 = n;
        let left = replayed.1.copy();
        if let (Some(Change::Write { object, offset, bytes: all, .. }), true) = (log.get(n), bytes > 0) {
            let first = all.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
            left.write(*object, *offset, &all[..first]);
        }
        left.into_memory()
    }

    /// A possible content after a power cut that follows the first `n` operations.
    ///
    /// - `seed`: chooses the outcome. 0 loses all changes that were not synced, 1 keeps them all; any other number gives
    ///   one outcome in between, the same at each call.
    pub fn power_cut(&self, n: usize, seed: u64) -> Memory {
        let log = self.lock();
        let log = &log[..n.min(log.len())];
        let durable = durable(log);
        let mut chance = Chance::new(seed);
        let mut left = Replay::from(&self.before);
        for (change, durable) in log.iter().zip(durable) {
            match change {
                _ if durable => left.apply(change),
                // A later rename may be kept and give the object a name.
                Change::Create { object, .. } => {
                    left.make(*object);
                    if chance.keeps() {
                        left.apply(change);
                    }
                }
                Change::Write { object, offset, bytes, .. } => match chance.of_write() {
                    Outcome::Whole => left.apply(change),
                    Outcome::Lost => {}
                    Outcome::Zeros => left.grow(*object, offset + bytes.len() as u64),
                    Outcome::FirstSectors => {
                        let keep = chance.random.u64(0..=bytes.len() as u64 / SECTOR + 1);
                        for (at, sector) in sectors(*offset, bytes).take(keep as usize) {
                            left.write(*object, at, sector);
                        }
                    }
                    Outcome::AnySectors => {
                        for (at, sector) in sectors(*offset, bytes) {
                            if chance.random.bool() {
                                left.write(*object, at, sector);
                            }
                        }
                    }
                },
                _ if chance.keeps() => left.apply(change),
                _ => {}
            }
        }
        left.into_memory()
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }
}

/// For each change, whether a later sync makes it durable.
fn durable(log: &[Change]) -> Vec<bool> {
    let (mut objects, mut folders) = (BTreeSet::new(), BTreeSet::new());
    let mut durable = vec![false; log.len()];
    for (change, durable) in log.iter().zip(&mut durable).rev() {
        let folder_synced = |name: &str| folders.contains(name::folder_of(name));
        *durable = match change {
            Change::Create { name, .. } | Change::MakeFolder { name } | Change::Remove { name } => folder_synced(name),
            Change::Rename { from, to, .. } | Change::RenameFolder { from, to } => {
                folder_synced(from) && folder_synced(to)
            }
            Change::Write { object, .. } | Change::Truncate { object, .. } | Change::Punch { object, .. } => {
                objects.contains(object)
            }
            Change::Sync { object, .. } => !objects.insert(*object),
            Change::SyncFolder { folder } => !folders.insert(folder.as_str()),
        };
    }
    durable
}

/// A write cut at the sectors of its object.
fn sectors(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let first = (SECTOR - offset % SECTOR).min(bytes.len() as u64) as usize;
    let (head, tail) = bytes.split_at(first);
    let behind = offset + first as u64;
    let tail = tail.chunks(SECTOR as usize).enumerate().map(move |(n, run)| (behind + n as u64 * SECTOR, run));
    std::iter::once((offset, head)).chain(tail)
}

/// Random choices of a seed.
struct Chance {
    random: fastrand::Rng,
    /// Probability that a change is kept without a sync.
    keep: f64,
}

enum Outcome {
    Whole,
    Lost,
    Zeros,
    FirstSectors,
    AnySectors,
}

impl Chance {
    fn new(seed: u64) -> Chance {
        let mut random = fastrand::Rng::with_seed(seed);
        let keep = match seed {
            0 => 0.0,
            1 => 1.0,
            _ => [0.05, 0.3, 0.5, 0.7, 0.95][random.usize(0..5)],
        };
        Chance { random, keep }
    }

    fn keeps(&mut self) -> bool {
        self.random.f64() < self.keep
    }

    fn of_write(&mut self) -> Outcome {
        if self.keeps() {
            return Outcome::Whole;
        }
        if self.keep == 0.0 {
            return Outcome::Lost;
        }
        match self.random.u8(0..4) {
            0 => Outcome::Lost,
            1 => Outcome::Zeros,
            2 => Outcome::FirstSectors,
            _ => Outcome::AnySectors,
        }
    }
}

/// A store while changes are applied to it.
struct Replay {
    /// Folders (`None`) and objects by name.
    names: BTreeMap<String, Option<u64>>,
    objects: BTreeMap<u64, Object>,
}

impl Replay {
    fn from(memory: &Memory) -> Replay {
        let mut replay = Replay { names: BTreeMap::new(), objects: BTreeMap::new() };
        for (name, entry) in memory.entries() {
            let object = match entry {
                Entry::Folder => None,
                Entry::Object(object) => {
                    replay.objects.insert(object.identity, object.copy());
                    Some(object.identity)
                }
            };
            replay.names.insert(name, object);
        }
        replay
    }

    fn copy(&self) -> Replay {
        let objects = self.objects.iter().map(|(identity, object)| (*identity, object.copy())).collect();
        Replay { names: self.names.clone(), objects }
    }

    fn make(&mut self, object: u64) {
        self.objects.entry(object).or_insert_with(|| Object::with_identity(object));
    }

    fn write(&self, object: u64, offset: u64, bytes: &[u8]) {
        if let Some(object) = self.objects.get(&object) {
            // The write succeeded before, so its end is in range.
            let _ = object.write_at(offset, &[IoSlice::new(bytes)]);
        }
    }

    fn grow(&self, object: u64, length: u64) {
        if let Some(object) = self.objects.get(&object).filter(|object| object.length() < length) {
            object.truncate(length);
        }
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { name, object } => {
                self.make(*object);
                self.names.insert(name.clone(), Some(*object));
            }
            Change::MakeFolder { name } => {
                self.names.insert(name.clone(), None);
            }
            Change::Rename { from, to, object } => {
                // After a power cut another object may have the old name.
                if self.names.get(from) == Some(&Some(*object)) {
                    self.names.remove(from);
                }
                self.names.insert(to.clone(), Some(*object));
            }
            // The folder's content moves with it, also if a power cut has changed it.
            Change::RenameFolder { from, to } => {
                let below = format!("{from}/");
                let moves = |name: &String| name == from || name.starts_with(&below);
                let moved: Vec<String> = self.names.keys().filter(|name| moves(name)).cloned().collect();
                for name in moved {
                    if let Some(object) = self.names.remove(&name) {
                        self.names.insert(format!("{to}{}", &name[from.len()..]), object);
                    }
                }
            }
            Change::Remove { name } => {
                self.names.remove(name);
            }
            Change::Write { object, offset, bytes, .. } => self.write(*object, *offset, bytes),
            Change::Truncate { object, length, .. } => {
                if let Some(object) = self.objects.get(object) {
                    object.truncate(*length);
                }
            }
            Change::Punch { object, offset, length, .. } => {
                if let Some(object) = self.objects.get(object) {
                    object.punch(*offset, *length);
                }
            }
            Change::Sync { .. } | Change::SyncFolder { .. } => {}
        }
    }

    /// The store after the restart: names in a lost folder are lost, too.
    fn into_memory(mut self) -> Memory {
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        // A folder sorts before its content.
        for (name, object) in self.names {
            let folder = name::folder_of(&name);
            if !folder.is_empty() && !matches!(entries.get(folder), Some(Entry::Folder)) {
                continue;
            }
            let entry = match object {
                None => Some(Entry::Folder),
                // After a power cut one object may have two names: a lost removal, a kept rename.
                Some(identity) => match self.objects.remove(&identity) {
                    Some(object) => Some(Entry::Object(Arc::new(object))),
                    None => entries.values().find(|entry| is_object(entry, identity)).cloned(),
                },
            };
            if let Some(entry) = entry {
                entries.insert(name, entry);
            }
        }
        Memory::from_entries(entries)
    }
}

fn is_object(entry: &Entry, identity: u64) -> bool {
    matches!(entry, Entry::Object(object) if object.identity == identity)
}

impl Store for Forgetful {
    fn describe(&self) -> String {
        "forgetful memory:".into()
    }

    fn capability(&self) -> Capability {
        // The effect of `sync` is the purpose of this store.
        Capability { durability: Durability::Device, ..self.live.capability() }
    }

    fn open_write(&self, name: &str, how: OpenWrite) -> Result<Box<dyn WriteObject>> {
        let mut log = self.lock();
        let old_length = if how == OpenWrite::Replace { self.live.stat(name).map_or(0, |stat| stat.length) } else { 0 };
        let (object, made) = self.live.open(name, how)?;
        let name = name::relative(name)?.into_owned();
        let opened_as: Arc<str> = name.as_str().into();
        if made {
            log.push(Change::Create { name, object: object.identity });
        } else if old_length > 0 {
            log.push(Change::Truncate { object: object.identity, opened_as: opened_as.clone(), length: 0 });
        }
        drop(log);
        Ok(Box::new(ForgetfulHandle { object, opened_as, log: self.log.clone() }))
    }

    fn open_read(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        self.live.open_read(name)
    }

    fn stat(&self, name: &str) -> Result<Stat> {
        self.live.stat(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.live.list(folder)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut log = self.lock();
        let about = self.live.stat(from)?;
        self.live.rename(from, to)?;
        let (from, to) = (name::relative(from)?.into_owned(), name::relative(to)?.into_owned());
        if from != to {
            log.push(match about.is_folder {
                true => Change::RenameFolder { from, to },
                false => Change::Rename { from, to, object: about.identity },
            });
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut log = self.lock();
        self.live.remove(name)?;
        log.push(Change::Remove { name: name::relative(name)?.into_owned() });
        Ok(())
    }

    fn make_folder(&self, name: &str) -> Result<()> {
        let mut log = self.lock();
        let made = self.live.make_folders(name)?;
        log.extend(made.into_iter().map(|name| Change::MakeFolder { name }));
        Ok(())
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        let mut log = self.lock();
        self.live.sync_folder(folder)?;
        log.push(Change::SyncFolder { folder: name::relative(folder)?.into_owned() });
        Ok(())
    }
}

/// An object, open for writing.
struct ForgetfulHandle {
    object: Arc<Object>,
    opened_as: Arc<str>,
    log: Arc<Mutex<Log>>,
}

impl WriteObject for ForgetfulHandle {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let mut log = self.log.lock();
        self.object.write_at(offset, pieces).map_err(|e| e.in_object(format!("memory:{}", self.opened_as)))?;
        if pieces::total(pieces) > 0 {
            let (object, opened_as, bytes) = (self.object.identity, self.opened_as.clone(), joined(pieces)?);
            log.push(Change::Write { object, opened_as, offset, bytes });
        }
        Ok(())
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
        let mut log = self.log.lock();
        self.object.truncate(length);
        log.push(Change::Truncate { object: self.object.identity, opened_as: self.opened_as.clone(), length });
        Ok(())
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        let mut log = self.log.lock();
        self.object.punch(offset, length);
        log.push(Change::Punch { object: self.object.identity, opened_as: self.opened_as.clone(), offset, length });
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.log.lock().push(Change::Sync { object: self.object.identity, opened_as: self.opened_as.clone() });
        Ok(())
    }
}

fn joined(pieces: &[IoSlice<'_>]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let total = usize::try_from(pieces::total(pieces)).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(total).map_err(|_| Error::new(ErrorKind::NoMemory, "cannot record a write"))?;
    pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
    Ok(bytes)
}
