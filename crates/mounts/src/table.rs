//! The mount table's file: reads and checks it, and creates the mounts of this process.
//!
//! ```toml
//! [[mount]]
//! path = "/scratch/run7"                              # every path below goes to the layout
//! layout = "container"
//! stores = ["posix:/lustre/a/run7", "posix:/lustre/b/run7"]
//! index = "pattern"                                   # the layout's own parameters
//! ```
//!
//! A mount with layout `partition` or `staging` may have its partition's settings as a table, `[mount.partition]`, instead of the name of
//! their file.
//!
//! | question | answer |
//! |----------|--------|
//! | where    | the file that `THALWEG_MOUNTS` names (empty: no mounts); else `~/.config/thalweg/mounts.toml` and `/etc/thalweg/mounts.toml`, both if both exist |
//! | the same prefix twice | the user's file takes precedence over the site's; within one file it is an error |
//! | when     | once per process, at its first path |
//! | refused immediately | any mistake in the file, and a layout over stores that lack a capability: with line and reason |
//! | refused later   | a store that cannot be opened: every use of a path of that mount fails, other mounts work |

use crate::wrappers::{self, Wrappers};
use crate::{layouts, named, stores};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use thalweg_diagnostics::{Problem, Report, SourceSpan};
use thalweg_layout::{Direct, Layout, Mount, Mounts, mount};
use thalweg_params::{Parameter, Parameters};
use thalweg_partition::configuration::{self, Configuration};
use thalweg_store::{Posix, Store};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The environment variable that names the mount table's file.
pub const VARIABLE: &str = "THALWEG_MOUNTS";

const KEYS: [&str; 4] = ["path", "layout", "store", "stores"];

/// A mount as the mount table describes it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Absolute path prefix.
    pub path: String,
    /// Name of the layout.
    pub layout: String,
    /// URLs of the stores, in order.
    pub stores: Vec<String>,
    /// Parameters of the layout.
    pub parameters: Vec<(String, String)>,
    /// The wrappers around each store.
    pub wrappers: Wrappers,
    /// File and line where it begins.
    pub place: String,
    spans: Spans,
}

impl Entry {
    /// Whether one of its stores is on another machine.
    pub fn is_far(&self) -> bool {
        self.stores.iter().any(|url| stores::is_far(url))
    }

    /// The configuration of its partition, if its layout is one.
    pub(crate) fn partition(&self) -> Option<&str> {
        let key = layouts::PARTITION.key;
        let given = self.parameters.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
        given.filter(|_| self.layout.eq_ignore_ascii_case("partition")).map(|(_, file)| file.as_str())
    }
}

#[derive(Debug, Clone, Default)]
struct Spans {
    path: SourceSpan,
    layout: SourceSpan,
    stores: Vec<SourceSpan>,
    parameters: Vec<SourceSpan>,
}

/// Reads a mount table. The report lists all mistakes; mounts with mistakes are omitted.
pub fn parse(text: &str, file: &str) -> (Vec<Entry>, Report) {
    let mut report = Report::new(file, text);
    let mut entries: Vec<Entry> = Vec::new();
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(e) => {
            report.error(e.span().unwrap_or(0..0), Problem::new(e.message().to_string()));
            return (entries, report);
        }
    };
    for (key, value) in table.get_ref() {
        if key.get_ref() != "mount" {
            report.error(key.span(), Problem::unknown("key", key.get_ref(), ["mount"]));
            continue;
        }
        let DeValue::Array(mounts) = value.get_ref() else {
            report.error(key.span(), Problem::new("mounts are a list").expected("[[mount]] above each one"));
            continue;
        };
        for mount in mounts.iter() {
            let DeValue::Table(table) = mount.get_ref() else {
                report.error(mount.span(), Problem::new("a mount is a table").expected("[[mount]] and keys below it"));
                continue;
            };
            let before = report.errors();
            let entry = entry(table, mount.span().into(), &mut report);
            if let Some(entry) = entry.filter(|_| report.errors() == before) {
                if let Some(first) = entries.iter().find(|e| e.path == entry.path) {
                    let what = format!("\"{}\" is mounted already, at {}", entry.path, first.place);
                    report.error(entry.spans.path, Problem::new(what));
                } else {
                    entries.push(entry);
                }
            }
        }
    }
    (entries, report)
}

