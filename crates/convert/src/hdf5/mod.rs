//! HDF5 files.
//!
//! | room | what it owns |
//! |---|---|
//! | [`writing`] | files from plans |
//! | [`reading`] | files as sources |

pub mod reading;
pub mod writing;
