//! What a store can do, as data that layouts read when they are configured.

/// How safely a rename replaces what was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rename {
    /// Readers see the old object or the new one, never neither.
    Atomic,
    /// Readers see the old object or the new one, never neither, but the old name lasts a while longer (for good, where the
    /// process dies meanwhile). Costs a copy.
    Copy,
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
    /// `sync` promises nothing; what is closed is held by the service.
    AtClose,
    /// Bytes are gone with the process.
    None,
}

/// When readers see what was written: those that open the object afterwards; one that is open already may go on seeing
/// what was there when it was opened, unless it is `AtWrite`. Each promise includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Visible {
    /// Once `close` has returned.
    AtClose,
    /// Once `sync` has returned.
    AtSync,
    /// At once.
    AtWrite,
}

/// Whether a list tells what just happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListConsistency {
    /// What was closed, renamed or removed before is told.
    Strong,
    /// It may be told later.
    Eventual,
}

/// The abilities of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// Bytes can be written at any offset of an open object, and read back from it. Without: only at its end, one
    /// write behind the other, and an object is replaced by another rather than emptied.
    pub write_at: bool,
    /// A closed object can be opened again and extended.
    pub append: bool,
    /// Objects can be cut.
    pub truncate: bool,
    /// Space inside an object can be given back.
    pub punch: bool,
    /// How renames of objects behave.
    pub rename: Rename,
    /// Folders can be renamed with all that is in them, as safely as objects; an empty one at the new name is replaced.
    pub rename_folder: bool,
    /// What `sync` promises.
    pub durability: Durability,
    /// When readers see what was written.
    pub visible: Visible,
    /// A name is there only once its object was closed; one dropped without leaves nothing, and what it was to replace
    /// stays.
    pub whole: bool,
    /// Of several writers that open one name with [`OpenWrite::New`](crate::OpenWrite::New) at once, one succeeds; the
    /// others get `AlreadyExists` when they open, or at the latest when they close.
    pub exclusive: bool,
    /// Whether lists tell what just happened.
    pub list: ListConsistency,
    /// Modes, owners, times, symbolic links and extended attributes are kept: see [`attributes`](crate::attributes).
    pub attributes: bool,
    /// Modes, owners and times (to the millisecond) are kept, where [`attributes`](Capability::attributes) is set or not.
    pub modes: bool,
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
        rename_folder: false,
        durability: Durability::None,
        visible: Visible::AtClose,
        whole: false,
        exclusive: false,
        list: ListConsistency::Eventual,
        attributes: false,
        modes: false,
        largest_object: u64::MAX,
    };
}
