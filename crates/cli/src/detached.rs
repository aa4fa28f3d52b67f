//! Commands that go on when what started them has ended: drains, servers of partitions, mounts.

/// Detaches from the session and the open descriptors of the program that started this process, but for the standard streams: others
/// may wait for the end of a pipe, as MPICH's mpiexec waits for all that have one of its ranks' sockets open. To be called before this
/// process has opened anything.
pub fn leave() {
    // Fails for the first process of a session only.
    let _ = rustix::process::setsid();
    close_descriptors();
}

/// As [`leave`], in the session of who started this process.
pub fn close_descriptors() {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let open: Vec<i32> = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        let _ = nix::unistd::close(descriptor);
    }
}
