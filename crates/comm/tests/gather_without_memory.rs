//! A rank that has no memory for what a child sends up the tree: it takes the message off the child's hands all the same, says so, and
//! nobody waits.
// An allocator that refuses is a foreign border: the trait it implements is unsafe.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;
use thalweg_comm::agreement::agree;
use thalweg_comm::tags;
use thalweg_comm::threads::Machine;
use thalweg_comm::tree_gather::{self, ChildMessage, Gathering, PIECE};
use thalweg_comm::watched::{MessageCall, Watch, Watched};
use thalweg_comm::{Communicator, Request};
use thalweg_types::{Error, ErrorKind, Result};

thread_local! {
    /// From how many bytes on this thread gets no memory.
    static REFUSED: Cell<usize> = const { Cell::new(usize::MAX) };
    /// The largest piece of memory that this thread gave back.
    static FREED: Cell<usize> = const { Cell::new(0) };
}

struct Refusing;

// SAFETY: every call is passed on to the system's allocator unchanged, or refused as the trait allows.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if REFUSED.try_with(|least| layout.size() >= least.get()).unwrap_or(false) {
            return std::ptr::null_mut();
        }
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        let _ = FREED.try_with(|freed| freed.set(freed.get().max(layout.size())));
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

const CALL: Gathering = Gathering { tag: tags::FIRST + 98, run: 1, time_index: 1, attempt: 0 };
/// More than any rank without memory gets at once.
const LARGE: usize = 40 * PIECE;

/// What a rank has of the others' bytes, or why it has not.
type Known = Result<Vec<u8>>;

/// Every rank gives `count(rank)` bytes of its own number; outcome and rank 0's bytes.
fn gathered(comm: &dyn Communicator, fan_in: u32, count: impl Fn(u32) -> usize) -> Result<Vec<u8>> {
    let mut own: Known = Ok(vec![comm.rank() as u8; count(comm.rank())]);
    let join = |own: &mut Known, _, message: ChildMessage<'_>| match (own.as_mut(), message.short) {
        (Ok(_), Some(e)) => *own = Err(e),
        (Ok(all), None) => all.extend_from_slice(message.bytes),
        (Err(_), _) => {}
    };
    let say = |own: &mut Known| own.as_ref().map_or(Vec::new(), Vec::clone);
    tree_gather::gather(comm, fan_in, CALL, &mut own, join, say)?.map_or(Ok(None), Request::wait)?;
    let (own, outcome) = match own {
        Ok(own) => (own, Ok(())),
        Err(e) => (Vec::new(), Err(e)),
    };
    agree(comm, outcome, "gather", &[]).map(|_| own)
}

fn machine(ranks: u32) -> Machine {
    Machine::new(ranks).timeout(Duration::from_secs(300))
}

#[test]
fn a_message_of_many_pieces_arrives_whole() {
    for (ranks, fan_in) in [(2, 1), (4, 1), (7, 2), (5, 8)] {
        // Lengths about the borders of pieces, and none.
        let count = |rank: u32| [0, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 5, 0][rank as usize % 7];
        let known = machine(ranks).run(|comm| gathered(&comm, fan_in, count).unwrap());
        let expected: Vec<u8> = (0..ranks).flat_map(|rank| vec![rank as u8; count(rank)]).collect();
        assert!(known[0] == expected, "{ranks} ranks, fan-in {fan_in}");
    }
}

#[test]
fn a_rank_without_memory_for_its_childs_message_makes_all_ranks_fail_alike() {
    // A chain, a tree, and rank 0 itself.
    for (ranks, fan_in, poor, large) in [(4, 1, 1, 3), (7, 2, 1, 2), (3, 8, 0, 2), (2, 1, 0, 1)] {
        let outcomes = machine(ranks).run(|comm| {
            if comm.rank() == poor {
                REFUSED.set(LARGE);
            }
            let outcome = gathered(&comm, fan_in, |rank| if rank == large { LARGE } else { 10 });
            REFUSED.set(usize::MAX);
            outcome.map(drop).unwrap_err()
        });
        for (rank, error) in (0..).zip(outcomes) {
            let by = if rank == poor { None } else { Some(poor) };
            let what = format!("rank {rank} of {ranks}, fan-in {fan_in}: {error}");
            assert_eq!((error.kind(), error.reported_by()), (ErrorKind::NoMemory, by), "{what}");
        }
    }
}

/// Refuses to receive until memory for a piece was given back, as an MPI communicator does: the message waits for the next receive.
#[derive(Clone, Copy)]
struct Short;

impl Watch for Short {
    type During = ();

    fn begins(&self, _: MessageCall) {}

    fn refuses(&self, call: &MessageCall) -> Option<Error> {
        let is_short = matches!(call, MessageCall::Receive { tag, .. } if *tag == CALL.tag) && FREED.get() < PIECE;
        is_short.then(|| Error::new(ErrorKind::NoMemory, "a message"))
    }

    fn of_a_part(&self) -> Short {
        Short
    }
}

#[test]
fn a_rank_that_cannot_even_receive_gives_back_what_it_held_for_that() {
    let known = machine(4).run(|comm| {
        let comm = Watched::with(Box::new(comm), Short);
        FREED.set(0);
        gathered(&comm, 1, |_| 3).unwrap()
    });
    assert_eq!(known[0], [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
}
