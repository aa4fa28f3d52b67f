//! A query evaluated at one step: answers from characteristics, and matches in batches.
//!
//! The selection is traversed in row-major order. A region that characteristics decide is accepted or rejected as a whole. Any other
//! region is halved until it is small enough to compare every value; only values that the answer depends on are read.

use crate::condition::NonFinite;
use crate::leaf::{Leaf, MAYBE, NO, Where, YES, alike, resolve};
use crate::{Answer, Query};
use std::sync::Arc;
use thalweg_reader::Reader;
use thalweg_types::bounding_box::elements;
use thalweg_types::{BoundingBox, Error, ErrorKind, Result};

/// How a query is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct How {
    /// Approximate memory for values and masks, in bytes. Blocks selected by number are held in full in addition.
    pub memory: u64,
    /// How comparisons treat NaN and infinities.
    pub non_finite: NonFinite,
}

impl Default for How {
    /// 64 MiB; NaN and infinities are compared.
    fn default() -> How {
        How { memory: 64 << 20, non_finite: NonFinite::Compared }
    }
}

/// Number of matches, from characteristics alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Lower bound.
    pub least: u64,
    /// Upper bound.
    pub most: u64,
    /// Expected number, if values are distributed evenly between the extremes of their block.
    pub likely: u64,
}

/// A block that may match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its number within the step.
    pub block: u64,
    /// `Yes` if all of its elements inside the selection match.
    pub answer: Answer,
}

/// Some matches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// Their positions in the selection, ascending: row-major, from 0; for points, the points' numbers.
    pub places: Vec<u64>,
    /// Whether more matches follow.
    pub more: bool,
}

/// A query with the places of its comparisons.
enum Node {
    Leaf(usize),
    All(Vec<Node>),
    Any(Vec<Node>),
}

/// A query bound to a step.
struct Bound {
    root: Node,
    leaves: Vec<Leaf>,
    /// Comparisons of the same values.
    groups: Vec<Vec<usize>>,
    frame: Vec<u64>,
    /// Bytes that one place takes while it is looked at.
    weight: u64,
}

/// Parts of each leaf, by number.
type Near = Vec<Vec<u32>>;

impl Bound {
    fn new(query: &Query, reader: &Reader, step: u64, non_finite: NonFinite) -> Result<Bound> {
        let mut leaves: Vec<Leaf> = Vec::new();
        for comparison in query.comparisons() {
            let leaf = Leaf::bind(reader, comparison, step, non_finite)?;
            if let Some(first) = leaves.first()
                && first.frame != leaf.frame
            {
                let first_name = &query.comparisons()[0].variable;
                let what = format!(
                    "its selection has the extents {:?}, that of \"{first_name}\" {:?}: they can't be compared place by place",
                    leaf.frame, first.frame
                );
                return Err(Error::new(ErrorKind::InvalidArgument, what)
                    .in_variable(comparison.variable.clone())
                    .at_step(step)
                    .in_object(reader.path()));
            }
            leaves.push(leaf);
        }
        let Some(first) = leaves.first() else {
            return Err(Error::new(ErrorKind::InvalidArgument, "a query without a comparison"));
        };
        let (frame, mut next) = (first.frame.clone(), 0);
        let root = node(query, &mut next);
        // A mask per leaf and per inner part, and the values of one leaf.
        let weight = leaves.iter().map(Leaf::weight).max().unwrap_or(1) + 2 * leaves.len() as u64;
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (i, leaf) in leaves.iter().enumerate() {
            match groups.iter_mut().find(|group| leaves[group[0]].shares_values_with(leaf)) {
                Some(group) => group.push(i),
                None => groups.push(vec![i]),
            }
        }
        Ok(Bound { root, leaves, groups, frame, weight })
    }

    fn everything(&self) -> Near {
        self.leaves.iter().map(Leaf::everything).collect()
    }

    fn meeting(&self, region: &BoundingBox, of: &Near) -> Near {
        self.leaves.iter().zip(of).map(|(leaf, of)| leaf.meeting(region, of)).collect()
    }

