//! A layout over a Unix socket: how a door reaches mounts that another process serves.
