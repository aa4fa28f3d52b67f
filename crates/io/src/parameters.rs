//! All parameters, by subject: for `thalweg help`, and for the tables of the guide.
//!
//! | subject | parameters | declared in |
//! |---|---|---|
//! | `method` | of a method, in the XML or `select_method` | `movement::method`, one file each |
//! | `transform` | of a variable's transform | `transform::codec`, one file each |
//! | `layout` | of a mount, by its layout | [`crate::mounts::layouts`] |
//! | `store` | of a store, behind `?` in its URL | `store-object::parameters` |
//! | `wrapper` | of a mount, whatever its layout | [`crate::mounts::wrappers`] |
//! | `partition` | of a partition's configuration file | `partition::configuration` |
//! | `element` | attributes of XML elements | `schema::xml` |

use crate::mounts::{layouts, stores, with_far_stores, wrappers};
use crate::registry::{COMMON, METHODS};
use std::fmt::Write;
use thalweg_diagnostics::Problem;
use thalweg_params::{Kind, Parameter};
use thalweg_partition::configuration;

/// A subject of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Methods.
    Method,
    /// Transforms.
    Transform,
    /// Layouts.
    Layout,
    /// Stores.
    Store,
    /// Wrappers of a mount's stores.
    Wrapper,
    /// Configuration files of partitions.
    Partition,
    /// XML elements.
    Element,
}

impl Subject {
    /// Every subject.
    pub const ALL: [Subject; 7] = [
        Subject::Method,
        Subject::Transform,
        Subject::Layout,
        Subject::Store,
        Subject::Wrapper,
        Subject::Partition,
        Subject::Element,
    ];

    /// Its word on the command line and in the guide's marks.
    pub const fn word(self) -> &'static str {
        match self {
            Subject::Method => "method",
            Subject::Transform => "transform",
            Subject::Layout => "layout",
            Subject::Store => "store",
            Subject::Wrapper => "wrapper",
            Subject::Partition => "partition",
            Subject::Element => "element",
        }
    }

    /// The subject of a word.
    pub fn of(word: &str) -> Option<Subject> {
        Subject::ALL.into_iter().find(|subject| subject.word() == word)
    }
}

/// A method, transform, layout, store, wrapper or element, with its parameters.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its names, Thalweg's first.
    pub names: Vec<&'static str>,
    /// One line.
    pub about: &'static str,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// The Cargo feature that this build lacks for it.
    pub lacks: Option<&'static str>,
}

/// Everything of a subject.
pub fn entries(subject: Subject) -> Vec<Entry> {
    let entry = |names: &[&'static str], about, parameters: &[Parameter]| Entry {
        names: names.to_vec(),
        about,
        parameters: parameters.to_vec(),
        lacks: None,
    };
    match subject {
        Subject::Method => METHODS
            .iter()
            .map(|kind| {
                let parameters: Vec<Parameter> = kind.parameters.iter().chain(COMMON).copied().collect();
                entry(kind.names, kind.about, &parameters)
            })
            .collect(),
        Subject::Transform => {
            let codecs = thalweg_transform::CODECS.iter();
            codecs.map(|codec| entry(&[codec.name()], codec.about(), codec.parameters())).collect()
        }
        Subject::Layout => {
            layouts::LAYOUTS.iter().map(|kind| entry(&[kind.name], kind.about, kind.parameters)).collect()
        }
        Subject::Store => {
            with_far_stores();
            let stores = stores::STORES.iter();
            stores
                .map(|kind| Entry { lacks: kind.lacks(), ..entry(&[kind.scheme], kind.form, kind.parameters()) })
                .collect()
        }
        Subject::Wrapper => vec![entry(&["mount"], "keys of a mount, for every layout", wrappers::KEYS)],
        Subject::Partition => vec![
            entry(&["static"], "settings that hold from a partition's creation on", configuration::STATIC),
            entry(&["dynamic"], "settings that are read when its servers start", configuration::DYNAMIC),
        ],
        Subject::Element => thalweg_schema::xml::ELEMENTS
            .iter()
            .map(|element| entry(element.names, element.about, element.attributes))
            .collect(),
    }
}

