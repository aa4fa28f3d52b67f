//! Steering: what a run writes, how, and how often, changed while it runs ([`thalweg_control`]).
//!
//! | question | answer |
//! |---|---|
//! | which outputs | those of a method with `control=yes` or `control=FILE` |
//! | where is a change asked for | in the control file, which rank 0 looks for at the open of each written output |
//! | how do the ranks learn it | its length is a number in the reduction of every open; only if it is not 0, a broadcast follows |
//! | when does it hold | from the output after the one that brought it |
//! | an output that is not wanted | opens and closes without a message; nothing is written |
//! | rules | each rank notes what they say of its values; numbers of a rank are exchanged at the next open, if they are others than before |
//! | another method | in place of the one with `control`; if it cannot open its first output, the declared one does, with a warning |
//! | a run that offers no output for long | rank 0 warns, in a thread that no message depends on |
//! | the answer | in the run file, when the output that brought the change is open; its lock shows that the run is alive |
//! | the record | an attribute of the output that brought the change ([`thalweg_control::history`]) |
//!
//! Decision: `docs/decisions/0084-changes-ride-on-outputs.md`.

pub mod asking;
pub mod files;
mod idle;
pub(crate) mod method;

use crate::session::{DeclaredGroup, SharedGroup};
use files::RunFile;
use idle::Watch;
use method::{Tried, check};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_bp::rows::Rows;
use thalweg_bp::shape::JOINED;
use thalweg_bp::statistics::{Accumulator, Level};
use thalweg_control::rules::{Acts, Seen};
use thalweg_control::{Answer, Arrays, Change, Method, Numbering, Record, Request, Rules, Settings, Stop, Verdict};
use thalweg_movement::method::{Parameter, Parameters};
use thalweg_schema::dimension::Dimension;
use thalweg_schema::{MethodChoice, Variable};
use thalweg_types::mutex::Mutex;
use thalweg_types::{ElementType, Error, ErrorKind, Result};

/// `control`, known to every method.
pub const PARAMETER: Parameter = Parameter::text(
    "control",
    "yes, no, or a file",
    "yes: `thalweg control` changes what is written, and how often, while the program runs, by a file OUTPUT.control; a file: the same, by this file (guide: Steering a run)",
)
.or_else("no");

/// `rules`, known to every method.
pub const RULES: Parameter = Parameter::text(
    "rules",
    "when max(T) > 1e6 for 2 steps: every=1",
    "with control: changes that the values of an output ask for, separated by |, or a file with them (guide: Steering a run)",
);

/// The control file of an output; `None`: the output is not steered.
///
/// # Cost
/// A comparison with each parameter's key, where no method has the parameter.
fn control_file<'c>(mut choices: impl Iterator<Item = &'c MethodChoice>, path: &str) -> Option<PathBuf> {
    choices.find_map(|choice| match control(choice)? {
        Control::Output => Some(files::of_output(Path::new(&crate::output::join(&choice.base_path, path)))),
        Control::File(file) => Some(file),
    })
}

/// By which control file a method is steered.
enum Control {
    /// That of the output.
    Output,
    File(PathBuf),
}

/// `None`: the method is not steered.
fn control(choice: &MethodChoice) -> Option<Control> {
    choice.parameters.iter().find(|(key, _)| PARAMETER.is(key))?;
    let parameters = Parameters::from(choice.parameters.clone());
    let word = parameters.text(&PARAMETER)?.trim().to_string();
    match thalweg_params::switch(&word) {
        Some(true) => Some(Control::Output),
        None if !word.is_empty() => Some(Control::File(PathBuf::from(word))),
        _ => None,
    }
}

/// Whether a method has rules.
pub(crate) fn has_rules(choice: &MethodChoice) -> bool {
    choice.parameters.iter().any(|(key, _)| RULES.is(key))
}

/// All control files of a session.
#[derive(Default)]
pub(crate) struct Steering(Mutex<HashMap<PathBuf, Arc<Steered>>>);

impl Steering {
    /// The state of an output's control file; `None` if it is not steered.
    pub(crate) fn of(&self, group: &SharedGroup, path: &str) -> Option<Arc<Steered>> {
        let control = {
            let group = group.lock();
            control_file(group.methods.iter().chain(group.builder.methods()), path)?
        };
        let mut all = self.0.lock();
        Some(all.entry(control.clone()).or_insert_with(|| Arc::new(Steered::new(control))).clone())
    }

    /// Whether the program is asked to stop.
    pub(crate) fn stop_requested(&self) -> bool {
        self.0.lock().values().any(|steered| steered.state.lock().settings.stop == Stop::Now)
    }

