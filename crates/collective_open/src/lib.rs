//! A file that all ranks of a communicator open together to read it, so that its index is read once and not by every rank.
//!
//! | question | answer |
//! |----------|--------|
//! | who opens | every rank calls [`CollectiveFile::open`]; rank 0 looks at the file when all are there, so all that any of them had closed is seen |
//! | who reads which index log | each is read by one rank, index bytes spread evenly |
//! | `flat`, `pattern` | fragments travel up a tree ([`tree_gather`]), joined on the way; the whole is broadcast, and each rank holds it |
//! | `distributed` | entries go straight to the ranks that own the ranges of the file that they meet, 64 MiB each in turn; no rank ever holds all of them |
//! | appended records | lie where all that came before them ends: dealt once all ranks have told how far each clock of each log reaches |
//! | asking an owner | only together: [`CollectiveFile::look_up_all`], [`CollectiveFile::read_all`]. What was learned stays as long as it fits `index_cache` |
//! | reading alone | any time, with `flat` and `pattern`; with `distributed` what this rank owns or has learned, else `NotReady` |
//! | memory, `flat`, `pattern` | the index; while opening also what all index logs take, twice |
//! | memory, `distributed` | `index_cache`; while opening also [`deal::MOST_ENTRIES`] entries to send and as many received (of more than 64 ranks [`deal::LEAST_ENTRIES`] each), 60 bytes for each clock of each log, what the index logs of this rank's share take of appended records |
//! | files of other layouts, files that are being written | are opened by each rank alone; all calls work |
//! | on failure | all ranks return the same error: the lowest failing rank's, with its place and cause; the others add who reported it |
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`deal`] | entries go to the ranks that own the ranges of the file that they meet |
//! | `ask` | owners are asked where bytes lie |
//! | `outcome` | every rank's outcome becomes that of all |
//!
//! Sources: Bent et al., SC 2009 (ranks share the reading of the index); Greenberg, Bent, Grider, HotStorage 2015 (MDHIM:
//! ranges of one index, each with an owner). Differs: owners are asked in exchanges that all ranks take part in, so no rank
//! needs a thread that serves.

#![forbid(unsafe_code)]

use ask::ask;
use deal::dealt;
use outcome::{agreed, apart};
use std::sync::MutexGuard;
use thalweg_comm::tree_gather::{self, Gathering, Heard};
use thalweg_comm::{Communicator, Request, tags};
use thalweg_layout::container::index::Module;
use thalweg_layout::container::parallel::{Fragment, Opening};
use thalweg_layout::container::part::{PartFile, Section};
use thalweg_layout::{Container, Layout, ReadObject};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

mod ask;
pub mod deal;
mod outcome;

/// Pieces in an answer to one rank, give or take those of a stretch that is looked through at a time.
pub const MOST_PIECES: usize = 1 << 14;

/// A file open on all ranks of a communicator. Any thread may call; collective calls take turns.
pub struct CollectiveFile {
    comm: Mutex<Box<dyn Communicator>>,
    file: Index,
}

enum Index {
    /// All of it can be read alone.
    Whole(Box<dyn ReadObject>),
    Part(Box<PartFile>),
}

impl CollectiveFile {
    /// Collective: opens a file to read it.
    ///
    /// - `comm`: no others' messages pass through it.
    /// - `at`: the layout, and the file's name in it, the same on all ranks; or why this rank has none, which the others hear.
    /// - `fan_in`: most ranks that one rank takes fragments from ([`thalweg_comm::tree::FAN_IN`]).
    ///
    /// # Errors
    /// On all ranks the lowest failing one's: what an open says, a log that cannot be read, a lost rank.
    /// # Cost
    /// Rank 0: as an open, without index logs. Every rank: its share of the index logs; three reductions, a broadcast, and what
    /// the module asks for.
    pub fn open(comm: Box<dyn Communicator>, at: Result<(&dyn Layout, &str)>, fan_in: u32) -> Result<CollectiveFile> {
        let file = open(&*comm, at, fan_in)?;
        Ok(CollectiveFile { comm: Mutex::new(comm), file })
    }

