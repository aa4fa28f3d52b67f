//! Builds the index of an open file from the marks, the index logs and, if index logs end early, the data logs.

use super::clock::Summary;
use super::index::block::Entry;
use super::index::distributed::{OnDisk, Part};
use super::index::run::Run;
use super::index::tables::Gather;
use super::index::{Build, Merged, Module, Source};
use super::marks::{self, Mark};
use super::parallel::Fragment;
use super::place::{Place, data_name};
use super::record::{Log as Which, SEGMENT_HEADER};
use super::session::View;
use super::snapshot::{self, Snapshot};
use super::{Options, scan};
use rustix::io::Errno;
use std::collections::HashMap;
use std::time::Duration;
use thalweg_store::ReadObject;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// A session whose bytes may be incomplete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unclean {
    /// The session.
    pub session: u64,
    /// Its writer: host, PID, writer number. For a log that ends early, the log's name.
    pub who: String,
    /// The reason.
    pub why: Why,
}

/// Why bytes of a session may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The session is open and its process is dead.
    Dead,
    /// The session is open and its process may live or not.
    Open,
    /// A log is shorter than its mark states: the power failed before the log was durable, or the store lost bytes.
    Lost,
}

impl Unclean {
    /// The error of a read that meets missing bytes at `byte`.
    pub fn error(&self, byte: u64) -> Error {
        let who = &self.who;
        let (kind, what) = match self.why {
            Why::Dead => (
                ErrorKind::Torn,
                format!(
                    "a writer died before it closed ({who}); `thalweg layout repair` closes its session with the bytes in its logs"
                ),
            ),
            Why::Open => (
                ErrorKind::NotReady,
                format!(
                    "a writer has not closed ({who}); if it died, `thalweg layout repair --all` closes its session"
                ),
            ),
            Why::Lost => (
                ErrorKind::Torn,
                format!("the end of a log is missing ({who}); `thalweg layout repair --lost` accepts the shorter log"),
            ),
        };
        let error = Error::new(kind, format!("bytes may be missing here: {what}"));
        error.at_byte(byte).safe("synced bytes, and whole records in the data logs")
    }

    /// The error of a tool that needs the whole file.
    pub fn unsettled(&self) -> Error {
        let who = &self.who;
        match self.why {
            Why::Dead => Error::new(
                ErrorKind::Torn,
                format!(
                    "a writer died before it closed ({who}); `thalweg layout repair` closes its session with the bytes in its logs"
                ),
            ),
            Why::Open => Error::new(ErrorKind::NotReady, format!("a writer has not closed ({who})")),
            Why::Lost => Error::new(
                ErrorKind::Torn,
                format!("the end of a log is missing ({who}); `thalweg layout repair --lost` accepts the shorter log"),
            ),
        }
    }
}

/// Whether the process of an open session lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alive {
    /// The process lives.
    Yes,
    /// The process is dead.
    No,
    /// Unknown: neither the store's leases nor the system's process table show it.
    Unknown,
}

