//! Random operations of several writers in several processes, on names and bytes, against a model of POSIX in memory.
//!
//! Writers take turns; a turn begins and ends with a sync of the writer's files, so that each write has its place in an order
//! and there is one right answer to everything. Behaviour without a promise (`docs/consistency.md`) is left out or stated in
//! [`PosixRules`]. A difference is reported with a minimal sequence of operations.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_layout::errno::{self, Errno as E};
use thalweg_layout::{Change, Kind, Layout, OpenWrite, SetXattr, WriteObject, WriterId};
use thalweg_types::{ErrorKind, Result};

/// Process and number of each writer: two are threads of one process.
const WRITERS: [(usize, u32); 4] = [(0, 5), (0, 6), (1, 2), (2, 9)];
/// How many layouts over the same stores are needed.
pub const PROCESSES: usize = 3;
/// Handles that a writer has open at once.
const MOST_OPEN: usize = 4;
/// Longest file.
const LONGEST: u64 = 3000;
/// Operations in one world; then another begins.
const EACH: usize = 400;

/// The rules of POSIX in which layouts differ.
#[derive(Debug, Clone, Copy)]
pub struct PosixRules {
    /// Failures have the numbers of the manual pages.
    pub numbers: bool,
    /// Several processes may have one file open to write at once.
    pub shared: bool,
    /// A file that is open stays the same file when it is renamed.
    pub follows_renames: bool,
    /// Changes by one process are visible to others immediately, not within a second.
    pub prompt: bool,
    /// The time of a folder is that of the last change of its names.
    pub folder_times: bool,
}

impl PosixRules {
    /// All of it.
    pub const ALL: PosixRules =
        PosixRules { numbers: true, shared: true, follows_renames: true, prompt: true, folder_times: true };
}

/// Does so many operations, on fresh stores every few hundred.
///
/// - `make`: [`PROCESSES`] layouts over the same new stores, as so many processes have them, and what these stores need.
///
/// # Errors
/// Where layout and model differ, with the operations that show it.
pub fn check(
    rules: PosixRules,
    seed: u64,
    operations: usize,
    make: impl Fn() -> (Vec<Arc<dyn Layout>>, Box<dyn Any>),
) -> std::result::Result<(), String> {
    let (mut done, mut world) = (0, 0);
    while done < operations {
        let seed = seed.wrapping_add(world);
        let all = script(seed, EACH);
        let run = |steps: &[Step]| {
            let (processes, _needed) = make();
            World::new(rules, processes).run(steps)
        };
        match run(&all) {
            Ok(count) => done += count,
            Err(first) => {
                let few = fewest(all, &|steps| run(steps).is_err());
                let why = run(&few).err().unwrap_or(first);
                let told: Vec<String> = few.iter().map(|s| format!("  {:?} {:?}", WRITERS[s.who], s.what)).collect();
                return Err(format!("seed {seed}: {why}\nafter (process, writer) operation:\n{}", told.join("\n")));
            }
        }
        world += 1;
    }
    Ok(())
}

/// Takes steps away as long as it still fails.
fn fewest(mut steps: Vec<Step>, fails: &dyn Fn(&[Step]) -> bool) -> Vec<Step> {
    let mut size = steps.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < steps.len() {
            let without: Vec<Step> =
                steps[..at].iter().chain(steps.get(at + size..).unwrap_or_default()).cloned().collect();
            match fails(&without) {
                true => steps = without,
                false => at += size,
            }
        }
        size /= 2;
    }
    steps
}

#[derive(Debug, Clone)]
struct Step {
    who: usize,
    what: What,
}

