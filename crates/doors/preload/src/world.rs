//! The state of this process: the mounts, the open files, the current folder.
//!
//! After a `fork` the world belongs to the parent; the child creates its own, in which every open file is reopened at its
//! first use, as after `exec`. So two processes never use one handle of a layout.
#![allow(unsafe_code)] // the pointer to the world, which is never freed

use crate::border::{Fail, Inside, Outcome, inside, read_environment, tell, tell_always};
use crate::open::OpenFileDescription;
use crate::paths::{first_part, goes_up, has_dots, under};
use crate::table::Table;
use libc::{c_char, c_int};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use thalweg_layout::links::{self, Led, MOST_LINKS};
use thalweg_layout::{Layout, Mount, WriterId, mount};
use thalweg_mounts::table::{self as mounts, Entry};
use thalweg_types::mutex::RwLock;

/// A mount of this process.
pub struct Mounted {
    pub mount: Mount,
    /// `st_dev` of its files.
    pub device: u64,
}

/// The world. See the module's page.
pub struct World {
    pub pid: u32,
    /// The writer of all this process's writes.
    pub writer: WriterId,
    pub mounts: Vec<Mounted>,
    pub table: RwLock<Table>,
    entries: Arc<Vec<Entry>>,
    /// Every part of every prefix: a relative path that leads to a mount begins with one.
    parts: HashSet<Vec<u8>>,
    current: RwLock<Current>,
    /// [`NEAR`], [`FAR`] or [`UNKNOWN`].
    near: AtomicU8,
}

/// The current folder.
enum Current {
    /// The system's.
    Real,
    /// A folder of a mount; the system's current folder is then a removed one. The descriptor passes the folder to the next
    /// program.
    Ours { path: String, fd: RawFd },
}

const UNKNOWN: u8 = 0;
/// No relative path without `..` leads to a mount.
const FAR: u8 = 1;
const NEAR: u8 = 2;

static WORLD: AtomicPtr<World> = AtomicPtr::new(std::ptr::null_mut());

/// The world, for a hook; `None` before the door is open, without mounts, and inside our own code.
#[inline]
pub fn world() -> Option<&'static World> {
    // SAFETY: worlds are made once and never freed.
    let world = unsafe { WORLD.load(Ordering::Acquire).as_ref() }?;
    if inside() { None } else { Some(world) }
}

/// The world, also inside our own code.
pub fn current_world() -> Option<&'static World> {
    // SAFETY: as above.
    unsafe { WORLD.load(Ordering::Acquire).as_ref() }
}

fn install(world: World) -> &'static World {
    let world: &'static mut World = Box::leak(Box::new(world));
    WORLD.store(world, Ordering::Release);
    world
}

/// Result of resolving a path.
pub enum Located {
    /// Outside mounts: the call is passed on unchanged.
    Untouched,
    /// Outside mounts, but relative to a folder of a mount: the call is passed on with this absolute path.
    Elsewhere(CString),
    Ours(Place),
    Nowhere(Fail),
}

/// Outcome of a call that follows symbolic links.
pub enum Followed<T> {
    /// The call's result, under a mount.
    Here(T),
    /// The links lead to this absolute path outside mounts.
    Outside(CString),
}

/// A path under a mount.
#[derive(Clone)]
pub struct Place {
    pub mount: usize,
    /// Name in the layout.
    pub name: String,
    /// Absolute path.
    pub path: String,
}

impl Place {
    pub fn layout<'w>(&self, world: &'w World) -> Outcome<&'w Arc<dyn Layout>> {
        world.layout(self.mount)
    }

    /// Another name of the same mount.
    pub fn beside(&self, world: &World, name: String) -> Place {
        let path = mount::normal(&name, world.mounts[self.mount].mount.prefix());
        Place { mount: self.mount, name, path }
    }
}

