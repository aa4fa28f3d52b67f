//! Appends of several processes: none is written over, ordered ones keep their order, all readers see the same.

use super::{Module, Options, open, over, process, put, read, write};
use proptest::prelude::*;
use std::io::IoSlice;
use std::sync::{Arc, Condvar, Mutex};
use thalweg_layout::container::parallel::Opening;
use thalweg_layout::container::tools::Accept;
use thalweg_layout::{Container, Layout, OpenWrite, WriteObject};
use thalweg_store::wrap::{Counting, Operation, Sequential, StoreCall, Verdict, Watch, Wrapped};
use thalweg_store::{Memory, Store};

const MODULES: [Module; 3] = [Module::Flat, Module::Pattern, Module::Distributed];

fn append(object: &dyn WriteObject, bytes: &[u8]) -> u64 {
    object.append(&[IoSlice::new(bytes)]).unwrap()
}

fn store(kind: usize) -> Arc<dyn Store> {
    match kind {
        0 => Arc::new(Memory::new()),
        1 => Arc::new(Sequential::like_hdfs()),
        _ => Arc::new(Sequential::like_s3()),
    }
}

#[test]
fn two_processes_that_append_in_turns_keep_the_order_of_their_turns() {
    for (kind, module) in [(0, Module::Flat), (0, Module::Pattern), (1, Module::Distributed), (2, Module::Pattern)] {
        let store = store(kind);
        // The writer with the greater number begins.
        let layouts = [9, 2].map(|writer| (process(std::slice::from_ref(&store), module, 300), writer));
        open(&layouts[0].0, "file", OpenWrite::New, 0).close().unwrap();
        let handles = layouts.each_ref().map(|(layout, writer)| open(layout, "file", OpenWrite::Existing, *writer));
        let mut expected = Vec::new();
        for turn in 0..40u8 {
            let handle = &handles[usize::from(turn % 2)];
            handle.sync().unwrap();
            for line in 0..1 + turn % 3 {
                let bytes = vec![turn + 1; 20 + 90 * usize::from(line)];
                expected.extend_from_slice(&bytes);
                assert_eq!(append(&**handle, &bytes), expected.len() as u64);
            }
            handle.sync().unwrap();
            assert!(read(&over(&store), "file").unwrap() == expected, "after turn {turn}");
        }
        handles.into_iter().for_each(|handle| handle.close().unwrap());
        assert!(read(&over(&store), "file").unwrap() == expected);
    }
}

/// Three processes that have the file open at once and append lines of their own, none of which looks at the others.
fn meeting(module: Module, kind: usize) -> (Arc<dyn Store>, Vec<String>) {
    let store = store(kind);
    let layouts = [7, 3, 5].map(|writer| (process(std::slice::from_ref(&store), module, 200), writer));
    put(&layouts[0].0, "file", b"head\n");
    let handles = layouts.each_ref().map(|(layout, writer)| open(layout, "file", OpenWrite::Existing, *writer));
    let mut lines = vec!["head".to_string()];
    for number in 0..60 {
        for ((_, writer), handle) in layouts.iter().zip(&handles) {
            let line = format!("{writer} {number} {}", "x".repeat(number * 7 % 31));
            append(&**handle, format!("{line}\n").as_bytes());
            lines.push(line);
        }
        if number == 20 {
            // What one lets be seen the others don't look at.
            handles[1].publish().unwrap();
        }
    }
    handles.into_iter().rev().for_each(|handle| handle.close().unwrap());
    (store, lines)
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort_unstable();
    lines
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_string).collect()
}

