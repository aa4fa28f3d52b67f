//! Several writers in several processes, ordered through sync, against a model of a POSIX file in memory.

use super::{Module, open, process, write};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;
use thalweg_conformance::{layout::data_logs, scratch::Scratch};
use thalweg_layout::{Container, Layout, OpenWrite, WriteObject};
use thalweg_store::wrap::Sequential;
use thalweg_store::{Memory, Posix, Store};

const PROCESSES: usize = 3;
/// Handles: one in the first process, two of one writer's number in the second, one in the third.
const HANDLES: [(usize, u32); 4] = [(0, 5), (1, 2), (1, 2), (2, 9)];
const LONGEST: u64 = 3000;

#[derive(Debug, Clone)]
enum What {
    Write { at: u64, length: usize },
    Append { length: usize },
    Truncate { to: u64 },
    Punch { at: u64, length: u64 },
    Reopen,
    Replace,
    Compact,
    Snapshot,
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        12 => (0..LONGEST, 1..600usize).prop_map(|(at, length)| What::Write { at, length }),
        4 => (0..60u64, 1..9usize).prop_map(|(at, length)| What::Write { at: at * 50, length }),
        3 => (1..300usize).prop_map(|length| What::Append { length }),
        3 => (0..LONGEST).prop_map(|to| What::Truncate { to }),
        2 => (0..LONGEST, 0..900u64).prop_map(|(at, length)| What::Punch { at, length }),
        3 => Just(What::Reopen),
        1 => Just(What::Replace),
        1 => Just(What::Compact),
        1 => Just(What::Snapshot),
    ]
}

struct World {
    processes: Vec<Container>,
    handles: Vec<Option<Box<dyn WriteObject>>>,
    model: Vec<u8>,
    written: u8,
}

impl World {
    fn new(stores: &[Arc<dyn Store>], module: Module, buffer: usize) -> World {
        let processes: Vec<_> = (0..PROCESSES).map(|_| process(stores, module, buffer)).collect();
        open(&processes[0], "file", OpenWrite::New, 0).close().unwrap();
        World { processes, handles: HANDLES.map(|_| None).into(), model: Vec::new(), written: 0 }
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        self.written = self.written % 250 + 1;
        vec![self.written; length]
    }

    fn handle(&mut self, k: usize) -> &dyn WriteObject {
        let (process, writer) = HANDLES[k];
        let layout = &self.processes[process];
        &**self.handles[k].get_or_insert_with(|| open(layout, "file", OpenWrite::Existing, writer))
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        let (at, end) = (at as usize, at as usize + bytes.len());
        if self.model.len() < end {
            self.model.resize(end, 0);
        }
        self.model[at..end].copy_from_slice(bytes);
    }

    fn turn(&mut self, k: usize, steps: &[What]) {
        // What others published is seen from here on, and what is done now is published at the end.
        self.handle(k).sync().unwrap();
        for step in steps {
            match step {
                What::Write { at, length } => {
                    let bytes = self.bytes(*length);
                    write(self.handle(k), *at, &bytes);
                    self.put(*at, &bytes);
                }
                What::Append { length } => {
                    let bytes = self.bytes(*length);
                    let end = self.handle(k).length().unwrap();
                    assert_eq!(end, self.model.len() as u64, "where the file ends for an append");
                    let behind = self.handle(k).append(&[std::io::IoSlice::new(&bytes)]).unwrap();
                    assert_eq!(behind, end + bytes.len() as u64);
                    self.put(end, &bytes);
                }
                What::Truncate { to } => {
                    self.handle(k).truncate(*to).unwrap();
                    self.model.resize(*to as usize, 0);
                }
                What::Punch { at, length } => {
                    self.handle(k).punch(*at, *length).unwrap();
                    let end = (at + length).min(self.model.len() as u64).max(*at) as usize;
                    if (*at as usize) < self.model.len() {
                        self.model[*at as usize..end].fill(0);
                    }
                }
                What::Reopen => {
                    if let Some(handle) = self.handles[k].take() {
                        handle.close().unwrap();
                    }
                }
                What::Replace => {
                    let (process, writer) = HANDLES[k];
                    if let Some(handle) = self.handles[k].take() {
                        handle.close().unwrap();
                    }
                    self.handles[k] = Some(open(&self.processes[process], "file", OpenWrite::Replace, writer));
                    self.model.clear();
                }
                What::Compact | What::Snapshot => {
                    // Neither is for files that are being written.
                    self.handles.iter_mut().filter_map(Option::take).for_each(|handle| handle.close().unwrap());
                    let layout = &self.processes[HANDLES[k].0];
                    match step {
                        What::Compact => layout.compact("file").map(|_| ()).unwrap(),
                        _ => layout.snapshot("file").map(|_| ()).unwrap(),
                    }
                }
            }
        }
        // The process that writes sees it at once, before anything is published.
        let process = HANDLES[k].0;
        self.compare(process, 0..self.model.len());
        self.handle(k).sync().unwrap();
    }

