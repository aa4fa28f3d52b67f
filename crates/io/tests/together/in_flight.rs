//! Outputs that a method ends later than the program's close: in the order in which they were closed, and every failure is heard
//! once, on all ranks.

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use thalweg_comm::agreement::agree;
use thalweg_comm::threads::{Machine, ThreadCommunicator};
use thalweg_comm::{Communicator, Reduce};
use thalweg_conformance::round_trip::in_memory;
use thalweg_io::output::WriteRequest;
use thalweg_io::registry;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId};
use thalweg_movement::method::pending::{OwnedOutput, Pending, close_later};
use thalweg_movement::method::{CloseRequest, MethodKind, Opened, Parameters};
use thalweg_movement::output_file::memory::Memory;
use thalweg_movement::output_file::spill::Spill;
use thalweg_movement::pack::Reach;
use thalweg_movement::pack::blocks::Takes;
use thalweg_movement::{Closed, Method, OpenRequest};
use thalweg_params::Parameter;
use thalweg_schema::Schema;
use thalweg_types::{Error, ErrorKind, Result};

const GATE: Parameter = Parameter::text("gate", "a name", "the gate that outputs wait at before they end");

/// Appends its blocks to a file per rank, when the gate lets the step through.
static LATER: MethodKind = MethodKind {
    names: &["LATER"],
    id: 201,
    about: "writes after close",
    parameters: &[GATE],
    least: 0,
    tried: &[],
    make: |parameters: &Parameters| {
        let gate = parameters.text(&GATE).unwrap_or_default().to_string();
        Ok(Box::new(Later { gate, open: None }))
    },
};

/// Steps that gates let through, and how these end.
static GATES: Mutex<Option<HashMap<String, Gate>>> = Mutex::new(None);
static OPENED: Condvar = Condvar::new();

#[derive(Default)]
struct Gate {
    /// Steps below this one go through.
    open_to: u32,
    /// This step fails on rank 1.
    fails: Option<u32>,
}

fn gate<T>(name: &str, with: impl FnOnce(&mut Gate) -> T) -> T {
    let mut gates = GATES.lock().unwrap();
    let done = with(gates.get_or_insert_default().entry(name.to_string()).or_default());
    OPENED.notify_all();
    done
}

/// How many outputs of a file a session has opened.
#[derive(Default)]
struct Steps(HashMap<String, u32>);
impl Memory for Steps {}

struct Later {
    gate: String,
    open: Option<(Arc<dyn Layout>, String, Spill)>,
}

impl Method for Later {
    fn name(&self) -> &'static str {
        "LATER"
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let spill =
            Spill::new(request.layout, &format!("{}.spill", request.path), request.comm.rank(), 4096, request.buffer);
        self.open = Some((request.layout.clone(), request.path.to_string(), spill));
        let steps = request.cache.of::<Steps>();
        let mut steps = steps.lock();
        let step = steps.0.entry(request.path.to_string()).or_default();
        *step = if request.mode == Mode::Write { 1 } else { *step + 1 };
        Ok(Opened { time_index: *step, first_time: 1, run: request.run, levels: Vec::new() })
    }

    fn takes(&self) -> Takes {
        Takes::Blocks
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        Ok((self.open.as_mut().unwrap().2.through()?, 0))
    }

    fn ends_later(&self) -> bool {
        true
    }

    fn take_over(self: Box<Self>, output: OwnedOutput) -> Box<dyn Pending> {
        close_later(self, output)
    }

    fn close(&mut self, mut request: CloseRequest<'_, '_>) -> Result<Closed> {
        let (layout, path, spill) = self.open.take().unwrap();
        let (comm, step) = (request.comm, request.header.time_index - 1);
        let mut gates = GATES.lock().unwrap();
        while gates.get_or_insert_default().entry(self.gate.clone()).or_default().open_to <= step {
            gates = OPENED.wait_timeout(gates, Duration::from_secs(60)).unwrap().0;
        }
        let fails = gates.get_or_insert_default()[&self.gate].fails == Some(step);
        drop(gates);
        let failed = request.failed.take();
        let write = || {
            failed.map_or(Ok(()), Err)?;
            if fails && comm.rank() == 1 {
                return Err(Error::new(ErrorKind::NoSpace, "made to fail"));
            }
            let object =
                layout.open_write(&format!("{path}.{}", comm.rank()), OpenWrite::Any, WriterId(comm.rank()))?;
            for block in request.blocks(spill.object().map(|object| (object, 0)))? {
                object.write_at(object.length()?, &[IoSlice::new(&block.values()?)])?;
            }
            object.close()
        };
        // Over the output's own communicator, while the program uses others.
        agree(comm, write(), "write", &[])?;
        Ok(Closed::of(comm.all_reduce(&[1], Reduce::Sum)?[0]))
    }
}