#[test]
fn appends_that_saw_nothing_of_each_other_lose_nothing_and_read_alike() {
    for (module, kind) in MODULES.iter().flat_map(|module| (0..3).map(|kind| (*module, kind))) {
        let (store, told) = meeting(module, kind);
        let first = read(&over(&store), "file").unwrap();
        let found = lines(&first);
        assert_eq!(found[0], "head");
        assert_eq!(sorted(found.clone()), sorted(told.clone()), "{module:?}");
        for writer in [3, 5, 7] {
            let own: Vec<&String> = found.iter().filter(|line| line.starts_with(&format!("{writer} "))).collect();
            let meant: Vec<&String> = told.iter().filter(|line| line.starts_with(&format!("{writer} "))).collect();
            assert_eq!(own, meant, "in the order of its calls");
        }
        let again = process(std::slice::from_ref(&store), Module::Flat, 0);
        assert_eq!(again.stat("file").unwrap().length, first.len() as u64);
        assert!(read(&again, "file").unwrap() == first);
        // Gathered by ranks, from a snapshot, as one log.
        let opening = Opening::decode(&again.opening("file").unwrap().encode()).unwrap();
        let all: Vec<usize> = (0..opening.names.len()).collect();
        let gathered = again.read_share("file", &opening, &all).unwrap();
        let joined = over(&store).open_joined("file", &opening, &gathered).unwrap();
        let mut bytes = vec![0; first.len()];
        joined.read_exact_at(0, &mut bytes).unwrap();
        assert!(bytes == first && joined.length().unwrap() == first.len() as u64);
        assert_eq!(again.check("file").unwrap().findings, []);
        again.snapshot("file").unwrap();
        assert!(read(&over(&store), "file").unwrap() == first);
        let to = Memory::new();
        again.flatten("file", &to, "plain").unwrap();
        assert!(thalweg_store::StoreExt::read_all(&to, "plain").unwrap() == first);
        again.compact("file").unwrap();
        assert!(read(&over(&store), "file").unwrap() == first);
        assert_eq!(over(&store).check("file").unwrap().findings, []);
    }
}

#[test]
fn lines_appended_one_process_after_the_other_cost_no_index_to_ask_for_the_length() {
    let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
    let store: Arc<dyn Store> = counting.clone();
    put(&over(&store), "file", b"");
    for number in 0..20u32 {
        let file = open(&over(&store), "file", OpenWrite::Existing, 20 - number);
        assert_eq!(append(&*file, b"a line\n"), u64::from(number + 1) * 7);
        file.close().unwrap();
    }
    counting.take();
    assert_eq!(over(&store).stat("file").unwrap().length, 140);
    let counted = counting.take();
    assert!(counted.objects.keys().all(|name| !name.ends_with(".index") && !name.ends_with(".data")), "{counted:?}");
    assert_eq!(read(&over(&store), "file").unwrap(), b"a line\n".repeat(20));
}

fn all_below(store: &dyn Store, folder: &str, out: &mut Vec<String>) {
    for name in store.list(folder).unwrap() {
        let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        match store.stat(&name).unwrap().is_folder {
            true => all_below(store, &name, out),
            false => out.push(name),
        }
    }
}

#[test]
fn what_was_appended_is_kept_by_repair_when_index_logs_are_lost() {
    let (store, _) = meeting(Module::Pattern, 0);
    let whole = read(&over(&store), "file").unwrap();
    let mut names = Vec::new();
    all_below(&*store, "", &mut names);
    let lost: Vec<&String> = names.iter().filter(|name| name.ends_with(".index")).collect();
    assert!(lost.len() > 3);
    lost.iter().for_each(|name| store.remove(name).unwrap());
    let layout = over(&store);
    assert!(read(&layout, "file").unwrap() == whole, "by the data logs");
    layout.repair("file", Accept::SURE).unwrap();
    let fresh = over(&store);
    assert_eq!(fresh.check("file").unwrap().findings, []);
    assert_eq!(fresh.stat("file").unwrap().length, whole.len() as u64);
    assert!(read(&fresh, "file").unwrap() == whole);
    let file = open(&fresh, "file", OpenWrite::Existing, 0);
    assert_eq!(append(&*file, b"more\n"), whole.len() as u64 + 5);
    file.close().unwrap();
    assert!(read(&over(&store), "file").unwrap() == [whole, b"more\n".to_vec()].concat());
}

