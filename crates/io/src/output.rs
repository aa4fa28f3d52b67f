//! An output: one step of a group being written, from open to close.
//!
//! Blocks are written by one [`WriteRequest`] each. Close commits: when it returns, the step is readable.
//!
//! | room | what it owns |
//! |------|--------------|
//! | `request` | write requests |
//! | `write` | resolves a request and adds its block to the pack |
//! | `names` | positions of variables by name |
//! | `attributes` | the attributes that rank 0 writes |

mod attributes;
mod names;
mod request;
mod write;

use crate::boxes::Boxes;
use crate::consistency::{self, Opening};
use crate::ending::{Ending, written_key};
use crate::in_flight::{ASYNC, Done, Entry, IN_FLIGHT, PendingOutput, Upcoming};
use crate::joined::{self, Joins, Requirements};
use crate::opening::{self, ActiveMethod, BehindOthers, Ends, OpenBehind, Opening as MethodsOpening, ToOpen};
use crate::registry;
use crate::resolve::Scalars;
use crate::session::{DeclaredGroup, Shared};
use crate::staging;
use crate::steering::{self, Offered, Steered};
use crate::transform;
use names::Names;
pub use request::{BlockBox, Values, VariableKey, WriteRequest};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_bp::process_group::Header;
use thalweg_bp::statistics::Level;
use thalweg_bp::wire::LONGEST_STRING;
use thalweg_comm::agreement::agree;
use thalweg_comm::alone::Alone;
use thalweg_comm::guarded::caught;
use thalweg_comm::{Communicator, Reduce, ThreadLevel, in_calls};
use thalweg_control::Settings;
use thalweg_movement::events::Event;
use thalweg_movement::method::{Parameters, STORES_NOTHING};
use thalweg_movement::pack::blocks::Takes;
use thalweg_movement::{Closed, Method, Mode, Pack};
use thalweg_profile::{About, Phase, Taking, Working};
use thalweg_schema::{Group, HostLanguage, MethodChoice, Statistics, Variable};
use thalweg_transform::Spec;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};
pub use write::Resolved;

/// The profile of the output.
struct Profiled {
    taking: Taking,
    /// Run id of the first method's file.
    run: u64,
    is_new: bool,
}

/// A step that is being written. `'a` is how long deferred memory stays unchanged: at least until close.
pub struct Output<'a> {
    shared: Arc<Shared>,
    profile: Option<Profiled>,
    group_name: String,
    group: Arc<Mutex<DeclaredGroup>>,
    methods: Vec<ActiveMethod>,
    pack: Pack<'a>,
    /// `None` while the output opens behind others: its open has it.
    comm: Option<Box<dyn Communicator>>,
    /// The output's place behind others of its file.
    behind: Option<BehindOthers>,
    rank: u32,
    timeout: Duration,
    /// As [`IN_FLIGHT`], the smallest of the methods with `async=yes`.
    most_in_flight: u64,
    /// A block did not fit the buffer limit although nothing is in flight: close waits for this output, where that needs no calls of other
    /// ranks.
    exceeds_buffer: bool,
    /// Messages of outputs in the background move inside the program's calls.
    moves_in_calls: bool,
    scalars: Scalars,
    names: Names,
    failed: Option<Error>,
    /// Arrays for which the file records other statistics than declared, by path and name: blocks follow the file.
    levels: HashMap<(String, String), Level>,
    /// Paths that replace the declared ones: for all variables, and by position.
    path: Option<String>,
    paths: HashMap<usize, String>,
    joins: Joins,
    boxes: Boxes,
    /// Transforms by position, of variables written so far.
    transforms: HashMap<usize, Option<Arc<Spec>>>,
    /// The variables that this rank has written, if ranks compare them at close.
    record: Option<consistency::Record>,
    /// Nobody wants the output: nothing of it is written.
    unwanted: bool,
    /// What is written of it, if others can change that.
    settings: Option<Arc<Settings>>,
    /// Changes that this output has on record: the first outputs for which they hold, and these in words.
    changed: Vec<(u64, String)>,
    /// By which the program knows it, of one that is steered.
    number: u64,
    /// What others can change, and rules that need its values.
    steered: Option<Arc<Steered>>,
}

/// The operation of the first agreement of an open: see [`decline`].
pub(crate) const OPENING: &str = "open the file";

