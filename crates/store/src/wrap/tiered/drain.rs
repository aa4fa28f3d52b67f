//! The drain: moves closed objects from the shadow store to the canonical store.
//!
//! An object's move, with a consistent state after each step:
//!
//! 1. Under the lock of its name: no process has a lease, and the object is *claimed*. A process that opens the object for writing,
//!    renames or removes it removes the claim.
//! 2. The journal records the beginning. The copy is written, without locks: under a temporary name, or, where the canonical store
//!    makes names appear at close, as an unclosed object.
//! 3. The copy is synced, read back, and compared by checksum.
//! 4. Under the lock, if the claim still stands: the copy gets the object's attributes and name, the name is made durable, and the
//!    shadow store's object and the pointer are removed. Until then readers see the shadow store's object.
//! 5. The journal records the end.
//!
//! A crash before step 4 leaves a copy that no reader sees, and that the next drain removes. A crash within step 4 leaves equal
//! objects in both stores: readers see the shadow store's, and the next drain moves it again. A call of either store that fails ends the
//! object's move in the same states; the drain goes on with other objects and repeats the move in its next round.

use super::journal::{self, Journal, Record};
use super::owner::Owner;
use super::{
    GROUPS, OURS, RUN, Tiered, behind_hole, copy, found, group_object, group_of, is_zero, modes, unique, walk,
};
use crate::wrap::Limited;
use crate::{Lease, OpenWrite, Store, StoreExt, WriteObject, name};
use std::collections::{BTreeSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Number of records after which a new journal is begun.
const MANY: usize = 10_000;

/// Interval between searches for pointers without objects.
const CLEARED: Duration = Duration::from_secs(60);

/// Rate and limits of a drain.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Bytes per second sent to the canonical store and read back from it, in all; `f64::INFINITY` for no limit.
    pub bytes_per_second: f64,
    /// Objects moved at the same time.
    pub streams: usize,
    /// Where the shadow store cannot tell leases: time since the last change after which an object counts as closed.
    pub quiet: Duration,
    /// Pause after a round that moved nothing.
    pub pause: Duration,
    /// Reads each copy back before the original is removed.
    pub verify: bool,
}

impl Default for Pace {
    fn default() -> Pace {
        let (quiet, pause) = (Duration::from_secs(300), Duration::from_secs(1));
        Pace { bytes_per_second: f64::INFINITY, streams: 4, quiet, pause, verify: true }
    }
}

/// Outcome of one round.
#[derive(Debug, Default)]
pub struct Passed {
    /// Objects moved.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that are being written, or were changed during the copy.
    pub busy: u64,
    /// Objects that failed to move, with the error. They stay in the shadow store, unless the error came after step 4. An object
    /// whose folder did not get its times back is here too, and counts as moved.
    pub failed: Vec<(String, Error)>,
}

/// A drain of a pair of stores. See the module's page.
pub struct Drain {
    tiered: Tiered,
    /// The canonical store, limited to the pace.
    canonical: Arc<dyn Store>,
    pace: Pace,
    log: Mutex<Log>,
    /// Groups whose claim one of the streams uses.
    groups: Mutex<BTreeSet<u32>>,
    /// When pointers without objects were last looked for.
    cleared: Mutex<Instant>,
    _alone: Lease,
}

/// The journal, open.
struct Log {
    /// `None` if the shadow store is full: the drain works without a journal.
    object: Option<Box<dyn WriteObject>>,
    end: u64,
    next: u64,
    records: usize,
    objects: u64,
    bytes: u64,
}

/// Outcome of one object's move.
enum Moved {
    /// Bytes moved, and whether the folder has the times of before.
    Yes(u64, Result<()>),
    Busy,
}

/// What steps 2 to 4 of a move did.
struct Shown {
    checksum: u32,
    /// Whether the folder got the times of before; the object is moved in either case.
    times: Result<()>,
}

/// First part of the names of this node's copies, in the canonical store's own folder.
fn copies_of(tiered: &Tiered) -> String {
    format!("{:032x}-", tiered.shared.pointers.us.number)
}

