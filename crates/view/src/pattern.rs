//! The normal form of a datatype: runs of bytes, repeated and joined, in the order in which the datatype names them.
//!
//! | node | covers |
//! |---|---|
//! | bytes | one run |
//! | repeat | a node, so many times at a stride |
//! | sequence | nodes one after another |
//!
//! Nested repeats that continue each other are one, consecutive runs are one, and a sequence of equal nodes at equal distances is a
//! repeat: a subarray is at most one repeat per dimension that is cut, whatever constructors made it.

use crate::datatype::too_large;
use std::sync::Arc;
use thalweg_types::{Error, ErrorKind, Result};

/// Which bytes one instance of a datatype covers, in their order, and its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    pub(crate) node: Node,
    pub(crate) lower: i64,
    pub(crate) upper: i64,
}

/// A part of a pattern. Its bounds are those of its bytes, relative to `at`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) at: i64,
    pub(crate) size: u64,
    low: i64,
    high: i64,
    /// No byte comes before an earlier one, none twice.
    rising: bool,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `size` bytes from `at`.
    Bytes,
    Repeat {
        count: u64,
        stride: i64,
        of: Arc<Node>,
    },
    /// With the sum of the sizes up to and including each item.
    Sequence {
        items: Arc<[Node]>,
        ends: Arc<[u64]>,
    },
}

impl Node {
    pub(crate) fn bytes(at: i64, size: u64) -> Node {
        // Sizes are checked by the callers: at most 63 bits.
        Node { at, size, low: 0, high: size as i64, rising: true, kind: Kind::Bytes }
    }

    pub(crate) fn moved(mut self, by: i64) -> Result<Node> {
        self.at = self.at.checked_add(by).ok_or_else(too_large)?;
        self.check()?;
        Ok(self)
    }

    /// Bounds in 63 bits, so that sums below need no checks.
    fn check(&self) -> Result<()> {
        let sum = |bound: i64| self.at.checked_add(bound).filter(|sum| sum.unsigned_abs() < 1 << 62);
        if self.size >= 1 << 62 || sum(self.low).is_none() || sum(self.high).is_none() {
            return Err(too_large());
        }
        Ok(())
    }

    pub(crate) fn repeat(of: &Node, count: u64, stride: i64) -> Result<Node> {
        let size = of.size.checked_mul(count).ok_or_else(too_large)?;
        if size == 0 {
            return Ok(Node::bytes(0, 0));
        }
        if count == 1 {
            return Ok(of.clone());
        }
        let times = |n: i64| i64::try_from(count - 1).ok().and_then(|last| last.checked_mul(n)).ok_or_else(too_large);
        let last = times(stride)?;
        let mut node = match &of.kind {
            Kind::Bytes if u64::try_from(stride) == Ok(of.size) => Node::bytes(of.at, size),
            Kind::Repeat { count: inner, stride: step, of: unit }
                if i64::try_from(*inner).ok().and_then(|n| n.checked_mul(*step)) == Some(stride) =>
            {
                let all = inner.checked_mul(count).ok_or_else(too_large)?;
                Node { kind: Kind::Repeat { count: all, stride: *step, of: unit.clone() }, ..of.clone() }
            }
            _ => {
                Node { kind: Kind::Repeat { count, stride, of: Arc::new(Node { at: 0, ..of.clone() }) }, ..of.clone() }
            }
        };
        if node.kind != Kind::Bytes {
            let sum = |bound: i64, by: i64| bound.checked_add(by).ok_or_else(too_large);
            node.low = sum(of.low, last.min(0))?;
            node.high = sum(of.high, last.max(0))?;
            node.rising = of.rising && stride >= of.high - of.low;
        }
        node.size = size;
        node.check()?;
        Ok(node)
    }

