//! The one table of methods: a name in the XML becomes a method here and nowhere else.
//!
//! An explicit list, as objects that register themselves are dropped by linkers when a C or Fortran code links us
//! statically.

use thalweg_movement::method::{self, MethodKind, Parameter, Parameters};
use thalweg_movement::{Method, profile};
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
    method::adaptive::KIND,
    method::scheduled::KIND,
    method::trigger::KIND,
];

/// Parameters that every method takes, as they are not the method's business.
pub const COMMON: &[Parameter] = &[profile::PARAMETER];

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
        let known = kind.parameters.iter().chain(COMMON).map(|p| p.key);
        if !known.clone().any(|k| k.eq_ignore_ascii_case(key)) {
            let what = format!("parameter of method {}", kind.names[0]);
            return Err((Some(i), Problem::unknown(&what, key, known)));
        }
    }
    let made = (kind.make)(&Parameters(choice.parameters.clone()));
    if let Err(e) = made.map(drop).and_then(|()| is_profiled(choice).map(drop)) {
        let at = choice.parameters.iter().position(|(key, _)| e.what().contains(key.as_str()));
        return Err((at, Problem::new(e.what().to_string())));
    }
    Ok(kind)
}

/// Whether a method wants a profile of its outputs.
///
/// # Errors
/// `Config` where the parameter is neither yes nor no.
pub fn is_profiled(choice: &MethodChoice) -> Result<bool> {
    Parameters(choice.parameters.clone()).flag(profile::PARAMETER.key, false)
}

/// Whether a method writes files.
pub fn stores(kind: &MethodKind) -> bool {
    ![method::null::KIND.id, method::STORES_NOTHING].contains(&kind.id)
}

/// Checks that the methods of one group do not write the same files.
///
/// # Errors
/// `Config` naming two that do; unknown methods are none of it.
pub fn check_together(choices: &[MethodChoice]) -> Result<()> {
    clash(choices.iter()).map_or(Ok(()), |(_, problem)| Err(Error::from(problem)))
}

/// The first choice whose files an earlier one of the same group writes too.
fn clash<'c>(choices: impl Iterator<Item = &'c MethodChoice> + Clone) -> Option<(&'c MethodChoice, Problem)> {
    let writers = choices.filter(|c| find(&c.method).is_some_and(stores));
    for (i, choice) in writers.clone().enumerate() {
        let same = |c: &&MethodChoice| c.group == choice.group && c.base_path == choice.base_path;
        if let Some(earlier) = writers.clone().take(i).find(same) {
            let what = format!(
                "methods {} and {} of group \"{}\" write the same files",
                earlier.method, choice.method, choice.group
            );
            return Some((choice, Problem::new(what).expected("another base-path for one of them")));
        }
    }
    None
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
    if let Some((choice, problem)) = clash(schema.methods.iter())
        && let Some(source) = &choice.source
    {
        report.error(source.method, problem);
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
