//! The promises of a method: a reader finds exactly what was written, for any method and any number of ranks.
//!
//! | promise | how it is checked |
//! |---|---|
//! | values, blocks, places, ranks, statistics, attributes, steps read back as they were written | the [`round_trip`](crate::round_trip) checks |
//! | open tells all ranks the step, close tells all the same bytes | on every rank |
//! | the file is whole, closed for good, and has no step that nobody wrote | the reader's status, `verify` |
//! | nothing else stays: no spill file, no subfile that the index does not know | names in the folder |
//! | the data alone are enough | the index is spoiled, `recover` finds the same again |
//! | a method that writes no file writes none | the folder stays empty |
//!
//! A [`Case`] describes an output as data; [`cases`] lists them by name. A [`MethodCase`] is a method with parameters. The registry
//! knows the methods, so the tests of `io` hand them in; a new one falls under the suite by being listed there.

pub mod cases;

use crate::round_trip::{Expected, Write, check_attributes, check_values};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::threads::{Machine, ThreadCommunicator};
use thalweg_io::{Mode, PendingOutput, Session, WriteRequest};
use thalweg_layout::{Layout, OpenWrite, WriterId};
use thalweg_reader::{Reader, RecoverOptions, recover, verify};
use thalweg_schema::{MethodChoice, Schema};
use thalweg_types::{AttributeValue, Selection};

/// One output: one open and close.
#[derive(Debug, Clone)]
pub struct Act {
    /// Position of the group in the schema.
    pub group: usize,
    /// How it is opened.
    pub mode: Mode,
    /// The writes of each rank, in order.
    pub ranks: Vec<Vec<Write>>,
}

/// The outputs to one file.
#[derive(Debug, Clone)]
pub struct Case {
    /// The groups, without methods. No two variables of them have the same full name.
    pub schema: Schema,
    /// The outputs of each session, which is finalized before the next begins. All outputs of a session have as many
    /// ranks.
    pub sessions: Vec<Vec<Act>>,
    /// The buffer limit in bytes; `None` for no limit.
    pub buffer: Option<u64>,
    /// The final value of each attribute, by full name.
    pub attributes: BTreeMap<String, AttributeValue>,
}

/// A method and its parameters.
#[derive(Debug, Clone)]
pub struct MethodCase {
    /// Name of the method.
    pub method: String,
    /// As in the XML: `key=value;key=value`.
    pub parameters: String,
    /// Whether it leaves a file.
    pub leaves_file: bool,
    /// Whether groups of one rank may go to different files: the data alone don't tell then which of two outputs of one
    /// step was the first.
    pub moves_groups: bool,
}

impl MethodCase {
    /// A method that writes files, with these parameters.
    pub fn new(method: &str, parameters: &str) -> MethodCase {
        MethodCase {
            method: method.to_string(),
            parameters: parameters.to_string(),
            leaves_file: true,
            moves_groups: false,
        }
    }

    /// The choice for one group.
    fn choice(&self, group: &str) -> MethodChoice {
        let pairs = self.parameters.split(';').filter(|p| !p.is_empty());
        let pairs = pairs.map(|p| p.split_once('=').unwrap_or_else(|| panic!("{p}: no key=value")));
        let parameters = pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect();
        MethodChoice { parameters, ..MethodChoice::new(group, &self.method) }
    }
}

impl Case {
    /// The final contents of each step: per output to it, the group and the writes of the ranks.
    fn steps(&self) -> Vec<Vec<&Act>> {
        let mut steps: Vec<Vec<&Act>> = Vec::new();
        for act in self.sessions.iter().flatten() {
            match act.mode {
                Mode::Write => steps = vec![vec![act]],
                Mode::Append => steps.push(vec![act]),
                Mode::Update => match steps.last_mut() {
                    Some(last) => last.push(act),
                    None => steps.push(vec![act]),
                },
                Mode::AppendAfter(after) => {
                    steps.truncate(after as usize + 1);
                    steps.push(vec![act]);
                }
            }
        }
        steps
    }

