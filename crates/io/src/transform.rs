//! Transforms of a group's variables: the schema's transforms checked against those that this build contains.

use thalweg_diagnostics::{Problem, Report};
use thalweg_schema::{Dimension, Schema, Statistics, Variable};
use thalweg_transform::{Spec, find, is_of_adios1};
use thalweg_types::Result;

/// The name in files of the transform that a variable's blocks go through; empty for none.
pub fn name(variable: &Variable) -> &'static str {
    if variable.transform.is_none() {
        return "";
    }
    chosen(variable).ok().and_then(|c| c.spec).map_or("", |spec| spec.name())
}

/// Whether a transform's text names one of ours or of ADIOS 1.x's, built in or not.
pub fn is_known(text: &str) -> bool {
    let name = text.split(':').next().unwrap_or("").trim();
    name.is_empty() || name.eq_ignore_ascii_case("none") || find(name).is_some() || is_of_adios1(name)
}

/// The transform chosen for a variable.
pub struct Chosen {
    /// The transform of its blocks; `None` for none.
    pub spec: Option<Spec>,
    /// Why it differs from the description, and the replacement.
    pub instead: Option<Problem>,
}

/// The transform of a variable's blocks. If it is not built in, does not support the blocks or has invalid parameters, the
/// variable is written nevertheless: with the transform's default if that is lossless, else untransformed.
///
/// # Errors
/// Where `THALWEG_STRICT` is set: as [`of`].
pub fn chosen(variable: &Variable) -> Result<Chosen> {
    let error = match of(variable) {
        Ok(spec) => return Ok(Chosen { spec, instead: None }),
        Err(e) if crate::registry::strict_by_environment() => return Err(e),
        Err(e) => e,
    };
    let text = variable.transform.as_deref().unwrap_or("");
    let name = text.split(':').next().unwrap_or("").trim();
    let default = match find(name) {
        Some(codec) if codec.keeps_every_bit() => {
            of(&Variable { transform: Some(name.to_string()), ..variable.clone() }).ok().flatten()
        }
        _ => None,
    };
    let full = variable.full_name();
    let instead = match &default {
        Some(_) => format!("variable {full:?} is transformed by {name} with its default"),
        None => format!("variable {full:?} is written untransformed"),
    };
    let problem = Problem { what: format!("{}: {instead}", error.what()), ..problem(variable, &error) };
    Ok(Chosen { spec: default, instead: Some(problem) })
}

/// The problem, with the nearest name of a transform.
fn problem(variable: &Variable, error: &thalweg_types::Error) -> Problem {
    let name = variable.transform.as_deref().unwrap_or("").split(':').next().unwrap_or("").trim();
    let problem = Problem::new(error.what().to_string());
    match find(name) {
        Some(_) => problem,
        None => problem.nearest_to(name, thalweg_transform::names()),
    }
}

/// The transform of a variable's blocks; `None` for none, and for single values and texts, which have none.
///
/// # Errors
/// `Config` for a bad parameter; `Unsupported` for a transform that is not built in or does not take such arrays.
pub fn of(variable: &Variable) -> Result<Option<Spec>> {
    let place = |e: thalweg_types::Error| e.in_variable(variable.full_name());
    let Some(spec) = Spec::parse(variable.transform.as_deref().unwrap_or("")).map_err(place)? else { return Ok(None) };
    // Time is no dimension of a block.
    let dimensions = variable.local.iter().filter(|d| !matches!(d, Dimension::Time)).count();
    if variable.element.is_text() || dimensions == 0 {
        return Ok(None);
    }
    spec.suits(variable.element, dimensions).map_err(place)?;
    Ok(Some(spec))
}

/// Adds mistakes in a document's transforms to its report. `lint`: every mistake is an error, and the report lists the libraries
/// that can read the variables; else a mistake is a warning if the variable is written nevertheless.
pub(crate) fn look(schema: &Schema, report: &mut Report, lint: bool) {
    let variables = schema.groups.iter().flat_map(|g| g.variables.iter().map(move |v| (g, v)));
    for (group, variable) in variables {
        let Some(position) = variable.transform_position.0 else { continue };
        if !lint {
            match chosen(variable) {
                Ok(Chosen { instead, .. }) => instead.into_iter().for_each(|p| report.warning(position, p)),
                Err(e) => report.error(position, problem(variable, &e)),
            }
            continue;
        }
        match of(variable) {
            Err(e) => report.error(position, problem(variable, &e)),
            Ok(None) if variable.transform.is_some() => {
                let what = "single values and texts are not transformed, but written as they are";
                report.warning(position, Problem::new(what));
            }
            Ok(None) => {}
            Ok(Some(spec)) => {
                // Time is no dimension of a block.
                let dimensions = variable.local.iter().filter(|d| !matches!(d, Dimension::Time)).count();
                let readers = match spec.codec().foreign(dimensions) {
                    true => "read by ADIOS 1.x and by us, not by adios2".to_string(),
                    false if spec.codec().foreign(1) => {
                        format!(
                            "{} of {dimensions} dimensions is ours alone: neither ADIOS 1.x nor adios2 reads it",
                            spec.name()
                        )
                    }
                    false => format!("{} is ours alone: neither ADIOS 1.x nor adios2 reads it", spec.name()),
                };
                // It takes statistics of transformed blocks for something else, and gives up.
                let file = match variable.statistics.unwrap_or(group.statistics) {
                    Statistics::Off => "; adios2 reads other variables of the file",
                    _ => "; adios2 opens a file that holds it only where it is written with stats=\"off\"",
                };
                report.warning(position, Problem::new(readers + file));
                if let Some(remark) = spec.remark() {
                    report.warning(position, Problem::new(remark));
                }
            }
        }
    }
}
