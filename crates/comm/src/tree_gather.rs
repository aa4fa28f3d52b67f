//! What every rank has to say travels to rank 0 up a tree ([`crate::tree`]), joined on the way.
//!
//! | question | answer |
//! |---|---|
//! | what moves | each rank sends one message, to its parent, when it has heard its children; a leaf at once, whatever the others do |
//! | calls | no collective one |
//! | in two parts | what is known before a rank's work is done may go first, and what became of the work later, from those ranks alone that said so: [`gather_at`] |
//! | on failure | a rank that hears nothing from a child returns `PeerLost` or `Timeout`; those above it then hear nothing from it. What those left do next is theirs: everyone still has what it gave |

use crate::tree;
use crate::{Communicator, Request};
use std::ops::Range;
use thalweg_types::Result;

/// Which gathering a message belongs to: those of one that failed may come late, and are passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gathering {
    /// Tag of the messages, in the library's half of the tags.
    pub tag: u32,
    /// Run id of the output.
    pub run: u64,
    /// Step + 1.
    pub time_index: u32,
    /// Which gathering of this output.
    pub attempt: u32,
}

const HEAD: usize = 16;

impl Gathering {
    fn head(self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&self.run.to_le_bytes());
        head[8..12].copy_from_slice(&self.time_index.to_le_bytes());
        head[12..].copy_from_slice(&self.attempt.to_le_bytes());
        head
    }
}

/// All ranks call it; none waits but for those that it brings along.
///
/// - `fan_in`: most children of a rank.
/// - `join`: called for each child, in the order of ranks, with the ranks it brings and what it says.
/// - `say`: called once all children are heard, on all ranks but rank 0: what this rank sends.
///
/// Returns what is under way to the parent: a rank that goes on to where its parent waits anyway need not wait twice.
///
/// # Errors
/// A lost rank, or one that says nothing within the time limit.
pub fn gather<'c, S>(
    comm: &'c dyn Communicator,
    fan_in: u32,
    call: Gathering,
    state: &mut S,
    join: impl FnMut(&mut S, Range<u32>, &[u8]),
    say: impl FnOnce(&mut S) -> Vec<u8>,
) -> Result<Option<Box<dyn Request + 'c>>> {
    let place = tree::node(comm.rank(), comm.size(), fan_in);
    gather_at(comm, &place.children, place.parent, call, state, join, say)
}

/// As [`gather`], where not all have something to say: this rank hears these of its children, and sends to `parent` where
/// that is one. Whoever sends and whoever hears it know that from a gathering before.
pub fn gather_at<'c, S>(
    comm: &'c dyn Communicator,
    children: &[Range<u32>],
    parent: Option<u32>,
    call: Gathering,
    state: &mut S,
    mut join: impl FnMut(&mut S, Range<u32>, &[u8]),
    say: impl FnOnce(&mut S) -> Vec<u8>,
) -> Result<Option<Box<dyn Request + 'c>>> {
    let head = call.head();
    for child in children {
        let bytes = loop {
            let message = comm.receive(Some(child.start), call.tag)?;
            if message.bytes.starts_with(&head) {
                break message.bytes;
            }
        };
        join(state, child.clone(), &bytes[HEAD..]);
    }
    let Some(parent) = parent else { return Ok(None) };
    let mut message = head.to_vec();
    message.extend_from_slice(&say(state));
    comm.start_send(parent, call.tag, message).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::Counting;
    use crate::threads::Machine;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    use thalweg_types::ErrorKind;

    const CALL: Gathering = Gathering { tag: crate::tags::FIRST + 99, run: 5, time_index: 1, attempt: 0 };

    fn all(comm: &dyn Communicator, fan_in: u32, call: Gathering) -> Result<Vec<u8>> {
        let mut own = comm.rank().to_le_bytes().to_vec();
        let sent = gather(comm, fan_in, call, &mut own, |own, _, more| own.extend_from_slice(more), |own| own.clone())?;
        sent.map_or(Ok(None), Request::wait)?;
        Ok(own)
    }

    #[test]
    fn rank_0_hears_at_most_the_fan_in_and_all_ranks_in_order() {
        for (ranks, fan_in) in [(1, 4), (2, 4), (257, 4), (257, 16), (257, 64), (257, 1)] {
            let heard = Machine::new(ranks).run(|comm| {
                let comm = Counting::new(Box::new(comm));
                let said = all(&comm, fan_in, CALL).unwrap();
                let counts = comm.counts().snapshot();
                assert_eq!(counts.collective(), 0);
                assert_eq!(counts.sends, u64::from(comm.rank() > 0));
                assert!(counts.received <= u64::from(fan_in), "{counts:?}");
                (said, counts.received)
            });
            let expected: Vec<u8> = (0..ranks).flat_map(u32::to_le_bytes).collect();
            assert_eq!(heard[0].0, expected);
            assert_eq!(heard[0].1, u64::from(fan_in.min(ranks - 1)));
        }
    }

    #[test]
    fn a_lost_rank_keeps_nobody_waiting_who_does_not_need_it() {
        let began = Instant::now();
        // Those it brings along send when it is gone: what came before would be gone with it, unseen.
        let gone = AtomicBool::new(false);
        let machine = Machine::new(13).timeout(Duration::from_secs(20));
        let outcomes = machine.run(|comm| {
            if comm.rank() == 5 {
                comm.leave();
                gone.store(true, Ordering::SeqCst);
                return None;
            }
            while (6..9).contains(&comm.rank()) && !gone.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let outcome = all(&comm, 3, CALL).map(|_| ());
            if outcome.is_err() {
                // As those do who commit a step: they gather, and that ends the waits of the others.
                let _ = comm.survivors();
            } else {
                let _ = comm.barrier();
                let _ = comm.survivors();
            }
            Some(outcome)
        });
        assert!(began.elapsed() < Duration::from_secs(10));
        // 0 has children 1..5, 5..9, 9..13.
        for (rank, outcome) in outcomes.into_iter().enumerate() {
            let Some(outcome) = outcome else { continue };
            match rank {
                0 => assert_eq!(outcome.unwrap_err().kind(), ErrorKind::PeerLost),
                6..9 => assert_eq!(outcome.unwrap_err().kind(), ErrorKind::PeerLost, "its parent is lost"),
                // The gathering of those left ends the waits that are not over yet.
                _ => assert!(outcome.is_ok() || outcome.is_err_and(|e| e.kind() == ErrorKind::PeerLost)),
            }
        }
    }

    #[test]
    fn what_came_too_late_for_an_earlier_gathering_is_passed_over() {
        let said = Machine::new(4).run(|comm| {
            if comm.rank() == 2 {
                comm.send(0, CALL.tag, &[&CALL.head()[..], b"old"].concat()).unwrap();
            }
            all(&comm, 3, Gathering { time_index: 2, ..CALL }).unwrap()
        });
        assert_eq!(said[0], (0..4u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>());
    }
}
