//! A session: the configuration of a process, its buffer, and its state between outputs, from init to finalize.

use crate::in_flight::OutputsInFlight;
use crate::input::Input;
use crate::mounts;
use crate::output::{Opens, Output, level_of, stored};
use crate::registry;
use crate::show;
use crate::staging;
use crate::steering::{self, Steering};
use crate::transform;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_comm::Communicator;
use thalweg_comm::agreement::agree;
use thalweg_comm::guarded::caught;
use thalweg_layout::Layout;
use thalweg_movement::events::{Event, Events};
use thalweg_movement::guarded::Guarded;
use thalweg_movement::output_file::cache::Cache;
use thalweg_movement::output_file::levels::ArrayLevel;
use thalweg_movement::{BlockMemory, BufferPool, Mode, buffer};
use thalweg_schema::{AllocateTime, Buffer, BufferLimit, GroupBuilder, HostLanguage, MethodChoice, Schema, Variable};
use thalweg_types::mutex::Mutex;
use thalweg_types::{AttributeValue, Error, ErrorKind, Result, equal};

/// A group as a session knows it: changed by declarations, also between outputs.
pub struct DeclaredGroup {
    /// Variables, attributes, meshes, and methods declared from code.
    pub builder: GroupBuilder,
    /// Methods a document chose.
    pub methods: Vec<MethodChoice>,
    /// Arrays as of the last open that asked for them.
    arrays: Arc<[ArrayLevel]>,
}

impl DeclaredGroup {
    /// A group of a builder, with the methods that a document chose for it.
    pub fn new(builder: GroupBuilder, methods: Vec<MethodChoice>) -> DeclaredGroup {
        DeclaredGroup { builder, methods, arrays: Arc::default() }
    }

    /// The arrays of the group, with the statistics and transforms that its variables request.
    ///
    /// # Cost
    /// A comparison with those of the last call; where they have changed, the list is made anew.
    pub(crate) fn arrays(&mut self) -> Arc<[ArrayLevel]> {
        let group = self.builder.group();
        let arrays = || group.variables.iter().filter(|v| !v.local.is_empty());
        let is_known = |(known, v): (&ArrayLevel, &Variable)| {
            let (path, name) = stored(&v.path, &v.name);
            (known.element, known.level) == (v.element, level_of(v, group))
                && known.name == *name
                && equal(&known.path, path)
                && equal(&known.transform, transform::name(v))
        };
        if arrays().count() != self.arrays.len() || !self.arrays.iter().zip(arrays()).all(is_known) {
            self.arrays = arrays()
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
                .collect();
        }
        self.arrays.clone()
    }

    /// All methods, in the order of the configuration.
    pub fn all_methods(&self) -> Vec<MethodChoice> {
        self.methods.iter().chain(self.builder.methods()).cloned().collect()
    }
}

/// A group as a session, a program and its outputs share it.
pub type SharedGroup = Arc<Mutex<DeclaredGroup>>;

/// State shared by a session and its outputs.
pub(crate) struct Shared {
    pub(crate) layout: Arc<dyn Layout>,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) cache: Arc<Cache>,
    /// Outputs that their methods end later.
    pub(crate) in_flight: Arc<OutputsInFlight>,
    /// What outputs write at present.
    pub(crate) steering: Steering,
    /// Every output is profiled, whatever its methods' parameters.
    pub(crate) profiled: bool,
    /// Full consistency for every output, whatever its methods' parameters.
    pub(crate) compares: bool,
    pub(crate) language: Mutex<HostLanguage>,
    /// Attributes a file holds already, by path.
    pub(crate) written: Mutex<HashMap<String, HashMap<String, AttributeValue>>>,
    /// On rank 0 of their outputs: BP files that get a view for openPMD when they are closed for good.
    pub(crate) shown: Mutex<BTreeSet<String>>,
}

/// A process's use of the library.
pub struct Session {
    pub(crate) shared: Arc<Shared>,
    groups: Mutex<Vec<(String, Arc<Mutex<DeclaredGroup>>)>>,
    buffer: Mutex<Option<Buffer>>,
    rank: u32,
    /// One thread at a time; calls that are collective over it are rare.
    comm: Mutex<Box<dyn Communicator>>,
}

/// The operation of the first agreement of a session.
const READING: &str = "read the configuration";

