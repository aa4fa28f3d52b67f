//! What a run writes, and the change of it.

use crate::lines;
use crate::region::Region;
use std::collections::BTreeSet;
use std::fmt;
use thalweg_params::nearest;
use thalweg_types::{Error, ErrorKind, Result};

/// What a run writes at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// One output of so many is written; at least 1.
    pub every: u64,
    /// Full names of the arrays that are written; `None`: all.
    pub only: Option<BTreeSet<String>>,
    /// The part of global arrays that is written; `None`: all.
    pub region: Option<Region>,
    /// The program is asked to stop.
    pub stop: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { every: 1, only: None, region: None, stop: false }
    }
}

/// A change of settings; what it doesn't name stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// As [`Settings::every`].
    pub every: Option<u64>,
    /// Names of arrays; `Some(None)`: all.
    pub only: Option<Option<BTreeSet<String>>>,
    /// As [`Settings::region`]; `Some(None)`: all.
    pub region: Option<Option<Region>>,
    /// As [`Settings::stop`].
    pub stop: Option<bool>,
}

/// The arrays of a group, for the check of a change.
#[derive(Debug, Clone, Copy)]
pub struct Arrays<'a> {
    /// Full names.
    pub names: &'a [String],
    /// Numbers of dimensions of global arrays.
    pub dimensions: &'a [usize],
}

impl Settings {
    /// Applies a change.
    pub fn apply(&mut self, change: &Change) {
        let Change { every, only, region, stop } = change.clone();
        self.every = every.unwrap_or(self.every).max(1);
        self.only = only.unwrap_or(self.only.take());
        self.region = region.unwrap_or(self.region.take());
        self.stop = stop.unwrap_or(self.stop);
    }

    /// Whether an array is written.
    pub fn writes(&self, full: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(full))
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { every, only, region, stop } = self.clone();
        Change { every: Some(every), only: Some(only), region: Some(region), stop: stop.then_some(true) }.fmt(f)
    }
}

impl Change {
    /// Whether it names nothing.
    pub fn is_empty(&self) -> bool {
        *self == Change::default()
    }

    /// The change with full names, if a group has what it names.
    ///
    /// # Errors
    /// `NotFound` for an unknown array, with the nearest one; `InvalidArgument` for a name that several arrays have, and for a box of a number of dimensions that no global array has.
    pub fn checked(mut self, arrays: Arrays<'_>) -> Result<Change> {
        if self.every == Some(0) {
            return Err(Error::new(ErrorKind::InvalidArgument, "every 0: expected at least 1"));
        }
        if let Some(Some(only)) = &mut self.only {
            *only = only.iter().map(|name| full_name("array", name, arrays.names)).collect::<Result<_>>()?;
        }
        if let Some(Some(region)) = &self.region
            && !arrays.dimensions.contains(&region.dimensions())
        {
            let what = format!("box {region}: the group has no global array of {} dimensions", region.dimensions());
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        Ok(self)
    }

    /// Appends the change as lines.
    pub(crate) fn put(&self, text: &mut String) {
        if let Some(every) = self.every {
            lines::put(text, "every", &every.to_string());
        }
        match &self.only {
            None => {}
            Some(None) => lines::put(text, "only-all", "yes"),
            // Nothing at all has no line of its own.
            Some(Some(only)) => only.iter().for_each(|name| lines::put(text, "only", name)),
        }
        match &self.region {
            None => {}
            Some(None) => lines::put(text, "box-all", "yes"),
            Some(Some(region)) => lines::put(text, "box", &region.to_string()),
        }
        if let Some(stop) = self.stop {
            lines::put(text, "stop", if stop { "yes" } else { "no" });
        }
    }

    /// Takes a line; `false` if it belongs to no change.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid value.
    pub(crate) fn take(&mut self, key: &str, value: &str) -> Result<bool> {
        let wrong = || Error::new(ErrorKind::InvalidArgument, format!("invalid value: {key} {value}"));
        match key {
            "every" => self.every = Some(value.parse().ok().filter(|every| *every > 0).ok_or_else(wrong)?),
            "only" => _ = self.only.get_or_insert_default().get_or_insert_default().insert(value.to_string()),
            "only-all" => self.only = Some(None),
            "box" => self.region = Some(Some(value.parse()?)),
            "box-all" => self.region = Some(None),
            "stop" => {
                self.stop = Some(match value {
                    "yes" => true,
                    "no" => false,
                    _ => return Err(wrong()),
                })
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// In words: `every=1, only=u,v, box=10:20`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if let Some(every) = self.every {
            words.push(format!("every={every}"));
        }
        if let Some(only) = &self.only {
            let names = |only: &BTreeSet<String>| only.iter().cloned().collect::<Vec<_>>().join(",");
            words.push(format!("only={}", only.as_ref().map_or("all".into(), names)));
        }
        if let Some(region) = &self.region {
            words.push(format!("box={}", region.as_ref().map_or("all".into(), Region::to_string)));
        }
        if let Some(stop) = self.stop {
            words.push(format!("stop={}", if stop { "yes" } else { "no" }));
        }
        f.write_str(&words.join(", "))
    }
}

/// The full name of the array or variable (`noun`) that a user names: its full name with or without the first slash, or its bare name if only one has it.
pub(crate) fn full_name(noun: &str, name: &str, known: &[String]) -> Result<String> {
    let is = |full: &&String| **full == name || full.strip_prefix('/') == Some(name);
    if let Some(full) = known.iter().find(is) {
        return Ok(full.clone());
    }
    let mut bare = known.iter().filter(|full| full.rsplit('/').next() == Some(name));
    match (bare.next(), bare.next()) {
        (Some(one), None) => Ok(one.clone()),
        (Some(one), Some(other)) => {
            let what = format!("several {noun}s are called \"{name}\": {one}, {other}; use the full name");
            Err(Error::new(ErrorKind::InvalidArgument, what))
        }
        _ => {
            let hint = nearest(name, known.iter().map(String::as_str));
            let hint = hint.map_or(String::new(), |n| format!("; did you mean \"{n}\"?"));
            Err(Error::new(ErrorKind::NotFound, format!("the group has no {noun} \"{name}\"{hint}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(names: &[&str]) -> Change {
        let names = names.iter().map(|n| n.to_string()).collect();
        Change { only: Some(Some(names)), ..Change::default() }
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let mut settings = Settings::default();
        settings.apply(&Change { every: Some(10), ..Change::default() });
        settings.apply(&only(&["v"]));
        assert_eq!((settings.every, settings.writes("v"), settings.writes("u")), (10, true, false));
        settings.apply(&Change { only: Some(None), ..Change::default() });
        assert_eq!((settings.every, settings.writes("u")), (10, true));
        assert_eq!(settings.to_string(), "every=10, only=all, box=all");
    }

    #[test]
    fn names_and_boxes_are_those_of_the_group() {
        let names = ["/a/T", "/b/T", "/v"].map(String::from);
        let arrays = Arrays { names: &names, dimensions: &[2] };
        assert_eq!(only(&["v", "a/T"]).checked(arrays).unwrap(), only(&["/v", "/a/T"]));
        assert_eq!(only(&["T"]).checked(arrays).unwrap_err().kind(), ErrorKind::InvalidArgument);
        let unknown = only(&["vv"]).checked(arrays).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
        assert!(unknown.to_string().contains("did you mean \"/v\"?"), "{unknown}");
        let boxed = |text: &str| Change { region: Some(Some(text.parse().unwrap())), ..Change::default() };
        assert!(boxed("1:2,3:4").checked(arrays).is_ok());
        assert_eq!(boxed("1:2").checked(arrays).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
