//! The index is written while data still drain: where ranks have much to write, their fragments go ahead of their data,
//! rank 0 stages the index meanwhile, and seals it when all have written. The files are the same to the byte as without.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_bp::footer::FOOTER;
use thalweg_bp::live::Live;
use thalweg_bp::process_group::Header;
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::Level;
use thalweg_comm::{Communicator, threads};
use thalweg_layout::{Direct, Layout};
use thalweg_movement::method::{
    CloseRequest, MethodKind, Parameters, aggregated, collective, independent, posix, scheduled,
};
use thalweg_movement::output_file::cache::Cache;
use thalweg_movement::{BlockSpec, BufferPool, Closed, Mode, OpenRequest, Pack};
use thalweg_profile::recorder::{Record, Recorder, Span};
use thalweg_profile::{Phase, storage};
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, Forgetful, Operation, Slow, StoreCall, Verdict, Watch, Wrapped};
use thalweg_store::{Store, StoreExt};
use thalweg_types::{ElementType, Error, ErrorKind, Result};

const PATH: &str = "x.bp";
/// Methods under which fragments can go ahead, and what they need to have ranks wait for each other.
const METHODS: [(&MethodKind, &str); 7] = [
    (&independent::KIND, ""),
    (&posix::KIND, ""),
    (&scheduled::KIND, "num_files=2;targets=1;writers_per_target=1"),
    (&collective::KIND, "aggregators=2;stripe=512;buffer=8k"),
    (&aggregated::KIND, "aggregators=2;chunk=300"),
    (&aggregated::KIND, "aggregators=2;chunk=300;pattern=brigade"),
    (&aggregated::KIND, "aggregators=1"),
];

fn parameters(text: &str) -> Parameters {
    Parameters::parse(text)
}

/// What one rank has of a program that writes.
struct Program<'p> {
    comm: &'p dyn Communicator,
    layout: Arc<dyn Layout>,
    cache: Arc<Cache>,
    kind: &'p MethodKind,
    parameters: Parameters,
}

impl<'p> Program<'p> {
    fn new(comm: &'p dyn Communicator, store: Arc<dyn Store>, kind: &'p MethodKind, text: &str) -> Program<'p> {
        let layout: Arc<dyn Layout> = Arc::new(Direct::new(store).unwrap());
        Program { comm, layout, cache: Arc::new(Cache::new()), kind, parameters: parameters(text) }
    }

    /// One output: two arrays of so many bytes together, the second of them on ranks of even number only.
    fn output(&self, mode: Mode, bytes: usize) -> Result<Closed> {
        let mut method = (self.kind.make)(&self.parameters).unwrap();
        let comm = self.comm;
        let opened = method
            .open(&OpenRequest {
                comm,
                layout: &self.layout,
                path: PATH,
                group: "g",
                mode,
                run: 77,
                cache: &self.cache,
                buffer: &Arc::new(BufferPool::new(None)),
                arrays: &[],
            })
            .unwrap();
        let time_index = opened.time_index;
        let header =
            Header { group: "g".into(), fortran: false, time_name: "t".into(), time_index, methods: Vec::new() };
        let mut pack = Pack::new(Arc::new(BufferPool::new(None)), &header);
        for (id, bytes) in [bytes - bytes / 3, bytes / 3].into_iter().enumerate() {
            let spec = BlockSpec {
                id: id as u32,
                name: format!("v{id}").into(),
                path: "".into(),
                element: ElementType::U8,
                is_dimension: false,
                shape: Some(Shape::local([bytes as u64])),
                level: Level::Full,
                value: None,
                transform: None,
            };
            if id == 0 || comm.rank().is_multiple_of(2) {
                let values: Vec<u8> = (0..bytes).map(|i| (i as u32 * 7 + comm.rank() + time_index) as u8).collect();
                pack.copy(&spec, &values[..]).unwrap();
            }
        }
        method.close(CloseRequest { comm, header: &header, pack: &mut pack, failed: None })
    }
}

