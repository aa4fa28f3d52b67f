//! The close of an output to a BP file, common to all methods that write BP files: the process group is assigned its extent and
//! written, and the step is committed ([`crate::output_file::commit`]).
//!
//! A method provides its open files ([`OpenOutput`]) and the extents of process groups; [`Closing`] defines the order of the calls.

use crate::method::{CloseRequest, Closed};
use crate::output_file::commit::{self, Ahead, Commit, Files, IndexKeeper, Participant, Written};
use crate::output_file::open_index::OpenIndex;
use crate::pack::Writer;
use thalweg_bp::index::Index;
use thalweg_comm::guarded::caught;
use thalweg_types::{Extent, Result};

/// The open files of a method for an output to a BP file.
pub trait OpenOutput {
    /// The index of the file.
    fn index(&self) -> &OpenIndex;

    /// Writes this rank's process group to `extent` and closes the file that contains it, so that a failure is reported before
    /// the group is counted as written. Called by [`Participant::write`], also after ranks were lost; `extent` then is where
    /// no lost rank can write.
    ///
    /// # Errors
    /// Errors of the store, with the rank and the object.
    fn write(&mut self, request: &mut CloseRequest<'_, '_>, extent: Extent) -> Result<Written>;

    /// Closes the file that several ranks write, after ranks were lost: [`Files::renew`].
    ///
    /// # Errors
    /// Errors of closing.
    fn renew(&mut self) -> Result<()> {
        Ok(())
    }

    /// Called when this rank has failed, before the other ranks are told: closes the file for this rank's group. In a file that
    /// several ranks write, this rank's bytes thus arrive before any bytes that other ranks write afterwards.
    fn abandon(&mut self) {}

    /// The holder of the open index.
    fn keeper(&mut self) -> &mut dyn IndexKeeper;
}

/// An output during its close.
pub struct Closing<'c, 'a, O> {
    /// The method's open files.
    pub open: O,
    /// Communicator, header and process group.
    pub request: CloseRequest<'c, 'a>,
    /// Parameters of the commit.
    pub how: Commit,
}

impl<'c, 'a, O: OpenOutput> Closing<'c, 'a, O> {
    /// Begins the close; also returns this rank's state in the commit. A rank that has failed writes no process group.
    pub fn begin(open: O, mut request: CloseRequest<'c, 'a>, how: Commit) -> (Closing<'c, 'a, O>, Participant) {
        let (length, failed) = match (request.failed.take(), request.length()) {
            (Some(e), _) | (None, Err(e)) => (0, Some(e)),
            (None, Ok(length)) => (length, None),
        };
        let part = Participant::new(open.index().rank, request.comm.size(), length, failed);
        (Closing { open, request, how }, part)
    }

    /// Bytes of the process group that [`Closing::ahead`] compares with `index_ahead`: all bytes if `all` is set, otherwise those not
    /// yet in storage.
    pub fn unwritten(&self, all: bool) -> u64 {
        let pack = &self.request.pack;
        // If the pack panics, the rank has failed.
        caught("measure the process group", || Ok(if all { pack.length() } else { pack.unwritten() })).unwrap_or(0)
    }

    /// The writer's identity, for the trailer of a process group in file `number`.
    pub fn writer(&self, number: u32) -> Writer {
        self.request.writer(self.open.index(), number)
    }

    /// The index of the process group for the position `extent` in file `number`; nothing is written.
    ///
    /// # Errors
    /// As [`crate::Pack::fragment`].
    pub fn fragment(&mut self, extent: Extent, number: u32) -> Result<Index> {
        let writer = self.writer(number);
        self.request.pack.fragment(extent, self.request.header, writer)
    }

    /// Sends the index fragment before the process group is written, under the conditions of [`Participant::ahead`].
    ///
    /// - `unwritten`: bytes of the group that are not yet written.
    pub fn ahead(&mut self, part: &Participant, extent: Extent, number: u32, unwritten: u64) -> Option<Ahead<'c>> {
        let (comm, how) = (self.request.comm, self.how);
        part.ahead(comm, how, extent, unwritten, || self.fragment(extent, number))
    }

    /// Collective: the first attempt to commit the step, for [`Closing::end`].
    ///
    /// # Errors
    /// As [`Participant::commit`].
    pub fn commit(&mut self, part: &mut Participant, ahead: Option<Ahead<'c>>) -> Result<Result<u64>> {
        let (comm, how) = (self.request.comm, self.how);
        if part.has_failed() {
            self.open.abandon();
        }
        part.commit(comm, self, how, ahead)
    }

    /// Collective: ends the output; `first` is the result of the first attempt to commit. [`Closing::open`] is not dropped: the
    /// method takes from it what it records for the next output.
    ///
    /// # Errors
    /// As [`commit::finish`], with the group and the file.
    pub fn end(&mut self, first: Result<Result<u64>>, part: &mut Participant) -> Result<Closed> {
        let (comm, how) = (self.request.comm, self.how);
        let ended = commit::finish(comm, first, part, self, how);
        ended
            .map(Closed::of)
            .map_err(|e| e.in_group(self.request.header.group.clone()).in_object(self.open.index().path.clone()))
    }
}

impl<O: OpenOutput> Files for Closing<'_, '_, O> {
    fn write(&mut self, extent: Extent) -> Result<Written> {
        self.open.write(&mut self.request, extent)
    }

    fn renew(&mut self) -> Result<()> {
        self.open.renew()
    }

    fn keeper(&mut self) -> &mut dyn IndexKeeper {
        self.open.keeper()
    }
}