    /// The step that each output writes, by session.
    fn step_numbers(&self) -> Vec<Vec<u64>> {
        let mut next = 0;
        let mut number = |mode: Mode| {
            next = match mode {
                Mode::Write => 1,
                Mode::Append => next + 1,
                Mode::Update => next.max(1),
                Mode::AppendAfter(after) => after + 2,
            };
            next - 1
        };
        self.sessions.iter().map(|acts| acts.iter().map(|act| number(act.mode)).collect()).collect()
    }

    /// The blocks that each variable must have, by full name, in the order in which readers number them: by step, then
    /// by output, then by rank.
    fn blocks(&self) -> BTreeMap<String, Vec<Expected<'_>>> {
        let mut all: BTreeMap<String, Vec<Expected<'_>>> = BTreeMap::new();
        for (step, acts) in (0..).zip(self.steps()) {
            for act in acts {
                for (rank, write) in (0..).zip(&act.ranks).flat_map(|(r, writes)| writes.iter().map(move |w| (r, w))) {
                    let variable = &self.schema.groups[act.group].variables[write.variable];
                    let block = Expected { step, rank, element: variable.element, write };
                    let name = thalweg_schema::full_name(&variable.path, &variable.name);
                    all.entry(name).or_default().push(block);
                }
            }
        }
        all
    }
}

/// Writes a case with ranks as threads and checks every promise.
///
/// # Panics
/// At the first promise that is broken.
pub fn check(layout: &Arc<dyn Layout>, path: &str, case: &Case, setup: &MethodCase) {
    write(layout, path, case, setup);
    if !setup.leaves_file {
        assert_eq!(layout.list("").unwrap(), [""; 0], "{} leaves no file", setup.method);
        return;
    }
    only_the_file_stays(layout, path);
    reads_back(layout, path, case, true);
    spoil_index(layout, path);
    // The writer has ended, which some stores cannot tell.
    let options = RecoverOptions { even_if_written: true, ..RecoverOptions::default() };
    let recovery = recover(&**layout, path, options).unwrap_or_else(|e| panic!("recover: {e}"));
    assert_eq!((recovery.steps, recovery.dropped), (case.steps().len() as u64, vec![]), "{:?}", recovery.actions);
    reads_back(layout, path, case, !setup.moves_groups || case.steps().iter().all(|acts| acts.len() == 1));
}

/// Writes a case, with ranks as threads on two nodes.
///
/// # Panics
/// Where a call fails, or tells ranks different things.
pub fn write(layout: &Arc<dyn Layout>, path: &str, case: &Case, setup: &MethodCase) {
    let mut schema = case.schema.clone();
    schema.methods = schema.groups.iter().map(|group| setup.choice(&group.name)).collect();
    for (acts, steps) in case.sessions.iter().zip(case.step_numbers()) {
        let ranks = acts.first().map_or(1, |act| act.ranks.len() as u32);
        let machine = Machine::new(ranks).ranks_per_node(ranks.div_ceil(2)).timeout(Duration::from_secs(60));
        let closed = machine.run(|comm| {
            let session = Session::with_layout(schema.clone(), layout.clone(), comm.duplicate().unwrap()).unwrap();
            session.set_buffer_limit(case.buffer);
            let closed: Vec<PendingOutput> = acts
                .iter()
                .zip(&steps)
                .map(|(act, step)| {
                    let wanted = setup.leaves_file.then_some(*step);
                    one_output(&session, &comm, &schema.groups[act.group].name, path, act, wanted)
                })
                .collect();
            // Outputs that a method ends later are in flight together.
            let closed = closed.into_iter().zip(&steps);
            let bytes = closed.map(|(closed, step)| closed.wait().unwrap_or_else(|e| panic!("step {step}: {e}")).bytes);
            let bytes: Vec<u64> = bytes.collect();
            session.finalize().unwrap();
            bytes
        });
        assert!(closed.iter().all(|c| *c == closed[0]), "ranks were told of different bytes: {closed:?}");
    }
}

