//! The attributes of one element: known ones by their first spelling, unknown ones reported.

use super::Reader;
use super::elements::STATISTICS;
use crate::model::{HostLanguage, Statistics};
use roxmltree::Node;
use std::collections::HashMap;
use thalweg_diagnostics::{Problem, SourceSpan};
use thalweg_params::{Default, Kind, Parameter, Take, Value};

/// An attribute's value and where it is.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) value: &'a str,
    pub(super) span: SourceSpan,
    /// Whether the source holds the value letter for letter, so that parts of it have places.
    pub(super) literal: bool,
}

impl<'a> Found<'a> {
    pub(super) fn part(&self, range: std::ops::Range<usize>) -> SourceSpan {
        if self.literal {
            let start = self.span.offset_bytes + range.start;
            (start..start + range.len()).into()
        } else {
            self.span
        }
    }
}

/// The known attributes of one element, by first spelling.
pub(super) struct ElementAttributes<'a> {
    pub(super) values: HashMap<&'static str, Found<'a>>,
    pub(super) element: SourceSpan,
}

impl<'a> ElementAttributes<'a> {
    pub(super) fn get(&self, name: &str) -> Option<Found<'a>> {
        self.values.get(name).copied()
    }

    /// Its text without blanks around it; `None` where it is missing or blank.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(|f| f.value.trim()).filter(|t| !t.is_empty()).map(str::to_string)
    }

    /// Where the attribute is, or else the element.
    pub(super) fn span(&self, name: &str) -> SourceSpan {
        self.get(name).map_or(self.element, |f| f.span)
    }
}

/// Spellings of one attribute; of several in one element, the first counts.
pub(super) type Spellings = &'static [&'static str];

impl<'a> Reader<'a> {
    pub(super) fn element_span(&self, node: Node<'a, 'a>) -> SourceSpan {
        // The opening `<name` is enough to point at.
        let start = node.range().start;
        (start..start + 1 + node.tag_name().name().len()).into()
    }

    /// Children that are elements, with their names in small letters; other text is reported.
    pub(super) fn children(&mut self, node: Node<'a, 'a>) -> Vec<(String, Node<'a, 'a>)> {
        for child in node.children().filter(|c| c.is_text()) {
            let text = child.text().unwrap_or("");
            if !text.trim().is_empty() {
                let start = child.range().start + text.len() - text.trim_start().len();
                let problem = Problem::new(format!("text in <{}> has no meaning", node.tag_name().name()));
                self.report.warning(start..start + text.trim().len(), problem);
            }
        }
        node.children().filter(Node::is_element).map(|c| (c.tag_name().name().to_ascii_lowercase(), c)).collect()
    }

    pub(super) fn unknown_element(&mut self, node: Node<'a, 'a>, parent: &str, known: &[&str]) {
        let name = node.tag_name().name();
        let span = self.element_span(node);
        let problem = Problem::unknown(&format!("element in <{parent}>"), name, known.iter().copied());
        self.report.error(span, problem);
    }