/// Collective: call instead of an open on a rank whose arguments are invalid. The other ranks of `comm`, which open, get the kind of `cause`
/// instead of waiting. Returns `cause`.
pub fn decline(comm: &dyn Communicator, cause: Error) -> Error {
    let kind = cause.kind();
    joined::agree_on_open(comm, Err(cause), OPENING, &[], Requirements::default())
        .err()
        .unwrap_or_else(|| Error::new(kind, "declined"))
}

/// What a program opens.
#[derive(Clone, Copy)]
pub(crate) struct Opens<'o> {
    pub(crate) group_name: &'o str,
    pub(crate) path: &'o str,
    pub(crate) mode: Mode,
    /// Run id, if the file is new.
    pub(crate) run: u64,
    /// Names of the groups of the session.
    pub(crate) groups: &'o dyn Fn() -> Vec<String>,
}

/// How it is opened.
struct Asked<'o> {
    what: Opens<'o>,
    steered: Option<Arc<Steered>>,
    offered: Option<Offered>,
    /// After a failure of another method: all that changes settings has been done.
    again: bool,
}

impl<'a> Output<'a> {
    pub(crate) fn open(
        shared: Arc<Shared>,
        declared: Result<Arc<Mutex<DeclaredGroup>>>,
        comm: Box<dyn Communicator>,
        what: Opens<'_>,
    ) -> Result<Output<'a>> {
        let Opens { group_name, path, .. } = what;
        shared.in_flight.call_back();
        let steered = declared.as_ref().ok().and_then(|group| shared.steering.of(group, path));
        let offered = steered.as_ref().map(|steered| steered.offer());
        let to_open = |declared, comm, offered, again, spare: &mut Option<Box<dyn Communicator>>| {
            let steered = steered.clone();
            let asked = Asked { what, steered, offered, again };
            Output::open_wanted(shared.clone(), declared, comm, asked, spare)
        };
        let (group, offered) = match (declared, offered) {
            (Ok(group), Some(offered)) if !offered.wanted => {
                return Ok(Output::unwanted(shared.clone(), group_name, group, &*comm));
            }
            (Ok(group), Some(offered)) => (group, offered),
            (declared, offered) => return to_open(declared, comm, offered, false, &mut None),
        };
        let (number, settings, rank, mut spare) = (offered.number, offered.settings.clone(), comm.rank(), None);
        let file = (group_name, path);
        match (to_open(Ok(group.clone()), comm, Some(offered), false, &mut spare), &steered, spare) {
            // The method of a change, on its first output.
            (Err(e), Some(steered), Some(comm)) => {
                let settings = steered.back_to_declared(file, &settings, number, &e, rank);
                // Otherwise a new file would count as one of several.
                shared.cache.goes_on(group_name);
                to_open(Ok(group), comm, Some(Offered { number, wanted: true, settings }), true, &mut None)
            }
            (Ok(output), Some(steered), Some(spare)) => {
                steered.prove(file, &settings);
                spare.set_idle();
                Ok(output)
            }
            (output, ..) => output,
        }
    }

    /// As [`Output::open`], of an output that is written.
    ///
    /// - `spare`: set where a method of a change opens its first output, and all ranks have begun to: to open it by another one.
    fn open_wanted(
        shared: Arc<Shared>,
        declared: Result<Arc<Mutex<DeclaredGroup>>>,
        comm: Box<dyn Communicator>,
        asked: Asked<'_>,
        spare: &mut Option<Box<dyn Communicator>>,
    ) -> Result<Output<'a>> {
        let begins = Instant::now();
        let Asked { what: Opens { group_name, path, mode, run, groups }, steered, offered, again } = asked;
        let (mut line, mut joined, mut alike, mut trial) = (None, Vec::new(), Vec::new(), false);
        let mut wanted =
            Requirements { profile: shared.profiled, comparison: shared.compares, ..Requirements::default() };
        let mut most_in_flight = u64::MAX;
        wanted.number = offered.as_ref().map_or(0, |offered| offered.number);
        let mut change = Vec::new();
        // Local, while the other ranks wait: a panic becomes a failure.
        let prepared = caught(OPENING, || {
            let group = declared?;
            let mut choices = group.lock().all_methods();
            if let (Some(steered), Some(offered)) = (&steered, &offered)
                && let Some(method) = steered.method_of((group_name, path), &offered.settings, &group.lock())
            {
                choices = steering::method::with_method(choices, method);
                trial = steered.is_trial((group_name, path), &offered.settings);
            }
            if choices.is_empty() {
                return Err(Error::new(
                    ErrorKind::Config,
                    format!("group \"{group_name}\" has no method; choose NULL to write nothing"),
                ));
            }
            wanted.profile |= choices.iter().any(registry::is_profiled);
            wanted.comparison |= choices.iter().any(consistency::is_requested_by);
            registry::check_together(&choices, path)?;
            // Mistakes in a document are reported when it is read, with their position.
            if comm.rank() == 0 {
                choices
                    .iter()
                    .filter_map(|c| too_low(c, shared.pool.limit()?))
                    .for_each(|text| thalweg_warnings::tell_once(&text));
            }
            for choice in choices.iter().filter(|c| c.source.is_none() && comm.rank() == 0) {
                registry::check(choice)?.iter().for_each(|text| thalweg_warnings::tell_once(text));
            }
            let mut made = Vec::new();
            for choice in &choices {
                let (kind, method) = registry::make(choice)?;
                let ends = match background(choice, &*method) {
                    _ if method.ends_later() => Ends::ByItself,
                    Some(most) => {
                        most_in_flight = most_in_flight.min(most);
                        Ends::InBackground
                    }
                    None => Ends::AtClose,
                };
                made.push((choice.clone(), ToOpen { path: join(&choice.base_path, path), method, kind, ends }));
            }
            // Outputs in flight to the same files: the next output of the same method queues behind them.
            let later = made.iter().find(|(_, to_open)| to_open.ends.later());
            line = later.map(|(_, to_open)| written_key(to_open.method.name(), &to_open.path));
            wanted.later = line.is_some();
            let files: Vec<String> = made.iter().map(|(_, to_open)| to_open.path.clone()).collect();
            // A method of a change opens its first output itself: not behind others, whose failures are not its own.
            shared.in_flight.settle(&files, line.as_deref().filter(|_| !trial), comm.timeout())?;
            line.iter().try_for_each(|line| shared.in_flight.check_closed(line))?;
            for (_, to_open) in made.iter().filter(|(_, to_open)| !staging::is(to_open.kind)) {
                staging::settle(&*shared.layout, &to_open.path)?;
            }
            if comm.rank() == 0 && group.lock().builder.group().has_openpmd {
                let bp = made.iter().filter(|(_, to_open)| registry::writes_bp(to_open.kind));
                shared.shown.lock().extend(bp.map(|(_, to_open)| to_open.path.clone()));
            }
            let arrays = if comm.rank() == 0 && mode != Mode::Write { group.lock().arrays() } else { Arc::default() };
            joined = joined::arrays(group.lock().builder.group());
            alike.clone_from(&joined);
            match &steered {
                Some(steered) if !again => {
                    alike.extend(steered.read_rules(&choices, &group.lock())?);
                    wanted.news = steered.has_news();
                    if comm.rank() == 0 {
                        change = steered.look(&group.lock(), groups);
                        wanted.change = change.len() as u64;
                    }
                }
                None if choices.iter().any(steering::has_rules) => {
                    return Err(Error::new(ErrorKind::Config, "rules need control=yes, or control=FILE"));
                }
                Some(_) | None => {}
            }
            Ok((group, made, arrays))
        });
        // A mistake on some ranks only must not leave the others waiting.
        let (prepared, outcome) = match prepared {
            Ok(prepared) => (Some(prepared), Ok(())),
            Err(e) => (None, Err(e.in_group(group_name))),
        };
        let meets = Instant::now();
        let wanted = joined::agree_on_open(&*comm, outcome, OPENING, &alike, wanted)?;
        if let Some(steered) = steered.as_ref().filter(|_| !again) {
            steered.agreed(wanted.number);
            let numbers = wanted.news.then(|| comm.all_reduce(&steered.numbers(), Reduce::Max)).transpose();
            let numbers = numbers.map_err(|e| e.in_group(group_name))?;
            steered.decide(numbers.as_deref(), wanted.number, comm.rank());
        }
        if wanted.change > 0 {
            comm.broadcast(0, &mut change).map_err(|e| e.in_group(group_name))?;
            if let Some(steered) = &steered {
                steered.apply(&change, wanted.number, comm.rank()).map_err(|e| e.in_group(group_name))?;
            }
        }
        if trial {
            *spare = Some(comm.duplicate().map_err(|e| e.in_group(group_name))?);
        }
        if let (true, Some((_, made, _))) = (wanted.comparison, &prepared) {
            let methods: Vec<MethodChoice> = made.iter().map(|(choice, ..)| choice.clone()).collect();
            let own = Opening { group: group_name, path, mode, methods: &methods };
            consistency::check_opening(&*comm, &own).map_err(|e| e.in_group(group_name))?;
        }
        let (mut is_behind, moves) = (false, moves_in_calls(&*comm));
        if wanted.later {
            // The recorder of a profile belongs to the program's thread.
            let turn = match (&line, wanted.profile) {
                (Some(line), true) => shared.in_flight.wait_for_turn(line, comm.timeout()),
                _ => Ok(()),
            };
            let lacks = moves && lacks_memory(&shared, line.as_deref());
            let met = shared.in_flight.meet(&*comm, line.as_deref(), lacks).and_then(|(behind, lack)| {
                if lack {
                    // Here all ranks are inside the library, and messages of all move. No rank goes on alone.
                    let waited = shared.in_flight.wait_for_limit(0, comm.timeout());
                    agree(&*comm, waited, "wait for the memory of outputs in flight", &[])?;
                }
                Ok(behind)
            });
            is_behind = turn.and(met).map_err(|e| e.in_group(group_name))?;
        }
        let (mut profile, opening, comm, layout) = match wanted.profile {
            true => {
                let begun = Taking::begin(comm, shared.layout.clone(), begins, meets, run);
                (Some(begun.taking), Some(begun.opening), begun.comm, begun.layout)
            }
            false => (None, None, comm, shared.layout.clone()),
        };
        let here = profile.as_ref().map(|p| p.recorder().work());
        let Some((group, made, arrays)) = prepared else {
            return Err(Error::new(ErrorKind::InvalidArgument, "no method is ready"));
        };
        let comm = match made.iter().any(|(_, to_open)| to_open.ends.later()) {
            true if profile.is_none() => for_background(comm),
            _ => comm,
        };
        let named = made.iter().filter(|(_, to_open)| to_open.kind.id != STORES_NOTHING);
        let base = Header {
            group: group_name.to_string(),
            fortran: *shared.language.lock() == HostLanguage::Fortran,
            time_name: String::new(),
            time_index: 0,
            methods: named.map(|(choice, to_open)| (to_open.kind.id, parameter_text(choice))).collect(),
        };
        let how = MethodsOpening {
            shared: shared.clone(),
            layout,
            group: group_name.to_string(),
            mode,
            run,
            arrays,
            base: base.clone(),
        };
        let mut levels: HashMap<(String, String), Level> = HashMap::new();
        let (mut methods, mut behind_others) = (Vec::new(), Vec::new());
        let mut opened_run = run;
        for (_, to_open) in made {
            // A method that ends outputs by itself orders its own opens.
            let follows = is_behind && methods.iter().any(|active: &ActiveMethod| active.ends == Ends::ByItself);
            if is_behind && (follows || !behind_others.is_empty() || to_open.ends == Ends::InBackground) {
                behind_others.push(to_open);
                continue;
            }
            let (active, opened) = how.open(&*comm, to_open)?;
            opening::add_levels(&mut levels, opened.levels, group_name)?;
            if methods.is_empty() {
                opened_run = opened.run;
            }
            methods.push(active);
        }
        drop((opening, here));
        let profile = profile.take().map(|mut taking| {
            taking.opened();
            Profiled { taking, run: opened_run, is_new: mode == Mode::Write }
        });
        let (rank, timeout) = (comm.rank(), comm.timeout());
        let (comm, behind) = match (&line, behind_others.is_empty()) {
            (Some(line), false) => {
                let before = shared.in_flight.upcoming(line);
                let (step, of_file) = (how.next_step(before.step), before.levels);
                let of_file = if mode == Mode::Write { HashMap::new() } else { of_file };
                let behind = OpenBehind::new(shared.in_flight.clone(), line.clone(), timeout);
                methods.extend(behind.stand_ins(&how, &behind_others, step));
                let files = behind_others.iter().map(|to_open| to_open.path.clone()).collect();
                let upcoming = Upcoming { step, levels: of_file.clone(), bytes: before.bytes };
                levels.extend(of_file.clone());
                let work = behind.work(how, behind_others, comm, of_file);
                let number = shared.in_flight.add_open(Entry { line: line.clone(), files, upcoming }, work);
                (None, Some(BehindOthers { behind, number, closed: false }))
            }
            _ => (Some(comm), None),
        };
        let takes = |what| methods.iter().any(|active| active.takes == what);
        let pack = match takes(Takes::Blocks) && !takes(Takes::ProcessGroup) {
            true => Pack::of_blocks(shared.pool.clone()),
            false => Pack::new(shared.pool.clone(), &base),
        };
        if let (Some(steered), 0) = (&steered, rank) {
            steered.opened(methods.first().map_or(0, ActiveMethod::step));
        }
        let changed = steered.as_ref().map(|steered| steered.to_record()).unwrap_or_default();
        Ok(Output {
            profile,
            pack,
            shared,
            group_name: group_name.to_string(),
            group,
            methods,
            comm,
            behind,
            rank,
            timeout,
            most_in_flight,
            exceeds_buffer: false,
            moves_in_calls: moves,
            scalars: Scalars::new(),
            names: Names::default(),
            failed: None,
            levels,
            path: None,
            paths: HashMap::new(),
            joins: Joins::new(joined),
            boxes: Boxes::default(),
            transforms: HashMap::new(),
            record: wanted.comparison.then(consistency::Record::default),
            unwanted: false,
            settings: offered.map(|offered| offered.settings),
            changed,
            number: wanted.number,
            steered,
        })
    }

    /// An output that nobody wants: its writes have no effect, and its close sends no message.
    fn unwanted(
        shared: Arc<Shared>,
        group_name: &str,
        group: Arc<Mutex<DeclaredGroup>>,
        comm: &dyn Communicator,
    ) -> Output<'a> {
        let (rank, timeout) = (comm.rank(), comm.timeout());
        comm.set_idle();
        Output {
            profile: None,
            pack: Pack::of_blocks(shared.pool.clone()),
            shared,
            group_name: group_name.to_string(),
            group,
            methods: Vec::new(),
            comm: None,
            behind: None,
            rank,
            timeout,
            most_in_flight: u64::MAX,
            exceeds_buffer: false,
            moves_in_calls: false,
            scalars: Scalars::new(),
            names: Names::default(),
            failed: None,
            levels: HashMap::new(),
            path: None,
            paths: HashMap::new(),
            joins: Joins::default(),
            boxes: Boxes::default(),
            transforms: HashMap::new(),
            record: None,
            unwanted: true,
            settings: None,
            changed: Vec::new(),
            number: 0,
            steered: None,
        }
    }

    /// Whether the output is written: others may ask for fewer outputs ([`crate::Session::wanted`]).
    pub fn is_wanted(&self) -> bool {
        !self.unwanted
    }

    /// Announces how many bytes this rank is about to write, so that memory is allocated once. Optional.
    ///
    /// Returns these bytes plus those of names, shapes and statistics.
    pub fn group_size(&mut self, bytes: u64) -> u64 {
        let variables = self.group.lock().builder.group().variables.len() as u64;
        // The head of a record has about 200 bytes for a 3-D array with statistics.
        let total = bytes.saturating_add(200 * variables + 256);
        // The size of transformed blocks is known only after the transform.
        if !self.unwanted && !self.group.lock().builder.group().variables.iter().any(|v| !transform::name(v).is_empty())
        {
            self.pack.expect(total);
        }
        total
    }

    /// The step that is being written, from 0, in the file of the group's first method.
    pub fn step(&self) -> u64 {
        self.methods.first().map_or(0, ActiveMethod::step)
    }

    /// Writes all variables under this path instead of the declared one from now on. The program still uses the declared names,
    /// also in dimensions.
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

    /// The position in the group of a variable, by its full name, or by its bare name if only one variable has it.
    ///
    /// # Errors
    /// `NotFound` with the nearest name; `InvalidArgument` if several variables have the name.
    pub fn position(&mut self, name: &str) -> Result<usize> {
        let group = self.group.lock();
        let found = self.names.position(&group.builder.group().variables, name);
        found.map_err(|e| e.in_group(self.group_name.clone()))
    }

    /// Makes close fail, on all ranks: for a program that cannot finish its part of the step. Not collective.
    pub fn fail(&mut self, cause: Error) {
        self.broken(cause);
    }

    /// Collective: call instead of close on a rank that has failed. Its part of the step is lost; the other ranks keep theirs and
    /// get an error of the kind of `cause`.
    ///
    /// # Errors
    /// Always: `cause`, or another failure of the close.
    pub fn abandon(mut self, cause: Error) -> Result<Closed> {
        let cause = cause.at_rank(self.rank).in_group(self.group_name.clone());
        let copy = cause.again();
        self.failed.get_or_insert(cause);
        self.close().and_then(|closed| if closed.pending { Err(copy) } else { Ok(closed) })
    }

    /// Collective: commits the step. When it returns without error the step is readable, and durable with `sync=yes`; unless a
    /// method of the group ends outputs later, by itself or because of `async=yes` ([`Closed::pending`]): then it waits for no rank.
    ///
    /// # Errors
    /// On all ranks the same kind; the failing rank keeps the cause, the others name it. The message states the steps that are safe.
    /// Later failures are returned, on all ranks, by the next open of the file or at the end of the session.
    /// # Cost
    /// The collective calls of the group's methods, which their first pages list; with full consistency also two agreements, a
    /// gather and a broadcast.
    pub fn close(self) -> Result<Closed> {
        self.ended_or_pending().0
    }

    /// As [`Output::close`], and returns the output: to wait for its end, to ask for it, or to be called when it ends. Returns at once
    /// if the output ends later; otherwise the output has ended, and its failure is the result of a wait for it.
    pub fn start_close(self) -> PendingOutput {
        let in_flight = self.shared.in_flight.clone();
        let (closed, pending) = self.ended_or_pending();
        match (pending, closed) {
            (Some(pending), Ok(_)) => pending,
            (_, closed) => PendingOutput::ended(in_flight, closed),
        }
    }

    fn ended_or_pending(mut self) -> (Result<Closed>, Option<PendingOutput>) {
        self.shared.in_flight.call_back();
        if self.unwanted {
            return (self.failed.take().map_or(Ok(Closed::default()), Err), None);
        }
        let (shared, group) = (self.shared.clone(), self.group_name.clone());
        let ended = self.close_written();
        if ended.0.is_ok() {
            shared.steering.closed(&group);
        }
        ended
    }

    fn close_written(mut self) -> (Result<Closed>, Option<PendingOutput>) {
        let Some(mut profile) = self.profile.take() else {
            return match self.close_by_methods(true) {
                Committed::Ended { comm, closed, .. } => {
                    // After any failure, messages may still be in flight.
                    if let (Ok(_), Some(comm)) = (&closed, comm) {
                        comm.set_idle();
                    }
                    (closed, None)
                }
                Committed::Pending { closed, pending } => (closed, Some(pending)),
            };
        };
        profile.taking.closes();
        self.tell_events(&profile.taking);
        let Some(first) = self.methods.first() else { return (Ok(Closed::default()), None) };
        let (output, step) = (first.path.clone(), self.step());
        let methods = self.methods.iter().map(|active| active.name.to_string()).collect();
        let (shared, group) = (self.shared.clone(), self.group_name.clone());
        let committed = {
            let _here = profile.taking.recorder().work();
            let _closing = profile.taking.recorder().span(Phase::Close);
            self.close_by_methods(false)
        };
        let (comm, closed, group_bytes) = match committed {
            Committed::Ended { comm, closed, bytes } => (comm, closed, bytes),
            Committed::Pending { closed, pending } => return (closed, Some(pending)),
        };
        let about = About {
            layout: &*shared.layout,
            output: &output,
            group: &group,
            methods,
            step,
            run: profile.run,
            is_new: profile.is_new,
            group_bytes,
            buffer_bytes: shared.pool.peak(),
            outcome: closed.as_ref().map(|closed| closed.bytes),
        };
        if let Some(mut comm) = comm {
            profile.taking.finish(&mut *comm, &about);
        }
        (closed, None)
    }

    /// Adds the program's events since the last output to the profile.
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

    /// Closes the output by all its methods.
    ///
    /// - `later`: methods may end it after this has returned.
    fn close_by_methods(mut self, later: bool) -> Committed {
        let rank = self.rank;
        let attributes = caught("gather the attributes", || Ok(if rank == 0 { self.attributes() } else { Vec::new() }));
        let mut failed = self.failed.take();
        let attributes = attributes.unwrap_or_else(|e| {
            failed.get_or_insert(e.at_rank(rank).in_group(self.group_name.clone()));
            Vec::new()
        });
        // Where messages move inside calls, the other ranks may be in none.
        let waits = self.exceeds_buffer && !self.moves_in_calls;
        let most = if waits { 0 } else { self.most_in_flight };
        let mut settling = Settling { joins: self.joins, record: self.record, group: self.group_name };
        let Output { shared, methods, mut pack, comm, behind, timeout, levels, .. } = self;
        let line = methods.iter().find(|active| active.ends.later()).map(ActiveMethod::key);
        let limited = methods.iter().any(|active| active.ends == Ends::InBackground);
        let in_background = later && methods.first().is_some_and(|active| active.ends == Ends::InBackground);
        let bytes = pack.length();
        let upcoming = opening::upcoming(&methods, &levels, bytes);
        let (finished, outcome) = (Vec::new(), Ok(Closed::default()));
        let in_flight = shared.in_flight.clone();
        let mut ending = Ending { shared, rank, methods: methods.into(), attributes, failed, finished, outcome };
        let limit = |closed: Result<Closed>| match limited {
            true => in_flight.wait_for_limit(most, timeout).and(closed),
            false => closed,
        };
        if in_background || behind.is_some() {
            // No rank waits for another one: ranks agree in the background.
            let Some(line) = line else {
                let what = "the output has no place among those in flight";
                return Committed::ended(None, Err(Error::new(ErrorKind::InvalidArgument, what)), 0);
            };
            let mut pack = ending.own(pack, timeout);
            let files = ending.files();
            let end = move |comm: Option<Box<dyn Communicator>>| {
                let Some(comm) = comm else {
                    let lost = Error::new(ErrorKind::InvalidArgument, "the output has no communicator");
                    return Done { outcome: Err(lost), comm: None };
                };
                settling.settle(&*comm, &mut pack, &mut ending.failed);
                ending.close_now(&*comm, &mut pack);
                ending.end(comm, pack)
            };
            let pending = match behind {
                None => in_flight.add(Entry { line, files, upcoming }, timeout, Box::new(|| end(comm))),
                Some(mut place) => {
                    place.closed = true;
                    let (behind, line, number) = (place.behind.clone(), place.line().to_string(), place.number);
                    let end = move || match behind.end() {
                        (Ok(()), comm) => end(comm),
                        (Err(e), comm) => Done { outcome: Err(e), comm },
                    };
                    in_flight.close(&line, number, bytes, timeout, Box::new(end))
                }
            };
            let closed = limit(Ok(Closed { bytes: 0, pending: true }));
            return Committed::Pending { closed, pending };
        }
        let Some(comm) = comm else {
            let what = "the output has no communicator";
            return Committed::ended(None, Err(Error::new(ErrorKind::InvalidArgument, what)), 0);
        };
        settling.settle(&*comm, &mut pack, &mut ending.failed);
        ending.close_now(&*comm, &mut pack);
        let bytes = pack.length();
        let Some(line) = line else { return Committed::ended(Some(comm), ending.outcome, bytes) };
        let files = ending.files();
        let pack = ending.own(pack, timeout);
        let before = std::mem::replace(&mut ending.outcome, Ok(Closed::default()));
        let taken = match ending.hand_over(comm, pack) {
            Ok(taken) => taken,
            Err(none_left) => {
                let (ending, comm) = *none_left;
                return Committed::ended(Some(comm), before.and(ending.outcome), bytes);
            }
        };
        if later {
            let pending = in_flight.add(Entry { line: line.clone(), files, upcoming }, timeout, taken.work());
            let closed = limit(before.map(|before| Closed { pending: true, ..before }));
            return Committed::Pending { closed, pending };
        }
        let turn = in_flight.wait_for_turn(&line, timeout);
        let Done { outcome, comm } = taken.work()();
        let all = before.and_then(|before| outcome.map(|then| Closed::of(before.bytes.saturating_add(then.bytes))));
        Committed::ended(comm, turn.and(all), bytes)
    }
}

