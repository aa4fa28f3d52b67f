//! Distribution of index entries: each rank reads its share of the index logs and sends the entries to the ranks that own the ranges
//! they overlap, in collective exchanges.

use crate::{Index, share_of};
use thalweg_comm::guarded::caught;
use thalweg_comm::outcome::{agreed, apart};
use thalweg_comm::{Communicator, Reduce};
use thalweg_layout::Container;
use thalweg_layout::container::index::Source;
use thalweg_layout::container::index::block::Entry;
use thalweg_layout::container::index::distributed::Part;
use thalweg_layout::container::parallel::{Bases, Fragment, Opening, Pile, Reach};
use thalweg_layout::container::part::{PartBuilder, PartFile};
use thalweg_types::{Error, ErrorKind, Result};

/// Entries that a rank buffers for the others before it sends them, about 6 MiB: an equal number per rank, but at least
/// [`LEAST_ENTRIES`], so that a rank receives as many in an exchange.
pub const MOST_ENTRIES: usize = 1 << 16;
/// Fewest entries buffered for one rank.
pub const LEAST_ENTRIES: usize = 1 << 10;

/// Every rank gets its part of the index. The outer error is common to all ranks, the inner one is this rank's.
pub(crate) fn dealt(
    comm: &dyn Communicator,
    container: &Container,
    name: &str,
    opening: &Opening,
    doing: &str,
) -> Result<Result<Index>> {
    let part = Part { number: comm.rank().into(), of: comm.size().into() };
    let (builder, own) = apart(caught(doing, || container.open_part(name, opening, part)));
    agreed(comm, own, doing, &[])?;
    let Some(builder) = builder else { return Ok(Err(Error::new(ErrorKind::InvalidArgument, "no file is open"))) };
    let mut dealer = Dealer::new(comm, builder);
    let told = caught(doing, || {
        container.tell_share(name, opening, &share_of(comm, opening)?, |source, entry| dealer.deal(source, entry))
    });
    let told = dealer.all_to_their_parts(told)?;
    let appended = agreed(comm, told, doing, &[u64::from(dealer.reach.has_appended())])?;
    let bases = if appended == [1] { Some(bases(comm, &mut dealer.reach, doing)?) } else { None };
    if let Some(bases) = &bases {
        let told = caught(doing, || dealer.deal_appended(bases));
        let told = dealer.all_to_their_parts(told)?;
        agreed(comm, told, doing, &[])?;
    }
    let built = caught(doing, || dealer.builder.finish());
    // The file ends where the entries of all parts end.
    let own = built.as_ref().map_or(0, PartFile::bytes);
    let length = comm.all_reduce(&[own], Reduce::Max)?[0];
    Ok(built.and_then(|mut part| {
        caught(doing, || {
            part.is_long(bases.map_or(length, |bases| bases.length()));
            Ok(Index::Part(Box::new(part)))
        })
    }))
}

/// Where appended records begin, from the clocks of all ranks in order.
fn bases(comm: &dyn Communicator, reach: &mut Reach, doing: &str) -> Result<Bases> {
    let (own, outcome) = apart(caught(doing, || Ok(reach.take().encode())));
    agreed(comm, outcome, doing, &[])?;
    let mut all = Fragment::default();
    for bytes in comm.all_gather(&own.unwrap_or_default())? {
        all.join(Fragment::decode(&bytes)?);
    }
    // The same bytes everywhere.
    Bases::of(&all)
}

/// Entries to be sent to their owners.
struct Dealer<'c> {
    comm: &'c dyn Communicator,
    builder: PartBuilder,
    /// For each rank.
    out: Vec<Pile>,
    /// Appended records, whose ranges are not known yet: encoded, and the last ones.
    appended: (Fragment, Pile),
    reach: Reach,
    /// Entries for one rank at which all are sent.
    most: usize,
    /// The error of storing received entries.
    failed: Option<Error>,
    /// The error of a failed exchange: no further one is possible.
    lost: bool,
}

/// First byte of a message: more messages follow, or this is the last.
const MORE: u8 = 1;
const LAST: u8 = 0;

impl<'c> Dealer<'c> {
    fn new(comm: &'c dyn Communicator, builder: PartBuilder) -> Dealer<'c> {
        let ranks = comm.size() as usize;
        let most = (MOST_ENTRIES / ranks).max(LEAST_ENTRIES);
        Dealer {
            comm,
            builder,
            out: std::iter::repeat_with(Pile::default).take(ranks).collect(),
            appended: Default::default(),
            reach: Reach::default(),
            most,
            failed: None,
            lost: false,
        }
    }

    fn deal(&mut self, source: &Source, entry: Entry) -> Result<()> {
        self.reach.note(source, &entry);
        let ranks = self.comm.size();
        match &entry {
            Entry::Cut { .. } => (0..ranks).try_for_each(|rank| self.put(rank, source, entry)),
            Entry::Run(run) if run.appended => {
                if self.appended.1.add(source, entry) == MOST_ENTRIES {
                    self.appended.0.join(self.appended.1.take());
                }
                Ok(())
            }
            Entry::Run(run) => {
                let (start, end) = run.bounds();
                Part::owners(start, end, ranks.into()).try_for_each(|rank| self.put(rank as u32, source, entry))
            }
        }
    }

    fn deal_appended(&mut self, bases: &Bases) -> Result<()> {
        let (mut all, mut last) = std::mem::take(&mut self.appended);
        all.join(last.take());
        all.each(|source, entry| match entry {
            Entry::Run(run) => self.deal(source, Entry::Run(bases.place(source, &run)?)),
            Entry::Cut { .. } => Ok(()),
        })
    }

    fn put(&mut self, rank: u32, source: &Source, entry: Entry) -> Result<()> {
        if rank == self.comm.rank() {
            return self.builder.add(source, &entry);
        }
        if self.out[rank as usize].add(source, entry) < self.most {
            return Ok(());
        }
        self.exchange(MORE).map(|_| ())
    }

    /// Sends the buffered entries and stores the received ones; returns whether any rank has more.
    fn exchange(&mut self, flag: u8) -> Result<bool> {
        let outcome = self.send_and_take(flag);
        self.lost |= outcome.is_err();
        outcome
    }

    fn send_and_take(&mut self, flag: u8) -> Result<bool> {
        let mut messages = Vec::with_capacity(self.out.len());
        for pile in &mut self.out {
            let fragment = pile.take();
            let mut message = vec![flag];
            if fragment != Fragment::default() {
                message.extend_from_slice(&fragment.encode());
            }
            messages.push(message);
        }
        let came = self.comm.all_to_all(&messages)?;
        drop(messages);
        let mut more = false;
        for message in &came {
            let Some((flag, bytes)) = message.split_first() else { continue };
            more |= *flag == MORE;
            if bytes.is_empty() || self.failed.is_some() {
                continue;
            }
            let builder = &mut self.builder;
            let taken = caught("take entries of an index", || {
                Fragment::decode(bytes)?.each(|source, entry| builder.add(source, &entry))
            });
            self.failed = taken.err();
        }
        Ok(more)
    }

    /// Returns when all ranks have sent all their entries. The outer error is common to all ranks.
    ///
    /// - `told`: this rank's result so far. A rank that failed takes part nevertheless, because the others wait for it.
    fn all_to_their_parts(&mut self, told: Result<()>) -> Result<Result<()>> {
        if self.lost {
            return told.map(Ok);
        }
        while self.exchange(LAST)? {}
        Ok(told.and(self.failed.take().map_or(Ok(()), Err)))
    }
}
