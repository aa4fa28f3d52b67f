//! What a process sees of an open file; shared by the doors and `thalweg_file_*`.
//!
//! | question | answer |
//! |----------|--------|
//! | what is open | one [`OpenFile`] for each open of a program; offsets and descriptors are the door's own |
//! | who writes   | all handles of one process (or of one daemon) have one writer number, [`writer`]: layouts keep the order of its calls. Two processes have two, so that bytes which both wrote with nothing in between are the same for every reader |
//! | several handles | of one file in a process see each other's writes at once: the layouts promise it |
//! | append | behind the end; appends of one process never meet. Between processes the layout decides: [`OpenFile::refresh`] before, [`OpenFile::publish`] after; of `container` those of several never meet either |
//! | a name that goes | the door that removes or renames tells the open file, which keeps answering |
//! | errors | those of the layout, or with the number that the manual page of the call has |
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`access`] | what an open asks for; `O_` flags |
//! | [`file`](mod@file) | a file that is open |
//! | [`lock`] | the file that programs lock in place of a logical file |
//! | [`about`] | attributes of a name, links followed or not, also where a layout keeps none |
#![forbid(unsafe_code)]

pub mod about;
pub mod access;
pub mod file;
#[cfg(target_os = "linux")]
pub mod lock;

pub use access::Access;
pub use file::{Appends, OpenFile, hold_appends, writer};
