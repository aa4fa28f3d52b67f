//! A reader adds the steps that a writer has appended, without opening the file again.
//!
//! A step record is read once and joined to the known entries: its cost does not depend on earlier steps. A full index replaces all
//! entries and costs as much as opening the file. Writers write one only when the entries have doubled, or if it is small compared with
//! the data (with `index=each`, after each output).

use super::*;
use thalweg_bp::growth::{self, Growth};
use thalweg_bp::index::Index;
use thalweg_bp::step_record::{self, StepRecord};
use thalweg_bp::{extension, live::Base};

impl Clone for Inner {
    fn clone(&self) -> Inner {
        Inner {
            layout: self.layout.clone(),
            path: self.path.clone(),
            data_path: self.data_path.clone(),
            file: self.file.clone(),
            live: self.live.clone(),
            order: self.order,
            status: self.status.clone(),
            variables: self.variables.clone(),
            attributes: self.attributes.clone(),
            objects: Mutex::new(self.objects.lock().clone()),
            cached_sets: Mutex::new(self.cached_sets.lock().clone()),
            fortran: self.fortran.clone(),
            groups: self.groups.clone(),
            block_records: self.block_records.clone(),
            ids: self.ids.clone(),
            assumed: self.assumed.clone(),
            data_length: self.data_length,
            reads: self.reads,
            digits: self.digits,
            without_checksum: self.without_checksum.clone(),
            series: Mutex::default(),
        }
    }
}

impl Reader {
    /// Adds the steps that were closed since the file was opened, and whether it was closed for good. Clones of this reader do not
    /// change.
    ///
    /// Returns whether anything is new.
    ///
    /// # Errors
    /// `NotFound` if the file was shortened meanwhile (steps were dropped) or created again. The steps known to this reader may
    /// be gone then.
    /// # Cost
    /// Without new steps, one request for the length and two short reads. A step costs the read of its record; if clones exist,
    /// all known facts about steps are copied first.
    pub fn catch_up(&mut self) -> Result<bool> {
        let file = self.0.file.now()?;
        let known = self.0.live.end;
        let place = |e: Error| e.in_object(self.0.path.clone());
        // A writer may be freeing the space just now: a partly freed record is completely freed at the next read.
        if file.length() < known || !(self.0.known_end_is_there(&file)? || self.0.known_end_is_there(&file)?) {
            return Err(place(self.0.lost()));
        }
        let growth = match growth::since(&file, known) {
            // An interrupted output was cut off just now: nothing is new.
            Err(_) if file.was_cut() => return Ok(false),
            growth => growth.map_err(place)?,
        };
        let Some(growth) = growth else {
            let finished = file.length() == known && self.is_marked(&file)?;
            let torn = file.length() - known;
            if !finished && self.0.live.torn == torn {
                return Ok(false);
            }
            let inner = Arc::make_mut(&mut self.0);
            inner.file = file;
            inner.live.torn = torn;
            if finished && let Some(extension) = inner.live.base.as_mut().and_then(|b| b.extension.as_mut()) {
                extension.finished = true;
            }
            inner.retell();
            return Ok(finished);
        };
        let inner = Arc::make_mut(&mut self.0);
        inner.file = file;
        let before = inner.live.end;
        inner.take_in(growth).map_err(|e| e.in_object(inner.path.clone()))?;
        Ok(inner.live.end != before)
    }

    /// The object that was opened.
    pub(crate) fn file(&self) -> &Object {
        &self.0.file
    }

    /// Whether the mark of a file closed for good was set since.
    fn is_marked(&self, file: &Object) -> Result<bool> {
        let live = &self.0.live;
        let extension = live.base.as_ref().filter(|_| live.step_records.is_empty()).and_then(|b| b.extension.as_ref());
        match extension {
            Some(e) if !e.finished => {
                let state: [u8; 8] = source::array(file, extension::state_offset(e.extent))?;
                Ok(&state == extension::FINISHED)
            }
            _ => Ok(false),
        }
    }
}

