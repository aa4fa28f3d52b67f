//! What an owner holds of an input window: bytes that are read ahead, and what ranks wait for. No I/O.
//!
//! | question | answer |
//! |---|---|
//! | in which parts are bytes read | *units*: fractions of write stripes, or less where the memory is small |
//! | which unit is next | the one that a rank has waited for longest; if none, the first that was neither read nor asked for, if there is room |
//! | when is a unit given up | when there is no room for another one: first those of which each byte was handed over, then those that were used longest ago. Reading ahead gives up none but the first |

use crate::domains::Domains;
use crate::runs::Runs;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// Bytes that a rank waits for; within one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// The rank.
    pub rank: u32,
    /// The rank's number of its read.
    pub read: u64,
    /// The bytes.
    pub extent: Extent,
}

struct Held {
    bytes: Vec<u8>,
    used: u64,
    /// Demands that are ready.
    wanted: usize,
}

/// See the module's page.
pub struct Ahead {
    domains: Arc<Domains>,
    number: usize,
    unit: u64,
    /// Where reading ahead goes on; `None` at the end.
    next: Option<u64>,
    held: BTreeMap<u64, Held>,
    memory: u64,
    waiting: BTreeMap<u64, Vec<Demand>>,
    /// First bytes of the units in `waiting`, in the order in which they were asked for.
    order: VecDeque<u64>,
    ready: VecDeque<Demand>,
    handed: Runs,
    /// How many bytes of a unit were handed over.
    handed_of: BTreeMap<u64, u64>,
    uses: u64,
}

impl Ahead {
    /// Of the owner with this number.
    ///
    /// - `unit`: most bytes that are read at once.
    pub fn new(domains: Arc<Domains>, number: usize, unit: u64) -> Ahead {
        let next = domains.stripes_of(number).next().map(|stripe| stripe.offset);
        Ahead {
            domains,
            number,
            unit: unit.max(1),
            next,
            held: BTreeMap::new(),
            memory: 0,
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
            ready: VecDeque::new(),
            handed: Runs::default(),
            handed_of: BTreeMap::new(),
            uses: 0,
        }
    }

    /// The unit with a byte.
    fn unit_of(&self, byte: u64) -> Extent {
        let fraction = self.domains.fraction_of(byte).extent;
        let start = fraction.offset + (byte - fraction.offset) / self.unit * self.unit;
        Extent::new(start, self.unit.min(fraction.offset + fraction.length - start))
    }

    /// A rank asks for bytes.
    ///
    /// # Errors
    /// `InvalidArgument` for bytes outside the window, or of another owner; nothing is taken then.
    pub fn demand(&mut self, rank: u32, read: u64, extent: Extent) -> Result<()> {
        let mine = |piece: crate::domains::Piece| piece.owner == self.number;
        if !self.domains.cut(extent)?.all(mine) {
            let what = "bytes of an input window that another rank owns";
            return Err(Error::new(ErrorKind::InvalidArgument, what).at_byte(extent.offset));
        }
        let (mut at, end) = (extent.offset, extent.offset + extent.length);
        while at < end {
            let unit = self.unit_of(at);
            let to = (unit.offset + unit.length).min(end);
            let demand = Demand { rank, read, extent: Extent::new(at, to - at) };
            match self.held.get_mut(&unit.offset) {
                Some(held) => {
                    held.wanted += 1;
                    self.ready.push_back(demand);
                }
                None => {
                    let waiting = self.waiting.entry(unit.offset).or_default();
                    if waiting.is_empty() {
                        self.order.push_back(unit.offset);
                    }
                    waiting.push(demand);
                }
            }
            at = to;
        }
        Ok(())
    }

    /// A demand whose bytes are held, and these: they count as handed over.
    ///
    /// - `may`: whether the rank can be sent so many bytes now.
    pub fn answer(&mut self, may: impl Fn(u32, u64) -> bool) -> Option<(Demand, Vec<u8>)> {
        let at = self.ready.iter().position(|demand| may(demand.rank, demand.extent.length))?;
        let demand = self.ready.remove(at)?;
        let Extent { offset, length } = demand.extent;
        let unit = self.unit_of(offset);
        let held = self.held.get_mut(&unit.offset)?;
        let from = (offset - unit.offset) as usize;
        let bytes = held.bytes.get(from..from + length as usize)?.to_vec();
        self.uses += 1;
        held.used = self.uses;
        held.wanted -= 1;
        let new: u64 = self.handed.add(offset, offset + length).iter().map(|extent| extent.length).sum();
        *self.handed_of.entry(unit.offset).or_default() += new;
        Some((demand, bytes))
    }

