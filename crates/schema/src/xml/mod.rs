//! The XML document of the papers and of ADIOS 1.x, read into a [`Schema`].
//!
//! | element | attributes (other spellings) |
//! |---------|------------------------------|
//! | `adios-config` | `host-language` (C, C++, Fortran, Python; Fortran where it is missing, as in ADIOS 1.x), `schema-version` |
//! | `adios-group` | `name`, `coordination-communicator`, `coordination-var`, `stats`, `time-index`, `host-language` |
//! | `global-bounds` | `dimensions` (`dimension`, `global-dimensions`), `offsets` (`offset`, `local-offsets`), `coordination-communicator`, `coordination-var` |
//! | `var` | `name`, `path`, `type`, `dimensions` (`dimension`), `write`, `read`, `gwrite`, `gread`, `gname` (both), `copy-on-write`, `stats`, `transform`, `mesh`, `center` (`centering`), `time-steps`, `time-scale`, `time-series-format`, `hyperslab` |
//! | `attribute` | `name`, `path`, `value`, `type`, `var` |
//! | `gwrite` | `src` |
//! | `schema` | `version` |
//! | `mesh` | `name`, `type`, `time-varying`, `time-steps`, `time-scale`, `time-series-format`, `file` (`ref`), `group` |
//! | in `mesh` | `nspace`, `dimensions`, `origin`, `spacing`, `maximum`, `coordinates-single-var`, `coordinates-multi-var`, `points-single-var`, `points-multi-var`, `number-of-points` with `value`; `uniform-cells`, `mixed-cells` with `count`, `data`, `type` |
//! | `method` (`transport`) | `group`, `method`, `base-path`, `priority`, `iterations`; parameters in the text |
//! | `buffer` | `max-size-MB` (`size-MB`), `free-memory-percentage`, `allocate-time` (now, later, oncall) |
//! | `services`: `statistics`, `histogram`, `reorganize`, `transform`, `function` | read: what happens to outputs on their way |
//! | `analysis`, `time-aggregation`, `multilink` | accepted with a warning: nothing is done with them |
//!
//! Letter case does not count in names of elements and attributes. Every error is found in one go, except that a text that
//! is no XML ends at the first one. Variables may be used before they are defined.

mod bounds;
mod element_attributes;
mod elements;
mod group;
mod mesh;
mod services;
mod unquoted;

use crate::declare::check_version;
use crate::method;
use crate::model::*;
use crate::name::{check_name, few};
use element_attributes::{ElementAttributes, Found, Spellings};
use elements::{ALLOCATE, BUFFER, CONFIG, FREE_MEMORY, MAX_SIZE, METHOD};
use roxmltree::{Document, Node};
use std::cell::Cell;
use std::collections::HashSet;
use thalweg_diagnostics::{Problem, Report, SourceSpan};

pub use elements::{ELEMENTS, Element};

/// Reads a document.
///
/// - `file_name`: only for messages.
///
/// # Errors
/// The report of everything wrong; warnings alone are no error.
/// # Cost
/// The text is scanned for limits and parsed, once; a document with values without quotes is parsed twice. The XML tree is in
/// memory during the call.
pub fn parse(text: &str, file_name: &str) -> Result<Schema, Report> {
    match parse_with_warnings(text, file_name) {
        (Some(schema), _) => Ok(schema),
        (None, report) => Err(report),
    }
}

/// Reads a document from bytes: UTF-8, or Latin-1 if its first line declares it.
///
/// # Errors
/// See [`parse`].
pub fn parse_bytes(bytes: &[u8], file_name: &str) -> Result<Schema, Report> {
    match decode(bytes, file_name) {
        Ok(text) => parse(&text, file_name),
        Err(report) => Err(report),
    }
}

/// The text of a document, see [`parse_bytes`].
///
/// # Errors
/// A report of the first byte that is no text.
pub fn decode(bytes: &[u8], file_name: &str) -> Result<String, Report> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(text).to_string()),
        Err(error) => {
            let first_line = bytes.split(|b| *b == b'\n').next().unwrap_or(bytes);
            let first_line = String::from_utf8_lossy(first_line).to_ascii_lowercase();
            if ["iso-8859-1", "latin1", "latin-1"].iter().any(|l| first_line.contains(l)) {
                return Ok(bytes.iter().map(|b| char::from(*b)).collect());
            }
            // One blank for each byte that is no text, so that places stay right.
            let shown: String = bytes.utf8_chunks().fold(String::new(), |mut shown, chunk| {
                shown.push_str(chunk.valid());
                chunk.invalid().iter().for_each(|_| shown.push('?'));
                shown
            });
            let mut report = Report::new(file_name, &shown);
            let at = error.valid_up_to();
            let problem = Problem::new(format!("byte {:#04x} is no UTF-8 text", bytes[at]))
                .expected("UTF-8, or encoding=\"ISO-8859-1\" in the first line");
            report.error(at..at + 1, problem);
            Err(report)
        }
    }
}

