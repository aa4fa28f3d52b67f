//! HDFS through a native client, without Java.
//!
//! | question | answer |
//! |----------|--------|
//! | address  | `hdfs://host:port/folder`, `hdfs://nameservice/folder`, `viewfs://table/folder`; `hdfs:///folder` for the default of Hadoop's XML configuration |
//! | configuration | `core-site.xml` and `hdfs-site.xml` in `HADOOP_CONF_DIR`, else in `HADOOP_HOME/etc/hadoop`: name services, security, WebHDFS |
//! | credentials | `HADOOP_USER_NAME`, else the user of the process; Kerberos tickets of `kinit`, where the cluster requires them |
//! | a write  | appends only; the client sends packets through a pipeline of data nodes |
//! | a name   | appears at open; `New` is atomic (the name node decides) |
//! | bytes are visible | after `sync` or `close`, to readers that open later. Bytes of the block being written are read through WebHDFS; without it (`web=none`) they are visible after `close` |
//! | `sync`   | `hsync`: every data node of the pipeline has the bytes on its device |
//! | dropped without `close` | synced bytes stay; the name node releases the name when the lease ends (minutes), [`Store::settle`] at once |
//! | a data node that dies | is left out: within a block by the client library, at the start of a block by making the object anew (`anew`) |
//! | a read that no data node answers | the name node is asked again where the blocks are, three times within 4.3 s: data nodes report a block some time after its writer closed it |
//! | memory   | each object being written buffers its last 16 MiB, so that it can be made anew |
//! | append   | only after a full block: reopening a partial block just after a close can corrupt a replica (HDFS-17850) |
//! | rename   | atomic, folders too; never into an existing folder |
//! | identity | time of the last change and length: they reveal a replaced object, but not a renamed one |
//! | a close  | waits until enough data nodes report the last block: 35 ms with two or more, 420 ms with one; without WebHDFS until the block is readable |
//! | modes, owners, times | kept by the name node, times to the millisecond. HDFS has user names; this machine's user table translates them to IDs: unknown names become `nobody`, unknown IDs are refused. The process' umask applies to new objects and folders. An object opened with `Replace` gets a new mode |
//! | one folder | is looked up and then made: two processes that make one folder at the same time both succeed |
//! | refused names | with `:` or empty parts, by the name node |
//!
//! | parameter | meaning | default |
//! |-----------|---------|---------|
//! | `replication` | how many data nodes hold each block, 1 to 512 | the cluster's |
//! | `block` | bytes of a block, a multiple of 512, at least 1 MiB | the cluster's |
//! | `web` | `http://host:port` of WebHDFS, or `none` | `dfs.namenode.http-address` of the configuration, else none |
//! | `user` | user name, for clusters without Kerberos | as above |
//! | `timeout` | seconds that one request may take | 60 |
//! | `settle` | seconds that [`Store::settle`] may take | 60 |

mod anew;
mod error;
mod owners;
mod read;
mod site;
mod web;
mod write;

use crate::pace::Pace;
use crate::parameters::{BLOCK, REPLICATION, SETTLE, TIMEOUT, USER, WEB};
use crate::runtime::{run, runtime};
use error::Failure;
use hdfs_native::client::FileStatus;
use hdfs_native::{Client, ClientBuilder, HdfsError, WriteOptions};
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_params::Parameters;
use thalweg_store::{
    Attributes, Capability, Change, Durability, Kind, ListConsistency, OpenWrite, ReadObject, Rename, Stat, Store,
    Visible, WriteObject, name, unsupported,
};
use thalweg_types::{Error, ErrorKind, Result};
use web::Web;

/// Largest object, in bytes: the most blocks of a file, of the default size.
const LARGEST: u64 = 1 << 47;

/// Objects below a folder of an HDFS. See the module's page.
#[derive(Clone)]
pub struct Hdfs {
    shared: Arc<Shared>,
}

/// Shared with open objects.
struct Shared {
    client: Client,
    address: String,
    /// The store's folder, without a slash at its end; empty for the root.
    folder: String,
    replication: Option<u32>,
    block: Option<u64>,
    web: Option<Web>,
    timeout: Duration,
    settle: Duration,
    trouble: Arc<anew::Trouble>,
    pace: Arc<Pace>,
}

