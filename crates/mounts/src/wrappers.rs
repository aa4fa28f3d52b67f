//! Wrappers that a mount puts around its stores: keys of the mount table common to all layouts.
//!
//! From the store outwards: slow, limit, count, retry. Counts therefore include retries.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thalweg_params::{Parameter, Parameters, time};
use thalweg_store::Store;
use thalweg_store::wrap::{Limited, Locked, Patience, Retry, Slow, Tallied};
use thalweg_types::Result;

/// `retry`.
pub const RETRY: Parameter = Parameter::count(
    "retry",
    0,
    "how often an operation on a store is repeated after a failure that may pass (a timeout, a lost connection): after 50 ms, then after twice as long each time, at most 5 s. All operations of a process share a budget, so that a broken store is not asked more and more. Operations that must not happen twice are not repeated: exclusive creation, renames, removals, sync, close. S3 and other services have their own retries inside",
);
/// `rate`.
pub const RATE: Parameter = Parameter::rate("rate", "largest rate at which a process reads and writes each store");
/// `calls`.
pub const CALLS: Parameter =
    Parameter::count("calls", 0, "largest number of operations per second of a process on each store")
        .at_least(1)
        .or_else("no limit");
/// `drain`.
pub const DRAIN: Parameter = Parameter::choice(
    "drain",
    &["after-close", "manual"],
    "of a burst buffer. after-close: a separate process moves closed files to the canonical store; manual: thalweg drain does",
);
/// `counts`.
pub const COUNTS: Parameter = Parameter::text(
    "counts",
    "a folder that begins with /",
    "for tests: each process counts its operations on each store in a file PROCESS.NUMBER of this folder, line by line, up to date after every operation",
);
/// `slow`.
pub const SLOW: Parameter = Parameter::text(
    "slow",
    "call=, names= or lock= and a time, such as names=1ms",
    "for tests: makes stores slow by any of call=1ms (each operation), names=1ms (opens, stat, lists, renames, removals), lock=1ms (an object has a lock; a write waits where another process of this machine held it last), with spaces between",
);

/// Every key.
pub const KEYS: &[Parameter] = &[RETRY, RATE, CALLS, DRAIN, COUNTS, SLOW];

/// The wrappers around the stores of a mount.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wrappers {
    retry: u32,
    rate: Option<u64>,
    calls: Option<u32>,
    counts: Option<PathBuf>,
    slow: Slowness,
    manual: Option<bool>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Slowness {
    call: Duration,
    names: Duration,
    lock: Duration,
}

impl Wrappers {
    /// Sets one of [`KEYS`].
    ///
    /// # Errors
    /// The expected form, as text.
    pub fn set(&mut self, key: &str, text: &str) -> std::result::Result<(), String> {
        let given = Parameters::from_iter([(key, text)]);
        let wrong = |e: thalweg_types::Error| e.what().to_string();
        if RETRY.is(key) {
            self.retry = given.get(&RETRY).map_err(wrong)?;
        } else if RATE.is(key) {
            self.rate = given.get(&RATE).map_err(wrong)?;
        } else if CALLS.is(key) {
            self.calls = given.get(&CALLS).map_err(wrong)?;
        } else if COUNTS.is(key) {
            if !text.starts_with('/') {
                return Err(format!("parameter {key}={text}: expected {}", COUNTS.expected()));
            }
            self.counts = Some(text.into());
        } else if SLOW.is(key) {
            self.slow = Slowness::of(text)?;
        } else if DRAIN.is(key) {
            self.manual = Some(given.get::<String>(&DRAIN).map_err(wrong)? == "manual");
        } else {
            return Err(format!("unknown key {key}"));
        }
        Ok(())
    }

    /// Whether burst buffers are drained automatically after a close.
    pub fn drains(&self) -> bool {
        !self.manual.unwrap_or(false)
    }

    /// Whether the mount table configures the drain of burst buffers.
    pub fn tells_drain(&self) -> bool {
        self.manual.is_some()
    }

    /// The store inside all these wrappers.
    ///
    /// # Errors
    /// `Io` and others of the system if the folders for counts or locks cannot be used.
    pub fn put(&self, url: &str, mut store: Arc<dyn Store>) -> Result<Arc<dyn Store>> {
        let Slowness { call, names, lock } = self.slow;
        if !lock.is_zero() {
            // Named after the store, so that all processes that mount it share its locks.
            let name: String = url.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            let folder = std::env::temp_dir().join(format!("thalweg-locks-{name}"));
            store = Arc::new(Locked::new(store, &folder, lock)?);
        }
        if !names.is_zero() {
            store = Arc::new(Slow::names(store, names));
        }
        if !call.is_zero() {
            store = Arc::new(Slow::new(store, call, f64::INFINITY));
        }
        if self.rate.is_some() || self.calls.is_some() {
            let most = |rate: Option<f64>| rate.unwrap_or(f64::INFINITY);
            let (rate, calls) = (self.rate.map(|rate| rate as f64), self.calls.map(f64::from));
            store = Arc::new(Limited::new(store, most(rate), most(calls)));
        }
        if let Some(folder) = &self.counts {
            store = Arc::new(Tallied::new(store, folder)?);
        }
        if self.retry > 0 {
            store = Arc::new(Retry::new(store, Patience { times: self.retry, ..Patience::default() }));
        }
        Ok(store)
    }
}

impl Slowness {
    fn of(text: &str) -> std::result::Result<Slowness, String> {
        let mut slow = Slowness::default();
        for part in text.split([' ', ',']).filter(|part| !part.is_empty()) {
            let wrong = || format!("parameter slow={part}: expected {}", SLOW.expected());
            let (what, duration) = part.split_once('=').ok_or_else(wrong)?;
            let place = match what {
                "call" => &mut slow.call,
                "names" => &mut slow.names,
                "lock" => &mut slow.lock,
                _ => return Err(wrong()),
            };
            *place = time(duration, None).ok_or_else(wrong)?;
        }
        Ok(slow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_store::Memory;

    #[test]
    fn what_is_around_a_store_is_told_from_the_outside_in() {
        let mut around = Wrappers::default();
        let counts = std::env::temp_dir().join(format!("thalweg-counts-{}", std::process::id()));
        for (key, text) in [
            ("retry", "3"),
            ("rate", "100MiB"),
            ("calls", "500"),
            ("counts", &*counts.to_string_lossy()),
            ("slow", "names=1ms, call=20us"),
        ] {
            around.set(key, text).unwrap();
        }
        let store = around.put("memory:around", Arc::new(Memory::new())).unwrap();
        std::fs::remove_dir_all(counts).unwrap();
        let told = store.describe();
        assert_eq!(told, "patient with counting around limited around slow around slow around memory:");
        assert_eq!(Wrappers::default().put("memory:", Arc::new(Memory::new())).unwrap().describe(), "memory:");
    }

    #[test]
    fn what_is_wrong_in_a_key_is_told_with_what_is_expected() {
        for (key, text, told) in [
            ("retry", "often", "whole number"),
            ("calls", "0", "at least 1"),
            ("rate", "fast", "bytes"),
            ("counts", "here", "begins with /"),
            ("drain", "later", "after-close or manual"),
            ("slow", "lock=1", "such as names=1ms"),
            ("slow", "disk=1ms", "such as names=1ms"),
        ] {
            let why = Wrappers::default().set(key, text).unwrap_err();
            assert!(why.contains(told), "{key}={text}: {why}");
        }
    }
}
