//! Collective writes of interleaved small extents to a file whose layout prefers runs: each rank writes a range of the file as a whole, with the bytes
//! of all ranks that lie in it.
//!
//! | question | answer |
//! |----------|--------|
//! | which files | those of layouts that prefer runs (`Layout::prefers_runs`): `direct` and `flat` on POSIX, where each small write is a system call, and partitions whose clients map views. On `container` every rank has a log of its own, and nothing is exchanged |
//! | which views | decided when they are set, by a pure function of all ranks' views ([`pays`]): extents below [`SMALL`] bytes that are interleaved between ranks |
//! | what is sent | views once, when they are set; of a write its place and length (16 bytes per rank), and the payload once. Since the receiver has the view, payload travels without lists of extents: it is a run of the sender's bytes |
//! | file domains | the range of the call, cut evenly among as many ranks as leave each [`LEAST`] bytes ([`domains`]), or as many as a hint says |
//! | memory | a window per rank, of [`WINDOW`] bytes or as a hint says, and what is sent for it |
//! | hints | [`Plan`]; whether there is an exchange: [`crate::hints`] |
//! | holes | are not written: runs of bytes that ranks gave are |
//! | errors | of one rank are those of all, as a rank's bytes are written by others |
//!
//! Source: two-phase I/O (del Rosario, Bordawekar, Choudhary 1993; Thakur, Gropp, Lusk 1999); views at the receiver: AHPIOS (Isaila et al.).
//! Differs from ROMIO: no list of offsets and lengths is ever sent, and no byte is read to fill holes.

use std::ops::Range;
use thalweg_types::Extent;
use thalweg_view::View;

/// Extents of at least so many bytes are written by their rank.
pub const SMALL: u64 = 64 << 10;
/// Least bytes of a file domain.
pub const LEAST: u64 = 1 << 20;
/// Most bytes of a domain that are gathered at a time, without a hint.
pub const WINDOW: u64 = 16 << 20;
/// Longest encoding of a view that is told to all ranks.
pub const LONGEST_VIEW: usize = 4 << 10;

/// How bytes are exchanged; the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Number of ranks that write; `None`: as many as leave each [`LEAST`] bytes.
    pub writers: Option<u64>,
    /// Most bytes of a domain that are gathered at a time; not 0.
    pub window: u64,
    /// Domains begin at multiples of so many bytes; `None`: of a page, or of [`LEAST`] bytes where they are as long.
    pub unit: Option<u64>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { writers: None, window: WINDOW, unit: None }
    }
}

/// Bytes of its view that a rank writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// First byte of the view.
    pub start: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Access {
    /// The bytes of the view that lie in a range of the file: a range of the view, as its bytes rise.
    pub fn within(&self, view: &View, file: &Range<u64>) -> Range<u64> {
        let end = self.start.saturating_add(self.bytes);
        let below = |offset: u64| view.count_below(offset).unwrap_or(0).clamp(self.start, end);
        let from = below(file.start);
        from..below(file.end).max(from)
    }

    /// As [`Access::within`], counted from the first byte of the access.
    pub fn part_within(&self, view: &View, file: &Range<u64>) -> Range<u64> {
        let Range { start, end } = self.within(view, file);
        start - self.start..end - self.start
    }

    /// First byte of the file and end; `None` without bytes.
    fn reach(&self, view: &View) -> Option<(u64, u64)> {
        let last = self.bytes.checked_sub(1)?;
        Some((view.file_offset(self.start)?, view.file_offset(self.start.checked_add(last)?)?.checked_add(1)?))
    }
}

/// Whether collective writes through these views can exchange bytes.
pub fn is_possible(views: &[View]) -> bool {
    views.len() > 1 && views.iter().all(|view| view.is_rising() && view.pattern().size() > 0)
}

/// Whether collective writes through these views are worth an exchange, if they write one instance of each or more.
pub fn pays(views: &[View]) -> bool {
    const SAMPLE: usize = 16;
    if !is_possible(views) {
        return false;
    }
    // Of each view: the reach of an instance, and the mean length of its first extents.
    let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(views.len());
    let mut small = 0;
    for view in views {
        let size = view.pattern().size();
        let Some(range) = (Access { start: 0, bytes: size }).reach(view) else { return false };
        ranges.push(range);
        let (count, bytes) = view.extents(0..size).take(SAMPLE).fold((0, 0), |(n, sum), e| (n + 1, sum + e.length));
        small += usize::from(bytes / count.max(1) < SMALL && !view.pattern().is_contiguous());
    }
    if small < views.len() {
        return false;
    }
    // Interleaved: the ranges of the ranks together cover more than the range of all.
    let low = ranges.iter().map(|(low, _)| *low).min().unwrap_or(0);
    let high = ranges.iter().map(|(_, high)| *high).max().unwrap_or(0);
    let sum: u128 = ranges.iter().map(|(low, high)| u128::from(high - low)).sum();
    sum * 2 > u128::from(high - low) * 3
}

