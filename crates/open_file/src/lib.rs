//! Open files as a process sees them; used by the doors and `thalweg_file_*`.
//!
//! | question | answer |
//! |----------|--------|
//! | objects | one [`OpenFile`] for each open of a program; file positions and descriptors are the door's |
//! | writer number | one for all handles of a process (or of a daemon), [`writer`]: layouts keep the order of its calls. Two processes have two, so that every reader sees the same order of their concurrent writes |
//! | several handles | of one file in a process see each other's writes immediately; the layouts promise this |
//! | append | at the end; appends of one process never overlap. Between processes the layout decides: [`OpenFile::refresh`] before, [`OpenFile::publish`] after; on `container` appends of several processes never overlap either |
//! | unlink, rename | the door that removes or renames a name tells the open file, which stays usable |
//! | errors | those of the layout, or the error number of the call's manual page |
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`access`] | the `O_` flags of an open |
//! | [`file`](mod@file) | open files |
//! | [`lock`] | locks of programs: on a file in place of the logical one, or at its server |
//! | [`about`] | attributes of a name, links followed or not, also for layouts that keep none |
#![forbid(unsafe_code)]

pub mod about;
pub mod access;
pub mod file;
#[cfg(target_os = "linux")]
pub mod lock;

pub use access::Access;
pub use file::{Appends, OpenFile, lock_appends, writer};
