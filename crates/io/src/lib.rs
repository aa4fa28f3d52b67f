//! The programming interface: sessions, outputs, inputs; names in the XML become methods, layouts and stores.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`session`] | a process's configuration, buffer and kept files, from init to finalize |
//! | [`output`] | open, group size, write, close |
//! | [`input`] | mode `r`: the group's variables read back |
//! | [`resolve`] | dimensions become numbers when a write happens |
//! | [`transform`] | transforms of variables, checked |
//! | `boxes` | which boxes an output holds: the last value of each counts |
//! | `joined` | blocks that get their place at close |
//! | `ending` | the methods of an output close it, one after the other |
//! | `in_flight` | outputs that methods end later: in which order, and who hears of failures |
//! | [`registry`] | the one table of methods, and the checks that need it |
//! | [`mounts`] | the one tables of stores and layouts; the mount table of the process |
//! | [`parameters`] | every parameter there is, for help and guide |
//!
//! ```
//! use thalweg_comm::alone::Alone;
//! use thalweg_io::{Mode, Session};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("heat.bp").display().to_string();
//! let xml = r#"<adios-config><adios-group name="heat">
//!     <var name="NX" type="integer"/>
//!     <var name="t" type="double" dimensions="NX"/>
//!   </adios-group><method group="heat" method="POSIX"/></adios-config>"#;
//! let session = Session::from_xml(xml, "heat.xml", Box::new(Alone::new()))?;
//! let mut output = session.open("heat", &path, Mode::Write, Box::new(Alone::new()))?;
//! output.write_values("NX", &[3i32])?;
//! output.write_values("t", &[1.0f64, 2.0, 3.0])?;
//! output.close()?;
//! session.finalize()?;
//! # Ok::<(), thalweg_types::Error>(())
//! ```
#![forbid(unsafe_code)]

mod boxes;
pub mod consistency;
mod ending;
mod in_flight;
pub mod input;
mod joined;
pub mod mounts;
pub mod output;
pub mod parameters;
pub mod registry;
pub mod resolve;
pub mod session;
pub mod transform;

pub use input::Input;
pub use output::{BlockBox, Output, Resolved, Values, VariableKey, WriteRequest};
pub use session::Session;
pub use thalweg_movement::{Closed, Mode};
