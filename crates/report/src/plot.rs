//! Pictures of values: lines over an axis, and planes as heat maps.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`scale`] | values to positions, linear and logarithmic; ticks and their labels |
//! | [`colors`] | positions to colours |
//! | [`plane`] | a plane in fewer or more pixels than it has elements |
//! | [`cells`] | a picture as lines of characters, for terminals |
//! | [`page`] | a picture as lines, areas and texts of a page |
//! | [`vector`], [`raster`] | pages as SVG and as PNG |
//!
//! All of it is a function of the values: the same values give the same characters and bytes.
//!
//! | value | drawn |
//! |---|---|
//! | NaN, infinities; with a logarithmic axis also 0 and less | a gap in a line, grey in a plane |
//! | beyond a given range | a line is cut at the edge; in a plane the colour of the range's end |
//! | all values equal | in the middle of a range around the value |

pub mod cells;
pub mod colors;
pub mod page;
pub mod plane;
pub mod raster;
pub mod scale;
pub mod vector;

pub use plane::Plane;
pub use scale::Scale;

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in the order in which they are joined; NaN for a gap.
    pub points: Vec<[f64; 2]>,
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Lines over one axis.
    Lines(Vec<Line>),
    /// A plane as a heat map.
    Plane(Plane),
}

/// A picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Title; may be empty.
    pub title: String,
    /// Label of the horizontal axis; may be empty.
    pub x_name: String,
    /// Label of the vertical axis; may be empty.
    pub y_name: String,
    /// What is drawn.
    pub content: Content,
    /// Whether the axis of values is logarithmic.
    pub log: bool,
    /// Ends of the axis of values, as far as they are given.
    pub range: [Option<f64>; 2],
}

impl Plot {
    /// The axis of values; `None` if there is nothing to draw.
    pub fn values(&self) -> Option<Scale> {
        match &self.content {
            Content::Lines(lines) => {
                let points = lines.iter().flat_map(|line| &line.points);
                let there = points.filter(|[x, _]| x.is_finite()).map(|[_, y]| *y);
                Scale::of(there, self.log, self.range).map(|scale| scale.rounded(self.range))
            }
            Content::Plane(plane) => Scale::of(plane.values.iter().copied(), self.log, self.range),
        }
    }

    /// The horizontal axis of lines.
    fn x(&self) -> Option<Scale> {
        let Content::Lines(lines) = &self.content else { return None };
        let y = self.values()?;
        let points = lines.iter().flat_map(|line| &line.points);
        let there = points.filter(|[_, at]| y.position(*at).is_some()).map(|[x, _]| *x);
        Scale::of(there, false, [None, None])
    }

    /// How many values are not drawn, and of how many.
    pub fn left_out(&self) -> (usize, usize) {
        let is_drawn = |v: f64| v.is_finite() && !(self.log && v <= 0.0);
        let count = |values: &mut dyn Iterator<Item = bool>| {
            values.fold((0, 0), |(out, all), drawn| (out + usize::from(!drawn), all + 1))
        };
        match &self.content {
            Content::Lines(lines) => {
                let points = lines.iter().flat_map(|line| &line.points);
                count(&mut points.map(|[x, y]| x.is_finite() && is_drawn(*y)))
            }
            Content::Plane(plane) => count(&mut plane.values.iter().map(|v| is_drawn(*v))),
        }
    }
}

/// The part of a segment inside the unit square, where positions run from 0 to 1 (Liang and Barsky 1984).
fn clipped(from: [f64; 2], to: [f64; 2]) -> Option<[[f64; 2]; 2]> {
    let (mut begin, mut end) = (0.0f64, 1.0f64);
    for d in 0..2 {
        let length = to[d] - from[d];
        for (reach, room) in [(-length, from[d]), (length, 1.0 - from[d])] {
            if reach == 0.0 {
                if room < 0.0 {
                    return None;
                }
            } else if reach < 0.0 {
                begin = begin.max(room / reach);
            } else {
                end = end.min(room / reach);
            }
        }
    }
    let at = |t: f64| [from[0] + t * (to[0] - from[0]), from[1] + t * (to[1] - from[1])];
    // The ends themselves stay as they are.
    let first = if begin == 0.0 { from } else { at(begin) };
    let last = if end == 1.0 { to } else { at(end) };
    (begin <= end).then_some([first, last])
}

/// The segments of a line in positions from 0 to 1; a point without neighbours is a segment of no length.
fn segments(line: &Line, x: &Scale, y: &Scale) -> Vec<[[f64; 2]; 2]> {
    let place = |[at, value]: [f64; 2]| Some([x.position(at)?, y.position(value)?]);
    let places: Vec<Option<[f64; 2]>> = line.points.iter().map(|point| place(*point)).collect();
    let mut segments = Vec::new();
    for (number, place) in places.iter().enumerate() {
        let Some(place) = *place else { continue };
        match (number.checked_sub(1).and_then(|n| places[n]), places.get(number + 1).copied().flatten()) {
            (Some(before), _) => segments.extend(clipped(before, place)),
            (None, None) => segments.extend(clipped(place, place)),
            (None, Some(_)) => {}
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_end_at_the_edges() {
        assert_eq!(clipped([0.0, 0.0], [1.0, 1.0]), Some([[0.0, 0.0], [1.0, 1.0]]));
        assert_eq!(clipped([-1.0, 0.5], [3.0, 0.5]), Some([[0.0, 0.5], [1.0, 0.5]]));
        assert_eq!(clipped([0.5, -1.0], [0.5, 1.0]), Some([[0.5, 0.0], [0.5, 1.0]]));
        assert_eq!(clipped([0.0, 2.0], [1.0, 3.0]), None);
        assert_eq!(clipped([2.0, 0.5], [2.0, 0.5]), None);
    }

    #[test]
    fn gaps_divide_a_line_and_a_lonely_point_is_a_dot() {
        let scale = Scale { least: 0.0, most: 4.0, log: false };
        let points = vec![[0.0, 0.0], [1.0, 4.0], [2.0, f64::NAN], [3.0, 2.0], [4.0, f64::INFINITY]];
        let line = Line { name: "a".into(), points };
        assert_eq!(segments(&line, &scale, &scale), [[[0.0, 0.0], [0.25, 1.0]], [[0.75, 0.5], [0.75, 0.5]]]);
    }
}