impl Hdfs {
    /// Opens the store at an address; makes its folder if it is missing.
    ///
    /// - `address`: as on the module's page.
    ///
    /// # Errors
    /// `Config` for a wrong address or parameter; errors of the name node.
    /// # Cost
    /// One request.
    pub fn open(address: &str, parameters: &Parameters) -> Result<Hdfs> {
        let (scheme, rest) = address.split_once("://").unwrap_or(("hdfs", address));
        let (authority, folder) = rest.split_once('/').unwrap_or((rest, ""));
        let folder = name::relative(folder.trim_matches('/')).map_err(|e| parameters.wrong(e))?.into_owned();
        let replication = parameters.get(&REPLICATION)?;
        let block = parameters.get::<Option<u64>>(&BLOCK)?;
        if block.is_some_and(|block| block % 512 != 0) {
            return Err(parameters.wrong("block: no multiple of 512"));
        }
        let user = parameters.text(&USER).map(str::to_string);
        let (timeout, settle) = (parameters.get(&TIMEOUT)?, parameters.get(&SETTLE)?);
        let web = match parameters.text(&WEB) {
            Some("none") => Vec::new(),
            Some(url) if url.starts_with("http://") => vec![url.trim_end_matches('/').to_string()],
            Some(_) => return Err(parameters.wrong("web: neither http://host:port nor none")),
            None => site::web_addresses(authority),
        };

        let mut builder = ClientBuilder::new().with_io_runtime(runtime()?.handle().clone());
        if !authority.is_empty() {
            builder = builder.with_url(format!("{scheme}://{authority}"));
        }
        if let Some(user) = &user {
            builder = builder.with_user(user.clone());
        }
        let client = run(async { builder.build() })?.map_err(|e| {
            Error::new(ErrorKind::Config, format!("store \"{address}\" cannot be configured")).caused_by(Failure(e))
        })?;
        let folder = if folder.is_empty() { folder } else { format!("/{folder}") };
        let web = (!web.is_empty()).then(|| Web::new(web, user, timeout));
        let (address, trouble, pace) = (address.into(), Arc::default(), Arc::default());
        let shared = Shared { client, address, folder, replication, block, web, timeout, settle, trouble, pace };
        let store = Hdfs { shared: Arc::new(shared) };
        store.make_folder("")?;
        Ok(store)
    }

    /// The same store, with this many replicas of new objects: a parameter of mounts.
    pub fn with_replication(&self, replication: u32) -> Hdfs {
        let Shared { client, address, folder, block, web, timeout, settle, trouble, pace, .. } = &*self.shared;
        let shared = Shared {
            client: client.clone(),
            address: address.clone(),
            folder: folder.clone(),
            replication: Some(replication),
            block: *block,
            web: web.clone(),
            timeout: *timeout,
            settle: *settle,
            trouble: trouble.clone(),
            pace: pace.clone(),
        };
        Hdfs { shared: Arc::new(shared) }
    }

    /// The number of replicas that an object's blocks are to have.
    ///
    /// # Errors
    /// Those of [`Store::stat`].
    pub fn replication_of(&self, name: &str) -> Result<Option<u32>> {
        let path = self.shared.path(name, "stat")?;
        let about = self.shared.ask("stat", &path, self.shared.client.get_file_info(&path))?;
        Ok(about.replication)
    }
}

impl Shared {
    fn path(&self, name: &str, what: &str) -> Result<String> {
        let relative = name::relative(name).map_err(|e| {
            Error::new(e.kind(), format!("cannot {what}")).caused_by(e).in_object(format!("{}/{name}", self.address))
        })?;
        Ok(match (relative.is_empty(), self.folder.is_empty()) {
            (true, true) => "/".into(),
            (true, false) => self.folder.clone(),
            (false, _) => format!("{}/{relative}", self.folder),
        })
    }

