//! Collective accesses of interleaved small extents of a file whose layout prefers runs: some ranks write or read long runs of the file, with the
//! bytes of the ranks that lie in them.
//!
//! | question | answer |
//! |----------|--------|
//! | which files | those of layouts that prefer runs (`Layout::prefers_runs`): `direct` and `flat` on POSIX, where each small access is a system call, and partitions whose clients map views. On `container` every rank has a log of its own, and nothing is exchanged |
//! | which views | decided when they are set, by a pure function of all ranks' views ([`pays`]): extents below [`SMALL`] bytes that are interleaved between ranks |
//! | who exchanges with whom | the ranks of a *row* ([`rows`]). Where the ranks' views are blocks of one array, a row is the ranks whose blocks differ only in as few of the fastest dimensions as make their bytes together runs of [`LONG`] bytes: these dimensions are no longer split. Otherwise a row is the ranks whose ranges of the file overlap |
//! | what is sent | views once, when they are set; of an access its place and length (16 bytes per rank), and the payload once. Since both sides have the view, payload travels without lists of extents: it is a run of a rank's view |
//! | file domains | the bytes of a row, cut evenly among as many of its ranks as leave each [`LONG`] bytes ([`Exchange::plan`]), or as a hint says |
//! | which ranks of a row | as many on each node, and on a node evenly spaced, as ranks are bound to sockets and network cards in their order |
//! | memory | a window per rank, of [`WINDOW`] bytes or as a hint says, and what is sent for it |
//! | hints | [`Plan`]; whether there is an exchange: [`crate::hints`] |
//! | holes | are not written: runs of bytes that ranks gave are. Runs that ranks read are joined over gaps of at most [`SMALL`] bytes |
//! | errors | of one rank are those of all, as a rank's bytes are moved by others |
//!
//! Source: two-phase I/O (del Rosario, Bordawekar, Choudhary 1993; Thakur, Gropp, Lusk 1999); views at the receiver: AHPIOS (Isaila et al.); rows of
//! the process grid: mpich issue 7935. Differs from ROMIO: no list of offsets and lengths is ever sent, and no byte is read to fill holes.

use std::collections::BTreeMap;
use std::ops::Range;
use thalweg_types::Extent;
use thalweg_view::{Outline, View};

/// Extents of at least so many bytes are accessed by their rank.
pub const SMALL: u64 = 64 << 10;
/// Bytes of a run, or of a file domain, that is long enough.
pub const LONG: u64 = 4 << 20;
/// Most bytes of a domain that are gathered at a time, without a hint.
pub const WINDOW: u64 = 16 << 20;
/// Longest encoding of a view that is told to all ranks.
pub const LONGEST_VIEW: usize = 4 << 10;
/// File domains of at least so many bytes begin at multiples of it, shorter ones at those of a page.
const UNIT: u64 = 1 << 20;

/// How bytes are exchanged; the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Number of ranks that access the file; `None`: as many as leave each [`LONG`] bytes.
    pub writers: Option<u64>,
    /// Most bytes of a domain that are gathered at a time; not 0.
    pub window: u64,
    /// Domains begin at multiples of so many bytes of the file; `None`: of a page, or of a MiB where they are as long.
    pub unit: Option<u64>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { writers: None, window: WINDOW, unit: None }
    }
}

/// Bytes of its view that a rank accesses.
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

    /// First byte of the file and end; `None` without bytes, or if the view has no place for them.
    fn reach(&self, view: &View) -> Option<Range<u64>> {
        let last = self.bytes.checked_sub(1)?;
        Some(view.file_offset(self.start)?..view.file_offset(self.start.checked_add(last)?)?.checked_add(1)?)
    }
}

/// Whether collective accesses through these views can exchange bytes.
pub fn is_possible(views: &[View]) -> bool {
    views.len() > 1 && views.iter().all(|view| view.is_rising() && view.pattern().size() > 0)
}

/// Whether collective accesses through these views are worth an exchange, if they have one instance of each or more.
pub fn pays(views: &[View]) -> bool {
    const SAMPLE: usize = 16;
    if !is_possible(views) {
        return false;
    }
    // Of each view: the reach of an instance, and the mean length of its first extents.
    let mut ranges: Vec<Range<u64>> = Vec::with_capacity(views.len());
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
    let low = ranges.iter().map(|range| range.start).min().unwrap_or(0);
    let high = ranges.iter().map(|range| range.end).max().unwrap_or(0);
    let sum: u128 = ranges.iter().map(|range| u128::from(range.end - range.start)).sum();
    sum * 2 > u128::from(high - low) * 3
}

/// Ranks that exchange bytes with each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// In rising order.
    pub ranks: Vec<u32>,
    /// Covers the bytes of all its ranks' views, in long runs.
    pub covers: View,
}

