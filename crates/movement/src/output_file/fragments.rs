//! The messages that ranks send up the tree at the end of an output. The first message contains the extents and index fragments
//! of a rank and of the ranks below it, joined, and the list of ranks that have not written yet; the second, the outcomes of those
//! ranks' writes.
//!
//! | question | answer |
//! |---|---|
//! | order of joining | the entries of consecutive ranks are joined in the order of ranks: byte-identical to a join of all fragments on one rank |
//! | a rank has no memory for a child's message | the rank sends [`Gathered::Lost`] instead of fragments: the step is not indexed, because no rank has all fragments. The list of ranks that have not written yet is in the first bytes of a message, which always arrive |
//! | two fragments are inconsistent | the rank sends [`Gathered::Clash`] instead of fragments; in a second gathering the fragments are sent unmerged ([`Gathered::Apart`]), and the consistent ones are indexed |
//! | validation | messages are not trusted: a message that cannot be decoded counts as inconsistent, or its outcome as `Corrupt` |

use crate::output_file::live_index::{LiveIndex, fits};
use std::ops::Range;
use thalweg_bp::index::Index;
use thalweg_bp::wire::{Cursor, Put};
use thalweg_comm::tree_gather::ChildMessage;
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

/// The merged fragments of consecutive ranks.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// The joined index entries.
    pub step: Index,
    /// Number of ranks that wrote.
    pub whole: u64,
    /// Bytes of their process groups.
    pub bytes: u64,
    /// First byte behind all extents, including the extents of failed ranks.
    pub end: u64,
    /// Ranks without a fragment, and the code of their error kind.
    pub failed: Vec<(u32, u8)>,
    /// The first rank whose fragment is inconsistent, and the error.
    pub refused: Option<(u32, Error)>,
}

impl Merged {
    /// Counts a rank that wrote to `extent`, whose fragment is already joined.
    fn count(&mut self, extent: Extent) {
        self.whole += 1;
        self.bytes += extent.length;
        self.end = self.end.max(extent.end().unwrap_or(0));
    }

    /// Adds a rank without a fragment, and the extent that may contain bytes of it.
    fn fail(&mut self, rank: u32, (kind, place): Failed) {
        self.failed.push((rank, kind));
        self.end = self.end.max(place.and_then(|place| place.end()).unwrap_or(0));
    }

    /// Appends the message of one rank; lower ranks are already added.
    fn add(&mut self, rank: u32, message: &[u8]) -> Result<()> {
        let mut c = Cursor::new(message, ByteOrder::NATIVE, 0);
        match read_outcome(&mut c)? {
            Ok(extent) => {
                self.step.append_packed(&mut c)?;
                self.count(extent);
            }
            Err(failed) => self.fail(rank, failed),
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        [self.whole, self.bytes, self.end, self.failed.len() as u64].into_iter().for_each(|n| out.put_u64(n));
        for (rank, kind) in &self.failed {
            out.put_u32(*rank);
            out.put_u8(*kind);
        }
        out.put(&self.step.to_fragment());
        out
    }

    /// Appends the merged fragments of further consecutive ranks; lower ranks are already added.
    fn join(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let [whole, bytes, end, failed] =
            [c.u64("joined parts")?, c.u64("joined parts")?, c.u64("joined parts")?, c.u64("joined parts")?];
        for _ in 0..failed {
            self.failed.push((c.u32("failed rank")?, c.u8("failed rank")?));
        }
        self.step.append_packed(c)?;
        self.whole += whole;
        self.bytes = self.bytes.saturating_add(bytes);
        self.end = self.end.max(end);
        Ok(())
    }
}

/// The message of a rank that has written or will write its process group to `extent`.
pub(super) fn whole_message(extent: Extent, fragment: &Index) -> Vec<u8> {
    let mut message = vec![0];
    message.put_u64(extent.offset);
    message.put_u64(extent.length);
    message.put(&fragment.to_fragment());
    message
}

/// The message of a rank that failed: the kind of its error, and the extent that may contain bytes of it.
pub(super) fn failed_message(kind: ErrorKind, place: Option<Extent>) -> Vec<u8> {
    let mut message = vec![kind.code()];
    if let Some(place) = place {
        message.put_u64(place.offset);
        message.put_u64(place.length);
    }
    message
}

/// The code of an error kind, and the extent that may contain bytes of the rank.
type Failed = (u8, Option<Extent>);

/// Decodes the start of a rank's message: the extent of its process group, or its failure.
fn read_outcome(c: &mut Cursor<'_>) -> Result<std::result::Result<Extent, Failed>> {
    let kind = c.u8("outcome")?;
    if kind != 0 && c.left() == 0 {
        return Ok(Err((kind, None)));
    }
    let extent = Extent::new(c.u64("extent")?, c.u64("extent")?);
    Ok(if kind == 0 { Ok(extent) } else { Err((kind, Some(extent))) })
}

/// The first message of a rank to its parent: for the rank itself and the ranks below it.
#[derive(Debug)]
pub(super) struct FirstMessage {
    /// The ranks' fragments.
    pub gathered: Gathered,
    /// The ranks that have not written yet: their outcomes follow in the second message.
    pub follows: Vec<u32>,
    /// The children that will send outcomes.
    awaited: Vec<Range<u32>>,
}

/// Ranks whose outcomes follow, and the children that will send them.
pub(super) struct Follow {
    pub ranks: Vec<u32>,
    pub awaited: Vec<Range<u32>>,
}

impl FirstMessage {
    /// An empty message. `apart`: fragments are to stay unmerged.
    pub fn empty(apart: bool) -> FirstMessage {
        let gathered = if apart { Gathered::Apart(Vec::new()) } else { Gathered::Joined(Box::default()) };
        FirstMessage { gathered, follows: Vec::new(), awaited: Vec::new() }
    }

