//! Tests that share a process, so that one program is linked for all of them. A test that sets what belongs to the process (variables of
//! the environment, limits, an allocator, who hears warnings) is a program of its own, beside this folder.

#[path = "../support/mod.rs"]
mod support;

mod beside_a_writer;
mod checks_and_repairs;
mod claims_are_bounded;
mod copies;
mod damage;
mod diff_compares;
mod drain_moves;
mod dump_prints;
mod env_lists;
mod errors_are_listed;
mod every_fixture_prints_its_values;
mod find_searches;
mod generates_calls;
mod guide_is_run;
mod help_prints_parameters;
mod help_reads_well;
mod hostile_names;
mod lint_and_pipes;
mod ls_lists;
mod mount_status_shows;
mod mount_tables_are_found;
mod other_formats;
mod plot_draws;
mod profile_shows;
mod serves;
mod several_files;
mod stat_counts;
mod trigger_lists;
mod tune_tunes;
mod urls_are_read;
mod view_shows;
mod warnings_of_the_command;
mod watch_follows;