impl Session {
    /// Collective: a session with the groups and methods of an XML text. Files lie as the mounts of the process determine.
    ///
    /// - `file_name`: for messages.
    ///
    /// # Errors
    /// `Config` with everything that is wrong in the document; nothing is half configured.
    pub fn from_xml(text: &str, file_name: &str, comm: Box<dyn Communicator>) -> Result<Session> {
        let read = || {
            let schema = thalweg_schema::xml::parse(text, file_name).map_err(all_of)?;
            let mut report = thalweg_diagnostics::Report::new(file_name, text);
            registry::look_to_run(&schema, &mut report);
            if report.errors() > 0 {
                return Err(all_of(report));
            }
            if report.warnings() > 0 && comm.rank() == 0 {
                thalweg_warnings::tell_once(&report.render(false));
            }
            Ok(schema)
        };
        Session::agreed(caught(READING, read), comm, true)
    }

    /// As [`Session::from_xml`], the document in a file. Every rank reads it.
    ///
    /// # Errors
    /// As [`Session::from_xml`]; fails on all ranks if one cannot read the file.
    pub fn from_xml_file(path: &str, comm: Box<dyn Communicator>) -> Result<Session> {
        let text = caught(READING, || {
            let bytes = std::fs::read(path);
            let bytes = bytes.map_err(|e| Error::io("cannot read the configuration", e).in_object(path))?;
            thalweg_schema::xml::decode(&bytes, path).map_err(all_of)
        });
        match text {
            Ok(text) => Session::from_xml(&text, path, comm),
            Err(e) => Session::agreed(Err(e), comm, true),
        }
    }

    /// Collective: a session without any group; they are declared from code.
    ///
    /// # Errors
    /// `Config` for a mount table or an environment variable that is refused; a lost rank.
    pub fn without_xml(comm: Box<dyn Communicator>) -> Result<Session> {
        Session::agreed(Ok(Schema::default()), comm, true)
    }

    /// Collective: a session of this schema.
    ///
    /// # Errors
    /// As [`Session::from_xml`], for methods and their parameters.
    pub fn from_schema(schema: Schema, comm: Box<dyn Communicator>) -> Result<Session> {
        Session::agreed(Ok(schema), comm, false)
    }

    /// `told`: warnings about ignored parameters were already given.
    fn agreed(schema: Result<Schema>, comm: Box<dyn Communicator>, told: bool) -> Result<Session> {
        let checked = caught(READING, || {
            let schema = schema?;
            registry::check_all(&schema)?;
            Ok((schema, mounts::layout()?))
        });
        let (checked, outcome) = match checked {
            Ok(checked) => (Some(checked), Ok(())),
            Err(e) => (None, Err(e)),
        };
        agree(&*comm, outcome, READING, &[])?;
        let (schema, layout) = checked.ok_or_else(|| Error::new(ErrorKind::Config, "no configuration"))?;
        Session::begin(schema, layout, comm, told)
    }

    /// A session with files on a layout of the caller.
    ///
    /// # Errors
    /// `Config` for a method or parameter that is refused. Not agreed between ranks.
    pub fn with_layout(schema: Schema, layout: Arc<dyn Layout>, comm: Box<dyn Communicator>) -> Result<Session> {
        Session::begin(schema, layout, comm, false)
    }

    fn begin(schema: Schema, layout: Arc<dyn Layout>, comm: Box<dyn Communicator>, told: bool) -> Result<Session> {
        thalweg_warnings::set_rank(comm.rank());
        thalweg_warnings::listen();
        let left_out = registry::check_all(&schema)?;
        if !told && comm.rank() == 0 {
            left_out.iter().for_each(|text| thalweg_warnings::tell_once(text));
        }
        let layout: Arc<dyn Layout> = Arc::new(Guarded::new(layout));
        let profiled = thalweg_profile::requested()?;
        let compares = crate::consistency::by_environment()?;
        let Schema { host_language, groups, methods, buffer, services } = schema;
        let groups = groups
            .into_iter()
            .map(|group| {
                let name = group.name.clone();
                let methods = methods.iter().filter(|m| m.group == name).cloned().collect();
                (name, Arc::new(Mutex::new(DeclaredGroup::new(GroupBuilder::from_group(group), methods))))
            })
            .collect();
        let session = Session {
            shared: Arc::new(Shared {
                layout,
                pool: Arc::new(BufferPool::new(None)),
                cache: Arc::new(Cache::new()),
                in_flight: OutputsInFlight::of_session(comm.timeout()),
                steering: Steering::default(),
                profiled,
                compares,
                language: Mutex::new(host_language),
                written: Mutex::new(HashMap::new()),
                shown: Mutex::default(),
            }),
            groups: Mutex::new(groups),
            buffer: Mutex::new(Some(buffer)),
            rank: comm.rank(),
            comm: Mutex::new(comm),
        };
        staging::set_pace(&session.shared.cache, &session.shared.in_flight.pacer);
        staging::set_services(&session.shared.cache, services);
        if buffer.allocate == AllocateTime::Now {
            session.settle_buffer()?;
        }
        Ok(session)
    }

