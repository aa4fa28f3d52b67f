//! The sweep over system calls: each system call of an output, and of operations on files of a mount, fails once.
//!
//!   faults bp PATH METHOD PARAMETERS RANKS HOW FIRST COUNT
//!                                                        writes steps FIRST.. of a BP file; ranks are threads. HOW: steps, update,
//!                                                        restart, large
//!   faults file PATH OPERATION                           one operation on a file; OPERATIONS below
//!   faults methods                                       the names of the methods that write files
//!   faults judge bp FOLDER [RANKS [METHOD]]              sweeps over the methods
//!   faults judge over FOLDER [LAYOUT [METHOD]]           sweeps over the methods from one rank and from three, whose files lie on the
//!                                                        layouts
//!   faults judge read FOLDER THALWEG                     sweeps over `thalweg ls`, `verify`, `recover`, `dump`, `find` and `index`;
//!                                                        THALWEG is the command
//!   faults judge upkeep FOLDER THALWEG                   sweeps over `thalweg layout check`, `repair`, `compact` and `flatten`, and
//!                                                        `thalweg drain --once`
//!   faults judge file FOLDER [LAYOUT]                    sweeps over the layouts
//!   faults judge preload FOLDER THALWEG [LAYOUT]         sweeps over programs under `thalweg run`; THALWEG is the command
//!   faults judge fuse FOLDER THALWEG [LAYOUT]            sweeps over the process behind `thalweg mount`
//!   faults judge fuse-bp FOLDER THALWEG [LAYOUT]         the same with outputs of ours in place of programs
//!   faults check FOLDER METHOD PARAMETERS RANKS FIRST success|failure
//!                                                        FOLDER/x.bp after step FIRST was written by another program
//!   faults lost LOG FOLDER                               fails where the log of strace tells of a file that was written to and
//!                                                        could not be closed
//!
//! The worker (`bp`, `file`) says `ready PID`, waits for a line, works, and says with its exit code what became of it: 0 success,
//! 100 + the kind of the error where all ranks had the same, 3 where ranks had different ones, 101 a panic. The judge attaches `strace`
//! to it between the two, which lets the k-th call of one kind of each thread fail with an error (`EIO`, `ENOSPC`, `EDQUOT`, `ESTALE`),
//! for every k that there is.
//!
//! Through the doors the operations are those of `cp`, `dd`, `mv`, `rm`, `truncate`, `chmod`, `touch`, `mkdir`, `rmdir`, `ln`, `ls`,
//! `cat` and `readlink`, of `python3` for extended attributes (behind FUSE alone), and of `perl` where it appends and becomes another
//! program or ends without its handlers. The outcome is their exit code: any but 0 is an error. Under preload every call from the program's start fails once, so the loader's too; behind FUSE
//! those of the process that serves the mount.
//!
//! | promise | how it is checked |
//! |---|---|
//! | the outcome is success, or an error, the same kind on all ranks | the exit code; no panic, no death, no time-out |
//! | success means that the step, or the file, is there | it is read afterwards |
//! | a file that was written to and cannot be closed is no success | `strace` says which file the call was for, and what was written through it |
//! | what was closed before stays as it was | every value of every step, every byte of the other files |
//! | what reads says the same, or fails and leaves the files as they were | its output and its files, compared with those without a fault |
//! | what looks after files does it all, or fails; nothing that was closed changes, and the next time it does it all | every byte of the files |
//! | the next output goes on | one more step or operation without a fault, and `verify` |
//!
//! `THIN=N` tries the first fault of each call and error on the files of each layout or method, and each N-th after it; of calls
//! on other files as many. With `FIRST=K`, `K < N`, it begins with the fault number K, counted from 0, instead: `N` runs try all. They
//! are the same ones in each run, as far as threads share their work in the same way. The mounts of `file` come from `THALWEG_MOUNTS`. Exit
//! code of the judge: 0 where every promise was kept.
//!
//! To look for a cause: `SWEEP=TEXT` runs the sweeps whose name contains it, `ONLY=CALL:ERROR` those faults, and with `KEEP=1` what a worker
//! left when a promise was broken is copied to `NAME.CALL-K-ERROR`, with the log of strace beside it.

