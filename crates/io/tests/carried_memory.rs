//! What methods hold to carry process groups to their files is part of the buffer limit; and where memory is short, all ranks
//! get an error and earlier steps stay.
mod common;
mod counting;

use common::*;
use counting::{GIVEN, IN_A_ROW, REFUSED};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::threads::Machine;
use thalweg_io::{Mode, Session, registry};
use thalweg_reader::Reader;
use thalweg_store::Posix;
use thalweg_types::{Error, ErrorKind, Selection};

const RANKS: u32 = 4;
const MIB: usize = 1 << 20;
/// Bytes of each rank's block, and how many there are.
const BLOCK: usize = 3 * MIB;
const BLOCKS: u32 = 4;

/// Methods that write files, with parameters.
const METHODS: [(&str, &str); 8] = [
    ("POSIX", ""),
    ("MPI", ""),
    ("MPI_SCHEDULED", "num_files=2"),
    ("MPI_COLLECTIVE", "aggregators=2"),
    ("MPI_COLLECTIVE", "aggregators=1"),
    ("MPI_AGGREGATE", "aggregators=1;direct=1G"),
    ("MPI_AGGREGATE", "aggregators=1;pattern=brigade;direct=1G"),
    ("ADAPTIVE", "num_files=2"),
];

fn document(method: &str, parameters: &str, block: usize) -> String {
    let variables: String =
        (0..BLOCKS).map(|v| format!(r#"<var name="a{v}" type="byte" dimensions="{block}"/>"#)).collect();
    format!(
        r#"<adios-config host-language="C"><adios-group name="g">{variables}</adios-group>
           <method group="g" method="{method}">{parameters}</method></adios-config>"#
    )
}

fn value(rank: u32, variable: u32, step: u64) -> u8 {
    (rank * 16 + variable * 4) as u8 + step as u8
}

/// One step, of the outcome of open, writes and close.
fn write(session: &Session, comm: &dyn Communicator, step: u64, block: &mut [u8]) -> Result<(), Error> {
    let mode = if step == 0 { Mode::Write } else { Mode::Append };
    let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap())?;
    for variable in 0..BLOCKS {
        block.fill(value(comm.rank(), variable, step));
        // A failure is told again by close.
        let _ = output.write(&format!("a{variable}"), block);
    }
    output.close().map(drop)
}

fn check(place: &Place, steps: &[u64], length: usize) {
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    for step in steps {
        for variable in 0..BLOCKS {
            for rank in 0..RANKS {
                let read =
                    reader.read_to_vec(&format!("a{variable}"), *step, &Selection::Block(u64::from(rank))).unwrap();
                let byte = value(rank, variable, *step);
                assert!(read.len() == length && read.iter().all(|b| *b == byte), "step {step}, rank {rank}");
            }
        }
    }
}

/// Bytes that all ranks held at most above what they had before they opened, and the most that a rank's buffer says.
fn held(method: &str, parameters: &str, limit: Option<u64>, ranks_per_node: u32) -> (usize, u64) {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::over(Arc::new(Posix::at(folder.path()).unwrap()));
    let document = document(method, parameters, BLOCK);
    let held = Machine::new(RANKS).ranks_per_node(ranks_per_node).run(|comm| {
        let session = place.session(&document, &comm);
        session.set_buffer_limit(limit);
        let mut block = vec![0; BLOCK];
        comm.barrier().unwrap();
        let before = counting::begin();
        comm.barrier().unwrap();
        write(&session, &comm, 0, &mut block).unwrap();
        comm.barrier().unwrap();
        let most = counting::most() - before;
        session.finalize().unwrap();
        (most, session.buffer().peak())
    });
    check(&place, &[0], BLOCK);
    held.into_iter().reduce(|a, b| (a.0.max(b.0), a.1.max(b.1))).unwrap()
}

/// Runs a test alone in a process of its own, as others' memory would be counted. Returns whether this is that process.
fn alone(test: &str, argument: &str) -> bool {
    if std::env::var("THALWEG_TEST_ALONE").is_ok() {
        return true;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("THALWEG_TEST_ALONE", argument)
        .stdout(std::process::Stdio::inherit())
        .spawn()
        .unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{test} {argument}: {status}");
    false
}

#[test]
fn what_carries_process_groups_is_part_of_the_buffer_limit() {
    if !alone("what_carries_process_groups_is_part_of_the_buffer_limit", "yes") {
        return;
    }
    // Names, index, pieces in which statistics are taken, what ranks say to each other: of all ranks.
    let besides = MIB;
    let mut wrong = Vec::new();
    for (method, parameters) in METHODS {
        let least = registry::find(method).unwrap().least;
        for limit in [0, 1, 6] {
            let limit = limit * MIB as u64;
            for ranks_per_node in [RANKS, 2, 1] {
                let (bytes, peak) = held(method, parameters, Some(limit), ranks_per_node);
                let most = limit.max(least);
                println!(
                    "{method} {parameters}, limit {} KiB, {ranks_per_node} ranks a node: all held {} KiB, a buffer {} KiB of {}",
                    limit >> 10,
                    bytes >> 10,
                    peak >> 10,
                    most >> 10
                );
                if bytes > RANKS as usize * most as usize + besides || peak > most {
                    wrong.push(format!(
                        "{method} {parameters}, limit {limit}, {ranks_per_node} ranks a node: {bytes} bytes, peak {peak}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every large piece of memory is refused once, alone or with those that follow it.
fn refuse_each(method: &str, parameters: &str, limit: Option<u64>, ranks_per_node: u32, in_a_row: usize) {
    const SMALL: usize = 100 << 10;
    let document = document(method, parameters, SMALL);
    let mut failures = 0;
    for given in (0..).step_by(thalweg_conformance::sweep::stride()) {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::over(Arc::new(Posix::at(folder.path()).unwrap()));
        let what =
            format!("{method} {parameters}, limit {limit:?}, {ranks_per_node} ranks a node, {given} pieces given");
        // Said before it happens: an abort says nothing.
        println!("{what}, {in_a_row} refused");
        let machine = Machine::new(RANKS).ranks_per_node(ranks_per_node).timeout(Duration::from_secs(300));
        let outcomes = machine.run(|comm| {
            let session = place.session(&document, &comm);
            session.set_buffer_limit(limit);
            let mut block = vec![0; SMALL];
            write(&session, &comm, 0, &mut block).unwrap();
            session.finalize().unwrap();
            drop(session);
            let session = place.session(&document, &comm);
            session.set_buffer_limit(limit);
            comm.barrier().unwrap();
            if comm.rank() == 0 {
                REFUSED.store(0, Ordering::SeqCst);
                IN_A_ROW.store(in_a_row, Ordering::SeqCst);
                GIVEN.store(given, Ordering::SeqCst);
            }
            comm.barrier().unwrap();
            let outcome = write(&session, &comm, 1, &mut block);
            comm.barrier().unwrap();
            GIVEN.store(-1, Ordering::SeqCst);
            comm.barrier().unwrap();
            let after = write(&session, &comm, 1 + u64::from(outcome.is_ok()), &mut block);
            // A step that is partial counts: what follows is another one.
            let _ = session.finalize();
            (outcome, after)
        });
        let refused = REFUSED.load(Ordering::SeqCst);
        let kinds: Vec<Option<ErrorKind>> = outcomes.iter().map(|(o, _)| o.as_ref().err().map(Error::kind)).collect();
        assert!(kinds.iter().all(|kind| *kind == kinds[0]), "{what}: {kinds:?}");
        assert!([None, Some(ErrorKind::NoMemory)].contains(&kinds[0]), "{what}: {:?}", outcomes[0].0);
        for (_, after) in &outcomes {
            assert!(after.is_ok(), "{what}: then {after:?}");
        }
        failures += u64::from(kinds[0].is_some());
        check(&place, &[0], SMALL);
        if kinds[0].is_none() {
            check(&place, &[0, 1, 2], SMALL);
        }
        if refused == 0 {
            break;
        }
    }
    println!("{method} {parameters}: {failures} outputs failed");
}

#[test]
fn where_memory_is_refused_all_ranks_hear_of_it_and_earlier_steps_stay() {
    let test = "where_memory_is_refused_all_ranks_hear_of_it_and_earlier_steps_stay";
    let mut wrong = Vec::new();
    for (i, (method, parameters)) in METHODS.iter().enumerate() {
        match std::env::var("THALWEG_TEST_ALONE") {
            Ok(argument) if argument != i.to_string() => continue,
            Ok(_) => {
                for ranks_per_node in [RANKS, 1] {
                    for limit in [None, Some(0)] {
                        for in_a_row in [1, 1000] {
                            refuse_each(method, parameters, limit, ranks_per_node, in_a_row);
                        }
                    }
                }
            }
            Err(_) => {
                if std::panic::catch_unwind(|| alone(test, &i.to_string())).is_err() {
                    wrong.push(format!("{method} {parameters}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
