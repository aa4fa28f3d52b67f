//! Reading: a file is opened by its index alone; reads plan extents, fetch them and place the values. Also verify and recover.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`open`] | [`Reader`]: files, subfiles, index files |
//! | [`follow`] | a file that a running writer still extends: waiting for steps |
//! | [`status`] | summary of a file: steps, whether it was closed for good, torn bytes |
//! | [`variable`], [`attribute`], [`block`] | metadata of each |
//! | [`compression_errors`] | recorded errors of lossy blocks, joined |
//! | [`summary`] | characteristics joined over blocks and steps |
//! | [`plan`] | from a selection and blocks to extents and copies; pure |
//! | [`fetch`] | reads extents in order, puts values where they belong |
//! | [`precision`] | real numbers with fewer digits, of fewer bytes |
//! | `crew` | the threads of one call |
//! | `window` | bytes read along with trailers of process groups, reused for values |
//! | `stream` | copies of large results, past the caches |
//! | [`mod@verify`] | offline check of a file; the bytes that readers use |
//! | [`mod@recover`] | truncates torn bytes, rebuilds a lost index |
//! | [`mod@space`] | space of a file: values, framing, holes, index, dead bytes |
//! | [`writers`] | whether a process still writes a file |
//! | [`index_file`] | the index alone, as a small file |
//! | [`object`] | objects of a layout as sources of bytes; names of subfiles |
//!
//! Steps count from 0 and are those of the file: step = time index - 1. Dimensions are slowest first for the caller;
//! those of Fortran-ordered groups are reversed. Values have this machine's byte order.
#![deny(unsafe_code)]

pub mod attribute;
pub mod block;
mod boxes;
pub mod compression_errors;
mod crew;
mod decode;
pub mod fetch;
pub mod follow;
pub mod index_file;
pub mod object;
pub mod open;
pub mod overlap;
pub mod plan;
pub mod precision;
pub mod recover;
mod sets;
pub mod space;
pub mod status;
mod stream;
pub mod summary;
pub mod variable;
pub mod verify;
mod window;
pub mod writers;

pub use attribute::Attribute;
pub use block::{Block, Transformed};
pub use compression_errors::CompressionErrors;
pub use fetch::Element;
pub use follow::{Follower, Next, Wait};
pub use index_file::index_only;
pub use open::{Batch, Reader, Reads};
pub use precision::Digits;
pub use recover::{Options as RecoverOptions, Recovery, recover};
pub use space::{Space, space};
pub use status::{Partial, Status};
pub use summary::Summary;
pub use thalweg_transform::Form;
pub use thalweg_transform::error_bound::{BoundedForm, ErrorBound, ErrorRecord, Lossless};
pub use variable::{Head, Kind, Variable};
pub use verify::{Finding, FindingKind, Report, live_extents, verify};
