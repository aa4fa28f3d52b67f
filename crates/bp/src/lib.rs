//! Encoding and decoding of BP version 3, with Thalweg's trailer, extension section and step records.
//!
//! Pure functions on bytes: no files, no MPI, no threads. Decoding never panics: any bytes give a value or an error with the
//! offset. The byte tables are in `docs/format/`.
// Two rooms below `statistics` call the processor's own instructions.
#![deny(unsafe_code)]

pub mod characteristic;
pub mod extension;
pub mod footer;
pub mod foreign;
pub mod growth;
pub mod hole;
pub mod index;
pub mod listing;
pub mod live;
pub mod opening;
pub mod pass;
pub mod process_group;
pub mod rows;
pub mod scan;
pub mod shape;
pub mod shorten;
pub mod source;
pub mod statistics;
pub mod step_record;
pub mod sums;
pub mod trailer;
pub mod wire;
