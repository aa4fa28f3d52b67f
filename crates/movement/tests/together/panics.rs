//! A rank that panics between two collective calls, while it packs its values or inside its store, costs the output, not the
//! other ranks: all return the same kind of error, and the next output is whole.

use std::sync::Arc;
use std::time::Duration;
use thalweg_bp::process_group::Header;
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::{Level, Statistics};
use thalweg_comm::Communicator;
use thalweg_comm::threads::Machine;
use thalweg_layout::{Direct, Layout};
use thalweg_movement::method::{
    CloseRequest, MethodKind, Parameters, adaptive, aggregated, collective, independent, posix, scheduled,
};
use thalweg_movement::output_file::cache::Cache;
use thalweg_movement::transformed::Applied;
use thalweg_movement::{BlockSpec, BufferPool, Mode, OpenRequest, Pack};
use thalweg_store::Store;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_types::{ElementType, ErrorKind, Result, Value};

const RANKS: u32 = 3;
/// A limit for hangs alone.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every method that writes files.
const METHODS: [(&MethodKind, &str); 10] = [
    (&independent::KIND, ""),
    (&independent::KIND, "index_ahead=0;sync=yes"),
    (&posix::KIND, ""),
    (&posix::KIND, "index_ahead=0;sync=yes"),
    (&scheduled::KIND, "num_files=2;targets=1;writers_per_target=1"),
    (&scheduled::KIND, "num_files=2;targets=1;writers_per_target=1;index_ahead=0"),
    (&collective::KIND, "aggregators=2;stripe=512;buffer=8k"),
    (&aggregated::KIND, "aggregators=1;chunk=300"),
    (&aggregated::KIND, "aggregators=1;chunk=300;pattern=brigade"),
    (&adaptive::KIND, "num_files=2"),
];

/// Statistics of another type than the block's: the head of its record gets another length than was planned, which panics when
/// the block is packed.
fn of_another_type() -> Applied {
    let statistics = Statistics {
        level: Level::Full,
        min: Value::F64(0.0),
        max: Value::F64(1.0),
        finite: 2,
        sum: 1.0,
        sum_of_squares: 1.0,
        exact_sum: None,
        complex: None,
    };
    Applied { uid: "panics", metadata: Vec::new(), statistics: Some(statistics) }
}

/// One output of 700 bytes on each rank. `panics`: packing them does.
fn output(
    comm: &dyn Communicator,
    layout: &Arc<dyn Layout>,
    cache: &Arc<Cache>,
    (kind, text): (&MethodKind, &str),
    mode: Mode,
    panics: bool,
) -> Result<()> {
    let mut method = (kind.make)(&Parameters::parse(text)).unwrap();
    let buffer = Arc::new(BufferPool::new(None));
    let opened = method.open(&OpenRequest {
        comm,
        layout,
        path: "x.bp",
        group: "g",
        mode,
        run: 77,
        cache,
        buffer: &buffer,
        arrays: &[],
    })?;
    let time_index = opened.time_index;
    let header = Header { group: "g".into(), fortran: false, time_name: "t".into(), time_index, methods: Vec::new() };
    let values: Vec<u8> = (0..700).map(|i| (i + comm.rank() + time_index) as u8).collect();
    let mut pack = Pack::new(buffer, &header);
    let spec = BlockSpec {
        id: 0,
        name: "v".into(),
        path: "".into(),
        element: ElementType::U8,
        is_dimension: false,
        shape: Some(Shape::local([700])),
        level: Level::Full,
        value: None,
        transform: panics.then(|| Arc::new(of_another_type())),
    };
    pack.defer(spec, &values[..]).unwrap();
    method.close(CloseRequest { comm, header: &header, pack: &mut pack, failed: None }).map(drop)
}

/// All ranks succeeded, or all failed with `Io`, and somebody knows why; returns whether they succeeded.
fn alike(outcomes: Vec<std::thread::Result<Result<()>>>, what: &str) -> bool {
    let outcomes: Vec<Result<()>> = outcomes
        .into_iter()
        .map(|outcome| outcome.unwrap_or_else(|_| panic!("{what}: a rank panicked, the others wait for it")))
        .collect();
    let errors: Vec<_> = outcomes.iter().filter_map(|o| o.as_ref().err()).collect();
    assert!(errors.is_empty() || errors.len() == outcomes.len(), "{what}: some ranks heard nothing: {errors:?}");
    assert!(errors.iter().all(|e| e.kind() == ErrorKind::Io), "{what}: {errors:?}");
    assert!(errors.is_empty() || errors.iter().any(|e| e.reported_by().is_none()), "{what}: {errors:?}");
    errors.is_empty()
}

/// What the processes of a run have.
struct Run {
    machine: Machine,
    layout: Arc<dyn Layout>,
    caches: Vec<Arc<Cache>>,
}

impl Run {
    fn over(store: Arc<dyn Store>) -> Run {
        let layout: Arc<dyn Layout> = Arc::new(Direct::new(store).unwrap());
        let caches = (0..RANKS).map(|_| Arc::new(Cache::new())).collect();
        Run { machine: Machine::new(RANKS).timeout(PATIENCE), layout, caches }
    }

    /// - `panics`: the rank whose packing does.
    fn output(
        &self,
        setup: (&MethodKind, &str),
        mode: Mode,
        panics: Option<u32>,
    ) -> Vec<std::thread::Result<Result<()>>> {
        self.machine.run_each(|comm| {
            let rank = comm.rank();
            output(&comm, &self.layout, &self.caches[rank as usize], setup, mode, panics == Some(rank))
        })
    }
}

#[test]
fn a_rank_that_panics_while_it_packs_fails_the_output_on_all_ranks() {
    for setup in METHODS {
        for rank in 0..RANKS {
            let what = format!("{} {}, rank {rank}", setup.0.names[0], setup.1);
            let run = Run::over(Arc::new(Memory::new()));
            assert!(alike(run.output(setup, Mode::Write, None), &what), "{what}");
            assert!(!alike(run.output(setup, Mode::Append, Some(rank)), &what), "{what}: nobody was told");
            assert!(alike(run.output(setup, Mode::Append, None), &what), "{what}: the next output fails");
        }
    }
}

#[test]
fn a_store_that_panics_once_leaves_no_rank_waiting() {
    for setup in METHODS {
        let mut all = 0;
        for k in 0.. {
            let failing = Arc::new(Failing::new(Arc::new(Memory::new())));
            let run = Run::over(failing.clone());
            let what = format!("{} {}", setup.0.names[0], setup.1);
            assert!(alike(run.output(setup, Mode::Write, None), &what), "{what}");
            failing.fail(Fault::any().times(1).panics().skipping(k));
            let outcomes = run.output(setup, Mode::Append, None);
            let Some((asked, name)) = failing.failed().1 else { break };
            let what = format!("{what}, operation {k} ({asked:?} of {name})");
            let done = alike(outcomes, &what);
            // ADAPTIVE writes the group elsewhere.
            let told = !done || asked != StoreCall::Write || setup.0.names[0] == "ADAPTIVE";
            assert!(told, "{what}: nobody was told");
            failing.heal();
            assert!(alike(run.output(setup, Mode::Append, None), &what), "{what}: the next output fails");
            all += 1;
        }
        assert!(all > 5, "{}: hardly anything was asked of the store", setup.0.names[0]);
    }
}
