//! Collective accesses in which ranks exchange bytes: the messages and calls of what [`crate::two_phase`] plans.
//!
//! Every rank makes every call in here, in the same order, whatever has failed on it before: a rank that failed takes part without bytes, and
//! the last reduction tells all.

use super::{At, File, agree};
use crate::class::Outcome;
use crate::hints::{Choice, Hints};
use crate::pointer::machine;
use crate::transfer::{self, Memory, MemoryMut};
use crate::two_phase::{self, Access, Exchange, Filled, Plan, Row, Window};
use std::io::IoSlice;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_comm::outcome::apart;
use thalweg_profile::Phase;
use thalweg_types::{Error, ErrorKind};
use thalweg_view::View;

/// The views of all ranks.
pub(super) struct Together {
    views: Vec<View>,
    /// See [`two_phase::rows`].
    rows: Option<Vec<Row>>,
    /// The node of each rank.
    nodes: Vec<u64>,
    /// Whether collective writes exchange bytes.
    pub(super) writes: bool,
    /// Whether collective reads do.
    pub(super) reads: bool,
}

/// Room for a window.
fn filled(window: &Window) -> thalweg_types::Result<Filled> {
    Filled::new(window).ok_or_else(|| Error::new(ErrorKind::NoMemory, "cannot hold a window of the file"))
}

impl File {
    /// Collective: decides whether accesses through the ranks' views exchange bytes.
    pub(super) fn look_at_views(&self, comm: &dyn Communicator, view: &View) -> Outcome<()> {
        let hints = self.hints();
        let wanted = (self.mode.writes() && hints.exchange != Choice::Never)
            || (self.mode.reads() && hints.read_exchange != Choice::Never);
        let together = match comm.size() > 1 && wanted {
            true => self.views_together(comm, view, &hints)?,
            false => None,
        };
        self.state.lock().together = together;
        Ok(())
    }

    /// Collective: the views of all ranks, if accesses through them are worth an exchange.
    fn views_together(&self, comm: &dyn Communicator, view: &View, hints: &Hints) -> Outcome<Option<Arc<Together>>> {
        let own = match self.layout.prefers_runs(&self.name) && view.is_rising() {
            true => view.encode(),
            false => Vec::new(),
        };
        let own = if own.len() <= two_phase::LONGEST_VIEW { own } else { Vec::new() };
        // Where each rank runs, in front of its view.
        let told = if own.is_empty() { own } else { [&machine().to_le_bytes()[..], &own].concat() };
        let all = comm.all_gather(&told).map_err(|e| self.named(e.into()))?;
        let all: Vec<(&[u8; 8], &[u8])> = all.iter().filter_map(|told| told.split_first_chunk::<8>()).collect();
        if all.len() < comm.size() as usize {
            return Ok(None);
        }
        let views = all.iter().map(|(_, bytes)| View::decode(bytes)).collect::<thalweg_types::Result<Vec<View>>>();
        let views = views.map_err(|e| self.named(e.into()))?;
        let nodes: Vec<u64> = all.iter().map(|(node, _)| u64::from_le_bytes(**node)).collect();
        let writes = self.mode.writes() && hints.exchange.writes_exchange(&views);
        let reads = self.mode.reads() && hints.read_exchange.reads_exchange(&views, &nodes);
        if !writes && !reads {
            return Ok(None);
        }
        let rows = two_phase::rows(&views);
        Ok(Some(Arc::new(Together { views, rows, nodes, writes, reads })))
    }

    /// Collective: where all ranks access the file, and who exchanges what with whom. Returns this rank's access, those of all, and the plan.
    fn meet(
        &self,
        comm: &dyn Communicator,
        together: &Together,
        own: Access,
        plan: &Plan,
    ) -> Outcome<(Vec<Access>, thalweg_types::Result<Exchange>)> {
        let told = [own.start.to_le_bytes(), own.bytes.to_le_bytes()].concat();
        let all = comm.all_gather(&told).map_err(|e| self.named(e.into()))?;
        let number = |bytes: &[u8]| bytes.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let accesses: Vec<Access> = all
            .iter()
            .map(|told| Access { start: number(told), bytes: number(told.get(8..).unwrap_or(&[])) })
            .collect();
        let Together { views, rows, nodes, .. } = together;
        let exchange = Exchange::plan(views, rows.as_deref(), &accesses, nodes, plan);
        let outside = || Error::new(ErrorKind::OutOfBounds, "bytes of the view beyond the largest file");
        Ok((accesses, exchange.ok_or_else(outside)))
    }

