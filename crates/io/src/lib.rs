//! The programming interface of Thalweg, and the first page of its documentation: from here to every other crate.
//!
//! A program describes its output once, as *groups* of named variables, in XML or in code, and chooses a *method* and a *layout* by
//! name. A [`Session`] holds the description. Each [`Output`] that the session opens is one *step*: variables are written, `close`
//! commits the step on all ranks. A [`Reader`](thalweg_reader::Reader) opens the file by its index and reads any part of it.
//!
//! | you want to ... | crate, type |
//! |---|---|
//! | write steps of a group, alone or with all ranks | [`Session`], [`Output`]; a block with its box or memory selection: [`WriteRequest`] |
//! | describe groups, variables, attributes and methods | [`thalweg_schema`]: XML by [`xml::parse`](thalweg_schema::xml::parse), code by [`GroupBuilder`](thalweg_schema::declare::GroupBuilder) |
//! | read variables, blocks, boxes and points | [`thalweg_reader::Reader`]; with the names of a group, to restart: [`Input`] |
//! | follow a file that a program still writes | [`thalweg_reader::Follower`] |
//! | check a file, or repair it after a crash | [`thalweg_reader::verify()`], [`thalweg_reader::recover()`] |
//! | find the places where values meet a condition | [`thalweg_query`](../thalweg_query/index.html): `Query`, `Evaluation` |
//! | give ranks a communicator | [`thalweg_comm::Communicator`]: [`alone`](thalweg_comm::alone), [`threads`](thalweg_comm::threads); MPI: [`thalweg_comm_mpi`](../thalweg_comm_mpi/index.html) |
//! | choose how bytes travel to files, or add a method | [`registry`]; [`thalweg_movement::Method`] |
//! | choose how a file lies on stores, or add a layout | [`mounts`]; [`thalweg_layout::Layout`] |
//! | keep bytes elsewhere, or add a store | [`thalweg_store::Store`]; HDFS, S3 and others: [`thalweg_store_object`](../thalweg_store_object/index.html) |
//! | compress or transform blocks, or add a transform | [`transform`]; [`thalweg_transform`] |
//! | read or write the bytes of the format | [`thalweg_bp`] |
//! | open one file on many ranks, its index shared | [`thalweg_collective_open`](../thalweg_collective_open/index.html) |
//! | see what each rank did in an output | [`thalweg_profile`] |
//! | show the mistakes in a configuration | [`thalweg_diagnostics::Report`] |
//! | receive the library's warnings | [`thalweg_warnings::hear`] |
//! | understand a failure | [`thalweg_types::Error`], [`thalweg_types::ErrorKind`] |
//!
//! All crates and their dependencies: `ARCHITECTURE.md`. The words: `GLOSSARY.md`. Step-by-step recipes: `docs/recipes`.
//!
//! # Rooms of this crate
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`session`] | configuration, buffer and open files of a process, from init to finalize |
//! | [`output`] | open, group size, write, close |
//! | [`input`] | mode `r`: the group's variables read back |
//! | [`resolve`] | the dimensions of a write as numbers |
//! | [`transform`] | checks of the transforms that variables name |
//! | [`consistency`] | `consistency=full`: ranks compare what they open and write |
//! | `boxes` | the boxes that an output holds; the last value of each counts |
//! | `joined` | joined arrays: blocks whose offset is assigned at close |
//! | `ending` | the close of an output by its methods, one after the other |
//! | `opening` | the open of an output by its methods, now or behind outputs in flight |
//! | [`in_flight`] | outputs that end after `close` has returned: their order, and how failures are reported |
//! | [`hdf5`] | methods `PHDF5` and `NC4`: outputs as HDF5 and netCDF-4 files |
//! | [`socket`] | method `SOCKET`: planes of the arrays for viewers, while the program runs |
//! | [`vtk`] | method `VTK`: outputs as files of VTK and a series of them |
//! | [`whole_arrays`] | what methods share in whose files each array is whole |
//! | `show` | views that a session makes of files which it has closed for good |
//! | [`staging`] | method `STAGING`: outputs that a server takes over |
//! | [`steering`] | what is written, and how often, changed while the program runs |
//! | [`registry`] | the one table of methods, and the checks that need it |
//! | [`mounts`] | the tables of stores and layouts; the mount table of the process |
//! | [`parameters`] | every parameter, for the help and the guide |
//!
//! # Example
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
pub mod hdf5;
pub mod in_flight;
pub mod input;
mod joined;
pub mod mounts;
mod opening;
pub mod output;
pub mod parameters;
pub mod registry;
pub mod resolve;
pub mod session;
mod show;
pub mod socket;
pub mod staging;
pub mod steering;
pub mod transform;
pub mod vtk;
pub mod whole_arrays;

pub use in_flight::PendingOutput;
pub use input::Input;
pub use output::{BlockBox, Output, Resolved, Values, VariableKey, WriteRequest};
pub use session::Session;
pub use thalweg_movement::{BlockMemory, Closed, Mode};
