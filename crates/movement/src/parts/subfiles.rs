//! Subfiles beside a metadata file: their names, what rank 0 does when an output opens, where the closed steps of one end.
//!
//! Shared by the methods that write `<name>.dir/<name>.<number>` and keep the index in `<name>`.

use super::agreement::agree;
use super::kept::{File, InUse, Kept};
use super::levels::ArrayLevel;
use super::live_index::{AsSource, LiveIndex};
use super::shared_file::{DROPS, LEVELS, flags, next_time};
use super::step_commit::IndexFile;
use crate::method::{Mode, OpenRequest, file_name, folder_of};
use std::sync::Arc;
use thalweg_bp::footer::{Footer, MINIFOOTER};
use thalweg_bp::scan;
use thalweg_bp::source::{self, Source};
use thalweg_bp::trailer::Trailer;
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId};
use thalweg_types::{ByteOrder, Error, Result};

/// The folder of subfiles.
pub fn subfile_folder(path: &str) -> String {
    format!("{path}.dir")
}

/// The path of a subfile.
pub fn subfile(path: &str, number: u32) -> String {
    format!("{path}.dir/{}.{number}", file_name(path))
}

/// What rank 0 finds out first.
pub struct First {
    /// The file that holds the index.
    pub object: Box<dyn WriteObject>,
    /// Its index.
    pub live: LiveIndex,
    /// Run id.
    pub run: u64,
    /// Arrays of which it keeps other statistics than asked for.
    pub levels: Vec<ArrayLevel>,
    /// It is open for this output.
    pub in_use: InUse,
}