/// Reads the mount table; does nothing without mounts.
///
/// An invalid table ends the process: without its mounts a program would write to the wrong place.
pub fn begin() {
    let _inside = Inside::new();
    read_environment();
    // Once, here, because the program and its children may change their current folders.
    absolute(mounts::VARIABLE);
    absolute(thalweg_remote::VARIABLE);
    let entries = mounts::files().and_then(|files| mounts::entries(&files));
    let entries = entries.unwrap_or_else(|e| {
        tell_always(&e.to_string());
        std::process::exit(crate::REFUSED)
    });
    if entries.is_empty() {
        return;
    }
    thalweg_remote::transport::place_descriptors(crate::private::keep);
    let world = install(World::new(Arc::new(entries)));
    crate::table::find_inherited(world);
}

/// Makes the path in an environment variable absolute.
fn absolute(variable: &str) {
    let Some(named) = std::env::var_os(variable).map(PathBuf::from).filter(|named| !named.as_os_str().is_empty())
    else {
        return;
    };
    if named.is_relative()
        && let Ok(current) = std::env::current_dir()
    {
        let text = OsString::from_iter([OsStr::new(variable), OsStr::new("="), current.join(named).as_os_str()]);
        let Ok(text) = CString::new(text.into_vec()) else { return };
        replace(variable.as_bytes(), text.into_raw());
    }
}

/// Replaces an entry of the environment that the program receives. `setenv` may be the program's own function, as in
/// shells.
fn replace(variable: &[u8], text: *mut c_char) {
    unsafe extern "C" {
        static mut environ: *mut *mut c_char;
    }
    // SAFETY: the loader runs this before the program, which has no thread yet; the list ends with a null, its texts with zero
    // bytes, and the new one is never freed.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            let known = std::ffi::CStr::from_ptr(*at).to_bytes();
            if known.strip_prefix(variable).is_some_and(|rest| rest.starts_with(b"=")) {
                *at = text;
            }
            at = at.add(1);
        }
    }
}

impl World {
    fn new(entries: Arc<Vec<Entry>>) -> World {
        let mounts: Vec<Mounted> = (0..entries.len())
            .map(|number| {
                let all = entries.clone();
                let make = move || crate::far::layout(&all[number]);
                Mounted { mount: Mount::new(&entries[number].path, make), device: device(&entries[number].path) }
            })
            .collect();
        let parts = entries.iter().flat_map(|e| e.path.split('/')).filter(|part| !part.is_empty());
        World {
            pid: std::process::id(),
            writer: thalweg_open_file::writer(),
            mounts,
            table: RwLock::default(),
            parts: parts.map(|part| part.as_bytes().to_vec()).collect(),
            entries,
            current: RwLock::new(Current::Real),
            near: AtomicU8::new(UNKNOWN),
        }
    }

