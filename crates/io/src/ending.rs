//! The end of an output: its methods close it one after the other. The first method that ends outputs later, and all methods after it,
//! do so after the program's close has returned.

use crate::in_flight::{Done, Work};
use crate::opening::{ActiveMethod, Ends};
use crate::session::Shared;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use thalweg_bp::process_group::Header;
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_movement::method::pending::{Ended, OwnedOutput, Pending, close_later};
use thalweg_movement::method::{CloseRequest, Finished};
use thalweg_movement::pack::{AttributeSpec, Reach, Through};
use thalweg_movement::{Closed, Method, Pack};
use thalweg_types::{Error, Result};

/// Key of the attributes that a file already contains: all methods that store write the same file.
pub(crate) fn attributes_key(stores: bool, method: &str, path: &str) -> String {
    written_key(if stores { "" } else { method }, path)
}

/// As [`ActiveMethod::key`], of a method by its first name.
pub(crate) fn written_key(method: &str, path: &str) -> String {
    format!("{method}\0{path}")
}

fn key(a: &AttributeSpec) -> String {
    format!("{}\0{}", a.path, a.name)
}

/// An output while its methods close it.
pub(crate) struct Ending {
    pub(crate) shared: Arc<Shared>,
    pub(crate) rank: u32,
    /// Those still to close it.
    pub(crate) methods: VecDeque<ActiveMethod>,
    /// On rank 0: the group's attributes.
    pub(crate) attributes: Vec<AttributeSpec>,
    /// This rank's own failure.
    pub(crate) failed: Option<Error>,
    pub(crate) finished: Vec<Finished>,
    pub(crate) outcome: Result<Closed>,
}

/// An output that its next method owns.
pub(crate) struct TakenOver {
    pending: Box<dyn Pending>,
    ending: Ending,
    about: About,
}

/// The facts about a method's file that outlive the method.
struct About {
    name: &'static str,
    stores: bool,
    path: String,
    step: u64,
    key: String,
}

impl About {
    fn of(active: &ActiveMethod) -> About {
        About {
            name: active.name,
            stores: active.stores,
            path: active.path.clone(),
            step: active.step(),
            key: attributes_key(active.stores, active.name, &active.path),
        }
    }
}

/// An output that has no method left, and its communicator.
type NoneLeft = Box<(Ending, Box<dyn Communicator>)>;

/// The places in the methods' objects for blocks that exceed the buffer.
///
/// # Errors
/// As [`ActiveMethod::through`].
pub(crate) fn through<'m>(
    methods: impl IntoIterator<Item = &'m mut ActiveMethod>,
    reach: &Reach,
) -> Result<Vec<Through<'m>>> {
    let mut to = Vec::new();
    for active in methods {
        let (object, start, header) = active.through(reach)?;
        to.push(Through { object, start, header });
    }
    Ok(to)
}

impl Ending {
    /// Closes the output by all methods before the first one that ends outputs later, if there is one.
    pub(crate) fn close_now(&mut self, comm: &dyn Communicator, pack: &mut Pack<'_>) {
        while let Some(mut active) = self.methods.pop_front() {
            if active.ends.later() {
                self.methods.push_front(active);
                return;
            }
            let failed = self.prepare(&mut active, pack);
            let about = About::of(&active);
            let close = |(mut method, header): (Box<dyn Method>, Header)| {
                method.close(CloseRequest { comm, header: &header, pack, failed })
            };
            let closed = active.into_opened().and_then(close);
            self.closed(about, closed);
        }
    }

    /// Prepares the close of one method. Returns this rank's failure, for the method; a panic is one.
    fn prepare(&mut self, active: &mut ActiveMethod, pack: &mut Pack<'_>) -> Option<Error> {
        if let Err(e) = caught("prepare the close", || {
            self.put_attributes(active, pack);
            Ok(())
        }) {
            self.failed.get_or_insert(e.at_rank(self.rank));
        }
        let mine = self.failed.take();
        if let Some(e) = &mine {
            self.failed = Some(Error::new(e.kind(), e.what()).at_rank(self.rank));
        }
        mine
    }

