//! The declaration of a parameter by its owner: once, as a constant, from which it is read, checked, and printed in help and
//! guide.
//!
//! ```
//! use thalweg_params::{Parameter, Parameters};
//!
//! const CHUNK: Parameter = Parameter::size("chunk", 8 << 20, "bytes in flight at most").at_least(2);
//! const WRITERS: Parameter = Parameter::count("writers", 1, "ranks that write").or_else("one per node").also(&["num_writers"]);
//!
//! let parameters = Parameters::parse("num_writers=4");
//! assert_eq!(parameters.get::<u64>(&CHUNK).unwrap(), 8 << 20);
//! assert_eq!(parameters.get::<Option<u32>>(&WRITERS).unwrap(), Some(4));
//! ```

use crate::size::{self, show_size};
use crate::switch::switch;
use crate::time::{self, Unit, show_time, time};
use crate::{nearest, rate};
use std::time::Duration;

/// A key of a method, transform, layout, store, mount, element or command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// Its key; letter case is ignored in the user's text.
    pub key: &'static str,
    /// Aliases, such as keys of ADIOS 1.x.
    pub also: &'static [&'static str],
    /// Its kind of value.
    pub kind: Kind,
    /// The value if the user gives none.
    pub default: Default,
    /// Its effect, without unit and default, which are printed from the other fields.
    pub about: &'static str,
}

/// A kind of value. Bounds are inclusive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Yes or no: [`switch`](crate::switch()).
    Switch,
    /// Bytes: [`size`](crate::size()).
    Size {
        /// Fewest bytes.
        least: u64,
        /// Most bytes.
        most: u64,
    },
    /// Bytes per second, above 0: [`rate`](crate::rate()).
    Rate,
    /// A whole number.
    Count {
        /// Smallest.
        least: u64,
        /// Largest.
        most: u64,
    },
    /// A real number.
    Real {
        /// Smallest; [`ABOVE_ZERO`] for all above 0.
        least: f64,
        /// Largest.
        most: f64,
    },
    /// A duration: [`time`](crate::time()).
    Time {
        /// Unit of a number without unit; `None`: the unit is required.
        bare: Option<Unit>,
        /// Shortest.
        least: Duration,
        /// Longest.
        most: Duration,
    },
    /// One of these words, in any letter case.
    Choice(&'static [&'static str]),
    /// Any text; the expected form, such as `a folder`. Its owner checks it.
    Text(&'static str),
    /// Accepted for files written for ADIOS 1.x, without effect: any text.
    NoEffect,
}

