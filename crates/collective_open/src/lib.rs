//! A file that all ranks of a communicator open together for reading, so that its index is read once in total instead of once per rank.
//!
//! | question | answer |
//! |----------|--------|
//! | who opens | every rank calls [`CollectiveFile::open`]; rank 0 reads the file's state after all ranks have called, so everything that any of them had closed is visible |
//! | who reads which index log | each is read by one rank; index bytes are spread evenly |
//! | `flat`, `pattern` | fragments are sent up a tree ([`tree_gather`]) and merged on the way; the whole index is broadcast, and each rank holds it |
//! | `distributed` | the file is divided into ranges of 64 MiB, owned by the ranks in turn; entries are sent to the owners of the ranges they overlap. No rank holds the whole index |
//! | appended records | start where all earlier records end: distributed after all ranks have exchanged how far each clock of each log reaches |
//! | lookups at owners | collective only: [`CollectiveFile::look_up_all`], [`CollectiveFile::read_all`]. Results stay cached as long as they fit `index_cache` |
//! | reading alone | any time with `flat` and `pattern`; with `distributed` only bytes that this rank owns or has looked up, else `NotReady` |
//! | memory, `flat`, `pattern` | the index; while opening also twice the size of all index logs |
//! | memory, `distributed` | `index_cache`; while opening also [`deal::MOST_ENTRIES`] entries to send and as many received (of more than 64 ranks [`deal::LEAST_ENTRIES`] each), 60 bytes for each clock of each log, and the appended records in this rank's share of the index logs |
//! | files of other layouts, files that are being written | each rank opens the file alone; all calls work |
//! | on failure | all ranks return the same error: the lowest failing rank's, with its place and cause; the others add who reported it. A panic between collective calls is such a failure ([`thalweg_comm::guarded`]) |
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`deal`] | sends index entries to the ranks that own their ranges |
//! | `ask` | lookups of other ranks' ranges |
//!
//! Sources: Bent et al., SC 2009 (ranks share the reading of the index); Greenberg, Bent, Grider, HotStorage 2015 (MDHIM:
//! ranges of one index, each with an owner). Differs: lookups are collective exchanges, so no rank needs a server thread.

#![forbid(unsafe_code)]

use ask::ask;
use deal::dealt;
use std::sync::MutexGuard;
use thalweg_comm::guarded::caught;
use thalweg_comm::outcome::{agreed, apart};
use thalweg_comm::tree_gather::{self, ChildMessage, Gathering};
use thalweg_comm::{Communicator, Request, tags};
use thalweg_layout::container::index::Module;
use thalweg_layout::container::parallel::{Fragment, Opening};
use thalweg_layout::container::part::{PartFile, Section};
use thalweg_layout::{Container, Layout, ReadObject};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

mod ask;
pub mod deal;

/// Approximate number of pieces in an answer to one rank.
pub const MOST_PIECES: usize = 1 << 14;

/// A file open on all ranks of a communicator. Any thread may call; collective calls take turns.
pub struct CollectiveFile {
    comm: Mutex<Box<dyn Communicator>>,
    file: Index,
}

enum Index {
    /// The whole index: any part can be read alone.
    Whole(Box<dyn ReadObject>),
    Part(Box<PartFile>),
}

impl CollectiveFile {
    /// Collective: opens a file for reading.
    ///
    /// - `comm`: used by this file alone.
    /// - `at`: the layout, and the file's name in it, the same on all ranks; or this rank's error, which is then returned on all
    ///   ranks.
    /// - `fan_in`: largest number of ranks that send fragments to the same rank ([`thalweg_comm::tree::FAN_IN`]).
    ///
    /// # Errors
    /// On all ranks the lowest failing rank's: that of an open, a log that cannot be read, a panic. `PeerLost` or `Timeout` if a rank
    /// was lost. Nothing is open afterwards.
    /// # Cost
    /// Rank 0: an open without index logs. Every rank: its share of the index logs; three reductions, a broadcast, and the messages
    /// of the index module.
    pub fn open(comm: Box<dyn Communicator>, at: Result<(&dyn Layout, &str)>, fan_in: u32) -> Result<CollectiveFile> {
        let file = open(&*comm, at, fan_in)?;
        Ok(CollectiveFile { comm: Mutex::new(comm), file })
    }

