//! The end of an output: index fragments are gathered up a tree to rank 0, which adds the step to the index; then all ranks agree
//! on the outcome.
//!
//! | question | answer |
//! |---|---|
//! | what moves | each rank's fragment (about 100 bytes per block) to its parent in the tree; the parent joins the fragments of its children to its own and sends the result to its own parent: [`thalweg_comm::tree_gather`] |
//! | calls | one message from each rank except rank 0, at most `fan_in` messages to one rank; a second, short message from each rank that sends its fragment ahead and from the ranks between it and rank 0; one reduction |
//! | when | a rank sends when it and the ranks below it in the tree have written, so that joining overlaps with the writes of other ranks |
//! | ahead | a rank that has no children in the tree and at least `index_ahead` bytes to write sends its fragment first ([`Participant::ahead`]), flagged as ahead, then writes, then sends the outcome of its write. Ranks with children, and rank 0, write their own data before they join: no rank delays its data for another rank's fragment |
//! | when is the index written | if all ranks wrote before they sent their fragments: immediately. Otherwise rank 0 *stages* the index, without its last bytes, while other ranks still write ([`LiveIndex::stage`]), and *seals* it when all ranks have reported that they have written: until then no reader sees the step, and a crash leaves the file as it was |
//! | order of joining | by rank: the index is byte-identical to one that a single rank joins from all fragments |
//! | on failure | a rank without a fragment is named in the extension section, the step is partial, and the blocks of the other ranks are indexed. The index is placed behind the extents of failed ranks too, because these may contain written bytes. If a rank fails after it sent its fragment ahead, the staged index is dropped and the fragments are gathered again, unmerged |
//! | inconsistent fragments | gathered a second time, unmerged, so that the consistent ones are indexed; merged fragments cannot be separated |
//! | a rank has no memory for its children's fragments | the step is not indexed: `NoMemory` on all ranks; earlier steps stay |
//! | a rank is lost | the surviving ranks gather, place the unwritten process groups behind the written ones, and commit among themselves; this is repeated if further ranks are lost. The lowest surviving rank keeps the index. Only the process groups of lost ranks are lost: every rank keeps its fragment until the outcome is known |

use crate::method::Indexing;
use crate::output_file::fragments::{
    FirstMessage, Follow, Gathered, encode_failed, failed_message, join_failed, merge_fitting, whole_message,
};
use crate::output_file::live_index::{LiveIndex, Staged};
use crate::plan;
use thalweg_bp::extension::Tag;
use thalweg_bp::index::Index;
use thalweg_bp::opening::{Opening, Openings};
use thalweg_bp::wire::{Cursor, Put};
use thalweg_comm::agreement::{Failed, exchange};
use thalweg_comm::guarded::caught;
use thalweg_comm::tree;
use thalweg_comm::tree_gather::{self, ChildMessage, Gathering};
use thalweg_comm::{Communicator, Request, tags};
use thalweg_layout::WriteObject;
use thalweg_profile::{Phase, span};
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

/// The process group that a rank wrote.
pub struct Written {
    /// Index of the process group.
    pub fragment: Index,
    /// Extent of the process group in the file.
    pub extent: Extent,
}

/// The index and the file that contains it, on the rank that keeps the index.
pub struct IndexFile<'i> {
    /// The index.
    pub live: &'i mut LiveIndex,
    /// The file.
    pub object: &'i dyn WriteObject,
}

/// The part of a method that holds the open index of an output.
pub trait IndexKeeper {
    /// The index; read from the file again if the rank that kept it was lost or failed. Called on one rank.
    ///
    /// # Errors
    /// Errors of the store; `Corrupt` or `Torn` if the index cannot be read again.
    fn index(&mut self) -> Result<IndexFile<'_>>;

    /// Discards the index in memory, because it no longer matches the file.
    fn forget_index(&mut self);

    /// Closes the file of the index; if the output is to be durable, the file and its name are synced first.
    /// [`IndexKeeper::index`] opens the file again.
    ///
    /// # Errors
    /// Errors of the store, including those of the close: after a failure the step is not safe.
    fn end_index(&mut self) -> Result<()>;
}

