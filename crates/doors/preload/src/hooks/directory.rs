//! Folders: the `opendir` family, `scandir`, `glob`, `getdents64`.
#![allow(unsafe_code)] // hooks

use super::{by_path, locate};
use crate::border::{Outcome, enter};
use crate::open;
use crate::real::hooks;
use crate::table::{is_ours, need};
use crate::world::{World, world};
use libc::{DIR, c_char, c_int, c_long, c_void, dirent, size_t, ssize_t};
use rustix::io::Errno;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{RwLockReadGuard, RwLockWriteGuard};
use thalweg_types::mutex::RwLock;

/// A folder that is being listed: the program's `DIR`.
struct Listing {
    fd: c_int,
    names: Vec<String>,
    at: usize,
    entry: dirent,
}

static LISTINGS: RwLock<Option<HashSet<usize>>> = RwLock::new(None);
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn listings() -> RwLockReadGuard<'static, Option<HashSet<usize>>> {
    LISTINGS.read()
}

/// Locks the set during a `fork`.
pub fn lock_listings() -> RwLockWriteGuard<'static, Option<HashSet<usize>>> {
    LISTINGS.write()
}

/// The listing behind a program's pointer, if it is ours.
unsafe fn listing<'a>(at: *mut DIR) -> Option<&'a mut Listing> {
    if COUNT.load(Ordering::Relaxed) == 0 || world().is_none() || !listings().as_ref()?.contains(&(at as usize)) {
        return None;
    }
    // SAFETY: created by `begin` and not closed; according to the manual page only one thread at a time reads a folder.
    Some(unsafe { &mut *at.cast::<Listing>() })
}

fn names(world: &World, fd: c_int) -> Outcome<Vec<String>> {
    let open = need(fd)?;
    if !open.is_folder() {
        return Err(Errno::NOTDIR.into());
    }
    let place = open.place();
    let mut names = vec![".".to_string(), "..".to_string()];
    names.extend(place.layout(world)?.list(&place.name)?);
    Ok(names)
}

fn begin(world: &World, fd: c_int) -> Outcome<*mut DIR> {
    // SAFETY: numbers and letters.
    let entry: dirent = unsafe { std::mem::zeroed() };
    let listing = Box::into_raw(Box::new(Listing { fd, names: names(world, fd)?, at: 0, entry }));
    lock_listings().get_or_insert_default().insert(listing as usize);
    COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(listing.cast())
}

fn number(folder: &str, name: &str) -> u64 {
    let bytes = folder.bytes().chain([b'/']).chain(name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)).max(1)
}

/// Fills an entry; `None` for a name that is too long.
fn fill(entry: &mut dirent, name: &str, at: usize, inode: u64) -> Option<()> {
    let place = entry.d_name.get_mut(..=name.len())?;
    for (to, from) in place.iter_mut().zip(name.bytes().chain([0])) {
        *to = from as c_char;
    }
    entry.d_ino = inode;
    entry.d_off = at as _;
    entry.d_reclen = size_of::<dirent>() as _;
    entry.d_type = if name == "." || name == ".." { libc::DT_DIR } else { libc::DT_UNKNOWN };
    Some(())
}

fn next(listing: &mut Listing) -> *mut dirent {
    while let Some(name) = listing.names.get(listing.at) {
        listing.at += 1;
        if fill(&mut listing.entry, name, listing.at, number("", name)).is_some() {
            return &raw mut listing.entry;
        }
    }
    std::ptr::null_mut()
}

const FLAGS: c_int = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;

hooks! {
    fn opendir(path: *const c_char) -> *mut DIR = |real| {
        by_path!(libc::AT_FDCWD, path, real(path), |world, place| {
            let fd = open::open(world, &place, FLAGS, 0)?;
            match begin(world, fd) {
                Err(fail) => {
                    let open = crate::table::remove(world, fd);
                    open::close_raw(fd);
                    open::drop_one(open)?;
                    Err(fail)
                }
                outcome => outcome,
            }
        })
    }
    fn fdopendir(fd: c_int) -> *mut DIR = |real| {
        match world().filter(|_| is_ours(fd)) {
            Some(world) => enter(|| begin(world, fd)),
            None => real(fd),
        }
    }
    fn readdir|readdir64(folder: *mut DIR) -> *mut dirent = |real| {
        match listing(folder) {
            Some(listing) => next(listing),
            None => real(folder),
        }
    }
    fn readdir_r|readdir64_r(folder: *mut DIR, entry: *mut dirent, found: *mut *mut dirent) -> c_int = |real| {
        match listing(folder) {
            Some(listing) => {
                let there = next(listing);
                if there.is_null() {
                    *found = std::ptr::null_mut();
                } else {
                    *entry = *there;
                    *found = entry;
                }
                0
            }
            None => real(folder, entry, found),
        }
    }
    fn closedir(folder: *mut DIR) -> c_int = |real| {
        match listing(folder) {
            Some(_) => {
                let fd = enter(|| {
                    if let Some(all) = lock_listings().as_mut() {
                        all.remove(&(folder as usize));
                    }
                    COUNT.fetch_sub(1, Ordering::Relaxed);
                    // Created by `begin`; no other code has the address any more.
                    Ok(Box::from_raw(folder.cast::<Listing>()).fd)
                });
                libc::close(fd)
            }
            None => real(folder),
        }
    }
    fn rewinddir(folder: *mut DIR) -> () = |real| {
        match (listing(folder), world()) {
            (Some(listing), Some(world)) => {
                listing.at = 0;
                // The current entries.
                enter(|| {
                    listing.names = names(world, listing.fd)?;
                    Ok(0)
                });
            }
            _ => real(folder),
        }
    }
    fn telldir(folder: *mut DIR) -> c_long = |real| {
        match listing(folder) {
            Some(listing) => listing.at as c_long,
            None => real(folder),
        }
    }
    fn seekdir(folder: *mut DIR, to: c_long) -> () = |real| {
        match listing(folder) {
            Some(listing) => listing.at = usize::try_from(to).unwrap_or(0).min(listing.names.len()),
            None => real(folder, to),
        }
    }
    fn dirfd(folder: *mut DIR) -> c_int = |real| {
        match listing(folder) {
            Some(listing) => listing.fd,
            None => real(folder),
        }
    }
    fn scandir|scandir64(path: *const c_char, out: *mut *mut *mut dirent, filter: Filter, order: Order) -> c_int = |real| {
        match locate(libc::AT_FDCWD, path) {
            None => real(path, out, filter, order),
            Some(_) => scan(path, out, filter, order),
        }
    }
    fn getdents64(fd: c_int, out: *mut c_void, space: size_t) -> ssize_t = |real| {
        match world().filter(|_| is_ours(fd)) {
            Some(world) => enter(|| dents(world, fd, crate::border::memory_mut(out, space)?)),
            None => real(fd, out, space),
        }
    }
    fn glob|glob64(
        pattern: *const c_char, flags: c_int, failed: Option<unsafe extern "C" fn(*const c_char, c_int) -> c_int>, out: *mut Glob,
    ) -> c_int = |real| {
        if world().is_none() || out.is_null() || flags & ALTDIRFUNC != 0 {
            return real(pattern, flags, failed, out);
        }
        // Calls the C library's function, with this file's hooks for its folder operations.
        (*out).closedir = close_for_glob;
        (*out).readdir = libc::readdir;
        (*out).opendir = libc::opendir;
        (*out).lstat = libc::lstat;
        (*out).stat = libc::stat;
        real(pattern, flags | ALTDIRFUNC, failed, out)
    }
}

