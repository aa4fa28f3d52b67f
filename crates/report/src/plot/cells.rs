//! A picture as lines of characters.
//!
//! | content | with colours | without |
//! |---|---|---|
//! | one line | dots of Braille, two by four in a character | the same |
//! | several lines | each in its colour | each with a mark of its own, one for each character |
//! | a plane | half blocks, two pixels in a character | characters from light to dark; blank where there is no value |

use super::colors::{self, Color};
use super::page::{elements, x_ticks};
use super::raster::line as dots_of_line;
use super::scale::label;
use super::{Content, Line, Plane, Plot, Scale, segments};

/// What a character is printed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// As text is.
    Text,
    /// Frames and labels.
    Aside,
    /// The colour of the line of this number.
    Line(usize),
    /// This colour.
    Shade(Color),
}

/// One character of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The character.
    pub symbol: char,
    /// Its colour.
    pub ink: Ink,
    /// The colour behind it.
    pub ground: Option<Color>,
}

impl Cell {
    const BLANK: Cell = Cell { symbol: ' ', ink: Ink::Text, ground: None };
}

/// How a picture is made of characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Characters in a line.
    pub columns: usize,
    /// Lines, those of title, legend and labels too.
    pub lines: usize,
    /// Whether colours are shown.
    pub colors: bool,
}

/// Marks of lines where there are no colours.
const MARKS: [char; 7] = ['*', '+', 'x', 'o', '#', '@', '%'];
/// From the least to the greatest value.
const SHADES: [char; 9] = ['.', ':', '-', '=', '+', '*', '#', '%', '@'];
/// Characters of the ramp below a plane.
const RAMP: usize = 24;

/// A picture as lines of characters; `None` if there is nothing to draw.
pub fn picture(plot: &Plot, look: Look) -> Option<Vec<Vec<Cell>>> {
    let values = plot.values()?;
    let mut page: Vec<Vec<Cell>> = Vec::new();
    if !plot.title.is_empty() {
        page.push(text(&plot.title, Ink::Text));
    }
    match &plot.content {
        Content::Lines(lines) => draw_lines(plot, lines, &values, look, &mut page),
        Content::Plane(plane) => draw_plane(plot, plane, &values, look, &mut page),
    }
    for line in &mut page {
        line.truncate(look.columns.max(1));
        while line.last() == Some(&Cell::BLANK) {
            line.pop();
        }
    }
    Some(page)
}

/// The characters alone.
pub fn plain(page: &[Vec<Cell>]) -> String {
    page.iter().map(|line| line.iter().map(|cell| cell.symbol).chain(['\n']).collect::<String>()).collect()
}

fn text(text: &str, ink: Ink) -> Vec<Cell> {
    text.chars().map(|symbol| Cell { symbol, ink, ground: None }).collect()
}

/// Writes a text into a line, so far as there is nothing yet; `at` may be left of it.
fn put(line: &mut Vec<Cell>, at: i64, what: &str, ink: Ink) {
    let at = at.max(0) as usize;
    let end = at + what.chars().count();
    if line.len() < end + 1 {
        line.resize(end + 1, Cell::BLANK);
    }
    let is_free = line[at.saturating_sub(1)..=end].iter().all(|cell| cell.symbol == ' ');
    if is_free {
        line.splice(at..end, text(what, ink));
    }
}

