//! Where files lie: the one table of stores, the one table of layouts, and the mounts of a process.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`stores`] | opens the store of a URL: `posix:`, `memory:` and the others |
//! | [`layouts`] | creates a layout over stores from a name and parameters: `direct`, `flat`, ... |
//! | [`wrappers`] | wrappers that a mount puts around its stores: retries, limits, counters |
//! | [`named`] | partitions that paths name |
//! | [`draining`] | starts the drain of a burst buffer after a close |
//! | [`starting`] | starts the servers of a partition at its first use |
//! | [`table`] | reads and checks the mount table's file; the mounts of this process |
//!
//! Stores on other machines need libraries that not every program can contain: the tables list these stores, and the crate with
//! their code registers it with [`stores::set_far`] (`thalweg_io::mounts` does). A program behind the preload door has none of this
//! code and reaches such mounts through a daemon.
//!
//! The lists are explicit, because linkers drop objects that register themselves when a C or Fortran code links us statically.
#![forbid(unsafe_code)]

pub mod draining;
pub mod layouts;
pub mod named;
pub mod starting;
pub mod stores;
pub mod table;
pub mod wrappers;