/// Sorts ranges and joins those that overlap; each with its members.
fn overlapping<T>(mut ranges: Vec<(Range<u64>, T)>) -> Vec<(Range<u64>, Vec<T>)> {
    ranges.sort_by_key(|(range, _)| range.start);
    let mut joined: Vec<(Range<u64>, Vec<T>)> = Vec::new();
    for (range, member) in ranges {
        match joined.last_mut() {
            Some((last, members)) if range.start < last.end => {
                last.end = last.end.max(range.end);
                members.push(member);
            }
            _ => joined.push((range, vec![member])),
        }
    }
    joined
}

/// Ranks of a row have the same repetitions (see [`Outline::repeats`]).
type Repeats = Vec<(u64, i64)>;

/// The rows of ranks whose views are blocks of one array: the shortest ones whose bytes together are runs of [`LONG`] bytes. `None` if no
/// dimension of the array leaves such rows, or bytes of one row would lie between those of another; then a row is what overlaps in an
/// access.
///
/// # Cost
/// For `n` ranks `n log n` steps for each dimension, and one for each pair of rows whose ranges of the file overlap.
pub fn rows(views: &[View]) -> Option<Vec<Row>> {
    let deepest = views.iter().map(|view| view.pattern().depth()).max()?;
    (1..=deepest).rev().find_map(|depth| rows_of(views, depth))
}

/// As [`rows`], with so many of the outermost repetitions of the views left apart.
fn rows_of(views: &[View], depth: usize) -> Option<Vec<Row>> {
    // Instances of all views follow each other alike.
    let extent = views.first()?.pattern().extent();
    // Ranks with the same repetitions, and the first run of each.
    let mut alike: BTreeMap<Repeats, Vec<(Range<u64>, u32)>> = BTreeMap::new();
    for (rank, view) in (0..).zip(views).filter(|(_, view)| view.pattern().extent() == extent) {
        let Outline { repeats, low, high } = view.pattern().outline(depth);
        let at = |place: i64| view.displacement().checked_add_signed(place);
        alike.entry(repeats).or_default().push((at(low)?..at(high)?, rank));
    }
    let (mut rows, mut runs, mut ranks_in_rows) = (Vec::new(), Vec::new(), 0);
    for (repeats, ranges) in alike {
        for (run, mut ranks) in overlapping(ranges) {
            let length = i64::try_from(run.end - run.start).ok().filter(|length| *length as u64 >= LONG)?;
            let outline = Outline { repeats: repeats.clone(), low: 0, high: length };
            let covers = View::of_outline(run.start, &outline, extent).ok().filter(View::is_rising)?;
            ranks.sort_unstable();
            ranks_in_rows += ranks.len();
            runs.push((i64::try_from(run.start).ok()?, outline));
            rows.push(Row { ranks, covers });
        }
    }
    (ranks_in_rows == views.len() && are_apart(runs)).then_some(rows)
}

/// Whether no run of a row lies between the bytes of a run of another.
///
/// - `rows`: the first run of each, from offset `low` 0, with its repetitions.
fn are_apart(mut rows: Vec<(i64, Outline)>) -> bool {
    rows.sort_by_key(|(start, _)| *start);
    let end = |(start, outline): &(i64, Outline)| {
        let last = |(count, stride): &(u64, i64)| (*count as i128 - 1) * i128::from(*stride);
        i128::from(*start) + outline.repeats.iter().map(last).sum::<i128>() + i128::from(outline.high)
    };
    rows.iter().enumerate().all(|(number, a)| {
        let mut behind = rows[number + 1..].iter().take_while(|b| i128::from(b.0) < end(a));
        behind.all(|b| {
            let same_strides = a.1.repeats.iter().map(|r| r.1).eq(b.1.repeats.iter().map(|r| r.1));
            same_strides && !meet(b.0 - a.0, (&a.1.repeats, a.1.high), (&b.1.repeats, b.1.high))
        })
    })
}

/// Whether two sets of repeated runs with the same strides have a byte in common. The second set begins `distance` bytes behind the first.
/// No run is longer than the stride around it.
fn meet(distance: i64, a: (&[(u64, i64)], i64), b: (&[(u64, i64)], i64)) -> bool {
    match (a.0.split_first(), b.0.split_first()) {
        (Some(((of_a, stride), rest_a)), Some(((of_b, _), rest_b))) => {
            let whole = distance.div_euclid((*stride).max(1));
            // A run that begins in front of the other may reach into it.
            [whole, whole + 1].into_iter().any(|steps| {
                let is_there = if steps < 0 { steps.unsigned_abs() < *of_b } else { (steps as u64) < *of_a };
                is_there && meet(distance - steps * stride, (rest_a, a.1), (rest_b, b.1))
            })
        }
        _ => -b.1 < distance && distance < a.1,
    }
}

/// A range of a row's bytes that one rank writes or reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// That rank.
    pub rank: u32,
    /// Its row.
    pub row: usize,
    /// Bytes of [`Row::covers`].
    pub range: Range<u64>,
}

/// Who accesses what in one collective call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exchange {
    /// The rows.
    pub rows: Vec<Row>,
    /// At most one for each rank of a row.
    pub domains: Vec<Domain>,
    /// Ranks that access their own bytes, because no other rank has bytes between them.
    pub alone: Vec<u32>,
}

