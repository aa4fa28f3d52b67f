//! The FUSE door: the files of a layout for every program of the machine, below a mount point.
//!
//! | question | answer |
//! |----------|--------|
//! | threads  | several, each with a descriptor of its own; as many take requests as there is work for: see `readers`. A slow file keeps no other waiting until all are busy |
//! | sizes    | reads and writes of up to 1 MiB each |
//! | who may  | the kernel decides by modes and owners; of root's mounts all users, else the user alone |
//! | what the kernel keeps | see [`Cache`]; names and attributes for a second |
//! | a file made or removed | asks a store that is far for no more than the layout does: see `attribute_cache` |
//! | who only writes | goes past the kernel's pages, but for files of this machine |
//! | `close`  | of layouts that publish at closing: returns when others see the file, with the failure if there was one |
//! | removed and open | goes on, with its last attributes |
//! | numbers  | see [`nodes`] |
//! | the process is killed | programs get `ENOTCONN`, until the mount point is unmounted or mounted again; what was not closed or synced is as after any crash |
//! | names that are no UTF-8 | cannot be made (`EILSEQ`), and are not shown |
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`nodes`] | numbers and names |
//! | [`settings`] | what the kernel keeps |
//! | `open` | handles |
//! | `readers` | which threads wait for requests, and which rest |
//! | `attribute_cache` | attributes of folders that the kernel asks for again and again |
//! | `door` | what each call does |
//! | `door::files` | open files |
//! | `door::list` | lists of folders, with attributes |
//! | `helpers` | threads that help with the looks of a list |
//! | `door::make` | what is made, with its owner and mode |
//! | `door::locks` | locks, taken where other doors meet them |
//! | [`errors`] | what is said of failures beside the number that a program gets |
//! | `kernel` | the kernel's calls and replies |
//! | [`mounted`] | mounting, unmounting, dead mounts |
//! | [`last_words`] | how the process that served a mount ended, for who unmounts |
//! | [`all`] | several mounts below one mount point |
//!
//! Differs from PLFS's FUSE door: several threads, failures are told at `close`, removed files go on.
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