    fn comm(&self) -> MutexGuard<'_, Box<dyn Communicator>> {
        // A call that panicked has lost its own work only.
        self.comm.lock()
    }

    /// Whether this rank holds a part of the index only.
    pub fn is_part(&self) -> bool {
        matches!(self.file, Index::Part(_))
    }

    /// Bytes of memory that this rank's part of the index takes, and what it learned of others; `None` where it has all of it.
    pub fn memory(&self) -> Option<(usize, usize)> {
        match &self.file {
            Index::Whole(_) => None,
            Index::Part(part) => Some(part.memory()),
        }
    }

    /// Collective: learns where bytes lie, each rank of those it asks for, to read them alone afterwards.
    ///
    /// - `ranges`: first byte and end. What goes beyond the end of the file does not matter.
    ///
    /// What earlier calls learned is forgotten first, where it takes more memory than `index_cache`; what this one does is kept
    /// however much that is: about 100 bytes a piece.
    ///
    /// # Errors
    /// On all ranks the lowest failing one's.
    /// # Cost
    /// Two exchanges of all with all for as many ranges of 64 MiB as there are ranks, or [`MOST_PIECES`] pieces; one more, and
    /// a reduction.
    pub fn look_up_all(&self, ranges: &[(u64, u64)]) -> Result<()> {
        let comm = self.comm();
        let doing = "look up where bytes lie";
        let Index::Part(part) = &self.file else { return agreed(&**comm, Ok(()), doing, &[]).map(|_| ()) };
        let trimmed = part.trim();
        let wanted = ranges.iter().flat_map(|(from, to)| part.sections(*from, *to)).filter(|s| !part.knows(s));
        let learned = ask(&**comm, part, wanted, |_, _| Ok(()))?;
        agreed(&**comm, trimmed.and(learned), doing, &[]).map(|_| ())
    }

    /// Collective: reads at `offset` as much as there is, up to `out.len()`, which may be 0; returns how much.
    ///
    /// # Errors
    /// On all ranks the lowest failing one's.
    /// # Cost
    /// With `flat` and `pattern` a reduction, and what a read alone costs. With `distributed` what
    /// [`look_up_all`](CollectiveFile::look_up_all) costs; memory for [`MOST_PIECES`] pieces and `index_cache`.
    pub fn read_all(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let comm = self.comm();
        let doing = "read the file";
        let part = match &self.file {
            Index::Part(part) => part,
            Index::Whole(object) => {
                let read = object.read_at(offset, out);
                let (count, own) = apart(read);
                agreed(&**comm, own, doing, &[])?;
                return Ok(count.unwrap_or(0));
            }
        };
        let count = usize::try_from(part.bytes().saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let out = &mut out[..count];
        let mut outcome = Ok(());
        let mut wanted = Vec::new();
        let read = |out: &mut [u8], s: &Section| {
            part.read_exact_at(s.from, &mut out[(s.from - offset) as usize..(s.to - offset) as usize])
        };
        for section in part.sections(offset, offset.saturating_add(count as u64)) {
            match part.knows(&section) {
                true if outcome.is_ok() => outcome = read(&mut *out, &section),
                true => {}
                false => wanted.push(section),
            }
        }
        let asked = ask(&**comm, part, wanted, |part, section| {
            // Of one that failed nothing more is needed, but the others wait for its answers.
            let outcome = read(&mut *out, section);
            part.trim().and(outcome)
        })?;
        agreed(&**comm, outcome.and(asked), doing, &[])?;
        Ok(count)
    }
}

