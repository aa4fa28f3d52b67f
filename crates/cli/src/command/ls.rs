//! `thalweg ls`: lists the variables and attributes of a file, from its index alone.

use crate::arguments::Ls;
use crate::file::{self, Writers};
use crate::format;
use crate::outcome::{Failure, Outcome};
use crate::several;
use crate::terminal::{ASIDE, HEADING, Terminal, complain, left, plain};
use serde_json::{Value as Json, json};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use thalweg_bp::statistics::{ComponentStatistics, Level, Statistics};
use thalweg_control::history::{self, Entry};
use thalweg_query::number::{Number, brief, possible_mean, possible_variance};
use thalweg_reader::{
    Attribute, Block, BoundedForm, CompressionErrors, ErrorBound, Head, Kind, Reader, Summary, Variable,
};
use thalweg_report::json as report;
use thalweg_report::text::count;
use thalweg_types::{AttributeValue, ByteOrder, ElementType, Error, Value};

/// Longest text shown in a listing, in characters.
const TEXT_SHOWN: usize = 60;

pub fn run(arguments: &Ls, out: &mut Terminal) -> Result<Outcome, Failure> {
    let (files, patterns) = words(arguments);
    let patterns = Patterns::new(&patterns, arguments.regex)?;
    let (mut is_any, mut is_first) = (false, true);
    let outcome = several::each(&files, arguments.json, out, &mut |file, out| {
        let mut heading = |out: &mut Terminal| -> Result<(), Failure> {
            if files.len() > 1 && !arguments.json {
                out.styled(
                    HEADING,
                    &format!("{}{}:", if is_first { "" } else { "\n" }, plain(&file.display().to_string())),
                )?;
                writeln!(out)?;
                is_first = false;
            }
            Ok(())
        };
        is_any |= list(arguments, &patterns, file, &mut heading, out)?;
        Ok(Outcome::Done)
    })?;
    if !is_any && patterns.any() && outcome == Outcome::Done {
        let what = if arguments.attributes { "variable or attribute" } else { "variable" };
        return Err(Failure::Absent(format!("no {what} matches")));
    }
    Ok(outcome)
}

/// The files, and the patterns of names. A word behind the first file is a file if [`file::is_meant`] says so; with --pattern every word is.
fn words(arguments: &Ls) -> (Vec<PathBuf>, Vec<String>) {
    let (mut files, mut patterns) = (vec![arguments.file.clone()], arguments.pattern.clone());
    for word in &arguments.more {
        match !arguments.pattern.is_empty() || file::is_meant(word) {
            true => files.push(PathBuf::from(word)),
            false => patterns.push(word.clone()),
        }
    }
    (files, patterns)
}

/// What is printed in front of the listing of a file.
type Heading<'a> = dyn FnMut(&mut Terminal) -> Result<(), Failure> + 'a;

/// Lists a file; false if nothing in it matches.
fn list(
    arguments: &Ls,
    patterns: &Patterns,
    path: &Path,
    heading: &mut Heading<'_>,
    out: &mut Terminal,
) -> Result<bool, Failure> {
    let reader = file::open(path, Some("listing"))?;
    // Variables of the library itself are shown with everything, or by their names.
    let all = arguments.verbose || arguments.json || patterns.any();
    let own = |h: &Head| h.name.trim_start_matches('/').starts_with("__adios__/");
    let variables: Vec<&Head> =
        reader.variables().iter().filter(|h| patterns.fit(&h.name) && (all || !own(h))).collect();
    let (attributes, bad_attributes) = if arguments.attributes {
        let shown = |a: &Attribute| all || !a.internal;
        let heads = reader.attributes().iter().filter(|h| patterns.fit(&h.name));
        let (good, bad): (Vec<_>, Vec<_>) = heads.map(|h| reader.attribute(&h.name)).partition(Result::is_ok);
        let good: Vec<Attribute> = good.into_iter().flatten().filter(shown).collect();
        (good, bad.into_iter().filter_map(Result::err).collect())
    } else {
        (Vec::new(), Vec::new())
    };
    let is_nothing = variables.is_empty() && attributes.is_empty() && bad_attributes.is_empty();
    let mut unreadable: Vec<Error> = bad_attributes;
    if is_nothing && patterns.any() && !arguments.json {
        return Ok(false);
    }
    heading(out)?;
    if arguments.json {
        print_json(arguments, &reader, &variables, &attributes, &mut unreadable, out)?;
    } else {
        if arguments.verbose {
            print_file(&reader, out)?;
        }
        let mut rows = Vec::new();
        for head in &variables {
            match row(&reader, head, arguments.long) {
                Ok(row) => rows.push(row),
                Err(error) => unreadable.push(error),
            }
        }
        print_variables(arguments, &reader, &rows, out)?;
        print_attributes(&attributes, arguments.verbose || !rows.is_empty(), out)?;
        if !patterns.any() {
            print_changes(&changes(&reader, &mut unreadable), out)?;
        }
    }
    out.flush()?;
    for error in &unreadable {
        complain("thalweg", &error.to_string());
    }
    if let Some(error) = unreadable.first() {
        let what = format!("not everything could be listed: {} missing", unreadable.len());
        let failure = Failure::File(Error::new(error.kind(), what));
        // Its document is in place.
        if arguments.json {
            complain("thalweg", &failure.to_string());
            return Err(Failure::Told);
        }
        return Err(failure);
    }
    Ok(!is_nothing)
}

