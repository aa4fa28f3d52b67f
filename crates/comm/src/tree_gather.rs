//! Gathers a message of every rank at rank 0 up a tree ([`crate::tree`]); each inner rank joins its children's messages into its
//! own.
//!
//! | question | answer |
//! |---|---|
//! | what moves | each rank sends one message to its parent, after it has received its children's; a leaf sends immediately |
//! | calls | point-to-point only, no collective call |
//! | large messages | sent in pieces of [`PIECE`] bytes, so that a rank without memory for the whole message can receive it piece by piece |
//! | in two parts | what is known before the rank's work ends may be sent first; the result of the work later, only by ranks that announced it: [`gather_at`] |
//! | a rank without memory | receives all pieces, keeps the first, and passes it to `join` with the error ([`ChildMessage::short`]); it then sends its own message as usual, so that no rank waits. The caller decides how its message reports the failure |
//! | on failure | a rank that receives nothing from a child returns `PeerLost` or `Timeout`, and sends nothing to its parent, which fails likewise. Every rank keeps its own data; the caller decides how to continue |

use crate::tree;
use crate::{Communicator, Message, Request};
use std::ops::Range;
use thalweg_types::{Error, ErrorKind, Result};

/// Identifies a gathering: late messages of a gathering that failed are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gathering {
    /// Tag of the messages, in the library's half of the tags.
    pub tag: u32,
    /// Run id of the output.
    pub run: u64,
    /// Step + 1.
    pub time_index: u32,
    /// Number of the gathering within this output.
    pub attempt: u32,
}

/// A message received from a child.
#[derive(Debug)]
pub struct ChildMessage<'m> {
    /// The message; if `short` is set, its first bytes, at most [`PIECE`].
    pub bytes: &'m [u8],
    /// `NoMemory` if this rank has no memory for the whole message.
    pub short: Option<Error>,
}

/// Largest message, in bytes, without the head.
pub const PIECE: usize = 64 << 10;

/// Bytes before each piece: the gathering, and the bytes of the message that remain, including this piece.
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

/// Gathers messages up the tree. All ranks call it; each rank waits only for its children.
///
/// - `fan_in`: largest number of children of a rank.
/// - `join`: called for each child, in the order of ranks, with the ranks of its subtree and its message.
/// - `say`: called after all children on all ranks but rank 0; returns this rank's message.
///
/// Returns the pending send to the parent; `None` on rank 0. A rank that waits for its parent anyway need not wait for the send.
///
/// # Errors
/// `PeerLost` or `Timeout` for a lost or silent child. Missing memory is no error: `join` gets it.
/// # Cost
/// One message to the parent and one from each child, split into pieces of [`PIECE`] bytes; up to 1 + log(ranks) / log(`fan_in`)
/// hops. Memory for one child's message at a time.
pub fn gather<'c, S>(
    comm: &'c dyn Communicator,
    fan_in: u32,
    call: Gathering,
    state: &mut S,
    join: impl FnMut(&mut S, Range<u32>, ChildMessage<'_>),
    say: impl FnOnce(&mut S) -> Vec<u8>,
) -> Result<Option<Box<dyn Request + 'c>>> {
    let place = tree::node(comm.rank(), comm.size(), fan_in);
    gather_at(comm, &place.children, place.parent, call, state, join, say)
}

/// As [`gather`], for a gathering in which only some ranks take part: this rank receives from `children`, and sends to `parent`
/// if it is set. Both sides know from an earlier gathering which messages are sent.
///
/// # Errors
/// As [`gather`]; `Corrupt` if a piece of a message is damaged.
pub fn gather_at<'c, S>(
    comm: &'c dyn Communicator,
    children: &[Range<u32>],
    parent: Option<u32>,
    call: Gathering,
    state: &mut S,
    mut join: impl FnMut(&mut S, Range<u32>, ChildMessage<'_>),
    say: impl FnOnce(&mut S) -> Vec<u8>,
) -> Result<Option<Box<dyn Request + 'c>>> {
    let mut spare = Spare::of(children);
    for child in children {
        let first = spare.receive(comm, child.start, call)?;
        let (begin, mut left) = opened(&first)?;
        if left == 0 {
            join(state, child.clone(), ChildMessage { bytes: begin, short: None });
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
        join(state, child.clone(), ChildMessage { bytes, short });
    }
    let Some(parent) = parent else { return Ok(None) };
    send(comm, parent, call, &say(state)).map(Some)
}

/// The bytes of a piece, and how many bytes of the message follow it.
fn opened(piece: &[u8]) -> Result<(&[u8], usize)> {
    let damaged = || Error::new(ErrorKind::Corrupt, "a piece of a gathered message is damaged");
    let (_, rest) = piece.split_at_checked(HEAD - 8).ok_or_else(damaged)?;
    let (left, bytes) = rest.split_first_chunk().ok_or_else(damaged)?;
    let left = usize::try_from(u64::from_le_bytes(*left)).ok().and_then(|left| left.checked_sub(bytes.len()));
    // A piece without bytes would never complete its message.
    let left = left.filter(|left| *left == 0 || !bytes.is_empty());
    Ok((bytes, left.ok_or_else(damaged)?))
}

/// Memory for one piece, released when a piece cannot be received for lack of memory.
struct Spare(Vec<u8>);

impl Spare {
    fn of(children: &[Range<u32>]) -> Spare {
        let mut spare = Vec::new();
        if !children.is_empty() {
            let _ = spare.try_reserve_exact(HEAD + PIECE);
        }
        Spare(spare)
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

/// The pending pieces of one message.
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
        // The ranks of its subtree send only after it has left: earlier messages would be lost with it, unread.
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
                // As ranks that commit a step do: they gather the survivors, which ends the waits of the others.
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
                // Gathering the survivors ends the waits that are still pending.
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
