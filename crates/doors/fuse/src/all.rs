//! Several mounts below one mount point: `/scratch/run7` of the table is `scratch/run7` there. Folders above prefixes are
//! visible and contain only the entries that lead to mounts; paths outside all mounts are not visible.

use rustix::io::Errno;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use thalweg_layout::locks::FileLocks;
use thalweg_layout::{
    Attributes, Change, Kind, Layout, Mounts, OpenWrite, ReadObject, SetXattr, Space, Stat, WriteObject, WriterId,
    errno, mount,
};
use thalweg_types::{ErrorKind, Result};

/// Several mounts as one tree. See the module's page.
pub struct All {
    mounts: Arc<Mounts>,
}

/// Classification of a path.
enum Where {
    /// A path inside a mount.
    Mount(String),
    /// A folder above prefixes, and its entries.
    Above(BTreeSet<String>),
}

impl All {
    /// The tree of these mounts.
    pub fn new(mounts: Arc<Mounts>) -> All {
        All { mounts }
    }

    fn place(&self, path: &str) -> Result<Where> {
        let full = mount::normal(&format!("/{path}"), "/");
        let prefixes = || self.mounts.mounts().iter().map(|m| m.prefix());
        if mount::resolve(prefixes(), &full, "/").is_some() {
            return Ok(Where::Mount(full));
        }
        let below = |prefix: &str| -> Option<String> {
            let (_, rest) = mount::resolve([full.as_str()], prefix, "/")?;
            rest.split('/').find(|part| !part.is_empty()).map(str::to_string)
        };
        let names: BTreeSet<String> = prefixes().filter_map(below).collect();
        match names.is_empty() && full != "/" {
            true => Err(errno::failure(Errno::NOENT, "find", path)),
            false => Ok(Where::Above(names)),
        }
    }

    /// The path for a change: `EROFS` for folders above mounts.
    fn inside(&self, path: &str, what: &str) -> Result<String> {
        match self.place(path) {
            Ok(Where::Mount(full)) => Ok(full),
            Ok(Where::Above(_)) => Err(errno::failure(Errno::ROFS, what, path)),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                // A name that would be created in a read-only folder above mounts.
                let above = thalweg_store::name::folder_of(path);
                match self.place(above)? {
                    Where::Above(_) => Err(errno::failure(Errno::ROFS, what, path)),
                    Where::Mount(_) => Err(e),
                }
            }
            Err(e) => Err(e),
        }
    }

    /// The path for a read: `EISDIR` for folders above mounts.
    fn seen(&self, path: &str, what: &str) -> Result<String> {
        match self.place(path)? {
            Where::Mount(full) => Ok(full),
            Where::Above(_) => Err(errno::failure(Errno::ISDIR, what, path)),
        }
    }
}

