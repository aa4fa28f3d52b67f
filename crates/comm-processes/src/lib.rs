//! Communicators of processes without MPI: the processes of one machine meet in a folder and are connected by Unix sockets.
//!
//! ```no_run
//! use std::time::Duration;
//! use thalweg_comm_processes::Rendezvous;
//!
//! // In each of four processes, with its own rank:
//! let rank = 2;
//! let comm = Rendezvous::new("/tmp/run7", rank, 4).within(Duration::from_secs(60)).join().unwrap();
//! ```
//!
//! | question | answer |
//! |----------|--------|
//! | which processes | of one user on one machine; how they are started does not matter |
//! | how they meet | each rank makes a socket `rank.N` in the folder, connects to the lower ranks, and removes the socket when all higher ranks are connected; sockets of an earlier run that ended are replaced |
//! | threads | none; messages move inside calls. Any thread may call |
//! | waiting | `poll` on all connections; bounded by the timeout |
//! | loss of a rank | noticed when its process ends, which closes its connections: `PeerLost` names the rank and the process; messages that it sent before are received |
//! | `survivors` | `Unsupported` with more than one rank |
//! | memory | messages that arrive before their receive is started are kept |
//! | nodes | all ranks are on one; a shared window is a file of the folder without a name |
//!
//! | room | what it owns |
//! |------|--------------|
//! | `rendezvous` | the meeting in the folder |
//! | `mesh` | the connections of this process: frames in and out. They carry the messages of [`thalweg_comm::messages`] |
//! | `window` | memory shared by the ranks |
#![forbid(unsafe_code)]

mod mesh;
mod rendezvous;
mod window;

pub use rendezvous::Rendezvous;

/// One rank of a communicator whose ranks are processes.
pub type ProcessCommunicator = thalweg_comm::messages::MessageCommunicator<mesh::Mesh>;
