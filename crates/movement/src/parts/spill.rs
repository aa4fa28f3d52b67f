//! A spill file: where blocks go that find no room in the buffer while the place of the process group is not known.
//!
//! It lies beside the output as `<name>.spill.<rank>`, made when it is first needed and removed when this is dropped; one
//! that stays after a kill is overwritten by the next.

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
    object: Option<Box<dyn WriteObject>>,
    /// Bytes copied at a time.
    step: usize,
}

impl Spill {
    /// - `output`: path of the file that is written; `step`: bytes copied at a time at close.
    pub fn new(layout: &Arc<dyn Layout>, output: &str, rank: u32, step: usize) -> Spill {
        Spill { layout: layout.clone(), path: format!("{output}.spill.{rank}"), rank, object: None, step }
    }

    /// The file, made if there is none yet.
    pub fn through(&mut self) -> Result<&dyn WriteObject> {
        let object = match self.object.take() {
            Some(object) => object,
            None => self.layout.open_write(&self.path, OpenWrite::Replace, WriterId(self.rank))?,
        };
        Ok(&**self.object.insert(object))
    }

    /// The file, if there is one.
    pub fn object(&self) -> Option<&dyn WriteObject> {
        self.object.as_deref()
    }

    /// Writes the group to its place, from here and from memory.
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
                pack.write_spilled(&**spill, object, place, header, writer, self.step)
            }
            _ => pack.write(object, place, header, writer),
        }
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        if self.object.take().is_some() {
            // The output is safe without it.
            let _ = self.layout.remove(&self.path);
        }
    }
}