    /// An output of this group is closed.
    pub(crate) fn closed(&self, group: &str) {
        self.0.lock().values().for_each(|steered| steered.closed(group));
    }

    /// At the end of the session: removes the run files.
    pub(crate) fn end(&self) {
        self.0.lock().clear();
    }
}

/// The outputs that one control file steers.
pub(crate) struct Steered {
    control: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    numbering: Numbering,
    settings: Arc<Settings>,
    /// From the first open of a written output on.
    rules: Option<Rules>,
    /// Their text, also where it comes from a file.
    rules_text: Option<String>,
    /// The first output for which what rules changed holds, until the run file tells it.
    acted: Option<u64>,
    /// On rank 0, from the first open on.
    run: Option<RunFile>,
    /// The run file could not be made.
    alone: bool,
    record: Record,
    /// A change that all ranks know and that nobody has been told of: the id of its request, and the first output for which it holds.
    unanswered: Option<(String, u64)>,
    /// Changes that no output has on record yet: the first outputs for which they hold, and these in words.
    unrecorded: Vec<(u64, String)>,
    /// What is known of the method of the last change.
    tried: Tried,
    /// What the output before has on record for the one that opens now.
    on_record: (u64, String),
    /// When the program last asked or opened, and the longest time between two of these since the last written output.
    last: Option<Instant>,
    longest: Duration,
    /// On rank 0, if a rule is about time.
    watch: Option<Watch>,
}

/// An output that the program opens.
pub(crate) struct Offered {
    /// By which the program knows it.
    pub(crate) number: u64,
    pub(crate) wanted: bool,
    pub(crate) settings: Arc<Settings>,
}

impl Steered {
    fn new(control: PathBuf) -> Steered {
        Steered { control, state: Mutex::default() }
    }

    /// Whether the output is wanted that the program is about to open under this number.
    pub(crate) fn ask(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        state.goes_on(number);
        let every = state.settings.every;
        state.numbering.ask(number, every)
    }

    /// Whether an array is written at present.
    pub(crate) fn writes(&self, full: &str) -> bool {
        self.state.lock().settings.writes(full)
    }

    /// Call at each open, on all ranks.
    pub(crate) fn offer(&self) -> Offered {
        let mut state = self.state.lock();
        let settings = state.settings.clone();
        let (number, wanted) = state.numbering.open(settings.every);
        state.goes_on(number);
        Offered { number, wanted, settings }
    }

