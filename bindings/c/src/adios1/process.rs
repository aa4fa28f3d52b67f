//! State of a process: its session, the groups declared in code, and open files.

use crate::adios1::error::{Doing, Failure, Outcome, number};
use crate::adios1::file::File;
use crate::adios1::handle::{self, VariableHandle};
use crate::leaving;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_io::session::SharedGroup;
use thalweg_io::{Mode, Session, output};
use thalweg_schema::{GroupBuilder, Mesh, Statistics};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind};

/// A file as the threads of a program share it; `None` once it is closed.
type SharedFile = Arc<Mutex<Option<File>>>;

struct Declared {
    group: SharedGroup,
    /// How often its variables were deleted.
    generation: u16,
    /// Properties of meshes that were set before the meshes were defined.
    early: Vec<(String, EarlyMesh)>,
}

/// Changes a mesh once it is there.
pub type EarlyMesh = Box<dyn FnOnce(&mut Mesh) + Send>;

#[derive(Default)]
struct Process {
    session: Option<Arc<Session>>,
    /// A buffer limit set before there was a session, in bytes.
    buffer_limit: Option<u64>,
    groups: Vec<Option<Declared>>,
    files: BTreeMap<u64, SharedFile>,
    last_file: u64,
}

static PROCESS: Mutex<Option<Process>> = Mutex::new(None);

/// Looks at the process. Never held while another rank is waited for.
fn with<T>(f: impl FnOnce(&mut Process) -> T) -> T {
    f(PROCESS.lock().get_or_insert_default())
}

fn not_started() -> Failure {
    Failure::argument("neither adios_init nor adios_init_noxml has been called")
}

/// The session.
///
/// # Errors
/// Where none was begun.
pub fn session() -> Outcome<Arc<Session>> {
    with(|p| p.session.clone()).ok_or_else(not_started)
}

/// Whether there is a session.
pub fn is_started() -> bool {
    with(|p| p.session.is_some())
}

/// Collective: begins a session with the groups of an XML file, or with none.
///
/// # Errors
/// Errors in the XML file; a second `adios_init`. Without XML, an existing session continues.
pub fn start(config: Option<&str>, comm: Box<dyn Communicator>) -> Outcome<()> {
    if is_started() {
        return match config {
            None => Ok(()),
            Some(_) => Err(Failure::argument("adios_init was called before; adios_finalize ends that first")),
        };
    }
    let session = match config {
        Some(path) => Session::from_xml_file(path, comm),
        None => Session::without_xml(comm),
    };
    let session = Arc::new(session.map_err(|e| Doing::Start.failed(e))?);
    with(|p| {
        // As in the reference, the document takes precedence over earlier calls.
        if let (Some(limit), None) = (p.buffer_limit.take(), session.buffer().limit()) {
            session.set_buffer_limit(Some(limit));
        }
        p.session = Some(session.clone());
    });
    leaving::watch(&session, || drop(with(|p| std::mem::take(&mut p.files))));
    Ok(())
}

/// Collective: ends the session and closes its files for good. Without a session there is nothing to end, as in the reference:
/// parts of a program that each start and finish the library finish it several times.
///
/// - `number`: the program's number of this process ([`Session::finalize_as`]).
///
/// # Errors
/// Files that are still open: their data is not written.
pub fn finish(number: i32) -> Outcome<()> {
    if !is_started() {
        return Ok(());
    }
    let process = with(std::mem::take);
    let session = process.session.ok_or_else(not_started)?;
    let open = process.files.len();
    for file in process.files.into_values() {
        file.lock().take();
    }
    session.finalize_as(number).map_err(|e| Doing::Close.failed(e))?;
    match open {
        0 => Ok(()),
        n => Err(Failure::argument(format!("{n} files were not closed; their data is not written"))),
    }
}

/// Sets the most memory that outputs of this process may use, in bytes.
pub fn set_buffer_limit(bytes: u64) {
    match with(|p| p.session.clone()) {
        Some(session) => session.set_buffer_limit(Some(bytes)),
        None => with(|p| p.buffer_limit = Some(bytes)),
    }
}

