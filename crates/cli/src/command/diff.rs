//! `thalweg diff`: where two files differ.

use crate::arguments::Diff as Arguments;
use crate::converter::Program;
use crate::file;
use crate::format;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Terminal, plain};
use serde_json::{Value as Json, json};
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use thalweg_choice::{Pattern, Written};
use thalweg_convert::{Compared, Difference as Other, Format, Message, Request, Side as Own, Task};
use thalweg_diff::{Difference, Options, Side, Summary, Tolerance, diff};
use thalweg_report::text::count;
use thalweg_types::{AttributeValue, Error, ErrorKind};

/// Steps that are listed one by one.
const LISTED: usize = 8;

pub fn run(arguments: &Arguments, out: &mut Terminal) -> Result<Outcome, Failure> {
    let patterns = |all: &[String]| {
        let all: Result<Vec<Pattern>, Error> = all.iter().map(|text| Pattern::parse(text)).collect();
        all.map_err(|e| Failure::Usage(e.what().to_string()))
    };
    let (only, without) = (patterns(&arguments.only)?, patterns(&arguments.without)?);
    let names = |name: &str| {
        (only.is_empty() || only.iter().any(|pattern| pattern.fits(name)))
            && !without.iter().any(|pattern| pattern.fits(name))
    };
    let options = Options {
        names: &names,
        tolerance: Tolerance { absolute: arguments.absolute, relative: arguments.relative },
        attributes: !arguments.values,
        memory: arguments.memory,
    };
    let formats = (Format::of(&arguments.a), Format::of(&arguments.b));
    if matches!(formats, (Some(Format::Hdf5 | Format::Zarr), _) | (_, Some(Format::Hdf5 | Format::Zarr))) {
        return beside(arguments, formats, out);
    }
    let (a, b) = (file::open(&arguments.a, None)?, file::open(&arguments.b, None)?);
    let (mut found, mut unwritten) = (Vec::new(), None);
    let compared = diff(&a, &b, &options, &mut |difference| {
        if arguments.json {
            found.push(document(&difference));
            return Ok(());
        }
        writeln!(out, "{}", line(&difference, arguments)).map_err(|e| {
            unwritten = Some(e);
            Error::new(ErrorKind::Io, "cannot write the output")
        })
    });
    if let Some(e) = unwritten {
        // Also where the reader of the output has ended.
        return Err(e.into());
    }
    summed(arguments, compared?, &found, out)
}

/// Says how much was compared, and whether nothing differs.
fn summed(arguments: &Arguments, summary: Summary, found: &[Json], out: &mut Terminal) -> Result<Outcome, Failure> {
    if arguments.json {
        let document = json!({
            "equal": summary.is_equal(),
            "variables": summary.variables,
            "differing": summary.differing,
            "attributes": summary.attributes,
            "differing_attributes": summary.differing_attributes,
            "differences": found,
        });
        writeln!(out, "{document:#}")?;
    } else if summary.variables + summary.attributes == 0 && !arguments.only.is_empty() {
        return Err(Failure::Absent("no variable or attribute of either file fits".into()));
    } else {
        let of = |differing: u64, all: u64, what: &str| match differing {
            0 => format!("{} equal", count(all, what)),
            _ => format!("{differing} of {} differ", count(all, what)),
        };
        let mut words = of(summary.differing, summary.variables, "variable");
        if !arguments.values {
            words += &format!(", {}", of(summary.differing_attributes, summary.attributes, "attribute"));
        }
        writeln!(out, "{words}")?;
    }
    Ok(if summary.is_equal() { Outcome::Done } else { Outcome::No })
}

