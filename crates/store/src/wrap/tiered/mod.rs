//! The burst buffer: a fast *shadow* store takes all writes, a drain moves closed objects to the *canonical* store, and readers see
//! one store.
//!
//! | question | answer |
//! |----------|--------|
//! | a write  | is done in the shadow store; `sync` promises the durability of the shadow store |
//! | a read   | reads the shadow store's object, else the canonical store's. If both have an object of one name, the shadow store's is the newer |
//! | drained  | objects that no process has open for writing, including those of killed writers |
//! | reopened for writing | a drained object is fetched back first, with its bytes |
//! | a crash, at any moment | loses no object and doubles none: an object is removed from the shadow store only once the canonical store has it complete, verified and durable |
//! | a failed call of either store | leaves the object where it is; the drain repeats it in its next round |
//! | processes | any number, each with the same two stores; one of them drains |
//! | nodes    | any number, each with a shadow store of its own before one canonical store: [`owner`]. Opening an object that another node has not drained is an error that names the node; objects for all nodes are made in the canonical store ([`Store::make_for_all`]) |
//! | an open reader | continues to read the object that it opened, also after a drain or a fetch |
//! | identity | changes when an object is drained or fetched |
//! | modes, owners, times | those of the original in both stores, where both keep modes (`modes`); a folder's times also change when its objects are drained |
//! | folders  | are those of the canonical store, made in the shadow store when needed; cannot be renamed |
//! | rename   | a fetch and a rename if only the canonical store has the object and the shadow store has another one at the new name |
//! | requires | a shadow store that writes at any offset, renames atomically, makes bytes visible at once, and has leases and locks; a canonical store whose lists include the latest changes |
//!
//! Names are locked (in one of 64 groups, by their checksum) while they are opened for writing, renamed, removed, claimed for
//! draining, or removed from the shadow store; never while bytes are copied. The burst buffer's own objects lie in the folder
//! [`OURS`] of both stores: `docs/format/tiered.md`.

mod drain;
pub mod journal;
mod modes;
pub mod owner;

pub use drain::{Drain, Pace, Passed, Status, Waiting, run_until_idle, status};

use crate::{
    Attributes, Capability, Change, Lease, Life, ListConsistency, OpenWrite, ReadObject, Rename, Stat, Store, Visible,
    WriteObject, name, unsupported,
};
use owner::{Owner, Pointers};
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use thalweg_types::checksum::{Crc32c, crc32c};
use thalweg_types::{Error, ErrorKind, Result, holes};

/// The burst buffer's own folder, in both stores.
pub const OURS: &str = ".thalweg-drain";

/// Groups of names that are locked together.
const GROUPS: u32 = 64;

/// Bytes copied at a time.
const RUN: usize = 4 << 20;

/// A fast and a slow store as one store. See the module's page.
#[derive(Clone)]
pub struct Tiered {
    shared: Arc<Shared>,
}

