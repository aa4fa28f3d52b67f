//! Reading an open file: its length, its index, and the bytes of the logs that the index names.

use super::super::index::{MappedRange, Merged, Module, Source};
use super::super::load::{self, Unclean, Why};
use super::super::marks::Mark;
use super::super::record::Log as Which;
use super::super::snapshot;
use super::super::synopsis::Synopsis;
use super::{File, MOST_OPEN};
use std::sync::Arc;
use thalweg_store::{ReadObject, viewed};
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::View;

impl File {
    /// Length of the file: the published length, extended by records in logs of writers that may be dead. If such logs
    /// cannot be read and no writer is known to be dead: the published length.
    pub fn length(&self) -> Result<u64> {
        self.known()?;
        match self.whole_length() {
            Err(e) if e.kind() == ErrorKind::Io => {
                let (others, by_index) = {
                    let state = self.state();
                    (state.others.clone(), state.by_index)
                };
                let (_, unclean) = load::logs(&self.place, &others)?;
                if by_index || unclean.iter().any(|unclean| unclean.why == Why::Dead) {
                    return Err(e);
                }
                Ok(self.state().length)
            }
            length => length,
        }
    }

    /// As [`File::length`], but an error if a log that may contain more records cannot be read.
    pub(super) fn whole_length(&self) -> Result<u64> {
        loop {
            let others = {
                let state = self.state();
                if state.knows_length() {
                    return Ok(state.length);
                }
                (!state.by_index).then(|| state.others.clone())
            };
            // Of living writers only the published part counts, which is in their marks.
            if let Some(others) = others
                && load::logs(&self.place, &others)?.0.tails.is_empty()
            {
                let mut state = self.state();
                state.unsettled &= state.others != others;
                continue;
            }
            match self.load() {
                // The writers closed meanwhile.
                Err(e) if e.kind() == ErrorKind::Io && self.state().knows_length() => {}
                outcome => return outcome.map(|()| self.state().length),
            }
        }
    }

    /// Loads the index if it is not loaded.
    pub(super) fn load(&self) -> Result<()> {
        let _loading = self.loading.lock();
        loop {
            let (others, beside, sessions) = {
                let mut state = self.state();
                if state.index.is_some() {
                    return Ok(());
                }
                state.recorded = Some(Vec::new());
                let sessions: Vec<_> = state.local.values().map(|l| l.session.clone()).collect();
                (state.others.clone(), state.beside.clone(), sessions)
            };
            let loaded = sessions
                .iter()
                .map(|session| session.view())
                .collect::<Result<Vec<_>>>()
                .and_then(|views| load::merged(&self.place, &self.options, &others, &beside, &views));
            let mut state = self.state();
            let recorded = state.recorded.take().unwrap_or_default();
            let (mut index, unclean) = match loaded {
                Ok(loaded) => loaded,
                Err(e) => {
                    drop(state);
                    // Logs may have been removed since the marks were listed: by a compaction, truncation or removal.
                    if e.kind() == ErrorKind::Io && self.changed(&others)? {
                        continue;
                    }
                    return Err(e);
                }
            };
            if !recorded.iter().all(|(source, entry)| index.add(source, entry)) {
                // Concurrent calls: handles wrote while their views were taken.
                continue;
            }
            // A read of missing bytes at the end is an error: the file does not end before them.
            if unclean.iter().any(|unclean| unclean.why == Why::Lost) && !state.by_index {
                index.length = index.length.max(state.length);
            }
            state.length = index.length;
            state.tail = state.tail.take().and_then(|(source, clock, _)| {
                let base = index.base(&source, clock)?;
                Some((source, clock, base))
            });
            state.unclean = unclean;
            state.index = Some(index);
            return Ok(());
        }
    }

    /// Uses an index that ranks gathered, if it covers everything that is published now.
    pub fn take_index(&self, marks: &[Mark], index: Merged) -> bool {
        let mut state = self.state();
        if state.others != marks || !state.local.is_empty() {
            return false;
        }
        state.length = index.length;
        state.unclean.clear();
        state.index = Some(index);
        true
    }

    /// Uses a synopsis of this container, if it covers everything that is published now.
    pub(super) fn take_synopsis(&self, synopsis: Synopsis) {
        let marks = self.marks();
        let Synopsis { snapshot, length, end, .. } = synopsis;
        let is_of_now = snapshot::covers(&marks).is_some_and(|covers| covers == snapshot.covers);
        if !is_of_now || self.place.stamp.module == Module::Distributed {
            return;
        }
        // The index logs say the same.
        let Ok(index) = load::joined(&self.place, &self.options, &snapshot.index) else { return };
        if index.length == length && self.take_index(&marks, index) {
            self.state().end = Some(Arc::new(end));
        }
    }