    /// The method of a change, if this file is written by it: it makes sense for the group, and was not left for the file.
    pub(crate) fn method_of<'s>(
        &self,
        file: (&str, &str),
        settings: &'s Settings,
        group: &DeclaredGroup,
    ) -> Option<&'s Method> {
        let method = settings.method.as_ref()?;
        self.state.lock().tried.uses(method, file, || check(group, method).is_ok()).then_some(method)
    }

    /// Whether the method of an output is one of a change that has not opened this file yet.
    pub(crate) fn is_trial(&self, file: (&str, &str), settings: &Settings) -> bool {
        let mut state = self.state.lock();
        settings.method.as_ref().is_some_and(|method| !state.tried.is_proven(method, file))
    }

    /// The method of a change has opened its first output of a file.
    pub(crate) fn prove(&self, file: (&str, &str), settings: &Settings) {
        if let Some(method) = &settings.method {
            self.state.lock().tried.prove(method, file);
        }
    }

    /// On all ranks: the method of a change could not open its first output of a file, because of `e`: the declared one takes its place.
    /// Returns the settings of this output.
    ///
    /// - `tried`: those with which it was tried; `number`: of the output.
    pub(crate) fn back_to_declared(
        &self,
        file: (&str, &str),
        tried: &Settings,
        number: u64,
        e: &Error,
        rank: u32,
    ) -> Arc<Settings> {
        let declared = Arc::new(Settings { method: None, ..tried.clone() });
        let Some(method) = &tried.method else { return declared };
        let mut state = self.state.lock();
        // It may write other files of the same control file.
        let serves_others = state.tried.leave(method, file);
        if !serves_others && state.settings.method == tried.method {
            Arc::make_mut(&mut state.settings).method = None;
            state.acted = Some(number);
        }
        let name = &method.name;
        // The output before has told of it under the same number.
        let before = std::mem::take(&mut state.on_record);
        if before.0 == number {
            state.unrecorded.push(before);
        }
        state.unrecorded.push((number, format!("method=declared ({name} failed)")));
        if rank == 0 {
            let what = format!("method {name} cannot write output {number}, so the declared method does: {e}");
            thalweg_warnings::tell_once(&what);
        }
        declared
    }

    /// Changes that the output that has opened is to have on record.
    pub(crate) fn to_record(&self) -> Vec<(u64, String)> {
        let mut state = self.state.lock();
        let changes = std::mem::take(&mut state.unrecorded);
        if let Some((last, _)) = changes.last() {
            let words: Vec<&str> =
                changes.iter().filter(|(output, _)| output == last).map(|(_, what)| &**what).collect();
            state.on_record = (*last, words.join("; "));
        }
        changes
    }

    /// An output of this group is closed.
    fn closed(&self, group: &str) {
        let mut state = self.state.lock();
        if !state.settings.awaits(group) {
            return;
        }
        state.change(&Change { stop: Some(Stop::Now), ..Change::default() });
        state.record.settings = state.settings.as_change();
        state.tell();
    }

    /// At the open of a written output: reads the rules of its methods, once, and checks them. Returns their text, which is the same on
    /// all ranks, if there are any.
    ///
    /// # Errors
    /// As [`Rules::parse`], [`Rules::check`].
    pub(crate) fn read_rules(&self, choices: &[MethodChoice], group: &DeclaredGroup) -> Result<Option<String>> {
        let given = choices.iter().find_map(|choice| {
            choice.parameters.iter().find(|(key, _)| RULES.is(key))?;
            Parameters::from(choice.parameters.clone()).text(&RULES).map(str::to_string)
        });
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.rules.is_none() {
            let text = given.map(written_rules).transpose()?;
            let rules = Rules::parse(text.as_deref().unwrap_or_default())?;
            for (rule, method) in rules.methods() {
                let wrong = |e: Error| Error::new(ErrorKind::Config, format!("rule \"{rule}\": {}", e.what()));
                check(group, method).map_err(wrong)?;
            }
            (state.rules, state.rules_text) = (Some(rules), text);
        }
        if let Some(rules) = &mut state.rules {
            rules.note_time(state.longest);
        }
        if let Some(rules) = state.rules.as_mut().filter(|rules| rules.needs_check()) {
            let (names, dimensions) = (names(group), dimensions(group));
            let arrays = Arrays { names: &names, dimensions: &dimensions };
            let numeric = group.builder.group().variables.iter().filter(|v| is_real(v.element));
            rules.check(&numeric.map(Variable::full_name).collect::<Vec<_>>(), arrays)?;
        }
        Ok(state.rules_text.clone())
    }

    /// Whether this rank has seen other values than before, for a rule.
    pub(crate) fn has_news(&self) -> bool {
        self.state.lock().rules.as_ref().is_some_and(Rules::has_news)
    }

    /// This rank's numbers for the rules.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.state.lock().rules.as_ref().map(|rules| rules.numbers().to_vec()).unwrap_or_default()
    }

    /// Collective by its arguments: rules change what is written, from the output after this one on.
    ///
    /// - `all`: the largest numbers of all ranks, if any had news; `number`: of the output that opens.
    pub(crate) fn decide(&self, all: Option<&[u64]>, number: u64, rank: u32) {
        let mut state = self.state.lock();
        state.longest = Duration::ZERO;
        let acts = state.rules.as_mut().map(|rules| rules.decide(all)).unwrap_or_default();
        if acts.is_empty() {
            return;
        }
        let since = number.saturating_add(1);
        acts.iter().for_each(|act| state.change(&act.change));
        state.acted = Some(since);
        for Acts { text, .. } in acts.iter().filter(|act| act.warns && rank == 0) {
            let output = self.control.with_extension("");
            thalweg_warnings::tell_once(&format!("{}: before output {number} a rule holds: {text}", output.display()));
        }
        state.unrecorded.extend(acts.iter().map(|act| (since, act.to_string())));
    }

    /// Notes the values of a block for the rules that need them.
    ///
    /// # Cost
    /// Nothing for a variable that no rule names; else one pass over the values.
    pub(crate) fn note(&self, full: &str, element: ElementType, rows: &Rows<'_>) {
        if !self.state.lock().rules.as_ref().is_some_and(|rules| rules.need(full)) {
            return;
        }
        // Pieces that a cache holds, in whole values.
        const PIECE: usize = 64 << 10;
        let mut values = Accumulator::new(element, Level::Full);
        let Ok(()) = rows.pieces(PIECE, |piece| -> std::result::Result<(), std::convert::Infallible> {
            values.update(piece);
            Ok(())
        });
        let Some(found) = values.finish() else { return };
        let range = found.min.as_f64().zip(found.max.as_f64()).filter(|_| found.finite > 0);
        let finite = found.finite == rows.len() as u64 / element.size().max(1);
        if let Some(rules) = &mut self.state.lock().rules {
            rules.note(full, &Seen { range, finite });
        }
    }

    /// All ranks have agreed on the number of the output that was offered last.
    pub(crate) fn agreed(&self, number: u64) {
        self.state.lock().numbering.agreed(number);
    }

    /// The open of the output that was offered last failed, on all ranks: the next one is written in its place.
    pub(crate) fn failed(&self) {
        self.state.lock().numbering.failed();
    }

    /// On rank 0, at the open of a written output: the request that waits, as text for the other ranks; empty if none does. A request
    /// that makes no sense is answered at once.
    ///
    /// - `groups`: names of the groups of the session.
    ///
    /// # Cost
    /// One `open` that finds nothing.
    pub(crate) fn look(&self, group: &DeclaredGroup, groups: &dyn Fn() -> Vec<String>) -> Vec<u8> {
        let mut state = self.state.lock();
        if state.run.is_none() && !state.alone {
            state.begin(&self.control);
            let awaited = state.rules.iter().flat_map(Rules::awaited);
            // It may be declared later.
            awaited.filter_map(|awaited| check_group(awaited, groups).err()).for_each(|e| {
                thalweg_warnings::tell_once(&format!("a rule waits for an output of a group: {}", e.what()));
            });
        }
        state.watch_time(&self.control);
        if state.alone {
            return Vec::new();
        }
        let bytes = match files::read_owned(&self.control) {
            Ok(None) => return Vec::new(),
            Ok(Some(bytes)) => bytes,
            Err(e) => {
                thalweg_warnings::tell_once(&format!("the control file is not followed: {e}"));
                return Vec::new();
            }
        };
        let (names, dimensions) = (names(group), dimensions(group));
        let checked = Request::parse(&bytes).and_then(|request| {
            let change = request.change.checked(Arrays { names: &names, dimensions: &dimensions })?;
            change.method.iter().flatten().try_for_each(|method| check(group, method))?;
            if let Some(Stop::After(awaited)) = &change.stop {
                check_group(awaited, groups)?;
            }
            Ok(Request { change, ..request })
        });
        match checked {
            Ok(request) => request.encode().into_bytes(),
            Err(e) => {
                let id = Request::id_of(&bytes).unwrap_or_default();
                state.take_away(&self.control);
                state.answer(id, Verdict::Refused(e.what().to_string()));
                Vec::new()
            }
        }
    }

    /// On all ranks, when they know a change: it holds from the output after this one.
    ///
    /// - `number`: of the output that brings the change.
    ///
    /// # Errors
    /// As [`Request::parse`]: rank 0 has sent something else than a request.
    pub(crate) fn apply(&self, text: &[u8], number: u64, rank: u32) -> Result<()> {
        let Request { id, change } = Request::parse(text)?;
        let mut state = self.state.lock();
        state.change(&change);
        let since = number.saturating_add(1);
        state.unrecorded.push((since, change.to_string()));
        if rank == 0 {
            state.take_away(&self.control);
            state.unanswered = Some((id, since));
        }
        Ok(())
    }

    /// On rank 0, when an output is open: answers a request that holds.
    ///
    /// - `step`: of the output in its file.
    pub(crate) fn opened(&self, step: u64) {
        let mut state = self.state.lock();
        let (asked, acted) = (state.unanswered.take(), state.acted.take());
        let Some(since) = asked.as_ref().map(|(_, output)| *output).or(acted) else { return };
        state.record.settings = state.settings.as_change();
        state.record.since = since;
        match asked {
            Some((id, output)) => state.answer(id, Verdict::Accepted { output, step: step.saturating_add(1) }),
            None => state.tell(),
        }
    }
}