fn entry(table: &DeTable<'_>, whole: SourceSpan, report: &mut Report) -> Option<Entry> {
    let mut entry = Entry {
        path: String::new(),
        layout: String::new(),
        stores: Vec::new(),
        parameters: Vec::new(),
        wrappers: Wrappers::default(),
        place: format!("{}:{}", report.file(), report.line_and_column(whole).0),
        spans: Spans::default(),
    };
    let mut kind = None;
    if let Some(value) = table.get("layout") {
        entry.spans.layout = value.span().into();
        match value.get_ref() {
            DeValue::String(name) => match layouts::find(name) {
                Some(found) => {
                    kind = Some(found);
                    entry.layout = found.name.to_string();
                }
                None => {
                    let known = layouts::LAYOUTS.iter().map(|l| l.name);
                    report.error(value.span(), Problem::unknown("layout", name, known));
                }
            },
            _ => report.error(value.span(), Problem::new("a layout is named by a text")),
        }
    } else {
        report.error(whole, Problem::new("the mount has no layout").expected("layout = \"container\" or another"));
    }
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "layout" => {}
            "path" => {
                entry.spans.path = value.span().into();
                match value.get_ref() {
                    DeValue::String(path) if path.starts_with('/') => entry.path = mount::normal(path, "/"),
                    DeValue::String(_) => report.error(
                        value.span(),
                        Problem::new("a mount's path means the same in every folder")
                            .expected("one that begins with /"),
                    ),
                    _ => report.error(value.span(), Problem::new("a path is a text")),
                }
            }
            "store" => url(value, &mut entry, report),
            "stores" => match value.get_ref() {
                DeValue::Array(several) => several.iter().for_each(|one| url(one, &mut entry, report)),
                _ => report
                    .error(value.span(), Problem::new("stores are a list").expected("[\"posix:/a\", \"posix:/b\"]")),
            },
            name => {
                let Some(kind) = kind else { continue };
                let known = kind.parameters.iter().chain(wrappers::KEYS).flat_map(Parameter::names).chain(KEYS);
                let text = match value.get_ref() {
                    DeValue::String(text) => Some(text.to_string()),
                    DeValue::Integer(number) => Some(number.to_string()),
                    DeValue::Boolean(yes) => Some(if *yes { "yes" } else { "no" }.to_string()),
                    _ => None,
                };
                if wrappers::KEYS.iter().any(|p| p.is(name)) {
                    let set = text.ok_or_else(|| "a parameter is a text or a whole number".to_string());
                    if let Err(why) = set.and_then(|text| entry.wrappers.set(name, &text)) {
                        report.error(value.span(), Problem::new(why));
                    }
                } else if !kind.parameters.iter().any(|p| p.is(name)) {
                    let what = format!("parameter of layout {}", kind.name);
                    report.error(key.span(), Problem::unknown(&what, name, known));
                } else if layouts::PARTITION.is(name) && value.get_ref().is_table() {
                    let file = std::path::absolute(report.file()).unwrap_or_else(|_| report.file().into());
                    let folder = file.parent().unwrap_or(Path::new("/"));
                    match Configuration::inline(value, folder, report) {
                        Ok(Some(made)) => {
                            let address = configuration::address(&file, &made.fixed.name).display().to_string();
                            entry.parameters.push((name.to_string(), address));
                            entry.spans.parameters.push(key.span().into());
                        }
                        Ok(None) => {}
                        Err(e) => report.error(value.span(), Problem::new(e.to_string())),
                    }
                } else if let Some(text) = text {
                    entry.parameters.push((name.to_string(), text));
                    entry.spans.parameters.push(value.span().into());
                } else {
                    report.error(value.span(), Problem::new("a parameter is a text, a whole number, true or false"));
                }
            }
        }
    }
    if !table.contains_key("path") {
        report.error(whole, Problem::new("the mount has no path").expected("path = \"/scratch/run7\""));
    }
    let needs_stores = kind.is_none_or(|kind| kind.most_stores > 0);
    if needs_stores && !table.contains_key("store") && !table.contains_key("stores") {
        report.error(whole, Problem::new("the mount has no store").expected("store = \"posix:/scratch/a\""));
    }
    if entry.wrappers.tells_drain()
        && let Some((key, _)) = table.iter().find(|(key, _)| key.get_ref() == "drain")
        && !entry.stores.iter().any(|url| stores::is_tiered(url))
    {
        let what = "drain needs a burst buffer, tiered:FAST=>CANONICAL, among the mount's stores";
        report.error(key.span(), Problem::new(what));
    }
    if let Some(kind) = kind
        && entry.stores.len() > kind.most_stores
    {
        let what = format!("layout {} uses {} store, {} are given", kind.name, kind.most_stores, entry.stores.len());
        report.error(entry.spans.stores[kind.most_stores], Problem::new(what));
    }
    Some(entry)
}

