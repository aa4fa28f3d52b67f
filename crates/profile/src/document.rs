//! The JSON document beside an output: written by rank 0, checked by readers.
//!
//! The format is `docs/format/profile.md`. Times are integer nanoseconds.

use crate::Phase;
use crate::calls::CallTotal;
use crate::recorder::{Record, Span, Total, Whom};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use thalweg_types::{Error, ErrorKind, Result};

/// Value of `format`.
pub const FORMAT: &str = "thalweg-profile";
/// The version that is written. Readers also read version 1, which had neither calls nor the phase `read`.
pub const VERSION: u32 = 2;
/// Phases that version 1 had.
const PHASES_OF_VERSION_1: usize = 12;
/// Longest valid time, in ns: 146 years; sums of two fit in 64 bits.
const LONGEST: u64 = 1 << 62;

/// One output's profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Name of the file that was written.
    pub output: String,
    /// The group.
    pub group: String,
    /// The methods, by their first names, in order.
    pub methods: Vec<String>,
    /// From 0.
    pub step: u64,
    /// Run id, in hexadecimal.
    pub run: String,
    /// Ranks that opened the output.
    pub ranks: u32,
    /// When the first rank began to open, in µs since 1970 by rank 0's clock: time 0 of all others.
    pub began_unix_us: u64,
    /// Largest error of the alignment of ranks' clocks.
    pub clock_error_ns: u64,
    /// Bytes of the process groups that all ranks wrote.
    pub bytes: u64,
    /// Why the output failed, if it did.
    #[serde(default)]
    pub error: Option<String>,
    /// Names of the phases, by their numbers below.
    pub phases: Vec<String>,
    /// By rank, without lost ranks.
    pub by_rank: Vec<RankPart>,
}

/// The record of one rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankPart {
    /// The rank.
    pub rank: u32,
    /// When its open began and ended.
    pub open: [i64; 2],
    /// When its close began and ended.
    pub close: [i64; 2],
    /// Bytes of its process group.
    pub group_bytes: u64,
    /// Most bytes that the process has held for output so far, including memory to carry process groups.
    #[serde(default)]
    pub buffer_bytes: u64,
    /// Why it failed, if it did.
    #[serde(default)]
    pub error: Option<String>,
    /// By phase: its own time, calls, bytes.
    pub totals: Vec<[u64; 3]>,
    /// Phase, begin, length, bytes, the rank waited for or sent to (or -1), number of the meeting (or -1).
    pub spans: Vec<[i64; 6]>,
    /// Spans shorter than this may be missing or joined.
    pub resolution_ns: u64,
    /// Calls that a door served, by kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallTotal>,
    /// Collective ones: position of the kind in `calls`, begin, length, time waited, bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collective: Vec<[i64; 5]>,
    /// `collective` has every so many-th collective call, from the first one on; 0 as 1.
    #[serde(default, skip_serializing_if = "is_none")]
    pub collective_every: u64,
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

fn corrupt(what: String) -> Error {
    Error::new(ErrorKind::Corrupt, what)
}