    /// The world of a child: the same mounts, whose layouts are created at their first use; the caller adds the open files.
    pub fn of_child(&self) -> &'static World {
        let child = World::new(self.entries.clone());
        let current = self.current.read();
        if let Current::Ours { path, fd } = &*current {
            *child.current.write() = Current::Ours { path: path.clone(), fd: *fd };
        }
        child.near.store(self.near.load(Ordering::Relaxed), Ordering::Relaxed);
        install(child)
    }

    /// Whether this process created this world; `false` in a `vfork` child, which shares the parent's memory until `exec`.
    pub fn is_own(&self) -> bool {
        self.pid == std::process::id()
    }

    pub fn layout(&self, mount: usize) -> Outcome<&Arc<dyn Layout>> {
        let mounted = &self.mounts[mount].mount;
        mounted.layout().map_err(|why| {
            tell(&format!("the mount {} cannot be used: {why}", mounted.prefix()));
            Fail(libc::ENOTSUP)
        })
    }

    fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.mounts.iter().map(|m| m.mount.prefix())
    }

    /// Whether a path may lead to a mount. `false` is certain; the check is cheap.
    fn maybe(&self, folder: c_int, path: &[u8]) -> bool {
        match path.first() {
            None => false,
            Some(b'/') => self.prefixes().any(|prefix| under(prefix.as_bytes(), path)) || has_dots(path),
            Some(_) if folder == libc::AT_FDCWD => match self.near.load(Ordering::Relaxed) {
                FAR => goes_up(path),
                _ => true,
            },
            Some(_) => crate::table::is_ours(folder) || self.parts.contains(first_part(path)) || goes_up(path),
        }
    }

    /// Resolves the path of a call.
    #[inline]
    pub fn locate(&self, folder: c_int, path: &[u8]) -> Located {
        if self.maybe(folder, path) { self.find(folder, path) } else { Located::Untouched }
    }

    #[cold]
    fn find(&self, folder: c_int, path: &[u8]) -> Located {
        let _inside = Inside::new();
        let absolute = path.first() == Some(&b'/');
        let (before, ours) = match absolute {
            true => ("/".to_string(), false),
            false => match self.beside(folder) {
                Ok(Some(before)) => before,
                Ok(None) => return Located::Untouched,
                Err(fail) => return Located::Nowhere(fail),
            },
        };
        let Ok(text) = std::str::from_utf8(path) else {
            // Names in layouts are UTF-8. Outside mounts other bytes are valid names.
            let under_one = ours || self.prefixes().any(|prefix| under(prefix.as_bytes(), path));
            return if under_one { Located::Nowhere(Errno::ILSEQ.into()) } else { Located::Untouched };
        };
        let normal = mount::normal(text, &before);
        match mount::resolve(self.prefixes(), &normal, "/") {
            Some((mount, name)) => Located::Ours(Place { mount, name, path: normal }),
            // Like `..` of the root: the folder above a mount may not exist.
            None if (ours || has_dots(path)) && self.is_above(&normal) && rustix::fs::stat(&*normal).is_err() => {
                let mount = self.prefixes().position(|prefix| under(normal.as_bytes(), prefix.as_bytes())).unwrap_or(0);
                Located::Ours(Place { mount, name: String::new(), path: self.mounts[mount].mount.prefix().to_string() })
            }
            // Except for paths that cross a mount, which the system cannot resolve.
            None if !ours && !self.goes_through(text, &before) => Located::Untouched,
            None => match CString::new(normal) {
                Ok(path) => Located::Elsewhere(path),
                Err(_) => Located::Nowhere(Errno::INVAL.into()),
            },
        }
    }

    /// Whether a path leads into a mount and out of it by `..`.
    fn goes_through(&self, path: &str, before: &str) -> bool {
        let inside = |at: usize| mount::resolve(self.prefixes(), &mount::normal(&path[..at], before), "/").is_some();
        path.match_indices("/..").any(|(at, _)| at > 0 && inside(at))
    }

    fn is_above(&self, path: &str) -> bool {
        self.prefixes().any(|prefix| under(path.as_bytes(), prefix.as_bytes()))
    }

    /// The folder at which a relative path begins, and whether it is a mount's. `None` if the path needs no handling.
    fn beside(&self, folder: c_int) -> Outcome<Option<(String, bool)>> {
        if folder == libc::AT_FDCWD {
            if let Some(path) = self.current_folder() {
                return Ok(Some((path, true)));
            }
            let real = rustix::process::getcwd(Vec::new()).ok().and_then(|path| path.into_string().ok());
            let Some(real) = real else {
                self.near.store(FAR, Ordering::Relaxed);
                return Ok(None);
            };
            let above = self.prefixes().any(|prefix| under(real.as_bytes(), prefix.as_bytes()));
            self.near.store(if above { NEAR } else { FAR }, Ordering::Relaxed);
            return Ok(Some((real, false)));
        }
        if let Some(open) = crate::table::get(folder) {
            return match open.is_folder() {
                true => Ok(Some((open.path(), true))),
                false => Err(Errno::NOTDIR.into()),
            };
        }
        let link = rustix::fs::readlink(format!("/proc/self/fd/{folder}"), Vec::new()).ok();
        let real = link.and_then(|link| link.into_string().ok()).filter(|path| path.starts_with('/'));
        Ok(real.map(|path| (path, false)))
    }

    /// The current folder, if it is a mount's.
    pub fn current_folder(&self) -> Option<String> {
        match &*self.current.read() {
            Current::Real => None,
            Current::Ours { path, .. } => Some(path.clone()),
        }
    }

    /// The descriptor that passes the current folder to the next program.
    pub fn current_fd(&self) -> Option<RawFd> {
        match &*self.current.read() {
            Current::Real => None,
            Current::Ours { fd, .. } => Some(*fd),
        }
    }

    /// Sets the current folder to a mount's or back to the system's; returns the descriptor of the previous mount folder.
    pub fn set_current(&self, to: Option<(String, RawFd)>) -> Option<RawFd> {
        let mut current = self.current.write();
        let now = to.map_or(Current::Real, |(path, fd)| Current::Ours { path, fd });
        self.near.store(if matches!(now, Current::Real) { UNKNOWN } else { NEAR }, Ordering::Relaxed);
        match std::mem::replace(&mut *current, now) {
            Current::Real => None,
            Current::Ours { fd, .. } => Some(fd),
        }
    }

    /// The underlying file of a name on this machine, if the layout has one.
    pub fn plain(&self, place: &Place) -> Outcome<Option<PathBuf>> {
        Ok(place.layout(self)?.plain_file(&place.name))
    }

    /// Where the symbolic links in a path lead: to a name of its mount, or out of the mount.
    ///
    /// # Errors
    /// A failed lookup; `ELOOP` after [`MOST_LINKS`] links.
    pub fn led(&self, place: &Place) -> Outcome<Led> {
        let layout = place.layout(self)?;
        let link = |name: &str| links::target_of(layout.attributes(name), || layout.read_link(name));
        Ok(links::lead(&place.name, true, link)?)
    }

    /// A path that leads out of a mount, as [`Led::Out`] gives it: in another mount, or outside all mounts.
    fn out_of(&self, mount: usize, path: &str) -> Outcome<Located> {
        // The folder above a mount is known by its path alone; what comes after it may be links of the system.
        let (mut above, mut rest) = (self.mounts[mount].mount.prefix().to_string(), path);
        while let Some(further) = rest.strip_prefix("..").filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            above = mount::normal("..", &above);
            rest = further.trim_start_matches('/');
        }
        let whole = if path.starts_with('/') { path.to_string() } else { format!("{above}/{rest}") };
        let normal = mount::normal(&whole, "/");
        Ok(match mount::resolve(self.prefixes(), &normal, "/") {
            Some((mount, name)) => Located::Ours(Place { mount, name, path: normal }),
            None => {
                let path = if self.goes_through(&whole, "/") { normal } else { whole };
                Located::Elsewhere(CString::new(path).map_err(|_| Errno::INVAL)?)
            }
        })
    }

    /// Calls `call` for a path. If it fails with `ENOENT`, `ELOOP` or `ENOTDIR` and a symbolic link in the path leads out of the
    /// mount, the call is repeated for the path that it leads to: layouts follow the links within their mount.
    ///
    /// # Errors
    /// The failure of the last `call`; `ELOOP` after [`MOST_LINKS`] links.
    pub fn follow<T>(&self, place: &Place, mut call: impl FnMut(&Place) -> Outcome<T>) -> Outcome<Followed<T>> {
        let mut place = place.clone();
        for _ in 0..MOST_LINKS {
            let failed = match call(&place) {
                Err(fail) if matches!(fail.0, libc::ENOENT | libc::ELOOP | libc::ENOTDIR) => fail,
                outcome => return outcome.map(Followed::Here),
            };
            let Led::Out(path) = self.led(&place)? else { return Err(failed) };
            match self.out_of(place.mount, &path)? {
                Located::Ours(target) => place = target,
                Located::Elsewhere(path) => return Ok(Followed::Outside(path)),
                Located::Untouched | Located::Nowhere(_) => return Err(failed),
            }
        }
        Err(Errno::LOOP.into())
    }

    /// Open files with this name or below it.
    pub fn open_below(&self, place: &Place) -> Vec<Arc<OpenFileDescription>> {
        let table = self.table.read();
        table.all().filter(|open| open.mount == place.mount && open.lies_below(&place.name)).cloned().collect()
    }
}

/// A number for `st_dev` that no device has.
fn device(prefix: &str) -> u64 {
    let hash = prefix.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    libc::makedev(0xf74, hash & 0xf_ffff)
}