/// Declares a group and returns its handle.
///
/// # Errors
/// A bad name.
pub fn declare(name: &str, time_index: &str, statistics: Statistics) -> Outcome<i64> {
    let session = session()?;
    let failed = |e: Error| Doing::Group.failed(e.in_group(name));
    let mut builder = GroupBuilder::new(name).map_err(failed)?;
    builder.set_time_index(time_index).map_err(failed)?;
    builder.set_statistics(statistics);
    let (group, is_second) = session.declare_beside(builder);
    if is_second {
        session.warn(&format!(
            "group \"{name}\" is declared again: outputs use the first declaration until that group is freed"
        ));
    }
    with(|p| {
        let handle = handle::group(p.groups.len())
            .ok_or_else(|| Failure::new(number::INVALID_GROUP, "no more groups can be declared"))?;
        p.groups.push(Some(Declared { group, generation: 0, early: Vec::new() }));
        Ok(handle)
    })
}

/// Looks at a declared group.
fn declared<T>(handle: i64, f: impl FnOnce(&mut Option<Declared>) -> T) -> Outcome<T> {
    let at = handle::group_number(handle)?;
    with(|p| p.groups.get_mut(at).filter(|g| g.is_some()).map(f)).ok_or_else(|| handle::no_group(handle))
}

/// The group of a handle.
///
/// # Errors
/// `err_invalid_group`.
pub fn group(handle: i64) -> Outcome<SharedGroup> {
    declared(handle, |g| g.as_ref().map(|g| g.group.clone()))?.ok_or_else(|| handle::no_group(handle))
}

/// Stores a property of a mesh until the mesh is defined.
///
/// # Errors
/// `err_invalid_group`.
pub fn keep_for_mesh(handle: i64, mesh: &str, change: EarlyMesh) -> Outcome<()> {
    declared(handle, |g| {
        if let Some(g) = g {
            g.early.push((mesh.to_string(), change));
        }
    })
}

/// The properties of a mesh that were set before it was defined.
///
/// # Errors
/// `err_invalid_group`.
pub fn kept_for_mesh(handle: i64, mesh: &str) -> Outcome<Vec<EarlyMesh>> {
    declared(handle, |g| {
        let early = g.as_mut().map(|g| std::mem::take(&mut g.early)).unwrap_or_default();
        let (of_mesh, others): (Vec<_>, Vec<_>) = early.into_iter().partition(|(name, _)| name == mesh);
        if let Some(g) = g {
            g.early = others;
        }
        of_mesh.into_iter().map(|(_, change)| change).collect()
    })
}

/// Forgets a group. Files of it that are open stay usable.
///
/// # Errors
/// `err_invalid_group`.
pub fn forget(handle: i64) -> Outcome<()> {
    if let Some(group) = declared(handle, Option::take)? {
        session()?.forget_one(&group.group);
    }
    Ok(())
}

/// Forgets the variables of a group.
///
/// # Errors
/// `err_invalid_group`.
pub fn delete_variables(handle: i64) -> Outcome<()> {
    let group = group(handle)?;
    group.lock().builder.delete_variables();
    declared(handle, |g| {
        if let Some(g) = g {
            g.generation = g.generation.wrapping_add(1) & 0xfff;
        }
    })
}

/// The handle of a variable at a position in a group.
///
/// # Errors
/// `err_invalid_group`; more variables than handles can count.
pub fn variable_handle(group: i64, position: usize) -> Outcome<i64> {
    let number = handle::group_number(group)?;
    let generation = declared(group, |g| g.as_ref().map_or(0, |g| g.generation))?;
    VariableHandle { group: number, generation, position }
        .number()
        .ok_or_else(|| Failure::new(number::INVALID_VARID, "a group has too many variables"))
}

/// The group and position of a variable's handle.
///
/// # Errors
/// `err_invalid_varid`, also for a variable that was deleted.
pub fn variable(handle: i64) -> Outcome<(SharedGroup, usize)> {
    let variable = VariableHandle::read(handle)?;
    with(|p| {
        let group = p.groups.get(variable.group)?.as_ref()?;
        (group.generation == variable.generation).then(|| (group.group.clone(), variable.position))
    })
    .ok_or_else(|| handle::no_variable(handle))
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// To write, append or update.
    Write(Mode),
    /// To read a group back.
    Read,
}

