//! One run: ranks as threads open, write and close; its time is that of the slowest rank.

use super::load::Load;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use thalweg_comm::Communicator;
use thalweg_comm::threads::{Machine, ThreadCommunicator};
use thalweg_io::{BlockBox, Mode, Session, Values, WriteRequest};
use thalweg_layout::Direct;
use thalweg_schema::{MethodChoice, Schema};
use thalweg_store::Posix;
use thalweg_types::Result;

/// Outputs of one run, the second to the file of the first: some methods use measurements of the previous output.
pub const OUTPUTS: u32 = 2;

/// Runs the method once, in `folder`. Returns the seconds of an output, from before the open to after the close on the
/// slowest rank, all outputs of the run together divided by their number.
///
/// - `schema`: with the group that is written alone, without methods.
pub fn run(schema: &Schema, choice: &MethodChoice, load: &Load, ranks: u32, folder: &Path) -> Result<f64> {
    let mut schema = schema.clone();
    schema.methods = vec![choice.clone()];
    let path = folder.join("run.bp").display().to_string();
    let seconds = Machine::new(ranks).run(|comm| on_rank(&schema, &choice.group, load, &path, comm));
    let mut slowest = 0.0f64;
    for on_rank in seconds {
        slowest = slowest.max(on_rank?);
    }
    Ok(slowest / f64::from(OUTPUTS))
}

fn on_rank(schema: &Schema, group: &str, load: &Load, path: &str, comm: ThreadCommunicator) -> Result<f64> {
    let layout = Arc::new(Direct::new(Arc::new(Posix::plain()))?);
    let session = Session::with_layout(schema.clone(), layout, comm.duplicate()?)?;
    comm.barrier()?;
    let mut seconds = 0.0;
    for output in 0..OUTPUTS {
        let own = comm.duplicate()?;
        comm.barrier()?;
        let began = Instant::now();
        let mut output = session.open(group, path, if output == 0 { Mode::Write } else { Mode::Append }, own)?;
        output.group_size(load.bytes());
        for block in &load.blocks {
            let place = block.shape(comm.rank(), comm.size(), load.fortran).map(BlockBox::from);
            let values = if block.deferred { Values::Deferred(&block.bytes) } else { Values::Copied(&block.bytes) };
            output.put(WriteRequest { variable: block.at.into(), values, place, memory: None })?;
        }
        output.close()?;
        seconds += began.elapsed().as_secs_f64();
    }
    session.finalize()?;
    Ok(seconds)
}
