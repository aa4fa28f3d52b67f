//! Independent writing: every rank writes its process group to its own extent of one shared file.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | every rank its own process group; rank 0 also the index, concurrently with the data of large outputs ([`crate::output_file::commit`]) |
//! | when         | inside `close`; inside `write` large blocks of a rank with a slot, and of a rank without others |
//! | where        | one file; rank r's group behind the groups of ranks 0 to r-1, the index behind all groups |
//! | what moves   | a size (one scan), index fragments up a tree to rank 0, the outcome (one reduction); no data |
//! | memory       | the process group, within the buffer limit. A rank with a slot ([`crate::output_file::slot`]) writes large blocks to the file immediately. So does the only rank of a communicator, from its first output on: its group begins where the index ends. Otherwise blocks beyond the limit are written to a spill file beside the output, `<name>.spill.<rank>`, and copied at close: each such byte is written twice. Blocks marked `copy-on-write="no"` need no memory and no spill file |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks writes an empty process group |
//! | on failure   | all ranks return the kind of the lowest failing rank's error; the groups of the other ranks are indexed, the step is partial. After the loss of a rank, if the communicator can continue without it, the survivors close the step: [`crate::output_file::commit`] |
//!
//! After rank 0, at most 16 ranks open at a time ([`crate::plan::turns`]), so that a metadata server handles few opens at a time.
//!
//! Cost per rank and output: one open; one write, more if blocks were spilled; one receive and at most one send for the open (rank 0
//! sends up to 16), at most `index_fan_in`
//! receives of index fragments and one send; one scan; three reductions; no broadcast, or one if the file keeps another statistics
//! level than requested. A rank with at least `index_ahead` bytes sends its fragment before it writes, and a short message
//! afterwards; rank 0 then writes the index in two writes. Large outputs whose size is known from the last output need a scan at
//! open, a fourth reduction in place of the scan at close, and one write per block that is written immediately.
//!
//! Sources: Lofstead et al., SAND2009-7763, the MPI method; CUG 2009, serialised opens.
//! Differs: the extents of process groups result from a scan inside `close`, or are assigned at open from the sizes of the last
//! output.

use super::{
    CloseRequest, Closed, DIRECT, INDEX, INDEX_AHEAD, INDEX_FAN_IN, Indexing, Method, MethodKind, OpenRequest, Opened,
    Parameters, SPILL_COPY, SYNC, Tried, not_open, spill_copy,
};
use crate::output_file::closing::Closing;
use crate::output_file::shared_file::SharedFile;
use crate::output_file::slot::{self, Sizes, Slot};
use crate::output_file::spill;
use crate::pack::Reach;
use crate::plan;
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_comm::guarded::caught;
use thalweg_layout::WriteObject;
use thalweg_types::Result;

/// The method's entry in the registry.
pub const KIND: MethodKind = MethodKind {
    names: &["MPI"],
    id: 0,
    about: "every rank writes its part of one shared file",
    parameters: &[SYNC, INDEX, INDEX_FAN_IN, INDEX_AHEAD, DIRECT, SPILL_COPY],
    least: spill::LEAST,
    tried: &[Tried::these(DIRECT, &["64KiB", "1MiB", "64MiB"])],
    make,
};

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    Ok(Box::new(Independent {
        sync: parameters.get(&SYNC)?,
        indexing: Indexing::of(parameters)?,
        direct: parameters.get(&DIRECT)?,
        spill_copy: spill_copy(parameters)?,
        open: None,
    }))
}

struct Independent {
    sync: bool,
    indexing: Indexing,
    direct: u64,
    spill_copy: usize,
    open: Option<IndependentOutput>,
}

/// State of an output, from open to close.
struct IndependentOutput {
    file: SharedFile,
    /// There is no other rank: the process group begins at the end of the index, whatever its size.
    alone: bool,
    /// On the only rank: the process that wrote behind the index before close.
    early_by: Option<u32>,
    /// Slots were assigned in this output.
    slots: bool,
    /// This rank's slot, as long as its blocks fit.
    slot: Option<Slot>,
    /// The slot that this rank got: bytes may lie there although it has left it.
    given: Option<Slot>,
}

/// Gives up the slot: moves the `stored` bytes already written there to the spill file.
fn leave_slot<'f>(file: &'f mut SharedFile, slot: &mut Option<Slot>, stored: u64) -> Result<&'f dyn WriteObject> {
    let slot = slot.take().filter(|_| stored > 0);
    file.spill(slot.map(|slot| (slot.start(), stored)))
}

