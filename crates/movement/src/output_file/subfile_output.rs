//! An output with subfiles, as open on one rank: the subfile that it writes, if any; on rank 0 also the index.
//!
//! | question | answer |
//! |---|---|
//! | who opens what | each writer its subfile, rank 0 also the metadata file |
//! | when | rank 0 before the ranks agree that the output is open; the others also before that ([`When::Together`]), so that a failure to open a subfile fails the open, or after it ([`When::Apart`]): then no rank waits for another's subfile, and a failure is returned by the first write to it, and at close to all |
//! | calls | one reduction; one more if steps are dropped, and a broadcast if the file keeps other statistics |
//! | where a subfile's data start | after its last closed step; later bytes are cut off |

use crate::method::{CloseRequest, OpenRequest, Opened, not_open};
use crate::output_file::closing::OpenOutput;
use crate::output_file::commit::{IndexKeeper, Participant, Written};
use crate::output_file::handle::Handle;
use crate::output_file::open_index::OpenIndex;
use crate::output_file::spill::Spill;
use crate::output_file::subfiles::{Early, Metadata, begin, open_own, subfile, subfile_folder, take_over};
use std::io::IoSlice;
use thalweg_comm::guarded::caught;
use thalweg_layout::{OpenWrite, WriterId};
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// A subfile that is open for writing.
pub struct Own {
    /// Its number.
    pub number: u32,
    /// Its path.
    pub path: String,
    /// The file.
    pub object: Handle,
    /// Offset of this output in it, or the error of finding it.
    start: Result<u64>,
}

/// An output with subfiles. If it is dropped before close, the next output finds the ends of the subfiles again.
pub struct SubfileOutput {
    /// The file with the index, and the mode of its open.
    pub metadata: Metadata,
    own: Option<Own>,
    /// The error of its open.
    unopened: Option<Error>,
    closed: bool,
}

/// When ranks open their subfiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before all ranks agree that the output is open.
    Together,
    /// After that, each rank independently.
    Apart,
}

/// The opened output, and the result.
fn apart<T>(opened: Result<Option<T>>) -> (Option<T>, Result<()>) {
    match opened {
        Ok(opened) => (opened, Ok(())),
        Err(e) => (None, Err(e)),
    }
}

