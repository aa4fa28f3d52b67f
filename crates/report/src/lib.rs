//! Presentation of results: SVG pictures, JSON values, trace events, numbers with units. No I/O:
//! each function takes values and returns text or JSON. The command line writes both to where its user wants them.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`svg`] | SVG documents: canvas, colours, grid |
//! | [`plot`] | pictures of values: lines and planes, in characters, as SVG and as PNG |
//! | [`chart`] | line charts: series over named categories |
//! | [`timeline`] | the picture of a profile: ranks as rows, phases as colours |
//! | [`trace`] | trace events of a profile, which Perfetto and browsers read |
//! | [`json`] | values and attributes as JSON |
//! | [`csv`] | fields of comma-separated values |
//! | [`text`] | counts, steps, durations and sizes as text |
#![forbid(unsafe_code)]

pub mod chart;
pub mod csv;
pub mod json;
pub mod plot;
pub mod svg;
pub mod text;
pub mod timeline;
pub mod trace;
