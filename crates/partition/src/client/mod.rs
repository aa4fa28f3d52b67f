//! The layout of a partition's clients. Blocking, without threads.
//!
//! | room | what it owns |
//! |------|--------------|
//! | `file` | an open file |
//! | [`transfer`] | which bytes go to which server, in which message |
//! | [`place`] | how a server is reached |
//! | [`staging`] | files that a server takes over |

mod file;
pub mod place;
pub mod staging;
pub mod transfer;

use crate::checking;
use crate::configuration::{Configuration, Start};
use crate::instance;
use crate::record::{LONGEST, Record};
use crate::registry::{Entry, Registry, Server};
use crate::server::{CONTROL, DATA, NAMES, Status};
use file::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg_layout::locks::FileLocks;
use thalweg_layout::{
    Attributes, Change, Kind, Layout, OpenWrite, ReadObject, SetXattr, Space, Stat, Stripes, WriteObject, WriterId,
};
use thalweg_remote::Remote;
use thalweg_remote::client::link::Link;
use thalweg_remote::client::locks::ServedLocks;
use thalweg_remote::message::{LONGEST_PIECE, Request, names_in};
use thalweg_remote::transport::Transport;
use thalweg_types::{Error, ErrorKind, Result};
use transfer::Servers;

/// What all open files of a partition share.
struct Shared {
    names: Remote,
    /// All data servers.
    servers: Servers,
    unit: usize,
    views_in_client: bool,
    /// The server that this client begins with.
    first: usize,
    /// Counts changes of times through this layout.
    times: AtomicU64,
}

/// A partition whose servers run. A layout.
///
/// # Cost
/// An open is one request for the file's record (three where it may create the file) and one to each data server, at the same time;
/// reads and writes are one request for each `net_buf_size` bytes on a server; `stat` and `attributes` of a file ask all data servers.
pub struct Partition {
    about: String,
    shared: Arc<Shared>,
    /// Where programs lock; only where every client of the partition is on this host. Else at the files' first servers.
    locks: Option<PathBuf>,
}

impl Partition {
    /// Connects to the partition that a configuration file describes.
    ///
    /// - `start`: starts its servers, for a partition that is started by its first open and some of whose servers do not run.
    ///
    /// # Errors
    /// As [`Configuration::read`]; `Config` for a static setting that is not the one the partition was created with; those of
    /// [`Partition::connect`]; those of `start`.
    pub fn open(file: &Path, start: impl FnOnce(&Path, &Configuration) -> Result<()>) -> Result<Partition> {
        let configuration = Configuration::read(file)?;
        let registry = Registry::at(&configuration.registry);
        let mut entry = registry.entry(&configuration.fixed.name)?;
        configuration.fixed.must_equal(&entry.fixed()?)?;
        if configuration.dynamic.start != Start::Ahead && !instance::is_complete(&entry)? {
            start(file, &configuration)?;
            entry = registry.entry(&configuration.fixed.name)?;
        }
        Partition::connect(&entry, &registry.token(&entry.name)?)
    }

    /// Connects to the servers of a partition.
    ///
    /// - `token`: the file with the token of servers on other nodes ([`Registry::token`]).
    ///
    /// # Errors
    /// `PeerLost` names the server that does not answer, or the command that starts the partition.
    pub fn connect(entry: &Entry, token: &Path) -> Result<Partition> {
        let Some(instance) = &entry.instance else {
            let what = format!("partition {0} is not started: thalweg partition start {0}", entry.name);
            return Err(Error::new(ErrorKind::PeerLost, what));
        };
        let servers = (0..entry.processes()?)
            .map(|number| place::of(entry, number, token).map(|place| Arc::new(place) as Arc<dyn Transport>))
            .collect::<Result<Vec<_>>>()?;
        let servers = Places { names: servers[entry.names_at()? as usize].clone(), data: servers };
        let data = servers.data[..entry.servers.len()].to_vec();
        let mut partition = Partition::over(
            format!("partition {} on {} servers", entry.name, data.len()),
            servers.names,
            data,
            usize::try_from(instance.net_buf_size).unwrap_or(usize::MAX),
            instance.views_in_client,
        )?;
        partition.locks =
            all_clients_are_here(&instance.servers).then(|| instance::socket(entry, 0).with_extension("locks"));
        Ok(partition)
    }

