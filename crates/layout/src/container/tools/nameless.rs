//! Containers that no name of the mount leads to: leftovers of processes that died while they made or removed a file.
//!
//! | question | answer |
//! |----------|--------|
//! | removed  | containers that certainly have no name, no writer, no open handle, and are old enough |
//! | left     | all others, each with the reason ([`Nameless::left`]) |
//! | a failed call | ends the search with its error: only `NotFound` means that an object is not there |
//! | renames meanwhile | would hide a name from the walk. The walk is repeated, and is valid if no folder of the mount changed meanwhile: identity and change time of each folder are compared (on network filesystems, as far as their caches of attributes are current) |
//! | folders without times | of a store that keeps none: nothing is removed, unless any age is accepted (`older` of zero) |
//! | creation meanwhile | a file has its container before its name: the age of the stamp, else that of the container's folder, protects it |
//! | unlinked, still open | the process that has it open leases `unlinked` in the container's folder |
//! | other mounts | whose stores overlap: a stamp names its stores, and names are on the first. Containers of another first store are skipped |
//! | logs alone | are left: of a kill of an earlier release, which removed a container's folder before its logs, or of another mount |
//! | cost     | a walk of all names: a list for each folder, an attribute request and a read for each file. A second walk if a container is to be removed |

use super::super::load::{self, Alive};
use super::super::marks;
use super::super::names::Found;
use super::super::objects::{TEMPORARY, remove_if_there};
use super::super::place::{self, HIDDEN, Place, now};
use super::super::stamp::Stamp;
use super::super::{Container, OF_FOLDER, removal};
use super::check::listed;
use crate::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};
use thalweg_store::{Store, StoreExt};
use thalweg_types::{Error, ErrorKind, Result};

/// How often names are walked until no folder changes meanwhile.
const MOST_WALKS: usize = 4;
/// Pause between two walks: longer than two changes of a folder can have the same time, on filesystems with fractions of
/// seconds.
const FINE: Duration = Duration::from_millis(25);
/// The same, on filesystems with whole seconds.
const COARSE: Duration = Duration::from_millis(2100);

/// A container that no name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nameless {
    /// The container's number.
    pub container: u128,
    /// The reason why it is not removed; `None` if it is or would be.
    pub left: Option<String>,
}

/// State by which a change of a folder is noticed: identity, last write, last change.
type Times = (u64, SystemTime, SystemTime);

/// Result of a walk of the mount's names.
#[derive(Default)]
struct Walk {
    /// Containers that have a name.
    named: BTreeSet<u128>,
    /// Each folder's state before it was listed; `None` if the store does not have it.
    folders: BTreeMap<String, Option<Times>>,
    /// A name whose container is unknown: it may be any.
    unreadable: Option<Error>,
}

/// Decision about a container without a name.
enum Verdict {
    /// It is in use, too young, or another mount's.
    Spare,
    /// It is left, and why.
    Leave(String),
    /// It is removed.
    Remove(Box<Place>),
}

impl Container {
    /// Containers that no name of the mount leads to, made longer ago than `older`: what a kill in the middle of making or
    /// removing a file leaves, logs alone included. With `remove`, those that certainly have no name are removed, and the
    /// others are left. Containers that a process has open are left out.
    ///
    /// - `older`: zero accepts any age; the caller knows then that no process uses the mount.
    ///
    /// # Errors
    /// Errors of the stores, of any call that fails: what was not removed yet stays. Safe to repeat.
    /// # Cost
    /// An attribute request for each name and a read of each stamp; twice if something is to be removed.
    pub fn nameless(&self, older: Duration, remove: bool) -> Result<Vec<Nameless>> {
        if remove {
            self.remove_unfinished()?;
        }
        // Containers first: one that is created meanwhile is not in the list.
        let (folders, logs) = (self.numbers("c")?, self.numbers("d")?);
        let first = self.walk()?;
        let mut verdicts = BTreeMap::new();
        for (container, stores) in &folders {
            if !first.named.contains(container) {
                verdicts.insert(*container, self.judge(*container, stores, older)?);
            }
        }
        for container in logs.keys().filter(|container| !folders.contains_key(*container)) {
            if !first.named.contains(container) && !self.has_folder_now(*container)? {
                let why = "only its logs remain: its mount is unknown";
                verdicts.insert(*container, Verdict::Leave(why.into()));
            }
        }
        verdicts.retain(|_, verdict| !matches!(verdict, Verdict::Spare));
        if verdicts.is_empty() {
            return Ok(Vec::new());
        }
        let (named, doubt) = self.certain(first, older)?;
        let mut found = Vec::new();
        for (container, verdict) in verdicts {
            if named.contains(&container) {
                continue;
            }
            let left = match (verdict, &doubt) {
                (Verdict::Spare, _) => continue,
                (Verdict::Leave(why), _) => Some(why),
                (Verdict::Remove(_), Some(doubt)) => Some(doubt.clone()),
                // A session may have begun since, through another process's open handle.
                (Verdict::Remove(place), None) => match self.judge_users(*place)? {
                    Verdict::Spare => continue,
                    Verdict::Leave(why) => Some(why),
                    Verdict::Remove(place) => {
                        if remove {
                            removal::remove_container(&place)?;
                        }
                        None
                    }
                },
            };
            found.push(Nameless { container, left });
        }
        Ok(found)
    }

