//! The description of a machine: a TOML document in, checked numbers out.
//!
//! | table | contents |
//! |---|---|
//! | `[nodes]` | ranks of a node, memory of a rank, how fast a node copies memory |
//! | `[network]` | bandwidth of a node's link, latency of a message |
//! | `[metadata]` | how many openings a second the metadata server answers |
//! | `[targets]` | storage targets: how many, their bandwidth together, largest number under one file, cost of a seek, bytes written between two seeks |
//! | `[files]` | how a shared file is striped, bytes of index of a rank |
//! | `[background]` | share of the targets' bandwidth that others use: each target between 0 and twice that |
//! | `[slow]` | share of the targets that are slow, and how many times |
//! | `[noise]` | share of the writing processes that stall and for how long, how much longer or shorter than others a write takes |
//! | `[servers]` | for loads of collective calls: each target is the disk of a data server; what a message, a byte and a run of the file cost it |
//! | `[two_phase]` | for loads: an aggregator's buffer, and what bytes and offset-length pairs of the exchange cost |
//! | `[[constant]]` | of each number above: where it comes from |
//! | `[[check]]` | published numbers for validation, to which no constant was fitted |
//!
//! GB are 10^9 bytes, MiB 2^20, GiB 2^30.

use serde::Deserialize;
use std::path::Path;
use thalweg_types::{Error, ErrorKind, Result};

/// A number above 0.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Above(pub f64);

impl TryFrom<f64> for Above {
    type Error = String;
    fn try_from(value: f64) -> std::result::Result<Above, String> {
        if value.is_finite() && value > 0.0 { Ok(Above(value)) } else { Err(format!("{value} is not above 0")) }
    }
}

/// A number that is 0 or above.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct NotBelow(pub f64);

impl TryFrom<f64> for NotBelow {
    type Error = String;
    fn try_from(value: f64) -> std::result::Result<NotBelow, String> {
        if value.is_finite() && value >= 0.0 { Ok(NotBelow(value)) } else { Err(format!("{value} is below 0")) }
    }
}

/// From 0 to below 1.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Share(pub f64);

impl TryFrom<f64> for Share {
    type Error = String;
    fn try_from(value: f64) -> std::result::Result<Share, String> {
        if (0.0..1.0).contains(&value) {
            Ok(Share(value))
        } else {
            Err(format!("{value} is no share from 0 to below 1"))
        }
    }
}

/// From 1 to a million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "i64")]
pub struct Count(pub u32);

impl TryFrom<i64> for Count {
    type Error = String;
    fn try_from(value: i64) -> std::result::Result<Count, String> {
        match u32::try_from(value) {
            Ok(count @ 1..=1_000_000) => Ok(Count(count)),
            _ => Err(format!("{value} is not between 1 and 1000000")),
        }
    }
}

/// `[nodes]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// Ranks of one node.
    pub ranks_per_node: Count,
    /// Memory of one rank.
    pub memory_gib_per_rank: Above,
    /// Bandwidth of copies in a node's memory.
    pub copy_gb_per_second: Above,
}

/// `[network]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Bandwidth of a node's link, in each direction.
    pub node_gb_per_second: Above,
    /// From rank to rank, or to a server.
    pub latency_seconds: Above,
}

/// `[metadata]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Openings that are answered in a second.
    pub opens_per_second: Above,
}

/// `[targets]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Targets {
    /// How many.
    pub count: Count,
    /// All together.
    pub peak_gb_per_second: Above,
    /// Most targets under one file.
    pub per_file: Count,
    /// Cost of a seek and of a change of the writer.
    pub seek_seconds: NotBelow,
    /// Written of one writer before another's bytes may come.
    pub run_mib: Above,
}

/// `[files]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// Default stripe of a shared file.
    pub stripe_mib: Above,
    /// Characteristics that one rank adds to the index.
    pub index_bytes_per_rank: NotBelow,
}

/// `[background]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Share of the targets' bandwidth, on average.
    pub share: Share,
}

/// `[slow]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    /// Share of the targets.
    pub share: Share,
    /// How many times slower they are.
    pub times: Above,
}

/// `[noise]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoiseTable {
    /// Share of the writing processes that stall.
    pub stalled_share: Share,
    /// Least and most that a stall lasts.
    pub stall_seconds: [Above; 2],
    /// A write takes up to so much longer or shorter than others.
    pub jitter: Share,
}

