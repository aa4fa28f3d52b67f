//! Packed sessions: a small closed session is one object, and many of them are one object, on stores where every object costs requests
//! and none can be extended.
//!
//! | question | answer |
//! |----------|--------|
//! | which containers | those of stamp version 4, which are made on stores without appends |
//! | which sessions | those that close with a data log of at most [`MOST`] bytes, of which nothing was written or published before |
//! | one session | its data log is the content of its `c` mark; there is no index log, readers scan the records |
//! | a bundle | one object `b-...` with the marks, the index and the data logs of closed sessions of one writer number. Marks in a bundle count like objects of their names: [`Place::list`] returns them |
//! | merging | a writer that closes and finds [`MOST_LOOSE`] sessions of its number that are no part of a bundle writes all of them and its own as a bundle, with the bundles that are at most three times as large as the rest: the number of objects grows with the logarithm of the number of sessions, and each byte is written as often |
//! | order    | the bundle first, then the objects that it replaces are removed. At each moment a session is in one of them or in both, with the same mark |
//! | a reader with an older list | finds the object gone, lists again, and reads the same bytes from the bundle |
//! | memory   | [`MOST_HELD`] bytes for all files of a mount |
//!
//! A bundle, whose name is `b-NUMBER-WRITER-HEAD-LENGTH-CRC`: a random number, the writer's number, the lengths of its head and of the
//! whole object, and the CRC-32C of the name before, all hexadecimal:
//!
//! | byte | size | field |
//! |------|------|-------|
//! | 0 | 8 | `TWBUNDLE` |
//! | 8 | 4 | version, 1 |
//! | 12 | 16 | the container's number |
//! | 28 | ... | number of sessions, varint; the names of their `c` marks, counted |
//! | ... | ... | content of their index logs, counted, as in a [`snapshot`](super::snapshot) |
//! | HEAD - 4 | 4 | CRC-32C of the head before |
//! | HEAD | ... | the data logs, in the order of the marks, each as long as its mark states |

use super::index::Source;
use super::index::block::Entry;
use super::load;
use super::marks::{self, Home, Mark, MarkName, Published};
use super::objects::{self, MOST_TRIES};
use super::parallel::Fragment;
use super::place::{LogInside, Place, STAMP};
use super::record::Log;
use super::scan;
use super::wire::{Cursor, bad, put_counted, put_varint, seal, sealed};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_store::{ReadObject, Rename, Store, Visible, fresh};
use thalweg_types::checksum::crc32c;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Number of the folder of logs, in marks, of a session without logs. Folders of logs have smaller numbers.
pub const FOLDER: u8 = 0xff;
/// Longest data log of a packed session, in bytes: what takes about as long as a request to a service far away.
pub const MOST: usize = 1 << 20;
/// Largest number of sessions of a writer number that are no part of a bundle.
const MOST_LOOSE: usize = 3;
/// Largest bundle, in bytes.
const MOST_BUNDLE: u64 = 16 << 20;
/// Bytes of an object that are read with its first request, and later ones with one request.
const WINDOW: usize = 1 << 20;
/// Memory for objects of all files of a mount, in bytes.
const MOST_HELD: usize = 64 << 20;

/// Most objects that are read at the same time.
const MOST_AT_ONCE: usize = 16;

/// Whether containers whose folder is on this store have packed sessions: objects cannot be extended, and appear whole under a mark's
/// name.
pub fn can(store: &dyn Store) -> bool {
    let can = store.capability();
    !can.append && !can.moves && (can.whole || can.rename == Rename::Atomic)
}

/// The name of a bundle, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Name {
    number: u64,
    writer: u32,
    head: u64,
    length: u64,
}

impl Name {
    fn encode(&self) -> String {
        let Name { number, writer, head, length } = self;
        let mut name = format!("b-{number:016x}-{writer:x}-{head:x}-{length:x}-");
        let crc = crc32c(name.as_bytes());
        let _ = write!(name, "{crc:08x}");
        name
    }

