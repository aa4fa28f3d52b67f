//! `thalweg partition`: partitions of data servers, from their configuration file.

use crate::arguments::{
    Partition as Arguments, PartitionCheck, PartitionFile, PartitionList, PartitionMove, PartitionRemove,
    PartitionServe, PartitionStart, PartitionStatus, PartitionStop, StartedBy,
};
use crate::detached;
use crate::outcome::{Failure, Outcome};
use crate::terminal::Terminal;
use rustix::process::Signal;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_io::mounts::{self, stores};
use thalweg_layout::container::Options;
use thalweg_layout::{Container, Direct, Layout};
use thalweg_partition::Partition;
use thalweg_partition::checking::{self, Finding};
use thalweg_partition::client::place::is_here;
use thalweg_partition::client::{ask_to_end, status};
use thalweg_partition::configuration::Configuration;
use thalweg_partition::instance;
use thalweg_partition::moving::copy_all;
use thalweg_partition::registry::{Entry, Registry, Server};
use thalweg_partition::server::staging::{self, Staging};
use thalweg_partition::server::{Serve, Serving, Status};
use thalweg_partition::starting::{self, Launcher};
use thalweg_remote::transport::token::Token;
use thalweg_remote::transport::{Listener, tcp, unix};
use thalweg_types::printable::printable;
use thalweg_types::{Error, ErrorKind};

pub fn run(arguments: &Arguments, out: &mut Terminal) -> Result<Outcome, Failure> {
    match arguments {
        Arguments::Create(a) => create(a, out),
        Arguments::Start(a) => start(a, out),
        Arguments::Status(a) => show(a, out),
        Arguments::Stop(a) => stop(a, out),
        Arguments::List(a) => list(a, out),
        Arguments::Check(a) => check(a, out),
        Arguments::Move(a) => move_all(a, out),
        Arguments::Remove(a) => remove(a, out),
        Arguments::Serve(a) => serve(a),
    }
}

fn create(arguments: &PartitionFile, out: &mut Terminal) -> Result<Outcome, Failure> {
    let configuration = Configuration::read(&arguments.file)?;
    let entry = instance::create(&configuration)?;
    let (name, servers) = (printable(&entry.name), entry.servers.len());
    out.line(format_args!("partition {name} of {servers} servers; thalweg partition start starts them"))?;
    Ok(Outcome::Done)
}

/// The command that starts a server.
fn command(file: &Path, number: u32, host: &str, by: StartedBy) -> Result<Vec<String>, Error> {
    let cannot = |e| Error::io("cannot find this program", e);
    let program = std::env::current_exe().map_err(cannot)?;
    let file = std::path::absolute(file).map_err(|e| Error::io("cannot find the configuration", e))?;
    let mut words = Vec::new();
    let node = std::env::var("SLURMD_NODENAME").unwrap_or_else(|_| host.to_string());
    let node = if is_here(host) { node.as_str() } else { host };
    let launch: &[&str] = match by {
        StartedBy::Local => &[],
        // A step beside the application's, which takes no memory or processors from it.
        StartedBy::Slurm => &["srun", "--overlap", "-N1", "-n1", "--mem=0", "--nodelist", node],
        StartedBy::Pbs => &["pbsdsh", "-h", host, "--"],
        StartedBy::Flux => {
            let requires = format!("--requires=host:{host}");
            words.extend(["flux", "run", "-N1", "-n1", &requires].map(str::to_string));
            &[]
        }
        StartedBy::Ssh => &["ssh", "-n", host],
    };
    words.extend(launch.iter().map(|word| word.to_string()));
    words.extend([program.display().to_string(), "partition".into(), "serve".into(), file.display().to_string()]);
    words.extend(["--server".into(), number.to_string()]);
    Ok(words)
}

fn start(arguments: &PartitionStart, out: &mut Terminal) -> Result<Outcome, Failure> {
    // A program whose first open starts the servers may have descriptors that no server should hold.
    detached::close_descriptors();
    let configuration = Configuration::read(&arguments.file)?;
    let name = &configuration.fixed.name;
    let in_job = std::env::var_os("SLURM_JOB_ID").is_some();
    let by = arguments.by.unwrap_or(if in_job { StartedBy::Slurm } else { StartedBy::Local });
    if arguments.print {
        let entry = Registry::at(&configuration.registry).entry(name)?;
        for (location, number) in entry.locations()?.into_iter().zip(0..) {
            let words = command(&arguments.file, number, &location.host, by)?;
            out.line(format_args!("{}: {}", printable(&location.host), printable(&words.join(" "))))?;
        }
        return Ok(Outcome::Done);
    }
    let mut processes = Processes { file: &arguments.file, by, children: Vec::new() };
    let entry = starting::start(&configuration, Duration::from_secs(arguments.patience), &mut processes)?;
    let number = entry.instance.as_ref().map_or(0, |instance| instance.number);
    out.line(format_args!("partition {} runs, start {number}", printable(name)))?;
    Ok(Outcome::Done)
}