    /// A partition whose servers are reached over these transports.
    ///
    /// - `names`: to the server with the names.
    /// - `data`: to the data servers, in the order of the stripes.
    /// - `unit`: unit of network transfers in bytes.
    /// - `views_in_client`: whether views are mapped here.
    ///
    /// # Errors
    /// `PeerLost` for a server that does not answer.
    pub fn over(
        about: String,
        names: Arc<dyn Transport>,
        data: Vec<Arc<dyn Transport>>,
        unit: usize,
        views_in_client: bool,
    ) -> Result<Partition> {
        let links = data.into_iter().map(|t| Ok(Arc::new(Link::new(t, DATA)?))).collect::<Result<Vec<_>>>()?;
        let first = place::first(&place::machine(), std::process::id(), links.len());
        let names = Remote::over(names, NAMES)?;
        let times = AtomicU64::new(0);
        let numbers = (0..links.len() as u32).collect();
        let servers = Servers { links, numbers };
        let shared = Arc::new(Shared { names, servers, unit, views_in_client, first, times });
        Ok(Partition { about, shared, locks: None })
    }

    fn record(&self, path: &str) -> Result<Record> {
        file::record(&self.shared.names.whole(path, LONGEST as u32 + 1)?, path)
    }

    /// What a name is, without asking for its data.
    ///
    /// # Errors
    /// `NotFound`; `PeerLost`.
    pub fn kind(&self, path: &str) -> Result<Kind> {
        Ok(self.shared.names.attributes(path)?.kind)
    }

    /// The identity of a file's data.
    ///
    /// # Errors
    /// `Corrupt` for a damaged record, or one that does not fit the partition; `NotFound`; `PeerLost`.
    pub fn identity(&self, path: &str) -> Result<u128> {
        let record = self.record(path)?;
        self.shared.servers_of(&record).map_err(|e| e.in_object(path))?;
        Ok(record.id)
    }

    /// The objects that each server stores, in the order of the stripes.
    ///
    /// # Errors
    /// Those of a server's storage; `PeerLost`.
    /// # Cost
    /// One request to each server, which lists its storage.
    pub fn stored(&self) -> Result<Vec<Vec<String>>> {
        let of_server = |(number, link): (usize, &Arc<Link>)| {
            let listed = link.call(&Request::List(String::new()), &[]).and_then(|(_, body)| names_in(&body));
            listed.map_err(|e| checking::unlisted(number, e))
        };
        self.shared.servers.links.iter().enumerate().map(of_server).collect()
    }

    /// Runs calls on the data of a name's file. A file that is replaced between the look at its record and the calls is gone at the
    /// servers then: the name has another record, and the calls run on that.
    ///
    /// - `first`: the record, if it was read.
    fn on_data<T>(&self, path: &str, first: Option<Record>, calls: impl Fn(&Record) -> Result<T>) -> Result<T> {
        let mut record = first.map_or_else(|| self.record(path), Ok)?;
        loop {
            match calls(&record) {
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    let now = self.record(path)?;
                    if now == record {
                        let what = "the data of this file was removed at a server, its name was not";
                        return Err(Error::new(ErrorKind::Corrupt, what).in_object(path).caused_by(e));
                    }
                    record = now;
                }
                outcome => return outcome,
            }
        }
    }

    fn data_length(&self, path: &str) -> Result<u64> {
        self.on_data(path, None, |record| {
            let servers = self.shared.servers_of(record)?;
            let replies =
                servers.all(&servers.sessions()?, |server, _| Request::Stat(file::data_name(record, server)))?;
            replies.into_iter().try_fold(0, |most, reply| Ok(most.max(reply.stat()?.length)))
        })
    }

    fn remove_data(&self, record: &Record) -> Result<()> {
        let servers = self.shared.servers_of(record)?;
        servers.all(&servers.sessions()?, |server, _| Request::Remove(file::data_name(record, server))).map(drop)
    }

    /// The record of a file that a rename or removal of this name would leave without a name.
    fn last_name(&self, path: &str) -> Result<Option<Record>> {
        let about = match self.shared.names.attributes(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            about => about?,
        };
        match about.kind == Kind::File && about.links <= 1 {
            true => self.record(path).map(Some),
            false => Ok(None),
        }
    }
}