/// The agreement of ranks on their blocks, before the methods close.
struct Settling {
    joins: Joins,
    record: Option<consistency::Record>,
    group: String,
}

impl Settling {
    /// Collective, if the group has joined arrays or ranks compare their blocks.
    fn settle(&mut self, comm: &dyn Communicator, pack: &mut Pack<'_>, failed: &mut Option<Error>) {
        if let Err(e) = self.joins.settle(comm, pack, failed.is_some()) {
            failed.get_or_insert(e.in_group(self.group.clone()));
        }
        if let Some(record) = &self.record
            && let Err(e) = consistency::check_written(comm, record, failed.is_some())
        {
            failed.get_or_insert(e.in_group(self.group.clone()));
        }
    }
}

/// An output after the close of the program.
enum Committed {
    Ended {
        /// The communicator, if it has no other user.
        comm: Option<Box<dyn Communicator>>,
        closed: Result<Closed>,
        /// Length of this rank's process group.
        bytes: u64,
    },
    Pending {
        closed: Result<Closed>,
        pending: PendingOutput,
    },
}

impl Committed {
    fn ended(comm: Option<Box<dyn Communicator>>, closed: Result<Closed>, bytes: u64) -> Committed {
        Committed::Ended { comm, closed, bytes }
    }
}

/// The largest number of outputs in flight, if outputs of this method are to end in the background.
fn background(choice: &MethodChoice, method: &dyn Method) -> Option<u64> {
    let parameters = Parameters::from(choice.parameters.clone());
    let most = || parameters.get(&IN_FLIGHT).unwrap_or(4);
    let chosen = parameters.text(&ASYNC).map(|_| parameters.get(&ASYNC).unwrap_or(false));
    chosen.unwrap_or(method.in_background()).then(most)
}

