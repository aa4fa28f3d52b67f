//! Colours of values: from dark blue over green to yellow, ever lighter, so that they can be told apart without colour, too.

/// A colour: red, green, blue.
pub type Color = [u8; 3];

/// What is no value.
pub const NONE: Color = [200, 200, 200];

const POINTS: [Color; 6] =
    [[20, 12, 70], [52, 58, 138], [38, 110, 142], [42, 160, 122], [130, 205, 80], [250, 232, 50]];

/// The colour of a position: the darkest at 0 and below, the lightest at 1 and above, [`NONE`] for NaN.
pub fn of(position: f64) -> Color {
    if position.is_nan() {
        return NONE;
    }
    let at = position.clamp(0.0, 1.0) * (POINTS.len() - 1) as f64;
    let below = (at as usize).min(POINTS.len() - 2);
    let part = at - below as f64;
    [0, 1, 2].map(|c| {
        let (a, b) = (f64::from(POINTS[below][c]), f64::from(POINTS[below + 1][c]));
        (a + part * (b - a)).round() as u8
    })
}

/// `#rrggbb`.
pub fn text([r, g, b]: Color) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// A colour from `#rrggbb`; black for anything else.
pub fn parse(text: &str) -> Color {
    let part = |at: usize| text.get(at..at + 2).and_then(|part| u8::from_str_radix(part, 16).ok()).unwrap_or(0);
    [part(1), part(3), part(5)]
}

/// Brightness as eyes see it, from 0 to 255.
pub fn brightness([r, g, b]: Color) -> f64 {
    0.2126 * f64::from(r) + 0.7152 * f64::from(g) + 0.0722 * f64::from(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greater_value_is_brighter() {
        let all: Vec<f64> = (0..=100).map(|i| brightness(of(f64::from(i) / 100.0))).collect();
        assert!(all.windows(2).all(|w| w[1] > w[0]), "{all:?}");
        assert_eq!((of(-1.0), of(2.0)), (POINTS[0], POINTS[5]));
        assert_eq!(of(f64::NAN), NONE);
        assert_eq!(parse(&text([1, 171, 255])), [1, 171, 255]);
    }
}
