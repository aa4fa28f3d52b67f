//! Metadata of objects and folders: mode, owner, times, links.
//!
//! Kept by stores with [`Capability::attributes`](crate::Capability::attributes); modes, owners and times also by stores with
//! [`Capability::modes`](crate::Capability::modes). Over other stores a layout may keep them.

use std::time::SystemTime;

/// Kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An object.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
}

/// Metadata of an object, folder or symbolic link (the link itself, not its target).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// Its kind.
    pub kind: Kind,
    /// Bytes; of a symbolic link, those of its target's name; 0 for folders.
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
    /// Last change of bytes or metadata.
    pub ctime: SystemTime,
    /// Number of hard links.
    pub links: u64,
    /// As [`Stat::identity`](crate::Stat::identity).
    pub identity: u64,
}

/// Attributes to change; `None` leaves the value.
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
    /// Objects in all; 0 where the filesystem does not count them.
    pub objects: u64,
    /// Objects that can still be made.
    pub objects_free: u64,
}

/// How to set an extended attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetXattr {
    /// Make or replace the attribute.
    Any,
    /// Make the attribute; `AlreadyExists` if the key is taken.
    New,
    /// Replace the attribute; `NotFound` if the key is missing.
    Existing,
}
