//! Asking for values: predicates answered from characteristics first, values second.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`comparison`] | [`Query`]: variables inside selections compared with numbers, combined by AND and OR |
//! | [`evaluation`] | a query at one step: blocks that may match, an estimate, the matches in batches |
//! | `leaf` | one comparison at one step: its blocks, what they say, what must be read |
//! | [`condition`] | one comparison made ready for values of one type |
//! | [`number`] | numbers compared exactly: whole ones of 64 bits and doubles, without rounding one to the other |
//! | [`operator`] | `<`, `<=`, `>`, `>=`, `==`, `!=`; an [`Answer`]: no, maybe, yes |
//! | [`facts`] | what the characteristics of one block say |
//! | [`results`] | results in pages, what they lie in, values at them |
//! | [`predicate`] | predicates as text, asked of whole steps, without reading a value: `thalweg find` |
//!
//! A block that can't match is never looked at, and neither is one that matches as a whole. Bytes of such blocks are read
//! through only where fewer than 64 KiB of them lie between others.
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
