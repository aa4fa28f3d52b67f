//! Fields of comma-separated values, RFC 4180.

/// A text as a field: between quotes where it needs them.
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ') {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

/// Names of the two columns of complex numbers.
pub fn parts(name: &str) -> [String; 2] {
    ["re", "im"].map(|part| format!("{name}.{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("say \"hi\""), "\"say \"\"hi\"\"\"");
        assert_eq!(field("two\nlines"), "\"two\nlines\"");
        assert_eq!(field(" led"), "\" led\"");
        assert_eq!(field("plain ü"), "plain ü");
        assert_eq!(parts("psi"), ["psi.re", "psi.im"]);
    }
}