/// The operations that [`Participant::commit`] requires from a method.
pub trait Files {
    /// Writes this rank's process group to `extent` and closes the file that contains it, so that a failure is reported before
    /// the group is counted as written.
    ///
    /// # Errors
    /// Errors of the store, with the rank and the object.
    fn write(&mut self, extent: Extent) -> Result<Written>;

    /// Closes the shared file where it is open; it is opened again when it is needed. What is then written comes after the bytes of
    /// lost ranks, also on a layout that orders bytes by logical clocks.
    ///
    /// # Errors
    /// Errors of closing: written bytes may be lost.
    fn renew(&mut self) -> Result<()>;

    /// The holder of the open index.
    fn keeper(&mut self) -> &mut dyn IndexKeeper;
}

/// Parameters of a commit.
#[derive(Debug, Clone, Copy)]
pub struct Commit {
    /// The time index of the step.
    pub time_index: u32,
    /// The step, from 0.
    pub step: u64,
    /// Run id.
    pub run: u64,
    /// First free byte of the shared file when the output was opened.
    pub base: u64,
    /// Parameters of the index.
    pub indexing: Indexing,
    /// The data is in the same file as the index.
    pub shared: bool,
    /// Ranks had slots, and may have left bytes in them that belong to no step.
    pub slots: bool,
}

impl Commit {
    fn call(&self, tag: u32, attempt: u32) -> Gathering {
        Gathering { tag, run: self.run, time_index: self.time_index, attempt }
    }
}

/// The state of one rank in the commit of an output, across repeated attempts after ranks are lost.
pub struct Participant {
    /// This rank in the communicator that opened the output.
    rank: u32,
    /// Size of that communicator.
    ranks: u32,
    /// Bytes of this rank's process group.
    size: u64,
    /// The extent that may contain bytes of this rank, even if the rank fails.
    place: Option<Extent>,
    /// Result of writing the process group; `None` before the attempt.
    written: Option<Result<Written>>,
    /// On the rank that keeps the index: why the step was not indexed. On a rank that writes for others: why their process
    /// groups were not written.
    index_failed: Option<Error>,
    /// On the rank that keeps the index, once the step is indexed: number of process groups, and their bytes.
    indexed: Option<(u64, u64)>,
}

/// The pending send to the parent.
type Sent<'c> = Option<Box<dyn Request + 'c>>;

/// A fragment that was sent before its process group is written; the send may be pending.
#[must_use = "other ranks wait for the result of the process group"]
pub struct Ahead<'c> {
    sent: Result<Sent<'c>>,
}

/// The state of a surviving rank, as it reports it to the others.
struct Left {
    rank: u32,
    size: u64,
    wrote: Option<Extent>,
    /// First byte behind all its bytes, those of a group that failed included.
    end: u64,
    indexed: bool,
}

/// Of two errors of a rank, the one whose cause is on this rank, rather than one reported by another rank: other ranks name this
/// rank as the source.
fn nearer<E: std::borrow::Borrow<Error>>(first: E, second: E) -> E {
    let (a, b): (&Error, &Error) = (first.borrow(), second.borrow());
    if a.reported_by().is_some() && b.reported_by().is_none() { second } else { first }
}

impl Participant {
    /// - `rank`, `ranks`: this rank and the size of the communicator that opened the output; `size`: bytes of the process group;
    ///   `failed`: the error because of which this rank writes no process group.
    pub fn new(rank: u32, ranks: u32, size: u64, failed: Option<Error>) -> Participant {
        let size = if failed.is_some() { 0 } else { size };
        Participant { rank, ranks, size, place: None, written: failed.map(Err), index_failed: None, indexed: None }
    }

    /// Reserves `extent` for this rank's bytes, even if the rank fails: this output writes nothing else there. A layout that
    /// orders writes by logical clocks, not by time, could not decide which of two writes to the same bytes is later.
    pub fn may_lie_at(&mut self, extent: Extent) {
        self.place = Some(extent);
    }

