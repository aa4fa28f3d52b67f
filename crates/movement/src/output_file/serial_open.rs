//! Serialised opens: rank 0 opens first, then few ranks at a time, so that a metadata server handles few opens at a time. Who waits
//! for whom: [`crate::plan::turns`].
//!
//! Each rank receives one token and sends one to each rank that waits for it. A rank whose open fails passes the failure on in its
//! token, and the ranks that wait for it do not try to open.
//!
//! Source: Lofstead et al., "Petascale IO Using The Adaptable IO System", CUG 2009, section on opens.
//! Differs: the paper has one open at a time; with 16 at a time the wait of the last of N ranks is N/16 opens.

use crate::plan::turns::{opens_shared_after, opens_shared_before};
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_comm::tags;
use thalweg_types::{Error, ErrorKind, Result};

/// Collective: calls `open` on rank 0, then on at most [`crate::plan::turns::OPENS_AT_ONCE`] ranks at a time.
///
/// # Errors
/// As [`in_turns`].
pub fn few_at_a_time<T>(comm: &dyn Communicator, open: impl FnOnce() -> Result<T>) -> Result<T> {
    let rank = comm.rank();
    in_turns(comm, opens_shared_after(rank), &opens_shared_before(rank, comm.size()), open)
}

/// Collective: calls `open` after rank `before` has opened, then sends the token to the ranks in `after`. The `after` lists must
/// match: each rank is in the list of the rank that it waits for.
///
/// # Errors
/// The error of `open` on the rank where it fails; an error of the same kind, which names that rank, on the ranks that wait for it,
/// directly or indirectly; `PeerLost` or `Timeout` if a token does not arrive.
pub fn in_turns<T>(
    comm: &dyn Communicator,
    before: Option<u32>,
    after: &[u32],
    open: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let rank = comm.rank();
    let token =
        before.map_or(Ok(0), |before| comm.receive(Some(before), tags::SERIAL_OPEN).map(|m| read_token(&m.bytes)));
    let result = match token {
        Err(lost) => Err(lost),
        Ok(0) => caught("open", open),
        Ok(failed) => {
            let by = (failed >> 8) as u32;
            Err(Error::reported(ErrorKind::from_code(failed as u8), by, "cannot open").at_rank(rank))
        }
    };
    let token = match &result {
        Ok(_) => 0,
        Err(e) => (u64::from(e.reported_by().unwrap_or(rank)) << 8) | u64::from(e.kind().code()),
    };
    // All waiting ranks get the token, even if a send to one of them fails.
    let told = after.iter().map(|to| comm.send(*to, tags::SERIAL_OPEN, &token.to_le_bytes())).fold(Ok(()), Result::and);
    told.and(result)
}

fn read_token(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(u64::from(ErrorKind::Io.code()), u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::turns::OPENS_AT_ONCE;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::time::Duration;
    use thalweg_comm::threads;

    #[test]
    fn no_rank_opens_before_the_one_that_it_waits_for() {
        let opened: Vec<AtomicBool> = (0..40).map(|_| AtomicBool::new(false)).collect();
        let at_once = AtomicU32::new(0);
        threads::run(40, |comm| {
            few_at_a_time(&comm, || {
                let before = opens_shared_after(comm.rank());
                assert!(before.is_none_or(|before| opened[before as usize].load(Ordering::SeqCst)));
                assert!(at_once.fetch_add(1, Ordering::SeqCst) < OPENS_AT_ONCE);
                std::thread::sleep(Duration::from_millis(1));
                at_once.fetch_sub(1, Ordering::SeqCst);
                opened[comm.rank() as usize].store(true, Ordering::SeqCst);
                Ok(())
            })
            .unwrap();
        });
        assert!(opened.into_iter().all(AtomicBool::into_inner));
    }

    #[test]
    fn a_failed_open_stops_those_that_wait_for_it_and_is_named() {
        let outcomes = threads::run(40, |comm| {
            few_at_a_time(&comm, || match comm.rank() {
                1 => Err(Error::new(ErrorKind::PermissionDenied, "no")),
                _ => Ok(comm.rank()),
            })
        });
        for (rank, outcome) in outcomes.iter().enumerate() {
            match rank {
                1 => assert_eq!(outcome.as_ref().unwrap_err().kind(), ErrorKind::PermissionDenied),
                17 | 33 => {
                    let e = outcome.as_ref().unwrap_err();
                    assert_eq!((e.kind(), e.reported_by()), (ErrorKind::PermissionDenied, Some(1)));
                }
                _ => assert!(outcome.is_ok(), "rank {rank}"),
            }
        }
    }
}
