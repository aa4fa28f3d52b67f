//! Removing sessions and whole containers.
//!
//! | question | answer |
//! |----------|--------|
//! | order    | a container: stamp, marks, logs, and its folder last; a session: marks, then logs. Other processes notice by the stamp and the marks |
//! | cost     | a list of the marks, which name the logs; one removal for each object and folder. Logs without a mark cost lists of their folders |
//! | killed   | the leftover has no name: `thalweg layout check` of the mount finds it |

use super::marks::{self, Mark};
use super::objects::remove_if_there;
use super::place::{Place, data_name};
use super::synopsis;
use super::tail::Record;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::MutexGuard;
use thalweg_store::{Store, StoreExt};
use thalweg_types::mutex::Mutex;
use thalweg_types::{ErrorKind, Result};

/// Containers that lost their last name by a call of this process and are removed now or with its last handle. An open that
/// read the name before would see a partly removed container.
#[derive(Default)]
pub struct Going(Mutex<BTreeMap<u128, usize>>);

impl Going {
    fn numbers(&self) -> MutexGuard<'_, BTreeMap<u128, usize>> {
        self.0.lock()
    }

    /// A container that lost its name. Ends with [`Going::end`].
    pub fn add(&self, container: u128) {
        *self.numbers().entry(container).or_default() += 1;
    }

    /// The container is removed.
    pub fn end(&self, container: u128) {
        let mut numbers = self.numbers();
        let left = numbers.get(&container).map_or(0, |count| count - 1);
        match left {
            0 => drop(numbers.remove(&container)),
            left => drop(numbers.insert(container, left)),
        }
    }

    /// Whether the container lost its name and is not removed yet.
    pub fn has(&self, container: u128) -> bool {
        self.numbers().contains_key(&container)
    }
}

/// Removes a session's marks, then its logs.
pub fn remove_session(place: &Place, mark: &Mark) -> Result<()> {
    for name in mark.names() {
        place.remove_if_there(&name)?;
    }
    let inside = data_name(&mark.home, 0);
    if place.is_inside(&inside) {
        place.remove_if_there(&inside)?;
    }
    if !place.has_folder() {
        return Ok(());
    }
    if place.is_packed(mark) {
        // It has no logs. A bundle that contains it is removed with the last of its sessions.
        return Ok(());
    }
    let store = place.store(mark.home.store)?;
    let told = mark.published.map_or(0, |p| p.segments);
    for k in 0.. {
        let (data, index) = (place.data(&mark.home, k), place.index(&mark.home, k));
        // Further segments than those in the mark are found only by checking the store.
        if k >= told && !store.exists(&data)? && !store.exists(&index)? {
            break;
        }
        remove_if_there(&**store, &data)?;
        remove_if_there(&**store, &index)?;
    }
    Ok(())
}

/// Removes sessions, and the bundles that contain no other session.
pub fn remove_sessions(place: &Place, dead: &[Mark]) -> Result<()> {
    let (packed, others): (Vec<&Mark>, Vec<&Mark>) = dead.iter().partition(|mark| place.is_packed(mark));
    others.into_iter().try_for_each(|mark| remove_session(place, mark))?;
    let names = packed.into_iter().flat_map(Mark::names).chain(place.bundles_of(dead));
    let names: Vec<String> = names.map(|name| format!("{}/{name}", place.marks())).collect();
    place.first().remove_many(&names)
}

/// Removes inline sessions of a container without a folder, in one step. Does nothing and returns `false` if the container
/// has a folder.
pub fn remove_inside(place: &Place, dead: &[Mark]) -> Result<bool> {
    let Some(inline) = place.inline.as_ref().filter(|inline| !inline.has_home()) else { return Ok(false) };
    let locked = inline.lock()?;
    if inline.has_home() {
        return Ok(false);
    }
    let names = dead.iter().flat_map(|mark| mark.names().chain([data_name(&mark.home, 0)]));
    let gone: Vec<Record> = names.filter(|name| place.is_inside(name)).map(Record::Gone).collect();
    match gone.is_empty() {
        true => Ok(true),
        false => locked.add(gone).map(|()| true),
    }
}

/// Removes a whole container: the stamp first, by which others notice the removal, and marks before logs, so that a partly
/// removed container never appears complete. The folder is removed last, so that it remains after a kill.
pub fn remove_container(place: &Place) -> Result<()> {
    let (first, folder) = (place.first(), place.marks());
    // Others may have created its folder since this process's last refresh.
    if !place.has_folder() && !first.exists(&place.folder())? {
        return Ok(());
    }
    remove_if_there(&**first, &place.stamp_copy())?;
    let names = match first.list(&folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        names => names?,
    };
    // A damaged name identifies no log: the lists of the folders do.
    let told = marks::read(&names).unwrap_or_default();
    let synopsis = place.stamp.packed.then(|| synopsis::name((place.stamp.container >> 64) as u64));
    let paths: Vec<String> = names.iter().map(|name| format!("{folder}/{name}")).chain(synopsis).collect();
    first.remove_many(&paths)?;
    remove_folder(&**first, &folder)?;
    for k in 0..place.stamp.stores.len() as u8 {
        if let Ok(store) = place.store(k) {
            remove_logs(place, &**store, told.iter().filter(|mark| mark.home.store == k))?;
        }
    }
    // Last, because the container's folder leads to remaining logs.
    remove_folder(&**first, &place.folder())
}

/// Removes the logs on one store, and their folders.
///
/// - `told`: sessions that are known to have logs there.
fn remove_logs<'a>(place: &Place, store: &dyn Store, told: impl Iterator<Item = &'a Mark>) -> Result<()> {
    let mut folders = BTreeSet::new();
    for mark in told {
        let segments = mark.published.map_or(0, |p| p.segments);
        for k in 0..segments {
            remove_if_there(store, &place.data(&mark.home, k))?;
            remove_if_there(store, &place.index(&mark.home, k))?;
        }
        folders.insert(mark.home.folder);
    }
    for folder in folders {
        remove_folder(store, &place.log_folder(folder))?;
    }
    remove_folder(store, &place.logs())
}

/// Removes a folder that should be empty; otherwise with its contents.
fn remove_folder(store: &dyn Store, name: &str) -> Result<()> {
    match store.remove(name) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(_) => remove_all(store, name),
    }
}

fn remove_all(store: &dyn Store, name: &str) -> Result<()> {
    let entries = match store.list(name) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return remove_if_there(store, name),
        Err(e) => return Err(e),
    };
    for entry in entries {
        let name = format!("{name}/{entry}");
        match store.stat(&name) {
            Ok(about) if about.is_folder => remove_all(store, &name)?,
            Ok(_) => remove_if_there(store, &name)?,
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    remove_if_there(store, name)
}
