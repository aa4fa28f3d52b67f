//! An output: one step of a group being written, from open to close.
//!
//! `write` returns with the caller's memory free again. [`Output::write_deferred`] is for memory that stays unchanged
//! until close: nothing is copied. Close commits: when it returns, the step is readable.

use crate::boxes::{Boxes, Place};
use crate::joined::{self, Joins};
use crate::registry;
use crate::resolve::{self, Scalars};
use crate::session::{DeclaredGroup, Shared, lock};
use crate::transform;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use thalweg_bp::process_group::Header;
use thalweg_bp::rows::Rows;
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::Level;
use thalweg_bp::wire::{LONGEST_STRING, check_str16};
use thalweg_comm::Communicator;
use thalweg_movement::events::Event;
use thalweg_movement::method::{Finished, STORES_NOTHING};
use thalweg_movement::output_file::levels::ArrayLevel;
use thalweg_movement::pack::{AttributeSpec, Earlier, Through};
use thalweg_movement::{BlockSpec, Closed, Method, Mode, OpenRequest, Pack, transformed};
use thalweg_profile::{About, Phase, Taking, Working};
use thalweg_schema::{AttributeSource, Group, HostLanguage, MethodChoice, Statistics, Variable};
use thalweg_transform::Spec;
use thalweg_types::{AttributeValue, ByteOrder, ElementType, Error, ErrorKind, MemoryBox, Result, Value};

struct Way {
    method: Box<dyn Method>,
    /// It writes files.
    stores: bool,
    header: Header,
    /// The time index of step 0.
    first_time: u32,
    path: String,
}

impl Way {
    /// The step, from 0.
    fn step(&self) -> u64 {
        u64::from(self.header.time_index.saturating_sub(self.first_time))
    }
}

/// A profile that is taken of the output.
struct Profiled {
    taking: Taking,
    /// Run id of the first method's file.
    run: u64,
    is_new: bool,
}

/// A step being written. `'a` is how long deferred memory stays unchanged: at least until close.
pub struct Output<'a> {
    shared: Arc<Shared>,
    profile: Option<Profiled>,
    group_name: String,
    group: Arc<Mutex<DeclaredGroup>>,
    ways: Vec<Way>,
    pack: Pack<'a>,
    comm: Box<dyn Communicator>,
    scalars: Scalars,
    /// Positions of a group's variables by full name and by bare name, as of so many variables.
    names: HashMap<String, Vec<usize>>,
    named: usize,
    failed: Option<Error>,
    /// Arrays of which the file records other statistics than declared, by path and name: blocks follow the file.
    levels: HashMap<(String, String), Level>,
    /// Paths that stand in for the declared ones: for all variables, and by position.
    path: Option<String>,
    paths: HashMap<usize, String>,
    /// Where the next block of the variable at this position lies.
    next_box: Option<(usize, Shape)>,
    joins: Joins,
    boxes: Boxes,
    /// Transforms by position, of variables written so far.
    transforms: HashMap<usize, Option<Arc<Spec>>>,
}

/// What all ranks agree on first, see [`decline`].
pub(crate) const OPENING: &str = "open the file";

/// Collective, on a rank that cannot take part in the open that the others of `comm` are in, because its own program
/// called with arguments that make no sense: they get the kind of `cause` instead of waiting. Returns `cause`.
pub fn decline(comm: &dyn Communicator, cause: Error) -> Error {
    let kind = cause.kind();
    joined::agree_on_open(comm, Err(cause), OPENING, &[], false).err().unwrap_or_else(|| Error::new(kind, "declined"))
}

