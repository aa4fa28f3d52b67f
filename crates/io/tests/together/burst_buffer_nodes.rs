//! Ranks on two nodes, each with a fast store of its own before one slow store, by each method that writes files: what they write
//! together is whole once both are drained, and before that a reader gets an error, or all of it. What cannot be written so is
//! refused on all ranks:
//!
//! | what | refused |
//! |------|---------|
//! | over direct, a file that ranks of both nodes write, or that ADAPTIVE may let them write | always: an object is one node's until it is drained |
//! | over small_file, files of one folder that ranks of both nodes write | always: a folder is one node's until it is drained |
//! | over containers, steps that one session writes | never: a rank that only writes asks for no other node's logs |
//! | steps that a later session adds to what is not drained | where a rank needs bytes that only another node has: the last index, its own subfile, or the end of a subfile that ranks share |
//! | steps that a later session adds to what is drained | never, where the first session was not refused |
//! | layout flat | when the mount is opened: a burst buffer has no rename that replaces at once |

use crate::common::*;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use thalweg_comm::Communicator;
use thalweg_io::{Mode, Session, registry};
use thalweg_layout::small_file::{self, SmallFile};
use thalweg_layout::{Container, Direct, Flat, Layout, container};
use thalweg_schema::xml;
use thalweg_store::Store;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::tiered::{Drain, Pace, Tiered};
use thalweg_store::wrap::{Operation, StoreCall, Watch, Wrapped};
use thalweg_types::{Error, ErrorKind, Result};

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
    placed: Placed,
    layout: &'static str,
    strangers: bool,
}

/// Which node a rank is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placed {
    /// Even ranks on the first.
    InTurn,
    /// The lower half on the first.
    InBlocks,
    /// All on the first.
    Together,
}

impl Placed {
    fn node(self, rank: u32) -> usize {
        match self {
            Placed::InTurn => rank as usize % 2,
            Placed::InBlocks => (rank / (RANKS / 2)) as usize,
            Placed::Together => 0,
        }
    }
}

/// - `strangers`: no process knows whether another one lives.
fn nodes(layout: &'static str, placed: Placed, strangers: bool) -> Nodes {
    let slow = Arc::new(Memory::new());
    let stores: Vec<_> = (0..2).map(|_| Tiered::new(Arc::new(Memory::new()), slow.clone()).unwrap()).collect();
    let mut nodes = Nodes { stores, layouts: Vec::new(), placed, layout, strangers };
    nodes.restart();
    nodes.layouts[0].make_folder("out").unwrap();
    nodes
}

impl Nodes {
    /// As where the processes of a job have ended and others begin.
    fn restart(&mut self) {
        // What processes keep open between calls, such as the logs of small files, is closed. An error says that another node's
        // folder was not told; what was recorded is closed all the same.
        self.layouts.iter().for_each(|layout| drop(layout.finish()));
        let over = |(n, store): (usize, &Tiered)| -> Arc<dyn Layout> {
            let options = container::Options { host: format!("node{n}"), ..container::Options::default() };
            let store: Arc<dyn Store> = match self.strangers {
                true => Arc::new(Wrapped::with(Arc::new(store.clone()), OtherHosts)),
                false => Arc::new(store.clone()),
            };
            match self.layout {
                "direct" => Arc::new(Direct::new(store).unwrap()),
                "small_file" => Arc::new(SmallFile::new(store, small_file::Settings::default()).unwrap()),
                _ => Arc::new(Container::new(vec![store], options).unwrap()),
            }
        };
        self.layouts = self.stores.iter().enumerate().map(over).collect();
    }

    /// Drains both, one first, after the job has ended.
    fn drain(&mut self, first: usize) {
        self.restart();
        [first, 1 - first].iter().for_each(|node| drain(&self.stores[*node]));
    }

