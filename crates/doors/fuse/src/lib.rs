//! The FUSE door: presents the files of a layout to all programs of the machine, below a mount point.
//!
//! | question | answer |
//! |----------|--------|
//! | threads  | several, each with its own descriptor; the number of threads that take requests follows the load: see `readers`. A slow file delays other files only when all threads are busy |
//! | sizes    | reads and writes of up to 1 MiB each |
//! | access   | the kernel checks modes and owners; mounts by root are open to all users, others only to their user |
//! | the kernel's cache | see [`Cache`]; names and attributes for a second |
//! | a file made or removed | needs no further requests to distant stores than the layout's own: see `attribute_cache` |
//! | write-only handles | bypass the kernel's page cache, except for files of this machine |
//! | `close`  | on layouts that publish at close: returns when the bytes are visible to others; reports failures |
//! | removed open files | stay usable, with their last attributes |
//! | numbers  | see [`nodes`] |
//! | the process is killed | programs get `ENOTCONN` until the mount point is unmounted or mounted again; unsynced bytes of open files are as after any crash |
//! | names that are not UTF-8 | cannot be created (`EILSEQ`) and are not listed |
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`nodes`] | numbers and names |
//! | [`settings`] | caching by the kernel |
//! | `open` | handles |
//! | `readers` | the number of threads that wait for requests |
//! | `attribute_cache` | folder attributes, which the kernel requests often |
//! | `door` | implementation of the calls |
//! | `door::files` | open files |
//! | `door::list` | lists of folders, with attributes |
//! | `helpers` | threads that help with the lookups of a list |
//! | `door::make` | creation of names, with owner and mode |
//! | `door::locks` | locks, shared with other doors |
//! | [`errors`] | messages of failures of which a program gets only a number |
//! | `kernel` | the kernel's calls and replies |
//! | [`mounted`] | mounting, unmounting, dead mounts |
//! | [`last_words`] | the server's exit status, for the process that unmounts |
//! | [`all`] | several mounts below one mount point |
//!
//! Differs from PLFS's FUSE door: several threads, failures are reported at `close`, removed open files stay usable.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod all;
mod attribute_cache;
mod door;
pub mod errors;
mod helpers;
mod kernel;
pub mod last_words;
pub mod mounted;
pub mod nodes;
mod open;
mod readers;
pub mod settings;

pub use all::All;
pub use mounted::{Mounted, all_mounted, mount, unmount};
pub use settings::{Cache, Settings};
