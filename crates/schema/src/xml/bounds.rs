//! Checks before a document is parsed: the XML parser compares every attribute of an element with every other,
//! and copies namespaces from element to element, so that a document that has very many of them takes time as their square.

use std::ops::Range;
use thalweg_diagnostics::Problem;

/// Most attributes of one element. The longest list of those known has 18.
const ATTRIBUTES: usize = 1000;
/// Most namespaces of a document, which has none as a rule.
const NAMESPACES: usize = 100;

/// A limit that a document exceeds, and the place.
pub(super) fn check(text: &str) -> Option<(Range<usize>, Problem)> {
    let bytes = text.as_bytes();
    let (mut at, mut namespaces) = (0, 0);
    while let Some(start) = text[at..].find('<').map(|i| at + i) {
        let rest = &text[start..];
        let whole =
            [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")].iter().find(|(open, _)| rest.starts_with(open));
        if let Some((open, close)) = whole {
            at = rest[open.len()..].find(close).map_or(text.len(), |end| start + open.len() + end + close.len());
            continue;
        }
        let (mut attributes, mut quote) = (0, None);
        at = start + 1;
        while at < bytes.len() {
            let byte = bytes[at];
            at += 1;
            match (quote, byte) {
                (Some(open), _) if byte == open => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'>') => break,
                (None, b'=') => attributes += 1,
                (None, b'x') if bytes[at..].starts_with(b"mlns") && bytes[at - 2].is_ascii_whitespace() => {
                    namespaces += 1;
                }
                (None, _) => {}
            }
            if attributes > ATTRIBUTES {
                let problem = Problem::new(format!("an element with more than {ATTRIBUTES} attributes"));
                return Some((start..start + 1, problem.expected("the attributes of an element, each once")));
            }
            if namespaces > NAMESPACES {
                let problem = Problem::new(format!("more than {NAMESPACES} namespaces"));
                return Some((start..start + 1, problem.expected("none: no element of a configuration is in one")));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_counted_outside_quotes_and_comments_alone() {
        let many = |n: usize, text: &str| text.repeat(n);
        assert!(check(&format!("<a {}/>", many(ATTRIBUTES, " b=\"1\""))).is_none());
        assert!(check(&format!("<x/><a {}/>", many(ATTRIBUTES + 1, " b=1"))).is_some_and(|(at, _)| at == (4..5)));
        assert!(check(&format!("<a b=\"{0}\" c='{0}'/>{0}", many(5000, "x=1 "))).is_none());
        assert!(check(&format!("<!-- <a {0}/> --><![CDATA[<a {0}]]><?a {0}?><b/>", many(5000, " x=1"))).is_none());
        assert!(check(&many(5000, "<a b=\"1\" c=\"2\">")).is_none());
        assert!(check(&many(NAMESPACES + 1, "<a xmlns:b=\"1\"/>")).is_some());
        for broken in ["<", "<a b=\"", "<!--", "<![CDATA[", "a=b", "<a b='é' =", "x"] {
            assert!(check(broken).is_none());
        }
    }
}