    fn decode(name: &str) -> Result<Name> {
        let fields = || {
            let mut fields = name.strip_prefix("b-")?.split('-').map(|field| u64::from_str_radix(field, 16).ok());
            let mut next = || fields.next().flatten();
            let found = Name { number: next()?, writer: u32::try_from(next()?).ok()?, head: next()?, length: next()? };
            (found.encode() == name && found.head <= found.length).then_some(found)
        };
        fields().ok_or_else(|| Error::new(ErrorKind::Corrupt, "the name of a bundle is damaged").in_object(name))
    }
}

/// Whether this is the name of a bundle.
fn is_bundle(name: &str) -> bool {
    name.starts_with("b-")
}

/// A session in a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    mark: String,
    home: Home,
    published: Published,
}

impl Member {
    fn of(mark: &str) -> Result<Member> {
        match marks::parse(mark)? {
            MarkName::Published(home, published) if published.closed && home.folder == FOLDER => {
                Ok(Member { mark: mark.to_string(), home, published })
            }
            _ => Err(Error::new(ErrorKind::Corrupt, "not the mark of a packed session").in_object(mark)),
        }
    }

    fn source(&self) -> Source {
        Source::of(&self.home, 0)
    }
}

/// What a bundle's head says.
#[derive(Debug)]
pub(super) struct Bundle {
    name: Name,
    members: Vec<Member>,
    /// Index entries by session.
    entries: HashMap<u64, Vec<Entry>>,
}

impl Bundle {
    fn encode(container: u128, members: &[Member], index: &Fragment) -> Vec<u8> {
        let mut out = b"TWBUNDLE".to_vec();
        out.extend_from_slice(&1u32.to_le_bytes());
        out.extend_from_slice(&container.to_le_bytes());
        put_varint(&mut out, members.len() as u64);
        members.iter().for_each(|member| put_counted(&mut out, member.mark.as_bytes()));
        put_counted(&mut out, &index.encode());
        seal(&mut out);
        out
    }

    /// - `bytes`: the head.
    fn decode(name: Name, container: u128, bytes: &[u8]) -> Result<Bundle> {
        let mut c = Cursor::new(sealed(bytes, "bundle")?);
        if c.take(8, "bundle")? != b"TWBUNDLE" {
            return Err(bad(ErrorKind::Corrupt, "this is no bundle").at_byte(0));
        }
        let version = c.u32("version")?;
        if version != 1 {
            return Err(bad(ErrorKind::Unsupported, format!("bundle version {version}, known is 1")).at_byte(8));
        }
        if c.u128("number")? != container {
            return Err(bad(ErrorKind::Corrupt, "this is the bundle of another container").at_byte(12));
        }
        let count = c.varint("sessions")?;
        let members = (0..count).map(|_| Member::of(&c.text("name of a mark")?)).collect::<Result<Vec<_>>>()?;
        let index = Fragment::decode(c.counted("index")?)?;
        let logs = members.iter().try_fold(name.head, |end, member| end.checked_add(member.published.data));
        if !c.is_empty() || logs != Some(name.length) {
            return Err(bad(ErrorKind::Corrupt, "a bundle of impossible content"));
        }
        let mut entries: HashMap<u64, Vec<Entry>> = HashMap::new();
        index.each(|source, entry| {
            entries.entry(source.session).or_default().push(entry);
            Ok(())
        })?;
        Ok(Bundle { name, members, entries })
    }

    /// Each session with the offset of its log.
    fn logs(&self) -> impl Iterator<Item = (&Member, u64)> {
        self.members.iter().scan(self.name.head, |at, member| {
            let offset = *at;
            *at += member.published.data;
            Some((member, offset))
        })
    }
}

/// Location of a session's data log.
#[derive(Debug, Clone)]
struct At {
    /// The object's name in the folder of marks, and its length.
    object: String,
    total: u64,
    offset: u64,
    length: u64,
    bundle: Option<Arc<Bundle>>,
}