/// Servers as processes of this command, or of the commands that reach other hosts.
struct Processes<'a> {
    file: &'a Path,
    by: StartedBy,
    /// Numbers, processes and logs.
    children: Vec<(u32, Child, PathBuf)>,
}

impl Launcher for Processes<'_> {
    fn launch(&mut self, entry: &Entry, wanted: &[(u32, String)]) -> Result<(), Error> {
        let elsewhere: Vec<&str> = wanted.iter().map(|(_, host)| host.as_str()).filter(|host| !is_here(host)).collect();
        if !elsewhere.is_empty() && self.by == StartedBy::Local {
            let what = format!(
                "servers on other hosts ({}) are started in a Slurm job, or there by hand: --print shows the commands",
                elsewhere.join(", ")
            );
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        for (number, host) in wanted {
            let (child, log) = spawn(entry, *number, &command(self.file, *number, host, self.by)?)?;
            self.children.push((*number, child, log));
        }
        Ok(())
    }

    fn ended(&mut self) -> Option<Error> {
        self.children.iter_mut().find_map(|(number, child, log)| {
            let status = child.try_wait().ok().flatten()?;
            Some(starting::ended(*number, status, &std::fs::read_to_string(log).unwrap_or_default()))
        })
    }

    fn end(&mut self) {
        for (_, child, _) in &self.children {
            if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
                let _ = rustix::process::kill_process(pid, Signal::TERM);
            }
        }
        for (_, mut child, _) in self.children.drain(..) {
            let _ = child.wait();
        }
    }
}

/// Starts a server; its standard error goes to a log.
fn spawn(entry: &Entry, number: u32, words: &[String]) -> Result<(Child, PathBuf), Error> {
    let log = log_of(entry, number)?;
    let cannot = |e| Error::io(format!("cannot start server {number} with {}", words[0]), e);
    let file = std::fs::File::create(&log).map_err(|e| cannot(e).in_object(log.display().to_string()))?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    Ok((command.spawn().map_err(cannot)?, log))
}

fn log_of(entry: &Entry, number: u32) -> Result<PathBuf, Error> {
    let logs = super::mount::logs().map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
    Ok(logs.join(format!("partition-{}-{number}.log", entry.name)))
}

