//! Outputs that programs hand over: held in the memory of one server, and written from there to a storage of their own, in order.
//!
//! The files are those of the storage, not of the partition: readers and other programs open them there once they are stored, and
//! through the server at once. [`thalweg_layout::write_behind`] says what holds and when.

use super::draining::{Meter, Outlook};
use super::services::{Launch, Services, ServicesStatus};
use std::sync::Arc;
use std::time::Instant;
use thalweg_layout::Layout;
use thalweg_layout::write_behind::{Promise, WriteBehind};
use thalweg_types::Result;
use thalweg_types::mutex::Mutex;

/// The server that takes outputs over.
pub const SERVER: u32 = 0;

/// Prefix of the staged files, by what a close promises.
pub fn prefix(promise: Promise) -> &'static str {
    match promise {
        Promise::Held => "/held",
        Promise::Stored => "/stored",
    }
}

/// Where staged files are stored, and how much is held.
pub struct Staging {
    /// The layout of the files.
    pub storage: Arc<dyn Layout>,
    /// Most bytes that are held.
    pub memory: u64,
    /// Starts the services of files; `None`: there are none.
    pub launch: Option<Launch>,
}

/// What a server has staged.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Staged {
    /// Bytes that are held and not stored.
    pub held: u64,
    /// Most bytes that are held.
    pub limit: u64,
    /// Writes that are not stored.
    pub queued: u64,
    /// Bytes that were stored.
    pub stored: u64,
    /// Writes that could not be stored.
    pub failures: u64,
    /// The last of these.
    pub last_failure: Option<String>,
    /// Data services of files, those that run and the last ones that have ended.
    #[serde(default)]
    pub services: Vec<ServicesStatus>,
}

/// The server's part that takes outputs over.
#[derive(Clone)]
pub(super) struct Taking {
    files: WriteBehind,
    pub(super) services: Services,
    measured: Arc<Measured>,
}

/// How fast staged bytes are stored.
#[derive(Default)]
struct Measured {
    meter: Meter,
    /// Time and bytes stored of the last look, if bytes were held then.
    last: Mutex<Option<(Instant, u64)>>,
}

impl Taking {
    pub(super) fn begin(staging: &Staging) -> Result<Taking> {
        let files = WriteBehind::new(staging.storage.clone(), staging.memory)?;
        let services = Services::new(staging.launch.clone());
        Ok(Taking { files, services, measured: Arc::default() })
    }

    /// The files, as clients see them.
    pub(super) fn files(&self, promise: Promise) -> Arc<dyn Layout> {
        Arc::new(self.files.promising(promise))
    }

    pub(super) fn staged(&self) -> Staged {
        let counts = self.files.counts();
        Staged {
            held: counts.held,
            limit: counts.limit,
            queued: counts.queued,
            stored: counts.stored,
            failures: counts.failures,
            last_failure: counts.last_failure,
            services: self.services.status(),
        }
    }

    /// What is held, and how long it takes to store it. The rate is that between calls of this function while bytes were held.
    pub(super) fn outlook(&self) -> Outlook {
        let (counts, now) = (self.files.counts(), Instant::now());
        let next = (counts.held > 0).then_some((now, counts.stored));
        let last = std::mem::replace(&mut *self.measured.last.lock(), next);
        if let Some((since, stored)) = last {
            self.measured.meter.add(counts.stored.saturating_sub(stored), now.saturating_duration_since(since));
        }
        Outlook::of(counts.held, self.measured.meter.rate())
    }

    /// Waits until everything is stored.
    ///
    /// # Errors
    /// A failure that no client has been told.
    pub(super) fn drain(&self) -> Result<()> {
        self.files.drain()
    }
}
