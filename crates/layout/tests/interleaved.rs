//! Two processes change one file of `small_file` or `container`: the second one comes between any two calls that the first one makes of
//! its stores. What both were told has been done is there, once.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::Duration;
use thalweg_conformance::scratch::Scratch;
use thalweg_conformance::sweep;
use thalweg_layout::container::Options;
use thalweg_layout::container::tools::Accept;
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Change, Container, Layout, OpenWrite, SetXattr, SmallFile, WriterId};
use thalweg_store::wrap::tiered::{Drain, Pace, Tiered};
use thalweg_store::wrap::{Operation, Sequential, Verdict, Watch, Wrapped};
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::Result;
use thalweg_types::mutex::Mutex;

/// How long the first process waits for the second one, which may itself be waiting for the first one's record.
const PATIENCE: Duration = Duration::from_millis(5);
/// Bytes of the file before: with its next record, a log of 64 KiB is full.
const FULL: usize = 66 << 10;

type Interruption = Box<dyn FnOnce() + Send>;

/// Calls a function before the `left`th call from now.
#[derive(Clone, Default)]
struct Interrupts(Arc<Mutex<Option<(usize, Interruption)>>>);

impl Watch for Interrupts {
    fn describe(&self) -> &'static str {
        "interrupts"
    }

    fn before(&self, _: &Operation<'_>) -> Verdict {
        let mut armed = self.0.lock();
        match armed.take() {
            Some((0, act)) => {
                drop(armed);
                act();
            }
            Some((left, act)) => *armed = Some((left - 1, act)),
            None => {}
        }
        Verdict::Pass
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Appends,
    Writes,
    ChangesMode,
    SetsXattr,
    Renames,
    /// Into another folder.
    Moves,
    Removes,
    Compacts,
    Repairs,
    /// Moves what a burst buffer has to the store behind it.
    Drains,
}
use Act::*;

impl Act {
    /// Whether the file's name leads nowhere afterwards.
    fn renames(self) -> bool {
        matches!(self, Renames | Moves | Removes)
    }

    /// Whether it may be refused because the file is being written.
    fn tends(self) -> bool {
        matches!(self, Compacts | Repairs | Drains)
    }
}

/// A layout, and how its files lie.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Bytes of the largest file in a log.
    SmallFile { small: u64 },
    /// Number of stores, and bytes of the largest file behind its stamp.
    Container { stores: usize, inline: usize },
    /// A container on a store without appends: like S3, else like HDFS.
    Far { s3: bool },
    /// Over a burst buffer: small files, else containers; the store behind it is like S3, else a folder.
    Buffered { small: bool, s3: bool },
}

/// A layout as one process has it.
enum Process {
    SmallFile(SmallFile, Option<Tiered>),
    Container(Container, Option<Tiered>),
}

impl Process {
    fn of(kind: Kind, stores: &[Arc<dyn Store>]) -> Process {
        match kind {
            Kind::SmallFile { small } => {
                let settings = Settings { small, log: 1 << 16, ..Settings::default() };
                Process::SmallFile(SmallFile::new(stores[0].clone(), settings).unwrap(), None)
            }
            Kind::Container { .. } | Kind::Far { .. } => {
                let inline = if let Kind::Container { inline, .. } = kind { Some(inline) } else { None };
                let options = Options { inline, host: "host".into(), ..Options::default() };
                Process::Container(Container::new(stores.to_vec(), options).unwrap(), None)
            }
            Kind::Buffered { small, .. } => {
                let tiered = Tiered::new(stores[0].clone(), stores[1].clone()).unwrap();
                let store: Vec<Arc<dyn Store>> = vec![Arc::new(tiered.clone())];
                match (small, Process::of(if small { IN_LOG } else { SMALL_CONTAINER }, &store)) {
                    (_, Process::SmallFile(layout, _)) => Process::SmallFile(layout, Some(tiered)),
                    (_, Process::Container(layout, _)) => Process::Container(layout, Some(tiered)),
                }
            }
        }
    }

    fn layout(&self) -> &dyn Layout {
        match self {
            Process::SmallFile(layout, _) => layout,
            Process::Container(layout, _) => layout,
        }
    }
}

