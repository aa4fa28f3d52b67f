//! Object stores: S3 and compatible services, and other services, through OpenDAL.
//!
//! | question | answer |
//! |----------|--------|
//! | address  | `s3://bucket/folder`; `gcs://bucket/folder`, `azblob://container/folder`, `sftp://host/folder`, `swift://container/folder`, `webdav://host/folder` |
//! | credentials | read where the service's own programs read them: environment (`AWS_ACCESS_KEY_ID`, ...), profile files, the machine's role; never from the address or a parameter, never in a message |
//! | a write  | appends only; collected into parts of `part` bytes, `concurrent` of them sent at the same time; `close` sends the last one or two |
//! | memory   | of an object being written: at most (`concurrent` + 3) × `part` bytes |
//! | a name   | appears at close, with all bytes; `New` is atomic where the service has conditional writes (S3 has) |
//! | `sync`   | promises nothing: parts are not visible before the close |
//! | dropped without `close` | leaves nothing; the upload is aborted |
//! | append   | not used: on S3 the library's append returned success and lost bytes |
//! | read     | ranges, shortened to the object's end: the library refuses ranges beyond it. An object that is opened for its first bytes is not asked for its length first: the answer has length and entity tag |
//! | replaced while open | reads fail with `NotReady`, where the service has entity tags; bytes of two objects are never mixed |
//! | folders  | marked by an empty object `folder/`; keys `a` and `a/b` beside each other are refused. A folder that this process has seen is not looked for again: a name made in it after another process removed it makes it again |
//! | names with a random number | are made without a look for the name or its folder, where the service has conditional writes |
//! | rename   | a copy inside the service, then a removal; folders cannot be renamed |
//! | failures | temporary ones are repeated up to `retries` times; a request takes at most `timeout` |
//!
//! | parameter | meaning | default |
//! |-----------|---------|---------|
//! | `endpoint` | `http://host:port` or `https://...` of the service | environment (`AWS_ENDPOINT_URL`), else the service's own |
//! | `region` | S3: region of the bucket | environment (`AWS_REGION`) |
//! | `part` | bytes of a part, 5 MiB to 1 GiB; an object holds at most 10,000 | 16 MiB |
//! | `concurrent` | parts sent at the same time, 1 to 64 | 2 |
//! | `retries` | most repetitions of a request | 5 |
//! | `timeout` | seconds that one request may take | 60 |
//! | `virtual_host` | S3: `true` puts the bucket into the host name | `false` |

mod config;
mod error;
mod read;
mod write;

use crate::pace::Pace;
use crate::parameters::{CONCURRENT, PART, RETRIES, TIMEOUT};
use crate::runtime::run;
use error::Scrub;
use futures_util::TryStreamExt;
use opendal::layers::{RetryLayer, TimeoutLayer};
use opendal::options::{ListOptions, WriteOptions};
use opendal::{Metadata, Operator};
use std::collections::HashSet;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use thalweg_params::Parameters;
use thalweg_store::{
    Capability, Durability, ListConsistency, OpenWrite, ReadObject, Rename, Stat, Store, Visible, WriteObject, name,
    unsupported,
};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Largest number of folders that are known to be there.
const MOST_FOLDERS: usize = 4096;

/// Most parts of an object, on S3 and most other services.
const MOST_PARTS: u64 = 10_000;

/// Objects below a folder of a service. See the module's page.
#[derive(Clone)]
pub struct Object {
    shared: Arc<Shared>,
}

/// Shared with open objects.
struct Shared {
    operator: Operator,
    address: String,
    scrub: Scrub,
    part: usize,
    concurrent: usize,
    pace: Pace,
    /// Folders that this process has seen or made, and not removed.
    folders: Mutex<HashSet<String>>,
}

impl Object {
    /// - `address`: as on the module's page.
    ///
    /// # Errors
    /// `Config` for a wrong address or parameter, or missing credentials. A service that does not answer, or has no such bucket, is
    /// noticed by the first call.
    /// # Cost
    /// No request.
    pub fn open(address: &str, parameters: &Parameters) -> Result<Object> {
        let (part, concurrent, retries) =
            (parameters.get(&PART)?, parameters.get(&CONCURRENT)?, parameters.get(&RETRIES)?);
        let timeout = parameters.get(&TIMEOUT)?;
        let scrub = Scrub::from_environment();
        let operator = run(async { config::operator(address, parameters, &scrub) })??;
        let again = RetryLayer::new().with_max_times(retries).with_min_delay(Duration::from_millis(100)).with_jitter();
        // The timeout is inside: a request that takes too long is repeated.
        let operator = operator.layer(TimeoutLayer::new().with_timeout(timeout).with_io_timeout(timeout)).layer(again);
        let (address, pace, folders) = (address.into(), Pace::default(), Mutex::default());
        let shared = Shared { operator, address, scrub, part, concurrent, pace, folders };
        Ok(Object { shared: Arc::new(shared) })
    }

