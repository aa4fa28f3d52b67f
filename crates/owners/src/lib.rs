//! Output that never blocks: ranks write into *output windows* of a file and go on; some of them, the *owners*, gather whole stripes and
//! write them while all compute.
//!
//! | question | answer |
//! |---|---|
//! | who writes | the owners of the window ([`options`]); every rank can compute them ([`domains`]) |
//! | when | inside calls of the program: [`file::File::progress`], `test`, `wait`, `close`, and `write` when memory is full |
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`options`] | options of a window, and their defaults |
//! | [`domains`] | which rank owns which bytes |
//! | [`gather`] | what an owner holds: bytes in, whole write stripes out |
//! | [`runs`] | a set of bytes, as runs |
//! | [`ending`] | who has ended, what owners report, what becomes of it |
//!
//! Sources: Miller, Li, Mei, *Asynchronous Collective Output With Non-Dedicated Cores* (CkIO). What the paper calls the active
//! processors are owners here; an output window is a *session* in the CkIO of Charm++.
#![forbid(unsafe_code)]

pub mod domains;
pub mod ending;
pub mod gather;
pub mod options;
pub mod runs;

pub use options::{Machine, Options, Owners};
