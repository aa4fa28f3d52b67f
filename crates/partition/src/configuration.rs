//! The configuration of a partition, from a file such as `filesystem.cfg` (AHPIOS, section 3.3).
//!
//! ```text
//! # One line for each setting.
//! name          = scratch
//! stripe_size   = 64k
//! nr_ios        = 2
//! ahpios_server = n1:/local/data       # in the order of the stripes
//! ahpios_server = n2:/local/data
//! metadata      = n1:/local/names
//! cache_size    = 1G
//! ```
//!
//! Static settings ([`STATIC`]) are those of the partition from its creation on; the registry keeps them. Dynamic ones ([`DYNAMIC`])
//! are read each time that the servers are started, from the file as it is then.
//!
//! The same settings may be a table of the mount table instead, `[mount.partition]` ([`Configuration::inline`]), whose name is then
//! `FILE#NAME` ([`address`]).

use crate::striping::{LONGEST_STRIPE, MOST_SERVERS, SHORTEST_STRIPE};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_diagnostics::{Problem, Report};
use thalweg_params::{Parameter, Parameters, Unit};
use thalweg_types::{Error, ErrorKind, Result};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// `name`.
pub const NAME: Parameter =
    Parameter::text("name", "a name", "name of the partition").or_else("the configuration file's, without its ending");
/// `registry`.
pub const REGISTRY: Parameter =
    Parameter::text("registry", "a folder", "folder of the registry, which all nodes share")
        .or_else(".thalweg-partitions beside the configuration file");
/// `stripe_size`.
pub const STRIPE_SIZE: Parameter =
    Parameter::size("stripe_size", 64 << 10, "stripe of new files").within(SHORTEST_STRIPE, LONGEST_STRIPE);
/// `nr_ios`.
pub const NR_IOS: Parameter = Parameter::count("nr_ios", 1, "number of data servers")
    .within(1, MOST_SERVERS as u64)
    .or_else("the number of ahpios_server lines");
/// `ahpios_server`.
pub const AHPIOS_SERVER: Parameter = Parameter::text(
    "ahpios_server",
    "host:/folder or host:URL",
    "a data server's host and storage; one line for each, in the order of the stripes",
)
.also(&["server"]);
/// `metadata`.
pub const METADATA: Parameter =
    Parameter::text("metadata", "host:/folder", "host and folder of names and of what is known of each file");
/// `net_buf_size`.
pub const NET_BUF_SIZE: Parameter =
    Parameter::size("net_buf_size", 1 << 20, "unit of network transfers").within(4 << 10, 8 << 20);
/// `cache_size`.
pub const CACHE_SIZE: Parameter =
    Parameter::size("cache_size", 256 << 20, "block cache of each server").at_least(1 << 20);
/// `optimizations`.
pub const OPTIMIZATIONS: Parameter = Parameter::count(
    "optimizations",
    0,
    "0: views are sent to the servers; 1: clients map them, and ranks exchange bytes first (two-phase), for comparison",
)
.within(0, 1);
/// `idle`.
pub const IDLE: Parameter = Parameter::time(
    "idle",
    Duration::ZERO,
    Unit::Seconds,
    "servers end so long after their last client has left; 0: when they are told to",
);
/// `start`.
pub const START: Parameter = Parameter::choice(
    "start",
    &["ahead", "on-demand", "spawn"],
    "who starts the servers. ahead: a command; on-demand: also the first open; spawn: as on-demand, and an MPI program starts them itself, with MPI_Comm_spawn",
);
/// `listen`.
pub const LISTEN: Parameter = Parameter::text(
    "listen",
    "an address",
    "address on which servers wait for clients of other nodes; none: clients of this node only",
)
.or_nothing();
/// `transport`.
pub const TRANSPORT: Parameter = Parameter::choice(
    "transport",
    Choice::WORDS,
    "how clients reach the servers (guide: partitions); auto: the fastest way that is open. THALWEG_TRANSPORT says it for one program",
);
/// `kill_wait`.
pub const KILL_WAIT: Parameter = Parameter::time(
    "kill_wait",
    Duration::from_secs(30),
    Unit::Seconds,
    "time that servers have from SIGTERM to SIGKILL: they warn while what is not stored needs more (Slurm: KillWait)",
);