    /// A store in OpenDAL's memory, for tests of this module.
    ///
    /// # Errors
    /// `Config` if OpenDAL lacks it.
    pub fn memory() -> Result<Object> {
        config::use_ring();
        let operator = Operator::new(opendal::services::Memory::default());
        let operator =
            operator.map_err(|cause| Error::new(ErrorKind::Config, "no store in memory").caused_by(cause))?;
        let scrub = Scrub::from_environment();
        let operator = operator.finish();
        let (address, part, concurrent, pace) = ("memory://".into(), 5 << 20, 2, Pace::default());
        let shared = Shared { operator, address, scrub, part, concurrent, pace, folders: Mutex::default() };
        Ok(Object { shared: Arc::new(shared) })
    }
}

/// Kind of the object at a name.
enum There {
    Nothing,
    Object(Box<Metadata>),
    Folder,
}

impl Shared {
    fn ask<T>(&self, what: &str, name: &str, question: impl Future<Output = opendal::Result<T>>) -> Result<T> {
        run(question)?.map_err(|cause| self.failed(what, name, &cause))
    }

    fn failed(&self, what: &str, name: &str, cause: &opendal::Error) -> Error {
        error::failed(&self.scrub, what, cause).in_object(self.shown(name))
    }

    fn wrong(&self, kind: ErrorKind, what: &str, name: &str) -> Error {
        Error::new(kind, format!("cannot {what}")).in_object(self.shown(name))
    }

    fn shown(&self, name: &str) -> String {
        match self.address.ends_with('/') {
            true => format!("{}{name}", self.address),
            false => format!("{}/{name}", self.address),
        }
    }

