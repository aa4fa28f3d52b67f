//! Sizes in bytes and rates in bytes per second, as text.
//!
//! | | `k` `kB` | `KiB` |
//! |---|---|---|
//! | size | 1024 | 1024 |
//! | rate | 1000 | 1024 |
//!
//! Sizes of buffers, chunks and files are powers of two in every spelling, as in ADIOS 1.x's XML; rates are decimal, as networks
//! and storage systems are specified. The arithmetic is exact: no floating point.

/// A number of bytes: `65536`, `64k`, `8MB`, `8 MiB`, `1.5G`; `k`, `M`, `G`, `T` are powers of 1024 with `B`, `iB` or neither.
/// Fractions are rounded to whole bytes. `None` for other texts and for values above `u64::MAX`.
pub fn size(text: &str) -> Option<u64> {
    quantity(text.trim(), 1024)
}

/// Bytes per second: `200MB` (or `200MB/s`) are 200,000,000, `200MiB` 209,715,200. `None` as for [`size`].
pub fn rate(text: &str) -> Option<u64> {
    let text = text.trim();
    quantity(text.strip_suffix("/s").unwrap_or(text).trim_end(), 1000)
}

/// - `kilo`: factor of `k`, 1000 or 1024; that of `ki` is always 1024.
fn quantity(text: &str, kilo: u64) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start().to_ascii_lowercase());
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (prefix, base) = match unit.strip_suffix('i') {
        Some(prefix) => (prefix, 1024),
        None => (unit, kilo),
    };
    let power = match prefix {
        "" if unit.is_empty() => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    let factor = u128::from(base.pow(power));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 18 {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u64>().ok().map(u128::from) };
    let scale = 10u128.pow(fraction.len() as u32);
    let part = (digits(fraction)? * factor + scale / 2) / scale;
    u64::try_from(digits(whole)?.checked_mul(factor)?.checked_add(part)?).ok()
}

/// A size in the largest binary unit of which it is a multiple: `8 MiB`, `1000`.
pub fn show_size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(power, _)| bytes != 0 && bytes.is_multiple_of(1 << power)) {
        Some((power, unit)) => format!("{} {unit}", bytes >> power),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_powers_of_two_however_they_are_spelled() {
        for text in ["8M", "8m", "8MB", "8mb", "8MiB", "8 MiB", " 8Mib ", "8192k", "8.0M", "8388608", "8388608B"] {
            assert_eq!(size(text), Some(8 << 20), "{text:?}");
        }
        assert_eq!((size("1.5GiB"), size(".5k"), size("2T")), (Some(3 << 29), Some(512), Some(2 << 40)));
        assert_eq!((size("0"), size("0.0001k")), (Some(0), Some(0)));
        assert_eq!(size("18446744073709551615"), Some(u64::MAX));
    }

    #[test]
    fn rates_are_decimal_unless_they_say_otherwise() {
        for text in ["200MB", "200M", "200 MB/s", "200000000", "0.2G"] {
            assert_eq!(rate(text), Some(200_000_000), "{text:?}");
        }
        assert_eq!(rate("200MiB"), Some(200 << 20));
        assert_eq!(rate("200MiB/s"), Some(200 << 20));
    }

    #[test]
    fn what_is_no_size_is_told_apart() {
        let texts = ["", "k", "MiB", "-1", "+1", "8 parsec", "1e3", "1.2.3", ".", "i", "8i", "8ib", "8 M B", "0x10"];
        for text in texts.into_iter().chain(["18446744073709551616", "16777216T", "1e30GB", "8Mi B", "8M/s"]) {
            assert_eq!(size(text), None, "{text:?}");
        }
        assert_eq!((rate("fast"), rate("/s"), rate("1/s/s")), (None, None, None));
    }

    #[test]
    fn a_size_is_shown_in_the_unit_it_is_a_whole_number_of() {
        let shown = [0, 128, 1024, 64 << 10, 3 << 29, 1 << 40, 1_000_000].map(show_size);
        assert_eq!(shown, ["0", "128", "1 KiB", "64 KiB", "1536 MiB", "1 TiB", "1000000"]);
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(bytes: u64) {
            prop_assert_eq!(size(&show_size(bytes)), Some(bytes));
        }

        #[test]
        fn no_text_is_too_odd(text in ".{0,40}") {
            let _ = (size(&text), rate(&text));
        }
    }
}
