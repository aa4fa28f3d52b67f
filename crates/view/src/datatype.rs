//! Datatypes as trees, the way MPI's constructors make them.
//!
//! Source: MPI 4.1, chapter 5 (derived datatypes). Displacements and extents are in bytes, unless said otherwise.

use crate::pattern::{Node, Pattern};
use thalweg_types::{Error, ErrorKind, Result};

/// Order of an array's dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The last dimension is contiguous (`MPI_ORDER_C`).
    C,
    /// The first dimension is contiguous (`MPI_ORDER_FORTRAN`).
    Fortran,
}

/// How one dimension of a distributed array is divided among processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// Not divided (`MPI_DISTRIBUTE_NONE`); its process count is 1.
    None,
    /// One block per process (`MPI_DISTRIBUTE_BLOCK`); `None`: as even as possible.
    Block(Option<u64>),
    /// Blocks of this size in turn (`MPI_DISTRIBUTE_CYCLIC`); `None`: 1.
    Cyclic(Option<u64>),
}

/// Consecutive instances of a type in an indexed type or a struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Number of instances.
    pub count: u64,
    /// Displacement of the first one: in extents of the type, or in bytes, as the constructor says.
    pub displacement: i64,
}

/// A datatype.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datatype {
    /// A predefined type of so many bytes (`MPI_INT`, `MPI_BYTE`, those of `MPI_Type_create_f90_real`). Pair types with a gap, as
    /// `MPI_DOUBLE_INT`, are a [`Datatype::Struct`].
    Elementary(u64),
    /// `MPI_Type_dup`.
    Dup(Box<Datatype>),
    /// `MPI_Type_contiguous`.
    Contiguous {
        /// Number of instances.
        count: u64,
        /// Their type.
        of: Box<Datatype>,
    },
    /// `MPI_Type_vector`: the stride in extents of the type.
    Vector {
        /// Number of blocks.
        count: u64,
        /// Instances in each.
        block: u64,
        /// From the start of one block to that of the next.
        stride: i64,
        /// The type.
        of: Box<Datatype>,
    },
    /// `MPI_Type_create_hvector`: the stride in bytes.
    Hvector {
        /// Number of blocks.
        count: u64,
        /// Instances in each.
        block: u64,
        /// From the start of one block to that of the next.
        stride: i64,
        /// The type.
        of: Box<Datatype>,
    },
    /// `MPI_Type_indexed`: displacements in extents of the type.
    Indexed {
        /// The blocks.
        blocks: Vec<Block>,
        /// The type.
        of: Box<Datatype>,
    },
    /// `MPI_Type_create_hindexed`: displacements in bytes.
    Hindexed {
        /// The blocks.
        blocks: Vec<Block>,
        /// The type.
        of: Box<Datatype>,
    },
    /// `MPI_Type_create_indexed_block`: displacements in extents of the type.
    IndexedBlock {
        /// Instances in each block.
        block: u64,
        /// Displacement of each block.
        displacements: Vec<i64>,
        /// The type.
        of: Box<Datatype>,
    },
    /// `MPI_Type_create_hindexed_block`: displacements in bytes.
    HindexedBlock {
        /// Instances in each block.
        block: u64,
        /// Displacement of each block.
        displacements: Vec<i64>,
        /// The type.
        of: Box<Datatype>,
    },
    /// `MPI_Type_create_struct`: displacements in bytes. An MPI may round its extent up to an alignment: state this extent with
    /// [`Datatype::Resized`].
    Struct(Vec<(Block, Datatype)>),
    /// `MPI_Type_create_subarray`.
    Subarray {
        /// Elements of the whole array in each dimension.
        sizes: Vec<u64>,
        /// Elements of the part.
        subsizes: Vec<u64>,
        /// First element of the part.
        starts: Vec<u64>,
        /// Order of the dimensions.
        order: Order,
        /// Type of an element.
        of: Box<Datatype>,
    },
    /// `MPI_Type_create_darray`.
    Darray {
        /// Number of the process; processes are ordered as in `MPI_Cart_create`, whatever the order of the array.
        rank: u64,
        /// Elements of the whole array in each dimension.
        sizes: Vec<u64>,
        /// Distribution of each dimension.
        distributions: Vec<Distribution>,
        /// Processes in each dimension.
        processes: Vec<u64>,
        /// Order of the dimensions.
        order: Order,
        /// Type of an element.
        of: Box<Datatype>,
    },
    /// `MPI_Type_create_resized`.
    Resized {
        /// Lower bound.
        lower: i64,
        /// From the lower to the upper bound.
        extent: i64,
        /// The type.
        of: Box<Datatype>,
    },
}

/// A bound or size beyond 63 bits.
pub(crate) fn too_large() -> Error {
    Error::new(ErrorKind::OutOfBounds, "a datatype covers more than 2^63 bytes")
}

fn signed(n: u64) -> Result<i64> {
    i64::try_from(n).map_err(|_| too_large())
}