    pub(crate) fn sequence(nodes: Vec<Node>) -> Result<Node> {
        let mut items: Vec<Node> = Vec::with_capacity(nodes.len());
        for node in nodes.into_iter().filter(|node| node.size > 0) {
            match items.last_mut() {
                Some(last) if last.continues_in(&node) => *last = Node::bytes(last.at, last.size + node.size),
                _ => items.push(node),
            }
        }
        match items.as_slice() {
            [] => return Ok(Node::bytes(0, 0)),
            [one] => return one.clone().moved(0),
            [first, second, ..] => {
                let stride = second.at - first.at;
                let even = items.windows(2).all(|pair| pair[1].at - pair[0].at == stride && pair[1].same(&pair[0]));
                if even {
                    return Node::repeat(first, items.len() as u64, stride);
                }
            }
        }
        let mut node = Node { at: 0, size: 0, low: i64::MAX, high: i64::MIN, rising: true, kind: Kind::Bytes };
        let mut ends = Vec::with_capacity(items.len());
        for item in &items {
            let (low, high) = (item.at + item.low, item.at + item.high);
            node.rising &= item.rising && low >= node.high;
            node.low = node.low.min(low);
            node.high = node.high.max(high);
            node.size = node.size.checked_add(item.size).ok_or_else(too_large)?;
            ends.push(node.size);
        }
        node.kind = Kind::Sequence { items: items.into(), ends: ends.into() };
        node.check()?;
        Ok(node)
    }

    /// Whether `next` is a run that begins where this run ends.
    fn continues_in(&self, next: &Node) -> bool {
        self.kind == Kind::Bytes && next.kind == Kind::Bytes && self.at + self.high == next.at
    }

    /// Equal but for the place.
    fn same(&self, other: &Node) -> bool {
        self.size == other.size && self.kind == other.kind
    }

    /// The displacement of byte `number`, which must exist.
    fn place_of(&self, mut number: u64) -> i64 {
        let (mut node, mut base) = (self, self.at);
        loop {
            match &node.kind {
                Kind::Bytes => return base + number as i64,
                Kind::Repeat { stride, of, .. } => {
                    base += *stride * (number / of.size) as i64;
                    number %= of.size;
                    node = of;
                }
                Kind::Sequence { items, ends } => {
                    let which = ends.partition_point(|end| *end <= number);
                    number -= which.checked_sub(1).map_or(0, |before| ends[before]);
                    node = &items[which];
                    base += node.at;
                }
            }
        }
    }

    /// Number of bytes at displacements below `place`, of a node that rises.
    fn count_below(&self, place: i64) -> u64 {
        let (mut node, mut place, mut count) = (self, place, 0);
        loop {
            place = place.saturating_sub(node.at);
            if place <= node.low {
                return count;
            }
            if place >= node.high {
                return count + node.size;
            }
            match &node.kind {
                Kind::Bytes => return count + place as u64,
                Kind::Repeat { count: all, stride, of } => {
                    // Instances that end at or before the place; the next one may be cut.
                    let whole = if place < of.high { 0 } else { ((place - of.high) / stride) as u64 + 1 };
                    let whole = whole.min(*all - 1);
                    count += whole * of.size;
                    place -= *stride * whole as i64;
                    node = of;
                }
                Kind::Sequence { items, ends } => {
                    let whole = items.partition_point(|item| item.at + item.high <= place);
                    count += whole.checked_sub(1).map_or(0, |before| ends[before]);
                    match items.get(whole) {
                        Some(item) => node = item,
                        None => return count,
                    }
                }
            }
        }
    }
}

/// A pattern from further away: its outermost repetitions are kept, and what they repeat counts as one run, from its first byte to its last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outline {
    /// Count and stride of the repetitions, the outermost one first.
    pub repeats: Vec<(u64, i64)>,
    /// Displacement of the first byte of the first run.
    pub low: i64,
    /// Displacement behind its last byte.
    pub high: i64,
}

/// Consecutive bytes of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Displacement of the first one.
    pub displacement: i64,
    /// Number of bytes.
    pub length: u64,
}