fn journal_object() -> String {
    format!("{OURS}/journal")
}

impl Drain {
    /// Begins a drain of these stores, and removes incomplete copies of an earlier one.
    ///
    /// # Errors
    /// `AlreadyExists` if another process or thread drains them; errors of the shadow store and of [`journal::read`].
    pub fn new(tiered: &Tiered, pace: Pace) -> Result<Drain> {
        let shadow = tiered.shadow();
        let Some(alone) = shadow.lock(&format!("{OURS}/drain"), false)? else {
            let what = format!("another drain is running on {}", tiered.describe());
            return Err(Error::new(ErrorKind::AlreadyExists, what));
        };
        let canonical: Arc<dyn Store> =
            Arc::new(Limited::new(tiered.canonical().clone(), pace.bytes_per_second, f64::INFINITY));
        let known = read_journal(&**shadow)?;
        for (_, _, temporary) in known.unfinished() {
            if !temporary.is_empty() {
                // A killed drain may have the copy open, for a store that leases names.
                found(canonical.settle(&temporary))?;
                found(canonical.remove(&temporary))?;
            }
        }
        // Copies of a drain without a journal.
        let ours = copies_of(tiered);
        // They are invisible: a failure of the canonical store does not fail the start.
        let left = canonical.list(OURS).unwrap_or_default();
        for left in left.iter().filter(|left| left.starts_with(&ours)) {
            let left = format!("{OURS}/{left}");
            let _ = canonical.settle(&left).and_then(|()| canonical.remove(&left));
        }
        for left in shadow.list(OURS)? {
            // Fetches run under the lock of their group: with the lock, a copy found is from a crash.
            let group = left.strip_prefix("fetch-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
            let _lock = match group {
                Some(group) if group < GROUPS => shadow.lock(&group_object(group), true)?,
                _ if left.starts_with("journal-") => None,
                _ => continue,
            };
            found(shadow.remove(&format!("{OURS}/{left}")))?;
        }
        for group in 0..GROUPS {
            // A claim of an earlier drain.
            if found(shadow.stat(&group_object(group)))?.is_some_and(|about| about.length > 0) {
                let _lock = shadow.lock(&group_object(group), true)?;
                let object = shadow.open_write(&group_object(group), OpenWrite::Existing)?;
                object.truncate(0)?;
                object.close()?;
            }
        }
        let log = Mutex::new(Log::begin(&**shadow, known.totals())?);
        let (groups, cleared) = (Mutex::default(), Mutex::new(Instant::now()));
        let drain = Drain { tiered: tiered.clone(), canonical, pace, log, groups, _alone: alone, cleared };
        // A failure is repeated later.
        let _ = drain.clear_pointers();
        Ok(drain)
    }

    /// Removes this node's pointers to objects that the shadow store lacks, left by a crash or a failed removal.
    ///
    /// # Errors
    /// Errors of the stores. Pointers before the failed one are removed.
    /// # Cost
    /// A list of all pointers of the canonical store; a read for each.
    pub fn clear_pointers(&self) -> Result<()> {
        let (shared, shadow) = (&self.tiered.shared, self.tiered.shadow());
        let mut left = Vec::new();
        shared.pointers.each(shared.pointers.us.number, &mut |name| {
            if found(shadow.stat(name))?.is_none() {
                left.push(name.to_string());
            }
            Ok(())
        })?;
        for name in left {
            // Under the lock no process is making the object.
            let _lock = shared.lock(&[&name])?;
            if found(shadow.stat(&name))?.is_none() {
                shared.pointers.release(&name)?;
            }
        }
        Ok(())
    }

    /// One round over all objects of the shadow store. Ends early once `stop` is set.
    ///
    /// # Errors
    /// Errors of listing the shadow store and of making a journal; errors of single objects are in [`Passed::failed`].
    /// # Cost
    /// A walk of the shadow store; for each object one read, one write and, if verified, one read back in the canonical store.
    pub fn pass(&self, stop: &AtomicBool) -> Result<Passed> {
        let mut names = VecDeque::new();
        self.walk("", &mut names)?;
        self.follow_folders(&names);
        let (names, passed) = (Mutex::new(names), Mutex::new(Passed::default()));
        std::thread::scope(|scope| {
            for _ in 0..self.pace.streams.max(1) {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let Some(name) = names.lock().pop_front() else { break };
                        let group = group_of(&name);
                        if !self.groups.lock().insert(group) {
                            // Another stream has this group's claim: later.
                            names.lock().push_back(name);
                            std::thread::sleep(Duration::from_millis(1));
                            continue;
                        }
                        let moved = self.one(&name);
                        self.groups.lock().remove(&group);
                        let mut passed = passed.lock();
                        match moved {
                            Ok(Moved::Yes(bytes, times)) => {
                                passed.objects += 1;
                                passed.bytes += bytes;
                                if let Err(error) = times {
                                    let safe = "the object, which is drained; its folder has the time of the move";
                                    passed.failed.push((name, error.safe(safe)));
                                }
                            }
                            Ok(Moved::Busy) => passed.busy += 1,
                            Err(error) => passed.failed.push((name, error)),
                        }
                    }
                });
            }
        });
        self.anew()?;
        if self.cleared.lock().elapsed() > CLEARED {
            let _ = self.clear_pointers();
            *self.cleared.lock() = Instant::now();
        }
        Ok(passed.into_inner())
    }

    /// Does rounds until `stop` is set; calls `told` after each round that moved objects or failed.
    ///
    /// # Errors
    /// As [`Drain::pass`].
    pub fn run(&self, stop: &AtomicBool, mut told: impl FnMut(&Passed)) -> Result<()> {
        let mut pause = self.pace.pause;
        while !stop.load(Ordering::Relaxed) {
            let passed = self.pass(stop)?;
            // The pause grows while objects fail.
            pause = match passed.failed.is_empty() {
                true => self.pace.pause,
                false => (pause * 2).min(Duration::from_secs(60)),
            };
            if passed.objects > 0 || !passed.failed.is_empty() {
                told(&passed);
            }
            if passed.objects > 0 && passed.failed.is_empty() {
                continue;
            }
            let until = std::time::Instant::now() + pause;
            while !stop.load(Ordering::Relaxed) && std::time::Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20).min(pause));
            }
        }
        Ok(())
    }

    /// Gives the folders of these objects the modes and owners that other nodes have given them. A folder that fails is tried again
    /// in the next round.
    fn follow_folders(&self, names: &VecDeque<String>) {
        let shared = &self.tiered.shared;
        let mut folders = BTreeSet::new();
        for name in names.iter().filter(|_| shared.modes) {
            let mut folder = name::folder_of(name);
            while !folder.is_empty() && folders.insert(folder) {
                folder = name::folder_of(folder);
            }
        }
        for folder in folders {
            let _ = shared.follow_folder(folder);
        }
    }

    /// Objects below a folder of the shadow store.
    fn walk(&self, folder: &str, names: &mut VecDeque<String>) -> Result<()> {
        let shadow = self.tiered.shadow();
        let Some(entries) = found(shadow.list(folder))? else { return Ok(()) };
        for entry in entries {
            let name = if folder.is_empty() { entry } else { format!("{folder}/{entry}") };
            if name == OURS {
                continue;
            }
            match found(shadow.stat(&name))? {
                // Made in the canonical store with the first object drained to it, if a crash left it out.
                Some(about) if about.is_folder => self.walk(&name, names)?,
                Some(_) => names.push_back(name),
                None => {}
            }
        }
        Ok(())
    }

    /// Makes a folder in the canonical store if it is missing; `false` if the shadow store's was removed meanwhile.
    ///
    /// - `locked`: this thread has a group locked, and must not wait for a second one.
    fn need_folder(&self, folder: &str, locked: bool) -> Result<bool> {
        if found(self.canonical.stat(folder))?.is_some() {
            return Ok(true);
        }
        // The folder above gets its times back.
        let _lock = if locked { Vec::new() } else { self.lock(folder)? };
        if found(self.tiered.shadow().stat(folder))?.is_none() {
            return Ok(false);
        }
        self.tiered.shared.mirror(&**self.tiered.shadow(), &*self.canonical, folder)?;
        Ok(true)
    }

    /// Locks an object's name for one step of its move, and its folder's where the move restores the folder's times: neither another
    /// stream nor a user changes them meanwhile.
    fn lock(&self, name: &str) -> Result<Vec<Lease>> {
        let shared = &self.tiered.shared;
        match shared.modes {
            true => shared.lock(&[name, name::folder_of(name)]),
            false => shared.lock(&[name]),
        }
    }

    /// Moves one object.
    fn one(&self, name: &str) -> Result<Moved> {
        let (shared, shadow) = (&self.tiered.shared, self.tiered.shadow());
        // 1
        let id = self.log.lock().id();
        let mut claim = id.to_le_bytes().to_vec();
        claim.extend_from_slice(name.as_bytes());
        let (object, locked) = {
            let lock = self.lock(name)?;
            match is_written(&**shadow, name, self.pace.quiet)? {
                None | Some(true) => return Ok(Moved::Busy),
                Some(false) => {}
            }
            self.must_be_ours(name)?;
            let object = shadow.open_copied(name)?;
            match shared.claim(name, &claim) {
                Ok(()) => (object, None),
                // No room for a claim: the lock is kept until the object is moved.
                Err(e) if e.kind() == ErrorKind::NoSpace => (object, Some(lock)),
                Err(e) => return Err(e),
            }
        };
        // 2
        let whole = self.canonical.capability().whole;
        let temporary = if whole { String::new() } else { format!("{OURS}/{}{}", copies_of(&self.tiered), unique()) };
        let length = object.length()?;
        self.note(&Record::Begin { id, length, name: name.into(), temporary: temporary.clone() })?;
        let outcome = self.copy_and_show(name, &claim, &*object, &temporary, locked.is_some());
        // 5
        match &outcome {
            Ok(Some(shown)) => {
                self.note(&Record::Done { id, checksum: shown.checksum })?;
                let log = &mut *self.log.lock();
                log.objects += 1;
                log.bytes += length;
            }
            _ => {
                if !temporary.is_empty() {
                    let _ = self.canonical.remove(&temporary);
                }
                self.note(&Record::GivenUp { id })?;
            }
        }
        if locked.is_none() {
            let _lock = shared.lock(&[name])?;
            if shared.claimed(name)? == claim {
                shared.claim(name, b"")?;
            }
        }
        outcome.map(|shown| shown.map_or(Moved::Busy, |shown| Moved::Yes(length, shown.times)))
    }

    /// Steps 2 to 4. `None` if the claim was removed.
    ///
    /// - `locked`: the name stays locked, and there is no claim.
    fn copy_and_show(
        &self,
        name: &str,
        claim: &[u8],
        object: &dyn crate::ReadObject,
        temporary: &str,
        locked: bool,
    ) -> Result<Option<Shown>> {
        let (shared, shadow) = (&self.tiered.shared, self.tiered.shadow());
        let lock = || if locked { Ok(Vec::new()) } else { self.lock(name) };
        let still = || Ok::<bool, Error>(locked || shared.claimed(name)? == claim);
        let folder = name::folder_of(name);
        if !self.need_folder(folder, locked)? {
            return Ok(None);
        }
        let whole = temporary.is_empty();
        let to = if whole {
            self.canonical.open_write(name, OpenWrite::Replace)?
        } else {
            if found(self.canonical.stat(OURS))?.is_none() {
                self.canonical.make_folder(OURS)?;
            }
            self.canonical.open_write_as(temporary, OpenWrite::New, shared.mode_of_copies())?
        };
        let (length, checksum) = copy(object, &*to, &self.canonical.capability())?;
        if !whole {
            // 3
            to.sync()?;
            to.close()?;
            self.verify(temporary, length, checksum)?;
            // 4
            let _lock = lock()?;
            if !still()? {
                return Ok(None);
            }
            let times = if shared.modes { shared.times_of_folder(folder)? } else { None };
            if shared.modes {
                modes::give(&*self.canonical, temporary, &shadow.attributes(name)?, true)?;
            }
            self.canonical.rename(temporary, name)?;
            self.canonical.sync_folder(folder)?;
            shadow.remove(name)?;
            shared.pointers.release(name)?;
            let times = times.map_or(Ok(()), |times| shared.keep_times_of_folder(folder, &times));
            return Ok(Some(Shown { checksum, times }));
        }
        // The close names the object; it is read back afterwards, while readers still see the shadow store's.
        {
            let _lock = lock()?;
            if !still()? {
                return Ok(None);
            }
            to.close()?;
        }
        // Who changed or removed the object meanwhile took the claim away: that the copy differs, or is gone, is no error then.
        let verified = self.verify(name, length, checksum);
        let _lock = lock()?;
        if !still()? {
            return Ok(None);
        }
        verified?;
        shadow.remove(name)?;
        shared.pointers.release(name)?;
        Ok(Some(Shown { checksum, times: Ok(()) }))
    }

    /// Makes sure that the move replaces no other node's object: the pointer is this node's, or there is none and the canonical store
    /// has no object that another node may have written. Under the lock of the name.
    fn must_be_ours(&self, name: &str) -> Result<()> {
        let (shared, canonical) = (&self.tiered.shared, self.tiered.canonical());
        let refuse = |what: String| {
            let safe = "both objects, each where it is; rename or remove one of them";
            Err(Error::new(ErrorKind::AlreadyExists, what).in_object(name).safe(safe))
        };
        match shared.pointers.owner(name)? {
            Some(Owner::Us) => return Ok(()),
            Some(Owner::Other(who)) => {
                return refuse(format!("cannot drain: the fast store {who} has an object of this name too"));
            }
            _ => {}
        }
        // An object from an earlier release, or a pointer lost in a power cut of the canonical store.
        if found(canonical.stat(name))?.is_some()
            && let Some(other) = shared.pointers.others()?.first()
            && !self.is_equal(name)?
        {
            let what = format!(
                "cannot drain: the canonical store has another object of this name, which may be of another node ({})",
                other.shown
            );
            return refuse(what);
        }
        shared.pointers.acquire("drain", name, false)
    }

    /// Whether both stores hold the same bytes under a name.
    fn is_equal(&self, name: &str) -> Result<bool> {
        let (here, there) = (self.tiered.shadow().open_copied(name)?, self.tiered.canonical().open_copied(name)?);
        if here.length()? != there.length()? {
            return Ok(false);
        }
        let (mut ours, mut theirs, mut at) = (vec![0; RUN], vec![0; RUN], 0);
        loop {
            let got = here.read_at(at, &mut ours)?;
            if got == 0 {
                return Ok(true);
            }
            there.read_exact_at(at, &mut theirs[..got])?;
            if ours[..got] != theirs[..got] {
                return Ok(false);
            }
            at += got as u64;
            if is_zero(&ours[..got]) {
                at = behind_hole(&*here, at)?.min(behind_hole(&*there, at)?);
            }
        }
    }

    fn verify(&self, name: &str, length: u64, checksum: u32) -> Result<()> {
        if !self.pace.verify {
            return Ok(());
        }
        let copy = self.canonical.open_copied(name)?;
        match walk(&*copy, true, |_, _| Ok(()))? {
            read if read == (length, checksum) => Ok(()),
            (bytes, read) => {
                let what =
                    format!("the copy holds {bytes} bytes of checksum {read:08x}, not {length} of {checksum:08x}");
                Err(Error::new(ErrorKind::Corrupt, what).in_object(format!("{} {name}", self.canonical.describe())))
            }
        }
    }

    fn note(&self, record: &Record) -> Result<()> {
        self.log.lock().note(record)
    }

    /// Begins a new journal if the old one is long or missing.
    fn anew(&self) -> Result<()> {
        let log = &mut *self.log.lock();
        if log.records > MANY || log.object.is_none() {
            *log = Log::begin(&**self.tiered.shadow(), (log.objects, log.bytes, log.next))?;
        }
        Ok(())
    }
}

