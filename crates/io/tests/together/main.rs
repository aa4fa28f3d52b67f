//! Tests that share a process, so that one program is linked for all of them. A test that sets what belongs to the process (variables of
//! the environment, limits, an allocator, who hears warnings) is a program of its own, beside this folder.

#[path = "../common/mod.rs"]
mod common;

mod appends;
mod arrays_without_elements;
mod blocks;
mod burst_buffer_nodes;
mod commit;
mod earlier_releases;
mod error_bounds;
mod every_prefix;
mod far_steps;
mod faults;
mod file_per_output;
mod files_go_missing;
mod five_groups_apart;
mod five_optional;
mod five_reused_buffers;
mod five_sizes_at_write;
mod fortran;
mod ghost_zones;
mod in_flight;
mod index_cost;
mod joined;
mod last_value;
mod later_files;
mod lint;
mod mounts;
mod one_rank;
mod open_is_agreed;
mod partial_steps;
mod partial_steps_on_containers;
mod paths_change;
mod reads_that_fail;
mod recover_beside_a_writer;
mod restart_after;
mod restarts;
mod round_trip;
mod slashes;
mod slots;
mod staging;
mod statistics_levels;
mod steering;
mod steps_come_back;
mod sums_beside;
mod transforms;
mod trigger;
mod words_cost_no_output;
mod write_request;