/// Reads a document; the schema is there where the report has no errors. Warnings are in the report in both cases.
pub fn parse_with_warnings(text: &str, file_name: &str) -> (Option<Schema>, Report) {
    if let Some((span, problem)) = bounds::check(text) {
        let mut report = Report::new(file_name, text);
        report.error(span, problem);
        return (None, report);
    }
    let error = match Document::parse(text) {
        Ok(document) => return read(&document, text, file_name),
        Err(error) => error,
    };
    // Values without quotes are forgiven where that is all that is wrong.
    let quoted = unquoted::quote(text);
    if let Some((quoted, Ok(document))) = quoted.as_ref().map(|q| (q, Document::parse(&q.text))) {
        let (mut schema, report) = read(&document, &quoted.text, file_name);
        let back = |span: SourceSpan| -> SourceSpan {
            (quoted.original(span.offset_bytes)..quoted.original(span.offset_bytes + span.length_bytes)).into()
        };
        let mut report = report.about(text, back);
        for value in quoted.values() {
            let problem = Problem::new("a value without quotes").expected(format!("\"{}\"", &text[value.clone()]));
            report.warning(value, problem);
        }
        for source in schema.iter_mut().flat_map(|s| &mut s.methods).filter_map(|m| m.source.as_mut()) {
            source.method = back(source.method);
            source.group = back(source.group);
            source.parameters.iter_mut().for_each(|p| *p = back(*p));
        }
        let groups = schema.iter_mut().flat_map(|s| &mut s.groups);
        for variable in groups.flat_map(|g| &mut g.variables) {
            variable.transform_position.0 = variable.transform_position.0.map(back);
        }
        return (schema, report);
    }
    let mut report = Report::new(file_name, text);
    let (span, problem) = not_xml(text, &error);
    report.error(span, problem);
    (None, report)
}

fn read<'a>(document: &'a Document<'a>, text: &'a str, file_name: &str) -> (Option<Schema>, Report) {
    let report = Report::new(file_name, text);
    let mut reader = Reader {
        text,
        report,
        schema: Schema::default(),
        groups: HashSet::new(),
        meshes: HashSet::new(),
        look_ups: Cell::default(),
    };
    reader.document(document.root_element());
    let Reader { schema, report, .. } = reader;
    ((report.errors() == 0).then_some(schema), report)
}

/// The report for a text that is no XML.
fn not_xml(text: &str, error: &roxmltree::Error) -> (SourceSpan, Problem) {
    let place = error.pos();
    let line_start = match (place.row as usize).saturating_sub(1) {
        0 => 0,
        row => text.match_indices('\n').nth(row - 1).map_or(text.len(), |(at, _)| at + 1),
    };
    let line = text[line_start..].lines().next().unwrap_or("");
    let column = line.char_indices().nth((place.col as usize).saturating_sub(1)).map_or(line.len(), |(at, _)| at);
    let message = match error {
        roxmltree::Error::DuplicatedAttribute(name, _) => format!("attribute {name:?} occurs twice"),
        other => other.to_string(),
    };
    // The position is reported separately.
    let message = match message.rsplit_once(" at ") {
        Some((before, place)) if place.bytes().all(|b| b.is_ascii_digit() || b == b':') => before,
        _ => &message,
    };
    let problem = Problem::new(format!("this is no well-formed XML: {message}"));
    let problem = match error {
        roxmltree::Error::InvalidChar2(what, ..) if what.contains("quote") => {
            problem.expected("a value in quotes, as name=\"NX\"")
        }
        roxmltree::Error::DtdDetected => problem.expected("a document without DOCTYPE"),
        roxmltree::Error::UnexpectedCloseTag(expected, _, _) => problem.expected(format!("</{expected}>")),
        roxmltree::Error::NoRootNode | roxmltree::Error::UnclosedRootNode => {
            problem.expected("<adios-config> ... </adios-config>")
        }
        _ => problem,
    };
    let at = line_start + column;
    ((at..at + 1).into(), problem)
}

