//! Tests that share a process, so that one program is linked for all of them. A test that sets what belongs to the process (variables of
//! the environment, limits, an allocator, who hears warnings) is a program of its own, beside this folder.

#[path = "../servers/mod.rs"]
mod servers;

mod checking;
mod lock_table;
mod locks;
mod status;