#[test]
fn appends_of_many_threads_of_one_process_lie_behind_each_other() {
    let store = store(0);
    let layout = process(std::slice::from_ref(&store), Module::Pattern, 100);
    put(&layout, "file", b"");
    std::thread::scope(|scope| {
        for writer in 0..8u32 {
            let layout = &layout;
            scope.spawn(move || {
                let file = open(layout, "file", OpenWrite::Existing, writer % 3);
                for number in 0..50 {
                    let line = format!("{writer} {number}\n");
                    let end = append(&*file, line.as_bytes()) as usize;
                    let mut back = vec![0; line.len()];
                    assert_eq!(file.read_at((end - line.len()) as u64, &mut back).unwrap(), line.len());
                    assert_eq!(back, line.as_bytes(), "where the call said");
                }
                file.close().unwrap();
            });
        }
    });
    let all = read(&over(&store), "file").unwrap();
    let told = (0..8).flat_map(|writer| (0..50).map(move |number| format!("{writer} {number}"))).collect();
    assert_eq!(sorted(lines(&all)), sorted(told));
    assert!(read(&layout, "file").unwrap() == all);
}

#[derive(Debug, Clone)]
enum What {
    Append(usize),
    Write(u64, usize),
    Cut(u64),
    Punch(u64, u64),
    Publish,
    Look,
    Reopen,
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        6 => (1..90usize).prop_map(What::Append),
        4 => (0..900u64, 1..90usize).prop_map(|(at, length)| What::Write(at, length)),
        1 => (0..900u64).prop_map(What::Cut),
        1 => (0..900u64, 1..90u64).prop_map(|(at, length)| What::Punch(at, length)),
        2 => Just(What::Publish),
        2 => Just(What::Look),
        1 => Just(What::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Handles of two processes, nobody looks before it writes: what a process reads in the end, once all is closed, is what
    /// every other reads; and what one process alone did reads as it did when it was done.
    #[test]
    fn a_process_reads_what_others_will_read(
        steps in prop::collection::vec((0..4usize, what()), 1..40), alone: bool, buffer in prop::sample::select(vec![0, 150, 4 << 20]),
    ) {
        let store = store(0);
        let options = || Options { buffer, host: "host".into(), ..Options::default() };
        let processes: Vec<Container> =
            (0..2).map(|_| Container::new(vec![store.clone()], options()).unwrap()).collect();
        put(&processes[0], "file", b"");
        let of = |handle: usize| (if alone { 0 } else { handle % 2 }, [8, 1, 1, 6][handle]);
        let mut handles: Vec<Option<Box<dyn WriteObject>>> = (0..4).map(|_| None).collect();
        for (number, (handle, what)) in steps.iter().enumerate() {
            let (which, writer) = of(*handle);
            let layout = &processes[which];
            let file = handles[*handle].get_or_insert_with(|| open(layout, "file", OpenWrite::Existing, writer));
            let bytes = |length: usize| vec![number as u8 + 1; length];
            match what {
                What::Append(length) => {
                    let before = file.length().unwrap();
                    // A handle that writes for the first time sees what the other process published since.
                    let end = append(&**file, &bytes(*length));
                    prop_assert!(end == before + *length as u64 || !alone, "{} after {}", end, before);
                    prop_assert_eq!(file.length().unwrap(), end);
                }
                What::Write(at, length) => write(&**file, *at, &bytes(*length)),
                What::Cut(to) => file.truncate(*to).unwrap(),
                What::Punch(at, length) => file.punch(*at, *length).unwrap(),
                What::Publish => file.publish().unwrap(),
                What::Look => drop(read(layout, "file").unwrap()),
                What::Reopen => {
                    let file = handles[*handle].take().unwrap();
                    file.close().unwrap();
                }
            }
        }
        let live = read(&processes[0], "file").unwrap();
        for handle in handles.into_iter().flatten() {
            handle.close().unwrap();
        }
        let all = read(&over(&store), "file").unwrap();
        if alone {
            prop_assert!(live == all, "{} bytes and then {}", live.len(), all.len());
        }
        for layout in &processes {
            prop_assert_eq!(layout.stat("file").unwrap().length, all.len() as u64);
            prop_assert!(read(layout, "file").unwrap() == all);
        }
        let appended: u64 = steps.iter().map(|(_, w)| if let What::Append(n) = w { *n as u64 } else { 0 }).sum();
        if !steps.iter().any(|(_, w)| matches!(w, What::Cut(_) | What::Write(..) | What::Punch(..))) {
            prop_assert_eq!(all.len() as u64, appended, "nothing is written over");
        }
        let compacting = over(&store);
        compacting.compact("file").unwrap();
        prop_assert!(read(&over(&store), "file").unwrap() == all);
    }
}

#[test]
fn of_two_handles_that_append_in_turn_and_of_which_one_published_others_read_as_much_as_the_length_says() {
    for _ in 0..20 {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let layout = over(&store);
        put(&layout, "file", b"");
        let [one, other] = [1, 6].map(|writer| open(&layout, "file", OpenWrite::Existing, writer));
        append(&*one, b"a");
        append(&*other, b"b");
        append(&*one, b"c");
        one.publish().unwrap();
        let reader = over(&store).open_read("file").unwrap();
        let mut bytes = vec![0; reader.length().unwrap() as usize];
        reader.read_exact_at(0, &mut bytes).unwrap();
        assert_eq!(bytes, b"ac", "what was not published is not seen");
        other.publish().unwrap();
        assert_eq!(read(&over(&store), "file").unwrap(), b"abc");
        assert_eq!(over(&store).stat("file").unwrap().length, 3);
    }
}

#[test]
fn a_length_beside_a_cut_that_another_process_has_not_seen_is_that_of_the_bytes() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let options = || Options { buffer: 0, host: "host".into(), ..Options::default() };
    let [one, other] = [(), ()].map(|()| Container::new(vec![store.clone()], options()).unwrap());
    put(&one, "file", b"");
    let cutting = open(&one, "file", OpenWrite::Existing, 8);
    cutting.truncate(1).unwrap();
    let appending = open(&other, "file", OpenWrite::Existing, 1);
    append(&*appending, &[2; 47]);
    append(&*appending, &[3; 64]);
    appending.close().unwrap();
    let writing = open(&one, "file", OpenWrite::Existing, 1);
    write(&*writing, 0, &[5]);
    write(&*cutting, 0, &[6; 2]);
    cutting.punch(0, 1).unwrap();
    let live = read(&one, "file").unwrap();
    [cutting, writing].into_iter().for_each(|file| file.close().unwrap());
    assert_eq!(read(&over(&store), "file").unwrap().len(), live.len());
}

