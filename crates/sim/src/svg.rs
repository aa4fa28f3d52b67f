//! The picture of a figure: lines over named places, published numbers as rings.

use crate::figure::Drawn;
use std::fmt::Write;

/// Colours that are told apart with any sight (Okabe and Ito 2008).
const COLORS: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;

/// The picture as an SVG document.
pub fn picture(figure: &Drawn) -> String {
    let mut out = String::new();
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
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">"
    );
    let _ = writeln!(out, "<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>");
    text(&mut out, LEFT, 24.0, "start", "font-size=\"15\"", figure.title);
    text(&mut out, LEFT, 40.0, "start", "fill=\"#555\"", &figure.machine);
    let mut line = 0.0;
    while line <= top * 1.0001 {
        let at = y(line);
        let _ = writeln!(out, "<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"#ddd\"/>", WIDTH - RIGHT);
        text(&mut out, LEFT - 6.0, at + 4.0, "end", "", &number(line));
        line += step;
    }
    for (i, name) in figure.x.iter().enumerate() {
        text(&mut out, x(i), HEIGHT - BOTTOM + 18.0, "middle", "", name);
    }
    text(&mut out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16.0, "middle", "", figure.x_name);
    let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
    text(&mut out, 18.0, middle, "middle", &format!("transform=\"rotate(-90 18 {middle})\""), figure.y_name);
    if let Some((name, value)) = &figure.limit {
        let at = y(*value);
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"#555\" stroke-dasharray=\"5 4\"/>",
            WIDTH - RIGHT
        );
        text(&mut out, LEFT + 6.0, at - 5.0, "start", "fill=\"#555\"", name);
    }
    for (i, series) in figure.series.iter().enumerate() {
        let color = COLORS[i % COLORS.len()];
        let mut path = String::new();
        for (j, value) in series.y.iter().enumerate() {
            let _ = write!(path, "{}{:.1} {:.1}", if j == 0 { "M" } else { "L" }, x(j), y(*value));
        }
        let _ = writeln!(out, "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>");
        for (j, value) in series.y.iter().enumerate() {
            let _ = writeln!(out, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{color}\"/>", x(j), y(*value));
        }
        let row = TOP + 10.0 + 20.0 * i as f64;
        let _ = writeln!(
            out,
            "<path d=\"M{:.1} {row:.1}h18\" stroke=\"{color}\" stroke-width=\"2\"/>",
            WIDTH - RIGHT + 12.0
        );
        text(&mut out, WIDTH - RIGHT + 36.0, row + 4.0, "start", "", &series.name);
    }
    let mut row = TOP + 10.0 + 20.0 * figure.series.len() as f64;
    for published in &figure.published {
        let (Some(value), Some(at)) = (published.value, published.x) else { continue };
        for cx in [x(at), WIDTH - RIGHT + 21.0] {
            let cy = if cx < WIDTH - RIGHT { y(value) } else { row };
            let _ = writeln!(
                out,
                "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"6\" fill=\"none\" stroke=\"#000\" stroke-width=\"2\"/>"
            );
        }
        text(&mut out, WIDTH - RIGHT + 36.0, row + 4.0, "start", "", "published");
        row += 20.0;
    }
    out.push_str("</svg>\n");
    out
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, more: &str, what: &str) {
    let what = what.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {more}>{what}</text>");
}

fn number(value: f64) -> String {
    let rounded = (value * 1000.0).round() / 1000.0;
    format!("{rounded}")
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn step(least: f64) -> f64 {
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