    /// Bytes this rank will write.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether this rank has failed and writes no process group.
    pub fn has_failed(&self) -> bool {
        matches!(self.written, Some(Err(_)))
    }

    /// Whether the step is indexed; known on the rank that keeps the index.
    pub fn is_indexed(&self) -> bool {
        self.indexed.is_some()
    }

    /// Extent of this rank's process group, if it was written.
    pub fn extent(&self) -> Option<Extent> {
        self.written.as_ref().and_then(|w| w.as_ref().ok()).map(|w| w.extent)
    }

    /// Writes the process group, unless this rank has failed or written it already.
    pub fn write(&mut self, extent: Extent, files: &mut dyn Files) {
        if self.written.is_none() {
            self.may_lie_at(extent);
            self.written = Some(caught("write the process group", || files.write(extent)));
        }
    }

    /// Records the result of a write of the process group that was made without [`Participant::write`].
    pub fn wrote(&mut self, written: Result<Written>) {
        self.written.get_or_insert(written);
    }

    /// Records a failure to write other ranks' process groups; this rank's own group is unaffected.
    pub fn spoiled(&mut self, e: Error) {
        self.index_failed = Some(e);
    }

    /// Excludes this rank's process group from the step.
    pub fn fail(&mut self, e: Error) {
        self.written = Some(Err(e));
    }

    /// Why this rank's process group was not written; `None` if it was.
    fn unwritten(&self) -> Option<ErrorKind> {
        match &self.written {
            Some(Ok(_)) => None,
            Some(Err(e)) => Some(e.kind()),
            None => Some(ErrorKind::PeerLost),
        }
    }

    fn failed(&self) -> Option<Failed> {
        match (&self.written, &self.index_failed) {
            (None, _) => Some(Failed { kind: ErrorKind::PeerLost, told: false }),
            (Some(Err(e)), Some(own)) => Some(nearer(e, own).into()),
            (Some(Err(e)), None) | (Some(Ok(_)), Some(e)) => Some(e.into()),
            (Some(Ok(_)), None) => None,
        }
    }

    fn failure(&mut self) -> Result<()> {
        match (self.written.take(), self.index_failed.take()) {
            (Some(Err(e)), Some(own)) => Err(nearer(e, own)),
            (Some(Err(e)), None) | (_, Some(e)) => Err(e),
            _ => Ok(()),
        }
    }

    fn message(&self) -> Vec<u8> {
        match &self.written {
            Some(Ok(w)) => whole_message(w.extent, &w.fragment),
            Some(Err(e)) => failed_message(e.kind(), self.place),
            None => failed_message(ErrorKind::PeerLost, self.place),
        }
    }

