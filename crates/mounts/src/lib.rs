//! Where files lie: the one table of stores, the one table of layouts, and the mounts of a process.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`stores`] | `posix:`, `memory:` and the others: a URL becomes a store |
//! | [`layouts`] | `direct`, `flat`, ...: a name and parameters become a layout over stores |
//! | [`wrappers`] | what a mount puts around its stores: tries again, limits, counts |
//! | [`draining`] | the drain of a burst buffer that starts by itself after a close |
//! | [`table`] | the mount table's file, read and checked; the mounts of this process |
//!
//! Stores of other machines need code that not every program can hold: the tables know them, and who holds their code gives it to
//! [`stores::set_far`] (`thalweg_io::mounts` does). A program behind the preload door holds none, and reaches such mounts through a daemon.
//!
//! Explicit lists, as objects that register themselves are dropped by linkers when a C or Fortran code links us
//! statically.
#![forbid(unsafe_code)]

pub mod draining;
pub mod layouts;
pub mod stores;
pub mod table;
pub mod wrappers;