    pub(super) fn spelled_attributes(
        &mut self,
        node: Node<'a, 'a>,
        known: &'static [Spellings],
    ) -> ElementAttributes<'a> {
        self.spelled(node, known.iter().map(|spellings| spellings.iter().copied()))
    }

    /// The attributes of an element that declares them as parameters.
    pub(super) fn attributes(&mut self, node: Node<'a, 'a>, known: &'static [Parameter]) -> ElementAttributes<'a> {
        self.spelled(node, known.iter().map(Parameter::names))
    }

    /// The value of an attribute; `None` where it is missing, or wrong, which is reported.
    pub(super) fn value<T: Take>(&mut self, attributes: &ElementAttributes<'a>, attribute: &Parameter) -> Option<T> {
        let found = attributes.get(attribute.key)?;
        let value = attribute.read(found.value).map_err(|expected| match attribute.kind {
            Kind::Choice(words) => Problem::unknown(attribute.key, found.value, words.iter().copied()),
            _ => Problem::new(format!("{}={:?}", attribute.key, found.value)).expected(expected),
        });
        T::take(Some(self.check(found.span, value)?))
    }

    fn spelled<S: Iterator<Item = &'static str> + Clone>(
        &mut self,
        node: Node<'a, 'a>,
        known: impl Iterator<Item = S> + Clone,
    ) -> ElementAttributes<'a> {
        let mut attributes = ElementAttributes { values: HashMap::new(), element: self.element_span(node) };
        let mut chosen: HashMap<&'static str, usize> = HashMap::new();
        for attribute in node.attributes().filter(|a| a.namespace().is_none()) {
            let name = attribute.name();
            let spelled = known.clone().find_map(|spellings| {
                let rank = spellings.clone().position(|s| s.eq_ignore_ascii_case(name))?;
                Some((spellings.clone().next()?, rank, spellings))
            });
            let Some((first, rank, spellings)) = spelled else {
                let all = known.clone().flatten();
                let problem = Problem::unknown(&format!("attribute of <{}>", node.tag_name().name()), name, all);
                self.report.error(attribute.range_qname(), problem);
                continue;
            };
            let range = attribute.range_value();
            let literal = self.text.get(range.clone()) == Some(attribute.value());
            let found = Found { value: attribute.value(), span: range.into(), literal };
            match chosen.get(first) {
                None => {}
                Some(before) => {
                    let (kept, ignored) =
                        (spellings.clone().nth(rank.min(*before)), spellings.clone().nth(rank.max(*before)));
                    let (kept, ignored) = (kept.unwrap_or(first), ignored.unwrap_or(first));
                    let problem = Problem::new(format!("{kept:?} and {ignored:?} mean the same: {kept:?} counts"));
                    self.report.warning(attribute.range_qname(), problem.expected("one of them"));
                    if rank >= *before {
                        continue;
                    }
                }
            }
            chosen.insert(first, rank);
            attributes.values.insert(first, found);
        }
        attributes
    }

    /// The value of an attribute that must be there.
    pub(super) fn need(&mut self, attributes: &ElementAttributes<'a>, name: &str, element: &str) -> Option<Found<'a>> {
        let found = attributes.get(name);
        if found.is_none() {
            let problem = Problem::new(format!("<{element}> without {name:?}")).expected(format!("{name}=\"...\""));
            self.report.error(attributes.element, problem);
        }
        found
    }

    /// Reports a problem of an attribute and continues without it.
    pub(super) fn check<T>(&mut self, span: SourceSpan, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.report.error(span, problem)).ok()
    }

    /// The value of a switch; its default where it is missing, blank, or wrong, which is reported.
    pub(super) fn yes_or_no(&mut self, attributes: &ElementAttributes<'a>, attribute: &Parameter) -> bool {
        let default = attribute.default == Default::Fixed(Value::Switch(true));
        let Some(found) = attributes.get(attribute.key) else { return default };
        if found.value.trim().is_empty() {
            return default;
        }
        self.value(attributes, attribute).unwrap_or(default)
    }

    pub(super) fn statistics(&mut self, attributes: &ElementAttributes<'a>) -> Option<Statistics> {
        Some(match self.value::<String>(attributes, &STATISTICS)?.as_str() {
            "off" | "no" => Statistics::Off,
            "minmax" => Statistics::MinMax,
            "default" => Statistics::Default,
            _ => Statistics::Full,
        })
    }

    pub(super) fn host_language(&mut self, found: Found<'a>) -> Option<HostLanguage> {
        match found.value.trim().to_ascii_lowercase().as_str() {
            "c" | "c++" | "cpp" | "cxx" | "python" => Some(HostLanguage::C),
            "fortran" | "f77" | "f90" => Some(HostLanguage::Fortran),
            _ => {
                self.report.error(
                    found.span,
                    Problem::unknown("host language", found.value, ["C", "C++", "Fortran", "Python"]),
                );
                None
            }
        }
    }
}
