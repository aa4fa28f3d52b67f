//! `STAGING`: outputs handed over to a server of a partition, which stores them while the program goes on.
//!
//! | question | answer |
//! |----------|--------|
//! | who writes | the server, one call after the other in the order in which ranks sent them ([`thalweg_layout::write_behind`]) |
//! | when | `promise=none`: close returns when the blocks are copied, as with `async=yes`; they are sent in the background. `promise=held`: close returns when the server has the output. `promise=stored`: when the output lies in the storage |
//! | where | one shared file, arranged as that of method `MPI`, at its own place below the folder that the partition's configuration names (`staging`) |
//! | what moves | each rank's process group to the server, once |
//! | who survives what | a held output: the death of all ranks, not of the server; a stored one: both. If the server ends, the file has the outputs that were stored, each of them whole |
//! | who reads | any program opens the file, and sees what is stored; through a mount with the layout `staging` also what is held |
//! | at what pace | outputs in flight: in phases of calculation, over `iterations`, in the order of `priority` (`pacing`) |
//! | services | those that the XML names for the group: processes of the server follow the file, and write what leaves them into another one |
//! | other methods | a method that writes a staged file next waits until it is stored |
//! | on failure | all ranks return the kind of the lowest failing rank's error. Where the server cannot store what it held, the next call or the next open of the file fails, on all ranks |
//!
//! Source: Lofstead et al., SAND2009-7763, the DataTap method; CUG 2009, staging.
//! Differs: the file is the queue: there is no other rendezvous between programs that write and programs that read.

pub(crate) mod pacing;

use crate::mounts::layouts;
use pacing::Pacer;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use thalweg_comm::agreement::agree;
use thalweg_comm::guarded::caught;
use thalweg_comm::in_calls;
use thalweg_layout::write_behind::Promise;
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId};
use thalweg_movement::events::Listener;
use thalweg_movement::guarded::Guarded;
use thalweg_movement::method::{self, CloseRequest, Finished, MethodKind, Opened, Parameter, Parameters, independent};
use thalweg_movement::output_file::cache::Cache;
use thalweg_movement::output_file::memory::Memory;
use thalweg_movement::pack::Reach;
use thalweg_movement::pack::blocks::Takes;
use thalweg_movement::{Closed, Method, Mode, OpenRequest};
use thalweg_partition::client::staging::{Pace, ask_for_services};
use thalweg_partition::configuration::Configuration;
use thalweg_partition::server::services::Wanted;
use thalweg_schema::services::Services;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// `partition`.
pub const PARTITION: Parameter = Parameter::text(
    "partition",
    "a file",
    "configuration of the partition whose server takes the outputs; relative names are below the working directory",
);
/// `promise`.
pub const PROMISE: Parameter = Parameter::choice(
    "promise",
    &["none", "held", "stored"],
    "when close returns. none: at once, as with async=yes; held: when the server has the output, which then survives the program; stored: when it lies in the storage",
);

/// `iterations`, also the attribute of the method's element.
pub const ITERATIONS: Parameter = Parameter::count(
    "iterations",
    1,
    "outputs in flight are sent over so many iterations (adios_end_iteration), a share in each",
)
.at_least(1);
/// `priority`, also the attribute of the method's element.
pub const PRIORITY: Parameter = Parameter::count(
    "priority",
    1,
    "of outputs in flight of several groups, those of the highest priority are sent first",
);

/// The method's entry in the registry.
pub const KIND: MethodKind = MethodKind {
    names: &["STAGING", "DATATAP"],
    id: 1,
    about: "a server takes outputs over, and stores them while the program goes on",
    parameters: &[
        PARTITION,
        PROMISE,
        ITERATIONS,
        PRIORITY,
        method::SYNC,
        method::INDEX,
        method::INDEX_FAN_IN,
        method::INDEX_AHEAD,
        method::DIRECT,
        method::SPILL_COPY,
    ],
    least: independent::KIND.least,
    tried: &[],
    make,
};

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    let partition: String = parameters.get(&PARTITION)?;
    let (promise, in_background) = match parameters.get::<String>(&PROMISE)?.as_str() {
        "held" => (Promise::Held, false),
        "stored" => (Promise::Stored, false),
        _ => (Promise::Held, true),
    };
    let inner = (independent::KIND.make)(parameters)?;
    let (iterations, priority) = (parameters.get(&ITERATIONS)?, parameters.get::<i32>(&PRIORITY)?);
    let pacer = None;
    Ok(Box::new(Staging { inner, partition: partition.into(), promise, in_background, iterations, priority, pacer }))
}

