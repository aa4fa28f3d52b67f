//! The picture of a profile: time to the right, ranks as rows, phases as colours.
//!
//! Each row has the picture's resolution: a column shows the phase that took most of its time; work takes precedence over waiting
//! where work is at least a sixth of the column. Up to 128 ranks have a row each. With more ranks, a band at the top shows the share
//! of ranks in each phase, and only 64 ranks have rows: up to 16 that delayed others, the rest evenly spread over all ranks.

use crate::svg::{Canvas, number, step};
use crate::text::{count, size, steps, time};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use thalweg_profile::waits::{Leaf, Summary, leaves};
use thalweg_profile::{Document, Phase};
use thalweg_types::printable::printable;

const ALL_ROWS: usize = 128;
/// Rows of ranks where not all have one.
const SOME_ROWS: usize = 64;
/// Of these, ranks that delayed others.
const DELAYING_ROWS: usize = 16;
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 84.0;
const BAND: f64 = 110.0;
const COLUMNS: usize = 1780;

fn color(phase: Phase) -> &'static str {
    match phase {
        Phase::Open => "#56B4E9",
        Phase::Wait => "#D9D9D9",
        Phase::Copy => "#F0E442",
        Phase::Characteristics => "#E69F00",
        Phase::Transform => "#CC79A7",
        Phase::Send => "#009E73",
        Phase::Write => "#0072B2",
        Phase::Sync => "#003B5C",
        Phase::Index => "#D55E00",
        Phase::Close => "#8C6BB1",
        Phase::Read => "#44AA99",
        Phase::Calculation | Phase::Iteration => "#EFE9DC",
    }
}

/// Time by column and phase.
type Row = Vec<[f32; Phase::ALL.len()]>;

/// The time span of the picture, in ns.
struct Axis {
    begin: i64,
    end: i64,
}

impl Axis {
    fn column(&self) -> f64 {
        (self.end - self.begin).max(1) as f64 / COLUMNS as f64
    }

    fn x(&self, column: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * column / COLUMNS as f64
    }

    /// Adds a run of time to a row, as shares of columns.
    fn add(&self, row: &mut Row, leaf: &Leaf) {
        let at = |ns: i64| ((ns - self.begin) as f64 / self.column()).clamp(0.0, COLUMNS as f64);
        let (from, to) = (at(leaf.begin), at(leaf.end));
        let mut column = from.floor() as usize;
        while (column as f64) < to && column < COLUMNS {
            let share = to.min(column as f64 + 1.0) - from.max(column as f64);
            row[column][leaf.phase.place()] += share as f32;
            column += 1;
        }
    }
}

/// How much waiting counts beside work.
const IDLE: f32 = 0.2;

fn is_idle(phase: Phase) -> bool {
    phase == Phase::Wait || phase.is_outside()
}

/// Runs of columns of the same dominant phase.
fn runs(row: &Row) -> Vec<(usize, usize, Phase)> {
    let mut runs: Vec<(usize, usize, Phase)> = Vec::new();
    for (column, shares) in row.iter().enumerate() {
        let weight = |phase: Phase| shares[phase.place()] * if is_idle(phase) { IDLE } else { 1.0 };
        let most = Phase::ALL.into_iter().max_by(|a, b| weight(*a).total_cmp(&weight(*b)));
        let Some(phase) = most.filter(|phase| shares[phase.place()] > 0.0) else { continue };
        match runs.last_mut() {
            Some((_, end, last)) if *end == column && *last == phase => *end += 1,
            _ => runs.push((column, column + 1, phase)),
        }
    }
    runs
}

/// The ranks that have a row.
fn chosen(ranks: &[u32], summary: &Summary) -> Vec<u32> {
    if ranks.len() <= ALL_ROWS {
        return ranks.to_vec();
    }
    let mut delaying: Vec<u32> = Vec::new();
    for rank in summary.causes.iter().map(|cause| cause.rank) {
        if delaying.len() < DELAYING_ROWS && !delaying.contains(&rank) {
            delaying.push(rank);
        }
    }
    let mut chosen: BTreeSet<u32> = delaying.into_iter().collect();
    let spread = SOME_ROWS - chosen.len();
    chosen.extend((0..spread).map(|i| ranks[i * (ranks.len() - 1) / (spread - 1)]));
    chosen.into_iter().collect()
}

