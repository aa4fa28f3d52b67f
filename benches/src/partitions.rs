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
    /// - `on`: the command that runs another one on a node, if the hosts are nodes; `ssh` does the same then.
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
        let by = if self.on.is_some() { "ssh" } else { "local" };
        self.thalweg(first, &["partition", "start", &file, "--by", by])?;
        Ok(())
    }
}

/// What the servers of a partition have counted since their start.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    /// Messages of clients.
    pub requests: f64,
    /// Bytes of views.
    pub views: f64,
    /// Bytes of files, both ways.
    pub payload: f64,
    /// Blocks that were found in the cache.
    pub hits: f64,
    /// Blocks that were not.
    pub misses: f64,
}

impl Counted {
    fn add(&mut self, value: &serde_json::Value) {
        let of = |map: &serde_json::Map<String, serde_json::Value>, key: &str| {
            map.get(key).and_then(|v| v.as_f64()).unwrap_or(0.0)
        };
        match value {
            serde_json::Value::Object(map) => {
                if let Some(serde_json::Value::Object(traffic)) = map.get("traffic") {
                    self.requests += of(traffic, "requests");
                    self.views += of(traffic, "views");
                    self.payload += of(traffic, "received") + of(traffic, "sent");
                    self.hits += of(map, "hits");
                    self.misses += of(map, "misses");
                    return;
                }
                map.values().for_each(|value| self.add(value));
            }
            serde_json::Value::Array(all) => all.iter().for_each(|value| self.add(value)),
            _ => {}
        }
    }

    /// What came since.
    pub fn since(self, before: Counted) -> Counted {
        Counted {
            requests: self.requests - before.requests,
            views: self.views - before.views,
            payload: self.payload - before.payload,
            hits: self.hits - before.hits,
            misses: self.misses - before.misses,
        }
    }
}

impl Partitions {
    /// What the servers of `FOLDER/NAME.cfg` have counted.
    ///
    /// # Errors
    /// What the command says.
    pub fn counted(&self, folder: &str, name: &str) -> Result<Counted, Failure> {
        let file = format!("{folder}/{name}.cfg");
        let host = self.made.iter().find(|(made, _)| *made == file).map_or("localhost", |(_, host)| host);
        let output = self.command(host, &["partition", "status", "--json", &file]).stdout(Stdio::piped()).output()?;
        let mut counted = Counted::default();
        counted.add(&serde_json::from_slice(&output.stdout)?);
        Ok(counted)
    }
}

impl Drop for Partitions {
    fn drop(&mut self) {
        for (file, host) in &self.made {
            // Files on other nodes are removed there: the folder of a bench is emptied when it begins.
            for what in ["stop", "remove"].iter().take(if self.on.is_some() { 1 } else { 2 }) {
                if let Err(e) = self.thalweg(host, &["partition", what, file]) {
                    eprintln!("{e}");
                }
            }
        }
    }
}