struct Staging {
    /// Writes the file, through the server.
    inner: Box<dyn Method>,
    partition: PathBuf,
    promise: Promise,
    in_background: bool,
    iterations: u64,
    priority: i32,
    /// From the open on.
    pacer: Option<Arc<Pacer>>,
}

/// The pace of the session's outputs, where methods find it.
#[derive(Default)]
struct Paced(Option<Arc<Pacer>>);

impl Memory for Paced {}

/// Gives a session's pace to its outputs.
pub(crate) fn set_pace(cache: &Cache, pacer: &Arc<Pacer>) {
    cache.of::<Paced>().lock().0 = Some(pacer.clone());
    let listener: Arc<dyn Listener> = pacer.clone();
    cache.events().listen(&listener);
}

/// The data services of the session's groups, where methods find them, and the files for which they were asked for.
#[derive(Default)]
struct Offered {
    services: Vec<Services>,
    asked: HashSet<(PathBuf, String)>,
}

impl Memory for Offered {}

/// Gives a session's services to its outputs.
pub(crate) fn set_services(cache: &Cache, services: Vec<Services>) {
    if !services.is_empty() {
        cache.of::<Offered>().lock().services = services;
    }
}

/// The files that a partition's server takes over, below the folder of its configuration.
#[derive(Clone)]
struct Files {
    layout: Arc<dyn Layout>,
    folder: PathBuf,
}

/// Those of each configuration and promise that this process is connected to.
#[derive(Default)]
struct Connected(HashMap<(PathBuf, bool), Files>);

impl Memory for Connected {}

fn connect(file: &Path, promise: Promise, pacer: Option<Arc<Pacer>>) -> Result<Files> {
    let (layout, configuration) = layouts::staged(file, promise, pacer.map(|pacer| pacer as Arc<dyn Pace>))?;
    let folder = configuration.dynamic.staging.unwrap_or_default();
    if !folder.starts_with('/') {
        let what =
            format!("staging = {folder} is no folder: mount it with layout \"staging\", and choose another method");
        return Err(Error::new(ErrorKind::Config, what).in_object(file.display().to_string()));
    }
    Ok(Files { layout: Arc::new(Guarded::new(layout)), folder: folder.into() })
}

impl Files {
    /// The name of a file there, from its absolute path.
    fn name_of(&self, plain: &Path) -> Result<String> {
        plain.strip_prefix(&self.folder).ok().and_then(Path::to_str).map(str::to_string).ok_or_else(|| {
            let folder = self.folder.display();
            let what = format!("the partition stages files below {folder} (staging = in its configuration)");
            Error::new(ErrorKind::Config, what)
        })
    }
}

/// A file as the staging server of a partition has it, with what is not stored yet: the layout, and the file's name there.
///
/// # Errors
/// As those of the method's open: no server, or a file that is not below its folder.
pub fn held(partition: &Path, file: &Path) -> Result<(Arc<dyn Layout>, String)> {
    let plain = std::path::absolute(file).map_err(|e| Error::io("cannot find the file", e))?;
    let files = connect(partition, Promise::Held, None)?;
    let name = files.name_of(&plain).map_err(|e| e.in_object(file.display().to_string()))?;
    Ok((files.layout, name))
}

impl Staging {
    /// The layout that takes a file of this layout over, and the file's name there.
    fn place(&self, layout: &dyn Layout, path: &str, cache: &Cache) -> Result<(Arc<dyn Layout>, PathBuf, String)> {
        let plain = layout.plain_file(path).ok_or_else(|| {
            let what = "method STAGING writes files of the system, and this one lies on a mount: choose another method";
            Error::new(ErrorKind::Config, what)
        })?;
        let plain = std::path::absolute(&plain).map_err(|e| Error::io("cannot find the file", e))?;
        let key = (self.partition.clone(), self.promise == Promise::Stored);
        let known = cache.of::<Connected>().lock().0.get(&key).cloned();
        // Not under the lock: a start of servers may take a while, and other outputs go on.
        let files = match known {
            Some(files) => files,
            None => connect(&self.partition, self.promise, self.pacer.clone())?,
        };
        cache.of::<Connected>().lock().0.entry(key).or_insert_with(|| files.clone());
        let name = files.name_of(&plain)?;
        Ok((files.layout, plain, name))
    }

