//! A spill file: where blocks go that find no room in the buffer while the place of the process group is not known.
//!
//! It lies beside the output as `<name>.spill.<rank>`, made when it is first needed. On a plain filesystem its name is removed
//! at once: the system frees it with its last handle, however the process ends. Elsewhere it is removed when this is
//! dropped; one that stays after a kill is overwritten by the next, and removed by `thalweg recover`.

use crate::buffer::{BufferPool, LEAST_PIECE, Reservation};
use crate::output_file::handle::Handle;
use crate::pack::{Pack, Writer};
use std::sync::Arc;
use thalweg_bp::index::Index;
use thalweg_bp::process_group::Header;
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId};
use thalweg_types::{Extent, Result};

/// One rank's spill file, if it needs one.
pub struct Spill {
    layout: Arc<dyn Layout>,
    path: String,
    rank: u32,
    object: Option<Handle>,
    /// It still has a name.
    named: bool,
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
        Spill { layout: layout.clone(), path, rank, object: None, named: false, copied }
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
                Handle::from(object)
            }
        };
        Ok(self.object.insert(object))
    }

    /// The file, if there is one.
    pub fn object(&self) -> Option<&dyn WriteObject> {
        self.object.as_ref().map(|object| object as &dyn WriteObject)
    }

    /// Closes the file, if there is one, once its bytes are where they belong: a failure says that these may not have been what
    /// was written here.
    ///
    /// # Errors
    /// Those of closing it.
    pub fn end(&self) -> Result<()> {
        self.object.as_ref().map_or(Ok(()), |object| object.end(false))
    }

    /// Writes the group to its place, from here and from memory, and ends this.
    ///
    /// # Errors
    /// As [`Pack::write`] and [`Pack::write_spilled`].
    pub fn write(
        &self,
        pack: &mut Pack<'_>,
        object: &dyn WriteObject,
        place: Extent,
        header: &Header,
        writer: Writer,
    ) -> Result<Index> {
        match &self.object {
            Some(spill) if pack.has_gone_through() => {
                let written = pack.write_spilled(spill, object, place, header, writer, self.step())?;
                self.end()?;
                Ok(written)
            }
            _ => pack.write(object, place, header, writer),
        }
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
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