impl ReadObject for CollectiveFile {
    fn length(&self) -> Result<u64> {
        match &self.file {
            Index::Whole(object) => object.length(),
            Index::Part(part) => part.length(),
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        match &self.file {
            Index::Whole(object) => object.read_at(offset, out),
            Index::Part(part) => part.read_at(offset, out),
        }
    }
}

fn open(comm: &dyn Communicator, at: Result<(&dyn Layout, &str)>, fan_in: u32) -> Result<Index> {
    let (at, own) = apart(at);
    let doing = at.map_or_else(|| "open the file".to_string(), |(_, name)| format!("open {name}"));
    let container = at.and_then(|(layout, _)| layout.concrete()).and_then(|any| any.downcast_ref::<Container>());
    // From here on all ranks are in this call, and what they closed before is published. Mount tables may differ from node to
    // node.
    let others = agreed(comm, own, &doing, &[u64::from(container.is_none())])?;
    let Some((layout, name)) = at else { return Err(Error::new(ErrorKind::InvalidArgument, "no file is named")) };
    let shared = match container.filter(|_| others == [0]) {
        Some(container) => shared_opening(comm, container, name, &doing)?.map(|opening| (container, opening)),
        None => None,
    };
    let alone = || layout.open_read(name).map(Index::Whole);
    let held = match shared {
        None => alone(),
        Some((container, opening)) => {
            let together = match opening.module() {
                Module::Flat | Module::Pattern => joined(comm, container, name, &opening, fan_in, &doing),
                Module::Distributed => dealt(comm, container, name, &opening, &doing),
            };
            match together {
                // On all ranks: a log ends before its mark says. Each reads what is there.
                Err(e) if e.kind() == ErrorKind::Torn => alone(),
                held => held?,
            }
        }
    };
    let (held, own) = apart(held);
    agreed(comm, own, &doing, &[])?;
    held.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "no file is open"))
}

/// What rank 0 sees of the file, on all ranks; `None` where each has to open it alone.
fn shared_opening(comm: &dyn Communicator, container: &Container, name: &str, doing: &str) -> Result<Option<Opening>> {
    let opening = if comm.rank() == 0 { container.opening(name).map(|o| o.encode()) } else { Ok(Vec::new()) };
    let (bytes, own) = apart(opening);
    agreed(comm, own, doing, &[])?;
    let mut bytes = bytes.unwrap_or_default();
    comm.broadcast(0, &mut bytes)?;
    // The same bytes everywhere: what is wrong with them is wrong for all.
    let opening = Opening::decode(&bytes)?;
    Ok(if opening.is_settled()? { Some(opening) } else { None })
}

/// The sessions that this rank reads.
fn share_of(comm: &dyn Communicator, opening: &Opening) -> Result<Vec<usize>> {
    Ok(opening.shares(comm.size() as usize)?.swap_remove(comm.rank() as usize))
}

/// Every rank gets the whole index. The outer error is of the ranks, the inner one this rank's.
fn joined(
    comm: &dyn Communicator,
    container: &Container,
    name: &str,
    opening: &Opening,
    fan_in: u32,
    doing: &str,
) -> Result<Result<Index>> {
    let mut own = share_of(comm, opening).and_then(|share| container.read_share(name, opening, &share));
    let call = Gathering { tag: tags::COLLECTIVE_OPEN, run: 0, time_index: 0, attempt: 0 };
    let join = |own: &mut Result<Fragment>, _, heard: Heard<'_>| {
        if let Ok(whole) = own {
            match heard.short.map_or_else(|| Fragment::decode(heard.bytes), Err) {
                Ok(more) => whole.join(more),
                Err(e) => *own = Err(e),
            }
        }
    };
    // A rank that has nothing to say says so: the agreement tells why.
    let say = |own: &mut Result<Fragment>| own.as_mut().map(std::mem::take).unwrap_or_default().encode();
    let sent = tree_gather::gather(comm, fan_in, call, &mut own, join, say)?;
    sent.map_or(Ok(None), Request::wait)?;
    let (whole, own) = apart(own);
    agreed(comm, own, doing, &[])?;
    let mut bytes = match whole {
        Some(whole) if comm.rank() == 0 => whole.encode(),
        _ => Vec::new(),
    };
    comm.broadcast(0, &mut bytes)?;
    let whole = Fragment::decode(&bytes);
    drop(bytes);
    Ok(whole.and_then(|whole| container.open_joined(name, opening, &whole)).map(Index::Whole))
}
