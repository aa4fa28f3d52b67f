//! The table of methods: from a name in the XML to a method.
//!
//! [`METHODS`] lists the library's methods; a program adds its own with [`add`] before it opens outputs.
//!
//! The list is explicit, because linkers drop objects that register themselves when a C or Fortran code links us statically.

use crate::consistency;
use crate::hdf5;
use crate::in_flight;
use crate::socket;
use crate::staging;
use crate::steering;
use crate::vtk;
use thalweg_diagnostics::{Problem, Report};
use thalweg_movement::Method;
use thalweg_movement::method::{self, MethodKind, Parameter, Parameters, STRICT};
use thalweg_profile as profile;
use thalweg_schema::services::Services;
use thalweg_schema::{MethodChoice, Schema};
use thalweg_types::mutex::RwLock;
use thalweg_types::{Error, ErrorKind, Result};

/// Every method.
pub const METHODS: &[MethodKind] = &[
    method::null::KIND,
    method::posix::KIND,
    method::independent::KIND,
    method::collective::KIND,
    method::aggregated::KIND,
    method::adaptive::KIND,
    method::scheduled::KIND,
    method::asynchronous::KIND,
    method::trigger::KIND,
    staging::KIND,
    hdf5::PHDF5,
    hdf5::NC4,
    vtk::KIND,
    socket::KIND,
];

/// Parameters of every method, evaluated outside of the methods.
pub const COMMON: &[Parameter] = &[
    profile::PARAMETER,
    STRICT,
    consistency::PARAMETER,
    in_flight::ASYNC,
    in_flight::IN_FLIGHT,
    steering::PARAMETER,
    steering::RULES,
];

/// Methods that programs have added.
static ADDED: RwLock<Vec<&'static MethodKind>> = RwLock::new(Vec::new());

fn added() -> Vec<&'static MethodKind> {
    ADDED.read().clone()
}

/// Adds a method of the program, for all sessions of the process; XML and code then choose it by name. Call it on every rank.
///
/// # Errors
/// `Config` if one of its names is that of another method, or if it has no name. Adding the same method again has no effect.
pub fn add(kind: &'static MethodKind) -> Result<()> {
    let mut added = ADDED.write();
    if added.iter().any(|known| std::ptr::eq(*known, kind)) {
        return Ok(());
    }
    let all = || METHODS.iter().chain(added.iter().copied());
    let taken = |name: &&&str| all().any(|known| is_called(known, name));
    if let Some(name) = kind.names.iter().find(taken) {
        return Err(Error::new(ErrorKind::Config, format!("a method {name} is registered already")));
    }
    if kind.names.is_empty() {
        return Err(Error::new(ErrorKind::Config, "a method without a name"));
    }
    added.push(kind);
    Ok(())
}

fn is_called(kind: &MethodKind, name: &str) -> bool {
    kind.names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The method of this name, in any letter case.
pub fn find(name: &str) -> Option<&'static MethodKind> {
    let ours = METHODS.iter().find(|kind| is_called(kind, name));
    ours.or_else(|| added().into_iter().find(|kind| is_called(kind, name)))
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    METHODS.iter().chain(added()).flat_map(|kind| kind.names.iter().copied())
}

/// A remark about a parameter, and its consequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The parameter, by number; `None`: the method itself.
    pub parameter: Option<usize>,
    /// The remark.
    pub problem: Problem,
    /// The consequence.
    pub weight: Weight,
}

/// The consequence of a remark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// A parameter of ADIOS 1.x, without effect.
    NoEffect,
    /// The parameter is ignored and its default used; if the method is [strict](is_strict), it is an error.
    LeftOut,
    /// The method cannot be created.
    Refused,
}

/// A chosen method with its parameters, and remarks about them.
pub struct Examined {
    /// Its kind; `None` for an unknown one.
    pub kind: Option<&'static MethodKind>,
    /// The valid parameters.
    pub parameters: Parameters,
    /// In the order of the parameters.
    pub remarks: Vec<Remark>,
}

/// Whether mistakes that could be ignored are errors: `strict=yes` among the parameters, or `THALWEG_STRICT=1`.
pub fn is_strict(choice: &MethodChoice) -> bool {
    strict_by_environment() || Parameters::from(choice.parameters.clone()).get(&STRICT).unwrap_or(false)
}

