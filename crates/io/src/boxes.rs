//! The boxes of variables that an output holds: if a program writes one again, the last value counts.
//!
//! A scalar or text has as many places as its group has definitions of its name, mostly one; they are filled in order, and what is
//! written then takes the last one. The place of a global array's block is its box. Blocks of local and joined arrays have no place:
//! each stays a block of its own, even with equal extents. So does a block without elements.

use hashbrown::HashMap;
use std::sync::Arc;
use thalweg_bp::shape::{JOINED, Shape};
use thalweg_movement::{BlockSpec, Pack};
use thalweg_types::{ElementType, Error, ErrorKind, Result};

/// A variable's name in the file, and the block's shape; `None` for scalars and texts.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct BoxKey {
    path: Arc<str>,
    name: Arc<str>,
    /// Its extents, those of the array, and its offset, one after the other.
    shape: Option<Box<[u64]>>,
    /// Which of several places of a scalar or text.
    nth: usize,
}

/// The places that an output has filled, and the numbers of their blocks in its pack.
#[derive(Default)]
pub(crate) struct Boxes {
    numbers: HashMap<BoxKey, usize>,
    /// Type and number of dimensions of the first block under a path and name.
    kinds: HashMap<(Arc<str>, Arc<str>), Kind>,
    /// Scalars and texts that are defined several times, by path and name.
    several: HashMap<(Arc<str>, Arc<str>), Several>,
}

/// How often a scalar or text is defined, and how many of these places are filled.
struct Several {
    definitions: usize,
    filled: usize,
}

/// Type of the elements, and number of dimensions; `None` for scalars and texts.
type Kind = (ElementType, Option<usize>);

impl Boxes {
    /// Refuses a block whose type or number of dimensions differs from earlier blocks of its name: readers would see only
    /// one of them.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check_kind(&mut self, spec: &BlockSpec) -> Result<()> {
        let own = (spec.element, spec.shape.as_ref().map(Shape::rank));
        let known = *self.kinds.entry((spec.path.clone(), spec.name.clone())).or_insert(own);
        if known == own {
            return Ok(());
        }
        let words = |(element, rank): Kind| match rank {
            None => format!("one {element}"),
            Some(rank) => format!("{element} with {rank} dimensions"),
        };
        let what = format!("it was written as {} in this step, and now as {}", words(known), words(own));
        Err(Error::new(ErrorKind::InvalidArgument, what))
    }

    /// Call before a scalar or text is written that its group defines so many times.
    pub(crate) fn defined(&mut self, spec: &BlockSpec, definitions: usize) {
        if definitions > 1 {
            let known = self.several.entry((spec.path.clone(), spec.name.clone()));
            known.or_insert(Several { definitions, filled: 0 }).definitions = definitions;
        }
    }

    /// The key of a block that a later one can replace; `None`: no block replaces it.
    pub(crate) fn key(&self, spec: &BlockSpec) -> Option<BoxKey> {
        let in_an_array =
            |shape: &&Shape| shape.is_global() && !shape.global.contains(&JOINED) && !shape.local.contains(&0);
        let (shape, nth) = match &spec.shape {
            Some(shape) => {
                let Shape { local, global, offset } = Some(shape).filter(in_an_array)?;
                (Some([local.as_slice(), global, offset].concat().into()), 0)
            }
            None if self.several.is_empty() => (None, 0),
            None => {
                let several = self.several.get(&(spec.path.clone(), spec.name.clone()));
                (None, several.map_or(0, |s| s.filled.min(s.definitions - 1)))
            }
        };
        Some(BoxKey { path: spec.path.clone(), name: spec.name.clone(), shape, nth })
    }

    /// The number of the block with this key.
    pub(crate) fn find(&self, key: &BoxKey) -> Option<usize> {
        self.numbers.get(key).copied()
    }

    /// Notes the last block of the pack.
    pub(crate) fn note_last(&mut self, key: Option<BoxKey>, pack: &Pack<'_>) {
        if let (Some(key), Some(last)) = (key, pack.block_count().checked_sub(1)) {
            if key.shape.is_none()
                && let Some(several) = self.several.get_mut(&(key.path.clone(), key.name.clone()))
            {
                several.filled = several.filled.max(key.nth + 1);
            }
            self.numbers.insert(key, last);
        }
    }

    /// Call after a block was removed from the pack: the numbers of later blocks have decreased by one.
    pub(crate) fn withdrawn(&mut self, number: usize) {
        self.numbers.retain(|_, known| *known != number);
        self.numbers.values_mut().filter(|known| **known > number).for_each(|known| *known -= 1);
    }
}