/// Whether an open session's writer lives, and its description.
pub fn alive(place: &Place, mark: &Mark) -> Result<(Alive, String)> {
    // The session was closed after the marks were listed; the next list shows that.
    let closing = || Ok((Alive::Unknown, "closing".into()));
    let Some(name) = &mark.open else {
        let Some(p) = &mark.published else { return closing() };
        let name = marks::published_name(mark.home, p);
        let leased = match place.open(&name) {
            Ok(object) => object.life()?.leased,
            Err(e) if e.kind() == ErrorKind::NotFound => return closing(),
            Err(e) => return Err(e),
        };
        // On stores with leases, a living session leases its mark.
        return match leased {
            Some(true) => Ok((Alive::Yes, "nothing is outstanding".into())),
            // A mark is renamed before its lease ends.
            Some(false) if !place.exists(&name)? => closing(),
            Some(false) => Ok((Alive::No, "nothing is outstanding".into())),
            None => Ok((Alive::Unknown, "nothing is outstanding".into())),
        };
    };
    let mut waited = Duration::ZERO;
    let (life, who) = loop {
        let (life, who) = match place.open(name) {
            Ok(object) => {
                let life = object.life()?;
                let mut who = vec![0; usize::try_from(object.length()?).unwrap_or(0).min(MOST_ABOUT)];
                let got = object.read_at(0, &mut who)?;
                (life, String::from_utf8_lossy(&who[..got]).into_owned())
            }
            Err(e) if e.kind() == ErrorKind::NotFound => return closing(),
            Err(e) => return Err(e),
        };
        // A store that neither renames nor shows objects whole shows a mark before its writer has described itself.
        let is_old = life.modified.is_some_and(|at| at.elapsed().is_ok_and(|age| age > DESCRIBED));
        if life.leased.is_some() || !who.is_empty() || is_old || waited >= DESCRIBED {
            break (life, who);
        }
        let pause = Duration::from_millis(2);
        std::thread::sleep(pause);
        waited += pause;
    };
    let alive = match life.leased {
        Some(true) => Alive::Yes,
        Some(false) => Alive::No,
        None => Process::parse(&who).map_or(Alive::Unknown, |process| process.alive()),
    };
    // A closing writer removes its mark before the lease ends: a mark that still exists belongs to a dead writer.
    if alive == Alive::No && !place.exists(name)? {
        return closing();
    }
    Ok((alive, if who.is_empty() { UNKNOWN.into() } else { who }))
}

/// Description of a writer whose mark is empty.
const UNKNOWN: &str = "unknown";
/// How long a writer may take from making its mark to describing itself in it.
const DESCRIBED: Duration = Duration::from_millis(200);
/// Largest number of bytes read of a mark.
const MOST_ABOUT: usize = 4096;

/// A writer's process, as described in its mark.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    host: String,
    number: u32,
    since: u64,
    /// Boot identity and PID namespace in which the PID is valid; `None` in marks without them.
    among: Option<String>,
}

/// Description of a session that compacts.
const COMPACTING: &str = "compacting";

/// Description of this process for the mark of a writer.
pub fn about(writer: &str) -> String {
    let number = std::process::id();
    // The system is queried once per process, and again after a fork.
    if let Some(known) = KNOWN.try_lock()
        && let Some((of, before, behind)) = &*known
        && *of == number
    {
        return format!("{before}{writer}{behind}");
    }
    let behind = among().map_or(String::new(), |among| format!(", among {among}"));
    let before = format!("host {}, process {number} since {}, ", host(), since(number).unwrap_or(0));
    let said = format!("{before}{writer}{behind}");
    // No wait: a fork may have copied the lock in the locked state.
    if let Some(mut known) = KNOWN.try_lock() {
        *known = Some((number, before, behind));
    }
    said
}

/// PID, and the description before and behind the writer.
static KNOWN: Mutex<Option<(u32, String, String)>> = Mutex::new(None);

/// Description of this process for the mark of a compaction.
pub fn about_compacting() -> String {
    about(COMPACTING)
}

/// Whether a mark belongs to a compaction, which copies other sessions' bytes and takes effect when it is closed.
pub fn compacts(who: &str) -> bool {
    who.split(", ").any(|field| field == COMPACTING)
}

/// Boot identity and PID namespace, within which PIDs are unique. Host names may be shared, and processes of one host may be in
/// different namespaces.
fn among() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.to_str()?))
}

/// This host's own name, independent of the mount's option.
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Start time of a process of this host, in ticks since the boot.
fn since(process: u32) -> std::io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in brackets, may contain any character.
    let field = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19));
    field.and_then(|field| field.parse().ok()).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

/// Whether a process with this PID exists. The system may hide its folder in `/proc` from other users (`hidepid`).
fn exists(process: u32) -> bool {
    let number = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    number.is_some_and(|number| rustix::process::test_kill_process(number) != Err(Errno::SRCH))
}

impl Process {
    fn parse(who: &str) -> Option<Process> {
        let mut fields = who.strip_prefix("host ")?.splitn(3, ", ");
        let host = fields.next()?.to_string();
        let (number, since) = fields.next()?.strip_prefix("process ")?.split_once(" since ")?;
        let among = fields.next().and_then(|rest| rest.rsplit_once(", among ")).map(|(_, among)| among.to_string());
        Some(Process { host, number: number.parse().ok()?, since: since.parse().ok()?, among })
    }

