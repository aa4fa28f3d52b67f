//! The interface of ADIOS 1.13: `adios.h`, `adios_read.h`, `adios_selection.h`, `adios_query.h` and the headers they include.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`error`] | failures as C programs see them: one table from our kinds to `ADIOS_ERRCODES` |
//! | [`handle`] | the 64-bit handles of files, groups and variables |
//! | [`process`] | state of a process: the session, declared groups, open files |
//! | [`file`](mod@file) | an open file: an output, or a group being read back |
//! | [`read`] | files and streams as `adios_read.h` shows them |
//! | [`calls`] | the C functions; all `unsafe` of this interface is there |

pub mod calls;
pub mod error;
pub mod file;
pub mod handle;
pub mod process;
pub mod read;
