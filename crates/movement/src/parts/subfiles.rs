//! Subfiles beside a metadata file: their names, what rank 0 does when an output opens, where the closed steps of one end.
//!
//! Shared by the methods that write `<name>.dir/<name>.<number>` and keep the index in `<name>`.

use super::live_index::{AsSource, LiveIndex};
use super::open_index::{self, First, OpenIndex, next_time};
use super::step_commit::{IndexFile, IndexKeeper};
use crate::method::{Mode, OpenRequest, Opened, file_name, folder_of};
use thalweg_bp::footer::{Footer, MINIFOOTER};
use thalweg_bp::scan;
use thalweg_bp::source::{self, Source};
use thalweg_layout::{OpenWrite, WriteObject, WriterId};
use thalweg_types::{ByteOrder, Result};

/// The folder of subfiles.
pub fn subfile_folder(path: &str) -> String {
    format!("{path}.dir")
}

/// The path of a subfile.
pub fn subfile(path: &str, number: u32) -> String {
    format!("{path}.dir/{}.{number}", file_name(path))
}

/// How a subfile is opened by the one who may make it.
pub fn how(mode: Mode) -> OpenWrite {
    if mode == Mode::Write { OpenWrite::Replace } else { OpenWrite::Any }
}

/// What rank 0 does with the folder of subfiles and the file that holds the index.
///
/// - `files`: how many subfiles this output writes; those of higher numbers are removed, or end with a closed step.
pub fn begin(request: &OpenRequest<'_>, files: u32, sync: bool) -> Result<(Box<dyn WriteObject>, First)> {
    let is_new = request.layout.make_new_folder(&subfile_folder(request.path))?;
    let (object, first) = open_index::begin(request, true)?;
    if request.mode == Mode::Write {
        if !is_new {
            remove_stale(request, files)?;
        }
    } else if !first.known && first.live.end() > 0 && !first.live.is_dropping() {
        cut_leftovers(request, files, next_time(request.mode, first.live.last_time()), sync)?;
    }
    Ok((object, first))
}

/// Subfiles that this output does not write: those of an earlier, larger run.
fn others(request: &OpenRequest<'_>, files: u32) -> Result<Vec<(u32, String)>> {
    let folder = subfile_folder(request.path);
    let prefix = format!("{}.", file_name(request.path));
    let names = request.layout.list(&folder)?;
    let number = |name: &str| name.strip_prefix(&prefix).and_then(|n| n.parse::<u32>().ok());
    let all = names.iter().filter_map(|name| Some((number(name)?, format!("{folder}/{name}"))));
    Ok(all.filter(|(n, _)| *n >= files).collect())
}

/// Removes subfiles that a new file does not have.
fn remove_stale(request: &OpenRequest<'_>, files: u32) -> Result<()> {
    others(request, files)?.into_iter().try_for_each(|(_, path)| request.layout.remove(&path))
}

/// Cuts off what an output that never closed left in subfiles that this one does not write: found again without an
/// index, it would be taken for a part of the step that is written now.
pub fn cut_leftovers(request: &OpenRequest<'_>, files: u32, time_index: u32, sync: bool) -> Result<()> {
    for (number, path) in others(request, files)? {
        let object = request.layout.open_write(&path, OpenWrite::Existing, WriterId(number))?;
        let end = closed_end(&*object, request.mode, time_index).map_err(|e| e.in_object(path))?;
        if object.length()? > end {
            object.truncate(end)?;
            if sync {
                object.sync()?;
            }
        }
    }
    Ok(())
}

/// The end of the last process group of a subfile that belongs to a closed step.
///
/// - `time_index`: of the output that opens. In append mode a group of that step or a later one was left by an output
///   that never closed, or is of a dropped step.
pub fn closed_end(object: &dyn WriteObject, mode: Mode, time_index: u32) -> Result<u64> {
    let source = AsSource::new(object)?;
    let mut end = source.length();
    let leftover = |time: u32| match mode {
        Mode::Write => true,
        Mode::Append | Mode::AppendAfter(_) => time >= time_index,
        Mode::Update => time > time_index,
    };
    while end > 0 {
        let Some(trailer) = scan::trailer_before(&source, end, ByteOrder::NATIVE)? else { break };
        if !leftover(trailer.time_index) {
            return Ok(end);
        }
        end = trailer.group.offset;
    }
    if end == 0 {
        return Ok(0);
    }
    // The subfiles of ADIOS 1.13 end with an index of their own.
    if end >= MINIFOOTER && !matches!(mode, Mode::AppendAfter(_)) {
        let tail = source::array(&source, end - MINIFOOTER)?;
        if Footer::decode(&tail, end).is_ok() {
            return Ok(end);
        }
    }
    let scan = scan::scan(&source, ByteOrder::NATIVE)?;
    Ok(scan.groups.iter().filter(|g| !leftover(g.header.time_index)).filter_map(|g| g.extent.end()).max().unwrap_or(0))
}

