//! Settings of a mount: what the kernel caches, and for how long.

use std::time::Duration;
use thalweg_layout::Layout;

/// What the kernel caches of a file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Read bytes, until the file is opened again; writes go to the layout immediately.
    Through,
    /// Read and written bytes, until a sync, a close or eviction. Nothing but this mount may write.
    Writeback,
    /// Passthrough: the kernel reads and writes the underlying file itself.
    Passthrough,
}

/// Settings of a mount.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the kernel caches.
    pub cache: Cache,
    /// How long the kernel caches names and attributes.
    pub timeout: Duration,
    /// Threads that serve the kernel's requests.
    pub threads: usize,
    /// The name in `df` and `mount`.
    pub name: String,
    /// Other users have access, as modes and owners allow.
    pub others: bool,
    /// Locks are shared with other doors and machines; else the kernel keeps them within this mount.
    pub locks: bool,
}

impl Settings {
    /// The defaults for a layout: passthrough if its files are files of this machine and the process is root, writeback for memory of
    /// this process, which no other process can write, else `Through`.
    pub fn of(layout: &dyn Layout, root: bool) -> Settings {
        let about = layout.describe();
        let cache = match () {
            () if layout.plain_file("").is_some() && root => Cache::Passthrough,
            () if about.starts_with("direct over memory:") => Cache::Writeback,
            () => Cache::Through,
        };
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Settings {
            cache,
            timeout: Duration::from_secs(1),
            threads: (2 * cores).clamp(4, 16),
            name: "thalweg".into(),
            others: root,
            locks: !about.starts_with("direct over memory:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use thalweg_layout::{Container, Direct, container::Options};
    use thalweg_store::{Memory, Posix};

    #[test]
    fn the_kernel_keeps_writes_only_where_nobody_else_can_write() {
        let folder = tempfile::tempdir().unwrap();
        let posix = Direct::new(Arc::new(Posix::at(folder.path()).unwrap())).unwrap();
        assert_eq!(Settings::of(&posix, true).cache, Cache::Passthrough);
        assert_eq!(Settings::of(&posix, false).cache, Cache::Through);
        let memory = Direct::new(Arc::new(Memory::new())).unwrap();
        assert_eq!(Settings::of(&memory, true).cache, Cache::Writeback);
        let posix = Container::new(vec![Arc::new(Posix::at(folder.path()).unwrap())], Options::default()).unwrap();
        assert_eq!(Settings::of(&posix, true).cache, Cache::Through);
    }
}
