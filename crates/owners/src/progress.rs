//! What happens inside a call of the program: messages are received and sent, stripes written, windows completed, time limits checked.

use crate::ending::{Known, Outcome, Report, Sums, decide};
use crate::file::{File, folder_of};
use crate::gather::{Gather, Write};
use crate::message::Message;
use crate::window::{Commit, Completed, Expected, Owned, Root, Stage, Window};
use std::io::IoSlice;
use thalweg_comm::guarded::caught;
use thalweg_comm::outcome::ErrorReport;
use thalweg_layout::{OpenWrite, WriteObject, WriterId};
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// Rounds of receives in one call.
const ROUNDS: usize = 32;
/// Ranks that one `Late` message names.
const NAMED: usize = 64;

impl File {
    /// One round. `disk`: whether the store may be called. Returns whether anything happened.
    pub(crate) fn serve(&mut self, disk: bool) -> bool {
        self.now.look(&*self.post.comm);
        let mut moved = self.receive();
        moved |= self.post.end_sends();
        self.pressed = false;
        moved |= self.keep_own();
        self.ask();
        moved |= self.grant();
        if disk && self.write_one() {
            moved = true;
            // The write may have taken long: rank 0 may have judged meanwhile, which counts more than who has left since.
            self.receive();
        }
        for id in self.under_way() {
            moved |= self.advance(id, disk);
            self.watch_time(id);
        }
        moved |= self.post.has_own();
        self.break_off();
        self.call_back();
        moved
    }

    fn under_way(&self) -> Vec<u64> {
        self.windows.iter().filter(|(_, window)| window.outcome.is_none()).map(|(id, _)| *id).collect()
    }

    fn receive(&mut self) -> bool {
        let mut moved = false;
        for _ in 0..ROUNDS {
            let messages = self.post.receive();
            if messages.is_empty() {
                break;
            }
            moved = true;
            for (from, (id, message)) in messages {
                self.handle(from, id, message);
            }
        }
        moved
    }

    fn send(&mut self, to: u32, window: u64, message: Message) {
        self.post.send(to, (window, message));
    }

    fn send_down(&mut self, id: u64, message: &Message) {
        let children: Vec<u32> = self.node.children.iter().map(|child| child.start).collect();
        for child in children {
            self.send(child, id, message.clone());
        }
    }

    /// Acts on a message.
    pub(crate) fn handle(&mut self, from: u32, id: u64, message: Message) {
        if id >= self.next {
            self.early.entry(id).or_default().push((from, message));
            return;
        }
        let Some(window) = self.windows.get_mut(&id).filter(|window| window.outcome.is_none()) else { return };
        match message {
            Message::Want { memory } => {
                if let Some(owned) = &mut window.owned {
                    owned.wants.push_back((from, memory));
                }
            }
            Message::Grant { memory } => self.send_data(from, id, memory),
            Message::Data { more, extents, bytes } => {
                window.clock.event();
                if let Some(owned) = &mut window.owned {
                    owned.grants.remove(&from);
                    if more > 0 {
                        owned.wants.push_back((from, more));
                    }
                    if let Err(e) = insert(&mut owned.gather, &extents, bytes) {
                        owned.fail(e);
                    }
                }
            }
            Message::Ended { fingerprint, mut sums } => {
                window.clock.event();
                if fingerprint != window.domains.fingerprint() {
                    sums.differs = sums.differs.into_iter().chain([from]).min();
                }
                window.ending.ended(from, sums);
            }
            Message::Expect { bytes } => {
                window.clock.hear();
                if let Some(owned) = &mut window.owned {
                    owned.expected = Some(bytes.map_or(Expected::WhatCame, Expected::Bytes));
                    if bytes.is_none() {
                        owned.wants.clear();
                        owned.grants.clear();
                    }
                }
            }
            Message::Report(report) => {
                window.clock.event();
                if let Some(root) = &mut window.root {
                    root.reports.insert(from, report);
                }
            }
            Message::Alive if window.root.is_some() => window.clock.event(),
            Message::Alive => {
                window.clock.hear();
                self.send_down(id, &Message::Alive);
            }
            Message::Late { ranks } => {
                if let Some(root) = &mut window.root {
                    root.waiting.insert(from);
                    root.waited_for.extend(ranks);
                }
            }
            Message::Complete(outcome) => self.complete(id, outcome),
        }
    }

