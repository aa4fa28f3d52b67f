//! Records the waits and sends of a communicator.
//!
//! Collective calls are *meetings*, numbered in their order, which is the same on all ranks: the last rank to enter a meeting is
//! the one that the others wait for. Communicators and windows made from this one are also recorded, in the output in which they
//! are used, but their meetings are not numbered, because they may not contain all ranks.

use crate::Phase;
use crate::recorder::{Recorder, Running, span};
use std::sync::Arc;
use thalweg_comm::watched::{Collective, MessageCall, Watch};
use thalweg_comm::{Communicator, Message};
use thalweg_types::mutex::Mutex;

/// See the module's page.
pub struct Recorded {
    /// The recorder of meetings; `Some` for the communicator with all ranks of the output.
    meetings: Option<Arc<Recorder>>,
    left: Left,
}

/// A communicator of the survivors after the loss of a rank.
pub type Left = Arc<Mutex<Option<Box<dyn Communicator>>>>;

impl Recorded {
    /// The watch of an output's communicator.
    ///
    /// - `left`: set when the survivors continue after the loss of a rank.
    pub fn new(recorder: Arc<Recorder>, left: Left) -> Recorded {
        Recorded { meetings: Some(recorder), left }
    }

    fn between(&self, phase: Phase, rank: Option<u32>, bytes: u64) -> Running {
        let mut running = span(phase, bytes);
        if let (true, Some(rank)) = (self.meetings.is_some(), rank) {
            running.with(rank);
        }
        running
    }
}

impl Watch for Recorded {
    type During = Option<Running>;

    fn begins(&self, call: MessageCall) -> Option<Running> {
        Some(match call {
            MessageCall::Send { to, bytes, .. } => self.between(Phase::Send, Some(to), bytes),
            // The bytes were counted when the send was started.
            MessageCall::WaitForSend { to } => self.between(Phase::Send, Some(to), 0),
            MessageCall::Receive { from, .. } | MessageCall::WaitForMessage { from } => {
                self.between(Phase::Wait, from, 0)
            }
            MessageCall::StartReceive { .. } | MessageCall::Probe => return None,
            MessageCall::Put { bytes } => span(Phase::Send, bytes),
            // These calls are not made by all ranks.
            MessageCall::Collective { what: Collective::Survivors, .. } | MessageCall::Fence => span(Phase::Wait, 0),
            MessageCall::Collective { bytes, .. } => {
                let mut running = self.meetings.as_ref().map_or_else(|| span(Phase::Wait, 0), Recorder::meeting);
                running.bytes(bytes);
                running
            }
        })
    }

    fn came(&self, during: &mut Option<Running>, message: &Message) {
        let Some(running) = during else { return };
        running.bytes(message.bytes.len() as u64);
        if self.meetings.is_some() {
            running.with(message.from);
        }
    }

    fn of_a_part(&self) -> Recorded {
        Recorded { meetings: None, left: Left::default() }
    }

    fn of_survivors(&self, survivors: &dyn Communicator) -> Recorded {
        // For gathering the profile at the end of close; all survivors call this.
        *self.left.lock() = survivors.duplicate().ok();
        self.of_a_part()
    }
}