    /// Collective: the end of an access with an exchange, which fails on all ranks or none.
    fn end_together<T>(
        &self,
        comm: &dyn Communicator,
        doing: &str,
        begun: Outcome<T>,
        moved: thalweg_types::Result<()>,
    ) -> Outcome<Option<T>> {
        let own = begun.and_then(|begun| moved.map(|()| begun).map_err(|e| self.named(e.into())));
        let (begun, own) = match own {
            Ok(begun) => (Some(begun), Ok(())),
            Err(failure) => (None, Err(failure)),
        };
        agree(comm, own, doing, &[])?;
        Ok(begun)
    }

    /// Collective: writes with an exchange: see [`two_phase`].
    pub(super) fn write_together(
        &self,
        at: At,
        together: &Together,
        bytes: Outcome<u64>,
        memory: Memory<'_>,
    ) -> Outcome<u64> {
        let comm = self.comm.lock();
        let doing = "write with all ranks";
        let begun = self.begin(at, bytes);
        let size = memory.size();
        let own = begun.as_ref().map_or(Access::default(), |(start, _)| Access { start: *start, bytes: size });
        let Hints { plan, write_buffer, .. } = self.hints();
        let (accesses, exchange) = self.meet(&**comm, together, own, &plan)?;
        let (exchange, mut written) = apart(exchange);
        let exchange = exchange.unwrap_or_default();
        let (rank, views) = (comm.rank(), &together.views);
        let mine = exchange.row_of(rank);
        let view = views.get(rank as usize);
        for round in 0..exchange.rounds(&plan) {
            let mut parts = vec![Vec::new(); comm.size() as usize];
            for domain in exchange.domains.iter().filter(|domain| Some(domain.row) == mine.map(|(row, _)| row)) {
                let Some(window) = exchange.window(domain, round, &plan) else { continue };
                let taken = view.map_or(0..0, |view| own.part_within(view, &window.file));
                match (caught(doing, || memory.part(taken)), parts.get_mut(domain.rank as usize)) {
                    (Ok(bytes), Some(part)) => *part = bytes,
                    (Ok(_), None) => {}
                    // Its receiver notices; all hear of it at the end.
                    (Err(e), _) => written = written.and(Err(e)),
                }
            }
            let received = comm.all_to_all(&parts).map_err(|e| self.named(e.into()))?;
            drop(parts);
            let window = exchange.domain_of(rank).and_then(|domain| exchange.window(domain, round, &plan));
            if let (Some(window), Some((_, row))) = (window, mine) {
                let outcome = caught(doing, || {
                    let mut filled = filled(&window)?;
                    for rank in row.ranks.iter().map(|rank| *rank as usize) {
                        let range = accesses[rank].within(&views[rank], &window.file);
                        if !filled.put(&views[rank], range, &received[rank]) {
                            return Err(Error::new(ErrorKind::Io, "a rank sent other bytes than its view has here"));
                        }
                    }
                    for run in filled.runs(0) {
                        let _running = self.span(Phase::Write, run.length);
                        self.file.write_at(run.offset, &[IoSlice::new(filled.bytes(&run))])?;
                    }
                    Ok(())
                });
                written = written.and(outcome);
            }
        }
        if let (Ok((start, view)), true) = (&begun, exchange.alone.contains(&rank)) {
            let _running = self.span(Phase::Write, size);
            written = written.and(caught(doing, || transfer::write(&self.file, view, *start, memory, write_buffer)));
        }
        if let Some((start, view)) = self.end_together(&**comm, doing, begun, written)? {
            self.advance(at, start + size, &view);
        }
        Ok(size)
    }

