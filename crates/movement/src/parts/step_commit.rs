//! The end of an output: fragments go to rank 0, which adds the step to the index; all ranks learn the outcome.
//!
//! | question | answer |
//! |---|---|
//! | what moves | each rank's fragment (about 100 bytes per block) to rank 0 |
//! | calls | one gather, one reduction |
//! | on failure | a rank without fragment is named in the extension section, the step is partial, the others' blocks are indexed |
//! | where a rank is lost | those left gather, place what is not written yet behind what is, and commit among themselves, as often as ranks are lost; the lowest of them keeps the index |

use super::agreement::exchange;
use super::live_index::{LiveIndex, fits};
use crate::plan;
use thalweg_bp::extension::Tag;
use thalweg_bp::index::Index;
use thalweg_bp::wire::{Cursor, Put};
use thalweg_comm::Communicator;
use thalweg_layout::WriteObject;
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

/// What a rank wrote.
pub struct Written {
    /// Its index.
    pub fragment: Index,
    /// Where it lies.
    pub extent: Extent,
}

/// The index and the file that holds it, on the rank that keeps it.
pub struct IndexFile<'i> {
    /// The index.
    pub live: &'i mut LiveIndex,
    /// The file.
    pub object: &'i dyn WriteObject,
}

/// Whatever has the index of an output open.
pub trait IndexKeeper {
    /// The index, read from the file again where the rank that had it is lost or failed. Called on one rank.
    fn index(&mut self) -> Result<IndexFile<'_>>;

    /// The index in memory is not what the file holds.
    fn forget_index(&mut self);

    /// Makes file and name of the index durable, where the output is to be.
    fn sync_index(&mut self) -> Result<()>;
}

/// What closing an output needs of a method.
pub trait Files {
    /// Writes this rank's process group there.
    fn write(&mut self, extent: Extent) -> Result<Written>;

    /// Who has the index.
    fn keeper(&mut self) -> &mut dyn IndexKeeper;
}

/// How to commit.
#[derive(Debug, Clone, Copy)]
pub struct Commit {
    /// Step + 1.
    pub time_index: u32,
    /// Run id.
    pub run: u64,
    /// First free byte of the shared file when the output was opened.
    pub base: u64,
    /// A full index at each output.
    pub each: bool,
    /// Data lies in the same file as the index.
    pub shared: bool,
    /// Ranks had slots, and may have left bytes in them that no step holds.
    pub slots: bool,
}

/// One rank's part in the end of an output, over as many attempts as ranks are lost.
pub struct Part {
    /// This rank among all that opened the output.
    rank: u32,
    /// How many these are.
    ranks: u32,
    /// Bytes of its process group.
    size: u64,
    /// What it wrote, once it has tried.
    written: Option<Result<Written>>,
    /// On the rank that keeps the index: why the step is not in it; on one that writes for others: why theirs is not.
    index_failed: Option<Error>,
    /// On the rank that keeps the index, once the step is in it: process groups and bytes.
    indexed: Option<(u64, u64)>,
}

/// A rank that is left, as it tells the others.
struct Left {
    rank: u32,
    size: u64,
    wrote: Option<Extent>,
    indexed: bool,
}

impl Part {
    /// - `rank`, `ranks`: of the communicator that opened the output; `size`: bytes of the process group; `failed`: why
    ///   there will be none.
    pub fn new(rank: u32, ranks: u32, size: u64, failed: Option<Error>) -> Part {
        let size = if failed.is_some() { 0 } else { size };
        Part { rank, ranks, size, written: failed.map(Err), index_failed: None, indexed: None }
    }

    /// Bytes this rank will write.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the step is in the index; known on the rank that keeps it.
    pub fn is_indexed(&self) -> bool {
        self.indexed.is_some()
    }

    /// Where this rank's process group lies, if it was written.
    pub fn extent(&self) -> Option<Extent> {
        self.written.as_ref().and_then(|w| w.as_ref().ok()).map(|w| w.extent)
    }

    /// Writes the process group, unless this rank has failed or written it already.
    pub fn write(&mut self, extent: Extent, files: &mut dyn Files) {
        if self.written.is_none() {
            self.written = Some(files.write(extent));
        }
    }