/// Whether `THALWEG_STRICT` turns mistakes that could be ignored into errors.
pub fn strict_by_environment() -> bool {
    const NAME: &str = "THALWEG_STRICT";
    let Some(value) = std::env::var_os(NAME) else { return false };
    let value = value.to_string_lossy();
    // An unknown word was probably meant as a yes.
    !value.trim().is_empty() && thalweg_params::switch(&value).unwrap_or(true)
}

/// Creates the method that a schema chose; invalid parameters are ignored unless the choice is [strict](is_strict).
///
/// # Errors
/// `Config` for an unknown method, with the nearest known one; for an invalid parameter if the choice is strict.
pub fn make(choice: &MethodChoice) -> Result<(&'static MethodKind, Box<dyn Method>)> {
    let examined = examine(choice);
    if let Some(remark) = examined.refusal(choice) {
        return Err(Error::from(remark.problem.clone()));
    }
    let kind = examined.kind.ok_or_else(|| Error::from(Problem::unknown("method", &choice.method, names())))?;
    let made = (kind.make)(&examined.parameters)?;
    Ok((kind, made))
}

/// The ignored parts of a choice that [`make`] accepts, in words.
///
/// # Errors
/// As [`make`].
pub fn check(choice: &MethodChoice) -> Result<Vec<String>> {
    make(choice)?;
    let method = &choice.method;
    let left_out = examine(choice).remarks.into_iter().filter(|r| r.weight == Weight::LeftOut);
    Ok(left_out
        .map(|r| format!("group \"{}\", method {method}: {}; it is left out", choice.group, r.problem))
        .collect())
}

impl Examined {
    /// The remark because of which the method is refused.
    pub fn refusal(&self, choice: &MethodChoice) -> Option<&Remark> {
        let strict = is_strict(choice);
        let refuses = |r: &&Remark| r.weight == Weight::Refused || (strict && r.weight == Weight::LeftOut);
        self.remarks.iter().find(refuses)
    }
}

/// Checks a method's name and parameters.
pub fn examine(choice: &MethodChoice) -> Examined {
    let mut remarks = Vec::new();
    let Some(kind) = find(&choice.method) else {
        let problem = Problem::unknown("method", &choice.method, names());
        remarks.push(Remark { parameter: None, problem, weight: Weight::Refused });
        return Examined { kind: None, parameters: Parameters::default(), remarks };
    };
    let mut kept: Vec<usize> = Vec::new();
    for (i, (key, _)) in choice.parameters.iter().enumerate() {
        let known = kind.parameters.iter().chain(COMMON);
        if known.clone().any(|p| p.is(key)) {
            kept.push(i);
        } else if method::is_of_adios1(key) {
            let problem =
                Problem::new(format!("parameter {key:?} of ADIOS 1.x has no effect in method {}", kind.names[0]));
            remarks.push(Remark { parameter: Some(i), problem, weight: Weight::NoEffect });
        } else {
            let what = format!("parameter of method {}", kind.names[0]);
            let problem = Problem::unknown(&what, key, known.flat_map(Parameter::names));
            remarks.push(Remark { parameter: Some(i), problem, weight: Weight::LeftOut });
        }
    }
    let of = |kept: &[usize]| kept.iter().map(|i| choice.parameters[*i].clone()).collect::<Parameters>();
    let said = |kept: &[usize]| {
        let parameters = of(kept);
        let made = (kind.make)(&parameters).map(drop);
        let common = || COMMON.iter().try_for_each(|p| parameters.check(p));
        made.and_then(|()| common()).err().map(|e| e.what().to_string())
    };
    while let Some(what) = said(&kept) {
        // The parameter without which the error changes or vanishes; if two contradict each other, the later one.
        let without =
            |at: usize| kept.iter().copied().enumerate().filter(|(i, _)| *i != at).map(|(_, p)| p).collect::<Vec<_>>();
        let blamed = (0..kept.len()).rev().find(|at| said(&without(*at)).as_ref() != Some(&what));
        let problem = Problem::new(what);
        match blamed {
            Some(at) => {
                remarks.push(Remark { parameter: Some(kept[at]), problem, weight: Weight::LeftOut });
                kept.remove(at);
            }
            None => {
                remarks.push(Remark { parameter: None, problem, weight: Weight::Refused });
                break;
            }
        }
    }
    remarks.sort_by_key(|r| r.parameter);
    let mut parameters = of(&kept);
    // Attributes of the element are parameters of methods that have such.
    let attributes = [
        (staging::ITERATIONS, i64::from(choice.iterations.max(1))),
        (staging::PRIORITY, choice.priority.max(0).into()),
    ];
    for (parameter, value) in attributes {
        if kind.parameters.iter().any(|p| p.key == parameter.key) && parameters.text(&parameter).is_none() {
            parameters.push(parameter.key, value.to_string());
        }
    }
    Examined { kind: Some(kind), parameters, remarks }
}

