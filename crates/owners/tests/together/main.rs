//! Tests that share a process, so that one program is linked for all of them. A test that sets what belongs to the process (variables of
//! the environment, limits, an allocator, who hears warnings) is a program of its own, beside this folder.

#[path = "../common/mod.rs"]
mod common;

mod background;
mod failures;
mod input_windows;
mod simulated_ranks;
mod thousand_windows;
mod windows;