/// Handles are named by any number, of which the remainder counts.
#[derive(Debug, Clone)]
enum What {
    Open { path: String, how: OpenWrite },
    Close { handle: usize },
    Write { handle: usize, at: u64, bytes: Vec<(u8, usize)> },
    Append { handle: usize, byte: u8, count: usize },
    Cut { handle: usize, to: u64 },
    Punch { handle: usize, at: u64, length: u64 },
    Sync { handle: usize },
    Get { handle: usize, at: u64, count: usize },
    Read { path: String },
    CutByName { path: String, to: u64 },
    Rename { from: String, to: String },
    Remove { path: String },
    MakeFolder { path: String },
    MakeLink { target: String, path: String },
    HardLink { from: String, to: String },
    Mode { path: String, mode: u32 },
    Time { path: String, seconds: u64 },
    SetXattr { path: String, key: &'static str, value: Vec<u8>, how: SetXattr },
    RemoveXattr { path: String, key: &'static str },
    Look { path: String },
    LookAtAll,
}

fn path(random: &mut fastrand::Rng) -> String {
    let parts = [1, 1, 1, 2, 2, 3][random.usize(0..6)];
    let parts: Vec<&str> = (0..parts).map(|_| ["a", "b", "c", "d"][random.usize(0..4)]).collect();
    parts.join("/")
}

fn script(seed: u64, count: usize) -> Vec<Step> {
    let mut r = fastrand::Rng::with_seed(seed);
    let mut steps = Vec::new();
    let mut who = 0;
    while steps.len() < count {
        if r.u8(0..4) == 0 {
            who = r.usize(0..WRITERS.len());
        }
        let handle = r.usize(0..MOST_OPEN);
        let at = if r.bool() { r.u64(0..LONGEST) } else { r.u64(0..300) };
        let what = match r.u8(0..100) {
            0..12 => {
                let how = [OpenWrite::Any, OpenWrite::Any, OpenWrite::New, OpenWrite::Existing, OpenWrite::Replace];
                What::Open { path: path(&mut r), how: how[r.usize(0..5)] }
            }
            12..15 => What::Close { handle },
            15..33 => {
                let bytes = (0..r.usize(1..4)).map(|_| (r.u8(1..), r.usize(0..300))).collect();
                What::Write { handle, at, bytes }
            }
            33..38 => What::Append { handle, byte: r.u8(1..), count: r.usize(1..200) },
            38..42 => What::Cut { handle, to: at },
            42..44 => What::Punch { handle, at, length: r.u64(0..900) },
            44..46 => What::Sync { handle },
            46..54 => What::Get { handle, at, count: r.usize(0..2000) },
            54..60 => What::Read { path: path(&mut r) },
            60..63 => What::CutByName { path: path(&mut r), to: at },
            63..70 => What::Rename { from: path(&mut r), to: path(&mut r) },
            70..76 => What::Remove { path: path(&mut r) },
            76..80 => What::MakeFolder { path: path(&mut r) },
            80..83 => {
                let target = ["a", "b", "c", "d", "gone", "../a", "a/b"][r.usize(0..7)].to_string();
                What::MakeLink { target, path: path(&mut r) }
            }
            83..85 => What::HardLink { from: path(&mut r), to: path(&mut r) },
            85..88 => What::Mode { path: path(&mut r), mode: 0o400 | r.u32(0..0o1000) },
            88..90 => What::Time { path: path(&mut r), seconds: r.u64(0..2_000_000_000) },
            90..93 => {
                let how = [SetXattr::Any, SetXattr::New, SetXattr::Existing][r.usize(0..3)];
                let value = vec![r.u8(..); r.usize(0..40)];
                What::SetXattr { path: path(&mut r), key: ["user.k", "user.l"][r.usize(0..2)], value, how }
            }
            93..94 => What::RemoveXattr { path: path(&mut r), key: ["user.k", "user.l"][r.usize(0..2)] },
            94..98 => What::Look { path: path(&mut r) },
            _ => What::LookAtAll,
        };
        steps.push(Step { who, what });
    }
    steps
}

/// The target of a name in the model; `File` and `Folder` by number.
#[derive(Debug, Clone, PartialEq)]
enum Name {
    File(usize),
    Folder(usize),
    Link(String),
}

/// The state of a file or folder.
#[derive(Debug, Clone, Default)]
struct Inode {
    bytes: Vec<u8>,
    links: u64,
    mode: Option<u32>,
    /// As it was set, until something is written.
    set: Option<SystemTime>,
    /// When something was written last.
    written: Option<SystemTime>,
    xattrs: BTreeMap<String, Vec<u8>>,
}

struct Handle {
    who: usize,
    inode: usize,
    object: Box<dyn WriteObject>,
}

struct World {
    rules: PosixRules,
    processes: Vec<Arc<dyn Layout>>,
    names: BTreeMap<String, Name>,
    inodes: Vec<Inode>,
    handles: Vec<Handle>,
    /// When the operation began.
    now: SystemTime,
}

type Difference = String;
type Checked<T = ()> = std::result::Result<T, Difference>;

/// The error numbers that a failure may have; several if the order of checks is not promised.
type Refused = Vec<E>;

fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

impl World {
    fn new(rules: PosixRules, processes: Vec<Arc<dyn Layout>>) -> World {
        assert_eq!(processes.len(), PROCESSES);
        let mut processes = processes;
        if !rules.prompt {
            processes = vec![processes[0].clone(); PROCESSES];
        }
        World {
            rules,
            processes,
            names: BTreeMap::new(),
            inodes: vec![Inode::default()],
            handles: Vec::new(),
            now: UNIX_EPOCH,
        }
    }

    /// Returns how many operations were done.
    fn run(mut self, steps: &[Step]) -> Checked<usize> {
        let (mut done, mut last) = (0, None);
        for (number, step) in steps.iter().enumerate() {
            let here = |why: String| format!("operation {number}, {:?}: {why}", step.what);
            if last != Some(step.who) {
                if let Some(last) = last {
                    self.publish(last).map_err(here)?;
                }
                self.begin(step.who).map_err(here)?;
                last = Some(step.who);
            }
            // Each writer is a thread of its own.
            let world = &mut self;
            let outcome = std::thread::scope(|s| s.spawn(move || world.step(step)).join());
            done += usize::from(outcome.unwrap_or_else(|_| Err("it panicked".into())).map_err(here)?);
        }
        if let Some(last) = last {
            self.publish(last)?;
            self.look_at_all(WRITERS[last].0)?;
        }
        for handle in std::mem::take(&mut self.handles) {
            handle.object.close().map_err(|e| format!("close: {e}"))?;
        }
        (0..PROCESSES).try_for_each(|process| self.look_at_all(process))?;
        Ok(done)
    }

    fn begin(&mut self, who: usize) -> Checked {
        if !self.rules.shared {
            let process = WRITERS[who].0;
            self.close_all(|h| WRITERS[h.who].0 != process)?;
        }
        self.publish(who)
    }

    fn publish(&mut self, who: usize) -> Checked {
        let mut own = self.handles.iter().filter(|h| h.who == who);
        own.try_for_each(|h| h.object.sync()).map_err(|e| format!("sync: {e}"))
    }

    fn close_all(&mut self, which: impl Fn(&Handle) -> bool) -> Checked {
        let mut at = 0;
        while at < self.handles.len() {
            match which(&self.handles[at]) {
                true => self.handles.remove(at).object.close().map_err(|e| format!("close: {e}"))?,
                false => at += 1,
            }
        }
        Ok(())
    }

    fn handle(&self, who: usize, number: usize) -> Option<usize> {
        let own: Vec<usize> = (0..self.handles.len()).filter(|h| self.handles[*h].who == who).collect();
        (!own.is_empty()).then(|| own[number % own.len()])
    }

    fn layout(&self, who: usize) -> Arc<dyn Layout> {
        self.processes[WRITERS[who].0].clone()
    }

    /// The folder above a name is one; `None` where a link is passed through, of which nothing is promised.
    fn reach(&self, path: &str) -> Option<std::result::Result<(), Refused>> {
        let mut at = above(path);
        let mut ends = Vec::new();
        while !at.is_empty() {
            ends.push(at);
            at = above(at);
        }
        for folder in ends.iter().rev() {
            match self.names.get(*folder) {
                Some(Name::Folder(_)) => {}
                Some(Name::Link(_)) => return None,
                Some(Name::File(_)) => return Some(Err(vec![E::NOTDIR, E::NOENT])),
                None => return Some(Err(vec![E::NOENT])),
            }
        }
        Some(Ok(()))
    }

    /// Where a name leads when links are followed: the last name, which may be free.
    fn follow(&self, path: &str) -> Option<std::result::Result<String, Refused>> {
        let mut path = path.to_string();
        for _ in 0..45 {
            if let Err(refused) = self.reach(&path)? {
                return Some(Err(refused));
            }
            let Some(Name::Link(target)) = self.names.get(&path) else { return Some(Ok(path)) };
            let mut parts: Vec<&str> = above(&path).split('/').filter(|p| !p.is_empty()).collect();
            for part in target.split('/') {
                match part {
                    // Out of the layout, where nothing is promised.
                    ".." if parts.pop().is_none() => return None,
                    ".." => {}
                    part => parts.push(part),
                }
            }
            path = parts.join("/");
        }
        Some(Err(vec![E::LOOP]))
    }

    fn children(&self, folder: &str) -> Vec<String> {
        self.names
            .keys()
            .filter(|name| above(name) == folder)
            .map(|n| n.rsplit('/').next().unwrap_or(n).to_string())
            .collect()
    }

    fn write(&mut self, inode: usize, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let (now, at, end) = (self.now, at as usize, at as usize + bytes.len());
        let inode = &mut self.inodes[inode];
        inode.bytes.resize(inode.bytes.len().max(end), 0);
        inode.bytes[at..end].copy_from_slice(bytes);
        inode.touch(now);
    }

    fn cut(&mut self, inode: usize, to: u64) {
        let now = self.now;
        let inode = &mut self.inodes[inode];
        // Whether times change where the length does not is nobody's promise.
        match inode.bytes.len() as u64 == to {
            true => (inode.set, inode.written) = (None, None),
            false => inode.touch(now),
        }
        inode.bytes.resize(to as usize, 0);
    }

    /// A name in a folder came or went.
    fn folder_changes(&mut self, path: &str) {
        let now = self.now;
        if let Some(Name::Folder(inode)) = self.names.get(above(path)) {
            self.inodes[*inode].touch(now);
        }
    }

    fn new_inode(&mut self, links: u64) -> usize {
        let mut inode = Inode { links, ..Inode::default() };
        inode.touch(self.now);
        self.inodes.push(inode);
        self.inodes.len() - 1
    }

    fn drop_name(&mut self, path: &str) {
        if let Some(Name::File(inode)) = self.names.remove(path) {
            self.inodes[inode].links -= 1;
        }
        self.folder_changes(path);
    }

    /// Compares a result with the expected one. `false` if the layout lacks the operation, which then has no effect.
    fn agrees<T>(
        &self,
        what: &str,
        result: Result<T>,
        expected: &std::result::Result<(), Refused>,
    ) -> Checked<Option<T>> {
        match (result, expected) {
            (Ok(value), Ok(())) => Ok(Some(value)),
            (Err(e), _) if e.kind() == ErrorKind::Unsupported => Ok(None),
            (Ok(_), Err(refused)) => Err(format!("{what} succeeded, and should have failed with {refused:?}")),
            (Err(e), Ok(())) => Err(format!("{what}: {e} ({:?})", e.kind())),
            (Err(e), Err(refused)) => {
                let number = E::from_raw_os_error(errno::of(&e));
                match refused.contains(&number) || !self.rules.numbers {
                    true => Ok(None),
                    false => Err(format!("{what}: failed with {number:?} and not one of {refused:?}: {e}")),
                }
            }
        }
    }

    /// Does an operation; `false` where there was nothing to do.
    fn step(&mut self, step: &Step) -> Checked<bool> {
        let who = step.who;
        let layout = self.layout(who);
        self.now = SystemTime::now();
        match &step.what {
            What::Open { path, how } => {
                let Some(end) = self.follow(path) else { return Ok(false) };
                if self.handles.iter().filter(|h| h.who == who).count() >= MOST_OPEN {
                    return Ok(false);
                }
                let there = end.clone().map(|end| (self.names.get(&end).cloned(), end));
                let is_link = matches!(self.names.get(path), Some(Name::Link(_)));
                let expected = match (&there, how) {
                    // A link is a name that is taken, wherever it leads.
                    (_, OpenWrite::New) if is_link => Err(vec![E::EXIST]),
                    (Err(refused), _) => Err(refused.clone()),
                    (Ok((Some(_), _)), OpenWrite::New) => Err(vec![E::EXIST, E::ISDIR]),
                    (Ok((Some(Name::Folder(_)), _)), _) => Err(vec![E::ISDIR]),
                    (Ok((None, _)), OpenWrite::Existing) => Err(vec![E::NOENT]),
                    _ => Ok(()),
                };
                let opened = layout.open_write(path, *how, WriterId(WRITERS[who].1));
                let Some(object) = self.agrees("open", opened, &expected)? else { return Ok(true) };
                let Ok((name, end)) = there else { return Ok(true) };
                let inode = match name {
                    Some(Name::File(inode)) => {
                        if *how == OpenWrite::Replace {
                            self.cut(inode, 0);
                        }
                        inode
                    }
                    _ => {
                        let inode = self.new_inode(1);
                        self.names.insert(end.clone(), Name::File(inode));
                        self.folder_changes(&end);
                        inode
                    }
                };
                self.handles.push(Handle { who, inode, object });
            }
            What::Close { handle } => {
                let Some(h) = self.handle(who, *handle) else { return Ok(false) };
                self.handles.remove(h).object.close().map_err(|e| format!("close: {e}"))?;
            }
            What::Write { handle, at, bytes } => {
                let Some(h) = self.handle(who, *handle) else { return Ok(false) };
                let pieces: Vec<Vec<u8>> = bytes.iter().map(|(byte, count)| vec![*byte; *count]).collect();
                let slices: Vec<IoSlice<'_>> = pieces.iter().map(|p| IoSlice::new(p)).collect();
                self.handles[h].object.write_at(*at, &slices).map_err(|e| format!("write: {e}"))?;
                self.write(self.handles[h].inode, *at, &pieces.concat());
            }
            What::Append { handle, byte, count } => {
                let Some(h) = self.handle(who, *handle) else { return Ok(false) };
                let (inode, bytes) = (self.handles[h].inode, vec![*byte; *count]);
                let end = self.handles[h].object.length().map_err(|e| format!("length: {e}"))?;
                if end != self.inodes[inode].bytes.len() as u64 {
                    return Err(format!("the length is {end} and not {}", self.inodes[inode].bytes.len()));
                }
                let behind =
                    self.handles[h].object.append(&[IoSlice::new(&bytes)]).map_err(|e| format!("append: {e}"))?;
                if behind != end + bytes.len() as u64 {
                    return Err(format!("the end behind {} bytes appended at {end} is {behind}", bytes.len()));
                }
                self.write(inode, end, &bytes);
            }
            What::Cut { handle, to } => {
                let Some(h) = self.handle(who, *handle) else { return Ok(false) };
                self.handles[h].object.truncate(*to).map_err(|e| format!("truncate: {e}"))?;
                self.cut(self.handles[h].inode, *to);
            }
            What::Punch { handle, at, length } => {
                let Some(h) = self.handle(who, *handle) else { return Ok(false) };
                self.handles[h].object.punch(*at, *length).map_err(|e| format!("punch: {e}"))?;
                let (now, inode) = (self.now, &mut self.inodes[self.handles[h].inode]);
                let end = ((at + length) as usize).min(inode.bytes.len());
                if (*at as usize) < end {
                    inode.bytes[*at as usize..end].fill(0);
                    inode.touch(now);
                } else {
                    (inode.set, inode.written) = (None, None);
                }
            }
            What::Sync { handle } => {
                let Some(h) = self.handle(who, *handle) else { return Ok(false) };
                self.handles[h].object.sync().map_err(|e| format!("sync: {e}"))?;
            }
            What::Get { handle, at, count } => {
                let Some(h) = self.handle(who, *handle) else { return Ok(false) };
                let mut bytes = vec![0xee; *count];
                let got = self.handles[h].object.read_at(*at, &mut bytes).map_err(|e| format!("read: {e}"))?;
                let all = &self.inodes[self.handles[h].inode].bytes;
                let end = (*at as usize + count).min(all.len());
                same(&bytes[..got], all.get(*at as usize..end).unwrap_or_default(), *at)?;
            }
            What::Read { path } => return self.read(WRITERS[who].0, path),
            What::CutByName { path, to } => {
                let Some(end) = self.follow(path) else { return Ok(false) };
                let there = end.map(|end| self.names.get(&end).cloned());
                let expected = match &there {
                    Err(refused) => Err(refused.clone()),
                    Ok(None) => Err(vec![E::NOENT]),
                    Ok(Some(Name::Folder(_))) => Err(vec![E::ISDIR]),
                    _ => Ok(()),
                };
                let done = self.agrees("truncate", layout.truncate(path, *to), &expected)?;
                if let (Some(()), Ok(Some(Name::File(inode)))) = (done, there) {
                    self.cut(inode, *to);
                }
            }
            What::Rename { from, to } => return self.rename(who, from, to),
            What::Remove { path } => {
                let Some(reached) = self.reach(path) else { return Ok(false) };
                let name = self.names.get(path).cloned();
                let expected = match (reached, &name) {
                    (Err(refused), _) => Err(refused),
                    (_, None) => Err(vec![E::NOENT]),
                    (_, Some(Name::Folder(_))) if !self.children(path).is_empty() => Err(vec![E::NOTEMPTY]),
                    _ => Ok(()),
                };
                if let (Some(Name::File(inode)), Ok(())) = (&name, &expected) {
                    self.others_let_go(who, *inode)?;
                }
                if self.agrees("remove", layout.remove(path), &expected)?.is_some() {
                    self.drop_name(path);
                }
            }
            What::MakeFolder { path } => {
                let Some(reached) = self.reach(path) else { return Ok(false) };
                let expected = match (reached, self.names.contains_key(path)) {
                    (Err(refused), _) => Err(refused),
                    (_, true) => Err(vec![E::EXIST]),
                    _ => Ok(()),
                };
                if self.agrees("make folder", layout.make_one_folder(path, 0o755), &expected)?.is_some() {
                    let inode = self.new_inode(1);
                    self.names.insert(path.clone(), Name::Folder(inode));
                    self.folder_changes(path);
                }
            }
            What::MakeLink { target, path } => {
                let Some(reached) = self.reach(path) else { return Ok(false) };
                let expected = match (reached, self.names.contains_key(path)) {
                    (Err(refused), _) => Err(refused),
                    (_, true) => Err(vec![E::EXIST]),
                    _ => Ok(()),
                };
                if self.agrees("make link", layout.make_link(target, path), &expected)?.is_some() {
                    self.names.insert(path.clone(), Name::Link(target.clone()));
                    self.folder_changes(path);
                }
            }
            What::HardLink { from, to } => {
                let (Some(reached), Some(there)) = (self.reach(from), self.reach(to)) else { return Ok(false) };
                // Links and folders have one name: what systems say of others differs.
                let Some(Name::File(inode)) = self.names.get(from).cloned() else { return Ok(false) };
                let expected = match (reached.and(there), self.names.contains_key(to)) {
                    (Err(refused), _) => Err(refused),
                    (_, true) => Err(vec![E::EXIST, E::XDEV]),
                    _ => Ok(()),
                };
                let made = layout.make_hard_link(from, to);
                let across = made.as_ref().is_err_and(|e| E::from_raw_os_error(errno::of(e)) == E::XDEV);
                if !across && self.agrees("link", made, &expected)?.is_some() {
                    self.inodes[inode].links += 1;
                    self.names.insert(to.clone(), Name::File(inode));
                    self.folder_changes(to);
                }
            }
            What::Mode { path, mode } => {
                let change = Change { mode: Some(*mode), ..Change::default() };
                return self.change_attributes(
                    who,
                    path,
                    |layout| layout.set_attributes(path, &change),
                    |i| i.mode = Some(*mode),
                );
            }
            What::Time { path, seconds } => {
                let time = UNIX_EPOCH + Duration::new(*seconds, 123_000_000);
                let change = Change { mtime: Some(time), ..Change::default() };
                return self.change_attributes(
                    who,
                    path,
                    |layout| layout.set_attributes(path, &change),
                    |i| i.set = Some(time),
                );
            }
            What::SetXattr { path, key, value, how } => {
                let there = self.inode_of(path).map(|i| self.inodes[i].xattrs.contains_key(*key));
                let expected = match (there, how) {
                    (Some(true), SetXattr::New) => Err(vec![E::EXIST]),
                    (Some(false), SetXattr::Existing) => Err(vec![E::NODATA, E::NOENT]),
                    _ => Ok(()),
                };
                let set = |layout: &dyn Layout| layout.xattr_set(path, key, value, *how);
                return self.change_attributes_if(who, path, expected, set, |i| {
                    drop(i.xattrs.insert(key.to_string(), value.clone()))
                });
            }
            What::RemoveXattr { path, key } => {
                let there = self.inode_of(path).is_none_or(|i| self.inodes[i].xattrs.contains_key(*key));
                let expected = if there { Ok(()) } else { Err(vec![E::NODATA, E::NOENT]) };
                let remove = |layout: &dyn Layout| layout.xattr_remove(path, key);
                return self.change_attributes_if(who, path, expected, remove, |i| drop(i.xattrs.remove(*key)));
            }
            What::Look { path } => self.look(WRITERS[who].0, path)?,
            What::LookAtAll => {
                self.publish(who)?;
                self.look_at_all(fastrand::Rng::with_seed(self.inodes.len() as u64).usize(0..PROCESSES))?;
            }
        }
        Ok(true)
    }

    fn inode_of(&self, path: &str) -> Option<usize> {
        match self.names.get(path) {
            Some(Name::File(inode) | Name::Folder(inode)) => Some(*inode),
            _ => None,
        }
    }

    fn change_attributes(
        &mut self,
        who: usize,
        path: &str,
        call: impl Fn(&dyn Layout) -> Result<()>,
        change: impl FnOnce(&mut Inode),
    ) -> Checked<bool> {
        self.change_attributes_if(who, path, Ok(()), call, change)
    }

    /// Changes the attributes of a file or folder; links have none.
    fn change_attributes_if(
        &mut self,
        who: usize,
        path: &str,
        expected: std::result::Result<(), Refused>,
        call: impl Fn(&dyn Layout) -> Result<()>,
        change: impl FnOnce(&mut Inode),
    ) -> Checked<bool> {
        let Some(reached) = self.reach(path) else { return Ok(false) };
        if matches!(self.names.get(path), Some(Name::Link(_))) {
            return Ok(false);
        }
        let inode = self.inode_of(path);
        let expected = match (reached, inode) {
            (Err(refused), _) => Err(refused),
            (_, None) => Err(vec![E::NOENT]),
            _ => expected,
        };
        let done = self.agrees("change", call(&*self.layout(who)), &expected)?;
        if let (Some(()), Some(inode)) = (done, inode) {
            change(&mut self.inodes[inode]);
        }
        Ok(true)
    }

    /// A removed or replaced file stays readable only in the process that removed it.
    fn others_let_go(&mut self, who: usize, inode: usize) -> Checked {
        let process = WRITERS[who].0;
        self.close_all(|h| h.inode == inode && WRITERS[h.who].0 != process)
    }

    fn rename(&mut self, who: usize, from: &str, to: &str) -> Checked<bool> {
        let (Some(reached), Some(there)) = (self.reach(from), self.reach(to)) else { return Ok(false) };
        let (old, new) = (self.names.get(from).cloned(), self.names.get(to).cloned());
        let inside = to.starts_with(&format!("{from}/"));
        let around = from.starts_with(&format!("{to}/"));
        // Which of two names is looked at first is nobody's promise.
        let unreached: Refused =
            [&reached, &there].into_iter().filter_map(|r| r.as_ref().err()).flatten().copied().collect();
        let expected = match (&reached, &there, &old, &new) {
            (Err(_), _, _, _) => Err(unreached),
            (_, _, None, _) => Err([unreached, vec![E::NOENT]].concat()),
            _ if inside && matches!(old, Some(Name::Folder(_))) => Err([unreached, vec![E::INVAL]].concat()),
            _ if inside => Err(vec![E::NOTDIR, E::NOENT]),
            (_, Err(refused), Some(Name::Folder(_)), _) => Err(refused.clone()),
            (_, Err(refused), _, _) => Err(refused.clone()),
            _ if around => Err(vec![E::NOTEMPTY, E::ISDIR, E::EXIST]),
            (_, _, Some(Name::Folder(_)), Some(Name::Folder(_))) if from != to && !self.children(to).is_empty() => {
                Err(vec![E::NOTEMPTY, E::EXIST])
            }
            (_, _, Some(Name::Folder(_)), Some(Name::File(_) | Name::Link(_))) => Err(vec![E::NOTDIR]),
            (_, _, Some(Name::File(_) | Name::Link(_)), Some(Name::Folder(_))) => Err(vec![E::ISDIR]),
            _ => Ok(()),
        };
        if expected.is_ok() {
            for inode in [&old, &new].into_iter().filter_map(|n| match n {
                Some(Name::File(inode)) => Some(*inode),
                _ => None,
            }) {
                if Some(&Name::File(inode)) == new.as_ref() {
                    self.others_let_go(who, inode)?;
                }
                if !self.rules.follows_renames {
                    self.close_all(|h| h.inode == inode)?;
                }
            }
        }
        let renamed = self.layout(who).rename(from, to);
        let across = renamed.as_ref().is_err_and(|e| E::from_raw_os_error(errno::of(e)) == E::XDEV);
        if across && !self.rules.follows_renames {
            return Ok(true);
        }
        if self.agrees("rename", renamed, &expected)?.is_none() {
            return Ok(true);
        }
        // Two names of one file both stay.
        if from == to || (old == new && matches!(old, Some(Name::File(_)))) {
            return Ok(true);
        }
        self.drop_name(to);
        let below = format!("{from}/");
        let moved: Vec<String> = self.names.keys().filter(|n| *n == from || n.starts_with(&below)).cloned().collect();
        for name in moved {
            if let Some(what) = self.names.remove(&name) {
                self.names.insert(format!("{to}{}", &name[from.len()..]), what);
            }
        }
        self.folder_changes(from);
        self.folder_changes(to);
        Ok(true)
    }

    fn read(&self, process: usize, path: &str) -> Checked<bool> {
        let Some(end) = self.follow(path) else { return Ok(false) };
        let there = end.map(|end| self.names.get(&end));
        let expected = match there {
            Err(refused) => Err(refused),
            Ok(None) => Err(vec![E::NOENT]),
            Ok(Some(Name::Folder(_))) => Err(vec![E::ISDIR]),
            Ok(Some(Name::File(inode))) => Ok(*inode),
            Ok(Some(Name::Link(_))) => return Ok(false),
        };
        let opened = self.processes[process].open_read(path);
        let Some(file) = self.agrees("open for reading", opened, &expected.clone().map(|_| ()))? else {
            return Ok(true);
        };
        let Ok(inode) = expected else { return Ok(true) };
        let wanted = &self.inodes[inode].bytes;
        let length = file.length().map_err(|e| format!("length of {path}: {e}"))?;
        if length != wanted.len() as u64 {
            return Err(format!("{path} is {length} bytes long for process {process} and not {}", wanted.len()));
        }
        let mut bytes = vec![0xee; wanted.len() + 10];
        let got = file.read_at(0, &mut bytes).map_err(|e| format!("read {path}: {e}"))?;
        same(&bytes[..got], wanted, 0).map_err(|why| format!("{path} for process {process}: {why}"))?;
        Ok(true)
    }

    /// All that is known about a name.
    fn look(&self, process: usize, path: &str) -> Checked {
        let layout = &self.processes[process];
        if let Some(end) = self.follow(path) {
            let there = end.map(|end| self.names.get(&end));
            let expected = match &there {
                Err(refused) => Err(refused.clone()),
                Ok(None) => Err(vec![E::NOENT]),
                _ => Ok(()),
            };
            let about = self.agrees("stat", layout.stat(path), &expected)?;
            if let (Some(about), Ok(Some(name))) = (about, there) {
                let (is_folder, length) = match name {
                    Name::File(inode) => (false, self.inodes[*inode].bytes.len() as u64),
                    _ => (true, 0),
                };
                if (about.is_folder, about.length) != (is_folder, length) {
                    return Err(format!("stat of {path} for process {process}: {about:?}, the length is {length}"));
                }
            }
        }
        let Some(reached) = self.reach(path) else { return Ok(()) };
        let name = self.names.get(path);
        let expected = match (reached, name) {
            (Err(refused), _) => Err(refused),
            (_, None) => Err(vec![E::NOENT]),
            _ => Ok(()),
        };
        let about = self.agrees("attributes", layout.attributes(path), &expected)?;
        if let (Some(about), Some(name)) = (about, name) {
            let wrong = |what: &str| Err(format!("{what} of {path} for process {process}: {about:?}"));
            match name {
                Name::Link(target) => {
                    if about.kind != Kind::Link || about.length != target.len() as u64 {
                        return wrong("a link");
                    }
                    let found = layout.read_link(path).map_err(|e| format!("read link {path}: {e}"))?;
                    if found != *target {
                        return Err(format!("link {path} leads to {found} and not to {target}"));
                    }
                }
                Name::File(inode) | Name::Folder(inode) => {
                    let model = &self.inodes[*inode];
                    let is_file = matches!(name, Name::File(_));
                    if about.kind != if is_file { Kind::File } else { Kind::Folder } {
                        return wrong("the kind");
                    }
                    if is_file && (about.length != model.bytes.len() as u64 || about.links != model.links) {
                        return wrong(&format!("length or names ({}, {})", model.bytes.len(), model.links));
                    }
                    if model.mode.is_some_and(|mode| mode != about.mode) {
                        return wrong(&format!("the mode ({:o})", model.mode.unwrap_or_default()));
                    }
                    if model.set.is_some_and(|time| time != about.mtime) && (is_file || self.rules.folder_times) {
                        return wrong("the time that was set");
                    }
                    // Systems tell time by clocks that tick.
                    let tick = Duration::from_millis(50);
                    let promised = model.set.is_none() && (is_file || self.rules.folder_times);
                    let since = model.written.filter(|_| promised && about.mtime != UNIX_EPOCH);
                    if since.is_some_and(|written| about.mtime + tick < written) {
                        return wrong("the time of the last write");
                    }
                }
            }
        }
        if let Some(inode) = self.inode_of(path) {
            let model = &self.inodes[inode];
            let keys: Vec<&String> = model.xattrs.keys().collect();
            if let Some(found) = self.agrees("list extended attributes", layout.xattr_list(path), &Ok(()))? {
                if found.iter().collect::<Vec<_>>() != keys {
                    return Err(format!(
                        "extended attributes of {path} for process {process}: {found:?} and not {keys:?}"
                    ));
                }
                for (key, value) in &model.xattrs {
                    let found =
                        layout.xattr_get(path, key).map_err(|e| format!("extended attribute of {path}: {e}"))?;
                    if found.as_ref() != Some(value) {
                        return Err(format!("extended attribute {key} of {path}: {found:?} and not {value:?}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn look_at_all(&self, process: usize) -> Checked {
        let folders = self.names.iter().filter(|(_, n)| matches!(n, Name::Folder(_))).map(|(path, _)| path.as_str());
        for folder in std::iter::once("").chain(folders) {
            let found = self.processes[process].list(folder).map_err(|e| format!("list {folder}: {e}"))?;
            let wanted = self.children(folder);
            if found != wanted {
                return Err(format!("names in {folder:?} for process {process}: {found:?} and not {wanted:?}"));
            }
        }
        for path in self.names.keys() {
            self.look(process, path)?;
            self.read(process, path)?;
        }
        Ok(())
    }
}

impl Inode {
    fn touch(&mut self, now: SystemTime) {
        (self.set, self.written) = (None, Some(now));
    }
}

fn same(found: &[u8], wanted: &[u8], from: u64) -> Checked {
    if found.len() != wanted.len() {
        return Err(format!("{} bytes from byte {from} and not {}", found.len(), wanted.len()));
    }
    match found.iter().zip(wanted).position(|(a, b)| a != b) {
        Some(at) => Err(format!("byte {} is {} and not {}", from + at as u64, found[at], wanted[at])),
        None => Ok(()),
    }
}