struct Shared {
    shadow: Arc<dyn Store>,
    canonical: Arc<dyn Store>,
    pointers: Pointers,
    /// Both stores keep modes.
    modes: bool,
    closed: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Tiered {
    /// - `shadow`: the fast store.
    /// - `canonical`: the store that objects are drained to.
    ///
    /// # Errors
    /// `Config` naming the ability that a store lacks for its role; errors of the stores.
    /// # Cost
    /// The first time, a look at all objects of the shadow store; later a lock and an open.
    pub fn new(shadow: Arc<dyn Store>, canonical: Arc<dyn Store>) -> Result<Tiered> {
        let (fast, slow) = (shadow.capability(), canonical.capability());
        let refuse = |store: &dyn Store, role: &str, lacks: &str| {
            let what =
                format!("store {} cannot be the {role} store of a burst buffer: it lacks {lacks}", store.describe());
            Err(Error::new(ErrorKind::Config, what))
        };
        let lacks = [
            (!fast.write_at, "writes at any offset"),
            (!fast.append, "opening what is closed"),
            (fast.rename != Rename::Atomic, "atomic renames"),
            (fast.visible != Visible::AtWrite, "bytes seen at once"),
            (!fast.exclusive, "exclusive creation"),
            (fast.list != ListConsistency::Strong, "lists that tell what just happened"),
        ];
        if let Some((_, lacks)) = lacks.iter().find(|(lacking, _)| *lacking) {
            return refuse(&*shadow, "shadow", lacks);
        }
        if slow.list != ListConsistency::Strong {
            return refuse(&*canonical, "canonical", "lists that tell what just happened");
        }
        if !slow.whole && slow.rename == Rename::None {
            return refuse(&*canonical, "canonical", "renames, and objects that appear whole");
        }
        shadow.make_folder(OURS)?;
        let alone = match shadow.lock(&group_object(0), true) {
            Ok(alone) => alone.unwrap_or_else(|| Lease::new(())),
            Err(e) if e.kind() == ErrorKind::Unsupported => return refuse(&*shadow, "shadow", "locks"),
            Err(e) => return Err(e),
        };
        let probe = shadow.open_write(&group_object(0), OpenWrite::Existing)?;
        if probe.lease()?.is_none() {
            return refuse(&*shadow, "shadow", "leases, which tell who writes");
        }
        let (pointers, new) = Pointers::new(&*shadow, canonical.clone(), &alone)?;
        let modes = fast.modes && slow.modes && !slow.whole;
        let shared = Shared { shadow, canonical, pointers, modes, closed: OnceLock::new() };
        if new {
            // The shadow store may have objects from releases without pointers.
            shared.adopt("")?;
            shared.pointers.registered(&*shared.shadow)?;
        }
        Ok(Tiered { shared: Arc::new(shared) })
    }

    /// The fast store.
    pub fn shadow(&self) -> &Arc<dyn Store> {
        &self.shared.shadow
    }

    /// The store that objects are drained to.
    pub fn canonical(&self) -> &Arc<dyn Store> {
        &self.shared.canonical
    }

    /// Sets the function that is called after each close (or drop) of an object in the shadow store, when it may be drained. Only the
    /// first call has an effect.
    pub fn after_close(&self, call: impl Fn() + Send + Sync + 'static) {
        let _ = self.shared.closed.set(Box::new(call));
    }

    /// The pointers that tell which node's fast store has an object.
    pub fn pointers(&self) -> &Pointers {
        &self.shared.pointers
    }
}

/// The object that is locked for a group of names; it holds the group's claim.
fn group_object(group: u32) -> String {
    format!("{OURS}/group-{group:02}")
}

fn group_of(name: &str) -> u32 {
    crc32c(name.as_bytes()) % GROUPS
}

/// A text that is unique among processes and threads of this machine.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (process, count) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("{process:x}-{:x}-{count:x}", time.as_nanos())
}

