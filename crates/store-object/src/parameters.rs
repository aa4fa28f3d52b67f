//! Parameters of a store: `key=value`, every key known, every value checked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use thalweg_types::{Error, ErrorKind, Result};

/// The parameters a store was given; each is taken once, and what is left over at the end is an error.
pub struct Parameters {
    store: String,
    given: BTreeMap<String, String>,
    known: BTreeSet<&'static str>,
}

impl Parameters {
    /// - `store`: its address, for messages.
    pub fn new(store: String, given: &BTreeMap<String, String>) -> Parameters {
        Parameters { store, given: given.clone(), known: BTreeSet::new() }
    }

    /// A text.
    pub fn text(&mut self, key: &'static str) -> Option<String> {
        self.known.insert(key);
        self.given.remove(key)
    }

    /// A whole number within bounds.
    pub fn number(&mut self, key: &'static str, least: u64, most: u64) -> Result<Option<u64>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        match text.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(self.wrong(&format!("{key}={text}: not a whole number from {least} to {most}"))),
        }
    }

    /// Seconds.
    pub fn seconds(&mut self, key: &'static str, default: u64) -> Result<Duration> {
        Ok(Duration::from_secs(self.number(key, 1, 86_400)?.unwrap_or(default)))
    }

    /// `true` or `false`.
    pub fn switch(&mut self, key: &'static str) -> Result<bool> {
        match self.text(key).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(text) => Err(self.wrong(&format!("{key}={text}: neither true nor false"))),
        }
    }

    /// Ends taking.
    ///
    /// # Errors
    /// `Config` for a key that nobody took, naming the ones that the store knows.
    pub fn finish(self) -> Result<()> {
        let Some(key) = self.given.keys().next() else { return Ok(()) };
        let secret = ["secret", "token", "password", "access_key", "credential"].iter().any(|part| key.contains(part));
        let known: Vec<_> = self.known.iter().copied().collect();
        Err(match secret {
            // The value is not repeated.
            true => self.wrong(&format!(
                "parameter {key}: credentials come from the environment or the service's own files, see docs/guide/stores.md"
            )),
            false => self.wrong(&format!("unknown parameter {key}; known are {}", known.join(", "))),
        })
    }

    /// A `Config` error that names the store.
    pub fn wrong(&self, what: &str) -> Error {
        Error::new(ErrorKind::Config, format!("store \"{}\": {what}", self.store))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> Parameters {
        let pairs = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Parameters::new("s3://bucket".into(), &pairs)
    }

    #[test]
    fn what_is_unknown_or_out_of_bounds_is_told_with_the_store() {
        let mut parameters = given(&[("part", "5"), ("parts", "6")]);
        let error = parameters.number("part", 10, 20).unwrap_err().to_string();
        assert!(
            error.contains("s3://bucket") && error.contains("part=5") && error.contains("from 10 to 20"),
            "{error}"
        );
        let error = parameters.finish().unwrap_err().to_string();
        assert!(error.contains("unknown parameter parts; known are part"), "{error}");
        let mut parameters = given(&[("quick", "true"), ("timeout", "7")]);
        assert!(parameters.switch("quick").unwrap());
        assert_eq!(parameters.seconds("timeout", 60).unwrap(), Duration::from_secs(7));
        parameters.finish().unwrap();
    }

    #[test]
    fn credentials_are_no_parameters_and_are_not_repeated() {
        let error = given(&[("secret_access_key", "open-sesame")]).finish().unwrap_err().to_string();
        assert!(error.contains("environment") && !error.contains("sesame"), "{error}");
    }
}