/// The first write to an object waits while the gate is shut.
#[derive(Default)]
struct Gate {
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    fn shut(&self) {
        *self.state.lock().unwrap() = (true, false);
    }

    fn open(&self) {
        self.state.lock().unwrap().0 = false;
        self.changed.notify_all();
    }

    fn wait_until_somebody_waits(&self) {
        let mut state = self.state.lock().unwrap();
        while !state.1 {
            state = self.changed.wait(state).unwrap();
        }
    }
}

impl Watch for Gate {
    fn describe(&self) -> &'static str {
        "gated"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        let mut state = self.state.lock().unwrap();
        if operation.asked == StoreCall::Write && state.0 && !state.1 {
            state.1 = true;
            self.changed.notify_all();
            while state.0 {
                state = self.changed.wait(state).unwrap();
            }
        }
        Verdict::Pass
    }
}

#[test]
fn a_write_that_ends_late_moves_all_appends_that_were_made_meanwhile() {
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    let wrapped = Arc::new(Wrapped::with(memory.clone(), Gate::default()));
    let gate = wrapped.watch();
    let layout = process(&[wrapped.clone() as Arc<dyn Store>], Module::Pattern, 0);
    let handles = [0, 1, 2].map(|writer| {
        let how = if writer == 0 { OpenWrite::New } else { OpenWrite::Existing };
        open(&layout, "file", how, writer)
    });
    write(&*handles[0], 0, b"x");
    std::thread::scope(|scope| {
        gate.shut();
        let late = scope.spawn(|| write(&*handles[0], 0, &[7; 50]));
        gate.wait_until_somebody_waits();
        // The late write lies before the second append, and across the place of the first.
        assert_eq!(append(&*handles[1], &[1; 100]), 101);
        assert_eq!(append(&*handles[2], &[2; 100]), 201);
        gate.open();
        late.join().unwrap();
    });
    let lengths = handles.each_ref().map(|handle| handle.length().unwrap());
    handles.into_iter().for_each(|handle| handle.close().unwrap());
    let expected = [vec![7; 50], vec![1; 100], vec![2; 100]].concat();
    assert!(read(&over(&memory), "file").unwrap() == expected);
    assert_eq!(lengths, [expected.len() as u64; 3]);
}