/// `None` for `NotFound`.
fn found<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Passes an object's bytes to `take`, in order; returns their number and checksum.
///
/// - `skip`: long holes are not passed.
fn walk(object: &dyn ReadObject, skip: bool, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<(u64, u32)> {
    let mut run = vec![0; RUN];
    let (mut at, mut checksum) = (0, Crc32c::new());
    loop {
        let got = object.read_at(at, &mut run)?;
        if got == 0 {
            return Ok((at, checksum.finish()));
        }
        checksum.update(&run[..got]);
        take(at, &run[..got])?;
        at += got as u64;
        if skip && is_zero(&run[..got]) {
            let next = behind_hole(object, at)?;
            checksum.update_zeros(next - at);
            at = next;
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// The end of the hole at `at`, if it is so long that it is believed; else `at`.
fn behind_hole(object: &dyn ReadObject, at: u64) -> Result<u64> {
    let next = holes::stored_after(at, object.length()?.max(at), |offset| object.stored_before(offset))?;
    Ok(if next - at >= holes::BELIEVED { next } else { at })
}

/// Copies an object's bytes; returns their number and checksum. Long holes stay holes where the store writes at any offset and
/// truncates.
///
/// - `can`: what the store of `to` can.
fn copy(from: &dyn ReadObject, to: &dyn WriteObject, can: &Capability) -> Result<(u64, u32)> {
    let mut end = 0;
    let (length, checksum) = walk(from, can.write_at && can.truncate, |at, bytes| {
        end = at + bytes.len() as u64;
        to.write_at(at, &[IoSlice::new(bytes)])
    })?;
    if end < length {
        to.truncate(length)?;
    }
    Ok((length, checksum))
}

impl Shared {
    /// The normalized name of an object or folder; an error for the burst buffer's own folder.
    fn name<'a>(&self, name: &'a str, what: &str) -> Result<std::borrow::Cow<'a, str>> {
        let relative = name::relative(name)
            .map_err(|e| Error::new(e.kind(), format!("cannot {what}")).caused_by(e).in_object(name))?;
        if relative == OURS || relative.starts_with(&format!("{OURS}/")) {
            return Err(wrong(ErrorKind::InvalidArgument, &format!("{what}: the burst buffer keeps this name"), name));
        }
        Ok(relative)
    }

    /// Locks the groups of some names, in ascending order, so that no two processes wait for each other.
    fn lock(&self, names: &[&str]) -> Result<Vec<Lease>> {
        let groups: BTreeSet<u32> = names.iter().map(|name| group_of(name)).collect();
        let mut locks = Vec::with_capacity(groups.len());
        for group in groups {
            locks.extend(self.shadow.lock(&group_object(group), true)?);
        }
        Ok(locks)
    }

    /// The claim of a name's group. Under its lock.
    fn claimed(&self, name: &str) -> Result<Vec<u8>> {
        let object = self.shadow.open_read(&group_object(group_of(name)))?;
        let mut claim = vec![0; usize::try_from(object.length()?).unwrap_or(0).min(1 << 16)];
        let got = object.read_at(0, &mut claim)?;
        claim.truncate(got);
        Ok(claim)
    }

    /// Sets the claim of a name's group. Under its lock.
    fn claim(&self, name: &str, claim: &[u8]) -> Result<()> {
        let object = self.shadow.open_write(&group_object(group_of(name)), OpenWrite::Existing)?;
        object.truncate(0)?;
        object.write_at(0, &[IoSlice::new(claim)])?;
        object.close()
    }

    /// Removes the claim on an object: a drain that copies it gives up. Under the lock of the name's group.
    fn unclaim(&self, name: &str) -> Result<()> {
        let claim = self.claimed(name)?;
        match claim.split_first_chunk::<8>() {
            Some((_, claimed)) if claimed == name.as_bytes() => self.claim(name, b""),
            _ => Ok(()),
        }
    }

    /// Opens an object of the shadow store for writing, with a lease. Under its lock; the pointer is this node's.
    fn write_here(self: &Arc<Self>, name: &str, how: OpenWrite, mode: u32) -> Result<Box<dyn WriteObject>> {
        self.unclaim(name)?;
        let inner = self.shadow.open_write_as(name, how, mode)?;
        // Under the lock: an object without a lease may be drained.
        let lease = inner.lease()?;
        if lease.is_none() {
            return Err(wrong(ErrorKind::Unsupported, "open for writing: the shadow store refuses a lease", name));
        }
        Ok(Box::new(Writing { inner, on_close: Some((lease, CloseNotifier(self.clone()))) }))
    }

    /// Makes the folder of an object in the shadow store if the canonical store has it.
    fn need_folder(&self, what: &str, name: &str) -> Result<()> {
        let folder = name::folder_of(name);
        match found(self.shadow.stat(folder))? {
            Some(about) if about.is_folder => return Ok(()),
            Some(_) => {}
            None => {
                if found(self.canonical.stat(folder))?.is_some_and(|about| about.is_folder) {
                    return self.mirror(&*self.canonical, &*self.shadow, folder);
                }
            }
        }
        Err(wrong(ErrorKind::NotFound, &format!("{what}: there is no folder {folder}"), name))
    }

    /// Copies an object that only the canonical store has to a name of the shadow store. Under the locks of both names.
    ///
    /// - `bytes`: with bytes and times; else an empty object with mode and owner.
    fn fetch(&self, name: &str, to: &str, bytes: bool) -> Result<()> {
        let temporary = format!("{OURS}/fetch-{:02}-{}", group_of(name), unique());
        let outcome = (|| {
            let object = self.shadow.open_write_as(&temporary, OpenWrite::New, self.mode_of_copies())?;
            if bytes {
                copy(&*self.canonical.open_copied(name)?, &*object, &self.shadow.capability())?;
                object.sync()?;
            }
            object.close()?;
            if self.modes {
                modes::give(&*self.shadow, &temporary, &self.canonical.attributes(name)?, bytes)?;
            }
            self.need_folder("fetch", to)?;
            self.shadow.rename(&temporary, to)?;
            self.shadow.sync_folder(name::folder_of(to))
        })();
        if outcome.is_err() {
            let _ = self.shadow.remove(&temporary);
        }
        outcome
    }

    /// Asks the shadow store, then the canonical store, so that an object that is drained in between is found. A second round finds
    /// an object that is fetched in between. An object that another node has is an error.
    fn either<T>(&self, what: &str, name: &str, ask: impl Fn(&dyn Store) -> Result<T>) -> Result<T> {
        self.either_or(ErrorKind::Io, what, name, ask)
    }

    /// - `elsewhere`: the kind of error for an object that another node has.
    fn either_or<T>(
        &self,
        elsewhere: ErrorKind,
        what: &str,
        name: &str,
        ask: impl Fn(&dyn Store) -> Result<T>,
    ) -> Result<T> {
        let mut last = None;
        for (round, store) in [&self.shadow, &self.canonical, &self.shadow, &self.canonical].into_iter().enumerate() {
            if round == 1 {
                self.pointers.not_elsewhere(elsewhere, what, name)?;
            }
            match ask(&**store) {
                Err(e) if e.kind() == ErrorKind::NotFound => last = Some(e),
                outcome => return outcome,
            }
        }
        Err(last.unwrap_or_else(|| Error::new(ErrorKind::NotFound, "no store was asked")))
    }

    /// Removes the pointers of names that the shadow store lacks. Under their locks. The next drain removes pointers that stay
    /// after a failure.
    fn release_absent(&self, names: &[&str]) {
        for name in names {
            if matches!(found(self.shadow.stat(name)), Ok(None)) {
                let _ = self.pointers.release(name);
            }
        }
    }

    /// Makes pointers to all objects below a folder of a shadow store that is new to the canonical store, and makes its folders
    /// there. A name that another node has too is left out: the drain reports it.
    fn adopt(&self, folder: &str) -> Result<()> {
        for entry in found(self.shadow.list(folder))?.unwrap_or_default() {
            let name = if folder.is_empty() { entry } else { format!("{folder}/{entry}") };
            match found(self.shadow.stat(&name))? {
                _ if name == OURS => {}
                Some(about) if about.is_folder => {
                    self.mirror(&*self.shadow, &*self.canonical, &name)?;
                    self.adopt(&name)?;
                }
                Some(_) => match self.pointers.acquire("adopt", &name, true) {
                    Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
                    _ => {}
                },
                None => {}
            }
        }
        Ok(())
    }

    /// Whether a folder of the shadow store is left from one that another node has removed. It is removed if it is empty.
    fn is_left_over(&self, folder: &str) -> Result<bool> {
        if folder.is_empty() || found(self.canonical.stat(folder))?.is_some() {
            return Ok(false);
        }
        let left = found(self.shadow.list(folder))?.is_none_or(|names| names.is_empty());
        if left {
            let _ = self.shadow.remove(folder);
        }
        Ok(left)
    }
}

fn wrong(kind: ErrorKind, what: &str, name: &str) -> Error {
    Error::new(kind, format!("cannot {what}")).in_object(name)
}

impl Store for Tiered {
    fn describe(&self) -> String {
        format!("tiered {} before {}", self.shared.shadow.describe(), self.shared.canonical.describe())
    }

    fn capability(&self) -> Capability {
        let (fast, slow) = (self.shared.shadow.capability(), self.shared.canonical.capability());
        Capability {
            rename: Rename::Copy,
            rename_folder: false,
            attributes: false,
            modes: self.shared.modes,
            moves: true,
            largest_object: fast.largest_object.min(slow.largest_object),
            ..fast
        }
    }

    /// In the canonical store, as other nodes may not see the shadow store.
    fn lock_place(&self, name: &str) -> Option<std::path::PathBuf> {
        self.shared.canonical.lock_place(name)
    }

    fn open_write(&self, name: &str, how: OpenWrite) -> Result<Box<dyn WriteObject>> {
        self.open_write_as(name, how, 0o666)
    }

    fn open_write_as(&self, name: &str, how: OpenWrite, mode: u32) -> Result<Box<dyn WriteObject>> {
        const WHAT: &str = "open for writing";
        let shared = &self.shared;
        let name = &*shared.name(name, WHAT)?;
        let _locks = shared.lock(&[name])?;
        let is_folder = || wrong(ErrorKind::InvalidArgument, &format!("{WHAT}: it is a folder"), name);
        if let Some(about) = found(shared.shadow.stat(name))? {
            if about.is_folder {
                return Err(is_folder());
            }
            return shared.write_here(name, how, mode);
        }
        if how == OpenWrite::Existing {
            // Before a pointer is made.
            shared.pointers.not_elsewhere(ErrorKind::Io, WHAT, name)?;
            shared.canonical.stat(name)?;
        }
        shared.need_folder(WHAT, name)?;
        shared.pointers.acquire(WHAT, name, how == OpenWrite::New)?;
        // With the pointer no other node makes the object.
        let outcome = (|| {
            let there = found(shared.canonical.stat(name))?;
            match (how, &there) {
                (_, Some(about)) if about.is_folder => return Err(is_folder()),
                (OpenWrite::New, Some(_)) => return Err(wrong(ErrorKind::AlreadyExists, "make", name)),
                (OpenWrite::Existing | OpenWrite::Any, Some(_)) => shared.fetch(name, name, true)?,
                // Its mode and owner stay.
                (OpenWrite::Replace, Some(_)) if shared.modes => shared.fetch(name, name, false)?,
                _ => {}
            }
            shared.write_here(name, how, mode)
        })();
        if outcome.is_err() {
            shared.release_absent(&[name]);
        }
        outcome
    }

    fn make_for_all(&self, name: &str, mode: u32) -> Result<Box<dyn WriteObject>> {
        const WHAT: &str = "make";
        let shared = &self.shared;
        let name = &*shared.name(name, WHAT)?;
        if !shared.canonical.capability().exclusive {
            return self.open_write(name, OpenWrite::New);
        }
        let _locks = shared.lock(&[name])?;
        let make = || shared.canonical.open_write_as(name, OpenWrite::New, mode);
        if found(shared.shadow.stat(name))?.is_some() || matches!(shared.pointers.owner(name)?, Some(Owner::Other(_))) {
            return Err(wrong(ErrorKind::AlreadyExists, WHAT, name));
        }
        let inner = match make() {
            // A folder that only the shadow store has is from an earlier release.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let folder = name::folder_of(name);
                if found(shared.shadow.stat(folder))?.is_none() {
                    return Err(e);
                }
                shared.mirror(&*shared.shadow, &*shared.canonical, folder)?;
                make()?
            }
            outcome => outcome?,
        };
        Ok(Box::new(Writing { inner, on_close: None }))
    }

    /// That of the canonical store, where all objects lie in the end.
    fn request_cost(&self) -> u64 {
        self.shared.canonical.request_cost()
    }

    fn has_leases(&self) -> bool {
        false
    }

    fn sync_closed(&self, name: &str) -> Result<()> {
        let name = &*self.shared.name(name, "sync")?;
        self.shared.either("sync", name, |store| store.sync_closed(name))
    }

    fn open_read(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        let name = &*self.shared.name(name, "open")?;
        let inner = self.shared.either("open", name, |store| store.open_read(name))?;
        Ok(Box::new(Reading { inner }))
    }

    fn stat(&self, name: &str) -> Result<Stat> {
        let name = &*self.shared.name(name, "stat")?;
        if found(self.shared.shadow.stat(name))?.is_some_and(|about| about.is_folder) {
            self.shared.is_left_over(name)?;
        }
        self.shared.either("stat", name, |store| store.stat(name))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let folder = &*self.shared.name(folder, "list")?;
        let here = found(self.shared.shadow.list(folder))?;
        // An object of this name in the shadow store hides what the canonical one has.
        if here.is_none() && found(self.shared.shadow.stat(folder))?.is_some() {
            return Err(wrong(ErrorKind::NotFound, "list: it is an object", folder));
        }
        let there = match found(self.shared.canonical.list(folder))? {
            None if here.is_none() => return Err(wrong(ErrorKind::NotFound, "list", folder)),
            there => there,
        };
        let mut names: BTreeSet<String> = here.into_iter().chain(there).flatten().collect();
        // Objects that other nodes have not drained.
        for entry in self.shared.pointers.list(folder)? {
            if names.contains(&entry) {
                continue;
            }
            let name = if folder.is_empty() { entry.clone() } else { format!("{folder}/{entry}") };
            let there = match self.shared.pointers.owner(&name)? {
                Some(Owner::Other(_)) => true,
                Some(Owner::Nobody) => false,
                // It may have been drained after the list of the canonical store.
                Some(Owner::Us) | None => {
                    found(self.shared.shadow.stat(&name))?.is_some()
                        || found(self.shared.canonical.stat(&name))?.is_some()
                }
            };
            if there {
                names.insert(entry);
            }
        }
        Ok(names.into_iter().filter(|name| !folder.is_empty() || name != OURS).collect())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let shared = &self.shared;
        let (from, to) = (&*shared.name(from, "rename")?, &*shared.name(to, "rename to")?);
        let _locks = shared.lock(&[from, to])?;
        let what = format!("rename to {to}");
        let (here, there) = (found(shared.shadow.stat(from))?, found(shared.canonical.stat(from))?);
        match here.as_ref().or(there.as_ref()) {
            None => {
                shared.pointers.not_elsewhere(ErrorKind::Io, &what, from)?;
                return Err(wrong(ErrorKind::NotFound, &what, from));
            }
            Some(about) if about.is_folder => return Err(unsupported(&self.describe(), "rename a folder", from)),
            Some(_) if from == to => return Ok(()),
            Some(_) => {}
        }
        let (to_here, to_there) = (found(shared.shadow.stat(to))?, found(shared.canonical.stat(to))?);
        if to_here.iter().chain(&to_there).any(|about| about.is_folder) {
            return Err(wrong(ErrorKind::InvalidArgument, &format!("{what}: it is a folder"), from));
        }
        shared.need_folder(&what, to)?;
        // With the pointers neither object is, or becomes, another node's.
        let outcome = (|| {
            if here.is_none() {
                shared.pointers.acquire(&what, from, false)?;
            }
            if to_here.is_none() {
                shared.pointers.acquire(&what, to, false)?;
            }
            shared.unclaim(from)?;
            shared.unclaim(to)?;
            if here.is_none() {
                if to_here.is_none() && shared.canonical.capability().rename == Rename::Atomic {
                    let folder = name::folder_of(to);
                    if found(shared.canonical.stat(folder))?.is_none() {
                        shared.mirror(&*shared.shadow, &*shared.canonical, folder)?;
                    }
                    return shared.canonical.rename(from, to);
                }
                shared.fetch(from, to, true)?;
                return shared.canonical.remove(from);
            }
            // An older object of the old name must not reappear; until the rename readers see the shadow store's.
            if there.is_some() {
                shared.canonical.remove(from)?;
                shared.canonical.sync_folder(name::folder_of(from))?;
            }
            shared.shadow.rename(from, to)
        })();
        shared.release_absent(&[from, to]);
        outcome
    }

    fn remove(&self, name: &str) -> Result<()> {
        let shared = &self.shared;
        let name = &*shared.name(name, "remove")?;
        if name.is_empty() {
            return Err(wrong(ErrorKind::InvalidArgument, "remove the store's own folder", name));
        }
        let _locks = shared.lock(&[name])?;
        let (here, there) = (found(shared.shadow.stat(name))?, found(shared.canonical.stat(name))?);
        if here.is_none() {
            shared.pointers.not_elsewhere(ErrorKind::Io, "remove", name)?;
        }
        let Some(about) = here.as_ref().or(there.as_ref()) else {
            return Err(wrong(ErrorKind::NotFound, "remove", name));
        };
        let is_folder = about.is_folder;
        if about.is_folder && !self.list(name)?.is_empty() {
            return Err(wrong(ErrorKind::InvalidArgument, "remove a folder that is not empty", name));
        }
        shared.unclaim(name)?;
        // The canonical store's first: an older object must not reappear.
        if there.is_some() {
            shared.canonical.remove(name)?;
        }
        if here.is_some() {
            if there.is_some() {
                shared.canonical.sync_folder(name::folder_of(name))?;
            }
            shared.shadow.remove(name)?;
        }
        match is_folder {
            true => shared.pointers.forget_folder(name),
            // The next drain removes a pointer that stays.
            false => drop(here.is_some().then(|| shared.pointers.release(name))),
        }
        Ok(())
    }

    fn make_folder(&self, name: &str) -> Result<()> {
        let shared = &self.shared;
        let name = &*shared.name(name, "make folder")?;
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        for folder in ends.map(|end| &name[..end]).filter(|folder| !folder.is_empty()) {
            let about = found(shared.either("make folder", folder, |store| store.stat(folder)))?;
            if about.is_some_and(|about| !about.is_folder) {
                let kind = if folder == name { ErrorKind::AlreadyExists } else { ErrorKind::NotFound };
                return Err(wrong(kind, "make folder", name));
            }
        }
        let _locks = shared.lock(&[name])?;
        // The canonical store's first: all nodes see it.
        shared.canonical.make_folder(name)?;
        shared.mirror(&*shared.canonical, &*shared.shadow, name)
    }

    fn make_one_folder(&self, name: &str, mode: u32) -> Result<()> {
        self.shared.make_one_folder(&self.shared.name(name, "make folder")?, mode)
    }

    fn attributes(&self, name: &str) -> Result<Attributes> {
        match self.shared.modes {
            true => self.shared.attributes(&self.shared.name(name, "get attributes")?),
            false => Err(unsupported(&self.describe(), "get attributes", name)),
        }
    }

    fn set_attributes(&self, name: &str, change: &Change) -> Result<()> {
        match self.shared.modes {
            true => self.shared.set_attributes(&self.shared.name(name, "change attributes")?, change),
            false => Err(unsupported(&self.describe(), "change attributes", name)),
        }
    }

    fn make_new_folder(&self, name: &str) -> Result<bool> {
        let relative = &*self.shared.name(name, "make folder")?;
        let before = found(self.shared.shadow.stat(relative))?.is_none();
        let new = self.shared.canonical.make_new_folder(relative)?;
        self.make_folder(name)?;
        Ok(new && before)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        let folder = &*self.shared.name(folder, "sync folder")?;
        let here = found(self.shared.shadow.sync_folder(folder))?;
        // Folders, and objects made for all nodes.
        match (here, self.shared.canonical.sync_folder(folder)) {
            (Some(()), Err(e)) if e.kind() == ErrorKind::NotFound => Ok(()),
            (_, outcome) => outcome,
        }
    }
}

/// An object being read, from either store.
struct Reading {
    inner: Box<dyn ReadObject>,
}

impl ReadObject for Reading {
    fn length(&self) -> Result<u64> {
        self.inner.length()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.inner.read_at(offset, out)
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.inner.stored_before(offset)
    }

    fn read_vectored_at(&self, offset: u64, pieces: &mut [std::io::IoSliceMut<'_>]) -> Result<usize> {
        self.inner.read_vectored_at(offset, pieces)
    }

    /// Leases are the burst buffer's own.
    fn life(&self) -> Result<Life> {
        Ok(Life { leased: None, ..self.inner.life()? })
    }
}

/// An object being written: in the shadow store, with a lease until it is closed or dropped; or in the canonical store.
struct Writing {
    // Dropped in this order: the lease has ended when `CloseNotifier` is dropped.
    inner: Box<dyn WriteObject>,
    on_close: Option<(Option<Lease>, CloseNotifier)>,
}

/// Calls the function of [`Tiered::after_close`] when it is dropped.
struct CloseNotifier(Arc<Shared>);

impl Drop for CloseNotifier {
    fn drop(&mut self) {
        if let Some(call) = self.0.closed.get() {
            call();
        }
    }
}

impl WriteObject for Writing {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.inner.write_at(offset, pieces)
    }

    fn reserve(&self, offset: u64, length: u64) -> Result<()> {
        self.inner.reserve(offset, length)
    }

    fn length(&self) -> Result<u64> {
        self.inner.length()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.inner.read_at(offset, out)
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.inner.stored_before(offset)
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.inner.truncate(length)
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.inner.punch(offset, length)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn publish(&self) -> Result<()> {
        self.inner.publish()
    }

    fn will_write(&self) -> Result<()> {
        self.inner.will_write()
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Writing { inner, on_close } = *self;
        let outcome = inner.close();
        drop(on_close);
        outcome
    }
}