fn size_of(rank: u32, step: u32) -> usize {
    10 + (rank * 613 + step * 97) as usize % 2000
}

/// Everything that is there, by name.
fn everything(store: &dyn Store) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for folder in ["", "x.bp.dir"] {
        for name in store.list(folder).unwrap_or_default() {
            let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if let Ok(bytes) = store.read_all(&name) {
                all.insert(name, bytes);
            }
        }
    }
    assert!(all.contains_key(PATH), "{:?}", all.keys());
    all
}

/// Names and lengths of what differs.
fn differing(a: &BTreeMap<String, Vec<u8>>, b: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let names = a.keys().chain(b.keys());
    let length = |of: &BTreeMap<String, Vec<u8>>, name| of.get(name).map(Vec::len);
    let differ = names.filter(|name| a.get(*name) != b.get(*name));
    differ.map(|name| format!("{name}: {:?} and {:?} bytes", length(a, name), length(b, name))).collect()
}

/// Five outputs, the third with what `spoil` does to the stores of ranks; what is there then.
fn written(
    (kind, text): (&MethodKind, &str),
    ranks: u32,
    spoil: Option<(u32, &Fault)>,
) -> (BTreeMap<String, Vec<u8>>, Vec<Result<Closed>>) {
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    let outcomes = threads::run(ranks, |comm| {
        let store = Arc::new(Failing::new(memory.clone()));
        let program = Program::new(&comm, store.clone(), kind, text);
        let mut third = Ok(Closed::default());
        for step in 0..5 {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            if let (2, Some((_, fault))) = (step, spoil.filter(|(rank, _)| *rank == comm.rank())) {
                store.fail(fault.clone());
            }
            let outcome = program.output(mode, size_of(comm.rank(), step));
            store.heal();
            if step == 2 {
                third = outcome;
            } else {
                outcome.unwrap();
            }
        }
        program.cache.finish().unwrap();
        third
    });
    (everything(&*memory), outcomes)
}

#[test]
fn files_are_the_same_to_the_byte_whether_fragments_go_ahead_or_not() {
    for (kind, text) in METHODS {
        for more in ["index=each", "index=auto", "index_fan_in=1", "index_fan_in=2;sync=yes"] {
            for ranks in [1, 2, 5, 9] {
                let setup = |ahead: &str| format!("{text};{more};index_ahead={ahead}");
                let (with, _) = written((kind, &setup("0")), ranks, None);
                let (without, _) = written((kind, &setup("1G")), ranks, None);
                let some = written((kind, &setup("900")), ranks, None).0;
                for files in [with, some] {
                    let differ = differing(&files, &without);
                    assert!(differ.is_empty(), "{} {text};{more}, {ranks} ranks: {differ:?}", kind.names[0]);
                }
            }
        }
    }
}

#[test]
fn a_rank_that_fails_after_its_fragment_went_ahead_costs_its_own_part_alone() {
    for (kind, text) in METHODS {
        // Those whose stores hold the data of one rank alone.
        if [collective::KIND.id, aggregated::KIND.id].contains(&kind.id) {
            continue;
        }
        for (failing, more) in [(1, ""), (4, "index=each"), (2, "index_fan_in=2"), (4, "index_fan_in=1"), (0, "")] {
            let data = if kind.id == posix::KIND.id { format!("x.bp.dir/x.bp.{failing}") } else { "x.bp".into() };
            let fault = match kind.id == scheduled::KIND.id {
                true => Fault::of(StoreCall::Write).times(1),
                false => Fault::of(StoreCall::Write).named(data).times(1),
            };
            let fault = fault.with(ErrorKind::NoSpace);
            let setup = |ahead: &str| format!("{text};{more};index_ahead={ahead}");
            let what = format!("{} {text};{more}, rank {failing} fails", kind.names[0]);
            let (with, outcomes) = written((kind, &setup("0")), 5, Some((failing, &fault)));
            for (rank, outcome) in (0..).zip(&outcomes) {
                let e = outcome.as_ref().unwrap_err();
                assert_eq!((e.kind(), e.place().step), (ErrorKind::NoSpace, Some(2)), "{what}, rank {rank}: {e}");
                assert_eq!(e.reported_by(), (rank != failing).then_some(failing), "{what}, rank {rank}: {e}");
                let safe = "steps 0..=1 are indexed and readable; step 2 is partial (4 of 5 process groups)";
                assert_eq!(e.still_safe(), Some(safe), "{what}, rank {rank}: {e}");
            }
            let (without, _) = written((kind, &setup("1G")), 5, Some((failing, &fault)));
            let differ = differing(&with, &without);
            assert!(differ.is_empty(), "{what}: {differ:?}");
        }
    }
}

