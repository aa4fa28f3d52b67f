//! The start of a partition's servers: of several processes that start them at once one launches those that do not run, and the
//! others wait until all have recorded themselves.
//!
//! If a server fails, those that were launched with it end, and the registry is as if nobody had tried: the next start finds none of
//! them, and a process that waited tries itself. Servers that ran before go on.

use crate::configuration::Configuration;
use crate::instance::{self, Begun};
use crate::registry::{Entry, Registry};
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use thalweg_types::{Error, ErrorKind, Result};

/// The failure of a server that has ended before clients could reach it.
///
/// - `status`: as the system describes it.
/// - `said`: its last words; may be empty.
pub fn ended(number: u32, status: ExitStatus, said: &str) -> Error {
    let said = match said.trim() {
        "" => "without a word",
        said => said.strip_prefix("thalweg: ").unwrap_or(said),
    };
    Error::new(ErrorKind::Io, format!("server {number} ended ({status}): {said}"))
}

/// A way to launch the processes of servers.
pub trait Launcher {
    /// Launches servers, each of which records itself when clients can reach it.
    ///
    /// - `wanted`: their numbers, and the hosts on which they run.
    ///
    /// # Errors
    /// For a server that cannot be launched. [`Launcher::end`] is called then, for those that were.
    fn launch(&mut self, entry: &Entry, wanted: &[(u32, String)]) -> Result<()>;

    /// The failure of a launched server that has ended, with what it said. Does not wait.
    fn ended(&mut self) -> Option<Error>;

    /// Ends what was launched, waits until it has ended, and forgets it: there may be another launch.
    fn end(&mut self);
}

/// Starts the servers of a partition that do not run, and waits until all do.
///
/// - `patience`: for all of it.
///
/// # Errors
/// As [`instance::begin`]; those of the launcher; the failure of a server; `Timeout` names the servers that are missing.
pub fn start(configuration: &Configuration, patience: Duration, launcher: &mut dyn Launcher) -> Result<Entry> {
    let registry = Registry::at(&configuration.registry);
    let name = &configuration.fixed.name;
    let begin = Instant::now();
    loop {
        let wait = |launcher: &mut dyn Launcher| {
            let left = patience.saturating_sub(begin.elapsed());
            instance::wait_until_complete(&registry, name, left, || launcher.ended())
        };
        let outcome = match instance::begin(configuration)? {
            Begun::Wait(_) => wait(launcher)?,
            Begun::Start(entry, numbers) => {
                let hosts = entry.locations()?;
                let host = |number: u32| Some((number, hosts.get(number as usize)?.host.clone()));
                let wanted: Vec<(u32, String)> = numbers.into_iter().filter_map(host).collect();
                let outcome = launcher.launch(&entry, &wanted).and_then(|()| wait(launcher));
                if !matches!(outcome, Ok(Some(_))) {
                    launcher.end();
                    instance::give_up(&registry, &entry)?;
                }
                outcome?
            }
        };
        if let Some(entry) = outcome {
            return Ok(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records servers as if they were processes, until one fails.
    struct Recording<'a> {
        registry: &'a Registry,
        /// The server that cannot be launched, and the one that ends by itself.
        fails: [Option<u32>; 2],
        launched: Vec<(u32, String)>,
        ends: usize,
    }

    impl Launcher for Recording<'_> {
        fn launch(&mut self, entry: &Entry, wanted: &[(u32, String)]) -> Result<()> {
            for (number, host) in wanted {
                self.launched.push((*number, host.clone()));
                if self.fails[0] == Some(*number) {
                    return Err(Error::new(ErrorKind::Unsupported, "cannot launch"));
                }
                if self.fails[1] != Some(*number) {
                    instance::register(self.registry, entry, *number, format!("/s{number}"), None)?;
                }
            }
            Ok(())
        }

        fn ended(&mut self) -> Option<Error> {
            self.fails[1].map(|number| ended(number, ExitStatus::default(), ""))
        }

        fn end(&mut self) {
            self.ends += 1;
            for (number, _) in &self.launched {
                instance::unregister(self.registry, "p", *number).unwrap();
            }
        }
    }

    #[test]
    fn servers_are_launched_once_and_a_failed_start_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let text = "ahpios_server = localhost:/a\nahpios_server = localhost:/b\nmetadata = elsewhere:/n\n";
        let configuration = Configuration::parse(text, "p.cfg", "p", folder.path()).unwrap();
        let registry = Registry::at(&configuration.registry);
        let starts = |fails| {
            let mut launcher = Recording { registry: &registry, fails, launched: Vec::new(), ends: 0 };
            let outcome = start(&configuration, Duration::from_secs(5), &mut launcher);
            (outcome, launcher.launched, launcher.ends)
        };
        assert!(
            matches!(starts([None; 2]), (Err(e), launched, 0) if e.kind() == ErrorKind::NotFound && launched.is_empty())
        );
        instance::create(&configuration).unwrap();
        for (fails, kind) in [([Some(1), None], ErrorKind::Unsupported), ([None, Some(2)], ErrorKind::Io)] {
            let (outcome, _, ends) = starts(fails);
            assert_eq!((outcome.unwrap_err().kind(), ends), (kind, 1));
            assert_eq!(registry.entry("p").unwrap().instance, None, "{fails:?}");
        }
        // One waits for another process, which fails.
        let Begun::Start(theirs, _) = instance::begin(&configuration).unwrap() else { panic!("it runs") };
        let (outcome, launched, ends) = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                instance::give_up(&registry, &theirs).unwrap();
            });
            starts([None; 2])
        });
        assert_eq!(outcome.unwrap().instance.unwrap().servers.len(), 3);
        let hosts = ["localhost", "localhost", "elsewhere"].map(String::from);
        assert_eq!((launched, ends), ((0..).zip(hosts).collect(), 0));
        let (outcome, launched, ends) = starts([None, Some(0)]);
        assert!(outcome.is_ok() && launched.is_empty() && ends == 0, "they run");
    }
}
