//! `PHDF5` and `NC4`: outputs as HDF5 and netCDF-4 files, which the tools of these formats open.
//!
//! | question | answer |
//! |----------|--------|
//! | who writes | every rank its own blocks, with plain positional writes; rank 0 what the file says of them |
//! | when | inside `close` |
//! | where | one file, in the place that HDF5's library has reserved: the program `thalweg-convert`, which rank 0 starts and which is linked with it, creates datasets, extends them by a step and tells where their chunks lie |
//! | what moves | names and extents of all blocks to rank 0, places back; no data |
//! | memory | the process group, within the buffer limit; blocks that are not contiguous in memory once more |
//! | who calls | every rank calls `open` and `close`; all wait for each other at close |
//! | on failure | all ranks return the error of the lowest failing rank. The output is not in the file, whose earlier steps are as before |
//! | what is refused | what no HDF5 file can hold, with its reason ([`content`]); files on mounts, which HDF5's library cannot open; restarts in the middle of a file |
//!
//! Both write the same file: netCDF-4 is HDF5 with dimension scales. What a file says of a step is written when all ranks have written its
//! values, so a program that ends before leaves the file as it was; if it ends while that is being written, HDF5 has no way back.
//!
//! Source: Lofstead et al., SAND2009-7763, the methods for parallel HDF5 and netCDF. Differs: no parallel HDF5, and no MPI-IO
//! (`docs/decisions/0091-hdf5-files-without-parallel-hdf5.md`).

pub mod content;
pub mod places;
pub mod protocol;
mod writer;

use content::{Attributes, Block, Planned};
use protocol::{Answer, Ask, Places};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_comm::outcome::{agreed, apart};
use thalweg_layout::WriteObject;
use thalweg_movement::method::{self, CloseRequest, MethodKind, Opened, Parameters};
use thalweg_movement::output_file::cache::Cache;
use thalweg_movement::output_file::spill::Spill;
use thalweg_movement::pack::Reach;
use thalweg_movement::pack::blocks::{Takes, WrittenBlock};
use thalweg_movement::{Closed, Method, Mode, OpenRequest};
use thalweg_types::{AttributeValue, Error, ErrorKind, Result};
use thalweg_views::hdf5::Kind;
use writer::Writer;

/// `PHDF5` in the registry.
pub const PHDF5: MethodKind = MethodKind {
    names: &["PHDF5"],
    id: 7,
    about: "one HDF5 file, written by all ranks",
    parameters: &[method::SYNC, method::SPILL_COPY],
    least: thalweg_movement::output_file::spill::LEAST,
    tried: &[],
    make: |parameters| make("PHDF5", parameters),
};
/// `NC4` in the registry.
pub const NC4: MethodKind = MethodKind {
    names: &["NC4"],
    id: 15,
    about: "one netCDF-4 file, written by all ranks",
    make: |parameters| make("NC4", parameters),
    ..PHDF5
};

fn make(name: &'static str, parameters: &Parameters) -> Result<Box<dyn Method>> {
    let (sync, spill_copy) = (parameters.get(&method::SYNC)?, method::spill_copy(parameters)?);
    Ok(Box::new(Hdf5 { name, sync, spill_copy, open: None }))
}

struct Hdf5 {
    name: &'static str,
    sync: bool,
    spill_copy: usize,
    /// From `open` to `close`.
    open: Option<Output>,
}

/// State of an output.
struct Output {
    cache: Arc<Cache>,
    /// On rank 0.
    writer: Option<Writer>,
    /// On rank 0: the file, as any process finds it.
    file: PathBuf,
    is_new: bool,
    /// On rank 0: the program has made room in the file.
    begun: bool,
    /// From 0.
    step: u64,
    spill: Spill,
}

/// What rank 0 tells a rank.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Reply {
    /// The file with the places; a new one gets its name later.
    file: PathBuf,
    blocks: Vec<Place>,
}

