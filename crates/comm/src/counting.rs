//! A communicator that counts calls and messages by kind, to test how often a method communicates.
//!
//! ```
//! use thalweg_comm::{Communicator, alone::Alone, counting::Counting};
//!
//! let comm = Counting::new(Box::new(Alone::new()));
//! let counts = comm.counts();
//! let before = counts.snapshot();
//! comm.barrier().unwrap();
//! assert_eq!(counts.snapshot().since(&before).barriers, 1);
//! ```
//! Communicators created from a counted one add to the same counts, so one [`Counts`] contains everything that a rank did. A call
//! is counted when it is made, whatever its result; received messages and bytes are counted on arrival.

use crate::watched::{Collective, MessageCall, Watch, Watched};
use crate::{Communicator, Message};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Debug, Default)]
        struct Counters { $($name: AtomicU64,)* }

        /// How often each kind of call was made.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Snapshot { $($(#[$doc])* pub $name: u64,)* }

        impl Counts {
            /// The counts now.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.0.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl Snapshot {
            /// The increase since an earlier snapshot.
            pub fn since(&self, earlier: &Snapshot) -> Snapshot {
                Snapshot { $($name: self.$name.wrapping_sub(earlier.$name),)* }
            }
        }
    };
}

counters! {
    /// Sends, started or blocking.
    sends,
    /// Receives, started or blocking.
    receives,
    /// Messages that came.
    received,
    /// Probes.
    probes,
    /// Barriers.
    barriers,
    /// Broadcasts.
    broadcasts,
    /// Gathers.
    gathers,
    /// Gathers to all.
    all_gathers,
    /// Scatters.
    scatters,
    /// Exchanges of all with all.
    all_to_alls,
    /// Scans.
    scans,
    /// Reductions.
    reductions,
    /// Duplicates.
    duplicates,
    /// Splits, by color or by node.
    splits,
    /// Shared windows made.
    windows,
    /// Fences of shared windows.
    fences,
    /// Gatherings of survivors.
    survivors,
    /// Bytes given to sends.
    bytes_sent,
    /// Bytes of the messages that came.
    bytes_received,
    /// Bytes put into shared windows.
    bytes_put,
}

impl Snapshot {
    /// Calls that every rank has to make, of any kind.
    pub fn collective(&self) -> u64 {
        self.barriers
            + self.broadcasts
            + self.gathers
            + self.all_gathers
            + self.scatters
            + self.all_to_alls
            + self.scans
            + self.reductions
            + self.duplicates
            + self.splits
            + self.windows
            + self.fences
            + self.survivors
    }
}

/// Shared by a counted communicator, those made from it, and whoever looks.
#[derive(Debug, Clone, Default)]
pub struct Counts(Arc<Counters>);

impl Counts {
    fn add(&self, counter: impl FnOnce(&Counters) -> &AtomicU64, count: u64) {
        counter(&self.0).fetch_add(count, Ordering::Relaxed);
    }
}

/// A communicator that counts. See the module's page.
pub type Counting = Watched<Counts>;

impl Counting {
    /// Counts the calls on `inner`, from 0.
    pub fn new(inner: Box<dyn Communicator>) -> Counting {
        Counting::with(inner, Counts::default())
    }

    /// The counts, which remain after the communicator was dropped.
    pub fn counts(&self) -> Counts {
        self.watch().clone()
    }
}

impl Watch for Counts {
    type During = ();

    fn begins(&self, call: MessageCall) {
        match call {
            MessageCall::Send { bytes, .. } => {
                self.add(|c| &c.sends, 1);
                self.add(|c| &c.bytes_sent, bytes);
            }
            MessageCall::Receive { .. } | MessageCall::StartReceive { .. } => self.add(|c| &c.receives, 1),
            MessageCall::WaitForSend { .. } | MessageCall::WaitForMessage { .. } => {}
            MessageCall::Probe => self.add(|c| &c.probes, 1),
            MessageCall::Collective { what, .. } => self.add(
                |c| match what {
                    Collective::Barrier => &c.barriers,
                    Collective::Broadcast => &c.broadcasts,
                    Collective::Gather => &c.gathers,
                    Collective::AllGather => &c.all_gathers,
                    Collective::Scatter => &c.scatters,
                    Collective::AllToAll => &c.all_to_alls,
                    Collective::ExclusiveScan => &c.scans,
                    Collective::AllReduce => &c.reductions,
                    Collective::Duplicate => &c.duplicates,
                    Collective::Split | Collective::SplitByNode => &c.splits,
                    Collective::SharedWindow => &c.windows,
                    Collective::Survivors => &c.survivors,
                },
                1,
            ),
            MessageCall::Put { bytes } => self.add(|c| &c.bytes_put, bytes),
            MessageCall::Fence => self.add(|c| &c.fences, 1),
        }
    }

    fn came(&self, (): &mut (), message: &Message) {
        self.add(|c| &c.received, 1);
        self.add(|c| &c.bytes_received, message.bytes.len() as u64);
    }

    fn of_a_part(&self) -> Counts {
        self.clone()
    }
}
