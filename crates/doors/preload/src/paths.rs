//! Comparison of paths with prefixes, as text; almost all paths outside mounts need no allocation.

/// Whether a path has parts that are resolved before prefixes are compared: `.`, `..`, empty ones.
pub fn has_dots(path: &[u8]) -> bool {
    let mut rest = path;
    while let Some(at) = rest.iter().position(|byte| *byte == b'/') {
        rest = &rest[at + 1..];
        match rest {
            [b'/', ..] | [b'.'] | [b'.', b'/', ..] | [b'.', b'.'] | [b'.', b'.', b'/', ..] => return true,
            _ => {}
        }
    }
    false
}

/// Whether a part of the path is `..`.
pub fn goes_up(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|part| part == b"..")
}

/// Whether a path, as it is written, is under a prefix.
pub fn under(prefix: &[u8], path: &[u8]) -> bool {
    prefix == b"/" || (path.starts_with(prefix) && matches!(path.get(prefix.len()), None | Some(b'/')))
}

/// The first part of a relative path.
pub fn first_part(path: &[u8]) -> &[u8] {
    let rest = path.strip_prefix(b"./").unwrap_or(path);
    rest.split(|byte| *byte == b'/').find(|part| !part.is_empty() && *part != b".").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_must_be_settled_are_found_and_names_with_dots_are_not() {
        for dotted in ["/a/../b", "/a/./b", "/a//b", "/a/.", "/a/..", "//a"] {
            assert!(has_dots(dotted.as_bytes()), "{dotted}");
        }
        for plain in ["/a/.b", "/a/..b/c", "/a/b.", "/", "/a/...", "a/.b"] {
            assert!(!has_dots(plain.as_bytes()), "{plain}");
        }
        assert!(goes_up(b"../a") && goes_up(b"a/..") && !goes_up(b"..a/b.."));
        assert!(
            under(b"/a/b", b"/a/b/c") && under(b"/a/b", b"/a/b") && !under(b"/a/b", b"/a/bc") && under(b"/", b"/x")
        );
        assert_eq!(first_part(b"./x/y"), b"x");
        assert_eq!(first_part(b"/"), b"");
    }
}
