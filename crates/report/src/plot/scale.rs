//! An axis: values to positions from 0 to 1, linear or logarithmic, with ticks at round numbers.

use crate::svg::step;

/// An axis from its least to its greatest value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Value at position 0.
    pub least: f64,
    /// Value at position 1, above `least`.
    pub most: f64,
    /// Whether positions grow with the logarithm.
    pub log: bool,
}

impl Scale {
    /// The axis of these values; those that it cannot show do not count. `None` if it can show none.
    ///
    /// - `range`: its ends, as far as they are given; the first is below the second.
    pub fn of(values: impl Iterator<Item = f64>, log: bool, range: [Option<f64>; 2]) -> Option<Scale> {
        let there = values.filter(|v| v.is_finite() && !(log && *v <= 0.0));
        let ends = there.fold(None, |ends, v| match ends {
            None => Some((v, v)),
            Some((least, most)) => Some((v.min(least), v.max(most))),
        });
        let (least, most) = ends?;
        let (least, most) = (range[0].unwrap_or(least), range[1].unwrap_or(most));
        if least < most {
            return Some(Scale { least, most, log });
        }
        // All values equal, or beyond the one end that is given.
        let wider = |v: f64, up: f64| match (log, v == 0.0) {
            (true, _) => v * 10f64.powf(up),
            (false, true) => up,
            (false, false) => v + up * v.abs() * 0.1,
        };
        let (below, above) = match range {
            [Some(least), _] => (least, wider(least, 1.0)),
            [_, Some(most)] => (wider(most, -1.0), most),
            _ => (wider(least, -1.0), wider(most, 1.0)),
        };
        let (below, above) = (below.max(f64::MIN), above.min(f64::MAX));
        let below = if log { below.max(f64::MIN_POSITIVE) } else { below };
        Some(Scale { least: below, most: above, log }).filter(|scale| scale.least < scale.most)
    }

    /// The axis up to the ticks around its ends, except for ends that are given.
    pub fn rounded(self, range: [Option<f64>; 2]) -> Scale {
        let (least, most) = match self.log {
            true => (power_of_ten(self.least.log10().floor()), power_of_ten(self.most.log10().ceil())),
            false => {
                let step = self.step(5);
                ((self.least / step).floor() * step, (self.most / step).ceil() * step)
            }
        };
        let usual = |v: f64| v.is_finite() && !(self.log && v <= 0.0);
        Scale {
            least: range[0].unwrap_or(if usual(least) { least } else { self.least }),
            most: range[1].unwrap_or(if usual(most) { most } else { self.most }),
            ..self
        }
    }

    /// The position of a value: 0 at the least, 1 at the greatest, beyond them outside; `None` for one that has none.
    pub fn position(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.log && value <= 0.0) {
            return None;
        }
        let [least, most, value] = [self.least, self.most, value].map(|v| match self.log {
            true => v.log10(),
            // The range of doubles is wider than the largest of them.
            false => v / 2.0,
        });
        Some((value - least) / (most - least)).filter(|at| at.is_finite())
    }

    fn step(&self, most: usize) -> f64 {
        let step = step((self.most / 2.0 - self.least / 2.0) / most as f64 * 2.0);
        if step.is_finite() && step > 0.0 { step } else { self.most / 2.0 - self.least / 2.0 }
    }

    /// Values for ticks, rising: about `most` of them, at round numbers.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        let most = most.max(1);
        let inside = |v: &f64| *v >= self.least && *v <= self.most;
        let ticks: Vec<f64> = match self.log {
            true => {
                let (first, last) = (self.least.log10().floor() as i32, self.most.log10().ceil() as i32);
                let every = ((last - first) as usize).div_ceil(most).max(1);
                let parts: &[f64] = if last - first <= 1 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let powers = (first..=last).step_by(every);
                powers.flat_map(|power| parts.iter().map(move |part| part * power_of_ten(f64::from(power)))).collect()
            }
            false => {
                let step = self.step(most);
                // Rounding takes no tick away.
                let slack = 1e-6;
                let first = (self.least / step - slack).ceil();
                let all = (0..=4 * most).map(|i| (first + i as f64) * step + 0.0);
                all.take_while(|v| *v <= self.most + slack * step).map(|v| v.clamp(self.least, self.most)).collect()
            }
        };
        let mut ticks: Vec<f64> = ticks.into_iter().filter(inside).collect();
        ticks.dedup();
        if ticks.is_empty() { vec![self.least, self.most] } else { ticks }
    }

    /// The labels of ticks: as many digits as tell them apart.
    pub fn labels(&self, ticks: &[f64]) -> Vec<String> {
        let between = ticks.windows(2).map(|w| (w[1] - w[0]).abs()).filter(|d| *d > 0.0).fold(f64::INFINITY, f64::min);
        let between = if self.log || !between.is_finite() { None } else { Some(between) };
        let largest = ticks.iter().fold(0.0f64, |largest, v| largest.max(v.abs()));
        ticks.iter().map(|v| labelled(*v, between, if self.log { *v } else { largest })).collect()
    }
}

/// A power of ten, as it is written.
fn power_of_ten(power: f64) -> f64 {
    format!("1e{power:.0}").parse().unwrap_or(f64::NAN)
}