    /// Settles the buffer limit, once.
    fn settle_buffer(&self) -> Result<()> {
        let Some(buffer) = self.buffer.lock().take() else { return Ok(()) };
        let limit = match buffer.limit {
            BufferLimit::Unlimited => None,
            BufferLimit::Bytes(bytes) => Some(bytes),
            BufferLimit::FreeMemoryPercentage(percent) => Some(buffer::share_of_free_memory(percent)?),
        };
        self.shared.pool.set_limit(limit);
        Ok(())
    }

    /// Sets the buffer limit in bytes, for all groups together; `None` for no limit.
    pub fn set_buffer_limit(&self, bytes: Option<u64>) {
        self.buffer.lock().take();
        self.shared.pool.set_limit(bytes);
    }

    /// The buffer of the process: limit, use and peak.
    pub fn buffer(&self) -> &Arc<BufferPool> {
        &self.shared.pool
    }

    /// Memory for a block that the program fills in place and gives to an output ([`Output::commit`]): nothing is copied. It counts in the
    /// buffer limit; if there is no room, waits until outputs in flight have ended. Zeros, or values of an earlier block; it begins at a
    /// multiple of 64 bytes. Not collective.
    ///
    /// # Errors
    /// `NoMemory` if the limit, or the system, has no room for it.
    pub fn alloc(&self, bytes: u64) -> Result<BlockMemory> {
        self.settle_buffer()?;
        let timeout = self.comm().timeout();
        loop {
            if let Some(memory) = self.shared.pool.block(bytes) {
                return Ok(memory);
            }
            if !self.shared.in_flight.wait_for_memory(timeout) {
                break;
            }
        }
        let what = match self.shared.pool.limit() {
            Some(limit) => {
                let used = self.shared.pool.used();
                format!("no room for {bytes} bytes: of the buffer limit of {limit}, {used} are in use")
            }
            None => format!("the system has no {bytes} bytes of memory"),
        };
        Err(Error::new(ErrorKind::NoMemory, what))
    }

    /// Sets the language that determines the order of dimensions of outputs.
    pub fn set_host_language(&self, language: HostLanguage) {
        *self.shared.language.lock() = language;
    }

    /// The language that determines the order of dimensions of outputs.
    pub fn host_language(&self) -> HostLanguage {
        *self.shared.language.lock()
    }

    /// Names of the groups, in the order declared.
    pub fn groups(&self) -> Vec<String> {
        self.groups.lock().iter().map(|(name, _)| name.clone()).collect()
    }

    /// Declares a group.
    ///
    /// # Errors
    /// `Config` where one of that name is declared already.
    pub fn declare(&self, builder: GroupBuilder) -> Result<Arc<Mutex<DeclaredGroup>>> {
        let name = builder.group().name.clone();
        let mut groups = self.groups.lock();
        if groups.iter().any(|(n, _)| *n == name) {
            return Err(Error::new(ErrorKind::Config, format!("group \"{name}\" is declared already")));
        }
        let group = Arc::new(Mutex::new(DeclaredGroup::new(builder, Vec::new())));
        groups.push((name, group.clone()));
        Ok(group)
    }

    /// As [`Session::declare`], also beside one of that name, as in ADIOS 1.x: outputs find the one declared first, and this one
    /// when that is [forgotten](Session::forget_one). Returns whether there was one.
    pub fn declare_beside(&self, builder: GroupBuilder) -> (Arc<Mutex<DeclaredGroup>>, bool) {
        let name = builder.group().name.clone();
        let mut groups = self.groups.lock();
        let is_second = groups.iter().any(|(n, _)| *n == name);
        let group = Arc::new(Mutex::new(DeclaredGroup::new(builder, Vec::new())));
        groups.push((name, group.clone()));
        (group, is_second)
    }

    /// Forgets this group, and no other of its name.
    pub fn forget_one(&self, group: &Arc<Mutex<DeclaredGroup>>) {
        self.groups.lock().retain(|(_, g)| !Arc::ptr_eq(g, group));
    }

    /// Warns once, on rank 0, of ignored parts of a description.
    pub fn warn(&self, text: &str) {
        if self.rank == 0 {
            thalweg_warnings::tell_once(text);
        }
    }

