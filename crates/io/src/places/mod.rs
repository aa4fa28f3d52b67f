//! Where files lie: the one table of stores, the one table of layouts, and the mounts of a process.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`stores`] | `posix:`, `memory:` and the others: a URL becomes a store |
//! | [`layouts`] | `direct`, `flat`, ...: a name and parameters become a layout over stores |
//! | [`around`] | what a mount puts around its stores: tries again, limits, counts |
//! | [`draining`] | the drain of a burst buffer that starts by itself after a close |
//! | [`mounts`] | the mount table's file, read and checked; the mounts of this process |
//!
//! Explicit lists, as objects that register themselves are dropped by linkers when a C or Fortran code links us
//! statically.

pub mod around;
pub mod draining;
pub mod layouts;
pub mod mounts;
pub mod stores;
