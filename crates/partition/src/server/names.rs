//! The names of a partition and what is known of each file: a layout whose files are [`Record`]s, which this server makes.
//!
//! | question | answer |
//! |----------|--------|
//! | where    | names, folders, links and attributes are those of a storage, in most cases a folder |
//! | a new file | gets its record, complete, under its name at once: a temporary object is renamed |
//! | two clients that create the same name, or rename a file to it | one after the other: a creation replaces no file that came by a rename meanwhile |

use crate::record::{LONGEST, Record};
use crate::striping::{LONGEST_STRIPE, SHORTEST_STRIPE, Striping};
use std::io::IoSlice;
use std::sync::Arc;
use thalweg_layout::errno::{Errno, failure};
use thalweg_layout::{
    Attributes, Change, Kind, Layout, OpenWrite, ReadObject, SetXattr, Space, Stat, Stripes, WriteObject, WriterId,
};
use thalweg_store::fresh;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Folder of the storage for the server's own objects.
pub const OURS: &str = ".thalweg-partition";

/// The names of a partition. See the module's page.
pub struct Names {
    storage: Arc<dyn Layout>,
    striping: Striping,
    /// Held by what makes names.
    creates: Mutex<()>,
}

impl Names {
    /// - `striping`: of new files.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn new(storage: Arc<dyn Layout>, striping: Striping) -> Result<Names> {
        storage.make_folder(OURS)?;
        Ok(Names { storage, striping, creates: Mutex::default() })
    }

    fn visible<'p>(&self, path: &'p str) -> Result<&'p str> {
        let first = path.split('/').find(|part| !part.is_empty() && *part != ".");
        match first == Some(OURS) {
            true => Err(failure(Errno::NOENT, "use a name of the partition's own", path)),
            false => Ok(path),
        }
    }

    /// The name that a path with links in its last part leads to, for a file that is created.
    fn led(&self, path: &str) -> Result<String> {
        let mut path = path.to_string();
        for _ in 0..40 {
            match self.storage.attributes(&path) {
                Ok(about) if about.kind == Kind::Link => {
                    let target = self.storage.read_link(&path)?;
                    if target.starts_with('/') {
                        return Err(failure(Errno::OPNOTSUPP, "create a file behind a link that leads out", &path));
                    }
                    let above = thalweg_store::name::folder_of(&path);
                    path = if above.is_empty() { target } else { format!("{above}/{target}") };
                }
                _ => return Ok(path),
            }
        }
        Err(failure(Errno::LOOP, "follow links", &path))
    }

    fn told(&self, path: &str, record: &Record) -> Box<Told> {
        Box::new(Told { record: record.encode(), path: path.into(), storage: self.storage.clone() })
    }

    fn create(&self, path: &str, striping: Striping) -> Result<Record> {
        let record = Record { id: u128::from(fresh()) << 64 | u128::from(fresh()), striping };
        let temporary = format!("{OURS}/{:016x}", fresh());
        let put = || -> Result<()> {
            let object = self.storage.open_write(&temporary, OpenWrite::New, WriterId(0))?;
            object.write_at(0, &[IoSlice::new(&record.encode())])?;
            object.close()?;
            self.storage.rename(&temporary, path)
        };
        put().inspect_err(|_| {
            let _ = self.storage.remove(&temporary);
        })?;
        Ok(record)
    }
}

/// A file's record, for the client that opens the file.
struct Told {
    record: [u8; LONGEST],
    path: String,
    storage: Arc<dyn Layout>,
}

fn only_read() -> Error {
    Error::new(ErrorKind::Unsupported, "what is known of a file is not written by clients")
}

impl ReadObject for Told {
    fn length(&self) -> Result<u64> {
        Ok(self.record.len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.record.get(offset..)).unwrap_or_default();
        let got = rest.len().min(out.len());
        out[..got].copy_from_slice(&rest[..got]);
        Ok(got)
    }
}