/// Patterns of names; without patterns every name matches.
pub struct Patterns(Vec<Pattern>);

enum Pattern {
    Name(thalweg_choice::Pattern),
    Regex(regex::Regex),
}

impl Patterns {
    /// - `regex`: they are regular expressions.
    ///
    /// # Errors
    /// `Usage` for one that is none.
    pub fn new(patterns: &[String], regex: bool) -> Result<Patterns, Failure> {
        let one = |p: &String| {
            if regex {
                regex::Regex::new(p).map(Pattern::Regex).map_err(|e| Failure::Usage(e.to_string()))
            } else {
                let pattern = thalweg_choice::Pattern::parse(p).map(Pattern::Name);
                pattern.map_err(|e| Failure::Usage(e.what().to_string()))
            }
        };
        Ok(Patterns(patterns.iter().map(one).collect::<Result<_, _>>()?))
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether a name matches one of them.
    pub fn fit(&self, name: &str) -> bool {
        self.0.is_empty()
            || self.0.iter().any(|p| match p {
                Pattern::Name(p) => p.fits(name),
                Pattern::Regex(r) => r.is_match(name),
            })
    }
}

/// The contents of one line.
struct Row {
    variable: Variable,
    steps: String,
    shape: String,
    /// Minimum, maximum, mean, standard deviation.
    facts: Option<[String; 4]>,
    /// Recorded errors of lossy blocks.
    errors: Option<CompressionErrors>,
}

fn row(reader: &Reader, head: &Head, long: bool) -> Result<Row, Error> {
    let variable = reader.variable(&head.name)?;
    let all = reader.status().steps;
    let there = variable.steps.len() as u64;
    let steps = if there == all { all.to_string() } else { format!("{there} of {all}") };
    let extent = Extents::of(reader, &variable)?;
    let (facts, errors) = match long {
        true => facts(reader, &variable, file::all_steps(reader)).map(|(facts, errors)| (Some(facts), errors))?,
        false => (None, None),
    };
    Ok(Row { shape: extent.text(&variable), variable, steps, facts, errors })
}

/// Smallest and largest extent in each dimension, and number of blocks in a step.
struct Extents {
    least: Vec<u64>,
    most: Vec<u64>,
    blocks: (u64, u64),
}

impl Extents {
    fn of(reader: &Reader, variable: &Variable) -> Result<Extents, Error> {
        let mut extents = Extents { least: variable.shape.clone(), most: variable.shape.clone(), blocks: (0, 0) };
        let steps = variable.steps.len() as u64;
        if !variable.shape_changes && steps > 0 && variable.blocks.is_multiple_of(steps) && variable.kind != Kind::Local
        {
            extents.blocks = (variable.blocks / steps, variable.blocks / steps);
            return Ok(extents);
        }
        let mut step = None;
        let mut in_step = 0;
        let mut counts: Option<(u64, u64)> = None;
        let mut note = |n: u64| counts = Some(counts.map_or((n, n), |(a, b)| (a.min(n), b.max(n))));
        reader.for_each_block(&variable.name, file::all_steps(reader), &mut |block| {
            if step != Some(block.step) {
                if step.is_some() {
                    note(in_step);
                }
                (step, in_step) = (Some(block.step), 0);
            }
            in_step += 1;
            let shape = if variable.kind == Kind::Global { &block.shape } else { &block.count };
            if matches!(variable.kind, Kind::Global | Kind::Local) && shape.len() == extents.least.len() {
                for (d, extent) in shape.iter().enumerate() {
                    extents.least[d] = extents.least[d].min(*extent);
                    extents.most[d] = extents.most[d].max(*extent);
                }
            }
            Ok(())
        })?;
        if step.is_some() {
            note(in_step);
        }
        extents.blocks = counts.unwrap_or((0, 0));
        Ok(extents)
    }