    /// Sends what an owner granted.
    fn send_data(&mut self, owner: u32, id: u64, memory: u64) {
        let Some(window) = self.windows.get_mut(&id) else { return };
        let Some(number) = window.domains.number_of(owner) else { return };
        let Some(outbox) = window.outboxes.get_mut(&number) else { return };
        let before = outbox.memory();
        let taken = outbox.take(memory);
        window.queued -= before - outbox.memory();
        outbox.asked = !outbox.is_empty();
        let more = outbox.cost();
        let extents = taken.iter().map(|(offset, piece)| Extent::new(*offset, piece.len() as u64)).collect();
        let length: usize = taken.iter().map(|(_, piece)| piece.len()).sum();
        // A long piece, the usual case, is sent as it is.
        let mut pieces = taken.into_iter().map(|(_, piece)| piece);
        let mut bytes = pieces.next().unwrap_or_default();
        bytes.reserve_exact(length - bytes.len());
        pieces.for_each(|piece| bytes.extend_from_slice(&piece));
        window.clock.event();
        self.send(owner, id, Message::Data { more, extents, bytes });
    }

    /// Moves bytes of this rank's own stripes to where they are gathered.
    fn keep_own(&mut self) -> bool {
        let (portion, mut moved) = (self.portion(), false);
        for id in self.under_way() {
            loop {
                let free = self.half.saturating_sub(self.gathered());
                let Some(window) = self.windows.get_mut(&id) else { break };
                let Some(owned) = &mut window.owned else { break };
                let number = window.domains.number_of(self.node.ranks.start);
                let Some(outbox) = number.and_then(|number| window.outboxes.get_mut(&number)) else { break };
                if outbox.is_empty() {
                    break;
                }
                let needed = outbox.cost().min(portion);
                if free < needed {
                    self.pressed = true;
                    break;
                }
                let before = outbox.memory();
                let taken = outbox.take(needed);
                window.queued -= before - outbox.memory();
                for (offset, piece) in taken {
                    if let Err(e) = owned.gather.insert(offset, piece) {
                        owned.fail(e);
                    }
                }
                moved = true;
            }
        }
        moved
    }

    /// Tells owners that there is something to send.
    fn ask(&mut self) {
        let mut wants = Vec::new();
        let rank = self.rank();
        for (id, window) in &mut self.windows {
            for (number, outbox) in &mut window.outboxes {
                let owner = window.domains.owners()[*number];
                if owner != rank && !outbox.asked && !outbox.is_empty() {
                    outbox.asked = true;
                    wants.push((owner, *id, outbox.cost()));
                }
            }
        }
        for (owner, id, memory) in wants {
            self.send(owner, id, Message::Want { memory });
        }
    }

    /// Grants memory to the ranks that wait for it, in the order of their requests.
    fn grant(&mut self) -> bool {
        let portion = self.portion();
        let mut free = self.half.saturating_sub(self.gathered());
        let mut grants = Vec::new();
        for (id, window) in &mut self.windows {
            let Some(owned) = &mut window.owned else { continue };
            while let Some((rank, memory)) = owned.wants.front().copied() {
                let granted = memory.min(portion);
                if granted > free {
                    self.pressed = true;
                    break;
                }
                owned.wants.pop_front();
                owned.grants.insert(rank, granted);
                free -= granted;
                grants.push((rank, *id, granted));
            }
        }
        let moved = !grants.is_empty();
        for (rank, id, memory) in grants {
            self.send(rank, id, Message::Grant { memory });
        }
        moved
    }

