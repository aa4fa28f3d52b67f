//! Waits and sends of a communicator, recorded.
//!
//! Calls that all ranks make are *meetings*, counted in their order, which is the same on all ranks: whoever comes last to
//! one keeps the others waiting. Communicators and windows made from this one are recorded too, in whatever output they are
//! used, but their meetings are not counted, as only some ranks may be in them.

use crate::Phase;
use crate::recorder::{Recorder, Running, span};
use std::sync::Arc;
use thalweg_comm::watched::{Collective, MessageCall, Watch};
use thalweg_comm::{Communicator, Message};
use thalweg_types::mutex::Mutex;

/// See the module's page.
pub struct Recorded {
    /// Of the communicator that has the ranks of the output, in their order.
    meetings: Option<Arc<Recorder>>,
    left: Left,
}

/// The ranks that are left where some were lost, among themselves.
pub type Left = Arc<Mutex<Option<Box<dyn Communicator>>>>;

impl Recorded {
    /// Of the communicator of an output.
    ///
    /// - `left`: set once ranks are lost and the others go on.
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
            // Its bytes were counted when it began.
            MessageCall::WaitForSend { to } => self.between(Phase::Send, Some(to), 0),
            MessageCall::Receive { from, .. } | MessageCall::WaitForMessage { from } => {
                self.between(Phase::Wait, from, 0)
            }
            MessageCall::StartReceive { .. } | MessageCall::Probe => return None,
            MessageCall::Put { bytes } => span(Phase::Send, bytes),
            // Not all ranks come to these.
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
        // For the profile, at the end of close; all that are left come by here.
        *self.left.lock() = survivors.duplicate().ok();
        self.of_a_part()
    }
}
