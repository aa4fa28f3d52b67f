//! An output with subfiles, as one rank has it open: the subfile that it writes, if it writes one; on rank 0 the index.
//!
//! | question | answer |
//! |---|---|
//! | who opens what | each writer its subfile, rank 0 also the metadata file |
//! | calls | one reduction; one more where steps are dropped, a broadcast where the file keeps other statistics |
//! | where a subfile's data start | behind its last closed step; what lies behind that is cut off |

use super::step_commit::Part;
use super::subfiles::{Metadata, begin, how, subfile, subfile_folder};
use crate::method::{OpenRequest, Opened, not_open};
use thalweg_layout::{WriteObject, WriterId};
use thalweg_types::{Error, ErrorKind, Result};

/// A subfile that is open for writing.
pub struct Own {
    /// Its number.
    pub number: u32,
    /// Its path.
    pub path: String,
    /// The file.
    pub object: Box<dyn WriteObject>,
    /// Where this output starts in it, or why that cannot be told.
    start: Result<u64>,
}

/// See the room's page. Dropped before the output was closed, the next one looks where the subfile ends.
pub struct SubfileOutput {
    /// The file that holds the index, and what it is open for.
    pub metadata: Metadata,
    own: Option<Own>,
    closed: bool,
}

impl SubfileOutput {
    /// Collective.
    ///
    /// - `files`: how many subfiles the ranks write together; `number`: that of this rank, if it writes one.
    ///
    /// # Errors
    /// On all ranks the same kind; the file is then as it was.
    pub fn open(
        request: &OpenRequest<'_>,
        files: u32,
        number: Option<u32>,
        sync: bool,
    ) -> Result<(SubfileOutput, Opened)> {
        let rank = request.comm.rank();
        let own_path = number.map(|number| subfile(request.path, number));
        let mut first = None;
        let mut open = || {
            if rank == 0 {
                request.layout.make_folder(&subfile_folder(request.path))?;
                first = Some(begin(request, files, sync).map_err(|e| e.in_object(request.path))?);
            }
            let (Some(path), Some(number)) = (&own_path, number) else { return Ok(None) };
            let open = || request.layout.open_write(path, how(request.mode), WriterId(number));
            match open() {
                // Most often rank 0 has made the folder by now.
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    request.layout.make_folder(&subfile_folder(request.path))?;
                    open().map(Some)
                }
                opened => opened.map(Some),
            }
        };
        let opened = open().map_err(|e: Error| {
            let path = own_path.clone().unwrap_or_else(|| request.path.to_string());
            e.at_rank(rank).in_object(path)
        });
        let (object, outcome) = match opened {
            Ok(object) => (object, Ok(())),
            Err(e) => (None, Err(e)),
        };
        let (metadata, opened, _) = Metadata::agree(request, files, sync, outcome, first, &[])?;
        let own = match (number, own_path, object) {
            (Some(number), Some(path), Some(object)) => {
                // A failure here is told by the first write, and to all at close, where ranks meet again.
                let start = metadata.start_in(&path, &*object);
                Some(Own { number, path, object, start })
            }
            _ => None,
        };
        Ok((SubfileOutput { metadata, own, closed: false }, opened))
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

    /// This rank's subfile, and where this output starts in it. A failure to find that is told with twice: to the one
    /// who writes, and at close to all.
    pub fn start(&self) -> Result<(&Own, u64)> {
        let own = self.own.as_ref().ok_or_else(not_open)?;
        match &own.start {
            Ok(start) => Ok((own, *start)),
            Err(e) => Err(Error::new(e.kind(), format!("the end of the subfile cannot be found: {e}"))
                .at_rank(self.rank())
                .in_object(own.path.clone())),
        }
    }

    /// Opens a subfile that nobody else writes, for a rank whose writer was lost.
    ///
    /// Returns it and where this output starts in it.
    pub fn open_another(&mut self, number: u32) -> Result<(&Own, u64)> {
        let (path, object, start) = self.metadata.open_subfile(number)?;
        Ok((self.own.insert(Own { number, path, object, start: Ok(start) }), start))
    }

    /// Makes this rank's subfile and its name durable, where the output is to be.
    pub fn sync_own(&self) -> Result<()> {
        self.own.as_ref().map_or(Ok(()), |own| self.metadata.sync_subfile(&own.path, &*own.object))
    }

    fn keep_end(&self, end: Option<u64>) {
        if let Some(own) = &self.own {
            self.metadata.keep_end(&own.path, end);
        }
    }

    /// Keeps for the next output what this one knows.
    ///
    /// - `end`: of this rank's subfile; `None` where the next output is to look.
    pub fn closed(mut self, part: &Part, end: Option<u64>) {
        self.keep_end(end);
        self.metadata.closed(part.is_indexed());
        self.closed = true;
    }
}

impl Drop for SubfileOutput {
    fn drop(&mut self) {
        if !self.closed {
            // Blocks that went at once lie behind the end of the subfile.
            self.keep_end(None);
        }
    }
}