/// The runs of a pattern, from one of its bytes on; consecutive runs may continue each other.
#[derive(Debug, Clone)]
pub struct Runs<'p> {
    stack: Vec<Frame<'p>>,
    /// The rest of a run in which the iteration begins.
    first: Option<Run>,
}

/// A node that was entered: where it is, and its next child.
#[derive(Debug, Clone)]
struct Frame<'p> {
    node: &'p Node,
    base: i64,
    next: u64,
}

impl<'p> Runs<'p> {
    /// The runs of `node` at `base`, without its first `skipped` bytes.
    fn from(node: &'p Node, base: i64, skipped: u64) -> Runs<'p> {
        let mut runs = Runs { stack: Vec::new(), first: None };
        if skipped >= node.size {
            return runs;
        }
        let (mut node, mut base, mut skipped) = (node, base + node.at, skipped);
        loop {
            match &node.kind {
                Kind::Bytes => {
                    runs.first = Some(Run { displacement: base + skipped as i64, length: node.size - skipped });
                    return runs;
                }
                Kind::Repeat { stride, of, .. } => {
                    let which = skipped / of.size;
                    runs.stack.push(Frame { node, base, next: which + 1 });
                    base += *stride * which as i64;
                    skipped %= of.size;
                    node = of;
                }
                Kind::Sequence { items, ends } => {
                    let which = ends.partition_point(|end| *end <= skipped);
                    runs.stack.push(Frame { node, base, next: which as u64 + 1 });
                    skipped -= which.checked_sub(1).map_or(0, |before| ends[before]);
                    node = &items[which];
                    base += node.at;
                }
            }
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            let frame = self.stack.last_mut()?;
            let child = match &frame.node.kind {
                Kind::Repeat { count, stride, of } if frame.next < *count => {
                    Some((&**of, frame.base + *stride * frame.next as i64))
                }
                Kind::Sequence { items, .. } => usize::try_from(frame.next)
                    .ok()
                    .and_then(|next| items.get(next))
                    .map(|item| (item, frame.base + item.at)),
                _ => None,
            };
            let Some((node, base)) = child else {
                self.stack.pop();
                continue;
            };
            frame.next += 1;
            if node.kind == Kind::Bytes {
                return Some(Run { displacement: base, length: node.size });
            }
            self.stack.push(Frame { node, base, next: 0 });
        }
    }
}

impl Pattern {
    /// Bytes that one instance covers (`MPI_Type_size`).
    pub fn size(&self) -> u64 {
        self.node.size
    }

    /// Lower bound (`MPI_Type_get_extent`).
    pub fn lower(&self) -> i64 {
        self.lower
    }

    /// From the lower to the upper bound: the distance of consecutive instances.
    pub fn extent(&self) -> i64 {
        self.upper - self.lower
    }

    /// First byte and first byte behind the last one (`MPI_Type_get_true_extent`); 0 and 0 if it covers none.
    pub fn true_bounds(&self) -> (i64, i64) {
        if self.size() == 0 { (0, 0) } else { (self.node.at + self.node.low, self.node.at + self.node.high) }
    }

    /// Whether no byte comes before an earlier one, and none twice: what MPI asks of the filetypes of views.
    pub fn is_rising(&self) -> bool {
        self.node.rising
    }

    /// Whether the bytes of one instance are one run.
    pub fn is_contiguous(&self) -> bool {
        self.node.kind == Kind::Bytes
    }

    /// Number of repetitions within each other, from the outermost one on, up to one of which each part is described by itself.
    pub fn depth(&self) -> usize {
        let (mut node, mut depth) = (&self.node, 0);
        while let Kind::Repeat { of, .. } = &node.kind {
            (node, depth) = (of, depth + 1);
        }
        depth
    }

    /// Its outline with the `depth` outermost repetitions, or with all if it has fewer.
    pub fn outline(&self, depth: usize) -> Outline {
        let (mut node, mut base, mut repeats) = (&self.node, self.node.at, Vec::new());
        while let Kind::Repeat { count, stride, of } = &node.kind
            && repeats.len() < depth
        {
            repeats.push((*count, *stride));
            node = of;
            base += node.at;
        }
        Outline { repeats, low: base + node.low, high: base + node.high }
    }