impl State {
    /// Changes the settings. A method that is asked for again is tried again.
    fn change(&mut self, change: &Change) {
        Arc::make_mut(&mut self.settings).apply(change);
        if change.method.is_some() {
            self.tried = Tried::default();
        }
    }

    /// The program asks for an output of this number, or opens it.
    fn goes_on(&mut self, number: u64) {
        let now = Instant::now();
        let since = self.last.replace(now).map_or(Duration::ZERO, |last| now - last);
        self.longest = self.longest.max(since);
        if let Some(watch) = &self.watch {
            watch.goes_on(number);
        }
    }

    /// On rank 0: warns where the program offers no output for so long as a rule says.
    fn watch_time(&mut self, control: &Path) {
        let rules = self.rules.as_ref().filter(|_| self.watch.is_none());
        let limits = rules.into_iter().flat_map(Rules::idle).map(|(rule, limit)| (limit, rule.to_string()));
        let limits: Vec<(Duration, String)> = limits.collect();
        if !limits.is_empty() {
            self.watch = Watch::begin(control.with_extension(""), self.numbering.last(), limits);
        }
    }

    /// Makes the run file; without one there is no steering.
    fn begin(&mut self, control: &Path) {
        match RunFile::begin(&files::run_file(control)) {
            Ok(run) => {
                self.run = Some(run);
                // The request of an earlier run.
                self.take_away(control);
                self.record = Record {
                    host: files::host(),
                    pid: std::process::id(),
                    settings: Change { every: Some(1), ..Change::default() },
                    ..Record::default()
                };
                self.tell();
            }
            Err(e) => {
                self.alone = true;
                thalweg_warnings::tell_once(&format!("this run cannot be steered: {e}"));
            }
        }
    }

