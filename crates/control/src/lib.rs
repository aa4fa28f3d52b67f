//! Steering a run: what it writes, how, and how often, changed while it runs. No file, no rank, no clock: text in, decisions out.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`settings`] | what a run writes at present, and the change of it |
//! | [`region`] | the box of global arrays that is written |
//! | [`request`] | the control file: a change that someone asks for |
//! | [`record`] | the run file: who writes, the settings in force, the answer to the last request |
//! | [`history`] | the attributes of a file that record changes |
//! | [`rules`] | changes that the values of an output ask for |
//! | [`numbering`] | numbers of outputs, and which of them are wanted |
//!
//! `thalweg_io::steering` reads and writes the files and tells the ranks; `docs/guide/steering.md` is for users,
//! `docs/decisions/0084-changes-ride-on-outputs.md` has the reasons.
#![forbid(unsafe_code)]

pub mod history;
mod lines;
pub mod numbering;
pub mod record;
pub mod region;
pub mod request;
pub mod rules;
pub mod settings;

pub use numbering::Numbering;
pub use record::{Answer, Record, Verdict};
pub use region::Region;
pub use request::Request;
pub use rules::Rules;
pub use settings::{Arrays, Change, Method, Settings, Stop};

/// The largest control file or run file that is read, in bytes.
pub const LONGEST: u64 = 1 << 20;

/// What follows the name of an output in the name of its control file.
pub const SUFFIX: &str = ".control";

/// What follows the name of a control file in the name of its run file.
pub const RUN_SUFFIX: &str = ".run";
