//! Memory shared by the ranks of a node, for data to a rank that writes it or passes it on: a sender on the same node copies its
//! bytes into the receiver's part, and a message only announces them.
//!
//! | question | answer |
//! |---|---|
//! | whose memory | the receiving rank's: as many bytes as it would otherwise receive in messages; senders hold nothing |
//! | how long | allocation is slow, so the memory is kept between outputs ([`crate::output_file::cache::Cache`]); [`crate::nodes::of`] checks that all ranks kept the same |
//! | if it cannot be allocated | bytes travel in messages, as between nodes |
//! | when bytes may be put | on request of the receiving rank, and not after a wait for them ended in an error |

use crate::buffer::Reservation;
use crate::output_file::memory::Memory;
use std::collections::HashMap;
use thalweg_comm::SharedWindow;
use thalweg_types::{Error, ErrorKind, Result};

/// Shared memory kept between outputs, by rank and size of the communicator.
pub type NodeMemories = HashMap<(u32, u32), NodeMemory>;

impl Memory for NodeMemories {}

/// See the module's page.
pub struct NodeMemory {
    /// Identifies the allocation; the same on all ranks.
    pub(super) id: u64,
    /// Bytes of this rank's part.
    pub(super) own: u64,
    /// `None` if the allocation failed; it is not tried again.
    window: Option<Box<dyn SharedWindow>>,
    /// By rank of the communicator: its rank in the window; `None` for ranks of other nodes.
    places: Vec<Option<u32>>,
    /// The buffer's reservation for this rank's part.
    _reservation: Option<Reservation>,
}

impl NodeMemory {
    /// - `nodes`: node of each rank of the communicator; `rank`: this rank; `reservation`: reservation for its part.
    pub(crate) fn new(
        id: u64,
        own: u64,
        window: Option<Box<dyn SharedWindow>>,
        nodes: &[u32],
        rank: u32,
        reservation: Option<Reservation>,
    ) -> NodeMemory {
        let mine = nodes.get(rank as usize);
        let mut next = 0..;
        // Ranks of a node are in the order of the communicator.
        let place = |node: &u32| if Some(node) == mine { next.next() } else { None };
        NodeMemory { id, own, window, places: nodes.iter().map(place).collect(), _reservation: reservation }
    }

    fn place(&self, rank: u32) -> Option<(&dyn SharedWindow, u32)> {
        Some((self.window.as_deref()?, (*self.places.get(rank as usize)?)?))
    }

    /// Whether this memory has a part of `rank`.
    pub fn reaches(&self, rank: u32) -> bool {
        self.place(rank).is_some()
    }

    /// Copies bytes into the part of `rank`.
    ///
    /// # Errors
    /// `OutOfBounds` where the bytes exceed the part; `InvalidArgument` where `rank` is on another node.
    pub fn put(&self, rank: u32, offset: u64, bytes: &[u8]) -> Result<()> {
        let elsewhere = || Error::new(ErrorKind::InvalidArgument, format!("rank {rank} is on another node"));
        let (window, place) = self.place(rank).ok_or_else(elsewhere)?;
        window.put(place, offset, bytes)
    }

    /// Calls `with` with bytes of this rank's part. No rank may put bytes there meanwhile.
    ///
    /// # Errors
    /// `OutOfBounds` where the bytes exceed the part; `InvalidArgument` without shared memory; errors of `with`.
    pub fn show<T>(&self, offset: u64, length: u64, with: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let none = || Error::new(ErrorKind::InvalidArgument, "no shared memory of the ranks");
        let window = self.window.as_deref().ok_or_else(none)?;
        let (mut with, mut outcome) = (Some(with), None);
        window.show(offset, length, &mut |bytes| outcome = with.take().map(|with| with(bytes)))?;
        outcome.unwrap_or_else(|| Err(none()))
    }
}
