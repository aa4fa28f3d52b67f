//! Agreement: all ranks learn the same result, and numbers that only rank 0 knows, in one reduction.

use crate::{Communicator, Reduce};
use thalweg_types::{Error, ErrorKind, Result};

/// A failure of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// Its kind.
    pub kind: ErrorKind,
    /// The rank knows it from another one.
    pub told: bool,
}

impl From<&Error> for Failed {
    fn from(e: &Error) -> Failed {
        Failed { kind: e.kind(), told: e.reported_by().is_some() }
    }
}

/// A failure as a number that a maximum can carry: a rank that has the cause wins, of several the lowest; 0 is success.
fn code(rank: u32, failed: Option<Failed>) -> u64 {
    let code = |Failed { kind, told }| {
        (u64::from(!told) << 40) | (u64::from(u32::MAX - rank) << 8) | u64::from(ErrorKind::code(kind))
    };
    failed.map_or(0, code)
}

/// Collective. Every rank gives its own outcome; numbers that are known on some ranks only are 0 elsewhere and reach
/// all by their maximum.
///
/// Returns these numbers where all succeeded.
///
/// # Errors
/// Failing ranks keep their error; the others get an error of the kind of the lowest failing rank that has the cause (or else that was told
/// of it), which names that rank. `PeerLost`
/// or `Timeout` where the reduction fails.
/// # Cost
/// One reduction of 1 + `numbers.len()` values.
pub fn agree(comm: &dyn Communicator, own: Result<()>, doing: &str, numbers: &[u64]) -> Result<Vec<u64>> {
    let failed = own.as_ref().err().map(Failed::from);
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
    failed: Option<Failed>,
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
    fn a_rank_with_the_cause_is_named_before_one_that_was_told_of_it() {
        let outcomes = threads::run(4, |comm| {
            let own = match comm.rank() {
                0 => Err(Error::reported(ErrorKind::NoSpace, 2, "cannot write")),
                2 => Err(Error::new(ErrorKind::NoSpace, "cannot write")),
                _ => Ok(()),
            };
            agree(&comm, own, "write", &[])
        });
        let named: Vec<_> = outcomes.into_iter().map(|outcome| outcome.unwrap_err().reported_by()).collect();
        assert_eq!(named, [Some(2), Some(2), None, Some(2)]);
    }

    #[test]
    fn what_one_rank_knows_reaches_all() {
        for numbers in threads::run(3, |comm| agree(&comm, Ok(()), "open", &[u64::from(comm.rank() == 0) * 7, 1])) {
            assert_eq!(numbers.unwrap(), [7, 1]);
        }
    }
}