/// Whether every client of a partition is on this host. Each client must give the same answer, as all must meet the same locks: clients
/// of other hosts may come where a server has an address.
fn all_clients_are_here(servers: &[Server]) -> bool {
    servers.iter().all(|server| server.address.is_none() && place::is_here(&server.host))
}

struct Places {
    names: Arc<dyn Transport>,
    data: Vec<Arc<dyn Transport>>,
}

/// What a server says about itself.
///
/// - `patience`: for its answer.
///
/// # Errors
/// `PeerLost` for a server that does not answer.
pub fn status(entry: &Entry, token: &Path, number: u32, patience: Duration) -> Result<Status> {
    let text = control(entry, token, number, patience / 2)?.whole("status", LONGEST_PIECE as u32)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    toml::from_str(&text)
        .map_err(|e| Error::new(ErrorKind::Corrupt, format!("an unknown state of a server: {}", e.message())))
}

/// Asks a server to write everything to its storage and end.
///
/// # Errors
/// `PeerLost` for a server that does not answer; the failure to write, after which the server goes on.
pub fn ask_to_end(entry: &Entry, token: &Path, number: u32) -> Result<()> {
    control(entry, token, number, place::PATIENCE)?.remove("running")
}

/// Tells a server that it may write everything to its storage and end as soon as no client is connected.
///
/// # Errors
/// `PeerLost` for a server that does not answer.
pub fn tell_unneeded(entry: &Entry, token: &Path, number: u32) -> Result<()> {
    control(entry, token, number, place::PATIENCE)?.remove("needed")
}

fn control(entry: &Entry, token: &Path, number: u32, patience: Duration) -> Result<Remote> {
    Remote::over(Arc::new(place::of(entry, number, token)?.with(patience)), CONTROL)
}

impl Layout for Partition {
    fn describe(&self) -> String {
        self.about.clone()
    }

    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        let record = match how {
            OpenWrite::Existing => self.record(path)?,
            how => {
                let told = self.shared.names.open_write(path, how, writer)?;
                let mut bytes = [0; LONGEST];
                let mut got = 0;
                while got < bytes.len() {
                    match told.read_at(got as u64, &mut bytes[got..])? {
                        0 => break,
                        more => got += more,
                    }
                }
                told.close()?;
                file::record(&bytes[..got], path)?
            }
        };
        let open = |record: &Record| File::open(&self.shared, path, *record, Some(writer), how);
        Ok(Box::new(self.on_data(path, Some(record), open)?))
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        let open = |record: &Record| File::open(&self.shared, path, *record, None, OpenWrite::Existing);
        Ok(Box::new(self.on_data(path, None, open)?))
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        let about = self.shared.names.stat(path)?;
        match about.is_folder {
            true => Ok(about),
            false => Ok(Stat { length: self.data_length(path)?, ..about }),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.shared.names.list(folder)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let replaced = self.last_name(to)?;
        self.shared.names.rename(from, to)?;
        match replaced {
            // Renamed onto itself.
            Some(old) if self.record(to).is_ok_and(|now| now == old) => Ok(()),
            Some(old) => self.remove_data(&old),
            None => Ok(()),
        }
    }

    fn remove(&self, path: &str) -> Result<()> {
        let last = self.last_name(path)?;
        self.shared.names.remove(path)?;
        last.map_or(Ok(()), |record| self.remove_data(&record))
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        self.shared.names.make_folder(path)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.shared.names.sync_folder(folder)
    }

