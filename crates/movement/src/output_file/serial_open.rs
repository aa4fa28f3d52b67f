//! Serialised opens: rank 0 opens first, then each rank after the rank before it, so that a metadata server handles one open at a
//! time.
//!
//! Each rank receives one token and sends one ([`in_turns`]: one to each rank that waits for it). A rank whose open fails passes
//! the failure on in its token, and later ranks do not try to open.
//!
//! Source: Lofstead et al., "Petascale IO Using The Adaptable IO System", CUG 2009, section on opens.

use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_comm::tags;
use thalweg_types::{Error, ErrorKind, Result};

/// Collective: calls `open` on one rank after the other.
///
/// # Errors
/// The error of `open` on the rank where it fails; an error of the same kind, which names that rank, on all later ranks;
/// `PeerLost` or `Timeout` if a token does not arrive.
pub fn one_after_the_other<T>(comm: &dyn Communicator, open: impl FnOnce() -> Result<T>) -> Result<T> {
    let (rank, size) = (comm.rank(), comm.size());
    let after = (rank + 1 < size).then_some(rank + 1);
    in_turns(comm, rank.checked_sub(1), after.as_slice(), open)
}

/// Collective: calls `open` after rank `before` has opened, then sends the token to the ranks in `after`. The `after` lists must
/// match: each rank is in the list of the rank that it waits for.
///
/// # Errors
/// As [`one_after_the_other`]; later ranks are those that wait for the failed rank, directly or indirectly.
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
    use std::sync::atomic::{AtomicU32, Ordering};
    use thalweg_comm::threads;

    #[test]
    fn ranks_open_in_their_order() {
        let next = AtomicU32::new(0);
        threads::run(8, |comm| {
            one_after_the_other(&comm, || {
                assert_eq!(next.load(Ordering::SeqCst), comm.rank());
                next.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
            .unwrap();
        });
        assert_eq!(next.into_inner(), 8);
    }

    #[test]
    fn a_failed_open_stops_those_behind_it_and_is_named() {
        let outcomes = threads::run(4, |comm| {
            one_after_the_other(&comm, || match comm.rank() {
                1 => Err(Error::new(ErrorKind::PermissionDenied, "no")),
                _ => Ok(comm.rank()),
            })
        });
        assert!(outcomes[0].is_ok());
        for rank in [2, 3] {
            let e = outcomes[rank].as_ref().unwrap_err();
            assert_eq!((e.kind(), e.reported_by()), (ErrorKind::PermissionDenied, Some(1)));
        }
    }
}