/// A choice with another method: its parameters, and those of the choice that every method has.
pub(crate) fn with_method(choice: &MethodChoice, name: &str, parameters: &[(String, String)]) -> MethodChoice {
    let common = |key: &str| COMMON.iter().find(|parameter| parameter.is(key));
    let given =
        |key: &str| parameters.iter().any(|(given, _)| common(key).is_some_and(|parameter| parameter.is(given)));
    let kept = choice.parameters.iter().filter(|(key, _)| common(key).is_some() && !given(key));
    MethodChoice {
        method: name.to_string(),
        parameters: kept.chain(parameters).cloned().collect(),
        // Its place in the document is that of the other method.
        source: None,
        ..choice.clone()
    }
}

/// Whether a method's outputs are profiled.
pub fn is_profiled(choice: &MethodChoice) -> bool {
    Parameters::from(choice.parameters.clone()).get(&profile::PARAMETER).unwrap_or(false)
}

/// Whether a method writes files.
pub fn stores(kind: &MethodKind) -> bool {
    ![method::null::KIND.id, method::STORES_NOTHING].contains(&kind.id)
}

/// Whether a method writes BP files.
pub fn writes_bp(kind: &MethodKind) -> bool {
    stores(kind) && ![hdf5::PHDF5.id, hdf5::NC4.id, vtk::KIND.id].contains(&kind.id)
}

/// The methods that write BP files and can be chosen by their name alone: without a server, or a parameter of which only the user knows the
/// value.
pub fn that_write_by_themselves() -> impl Iterator<Item = &'static MethodKind> {
    METHODS.iter().filter(|kind| writes_bp(kind) && (kind.make)(&Parameters::default()).is_ok())
}

/// The parameters, as in the XML, with which close returns when the output is written: none for most methods, `async=no` for those that
/// write in the background by themselves.
pub fn written_by_close(kind: &MethodKind) -> &'static str {
    let later = (kind.make)(&Parameters::default()).is_ok_and(|method| method.in_background());
    if later { "async=no" } else { "" }
}

/// Whether a method's files have other names than the output: they lie beside those of other methods.
fn has_own_names(choice: &MethodChoice, path: &str) -> bool {
    find(&choice.method).is_some_and(|kind| kind.id == vtk::KIND.id) && !vtk::is_list(path)
}

/// Checks that the methods of one group do not write the same files.
///
/// - `path`: the output, as the program names it; empty if it is not known yet.
///
/// # Errors
/// `Config` naming two that do; unknown methods are ignored.
pub fn check_together(choices: &[MethodChoice], path: &str) -> Result<()> {
    clash(choices.iter(), path).map_or(Ok(()), |(_, problem)| Err(Error::from(problem)))
}

