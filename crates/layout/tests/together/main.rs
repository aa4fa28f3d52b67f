//! Tests that share a process, so that one program is linked for all of them. A test that sets what belongs to the process (variables of
//! the environment, limits, an allocator, who hears warnings) is a program of its own, beside this folder.

mod burst_buffer_nodes;
mod container_check_beside;
mod every_call_fails;
mod folder_times;
mod forks;
mod full_store;
mod links;
mod long_paths;
mod needs;
mod rename_ahead;
mod small_file_check_beside;
mod small_file_compact_beside;
mod small_file_links;
mod small_file_writers;
mod small_files;
mod spread_and_packed;
mod write_behind;
mod write_times;