/// The ranges of the file that ranks write: as many as there are aggregators, the first ranks. Empty without bytes, and where a view has
/// no place for them.
pub fn domains(views: &[View], accesses: &[Access], plan: &Plan) -> Vec<Range<u64>> {
    let mut reach: Option<(u64, u64)> = None;
    for (view, access) in views.iter().zip(accesses).filter(|(_, access)| access.bytes > 0) {
        let Some((low, high)) = access.reach(view) else { return Vec::new() };
        reach = Some(reach.map_or((low, high), |(l, h)| (l.min(low), h.max(high))));
    }
    let Some((low, high)) = reach else { return Vec::new() };
    let count = plan.writers.unwrap_or((high - low) / LEAST).clamp(1, views.len() as u64);
    // Cut at multiples of a page or of the least domain.
    let unit = plan.unit.unwrap_or(if (high - low) / count >= LEAST { LEAST } else { 4096 }).max(1);
    let cut = |n: u64| {
        let at = low + ((u128::from(high - low) * u128::from(n)) / u128::from(count)) as u64;
        if n == count { high } else { (at / unit * unit).clamp(low, high) }
    };
    (0..count).map(|n| if n == 0 { low..cut(1) } else { cut(n)..cut(n + 1) }).collect()
}

impl Plan {
    /// Window `round` of a domain; empty behind its end.
    pub fn window(&self, domain: &Range<u64>, round: u64) -> Range<u64> {
        let start = domain.start.saturating_add(round.saturating_mul(self.window)).min(domain.end);
        start..start.saturating_add(self.window).min(domain.end)
    }

    /// Number of windows of the longest domain.
    pub fn rounds(&self, domains: &[Range<u64>]) -> u64 {
        domains.iter().map(|domain| (domain.end - domain.start).div_ceil(self.window.max(1))).max().unwrap_or(0)
    }
}

/// A window of the file that is being filled.
#[derive(Debug)]
pub struct Filled {
    start: u64,
    bytes: Vec<u8>,
    extents: Vec<Extent>,
}

