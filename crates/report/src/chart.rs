//! Line charts as SVG: series over named categories, a limit, published values as rings.

use crate::svg::{COLORS, Canvas, number, step};
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// One value for each category.
    pub y: Vec<f64>,
}

/// A line chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chart<'a> {
    /// Title.
    pub title: &'a str,
    /// The line below the title.
    pub subtitle: &'a str,
    /// Label of the horizontal axis.
    pub x_name: &'a str,
    /// Label of the vertical axis, with its unit.
    pub y_name: &'a str,
    /// The categories, from left to right.
    pub x: &'a [String],
    /// The lines.
    pub series: &'a [Series],
    /// A dashed horizontal line: its name and value.
    pub limit: Option<(&'a str, f64)>,
    /// Published values.
    pub published: Vec<Ring>,
}

/// A published value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ring {
    /// Its category.
    pub at: usize,
    /// Its height.
    pub value: f64,
    /// Number of the line that it belongs to, whose colour it gets; `None`: black, of no line in particular.
    pub series: Option<usize>,
}

/// The chart as an SVG document.
pub fn picture(chart: &Chart<'_>) -> String {
    let highest = chart
        .series
        .iter()
        .flat_map(|s| s.y.iter().copied())
        .chain(chart.published.iter().map(|ring| ring.value))
        .chain(chart.limit.map(|(_, y)| y))
        .fold(0.0, f64::max);
    let step = step(highest / 5.0);
    let top = ((highest / step).ceil() * step).max(step);
    let x = |i: usize| {
        let categories = chart.x.len().max(2) as f64 - 1.0;
        LEFT + (WIDTH - LEFT - RIGHT) * (i as f64 / categories * 0.94 + 0.03)
    };
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value / top).clamp(0.0, 1.0);
    let mut out = Canvas::new(WIDTH, HEIGHT);
    out.text(LEFT, 24.0, "start", "font-size=\"15\"", chart.title);
    out.text(LEFT, 40.0, "start", "fill=\"#555\"", chart.subtitle);
    let mut line = 0.0;
    while line <= top * 1.0001 {
        let at = y(line);
        out.path(&format!("M{LEFT} {at:.1}H{:.1}", WIDTH - RIGHT), "stroke=\"#ddd\"");
        out.text(LEFT - 6.0, at + 4.0, "end", "", &number(line));
        line += step;
    }
    for (i, name) in chart.x.iter().enumerate() {
        out.text(x(i), HEIGHT - BOTTOM + 18.0, "middle", "", name);
    }
    out.text((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16.0, "middle", "", chart.x_name);
    let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
    out.text(18.0, middle, "middle", &format!("transform=\"rotate(-90 18 {middle})\""), chart.y_name);
    if let Some((name, value)) = chart.limit {
        let at = y(value);
        out.path(&format!("M{LEFT} {at:.1}H{:.1}", WIDTH - RIGHT), "stroke=\"#555\" stroke-dasharray=\"5 4\"");
        out.text(LEFT + 6.0, at - 5.0, "start", "fill=\"#555\"", name);
    }
    for (i, series) in chart.series.iter().enumerate() {
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
    let mut row = TOP + 10.0 + 20.0 * chart.series.len() as f64;
    let style = |ring: &Ring| {
        let color = ring.series.map_or("#000", |series| COLORS[series % COLORS.len()]);
        format!("fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"")
    };
    let mut explained: Vec<Option<usize>> = Vec::new();
    for ring in &chart.published {
        out.circle(x(ring.at), y(ring.value), 6.0, &style(ring));
        if explained.contains(&ring.series) {
            continue;
        }
        explained.push(ring.series);
        out.circle(WIDTH - RIGHT + 21.0, row, 6.0, &style(ring));
        let of = ring.series.and_then(|series| chart.series.get(series));
        let label = of.map_or("published".to_string(), |series| format!("{}, published", series.name));
        out.text(WIDTH - RIGHT + 36.0, row + 4.0, "start", "", &label);
        row += 20.0;
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_lines_its_limit_and_its_published_values() {
        let x = ["8".to_string(), "64".to_string()];
        let series =
            [Series { name: "MPI <a>".into(), y: vec![1.0, 3.0] }, Series { name: "POSIX".into(), y: vec![2.0, 4.0] }];
        let chart = Chart {
            title: "Bandwidth",
            x_name: "ranks",
            y_name: "GB/s",
            x: &x,
            series: &series,
            limit: Some(("all targets", 5.0)),
            published: vec![
                Ring { at: 1, value: 3.5, series: None },
                Ring { at: 0, value: 2.5, series: Some(1) },
                Ring { at: 1, value: 4.5, series: Some(1) },
            ],
            ..Chart::default()
        };
        let picture = picture(&chart);
        let parsed = roxmltree::Document::parse(&picture).unwrap();
        let count = |tag: &str| parsed.descendants().filter(|n| n.has_tag_name(tag)).count();
        // Two circles for each line, a ring for each published value, and one in the legend for those of each line and of none.
        assert_eq!(count("circle"), 2 * 2 + 3 + 2);
        let texts: Vec<_> = parsed.descendants().filter(|n| n.has_tag_name("text")).filter_map(|n| n.text()).collect();
        for text in [
            "Bandwidth",
            "ranks",
            "GB/s",
            "8",
            "64",
            "MPI <a>",
            "POSIX",
            "all targets",
            "published",
            "POSIX, published",
        ] {
            assert!(texts.contains(&text), "{text} in {texts:?}");
        }
    }
}
