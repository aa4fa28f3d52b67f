//! A store in memory with only the abilities of HDFS or S3: it refuses what they refuse, and always makes use of the freedom that
//! they have.
//!
//! | question | [`Sequential::like_hdfs`] | [`Sequential::like_s3`] |
//! |----------|---------------------------|-------------------------|
//! | writes   | append only | append only |
//! | a name appears | at open | at close |
//! | bytes are visible | to readers that open after a `sync` or `close` | at close, all together |
//! | dropped without close | synced bytes stay | nothing stays |
//! | reopened for writing | no | no |
//! | rename   | atomic, folders too | a copy; no folders |

use crate::memory::{Memory, Object};
use crate::{
    Capability, Durability, ListConsistency, OpenWrite, ReadObject, Rename, Stat, Store, Visible, WriteObject, pieces,
    unsupported,
};
use std::io::IoSlice;
use std::sync::{Arc, MutexGuard};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Objects in memory that are written once, from front to back. See the module's page.
#[derive(Debug, Clone)]
pub struct Sequential {
    memory: Memory,
    visible: Visible,
}

impl Sequential {
    /// With the abilities of HDFS.
    pub fn like_hdfs() -> Sequential {
        Sequential { memory: Memory::new(), visible: Visible::AtSync }
    }

    /// With the abilities of S3.
    pub fn like_s3() -> Sequential {
        Sequential { memory: Memory::new(), visible: Visible::AtClose }
    }

    /// The visible content, for tests that compare or damage it.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl Store for Sequential {
    fn describe(&self) -> String {
        if self.visible == Visible::AtSync { "sequential:hdfs" } else { "sequential:s3" }.into()
    }

    fn capability(&self) -> Capability {
        let hdfs = self.visible == Visible::AtSync;
        Capability {
            rename: if hdfs { Rename::Atomic } else { Rename::Copy },
            rename_folder: hdfs,
            durability: if hdfs { Durability::Pipeline } else { Durability::AtClose },
            visible: self.visible,
            whole: !hdfs,
            exclusive: true,
            list: ListConsistency::Strong,
            ..Capability::NONE
        }
    }

    fn open_write(&self, name: &str, how: OpenWrite) -> Result<Box<dyn WriteObject>> {
        let there = match self.memory.open_read(name) {
            Ok(_) => true,
            Err(e) if e.kind() == ErrorKind::NotFound => false,
            Err(e) => return Err(e),
        };
        let how = match how {
            OpenWrite::Existing => return Err(unsupported(&self.describe(), "extend an object", name)),
            OpenWrite::Any if there => return Err(unsupported(&self.describe(), "extend an object", name)),
            OpenWrite::Any => OpenWrite::New,
            how => how,
        };
        let object = Arc::new(Object::new());
        match self.visible {
            Visible::AtClose => self.memory.may_put(name, how)?,
            _ => self.memory.put(name, object.clone(), how)?,
        }
        let state = Mutex::new(State { waiting: Vec::new(), seen: 0 });
        Ok(Box::new(SequentialHandle { store: self.clone(), object, name: name.into(), how, state }))
    }

    fn has_leases(&self) -> bool {
        false
    }

    fn open_read(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        let object = self.memory.open_read(name)?;
        Ok(Box::new(FixedLengthObject { length: object.length()?, object }))
    }

    fn stat(&self, name: &str) -> Result<Stat> {
        self.memory.stat(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.memory.list(folder)
    }

    fn list_beginning(&self, prefix: &str) -> Result<Option<Vec<String>>> {
        Ok((self.visible == Visible::AtClose).then(|| self.memory.beginning(prefix)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        if self.visible == Visible::AtClose && self.memory.stat(from)?.is_folder {
            return Err(unsupported(&self.describe(), "rename a folder", from));
        }
        self.memory.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.memory.remove(name)
    }

    fn make_folder(&self, name: &str) -> Result<()> {
        self.memory.make_folder(name)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.memory.sync_folder(folder)
    }
}

/// An object, with its length at open.
struct FixedLengthObject {
    object: Box<dyn ReadObject>,
    length: u64,
}

impl ReadObject for FixedLengthObject {
    fn length(&self) -> Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let there = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        self.object.read_at(offset, &mut out[..there])
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        if offset > self.length { Ok(offset) } else { self.object.stored_before(offset) }
    }
}

/// An object, open for writing.
struct SequentialHandle {
    store: Sequential,
    object: Arc<Object>,
    name: String,
    how: OpenWrite,
    state: Mutex<State>,
}

struct State {
    /// Bytes written but not yet visible.
    waiting: Vec<u8>,
    /// Bytes in the object.
    seen: u64,
}

impl SequentialHandle {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn cannot(&self, what: &str) -> Error {
        unsupported(&self.store.describe(), what, &self.name)
    }

    fn show(&self, state: &mut State) -> Result<()> {
        self.object.write_at(state.seen, &[IoSlice::new(&state.waiting)])?;
        state.seen += state.waiting.len() as u64;
        state.waiting.clear();
        Ok(())
    }
}

impl WriteObject for SequentialHandle {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        if pieces::total(pieces) == 0 {
            return Ok(());
        }
        let mut state = self.lock();
        let end = state.seen + state.waiting.len() as u64;
        if offset != end {
            return Err(self.cannot(&format!("write anywhere but at the end, byte {end}")).at_byte(offset));
        }
        pieces.iter().for_each(|piece| state.waiting.extend_from_slice(piece));
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        let state = self.lock();
        Ok(state.seen + state.waiting.len() as u64)
    }

    fn read_at(&self, offset: u64, _out: &mut [u8]) -> Result<usize> {
        Err(self.cannot("read an object that is being written").at_byte(offset))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        Err(self.cannot("truncate an object").at_byte(length))
    }

    fn punch(&self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        match self.store.visible {
            Visible::AtClose => Ok(()),
            _ => self.show(&mut self.lock()),
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.show(&mut self.lock())?;
        match self.store.visible {
            Visible::AtClose => self.store.memory.put(&self.name, self.object.clone(), self.how),
            _ => Ok(()),
        }
    }
}
