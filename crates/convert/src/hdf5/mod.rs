//! HDF5 files.
//!
//! | room | what it owns |
//! |---|---|
//! | [`writing`] | files from plans |
//! | [`found`] | what a file has: its datasets, with names of axes and attributes |
//! | [`steps`] | which axes of a file are steps; pure |
//! | [`reading`] | files as steps of a BP file |
//! | [`comparing`] | a BP file beside an HDF5 file |

pub mod comparing;
pub mod found;
pub mod reading;
pub mod steps;
pub mod writing;
