//! `thalweg partition`: partitions of data servers, from their configuration file.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`serve`] | one server |
//! | [`status`] | what servers say about themselves |

mod serve;
mod status;

use crate::arguments::{
    Partition as Arguments, PartitionCheck, PartitionFile, PartitionList, PartitionMove, PartitionRemove,
    PartitionStart, PartitionStop, StartedBy,
};
use crate::detached;
use crate::outcome::{Failure, Outcome};
use crate::terminal::Terminal;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_partition::Partition;
use thalweg_partition::checking::{self, Finding};
use thalweg_partition::client::ask_to_end;
use thalweg_partition::client::place::is_here;
use thalweg_partition::configuration::Configuration;
use thalweg_partition::instance;
use thalweg_partition::moving::copy_all;
use thalweg_partition::registry::{Entry, Registry, Server};
use thalweg_partition::starting::{self, Launcher};
use thalweg_types::printable::printable;
use thalweg_types::{Error, ErrorKind};

pub fn run(arguments: &Arguments, out: &mut Terminal) -> Result<Outcome, Failure> {
    match arguments {
        Arguments::Create(a) => create(a, out),
        Arguments::Start(a) => start(a, out),
        Arguments::Status(a) => status::show(a, out),
        Arguments::Stop(a) => stop(a, out),
        Arguments::List(a) => list(a, out),
        Arguments::Check(a) => check(a, out),
        Arguments::Move(a) => move_all(a, out),
        Arguments::Remove(a) => remove(a, out),
        Arguments::Serve(a) => serve::serve(a),
    }
}

fn create(arguments: &PartitionFile, out: &mut Terminal) -> Result<Outcome, Failure> {
    let configuration = Configuration::read(&arguments.file)?;
    let entry = instance::create(&configuration)?;
    let (name, servers) = (printable(&entry.name), entry.servers.len());
    out.line(format_args!("partition {name} of {servers} servers; thalweg partition start starts them"))?;
    Ok(Outcome::Done)
}

/// How servers are started in the job that this command is in: by the innermost launcher, as Flux also runs inside of other jobs.
///
/// - `has`: whether an environment variable is set.
fn launcher(has: impl Fn(&str) -> bool) -> StartedBy {
    if has("FLUX_JOB_ID") || has("FLUX_URI") {
        StartedBy::Flux
    } else if has("SLURM_JOB_ID") {
        StartedBy::Slurm
    } else if has("PBS_JOBID") && has("PBS_NODEFILE") {
        StartedBy::Pbs
    } else {
        StartedBy::Local
    }
}

/// The launcher's name of a host. This host may be called `localhost` by a configuration, but not by a launcher.
fn node(host: &str, by: StartedBy) -> String {
    if !is_here(host) {
        return host.to_string();
    }
    let own = match by {
        StartedBy::Slurm => std::env::var("SLURMD_NODENAME").ok(),
        StartedBy::Pbs => std::env::var("PBS_NODEFILE").ok().and_then(|file| {
            let nodes = std::fs::read_to_string(file).ok()?;
            nodes.lines().map(str::trim).find(|node| is_here(node)).map(str::to_string)
        }),
        StartedBy::Flux => Some(rustix::system::uname().nodename().to_string_lossy().into_owned()),
        StartedBy::Local | StartedBy::Ssh => None,
    };
    own.unwrap_or_else(|| host.to_string())
}

/// The command that starts a server.
fn command(file: &Path, number: u32, host: &str, by: StartedBy) -> Result<Vec<String>, Error> {
    let cannot = |e| Error::io("cannot find this program", e);
    let program = std::env::current_exe().map_err(cannot)?;
    let file = std::path::absolute(file).map_err(|e| Error::io("cannot find the configuration", e))?;
    let mut words = Vec::new();
    let node = node(host, by);
    let node = node.as_str();
    let launch: &[&str] = match by {
        StartedBy::Local => &[],
        // A step beside the application's, which takes no memory or processors from it.
        StartedBy::Slurm => &["srun", "--overlap", "-N1", "-n1", "--mem=0", "--nodelist", node],
        StartedBy::Pbs => &["pbsdsh", "-h", node, "--"],
        StartedBy::Flux => {
            let requires = format!("--requires=host:{node}");
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
    let by =
        arguments.by.unwrap_or_else(|| launcher(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty())));
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
    let logs = crate::command::mount::logs().map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
    Ok(logs.join(format!("partition-{}-{number}.log", entry.name)))
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
        let registered = now.instance.as_ref().filter(|instance| instance.number == running.number);
        let left: Vec<&Server> = match registered {
            Some(instance) => instance.servers.iter().collect(),
            // A server leaves the registry before its process ends.
            None => running.servers.iter().filter(|server| instance::runs(server) == Some(true)).collect(),
        };
        if left.iter().all(|server| instance::runs(server) == Some(false)) {
            if registered.is_some() {
                // Killed before.
                registry.change(name, |entry| Ok(entry.map(|entry| Entry { instance: None, ..entry })))?;
            }
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
    for place in places.clone() {
        if serve::mount_at(&place.storage)?.is_some() {
            let what = format!("{place} is a mount: remove its files there, then {name}.toml in the registry");
            return Err(Error::new(ErrorKind::Unsupported, what).into());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_launcher_starts_the_servers_of_a_job() {
        let by = |set: &'static [&str]| launcher(|name| set.contains(&name));
        for (set, expected) in [
            (&[][..], StartedBy::Local),
            (&["SLURM_JOB_ID"], StartedBy::Slurm),
            (&["PBS_JOBID", "PBS_NODEFILE"], StartedBy::Pbs),
            (&["PBS_JOBID"], StartedBy::Local),
            (&["FLUX_URI"], StartedBy::Flux),
            (&["FLUX_JOB_ID", "SLURM_JOB_ID"], StartedBy::Flux),
            (&["SLURM_JOB_ID", "PBS_JOBID", "PBS_NODEFILE"], StartedBy::Slurm),
        ] {
            assert_eq!(by(set), expected, "{set:?}");
        }
    }
}