/// Ranks of a row for `count` domains: as many on each node, on a node evenly spaced; in rising order.
///
/// - `turn`: which node comes first.
fn spread(ranks: &[u32], nodes: &[u64], count: usize, turn: usize) -> Vec<u32> {
    let mut by_node: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for rank in ranks {
        by_node.entry(nodes.get(*rank as usize).copied().unwrap_or(0)).or_default().push(*rank);
    }
    let nodes: Vec<Vec<u32>> = by_node.into_values().collect();
    // How many on each node: in turns, as far as it has ranks.
    let mut shares = vec![0; nodes.len()];
    let (mut left, mut node) = (count.min(ranks.len()), turn);
    while left > 0 {
        let at = node % nodes.len();
        if shares[at] < nodes[at].len() {
            shares[at] += 1;
            left -= 1;
        }
        node += 1;
    }
    let spaced = |(ranks, share): (&Vec<u32>, &usize)| -> Vec<u32> {
        (0..*share).map(|i| ranks[i * ranks.len() / share]).collect()
    };
    let mut chosen: Vec<u32> = nodes.iter().zip(&shares).flat_map(spaced).collect();
    chosen.sort_unstable();
    chosen
}

impl Exchange {
    /// Plans a call. `None` if a view has no place for the bytes.
    ///
    /// - `rows`: of [`rows`].
    /// - `nodes`: the node of each rank.
    pub fn plan(
        views: &[View],
        rows: Option<&[Row]>,
        accesses: &[Access],
        nodes: &[u64],
        plan: &Plan,
    ) -> Option<Exchange> {
        let mut reaches = Vec::with_capacity(views.len());
        for (view, access) in views.iter().zip(accesses) {
            reaches.push(match access.bytes {
                0 => None,
                _ => Some(access.reach(view)?),
            });
        }
        let reach = |rank: u32| reaches.get(rank as usize).cloned().flatten();
        let with_bytes = || (0..views.len() as u32).filter_map(|rank| Some((reach(rank)?, rank)));
        let whole = |ranks: Vec<u32>| Row { ranks, covers: View::whole() };
        let rows: Vec<Row> = match rows {
            Some(rows) if plan.writers.is_none_or(|writers| writers >= rows.len() as u64) => {
                let active = |row: &Row| row.ranks.iter().any(|rank| reach(*rank).is_some());
                rows.iter().filter(|row| active(row)).cloned().collect()
            }
            _ if plan.writers.is_some() => {
                let ranks: Vec<u32> = with_bytes().map(|(_, rank)| rank).collect();
                if ranks.is_empty() { Vec::new() } else { vec![whole((0..views.len() as u32).collect())] }
            }
            _ => overlapping(with_bytes().collect())
                .into_iter()
                .map(|(_, mut ranks)| {
                    ranks.sort_unstable();
                    whole(ranks)
                })
                .collect(),
        };
        // The bytes of each row that are accessed.
        let mut ranges = Vec::with_capacity(rows.len());
        for row in &rows {
            let low = row.ranks.iter().filter_map(|rank| Some(reach(*rank)?.start)).min()?;
            let high = row.ranks.iter().filter_map(|rank| Some(reach(*rank)?.end)).max()?;
            ranges.push(row.covers.count_below(low)?..row.covers.count_below(high)?);
        }
        let total: u128 = ranges.iter().map(|range| u128::from(range.end - range.start)).sum();
        let in_all = rows.len() as u64;
        let mut exchange = Exchange::default();
        let mut before: u128 = 0;
        for (row, range) in rows.into_iter().zip(ranges) {
            let begins = before;
            before += u128::from(range.end - range.start);
            if let ([one], None) = (&row.ranks[..], plan.writers) {
                exchange.alone.push(*one);
                continue;
            }
            let length = range.end - range.start;
            let wanted = match plan.writers {
                // One for each row, and the others by bytes.
                Some(writers) => {
                    let others = u128::from(writers.saturating_sub(in_all));
                    let until = |bytes: u128| others * bytes / total.max(1);
                    1 + (until(before) - until(begins)) as u64
                }
                None => length / LONG,
            };
            let count = wanted.clamp(1, row.ranks.len() as u64);
            let ranks = spread(&row.ranks, nodes, count as usize, exchange.rows.len());
            let cuts = cuts(&row.covers, &range, ranks.len() as u64, plan);
            for (rank, range) in ranks.into_iter().zip(cuts) {
                exchange.domains.push(Domain { rank, row: exchange.rows.len(), range });
            }
            exchange.rows.push(row);
        }
        Some(exchange)
    }

    /// The row of a rank, and its number.
    pub fn row_of(&self, rank: u32) -> Option<(usize, &Row)> {
        self.rows.iter().enumerate().find(|(_, row)| row.ranks.binary_search(&rank).is_ok())
    }

    /// The domain of a rank.
    pub fn domain_of(&self, rank: u32) -> Option<&Domain> {
        self.domains.iter().find(|domain| domain.rank == rank)
    }

    /// Number of windows of the longest domain.
    pub fn rounds(&self, plan: &Plan) -> u64 {
        let windows = |domain: &Domain| (domain.range.end - domain.range.start).div_ceil(plan.window.max(1));
        self.domains.iter().map(windows).max().unwrap_or(0)
    }

