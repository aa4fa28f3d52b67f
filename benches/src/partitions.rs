//! Partitions of data servers for benches, on this machine or on nodes of `scripts/servers/nodes.sh`.

use crate::Failure;
use std::process::{Command, Stdio};

/// Partitions that are stopped and removed at the end, however the bench ends.
#[derive(Default)]
pub struct Partitions {
    /// Runs commands on nodes; `None`: this machine is the only one.
    on: Option<String>,
    /// Configurations, each with a host of its servers.
    made: Vec<(String, String)>,
}

impl Partitions {
    /// - `on`: the command that runs another one on a node, if the hosts are nodes.
    pub fn new(on: Option<String>) -> Partitions {
        Partitions { on, made: Vec::new() }
    }

    fn command(&self, host: &str, arguments: &[&str]) -> Command {
        let mut command = match &self.on {
            Some(on) => {
                let mut command = Command::new(on);
                command.args([host, "thalweg"]);
                command
            }
            None => Command::new("thalweg"),
        };
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn thalweg(&self, host: &str, arguments: &[&str]) -> Result<(), Failure> {
        let output = self.command(host, arguments).output().map_err(|e| format!("cannot run thalweg: {e}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("thalweg {arguments:?} failed: {}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    }

    /// Makes a partition, whose configuration is then `FOLDER/NAME.cfg`, and starts its servers.
    ///
    /// - `hosts`: one for each server.
    /// - `more`: further lines of the configuration.
    ///
    /// # Errors
    /// What the command says.
    pub fn start(&mut self, folder: &str, name: &str, hosts: &[&str], more: &str) -> Result<(), Failure> {
        let Some(first) = hosts.first() else { return Err("a partition without servers".into()) };
        let servers = hosts.iter().enumerate().map(|(n, host)| format!("ahpios_server = {host}:{folder}/{name}.{n}\n"));
        let text = format!(
            "name = bench-{name}\n{}metadata = {first}:{folder}/{name}.names\ncache_size = 512M\n{more}\n",
            servers.collect::<String>()
        );
        let file = format!("{folder}/{name}.cfg");
        std::fs::write(&file, text)?;
        self.thalweg(first, &["partition", "create", &file])?;
        self.made.push((file.clone(), (*first).to_string()));
        // Each host starts its own servers, and waits for all.
        let mut hosts = hosts.to_vec();
        hosts.sort_unstable();
        hosts.dedup();
        let start = ["partition", "start", &file, "--by", "local"];
        let started: Vec<_> = hosts.iter().map(|host| self.command(host, &start).spawn()).collect();
        for child in started {
            let output = child.map_err(|e| format!("cannot run thalweg: {e}"))?.wait_with_output()?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(format!("the servers of {file} do not start: {said}").into());
            }
        }
        Ok(())
    }
}

impl Drop for Partitions {
    fn drop(&mut self) {
        for (file, host) in &self.made {
            for what in ["stop", "remove"] {
                if let Err(e) = self.thalweg(host, &["partition", what, file]) {
                    eprintln!("{e}");
                }
            }
        }
    }
}