    /// As [`Part::write`], of a process group that was written already or could not be.
    pub fn wrote(&mut self, written: Result<Written>) {
        self.written.get_or_insert(written);
    }

    /// Says what costs other ranks their process groups, not this one its own: it wrote for them.
    pub fn spoiled(&mut self, e: Error) {
        self.index_failed = Some(e);
    }

    /// Leaves this rank's process group out.
    pub fn fail(&mut self, e: Error) {
        self.written = Some(Err(e));
    }

    fn failed(&self) -> Option<ErrorKind> {
        let Some(written) = &self.written else { return Some(ErrorKind::PeerLost) };
        written.as_ref().err().or(self.index_failed.as_ref()).map(Error::kind)
    }

    fn failure(&mut self) -> Result<()> {
        match self.written.take() {
            Some(Err(e)) => Err(e),
            _ => self.index_failed.take().map_or(Ok(()), Err),
        }
    }

    fn message(&self) -> Vec<u8> {
        let mut message = Vec::new();
        match &self.written {
            Some(Ok(w)) => {
                message.put_u8(0);
                message.put_u64(w.extent.offset);
                message.put_u64(w.extent.length);
                message.put(&w.fragment.to_fragment());
            }
            Some(Err(e)) => message.put_u8(e.kind().code()),
            None => message.put_u8(ErrorKind::PeerLost.code()),
        }
        message
    }

    /// Collective: commits among all that opened the output. To be handed to [`finish`].
    ///
    /// # Errors
    /// That of a collective call: a lost rank.
    pub fn commit(&mut self, comm: &dyn Communicator, files: &mut dyn Files, how: Commit) -> Result<Result<u64>> {
        self.commit_among(comm, None, files, how)
    }

    /// - `left`: by rank of `comm`, those that are left where ranks were lost.
    fn commit_among(
        &mut self,
        comm: &dyn Communicator,
        left: Option<&[Left]>,
        files: &mut dyn Files,
        how: Commit,
    ) -> Result<Result<u64>> {
        let done = left.is_some_and(|left| left.iter().any(|l| l.indexed));
        let messages = if done { None } else { comm.gather(0, &self.message())? };
        match messages.map(|messages| self.add_step(files, &messages, left, how)) {
            Some(Ok(indexed)) => self.indexed = Some(indexed),
            Some(Err(e)) => {
                files.keeper().forget_index();
                self.index_failed = Some(e);
            }
            None => {}
        }
        let (whole, bytes) = self.indexed.unwrap_or_default();
        let (verdict, told) = exchange(comm, self.rank, self.failed(), &[whole, bytes])?;
        let own = match &self.written {
            Some(_) => self.failure(),
            None => Err(Error::new(ErrorKind::PeerLost, "the rank that was to write this process group was lost")),
        };
        let step = u64::from(how.time_index.saturating_sub(1));
        let mut outcome = verdict.apply(self.rank, own, "close the output");
        if let (Some(left), Ok(())) = (left, &outcome) {
            let lost: Vec<String> = (0..self.ranks).filter(|r| is_lost(left, *r)).map(|r| r.to_string()).collect();
            let what = format!("rank {} was lost while the output was open", lost.join(", "));
            outcome = Err(Error::new(ErrorKind::PeerLost, what).at_rank(self.rank));
        }
        let safe = still_safe(step, told[0], self.ranks);
        Ok(outcome.map(|()| told[1]).map_err(|e| e.at_step(step).safe(safe)))
    }

