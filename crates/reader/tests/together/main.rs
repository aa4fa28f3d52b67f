//! Tests that share a process, so that one program is linked for all of them. A test that sets what belongs to the process (variables of
//! the environment, limits, an allocator, who hears warnings) is a program of its own, beside this folder.

#[path = "../writer/mod.rs"]
mod writer;

mod batches;
mod costs;
mod damage;
mod far;
mod first_time_index;
mod following;
mod foreign_files;
mod found;
mod growing_files;
mod hostile;
mod index_files;
mod recover_every_state;
mod selections;
mod series;
mod shortened;
mod sparse;
mod subfiles;
mod time_dimension;
mod transformed;