impl Log {
    /// A new journal in place of the one that is there.
    fn begin(shadow: &dyn Store, (objects, bytes, next): (u64, u64, u64)) -> Result<Log> {
        let temporary = format!("{OURS}/journal-{}", unique());
        let begun = (|| {
            let object = shadow.open_write(&temporary, OpenWrite::New)?;
            let mut first = journal::header().to_vec();
            first.extend_from_slice(&Record::Totals { objects, bytes, next }.encode()?);
            object.write_at(0, &[IoSlice::new(&first)])?;
            object.sync()?;
            shadow.rename(&temporary, &journal_object())?;
            shadow.sync_folder(OURS)?;
            Ok::<_, Error>((object, first.len() as u64))
        })();
        let (object, end) = match begun {
            Ok((object, end)) => (Some(object), end),
            Err(e) => {
                let _ = shadow.remove(&temporary);
                match e.kind() {
                    ErrorKind::NoSpace => (None, 0),
                    _ => return Err(e),
                }
            }
        };
        Ok(Log { object, end, next, records: 1, objects, bytes })
    }

    /// The number of a move.
    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn note(&mut self, record: &Record) -> Result<()> {
        let Some(object) = &self.object else { return Ok(()) };
        let bytes = record.encode()?;
        let written = object.write_at(self.end, &[IoSlice::new(&bytes)]).and_then(|()| match record {
            // After a power cut a copy must be found. Other lost records do no harm.
            Record::Begin { temporary, .. } if !temporary.is_empty() => object.sync(),
            _ => Ok(()),
        });
        match written {
            Ok(()) => {
                self.records += 1;
                self.end += bytes.len() as u64;
                Ok(())
            }
            // Copies are found by their names as well. A new journal is begun once there is room.
            Err(e) if e.kind() == ErrorKind::NoSpace => {
                self.object = None;
                Ok(())
            }
            Err(e) => Err(e),
        }
    }
}