    /// Whether the process lives. Known for processes of this host, boot and PID namespace.
    fn alive(&self) -> Alive {
        let seen = self.among.is_none() || self.among == among();
        match self.host == host() && seen && self.since > 0 && since(std::process::id()).is_ok() {
            true => self.alive_by(since(self.number), || exists(self.number)),
            false => Alive::Unknown,
        }
    }

    /// - `since`: start time of the process that has this PID now.
    /// - `exists`: whether there is such a process.
    fn alive_by(&self, since: std::io::Result<u64>, exists: impl FnOnce() -> bool) -> Alive {
        match since {
            Ok(since) if since == self.since => Alive::Yes,
            // The PID was reused.
            Ok(_) => Alive::No,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && !exists() => Alive::No,
            Err(_) => Alive::Unknown,
        }
    }
}

/// The logs that the marks list, and the valid length of each.
pub struct Logs {
    /// Segments, with the published bytes of index log and data log.
    pub segments: Vec<(Source, u64, u64)>,
    /// Segments whose unpublished part, from this byte on, is scanned: no living writer is known.
    pub tails: Vec<(Source, u64)>,
}

/// The logs that the marks list.
pub fn logs(place: &Place, marks: &[Mark]) -> Result<(Logs, Vec<Unclean>)> {
    let (mut logs, mut unclean) = (Logs { segments: Vec::new(), tails: Vec::new() }, Vec::new());
    for mark in marks {
        let segments = mark.published.map_or(0, |p| p.segments);
        for k in 0..segments {
            let whole = k + 1 < segments;
            let p = mark.published.unwrap_or_default();
            let (index, data) = if whole { (u64::MAX, u64::MAX) } else { (p.index, p.data) };
            logs.segments.push((Source::of(&mark.home, k), index, data));
        }
        if mark.closed() || mark.open.is_none() {
            // Everything is published.
            continue;
        }
        let (alive, who) = alive(place, mark)?;
        if alive != Alive::Yes && !compacts(&who) {
            let why = if alive == Alive::No { Why::Dead } else { Why::Open };
            unclean.push(Unclean { session: mark.home.session, who, why });
            let from = mark.published.map_or(0, |p| p.data);
            let first = segments.saturating_sub(1);
            logs.tails.push((Source::of(&mark.home, first), if segments > 0 { from } else { 0 }));
        }
    }
    Ok((logs, unclean))
}

/// A builder for a container's index.
pub fn builder(place: &Place, options: &Options, part: Part) -> Result<Build> {
    Ok(match place.stamp.module {
        Module::Flat | Module::Pattern => Build::new(Box::new(Gather::default())),
        Module::Distributed => Build::new(Box::new(OnDisk::new(&options.index_folder, options.index_cache, part))),
    })
}

/// The snapshot that covers exactly these marks, if it exists and can be read.
fn snapshot(place: &Place, marks: &[Mark], beside: &[String]) -> Option<Fragment> {
    let covers = snapshot::covers(marks)?;
    let name = snapshot::name(&covers);
    if !beside.contains(&name) {
        return None;
    }
    // A damaged snapshot is ignored: the index logs have the same content.
    let bytes = place.read(&name).ok()?;
    let snapshot = Snapshot::decode(&bytes).ok()?;
    snapshot.index.each(|_, _| Ok(())).ok()?;
    (snapshot.container == place.stamp.container && snapshot.covers == covers).then_some(snapshot.index)
}

/// The index of a fragment that ranks gathered.
pub fn joined(place: &Place, options: &Options, fragment: &Fragment) -> Result<Merged> {
    let mut build = builder(place, options, Part::ALL)?;
    add_fragment(fragment, &mut build)?;
    build.finish()
}

/// Adds a fragment's entries.
pub fn add_fragment(fragment: &Fragment, build: &mut Build) -> Result<()> {
    // Entries of one log are consecutive.
    let mut last: Option<(Source, u32)> = None;
    fragment.each(|source, entry| {
        let number = match &last {
            Some((of, number)) if of == source => *number,
            _ => {
                let number = build.source(source);
                last = Some((source.clone(), number));
                number
            }
        };
        build.add(number, &entry)
    })
}

