//! Ranks on two nodes, each with a fast store of its own before one slow store: what they write together is whole once
//! both are drained, and before that a reader gets an error, or all of it. What cannot be written so is refused on all ranks:
//!
//! | what | refused |
//! |------|---------|
//! | one shared object (method MPI over direct) | always: an object is one node's until it is drained |
//! | steps that one session writes over containers | never: a rank that only writes asks for no other node's logs |
//! | steps that a later session adds to what is not drained | where a rank needs bytes that only another node has: the last index, or its own subfile |
//! | steps that a later session adds to what is drained | never |

mod common;

use common::*;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use thalweg_comm::Communicator;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Container, Direct, Layout, container};
use thalweg_schema::xml;
use thalweg_store::Store;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::tiered::{Drain, Pace, Tiered};
use thalweg_store::wrap::{Operation, StoreCall, Watch, Wrapped};
use thalweg_types::{Error, Result};

const RANKS: u32 = 4;
const STEPS: u64 = 3;

/// Makes marks name processes of another host: as on a real machine no node knows whether another's writers live.
struct OtherHosts;

impl Watch for OtherHosts {
    fn describe(&self) -> &'static str {
        "other hosts"
    }

    fn after(&self, operation: &Operation<'_>, outcome: std::result::Result<u64, &Error>) {
        let of_marks = ["/m/o-", "/m/t-"].iter().any(|marks| operation.name.contains(marks));
        if let (StoreCall::Write, true, Ok(1..), Some(object)) = (operation.asked, of_marks, outcome, operation.object)
        {
            object.write_at(0, &[std::io::IoSlice::new(b"host ~")]).unwrap();
        }
    }
}

struct Nodes {
    stores: Vec<Tiered>,
    layouts: Vec<Arc<dyn Layout>>,
}

/// - `strangers`: no process knows whether another one lives.
fn nodes(layout: &str, strangers: bool) -> Nodes {
    let slow = Arc::new(Memory::new());
    let stores: Vec<_> = (0..2).map(|_| Tiered::new(Arc::new(Memory::new()), slow.clone()).unwrap()).collect();
    let over = |(n, store): (usize, &Tiered)| -> Arc<dyn Layout> {
        let options = container::Options { host: format!("node{n}"), ..container::Options::default() };
        let store: Arc<dyn Store> = match strangers {
            true => Arc::new(Wrapped::with(Arc::new(store.clone()), OtherHosts)),
            false => Arc::new(store.clone()),
        };
        match layout {
            "direct" => Arc::new(Direct::new(store).unwrap()),
            _ => Arc::new(Container::new(vec![store], options).unwrap()),
        }
    };
    Nodes { layouts: stores.iter().enumerate().map(over).collect(), stores }
}

fn drain(store: &Tiered) {
    let drain = Drain::new(store, Pace::default()).unwrap();
    loop {
        let passed = drain.pass(&AtomicBool::new(false)).unwrap();
        assert!(passed.failed.is_empty(), "{:?}", passed.failed);
        if passed.objects == 0 {
            return;
        }
    }
}

/// Each rank through the layout of its node; even ranks on the first.
fn write(nodes: &Nodes, document: &str, steps: std::ops::Range<u64>) -> Vec<Result<()>> {
    write_on(nodes, 0, document, steps)
}

/// As `write`, with even ranks on this node.
fn write_on(nodes: &Nodes, first: usize, document: &str, steps: std::ops::Range<u64>) -> Vec<Result<()>> {
    thalweg_comm::threads::run(RANKS, |comm| {
        let schema = xml::parse(document, "test.xml").unwrap();
        let layout = nodes.layouts[(comm.rank() as usize + first) % 2].clone();
        let session = Session::with_layout(schema, layout, comm.duplicate().unwrap()).unwrap();
        for step in steps.clone() {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            try_heat(&session, "out/x.bp", mode, &comm, step)?;
        }
        session.finalize()
    })
}

fn holds_all(layout: &Arc<dyn Layout>, steps: u64, about: &str) {
    for step in 0..steps {
        assert_eq!(read_heat(layout, "out/x.bp", step), all_of_t(RANKS, step), "{about}, step {step}");
    }
}

