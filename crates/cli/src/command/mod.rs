//! One room per command.

pub mod completions;
pub mod config;
pub mod control;
pub mod convert;
pub mod copy;
pub mod diff;
pub mod drain;
pub mod dump;
pub mod find;
pub mod generate;
pub mod help;
pub mod index;
pub mod layout;
pub mod ls;
pub mod man;
pub mod mount;
pub mod partition;
pub mod profile;
pub mod recover;
pub mod run;
pub mod sim;
pub mod stat;
pub mod tune;
pub mod verify;
pub mod view;
pub mod viewers;
