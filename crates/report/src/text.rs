//! Numbers as text: counts, runs of steps, durations and sizes with their units.

/// `3 steps`, `1 step`.
pub fn count(n: u64, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

/// Steps as runs: `0 to 3, 5, 7 to 9`; at most ten runs.
pub fn steps(steps: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for step in steps {
        match runs.last_mut() {
            Some(run) if run.1 + 1 == *step => run.1 = *step,
            _ => runs.push((*step, *step)),
        }
    }
    let shown = runs.iter().take(10).map(|(a, b)| if a == b { a.to_string() } else { format!("{a} to {b}") });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if runs.len() > 10 {
        text.push_str(", ...");
    }
    text
}

/// A duration from nanoseconds: `12.3 ms`.
pub fn time(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        0.0 => "0".into(),
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        _ if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

/// The time of day, UTC, of so many seconds after the beginning of 1970: `09:05:00`.
pub fn clock(unix_seconds: u64) -> String {
    let of_day = unix_seconds % 86_400;
    format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// A number of bytes: `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    let mut rest = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if rest < 1024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{rest:.1} {unit}") };
        }
        rest /= 1024.0;
    }
    format!("{rest:.1} PiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_in_runs() {
        assert_eq!(steps(&[0, 1, 2, 5, 7, 8]), "0 to 2, 5, 7 to 8");
        assert_eq!(steps(&[]), "");
        let odd: Vec<u64> = (0..40).map(|i| 2 * i).collect();
        assert!(steps(&odd).ends_with("16, 18, ..."));
    }

    #[test]
    fn a_clock_shows_the_time_of_day() {
        assert_eq!([0, 86_399, 86_400 + 3_661].map(clock), ["00:00:00", "23:59:59", "01:01:01"]);
    }

    #[test]
    fn times_and_sizes_have_units() {
        assert_eq!(
            [0, 640, 12_345, 2_000_000, 61_200_000_000].map(time),
            ["0", "640 ns", "12.3 us", "2.0 ms", "61.20 s"]
        );
        assert_eq!([0, 1023, 1536, 1 << 20].map(size), ["0 B", "1023 B", "1.5 KiB", "1.0 MiB"]);
    }
}
