//! Conversions between BP and other formats.
//!
//! The command `thalweg` says what is converted, and starts the program `thalweg-convert`, which is linked with the libraries of other
//! formats: so `thalweg` itself starts on machines without them.
//!
//! | room | what it owns |
//! |---|---|
//! | [`mod@format`] | the format of a file, by its name |
//! | [`request`] | what the command asks the program for, and what the program answers |
//!
//! What is promised: each value of the target is the one that [`thalweg_reader`] or the other library reads, or the one of another type
//! that was asked for; what has no place in the target is listed with the reason, never left out in silence.
#![forbid(unsafe_code)]

pub mod format;
pub mod request;

pub use format::Format;
pub use request::{Compared, Converted, Difference, InFolder, LeftOut, Message, Request, Side, Task};