    /// Forgets a group.
    pub fn forget(&self, name: &str) {
        self.groups.lock().retain(|(n, _)| n != name);
    }

    /// A group by its name.
    ///
    /// # Errors
    /// `NotFound` naming the nearest group.
    pub fn group(&self, name: &str) -> Result<Arc<Mutex<DeclaredGroup>>> {
        let groups = self.groups.lock();
        if let Some((_, group)) = groups.iter().find(|(n, _)| n == name) {
            return Ok(group.clone());
        }
        let known = groups.iter().map(|(n, _)| n.as_str());
        let hint = thalweg_params::nearest(name, known).map_or(String::new(), |n| format!("; did you mean \"{n}\"?"));
        Err(Error::new(ErrorKind::NotFound, format!("no group \"{name}\" is declared{hint}")))
    }

    /// Collective over `comm`: opens an output of a group.
    ///
    /// - `path`: name of the file; each method's base path is put in front.
    /// - `comm`: the ranks that open together. The handle must stay valid until close.
    ///
    /// # Errors
    /// On all ranks the same kind. `NotFound` for an unknown group, `Config` for a group without method, and errors of the
    /// store.
    pub fn open<'a>(&self, group: &str, path: &str, mode: Mode, comm: Box<dyn Communicator>) -> Result<Output<'a>> {
        // A failure of this rank alone is the open's, as the others wait there.
        let declared = self.settle_buffer().and_then(|()| self.group(group));
        let known = declared.as_ref().ok().cloned();
        let groups = || self.groups();
        let what = Opens { group_name: group, path, mode, run: run_id(), groups: &groups };
        Output::open(self.shared.clone(), declared, comm, what).inspect_err(|_| {
            if let Some(steered) = known.and_then(|group| self.shared.steering.of(&group, path)) {
                steered.failed();
            }
        })
    }

    /// Whether an output is wanted that the program is about to open: with `control=yes`, others may ask for fewer outputs
    /// (`thalweg control`). An output that is not wanted may be opened all the same; then nothing of it is written. Not collective, but all
    /// ranks ask alike: they get the same answer.
    ///
    /// - `step`: the program's number of the output, such as its time step, which grows from output to output. Of a program that doesn't
    ///   ask, outputs of a file are counted from 0.
    ///
    /// # Errors
    /// `NotFound` for an unknown group.
    pub fn wanted(&self, group: &str, path: &str, step: u64) -> Result<bool> {
        let declared = self.group(group)?;
        Ok(self.shared.steering.of(&declared, path).is_none_or(|steered| steered.ask(step)))
    }

    /// Whether an array is written by the next output of the file that is wanted. Not collective.
    ///
    /// # Errors
    /// `NotFound` for an unknown group or array.
    pub fn wants_array(&self, group: &str, path: &str, name: &str) -> Result<bool> {
        let declared = self.group(group)?;
        let full = steering::full_name(&declared.lock(), name).map_err(|e| e.in_group(group))?;
        Ok(self.shared.steering.of(&declared, path).is_none_or(|steered| steered.writes(&full)))
    }

    /// Whether someone has asked that the program stops (`thalweg control --stop`). Not collective; all ranks get the same answer after the
    /// same output. The library ends no program.
    pub fn stop_requested(&self) -> bool {
        self.shared.steering.stop_requested()
    }

    /// Collective over `comm`: opens a file to read a group's variables back.
    ///
    /// # Errors
    /// On all ranks the same kind: `NotFound` for an unknown group or file, `Torn` or `Corrupt` for a damaged file.
    pub fn open_to_read(&self, group: &str, path: &str, comm: Box<dyn Communicator>) -> Result<Input> {
        Input::open(self.shared.clone(), group, self.group(group), path, comm)
    }

    /// Marks the beginning of computation, until [`Session::end_calculation`], for methods that work in the background and for
    /// profiles. Not collective.
    pub fn begin_calculation(&self) {
        self.shared.cache.events().tell(Event::CalculationBegins);
        self.progress();
    }

    /// The program has ended computing. Not collective.
    pub fn end_calculation(&self) {
        self.shared.cache.events().tell(Event::CalculationEnds);
        self.progress();
    }

    /// The program has ended an iteration. Not collective.
    pub fn end_iteration(&self) {
        self.shared.cache.events().tell(Event::IterationEnds);
        self.progress();
    }

    /// The program's events between its writes.
    pub fn events(&self) -> &Events {
        self.shared.cache.events()
    }

