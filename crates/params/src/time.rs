//! Durations as text: with units by the library `humantime` (`30s`, `5min`, `1h 30m`), or a bare number in a declared unit.

use std::time::Duration;

/// Unit of a number without unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Unit::Milliseconds => "milliseconds",
            Unit::Seconds => "seconds",
        }
    }

    const fn seconds(self) -> f64 {
        match self {
            Unit::Milliseconds => 1e-3,
            Unit::Seconds => 1.0,
        }
    }
}

/// Longest duration: a year, which is practically unlimited and can be added to any time.
pub const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// A duration: `200us`, `100ms`, `30s`, `5min`, `1h 30m`. A number without unit, also with a fraction, has the unit `bare`; if
/// that is `None`, it is refused. `None` for other texts and for more than [`LONGEST`].
pub fn time(text: &str, bare: Option<Unit>) -> Option<Duration> {
    let text = text.trim();
    let number = || Duration::try_from_secs_f64(text.parse::<f64>().ok()? * bare?.seconds()).ok();
    number().or_else(|| humantime::parse_duration(text).ok()).filter(|time| *time <= LONGEST)
}

/// A duration in seconds if it is a whole number of them, else in milliseconds: `60 s`, `100 ms`.
pub fn show_time(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{} s", time.as_secs()),
        _ => format!("{} ms", time.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_alone_has_the_declared_unit() {
        assert_eq!(time("100", Some(Unit::Milliseconds)), Some(Duration::from_millis(100)));
        assert_eq!(time("0.5", Some(Unit::Seconds)), Some(Duration::from_millis(500)));
        assert_eq!(time("1", None), None);
        assert_eq!(time("100ms", Some(Unit::Seconds)), Some(Duration::from_millis(100)));
    }

    #[test]
    fn times_with_units_are_those_of_the_library() {
        let read =
            ["200us", "1ms", "2s", "5min", "1h 30m", " 30s "].map(|text| time(text, None).map(|t| t.as_micros()));
        let micros = [200, 1000, 2_000_000, 300_000_000, 5_400_000_000, 30_000_000];
        assert_eq!(read, micros.map(Some));
    }

    #[test]
    fn what_is_no_time_is_told_apart() {
        for text in ["", "soon", "-1", "1e300", "NaN", "inf", "400 days", "5 parsec", "ms"] {
            assert_eq!(time(text, Some(Unit::Seconds)), None, "{text:?}");
        }
    }

    #[test]
    fn a_time_that_is_shown_is_read_back() {
        for millis in [0, 1, 100, 60_000, 90_500] {
            let duration = Duration::from_millis(millis);
            assert_eq!(time(&show_time(duration), None), Some(duration));
        }
    }
}
