//! Which libraries of an installation can replace each other.

/// The number in a library's name, as in `libthalweg-core.so.0.1`: programs go on with every library that has the same one.
/// Below version 1 the first two numbers of the version, then the first one. `scripts/build.sh` has the same rule.
pub const ABI: &str = of(env!("CARGO_PKG_VERSION"));

const fn of(version: &str) -> &str {
    let bytes = version.as_bytes();
    let mut dots = if bytes[0] == b'0' && bytes[1] == b'.' { 2 } else { 1 };
    let mut end = 0;
    while end < bytes.len() {
        if bytes[end] == b'.' {
            dots -= 1;
            if dots == 0 {
                break;
            }
        }
        end += 1;
    }
    version.split_at(end).0
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn versions_that_can_replace_each_other_have_the_same_number() {
        for (version, number) in [
            ("0.1.0", "0.1"),
            ("0.1.9", "0.1"),
            ("0.12.3-rc.1", "0.12"),
            ("1.0.0", "1"),
            ("1.4.2", "1"),
            ("10.0.1", "10"),
        ] {
            assert_eq!(of(version), number);
        }
    }
}
