//! All findings about one document, in the order of their places; as plain text, drawn for terminals, or as one error.

use crate::Problem;
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, NamedSource};
use std::fmt::{self, Write as _};
use std::ops::Range;
use thalweg_types::printable::printable;
use thalweg_types::{Error, ErrorKind};

/// A run of bytes in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SourceSpan {
    /// First byte.
    pub offset_bytes: usize,
    /// Number of bytes.
    pub length_bytes: usize,
}

impl From<Range<usize>> for SourceSpan {
    fn from(range: Range<usize>) -> SourceSpan {
        SourceSpan { offset_bytes: range.start, length_bytes: range.end.saturating_sub(range.start) }
    }
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The document is refused.
    Error,
    /// The document is accepted, but probably does not have the intended effect.
    Warning,
}

impl Severity {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// One problem at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub span: SourceSpan,
    /// The problem.
    pub problem: Problem,
}

/// How many findings a report shows; it counts the others.
pub const SHOWN_IN_FULL: usize = 100;

/// All findings about one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    file: String,
    text: String,
    line_starts: Vec<usize>,
    findings: Vec<Finding>,
}

impl Report {
    /// An empty report about the document `text`, read from `file`.
    pub fn new(file: impl Into<String>, text: &str) -> Report {
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            // Nothing in a broken document may steer the terminal it is shown on; byte positions stay.
            if !matches!(c, '\n' | '\r' | '\t') && thalweg_types::printable::is_hidden(c) {
                (0..c.len_utf8()).for_each(|_| shown.push('?'));
            } else {
                shown.push(c);
            }
        }
        let line_starts = std::iter::once(0).chain(shown.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Report { file: file.into(), text: shown, line_starts, findings: Vec::new() }
    }

    /// Adds an error.
    pub fn error(&mut self, span: impl Into<SourceSpan>, problem: Problem) {
        self.push(Severity::Error, span.into(), problem);
    }

    /// Adds a warning.
    pub fn warning(&mut self, span: impl Into<SourceSpan>, problem: Problem) {
        self.push(Severity::Warning, span.into(), problem);
    }

    /// The same findings about another spelling of the document; `place` turns spans of this one into spans of that one.
    pub fn about(&self, text: &str, place: impl Fn(SourceSpan) -> SourceSpan) -> Report {
        let mut report = Report::new(&self.file, text);
        for finding in &self.findings {
            report.push(finding.severity, place(finding.span), finding.problem.clone());
        }
        report
    }

    fn push(&mut self, severity: Severity, span: SourceSpan, problem: Problem) {
        let (start, end) = self.clamp(span);
        self.findings.push(Finding { severity, span: (start..end).into(), problem });
    }

    /// The findings, in the order of the document.
    pub fn findings(&self) -> Vec<&Finding> {
        let mut sorted: Vec<&Finding> = self.findings.iter().collect();
        sorted.sort_by_key(|f| f.span.offset_bytes);
        sorted
    }