/// `staging`.
pub const STAGING: Parameter = Parameter::text(
    "staging",
    "/folder or a URL",
    "where server 0 stores outputs that programs hand over to it; none: it takes none",
)
.or_nothing();
/// `staging_memory`.
pub const STAGING_MEMORY: Parameter =
    Parameter::size("staging_memory", 1 << 30, "most bytes of these that server 0 holds; beyond, programs wait");

/// Settings that hold from a partition's creation on.
pub const STATIC: &[Parameter] = &[NAME, REGISTRY, STRIPE_SIZE, NR_IOS, AHPIOS_SERVER, METADATA];
/// Settings that are read when servers start.
pub const DYNAMIC: &[Parameter] =
    &[NET_BUF_SIZE, CACHE_SIZE, OPTIMIZATIONS, IDLE, START, LISTEN, TRANSPORT, KILL_WAIT, STAGING, STAGING_MEMORY];

/// How clients reach servers: `transport`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// What is fastest of what is open: on the server's host a Unix socket, with long reads as `Memfd` and long writes as `Memory`;
    /// elsewhere TCP.
    #[default]
    Auto,
    /// A Unix socket; long reads and writes pass through shared memory.
    Memfd,
    /// A Unix socket; long writes are read from the client's memory, long reads are sent.
    Memory,
    /// A Unix socket, for all bytes.
    Unix,
    /// TCP, also on the server's host.
    Tcp,
}

impl Choice {
    const WORDS: &[&str] = &["auto", "memfd", "memory", "unix", "tcp"];
    const ALL: [Choice; 5] = [Choice::Auto, Choice::Memfd, Choice::Memory, Choice::Unix, Choice::Tcp];

    /// The choice that a word names.
    pub fn of(word: &str) -> Option<Choice> {
        Choice::WORDS.iter().position(|known| *known == word).map(|at| Choice::ALL[at])
    }
}

/// A host and where it stores what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The host's name.
    pub host: String,
    /// A folder of it, or the URL of a store.
    pub storage: String,
}

/// What cannot change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Static {
    /// The partition's name.
    pub name: String,
    /// Stripe of new files, in bytes.
    pub stripe_size: u64,
    /// The data servers, in the order of the stripes.
    pub servers: Vec<Location>,
    /// Names, and what is known of each file.
    pub metadata: Location,
}

/// Who starts the servers of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// A command, before programs use it.
    Ahead,
    /// A command, or the first open, which runs that command.
    OnDemand,
    /// As [`Start::OnDemand`]; the first open of an MPI program starts them with `MPI_Comm_spawn` where its MPI can.
    Spawn,
}

/// What may change from one start to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dynamic {
    /// Unit of network transfers, in bytes.
    pub net_buf_size: u64,
    /// Block cache of each server, in bytes.
    pub cache_size: u64,
    /// Whether clients map views themselves and servers see contiguous accesses only.
    pub views_in_client: bool,
    /// Servers end so long after their last client; `None`: not by themselves.
    pub idle: Option<Duration>,
    /// Who starts the servers.
    pub start: Start,
    /// Address for clients of other nodes.
    pub listen: Option<String>,
    /// How clients reach the servers.
    pub transport: Choice,
    /// From SIGTERM to SIGKILL.
    pub kill_wait: Duration,
    /// The folder or URL where server 0 stores outputs that programs hand over; `None`: it takes none.
    pub staging: Option<String>,
    /// Most bytes of these that it holds.
    pub staging_memory: u64,
}

/// A partition as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// What cannot change.
    pub fixed: Static,
    /// What may.
    pub dynamic: Dynamic,
    /// Folder of the registry.
    pub registry: PathBuf,
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(Choice::WORDS[*self as usize])
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.storage)
    }
}