/// What a place knows of the packed sessions of its container.
#[derive(Default)]
pub struct Packs {
    /// By session. Sessions that other processes removed may still be here.
    at: HashMap<u64, At>,
    /// Bundles, as of the last list and what this process did since.
    bundles: BTreeMap<String, Arc<Bundle>>,
    /// Sessions in `c` marks of their own, as of then.
    loose: Vec<Member>,
    /// Open marks, by session, as of then.
    open: HashMap<u64, String>,
}

impl Packs {
    fn add_bundle(&mut self, text: &str, bundle: &Arc<Bundle>) {
        for (member, offset) in bundle.logs() {
            let (total, length) = (bundle.name.length, member.published.data);
            let at = At { object: text.to_string(), total, offset, length, bundle: Some(bundle.clone()) };
            self.at.insert(member.home.session, at);
        }
        self.bundles.insert(text.to_string(), bundle.clone());
    }

    fn add_loose(&mut self, member: Member) {
        let length = member.published.data;
        let at = At { object: member.mark.clone(), total: length, offset: 0, length, bundle: None };
        self.at.insert(member.home.session, at);
        self.loose.push(member);
    }

    fn in_bundles(&self) -> HashSet<u64> {
        self.bundles.values().flat_map(|bundle| bundle.members.iter().map(|member| member.home.session)).collect()
    }
}

/// An immutable object of which some bytes are in memory.
pub struct Held {
    /// `None` if all its bytes are in memory.
    object: Option<Box<dyn ReadObject>>,
    length: u64,
    first: Vec<u8>,
    /// Windows that were read last, by number; the last one is the newest.
    windows: Mutex<Vec<(u64, Arc<Window>)>>,
    /// The store does not have the object any more.
    gone: AtomicBool,
}

/// The bytes of a window; empty until one of those who need them has read them.
type Window = Mutex<Vec<u8>>;

/// Most windows of an object in memory: as many as threads read at the same time, far away. With fewer, threads that read a bundle from 16
/// places took each other's windows out, and read them again.
const MOST_WINDOWS: usize = 16;

impl Held {
    /// - `length`: the object's length, if it is known.
    pub fn open(store: &dyn Store, name: &str, length: Option<u64>) -> Result<Held> {
        let most = length.map_or(WINDOW, |length| WINDOW.min(usize::try_from(length).unwrap_or(WINDOW)));
        let (object, first) = store.open_first(name, most)?;
        let there = object.length()?;
        if length.is_some_and(|length| length != there) {
            let what = format!("the object has {there} bytes of {}", length.unwrap_or(0));
            return Err(Error::new(ErrorKind::Torn, what).in_object(name));
        }
        let object = (there > first.len() as u64).then_some(object);
        Ok(Held { object, length: there, first, windows: Mutex::default(), gone: AtomicBool::new(false) })
    }

    fn whole(bytes: Vec<u8>) -> Held {
        let length = bytes.len() as u64;
        Held { object: None, length, first: bytes, windows: Mutex::default(), gone: AtomicBool::new(false) }
    }

    fn memory(&self) -> usize {
        self.first.len() + self.windows.lock().len() * WINDOW
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<usize> {
        let count = usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX).min(out.len());
        let out = &mut out[..count];
        if copied(&self.first, 0, at, out) {
            return Ok(count);
        }
        let Some(object) = &self.object else { return Ok(0) };
        let told = |e: Error| match e.kind() {
            ErrorKind::NotFound => {
                self.gone.store(true, Ordering::Relaxed);
                Error::new(ErrorKind::Io, "the object was removed since it was opened").caused_by(e)
            }
            _ => e,
        };
        if count >= WINDOW {
            return object.read_at(at, out).map_err(told);
        }
        let mut done = 0;
        while done < count {
            let at = at + done as u64;
            let (number, inside) = (at / WINDOW as u64, (at % WINDOW as u64) as usize);
            let there = usize::try_from(self.length - number * WINDOW as u64).unwrap_or(usize::MAX).min(WINDOW);
            let now = (there - inside).min(count - done);
            let part = &mut out[done..done + now];
            if !copied(&self.first, 0, at, part) {
                let window = self.window(number);
                let mut bytes = window.lock();
                if bytes.is_empty() {
                    let mut read = vec![0; there];
                    object.read_exact_at(number * WINDOW as u64, &mut read).map_err(told)?;
                    *bytes = read;
                }
                part.copy_from_slice(&bytes[inside..inside + now]);
            }
            done += now;
        }
        Ok(count)
    }