    fn text(&self, variable: &Variable) -> String {
        let span = |a: u64, b: u64| if a == b { a.to_string() } else { format!("{a}..{b}") };
        let extents = || self.least.iter().zip(&self.most).map(|(a, b)| span(*a, *b)).collect::<Vec<_>>().join(", ");
        let blocks = span(self.blocks.0, self.blocks.1);
        match variable.kind {
            Kind::Scalar => "scalar".to_string(),
            Kind::LocalValue => format!("{blocks} x scalar"),
            Kind::Global => format!("{{{}}}", extents()),
            Kind::Local => format!("{blocks} x [{}]", extents()),
        }
    }
}

/// What is shown of a variable's values: minimum, maximum, mean and standard deviation, of text the first one; recorded errors.
pub type Facts = ([String; 4], Option<CompressionErrors>);

/// Facts over these steps.
pub fn facts(reader: &Reader, variable: &Variable, steps: Range<u64>) -> Result<Facts, Error> {
    let none = || "-".to_string();
    if variable.element.is_text() {
        let first = match variable.steps.iter().find(|step| steps.contains(step)) {
            Some(step) => short_text(&reader.value(&variable.name, *step)?),
            None => none(),
        };
        return Ok(([first, String::new(), String::new(), String::new()], None));
    }
    let s = reader.summary(&variable.name, steps)?;
    let real = |v: Option<f64>| v.map_or_else(none, brief);
    if let (Some(part), finite) = (magnitude(&s), s.finite.unwrap_or(0)) {
        let (mean, std) = mean_and_std(part, finite);
        return Ok(([brief(part.min), brief(part.max), real(mean), real(std)], s.errors));
    }
    let value = |v: &Option<Value>| v.as_ref().map_or_else(none, format::short);
    let (mean, std) = credible(&s);
    Ok(([value(&s.min), value(&s.max), real(mean), real(std)], s.errors))
}

/// Minimum, maximum, mean, standard deviation and sum as doubles; of complex values those of the magnitude.
pub fn numbers(s: &Summary) -> [Option<f64>; 5] {
    if let (Some(part), finite) = (magnitude(s), s.finite.unwrap_or(0)) {
        let (mean, std) = mean_and_std(part, finite);
        return [Some(part.min), Some(part.max), mean, std, Some(part.sum)];
    }
    let number = |v: &Option<Value>| v.as_ref().and_then(Number::of).map(Number::as_f64);
    let (mean, std) = credible(s);
    let sum = s.exact_sum.map(|sum| sum as f64).or_else(|| Some(mean? * s.finite? as f64));
    [number(&s.min), number(&s.max), mean, std, sum]
}

/// Mean and standard deviation, if numbers between these extremes can have them.
fn credible(s: &Summary) -> (Option<f64>, Option<f64>) {
    let number = |v: &Option<Value>| v.as_ref().and_then(Number::of).map(Number::as_f64);
    let (Some(min), Some(max), Some(finite)) = (number(&s.min), number(&s.max), s.finite) else {
        return (s.mean, s.std);
    };
    let mean = s.mean.filter(|m| possible_mean(min, max, *m));
    let std = match s.std {
        Some(_) if s.min == s.max => Some(0.0),
        Some(0.0) => None,
        other => other.filter(|d| mean.is_some() && possible_variance(min, max, finite as f64, d * d)),
    };
    (mean, std)
}

fn magnitude(s: &Summary) -> Option<&ComponentStatistics> {
    s.complex.as_ref().filter(|_| s.finite.is_some_and(|n| n > 0)).map(|parts| &parts[0])
}

fn mean_and_std(part: &ComponentStatistics, finite: u64) -> (Option<f64>, Option<f64>) {
    if finite == 0 {
        return (None, None);
    }
    let mean = part.sum / finite as f64;
    let variance = (part.sum_of_squares / finite as f64 - mean * mean).max(0.0);
    (Some(mean), Some(variance.sqrt()))
}

fn short_text(value: &Value) -> String {
    let text = format::short(value);
    if text.chars().count() <= TEXT_SHOWN {
        return text;
    }
    let mut cut: String = text.chars().take(TEXT_SHOWN - 3).collect();
    cut.push_str("...");
    cut
}

fn print_file(reader: &Reader, out: &mut Terminal) -> Result<(), Failure> {
    let s = reader.status();
    let line = |out: &mut Terminal, what: &str, says: String| -> Result<(), Failure> {
        out.styled(HEADING, &left(what, 16))?;
        Ok(writeln!(out, "{says}")?)
    };
    line(out, "file", format!("{}, {}", plain(reader.path()), count(s.length, "byte")))?;
    if let Some(data) = &s.data_file {
        line(out, "index of", plain(data))?;
    }
    let order = if s.order == ByteOrder::Little { "little endian" } else { "big endian" };
    let by = if s.extended { "with Thalweg's extension" } else { "by another library" };
    line(out, "format", format!("BP version 3, {order}, {by}"))?;
    let end = match (s.finished, s.extended) {
        (_, false) => "",
        (true, true) => ", closed for good",
        (false, true) => ", more may come",
    };
    line(out, "steps", format!("{}{end}", s.steps))?;
    line(
        out,
        "groups",
        s.groups
            .iter()
            .map(|g| if g.is_empty() { "(unnamed)".to_string() } else { plain(g) })
            .collect::<Vec<_>>()
            .join(", "),
    )?;
    let writers =
        s.writers.map(|n| format!(", {} in the last opening", count(u64::from(n), "rank"))).unwrap_or_default();
    line(out, "process groups", format!("{}{writers}", s.process_groups))?;
    let lie = if s.subfiles { "in subfiles" } else { "in the file itself" };
    line(out, "values", lie.to_string())?;
    writeln!(out)?;
    Ok(())
}

fn print_variables(arguments: &Ls, reader: &Reader, rows: &[Row], out: &mut Terminal) -> Result<(), Failure> {
    if rows.is_empty() {
        return Ok(());
    }
    let width =
        |heading: &str, of: &dyn Fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0).max(heading.chars().count());
    let name = width("name", &|r| plain(&r.variable.name).chars().count());
    let kind = width("type", &|r| r.variable.element.name().len());
    let steps = width("steps", &|r| r.steps.len());
    let shape = width("shape", &|r| r.shape.len());
    // Texts may have any length, because they are in the last column.
    let fact: Vec<usize> = (0..4)
        .map(|i| {
            width(HEADINGS[i], &|r| r.facts.as_ref().map_or(0, |f| if is_text(r) { 0 } else { f[i].chars().count() }))
        })
        .collect();
    let mut heading =
        format!("{}  {}  {}  {}", left("type", kind), left("name", name), left("steps", steps), left("shape", shape));
    if arguments.long {
        for i in 0..4 {
            heading.push_str(&format!("  {:>w$}", HEADINGS[i], w = fact[i]));
        }
    }
    out.styled(HEADING, heading.trim_end())?;
    writeln!(out)?;
    let writers = if arguments.verbose { Some(Writers::of(reader)?) } else { None };
    for row in rows {
        let v = &row.variable;
        out.styled(ASIDE, &left(v.element.name(), kind))?;
        let mut line =
            format!("  {}  {}  {}", left(&plain(&v.name), name), left(&row.steps, steps), left(&row.shape, shape));
        for (i, f) in row.facts.iter().flatten().enumerate() {
            if is_text(row) {
                line.push_str(&format!("  {f}"));
            } else {
                line.push_str(&format!("  {f:>w$}", w = fact[i]));
            }
        }
        if let Some(transform) = &v.transform {
            line.push_str(&format!("  stored through {}", plain(transform)));
        }
        if let Some(errors) = &row.errors {
            line.push_str(&format!(", {}", error_words(errors)));
        }
        writeln!(out, "{}", line.trim_end())?;
        if let Some(writers) = &writers {
            print_blocks(reader, writers, v, arguments.long, out)?;
        }
    }
    Ok(())
}