/// A BP file beside a file of another format: the program that is linked with its library compares them.
fn beside(
    arguments: &Arguments,
    formats: (Option<Format>, Option<Format>),
    out: &mut Terminal,
) -> Result<Outcome, Failure> {
    let (is_first, other) = match formats {
        (Some(Format::Hdf5), Some(Format::Hdf5)) => {
            return Err(Failure::Usage("neither file is BP: h5diff compares them".into()));
        }
        (Some(Format::Hdf5 | Format::Zarr), Some(Format::Hdf5 | Format::Zarr)) => {
            return Err(Failure::Usage("neither file is BP: convert one of them".into()));
        }
        (Some(other), Some(Format::Bp) | None) if other != Format::Bp => (false, other),
        (_, other) => (true, other.unwrap_or(Format::Hdf5)),
    };
    let (source, target) = if is_first { (&arguments.a, &arguments.b) } else { (&arguments.b, &arguments.a) };
    let text = |path: &Path| {
        let none = || Failure::Usage(format!("'{}' is no UTF-8 text", path.display()));
        path.to_str().map(str::to_string).ok_or_else(none)
    };
    // Says what is wrong with it.
    file::open(source, None)?;
    target.metadata().map_err(|e| Error::io(format!("cannot open '{}'", target.display()), e))?;
    let chosen = Written { only: arguments.only.clone(), without: arguments.without.clone(), ..Written::default() };
    let Arguments { absolute, relative, values, memory, .. } = *arguments;
    let task = Task::Beside { other, absolute, relative, attributes: !values };
    let request = Request { source: text(source)?, target: text(target)?, shown: text(target)?, chosen, memory, task };
    let (mut found, mut compared, mut written) = (Vec::new(), None, Ok(()));
    Program::start("files of HDF5, netCDF and Zarr are compared", &[OsStr::new("convert")], target, "both files")?
        .ask(&request, &mut |line| match serde_json::from_str(line) {
            Ok(Message::Differs(difference)) if arguments.json => found.push(other_document(&difference, is_first)),
            Ok(Message::Differs(difference)) if written.is_ok() => {
                written = writeln!(out, "{}", other_line(&difference, (source, target), is_first));
            }
            Ok(Message::Compared(all)) => compared = Some(all),
            _ => {}
        })?;
    written?;
    let unsaid = || Error::new(ErrorKind::Io, "thalweg-convert is of another release: it did not say what it has done");
    let Compared { variables, differing, attributes, differing_attributes } = compared.ok_or_else(unsaid)?;
    summed(arguments, Summary { variables, differing, attributes, differing_attributes }, &found, out)
}

/// A pair in the order of the command line.
fn ordered<T>((source, target): (T, T), is_first: bool) -> (T, T) {
    if is_first { (source, target) } else { (target, source) }
}

fn other_line(difference: &Other, (source, target): (&Path, &Path), is_first: bool) -> String {
    let pair = |pair: &(String, String)| ordered(pair.clone(), is_first);
    match difference {
        Other::Variable { name, only_in } => {
            let file = if *only_in == Own::Source { source } else { target };
            format!("{}: only in {}", plain(name), shown(file))
        }
        Other::Form { name, forms: two } | Other::Shape { name, shapes: two } => {
            let (a, b) = pair(two);
            format!("{}: {}, and {}", plain(name), plain(&a), plain(&b))
        }
        Other::Values { name, step, differing, elements, largest, index, values } => {
            let (a, b) = pair(values);
            let by = largest.as_ref().map_or(String::new(), |largest| format!(", by {largest}"));
            let of = if *elements == 1 { String::new() } else { format!("{differing} of {elements} differ, most ") };
            let index: Vec<String> = index.iter().map(u64::to_string).collect();
            let at = if index.is_empty() { String::new() } else { format!("{of}at [{}]: ", index.join(", ")) };
            format!("{}, step {step}: {at}{} and {}{by}", plain(name), plain(&a), plain(&b))
        }
        Other::Attribute { name, values } => {
            let none = || "not there".to_string();
            let (a, b) = ordered(values.clone(), is_first);
            let (a, b) = (a.unwrap_or_else(none), b.unwrap_or_else(none));
            format!("attribute {}: {} and {}", plain(name), plain(&a), plain(&b))
        }
    }
}

fn other_document(difference: &Other, is_first: bool) -> Json {
    let pair = |pair: &(String, String)| ordered(pair.clone(), is_first);
    match difference {
        Other::Variable { name, only_in } => {
            let is_a = (*only_in == Own::Source) == is_first;
            json!({"variable": name, "only_in": if is_a { "a" } else { "b" }})
        }
        Other::Form { name, forms } => {
            let (a, b) = pair(forms);
            json!({"variable": name, "a": a, "b": b})
        }
        Other::Shape { name, shapes } => {
            let (a, b) = pair(shapes);
            json!({"variable": name, "shape": {"a": a, "b": b}})
        }
        Other::Values { name, step, differing, elements, largest, index, values } => {
            let (a, b) = pair(values);
            let largest = largest.as_ref().map(|text| match text.parse::<f64>() {
                Ok(largest) if largest.is_finite() => json!(largest),
                // JSON has no infinity.
                _ => json!("infinite"),
            });
            json!({
                "variable": name, "step": step, "differing": differing, "elements": elements, "largest": largest,
                "index": index, "a": a, "b": b,
            })
        }
        Other::Attribute { name, values } => {
            let (a, b) = ordered(values.clone(), is_first);
            json!({"attribute": name, "a": a, "b": b})
        }
    }
}

