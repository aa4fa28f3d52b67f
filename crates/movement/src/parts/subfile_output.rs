//! An output with subfiles, as one rank has it open: the subfile that it writes, if it writes one; on rank 0 the index.
//!
//! | question | answer |
//! |---|---|
//! | who opens what | each writer its subfile, rank 0 also the metadata file |
//! | calls | one reduction; one more where steps are dropped, a broadcast where the file keeps other statistics |
//! | where a subfile's data start | behind its last closed step; what lies behind that is cut off |

use super::agreement::agree;
use super::kept::{File, InUse, Kept};
use super::levels;
use super::live_index::LiveIndex;
use super::shared_file::{DROPS, LEVELS, flags, next_time};
use super::step_commit::{IndexFile, Part};
use super::subfiles::{begin, closed_end, cut_leftovers, subfile, subfile_folder};
use crate::method::{Mode, OpenRequest, Opened, folder_of};
use std::sync::Arc;
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId};
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

/// See the room's page.
pub struct SubfileOutput {
    sync: bool,
    layout: Arc<dyn Layout>,
    kept: Arc<Kept>,
    path: String,
    mode: Mode,
    own: Option<Own>,
    /// On rank 0: the file that holds the index.
    index_object: Option<Box<dyn WriteObject>>,
    /// On rank 0.
    live: Option<LiveIndex>,
    /// End of the index when the output was opened.
    base: u64,
    time_index: u32,
    run: u64,
    rank: u32,
    /// On rank 0.
    in_use: Option<InUse>,
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
        let how = if request.mode == Mode::Write { OpenWrite::Replace } else { OpenWrite::Any };
        let mut first = None;
        let mut open = || {
            if number.is_some() {
                request.layout.make_folder(&subfile_folder(request.path))?;
            }
            if rank == 0 {
                first = Some(begin(request, files, sync).map_err(|e| e.in_object(request.path))?);
            }
            let object = match (&own_path, number) {
                (Some(path), Some(number)) => Some(request.layout.open_write(path, how, WriterId(number))?),
                _ => None,
            };
            Ok(object)
        };
        let own = open().map_err(|e: Error| {
            let path = own_path.clone().unwrap_or_else(|| request.path.to_string());
            e.at_rank(rank).in_object(path)
        });
        let numbers = first.as_ref().map_or([0; 4], |f| {
            let time_index = u64::from(next_time(request.mode, f.live.last_time()));
            [f.live.end(), time_index, f.run, flags(&f.live, &f.levels)]
        });
        let (own, outcome) = match own {
            Ok(own) => (Some(own), Ok(())),
            Err(e) => (None, Err(e)),
        };
        let agreed = agree(request.comm, outcome, "open the output", &numbers).map_err(|e| e.in_object(request.path));
        let (Ok(agreed), Some(object)) = (&agreed, own) else {
            if let Some(first) = first {
                // Another rank failed: the file is as it was.
                let file = File { layout: request.layout, path: request.path, subfiles: true, sync };
                request.kept.keep(file, Some(first.live).filter(|live| !live.is_dropping()), first.run);
            }
            return Err(agreed.err().unwrap_or_else(not_open));
        };
        let (index_object, mut live, levels, in_use) = match first {
            Some(f) => (Some(f.object), Some(f.live), f.levels, Some(f.in_use)),
            None => (None, None, Vec::new(), None),
        };
        let (time_index, run) = (agreed[1] as u32, agreed[2]);
        let mut base = agreed[0];
        if agreed[3] & DROPS > 0 {
            // Subfiles are cut only when no index lists those steps any more.
            let shortened = match (&index_object, &mut live) {
                (Some(object), Some(live)) => {
                    live.shorten(&**object, sync).and_then(|()| cut_leftovers(request, files, time_index, sync))
                }
                _ => Ok(()),
            };
            let end = live.as_ref().map_or(0, LiveIndex::end);
            base =
                agree(request.comm, shortened, "drop later steps", &[end]).map_err(|e| e.in_object(request.path))?[0];
        }
        let own = match (number, own_path, object) {
            (Some(number), Some(path), Some(object)) => Some(Own { number, path, object, start: Ok(0) }),
            _ => None,
        };
        let mut open = SubfileOutput {
            sync,
            layout: request.layout.clone(),
            kept: request.kept.clone(),
            path: request.path.to_string(),
            mode: request.mode,
            own,
            index_object,
            live,
            base,
            time_index,
            run,
            rank,
            in_use,
        };
        // A failure here is told by the first write, and to all at close, where ranks meet again.
        let start = open.own.as_ref().map(|own| open.find_start(own));
        if let (Some(own), Some(start)) = (&mut open.own, start) {
            own.start = start;
        }
        let levels = levels::tell(request.comm, agreed[3] & LEVELS > 0, levels)?;
        Ok((open, Opened { time_index, run, levels }))
    }

    /// This rank among all that opened the output.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Step + 1.
    pub fn time_index(&self) -> u32 {
        self.time_index
    }

    /// Run id.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// End of the index when the output was opened.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Name of the file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Where files are.
    pub fn layout(&self) -> &Arc<dyn Layout> {
        &self.layout
    }

    /// The subfile that this rank writes.
    pub fn own(&self) -> Option<&Own> {
        self.own.as_ref()
    }

    /// Where this output starts in this rank's subfile; what an output that never closed left there is cut off.
    fn find_start(&self, own: &Own) -> Result<u64> {
        if self.mode == Mode::Write {
            return Ok(0);
        }
        let length = own.object.length()?;
        if !matches!(self.mode, Mode::AppendAfter(_)) && self.kept.end_of(&self.end_key(own)) == Some(length) {
            return Ok(length);
        }
        let end = closed_end(&*own.object, self.mode, self.time_index)?;
        if length > end {
            own.object.truncate(end)?;
        }
        Ok(end)
    }

    fn end_key(&self, own: &Own) -> String {
        format!("{}:{}", self.run, own.path)
    }

    /// This rank's subfile, and where this output starts in it. A failure to find that is told with twice: to the one
    /// who writes, and at close to all.
    pub fn start(&self) -> Result<(&Own, u64)> {
        let own = self.own.as_ref().ok_or_else(not_open)?;
        match &own.start {
            Ok(start) => Ok((own, *start)),
            Err(e) => Err(Error::new(e.kind(), format!("the end of the subfile cannot be found: {e}"))
                .at_rank(self.rank)
                .in_object(own.path.clone())),
        }
    }

    /// Opens a subfile that nobody else writes, for a rank whose writer was lost.
    ///
    /// Returns it and where this output starts in it.
    pub fn open_another(&mut self, number: u32) -> Result<(&Own, u64)> {
        let path = subfile(&self.path, number);
        let how = if self.mode == Mode::Write { OpenWrite::Replace } else { OpenWrite::Any };
        self.layout.make_folder(&subfile_folder(&self.path))?;
        let object = self.layout.open_write(&path, how, WriterId(number))?;
        let start = match self.mode {
            Mode::Write => 0,
            mode => closed_end(&*object, mode, self.time_index)?,
        };
        if object.length()? > start {
            object.truncate(start)?;
        }
        Ok((self.own.insert(Own { number, path, object, start: Ok(start) }), start))
    }

    /// Makes this rank's subfile and its name durable, where the output is to be.
    pub fn sync_own(&self) -> Result<()> {
        match &self.own {
            Some(own) if self.sync => {
                own.object.sync()?;
                self.layout.sync_folder(folder_of(&own.path))
            }
            _ => Ok(()),
        }
    }

    /// As [`super::step_commit::Files::index`] wants it.
    pub fn index(&mut self) -> Result<IndexFile<'_>> {
        let object = match self.index_object.take() {
            Some(object) => object,
            None => self.layout.open_write(&self.path, OpenWrite::Any, WriterId(self.rank))?,
        };
        let object = &**self.index_object.insert(object);
        if self.live.is_none() {
            self.kept.hold(&self.layout, &self.path, object);
            self.live = Some(match self.base {
                0 => LiveIndex::new(true),
                base => LiveIndex::load_up_to(object, true, base)?,
            });
        }
        let live = self.live.as_mut().ok_or_else(not_open)?;
        Ok(IndexFile { live, object })
    }

    /// The index in memory is not what the file holds.
    pub fn forget_index(&mut self) {
        self.live = None;
    }

    /// Makes file and name of the index durable, where the output is to be.
    pub fn sync_index(&mut self) -> Result<()> {
        match &self.index_object {
            Some(object) if self.sync => {
                object.sync()?;
                self.layout.sync_folder(folder_of(&self.path))
            }
            _ => Ok(()),
        }
    }

    /// Keeps the index for the next output; `None` where the file has to say it again.
    fn keep(&self, live: Option<LiveIndex>) {
        let file = File { layout: &self.layout, path: &self.path, subfiles: true, sync: self.sync };
        self.kept.keep(file, live, self.run);
    }

    fn keep_end(&self, end: Option<u64>) {
        if let Some(own) = &self.own {
            self.kept.set_end(&self.end_key(own), end);
        }
    }

    /// Keeps for the next output what this one knows.
    ///
    /// - `end`: of this rank's subfile; `None` where the next output is to look, as after a failure: the step may be in
    ///   the index or not.
    pub fn closed(mut self, part: &Part, end: Option<u64>) {
        self.keep_end(end);
        match self.live.take() {
            Some(live) if part.is_indexed() => self.keep(Some(live)),
            _ if self.in_use.is_some() => self.keep(None),
            _ => {}
        }
    }

    /// As [`SubfileOutput::closed`], for an output that was dropped.
    pub fn dropped(mut self) {
        // Blocks that went at once lie behind the end of the subfile.
        self.keep_end(None);
        if let Some(live) = self.live.take() {
            self.keep(Some(live));
        }
    }
}

fn not_open() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the output is not open")
}
