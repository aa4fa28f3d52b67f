//! A picture as lines, areas and texts of a page, whatever the page is made of.
//!
//! | part | where |
//! |---|---|
//! | title | top left |
//! | labels of values | left of the frame; of a plane beside the bar of colours, at the right |
//! | labels of the axis | below the frame |
//! | names of lines | right of the frame, if there are several |

use super::colors::{self, Color};
use super::scale::label;
use super::{Content, Line, Plane, Plot, Scale, segments};
use crate::svg::COLORS;

/// What is at the point of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Its left end.
    Left,
    /// Its middle.
    Middle,
    /// Its right end.
    Right,
}

/// Pixels or units of a page, x to the right and y downwards.
pub trait Page {
    /// Width and height.
    fn size(&self) -> [f64; 2];
    /// Width of a character.
    fn character(&self) -> f64;
    /// A filled rectangle.
    fn area(&mut self, at: [f64; 2], size: [f64; 2], color: Color);
    /// Segments of a line, which have its width.
    fn segments(&mut self, segments: &[[[f64; 2]; 2]], color: Color, width: f64);
    /// A line of text; `at` is in the middle of its height.
    fn text(&mut self, at: [f64; 2], anchor: Anchor, color: Color, text: &str);
    /// A line of text that is read upwards; `at` is its middle.
    fn upward(&mut self, at: [f64; 2], color: Color, text: &str);
    /// Pixels in rows, one unit each.
    fn pixels(&mut self, at: [f64; 2], columns: usize, colors: &[Color]);
}

/// The rectangle of a page in which values are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    /// Left end.
    pub left: f64,
    /// Top.
    pub top: f64,
    /// Width, a whole number.
    pub width: f64,
    /// Height, a whole number.
    pub height: f64,
}

const INK: Color = [30, 30, 30];
const ASIDE: Color = [85, 85, 85];
const GRID: Color = [221, 221, 221];
/// Characters of a name in the legend.
const NAME: usize = 28;
/// Width of the bar of colours.
const BAR: f64 = 16.0;
/// Between parts.
const GAP: f64 = 8.0;

/// The colour of a line.
pub fn color_of(line: usize) -> Color {
    colors::parse(COLORS[line % COLORS.len()])
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.to_string();
    }
    name.chars().take(NAME - 3).chain("...".chars()).collect()
}

fn widest(labels: &[String]) -> f64 {
    labels.iter().map(|label| label.chars().count()).max().unwrap_or(0) as f64
}

/// Where values are drawn on a page of this size.
///
/// - `values`: the axis of values.
pub fn frame(plot: &Plot, values: &Scale, [width, height]: [f64; 2], character: f64) -> Frame {
    let name = |name: &str| if name.is_empty() { 0.0 } else { 2.0 * character + GAP };
    let value_labels = widest(&values.labels(&values.ticks(10))) * character;
    let (left, right) = match &plot.content {
        Content::Lines(lines) => {
            let names: Vec<String> = lines.iter().map(|line| shortened(&line.name)).collect();
            let legend = if lines.len() > 1 { widest(&names) * character + 5.0 * GAP } else { 2.0 * GAP };
            (value_labels, legend)
        }
        Content::Plane(plane) => {
            let labels: Vec<String> =
                [plane.rows.first(), plane.rows.last()].into_iter().flatten().map(|v| label(*v)).collect();
            (widest(&labels) * character, 2.0 * GAP + BAR + value_labels + 2.0 * GAP)
        }
    };
    let left = (name(&plot.y_name) + left + 2.0 * GAP).round();
    let top = if plot.title.is_empty() { 2.0 * GAP } else { 2.0 * character + 2.0 * GAP };
    let bottom = 2.0 * character + 2.0 * GAP + name(&plot.x_name);
    let room = |all: f64, before: f64, after: f64| (all - before - after).floor().max(1.0);
    let (room_across, room_down) = (room(width, left, right), room(height, top, bottom));
    match &plot.content {
        Content::Lines(_) => Frame { left, top: top.round(), width: room_across, height: room_down },
        Content::Plane(plane) => {
            let [rows, columns] = plane.fit(room_down as usize, room_across as usize);
            Frame { left, top: top.round(), width: columns as f64, height: rows as f64 }
        }
    }
}

/// Draws a picture; false if there is nothing to draw.
pub fn draw(plot: &Plot, page: &mut impl Page) -> bool {
    let Some(values) = plot.values() else { return false };
    let frame = frame(plot, &values, page.size(), page.character());
    let character = page.character();
    if !plot.title.is_empty() {
        page.text([GAP, GAP + character], Anchor::Left, INK, &plot.title);
    }
    match &plot.content {
        Content::Lines(lines) => draw_lines(plot, lines, &values, &frame, page),
        Content::Plane(plane) => draw_plane(plane, &values, &frame, page),
    }
    let below = frame.top + frame.height + 2.0 * character + 2.0 * GAP;
    if !plot.x_name.is_empty() {
        page.text([frame.left + frame.width / 2.0, below], Anchor::Middle, ASIDE, &plot.x_name);
    }
    if !plot.y_name.is_empty() {
        page.upward([GAP + character / 2.0, frame.top + frame.height / 2.0], ASIDE, &plot.y_name);
    }
    true
}