/// What one process does; `who` is 0 or 1.
fn does(process: &Process, act: Act, who: usize) -> Result<()> {
    let layout = process.layout();
    let letter = [b'a' + who as u8; 10];
    match act {
        Appends | Writes => {
            let file = layout.open_write("f", OpenWrite::Existing, WriterId(0))?;
            match act {
                Appends => file.append(&[IoSlice::new(&letter)]).map(|_| ())?,
                _ => file.write_at(100 + 10 * who as u64, &[IoSlice::new(&letter)])?,
            }
            file.close()
        }
        ChangesMode => layout.set_attributes("f", &Change { mode: Some(0o640), ..Change::default() }),
        SetsXattr => layout.xattr_set("f", ["user.a", "user.b"][who], b"set", SetXattr::Any),
        Drains => drain(process),
        Removes => layout.remove("f"),
        Renames => layout.rename("f", ["g", "h"][who]),
        Moves => layout.rename("f", ["d/g", "d/h"][who]),
        Compacts => match process {
            Process::SmallFile(layout, _) => layout.compact("").map(drop),
            Process::Container(layout, _) => layout.compact("f").map(drop),
        },
        Repairs => match process {
            Process::SmallFile(..) => Ok(()),
            Process::Container(layout, _) => layout.repair("f", Accept::SURE).map(drop),
        },
    }
}

/// Drains what waits in a burst buffer, once.
fn drain(process: &Process) -> Result<()> {
    let (Process::SmallFile(_, tiered) | Process::Container(_, tiered)) = process;
    let Some(tiered) = tiered else { return Ok(()) };
    static NEVER: AtomicBool = AtomicBool::new(false);
    let passed = Drain::new(tiered, Pace::default())?.pass(&NEVER)?;
    assert!(passed.failed.is_empty(), "{:?}", passed.failed);
    Ok(())
}