    /// Collective: reads with an exchange: see [`two_phase`].
    pub(super) fn read_together(
        &self,
        at: At,
        together: &Together,
        bytes: Outcome<u64>,
        mut memory: MemoryMut<'_>,
    ) -> Outcome<u64> {
        let comm = self.comm.lock();
        let doing = "read with all ranks";
        let begun = self.begin(at, bytes);
        let size = memory.size();
        let own = begun.as_ref().map_or(Access::default(), |(start, _)| Access { start: *start, bytes: size });
        let Hints { plan, read_buffer, .. } = self.hints();
        // Other ranks read what this one wrote.
        let published = caught(doing, || if self.mode.writes() { self.file.publish() } else { Ok(()) });
        let (accesses, exchange) = self.meet(&**comm, together, own, &plan)?;
        let (exchange, mut moved) = apart(exchange);
        moved = published.and(moved);
        let exchange = exchange.unwrap_or_default();
        let (rank, views) = (comm.rank(), &together.views);
        let (mine, view) = (exchange.row_of(rank), views.get(rank as usize));
        // Bytes of this access up to the end of the file.
        let mut got = size;
        for round in 0..exchange.rounds(&plan) {
            let mut parts = vec![Vec::new(); comm.size() as usize];
            let window = exchange.domain_of(rank).and_then(|domain| exchange.window(domain, round, &plan));
            if let (Some(window), Some((_, row))) = (window, mine) {
                moved = moved.and(caught(doing, || self.read_window(&window, row, views, &accesses, &mut parts)));
            }
            let received = comm.all_to_all(&parts).map_err(|e| self.named(e.into()))?;
            drop(parts);
            for domain in exchange.domains.iter().filter(|domain| Some(domain.row) == mine.map(|(row, _)| row)) {
                let Some(window) = exchange.window(domain, round, &plan) else { continue };
                let part = view.map_or(0..0, |view| own.part_within(view, &window.file));
                let bytes = received.get(domain.rank as usize).map_or(&[][..], Vec::as_slice);
                let length = (bytes.len() as u64).min(part.end - part.start);
                if length < part.end - part.start {
                    got = got.min(part.start + length);
                }
                moved = moved.and(caught(doing, || memory.set(part.start, &bytes[..length as usize])));
            }
        }
        if let (Ok((start, view)), true) = (&begun, exchange.alone.contains(&rank)) {
            let mut running = self.span(Phase::Read, 0);
            let read = caught(doing, || transfer::read(&self.file, view, *start, memory, read_buffer));
            running.iter_mut().for_each(|running| running.bytes(*read.as_ref().unwrap_or(&0)));
            let (read, outcome) = apart(read);
            (got, moved) = (read.unwrap_or(0), moved.and(outcome));
        }
        if let Some((start, view)) = self.end_together(&**comm, doing, begun, moved)? {
            self.advance(at, start + got, &view);
        }
        Ok(got)
    }

    /// Reads what the ranks of a row want of a window, up to the end of the file.
    ///
    /// - `parts`: receives the bytes of each rank.
    fn read_window(
        &self,
        window: &Window,
        row: &Row,
        views: &[View],
        accesses: &[Access],
        parts: &mut [Vec<u8>],
    ) -> thalweg_types::Result<()> {
        let mut filled = filled(window)?;
        let ranges = row.ranks.iter().map(|rank| *rank as usize).filter_map(|rank| {
            let range = accesses[rank].within(&views[rank], &window.file);
            (!range.is_empty()).then_some((rank, range))
        });
        let ranges: Vec<_> = ranges.collect();
        ranges.iter().for_each(|(rank, range)| filled.want(&views[*rank], range.clone(), two_phase::SMALL));
        let mut end = window.file.end;
        for run in filled.runs(two_phase::SMALL) {
            let mut running = self.span(Phase::Read, 0);
            let got = self.file.read_at(run.offset, filled.bytes_mut(&run))? as u64;
            running.iter_mut().for_each(|running| running.bytes(got));
            if got < run.length {
                end = run.offset + got;
                break;
            }
        }
        for (rank, range) in ranges {
            let there = accesses[rank].within(&views[rank], &(window.file.start..end));
            let bytes = filled.get(&views[rank], range.start..there.end.max(range.start));
            parts[rank] =
                bytes.ok_or_else(|| Error::new(ErrorKind::NoMemory, "cannot hold a rank's part of a window"))?;
        }
        Ok(())
    }
}
