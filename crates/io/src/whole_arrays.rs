//! Outputs in which each array is whole in one file of another format: what methods for such formats share.
//!
//! | question | answer |
//! |----------|--------|
//! | who writes | every rank its own blocks, with plain positional writes; rank 0 what the file says of them |
//! | when | inside `close` |
//! | where | where the format wants them: rank 0's part makes room for the arrays of all ranks, and tells where their bytes belong |
//! | what moves | names and extents of all blocks to rank 0, places back; no data |
//! | memory | the process group, within the buffer limit; blocks that are not contiguous in memory once more |
//! | who calls | every rank calls `open` and `close`; all wait for each other at close |
//! | on failure | all ranks return the error of the lowest failing rank. The output is not in the file, whose earlier steps are as before |
//!
//! What a file says of a step is written when all ranks have written its values, so a program that ends before leaves the file as it was.

pub mod content;
pub mod places;

use content::{Attributes, Block, Content, Planned, Rules};
use places::Places;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_comm::outcome::{agreed, apart};
use thalweg_layout::WriteObject;
use thalweg_movement::method::{self, CloseRequest, Opened, Parameters};
use thalweg_movement::output_file::spill::Spill;
use thalweg_movement::pack::Reach;
use thalweg_movement::pack::blocks::{Takes, WrittenBlock};
use thalweg_movement::{Closed, Method, Mode, OpenRequest};
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_views::hdf5::Kind;

/// A format, as rank 0 begins an output of it.
pub(crate) trait Format: Send {
    /// The name of the method.
    fn name(&self) -> &'static str;

    /// What files of the format cannot have.
    fn rules(&self) -> &'static Rules;

    /// [`Method::keeps_attributes`].
    fn keeps_attributes(&self) -> bool;

    /// Rank 0: begins an output.
    ///
    /// # Errors
    /// Modes that the format does not have; failures of the system. The file is as before.
    fn begin(&self, request: &OpenRequest<'_>) -> Result<Begun>;
}

/// An output that was begun.
pub(crate) struct Begun {
    pub(crate) target: Box<dyn Target>,
    /// The file, for errors.
    pub(crate) file: PathBuf,
    /// How many steps the file has.
    pub(crate) steps: u64,
}

/// The file of an output, on rank 0. Dropping it before the commit leaves the file as it was.
pub(crate) trait Target: Send {
    /// Makes room for a step: where its values belong. The file does not refer to them yet.
    ///
    /// - `patience`: how long another process may take.
    ///
    /// # Errors
    /// What the format cannot have; failures of the system.
    fn room(&mut self, content: &Content, attributes: &Attributes, fortran: bool, patience: Duration) -> Result<Room>;

    /// Drops the steps behind the one that a restart goes on from: all ranks have opened the output.
    ///
    /// # Errors
    /// Failures of the system.
    fn drop_later(&mut self) -> Result<()> {
        Ok(())
    }

    /// The file has the step, whose values are written.
    ///
    /// - `sync`: it is on the device when this returns.
    ///
    /// # Errors
    /// Failures of the system.
    fn commit(&mut self, sync: bool, patience: Duration) -> Result<()>;
}

/// Where the values of a step belong.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// The files with places; new ones may get their names later.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) parts: Vec<Part>,
    /// What the file does not get, with the reason.
    pub(crate) left_out: Vec<(String, String)>,
}

/// An array of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    /// Its name, for errors.
    pub(crate) name: String,
    /// The position of its file.
    pub(crate) file: usize,
    /// The array of [`Content::arrays`] with its values, by position; of several the elements lie one after the other, as components
    /// of the last axis. `None`: zeros.
    pub(crate) arrays: Vec<Option<usize>>,
    pub(crate) kind: Kind,
    /// Extents, with the axis of components if there are several arrays.
    pub(crate) shape: Vec<u64>,
    pub(crate) places: Places,
}

/// A method that writes a format.
pub(crate) struct WholeArrays {
    format: Box<dyn Format>,
    sync: bool,
    spill_copy: usize,
    /// From `open` to `close`.
    open: Option<Output>,
}

