//! The values of parameters: the `key=value` pairs of a user, read by their declarations.

use crate::nearest;
use crate::parameter::{Default, Parameter, Value};
use std::ops::Range;
use std::time::Duration;
use thalweg_types::{Error, ErrorKind, Result};

/// `key=value` pairs in the user's order; if a key occurs several times, its last pair is used.
#[derive(Debug, Clone, PartialEq, Eq, std::default::Default)]
pub struct Parameters {
    owner: String,
    pairs: Vec<(String, String)>,
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Parameters {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Parameters {
        let pairs = pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Parameters { owner: String::new(), pairs }
    }
}

impl From<Vec<(String, String)>> for Parameters {
    fn from(pairs: Vec<(String, String)>) -> Parameters {
        Parameters { owner: String::new(), pairs }
    }
}

/// Splits `key=value;key=value`. A key alone means `yes`; blanks around keys and values, and empty parts, are removed. With each
/// pair comes its position in `text`, in bytes.
pub fn pairs(text: &str) -> Vec<(Range<usize>, (String, String))> {
    let mut pairs = Vec::new();
    let mut at = 0;
    for part in text.split(';') {
        let start = at + (part.len() - part.trim_start().len());
        at += part.len() + 1;
        let pair = part.trim();
        if pair.is_empty() {
            continue;
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, "yes"));
        pairs.push((start..start + pair.len(), (key.trim().to_string(), value.trim().to_string())));
    }
    pairs
}

impl Parameters {
    /// Reads `key=value;key=value`: see [`pairs`].
    pub fn parse(text: &str) -> Parameters {
        pairs(text).into_iter().map(|(_, pair)| pair).collect()
    }

    /// The same, with the name of their owner, with which errors begin: `store "s3://bucket"`.
    pub fn of(self, owner: impl Into<String>) -> Parameters {
        Parameters { owner: owner.into(), ..self }
    }

    /// The pairs, in the user's order.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    /// Adds a pair, which replaces earlier ones of its key.
    pub fn push(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.pairs.push((key.into(), value.into()));
    }

    /// The user's text for a parameter; the parameter's own key takes precedence over aliases.
    pub fn text(&self, parameter: &Parameter) -> Option<&str> {
        parameter.names().find_map(|name| self.last(name))
    }