fn url(value: &Spanned<DeValue<'_>>, entry: &mut Entry, report: &mut Report) {
    let DeValue::String(text) = value.get_ref() else {
        report.error(value.span(), Problem::new("a store is a text").expected("\"posix:/scratch/a\""));
        return;
    };
    let url = stores::spelled(text);
    match stores::kind(text) {
        Err(problem) => report.error(value.span(), problem),
        Ok(_) if entry.stores.iter().any(|known| *known == url) => {
            report.error(value.span(), Problem::new("the same store twice"));
        }
        Ok(_) => {
            entry.stores.push(url.into_owned());
            entry.spans.stores.push(value.span().into());
        }
    }
}

/// Result of creating a mount.
enum Made {
    Works(Arc<dyn Layout>),
    /// A store cannot be opened now.
    Later(String),
    /// The mount cannot work: the span in the file, and the reason.
    Refused(SourceSpan, String),
}

fn make(entry: &Entry) -> Made {
    let mut opened: Vec<Arc<dyn Store>> = Vec::new();
    for (url, span) in entry.stores.iter().zip(&entry.spans.stores) {
        match stores::open_to_mount(url, entry.wrappers.drains()).and_then(|store| entry.wrappers.put(url, store)) {
            Ok(store) => opened.push(store),
            Err(e) if matches!(e.kind(), ErrorKind::Config | ErrorKind::Unsupported) => {
                return Made::Refused(*span, e.to_string());
            }
            Err(e) => return Made::Later(format!("{}: store {url}: {e}", entry.place)),
        }
    }
    let Some(kind) = layouts::find(&entry.layout) else {
        return Made::Refused(entry.spans.layout, format!("unknown layout {}", entry.layout));
    };
    match (kind.make)(&opened, &Parameters::from(entry.parameters.clone())) {
        Ok(layout) => Made::Works(layout),
        Err(e) if matches!(e.kind(), ErrorKind::Config | ErrorKind::Unsupported) => {
            let about = entry.parameters.iter().position(|(key, _)| e.what().contains(&format!("{key}=")));
            Made::Refused(about.map_or(entry.spans.layout, |i| entry.spans.parameters[i]), e.to_string())
        }
        Err(e) => Made::Later(format!("{}: {e}", entry.place)),
    }
}

/// A mount table's file, read, its mounts created.
pub struct Checked {
    /// The mounts.
    pub mounts: Vec<(Entry, Mount)>,
    /// Mistakes in the file, and warnings.
    pub report: Report,
}

