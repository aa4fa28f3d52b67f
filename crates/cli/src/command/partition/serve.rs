//! One server of a partition: from its start to its end.

use super::log_of;
use crate::arguments::PartitionServe;
use crate::detached;
use crate::outcome::{Failure, Outcome};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use thalweg_io::mounts::{self, stores};
use thalweg_layout::container::Options;
use thalweg_layout::{Container, Direct, Layout};
use thalweg_partition::configuration::Configuration;
use thalweg_partition::instance;
use thalweg_partition::registry::{Entry, Registry};
use thalweg_partition::server::draining::{self, Alarm};
use thalweg_partition::server::services::{Launch, Wanted};
use thalweg_partition::server::staging::{self, Staging};
use thalweg_partition::server::{Serve, Serving};
use thalweg_remote::transport::token::Token;
use thalweg_remote::transport::{Listener, tcp, unix};
use thalweg_types::{Error, ErrorKind};

/// How often a server looks at what is not stored.
const LOOKS: Duration = Duration::from_secs(1);

/// The mount of this host's table with exactly this path, if its files are not those of a partition.
pub(super) fn mount_at(place: &str) -> Result<Option<mounts::Entry>, Error> {
    let of_partitions = ["partition", "staging"];
    let own = |entry: &mounts::Entry| !of_partitions.iter().any(|layout| entry.layout.eq_ignore_ascii_case(layout));
    let files = match mounts::files() {
        // A table that is written later, with a mount of this partition.
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        files => files?,
    };
    let entries = mounts::entries(&files)?;
    Ok(entries.into_iter().filter(own).find(|entry| Path::new(&entry.path) == Path::new(place)))
}

/// Where files lie: a mount of this server's table, a folder, or any store.
///
/// - `make`: whether a folder may be missing.
fn storage(place: &str, make: bool) -> Result<Arc<dyn Layout>, Failure> {
    let url = match place.starts_with('/') {
        true => {
            if let Some(entry) = mount_at(place)? {
                return Ok(mounts::make_now(&entry).map_err(|why| Error::new(ErrorKind::Config, why))?);
            }
            if make {
                let cannot = |e| Error::io("cannot make the folder", e).in_object(place);
                std::fs::create_dir_all(place).map_err(cannot)?;
            }
            format!("posix:{place}")
        }
        false => place.to_string(),
    };
    let store = stores::open(&url)?;
    Ok(match store.capability().write_at {
        true => Arc::new(Direct::new(store)?),
        false => Arc::new(Container::new(vec![store], Options::default())?),
    })
}

/// How long a server that is not needed waits for a further client: a program may begin a session when it has ended another.
const UNNEEDED: Duration = Duration::from_secs(1);

/// What a server does beside its clients' requests: it warns of bytes that it could not store in time, and stores them before its job
/// ends.
struct Watching {
    kill_wait: Duration,
    job_end: Option<SystemTime>,
    alarm: Alarm,
    looked: Option<Instant>,
    writing: Option<JoinHandle<()>>,
}

impl Watching {
    fn new(kill_wait: Duration) -> Watching {
        let end = draining::job_end(std::env::var("SLURM_JOB_END_TIME").ok().as_deref());
        // One in the past is that of another job.
        let job_end = end.filter(|end| *end > SystemTime::now());
        Watching { kill_wait, job_end, alarm: Alarm::default(), looked: None, writing: None }
    }

    fn look(&mut self, serving: &Serving) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOKS) {
            return;
        }
        self.looked = Some(Instant::now());
        let outlook = serving.outlook();
        if self.alarm.looks(&outlook, self.kill_wait) {
            let seconds = self.kill_wait.as_secs();
            eprintln!("warning: {outlook}, but a server that has to end is killed after about {seconds} s");
        }
        let Some(end) = self.job_end else { return };
        let left = end.duration_since(SystemTime::now()).unwrap_or_default();
        let idle = self.writing.as_ref().is_none_or(JoinHandle::is_finished);
        if idle && draining::begins(&outlook, left, self.kill_wait) {
            if self.writing.is_none() {
                eprintln!("the job ends in {} s: bytes are written to the storage from now on", left.as_secs());
            }
            let begun = std::thread::Builder::new().name("write back".into()).spawn(serving.write_back());
            self.writing = begun.ok().or(self.writing.take());
        }
    }

    /// Says what is not stored, before a server ends that was told to by a signal.
    fn last_words(&self, serving: &Serving) {
        let staged = serving.staged().map_or(0, |staged| staged.held);
        let words = draining::last_words(&serving.outlook(), self.kill_wait, serving.open_files(), staged);
        eprintln!("ends: {words}");
    }

    fn end(self) {
        if let Some(writing) = self.writing {
            let _ = writing.join();
        }
    }
}

/// Starts the process that gives a file's steps to its services. Its errors go to the server's log.
fn launch(partition: &Path, wanted: &Wanted) -> Result<Child, Error> {
    let failed = |e| Error::io("cannot start the services", e).in_object(wanted.file.clone());
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args([
        "copy",
        &wanted.file,
        &wanted.output,
        "--follow",
        "--services",
        "/dev/stdin",
        "--group",
        &wanted.group,
    ]);
    command.arg("--through").arg(partition).arg(if wanted.goes_on { "--continue" } else { "--force" });
    command.current_dir(&wanted.folder).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
    let mut process = command.spawn().map_err(failed)?;
    if let Some(mut to) = process.stdin.take() {
        let document = wanted.document.clone();
        // A process that has no whole document says so.
        std::thread::spawn(move || to.write_all(document.as_bytes()));
    }
    Ok(process)
}

