//! The PID of a process is its own, also in a child that runs no handlers of `fork`.

#![allow(unsafe_code)] // children that run no handlers are made by system calls
use nix::libc;
use thalweg_store::pid;

/// What the child finds, as its exit status.
fn found_in(child: libc::pid_t) -> i32 {
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        let own = pid() == std::process::id() && pid() == std::process::id();
        // SAFETY: ends the child at once, without what the test's process would do at its end.
        unsafe { libc::_exit(i32::from(!own)) }
    }
    let mut status = -1;
    // SAFETY: `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    libc::WEXITSTATUS(status) + libc::WTERMSIG(status)
}

#[test]
fn a_child_has_its_own_pid_however_it_was_forked() {
    let parent = pid();
    assert_eq!(parent, std::process::id());
    // SAFETY: the child only makes system calls, and ends.
    assert_eq!(found_in(unsafe { libc::fork() }), 0, "fork");
    // SAFETY: as above; no handlers run.
    #[cfg(target_os = "linux")]
    assert_eq!(
        found_in(unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as libc::pid_t),
        0,
        "clone"
    );
    assert_eq!(pid(), parent);
}