/// A number for a label, in up to six digits.
pub fn label(value: f64) -> String {
    labelled(value, None, value)
}

/// A number for a label.
///
/// - `between`: the distance of its neighbours, of which a part is told; `None`: up to six digits; `largest`: the largest of the labels, which
///   have one form.
fn labelled(value: f64, between: Option<f64>, largest: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let largest = largest.abs().log10().floor() as i32;
    // The place of the last figure that counts.
    let last = match between {
        Some(between) => (between.log10() + 1e-9).floor() as i32,
        None => magnitude - 5,
    };
    let trim = |text: String| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    };
    if (-4..6).contains(&largest) && last >= -10 {
        let text = format!("{value:.*}", (-last).clamp(0, 17) as usize);
        return if between.is_some() { text } else { trim(text) };
    }
    let text = format!("{value:.*e}", (magnitude - last).clamp(0, 16) as usize);
    match text.split_once('e') {
        Some((mantissa, exponent)) => format!("{}e{exponent}", trim(mantissa.to_string())),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: [Option<f64>; 2] = [None, None];

    fn of(values: &[f64]) -> Scale {
        Scale::of(values.iter().copied(), false, FREE).unwrap()
    }

    #[test]
    fn what_cannot_be_shown_does_not_count() {
        assert_eq!(of(&[f64::NAN, 3.0, f64::INFINITY, 1.0]), Scale { least: 1.0, most: 3.0, log: false });
        assert_eq!(Scale::of([f64::NAN].into_iter(), false, FREE), None);
        assert_eq!(Scale::of([-1.0, 0.0].into_iter(), true, FREE), None);
        assert_eq!(Scale::of([].into_iter(), false, FREE), None);
        let log = Scale::of([0.0, 1.0, 100.0, -3.0].into_iter(), true, FREE).unwrap();
        assert_eq!((log.least, log.most, log.position(10.0), log.position(0.0)), (1.0, 100.0, Some(0.5), None));
    }

    #[test]
    fn a_constant_is_in_the_middle() {
        for v in [5.0, -5.0, 0.0, 1e300, -1e-300] {
            let scale = of(&[v, v]);
            assert!((scale.position(v).unwrap() - 0.5).abs() < 1e-9, "{v}: {scale:?}");
        }
        let log = Scale::of([5.0].into_iter(), true, FREE).unwrap();
        assert_eq!((log.least, log.most), (0.5, 50.0));
        // The ends of all numbers.
        assert!(of(&[f64::MAX]).least < f64::MAX && of(&[f64::MIN]).most > f64::MIN);
    }

    #[test]
    fn given_ends_are_the_ends() {
        let scale = Scale::of([1.0, 2.0].into_iter(), false, [Some(-1.0), Some(7.0)]).unwrap();
        assert_eq!((scale.least, scale.most, scale.position(9.0)), (-1.0, 7.0, Some(1.25)));
        assert_eq!(scale.rounded([Some(-1.0), Some(7.0)]), scale);
        // Everything lies beyond the end.
        let beyond = Scale::of([1.0, 2.0].into_iter(), false, [Some(5.0), None]).unwrap();
        assert_eq!((beyond.least, beyond.most), (5.0, 5.5));
    }

    #[test]
    fn the_widest_range_has_positions() {
        let scale = of(&[f64::MIN, f64::MAX]);
        assert_eq!(
            (scale.position(f64::MIN), scale.position(0.0), scale.position(f64::MAX)),
            (Some(0.0), Some(0.5), Some(1.0))
        );
        assert!(!scale.ticks(5).is_empty() && scale.rounded(FREE).least.is_finite());
        let tiny = of(&[0.0, 5e-324]);
        assert!(!tiny.ticks(5).is_empty());
        let near = of(&[1e16, 1e16 + 2.0]);
        assert!(near.ticks(5).len() <= 21, "{:?}", near.ticks(5));
    }

    #[test]
    fn ticks_are_round_numbers_and_labels_tell_them_apart() {
        let told = |scale: Scale, most| scale.labels(&scale.ticks(most)).join(" ");
        assert_eq!(told(of(&[0.0, 1.0]), 5), "0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(told(of(&[-3.0, 17.0]), 5), "0 5 10 15");
        assert_eq!(told(of(&[0.0, 1_200_000.0]), 3), "0 5e5 1e6");
        assert_eq!(told(of(&[1000.0, 1000.003]), 3), "1000.000 1000.001 1000.002 1000.003");
        assert_eq!(told(of(&[0.0, 3e-9]), 3), "0 1e-9 2e-9 3e-9");
        let log = |least, most| Scale { least, most, log: true };
        assert_eq!(told(log(0.1, 1000.0), 5), "0.1 1 10 100 1000");
        assert_eq!(told(log(1.0, 10.0), 5), "1 2 5 10");
        assert_eq!(told(log(1e-300, 1e300), 4), "1e-300 1e-150 1 1e150 1e300");
        assert_eq!(told(log(3.1, 3.2), 5), "3.1 3.2");
        assert_eq!(of(&[0.13, 0.88]).rounded(FREE), Scale { least: 0.0, most: 1.0, log: false });
        assert_eq!(log(3.0, 40.0).rounded(FREE), log(1.0, 100.0));
    }
}