/// The entry of this name, in any letter case.
///
/// # Errors
/// The nearest known name.
pub fn find(subject: Subject, name: &str) -> Result<Entry, Problem> {
    let all = entries(subject);
    let known = all.iter().flat_map(|entry| entry.names.iter().copied());
    let unknown = Problem::unknown(subject.word(), name, known);
    let is = |entry: &Entry| entry.names.iter().any(|n| n.eq_ignore_ascii_case(name));
    all.into_iter().find(is).ok_or(unknown)
}

/// A table in Markdown of one entry's parameters.
pub fn table(parameters: &[Parameter]) -> String {
    let mut text = "| parameter | value | default | what it does |\n|---|---|---|---|\n".to_string();
    for (keys, parameter) in rows(parameters.iter().map(|p| (*p, ()))) {
        let _ = writeln!(text, "| {keys} | {} |", cells(&parameter.0));
    }
    text
}

/// A table in Markdown of all parameters of a subject, each with its owner.
pub fn table_of_all(subject: Subject) -> String {
    let all = entries(subject);
    let mut merged: Vec<(Parameter, Vec<&str>)> = Vec::new();
    for entry in &all {
        for parameter in &entry.parameters {
            match merged.iter_mut().find(|(known, _)| known == parameter) {
                Some((_, of)) => of.push(entry.names[0]),
                None => merged.push((*parameter, vec![entry.names[0]])),
            }
        }
    }
    let mut text = "| parameter | of | value | default | what it does |\n|---|---|---|---|---|\n".to_string();
    for (keys, (parameter, of)) in rows(merged.into_iter()) {
        let of = if of.len() == all.len() { format!("every {}", subject.word()) } else { of.join(", ") };
        let _ = writeln!(text, "| {keys} | {of} | {} |", cells(&parameter));
    }
    text
}

/// Parameters of ADIOS 1.x with the same description share a row. With each row come its keys.
fn rows<T: PartialEq>(parameters: impl Iterator<Item = (Parameter, T)>) -> Vec<(String, (Parameter, T))> {
    let mut rows: Vec<(String, (Parameter, T))> = Vec::new();
    for (parameter, of) in parameters {
        let keys = parameter.names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let same = |row: &&mut (String, (Parameter, T))| {
            let (known, known_of) = &row.1;
            known.kind == Kind::NoEffect && parameter == Parameter { key: parameter.key, ..*known } && *known_of == of
        };
        match rows.iter_mut().find(same) {
            Some((known, _)) => *known += &format!(", {keys}"),
            None => rows.push((keys, (parameter, of))),
        }
    }
    rows
}

fn cells(parameter: &Parameter) -> String {
    let takes = if parameter.kind == Kind::NoEffect { "no effect".into() } else { parameter.takes() };
    // A `|` would end the cell, a `<` begin a tag.
    let cells = [takes, parameter.default_text(), parameter.about.into()];
    cells.map(|cell| cell.replace('|', "\\|").replace('<', "&lt;")).join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use thalweg_params::Default;

    #[test]
    fn every_parameter_has_one_meaning_in_its_table_and_a_default_that_it_takes() {
        for subject in Subject::ALL {
            for entry in entries(subject) {
                let mut keys = HashSet::new();
                for parameter in &entry.parameters {
                    let what = format!("{} {}: {}", subject.word(), entry.names[0], parameter.key);
                    for name in parameter.names() {
                        assert!(keys.insert(name.to_ascii_lowercase()), "{what} twice");
                    }
                    assert!(!parameter.about.is_empty() && !parameter.about.ends_with('.'), "{what}");
                    if let Default::Fixed(value) = parameter.default {
                        assert_eq!(parameter.read(&parameter.default_text()), Ok(value), "{what}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_unknown_name_is_told_the_nearest() {
        assert_eq!(find(Subject::Method, "mpi_amr").unwrap().names[0], "MPI_AGGREGATE");
        let problem = find(Subject::Layout, "containr").unwrap_err();
        assert_eq!(problem.nearest.as_deref(), Some("container"));
    }
}
