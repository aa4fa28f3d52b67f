//! Template of a method: copy this file and change it as `docs/recipes/add-a-method.md` describes. The suite
//! `conformance::method` tests it like any other method; the registry does not list it, so programs cannot choose it.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | every rank a subfile of its own; rank 0 also the index |
//! | when         | inside `close`, except blocks that exceed the buffer |
//! | where        | `<name>.dir/<name>.<rank>`; the index in `<name>` |
//! | what moves   | index fragments up a tree to rank 0, and results; no data |
//! | memory       | the process group, within the buffer limit |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks writes an empty process group |
//! | on failure   | all ranks return the kind of the lowest failing rank's error; groups of the others are indexed, the step is partial |
//!
//! Source: the publication of the idea. Differs: the differences of this method from it.

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

/// Entry of the registry: names in the XML, the id that process groups contain (32 to 252, unique among methods; up to 31 those
/// of ADIOS 1.x), description, parameters, the least memory beside the buffer, values that `thalweg tune` tries.
pub const KIND: MethodKind = MethodKind {
    names: &["TEMPLATE"],
    id: 253,
    about: "a file per rank and a merged index, as the template of a method writes them",
    // Shared parameters are in `method/mod.rs`; those of one method are constants of its file, such as `CHUNK` in `aggregated`.
    parameters: &[SYNC, INDEX, INDEX_FAN_IN],
    least: 0,
    tried: &[],
    make,
};

/// Reads the parameters; defaults are in their declarations. An invalid value is an error.
fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    Ok(Box::new(Template { sync: parameters.get(&SYNC)?, indexing: Indexing::of(parameters)?, open: None }))
}

struct Template {
    sync: bool,
    indexing: Indexing,
    /// Set from `open` to `close`. Dropped without close, it leaves the file as it was before.
    open: Option<SubfileOutput>,
}

impl Method for Template {
    fn name(&self) -> &'static str {
        "TEMPLATE"
    }

    fn subfiles(&self) -> Option<bool> {
        Some(true)
    }

    // Collective: returns an error on all ranks or on none.
    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let (rank, ranks) = (request.comm.rank(), request.comm.size());
        let (open, opened) = SubfileOutput::open(request, ranks, Some(rank), When::Together, self.sync)?;
        self.open = Some(open);
        Ok(opened)
    }

    // Not collective: the object for blocks that exceed the buffer, and the offset of the process group in it. A method that
    // learns the offset at close returns a spill file (`output_file::spill`) and offset 0.
    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let (own, start) = self.open.as_ref().ok_or_else(not_open)?.start()?;
        Ok((&own.object, start))
    }

    // Collective: ranks that failed also continue to the end, where all ranks learn the result.
    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed> {
        let open = self.open.take().ok_or_else(not_open)?;
        let how = open.metadata.index.commit(self.indexing, false);
        let (mut closing, mut part) = Closing::begin(open, request, how);
        // The core of the method: the offset of this rank's process group, who writes it, and when. Here: immediately, after the
        // groups of earlier steps.
        match closing.open.start().map(|(_, start)| start) {
            Ok(start) => part.write(plan::own(closing.open.rank(), start, part.size()).extent, &mut closing),
            Err(e) => part.fail(e),
        }
        let end = part.extent().and_then(Extent::end);
        let first = closing.commit(&mut part, None);
        let outcome = closing.end(first, &mut part);
        // State that saves the next output of the file a lookup.
        closing.open.closed(&part, end.filter(|_| outcome.is_ok()));
        outcome
    }
}