fn read_journal(shadow: &dyn Store) -> Result<Journal> {
    let bytes = found(shadow.read_all(&journal_object()))?.unwrap_or_default();
    journal::read(&bytes).map_err(|e| e.in_object(journal_object()))
}

/// Whether an object is being written; `None` if there is none.
fn is_written(shadow: &dyn Store, name: &str, quiet: Duration) -> Result<Option<bool>> {
    let Some(object) = found(shadow.open_read(name))? else { return Ok(None) };
    let life = object.life()?;
    Ok(Some(match (life.leased, life.modified) {
        (Some(leased), _) => leased,
        (None, Some(modified)) => SystemTime::now().duration_since(modified).is_ok_and(|age| age < quiet),
        (None, None) => true,
    }))
}

/// Drains until no closed object has been waiting for `idle`, or until `stop` is set. Returns at once if another process drains.
///
/// Each object closed before the end is moved by this drain, or its writer finds no drain and starts one.
///
/// - `patience`: time without any moved object after which errors end the drain; until then `told` is called with each error.
///
/// # Errors
/// The last error after `patience`; errors of the shadow store when it is listed at the end.
pub fn run_until_idle(
    tiered: &Tiered,
    pace: Pace,
    (idle, patience): (Duration, Duration),
    stop: &AtomicBool,
    mut told: impl FnMut(Result<&Passed>),
) -> Result<()> {
    let mut since = Instant::now();
    let mut pause = pace.pause;
    let rest = |pause: &mut Duration| {
        std::thread::sleep(*pause);
        *pause = (*pause * 2).min(Duration::from_secs(60));
    };
    while !stop.load(Ordering::Relaxed) {
        let outcome = Drain::new(tiered, pace).and_then(|drain| {
            loop {
                let passed = drain.pass(stop)?;
                if passed.objects > 0 || !passed.failed.is_empty() {
                    told(Ok(&passed));
                }
                if passed.objects > 0 {
                    (since, pause) = (Instant::now(), pace.pause);
                }
                let (failed, limit) = match passed.failed.is_empty() {
                    true => (false, idle),
                    false => (true, patience),
                };
                if stop.load(Ordering::Relaxed) || since.elapsed() >= limit {
                    return Ok(passed.failed.into_iter().next());
                }
                match failed {
                    true => rest(&mut pause),
                    false if passed.objects == 0 => std::thread::sleep(pace.pause.min(limit)),
                    false => {}
                }
            }
        });
        match outcome {
            // A writer that closes now finds no drain; objects closed before are found here.
            Ok(None) if !stop.load(Ordering::Relaxed) && closed_waits(tiered)? => since = Instant::now(),
            Ok(None) => return Ok(()),
            Ok(Some((name, error))) => return Err(error.in_object(name)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(()),
            Err(e) if since.elapsed() >= patience => return Err(e),
            Err(e) => {
                told(Err(e));
                rest(&mut pause);
            }
        }
    }
    Ok(())
}

/// Whether the shadow store has a closed object.
fn closed_waits(tiered: &Tiered) -> Result<bool> {
    Ok(status(tiered)?.waiting.iter().any(|object| !object.written))
}

/// An object that is not drained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its name.
    pub name: String,
    /// Current length in bytes.
    pub length: u64,
    /// A process is writing it.
    pub written: bool,
    /// It is being copied.
    pub moving: bool,
}

