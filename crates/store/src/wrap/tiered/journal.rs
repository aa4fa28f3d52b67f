//! The drain's journal: copies in the canonical store that are begun and not finished, and totals of moved objects. The
//! format is described in `docs/format/tiered.md`.
//!
//! The journal names the incomplete copies that the next drain removes after a crash. Objects are safe without it.

use thalweg_types::checksum::crc32c;
use thalweg_types::{Error, ErrorKind, Result};

/// The first bytes of a journal.
pub const MAGIC: &[u8; 8] = b"THWGDRN\0";
/// The version of the format.
pub const VERSION: u32 = 1;
/// Bytes before the first record.
pub const HEADER: usize = 16;
/// Most bytes of a record's body: a name and a few numbers.
pub const LARGEST: usize = 64 << 10;

const BEGIN: u8 = 1;
const DONE: u8 = 2;
const GIVEN_UP: u8 = 3;
const TOTALS: u8 = 4;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A copy is begun.
    Begin {
        /// Number of the move, unique in the journal.
        id: u64,
        /// Bytes of the object.
        length: u64,
        /// The object.
        name: String,
        /// Name of the copy in the canonical store until it is complete; empty where objects appear whole.
        temporary: String,
    },
    /// The canonical store has the object, and the shadow store has removed it.
    Done {
        /// Of the move.
        id: u64,
        /// CRC-32C of the object's bytes.
        checksum: u32,
    },
    /// The copy was out of date, or failed, and is removed.
    GivenUp {
        /// Of the move.
        id: u64,
    },
    /// Totals of moved objects at the start of this journal.
    Totals {
        /// Objects.
        objects: u64,
        /// Bytes.
        bytes: u64,
        /// The id that comes next.
        next: u64,
    },
}

/// A header of a new journal.
pub fn header() -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let checksum = crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

impl Record {
    /// The record's bytes.
    ///
    /// # Errors
    /// `OutOfBounds` if the names are longer than [`LARGEST`] bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        match self {
            Record::Begin { id, length, name, temporary } => {
                body.push(BEGIN);
                body.extend_from_slice(&id.to_le_bytes());
                body.extend_from_slice(&length.to_le_bytes());
                for text in [name, temporary] {
                    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                    body.extend_from_slice(&length.to_le_bytes());
                    body.extend_from_slice(text.as_bytes());
                }
            }
            Record::Done { id, checksum } => {
                body.push(DONE);
                body.extend_from_slice(&id.to_le_bytes());
                body.extend_from_slice(&checksum.to_le_bytes());
            }
            Record::GivenUp { id } => {
                body.push(GIVEN_UP);
                body.extend_from_slice(&id.to_le_bytes());
            }
            Record::Totals { objects, bytes, next } => {
                body.push(TOTALS);
                [objects, bytes, next].iter().for_each(|number| body.extend_from_slice(&number.to_le_bytes()));
            }
        }
        if body.len() > LARGEST {
            let what = format!("a journal record holds at most {LARGEST} bytes, not {}", body.len());
            return Err(Error::new(ErrorKind::OutOfBounds, what));
        }
        let mut record = Vec::with_capacity(8 + body.len());
        record.extend_from_slice(&(body.len() as u32).to_le_bytes());
        record.extend_from_slice(&crc32c(&body).to_le_bytes());
        record.extend_from_slice(&body);
        Ok(record)
    }

    fn decode(body: &[u8]) -> Option<Record> {
        let mut rest = Rest(body);
        let record = match rest.take::<1>()? {
            [BEGIN] => Record::Begin {
                id: rest.number()?,
                length: rest.number()?,
                name: rest.text()?,
                temporary: rest.text()?,
            },
            [DONE] => Record::Done { id: rest.number()?, checksum: u32::from_le_bytes(rest.take()?) },
            [GIVEN_UP] => Record::GivenUp { id: rest.number()? },
            [TOTALS] => Record::Totals { objects: rest.number()?, bytes: rest.number()?, next: rest.number()? },
            _ => return None,
        };
        rest.0.is_empty().then_some(record)
    }
}

/// The rest of a body.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take()?))
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(u32::from_le_bytes(self.take()?)).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

/// The valid part of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Journal {
    /// Records in order.
    pub records: Vec<Record>,
    /// Bytes of the header and of complete records; later bytes are torn or not records.
    pub whole: u64,
}

/// Reads a journal up to its first incomplete record. An empty object is an empty journal.
///
/// # Errors
/// `Corrupt` for a header that is none, `Unsupported` for a later version.
pub fn read(bytes: &[u8]) -> Result<Journal> {
    // A crash right after the journal was made leaves nothing, or part of a header.
    if bytes.len() < HEADER && header().starts_with(bytes) {
        return Ok(Journal::default());
    }
    let Some(first) = bytes.first_chunk::<HEADER>() else {
        return Err(Error::new(ErrorKind::Corrupt, "the drain's journal begins with no header").at_byte(0));
    };
    let version = u32::from_le_bytes([first[8], first[9], first[10], first[11]]);
    if first[..8] != *MAGIC || first[12..] != crc32c(&first[..12]).to_le_bytes() {
        return Err(Error::new(ErrorKind::Corrupt, "the drain's journal begins with no header").at_byte(0));
    }
    if version != VERSION {
        let what = format!("the drain's journal is of version {version}; this program knows {VERSION}");
        return Err(Error::new(ErrorKind::Unsupported, what).at_byte(8));
    }
    let mut journal = Journal { records: Vec::new(), whole: HEADER as u64 };
    let mut rest = &bytes[HEADER..];
    while let Some((head, behind)) = rest.split_first_chunk::<8>() {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some((body, behind)) = behind.split_at_checked(length).filter(|_| length <= LARGEST) else { break };
        if crc32c(body).to_le_bytes() != head[4..] {
            break;
        }
        let Some(record) = Record::decode(body) else { break };
        journal.records.push(record);
        journal.whole += 8 + length as u64;
        rest = behind;
    }
    Ok(journal)
}

