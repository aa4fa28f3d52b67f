//! What a server says about itself: a file `status`; a file `services` takes requests for data services; removing the name `running` asks the server to write everything and end, removing the
//! name `needed` to end when no client is connected any more.

use super::data::Data;
use super::draining::Outlook;
use super::locks::LockStatus;
use super::staging::{Staged, Taking};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use thalweg_layout::errno::{Errno, failure};
use thalweg_layout::{Layout, OpenWrite, ReadObject, Stat, WriteObject, WriterId};
use thalweg_remote::{ConnectionStatus, Connections, Traffic};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// State of a server.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Status {
    /// Its number.
    pub number: u32,
    /// Seconds since its start.
    pub seconds: u64,
    /// Files that clients have open.
    pub files: u64,
    /// Blocks in the cache.
    pub blocks: u64,
    /// Size of a block in bytes.
    pub block: u64,
    /// Blocks that were found in the cache.
    pub hits: u64,
    /// Blocks that were not.
    pub misses: u64,
    /// What is not stored, and how long storing it takes.
    #[serde(default)]
    pub outlook: Outlook,
    /// Seconds from SIGTERM to SIGKILL.
    #[serde(default)]
    pub kill_wait: u64,
    /// Failures to write bytes of clients that had ended.
    pub failures: u64,
    /// The last of these.
    pub last_failure: Option<String>,
    /// What it has staged; `None` for a server that stages nothing.
    #[serde(default)]
    pub staging: Option<Staged>,
    /// Requests that the server has received and not answered: each has a thread of its own.
    #[serde(default)]
    pub requests: u64,
    /// Milliseconds since the oldest of them came.
    #[serde(default)]
    pub oldest_ms: u64,
    /// What clients have sent and received since the start.
    #[serde(default)]
    pub traffic: Traffic,
    /// Number of locks that clients have or wait for.
    #[serde(default)]
    pub locks: u64,
    /// The first [`LISTED`] of them, those that clients wait for first.
    #[serde(default)]
    pub first_locks: Vec<LockStatus>,
    /// Connections of clients, and what each of them waits for.
    #[serde(default)]
    pub clients: Vec<ConnectionStatus>,
}

/// The name under which programs ask for data services.
pub const SERVICES: &str = "services";

/// Most locks that a [`Status`] lists.
pub const LISTED: usize = 100;

/// A layout with the server's state.
pub(super) struct Control {
    number: u32,
    since: Instant,
    data: Option<Data>,
    staging: Option<Taking>,
    connections: Arc<Connections>,
    kill_wait: Duration,
    tell: Mutex<Sender<()>>,
    needed: Arc<AtomicBool>,
}

struct Text(Vec<u8>);

impl ReadObject for Text {
    fn length(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        let got = rest.len().min(out.len());
        out[..got].copy_from_slice(&rest[..got]);
        Ok(got)
    }
}

impl Control {
    pub(super) fn new(
        number: u32,
        data: Option<Data>,
        staging: Option<Taking>,
        connections: Arc<Connections>,
        kill_wait: Duration,
        tell: Sender<()>,
        needed: Arc<AtomicBool>,
    ) -> Control {
        let (since, tell) = (Instant::now(), Mutex::new(tell));
        Control { number, since, data, staging, connections, kill_wait, tell, needed }
    }

    fn status(&self) -> Status {
        let failures = self.data.as_ref().map(Data::failures).unwrap_or_default();
        let counts = self.data.as_ref().map(Data::counts).unwrap_or_default();
        let mut locks = self.data.as_ref().map(Data::lock_status).unwrap_or_default();
        locks.sort_by_key(|lock| lock.waits_for.is_none());
        let clients: Vec<_> = self.connections.status().into_iter().filter(|c| c.mount != super::CONTROL).collect();
        let waits = || clients.iter().filter(|client| client.waits_for.is_some());
        Status {
            number: self.number,
            seconds: self.since.elapsed().as_secs(),
            files: self.data.as_ref().map_or(0, Data::open_files),
            blocks: counts.blocks,
            block: super::BLOCK as u64,
            hits: counts.hits,
            misses: counts.misses,
            outlook: super::outlook(self.data.as_ref(), self.staging.as_ref()),
            kill_wait: self.kill_wait.as_secs(),
            failures: failures.count,
            last_failure: failures.last,
            staging: self.staging.as_ref().map(Taking::staged),
            requests: waits().count() as u64,
            oldest_ms: waits().map(|client| client.waits_ms).max().unwrap_or(0),
            traffic: self.connections.traffic(super::CONTROL),
            locks: locks.len() as u64,
            first_locks: locks.into_iter().take(LISTED).collect(),
            clients,
        }
    }
}

fn only(path: &str) -> Error {
    failure(Errno::NOENT, "find a state of the server", path)
}

impl Layout for Control {
    fn describe(&self) -> String {
        format!("state of server {}", self.number)
    }

    fn open_write(&self, path: &str, _: OpenWrite, _: WriterId) -> Result<Box<dyn WriteObject>> {
        match &self.staging {
            Some(staging) if path == SERVICES => Ok(staging.services.request()),
            _ => Err(only(path)),
        }
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        if path != "status" {
            return Err(only(path));
        }
        let text =
            toml::to_string(&self.status()).map_err(|e| Error::new(ErrorKind::InvalidArgument, e.to_string()))?;
        Ok(Box::new(Text(text.into_bytes())))
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        Err(only(path))
    }

    fn list(&self, _: &str) -> Result<Vec<String>> {
        Ok(["needed", "running", "status"].map(String::from).to_vec())
    }

    fn rename(&self, from: &str, _: &str) -> Result<()> {
        Err(only(from))
    }

    fn remove(&self, path: &str) -> Result<()> {
        match path {
            // What cannot be written is told to who asks, and the server goes on with it.
            "running" => {
                self.data.as_ref().map_or(Ok(()), Data::drain)?;
                self.staging.as_ref().map_or(Ok(()), Taking::drain)?;
                // What they are still to get is there now.
                if let Some(staging) = &self.staging {
                    staging.services.finish(None);
                }
                // A server that ends already does not listen.
                let _ = self.tell.lock().send(());
                Ok(())
            }
            "needed" => {
                self.needed.store(false, Ordering::Release);
                Ok(())
            }
            _ => Err(only(path)),
        }
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        Err(only(path))
    }

    fn sync_folder(&self, _: &str) -> Result<()> {
        Ok(())
    }
}
