//! Results of a query in pages: blocks that may match, or elements that do; the box or block that contains them; values at them.

use crate::comparison::strided;
use crate::{Comparison, Evaluation, NonFinite, Query};
use thalweg_reader::{Kind, Reader};
use thalweg_types::bounding_box::{copy_shared, elements};
use thalweg_types::{BoundingBox, Error, ErrorKind, Result, Selection};

/// The kind of results that a query returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultKind {
    /// Numbers of the blocks that may match by their characteristics, which exclude NaN and infinities. No value is read.
    Blocks,
    /// The positions of the elements that match.
    Places,
}

/// A page of results.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Numbers of blocks within the step, ascending.
    pub blocks: Vec<u64>,
    /// Positions in the selection, ascending, as in [`crate::Batch`].
    pub places: Vec<u64>,
    /// Whether more results follow.
    pub more: bool,
}

enum Found {
    Blocks { all: Vec<u64>, next: usize },
    Places(Box<Evaluation>),
}

/// The results of a query at one step, page by page.
pub struct Results {
    found: Found,
    container: Option<Selection>,
    /// The first comparison's selection consists of points.
    of_points: bool,
    elements: u64,
}

impl Query {
    /// Binds the query to a step, or to the step of its first comparison if that has one.
    ///
    /// # Errors
    /// As [`Query::evaluate`].
    /// # Cost
    /// Finds all blocks here, from characteristics; elements are found by [`Results::next_page`].
    pub fn results(&self, reader: &Reader, step: u64, kind: ResultKind) -> Result<Results> {
        let comparisons = self.comparisons();
        let first = comparisons
            .first()
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "a query without a comparison"))?;
        let step = first.step.unwrap_or(step);
        let extents = first.extents(reader, step)?;
        let found = match kind {
            ResultKind::Blocks => {
                let candidates = self.blocks(reader, step, NonFinite::Left)?;
                Found::Blocks { all: candidates.into_iter().map(|c| c.block).collect(), next: 0 }
            }
            ResultKind::Places => Found::Places(Box::new(self.evaluate(reader, step)?)),
        };
        let size = extents.as_deref().and_then(elements).unwrap_or(1);
        let container = match (kind, &first.selection) {
            (ResultKind::Blocks, _) | (_, Selection::Points(_)) => None,
            (_, Selection::All) => match reader.variable(&first.variable)?.kind {
                Kind::Scalar => None,
                Kind::Local => Some(Selection::Block(0)),
                _ => extents.map(|shape| Selection::Box(BoundingBox::whole(&shape))),
            },
            (_, selection) => match reader.variable(&first.variable)?.kind {
                Kind::Scalar => None,
                _ => Some(selection.clone()),
            },
        };
        let of_points = matches!(first.selection, Selection::Points(_));
        Ok(Results { found, container, of_points, elements: size })
    }
}

impl Results {
    /// Number of elements of the first comparison's selection; 1 for all blocks of a local array.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// The box or block of the first variable that positions refer to; `None` for blocks, points and scalars.
    pub fn container(&self) -> Option<&Selection> {
        self.container.as_ref()
    }

    /// Number of results returned so far.
    pub fn found(&self) -> u64 {
        match &self.found {
            Found::Blocks { next, .. } => *next as u64,
            Found::Places(evaluation) => evaluation.found(),
        }
    }

    /// Total number of results if known: for blocks.
    pub fn total(&self) -> Option<u64> {
        match &self.found {
            Found::Blocks { all, .. } => Some(all.len() as u64),
            Found::Places(_) => None,
        }
    }

    /// A place as an index in the array of the first variable, as [`Evaluation::index_of`]; empty for blocks.
    pub fn index_of(&self, place: u64) -> Vec<u64> {
        match &self.found {
            Found::Blocks { .. } => Vec::new(),
            Found::Places(evaluation) => evaluation.index_of(place),
        }
    }

    /// Places as coordinates, and the number of coordinates of each: of a selection of points, indexes in the variable's array; else
    /// row-major offsets in the selection.
    pub fn coordinates(&self, places: &[u64]) -> (usize, Vec<u64>) {
        if !self.of_points {
            return (1, places.to_vec());
        }
        let all: Vec<Vec<u64>> = places.iter().map(|place| self.index_of(*place)).collect();
        (all.first().map_or(1, Vec::len), all.concat())
    }

    /// The next results, no more than `most` of them.
    ///
    /// # Errors
    /// As [`Evaluation::next_batch`].
    /// # Cost
    /// Blocks: reads nothing. Elements: as [`Evaluation::next_batch`].
    pub fn next_page(&mut self, most: u64) -> Result<Page> {
        match &mut self.found {
            Found::Blocks { all, next } => {
                let rest = &all[*next..];
                let n = usize::try_from(most).unwrap_or(usize::MAX).min(rest.len());
                let blocks = rest[..n].to_vec();
                *next += n;
                Ok(Page { blocks, places: Vec::new(), more: *next < all.len() })
            }
            Found::Places(evaluation) => {
                let batch = evaluation.next_batch(most)?;
                Ok(Page { blocks: Vec::new(), places: batch.places, more: batch.more })
            }
        }
    }
}

