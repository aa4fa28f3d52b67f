//! What a filesystem knows about an object beside its bytes: mode, owner, times, links.
//!
//! Stores whose [`Capability::attributes`](crate::Capability::attributes) is set keep them; for the others a layout may.

use std::time::SystemTime;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An object.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
}

/// What is known about an object, folder or symbolic link (itself, not what it leads to).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub kind: Kind,
    /// Bytes; for a link, of its target's name; 0 for folders.
    pub length: u64,
    /// Permissions and the bits above them, without the kind: `0o7777`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Owner's group.
    pub gid: u32,
    /// Last read.
    pub atime: SystemTime,
    /// Last write.
    pub mtime: SystemTime,
    /// Last change of anything.
    pub ctime: SystemTime,
    /// Names of it.
    pub links: u64,
    /// As [`Stat::identity`](crate::Stat::identity).
    pub identity: u64,
}

/// What to change; `None` leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change {
    /// Permissions: `0o7777`.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Owner's group.
    pub gid: Option<u32>,
    /// Last read.
    pub atime: Option<SystemTime>,
    /// Last write.
    pub mtime: Option<SystemTime>,
}

/// Space below a folder, in bytes and in numbers of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes free.
    pub free: u64,
    /// Bytes free for this user.
    pub available: u64,
    /// Objects in all; 0 where they are not counted.
    pub objects: u64,
    /// Objects that can still be made.
    pub objects_free: u64,
}

/// How an extended attribute is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetXattr {
    /// Make it or replace it.
    Any,
    /// `AlreadyExists` where there is one.
    New,
    /// `NotFound` where there is none.
    Existing,
}
