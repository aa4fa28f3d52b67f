//! The meeting of processes in a folder.
//!
//! A connection begins with a greeting of each side: 8 bytes `THALWEG1`, rank, number of ranks and process (4 bytes each). Connections of
//! other users are refused.

use crate::ProcessCommunicator;
use crate::mesh::{self, Mesh};
use rustix::net::sockopt::socket_peercred;
use std::fs;
use std::io::{ErrorKind as IoKind, IoSlice, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_comm::DEFAULT_TIMEOUT;
use thalweg_types::{Error, ErrorKind, Result};

const MAGIC: &[u8; 8] = b"THALWEG1";
const GREETING: usize = 20;
/// Pause between attempts to connect or accept.
const PAUSE: Duration = Duration::from_millis(2);
/// Longest wait for the greeting of a process that has connected.
const GREETING_TIME: Duration = Duration::from_secs(5);

/// A meeting of processes. See the crate's page.
#[derive(Debug, Clone)]
pub struct Rendezvous {
    folder: PathBuf,
    rank: u32,
    size: u32,
    within: Duration,
    timeout: Duration,
}

impl Rendezvous {
    /// In `folder`, which exists and only this user may write to; this process is rank `rank` of `size`.
    pub fn new(folder: impl Into<PathBuf>, rank: u32, size: u32) -> Rendezvous {
        let folder = folder.into();
        Rendezvous { folder, rank, size, within: Duration::from_secs(60), timeout: DEFAULT_TIMEOUT }
    }

    /// Longest wait for the other processes; 60 seconds if not set.
    pub fn within(self, within: Duration) -> Rendezvous {
        Rendezvous { within, ..self }
    }

    /// [`thalweg_comm::Communicator::timeout`] of the communicator; 10 minutes if not set.
    pub fn timeout(self, timeout: Duration) -> Rendezvous {
        Rendezvous { timeout, ..self }
    }

    /// Meets the other processes.
    ///
    /// # Errors
    /// `InvalidArgument` for a rank out of range, or other processes that expect another number of ranks; `AlreadyExists` if another
    /// process has this rank; `Timeout` names the ranks that did not come; `PermissionDenied` for a process of another user; errors of
    /// the folder.
    /// # Cost
    /// One connection to each other process.
    pub fn join(&self) -> Result<ProcessCommunicator> {
        let Rendezvous { rank, size, .. } = *self;
        if rank >= size {
            return Err(Error::new(ErrorKind::InvalidArgument, format!("rank {rank} of {size} processes")));
        }
        let deadline = Instant::now() + self.within;
        let mut streams: Vec<Option<(UnixStream, u32)>> = (0..size).map(|_| None).collect();
        // An open folder has a short name, whatever its path is: the system takes about 100 bytes.
        let open = fs::File::open(&self.folder)
            .map_err(|e| Error::io("cannot open the rendezvous folder", e).in_object(self.name()))?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        let listener = if rank + 1 < size { Some(self.listen(&short)?) } else { None };
        let met = (0..rank).try_for_each(|lower| {
            streams[lower as usize] = Some(self.connect(&short, lower, deadline)?);
            Ok(())
        });
        let met = met.and_then(|()| match &listener {
            Some(listener) => self.accept(listener, &mut streams, deadline),
            None => Ok(()),
        });
        if listener.is_some() {
            // The name is of no use any more; an error leaves a socket that nobody answers.
            _ = fs::remove_file(short.join(name_of(rank)));
        }
        met.map_err(|e| e.at_rank(rank).in_object(self.name()))?;
        let mesh = Arc::new(Mesh::new(rank, self.folder.clone(), streams)?);
        Ok(ProcessCommunicator::first(mesh, self.timeout))
    }

    fn name(&self) -> String {
        self.folder.display().to_string()
    }

    fn listen(&self, folder: &Path) -> Result<UnixListener> {
        let path = folder.join(name_of(self.rank));
        let about = |e| Error::io("cannot make the socket of this rank", e).at_rank(self.rank).in_object(self.name());
        let listener = match UnixListener::bind(&path) {
            Err(e) if e.kind() == IoKind::AddrInUse => {
                if UnixStream::connect(&path).is_ok() {
                    let what = format!("another process waits there as rank {}", self.rank);
                    return Err(Error::new(ErrorKind::AlreadyExists, what).at_rank(self.rank).in_object(self.name()));
                }
                // Of an earlier run that ended.
                fs::remove_file(&path).map_err(about)?;
                UnixListener::bind(&path).map_err(about)?
            }
            bound => bound.map_err(about)?,
        };
        listener.set_nonblocking(true).map_err(about)?;
        Ok(listener)
    }

    fn connect(&self, folder: &Path, to: u32, deadline: Instant) -> Result<(UnixStream, u32)> {
        loop {
            match UnixStream::connect(folder.join(name_of(to))) {
                Ok(stream) => match self.greet(stream) {
                    Ok((rank, process, stream)) if rank == to => return Ok((stream, process)),
                    Ok((rank, ..)) => {
                        let what = format!("a process of rank {rank} answers for rank {to}");
                        return Err(Error::new(ErrorKind::InvalidArgument, what));
                    }
                    // It ended meanwhile; another one may come.
                    Err(e) if e.kind() == ErrorKind::PeerLost => {}
                    Err(e) => return Err(e),
                },
                // Not there yet, of an earlier run, or busy.
                Err(e) if matches!(e.kind(), IoKind::NotFound | IoKind::ConnectionRefused | IoKind::WouldBlock) => {}
                Err(e) => return Err(Error::io(format!("cannot connect to rank {to}"), e)),
            }
            if Instant::now() >= deadline {
                return Err(Error::new(ErrorKind::Timeout, format!("rank {to} did not come within {:?}", self.within)));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn accept(
        &self,
        listener: &UnixListener,
        streams: &mut [Option<(UnixStream, u32)>],
        deadline: Instant,
    ) -> Result<()> {
        let higher = self.rank as usize + 1..self.size as usize;
        while streams[higher.clone()].iter().any(Option::is_none) {
            match listener.accept() {
                Ok((stream, _)) => match self.greet(stream) {
                    Ok((rank, process, stream)) => match streams.get_mut(rank as usize) {
                        Some(place @ None) if rank > self.rank => *place = Some((stream, process)),
                        _ => {
                            let what = format!("a second process is rank {rank}");
                            return Err(Error::new(ErrorKind::AlreadyExists, what));
                        }
                    },
                    // Such as a second process that looks whether this one is here; and strangers.
                    Err(e)
                        if matches!(
                            e.kind(),
                            ErrorKind::PeerLost | ErrorKind::PermissionDenied | ErrorKind::Corrupt
                        ) => {}
                    Err(e) => return Err(e),
                },
                Err(e) if e.kind() == IoKind::WouldBlock || e.kind() == IoKind::Interrupted => {
                    if Instant::now() >= deadline {
                        let missing: Vec<String> = higher
                            .filter(|rank| streams[*rank].is_none())
                            .take(8)
                            .map(|rank| rank.to_string())
                            .collect();
                        let what = format!("ranks {} did not come within {:?}", missing.join(", "), self.within);
                        return Err(Error::new(ErrorKind::Timeout, what));
                    }
                    std::thread::sleep(PAUSE);
                }
                Err(e) => return Err(Error::io("cannot accept a connection", e)),
            }
        }
        Ok(())
    }

    /// Exchanges greetings: rank and process of the other side.
    fn greet(&self, mut stream: UnixStream) -> Result<(u32, u32, UnixStream)> {
        let gone =
            |e: std::io::Error| Error::new(ErrorKind::PeerLost, "a process ended while it was greeted").caused_by(e);
        let credentials = socket_peercred(&stream).map_err(|e| gone(e.into()))?;
        if credentials.uid != rustix::process::geteuid() {
            let what = format!("a process of user {} has connected", credentials.uid.as_raw());
            return Err(Error::new(ErrorKind::PermissionDenied, what));
        }
        stream.set_nonblocking(false).map_err(gone)?;
        stream.set_read_timeout(Some(GREETING_TIME)).map_err(gone)?;
        let mut own = [0; GREETING];
        own[..8].copy_from_slice(MAGIC);
        for (at, number) in [(8, self.rank), (12, self.size), (16, std::process::id())] {
            own[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        // So few bytes are sent as a whole.
        let sent = mesh::send(&stream, &[IoSlice::new(&own)]).map_err(|e| gone(e.into()))?;
        if sent < GREETING {
            return Err(gone(IoKind::WriteZero.into()));
        }
        let mut other = [0; GREETING];
        stream.read_exact(&mut other).map_err(gone)?;
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| other[at + i]));
        let (rank, size, process) = (number(8), number(12), number(16));
        if other[..8] != *MAGIC {
            return Err(Error::new(ErrorKind::Corrupt, "the greeting of a process is not one of this library"));
        }
        if size != self.size {
            let what = format!("process {process} expects {size} processes, this one {}", self.size);
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        Ok((rank, process, stream))
    }
}

fn name_of(rank: u32) -> String {
    format!("rank.{rank}")
}