impl std::str::FromStr for Location {
    type Err = Problem;

    fn from_str(text: &str) -> std::result::Result<Location, Problem> {
        match text.split_once(':') {
            Some((host, storage))
                if !host.is_empty() && !host.contains('/') && (storage.starts_with('/') || storage.contains(':')) =>
            {
                Ok(Location { host: host.into(), storage: storage.into() })
            }
            _ => {
                Err(Problem::new(format!("\"{text}\" names no storage of a host")).expected("host:/folder or host:URL"))
            }
        }
    }
}

/// A setting of a text, and where it is.
struct Setting {
    key: String,
    value: String,
    span: Range<usize>,
}

/// The name of the configuration that is a table of a mount table: `FILE#NAME`, which all commands take as a file.
pub fn address(file: &Path, name: &str) -> PathBuf {
    let mut address = file.as_os_str().to_os_string();
    address.push("#");
    address.push(name);
    address.into()
}

/// The file of a configuration's name, and the name of the partition of an [`address`].
pub fn parts(path: &Path) -> (PathBuf, Option<String>) {
    let shown = path.to_str().and_then(|text| text.rsplit_once('#')).filter(|(_, name)| is_name(name));
    match shown {
        // A file may have such a name.
        Some((file, name)) if !path.exists() => (file.into(), Some(name.to_string())),
        _ => (path.to_path_buf(), None),
    }
}

/// Whether a name can be a partition's: it is part of names of files and sockets.
pub fn is_name(name: &str) -> bool {
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&name.len()) && !name.starts_with('.') && name.chars().all(usable)
}

impl Configuration {
    /// Reads a file, or the table of a mount table that [`address`] names.
    ///
    /// # Errors
    /// Errors of reading; `Config` with file, line and what is expected there.
    pub fn read(path: &Path) -> Result<Configuration> {
        let (file, name) = parts(path);
        let text = std::fs::read_to_string(&file)
            .map_err(|e| Error::io("cannot read the configuration", e).in_object(file.display().to_string()))?;
        let folder = std::path::absolute(&file).ok().and_then(|path| path.parent().map(Path::to_path_buf));
        let (shown, folder) = (file.display().to_string(), folder.unwrap_or_default());
        let is_table = || {
            let mounts = text.lines().map(str::trim_start).any(|line| line.starts_with("[[mount]]"));
            mounts && file.extension().is_some_and(|ending| ending == "toml")
        };
        if name.is_some() || is_table() {
            return Configuration::in_mounts(&text, &shown, name.as_deref(), &folder);
        }
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Configuration::parse(&text, &shown, &stem, &folder)
    }

    /// Reads a text.
    ///
    /// - `file`: its name, for messages.
    /// - `stem`: name of the partition if the text has none.
    /// - `folder`: of the file; relative names are below it.
    ///
    /// # Errors
    /// `Config` with file, line and what is expected there.
    pub fn parse(text: &str, file: &str, stem: &str, folder: &Path) -> Result<Configuration> {
        let mut report = Report::new(file, text);
        let (mut settings, mut at) = (Vec::new(), 0);
        for line in text.split_inclusive('\n') {
            let whole = line.split('#').next().unwrap_or_default();
            let content = whole.trim();
            let begin = at + (whole.len() - whole.trim_start().len());
            let span = begin..begin + content.len();
            at += line.len();
            if content.is_empty() {
                continue;
            }
            match content.split_once('=') {
                Some((key, value)) => {
                    settings.push(Setting { key: key.trim().into(), value: value.trim().into(), span });
                }
                None => report.error(span, Problem::new("a line without =").expected("key = value")),
            }
        }
        let made = Configuration::of(&settings, text.len()..text.len(), stem, folder, &mut report)?;
        match made {
            Some(made) if report.errors() == 0 => Ok(made),
            _ => Err(report.into()),
        }
    }

