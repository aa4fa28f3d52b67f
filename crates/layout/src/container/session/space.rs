//! Space of a session on a store that fills up: reserved before bytes are buffered, given back at the close.

use super::super::objects::remove_if_there;
use super::super::place::data_name;
use super::super::record::{RECORD_HEADER, SEGMENT_HEADER};
use super::{Log, Session};
use thalweg_types::{ErrorKind, Result};

/// Bytes of a data log in addition to buffered bytes: its header, a record's header, the end record.
pub(super) const AROUND: u64 = SEGMENT_HEADER + 2 * RECORD_HEADER;
/// Bytes of an inline session in addition to its data log: headers, and marks until the session has closed.
pub(super) const MARKS: u64 = 1024;
/// First reservation in bytes; each further one doubles the space, up to a whole buffer.
const FIRST_RESERVED: u64 = 64 << 10;
/// Block size in which filesystems allocate space.
pub(super) const BLOCK: u64 = 4096;

impl Session {
    /// Reserves space for bytes that are about to be buffered, and for everything written until the log is closed: on a
    /// full store the write fails, not the close. One request per buffer; several for a log's first buffer, so that a small
    /// file reserves little.
    ///
    /// # Errors
    /// `NoSpace`: nothing was reserved or buffered.
    pub(super) fn reserve(&self, log: &mut Log, bytes: u64) -> Result<()> {
        let gathered = log.end + log.buffer.len() as u64;
        let needed = gathered + bytes + AROUND;
        if needed <= log.reserved {
            return Ok(());
        }
        if let (Some((object, _)), Some(inline)) = (&log.inside, &self.place.inline) {
            let there = inline.get(&data_name(&self.home, 0)).map_or(0, |bytes| bytes.len() as u64);
            let end = inline.end();
            let around = |data: u64| data.saturating_sub(there) + MARKS;
            let most = self.inline_limit as u64 + AROUND;
            let wanted = if log.reserved > 0 { (2 * needed).min(most).max(needed) } else { needed };
            let ample = (end + around(wanted)).next_multiple_of(BLOCK) - end;
            let found = match object.reserve(end, ample) {
                Err(e) if e.kind() == ErrorKind::NoSpace => {
                    object.reserve(end, around(needed)).map(|()| around(needed))?
                }
                reserved => reserved.map(|()| ample)?,
            };
            (log.reserved, log.reserved_inside) = (there + (found - MARKS), end + found);
            return Ok(());
        }
        let can = self.store()?.capability();
        if !can.write_at || !can.truncate {
            return Ok(());
        }
        let is_new = log.data.is_none();
        self.open_data(log)?;
        let Some(data) = &log.data else { return Ok(()) };
        let whole = self.buffer as u64 + AROUND;
        let ample = if log.end > 0 { whole } else { (2 * needed).clamp(FIRST_RESERVED.min(whole), whole) };
        let ample = ample.max(needed - log.end);
        let reserved = match data.reserve(log.end, ample) {
            Err(e) if e.kind() == ErrorKind::NoSpace => data.reserve(log.end, needed - log.end).map(|()| needed),
            reserved => reserved.map(|()| log.end + ample),
        };
        match reserved {
            Ok(reserved) => log.reserved = reserved,
            Err(e) => {
                if is_new {
                    // No mark refers to an empty log.
                    self.remove_data(log)?;
                }
                return Err(e);
            }
        }
        Ok(())
    }

    /// After a failed write: removes a segment that contains no accepted bytes.
    pub(super) fn unbegin(&self, log: &mut Log) {
        let nothing = log.end == 0 && log.buffer.len() as u64 <= SEGMENT_HEADER && log.broken.is_none();
        if !nothing || log.inside.is_some() {
            return;
        }
        if self.remove_data(log).is_ok() {
            log.buffer.clear();
            log.dirty &= log.segment > 0;
        }
    }

    /// Removes the data log of the segment.
    pub(super) fn remove_data(&self, log: &mut Log) -> Result<()> {
        (log.data, log.reserved) = (None, 0);
        remove_if_there(&**self.store()?, &self.place.data(&self.home, log.segment))
    }

    /// Continues to close without the rest of the index log, for which the store has no space: readers scan the data log.
    pub(super) fn do_without_index(&self, log: &mut Log) {
        log.unwritten.clear();
        if log.index_end == 0 {
            log.index = None;
            if let Ok(store) = self.store() {
                let _ = remove_if_there(&**store, &self.place.index(&self.home, log.segment));
            }
        }
    }
}
