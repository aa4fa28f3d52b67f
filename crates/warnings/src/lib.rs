//! Warnings: conditions that a program should know of although it continues.
//!
//! The library emits warnings as events of `tracing`, and as texts with [`tell_once`]. Recipients and options:
//!
//! | question | answer |
//! |----------|--------|
//! | by default | one line on the standard error stream for each kind of warning, `thalweg: warning: ...`; a kind is a place in the code, or a text of [`tell_once`] |
//! | rank | the rank that notices the condition. Conditions known to all ranks (events with the field `every_rank`) are printed by rank 0 |
//! | level | `THALWEG_LOG`: `off`, `warn` (default), `info`, `debug`. From `info` on every event is printed, not each kind once. Another value counts as `warn`, with a warning from rank 0 |
//! | a file per rank | `THALWEG_LOG_FILE=PATH`: all events of that level are appended to `PATH.RANK`, with the time; to `PATH` if the process is no rank |
//! | a program that hears by itself | [`hear`]: the standard error stream gets nothing then. A Rust program may set a `tracing` subscriber of its own before the first session; then nothing here is used |
//! | other libraries | not shown: only events whose target begins with `thalweg` |
//! | foreign names | escaped ([`thalweg_types::printable`]): they cannot forge a line or control a terminal |
//! | secrets | are never part of an event |
//! | `THALWEG_ERRORS=quiet` | as `THALWEG_LOG=off`, unless that is set |
//! | cost | of an event below the level: reading one number |
//!
//! A warning never fails the call that emits it: a closed stream and a file that cannot be written are skipped.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::fmt::{Debug, Write as _};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard, Once};
use std::time::SystemTime;
use thalweg_types::mutex::Mutex;
use thalweg_types::printable::printable;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The environment variable for the level.
pub const VARIABLE: &str = "THALWEG_LOG";
/// The environment variable that names the files of the ranks.
pub const FILE_VARIABLE: &str = "THALWEG_LOG_FILE";
/// The environment variable that silences messages of failures and, without [`VARIABLE`], warnings.
pub const ERRORS_VARIABLE: &str = "THALWEG_ERRORS";

/// Number of kinds and texts that are remembered; beyond, a warning may be printed again.
const MOST_KEPT: usize = 4096;
/// No rank is known.
const NO_RANK: u32 = u32::MAX;

/// How much a message matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The program should know it.
    Warn,
    /// Operations in outline.
    Info,
    /// Operations in detail.
    Debug,
}

impl Level {
    /// Its name, as [`VARIABLE`] has it.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }

    /// Events of libraries are of five levels: errors are warnings here, as calls return errors, and traces are details.
    fn of(level: &tracing::Level) -> Level {
        match *level {
            tracing::Level::ERROR | tracing::Level::WARN => Level::Warn,
            tracing::Level::INFO => Level::Info,
            tracing::Level::DEBUG | tracing::Level::TRACE => Level::Debug,
        }
    }
}

/// The level of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Threshold {
    Nothing,
    UpTo(Level),
}

impl Threshold {
    /// - `log`, `errors`: values of the environment variables.
    ///
    /// The error of the first value, which then counts as `warn`.
    fn of(log: Option<&str>, errors: Option<&str>) -> (Threshold, Option<String>) {
        match log.map(str::trim).filter(|log| !log.is_empty()) {
            None if errors == Some("quiet") => (Threshold::Nothing, None),
            None => (Threshold::UpTo(Level::Warn), None),
            Some("off") => (Threshold::Nothing, None),
            Some("warn") => (Threshold::UpTo(Level::Warn), None),
            Some("info") => (Threshold::UpTo(Level::Info), None),
            Some("debug") => (Threshold::UpTo(Level::Debug), None),
            Some(other) => {
                let what = format!("{VARIABLE}={}: expected off, warn, info or debug", printable(other));
                (Threshold::UpTo(Level::Warn), Some(what))
            }
        }
    }

