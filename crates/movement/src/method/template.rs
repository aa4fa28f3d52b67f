//! Template of a method: copy this file, give it your names, and change what differs (`docs/recipes/add-a-method.md`). The
//! suite `conformance::method` runs it like any other method; no registry lists it, so that no program can choose it.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | every rank a subfile of its own; rank 0 also the index |
//! | when         | inside `close`, but for blocks that find no room in the buffer |
//! | where        | `<name>.dir/<name>.<rank>`; the index in `<name>` |
//! | what moves   | index fragments up a tree to rank 0, outcomes; no data |
//! | memory       | the process group, within the buffer limit |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks writes an empty process group |
//! | on failure   | all ranks return the kind of the lowest failing rank's error; groups of the others are indexed, the step is partial |
//!
//! Source: where the idea was published. Differs: in what this method does otherwise.

use super::{
    CloseRequest, Closed, INDEX, INDEX_FAN_IN, Indexing, Method, MethodKind, OpenRequest, Opened, Parameters, SYNC,
    not_open,
};
use crate::output_file::closing::Closing;
use crate::output_file::subfile_output::{SubfileOutput, When};
use crate::pack::Reach;
use crate::plan;
use thalweg_layout::WriteObject;
use thalweg_types::{Extent, Result};

/// How the registry lists it: names in the XML, the id that process groups hold (one that no other method has, see the
/// registry), one line, parameters, the least memory beside the buffer, what `thalweg tune` tries.
pub const KIND: MethodKind = MethodKind {
    names: &["TEMPLATE"],
    id: 253,
    about: "a file per rank and a merged index, as the template of a method writes them",
    // Shared parameters stand in `method/mod.rs`; those of one method are constants of its file, as `CHUNK` in `aggregated`.
    parameters: &[SYNC, INDEX, INDEX_FAN_IN],
    least: 0,
    tried: &[],
    make,
};

/// Reads the parameters; their defaults stand in their declarations. A value that makes no sense is an error.
fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    Ok(Box::new(Template { sync: parameters.get(&SYNC)?, indexing: Indexing::of(parameters)?, open: None }))
}

struct Template {
    sync: bool,
    indexing: Indexing,
    /// From `open` to `close`. Dropped without close, it leaves the file as it was before.
    open: Option<SubfileOutput>,
}

impl Method for Template {
    fn name(&self) -> &'static str {
        "TEMPLATE"
    }

    // Collective: returns on every rank, with an error on all of them or on none.
    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let (rank, ranks) = (request.comm.rank(), request.comm.size());
        let (open, opened) = SubfileOutput::open(request, ranks, Some(rank), When::Together, self.sync)?;
        self.open = Some(open);
        Ok(opened)
    }

    // Not collective: where blocks go that find no room in the buffer, and where the process group starts there. A method that
    // learns the place at close gives a spill file (`output_file::spill`) and byte 0.
    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let (own, start) = self.open.as_ref().ok_or_else(not_open)?.start()?;
        Ok((&own.object, start))
    }

    // Collective: also ranks that fail go on to the end, where all ranks hear the outcome.
    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed> {
        let open = self.open.take().ok_or_else(not_open)?;
        let how = open.metadata.index.commit(self.indexing, false);
        let (mut closing, mut part) = Closing::begin(open, request, how);
        // What makes the method: where this rank's process group goes, and who writes it when. Here: at once, behind the
        // groups of earlier steps.
        match closing.open.start().map(|(_, start)| start) {
            Ok(start) => part.write(plan::own(closing.open.rank(), start, part.size()).extent, &mut closing),
            Err(e) => part.fail(e),
        }
        let end = part.extent().and_then(Extent::end);
        let first = closing.commit(&mut part, None);
        let outcome = closing.end(first, &mut part);
        // What the next output of the file need not find out again.
        closing.open.closed(&part, end.filter(|_| outcome.is_ok()));
        outcome
    }
}
