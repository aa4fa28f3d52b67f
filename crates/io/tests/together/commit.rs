//! `alloc` and `commit`: memory of the library that the program fills, and that no output copies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_comm::Communicator;
use thalweg_comm::alone::Alone;
use thalweg_comm::threads::Machine;
use thalweg_conformance::round_trip::in_memory;
use thalweg_io::{BlockBox, Mode, Session, registry};
use thalweg_layout::Layout;
use thalweg_reader::Reader;
use thalweg_schema::Schema;
use thalweg_types::{ErrorKind, Selection};

/// Bytes of a block that is not copied.
const BYTES: usize = 300_000;

fn schema(method: &str, parameters: &str, more: &str) -> Schema {
    let xml = format!(
        r#"<adios-config host-language="C"><adios-group name="g"><var name="v" type="byte" dimensions="{BYTES}"/>
        <var name="small" type="byte" dimensions="3"/><var name="n" type="integer"/>{more}</adios-group>
        <method group="g" method="{method}">{parameters}</method></adios-config>"#
    );
    thalweg_schema::xml::parse(&xml, "t.xml").unwrap_or_else(|e| panic!("{}", e.render(false)))
}

fn session(layout: &Arc<dyn Layout>, schema: Schema, comm: Box<dyn Communicator>) -> Session {
    Session::with_layout(schema, layout.clone(), comm).unwrap()
}

fn values(layout: &Arc<dyn Layout>, variable: &str, step: u64, block: u64, bytes: usize) -> Vec<u8> {
    let reader = Reader::open(layout.clone(), "x.bp").unwrap();
    let mut values = vec![0; bytes];
    reader.read(variable, step, &Selection::Block(block), &mut values).unwrap();
    values
}

#[test]
fn what_is_committed_is_read_back_from_files_of_every_method() {
    let methods: Vec<&str> = registry::that_write_by_themselves().map(|kind| kind.names[0]).collect();
    for method in methods {
        for parameters in ["", "async=yes"] {
            let layout = in_memory();
            let schema = schema(method, parameters, "");
            Machine::new(3).run(|comm| {
                let session = session(&layout, schema.clone(), comm.duplicate().unwrap());
                for step in 0..3u8 {
                    let mode = if step == 0 { Mode::Write } else { Mode::Append };
                    let mut memory = session.alloc(BYTES as u64).unwrap();
                    memory.fill(10 * step + comm.rank() as u8);
                    let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
                    output.write("small", &[1, 2, step]).unwrap();
                    output.commit("v", None, memory).unwrap();
                    output.write_values("n", &[i32::from(step)]).unwrap();
                    output.close().unwrap();
                }
                session.finalize().unwrap();
            });
            for (step, rank) in (0..3).flat_map(|step| (0..3).map(move |rank| (step, rank))) {
                let found = values(&layout, "v", step, rank, BYTES);
                assert!(
                    found == [10 * step as u8 + rank as u8; BYTES],
                    "{method} {parameters}: step {step}, rank {rank}"
                );
                assert_eq!(values(&layout, "small", step, rank, 3), [1, 2, step as u8]);
            }
        }
    }
}

#[test]
fn nothing_is_copied_and_the_memory_is_used_again() {
    for parameters in ["", "async=yes"] {
        let layout = in_memory();
        let session = session(&layout, schema("POSIX", parameters, ""), Box::new(Alone::new()));
        let mut places = Vec::new();
        for step in 0..3 {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let mut memory = session.alloc(BYTES as u64).unwrap();
            memory.fill(step);
            places.push(memory.as_ptr());
            let mut output = session.open("g", "x.bp", mode, Box::new(Alone::new())).unwrap();
            output.commit("v", None, memory).unwrap();
            output.start_close().wait().unwrap();
        }
        assert!(places.iter().all(|place| *place == places[0]));
        let peak = session.buffer().peak();
        assert!(peak < BYTES as u64 + 1000, "{peak} bytes of the buffer were in use at a time");
        session.finalize().unwrap();
    }
}