impl SubfileOutput {
    /// Opens the subfiles. Collective.
    ///
    /// - `files`: number of subfiles that the ranks write together; `number`: that of this rank, if it writes a subfile.
    ///
    /// # Errors
    /// The same kind on all ranks; the file is then unchanged.
    pub fn open(
        request: &OpenRequest<'_>,
        files: u32,
        number: Option<u32>,
        when: When,
        sync: bool,
    ) -> Result<(SubfileOutput, Opened)> {
        let rank = request.comm.rank();
        take_over(request).map_err(|e| e.in_object(request.path))?;
        let own_path = number.map(|number| subfile(request.path, number));
        let open_subfile = || {
            let (Some(path), Some(number)) = (&own_path, number) else { return Ok(None) };
            let open = || open_own(&**request.layout, path, request.mode, number);
            let opened = match open() {
                // Usually rank 0 has created the folder by now.
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    request.layout.make_folder(&subfile_folder(request.path)).and_then(|()| open())
                }
                opened => opened,
            };
            opened.map(Some).map_err(|e| e.at_rank(rank).in_object(path.clone()))
        };
        let first = match rank {
            0 => caught("find the index", || begin(request, files, sync)).map(Some),
            _ => Ok(None),
        };
        let (first, mut outcome) = apart(first.map_err(|e: Error| e.at_rank(rank).in_object(request.path)));
        let mut object = None;
        if when == When::Together && outcome.is_ok() {
            (object, outcome) = apart(caught("open a subfile", open_subfile));
        }
        let early: Vec<Early<'_>> = match (number, &own_path, &object) {
            (Some(number), Some(path), Some((object, made))) => {
                vec![Early { number, path, object: &**object, made: *made }]
            }
            _ => Vec::new(),
        };
        let (mut metadata, opened, _) = Metadata::agree(request, (files, sync), outcome, first, &[], &early)?;
        drop(early);
        let mut unopened = None;
        if when == When::Apart {
            let outcome;
            (object, outcome) = apart(caught("open a subfile", open_subfile));
            unopened = outcome.err();
        }
        let own = match (number, own_path, object) {
            (Some(number), Some(path), Some((object, made))) => {
                // A failure here is returned by the first write, and at close to all ranks.
                let start = caught("find the end of a subfile", || metadata.start_in(number, &path, &*object, made));
                Some(Own { number, path, object: Handle::from(object), start })
            }
            _ => None,
        };
        let found = match own.as_ref().map(|own| &own.start) {
            Some(Err(e)) => Err(e.again().at_rank(rank)),
            _ => Ok(()),
        };
        metadata.agree_on_subfiles(request.comm, found)?;
        Ok((SubfileOutput { metadata, own, unopened, closed: false }, opened))
    }

    /// This rank among all that opened the output.
    pub fn rank(&self) -> u32 {
        self.metadata.index.rank
    }

    /// Name of the file.
    pub fn path(&self) -> &str {
        &self.metadata.index.path
    }

    /// The subfile that this rank writes.
    pub fn own(&self) -> Option<&Own> {
        self.own.as_ref()
    }

    /// This rank's subfile, and the offset of this output in it. A failure to open it or to find the offset is returned to the
    /// writer, and at close to all ranks.
    ///
    /// # Errors
    /// The failure to open the subfile or to find its end; `InvalidArgument` on a rank without a subfile.
    pub fn start(&self) -> Result<(&Own, u64)> {
        let again = |e: &Error, what: &str| Error::new(e.kind(), format!("{what}: {e}")).at_rank(self.rank());
        match (&self.own, &self.unopened) {
            (Some(own), _) => match &own.start {
                Ok(start) => Ok((own, *start)),
                Err(e) => Err(again(e, "the end of the subfile cannot be found").in_object(own.path.clone())),
            },
            (None, Some(e)) => {
                let path = e.place().object.clone().unwrap_or_else(|| self.path().to_string());
                Err(again(e, "the subfile could not be opened").in_object(path))
            }
            (None, None) => Err(not_open()),
        }
    }

    /// Opens the subfile of a lost writer on another rank.
    ///
    /// Returns it and the offset of this output in it.
    ///
    /// # Errors
    /// As [`Metadata::open_subfile`].
    pub fn open_another(&mut self, number: u32) -> Result<(&Own, u64)> {
        let (path, object, start) = self.metadata.open_subfile(number)?;
        Ok((self.own.insert(Own { number, path, object, start: Ok(start) }), start))
    }

    /// Writes this rank's process group into a subfile of its own, because it did not reach that of its set, or it is not known whether it
    /// did. The survivors have synchronised since, so that no rank writes to the first extent.
    ///
    /// - `sets` and `set`: number of sets, and this rank's; `place`: where the group may lie in the subfile of the set.
    ///
    /// # Errors
    /// Errors of the store, with the rank and the subfile.
    pub fn write_after_loss(
        &mut self,
        request: &mut CloseRequest<'_, '_>,
        (sets, set): (u32, u32),
        place: Option<Extent>,
        spill: &Spill,
    ) -> Result<Written> {
        if let Some(place) = place {
            // Recovery without an index would read two copies as two blocks. Errors are ignored: if the file does not exist, there
            // is only one copy.
            let _ = caught("erase a process group", || self.erase(set, place));
        }
        let number = sets.saturating_add(self.rank());
        let writer = request.writer(&self.metadata.index, number);
        let (own, start) = self.open_another(number)?;
        let extent = Extent::new(start, request.pack.length());
        let fragment = request
            .pack
            .write_spilled(spill.object(), &own.object, extent, request.header, writer, spill.step())
            .and_then(|fragment| spill.end().map(|()| fragment))
            .map_err(|e| e.at_rank(writer.rank).in_object(own.path.clone()))?;
        self.end_own()?;
        Ok(Written { fragment, extent })
    }

    /// Overwrites the extent of this rank's group in the subfile of its set with zeros.
    fn erase(&self, set: u32, place: Extent) -> Result<()> {
        let path = subfile(self.path(), set);
        let object = self.metadata.index.layout.open_write(&path, OpenWrite::Existing, WriterId(self.rank()))?;
        let end = object.length()?.min(place.offset.saturating_add(place.length));
        let zeros = [0; 4096];
        let mut at = place.offset;
        while at < end {
            let n = (end - at).min(zeros.len() as u64);
            object.write_at(at, &[IoSlice::new(&zeros[..n as usize])])?;
            at += n;
        }
        Ok(())
    }

    /// Closes this rank's subfile; it and its name are durable if the output must be.
    ///
    /// # Errors
    /// As [`Metadata::end_subfile`].
    pub fn end_own(&self) -> Result<()> {
        self.own.as_ref().map_or(Ok(()), |own| self.metadata.end_subfile(&own.path, &own.object))
    }

    fn keep_end(&self, end: Option<u64>) {
        if let Some(own) = &self.own {
            self.metadata.keep_end(&own.path, end);
        }
    }

    /// Records state for the next output.
    ///
    /// - `end`: of this rank's subfile; `None` if the next output must find it.
    pub fn closed(mut self, part: &Participant, end: Option<u64>) {
        self.keep_end(end);
        self.metadata.closed(part.is_indexed());
        self.closed = true;
    }
}

impl OpenOutput for SubfileOutput {
    fn index(&self) -> &OpenIndex {
        &self.metadata.index
    }

    fn write(&mut self, request: &mut CloseRequest<'_, '_>, extent: Extent) -> Result<Written> {
        let (own, _) = self.start()?;
        let writer = request.writer(&self.metadata.index, own.number);
        let fragment = request
            .pack
            .write(&own.object, extent, request.header, writer)
            .map_err(|e| e.at_rank(self.rank()).in_object(own.path.clone()))?;
        self.end_own()?;
        Ok(Written { fragment, extent })
    }

    fn keeper(&mut self) -> &mut dyn IndexKeeper {
        &mut self.metadata
    }
}

impl Drop for SubfileOutput {
    fn drop(&mut self) {
        if !self.closed {
            // Blocks that were written through are after the end of the subfile.
            self.keep_end(None);
        }
    }
}