    fn answer(&self, node: &Node, region: &BoundingBox, near: &Near) -> Answer {
        let of = |n: &Node| self.answer(n, region, near);
        match node {
            Node::Leaf(i) => self.leaves[*i].answer(region, &near[*i]),
            Node::All(parts) => parts.iter().map(of).min().unwrap_or(Answer::Yes),
            Node::Any(parts) => parts.iter().map(of).max().unwrap_or(Answer::No),
        }
    }

    fn paint(&self, region: &BoundingBox, near: &Near) -> Vec<Vec<u8>> {
        self.leaves.iter().zip(near).map(|(leaf, near)| leaf.paint(region, near)).collect()
    }
}

fn node(query: &Query, next: &mut usize) -> Node {
    match query {
        Query::Compare(_) => {
            *next += 1;
            Node::Leaf(*next - 1)
        }
        Query::All(parts) => Node::All(parts.iter().map(|p| node(p, next)).collect()),
        Query::Any(parts) => Node::Any(parts.iter().map(|p| node(p, next)).collect()),
    }
}

/// The masks of comparisons as that of the query, `n` places.
fn combined(node: &Node, masks: &[Vec<u8>], n: usize) -> Vec<u8> {
    let join = |parts: &[Node], nothing: u8, choose: fn(u8, u8) -> u8| {
        let mut all = vec![nothing; n];
        for part in parts {
            let mut enter = |of: &[u8]| all.iter_mut().zip(of).for_each(|(a, b)| *a = choose(*a, *b));
            match part {
                Node::Leaf(i) => enter(&masks[*i]),
                inner => enter(&combined(inner, masks, n)),
            }
        }
        all
    };
    match node {
        Node::Leaf(i) => masks[*i].clone(),
        Node::All(parts) => join(parts, YES, u8::min),
        Node::Any(parts) => join(parts, NO, u8::max),
    }
}

impl Query {
    /// Binds the query to a step. No value is read yet.
    ///
    /// # Errors
    /// As [`Reader::read`], for each variable and its selection; `InvalidArgument` too for text, and where selections
    /// have different extents.
    pub fn evaluate(&self, reader: &Reader, step: u64) -> Result<Evaluation> {
        self.evaluate_with(reader, step, &How::default())
    }

    /// As [`Query::evaluate`], with other limits.
    ///
    /// # Errors
    /// As [`Query::evaluate`].
    pub fn evaluate_with(&self, reader: &Reader, step: u64, how: &How) -> Result<Evaluation> {
        let bound = Bound::new(self, reader, step, how.non_finite)?;
        let whole = BoundingBox::whole(&bound.frame);
        let near = Arc::new(bound.everything());
        let limit = (how.memory / bound.weight).max(1);
        let pending = if whole.is_empty() { Vec::new() } else { vec![(whole, near)] };
        Ok(Evaluation { reader: reader.clone(), bound, pending, ready: None, limit, found: 0 })
    }

    /// Bounds and estimate of the number of matches at a step, from characteristics alone.
    ///
    /// # Errors
    /// As [`Query::evaluate`].
    pub fn estimate(&self, reader: &Reader, step: u64) -> Result<Estimate> {
        let bound = Bound::new(self, reader, step, NonFinite::default())?;
        let all = elements(&bound.frame).unwrap_or(u64::MAX);
        fn of(node: &Node, leaves: &[Leaf], all: u64) -> (u64, u64, f64) {
            let n = (all as f64).max(1.0);
            match node {
                Node::Leaf(i) => leaves[*i].count(),
                // The parts may omit different elements: then only the overlap is certain.
                Node::All(parts) => parts.iter().map(|p| of(p, leaves, all)).fold((all, all, n), |a, b| {
                    ((a.0.saturating_add(b.0)).saturating_sub(all), a.1.min(b.1), a.2 * b.2 / n)
                }),
                Node::Any(parts) => parts.iter().map(|p| of(p, leaves, all)).fold((0, 0, 0.0), |a, b| {
                    (a.0.max(b.0), a.1.saturating_add(b.1).min(all), a.2 + b.2 - a.2 * b.2 / n)
                }),
            }
        }
        let (least, most, likely) = of(&bound.root, &bound.leaves, all);
        Ok(Estimate { least, most, likely: (likely.round() as u64).clamp(least, most) })
    }

