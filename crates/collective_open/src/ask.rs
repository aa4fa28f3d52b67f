//! Lookups of byte ranges at the ranks that own them, in collective exchanges.

use crate::MOST_PIECES;
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_comm::outcome::ErrorReport;
use thalweg_layout::container::parallel::Fragment;
use thalweg_layout::container::part::{PartFile, Section};
use thalweg_types::{Error, ErrorKind, Result};

/// Operation name in errors.
const DOING: &str = "look up where bytes lie";

/// Collective: requests sections from their owners and stores the answers, until every rank has all of its sections. The outer
/// error is common to all ranks; the inner one is this rank's, which continues to answer others.
///
/// - `then`: called with each part of a section that was received.
pub fn ask(
    comm: &dyn Communicator,
    part: &PartFile,
    wanted: impl IntoIterator<Item = Section>,
    mut then: impl FnMut(&PartFile, &Section) -> Result<()>,
) -> Result<Result<()>> {
    let ranks = comm.size() as usize;
    if ranks == 1 {
        return Ok(Ok(()));
    }
    let mut wanted = wanted.into_iter().peekable();
    // Sections that were answered in part.
    let mut begun = Vec::new();
    let mut outcome = Ok(());
    loop {
        let mut asks: Vec<Option<Section>> = vec![None; ranks];
        if outcome.is_ok() {
            outcome = caught(DOING, || {
                for section in begun.drain(..) {
                    let Section { owner, .. } = section;
                    asks[owner as usize] = Some(section);
                }
                // Owners take turns: consecutive sections have different owners.
                while let Some(section) = wanted.next_if(|s| asks[s.owner as usize].is_none()) {
                    asks[section.owner as usize] = Some(section);
                }
                Ok(())
            });
        }
        if outcome.is_err() {
            asks.fill(None);
        }
        let any = u8::from(asks.iter().any(Option::is_some));
        let came = comm.all_to_all(&asks.iter().map(|ask| question(any, ask.as_ref())).collect::<Vec<_>>())?;
        if came.iter().all(|bytes| bytes.first() == Some(&0)) {
            return Ok(outcome);
        }
        let answers: Vec<Vec<u8>> = came.iter().map(|bytes| answer(part, bytes)).collect();
        let came = comm.all_to_all(&answers)?;
        drop(answers);
        for (section, bytes) in asks.into_iter().zip(&came).filter_map(|(ask, bytes)| Some((ask?, bytes))) {
            if outcome.is_err() {
                break;
            }
            outcome = caught(DOING, || {
                let upto = learned(part, section, bytes)?;
                then(part, &Section { to: upto, ..section })?;
                if upto < section.to {
                    begun.push(Section { from: upto, ..section });
                }
                Ok(())
            });
        }
    }
}

/// Whether this rank has a request, then first byte and end.
fn question(any: u8, ask: Option<&Section>) -> Vec<u8> {
    let mut bytes = vec![any];
    if let Some(section) = ask {
        bytes.extend_from_slice(&section.from.to_le_bytes());
        bytes.extend_from_slice(&section.to.to_le_bytes());
    }
    bytes
}

/// The end of the answered part, and a fragment; or 0 and an error. Empty if nothing was requested.
fn answer(part: &PartFile, question: &[u8]) -> Vec<u8> {
    let Some((from, rest)) = question.get(1..).and_then(|b| b.split_first_chunk::<8>()) else { return Vec::new() };
    let Some((to, _)) = rest.split_first_chunk::<8>() else { return Vec::new() };
    let answered = caught(DOING, || {
        let (upto, fragment) = part.answer(u64::from_le_bytes(*from), u64::from_le_bytes(*to), MOST_PIECES)?;
        Ok([&upto.to_le_bytes()[..], &fragment.encode()].concat())
    });
    match answered {
        Ok(bytes) => bytes,
        Err(e) => [&0u64.to_le_bytes()[..], &ErrorReport::of(&e).encode()].concat(),
    }
}

/// Stores an answer; returns the end of the answered part.
fn learned(part: &PartFile, asked: Section, bytes: &[u8]) -> Result<u64> {
    let nonsense = || Error::new(ErrorKind::Corrupt, format!("rank {} gave no answer that makes sense", asked.owner));
    let (upto, rest) = bytes.split_first_chunk::<8>().ok_or_else(nonsense)?;
    match u64::from_le_bytes(*upto) {
        // An answer covers at least some bytes.
        0 => Err(ErrorReport::decode(rest).ok_or_else(nonsense)?.error(asked.owner as u32, asked.owner as u32)),
        upto if upto <= asked.from || upto > asked.to => Err(nonsense()),
        upto => {
            part.learn(asked.from, upto, &Fragment::decode(rest)?)?;
            Ok(upto)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CollectiveFile, Index};
    use std::sync::Arc;
    use std::time::Duration;
    use thalweg_comm::threads::{Machine, ThreadCommunicator};
    use thalweg_layout::container::index::Module;
    use thalweg_layout::container::{Container, Options};
    use thalweg_layout::{Layout, OpenWrite, WriterId, write_all_at};
    use thalweg_store::{Memory, Store};

    const RANGE: u64 = 64 << 20;

    /// Opens a file of which each of three ranks has a part, and runs `body` on each.
    fn on_parts<T: Send>(body: impl Fn(&ThreadCommunicator, &PartFile) -> T + Sync) -> Vec<T> {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let over = || {
            let options = Options { module: Module::Distributed, host: "host".into(), ..Options::default() };
            Container::new(vec![store.clone()], options).unwrap()
        };
        let file = over().open_write("file", OpenWrite::Any, WriterId(0)).unwrap();
        (0..3).for_each(|range| write_all_at(&*file, range * RANGE, &[7; 50]).unwrap());
        file.close().unwrap();
        Machine::new(3).timeout(Duration::from_secs(60)).run(|comm| {
            let file = CollectiveFile::open(comm.duplicate().unwrap(), Ok((&over(), "file")), 2).unwrap();
            let Index::Part(part) = &file.file else { panic!("the whole index") };
            body(&comm, part)
        })
    }

    #[test]
    fn a_rank_whose_own_steps_panic_still_answers_the_others() {
        let sections = |part: &PartFile| part.sections(0, 3 * RANGE).collect::<Vec<_>>();
        let taking = on_parts(|comm, part| {
            ask(comm, part, sections(part), |_, _| match comm.rank() {
                1 => panic!("while an answer is taken"),
                _ => Ok(()),
            })
        });
        let choosing = on_parts(|comm, part| {
            let wanted = sections(part).into_iter().inspect(|section| {
                assert!(comm.rank() != 1 || section.from < RANGE, "while sections are chosen");
            });
            ask(comm, part, wanted, |_, _| Ok(()))
        });
        for outcomes in [taking, choosing] {
            for (rank, outcome) in outcomes.into_iter().enumerate() {
                let own = outcome.expect("no rank is lost");
                assert_eq!(own.is_err(), rank == 1, "rank {rank}: {own:?}");
                assert!(own.err().is_none_or(|e| e.what().contains("while")));
            }
        }
    }
}