/// The method of a format.
///
/// # Errors
/// `Config` for parameters that are not valid.
pub(crate) fn make(format: impl Format + 'static, parameters: &Parameters) -> Result<Box<dyn Method>> {
    let (sync, spill_copy) = (parameters.get(&method::SYNC)?, method::spill_copy(parameters)?);
    Ok(Box::new(WholeArrays { format: Box::new(format), sync, spill_copy, open: None }))
}

/// State of an output.
struct Output {
    rules: &'static Rules,
    /// On rank 0.
    target: Option<Box<dyn Target>>,
    /// On rank 0: the file, as errors name it.
    file: PathBuf,
    /// From 0.
    step: u64,
    spill: Spill,
}

/// What rank 0 tells a rank.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Reply {
    files: Vec<PathBuf>,
    places: Vec<Place>,
}

/// Where blocks belong.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Place {
    /// Their positions among the rank's blocks, one for each component; `None`: zeros.
    blocks: Vec<Option<usize>>,
    file: usize,
    kind: Kind,
    /// Extents of the array.
    shape: Vec<u64>,
    /// The block in it.
    offset: Vec<u64>,
    count: Vec<u64>,
    places: Places,
}

/// What a failure leaves as it was.
const SAFE: &str = "the steps of the file that were closed before";

impl Method for WholeArrays {
    fn name(&self) -> &'static str {
        self.format.name()
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let rank = request.comm.rank();
        let begun = (rank == 0).then(|| self.format.begin(request).map_err(|e| e.in_object(request.path)));
        let (begun, own) = apart(begun.transpose());
        let (file, steps, mut target) =
            begun.flatten().map_or((PathBuf::new(), 0, None), |begun| (begun.file, begun.steps, Some(begun.target)));
        let steps = agreed(request.comm, own, "open the output", &[steps])?[0];
        if matches!(request.mode, Mode::AppendAfter(_)) {
            let own =
                target.as_mut().map_or(Ok(()), |target| target.drop_later().map_err(|e| e.in_object(request.path)));
            agreed(request.comm, own, "drop later steps", &[])?;
        }
        let step = if request.mode == Mode::Update { steps.saturating_sub(1) } else { steps };
        let spill = Spill::new(request.layout, request.path, rank, self.spill_copy, request.buffer);
        self.open = Some(Output { rules: self.format.rules(), target, file, step, spill });
        let time_index = u32::try_from(step + 1)
            .map_err(|_| Error::new(ErrorKind::OutOfBounds, "a file has at most 4294967295 steps"))?;
        Ok(Opened { time_index, first_time: 1, run: request.run, levels: Vec::new() })
    }

    fn takes(&self) -> Takes {
        Takes::Blocks
    }

    fn keeps_attributes(&self) -> bool {
        self.format.keeps_attributes()
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let open = self.open.as_mut().ok_or_else(method::not_open)?;
        Ok((open.spill.through()?, 0))
    }

    fn close(&mut self, mut request: CloseRequest<'_, '_>) -> Result<Closed> {
        let mut open = self.open.take().ok_or_else(method::not_open)?;
        let bytes = open.write(&mut request, self.sync).map_err(|e| e.safe(SAFE))?;
        // The format may have no way back here.
        open.commit(request.comm, self.sync)?;
        Ok(Closed::of(bytes))
    }
}

impl Output {
    /// This rank's blocks, and the attributes of the group.
    fn describe(&self, request: &mut CloseRequest<'_, '_>) -> Result<(Vec<Block>, Attributes)> {
        let fortran = request.header.fortran;
        let written = request.blocks(self.spilled())?;
        let blocks =
            written.iter().map(|one| Block::of(one.spec(), fortran, self.rules)).collect::<Result<Vec<_>>>()?;
        let values: Vec<_> =
            written.iter().filter_map(|one| Some((one.spec().id, one.spec().value.clone()?))).collect();
        drop(written);
        Ok((blocks, content::attributes(request.pack.attributes(), &values)))
    }

    fn spilled(&self) -> Option<(&dyn WriteObject, u64)> {
        self.spill.object().map(|object| (object, 0))
    }