    /// The table `[mount.partition]` of a mount table.
    ///
    /// - `name`: of the partition; `None`: there is one only.
    ///
    /// # Errors
    /// `Config` with file, line and what is expected there; `NotFound` if there is no such table.
    fn in_mounts(text: &str, file: &str, name: Option<&str>, folder: &Path) -> Result<Configuration> {
        let mut report = Report::new(file, text);
        let table = match DeTable::parse(text) {
            Ok(table) => table,
            Err(e) => {
                report.error(e.span().unwrap_or(0..0), Problem::new(e.message().to_string()));
                return Err(report.into());
            }
        };
        let mounts = table.get_ref().get("mount").and_then(|mounts| mounts.get_ref().as_array());
        let tables = mounts.into_iter().flatten().filter_map(|mount| mount.get_ref().as_table());
        let inline: Vec<_> =
            tables.filter_map(|mount| mount.get("partition")).filter(|p| p.get_ref().is_table()).collect();
        let named = |partition: &&Spanned<DeValue<'_>>| {
            let found = partition.get_ref().get("name").and_then(|name| name.get_ref().as_str());
            name.is_none() || found == name
        };
        let mut found = inline.iter().copied().filter(named);
        let (Some(partition), None) = (found.next(), found.next()) else {
            let what = match name {
                Some(name) => format!(
                    "no mount of this table has a table [mount.partition] with name = \"{name}\", or several have"
                ),
                None if inline.is_empty() => "no mount of this table has a table [mount.partition]".to_string(),
                None => format!("this table has several partitions: {file}#NAME is one of them"),
            };
            return Err(Error::new(ErrorKind::NotFound, what).in_object(file));
        };
        Configuration::inline(partition, folder, &mut report)?.ok_or_else(|| report.into())
    }

    /// Reads the table `[mount.partition]` of a mount: keys and values are those of a file, and `ahpios_server` is a list of texts.
    /// `None`: with mistakes, which the report has.
    ///
    /// - `folder`: of the mount table's file; relative names are below it.
    ///
    /// # Errors
    /// None that a user can cause.
    pub fn inline(table: &Spanned<DeValue<'_>>, folder: &Path, report: &mut Report) -> Result<Option<Configuration>> {
        let before = report.errors();
        let mut settings = Vec::new();
        let text = |value: &DeValue<'_>| match value {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) => Some(number.to_string()),
            _ => None,
        };
        for (key, value) in table.get_ref().as_table().into_iter().flat_map(|table| table.iter()) {
            let several = value.get_ref().as_array().filter(|_| AHPIOS_SERVER.is(key.get_ref()));
            let values: Vec<&Spanned<DeValue<'_>>> =
                several.map_or_else(|| vec![value], |several| several.iter().collect());
            for value in values {
                match text(value.get_ref()) {
                    Some(value_text) => {
                        let span = if several.is_some() { value.span() } else { key.span().start..value.span().end };
                        settings.push(Setting { key: key.get_ref().to_string(), value: value_text, span });
                    }
                    None => report.error(value.span(), Problem::new("a setting is a text or a whole number")),
                }
            }
        }
        if !settings.iter().any(|setting| NAME.is(&setting.key)) {
            report.error(table.span(), Problem::new("the partition has no name").expected("name = \"scratch\""));
        }
        let made = Configuration::of(&settings, table.span(), "", folder, report)?;
        Ok(made.filter(|_| report.errors() == before))
    }

    /// The configuration that settings make; `None`: with mistakes, which the report has.
    ///
    /// - `end`: where what is missing belongs.
    fn of(
        settings: &[Setting],
        end: Range<usize>,
        stem: &str,
        folder: &Path,
        report: &mut Report,
    ) -> Result<Option<Configuration>> {
        let before = report.errors();
        let mut given = Parameters::default();
        let (mut servers, mut metadata) = (Vec::new(), None);
        let mut seen: Vec<&str> = Vec::new();
        let mut count_at = 0..0;
        for Setting { key, value, span } in settings {
            let span = span.clone();
            let known = || STATIC.iter().chain(DYNAMIC);
            let Some(parameter) = known().find(|parameter| parameter.is(key)) else {
                report.error(span, Problem::unknown("key", key, known().flat_map(Parameter::names)));
                continue;
            };
            if parameter.key != AHPIOS_SERVER.key {
                if seen.contains(&parameter.key) {
                    report.error(span, Problem::new(format!("{} is given twice", parameter.key)));
                    continue;
                }
                seen.push(parameter.key);
            }
            if parameter.key == NR_IOS.key {
                count_at = span.clone();
            }
            if let Err(expected) = parameter.read(value) {
                report.error(span, Problem::new(format!("{key} = {value}")).expected(expected));
            } else if parameter.key == AHPIOS_SERVER.key || parameter.key == METADATA.key {
                match value.parse::<Location>() {
                    Ok(location) if parameter.key == METADATA.key => metadata = Some(location),
                    Ok(location) if servers.contains(&location) => {
                        report.error(span, Problem::new(format!("two servers have the storage {location}")));
                    }
                    Ok(location) => servers.push(location),
                    Err(problem) => report.error(span, problem),
                }
            } else if parameter.key == STAGING.key && !value.starts_with('/') && !value.contains(':') {
                report.error(span, Problem::new(format!("staging = {value}")).expected("/folder or a URL"));
            } else if parameter.key == NAME.key && !is_name(value) {
                let expected = "1 to 64 letters, digits, - _ and ., none of them first";
                report.error(span, Problem::new(format!("name = {value}")).expected(expected));
            } else {
                given.push(parameter.key, value);
            }
        }
        if servers.is_empty() {
            report.error(end.clone(), Problem::new("no data server").expected("ahpios_server = host:/folder"));
        }
        if metadata.is_none() && report.errors() == before {
            report.error(end.clone(), Problem::new("no place for names").expected("metadata = host:/folder"));
        }
        if metadata.as_ref().is_some_and(|place| servers.contains(place)) {
            report.error(end.clone(), Problem::new("names and data have the same storage").expected("two folders"));
        }
        if report.errors() == before
            && let Some(count) = given.get::<Option<u64>>(&NR_IOS)?
            && count != servers.len() as u64
        {
            let what = format!("nr_ios = {count}, and {} ahpios_server lines", servers.len());
            report.error(count_at, Problem::new(what).expected("one line for each server"));
        }
        let name = given.text(&NAME).unwrap_or(stem).to_string();
        if !is_name(&name) {
            report.error(
                end,
                Problem::new(format!("\"{name}\" cannot be a partition's name")).expected("name = scratch"),
            );
        }
        let Some(metadata) = metadata.filter(|_| report.errors() == before) else { return Ok(None) };
        let registry =
            given.text(&REGISTRY).map_or_else(|| folder.join(".thalweg-partitions"), |path| folder.join(path));
        let idle: Duration = given.get(&IDLE)?;
        Ok(Some(Configuration {
            fixed: Static { name, stripe_size: given.get(&STRIPE_SIZE)?, servers, metadata },
            dynamic: Dynamic {
                net_buf_size: given.get(&NET_BUF_SIZE)?,
                cache_size: given.get(&CACHE_SIZE)?,
                views_in_client: given.get::<u64>(&OPTIMIZATIONS)? == 1,
                idle: Some(idle).filter(|idle| !idle.is_zero()),
                start: match given.get::<String>(&START)?.as_str() {
                    "on-demand" => Start::OnDemand,
                    "spawn" => Start::Spawn,
                    _ => Start::Ahead,
                },
                listen: given.text(&LISTEN).map(str::to_string),
                transport: Choice::of(&given.get::<String>(&TRANSPORT)?).unwrap_or_default(),
                kill_wait: given.get(&KILL_WAIT)?,
                staging: given.text(&STAGING).map(str::to_string),
                staging_memory: given.get(&STAGING_MEMORY)?,
            },
            registry,
        }))
    }
}