/// On the only rank: cuts off what its output wrote behind the index, because the output failed or was dropped. The file is then as it
/// was before the open. Best effort: an output that opens the file also cuts it off.
fn take_back(file: &SharedFile) {
    if let Err(e) = caught("take back the output", || file.opened()?.truncate(file.index.base)) {
        tracing::warn!("bytes of an output that was not closed remain behind the end of the file: {e}");
    }
}

impl Drop for Independent {
    fn drop(&mut self) {
        // In a child of `fork`, the bytes are the parent's.
        let open = self.open.as_ref().filter(|open| open.early_by == Some(std::process::id()));
        if let Some(open) = open {
            take_back(&open.file);
        }
    }
}

impl Method for Independent {
    fn name(&self) -> &'static str {
        "MPI"
    }

    fn subfiles(&self) -> Option<bool> {
        Some(false)
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let alone = request.comm.size() == 1;
        let large = !alone && request.cache.of::<Sizes>().lock().are_large(request.group, request.comm);
        let (file, opened, told) = SharedFile::open(request, self.sync, self.spill_copy, true, &[u64::from(large)])?;
        let slots = told.first().is_some_and(|large| *large > 0);
        let open = self.open.insert(IndependentOutput { file, alone, early_by: None, slots, slot: None, given: None });
        if slots {
            // Bytes in slots are written behind the existing index.
            open.file.index.written_early = true;
            let requested = request.cache.of::<Sizes>().lock().requested(request.group, request.comm);
            open.given = Slot::give(request.comm, open.file.index.base, requested)?;
            open.slot = open.given;
        }
        Ok(opened)
    }

    fn at_once(&self, reach: &Reach) -> Option<u64> {
        let open = self.open.as_ref()?;
        let known = open.alone || open.slot.as_ref().is_some_and(|slot| slot.expects(reach));
        known.then_some(self.direct)
    }

    fn through(&mut self, reach: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        match open.slot {
            _ if open.alone => {
                open.file.index.written_early = true;
                open.early_by = Some(std::process::id());
                Ok((open.file.opened()?, open.file.index.base))
            }
            Some(slot) if slot.expects(reach) => Ok((open.file.opened()?, slot.start())),
            _ => Ok((leave_slot(&mut open.file, &mut open.slot, reach.stored)?, 0)),
        }
    }

    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed> {
        let open = self.open.take().ok_or_else(not_open)?;
        let how = open.file.index.commit(self.indexing, open.slots);
        let (comm, expected) = (request.comm, request.pack.expected());
        // If the pack panics, the rank has failed; `Closing::begin` detects the same failure.
        let size = request.length().unwrap_or(0);
        let fitted = open.slot.is_none_or(|slot| slot.holds(size));
        let IndependentOutput { mut file, alone, slots, mut slot, given, .. } = open;
        let left = match request.pack.stored() {
            stored if stored > 0 && !fitted => {
                caught("move the blocks out of the slot", || leave_slot(&mut file, &mut slot, stored).map(|_| ()))
            }
            _ => Ok(()),
        };
        let failed = request.failed.or(left.err());
        let (mut closing, mut part) = Closing::begin(file, CloseRequest { failed, ..request }, how);
        if let Some(extent) = given.as_ref().map(Slot::extent) {
            part.may_lie_at(extent);
        }
        let place = match slots {
            true => slot::place(comm, how.base, given.as_ref(), slot.as_ref(), part.size()),
            false => comm
                .exclusive_scan(part.size())
                .map(|before| plan::shared(comm.rank(), how.base, before, part.size()).map(|p| p.extent)),
        };
        let first = match place {
            Ok(place) => {
                let mut ahead = None;
                match place {
                    Ok(extent) => {
                        let unwritten = closing.unwritten(closing.open.spilled().is_some());
                        ahead = closing.ahead(&part, extent, SINGLE_FILE, unwritten);
                        part.write(extent, &mut closing);
                    }
                    Err(e) => part.fail(e),
                }
                if alone && part.has_failed() {
                    take_back(&closing.open);
                }
                closing.commit(&mut part, ahead)
            }
            Err(lost) => {
                // A group in a slot stays there, because the survivors are told its extent.
                if let Some(extent) = slot::own_place(slot.as_ref(), part.size()) {
                    part.write(extent, &mut closing);
                }
                Err(lost)
            }
        };
        let outcome = closing.end(first, &mut part);
        let (sizes, group) = (closing.open.index.cache.of::<Sizes>(), &closing.request.header.group);
        match &outcome {
            Ok(all) => sizes.lock().note(group, comm, size, expected, fitted, all.bytes),
            Err(_) => sizes.lock().forget(group, comm),
        }
        closing.open.close(part.is_indexed());
        outcome
    }
}
