//! Tests that share a process, so that one program is linked for all of them. A test that sets what belongs to the process (variables of
//! the environment, limits, an allocator, who hears warnings) is a program of its own, beside this folder.

mod dead_copies;
mod index_ahead;
mod live_index;
mod panics;
mod stale_spills;
mod writes_in_turns;
