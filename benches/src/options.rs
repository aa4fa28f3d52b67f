//! What every bench is told on its command line.

use crate::{Failure, machine};

/// Options of every bench.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// Exit with 1 where a target is missed.
    pub check: bool,
    /// Small sizes: shows that the bench works, measures nothing worth keeping.
    pub small: bool,
    /// Put the result into `benches/RESULTS.md`.
    pub keep: bool,
    /// Programs that ran on the machine before the bench began: on average of a minute.
    pub load: f64,
}

impl Options {
    /// From the command line.
    ///
    /// # Errors
    /// Names an option it does not know.
    pub fn from_arguments() -> Result<Options, Failure> {
        Options::from(std::env::args().skip(1))
    }

    /// From the words of a command line.
    ///
    /// # Errors
    /// Names an option it does not know.
    pub fn from(arguments: impl Iterator<Item = String>) -> Result<Options, Failure> {
        let mut options = Options { load: machine::load(), ..Options::default() };
        for argument in arguments {
            match argument.as_str() {
                "--check" => options.check = true,
                "--small" => options.small = true,
                "--keep" => options.keep = true,
                other => return Err(format!("unknown option '{other}': expected --check, --small or --keep").into()),
            }
        }
        Ok(options)
    }

    /// One of two sizes.
    pub fn size<T>(self, usual: T, small: T) -> T {
        if self.small { small } else { usual }
    }
}