/// One line that names outputs: `run.bp, step 4, group restart: MPI, 8 ranks`; files that a door served have opens in place of steps, and
/// no group.
///
/// - `whole`: the path of the file instead of its name.
pub fn title(documents: &[Document], whole: bool) -> String {
    let Some(first) = documents.first() else { return String::new() };
    let mut ranks: Vec<u32> = documents.iter().map(|d| d.ranks).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let ranks = match ranks.as_slice() {
        [one] => count(u64::from(*one), "rank"),
        several => format!("{} to {} ranks", several[0], several[several.len() - 1]),
    };
    let same = |of: fn(&Document) -> &str| documents.iter().all(|d| of(d) == of(first));
    let path = Path::new(&first.output);
    let short = path.file_name().filter(|_| !whole).map_or(first.output.clone(), |name| name.display().to_string());
    let name = if same(|d| &d.output) { short } else { count(documents.len() as u64, "output") };
    let mut numbers: Vec<u64> = documents.iter().map(|d| d.step).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let opens = documents.iter().all(|d| d.group.is_empty());
    let group = if !opens && same(|d| &d.group) { format!(", group {}", first.group) } else { String::new() };
    let methods = if documents.iter().all(|d| d.methods == first.methods) {
        first.methods.join(", ")
    } else {
        "several methods".to_string()
    };
    let word = match (opens, numbers.len()) {
        (false, 1) => "step",
        (false, _) => "steps",
        (true, 1) => "open",
        (true, _) => "opens",
    };
    let numbers = steps(&numbers);
    printable(&format!("{name}, {word} {numbers}{group}: {methods}, {ranks}")).into_owned()
}

/// The picture as an SVG document.
///
/// - `documents`: the profiles, which are drawn one behind the other by their starting times; `summary`: of the same profiles.
pub fn picture(documents: &[Document], summary: &Summary) -> String {
    // Outputs lie one behind the other, as they were.
    let first = documents.iter().map(|d| d.began_unix_us).min().unwrap_or(0);
    let mut by_rank: BTreeMap<u32, Vec<Leaf>> = BTreeMap::new();
    for document in documents {
        let later = i64::try_from((document.began_unix_us - first).saturating_mul(1000)).unwrap_or(i64::MAX);
        for part in &document.by_rank {
            let moved = leaves(part).into_iter().map(|leaf| Leaf {
                begin: leaf.begin.saturating_add(later),
                end: leaf.end.saturating_add(later),
                ..leaf
            });
            by_rank.entry(part.rank).or_default().extend(moved);
        }
    }
    let begin = by_rank.values().flatten().map(|leaf| leaf.begin).min().unwrap_or(0);
    let end = by_rank.values().flatten().map(|leaf| leaf.end).max().unwrap_or(1);
    let axis = Axis { begin, end: end.max(begin.saturating_add(1)) };
    let ranks: Vec<u32> = by_rank.keys().copied().collect();
    let rows = chosen(&ranks, summary);
    let all = rows.len() == ranks.len();
    let height = (480.0 / rows.len().max(1) as f64).clamp(5.0, 26.0);
    let band = if all { 0.0 } else { BAND + 24.0 };
    let bottom = TOP + band + height * rows.len() as f64;
    let mut out = Canvas::new(WIDTH, bottom + 52.0);
    out.text(LEFT, 24.0, "start", "font-size=\"15\"", &title(documents, false));
    let bytes = documents.iter().map(|d| d.bytes).sum();
    let took = time(documents.iter().map(Document::elapsed).sum());
    let shown = if all {
        String::new()
    } else {
        format!("; {} of {} ranks have a row; names in bold: they kept others waiting", rows.len(), ranks.len())
    };
    out.text(LEFT, 42.0, "start", "fill=\"#555\"", &format!("{} in {took}{shown}", size(bytes)));
    legend(&mut out, summary);
    grid(&mut out, &axis, bottom);
    if !all {
        shares(&mut out, &axis, by_rank.values());
    }
    let delaying: Vec<u32> = summary.causes.iter().take(DELAYING_ROWS).map(|cause| cause.rank).collect();
    let delays_others = |rank: &u32| !all && delaying.contains(rank);
    // Names need more room than rows may have; those of ranks that kept others waiting come first.
    let room = (11.0 / height).ceil() as usize;
    let mut named: BTreeSet<usize> = BTreeSet::new();
    let first = delaying.iter().filter(|rank| delays_others(rank)).filter_map(|rank| rows.binary_search(rank).ok());
    for i in first.chain(0..rows.len()) {
        if named.range((i + 1).saturating_sub(room)..i + room).next().is_none() {
            named.insert(i);
        }
    }
    for (i, rank) in rows.iter().enumerate() {
        let y = TOP + band + height * i as f64;
        if named.contains(&i) {
            let bold = if delays_others(rank) { " font-weight=\"bold\"" } else { "" };
            let more = format!("font-size=\"10\"{bold}");
            out.text(LEFT - 6.0, y + height / 2.0 + 3.5, "end", &more, &format!("rank {rank}"));
        }
        let mut row: Row = vec![[0.0; Phase::ALL.len()]; COLUMNS];
        by_rank[rank].iter().for_each(|leaf| axis.add(&mut row, leaf));
        let gap = if height > 8.0 { 2.0 } else { 0.6 };
        for (from, to, phase) in runs(&row) {
            let x = axis.x(from as f64);
            out.area(x, y + gap / 2.0, axis.x(to as f64) - x, height - gap, color(phase));
        }
    }
    out.finish()
}