/// All ranks got an error of one kind, and some of them the reason.
fn refused_on_all(outcomes: &[Result<()>], about: &str) {
    let kinds: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().err().map(|e| e.kind())).collect();
    assert!(kinds.iter().all(|kind| kind.is_some() && *kind == kinds[0]), "{about}: {kinds:?}");
    let told = |outcome: &Result<()>| outcome.as_ref().is_err_and(|e| format!("{e:?}").contains("fast store"));
    assert!(outcomes.iter().any(told), "{about}: {outcomes:?}");
}

fn accepted_on_all(outcomes: &[Result<()>], about: &str) {
    assert!(outcomes.iter().all(|outcome| outcome.is_ok()), "{about}: {outcomes:?}");
}

/// Method, its parameters, layout.
const METHODS: [(&str, &str, &str); 5] = [
    ("POSIX", "", "direct"),
    ("POSIX", "", "container"),
    ("MPI", "", "container"),
    ("MPI_AGGREGATE", "num_aggregators=2", "direct"),
    ("MPI_AGGREGATE", "num_aggregators=2", "container"),
];

#[test]
fn what_ranks_of_two_nodes_write_in_one_session_is_whole() {
    for (method, parameters, layout) in METHODS {
        for (first, strangers) in [(0, false), (1, false), (0, true), (1, true)] {
            let about = format!("{method} over {layout}, node {first} drained first, strangers: {strangers}");
            let nodes = nodes(layout, strangers);
            nodes.layouts[0].make_folder("out").unwrap();
            accepted_on_all(&write(&nodes, &heat(method, parameters), 0..STEPS), &about);
            let check = |layout: &Arc<dyn Layout>| match contents(layout, "out/x.bp") {
                Ok(_) => holds_all(layout, STEPS, &about),
                Err(e) => assert!(format!("{e:?}").contains("not drained yet"), "{about}: {e:?}"),
            };
            nodes.layouts.iter().for_each(check);
            drain(&nodes.stores[first]);
            nodes.layouts.iter().for_each(check);
            drain(&nodes.stores[1 - first]);
            nodes.layouts.iter().for_each(|layout| holds_all(layout, STEPS, &about));
            // What was drained is appended to, from both nodes again.
            accepted_on_all(&write(&nodes, &heat(method, parameters), STEPS..STEPS + 2), &about);
            drain(&nodes.stores[1 - first]);
            drain(&nodes.stores[first]);
            nodes.layouts.iter().for_each(|layout| holds_all(layout, STEPS + 2, &about));
        }
    }
}

#[test]
fn one_object_that_ranks_of_two_nodes_share_is_refused_on_all_ranks() {
    let nodes = nodes("direct", false);
    nodes.layouts[0].make_folder("out").unwrap();
    refused_on_all(&write(&nodes, &heat("MPI", ""), 0..STEPS), "MPI over direct");
}

#[test]
fn a_later_session_adds_to_what_is_not_drained_or_is_refused_on_all_ranks() {
    for (method, parameters, layout) in METHODS {
        for (first, strangers) in [(0, false), (1, false), (0, true), (1, true)] {
            let about = format!("{method} over {layout}, ranks on other nodes: {first}, strangers: {strangers}");
            let nodes = nodes(layout, strangers);
            nodes.layouts[0].make_folder("out").unwrap();
            let document = heat(method, parameters);
            accepted_on_all(&write(&nodes, &document, 0..STEPS), &about);
            let more = write_on(&nodes, first, &document, STEPS..STEPS + 1);
            // On the node it was on, rank 0 has the last index and each rank its subfile. Elsewhere nobody has.
            let steps = match first {
                0 => {
                    accepted_on_all(&more, &about);
                    STEPS + 1
                }
                _ => {
                    refused_on_all(&more, &about);
                    STEPS
                }
            };
            nodes.stores.iter().for_each(drain);
            nodes.layouts.iter().for_each(|layout| holds_all(layout, steps, &about));
        }
    }
}