struct Reader<'a> {
    text: &'a str,
    report: Report,
    schema: Schema,
    /// Names of the groups there are.
    groups: HashSet<String>,
    /// Names of the meshes of the group that is read.
    meshes: HashSet<String>,
    /// Names that unknown ones were compared with.
    look_ups: Cell<usize>,
}

const CONFIG_ELEMENTS: &[&str] =
    &["adios-group", "method", "transport", "buffer", "services", "schema", "analysis", "time-aggregation"];

impl<'a> Reader<'a> {
    fn document(&mut self, root: Node<'a, 'a>) {
        if !root.tag_name().name().eq_ignore_ascii_case("adios-config") {
            let problem = Problem::unknown("root element", root.tag_name().name(), ["adios-config"]);
            self.report.error(self.element_span(root), problem);
            return;
        }
        let attributes = self.attributes(root, CONFIG);
        match attributes.get("host-language") {
            Some(found) => self.schema.host_language = self.host_language(found).unwrap_or_default(),
            None => {
                self.schema.host_language = HostLanguage::Fortran;
                let problem =
                    Problem::new("no host-language: dimensions are taken in Fortran's order, as in ADIOS 1.x");
                self.report
                    .warning(attributes.element, problem.expected("host-language=\"C\" or host-language=\"Fortran\""));
            }
        }
        let mut version = self.version(&attributes, "schema-version");
        let children = self.children(root);
        for (name, node) in &children {
            if name == "schema" {
                version = self.schema_element(*node).or(version);
            }
        }
        // Groups first: methods may precede them.
        for (name, node) in &children {
            if name == "adios-group" {
                self.group(*node, version.clone());
            }
        }
        let mut buffers = 0;
        for (name, node) in &children {
            match name.as_str() {
                "adios-group" | "schema" => {}
                "method" | "transport" => self.method(*node),
                "buffer" => {
                    buffers += 1;
                    if buffers > 1 {
                        let problem =
                            Problem::new("a second <buffer>").expected("one: the buffer is that of the process");
                        self.report.error(self.element_span(*node), problem);
                    } else {
                        self.buffer(*node);
                    }
                }
                "services" => self.services(*node),
                "analysis" => {
                    let known: &[Spellings] =
                        &[&["adios-group"], &["var"], &["break-points"], &["min"], &["max"], &["count"]];
                    let attributes = self.spelled_attributes(*node, known);
                    self.group_name(&attributes, "adios-group", "analysis");
                    self.report.warning(
                        attributes.element,
                        Problem::new("<analysis>: no histograms in the index").expected("<services> with <histogram>"),
                    );
                }
                "time-aggregation" => {
                    let attributes =
                        self.spelled_attributes(*node, &[&["group"], &["buffer-size"], &["sync-with-group"]]);
                    self.group_name(&attributes, "group", "time-aggregation");
                    let problem = Problem::new("<time-aggregation>: every step is written when it is closed");
                    self.report.warning(attributes.element, problem);
                }
                _ => self.unknown_element(*node, "adios-config", CONFIG_ELEMENTS),
            }
        }
        if !children.iter().any(|(name, _)| name == "adios-group") {
            let problem = Problem::new("no group in this document").expected("<adios-group name=\"...\">");
            self.report.error(attributes.element, problem);
        }
        let with_method: HashSet<String> = self.schema.methods.iter().map(|m| m.group.clone()).collect();
        for (name, node) in &children {
            let group = node.attribute("name").unwrap_or("");
            if name == "adios-group" && !group.is_empty() && !with_method.contains(group) {
                let problem = Problem::new(format!("group {group:?} has no method: it will not be written"))
                    .expected(format!("<method group={group:?} method=\"...\"/>"));
                self.report.warning(self.element_span(*node), problem);
            }
        }
    }

    fn version(&mut self, attributes: &ElementAttributes<'a>, name: &str) -> Option<String> {
        let found = attributes.get(name).filter(|f| !f.value.trim().is_empty())?;
        self.check(found.span, check_version(found.value))
    }

    fn schema_element(&mut self, node: Node<'a, 'a>) -> Option<String> {
        let attributes = self.spelled_attributes(node, &[&["version"]]);
        self.need(&attributes, "version", "schema")?;
        self.version(&attributes, "version")
    }

