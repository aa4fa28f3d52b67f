//! Reading: open by index only, plan extents, fetch them, place the values; verify and recover.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`open`] | [`Reader`]: files, subfiles, index files |
//! | [`follow`] | a file that a running writer still extends: waiting for steps |
//! | [`status`] | what a file holds at a glance: steps, whether it was closed for good, what was cut off |
//! | [`variable`], [`attribute`], [`block`] | what is known about each |
//! | [`summary`] | characteristics joined over blocks and steps |
//! | [`plan`] | selection and blocks in, extents and copies out; pure |
//! | [`fetch`] | reads extents in order, puts values where they belong |
//! | `crew` | the threads of one call |
//! | `window` | bytes read around process groups when these are looked at |
//! | `stream` | copies of large results, past the caches |
//! | [`mod@verify`] | delayed consistency, offline; which bytes readers use |
//! | [`mod@recover`] | cuts torn bytes, rebuilds a lost index |
//! | [`mod@space`] | what the bytes of a file are: values, holes, index, what nobody needs |
//! | [`index_file`] | the index alone, as a small file |
//! | [`object`] | objects of a layout as bytes of the format; names of subfiles |
//!
//! Steps count from 0 and are those of the file: step = time index - 1. Dimensions are slowest first for the caller;
//! those of Fortran-ordered groups are turned round. Values come in this machine's byte order.
#![deny(unsafe_code)]

pub mod attribute;
pub mod block;
mod boxes;
mod crew;
mod decode;
pub mod fetch;
pub mod follow;
pub mod index_file;
pub mod object;
pub mod open;
pub mod overlap;
pub mod plan;
pub mod recover;
mod sets;
pub mod space;
pub mod status;
mod stream;
pub mod summary;
pub mod variable;
pub mod verify;
mod window;

pub use attribute::Attribute;
pub use block::Block;
pub use fetch::Element;
pub use follow::{Follower, Next, Wait};
pub use index_file::index_only;
pub use open::{Batch, Reader, Reads};
pub use recover::{Options as RecoverOptions, Recovery, recover};
pub use space::{Space, space};
pub use status::{Partial, Status};
pub use summary::Summary;
pub use variable::{Head, Kind, Variable};
pub use verify::{Finding, FindingKind, Report, live_extents, verify};