/// The first choice whose files an earlier choice of the same group writes too.
fn clash<'c>(
    choices: impl Iterator<Item = &'c MethodChoice> + Clone,
    path: &str,
) -> Option<(&'c MethodChoice, Problem)> {
    let writers = choices.filter(|c| find(&c.method).is_some_and(stores));
    for (i, choice) in writers.clone().enumerate() {
        let same = |c: &&MethodChoice| {
            c.group == choice.group
                && c.base_path == choice.base_path
                && has_own_names(c, path) == has_own_names(choice, path)
        };
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

/// Adds to a document's report the mistakes that only the tables of methods and transforms can find, as errors.
pub fn lint(schema: &Schema, report: &mut Report) {
    look(schema, report, true);
}

/// As [`lint`], for a program that will run: ignored parameters are warnings, unless [strictness](is_strict) is required.
/// Parameters of ADIOS 1.x are not reported.
pub(crate) fn look_to_run(schema: &Schema, report: &mut Report) {
    look(schema, report, false);
}

fn look(schema: &Schema, report: &mut Report, lint: bool) {
    crate::transform::look(schema, report, lint);
    for choice in &schema.methods {
        let Some(source) = &choice.source else { continue };
        let strict = lint || is_strict(choice);
        for Remark { parameter, problem, weight } in examine(choice).remarks {
            let span = *parameter.and_then(|i| source.parameters.get(i)).unwrap_or(&source.method);
            match weight {
                Weight::NoEffect if lint => report.warning(span, problem),
                Weight::NoEffect => {}
                Weight::LeftOut if !strict => {
                    let what = format!("{}; it is left out", problem.what);
                    report.warning(span, Problem { what, ..problem });
                }
                Weight::LeftOut | Weight::Refused => report.error(span, problem),
            }
        }
    }
    for (services, problem) in unserved(schema) {
        if let Some(span) = services.source.0 {
            report.warning(span, problem);
        }
    }
    if let Some((choice, problem)) = clash(schema.methods.iter(), "")
        && let Some(source) = &choice.source
    {
        report.error(source.method, problem);
    }
}

/// Services whose outputs no server takes over: the program's files get none.
fn unserved(schema: &Schema) -> impl Iterator<Item = (&Services, Problem)> {
    let is_staged = |choice: &MethodChoice| is_called(&staging::KIND, &choice.method);
    let served = move |group: &str| schema.methods.iter().any(|choice| choice.group == group && is_staged(choice));
    let without = schema.services.iter().filter(move |services| !served(&services.group));
    without.map(|services| {
        let what = format!("group {:?} has services, and no method that hands its outputs over", services.group);
        (services, Problem::new(what).expected("method STAGING, or thalweg copy --services afterwards"))
    })
}

/// Checks methods and transforms of a schema. Returns, in words, the ignored parts.
///
/// # Errors
/// `Config` as in [`make`], and the errors of [`crate::transform::of`] for a variable if that is strict.
pub fn check_all(schema: &Schema) -> Result<Vec<String>> {
    let mut left_out = Vec::new();
    for choice in &schema.methods {
        left_out.extend(check(choice)?);
    }
    for group in &schema.groups {
        for variable in &group.variables {
            let chosen = crate::transform::chosen(variable).map_err(|e| e.in_group(group.name.clone()))?;
            left_out.extend(chosen.instead.map(|problem| format!("group \"{}\": {problem}", group.name)));
        }
    }
    left_out.extend(unserved(schema).map(|(_, problem)| problem.to_string()));
    Ok(left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_method_that_stores_has_an_id_of_its_own() {
        let all = METHODS.iter().chain([&method::template::KIND]);
        let mut by_id = HashMap::new();
        for kind in all.filter(|kind| kind.id != method::STORES_NOTHING) {
            let name = kind.names[0];
            if let Some(other) = by_id.insert(kind.id, name) {
                panic!("methods {other} and {name} have the same id, {}", kind.id);
            }
        }
    }

    #[test]
    fn methods_with_names_of_adios1_have_its_ids() {
        // Enumeration ADIOS_IO_METHOD; process groups contain the number as u8, NULL's -1 as 255.
        let of_adios1 = [
            ("NULL", 255),
            ("MPI", 0),
            ("DATATAP", 1),
            ("POSIX", 2),
            ("MPI_CIO", 6),
            ("PHDF5", 7),
            ("MPI_LUSTRE", 10),
            ("ADAPTIVE", 13),
            ("NC4", 15),
            ("MPI_AMR", 16),
        ];
        for (name, id) in of_adios1 {
            assert_eq!(find(name).map(|kind| kind.id), Some(id), "{name}");
        }
        let given: Vec<u8> = METHODS.iter().map(|kind| kind.id).filter(|id| *id < 32).collect();
        let reserved = |id: &u8| of_adios1.iter().any(|(_, of_adios1)| of_adios1 == id);
        assert!(given.iter().all(reserved), "{given:?}");
    }
}
