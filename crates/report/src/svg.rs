//! SVG documents: a canvas, colours, and the round numbers of a grid.
//!
//! | question | answer |
//! |---|---|
//! | text from files | escaped for XML; control characters become spaces |
//! | attributes and path data | written as passed: callers pass their own, never text from files |

use std::fmt::Write;

/// Colours that colour-blind readers can distinguish (Okabe and Ito 2008).
pub const COLORS: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];
/// An SVG document that is being drawn: white background, sans-serif text.
pub struct Canvas(String);

impl Canvas {
    /// An empty document; width and height in SVG user units.
    pub fn new(width: f64, height: f64) -> Canvas {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">"
        );
        let _ = writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>");
        Canvas(out)
    }

    /// Text at a point.
    ///
    /// - `anchor`: which part of the text is at the point: `start`, `middle` or `end`; `more`: further attributes.
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

    /// A path: `d` is SVG path data, `more` holds stroke and fill attributes.
    pub fn path(&mut self, d: &str, more: &str) {
        let _ = writeln!(self.0, "<path d=\"{d}\" {more}/>");
    }

    /// A circle.
    pub fn circle(&mut self, x: f64, y: f64, radius: f64, more: &str) {
        let _ = writeln!(self.0, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" {more}/>");
    }

    /// An image whose pixels stay sharp: `url` is written as passed.
    pub fn image(&mut self, at: [f64; 2], size: [f64; 2], url: &str) {
        let ([x, y], [width, height]) = (at, size);
        let _ = writeln!(
            self.0,
            "<image x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width}\" height=\"{height}\" image-rendering=\"pixelated\" href=\"{url}\"/>"
        );
    }

    /// The document.
    pub fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

/// The label of a grid line: three decimals at most.
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
    fn text_is_escaped() {
        let mut canvas = Canvas::new(10.0, 10.0);
        canvas.text(1.0, 2.0, "start", "", "a<b & c\u{7}</text>");
        let document = canvas.finish();
        let parsed = roxmltree::Document::parse(&document).unwrap();
        let text = parsed.descendants().find(|n| n.has_tag_name("text")).unwrap();
        assert_eq!(text.text(), Some("a<b & c </text>"));
    }

    #[test]
    fn grid_lines_are_at_round_numbers() {
        assert_eq!((step(22.0), step(1.0), step(0.03), step(0.0)), (50.0, 1.0, 0.05, 1.0));
    }
}
