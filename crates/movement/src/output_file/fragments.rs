//! What ranks say of their process groups on the way up the tree, as bytes: where each lies and the index of it, joined with
//! those of the ranks below; who is still to write; and afterwards what became of these.
//!
//! | question | answer |
//! |---|---|
//! | what is joined | the entries of a run of ranks, in their order: to the same bytes as if one rank had joined all |
//! | what if a rank has no memory for what a child says | the rank says that alone ([`Gathered::Lost`]): the step is not indexed, as nobody knows all parts. Who is still to write stands in the first bytes of a message, which always arrive |
//! | what if two do not fit each other | nothing more is said but that ([`Gathered::Clash`]); asked once more, each rank speaks for itself ([`Gathered::Apart`]), and those that fit are taken |
//! | what is trusted | nothing: what does not decode is a clash, or an outcome that arrived damaged |

use crate::output_file::live_index::{LiveIndex, fits};
use std::ops::Range;
use thalweg_bp::index::Index;
use thalweg_bp::wire::{Cursor, Put};
use thalweg_comm::tree_gather::Heard;
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

/// The parts of a run of ranks as one.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// Their entries.
    pub step: Index,
    /// How many wrote.
    pub whole: u64,
    /// Bytes of their process groups.
    pub bytes: u64,
    /// First byte behind all extents, those of ranks that failed included.
    pub end: u64,
    /// Ranks without a part, and the number of their error's kind.
    pub failed: Vec<(u32, u8)>,
    /// The first rank whose part does not fit, and why.
    pub refused: Option<(u32, Error)>,
}

impl Merged {
    /// A rank that wrote: its extent; its fragment is joined already.
    fn count(&mut self, extent: Extent) {
        self.whole += 1;
        self.bytes += extent.length;
        self.end = self.end.max(extent.end().unwrap_or(0));
    }

    /// A rank without a part, and where its bytes may lie.
    fn fail(&mut self, rank: u32, (kind, place): Failed) {
        self.failed.push((rank, kind));
        self.end = self.end.max(place.and_then(|place| place.end()).unwrap_or(0));
    }

    /// Adds what one rank says, behind those before it.
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

    /// Adds what another run of ranks says, behind those before it.
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

/// What a rank says that wrote, or will.
pub(super) fn whole_message(extent: Extent, fragment: &Index) -> Vec<u8> {
    let mut message = vec![0];
    message.put_u64(extent.offset);
    message.put_u64(extent.length);
    message.put(&fragment.to_fragment());
    message
}

/// What a rank says that failed: the kind of its error, and where its bytes may lie.
pub(super) fn failed_message(kind: ErrorKind, place: Option<Extent>) -> Vec<u8> {
    let mut message = vec![kind.code()];
    if let Some(place) = place {
        message.put_u64(place.offset);
        message.put_u64(place.length);
    }
    message
}

/// The number of an error's kind, and where bytes of the rank may lie.
type Failed = (u8, Option<Extent>);

/// What a rank says first: where its process group lies, or how it failed.
fn read_outcome(c: &mut Cursor<'_>) -> Result<std::result::Result<Extent, Failed>> {
    let kind = c.u8("outcome")?;
    if kind != 0 && c.left() == 0 {
        return Ok(Err((kind, None)));
    }
    let extent = Extent::new(c.u64("extent")?, c.u64("extent")?);
    Ok(if kind == 0 { Ok(extent) } else { Err((kind, Some(extent))) })
}

/// What a rank and those it brings along say, on the way up.
#[derive(Debug)]
pub(super) struct Said {
    /// Their parts.
    pub gathered: Gathered,
    /// Those of them that are still to write: what becomes of theirs follows.
    pub follows: Vec<u32>,
    /// The children that bring such.
    awaited: Vec<Range<u32>>,
}

/// Ranks whose outcomes follow, and the children that bring them.
pub(super) struct Follow {
    pub ranks: Vec<u32>,
    pub awaited: Vec<Range<u32>>,
}

impl Said {
    /// - `apart`: each rank is to speak for itself.
    pub fn nothing(apart: bool) -> Said {
        let gathered = if apart { Gathered::Apart(Vec::new()) } else { Gathered::Joined(Box::default()) };
        Said { gathered, follows: Vec::new(), awaited: Vec::new() }
    }

    /// Who is still to write, and the parts.
    pub fn split(self) -> (Option<Follow>, Gathered) {
        let Said { gathered, follows: ranks, awaited } = self;
        ((!ranks.is_empty()).then_some(Follow { ranks, awaited }), gathered)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u32(self.follows.len() as u32);
        self.follows.iter().for_each(|rank| out.put_u32(*rank));
        out.put(&self.gathered.encode());
        out
    }

    /// Adds what a child says.
    pub fn join(&mut self, child: Range<u32>, heard: Heard<'_>) {
        let Heard { bytes, short } = heard;
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

/// Ranks that did not write, and the numbers of their errors' kinds, one behind the other.
pub(super) fn encode_failed(failed: &[(u32, u8)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (rank, kind) in failed {
        out.put_u32(*rank);
        out.put_u8(*kind);
    }
    out
}

/// Adds what became of the ranks that a child brings along.
pub(super) fn join_failed(failed: &mut Vec<(u32, u8)>, child: Range<u32>, heard: Heard<'_>) {
    let Heard { bytes, short } = heard;
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

/// The parts of a rank and of those it brings along.
#[derive(Debug)]
pub(super) enum Gathered {
    /// As one index.
    Joined(Box<Merged>),
    /// Two do not fit each other: nothing more is said but this.
    Clash,
    /// A rank on the way could not take all that was said, for this reason.
    Lost(ErrorKind),
    /// Each by itself, in the order of ranks.
    Apart(Vec<Vec<u8>>),
}

const JOINED: u8 = 0;
const CLASH: u8 = 1;
const APART: u8 = 2;
const LOST: u8 = 3;

impl Gathered {
    /// Adds what a rank says of itself, behind those before it.
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

    /// Adds what a child says.
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

/// Joins the ranks' fragments one by one, leaving out what does not fit an index or those before.
pub(super) fn merge_fitting(messages: &[Vec<u8>], live: &LiveIndex) -> Result<Merged> {
    let mut merged = Merged::default();
    for (rank, message) in (0..).zip(messages) {
        let mut c = Cursor::new(message, ByteOrder::NATIVE, 0);
        let extent = match read_outcome(&mut c)? {
            Ok(extent) => extent,
            Err(failed) => {
                merged.fail(rank, failed);
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

    /// The fragment of a rank that writes variables of these numbers, in this order.
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

    /// What rank 0 has in the end, as `gather` makes it up the tree.
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
