//! The hooks, by topic; each is listed in `crates/doors/calls.txt`.

pub mod copy;
pub mod current;
pub mod descriptor;
pub mod directory;
pub mod map;
pub mod name;
pub mod run;
pub mod stat;
pub mod stream;
pub mod transfer;
pub mod xattr;

use crate::world::{Located, World, world};
use libc::{c_char, c_int};
use std::ffi::CStr;

/// Resolves the path of a call.
///
/// # Safety
/// `path` is null or ends with a zero byte.
#[allow(unsafe_code)] // what a hook was given
#[inline]
pub unsafe fn locate(folder: c_int, path: *const c_char) -> Option<(&'static World, Located)> {
    let world = world()?;
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    match world.locate(folder, unsafe { CStr::from_ptr(path) }.to_bytes()) {
        Located::Untouched => None,
        located => Some((world, located)),
    }
}

/// Runs a call with one path: unchanged, with another path, or on a mount.
macro_rules! by_path {
    ($folder:expr, $path:ident, $real:expr, |$world:ident, $place:ident| $body:expr) => {
        match $crate::hooks::locate($folder, $path) {
            None => $real,
            Some((_, $crate::world::Located::Untouched)) => $real,
            Some((_, $crate::world::Located::Elsewhere(path))) => {
                let $path = path.as_ptr();
                $real
            }
            Some((_, $crate::world::Located::Nowhere(fail))) => $crate::border::enter(|| Err(fail)),
            Some(($world, $crate::world::Located::Ours($place))) =>
            {
                #[allow(clippy::redundant_closure_call)]
                $crate::border::enter(|| $body)
            }
        }
    };
}
pub(crate) use by_path;
