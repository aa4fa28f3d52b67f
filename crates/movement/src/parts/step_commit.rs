//! The end of an output: fragments go to rank 0, which adds the step to the index; all ranks learn the outcome.
//!
//! | question | answer |
//! |---|---|
//! | what moves | each rank's fragment (about 100 bytes per block) to rank 0 |
//! | calls | one gather, one reduction |
//! | on failure | a rank without fragment is named in the extension section, the step is partial, the others' blocks are indexed |

use super::agreement::agree_and_tell;
use super::live_index::LiveIndex;
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

/// What only the rank that keeps the index has.
pub struct IndexWriter<'i> {
    /// The index.
    pub live: &'i mut LiveIndex,
    /// The file that holds it.
    pub object: &'i dyn WriteObject,
    /// Called after the index is written, where the output is to be durable.
    pub sync: Option<&'i dyn Fn() -> Result<()>>,
}

/// How to commit.
#[derive(Debug, Clone, Copy)]
pub struct Commit {
    /// Step + 1.
    pub time_index: u32,
    /// Run id.
    pub run: u64,
    /// A full index at each output.
    pub each: bool,
    /// Data lies in the same file as the index.
    pub shared: bool,
    /// Ranks that are missing altogether (lost), as (first original rank number, how many).
    pub missing: Option<(u32, u32)>,
}

/// Collective. Returns how many bytes all ranks wrote.
pub fn commit(
    comm: &dyn Communicator,
    written: Result<Written>,
    index: Option<IndexWriter<'_>>,
    how: Commit,
) -> Result<u64> {
    let mut message = Vec::new();
    match &written {
        Ok(w) => {
            message.put_u8(0);
            message.put_u64(w.extent.offset);
            message.put_u64(w.extent.length);
            message.put(&w.fragment.to_fragment());
        }
        Err(e) => message.put_u8(e.kind().code()),
    }
    let gathered = comm.gather(0, &message);
    let (own, whole, bytes) = match gathered {
        Err(lost) => (written.map(|_| ()).and(Err(lost)), 0, 0),
        Ok(None) => (written.map(|_| ()), 0, 0),
        Ok(Some(messages)) => {
            let done = match index {
                Some(index) => add_step(index, &messages, how),
                None => Err(Error::new(ErrorKind::InvalidArgument, "rank 0 has no index to add to")),
            };
            match done {
                Ok((whole, bytes)) => (written.map(|_| ()), whole, bytes),
                Err(e) => (written.map(|_| ()).and(Err(e)), 0, 0),
            }
        }
    };
    let (outcome, told) = agree_and_tell(comm, own, "close the output", &[whole, bytes]);
    let step = u64::from(how.time_index.saturating_sub(1));
    outcome.map_err(|e| e.at_step(step).safe(still_safe(step, told[0], comm.size())))?;
    Ok(told[1])
}

fn still_safe(step: u64, whole: u64, ranks: u32) -> String {
    let before = match step {
        0 => String::new(),
        1 => "step 0 is indexed and readable; ".into(),
        _ => format!("steps 0..={} are indexed and readable; ", step - 1),
    };
    match whole {
        0 => format!("{before}step {step} is not in the index"),
        n => format!("{before}step {step} is partial ({n} of {ranks} process groups)"),
    }
}

/// Adds the fragments as one step. Returns how many ranks were whole and the bytes they wrote.
fn add_step(index: IndexWriter<'_>, messages: &[Vec<u8>], how: Commit) -> Result<(u64, u64)> {
    let IndexWriter { live, object, sync } = index;
    let mut step = Index::default();
    let (mut whole, mut bytes, mut end) = (0, 0u64, live.end());
    let mut failed = Vec::new();
    for (rank, message) in messages.iter().enumerate() {
        let mut c = Cursor::new(message, ByteOrder::NATIVE, 0);
        match c.u8("outcome")? {
            0 => {
                let extent = Extent::new(c.u64("extent")?, c.u64("extent")?);
                step.append_packed(&mut c).map_err(|e| e.at_rank(rank as u32))?;
                whole += 1;
                bytes += extent.length;
                end = end.max(extent.end().unwrap_or(end));
            }
            kind => failed.push((rank as u32, kind)),
        }
    }
    if whole == 0 {
        return Err(Error::new(ErrorKind::Io, "no rank wrote its process group"));
    }
    let partial = step.records.list(Tag::Partial);
    let lost = how.missing.map(|(first, n)| (first..first + n).map(|r| (r, ErrorKind::PeerLost.code())));
    for (rank, kind) in failed.iter().copied().chain(lost.into_iter().flatten()) {
        partial.put_u32(how.time_index);
        partial.put_u32(rank);
        partial.put_u32(u32::from(kind));
        partial.put_u32(0);
    }
    if partial.is_empty() {
        step.records.0.remove(&(Tag::Partial as u32));
    }
    let data_end = if how.shared { end } else { live.end() };
    live.commit(object, step, data_end, bytes, how.run, how.each)?;
    if !failed.is_empty() {
        // What a failed rank left behind the index would hide it.
        object.truncate(live.end())?;
    }
    if let Some(sync) = sync {
        sync()?;
    }
    Ok((whole, bytes))
}