    /// A window, which may be empty; the oldest one goes for a new one.
    fn window(&self, number: u64) -> Arc<Window> {
        let mut windows = self.windows.lock();
        let known = match windows.iter().position(|(known, _)| *known == number) {
            Some(at) => windows.remove(at),
            None => (number, Arc::default()),
        };
        if windows.len() >= MOST_WINDOWS {
            windows.remove(0);
        }
        windows.push(known.clone());
        known.1
    }
}

/// Copies bytes from byte `at` on, if `bytes`, which begin at byte `from`, have them all.
fn copied(bytes: &[u8], from: u64, at: u64, out: &mut [u8]) -> bool {
    let begin = at.checked_sub(from).and_then(|begin| usize::try_from(begin).ok());
    let found = begin.and_then(|begin| bytes.get(begin..begin.checked_add(out.len())?));
    if let Some(found) = found {
        out.copy_from_slice(found);
    }
    found.is_some()
}

/// A part of a held object: a data log.
pub struct Slice {
    held: Arc<Held>,
    offset: u64,
    length: u64,
}

impl Slice {
    /// A whole object.
    fn all(held: Arc<Held>) -> Slice {
        Slice { offset: 0, length: held.length, held }
    }
}

impl ReadObject for Slice {
    fn length(&self) -> Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let there = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        self.held.read_at(self.offset.saturating_add(offset), &mut out[..there])
    }
}

/// Objects that were read or written last, by name: they never change.
#[derive(Default)]
pub struct Cache {
    held: HashMap<String, Kept>,
    memory: usize,
    asked: u64,
}

struct Kept {
    held: Arc<Held>,
    /// When it was asked for last.
    asked: u64,
    /// Its memory, as it was then.
    memory: usize,
}

impl Cache {
    fn get(&mut self, name: &str) -> Option<Arc<Held>> {
        self.asked += 1;
        let kept = self.held.get_mut(name).filter(|kept| !kept.held.gone.load(Ordering::Relaxed))?;
        kept.asked = self.asked;
        // It may have read more since.
        let before = std::mem::replace(&mut kept.memory, kept.held.memory());
        self.memory = self.memory - before + kept.memory;
        let held = kept.held.clone();
        self.trim();
        Some(held)
    }

    fn put(&mut self, name: String, held: Arc<Held>) {
        self.remove(&name);
        self.asked += 1;
        let memory = held.memory();
        self.memory += memory;
        self.held.insert(name, Kept { held, asked: self.asked, memory });
        self.trim();
    }

    fn trim(&mut self) {
        while self.memory > MOST_HELD {
            let oldest = self.held.iter().min_by_key(|(_, kept)| kept.asked).map(|(name, _)| name.clone());
            let Some(oldest) = oldest else { break };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, name: &str) {
        if let Some(kept) = self.held.remove(name) {
            self.memory -= kept.memory;
        }
    }
}

/// A bundle that is about to be written.
struct Gathered {
    bytes: Vec<u8>,
    bundle: Bundle,
    /// Names of the marks and bundles that it replaces.
    old: Vec<String>,
}

impl Place {
    /// Whether a mark is that of a packed session.
    pub fn is_packed(&self, mark: &Mark) -> bool {
        self.stamp.packed && mark.home.folder == FOLDER
    }