fn times(a: i64, b: i64) -> Result<i64> {
    a.checked_mul(b).ok_or_else(too_large)
}

fn refused(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, what)
}

/// Most levels of constructors: each is a level of recursion.
pub const DEEPEST: usize = 200;

impl Datatype {
    /// The normal form.
    ///
    /// # Errors
    /// `OutOfBounds` where a size, bound or stride exceeds 63 bits; `InvalidArgument` for a subarray that leaves its array, a
    /// distributed array whose processes do not hold it or whose rank does not exist, lists of different lengths, and more than 200
    /// levels.
    /// # Cost
    /// Linear in the constructors and their lists of blocks; independent of counts.
    pub fn pattern(&self) -> Result<Pattern> {
        self.normal(0)
    }

    fn normal(&self, depth: usize) -> Result<Pattern> {
        if depth > DEEPEST {
            return Err(refused(format!("a datatype of more than {DEEPEST} levels")));
        }
        let of = |of: &Datatype| of.normal(depth + 1);
        match self {
            Datatype::Elementary(size) => Pattern::contiguous(*size),
            Datatype::Dup(inner) => of(inner),
            Datatype::Contiguous { count, of: inner } => of(inner)?.repeated(*count),
            Datatype::Vector { count, block, stride, of: inner } => {
                let inner = of(inner)?;
                let stride = times(*stride, inner.extent())?;
                inner.repeated(*block)?.strided(*count, stride)
            }
            Datatype::Hvector { count, block, stride, of: inner } => {
                of(inner)?.repeated(*block)?.strided(*count, *stride)
            }
            Datatype::Indexed { blocks, of: inner } => {
                let inner = of(inner)?;
                let unit = inner.extent();
                Pattern::joined(blocks.iter().map(|b| Ok((times(b.displacement, unit)?, inner.repeated(b.count)?))))
            }
            Datatype::Hindexed { blocks, of: inner } => {
                let inner = of(inner)?;
                Pattern::joined(blocks.iter().map(|b| Ok((b.displacement, inner.repeated(b.count)?))))
            }
            Datatype::IndexedBlock { block, displacements, of: inner } => {
                let inner = of(inner)?;
                let (unit, block) = (inner.extent(), inner.repeated(*block)?);
                Pattern::joined(displacements.iter().map(|at| Ok((times(*at, unit)?, block.clone()))))
            }
            Datatype::HindexedBlock { block, displacements, of: inner } => {
                let block = of(inner)?.repeated(*block)?;
                Pattern::joined(displacements.iter().map(|at| Ok((*at, block.clone()))))
            }
            Datatype::Struct(members) => {
                Pattern::joined(members.iter().map(|(b, inner)| Ok((b.displacement, of(inner)?.repeated(b.count)?))))
            }
            Datatype::Subarray { sizes, subsizes, starts, order, of: inner } => {
                subarray(sizes, subsizes, starts, *order, &of(inner)?)
            }
            Datatype::Darray { rank, sizes, distributions, processes, order, of: inner } => {
                darray(*rank, sizes, distributions, processes, *order, &of(inner)?)
            }
            Datatype::Resized { lower, extent, of: inner } => of(inner)?.resized(*lower, *extent),
        }
    }
}

/// The dimensions from the fastest to the slowest.
fn fastest_first(n: usize, order: Order) -> Box<dyn Iterator<Item = usize>> {
    match order {
        Order::C => Box::new((0..n).rev()),
        Order::Fortran => Box::new(0..n),
    }
}

/// The elements of one dimension: `blocks` of (first, count), `step` bytes each.
fn dimension(of: &Pattern, step: i64, blocks: &[(u64, u64)]) -> Result<Pattern> {
    let element = of.resized(0, step)?;
    Pattern::joined(blocks.iter().map(|(first, count)| Ok((times(signed(*first)?, step)?, element.repeated(*count)?))))
}

fn subarray(sizes: &[u64], subsizes: &[u64], starts: &[u64], order: Order, of: &Pattern) -> Result<Pattern> {
    if sizes.is_empty() || sizes.len() != subsizes.len() || sizes.len() != starts.len() {
        return Err(refused(format!(
            "a subarray of {} sizes, {} subsizes and {} starts",
            sizes.len(),
            subsizes.len(),
            starts.len()
        )));
    }
    let (mut part, mut step) = (of.clone(), of.extent());
    for d in fastest_first(sizes.len(), order) {
        if starts[d].checked_add(subsizes[d]).is_none_or(|end| end > sizes[d]) {
            let (start, n, size) = (starts[d], subsizes[d], sizes[d]);
            return Err(refused(format!("{n} elements from {start} leave dimension {d}, which has {size}")));
        }
        part = dimension(&part, step, &[(starts[d], subsizes[d])])?;
        step = times(step, signed(sizes[d])?)?;
    }
    part.resized(0, step)
}