fn draw_lines(plot: &Plot, lines: &[Line], values: &Scale, look: Look, page: &mut Vec<Vec<Cell>>) {
    let Some(x) = plot.x() else { return };
    let has_marks = lines.len() > 1 && !look.colors;
    if lines.len() > 1 {
        page.extend(legend(lines, look, has_marks));
    }
    let names = usize::from(!plot.x_name.is_empty() || !plot.y_name.is_empty());
    let height = look.lines.saturating_sub(page.len() + 2 + names).max(2);
    let ticks = values.ticks((height / 3).max(1));
    let labels = values.labels(&ticks);
    let left = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let width = look.columns.saturating_sub(left + 2).max(2);
    let (fine_across, fine_down) = if has_marks { (1, 1) } else { (2, 4) };
    let [across, down] = [(width * fine_across - 1) as f64, (height * fine_down - 1) as f64];
    let mut cells = vec![vec![Cell::BLANK; width]; height];
    for (number, line) in lines.iter().enumerate() {
        for [from, to] in segments(line, &x, values) {
            let place = |[at, up]: [f64; 2]| [(at * across).round() as i64, ((1.0 - up) * down).round() as i64];
            dots_of_line(place(from), place(to), &mut |dot_x, dot_y| {
                let (column, row) = (dot_x as usize / fine_across, dot_y as usize / fine_down);
                let cell = &mut cells[row][column];
                cell.ink = Ink::Line(number);
                cell.symbol = match has_marks {
                    true => MARKS[number % MARKS.len()],
                    false => braille(cell.symbol, dot_x as usize % 2, dot_y as usize % 4),
                };
            });
        }
    }
    let row_of = |tick: f64| values.position(tick).map(|up| ((1.0 - up) * (height - 1) as f64).round() as usize);
    for (row, of_row) in cells.into_iter().enumerate() {
        let tick = ticks.iter().position(|tick| row_of(*tick) == Some(row));
        let (label, frame) = tick.map_or(("", '│'), |number| (labels[number].as_str(), '┤'));
        let mut line = text(&format!("{label:>left$} {frame}"), Ink::Aside);
        line.extend(of_row);
        page.push(line);
    }
    let ticks = x_ticks(&x, lines, (width / 10).max(1));
    let mut frame = text(&format!("{:>left$} └", ""), Ink::Aside);
    frame.extend(text(&"─".repeat(width), Ink::Aside));
    let mut below = Vec::new();
    for (tick, label) in ticks.iter().zip(x.labels(&ticks)) {
        let Some(at) = x.position(*tick) else { continue };
        let column = left + 2 + (at * (width - 1) as f64).round() as usize;
        frame[column].symbol = '┬';
        let begin =
            (column as i64 - label.chars().count() as i64 / 2).min(look.columns as i64 - label.chars().count() as i64);
        put(&mut below, begin, &label, Ink::Aside);
    }
    page.extend([frame, below]);
    page.extend(named(plot, look));
}

fn legend(lines: &[Line], look: Look, has_marks: bool) -> Vec<Vec<Cell>> {
    let mut all: Vec<Vec<Cell>> = vec![Vec::new()];
    for (number, line) in lines.iter().enumerate() {
        let mark = if has_marks { MARKS[number % MARKS.len()].to_string() } else { "──".into() };
        let mut entry = text(&mark, Ink::Line(number));
        entry.extend(text(&format!(" {}", line.name), Ink::Text));
        match all.last_mut() {
            Some(last) if last.is_empty() => last.extend(entry),
            Some(last) if last.len() + 3 + entry.len() <= look.columns => {
                last.extend([Cell::BLANK; 3]);
                last.extend(entry);
            }
            _ => all.push(entry),
        }
    }
    all
}

/// The line of the names of axes.
fn named(plot: &Plot, look: Look) -> Option<Vec<Cell>> {
    if plot.x_name.is_empty() && plot.y_name.is_empty() {
        return None;
    }
    let mut line = Vec::new();
    if !plot.y_name.is_empty() {
        put(&mut line, 0, &plot.y_name, Ink::Aside);
    }
    let length = plot.x_name.chars().count();
    put(&mut line, look.columns as i64 - length as i64, &plot.x_name, Ink::Aside);
    Some(line)
}

/// A character with one more dot.
fn braille(symbol: char, x: usize, y: usize) -> char {
    const FIRST: u32 = 0x2800;
    let dot = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]][y][x];
    let before = u32::from(symbol).checked_sub(FIRST).filter(|dots| *dots < 256).unwrap_or(0);
    char::from_u32(FIRST + (before | dot)).unwrap_or(symbol)
}