/// Where a block belongs.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    /// Its position among the rank's blocks.
    block: usize,
    kind: Kind,
    /// Extents of its array.
    shape: Vec<u64>,
    /// The block in it.
    offset: Vec<u64>,
    count: Vec<u64>,
    places: Places,
}

/// What a failure leaves as it was.
const SAFE: &str = "the steps of the file that were closed before";

/// Rank 0: the file of an output, how many steps it has before this one, and the program that writes it.
fn begin(request: &OpenRequest<'_>) -> Result<(PathBuf, u64, Writer)> {
    let unsupported = |what: &str| Error::new(ErrorKind::Unsupported, what);
    let plain = request.layout.plain_file(request.path);
    let plain = plain.ok_or_else(|| unsupported("this is a mount: HDF5's library writes plain files alone"))?;
    let file = std::path::absolute(&plain).map_err(|e| Error::io("cannot find the file", e))?;
    let path = file.to_str().ok_or_else(|| unsupported("the name of its folder is not UTF-8"))?.to_string();
    if matches!(request.mode, Mode::AppendAfter(_)) {
        return Err(unsupported("a restart that drops steps of an HDF5 file: copy the steps to keep into a new file"));
    }
    let mut writer = Writer::take(&request.cache.of())?;
    if request.mode == Mode::Write {
        return Ok((file, 0, writer));
    }
    match writer.ask(&Ask::Open { path }, request.comm.timeout())? {
        Answer::Steps(steps) => Ok((file, steps, writer)),
        _ => Err(another()),
    }
}

fn another() -> Error {
    Error::new(ErrorKind::Io, "an answer to another question")
}

impl Method for Hdf5 {
    fn name(&self) -> &'static str {
        self.name
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let rank = request.comm.rank();
        let begun = (rank == 0).then(|| begin(request).map_err(|e| e.in_object(request.path)));
        let (begun, own) = apart(begun.transpose());
        let (file, steps, writer) = begun.flatten().map_or((PathBuf::new(), 0, None), |(f, s, w)| (f, s, Some(w)));
        let steps = agreed(request.comm, own, "open the output", &[steps])?[0];
        let step = if request.mode == Mode::Update { steps.saturating_sub(1) } else { steps };
        let spill = Spill::new(request.layout, request.path, rank, self.spill_copy, request.buffer);
        let (is_new, begun) = (steps == 0, false);
        self.open = Some(Output { cache: request.cache.clone(), writer, file, is_new, begun, step, spill });
        let time_index = u32::try_from(step + 1)
            .map_err(|_| Error::new(ErrorKind::OutOfBounds, "a file has at most 4294967295 steps"))?;
        Ok(Opened { time_index, first_time: 1, run: request.run, levels: Vec::new() })
    }

    fn takes(&self) -> Takes {
        Takes::Blocks
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let open = self.open.as_mut().ok_or_else(method::not_open)?;
        Ok((open.spill.through()?, 0))
    }

    fn close(&mut self, mut request: CloseRequest<'_, '_>) -> Result<Closed> {
        let mut open = self.open.take().ok_or_else(method::not_open)?;
        let written = open.write(&mut request, self.sync).map_err(|e| e.safe(SAFE)).and_then(|bytes| {
            // HDF5 has no way back here.
            open.commit(request.comm, self.sync)?;
            Ok(bytes)
        });
        match (&written, open.writer.take()) {
            (Ok(_), Some(writer)) => writer.give_back(&open.cache.of()),
            (Err(_), Some(writer)) => open.give_up(writer),
            (_, None) => {}
        }
        written.map(Closed::of)
    }
}

