//! A layout over a Unix socket: how a door reaches mounts that another process serves. Programs that may hold no runtime of a network
//! store (those of the preload door) use such mounts through a daemon of their own user on the same machine.
//!
//! | question | answer |
//! |----------|--------|
//! | who may  | processes of the daemon's user, and root; the socket lies in a folder for that user alone, and both sides ask the kernel who the other is |
//! | where    | [`default_socket`] |
//! | handles  | belong to a process's session and are closed when its last connection ends, however it ends |
//! | order    | all programs of a daemon see each other's writes as programs on one filesystem do |
//! | a daemon that goes | every call says so; files that were open stay lost, others work once a daemon is back |
//! | fork     | the child opens files again by their names when it uses them |
//! | what comes over the socket | is not trusted: see [`message`] |
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`message`] | what is said |
//! | `channel` | messages through a socket |
//! | [`server`] | the daemon's side |
//! | [`client`] | the program's side |
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

mod channel;
pub mod client;
pub mod message;
pub mod server;

pub use client::Remote;
pub use server::{Served, serve};

/// The environment variable that names the daemon's socket.
pub const VARIABLE: &str = "THALWEG_DAEMON";

/// Where a user's daemon is looked for: what [`VARIABLE`] names, else `thalweg/daemon.sock` in `XDG_RUNTIME_DIR`, else
/// `/tmp/thalweg-UID/daemon.sock`.
pub fn default_socket() -> PathBuf {
    let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    named.unwrap_or_else(|| match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute()) {
        Some(folder) => folder.join("thalweg/daemon.sock"),
        None => PathBuf::from(format!("/tmp/thalweg-{}/daemon.sock", rustix::process::geteuid().as_raw())),
    })
}

/// The process that serves a socket; `None` where none does.
pub fn server_of(socket: &Path) -> Option<u32> {
    let channel = channel::Channel::connect(socket).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&channel.0).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}