impl<'a> Output<'a> {
    pub(crate) fn open(
        shared: Arc<Shared>,
        group_name: &str,
        declared: Result<Arc<Mutex<DeclaredGroup>>>,
        path: &str,
        mode: Mode,
        comm: Box<dyn Communicator>,
        run: u64,
    ) -> Result<Output<'a>> {
        let begins = Instant::now();
        let mut is_wanted = false;
        let prepared = declared.and_then(|group| {
            let choices = lock(&group).all_methods();
            if choices.is_empty() {
                return Err(Error::new(
                    ErrorKind::Config,
                    format!("group \"{group_name}\" has no method; NULL writes nothing"),
                ));
            }
            is_wanted = choices.iter().any(registry::is_profiled);
            registry::check_together(&choices)?;
            // What a document says is told when it is read, with its place.
            if comm.rank() == 0 {
                choices
                    .iter()
                    .filter_map(|c| too_low(c, shared.pool.limit()?))
                    .for_each(|text| thalweg_warnings::tell_once(&text));
            }
            for choice in choices.iter().filter(|c| c.source.is_none() && comm.rank() == 0) {
                registry::check(choice)?.iter().for_each(|text| thalweg_warnings::tell_once(text));
            }
            let made: Result<Vec<_>> =
                choices.iter().map(|c| registry::make(c).map(|(kind, m)| (c.clone(), kind, m))).collect();
            Ok((group, made?))
        });
        let joined = prepared.as_ref().map_or(Vec::new(), |(group, _)| joined::arrays(lock(group).builder.group()));
        // A mistake that only some ranks make must not leave the others waiting.
        let (prepared, outcome) = match prepared {
            Ok(prepared) => (Some(prepared), Ok(())),
            Err(e) => (None, Err(e.in_group(group_name))),
        };
        let wanted = shared.profiled || is_wanted;
        let meets = Instant::now();
        let profiled = joined::agree_on_open(&*comm, outcome, OPENING, &joined, wanted)?;
        let (mut profile, opening, comm, layout) = match profiled {
            true => {
                let begun = Taking::begin(comm, shared.layout.clone(), begins, meets, run);
                (Some(begun.taking), Some(begun.opening), begun.comm, begun.layout)
            }
            false => (None, None, comm, shared.layout.clone()),
        };
        let here = profile.as_ref().map(|p| p.recorder().work());
        let Some((group, made)) = prepared else {
            return Err(Error::new(ErrorKind::InvalidArgument, "no method is ready"));
        };
        let named = made.iter().filter(|(_, kind, _)| kind.id != STORES_NOTHING);
        let methods = named.map(|(choice, kind, _)| (kind.id, parameter_text(choice))).collect();
        let base = Header {
            group: group_name.to_string(),
            fortran: *lock(&shared.language) == HostLanguage::Fortran,
            time_name: String::new(),
            time_index: 0,
            methods,
        };
        let arrays = if comm.rank() == 0 && mode != Mode::Write { arrays_of(&group) } else { Vec::new() };
        let mut levels: HashMap<(String, String), Level> = HashMap::new();
        let mut ways = Vec::new();
        let mut opened_run = run;
        for (choice, kind, mut method) in made {
            let path = join(&choice.base_path, path);
            let request = OpenRequest {
                comm: &*comm,
                layout: &layout,
                path: &path,
                group: group_name,
                mode,
                run,
                cache: &shared.cache,
                buffer: &shared.pool,
                arrays: &arrays,
            };
            let opened = method.open(&request).map_err(|e| e.in_group(group_name).at_rank(comm.rank()))?;
            if matches!(mode, Mode::Write | Mode::AppendAfter(_)) || opened.time_index == opened.first_time {
                // Nothing is in the file yet, or what was written last is no more.
                lock(&shared.written).remove(&written_key(&*method, &path));
            }
            for array in opened.levels {
                let other = levels.insert((array.path, array.name.clone()), array.level);
                if other.is_some_and(|other| other != array.level) {
                    // On all ranks, as all were told the same.
                    let what = "the files of two methods record different statistics of it; write new files";
                    return Err(Error::new(ErrorKind::Unsupported, what).in_variable(array.name).in_group(group_name));
                }
            }
            if ways.is_empty() {
                opened_run = opened.run;
            }
            let header = Header { time_index: opened.time_index, ..base.clone() };
            ways.push(Way { method, stores: registry::stores(kind), header, first_time: opened.first_time, path });
        }
        drop((opening, here));
        let profile = profile.take().map(|mut taking| {
            taking.opened();
            Profiled { taking, run: opened_run, is_new: mode == Mode::Write }
        });
        Ok(Output {
            profile,
            pack: Pack::new(shared.pool.clone(), &base),
            shared,
            group_name: group_name.to_string(),
            group,
            ways,
            comm,
            scalars: Scalars::new(),
            names: HashMap::new(),
            named: usize::MAX,
            failed: None,
            levels,
            path: None,
            paths: HashMap::new(),
            next_box: None,
            joins: Joins::new(joined),
            boxes: Boxes::default(),
            transforms: HashMap::new(),
        })
    }

    /// Says how many bytes this rank is about to write: memory is then taken in one piece. Optional.
    ///
    /// Returns these and what names, shapes and statistics add, in bytes.
    pub fn group_size(&mut self, bytes: u64) -> u64 {
        let variables = lock(&self.group).builder.group().variables.len() as u64;
        // A record's head has about 200 bytes for a 3-D array with statistics.
        let total = bytes.saturating_add(200 * variables + 256);
        // How small transformed blocks become is known when they are.
        if !lock(&self.group).builder.group().variables.iter().any(|v| !transform::name(v).is_empty()) {
            self.pack.expect(total);
        }
        total
    }

    /// The step that is being written, from 0, in the file of the group's first method.
    pub fn step(&self) -> u64 {
        self.ways.first().map_or(0, Way::step)
    }

    /// Writes all variables under this path from now on, whatever path was declared. They are still called by their
    /// declared names, also in dimensions.
    pub fn set_path(&mut self, path: &str) {
        self.path = Some(path.to_string());
        self.paths.clear();
    }

    /// As [`Output::set_path`], for one variable.
    ///
    /// # Errors
    /// `NotFound` for an unknown variable.
    pub fn set_path_of(&mut self, name: &str, path: &str) -> Result<()> {
        let at = self.position(name)?;
        self.paths.insert(at, path.to_string());
        Ok(())
    }

    /// Says where the next block of the variable at a position lies, whatever its dimensions say; for one write. For
    /// programs that have numbers rather than scalars for their dimensions.
    ///
    /// - `shape`: as many dimensions as the variable has, in the order it was declared with; global where that is.
    ///
    /// # Errors
    /// `NotFound` for an unknown position, `InvalidArgument` for another kind of shape, `OutOfBounds` where the block
    /// leaves the array.
    pub fn set_next_box(&mut self, at: usize, shape: Shape) -> Result<()> {
        let group = lock(&self.group);
        let variable = group.builder.group().variables.get(at).ok_or_else(|| no_variable(at))?;
        resolve::check_given(variable, &shape)
            .map_err(|e| e.in_variable(variable.full_name()).in_group(self.group_name.clone()))?;
        self.next_box = Some((at, shape));
        Ok(())
    }

    /// The position in the group of the variable that a program names: its full name, or its bare name where only one
    /// variable has it.
    ///
    /// # Errors
    /// `NotFound` with the nearest name, `InvalidArgument` where several variables are called so.
    pub fn position(&mut self, name: &str) -> Result<usize> {
        let group = lock(&self.group);
        let variables = &group.builder.group().variables;
        if self.named != variables.len() {
            self.names.clear();
            for (i, v) in variables.iter().enumerate() {
                let full = v.full_name();
                if full != v.name {
                    self.names.entry(v.name.clone()).or_default().push(i);
                }
                // A full name always wins over bare ones, and over later definitions of itself.
                self.names.entry(format!("\0{full}")).or_default().push(i);
            }
            self.named = variables.len();
        }
        for full in [name, &format!("/{name}")] {
            if let Some(found) = self.names.get(&format!("\0{full}")) {
                return Ok(found[0]);
            }
        }
        match self.names.get(name).map(Vec::as_slice) {
            Some([one]) => Ok(*one),
            Some(several) => {
                let full: Vec<String> = several.iter().map(|i| variables[*i].full_name()).collect();
                Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!("several variables are called so: {}", full.join(", ")),
                ))
            }
            None => {
                let known: Vec<String> = variables.iter().map(Variable::full_name).collect();
                let hint = thalweg_schema::report::nearest(name, known.iter().map(String::as_str))
                    .map_or(String::new(), |n| format!("; did you mean \"{n}\"?"));
                Err(Error::new(ErrorKind::NotFound, format!("the group has no such variable{hint}")))
            }
        }
        .map_err(|e| e.in_variable(name).in_group(self.group_name.clone()))
    }

    /// Bytes that a write of this variable takes now, from its dimensions; `None` for strings, which say themselves.
    pub fn expected_bytes(&mut self, name: &str) -> Result<Option<u64>> {
        let at = self.position(name)?;
        self.expected_bytes_of(at)
    }

    /// As [`Output::expected_bytes`], by position in the group.
    pub fn expected_bytes_of(&self, at: usize) -> Result<Option<u64>> {
        let group = lock(&self.group);
        let group = group.builder.group();
        let variable = group.variables.get(at).ok_or_else(|| no_variable(at))?;
        resolve::expected_bytes(variable, group, &self.scalars)
    }

    /// Whether the schema promises that this variable's memory stays unchanged until close (`copy-on-write="no"`).
    pub fn may_defer(&mut self, name: &str) -> Result<bool> {
        let at = self.position(name)?;
        self.may_defer_at(at)
    }

    /// As [`Output::may_defer`], by position.
    pub fn may_defer_at(&self, at: usize) -> Result<bool> {
        let group = lock(&self.group);
        group.builder.group().variables.get(at).map(|v| !v.copy_on_write).ok_or_else(|| no_variable(at))
    }

    /// Writes one block of a variable (or a scalar, or text): `data` holds its values in this machine's byte order. The
    /// memory is free when this returns. Not collective; a variable may be left out on any rank, or written several
    /// times: blocks of different boxes, and all of a local or joined array, stay several blocks; of a scalar, a text, or
    /// the same box of a global array the last value counts.
    ///
    /// # Errors
    /// `NotFound` for an unknown variable, `InvalidArgument` for a wrong number of bytes or a dimension not written yet,
    /// `Unsupported` where the block should take the place of one that is in storage already and has another length:
    /// nothing is lost, the call may be repeated. A failure of the store is reported here and again, to all ranks, by
    /// close; this rank's part of the step is then lost.
    pub fn write(&mut self, name: &str, data: &[u8]) -> Result<()> {
        let at = self.position(name)?;
        self.write_at(at, data)
    }

    /// As [`Output::write`], by position in the group.
    pub fn write_at(&mut self, at: usize, data: &[u8]) -> Result<()> {
        self.put(at, data, None)
    }

    /// Writes one block of an array out of a larger array in memory, as the inside of one with ghost zones: nothing is
    /// copied by the caller.
    ///
    /// - `data`: the whole larger array.
    /// - `memory`: its extents and where the block starts in it, in the order of dimensions of the program's language;
    ///   how many elements the block has, the group's dimensions say. A dimension that stands for time has no entry.
    ///
    /// # Errors
    /// As [`Output::write`]; `InvalidArgument` for a scalar or text, or another number of dimensions; `OutOfBounds`
    /// where the block leaves the memory.
    /// # Cost
    /// Statistics, checksum and copy are taken together, as for a block of one piece; the file is the same to the byte.
    pub fn write_from(&mut self, name: &str, data: &[u8], memory: &MemoryBox) -> Result<()> {
        let at = self.position(name)?;
        self.write_from_at(at, data, memory)
    }

    /// As [`Output::write_from`], by position in the group.
    pub fn write_from_at(&mut self, at: usize, data: &[u8], memory: &MemoryBox) -> Result<()> {
        self.put(at, data, Some(memory))
    }

    fn put(&mut self, at: usize, data: &[u8], memory: Option<&MemoryBox>) -> Result<()> {
        let (spec, rows) = self.spec(at, data, memory)?;
        self.put_block(at, spec, rows)
    }

    fn put_block(&mut self, at: usize, spec: BlockSpec, rows: Rows<'_>) -> Result<()> {
        self.check_usable()?;
        let _here = self.working();
        match self.transform_of(at, &spec)? {
            None => self.pack_it(spec, rows),
            Some(transform) => {
                let name = spec.name.clone();
                let fortran = self.ways.first().is_some_and(|w| w.header.fortran);
                let changed = transformed::apply(&self.shared.pool, &transform, spec, fortran, rows)
                    .map_err(|e| e.in_variable(&*name).in_group(self.group_name.clone()))?;
                self.pack_it(changed.spec.clone(), changed.rows())
            }
        }
    }

    /// The transform of an array.
    fn transform_of(&mut self, at: usize, spec: &BlockSpec) -> Result<Option<Arc<Spec>>> {
        if spec.shape.is_none() {
            return Ok(None);
        }
        if let Some(known) = self.transforms.get(&at) {
            return Ok(known.clone());
        }
        let parsed = match lock(&self.group).builder.group().variables.get(at) {
            Some(variable) => transform::chosen(variable).map_err(|e| e.in_group(self.group_name.clone()))?.spec,
            None => None,
        };
        let parsed = parsed.map(Arc::new);
        self.transforms.insert(at, parsed.clone());
        Ok(parsed)
    }

    fn pack_it(&mut self, spec: BlockSpec, rows: Rows<'_>) -> Result<()> {
        let place = Place::of(&spec);
        if self.supersedes(place.as_ref(), &spec, &rows)? {
            return Ok(());
        }
        let large = spec.shape.is_some() && self.goes_at_once(&spec, rows.len() as u64);
        if large || !self.pack.copy(&spec, rows.clone())? {
            self.through(spec, rows)?;
        }
        self.boxes.note_last(place, &self.pack);
        Ok(())
    }

    /// Writes one block whose memory stays unchanged until close: nothing is copied, no buffer is used.
    pub fn write_deferred(&mut self, name: &str, data: &'a [u8]) -> Result<()> {
        let at = self.position(name)?;
        self.write_deferred_at(at, data)
    }

    /// As [`Output::write_deferred`], by position in the group.
    pub fn write_deferred_at(&mut self, at: usize, data: &'a [u8]) -> Result<()> {
        self.put_deferred(at, data, None)
    }

    /// As [`Output::write_from`], out of an array that stays unchanged until close. Rows of less than 4 KiB are copied
    /// all the same: a list of them costs more.
    pub fn write_deferred_from(&mut self, name: &str, data: &'a [u8], memory: &MemoryBox) -> Result<()> {
        let at = self.position(name)?;
        self.write_deferred_from_at(at, data, memory)
    }

    /// As [`Output::write_deferred_from`], by position in the group.
    pub fn write_deferred_from_at(&mut self, at: usize, data: &'a [u8], memory: &MemoryBox) -> Result<()> {
        self.put_deferred(at, data, Some(memory))
    }

    fn put_deferred(&mut self, at: usize, data: &'a [u8], memory: Option<&MemoryBox>) -> Result<()> {
        // A copy of less than a page costs less than a piece of its own in the write.
        const SMALL: usize = 4096;
        let (spec, rows) = self.spec(at, data, memory)?;
        self.check_usable()?;
        let _here = self.working();
        if spec.shape.is_none() || self.transform_of(at, &spec)?.is_some() {
            return self.put_block(at, spec, rows);
        }
        let place = Place::of(&spec);
        let superseded = match rows.are_long() {
            true => self.supersedes_deferred(place.as_ref(), &spec, &rows)?,
            false => self.supersedes(place.as_ref(), &spec, &rows)?,
        };
        if superseded {
            return Ok(());
        }
        let copied = (rows.len() < SMALL || !rows.are_long()) && self.pack.copy(&spec, rows.clone())?;
        match copied {
            true => {}
            false if rows.are_long() => self.pack.defer(spec, rows)?,
            false => self.through(spec, rows)?,
        }
        self.boxes.note_last(place, &self.pack);
        Ok(())
    }

    /// Writes values of a number type that has the variable's size.
    pub fn write_values<T: bytemuck::NoUninit>(&mut self, name: &str, values: &[T]) -> Result<()> {
        self.write(name, bytemuck::cast_slice(values))
    }

    fn check_usable(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(e) => Err(Error::new(e.kind(), "the output has failed already; close reports it to all ranks")),
        }
    }

    /// Makes close fail, on all ranks: for a program that cannot finish its part of the step. Not collective.
    pub fn fail(&mut self, cause: Error) {
        self.broken(cause);
    }

    /// Remembers a failure of the store for close.
    fn broken(&mut self, e: Error) -> Error {
        let e = e.at_rank(self.comm.rank()).in_group(self.group_name.clone());
        let copy = Error::new(e.kind(), e.to_string());
        self.failed.get_or_insert(e);
        copy
    }

    /// Puts a block in the place of the one that this output holds of the same variable and box; `false` where there is
    /// none, or none any more: the block is then the next of the pack.
    fn supersedes(&mut self, place: Option<&Place>, spec: &BlockSpec, rows: &Rows<'_>) -> Result<bool> {
        let Some(earlier) = place.and_then(|place| self.boxes.find(place)) else { return Ok(false) };
        let outcome = self.pack.supersede(earlier, spec, rows.clone());
        self.superseded(earlier, outcome, spec, rows)
    }

    /// As [`Output::supersedes`], for memory that stays as it is.
    fn supersedes_deferred(&mut self, place: Option<&Place>, spec: &BlockSpec, rows: &Rows<'a>) -> Result<bool> {
        let Some(earlier) = place.and_then(|place| self.boxes.find(place)) else { return Ok(false) };
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
                    let mut to = Vec::new();
                    for way in &mut self.ways {
                        let (object, start) = way.method.through(&reach)?;
                        to.push(Through { object, start, header: &way.header });
                    }
                    self.pack.overwrite_stored(earlier, spec.clone(), rows.clone(), &to)
                };
                go().map_err(|e| self.broken(e.in_variable(&*spec.name)))?;
                Ok(true)
            }
        }
    }

    /// Whether all methods write such a block at once.
    fn goes_at_once(&self, spec: &BlockSpec, bytes: u64) -> bool {
        let reach = self.pack.reach(spec, bytes);
        self.ways.iter().all(|w| w.method.at_once(&reach).is_some_and(|least| bytes >= least))
    }

    fn through(&mut self, spec: BlockSpec, data: Rows<'_>) -> Result<()> {
        let name = spec.name.clone();
        let reach = self.pack.reach(&spec, data.len() as u64);
        let go = || {
            let mut to = Vec::new();
            for way in &mut self.ways {
                let (object, start) = way.method.through(&reach)?;
                to.push(Through { object, start, header: &way.header });
            }
            self.pack.through(spec, data, &to)
        };
        go().map_err(|e| self.broken(e.in_variable(&*name)))
    }

    /// What will be written for the variable at a position, and where its bytes are.
    fn spec<'d>(&mut self, at: usize, data: &'d [u8], memory: Option<&MemoryBox>) -> Result<(BlockSpec, Rows<'d>)> {
        let declared = Arc::clone(&self.group);
        let mut declared = lock(&declared);
        let moved = match (self.paths.get(&at).or(self.path.as_ref()), declared.builder.group().variables.get(at)) {
            (Some(path), Some(variable)) if *path != variable.path => {
                let full = thalweg_schema::full_name(path, &variable.name);
                Some((declared.builder.variable_id(&full), path.clone()))
            }
            _ => None,
        };
        let group = declared.builder.group();
        let variable = group.variables.get(at).ok_or_else(|| no_variable(at))?;
        let (id, path) = moved.unwrap_or_else(|| (variable.id, variable.path.clone()));
        let place = |e: Error| e.in_variable(variable.full_name()).in_group(self.group_name.clone());
        let mut shape = match self.next_box.take_if(|(position, _)| *position == at) {
            Some((_, shape)) => Some(shape),
            None => resolve::check_says_extents(variable)
                .and_then(|()| resolve::shape(variable, &mut resolve::lookup(group, &self.scalars)))
                .map_err(place)?,
        };
        if let Some(shape) = &mut shape {
            shape.place_nothing();
        }
        let expected = resolve::block_bytes(variable, shape.as_ref().map(|s| s.local.as_slice())).map_err(place)?;
        let mut rows = Rows::from(data);
        if let Some(memory) = memory {
            let fortran = *lock(&self.shared.language) == HostLanguage::Fortran;
            rows = rows_of(variable, shape.as_ref(), data, memory, fortran).map_err(place)?;
        } else if let Some(expected) = expected
            && expected != data.len() as u64
        {
            let what = format!("{} bytes were given, its dimensions need {expected}", data.len());
            return Err(place(Error::new(ErrorKind::InvalidArgument, what)));
        }
        let mut value = None;
        if shape.is_none() {
            if variable.element == ElementType::String {
                check_str16(data, "a string").map_err(place)?;
            }
            value = Value::from_bytes(variable.element, data, ByteOrder::NATIVE);
            if let Some(value) = &value {
                self.scalars.insert(variable.full_name(), value.clone());
            }
        }
        let (path, name) = stored(&path, &variable.name);
        self.joins.note(&variable.full_name(), path, shape.as_ref(), self.pack.block_count()).map_err(place)?;
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
            value,
            transform: None,
        };
        self.boxes.check_kind(&spec).map_err(place)?;
        Ok((spec, rows))
    }

    /// The group's attributes whose values this rank knows, as rank 0 writes them.
    fn attributes(&self) -> Vec<AttributeSpec> {
        let group = lock(&self.group);
        let group = group.builder.group();
        let meshes = thalweg_schema::mesh_attributes(group);
        let mut specs: Vec<AttributeSpec> = Vec::new();
        for a in group.attributes.iter().chain(&meshes) {
            let value = match &a.value {
                AttributeSource::One(value) => AttributeValue::One(value.clone()),
                AttributeSource::Many(t, values) => AttributeValue::Many(*t, values.clone()),
                AttributeSource::Variable(name) => match self.scalars.get(name) {
                    Some(value) => AttributeValue::One(value.clone()),
                    None => continue,
                },
            };
            let (path, name) = stored(&a.path, &a.name);
            specs.push(AttributeSpec { id: a.id, name: name.into(), path: path.into(), value });
        }
        specs
    }

    /// Collective, instead of close on a rank that can't go on: its part of the step is lost, the others keep theirs and
    /// get an error of the kind of `cause`.
    ///
    /// # Errors
    /// Always: `cause`, or what else went wrong.
    pub fn abandon(mut self, cause: Error) -> Result<Closed> {
        let cause = cause.at_rank(self.comm.rank()).in_group(self.group_name.clone());
        self.failed.get_or_insert(cause);
        self.close()
    }

    /// Collective: commits the step. When it returns without error the step is readable, and durable where the method
    /// says `sync=yes`.
    ///
    /// # Errors
    /// On all ranks the same kind; the failing rank keeps the cause, the others name it. The message says what is safe.
    pub fn close(mut self) -> Result<Closed> {
        let Some(mut profile) = self.profile.take() else {
            // Whatever fails, messages may be under way yet.
            return self.commit().inspect(|_| self.comm.set_idle());
        };
        profile.taking.closes();
        self.tell_events(&profile.taking);
        let closed = {
            let _here = profile.taking.recorder().work();
            let _closing = profile.taking.recorder().span(Phase::Close);
            self.commit()
        };
        let Some(first) = self.ways.first() else { return closed };
        let about = About {
            layout: &*self.shared.layout,
            output: &first.path,
            group: &self.group_name,
            methods: self.ways.iter().map(|way| way.method.name().to_string()).collect(),
            step: self.step(),
            run: profile.run,
            is_new: profile.is_new,
            group_bytes: self.pack.length(),
            buffer_bytes: self.shared.pool.peak(),
            outcome: closed.as_ref().map(|closed| closed.bytes),
        };
        profile.taking.finish(&mut *self.comm, &about);
        closed
    }

    /// What the program said since the last output goes into the profile.
    fn tell_events(&self, taking: &Taking) {
        let mut computes = None;
        for (event, at) in self.shared.cache.events().take() {
            match event {
                Event::CalculationBegins => computes = Some(at),
                Event::CalculationEnds => {
                    if let Some(begin) = computes.take() {
                        taking.recorder().add(Phase::Calculation, begin, at);
                    }
                }
                Event::IterationEnds => taking.recorder().add(Phase::Iteration, at, at),
            }
        }
        if let Some(begin) = computes {
            taking.recorder().add(Phase::Calculation, begin, Instant::now());
        }
    }

    fn working(&self) -> Option<Working> {
        self.profile.as_ref().map(|p| p.taking.recorder().work())
    }

    fn commit(&mut self) -> Result<Closed> {
        let rank = self.comm.rank();
        let attributes = if rank == 0 { self.attributes() } else { Vec::new() };
        let mut result: Option<Result<Closed>> = None;
        let mut finished: Vec<Finished> = Vec::new();
        let mut failed = self.failed.take();
        if let Err(e) = self.joins.settle(&*self.comm, &mut self.pack, failed.is_some()) {
            failed.get_or_insert(e.in_group(self.group_name.clone()));
        }
        for way in &mut self.ways {
            if rank == 0 {
                let mut written = lock(&self.shared.written);
                let known = written.entry(written_key(&*way.method, &way.path)).or_default();
                let changed = |a: &&AttributeSpec| known.get(&key(a)) != Some(&a.value);
                let new: Vec<AttributeSpec> = attributes.iter().filter(changed).cloned().collect();
                for a in &new {
                    known.insert(key(a), a.value.clone());
                }
                self.pack.set_attributes(new);
            }
            let mine = failed.take();
            if let Some(e) = &mine {
                failed = Some(Error::new(e.kind(), e.what()).at_rank(rank));
            }
            way.method.after(&finished);
            let closed = way.method.close(&*self.comm, &way.header, &mut self.pack, mine);
            if closed.is_err() {
                lock(&self.shared.written).remove(&written_key(&*way.method, &way.path));
            }
            finished.push(Finished {
                method: way.method.name(),
                stores: way.stores,
                path: way.path.clone(),
                step: way.step(),
                outcome: closed.as_ref().map(|closed| closed.bytes).map_err(|e| (e.kind(), e.to_string())),
            });
            // All methods are closed on all ranks; the first failure is what the caller gets.
            result = Some(match (result, closed) {
                (Some(Err(e)), _) | (_, Err(e)) => Err(e),
                (Some(Ok(before)), Ok(closed)) => Ok(Closed { bytes: before.bytes.saturating_add(closed.bytes) }),
                (None, Ok(closed)) => Ok(closed),
            });
        }
        result.unwrap_or(Ok(Closed::default()))
    }
}