impl Output {
    /// This rank's blocks, and the attributes of the group.
    fn describe(&self, request: &mut CloseRequest<'_, '_>) -> Result<(Vec<Block>, Attributes)> {
        let fortran = request.header.fortran;
        let written = request.blocks(self.spilled())?;
        let blocks = written.iter().map(|one| Block::of(one.spec(), fortran)).collect::<Result<Vec<_>>>()?;
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
        let prepared = all.map(|all| caught("prepare the file", || self.prepare(comm, &all, &attributes)));
        let (prepared, own) = apart(prepared.transpose());
        let (replies, bytes) = prepared.flatten().unwrap_or_else(|| (vec![Vec::new(); comm.size() as usize], 0));
        let reply = comm.scatter(0, (comm.rank() == 0).then_some(&replies[..]))?;
        let own = own.and_then(|()| caught("write the blocks", || self.write_own(request, &reply, sync)));
        Ok(agreed(comm, own, "write the output", &[bytes])?[0])
    }

    /// Collective: the file has the step.
    fn commit(&mut self, comm: &dyn Communicator, sync: bool) -> Result<()> {
        let own = match comm.rank() {
            0 => self.ask(comm, &Ask::Commit { sync }).map(drop).map_err(|e| e.in_object(self.file.to_string_lossy())),
            _ => Ok(()),
        };
        agreed(comm, own, "commit the step", &[]).map(drop)
    }

    /// Rank 0 alone.
    fn ask(&mut self, comm: &dyn Communicator, ask: &Ask) -> Result<Answer> {
        self.writer.as_mut().ok_or_else(method::not_open)?.ask(ask, comm.timeout())
    }

    /// Rank 0: the place of each block of each rank, as replies, and the bytes of all.
    fn prepare(
        &mut self,
        comm: &dyn Communicator,
        told: &[Vec<u8>],
        attributes: &[(String, AttributeValue)],
    ) -> Result<(Vec<Vec<u8>>, u64)> {
        let lost = |e: serde_json::Error| Error::new(ErrorKind::Io, format!("the blocks of a rank are lost: {e}"));
        let ranks: Vec<Vec<Block>> = told
            .iter()
            .map(|bytes| serde_json::from_slice(bytes))
            .collect::<std::result::Result<_, _>>()
            .map_err(lost)?;
        let path = self.file.to_string_lossy().into_owned();
        let Planned { content, arrays, have_holes, bytes, left_out } =
            content::planned(&ranks, attributes, self.step).map_err(|e| e.in_object(path.clone()))?;
        let asked = protocol::Content { path: path.clone(), is_new: self.is_new, ..content.clone() };
        let answer = self.ask(comm, &Ask::Step(Box::new(asked))).map_err(|e| e.in_object(path.clone()))?;
        self.begun = true;
        let Answer::Places { file, arrays: places } = answer else {
            return Err(another());
        };
        if places.len() != content.arrays.len() {
            return Err(Error::new(ErrorKind::Io, "places of other arrays"));
        }
        for (name, why) in left_out {
            thalweg_warnings::tell_once(&format!("{path}: {name}: {why}"));
        }
        let file = PathBuf::from(file);
        self.fill(&file, &content, &places, &have_holes)?;
        let reply = |blocks: &[Block], arrays: &[Option<usize>]| {
            let place = |(block, (own, array)): (usize, (&Block, &Option<usize>))| {
                let array = (*array)?;
                let protocol::Array { kind, shape, .. } = &content.arrays[array];
                Some(Place {
                    block,
                    kind: *kind,
                    shape: shape.clone(),
                    offset: if own.shape.is_some() { own.offset.clone() } else { vec![0; shape.len()] },
                    count: own.count.clone(),
                    places: places[array].clone(),
                })
            };
            let blocks = blocks.iter().zip(arrays).enumerate().filter_map(place).collect();
            serde_json::to_vec(&Reply { file: file.clone(), blocks }).map_err(lost)
        };
        let replies = ranks.iter().zip(&arrays).map(|(blocks, arrays)| reply(blocks, arrays));
        Ok((replies.collect::<Result<_>>()?, bytes))
    }

