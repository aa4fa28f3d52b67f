//! HDF5 files.
//!
//! | room | what it owns |
//! |---|---|
//! | [`writing`] | files from plans |
//! | [`reading`] | files as sources |
//! | [`output`] | files that a running program writes |

pub mod output;
pub mod reading;
pub mod writing;