fn darray(
    rank: u64,
    sizes: &[u64],
    distributions: &[Distribution],
    processes: &[u64],
    order: Order,
    of: &Pattern,
) -> Result<Pattern> {
    let n = sizes.len();
    if n == 0 || distributions.len() != n || processes.len() != n {
        return Err(refused(format!(
            "a distributed array of {n} sizes, {} distributions and {} process counts",
            distributions.len(),
            processes.len()
        )));
    }
    let all = processes.iter().try_fold(1u64, |all, p| all.checked_mul(*p)).ok_or_else(too_large)?;
    if rank >= all {
        return Err(refused(format!("rank {rank} of a distributed array on {all} processes")));
    }
    let (mut coordinates, mut left, mut below) = (vec![0; n], rank, all);
    for d in 0..n {
        below /= processes[d];
        (coordinates[d], left) = (left / below, left % below);
    }
    let (mut part, mut step) = (of.clone(), of.extent());
    for d in fastest_first(n, order) {
        let (size, count, at) = (sizes[d], processes[d], coordinates[d]);
        part = match distributions[d] {
            Distribution::None if count != 1 => {
                return Err(refused(format!("dimension {d} is not divided, but has {count} processes")));
            }
            Distribution::None => dimension(&part, step, &[(0, size)])?,
            Distribution::Block(block) => {
                let block = block.unwrap_or_else(|| size.div_ceil(count));
                if block.checked_mul(count).is_some_and(|held| held < size) {
                    return Err(refused(format!("{count} blocks of {block} do not hold dimension {d} of {size}")));
                }
                let first = at.saturating_mul(block).min(size);
                dimension(&part, step, &[(first, block.min(size - first))])?
            }
            Distribution::Cyclic(block) => {
                let block = block.unwrap_or(1);
                let round = block.checked_mul(count).filter(|round| *round > 0).ok_or_else(|| {
                    refused(format!("cyclic blocks of {block} on {count} processes in dimension {d}"))
                })?;
                cyclic(&part, step, size, at * block, block, round)?
            }
        };
        step = times(step, signed(size)?)?;
    }
    part.resized(0, step)
}

/// Blocks of `block` elements at `first`, `first + round`, and so on, in a dimension of `size`; the last one may be cut.
fn cyclic(of: &Pattern, step: i64, size: u64, first: u64, block: u64, round: u64) -> Result<Pattern> {
    let left = size.saturating_sub(first);
    let whole = if left >= block { (left - block) / round + 1 } else { 0 };
    let cut = left.saturating_sub(whole.saturating_mul(round)).min(block);
    let element = of.resized(0, step)?;
    let (start, stride) = (times(signed(first)?, step)?, times(signed(round)?, step)?);
    let blocks = element.repeated(block)?.strided(whole, stride)?;
    let behind = start.checked_add(times(stride, signed(whole)?)?).ok_or_else(too_large)?;
    Pattern::joined([Ok((start, blocks)), Ok((behind, element.repeated(cut)?))])
}

impl Pattern {
    /// `size` consecutive bytes.
    fn contiguous(size: u64) -> Result<Pattern> {
        let extent = signed(size)?;
        Ok(Pattern { node: Node::bytes(0, size).moved(0)?, lower: 0, upper: extent })
    }

    /// Consecutive instances.
    fn repeated(&self, count: u64) -> Result<Pattern> {
        self.strided(count, self.extent())
    }

    /// Instances at multiples of `stride` bytes.
    fn strided(&self, count: u64, stride: i64) -> Result<Pattern> {
        if count == 0 || self.is_nothing() {
            return Pattern::contiguous(0);
        }
        let last = times(stride, signed(count - 1)?)?;
        let bound = |at: i64, by: i64| at.checked_add(by).ok_or_else(too_large);
        Ok(Pattern {
            node: Node::repeat(&self.node, count, stride)?,
            lower: bound(self.lower, last.min(0))?,
            upper: bound(self.upper, last.max(0))?,
        })
    }

    /// Patterns at displacements, in this order. Patterns of count 0 have no bounds.
    fn joined(members: impl IntoIterator<Item = Result<(i64, Pattern)>>) -> Result<Pattern> {
        let mut nodes = Vec::new();
        let mut bounds: Option<(i64, i64)> = None;
        for member in members {
            let (at, pattern) = member?;
            if pattern.is_nothing() {
                continue;
            }
            let moved = |bound: i64| bound.checked_add(at).ok_or_else(too_large);
            let (lower, upper) = (moved(pattern.lower)?, moved(pattern.upper)?);
            bounds = Some(bounds.map_or((lower, upper), |b| (b.0.min(lower), b.1.max(upper))));
            nodes.push(pattern.node.moved(at)?);
        }
        let (lower, upper) = bounds.unwrap_or((0, 0));
        Ok(Pattern { node: Node::sequence(nodes)?, lower, upper })
    }

    /// With other bounds.
    pub(crate) fn resized(&self, lower: i64, extent: i64) -> Result<Pattern> {
        let upper = lower.checked_add(extent).ok_or_else(too_large)?;
        Ok(Pattern { node: self.node.clone(), lower, upper })
    }
}
