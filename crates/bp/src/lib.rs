//! Encoding and decoding of BP version 3, with Thalweg's trailer, extension section and step records.
//!
//! Bytes in, bytes out: no file, no MPI, no thread. Decoding is total: any bytes give a value or an error that names
//! the byte. The pages in `docs/format/` hold the byte tables.
#![forbid(unsafe_code)]

pub mod characteristic;
pub mod extension;
pub mod footer;
pub mod growth;
pub mod hole;
pub mod index;
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