    /// The name of a group that must exist.
    fn group_name(&mut self, attributes: &ElementAttributes<'a>, attribute: &str, element: &str) -> Option<String> {
        let found = self.need(attributes, attribute, element)?;
        let name = found.value.trim();
        if !self.groups.contains(name) {
            let known = few(&self.look_ups, self.schema.groups.iter().map(|g| g.name.as_str()));
            let problem = Problem::unknown("group", name, known);
            self.report.error(found.span, problem);
            return None;
        }
        Some(name.to_string())
    }

    fn method(&mut self, node: Node<'a, 'a>) {
        let element = node.tag_name().name();
        let attributes = self.attributes(node, METHOD);
        let group = self.group_name(&attributes, "group", element);
        let name = self.need(&attributes, "method", element);
        if let Some(name) = name {
            self.check(name.span, check_name("method", name.value));
        }
        let priority = self.whole(&attributes, "priority", "a whole number").unwrap_or(1);
        let iterations = self.whole(&attributes, "iterations", "a whole number, not negative").unwrap_or(1);
        let mut parameters = Vec::new();
        let mut spans = Vec::new();
        let mut seen = HashSet::new();
        for child in node.children() {
            if child.is_element() {
                self.unknown_element(child, element, &[]);
            }
            let Some(text) = child.text().filter(|_| child.is_text()) else { continue };
            let range = child.range();
            let literal = self.text.get(range.clone()) == Some(text);
            let found = Found { value: text, span: range.into(), literal };
            for (range, (key, value)) in thalweg_params::pairs(text) {
                let span = found.part(range);
                if key.is_empty() {
                    self.report.error(span, Problem::new("a parameter without a name").expected("key=value;key=value"));
                } else if value.contains(',') && value.contains('=') {
                    let problem = Problem::new(format!(
                        "value {value:?} of parameter {key:?} seems to contain several parameters"
                    ));
                    self.report.warning(span, problem.expected("parameters separated by ;"));
                }
                if !seen.insert(key.clone()) {
                    let problem = Problem::new(format!("parameter {key:?} occurs again; the last one counts"));
                    self.report.warning(span, problem);
                }
                parameters.push((key, value));
                spans.push(span);
            }
        }
        let (Some(group), Some(name)) = (group, name) else { return };
        self.schema.methods.push(MethodChoice {
            base_path: attributes.get("base-path").map_or_else(String::new, |f| method::base_path(f.value)),
            priority,
            iterations,
            parameters,
            source: Some(MethodSource { method: name.span, group: attributes.span("group"), parameters: spans }),
            ..MethodChoice::new(group, name.value.trim())
        });
    }

    fn whole<T: std::str::FromStr>(
        &mut self,
        attributes: &ElementAttributes<'a>,
        name: &str,
        expected: &str,
    ) -> Option<T> {
        let found = attributes.get(name)?;
        let value = found
            .value
            .trim()
            .parse()
            .map_err(|_| Problem::new(format!("{name}={:?}", found.value)).expected(expected));
        self.check(found.span, value)
    }

    fn buffer(&mut self, node: Node<'a, 'a>) {
        const MEGABYTE: f64 = 1_048_576.0;
        self.children(node).into_iter().for_each(|(_, child)| self.unknown_element(child, "buffer", &[]));
        let attributes = self.attributes(node, BUFFER);
        let mut buffer = Buffer::default();
        let (size, share) = (attributes.get(MAX_SIZE.key), attributes.get(FREE_MEMORY.key));
        match (size, share) {
            (Some(_), None) => {
                let size: f64 = self.value(&attributes, &MAX_SIZE).unwrap_or(0.0);
                // More than 2^64 bytes are as good as no limit.
                buffer.limit = BufferLimit::Bytes((size * MEGABYTE).round() as u64);
            }
            (None, Some(_)) => {
                buffer.limit =
                    BufferLimit::FreeMemoryPercentage(self.value(&attributes, &FREE_MEMORY).unwrap_or(100.0));
            }
            (size, _) => {
                let what =
                    if size.is_some() { "both a size and a percentage" } else { "neither a size nor a percentage" };
                let problem =
                    Problem::new(format!("a buffer with {what}")).expected("max-size-MB or free-memory-percentage");
                self.report.error(attributes.element, problem);
            }
        }
        if let Some(when) = self.value::<String>(&attributes, &ALLOCATE) {
            buffer.allocate = if when == "now" { AllocateTime::Now } else { AllocateTime::Later };
        }
        self.schema.buffer = buffer;
    }
}