impl Comparison {
    /// Extents of the selection at a step, in elements; for points, their number. `None` for all blocks of a local array and for
    /// scalars.
    ///
    /// # Errors
    /// As [`Reader::variable`]; `OutOfBounds` for a block that is not there.
    pub fn extents(&self, reader: &Reader, step: u64) -> Result<Option<Vec<u64>>> {
        Ok(match &self.selection {
            Selection::All if matches!(reader.variable(&self.variable)?.kind, Kind::Local | Kind::Scalar) => None,
            Selection::All => Some(reader.shape(&self.variable, step)?),
            Selection::Box(b) => Some(b.count.clone()),
            Selection::Strided { .. } => return Err(strided()),
            Selection::Points(points) => Some(vec![points.len() as u64]),
            Selection::Block(n) => Some(block(reader, &self.variable, step, *n)?.count),
        })
    }
}

impl Comparison {
    /// Checks that the selections of two comparisons have the same extents, each at its own step or else at `step`: then results of
    /// one can be expressed in the selection of the other.
    ///
    /// # Errors
    /// `InvalidArgument` if both selections have extents and the extents differ; as [`Comparison::extents`].
    pub fn check_extents(&self, other: &Comparison, reader: &Reader, step: u64) -> Result<()> {
        let own = self.extents(reader, self.step.unwrap_or(step))?;
        let others = other.extents(reader, other.step.unwrap_or(step))?;
        match (own, others) {
            (Some(own), Some(others)) if own != others => {
                let what = format!(
                    "{}: a selection of the extents {others:?}, the query's selection has {own:?}",
                    self.variable
                );
                Err(Error::new(ErrorKind::InvalidArgument, what))
            }
            _ => Ok(()),
        }
    }
}

fn block(reader: &Reader, name: &str, step: u64, number: u64) -> Result<thalweg_reader::Block> {
    reader.block_of_step(name, step, number)?.ok_or_else(|| {
        let what = format!("{name} has no block {number} at step {step}");
        Error::new(ErrorKind::OutOfBounds, what)
    })
}

/// Copies the values of a variable inside `results` into the box `to`, which `out` holds row-major; elements outside both stay
/// as they were.
///
/// - `results`: blocks or points, as a query has found them, or a box; blocks of local arrays begin at 0.
///
/// # Errors
/// `InvalidArgument` where results and box have another number of dimensions; `OutOfBounds` for a block that is not there;
/// as [`Reader::read`].
/// # Cost
/// Reads the intersection of a box with `to`; reads blocks in full if they intersect `to`.
pub fn copy_values(
    reader: &Reader,
    name: &str,
    step: u64,
    results: Selection,
    to: &BoundingBox,
    out: &mut [u8],
) -> Result<()> {
    let same_rank = |n: usize| {
        if n == to.rank() {
            return Ok(());
        }
        let what = format!("{name}: a box of {} dimensions, the results have {n}", to.rank());
        Err(Error::new(ErrorKind::InvalidArgument, what))
    };
    let size = reader.variable(name)?.element.size() as usize;
    match results {
        Selection::Points(points) => {
            let mut inside = Vec::new();
            let mut places = Vec::new();
            for point in points {
                same_rank(point.len())?;
                let bounds = || to.offset.iter().zip(&to.count);
                if point.iter().zip(bounds()).all(|(p, (o, c))| p >= o && p - o < *c) {
                    places.push(point.iter().zip(bounds()).fold(0, |at, (p, (o, c))| at * c + (p - o)) as usize);
                    inside.push(point);
                }
            }
            let values = reader.read_to_vec(name, step, &Selection::Points(inside))?;
            for (value, place) in values.chunks_exact(size.max(1)).zip(places) {
                out[place * size..(place + 1) * size].copy_from_slice(value);
            }
        }
        Selection::Block(number) => {
            let from = block(reader, name, step, number)?.as_box();
            same_rank(from.rank())?;
            if from.intersect(to).is_some() {
                let values = reader.read_to_vec(name, step, &Selection::Block(number))?;
                copy_shared(&from, &values, to, out, size);
            }
        }
        Selection::Strided { .. } => return Err(strided()),
        Selection::Box(_) | Selection::All => {
            let from = match results {
                Selection::Box(from) => from,
                _ => BoundingBox::whole(&reader.shape(name, step)?),
            };
            same_rank(from.rank())?;
            if let Some(shared) = from.intersect(to) {
                let values = reader.read_to_vec(name, step, &Selection::Box(shared.clone()))?;
                copy_shared(&shared, &values, to, out, size);
            }
        }
    }
    Ok(())
}