use std::error::Error as AnyError;
use std::path::Path;
use thalweg_io::mounts;
use thalweg_types::ErrorKind;

#[path = "faults/calls.rs"]
mod calls;
#[path = "faults/files.rs"]
mod files;
#[path = "faults/judge.rs"]
mod judge;
#[path = "faults/launch.rs"]
mod launch;
#[path = "faults/outputs.rs"]
mod outputs;
#[path = "faults/worker.rs"]
mod worker;

use files::{sweeps_file, sweeps_upkeep};
use judge::judge;
use launch::{End, Launch, lost_close};
use outputs::{Place, check_steps, methods, sweeps_bp, sweeps_bp_through, sweeps_over, sweeps_read};
use worker::{How, leave, operate, wait_for_a_line, write_bp};

type Outcome<T> = std::result::Result<T, Box<dyn AnyError>>;

/// Exit codes beside 0 and 100 + the kind of an error.
const MIXED: i32 = 3;
const PANIC: i32 = 101;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u64>().unwrap_or_else(|e| panic!("{word}: {e}"));
    match &words[..] {
        ["bp", path, method, parameters, ranks, how, first, count] => {
            wait_for_a_line();
            leave(write_bp(
                None,
                path,
                method,
                parameters,
                number(ranks) as u32,
                How::named(how),
                number(first)..number(first) + number(count),
            ));
        }
        ["file", path, operation] => {
            let layout = mounts::layout();
            wait_for_a_line();
            leave(vec![layout.and_then(|layout| operate(&*layout, path, operation))]);
        }
        ["methods"] => methods().for_each(|method| println!("{method}")),
        ["check", folder, method, parameters, ranks, first, end] => {
            let end = if *end == "success" { End::Success } else { End::Failed(ErrorKind::Io) };
            let place = Place::plain(Path::new(folder));
            let kept = check_steps(&place, method, parameters, number(ranks) as u32, number(first), end);
            if let Err(e) = kept {
                eprintln!("{e}");
                std::process::exit(1);
            }
        }
        ["lost", log, folder] => {
            let lost = lost_close(Path::new(log), Path::new(folder)).unwrap_or_else(|e| panic!("{log}: {e}"));
            if let Some(path) = lost {
                eprintln!("{path} was not closed");
                std::process::exit(1);
            }
        }
        ["judge", "bp", folder, rest @ ..] => {
            let ranks = rest.first().map_or(1, |n| number(n) as u32);
            judge(&mut sweeps_bp(Path::new(folder), ranks, rest.get(1).copied()));
        }
        ["judge", "over", folder, rest @ ..] => {
            judge(&mut sweeps_over(Path::new(folder), rest.first().copied(), &[1, 3], rest.get(1).copied()));
        }
        ["judge", "upkeep", folder, thalweg] => judge(&mut sweeps_upkeep(Path::new(folder), thalweg)),
        ["judge", "read", folder, thalweg] => judge(&mut sweeps_read(Path::new(folder), thalweg)),
        ["judge", "file", folder, rest @ ..] => {
            judge(&mut sweeps_file(Path::new(folder), rest.first().copied(), &|_| Launch::Itself));
        }
        ["judge", door @ ("preload" | "fuse" | "fuse-bp"), folder, thalweg, rest @ ..] => {
            let launch = |folder: &Path| match *door {
                "preload" => Launch::Preload { thalweg: thalweg.to_string() },
                _ => Launch::Fuse { thalweg: thalweg.to_string(), at: folder.with_extension("at") },
            };
            let sweeps = match *door {
                "fuse-bp" => sweeps_bp_through,
                _ => sweeps_file,
            };
            judge(&mut sweeps(Path::new(folder), rest.first().copied(), &launch));
        }
        _ => panic!("faults bp | file | judge: see the first page of tests/system/faults.rs"),
    }
}
