//! The one table of methods: a name in the XML becomes a method here and nowhere else.
//!
//! An explicit list, as objects that register themselves are dropped by linkers when a C or Fortran code links us
//! statically.

use thalweg_movement::Method;
use thalweg_movement::method::{self, MethodKind, Parameters};
use thalweg_schema::report::Problem;
use thalweg_schema::{MethodChoice, Report, Schema};
use thalweg_types::{Error, Result};

/// Every method.
pub const METHODS: &[MethodKind] = &[
    method::null::KIND,
    method::posix::KIND,
    method::independent::KIND,
    method::collective::KIND,
    method::aggregated::KIND,
    method::scheduled::KIND,
];

/// The method of this name, in any letter case.
pub fn find(name: &str) -> Option<&'static MethodKind> {
    METHODS.iter().find(|kind| kind.names.iter().any(|n| n.eq_ignore_ascii_case(name)))
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    METHODS.iter().flat_map(|kind| kind.names.iter().copied())
}

/// Makes the method a schema chose, its parameters checked.
///
/// # Errors
/// `Config` naming an unknown method or parameter and the nearest known one.
pub fn make(choice: &MethodChoice) -> Result<(&'static MethodKind, Box<dyn Method>)> {
    let kind = check(choice).map_err(|(_, problem)| Error::from(problem))?;
    let made = (kind.make)(&Parameters(choice.parameters.clone()))?;
    Ok((kind, made))
}

/// The kind of a method, or which parameter (`None`: the method itself) is wrong and how.
fn check(choice: &MethodChoice) -> std::result::Result<&'static MethodKind, (Option<usize>, Problem)> {
    let kind = find(&choice.method).ok_or_else(|| (None, Problem::unknown("method", &choice.method, names())))?;
    for (i, (key, _)) in choice.parameters.iter().enumerate() {
        let known = kind.parameters.iter().map(|p| p.key);
        if !known.clone().any(|k| k.eq_ignore_ascii_case(key)) {
            let what = format!("parameter of method {}", kind.names[0]);
            return Err((Some(i), Problem::unknown(&what, key, known)));
        }
    }
    if let Err(e) = (kind.make)(&Parameters(choice.parameters.clone())) {
        let at = choice.parameters.iter().position(|(key, _)| e.what().contains(key.as_str()));
        return Err((at, Problem::new(e.what().to_string())));
    }
    Ok(kind)
}

/// Adds to a document's report what only the tables of methods and of transforms know.
pub fn lint(schema: &Schema, report: &mut Report) {
    crate::transform::lint(schema, report);
    for choice in &schema.methods {
        if let (Err((at, problem)), Some(source)) = (check(choice), &choice.source) {
            let span = at.and_then(|i| source.parameters.get(i)).unwrap_or(&source.method);
            report.error(*span, problem);
        }
    }
}

/// Checks methods of a schema that no document describes.
///
/// # Errors
/// `Config` as in [`make`], and what [`crate::transform::of`] says of a variable.
pub fn check_all(schema: &Schema) -> Result<()> {
    schema
        .methods
        .iter()
        .try_for_each(|choice| check(choice).map(|_| ()).map_err(|(_, problem)| Error::from(problem)))?;
    for group in &schema.groups {
        for variable in &group.variables {
            crate::transform::of(variable).map_err(|e| e.in_group(group.name.clone()))?;
        }
    }
    Ok(())
}