impl Static {
    /// Compares with what a partition was created with.
    ///
    /// # Errors
    /// `Config` names the first setting that differs, both values, and the command that changes it.
    pub fn must_equal(&self, created: &Static) -> Result<()> {
        let list = |servers: &[Location]| servers.iter().map(Location::to_string).collect::<Vec<_>>().join(", ");
        let pairs = [
            (NAME.key, self.name.clone(), created.name.clone()),
            (STRIPE_SIZE.key, self.stripe_size.to_string(), created.stripe_size.to_string()),
            (AHPIOS_SERVER.key, list(&self.servers), list(&created.servers)),
            (METADATA.key, self.metadata.to_string(), created.metadata.to_string()),
        ];
        match pairs.into_iter().find(|(_, now, then)| now != then) {
            None => Ok(()),
            Some((key, now, then)) => {
                let what = format!(
                    "{key} = {now}, but the partition {} was created with {then}; thalweg partition move makes one with other static settings",
                    created.name
                );
                Err(Error::new(ErrorKind::Config, what))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: &str = "# the paper's example\nstripe_size = 64k\nnr_ios = 4\nahpios_server = n0:/data\nahpios_server = n1:/data\n\
        ahpios_server = n2:/data # the third\nahpios_server = n3:/data\nmetadata = n0:/metadata\nnet_buf_size = 64k\ncache_size = 1G\n\
        optimizations = 0\n";

    fn parse(text: &str) -> Result<Configuration> {
        Configuration::parse(text, "filesystem.cfg", "filesystem", Path::new("/home/u"))
    }

    #[test]
    fn the_papers_file_is_read() {
        let got = parse(PAPER).unwrap();
        assert_eq!(got.fixed.name, "filesystem");
        assert_eq!(
            (got.fixed.stripe_size, got.dynamic.net_buf_size, got.dynamic.cache_size),
            (64 << 10, 64 << 10, 1 << 30)
        );
        let servers: Vec<String> = got.fixed.servers.iter().map(Location::to_string).collect();
        assert_eq!(servers, ["n0:/data", "n1:/data", "n2:/data", "n3:/data"]);
        assert_eq!(got.fixed.metadata.to_string(), "n0:/metadata");
        assert!(!got.dynamic.views_in_client);
        assert_eq!(got.dynamic.transport, Choice::Auto);
        for (word, choice) in Choice::WORDS.iter().zip(Choice::ALL) {
            assert_eq!(parse(&format!("{PAPER}transport = {word}\n")).unwrap().dynamic.transport, choice);
        }
        assert_eq!(got.registry, Path::new("/home/u/.thalweg-partitions"));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, line, words) in [
            (PAPER.replace("nr_ios = 4", "nr_ios = 3"), 3, "nr_ios = 3, and 4 ahpios_server lines"),
            (PAPER.replace("cache_size", "cache_sice"), 10, "cache_size"),
            (PAPER.replace("64k", "64q"), 2, "stripe_size = 64q"),
            (PAPER.replace("n0:/metadata", "/metadata"), 8, "names no storage of a host"),
            (PAPER.replace("n1:/data", "n0:/data"), 5, "two servers have the storage n0:/data"),
            (PAPER.replace("n0:/metadata", "n1:/data"), 0, "names and data have the same storage"),
            (PAPER.replace("optimizations = 0", "optimizations"), 11, "a line without ="),
            (format!("{PAPER}stripe_size = 1M\n"), 12, "stripe_size is given twice"),
            (PAPER.replace("metadata", "# metadata"), 0, "no place for names"),
            (format!("{PAPER}transport = ring\n"), 12, "transport = ring"),
            (format!("{PAPER}staging = out\n"), 12, "staging = out"),
            (String::new(), 0, "no data server"),
            ("name = a/b\n".into(), 1, "name = a/b"),
        ] {
            let e = parse(&text).unwrap_err().to_string();
            assert!(e.contains(words), "{e}");
            assert!(line == 0 || e.contains(&format!("filesystem.cfg:{line}")), "{line}: {e}");
        }
    }

    const MOUNTS: &str = "[[mount]]\npath = \"/mnt/p\"\nlayout = \"partition\"\n[mount.partition]\nname = \"p\"\nstripe_size = \"64k\"\n\
        nr_ios = 2\nahpios_server = [\"n0:/data\",\n  \"n1:/data\"]\nmetadata = \"n0:/names\"\n";

    #[test]
    fn a_table_of_the_mount_table_says_the_same_as_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let (table, file) = (folder.path().join("mounts.toml"), folder.path().join("p.cfg"));
        let lines =
            "stripe_size = 64k\nnr_ios = 2\nahpios_server = n0:/data\nahpios_server = n1:/data\nmetadata = n0:/names\n";
        std::fs::write(&file, lines).unwrap();
        std::fs::write(&table, MOUNTS).unwrap();
        let expected = Configuration::read(&file).unwrap();
        assert_eq!(Configuration::read(&table).unwrap(), expected);
        assert_eq!(Configuration::read(&address(&table, "p")).unwrap(), expected);
        let other = Configuration::read(&address(&table, "q")).unwrap_err();
        assert!(other.kind() == ErrorKind::NotFound && other.to_string().contains("name = \"q\""), "{other}");
        std::fs::write(&table, format!("{MOUNTS}{}", MOUNTS.replace("name = \"p\"", "name = \"q\""))).unwrap();
        let several = Configuration::read(&table).unwrap_err().to_string();
        assert!(several.contains("mounts.toml#NAME"), "{several}");
        assert_eq!(Configuration::read(&address(&table, "q")).unwrap().fixed.name, "q");
        // A file whose name looks like an address.
        std::fs::write(address(&file, "p"), lines.replace("64k", "128k")).unwrap();
        assert_eq!(Configuration::read(&address(&file, "p")).unwrap().fixed.stripe_size, 128 << 10);
    }

    #[test]
    fn mistakes_of_a_table_are_told_with_their_line() {
        for (from, to, line, words) in [
            ("64k", "64q", 6, "stripe_size = 64q"),
            ("nr_ios = 2", "nr_ios = 3", 7, "nr_ios = 3, and 2 ahpios_server lines"),
            ("nr_ios", "nr_io", 7, "nr_ios"),
            ("\"n1:/data\"", "\"/data\"", 9, "names no storage of a host"),
            ("nr_ios = 2", "nr_ios = 2.5", 7, "a setting is a text or a whole number"),
            ("name = \"p\"\n", "", 4, "the partition has no name"),
            ("metadata = \"n0:/names\"\n", "", 4, "no place for names"),
        ] {
            let text = MOUNTS.replacen(from, to, 1);
            let e = Configuration::in_mounts(&text, "mounts.toml", None, Path::new("/")).unwrap_err().to_string();
            assert!(e.contains(words) && e.contains(&format!("mounts.toml:{line}")), "{from} {line}: {e}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_read_with_a_panic(text in "([a-z_]{0,9}( ?= ?)?[0-9a-zA-Z:/#.é-]{0,9}\n?){0,12}") {
            let _ = parse(&text);
            let _ = parse(&format!("{PAPER}{text}"));
        }
    }

    #[test]
    fn a_static_setting_that_differs_is_named_with_both_values() {
        let created = parse(PAPER).unwrap().fixed;
        created.must_equal(&created).unwrap();
        for (from, to, key) in [
            ("64k", "1M", "stripe_size"),
            ("n3:/data", "n3:/other", "ahpios_server"),
            ("/metadata", "/names", "metadata"),
        ] {
            let e = parse(&PAPER.replace(from, to)).unwrap().fixed.must_equal(&created).unwrap_err();
            assert!(e.to_string().contains(key) && e.to_string().contains(to.trim_end_matches('M')), "{e}");
        }
    }
}
