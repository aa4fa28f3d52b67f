//! A spill file: temporary storage for blocks that exceed the buffer limit while the offset of the process group is not known.
//!
//! The file `<name>.spill.<rank>` is created beside the output when it is first needed. On a plain filesystem it is unlinked
//! immediately: the system frees it with its last handle, however the process ends. On other stores it is removed when [`Spill`] is
//! dropped. The spill file of a killed process is removed when the output is opened again (`remove_stale`), and by
//! `thalweg recover`.

use crate::buffer::{BufferPool, LEAST_PIECE, Reservation};
use crate::method::{OpenRequest, file_name};
use crate::output_file::cache::name_of;
use crate::output_file::handle::Handle;
use crate::output_file::memory::Memory;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_layout::{Layout, Lease, OpenWrite, WriteObject, WriterId};
use thalweg_types::Result;

/// The spill file of one rank; created on first use.
pub struct Spill {
    layout: Arc<dyn Layout>,
    path: String,
    rank: u32,
    object: Option<Handle>,
    /// The file is not unlinked.
    named: bool,
    /// Lease of a file with a name: shows other processes that this process is alive.
    lease: Option<Lease>,
    /// Buffer space for the copy at close; its size is the bytes copied at a time.
    copied: Reservation,
}

/// Bytes that a spill file reserves of the buffer, even if the buffer limit is lower.
pub const LEAST: u64 = LEAST_PIECE;

impl Spill {
    /// - `output`: path of the output file; `step`: bytes copied at a time at close, reduced if the buffer limit is low.
    pub fn new(layout: &Arc<dyn Layout>, output: &str, rank: u32, step: usize, buffer: &Arc<BufferPool>) -> Spill {
        let copied = buffer.reserve(buffer.room(0).share(step as u64, LEAST));
        let path = format!("{output}.spill.{rank}");
        Spill { layout: layout.clone(), path, rank, object: None, named: false, lease: None, copied }
    }

    /// Bytes copied at a time.
    pub fn step(&self) -> usize {
        self.copied.bytes() as usize
    }

    /// The file; created on the first call.
    ///
    /// # Errors
    /// Errors of creating the file and of taking its lease.
    pub fn through(&mut self) -> Result<&dyn WriteObject> {
        let object = match self.object.take() {
            Some(object) => object,
            None => {
                let object = self.layout.open_write(&self.path, OpenWrite::Replace, WriterId(self.rank))?;
                // If the file cannot be unlinked here, it is removed on drop.
                let plain = self.layout.plain_file(&self.path);
                self.named = plain.is_none_or(|file| std::fs::remove_file(file).is_err());
                if self.named {
                    self.lease = object.lease().inspect_err(|_| drop(self.layout.remove(&self.path)))?;
                }
                Handle::from(object)
            }
        };
        Ok(self.object.insert(object))
    }

    /// The file, if it was created.
    pub fn object(&self) -> Option<&dyn WriteObject> {
        self.object.as_ref().map(|object| object as &dyn WriteObject)
    }

    /// Closes the file, if it was created. Call after its bytes were copied to the output: an error means that the copied bytes may
    /// differ from the bytes written.
    ///
    /// # Errors
    /// Errors of the close.
    pub fn end(&self) -> Result<()> {
        self.object.as_ref().map_or(Ok(()), |object| object.end(false))
    }
}

/// Names of spill files by folder; each process lists a folder once.
#[derive(Default)]
struct Listed(HashMap<String, Vec<String>>);

impl Memory for Listed {}

/// The name of the output to which a spill file belongs.
fn output_of(name: &str) -> Option<&str> {
    let (output, rank) = name.rsplit_once(".spill.")?;
    (!rank.is_empty() && rank.bytes().all(|b| b.is_ascii_digit())).then_some(output)
}

/// Called on rank 0 when an output opens: removes the output's spill files that killed processes left behind. The file of a live
/// process is kept, and also a file for which the store cannot determine whether its process is alive.
///
/// Best effort: remaining spill files do not affect the output.
///
/// # Cost
/// None on filesystems where spill files are unlinked. On other stores each process lists the folder once and opens each of the
/// output's spill files.
pub(super) fn remove_stale(request: &OpenRequest<'_>) {
    let (layout, path) = (request.layout, request.path);
    if layout.plain_file(path).is_some() {
        return;
    }
    let above = &path[..path.len() - file_name(path).len()];
    let folder = if above.len() > 1 { above.trim_end_matches('/') } else { above };
    let known = request.cache.of::<Listed>();
    let key = name_of(layout, folder);
    if !known.lock().0.contains_key(&key) {
        let Ok(names) = layout.list(folder) else { return };
        let spills = names.into_iter().filter(|name| output_of(name).is_some()).collect();
        known.lock().0.insert(key.clone(), spills);
    }
    let of_output = |name: &mut String| output_of(name) == Some(file_name(path));
    let stale: Vec<String> = match known.lock().0.get_mut(&key) {
        Some(names) => names.extract_if(.., of_output).collect(),
        None => return,
    };
    for name in stale {
        let name = format!("{above}{name}");
        let life = layout.open_read(&name).and_then(|object| object.life());
        if life.is_ok_and(|life| life.leased == Some(false)) {
            let _ = layout.remove(&name);
        }
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        self.lease = None;
        if self.object.take().is_some() && self.named {
            // Best effort: a remaining spill file does not affect the output.
            let _ = self.layout.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::IoSlice;
    use thalweg_layout::Direct;

    fn begin(store: Arc<dyn thalweg_store::Store>) -> (Arc<dyn Layout>, Spill) {
        let layout: Arc<dyn Layout> = Arc::new(Direct::new(store).unwrap());
        let mut spill = Spill::new(&layout, "x.bp", 3, 4096, &Arc::new(BufferPool::new(None)));
        spill.through().unwrap().write_at(5, &[IoSlice::new(b"values")]).unwrap();
        (layout, spill)
    }

    #[test]
    fn no_spill_file_has_a_name_while_it_is_written_so_that_no_kill_leaves_it() {
        let folder = tempfile::tempdir().unwrap();
        // A file that an earlier program left behind.
        std::fs::write(folder.path().join("x.bp.spill.3"), b"old").unwrap();
        let (_, spill) = begin(Arc::new(thalweg_store::Posix::at(folder.path()).unwrap()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let object = spill.object().unwrap();
        let mut back = [0; 6];
        object.read_at(5, &mut back).unwrap();
        assert_eq!((&back, object.length().unwrap()), (b"values", 11));
        drop(spill);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn where_names_are_needed_the_file_goes_with_its_owner() {
        let (layout, spill) = begin(Arc::new(thalweg_store::Memory::new()));
        assert_eq!(layout.list("").unwrap(), ["x.bp.spill.3"]);
        drop(spill);
        assert_eq!(layout.list("").unwrap(), Vec::<String>::new());
    }
}
