//! A rank that fails may have published bytes before: a container orders bytes by when writers have seen each other, so nothing of this
//! or the next output may be put where they may lie.

use crate::common::*;
use std::sync::Arc;
use thalweg_comm::{Communicator, threads};
use thalweg_io::Mode;
use thalweg_layout::Layout;
use thalweg_reader::{Reader, verify};
use thalweg_store::Store;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault};
use thalweg_types::{Result, Selection};

const RANKS: u32 = 3;

/// All that the file shows is what was written.
fn check(layout: &Arc<dyn Layout>, steps: u64, about: &str) {
    let reader = Reader::open(layout.clone(), "x.bp").unwrap_or_else(|e| panic!("{about}: {e}"));
    assert_eq!(reader.status().steps, steps, "{about}");
    for step in 0..steps {
        for block in reader.blocks("t", step).unwrap() {
            let values = reader.read_as::<f64>("t", step, &Selection::Block(block.number));
            let values = values.unwrap_or_else(|e| panic!("{about}: step {step}: {e}"));
            let written = block.offset[0] as u32;
            // A step that failed whole was written again by the next output.
            assert!([step, step + 1].iter().any(|s| values == t(written, *s, 4)), "{about}: step {step}: {values:?}");
        }
    }
}

#[test]
fn a_call_that_fails_on_the_last_rank_leaves_every_closed_step_readable() {
    for (method, parameters) in [
        ("MPI", ""),
        ("MPI", "sync=yes;index=each"),
        ("MPI_COLLECTIVE", "aggregators=3;index=each"),
        ("MPI_SCHEDULED", "num_files=1;sync=yes;index=each"),
        ("POSIX", "sync=yes;index=each"),
    ] {
        let mut spoiled = 0;
        for call in 0.. {
            let memory: Arc<dyn Store> = Arc::new(Memory::new());
            let outcomes: Vec<(Result<()>, u64)> = threads::run(RANKS, |comm| {
                let store = Arc::new(Failing::new(memory.clone()));
                let session = Place::container(store.clone()).session(&heat(method, parameters), &comm);
                write_heat(&session, "x.bp", Mode::Write, &comm, 0);
                if comm.rank() == RANKS - 1 {
                    store.fail(Fault::any().skipping(call).times(1));
                }
                let outcome = try_heat(&session, "x.bp", Mode::Append, &comm, 1);
                let failed = store.failed().0;
                store.heal();
                comm.barrier().unwrap();
                let next = session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap().step();
                write_heat(&session, "x.bp", Mode::Append, &comm, next);
                let closed = session.finalize();
                closed.unwrap_or_else(|e| panic!("{method} {parameters}, call {call}: {e}"));
                (outcome, failed)
            });
            let about = format!("{method} {parameters}, call {call}: {:?}", outcomes[RANKS as usize - 1].0);
            let failed = outcomes.iter().any(|(outcome, _)| outcome.is_err());
            assert!(outcomes.iter().all(|(outcome, _)| outcome.is_err() == failed), "{about}");
            let layout = Place::container(memory).layout;
            let steps = Reader::open(layout.clone(), "x.bp").unwrap_or_else(|e| panic!("{about}: {e}")).status().steps;
            assert!(steps == 3 || (failed && steps == 2), "{about}: {steps} steps");
            spoiled += u64::from(failed);
            check(&layout, steps, &about);
            let report = verify(&*layout, "x.bp").unwrap();
            use thalweg_reader::FindingKind::{Gap, Partial};
            let wrong = report.findings.iter().find(|f| !(failed && matches!(f.kind, Gap | Partial)));
            assert!(wrong.is_none(), "{about}: {wrong:?}");
            if outcomes.iter().all(|(_, failed)| *failed == 0) {
                break;
            }
        }
        assert!(spoiled > 1, "{method} {parameters}: {spoiled} steps were spoiled");
    }
}
