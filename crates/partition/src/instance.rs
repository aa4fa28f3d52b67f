//! Life of a partition's servers: created, started, connected to, ended; who runs is in the [`registry`](crate::registry).
//!
//! | step | what it does |
//! |------|--------------|
//! | [`create`] | writes the entry of a new partition; nothing runs |
//! | [`begin`] | records a new start under the lock of the registry: of several that start at once one goes on, the others wait for it |
//! | [`register`] | each server records itself once it serves |
//! | [`wait_until_complete`] | all servers have recorded themselves, or one has ended before |
//! | [`unregister`] | a server that ends takes itself out; the last one ends the instance |

use crate::client::place::{host, is_here};
use crate::configuration::{Configuration, Dynamic};
use crate::registry::{Entry, Instance, Registry, Server};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_types::{Error, ErrorKind, Result};

/// How long a start whose servers have not all recorded themselves counts as under way.
pub const STARTING: Duration = Duration::from_secs(60);

/// When a process of this host started, in ticks of the system since its boot; `None` if there is no such process, or it has ended
/// and nobody has asked how.
pub fn started(pid: u32) -> Option<u64> {
    let (state, rest) = stat(format!("/proc/{pid}/stat"))?;
    if matches!(state, 'Z' | 'X') { None } else { rest.split_whitespace().nth(18)?.parse().ok() }
}

/// The state of a process or thread, as the system's letter, and what follows it in its file.
fn stat(file: impl AsRef<Path>) -> Option<(char, String)> {
    let stat = std::fs::read_to_string(file).ok()?;
    // The name of the program, in parentheses, may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let (state, rest) = rest.trim_start().split_once(' ')?;
    Some((state.chars().next()?, rest.to_string()))
}

/// The state of a process of this host, as the system's letter; `None` if there is no such process.
pub(crate) fn state(pid: u32) -> Option<char> {
    stat(format!("/proc/{pid}/stat")).map(|(state, _)| state)
}

/// The state of each thread of a process of this host.
pub(crate) fn thread_states(pid: u32) -> Vec<char> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| stat(thread.path().join("stat"))).map(|(state, _)| state).collect()
}

/// Whether the system is ending a process of this host, which is in the list of processes still.
fn is_ending(pid: u32) -> bool {
    /// The bit of a process that gives back what it has, in the ninth field of its state.
    const EXITING: u64 = 4;
    const KILLED: u64 = 1 << (9 - 1);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let signals = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    let signals = signals.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    let flags = stat(format!("/proc/{pid}/stat"));
    let flags = flags.and_then(|(_, rest)| rest.split_whitespace().nth(5)?.parse().ok()).unwrap_or(0);
    signals & KILLED != 0 || flags & EXITING != 0
}