    fn last(&self, name: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter, or its default: a `u32`, `u64`, `usize`, `f64`, `bool`, [`Duration`] or `String`, as declared;
    /// an `Option` of these if the default is determined at run time or there is none.
    ///
    /// # Errors
    /// `Config` for an invalid text, with the expected form; for two aliases with different values; if no value is given and
    /// there is no fixed default, unless an `Option` is requested.
    pub fn get<T: Take>(&self, parameter: &Parameter) -> Result<T> {
        let mut found: Option<(&str, &str, Value<'_>)> = None;
        for name in parameter.names() {
            let Some(text) = self.last(name) else { continue };
            let value = parameter.read(text).map_err(|expected| self.not_as_expected(name, text, &expected))?;
            match found {
                None => found = Some((name, text, value)),
                Some((first, said, before)) if before != value => {
                    let what = format!("parameters {first}={said} and {name}={text}: they are the same thing");
                    return Err(self.wrong(what));
                }
                Some(_) => {}
            }
        }
        let value = match (found, parameter.default) {
            (Some((.., value)), _) => Some(value),
            (None, Default::Fixed(value)) => Some(value),
            (None, _) => None,
        };
        T::take(value).ok_or_else(|| match found {
            Some((name, text, _)) => self.not_as_expected(name, text, &format!("{} in range", parameter.expected())),
            None => self.wrong(format!("parameter {} is not given: expected {}", parameter.key, parameter.expected())),
        })
    }

    /// Checks the text given for a parameter, if any.
    ///
    /// # Errors
    /// As [`Parameters::get`].
    pub fn check(&self, parameter: &Parameter) -> Result<()> {
        match self.text(parameter) {
            Some(_) => self.get::<Any>(parameter).map(drop),
            None => Ok(()),
        }
    }

    /// Checks that every key belongs to one of `known`.
    ///
    /// # Errors
    /// `Config` with the first unknown key, the nearest known one, and all known ones.
    pub fn check_known(&self, known: &[Parameter]) -> Result<()> {
        let Some((key, _)) = self.pairs.iter().find(|(key, _)| !known.iter().any(|p| p.is(key))) else { return Ok(()) };
        let names = || known.iter().flat_map(Parameter::names);
        let mut what = format!("unknown parameter {key}");
        if let Some(near) = nearest(key, names()) {
            what += &format!("; nearest known name: {near}");
        }
        what += &match known {
            [] => "; there are none".to_string(),
            known => format!("; known are {}", known.iter().map(|p| p.key).collect::<Vec<_>>().join(", ")),
        };
        Err(self.wrong(what))
    }

    fn not_as_expected(&self, key: &str, text: &str, expected: &str) -> Error {
        self.wrong(format!("parameter {key}={text}: expected {expected}"))
    }

    /// A `Config` error that begins with the name of the parameters' owner.
    pub fn wrong(&self, what: impl std::fmt::Display) -> Error {
        let what = if self.owner.is_empty() { what.to_string() } else { format!("{}: {what}", self.owner) };
        Error::new(ErrorKind::Config, what)
    }
}

/// A type that [`Parameters::get`] can return.
pub trait Take: Sized {
    /// Converts the given value, or the fixed default; `None` if it is of another kind, too large, or missing.
    fn take(value: Option<Value<'_>>) -> Option<Self>;
}

/// Any given value.
struct Any;

impl Take for Any {
    fn take(_: Option<Value<'_>>) -> Option<Any> {
        Some(Any)
    }
}

macro_rules! take_number {
    ($($number:ty),*) => {$(
        impl Take for $number {
            fn take(value: Option<Value<'_>>) -> Option<$number> {
                match value? {
                    Value::Number(number) => number.try_into().ok(),
                    _ => None,
                }
            }
        }
    )*};
}
take_number!(u8, u32, u64, usize, i32);

impl Take for bool {
    fn take(value: Option<Value<'_>>) -> Option<bool> {
        match value? {
            Value::Switch(yes) => Some(yes),
            _ => None,
        }
    }
}

impl Take for f64 {
    fn take(value: Option<Value<'_>>) -> Option<f64> {
        match value? {
            Value::Real(number) => Some(number),
            _ => None,
        }
    }
}

impl Take for Duration {
    fn take(value: Option<Value<'_>>) -> Option<Duration> {
        match value? {
            Value::Time(time) => Some(time),
            _ => None,
        }
    }
}

impl Take for String {
    fn take(value: Option<Value<'_>>) -> Option<String> {
        match value? {
            Value::Text(text) => Some(text.to_string()),
            _ => None,
        }
    }
}

impl<T: Take> Take for Option<T> {
    fn take(value: Option<Value<'_>>) -> Option<Option<T>> {
        match value {
            None => Some(None),
            some => T::take(some).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: Parameter = Parameter::size("chunk", 8 << 20, "");
    const WRITERS: Parameter =
        Parameter::count("aggregators", 0, "").or_else("one per node").also(&["num_aggregators"]);
    const SYNC: Parameter = Parameter::switch("sync", false, "");

    #[test]
    fn parameters_lose_blanks_and_a_bare_key_means_yes() {
        let pairs = pairs("\n stripe_count = 4 ;verbose;;path=a=b\n");
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(_, (k, v))| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("stripe_count", "4"), ("verbose", "yes"), ("path", "a=b")]);
    }

    #[test]
    fn the_last_value_counts_and_letter_case_does_not() {
        let parameters = Parameters::parse("CHUNK=1M;chunk=2M;Sync");
        assert_eq!(parameters.get::<u64>(&CHUNK).unwrap(), 2 << 20);
        assert!(parameters.get::<bool>(&SYNC).unwrap());
        assert_eq!(parameters.get::<Option<u32>>(&WRITERS).unwrap(), None);
        assert_eq!(Parameters::default().get::<usize>(&CHUNK).unwrap(), 8 << 20);
    }

    #[test]
    fn keys_that_mean_the_same_must_say_the_same() {
        assert_eq!(Parameters::parse("num_aggregators=4").get::<Option<u32>>(&WRITERS).unwrap(), Some(4));
        assert_eq!(Parameters::parse("num_aggregators=4;aggregators=04").get::<u32>(&WRITERS).unwrap(), 4);
        let error = Parameters::parse("num_aggregators=4;aggregators=5").get::<u32>(&WRITERS).unwrap_err();
        assert!(error.what().contains("aggregators=5 and num_aggregators=4: they are the same thing"), "{error}");
    }

    #[test]
    fn an_error_names_owner_key_text_and_what_is_expected() {
        let parameters = Parameters::parse("chunk=many").of("layout container");
        let error = parameters.get::<u64>(&CHUNK).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert_eq!(error.what(), "layout container: parameter chunk=many: expected bytes, as 65536, 64k or 8MiB");
        assert!(Parameters::default().get::<u32>(&WRITERS).unwrap_err().what().contains("aggregators is not given"));
        let error = Parameters::parse("num_agregators=3").check_known(&[CHUNK, WRITERS]).unwrap_err();
        assert!(error.what().contains("nearest known name: num_aggregators; known are chunk, aggregators"), "{error}");
    }
}