fn schema(gate: &str, more: &str) -> Schema {
    registry::add(&LATER).unwrap();
    let xml = format!(
        r#"<adios-config host-language="C"><adios-group name="g"><var name="v" type="byte" dimensions="3"/></adios-group>
        <method group="g" method="LATER">gate={gate}</method>{more}</adios-config>"#
    );
    thalweg_schema::xml::parse(&xml, "t.xml").unwrap_or_else(|e| panic!("{}", e.render(false)))
}

/// Opens, writes the letter and closes.
fn output(session: &Session, comm: &dyn Communicator, mode: Mode, value: u8) -> Result<Closed> {
    let mut output = session.open("g", "x", mode, comm.duplicate().unwrap())?;
    let values = [value; 3];
    output.write("v", &values)?;
    output.close()
}

fn deferred(session: &Session, comm: &dyn Communicator, value: u8) -> Result<Closed> {
    let mut values = [value; 3];
    let mut output = session.open("g", "x", Mode::Append, comm.duplicate().unwrap())?;
    output.put(WriteRequest::deferred("v", &values))?;
    let closed = output.close();
    values.fill(b'?');
    std::hint::black_box(&values);
    closed
}

fn text(layout: &Arc<dyn Layout>, path: &str) -> String {
    let Ok(object) = layout.open_read(path) else { return String::new() };
    let mut bytes = vec![0; object.length().unwrap() as usize];
    object.read_exact_at(0, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn run(layout: &Arc<dyn Layout>, schema: &Schema, body: impl Fn(&Session, &ThreadCommunicator) + Sync) {
    Machine::new(3).timeout(Duration::from_secs(60)).run(|comm| {
        let session = Session::with_layout(schema.clone(), layout.clone(), comm.duplicate().unwrap()).unwrap();
        body(&session, &comm);
    });
}

#[test]
fn outputs_of_one_file_queue_and_end_in_the_order_in_which_they_were_closed() {
    let (layout, schema) = (in_memory(), schema("order", ""));
    run(&layout, &schema, |session, comm| {
        for (mode, value) in [(Mode::Write, b'a'), (Mode::Append, b'b'), (Mode::Append, b'c')] {
            assert!(output(session, comm, mode, value).unwrap().pending);
        }
        // Of deferred memory nothing is needed any more once close has returned.
        assert!(deferred(session, comm, b'd').unwrap().pending);
        comm.barrier().unwrap();
        assert_eq!(text(&layout, &format!("x.{}", comm.rank())), "", "nothing has ended");
        comm.barrier().unwrap();
        gate("order", |gate| gate.open_to = u32::MAX);
        session.wait_for_outputs().unwrap();
        assert_eq!(text(&layout, &format!("x.{}", comm.rank())), "aaabbbcccddd");
        assert_eq!(session.buffer().used(), 0, "the buffer is free again");
        session.finalize().unwrap();
    });
}

#[test]
fn without_room_in_the_buffer_deferred_memory_is_spilled_before_close_returns() {
    let (layout, schema) = (in_memory(), schema("spilled", ""));
    run(&layout, &schema, |session, comm| {
        session.set_buffer_limit(Some(0));
        assert!(deferred(session, comm, b'a').unwrap().pending);
        comm.barrier().unwrap();
        gate("spilled", |gate| gate.open_to = u32::MAX);
        session.finalize().unwrap();
        assert_eq!(text(&layout, &format!("x.{}", comm.rank())), "aaa");
    });
}

#[test]
fn a_failure_is_heard_by_all_ranks_at_the_next_open_and_only_once() {
    let (layout, schema) = (in_memory(), schema("failure", ""));
    gate("failure", |gate| gate.fails = Some(1));
    run(&layout, &schema, |session, comm| {
        output(session, comm, Mode::Write, b'a').unwrap();
        output(session, comm, Mode::Append, b'b').unwrap();
        output(session, comm, Mode::Append, b'c').unwrap();
        comm.barrier().unwrap();
        gate("failure", |gate| gate.open_to = u32::MAX);
        // Opens fail as soon as the failure is known everywhere.
        let mut more = 0u32;
        let e = loop {
            match output(session, comm, Mode::Append, b'd') {
                Ok(_) if more < 20_000 => more += 1,
                Ok(_) => panic!("no open fails"),
                Err(e) => break e,
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
        assert_eq!(e.reported_by().is_none(), comm.rank() == 1, "{e}");
        let same = comm.all_gather(&more.to_ne_bytes()).unwrap();
        assert!(same.iter().all(|m| m[..] == more.to_ne_bytes()), "the same open fails on all ranks: {same:?}");
        session.finalize().unwrap();
        let d = "ddd".repeat(more as usize);
        let lost = if comm.rank() == 1 { "" } else { "bbb" };
        assert_eq!(text(&layout, &format!("x.{}", comm.rank())), format!("aaa{lost}ccc{d}"));
    });
}

#[test]
fn a_failure_that_no_open_reports_is_reported_by_finalize_on_all_ranks() {
    let (layout, schema) = (in_memory(), schema("last", ""));
    gate("last", |gate| (gate.fails, gate.open_to) = (Some(0), u32::MAX));
    run(&layout, &schema, |session, comm| {
        output(session, comm, Mode::Write, b'a').unwrap();
        let e = session.finalize().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
        session.finalize().unwrap();
    });
}

#[test]
fn a_rank_that_cannot_take_part_says_so_to_all_when_the_output_ends() {
    let (layout, schema) = (in_memory(), schema("part", ""));
    gate("part", |gate| gate.open_to = u32::MAX);
    run(&layout, &schema, |session, comm| {
        let mut output = session.open("g", "x", Mode::Write, comm.duplicate().unwrap()).unwrap();
        output.write("v", b"aaa").unwrap();
        if comm.rank() == 2 {
            output.fail(Error::new(ErrorKind::NotFound, "the mesh is lost"));
        }
        assert!(output.close().unwrap().pending);
        assert_eq!(session.wait_for_outputs().unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn another_method_waits_until_the_file_is_whole_and_those_behind_it_in_the_group_follow_it() {
    let log = std::env::temp_dir().join(format!("thalweg-in-flight-{}", std::process::id()));
    let more = format!(
        r#"<method group="g" method="TRIGGER">command=cat >> {}; log=no</method>
        <adios-group name="h"><var name="v" type="byte" dimensions="3"/></adios-group><method group="h" method="MPI"/>"#,
        log.display()
    );
    let (layout, schema) = (in_memory(), schema("behind", &more));
    run(&layout, &schema, |session, comm| {
        assert!(output(session, comm, Mode::Write, b'a').unwrap().pending);
        comm.barrier().unwrap();
        assert!(!log.exists(), "the command follows the end of the output");
        comm.barrier().unwrap();
        if comm.rank() == 0 {
            std::thread::spawn(|| gate("behind", |gate| gate.open_to = u32::MAX));
        }
        let mut other = session.open("h", "x", Mode::Write, comm.duplicate().unwrap()).unwrap();
        assert_eq!(text(&layout, &format!("x.{}", comm.rank())), "aaa", "the open has waited");
        other.write("v", b"hhh").unwrap();
        assert!(!other.close().unwrap().pending);
        session.finalize().unwrap();
        comm.barrier().unwrap();
        assert!(std::fs::read_to_string(&log).unwrap().contains("\"method\":\"LATER\""));
        comm.barrier().unwrap();
    });
    std::fs::remove_file(log).unwrap();
}

#[test]
fn an_output_with_a_profile_ends_inside_close_behind_those_that_wait() {
    let (layout, schema) = (in_memory(), schema("profiled;profile=yes", ""));
    gate("profiled", |gate| gate.open_to = u32::MAX);
    run(&layout, &schema, |session, comm| {
        let closed = output(session, comm, Mode::Write, b'a').unwrap();
        assert_eq!((closed.pending, closed.bytes), (false, 3));
        session.finalize().unwrap();
    });
}