    /// Passes a method the attributes that its file does not contain yet (or all, if it keeps none), and the outcomes of earlier methods.
    fn put_attributes(&mut self, active: &mut ActiveMethod, pack: &mut Pack<'_>) {
        if self.rank == 0 {
            let mut written = self.shared.written.lock();
            let known = written.entry(attributes_key(active.stores, active.name, &active.path)).or_default();
            let all = active.opened().is_ok_and(|method| !method.keeps_attributes());
            let changed = |a: &&AttributeSpec| all || known.get(&key(a)) != Some(&a.value);
            let new: Vec<AttributeSpec> = self.attributes.iter().filter(changed).cloned().collect();
            for a in &new {
                known.insert(key(a), a.value.clone());
            }
            pack.set_attributes(new);
        }
        // The close reports a method that is not open.
        if let Ok(method) = active.opened() {
            method.after(&self.finished);
        }
    }

    fn closed(&mut self, about: About, closed: Result<Closed>) {
        if closed.is_err() {
            self.shared.written.lock().remove(&about.key);
        }
        self.finished.push(Finished {
            method: about.name,
            stores: about.stores,
            path: about.path,
            step: about.step,
            outcome: closed.as_ref().map(|closed| closed.bytes).map_err(|e| (e.kind(), e.to_string())),
        });
        // All methods are closed on all ranks; the caller gets the first failure.
        let before = std::mem::replace(&mut self.outcome, Ok(Closed::default()));
        self.outcome = before.and_then(|before| {
            closed.map(|closed| Closed { bytes: before.bytes.saturating_add(closed.bytes), ..before })
        });
    }

    /// Files that the methods still to close write.
    pub(crate) fn files(&self) -> Vec<String> {
        self.methods.iter().filter(|active| active.stores).map(|active| active.path.clone()).collect()
    }

    /// Copies all blocks of the pack out of the program's memory. After a failure, this rank's part of the step is lost.
    /// If the buffer limit leaves no room, waits for outputs in flight, then writes blocks through.
    pub(crate) fn own(&mut self, mut pack: Pack<'_>, timeout: Duration) -> Pack<'static> {
        let empty = pack.emptied();
        let in_flight = self.shared.in_flight.clone();
        let own = || {
            while !pack.copy_deferred() {
                if in_flight.wait_for_memory(timeout) {
                    continue;
                }
                let reach = pack.reached();
                return pack.spill(&through(&mut self.methods, &reach)?);
            }
            Ok(())
        };
        const DOING: &str = "take the blocks over";
        let owned = caught(DOING, own).and_then(|()| caught(DOING, || pack.into_owned()));
        owned.unwrap_or_else(|e| {
            self.failed.get_or_insert(e.at_rank(self.rank));
            empty
        })
    }

    /// Ends the output by all methods that are left.
    pub(crate) fn end(self, comm: Box<dyn Communicator>, pack: Pack<'static>) -> Done {
        match self.hand_over(comm, pack) {
            Ok(taken) => taken.end(),
            Err(none_left) => {
                let (ending, comm) = *none_left;
                Done { outcome: ending.outcome, comm: Some(comm) }
            }
        }
    }

    /// Hands the output to its next method, which ends it later.
    pub(crate) fn hand_over(
        mut self,
        comm: Box<dyn Communicator>,
        mut pack: Pack<'static>,
    ) -> std::result::Result<TakenOver, NoneLeft> {
        let Some(mut active) = self.methods.pop_front() else { return Err(Box::new((self, comm))) };
        let failed = self.prepare(&mut active, &mut pack);
        let (about, ends) = (About::of(&active), active.ends);
        let pending = match active.into_opened() {
            Ok((method, header)) => {
                let output = OwnedOutput { comm, header, pack, failed };
                if ends == Ends::ByItself { method.take_over(output) } else { close_later(method, output) }
            }
            Err(e) => {
                self.closed(about, Err(e));
                return Err(Box::new((self, comm)));
            }
        };
        Ok(TakenOver { pending, ending: self, about })
    }
}

impl TakenOver {
    /// Ends the output by this method and the later ones.
    fn end(self) -> Done {
        let TakenOver { pending, mut ending, about } = self;
        let Ended { outcome, output } = pending.end();
        ending.closed(about, outcome);
        let OwnedOutput { comm, mut pack, .. } = output;
        ending.close_now(&*comm, &mut pack);
        ending.end(comm, pack)
    }

    pub(crate) fn work(self) -> Work {
        Box::new(move || self.end())
    }
}