    /// Neither bytes nor bounds: what a constructor of count 0 makes.
    pub(crate) fn is_nothing(&self) -> bool {
        self.size() == 0 && self.lower == 0 && self.upper == 0
    }

    /// The runs of one instance, from byte `from` on. The order is that of the datatype.
    pub fn runs(&self, from: u64) -> Runs<'_> {
        Runs::from(&self.node, 0, from)
    }

    /// The displacement of byte `number` of one instance; `None` if it has fewer.
    pub fn place_of(&self, number: u64) -> Option<i64> {
        (number < self.size()).then(|| self.node.place_of(number))
    }

    /// The number of bytes of one instance at displacements below `place`; `None` if the pattern does not rise.
    pub fn count_below(&self, place: i64) -> Option<u64> {
        self.is_rising().then(|| self.node.count_below(place))
    }

    /// Copies bytes of `count` instances in `memory` to `out`, from byte `from` of these instances on, as `MPI_Pack` orders them.
    ///
    /// - `origin`: where displacement 0 of the first instance is in `memory`; negative if that is before its first byte.
    ///
    /// # Errors
    /// `OutOfBounds` where the instances have fewer bytes, or one of the bytes is not in `memory`; a part may have been copied.
    /// # Cost
    /// One copy per run.
    pub fn gather(&self, count: u64, memory: &[u8], origin: i64, from: u64, out: &mut [u8]) -> Result<()> {
        self.each(count, origin, from, out.len() as u64, |at, done, length| {
            out[done..done + length].copy_from_slice(memory.get(at..at + length).ok_or(())?);
            Ok(())
        })
    }

    /// Copies `bytes` to `count` instances in `memory`, from byte `from` of these instances on: the opposite of [`Pattern::gather`].
    ///
    /// # Errors
    /// As [`Pattern::gather`].
    /// # Cost
    /// One copy per run.
    pub fn scatter(&self, count: u64, memory: &mut [u8], origin: i64, from: u64, bytes: &[u8]) -> Result<()> {
        self.each(count, origin, from, bytes.len() as u64, |at, done, length| {
            memory.get_mut(at..at + length).ok_or(())?.copy_from_slice(&bytes[done..done + length]);
            Ok(())
        })
    }

    /// Passes the runs of `length` bytes from byte `from` on to `copy`: place in memory, bytes before, length.
    fn each(
        &self,
        count: u64,
        origin: i64,
        from: u64,
        length: u64,
        mut copy: impl FnMut(usize, usize, usize) -> std::result::Result<(), ()>,
    ) -> Result<()> {
        let all = self.size().checked_mul(count).ok_or_else(too_large)?;
        if from.checked_add(length).is_none_or(|end| end > all) {
            let what = format!("{length} bytes from byte {from} of {count} instances, which have {all}");
            return Err(Error::new(ErrorKind::OutOfBounds, what));
        }
        let mut done = 0;
        while done < length {
            let (instance, inside) = ((from + done) / self.size(), (from + done) % self.size());
            let base = i64::try_from(instance).ok().and_then(|n| n.checked_mul(self.extent())).ok_or_else(too_large)?;
            for run in self.runs(inside) {
                let n = run.length.min(length - done);
                let at = base.checked_add(run.displacement).and_then(|at| origin.checked_add(at));
                let at = at.and_then(|at| usize::try_from(at).ok());
                at.ok_or(()).and_then(|at| copy(at, done as usize, n as usize)).map_err(|()| {
                    let what = format!("instance {instance} has bytes outside of the memory that was given");
                    Error::new(ErrorKind::OutOfBounds, what)
                })?;
                done += n;
                if done == length {
                    break;
                }
            }
        }
        Ok(())
    }
}