/// State of a burst buffer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Objects that are not drained, by name.
    pub waiting: Vec<Waiting>,
    /// Number of objects drained since the burst buffer was made.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// A drain is at work.
    pub draining: bool,
}

/// The state of a burst buffer, while other processes use it.
///
/// # Errors
/// Errors of the shadow store and of [`journal::read`].
/// # Cost
/// A walk of the shadow store, with an open of each object.
pub fn status(tiered: &Tiered) -> Result<Status> {
    let shadow = tiered.shadow();
    let draining = shadow.lock(&format!("{OURS}/drain"), false)?.is_none();
    let (objects, bytes, _) = read_journal(&**shadow)?.totals();
    let mut status = Status { waiting: Vec::new(), objects, bytes, draining };
    let mut folders = VecDeque::from([String::new()]);
    while let Some(folder) = folders.pop_front() {
        for entry in found(shadow.list(&folder))?.unwrap_or_default() {
            let name = if folder.is_empty() { entry } else { format!("{folder}/{entry}") };
            if name == OURS {
                continue;
            }
            let Some(about) = found(shadow.stat(&name))? else { continue };
            if about.is_folder {
                folders.push_back(name);
                continue;
            }
            let written = is_written(&**shadow, &name, Duration::ZERO)?.unwrap_or(false);
            let claim = found(tiered.shared.claimed(&name))?.unwrap_or_default();
            let moving = draining && claim.get(8..) == Some(name.as_bytes());
            status.waiting.push(Waiting { name, length: about.length, written, moving });
        }
    }
    status.waiting.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(status)
}

impl Tiered {
    /// Drains in a thread of this process until the result is dropped.
    ///
    /// # Errors
    /// As [`Drain::new`].
    pub fn drain_in_background(&self, pace: Pace) -> Result<Background> {
        let drain = Drain::new(self, pace)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("thalweg-drain".into()).spawn(move || {
            // Failed objects stay in the shadow store, visible to readers, and are repeated.
            let _ = drain.run(&stopped, |_| {});
        });
        let thread = thread.map_err(|e| Error::io("cannot start the drain's thread", e))?;
        Ok(Background { stop, thread: Some(thread) })
    }
}

/// A drain in a thread. Dropping it ends the drain after the objects that are being moved.
pub struct Background {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
