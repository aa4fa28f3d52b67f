//! Sweeps over every operation of something, one failing at a time: how many of them are tried.

/// Distance of the cases that a long sweep tries: each third, always the same ones; with `LONG=1` (`./dev test --long`) every case.
pub fn stride() -> usize {
    if std::env::var("LONG").is_ok_and(|long| long == "1") { 1 } else { 3 }
}
