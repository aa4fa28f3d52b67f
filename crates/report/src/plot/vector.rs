//! Pages as SVG. Planes are embedded as PNG, a pixel for each unit.

use super::colors::{self, Color};
use super::page::{Anchor, Page, draw};
use super::{Plot, raster};
use crate::svg::Canvas;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;

/// A picture as an SVG document; `None` if there is nothing to draw.
///
/// - `size`: width and height in user units.
pub fn picture(plot: &Plot, size: [usize; 2]) -> Option<String> {
    let size = size.map(|n| n as f64);
    let mut page = Vector { canvas: Canvas::new(size[0], size[1]), size };
    draw(plot, &mut page).then(|| page.canvas.finish())
}

struct Vector {
    canvas: Canvas,
    size: [f64; 2],
}

impl Page for Vector {
    fn size(&self) -> [f64; 2] {
        self.size
    }

    fn character(&self) -> f64 {
        // Of a sans-serif text of 12 units, about.
        7.0
    }

    fn area(&mut self, at: [f64; 2], size: [f64; 2], color: Color) {
        self.canvas.area(at[0], at[1], size[0], size[1], &colors::text(color));
    }

    fn segments(&mut self, segments: &[[[f64; 2]; 2]], color: Color, width: f64) {
        let mut path = String::new();
        let mut end = None;
        for [from, to] in segments {
            if end != Some(*from) {
                let _ = write!(path, "M{:.1} {:.1}", from[0], from[1]);
            }
            let _ = write!(path, "L{:.1} {:.1}", to[0], to[1]);
            end = Some(*to);
        }
        let color = colors::text(color);
        let how = format!(
            "fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" stroke-linecap=\"round\" stroke-linejoin=\"round\""
        );
        self.canvas.path(&path, &how);
    }

    fn text(&mut self, at: [f64; 2], anchor: Anchor, color: Color, text: &str) {
        let anchor = match anchor {
            Anchor::Left => "start",
            Anchor::Middle => "middle",
            Anchor::Right => "end",
        };
        self.canvas.text(at[0], at[1] + 4.0, anchor, &format!("fill=\"{}\"", colors::text(color)), text);
    }

    fn upward(&mut self, at: [f64; 2], color: Color, text: &str) {
        let [x, y] = [at[0] + 4.0, at[1]];
        let how = format!("fill=\"{}\" transform=\"rotate(-90 {x:.1} {y:.1})\"", colors::text(color));
        self.canvas.text(x, y, "middle", &how, text);
    }

    fn pixels(&mut self, at: [f64; 2], columns: usize, pixels: &[Color]) {
        let png = raster::encoded(columns, pixels);
        let url = format!("data:image/png;base64,{}", STANDARD.encode(png));
        let rows = pixels.len() / columns.max(1);
        self.canvas.image(at, [columns as f64, rows as f64], &url);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Content, Line, Plane};
    use super::*;

    fn lines(lines: &[(&str, &[f64])]) -> Plot {
        let line = |(name, values): &(&str, &[f64])| Line {
            name: (*name).to_string(),
            points: values.iter().enumerate().map(|(x, y)| [x as f64, *y]).collect(),
        };
        Plot {
            title: "run.bp <1>".into(),
            x_name: "step".into(),
            y_name: "K".into(),
            content: Content::Lines(lines.iter().map(line).collect()),
            log: false,
            range: [None, None],
        }
    }

    #[test]
    fn a_line_goes_through_its_values() {
        let plot = lines(&[("a", &[0.0, 10.0, 5.0]), ("b", &[5.0, f64::NAN, 5.0])]);
        let document = picture(&plot, [600, 400]).unwrap();
        let parsed = roxmltree::Document::parse(&document).unwrap();
        let paths = |color: &str| -> Vec<&str> {
            let of = parsed.descendants().filter(|n| n.has_tag_name("path") && n.attribute("stroke") == Some(color));
            of.filter_map(|n| n.attribute("d")).collect()
        };
        let frame = super::super::page::frame(&plot, &plot.values().unwrap(), [600.0, 400.0], 7.0);
        let at = |x: f64, y: f64| {
            let across = frame.left + x / 2.0 * (frame.width - 1.0);
            format!("{across:.1} {:.1}", frame.top + (1.0 - y / 10.0) * (frame.height - 1.0))
        };
        // The second path of a colour is the sample in the legend.
        assert_eq!(paths("#0072b2")[0], format!("M{}L{}L{}", at(0.0, 0.0), at(1.0, 10.0), at(2.0, 5.0)));
        assert_eq!(paths("#d55e00")[0], format!("M{0}L{0}M{1}L{1}", at(0.0, 5.0), at(2.0, 5.0)));
        let texts: Vec<_> = parsed.descendants().filter(|n| n.has_tag_name("text")).filter_map(|n| n.text()).collect();
        for text in ["run.bp <1>", "step", "K", "a", "b", "0", "10", "1", "2"] {
            assert!(texts.contains(&text), "{text} in {texts:?}");
        }
        assert!(!texts.contains(&"0.5"), "steps are whole: {texts:?}");
    }

    #[test]
    fn a_plane_is_an_image_and_nothing_is_no_picture() {
        let plane = Plane { values: vec![0.0, 1.0], rows: vec![0.0], columns: vec![0.0, 1.0] };
        let plot = Plot { content: Content::Plane(plane), ..lines(&[]) };
        let document = picture(&plot, [300, 200]).unwrap();
        let parsed = roxmltree::Document::parse(&document).unwrap();
        let image = parsed.descendants().find(|n| n.has_tag_name("image")).unwrap();
        assert!(image.attribute("href").unwrap().starts_with("data:image/png;base64,iVBOR"));
        assert_eq!((image.attribute("width"), image.attribute("height")), (Some("186"), Some("93")));
        assert_eq!(picture(&lines(&[("a", &[f64::NAN])]), [300, 200]), None);
    }
}