    /// Writes one fraction, of the window whose turn it is.
    fn write_one(&mut self) -> bool {
        let turn = self.turn;
        let ids: Vec<u64> =
            self.windows.range(turn + 1..).chain(self.windows.range(..=turn)).map(|(id, _)| *id).collect();
        // Whole stripes first: they need no second visit.
        for hurried in [false, true] {
            for id in &ids {
                let pressed = self.pressed;
                let Some(owned) = self.windows.get_mut(id).and_then(|window| window.owned.as_mut()) else { continue };
                if hurried && !pressed && !owned.all_came() {
                    continue;
                }
                let Some(write) = owned.gather.next_write(hurried) else { continue };
                let offset = write.offset;
                let written =
                    caught("write a stripe", || self.store(&write)).map_err(|e| self.about(e).at_byte(offset));
                self.now.look(&*self.post.comm);
                if let Some(window) = self.windows.get_mut(id) {
                    window.clock.event();
                    if let Some(owned) = &mut window.owned {
                        owned.wrote = true;
                        written.unwrap_or_else(|e| owned.fail(e));
                    }
                }
                self.turn = *id;
                return true;
            }
        }
        false
    }

    /// The open file; opened by the first write of an owner.
    pub(crate) fn object(&mut self) -> Result<&dyn WriteObject> {
        if self.object.is_none() {
            let object = self.layout.open_write(&self.path, OpenWrite::Existing, WriterId(self.rank()))?;
            object.order_from(self.order);
            self.object = Some(object);
        }
        self.object.as_deref().ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "the file is not open"))
    }

    /// What this rank writes from now on comes after all writes up to this number.
    fn order_behind(&mut self, number: u64) {
        self.order = self.order.max(number.saturating_add(1));
        if let Some(object) = &self.object {
            object.order_from(self.order);
        }
    }

    fn store(&mut self, write: &Write) -> Result<()> {
        let pieces: Vec<IoSlice<'_>> = write.pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        self.object()?.write_at(write.offset, &pieces)
    }

    /// Makes what was written visible, or durable.
    fn make_safe(&mut self, durable: bool) -> Result<()> {
        let object = self.object()?;
        if durable { object.sync() } else { object.publish() }
    }

    /// The steps towards the end of a window.
    fn advance(&mut self, id: u64, disk: bool) -> bool {
        let parent = self.node.parent;
        let Some(window) = self.windows.get_mut(&id) else { return false };
        let mut moved = false;
        if window.ending.waits_for().is_empty() && !window.told_parent {
            window.told_parent = true;
            moved = true;
            let (fingerprint, sums) = (window.domains.fingerprint(), window.ending.sums());
            match parent {
                Some(parent) => self.send(parent, id, Message::Ended { fingerprint, sums }),
                None => self.ask_owners(id, Some(sums).filter(|sums| sums.differs.is_none())),
            }
        }
        if disk {
            moved |= self.report(id);
        }
        let Some(window) = self.windows.get(&id) else { return moved };
        let reported = |root: &Root| {
            root.stage != Stage::Ending && window.owners().iter().all(|(_, rank)| root.reports.contains_key(rank))
        };
        // The bytes to commit are written here.
        if disk && window.root.as_ref().is_some_and(reported) {
            self.conclude(id);
            moved = true;
        }
        moved
    }

    /// On rank 0: tells the owners how many bytes come, or without sums to end with what there is.
    fn ask_owners(&mut self, id: u64, sums: Option<Sums>) {
        let Some(window) = self.windows.get_mut(&id) else { return };
        let Some(root) = &mut window.root else { return };
        root.stage = if sums.is_some() { Stage::Writing } else { Stage::Judging };
        for (number, rank) in window.owners() {
            let bytes = sums.as_ref().map(|sums| sums.bytes.get(&number).copied().unwrap_or(0));
            self.send(rank, id, Message::Expect { bytes });
        }
    }

    /// On an owner that has written all that comes: reports to rank 0.
    fn report(&mut self, id: u64) -> bool {
        let Some(window) = self.windows.get_mut(&id) else { return false };
        let durable = window.durable;
        let Some(owned) = &mut window.owned else { return false };
        if owned.reported || !owned.all_came() || owned.gather.holds_bytes() {
            return false;
        }
        owned.reported = true;
        let (wrote, is_whole, closes) = (owned.wrote, owned.failed.is_none(), window.closes);
        let mut safe = Ok(());
        if wrote && is_whole {
            safe = caught("make written bytes safe", || self.make_safe(durable));
        }
        let order = self.object.as_ref().map_or(0, |object| object.order());
        if let Some(object) = self.object.take_if(|_| closes) {
            self.order_behind(order);
            // After a failure its own is the one that counts.
            let closed = caught("close the file", || object.close());
            safe = if is_whole { safe.and(closed) } else { safe };
        }
        if let Err(e) = safe {
            let e = self.about(e);
            if let Some(owned) = self.windows.get_mut(&id).and_then(|window| window.owned.as_mut()) {
                owned.fail(e);
            }
        }
        let Some(Owned { gather, failed, .. }) = self.windows.get(&id).and_then(|window| window.owned.as_ref()) else {
            return false;
        };
        let failure = failed.as_ref().map_or_else(Vec::new, |e| ErrorReport::of(e).encode());
        let (received, missing, repeated) = (gather.received(), gather.missing(), gather.repeated());
        self.send(0, id, Message::Report(Report { received, missing, repeated, order, failure }));
        true
    }

    /// On rank 0: decides how the window ended, writes the bytes to commit, and tells the others.
    fn conclude(&mut self, id: u64) {
        let Some(window) = self.windows.get_mut(&id) else { return };
        let owners: Vec<u32> = window.owners().into_iter().map(|(_, rank)| rank).collect();
        let (differs, durable, holes) = (window.ending.sums().differs, window.durable, window.holes);
        let Some(root) = &mut window.root else { return };
        let (late, commit) = (std::mem::take(&mut root.late), root.commit.take());
        let overdue = root.stage == Stage::Judging;
        let mut outcome = decide(&Known { reports: &root.reports, owners: &owners, late, overdue, differs, holes });
        if outcome.failure.is_empty() {
            let written = caught("commit the window", || self.commit(commit, outcome.order, durable));
            match written {
                Ok(()) => outcome.order = self.object.as_ref().map_or(0, |object| object.order()).max(outcome.order),
                Err(e) => {
                    outcome.failure = ErrorReport::of(&self.about(e)).encode();
                    // Nobody can rely on any byte.
                    outcome.failed = owners;
                    outcome.failed.sort_unstable();
                }
            }
        }
        self.complete(id, outcome);
    }

    /// On rank 0, when all bytes are written: makes the file's name durable if asked, and writes the bytes to commit.
    fn commit(&mut self, commit: Option<Commit>, order: u64, durable: bool) -> Result<()> {
        if durable && !self.named {
            self.layout.sync_folder(folder_of(&self.path))?;
            self.named = true;
        }
        let Some(Commit { offset, bytes }) = commit else { return Ok(()) };
        self.order_behind(order);
        let object = self.object()?;
        object.write_at(offset, &[IoSlice::new(&bytes)]).map_err(|e| e.at_byte(offset))?;
        self.make_safe(durable)
    }

    /// Ends a window on this rank and the ranks below it.
    fn complete(&mut self, id: u64, outcome: Outcome) {
        self.send_down(id, &Message::Complete(outcome.clone()));
        self.order_behind(outcome.order);
        let Outcome { bytes, by, failed, overdue, failure, .. } = outcome;
        let rank = self.rank();
        let owned = self.windows.get_mut(&id).and_then(|window| window.owned.as_mut());
        let own = owned.and_then(|owned| owned.failed.take());
        let result = match ErrorReport::decode(&failure) {
            None if failure.is_empty() => Ok(Completed { bytes }),
            None => Err(self.about(Error::new(ErrorKind::Corrupt, "the outcome of a window cannot be read"))),
            Some(report) => {
                let safe = "bytes outside this window; inside it, bytes that the error does not concern may be written";
                let told = report.error(by, rank);
                // An owner that failed keeps its own error, with its cause; its kind is that of all ranks.
                let error = match own {
                    Some(own) if own.kind() == told.kind() => own,
                    Some(own) => told.caused_by(own),
                    None => told,
                };
                Err(self.about(error).safe(safe))
            }
        };
        if let Some(window) = self.windows.get_mut(&id) {
            (window.failed, window.overdue) = (Some(failed), overdue);
            window.finish(result);
        }
    }

    /// Tells others that something happened, or acts because nothing did.
    fn watch_time(&mut self, id: u64) {
        let (rank, is_root) = (self.rank(), self.rank() == 0);
        let Some(window) = self.windows.get_mut(&id).filter(|window| window.outcome.is_none()) else { return };
        if window.clock.should_tell() {
            self.strays |= !is_root;
            match is_root {
                true => self.send_down(id, &Message::Alive),
                false => self.send(0, id, Message::Alive),
            }
            return;
        }
        let waits_for: Vec<u32> = window.ending.waits_for().iter().copied().collect();
        if is_root {
            if window.clock.quiet_for(1.0) {
                self.judge(id, &waits_for);
            }
        } else if window.clock.quiet_for(3.0) {
            let what = "rank 0 did not complete the window within three time limits";
            let error = self.about(Error::new(ErrorKind::Timeout, what).safe("bytes outside this window"));
            self.strays = true;
            if let Some(window) = self.windows.get_mut(&id) {
                window.finish(Err(error));
            }
        } else if window.ended && !window.told_late && !waits_for.is_empty() && window.clock.quiet_for(0.5) {
            window.told_late = true;
            self.strays = true;
            let ranks = waits_for.into_iter().filter(|other| *other != rank).take(NAMED).collect();
            self.send(0, id, Message::Late { ranks });
        }
    }

    /// On rank 0, after the time limit: judges what has come, or completes the window without the owners that do not report.
    fn judge(&mut self, id: u64, waits_for: &[u32]) {
        self.strays = true;
        let Some(Window { root: Some(root), clock, .. }) = self.windows.get_mut(&id) else { return };
        clock.event();
        if root.stage == Stage::Judging {
            self.conclude(id);
            return;
        }
        let all = root.waited_for.iter().chain(waits_for).copied();
        root.late = all.clone().filter(|rank| !root.waiting.contains(rank)).collect();
        if root.late.is_empty() {
            root.late = all.collect();
        }
        root.late.sort_unstable();
        root.late.dedup();
        self.ask_owners(id, None);
    }

    /// After the loss of a rank: no window can be completed.
    fn break_off(&mut self) {
        let Some(broken) = &self.post.broken else { return };
        let error = self.about(broken.again()).safe("windows that were complete");
        self.post.stop();
        for window in self.windows.values_mut().filter(|window| window.outcome.is_none()) {
            window.finish(Err(error.again()));
        }
    }

    fn call_back(&mut self) {
        let due: Vec<u64> = self
            .windows
            .iter()
            .filter(|(_, window)| window.outcome.is_some() && window.callback.is_some())
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            if let Some(Window { outcome: Some(outcome), callback: Some(callback), .. }) = self.windows.remove(&id) {
                callback(outcome);
            }
        }
    }
}

/// Gives the bytes of a message to an owner's state.
fn insert(gather: &mut Gather, extents: &[Extent], bytes: Vec<u8>) -> Result<()> {
    if let [only] = extents
        && only.length == bytes.len() as u64
    {
        return gather.insert(only.offset, bytes);
    }
    let mut at = 0;
    for extent in extents {
        let end = at + extent.length as usize;
        let part = bytes.get(at..end).ok_or_else(|| {
            let what = format!("a message of {} bytes ends before its pieces", bytes.len());
            Error::new(ErrorKind::Corrupt, what)
        })?;
        gather.insert(extent.offset, part.to_vec())?;
        at = end;
    }
    Ok(())
}
