//! The write side of an output: a request is resolved once, then its block goes to the pack.
//!
//! [`Output::put`] takes a whole [`WriteRequest`]. A caller with an address but no length, such as a C program, calls the two
//! halves: [`Output::resolve`] returns the size of the block, [`Resolved::write`] writes it.

use super::request::{self, BlockBox, Values, VariableKey, WriteRequest};
use super::{Output, level_of, no_variable, stored};
use crate::boxes::BoxKey;
use crate::ending::through;
use crate::opening::Ends;
use crate::resolve;
use crate::steering;
use crate::transform;
use std::sync::Arc;
use thalweg_bp::rows::Rows;
use thalweg_bp::wire::check_str16;
use thalweg_comm::guarded::caught;
use thalweg_comm::in_calls;
use thalweg_movement::pack::{Earlier, WORTH_A_CHUNK};
use thalweg_movement::{BlockSpec, transformed};
use thalweg_schema::HostLanguage;
use thalweg_transform::Spec;
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, MemorySelection, Result, Value};

/// Copying less than a page costs less than a separate piece of the write.
const SMALL: usize = 4096;

/// A resolved write request: everything but the values is known, and dimensions are numbers. It borrows its output until the
/// write.
pub struct Resolved<'o, 'r, 'a> {
    output: &'o mut Output<'a>,
    /// Position in the group.
    at: usize,
    /// Full name, as declared.
    full: String,
    /// The block, without its value.
    spec: BlockSpec,
    memory: Option<&'r MemorySelection>,
    /// Bytes of the block; `None` for text.
    block_bytes: Option<u64>,
    may_defer: bool,
    /// How often its group defines a scalar or text of this name.
    definitions: usize,
}

impl<'a> Output<'a> {
    /// Writes one block of a variable, a scalar or a text. Not collective; any rank may omit a variable, or write it several
    /// times: blocks of different boxes, and all blocks of a local or joined array, are separate; of a scalar, a text, or the
    /// same box of a global array the last value is stored. A scalar or text that its group defines several times is as many
    /// blocks, in the order of the writes; later writes replace the last one.
    ///
    /// # Errors
    /// `NotFound` for an unknown variable; `InvalidArgument` for a wrong number of bytes, a dimension not written yet, or a box
    /// or memory selection with another number of dimensions; `OutOfBounds` if the block exceeds the array or the memory;
    /// `Unsupported` if the block would replace one that is in storage already and has another length: nothing is lost, the call
    /// may be repeated. A failure of the store is returned here, and again, on all ranks, by close; this rank's part of the step
    /// is then lost.
    /// # Cost
    /// One lock of the group; dimensions are resolved once. Statistics, checksum and copy need one pass over the values, also
    /// with a memory selection, which gives the same file bytes.
    pub fn put(&mut self, request: WriteRequest<'_, 'a>) -> Result<()> {
        // Of outputs in flight.
        in_calls::move_messages();
        let WriteRequest { variable, values, place, memory } = request;
        self.resolve(variable, place, memory)?.write(values)
    }

    /// Writes one contiguous block at its declared position: [`Output::put`] without a box, a memory selection or deferral.
    /// `data` is free when this returns.
    ///
    /// # Errors
    /// As [`Output::put`].
    pub fn write(&mut self, name: &str, data: &[u8]) -> Result<()> {
        self.put(WriteRequest::new(name, data))
    }

