//! What a run writes, and how, and the change of it.

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
    /// Whether the program is asked to stop.
    pub stop: Stop,
    /// The method in place of the declared one, as [`Method`]; `None`: the declared one.
    pub method: Option<Method>,
}

/// Whether a program is asked to stop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Stop {
    /// It is not.
    #[default]
    No,
    /// It is.
    Now,
    /// It is once an output of this group is closed: a restart output.
    After(String),
}

/// A method and its parameters, as a configuration names them.
///
/// ```
/// use thalweg_control::Method;
/// let method: Method = "STAGING; partition=stage.cfg; promise=held".parse().unwrap();
/// assert_eq!(method.name, "STAGING");
/// assert_eq!(method.parameters[1], ("promise".into(), "held".into()));
/// assert_eq!(method.to_string(), "STAGING;partition=stage.cfg;promise=held");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub parameters: Vec<(String, String)>,
}

impl std::str::FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Method> {
        let (name, parameters) = text.split_once(';').unwrap_or((text, ""));
        let name = name.trim().to_string();
        if name.is_empty() || name.contains('=') {
            let what = format!("method \"{text}\": expected NAME, or NAME;KEY=VALUE;KEY=VALUE");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let parameters = thalweg_params::pairs(parameters).into_iter().map(|(_, pair)| pair).collect();
        Ok(Method { name, parameters })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.parameters.iter().try_for_each(|(key, value)| write!(f, ";{key}={value}"))
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { every: 1, only: None, region: None, stop: Stop::No, method: None }
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
    pub stop: Option<Stop>,
    /// As [`Settings::method`]; `Some(None)`: the declared one.
    pub method: Option<Option<Method>>,
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
        let Change { every, only, region, stop, method } = change.clone();
        self.every = every.unwrap_or(self.every).max(1);
        self.only = only.unwrap_or(self.only.take());
        self.region = region.unwrap_or(self.region.take());
        self.stop = match (std::mem::take(&mut self.stop), stop) {
            // It is asked already.
            (Stop::Now, Some(Stop::After(_))) => Stop::Now,
            (stop, None) => stop,
            (_, Some(stop)) => stop,
        };
        self.method = method.unwrap_or(self.method.take());
    }

    /// Whether the program is to be asked to stop once an output of this group is closed.
    pub fn awaits(&self, group: &str) -> bool {
        matches!(&self.stop, Stop::After(awaited) if awaited == group)
    }

    /// All settings, as a change.
    pub fn as_change(&self) -> Change {
        let Settings { every, only, region, stop, method } = self.clone();
        Change { every: Some(every), only: Some(only), region: Some(region), stop: Some(stop), method: Some(method) }
    }

    /// Whether an array is written.
    pub fn writes(&self, full: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(full))
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.as_change();
        let (stop, method) = (all.stop.filter(|stop| *stop != Stop::No), all.method.filter(Option::is_some));
        Change { stop, method, ..all }.fmt(f)
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
        match &self.stop {
            None => {}
            Some(Stop::No) => lines::put(text, "stop", "no"),
            Some(Stop::Now) => lines::put(text, "stop", "yes"),
            Some(Stop::After(group)) => lines::put(text, "stop-after", group),
        }
        match &self.method {
            None => {}
            Some(None) => lines::put(text, "method-declared", "yes"),
            Some(Some(method)) => lines::put(text, "method", &method.to_string()),
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
                    "yes" => Stop::Now,
                    "no" => Stop::No,
                    _ => return Err(wrong()),
                })
            }
            "stop-after" if value.is_empty() => return Err(wrong()),
            "stop-after" => self.stop = Some(Stop::After(value.to_string())),
            "method" => self.method = Some(Some(value.parse()?)),
            "method-declared" => self.method = Some(None),
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
        match &self.stop {
            None => {}
            Some(Stop::No) => words.push("stop=no".into()),
            Some(Stop::Now) => words.push("stop=yes".into()),
            Some(Stop::After(group)) => words.push(format!("stop after {group}")),
        }
        if let Some(method) = &self.method {
            words.push(format!("method={}", method.as_ref().map_or("declared".into(), Method::to_string)));
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