/// Reads a mount table and creates its mounts; those with stores on other machines, and without stores, at their first use.
///
/// # Cost
/// Opens every store on this machine; no request to another machine.
pub fn check(text: &str, file: &str) -> Checked {
    let (entries, mut report) = parse(text, file);
    let mut mounts = Vec::new();
    for entry in &entries {
        warn_of_hidden(entry, &entries, &mut report);
        // To open a partition may start its servers.
        let has_stores = layouts::find(&entry.layout).is_none_or(|kind| kind.most_stores > 0);
        let first = match entry.is_far() || !has_stores {
            true => None,
            false => match make(entry) {
                Made::Works(layout) => Some(layout),
                // Tried again at each use, which reports a failure.
                Made::Later(_) => None,
                Made::Refused(span, why) => {
                    report.error(span, Problem::new(why));
                    continue;
                }
            },
        };
        let (again, first) = (entry.clone(), Mutex::new(first));
        let mount = Mount::new(&entry.path, move || {
            if let Some(made) = first.lock().take() {
                return Ok(made);
            }
            make_now(&again)
        });
        mounts.push((entry.clone(), mount));
    }
    Checked { mounts, report }
}

fn warn_of_hidden(entry: &Entry, entries: &[Entry], report: &mut Report) {
    for (url, span) in entry.stores.iter().zip(&entry.spans.stores) {
        let Some(folder) = url.strip_prefix("posix:").map(|p| mount::normal(p, "/")) else { continue };
        if let Some(hiding) = entries.iter().find(|e| mount::resolve([e.path.as_str()], &folder, "/").is_some()) {
            let what = format!(
                "the store's folder is under the mount {}: where that is mounted with FUSE, the store cannot be reached",
                hiding.path
            );
            report.warning(*span, Problem::new(what));
        }
    }
}

/// The working directory at the start of the process, if a variable of the environment has a relative path.
static STARTED_IN: OnceLock<PathBuf> = OnceLock::new();

/// The working directory at the start of the process, if [`remember_working_directory`] has noted it.
pub(crate) fn started_in() -> Option<&'static Path> {
    STARTED_IN.get().map(PathBuf::as_path)
}

/// Remembers the working directory if [`VARIABLE`] or [`named::VARIABLE`] has a relative path, so that the path stays valid if the
/// program changes its directory. Libraries call this when they are loaded; only the first call has an effect.
pub fn remember_working_directory() {
    let is_relative = |named: OsString| !named.is_empty() && Path::new(&named).is_relative();
    if [VARIABLE, named::VARIABLE].iter().any(|name| std::env::var_os(name).is_some_and(is_relative))
        && let Ok(current) = std::env::current_dir()
    {
        let _ = STARTED_IN.set(current);
    }
}

/// The files that describe the mounts of this process, in order of precedence, the highest last.
///
/// # Errors
/// `NotFound` if [`VARIABLE`] names a missing file; `Io` if the system cannot say whether one of the usual files exists: without its
/// mounts, a program would write to the wrong place.
pub fn files() -> Result<Vec<PathBuf>> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let mut path = PathBuf::from(named);
        if let (true, Some(started)) = (path.is_relative(), STARTED_IN.get()) {
            path = started.join(path);
        }
        if !is_there(&path, "a mount table")? {
            let what = format!("{VARIABLE} names a mount table that does not exist");
            return Err(Error::new(ErrorKind::NotFound, what).in_object(path.display().to_string()));
        }
        return Ok(vec![path]);
    }
    let home = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".config")));
    let usual = [Some(PathBuf::from("/etc")), home];
    let mut files = Vec::new();
    for path in usual.into_iter().flatten().map(|folder| folder.join("thalweg/mounts.toml")) {
        if is_there(&path, "a mount table")? {
            files.push(path);
        }
    }
    Ok(files)
}

/// Whether there is such a file.
///
/// - `what`: it is, for messages.
///
/// # Errors
/// `Io` if the system cannot say: what is not used then would send a program's files to another place.
pub(crate) fn is_there(path: &Path, what: &str) -> Result<bool> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match std::fs::metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if matches!(e.kind(), NotFound | NotADirectory) => Ok(false),
        Err(e) => Err(Error::io(format!("cannot look for {what}"), e).in_object(path.display().to_string())),
    }
}

