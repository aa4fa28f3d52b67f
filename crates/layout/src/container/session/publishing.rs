//! Publishing a session: data first, then the index, then the mark with the lengths; its end, also after a failure.

use super::super::marks::{self, Home, Mark, Published};
use super::super::objects::{appears_early, moved, put_new_as, remove_if_there};
use super::super::place::{Place, data_name};
use super::super::tail;
use super::{Log, Session};
use thalweg_store::Visible;
use thalweg_types::{Error, ErrorKind, Result};

impl Session {
    /// Publishes everything written, durable if `durable`. Returns the mark's fields; `None` if nothing is new.
    pub fn publish(&self, log: &mut Log, durable: bool, closing: bool) -> Result<Option<Published>> {
        if !log.started || log.finished || !(log.dirty || closing || (durable && log.owed)) {
            return Ok(None);
        }
        if let Some(why) = &log.broken {
            return Err(Error::new(ErrorKind::Io, format!("bytes written since the last sync are lost: {why}")));
        }
        if let Some(inline) = self.place.inline.as_ref().filter(|_| log.inside.is_some()) {
            return self.publish_inside(log, inline, durable, closing);
        }
        if closing && self.place.stamp.packed {
            if self.has_nothing(log) {
                return self.end_without_writes(log);
            }
            if !durable && self.can_pack(log) {
                return self.publish_packed(log).map(Some);
            }
        }
        let visible = self.store()?.capability().visible;
        let something = log.end > 0 || !log.buffer.is_empty();
        if something && (closing || visible == Visible::AtClose) {
            self.end_of_log(log);
        }
        match self.flush(log) {
            // No space for the end record: the mark gives the end of the log.
            Err(e) if e.kind() == ErrorKind::NoSpace && closing && log.is_ended() => log.buffer.clear(),
            flushed => flushed?,
        }
        self.sync_data(log, durable || (visible == Visible::AtSync && !closing))?;
        match self.write_blocks(log) {
            Err(e) if e.kind() == ErrorKind::NoSpace && closing && log.broken.is_none() => self.do_without_index(log),
            written => written?,
        }
        if let (Some(index), true) = (&log.index, durable || (visible == Visible::AtSync && !closing)) {
            index.sync()?;
        }
        if something {
            log.before = (log.end, log.index_end);
        }
        let mut segments = log.segment + u32::from(something);
        if something && (closing || visible == Visible::AtClose) {
            self.close_logs(log)?;
            log.next_segment();
            segments = log.segment;
        }
        let store = self.place.first();
        if durable {
            let store = self.store()?;
            for segment in &log.unsynced {
                store.sync_closed(&self.place.data(&self.home, *segment))?;
                store.sync_closed(&self.place.index(&self.home, *segment))?;
            }
            log.unsynced.clear();
            match log.rooted {
                true => self.store()?.sync_folder(&self.place.log_folder(self.home.folder))?,
                false => self.place.sync_logs(&self.home)?,
            }
            log.rooted = true;
        }
        log.version += 1;
        let published = Published {
            version: log.version,
            closed: closing,
            segments,
            data: log.before.0,
            index: log.before.1,
            summary: log.summary,
            time: log.time,
        };
        let (folder, name) = (self.place.marks(), marks::published_name(self.home, &published));
        if let Some(doubtful) = &log.doubtful {
            remove_if_there(&**store, &format!("{folder}/{doubtful}"))?;
        }
        log.doubtful = Some(name.clone());
        // If the store can, the old mark is renamed to the new one: at each moment one of them exists, and no space is
        // needed. The open mark is renamed too, and its lease kept, by a close or by a publish of writes without sync,
        // which a close usually follows. After a sync or a mere truncation the program usually writes on, so the open mark
        // stays.
        let old = log.last_mark.as_ref().map(|(old, _)| old.clone());
        let first = log.marked && log.mark.is_some() && (closing || (!durable && log.summary.bytes > 0));
        let becomes = old.clone().or_else(|| first.then(|| marks::open_name(self.home)));
        match becomes.filter(|from| appears_early(&**store) && !self.place.is_inside(from)) {
            Some(from) => {
                let renamed = moved(&**store, &format!("{folder}/{from}"), &format!("{folder}/{name}"));
                renamed.map_err(|e| if e.kind() == ErrorKind::NotFound { self.taken_for_dead(log) } else { e })?;
                log.last_mark = Some((name.clone(), published));
                log.doubtful = None;
                if old.is_none() {
                    (log.marked, log.leased_mark) = (false, log.mark.take());
                }
            }
            None => {
                let mode = log.guard.map_or(0o666, |guard| guard.object());
                put_new_as(&**store, &format!("{folder}/{name}"), &[], mode)?;
                log.doubtful = None;
                log.last_mark = Some((name.clone(), published));
                // A process that considered this writer dead has removed the missing mark.
                if let Some(old) = &old {
                    self.take_away(log, old, &name)?;
                }
            }
        }
        if durable {
            store.sync_folder(&folder)?;
        }
        (log.dirty, log.owed) = (false, !durable);
        // Without a lease other processes cannot know that this process lives: no open mark while everything is published.
        if (closing || log.mark.is_none()) && log.marked {
            match self.take_away(log, &marks::open_name(self.home), &name) {
                // The closed mark overrides the open one, which stays in the inline object of a file on a full store.
                Err(e) if closing && e.kind() == ErrorKind::NoSpace => {}
                taken => taken?,
            }
            log.marked = false;
            log.mark = None;
        }
        if closing {
            log.leased_mark = None;
            let inside = data_name(&self.home, 0);
            if self.place.is_inside(&inside) {
                // The complete log is stored elsewhere, and is the valid one.
                let _ = self.place.remove_if_there(&inside);
            }
            self.give_back_inside(log);
        }
        log.finished = closing;
        Ok(Some(published))
    }

