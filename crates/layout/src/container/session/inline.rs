//! An inline session: marks and data log are records of the inline object, until the log exceeds the option `inline`.

use super::super::inline_object::InlineObject;
use super::super::marks::{self, Mark, Published};
use super::super::place::data_name;
use super::super::{most_inside, tail};
use super::space::{AROUND, BLOCK, MARKS};
use super::{Log, Session};
use std::io::IoSlice;
use thalweg_store::pieces;
use thalweg_types::{Error, ErrorKind, Result};

impl Session {
    /// Begins an inline session. `false` if the session must begin in the container's folder: the folder exists, another
    /// inline session is open, or the inline object is too long.
    pub(super) fn begin_inside(&self, log: &mut Log, inline: &InlineObject) -> Result<bool> {
        if self.inline_limit == 0 || (log.inside.is_none() && (log.started || inline.has_home())) {
            return Ok(false);
        }
        let locked = inline.lock()?;
        let begins = tail::Record::Put(marks::open_name(self.home), self.about.clone().into_bytes());
        if log.inside.is_some() {
            return locked.add(vec![begins]).map(|()| true);
        }
        let open = || Ok::<_, Error>(marks::read(&inline.names())?.iter().any(|mark| !mark.closed()));
        if inline.has_home() || inline.length() > most_inside(self.inline_limit) || open()? {
            return Ok(false);
        }
        // Space for the end of the session is included: a full store refuses the write that begins the session.
        let (least, end) = (MARKS + self.about.len() as u64, inline.end());
        let ample = (end + least + MARKS).next_multiple_of(BLOCK) - end;
        let room = match locked.reserve(ample) {
            Err(e) if e.kind() == ErrorKind::NoSpace => locked.reserve(least).map(|()| least)?,
            reserved => reserved.map(|()| ample)?,
        };
        let Some(leased) = locked.lease() else { return Ok(false) };
        if let Err(e) = locked.add(vec![begins]) {
            // The mark may have been written, and would then be taken for a dead writer's.
            let _ = self.place.remove_if_there(&marks::open_name(self.home));
            return Err(e);
        }
        (log.reserved, log.reserved_inside) = (room - least, end + room);
        log.inside = Some(leased);
        Ok(true)
    }

