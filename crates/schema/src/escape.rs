//! Text in documents of XML.

/// A text as the value of an attribute, in double quotes.
pub fn escaped(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => made.push_str("&amp;"),
            '<' => made.push_str("&lt;"),
            '"' => made.push_str("&quot;"),
            // Readers make spaces of them otherwise.
            '\t' => made.push_str("&#9;"),
            '\n' => made.push_str("&#10;"),
            '\r' => made.push_str("&#13;"),
            c => made.push(c),
        }
    }
    made
}

/// Whether a document may contain a text.
pub fn is_allowed(text: &str) -> bool {
    text.chars().all(|c| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parser_reads_what_was_escaped() {
        let text = "a < b & \"c\" >\t\r\n'ü'";
        let document = format!("<a b=\"{}\"/>", escaped(text));
        assert_eq!(roxmltree::Document::parse(&document).unwrap().root_element().attribute("b"), Some(text));
    }

    #[test]
    fn a_parser_takes_what_is_allowed_alone() {
        for code in (0..0x3000).chain([0xd7ff, 0xe000, 0xfffd, 0xfffe, 0xffff, 0x10000, 0x10ffff]) {
            let Some(c) = char::from_u32(code) else { continue };
            let document = format!("<a b=\"{}\"/>", escaped(&c.to_string()));
            assert_eq!(roxmltree::Document::parse(&document).is_ok(), is_allowed(&c.to_string()), "{code:#x}");
        }
    }
}