fn whole(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl RankPart {
    /// Encodes a record, with all times shifted by `shift` ns.
    pub(super) fn of(rank: u32, open: [i64; 2], close: [i64; 2], record: &Record) -> RankPart {
        let whom = |w: Whom| match w {
            Whom::Nobody => [-1, -1],
            Whom::Rank(rank) => [i64::from(rank), -1],
            Whom::Meeting(n) => [-1, i64::from(n)],
        };
        let span = |s: &Span| {
            let [rank, meeting] = whom(s.whom);
            [s.phase.place() as i64, s.begin, whole(s.length), whole(s.bytes), rank, meeting]
        };
        RankPart {
            rank,
            open,
            close,
            group_bytes: 0,
            buffer_bytes: 0,
            error: None,
            totals: record.totals.iter().map(|t| [t.own, t.calls, t.bytes]).collect(),
            spans: record.spans.iter().map(span).collect(),
            resolution_ns: record.resolution,
            calls: Vec::new(),
            collective: Vec::new(),
            collective_every: 0,
        }
    }

    /// Shifts all times.
    pub(super) fn shift(&mut self, by: i64) {
        let times = self.open.iter_mut().chain(&mut self.close).chain(self.spans.iter_mut().map(|s| &mut s[1]));
        let times = times.chain(self.collective.iter_mut().map(|call| &mut call[1]));
        times.for_each(|t| *t = t.saturating_add(by));
    }

    /// Totals of a phase.
    pub fn total(&self, phase: Phase) -> Total {
        let [own, calls, bytes] = self.totals.get(phase.place()).copied().unwrap_or_default();
        Total { own, calls, bytes }
    }

    /// Its spans, in the order in which they began.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.spans.iter().map(|s| Span {
            phase: Phase::ALL[s[0] as usize],
            begin: s[1],
            length: s[2] as u64,
            bytes: s[3] as u64,
            whom: match (s[4], s[5]) {
                (rank @ 0.., _) => Whom::Rank(rank as u32),
                (_, meeting @ 0..) => Whom::Meeting(meeting as u32),
                _ => Whom::Nobody,
            },
        })
    }

    /// Checks the conditions that the other methods rely on.
    ///
    /// - `phases`: how many the document knows.
    pub(super) fn check(&self, ranks: u32, phases: usize) -> Result<()> {
        let at = |what: String| Err(corrupt(format!("rank {}: {what}", self.rank)));
        if self.rank >= ranks {
            return at(format!("there are {ranks} ranks"));
        }
        let believed = |t: i64| t.unsigned_abs() < LONGEST;
        let [opens, opened] = self.open;
        let [closes, closed] = self.close;
        if ![opens, opened, closes, closed].into_iter().all(believed)
            || opens > opened
            || opened > closes
            || closes > closed
        {
            return at(format!("open {:?} and close {:?} are not one after the other", self.open, self.close));
        }
        if self.totals.len() != phases {
            return at(format!("{} totals for {phases} phases", self.totals.len()));
        }
        if self.totals.iter().any(|t| t[0] >= LONGEST) {
            return at("a phase takes longer than any can".into());
        }
        for (i, s) in self.spans.iter().enumerate() {
            let [phase, begin, length, bytes, rank, meeting] = *s;
            let bad = |what: String| at(format!("span {i}: {what}"));
            let Some(phase) = usize::try_from(phase).ok().filter(|p| *p < phases).and_then(|p| Phase::ALL.get(p))
            else {
                return bad(format!("there is no phase {phase}"));
            };
            if length < 0 || bytes < 0 || !believed(begin) || !believed(length) {
                return bad(format!("begin {begin}, length {length}, bytes {bytes}"));
            }
            if !phase.is_outside() && (begin < opens || begin + length > closed) {
                return bad(format!("{} is not between open and close", phase.name()));
            }
            if !(-1..i64::from(ranks)).contains(&rank) || !(-1..=i64::from(u32::MAX)).contains(&meeting) {
                return bad(format!("rank {rank}, meeting {meeting}"));
            }
        }
        if let Some(total) = self.calls.iter().find(|total| total.time_ns >= LONGEST) {
            return at(format!("calls of {} take longer than any can", total.name));
        }
        for (i, call) in self.collective.iter().enumerate() {
            let [kind, begin, length, waited, bytes] = *call;
            if usize::try_from(kind).ok().and_then(|kind| self.calls.get(kind)).is_none() {
                return at(format!("collective call {i}: there is no kind {kind}"));
            }
            if !believed(begin) || !believed(length) || length < 0 || bytes < 0 || !(0..=length).contains(&waited) {
                let what = format!("begin {begin}, length {length}, waited {waited}, bytes {bytes}");
                return at(format!("collective call {i}: {what}"));
            }
        }
        if let Some(i) = self.spans.windows(2).position(|two| two[1][1] < two[0][1]) {
            return at(format!("span {} begins before the one in front of it", i + 1));
        }
        Ok(())
    }
}

impl Document {
    /// Decodes and checks a document.
    ///
    /// # Errors
    /// `Corrupt`, with line and column, or rank and span; `Unsupported` for another version.
    pub fn from_json(text: &[u8]) -> Result<Document> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u64,
        }
        let json = |e: serde_json::Error| corrupt(format!("not the JSON of a profile: {e}"));
        let head: Head = serde_json::from_slice(text).map_err(json)?;
        if head.format != FORMAT {
            return Err(corrupt(format!("not a profile: its format is \"{}\", not \"{FORMAT}\"", head.format)));
        }
        if !(1..=u64::from(VERSION)).contains(&head.version) {
            let what = format!("a profile of version {}; versions 1 to {VERSION} are understood", head.version);
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let document: Document = serde_json::from_slice(text).map_err(json)?;
        document.check()?;
        Ok(document)
    }

    /// Encodes the document.
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// Checks the document's consistency.
    ///
    /// # Errors
    /// As [`Document::from_json`].
    pub fn check(&self) -> Result<()> {
        // Phases that were added later have the highest numbers.
        let known = Phase::ALL.into_iter().map(Phase::name).take(self.phases.len().max(PHASES_OF_VERSION_1));
        if !self.phases.iter().map(String::as_str).eq(known) {
            return Err(corrupt(format!("unknown phases: {}", self.phases.join(", "))));
        }
        let mut seen = HashSet::new();
        for part in &self.by_rank {
            part.check(self.ranks, self.phases.len())?;
            if !seen.insert(part.rank) {
                return Err(corrupt(format!("rank {} is there twice", part.rank)));
            }
        }
        Ok(())
    }

    /// Number of missing ranks.
    pub fn missing(&self) -> u32 {
        self.ranks - self.by_rank.len() as u32
    }

    /// Time from the first rank's open to the last rank's close.
    pub fn elapsed(&self) -> u64 {
        let begin = self.by_rank.iter().map(|p| p.open[0]).min().unwrap_or(0);
        let end = self.by_rank.iter().map(|p| p.close[1]).max().unwrap_or(0);
        end.abs_diff(begin)
    }
}

