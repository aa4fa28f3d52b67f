//! A layout that another process serves: how a door reaches mounts whose stores it may hold no runtime for. Programs of the preload door
//! use such mounts through a daemon of their own user on the same machine.
//!
//! | question | answer |
//! |----------|--------|
//! | over what | a [`transport`]: Unix sockets of one machine today; the protocol knows nothing of them |
//! | handles  | belong to a process's session and are closed when its last connection ends, however it ends |
//! | order    | what one program wrote is seen by others of the same daemon once it was sent: at the latest when its writer closes or syncs the file |
//! | writes   | that go on where the last one ended are gathered: see [`client::buffer`] |
//! | a daemon that goes | every call says so; files that were open stay lost, others work once a daemon is back |
//! | fork     | the child opens files again by their names, for each use; see [`client`] |
//! | what comes over a connection | is not trusted: see [`message`] |
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`message`] | what is said |
//! | `channel` | messages through a connection |
//! | [`transport`] | connections |
//! | [`server`] | the daemon's side |
//! | [`client`] | the program's side |
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod channel;
pub mod client;
pub mod message;
pub mod server;
pub mod transport;

pub use client::Remote;
pub use server::{Served, serve};
pub use transport::unix::{VARIABLE, default_socket, server_of};
