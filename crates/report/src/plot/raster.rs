//! Pages as PNG: whole pixels without smoothing, text in a font of 8 by 8 pixels.

use super::Plot;
use super::colors::Color;
use super::page::{Anchor, Page, draw};
use font8x8::{BASIC_FONTS, GREEK_FONTS, LATIN_FONTS, UnicodeFonts};

/// Pixels of a page above which letters are twice as large.
const LARGE: usize = 1200;

/// A picture as a PNG file; `None` if there is nothing to draw.
///
/// - `size`: width and height in pixels.
pub fn picture(plot: &Plot, size: [usize; 2]) -> Option<Vec<u8>> {
    let page = drawn(plot, size)?;
    Some(encoded(page.width, &page.pixels))
}

fn drawn(plot: &Plot, [width, height]: [usize; 2]) -> Option<Raster> {
    let mut page = Raster {
        width,
        height,
        letters: if width > LARGE { 2 } else { 1 },
        pixels: vec![[255; 3]; width.saturating_mul(height)],
    };
    draw(plot, &mut page).then_some(page)
}

/// Pixels in rows as a PNG file.
pub fn encoded(columns: usize, pixels: &[Color]) -> Vec<u8> {
    let rows = pixels.len() / columns.max(1);
    let mut file = Vec::new();
    let side = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut encoder = png::Encoder::new(&mut file, side(columns), side(rows));
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    // Writing to memory does not fail, and the size is that of the pixels.
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(pixels.as_flattened())?;
        writer.finish()
    });
    written.expect("the pixels of an image fill it");
    file
}

struct Raster {
    width: usize,
    height: usize,
    /// Pixels of a pixel of a letter, along each side.
    letters: usize,
    pixels: Vec<Color>,
}

impl Raster {
    fn dot(&mut self, x: i64, y: i64, color: Color) {
        let inside = (0..self.width as i64).contains(&x) && (0..self.height as i64).contains(&y);
        if inside {
            self.pixels[y as usize * self.width + x as usize] = color;
        }
    }

    /// A letter; `place` turns a pixel of it, from its top left corner, into one of the page.
    fn letter(&mut self, letter: char, color: Color, place: impl Fn(i64, i64) -> (i64, i64)) {
        let known = BASIC_FONTS.get(letter).or_else(|| LATIN_FONTS.get(letter)).or_else(|| GREEK_FONTS.get(letter));
        let rows = known.or_else(|| BASIC_FONTS.get('?')).unwrap_or_default();
        let size = self.letters as i64;
        for (row, bits) in rows.iter().enumerate() {
            for column in (0..8).filter(|column| bits >> column & 1 == 1) {
                for (x, y) in (0..size * size).map(|i| (i % size, i / size)) {
                    let (x, y) = place(i64::from(column) * size + x, row as i64 * size + y);
                    self.dot(x, y, color);
                }
            }
        }
    }
}

fn whole(v: f64) -> i64 {
    v.round() as i64
}

impl Page for Raster {
    fn size(&self) -> [f64; 2] {
        [self.width as f64, self.height as f64]
    }

    fn character(&self) -> f64 {
        8.0 * self.letters as f64
    }

    fn area(&mut self, at: [f64; 2], size: [f64; 2], color: Color) {
        let [left, top] = at.map(whole);
        for y in top..top + whole(size[1]) {
            for x in left..left + whole(size[0]) {
                self.dot(x, y, color);
            }
        }
    }

    fn segments(&mut self, segments: &[[[f64; 2]; 2]], color: Color, width: f64) {
        let width = whole(width * self.letters as f64).max(1);
        for [from, to] in segments {
            let ([x, y], [x_end, y_end]) = (from.map(whole), to.map(whole));
            line([x, y], [x_end, y_end], &mut |x, y| {
                for (dx, dy) in (0..width * width).map(|i| (i % width, i / width)) {
                    self.dot(x + dx - width / 2, y + dy - width / 2, color);
                }
            });
        }
    }

    fn text(&mut self, at: [f64; 2], anchor: Anchor, color: Color, text: &str) {
        let step = whole(self.character());
        let length = step * text.chars().count() as i64;
        let left = whole(at[0])
            - match anchor {
                Anchor::Left => 0,
                Anchor::Middle => length / 2,
                Anchor::Right => length,
            };
        let top = whole(at[1]) - step / 2;
        for (number, letter) in text.chars().enumerate() {
            let left = left + step * number as i64;
            self.letter(letter, color, |x, y| (left + x, top + y));
        }
    }

    fn upward(&mut self, at: [f64; 2], color: Color, text: &str) {
        let step = whole(self.character());
        let bottom = whole(at[1]) + step * text.chars().count() as i64 / 2;
        let left = whole(at[0]) - step / 2;
        for (number, letter) in text.chars().enumerate() {
            let bottom = bottom - step * number as i64;
            self.letter(letter, color, |x, y| (left + y, bottom - x));
        }
    }

    fn pixels(&mut self, at: [f64; 2], columns: usize, pixels: &[Color]) {
        let [left, top] = at.map(whole);
        for (number, color) in pixels.iter().enumerate() {
            self.dot(left + (number % columns) as i64, top + (number / columns) as i64, *color);
        }
    }
}