    /// Names of marks, attributes and snapshots, those in bundles included, sorted.
    pub(super) fn list_packed(&self) -> Result<Vec<String>> {
        for _ in 0..MOST_TRIES {
            let names = self.first().list(&self.marks())?;
            // A removal deletes it first: without it the list may be incomplete.
            if !names.iter().any(|name| name == STAMP) {
                return Err(Error::new(ErrorKind::NotFound, "the container was removed").in_object(self.folder()));
            }
            if let Some(names) = self.expanded(names)? {
                return Ok(names);
            }
        }
        Err(Error::new(ErrorKind::NotReady, "other processes merge sessions all the time").in_object(self.folder()))
    }

    /// As [`Place::list_packed`], from a list that was just read. `None` if it must be read again.
    pub(super) fn listed(&self, names: Vec<String>) -> Result<Option<Vec<String>>> {
        match self.stamp.packed && names.iter().any(|name| name == STAMP) {
            true => self.expanded(names),
            false => Ok(None),
        }
    }

    /// Names and heads of its bundles, as of the last list.
    ///
    /// # Errors
    /// Errors of the store; `NotFound` for a bundle that was merged since.
    pub(super) fn heads(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let bundles: Vec<_> =
            self.packs.lock().bundles.iter().map(|(text, bundle)| (text.clone(), bundle.name)).collect();
        let read = |(text, name): (String, Name)| {
            let mut head = vec![0; usize::try_from(name.head).unwrap_or(usize::MAX).min(MOST_BUNDLE as usize)];
            let got = self.held(&text, name.length)?.read_at(0, &mut head)?;
            head.truncate(got);
            Ok((text, head))
        };
        bundles.into_iter().map(read).collect()
    }

    /// Notes heads of bundles that were read elsewhere: those of the next list are not read again. Damaged ones are passed over.
    pub(super) fn note_heads(&self, heads: &[(String, Vec<u8>)]) {
        for (text, head) in heads {
            let name = Name::decode(text).ok().filter(|name| name.head == head.len() as u64);
            if let Some(bundle) = name.and_then(|name| Bundle::decode(name, self.stamp.container, head).ok()) {
                self.packs.lock().bundles.insert(text.clone(), Arc::new(bundle));
            }
        }
    }

    /// Adds the marks in bundles; `None` if a bundle was removed since it was listed.
    fn expanded(&self, mut names: Vec<String>) -> Result<Option<Vec<String>>> {
        names.retain(|name| name != STAMP);
        let mut bundles = BTreeMap::new();
        let mut unknown = Vec::new();
        {
            let packs = self.packs.lock();
            for name in names.iter().filter(|name| is_bundle(name)) {
                match packs.bundles.get(name) {
                    Some(bundle) => drop(bundles.insert(name.clone(), bundle.clone())),
                    None => unknown.push(name.clone()),
                }
            }
        }
        for (name, bundle) in unknown.iter().zip(self.read_bundles(&unknown)) {
            match bundle {
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
                bundle => drop(bundles.insert(name.clone(), Arc::new(bundle?))),
            }
        }
        let mut packs = self.packs.lock();
        (packs.bundles, packs.loose, packs.open) = Default::default();
        for name in &names {
            // A damaged name is reported by those who read the marks.
            match marks::parse(name).unwrap_or(MarkName::Other) {
                MarkName::Published(home, published) if published.closed && home.folder == FOLDER => {
                    packs.add_loose(Member { mark: name.clone(), home, published });
                }
                MarkName::Open(home) => drop(packs.open.insert(home.session, name.clone())),
                _ => {}
            }
        }
        // Of a session that is in both, the bundle stays.
        for (name, bundle) in &bundles {
            packs.add_bundle(name, bundle);
            names.extend(bundle.members.iter().map(|member| member.mark.clone()));
        }
        names.sort_unstable();
        names.dedup();
        Ok(Some(names))
    }

    /// Reads the heads of bundles, at the same time.
    fn read_bundles(&self, names: &[String]) -> Vec<Result<Bundle>> {
        let [first, rest @ ..] = names else { return Vec::new() };
        std::thread::scope(|scope| {
            let rest: Vec<_> = rest.iter().map(|name| (name, scope.spawn(|| self.read_bundle(name)))).collect();
            let first = self.read_bundle(first);
            let joined =
                rest.into_iter().map(|(name, thread)| thread.join().unwrap_or_else(|_| self.read_bundle(name)));
            [first].into_iter().chain(joined).collect()
        })
    }