/// Leaves the streams of who launched this server: its errors go to its log from now on.
fn detach(entry: &Entry, number: u32) -> Result<(), Error> {
    let path = log_of(entry, number)?;
    let cannot =
        |e: std::io::Error| Error::io("cannot write the server's log", e).in_object(path.display().to_string());
    let (log, none) =
        (std::fs::File::create(&path).map_err(cannot)?, std::fs::File::open("/dev/null").map_err(cannot)?);
    rustix::stdio::dup2_stdin(&none).map_err(|e| cannot(e.into()))?;
    rustix::stdio::dup2_stdout(&log).map_err(|e| cannot(e.into()))?;
    rustix::stdio::dup2_stderr(&log).map_err(|e| cannot(e.into()))
}

pub fn serve(arguments: &PartitionServe) -> Result<Outcome, Failure> {
    detached::leave();
    let signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|e| Error::io("cannot listen for signals", e))?;
    let configuration = Configuration::read(&arguments.file)?;
    let registry = Registry::at(&configuration.registry);
    let (name, number) = (&configuration.fixed.name, arguments.server);
    let entry = registry.entry(name)?;
    if entry.instance.is_none() {
        let what =
            format!("partition {name} is not being started: thalweg partition start {}", arguments.file.display());
        return Err(Error::new(ErrorKind::NotReady, what).into());
    }
    if number >= entry.processes()? {
        return Err(Failure::Usage(format!(
            "--server {number}: the partition has servers 0 to {}",
            entry.processes()? - 1
        )));
    }
    let fixed = entry.fixed()?;
    // Of a partition that has run before the folders must be there.
    let new = entry.starts <= 1;
    let data = fixed.servers.get(number as usize).map(|location| storage(&location.storage, new)).transpose()?;
    let names = match number == entry.names_at()? {
        true => Some(storage(&fixed.metadata.storage, new)?),
        false => None,
    };
    let dynamic = &configuration.dynamic;
    let place = dynamic.staging.as_ref().filter(|_| number == staging::SERVER);
    let staging = place.map(|place| storage(place, new)).transpose()?;
    let launch: Launch = {
        let partition = std::path::absolute(&arguments.file).map_err(|e| Error::io("cannot find the partition", e))?;
        Arc::new(move |wanted| launch(&partition, wanted))
    };
    let staging = staging.map(|storage| Staging { storage, memory: dynamic.staging_memory, launch: Some(launch) });
    let socket = instance::socket(&entry, number);
    let mut listeners: Vec<Arc<dyn Listener>> = vec![Arc::new(unix::listen(&socket)?)];
    let mut address = None;
    if let Some(listen) = &configuration.dynamic.listen {
        let file = registry.token(name)?;
        let token = match Token::make(&file) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Token::read(&file)?,
            token => token?,
        };
        let wanted = if listen.contains(':') { listen.clone() } else { format!("{listen}:0") };
        let (listener, bound) = tcp::listen(&wanted, token)?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        address = Some(match bound.ip().is_unspecified() {
            true => format!("{host}:{}", bound.port()),
            false => bound.to_string(),
        });
        listeners.push(Arc::new(listener));
    }
    let (cache, kill_wait) = (dynamic.cache_size, dynamic.kill_wait);
    let what = Serve { entry: &entry, number, data, names, cache, staging, kill_wait };
    let serving = Serving::begin(&what, listeners)?;
    if arguments.detached {
        detach(&entry, number)?;
    }
    instance::register(&registry, &entry, number, socket.display().to_string(), address)?;
    let mut last_client = Instant::now();
    let (mut told, mut told_staged) = (0, 0);
    let mut watching = Watching::new(kill_wait);
    loop {
        if signals.pending().next().is_some() {
            watching.last_words(&serving);
            break;
        }
        if serving.wait(Duration::from_millis(50)) {
            break;
        }
        watching.look(&serving);
        let failures = serving.failures();
        if failures.count > told {
            told = failures.count;
            // In the server's log.
            eprintln!("bytes of a client that had ended could not be written: {}", failures.last.unwrap_or_default());
        }
        if let Some(staged) = serving.staged().filter(|staged| staged.failures > told_staged) {
            told_staged = staged.failures;
            eprintln!("a staged write could not be stored: {}", staged.last_failure.unwrap_or_default());
        }
        if serving.connections() > 0 {
            last_client = Instant::now();
        }
        let idle = if serving.is_needed() { configuration.dynamic.idle } else { Some(UNNEEDED) };
        if idle.is_some_and(|idle| last_client.elapsed() > idle) {
            break;
        }
    }
    watching.end();
    let ended = serving.end();
    let finished = thalweg_io::mounts::finish();
    let unregistered = instance::unregister(&registry, name, number);
    ended.and(finished).and(unregistered)?;
    Ok(Outcome::Done)
}
