//! Asking for values: predicates answered from characteristics first, values second.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`number`] | numbers compared exactly: whole ones of 64 bits and doubles, without rounding one to the other |
//! | [`operator`] | `<`, `<=`, `>`, `>=`, `==`, `!=`; an [`Answer`]: no, maybe, yes |
//! | [`facts`] | what the characteristics of one block say |
//! | [`predicate`] | predicates as text, asked of whole steps, without reading a value: `thalweg find` |
#![forbid(unsafe_code)]

pub mod facts;
pub mod number;
pub mod operator;
pub mod predicate;

pub use operator::{Answer, Operator};