    /// Waits for an answer, up to the timeout of a request.
    fn ask<T>(&self, what: &str, path: &str, question: impl Future<Output = hdfs_native::Result<T>>) -> Result<T> {
        let timeout = self.timeout;
        match run(async move { tokio::time::timeout(timeout, question).await })? {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(cause)) => Err(self.failed(what, path, cause)),
            Err(_) => {
                let what = format!("cannot {what}: no answer within {} s", timeout.as_secs());
                Err(Error::new(ErrorKind::Timeout, what).in_object(self.shown(path)))
            }
        }
    }

    /// Ends the writing of an object, by whichever process.
    fn settle_path(&self, path: &str) -> Result<()> {
        let until = Instant::now() + self.settle;
        let mut pause = Duration::from_millis(50);
        while !self.ask("settle", path, self.client.recover_lease(path))? {
            if Instant::now() > until {
                let what = format!("settle: the last block is not recovered after {} s", self.settle.as_secs());
                return Err(self.wrong(ErrorKind::Timeout, &what, path));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(1));
        }
        Ok(())
    }

    fn failed(&self, what: &str, path: &str, cause: HdfsError) -> Error {
        error::failed(what, cause).in_object(self.shown(path))
    }

    fn wrong(&self, kind: ErrorKind, what: &str, path: &str) -> Error {
        Error::new(kind, format!("cannot {what}")).in_object(self.shown(path))
    }

    fn shown(&self, path: &str) -> String {
        format!("{}{}", self.address.trim_end_matches('/').trim_end_matches(self.folder.as_str()), path)
    }

    /// Whether the path is a folder's or an object's; `None` if it is free.
    fn is_folder(&self, path: &str) -> Result<Option<bool>> {
        match self.ask("stat", path, self.client.get_file_info(path)) {
            Ok(about) => Ok(Some(about.isdir)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Changes with the bytes, as closed objects are never extended.
fn identity(about: &FileStatus) -> u64 {
    let mut identity = DefaultHasher::new();
    (about.modification_time, about.length, about.blocksize).hash(&mut identity);
    identity.finish()
}

impl Store for Hdfs {
    fn describe(&self) -> String {
        self.shared.address.clone()
    }

    fn capability(&self) -> Capability {
        Capability {
            rename: Rename::Atomic,
            rename_folder: true,
            durability: Durability::Pipeline,
            visible: if self.shared.web.is_some() { Visible::AtSync } else { Visible::AtClose },
            exclusive: true,
            list: ListConsistency::Strong,
            modes: true,
            largest_object: LARGEST,
            ..Capability::NONE
        }
    }

    fn request_cost(&self) -> u64 {
        self.shared.pace.request_cost()
    }

    fn has_leases(&self) -> bool {
        false
    }

    fn open_write(&self, name: &str, how: OpenWrite) -> Result<Box<dyn WriteObject>> {
        self.open_write_as(name, how, 0o666)
    }

    fn open_write_as(&self, name: &str, how: OpenWrite, mode: u32) -> Result<Box<dyn WriteObject>> {
        let shared = &self.shared;
        let path = shared.path(name, "open for writing")?;
        if how == OpenWrite::Existing {
            return Err(unsupported(&self.describe(), "extend an object", &shared.shown(&path)));
        }
        if path == "/" || path == shared.folder {
            return Err(shared.wrong(ErrorKind::InvalidArgument, "open for writing: it is a folder", &path));
        }
        let mut options = WriteOptions::default().overwrite(how == OpenWrite::Replace).create_parent(false);
        options.permission = mode & 0o7777 & !owners::withheld();
        options.replication = shared.replication;
        options.block_size = shared.block;
        match shared.ask("make", &path, shared.client.create(&path, &options)) {
            Ok(writer) => Ok(Box::new(write::Writing::new(shared.clone(), path, options, writer))),
            Err(error) => Err(match (error.kind(), shared.is_folder(&path)) {
                (_, Ok(Some(true))) => {
                    shared.wrong(ErrorKind::InvalidArgument, "open for writing: it is a folder", &path).caused_by(error)
                }
                (ErrorKind::AlreadyExists, _) if how == OpenWrite::Any => {
                    unsupported(&self.describe(), "extend an object", &shared.shown(&path))
                }
                _ => error,
            }),
        }
    }

    fn open_read(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        let path = self.shared.path(name, "open")?;
        Ok(Box::new(read::Reading::open(self.shared.clone(), path)?))
    }

    fn stat(&self, name: &str) -> Result<Stat> {
        let path = self.shared.path(name, "stat")?;
        let about = self.shared.ask("stat", &path, self.shared.client.get_file_info(&path))?;
        let length = if about.isdir { 0 } else { about.length as u64 };
        Ok(Stat { length, is_folder: about.isdir, identity: identity(&about) })
    }

    fn attributes(&self, name: &str) -> Result<Attributes> {
        let path = self.shared.path(name, "get attributes")?;
        let about = self.shared.ask("get attributes", &path, self.shared.client.get_file_info(&path))?;
        let time = |since: u64| UNIX_EPOCH + Duration::from_millis(since);
        let (atime, mtime) = (time(about.access_time), time(about.modification_time));
        Ok(Attributes {
            kind: if about.isdir { Kind::Folder } else { Kind::File },
            length: if about.isdir { 0 } else { about.length as u64 },
            mode: u32::from(about.permission) & 0o7777,
            uid: owners::user(&about.owner),
            gid: owners::group(&about.group),
            atime,
            mtime,
            // The name node has no such time.
            ctime: mtime,
            links: 1,
            identity: identity(&about),
        })
    }

    fn set_attributes(&self, name: &str, change: &Change) -> Result<()> {
        const WHAT: &str = "change attributes";
        let (shared, client) = (&self.shared, &self.shared.client);
        let path = shared.path(name, WHAT)?;
        let refused = |e: Error| e.in_object(shared.shown(&path));
        let user = change.uid.map(owners::name_of_user).transpose().map_err(refused)?;
        let group = change.gid.map(owners::name_of_group).transpose().map_err(refused)?;
        let about = shared.ask(WHAT, &path, client.get_file_info(&path))?;
        // The present owner is not set again: only the cluster's superuser may change owners.
        let user = user.filter(|user| *user != about.owner);
        let group = group.filter(|group| *group != about.group);
        if user.is_some() || group.is_some() {
            shared.ask(WHAT, &path, client.set_owner(&path, user.as_deref(), group.as_deref()))?;
        }
        if let Some(mode) = change.mode {
            shared.ask(WHAT, &path, client.set_permission(&path, mode & 0o7777))?;
        }
        if change.atime.is_some() || change.mtime.is_some() {
            // All ones: the time stays.
            let since = |time: Option<SystemTime>| {
                let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
                time.map_or(u64::MAX, |time| since(time) as u64)
            };
            shared.ask(WHAT, &path, client.set_times(&path, since(change.mtime), since(change.atime)))?;
        }
        Ok(())
    }

    /// Looks the name up first: the name node reports success for an existing folder.
    fn make_one_folder(&self, name: &str, mode: u32) -> Result<()> {
        const WHAT: &str = "make folder";
        let shared = &self.shared;
        let path = shared.path(name, WHAT)?;
        if shared.is_folder(&path)?.is_some() {
            return Err(shared.wrong(ErrorKind::AlreadyExists, WHAT, &path));
        }
        let mode = mode & 0o7777 & !owners::withheld();
        shared.ask(WHAT, &path, shared.client.mkdirs(&path, mode, false))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.shared.path(folder, "list")?;
        let entries = self.shared.ask("list", &path, self.shared.client.list_status(&path, false))?;
        // The name node lists an object as itself.
        if let [only] = &entries[..]
            && !only.isdir
            && only.path == path
        {
            return Err(self.shared.wrong(ErrorKind::NotFound, "list: it is an object", &path));
        }
        let mut names: Vec<String> = entries.iter().map(|entry| name::last_part(&entry.path).to_string()).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let shared = &self.shared;
        let (from, to) = (shared.path(from, "rename")?, shared.path(to, "rename to")?);
        if from == to {
            return self.shared.ask("rename", &from, shared.client.get_file_info(&from)).map(|_| ());
        }
        let what = format!("rename to {to}");
        if to.strip_prefix(&from).is_some_and(|rest| rest.starts_with('/')) {
            return Err(shared.wrong(ErrorKind::InvalidArgument, &format!("{what}, inside itself"), &from));
        }
        let Err(error) = shared.ask(&what, &from, shared.client.rename(&from, &to, true)) else { return Ok(()) };
        // The name node's exceptions do not distinguish mismatched kinds and folders that are not empty from other errors.
        let folders = (shared.is_folder(&from)?, shared.is_folder(&to)?);
        Err(match folders {
            (None, _) => shared.wrong(ErrorKind::NotFound, &what, &from).caused_by(error),
            (Some(true), Some(_)) | (_, Some(true)) => {
                shared.wrong(ErrorKind::InvalidArgument, &what, &from).caused_by(error)
            }
            _ => error,
        })
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.shared.path(name, "remove")?;
        if path == "/" || path == self.shared.folder {
            return Err(self.shared.wrong(ErrorKind::InvalidArgument, "remove the store's own folder", &path));
        }
        match self.shared.ask("remove", &path, self.shared.client.delete(&path, false))? {
            true => Ok(()),
            false => Err(self.shared.wrong(ErrorKind::NotFound, "remove", &path)),
        }
    }

    fn make_folder(&self, name: &str) -> Result<()> {
        let path = self.shared.path(name, "make folder")?;
        let made =
            self.shared.ask("make folder", &path, self.shared.client.mkdirs(&path, 0o777 & !owners::withheld(), true));
        match made {
            Err(e) if matches!(self.shared.is_folder(&path), Ok(Some(false))) => {
                Err(self.shared.wrong(ErrorKind::AlreadyExists, "make folder: it is an object", &path).caused_by(e))
            }
            // A part of the name is an object.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                Err(self.shared.wrong(ErrorKind::NotFound, "make folder", &path).caused_by(e))
            }
            outcome => outcome,
        }
    }

    /// Names are durable once the name node has answered.
    fn sync_folder(&self, folder: &str) -> Result<()> {
        let path = self.shared.path(folder, "sync folder")?;
        match self.shared.is_folder(&path)? {
            Some(true) => Ok(()),
            _ => Err(self.shared.wrong(ErrorKind::NotFound, "sync folder", &path)),
        }
    }

    /// Recovers the writer's lease: name node and data nodes agree on the length of the last block.
    fn settle(&self, name: &str) -> Result<()> {
        let path = self.shared.path(name, "settle")?;
        if self.shared.ask("settle", &path, self.shared.client.get_file_info(&path))?.isdir {
            return Ok(());
        }
        self.shared.settle_path(&path)
    }
}