/// The names that there are, and everything in them.
fn bytes_of(layout: &dyn Layout, about: &str) -> (Vec<String>, Vec<u8>) {
    let mut names = layout.list("").unwrap();
    names.retain(|name| name != "d");
    names.extend(layout.list("d").unwrap().iter().map(|name| format!("d/{name}")));
    let mut all = Vec::new();
    for name in &names {
        let file = layout.open_read(name).unwrap();
        let mut bytes = vec![0; file.length().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap_or_else(|e| panic!("{about}: {name}: {e}"));
        all.extend(bytes);
    }
    (names, all)
}

fn holds(layout: &dyn Layout, act: Act, who: usize, about: &str) {
    let (names, bytes) = bytes_of(layout, about);
    let count = bytes.iter().filter(|byte| **byte == b'a' + who as u8).count();
    match act {
        Appends | Writes => assert!(count == 10, "{about}: {count} bytes of {who} in {names:?}"),
        ChangesMode => {
            let modes: Vec<u32> = names.iter().map(|name| layout.attributes(name).unwrap().mode).collect();
            assert!(modes.iter().all(|mode| *mode == 0o640), "{about}: {names:?} {modes:?}");
        }
        SetsXattr => {
            let key = ["user.a", "user.b"][who];
            let set = names.iter().any(|name| layout.xattr_get(name, key).unwrap().is_some());
            assert!(set, "{about}: {key} is not there");
        }
        Renames => assert!(names.contains(&["g", "h"][who].to_string()), "{about}: {names:?}"),
        Moves => assert!(names.contains(&["d/g", "d/h"][who].to_string()), "{about}: {names:?}"),
        Removes => assert!(!names.contains(&"f".to_string()), "{about}: {names:?}"),
        Compacts | Repairs | Drains => {}
    }
}

/// What the two processes find.
#[derive(Debug, Clone, Copy)]
struct Begin {
    kind: Kind,
    /// Bytes of the file.
    length: usize,
    /// The first process did not make the file.
    new: bool,
    /// The first process has the file open.
    held: bool,
}

/// Both acts in every order of their calls; with `every`, in one of so many.
fn interleaved(first: Act, second: Act, begin: Begin, every: usize) {
    let Begin { kind, length, .. } = begin;
    // A pass of a drain makes some hundred calls.
    let every = if first == Drains { every } else { sweep::stride() };
    for at in (second as usize % every..).step_by(every) {
        let scratches = [(); 3].map(|()| Scratch::new());
        let made = |scratch: &Scratch| -> Arc<dyn Store> {
            match kind {
                Kind::Far { s3: true } => Arc::new(Sequential::like_s3()),
                Kind::Buffered { .. } => Arc::new(Posix::at(scratch.path()).unwrap()),
                Kind::Far { s3: false } => Arc::new(Sequential::like_hdfs()),
                _ if at % 2 == 0 => Arc::new(Posix::at(scratch.path()).unwrap()),
                _ => Arc::new(Memory::new()),
            }
        };
        let count = match kind {
            Kind::Container { stores, .. } => stores,
            Kind::Buffered { .. } => 2,
            _ => 1,
        };
        let mut stores: Vec<Arc<dyn Store>> = scratches.iter().take(count).map(made).collect();
        if let Kind::Buffered { s3: true, .. } = kind {
            stores[1] = Arc::new(Sequential::like_s3());
        }
        let interrupts = Interrupts::default();
        let watch =
            |store: &Arc<dyn Store>| -> Arc<dyn Store> { Arc::new(Wrapped::with(store.clone(), interrupts.clone())) };
        let watched: Vec<Arc<dyn Store>> = stores.iter().map(watch).collect();
        let (one, two) = (Process::of(kind, &watched), Arc::new(Process::of(kind, &stores)));
        let maker = if begin.new { &Process::of(kind, &stores) } else { &one };
        maker.layout().make_folder("d").unwrap();
        // Far away, so many sessions that the next one merges them.
        let sessions = if let Kind::Far { .. } = kind { 4 } else { 1 };
        for _ in 0..sessions {
            let file = maker.layout().open_write("f", OpenWrite::Any, WriterId(0)).unwrap();
            file.append(&[IoSlice::new(&vec![b'.'; length / sessions])]).unwrap();
            file.close().unwrap();
        }
        if begin.new {
            maker.layout().finish().unwrap();
        }
        let held = begin.held.then(|| one.layout().open_write("f", OpenWrite::Existing, WriterId(0)).unwrap());
        let (told, hear) = channel();
        let act = {
            let two = two.clone();
            move || {
                let _ = told.send(does(&two, second, 1));
            }
        };
        let (started, begun) = channel();
        let interruption = move || {
            let running = std::thread::spawn(act);
            let end = std::time::Instant::now() + PATIENCE;
            while !running.is_finished() && std::time::Instant::now() < end {
                std::thread::sleep(Duration::from_micros(50));
            }
            let _ = started.send(running);
        };
        *interrupts.0.lock() = Some((at, Box::new(interruption)));
        let outcome = does(&one, first, 0);
        let over = interrupts.0.lock().take().is_some();
        let Ok(running) = begun.try_recv() else {
            // Only a repair of small files does nothing.
            assert!(over && (at > 0 || first == Repairs), "nothing was called");
            return;
        };
        running.join().unwrap();
        let other = hear.recv().unwrap();
        let about = format!("{first:?} and, before its call {at}, {second:?}; {begin:?}: {outcome:?}, {other:?}");
        let look = || bytes_of(Process::of(kind, &stores).layout(), &about).1;
        let check = || {
            let reader = Process::of(kind, &stores);
            for (act, who, outcome) in [(first, 0, &outcome), (second, 1, &other)] {
                let removed = act != Removes && [first, second].contains(&Removes);
                if outcome.is_ok() && !removed {
                    holds(reader.layout(), act, who, &about);
                }
            }
        };
        for (act, beside, outcome) in [(first, second, &outcome), (second, first, &other)] {
            // A rename of one lets a change of the other find no file; who looks after a file may find that it is being written.
            assert!(outcome.is_ok() || act.tends() || act.renames() || beside.renames(), "{about}");
        }
        // Of two renames the second one's name is no more.
        let both_rename = first.renames() && second.renames();
        if !both_rename {
            check();
        }
        let removes = [first, second].contains(&Removes);
        let dots = look().iter().filter(|byte| **byte == b'.').count();
        let overwritten =
            [(first, &outcome), (second, &other)].map(|(act, told)| (act == Writes && told.is_ok()) as usize * 10);
        assert!(removes || dots >= length - overwritten.iter().sum::<usize>(), "{about}: {dots} bytes of before");
        // All of it reaches the store behind a burst buffer.
        if let Kind::Buffered { .. } = kind {
            drain(&Process::of(kind, &stores)).unwrap_or_else(|e| panic!("{about}: {e}"));
            if !both_rename {
                check();
            }
        }
        // The file goes on through the handle that was open all the time.
        if let Some(held) = held {
            let appended = held.append(&[IoSlice::new(b"zzzz")]).and_then(|_| held.close());
            if !both_rename {
                check();
            }
            if appended.is_ok() && !removes {
                assert_eq!(look().iter().filter(|byte| **byte == b'z').count(), 4, "{about}");
            }
        }
    }
}

const IN_LOG: Kind = Kind::SmallFile { small: 1 << 20 };
const SMALL_CONTAINER: Kind = Kind::Container { stores: 1, inline: 64 << 10 };

fn pairs(acts: &[(Act, Act)]) {
    let kinds = [
        (IN_LOG, 200),
        // Its record fills the log.
        (IN_LOG, FULL),
        // It outgrows the log.
        (Kind::SmallFile { small: 205 }, 200),
        (SMALL_CONTAINER, 200),
        // It outgrows the object with its stamp.
        (Kind::Container { stores: 1, inline: 205 }, 200),
        (Kind::Container { stores: 1, inline: 0 }, 200),
        (Kind::Container { stores: 3, inline: 0 }, 200),
        (Kind::Far { s3: true }, 200),
        (Kind::Far { s3: false }, 200),
    ];
    pairs_on(&kinds, acts, 1);
}

fn pairs_on(kinds: &[(Kind, usize)], acts: &[(Act, Act)], every: usize) {
    for (first, second) in acts {
        let attributes = [first, second].iter().all(|act| matches!(act, ChangesMode | SetsXattr));
        for (kind, length) in kinds.iter().copied() {
            // Without locks the later of two changes of attributes counts.
            if attributes && matches!(kind, Kind::Far { .. }) {
                continue;
            }
            for (new, held) in [(false, true), (true, false), (false, false), (true, true)] {
                // Twice as many begin where most was found.
                if kind != IN_LOG && new == held {
                    continue;
                }
                interleaved(*first, *second, Begin { kind, length, new, held }, every);
            }
        }
    }
}

#[test]
fn what_two_write_is_there() {
    pairs(&[(Appends, Appends), (Appends, Writes), (Writes, Appends), (Writes, Writes)]);
}

#[test]
fn a_change_of_attributes_stays_beside_a_write() {
    pairs(&[(Appends, ChangesMode), (ChangesMode, Appends), (Appends, SetsXattr), (SetsXattr, Appends)]);
}

#[test]
fn changes_of_attributes_stay_beside_each_other() {
    pairs(&[(SetsXattr, SetsXattr), (SetsXattr, ChangesMode), (ChangesMode, SetsXattr)]);
}

#[test]
fn nothing_is_lost_beside_a_rename() {
    pairs(&[(Renames, Appends), (Appends, Renames), (Renames, SetsXattr), (ChangesMode, Renames), (Renames, Renames)]);
}

#[test]
fn nothing_is_lost_beside_a_move_into_another_folder() {
    pairs(&[(Moves, Appends), (Appends, Moves), (Moves, SetsXattr), (ChangesMode, Moves), (Moves, Renames)]);
}

#[test]
fn what_was_removed_stays_so() {
    pairs(&[(Removes, Appends), (Appends, Removes), (Removes, ChangesMode), (SetsXattr, Removes)]);
    pairs(&[(Removes, Compacts), (Compacts, Removes), (Repairs, Removes)]);
}

#[test]
fn nothing_is_lost_beside_a_compaction() {
    pairs(&[(Appends, Compacts), (Compacts, Appends), (ChangesMode, Compacts), (Compacts, SetsXattr)]);
    pairs(&[(Renames, Compacts), (Compacts, Renames), (Moves, Compacts), (Compacts, Moves)]);
}

#[test]
fn nothing_is_lost_beside_a_repair() {
    pairs(&[(Appends, Repairs), (Repairs, Appends), (Renames, Repairs), (Repairs, Renames)]);
}

/// - `every`: one of so many calls of a drain.
fn beside_a_drain(every: usize) {
    let buffered = [(false, false), (false, true), (true, false)];
    let kinds = buffered.map(|(small, s3)| (Kind::Buffered { small, s3 }, 200));
    for act in [Appends, Writes, ChangesMode, SetsXattr, Renames, Moves, Compacts, Repairs] {
        pairs_on(&kinds, &[(act, Drains), (Drains, act)], every);
    }
    pairs_on(&kinds, &[(Appends, Appends), (Appends, Renames), (Drains, Drains)], every);
}

#[test]
fn nothing_is_lost_beside_a_drain() {
    beside_a_drain(31);
}

#[test]
#[ignore = "long"]
fn nothing_is_lost_beside_any_call_of_a_drain() {
    beside_a_drain(1);
}
