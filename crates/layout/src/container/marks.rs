//! Marks: empty objects whose *names* contain the sessions of a container, the locations of their logs, the published
//! lengths, clocks and the file's end. One list of one folder gives the size of a closed file.
//!
//! ```text
//! o-SESSION-WRITER-STORE-FOLDER-CRC                                            a session that began
//! p-SESSION-WRITER-STORE-FOLDER-VERSION-SEGMENTS-DATA-INDEX-FIRST-LAST-END-CUTCLOCK-CUTLENGTH-BYTES-TIME[-BASE]-CRC   published so far
//! c-... the same fields                                                         closed
//! ```
//!
//! All fields are hexadecimal; CRC is the CRC-32C of the name before it, its `-` included. Of several marks of one session
//! `c` wins over `p`, the higher version over the lower.

use super::clock::Summary;
use std::collections::BTreeMap;
use std::fmt::Write;
use thalweg_types::checksum::crc32c;
use thalweg_types::{Error, ErrorKind, Result};

/// A session, and the place of its logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Home {
    /// Unique in the container.
    pub session: u64,
    /// Number of the writer.
    pub writer: u32,
    /// Number of the store, in the stamp.
    pub store: u8,
    /// Number of the folder of logs on it.
    pub folder: u8,
}

/// The published part of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Published {
    /// Counts the publishes.
    pub version: u64,
    /// The session is closed.
    pub closed: bool,
    /// Segments, all but the last of them closed.
    pub segments: u32,
    /// Bytes of the last data log.
    pub data: u64,
    /// Bytes of the last index log.
    pub index: u64,
    /// Summary of its writes, which gives the file's length without an index.
    pub summary: Summary,
    /// Time of the last write by the writer's wall clock, nanoseconds since 1970. Shown to users, not used for order.
    pub time: u64,
}

/// A session, as its marks describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Session and place of its logs.
    pub home: Home,
    /// Name of its open mark, if there is one.
    pub open: Option<String>,
    /// The published part; `None`: nothing is published.
    pub published: Option<Published>,
    /// Names of published marks that a later one overrides: a renaming that failed or was killed left both. They are removed before
    /// the valid one, or they would become valid again.
    pub overridden: Vec<String>,
}

impl Mark {
    /// Names of all its marks, in the order in which they are removed: at each moment the rest is valid.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let published = self.published.map(|p| published_name(self.home, &p));
        self.overridden.iter().cloned().chain(self.open.clone()).chain(published)
    }

    /// Whether its writer closed it.
    pub fn closed(&self) -> bool {
        self.published.is_some_and(|p| p.closed)
    }
}

/// Name of a session's open mark.
pub fn open_name(home: Home) -> String {
    with_crc(format!("o-{}", home_fields(home)))
}

/// Name of a session's published or closed mark.
pub fn published_name(home: Home, p: &Published) -> String {
    let s = &p.summary;
    let letter = if p.closed { 'c' } else { 'p' };
    let mut name = format!("{letter}-{}", home_fields(home));
    let fields = [
        p.version,
        p.segments.into(),
        p.data,
        p.index,
        s.first,
        s.last,
        s.end,
        s.cut_clock,
        s.cut_length,
        s.bytes,
        p.time,
    ];
    for field in fields.into_iter().chain(s.base) {
        let _ = write!(name, "-{field:x}");
    }
    with_crc(name)
}

/// Name of the commit mark of a compaction that is about to be published.
pub fn commit_name(session: u64) -> String {
    with_crc(format!("k-{session:016x}"))
}

fn home_fields(home: Home) -> String {
    format!("{:016x}-{:x}-{:x}-{:x}", home.session, home.writer, home.store, home.folder)
}

fn with_crc(mut name: String) -> String {
    name.push('-');
    let crc = crc32c(name.as_bytes());
    let _ = write!(name, "{crc:08x}");
    name
}

/// The decoded name of a mark, or of another object beside marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkName {
    /// A session began.
    Open(Home),
    /// The published part of a session.
    Published(Home, Published),
    /// The name of another object.
    Other,
}

/// Decodes the name of a mark.
///
/// # Errors
/// `Corrupt` for a name that begins like a mark and does not match its checksum or fields.
pub fn parse(name: &str) -> Result<MarkName> {
    let kind = match name.as_bytes() {
        [kind @ (b'o' | b'p' | b'c'), b'-', ..] => *kind,
        _ => return Ok(MarkName::Other),
    };
    decoded(kind, name).ok_or_else(|| Error::new(ErrorKind::Corrupt, "the name of a mark is damaged").in_object(name))
}