/// `[servers]`: each storage target is the disk of a data server on a node of its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Servers {
    /// Most payload of one message of a partition's client.
    pub net_buf_kib: Above,
    /// What a message costs a server's processor.
    pub request_seconds: NotBelow,
    /// Bandwidth of a server's processor between network and memory.
    pub copy_gb_per_second: Above,
    /// What each run of the file costs it, beside its bytes.
    pub run_seconds: NotBelow,
    /// Written bytes in its memory above which writes wait for the disk.
    pub cache_mib: Above,
}

/// `[two_phase]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoPhase {
    /// Bytes of a round of one aggregator.
    pub buffer_mib: Above,
    /// Most payload of one message of PVFS2.
    pub flow_kib: Above,
    /// What an offset-length pair costs a process, each time that one is made, received or used.
    pub pair_seconds: NotBelow,
    /// Bandwidth of an aggregator's processor in the exchange with other ranks.
    pub exchange_gb_per_second: Above,
}

/// Where a number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// It stands in a publication.
    Published,
    /// It was chosen such that a published number comes out.
    Fitted,
    /// Neither: it is of the order that such machines had.
    Assumed,
}

/// `[[constant]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// Table and key.
    pub key: String,
    /// Where the number comes from.
    pub how: How,
    /// The publication, the number fitted to, or the reason.
    pub from: String,
}

/// `[[check]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The number, as published.
    pub number: String,
    /// Where.
    pub published: String,
    /// The number that is compared with it.
    pub held_against: String,
}

/// A machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Scope and limits of the description.
    pub about: String,
    /// Nodes and ranks.
    pub nodes: Nodes,
    /// The network.
    pub network: Network,
    /// The metadata server.
    pub metadata: Metadata,
    /// Storage targets.
    pub targets: Targets,
    /// Files.
    pub files: Files,
    /// Load of others.
    pub background: Background,
    /// Slow targets.
    pub slow: Slow,
    /// Noise.
    pub noise: NoiseTable,
    /// Data servers; loads need them.
    pub servers: Option<Servers>,
    /// Two-phase; loads need it.
    pub two_phase: Option<TwoPhase>,
    /// Where the numbers come from.
    #[serde(default)]
    pub constant: Vec<Constant>,
    /// Published numbers that nothing was fitted to.
    #[serde(default)]
    pub check: Vec<Check>,
}

/// The descriptions that are shipped, by name.
pub const SHIPPED: [(&str, &str); 4] = [
    ("jaguar-xt4", include_str!("../machines/jaguar-xt4.toml")),
    ("jaguarpf-xt5", include_str!("../machines/jaguarpf-xt5.toml")),
    ("lonestar", include_str!("../machines/lonestar.toml")),
    ("present-day", include_str!("../machines/present-day.toml")),
];

impl Machine {
    /// From the text of a description; `name` is for errors.
    ///
    /// # Errors
    /// `Config`, with line, column and key, where the text is no TOML, a key is missing, unknown, or has a value out of its range.
    pub fn parse(name: &str, text: &str) -> Result<Machine> {
        let bad = |what: String| Error::new(ErrorKind::Config, format!("machine description '{name}': {what}"));
        let machine: Machine = toml::from_str(text).map_err(|e| bad(e.to_string().trim_end().to_string()))?;
        if machine.noise.stall_seconds[0].0 > machine.noise.stall_seconds[1].0 {
            let line = text.lines().position(|l| l.trim_start().starts_with("stall_seconds")).map_or(0, |l| l + 1);
            return Err(bad(format!("line {line}: noise.stall_seconds: the least is above the most")));
        }
        Ok(machine)
    }