/// The mounts that these files describe; a later file takes precedence over an earlier one.
///
/// # Errors
/// `Config` with all mistakes of a file; errors of the system if a file cannot be read.
/// # Cost
/// Reads each file, and as [`check`] for each.
pub fn of_files(files: &[PathBuf]) -> Result<Arc<Mounts>> {
    let mut mounts: HashMap<String, Mount> = HashMap::new();
    let mut entries = Vec::new();
    for path in files {
        let shown = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|e| Error::io("cannot read the mount table", e).in_object(&shown))?;
        let checked = check(&text, &shown);
        if checked.report.errors() > 0 {
            let what = format!("the mount table is refused\n{}", checked.report.render(false).trim_end());
            return Err(Error::new(ErrorKind::Config, what));
        }
        for (entry, mount) in checked.mounts {
            entries.push(entry);
            mounts.insert(mount.prefix().to_string(), mount);
        }
    }
    let mut mounts: Vec<Mount> = mounts.into_values().collect();
    mounts.sort_by(|a, b| a.prefix().cmp(b.prefix()));
    Ok(Arc::new(Mounts::new(mounts, plain()?).with_named(move || named::find(&entries))))
}

/// The entries of these files, without creating mounts: for doors that create each mount at the first use of a path below it.
///
/// # Errors
/// Errors of [`of_files`], except errors of the creation.
pub fn entries(files: &[PathBuf]) -> Result<Vec<Entry>> {
    let mut all: HashMap<String, Entry> = HashMap::new();
    for path in files {
        let shown = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|e| Error::io("cannot read the mount table", e).in_object(&shown))?;
        let (entries, report) = parse(&text, &shown);
        if report.errors() > 0 {
            let what = format!("the mount table is refused\n{}", report.render(false).trim_end());
            return Err(Error::new(ErrorKind::Config, what));
        }
        all.extend(entries.into_iter().map(|entry| (entry.path.clone(), entry)));
    }
    let mut all: Vec<Entry> = all.into_values().collect();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

/// Creates the layout of a mount.
///
/// # Errors
/// The reason why the layout cannot be created now.
/// # Cost
/// Opens the mount's stores, which for stores on other machines may be one or two requests each, or none before the first
/// operation.
pub fn make_now(entry: &Entry) -> std::result::Result<Arc<dyn Layout>, String> {
    match make(entry) {
        Made::Works(layout) => Ok(layout),
        Made::Later(why) => Err(why),
        Made::Refused(_, why) => Err(format!("{}: {why}", entry.place)),
    }
}

fn plain() -> Result<Arc<dyn Layout>> {
    Ok(Arc::new(Direct::new(Arc::new(Posix::plain()))?))
}

/// The mounts of this process, after their first use.
static READ: Mutex<Option<Arc<Mounts>>> = Mutex::new(None);

/// The mounts of this process, read at the first call, and again after a failed one.
///
/// # Errors
/// Errors of [`files`] and [`of_files`].
/// # Cost
/// The first call and one after a failure: as [`of_files`]. Others: a lock.
pub fn of_process() -> Result<Arc<Mounts>> {
    let mut read = READ.lock();
    if let Some(mounts) = &*read {
        return Ok(mounts.clone());
    }
    let mounts = of_files(&files()?)?;
    *read = Some(mounts.clone());
    Ok(mounts)
}

/// Call before the process ends: [`Layout::finish`] of the mounts of [`of_process`].
///
/// # Errors
/// Errors of [`Layout::finish`].
pub fn finish() -> Result<()> {
    let read = READ.lock().clone();
    read.map_or(Ok(()), |mounts| mounts.finish())
}

/// The layout through which this process opens every path: its mounts, or only plain paths if it has none.
///
/// # Errors
/// Errors of [`of_process`].
/// # Cost
/// As [`of_process`].
pub fn layout() -> Result<Arc<dyn Layout>> {
    let mounts = of_process()?;
    let none = mounts.mounts().is_empty() && named::configuration()?.is_none();
    if none { plain() } else { Ok(mounts) }
}
