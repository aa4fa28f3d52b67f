//! Sweeps over many cases, as over every operation of something, one failing at a time: how many of them are tried.

/// Whether the longest proofs are asked for: `LONG=1`, as `./dev test --long` sets it.
pub fn is_long() -> bool {
    std::env::var("LONG").is_ok_and(|long| long == "1")
}

/// Distance of the cases that a long sweep tries: each third, always the same ones; with `LONG=1` every case.
pub fn stride() -> usize {
    if is_long() { 1 } else { 3 }
}