    /// Bytes at the end of the file that are in memory.
    pub fn at_hand(&self) -> u64 {
        self.state().end.as_ref().map_or(0, |end| end.bytes.len() as u64)
    }

    /// Whether the marks of other sessions differ from `others`.
    pub(super) fn changed(&self, others: &[Mark]) -> Result<bool> {
        self.look()?;
        Ok(self.state().others != others)
    }

    /// Fails if bytes of the file are missing. The index must be loaded.
    pub fn is_whole(&self) -> Result<()> {
        self.load()?;
        self.state().unclean.first().map_or(Ok(()), |unclean| Err(unclean.unsettled()))
    }

    /// Calls `f` with the loaded index.
    pub fn with_index<T>(&self, mut call: impl FnMut(&Merged) -> Result<T>) -> Result<T> {
        loop {
            if let Some(index) = &self.state().index {
                return call(index);
            }
            self.load()?;
        }
    }

    /// Reads up to the end of the file.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.known()?;
        for tried in 0.. {
            match self.read_once(offset, out) {
                Err(e) if tried < 2 && matches!(e.kind(), ErrorKind::Io | ErrorKind::Torn | ErrorKind::NotReady) => {
                    // Another process may have closed, compacted or truncated since.
                    let others = self.state().others.clone();
                    if !self.changed(&others)? {
                        return self.read_behind(offset, out)?.ok_or(e);
                    }
                }
                outcome => return outcome,
            }
        }
        unreachable!("two tries at most")
    }

    /// As [`ReadObject::stored_before`], from the index. `offset` itself if the index cannot be loaded, or if bytes may be missing:
    /// gaps are no holes then, and a read reports the reason.
    pub fn stored_before(&self, offset: u64) -> Result<u64> {
        self.known()?;
        loop {
            let state = self.state();
            match &state.index {
                Some(_) if !state.unclean.is_empty() => return Ok(offset),
                Some(index) => return index.stored_before(offset),
                None => drop(state),
            }
            if self.load().is_err() {
                return Ok(offset);
            }
        }
    }

    /// Reads although the index cannot be loaded, without the logs that do not affect these bytes; `None` if every log may
    /// affect them.
    fn read_behind(&self, offset: u64, out: &mut [u8]) -> Result<Option<usize>> {
        let (others, sessions) = {
            let state = self.state();
            if state.index.is_some() {
                return Ok(None);
            }
            let sessions: Vec<_> = state.local.values().map(|l| l.session.clone()).collect();
            (state.others.clone(), sessions)
        };
        let views = sessions.iter().map(|session| session.view()).collect::<Result<Vec<_>>>()?;
        let found = load::behind(&self.place, &self.options, &others, &views, offset)?;
        let Some((index, unclean)) = found else { return Ok(None) };
        let count = usize::try_from(index.length.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let pieces = pieces_of(&index, offset, count)?;
        self.fill(offset, &mut out[..count], &pieces, unclean.first())?;
        Ok(Some(count))
    }

    fn read_once(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let (pieces, count, unclean) = loop {
            let state = self.state();
            let Some(index) = &state.index else {
                drop(state);
                self.load()?;
                continue;
            };
            let there = index.length.saturating_sub(offset);
            let count = usize::try_from(there).unwrap_or(usize::MAX).min(out.len());
            if let Some(bytes) = state.end.as_ref().and_then(|end| end.get(offset, count)) {
                out[..count].copy_from_slice(bytes);
                return Ok(count);
            }
            break (pieces_of(index, offset, count)?, count, state.unclean.first().cloned());
        };
        // Bytes that a dead writer had only buffered are not in the file, as on any filesystem; missing bytes before the
        // end are an error.
        if count == 0 {
            return Ok(0);
        }
        self.fill(offset, &mut out[..count], &pieces, unclean.as_ref())?;
        Ok(count)
    }

    /// Reads bytes of a view up to the end of the file: all extents are looked up first, so that what is consecutive in a log is read
    /// with one request although it is spread over the file.
    pub fn read_view(&self, view: &View, start: u64, out: &mut [u8]) -> Result<u64> {
        self.known()?;
        match self.read_view_once(view, start, out) {
            // Another process may have closed, compacted or truncated since; or the index cannot be loaded.
            Err(e) if matches!(e.kind(), ErrorKind::Io | ErrorKind::Torn | ErrorKind::NotReady) => {
                viewed::read(view, start, out, &mut |offset, out| self.read(offset, out))
            }
            outcome => outcome,
        }
    }

    fn read_view_once(&self, view: &View, start: u64, out: &mut [u8]) -> Result<u64> {
        viewed::reachable(view, start, out.len())?;
        let mut extents = view.extents(start..start + out.len() as u64);
        let mut done = 0;
        let mut ended = out.is_empty();
        while !ended {
            let mut wanted: Vec<Wanted> = Vec::new();
            loop {
                let state = self.state();
                let Some(index) = &state.index else {
                    drop(state);
                    self.load()?;
                    continue;
                };
                let unclean = state.unclean.first();
                while wanted.len() < MOST_WANTED {
                    let Some(extent) = extents.next() else {
                        ended = true;
                        break;
                    };
                    let there = index.length.saturating_sub(extent.offset).min(extent.length);
                    let part = &mut out[done..done + there as usize];
                    let pieces =
                        index.resolve(extent.offset, extent.offset + there)?.into_iter().map(|piece| (piece, ()));
                    laid_out(pieces, extent.offset, part, unclean, |piece, (), at| {
                        wanted.push(Wanted { source: index.source_of(&piece).clone(), piece, at: done + at });
                    })?;
                    done += there as usize;
                    if there < extent.length {
                        ended = true;
                        break;
                    }
                }
                break;
            }
            self.fetch(out, &wanted)?;
        }
        Ok(done as u64)
    }

    /// Fills memory from byte `offset` on: pieces from their logs, zeros between them; an error if bytes may be missing.
    pub fn fill(
        &self,
        offset: u64,
        out: &mut [u8],
        pieces: &[(MappedRange, Source)],
        unclean: Option<&Unclean>,
    ) -> Result<()> {
        let mut wanted = Vec::with_capacity(pieces.len());
        let pieces = pieces.iter().map(|(piece, source)| (*piece, source));
        laid_out(pieces, offset, out, unclean, |piece, source, at| {
            wanted.push(Wanted { source: source.clone(), piece, at });
        })?;
        // A later write of a few bytes, which are in another log, lies between two pieces that one request can fetch.
        if wanted.len() > 2 && self.place.store(wanted[0].source.store).is_ok_and(|store| store.request_cost() > 0) {
            wanted.sort_by_key(|wanted| (wanted.source.session, wanted.source.segment, wanted.piece.log));
        }
        self.fetch(out, &wanted)
    }

    /// Reads pieces of logs into memory; small ones that are near each other in one log with one request.
    fn fetch(&self, out: &mut [u8], wanted: &[Wanted]) -> Result<()> {
        let mut between = Vec::new();
        let mut rest = wanted;
        while let Some((first, behind)) = rest.split_first() {
            // What a request costs, in bytes: so many between two pieces are read along, and pieces of that size are copied once more.
            let cost = self.place.store(first.source.store).map_or(0, |store| store.request_cost());
            let (near, small) = (cost.max(viewed::GAP), (JOINED_FAR * cost).max(SMALL));
            let mut end = first.log_end();
            let joins = |wanted: &Wanted, end: u64| {
                wanted.source == first.source
                    && wanted.piece.log >= end
                    && wanted.piece.log - end <= near
                    && wanted.length() <= small
                    && wanted.log_end() - first.piece.log <= viewed::MOST.max(small)
            };
            let mut joined = 0;
            while let Some(next) = behind.get(joined).filter(|next| first.length() <= small && joins(next, end)) {
                end = next.log_end();
                joined += 1;
            }
            let told = |e: Error| e.at_byte(first.piece.start);
            if joined == 0 {
                let part = &mut out[first.at..first.at + first.length() as usize];
                self.read_log(&first.source, first.piece.log, part).map_err(told)?;
            } else {
                let span = (end - first.piece.log) as usize;
                between.resize(span.max(between.len()), 0);
                self.read_log(&first.source, first.piece.log, &mut between[..span]).map_err(told)?;
                for wanted in &rest[..=joined] {
                    let from = (wanted.piece.log - first.piece.log) as usize;
                    let length = wanted.length() as usize;
                    out[wanted.at..wanted.at + length].copy_from_slice(&between[from..from + length]);
                }
            }
            rest = &rest[1 + joined..];
        }
        Ok(())
    }

    pub(super) fn read_log(&self, source: &Source, at: u64, out: &mut [u8]) -> Result<()> {
        let session = self.state().local.get(&source.session).map(|l| l.session.clone());
        if let Some(session) = session {
            // Headers between two records may be read along: a part of that may be written, and the rest still be buffered.
            let written =
                session.written(source.segment).filter(|written| at < *written && *written < at + out.len() as u64);
            if let Some(written) = written {
                let (first, rest) = out.split_at_mut((written - at) as usize);
                self.read_log(source, at, first)?;
                return self.read_log(source, written, rest);
            }
            if session.read(source.segment, at, out)? {
                return Ok(());
            }
        }
        for fresh in [false, true] {
            let got = match self.reader(source, fresh)?.read_at(at, out) {
                // Merged since it was opened: it is found again.
                Err(e) if e.kind() == ErrorKind::Io && !fresh && self.place.stamp.packed => continue,
                // Opened without a look at the store.
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    return Err(load::lost(&self.place, source, Which::Data).caused_by(e));
                }
                got => got?,
            };
            if got == out.len() {
                return Ok(());
            }
        }
        // The bytes were published: if they are missing, the store has lost them.
        let store = self.place.store(source.store)?.describe();
        let what = format!("backing store {store} has lost the end of a data log");
        Err(Error::new(ErrorKind::Io, what).in_object(self.place.shown(source)))
    }

    pub(super) fn reader(&self, source: &Source, fresh: bool) -> Result<Arc<dyn ReadObject>> {
        let mut readers = self.readers.lock();
        readers.asked += 1;
        let now = readers.asked;
        if let Some((asked, object)) = readers.open.get_mut(source).filter(|_| !fresh) {
            *asked = now;
            return Ok(object.clone());
        }
        drop(readers);
        let object = self.place.open_known_data(&source.home(), source.segment)?;
        let object: Arc<dyn ReadObject> = object.ok_or_else(|| load::lost(&self.place, source, Which::Data))?.into();
        let mut readers = self.readers.lock();
        if readers.open.len() >= MOST_OPEN {
            let oldest = readers.open.iter().min_by_key(|(_, (asked, _))| *asked).map(|(source, _)| source.clone());
            oldest.and_then(|oldest| readers.open.remove(&oldest));
        }
        readers.open.insert(source.clone(), (now, object.clone()));
        Ok(object)
    }
}