/// Whether messages of outputs in the background move inside the program's calls.
fn moves_in_calls(comm: &dyn Communicator) -> bool {
    comm.size() > 1 && comm.thread_level() != ThreadLevel::Multiple
}

/// Whether the buffer limit has no room for an output as long as the last one of the line, beside those in flight.
fn lacks_memory(shared: &Shared, line: Option<&str>) -> bool {
    let next = line.map_or(0, |line| shared.in_flight.upcoming(line).bytes);
    shared.pool.limit().is_some_and(|limit| shared.pool.used().saturating_add(next) > limit)
}

/// The communicator that a thread of the library uses in place of this one.
fn for_background(comm: Box<dyn Communicator>) -> Box<dyn Communicator> {
    if comm.thread_level() == ThreadLevel::Multiple {
        return comm;
    }
    if comm.size() > 1 {
        return in_calls::for_threads(comm);
    }
    // One rank needs no messages.
    let mut alone = Alone::new();
    alone.set_timeout(comm.timeout());
    comm.set_idle();
    Box::new(alone)
}

/// The level of statistics that the schema requires for a variable.
pub(crate) fn level_of(variable: &Variable, group: &Group) -> Level {
    match variable.statistics.unwrap_or(group.statistics) {
        Statistics::Off => Level::Off,
        Statistics::MinMax => Level::MinMax,
        Statistics::Default => Level::Beside,
        Statistics::Full => Level::Full,
    }
}

