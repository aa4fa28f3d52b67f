//! `thalweg diff`: where two files differ.

use crate::arguments::Diff as Arguments;
use crate::file;
use crate::format;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Terminal, plain};
use serde_json::{Value as Json, json};
use std::io::Write;
use std::path::Path;
use thalweg_choice::Pattern;
use thalweg_diff::{Difference, Options, Side, Tolerance, diff};
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
    let summary = compared?;
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
    } else if summary.variables + summary.attributes == 0 && !only.is_empty() {
        return Err(Failure::Absent("no variable or attribute of either file fits".into()));
    } else {
        let of = |differing: u64, all: u64, what: &str| match differing {
            0 => format!("{} equal", count(all, what)),
            _ => format!("{differing} of {} differ", count(all, what)),
        };
        let mut words = of(summary.differing, summary.variables, "variable");
        if options.attributes {
            words += &format!(", {}", of(summary.differing_attributes, summary.attributes, "attribute"));
        }
        writeln!(out, "{words}")?;
    }
    Ok(if summary.is_equal() { Outcome::Done } else { Outcome::No })
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
