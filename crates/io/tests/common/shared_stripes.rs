//! Outputs of uneven sizes into one shared file that some ranks write for all: what methods with whole stripes have to keep.
#![allow(dead_code)]

use super::common::*;
use super::fault_injected::{Life, Moment};
use std::sync::Arc;
use std::time::Duration;
use thalweg_comm::threads::Machine;
use thalweg_comm::{Communicator, threads};
use thalweg_io::Mode;
use thalweg_layout::{OpenWrite, WriterId};
use thalweg_reader::{Partial, Reader, RecoverOptions, recover, verify};
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_types::{ErrorKind, Result, Selection};

/// What a rank writes: rank 1 much more than the others, every fourth nothing.
pub fn values(rank: u32, step: u64) -> Vec<f64> {
    let n = match rank {
        1 => 9000,
        r if r % 4 == 2 => 0,
        r => 50 + (r as usize * 37) % 400,
    };
    (0..n).map(|i| f64::from(rank) * 1e6 + step as f64 * 1e4 + i as f64).collect()
}

pub fn uneven(method: &str, parameters: &str) -> String {
    format!(
        r#"<adios-config host-language="C">
  <adios-group name="uneven">
    <var name="n" type="integer"/>
    <var name="sometimes" type="double"/>
    <var name="v" type="double" dimensions="n"/>
  </adios-group>
  <method group="uneven" method="{method}">{parameters}</method>
</adios-config>"#
    )
}

pub fn write_uneven(session: &thalweg_io::Session, comm: &dyn Communicator, step: u64) -> Result<u64> {
    let mode = if step == 0 { Mode::Write } else { Mode::Append };
    let rank = comm.rank();
    let mut output = session.open("uneven", "u.bp", mode, comm.duplicate()?)?;
    let values = values(rank, step);
    if !values.is_empty() {
        let _ = output.write_values("n", &[values.len() as i32]);
        let _ = output.write_values("v", &values);
    }
    if (u64::from(rank) + step).is_multiple_of(3) {
        let _ = output.write_values("sometimes", &[f64::from(rank)]);
    }
    output.close().map(|closed| closed.bytes)
}

pub fn check_uneven(reader: &Reader, ranks: u32, step: u64, missing: &[u32]) {
    let blocks = reader.blocks("v", step).unwrap();
    let writers: Vec<u32> = (0..ranks).filter(|r| !values(*r, step).is_empty() && !missing.contains(r)).collect();
    assert_eq!(blocks.len(), writers.len());
    for (block, rank) in blocks.iter().zip(writers) {
        assert_eq!(reader.writer(block).unwrap(), Some(rank));
        let read = reader.read_as::<f64>("v", step, &Selection::Block(block.number)).unwrap();
        assert!(read == values(rank, step), "rank {rank}, step {step}");
    }
}