/// Path of a step's profile.
pub fn path_of(output: &str, step: u64) -> String {
    format!("{}/step-{step}.json", folder_of(output))
}

/// The folder of an output's profiles.
pub fn folder_of(output: &str) -> String {
    format!("{output}.profile")
}

/// The number behind those of all profiles of an output: that of the next one, where its steps are not counted.
pub fn next_step(names: &[String]) -> u64 {
    names.iter().filter_map(|name| step_of(name)).max().map_or(0, |last| last.saturating_add(1))
}

/// The step in a profile's file name.
pub fn step_of(name: &str) -> Option<u64> {
    name.strip_prefix("step-")?.strip_suffix(".json")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let mut record = Record::default();
        record.totals[Phase::Write.place()] = Total { own: 10, calls: 1, bytes: 5 };
        record.spans.push(Span { phase: Phase::Write, begin: 3, length: 10, bytes: 5, whom: Whom::Rank(1) });
        Document {
            format: FORMAT.into(),
            version: VERSION,
            output: "run.bp".into(),
            group: "g".into(),
            methods: vec!["POSIX".into()],
            step: 4,
            run: "f".into(),
            ranks: 2,
            began_unix_us: 1,
            clock_error_ns: 2,
            bytes: 5,
            error: None,
            phases: Phase::ALL.iter().map(|p| p.name().to_string()).collect(),
            by_rank: (0..2).map(|rank| RankPart::of(rank, [0, 2], [3, 20], &record)).collect(),
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let document = document();
        assert_eq!(Document::from_json(&document.to_json()).unwrap(), document);
        assert_eq!(step_of("step-12.json"), Some(12));
        assert_eq!(path_of("a/run.bp", 3), "a/run.bp.profile/step-3.json");
        assert_eq!((next_step(&[]), next_step(&["step-9.json".into(), "x".into(), "step-10.json".into()])), (0, 11));
    }

    #[test]
    fn a_profile_of_version_1_is_read() {
        let mut old = document();
        old.version = 1;
        old.phases.truncate(12);
        old.by_rank.iter_mut().for_each(|part| part.totals.truncate(12));
        assert_eq!(Document::from_json(&old.to_json()).unwrap(), old);
        old.by_rank[0].spans[0][0] = Phase::Read.place() as i64;
        let e = Document::from_json(&old.to_json()).unwrap_err().to_string();
        assert!(e.contains("there is no phase 12"), "{e}");
    }

    #[test]
    fn what_does_not_fit_together_is_refused_and_its_place_named() {
        type Change = fn(&mut Document);
        let changes: [(Change, &str); 11] = [
            (|d| d.format = "other".into(), "not a profile"),
            (|d| d.version = 9, "version 9"),
            (|d| d.phases.truncate(2), "unknown phases: open, wait"),
            (|d| d.by_rank[1].rank = 0, "rank 0 is there twice"),
            (|d| d.by_rank[1].rank = 7, "rank 7: there are 2 ranks"),
            (|d| d.by_rank[0].close = [1, 0], "one after the other"),
            (|d| d.by_rank[1].spans[0][0] = 99, "rank 1: span 0: there is no phase 99"),
            (|d| d.by_rank[0].spans[0][2] = 18, "write is not between open and close"),
            (|d| d.by_rank[0].spans[0][4] = 2, "span 0: rank 2"),
            (|d| d.by_rank[0].collective.push([0; 5]), "rank 0: collective call 0: there is no kind 0"),
            (
                |d| {
                    let name = "sync".to_string();
                    d.by_rank[1].calls.push(CallTotal { name, calls: 1, bytes: 0, time_ns: 1 });
                    d.by_rank[1].collective.push([0, 5, 1, 2, 0]);
                },
                "rank 1: collective call 0: begin 5, length 1, waited 2",
            ),
        ];
        for (change, says) in changes {
            let mut document = document();
            change(&mut document);
            let e = Document::from_json(&document.to_json()).unwrap_err().to_string();
            assert!(e.contains(says), "{e}");
        }
        let e = Document::from_json(b"{\"format\": 1").unwrap_err().to_string();
        assert!(e.contains("line 1"), "{e}");
    }
}