    fn comm(&self) -> MutexGuard<'_, Box<dyn Communicator>> {
        // A call that panicked left no inconsistent state.
        self.comm.lock()
    }

    /// Whether this rank holds only a part of the index.
    pub fn is_part(&self) -> bool {
        matches!(self.file, Index::Part(_))
    }

    /// Bytes of memory of this rank's part of the index, and of its cached lookups; `None` if it holds the whole index.
    pub fn memory(&self) -> Option<(usize, usize)> {
        match &self.file {
            Index::Whole(_) => None,
            Index::Part(part) => Some(part.memory()),
        }
    }

    /// Collective: each rank looks up the positions of the bytes of its ranges, so that it can read them alone afterwards.
    ///
    /// - `ranges`: first byte and end. May exceed the end of the file.
    ///
    /// Drops the results of earlier calls first if they take more memory than `index_cache`; keeps those of this call,
    /// whatever their size: about 100 bytes per piece.
    ///
    /// # Errors
    /// On all ranks the lowest failing rank's. The file stays open.
    /// # Cost
    /// Two all-to-all exchanges per round; a round covers one range of 64 MiB of each owner, or [`MOST_PIECES`] pieces. One more
    /// exchange and a reduction.
    pub fn look_up_all(&self, ranges: &[(u64, u64)]) -> Result<()> {
        let comm = self.comm();
        let doing = "look up where bytes lie";
        let Index::Part(part) = &self.file else { return agreed(&**comm, Ok(()), doing, &[]).map(|_| ()) };
        let trimmed = caught(doing, || part.trim());
        let wanted = ranges.iter().flat_map(|(from, to)| part.sections(*from, *to)).filter(|s| !part.knows(s));
        let learned = ask(&**comm, part, wanted, |_, _| Ok(()))?;
        agreed(&**comm, trimmed.and(learned), doing, &[]).map(|_| ())
    }

    /// Collective: reads up to `out.len()` bytes (also 0) at `offset`; returns the number of bytes read.
    ///
    /// # Errors
    /// On all ranks the lowest failing rank's. The file stays open.
    /// # Cost
    /// With `flat` and `pattern` a reduction and a read. With `distributed` the cost of
    /// [`look_up_all`](CollectiveFile::look_up_all) and a read; memory for [`MOST_PIECES`] pieces and `index_cache`.
    pub fn read_all(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let comm = self.comm();
        let doing = "read the file";
        let part = match &self.file {
            Index::Part(part) => part,
            Index::Whole(object) => {
                let (count, own) = apart(caught(doing, || object.read_at(offset, out)));
                agreed(&**comm, own, doing, &[])?;
                return Ok(count.unwrap_or(0));
            }
        };
        let count = usize::try_from(part.bytes().saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let out = &mut out[..count];
        let mut wanted = Vec::new();
        let read = |out: &mut [u8], s: &Section| {
            part.read_exact_at(s.from, &mut out[(s.from - offset) as usize..(s.to - offset) as usize])
        };
        let known = caught(doing, || {
            for section in part.sections(offset, offset.saturating_add(count as u64)) {
                match part.knows(&section) {
                    true => read(&mut *out, &section)?,
                    false => wanted.push(section),
                }
            }
            Ok(())
        });
        // A rank that failed makes no further requests, but answers those of others.
        if known.is_err() {
            wanted.clear();
        }
        let asked = ask(&**comm, part, wanted, |part, section| {
            let outcome = read(&mut *out, section);
            part.trim().and(outcome)
        })?;
        agreed(&**comm, known.and(asked), doing, &[])?;
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

    /// Not collective.
    fn stored_before(&self, offset: u64) -> Result<u64> {
        match &self.file {
            Index::Whole(object) => object.stored_before(offset),
            Index::Part(part) => part.stored_before(offset),
        }
    }
}

fn open(comm: &dyn Communicator, at: Result<(&dyn Layout, &str)>, fan_in: u32) -> Result<Index> {
    let doing = at.as_ref().map_or_else(|_| "open the file".to_string(), |(_, name)| format!("open {name}"));
    let at = at.and_then(|(layout, name)| {
        let concrete = caught(&doing, || Ok(layout.concrete()))?;
        Ok((layout, name, concrete.and_then(|any| any.downcast_ref::<Container>())))
    });
    let (at, own) = apart(at);
    let container = at.and_then(|(_, _, container)| container);
    // From here on all ranks are in this call, and everything they closed before is published. Mount tables may differ between
    // nodes.
    let others = agreed(comm, own, &doing, &[u64::from(container.is_none())])?;
    let Some((layout, name, _)) = at else { return Err(Error::new(ErrorKind::InvalidArgument, "no file is named")) };
    let shared = match container.filter(|_| others == [0]) {
        Some(container) => shared_opening(comm, container, name, &doing)?.map(|opening| (container, opening)),
        None => None,
    };
    let alone = || caught(&doing, || layout.open_read(name).map(Index::Whole));
    let held = match shared {
        None => alone(),
        Some((container, opening)) => {
            let together = match opening.module() {
                Module::Flat | Module::Pattern => joined(comm, container, name, &opening, fan_in, &doing),
                Module::Distributed => dealt(comm, container, name, &opening, &doing),
            };
            match together {
                // On all ranks: a log is shorter than its mark states. Each rank reads the rest alone.
                Err(e) if e.kind() == ErrorKind::Torn => alone(),
                held => held?,
            }
        }
    };
    let (held, own) = apart(held);
    agreed(comm, own, &doing, &[])?;
    held.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "no file is open"))
}

