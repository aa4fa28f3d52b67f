//! Transforms of a group's variables: what the schema says, checked against what is built in.

use thalweg_schema::report::Problem;
use thalweg_schema::{Dimension, Report, Schema, Statistics, Variable};
use thalweg_transform::{Spec, find};
use thalweg_types::Result;

/// The name in files of a variable's transform; empty for none.
pub fn name(variable: &Variable) -> &str {
    let text = variable.transform.as_deref().unwrap_or("");
    let name = text.split(':').next().unwrap_or("").trim();
    find(name).map_or("", |codec| codec.name())
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

/// Adds to a document's report what is wrong with its transforms, and who will read them.
pub(crate) fn lint(schema: &Schema, report: &mut Report) {
    let variables = schema.groups.iter().flat_map(|g| g.variables.iter().map(move |v| (g, v)));
    for (group, variable) in variables {
        let Some(place) = variable.transform_place.0 else { continue };
        match of(variable) {
            Err(e) => report.error(place, Problem::new(e.what().to_string())),
            Ok(None) if variable.transform.is_some() => {
                let what = "single values and texts are not transformed, but written as they are";
                report.warning(place, Problem::new(what));
            }
            Ok(None) => {}
            Ok(Some(spec)) => {
                let readers = match spec.codec().foreign() {
                    true => "read by ADIOS 1.x and by us, not by adios2".to_string(),
                    false => format!("{} is ours alone: neither ADIOS 1.x nor adios2 reads it", spec.name()),
                };
                // It takes statistics of transformed blocks for something else, and gives up.
                let file = match variable.statistics.unwrap_or(group.statistics) {
                    Statistics::Off => "; adios2 reads other variables of the file",
                    _ => "; adios2 opens a file that holds it only where it is written with stats=\"off\"",
                };
                report.warning(place, Problem::new(readers + file));
                if let Some(remark) = spec.remark() {
                    report.warning(place, Problem::new(remark));
                }
            }
        }
    }
}