    /// As [`Threshold::of`], of this process's environment.
    fn of_environment() -> (Threshold, Option<String>) {
        let variable = |name: &str| std::env::var(name).ok();
        Threshold::of(variable(VARIABLE).as_deref(), variable(ERRORS_VARIABLE).as_deref())
    }

    fn takes(self, level: Level) -> bool {
        matches!(self, Threshold::UpTo(most) if level <= most)
    }
}

/// Receives messages in place of the standard error stream. Called by any thread, one message at a time; messages emitted by the handler
/// itself are dropped.
pub type Hearer = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// Where messages go.
struct MessageLog {
    threshold: Threshold,
    file_name: Option<PathBuf>,
    state: Mutex<State>,
    /// Locked while a message is delivered.
    turn: Mutex<()>,
    rank: AtomicU32,
}

#[derive(Default)]
struct State {
    told: HashSet<String>,
    hearer: Option<Hearer>,
    file: Option<File>,
    /// It was tried to open the file.
    tried: bool,
}

thread_local! {
    /// This thread is telling something.
    static TELLING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Marks this thread as delivering a message until dropped, even if the handler panics.
struct Telling;

impl Telling {
    fn begin() -> Telling {
        TELLING.set(true);
        Telling
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        TELLING.set(false);
    }
}

impl MessageLog {
    fn new(threshold: Threshold, file_name: Option<PathBuf>) -> MessageLog {
        MessageLog {
            threshold,
            file_name,
            state: Mutex::default(),
            turn: Mutex::default(),
            rank: AtomicU32::new(NO_RANK),
        }
    }

    fn of_environment() -> MessageLog {
        let file = std::env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
        MessageLog::new(Threshold::of_environment().0, file)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Statements leave it consistent.
        self.state.lock()
    }

    fn rank(&self) -> Option<u32> {
        Some(self.rank.load(Ordering::Relaxed)).filter(|rank| *rank != NO_RANK)
    }

    /// - `kind`: printed once if the level is `warn`.
    fn tell(&self, level: Level, kind: &str, text: &str) {
        if !self.threshold.takes(level) || TELLING.get() {
            return;
        }
        let mut state = self.state();
        if self.threshold == Threshold::UpTo(Level::Warn) {
            let told = state.told.len() >= MOST_KEPT || state.told.insert(kind.to_string());
            if !told {
                return;
            }
        }
        let _telling = Telling::begin();
        self.write_to_file(&mut state, level, text);
        let hearer = state.hearer.clone();
        drop(state);
        // Not within the state: who hears may ask for another hearer.
        let _turn = self.turn.lock();
        match hearer {
            Some(hearer) => hearer(level, text),
            None => {
                let word = if level == Level::Warn { "warning" } else { level.name() };
                // In one piece, as several ranks share the stream; where it is closed there is nobody to tell.
                let _ = std::io::stderr().write_all(format!("thalweg: {word}: {text}\n").as_bytes());
            }
        }
    }

    fn write_to_file(&self, state: &mut State, level: Level, text: &str) {
        let Some(name) = &self.file_name else { return };
        if !state.tried {
            let mut name = name.clone().into_os_string();
            if let Some(rank) = self.rank() {
                name.push(format!(".{rank}"));
            }
            (state.tried, state.file) = (true, OpenOptions::new().create(true).append(true).open(name).ok());
        }
        let Some(file) = &mut state.file else { return };
        let now = humantime::format_rfc3339_millis(SystemTime::now());
        let _ = file.write_all(format!("{now} {} {text}\n", level.name()).as_bytes());
    }

    fn hears(&self, about: &Metadata<'_>) -> bool {
        about.is_event() && about.target().starts_with("thalweg") && self.threshold.takes(Level::of(about.level()))
    }
}

/// The words of an event: its message, then its other fields.
#[derive(Default)]
struct Words {
    message: String,
    fields: String,
    every_rank: bool,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
            return;
        }
        let comma = if self.fields.is_empty() { "" } else { ", " };
        let _ = write!(self.fields, "{comma}{} {value:?}", field.name());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "every_rank" => self.every_rank = value,
            _ => self.record_debug(field, &value),
        }
    }
}