fn no_variable(at: usize) -> Error {
    Error::new(ErrorKind::NotFound, format!("the group has no variable number {at}"))
}

/// The warning for a buffer limit below the minimum of a method.
fn too_low(choice: &MethodChoice, limit: u64) -> Option<String> {
    let kind = registry::find(&choice.method).filter(|kind| limit < kind.least)?;
    Some(format!(
        "the buffer limit is {limit} bytes; method {} holds {} to carry data to its files, and takes these all the same",
        kind.names[0], kind.least
    ))
}

/// A path and a name that every reader joins to the full name: no slash at the end of a path. Where readers would join them
/// differently (the path `/`, several slashes in a row), the full name without a path.
pub(crate) fn stored<'n>(path: &'n str, name: &'n str) -> (&'n str, Cow<'n, str>) {
    match path.strip_suffix('/') {
        None => (path, Cow::Borrowed(name)),
        Some(kept) if kept.is_empty() || kept.ends_with('/') || name.starts_with('/') => {
            ("", Cow::Owned(format!("{path}{name}")))
        }
        Some(kept) => (kept, Cow::Borrowed(name)),
    }
}

pub(crate) fn join(base: &str, path: &str) -> String {
    if base.is_empty() || path.starts_with('/') {
        path.to_string()
    } else if base.ends_with('/') {
        format!("{base}{path}")
    } else {
        format!("{base}/{path}")
    }
}

/// Parameters as one text, as stored in process groups.
fn parameter_text(choice: &MethodChoice) -> String {
    let mut text = choice.parameters.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(";");
    let mut end = text.len().min(LONGEST_STRING / 2);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
