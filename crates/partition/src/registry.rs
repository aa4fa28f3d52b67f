//! The registry: which partitions there are, with which static settings, and where their servers are.
//!
//! | question | answer |
//! |----------|--------|
//! | form     | a folder that all nodes share, with a file `NAME.toml` for each partition (`docs/format/partition.md`) |
//! | changes  | under a lock of `NAME.lock`, by a new file renamed over the old one: a crash leaves the one or the other |
//! | when     | a partition is created, started, stopped, moved or removed; a client reads it when it connects. Files of the partition are not in it |
//! | who is who | host, process number and start time of each server; never a rank |

use crate::configuration::{Choice, Location, Static, is_name};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use thalweg_types::{Error, ErrorKind, Result};

/// Version of the entries.
pub const VERSION: u32 = 1;

/// A running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Its number: data servers from 0 in the order of the stripes; one behind them has the names only.
    pub number: u32,
    /// Its host.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// When the process started, in ticks of the system since its boot: a number that is used again is another process.
    pub started: u64,
    /// Socket for clients of its node.
    pub socket: String,
    /// Address for clients of other nodes.
    pub address: Option<String>,
}

/// A run of a partition's servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Counts the starts of the partition.
    pub number: u64,
    /// Seconds since 1970.
    pub since: u64,
    /// Unit of network transfers, in bytes.
    pub net_buf_size: u64,
    /// Whether clients map views themselves.
    pub views_in_client: bool,
    /// How clients reach the servers.
    #[serde(default)]
    pub transport: Choice,
    /// Its servers, as far as they have started.
    #[serde(default)]
    pub servers: Vec<Server>,
}

/// What is known of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// [`VERSION`].
    pub version: u32,
    /// The partition's name.
    pub name: String,
    /// Its identity: 32 hexadecimal digits, also kept in each storage.
    pub id: String,
    /// Stripe of new files, in bytes.
    pub stripe_size: u64,
    /// Data servers: host and storage.
    pub servers: Vec<String>,
    /// Names: host and storage.
    pub metadata: String,
    /// Starts so far.
    pub starts: u64,
    /// The running servers.
    pub instance: Option<Instance>,
}

