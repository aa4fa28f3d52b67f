//! Messages between the ranks of a file, all with one tag. Their order does not matter: a large message may be received after a small
//! one that was sent later.
//!
//! | message | from, to | content |
//! |---|---|---|
//! | `Want` | a rank to an owner | how much it has to send, in bytes of memory |
//! | `Grant` | an owner to a rank | how much it may send |
//! | `Data` | a rank to an owner | bytes; and how much more it has, like a `Want` |
//! | `Ended` | a rank to its parent | the sums of the rank and all ranks below it |
//! | `Expect` | rank 0 to an owner | how many bytes come in all; or to end with what there is |
//! | `Report` | an owner to rank 0 | what it has written |
//! | `Alive` | a rank to rank 0, and down the tree | something happened: the time limit begins anew |
//! | `Late` | a rank to rank 0 | the children that have not ended their part |
//! | `Complete` | down the tree | the outcome |
//!
//! Numbers are little endian: the fields in the order of the enum, then window (8 bytes) and kind (1); lists begin with their length (4). Of
//! `Data`, the bytes come first, then the extents, their number and `more`: the bytes are sent and kept as they are, without a copy.

use crate::ending::{Outcome, Report, Sums};
use crate::gather::Count;
use crate::post::Letter;
use thalweg_types::Extent;

/// See the module's page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the module's page says what the fields are")]
pub enum Message {
    Want { memory: u64 },
    Grant { memory: u64 },
    Data { more: u64, extents: Vec<Extent>, bytes: Vec<u8> },
    Ended { fingerprint: u64, sums: Sums },
    Expect { bytes: Option<u64> },
    Report(Report),
    Alive,
    Late { ranks: Vec<u32> },
    Complete(Outcome),
}

/// In place of a number: none.
const NONE: u64 = u64::MAX;

/// Removes the last bytes.
fn last<const N: usize>(bytes: &mut Vec<u8>) -> Option<[u8; N]> {
    let (rest, last) = bytes.split_last_chunk()?;
    let (length, last) = (rest.len(), *last);
    bytes.truncate(length);
    Some(last)
}

fn last_long(bytes: &mut Vec<u8>) -> Option<u64> {
    last(bytes).map(u64::from_le_bytes)
}

struct Encoder(Vec<u8>);

impl Encoder {
    fn long(&mut self, value: u64) -> &mut Encoder {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn short(&mut self, value: u32) -> &mut Encoder {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
}

struct Decoder<'b>(&'b [u8]);

impl Decoder<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn long(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn short(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*first))
    }

    fn ranks(&mut self) -> Option<Vec<u32>> {
        let count = self.short()?;
        let mut ranks = Vec::new();
        for _ in 0..count {
            ranks.push(self.short()?);
        }
        Some(ranks)
    }

    fn count(&mut self) -> Option<Count> {
        Some(Count { bytes: self.long()?, first: self.long()? })
    }
}

impl Message {
    /// Bytes of a `Data` message beside those of the program, for each piece.
    pub const OF_A_PIECE: usize = 16;

    /// The message as bytes; those of the program are not copied.
    pub fn encode(self, window: u64) -> Vec<u8> {
        let kind = match self {
            Message::Want { .. } => 1,
            Message::Grant { .. } => 2,
            Message::Data { .. } => 3,
            Message::Ended { .. } => 4,
            Message::Expect { .. } => 5,
            Message::Report(_) => 6,
            Message::Alive => 7,
            Message::Late { .. } => 8,
            Message::Complete(_) => 9,
        };
        let mut out = Encoder(Vec::new());
        match self {
            Message::Want { memory } | Message::Grant { memory } => drop(out.long(memory)),
            Message::Data { more, extents, bytes } => {
                out.0 = bytes;
                out.0.reserve_exact(21 + extents.len() * Self::OF_A_PIECE);
                for extent in &extents {
                    out.long(extent.offset).long(extent.length);
                }
                out.short(extents.len() as u32).long(more);
            }
            Message::Ended { fingerprint, sums } => {
                out.long(fingerprint).long(sums.differs.map_or(NONE, u64::from)).short(sums.bytes.len() as u32);
                for (owner, bytes) in sums.bytes {
                    out.short(owner).long(bytes);
                }
            }
            Message::Expect { bytes } => drop(out.long(bytes.unwrap_or(NONE))),
            Message::Report(report) => {
                let Report { received, missing, repeated, order, failure } = report;
                out.long(received).long(missing.bytes).long(missing.first);
                out.long(repeated.bytes).long(repeated.first).long(order);
                out.0.extend_from_slice(&failure);
            }
            Message::Alive => {}
            Message::Late { ranks } => {
                out.short(ranks.len() as u32);
                for rank in ranks {
                    out.short(rank);
                }
            }
            Message::Complete(outcome) => {
                let Outcome { bytes, order, by, failed, overdue, failure } = outcome;
                out.long(bytes).long(order).short(by).short(failed.len() as u32);
                for rank in failed {
                    out.short(rank);
                }
                out.0.push(u8::from(overdue));
                out.0.extend_from_slice(&failure);
            }
        }
        out.long(window).0.push(kind);
        out.0
    }