    /// Writes one block from memory that the output keeps until the block is written, with `async=yes` until the output has ended:
    /// nothing is copied. Of memory that is longer than the block, the first bytes are its values.
    ///
    /// - `memory`: of [`crate::Session::alloc`], or any that nobody changes any more.
    ///
    /// # Errors
    /// As [`Output::put`].
    /// # Cost
    /// Arrays with a transform, texts, scalars, and blocks below 256 KiB are copied, and the memory is dropped at once.
    pub fn commit<'k, M>(
        &mut self,
        variable: impl Into<VariableKey<'k>>,
        place: Option<BlockBox>,
        memory: M,
    ) -> Result<()>
    where
        M: AsRef<[u8]> + Send + 'static,
    {
        in_calls::move_messages();
        self.resolve(variable, place, None)?.commit(memory).map_err(|(e, _)| e)
    }

    /// As [`Output::write`], with values of a number type of the variable's size.
    ///
    /// # Errors
    /// As [`Output::put`].
    pub fn write_values<T: bytemuck::NoUninit>(&mut self, name: &str, values: &[T]) -> Result<()> {
        self.write(name, bytemuck::cast_slice(values))
    }

    /// Resolves a write request without its values: the position of the variable, and the shape and box of the block.
    ///
    /// - `place`: box of the block; `None`: as the declared dimensions specify.
    /// - `memory`: offset of the block in the larger array of the values; `None`: the values are the block.
    ///
    /// # Errors
    /// As [`Output::put`], except errors of the values. Nothing is written.
    pub fn resolve<'o, 'r, 'k>(
        &'o mut self,
        variable: impl Into<VariableKey<'k>>,
        place: Option<BlockBox>,
        memory: Option<&'r MemorySelection>,
    ) -> Result<Resolved<'o, 'r, 'a>> {
        let declared = Arc::clone(&self.group);
        let mut declared = declared.lock();
        let variables = &declared.builder.group().variables;
        let at = match variable.into() {
            VariableKey::Position(at) => at,
            VariableKey::Name(name) => {
                self.names.position(variables, name).map_err(|e| e.in_group(self.group_name.clone()))?
            }
        };
        let moved = match (self.paths.get(&at).or(self.path.as_ref()), variables.get(at)) {
            (Some(path), Some(variable)) if *path != variable.path => {
                let full = thalweg_schema::full_name(path, &variable.name);
                Some((declared.builder.variable_id(&full), path.as_str()))
            }
            _ => None,
        };
        let group = declared.builder.group();
        let variable = group.variables.get(at).ok_or_else(|| no_variable(at))?;
        let (id, path) = moved.unwrap_or((variable.id, &variable.path));
        let failed = |e: Error| e.in_variable(variable.full_name()).in_group(self.group_name.clone());
        let shape = request::shape(variable, place, group, &self.scalars).map_err(failed)?;
        let block_bytes = resolve::block_bytes(variable, shape.as_ref().map(|s| s.local.as_slice())).map_err(failed)?;
        let (path, name) = stored(path, &variable.name);
        let level = match self.levels.is_empty() {
            true => None,
            false => self.levels.get(&(path.to_string(), name.to_string())).copied(),
        };
        let spec = BlockSpec {
            id,
            name: name.into(),
            path: path.into(),
            element: variable.element,
            is_dimension: variable.is_dimension,
            shape,
            level: level.unwrap_or_else(|| level_of(variable, group)),
            value: None,
            transform: None,
        };
        let (full, may_defer) = (variable.full_name(), !variable.copy_on_write);
        let definitions = match spec.shape {
            None => self.names.definitions(&group.variables, &full),
            Some(_) => 1,
        };
        Ok(Resolved { output: self, at, full, spec, memory, block_bytes, may_defer, definitions })
    }

    fn put_copied(&mut self, at: usize, spec: BlockSpec, rows: Rows<'_>) -> Result<()> {
        match self.transform_of(at, &spec)? {
            None => self.pack_copied(spec, rows),
            Some(transform) => {
                let name = spec.name.clone();
                let fortran = self.methods.first().is_some_and(|active| active.header.fortran);
                let changed = transformed::apply(&self.shared.pool, &transform, spec, fortran, rows)
                    .map_err(|e| e.in_variable(&*name).in_group(self.group_name.clone()))?;
                self.pack_copied(changed.spec.clone(), changed.rows())
            }
        }
    }

    /// The transform of an array.
    fn transform_of(&mut self, at: usize, spec: &BlockSpec) -> Result<Option<Arc<Spec>>> {
        if spec.shape.is_none() || !self.pack.is_process_group() {
            return Ok(None);
        }
        if let Some(known) = self.transforms.get(&at) {
            return Ok(known.clone());
        }
        let parsed = match self.group.lock().builder.group().variables.get(at) {
            Some(variable) => transform::chosen(variable).map_err(|e| e.in_group(self.group_name.clone()))?.spec,
            None => None,
        };
        let parsed = parsed.map(Arc::new);
        self.transforms.insert(at, parsed.clone());
        Ok(parsed)
    }

    fn pack_copied(&mut self, spec: BlockSpec, rows: Rows<'_>) -> Result<()> {
        let key = self.boxes.key(&spec);
        if self.supersedes(key.as_ref(), &spec, &rows)? {
            return Ok(());
        }
        let bytes = rows.len() as u64;
        // Most arrays are small: the length of their head is not needed to see that.
        let large = spec.shape.is_some() && self.writes_at_once(bytes) && self.goes_at_once(&spec, bytes);
        if large || !self.copies(&spec, &rows)? {
            self.through(spec, rows)?;
        }
        self.boxes.note_last(key, &self.pack);
        Ok(())
    }

    /// Copies a block into the buffer; in an output that ends in the background, statistics are computed there. Where the limit leaves no
    /// room, outputs that end in the background wait until earlier ones have
    /// ended. `false` if there is no room then, either.
    fn copies(&mut self, spec: &BlockSpec, rows: &Rows<'_>) -> Result<bool> {
        let in_background = self.methods.iter().any(|active| active.ends == Ends::InBackground);
        loop {
            let copied = match in_background {
                true => self.pack.copy_to_write_later(spec, rows.clone())?,
                false => self.pack.copy(spec, rows.clone())?,
            };
            if copied {
                return Ok(true);
            }
            if !in_background {
                return Ok(false);
            }
            if !self.shared.in_flight.wait_for_memory(self.timeout) {
                self.exceeds_buffer = true;
                thalweg_warnings::tell_once(&format!(
                    "outputs of group \"{}\" exceed the buffer limit: they are written inside the program's calls, in spite of async=yes",
                    self.group_name
                ));
                return Ok(false);
            }
        }
    }

    fn put_deferred(&mut self, at: usize, spec: BlockSpec, rows: Rows<'a>) -> Result<()> {
        if spec.shape.is_none() || self.transform_of(at, &spec)?.is_some() {
            return self.put_copied(at, spec, rows);
        }
        let key = self.boxes.key(&spec);
        let superseded = match rows.are_long() {
            true => self.supersedes_deferred(key.as_ref(), &spec, &rows)?,
            false => self.supersedes(key.as_ref(), &spec, &rows)?,
        };
        if superseded {
            return Ok(());
        }
        let copied = (rows.len() < SMALL || !rows.are_long()) && self.copies(&spec, &rows)?;
        match copied {
            true => {}
            false if rows.are_long() => self.pack.defer(spec, rows)?,
            false => self.through(spec, rows)?,
        }
        self.boxes.note_last(key, &self.pack);
        Ok(())
    }

    fn check_usable(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(e) => Err(Error::new(e.kind(), "the output has failed already; close reports it to all ranks")),
        }
    }

    /// Records a failure of the store for close.
    pub(super) fn broken(&mut self, e: Error) -> Error {
        let e = e.at_rank(self.rank).in_group(self.group_name.clone());
        let copy = e.again();
        self.failed.get_or_insert(e);
        copy
    }

    /// Records that a block could not be written to storage.
    fn not_written(&mut self, e: Error, variable: &str) -> Error {
        let step = self.step();
        let file = self.methods.first().map(|active| active.path.clone());
        let e = file.into_iter().fold(e, Error::in_object).in_variable(variable).at_step(step);
        self.broken(match step {
            0 => e,
            1 => e.safe("step 0 is indexed and readable"),
            _ => e.safe(format!("steps 0..={} are indexed and readable", step - 1)),
        })
    }

    /// Replaces the block that this output has of the same variable and box; `false` if it has none, or none any more: the block
    /// is then added to the pack.
    fn supersedes(&mut self, key: Option<&BoxKey>, spec: &BlockSpec, rows: &Rows<'_>) -> Result<bool> {
        let Some(earlier) = key.and_then(|key| self.boxes.find(key)) else { return Ok(false) };
        let outcome = self.pack.supersede(earlier, spec, rows.clone());
        self.superseded(earlier, outcome, spec, rows)
    }

    /// As [`Output::supersedes`], for memory that stays unchanged.
    fn supersedes_deferred(&mut self, key: Option<&BoxKey>, spec: &BlockSpec, rows: &Rows<'a>) -> Result<bool> {
        let Some(earlier) = key.and_then(|key| self.boxes.find(key)) else { return Ok(false) };
        let outcome = self.pack.supersede_deferred(earlier, spec, rows.clone());
        self.superseded(earlier, outcome, spec, rows)
    }

    fn superseded(&mut self, earlier: usize, outcome: Earlier, spec: &BlockSpec, rows: &Rows<'_>) -> Result<bool> {
        match outcome {
            Earlier::Replaced => Ok(true),
            Earlier::Withdrawn => {
                self.boxes.withdrawn(earlier);
                self.joins.withdrawn(earlier);
                Ok(false)
            }
            Earlier::Stored => {
                let reach = self.pack.reached();
                let place = |e: Error| e.in_variable(&*spec.name).in_group(self.group_name.clone());
                self.pack.check_overwrites(earlier, spec, rows.clone()).map_err(place)?;
                let mut go = || {
                    let to = through(&mut self.methods, &reach)?;
                    self.pack.overwrite_stored(earlier, spec.clone(), rows.clone(), &to)
                };
                go().map_err(|e| self.not_written(e, &spec.name))?;
                Ok(true)
            }
        }
    }

    /// Whether an array of so many bytes is written immediately from the program's memory, as [`Values::Copied`] too: then nothing is
    /// gained by deferring it.
    pub fn writes_at_once(&self, bytes: u64) -> bool {
        let mut reach = self.pack.reached();
        reach.length = reach.length.saturating_add(bytes);
        self.methods.iter().all(|active| active.at_once(&reach).is_some_and(|least| bytes >= least))
    }

    /// Whether all methods write such a block immediately.
    fn goes_at_once(&self, spec: &BlockSpec, bytes: u64) -> bool {
        let reach = self.pack.reach(spec, bytes);
        self.methods.iter().all(|active| active.at_once(&reach).is_some_and(|least| bytes >= least))
    }

    fn through(&mut self, spec: BlockSpec, data: Rows<'_>) -> Result<()> {
        let name = spec.name.clone();
        let reach = self.pack.reach(&spec, data.len() as u64);
        let go = || {
            let to = through(&mut self.methods, &reach)?;
            self.pack.through(spec, data, &to)
        };
        go().map_err(|e| self.not_written(e, &name))
    }
}