fn legend(out: &mut Canvas, summary: &Summary) {
    let mut x = LEFT;
    for row in summary.phases.iter().filter(|row| row.phase != Phase::Iteration) {
        out.area(x, 54.0, 12.0, 12.0, color(row.phase));
        out.text(x + 16.0, 64.0, "start", "", row.phase.name());
        x += 30.0 + 6.8 * row.phase.name().len() as f64;
    }
}

/// Vertical lines at round times, with labels below.
fn grid(out: &mut Canvas, axis: &Axis, bottom: f64) {
    let length = (axis.end - axis.begin) as f64;
    let (unit, name) = match length {
        _ if length < 5e3 => (1.0, "nanoseconds"),
        _ if length < 5e6 => (1e3, "microseconds"),
        _ if length < 5e9 => (1e6, "milliseconds"),
        _ => (1e9, "seconds"),
    };
    let between = step(length / unit / 8.0);
    // Time 0 is the first open of a rank; earlier times are calculation.
    let mut line = (axis.begin as f64 / unit / between).ceil() * between;
    while line * unit <= axis.end as f64 {
        let x = axis.x((line * unit - axis.begin as f64) / axis.column());
        out.path(&format!("M{x:.1} {:.1}V{bottom:.1}", TOP - 4.0), "stroke=\"#ddd\"");
        out.text(x, bottom + 16.0, "middle", "", &number(line));
        line += between;
    }
    out.text((LEFT + WIDTH - RIGHT) / 2.0, bottom + 36.0, "middle", "", name);
}

/// Which share of the ranks is in which phase, by time.
fn shares<'l>(out: &mut Canvas, axis: &Axis, ranks: impl ExactSizeIterator<Item = &'l Vec<Leaf>>) {
    let count = ranks.len() as f64;
    let mut all: Row = vec![[0.0; Phase::ALL.len()]; COLUMNS];
    ranks.flatten().for_each(|leaf| axis.add(&mut all, leaf));
    let y = |share: f64| TOP + BAND * (1.0 - share.clamp(0.0, 1.0));
    let mut below = vec![0.0f64; COLUMNS];
    for phase in Phase::ALL {
        let of = |column: usize| f64::from(all[column][phase.place()]) / count;
        if (0..COLUMNS).all(|column| of(column) == 0.0) {
            continue;
        }
        let above: Vec<f64> = (0..COLUMNS).map(|column| below[column] + of(column)).collect();
        let mut d = String::new();
        for (column, share) in above.iter().enumerate() {
            let mark = if column == 0 { 'M' } else { 'L' };
            d += &format!("{mark}{:.1} {:.1}", axis.x(column as f64 + 0.5), y(*share));
        }
        for (column, share) in below.iter().enumerate().rev() {
            d += &format!("L{:.1} {:.1}", axis.x(column as f64 + 0.5), y(*share));
        }
        out.path(&format!("{d}Z"), &format!("fill=\"{}\"", color(phase)));
        below = above;
    }
    out.text(LEFT - 6.0, y(1.0) + 8.0, "end", "font-size=\"10\"", "100 %");
    out.text(LEFT - 6.0, y(0.5) + 4.0, "end", "font-size=\"10\"", "of all ranks");
    out.text(LEFT - 6.0, y(0.0), "end", "font-size=\"10\"", "0 %");
}