    /// Removes temporary stamps and attributes: a process that is about to rename one creates it again.
    fn remove_unfinished(&self) -> Result<()> {
        let first = &**self.first();
        listed(first, HIDDEN)?
            .iter()
            .filter(|name| name.starts_with(TEMPORARY))
            .try_for_each(|name| remove_if_there(first, &format!("{HIDDEN}/{name}")))
    }

    /// Containers that have something in `.thalweg/c` or `.thalweg/d`, and the numbers of the stores.
    fn numbers(&self, which: &str) -> Result<BTreeMap<u128, Vec<usize>>> {
        let mut found: BTreeMap<u128, Vec<usize>> = BTreeMap::new();
        let root = format!("{HIDDEN}/{which}");
        for (k, store) in self.stores.all().enumerate() {
            for group in listed(&**store, &root)? {
                for number in listed(&**store, &format!("{root}/{group}"))? {
                    if let Ok(container) = u128::from_str_radix(&number, 16) {
                        found.entry(container).or_default().push(k);
                    }
                }
            }
        }
        Ok(found)
    }

    fn has_folder_now(&self, container: u128) -> Result<bool> {
        for store in self.stores.all() {
            if store.exists(&place::folder(container))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Names that certainly are all there were at one moment; else also why that is not known.
    fn certain(&self, mut before: Walk, older: Duration) -> Result<(BTreeSet<u128>, Option<String>)> {
        let mut named = std::mem::take(&mut before.named);
        for _ in 0..MOST_WALKS {
            let told = before.folders.values().all(Option::is_some);
            if told {
                std::thread::sleep(granularity(&before));
            }
            let mut walk = self.walk()?;
            named.append(&mut walk.named);
            if let Some(e) = &walk.unreadable {
                let what = format!("a name that cannot be read may be its name: {e}");
                return Ok((named, Some(what)));
            }
            if !told {
                let what = "the store does not tell when a folder changed: a rename may have hidden its name";
                return Ok((named, (!older.is_zero()).then(|| what.into())));
            }
            if walk.folders == before.folders && self.is_unchanged(&walk)? {
                return Ok((named, None));
            }
            before = walk;
        }
        Ok((named, Some("folders changed all the time: a rename may have hidden its name".into())))
    }

    /// Whether each folder is as it was when it was listed.
    fn is_unchanged(&self, walk: &Walk) -> Result<bool> {
        for (folder, times) in &walk.folders {
            match self.times(folder) {
                Ok(now) if now == *times => {}
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The state of a folder of names; `None` if the store does not have it.
    fn times(&self, folder: &str) -> Result<Option<Times>> {
        times_of(&**self.first(), folder)
    }

    fn walk(&self) -> Result<Walk> {
        let mut walk = Walk::default();
        self.walk_below("", &mut walk)?;
        Ok(walk)
    }

    fn walk_below(&self, folder: &str, walk: &mut Walk) -> Result<()> {
        let listed = self.times(folder).and_then(|times| Ok((times, self.first().list(folder)?)));
        let (times, entries) = match listed {
            // Removed or renamed since its own folder was listed, which changed that.
            Err(e) if e.kind() == ErrorKind::NotFound && !folder.is_empty() => return Ok(()),
            listed => listed?,
        };
        walk.folders.insert(folder.to_string(), times);
        for entry in entries {
            if folder.is_empty() && entry == HIDDEN || entry == OF_FOLDER {
                continue;
            }
            let name = if folder.is_empty() { entry } else { format!("{folder}/{entry}") };
            let named = match self.known(&name) {
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                named => named?.0,
            };
            match named.kind {
                Kind::Folder => self.walk_below(&name, walk)?,
                // A link is no name of what it leads to.
                Kind::Link => {}
                Kind::File => match self.found(&name) {
                    Ok(Found::File(opened)) => {
                        walk.named.insert(opened.stamp.container);
                    }
                    Ok(Found::Link(_)) => {}
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Torn | ErrorKind::Unsupported) => {
                        // A name without bytes is that of a file that was never made.
                        if e.kind() != ErrorKind::Torn || !self.is_empty(&name)? {
                            walk.unreadable.get_or_insert(e);
                        }
                    }
                    Err(e) => return Err(e),
                },
            }
        }
        Ok(())
    }

    fn is_empty(&self, name: &str) -> Result<bool> {
        match self.first().stat(name) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(true),
            about => Ok(about?.length == 0),
        }
    }

    /// Decides about a container that has a folder on these stores and no name.
    fn judge(&self, container: u128, stores: &[usize], older: Duration) -> Result<Verdict> {
        let leave = |why: &str| Ok(Verdict::Leave(why.into()));
        let (Some(k), 1) = (stores.first(), stores.len()) else {
            return leave("its folder is on several stores");
        };
        let Some(store) = self.stores.all().nth(*k) else { return Ok(Verdict::Spare) };
        let folder = place::folder(container);
        let mut bytes = Vec::new();
        for name in Place::names_of_stamp(container) {
            match store.read_all(&name) {
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                found => bytes = found?,
            }
        }
        // Interrupted before it had a stamp, or removed but for the rest.
        let is_bare = bytes.is_empty();
        let stamp = match Stamp::decode(&bytes) {
            _ if is_bare => Stamp { container, home: *k as u8, packed: false, ..self.stamp("", None)? },
            Ok(stamp) if stamp.container == container => stamp,
            _ => return leave("its stamp is damaged: its owner is unknown"),
        };
        if !is_bare {
            let ours = self.stores.identities()?.first().map(|(identity, _)| *identity);
            if stamp.stores.first().map(|(identity, _)| *identity) != ours {
                return Ok(Verdict::Spare);
            }
        }
        let youngest = [folder.clone(), format!("{folder}/m")].iter().try_fold(None, |youngest, folder| {
            let times = match times_of(&**store, folder) {
                Err(e) if e.kind() == ErrorKind::NotFound => None,
                times => times?,
            };
            Ok::<_, Error>(youngest.max(times.map(|(_, written, changed)| written.max(changed))))
        })?;
        let made =
            if is_bare { youngest.map(nanoseconds) } else { Some(stamp.made.max(youngest.map_or(0, nanoseconds))) };
        match made {
            _ if older.is_zero() => {}
            None => return leave("the store does not give its age"),
            Some(made) if u128::from(now().saturating_sub(made)) < older.as_nanos() => return Ok(Verdict::Spare),
            Some(_) => {}
        }
        let place = Place::of_stamp(stamp, self.stores.clone());
        for k in 0..place.stamp.stores.len() {
            if let Err(e) = place.store(k as u8) {
                return Ok(Verdict::Leave(e.to_string()));
            }
        }
        self.judge_users(place)
    }

    /// Decides about a container that is old enough, by the processes that have it open.
    fn judge_users(&self, place: Place) -> Result<Verdict> {
        if place.is_leased()? {
            return Ok(Verdict::Spare);
        }
        let names = match place.list() {
            Err(e) if e.kind() == ErrorKind::NotFound => listed(&**place.first(), &place.marks())?,
            names => names?,
        };
        let Ok(marks) = marks::read(&names) else {
            return Ok(Verdict::Leave("a mark is damaged: whether a process writes it is unknown".into()));
        };
        for mark in marks.iter().filter(|mark| !mark.closed()) {
            match load::alive(&place, mark)? {
                (Alive::Yes, _) => return Ok(Verdict::Spare),
                (Alive::Unknown, who) => {
                    return Ok(Verdict::Leave(format!("a writer has not closed, and may live ({who})")));
                }
                (Alive::No, _) => {}
            }
        }
        Ok(Verdict::Remove(Box::new(place)))
    }
}

/// Identity and times of a folder; `None` if its store does not have them.
fn times_of(store: &dyn Store, folder: &str) -> Result<Option<Times>> {
    let can = store.capability();
    if !can.attributes && !can.modes {
        return Ok(None);
    }
    let about = store.attributes(folder)?;
    Ok(Some((about.identity, about.mtime, about.ctime)))
}

/// How long two changes of a folder may have the same time.
fn granularity(walk: &Walk) -> Duration {
    let parts = |time: &SystemTime| !nanoseconds(*time).is_multiple_of(1_000_000_000);
    let fine = walk.folders.values().flatten().any(|(_, written, changed)| parts(written) || parts(changed));
    if fine { FINE } else { COARSE }
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