impl Inner {
    fn take_in(&mut self, growth: Growth) -> Result<()> {
        if let Some(base) = growth.base {
            self.replace_base(base)?;
        }
        for record in growth.records {
            match step_record::body(&self.file, &record, ByteOrder::NATIVE) {
                Ok(body) => self.add_step(record, &body)?,
                // Its end exists before its body, as some filesystems show bytes that are being written.
                Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Torn) => break,
                Err(e) => return Err(e),
            }
        }
        self.live.torn = self.file.length().saturating_sub(self.live.end);
        self.retell();
        Ok(())
    }

    /// A full index holds all there is.
    fn replace_base(&mut self, base: Base) -> Result<()> {
        let base = Live { end: base.end, torn: 0, base: Some(base), steps: Index::default(), step_records: Vec::new() };
        let dropped = base.dropped_from().is_some_and(|start| start < self.live.end);
        if dropped || base.last_time() < self.live.last_time() {
            return Err(self.lost());
        }
        self.order = base.base.as_ref().map_or(self.order, |b| b.footer.order);
        self.live = base;
        self.variables = Names::of(&self.live, false, &self.live.steps.variables);
        self.attributes = Names::of(&self.live, true, &self.live.steps.attributes);
        self.status = status_of(
            &self.file,
            &self.live,
            self.order,
            &self.variables,
            &self.attributes,
            self.status.data_file.take(),
        );
        self.cached_sets = Mutex::default();
        self.fortran = OnceLock::new();
        self.groups = OnceLock::new();
        self.block_records = OnceLock::new();
        self.ids = OnceLock::new();
        Ok(())
    }

    /// The error if known steps do not exist any more.
    fn lost(&self) -> Error {
        let what = format!(
            "steps were dropped from the file, or it was created again: its last known step, {}, is not at byte {} \
             any more; open it again",
            self.live.step_count().saturating_sub(1),
            self.live.end
        );
        Error::new(ErrorKind::NotFound, what)
    }

    /// Whether the file still contains its last known end. A file closed for good may have freed its space, or a part of it:
    /// zeros.
    fn known_end_is_there(&self, file: &Object) -> Result<bool> {
        let live = &self.live;
        let (at, known) = match (live.step_records.last(), &live.base) {
            (Some(record), _) => (live.end - step_record::TAIL, record.tail()),
            (None, Some(Base { extension: Some(extension), .. })) => extension.lasting_tail(self.order),
            _ => return Ok(true),
        };
        let mut there = vec![0; known.len()];
        match file.read(at, &mut there) {
            Ok(()) => Ok(known.iter().zip(&there).all(|(known, there)| there == known || *there == 0)),
            Err(e) if matches!(e.kind(), ErrorKind::Torn | ErrorKind::OutOfBounds) => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn add_step(&mut self, record: StepRecord, body: &[u8]) -> Result<()> {
        let at = record.extent.offset;
        let mut step = Index::default();
        step.append_packed(&mut Cursor::new(body, ByteOrder::NATIVE, at))?;
        let no_files = self.live.base.is_none() && self.live.step_records.is_empty();
        self.live.steps.append_packed(&mut Cursor::new(body, ByteOrder::NATIVE, at))?;
        self.live.end = record.extent.offset + record.extent.length;
        self.live.step_records.push(record);
        if no_files {
            self.status.subfiles = self.live.subfiles().unwrap_or(false);
        }
        let cached = self.cached_sets.get_mut();
        let mut new_names = false;
        for (attributes, added, all, names) in [
            (false, &step.variables, &self.live.steps.variables, &mut self.variables),
            (true, &step.attributes, &self.live.steps.attributes, &mut self.attributes),
        ] {
            for entry in added.entries() {
                let place = all.place(&entry.path, &entry.name);
                let Some(number) = names.number_of(&entry.path, &entry.name) else {
                    names.add(&entry.group, &entry.path, &entry.name, entry.code, entry.count, (None, place));
                    new_names = true;
                    if !self.status.groups.contains(&entry.group) {
                        self.status.groups.push(entry.group.clone());
                        self.fortran = OnceLock::new();
                    }
                    continue;
                };
                names.heads[number].blocks = names.heads[number].blocks.saturating_add(entry.count);
                names.places[number].1 = place;
                let key = (attributes, number);
                if let Some(sets) = cached.sets.get_mut(&key) {
                    cached.weight += Arc::make_mut(sets).extend(entry)?;
                }
            }
        }
        if new_names {
            self.ids = OnceLock::new();
        }
        if let Some(groups) = self.groups.get_mut() {
            let groups = Arc::make_mut(groups);
            groups.openings.add(step.records.get(Tag::Run), ByteOrder::NATIVE);
            groups.extended = true;
            groups.add(step.raw_process_groups())?;
        }
        if let Some(known) = self.block_records.get_mut() {
            known.add(&step.records, ByteOrder::NATIVE)?;
        }
        self.status.add_records(&step.records, ByteOrder::NATIVE, &self.live);
        Ok(())
    }

    /// Updates the fields that follow from the live end alone.
    fn retell(&mut self) {
        let (live, status) = (&self.live, &mut self.status);
        status.steps = u64::from(live.step_count());
        status.finished = live.finished();
        status.torn_bytes = live.torn;
        status.process_groups = live.base.as_ref().map_or(0, |b| b.process_groups) + live.steps.process_group_count();
        status.extended = live.base.as_ref().is_none_or(|b| b.extension.is_some()) || !live.step_records.is_empty();
        status.step_records = live.step_records.len() as u64;
        status.length = self.file.length();
    }
}
