//! The servers of a partition, started at its first use: by the command `thalweg partition start`, or by the program's MPI.
//!
//! MPI can start processes on every node of a job (`MPI_Comm_spawn`), without Slurm's or another launcher's help and without ssh. What
//! knows an MPI registers how ([`set_spawner`]); where there is nothing of the kind, or MPI cannot, the command does it.

use crate::draining;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use thalweg_partition::client::{self, place::is_here};
use thalweg_partition::configuration::{Configuration, Start};
use thalweg_partition::registry::{Entry, Registry};
use thalweg_partition::starting::{self, Launcher};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// How long spawned servers may need to record themselves: as long as those of the command.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command on a host of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnHost {
    /// As the partition's configuration names it; `None`: the host of this process.
    pub host: Option<String>,
    /// The program, then its arguments. It lets go of its standard streams once it runs.
    pub words: Vec<String>,
}

/// Starts processes that outlive this one, on the nodes of its job.
pub trait Spawner: Send + Sync {
    /// Starts commands.
    ///
    /// # Errors
    /// `Unsupported`, with the reason, if they cannot be started so: none was started.
    fn spawn(&self, commands: &[OnHost]) -> Result<Box<dyn Spawned>>;
    /// Warns the user that something else is done instead.
    fn warn(&self, text: &str);
}

/// Commands that a [`Spawner`] started. Dropped, they go on by themselves.
pub trait Spawned {
    /// A command that has ended: its place among the commands, its exit status, its last words. Does not wait.
    fn ended(&mut self) -> Option<(usize, ExitStatus, String)>;
    /// Ends the commands and waits for them.
    fn end(&mut self);
}

static SPAWNER: OnceLock<Box<dyn Spawner>> = OnceLock::new();

/// Registers the way in which this process starts others on the nodes of its job. The first one counts.
pub fn set_spawner(spawner: impl FnOnce() -> Box<dyn Spawner>) {
    SPAWNER.get_or_init(spawner);
}

/// Configurations of partitions whose servers this process has started.
static STARTED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The configurations of partitions whose servers this process has started, or one that did so at the same time.
pub fn started() -> Vec<PathBuf> {
    STARTED.lock().clone()
}

/// Tells the servers of a partition that this program needs them no longer: they store everything and end when their last client has left.
///
/// # Errors
/// Those of reading the configuration and the registry; `PeerLost` for a server that does not answer.
pub fn tell_unneeded(file: &Path) -> Result<()> {
    let configuration = Configuration::read(file)?;
    let registry = Registry::at(&configuration.registry);
    let name = &configuration.fixed.name;
    let (entry, token) = (registry.entry(name)?, registry.token(name)?);
    let servers = entry.instance.iter().flat_map(|instance| &instance.servers);
    servers.map(|server| client::tell_unneeded(&entry, &token, server.number)).fold(Ok(()), Result::and)
}

/// Starts the servers of a partition whose configuration says that its first open does.
pub(crate) fn start_partition(file: &Path, configuration: &Configuration) -> Result<()> {
    let file = &std::path::absolute(file).map_err(|e| Error::io("cannot find the configuration", e))?;
    launch(file, configuration)?;
    let mut started = STARTED.lock();
    if !started.contains(file) {
        started.push(file.clone());
    }
    Ok(())
}

fn launch(file: &Path, configuration: &Configuration) -> Result<()> {
    if let (Start::Spawn, Some(spawner)) = (configuration.dynamic.start, SPAWNER.get()) {
        match by_spawner(&**spawner, file, configuration) {
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                let name = &configuration.fixed.name;
                spawner.warn(&format!(
                    "partition {name}: {e}; its servers are started with the command thalweg partition start"
                ));
            }
            outcome => return outcome,
        }
    }
    by_command(file)
}

fn by_command(file: &Path) -> Result<()> {
    let failed = |e| Error::io("cannot start thalweg partition start", e);
    let started = Command::new(draining::command())
        .args(["partition", "start"])
        .arg(file)
        // The servers must not use the mounts themselves.
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .map_err(failed)?;
    match started.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&started.stderr).trim().to_string();
            Err(Error::new(ErrorKind::PeerLost, format!("the servers of a partition cannot be started: {said}")))
        }
    }
}

