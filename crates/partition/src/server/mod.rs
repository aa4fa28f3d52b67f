//! The servers of a partition: each one serves the stripes of its storage, one of them the names too.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`cache`] | blocks in memory |
//! | [`data`] | stripes of files, behind the cache |
//! | [`draining`] | whether everything is written in time when a server has to end |
//! | [`locks`] | locks and counters of a file |
//! | [`names`] | names and what is known of each file |
//! | [`services`] | processes that work on staged files |
//! | [`staging`] | outputs that programs hand over |
//! | `control` | what a server says about itself, and how it is ended |
//!
//! Clients reach these through the protocol of [`thalweg_remote`], under the prefixes [`DATA`], [`NAMES`], [`CONTROL`] and [`staging::prefix`].

pub mod cache;
mod control;
pub mod data;
pub mod draining;
pub mod locks;
pub mod names;
pub mod services;
pub mod staging;

use crate::registry::Entry;
use crate::striping::Striping;
use control::Control;
use data::Data;
use draining::Outlook;
use names::Names;
use staging::{Staging, Taking};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use thalweg_layout::write_behind::Promise;
use thalweg_layout::{Direct, Layout, Lease, Mount, Mounts, OpenWrite, WriterId};
use thalweg_remote::transport::Listener;
use thalweg_remote::{Connections, Served, Traffic};
use thalweg_store::Memory;
use thalweg_types::{Error, ErrorKind, Result};

pub use control::{LISTED, SERVICES, Status};

/// Prefix of the stripes.
pub const DATA: &str = "/data";
/// Prefix of the names.
pub const NAMES: &str = "/names";
/// Prefix of [`Status`].
pub const CONTROL: &str = "/control";
/// Size of a block of the cache, in bytes.
pub const BLOCK: usize = 64 << 10;

/// What a server serves.
pub struct Serve<'e> {
    /// The partition.
    pub entry: &'e Entry,
    /// The server's number.
    pub number: u32,
    /// Where its stripes lie; `None` for a server of names only.
    pub data: Option<Arc<dyn Layout>>,
    /// Where the names lie, if it has them.
    pub names: Option<Arc<dyn Layout>>,
    /// Size of its cache in bytes.
    pub cache: u64,
    /// Where it stores outputs that programs hand over, if it takes any.
    pub staging: Option<Staging>,
    /// From SIGTERM to SIGKILL: see [`draining`].
    pub kill_wait: Duration,
}

/// A running server. Dropped without [`Serving::end`], it loses what was not synced or closed.
pub struct Serving {
    served: Vec<Served>,
    connections: Arc<Connections>,
    data: Option<Data>,
    staging: Option<Taking>,
    told_to_end: Receiver<()>,
    needed: Arc<AtomicBool>,
    kill_wait: Duration,
    /// Of its storages.
    _locks: Vec<Lease>,
}

/// Compares the stamp of a storage with what belongs there; a storage that is new gets it. Takes the stamp's lock, where the storage
/// has locks: two servers of one storage would each have a cache.
fn stamp(storage: &dyn Layout, entry: &Entry, what: &str) -> Result<Option<Lease>> {
    check_stamp(storage, entry, what)?;
    let stamp = storage.open_write(&format!("{}/stamp", names::OURS), OpenWrite::Existing, WriterId(0))?;
    match stamp.lock(false) {
        Ok(Some(lock)) => Ok(Some(lock)),
        Ok(None) => {
            let what = format!("another process serves the {what} of partition {} already", entry.name);
            Err(Error::new(ErrorKind::AlreadyExists, what).in_object(storage.describe()))
        }
        Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
        Err(e) => Err(e),
    }
}