/// Most bytes of a piece that is read together with others, and copied once more for that.
const SMALL: u64 = 64 << 10;
/// The same far away, in costs of a request: a copy is nothing beside it.
const JOINED_FAR: u64 = 16;
/// Most pieces of a view that are looked up before they are read.
const MOST_WANTED: usize = 1 << 14;

/// Bytes of a log, and where they go in the caller's memory.
struct Wanted {
    source: Source,
    piece: MappedRange,
    at: usize,
}

impl Wanted {
    fn length(&self) -> u64 {
        self.piece.end - self.piece.start
    }

    fn log_end(&self) -> u64 {
        self.piece.log + self.length()
    }
}

/// Fills what no log holds with zeros, an error if such bytes may be missing, and passes the pieces of logs on: each with its place in
/// `out`.
///
/// - `offset`: of the first byte of `out` in the file.
fn laid_out<S>(
    pieces: impl Iterator<Item = (MappedRange, S)>,
    offset: u64,
    out: &mut [u8],
    unclean: Option<&Unclean>,
    mut then: impl FnMut(MappedRange, S, usize),
) -> Result<()> {
    let (mut at, end) = (offset, offset + out.len() as u64);
    let mut zeros = |from: u64, to: u64, is_hole: bool| match unclean {
        Some(unclean) if from < to && !is_hole => Err(unclean.error(from)),
        _ => {
            out[(from - offset) as usize..(to - offset) as usize].fill(0);
            Ok(())
        }
    };
    for (piece, source) in pieces {
        zeros(at, piece.start, false)?;
        match piece.hole {
            true => zeros(piece.start, piece.end, true)?,
            false => then(piece, source, (piece.start - offset) as usize),
        }
        at = piece.end;
    }
    zeros(at, end, false)
}

/// A range of the file and its data log.
fn pieces_of(index: &Merged, offset: u64, count: usize) -> Result<Vec<(MappedRange, Source)>> {
    let pieces = index.resolve(offset, offset.saturating_add(count as u64))?;
    Ok(pieces.into_iter().map(|p| (p, index.source_of(&p).clone())).collect())
}
