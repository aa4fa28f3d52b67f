//! Compaction: replaces many logs by one.

use super::super::file::File;
use super::super::index::MappedRange;
use super::super::load::{self, Alive};
use super::super::marks;
use super::super::objects::{put_new, remove_if_there};
use super::super::place::now;
use super::super::record::Kind;
use super::super::session::Session;
use super::super::session::publishing::close_mark;
use super::super::{Container, removal};
use super::repair::tidy;
use super::{WINDOW, alone};
use std::io::IoSlice;
use thalweg_types::{Error, ErrorKind, Result};

/// Result of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Sessions before.
    pub sessions: usize,
    /// Bytes written to the new log.
    pub bytes: u64,
    /// Removed bytes, which were overwritten or truncated.
    pub dead: u64,
}

impl Container {
    /// Writes a file's live bytes into one log and removes all others. Open readers find the new log.
    ///
    /// A kill at any moment leaves the file's bytes as they were: the new log takes effect with its last record, a truncation of all
    /// earlier logs.
    ///
    /// # Errors
    /// `NotReady` if a writer has not closed, or began while the file was copied; `Torn` if the end of a log is missing.
    /// Nothing is changed then.
    pub fn compact(&self, path: &str) -> Result<Compacted> {
        let (file, path) = self.opened(path, "compact")?;
        let _alone = alone(&file.place, true)?;
        file.look()?;
        let busy =
            || Error::new(ErrorKind::NotReady, "cannot compact: a writer has not closed").in_object(path.clone());
        end_sessions(&file)?;
        let marks = file.marks();
        if file.is_written() || marks.iter().any(|m| !m.closed()) {
            return Err(busy());
        }
        let written: u64 = marks.iter().filter_map(|m| m.published).map(|p| p.summary.bytes).sum();
        if marks.is_empty() {
            return Ok(Compacted { sessions: 0, bytes: 0, dead: 0 });
        }
        file.is_whole().map_err(|e| e.in_object(path.clone()))?;
        let (clock, length) = (file.clock(), file.length()?);
        let home = file.place.home(&self.options.host, u32::MAX, 0);
        let about = load::about_compacting();
        let session = Session::new(file.place.clone(), home, about, &self.options, clock);
        let (first, folder) = (file.place.first(), file.place.marks());
        let commit = format!("{folder}/{}", marks::commit_name(home.session));
        let copied = self.copy_live(&file, &session, length).and_then(|bytes| {
            // Writers that begin from here on see this mark and wait; writers that began before are in the list.
            put_new(&**first, &commit, &[])?;
            let mut now = marks::read(&file.place.list()?)?;
            now.retain(|m| m.home.session != home.session);
            if now != marks {
                return Err(busy());
            }
            let mut log = session.lock();
            // Ordered before the writes of its own session, which therefore stay.
            session.bare(&mut log, Kind::Cut, 0, 0)?;
            session.publish(&mut log, true, true)?;
            Ok(bytes)
        });
        if copied.is_err() {
            // The new log is not valid yet.
            session.give_up(&mut session.lock());
        }
        remove_if_there(&**first, &commit)?;
        let bytes = copied.map_err(|e| e.in_object(path.clone()))?;
        removal::remove_sessions(&file.place, &marks)?;
        file.look()?;
        Ok(Compacted { sessions: marks.len(), bytes, dead: written.saturating_sub(bytes) })
    }

    fn copy_live(&self, file: &File, session: &Session, length: u64) -> Result<u64> {
        let mut log = session.lock();
        session.start(&mut log)?;
        log.time = file.written().unwrap_or_else(now);
        let (mut at, mut end, mut copied) = (0, 0, 0);
        let mut bytes = Vec::new();
        while at < length {
            // Holes of any length are passed at once.
            let (start, pieces, appended): (u64, Vec<MappedRange>, bool) = file.with_index(|index| {
                let start = index.recorded_after(at, length)?;
                Ok((start, index.resolve(start, length.min(start + WINDOW))?, index.has_appended()))
            })?;
            for piece in pieces.iter().filter(|p| !p.hole) {
                // Once the cut is visible and until their log is removed, appends of the last clock would appear in gaps.
                if appended && piece.start > end {
                    session.bare(&mut log, Kind::Hole, end, piece.start - end)?;
                }
                bytes.resize((piece.end - piece.start) as usize, 0);
                if file.read(piece.start, &mut bytes)? != bytes.len() {
                    return Err(Error::new(ErrorKind::Io, "the file was cut while it was compacted"));
                }
                session.write(&mut log, piece.start, &[IoSlice::new(&bytes)], |_, _| {})?;
                copied += bytes.len() as u64;
                end = piece.end;
            }
            at = length.min(start + WINDOW);
        }
        if end < length {
            session.bare(&mut log, Kind::Hole, end, length - end)?;
        }
        session.hand_over(&mut log)?;
        Ok(copied)
    }
}

/// Removes sessions of killed compactions: their bytes are still in the sessions that they were to replace. Closes sessions of dead
/// processes of which everything is published.
fn end_sessions(file: &File) -> Result<()> {
    for mark in file.marks().iter().filter(|m| !m.closed()) {
        let (alive, who) = load::alive(&file.place, mark)?;
        match &mark.published {
            _ if alive != Alive::No => {}
            None if load::compacts(&who) => removal::remove_session(&file.place, mark)?,
            Some(p) if mark.open.is_none() => close_mark(&file.place, mark.home, p)?,
            _ => {}
        }
    }
    tidy(&file.place)?;
    file.look()
}