/// A write that began, or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    rank: u32,
    ends: bool,
    name: String,
    offset: u64,
    bytes: u64,
}

/// Notes when writes begin and end.
struct Noting {
    rank: u32,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Noting {
    fn note(&self, operation: &Operation<'_>, ends: bool) {
        if operation.asked == StoreCall::Write {
            let (name, offset, bytes) = (operation.name.to_string(), operation.offset, operation.bytes);
            self.events.lock().unwrap().push(Event { rank: self.rank, ends, name, offset, bytes });
        }
    }
}

impl Watch for Noting {
    fn describe(&self) -> &'static str {
        "noting"
    }
    fn before(&self, operation: &Operation<'_>) -> Verdict {
        self.note(operation, false);
        Verdict::Pass
    }
    fn after(&self, operation: &Operation<'_>, _: std::result::Result<u64, &Error>) {
        self.note(operation, true);
    }
}

/// One output of three ranks, of which the last has a slow store, and one has much to write: `large` bytes. What happened, in
/// order, and what each rank recorded, on one clock.
fn drain_slowly(kind: &MethodKind, text: &str, much: u32, large: usize) -> (Vec<Event>, Vec<Record>) {
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    let events = Arc::new(Mutex::new(Vec::new()));
    let zero = Instant::now();
    let records = threads::run(3, |comm| {
        let rank = comm.rank();
        // 300 ms for a third of it, or more.
        let rate = if rank == 2 { large as f64 / 0.9 } else { f64::INFINITY };
        let store = Slow::new(memory.clone(), Duration::ZERO, rate);
        let store = Wrapped::with(Arc::new(store), Noting { rank, events: events.clone() });
        let recorder = Recorder::new(zero);
        let _working = recorder.work();
        let mut program = Program::new(&comm, Arc::new(store), kind, text);
        program.layout = Arc::new(storage::Recorded::new(program.layout.clone(), recorder.clone()));
        program.output(Mode::Write, if rank == much { large } else { 1000 }).unwrap();
        recorder.finish()
    });
    let events = events.lock().unwrap().clone();
    (events, records)
}

/// Where in `events` the first or last such one is.
fn place(events: &[Event], first: bool, is: impl Fn(&Event) -> bool) -> usize {
    let found = if first { events.iter().position(is) } else { events.iter().rposition(is) };
    found.unwrap_or_else(|| panic!("not among {events:?}"))
}