/// A block's bytes in a larger array.
fn rows_of<'d>(
    variable: &Variable,
    shape: Option<&Shape>,
    data: &'d [u8],
    memory: &MemoryBox,
    fortran: bool,
) -> Result<Rows<'d>> {
    let Some(shape) = shape else {
        return Err(Error::new(ErrorKind::InvalidArgument, "a place in memory is for arrays; this is a single value"));
    };
    let size = variable.element.size();
    if !fortran {
        return Rows::in_memory(data, memory, &shape.local, size);
    }
    let slowest_first: Vec<u64> = shape.local.iter().rev().copied().collect();
    Rows::in_memory(data, &memory.reversed(), &slowest_first, size)
}

/// How much the schema wants recorded of a variable.
fn level_of(variable: &Variable, group: &Group) -> Level {
    match variable.statistics.unwrap_or(group.statistics) {
        Statistics::Off => Level::Off,
        Statistics::MinMax => Level::MinMax,
        Statistics::Default => Level::Beside,
        Statistics::Full => Level::Full,
    }
}

fn arrays_of(group: &Mutex<DeclaredGroup>) -> Vec<ArrayLevel> {
    let group = lock(group);
    let group = group.builder.group();
    let arrays = group.variables.iter().filter(|v| !v.local.is_empty());
    arrays
        .map(|v| {
            let (path, name) = stored(&v.path, &v.name);
            ArrayLevel {
                path: path.to_string(),
                name: name.to_string(),
                element: v.element,
                level: level_of(v, group),
                transform: transform::name(v).to_string(),
            }
        })
        .collect()
}