    fn compare(&self, process: usize, range: std::ops::Range<usize>) {
        let layout = &self.processes[process];
        assert_eq!(layout.stat("file").unwrap().length, self.model.len() as u64, "length for process {process}");
        let file = layout.open_read("file").unwrap();
        assert_eq!(file.length().unwrap(), self.model.len() as u64);
        let mut bytes = vec![0xee; range.len()];
        let got = file.read_at(range.start as u64, &mut bytes).unwrap();
        let expected = &self.model[range.start.min(self.model.len())..range.end.min(self.model.len())];
        assert_eq!(got, expected.len());
        if let Some(at) = (0..got).find(|i| bytes[*i] != expected[*i]) {
            panic!("process {process}, byte {}: {} and not {}", range.start + at, bytes[at], expected[at]);
        }
    }
}

type Turn = (usize, Vec<What>, usize, usize, usize);

fn turns(most: usize) -> impl Strategy<Value = (Vec<Turn>, usize, usize, usize)> {
    let turn = (0..HANDLES.len(), prop::collection::vec(what(), 1..6), 0..PROCESSES, 0..4000usize, 1..2000usize);
    (prop::collection::vec(turn, 1..most), 0..3usize, 0..5usize, 0..3usize)
}

fn run(cases: u32, most: usize) -> usize {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let done = std::cell::Cell::new(0);
    // Turns after which all bytes were inline, which only POSIX has.
    let inline = std::cell::Cell::new(0);
    let outcome = runner.run(&turns(most), |(turns, module, store, buffer)| {
        let scratch = Scratch::new();
        let module = [Module::Flat, Module::Pattern, Module::Distributed][module];
        let stores: Vec<Arc<dyn Store>> = match store {
            0 => vec![Arc::new(Memory::new())],
            1 => (0..3).map(|_| Arc::new(Memory::new()) as Arc<dyn Store>).collect(),
            2 => vec![Arc::new(Sequential::like_hdfs())],
            3 => vec![Arc::new(Sequential::like_s3())],
            _ => vec![Arc::new(Posix::at(scratch.path()).unwrap())],
        };
        let mut world = World::new(&stores, module, [4 << 20, 700, 0][buffer]);
        for (handle, steps, process, from, length) in &turns {
            world.turn(*handle, steps);
            world.compare(*process, *from..from + length);
            done.set(done.get() + steps.len());
            if store == 4 && !world.model.is_empty() && data_logs(scratch.path()) == 0 {
                inline.set(inline.get() + 1);
            }
        }
        world.handles.iter_mut().filter_map(Option::take).for_each(|handle| handle.close().unwrap());
        let last = process(&stores, Module::Pattern, 0);
        let report = last.check("file").unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
        world.processes.push(last);
        world.compare(PROCESSES, 0..world.model.len());
        Ok(())
    });
    if let Err(e) = outcome {
        panic!("{e}");
    }
    assert!(inline.get() > 0, "no turn left all bytes inline");
    done.get()
}

#[test]
fn several_writers_ordered_through_sync_read_as_one_posix_file() {
    let done = run(60, 30);
    println!("{done} operations");
    assert!(done > 1000);
}

#[test]
#[ignore = "long"]
fn several_writers_ordered_through_sync_read_as_one_posix_file_for_100_000_operations() {
    let done = run(1000, 80);
    println!("{done} operations");
    assert!(done >= 100_000, "{done}");
}