    /// Collective: writes the blocks of all ranks to their places, which the file does not refer to yet. Returns the bytes of all.
    fn write(&mut self, request: &mut CloseRequest<'_, '_>, sync: bool) -> Result<u64> {
        let comm = request.comm;
        let own = request.failed.take().map_or(Ok(()), Err);
        let described = own.and_then(|()| caught("describe the blocks", || self.describe(request)));
        let told = described.and_then(|(blocks, attributes)| {
            let told = serde_json::to_vec(&blocks).map_err(|e| Error::new(ErrorKind::InvalidArgument, e.to_string()));
            Ok((told?, attributes))
        });
        let (told, own) = apart(told);
        agreed(comm, own, "describe the output", &[])?;
        let (told, attributes) = told.unwrap_or_default();
        let all = comm.gather(0, &told)?;
        let fortran = request.header.fortran;
        let prepared = all.map(|all| {
            let prepare = || self.prepare(&all, &attributes, fortran, comm.timeout());
            caught("prepare the file", prepare).map_err(|e| e.in_object(self.file.to_string_lossy()))
        });
        let (prepared, own) = apart(prepared.transpose());
        let (replies, bytes) = prepared.flatten().unwrap_or_else(|| (vec![Vec::new(); comm.size() as usize], 0));
        let reply = comm.scatter(0, (comm.rank() == 0).then_some(&replies[..]))?;
        let own = own.and_then(|()| caught("write the blocks", || self.write_own(request, &reply, sync)));
        Ok(agreed(comm, own, "write the output", &[bytes])?[0])
    }

    /// Collective: the file has the step.
    fn commit(&mut self, comm: &dyn Communicator, sync: bool) -> Result<()> {
        let own = match &mut self.target {
            Some(target) => target.commit(sync, comm.timeout()).map_err(|e| e.in_object(self.file.to_string_lossy())),
            None => Ok(()),
        };
        agreed(comm, own, "commit the step", &[]).map(drop)
    }

    /// Rank 0: the place of each block of each rank, as replies, and the bytes of all.
    fn prepare(
        &mut self,
        told: &[Vec<u8>],
        attributes: &Attributes,
        fortran: bool,
        patience: Duration,
    ) -> Result<(Vec<Vec<u8>>, u64)> {
        let lost = |e: serde_json::Error| Error::new(ErrorKind::Io, format!("the blocks of a rank are lost: {e}"));
        let ranks: Vec<Vec<Block>> = told
            .iter()
            .map(|bytes| serde_json::from_slice(bytes))
            .collect::<std::result::Result<_, _>>()
            .map_err(lost)?;
        let Planned { content, arrays, have_holes, bytes, left_out } =
            content::planned(&ranks, attributes, self.step, self.rules)?;
        let target = self.target.as_mut().ok_or_else(method::not_open)?;
        let room = target.room(&content, attributes, fortran, patience)?;
        for (name, why) in left_out.iter().chain(&room.left_out) {
            thalweg_warnings::tell_once(&format!("{}: {name}: {why}", self.file.display()));
        }
        fill(&room, &have_holes)?;
        let reply = |(rank, (blocks, arrays)): (usize, (&Vec<Block>, &Vec<Option<usize>>))| {
            let places = placed(&room.parts, blocks, arrays).map_err(|e| e.at_rank(rank as u32))?;
            serde_json::to_vec(&Reply { files: room.files.clone(), places }).map_err(lost)
        };
        let replies = ranks.iter().zip(&arrays).enumerate().map(reply);
        Ok((replies.collect::<Result<_>>()?, bytes))
    }