const HEADINGS: [&str; 4] = ["min", "max", "mean", "std"];

fn is_text(row: &Row) -> bool {
    row.variable.element.is_text()
}

fn print_blocks(
    reader: &Reader,
    writers: &Writers,
    variable: &Variable,
    long: bool,
    out: &mut Terminal,
) -> Result<(), Failure> {
    let mut ended: Result<(), Failure> = Ok(());
    let told = reader.for_each_block(&variable.name, file::all_steps(reader), &mut |block| {
        ended = print_block(&block, writers.rank(&block), variable, long, out);
        // The reader of our output has ended, or nothing can be written: the rest is skipped.
        if ended.is_err() { Err(Error::new(thalweg_types::ErrorKind::Io, "stopped")) } else { Ok(()) }
    });
    ended?;
    Ok(told?)
}

fn print_block(
    block: &Block,
    writer: Option<u32>,
    variable: &Variable,
    long: bool,
    out: &mut Terminal,
) -> Result<(), Failure> {
    write!(out, "    step {}  block {}", block.step, block.number)?;
    if let Some(rank) = writer {
        write!(out, "  rank {rank}")?;
    }
    if let Some(value) = &block.value {
        write!(out, "  = {}", short_text(value))?;
    } else if variable.kind == Kind::Global {
        write!(out, "  {}", format::range(&block.offset, &block.count))?;
        if variable.shape_changes {
            write!(out, " of {}", format::shape(&block.shape))?;
        }
    } else {
        write!(out, "  {}", format::shape(&block.count).replace('{', "[").replace('}', "]"))?;
    }
    if block.elements() == 0 {
        write!(out, "  empty")?;
    } else if long && block.value.is_none() {
        for (heading, fact) in HEADINGS.iter().zip(block_facts(block.statistics.as_ref())) {
            if let Some(fact) = fact {
                write!(out, "  {heading} {fact}")?;
            }
        }
    }
    if let Some(record) = block.error_record()?.filter(|_| block.elements() > 0) {
        match (record.form, record.lossless) {
            (BoundedForm::Encoded, _) => write!(out, "  error at most {}", brief(record.largest))?,
            (_, Some(why)) => write!(out, "  lossless: {why}")?,
            (_, None) => write!(out, "  lossless")?,
        }
    }
    if let Some(subfile) = block.subfile {
        write!(out, "  subfile {subfile}")?;
    }
    writeln!(out)?;
    Ok(())
}