    /// Whether each byte of a unit was handed over.
    fn is_spent(&self, unit: Extent) -> bool {
        self.handed_of.get(&unit.offset).copied().unwrap_or(0) == unit.length
    }

    /// The unit that ranks wait for longest.
    pub fn needed(&self) -> Option<Extent> {
        self.order.front().map(|start| self.unit_of(*start))
    }

    /// The next unit that nobody has asked for.
    pub fn ahead(&mut self) -> Option<Extent> {
        while let Some(at) = self.next {
            let unit = self.unit_of(at);
            let end = unit.offset + unit.length;
            let is_new = !self.held.contains_key(&unit.offset)
                && !self.waiting.contains_key(&unit.offset)
                && !self.is_spent(unit);
            if is_new {
                return Some(unit);
            }
            self.next = self.behind(end);
        }
        None
    }

    /// The first own byte from `at` on, which is the end of a unit.
    fn behind(&self, at: u64) -> Option<u64> {
        let window = self.domains.window();
        if at >= window.offset + window.length {
            return None;
        }
        if self.domains.fraction_of(at).owner == self.number {
            return Some(at);
        }
        self.domains.stripes_of(self.number).map(|stripe| stripe.offset).find(|start| *start >= at)
    }

    /// The bytes of a unit.
    pub fn insert(&mut self, unit: Extent, bytes: Vec<u8>) {
        let wanting = self.take_waiting(unit);
        if self.next == Some(unit.offset) {
            self.next = self.behind(unit.offset + unit.length);
        }
        self.uses += 1;
        self.memory += bytes.capacity() as u64;
        self.held.insert(unit.offset, Held { bytes, used: self.uses, wanted: wanting.len() });
        self.ready.extend(wanting);
    }

    /// The demands of a unit that cannot be read. Not asked for, it is not read ahead again.
    pub fn fail(&mut self, unit: Extent) -> Vec<Demand> {
        if self.next == Some(unit.offset) {
            self.next = self.behind(unit.offset + unit.length);
        }
        self.take_waiting(unit)
    }

    fn take_waiting(&mut self, unit: Extent) -> Vec<Demand> {
        let wanting = self.waiting.remove(&unit.offset).unwrap_or_default();
        if self.order.front() == Some(&unit.offset) {
            self.order.pop_front();
        } else if !wanting.is_empty() {
            self.order.retain(|start| *start != unit.offset);
        }
        wanting
    }

    /// Gives up a unit that no rank waits for; whether there was one.
    ///
    /// - `spent_only`: only one of which each byte was handed over.
    pub fn give_up(&mut self, spent_only: bool) -> bool {
        let spent = |start: &u64, held: &Held| self.handed_of.get(start) == Some(&(held.bytes.len() as u64));
        let free = self.held.iter().filter(|(_, held)| held.wanted == 0);
        let all = free.map(|(start, held)| (!spent(start, held), held.used, *start));
        let first = all.filter(|(unspent, ..)| !(*unspent && spent_only)).min();
        if let Some((_, _, start)) = first
            && let Some(held) = self.held.remove(&start)
        {
            self.memory -= held.bytes.capacity() as u64;
        }
        first.is_some()
    }

