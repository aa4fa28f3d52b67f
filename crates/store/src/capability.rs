//! The abilities of a store, as data that layouts read when they are configured.

/// How safely a rename replaces the object at the new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rename {
    /// Readers see the old object or the new one, never neither.
    Atomic,
    /// Readers see the old object or the new one, never neither. The object is copied and then removed at the old name; a crash in
    /// between leaves both names.
    Copy,
    /// Readers may find neither for a moment.
    Gap,
    /// No rename.
    None,
}

/// Durability of bytes once `sync` has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Bytes survive a power cut.
    Device,
    /// Several machines have the bytes.
    Pipeline,
    /// `sync` promises nothing; the service has the bytes of closed objects.
    AtClose,
    /// Bytes end with the process.
    None,
}

/// When written bytes become visible to readers that open the object afterwards. A reader that has the object open may continue
/// to see the bytes from its open, unless bytes are visible `AtWrite` and objects do not [move](Capability::moves). Each promise
/// includes the earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Visible {
    /// Once `close` has returned.
    AtClose,
    /// Once `sync` has returned.
    AtSync,
    /// Once the write has returned.
    AtWrite,
}

/// Whether a list includes the latest changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListConsistency {
    /// A list includes all earlier closes, renames and removals.
    Strong,
    /// A list may lack recent changes.
    Eventual,
}

/// The abilities of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// Bytes can be written at any offset of an open object, and read back from it. Otherwise writes append, one after the other,
    /// and `Replace` makes another object instead of truncating.
    pub write_at: bool,
    /// A closed object can be reopened and extended.
    pub append: bool,
    /// Objects can be truncated.
    pub truncate: bool,
    /// Space inside an object can be freed.
    pub punch: bool,
    /// How renames of objects behave.
    pub rename: Rename,
    /// Folders can be renamed with their contents, as safely as objects; an empty folder at the new name is replaced.
    pub rename_folder: bool,
    /// Durability of bytes once `sync` has returned.
    pub durability: Durability,
    /// When written bytes become visible.
    pub visible: Visible,
    /// A name appears when its object is closed. An object dropped without a close leaves nothing, and the object that it was to
    /// replace stays.
    pub whole: bool,
    /// Of several writers that open one name with [`OpenWrite::New`](crate::OpenWrite::New) at the same time, one succeeds; the
    /// others get `AlreadyExists` from open, at the latest from close.
    pub exclusive: bool,
    /// Whether lists include the latest changes.
    pub list: ListConsistency,
    /// Modes, owners, times, symbolic links and extended attributes are kept: see [`attributes`](crate::attributes).
    pub attributes: bool,
    /// Modes, owners and times (to the millisecond) are kept, with or without [`attributes`](Capability::attributes).
    pub modes: bool,
    /// Closed objects move between stores (a burst buffer): until then only the node that wrote an object can open it, and a reader
    /// that opened it before continues to read the old copy, whatever is written to the object afterwards.
    pub moves: bool,
    /// Largest object, in bytes.
    pub largest_object: u64,
}

impl Capability {
    /// No abilities: the base of a store's description.
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
        moves: false,
        largest_object: u64::MAX,
    };
}
