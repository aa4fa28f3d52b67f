//! What a store can do, as data that layouts read when they are configured.

/// How safely a rename replaces what was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rename {
    /// Readers see the old object or the new one, never neither.
    Atomic,
    /// There may be a moment with neither.
    Gap,
    /// No rename at all.
    None,
}

/// What `sync` promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Bytes survive a power cut.
    Device,
    /// Bytes are held by several machines.
    Pipeline,
    /// Bytes are gone with the process.
    None,
}

/// The abilities of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// Bytes can be written at any offset of an open object.
    pub write_at: bool,
    /// A closed object can be opened again and extended.
    pub append: bool,
    /// Objects can be cut.
    pub truncate: bool,
    /// Space inside an object can be given back.
    pub punch: bool,
    /// How renames behave.
    pub rename: Rename,
    /// What `sync` promises.
    pub durability: Durability,
    /// Largest object, in bytes.
    pub largest_object: u64,
}

impl Capability {
    /// Nothing: where a store's description starts.
    pub const NONE: Capability = Capability {
        write_at: false,
        append: false,
        truncate: false,
        punch: false,
        rename: Rename::None,
        durability: Durability::None,
        largest_object: u64::MAX,
    };
}