    fn take_away(&mut self, control: &Path) {
        match std::fs::remove_file(control) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                let e = Error::io("cannot remove the control file", e).in_object(control.display().to_string());
                thalweg_warnings::tell_once(&e.to_string());
            }
            _ => {}
        }
    }

    fn answer(&mut self, id: String, verdict: Verdict) {
        self.record.answer(Answer { id, verdict });
        self.tell();
    }

    fn tell(&mut self) {
        if let Some(Err(e)) = self.run.as_mut().map(|run| run.write(&self.record)) {
            thalweg_warnings::tell_once(&e.to_string());
        }
    }
}

/// The rules of the parameter: as they are, or in a file.
///
/// # Errors
/// That of reading the file.
fn written_rules(given: String) -> Result<String> {
    let begin = given.trim_start_matches(|c: char| c.is_whitespace() || c == '|');
    if begin.is_empty() || begin.starts_with("when ") || begin.starts_with('#') {
        return Ok(given);
    }
    std::fs::read_to_string(&given).map_err(|e| Error::io("cannot read the rules", e).in_object(given))
}

/// Checks the group whose output a stop waits for.
///
/// # Errors
/// `NotFound` for an unknown one, with the nearest.
fn check_group(awaited: &str, groups: &dyn Fn() -> Vec<String>) -> Result<()> {
    let known = groups();
    if known.iter().any(|name| name == awaited) {
        return Ok(());
    }
    let hint = thalweg_params::nearest(awaited, known.iter().map(String::as_str));
    let hint = hint.map_or(String::new(), |name| format!("; did you mean \"{name}\"?"));
    Err(Error::new(ErrorKind::NotFound, format!("the program has no group \"{awaited}\"{hint}")))
}

/// Whether rules can compare values of this type.
fn is_real(element: ElementType) -> bool {
    use ElementType::{LongDouble, String, StringArray};
    !element.is_complex() && !matches!(element, LongDouble | String | StringArray)
}

/// Full names of the arrays of a group.
fn names(group: &DeclaredGroup) -> Vec<String> {
    arrays(group).map(Variable::full_name).collect()
}

/// Numbers of dimensions of the global arrays of a group.
fn dimensions(group: &DeclaredGroup) -> Vec<usize> {
    arrays(group).filter(|v| is_global(v)).map(|v| v.global.len()).collect()
}

/// The arrays of a group.
fn arrays(group: &DeclaredGroup) -> impl Iterator<Item = &Variable> {
    group.builder.group().variables.iter().filter(|v| !v.local.is_empty())
}

/// Whether the blocks of an array have a place in a global array when they are written.
fn is_global(variable: &Variable) -> bool {
    !variable.global.is_empty() && !variable.global.contains(&Dimension::Joined)
}

/// Whether a block may be cut: it has a place in a global array.
pub(crate) fn may_cut(shape: &thalweg_bp::shape::Shape) -> bool {
    shape.global.iter().any(|extent| *extent > 0) && !shape.global.contains(&JOINED)
}

/// The full name of the array that a program names.
///
/// # Errors
/// `NotFound`, `InvalidArgument` as [`Change::checked`].
pub(crate) fn full_name(group: &DeclaredGroup, name: &str) -> Result<String> {
    let names = names(group);
    let only = Some(Some([name.to_string()].into()));
    let change = Change { only, ..Change::default() }.checked(Arrays { names: &names, dimensions: &[] })?;
    let full = change.only.flatten().and_then(|only| only.into_iter().next());
    full.ok_or_else(|| Error::new(ErrorKind::NotFound, "no such array"))
}
