//! Ranks on two nodes, each with a fast store of its own before one slow store: what they write together is whole once
//! both are drained, and before that a reader gets an error, or all of it. What cannot be written so is refused on all ranks.

mod common;

use common::*;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use thalweg_comm::Communicator;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Container, Direct, Layout, container};
use thalweg_schema::xml;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::tiered::{Drain, Pace, Tiered};
use thalweg_types::Result;

const RANKS: u32 = 4;
/// Appends read the index of what is there, which another node may not have drained: they come after a drain.
const STEPS: u64 = 3;

struct Nodes {
    stores: Vec<Tiered>,
    layouts: Vec<Arc<dyn Layout>>,
}

fn nodes(layout: &str) -> Nodes {
    let slow = Arc::new(Memory::new());
    let stores: Vec<_> = (0..2).map(|_| Tiered::new(Arc::new(Memory::new()), slow.clone()).unwrap()).collect();
    let over = |(n, store): (usize, &Tiered)| -> Arc<dyn Layout> {
        let options = container::Options { host: format!("node{n}"), ..container::Options::default() };
        match layout {
            "direct" => Arc::new(Direct::new(Arc::new(store.clone())).unwrap()),
            _ => Arc::new(Container::new(vec![Arc::new(store.clone())], options).unwrap()),
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
    thalweg_comm::threads::run(RANKS, |comm| {
        let schema = xml::parse(document, "test.xml").unwrap();
        let layout = nodes.layouts[comm.rank() as usize % 2].clone();
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

#[test]
fn what_ranks_of_two_nodes_write_is_whole_or_refused_on_all_ranks() {
    let methods = [
        ("POSIX", "", "direct"),
        ("POSIX", "", "container"),
        ("MPI", "", "container"),
        ("MPI_AGGREGATE", "num_aggregators=2", "direct"),
        ("MPI_AGGREGATE", "num_aggregators=2", "container"),
        ("MPI", "", "direct"),
    ];
    for (method, parameters, layout) in methods {
        for first in [0, 1] {
            let about = format!("{method} over {layout}, node {first} drained first");
            let nodes = nodes(layout);
            nodes.layouts[0].make_folder("out").unwrap();
            let outcomes = write(&nodes, &heat(method, parameters), 0..STEPS);
            if let Some(failed) = outcomes.iter().find_map(|outcome| outcome.as_ref().err()) {
                // One object cannot be written by two nodes: said on all ranks, with the reason.
                assert_eq!((method, layout), ("MPI", "direct"), "{about}: {failed}");
                let kinds: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().err().map(|e| e.kind())).collect();
                assert!(kinds.iter().all(|kind| *kind == kinds[0]), "{about}: {kinds:?}");
                let told = outcomes
                    .iter()
                    .any(|outcome| outcome.as_ref().is_err_and(|e| format!("{e:?}").contains("fast store")));
                assert!(told, "{about}: {failed}");
                continue;
            }
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
            let more = write(&nodes, &heat(method, parameters), STEPS..STEPS + 1);
            if more.iter().all(|outcome| outcome.is_ok()) {
                drain(&nodes.stores[1 - first]);
                drain(&nodes.stores[first]);
                nodes.layouts.iter().for_each(|layout| holds_all(layout, STEPS + 1, &about));
            } else {
                assert!(more.iter().all(|outcome| outcome.is_err()), "{about}: {more:?}");
                nodes.stores.iter().for_each(drain);
                nodes.layouts.iter().for_each(|layout| holds_all(layout, STEPS, &about));
            }
        }
    }
}