    /// The layout's own check of what is drained, by each node.
    fn check(&self, about: &str) {
        for layout in &self.layouts {
            let concrete = layout.concrete();
            if let Some(small) = concrete.and_then(|layout| layout.downcast_ref::<SmallFile>()) {
                for folder in ["out", "out/x.bp.dir"].iter().filter(|folder| layout.stat(folder).is_ok()) {
                    let report = small.check(folder, true).unwrap();
                    assert!(report.torn.is_empty() && report.damaged.is_empty(), "{about}, {folder}: {report:?}");
                }
            }
            if let Some(container) = concrete.and_then(|layout| layout.downcast_ref::<Container>()) {
                let subfiles = layout.list("out/x.bp.dir").unwrap_or_default();
                let subfiles = subfiles.iter().map(|name| format!("out/x.bp.dir/{name}"));
                for name in subfiles.chain(["out/x.bp".to_string()]) {
                    let report = container.check(&name).unwrap();
                    assert!(report.is_clean(), "{about}, {name}: {report:?}");
                }
            }
        }
    }
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

/// Each rank through the layout of its node.
fn write(nodes: &Nodes, document: &str, steps: std::ops::Range<u64>) -> Vec<Result<()>> {
    write_on(nodes, 0, document, steps)
}

/// As `write`, with this node as the first.
fn write_on(nodes: &Nodes, first: usize, document: &str, steps: std::ops::Range<u64>) -> Vec<Result<()>> {
    thalweg_comm::threads::run(RANKS, |comm| {
        let schema = xml::parse(document, "test.xml").unwrap();
        let layout = nodes.layouts[(nodes.placed.node(comm.rank()) + first) % 2].clone();
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

/// What ranks of both nodes write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writers {
    /// Nothing: one node's ranks write all files.
    OfOneNode,
    /// Each node's ranks to files of their own.
    Apart,
    /// To one file, or to subfiles that ranks share.
    Sharing,
}

/// Each method that writes files, with parameters for four ranks, and its writers.
fn methods(placed: Placed) -> Vec<(&'static str, &'static str, Writers)> {
    use Writers::*;
    let of = |in_turn, in_blocks| match placed {
        Placed::InTurn => in_turn,
        Placed::InBlocks => in_blocks,
        Placed::Together => OfOneNode,
    };
    let further = [("ASYNC", "async=no;subfiles=2;owners=1;stripe=256", of(OfOneNode, Apart))];
    // A server writes what STAGING hands over, to files of the system.
    let kinds = registry::that_write_by_themselves();
    let all = kinds.map(|kind| match kind.names[0] {
        "POSIX" => ("POSIX", "", of(Apart, Apart)),
        "MPI" => ("MPI", "", of(Sharing, Sharing)),
        // Ranks 0 and 2 write.
        "MPI_COLLECTIVE" => ("MPI_COLLECTIVE", "aggregators=2;stripe=256;buffer=8k", of(OfOneNode, Sharing)),
        "MPI_AGGREGATE" => ("MPI_AGGREGATE", "num_aggregators=2", of(OfOneNode, Apart)),
        "ADAPTIVE" => ("ADAPTIVE", "num_files=2;chunk=8k", of(Sharing, Sharing)),
        // Ranks 0 and 2 write, or 0 and 1: the first of each node.
        "ASYNC" => ("ASYNC", "async=no;owners=2;stripe=256", of(OfOneNode, Sharing)),
        // Even ranks write to one subfile, odd ranks to the other.
        "MPI_SCHEDULED" => ("MPI_SCHEDULED", "num_files=2;targets=1;writers_per_target=1", of(Apart, Sharing)),
        other => panic!("no row for method {other}"),
    });
    all.chain(further).collect()
}

/// Whether a session of ranks on both nodes writes.
fn is_accepted(layout: &str, writers: Writers) -> bool {
    match layout {
        "direct" => writers != Writers::Sharing,
        "small_file" => writers == Writers::OfOneNode,
        _ => true,
    }
}

/// Calls with each method, its parameters and writers, layout and placement of ranks; which node is drained first; whether no process
/// knows whether another one lives, as containers may ask.
fn each(call: impl Fn((&str, &str, Writers), &'static str, Placed, usize, bool)) {
    for layout in ["direct", "container", "small_file"] {
        for placed in [Placed::InTurn, Placed::InBlocks] {
            for method in methods(placed) {
                for (first, strangers) in [(0, false), (1, false), (0, true), (1, true)] {
                    if layout == "container" || !strangers {
                        call(method, layout, placed, first, strangers);
                    }
                }
            }
        }
    }
}

#[test]
fn what_ranks_of_two_nodes_write_in_one_session_is_whole_or_refused_on_all_ranks() {
    each(|(method, parameters, writers), layout, placed, first, strangers| {
        let about =
            format!("{method} over {layout}, ranks {placed:?}, node {first} drained first, strangers: {strangers}");
        let mut nodes = nodes(layout, placed, strangers);
        let document = heat(method, parameters);
        let outcomes = write(&nodes, &document, 0..STEPS);
        if !is_accepted(layout, writers) {
            refused_on_all(&outcomes, &about);
            nodes.drain(first);
            nodes.check(&about);
            return;
        }
        accepted_on_all(&outcomes, &about);
        let check = |layout: &Arc<dyn Layout>| match contents(layout, "out/x.bp") {
            Ok(_) => holds_all(layout, STEPS, &about),
            Err(e) => assert!(format!("{e:?}").contains("not drained yet"), "{about}: {e:?}"),
        };
        nodes.layouts.iter().for_each(check);
        nodes.layouts[first].finish().unwrap();
        drain(&nodes.stores[first]);
        nodes.layouts.iter().for_each(check);
        nodes.drain(1 - first);
        nodes.layouts.iter().for_each(|layout| holds_all(layout, STEPS, &about));
        nodes.check(&about);
        // What was drained is appended to, from both nodes again.
        accepted_on_all(&write(&nodes, &document, STEPS..STEPS + 2), &about);
        nodes.drain(1 - first);
        nodes.layouts.iter().for_each(|layout| holds_all(layout, STEPS + 2, &about));
        nodes.check(&about);
    });
}

#[test]
fn a_later_session_adds_to_what_is_not_drained_or_is_refused_on_all_ranks() {
    each(|(method, parameters, writers), layout, placed, first, strangers| {
        if !is_accepted(layout, writers) {
            return;
        }
        let about =
            format!("{method} over {layout}, ranks {placed:?}, on other nodes: {first}, strangers: {strangers}");
        let mut nodes = nodes(layout, placed, strangers);
        let document = heat(method, parameters);
        accepted_on_all(&write(&nodes, &document, 0..STEPS), &about);
        let more = write_on(&nodes, first, &document, STEPS..STEPS + 1);
        let accepted = match (first, method, writers) {
            // Elsewhere than it was, rank 0 has no last index, and no rank its subfile.
            (1, ..) => false,
            // The end of a subfile is where its last rank wrote.
            (_, "MPI_SCHEDULED", Writers::Sharing) => false,
            // That was any rank.
            (_, "ADAPTIVE", Writers::Sharing) => more.iter().all(|outcome| outcome.is_ok()),
            _ => true,
        };
        let steps = match accepted {
            true => {
                accepted_on_all(&more, &about);
                STEPS + 1
            }
            false => {
                refused_on_all(&more, &about);
                STEPS
            }
        };
        nodes.drain(0);
        nodes.layouts.iter().for_each(|layout| holds_all(layout, steps, &about));
        nodes.check(&about);
    });
}

#[test]
fn what_one_node_wrote_and_drained_another_node_adds_to() {
    for layout in ["direct", "container", "small_file"] {
        for (method, parameters, _) in methods(Placed::Together) {
            let about = format!("{method} over {layout}");
            let mut nodes = nodes(layout, Placed::Together, false);
            let document = heat(method, parameters);
            for node in 0..4 {
                let steps = node * STEPS..(node + 1) * STEPS;
                accepted_on_all(&write_on(&nodes, node as usize % 2, &document, steps.clone()), &about);
                nodes.drain(0);
                nodes.layouts.iter().for_each(|layout| holds_all(layout, steps.end, &about));
                nodes.check(&about);
            }
        }
    }
}

#[test]
fn a_refused_append_of_two_nodes_changes_nothing_of_what_is_drained() {
    for layout in ["direct", "small_file"] {
        for placed in [Placed::InTurn, Placed::InBlocks] {
            for (method, parameters, writers) in methods(placed) {
                // An output of POSIX whose subfile cannot be opened ends as a partial step.
                if is_accepted(layout, writers) || method == "POSIX" {
                    continue;
                }
                let about = format!("{method} over {layout}, ranks {placed:?}");
                let mut nodes = nodes(layout, Placed::Together, false);
                let document = heat(method, parameters);
                accepted_on_all(&write(&nodes, &document, 0..STEPS), &about);
                nodes.drain(0);
                nodes.placed = placed;
                refused_on_all(&write(&nodes, &document, STEPS..STEPS + 1), &about);
                nodes.drain(1);
                nodes.layouts.iter().for_each(|layout| holds_all(layout, STEPS, &about));
                nodes.check(&about);
            }
        }
    }
}

#[test]
fn flat_is_refused_over_a_burst_buffer_when_it_is_opened() {
    let nodes = nodes("direct", Placed::InTurn, false);
    for stores in 1..3 {
        let stores = nodes.stores.iter().take(stores).map(|store| Arc::new(store.clone()) as Arc<dyn Store>).collect();
        let error = Flat::new(stores).err().expect("it was opened");
        let words = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Config, "{words}");
        assert!(words.contains("flat") && words.contains("tiered") && words.contains("renames"), "{words}");
        assert!(nodes.stores.iter().all(|store| store.list("").unwrap() == ["out"]), "something was made");
    }
}