    /// Sends this rank's fragment before its process group is written, if the rank has no children in the tree and at least
    /// `index_ahead` bytes to write; otherwise returns `None`. Pass the result to [`Participant::commit`], which sends the
    /// outcome of the write.
    ///
    /// - `extent`: extent of the process group; `unwritten`: bytes of the group that are not yet written; `fragment`: builds the
    ///   group's index.
    pub fn ahead<'c>(
        &self,
        comm: &'c dyn Communicator,
        how: Commit,
        extent: Extent,
        unwritten: u64,
        fragment: impl FnOnce() -> Result<Index>,
    ) -> Option<Ahead<'c>> {
        if self.written.is_some() || unwritten < how.indexing.ahead {
            return None;
        }
        let place = tree::node(comm.rank(), comm.size(), how.indexing.fan_in);
        if place.parent.is_none() || !place.children.is_empty() {
            return None;
        }
        let _indexing = span(Phase::Index, 0);
        // An error here occurs again when the group is written, and is reported then.
        let fragment = caught("index the process group", fragment).ok()?;
        let mut first = FirstMessage::empty(false);
        first.gathered.add(comm.rank(), whole_message(extent, &fragment));
        first.follows.push(comm.rank());
        let nobody = |_: &mut FirstMessage, _, _: ChildMessage<'_>| ();
        let sent =
            tree_gather::gather_at(comm, &[], place.parent, how.call(tags::COMMIT, 0), &mut first, nobody, |s| {
                s.encode()
            });
        Some(Ahead { sent })
    }

    /// Collective: commits the step among all ranks that opened the output. Pass the result to [`finish`].
    ///
    /// - `ahead`: the result of [`Participant::ahead`].
    ///
    /// # Errors
    /// `PeerLost` or `Timeout` of a collective call. The inner result is the outcome of the output.
    pub fn commit(
        &mut self,
        comm: &dyn Communicator,
        files: &mut dyn Files,
        how: Commit,
        ahead: Option<Ahead<'_>>,
    ) -> Result<Result<u64>> {
        if self.written.is_none() {
            // This failure is not reported in the gathering: ranks that are not yet aware of the loss could index the step
            // without this rank's group. After the loss this rank writes its group itself (`among_survivors`).
            return Err(Error::new(ErrorKind::PeerLost, "the rank that was to write this process group was lost"));
        }
        self.commit_among(comm, None, files, how, ahead)
    }

    /// - `left`: after a loss, the surviving ranks, by rank in `comm`.
    fn commit_among(
        &mut self,
        comm: &dyn Communicator,
        left: Option<&[Left]>,
        files: &mut dyn Files,
        how: Commit,
        mut ahead: Option<Ahead<'_>>,
    ) -> Result<Result<u64>> {
        let _indexing = span(Phase::Index, 0);
        let done = left.is_some_and(|left| left.iter().any(|l| l.indexed));
        let mut apart = false;
        let (verdict, told) = loop {
            let mut again = false;
            // These sends are pending until the parent receives them; the parent then joins the same reduction, so that one
            // wait is enough.
            let mut sent = (None, None);
            if !done {
                let first;
                (first, sent.0) = self.gather(comm, how, apart, ahead.take())?;
                let (follow, gathered) = first.split();
                let made = if comm.rank() == 0 {
                    self.index(files, gathered, left, how, (apart, follow.is_some()))
                } else {
                    Made::Ended
                };
                let outcomes = self.outcomes(comm, how, follow);
                let failed = outcomes.map(|(failed, request)| {
                    sent.1 = request;
                    failed
                });
                again = self.settle(files, made, failed, how)?;
            }
            let (whole, bytes) = self.indexed.unwrap_or_default();
            let (verdict, told) = exchange(comm, self.rank, self.failed(), &[whole, bytes, u64::from(again)])?;
            drop(sent);
            if told[2] == 0 {
                break (verdict, told);
            }
            apart = true;
        };
        let own = match &self.written {
            Some(_) => self.failure(),
            None => Err(Error::new(ErrorKind::PeerLost, "the rank that was to write this process group was lost")),
        };
        let step = how.step;
        let mut outcome = verdict.apply(self.rank, own, "close the output");
        if let (Some(left), Ok(())) = (left, &outcome) {
            let lost: Vec<String> = (0..self.ranks).filter(|r| is_lost(left, *r)).map(|r| r.to_string()).collect();
            let what = format!("rank {} was lost while the output was open", lost.join(", "));
            outcome = Err(Error::new(ErrorKind::PeerLost, what).at_rank(self.rank));
        }
        let safe = still_safe(step, told[0], self.ranks);
        Ok(outcome.map(|()| told[1]).map_err(|e| e.at_step(step).safe(safe)))
    }

    /// Gathers fragments. Returns the joined fragments of all ranks on rank 0, of this rank and the ranks below it elsewhere, and
    /// the pending send to the parent.
    fn gather<'c>(
        &mut self,
        comm: &'c dyn Communicator,
        how: Commit,
        apart: bool,
        ahead: Option<Ahead<'c>>,
    ) -> Result<(FirstMessage, Sent<'c>)> {
        let mut first = FirstMessage::empty(apart);
        if let Some(ahead) = ahead {
            first.follows.push(comm.rank());
            return ahead.sent.map(|sent| (first, sent));
        }
        let message = caught("index the process group", || Ok(self.message())).unwrap_or_else(|e| {
            let message = failed_message(e.kind(), self.place);
            self.fail(e);
            message
        });
        first.gathered.add(comm.rank(), message);
        let call = how.call(tags::COMMIT, u32::from(apart));
        // If joining panics, the parent is told that the fragments are lost.
        let join = |first: &mut FirstMessage, child: std::ops::Range<u32>, message: ChildMessage<'_>| {
            let joined = caught("join index entries", || {
                first.join(child, message);
                Ok(())
            });
            if let Err(e) = joined {
                first.gathered = Gathered::Lost(e.kind());
            }
        };
        let encode = |first: &mut FirstMessage| {
            caught("encode index entries", || Ok(first.encode())).unwrap_or_else(|e| {
                first.gathered = Gathered::Lost(e.kind());
                first.encode()
            })
        };
        let sent = tree_gather::gather(comm, how.indexing.fan_in, call, &mut first, join, encode)?;
        Ok((first, sent))
    }

    /// Gathers the outcomes of process groups whose fragments were sent ahead. Returns the ranks whose groups were not written,
    /// with their errors' kinds, and the pending send to the parent.
    fn outcomes<'c>(
        &self,
        comm: &'c dyn Communicator,
        how: Commit,
        follow: Option<Follow>,
    ) -> Result<(Vec<(u32, u8)>, Sent<'c>)> {
        let mut failed = Vec::new();
        let Some(Follow { ranks, awaited }) = follow else { return Ok((failed, None)) };
        if let (true, Some(kind)) = (ranks.contains(&comm.rank()), self.unwritten()) {
            failed.push((comm.rank(), kind.code()));
        }
        let parent = tree::node(comm.rank(), comm.size(), how.indexing.fan_in).parent;
        let call = how.call(tags::COMMIT_OUTCOMES, 0);
        let sent =
            tree_gather::gather_at(comm, &awaited, parent, call, &mut failed, join_failed, |f| encode_failed(f))?;
        Ok((failed, sent))
    }

    /// On the rank that keeps the index: adds the gathered fragments.
    ///
    /// - `apart`: the fragments were gathered unmerged, so that inconsistent ones can be left out; `follows`: some ranks have not
    ///   written yet.
    fn index(
        &mut self,
        files: &mut dyn Files,
        gathered: Gathered,
        left: Option<&[Left]>,
        how: Commit,
        (apart, follows): (bool, bool),
    ) -> Made {
        let added = caught("write the index", || self.add_step(files, gathered, left, how, follows));
        match added {
            Ok(Some(made)) => made,
            Ok(None) => {
                self.index_failed =
                    apart.then(|| Error::new(ErrorKind::Corrupt, "index fragments of ranks arrived damaged"));
                if apart { Made::Ended } else { Made::Again }
            }
            Err(e) => self.cannot_index(files, e),
        }
    }

    fn cannot_index(&mut self, files: &mut dyn Files, e: Error) -> Made {
        files.keeper().forget_index();
        self.index_failed = Some(e);
        Made::Ended
    }

    /// Seals or drops the staged index once the outcomes of all process groups are known. Returns whether the fragments must be
    /// gathered again, unmerged; the first time this is not an error.
    ///
    /// - `failed`: ranks that did not write, or the error of gathering them.
    fn settle(
        &mut self,
        files: &mut dyn Files,
        made: Made,
        failed: Result<Vec<(u32, u8)>>,
        how: Commit,
    ) -> Result<bool> {
        let (staged, added) = match made {
            Made::Ended => return failed.map(|_| false),
            Made::Again => return failed.map(|_| true),
            Made::Staged(staged, added) => (*staged, added),
        };
        if failed.as_ref().is_ok_and(Vec::is_empty) {
            match caught("write the index", || end_step(files, Some(staged), &added, how)) {
                Ok(()) => self.indexed = Some((added.whole, added.bytes)),
                Err(e) => drop(self.cannot_index(files, e)),
            }
            return Ok(false);
        }
        let dropped = caught("take back the index", || {
            files.keeper().index().and_then(|IndexFile { live, object }| live.drop_staged(object, staged))
        });
        if let Err(e) = dropped {
            tracing::warn!("an incomplete index remains after the end of the file: {e}");
            files.keeper().forget_index();
        }
        failed.map(|_| true)
    }

    /// Adds the fragments as one step, or stages the step if some ranks have not written yet. Returns `None`, without any change,
    /// if merged fragments are inconsistent.
    fn add_step(
        &mut self,
        files: &mut dyn Files,
        gathered: Gathered,
        left: Option<&[Left]>,
        how: Commit,
        follows: bool,
    ) -> Result<Option<Made>> {
        let IndexFile { live, object } = files.keeper().index()?;
        let mut merged = match gathered {
            Gathered::Joined(merged) if live.check(&merged.step).is_ok() => *merged,
            // At least one rank's fragment is inconsistent with the others; the consistent ones are gathered unmerged.
            Gathered::Joined(_) | Gathered::Clash => return Ok(None),
            Gathered::Lost(kind) => {
                return Err(Error::new(kind, "a rank could not receive the index fragments of other ranks"));
            }
            Gathered::Apart(messages) => merge_fitting(&messages, live)?,
        };
        let original = |rank: u32| left.and_then(|l| l.get(rank as usize)).map_or(rank, |l| l.rank);
        if let Some((rank, e)) = merged.refused.take() {
            let what = format!("the part of rank {} is left out: {}", original(rank), e.what());
            let mut refused = Error::new(e.kind(), what);
            if let Some(name) = &e.place().variable {
                refused = refused.in_variable(name.clone());
            }
            self.index_failed = Some(refused);
        }
        if merged.whole == 0 {
            return Err(self.index_failed.take().unwrap_or_else(|| {
                let kind = merged.failed.first().map_or(ErrorKind::Io, |(_, kind)| ErrorKind::from_code(*kind));
                Error::new(kind, "no rank wrote its process group")
            }));
        }
        let lost =
            left.map(|left| (0..self.ranks).filter(|r| is_lost(left, *r)).map(|r| (r, ErrorKind::PeerLost.code())));
        let failed = merged.failed.iter().map(|(rank, kind)| (original(*rank), *kind));
        let mut missing: Vec<(u32, u8)> = failed.chain(lost.into_iter().flatten()).collect();
        missing.sort_unstable();
        for (rank, kind) in &missing {
            let partial = merged.step.records.list(Tag::Partial);
            partial.put_u32(how.time_index);
            partial.put_u32(*rank);
            partial.put_u32(u32::from(*kind));
            partial.put_u32(0);
        }
        let (known, mut openings) = (live.index(), Openings::default());
        openings.add(known.records.get(Tag::Run), ByteOrder::NATIVE);
        let opening = Opening { run: how.run, first_time: how.time_index, ranks: self.ranks };
        for entry in openings.missing(opening, how.time_index <= known.last_time()) {
            entry.encode(merged.step.records.list(Tag::Run));
        }
        let data_end = if how.shared { merged.end.max(live.end()) } else { live.end() };
        if left.is_some() && how.shared {
            // Bytes of lost ranks behind the index would hide it on a layout that orders bytes by logical clocks.
            object.truncate(data_end)?;
        }
        let added = Added { whole: merged.whole, bytes: merged.bytes, partial: !missing.is_empty() };
        if follows {
            let staged = live.stage(object, merged.step, data_end, merged.bytes, how.run, how.indexing.each)?;
            return Ok(Some(Made::Staged(Box::new(staged), added)));
        }
        live.commit(object, merged.step, data_end, merged.bytes, how.run, how.indexing.each)?;
        end_step(files, None, &added, how)?;
        self.indexed = Some((added.whole, added.bytes));
        Ok(Some(Made::Ended))
    }
}