    /// The window and the message that [`Message::encode`] encoded; `None` for other bytes. Those of the program are not copied.
    pub fn decode(mut bytes: Vec<u8>) -> Option<(u64, Message)> {
        let kind = bytes.pop()?;
        let window = last_long(&mut bytes)?;
        if kind == 3 {
            let more = last_long(&mut bytes)?;
            let count = u32::from_le_bytes(last(&mut bytes)?) as usize;
            let listed = bytes.split_off(bytes.len().checked_sub(count.checked_mul(Self::OF_A_PIECE)?)?);
            let mut from = Decoder(&listed);
            let extents: Option<Vec<Extent>> =
                (0..count).map(|_| Some(Extent::new(from.long()?, from.long()?))).collect();
            // The memory is counted.
            bytes.shrink_to_fit();
            return Some((window, Message::Data { more, extents: extents?, bytes }));
        }
        let mut from = Decoder(&bytes);
        let message = match kind {
            1 => Message::Want { memory: from.long()? },
            2 => Message::Grant { memory: from.long()? },
            4 => {
                let (fingerprint, differs, count) = (from.long()?, from.long()?, from.short()?);
                let mut sums = Sums { differs: u32::try_from(differs).ok(), ..Sums::default() };
                for _ in 0..count {
                    sums.bytes.insert(from.short()?, from.long()?);
                }
                Message::Ended { fingerprint, sums }
            }
            5 => Message::Expect { bytes: Some(from.long()?).filter(|bytes| *bytes != NONE) },
            6 => Message::Report(Report {
                received: from.long()?,
                missing: from.count()?,
                repeated: from.count()?,
                order: from.long()?,
                failure: from.0.to_vec(),
            }),
            7 => Message::Alive,
            8 => Message::Late { ranks: from.ranks()? },
            9 => Message::Complete(Outcome {
                bytes: from.long()?,
                order: from.long()?,
                by: from.short()?,
                failed: from.ranks()?,
                overdue: from.byte()? != 0,
                failure: from.0.to_vec(),
            }),
            _ => return None,
        };
        Some((window, message))
    }
}

impl Letter for (u64, Message) {
    fn encode(self) -> Vec<u8> {
        self.1.encode(self.0)
    }

    fn decode(bytes: Vec<u8>) -> Option<(u64, Message)> {
        Message::decode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn every_kind() -> Vec<Message> {
        let sums = |differs| Sums { bytes: BTreeMap::from([(0, 7), (9, u64::MAX - 1)]), differs };
        vec![
            Message::Want { memory: 5 },
            Message::Grant { memory: 1 << 40 },
            Message::Data { more: 3, extents: vec![Extent::new(10, 2), Extent::new(99, 1)], bytes: vec![1, 2, 3] },
            Message::Data { more: 0, extents: vec![], bytes: vec![] },
            Message::Ended { fingerprint: 77, sums: sums(None) },
            Message::Ended { fingerprint: 77, sums: sums(Some(4)) },
            Message::Expect { bytes: None },
            Message::Expect { bytes: Some(12) },
            Message::Report(Report {
                received: 1,
                missing: Count { bytes: 2, first: 3 },
                repeated: Count { bytes: 4, first: 5 },
                order: 6,
                failure: vec![8, 9],
            }),
            Message::Alive,
            Message::Late { ranks: vec![4, 2] },
            Message::Complete(Outcome {
                bytes: 1,
                order: 2,
                by: 3,
                failed: vec![3, 7],
                overdue: true,
                failure: vec![4],
            }),
        ]
    }

    #[test]
    fn messages_survive_being_sent() {
        for message in every_kind() {
            assert_eq!(Message::decode(message.clone().encode(11)), Some((11, message)));
        }
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        for message in every_kind() {
            let bytes = message.clone().encode(1);
            for cut in 1..=bytes.len() {
                // What is left may be a shorter list, or a field without a length; the kind and the window are at the end.
                if let Some((window, shorter)) = Message::decode(bytes[cut..].to_vec()) {
                    assert_eq!((window, std::mem::discriminant(&shorter)), (1, std::mem::discriminant(&message)));
                    let is_fixed = matches!(
                        shorter,
                        Message::Want { .. } | Message::Grant { .. } | Message::Expect { .. } | Message::Alive
                    );
                    assert!(!is_fixed, "{shorter:?}");
                }
            }
        }
        assert_eq!(Message::decode(vec![0; 40]), None);
        assert_eq!(Message::decode(vec![10; 40]), None);
        let many = [&[0; 8][..], &[0xff; 4], &[0; 16], &[3]].concat();
        assert_eq!(Message::decode(many), None, "more extents than bytes");
    }

    #[test]
    fn bytes_of_the_program_are_moved_and_not_copied() {
        let bytes = Vec::with_capacity(1 << 20);
        let bytes = std::iter::repeat_n(7u8, (1 << 20) - 100).fold(bytes, |mut bytes: Vec<u8>, byte| {
            bytes.push(byte);
            bytes
        });
        let at = bytes.as_ptr();
        let extents = vec![Extent::new(5, bytes.len() as u64)];
        let sent = Message::Data { more: 0, extents, bytes }.encode(1);
        assert_eq!(sent.as_ptr(), at);
        let Some((1, Message::Data { bytes, .. })) = Message::decode(sent) else { panic!("no data") };
        assert_eq!(bytes.len(), (1 << 20) - 100);
    }
}
