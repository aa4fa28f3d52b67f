//! All mistakes in a document that a user wrote (an XML configuration, a mount table), each with its place, the expected form and
//! the nearest known name.
//!
//! | room | what it owns |
//! |------|--------------|
//! | `problem` | [`Problem`]: the fact, the expected form, the nearest known name; without a place |
//! | `report` | [`Report`]: the findings about one document, each a [`Problem`] at a [`SourceSpan`]; their text |
//!
//! Plain, for logs and pipes (every finding starts with `file:line:column`):
//!
//! ```text
//! config.xml:4:24: error: unknown type "flaot"
//!     4 |   <var name="x" type="flaot"/>
//!       |                       ^^^^^
//!   expected: byte, short, integer, long, ... double complex, string
//!   nearest known name: "float"
//! 1 error
//! ```
//!
//! The same facts are drawn with frames and colours for terminals. Later checks (method names, their parameters) add to
//! the same report: `let report = Report::new(file, text); report.error(span, Problem::new(...))`.
//!
//! This crate parses no document, so the preload door reports mistakes in a mount table without linking the XML parser.
#![forbid(unsafe_code)]

mod problem;
mod report;

pub use problem::Problem;
pub use report::{Finding, Report, SHOWN_IN_FULL, Severity, SourceSpan};
