//! Process events: creating processes, `exec`, exit.
//!
//! | when | what happens |
//! |------|--------------|
//! | `fork` | before: written bytes are published. In the child: a new world, in which files are reopened at their first use |
//! | `vfork`, `posix_spawn` | before: written bytes are published; the child shares the parent's memory and does not change it |
//! | `exec` | before: handles are closed and logs ended; the next program finds the placeholders. If this fails, `exec` fails |
//! | exit | handles are closed, which publishes written bytes, and logs end. A killed process loses bytes without a later `fsync` or `close`, on layouts that buffer and through the daemon |
//! | a `close`, `dup2`, `close_range` or exit that fails for a written file | accepted bytes may be lost: a line on standard error, and a process that would exit with 0 exits with 1, as programs may ignore the result of `close` |
#![allow(unsafe_code)] // handlers that the C library calls

use crate::border::{Fail, Inside, Outcome};
use crate::lock;
use crate::open::{OpenFileDescription, borrow, end_logs, publish_all, settle_all, unlock_all};
use crate::table::{self, Table};
use crate::world::{World, current_world};
use libc::{c_int, mode_t};
use rustix::io::FdFlags;
use std::cell::RefCell;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, RwLockWriteGuard};
use thalweg_exit_status::{forget_loss, has_loss, record_loss, status_of, watch};

static UMASK: AtomicU32 = AtomicU32::new(0o022);
static ENDING: AtomicBool = AtomicBool::new(false);

/// The umask, which clears permission bits of created files.
pub fn umask() -> mode_t {
    UMASK.load(Ordering::Relaxed)
}

/// Records a new umask of the program.
pub fn set_umask(mask: mode_t) {
    UMASK.store(mask & 0o777, Ordering::Relaxed);
}

/// Whether the process is exiting: no writes follow the current ones.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed)
}

/// Locks that are held during a `fork`.
struct ForkGuard {
    parent: &'static World,
    table: RwLockWriteGuard<'static, Table>,
    _rest: Box<dyn std::any::Any>,
}

thread_local! {
    static GUARD: RefCell<Option<ForkGuard>> = const { RefCell::new(None) };
}

extern "C" fn prepare() {
    let Some(world) = current_world() else { return };
    let _inside = Inside::new();
    publish_all(world);
    share_all(world);
    let rest = Box::new((
        thalweg_open_file::lock_appends(),
        crate::hooks::directory::lock_listings(),
        crate::stdio::lock_streams(),
    ));
    let table = world.table.write();
    GUARD.with(|guard| *guard.borrow_mut() = Some(ForkGuard { parent: world, table, _rest: rest }));
}

extern "C" fn in_parent() {
    let Some(guard) = GUARD.with(|guard| guard.borrow_mut().take()) else { return };
    // Open files are shared with the child from now on.
    guard.table.all().for_each(|open| open.shared.store(true, Ordering::Relaxed));
}

extern "C" fn in_child() {
    let Some(guard) = GUARD.with(|guard| guard.borrow_mut().take()) else { return };
    let _inside = Inside::new();
    // The parent reports losses of its own writes.
    forget_loss();
    let child = guard.parent.of_child();
    table::carry_over(&guard.table, child);
    let companions: Vec<RawFd> =
        guard.table.all().filter_map(|open| open.companion_in_child()).map(|c| c.descriptor()).collect();
    crate::private::close_all(&companions);
    // The parent's world is left unchanged: the child closes none of its handles.
    drop(guard);
}

extern "C" fn at_end() {
    if let Some(world) = current_world().filter(|world| world.is_own()) {
        // SAFETY: every stream of the program.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        end(world);
    }
}

/// Closes handles, releases locks and ends logs.
fn end(world: &World) {
    let _inside = Inside::new();
    ENDING.store(true, Ordering::Relaxed);
    let settled = settle_all(world);
    unlock_all(world);
    if settled.and(end_logs(world)).is_err() {
        record_loss();
    }
}

/// All open files with their descriptors.
fn opened(world: &World) -> Vec<(RawFd, Arc<OpenFileDescription>)> {
    let table = world.table.read();
    table.each().map(|(fd, open)| (fd, open.clone())).collect()
}

/// Call before another process shares the open files: opens companions, so that the processes share locks.
fn share_all(world: &World) {
    if table::any() {
        opened(world).iter().filter(|(_, open)| !open.is_folder()).for_each(|(fd, open)| lock::share(world, open, *fd));
    }
}

/// Passes companions to the next program if it inherits their placeholders.
fn hand_on(world: &World) {
    if !table::any() {
        return;
    }
    let all = opened(world);
    let stays = |fd: RawFd| rustix::io::fcntl_getfd(borrow(fd)).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC));
    for (_, open) in &all {
        let Some(companion) = open.companion() else { continue };
        let goes_on = all.iter().any(|(fd, other)| Arc::ptr_eq(other, open) && stays(*fd));
        let flags = if goes_on { FdFlags::empty() } else { FdFlags::CLOEXEC };
        let _ = rustix::io::fcntl_setfd(borrow(companion.descriptor()), flags);
    }
}

/// Call before `exec`.
///
/// # Errors
/// If handles or logs could not be ended, now or earlier: the next program could not report the loss, so `exec` must fail.
pub fn before_exec() -> Outcome<()> {
    let Some(world) = current_world() else { return Ok(()) };
    let _inside = Inside::new();
    if world.is_own() {
        share_all(world);
        hand_on(world);
        let settled = settle_all(world);
        if let Err(fail) = settled.and(end_logs(world)) {
            record_loss();
            return Err(fail);
        }
        // A shell repeats `exec` for each folder of PATH: an earlier loss fails each attempt.
        if has_loss() { Err(Fail(libc::EIO)) } else { Ok(()) }
    } else {
        hand_on(world);
        publish_all(world);
        Ok(())
    }
}

/// Call before a child is created without the `fork` handlers.
pub fn before_spawn() {
    let Some(world) = current_world() else { return };
    let _inside = Inside::new();
    publish_all(world);
    if !world.is_own() {
        return;
    }
    share_all(world);
    hand_on(world);
    let table = world.table.read();
    table.all().for_each(|open| open.shared.store(true, Ordering::Relaxed));
}

/// Call before the process exits without exit handlers; returns its exit status.
pub fn before_end(status: c_int) -> c_int {
    if let Some(world) = current_world().filter(|world| world.is_own()) {
        end(world);
    }
    status_of(status)
}

/// Registers the handlers of `fork` and exit.
pub fn listen() {
    // Exit handlers run in reverse order of registration.
    watch();
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    set_umask(mask.as_raw_mode());
    // SAFETY: functions that live as long as the process: the library is never unloaded.
    unsafe {
        libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child));
        libc::atexit(at_end);
    }
}