    /// Window `round` of a domain; `None` behind its end.
    pub fn window(&self, domain: &Domain, round: u64, plan: &Plan) -> Option<Window> {
        let Range { start, end } = domain.range;
        let from = start.saturating_add(round.saturating_mul(plan.window)).min(end);
        let to = from.saturating_add(plan.window).min(end);
        let covers = &self.rows.get(domain.row)?.covers;
        let file = covers.file_offset(from)?..covers.file_offset(to.checked_sub(1).filter(|last| *last >= from)?)? + 1;
        Some(Window { file, extents: covers.extents(from..to).collect() })
    }
}

/// Cuts bytes of a row into `count` ranges: where runs of the row end if there are enough, of the file at multiples of a unit.
fn cuts(covers: &View, range: &Range<u64>, count: u64, plan: &Plan) -> Vec<Range<u64>> {
    let Range { start, end } = *range;
    let outline = covers.pattern().outline(covers.pattern().depth());
    let run = (outline.high - outline.low) as u64;
    let of_file = *covers == View::whole();
    let each = (end - start) / count;
    let unit = match plan.unit.filter(|_| of_file) {
        Some(unit) => unit,
        None if !of_file && run <= each => run,
        None if each >= UNIT => UNIT,
        None => 4096,
    };
    let cut = |n: u64| {
        let at = start + ((u128::from(end - start) * u128::from(n)) / u128::from(count)) as u64;
        match n {
            0 => start,
            n if n == count => end,
            _ => (at / unit.max(1) * unit.max(1)).clamp(start, end),
        }
    };
    (0..count).map(|n| cut(n)..cut(n + 1)).collect()
}

/// A part of a domain that is moved at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// From its first byte in the file to its end: of the bytes of the row's ranks, none but its own lie there.
    pub file: Range<u64>,
    /// Its runs.
    pub extents: Vec<Extent>,
}

/// The bytes of a window.
#[derive(Debug)]
pub struct Filled {
    /// Runs of the window, with the place of each in `bytes`.
    runs: Vec<(Extent, usize)>,
    bytes: Vec<u8>,
    /// What was put.
    extents: Vec<Extent>,
}

