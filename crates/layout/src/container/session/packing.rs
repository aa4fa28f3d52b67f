//! The close of a small session that is stored packed: see [`packed`](super::super::packed).

use super::super::marks::{self, Home, Published};
use super::super::packed;
use super::{Log, Session};
use thalweg_types::Result;

impl Session {
    /// Whether nothing was written since the session's mark was made, and nothing published before.
    pub(super) fn has_nothing(&self, log: &Log) -> bool {
        !log.dirty && log.buffer.is_empty() && self.is_new(log)
    }

    /// Whether all that the session wrote is in its buffer, and is little.
    pub(super) fn can_pack(&self, log: &Log) -> bool {
        let length = log.buffer.len();
        self.is_new(log) && length > 0 && length + super::RECORD_HEADER as usize <= packed::MOST
    }

    /// Whether no log and no published mark was made.
    fn is_new(&self, log: &Log) -> bool {
        let logs = log.data.is_some() || log.index.is_some() || log.segment > 0 || log.end > 0;
        !logs && log.version == 0 && log.last_mark.is_none() && log.doubtful.is_none()
    }

    /// Ends a session that began and wrote nothing.
    pub(super) fn end_without_writes(&self, log: &mut Log) -> Result<Option<Published>> {
        self.place.remove_if_there(&marks::open_name(self.home))?;
        (log.mark, log.marked, log.finished) = (None, false, true);
        Ok(None)
    }

    /// Publishes and closes: one object with the whole log. The open mark stays, as the closed one overrides it: a merge removes both.
    pub(super) fn publish_packed(&self, log: &mut Log) -> Result<Published> {
        self.end_of_log(log);
        let bytes = std::mem::take(&mut log.buffer);
        // Above the version of a mark that a repair makes for a session that it takes for dead: this one has the bytes.
        log.version = 2;
        let published = Published {
            version: log.version,
            closed: true,
            segments: 1,
            data: bytes.len() as u64,
            index: 0,
            summary: log.summary,
            time: log.time,
        };
        let home = Home { folder: packed::FOLDER, ..self.home };
        let mode = log.guard.map_or(0o666, |guard| guard.object());
        log.left_open = self.place.pack(home, &published, &marks::open_name(self.home), bytes, mode)?;
        (log.packed, log.before) = (true, (published.data, 0));
        (log.mark, log.marked, log.dirty, log.owed, log.finished) = (None, false, false, true, true);
        log.last_mark = Some((marks::published_name(home, &published), published));
        Ok(published)
    }
}

impl Log {
    /// The session and the place of its logs, as its last mark names them.
    pub fn home(&self, session: &Session) -> Home {
        match self.packed {
            true => Home { folder: packed::FOLDER, ..session.home },
            false => session.home,
        }
    }
}