impl Layout for All {
    fn describe(&self) -> String {
        let mounts: Vec<&str> = self.mounts.mounts().iter().map(|m| m.prefix()).collect();
        format!("mounts {}", mounts.join(", "))
    }

    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        self.mounts.open_write(&self.inside(path, "open")?, how, writer)
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        self.mounts.open_read(&self.seen(path, "open")?)
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        match self.place(path)? {
            Where::Mount(full) => self.mounts.stat(&full),
            Where::Above(_) => Ok(Stat { length: 0, is_folder: true, identity: 0 }),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        match self.place(folder)? {
            Where::Mount(full) => self.mounts.list(&full),
            Where::Above(names) => Ok(names.into_iter().collect()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.mounts.rename(&self.inside(from, "rename")?, &self.inside(to, "rename")?)
    }

    fn prepare_rename(&self, from: &str, to: &str) -> Result<()> {
        self.mounts.prepare_rename(&self.inside(from, "rename")?, &self.inside(to, "rename")?)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.mounts.remove(&self.inside(path, "remove")?)
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        self.mounts.make_folder(&self.inside(path, "make folder")?)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        match self.place(folder)? {
            Where::Mount(full) => self.mounts.sync_folder(&full),
            Where::Above(_) => Ok(()),
        }
    }

    fn make_one_folder(&self, path: &str, mode: u32) -> Result<()> {
        self.mounts.make_one_folder(&self.inside(path, "make folder")?, mode)
    }

    fn attributes(&self, path: &str) -> Result<Attributes> {
        match self.place(path)? {
            Where::Mount(full) => self.mounts.attributes(&full),
            Where::Above(names) => Ok(Attributes {
                kind: Kind::Folder,
                length: 0,
                mode: 0o555,
                uid: 0,
                gid: 0,
                atime: UNIX_EPOCH,
                mtime: UNIX_EPOCH,
                ctime: UNIX_EPOCH,
                links: names.len() as u64 + 2,
                identity: 0,
            }),
        }
    }

    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        self.mounts.set_attributes(&self.inside(path, "change")?, change)
    }

    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        self.mounts.truncate(&self.inside(path, "cut")?, length)
    }

    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        self.mounts.make_link(target, &self.inside(path, "make a link")?)
    }

    fn read_link(&self, path: &str) -> Result<String> {
        self.mounts.read_link(&self.seen(path, "read a link")?)
    }

    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        self.mounts.make_hard_link(&self.inside(from, "link")?, &self.inside(to, "link")?)
    }

    fn xattr_get(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        match self.place(path)? {
            Where::Mount(full) => self.mounts.xattr_get(&full, key),
            Where::Above(_) => Ok(None),
        }
    }

    fn xattr_set(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        self.mounts.xattr_set(&self.inside(path, "change")?, key, value, how)
    }

    fn xattr_list(&self, path: &str) -> Result<Vec<String>> {
        match self.place(path)? {
            Where::Mount(full) => self.mounts.xattr_list(&full),
            Where::Above(_) => Ok(Vec::new()),
        }
    }

    fn xattr_remove(&self, path: &str, key: &str) -> Result<()> {
        self.mounts.xattr_remove(&self.inside(path, "change")?, key)
    }

    fn space(&self, path: &str) -> Result<Space> {
        self.mounts.space(&self.seen(path, "get the free space of")?)
    }

    fn keeps_whole(&self, path: &str) -> bool {
        matches!(self.place(path), Ok(Where::Mount(full)) if self.mounts.keeps_whole(&full))
    }

    fn lock_folder(&self, path: &str) -> Option<PathBuf> {
        match self.place(path).ok()? {
            Where::Mount(full) => self.mounts.lock_folder(&full),
            Where::Above(_) => None,
        }
    }

    fn locks(&self, path: &str) -> Result<Option<Box<dyn FileLocks>>> {
        match self.place(path)? {
            Where::Mount(full) => self.mounts.locks(&full),
            Where::Above(_) => Ok(None),
        }
    }

    fn prefers_runs(&self, path: &str) -> bool {
        match self.place(path) {
            Ok(Where::Mount(full)) => self.mounts.prefers_runs(&full),
            _ => false,
        }
    }

    fn plain_file(&self, path: &str) -> Option<PathBuf> {
        match self.place(path).ok()? {
            Where::Mount(full) => self.mounts.plain_file(&full),
            Where::Above(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_layout::{Direct, Mount};
    use thalweg_store::Memory;

    fn tree() -> All {
        let direct = || Arc::new(Direct::new(Arc::new(Memory::new())).unwrap()) as Arc<dyn Layout>;
        let mounts = ["/scratch/a", "/scratch/deep/b", "/other"].map(|p| Mount::new(p, move || Ok(direct())));
        All::new(Arc::new(Mounts::new(mounts.into(), direct())))
    }

    #[test]
    fn folders_above_mounts_show_what_leads_to_mounts_and_nothing_else() {
        let all = tree();
        assert_eq!(all.list("").unwrap(), ["other", "scratch"]);
        assert_eq!(all.list("scratch").unwrap(), ["a", "deep"]);
        assert_eq!(all.list("scratch/deep").unwrap(), ["b"]);
        assert!(all.list("scratch/deep/b").unwrap().is_empty());
        assert_eq!(all.stat("etc").unwrap_err().kind(), ErrorKind::NotFound, "plain paths are not shown");
        assert_eq!(all.stat("scratch/ab").unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn files_are_made_inside_mounts_alone() {
        let all = tree();
        let file = all.open_write("scratch/a/f", OpenWrite::New, WriterId(0)).unwrap();
        thalweg_layout::write_all_at(&*file, 0, b"bytes").unwrap();
        assert_eq!(all.stat("scratch/a/f").unwrap().length, 5);
        for path in ["f", "scratch/f"] {
            let refused = all.open_write(path, OpenWrite::New, WriterId(0)).err().unwrap();
            assert_eq!(errno::of(&refused), Errno::ROFS.raw_os_error(), "{path}: {refused}");
        }
        let across = all.rename("scratch/a/f", "other/f").unwrap_err();
        assert_eq!(errno::of(&across), Errno::XDEV.raw_os_error());
    }
}