    /// Adds the fragments as one step. Returns how many ranks were whole and the bytes they wrote.
    fn add_step(
        &mut self,
        files: &mut dyn Files,
        messages: &[Vec<u8>],
        left: Option<&[Left]>,
        how: Commit,
    ) -> Result<(u64, u64)> {
        let IndexFile { live, object } = files.keeper().index()?;
        let mut merged = match merge(messages, None) {
            Ok(merged) if live.check(&merged.step).is_ok() => merged,
            // Some rank's part does not fit: without it the others' do.
            _ => merge(messages, Some(live))?,
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
        let data_end = if how.shared { merged.end.max(live.end()) } else { live.end() };
        live.commit(object, merged.step, data_end, merged.bytes, how.run, how.each)?;
        if !missing.is_empty() || (how.slots && object.length()? > live.end()) {
            // What a failed rank left behind the index would hide it.
            object.truncate(live.end())?;
        }
        files.keeper().sync_index()?;
        Ok((merged.whole, merged.bytes))
    }
}

/// Collective: ends an output whose first attempt to commit is `first`. Where ranks were lost, those left commit the
/// step among themselves, as a partial one.
///
/// Returns the bytes that all ranks wrote.
///
/// # Errors
/// All ranks that are left get the same kind: that of the lowest failing rank, else `PeerLost`.
pub fn finish(
    comm: &dyn Communicator,
    first: Result<Result<u64>>,
    part: &mut Part,
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
            // Nobody can be asked what became of the step.
            return Err(part.failure().err().unwrap_or(lost));
        };
        part.index_failed = None;
        outcome = among_survivors(&*left, part, files, how);
    }
}

fn among_survivors(
    comm: &dyn Communicator,
    part: &mut Part,
    files: &mut dyn Files,
    how: Commit,
) -> Result<Result<u64>> {
    let mut message = Vec::new();
    message.put_u32(part.rank);
    message.put_u64(part.size);
    message.put_u64(part.extent().map_or(u64::MAX, |e| e.offset));
    message.put_u8(u8::from(part.is_indexed()));
    let mut left = Vec::new();
    for bytes in comm.all_gather(&message)? {
        let mut c = Cursor::new(&bytes, ByteOrder::NATIVE, 0);
        let (rank, size, offset) = (c.u32("rank")?, c.u64("size")?, c.u64("place")?);
        let wrote = (offset != u64::MAX).then_some(Extent::new(offset, size));
        left.push(Left { rank, size, wrote, indexed: c.u8("indexed")? != 0 });
    }
    if part.written.is_none() {
        let sizes: Vec<_> = left.iter().map(|l| (l.size, l.wrote)).collect();
        let place = plan::after_loss(how.base, &sizes).map(|places| places[comm.rank() as usize]);
        match place {
            Ok(place) => part.write(place, files),
            Err(e) => part.fail(e),
        }
    }
    part.commit_among(comm, Some(&left), files, how)
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

#[derive(Default)]
struct Merged {
    step: Index,
    whole: u64,
    bytes: u64,
    /// First byte behind all extents.
    end: u64,
    /// Ranks without a part, and the number of their error's kind.
    failed: Vec<(u32, u8)>,
    /// The first rank whose part does not fit, and why.
    refused: Option<(u32, Error)>,
}

/// Joins the ranks' fragments. `check`: one by one, leaving out what does not fit an index or those before; otherwise
/// the first that cannot be joined is an error.
fn merge(messages: &[Vec<u8>], check: Option<&LiveIndex>) -> Result<Merged> {
    let mut merged = Merged::default();
    for (rank, message) in (0..).zip(messages) {
        let mut c = Cursor::new(message, ByteOrder::NATIVE, 0);
        let kind = c.u8("outcome")?;
        if kind != 0 {
            merged.failed.push((rank, kind));
            continue;
        }
        let extent = Extent::new(c.u64("extent")?, c.u64("extent")?);
        match check {
            None => merged.step.append_packed(&mut c).map_err(|e| e.at_rank(rank))?,
            Some(live) => {
                let mut one = Index::default();
                let fits =
                    one.append_packed(&mut c).and_then(|()| live.check(&one)).and_then(|()| fits(&merged.step, &one));
                if let Err(e) = fits {
                    merged.failed.push((rank, e.kind().code()));
                    merged.refused.get_or_insert((rank, e));
                    continue;
                }
                merged.step.append_fragment(&one.to_fragment())?;
            }
        }
        merged.whole += 1;
        merged.bytes += extent.length;
        merged.end = merged.end.max(extent.end().unwrap_or(0));
    }
    Ok(merged)
}