    /// The ranks that have not written yet, if any, and the fragments.
    pub fn split(self) -> (Option<Follow>, Gathered) {
        let FirstMessage { gathered, follows: ranks, awaited } = self;
        ((!ranks.is_empty()).then_some(Follow { ranks, awaited }), gathered)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u32(self.follows.len() as u32);
        self.follows.iter().for_each(|rank| out.put_u32(*rank));
        out.put(&self.gathered.encode());
        out
    }

    /// Adds the message of a child.
    pub fn join(&mut self, child: Range<u32>, message: ChildMessage<'_>) {
        let ChildMessage { bytes, short } = message;
        let mut c = Cursor::new(bytes, ByteOrder::NATIVE, 0);
        let before = self.follows.len();
        let mut read = || {
            for _ in 0..c.u32("ranks that follow")? {
                self.follows.push(c.u32("ranks that follow")?);
            }
            Ok::<usize, Error>(c.position())
        };
        match (read(), short) {
            (Ok(_), Some(e)) => self.gathered = Gathered::Lost(e.kind()),
            (Ok(at), None) => self.gathered.join(&bytes[at..]),
            (Err(_), _) => {
                self.follows.truncate(before);
                self.gathered = Gathered::Clash;
            }
        }
        if self.follows.len() > before {
            self.awaited.push(child);
        }
    }
}

/// Encodes the second message: the ranks that did not write, each with the code of its error kind.
pub(super) fn encode_failed(failed: &[(u32, u8)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (rank, kind) in failed {
        out.put_u32(*rank);
        out.put_u8(*kind);
    }
    out
}

/// Adds the outcomes that a child sends.
pub(super) fn join_failed(failed: &mut Vec<(u32, u8)>, child: Range<u32>, message: ChildMessage<'_>) {
    let ChildMessage { bytes, short } = message;
    if let Some(e) = short {
        failed.push((child.start, e.kind().code()));
        return;
    }
    let mut c = Cursor::new(bytes, ByteOrder::NATIVE, 0);
    while c.left() > 0 {
        let one = c.u32("outcome").and_then(|rank| Ok((rank, c.u8("outcome")?)));
        let Ok(one) = one else {
            failed.push((child.start, ErrorKind::Corrupt.code()));
            break;
        };
        failed.push(one);
    }
}

/// The fragments of a rank and of the ranks below it.
#[derive(Debug)]
pub(super) enum Gathered {
    /// Merged into one index.
    Joined(Box<Merged>),
    /// Two fragments are inconsistent; the fragments are dropped.
    Clash,
    /// A rank on the path could not receive or join all fragments; the error kind is the cause.
    Lost(ErrorKind),
    /// Unmerged, in the order of ranks.
    Apart(Vec<Vec<u8>>),
}

const JOINED: u8 = 0;
const CLASH: u8 = 1;
const APART: u8 = 2;
const LOST: u8 = 3;

impl Gathered {
    /// Appends the message of one rank; lower ranks are already added.
    pub fn add(&mut self, rank: u32, message: Vec<u8>) {
        match self {
            Gathered::Joined(merged) => {
                if merged.add(rank, &message).is_err() {
                    *self = Gathered::Clash;
                }
            }
            Gathered::Clash | Gathered::Lost(_) => {}
            Gathered::Apart(messages) => messages.push(message),
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Gathered::Joined(merged) => [&[JOINED][..], &merged.encode()].concat(),
            Gathered::Clash => vec![CLASH],
            Gathered::Lost(kind) => vec![LOST, kind.code()],
            Gathered::Apart(messages) => {
                let mut out = vec![APART];
                for message in messages {
                    out.put_u64(message.len() as u64);
                    out.put(message);
                }
                out
            }
        }
    }

    /// Adds the fragments from a child's message.
    fn join(&mut self, bytes: &[u8]) {
        let mut c = Cursor::new(bytes, ByteOrder::NATIVE, 0);
        let joined = match (&mut *self, c.u8("parts")) {
            (Gathered::Joined(merged), Ok(JOINED)) => merged.join(&mut c),
            (Gathered::Apart(messages), Ok(APART)) => split(&mut c, messages),
            (Gathered::Lost(_), _) => Ok(()),
            (_, Ok(LOST)) => {
                *self = Gathered::Lost(c.u8("parts").map_or(ErrorKind::Corrupt, ErrorKind::from_code));
                Ok(())
            }
            _ => Err(Error::new(ErrorKind::Corrupt, "parts of another kind")),
        };
        if joined.is_err() {
            *self = Gathered::Clash;
        }
    }
}

fn split(c: &mut Cursor<'_>, messages: &mut Vec<Vec<u8>>) -> Result<()> {
    while c.left() > 0 {
        let length = c.u64("part")?;
        messages.push(c.take_u64(length, "part")?.to_vec());
    }
    Ok(())
}

/// Merges the ranks' fragments one by one; leaves out a fragment that cannot be decoded, or is inconsistent with the file's index
/// or with the fragments before it.
pub(super) fn merge_fitting(messages: &[Vec<u8>], live: &LiveIndex) -> Result<Merged> {
    let mut merged = Merged::default();
    for (rank, message) in (0..).zip(messages) {
        let mut c = Cursor::new(message, ByteOrder::NATIVE, 0);
        let extent = match read_outcome(&mut c) {
            Ok(Ok(extent)) => extent,
            Ok(Err(failed)) => {
                merged.fail(rank, failed);
                continue;
            }
            Err(e) => {
                merged.fail(rank, (e.kind().code(), None));
                merged.refused.get_or_insert((rank, e));
                continue;
            }
        };
        let mut one = Index::default();
        let fits = one.append_packed(&mut c).and_then(|()| live.check(&one)).and_then(|()| fits(&merged.step, &one));
        if let Err(e) = fits {
            merged.fail(rank, (e.kind().code(), Some(extent)));
            merged.refused.get_or_insert((rank, e));
            continue;
        }
        merged.step.append_fragment(&one.to_fragment())?;
        merged.count(extent);
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thalweg_bp::characteristic::Location;
    use thalweg_bp::extension::Tag;
    use thalweg_bp::process_group::{Block, Header};
    use thalweg_bp::statistics::Level;
    use thalweg_comm::tree;
    use thalweg_types::{AttributeValue, ElementType, Value};

    /// The fragment of a rank that writes variables with these numbers, in this order.
    fn fragment(rank: u32, variables: &[u32]) -> Index {
        let header =
            Header { group: "g".into(), fortran: false, time_name: "t".into(), time_index: 3, methods: Vec::new() };
        let mut index = Index::default();
        index.add_process_group(&header, rank, u64::from(rank) * 1000);
        for number in variables {
            let name = format!("v{number}");
            let block = Block {
                id: *number,
                name: &name,
                path: "/p",
                element: ElementType::F64,
                is_dimension: false,
                shape: None,
                level: Level::Off,
                statistics: None,
                transform: None,
                payload: 8,
            };
            let at = Location { record_offset: 1, payload_offset: 2, file_index: rank, time_index: 3 };
            index.add_block("g", &block, at, Some(&Value::F64(f64::from(rank)))).unwrap();
            let value = AttributeValue::One(Value::I32(rank as i32));
            index.add_attribute("g", 100 + number, "/p", &format!("a{number}"), &value, at).unwrap();
        }
        index.records.list(Tag::WideCount).put_u32(rank);
        index
    }

    fn message(rank: u32, fragment: &Index) -> Vec<u8> {
        let mut message = vec![0];
        message.put_u64(u64::from(rank) * 1000);
        message.put_u64(50);
        message.put(&fragment.to_fragment());
        message
    }

    /// The fragments that `rank` has after it has gathered those of its children, as `gather` joins them.
    fn up(rank: u32, messages: &[Vec<u8>], fan_in: u32, apart: bool) -> Gathered {
        let mut gathered = if apart { Gathered::Apart(Vec::new()) } else { Gathered::Joined(Box::default()) };
        gathered.add(rank, messages[rank as usize].clone());
        for child in tree::node(rank, messages.len() as u32, fan_in).children {
            gathered.join(&up(child.start, messages, fan_in, apart).encode());
        }
        gathered
    }

    proptest! {
        #[test]
        fn a_tree_joins_to_the_same_bytes_as_one_rank_would(
            ranks in prop::collection::vec((any::<bool>(), prop::collection::vec(0u32..6, 0..6)), 1..60),
            fan_in in 1u32..9,
        ) {
            let messages: Vec<Vec<u8>> = (0..).zip(&ranks).map(|(rank, (fails, variables))| match fails {
                true => vec![ErrorKind::NoSpace.code()],
                false => message(rank, &fragment(rank, variables)),
            }).collect();
            let mut flat = Merged::default();
            for (rank, message) in (0..).zip(&messages) {
                flat.add(rank, message).unwrap();
            }
            let Gathered::Joined(joined) = up(0, &messages, fan_in, false) else { panic!("they fit") };
            prop_assert_eq!(joined.encode(), flat.encode());
            let (a, b) = (joined.step.encode(77, true, false).unwrap(), flat.step.encode(77, true, false).unwrap());
            prop_assert_eq!(a.to_bytes(), b.to_bytes());
            let Gathered::Apart(each) = up(0, &messages, fan_in, true) else { panic!("asked for") };
            prop_assert_eq!(each, messages);
        }
    }

    #[test]
    fn fragments_that_do_not_fit_are_told_apart_by_rank_0() {
        let mut messages: Vec<Vec<u8>> = (0..9).map(|rank| message(rank, &fragment(rank, &[1]))).collect();
        let mut other = Index::default();
        let header =
            Header { group: "h".into(), fortran: false, time_name: "t".into(), time_index: 3, methods: Vec::new() };
        other.add_process_group(&header, 5, 0);
        let at = Location { record_offset: 1, payload_offset: 2, file_index: 5, time_index: 3 };
        other.add_attribute("h", 1, "/p", "a1", &AttributeValue::One(Value::I32(1)), at).unwrap();
        messages[5] = message(5, &other);
        assert!(matches!(up(0, &messages, 2, false), Gathered::Clash));
        let Gathered::Apart(each) = up(0, &messages, 2, true) else { panic!() };
        let merged = merge_fitting(&each, &LiveIndex::new(true)).unwrap();
        assert_eq!((merged.whole, merged.failed.len()), (8, 1));
        assert_eq!(merged.refused.map(|(rank, e)| (rank, e.kind())), Some((5, ErrorKind::InvalidArgument)));
    }

    #[test]
    fn damaged_messages_are_no_parts() {
        let whole = {
            let mut gathered = Gathered::Joined(Box::default());
            gathered.add(0, message(0, &fragment(0, &[1, 2])));
            gathered.encode()
        };
        for end in 0..whole.len() {
            let mut gathered = Gathered::Joined(Box::default());
            gathered.join(&whole[..end]);
            assert!(matches!(gathered, Gathered::Clash), "{end} bytes of {}", whole.len());
        }
    }
}