/// Content of the index logs of these sessions, which must all be closed.
pub fn gathered(place: &Place, marks: &[Mark]) -> Result<Fragment> {
    let mut fragment = Fragment::default();
    each_segment(place, marks, |source, index, data| {
        fragment.add(source, |tell| whole_segment(place, source, index, data, tell))
    })?;
    Ok(fragment)
}

/// Passes the entries of these sessions' index logs to `tell` while they are read. All sessions must be closed.
pub fn told(place: &Place, marks: &[Mark], mut tell: impl FnMut(&Source, Entry) -> Result<()>) -> Result<()> {
    each_segment(place, marks, |source, index, data| {
        whole_segment(place, source, index, data, |entry| tell(source, entry)).map(|_| ())
    })
}

/// Calls `call` for every segment of these sessions with the published lengths of its index log and data log.
///
/// # Errors
/// `NotReady` or `Torn`, naming an open session.
fn each_segment(place: &Place, marks: &[Mark], mut call: impl FnMut(&Source, u64, u64) -> Result<()>) -> Result<()> {
    let (logs, unclean) = logs(place, marks)?;
    if let Some(unclean) = unclean.first() {
        return Err(unclean.error(0));
    }
    logs.segments.iter().try_for_each(|(source, index, data)| call(source, *index, *data))
}

/// The index of all logs that the marks list and of local sessions. Of a log that ends early the existing records count,
/// and its session is in the returned list of incomplete sessions.
///
/// - `beside`: names in the folder of marks that are no marks; one may be a snapshot.
pub fn merged(
    place: &Place,
    options: &Options,
    marks: &[Mark],
    beside: &[String],
    views: &[View],
) -> Result<(Merged, Vec<Unclean>)> {
    let mut build = builder(place, options, Part::ALL)?;
    let (mut logs, mut unclean) = logs(place, marks)?;
    if let Some(snapshot) = snapshot(place, marks, beside) {
        logs.segments.clear();
        add_fragment(&snapshot, &mut build)?;
    }
    add_segments(place, &logs, &mut build, &mut unclean)?;
    for (source, from) in &logs.tails {
        add_tail(place, source, *from, &mut build)?;
    }
    add_views(place, views, &mut build)?;
    Ok((build.finish()?, unclean))
}

/// As [`merged`], but only for bytes from `from` on, if some logs cannot be read. Leaves out the logs of sessions that
/// wrote only before `from`, and the unreadable unpublished parts of logs whose writers may live. `None` if nothing would
/// be left out, or if there are appends: their place depends on all earlier writes.
pub fn behind(
    place: &Place,
    options: &Options,
    marks: &[Mark],
    views: &[View],
    from: u64,
) -> Result<Option<(Merged, Vec<Unclean>)>> {
    let (mut logs, mut unclean) = logs(place, marks)?;
    let died: Vec<u64> = unclean.iter().filter(|u| u.why == Why::Dead).map(|u| u.session).collect();
    let (segments, dead) = (logs.segments.len(), |session: u64| died.contains(&session));
    let written: HashMap<u64, Summary> =
        marks.iter().filter_map(|m| m.published.map(|p| (m.home.session, p.summary))).collect();
    // A cut affects every byte.
    let before = |s: &Summary| s.cut_clock == 0 && s.end <= from;
    logs.segments.retain(|(source, ..)| !written.get(&source.session).is_some_and(before));
    let appended = written.values().any(|s| s.base.is_some());
    if appended || (logs.segments.len() == segments && logs.tails.iter().all(|(source, _)| dead(source.session))) {
        return Ok(None);
    }
    let mut build = builder(place, options, Part::ALL)?;
    add_segments(place, &logs, &mut build, &mut unclean)?;
    for (source, at) in &logs.tails {
        match add_tail(place, source, *at, &mut build) {
            Err(e) if e.kind() == ErrorKind::Io && !dead(source.session) => {}
            outcome => outcome?,
        }
    }
    add_views(place, views, &mut build)?;
    let index = build.finish()?;
    Ok((!index.has_appended()).then_some((index, unclean)))
}

