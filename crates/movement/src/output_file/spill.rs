//! A spill file: where blocks go that find no room in the buffer while the place of the process group is not known.
//!
//! The file lies beside the output as `<name>.spill.<rank>`, made when it is first needed. On a plain filesystem its name is
//! removed at once: the system frees the file with its last handle, however the process ends. Elsewhere the file is removed
//! when [`Spill`] is dropped. A file that a killed process left is removed when the output is opened again (`remove_stale`),
//! and by `thalweg recover`.

use crate::buffer::{BufferPool, LEAST_PIECE, Reservation};
use crate::method::{OpenRequest, file_name};
use crate::output_file::cache::name_of;
use crate::output_file::handle::Handle;
use crate::output_file::memory::Memory;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_layout::{Layout, Lease, OpenWrite, WriteObject, WriterId};
use thalweg_types::Result;

/// One rank's spill file, if it needs one.
pub struct Spill {
    layout: Arc<dyn Layout>,
    path: String,
    rank: u32,
    object: Option<Handle>,
    /// It still has a name.
    named: bool,
    /// Of a file with a name: tells other processes that this one lives.
    lease: Option<Lease>,
    /// As many bytes are copied at a time.
    copied: Reservation,
}

/// Bytes that it takes of the buffer even where the limit is lower.
pub const LEAST: u64 = LEAST_PIECE;

impl Spill {
    /// - `output`: path of the file that is written; `step`: bytes copied at a time at close, fewer where the buffer's limit
    ///   is low.
    pub fn new(layout: &Arc<dyn Layout>, output: &str, rank: u32, step: usize, buffer: &Arc<BufferPool>) -> Spill {
        let copied = buffer.reserve(buffer.room(0).share(step as u64, LEAST));
        let path = format!("{output}.spill.{rank}");
        Spill { layout: layout.clone(), path, rank, object: None, named: false, lease: None, copied }
    }

    /// Bytes copied at a time.
    pub fn step(&self) -> usize {
        self.copied.bytes() as usize
    }

    /// The file, made if there is none yet.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn through(&mut self) -> Result<&dyn WriteObject> {
        let object = match self.object.take() {
            Some(object) => object,
            None => {
                let object = self.layout.open_write(&self.path, OpenWrite::Replace, WriterId(self.rank))?;
                // Where that fails it is tried again at the end.
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

    /// The file, if there is one.
    pub fn object(&self) -> Option<&dyn WriteObject> {
        self.object.as_ref().map(|object| object as &dyn WriteObject)
    }

    /// Closes the file, if there is one, once its bytes were copied to their place: an error says that the bytes that were read
    /// back may not be those that were written.
    ///
    /// # Errors
    /// Those of closing it.
    pub fn end(&self) -> Result<()> {
        self.object.as_ref().map_or(Ok(()), |object| object.end(false))
    }
}

/// Names in folders that hold spill files, listed once by each process.
#[derive(Default)]
struct Listed(HashMap<String, Vec<String>>);

impl Memory for Listed {}

/// The output of a spill file by its name.
fn output_of(name: &str) -> Option<&str> {
    let (output, rank) = name.rsplit_once(".spill.")?;
    (!rank.is_empty() && rank.bytes().all(|b| b.is_ascii_digit())).then_some(output)
}

/// Called on rank 0 when an output opens: removes the output's spill files that killed processes left. The file of a living
/// process stays, and so does one of which the store cannot tell whether its process lives.
///
/// Best effort: the output is safe with these files beside it.
///
/// # Cost
/// Nothing where spill files have no names. Elsewhere the folder is listed once by each process, and each of the output's spill
/// files is opened.
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
        if life.is_ok_and(|life| life.held == Some(false)) {
            let _ = layout.remove(&name);
        }
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        self.lease = None;
        if self.object.take().is_some() && self.named {
            // The output is safe without it.
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
        // What an earlier program left there.
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
