//! Partitions: parallel file systems that a job makes out of its nodes' storage, and the layout that their clients use.
//!
//! A file is striped over data servers, which keep blocks in a cache and write them to any layout over any store. One server also
//! has the names. Views are sent to the servers once and used there: the bytes of an access cross to each server once, without lists
//! of offsets. Source: Isaila, Garcia Blas, Carretero, Liao, Choudhary, *AHPIOS: An MPI-based ad-hoc parallel I/O system*.
//!
//! | question | answer |
//! |----------|--------|
//! | consistency | a block is cached once, at its server; clients cache nothing. Bytes are seen by all clients when a write returns. Overlapping writes at the same time are the program's fault; each byte is one of them |
//! | after a sync or close | the storages have the bytes: they survive the death of every client and of the servers |
//! | a server that ends or is killed | every call of a file that has stripes on it fails, naming the server; no byte of it reads as zero |
//! | a client that ends | its open files are closed at the servers |
//! | locks, counters | at the file's first server, for clients of all hosts; those of the system where all clients are on one host. They end with their client; those of a server that ends are known as lost |
//! | append | clients that append to one file at the same time get places behind each other, from the file's first server |
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`configuration`] | the file that describes a partition |
//! | [`registry`] | which partitions there are, and where their servers run |
//! | [`instance`] | how servers are recorded as they start and end |
//! | [`starting`] | who launches servers that do not run, and what is left where one of them fails |
//! | [`checking`] | names compared with the data that servers store |
//! | [`moving`] | the files of one partition into another one |
//! | [`striping`] | which server has which bytes |
//! | [`record`] | what is known of a file |
//! | [`client`] | the layout |
//! | [`server`] | the servers |
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod checking;
pub mod client;
pub mod configuration;
pub mod instance;
pub mod moving;
pub mod record;
pub mod registry;
pub mod server;
pub mod starting;
pub mod striping;

pub use client::Partition;
