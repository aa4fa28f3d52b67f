//! Parameters: one way to declare, read, check and print them, for methods, transforms, layouts, stores, mounts, XML elements
//! and commands.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`parameter`] | [`Parameter`]: key, kind of value with bounds, default, description; declared once as a constant |
//! | [`values`] | [`Parameters`]: the `key=value` pairs of a user, read by their declarations |
//! | [`mod@size`] | bytes (`64k`, `8MiB`) and bytes per second (`200MB`) |
//! | [`mod@time`] | durations (`30s`, `100ms`) |
//! | [`mod@switch`] | `yes` and `no` in all their spellings |
//! | [`mod@nearest`] | the known name closest to a mistyped one |
//!
//! | value | accepted | `k`, `M`, `G`, `T` |
//! |---|---|---|
//! | size | `65536`, `64k`, `8MB`, `8MiB`, `1.5G`, in any letter case | powers of two, with `B`, `iB` or neither |
//! | rate | `200MB`, `200MB/s`, `190.7MiB` | powers of ten; `ki`, `Mi`, `Gi`, `Ti` powers of two |
//! | time | `30s`, `5min`, `1h 30m`; a bare number has the unit that the parameter declares | |
//! | switch | `yes` `y` `true` `on` `1`, `no` `n` `false` `off` `0`, in any letter case | |
//!
//! The parser handles untrusted text: it never panics, and an error names the parameter, the text and the expected form.
//! The default is a typed value in the declaration, so code, help and guide cannot disagree about it.
#![forbid(unsafe_code)]

pub mod nearest;
pub mod parameter;
pub mod size;
pub mod switch;
pub mod time;
pub mod values;

pub use nearest::nearest;
pub use parameter::{Default, Kind, Parameter, Value};
pub use size::{rate, size};
pub use switch::switch;
pub use time::{Unit, time};
pub use values::{Parameters, Take, pairs};