/// - `unclean`: receives the sessions of logs that end early.
fn add_segments(place: &Place, logs: &Logs, build: &mut Build, unclean: &mut Vec<Unclean>) -> Result<()> {
    place.read_ahead(&logs.segments.iter().map(|(source, ..)| source.clone()).collect::<Vec<_>>());
    for (source, index, data) in &logs.segments {
        let number = build.source(source);
        let lost = segment(place, source, *index, *data, |entry| build.add(number, &entry))?.1;
        if lost.is_some() {
            unclean.push(Unclean { session: source.session, who: place.shown(source), why: Why::Lost });
        }
    }
    Ok(())
}

/// Adds the entries of this process's handles.
fn add_views(place: &Place, views: &[View], build: &mut Build) -> Result<()> {
    for view in views {
        for (source, end) in &view.logs {
            let number = build.source(source);
            whole_segment(place, source, *end, u64::MAX, |entry| build.add(number, &entry))?;
        }
        let number = build.source(&view.source);
        for entry in &view.buffered {
            build.add(number, entry)?;
        }
    }
    Ok(())
}

/// Opens a log; `None` if it is missing.
pub fn open(place: &Place, source: &Source, which: Which) -> Result<Option<Box<dyn ReadObject>>> {
    if which == Which::Data {
        return place.open_data(&source.home(), source.segment);
    }
    // An inline data log has no index log: it is scanned.
    if place.is_inside(&data_name(&source.home(), source.segment)) && !place.has_folder() {
        return Ok(None);
    }
    // Neither has the log of a packed session.
    if place.open_packed(&source.home())?.is_some() {
        return Ok(None);
    }
    let (store, name) = (place.store(source.store)?, name(place, source, which));
    // An index log is read from its beginning: where opening alone is a request, its bytes come with it.
    let opened = match store.capability().append {
        true => store.open_read(&name),
        false => place.open_whole_log(&**store, &name).map(|log| -> Box<dyn ReadObject> { Box::new(log) }),
    };
    match opened {
        Ok(object) => Ok(Some(object)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// The name of a log on its store.
pub fn name(place: &Place, source: &Source, which: Which) -> String {
    match which {
        Which::Data => place.data(&source.home(), source.segment),
        Which::Index => place.index(&source.home(), source.segment),
    }
}

/// The error for a missing log.
pub fn lost(place: &Place, source: &Source, which: Which) -> Error {
    let store = place.store(source.store).map_or_else(|_| "?".into(), |store| store.describe());
    let which = if which == Which::Data { "data log" } else { "index log and data log" };
    let what = format!("backing store {store} (number {} of this container) has lost a {which}", source.store);
    Error::new(ErrorKind::Io, what).in_object(place.shown(source))
}

/// Largest number of records of a run that is accepted without comparison with the data log's length.
const BELIEVED: u64 = 1 << 20;

/// Fails if the data log is too short for the run's records. Reads iterate over a run's records, so a forged count would
/// take arbitrarily long.
fn has_room(place: &Place, source: &Source, run: &Run) -> Result<()> {
    let Some(object) = open(place, source, Which::Data)? else { return Err(lost(place, source, Which::Data)) };
    let length = object.length()?;
    match run.is_sound(length) {
        true => Ok(()),
        false => {
            let what = format!("a data log of {length} bytes has no room for {} records", run.records());
            Err(Error::new(ErrorKind::Io, what).in_object(place.shown(source)))
        }
    }
}

/// As [`segment`], but a segment that ends early is an error.
fn whole_segment(
    place: &Place,
    source: &Source,
    index: u64,
    data: u64,
    tell: impl FnMut(Entry) -> Result<()>,
) -> Result<u64> {
    match segment(place, source, index, data, tell)? {
        (covered, None) => Ok(covered),
        (_, Some(lost)) => Err(lost),
    }
}

/// As [`entries_of`], but runs of many records are checked against the data log's length.
fn segment(
    place: &Place,
    source: &Source,
    index: u64,
    data: u64,
    mut tell: impl FnMut(Entry) -> Result<()>,
) -> Result<(u64, Option<Error>)> {
    entries_of(place, source, index, data, |entry| {
        if let Entry::Run(run) = &entry
            && run.records() > BELIEVED
        {
            has_room(place, source, run)?;
        }
        tell(entry)
    })
}

/// Passes the published entries of a segment to `tell`: from its index log and, where that is missing or damaged, from its
/// data log. Returns the end of the covered part of the data log, and an error if both logs are incomplete.
fn entries_of(
    place: &Place,
    source: &Source,
    index: u64,
    data: u64,
    mut tell: impl FnMut(Entry) -> Result<()>,
) -> Result<(u64, Option<Error>)> {
    if place.tell_bundled(source, &mut tell)? {
        return Ok((data, None));
    }
    let mut from = 0;
    if let Some(object) = open(place, source, Which::Index)? {
        let end = if index == u64::MAX { object.length()? } else { index };
        let (covered, damage) = scan::index_log(place, source, &*object, end, &mut tell)
            .map_err(|e| e.in_object(name(place, source, Which::Index)))?;
        if damage.is_none() && (data == u64::MAX || covered >= data) {
            return Ok((covered, None));
        }
        // If the index log gave nothing, the data log is read from its header on, which is checked too.
        from = if covered > SEGMENT_HEADER { covered } else { 0 };
    }
    let Some(object) = open(place, source, Which::Data)? else { return Err(lost(place, source, Which::Index)) };
    let end = if data == u64::MAX { object.length()? } else { data };
    let scanned = scan::data_log(place, source, &*object, from, end, false, |record| {
        scan::entry_of(record).map_or(Ok(()), &mut tell)
    })?;
    let whole = if data == u64::MAX { scanned.ended } else { scanned.whole >= data };
    if whole {
        return Ok((scanned.whole, None));
    }
    let mut torn = Error::new(ErrorKind::Torn, "neither the index log nor the data log of a writer is whole");
    if let Some(e) = scanned.torn {
        torn = torn.caused_by(e);
    }
    Ok((scanned.whole, Some(torn.in_object(place.shown(source)).at_byte(scanned.whole))))
}

/// Adds the records of data logs after the published part, up to the first incomplete record.
pub fn add_tail(place: &Place, source: &Source, from: u64, build: &mut Build) -> Result<()> {
    let (mut source, mut from) = (source.clone(), from);
    while let Some(object) = open(place, &source, Which::Data)? {
        let end = object.length()?;
        let number = build.source(&source);
        if from < end {
            let scanned = scan::data_log(place, &source, &*object, from, end, true, |record| {
                scan::entry_of(record).map_or(Ok(()), |entry| build.add(number, &entry))
            })?;
            if !scanned.ended {
                break;
            }
        }
        source.segment += 1;
        from = 0;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error as Failure, ErrorKind as Sort};

    #[test]
    fn a_process_is_dead_only_where_the_system_says_that_there_is_none() {
        let of = |since| Process { host: host(), number: std::process::id(), since, among: among() };
        let mine = of(since(std::process::id()).unwrap());
        assert_eq!(mine.alive(), Alive::Yes);
        assert_eq!(of(mine.since + 1).alive(), Alive::No, "another has its number");
        for number in [(1 << 22) + 1, u32::MAX] {
            assert_eq!(Process { number, ..of(5) }.alive(), Alive::No, "no process has a number as large as {number}");
        }
        let none = || Err(Failure::from(Sort::NotFound));
        assert_eq!(mine.alive_by(none(), || false), Alive::No);
        // Hidden from other users.
        assert_eq!(mine.alive_by(none(), || true), Alive::Unknown);
        for errno in [Errno::MFILE, Errno::NFILE, Errno::ACCESS, Errno::PERM, Errno::IO, Errno::SRCH, Errno::NOMEM] {
            let unreadable = Err(Failure::from_raw_os_error(errno.raw_os_error()));
            assert_eq!(mine.alive_by(unreadable, || false), Alive::Unknown, "{errno}");
        }
        assert_eq!(mine.alive_by(Err(Sort::InvalidData.into()), || false), Alive::Unknown);
    }
}
