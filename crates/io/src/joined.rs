//! Joined arrays: the blocks of all ranks are concatenated at close, in the order of ranks and, on a rank, in the order of writes.
//!
//! Before close, such a block has the mark of ADIOS 1.x ([`JOINED`]); close assigns its offset and the global extent. So files contain
//! plain global arrays, which every reader knows.
//!
//! | when | communication |
//! |---|---|
//! | open | the joined arrays, in the reduction of every open |
//! | write | none |
//! | close | one scan per joined array, and one reduction; none if the group has no joined array |

use std::hash::{DefaultHasher, Hash, Hasher};
use thalweg_bp::shape::{JOINED, Shape};
use thalweg_comm::agreement::agree;
use thalweg_comm::{Communicator, Reduce};
use thalweg_movement::Pack;
use thalweg_schema::Group;
use thalweg_schema::dimension::Dimension;
use thalweg_types::{Error, ErrorKind, Result};

/// Requirements of an output: all ranks meet them if one rank has them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Requirements {
    /// A profile.
    pub profile: bool,
    /// Full consistency: [`crate::consistency`].
    pub comparison: bool,
    /// A method ends outputs later: [`crate::in_flight`].
    pub later: bool,
    /// Number of the output, where others can change what is written: the largest counts.
    pub number: u64,
    /// A rule has seen other values than before, which ranks exchange next: [`thalweg_control::rules`].
    pub news: bool,
    /// Length of a change of what is written, which rank 0 sends next: [`crate::steering`].
    pub change: u64,
}

/// Agrees on an open, and that all ranks know the same joined arrays and rules, in one reduction.
///
/// - `alike`: of this rank, and the same on all: its joined arrays, and the rules that it follows; `wanted`: this rank's.
///
/// Returns the requirements of all ranks together.
pub(crate) fn agree_on_open(
    comm: &dyn Communicator,
    own: Result<()>,
    doing: &str,
    alike: &[String],
    wanted: Requirements,
) -> Result<Requirements> {
    let mut hasher = DefaultHasher::new();
    alike.hash(&mut hasher);
    let digest = if alike.is_empty() { 0 } else { hasher.finish() };
    let flags = [wanted.profile, wanted.comparison, wanted.later, wanted.news].map(u64::from);
    let values = [digest, !digest, flags[0], flags[1], flags[2], flags[3], wanted.number, wanted.change];
    let agreed = agree(comm, own, doing, &values)?;
    match agreed.as_slice() {
        [largest, not_smallest, profile, comparison, later, news, number, change] if *largest == !*not_smallest => {
            Ok(Requirements {
                profile: *profile > 0,
                comparison: *comparison > 0,
                later: *later > 0,
                news: *news > 0,
                number: *number,
                change: *change,
            })
        }
        _ => Err(Error::new(ErrorKind::Config, "ranks have declared different joined arrays, or different rules")
            .at_rank(comm.rank())),
    }
}

/// The joined arrays of a group, by full name.
pub(crate) fn arrays(group: &Group) -> Vec<String> {
    let joined = group.variables.iter().filter(|v| v.global.contains(&Dimension::Joined));
    let mut names: Vec<String> = joined.map(|v| v.full_name()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

struct Block {
    array: usize,
    /// In the pack.
    number: usize,
    dimension: usize,
    extent: u64,
}

/// The joined arrays of an output and the blocks of them that this rank has written.
#[derive(Default)]
pub(crate) struct Joins {
    arrays: Vec<String>,
    /// Under which path each was written first.
    paths: Vec<Option<String>>,
    blocks: Vec<Block>,
}

impl Joins {
    /// Of the arrays that all ranks agreed on.
    pub(crate) fn new(arrays: Vec<String>) -> Joins {
        Joins { paths: vec![None; arrays.len()], arrays, blocks: Vec::new() }
    }

    /// Notes the block that comes next in the pack, where its shape is joined.
    ///
    /// - `full`: as declared; `path`: under which it is stored; `number`: in the pack.
    ///
    /// # Errors
    /// `Unsupported` where the array was declared after the output was opened, or is written under several paths.
    pub(crate) fn note(&mut self, full: &str, path: &str, shape: Option<&Shape>, number: usize) -> Result<()> {
        // A block that was refused here before does not exist.
        self.blocks.retain(|b| b.number < number);
        let dimension = shape.and_then(|s| s.global.iter().position(|g| *g == JOINED));
        let (Some(shape), Some(dimension)) = (shape, dimension) else { return Ok(()) };
        let unsupported = |what: &str| Err(Error::new(ErrorKind::Unsupported, what));
        let Ok(array) = self.arrays.binary_search_by(|name| name.as_str().cmp(full)) else {
            return unsupported("a joined array that was declared after the output was opened");
        };
        if self.paths[array].get_or_insert_with(|| path.to_string()) != path {
            return unsupported("a joined array under several paths in one output");
        }
        self.blocks.push(Block { array, number, dimension, extent: shape.local[dimension] });
        Ok(())
    }

    /// Call after a block was removed from the pack: the numbers of later blocks have decreased by one.
    pub(crate) fn withdrawn(&mut self, number: usize) {
        self.blocks.iter_mut().filter(|b| b.number > number).for_each(|b| b.number -= 1);
    }

    /// Collective if the group has joined arrays: assigns the offset of each block. `failed`: this rank's blocks will be
    /// missing.
    ///
    /// # Errors
    /// A lost rank; `OutOfBounds` where an array is longer than 64 bits count.
    pub(crate) fn settle(&mut self, comm: &dyn Communicator, pack: &mut Pack<'_>, failed: bool) -> Result<()> {
        if self.arrays.is_empty() {
            return Ok(());
        }
        let written = pack.block_count();
        self.blocks.retain(|b| !failed && b.number < written);
        let mut own = vec![0u64; self.arrays.len()];
        let mut long = false;
        for b in &self.blocks {
            // Sums over ranks must not wrap either.
            long |= b.extent >= 1 << 40;
            own[b.array] = own[b.array].saturating_add(b.extent);
        }
        if long {
            own.fill(0);
        }
        let before = own.iter().map(|n| comm.exclusive_scan(*n)).collect::<Result<Vec<u64>>>()?;
        let whole = comm.all_reduce(&own, Reduce::Sum)?;
        if long {
            return Err(Error::new(
                ErrorKind::OutOfBounds,
                "a block of more than 2^40 elements along a joined dimension",
            ));
        }
        let mut next = before;
        for b in &self.blocks {
            pack.set_place(b.number, b.dimension, next[b.array], whole[b.array]);
            next[b.array] += b.extent;
        }
        Ok(())
    }
}
