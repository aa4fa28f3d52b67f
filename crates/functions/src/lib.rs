//! Functions of users on blocks of values: called in a child process, with a time limit.
//!
//! A function gets blocks with the same box, of one or several variables, and fills a result whose type and extents are known before. It is
//! `int NAME(const thalweg_block_values *, size_t, thalweg_function_result *)` in a shared library (`thalweg.h`), or
//! `def NAME(*arrays, result, step)` in a file of Python, with NumPy arrays. Whatever it does (a crash, no end, a wrong length, output on
//! its standard streams), the caller gets an error, and goes on.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`message`] | what a caller and its child tell each other |
//! | [`caller`] | starts the child, calls, ends it when it takes too long |
//! | [`host`] | the child: functions of shared libraries |
//! | `host.py` | the child: functions of Python |
//!
//! Source: the data services of staging servers, Lofstead et al., CUG 2009 and SAND2009-7763.
#![deny(unsafe_code)]

pub mod caller;
pub mod host;
pub mod message;

pub use caller::{Caller, Function, Language};
pub use message::{Argument, Form};