impl Journal {
    /// Moves that were begun and not finished: id, name, temporary name.
    pub fn unfinished(&self) -> Vec<(u64, String, String)> {
        let mut open: Vec<(u64, String, String)> = Vec::new();
        for record in &self.records {
            match record {
                Record::Begin { id, name, temporary, .. } => open.push((*id, name.clone(), temporary.clone())),
                Record::Done { id, .. } | Record::GivenUp { id } => open.retain(|(begun, ..)| begun != id),
                Record::Totals { .. } => {}
            }
        }
        open
    }

    /// Objects and bytes moved so far, and the id that comes next.
    pub fn totals(&self) -> (u64, u64, u64) {
        let (mut objects, mut bytes, mut next) = (0u64, 0u64, 0u64);
        let mut begun: Vec<(u64, u64)> = Vec::new();
        for record in &self.records {
            match record {
                Record::Begin { id, length, .. } => {
                    begun.push((*id, *length));
                    next = next.max(id.saturating_add(1));
                }
                Record::Done { id, .. } => {
                    if let Some(at) = begun.iter().position(|(of, _)| of == id) {
                        objects = objects.saturating_add(1);
                        bytes = bytes.saturating_add(begun.swap_remove(at).1);
                    }
                }
                Record::GivenUp { id } => begun.retain(|(of, _)| of != id),
                Record::Totals { objects: o, bytes: b, next: n } => (objects, bytes, next) = (*o, *b, next.max(*n)),
            }
        }
        (objects, bytes, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> impl Strategy<Value = Record> {
        prop_oneof![
            (any::<u64>(), any::<u64>(), ".{0,40}", "[a-z/]{0,20}")
                .prop_map(|(id, length, name, temporary)| Record::Begin { id, length, name, temporary }),
            (any::<u64>(), any::<u32>()).prop_map(|(id, checksum)| Record::Done { id, checksum }),
            any::<u64>().prop_map(|id| Record::GivenUp { id }),
            any::<[u64; 3]>().prop_map(|[objects, bytes, next]| Record::Totals { objects, bytes, next }),
        ]
    }

    fn bytes_of(records: &[Record]) -> Vec<u8> {
        records.iter().fold(header().to_vec(), |mut bytes, record| {
            bytes.extend(record.encode().unwrap());
            bytes
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(records in proptest::collection::vec(record(), 0..10)) {
            let bytes = bytes_of(&records);
            prop_assert_eq!(read(&bytes).unwrap(), Journal { records, whole: bytes.len() as u64 });
        }

        #[test]
        fn a_torn_or_changed_journal_keeps_what_lies_before(
            records in proptest::collection::vec(record(), 1..6), cut: prop::sample::Index, bit in 0..8u8, flip: bool,
        ) {
            let mut bytes = bytes_of(&records);
            let at = HEADER + cut.index(bytes.len() - HEADER);
            if flip { bytes[at] ^= 1 << bit } else { bytes.truncate(at) }
            let journal = read(&bytes).unwrap();
            prop_assert!(records.starts_with(&journal.records));
            prop_assert!(journal.records.len() < records.len() || at as u64 == journal.whole);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let mut behind = header().to_vec();
            behind.extend(&bytes);
            prop_assert!(read(&behind).unwrap().whole >= HEADER as u64);
        }
    }

    #[test]
    fn what_was_begun_and_not_finished_is_told() {
        let begin = |id, name: &str| Record::Begin { id, length: 10, name: name.into(), temporary: format!("t{id}") };
        let records = [
            Record::Totals { objects: 3, bytes: 30, next: 5 },
            begin(5, "a"),
            begin(6, "b"),
            Record::Done { id: 5, checksum: 0 },
            begin(7, "c"),
            Record::GivenUp { id: 7 },
        ];
        let journal = read(&bytes_of(&records)).unwrap();
        assert_eq!(journal.unfinished(), [(6, "b".to_string(), "t6".to_string())]);
        assert_eq!(journal.totals(), (4, 40, 8));
    }

    #[test]
    fn a_header_of_another_kind_or_version_is_refused() {
        assert_eq!(read(b"").unwrap(), Journal::default());
        assert_eq!(read(&header()[..9]).unwrap(), Journal::default());
        assert_eq!(read(b"no journal at all").unwrap_err().kind(), ErrorKind::Corrupt);
        let mut later = header();
        later[8] = 2;
        let checksum = crc32c(&later[..12]);
        later[12..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(read(&later).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