fn draw_lines(plot: &Plot, lines: &[Line], values: &Scale, frame: &Frame, page: &mut impl Page) {
    let Some(x) = plot.x() else { return };
    let character = page.character();
    let place = |[across, up]: [f64; 2]| {
        [frame.left + across * (frame.width - 1.0), frame.top + (1.0 - up) * (frame.height - 1.0)]
    };
    let ticks = values.ticks((frame.height / (5.0 * character)) as usize);
    for (tick, label) in ticks.iter().zip(values.labels(&ticks)) {
        let Some(up) = values.position(*tick) else { continue };
        let [_, y] = place([0.0, up]);
        page.segments(&[[[frame.left, y], [frame.left + frame.width - 1.0, y]]], GRID, 1.0);
        page.text([frame.left - GAP, y], Anchor::Right, INK, &label);
    }
    let ticks = x_ticks(&x, lines, (frame.width / (10.0 * character)) as usize);
    for (tick, label) in ticks.iter().zip(x.labels(&ticks)) {
        let Some(across) = x.position(*tick) else { continue };
        let [at, bottom] = place([across, 0.0]);
        page.segments(&[[[at, bottom], [at, bottom + GAP / 2.0]]], ASIDE, 1.0);
        page.text([at, bottom + GAP + character], Anchor::Middle, INK, &label);
    }
    let [right, bottom] = [frame.left + frame.width - 1.0, frame.top + frame.height - 1.0];
    page.segments(
        &[[[frame.left, frame.top], [frame.left, bottom]], [[frame.left, bottom], [right, bottom]]],
        ASIDE,
        1.0,
    );
    for (number, line) in lines.iter().enumerate() {
        let segments: Vec<[[f64; 2]; 2]> = segments(line, &x, values).into_iter().map(|ends| ends.map(place)).collect();
        page.segments(&segments, color_of(number), 2.0);
        if lines.len() > 1 {
            let (begin, y) = (frame.left + frame.width + GAP, frame.top + GAP + 2.5 * character * number as f64);
            page.segments(&[[[begin, y], [begin + 2.0 * GAP, y]]], color_of(number), 2.0);
            page.text([begin + 3.0 * GAP, y], Anchor::Left, INK, &shortened(&line.name));
        }
    }
}

fn draw_plane(plane: &Plane, values: &Scale, frame: &Frame, page: &mut impl Page) {
    let character = page.character();
    let grid = [frame.height as usize, frame.width as usize];
    let pixels = plane.pixels(grid, |v| values.position(v).is_some());
    let colors: Vec<Color> = pixels.iter().map(|v| colors::of(values.position(*v).unwrap_or(f64::NAN))).collect();
    page.pixels([frame.left, frame.top], grid[1], &colors);
    let middle = |number: usize, of: usize, length: f64| (number as f64 + 0.5) / of as f64 * length;
    for row in elements(plane.rows.len(), (frame.height / (2.5 * character)) as usize) {
        let y = frame.top + middle(row, plane.rows.len(), frame.height);
        page.text([frame.left - GAP, y], Anchor::Right, INK, &label(plane.rows[row]));
    }
    for column in elements(plane.columns.len(), (frame.width / (8.0 * character)) as usize) {
        let x = frame.left + middle(column, plane.columns.len(), frame.width);
        page.text(
            [x, frame.top + frame.height + GAP + character / 2.0],
            Anchor::Middle,
            INK,
            &label(plane.columns[column]),
        );
    }
    // The bar of colours, as high as the page allows.
    let [_, height] = page.size();
    let (left, top) = (frame.left + frame.width + 2.0 * GAP, frame.top);
    let high = (height - top - 2.0 * character - 3.0 * GAP).floor().clamp(8.0, 400.0);
    for y in 0..high as usize {
        let position = 1.0 - y as f64 / (high - 1.0);
        page.area([left, top + y as f64], [BAR, 1.0], colors::of(position));
    }
    let ticks = values.ticks((high / (5.0 * character)) as usize);
    for (tick, label) in ticks.iter().zip(values.labels(&ticks)) {
        let Some(up) = values.position(*tick) else { continue };
        page.text([left + BAR + GAP, top + (1.0 - up) * (high - 1.0)], Anchor::Left, INK, &label);
    }
}

/// Ticks of the horizontal axis: whole numbers, where all points are at such.
pub(super) fn x_ticks(x: &Scale, lines: &[Line], most: usize) -> Vec<f64> {
    let ticks = x.ticks(most);
    let is_whole = |v: f64| v.fract() == 0.0;
    let all_whole = lines.iter().flat_map(|line| &line.points).all(|[x, _]| is_whole(*x));
    if !all_whole {
        return ticks;
    }
    let whole: Vec<f64> = ticks.iter().copied().filter(|v| is_whole(*v)).collect();
    if whole.is_empty() { ticks } else { whole }
}

/// Which of these elements get a label: about so many at most, at round distances.
pub(super) fn elements(count: usize, most: usize) -> impl Iterator<Item = usize> {
    let least = count.div_ceil(most.max(1)).max(1);
    let every =
        (0..).map(|power| 10usize.saturating_pow(power)).flat_map(|p| [p, p.saturating_mul(2), p.saturating_mul(5)]);
    let every = every.into_iter().find(|every| *every >= least).unwrap_or(least);
    (0..count).step_by(every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_elements_are_at_round_distances() {
        let of = |count, most| elements(count, most).collect::<Vec<_>>();
        assert_eq!(of(5, 10), [0, 1, 2, 3, 4]);
        assert_eq!(of(25, 10), [0, 5, 10, 15, 20]);
        assert_eq!(of(64, 4), [0, 20, 40, 60]);
        assert_eq!(of(0, 4), [0; 0]);
        assert_eq!(of(7, 0), [0]);
    }
}
