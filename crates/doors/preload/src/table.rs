//! The placeholders' descriptors, one bit for each, read without a lock; and the open file of each.

use crate::border::{Fail, Outcome};
use crate::lock::Companion;
use crate::numbers::Numbers;
use crate::open::OpenFileDescription;
use crate::placeholder::{self, Kind};
use crate::world::{World, current_world};
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Higher descriptors are never placeholders.
const MOST: usize = 1 << 20;

static OURS: Numbers<{ MOST / 64 }> = Numbers::new();
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether a descriptor is a placeholder.
#[inline]
pub fn is_ours(fd: RawFd) -> bool {
    OURS.has(fd)
}

/// All placeholders' descriptors, in ascending order.
pub fn numbers() -> impl Iterator<Item = RawFd> {
    OURS.all()
}

/// Whether there is a placeholder.
pub fn any() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// The open files of the placeholders' descriptors.
#[derive(Default)]
pub struct Table {
    open: HashMap<RawFd, Arc<OpenFileDescription>>,
}

impl Table {
    pub fn all(&self) -> impl Iterator<Item = &Arc<OpenFileDescription>> {
        self.open.values()
    }

    /// All open files with their descriptors.
    pub fn each(&self) -> impl Iterator<Item = (RawFd, &Arc<OpenFileDescription>)> {
        self.open.iter().map(|(fd, open)| (*fd, open))
    }
}

fn mark(fd: RawFd, ours: bool) {
    match ours {
        true if OURS.add(fd) => drop(COUNT.fetch_add(1, Ordering::Relaxed)),
        false if OURS.take(fd) => drop(COUNT.fetch_sub(1, Ordering::Relaxed)),
        _ => {}
    }
}

/// The open file of a descriptor, if it is a placeholder.
pub fn get(fd: RawFd) -> Option<Arc<OpenFileDescription>> {
    if !is_ours(fd) {
        return None;
    }
    current_world()?.table.read().open.get(&fd).cloned()
}

/// As [`get`]; `EBADF` if another thread has closed the descriptor.
pub fn need(fd: RawFd) -> Outcome<Arc<OpenFileDescription>> {
    get(fd).ok_or(Fail(libc::EBADF))
}

/// Records the open file of a descriptor; returns the previous one.
pub fn insert(world: &World, fd: RawFd, open: Arc<OpenFileDescription>) -> Outcome<Option<Arc<OpenFileDescription>>> {
    if fd < 0 || fd as usize >= MOST {
        return Err(Fail(libc::EMFILE));
    }
    let before = world.table.write().open.insert(fd, open);
    mark(fd, true);
    crate::stdio::follow(fd);
    Ok(before)
}

/// Removes a descriptor; returns its open file.
pub fn remove(world: &World, fd: RawFd) -> Option<Arc<OpenFileDescription>> {
    if !is_ours(fd) {
        return None;
    }
    // The stream's buffer is flushed first.
    crate::stdio::leave(fd);
    if let Some(open) = get(fd) {
        crate::lock::before_close(world, &open);
    }
    let mut table = world.table.write();
    let before = table.open.remove(&fd);
    mark(fd, false);
    drop(table);
    before
}

/// Finds the placeholders inherited at `exec`.
pub fn find_inherited(world: &World) {
    let all = placeholder::descriptors();
    let mut companions: HashMap<u64, Companion> = all.iter().filter_map(|fd| Companion::inherited(*fd)).collect();
    let mut known: HashMap<u64, Arc<OpenFileDescription>> = HashMap::new();
    for fd in all {
        let Some(told) = placeholder::look(fd) else { continue };
        if told.kind == Kind::Current {
            world.set_current(Some((told.path, fd)));
            continue;
        }
        // Several descriptors of one open file description are one open file.
        let number = crate::lock::placeholder(fd).unwrap_or_default();
        if let Some(open) = known.get(&number) {
            drop(insert(world, fd, open.clone()));
            continue;
        }
        match OpenFileDescription::inherited(world, &told) {
            Some(open) => {
                *open.lock.lock() = companions.remove(&number).map(Arc::new);
                let open = Arc::new(open);
                known.insert(number, open.clone());
                drop(insert(world, fd, open));
            }
            None => {
                let what = format!("warning: {} is open, but is under no mount of this program", told.path);
                crate::border::tell(&what);
            }
        }
    }
}

/// Copies the parent's open files into the table of a child of `fork`.
pub fn carry_over(parent: &Table, child: &World) {
    let mut seen: HashMap<*const OpenFileDescription, Arc<OpenFileDescription>> = HashMap::new();
    let mut table = child.table.write();
    for (fd, open) in &parent.open {
        let own = seen.entry(Arc::as_ptr(open)).or_insert_with(|| Arc::new(open.for_child()));
        table.open.insert(*fd, own.clone());
    }
}