fn decoded(kind: u8, name: &str) -> Option<MarkName> {
    let at = name.rfind('-')? + 1;
    if u32::from_str_radix(&name[at..], 16).ok()? != crc32c(&name.as_bytes()[..at]) {
        return None;
    }
    let mut fields = name.get(2..at - 1)?.split('-').map(|field| u64::from_str_radix(field, 16).ok());
    let mut next = || fields.next().flatten();
    let home = Home {
        session: next()?,
        writer: u32::try_from(next()?).ok()?,
        store: u8::try_from(next()?).ok()?,
        folder: u8::try_from(next()?).ok()?,
    };
    if kind == b'o' {
        return fields.next().is_none().then_some(MarkName::Open(home));
    }
    let mut published = Published {
        version: next()?,
        closed: kind == b'c',
        segments: u32::try_from(next()?).ok()?,
        data: next()?,
        index: next()?,
        summary: Summary {
            first: next()?,
            last: next()?,
            end: next()?,
            cut_clock: next()?,
            cut_length: next()?,
            bytes: next()?,
            base: None,
        },
        time: next()?,
    };
    // Present where the session appended.
    if let Some(base) = fields.next() {
        published.summary.base = Some(base?);
    }
    fields.next().is_none().then_some(MarkName::Published(home, published))
}

/// All sessions in a list of names, sorted by session.
///
/// # Errors
/// `Corrupt`, naming the first damaged mark.
pub fn read(names: &[String]) -> Result<Vec<Mark>> {
    let mut marks: BTreeMap<u64, Mark> = BTreeMap::new();
    for name in names {
        let (home, published) = match parse(name)? {
            MarkName::Open(home) => (home, None),
            MarkName::Published(home, published) => (home, Some(published)),
            MarkName::Other => continue,
        };
        let mark =
            marks.entry(home.session).or_insert(Mark { home, open: None, published: None, overridden: Vec::new() });
        match published {
            None => mark.open = Some(name.clone()),
            Some(p) if mark.published.is_none_or(|old| (old.closed, old.version) < (p.closed, p.version)) => {
                mark.overridden.extend(mark.published.replace(p).map(|old| published_name(home, &old)));
            }
            Some(_) => mark.overridden.push(name.clone()),
        }
    }
    Ok(marks.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Home, Published) {
        let home = Home { session: 7, writer: u32::MAX, store: 2, folder: 15 };
        let summary =
            Summary { first: 3, last: 4, end: u64::MAX >> 1, cut_clock: 2, cut_length: 9, bytes: 1 << 40, base: None };
        let p =
            Published { version: u64::MAX, closed: true, segments: 1, data: 5, index: 6, summary, time: u64::MAX >> 1 };
        (home, p)
    }

    #[test]
    fn what_a_name_says_comes_back_and_fits_a_name() {
        let (home, p) = sample();
        assert_eq!(parse(&open_name(home)).unwrap(), MarkName::Open(home));
        assert_eq!(parse(&published_name(home, &p)).unwrap(), MarkName::Published(home, p));
        let appended = Published { summary: Summary { base: Some(u64::MAX), ..p.summary }, ..p };
        assert_eq!(parse(&published_name(home, &appended)).unwrap(), MarkName::Published(home, appended));
        assert!(published_name(home, &appended).len() < 230, "{}", published_name(home, &appended).len());
    }

    #[test]
    fn a_changed_name_is_noticed() {
        let (home, p) = sample();
        for name in [open_name(home), published_name(home, &p)] {
            for at in 2..name.len() {
                let mut bytes = name.clone().into_bytes();
                bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
                let changed = String::from_utf8(bytes).unwrap();
                assert!(parse(&changed).is_err(), "{changed}");
            }
            assert!(parse(&name[..name.len() - 9]).is_err());
        }
        assert_eq!(parse("x-something").unwrap(), MarkName::Other);
    }

    #[test]
    fn a_name_of_a_kind_and_a_checksum_alone_is_damaged() {
        assert!(parse(&format!("o-{:x}", crc32c(b"o-"))).is_err());
    }

    #[test]
    fn closed_wins_over_published_and_late_over_early() {
        let (home, closed) = sample();
        let early = Published { version: 1, closed: false, ..closed };
        let late = Published { version: 2, closed: false, ..closed };
        let names = [&early, &late].map(|p| published_name(home, p));
        for names in [names.clone(), [names[1].clone(), names[0].clone()]] {
            let marks = read(&names).unwrap();
            assert_eq!((marks[0].published, &marks[0].overridden), (Some(late), &vec![published_name(home, &early)]));
            assert_eq!(marks[0].names().last(), Some(published_name(home, &late)), "the valid one last");
        }
        let names = [published_name(home, &closed), open_name(home), published_name(home, &late)];
        let marks = read(&names).unwrap();
        assert_eq!((marks.len(), marks[0].published, marks[0].closed()), (1, Some(closed), true));
        assert_eq!(marks[0].open, Some(open_name(home)));
    }
}
