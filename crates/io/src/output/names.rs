//! Names of variables, as programs write them, and the positions they stand for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use thalweg_schema::Variable;
use thalweg_types::{Error, ErrorKind, Result};

/// Positions of a group's variables by full name and by bare name, as of so many variables.
#[derive(Default)]
pub(super) struct Names {
    full: HashMap<String, usize>,
    bare: HashMap<String, Vec<usize>>,
    /// Of a full name that is defined several times: how often.
    several: HashMap<String, usize>,
    /// `None` before the first look.
    counted: Option<usize>,
}

impl Names {
    /// The position of the variable that a program names: its full name, or its bare name where only one variable has it.
    ///
    /// # Errors
    /// `NotFound` with the nearest name, `InvalidArgument` where several variables are called so.
    /// # Cost
    /// One lookup for a full name; O(variables) at the first call and after a variable was defined.
    pub(super) fn position(&mut self, variables: &[Variable], name: &str) -> Result<usize> {
        if self.counted != Some(variables.len()) {
            self.count(variables);
        }
        if let Some(at) = self.full.get(name) {
            return Ok(*at);
        }
        if let Some(at) = self.full.get(format!("/{name}").as_str()) {
            return Ok(*at);
        }
        match self.bare.get(name).map(Vec::as_slice) {
            Some([one]) => Ok(*one),
            Some(several) => {
                let full: Vec<String> = several.iter().map(|i| variables[*i].full_name()).collect();
                let what = format!("several variables are called so: {}", full.join(", "));
                Err(Error::new(ErrorKind::InvalidArgument, what))
            }
            None => {
                let known: Vec<String> = variables.iter().map(Variable::full_name).collect();
                let hint = thalweg_params::nearest(name, known.iter().map(String::as_str))
                    .map_or(String::new(), |n| format!("; did you mean \"{n}\"?"));
                Err(Error::new(ErrorKind::NotFound, format!("the group has no such variable{hint}")))
            }
        }
        .map_err(|e| e.in_variable(name))
    }

    /// How often the group defines a full name, of which one is known.
    ///
    /// # Cost
    /// As [`Names::position`] for a full name.
    pub(super) fn definitions(&mut self, variables: &[Variable], full: &str) -> usize {
        if self.counted != Some(variables.len()) {
            self.count(variables);
        }
        self.several.get(full).copied().unwrap_or(1)
    }

    fn count(&mut self, variables: &[Variable]) {
        self.full.clear();
        self.bare.clear();
        self.several.clear();
        for (at, variable) in variables.iter().enumerate() {
            let full = variable.full_name();
            if full != variable.name {
                self.bare.entry(variable.name.clone()).or_default().push(at);
            }
            // A full name always wins over bare ones, and over later definitions of itself.
            match self.full.entry(full) {
                Entry::Vacant(new) => drop(new.insert(at)),
                Entry::Occupied(first) => *self.several.entry(first.key().clone()).or_insert(1) += 1,
            }
        }
        self.counted = Some(variables.len());
    }
}