    /// Continues in the container's folder: writes the whole log, with a write that does not fit the buffer, to a data log
    /// there. The marks stay in the inline object until the next publish. After a failure the session stays inline, with
    /// its reserved space.
    ///
    /// - `all`: the buffer, and the bytes that follow it.
    pub(super) fn leave_inside(&self, log: &mut Log, all: &[IoSlice<'_>]) -> Result<()> {
        self.place.make_home()?;
        log.guard = self.place.guard()?;
        self.open_data(log)?;
        let length = pieces::total(all);
        let written = match &log.data {
            Some(data) => data.reserve(0, length + AROUND + BLOCK).and_then(|()| data.write_at(0, all)),
            None => Ok(()),
        };
        if written.is_err() {
            // The data log is invalid: the session's log is in the inline object.
            let _ = self.remove_data(log);
            return written;
        }
        log.reserved = length + AROUND + BLOCK;
        log.mark = log.inside.take();
        Ok(())
    }

    /// Frees reserved space in the inline object, after a session that left it has closed.
    pub(super) fn give_back_inside(&self, log: &mut Log) {
        let spare = |inline: &&InlineObject| log.reserved_inside > inline.end().next_multiple_of(BLOCK);
        if let Some(inline) = self.place.inline.as_ref().filter(spare) {
            // If that fails, the space is freed with the file.
            let _ = inline.lock().and_then(|locked| locked.give_back().and(locked.close()));
        }
        log.reserved_inside = 0;
    }

    /// As [`Session::publish`], for an inline session: bytes and marks in one write.
    pub(super) fn publish_inside(
        &self,
        log: &mut Log,
        inline: &InlineObject,
        durable: bool,
        closing: bool,
    ) -> Result<Option<Published>> {
        use tail::Record::{Became, Gone, More, Put};
        let (open, data) = (marks::open_name(self.home), data_name(&self.home, 0));
        let something = !log.buffer.is_empty();
        if something && closing {
            self.end_of_log(log);
        }
        log.seal();
        let locked = inline.lock()?;
        // The object decides: a failed write may have left complete marks.
        let mark = marks::read(&inline.names())?.into_iter().find(|mark| mark.home.session == self.home.session);
        let Some(mark) = mark.filter(|mark| !mark.closed()) else { return Err(self.taken_for_dead(log)) };
        let version = mark.published.map_or(0, |p| p.version).max(log.version) + 1;
        let old = mark.published.map(|p| marks::published_name(self.home, &p));
        let mut records = Vec::new();
        // A failed write may have left the beginning of the log.
        let there = inline.get(&data).map_or(0, |bytes| bytes.len());
        if let Some(more) = log.buffer.get(there..).filter(|more| !more.is_empty()) {
            records.push(More(data, more.to_vec()));
        }
        let published = Published {
            version,
            closed: closing,
            segments: u32::from(something),
            data: log.buffer.len() as u64,
            index: 0,
            summary: log.summary,
            time: log.time,
        };
        let name = marks::published_name(self.home, &published);
        // Marks in the container's folder are renamed in the same way.
        let (mut marked, nothing) = (mark.open.is_some(), closing && !something && old.is_none());
        match old {
            None if nothing => {}
            Some(old) => records.push(Became(old, name.clone())),
            None if marked && (closing || (!durable && log.summary.bytes > 0)) => {
                records.push(Became(open.clone(), name.clone()));
                marked = false;
            }
            None => records.push(Put(name.clone(), Vec::new())),
        }
        if closing && marked {
            records.push(Gone(open));
            marked = false;
        }
        locked.add_and_keep(records)?;
        if closing && log.reserved_inside > inline.end().next_multiple_of(BLOCK) {
            // If that fails, the space is freed with the file.
            let _ = locked.give_back();
        }
        locked.close()?;
        // Marks used some of the space: the next write reserves again.
        (log.reserved, log.reserved_inside) = (0, if closing { 0 } else { log.reserved_inside });
        (log.version, log.marked, log.dirty, log.owed, log.finished) = (version, marked, false, true, closing);
        if nothing {
            log.inside = None;
            return Ok(None);
        }
        log.last_mark = Some((name, published));
        if let (Some((object, _)), true) = (&log.inside, durable) {
            object.sync()?;
            log.owed = false;
        }
        if closing {
            log.inside = None;
        }
        Ok(Some(published))
    }

    /// As [`Session::give_up`], for an inline session.
    pub(super) fn give_up_inside(&self, log: &mut Log, inline: &InlineObject) -> Result<()> {
        use tail::Record::{Became, Gone};
        let (open, data) = (marks::open_name(self.home), data_name(&self.home, 0));
        let locked = inline.lock()?;
        let mut records: Vec<tail::Record> =
            [open].into_iter().filter(|name| self.place.is_inside(name)).map(Gone).collect();
        // The inline object shows whether a mark exists whose write failed.
        let names = inline.names();
        match marks::read(&names)?.into_iter().find(|mark| mark.home.session == self.home.session) {
            Some(Mark { published: Some(p), .. }) if !p.closed => {
                let named = |p: &Published| marks::published_name(self.home, p);
                records.push(Became(named(&p), named(&Published { closed: true, ..p })));
            }
            Some(Mark { published: Some(_), .. }) => {}
            _ => records.extend([data].into_iter().filter(|name| self.place.is_inside(name)).map(Gone)),
        }
        match records.is_empty() {
            true => Ok(()),
            false => locked.add(records),
        }?;
        log.inside = None;
        Ok(())
    }
}
