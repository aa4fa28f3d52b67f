//! A plane of values, in as many pixels as there is room for.

/// Pixels that an element gets at most along each side.
const MOST: usize = 256;

/// Values in rows; row 0 is drawn at the top, column 0 at the left.
#[derive(Debug, Clone, PartialEq)]
pub struct Plane {
    /// Row-major; as many as rows times columns.
    pub values: Vec<f64>,
    /// Index or step of each row.
    pub rows: Vec<f64>,
    /// Index or step of each column.
    pub columns: Vec<f64>,
}

impl Plane {
    /// Rows and columns of the pixels in which it is drawn: each element has a whole number of them, or each pixel shows several elements.
    ///
    /// - `rows`, `columns`: the room.
    pub fn fit(&self, rows: usize, columns: usize) -> [usize; 2] {
        let (all_rows, all_columns) = (self.rows.len().max(1), self.columns.len().max(1));
        let (tall, wide) = ((rows / all_rows).clamp(1, MOST), (columns / all_columns).clamp(1, MOST));
        // Elements are squares, but for strips that would hardly be seen.
        let side = tall.min(wide);
        let stretched = |all: usize, room: usize, most: usize| match 8 * all * side < room {
            true => most.min(4 * side),
            false => side,
        };
        let (tall, wide) = (stretched(all_rows, rows, tall), stretched(all_columns, columns, wide));
        [(all_rows * tall).min(rows.max(1)), (all_columns * wide).min(columns.max(1))]
    }

    /// The values of pixels: where a pixel shows several elements, the mean of those that `is_drawn` lets pass; NaN if there are none.
    pub fn pixels(&self, [rows, columns]: [usize; 2], is_drawn: impl Fn(f64) -> bool) -> Vec<f64> {
        let span = |pixel: usize, pixels: usize, elements: usize| {
            let from = pixel * elements / pixels;
            from..((pixel + 1) * elements).div_ceil(pixels).clamp(from + 1, elements.max(from + 1))
        };
        // Neighbours share elements where they do not divide evenly, unless there is a pixel for each.
        let spans = |pixels: usize, elements: usize| -> Vec<std::ops::Range<usize>> {
            (0..pixels)
                .map(|pixel| match pixels >= elements {
                    true => {
                        let at = pixel * elements / pixels;
                        at..at + 1
                    }
                    false => span(pixel, pixels, elements),
                })
                .collect()
        };
        let (row_spans, column_spans) = (spans(rows, self.rows.len()), spans(columns, self.columns.len()));
        let mut out = Vec::with_capacity(rows * columns);
        for of_rows in &row_spans {
            for of_columns in &column_spans {
                let (mut mean, mut count) = (0.0, 0.0);
                for row in of_rows.clone() {
                    for column in of_columns.clone() {
                        let value = self.values.get(row * self.columns.len() + column).copied().unwrap_or(f64::NAN);
                        if is_drawn(value) {
                            count += 1.0;
                            // A sum may be beyond all doubles.
                            mean += value / count - mean / count;
                        }
                    }
                }
                out.push(if count > 0.0 { mean } else { f64::NAN });
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plane(rows: usize, columns: usize) -> Plane {
        let values = (0..rows * columns).map(|i| i as f64).collect();
        Plane { values, rows: (0..rows).map(|i| i as f64).collect(), columns: (0..columns).map(|i| i as f64).collect() }
    }

    #[test]
    fn elements_are_squares_where_there_is_room_and_share_pixels_where_there_is_none() {
        assert_eq!(plane(2, 3).fit(100, 30), [20, 30]);
        assert_eq!(plane(2, 3).fit(1000, 1000), [512, 768]);
        assert_eq!(plane(2, 100).fit(100, 100), [8, 100]);
        assert_eq!(plane(1000, 1000).fit(40, 80), [40, 80]);
        assert_eq!(plane(0, 5).fit(10, 10)[1], 10);
    }

    #[test]
    fn a_pixel_shows_the_mean_of_its_elements() {
        let all = |_| true;
        assert_eq!(plane(2, 2).pixels([4, 2], all), [0.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0, 3.0]);
        assert_eq!(plane(2, 4).pixels([1, 2], all), [2.5, 4.5]);
        assert_eq!(plane(2, 4).pixels([1, 2], |v| v > 4.0), [5.0, 6.5]);
        assert!(plane(2, 4).pixels([1, 2], |v| v > 6.0)[0].is_nan());
        let huge = Plane { values: vec![f64::MAX, f64::MAX], rows: vec![0.0], columns: vec![0.0, 1.0] };
        assert_eq!(huge.pixels([1, 1], all), [f64::MAX]);
    }

    #[test]
    fn every_element_is_in_some_pixel() {
        for (elements, pixels) in [(7, 3), (10, 4), (5, 5), (100, 7)] {
            let plane = plane(1, elements);
            for one in 0..elements {
                let seen = plane.pixels([1, pixels], |v| v == one as f64);
                assert!(seen.contains(&(one as f64)), "{one} of {elements} in {pixels}");
            }
        }
    }
}
