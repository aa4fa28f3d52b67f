//! What every rank has to say travels to rank 0 up a tree ([`crate::tree`]), joined on the way.
//!
//! | question | answer |
//! |---|---|
//! | what moves | each rank sends one message, to its parent, when it has heard its children; a leaf at once, whatever the others do |
//! | calls | no collective one |
//! | large messages | in pieces of [`PIECE`] bytes, so that a rank without memory for the whole can take the rest off its child's hands piece by piece |
//! | in two parts | what is known before a rank's work is done may go first, and what became of the work later, from those ranks alone that said so: [`gather_at`] |
//! | a rank without memory | receives all pieces and keeps the first alone; `join` gets that and the reason ([`Heard::short`]). The rank then sends its own message as usual: nobody waits, and what the message says of the failure is the caller's |
//! | on failure | a rank that hears nothing from a child returns `PeerLost` or `Timeout`; those above it then hear nothing from it. What those left do next is theirs: everyone still has what it gave |

use crate::tree;
use crate::{Communicator, Message, Request};
use std::ops::Range;
use thalweg_types::{Error, ErrorKind, Result};

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

/// What a rank hears of a child.
#[derive(Debug)]
pub struct Heard<'m> {
    /// What the child says; the first bytes of it, at most [`PIECE`], where `short` says why there are no more.
    pub bytes: &'m [u8],
    /// `NoMemory`: this rank has no room for all that the child says.
    pub short: Option<Error>,
}

/// Most bytes of one message.
pub const PIECE: usize = 64 << 10;

/// Bytes in front of each piece: the gathering, and how many bytes of what is said are still to come, with this piece.
const HEAD: usize = 16 + 8;

impl Gathering {
    fn head(self) -> [u8; 16] {
        let mut head = [0; 16];
        head[..8].copy_from_slice(&self.run.to_le_bytes());
        head[8..12].copy_from_slice(&self.time_index.to_le_bytes());
        head[12..16].copy_from_slice(&self.attempt.to_le_bytes());
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
/// A lost rank, or one that says nothing within the time limit. Missing memory is no error here: `join` is told of it.
pub fn gather<'c, S>(
    comm: &'c dyn Communicator,
    fan_in: u32,
    call: Gathering,
    state: &mut S,
    join: impl FnMut(&mut S, Range<u32>, Heard<'_>),
    say: impl FnOnce(&mut S) -> Vec<u8>,
) -> Result<Option<Box<dyn Request + 'c>>> {
    let place = tree::node(comm.rank(), comm.size(), fan_in);
    gather_at(comm, &place.children, place.parent, call, state, join, say)
}

/// As [`gather`], where not all have something to say: this rank hears these of its children, and sends to `parent` where
/// that is one. Whoever sends and whoever hears it know that from a gathering before.
///
/// # Errors
/// As [`gather`]; `Corrupt` where a piece of a message is damaged.
pub fn gather_at<'c, S>(
    comm: &'c dyn Communicator,
    children: &[Range<u32>],
    parent: Option<u32>,
    call: Gathering,
    state: &mut S,
    mut join: impl FnMut(&mut S, Range<u32>, Heard<'_>),
    say: impl FnOnce(&mut S) -> Vec<u8>,
) -> Result<Option<Box<dyn Request + 'c>>> {
    let mut spare = Spare::of(children);
    for child in children {
        let first = spare.receive(comm, child.start, call)?;
        let (begin, mut left) = opened(&first)?;
        if left == 0 {
            join(state, child.clone(), Heard { bytes: begin, short: None });
            continue;
        }
        let mut whole = Vec::new();
        let total = left.saturating_add(begin.len());
        let short = whole.try_reserve_exact(total).err().map(|_| {
            let what = format!("no memory for the {total} bytes that rank {} sent", child.start);
            Error::new(ErrorKind::NoMemory, what).at_rank(comm.rank())
        });
        let mut keep = |bytes: &[u8]| {
            if short.is_none() {
                whole.extend_from_slice(bytes);
            }
        };
        keep(begin);
        while left > 0 {
            let piece = spare.receive(comm, child.start, call)?;
            let bytes;
            (bytes, left) = opened(&piece)?;
            keep(bytes);
        }
        let bytes = if short.is_none() { &whole } else { begin };
        join(state, child.clone(), Heard { bytes, short });
    }
    let Some(parent) = parent else { return Ok(None) };
    send(comm, parent, call, &say(state)).map(Some)
}

