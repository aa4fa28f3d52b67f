//! Which axes of a file are steps. Pure.

use std::collections::BTreeMap;
use thalweg_types::{Error, ErrorKind, Result};

/// The steps of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steps {
    /// For each axis that is one of steps, by name: the number of the step at each position.
    of: BTreeMap<String, Vec<u64>>,
    /// All numbers, rising.
    all: Vec<u64>,
    /// The name of the axis that the user gave.
    given: Option<String>,
}

impl Steps {
    /// The axis `name` of this many positions is that of the steps.
    ///
    /// - `extents`: of all axes of the file, by name.
    ///
    /// # Errors
    /// `NotFound` with the axes that there are.
    pub fn along(name: &str, extents: &BTreeMap<String, u64>) -> Result<Steps> {
        let Some(extent) = extents.get(name) else {
            let known: Vec<&str> = extents.keys().map(String::as_str).collect();
            let known = if known.is_empty() {
                "its axes have no names".into()
            } else {
                format!("there are {}", known.join(", "))
            };
            return Err(Error::new(ErrorKind::NotFound, format!("no axis '{name}': {known}")));
        };
        let all: Vec<u64> = (0..*extent).collect();
        Ok(Steps { of: BTreeMap::from([(name.to_string(), all.clone())]), all, given: Some(name.to_string()) })
    }

    /// Axes whose coordinates are numbers of steps, as files that were made of BP files have them.
    ///
    /// - `marked`: each axis with its coordinates; those that are negative or do not rise are no steps.
    pub fn marked(marked: Vec<(String, Vec<i64>)>) -> Steps {
        let rising = |numbers: &[i64]| {
            numbers.first().is_none_or(|first| *first >= 0) && numbers.windows(2).all(|pair| pair[0] < pair[1])
        };
        let of: BTreeMap<String, Vec<u64>> = marked
            .into_iter()
            .filter(|(_, numbers)| rising(numbers))
            .map(|(name, numbers)| (name, numbers.into_iter().map(|number| number as u64).collect()))
            .collect();
        let mut all: Vec<u64> = of.values().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        Steps { of, all, given: None }
    }

    /// The axis of steps of a dataset with these axes: its position, and its name.
    pub fn axis<'a>(&self, axes: &'a [Option<String>]) -> Option<(usize, &'a str)> {
        let named = axes.iter().enumerate().filter_map(|(at, axis)| Some((at, axis.as_deref()?)));
        named.into_iter().find(|(_, axis)| self.of.contains_key(*axis))
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Whether the coordinates of the axis `name` say nothing else than the numbers of the steps that are written.
    pub fn are_counted_by(&self, name: &str) -> bool {
        self.given.is_none() && self.of.contains_key(name) && self.all.iter().copied().eq(0..self.all.len() as u64)
    }

    /// Numbers of the steps, rising; one without axes of steps.
    pub fn numbers(&self) -> Vec<u64> {
        if self.of.is_empty() { vec![0] } else { self.all.clone() }
    }

    /// The position along an axis at a step.
    pub fn position(&self, axis: &str, step: u64) -> Option<u64> {
        self.of.get(axis)?.binary_search(&step).ok().map(|position| position as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<Option<String>> {
        names.iter().map(|name| Some((*name).to_string())).collect()
    }

    #[test]
    fn an_axis_that_is_given_has_a_step_for_each_position() {
        let extents = BTreeMap::from([("time".to_string(), 3), ("x".to_string(), 5)]);
        let steps = Steps::along("time", &extents).unwrap();
        assert_eq!(steps.numbers(), [0, 1, 2]);
        assert_eq!(steps.axis(&named(&["x", "time"])), Some((1, "time")));
        assert_eq!(steps.axis(&[None, Some("x".into())]), None);
        assert_eq!((steps.position("time", 2), steps.position("time", 3)), (Some(2), None));
        assert!(!steps.are_counted_by("time"));
        let error = Steps::along("t", &extents).unwrap_err();
        assert!(error.what().contains("time, x"), "{error}");
    }

    #[test]
    fn axes_that_are_marked_have_the_steps_of_their_coordinates() {
        let marked = vec![("step".into(), vec![0, 1, 2, 3]), ("step_1".into(), vec![1, 3]), ("bad".into(), vec![2, 1])];
        let steps = Steps::marked(marked);
        assert_eq!(steps.numbers(), [0, 1, 2, 3]);
        assert_eq!((steps.position("step_1", 3), steps.position("step_1", 2)), (Some(1), None));
        assert!(steps.are_counted_by("step") && !steps.are_counted_by("bad"));
        assert!(!Steps::marked(vec![("step".into(), vec![0, 5])]).are_counted_by("step"));
        assert_eq!(Steps::default().numbers(), [0]);
    }
}
