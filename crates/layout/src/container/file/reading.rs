//! Reading an open file: its length, its index, and the bytes of the logs that the index names.

use super::super::index::{MappedRange, Merged, Source};
use super::super::load::{self, Unclean, Why};
use super::super::marks::Mark;
use super::super::record::Log as Which;
use super::{File, MOST_OPEN};
use std::sync::Arc;
use thalweg_store::ReadObject;
use thalweg_types::{Error, ErrorKind, Result};

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

    /// Fills memory from byte `offset` on: pieces from their logs, zeros between them; an error if bytes may be missing.
    pub fn fill(
        &self,
        offset: u64,
        out: &mut [u8],
        pieces: &[(MappedRange, Source)],
        unclean: Option<&Unclean>,
    ) -> Result<()> {
        let (mut at, end) = (offset, offset + out.len() as u64);
        let gap = |from: u64, to: u64, out: &mut [u8]| match unclean {
            Some(unclean) if from < to => Err(unclean.error(from)),
            _ => {
                out[(from - offset) as usize..(to - offset) as usize].fill(0);
                Ok(())
            }
        };
        for (piece, source) in pieces {
            gap(at, piece.start, out)?;
            let part = &mut out[(piece.start - offset) as usize..(piece.end - offset) as usize];
            match piece.hole {
                true => part.fill(0),
                false => self.read_log(source, piece.log, part).map_err(|e| e.at_byte(piece.start))?,
            }
            at = piece.end;
        }
        gap(at, end, out)
    }

    pub(super) fn read_log(&self, source: &Source, at: u64, out: &mut [u8]) -> Result<()> {
        let session = self.state().local.get(&source.session).map(|l| l.session.clone());
        if let Some(session) = session
            && session.read(source.segment, at, out)?
        {
            return Ok(());
        }
        for fresh in [false, true] {
            let got = match self.reader(source, fresh)?.read_at(at, out) {
                // Merged since it was opened: it is found again.
                Err(e) if e.kind() == ErrorKind::Io && !fresh && self.place.stamp.packed => continue,
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
        let object = load::open(&self.place, source, Which::Data)?;
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

/// A range of the file and its data log.
fn pieces_of(index: &Merged, offset: u64, count: usize) -> Result<Vec<(MappedRange, Source)>> {
    let pieces = index.resolve(offset, offset.saturating_add(count as u64))?;
    Ok(pieces.into_iter().map(|p| (p, index.source_of(&p).clone())).collect())
}