    fn make_one_folder(&self, path: &str, mode: u32) -> Result<()> {
        self.shared.names.make_one_folder(path, mode)
    }

    fn attributes(&self, path: &str) -> Result<Attributes> {
        let about = self.shared.names.attributes(path)?;
        match about.kind {
            Kind::File => Ok(Attributes { length: self.data_length(path)?, ..about }),
            Kind::Folder | Kind::Link => Ok(about),
        }
    }

    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        if change.mtime.is_some() {
            self.shared.times.fetch_add(1, Ordering::AcqRel);
        }
        self.shared.names.set_attributes(path, change)
    }

    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        self.on_data(path, None, |record| {
            let servers = self.shared.servers_of(record)?;
            servers
                .all(&servers.sessions()?, |server, _| Request::Truncate(file::data_name(record, server), length))
                .map(drop)
        })
    }

    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        self.shared.names.make_link(target, path)
    }

    fn read_link(&self, path: &str) -> Result<String> {
        self.shared.names.read_link(path)
    }

    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        self.shared.names.make_hard_link(from, to)
    }

    fn xattr_get(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        self.shared.names.xattr_get(path, key)
    }

    fn xattr_set(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        self.shared.names.xattr_set(path, key, value, how)
    }

    fn xattr_list(&self, path: &str) -> Result<Vec<String>> {
        self.shared.names.xattr_list(path)
    }

    fn xattr_remove(&self, path: &str, key: &str) -> Result<()> {
        self.shared.names.xattr_remove(path, key)
    }

    /// Where clients map views, each run of bytes is a part of a message.
    fn prefers_runs(&self, _path: &str) -> bool {
        self.shared.views_in_client
    }

    fn lock_folder(&self, _path: &str) -> Option<PathBuf> {
        self.locks.clone()
    }

    fn locks(&self, path: &str) -> Result<Option<Box<dyn FileLocks>>> {
        if self.locks.is_some() {
            return Ok(None);
        }
        self.on_data(path, None, |record| {
            let servers = self.shared.servers_of(record)?;
            ServedLocks::open(&servers.links[0], file::data_name(record, 0), path)
        })
    }

    fn targets(&self, _folder: &str) -> Result<Option<u32>> {
        Ok(Some(self.shared.servers.links.len() as u32))
    }

    /// Fewer servers than there are take part in turn, by the file's identity.
    fn make_striped(&self, path: &str, asked: Stripes) -> Result<bool> {
        self.shared.names.make_striped(path, asked)
    }

    fn stripes(&self, path: &str) -> Result<Option<Stripes>> {
        let striping = self.record(path)?.striping;
        Ok(Some(Stripes { targets: striping.servers(), bytes: striping.stripe() }))
    }

    /// The sum of the data servers.
    fn space(&self, _path: &str) -> Result<Space> {
        let replies =
            self.shared.servers.all(&self.shared.servers.sessions()?, |_, _| Request::Space(String::new()))?;
        let spaces = replies.into_iter().map(|reply| reply.space()).collect::<Result<Vec<_>>>()?;
        let sum = |of: fn(&Space) -> u64| spaces.iter().map(of).fold(0, u64::saturating_add);
        Ok(Space {
            bytes: sum(|s| s.bytes),
            free: sum(|s| s.free),
            available: sum(|s| s.available),
            objects: sum(|s| s.objects),
            objects_free: sum(|s| s.objects_free),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_the_systems_only_where_no_client_of_another_host_can_come() {
        let server = |host: &str, address: Option<&str>| Server {
            number: 0,
            host: host.into(),
            pid: 1,
            started: 1,
            socket: "s".into(),
            address: address.map(str::to_string),
        };
        let here = place::host();
        assert!(all_clients_are_here(&[server(&here, None), server("localhost", None)]));
        assert!(!all_clients_are_here(&[server(&here, None), server(&here, Some("n1:7000"))]));
        assert!(!all_clients_are_here(&[server(&here, None), server("some-other-host", None)]));
    }
}