impl Filled {
    /// An empty window; `None` if there is no memory for it.
    pub fn new(window: &Range<u64>) -> Option<Filled> {
        let length = usize::try_from(window.end - window.start).ok()?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).ok()?;
        bytes.resize(length, 0);
        Some(Filled { start: window.start, bytes, extents: Vec::new() })
    }

    /// Puts bytes `range` of a view into their places; `false` if they are not as many, or have a place outside of the window.
    pub fn put(&mut self, view: &View, range: Range<u64>, bytes: &[u8]) -> bool {
        if range.end - range.start != bytes.len() as u64 {
            return false;
        }
        let mut rest = bytes;
        for extent in view.extents(range) {
            let Some(at) = extent.offset.checked_sub(self.start).and_then(|at| usize::try_from(at).ok()) else {
                return false;
            };
            let (part, behind) = rest.split_at(extent.length as usize);
            let Some(place) = self.bytes.get_mut(at..at + part.len()) else { return false };
            place.copy_from_slice(part);
            rest = behind;
            match self.extents.last_mut() {
                Some(last) if last.offset + last.length == extent.offset => last.length += extent.length,
                _ => self.extents.push(extent),
            }
        }
        true
    }

    /// Runs of bytes that were put, in the order of the file.
    pub fn runs(&mut self) -> Vec<Extent> {
        self.extents.sort_unstable_by_key(|extent| extent.offset);
        let mut runs: Vec<Extent> = Vec::new();
        for extent in self.extents.drain(..) {
            match runs.last_mut() {
                Some(last) if extent.offset <= last.offset + last.length => {
                    last.length = last.length.max(extent.offset + extent.length - last.offset);
                }
                _ => runs.push(extent),
            }
        }
        runs
    }

    /// The bytes of a run.
    pub fn bytes(&self, run: &Extent) -> &[u8] {
        let from = (run.offset - self.start) as usize;
        &self.bytes[from..from + run.length as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_view::{Datatype, Order, Pattern};

    fn byte() -> Pattern {
        Datatype::Elementary(1).pattern().unwrap()
    }

    /// Blocks of a square matrix of `n` by `n` bytes for `side` by `side` ranks.
    fn blocks(n: u64, side: u64) -> Vec<View> {
        let part = n / side;
        let of = |rank: u64| Datatype::Subarray {
            sizes: vec![n, n],
            subsizes: vec![part, part],
            starts: vec![rank / side * part, rank % side * part],
            order: Order::C,
            of: Box::new(Datatype::Elementary(1)),
        };
        (0..side * side).map(|rank| View::new(100, &byte(), of(rank).pattern().unwrap()).unwrap()).collect()
    }

    #[test]
    fn an_exchange_pays_for_small_interleaved_extents_alone() {
        assert!(pays(&blocks(4096, 4)));
        assert!(!pays(&blocks(4096, 1)), "one rank");
        assert!(!pays(&blocks(1 << 20, 8)), "rows of 128 KiB");
        let rows: Vec<View> = (0..4u64)
            .map(|rank| {
                View::new(
                    rank * 1000,
                    &byte(),
                    Datatype::Contiguous { count: 1000, of: Box::new(Datatype::Elementary(1)) }.pattern().unwrap(),
                )
                .unwrap()
            })
            .collect();
        assert!(!pays(&rows), "ranks side by side");
        let apart: Vec<View> = (0..4u64)
            .map(|rank| {
                let of = Box::new(Datatype::Elementary(1));
                View::new(
                    rank << 20,
                    &byte(),
                    Datatype::Vector { count: 100, block: 10, stride: 20, of }.pattern().unwrap(),
                )
                .unwrap()
            })
            .collect();
        assert!(!pays(&apart), "small extents in ranges of their own");
    }

    #[test]
    fn domains_cover_what_is_written_once_for_thousands_of_ranks() {
        for (n, side, most) in [(64, 2, 4), (4096, 4, 16), (65_536, 32, 1024), (8192, 64, 64)] {
            let views = blocks(n, side);
            let size = views[0].pattern().size();
            let accesses = vec![Access { start: 0, bytes: size }; views.len()];
            let plan = Plan::default();
            let domains = domains(&views, &accesses, &plan);
            assert!(domains.len() <= most && !domains.is_empty());
            assert_eq!((domains[0].start, domains.last().unwrap().end), (100, 100 + n * n));
            assert!(domains.windows(2).all(|pair| pair[0].end == pair[1].start));
            // Each byte of each rank has one domain, and the windows of a domain are that domain.
            for (view, access) in views.iter().zip(&accesses).step_by(7) {
                let mut at = 0;
                for domain in &domains {
                    for round in 0..plan.rounds(&domains) {
                        let part = access.within(view, &plan.window(domain, round));
                        assert!(part.is_empty() || part.start == at);
                        at = at.max(part.end);
                    }
                }
                assert_eq!(at, size);
            }
        }
        assert!(domains(&blocks(64, 2), &[Access::default(); 4], &Plan::default()).is_empty());
    }

    #[test]
    fn a_plan_says_how_many_ranks_write_where_their_domains_begin_and_how_much_at_a_time() {
        let views = blocks(4096, 4);
        let accesses = vec![Access { start: 0, bytes: views[0].pattern().size() }; 16];
        let plan = Plan { writers: Some(3), window: 100_000, unit: Some(10_000) };
        let three = domains(&views, &accesses, &plan);
        assert_eq!(three.len(), 3);
        assert_eq!((three[0].start, three[2].end), (100, 100 + 4096 * 4096));
        assert!(three[1..].iter().all(|domain| domain.start % 10_000 == 0));
        let windows: Vec<_> = (0..plan.rounds(&three)).map(|round| plan.window(&three[0], round)).collect();
        assert!(windows.iter().all(|window| window.end - window.start <= 100_000));
        assert_eq!(windows.iter().map(|window| window.end - window.start).sum::<u64>(), three[0].end - three[0].start);
        // More than there are ranks, and units longer than what is written: some ranks write nothing.
        let plan = Plan { writers: Some(100), unit: Some(1 << 30), ..plan };
        let all = domains(&views, &accesses, &plan);
        assert_eq!(all.len(), 16);
        assert_eq!(all.iter().map(|domain| domain.end - domain.start).sum::<u64>(), 4096 * 4096);
    }

    #[test]
    fn a_window_is_what_its_ranks_have_put() {
        let views = blocks(60, 2);
        let accesses: Vec<Access> = (0..4).map(|rank| Access { start: rank * 11, bytes: 500 + rank }).collect();
        let file = 1000..3000;
        let mut filled = Filled::new(&file).unwrap();
        let mut expected = vec![None; 2000];
        for (rank, (view, access)) in views.iter().zip(&accesses).enumerate() {
            let range = access.within(view, &file);
            let bytes: Vec<u8> = range.clone().map(|v| (v * 3 + rank as u64) as u8).collect();
            for v in range.clone() {
                expected[(view.file_offset(v).unwrap() - file.start) as usize] = Some((v * 3 + rank as u64) as u8);
            }
            assert!(filled.put(view, range.clone(), &bytes));
            assert!(
                bytes.is_empty() || !filled.put(view, range.clone(), &bytes[1..]),
                "fewer bytes than the view says"
            );
        }
        assert!(!filled.put(&views[0], 0..1, &[0]), "a byte in front of the window");
        let mut got = vec![None; 2000];
        let runs = filled.runs();
        assert!(runs.windows(2).all(|pair| pair[0].offset + pair[0].length < pair[1].offset), "runs are joined");
        for run in runs {
            for (i, byte) in filled.bytes(&run).iter().enumerate() {
                got[(run.offset - file.start) as usize + i] = Some(*byte);
            }
        }
        assert_eq!(got, expected);
    }
}