    /// Writes this rank's blocks.
    fn write_own(&self, request: &mut CloseRequest<'_, '_>, reply: &[u8], sync: bool) -> Result<()> {
        if reply.is_empty() {
            // Rank 0 has failed, and says so.
            return Ok(());
        }
        let lost = |e: serde_json::Error| Error::new(ErrorKind::Io, format!("the places of blocks are lost: {e}"));
        let reply: Reply = serde_json::from_slice(reply).map_err(lost)?;
        let mut opened: HashMap<usize, File> = HashMap::new();
        let blocks = request.blocks(self.spilled())?;
        let another = || Error::new(ErrorKind::Io, "the place of another block");
        for place in &reply.places {
            let path = reply.files.get(place.file).ok_or_else(another)?;
            let object = match opened.entry(place.file) {
                std::collections::hash_map::Entry::Occupied(one) => one.into_mut(),
                std::collections::hash_map::Entry::Vacant(none) => none.insert(to_write(path)?),
            };
            let own = place.blocks.iter().map(|at| match at {
                Some(at) => blocks.get(*at).ok_or_else(another).map(Some),
                None => Ok(None),
            });
            let own = own.collect::<Result<Vec<_>>>()?;
            let written = write_blocks(object, &own, place, self.spill.step());
            let name = own.iter().flatten().map(|block| &block.spec().name).next();
            written.map_err(|e| {
                let e = e.in_object(path.to_string_lossy());
                match name {
                    Some(name) => e.in_variable(&**name),
                    None => e,
                }
            })?;
        }
        self.spill.end()?;
        for (at, object) in &opened {
            if sync {
                let failed = |e| Error::io("cannot write to the device", e);
                object.sync_data().map_err(|e| failed(e).in_object(reply.files[*at].to_string_lossy()))?;
            }
        }
        Ok(())
    }
}

/// The places of a rank's blocks. Pure.
///
/// - `arrays`: for each of the blocks the array of the content that it is a part of.
///
/// # Errors
/// `Unsupported` if components of an array are in different blocks.
fn placed(parts: &[Part], blocks: &[Block], arrays: &[Option<usize>]) -> Result<Vec<Place>> {
    let mut of_array: HashMap<usize, Vec<usize>> = HashMap::new();
    for (block, array) in arrays.iter().enumerate() {
        if let Some(array) = array {
            of_array.entry(*array).or_default().push(block);
        }
    }
    let mut all = Vec::new();
    for part in parts {
        let several = part.arrays.len() > 1;
        let Some(first) = part.arrays.iter().flatten().next() else { continue };
        let apart = || {
            let what = "its components are in different blocks";
            Error::new(ErrorKind::Unsupported, what).in_variable(&*part.name)
        };
        let number = |array: &usize| of_array.get(array).map_or(0, Vec::len);
        if part.arrays.iter().flatten().any(|array| number(array) != number(first)) {
            return Err(apart());
        }
        for at in of_array.get(first).into_iter().flatten() {
            let own = &blocks[*at];
            let same = |other: &usize| blocks[*other].offset == own.offset && blocks[*other].count == own.count;
            let mut components = Vec::new();
            for array in &part.arrays {
                components.push(match array {
                    None => None,
                    Some(array) => {
                        // Of a block that is written twice the last one counts.
                        let found = of_array.get(array).and_then(|all| all.iter().copied().rev().find(same));
                        Some(if several { found.ok_or_else(apart)? } else { *at })
                    }
                });
            }
            let axes = part.shape.len() - usize::from(several);
            let (mut offset, mut count) = match own.shape {
                Some(_) => (own.offset.clone(), own.count.clone()),
                None => (vec![0; axes], own.count.clone()),
            };
            if several {
                offset.push(0);
                count.push(part.arrays.len() as u64);
            }
            let Part { file, kind, shape, places, .. } = part;
            let (shape, places) = (shape.clone(), places.clone());
            all.push(Place { blocks: components, file: *file, kind: *kind, shape, offset, count, places });
        }
    }
    Ok(all)
}