    /// The blocks of the query's first variable that may match at a step, ascending. The characteristics of the other variables at the
    /// same positions count, too, whatever their decomposition into blocks. Whole local arrays and values local to ranks are compared block
    /// by block, each with the block of the same number in the other variables.
    ///
    /// # Errors
    /// As [`Query::evaluate`].
    pub fn blocks(&self, reader: &Reader, step: u64, non_finite: NonFinite) -> Result<Vec<Candidate>> {
        if let Some(apart) = self.blocks_apart(reader, step, non_finite)? {
            return Ok(apart);
        }
        let bound = Bound::new(self, reader, step, non_finite)?;
        let everything = bound.everything();
        let mut found = Vec::new();
        for (n, (block, place)) in bound.leaves[0].blocks().into_iter().enumerate() {
            let answer = match place {
                Where::Region(region) => {
                    let near = bound.leaves.iter().map(|leaf| leaf.parts_meeting(&region, n)).collect();
                    bound.answer(&bound.root, &region, &near)
                }
                Where::Places(places) => {
                    // Of points, each is known for itself.
                    alike(places.iter().map(|p| {
                        let region = BoundingBox::new([*p], [1]);
                        bound.answer(&bound.root, &region, &everything)
                    }))
                }
            };
            if answer != Answer::No {
                found.push(Candidate { block, answer });
            }
        }
        Ok(found)
    }
}

impl Query {
    /// [`Query::blocks`] for variables whose blocks are independent of each other.
    fn blocks_apart(&self, reader: &Reader, step: u64, non_finite: NonFinite) -> Result<Option<Vec<Candidate>>> {
        let mut leaves: Vec<Vec<Answer>> = Vec::new();
        for comparison in self.comparisons() {
            match Leaf::of_each_block(reader, comparison, step, non_finite)? {
                Some(answers) if leaves.first().is_none_or(|first| first.len() == answers.len()) => {
                    leaves.push(answers)
                }
                Some(answers) => {
                    let what = format!(
                        "{} blocks, \"{}\" has {}",
                        answers.len(),
                        self.comparisons()[0].variable,
                        leaves[0].len()
                    );
                    return Err(Error::new(ErrorKind::InvalidArgument, what)
                        .in_variable(comparison.variable.clone())
                        .at_step(step)
                        .in_object(reader.path()));
                }
                None => return Ok(None),
            }
        }
        fn answer(node: &Node, leaves: &[Vec<Answer>], block: usize) -> Answer {
            let of = |n: &Node| answer(n, leaves, block);
            match node {
                Node::Leaf(i) => leaves[*i][block],
                Node::All(parts) => parts.iter().map(of).min().unwrap_or(Answer::Yes),
                Node::Any(parts) => parts.iter().map(of).max().unwrap_or(Answer::No),
            }
        }
        let root = node(self, &mut 0);
        let n = leaves.first().map_or(0, Vec::len);
        let all = (0..n).map(|b| Candidate { block: b as u64, answer: answer(&root, &leaves, b) });
        Ok(Some(all.filter(|c| c.answer != Answer::No).collect()))
    }
}

/// A run of places that is known.
struct Ready {
    /// First place.
    start: u64,
    /// The matching elements; `None` for all.
    mask: Option<Vec<u8>>,
    /// Next position to examine, and their number.
    next: u64,
    length: u64,
}

impl Ready {
    /// Moves to the next match.
    fn seek(&mut self) -> bool {
        if let Some(mask) = &self.mask {
            let rest = mask[self.next as usize..].iter().position(|m| *m == YES);
            self.next = rest.map_or(self.length, |n| self.next + n as u64);
        }
        self.next < self.length
    }
}