impl<'a> Resolved<'_, '_, 'a> {
    /// Bytes of the values for [`Resolved::write`]: of the block or, with a memory selection, of the larger array; `None` for a
    /// text, which has its own length.
    ///
    /// # Errors
    /// `OutOfBounds` for more than 2^64 bytes of memory.
    pub fn bytes(&self) -> Result<Option<u64>> {
        let Some(memory) = self.memory else { return Ok(self.block_bytes) };
        let too_large = || Error::new(ErrorKind::OutOfBounds, "an array of more than 2^64 bytes in memory");
        memory
            .elements()?
            .checked_mul(self.spec.element.size())
            .map(Some)
            .ok_or_else(too_large)
            .map_err(|e| self.place(e))
    }

    /// Position of the variable in its group, from 0.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Full name of the variable.
    pub fn name(&self) -> &str {
        &self.full
    }

    /// Type of the variable.
    pub fn element(&self) -> ElementType {
        self.spec.element
    }

    /// Whether the schema promises that the memory of the variable stays unchanged until close (`copy-on-write="no"`).
    pub fn may_defer(&self) -> bool {
        self.may_defer
    }

    fn place(&self, e: Error) -> Error {
        e.in_variable(self.full.as_str()).in_group(self.output.group_name.clone())
    }

    /// Writes the block.
    ///
    /// # Errors
    /// As [`Output::put`].
    pub fn write(self, values: Values<'_, 'a>) -> Result<()> {
        let Resolved { output, at, full, spec, memory, block_bytes, may_defer, definitions } = self;
        let resolved = Resolved { output: &mut *output, at, full, spec, memory, block_bytes, may_defer, definitions };
        // After a panic the state of the block is unknown: this rank's part is lost, and close reports it on all ranks.
        let written = caught("write the block", || Ok(resolved.put(values)));
        written.unwrap_or_else(|panicked| Err(output.broken(panicked)))
    }