    fn name<'a>(&self, name: &'a str, what: &str) -> Result<std::borrow::Cow<'a, str>> {
        name::relative(name)
            .map_err(|e| Error::new(e.kind(), format!("cannot {what}")).caused_by(e).in_object(self.shown(name)))
    }

    fn there(&self, what: &str, name: &str) -> Result<There> {
        if name.is_empty() {
            return Ok(There::Folder);
        }
        match self.ask(what, name, self.operator.stat(name)) {
            Ok(about) if about.is_dir() => return Ok(There::Folder),
            Ok(about) => return Ok(There::Object(Box::new(about))),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        Ok(if self.is_folder(what, name)? { There::Folder } else { There::Nothing })
    }

    /// As [`Shared::there`], for a name that probably is a folder's.
    fn folder_or(&self, what: &str, name: &str) -> Result<There> {
        let folder = format!("{name}/");
        match self.ask(what, name, self.operator.stat(&folder)) {
            Ok(_) => {
                self.note_folder(name);
                return Ok(There::Folder);
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        match self.ask(what, name, self.operator.stat(name)) {
            Ok(about) if about.is_dir() => return Ok(There::Folder),
            Ok(about) => return Ok(There::Object(Box::new(about))),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        match self.has_names(what, name, &folder) {
            Ok(true) => Ok(There::Folder),
            Ok(false) => Ok(There::Nothing),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(There::Nothing),
            Err(e) => Err(e),
        }
    }

    /// Whether there is a folder: one that was made, or one that holds objects.
    fn is_folder(&self, what: &str, name: &str) -> Result<bool> {
        if name.is_empty() {
            return Ok(true);
        }
        let folder = format!("{name}/");
        match self.ask(what, name, self.operator.stat(&folder)) {
            Ok(_) => {
                self.note_folder(name);
                return Ok(true);
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        // A service may know a folder only by its objects.
        match self.has_names(what, name, &folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            outcome => outcome,
        }
    }

    /// Notes a folder that was made: one that exists only by its objects ends with the last of them.
    fn note_folder(&self, name: &str) {
        let mut folders = self.folders.lock();
        if folders.len() >= MOST_FOLDERS {
            folders.clear();
        }
        folders.insert(name.to_string());
    }

    /// Whether this process has seen a folder that was made.
    fn knows_folder(&self, name: &str) -> bool {
        name.is_empty() || self.folders.lock().contains(name)
    }

    /// Whether there is any name below a folder. One request: a list that ends with its first name.
    fn has_names(&self, what: &str, name: &str, folder: &str) -> Result<bool> {
        let options = ListOptions { limit: Some(1), ..ListOptions::default() };
        self.ask(what, name, async {
            let mut names = self.operator.lister_options(folder, options).await?;
            names.try_next().await.map(|first| first.is_some())
        })
    }

    fn need_folder(&self, what: &str, name: &str) -> Result<()> {
        let folder = name::folder_of(name);
        match self.knows_folder(folder) || self.is_folder(what, folder)? {
            true => Ok(()),
            false => Err(self.wrong(ErrorKind::NotFound, &format!("{what}: there is no folder {folder}"), name)),
        }
    }

    /// Begins an object.
    ///
    /// - `exclusive`: the close fails if the name is taken by then.
    fn writing(self: &Arc<Self>, what: &str, name: &str, exclusive: bool) -> Result<Box<dyn WriteObject>> {
        let options = WriteOptions {
            if_not_exists: exclusive,
            concurrent: self.concurrent,
            chunk: Some(self.part),
            ..WriteOptions::default()
        };
        let writer = self.ask(what, name, self.operator.writer_options(name, options))?;
        Ok(Box::new(write::Writing::new(self.clone(), name.to_string(), writer)))
    }

    /// The first bytes of an object, with what the answer says about it; `None` if it has no such bytes, or the service does not say
    /// enough.
    fn first_bytes(&self, name: &str, most: usize) -> Result<Option<(Metadata, Vec<u8>)>> {
        if most == 0 || name.is_empty() {
            return Ok(None);
        }
        let read = run(async {
            let reader = self.operator.reader(name).await?;
            // The stream ends with an error of the library if the object is shorter than asked for: all its bytes have come by then.
            let mut stream = reader.clone().into_stream(0..most as u64).await?;
            let mut bytes = Vec::new();
            let ended = loop {
                match stream.try_next().await {
                    Ok(Some(part)) => part.for_each(|piece| bytes.extend_from_slice(&piece)),
                    Ok(None) => break Ok(()),
                    Err(e) => break Err(e),
                }
            };
            let whole = reader.metadata().filter(|about| {
                let there = usize::try_from(about.content_length()).unwrap_or(usize::MAX).min(most);
                bytes.len() == there && about.etag().is_some()
            });
            match (whole.cloned(), ended) {
                (Some(about), _) => Ok(Some((about, bytes))),
                // Shorter, of a service that does not say so.
                (None, Err(e)) if e.kind() != opendal::ErrorKind::Unexpected => Err(e),
                (None, _) => Ok(None),
            }
        })?;
        match read {
            Err(e) if e.kind() == opendal::ErrorKind::RangeNotSatisfied => Ok(None),
            read => read.map_err(|cause| self.failed("open", name, &cause)),
        }
    }

    /// Names directly in a folder; `None` if the service lists neither objects in the folder nor the folder.
    fn inside(&self, what: &str, name: &str) -> Result<Option<Vec<String>>> {
        let folder = if name.is_empty() { "/".to_string() } else { format!("{name}/") };
        let entries = match self.ask(what, name, self.operator.list(&folder)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            entries => entries?,
        };
        if entries.is_empty() {
            return Ok(None);
        }
        let mut names = Vec::with_capacity(entries.len());
        for entry in entries {
            // A list may begin with the folder itself.
            if entry.path() != folder && entry.path() != "/" {
                names.push(name::last_part(entry.path()).to_string());
            }
        }
        names.sort_unstable();
        Ok(Some(names))
    }
}

impl Store for Object {
    fn describe(&self) -> String {
        self.shared.address.clone()
    }

    fn capability(&self) -> Capability {
        let service = self.shared.operator.info().full_capability();
        let parts = (self.shared.part as u64).saturating_mul(MOST_PARTS);
        let most = service.write_total_max_size.map_or(u64::MAX, |most| most as u64);
        Capability {
            rename: match (service.copy, service.rename) {
                (true, _) => Rename::Copy,
                (_, true) => Rename::Gap,
                _ => Rename::None,
            },
            durability: Durability::AtClose,
            visible: Visible::AtClose,
            // The library writes files of a filesystem in place.
            whole: !self.shared.address.starts_with("sftp:"),
            exclusive: service.write_with_if_not_exists,
            list: ListConsistency::Strong,
            largest_object: if service.write_can_multi { parts.min(most) } else { most.min(self.shared.part as u64) },
            ..Capability::NONE
        }
    }

    fn request_cost(&self) -> u64 {
        self.shared.pace.request_cost()
    }

    fn open_write(&self, name: &str, how: OpenWrite) -> Result<Box<dyn WriteObject>> {
        const WHAT: &str = "open for writing";
        let shared = &self.shared;
        let name = &*shared.name(name, WHAT)?;
        if how == OpenWrite::Existing {
            return Err(unsupported(&self.describe(), "extend an object", &shared.shown(name)));
        }
        let there = match shared.there(WHAT, name)? {
            There::Folder => {
                return Err(shared.wrong(ErrorKind::InvalidArgument, &format!("{WHAT}: it is a folder"), name));
            }
            There::Object(_) => true,
            There::Nothing => false,
        };
        match (how, there) {
            (OpenWrite::New, true) => return Err(shared.wrong(ErrorKind::AlreadyExists, "make", name)),
            (OpenWrite::Any, true) => {
                return Err(unsupported(&self.describe(), "extend an object", &shared.shown(name)));
            }
            (_, false) => shared.need_folder(WHAT, name)?,
            _ => {}
        }
        // If another writer is faster, a service with conditional writes refuses the close.
        let exclusive = how != OpenWrite::Replace && self.capability().exclusive;
        shared.writing(WHAT, name, exclusive)
    }

    /// Only with conditional writes are names made without a look.
    fn make_for_all(&self, name: &str, mode: u32) -> Result<Box<dyn WriteObject>> {
        self.make_unused(name, mode)
    }

    fn make_unused(&self, name: &str, mode: u32) -> Result<Box<dyn WriteObject>> {
        const WHAT: &str = "open for writing";
        match self.capability().exclusive {
            true => self.shared.writing(WHAT, &self.shared.name(name, WHAT)?, true),
            false => self.open_write_as(name, OpenWrite::New, mode),
        }
    }

    fn has_leases(&self) -> bool {
        false
    }

    fn open_first(&self, name: &str, most: usize) -> Result<(Box<dyn ReadObject>, Vec<u8>)> {
        const WHAT: &str = "open";
        let shared = &self.shared;
        let name = &*shared.name(name, WHAT)?;
        let most = most.min(read::RUN);
        match shared.first_bytes(name, most) {
            Ok(Some((about, bytes))) => {
                return Ok((Box::new(read::Reading::new(shared.clone(), name, &about)?), bytes));
            }
            // An empty object.
            Ok(None) => {}
            Err(e) if e.kind() == ErrorKind::NotFound && shared.is_folder(WHAT, name)? => {
                return Err(shared.wrong(ErrorKind::InvalidArgument, "open: it is a folder", name));
            }
            Err(e) => return Err(e),
        }
        let object = self.open_read(name)?;
        let there = usize::try_from(object.length()?).unwrap_or(usize::MAX).min(most);
        let mut bytes = vec![0; there];
        object.read_exact_at(0, &mut bytes).map_err(|e| e.in_object(shared.shown(name)))?;
        Ok((object, bytes))
    }

    fn first_if_there(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>> {
        match self.shared.first_bytes(&self.shared.name(name, "open")?, most.min(read::RUN)) {
            Ok(Some((_, bytes))) => Ok(Some(bytes)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
            // Empty, or of a service that does not say enough.
            Ok(None) => match self.open_first(name, most) {
                Ok((_, bytes)) => Ok(Some(bytes)),
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => Ok(None),
                Err(e) => Err(e),
            },
        }
    }

    fn open_read(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        let name = &*self.shared.name(name, "open")?;
        match self.shared.there("open", name)? {
            There::Object(about) => Ok(Box::new(read::Reading::new(self.shared.clone(), name, &about)?)),
            There::Folder => Err(self.shared.wrong(ErrorKind::InvalidArgument, "open: it is a folder", name)),
            There::Nothing => Err(self.shared.wrong(ErrorKind::NotFound, "open", name)),
        }
    }

    fn open_known_to_exist(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        let name = &*self.shared.name(name, "open")?;
        Ok(Box::new(read::Unasked::new(self.shared.clone(), name)?))
    }

    fn stat(&self, name: &str) -> Result<Stat> {
        let name = &*self.shared.name(name, "stat")?;
        match self.shared.there("stat", name)? {
            There::Object(about) => {
                let mut identity = DefaultHasher::new();
                let time = about.last_modified().map(|time| time.to_string());
                (about.etag(), about.version(), about.content_length(), time).hash(&mut identity);
                Ok(Stat { length: about.content_length(), is_folder: false, identity: identity.finish() })
            }
            There::Folder => Ok(Stat { length: 0, is_folder: true, identity: 0 }),
            There::Nothing => Err(self.shared.wrong(ErrorKind::NotFound, "stat", name)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let folder = &*self.shared.name(folder, "list")?;
        if let Some(names) = self.shared.inside("list", folder)? {
            return Ok(names);
        }
        match self.shared.there("list", folder)? {
            There::Folder => Ok(Vec::new()),
            _ => Err(self.shared.wrong(ErrorKind::NotFound, "list", folder)),
        }
    }

    fn list_beginning(&self, prefix: &str) -> Result<Option<Vec<String>>> {
        let shared = &self.shared;
        let mut wanted = shared.name(prefix, "list")?.into_owned();
        if prefix.ends_with('/') && !wanted.is_empty() {
            wanted.push('/');
        }
        if !shared.operator.info().native_capability().list_with_recursive {
            return Ok(None);
        }
        let options = ListOptions { recursive: true, ..ListOptions::default() };
        let entries = match shared.ask("list", prefix, shared.operator.list_options(&wanted, options)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Some(Vec::new())),
            entries => entries?,
        };
        let objects = entries.iter().map(|entry| entry.path()).filter(|path| !path.ends_with('/'));
        Ok(Some(objects.map(str::to_string).collect()))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let shared = &self.shared;
        let (from, to) = (&*shared.name(from, "rename")?, &*shared.name(to, "rename to")?);
        let what = format!("rename to {to}");
        match shared.there("rename", from)? {
            There::Object(_) => {}
            There::Folder => return Err(unsupported(&self.describe(), "rename a folder", &shared.shown(from))),
            There::Nothing => return Err(shared.wrong(ErrorKind::NotFound, &what, from)),
        }
        if from == to {
            return Ok(());
        }
        match shared.there("rename to", to)? {
            There::Folder => return Err(shared.wrong(ErrorKind::InvalidArgument, &what, from)),
            There::Nothing => shared.need_folder("rename to", to)?,
            There::Object(_) => {}
        }
        match self.capability().rename {
            Rename::None => Err(unsupported(&self.describe(), &what, &shared.shown(from))),
            Rename::Copy => {
                shared.ask(&what, from, shared.operator.copy(from, to))?;
                shared.ask(&what, from, shared.operator.delete(from))
            }
            _ => shared.ask(&what, from, shared.operator.rename(from, to)),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        let name = &*self.shared.name(name, "remove")?;
        let shared = &self.shared;
        if name.is_empty() {
            return Err(shared.wrong(ErrorKind::InvalidArgument, "remove the store's own folder", name));
        }
        match shared.there("remove", name)? {
            There::Object(_) => shared.ask("remove", name, shared.operator.delete(name)),
            There::Nothing => Err(shared.wrong(ErrorKind::NotFound, "remove", name)),
            There::Folder if shared.inside("remove", name)?.is_some_and(|names| !names.is_empty()) => {
                Err(shared.wrong(ErrorKind::InvalidArgument, "remove a folder that is not empty", name))
            }
            There::Folder => {
                shared.folders.lock().remove(name);
                shared.ask("remove", name, shared.operator.delete(&format!("{name}/")))
            }
        }
    }

    fn remove_many(&self, names: &[String]) -> Result<()> {
        let Some(first) = names.first() else { return Ok(()) };
        let shared = &self.shared;
        let names = names.iter().map(|name| Ok(shared.name(name, "remove")?.into_owned()));
        let names = names.collect::<Result<Vec<String>>>()?;
        shared.ask("remove", first, shared.operator.delete_iter(names))
    }

    fn make_folder(&self, name: &str) -> Result<()> {
        const WHAT: &str = "make folder";
        let name = &*self.shared.name(name, WHAT)?;
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        // Below a folder that this call makes there is nothing.
        let mut new = false;
        for folder in ends.map(|end| &name[..end]).filter(|folder| !folder.is_empty()) {
            // Another process may have removed the folder that is asked for; one above it is made again by what is made in it.
            if !new && folder != name && self.shared.knows_folder(folder) {
                continue;
            }
            match if new { There::Nothing } else { self.shared.folder_or(WHAT, folder)? } {
                There::Folder => {}
                There::Object(_) if folder == name => {
                    return Err(self.shared.wrong(ErrorKind::AlreadyExists, WHAT, name));
                }
                There::Object(_) => return Err(self.shared.wrong(ErrorKind::NotFound, WHAT, name)),
                There::Nothing => {
                    self.shared.ask(WHAT, folder, self.shared.operator.create_dir(&format!("{folder}/")))?;
                    self.shared.note_folder(folder);
                    new = true;
                }
            }
        }
        Ok(())
    }

    /// Names are durable once the service has answered.
    fn sync_folder(&self, folder: &str) -> Result<()> {
        let folder = &*self.shared.name(folder, "sync folder")?;
        match self.shared.there("sync folder", folder)? {
            There::Folder => Ok(()),
            _ => Err(self.shared.wrong(ErrorKind::NotFound, "sync folder", folder)),
        }
    }
}