fn check_stamp(storage: &dyn Layout, entry: &Entry, what: &str) -> Result<()> {
    let path = format!("{}/stamp", names::OURS);
    let wanted = format!("TWPARTITION 1 {} {what}\n", entry.id);
    let found = match storage.open_read(&path) {
        Ok(object) => {
            let mut bytes = vec![0; usize::try_from(object.length()?).unwrap_or(usize::MAX).min(4096)];
            object.read_exact_at(0, &mut bytes)?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    let refuse = |why: String| {
        let safe = "all bytes of the partition's other storage";
        Err(Error::new(ErrorKind::Config, why).in_object(storage.describe()).safe(safe))
    };
    match found {
        Some(found) if found == wanted => Ok(()),
        Some(found) => refuse(format!("this storage belongs to another partition or server: \"{}\"", found.trim_end())),
        // Started before: an empty disk would read as files of zeros.
        None if entry.starts > 1 => refuse(format!(
            "this storage has lost its stamp: the {what} of partition {} are missing or lie elsewhere",
            entry.name
        )),
        None => {
            storage.make_folder(names::OURS)?;
            let object = storage.open_write(&path, OpenWrite::Replace, WriterId(0))?;
            object.write_at(0, &[IoSlice::new(wanted.as_bytes())])?;
            object.sync()?;
            object.close()
        }
    }
}

impl Serving {
    /// Begins to serve.
    ///
    /// - `listeners`: where clients connect.
    ///
    /// # Errors
    /// `Config` for storage that belongs to another partition or server, or has lost its stamp; `AlreadyExists` for storage that another
    /// process serves; errors of the storage.
    pub fn begin(what: &Serve<'_>, listeners: Vec<Arc<dyn Listener>>) -> Result<Serving> {
        let entry = what.entry;
        let mut mounts = Vec::new();
        let mount = |prefix: &str, layout: Arc<dyn Layout>| Mount::new(prefix, move || Ok(layout.clone()));
        let (mut data, mut locks) = (None, Vec::new());
        if let Some(storage) = &what.data {
            locks.extend(stamp(&**storage, entry, &format!("stripes of server {}", what.number))?);
            let stripes = Data::new(storage.clone(), what.cache, BLOCK, what.number, entry.servers.len() as u32);
            mounts.push(mount(DATA, Arc::new(stripes.clone())));
            data = Some(stripes);
        }
        if let Some(storage) = &what.names {
            locks.extend(stamp(&**storage, entry, "names")?);
            let striping = Striping::new(entry.stripe_size, entry.servers.len() as u32)?;
            mounts.push(mount(NAMES, Arc::new(Names::new(storage.clone(), striping)?)));
        }
        let staging = what.staging.as_ref().map(Taking::begin).transpose()?;
        for promise in [Promise::Held, Promise::Stored] {
            mounts.extend(staging.iter().map(|service| mount(staging::prefix(promise), service.files(promise))));
        }
        let (tell, told_to_end) = channel();
        let connections = Arc::new(Connections::default());
        let needed = Arc::new(AtomicBool::new(true));
        let (data_of, staging_of, of) = (data.clone(), staging.clone(), connections.clone());
        let control = Control::new(what.number, data_of, staging_of, of, what.kill_wait, tell, needed.clone());
        mounts.push(mount(CONTROL, Arc::new(control)));
        let plain = Arc::new(Direct::new(Arc::new(Memory::new()))?);
        let mounts = Arc::new(Mounts::new(mounts, plain));
        let served = listeners
            .into_iter()
            .map(|l| thalweg_remote::serve_among(mounts.clone(), l, connections.clone()))
            .collect::<Result<_>>()?;
        let kill_wait = what.kill_wait;
        Ok(Serving { served, connections, data, staging, told_to_end, needed, kill_wait, _locks: locks })
    }

    /// What the cache has done; `None` for a server of names only.
    pub fn counts(&self) -> Option<cache::Counts> {
        self.data.as_ref().map(Data::counts)
    }

    /// What failed when no client was left to be told.
    pub fn failures(&self) -> data::Failures {
        self.data.as_ref().map(Data::failures).unwrap_or_default()
    }

    /// What it has staged; `None` for a server that stages nothing.
    pub fn staged(&self) -> Option<staging::Staged> {
        self.staging.as_ref().map(Taking::staged)
    }

    /// What is not stored, and how long storing it takes.
    pub fn outlook(&self) -> Outlook {
        outlook(self.data.as_ref(), self.staging.as_ref())
    }

    /// Files that clients have open.
    pub fn open_files(&self) -> u64 {
        self.data.as_ref().map_or(0, Data::open_files)
    }

    /// Writes to the storage what is not stored, while clients go on. A failure is met again by a sync, a close or the end.
    pub fn write_back(&self) -> impl FnOnce() + Send + 'static {
        let data = self.data.clone();
        move || {
            if let Some(data) = data {
                data.write_back();
            }
        }
    }

    /// What clients have sent and received so far.
    pub fn traffic(&self) -> Traffic {
        self.connections.traffic(CONTROL)
    }

    /// Number of connections of clients, without those that ask how the server is: who watches it keeps it from no end.
    pub fn connections(&self) -> usize {
        self.served.iter().map(|served| served.connections(CONTROL)).sum()
    }

    /// Whether nobody has said that the server may end when no client is connected.
    pub fn is_needed(&self) -> bool {
        self.needed.load(Ordering::Acquire)
    }

    /// Waits until a client asks the server to end, or `time` has passed; whether one has asked.
    pub fn wait(&self, time: Duration) -> bool {
        self.told_to_end.recv_timeout(time).is_ok()
    }

    /// Ends all connections and writes everything to the storage.
    ///
    /// # Errors
    /// Errors of writing: the bytes of the files that could not be written are lost, but for those that were synced or closed.
    pub fn end(mut self) -> Result<()> {
        // What programs have handed over goes first: nobody else has it.
        let mut staged = Ok(());
        if let Some(staging) = &self.staging {
            let begun = Instant::now();
            staged = staging.drain();
            staging.services.finish(Some((self.kill_wait / 2).saturating_sub(begun.elapsed())));
        }
        self.served.clear();
        let staged = self.staging.take().map_or(Ok(()), |staging| staging.drain()).and(staged);
        self.data.take().map_or(Ok(()), |data| data.drain()).and(staged)
    }
}

/// What is not stored of stripes and of staged files.
fn outlook(data: Option<&Data>, staging: Option<&Taking>) -> Outlook {
    let data = data.map(Data::outlook).unwrap_or_default();
    data.and(staging.map(Taking::outlook).unwrap_or_default())
}