    /// The ranks that wait.
    pub fn waiting(&self) -> Vec<u32> {
        let mut ranks: Vec<u32> =
            self.waiting.values().flatten().chain(&self.ready).map(|demand| demand.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// Memory of the bytes that are held.
    pub fn memory(&self) -> u64 {
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Machine, Options, Owners};
    use proptest::prelude::*;

    fn domains(window: Extent, active: u32, owner_stripe: u64, fraction: u64) -> Arc<Domains> {
        let options = Options {
            owners: Owners::Every { active, base: 0, skip: 1 },
            owner_stripe: Some(owner_stripe),
            write_stripe: 3 * fraction,
            fraction,
            ..Options::default()
        };
        Arc::new(Domains::new(window, &options, &Machine { ranks: active, leaders: vec![0], targets: None }).unwrap())
    }

    fn content(unit: Extent) -> Vec<u8> {
        (unit.offset..unit.offset + unit.length).map(|byte| (byte % 251) as u8).collect()
    }

    #[test]
    fn what_ranks_wait_for_comes_first_and_the_rest_is_read_ahead_once() {
        let mut ahead = Ahead::new(domains(Extent::new(5, 95), 1, 1000, 20), 0, 10);
        assert_eq!(ahead.ahead(), Some(Extent::new(5, 10)));
        ahead.insert(Extent::new(5, 10), content(Extent::new(5, 10)));
        ahead.demand(3, 7, Extent::new(62, 4)).unwrap();
        ahead.demand(4, 1, Extent::new(12, 5)).unwrap();
        assert_eq!(ahead.needed(), Some(Extent::new(60, 10)));
        // What is held is answered at once, in parts.
        assert_eq!(
            ahead.answer(|_, _| true).unwrap(),
            (Demand { rank: 4, read: 1, extent: Extent::new(12, 3) }, vec![12, 13, 14])
        );
        assert_eq!(ahead.answer(|_, _| true), None);
        ahead.insert(Extent::new(60, 10), content(Extent::new(60, 10)));
        assert_eq!(ahead.answer(|_, _| true).unwrap().1, [62, 63, 64, 65]);
        assert_eq!(ahead.needed(), Some(Extent::new(15, 5)), "a unit ends with its fraction");
        assert_eq!(ahead.fail(Extent::new(15, 5)), [Demand { rank: 4, read: 1, extent: Extent::new(15, 2) }]);
        let mut left = Vec::new();
        while let Some(unit) = ahead.ahead() {
            ahead.insert(unit, content(unit));
            left.push(unit.offset);
        }
        assert_eq!(left, [20, 30, 40, 50, 70, 80, 90]);
        assert!(!ahead.give_up(true) && ahead.give_up(false) && ahead.memory() > 0);
    }

    #[test]
    fn bytes_of_others_are_refused() {
        let mut ahead = Ahead::new(domains(Extent::new(0, 100), 2, 10, 10), 1, 10);
        for extent in [Extent::new(5, 10), Extent::new(0, 1), Extent::new(95, 10)] {
            assert!(ahead.demand(0, 0, extent).is_err(), "{extent:?}");
        }
        assert_eq!((ahead.needed(), ahead.ahead()), (None, Some(Extent::new(10, 10))));
    }

    proptest! {
        /// Whatever is asked for in whatever order, with any room, each demand is answered with its bytes, and memory is bounded.
        #[test]
        fn every_demand_is_answered(
            offset in 0u64..300, length in 1u64..400, active in 1u32..4, stripe in 1u64..60, fraction in 1u64..30, unit in 1u64..20,
            room in 0u64..60, asks in proptest::collection::vec((0u64..400, 1u64..50), 0..40),
        ) {
            let domains = domains(Extent::new(offset, length), active, stripe, fraction);
            let mut owners: Vec<Ahead> = (0..active as usize).map(|n| Ahead::new(domains.clone(), n, unit)).collect();
            let (mut asked, mut came) = (vec![0u32; 800], vec![0u32; 800]);
            for (number, (at, count)) in asks.iter().enumerate() {
                let start = offset + at % length;
                let extent = Extent::new(start, (*count).min(offset + length - start));
                for piece in domains.cut(extent).unwrap() {
                    owners[piece.owner].demand(1, number as u64, piece.extent).unwrap();
                    (piece.extent.offset..piece.extent.offset + piece.extent.length).for_each(|b| asked[b as usize] += 1);
                }
                let owner = &mut owners[number % active as usize];
                for _ in 0..3 {
                    let needed = owner.needed();
                    while needed.is_some_and(|unit| owner.memory() + unit.length > room) && owner.give_up(false) {}
                    let next = needed.or_else(|| owner.ahead().filter(|unit| owner.memory() + unit.length <= room));
                    if let Some(unit) = next {
                        prop_assert!(unit.length > 0);
                        owner.insert(unit, content(unit));
                    }
                }
                while let Some((demand, bytes)) = owner.answer(|_, _| true) {
                    prop_assert_eq!(bytes, content(demand.extent));
                    (demand.extent.offset..demand.extent.offset + demand.extent.length).for_each(|b| came[b as usize] += 1);
                }
            }
            for owner in &mut owners {
                loop {
                    let needed = owner.needed();
                    if let Some(unit) = needed {
                        owner.insert(unit, content(unit));
                    }
                    while let Some((demand, _)) = owner.answer(|_, _| true) {
                        (demand.extent.offset..demand.extent.offset + demand.extent.length).for_each(|b| came[b as usize] += 1);
                    }
                    if needed.is_none() {
                        break;
                    }
                }
                // Everything that was not handed over can be read ahead, and given up.
                while let Some(unit) = owner.ahead() {
                    owner.insert(unit, content(unit));
                }
                while owner.give_up(false) {}
                prop_assert_eq!(owner.memory(), 0);
            }
            prop_assert_eq!(asked, came);
        }
    }
}
