//! Queries: conditions on values, evaluated from characteristics first and from values second.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`comparison`] | [`Query`]: variables inside selections compared with numbers, combined by AND and OR |
//! | [`evaluation`] | a query evaluated at one step: blocks that may match, an estimate, the matches in batches |
//! | `leaf` | one comparison at one step: its blocks, their characteristics, the values to read |
//! | [`condition`] | one comparison, prepared for values of one type |
//! | [`number`] | exact comparison of 64-bit integers with doubles, without rounding |
//! | [`operator`] | `<`, `<=`, `>`, `>=`, `==`, `!=`; an [`Answer`]: no, maybe, yes |
//! | [`facts`] | the characteristics of one block, comparable |
//! | [`results`] | results in pages, the box or block that contains them, values at them |
//! | [`predicate`] | predicates as text, evaluated for whole steps without reading a value: `thalweg find` |
//!
//! Blocks that certainly match, or certainly don't, are not read. Their bytes are read along only if fewer than 64 KiB of them lie
//! between two others.
#![forbid(unsafe_code)]

pub mod comparison;
pub mod condition;
pub mod evaluation;
pub mod facts;
mod leaf;
pub mod number;
pub mod operator;
pub mod predicate;
pub mod results;

pub use comparison::{Comparison, Query};
pub use condition::NonFinite;
pub use evaluation::{Batch, Candidate, Estimate, Evaluation, How};
pub use number::Number;
pub use operator::{Answer, Operator};
pub use results::{Page, ResultKind, Results, copy_values};