#[test]
fn memory_comes_back_from_a_block_that_is_refused() {
    let layout = in_memory();
    let session = session(&layout, schema("POSIX", "", ""), Box::new(Alone::new()));
    let mut output = session.open("g", "x.bp", Mode::Write, Box::new(Alone::new())).unwrap();
    let short = session.alloc(BYTES as u64 - 1).unwrap();
    let (e, short) = output.resolve("v", None, None).unwrap().commit(short).unwrap_err();
    let short = short.unwrap();
    assert_eq!((e.kind(), short.len()), (ErrorKind::InvalidArgument, BYTES - 1));
    assert_eq!(output.commit("w", None, short).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(session.buffer().used(), 0);
    // Longer memory does.
    let mut long = session.alloc(BYTES as u64 + 1).unwrap();
    long.fill(4);
    output.commit("v", None, long).unwrap();
    output.close().unwrap();
    session.finalize().unwrap();
    assert!(values(&layout, "v", 0, 0, BYTES) == [4; BYTES]);
}

/// Any memory that a program gives away.
struct Given(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Given {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn memory_of_the_program_is_kept_until_it_is_written() {
    let layout = in_memory();
    let more = format!(
        r#"<var name="z" type="byte" dimensions="{BYTES}" transform="zlib"/>
        <global-bounds dimensions="{}" offsets="n"><var name="a" type="byte" dimensions="{BYTES}"/></global-bounds>"#,
        2 * BYTES
    );
    let session = session(&layout, schema("POSIX", "", &more), Box::new(Alone::new()));
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = || dropped.load(Ordering::SeqCst);
    let given = |value: u8, bytes: usize| Given(vec![value; bytes], dropped.clone());
    let mut output = session.open("g", "x.bp", Mode::Write, Box::new(Alone::new())).unwrap();
    output.write_values("n", &[0i32]).unwrap();
    output.commit("v", None, given(1, BYTES)).unwrap();
    assert_eq!(count(), 0);
    // What is small or transformed is copied.
    output.commit("small", None, given(2, 3)).unwrap();
    output.commit("z", None, given(3, BYTES)).unwrap();
    assert_eq!(count(), 2);
    // The same box again: the last one counts.
    output.commit("a", None, given(4, BYTES)).unwrap();
    output.commit("a", None, given(5, BYTES)).unwrap();
    let second = BlockBox { count: vec![BYTES as u64], shape: None, offset: Some(vec![BYTES as u64]) };
    output.commit("a", Some(second), given(6, BYTES)).unwrap();
    output.write("a", &[7; BYTES]).unwrap();
    output.close().unwrap();
    assert_eq!(count(), 6);
    session.finalize().unwrap();
    assert!(values(&layout, "v", 0, 0, BYTES) == [1; BYTES]);
    assert_eq!(values(&layout, "small", 0, 0, 3), [2; 3]);
    assert!(values(&layout, "z", 0, 0, BYTES) == [3; BYTES]);
    let reader = Reader::open(layout.clone(), "x.bp").unwrap();
    let mut found = vec![0; 2 * BYTES];
    reader.read("a", 0, &Selection::All, &mut found).unwrap();
    assert!(found[..BYTES] == [7; BYTES] && found[BYTES..] == [6; BYTES]);
}

#[test]
fn memory_counts_in_the_limit_and_waits_for_outputs_in_flight() {
    let layout = in_memory();
    let session = session(&layout, schema("POSIX", "async=yes", ""), Box::new(Alone::new()));
    session.set_buffer_limit(Some(2 * BYTES as u64));
    for step in 0..10 {
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        // Two do not fit: the second waits until the output of the first has ended.
        let mut memory = session.alloc(BYTES as u64).unwrap();
        memory.fill(step);
        let mut output = session.open("g", "x.bp", mode, Box::new(Alone::new())).unwrap();
        output.commit("v", None, memory).unwrap();
        output.close().unwrap();
    }
    let held = session.alloc(BYTES as u64 + BYTES as u64 / 2).unwrap();
    let e = session.alloc(BYTES as u64).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NoMemory);
    assert!(e.to_string().contains("the buffer limit of 600000"), "{e}");
    drop(held);
    session.finalize().unwrap();
    assert!(session.buffer().peak() <= 2 * BYTES as u64);
    for step in 0..10 {
        assert!(values(&layout, "v", step, 0, BYTES) == [step as u8; BYTES]);
    }
}
