//! Two processes change one file of `small_file`: the second one comes between any two calls that the first one makes of its store. What
//! both were told has been done is there, once.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Change, Layout, OpenWrite, SetXattr, SmallFile, WriterId};
use thalweg_store::wrap::{Operation, Verdict, Watch, Wrapped};
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::Result;
use thalweg_types::mutex::Mutex;

/// How long the first process waits for the second one, which may itself be waiting for the first one's record.
const PATIENCE: Duration = Duration::from_millis(15);
/// Bytes of the file before: with its next record, a log of 64 KiB is full.
const FULL: usize = 66 << 10;

type Interruption = Box<dyn FnOnce() + Send>;

/// Calls a function before the `left`th call from now.
#[derive(Default)]
struct Interrupts(Mutex<Option<(usize, Interruption)>>);

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
    Compacts,
}
use Act::*;

/// What one process does; `who` is 0 or 1.
fn does(layout: &SmallFile, act: Act, who: usize) -> Result<()> {
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
        Renames => layout.rename("f", ["g", "h"][who]),
        Moves => layout.rename("f", ["d/g", "d/h"][who]),
        Compacts => layout.compact("").map(drop),
    }
}

/// The names that there are, and everything in them.
fn bytes_of(layout: &SmallFile, about: &str) -> (Vec<String>, Vec<u8>) {
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

fn holds(layout: &SmallFile, act: Act, who: usize, about: &str) {
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
        Compacts => {}
    }
}

/// Both acts in every order of their calls: `new`: the first process has no log yet; `held`: it has the file open.
fn interleaved(first: Act, second: Act, length: usize, small: u64, new: bool, held: bool) {
    for at in 0.. {
        let scratch = Scratch::new();
        let store: Arc<dyn Store> = match at % 2 == 0 {
            true => Arc::new(Posix::at(scratch.path()).unwrap()),
            false => Arc::new(Memory::new()),
        };
        let settings = Settings { small, log: 1 << 16, ..Settings::default() };
        let process = |store: &Arc<dyn Store>| SmallFile::new(store.clone(), settings).unwrap();
        let watched = Arc::new(Wrapped::with(store.clone(), Interrupts::default()));
        let inside: Arc<dyn Store> = watched.clone();
        let (one, two) = (process(&inside), Arc::new(process(&store)));
        let maker = if new { &process(&store) } else { &one };
        maker.make_folder("d").unwrap();
        let file = maker.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
        file.write_at(0, &[IoSlice::new(&vec![b'.'; length])]).unwrap();
        file.close().unwrap();
        if new {
            maker.finish().unwrap();
        }
        let held = held.then(|| one.open_write("f", OpenWrite::Existing, WriterId(0)).unwrap());
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
                std::thread::yield_now();
            }
            let _ = started.send(running);
        };
        *watched.watch().0.lock() = Some((at, Box::new(interruption)));
        let outcome = does(&one, first, 0);
        let over = watched.watch().0.lock().take().is_some();
        let Ok(running) = begun.try_recv() else {
            assert!(over && at > 0, "nothing was called");
            return;
        };
        running.join().unwrap();
        let other = hear.recv().unwrap();
        let about = format!("{first:?} and, before its call {at}, {second:?}; new {new}, {length} bytes");
        let about = format!("{about}, held {}: {outcome:?}, {other:?}", held.is_some());
        let check = || {
            let reader = process(&store);
            for (act, who, outcome) in [(first, 0, &outcome), (second, 1, &other)] {
                if outcome.is_ok() {
                    holds(&reader, act, who, &about);
                }
            }
        };
        // Of two renames the second one's name is no more; a rename of one lets a change of the other find no file.
        let renames = [first, second].map(|act| act == Renames || act == Moves);
        let both_rename = renames == [true; 2];
        assert!(renames.contains(&true) || (outcome.is_ok() && other.is_ok()), "{about}");
        if !both_rename {
            check();
        }
        let dots = bytes_of(&process(&store), &about).1.iter().filter(|byte| **byte == b'.').count();
        let overwritten =
            [(first, &outcome), (second, &other)].map(|(act, told)| (act == Writes && told.is_ok()) as usize * 10);
        assert!(dots >= length - overwritten.iter().sum::<usize>(), "{about}: {dots} bytes of before");
        // The file goes on through the handle that was open all the time.
        if let Some(held) = held {
            let appended = held.append(&[IoSlice::new(b"zzzz")]).and_then(|_| held.close());
            if appended.is_ok() {
                if !both_rename {
                    check();
                }
                let all = bytes_of(&process(&store), &about).1;
                assert_eq!(all.iter().filter(|byte| **byte == b'z').count(), 4, "{about}");
            }
        }
    }
}

fn pairs(acts: &[(Act, Act)]) {
    for (first, second) in acts {
        for new in [false, true] {
            for held in [false, true] {
                interleaved(*first, *second, 200, 1 << 20, new, held);
            }
        }
        // The record fills the log; the file outgrows the log.
        interleaved(*first, *second, FULL, 1 << 20, false, true);
        interleaved(*first, *second, 200, 205, false, true);
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
fn nothing_is_lost_beside_a_compaction() {
    pairs(&[(Appends, Compacts), (Compacts, Appends), (ChangesMode, Compacts), (Compacts, SetsXattr)]);
    pairs(&[(Renames, Compacts), (Compacts, Renames), (Moves, Compacts), (Compacts, Moves)]);
}