    /// As [`Output::commit`].
    ///
    /// # Errors
    /// As [`Output::put`]. The memory is returned, except after a panic.
    pub fn commit<M>(self, memory: M) -> std::result::Result<(), (Error, Option<M>)>
    where
        M: AsRef<[u8]> + Send + 'static,
    {
        let Resolved { output, at, full, spec, memory: selection, block_bytes, may_defer, definitions } = self;
        let resolved =
            Resolved { output: &mut *output, at, full, spec, memory: selection, block_bytes, may_defer, definitions };
        match caught("write the block", || Ok(resolved.give(memory))) {
            Ok(given) => given.map_err(|(e, memory)| (e, Some(memory))),
            Err(panicked) => Err((output.broken(panicked), None)),
        }
    }

    fn give<M>(mut self, memory: M) -> std::result::Result<(), (Error, M)>
    where
        M: AsRef<[u8]> + Send + 'static,
    {
        let length = match self.bytes() {
            Ok(block) => block.map_or(usize::MAX, |block| usize::try_from(block).unwrap_or(usize::MAX)),
            Err(e) => return Err((e, memory)),
        };
        let bytes = memory.as_ref();
        let rows = match self.rows(&bytes[..bytes.len().min(length)]) {
            Ok(Some(rows)) => rows,
            Ok(None) => return Ok(()),
            Err(e) => return Err((e, memory)),
        };
        let Resolved { output, at, spec, .. } = self;
        let _here = output.working();
        let is_whole = spec.shape.is_some() && rows.len() == length && rows.as_one().is_some();
        let copies = match output.transform_of(at, &spec) {
            Ok(transform) => transform.is_some() || !is_whole || (rows.len() as u64) < WORTH_A_CHUNK,
            Err(e) => return Err((e, memory)),
        };
        if copies {
            return output.put_copied(at, spec, rows).map_err(|e| (e, memory));
        }
        let key = output.boxes.key(&spec);
        match output.supersedes(key.as_ref(), &spec, &rows) {
            Ok(true) => return Ok(()),
            Ok(false) => drop(rows),
            Err(e) => return Err((e, memory)),
        }
        output.pack.give(spec, memory, length)?;
        output.boxes.note_last(key, &output.pack);
        Ok(())
    }