/// The result of rank 0's attempt to add the gathered fragments to the index.
enum Made {
    /// The step is indexed, or has failed with a known error.
    Ended,
    /// Nothing was added: the fragments must be gathered again, unmerged.
    Again,
    /// The index of the step is staged: not valid yet.
    Staged(Box<Staged>, Added),
}

/// A step that is added to the index.
struct Added {
    /// Number of ranks that wrote.
    whole: u64,
    /// Bytes of their process groups.
    bytes: u64,
    /// Other ranks did not write.
    partial: bool,
}

/// Seals the step if it was staged, truncates the file behind the index if bytes may be there, and closes the file; if the output
/// is to be durable, the file is synced first.
fn end_step(files: &mut dyn Files, staged: Option<Staged>, added: &Added, how: Commit) -> Result<()> {
    let IndexFile { live, object } = files.keeper().index()?;
    if let Some(staged) = staged {
        live.seal(object, staged)?;
    }
    if added.partial || (how.slots && object.length()? > live.end()) {
        // Bytes of a failed rank behind the index would hide the index.
        object.truncate(live.end())?;
    }
    files.keeper().end_index()
}

/// Collective: ends an output; `first` is the result of the first attempt to commit. If ranks were lost, the surviving ranks
/// commit the step among themselves, as a partial step.
///
/// Returns the bytes that all ranks wrote.
///
/// # Errors
/// All surviving ranks get the same kind: that of the lowest failing rank, else `PeerLost`.
pub fn finish(
    comm: &dyn Communicator,
    first: Result<Result<u64>>,
    part: &mut Participant,
    files: &mut dyn Files,
    how: Commit,
) -> Result<u64> {
    let mut outcome = first;
    loop {
        let lost = match outcome {
            Ok(told) => return told,
            Err(lost) => lost,
        };
        let left = match lost.kind() {
            ErrorKind::PeerLost => comm.survivors().ok(),
            _ => None,
        };
        let Some(left) = left else {
            // No communicator of survivors: the outcome of the step is unknown.
            return Err(part.failure().err().unwrap_or(lost));
        };
        part.index_failed = None;
        outcome = among_survivors(&*left, part, files, how);
    }
}

