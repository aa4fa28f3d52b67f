//! Asynchronous writing into subfiles: the ranks are divided into sets, and each set writes its process groups in an output window of a subfile
//! of its own.
//!
//! | question | answer |
//! |---|---|
//! | which ranks | as with [`MPI_AGGREGATE`](crate::method::aggregated): ranks of one node first. The first rank of a set makes the subfile |
//! | who writes | the owners among the ranks of the set; `owners`, `base` and `skip` count within it. Where a file belongs to one node until it is drained (a burst buffer), the first rank alone |
//! | where | `<name>.dir/<name>.<set>`: the process groups in the order of the set's ranks; the index in `<name>` |
//! | on failure | a set's owner that cannot write loses the groups with bytes in its stripes. After the loss of a rank, those of its set write their groups into subfiles of their own |
//!
//! Cost besides that of one shared file: for each output a split of the communicator, and an agreement in the set.

use super::{Asynchronous, Chosen, Failure, failure, write};
use crate::buffer::Reservation;
use crate::method::{CloseRequest, Closed, Indexing, OpenRequest, Opened};
use crate::nodes;
use crate::output_file::closing::{Closing, OpenOutput};
use crate::output_file::commit::{Ahead, IndexKeeper, Participant, Written};
use crate::output_file::open_index::OpenIndex;
use crate::output_file::spill::Spill;
use crate::output_file::subfile_output::{SubfileOutput, When};
use crate::output_file::subfiles::subfile;
use crate::plan;
use crate::plan::sets::Role;
use thalweg_comm::guarded::caught;
use thalweg_comm::outcome::agreed;
use thalweg_comm::{Communicator, Reduce};
use thalweg_layout::{OpenWrite, OtherNodes};
use thalweg_owners::file::LEAST_MEMORY;
use thalweg_owners::{Machine, OpenFile, Options, Owners};
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// State of an output with subfiles, from open to close.
pub(super) struct SetOutput {
    output: SubfileOutput,
    role: Role,
    machine: Machine,
    options: Options,
    memory: Reservation,
    pub(super) spill: Spill,
    /// Extent of this rank's group in the subfile of its set, once assigned.
    place: Option<Extent>,
}

/// The ranks of a set as a machine: their number, and the first one of each node, by position in the set.
fn machine(role: &Role, nodes: &[u32]) -> Machine {
    let node = |member: &u32| nodes.get(*member as usize).copied().unwrap_or_default();
    let first = |place: usize| role.members[..place].iter().all(|before| node(before) != node(&role.members[place]));
    let leaders = (0..role.members.len()).filter(|place| first(*place)).map(|place| place as u32).collect();
    Machine { ranks: role.members.len() as u32, leaders, targets: None }
}

impl SetOutput {
    /// Collective: opens the metadata file, and the subfiles.
    ///
    /// # Errors
    /// As [`SubfileOutput::open`].
    pub fn open(method: &Asynchronous, request: &OpenRequest<'_>, nodes: &[u32]) -> Result<(SetOutput, Opened)> {
        let rank = request.comm.rank();
        let role = Role::of(rank, nodes, method.subfiles);
        let machine = machine(&role, nodes);
        let memory = request.buffer.reserve(nodes::room(request).share(method.buffer, LEAST_MEMORY));
        let number = role.writes.then_some(role.set);
        let (output, opened) = SubfileOutput::open(request, role.sets, number, When::Together, method.sync)?;
        let spill = Spill::new(request.layout, request.path, rank, method.spill_copy, request.buffer);
        let chosen: Chosen = method.chosen;
        let mut options = Options { owners: chosen.among(machine.ranks), ..method.options.clone() };
        if request.layout.other_nodes(request.path) == OtherNodes::Nothing {
            options.owners = Owners::Ranks(vec![0]);
        }
        Ok((SetOutput { output, role, machine, options, memory, spill, place: None }, opened))
    }

    /// Collective: writes the process groups and commits the step.
    ///
    /// # Errors
    /// As [`Closing::end`].
    pub fn close(self, request: CloseRequest<'_, '_>, indexing: Indexing) -> Result<Closed> {
        let how = self.output.metadata.index.commit(indexing, false);
        let (mut closing, mut part) = Closing::begin(self, request, how);
        let (mut end, mut ahead) = (None, None);
        let exchanged = exchange(&mut closing, &mut part);
        let first = exchanged.and_then(|(reached, sent)| {
            (end, ahead) = (reached, sent);
            closing.commit(&mut part, ahead.take())
        });
        let outcome = closing.end(first, &mut part);
        closing.open.output.closed(&part, end.filter(|_| outcome.is_ok()));
        outcome
    }
}

/// What a window leaves: on the rank that made the subfile, its end; and the fragment that was sent ahead.
type Left<'c> = (Option<u64>, Option<Ahead<'c>>);

/// Collective: writes the process groups of a set in a window of its subfile. A group that a lost rank was to write is left unwritten: the
/// commit writes it again.
///
/// # Errors
/// `PeerLost`, `Timeout` of the split. Other failures are recorded in `part`.
fn exchange<'c>(closing: &mut Closing<'c, '_, SetOutput>, part: &mut Participant) -> Result<Left<'c>> {
    let rank = closing.open.output.rank();
    let (set, place) = (closing.open.role.set, closing.open.role.place_of(rank));
    let split = closing.request.comm.split(Some(set), place)?;
    let comm = split.ok_or_else(|| Error::new(ErrorKind::PeerLost, "a set of ranks has no communicator"))?;
    let mut left = (None, None);
    if let Err(e) = in_set(&*comm, closing, part, &mut left)
        && e.kind() != ErrorKind::PeerLost
    {
        part.wrote(Err(e.at_rank(rank)));
    }
    Ok(left)
}

