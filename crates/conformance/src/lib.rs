//! Suites shared by everything that implements one of our traits. For tests only.
//!
//! A suite checks promises, not implementations: it is called from the `tests/` folder of each crate that
//! implements the trait, and fails by panicking with the promise that was broken.
//!
//! | room | what it owns |
//! |------|--------------|
//! | `comm` | the promises of `Communicator`, `Request` and `SharedWindow` |
//! | [`gate`] | a gate at which operations of a store wait |
//! | [`scratch`] | a folder for one test, removed afterwards |
//! | `staging` | a server that takes outputs over, in this process (feature `round-trip`) |
//! | [`sweep`] | how many cases of a long sweep are tried |
//! | [`store`] | the promises of `Store`, `ReadObject` and `WriteObject` |
//! | `layout` | the promises of `Layout` |
//! | `method` | the promises of every method, case by case, whatever the number of ranks (feature `round-trip`) |
//! | `round_trip` | written values read back equal, for every method, layout and number of ranks (feature `round-trip`) |
#![forbid(unsafe_code)]

#[cfg(feature = "comm")]
pub mod comm;
pub mod gate;
#[cfg(feature = "layout")]
pub mod layout;
#[cfg(feature = "round-trip")]
pub mod method;
#[cfg(feature = "round-trip")]
pub mod round_trip;
pub mod scratch;
#[cfg(feature = "round-trip")]
pub mod staging;
pub mod store;
pub mod sweep;