/// The value of a parameter that the user did not give.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Default {
    /// This value.
    Fixed(Value<'static>),
    /// A value that is determined at run time, described in words: `one per node`.
    Found(&'static str),
    /// No value: the parameter has no effect.
    Nothing,
}

/// A value that was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'t> {
    /// Of a switch.
    Switch(bool),
    /// Bytes, bytes per second, or a count.
    Number(u64),
    /// Of a real number.
    Real(f64),
    /// Of a time.
    Time(Duration),
    /// A word of a choice as it was declared, or the user's text.
    Text(&'t str),
}

/// The lower bound of a [`Kind::Real`] that must be above 0.
pub const ABOVE_ZERO: f64 = f64::from_bits(1);

impl Parameter {
    const fn new(key: &'static str, kind: Kind, default: Default, about: &'static str) -> Parameter {
        Parameter { key, also: &[], kind, default, about }
    }

    /// Yes or no.
    pub const fn switch(key: &'static str, default: bool, about: &'static str) -> Parameter {
        Parameter::new(key, Kind::Switch, Default::Fixed(Value::Switch(default)), about)
    }

    /// Bytes.
    pub const fn size(key: &'static str, default: u64, about: &'static str) -> Parameter {
        let kind = Kind::Size { least: 0, most: u64::MAX };
        Parameter::new(key, kind, Default::Fixed(Value::Number(default)), about)
    }

    /// Bytes per second; by default no limit.
    pub const fn rate(key: &'static str, about: &'static str) -> Parameter {
        Parameter::new(key, Kind::Rate, Default::Found("no limit"), about)
    }

    /// A whole number, at most `u32::MAX`.
    pub const fn count(key: &'static str, default: u64, about: &'static str) -> Parameter {
        let kind = Kind::Count { least: 0, most: u32::MAX as u64 };
        Parameter::new(key, kind, Default::Fixed(Value::Number(default)), about)
    }

    /// A finite number.
    pub const fn real(key: &'static str, default: f64, about: &'static str) -> Parameter {
        let kind = Kind::Real { least: f64::MIN, most: f64::MAX };
        Parameter::new(key, kind, Default::Fixed(Value::Real(default)), about)
    }

    /// A duration; `bare` is the unit of a number without unit.
    pub const fn time(key: &'static str, default: Duration, bare: Unit, about: &'static str) -> Parameter {
        let kind = Kind::Time { bare: Some(bare), least: Duration::ZERO, most: time::LONGEST };
        Parameter::new(key, kind, Default::Fixed(Value::Time(default)), about)
    }

    /// One of several words; the first is the default.
    pub const fn choice(key: &'static str, words: &'static [&'static str], about: &'static str) -> Parameter {
        Parameter::new(key, Kind::Choice(words), Default::Fixed(Value::Text(words[0])), about)
    }

    /// A text of a form that its owner checks; by default none.
    pub const fn text(key: &'static str, form: &'static str, about: &'static str) -> Parameter {
        Parameter::new(key, Kind::Text(form), Default::Nothing, about)
    }

    /// A key of ADIOS 1.x that is accepted without effect.
    pub const fn no_effect(key: &'static str, about: &'static str) -> Parameter {
        Parameter::new(key, Kind::NoEffect, Default::Nothing, about)
    }

    /// Sets the aliases.
    pub const fn also(self, keys: &'static [&'static str]) -> Parameter {
        Parameter { also: keys, ..self }
    }

    /// Replaces the default by a value determined at run time, described in these words.
    pub const fn or_else(self, words: &'static str) -> Parameter {
        Parameter { default: Default::Found(words), ..self }
    }

    /// Removes the default: the parameter has no effect unless the user gives it.
    pub const fn or_nothing(self) -> Parameter {
        Parameter { default: Default::Nothing, ..self }
    }

    /// The smallest number or size.
    pub const fn at_least(self, least: u64) -> Parameter {
        let most = match self.kind {
            Kind::Size { most, .. } | Kind::Count { most, .. } => most,
            _ => u64::MAX,
        };
        self.within(least, most)
    }

    /// The smallest and the largest number or size; no effect on other kinds.
    pub const fn within(self, least: u64, most: u64) -> Parameter {
        let kind = match self.kind {
            Kind::Size { .. } => Kind::Size { least, most },
            Kind::Count { .. } => Kind::Count { least, most },
            other => other,
        };
        Parameter { kind, ..self }
    }

    /// The smallest and the largest real number; no effect on other kinds.
    pub const fn between(self, least: f64, most: f64) -> Parameter {
        let kind = match self.kind {
            Kind::Real { .. } => Kind::Real { least, most },
            other => other,
        };
        Parameter { kind, ..self }
    }

    /// The shortest and the longest time; no effect on other kinds.
    pub const fn lasting(self, least: Duration, most: Duration) -> Parameter {
        let kind = match self.kind {
            Kind::Time { bare, .. } => Kind::Time { bare, least, most },
            other => other,
        };
        Parameter { kind, ..self }
    }

    /// Its key and its aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        std::iter::once(self.key).chain(self.also.iter().copied())
    }

    /// Whether this key is its own or one of its aliases.
    pub fn is(&self, key: &str) -> bool {
        self.names().any(|name| name.eq_ignore_ascii_case(key))
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The expected form, which follows "expected" in the message: see [`Parameter::expected`].
    pub fn read<'t>(&self, text: &'t str) -> std::result::Result<Value<'t>, String> {
        let trimmed = text.trim();
        let value = match self.kind {
            Kind::Switch => switch(text).map(Value::Switch),
            Kind::Size { least, most } => size::size(text).filter(|n| (least..=most).contains(n)).map(Value::Number),
            Kind::Rate => rate(text).filter(|n| *n > 0).map(Value::Number),
            Kind::Count { least, most } => {
                trimmed.parse().ok().filter(|n| (least..=most).contains(n)).map(Value::Number)
            }
            Kind::Real { least, most } => trimmed.parse().ok().filter(|n| (least..=most).contains(n)).map(Value::Real),
            Kind::Time { bare, least, most } => {
                time(text, bare).filter(|t| (least..=most).contains(t)).map(Value::Time)
            }
            Kind::Choice(words) => {
                words.iter().find(|word| word.eq_ignore_ascii_case(trimmed)).map(|word| Value::Text(word))
            }
            Kind::Text(_) | Kind::NoEffect => Some(Value::Text(text)),
        };
        value.ok_or_else(|| match self.kind {
            Kind::Choice(words) => match nearest(trimmed, words.iter().copied()) {
                Some(near) if words.len() > 2 => format!("{} (nearest: {near})", self.expected()),
                _ => self.expected(),
            },
            _ => self.expected(),
        })
    }

    /// The accepted values, for error messages: `bytes from 5 MiB to 1 GiB, as 65536, 64k or 8MiB`.
    pub fn expected(&self) -> String {
        match self.kind {
            Kind::Switch => "yes or no".into(),
            Kind::Size { .. } => format!("{}, as 65536, 64k or 8MiB", self.takes()),
            Kind::Rate => format!("{}, as 200MB", self.takes()),
            Kind::Count { .. } | Kind::Real { .. } => format!("a {}", self.takes()),
            Kind::Time { bare: Some(_), .. } => format!("a {}", self.takes()),
            Kind::Time { bare: None, .. } => format!("a {}, as 30s or 5min", self.takes()),
            Kind::Choice(words) => alternatives(words),
            Kind::Text(form) => form.into(),
            Kind::NoEffect => "any text".into(),
        }
    }

    /// The accepted values, for a table: `bytes`, `whole number, at least 1`, `simple or brigade`.
    pub fn takes(&self) -> String {
        match self.kind {
            Kind::Switch => "yes or no".into(),
            Kind::Size { least, most } => bounded("bytes", (least, 0), (most, u64::MAX), |n| show_size(*n)),
            Kind::Rate => "bytes per second".into(),
            Kind::Count { least, most } => {
                let unbounded = if most >= u64::from(u32::MAX) { most } else { u64::MAX };
                bounded("whole number", (least, 0), (most, unbounded), u64::to_string)
            }
            Kind::Real { least, most } if least == ABOVE_ZERO => match most {
                f64::MAX => "number above 0".into(),
                _ => format!("number above 0, up to {most}"),
            },
            Kind::Real { least, most } => bounded("number", (least, f64::MIN), (most, f64::MAX), f64::to_string),
            Kind::Time { bare, least, most } => {
                let what = match bare {
                    Some(unit) => format!("time, as 30s or 5min, or in {}", unit.words()),
                    None => "time with its unit".into(),
                };
                bounded(&what, (least, Duration::ZERO), (most, time::LONGEST), |t| show_time(*t))
            }
            Kind::Choice(words) => alternatives(words),
            Kind::Text(form) => form.into(),
            Kind::NoEffect => "any text".into(),
        }
    }

    /// The default in words; empty if there is none.
    pub fn default_text(&self) -> String {
        match (self.default, self.kind) {
            (Default::Nothing, _) => String::new(),
            (Default::Found(words), _) => words.into(),
            (Default::Fixed(Value::Switch(yes)), _) => if yes { "yes" } else { "no" }.into(),
            (Default::Fixed(Value::Number(bytes)), Kind::Size { .. }) => show_size(bytes),
            (Default::Fixed(Value::Number(number)), _) => number.to_string(),
            (Default::Fixed(Value::Real(number)), _) => number.to_string(),
            (Default::Fixed(Value::Time(time)), _) => show_time(time),
            (Default::Fixed(Value::Text(word)), _) => word.into(),
        }
    }
}