/// The bytes of a piece, and how many of the message are still to come behind them.
fn opened(piece: &[u8]) -> Result<(&[u8], usize)> {
    let damaged = || Error::new(ErrorKind::Corrupt, "a piece of a gathered message is damaged");
    let (_, rest) = piece.split_at_checked(HEAD - 8).ok_or_else(damaged)?;
    let (left, bytes) = rest.split_first_chunk().ok_or_else(damaged)?;
    let left = usize::try_from(u64::from_le_bytes(*left)).ok().and_then(|left| left.checked_sub(bytes.len()));
    // A piece without bytes brings its message no nearer to its end.
    let left = left.filter(|left| *left == 0 || !bytes.is_empty());
    Ok((bytes, left.ok_or_else(damaged)?))
}

/// Memory for one piece, given back to the system when a piece cannot be received for lack of memory.
struct Spare(Vec<u8>);

impl Spare {
    fn of(children: &[Range<u32>]) -> Spare {
        let mut held = Vec::new();
        if !children.is_empty() {
            let _ = held.try_reserve_exact(HEAD + PIECE);
        }
        Spare(held)
    }

    /// The next piece of this gathering from `child`.
    fn receive(&mut self, comm: &dyn Communicator, child: u32, call: Gathering) -> Result<Vec<u8>> {
        loop {
            match comm.receive(Some(child), call.tag) {
                Ok(message) if message.bytes.starts_with(&call.head()) => return Ok(message.bytes),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::NoMemory && self.0.capacity() > 0 => self.0 = Vec::new(),
                Err(e) => return Err(e),
            }
        }
    }
}

/// Sends in pieces of at most [`PIECE`] bytes.
fn send<'c>(comm: &'c dyn Communicator, parent: u32, call: Gathering, said: &[u8]) -> Result<Box<dyn Request + 'c>> {
    let mut left = said.len();
    let mut pieces = Vec::with_capacity(left.div_ceil(PIECE).max(1));
    loop {
        let piece = &said[said.len() - left..][..left.min(PIECE)];
        let message = [&call.head()[..], &(left as u64).to_le_bytes(), piece].concat();
        pieces.push(comm.start_send(parent, call.tag, message)?);
        left -= piece.len();
        if left == 0 {
            return Ok(Box::new(Sending(pieces)));
        }
    }
}

/// The pieces of one message, under way.
struct Sending<'c>(Vec<Box<dyn Request + 'c>>);

impl Request for Sending<'_> {
    fn test(&mut self) -> Result<bool> {
        let mut done = true;
        for piece in &mut self.0 {
            done &= piece.test()?;
        }
        Ok(done)
    }

    fn wait(self: Box<Self>) -> Result<Option<Message>> {
        self.0.into_iter().try_for_each(|piece| piece.wait().map(drop)).map(|()| None)
    }
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
        let sent =
            gather(comm, fan_in, call, &mut own, |own, _, more| own.extend_from_slice(more.bytes), |own| own.clone())?;
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
        let machine = Machine::new(13).timeout(Duration::from_secs(600));
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
        assert!(began.elapsed() < Duration::from_secs(300), "the loss was waited out: {:?}", began.elapsed());
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
                comm.send(0, CALL.tag, &[&CALL.head()[..], &3u64.to_le_bytes(), b"old"].concat()).unwrap();
            }
            all(&comm, 3, Gathering { time_index: 2, ..CALL }).unwrap()
        });
        assert_eq!(said[0], (0..4u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>());
    }
}
