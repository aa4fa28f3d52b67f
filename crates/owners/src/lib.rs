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
//! | [`outbox`] | bytes that are written and not yet sent |
//! | [`message`] | messages between the ranks |
//! | `post` | how messages are sent and received |
//! | [`file`](mod@file) | the interface: open, start, write, end, wait, close |
//! | [`window`] | the state of one window on one rank |
//! | `progress` | what happens inside a call |
//! | [`mod@input`] | input windows: owners read ahead, ranks ask for bytes |
//! | [`ahead`] | what an owner holds of an input window, and what ranks wait for |
//! | `request` | messages between the ranks of a file that is read |
//! | [`background`] | a thread that serves a file, for programs that ask for one |
//!
//! Sources: Miller, Li, Mei, *Asynchronous Collective Output With Non-Dedicated Cores* (CkIO). What the paper calls the active
//! processors are owners here; an output window is a *session* in the CkIO of Charm++.
#![forbid(unsafe_code)]

pub mod ahead;
pub mod background;
pub mod domains;
pub mod ending;
pub mod file;
pub mod gather;
pub mod input;
pub mod message;
pub mod options;
pub mod outbox;
mod post;
mod progress;
mod request;
pub mod runs;
pub mod window;

pub use file::{File, OpenFile};
pub use input::{Input, InputWindow, OpenInput, ReadId};
pub use options::{Machine, Options, Owners};
pub use window::{Commit, Completed, Ended, WindowId};
