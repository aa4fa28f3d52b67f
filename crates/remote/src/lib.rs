//! A layout that another process serves: for doors that must not run the runtime that a mount's stores need. Programs of
//! the preload door use such mounts through a daemon of their own user on the same machine.
//!
//! | question | answer |
//! |----------|--------|
//! | transport | a [`transport`]: Unix sockets of one machine, TCP between machines; the protocol does not depend on them |
//! | handles  | belong to a process's session and are closed when its last connection ends, for any reason |
//! | visibility | other programs of the same daemon see bytes once they were sent: at the latest when the writer closes or syncs the file |
//! | writes   | contiguous writes are buffered: see [`client::buffer`] |
//! | the daemon ends | every call fails; files that were open stay lost, others work once a daemon runs again |
//! | fork     | the child reopens files by name for each use; see [`client`] |
//! | received bytes | are not trusted: see [`message`] |
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`message`] | the messages |
//! | [`channel`] | sending and receiving messages |
//! | [`transport`] | connections |
//! | [`server`] | the daemon's side |
//! | [`client`] | the program's side |
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

pub mod channel;
pub mod client;
pub mod message;
pub mod server;
pub mod transport;

pub use client::Remote;
pub use server::{ConnectionStatus, Connections, Served, Traffic, serve, serve_among};
pub use transport::unix::{VARIABLE, default_socket, server_of};