/// Where files lie: a folder, or any store.
///
/// - `make`: whether a folder may be missing.
fn storage(place: &str, make: bool) -> Result<Arc<dyn Layout>, Failure> {
    let url = match place.starts_with('/') {
        true => {
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

/// Where staged files lie: a mount of this server's table, or as [`storage`]. A mount whose files a partition has is for the programs
/// that hand over.
fn staging_storage(place: &str, make: bool) -> Result<Arc<dyn Layout>, Failure> {
    let entries = mounts::entries(&mounts::files()?)?;
    let of_partitions = ["partition", "staging"];
    let own = |entry: &&mounts::Entry| !of_partitions.iter().any(|layout| entry.layout.eq_ignore_ascii_case(layout));
    match entries.iter().filter(own).find(|entry| Path::new(&entry.path) == Path::new(place)) {
        Some(entry) => Ok(mounts::make_now(entry).map_err(|why| Error::new(ErrorKind::Config, why))?),
        None => storage(place, make),
    }
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

fn serve(arguments: &PartitionServe) -> Result<Outcome, Failure> {
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
    let staging = place.map(|place| staging_storage(place, new)).transpose()?;
    let staging = staging.map(|storage| Staging { storage, memory: dynamic.staging_memory });
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
    let serving =
        Serving::begin(&Serve { entry: &entry, number, data, names, cache: dynamic.cache_size, staging }, listeners)?;
    if arguments.detached {
        detach(&entry, number)?;
    }
    instance::register(&registry, &entry, number, socket.display().to_string(), address)?;
    let mut last_client = Instant::now();
    let (mut told, mut told_staged) = (0, 0);
    loop {
        if signals.pending().next().is_some() || serving.wait(Duration::from_millis(50)) {
            break;
        }
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
        if configuration.dynamic.idle.is_some_and(|idle| last_client.elapsed() > idle) {
            break;
        }
    }
    let ended = serving.end();
    let finished = thalweg_io::mounts::finish();
    let unregistered = instance::unregister(&registry, name, number);
    ended.and(finished).and(unregistered)?;
    Ok(Outcome::Done)
}

fn stop(arguments: &PartitionStop, out: &mut Terminal) -> Result<Outcome, Failure> {
    let configuration = Configuration::read(&arguments.file)?;
    let registry = Registry::at(&configuration.registry);
    let name = &configuration.fixed.name;
    let (entry, token) = (registry.entry(name)?, registry.token(name)?);
    let Some(running) = &entry.instance else {
        out.line(format_args!("partition {} does not run", printable(name)))?;
        return Ok(Outcome::Done);
    };
    let mut failed = None;
    for server in &running.servers {
        match ask_to_end(&entry, &token, server.number) {
            // Whether it runs is seen below.
            Err(e) if e.kind() == ErrorKind::PeerLost => {}
            Err(e) => {
                let what = format!("server {} of partition {name} cannot write everything, and goes on", server.number);
                failed = Some(Error::new(e.kind(), what).caused_by(e).safe("bytes closed or synced before"));
            }
            Ok(()) => {}
        }
    }
    if let Some(e) = failed {
        return Err(e.into());
    }
    let begin = Instant::now();
    loop {
        let now = registry.entry(name)?;
        let left: Vec<&Server> = match &now.instance {
            Some(instance) if instance.number == running.number => instance.servers.iter().collect(),
            _ => break,
        };
        if left.iter().all(|server| instance::runs(server) == Some(false)) {
            // Killed before.
            registry.change(name, |entry| Ok(entry.map(|entry| Entry { instance: None, ..entry })))?;
            break;
        }
        if begin.elapsed() > Duration::from_secs(arguments.patience) {
            let left: Vec<String> =
                left.iter().map(|s| format!("{} on {} (process {})", s.number, s.host, s.pid)).collect();
            let what = format!("servers of partition {name} have not ended: {}", left.join(", "));
            return Err(Error::new(ErrorKind::Timeout, what).into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    out.line(format_args!("partition {} is stopped", printable(name)))?;
    Ok(Outcome::Done)
}

fn show(arguments: &PartitionStatus, out: &mut Terminal) -> Result<Outcome, Failure> {
    let configuration = Configuration::read(&arguments.file)?;
    let registry = Registry::at(&configuration.registry);
    let (entry, token) = (registry.entry(&configuration.fixed.name)?, registry.token(&configuration.fixed.name)?);
    let mut all_answer = true;
    let mut servers = Vec::new();
    let (processes, locations) = (entry.processes()?, entry.locations()?);
    for number in 0..processes {
        let known = entry.instance.iter().flat_map(|i| &i.servers).find(|server| server.number == number);
        let state = match entry.instance.is_some() {
            true => Some(status(&entry, &token, number)),
            false => None,
        };
        all_answer &= matches!(state, None | Some(Ok(_)));
        servers.push((number, &locations[number as usize], known, state));
    }
    if arguments.json {
        let list: Vec<serde_json::Value> = servers
            .iter()
            .map(|(number, location, known, state)| {
                serde_json::json!({
                    "server": number,
                    "host": location.host,
                    "storage": location.storage,
                    "pid": known.map(|server| server.pid),
                    "address": known.and_then(|server| server.address.clone()),
                    "state": state.as_ref().and_then(|state| state.as_ref().ok()),
                    "error": state.as_ref().and_then(|state| state.as_ref().err()).map(|e| e.to_string()),
                })
            })
            .collect();
        let document = serde_json::json!({
            "partition": entry.name,
            "stripe": entry.stripe_size,
            "starts": entry.starts,
            "running": entry.instance.is_some(),
            "servers": list,
        });
        writeln!(out, "{document:#}")?;
    } else {
        let runs = if entry.instance.is_some() { "started" } else { "not started" };
        out.line(format_args!("partition {}, stripes of {} bytes, {runs}", printable(&entry.name), entry.stripe_size))?;
        for (number, location, _, state) in &servers {
            let said = match state {
                None => "not started".to_string(),
                Some(Err(e)) => e.to_string(),
                Some(Ok(s)) => format!(
                    "{} s, {} open files, {} blocks of {} KiB in the cache, {} hits, {} misses",
                    s.seconds,
                    s.files,
                    s.blocks,
                    s.block >> 10,
                    s.hits,
                    s.misses
                ),
            };
            out.line(format_args!("server {number} {}: {}", printable(&location.to_string()), printable(&said)))?;
            for client in state.iter().flatten().flat_map(|state| &state.clients) {
                let waits = match &client.waits_for {
                    Some(what) => format!("; waits for a reply to: {what}, for {} ms", client.waits_ms),
                    None => String::new(),
                };
                let (of, bytes) = (&client.mount, &client.bytes);
                let said = format!("{}, {of}, for {} s; {bytes}{waits}", client.client, client.seconds);
                out.line(format_args!("  {}", printable(&said)))?;
            }
            if let Some(Ok(Status { staging: Some(staged), .. })) = state {
                out.line(format_args!(
                    "  staging: {} of at most {} bytes held, {} writes to be stored, {} bytes stored",
                    staged.held, staged.limit, staged.queued, staged.stored
                ))?;
                if let Some(last) = &staged.last_failure {
                    let failures = staged.failures;
                    out.line(format_args!("  {failures} writes could not be stored, the last: {}", printable(last)))?;
                }
            }
            if let Some(Ok(Status { last_failure: Some(last), failures, .. })) = state {
                out.line(format_args!(
                    "  {failures} failures to write bytes of clients that had ended, the last: {}",
                    printable(last)
                ))?;
            }
        }
    }
    Ok(if all_answer { Outcome::Done } else { Outcome::No })
}

fn list(arguments: &PartitionList, out: &mut Terminal) -> Result<Outcome, Failure> {
    let registry = Registry::at(&arguments.folder);
    for name in registry.list()? {
        let line = match registry.entry(&name) {
            Err(e) => e.to_string(),
            Ok(entry) => {
                let runs = if entry.instance.is_some() { "started" } else { "not started" };
                format!("{} servers, stripes of {} bytes, {runs}", entry.servers.len(), entry.stripe_size)
            }
        };
        out.line(format_args!("{name}: {}", printable(&line)))?;
    }
    Ok(Outcome::Done)
}

fn check(arguments: &PartitionCheck, out: &mut Terminal) -> Result<Outcome, Failure> {
    let checked = checking::check(&Partition::open(&arguments.file, |_, _| Ok(()))?)?;
    for finding in &checked.findings {
        let line = match finding {
            Finding::Broken { path, why } => format!("{path}: cannot be used: {why}"),
            Finding::Orphan { server, object } => format!("server {server}: {object}: data of no file"),
            Finding::Foreign { server, object } => format!("server {server}: {object}: no data of this server"),
        };
        out.line(format_args!("{}", printable(&line)))?;
    }
    let (files, objects, wrong) = (checked.files, checked.objects, checked.findings.len());
    match wrong {
        0 => out.line(format_args!("{files} files, {objects} objects at the servers: nothing is wrong"))?,
        _ => out.line(format_args!("{files} files, {objects} objects at the servers, {wrong} findings"))?,
    }
    Ok(if wrong == 0 { Outcome::Done } else { Outcome::No })
}

fn move_all(arguments: &PartitionMove, out: &mut Terminal) -> Result<Outcome, Failure> {
    let open = |file: &Path| Partition::open(file, |_, _| Ok(()));
    let moved = copy_all(&open(&arguments.from)?, &open(&arguments.to)?)?;
    out.line(format_args!("{} files and {} folders, {} bytes", moved.files, moved.folders, moved.bytes))?;
    Ok(Outcome::Done)
}

/// Removes the registry's entry; folders of the partition are emptied where this host has them.
fn remove(arguments: &PartitionRemove, out: &mut Terminal) -> Result<Outcome, Failure> {
    let configuration = Configuration::read(&arguments.file)?;
    let registry = Registry::at(&configuration.registry);
    let name = &configuration.fixed.name;
    let entry = registry.entry(name)?;
    if entry.instance.is_some() {
        let what = format!("partition {name} is started: thalweg partition stop {}", arguments.file.display());
        return Err(Error::new(ErrorKind::NotReady, what).into());
    }
    let fixed = entry.fixed()?;
    let places = fixed.servers.iter().chain([&fixed.metadata]);
    if let Some(other) = places.clone().find(|place| !is_here(&place.host) || !place.storage.starts_with('/')) {
        let what =
            format!("{other} is no folder of this host: remove its files there, then {name}.toml in the registry");
        return Err(Error::new(ErrorKind::Unsupported, what).into());
    }
    for place in places {
        // Only what carries the stamp of this partition.
        let stamp = Path::new(&place.storage).join(".thalweg-partition/stamp");
        let stamped = match std::fs::read_to_string(&stamp) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            text => text.map_err(|e| Error::io("cannot read the stamp", e).in_object(stamp.display().to_string()))?,
        };
        if !stamped.contains(&entry.id) {
            let what = "this storage belongs to another partition";
            return Err(Error::new(ErrorKind::Config, what).in_object(place.storage.clone()).into());
        }
        let cannot = |e| Error::io("cannot remove the files", e).in_object(place.storage.clone());
        std::fs::remove_dir_all(&place.storage).map_err(cannot)?;
    }
    registry.change(name, |_| Ok(None))?;
    out.line(format_args!("partition {} is removed", printable(name)))?;
    Ok(Outcome::Done)
}