/// # Errors
/// Failures that leave nothing written for certain.
fn in_set<'c>(
    set: &dyn Communicator,
    closing: &mut Closing<'c, '_, SetOutput>,
    part: &mut Participant,
    left: &mut Left<'c>,
) -> Result<()> {
    let (comm, how, header) = (closing.request.comm, closing.how, closing.request.header);
    let (size, number) = (part.size(), closing.open.role.set);
    let writer = closing.writer(number);
    let (layout, path) = {
        let index = &closing.open.output.metadata.index;
        (index.layout.clone(), subfile(&index.path, number))
    };
    let (mut start, mut found) = (0, Ok(()));
    if closing.open.role.writes {
        let output = &closing.open.output;
        // Owners open the subfile: what its first rank did to it, and its name, must be there, and a failure of that is one of all groups.
        let ended = |at| if closing.open.role.members.len() > 1 { output.end_own().map(|()| at) } else { Ok(at) };
        match output.start().and_then(|(_, at)| caught("make the subfile", || ended(at))) {
            Ok(at) => start = at,
            Err(e) => found = Err(of_store(e)),
        }
    }
    let members = closing.open.role.members.clone();
    // A rank's own failure names it already as all know it.
    let of_all = |e: Error| if e.reported_by().is_some() { e.among(&members) } else { e };
    let start = agreed(set, found, "find the end of the subfile", &[start]).map_err(of_all)?[0];
    let before = set.exclusive_scan(size).map_err(|e| e.among(&members))?;
    let all = set.all_reduce(&[before.saturating_add(size)], Reduce::Max).map_err(|e| e.among(&members))?[0];
    plan::shared(writer.rank, start, 0, all)?;
    if closing.open.role.writes {
        left.0 = Some(start + all);
    }
    let place = Extent::new(start + before, size);
    let SetOutput { output, role, machine, options, memory, spill, place: assigned } = &mut closing.open;
    let pack = &mut *closing.request.pack;
    if size > 0 {
        *assigned = Some(place);
    }
    if role.members.len() == 1 {
        if size > 0 {
            left.1 = part.ahead(comm, how, place, size, || pack.fragment(place, header, writer));
            let written = caught("write the process group", || {
                let (own, _) = output.start()?;
                let fragment = pack.write_spilled(spill.object(), &own.object, place, header, writer, spill.step())?;
                spill.end()?;
                output.end_own()?;
                Ok(Written { fragment, extent: place })
            });
            part.wrote(written.map_err(|e| of_store(e).at_rank(writer.rank).in_object(path)));
        }
        return Ok(());
    }
    if all == 0 {
        return Ok(());
    }
    let (mut group, mut fragment) = (Ok(None), None);
    if size > 0 {
        match caught("pack the process group", || pack.lay(spill.object(), place, header, writer)) {
            Ok((laid, index)) => {
                left.1 = part.ahead(comm, how, place, all, || Ok(index.clone()));
                fragment = Some(index);
                group = Ok(Some(laid));
            }
            Err(e) => group = Err(e),
        }
    }
    let memory = memory.bytes();
    let existing = OpenWrite::Existing;
    let request =
        OpenFile { comm: set, layout: &layout, path: &path, how: existing, memory, machine: Some(machine.clone()) };
    let (own, mut ended) = write(&request, Extent::new(start, all), options, group, place).map_err(|e| {
        let what = format!("among ranks {members:?}, counted from 0: {}", e.what());
        Error::new(e.kind(), what).caused_by(e)
    })?;
    // These count ranks as the set does.
    let own = own.map_err(|e| e.among(&members));
    ended.outcome = ended.outcome.map_err(|e| e.among(&members));
    match (failure(writer.rank, own, &ended, place), fragment) {
        (Failure::OfGroup(e), _) => part.wrote(Err(e.at_rank(writer.rank).in_object(path.clone()))),
        (failed, fragment) => {
            if let Failure::OfOthers(e) = failed {
                part.spoiled(e.in_object(path.clone()));
            }
            if let Some(fragment) = fragment {
                let ended = caught("close the spill file", || spill.end());
                part.wrote(ended.map(|()| Written { fragment, extent: place }));
            }
        }
    }
    Ok(())
}

/// A failure of the store. A server that was lost is not a rank that was lost: the ranks go on together.
fn of_store(e: Error) -> Error {
    match e.kind() {
        ErrorKind::PeerLost => Error::new(ErrorKind::Io, e.what().to_string()).caused_by(e),
        _ => e,
    }
}

impl OpenOutput for SetOutput {
    fn index(&self) -> &OpenIndex {
        &self.output.metadata.index
    }

    /// Called if this rank's group was not written, or if it is not known whether it was.
    fn write(&mut self, request: &mut CloseRequest<'_, '_>, _: Extent) -> Result<Written> {
        let (role, place) = ((self.role.sets, self.role.set), self.place.take());
        self.output.write_after_loss(request, role, place, &self.spill)
    }

    fn keeper(&mut self) -> &mut dyn IndexKeeper {
        &mut self.output.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_a_set_are_the_first_ranks_of_its_nodes() {
        // Two nodes whose ranks alternate, in two sets, and in one.
        let nodes = [0, 1, 0, 1, 0, 1];
        let role = Role::of(3, &nodes, 2);
        assert_eq!((role.sets, role.set, role.members.clone(), role.place_of(3)), (2, 1, vec![1, 3, 5], 1));
        assert_eq!(machine(&role, &nodes).leaders, [0]);
        let one = Role::of(3, &nodes, 1);
        assert_eq!(one.members, [0, 2, 4, 1, 3, 5]);
        assert_eq!(machine(&one, &nodes), Machine { ranks: 6, leaders: vec![0, 3], targets: None });
    }
}
