//! The end of an output: its methods close it one after the other. The first method that ends outputs later, and all methods after it,
//! do so after the program's close has returned.

use crate::in_flight::{Done, Work};
use crate::session::Shared;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_bp::process_group::Header;
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_movement::method::pending::{Ended, OwnedOutput, Pending};
use thalweg_movement::method::{CloseRequest, Finished};
use thalweg_movement::pack::{AttributeSpec, Through};
use thalweg_movement::{Closed, Method, Pack};
use thalweg_types::{Error, Result};

/// A method of an output, with its file.
pub(crate) struct ActiveMethod {
    pub(crate) method: Box<dyn Method>,
    /// It writes files.
    pub(crate) stores: bool,
    pub(crate) header: Header,
    /// The time index of step 0.
    pub(crate) first_time: u32,
    pub(crate) path: String,
}

impl ActiveMethod {
    /// The step, from 0.
    pub(crate) fn step(&self) -> u64 {
        u64::from(self.header.time_index.saturating_sub(self.first_time))
    }

    /// Key of the attributes that the method's file already contains, and of the queue of its outputs.
    pub(crate) fn key(&self) -> String {
        written_key(&*self.method, &self.path)
    }
}

/// As [`ActiveMethod::key`].
pub(crate) fn written_key(method: &dyn Method, path: &str) -> String {
    key_of(method.name(), path)
}

/// As [`ActiveMethod::key`], of a method by its first name.
pub(crate) fn key_of(method: &str, path: &str) -> String {
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
            name: active.method.name(),
            stores: active.stores,
            path: active.path.clone(),
            step: active.step(),
            key: active.key(),
        }
    }
}

/// An output that has no method left, and its communicator.
type NoneLeft = Box<(Ending, Box<dyn Communicator>)>;

impl Ending {
    /// Closes the output by all methods before the first one that ends outputs later, if there is one.
    pub(crate) fn close_now(&mut self, comm: &dyn Communicator, pack: &mut Pack<'_>) {
        while let Some(mut active) = self.methods.pop_front() {
            if active.method.ends_later() {
                self.methods.push_front(active);
                return;
            }
            let failed = self.prepare(&mut active, pack);
            let closed = active.method.close(CloseRequest { comm, header: &active.header, pack, failed });
            self.closed(About::of(&active), closed);
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

    /// Passes a method the attributes that its file does not contain yet, and the outcomes of earlier methods.
    fn put_attributes(&mut self, active: &mut ActiveMethod, pack: &mut Pack<'_>) {
        if self.rank == 0 {
            let mut written = self.shared.written.lock();
            let known = written.entry(active.key()).or_default();
            let changed = |a: &&AttributeSpec| known.get(&key(a)) != Some(&a.value);
            let new: Vec<AttributeSpec> = self.attributes.iter().filter(changed).cloned().collect();
            for a in &new {
                known.insert(key(a), a.value.clone());
            }
            pack.set_attributes(new);
        }
        active.method.after(&self.finished);
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
    pub(crate) fn own(&mut self, mut pack: Pack<'_>) -> Pack<'static> {
        let empty = pack.emptied();
        let own = || {
            if pack.copy_deferred() {
                return Ok(());
            }
            let reach = pack.reached();
            let mut to = Vec::new();
            for active in &mut self.methods {
                let (object, start) = active.method.through(&reach)?;
                to.push(Through { object, start, header: &active.header });
            }
            pack.spill(&to)
        };
        const DOING: &str = "take the blocks over";
        let owned = caught(DOING, own).and_then(|()| caught(DOING, || pack.into_owned()));
        owned.unwrap_or_else(|e| {
            self.failed.get_or_insert(e.at_rank(self.rank));
            empty
        })
    }

    /// Hands the output to its next method, which ends it later.
    pub(crate) fn hand_over(
        mut self,
        comm: Box<dyn Communicator>,
        mut pack: Pack<'static>,
    ) -> std::result::Result<TakenOver, NoneLeft> {
        let Some(mut active) = self.methods.pop_front() else { return Err(Box::new((self, comm))) };
        let failed = self.prepare(&mut active, &mut pack);
        let about = About::of(&active);
        let pending = active.method.take_over(OwnedOutput { comm, header: active.header, pack, failed });
        Ok(TakenOver { pending, ending: self, about })
    }
}

impl TakenOver {
    /// Ends the output by this method and the later ones.
    fn end(self) -> Done {
        let mut taken = self;
        loop {
            let TakenOver { pending, mut ending, about } = taken;
            let Ended { outcome, output } = pending.end();
            ending.closed(about, outcome);
            let OwnedOutput { comm, mut pack, .. } = output;
            ending.close_now(&*comm, &mut pack);
            taken = match ending.hand_over(comm, pack) {
                Ok(next) => next,
                Err(none_left) => {
                    let (ending, comm) = *none_left;
                    return Done { outcome: ending.outcome, comm: Some(comm) };
                }
            };
        }
    }

    pub(crate) fn work(self) -> Work {
        Box::new(move || self.end())
    }
}