/// The recorded errors of a variable.
fn error_words(errors: &CompressionErrors) -> String {
    if errors.blocks == 0 {
        return "errors not measured".to_string();
    }
    let mut words = format!("errors at most {}", brief(errors.largest));
    match errors.bound {
        Some(bound @ ErrorBound::Absolute(_)) => words.push_str(&format!(" (bound {bound})")),
        Some(bound @ ErrorBound::Relative(_)) => {
            words.push_str(&format!(", {} of the range (bound {bound})", brief(errors.largest_relative)));
        }
        None => {}
    }
    if errors.lossless > 0 {
        words.push_str(&format!(", {} of {} lossless", errors.lossless, count(errors.blocks, "block")));
    }
    if errors.unrecorded > 0 {
        words.push_str(&format!(", {} not measured", count(errors.unrecorded, "block")));
    }
    words
}

fn json_errors(errors: &CompressionErrors) -> Json {
    let bound = errors.bound.map(|bound| match bound {
        ErrorBound::Absolute(error) => json!({ "error": error }),
        ErrorBound::Relative(fraction) => json!({ "relative_error": fraction }),
    });
    json!({
        "bound": bound, "largest": report::real(errors.largest), "largest_relative": report::real(errors.largest_relative),
        "blocks": errors.blocks, "lossless": errors.lossless, "not_measured": errors.unrecorded,
    })
}

fn block_facts(statistics: Option<&Statistics>) -> [Option<String>; 4] {
    let Some(s) = statistics.filter(|s| s.level != Level::Off && s.finite > 0) else { return [None, None, None, None] };
    if let Some([magnitude, _, _]) = &s.complex {
        let (mean, std) = mean_and_std(magnitude, s.finite);
        return [Some(brief(magnitude.min)), Some(brief(magnitude.max)), mean.map(brief), std.map(brief)];
    }
    [Some(format::short(&s.min)), Some(format::short(&s.max)), s.mean().map(brief), s.standard_deviation().map(brief)]
}

