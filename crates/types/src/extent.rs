//! Extents: runs of bytes in a file.

/// A run of bytes: where it starts and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

impl Extent {
    /// A run of `length` bytes from `offset`.
    pub const fn new(offset: u64, length: u64) -> Extent {
        Extent { offset, length }
    }

    /// First byte after the run; `None` if it exceeds 64 bits.
    pub const fn end(self) -> Option<u64> {
        self.offset.checked_add(self.length)
    }

    /// Whether the two runs share a byte.
    pub fn meets(self, other: Extent) -> bool {
        self.length > 0
            && other.length > 0
            && self.offset < other.end().unwrap_or(u64::MAX)
            && other.offset < self.end().unwrap_or(u64::MAX)
    }
}
