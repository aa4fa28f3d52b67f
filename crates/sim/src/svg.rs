//! Pictures as SVG: a canvas for whoever draws, and the picture of a figure: lines over named places, published numbers as
//! rings.

use crate::figure::Drawn;
use std::fmt::Write;

/// Colours that are told apart with any sight (Okabe and Ito 2008).
pub const COLORS: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;

/// An SVG document in the making, white, its text without serifs.
pub struct Canvas(String);

impl Canvas {
    /// Empty, so many units wide and high.
    pub fn new(width: f64, height: f64) -> Canvas {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">"
        );
        let _ = writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>");
        Canvas(out)
    }

    /// Text at a place.
    ///
    /// - `anchor`: `start`, `middle` or `end` of it is there; `more`: further attributes.
    pub fn text(&mut self, x: f64, y: f64, anchor: &str, more: &str, what: &str) {
        let what = what.replace('&', "&amp;").replace('<', "&lt;");
        let what: String = what.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let _ = writeln!(self.0, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {more}>{what}</text>");
    }

    /// A filled rectangle.
    pub fn area(&mut self, x: f64, y: f64, width: f64, height: f64, color: &str) {
        let _ = writeln!(
            self.0,
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"{color}\"/>"
        );
    }

    /// A path: `d` as SVG has it, `more` how it is drawn.
    pub fn path(&mut self, d: &str, more: &str) {
        let _ = writeln!(self.0, "<path d=\"{d}\" {more}/>");
    }

    /// A circle.
    pub fn circle(&mut self, x: f64, y: f64, radius: f64, more: &str) {
        let _ = writeln!(self.0, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" {more}/>");
    }

    /// The document.
    pub fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

/// The picture as an SVG document.
pub fn picture(figure: &Drawn) -> String {
    let highest = figure
        .series
        .iter()
        .flat_map(|s| s.y.iter().copied())
        .chain(figure.published.iter().filter_map(|p| p.value))
        .chain(figure.limit.iter().map(|(_, y)| *y))
        .fold(0.0, f64::max);
    let step = step(highest / 5.0);
    let top = ((highest / step).ceil() * step).max(step);
    let x = |i: usize| {
        let places = figure.x.len().max(2) as f64 - 1.0;
        LEFT + (WIDTH - LEFT - RIGHT) * (i as f64 / places * 0.94 + 0.03)
    };
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value / top).clamp(0.0, 1.0);
    let mut out = Canvas::new(WIDTH, HEIGHT);
    out.text(LEFT, 24.0, "start", "font-size=\"15\"", figure.title);
    out.text(LEFT, 40.0, "start", "fill=\"#555\"", &figure.machine);
    let mut line = 0.0;
    while line <= top * 1.0001 {
        let at = y(line);
        out.path(&format!("M{LEFT} {at:.1}H{:.1}", WIDTH - RIGHT), "stroke=\"#ddd\"");
        out.text(LEFT - 6.0, at + 4.0, "end", "", &number(line));
        line += step;
    }
    for (i, name) in figure.x.iter().enumerate() {
        out.text(x(i), HEIGHT - BOTTOM + 18.0, "middle", "", name);
    }
    out.text((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16.0, "middle", "", figure.x_name);
    let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
    out.text(18.0, middle, "middle", &format!("transform=\"rotate(-90 18 {middle})\""), figure.y_name);
    if let Some((name, value)) = &figure.limit {
        let at = y(*value);
        out.path(&format!("M{LEFT} {at:.1}H{:.1}", WIDTH - RIGHT), "stroke=\"#555\" stroke-dasharray=\"5 4\"");
        out.text(LEFT + 6.0, at - 5.0, "start", "fill=\"#555\"", name);
    }
    for (i, series) in figure.series.iter().enumerate() {
        let color = COLORS[i % COLORS.len()];
        let mut path = String::new();
        for (j, value) in series.y.iter().enumerate() {
            let _ = write!(path, "{}{:.1} {:.1}", if j == 0 { "M" } else { "L" }, x(j), y(*value));
        }
        let line = format!("stroke=\"{color}\" stroke-width=\"2\"");
        out.path(&path, &format!("fill=\"none\" {line}"));
        for (j, value) in series.y.iter().enumerate() {
            out.circle(x(j), y(*value), 3.0, &format!("fill=\"{color}\""));
        }
        let row = TOP + 10.0 + 20.0 * i as f64;
        out.path(&format!("M{:.1} {row:.1}h18", WIDTH - RIGHT + 12.0), &line);
        out.text(WIDTH - RIGHT + 36.0, row + 4.0, "start", "", &series.name);
    }
    let mut row = TOP + 10.0 + 20.0 * figure.series.len() as f64;
    for published in &figure.published {
        let (Some(value), Some(at)) = (published.value, published.x) else { continue };
        for cx in [x(at), WIDTH - RIGHT + 21.0] {
            let cy = if cx < WIDTH - RIGHT { y(value) } else { row };
            out.circle(cx, cy, 6.0, "fill=\"none\" stroke=\"#000\" stroke-width=\"2\"");
        }
        out.text(WIDTH - RIGHT + 36.0, row + 4.0, "start", "", "published");
        row += 20.0;
    }
    out.finish()
}

/// A number beside a line of the grid.
pub fn number(value: f64) -> String {
    // Never -0.
    let rounded = (value * 1000.0).round() / 1000.0 + 0.0;
    format!("{rounded}")
}

/// 1, 2 or 5 times a power of ten, not below `least`.
pub fn step(least: f64) -> f64 {
    if least.is_nan() || least <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= least * 0.999).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_grid_stand_at_round_numbers() {
        assert_eq!((step(22.0), step(1.0), step(0.03), step(0.0)), (50.0, 1.0, 0.05, 1.0));
    }
}