    fn take_away(&self, log: &mut Log, old: &str, new: &str) -> Result<()> {
        match self.place.remove(old) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                self.place.remove_if_there(new)?;
                Err(self.taken_for_dead(log))
            }
            outcome => outcome,
        }
    }

    pub(super) fn taken_for_dead(&self, log: &mut Log) -> Error {
        let why = "another process took this writer for dead and closed its session with the published bytes";
        log.broken = Some(why.into());
        Error::new(ErrorKind::Io, why).safe("the bytes that it had published")
    }

    /// Writes and syncs everything without publishing, so that the later publish takes little time.
    pub fn hand_over(&self, log: &mut Log) -> Result<()> {
        self.flush(log)?;
        self.sync_data(log, true)?;
        self.write_blocks(log)
    }

    /// As [`Session::hand_over`], before a publish that makes the rest durable. Does nothing if the log is inline or its
    /// store does not show bytes at each write.
    pub fn begin_sync(&self, log: &mut Log) -> Result<()> {
        let writes = log.started && !log.finished && log.broken.is_none() && log.inside.is_none() && log.dirty;
        match writes && self.store()?.capability().visible == Visible::AtWrite {
            true => self.hand_over(log),
            false => Ok(()),
        }
    }

    /// If `wanted`, makes the written part of the data log durable, which also makes it visible on stores that show bytes
    /// at a sync.
    fn sync_data(&self, log: &mut Log, wanted: bool) -> Result<()> {
        if let (Some(data), true) = (&log.data, wanted && log.synced < log.end) {
            data.sync()?;
            (log.seen, log.synced) = (log.end, log.end);
        }
        Ok(())
    }

    /// Whether a durable publish creates objects in the folder of marks and syncs that folder.
    pub fn will_sync_marks(log: &Log) -> bool {
        log.started && !log.finished && log.inside.is_none() && (log.dirty || log.owed)
    }

    /// Ends a session that failed: the published part stays and is closed, the rest is removed as far as the store permits.
    /// Readers then report no missing bytes.
    pub fn give_up(&self, log: &mut Log) {
        if !log.started || log.finished {
            return;
        }
        log.finished = true;
        log.broken.get_or_insert_with(|| "it was given up".into());
        if let Some(inline) = self.place.inline.as_ref().filter(|_| log.inside.is_some()) {
            // If there is no space even for this record, `check` reports the session as a dead writer's.
            let _ = self.give_up_inside(log, inline);
            log.inside = None;
            return;
        }
        (log.data, log.index) = (None, None);
        // The list shows whether a mark exists whose creation failed.
        let own = || -> Result<Option<Mark>> {
            Ok(marks::read(&self.place.list()?)?.into_iter().find(|m| m.home.session == self.home.session))
        };
        if let Ok(Some(Mark { published: Some(p), .. })) = own()
            && !p.closed
        {
            let _ = close_mark(&self.place, self.home, &p);
        }
        let opened = self.place.remove_if_there(&marks::open_name(self.home));
        (log.mark, log.leased_mark) = (None, None);
        let Ok(mark) = own() else { return };
        if opened.is_err() || mark.as_ref().is_some_and(|m| !m.closed()) {
            return;
        }
        let Ok(store) = self.store() else { return };
        for k in mark.and_then(|m| m.published).map_or(0, |p| p.segments)..=log.segment {
            let _ = remove_if_there(&**store, &self.place.data(&self.home, k));
            let _ = remove_if_there(&**store, &self.place.index(&self.home, k));
        }
    }
}

/// Replaces the mark of a completely published session by a closed mark.
pub fn close_mark(place: &Place, home: Home, p: &Published) -> Result<()> {
    if let Some(inline) = place.inline.as_ref().filter(|_| place.is_inside(&marks::published_name(home, p))) {
        let closed = marks::published_name(home, &Published { closed: true, ..*p });
        return inline.lock()?.add(vec![tail::Record::Became(marks::published_name(home, p), closed)]);
    }
    let store = place.first();
    let named = |p: &Published| format!("{}/{}", place.marks(), marks::published_name(home, p));
    let (from, to) = (named(p), named(&Published { closed: true, ..*p }));
    if appears_early(&**store) && moved(&**store, &from, &to).is_ok() {
        return Ok(());
    }
    let mode = place.guard()?.map_or(0o666, |guard| guard.object());
    put_new_as(&**store, &to, &[], mode)?;
    remove_if_there(&**store, &from)
}