fn draw_plane(plot: &Plot, plane: &Plane, values: &Scale, look: Look, page: &mut Vec<Vec<Cell>>) {
    let names = usize::from(!plot.x_name.is_empty() || !plot.y_name.is_empty());
    let height = look.lines.saturating_sub(page.len() + 2 + names).max(1);
    let labels: Vec<String> = plane.rows.iter().map(|row| label(*row)).collect();
    let left = [labels.first(), labels.last()].into_iter().flatten().map(|l| l.chars().count()).max().unwrap_or(0);
    let width = look.columns.saturating_sub(left + 1).max(1);
    let per_cell = if look.colors { 2 } else { 1 };
    // Characters are about twice as high as wide: without colours an element is two characters wide for each line.
    let grid = match look.colors {
        true => plane.fit(height * 2, width),
        false => {
            let [rows, columns] = plane.fit(height, width / 2);
            if columns == plane.columns.len() * (columns / plane.columns.len().max(1)) && columns * 2 <= width {
                [rows, columns * 2]
            } else {
                plane.fit(height, width)
            }
        }
    };
    let position = |v: f64| values.position(v).unwrap_or(f64::NAN);
    let pixels: Vec<f64> = plane.pixels(grid, |v| values.position(v).is_some()).into_iter().map(position).collect();
    let [rows, columns] = grid;
    let labelled: Vec<usize> = elements(plane.rows.len(), (rows / per_cell / 2).max(1)).collect();
    // In the middle of its pixels.
    let line_of = |element: usize| (2 * element + 1) * rows / (2 * plane.rows.len().max(1)) / per_cell;
    for row in 0..rows.div_ceil(per_cell) {
        let name =
            labelled.iter().find(|element| line_of(**element) == row).map_or("", |element| labels[*element].as_str());
        let mut line = text(&format!("{name:>left$} "), Ink::Aside);
        for column in 0..columns {
            let upper = pixels[row * per_cell * columns + column];
            line.push(match look.colors {
                true => {
                    let lower = pixels.get((row * 2 + 1) * columns + column).map(|v| colors::of(*v));
                    Cell { symbol: '▀', ink: Ink::Shade(colors::of(upper)), ground: lower }
                }
                false => Cell { symbol: shade(upper), ink: Ink::Text, ground: None },
            });
        }
        page.push(line);
    }
    let mut below = Vec::new();
    for column in elements(plane.columns.len(), (columns / 8).max(1)) {
        let name = label(plane.columns[column]);
        let middle = (2 * column + 1) * columns / (2 * plane.columns.len().max(1));
        put(&mut below, (left + 1 + middle) as i64 - name.chars().count() as i64 / 2, &name, Ink::Aside);
    }
    page.push(below);
    page.extend(named(plot, look));
    page.push(ramp(values, look));
}

/// The values of the least and the greatest colour, with those between.
fn ramp(values: &Scale, look: Look) -> Vec<Cell> {
    let ends = [values.least, values.most];
    let [least, most] = ends.map(label);
    let mut line = text(&format!("{least} "), Ink::Aside);
    line.extend((0..RAMP).map(|number| {
        let at = number as f64 / (RAMP - 1) as f64;
        match look.colors {
            true => Cell { symbol: '█', ink: Ink::Shade(colors::of(at)), ground: None },
            false => Cell { symbol: shade(at), ink: Ink::Text, ground: None },
        }
    }));
    let log = if values.log { "   logarithmic" } else { "" };
    line.extend(text(&format!(" {most}{log}"), Ink::Aside));
    line
}