/// Outputs by one method.
#[derive(Clone, Copy)]
pub struct By(pub &'static str);

impl By {
    /// From any number of ranks; without an index, too.
    pub fn reads_back_equal_verifies_and_is_recovered(self, all: &[&str]) {
        for ranks in [1, 2, 3, 5, 8, 64, 257] {
            for parameters in all.iter().copied() {
                let place = Place::memory();
                place.run(ranks, |comm| {
                    let session = place.session(&uneven(self.0, parameters), &comm);
                    for step in 0..3 {
                        write_uneven(&session, &comm, step).unwrap();
                    }
                    session.finalize().unwrap();
                });
                let what = format!("{ranks} ranks, {parameters}");
                let check = || {
                    let reader = Reader::open(place.layout.clone(), "u.bp").unwrap();
                    assert_eq!((reader.status().steps, reader.status().partial.len()), (3, 0), "{what}");
                    (0..3).for_each(|step| check_uneven(&reader, ranks, step, &[]));
                };
                check();
                let report = verify(&*place.layout, "u.bp").unwrap();
                assert!(report.findings.is_empty(), "{what}: {:?}", report.findings);
                let footer = bytes(&*place.store, "u.bp").len() as u64 - 20;
                let object = place.layout.open_write("u.bp", OpenWrite::Existing, WriterId(0)).unwrap();
                object.write_at(footer, &[std::io::IoSlice::new(&[0xff; 20])]).unwrap();
                let recovery = recover(&*place.layout, "u.bp", RecoverOptions::default()).unwrap();
                assert_eq!((recovery.steps, recovery.dropped), (3, vec![]), "{what}: {:?}", recovery.actions);
                check();
            }
        }
    }

    /// - `parameters`: with which the first rank of each node writes.
    pub fn only_writers_open_the_file_and_they_write_whole_stripes(self, parameters: &str) {
        use thalweg_store::wrap;
        let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
        let counts = Machine::new(12).ranks_per_node(4).run(|comm| {
            let store = Arc::new(wrap::Counting::new(memory.clone()));
            let place = Place::over(store.clone());
            let session = place.session(&uneven(self.0, parameters), &comm);
            write_uneven(&session, &comm, 0).unwrap();
            let counts = store.counted().total();
            session.finalize().unwrap();
            (counts.opens_for_writing, counts.writes)
        });
        for (rank, (opens, writes)) in counts.into_iter().enumerate() {
            let writes_for_all = rank % 4 == 0;
            assert_eq!(
                (opens > 0, writes > 0),
                (writes_for_all, writes_for_all),
                "rank {rank}: {opens} opens, {writes} writes"
            );
        }
    }

    /// Two steps, of which the writer `failing` spoils the second at its write number `skip` + 1. Returns the outcomes and
    /// the files.
    fn spoil(self, parameters: &str, (failing, skip, asked): (u32, u64, StoreCall)) -> (Place, Vec<Result<()>>) {
        let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
        let outcomes = threads::run(9, |comm| {
            let store = Arc::new(Failing::new(memory.clone()));
            let place = Place::over(store.clone());
            let session = place.session(&uneven(self.0, &format!("{parameters};sync=yes")), &comm);
            write_uneven(&session, &comm, 0).unwrap();
            if comm.rank() == failing {
                store.fail(Fault::of(asked).named("u.bp").skipping(skip).times(1).with(ErrorKind::NoSpace).half_way());
            }
            let outcome = write_uneven(&session, &comm, 1).map(drop);
            store.heal();
            comm.barrier().unwrap();
            let _ = write_uneven(&session, &comm, 2).unwrap();
            session.finalize().unwrap();
            outcome
        });
        (Place::over(memory), outcomes)
    }

    /// - `small`: parameters with which ranks 0, 3 and 6 of 9 write; `failures`: the writer, which of its calls, and the call.
    pub fn a_writer_with_a_full_disk_costs_the_groups_it_wrote_for_alone(
        self,
        small: &str,
        failures: &[(u32, u64, StoreCall)],
    ) {
        for (failing, skip, asked) in failures.iter().copied() {
            let (place, outcomes) = self.spoil(small, (failing, skip, asked));
            let what = format!("writer {failing}, {asked:?} {skip}");
            for (rank, outcome) in (0..).zip(&outcomes) {
                let e = outcome.as_ref().unwrap_err();
                assert_eq!(e.kind(), ErrorKind::NoSpace, "{what}, rank {rank}: {e}");
                assert_eq!(e.reported_by().is_none(), rank == failing, "{what}, rank {rank}: {e}");
                assert!(
                    e.still_safe().unwrap().starts_with("steps 0..=0 are")
                        || e.still_safe().unwrap().contains("step 0")
                );
            }
            let reader = Reader::open(place.layout.clone(), "u.bp").unwrap();
            assert!(reader.status().finished && reader.status().torn_bytes == 0, "{what}");
            let partial = &reader.status().partial;
            if reader.status().steps == 2 {
                // No rank's group was whole.
                panic!("{what}: nothing is left of the step");
            }
            let missing: Vec<u32> = partial.iter().map(|p| p.rank).collect();
            assert!(!missing.is_empty() && missing.len() < 9, "{what}: {partial:?}");
            assert!(
                partial.iter().all(|p: &Partial| (p.step, p.kind) == (1, ErrorKind::NoSpace)),
                "{what}: {partial:?}"
            );
            check_uneven(&reader, 9, 0, &[]);
            check_uneven(&reader, 9, 1, &missing);
            check_uneven(&reader, 9, 2, &[]);
        }
    }

    /// - `skip`: reads of rank 1's spill file that succeed.
    pub fn loses_its_own_group_with_its_spill_file(self, parameters: &str, skip: u64) {
        let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
        let outcomes = threads::run(6, |comm| {
            let store = Arc::new(Failing::new(memory.clone()));
            let place = Place::over(store.clone());
            let session = place.session(&uneven(self.0, parameters), &comm);
            session.set_buffer_limit(Some(0));
            if comm.rank() == 1 {
                store.fail(Fault::of(StoreCall::Read).named("spill").skipping(skip).with(ErrorKind::Io));
            }
            let outcome = write_uneven(&session, &comm, 0).map(drop);
            session.finalize().unwrap();
            outcome
        });
        for (rank, outcome) in outcomes.iter().enumerate() {
            let e = outcome.as_ref().unwrap_err();
            assert_eq!((e.kind(), e.reported_by()), (ErrorKind::Io, (rank != 1).then_some(1)), "rank {rank}: {e}");
        }
        let place = Place::over(memory);
        let reader = Reader::open(place.layout.clone(), "u.bp").unwrap();
        assert_eq!(reader.status().partial, [Partial { step: 0, rank: 1, kind: ErrorKind::Io }]);
        check_uneven(&reader, 6, 0, &[1]);
        assert_eq!(place.store.list("").unwrap(), ["u.bp"], "no spill file stays");
    }

    /// - `parameters`: with which some of 5 ranks write.
    pub fn whenever_a_rank_dies_the_others_close_the_step_among_themselves(self, parameters: &str) {
        let calls = (0..5).map(Moment::MessageCall);
        let moments: Vec<Moment> = calls.chain((0..10).map(Moment::Message)).chain([Moment::Write]).collect();
        for lost in 0..5 {
            for moment in &moments {
                let what = format!("rank {lost} dies: {moment:?}");
                let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
                let machine = Machine::new(5).timeout(Duration::from_secs(120));
                let outcomes = machine.run(|own| {
                    let life = Life::of(own);
                    let place = Place::over(Arc::new(life.store(memory.clone())));
                    let comm = life.communicator();
                    let session = place.session(&uneven(self.0, parameters), &comm);
                    write_uneven(&session, &comm, 0).unwrap();
                    let mut output = session.open("uneven", "u.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
                    let mine = values(comm.rank(), 1);
                    if !mine.is_empty() {
                        output.write_values("n", &[mine.len() as i32]).unwrap();
                        output.write_values("v", &mine).unwrap();
                    }
                    if comm.rank() == lost {
                        life.ends(Some(*moment));
                        let outcome = output.close().map(drop);
                        life.end();
                        return outcome;
                    }
                    let outcome = output.close().map(drop);
                    let left = comm.survivors().unwrap();
                    write_uneven(&session, &*left, 2).unwrap();
                    assert_eq!(session.finalize().unwrap_err().kind(), ErrorKind::PeerLost);
                    left.barrier().unwrap();
                    outcome
                });
                let place = Place::over(memory);
                let reader = Reader::open(place.layout.clone(), "u.bp").unwrap();
                assert_eq!((reader.status().steps, reader.status().finished), (3, true), "{what}");
                let missing: Vec<u32> = reader.status().partial.iter().map(|p| p.rank).collect();
                assert!(missing.is_empty() || missing == [lost], "{what}: {missing:?}");
                check_uneven(&reader, 5, 0, &[]);
                check_uneven(&reader, 5, 1, &missing);
                check_uneven(&reader, 4, 2, &[]);
                let mut told = outcomes.iter().enumerate().filter(|(rank, _)| *rank as u32 != lost);
                if missing.is_empty() {
                    // It did all it had to, or died behind the commit.
                    assert!(told.all(|(_, o)| o.as_ref().map_or_else(|e| e.kind() == ErrorKind::PeerLost, |()| true)));
                } else {
                    assert!(
                        told.all(|(_, o)| o.as_ref().is_err_and(|e| e.kind() == ErrorKind::PeerLost)),
                        "{what}: {outcomes:?}"
                    );
                }
            }
        }
    }
}