/// Forwards the library's events to the recipient.
struct Listener(Arc<MessageLog>);

impl Subscriber for Listener {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        self.0.hears(about)
    }

    fn event(&self, event: &Event<'_>) {
        let about = event.metadata();
        if !self.0.hears(about) {
            return;
        }
        let mut words = Words::default();
        event.record(&mut words);
        if words.every_rank && self.0.rank().is_some_and(|rank| rank != 0) {
            return;
        }
        let mut text = printable(&words.message).into_owned();
        if !words.fields.is_empty() {
            let _ = write!(text, " ({})", printable(&words.fields));
        }
        let kind = format!("{}:{}", about.file().unwrap_or(about.name()), about.line().unwrap_or(0));
        self.0.tell(Level::of(about.level()), &kind, &text);
    }

    // The library has no spans.
    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// Where messages of this process go.
static PROCESS: std::sync::OnceLock<Arc<MessageLog>> = std::sync::OnceLock::new();
static LISTENS: Once = Once::new();

fn process() -> &'static Arc<MessageLog> {
    PROCESS.get_or_init(|| Arc::new(MessageLog::of_environment()))
}

/// From now on delivers the library's events in this process, unless the program has set a `tracing` subscriber of its own; warns of an
/// invalid [`VARIABLE`]. More calls have no effect.
///
/// Called by sessions, after [`set_rank`], and by the `thalweg` command, which also serves FUSE mounts. The preload door does not link
/// this crate: it prints its own messages and obeys [`VARIABLE`] and [`ERRORS_VARIABLE`].
pub fn listen() {
    let mut first = false;
    LISTENS.call_once(|| {
        first = true;
        // A program that set its own hears them there.
        let _ = tracing::subscriber::set_global_default(Listener(process().clone()));
    });
    // Here and not where the variable is first read: the program's hearer and the rank are known now.
    if first
        && process().rank().is_none_or(|rank| rank == 0)
        && let (_, Some(wrong)) = Threshold::of_environment()
    {
        tell_once(&wrong);
    }
}

/// Sets the rank of this process, for events of all ranks and for the name of its file. Later calls have no effect.
pub fn set_rank(rank: u32) {
    let _ = process().rank.compare_exchange(NO_RANK, rank, Ordering::Relaxed, Ordering::Relaxed);
}

/// Gives messages of this process to `hearer`; `None`: to the standard error stream again.
pub fn hear(hearer: Option<Hearer>) {
    process().state().hearer = hearer;
}