fn by_spawner(spawner: &dyn Spawner, file: &Path, configuration: &Configuration) -> Result<()> {
    let mut spawning = Spawning { spawner, program: draining::command(), file: file.to_path_buf(), spawned: None };
    starting::start(configuration, PATIENCE, &mut spawning).map(drop)
}

/// Servers of one start.
struct Spawning<'a> {
    spawner: &'a dyn Spawner,
    /// The command `thalweg`.
    program: PathBuf,
    /// The partition's configuration.
    file: PathBuf,
    /// With the numbers of the servers.
    spawned: Option<(Vec<u32>, Box<dyn Spawned>)>,
}

impl Spawning<'_> {
    fn command(&self, number: u32, host: &str) -> OnHost {
        let (program, file) = (self.program.display().to_string(), self.file.display().to_string());
        let number = number.to_string();
        let words = [&program, "partition", "serve", &file, "--server", &number, "--detached"].map(str::to_string);
        OnHost { host: Some(host.to_string()).filter(|host| !is_here(host)), words: words.to_vec() }
    }
}

impl Launcher for Spawning<'_> {
    fn launch(&mut self, _: &Entry, wanted: &[(u32, String)]) -> Result<()> {
        let commands: Vec<OnHost> = wanted.iter().map(|(number, host)| self.command(*number, host)).collect();
        let numbers = wanted.iter().map(|(number, _)| *number).collect();
        self.spawned = Some((numbers, self.spawner.spawn(&commands)?));
        Ok(())
    }

    fn ended(&mut self) -> Option<Error> {
        let (numbers, spawned) = self.spawned.as_mut()?;
        let (which, status, said) = spawned.ended()?;
        Some(starting::ended(numbers.get(which).copied()?, status, &said))
    }

    fn end(&mut self) {
        if let Some((_, mut spawned)) = self.spawned.take() {
            spawned.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use thalweg_partition::instance;

    /// What was spawned, and how it ends.
    #[derive(Default)]
    struct Told {
        commands: Vec<OnHost>,
        ended: usize,
    }

    struct Telling {
        told: Arc<Mutex<Told>>,
        fails: bool,
    }

    impl Spawner for Telling {
        fn spawn(&self, commands: &[OnHost]) -> Result<Box<dyn Spawned>> {
            if self.fails {
                return Err(Error::new(ErrorKind::Unsupported, "host far is none of the job's"));
            }
            self.told.lock().commands = commands.to_vec();
            Ok(Box::new(Ending(self.told.clone())))
        }

        fn warn(&self, _: &str) {}
    }

    struct Ending(Arc<Mutex<Told>>);

    impl Spawned for Ending {
        fn ended(&mut self) -> Option<(usize, ExitStatus, String)> {
            Some((1, ExitStatus::default(), "thalweg: no such folder".into()))
        }

        fn end(&mut self) {
            self.0.lock().ended += 1;
        }
    }

    #[test]
    fn servers_are_spawned_on_their_hosts_and_a_failure_ends_all() {
        let folder = tempfile::tempdir().unwrap();
        let text = "start = spawn\nahpios_server = localhost:/a\nahpios_server = far:/b\nmetadata = localhost:/n\n";
        let file = folder.path().join("p.cfg");
        let configuration = Configuration::parse(text, "p.cfg", "p", folder.path()).unwrap();
        instance::create(&configuration).unwrap();
        for (fails, kind, ended) in [(true, ErrorKind::Unsupported, 0), (false, ErrorKind::Io, 1)] {
            let told = Arc::new(Mutex::new(Told::default()));
            let spawner = Telling { told: told.clone(), fails };
            let e = by_spawner(&spawner, &file, &configuration).unwrap_err();
            assert_eq!((e.kind(), told.lock().ended), (kind, ended), "{e}");
            let entry = Registry::at(&configuration.registry).entry("p").unwrap();
            assert_eq!(entry.instance, None, "the command can start it");
            if fails {
                continue;
            }
            assert!(e.to_string().contains("server 1 ended (exit status: 0): no such folder"), "{e}");
            let commands = &told.lock().commands;
            assert_eq!(commands.iter().map(|on| on.host.as_deref()).collect::<Vec<_>>(), [None, Some("far")]);
            let words = ["partition", "serve", &file.display().to_string(), "--server", "1", "--detached"];
            assert_eq!(commands[1].words[1..], words);
        }
    }
}