#[test]
fn rank_0_writes_the_index_before_the_last_data_write_ends() {
    for (kind, text, much) in [
        (&independent::KIND, "", 2),
        (&posix::KIND, "", 2),
        (&scheduled::KIND, "num_files=3", 2),
        // A third of it is written by the rank with the slow store.
        (&collective::KIND, "aggregators=3;stripe=64k", 1),
        (&aggregated::KIND, "aggregators=3", 2),
    ] {
        let large = 21 << 20;
        let (events, records) = drain_slowly(kind, text, much, large);
        let what = format!("{}: {events:?}", kind.names[0]);
        let shared = [independent::KIND.id, collective::KIND.id].contains(&kind.id);
        // Rank 0 writes data to the first half of a shared file alone.
        let behind = if shared { large as u64 / 2 } else { 0 };
        let index = |e: &Event| e.rank == 0 && e.name == PATH && e.offset >= behind;
        let slow = |e: &Event| e.rank == 2 && e.bytes > 1 << 20;
        let drained = place(&events, false, |e| slow(e) && e.ends);
        assert!(place(&events, true, |e| index(e) && e.ends) < drained, "the index is staged while data drain: {what}");
        let seal = place(&events, false, |e| index(e) && !e.ends);
        assert!(seal > drained, "and is not valid before they are there: {what}");
        assert_eq!(events[seal].bytes, FOOTER, "{what}");

        // The profile shows the same.
        let of = |rank: usize, phase: Phase| -> Vec<Span> {
            records[rank].spans.iter().filter(|s| s.phase == phase && s.bytes > 0).copied().collect()
        };
        let [staged, sealed] = of(0, Phase::Index)[..] else { panic!("{what}: {:?}", records[0].spans) };
        let drained = of(2, Phase::Write).iter().map(Span::end).max().unwrap();
        assert!(staged.end() < drained && sealed.begin > drained, "{what}: {staged:?} {sealed:?} {drained}");
        assert_eq!(sealed.bytes, FOOTER, "{what}");
    }
}

#[test]
fn small_outputs_write_the_index_at_once() {
    for (kind, text) in [(&independent::KIND, ""), (&posix::KIND, "")] {
        let (events, _) = drain_slowly(kind, text, 2, 64 << 10);
        let index: Vec<_> = events.iter().filter(|e| e.rank == 0 && e.name == PATH && !e.ends).collect();
        let data = usize::from(kind.id == independent::KIND.id);
        assert_eq!(index.len(), 1 + data, "{}: {events:?}", kind.names[0]);
    }
}

#[test]
fn who_dies_between_staging_and_sealing_leaves_the_file_as_it_was() {
    for (kind, text) in METHODS {
        for more in ["index=each", "index=auto"] {
            let store = Arc::new(Forgetful::new());
            threads::run(5, |comm| {
                let setup = format!("{text};{more};index_ahead=0");
                let program = Program::new(&comm, store.clone(), kind, &setup);
                for step in 0..4 {
                    let mode = if step == 0 { Mode::Write } else { Mode::Append };
                    program.output(mode, size_of(comm.rank(), step)).unwrap();
                }
            });
            let what = format!("{} {text};{more}", kind.names[0]);
            let (mut steps, mut staged) = (0, 0);
            for n in 0..=store.operations() {
                let operation = store.operation(n);
                for cut in [0, 1, 8, 40, 55, 63] {
                    if cut > 0 && store.bytes_written_by(n).is_none_or(|bytes| cut >= bytes) {
                        continue;
                    }
                    let left = store.crash_after_bytes(n, cut);
                    let Ok(file) = left.read_all(PATH) else { continue };
                    let Ok(live) = Live::find(&file) else {
                        assert_eq!(steps, 0, "{what}: nothing is left after {n} operations and {cut} bytes");
                        continue;
                    };
                    let now = live.step_count();
                    assert!(now == steps || now == steps + 1, "{what}: {steps} and then {now}");
                    if now > steps {
                        assert_eq!(cut, 0, "{what}: a step is there after a part of \"{operation}\"");
                        steps = now;
                    }
                }
                let is_seal = |bytes| bytes == FOOTER || bytes == 64;
                staged +=
                    u32::from(operation.contains(" to x.bp at") && store.bytes_written_by(n).is_some_and(is_seal));
            }
            assert_eq!(steps, 4, "{what}");
            assert!(staged >= 4, "{what}: each step is staged and sealed");
        }
    }
}