/// The evaluation of a query at one step. Work done for one batch is not repeated for the next.
pub struct Evaluation {
    reader: Reader,
    bound: Bound,
    /// Regions still to come, the first one last, with the parts that may meet them.
    pending: Vec<(BoundingBox, Arc<Near>)>,
    ready: Option<Ready>,
    /// Places looked at together.
    limit: u64,
    found: u64,
}

impl Evaluation {
    /// Extents of the selections, in elements, slowest first; of points, their number.
    pub fn extents(&self) -> &[u64] {
        &self.bound.frame
    }

    /// Number of matches returned so far.
    pub fn found(&self) -> u64 {
        self.found
    }

    /// A position as an index into the array of the query's first variable; into the block if a block is selected.
    pub fn index_of(&self, place: u64) -> Vec<u64> {
        self.bound.leaves[0].index_of(place)
    }

    /// The next matches, at most `most`.
    ///
    /// # Errors
    /// As [`Reader::read`]. The next call continues with the matches not returned yet.
    /// # Cost
    /// Reads the values that the answer depends on, until it is known whether more matches follow.
    pub fn next_batch(&mut self, most: u64) -> Result<Batch> {
        let mut batch = Batch::default();
        while self.seek()? {
            let Some(ready) = &mut self.ready else { break };
            if batch.places.len() as u64 >= most {
                batch.more = true;
                break;
            }
            let free = most - batch.places.len() as u64;
            if ready.mask.is_none() {
                let n = free.min(ready.length - ready.next);
                batch.places.extend(ready.start + ready.next..ready.start + ready.next + n);
                ready.next += n;
            } else {
                batch.places.push(ready.start + ready.next);
                ready.next += 1;
            }
        }
        self.found += batch.places.len() as u64;
        Ok(batch)
    }

    /// Moves to the next match; `false` where there is none.
    fn seek(&mut self) -> Result<bool> {
        loop {
            if self.ready.as_mut().is_some_and(Ready::seek) {
                return Ok(true);
            }
            self.ready = None;
            let Some((region, near)) = self.pending.last().cloned() else { return Ok(false) };
            let near = self.bound.meeting(&region, &near);
            let length = region.elements().unwrap_or(u64::MAX);
            let known = |mask| Ready { start: self.start_of(&region), mask, next: 0, length };
            self.ready = match self.bound.answer(&self.bound.root, &region, &near) {
                Answer::No => None,
                Answer::Yes => Some(known(None)),
                Answer::Maybe if length <= self.limit => {
                    let mask = self.look(&region, &near)?;
                    Some(Ready { start: self.start_of(&region), mask: Some(mask), next: 0, length })
                }
                Answer::Maybe => {
                    let (first, second) = halves(&region);
                    let near = Arc::new(near);
                    self.pending.pop();
                    self.pending.extend([(second, near.clone()), (first, near)]);
                    continue;
                }
            };
            self.pending.pop();
        }
    }

    fn start_of(&self, region: &BoundingBox) -> u64 {
        region.offset.iter().zip(&self.bound.frame).fold(0, |start, (o, extent)| start * extent + o)
    }

    /// Reads the data needed to decide a region.
    fn look(&mut self, region: &BoundingBox, near: &Near) -> Result<Vec<u8>> {
        let mut masks = self.bound.paint(region, near);
        let n = region.elements().unwrap_or(0) as usize;
        let mut all = combined(&self.bound.root, &masks, n);
        let Bound { root, leaves, groups, .. } = &mut self.bound;
        for group in groups.iter() {
            if !all.contains(&MAYBE) {
                break;
            }
            resolve(leaves, group, &self.reader, region, &near[group[0]], &all, &mut masks)?;
            all = combined(root, &masks, n);
        }
        Ok(all)
    }
}

/// A region in two halves along its slowest dimension that can be cut. Both stay runs of places: all faster
/// dimensions are whole.
fn halves(region: &BoundingBox) -> (BoundingBox, BoundingBox) {
    let d = region.count.iter().position(|n| *n > 1).unwrap_or(0);
    let (mut first, mut second) = (region.clone(), region.clone());
    first.count[d] = region.count[d] / 2;
    second.count[d] -= first.count[d];
    second.offset[d] += first.count[d];
    (first, second)
}
