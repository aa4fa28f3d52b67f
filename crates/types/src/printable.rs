//! Text that is safe to print: no name in a file, argument or message of another program steers a terminal.
//!
//! | escaped as `\u{...}` | why |
//! |---|---|
//! | control characters (`\n`, `\t`, `\r` as these) | they move the cursor, change colours, forge lines |
//! | marks of writing direction (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069) | they show what follows in another order |
//! | line and paragraph separators (U+2028, U+2029) | some terminals and tools break lines there |
//! | characters without width that hide in names (U+00AD, U+200B, U+2060 to U+2064, U+FEFF, U+E0000 to U+E007F) | two names look the same |
//!
//! Documents for programs (JSON, CSV) keep names as they are and escape by their own rules.

use std::borrow::Cow;

/// Whether a character is printed as an escape.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

fn escape(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            c if !hidden(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
    Cow::Owned(out)
}

/// A name or other foreign text on one line.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, is_hidden)
}

/// A message of several lines: as [`printable`], but for the ends of lines.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| c != '\n' && is_hidden(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_foreign_steers_a_terminal_and_all_else_stays() {
        for plain in ["", "a b", "naïve/T_é", "速度", "a\u{200d}b", "\\u{1b}"] {
            assert!(matches!(printable(plain), Cow::Borrowed(same) if same == plain));
        }
        for (text, shown) in [
            ("a\u{1b}[31mb\n", "a\\u{1b}[31mb\\n"),
            ("\t\r\0\u{7f}\u{9b}", "\\t\\r\\u{0}\\u{7f}\\u{9b}"),
            ("a\u{202e}gpj.bp", "a\\u{202e}gpj.bp"),
            ("\u{2066}x\u{2069}\u{200f}", "\\u{2066}x\\u{2069}\\u{200f}"),
            ("a\u{2028}b\u{feff}\u{e0041}", "a\\u{2028}b\\u{feff}\\u{e0041}"),
        ] {
            assert_eq!(printable(text), shown);
        }
        assert_eq!(printable_lines("a\n\u{1b}b"), "a\n\\u{1b}b");
    }
}
