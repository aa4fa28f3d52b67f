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

mod assigned;
pub mod content;
pub mod places;
mod writing;

pub(crate) use assigned::Part;
use assigned::{Place, placed};
use content::{Attributes, Block, Content, Planned, Rules};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_comm::outcome::{agreed, apart};
use thalweg_layout::WriteObject;
use thalweg_movement::method::{self, CloseRequest, Opened, Parameters};
use thalweg_movement::output_file::spill::Spill;
use thalweg_movement::pack::Reach;
use thalweg_movement::pack::blocks::Takes;
use thalweg_movement::{Closed, Method, Mode, OpenRequest};
use thalweg_types::{Error, ErrorKind, Result};
use writing::Files;

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
        Files::new(&room.files).fill(&room.parts, &have_holes)?;
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
        let mut files = Files::new(&reply.files);
        let blocks = request.blocks(self.spilled())?;
        for place in &reply.places {
            let another = || Error::new(ErrorKind::Io, "the place of another block");
            let own = place.blocks.iter().map(|at| match at {
                Some(at) => blocks.get(*at).ok_or_else(another).map(Some),
                None => Ok(None),
            });
            files.write(place, &own.collect::<Result<Vec<_>>>()?, self.spill.step())?;
        }
        self.spill.end()?;
        if sync { files.sync() } else { Ok(()) }
    }
}

/// The name of a new file until its first step is committed.
pub fn unfinished(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".thalweg-new-{name}"))
}