    /// Asks the server for the services of a group, where a file is made or this session opens it first. Without them the file is what it
    /// was.
    fn ask_for_services(&self, plain: &Path, request: &OpenRequest<'_>) -> Result<()> {
        let offered = request.cache.of::<Offered>();
        let services = {
            let mut offered = offered.lock();
            let Some(services) = offered.services.iter().find(|s| s.group == request.group).cloned() else {
                return Ok(());
            };
            let first = offered.asked.insert((plain.to_path_buf(), request.group.to_string()));
            if !first && request.mode != Mode::Write {
                return Ok(());
            }
            services
        };
        let folder = std::env::current_dir().map_err(|e| Error::io("cannot find the working directory", e))?;
        let file = plain.display().to_string();
        let wanted = Wanted {
            output: services.output_of(&file),
            file,
            group: services.group.clone(),
            document: services.document(),
            folder: folder.display().to_string(),
            goes_on: request.mode != Mode::Write,
        };
        let asked =
            Configuration::read(&self.partition).and_then(|configuration| ask_for_services(&configuration, &wanted));
        if asked.is_err() {
            // The next output asks again.
            offered.lock().asked.remove(&(plain.to_path_buf(), request.group.to_string()));
        }
        asked
    }
}

impl Method for Staging {
    fn name(&self) -> &'static str {
        KIND.names[0]
    }

    fn subfiles(&self) -> Option<bool> {
        self.inner.subfiles()
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        self.pacer = request.cache.of::<Paced>().lock().0.clone();
        let place = caught("reach the staging server", || self.place(&**request.layout, request.path, request.cache));
        let place = place.map_err(|e| e.in_object(request.path));
        let (place, own) = match place {
            Ok(place) => (Some(place), Ok(())),
            Err(e) => (None, Err(e)),
        };
        agree(request.comm, own, "reach the staging server", &[])?;
        let (layout, plain, name) = place.ok_or_else(|| Error::new(ErrorKind::Io, "no staging server"))?;
        // An index of the file as this process wrote it without the server would be written over what the server adds.
        drop(request.cache.take(request.layout, request.path));
        let opened = self.inner.open(&OpenRequest { layout: &layout, path: &name, ..*request })?;
        if request.comm.rank() == 0
            && let Err(e) = self.ask_for_services(&plain, request)
        {
            thalweg_warnings::tell_once(&format!("{}: the file gets no services: {e}", plain.display()));
        }
        HANDED_OVER.lock().insert(plain, (layout, name));
        Ok(opened)
    }

    fn at_once(&self, reach: &Reach) -> Option<u64> {
        self.inner.at_once(reach)
    }

    fn takes(&self) -> Takes {
        self.inner.takes()
    }

    fn through(&mut self, reach: &Reach) -> Result<(&dyn WriteObject, u64)> {
        self.inner.through(reach)
    }

    fn after(&mut self, finished: &[Finished]) {
        self.inner.after(finished);
    }

    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed> {
        // Where the program waits for this close, there is nothing to pace.
        let pacer = self.pacer.as_ref().filter(|_| in_calls::is_in_background());
        // Other ranks wait for this one inside the close.
        let longest = request.comm.timeout() / 4;
        let _sending = pacer.map(|pacer| pacer.begin(self.priority, self.iterations, request.pack.length(), longest));
        self.inner.close(request)
    }

    fn in_background(&self) -> bool {
        self.in_background
    }
}

/// Whether a method is this one.
pub(crate) fn is(kind: &MethodKind) -> bool {
    kind.names == KIND.names
}

/// Files by their absolute paths, with what has them, and their names there.
type HandedOver = HashMap<PathBuf, (Arc<dyn Layout>, String)>;

/// Files that were handed over by this process: they may not be stored. Of all sessions: the next one may write the file by another
/// method.
static HANDED_OVER: LazyLock<Mutex<HandedOver>> = LazyLock::new(Mutex::default);

/// Waits until a file that this process has handed over is stored: another method opens it.
///
/// # Errors
/// What could not be stored.
pub(crate) fn settle(layout: &dyn Layout, path: &str) -> Result<()> {
    if HANDED_OVER.lock().is_empty() {
        return Ok(());
    }
    let Some(plain) = layout.plain_file(path).and_then(|plain| std::path::absolute(plain).ok()) else { return Ok(()) };
    let Some((files, name)) = HANDED_OVER.lock().get(&plain).cloned() else { return Ok(()) };
    let store = || {
        let object = files.open_write(&name, OpenWrite::Existing, WriterId(0))?;
        object.sync()?;
        object.close()
    };
    match store() {
        // It was removed.
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        // One that was told to stop has stored everything.
        Err(e) if e.kind() == ErrorKind::PeerLost => {
            thalweg_warnings::tell_once(&format!("{}: {e}; the file has what was stored", plain.display()));
        }
        outcome => outcome.map_err(|e| e.in_object(path))?,
    }
    HANDED_OVER.lock().remove(&plain);
    Ok(())
}