/// Waits until servers of this host that were killed have ended: a process goes on for some milliseconds.
///
/// - `patience`: after that, what has not ended counts as running.
fn wait_for_the_killed(servers: &[Server], patience: Duration) {
    let begin = Instant::now();
    let goes_on = |server: &&Server| runs(server) == Some(true) && is_ending(server.pid);
    while begin.elapsed() < patience && servers.iter().any(|server| goes_on(&server)) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a server runs; `None` for one of another host, which only an answer can tell.
pub fn runs(server: &Server) -> Option<bool> {
    is_here(&server.host).then(|| started(server.pid) == Some(server.started))
}

/// Whether all servers of a partition have started, and none of this host has ended since.
///
/// # Errors
/// As [`Entry::fixed`].
pub fn is_complete(entry: &Entry) -> Result<bool> {
    let running = entry.instance.iter().flat_map(|i| &i.servers).filter(|server| runs(server) != Some(false));
    Ok(running.count() as u64 == u64::from(entry.processes()?))
}

/// Makes a partition.
///
/// # Errors
/// `AlreadyExists` if there is one of this name; errors of the registry.
pub fn create(configuration: &Configuration) -> Result<Entry> {
    let name = &configuration.fixed.name;
    let made = Registry::at(&configuration.registry).change(name, |before| match before {
        Some(_) => Err(Error::new(ErrorKind::AlreadyExists, format!("there is a partition {name} already"))),
        None => Ok(Some(Entry::new(&configuration.fixed))),
    })?;
    made.ok_or_else(|| Error::new(ErrorKind::NotFound, "the new entry is gone"))
}

/// What a start has to do.
#[derive(Debug)]
pub enum Begun {
    /// To start these servers, with this entry: all of them, or those that were killed.
    Start(Entry, Vec<u32>),
    /// To wait: others are starting them, or they run.
    Wait(Entry),
}

/// Instead of the time of a start: it failed.
const GIVEN_UP: u64 = 0;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn dynamic(entry: &Entry, dynamic: &Dynamic) -> Instance {
    Instance {
        number: entry.starts + 1,
        since: now(),
        net_buf_size: dynamic.net_buf_size,
        views_in_client: dynamic.views_in_client,
        transport: dynamic.transport,
        servers: Vec::new(),
    }
}

/// Records a new start, unless the servers run or others are starting them.
///
/// # Errors
/// `NotFound` for a partition that was not created; `Config` for a static setting that differs; errors of the registry.
pub fn begin(configuration: &Configuration) -> Result<Begun> {
    let name = &configuration.fixed.name;
    let mut missing = Vec::new();
    let registry = Registry::at(&configuration.registry);
    if let Some(instance) = registry.entry(name).ok().and_then(|entry| entry.instance) {
        wait_for_the_killed(&instance.servers, Duration::from_secs(5));
    }
    let entry = registry.change(name, |before| {
        let Some(mut entry) = before else {
            let what = format!("there is no partition {name}: thalweg partition create makes it");
            return Err(Error::new(ErrorKind::NotFound, what));
        };
        configuration.fixed.must_equal(&entry.fixed()?)?;
        let all = 0..entry.processes()?;
        match &mut entry.instance {
            Some(instance) => {
                let before = instance.servers.len();
                instance.servers.retain(|server| runs(server) != Some(false));
                let complete = instance.servers.len() == all.len();
                let killed = instance.servers.len() < before;
                if complete || !killed && now().saturating_sub(instance.since) < STARTING.as_secs() {
                    return Ok(Some(entry));
                }
                // Those that run go on, with what they have in memory. No two starts have number and time in common.
                instance.since = now().max(instance.since + 1);
                missing = all.filter(|number| instance.servers.iter().all(|server| server.number != *number)).collect();
            }
            None => {
                let instance = dynamic(&entry, &configuration.dynamic);
                entry.starts = instance.number;
                entry.instance = Some(instance);
                missing = all.collect();
            }
        }
        Ok(Some(entry))
    })?;
    let entry = entry.ok_or_else(|| Error::new(ErrorKind::NotFound, "the entry is gone"))?;
    Ok(if missing.is_empty() { Begun::Wait(entry) } else { Begun::Start(entry, missing) })
}

/// Takes back a start that failed, unless another one has begun since: servers that run stay recorded.
///
/// - `begun`: as [`begin`] gave it.
///
/// # Errors
/// Errors of the registry.
pub fn give_up(registry: &Registry, begun: &Entry) -> Result<()> {
    let start = |entry: &Entry| entry.instance.as_ref().map(|instance| (instance.number, instance.since));
    registry.change(&begun.name, |entry| {
        Ok(entry.map(|mut entry| {
            let same = start(&entry) == start(begun);
            if let Some(instance) = entry.instance.as_mut().filter(|_| same) {
                instance.servers.retain(|server| runs(server) != Some(false));
                // The next start does not wait for this one.
                instance.since = GIVEN_UP;
                if instance.servers.is_empty() {
                    entry.instance = None;
                }
            }
            entry
        }))
    })?;
    Ok(())
}

/// Records a server of this process.
///
/// # Errors
/// `NotReady` if the partition was started again meanwhile; errors of the registry.
pub fn register(
    registry: &Registry,
    entry: &Entry,
    number: u32,
    socket: String,
    address: Option<String>,
) -> Result<()> {
    let pid = std::process::id();
    let started = started(pid).ok_or_else(|| Error::new(ErrorKind::Unsupported, "no /proc/self/stat"))?;
    let start = entry.instance.as_ref().map(|instance| instance.number);
    registry.change(&entry.name, |before| {
        let mut now = before.ok_or_else(|| Error::new(ErrorKind::NotFound, "the partition was removed meanwhile"))?;
        match &mut now.instance {
            Some(instance) if Some(instance.number) == start => {
                instance.servers.retain(|server| server.number != number);
                instance.servers.push(Server { number, host: host(), pid, started, socket, address });
                instance.servers.sort_by_key(|server| server.number);
            }
            _ => return Err(Error::new(ErrorKind::NotReady, "the partition was started again, or stopped, meanwhile")),
        }
        Ok(Some(now))
    })?;
    Ok(())
}

/// Takes a server of this process out.
///
/// # Errors
/// Errors of the registry.
pub fn unregister(registry: &Registry, name: &str, number: u32) -> Result<()> {
    let pid = std::process::id();
    registry.change(name, |before| {
        Ok(before.map(|mut entry| {
            if let Some(instance) = &mut entry.instance {
                let ours = |s: &Server| s.number == number && s.pid == pid && is_here(&s.host);
                if instance.servers.iter().any(ours) {
                    instance.servers.retain(|server| !ours(server));
                    if instance.servers.is_empty() {
                        entry.instance = None;
                    }
                }
            }
            entry
        }))
    })?;
    Ok(())
}

/// Waits until all servers of a partition have recorded themselves. `None`: nobody starts them any more ([`give_up`]), or the partition
/// was stopped meanwhile.
///
/// - `failed`: whether a server that this process started has ended, with what it said.
///
/// # Errors
/// The failure of a server; `Timeout` names those that are missing.
pub fn wait_until_complete(
    registry: &Registry,
    name: &str,
    patience: Duration,
    mut failed: impl FnMut() -> Option<Error>,
) -> Result<Option<Entry>> {
    let begin = Instant::now();
    loop {
        let entry = registry.entry(name)?;
        let there: Vec<u32> = entry.instance.iter().flat_map(|i| &i.servers).map(|server| server.number).collect();
        let missing: Vec<u32> = (0..entry.processes()?).filter(|number| !there.contains(number)).collect();
        if missing.is_empty() {
            return Ok(Some(entry));
        }
        if let Some(e) = failed() {
            return Err(e);
        }
        if entry.instance.as_ref().is_none_or(|instance| instance.since == GIVEN_UP) {
            return Ok(None);
        }
        if begin.elapsed() > patience {
            let fixed = entry.fixed()?;
            let named = |n: &u32| format!("{n} on {}", fixed.servers.get(*n as usize).unwrap_or(&fixed.metadata).host);
            let missing: Vec<String> = missing.iter().map(named).collect();
            let what =
                format!("servers of partition {name} have not started within {patience:?}: {}", missing.join(", "));
            return Err(Error::new(ErrorKind::Timeout, what));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The socket of a server for clients of its node, in the user's own folder.
pub fn socket(entry: &Entry, number: u32) -> PathBuf {
    let daemon = thalweg_remote::default_socket();
    let folder = daemon.parent().map(PathBuf::from).unwrap_or_default();
    // Names of sockets are short: 16 digits of the partition's identity tell partitions of one name apart.
    folder.join(format!("p-{}-{number}.sock", &entry.id[..16.min(entry.id.len())]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn configuration(folder: &Path) -> Configuration {
        let text = "ahpios_server = localhost:/a\nahpios_server = localhost:/b\nmetadata = localhost:/n\n";
        Configuration::parse(text, "p.cfg", "p", folder).unwrap()
    }

    #[test]
    fn of_several_that_start_at_once_one_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let configuration = configuration(folder.path());
        assert!(matches!(begin(&configuration), Err(e) if e.kind() == ErrorKind::NotFound));
        create(&configuration).unwrap();
        assert_eq!(create(&configuration).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let starts = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| begin(&configuration).unwrap())).collect();
            threads.into_iter().map(|t| t.join().unwrap()).filter(|b| matches!(b, Begun::Start(..))).count()
        });
        assert_eq!(starts, 1);
        let registry = Registry::at(&configuration.registry);
        let entry = registry.entry("p").unwrap();
        for number in 0..2 {
            register(&registry, &entry, number, format!("/s{number}"), None).unwrap();
        }
        let complete = wait_until_complete(&registry, "p", Duration::ZERO, || None).unwrap().unwrap();
        assert!(complete.instance.unwrap().servers.iter().all(|server| runs(server) == Some(true)));
        assert!(matches!(begin(&configuration).unwrap(), Begun::Wait(_)));
        unregister(&registry, "p", 0).unwrap();
        let e = wait_until_complete(&registry, "p", Duration::ZERO, || None).unwrap_err();
        assert!(e.kind() == ErrorKind::Timeout && e.to_string().contains("0 on localhost"), "{e}");
        give_up(&registry, &entry).unwrap();
        assert_eq!(
            wait_until_complete(&registry, "p", Duration::ZERO, || None).unwrap(),
            None,
            "one runs, and nobody starts the other"
        );
        unregister(&registry, "p", 1).unwrap();
        assert_eq!(registry.entry("p").unwrap().instance, None);
        assert_eq!(wait_until_complete(&registry, "p", Duration::ZERO, || None).unwrap(), None);
        // A server of the start before does not get into this one, and whoever gave that one up does not take this one back.
        assert!(matches!(begin(&configuration).unwrap(), Begun::Start(..)));
        let running = registry.entry("p").unwrap();
        give_up(&registry, &entry).unwrap();
        assert_eq!(registry.entry("p").unwrap(), running);
        assert_eq!(register(&registry, &entry, 0, "/s".into(), None).unwrap_err().kind(), ErrorKind::NotReady);
    }

    #[test]
    fn a_server_that_was_killed_a_moment_ago_does_not_count_as_running() {
        let folder = tempfile::tempdir().unwrap();
        let configuration = configuration(folder.path());
        create(&configuration).unwrap();
        let registry = Registry::at(&configuration.registry);
        for round in 0..4 {
            // Memory to give back makes the end of a process last.
            let memory = "import sys, time; held = bytearray(200 << 20); print(flush=True); time.sleep(1000)";
            let mut process = std::process::Command::new("python3");
            let mut process = process.args(["-c", memory]).stdout(std::process::Stdio::piped()).spawn().unwrap();
            std::io::Read::read_exact(&mut process.stdout.take().unwrap(), &mut [0]).unwrap();
            let Begun::Start(entry, _) = begin(&configuration).unwrap() else { panic!("it runs, round {round}") };
            for number in 0..2 {
                register(&registry, &entry, number, "/s".into(), None).unwrap();
            }
            let started = started(process.id()).unwrap();
            registry
                .change("p", |entry| {
                    let mut entry = entry.unwrap();
                    let server = &mut entry.instance.as_mut().unwrap().servers[1];
                    (server.pid, server.started) = (process.id(), started);
                    Ok(Some(entry))
                })
                .unwrap();
            assert!(matches!(begin(&configuration).unwrap(), Begun::Wait(_)), "it runs");
            process.kill().unwrap();
            let begun = begin(&configuration).unwrap();
            assert!(matches!(&begun, Begun::Start(_, missing) if *missing == [1]), "round {round}: {begun:?}");
            process.wait().unwrap();
            registry.change("p", |entry| Ok(entry.map(|entry| Entry { instance: None, ..entry }))).unwrap();
        }
    }

    #[test]
    fn servers_that_were_killed_are_started_again() {
        let folder = tempfile::tempdir().unwrap();
        let configuration = configuration(folder.path());
        create(&configuration).unwrap();
        let Begun::Start(before, _) = begin(&configuration).unwrap() else { panic!("nothing is started") };
        let registry = Registry::at(&configuration.registry);
        registry
            .change("p", |entry| {
                let mut entry = entry.unwrap();
                let server = |number| Server {
                    number,
                    host: host(),
                    pid: std::process::id(),
                    started: 1,
                    socket: "/s".into(),
                    address: None,
                };
                entry.instance.as_mut().unwrap().servers =
                    vec![Server { started: started(std::process::id()).unwrap(), ..server(0) }, server(1)];
                Ok(Some(entry))
            })
            .unwrap();
        // The one that runs is left alone; who starts at the same time waits.
        let Begun::Start(entry, numbers) = begin(&configuration).unwrap() else { panic!("nothing is started") };
        assert_eq!((entry.starts, numbers), (1, vec![1]));
        assert!(matches!(begin(&configuration).unwrap(), Begun::Wait(_)));
        give_up(&registry, &before).unwrap();
        assert!(matches!(begin(&configuration).unwrap(), Begun::Wait(_)), "another start has begun since");
        give_up(&registry, &entry).unwrap();
        assert!(matches!(begin(&configuration).unwrap(), Begun::Start(_, numbers) if numbers == [1]));
    }
}