fn shown(path: &Path) -> String {
    plain(&path.display().to_string()).to_string()
}

fn attribute(value: &Option<AttributeValue>) -> String {
    value.as_ref().map_or("not there".to_string(), |value| plain(&format::attribute(value)).to_string())
}

fn line(difference: &Difference, arguments: &Arguments) -> String {
    let side = |side: Side| match side {
        Side::A => shown(&arguments.a),
        Side::B => shown(&arguments.b),
    };
    match difference {
        Difference::Variable { name, only_in } => format!("{}: only in {}", plain(name), side(*only_in)),
        Difference::Form { name, forms } => format!("{}: {}, and {}", plain(name), forms.0, forms.1),
        Difference::Steps { name, only_in, steps } => {
            let listed: Vec<String> = steps.iter().take(LISTED).map(u64::to_string).collect();
            let more =
                if steps.len() > LISTED { format!(", and {} more", steps.len() - LISTED) } else { String::new() };
            format!("{}: only in {}: steps {}{more}", plain(name), side(*only_in), listed.join(", "))
        }
        Difference::Shape { name, step, shapes } => {
            format!("{}, step {step}: {}, and {}", plain(name), shapes.0, shapes.1)
        }
        Difference::Coverage { name, step, covered } => {
            format!("{}, step {step}: blocks cover {} and {} elements", plain(name), covered.0, covered.1)
        }
        Difference::Values { name, step, differing, elements, largest, place } => {
            let block = place.block.map_or(String::new(), |number| format!(", block {number}"));
            let (a, b) = (format::exact(&place.values.0), format::exact(&place.values.1));
            let (a, b) = (plain(&a), plain(&b));
            match (largest, place.index.is_empty()) {
                (Some(largest), false) => {
                    let index: Vec<String> = place.index.iter().map(u64::to_string).collect();
                    let of =
                        if *elements == 1 { String::new() } else { format!("{differing} of {elements} differ, most ") };
                    format!(
                        "{}, step {step}{block}: {of}at [{}]: {a} and {b}, by {largest:e}",
                        plain(name),
                        index.join(", ")
                    )
                }
                (Some(largest), true) => format!("{}, step {step}{block}: {a} and {b}, by {largest:e}", plain(name)),
                (None, _) => format!("{}, step {step}{block}: {a} and {b}", plain(name)),
            }
        }
        Difference::Attribute { name, values } => {
            format!("attribute {}: {} and {}", plain(name), attribute(&values.0), attribute(&values.1))
        }
    }
}

fn document(difference: &Difference) -> Json {
    let side = |side: Side| match side {
        Side::A => "a",
        Side::B => "b",
    };
    match difference {
        Difference::Variable { name, only_in } => json!({"variable": name, "only_in": side(*only_in)}),
        Difference::Form { name, forms } => json!({"variable": name, "a": forms.0, "b": forms.1}),
        Difference::Steps { name, only_in, steps } => {
            json!({"variable": name, "only_in": side(*only_in), "steps": steps})
        }
        Difference::Shape { name, step, shapes } => {
            json!({"variable": name, "step": step, "shape": {"a": shapes.0, "b": shapes.1}})
        }
        Difference::Coverage { name, step, covered } => {
            json!({"variable": name, "step": step, "covered": {"a": covered.0, "b": covered.1}})
        }
        Difference::Values { name, step, differing, elements, largest, place } => json!({
            "variable": name,
            "step": step,
            "differing": differing,
            "elements": elements,
            // JSON has no infinity.
            "largest": largest.map(|largest| if largest.is_finite() { json!(largest) } else { json!("infinite") }),
            "block": place.block,
            "index": place.index,
            "a": format::exact(&place.values.0),
            "b": format::exact(&place.values.1),
        }),
        Difference::Attribute { name, values } => {
            let value = |value: &Option<AttributeValue>| value.as_ref().map(format::attribute);
            json!({"attribute": name, "a": value(&values.0), "b": value(&values.1)})
        }
    }
}