/// Rank 0: gives elements that nobody writes the value of missing ones: their place may have bytes of an output that failed.
fn fill(room: &Room, have_holes: &[bool]) -> Result<()> {
    /// Bytes that are written together.
    const PIECE: usize = 1 << 20;
    let mut opened: HashMap<usize, File> = HashMap::new();
    for part in &room.parts {
        let has_holes = part.arrays.iter().flatten().any(|array| have_holes.get(*array) == Some(&true));
        let holes = if has_holes { &part.places.chunks[..] } else { &[] };
        let rows = part.places.rows.saturating_mul(part.kind.size());
        let chunk = part.shape.iter().skip(1).try_fold(rows, |all, extent| all.checked_mul(*extent));
        let chunk = chunk.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "a chunk of more than 2^64 bytes"))?;
        for at in part.places.skipped.iter().chain(holes) {
            let path = &room.files[part.file];
            let object = match opened.entry(part.file) {
                std::collections::hash_map::Entry::Occupied(one) => one.into_mut(),
                std::collections::hash_map::Entry::Vacant(none) => none.insert(to_write(path)?),
            };
            let missing = part.kind.missing().repeat(PIECE.min(chunk as usize) / part.kind.size() as usize);
            let mut done = 0;
            while done < chunk {
                let now = (missing.len() as u64).min(chunk - done);
                object.write_all_at(&missing[..now as usize], at + done).map_err(|e| {
                    let e = Error::io("cannot write values of missing elements", e).at_byte(at + done);
                    e.in_variable(&*part.name).in_object(path.to_string_lossy())
                })?;
                done += now;
            }
        }
    }
    Ok(())
}

/// The name of a new file until its first step is committed.
pub fn unfinished(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".thalweg-new-{name}"))
}

fn to_write(file: &Path) -> Result<File> {
    let opened = OpenOptions::new().write(true).open(file);
    opened.map_err(|e| Error::io("cannot open the file to write blocks", e).in_object(file.to_string_lossy()))
}

/// Writes a block, or the components of one, to its places.
///
/// - `step`: bytes of spilled blocks and of components that are copied at a time.
fn write_blocks(object: &File, blocks: &[Option<&WrittenBlock<'_>>], place: &Place, step: usize) -> Result<()> {
    let Place { kind, shape, offset, count, places, .. } = place;
    if count.contains(&0) {
        return Ok(());
    }
    let write = |bytes: &[u8], at: u64| {
        object.write_all_at(bytes, at).map_err(|e| Error::io("cannot write values", e).at_byte(at))
    };
    let runs = places::runs(places, shape, offset, count, kind.size())?;
    if let [Some(block)] = blocks
        && block.spilled().is_none()
    {
        let values = block.values()?;
        return runs.into_iter().try_for_each(|run| write(values.get(run.from.clone()).ok_or_else(lost)?, run.at));
    }
    let (size, several) = (kind.size() as usize, blocks.len());
    let unit = size * several;
    let values = blocks.iter().map(|block| match block {
        Some(block) if block.spilled().is_none() => block.values().map(Some),
        _ => Ok(None),
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    // Both together are a step.
    let elements = (step / if several > 1 { unit + size } else { unit }).max(64);
    let step = elements * unit;
    let (mut memory, mut component) = (vec![0; step], vec![0; if several > 1 { elements * size } else { 0 }]);
    for run in runs {
        let mut done = run.from.start;
        while done < run.from.end {
            let piece = &mut memory[..step.min(run.from.end - done)];
            let from = done / several..(done + piece.len()) / several;
            if let [block] = blocks {
                read(*block, values[0].as_deref(), from, piece)?;
            } else {
                let component = &mut component[..from.len()];
                for (number, (block, values)) in blocks.iter().zip(&values).enumerate() {
                    read(*block, values.as_deref(), from.clone(), component)?;
                    for (to, element) in piece.chunks_exact_mut(unit).zip(component.chunks_exact(size)) {
                        to[number * size..(number + 1) * size].copy_from_slice(element);
                    }
                }
            }
            write(piece, run.at + (done - run.from.start) as u64)?;
            done += piece.len();
        }
    }
    Ok(())
}

fn lost() -> Error {
    Error::new(ErrorKind::Torn, "values that were written before are missing")
}

/// Bytes of a block, wherever they are; zeros of none.
fn read(block: Option<&WrittenBlock<'_>>, values: Option<&[u8]>, from: Range<usize>, to: &mut [u8]) -> Result<()> {
    match (block, values) {
        (None, _) => to.fill(0),
        (Some(_), Some(values)) => to.copy_from_slice(values.get(from).ok_or_else(lost)?),
        (Some(block), None) => {
            let (spilled, first) = block.spilled().ok_or_else(lost)?;
            if spilled.read_at(first + from.start as u64, to)? != to.len() {
                return Err(lost());
            }
        }
    }
    Ok(())
}
