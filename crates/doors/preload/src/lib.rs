//! The preload door: programs that are not changed open files under mounts.
//!
//! | question | answer |
//! |----------|--------|
//! | how | `libthalweg-preload.so` stands before the C library (`LD_PRELOAD`, set by `thalweg run`): its functions of the same names decide by path and by descriptor who does the work |
//! | paths under no mount | go to the C library, after a comparison with the prefixes |
//! | files that a layout lays down as they are (`direct`, `flat` on POSIX) | are opened as such: the program has the system's own descriptor, and everything works |
//! | other files | have a [`placeholder`]; all calls on it are ours |
//! | stores on other machines | are reached through the daemon ([`far`]) |
//! | descriptors that the door needs itself | lie high, where the program's calls pass them over ([`private`]) |
//! | what runs in the program | what it calls, in its own threads; no thread, no signal, no runtime of ours |
//! | errors | `errno`; where a number says too little, a line on standard error, once |
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`hooks`] | the functions, by topic; listed in `crates/doors/calls.txt` |
//! | [`world`] | mounts, where a path leads, the current folder |
//! | [`paths`] | the comparison that every path goes through |
//! | [`table`] | which descriptors are ours, and what they stand for |
//! | [`numbers`] | sets of descriptors |
//! | [`open`] | a file or folder that is open |
//! | [`placeholder`] | the descriptors |
//! | [`private`] | descriptors of the stores, kept out of the program's way |
//! | [`lock`] | locks between processes of one machine |
//! | [`stdio`] | streams of the C library |
//! | [`process`] | `fork`, `exec`, the end |
//! | [`border`] | from the program into our code and back |
//! | [`real`] | the functions behind the hooks |
// Nobody calls this library by names of Rust: its pages are for those who change it.
#![allow(rustdoc::private_intra_doc_links)]
#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

mod border;
mod far;
mod hooks;
mod lock;
mod numbers;
mod open;
mod paths;
mod placeholder;
mod private;
mod process;
mod real;
mod stdio;
mod table;
mod world;

/// How a process ends whose mount table is wrong.
pub const REFUSED: i32 = 125;

/// Run by the loader, before the program.
#[used]
#[unsafe(link_section = ".init_array")]
#[allow(unsafe_code)] // the loader's list of functions
static BEGIN: extern "C" fn() = {
    extern "C" fn begin() {
        // A program that is killed by a panic here would not know why.
        let begun = std::panic::catch_unwind(|| {
            world::begin();
            if world::current_world().is_some() {
                process::listen();
            }
        });
        if begun.is_err() {
            std::process::exit(REFUSED);
        }
    }
    begin
};