    /// A built-in machine.
    ///
    /// # Errors
    /// `NotFound` names those there are.
    pub fn shipped(name: &str) -> Result<Machine> {
        match SHIPPED.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Machine::parse(name, text),
            None => {
                let known: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
                let what = format!("no machine '{name}'; machines: {}, or give a file", known.join(", "));
                Err(Error::new(ErrorKind::NotFound, what))
            }
        }
    }

    /// The machine in a file, or the built-in one of that name if there is no such file.
    ///
    /// # Errors
    /// As [`Machine::parse`] and [`Machine::shipped`]; `Io` where the file can't be read.
    pub fn open(path: &Path) -> Result<Machine> {
        let name = path.display().to_string();
        if SHIPPED.iter().any(|(known, _)| *known == name) && !path.exists() {
            return Machine::shipped(&name);
        }
        match std::fs::read_to_string(path) {
            Ok(text) => Machine::parse(&name, &text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Machine::shipped(&name),
            Err(e) => Err(Error::io(format!("cannot read machine description '{name}'"), e)),
        }
    }

    /// Bytes per second of all targets together.
    pub fn peak(&self) -> f64 {
        self.targets.peak_gb_per_second.0 * 1e9
    }

    /// Bytes per second of one target, with one writer.
    pub fn target_bandwidth(&self) -> f64 {
        self.peak() / f64::from(self.targets.count.0)
    }

    /// Bytes per second that a node sends or receives.
    pub fn node_bandwidth(&self) -> f64 {
        self.network.node_gb_per_second.0 * 1e9
    }

    /// Seconds that a rank needs to pack so many bytes, while the others of its node do too.
    pub fn copy_seconds(&self, bytes: u64) -> f64 {
        bytes as f64 * f64::from(self.nodes.ranks_per_node.0) / (self.nodes.copy_gb_per_second.0 * 1e9)
    }

    /// Bytes of a stripe of a shared file.
    pub fn stripe(&self) -> u64 {
        ((self.files.stripe_mib.0 * (1 << 20) as f64) as u64).max(1)
    }

    /// The node of a rank: ranks fill one node after the other.
    pub fn node_of(&self, rank: u32) -> u32 {
        rank / self.nodes.ranks_per_node.0
    }

    /// Most storage targets under one file.
    pub fn targets_of_a_file(&self) -> u32 {
        self.targets.per_file.0.min(self.targets.count.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        Machine::parse("test.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn mistakes_are_told_with_line_and_key() {
        let good = SHIPPED[1].1;
        let line = |key: &str| good.lines().position(|l| l.starts_with(key)).unwrap() + 1;
        let at = |key: &str| format!("line {}", line(key));
        for (from, to, at, say) in [
            ("per_file = 160", "per_file = 0", at("per_file"), "0 is not between 1 and 1000000"),
            ("per_file = 160", "per_fil = 160", at("per_file"), "unknown field `per_fil`"),
            ("per_file = 160", "per_file = \"many\"", at("per_file"), "invalid type"),
            ("per_file = 160", "per_file = ", at("per_file"), ""),
            ("per_file = 160\n", "", at("[targets]"), "missing field `per_file`"),
            ("peak_gb_per_second = 110", "peak_gb_per_second = -1", at("peak_gb"), "-1 is not above 0"),
            ("peak_gb_per_second = 110", "peak_gb_per_second = nan", at("peak_gb"), "NaN is not above 0"),
            ("stalled_share = 0.01", "stalled_share = 1.5", at("stalled_share"), "1.5 is no share"),
            ("stall_seconds = [8.5, 67.5]", "stall_seconds = [9, 8]", at("stall_seconds"), "noise.stall_seconds"),
        ] {
            assert!(good.contains(from), "{from}");
            let error = told(&good.replace(from, to));
            assert!(error.contains("test.toml") && error.contains(&at), "{to}: {error}");
            assert!(error.contains(say), "{to}: {error}");
        }
    }

    #[test]
    fn what_is_shipped_says_of_every_number_where_it_comes_from() {
        for (name, text) in SHIPPED {
            let machine = Machine::parse(name, text).unwrap();
            let table: toml::Table = text.parse().unwrap();
            let mut keys = Vec::new();
            for (room, value) in table {
                if let toml::Value::Table(inner) = value {
                    keys.extend(inner.keys().map(|key| format!("{room}.{key}")));
                }
            }
            let known: Vec<&str> = machine.constant.iter().map(|c| c.key.as_str()).collect();
            for key in &keys {
                assert_eq!(known.iter().filter(|k| *k == key).count(), 1, "{name}: {key}");
            }
            assert_eq!(known.len(), keys.len(), "{name}");
            assert!(machine.constant.iter().all(|c| !c.from.is_empty()));
            assert!(!machine.check.is_empty(), "{name} keeps nothing for checking");
        }
    }

    #[test]
    fn a_name_nobody_ships_is_told_with_those_there_are() {
        let error = Machine::open(Path::new("jaguar")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("jaguarpf-xt5"));
    }
}
