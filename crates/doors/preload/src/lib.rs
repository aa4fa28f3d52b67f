//! The preload door: programs that are not changed open files under mounts.
