//! What a mount puts around its stores: keys of the mount table that every layout has.
//!
//! From the store outwards: slow, limited, counted, tried again. So counts tell what reaches the store, tries again included.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thalweg_movement::method::{Parameter, Parameters};
use thalweg_store::Store;
use thalweg_store::wrap::{Limited, Locked, Patience, Retry, Slow, Tallied};
use thalweg_types::Result;

/// Every key.
pub const KEYS: &[Parameter] = &[
    Parameter {
        key: "retry",
        about: "how often an operation is tried again that may pass; default 0, or the store's own",
    },
    Parameter { key: "rate", about: "bytes a second that a process reads and writes at most; default no limit" },
    Parameter { key: "calls", about: "operations a second that a process asks of a store at most; default no limit" },
    Parameter {
        key: "drain",
        about: "of a burst buffer: after-close, a process of its own moves on what is closed; manual, thalweg drain does; default after-close",
    },
    Parameter { key: "counts", about: "folder where each process keeps count of what it asks of a store; for tests" },
    Parameter {
        key: "slow",
        about: "makes stores slow, for tests: any of call=1ms (each operation), names=1ms (those on names), lock=1ms (a lock that comes from another writer)",
    },
];

/// What is put around the stores of a mount.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Around {
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

impl Around {
    /// Takes one of [`KEYS`].
    ///
    /// # Errors
    /// What is expected instead.
    pub fn set(&mut self, key: &str, text: &str) -> std::result::Result<(), String> {
        let given = Parameters(vec![(key.to_string(), text.to_string())]);
        let wrong = |e: thalweg_types::Error| e.what().to_string();
        match key {
            "retry" => self.retry = given.count(key, 0).map_err(wrong)?,
            "rate" => self.rate = Some(given.bytes(key, 0).map_err(wrong)?.max(1)),
            "calls" => self.calls = given.at_least(key, 1).map_err(wrong)?,
            "counts" if text.starts_with('/') => self.counts = Some(text.into()),
            "counts" => return Err(format!("{key}={text}: expected a folder that begins with /")),
            "slow" => self.slow = Slowness::of(text)?,
            "drain" => {
                self.manual = match text {
                    "after-close" => Some(false),
                    "manual" => Some(true),
                    _ => return Err(format!("drain={text}: expected after-close or manual")),
                }
            }
            _ => return Err(format!("there is no {key}")),
        }
        Ok(())
    }

    /// Whether burst buffers drain by themselves after a close.
    pub fn drains(&self) -> bool {
        !self.manual.unwrap_or(false)
    }

    /// Whether the mount table says how burst buffers drain.
    pub fn tells_drain(&self) -> bool {
        self.manual.is_some()
    }

    /// The store with all that around it.
    ///
    /// # Errors
    /// What the system says of the folders of counts and of locks.
    pub fn put(&self, url: &str, mut store: Arc<dyn Store>) -> Result<Arc<dyn Store>> {
        let Slowness { call, names, lock } = self.slow;
        if !lock.is_zero() {
            // By the store's name, so that all processes that mount it share its locks.
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
            let wrong = || format!("slow={part}: expected call=, names= or lock= and a time, such as names=1ms");
            let (what, time) = part.split_once('=').ok_or_else(wrong)?;
            let place = match what {
                "call" => &mut slow.call,
                "names" => &mut slow.names,
                "lock" => &mut slow.lock,
                _ => return Err(wrong()),
            };
            *place = duration(time).ok_or_else(wrong)?;
        }
        Ok(slow)
    }
}

/// `200us`, `1ms`, `2s`.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u32 = digits.parse().ok()?;
    match &text[digits.len()..] {
        "us" => Some(Duration::from_micros(number.into())),
        "ms" => Some(Duration::from_millis(number.into())),
        "s" => Some(Duration::from_secs(number.into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_store::Memory;

    #[test]
    fn what_is_around_a_store_is_told_from_the_outside_in() {
        let mut around = Around::default();
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
        assert_eq!(Around::default().put("memory:", Arc::new(Memory::new())).unwrap().describe(), "memory:");
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
            let why = Around::default().set(key, text).unwrap_err();
            assert!(why.contains(told), "{key}={text}: {why}");
        }
    }
}