    /// Rank 0: gives elements that nobody writes the value of missing ones: their place may have bytes of an output that failed.
    fn fill(&self, file: &Path, content: &protocol::Content, places: &[Places], have_holes: &[bool]) -> Result<()> {
        /// Bytes that are written together.
        const PIECE: usize = 1 << 20;
        let mut opened = None;
        for ((array, places), has_holes) in content.arrays.iter().zip(places).zip(have_holes) {
            let holes = if *has_holes { &places.chunks[..] } else { &[] };
            let chunk = array
                .shape
                .iter()
                .skip(1)
                .try_fold(places.rows.saturating_mul(array.kind.size()), |all, extent| all.checked_mul(*extent));
            let chunk =
                chunk.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "a chunk of more than 2^64 bytes"))?;
            for at in places.skipped.iter().chain(holes) {
                let object = match &opened {
                    Some(object) => object,
                    None => opened.insert(to_write(file)?),
                };
                let missing = array.kind.missing().repeat(PIECE.min(chunk as usize) / array.kind.size() as usize);
                let mut done = 0;
                while done < chunk {
                    let now = (missing.len() as u64).min(chunk - done);
                    object.write_all_at(&missing[..now as usize], at + done).map_err(|e| {
                        let e = Error::io("cannot write values of missing elements", e).at_byte(at + done);
                        e.in_variable(&*array.name).in_object(file.to_string_lossy())
                    })?;
                    done += now;
                }
            }
        }
        Ok(())
    }

    /// Writes this rank's blocks.
    fn write_own(&self, request: &mut CloseRequest<'_, '_>, reply: &[u8], sync: bool) -> Result<()> {
        if reply.is_empty() {
            // Rank 0 has failed, and says so.
            return Ok(());
        }
        let reply: Reply = serde_json::from_slice(reply)
            .map_err(|e| Error::new(ErrorKind::Io, format!("the places of blocks are lost: {e}")))?;
        if reply.blocks.is_empty() {
            return Ok(());
        }
        let object = to_write(&reply.file)?;
        let shown = reply.file.to_string_lossy();
        let blocks = request.blocks(self.spilled())?;
        for place in &reply.blocks {
            let block =
                blocks.get(place.block).ok_or_else(|| Error::new(ErrorKind::Io, "the place of another block"))?;
            let written = write_block(&object, block, place, self.spill.step());
            written.map_err(|e| e.in_variable(&*block.spec().name).in_object(&*shown))?;
        }
        self.spill.end()?;
        if sync {
            object.sync_data().map_err(|e| Error::io("cannot write to the device", e).in_object(&*shown))?;
        }
        Ok(())
    }

    /// Rank 0: the file is as before the output.
    fn give_up(&self, writer: Writer) {
        drop(writer);
        if self.is_new && self.begun {
            // If it cannot be removed, the next output replaces it.
            let _ = std::fs::remove_file(unfinished(&self.file));
        }
    }
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

/// Writes a block to its places.
///
/// - `step`: bytes of a spilled block that are copied at a time.
fn write_block(object: &File, block: &WrittenBlock<'_>, place: &Place, step: usize) -> Result<()> {
    let Place { kind, shape, offset, count, places, .. } = place;
    if count.contains(&0) {
        return Ok(());
    }
    let write = |bytes: &[u8], at: u64| {
        object.write_all_at(bytes, at).map_err(|e| Error::io("cannot write values", e).at_byte(at))
    };
    let lost = || Error::new(ErrorKind::Torn, "values that were written before are missing");
    let runs = places::runs(places, shape, offset, count, kind.size())?;
    if let Some((spilled, first)) = block.spilled() {
        let mut memory = vec![0; step.max(512)];
        for run in runs {
            let mut done = run.from.start;
            while done < run.from.end {
                let piece = &mut memory[..step.max(512).min(run.from.end - done)];
                if spilled.read_at(first + done as u64, piece)? != piece.len() {
                    return Err(lost());
                }
                write(piece, run.at + (done - run.from.start) as u64)?;
                done += piece.len();
            }
        }
        return Ok(());
    }
    let values = block.values()?;
    runs.into_iter().try_for_each(|run| write(values.get(run.from.clone()).ok_or_else(lost)?, run.at))
}