/// A table of attributes.
///
/// - `below`: something was printed before.
pub fn print_attributes(attributes: &[Attribute], below: bool, out: &mut Terminal) -> Result<(), Failure> {
    if attributes.is_empty() {
        return Ok(());
    }
    if below {
        writeln!(out)?;
    }
    let kinds: Vec<&str> = attributes.iter().map(|a| format::attribute_type(a.element, &a.value).name()).collect();
    let kind = kinds.iter().map(|k| k.len()).max().unwrap_or(0).max(4);
    let name = attributes.iter().map(|a| plain(&a.name).chars().count()).max().unwrap_or(0).max(9);
    out.styled(HEADING, &format!("{}  {}  value", left("type", kind), left("attribute", name)))?;
    writeln!(out)?;
    for (attribute, k) in attributes.iter().zip(kinds) {
        out.styled(ASIDE, &left(k, kind))?;
        write!(out, "  {}  {}", left(&plain(&attribute.name), name), format::attribute(&attribute.value))?;
        if let Some(variable) = &attribute.variable {
            write!(out, "  (of {})", plain(variable))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Changes of what the run wrote, in their order.
fn changes(reader: &Reader, unreadable: &mut Vec<Error>) -> Vec<Entry> {
    let mut changes = Vec::new();
    for head in reader.attributes().iter().filter(|head| history::output(&head.name).is_some()) {
        match reader.attribute(&head.name) {
            Ok(attribute) => {
                if let AttributeValue::One(Value::String(text)) = &attribute.value {
                    changes.extend(Entry::of(&attribute.name, &String::from_utf8_lossy(text)));
                }
            }
            Err(error) => unreadable.push(error),
        }
    }
    changes.sort_unstable();
    changes
}

fn print_changes(changes: &[Entry], out: &mut Terminal) -> Result<(), Failure> {
    if changes.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    out.styled(HEADING, "changes while the run wrote")?;
    writeln!(out)?;
    for Entry { output, step, change } in changes {
        writeln!(out, "from step {step} (output {output}) on: {}", plain(change))?;
    }
    Ok(())
}

/// Statistics as JSON.
pub fn json_facts(element: ElementType, s: &Summary) -> Json {
    let real = |v: Option<f64>| v.map(report::real);
    let part = |p: &ComponentStatistics| {
        let (mean, std) = mean_and_std(p, s.finite.unwrap_or(0));
        json!({ "min": report::real(p.min), "max": report::real(p.max), "mean": real(mean), "std": real(std) })
    };
    if let (true, Some([magnitude, re, im])) = (element.is_complex(), &s.complex) {
        return json!({ "elements": s.elements, "finite": s.finite,
            "magnitude": part(magnitude), "real": part(re), "imaginary": part(im) });
    }
    let (mean, std) = credible(s);
    json!({
        "elements": s.elements, "finite": s.finite,
        "min": s.min.as_ref().map(report::value), "max": s.max.as_ref().map(report::value),
        "mean": real(mean), "std": real(std),
    })
}

fn json_block(block: &Block, writer: Option<u32>, kind: Kind, long: bool) -> Json {
    let mut all = json!({ "step": block.step, "block": block.number, "rank": writer });
    if let Some(value) = &block.value {
        all["value"] = report::value(value);
    } else {
        if kind == Kind::Global {
            all["shape"] = json!(block.shape);
            all["offset"] = json!(block.offset);
        }
        all["count"] = json!(block.count);
        if let Some(s) = block.statistics.as_ref().filter(|s| long && s.finite > 0 && s.level != Level::Off) {
            if s.complex.is_none() {
                all["min"] = report::value(&s.min);
                all["max"] = report::value(&s.max);
                all["mean"] = json!(s.mean().map(report::real));
                all["std"] = json!(s.standard_deviation().map(report::real));
            } else if let Some([magnitude, _, _]) = &s.complex {
                let (mean, std) = mean_and_std(magnitude, s.finite);
                all["magnitude"] = json!({
                    "min": report::real(magnitude.min), "max": report::real(magnitude.max),
                    "mean": mean.map(report::real), "std": std.map(report::real),
                });
            }
        }
    }
    if let Ok(Some(record)) = block.error_record() {
        all["error"] = report::real(record.largest);
        all["lossless"] = json!(record.lossless.map(|why| why.to_string()));
    }
    if let Some(subfile) = block.subfile {
        all["subfile"] = json!(subfile);
    }
    all
}

/// One document with a line per variable, block and attribute; blocks are printed one by one, as there may be many.
fn print_json(
    arguments: &Ls,
    reader: &Reader,
    variables: &[&Head],
    attributes: &[Attribute],
    unreadable: &mut Vec<Error>,
    out: &mut Terminal,
) -> Result<(), Failure> {
    let s = reader.status();
    let partial: Vec<Json> =
        s.partial.iter().map(|p| json!({ "step": p.step, "rank": p.rank, "why": p.kind.words() })).collect();
    let changes: Vec<Json> = changes(reader, unreadable)
        .iter()
        .map(|entry| json!({ "output": entry.output, "step": entry.step, "change": entry.change }))
        .collect();
    let mut file = json!({
        "file": reader.path(), "bytes": s.length, "steps": s.steps, "finished": s.finished, "torn_bytes": s.torn_bytes,
        "partial": partial, "groups": s.groups, "process_groups": s.process_groups, "ranks": s.writers,
        "byte_order": if s.order == ByteOrder::Little { "little" } else { "big" },
        "subfiles": s.subfiles, "extended": s.extended, "step_records": s.step_records, "index_of": s.data_file,
    });
    if !changes.is_empty() {
        file["changes"] = Json::from(changes);
    }
    let text = file.to_string();
    write!(out, "{},\n\"variables\": [", text.strip_suffix('}').unwrap_or(&text))?;
    let writers = if arguments.verbose { Some(Writers::of(reader)?) } else { None };
    let mut first = true;
    for head in variables {
        let told = reader.variable(&head.name).and_then(|v| {
            let facts = if arguments.long { Some(reader.summary(&head.name, file::all_steps(reader))?) } else { None };
            Ok((v, facts))
        });
        let (v, facts) = match told {
            Ok(told) => told,
            Err(error) => {
                unreadable.push(error);
                continue;
            }
        };
        write!(out, "{}", if first { "\n" } else { ",\n" })?;
        first = false;
        let mut all = json!({
            "name": v.name, "group": v.group, "type": v.element.name(), "kind": kind_name(v.kind),
            "steps": v.steps.len(), "first_step": v.steps.first(), "last_step": v.steps.last(),
            "shape": v.shape, "shape_changes": v.shape_changes, "blocks": v.blocks, "transform": v.transform,
        });
        if let (Some(facts), Some(map)) = (&facts, all.as_object_mut())
            && !v.element.is_text()
            && let Json::Object(facts) = json_facts(v.element, facts)
        {
            map.extend(facts);
        }
        if let Some(errors) = facts.as_ref().and_then(|facts| facts.errors.as_ref()) {
            all["errors"] = json_errors(errors);
        }
        let text = all.to_string();
        let Some(writers) = &writers else {
            write!(out, "{text}")?;
            continue;
        };
        write!(out, "{}, \"each_block\": [", text.strip_suffix('}').unwrap_or(&text))?;
        let mut ended: Result<(), Failure> = Ok(());
        let mut separator = "\n  ";
        let told = reader.for_each_block(&v.name, file::all_steps(reader), &mut |block| {
            let json = json_block(&block, writers.rank(&block), v.kind, arguments.long);
            ended = write!(out, "{separator}{json}").map_err(Failure::from);
            separator = ",\n  ";
            if ended.is_err() { Err(Error::new(thalweg_types::ErrorKind::Io, "stopped")) } else { Ok(()) }
        });
        ended?;
        told?;
        write!(out, "]}}")?;
    }
    write!(out, "]")?;
    if arguments.attributes {
        write!(out, ",\n\"attributes\": [")?;
        for (i, a) in attributes.iter().enumerate() {
            write!(out, "{}{}", if i == 0 { "\n" } else { ",\n" }, attribute_document(a))?;
        }
        write!(out, "]")?;
    }
    writeln!(out, "}}")?;
    Ok(())
}

/// An attribute as JSON.
pub fn attribute_document(a: &Attribute) -> Json {
    json!({
        "name": a.name, "group": a.group, "type": format::attribute_type(a.element, &a.value).name(),
        "value": report::attribute(&a.value), "variable": a.variable, "internal": a.internal,
    })
}

/// The kind of a variable, in a word.
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Scalar => "scalar",
        Kind::LocalValue => "local value",
        Kind::Global => "global array",
        Kind::Local => "local array",
    }
}