    fn read_bundle(&self, text: &str) -> Result<Bundle> {
        let name = Name::decode(text)?;
        let held = self.held(text, name.length)?;
        let mut head = vec![0; usize::try_from(name.head).unwrap_or(usize::MAX).min(MOST_BUNDLE as usize)];
        let got = held.read_at(0, &mut head)?;
        Bundle::decode(name, self.stamp.container, &head[..got]).map_err(|e| e.in_object(text))
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.marks())
    }

    fn held(&self, name: &str, length: u64) -> Result<Arc<Held>> {
        self.held_at(&**self.first(), self.path_of(name), Some(length))
    }

    /// - `path`: on the store; the random number in it is on no other store.
    fn held_at(&self, store: &dyn Store, path: String, length: Option<u64>) -> Result<Arc<Held>> {
        if let Some(held) = self.stores.cache().get(&path) {
            return Ok(held);
        }
        let held = Arc::new(Held::open(store, &path, length)?);
        self.stores.cache().put(path, held.clone());
        Ok(held)
    }

    /// An index log on a store without appends.
    ///
    /// # Errors
    /// As [`Store::open_read`].
    /// # Cost
    /// One request; none for a log that was read lately, where objects are seen when they are closed, and do not change then.
    pub fn open_whole_log(&self, store: &dyn Store, path: &str) -> Result<Slice> {
        match store.capability().visible {
            Visible::AtClose => self.held_at(store, path.to_string(), None).map(Slice::all),
            _ => Held::open(store, path, None).map(|held| Slice::all(Arc::new(held))),
        }
    }

    /// Reads what is needed of these sessions to know where their bytes lie, at the same time, where each object costs a request. What
    /// fails is read again by those who need it.
    pub fn read_ahead(&self, sources: &[Source]) {
        if !self.stamp.packed {
            return;
        }
        let is_unknown = |source: &&Source| match self.located(source.session, source.folder) {
            Ok(Some(at)) => at.bundle.is_none() && self.stores.cache().get(&self.path_of(&at.object)).is_none(),
            Ok(None) => self.stores.cache().get(&load::name(self, source, Log::Index)).is_none(),
            Err(_) => false,
        };
        let unknown: Vec<&Source> = sources.iter().filter(is_unknown).collect();
        if unknown.len() < 2 {
            return;
        }
        let read = |source: &Source| {
            if matches!(self.open_packed(&source.home()), Ok(None)) {
                let _ = load::open(self, source, Log::Index);
            }
        };
        let share = unknown.len().div_ceil(MOST_AT_ONCE);
        std::thread::scope(|scope| {
            for share in unknown.chunks(share) {
                let builder = std::thread::Builder::new();
                let _ = builder.spawn_scoped(scope, move || share.iter().for_each(|source| read(source)));
            }
        });
    }

    /// The location of a session's log; `None` if the session is not packed.
    fn located(&self, session: u64, folder: u8) -> Result<Option<At>> {
        if !self.stamp.packed {
            return Ok(None);
        }
        let known = || self.packs.lock().at.get(&session).cloned();
        match known() {
            // Another rank listed the marks.
            None if folder == FOLDER => self.list().map(|_| known()),
            at => Ok(at),
        }
    }

