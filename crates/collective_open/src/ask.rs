//! Owners are asked where bytes lie, in exchanges that all ranks take part in.

use crate::MOST_PIECES;
use crate::outcome::ErrorReport;
use thalweg_comm::Communicator;
use thalweg_layout::container::parallel::Fragment;
use thalweg_layout::container::part::{PartFile, Section};
use thalweg_types::{Error, ErrorKind, Result};

/// Collective: asks owners for sections, and takes in what they say, until every rank has all it wants. The outer error is of the
/// ranks, the inner one this rank's, which goes on answering.
///
/// - `then`: called for each stretch that was learned.
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
    // Sections of which a stretch is learned.
    let mut begun = Vec::new();
    let mut outcome = Ok(());
    loop {
        let mut asks: Vec<Option<Section>> = vec![None; ranks];
        if outcome.is_ok() {
            for section in begun.drain(..) {
                let Section { owner, .. } = section;
                asks[owner as usize] = Some(section);
            }
            // They are dealt in turn: as many that lie behind each other have as many owners.
            while let Some(section) = wanted.next_if(|s| asks[s.owner as usize].is_none()) {
                asks[section.owner as usize] = Some(section);
            }
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
            outcome = learned(part, section, bytes).and_then(|upto| {
                then(part, &Section { to: upto, ..section })?;
                if upto < section.to {
                    begun.push(Section { from: upto, ..section });
                }
                Ok(())
            });
        }
    }
}

/// Whether this rank asks anybody, then first byte and end.
fn question(any: u8, ask: Option<&Section>) -> Vec<u8> {
    let mut bytes = vec![any];
    if let Some(section) = ask {
        bytes.extend_from_slice(&section.from.to_le_bytes());
        bytes.extend_from_slice(&section.to.to_le_bytes());
    }
    bytes
}

/// How far the answer goes, and a fragment; or 0 and what went wrong. Empty where nothing was asked.
fn answer(part: &PartFile, question: &[u8]) -> Vec<u8> {
    let Some((from, rest)) = question.get(1..).and_then(|b| b.split_first_chunk::<8>()) else { return Vec::new() };
    let Some((to, _)) = rest.split_first_chunk::<8>() else { return Vec::new() };
    match part.answer(u64::from_le_bytes(*from), u64::from_le_bytes(*to), MOST_PIECES) {
        Ok((upto, fragment)) => [&upto.to_le_bytes()[..], &fragment.encode()].concat(),
        Err(e) => [&0u64.to_le_bytes()[..], &ErrorReport::of(&e).encode()].concat(),
    }
}

/// Takes an answer; how far it goes.
fn learned(part: &PartFile, asked: Section, bytes: &[u8]) -> Result<u64> {
    let nonsense = || Error::new(ErrorKind::Corrupt, format!("rank {} gave no answer that makes sense", asked.owner));
    let (upto, rest) = bytes.split_first_chunk::<8>().ok_or_else(nonsense)?;
    match u64::from_le_bytes(*upto) {
        // An answer goes at least a stretch beyond its first byte.
        0 => Err(ErrorReport::decode(rest).ok_or_else(nonsense)?.error(asked.owner as u32, asked.owner as u32)),
        upto if upto <= asked.from || upto > asked.to => Err(nonsense()),
        upto => {
            part.learn(asked.from, upto, &Fragment::decode(rest)?)?;
            Ok(upto)
        }
    }
}
