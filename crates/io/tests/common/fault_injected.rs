//! A rank that dies at a chosen moment: a communicator that leaves the run, and a store whose write does.

#![allow(dead_code)]

use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::tags;
use thalweg_comm::threads::ThreadCommunicator;
use thalweg_comm::watched::{Collective, MessageCall};
use thalweg_store::Store;
use thalweg_store::wrap::{Operation, StoreCall, Verdict, Watch, Wrapped};
use thalweg_types::{Error, ErrorKind};

/// When a rank dies, from the moment it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before it makes so many more collective calls and one. To gather index fragments up the tree counts as one: where a
    /// rank sends its own, and where rank 0 begins to hear.
    MessageCall(u32),
    /// The same, a moment later: what the others do without it they have done.
    CallLate(u32),
    /// Before it sends or receives so many more messages and one.
    Message(u32),
    /// Half way through its next write.
    Write,
}

struct State {
    moment: Option<Moment>,
    handle: ThreadCommunicator,
    /// Dies when its write has ended: nobody hears of a death before that.
    dying: bool,
    /// A dead process writes nothing, however long its thread goes on.
    dead: bool,
}

impl State {
    fn die(&mut self) {
        self.moment = None;
        self.dead = true;
        self.handle.leave();
    }
}

/// The life of one rank, shared by its communicators and its store.
#[derive(Clone)]
pub struct Life(Arc<Mutex<State>>);

impl Life {
    pub fn of(handle: ThreadCommunicator) -> Life {
        Life(Arc::new(Mutex::new(State { moment: None, handle, dying: false, dead: false })))
    }

    /// From now on.
    pub fn ends(&self, moment: Option<Moment>) {
        self.0.lock().unwrap().moment = moment;
    }

    /// Now.
    pub fn end(&self) {
        self.0.lock().unwrap().die();
    }

    pub fn communicator(&self) -> FaultInjected {
        let inner = self.0.lock().unwrap().handle.duplicate().unwrap();
        let rank = inner.rank();
        FaultInjected::with(inner, FaultWatch { life: self.clone(), rank })
    }

    pub fn store(&self, inner: Arc<dyn Store>) -> Wrapped<Deadly> {
        Wrapped::with(inner, Deadly(self.clone()))
    }

    fn message(&self) {
        let mut state = self.0.lock().unwrap();
        match &mut state.moment {
            Some(Moment::Message(0)) => {
                state.die();
            }
            Some(Moment::Message(n)) => *n -= 1,
            _ => {}
        }
    }

    fn call(&self) {
        let mut state = self.0.lock().unwrap();
        match &mut state.moment {
            Some(Moment::MessageCall(0)) => {
                state.die();
            }
            Some(Moment::CallLate(0)) => {
                std::thread::sleep(Duration::from_millis(50));
                state.die();
            }
            Some(Moment::MessageCall(n) | Moment::CallLate(n)) => *n -= 1,
            _ => {}
        }
    }
}

/// A store that lets its rank die in the middle of a write.
pub struct Deadly(Life);

impl Watch for Deadly {
    fn describe(&self) -> &'static str {
        "deadly"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        let mut state = self.0.0.lock().unwrap();
        if state.dead {
            return Verdict::Fail(Error::new(ErrorKind::Io, "dead"));
        }
        if operation.asked != StoreCall::Write || state.moment != Some(Moment::Write) {
            return Verdict::Pass;
        }
        (state.moment, state.dying) = (None, true);
        Verdict::FailAfter(operation.bytes / 2, Error::new(ErrorKind::Io, "died"))
    }

    fn after(&self, operation: &Operation<'_>, _: std::result::Result<u64, &Error>) {
        let mut state = self.0.0.lock().unwrap();
        if state.dying && operation.asked == StoreCall::Write {
            state.dying = false;
            state.die();
        }
    }
}

/// A communicator whose rank dies when its time has come.
pub type FaultInjected = thalweg_comm::watched::Watched<FaultWatch>;

/// One rank's life, as a communicator sees it in which that is this rank.
pub struct FaultWatch {
    life: Life,
    rank: u32,
}

impl thalweg_comm::watched::Watch for FaultWatch {
    type During = ();

    fn begins(&self, call: MessageCall) {
        use Collective::{Duplicate, SharedWindow, Split, SplitByNode};
        match call {
            MessageCall::Receive { from: Some(1), tag: tags::COMMIT } if self.rank == 0 => self.life.call(),
            MessageCall::Receive { tag: tags::COMMIT, .. } => {}
            MessageCall::Collective { what: Duplicate | Split | SplitByNode | SharedWindow, .. } => {}
            MessageCall::Send { tag: tags::COMMIT, .. } | MessageCall::Collective { .. } => self.life.call(),
            MessageCall::Send { .. } | MessageCall::Receive { .. } => self.life.message(),
            _ => {}
        }
    }

    fn of_a_part(&self) -> FaultWatch {
        FaultWatch { life: self.life.clone(), rank: self.rank }
    }

    fn of_survivors(&self, survivors: &dyn Communicator) -> FaultWatch {
        FaultWatch { rank: survivors.rank(), ..self.of_a_part() }
    }
}
