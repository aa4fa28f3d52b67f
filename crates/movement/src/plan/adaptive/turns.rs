//! Scheduling: the next group of a target, groups that move to another target, and groups that are written again.

use super::*;

impl State {
    /// Takes the next group of the target's own queue; `None` also if a slow target should not write it.
    pub(super) fn own(&mut self, target: usize) -> Option<u32> {
        let group = *self.targets[target].queue.front()?;
        let bytes = self.sizes[group as usize];
        let of = &self.targets[target];
        if of.stuck_in_a_row >= SLOW && self.another(target) {
            // While stuck writes are in flight, the target's speed is not known.
            let under_way = of.late || of.writes.iter().any(|f| f.stuck);
            if under_way || bytes as f64 / self.rate_of(target) > self.horizon() {
                return None;
            }
        }
        self.targets[target].queue.pop_front();
        self.targets[target].queued_bytes -= bytes;
        Some(group)
    }

    /// Whether another target could take this target's groups.
    pub(super) fn another(&self, target: usize) -> bool {
        (0..self.targets.len()).any(|other| other != target && !self.refuses(other))
    }

    /// Whether a target may refuse its own groups: it failed or is slow.
    pub(super) fn refuses(&self, target: usize) -> bool {
        self.targets[target].failed || self.targets[target].stuck_in_a_row >= SLOW
    }

    /// Takes the last group of the queue that takes longest to drain; `None` also if a write of that group is in flight at
    /// this target: a second one there would wait for the same storage, and the ranks' reports could not tell the two apart.
    pub(super) fn take(&mut self, target: usize) -> Option<u32> {
        if self.targets[target].stuck_in_a_row >= SLOW && self.another(target) {
            return None;
        }
        let mut longest: Option<(f64, usize)> = None;
        for other in 0..self.targets.len() {
            if other != target && !self.targets[other].queue.is_empty() {
                // Groups of a target that may refuse them are taken first.
                let drain = if self.refuses(other) { f64::INFINITY } else { self.drain(other) };
                if longest.is_none_or(|(most, _)| drain > most) {
                    longest = Some((drain, other));
                }
            }
        }
        let (drain, from) = longest?;
        let group = *self.targets[from].queue.back()?;
        let bytes = self.sizes[group as usize];
        if !self.refuses(from) && bytes as f64 / self.rate_of(target) > drain || self.is_writing(target, group) {
            return None;
        }
        self.targets[from].queue.pop_back();
        self.targets[from].queued_bytes -= bytes;
        self.moved += 1;
        Some(group)
    }

    /// The target to write a group again: the one that would finish it first.
    pub(super) fn elsewhere(&self, group: u32, not: usize) -> Option<usize> {
        let bytes = self.sizes[group as usize] as f64;
        let mut best: Option<(f64, usize)> = None;
        for target in 0..self.targets.len() {
            let of = &self.targets[target];
            if target == not || of.failed || self.is_writing(target, group) {
                continue;
            }
            let slow = if of.stuck_in_a_row >= SLOW { 1e12 } else { 0.0 };
            let through = self.drain(target) + bytes / self.rate_of(target) + slow;
            if best.is_none_or(|(least, _)| through < least) {
                best = Some((through, target));
            }
        }
        best.map(|(_, target)| target)
    }

    /// Puts a group at the front of the queue of the target that would finish it first, and starts writes there.
    pub(super) fn rewrite(&mut self, group: u32, not: usize, out: &mut Vec<Decision>) -> bool {
        let Some(target) = self.elsewhere(group, not) else { return false };
        self.moved += 1;
        self.targets[target].queue.push_front(group);
        self.targets[target].queued_bytes += self.sizes[group as usize];
        self.fill(target, out);
        true
    }