    fn put(mut self, values: Values<'_, 'a>) -> Result<()> {
        // The two arms are alike, because the rows of each live as long as its values.
        match values {
            Values::Copied(data) => {
                let Some(rows) = self.rows(data)? else { return Ok(()) };
                let Resolved { output, at, spec, .. } = self;
                let _here = output.working();
                output.put_copied(at, spec, rows)
            }
            Values::Deferred(data) => {
                let Some(rows) = self.rows(data)? else { return Ok(()) };
                let Resolved { output, at, spec, .. } = self;
                let _here = output.working();
                output.put_deferred(at, spec, rows)
            }
        }
    }

    /// Position of the block's bytes in `data`; `None` if nothing of the block is wanted. Records the value of a scalar, and the block's kind
    /// and position.
    fn rows<'d>(&mut self, data: &'d [u8]) -> Result<Option<Rows<'d>>> {
        let mut rows = match self.memory {
            Some(memory) => self.rows_in_memory(data, memory).map_err(|e| self.place(e))?,
            None => match self.block_bytes {
                Some(expected) if expected != data.len() as u64 => {
                    let what = format!("{} bytes were given, its dimensions need {expected}", data.len());
                    return Err(self.place(Error::new(ErrorKind::InvalidArgument, what)));
                }
                _ => Rows::from(data),
            },
        };
        if self.spec.shape.is_none() {
            if self.spec.element == ElementType::String {
                check_str16(data, "a string").map_err(|e| self.place(e))?;
            }
            self.spec.value = Value::from_bytes(self.spec.element, data, ByteOrder::NATIVE);
            if let Some(value) = &self.spec.value {
                match self.output.scalars.get_mut(&self.full) {
                    Some(known) => known.clone_from(value),
                    None => drop(self.output.scalars.insert(self.full.clone(), value.clone())),
                }
            }
        }
        if self.output.unwanted {
            return self.output.check_usable().map(|()| None);
        }
        if let Some(steered) = &self.output.steered {
            steered.note(&self.full, self.spec.element, &rows);
        }
        let mut whole = None;
        if self.output.settings.is_some() {
            whole = self.output.record.is_some().then(|| self.spec.clone());
            if !self.cut(data, &mut rows)? {
                if let (Some(record), Some(whole)) = (&mut self.output.record, &whole) {
                    record.note(whole);
                }
                return self.output.check_usable().map(|()| None);
            }
        }
        let output = &mut *self.output;
        let number = output.pack.block_count();
        let noted = output.joins.note(&self.full, &self.spec.path, self.spec.shape.as_ref(), number);
        noted.and_then(|()| output.boxes.check_kind(&self.spec)).map_err(|e| self.place(e))?;
        if self.spec.shape.is_none() {
            self.output.boxes.defined(&self.spec, self.definitions);
        }
        if let Some(record) = &mut self.output.record {
            record.note(whole.as_ref().unwrap_or(&self.spec));
        }
        self.output.check_usable()?;
        Ok(Some(rows))
    }

    /// Reduces the block to what is wanted of it; `false` if nothing is.
    fn cut<'d>(&mut self, data: &'d [u8], rows: &mut Rows<'d>) -> Result<bool> {
        let (Some(settings), Some(shape)) = (&self.output.settings, &mut self.spec.shape) else { return Ok(true) };
        if !settings.writes(&self.full) {
            return Ok(false);
        }
        let Some(region) = settings.region.as_ref().filter(|_| steering::may_cut(shape)) else { return Ok(true) };
        let fortran = *self.output.shared.language.lock() == HostLanguage::Fortran;
        let Some(part) = region.part(&shape.offset, &shape.local, fortran) else { return Ok(false) };
        if part.count == shape.local {
            return Ok(true);
        }
        let memory = match self.memory {
            None => MemorySelection::new(shape.local.clone(), part.start),
            Some(memory) => {
                let start = memory.start.iter().zip(&part.start).map(|(a, b)| a + b).collect::<Vec<u64>>();
                MemorySelection::new(memory.shape.clone(), start)
            }
        };
        (shape.local, shape.offset) = (part.count, part.offset);
        *rows = self.rows_in_memory(data, &memory).map_err(|e| self.place(e))?;
        Ok(true)
    }

    fn rows_in_memory<'d>(&self, data: &'d [u8], memory: &MemorySelection) -> Result<Rows<'d>> {
        let Some(shape) = &self.spec.shape else {
            let what = "a place in memory is for arrays; this is a single value";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        };
        let size = self.spec.element.size();
        match *self.output.shared.language.lock() {
            HostLanguage::Fortran => {
                let slowest_first: Vec<u64> = shape.local.iter().rev().copied().collect();
                Rows::in_memory(data, &memory.reversed(), &slowest_first, size)
            }
            HostLanguage::C => Rows::in_memory(data, memory, &shape.local, size),
        }
    }
}