    /// The data log of a packed session; `None` if the session is not packed.
    pub(super) fn open_packed(&self, home: &Home) -> Result<Option<Slice>> {
        for _ in 0..4 {
            let Some(at) = self.located(home.session, home.folder)? else { return Ok(None) };
            match self.held(&at.object, at.total) {
                Ok(held) => return Ok(Some(Slice { held, offset: at.offset, length: at.length })),
                // Merged or removed since the marks were listed.
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    let mut packs = self.packs.lock();
                    if packs.at.get(&home.session).is_some_and(|now| now.object == at.object) {
                        packs.at.remove(&home.session);
                    }
                    drop(packs);
                    self.list()?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }

    /// Passes the index entries of a session that is in a bundle to `tell`. `false` if it is in none.
    pub(super) fn tell_bundled(&self, source: &Source, tell: &mut dyn FnMut(Entry) -> Result<()>) -> Result<bool> {
        let Some(At { bundle: Some(bundle), .. }) = self.located(source.session, source.folder)? else {
            return Ok(false);
        };
        let entries = bundle.entries.get(&source.session).map_or(&[][..], Vec::as_slice);
        entries.iter().try_for_each(|entry| tell(*entry)).map(|()| true)
    }

    /// The bundles of which all sessions are among these.
    pub(super) fn bundles_of(&self, marks: &[Mark]) -> Vec<String> {
        let sessions: BTreeSet<u64> = marks.iter().map(|mark| mark.home.session).collect();
        let packs = self.packs.lock();
        let all = |bundle: &Bundle| bundle.members.iter().all(|member| sessions.contains(&member.home.session));
        packs.bundles.iter().filter(|(_, bundle)| all(bundle)).map(|(name, _)| name.clone()).collect()
    }

    /// Whether a session is in another bundle than these.
    pub(super) fn stays_bundled(&self, mark: &Mark, bundles: &[String]) -> bool {
        let packs = self.packs.lock();
        packs.bundles.iter().any(|(name, bundle)| {
            !bundles.contains(name) && bundle.members.iter().any(|member| member.home.session == mark.home.session)
        })
    }

    /// Stores a session that closes, alone or with earlier ones of its writer number. Returns the name of its open mark if that is still
    /// there.
    ///
    /// - `open`: the name of its open mark.
    /// - `log`: its data log.
    pub(super) fn pack(
        &self,
        home: Home,
        published: &Published,
        open: &str,
        log: Vec<u8>,
        mode: u32,
    ) -> Result<Option<String>> {
        let member = Member::of(&marks::published_name(home, published))?;
        let log = Arc::new(log);
        let Some(Gathered { bytes, bundle, mut old }) = self.gathered(&member, &log) else {
            self.put_packed(&member.mark, &log, mode)?;
            let log = Arc::try_unwrap(log).unwrap_or_else(|log| log.to_vec());
            self.stores.cache().put(self.path_of(&member.mark), Arc::new(Held::whole(log)));
            let mut packs = self.packs.lock();
            packs.open.insert(home.session, open.to_string());
            packs.add_loose(member);
            return Ok(Some(open.to_string()));
        };
        let name = bundle.name.encode();
        self.put_packed(&name, &bytes, mode)?;
        self.stores.cache().put(self.path_of(&name), Arc::new(Held::whole(bytes)));
        {
            let mut packs = self.packs.lock();
            packs.loose.retain(|member| !old.contains(&member.mark));
            packs.bundles.retain(|name, _| !old.contains(name));
            packs.add_bundle(&name, &Arc::new(bundle));
        }
        old.push(open.to_string());
        let paths: Vec<String> = old.iter().map(|name| self.path_of(name)).collect();
        paths.iter().for_each(|path| self.stores.cache().remove(path));
        // The sessions are in the bundle: an object that stays says the same, and a later merge removes it.
        let removed = self.first().remove_many(&paths);
        Ok(removed.is_err().then(|| open.to_string()))
    }

    fn put_packed(&self, name: &str, bytes: &[u8], mode: u32) -> Result<()> {
        let (store, path) = (&**self.first(), self.path_of(name));
        if objects::appears_early(store) {
            return objects::put_whole(store, &self.temporary(), &path, bytes, mode);
        }
        match objects::put_new_as(store, &path, bytes, mode) {
            // No other process uses this name: an earlier attempt succeeded, and its answer was lost.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                let there = thalweg_store::StoreExt::read_all(store, &path)?;
                if there == bytes { Ok(()) } else { Err(e) }
            }
            outcome => outcome,
        }
    }

    /// The bundle of a session and of earlier ones of its writer number; `None` if there are few, or if another process merges them.
    fn gathered(&self, own: &Member, log: &Arc<Vec<u8>>) -> Option<Gathered> {
        let mut old = Vec::new();
        let (loose, absorbed) = {
            let packs = self.packs.lock();
            let bundled = packs.in_bundles();
            let mine = packs.loose.iter().filter(|member| member.home.writer == own.home.writer);
            let (left, loose): (Vec<&Member>, Vec<&Member>) =
                mine.partition(|member| bundled.contains(&member.home.session));
            if loose.len() < MOST_LOOSE {
                return None;
            }
            let mut total = own.published.data + loose.iter().map(|member| member.published.data).sum::<u64>();
            let mut bundles: Vec<_> =
                packs.bundles.iter().filter(|(_, bundle)| bundle.name.writer == own.home.writer).collect();
            bundles.sort_unstable_by_key(|(_, bundle)| bundle.name.length);
            let mut absorbed = Vec::new();
            for (name, bundle) in bundles {
                let length = bundle.name.length;
                if length > 3 * total || total + length > MOST_BUNDLE {
                    break;
                }
                total += length;
                absorbed.push((name.clone(), bundle.clone()));
            }
            for member in left.iter().chain(&loose) {
                old.push(member.mark.clone());
                old.extend(packs.open.get(&member.home.session).cloned());
            }
            // Of sessions that were merged by a process that could not remove everything.
            let left = packs.open.iter().filter(|(session, _)| bundled.contains(session));
            old.extend(left.map(|(_, name)| name.clone()));
            (loose.into_iter().cloned().collect::<Vec<_>>(), absorbed)
        };
        let mut logs: BTreeMap<u64, (Member, Arc<Vec<u8>>)> = BTreeMap::new();
        for (name, bundle) in &absorbed {
            let held = self.held(name, bundle.name.length).ok()?;
            for (member, offset) in bundle.logs() {
                let bytes = exactly(&held, offset, member.published.data)?;
                logs.insert(member.home.session, (member.clone(), Arc::new(bytes)));
            }
            old.push(name.clone());
        }
        for member in loose {
            let held = self.held(&member.mark, member.published.data).ok()?;
            let bytes = exactly(&held, 0, member.published.data)?;
            logs.insert(member.home.session, (member, Arc::new(bytes)));
        }
        logs.insert(own.home.session, (own.clone(), log.clone()));
        // Neighbours in the file are mostly neighbours in time.
        let mut logs: Vec<_> = logs.into_values().collect();
        logs.sort_by_key(|(member, _)| (member.published.summary.first, member.home.session));
        let mut index = Fragment::default();
        for (member, log) in &logs {
            let source = member.source();
            let scanned = |tell: &mut dyn FnMut(Entry) -> Result<()>| {
                let (object, end) = (LogInside(log.clone()), log.len() as u64);
                let found = scan::data_log(self, &source, &object, 0, end, true, |record| {
                    scan::entry_of(record).map_or(Ok(()), &mut *tell)
                })?;
                match found.whole == end {
                    true => Ok(end),
                    // A damaged log stays where it is.
                    false => Err(Error::new(ErrorKind::Torn, "a data log is not whole")),
                }
            };
            index.add(&source, scanned).ok()?;
        }
        let members: Vec<Member> = logs.iter().map(|(member, _)| member.clone()).collect();
        let mut bytes = Bundle::encode(self.stamp.container, &members, &index);
        let head = bytes.len() as u64;
        logs.iter().for_each(|(_, log)| bytes.extend_from_slice(log));
        let name = Name { number: fresh(), writer: own.home.writer, head, length: bytes.len() as u64 };
        let bundle = Bundle::decode(name, self.stamp.container, &bytes[..head as usize]).ok()?;
        Some(Gathered { bytes, bundle, old })
    }
}

/// Bytes of a held object; `None` if they cannot be read.
fn exactly(held: &Held, offset: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    (held.read_at(offset, &mut bytes).ok()? == bytes.len()).then_some(bytes)
}
