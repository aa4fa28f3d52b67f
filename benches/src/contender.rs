//! A program that is run and says its measurements, one line each: `value NAME NUMBER`.
//!
//! Names have no spaces. Other lines are the program's own and are passed over.

use crate::Failure;
use crate::samples::Samples;
use std::collections::HashMap;
use std::process::{Command, Stdio};

/// All measurements of a run, in the order their names first came.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measurements {
    names: Vec<String>,
    samples: HashMap<String, Samples>,
}

impl Measurements {
    /// Adds one.
    pub fn add(&mut self, name: &str, value: f64) {
        if !self.samples.contains_key(name) {
            self.names.push(name.to_string());
        }
        self.samples.entry(name.to_string()).or_default().0.push(value);
    }

    /// Names in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What was measured under a name; `None` where nothing was.
    pub fn find(&self, name: &str) -> Option<&Samples> {
        self.samples.get(name)
    }

    /// The median under a name; NaN where nothing was measured.
    pub fn median(&self, name: &str) -> f64 {
        self.find(name).map_or(f64::NAN, Samples::median)
    }

    /// Runs a program and adds what it says.
    ///
    /// # Errors
    /// The program's own words where it fails, or says nothing.
    pub fn run(&mut self, command: &mut Command) -> Result<(), Failure> {
        let output = command.stdin(Stdio::null()).output().map_err(|e| format!("cannot run {command:?}: {e}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{command:?} failed ({}):\n{said}{complaint}", output.status).into());
        }
        if self.take(&said)? == 0 {
            return Err(format!("{command:?} measured nothing:\n{said}").into());
        }
        Ok(())
    }

    /// Adds the measurements in a program's output; returns how many there were.
    fn take(&mut self, said: &str) -> Result<usize, Failure> {
        let mut taken = 0;
        for line in said.lines() {
            let Some(rest) = line.strip_prefix("value ") else { continue };
            let (name, number) = rest.split_once(' ').ok_or_else(|| format!("no number in '{line}'"))?;
            self.add(name, number.trim().parse().map_err(|e| format!("'{line}': {e}"))?);
            taken += 1;
        }
        Ok(taken)
    }
}

/// A variable of the environment that `./dev bench` sets.
///
/// # Errors
/// Names it where it is not set.
pub fn environment(name: &str) -> Result<String, Failure> {
    std::env::var(name).map_err(|_| format!("{name} is not set; benches are run by ./dev bench").into())
}

/// A command that runs a program on so many ranks.
///
/// # Errors
/// Where `MPIEXEC` is not set.
pub fn on_ranks(ranks: u32, program: &str) -> Result<Command, Failure> {
    let mpiexec = environment("MPIEXEC")?;
    let mut words = mpiexec.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("mpiexec"));
    command.args(words).args(["-n", &ranks.to_string(), program]);
    Ok(command)
}

/// Where compiled programs of a bench lie, and a scratch folder of its own beside.
///
/// # Errors
/// Errors of the system when a folder or file is made.
pub fn folder(bench: &str) -> Result<String, Failure> {
    let root = std::env::current_dir()?;
    let folder = format!("{}/build/bench/{bench}", root.display());
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_taken_from_between_other_lines_and_kept_in_order() {
        let mut all = Measurements::default();
        assert_eq!(all.take("hello\nvalue b 2.5\nvalue a 1\nvalue b 3.5\n").unwrap(), 3);
        assert_eq!(all.names(), ["b", "a"]);
        assert_eq!(all.median("b"), 3.0);
        assert!(all.take("value c none").is_err());
        assert!(all.median("d").is_nan());
    }
}
