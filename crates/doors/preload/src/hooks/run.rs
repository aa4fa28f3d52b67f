//! Other programs: `exec`, `posix_spawn`, `system`; exit.
#![allow(unsafe_code)] // hooks

use super::locate;
use crate::border::{Fail, Inside, Outcome, inside, set_errno, tell};
use crate::process::{before_end, before_exec, before_spawn, set_umask};
use crate::real::hooks;
use crate::world::Located;
use libc::{FILE, c_char, c_int, c_void, mode_t, pid_t};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;

type Texts = *const *const c_char;

hooks! {
    fn execve(path: *const c_char, arguments: Texts, environment: Texts) -> c_int = |real| {
        match program(path) {
            Program::AsIs => real(path, arguments, environment),
            Program::At(path) => real(path.as_ptr(), arguments, environment),
            Program::Refused => -1,
        }
    }
    fn execv(path: *const c_char, arguments: Texts) -> c_int = |real| {
        match program(path) {
            Program::AsIs => real(path, arguments),
            Program::At(path) => real(path.as_ptr(), arguments),
            Program::Refused => -1,
        }
    }
    fn execvp(path: *const c_char, arguments: Texts) -> c_int = |real| {
        match program(path) {
            Program::AsIs => real(path, arguments),
            Program::At(path) => real(path.as_ptr(), arguments),
            Program::Refused => -1,
        }
    }
    fn execvpe(path: *const c_char, arguments: Texts, environment: Texts) -> c_int = |real| {
        match program(path) {
            Program::AsIs => real(path, arguments, environment),
            Program::At(path) => real(path.as_ptr(), arguments, environment),
            Program::Refused => -1,
        }
    }
    fn fexecve(fd: c_int, arguments: Texts, environment: Texts) -> c_int = |real| {
        match before_exec() {
            Ok(()) => real(fd, arguments, environment),
            Err(fail) => refused(fail),
        }
    }
    fn execveat(folder: c_int, path: *const c_char, arguments: Texts, environment: Texts, flags: c_int) -> c_int = |real| {
        match before_exec() {
            Ok(()) => real(folder, path, arguments, environment, flags),
            Err(fail) => refused(fail),
        }
    }
    fn posix_spawn(
        pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Texts, environment: Texts,
    ) -> c_int = |real| {
        before_spawn();
        real(pid, path, actions, attributes, arguments, environment)
    }
    fn posix_spawnp(
        pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Texts, environment: Texts,
    ) -> c_int = |real| {
        before_spawn();
        real(pid, path, actions, attributes, arguments, environment)
    }
    fn posix_spawn_file_actions_addopen(actions: *mut c_void, fd: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int = |real| {
        match locate(libc::AT_FDCWD, path) {
            None => real(actions, fd, path, flags, mode),
            Some(_) => {
                tell("posix_spawn can't open files of mounts for the program that it starts");
                libc::ENOTSUP
            }
        }
    }
    fn system(command: *const c_char) -> c_int = |real| {
        before_spawn();
        real(command)
    }
    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE = |real| {
        before_spawn();
        real(command, mode)
    }
    fn umask(mask: mode_t) -> mode_t = |real| {
        if !inside() {
            set_umask(mask);
        }
        real(mask)
    }
    fn _exit|_Exit(status: c_int) -> () = |real| {
        real(before_end(status))
    }
}

/// The return value of a call that failed before it was made.
fn refused(fail: Fail) -> c_int {
    set_errno(fail.0);
    -1
}

enum Program {
    AsIs,
    /// By the underlying file of the name.
    At(CString),
    Refused,
}

/// Resolves the path of a program before it is run.
unsafe fn program(path: *const c_char) -> Program {
    // SAFETY: a text.
    let located = unsafe { locate(libc::AT_FDCWD, path) };
    if let Err(fail) = before_exec() {
        refused(fail);
        return Program::Refused;
    }
    match located {
        None | Some((_, Located::Untouched)) => Program::AsIs,
        Some((_, Located::Elsewhere(path))) => Program::At(path),
        Some((_, Located::Nowhere(fail))) => {
            set_errno(fail.0);
            Program::Refused
        }
        Some((world, Located::Ours(place))) => {
            // SAFETY: a text.
            if unsafe { !libc::strchr(path, i32::from(b'/')).is_null() } {
                let _inside = Inside::new();
                if let Ok(Some(plain)) = world.plain(&place)
                    && let Ok(plain) = CString::new(OsString::into_vec(plain.into_os_string()))
                {
                    return Program::At(plain);
                }
                let there = crate::hooks::stat::of_name(world, &place, 0);
                set_errno(there.as_ref().map_or_else(|fail| fail.0, |_| libc::EACCES));
                if there.is_ok() {
                    tell(&format!(
                        "{}: programs are not run from files of this layout; copy it to a plain file",
                        place.path
                    ));
                }
                return Program::Refused;
            }
            // A name that is searched in PATH.
            Program::AsIs
        }
    }
}

/// Functions that a hook cannot call: variadic ones, whose arguments must stay in registers and on the stack, and `vfork`,
/// which returns twice from one frame. The hook calls its preparation, then jumps to the function.
macro_rules! jumps {
    ($first:ident before $($name:ident)+) => { $(
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            /// Replaces the function, which is not called.
            extern "C" fn nowhere() -> c_int {
                -1
            }
            extern "C" fn before() -> usize {
                static REAL: crate::real::Real = match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => crate::real::Real::new(name),
                    Err(_) => panic!(),
                };
                match $first() {
                    Ok(()) => REAL.get(),
                    Err(fail) => {
                        refused(fail);
                        nowhere as *const () as usize
                    }
                }
            }
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                "call {before}",
                "mov r11, rax",
                "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                "jmp r11",
                before = sym before,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "stp x0, x1, [sp, #-80]!", "stp x2, x3, [sp, #16]", "stp x4, x5, [sp, #32]", "stp x6, x7, [sp, #48]", "str x30, [sp, #64]",
                "bl {before}",
                "mov x16, x0",
                "ldp x2, x3, [sp, #16]", "ldp x4, x5, [sp, #32]", "ldp x6, x7, [sp, #48]", "ldr x30, [sp, #64]", "ldp x0, x1, [sp], #80",
                "br x16",
                before = sym before,
            );
        }
    )+ };
}

jumps! { before_exec before execl execle execlp }
jumps! { before_vfork before vfork }

fn before_vfork() -> Outcome<()> {
    before_spawn();
    Ok(())
}