/// Rank 0's view of the file, on all ranks; `None` if each has to open the file alone.
fn shared_opening(comm: &dyn Communicator, container: &Container, name: &str, doing: &str) -> Result<Option<Opening>> {
    let opening = match comm.rank() {
        0 => caught(doing, || container.opening(name).map(|opening| opening.encode())),
        _ => Ok(Vec::new()),
    };
    let (bytes, own) = apart(opening);
    agreed(comm, own, doing, &[])?;
    let mut bytes = bytes.unwrap_or_default();
    comm.broadcast(0, &mut bytes)?;
    // The same bytes on all ranks: all get the same error.
    let opening = Opening::decode(&bytes)?;
    Ok(if opening.is_settled()? { Some(opening) } else { None })
}

/// The sessions that this rank reads.
fn share_of(comm: &dyn Communicator, opening: &Opening) -> Result<Vec<usize>> {
    Ok(opening.shares(comm.size() as usize)?.swap_remove(comm.rank() as usize))
}

/// Every rank gets the whole index. The outer error is common to all ranks, the inner one is this rank's.
fn joined(
    comm: &dyn Communicator,
    container: &Container,
    name: &str,
    opening: &Opening,
    fan_in: u32,
    doing: &str,
) -> Result<Result<Index>> {
    let mut own = caught(doing, || container.read_share(name, opening, &share_of(comm, opening)?));
    let call = Gathering { tag: tags::COLLECTIVE_OPEN, run: 0, time_index: 0, attempt: 0 };
    let join = |own: &mut Result<Fragment>, _, message: ChildMessage<'_>| {
        let Ok(whole) = own else { return };
        let joined = caught(doing, || {
            whole.join(message.short.map_or_else(|| Fragment::decode(message.bytes), Err)?);
            Ok(())
        });
        if let Err(e) = joined {
            *own = Err(e);
        }
    };
    // A rank that failed sends nothing: the agreement reports the reason.
    let say = |own: &mut Result<Fragment>| {
        let Ok(whole) = own else { return Fragment::default().encode() };
        caught(doing, || Ok(std::mem::take(whole).encode())).unwrap_or_else(|e| {
            *own = Err(e);
            Fragment::default().encode()
        })
    };
    let sent = tree_gather::gather(comm, fan_in, call, &mut own, join, say)?;
    sent.map_or(Ok(None), Request::wait)?;
    let whole = own.and_then(|whole| match comm.rank() {
        0 => caught(doing, || Ok(whole.encode())),
        _ => Ok(Vec::new()),
    });
    let (bytes, own) = apart(whole);
    agreed(comm, own, doing, &[])?;
    let mut bytes = bytes.unwrap_or_default();
    comm.broadcast(0, &mut bytes)?;
    Ok(caught(doing, || {
        let whole = Fragment::decode(&bytes)?;
        drop(bytes);
        container.open_joined(name, opening, &whole).map(Index::Whole)
    }))
}
