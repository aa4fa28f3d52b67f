//! Steps that every rank takes by itself between two collective calls, with one outcome for all.

use thalweg_comm::Communicator;
use thalweg_comm::agreement::agree;
use thalweg_comm::guarded::caught;
use thalweg_types::{Error, ErrorKind, Result};

/// Collective: runs `work` on each rank.
///
/// # Errors
/// On all ranks where `work` fails or panics on one: there its own error, elsewhere one of the same kind that names the rank. A lost
/// rank.
pub fn on_all_ranks<T>(comm: &dyn Communicator, doing: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let (value, outcome) = match caught(doing, work) {
        Ok(value) => (Some(value), Ok(())),
        Err(e) => (None, Err(e)),
    };
    agree(comm, outcome, doing, &[])?;
    value.ok_or_else(|| Error::new(ErrorKind::NotReady, "no result"))
}

#[cfg(test)]
mod tests {
    use crate::adios1::read::{Advance, ReadFile};
    use crate::native::Following;
    use std::sync::Arc;
    use std::time::Duration;
    use thalweg_comm::Communicator;
    use thalweg_comm::threads::Machine;
    use thalweg_layout::{Direct, Layout};
    use thalweg_reader::follow::{Next, Wait};
    use thalweg_store::memory::Memory;
    use thalweg_store::wrap::{Failing, Fault};
    use thalweg_store::{Store, StoreExt};
    use thalweg_types::{ErrorKind, Result};

    const NAME: &str = "x.bp";
    /// Each look at the file is one try.
    const ONCE: Wait = Wait { timeout: Some(Duration::ZERO), poll: Duration::from_millis(1) };

    /// What a collective read came to: steps seen, or the kind of an error with its text.
    type Outcome = std::result::Result<u64, (ErrorKind, String)>;
    type Layouts<'a> = &'a dyn Fn() -> Result<Arc<dyn Layout>>;

    type Read = fn(Layouts<'_>, Box<dyn Communicator>) -> Outcome;

    /// Each way to open a file on all ranks and to go through its steps.
    const READS: [(&str, Read); 4] = [
        ("adios_read_open_file", |layout, comm| {
            let file = ReadFile::open_in(layout, Ok(NAME), comm).map_err(of_adios)?;
            Ok(file.last_step())
        }),
        ("adios_read_open", |layout, comm| {
            let mut stream = ReadFile::stream_in(layout, Ok(NAME), comm, 0.0).map_err(of_adios)?;
            while stream.advance(false, 0.0).map_err(of_adios)? == Advance::Step {}
            Ok(stream.last_step())
        }),
        ("thalweg_reader_open", |layout, comm| {
            let reader = crate::native::open_reader(&*comm, Ok(NAME), layout).map_err(of_native)?;
            Ok(reader.status().steps - 1)
        }),
        ("thalweg_reader_follow", |layout, comm| {
            let mut following = Following::open(comm, Ok(NAME), &ONCE, layout).map_err(of_native)?;
            let mut last = 0;
            while let Next::Step(step) = following.advance(false, &ONCE).map_err(of_native)? {
                last = step;
            }
            Ok(last)
        }),
    ];

    fn of_adios(failure: crate::adios1::error::Failure) -> (ErrorKind, String) {
        let kind = if failure.text.contains("lost") { ErrorKind::PeerLost } else { ErrorKind::Io };
        (kind, failure.text)
    }

    fn of_native(error: thalweg_types::Error) -> (ErrorKind, String) {
        (error.kind(), error.to_string())
    }

    /// What each rank is told where the operation `skip` of the store panics on the rank `victim`, and whether it was reached.
    fn panics(read: Read, victim: u32, skip: u64) -> (Vec<Outcome>, bool) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/foreign/adios1-ranks.bp");
        let bytes = std::fs::read(path).unwrap();
        let results = Machine::new(2).timeout(Duration::from_secs(60)).run_each(|comm| {
            let store = Arc::new(Memory::new());
            store.write_all(NAME, &bytes).unwrap();
            let failing = Arc::new(Failing::new(store as Arc<dyn Store>));
            if comm.rank() == victim {
                failing.fail(Fault::any().skipping(skip).times(1).panics());
            }
            let layout: Arc<dyn Layout> = Arc::new(Direct::new(failing.clone() as Arc<dyn Store>).unwrap());
            let outcome = read(&|| Ok(layout.clone()), Box::new(comm));
            (outcome, failing.failed().0 > 0)
        });
        let told = |e| (ErrorKind::PeerLost, format!("a panic: {:?}", std::any::Any::type_id(&e)));
        let reached = results.iter().any(|r| r.as_ref().map_or(true, |(_, reached)| *reached));
        (results.into_iter().map(|r| r.map_or_else(|e| Err(told(e)), |(outcome, _)| outcome)).collect(), reached)
    }

    #[test]
    fn a_panic_on_one_rank_is_an_error_on_all_in_every_collective_read() {
        for (name, read) in READS {
            let mut sound = 0;
            for victim in 0..2 {
                for skip in 0.. {
                    let (outcomes, reached) = panics(read, victim, skip);
                    if !reached {
                        assert!(
                            outcomes.iter().all(|o| o.as_ref().is_ok_and(|last| *last > 0)),
                            "{name}: {outcomes:?}"
                        );
                        break;
                    }
                    // Nothing that every rank needs was asked: the step was whole without it.
                    if outcomes.iter().all(|outcome| outcome.is_ok()) {
                        sound += 1;
                        continue;
                    }
                    for outcome in &outcomes {
                        let (kind, text) = outcome.as_ref().expect_err("one rank goes on while another failed");
                        assert_eq!(*kind, ErrorKind::Io, "{name}, operation {skip} of rank {victim}: {text}");
                    }
                }
            }
            assert_eq!(sound, 0, "{name}");
        }
    }
}
