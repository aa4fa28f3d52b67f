//! Attribute values without quotes (`buffer-size=12000`), which no XML allows but the parser of ADIOS 1.x takes: quoted
//! before the document is read, with a way back to the places of the original.

/// A text with quotes put around bare attribute values.
pub(super) struct Quoted {
    /// The text with quotes.
    pub(super) text: String,
    /// Where in `text` quotes were put, ascending.
    inserted: Vec<usize>,
}

impl Quoted {
    /// The place in the original text of a place in [`Quoted::text`].
    pub(super) fn original(&self, at: usize) -> usize {
        at - self.inserted.partition_point(|i| *i < at)
    }

    /// Where the bare values are in the original text.
    pub(super) fn values(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.inserted.chunks_exact(2).map(|pair| self.original(pair[0])..self.original(pair[1]))
    }
}

/// Quotes bare attribute values; `None` where there are none.
pub(super) fn quote(original: &str) -> Option<Quoted> {
    let mut quoted = Quoted { text: String::with_capacity(original.len() + 16), inserted: Vec::new() };
    let mut at = 0;
    while at < original.len() {
        let rest = &original[at..];
        let whole =
            [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")].iter().find(|(open, _)| rest.starts_with(open));
        let end = match whole {
            Some((_, close)) => rest.find(close).map_or(rest.len(), |end| end + close.len()),
            None if rest.starts_with('<') => {
                at += quote_tag(rest, &mut quoted);
                continue;
            }
            None => rest.find('<').unwrap_or(rest.len()),
        };
        quoted.text.push_str(&rest[..end]);
        at += end;
    }
    (!quoted.inserted.is_empty()).then_some(quoted)
}

/// Copies the tag that `rest` starts with, up to its `>`, and returns its length.
fn quote_tag(rest: &str, quoted: &mut Quoted) -> usize {
    let (mut at, mut after_equals) = (0, false);
    while let Some(c) = rest[at..].chars().next() {
        if matches!(c, '"' | '\'') {
            let end = rest[at + 1..].find(c).map_or(rest.len(), |end| at + 1 + end + 1);
            quoted.text.push_str(&rest[at..end]);
            (at, after_equals) = (end, false);
            continue;
        }
        if after_equals && !c.is_whitespace() && !matches!(c, '<' | '>' | '/' | '=') {
            let end = rest[at..].find(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '\''));
            let mut end = end.map_or(rest.len(), |end| at + end);
            if rest[at..end].ends_with('/') && rest[end..].starts_with('>') {
                end -= 1;
            }
            quoted.inserted.push(quoted.text.len());
            quoted.text.push('"');
            quoted.text.push_str(&rest[at..end]);
            quoted.inserted.push(quoted.text.len());
            quoted.text.push('"');
            (at, after_equals) = (end, false);
            continue;
        }
        after_equals = c == '=' || (after_equals && c.is_whitespace());
        quoted.text.push(c);
        at += c.len_utf8();
        if c == '>' {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_values_are_quoted_and_places_lead_back() {
        let original = "<?x a=1?><a b=12 c='d=4' e = f/><!-- g=1 -->h=2<i j=k></i>";
        let quoted = quote(original).unwrap();
        assert_eq!(quoted.text, "<?x a=1?><a b=\"12\" c='d=4' e = \"f\"/><!-- g=1 -->h=2<i j=\"k\"></i>");
        let values: Vec<&str> = quoted.values().map(|r| &original[r]).collect();
        assert_eq!(values, ["12", "f", "k"]);
        let at = quoted.text.find("h=2").unwrap();
        assert_eq!(&original[quoted.original(at)..][..3], "h=2");
        assert!(quote("<a b=\"12\"/>").is_none());
        assert!(quote("<a b=/>").is_none());
    }
}