type Filter = Option<unsafe extern "C" fn(*const dirent) -> c_int>;
type Order = Option<unsafe extern "C" fn(*const *const dirent, *const *const dirent) -> c_int>;

const ALTDIRFUNC: c_int = 1 << 9;

unsafe extern "C" fn close_for_glob(folder: *mut DIR) {
    // SAFETY: the result of `opendir`.
    unsafe { libc::closedir(folder) };
}

/// `glob_t`, with the function pointers of `GLOB_ALTDIRFUNC`.
#[repr(C)]
struct Glob {
    count: size_t,
    paths: *mut *mut c_char,
    offsets: size_t,
    flags: c_int,
    closedir: unsafe extern "C" fn(*mut DIR),
    readdir: unsafe extern "C" fn(*mut DIR) -> *mut dirent,
    opendir: unsafe extern "C" fn(*const c_char) -> *mut DIR,
    lstat: unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int,
    stat: unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int,
}

unsafe fn scan(path: *const c_char, out: *mut *mut *mut dirent, filter: Filter, order: Order) -> c_int {
    // SAFETY: the calls of which this function consists; memory comes from `malloc`, as in the manual page.
    unsafe {
        let folder = libc::opendir(path);
        if folder.is_null() {
            return -1;
        }
        let mut found: Vec<*mut dirent> = Vec::new();
        loop {
            let entry = libc::readdir(folder);
            if entry.is_null() {
                break;
            }
            if filter.is_none_or(|filter| filter(entry) != 0) {
                let copy: *mut dirent = libc::malloc(size_of::<dirent>()).cast();
                if copy.is_null() {
                    crate::border::set_errno(libc::ENOMEM);
                    libc::closedir(folder);
                    return -1;
                }
                *copy = *entry;
                found.push(copy);
            }
        }
        libc::closedir(folder);
        let list: *mut *mut dirent = libc::malloc(size_of::<*mut dirent>() * found.len().max(1)).cast();
        if list.is_null() {
            crate::border::set_errno(libc::ENOMEM);
            return -1;
        }
        if let Some(order) = order {
            found.sort_by(|a, b| {
                let (a, b): (*const dirent, *const dirent) = (*a, *b);
                order(&a, &b).cmp(&0)
            });
        }
        list.copy_from_nonoverlapping(found.as_ptr(), found.len());
        *out = list;
        found.len() as c_int
    }
}

/// `getdents64`: the descriptor's offset is the number of the next entry.
fn dents(world: &World, fd: c_int, out: &mut [u8]) -> Outcome<ssize_t> {
    let names = names(world, fd)?;
    let at = crate::placeholder::offset(open::borrow(fd))? as usize;
    let mut used = 0;
    let mut next = at;
    for name in names.iter().skip(at) {
        // Inode, offset, length, kind, name with its end: to a multiple of eight.
        let length = (19 + name.len() + 1).next_multiple_of(8);
        let Some(place) = out.get_mut(used..used + length) else { break };
        next += 1;
        place.fill(0);
        place[..8].copy_from_slice(&number("", name).to_ne_bytes());
        place[8..16].copy_from_slice(&(next as i64).to_ne_bytes());
        place[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
        place[18] = if name == "." || name == ".." { libc::DT_DIR } else { libc::DT_UNKNOWN };
        place[19..19 + name.len()].copy_from_slice(name.as_bytes());
        used += length;
    }
    if used == 0 && at < names.len() {
        return Err(Errno::INVAL.into());
    }
    crate::placeholder::seek(open::borrow(fd), rustix::fs::SeekFrom::Start(next as u64))?;
    Ok(used as ssize_t)
}