/// Returns the output, whose close tells of bytes.
fn one_output(
    session: &Session,
    comm: &ThreadCommunicator,
    group: &str,
    path: &str,
    act: &Act,
    step: Option<u64>,
) -> PendingOutput {
    let writes = &act.ranks[comm.rank() as usize];
    let mut output = session.open(group, path, act.mode, comm.duplicate().unwrap()).unwrap();
    if let Some(step) = step {
        assert_eq!(output.step(), step, "the step that open tells");
        // Half of the outputs say beforehand how much will come.
        if step % 2 == 1 {
            output.group_size(writes.iter().map(|w| w.bytes.len() as u64).sum());
        }
    }
    let mut reused = Vec::new();
    for write in writes {
        if write.deferred {
            output.put(WriteRequest::deferred(write.variable, &write.bytes)).unwrap();
        } else {
            reused.clear();
            reused.extend_from_slice(&write.bytes);
            output.put(WriteRequest::new(write.variable, &reused)).unwrap();
            // The memory is the program's again.
            reused.fill(0xee);
        }
    }
    output.start_close()
}

/// - `in_order`: blocks of a step come in the order of its outputs.
fn reads_back(layout: &Arc<dyn Layout>, path: &str, case: &Case, in_order: bool) {
    let reader = Reader::open(layout.clone(), path).unwrap_or_else(|e| panic!("cannot open {path}: {e}"));
    let status = reader.status();
    let found = (status.steps, status.finished, status.torn_bytes, status.partial.len());
    assert_eq!(found, (case.steps().len() as u64, true, 0, 0), "steps, finished, torn bytes, partial: {status:?}");
    if in_order {
        check_values(&reader, &case.blocks());
    } else {
        in_any_order(&reader, &case.blocks());
    }
    check_attributes(&reader, &case.attributes);
    let report = verify(&**layout, path).unwrap();
    // Nobody need write all of a global array.
    let findings = report.findings.iter().filter(|f| f.kind != thalweg_reader::FindingKind::Gap);
    assert_eq!(findings.collect::<Vec<_>>(), Vec::<&thalweg_reader::Finding>::new(), "findings of verify");
}

/// Every block of every step is there once, whatever its number.
fn in_any_order(reader: &Reader, expected: &BTreeMap<String, Vec<Expected<'_>>>) {
    for (name, blocks) in expected {
        let mut wanted: Vec<_> = blocks.iter().map(|b| (b.step, Some(b.rank), b.write.bytes.clone())).collect();
        let mut found = Vec::new();
        for step in reader.variable(name).unwrap().steps {
            for block in reader.blocks(name, step).unwrap() {
                let bytes = reader.read_to_vec(name, step, &Selection::Block(block.number)).unwrap();
                found.push((step, reader.writer(&block).unwrap(), bytes));
            }
        }
        wanted.sort();
        found.sort();
        assert!(found == wanted, "{name}: {found:?} is not {wanted:?}");
    }
}

/// Only the file and the folder of its subfiles remain, no temporary files.
fn only_the_file_stays(layout: &Arc<dyn Layout>, path: &str) {
    let folder = format!("{path}.dir");
    for name in layout.list("").unwrap() {
        assert!(name == path || name == folder, "{name} stays");
        if name == folder {
            for subfile in layout.list(&folder).unwrap() {
                let number = subfile.strip_prefix(&format!("{path}.")).and_then(|n| n.parse::<u32>().ok());
                assert!(number.is_some(), "{folder}/{subfile} stays");
            }
        }
    }
}

/// Makes the footer say nothing.
fn spoil_index(layout: &Arc<dyn Layout>, path: &str) {
    let object = layout.open_write(path, OpenWrite::Existing, WriterId(0)).unwrap();
    let end = object.length().unwrap();
    object.write_at(end - 20, &[IoSlice::new(&[0xff; 20])]).unwrap();
}
