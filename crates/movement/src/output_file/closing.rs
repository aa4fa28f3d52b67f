//! The end of an output that goes into a BP file, as every method that writes one makes it: the process group gets its place, is
//! written, and the step is committed ([`crate::output_file::commit`]).
//!
//! A method says what it has open ([`OpenOutput`]) and where its process groups go; the order of the calls is [`Closing`]'s.

use crate::method::{CloseRequest, Closed};
use crate::output_file::commit::{self, Ahead, Commit, Files, IndexKeeper, Part, Written};
use crate::output_file::open_index::OpenIndex;
use crate::pack::Writer;
use thalweg_bp::index::Index;
use thalweg_comm::guarded::caught;
use thalweg_types::{Extent, Result};

/// What a method has open for an output that goes into a BP file.
pub trait OpenOutput {
    /// The index of the file.
    fn index(&self) -> &OpenIndex;

    /// Writes this rank's process group to `extent` and closes the file that holds it, so that a failure is reported before
    /// the group counts. Called by [`Part::write`], also where ranks were lost: the group then goes where no lost rank can
    /// write.
    ///
    /// # Errors
    /// Those of the store, with the rank and the object.
    fn write(&mut self, request: &mut CloseRequest<'_, '_>, extent: Extent) -> Result<Written>;

    /// Closes the file that this rank's group was to go to, after it has failed and before others hear of it: bytes of this rank that
    /// reach a file which several ranks write come before what others write there afterwards.
    fn abandon(&mut self) {}

    /// Whatever has the index open.
    fn keeper(&mut self) -> &mut dyn IndexKeeper;
}

/// An output that closes.
pub struct Closing<'c, 'a, O> {
    /// What the method has open.
    pub open: O,
    /// Communicator, header and process group.
    pub request: CloseRequest<'c, 'a>,
    /// How the step is committed.
    pub how: Commit,
}

impl<'c, 'a, O: OpenOutput> Closing<'c, 'a, O> {
    /// Begins to close, with this rank's part in it: a rank that has failed has none to write.
    pub fn begin(open: O, mut request: CloseRequest<'c, 'a>, how: Commit) -> (Closing<'c, 'a, O>, Part) {
        let (length, failed) = match (request.failed.take(), request.length()) {
            (Some(e), _) | (None, Err(e)) => (0, Some(e)),
            (None, Ok(length)) => (length, None),
        };
        let part = Part::new(open.index().rank, request.comm.size(), length, failed);
        (Closing { open, request, how }, part)
    }

    /// Bytes of the process group that [`Closing::ahead`] compares with `index_ahead`: all of them where `all` is set, else those that
    /// are not in storage yet.
    pub fn unwritten(&self, all: bool) -> u64 {
        let pack = &self.request.pack;
        // A rank whose pack panics has failed.
        caught("measure the process group", || Ok(if all { pack.length() } else { pack.unwritten() })).unwrap_or(0)
    }

    /// Who writes, for the trailer of a process group in file `number`.
    pub fn writer(&self, number: u32) -> Writer {
        self.request.writer(self.open.index(), number)
    }

    /// The index of the process group when it lies at `extent` of file `number`; nothing is written.
    ///
    /// # Errors
    /// As [`crate::Pack::fragment`].
    pub fn fragment(&mut self, extent: Extent, number: u32) -> Result<Index> {
        let writer = self.writer(number);
        self.request.pack.fragment(extent, self.request.header, writer)
    }

    /// Sends the index fragment before the process group is written, where that is worth it: [`Part::ahead`].
    ///
    /// - `unwritten`: bytes of the group that are still to be written.
    pub fn ahead(&mut self, part: &Part, extent: Extent, number: u32, unwritten: u64) -> Option<Ahead<'c>> {
        let (comm, how) = (self.request.comm, self.how);
        part.ahead(comm, how, extent, unwritten, || self.fragment(extent, number))
    }

    /// Collective: the first attempt to commit the step, for [`Closing::end`].
    ///
    /// # Errors
    /// As [`Part::commit`]: a lost rank.
    pub fn commit(&mut self, part: &mut Part, ahead: Option<Ahead<'c>>) -> Result<Result<u64>> {
        let (comm, how) = (self.request.comm, self.how);
        if part.has_failed() {
            self.open.abandon();
        }
        part.commit(comm, self, how, ahead)
    }

    /// Collective: ends the output whose first attempt to commit is `first`. What is open stays open for the method, which
    /// keeps what it has learnt for the next output.
    ///
    /// # Errors
    /// As [`commit::finish`], with the group and the file.
    pub fn end(&mut self, first: Result<Result<u64>>, part: &mut Part) -> Result<Closed> {
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

    fn keeper(&mut self) -> &mut dyn IndexKeeper {
        self.open.keeper()
    }
}