/// `simple or brigade`, `flat, pattern or distributed`.
fn alternatives(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).into(),
        [all @ .., last] => format!("{} or {last}", all.join(", ")),
    }
}

/// - `least`, `most`: each with the value that means no bound.
fn bounded<T: PartialEq>(what: &str, least: (T, T), most: (T, T), show: impl Fn(&T) -> String) -> String {
    match (least.0 == least.1, most.0 == most.1) {
        (true, true) => what.into(),
        (false, true) => format!("{what}, at least {}", show(&least.0)),
        (true, false) => format!("{what}, at most {}", show(&most.0)),
        (false, false) => format!("{what} from {} to {}", show(&least.0), show(&most.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(parameter: Parameter, text: &str) -> String {
        parameter.read(text).unwrap_err()
    }

    #[test]
    fn a_value_out_of_bounds_is_told_the_bounds() {
        let part = Parameter::size("part", 16 << 20, "").within(5 << 20, 1 << 30);
        assert_eq!(part.read("8MB"), Ok(Value::Number(8 << 20)));
        assert_eq!(refused(part, "4M"), "bytes from 5 MiB to 1 GiB, as 65536, 64k or 8MiB");
        assert_eq!(refused(Parameter::count("n", 1, "").at_least(1), "0"), "a whole number, at least 1");
        assert_eq!(refused(Parameter::count("n", 1, "").within(1, 8), "9"), "a whole number from 1 to 8");
        assert_eq!(refused(Parameter::real("x", 1.0, "").between(ABOVE_ZERO, f64::MAX), "0"), "a number above 0");
        assert_eq!(refused(Parameter::real("x", 1.0, "").between(1.0, f64::MAX), "NaN"), "a number, at least 1");
        let time = Parameter::time("t", Duration::from_secs(60), Unit::Seconds, "");
        let time = time.lasting(Duration::from_secs(1), Duration::from_secs(86_400));
        assert_eq!(refused(time, "0"), "a time, as 30s or 5min, or in seconds from 1 s to 86400 s");
    }

    #[test]
    fn a_word_of_a_choice_is_found_in_any_letter_case_and_a_wrong_one_is_told_the_nearest() {
        let module = Parameter::choice("index", &["pattern", "flat", "distributed"], "");
        assert_eq!(module.read(" Flat "), Ok(Value::Text("flat")));
        assert_eq!(refused(module, "patern"), "pattern, flat or distributed (nearest: pattern)");
        assert_eq!(refused(Parameter::choice("p", &["simple", "brigade"], ""), "up"), "simple or brigade");
    }

    #[test]
    fn the_default_is_printed_as_it_would_be_written() {
        let shown = [
            Parameter::switch("a", false, ""),
            Parameter::size("b", 8 << 20, ""),
            Parameter::count("c", 2, ""),
            Parameter::real("d", 3.0, ""),
            Parameter::time("e", Duration::from_millis(100), Unit::Milliseconds, ""),
            Parameter::choice("f", &["close", "sync"], ""),
            Parameter::count("g", 0, "").or_else("one per node"),
            Parameter::text("h", "a folder", ""),
        ]
        .map(|p| p.default_text());
        assert_eq!(shown, ["no", "8 MiB", "2", "3", "100 ms", "close", "one per node", ""]);
    }
}