impl WriteObject for Told {
    fn write_at(&self, _: u64, _: &[IoSlice<'_>]) -> Result<()> {
        Err(only_read())
    }

    fn length(&self) -> Result<u64> {
        ReadObject::length(self)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        ReadObject::read_at(self, offset, out)
    }

    fn truncate(&self, _: u64) -> Result<()> {
        Err(only_read())
    }

    fn punch(&self, _: u64, _: u64) -> Result<()> {
        Err(only_read())
    }

    /// Makes the record and its name durable.
    fn sync(&self) -> Result<()> {
        let object = self.storage.open_write(&self.path, OpenWrite::Existing, WriterId(0))?;
        object.sync()?;
        object.close()?;
        self.storage.sync_folder(thalweg_store::name::folder_of(&self.path))
    }

    fn publish(&self) -> Result<()> {
        Ok(())
    }
}

impl Layout for Names {
    fn describe(&self) -> String {
        format!("names in {}", self.storage.describe())
    }

    /// The object reads as the record of the file.
    fn open_write(&self, path: &str, how: OpenWrite, _writer: WriterId) -> Result<Box<dyn WriteObject>> {
        let path = self.visible(path)?;
        let _alone = self.creates.lock();
        match self.storage.open_read(path) {
            Ok(_) if how == OpenWrite::New => Err(failure(Errno::EXIST, "create", path)),
            Ok(object) => Ok(self.told(path, &Record::read(&*object, path)?)),
            Err(e) if e.kind() == ErrorKind::NotFound && how != OpenWrite::Existing => {
                let is_link = self.storage.attributes(path).is_ok_and(|about| about.kind == Kind::Link);
                if how == OpenWrite::New && is_link {
                    return Err(failure(Errno::EXIST, "create", path));
                }
                Ok(self.told(path, &self.create(&self.led(path)?, self.striping)?))
            }
            Err(e) => Err(e),
        }
    }

    /// Stripes shorter than those that a configuration may have are not made.
    fn make_striped(&self, path: &str, asked: Stripes) -> Result<bool> {
        let path = self.visible(path)?;
        let of_others = self.striping;
        let bytes = match asked.bytes {
            0 => of_others.stripe(),
            bytes => bytes.clamp(SHORTEST_STRIPE, LONGEST_STRIPE),
        };
        let servers = match asked.targets {
            0 => of_others.servers(),
            targets => targets.min(of_others.servers()),
        };
        let striping = Striping::new(bytes, servers)?;
        let _alone = self.creates.lock();
        match self.storage.attributes(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => self.create(path, striping).map(|_| true),
            Err(e) => Err(e),
            Ok(_) => Err(failure(Errno::EXIST, "create", path)),
        }
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        let path = self.visible(path)?;
        let object = self.storage.open_read(path)?;
        Ok(self.told(path, &Record::read(&*object, path)?))
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        self.storage.stat(self.visible(path)?)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let mut names = self.storage.list(self.visible(folder)?)?;
        if folder.split('/').all(|part| part.is_empty() || part == ".") {
            names.retain(|name| name != OURS);
        }
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let _alone = self.creates.lock();
        self.storage.rename(self.visible(from)?, self.visible(to)?)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.storage.remove(self.visible(path)?)
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        let _alone = self.creates.lock();
        self.storage.make_folder(self.visible(path)?)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.storage.sync_folder(self.visible(folder)?)
    }

    fn make_one_folder(&self, path: &str, mode: u32) -> Result<()> {
        let _alone = self.creates.lock();
        self.storage.make_one_folder(self.visible(path)?, mode)
    }

    fn attributes(&self, path: &str) -> Result<Attributes> {
        self.storage.attributes(self.visible(path)?)
    }

    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        self.storage.set_attributes(self.visible(path)?, change)
    }

    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        let _alone = self.creates.lock();
        self.storage.make_link(target, self.visible(path)?)
    }

    fn read_link(&self, path: &str) -> Result<String> {
        self.storage.read_link(self.visible(path)?)
    }

    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        let _alone = self.creates.lock();
        self.storage.make_hard_link(self.visible(from)?, self.visible(to)?)
    }

    fn xattr_get(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        self.storage.xattr_get(self.visible(path)?, key)
    }

    fn xattr_set(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        self.storage.xattr_set(self.visible(path)?, key, value, how)
    }

    fn xattr_list(&self, path: &str) -> Result<Vec<String>> {
        self.storage.xattr_list(self.visible(path)?)
    }

    fn xattr_remove(&self, path: &str, key: &str) -> Result<()> {
        self.storage.xattr_remove(self.visible(path)?, key)
    }

    fn space(&self, path: &str) -> Result<Space> {
        self.storage.space(self.visible(path)?)
    }
}