impl Entry {
    /// A partition that is about to be created.
    pub fn new(fixed: &Static) -> Entry {
        let id = u128::from(thalweg_store::fresh()) << 64 | u128::from(thalweg_store::fresh());
        Entry {
            version: VERSION,
            name: fixed.name.clone(),
            id: format!("{id:032x}"),
            stripe_size: fixed.stripe_size,
            servers: fixed.servers.iter().map(Location::to_string).collect(),
            metadata: fixed.metadata.to_string(),
            starts: 0,
            instance: None,
        }
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// `Corrupt` for a text that is none; `Unsupported` for one of a later version.
    pub fn read(text: &str) -> Result<Entry> {
        let bad = |what: String| Error::new(ErrorKind::Corrupt, what);
        let entry: Entry = toml::from_str(text).map_err(|e| bad(format!("a damaged entry: {}", e.message())))?;
        if entry.version != VERSION {
            let what = format!("an entry of version {}, known is {VERSION}", entry.version);
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        entry.fixed()?;
        // As clients compute with them.
        crate::striping::Striping::new(entry.stripe_size, u32::try_from(entry.servers.len()).unwrap_or(u32::MAX))
            .map_err(|e| bad(format!("a damaged entry: {}", e.what())))?;
        match is_name(&entry.name) && entry.id.len() == 32 && entry.id.bytes().all(|b| b.is_ascii_hexdigit()) {
            true => Ok(entry),
            false => Err(bad("a damaged entry: no name or identity of a partition".into())),
        }
    }

    /// The static settings.
    ///
    /// # Errors
    /// `Corrupt` for an entry that cannot be one of ours.
    pub fn fixed(&self) -> Result<Static> {
        let place = |text: &String| {
            let wrong = |problem| Error::new(ErrorKind::Corrupt, format!("a damaged entry: {problem}"));
            text.parse::<Location>().map_err(wrong)
        };
        Ok(Static {
            name: self.name.clone(),
            stripe_size: self.stripe_size,
            servers: self.servers.iter().map(place).collect::<Result<_>>()?,
            metadata: place(&self.metadata)?,
        })
    }

    /// Storage of each process that serves the partition; a process of names alone has that of the names.
    ///
    /// # Errors
    /// As [`Entry::fixed`].
    pub fn locations(&self) -> Result<Vec<Location>> {
        let fixed = self.fixed()?;
        let (mut all, processes) = (fixed.servers, self.processes()? as usize);
        if processes > all.len() {
            all.push(fixed.metadata);
        }
        Ok(all)
    }

    /// Number of the server with the names: the first data server on the host of the metadata, else one of its own.
    ///
    /// # Errors
    /// As [`Entry::fixed`].
    pub fn names_at(&self) -> Result<u32> {
        let fixed = self.fixed()?;
        let same = fixed.servers.iter().position(|server| server.host == fixed.metadata.host);
        Ok(same.unwrap_or(fixed.servers.len()) as u32)
    }

    /// How many processes serve the partition.
    ///
    /// # Errors
    /// As [`Entry::fixed`].
    pub fn processes(&self) -> Result<u32> {
        Ok((self.servers.len() as u32).max(self.names_at()? + 1))
    }
}

/// The registry of a folder.
#[derive(Debug, Clone)]
pub struct Registry {
    folder: PathBuf,
}

impl Registry {
    /// The registry in this folder, which is made by the first change.
    pub fn at(folder: &Path) -> Registry {
        Registry { folder: folder.to_path_buf() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, name: &str, ending: &str) -> Result<PathBuf> {
        match is_name(name) {
            true => Ok(self.folder.join(format!("{name}.{ending}"))),
            false => Err(Error::new(ErrorKind::InvalidArgument, format!("\"{name}\" cannot be a partition's name"))),
        }
    }

    /// The file with the token that clients of other nodes show, of a partition that listens for them.
    ///
    /// # Errors
    /// `InvalidArgument` for what cannot be a partition's name.
    pub fn token(&self, name: &str) -> Result<PathBuf> {
        self.path(name, "token")
    }

    /// An entry.
    ///
    /// # Errors
    /// `NotFound` for a partition that was not created; `Corrupt`; `Unsupported` for an entry of a later version; errors of reading.
    pub fn entry(&self, name: &str) -> Result<Entry> {
        let path = self.path(name, "toml")?;
        let text = fs::read_to_string(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                let what = format!(
                    "there is no partition {name} in {}: thalweg partition create makes it",
                    self.folder.display()
                );
                Error::new(ErrorKind::NotFound, what)
            }
            _ => Error::io("cannot read the registry", e).in_object(path.display().to_string()),
        })?;
        let entry = Entry::read(&text).map_err(|e| e.in_object(path.display().to_string()))?;
        match entry.name == name {
            true => Ok(entry),
            false => {
                let what = format!("this entry is of another partition, {}", entry.name);
                Err(Error::new(ErrorKind::Corrupt, what).in_object(path.display().to_string()))
            }
        }
    }

    /// Names of all partitions, sorted.
    ///
    /// # Errors
    /// Errors of listing the folder; a folder that does not exist has none.
    pub fn list(&self) -> Result<Vec<String>> {
        let wrong = |e| Error::io("cannot list the registry", e).in_object(self.folder.display().to_string());
        let entries = match fs::read_dir(&self.folder) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(wrong)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(wrong)?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(".toml").filter(|name| is_name(name)).map(str::to_string));
        }
        names.sort();
        Ok(names)
    }

    /// Takes the lock of a partition, waiting for others; it is released when the file is dropped, or its process ends.
    ///
    /// # Errors
    /// Errors of the filesystem; one without locks is `Unsupported`.
    pub fn lock(&self, name: &str) -> Result<File> {
        let path = self.path(name, "lock")?;
        let wrong = |e: std::io::Error| Error::io("cannot lock the registry", e).in_object(path.display().to_string());
        fs::create_dir_all(&self.folder).map_err(wrong)?;
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path).map_err(wrong)?;
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                outcome => return outcome.map(|()| file).map_err(|e| wrong(e.into())),
            }
        }
    }

    /// Changes an entry under its lock.
    ///
    /// - `change`: the entry of before, if there is one, to that of afterwards; `None` removes it.
    ///
    /// # Errors
    /// Those of [`Registry::entry`] but for `NotFound`; those of `change`; errors of writing, which leave the old entry.
    pub fn change(
        &self,
        name: &str,
        change: impl FnOnce(Option<Entry>) -> Result<Option<Entry>>,
    ) -> Result<Option<Entry>> {
        let _lock = self.lock(name)?;
        let before = match self.entry(name) {
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            entry => Some(entry?),
        };
        let after = change(before)?;
        let path = self.path(name, "toml")?;
        let wrong =
            |e: std::io::Error| Error::io("cannot change the registry", e).in_object(path.display().to_string());
        match &after {
            None => match fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(wrong(e)),
                _ => {}
            },
            Some(entry) => {
                let text = toml::to_string(entry).map_err(|e| Error::new(ErrorKind::InvalidArgument, e.to_string()))?;
                let temporary = self.path(name, "new")?;
                let mut file = OpenOptions::new()
                    .create(true)
                    .truncate(true)
                    .write(true)
                    .mode(0o644)
                    .open(&temporary)
                    .map_err(wrong)?;
                file.write_all(text.as_bytes()).map_err(wrong)?;
                file.sync_all().map_err(wrong)?;
                fs::rename(&temporary, &path).map_err(wrong)?;
            }
        }
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(wrong)?;
        Ok(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Configuration;

    fn fixed() -> Static {
        let text = "name = p\nahpios_server = a:/x\nahpios_server = b:/x\nmetadata = c:/n\n";
        Configuration::parse(text, "f", "f", Path::new("/")).unwrap().fixed
    }

    #[test]
    fn an_entry_comes_back_and_is_changed_under_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::at(&folder.path().join("deep/registry"));
        assert_eq!(registry.list().unwrap(), [""; 0]);
        let made = registry.change("p", |before| Ok(before.or(Some(Entry::new(&fixed()))))).unwrap().unwrap();
        assert_eq!(registry.entry("p").unwrap(), made);
        assert_eq!((made.fixed().unwrap(), made.names_at().unwrap(), made.processes().unwrap()), (fixed(), 2, 3));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let registry = registry.clone();
                std::thread::spawn(move || {
                    for _ in 0..20 {
                        let more = |entry: Option<Entry>| Ok(entry.map(|e| Entry { starts: e.starts + 1, ..e }));
                        registry.change("p", more).unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(registry.entry("p").unwrap().starts, 160);
        assert_eq!(registry.list().unwrap(), ["p"]);
        registry.change("p", |_| Ok(None)).unwrap();
        assert_eq!(registry.entry("p").unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn what_is_no_entry_is_told_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::at(folder.path());
        let good = toml::to_string(&Entry::new(&fixed())).unwrap();
        for (text, kind) in [
            (good[..good.len() / 2].to_string(), ErrorKind::Corrupt),
            (String::new(), ErrorKind::Corrupt),
            (good.replace("version = 1", "version = 9"), ErrorKind::Unsupported),
            (good.replace("a:/x", "a"), ErrorKind::Corrupt),
            (good.replace("name = \"p\"", "name = \"q\""), ErrorKind::Corrupt),
        ] {
            fs::write(folder.path().join("p.toml"), &text).unwrap();
            assert_eq!(registry.entry("p").unwrap_err().kind(), kind, "{text}");
        }
        for name in ["", "../p", "a/b", ".p"] {
            assert_eq!(registry.entry(name).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
    }

    #[test]
    fn names_are_at_the_first_data_server_of_their_host() {
        let mut entry = Entry::new(&fixed());
        entry.metadata = "b:/names".into();
        assert_eq!((entry.names_at().unwrap(), entry.processes().unwrap()), (1, 2));
    }
}
