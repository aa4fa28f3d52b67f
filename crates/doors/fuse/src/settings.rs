//! How a mount is held: what the kernel keeps, and for how long.

use std::time::Duration;
use thalweg_layout::Layout;

/// What the kernel keeps of a file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// What was read, until the file is opened again; writes go through at once.
    Through,
    /// What was read and written, until it is synced, closed or needed elsewhere. Others than this mount must not write.
    Writeback,
    /// The kernel reads and writes the file below itself.
    Passthrough,
}

/// How a mount is held.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the kernel keeps.
    pub cache: Cache,
    /// How long names and attributes hold in the kernel.
    pub timeout: Duration,
    /// Threads that answer the kernel.
    pub threads: usize,
    /// What `df` and `mount` show.
    pub name: String,
    /// Other users may come in: what modes and owners allow them.
    pub others: bool,
    /// Locks are taken where other doors and machines meet them; otherwise the kernel keeps those of this mount.
    pub locks: bool,
}

impl Settings {
    /// What suits a layout: passthrough where its files are files of this machine and the process is root, writeback for
    /// memory of this process alone, which nobody else can write, else `Through`.
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
