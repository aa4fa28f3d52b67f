//! A file shared by all ranks, open for an output: the file, its index on rank 0, and the spill file of a rank whose process
//! group exceeds the buffer.

use crate::method::{CloseRequest, OpenRequest, Opened, not_open};
use crate::output_file::closing::OpenOutput;
use crate::output_file::commit::{IndexFile, IndexKeeper, Written};
use crate::output_file::handle::Handle;
use crate::output_file::open_index::{self, OpenIndex};
use crate::output_file::serial_open::few_at_a_time;
use crate::output_file::spill::Spill;
use crate::pack;
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_comm::guarded::caught;
use thalweg_layout::{OpenWrite, WriteObject, WriterId};
use thalweg_types::{Extent, Result};

/// The shared file on one rank. Dropping it without a close leaves the file unchanged, and caches its index for the next
/// output.
pub struct SharedFile {
    /// The open output and the file's index.
    pub index: OpenIndex,
    /// `Some` on ranks that opened the file.
    object: Option<Handle>,
    spill: Spill,
}

impl SharedFile {
    /// Collective: rank 0 creates the file or finds its live end, then the other ranks open it, few at a time.
    ///
    /// - `spill_copy`: bytes copied at a time from the spill file; `opens`: this rank opens the file, as rank 0 always does;
    ///   `told`: numbers that rank 0 sends to all ranks.
    ///
    /// Returns the file, the result for the program, and rank 0's numbers.
    ///
    /// # Errors
    /// As [`OpenIndex::agree`].
    pub fn open(
        request: &OpenRequest<'_>,
        sync: bool,
        spill_copy: usize,
        opens: bool,
        told: &[u64],
    ) -> Result<(SharedFile, Opened, Vec<u64>)> {
        let rank = request.comm.rank();
        let mut first = None;
        let opened = few_at_a_time(request.comm, || {
            if rank == 0 {
                let (object, begun) = open_index::begin(request, false)?;
                first = Some(begun);
                return Ok(Some(object));
            }
            let open = || request.layout.open_write(request.path, OpenWrite::Existing, WriterId(rank));
            opens.then(open).transpose()
        })
        .map_err(|e| e.in_object(request.path));
        let (object, outcome) = match opened {
            Ok(object) => (object, Ok(())),
            Err(e) => (None, Err(e)),
        };
        let (index, opened, told) = OpenIndex::agree(request, (false, sync), outcome, first, told, |live, _| {
            object.as_deref().map_or(Ok(()), |object| live.shorten(object, sync))
        })?;
        let spill = Spill::new(request.layout, request.path, rank, spill_copy, request.buffer);
        Ok((SharedFile { index, object: object.map(Handle::from), spill }, opened, told))
    }

    /// The file; opens it if this rank has not opened it, or has closed it.
    ///
    /// # Errors
    /// Errors of opening the file, with the rank and the path.
    pub fn object(&mut self) -> Result<&dyn WriteObject> {
        if !self.object.as_ref().is_some_and(Handle::is_open) {
            let object = self.index.layout.open_write(&self.index.path, OpenWrite::Existing, WriterId(self.index.rank));
            let object = object.map_err(|e| e.at_rank(self.index.rank).in_object(self.index.path.clone()))?;
            self.object = Some(Handle::from(object));
        }
        self.opened()
    }

    /// The file, on a rank that opened it.
    ///
    /// # Errors
    /// `InvalidArgument` on a rank that has not opened it.
    pub fn opened(&self) -> Result<&dyn WriteObject> {
        self.object.as_ref().map(|object| object as &dyn WriteObject).ok_or_else(not_open)
    }

    /// The spill file, created if there is none. `stored`: offset and length of bytes of the file that are moved to it.
    ///
    /// # Errors
    /// Errors of the store; `Torn` where the file no longer contains the bytes to move; `NoMemory`.
    pub fn spill(&mut self, stored: Option<(u64, u64)>) -> Result<&dyn WriteObject> {
        let SharedFile { spill, object, .. } = self;
        let step = spill.step();
        let to = spill.through()?;
        if let Some((start, length)) = stored {
            let from = object.as_ref().ok_or_else(not_open)?;
            pack::move_bytes(from, start, to, 0, length, step)?;
        }
        Ok(to)
    }

    /// The spill file, if there is one.
    pub fn spilled(&self) -> Option<&dyn WriteObject> {
        self.spill.object()
    }

    /// Ends this rank's data: syncs the file if the output is durable, and closes the file, except on the rank that then writes
    /// the index.
    ///
    /// # Errors
    /// Errors of the store: written bytes may be lost.
    pub fn end_data(&self) -> Result<()> {
        let (object, sync) = (self.object.as_ref().ok_or_else(not_open)?, self.index.sync);
        match self.index.keeps() {
            true if sync => object.sync(),
            true => Ok(()),
            false => object.end(sync),
        }
    }

    /// As [`SharedFile::end_data`], on a rank that also writes other ranks' groups: they reach the store although this rank keeps the
    /// file open for the index, so that they outlive it.
    ///
    /// # Errors
    /// As [`SharedFile::end_data`].
    pub fn end_data_of_others(&self) -> Result<()> {
        if self.index.keeps() && !self.index.sync {
            return self.opened()?.publish();
        }
        self.end_data()
    }

    /// Ends the spill file.
    ///
    /// # Errors
    /// As [`Spill::end`].
    pub fn end_spill(&self) -> Result<()> {
        self.spill.end()
    }

    /// Ends the output. `indexed`: the step is in this rank's index.
    pub fn close(mut self, indexed: bool) {
        self.index.closed(indexed);
    }
}

impl IndexKeeper for SharedFile {
    fn index(&mut self) -> Result<IndexFile<'_>> {
        self.object()?;
        self.index.file(self.object.as_ref().ok_or_else(not_open)?)
    }

    fn forget_index(&mut self) {
        self.index.forget();
    }

    fn end_index(&mut self) -> Result<()> {
        let object = self.object.take().and_then(Handle::into_object).ok_or_else(not_open)?;
        self.index.end(object)
    }
}

impl OpenOutput for SharedFile {
    fn index(&self) -> &OpenIndex {
        &self.index
    }

    fn write(&mut self, request: &mut CloseRequest<'_, '_>, extent: Extent) -> Result<Written> {
        self.object()?;
        let object = self.opened()?;
        let writer = request.writer(&self.index, SINGLE_FILE);
        let fragment = request
            .pack
            .write_spilled(self.spill.object(), object, extent, request.header, writer, self.spill.step())
            .and_then(|fragment| self.spill.end().map(|()| fragment))
            .map_err(|e| e.at_rank(self.index.rank).in_object(self.index.path.clone()))?;
        self.end_data()?;
        Ok(Written { fragment, extent })
    }

    fn renew(&mut self) -> Result<()> {
        let ended = self.object.as_ref().map_or(Ok(()), |object| object.end(self.index.sync));
        ended.map_err(|e| e.at_rank(self.index.rank).in_object(self.index.path.clone()))
    }

    fn abandon(&mut self) {
        if let (Some(object), false) = (&self.object, self.index.keeps()) {
            // The output has failed with an earlier error.
            let _ = caught("close the file", || object.end(false));
        }
    }

    fn keeper(&mut self) -> &mut dyn IndexKeeper {
        self
    }
}
