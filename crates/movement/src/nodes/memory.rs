//! Memory that the ranks of a node share, for what goes to a rank that writes or passes on: whoever is on its node puts bytes
//! where they are written from, and a message only tells of them.
//!
//! | question | answer |
//! |---|---|
//! | whose memory | the taking rank's: it holds as much for others as it would of messages, the others hold nothing |
//! | how long | making it is slow, so it is kept between outputs ([`crate::output_file::cache::Cache`]); [`crate::nodes::of`] sees that all ranks kept the same |
//! | where it cannot be had | bytes travel in messages, as between nodes |
//! | when bytes may be put | where the writing rank has said so, and not after a wait for them ended in an error |

use crate::buffer::Reservation;
use crate::output_file::memory::Memory;
use std::collections::HashMap;
use thalweg_comm::SharedWindow;
use thalweg_types::{Error, ErrorKind, Result};

/// What is kept between outputs, by rank and size of the communicator.
pub type NodeMemories = HashMap<(u32, u32), NodeMemory>;

impl Memory for NodeMemories {}

/// See the room's page.
pub struct NodeMemory {
    /// A number that all ranks got together with it.
    pub(super) id: u64,
    /// Bytes of this rank's part.
    pub(super) own: u64,
    /// `None` where it could not be had: there is no use in trying again.
    window: Option<Box<dyn SharedWindow>>,
    /// By rank of the communicator: this rank's node or another, and the rank in the window.
    places: Vec<Option<u32>>,
    /// This rank's part counts in the buffer for as long as it is there.
    _held: Option<Reservation>,
}

impl NodeMemory {
    /// - `nodes`: by rank of the communicator, a number for its node; `rank`: this one; `held`: the bytes of its part.
    pub(crate) fn new(
        id: u64,
        own: u64,
        window: Option<Box<dyn SharedWindow>>,
        nodes: &[u32],
        rank: u32,
        held: Option<Reservation>,
    ) -> NodeMemory {
        let mine = nodes.get(rank as usize);
        let mut next = 0..;
        // Ranks of a node are in the order of the communicator.
        let place = |node: &u32| if Some(node) == mine { next.next() } else { None };
        NodeMemory { id, own, window, places: nodes.iter().map(place).collect(), _held: held }
    }

    fn place(&self, rank: u32) -> Option<(&dyn SharedWindow, u32)> {
        Some((self.window.as_deref()?, (*self.places.get(rank as usize)?)?))
    }

    /// Whether bytes for `rank` can be put here.
    pub fn reaches(&self, rank: u32) -> bool {
        self.place(rank).is_some()
    }

    /// Puts bytes into the part of `rank`.
    ///
    /// # Errors
    /// `OutOfBounds` where they leave it; `InvalidArgument` where it is on another node.
    pub fn put(&self, rank: u32, offset: u64, bytes: &[u8]) -> Result<()> {
        let elsewhere = || Error::new(ErrorKind::InvalidArgument, format!("rank {rank} is on another node"));
        let (window, place) = self.place(rank).ok_or_else(elsewhere)?;
        window.put(place, offset, bytes)
    }

    /// Bytes of this rank's part. Nobody may put there meanwhile.
    ///
    /// # Errors
    /// `OutOfBounds` where they leave it; what `with` returns.
    pub fn show<T>(&self, offset: u64, length: u64, with: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let none = || Error::new(ErrorKind::InvalidArgument, "there is no memory that ranks share");
        let window = self.window.as_deref().ok_or_else(none)?;
        let (mut with, mut outcome) = (Some(with), None);
        window.show(offset, length, &mut |bytes| outcome = with.take().map(|with| with(bytes)))?;
        outcome.unwrap_or_else(|| Err(none()))
    }
}