impl OpenMode {
    /// `r`, `w`, `a`, `u`, or the whole words, in any letter case.
    ///
    /// # Errors
    /// `err_invalid_file_mode` for other words.
    pub fn parse(text: &str) -> Outcome<OpenMode> {
        match text.trim().to_ascii_lowercase().as_str() {
            "r" | "read" => Ok(OpenMode::Read),
            "w" | "write" => Ok(OpenMode::Write(Mode::Write)),
            "a" | "append" => Ok(OpenMode::Write(Mode::Append)),
            "u" | "update" => Ok(OpenMode::Write(Mode::Update)),
            _ => Err(Failure::new(number::INVALID_FILE_MODE, format!("mode \"{text}\": expected r, w, a or u"))),
        }
    }
}

/// Arguments of `adios_open`.
pub struct OpenArguments {
    /// Name of the group.
    pub group: String,
    /// Name of the file.
    pub path: String,
    /// How.
    pub mode: OpenMode,
}

/// Collective over `comm`: opens a file and returns its handle.
///
/// - `asked`: the arguments, or this rank's error, which is then reported on the other ranks.
///
/// # Errors
/// The same number on all ranks, unless only some called with arguments that make no sense.
pub fn open(asked: Outcome<OpenArguments>, comm: Box<dyn Communicator>) -> Outcome<i64> {
    let ready = asked.and_then(|asked| session().map(|session| (asked, session)));
    let (OpenArguments { group, path, mode }, session) = match ready {
        Ok(ready) => ready,
        Err(failure) => {
            // Only the others need to know the kind; the program gets its own words.
            let _ = output::decline(&*comm, Error::new(ErrorKind::InvalidArgument, failure.text.clone()));
            return Err(failure);
        }
    };
    let doing = if mode == OpenMode::Read { Doing::OpenToRead } else { Doing::Open };
    let failed = |e: Error| doing.failed(e);
    let shared = match session.group(&group) {
        Ok(shared) => shared,
        Err(e) => {
            let cause = Error::new(ErrorKind::Config, e.what()).at_rank(comm.rank());
            return Err(failed(output::decline(&*comm, cause)));
        }
    };
    let file = match mode {
        OpenMode::Read => File::reading(session.open_to_read(&group, &path, comm).map_err(failed)?, shared),
        OpenMode::Write(mode) => {
            let output = session.open(&group, &path, mode, comm).map_err(failed)?;
            File::writing(output, shared, session)
        }
    };
    with(|p| {
        p.last_file += 1;
        p.files.insert(p.last_file, Arc::new(Mutex::new(Some(file))));
        Ok(handle::file(p.last_file))
    })
}

/// Uses an open file; calls of other threads wait.
///
/// # Errors
/// `err_invalid_file_pointer`, and errors of `f`.
pub fn with_file<T>(handle: i64, f: impl FnOnce(&mut File) -> Outcome<T>) -> Outcome<T> {
    let number = handle::file_number(handle)?;
    let file = with(|p| p.files.get(&number).cloned()).ok_or_else(|| handle::no_file(handle))?;
    let mut file = file.lock();
    f(file.as_mut().ok_or_else(|| handle::no_file(handle))?)
}

/// Takes a file out, to close it.
///
/// # Errors
/// `err_invalid_file_pointer`.
pub fn take_file(handle: i64) -> Outcome<File> {
    let number = handle::file_number(handle)?;
    let file = with(|p| p.files.remove(&number)).ok_or_else(|| handle::no_file(handle))?;
    file.lock().take().ok_or_else(|| handle::no_file(handle))
}

/// Calls `f` with the open outputs of a group, the newest first, until it returns a value.
pub fn ask_outputs_of<T>(group: &SharedGroup, mut f: impl FnMut(&mut File) -> Option<T>) -> Option<T> {
    let files: Vec<SharedFile> = with(|p| p.files.values().rev().cloned().collect());
    files.iter().find_map(|file| match file.lock().as_mut() {
        Some(file) if Arc::ptr_eq(file.group(), group) => f(file),
        _ => None,
    })
}
