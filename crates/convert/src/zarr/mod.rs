//! Zarr, version 3; version 2 is read too.
//!
//! | room | what it owns |
//! |---|---|
//! | [`names`] | types and attributes in Zarr's JSON; pure |
//! | `blosc` | the codec of this name |
//! | [`writing`] | folders from BP files |
//! | [`reading`] | folders as sources |

mod blosc;
pub mod names;
pub mod reading;
pub mod writing;