/// The dots of a line, both ends included (Bresenham 1965).
pub(super) fn line(from: [i64; 2], to: [i64; 2], dot: &mut impl FnMut(i64, i64)) {
    let [mut x, mut y] = from;
    let (across, down) = ((to[0] - x).abs(), -(to[1] - y).abs());
    let (right, below) = ((to[0] - x).signum(), (to[1] - y).signum());
    let mut error = across + down;
    loop {
        dot(x, y);
        if [x, y] == to {
            return;
        }
        let twice = 2 * error;
        if twice >= down {
            error += down;
            x += right;
        }
        if twice <= across {
            error += across;
            y += below;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::{color_of, frame};
    use super::super::{Content, Line, Plane, Scale, colors};
    use super::*;

    /// Width, and pixels.
    fn decoded(file: &[u8]) -> (usize, Vec<Color>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
        bytes.truncate(info.buffer_size());
        (info.width as usize, bytes.as_chunks::<3>().0.to_vec())
    }

    fn plot(content: Content) -> Plot {
        Plot { title: "t".into(), x_name: "x".into(), y_name: "y".into(), content, log: false, range: [None, None] }
    }

    #[test]
    fn every_element_of_a_plane_has_pixels_of_its_colour() {
        let values = vec![0.0, 0.5, 1.0, f64::NAN, 0.25, 0.75];
        let plane = Plane { values: values.clone(), rows: vec![0.0, 1.0], columns: vec![0.0, 1.0, 2.0] };
        let plot = plot(Content::Plane(plane));
        let (width, pixels) = decoded(&picture(&plot, [320, 200]).unwrap());
        let scale = plot.values().unwrap();
        assert_eq!(scale, Scale { least: 0.0, most: 1.0, log: false });
        let frame = frame(&plot, &scale, [320.0, 200.0], 8.0);
        let (tall, wide) = (frame.height as usize / 2, frame.width as usize / 3);
        assert_eq!((tall, wide), (56, 56));
        for (number, value) in values.iter().enumerate() {
            let wanted = colors::of(*value);
            for (x, y) in (0..tall * wide).map(|i| (i % wide, i / wide)) {
                let (x, y) = (frame.left as usize + number % 3 * wide + x, frame.top as usize + number / 3 * tall + y);
                assert_eq!(pixels[y * width + x], wanted, "element {number}, pixel {x}, {y}");
            }
        }
    }

    #[test]
    fn a_line_passes_the_pixels_of_its_values_and_nothing_else_has_its_colour() {
        let points = vec![[0.0, 0.0], [1.0, 10.0], [2.0, f64::NAN], [3.0, 5.0], [4.0, 5.0]];
        let plot = plot(Content::Lines(vec![Line { name: "a".into(), points: points.clone() }]));
        let (width, pixels) = decoded(&picture(&plot, [400, 300]).unwrap());
        let frame = frame(&plot, &plot.values().unwrap(), [400.0, 300.0], 8.0);
        let place = |x: f64, y: f64| {
            let across = (frame.left + x / 4.0 * (frame.width - 1.0)).round() as usize;
            (across, (frame.top + (1.0 - y / 10.0) * (frame.height - 1.0)).round() as usize)
        };
        for [x, y] in points.iter().filter(|[_, y]| y.is_finite()) {
            let (across, down) = place(*x, *y);
            assert_eq!(pixels[down * width + across], color_of(0), "{x}, {y}");
        }
        // Between 1 and 3 is a gap.
        let colored = |column: usize| (0..300).any(|row| pixels[row * width + column] == color_of(0));
        let (end, begin) = (place(1.0, 0.0).0 + 2, place(3.0, 0.0).0 - 2);
        assert!((end..begin).all(|column| !colored(column)));
        assert!((place(3.0, 0.0).0..place(4.0, 0.0).0).all(colored));
    }

    #[test]
    fn pictures_of_any_size_and_names_of_any_letters_are_drawn() {
        let points = vec![[0.0, 1.0], [1.0, 2.0]];
        let lines = ["é", "速度", "Ω"].map(|name| Line { name: name.into(), points: points.clone() });
        let lines = plot(Content::Lines(lines.to_vec()));
        let plane = Plane { values: vec![1.0; 9], rows: vec![0.0, 1.0, 2.0], columns: vec![0.0, 1.0, 2.0] };
        let plane = plot(Content::Plane(plane));
        for size in [[1, 1], [20, 10], [2000, 50], [1300, 900]] {
            for plot in [&lines, &plane] {
                let (width, pixels) = decoded(&picture(plot, size).unwrap());
                assert_eq!((width, pixels.len()), (size[0], size[0] * size[1]));
            }
        }
        assert_eq!(picture(&plot(Content::Lines(vec![])), [100, 100]), None);
    }

    #[test]
    fn letters_are_upright_and_in_order() {
        let mut page = Raster { width: 24, height: 12, letters: 1, pixels: vec![[255; 3]; 24 * 12] };
        page.text([0.0, 4.0], Anchor::Left, [0; 3], "L1");
        let row =
            |y: usize| (0..24).map(|x| if page.pixels[y * 24 + x] == [0; 3] { '#' } else { '.' }).collect::<String>();
        let foot = row(6);
        // The foot of an L is wide, and its head is at the left.
        assert!(foot[..8].matches('#').count() > 4, "{foot}");
        assert!(row(0)[..3].contains('#') && !row(0)[5..8].contains('#'), "{}", row(0));
    }
}
