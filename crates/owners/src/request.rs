//! Messages between the ranks of a file that is read in input windows, all with one tag. Their order does not matter.
//!
//! | message | from, to | content |
//! |---|---|---|
//! | `Ask` | a rank to an owner | extents that it waits for, the number of its read, and which window it means |
//! | `Answer` | an owner to a rank | bytes of them |
//! | `Failed` | an owner to a rank | why a read fails |
//! | `Alive` | an owner to a rank | something happens: the time limit begins anew |
//! | `Ended` | a rank to its parent | it and all ranks below it read nothing more |
//! | `Over` | down the tree | all ranks have ended |
//!
//! Numbers are little endian. The fields in the order of the enum, then window (8 bytes) and kind (1); bytes and extents come first, and reach to
//! the other fields.

use crate::post::Letter;
use thalweg_types::Extent;

/// See the module's page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the module's page says what the fields are")]
pub enum Request {
    Ask { read: u64, fingerprint: u64, extents: Vec<Extent> },
    Answer { read: u64, offset: u64, bytes: Vec<u8> },
    Failed { read: u64, report: Vec<u8> },
    Alive,
    Ended,
    Over,
}

impl Request {
    /// Bytes of an `Answer` beside those of the file, or more.
    pub const FRAME: u64 = 25;
}

/// Removes the last number.
fn last(bytes: &mut Vec<u8>) -> Option<u64> {
    let (rest, last) = bytes.split_last_chunk()?;
    let (length, number) = (rest.len(), u64::from_le_bytes(*last));
    bytes.truncate(length);
    Some(number)
}

impl Letter for (u64, Request) {
    fn encode(self) -> Vec<u8> {
        let (mut out, numbers, kind) = match self.1 {
            Request::Ask { read, fingerprint, extents } => {
                let listed = extents.iter().flat_map(|extent| [extent.offset, extent.length]);
                (listed.flat_map(u64::to_le_bytes).collect(), vec![fingerprint, read], 1)
            }
            Request::Answer { read, offset, bytes } => (bytes, vec![offset, read], 2),
            Request::Failed { read, report } => (report, vec![read], 3),
            Request::Alive => (vec![], vec![], 4),
            Request::Ended => (vec![], vec![], 5),
            Request::Over => (vec![], vec![], 6),
        };
        out.reserve_exact(25);
        numbers.iter().chain([&self.0]).for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out.push(kind);
        out
    }

    fn memory(&self) -> u64 {
        match &self.1 {
            Request::Answer { bytes, .. } => bytes.capacity() as u64,
            _ => 0,
        }
    }

    fn decode(mut bytes: Vec<u8>) -> Option<(u64, Request)> {
        let kind = bytes.pop()?;
        let window = last(&mut bytes)?;
        let request = match kind {
            1 => {
                let (read, fingerprint) = (last(&mut bytes)?, last(&mut bytes)?);
                let (pairs, rest) = bytes.as_chunks::<16>();
                let number = |half: &[u8]| half.try_into().ok().map(u64::from_le_bytes);
                let extents = pairs.iter().map(|pair| Some(Extent::new(number(&pair[..8])?, number(&pair[8..])?)));
                let extents = extents.collect::<Option<Vec<Extent>>>().filter(|_| rest.is_empty())?;
                Request::Ask { read, fingerprint, extents }
            }
            2 => {
                let (read, offset) = (last(&mut bytes)?, last(&mut bytes)?);
                Request::Answer { read, offset, bytes }
            }
            3 => Request::Failed { read: last(&mut bytes)?, report: bytes },
            4..=6 if !bytes.is_empty() => return None,
            4 => Request::Alive,
            5 => Request::Ended,
            6 => Request::Over,
            _ => return None,
        };
        Some((window, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_being_sent_and_others_are_refused() {
        let all = [
            Request::Ask { read: 5, fingerprint: u64::MAX, extents: vec![Extent::new(7, 8), Extent::new(1 << 40, 1)] },
            Request::Ask { read: 0, fingerprint: 0, extents: vec![] },
            Request::Answer { read: 1, offset: 2, bytes: vec![3; 100] },
            Request::Failed { read: 9, report: vec![1, 2] },
            Request::Alive,
            Request::Ended,
            Request::Over,
        ];
        for request in all {
            let bytes = (11, request.clone()).encode();
            assert_eq!(Letter::decode(bytes.clone()), Some((11, request)));
            for cut in 1..=bytes.len() {
                // What is left may be shorter bytes; the numbers are at the end.
                if let Some((window, _)) = <(u64, Request)>::decode(bytes[cut..].to_vec()) {
                    assert_eq!(window, 11);
                }
            }
        }
        for wrong in [vec![], vec![0; 40], vec![7; 40], [&[0; 12][..], &[4]].concat(), [&[0; 30][..], &[1]].concat()] {
            assert_eq!(<(u64, Request)>::decode(wrong.clone()), None, "{wrong:?}");
        }
    }
}