/// The metadata file of an output that is open.
pub struct Metadata {
    /// What it is open for.
    pub index: OpenIndex,
    /// On rank 0, and on whoever keeps the index after it is lost.
    object: Option<Box<dyn WriteObject>>,
}

impl Metadata {
    /// Collective: as [`OpenIndex::agree`].
    ///
    /// - `outcome`: what this rank has opened so far; `first`: on rank 0, what [`begin`] found; `files` as there.
    /// - `told`: numbers of rank 0 that all are to know.
    pub fn agree(
        request: &OpenRequest<'_>,
        files: u32,
        sync: bool,
        outcome: Result<()>,
        first: Option<(Box<dyn WriteObject>, First)>,
        told: &[u64],
    ) -> Result<(Metadata, Opened, Vec<u64>)> {
        let (object, first) = first.unzip();
        let drop_steps = |live: &mut LiveIndex, time_index| {
            // Subfiles are cut only when no index lists those steps any more.
            object.as_deref().map_or(Ok(()), |object| live.shorten(object, sync))?;
            cut_leftovers(request, files, time_index, sync)
        };
        let (index, opened, told) = OpenIndex::agree(request, (true, sync), outcome, first, told, drop_steps)?;
        Ok((Metadata { index, object }, opened, told))
    }

    /// The output is closed.
    ///
    /// - `indexed`: its step is in this rank's index.
    pub fn closed(&mut self, indexed: bool) {
        self.index.closed(indexed, self.object.as_deref());
    }

    /// Where this output begins in a subfile; what an output that never closed left there is cut off.
    pub fn start_in(&self, path: &str, object: &dyn WriteObject) -> Result<u64> {
        let mode = self.index.mode;
        if mode == Mode::Write {
            return Ok(0);
        }
        let length = object.length()?;
        if !matches!(mode, Mode::AppendAfter(_)) && self.index.kept.end_of(&self.end_key(path)) == Some(length) {
            return Ok(length);
        }
        let end = closed_end(object, mode, self.index.time_index)?;
        if length > end {
            object.truncate(end)?;
        }
        Ok(end)
    }

    /// Opens a subfile that nobody else writes, for a rank whose own way is lost. Returns its path, and where this output
    /// starts in it.
    pub fn open_subfile(&self, number: u32) -> Result<(String, Box<dyn WriteObject>, u64)> {
        let (layout, path) = (&self.index.layout, subfile(&self.index.path, number));
        layout.make_folder(&subfile_folder(&self.index.path))?;
        let object = layout.open_write(&path, how(self.index.mode), WriterId(number))?;
        let start = self.start_in(&path, &*object)?;
        Ok((path, object, start))
    }

    /// Keeps the end of a subfile for the next output; `None` where that is to look, as after a failure: the step may be
    /// in the index or not.
    pub fn keep_end(&self, path: &str, end: Option<u64>) {
        self.index.kept.set_end(&self.end_key(path), end);
    }

    fn end_key(&self, path: &str) -> String {
        format!("{}:{path}", self.index.run)
    }

    /// Makes a subfile and its name durable, where the output is to be.
    pub fn sync_subfile(&self, path: &str, object: &dyn WriteObject) -> Result<()> {
        if !self.index.sync {
            return Ok(());
        }
        object.sync()?;
        self.index.layout.sync_folder(folder_of(path))
    }
}

impl IndexKeeper for Metadata {
    fn index(&mut self) -> Result<IndexFile<'_>> {
        let index = &mut self.index;
        let object = match self.object.take() {
            Some(object) => object,
            None => index.layout.open_write(&index.path, OpenWrite::Any, WriterId(index.rank))?,
        };
        index.file(&**self.object.insert(object))
    }

    fn forget_index(&mut self) {
        self.index.forget();
    }

    fn sync_index(&mut self) -> Result<()> {
        self.object.as_deref().map_or(Ok(()), |object| self.index.sync(object))
    }
}