    /// Number of errors.
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|f| f.severity == Severity::Error).count()
    }

    /// Number of warnings.
    pub fn warnings(&self) -> usize {
        self.findings.len() - self.errors()
    }

    /// Whether there is no finding at all.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }

    /// Name of the file the report is about.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Line and column, from 1, of the start of a span; columns count characters.
    pub fn line_and_column(&self, span: SourceSpan) -> (usize, usize) {
        let (start, _) = self.clamp(span);
        let line = self.line_starts.partition_point(|s| *s <= start);
        (line, self.text[self.line_starts[line - 1]..start].chars().count() + 1)
    }

    /// The source line (from 1), without its end.
    pub fn source_line(&self, line: usize) -> &str {
        let Some(start) = line.checked_sub(1).and_then(|l| self.line_starts.get(l)) else { return "" };
        let end = self.line_starts.get(line).map_or(self.text.len(), |next| next - 1);
        self.text[*start..end].trim_end_matches('\r')
    }

    /// The report as text: frames and colours where `color`, plain otherwise (see the crate's page). Shows the first
    /// [`SHOWN_IN_FULL`] findings, and ends with a count of all.
    pub fn render(&self, color: bool) -> String {
        // A frame around a line of this many bytes would be unreadable; such lines are cut around the finding.
        const LONGEST_FRAMED: usize = 400;
        let mut out = String::new();
        let drawn = color.then(|| {
            let handler =
                GraphicalReportHandler::new_themed(GraphicalTheme::unicode()).with_width(100).with_links(false);
            (handler, NamedSource::new(printable(&self.file), self.text.clone()))
        });
        let mut source = None;
        let findings = self.findings();
        for finding in findings.iter().take(SHOWN_IN_FULL) {
            let (line, _) = self.line_and_column(finding.span);
            match &drawn {
                Some((handler, named)) if self.source_line(line).len() <= LONGEST_FRAMED => {
                    let source = source.get_or_insert_with(|| std::sync::Arc::new(named.clone()));
                    self.draw(finding, handler, source, &mut out);
                }
                _ => self.write_plain(finding, &mut out),
            }
        }
        if findings.len() > SHOWN_IN_FULL {
            let _ = writeln!(out, "... and {} more", findings.len() - SHOWN_IN_FULL);
        }
        let count = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        match (self.errors(), self.warnings()) {
            (0, 0) => {}
            (e, 0) => writeln!(out, "{}", count(e, "error")).unwrap_or_default(),
            (0, w) => writeln!(out, "{}", count(w, "warning")).unwrap_or_default(),
            (e, w) => writeln!(out, "{}, {}", count(e, "error"), count(w, "warning")).unwrap_or_default(),
        }
        out
    }

    fn draw(
        &self,
        finding: &Finding,
        handler: &GraphicalReportHandler,
        source: &std::sync::Arc<NamedSource<String>>,
        out: &mut String,
    ) {
        let Problem { what, expected, nearest } = &finding.problem;
        let severity = match finding.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        };
        // One line only: the frame shows where it starts.
        let (line, _) = self.line_and_column(finding.span);
        let line_end = self.line_starts[line - 1] + self.source_line(line).len();
        let start = finding.span.offset_bytes;
        let length = finding.span.length_bytes.min(line_end.saturating_sub(start));
        let label = nearest.as_ref().map(|n| format!("nearest known name: {n:?}"));
        let mut diagnostic = MietteDiagnostic::new(printable(what).into_owned())
            .with_severity(severity)
            .with_label(LabeledSpan::new(label, start, length));
        if let Some(expected) = expected {
            diagnostic = diagnostic.with_help(format!("expected: {expected}"));
        }
        let report = miette::Report::new(diagnostic).with_source_code(std::sync::Arc::clone(source));
        if handler.render_report(out, report.as_ref()).is_err() {
            self.write_plain(finding, out);
        }
    }

    fn write_plain(&self, finding: &Finding, out: &mut String) {
        const SHOWN: usize = 120;
        const BEFORE: usize = 60;
        let Problem { what, expected, nearest } = &finding.problem;
        let (line, column) = self.line_and_column(finding.span);
        let _ = writeln!(
            out,
            "{}:{line}:{column}: {}: {}",
            printable(&self.file),
            finding.severity.words(),
            printable(what)
        );
        // Tabs become one blank each, so that the marks below stay under the marked text.
        let text: Vec<char> = self.source_line(line).chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
        let first = if text.len() <= SHOWN { 0 } else { (column - 1).saturating_sub(BEFORE) };
        let shown: String = text.iter().skip(first).take(SHOWN).collect();
        let _ = writeln!(out, "{line:>5} | {}{}", if first > 0 { "..." } else { "" }, shown.trim_end());
        let start = finding.span.offset_bytes;
        let marked = self.text[start..start + finding.span.length_bytes].lines().next().unwrap_or("").chars().count();
        let blanks = column - 1 - first + if first > 0 { 3 } else { 0 };
        let marks = marked.clamp(1, SHOWN.saturating_sub(column - 1 - first).max(1));
        let _ = writeln!(out, "      | {}{}", " ".repeat(blanks), "^".repeat(marks));
        if let Some(expected) = expected {
            let _ = writeln!(out, "  expected: {expected}");
        }
        if let Some(nearest) = nearest {
            let _ = writeln!(out, "  nearest known name: {nearest:?}");
        }
    }

    /// Bounds of a span inside the text and on character boundaries.
    fn clamp(&self, span: SourceSpan) -> (usize, usize) {
        let inside =
            |at: usize| (0..=at.min(self.text.len())).rev().find(|a| self.text.is_char_boundary(*a)).unwrap_or(0);
        let start = inside(span.offset_bytes);
        (start, inside(span.offset_bytes.saturating_add(span.length_bytes)).max(start))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Report {}

impl From<Report> for Error {
    /// The place and text of the first error, and how many there are.
    fn from(report: Report) -> Error {
        let findings = report.findings();
        let Some(first) = findings.iter().find(|f| f.severity == Severity::Error).or_else(|| findings.first()) else {
            return Error::new(ErrorKind::Config, format!("{}: refused", report.file));
        };
        let (line, column) = report.line_and_column(first.span);
        let more = match report.errors().saturating_sub(1) {
            0 => String::new(),
            1 => " (and 1 more error; `thalweg config lint` shows all)".to_string(),
            n => format!(" (and {n} more errors; `thalweg config lint` shows all)"),
        };
        Error::new(ErrorKind::Config, format!("{}:{line}:{column}: {}{more}", report.file, first.problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let text = "<a>\n\t<var type=\"flaot\"/>\n</a>\n";
        let mut report = Report::new("c.xml", text);
        report.warning(0..3, Problem::new("an odd start"));
        report.error(16..21, Problem::unknown("type", "flaot", ["float", "double"]));
        report
    }

    #[test]
    fn a_plain_report_shows_place_line_expectation_and_nearest_name() {
        assert_eq!(
            report().render(false),
            "c.xml:1:1: warning: an odd start\n    1 | <a>\n      | ^^^\n\
             c.xml:2:13: error: unknown type \"flaot\"\n    2 |  <var type=\"flaot\"/>\n      |             ^^^^^\n  \
             expected: float, double\n  nearest known name: \"float\"\n1 error, 1 warning\n"
        );
    }

    #[test]
    fn a_drawn_report_holds_the_same_facts_and_colours() {
        let drawn = report().render(true);
        for part in ["\u{1b}[", "unknown type \"flaot\"", "c.xml:2:", "nearest known name: \"float\"", "float, double"]
        {
            assert!(drawn.contains(part), "{part} is missing in:\n{drawn}");
        }
    }

    #[test]
    fn as_an_error_the_first_error_is_told_not_the_first_warning() {
        let error = Error::from(report());
        assert_eq!(error.kind(), ErrorKind::Config);
        assert_eq!(
            error.what(),
            "c.xml:2:13: unknown type \"flaot\"; expected: float, double; nearest known name: \"float\""
        );
    }

    #[test]
    fn spans_outside_the_text_and_inside_characters_are_drawn_in() {
        let mut report = Report::new("c.xml", "é\u{1b}[2J");
        report.error(1..9000, Problem::new("x"));
        report.error(usize::MAX - 1..usize::MAX, Problem::new("y"));
        for color in [false, true] {
            let text = report.render(color);
            assert!(text.contains('x') && text.contains('y') && !text.contains("\u{1b}[2J"), "{text}");
        }
    }

    #[test]
    fn a_very_long_line_is_cut_around_the_finding() {
        let text = format!("{}HERE{}", "a".repeat(5000), "b".repeat(5000));
        let mut report = Report::new("c.xml", &text);
        report.error(5000..5004, Problem::new("x"));
        for color in [false, true] {
            let text = report.render(color);
            assert!(text.len() < 600 && text.contains("aHEREb") && text.contains(" ^^^^\n"), "{text}");
        }
    }
}