/// Warns with this text, once per process. Its lines are printed unchanged.
pub fn tell_once(text: &str) {
    process().tell(Level::Warn, text, text.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::subscriber::with_default;

    type Lines = Arc<Mutex<Vec<(Level, String)>>>;

    /// What is heard of `says`, and the file.
    fn heard(threshold: Threshold, rank: Option<u32>, says: impl FnOnce()) -> (Vec<(Level, String)>, String) {
        let folder = tempfile::tempdir().unwrap();
        let heard = Arc::new(MessageLog::new(threshold, Some(folder.path().join("log"))));
        rank.into_iter().for_each(|rank| heard.rank.store(rank, Ordering::Relaxed));
        let lines = Lines::default();
        let into = lines.clone();
        heard.state().hearer = Some(Arc::new(move |level, text: &str| {
            tracing::warn!(target: "thalweg_tests", "said while something is told");
            into.lock().push((level, text.to_string()));
        }));
        with_default(Listener(heard), says);
        let file = rank.map_or("log".to_string(), |rank| format!("log.{rank}"));
        let file = std::fs::read_to_string(folder.path().join(file)).unwrap_or_default();
        let lines = lines.lock().clone();
        (lines, file)
    }

    const WARNINGS: Threshold = Threshold::UpTo(Level::Warn);

    fn from_a_place(step: u32) {
        tracing::warn!(target: "thalweg_tests", step, "the profile is not written");
    }

    #[test]
    fn a_kind_is_told_once_and_in_the_file_with_its_fields() {
        let (lines, file) = heard(WARNINGS, Some(3), || (0..3).for_each(from_a_place));
        assert_eq!(lines, [(Level::Warn, "the profile is not written (step 0)".to_string())]);
        assert!(file.ends_with("Z warn the profile is not written (step 0)\n"), "{file}");
        assert_eq!(file.lines().count(), 1);
    }

    #[test]
    fn where_more_is_asked_for_every_event_is_told() {
        let (lines, _) = heard(Threshold::UpTo(Level::Debug), None, || {
            (0..2).for_each(from_a_place);
            tracing::debug!(target: "thalweg_tests", "a detail");
        });
        let told: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(told, ["the profile is not written (step 0)", "the profile is not written (step 1)", "a detail"]);
        let (lines, _) =
            heard(Threshold::UpTo(Level::Info), None, || tracing::debug!(target: "thalweg_tests", "a detail"));
        assert!(lines.is_empty());
    }

    #[test]
    fn nothing_is_told_where_nothing_is_wanted_nor_of_other_libraries() {
        assert!(heard(Threshold::Nothing, None, || from_a_place(0)).0.is_empty());
        assert!(heard(WARNINGS, None, || tracing::warn!(target: "another", "not ours")).0.is_empty());
    }

    #[test]
    fn what_every_rank_knows_is_told_by_rank_0() {
        let says = || tracing::warn!(target: "thalweg_tests", every_rank = true, "no memory is shared");
        assert!(heard(WARNINGS, Some(2), says).0.is_empty());
        for rank in [Some(0), None] {
            assert_eq!(heard(WARNINGS, rank, says).0, [(Level::Warn, "no memory is shared".to_string())]);
        }
    }

    #[test]
    fn messages_of_several_threads_are_heard_one_at_a_time() {
        let heard = MessageLog::new(Threshold::UpTo(Level::Debug), None);
        let (inside, told) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (within, count) = (inside.clone(), told.clone());
        heard.state().hearer = Some(Arc::new(move |_, _: &str| {
            assert_eq!(within.fetch_add(1, Ordering::SeqCst), 0, "another is heard meanwhile");
            std::thread::yield_now();
            within.fetch_sub(1, Ordering::SeqCst);
            count.fetch_add(1, Ordering::SeqCst);
        }));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|k| heard.tell(Level::Warn, "kind", &k.to_string())));
            }
        });
        assert_eq!((told.load(Ordering::SeqCst), inside.load(Ordering::SeqCst)), (800, 0));
    }

    #[test]
    fn a_hearer_that_panics_leaves_its_thread_hearing() {
        let heard = MessageLog::new(Threshold::UpTo(Level::Debug), None);
        heard.state().hearer = Some(Arc::new(|_, _: &str| panic!("made to fail")));
        let tell = std::panic::AssertUnwindSafe(|| heard.tell(Level::Warn, "kind", "text"));
        assert!(std::panic::catch_unwind(tell).is_err());
        assert!(!TELLING.get());
    }

    #[test]
    fn no_name_forges_a_line() {
        let says = || tracing::warn!(target: "thalweg_tests", file = "a\nthalweg: forged", "named \u{1b}[31m");
        let (lines, file) = heard(WARNINGS, None, says);
        assert!(lines.iter().all(|(_, text)| !text.contains(['\n', '\u{1b}'])), "{lines:?}");
        assert_eq!(file.lines().count(), 1);
    }

    #[test]
    fn the_variables_say_how_much_is_told() {
        for (log, errors, threshold) in [
            (None, None, WARNINGS),
            (None, Some("quiet"), Threshold::Nothing),
            (Some("warn"), Some("quiet"), WARNINGS),
            (Some("off"), None, Threshold::Nothing),
            (Some("debug"), None, Threshold::UpTo(Level::Debug)),
            (Some(""), None, WARNINGS),
        ] {
            assert_eq!(Threshold::of(log, errors), (threshold, None), "{log:?} {errors:?}");
        }
        let (threshold, wrong) = Threshold::of(Some("loud"), None);
        assert_eq!(threshold, WARNINGS);
        assert!(wrong.unwrap().contains("expected off, warn, info or debug"));
    }
}