impl Filled {
    /// An empty window; `None` if there is no memory for it.
    pub fn new(window: &Window) -> Option<Filled> {
        let length =
            window.extents.iter().try_fold(0usize, |sum, e| sum.checked_add(usize::try_from(e.length).ok()?))?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).ok()?;
        bytes.resize(length, 0);
        let mut at = 0;
        let runs = window.extents.iter().map(|extent| {
            let place = at;
            at += extent.length as usize;
            (*extent, place)
        });
        Some(Filled { runs: runs.collect(), bytes, extents: Vec::new() })
    }

    /// Where the bytes of an extent are; `None` if they are not in one run of the window.
    ///
    /// - `hint`: the run to look at first; set to the one that was found.
    fn place(&self, extent: &Extent, hint: &mut usize) -> Option<Range<usize>> {
        let is_in = |(run, _): &(Extent, usize)| {
            run.offset <= extent.offset && extent.end().is_some_and(|end| Some(end) <= run.end())
        };
        if !self.runs.get(*hint).is_some_and(is_in) {
            *hint = self.runs.partition_point(|(run, _)| run.offset <= extent.offset).checked_sub(1)?;
        }
        let (run, at) = self.runs.get(*hint).filter(|run| is_in(run))?;
        let from = at + (extent.offset - run.offset) as usize;
        Some(from..from + extent.length as usize)
    }

    /// Puts bytes `range` of a view into their places; `false` if they are not as many, or have a place outside of the window.
    pub fn put(&mut self, view: &View, range: Range<u64>, bytes: &[u8]) -> bool {
        if range.end - range.start != bytes.len() as u64 {
            return false;
        }
        let (mut rest, mut hint) = (bytes, 0);
        for extent in view.extents(range) {
            let (part, behind) = rest.split_at(extent.length as usize);
            let Some(place) = self.place(&extent, &mut hint) else { return false };
            self.bytes[place].copy_from_slice(part);
            rest = behind;
            match self.extents.last_mut() {
                Some(last) if last.end() == Some(extent.offset) => last.length += extent.length,
                _ => self.extents.push(extent),
            }
        }
        rest.is_empty()
    }

    /// Notes that bytes `range` of a view are to be read, with gaps of at most `gap` bytes between them.
    pub fn want(&mut self, view: &View, range: Range<u64>, gap: u64) {
        let (mut last, mut hint): (Option<Extent>, usize) = (None, 0);
        for extent in view.extents(range) {
            let joined = last.filter(|last| extent.offset <= last.offset + last.length + gap);
            let joined = joined.map(|last| Extent::new(last.offset, extent.offset + extent.length - last.offset));
            match joined.filter(|joined| self.place(joined, &mut hint).is_some()) {
                Some(joined) => last = Some(joined),
                None => self.extents.extend(last.replace(extent)),
            }
        }
        self.extents.extend(last);
    }

    /// The bytes `range` of a view; `None` if some have no place in the window.
    pub fn get(&self, view: &View, range: Range<u64>) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        out.try_reserve_exact(usize::try_from(range.end - range.start).ok()?).ok()?;
        let mut hint = 0;
        for extent in view.extents(range.clone()) {
            out.extend_from_slice(&self.bytes[self.place(&extent, &mut hint)?]);
        }
        (out.len() as u64 == range.end - range.start).then_some(out)
    }

    /// Runs of bytes that were put or are wanted, in the order of the file; joined over gaps of at most `gap` bytes within a run of the
    /// window.
    pub fn runs(&mut self, gap: u64) -> Vec<Extent> {
        self.extents.sort_unstable_by_key(|extent| extent.offset);
        let extents = std::mem::take(&mut self.extents);
        let mut runs: Vec<Extent> = Vec::new();
        let mut hint = 0;
        for extent in extents {
            let joined = runs.last().filter(|last| extent.offset <= last.offset + last.length + gap).map(|last| {
                let end = (last.offset + last.length).max(extent.offset + extent.length);
                Extent::new(last.offset, end - last.offset)
            });
            match joined.filter(|joined| self.place(joined, &mut hint).is_some()) {
                Some(joined) => runs.last_mut().into_iter().for_each(|last| *last = joined),
                None => runs.push(extent),
            }
        }
        runs
    }

    /// The bytes of a run.
    pub fn bytes(&self, run: &Extent) -> &[u8] {
        self.place(run, &mut 0).map_or(&[], |place| &self.bytes[place])
    }

    /// Room for the bytes of a run.
    pub fn bytes_mut(&mut self, run: &Extent) -> &mut [u8] {
        match self.place(run, &mut 0) {
            Some(place) => &mut self.bytes[place],
            None => &mut [],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use thalweg_view::{Block, Datatype, Order, Pattern};

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

    /// BTIO's diagonal cells of an array of `n` cells an edge, 40 bytes each, for `side` by `side` ranks.
    fn diagonal_cells(n: u64, side: u64) -> Vec<View> {
        let element = || Datatype::Elementary(40);
        let begins = |part: u64| n * part / side;
        let of = |rank: u64| {
            let cell = |c: u64| {
                let at = [c, (rank / side + c) % side, (rank % side + c) % side];
                Datatype::Subarray {
                    sizes: vec![n; 3],
                    subsizes: at.iter().map(|part| begins(part + 1) - begins(*part)).collect(),
                    starts: at.iter().map(|part| begins(*part)).collect(),
                    order: Order::C,
                    of: Box::new(element()),
                }
            };
            Datatype::Struct((0..side).map(|c| (Block { count: 1, displacement: 0 }, cell(c))).collect())
        };
        let views = (0..side * side).map(of);
        views.map(|of| View::new(0, &element().pattern().unwrap(), of.pattern().unwrap()).unwrap()).collect()
    }

    #[test]
    fn diagonal_cells_lie_between_each_other_and_all_ranks_exchange() {
        for (n, side) in [(102, 2), (162, 3), (102, 4)] {
            let views = diagonal_cells(n, side);
            assert!(pays(&views));
            assert_eq!(rows(&views), None, "{side} by {side}");
            let all = (side * side) as u32;
            let exchange = planned(&views, &accesses(&views), &vec![0; all as usize], &Plan::default());
            assert_eq!(exchange.alone, [0; 0], "{side} by {side}");
            assert_eq!(exchange.row_of(0).unwrap().1.ranks, (0..all).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn rows_of_uneven_blocks_are_apart_and_blocks_across_rows_are_seen() {
        let (edge, element) = (1200, 8);
        let view = |starts: [u64; 3], subsizes: [u64; 3]| {
            let of = Box::new(Datatype::Elementary(element));
            let (starts, subsizes) = (starts.to_vec(), subsizes.to_vec());
            let block = Datatype::Subarray { sizes: vec![edge; 3], subsizes, starts, order: Order::C, of };
            View::new(0, &Datatype::Elementary(element).pattern().unwrap(), block.pattern().unwrap()).unwrap()
        };
        // Two by two by two blocks, all of different lengths; their parts of a plane have 4.8 and 6.7 MB.
        let cuts = |cut: u64| [(0, cut), (cut, edge - cut)];
        let mut uneven = Vec::new();
        for (z, nz) in cuts(500) {
            for (y, ny) in cuts(700) {
                uneven.extend(cuts(601).map(|(x, nx)| view([z, y, x], [nz, ny, nx])));
            }
        }
        let ranks: Vec<Vec<u32>> = rows(&uneven).unwrap().into_iter().map(|row| row.ranks).collect();
        assert_eq!(ranks.iter().map(Vec::len).sum::<usize>(), 8);
        // Those side by side in the fastest dimension.
        assert!(ranks.iter().all(|row| row.len() == 2), "{ranks:?}");
        // One block across all planes beside two that divide them: no row of its own is free of the others' bytes.
        let halves = [view([0, 0, 600], [500, 1200, 600]), view([500, 0, 600], [700, 1200, 600])];
        let across = [&[view([0, 0, 0], [1200, 1200, 600])][..], &halves].concat();
        assert_eq!(rows(&across), None);
        let exchange = planned(&across, &accesses(&across), &[0; 3], &Plan::default());
        assert_eq!((exchange.alone.len(), exchange.rows.len()), (0, 1));
    }

    #[test]
    fn repeated_runs_meet_exactly_where_a_byte_is_in_both() {
        // Against all bytes, for small ones.
        let bytes = |start: i64, repeats: &[(u64, i64)], length: i64| {
            let mut places = vec![start];
            for (count, stride) in repeats {
                places = places.iter().flat_map(|at| (0..*count as i64).map(move |n| at + n * stride)).collect();
            }
            places.into_iter().flat_map(|at| at..at + length).collect::<BTreeSet<i64>>()
        };
        let all = |counts: [u64; 2]| vec![(counts[0], 24), (counts[1], 6)];
        for (of_a, of_b) in [([1, 1], [1, 1]), ([3, 2], [2, 4]), ([4, 4], [1, 3]), ([2, 1], [3, 3])] {
            for (long_a, long_b) in [(2, 3), (6, 1), (4, 4)] {
                for distance in 0..120 {
                    let (a, b) = (all(of_a), all(of_b));
                    let meets = !bytes(0, &a, long_a).is_disjoint(&bytes(distance, &b, long_b));
                    let what = format!("{of_a:?} of {long_a}, {of_b:?} of {long_b}, {distance} apart");
                    assert_eq!(meet(distance, (&a, long_a), (&b, long_b)), meets, "{what}");
                }
            }
        }
    }

    fn accesses(views: &[View]) -> Vec<Access> {
        views.iter().map(|view| Access { start: 0, bytes: view.pattern().size() }).collect()
    }

    fn planned(views: &[View], accesses: &[Access], nodes: &[u64], plan: &Plan) -> Exchange {
        Exchange::plan(views, rows(views).as_deref(), accesses, nodes, plan).unwrap()
    }

    /// Extents that a rank writes, in the order of the file.
    fn written(exchange: &Exchange, domain: &Domain, plan: &Plan) -> Vec<Extent> {
        let windows = (0..exchange.rounds(plan)).filter_map(|round| exchange.window(domain, round, plan));
        let mut all: Vec<Extent> = Vec::new();
        for extent in windows.flat_map(|window| window.extents) {
            match all.last_mut() {
                Some(last) if last.end() == Some(extent.offset) => last.length += extent.length,
                _ => all.push(extent),
            }
        }
        all
    }

    /// Each byte of each of these ranks is in one window, of a domain of its row.
    fn check(views: &[View], accesses: &[Access], exchange: &Exchange, plan: &Plan, step: usize) {
        for rank in (0..views.len() as u32).step_by(step) {
            let (view, access) = (&views[rank as usize], &accesses[rank as usize]);
            let Some((row, _)) = exchange.row_of(rank) else {
                assert!(access.bytes == 0 || exchange.alone.contains(&rank));
                continue;
            };
            let mut at = access.start;
            for domain in exchange.domains.iter().filter(|domain| domain.row == row) {
                for window in (0..exchange.rounds(plan)).filter_map(|round| exchange.window(domain, round, plan)) {
                    let part = access.within(view, &window.file);
                    assert!(part.is_empty() || part.start == at);
                    at = at.max(part.end);
                    // They have a place in the window.
                    let mut filled = Filled { runs: Vec::new(), bytes: Vec::new(), extents: Vec::new() };
                    let mut place = 0;
                    for extent in window.extents {
                        filled.runs.push((extent, place));
                        place += extent.length as usize;
                    }
                    let mut hint = 0;
                    assert!(view.extents(part).take(100).all(|extent| filled.place(&extent, &mut hint).is_some()));
                }
            }
            assert_eq!(at, access.start + access.bytes);
        }
    }

    #[test]
    fn domains_cover_what_is_written_once_for_thousands_of_ranks() {
        for (n, side, most) in [(64, 2, 4), (4096, 4, 16), (65_536, 32, 1024), (8192, 64, 64)] {
            let views = blocks(n, side);
            let (accesses, plan) = (accesses(&views), Plan::default());
            let exchange = planned(&views, &accesses, &[], &plan);
            assert!(exchange.domains.len() <= most && !exchange.domains.is_empty());
            let mut all: Vec<Extent> = exchange.domains.iter().flat_map(|d| written(&exchange, d, &plan)).collect();
            all.sort_unstable_by_key(|extent| extent.offset);
            assert_eq!((all[0].offset, all.last().unwrap().end().unwrap()), (100, 100 + n * n));
            assert!(all.windows(2).all(|pair| pair[0].end() == Some(pair[1].offset)));
            check(&views, &accesses, &exchange, &plan, 7);
        }
        let views = blocks(64, 2);
        let none = planned(&views, &[Access::default(); 4], &[], &Plan::default());
        assert!(none.domains.is_empty() && none.alone.is_empty());
    }

    /// Boxes of an array of 8-byte elements for a grid of ranks, the last dimension contiguous.
    fn boxes(array: [u64; 3], grid: [u64; 3]) -> Vec<View> {
        let of = |rank: u64| {
            let at = [rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]];
            let cut = |d: usize, n: u64| array[d] * n / grid[d];
            Datatype::Subarray {
                sizes: array.to_vec(),
                subsizes: (0..3).map(|d| cut(d, at[d] + 1) - cut(d, at[d])).collect(),
                starts: (0..3).map(|d| cut(d, at[d])).collect(),
                order: Order::C,
                of: Box::new(Datatype::Elementary(8)),
            }
        };
        (0..grid.iter().product()).map(|rank| View::new(0, &byte(), of(rank).pattern().unwrap()).unwrap()).collect()
    }

    /// What an exchange among 1,024 ranks on 64 nodes costs: bytes that change their rank, pairs of ranks that exchange some, extents that
    /// are written, the shortest of them.
    fn counted(views: &[View], exchange: &Exchange, plan: &Plan) -> (u64, u64, u64, u64) {
        let (mut moved, mut pairs, mut extents, mut shortest) = (0, 0, 0, u64::MAX);
        for domain in &exchange.domains {
            let all = written(exchange, domain, plan);
            extents += all.len() as u64;
            shortest = all.iter().map(|e| e.length).min().unwrap_or(0).min(shortest);
            let windows: Vec<_> =
                (0..exchange.rounds(plan)).filter_map(|round| exchange.window(domain, round, plan)).collect();
            for rank in exchange.rows[domain.row].ranks.iter().filter(|rank| **rank != domain.rank) {
                let view = &views[*rank as usize];
                let access = Access { start: 0, bytes: view.pattern().size() };
                let bytes: u64 = windows.iter().map(|w| access.within(view, &w.file)).map(|r| r.end - r.start).sum();
                (moved, pairs) = (moved + bytes, pairs + u64::from(bytes > 0));
            }
        }
        (moved, pairs, extents, shortest)
    }

    #[test]
    fn blocks_of_an_array_are_exchanged_within_rows_of_the_grid_for_1024_ranks() {
        // 64 GiB, 8 x 8 x 16 ranks.
        let (views, plan) = (boxes([2048, 2048, 2048], [8, 8, 16]), Plan::default());
        let runs = |view: &View| (view.pattern().size(), view.extents(0..1 << 20).map(|e| e.length).max());
        assert_eq!(runs(&views[0]), ((64 << 30) / 1024, Some(1024)), "67,108,864 runs that ranks write for themselves");
        let (accesses, nodes): (_, Vec<u64>) = (accesses(&views), (0..1024).map(|rank| rank / 16).collect());
        let in_rows = rows(&views).unwrap();
        assert_eq!(in_rows.len(), 64, "the fastest dimension is no longer split");
        assert!(in_rows.iter().all(|row| row.ranks.len() == 16 && row.ranks.windows(2).all(|r| r[1] == r[0] + 1)));
        let exchange = planned(&views, &accesses, &nodes, &plan);
        assert_eq!(exchange.domains.len(), 1024, "all ranks write");
        check(&views, &accesses, &exchange, &plan, 93);
        let (moved, pairs, extents, shortest) = counted(&views, &exchange, &plan);
        assert_eq!((moved, pairs), ((64u64 << 30) / 16 * 15, 1024 * 15), "each rank meets the 15 others of its row");
        assert_eq!((extents, shortest), (16_384, 4 << 20));
        // One range of the file for each rank, as two-phase I/O without the decomposition: 127 partners in place of 15.
        let flat = Exchange::plan(&views, None, &accesses, &nodes, &plan).unwrap();
        let (moved, pairs, extents, shortest) = counted(&views, &flat, &plan);
        assert_eq!((moved, pairs), ((64u64 << 30) / 128 * 127, 1024 * 127));
        assert_eq!((extents, shortest), (1024, 64 << 20));
    }

    #[test]
    fn uneven_blocks_and_accesses_of_a_part_are_planned_too() {
        for (array, grid) in
            [([301, 1031, 1777], [3, 5, 7]), ([64, 4096, 1000], [1, 64, 3]), ([5, 7, 300_000], [5, 1, 6])]
        {
            let views = boxes(array, grid);
            let nodes: Vec<u64> = (0..views.len() as u64).map(|rank| rank % 4).collect();
            for (start, share) in [(0, 1.0), (8, 0.6), (800, 0.01)] {
                let some = |(rank, view): (usize, &View)| match rank % 5 {
                    4 if share < 1.0 => Access::default(),
                    _ => Access { start, bytes: (view.pattern().size() as f64 * share) as u64 },
                };
                let accesses: Vec<Access> = views.iter().enumerate().map(some).collect();
                let several = [
                    Plan::default(),
                    Plan { writers: Some(2), ..Plan::default() },
                    Plan { writers: Some(90), window: 700_001, unit: Some(12_345) },
                ];
                for plan in several {
                    let exchange = planned(&views, &accesses, &nodes, &plan);
                    check(&views, &accesses, &exchange, &plan, 1);
                    let writers = exchange.domains.iter().map(|domain| domain.rank).collect::<BTreeSet<u32>>();
                    assert_eq!(writers.len(), exchange.domains.len(), "a rank has one domain");
                    assert!(plan.writers.is_none_or(|wanted| writers.len() as u64 <= wanted));
                }
            }
        }
    }

    #[test]
    fn ranks_that_write_are_spread_over_nodes_and_on_each_node() {
        let ranks: Vec<u32> = (0..32).collect();
        let nodes: Vec<u64> = (0..32).map(|rank| rank / 8).collect();
        assert_eq!(spread(&ranks, &nodes, 4, 0), [0, 8, 16, 24]);
        assert_eq!(spread(&ranks, &nodes, 2, 1), [8, 16]);
        assert_eq!(spread(&ranks, &nodes, 8, 0), [0, 4, 8, 12, 16, 20, 24, 28]);
        assert_eq!(spread(&ranks, &nodes, 99, 3), ranks);
        assert_eq!(spread(&[3, 9, 10], &nodes, 2, 0), [3, 9]);
        assert_eq!(spread(&[9, 10, 11, 3], &[], 2, 0).len(), 2);
    }

    #[test]
    fn a_plan_says_how_many_ranks_write_where_their_domains_begin_and_how_much_at_a_time() {
        let views = blocks(4096, 4);
        let accesses = accesses(&views);
        let plan = Plan { writers: Some(3), window: 100_000, unit: Some(10_000) };
        let three = planned(&views, &accesses, &[], &plan);
        assert_eq!(three.domains.len(), 3);
        assert_eq!((three.domains[0].range.start, three.domains[2].range.end), (100, 100 + 4096 * 4096));
        assert!(three.domains[1..].iter().all(|domain| domain.range.start % 10_000 == 0));
        let windows: Vec<Window> =
            (0..three.rounds(&plan)).filter_map(|round| three.window(&three.domains[0], round, &plan)).collect();
        assert!(windows.iter().all(|window| window.file.end - window.file.start <= 100_000));
        let sum: u64 = windows.iter().map(|window| window.file.end - window.file.start).sum();
        assert_eq!(sum, three.domains[0].range.end - three.domains[0].range.start);
        // More than there are ranks, and units longer than what is written: some ranks write nothing.
        let plan = Plan { writers: Some(100), unit: Some(1 << 30), ..plan };
        let all = planned(&views, &accesses, &[], &plan);
        assert_eq!(all.domains.len(), 16);
        assert_eq!(all.domains.iter().map(|d| d.range.end - d.range.start).sum::<u64>(), 4096 * 4096);
    }

    #[test]
    fn a_window_is_what_its_ranks_have_put_and_gives_it_back() {
        let views = blocks(60, 2);
        let accesses: Vec<Access> = (0..4).map(|rank| Access { start: rank * 11, bytes: 500 + rank }).collect();
        // With a gap, in which no rank has bytes.
        let window = Window { file: 1000..3000, extents: vec![Extent::new(1000, 700), Extent::new(1720, 1280)] };
        let mut filled = Filled::new(&window).unwrap();
        let mut expected = vec![None; 2000];
        let mut taken = Vec::new();
        for (rank, (view, access)) in views.iter().zip(&accesses).enumerate() {
            for file in [1000..1700, 1720..3000] {
                let range = access.within(view, &file);
                let bytes: Vec<u8> = range.clone().map(|v| (v * 3 + rank as u64) as u8).collect();
                for v in range.clone() {
                    expected[(view.file_offset(v).unwrap() - 1000) as usize] = Some((v * 3 + rank as u64) as u8);
                }
                assert!(filled.put(view, range.clone(), &bytes));
                let fewer = bytes.is_empty() || !filled.put(view, range.clone(), &bytes[1..]);
                assert!(fewer, "fewer bytes than the view says");
                taken.push((view, range, bytes));
            }
        }
        assert!(!filled.put(&views[0], 0..1, &[0]), "a byte in front of the window");
        for (view, range, bytes) in &taken {
            assert_eq!(filled.get(view, range.clone()).as_ref(), Some(bytes));
        }
        assert_eq!(filled.get(&views[0], 0..1), None);
        let mut got = vec![None; 2000];
        let runs = filled.runs(0);
        assert!(runs.windows(2).all(|pair| pair[0].offset + pair[0].length < pair[1].offset), "runs are joined");
        for run in runs {
            for (i, byte) in filled.bytes(&run).iter().enumerate() {
                got[(run.offset - 1000) as usize + i] = Some(*byte);
            }
        }
        assert_eq!(got, expected);
        // What is to be read is joined over short gaps, but not over those of the window.
        taken.iter().for_each(|(view, range, _)| filled.want(view, range.clone(), 100));
        let wanted = filled.runs(100);
        assert_eq!(wanted.len(), 2, "{wanted:?}");
        assert!(wanted.iter().all(|run| filled.bytes_mut(run).len() as u64 == run.length));
    }
}