/// What rank 0 does with the file that holds the index.
///
/// - `files`: how many subfiles this output writes; those of higher numbers are removed, or end with a closed step.
pub fn begin(request: &OpenRequest<'_>, files: u32, sync: bool) -> Result<First> {
    let writer = WriterId(0);
    let in_use = request.kept.begin(request.layout, request.path)?;
    if request.mode == Mode::Write {
        request.kept.forget(request.layout, request.path);
        let object = request.layout.open_write(request.path, OpenWrite::Replace, writer)?;
        request.kept.hold(request.layout, request.path, &*object);
        remove_stale(request, files)?;
        return Ok(First { object, live: LiveIndex::new(true), run: request.run, levels: Vec::new(), in_use });
    }
    let kept = request.kept.take(request.layout, request.path);
    let object = request.layout.open_write(request.path, request.mode.how(), writer)?;
    request.kept.hold(request.layout, request.path, &*object);
    let known = kept.is_some();
    let (mut live, run) = match kept {
        Some(kept) => (kept.index, kept.run),
        None if object.length()? == 0 => (LiveIndex::new(true), request.run),
        None => (LiveIndex::load(&*object, true)?, request.run),
    };
    if let Mode::AppendAfter(step) = request.mode {
        live.drop_after(step)?;
    }
    if !known && live.end() > 0 && !live.is_dropping() {
        cut_leftovers(request, files, next_time(request.mode, live.last_time()), sync)?;
    }
    let levels = live.differing_levels(request.arrays)?;
    Ok(First { object, live, run, levels, in_use })
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
        let Some(trailer) = trailer_before(&source, end) else { break };
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

fn trailer_before(source: &AsSource<'_>, end: u64) -> Option<Trailer> {
    let last: [u8; 8] = source::array(source, end.checked_sub(8)?).ok()?;
    let length = Trailer::length_from_end(&last, ByteOrder::NATIVE)?;
    let at = end.checked_sub(length)?;
    let bytes = source::bytes(source, at, length, "trailer").ok()?;
    let trailer = Trailer::decode(&bytes, ByteOrder::NATIVE, at).ok()?;
    (trailer.group.end() == Some(end)).then_some(trailer)
}

/// The metadata file of an output that is open; on rank 0, and on whoever keeps the index after it is lost.
///
/// Dropped before the output was closed, it keeps the index of the outputs before for the next one.
pub struct Metadata {
    sync: bool,
    layout: Arc<dyn Layout>,
    kept: Arc<Kept>,
    path: String,
    rank: u32,
    object: Option<Box<dyn WriteObject>>,
    live: Option<LiveIndex>,
    /// End of the index when the output was opened.
    base: u64,
    run: u64,
    in_use: Option<InUse>,
}

/// What all ranks know once the output is open.
pub struct Begun {
    /// Step + 1.
    pub time_index: u32,
    /// Run id.
    pub run: u64,
    /// Whether [`tell`](super::levels::tell) has something to tell.
    pub levels_differ: bool,
    /// What it tells, on rank 0.
    pub levels: Vec<ArrayLevel>,
}

impl Metadata {
    /// Collective: all ranks agree that the output is open, and later steps are dropped where that is asked for.
    ///
    /// - `outcome`: what this rank has opened so far; `first`: on rank 0, what [`begin`] found; `files` as there.
    ///
    /// # Errors
    /// The same kind on all ranks; the file is then as it was, unless steps were being dropped.
    pub fn agree(
        request: &OpenRequest<'_>,
        files: u32,
        sync: bool,
        outcome: Result<()>,
        first: Option<First>,
    ) -> Result<(Metadata, Begun)> {
        let numbers = first.as_ref().map_or([0; 4], |f| {
            let time_index = u64::from(next_time(request.mode, f.live.last_time()));
            [f.live.end(), time_index, f.run, flags(&f.live, &f.levels)]
        });
        let mut metadata = Metadata {
            sync,
            layout: request.layout.clone(),
            kept: request.kept.clone(),
            path: request.path.to_string(),
            rank: request.comm.rank(),
            object: None,
            live: None,
            base: 0,
            run: request.run,
            in_use: None,
        };
        let mut levels = Vec::new();
        if let Some(first) = first {
            levels = first.levels;
            metadata.run = first.run;
            metadata.object = Some(first.object);
            metadata.live = Some(first.live);
            metadata.in_use = Some(first.in_use);
        }
        let named = |e: Error| e.in_object(request.path);
        // On failure the file is as it was: the drop of `metadata` keeps its index.
        let agreed = agree(request.comm, outcome, "open the output", &numbers).map_err(named)?;
        let (time_index, flags) = (agreed[1] as u32, agreed[3]);
        (metadata.base, metadata.run) = (agreed[0], agreed[2]);
        if flags & DROPS > 0 {
            // Subfiles are cut only when no index lists those steps any more.
            let shortened = match (&metadata.object, &mut metadata.live) {
                (Some(object), Some(live)) => {
                    live.shorten(&**object, sync).and_then(|()| cut_leftovers(request, files, time_index, sync))
                }
                _ => Ok(()),
            };
            let end = metadata.live.as_ref().map_or(0, LiveIndex::end);
            metadata.base = agree(request.comm, shortened, "drop later steps", &[end]).map_err(named)?[0];
        }
        let run = metadata.run;
        Ok((metadata, Begun { time_index, run, levels_differ: flags & LEVELS > 0, levels }))
    }

    /// End of the index when the output was opened.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The index, read again where the rank that had it is lost or failed.
    pub fn index(&mut self) -> Result<IndexFile<'_>> {
        let object = match self.object.take() {
            Some(object) => object,
            None => self.layout.open_write(&self.path, OpenWrite::Any, WriterId(self.rank))?,
        };
        let object = &**self.object.insert(object);
        if self.live.is_none() {
            self.kept.hold(&self.layout, &self.path, object);
        }
        let live = match self.live.take() {
            Some(live) => live,
            None if self.base == 0 => LiveIndex::new(true),
            None => LiveIndex::load_up_to(object, true, self.base)?,
        };
        Ok(IndexFile { live: self.live.insert(live), object })
    }

    /// The index in memory is not what the file holds.
    pub fn forget(&mut self) {
        self.live = None;
    }

    /// Makes file and name durable, where the output is to be.
    pub fn sync(&self) -> Result<()> {
        match &self.object {
            Some(object) if self.sync => {
                object.sync()?;
                self.layout.sync_folder(folder_of(&self.path))
            }
            _ => Ok(()),
        }
    }

    /// The output is closed.
    ///
    /// - `indexed`: its step is in the index, as [`super::step_commit::Part::is_indexed`] says.
    pub fn closed(mut self, indexed: bool) {
        match self.live.take() {
            Some(live) if indexed => self.keep(Some(live)),
            _ if self.in_use.is_some() => self.keep(None),
            _ => {}
        }
    }

    fn keep(&self, live: Option<LiveIndex>) {
        let file = File { layout: &self.layout, path: &self.path, subfiles: true, sync: self.sync };
        self.kept.keep(file, live, self.run);
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        if let Some(live) = self.live.take() {
            // One that is about to drop steps is not what the file says.
            self.keep(Some(live).filter(|live| !live.is_dropping()));
        }
    }
}
