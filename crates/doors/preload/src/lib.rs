//! The preload door: unmodified programs open files under mounts.
//!
//! | question | answer |
//! |----------|--------|
//! | how | `libthalweg-preload.so` is loaded before the C library (`LD_PRELOAD`, set by `thalweg run`); its functions of the same names handle paths and descriptors of mounts and pass other calls to the C library |
//! | paths outside all mounts | are passed to the C library after a comparison with the prefixes |
//! | files that a layout stores unchanged (`direct`, `flat` on POSIX) | are opened directly: the program gets the system's descriptor, and all calls work |
//! | other files | get a [`placeholder`]; the door handles all calls on it |
//! | stores on other machines | are reached through the daemon ([`far`]) |
//! | the door's own descriptors | have high numbers, which the program's calls skip ([`private`]) |
//! | code in the program | runs in the program's threads, within its calls; no thread, signal or runtime of ours |
//! | errors | `errno`; if the number is not specific enough, a line on standard error, once, unless `THALWEG_LOG=off` suppresses it |
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`hooks`] | the functions, by topic; listed in `crates/doors/calls.txt` |
//! | [`world`] | mounts, path resolution, the current folder |
//! | [`paths`] | the comparison that every path goes through |
//! | [`table`] | the placeholders' descriptors and their open files |
//! | [`numbers`] | sets of descriptors |
//! | [`open`] | an open file or folder |
//! | [`placeholder`] | the descriptors |
//! | [`private`] | the door's own descriptors |
//! | [`lock`] | locks between processes of one machine |
//! | [`stdio`] | streams of the C library |
//! | [`process`] | `fork`, `exec`, exit |
//! | [`border`] | entry into our code and return to the program |
//! | [`real`] | the functions behind the hooks |
// The library has no Rust callers: its documentation is for its developers.
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

/// Exit status of a process whose mount table is invalid.
pub const REFUSED: i32 = 125;

/// Run by the loader, before the program.
#[used]
#[unsafe(link_section = ".init_array")]
#[allow(unsafe_code)] // the loader's list of functions
static BEGIN: extern "C" fn() = {
    extern "C" fn begin() {
        // A panic here would kill the program without a message.
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