fn shade(position: f64) -> char {
    if position.is_nan() {
        return ' ';
    }
    let at = position.clamp(0.0, 1.0) * SHADES.len() as f64;
    SHADES[(at as usize).min(SHADES.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: &[(&str, &[[f64; 2]])]) -> Plot {
        let line = |(name, points): &(&str, &[[f64; 2]])| Line { name: (*name).to_string(), points: points.to_vec() };
        Plot {
            title: "run.bp: u".into(),
            x_name: "step".into(),
            y_name: String::new(),
            content: Content::Lines(lines.iter().map(line).collect()),
            log: false,
            range: [None, None],
        }
    }

    fn numbered(values: &[f64]) -> Vec<[f64; 2]> {
        values.iter().enumerate().map(|(x, y)| [x as f64, *y]).collect()
    }

    fn shown(plot: &Plot, columns: usize, lines: usize) -> String {
        plain(&picture(plot, Look { columns, lines, colors: false }).unwrap())
    }

    fn plane(rows: usize, columns: usize, value: impl Fn(usize, usize) -> f64) -> Plot {
        let values = (0..rows * columns).map(|i| value(i / columns, i % columns)).collect();
        let numbers = |n: usize| (0..n).map(|i| i as f64).collect();
        let plane = Plane { values, rows: numbers(rows), columns: numbers(columns) };
        Plot { content: Content::Plane(plane), ..lines(&[]) }
    }

    #[test]
    fn lines_are_as_reviewed() {
        let wave: Vec<f64> = (0..40).map(|i| (f64::from(i) / 4.0).sin()).collect();
        insta::assert_snapshot!("wave", shown(&lines(&[("u", &numbered(&wave))]), 60, 14));
        let rising = numbered(&[0.0, 1.0, 4.0, 9.0, 16.0, 25.0]);
        let falling = numbered(&[25.0, 20.0, f64::NAN, 10.0, 5.0, 0.0]);
        insta::assert_snapshot!("two_lines", shown(&lines(&[("rising", &rising), ("falling", &falling)]), 60, 14));
        let powers: Vec<f64> = (0..7).map(|i| 10f64.powi(i)).collect();
        let logarithmic = Plot { log: true, ..lines(&[("n", &numbered(&powers))]) };
        insta::assert_snapshot!("logarithmic", shown(&logarithmic, 60, 14));
        insta::assert_snapshot!("constant", shown(&lines(&[("c", &numbered(&[3.0; 5]))]), 40, 8));
        insta::assert_snapshot!("one_value", shown(&lines(&[("c", &[[7.0, 3.0]])]), 40, 8));
        let cut = Plot { range: [Some(0.0), Some(10.0)], ..lines(&[("n", &numbered(&powers))]) };
        insta::assert_snapshot!("cut_by_its_range", shown(&cut, 40, 8));
    }

    #[test]
    fn planes_are_as_reviewed() {
        insta::assert_snapshot!("small_plane", shown(&plane(3, 4, |r, c| (r * 4 + c) as f64), 60, 14));
        let hill = |r: usize, c: usize| (-((r as f64 - 50.0).powi(2) + (c as f64 - 60.0).powi(2)) / 800.0).exp();
        insta::assert_snapshot!("large_plane", shown(&plane(100, 120, hill), 60, 20));
        let holes = |r: usize, c: usize| if r == c { f64::NAN } else { 1.0 };
        insta::assert_snapshot!("plane_with_holes", shown(&plane(4, 4, holes), 40, 10));
    }

    #[test]
    fn a_dot_is_at_the_place_of_its_value() {
        let plot =
            Plot { title: String::new(), x_name: String::new(), ..lines(&[("u", &numbered(&[0.0, 10.0, 5.0]))]) };
        let page = picture(&plot, Look { columns: 24, lines: 12, colors: true }).unwrap();
        // Two columns for labels, one blank and the frame; ten lines for values.
        let left = page[0].iter().position(|cell| cell.symbol == '┤').unwrap() + 1;
        let width = 24 - left;
        let has_dot = |x: usize, y: usize| {
            let symbol = page[y / 4].get(left + x / 2).map_or(' ', |cell| cell.symbol);
            u32::from(symbol)
                .checked_sub(0x2800)
                .is_some_and(|dots| dots & [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]][y % 4][x % 2] != 0)
        };
        let last = 2 * width - 1;
        assert!(has_dot(0, 39) && has_dot((last as f64 / 2.0).round() as usize, 0));
        assert!(has_dot(last, ((0.5 * 39.0f64).round()) as usize));
        assert!(!has_dot(0, 0) && !has_dot(last, 39));
        assert!(page.iter().flatten().filter(|cell| cell.ink == Ink::Line(0)).count() > 10);
    }

    #[test]
    fn a_plane_in_colours_has_two_pixels_in_a_character() {
        let plot = plane(2, 2, |r, c| (r * 2 + c) as f64);
        let page = picture(&plot, Look { columns: 7, lines: 5, colors: true }).unwrap();
        let shades: Vec<&Cell> = page.iter().flatten().filter(|cell| cell.symbol == '▀').collect();
        assert_eq!(shades.len(), 2, "{page:?}");
        let at = |v: f64| colors::of(v / 3.0);
        assert_eq!((shades[0].ink, shades[0].ground), (Ink::Shade(at(0.0)), Some(at(2.0))));
        assert_eq!((shades[1].ink, shades[1].ground), (Ink::Shade(at(1.0)), Some(at(3.0))));
    }

    #[test]
    fn any_size_is_drawn_within_it() {
        let line = lines(&[("u", &numbered(&[1.0, 2.0])), ("v", &numbered(&[1.0, f64::INFINITY]))]);
        for (columns, lines) in [(1, 1), (10, 3), (300, 100)] {
            for plot in [&line, &plane(5, 7, |r, _| r as f64)] {
                for colors in [false, true] {
                    let page = picture(plot, Look { columns, lines, colors }).unwrap();
                    assert!(page.iter().all(|line| line.len() <= columns), "{columns} {lines}");
                    assert!(lines < 10 || page.len() <= lines, "{columns} {lines}: {}", page.len());
                }
            }
        }
        assert_eq!(
            picture(&lines(&[("u", &numbered(&[f64::NAN]))]), Look { columns: 9, lines: 9, colors: true }),
            None
        );
    }
}