    /// Finds stuck writes, and has their groups written again.
    pub(super) fn look(&mut self, out: &mut Vec<Decision>) {
        let mut found = Vec::new();
        for target in 0..self.targets.len() {
            for (i, write) in self.targets[target].writes.iter().enumerate() {
                let late = self.deadline(write.group, write.since).is_some_and(|at| at <= self.now);
                if late && !write.stuck && self.is_open(write.group) {
                    found.push((target, i));
                }
            }
        }
        for &(target, i) in &found {
            let write = &self.targets[target].writes[i];
            let (group, since) = (write.group, write.since);
            if self.copies[group as usize] >= self.params.copies.max(1) || !self.another(target) {
                continue;
            }
            let of = &mut self.targets[target];
            of.writes[i].stuck = true;
            of.stuck_in_a_row += 1;
            if of.stuck_in_a_row >= SLOW {
                let shown = self.sizes[group as usize] as f64 / (self.now - since).max(f64::MIN_POSITIVE);
                of.rate = Some(of.rate.map_or(shown, |rate| rate.min(shown)));
            }
        }
        for (target, i) in found {
            let write = &self.targets[target].writes[i];
            if write.stuck {
                let group = write.group;
                self.rewrite(group, target, out);
                self.fill(target, out);
            }
        }
    }

    /// Starts writes at all targets below their limit.
    pub(super) fn idle(&mut self, out: &mut Vec<Decision>) {
        for target in 0..self.targets.len() {
            if self.targets[target].turns() < self.turns_allowed() {
                self.fill(target, out);
            }
        }
    }

    /// Prevents a standstill: if all writes in flight are stuck and no target accepts a queued group, the fastest target starts
    /// one.
    pub(super) fn insist(&mut self, out: &mut Vec<Decision>) {
        if self.left == 0 || self.targets.iter().any(|t| t.turns() > 0) {
            return;
        }
        self.idle(out);
        let willing = |(_, t): &(usize, &Target)| !t.failed;
        while self.targets.iter().all(|t| t.turns() == 0) {
            let Some(from) = self.targets.iter().position(|t| !t.queue.is_empty()) else { return };
            let targets = self.targets.iter().enumerate().filter(willing);
            let Some((target, _)) = targets.max_by(|a, b| self.rate_of(a.0).total_cmp(&self.rate_of(b.0))) else {
                return;
            };
            let Some(group) = self.targets[from].queue.pop_front() else { return };
            self.targets[from].queued_bytes -= self.sizes[group as usize];
            if self.is_open(group) && !self.is_writing(target, group) {
                self.start(target, group, out);
            }
        }
    }

    /// Requests a tick at the earliest deadline of a write.
    pub(super) fn wake(&mut self, out: &mut Vec<Decision>) {
        if self.wake.is_some_and(|asked| asked > self.now) {
            return;
        }
        let mut first: Option<f64> = None;
        // `another` for all targets at once.
        let willing = (0..self.targets.len()).filter(|t| !self.refuses(*t)).take(2).count();
        for (i, target) in self.targets.iter().enumerate() {
            if willing == 0 || (willing == 1 && !self.refuses(i)) {
                continue;
            }
            for write in target.writes.iter().filter(|f| !f.stuck) {
                let more = self.copies[write.group as usize] < self.params.copies.max(1);
                if !more || !self.is_open(write.group) {
                    continue;
                }
                // The average may have changed so that the deadline has passed.
                if let Some(at) = self.deadline(write.group, write.since).map(|at| at.max(self.now)) {
                    first = Some(first.map_or(at, |f| f.min(at)));
                }
            }
        }
        if let Some(at) = first {
            self.wake = Some(at);
            out.push(Decision::Wake { at });
        }
    }
}

/// The time at which a target would be drained; the earliest is the greatest, for a max-heap.
#[derive(PartialEq)]
pub(super) struct Through {
    pub(super) at: f64,
    pub(super) target: usize,
}

impl Eq for Through {}

impl Ord for Through {
    fn cmp(&self, other: &Through) -> std::cmp::Ordering {
        other.at.total_cmp(&self.at).then(other.target.cmp(&self.target))
    }
}

impl PartialOrd for Through {
    fn partial_cmp(&self, other: &Through) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
