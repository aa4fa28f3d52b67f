//! A problem in words: the fact, the expected form, the nearest known name.

use std::fmt;
use thalweg_params::nearest;
use thalweg_types::{Error, ErrorKind};

/// A problem, without its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The fact, in a few words.
    pub what: String,
    /// The expected form.
    pub expected: Option<String>,
    /// The known name nearest to the one found.
    pub nearest: Option<String>,
}

impl Problem {
    /// A statement of the problem; other functions add the expected form and the nearest name.
    pub fn new(what: impl Into<String>) -> Problem {
        Problem { what: what.into(), expected: None, nearest: None }
    }

    /// Adds the expected form.
    pub fn expected(mut self, expected: impl Into<String>) -> Problem {
        self.expected = Some(expected.into());
        self
    }

    /// Adds the name nearest to `name`, where one of `known` is near.
    pub fn nearest_to<'a>(mut self, name: &str, known: impl IntoIterator<Item = &'a str>) -> Problem {
        self.nearest = nearest(name, known).map(str::to_string);
        self
    }

    /// An unknown name of some kind ("type", "element"), with all known ones and the nearest of them.
    pub fn unknown<'a>(kind: &str, name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Problem {
        let all: Vec<&str> = known.clone().into_iter().collect();
        let problem = Problem::new(format!("unknown {kind} {name:?}")).nearest_to(name, known);
        match all.len() {
            0 => problem,
            1..=40 => problem.expected(all.join(", ")),
            more => problem.expected(format!("{}, ... ({more} in all)", all[..40].join(", "))),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(expected) = &self.expected {
            write!(f, "; expected: {expected}")?;
        }
        if let Some(nearest) = &self.nearest {
            write!(f, "; nearest known name: {nearest:?}")?;
        }
        Ok(())
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error::new(ErrorKind::Config, problem.to_string())
    }
}