/// Where the attributes are remembered that a method's file holds already.
fn written_key(method: &dyn Method, path: &str) -> String {
    format!("{}\0{path}", method.name())
}

fn key(a: &AttributeSpec) -> String {
    format!("{}\0{}", a.path, a.name)
}

fn no_variable(at: usize) -> Error {
    Error::new(ErrorKind::NotFound, format!("the group has no variable number {at}"))
}

/// What is said of a buffer limit below the least of a method.
fn too_low(choice: &MethodChoice, limit: u64) -> Option<String> {
    let kind = registry::find(&choice.method).filter(|kind| limit < kind.least)?;
    Some(format!(
        "the buffer limit is {limit} bytes; method {} holds {} to carry data to its files, and takes these all the same",
        kind.names[0], kind.least
    ))
}

/// A path and a name as both foreign readers join them alike: no slash at the end of a path, and that of the path `/` in
/// front of the name.
fn stored<'n>(path: &'n str, name: &'n str) -> (&'n str, Cow<'n, str>) {
    let kept = path.trim_end_matches('/');
    let at_root = kept.is_empty() && !path.is_empty() && !name.starts_with('/');
    (kept, if at_root { Cow::Owned(format!("/{name}")) } else { Cow::Borrowed(name) })
}

fn join(base: &str, path: &str) -> String {
    if base.is_empty() || path.starts_with('/') {
        path.to_string()
    } else if base.ends_with('/') {
        format!("{base}{path}")
    } else {
        format!("{base}/{path}")
    }
}

/// Parameters as one text, as process groups hold it.
fn parameter_text(choice: &MethodChoice) -> String {
    let mut text = choice.parameters.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(";");
    let mut end = text.len().min(LONGEST_STRING / 2);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
