//! Agreement: all ranks learn the same result, and numbers that only rank 0 knows, in one reduction.

use crate::{Communicator, Reduce};
use thalweg_types::{Error, ErrorKind, Result};

/// A failure as a number that a maximum can carry: the lowest failing rank wins; 0 is success.
fn code(rank: u32, failed: Option<ErrorKind>) -> u64 {
    failed.map_or(0, |kind| (u64::from(u32::MAX - rank) << 8) | u64::from(kind.code()))
}

/// Collective. Every rank gives its own outcome; numbers that are known on some ranks only are 0 elsewhere and reach
/// all by their maximum.
///
/// Returns these numbers where all succeeded.
///
/// # Errors
/// Failing ranks keep their error; the others get an error of the kind of the lowest failing rank, which names that rank. `PeerLost`
/// or `Timeout` where the reduction fails.
/// # Cost
/// One reduction of 1 + `numbers.len()` values.
pub fn agree(comm: &dyn Communicator, own: Result<()>, doing: &str, numbers: &[u64]) -> Result<Vec<u64>> {
    let failed = own.as_ref().err().map(Error::kind);
    match exchange(comm, comm.rank(), failed, numbers) {
        Ok((verdict, numbers)) => verdict.apply(comm.rank(), own, doing).map(|()| numbers),
        Err(lost) => Err(own.err().unwrap_or(lost)),
    }
}

/// The common result, from which each rank makes its own error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict(u64);

impl Verdict {
    /// This rank's result: its own failure, or that of the lowest failing rank.
    ///
    /// - `rank`: this rank, counted as in [`exchange`].
    ///
    /// # Errors
    /// As [`agree`].
    pub fn apply(self, rank: u32, own: Result<()>, doing: &str) -> Result<()> {
        match (own, self.0) {
            (Err(cause), _) => Err(cause.at_rank(rank)),
            (Ok(()), 0) => Ok(()),
            (Ok(()), code) => {
                let by = u32::MAX - (code >> 8) as u32;
                Err(Error::reported(ErrorKind::from_code(code as u8), by, format!("cannot {doing}")).at_rank(rank))
            }
        }
    }
}

/// Collective: as [`agree`], but the reduction alone, so that its failure (a lost rank) and this rank's stay apart.
///
/// - `rank`: by which the others know this one; not that of `comm` where ranks were lost before.
///
/// # Errors
/// Errors of the reduction.
/// # Cost
/// As [`agree`].
pub fn exchange(
    comm: &dyn Communicator,
    rank: u32,
    failed: Option<ErrorKind>,
    numbers: &[u64],
) -> Result<(Verdict, Vec<u64>)> {
    let mut values = vec![code(rank, failed)];
    values.extend_from_slice(numbers);
    let mut agreed = comm.all_reduce(&values, Reduce::Max)?;
    Ok((Verdict(agreed.remove(0)), agreed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads;

    #[test]
    fn all_ranks_name_the_lowest_failing_one_and_it_keeps_its_cause() {
        let outcomes = threads::run(5, |comm| {
            let own = match comm.rank() {
                2 => Err(Error::new(ErrorKind::NoSpace, "cannot write")),
                4 => Err(Error::new(ErrorKind::Io, "cannot write either")),
                _ => Ok(()),
            };
            agree(&comm, own, "write", &[u64::from(comm.rank() == 0) * 7])
        });
        for (rank, outcome) in outcomes.into_iter().enumerate() {
            let error = outcome.unwrap_err();
            match rank {
                2 => assert_eq!((error.kind(), error.reported_by()), (ErrorKind::NoSpace, None)),
                4 => assert_eq!((error.kind(), error.reported_by()), (ErrorKind::Io, None)),
                _ => assert_eq!((error.kind(), error.reported_by()), (ErrorKind::NoSpace, Some(2))),
            }
        }
    }

    #[test]
    fn what_one_rank_knows_reaches_all() {
        for numbers in threads::run(3, |comm| agree(&comm, Ok(()), "open", &[u64::from(comm.rank() == 0) * 7, 1])) {
            assert_eq!(numbers.unwrap(), [7, 1]);
        }
    }
}
