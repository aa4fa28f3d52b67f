//! Another method in place of the declared one, while a run writes: which methods make sense, and for which files one is used.

use super::control;
use crate::registry;
use crate::session::DeclaredGroup;
use std::collections::HashSet;
use thalweg_control::Method;
use thalweg_schema::MethodChoice;
use thalweg_types::{Error, ErrorKind, Result};

/// What is known of the method of a change, for each file by its group and path; the same on all ranks.
#[derive(Default)]
pub(super) struct Tried {
    method: Option<Method>,
    /// It has opened an output.
    proven: HashSet<(String, String)>,
    /// It could not, or makes no sense for the group: the declared one writes.
    left: HashSet<(String, String)>,
}

impl Tried {
    /// Of this method; of another one than before nothing is known.
    fn of(&mut self, method: &Method) -> &mut Tried {
        if self.method.as_ref() != Some(method) {
            *self = Tried { method: Some(method.clone()), ..Tried::default() };
        }
        self
    }

    /// Whether a file is written by the method.
    ///
    /// - `fits`: whether the method makes sense for the group; asked until the method has opened an output.
    pub(super) fn uses(&mut self, method: &Method, file: (&str, &str), fits: impl FnOnce() -> bool) -> bool {
        let (of, file) = (self.of(method), owned(file));
        if of.left.contains(&file) {
            return false;
        }
        let uses = of.proven.contains(&file) || fits();
        if !uses {
            of.left.insert(file);
        }
        uses
    }

    /// Whether the method has opened an output of a file.
    pub(super) fn is_proven(&mut self, method: &Method, file: (&str, &str)) -> bool {
        self.of(method).proven.contains(&owned(file))
    }

    /// The method has opened its first output of a file.
    pub(super) fn prove(&mut self, method: &Method, file: (&str, &str)) {
        self.of(method).proven.insert(owned(file));
    }

    /// The method could not open its first output of a file. Returns whether it writes others.
    pub(super) fn leave(&mut self, method: &Method, file: (&str, &str)) -> bool {
        let of = self.of(method);
        of.left.insert(owned(file));
        !of.proven.is_empty()
    }
}

fn owned((group, path): (&str, &str)) -> (String, String) {
    (group.to_string(), path.to_string())
}

/// The methods of a group, with another one in place of the one that is steered.
pub(crate) fn with_method(mut choices: Vec<MethodChoice>, method: &Method) -> Vec<MethodChoice> {
    if let Some(choice) = choices.iter_mut().find(|choice| control(choice).is_some()) {
        *choice = registry::with_method(choice, &method.name, &method.parameters);
    }
    choices
}

/// Checks the method of a change.
///
/// # Errors
/// `InvalidArgument` for an unknown method or parameter, or an invalid value.
pub(super) fn check(group: &DeclaredGroup, method: &Method) -> Result<()> {
    let refused = |what: String| Error::new(ErrorKind::InvalidArgument, what);
    let declared = group.all_methods();
    let choices = with_method(declared.clone(), method);
    for (choice, declared) in choices.iter().zip(&declared) {
        let arrangement = |choice| registry::make(choice).map(|(_, method)| method.subfiles());
        let (wanted, now) = (arrangement(choice).ok().flatten(), arrangement(declared).ok().flatten());
        if let (Some(wanted), Some(now)) = (wanted, now)
            && wanted != now
        {
            let place = |subfiles| if subfiles { "subfiles" } else { "one file" };
            let (name, other) = (&choice.method, &declared.method);
            let (wanted, now) = (place(wanted), place(now));
            return Err(refused(format!("method {name} writes {wanted} and {other} {now}: a file cannot have both")));
        }
        if choice == declared {
            continue;
        }
        let left_out = registry::check(choice).map_err(|e| refused(e.what().to_string()))?;
        if let Some(what) = left_out.into_iter().next() {
            return Err(refused(what));
        }
    }
    registry::check_together(&choices, "").map_err(|e| refused(e.what().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_known_for_each_file_until_another_one_is_asked_for() {
        let (a, b): (Method, Method) = ("A".parse().unwrap(), "A;k=1".parse().unwrap());
        let (one, two, three) = (("g", "1"), ("g", "2"), ("h", "3"));
        let mut tried = Tried::default();
        assert!(tried.uses(&a, one, || true) && !tried.is_proven(&a, one));
        tried.prove(&a, one);
        assert!(tried.uses(&a, one, || panic!("it is known")) && tried.is_proven(&a, one));
        assert!(tried.uses(&a, two, || true) && tried.leave(&a, two), "it writes the first one");
        assert!(!tried.uses(&a, two, || true) && !tried.uses(&a, three, || false) && !tried.uses(&a, three, || true));
        assert!(!tried.is_proven(&b, one) && tried.uses(&b, two, || true));
        assert!(!tried.leave(&b, two), "it writes no other");
    }
}
