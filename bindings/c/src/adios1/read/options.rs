//! Settings of `adios_read_init_method`, for files that are opened later.
//!
//! | parameter | means |
//! |-----------|-------|
//! | `max_chunk_size` | most MiB of a piece that `adios_check_reads` gives; 16 |
//! | `poll_interval` | milliseconds between two looks at a file that is waited for; 100 |
//! | `show_hidden_attrs` | attributes of the library itself (`/__adios__/`) are shown |
//! | `reads` | `checked`: checksums are compared before values are handed over. `unchecked`: nothing is compared |
//! | `digits` | decimal digits of real numbers that are kept: through a staging server fewer bytes come |
//! | `quiet`, `verbose` | `quiet` or `verbose=0`: failures are not printed to standard error |
//!
//! Others are for methods of ADIOS 1.13 that this library does not need, and change nothing.

use crate::adios1::error;
use std::time::Duration;
use thalweg_params::{Parameter, Parameters, Unit};
use thalweg_reader::{Digits, Reader, Reads};
use thalweg_types::mutex::Mutex;

/// See the module's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Bytes.
    pub max_chunk: u64,
    /// Between two looks.
    pub poll: Duration,
    /// Whether hidden attributes are shown.
    pub show_hidden: bool,
    /// The comparisons before values are returned.
    pub reads: Reads,
    /// The digits of real numbers that are kept.
    pub digits: Digits,
}

impl Options {
    /// A file that is read in this way.
    pub fn of(&self, file: Reader) -> Reader {
        file.with_reads(self.reads).with_digits(self.digits)
    }
}

const SHORTEST_POLL: Duration = Duration::from_millis(1);
const LONGEST_POLL: Duration = Duration::from_secs(60);
const DEFAULT_POLL: Duration = Duration::from_millis(100);
const DEFAULT_MAX_CHUNK_MIB: u64 = 16;
const MAX_CHUNK: Parameter =
    Parameter::count("max_chunk_size", DEFAULT_MAX_CHUNK_MIB, "largest piece that adios_check_reads returns, in MiB")
        .at_least(1);
const POLL: Parameter = Parameter::time(
    "poll_interval",
    DEFAULT_POLL,
    Unit::Milliseconds,
    "time between two checks of a file that is waited for",
);
const SHOW_HIDDEN: Parameter =
    Parameter::switch("show_hidden_attrs", false, "attributes of the library itself are shown");

const DIGITS: Parameter = Parameter::count("digits", 0, "decimal digits of real numbers that are kept; 0 means all");

const DEFAULT: Options = Options {
    max_chunk: DEFAULT_MAX_CHUNK_MIB << 20,
    poll: DEFAULT_POLL,
    show_hidden: false,
    reads: Reads::Compared,
    digits: Digits::ALL,
};

static NOW: Mutex<Options> = Mutex::new(DEFAULT);

/// The options of files that are opened from now on.
pub fn now() -> Options {
    *NOW.lock()
}

/// Restores the defaults.
pub fn reset() {
    *NOW.lock() = DEFAULT;
    error::be_quiet(false);
}

/// Reads `key=value;key=value`. An invalid value is ignored, with one warning on standard error; no data can be lost by that.
pub fn set(text: &str) {
    let mut options = now();
    let mut quiet = None;
    for pair in text.lines().flat_map(thalweg_params::pairs) {
        let (key, value) = pair.1;
        let given = Parameters::from_iter([(key.as_str(), value.as_str())]).of("reading");
        if MAX_CHUNK.is(&key) {
            options.max_chunk = sound(given.get::<u64>(&MAX_CHUNK)).map_or(options.max_chunk, |mib| mib << 20);
        } else if POLL.is(&key) {
            options.poll = sound(given.get::<Duration>(&POLL))
                .map_or(options.poll, |poll| poll.clamp(SHORTEST_POLL, LONGEST_POLL));
        } else if SHOW_HIDDEN.is(&key) {
            // Any word but a no switches it on, as in ADIOS 1.13.
            options.show_hidden = thalweg_params::switch(&value).unwrap_or(true);
        } else if key.eq_ignore_ascii_case("reads") {
            options.reads = sound(value.parse()).unwrap_or(options.reads);
        } else if DIGITS.is(&key) {
            options.digits = sound(given.get::<u32>(&DIGITS)).map_or(options.digits, Digits::new);
        } else if key.eq_ignore_ascii_case("quiet") {
            quiet = Some(true);
        } else if key.eq_ignore_ascii_case("verbose") {
            quiet = Some(value == "0");
        }
    }
    *NOW.lock() = options;
    if let Some(quiet) = quiet {
        error::be_quiet(quiet);
    }
}

/// A valid value; for another one a warning, once.
fn sound<T>(value: thalweg_types::Result<T>) -> Option<T> {
    value.map_err(|e| thalweg_warnings::tell_once(&format!("parameter for {}; it is left out", e.what()))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_left_out_and_the_rest_counts() {
        set("max_chunk_size=much; poll_interval=7; verbose=2; max_chunk_size=0;unheard_of;reads=perhaps");
        assert_eq!(now(), Options { poll: Duration::from_millis(7), ..DEFAULT });
        set("reads=checked;digits=3;digits=some");
        assert_eq!((now().reads, now().digits), (Reads::Checked, Digits::new(3)));
        reset();
        assert_eq!(now(), DEFAULT);
    }
}