    /// The communicator of the session.
    pub fn comm(&self) -> MutexGuard<'_, Box<dyn Communicator>> {
        self.comm.lock()
    }

    /// Like [`Session::finalize`], but not collective: errors of other ranks are not reported.
    ///
    /// Files of groups with `schema="openPMD"` get their view here, on rank 0 of their outputs.
    ///
    /// # Errors
    /// The first file of this rank that could not be ended; its closed steps stay readable.
    pub fn finish(&self) -> Result<()> {
        let ended = self.end_outputs();
        let outcome = ended.and(self.shared.cache.finish());
        self.show();
        self.shared.steering.end();
        self.shared.pool.trim();
        outcome
    }

    /// Like [`Session::finish`], for a program that ends by an exception, or without closing its files; drop open outputs before. Files end
    /// with a full index of all closed steps, but without the mark that no step will come: followers see that the writer died.
    ///
    /// # Errors
    /// As [`Session::finish`].
    pub fn leave(&self) -> Result<()> {
        let ended = self.end_outputs();
        let outcome = ended.and(self.shared.cache.leave());
        self.shared.steering.end();
        self.shared.pool.trim();
        outcome
    }

    /// Makes the views of files that are closed for good. One that cannot be made is a warning: the file is whole without it.
    fn show(&self) {
        for path in std::mem::take(&mut *self.shared.shown.lock()) {
            let shown = caught("make the view for openPMD", || show::openpmd(&self.shared.layout, &path));
            let told = shown.unwrap_or_else(|e| {
                vec![format!("{path}: {e}; `thalweg view openpmd {path}` makes its view for openPMD")]
            });
            told.iter().for_each(|text| thalweg_warnings::tell_once(text));
        }
    }

    fn end_outputs(&self) -> Result<()> {
        let timeout = self.comm().timeout();
        self.shared.in_flight.finish(timeout)
    }

    /// Moves messages of outputs in flight, and calls the callbacks of those that have ended since the last call ([`crate::PendingOutput::on_completion`]). Not collective;
    /// returns immediately.
    pub fn progress(&self) {
        self.shared.in_flight.call_back();
    }

    /// Collective over the session's communicator: waits until all outputs have ended that methods end later than close.
    ///
    /// # Errors
    /// On all ranks: the first failure of one of them that no open has reported; `Timeout` where one does not end.
    pub fn wait_for_outputs(&self) -> Result<()> {
        let ended = caught("end outputs", || self.end_outputs());
        agree(&**self.comm(), ended, "end the outputs that were closed before", &[]).map(|_| ())
    }

    /// Collective: closes all files for good. Files end with a full index and a mark that no step will come.
    ///
    /// # Errors
    /// As [`Session::finish`], on all ranks the same kind.
    pub fn finalize(&self) -> Result<()> {
        let outcome = caught("finalize", || self.finish());
        agree(&**self.comm(), outcome, "finalize", &[]).map(|_| ())
    }

    /// Collective: as [`Session::finalize`], with the program's number of this process. The process with number 0 then tells servers of
    /// partitions which this run has started that they are not needed any longer: they end when their last client has left.
    ///
    /// # Errors
    /// As [`Session::finalize`]. A server that cannot be told is a warning.
    /// # Cost
    /// One gather to all beside [`Session::finalize`].
    pub fn finalize_as(&self, number: i32) -> Result<()> {
        let own: Vec<String> = mounts::starting::started().iter().map(|file| file.display().to_string()).collect();
        let all = self.comm().all_gather(own.join("\0").as_bytes());
        let outcome = self.finalize();
        // Also after a failure: a server stores what it holds before it ends.
        let files: BTreeSet<String> = all
            .iter()
            .flatten()
            .flat_map(|of| String::from_utf8_lossy(of).split('\0').map(str::to_string).collect::<Vec<_>>())
            .filter(|file| number == 0 && !file.is_empty())
            .collect();
        for file in files {
            if let Err(e) = mounts::starting::tell_unneeded(Path::new(&file)) {
                thalweg_warnings::tell_once(&format!(
                    "servers of {file} do not know that they are not needed, and go on: {e}; thalweg partition stop {file}"
                ));
            }
        }
        outcome
    }
}

/// All errors of a document, as one.
fn all_of(report: thalweg_diagnostics::Report) -> Error {
    Error::new(ErrorKind::Config, format!("the configuration is refused\n{}", report.render(false).trim_end()))
}

/// A number that no other opening has: time and process, mixed.
fn run_id() -> u64 {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let mixed = (nanos ^ (u64::from(std::process::id()) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // 0 means "not known" where ranks agree.
    (mixed ^ (mixed >> 31)) | 1
}
