//! A rank on the way up the tree has no memory for the index fragments that its child sends: the output fails on all ranks alike, what was
//! closed before stays, and the next output is whole.
// An allocator that refuses is a foreign border: the trait it implements is unsafe.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use thalweg_bp::process_group::Header;
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::Level;
use thalweg_comm::Communicator;
use thalweg_comm::threads::Machine;
use thalweg_layout::{Direct, Layout};
use thalweg_movement::method::{CloseRequest, MethodKind, Parameters, independent, posix, scheduled};
use thalweg_movement::output_file::cache::Cache;
use thalweg_movement::{BlockSpec, BufferPool, Mode, OpenRequest, Pack};
use thalweg_store::Store;
use thalweg_types::{ElementType, ErrorKind, Result};

thread_local! {
    /// Whether this thread gets no memory of about the size of a large fragment.
    static REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// Fragments of 6000 variables are within.
const FRAGMENT: std::ops::Range<usize> = 300_000..900_000;

struct Refusing;

// SAFETY: every call is passed on to the system's allocator unchanged, or refused as the trait allows.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Memory) -> *mut u8 {
        if FRAGMENT.contains(&layout.size()) && REFUSED.try_with(Cell::get).unwrap_or(false) {
            return std::ptr::null_mut();
        }
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Memory) {
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

const RANKS: u32 = 4;

/// One output of so many variables of one byte; the time index of its step.
fn output(
    comm: &dyn Communicator,
    layout: &Arc<dyn Layout>,
    cache: &Arc<Cache>,
    (kind, text): (&MethodKind, &str),
    (mode, variables): (Mode, u32),
) -> Result<u32> {
    let mut method = (kind.make)(&Parameters::parse(text)).unwrap();
    let buffer = &Arc::new(BufferPool::new(None));
    let request = OpenRequest { comm, layout, path: "x.bp", group: "g", mode, run: 7, cache, buffer, arrays: &[] };
    let time_index = method.open(&request)?.time_index;
    let header = Header { group: "g".into(), fortran: false, time_name: "t".into(), time_index, methods: Vec::new() };
    let mut pack = Pack::new(Arc::clone(buffer), &header);
    for id in 0..variables {
        let spec = BlockSpec {
            id,
            name: format!("v{id}").into(),
            path: "".into(),
            element: ElementType::U8,
            is_dimension: false,
            shape: Some(Shape::local([1])),
            level: Level::Full,
            value: None,
            transform: None,
        };
        pack.copy(&spec, &[id as u8][..]).unwrap();
    }
    method.close(CloseRequest { comm, header: &header, pack: &mut pack, failed: None }).map(|_| time_index)
}

#[test]
fn an_output_whose_index_fragments_find_no_memory_fails_on_all_ranks_and_the_next_is_whole() {
    for (kind, name) in [(&independent::KIND, "MPI"), (&posix::KIND, "POSIX"), (&scheduled::KIND, "SCHEDULED")] {
        for more in ["index_fan_in=1", "index_fan_in=1;index_ahead=0"] {
            let store: Arc<dyn Store> = Arc::new(thalweg_store::memory::Memory::new());
            let kinds = Machine::new(RANKS).timeout(Duration::from_secs(60)).run(|comm| {
                let layout: Arc<dyn Layout> = Arc::new(Direct::new(store.clone()).unwrap());
                let cache = Arc::new(Cache::new());
                let call = |mode, variables| output(&comm, &layout, &cache, (kind, more), (mode, variables));
                call(Mode::Write, 3).unwrap();
                // Ranks bring along those behind them: rank 1 hears all that rank 3 has to say.
                REFUSED.set(comm.rank() == 1);
                let failed = call(Mode::Append, if comm.rank() == 3 { 6000 } else { 3 });
                REFUSED.set(false);
                let next = call(Mode::Append, 3).unwrap();
                cache.finish().unwrap();
                (failed.map(drop).map_err(|e| e.kind()), next)
            });
            for (rank, outcome) in kinds.into_iter().enumerate() {
                assert_eq!(outcome, (Err(ErrorKind::NoMemory), 2), "{name} {more}, rank {rank}");
            }
        }
    }
}