fn among_survivors(
    comm: &dyn Communicator,
    part: &mut Participant,
    files: &mut dyn Files,
    how: Commit,
) -> Result<Result<u64>> {
    if let Err(e) = caught("close the file", || files.renew())
        && !part.has_failed()
    {
        part.fail(e);
    }
    let mut message = Vec::new();
    message.put_u32(part.rank);
    message.put_u64(part.size);
    message.put_u64(part.extent().map_or(u64::MAX, |e| e.offset));
    message.put_u64(part.place.and_then(|place| place.end()).unwrap_or(0));
    message.put_u8(u8::from(part.is_indexed()));
    let mut left = Vec::new();
    for bytes in comm.all_gather(&message)? {
        let mut c = Cursor::new(&bytes, ByteOrder::NATIVE, 0);
        let (rank, size, offset, end) = (c.u32("rank")?, c.u64("size")?, c.u64("place")?, c.u64("place")?);
        let wrote = (offset != u64::MAX).then_some(Extent::new(offset, size));
        left.push(Left { rank, size, wrote, end, indexed: c.u8("indexed")? != 0 });
    }
    if part.written.is_none() {
        let sizes: Vec<_> = left.iter().map(|l| (l.size, l.wrote)).collect();
        let place = caught("plan the process groups that are left", || {
            let base = left.iter().map(|l| l.end).fold(how.base, u64::max);
            plan::after_loss(base, &sizes).map(|places| places[comm.rank() as usize])
        });
        match place {
            Ok(place) => part.write(place, files),
            Err(e) => part.fail(e),
        }
    }
    part.commit_among(comm, Some(&left), files, how, None)
}

fn is_lost(left: &[Left], rank: u32) -> bool {
    left.binary_search_by_key(&rank, |l| l.rank).is_err()
}

fn still_safe(step: u64, whole: u64, ranks: u32) -> String {
    let before = match step {
        0 => String::new(),
        1 => "step 0 is indexed and readable; ".into(),
        _ => format!("steps 0..={} are indexed and readable; ", step - 1),
    };
    match whole {
        0 => format!("{before}step {step} is not in the index"),
        n if n == u64::from(ranks) => format!("{before}step {step} is whole"),
        n => format!("{before}step {step} is partial ({n} of {ranks} process groups)"),
    }
}
