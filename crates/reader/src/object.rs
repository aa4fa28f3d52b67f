//! object
