//! What `adios_read_init_method` settles, for files that are opened later.
//!
//! | parameter | means |
//! |-----------|-------|
//! | `max_chunk_size` | most MiB of a piece that `adios_check_reads` gives; 16 |
//! | `poll_interval` | milliseconds between two looks at a file that is waited for; 100 |
//! | `show_hidden_attrs` | attributes of the library itself (`/__adios__/`) are shown |
//! | `reads` | `checked`: checksums are compared before values are handed over. `unchecked`: nothing is compared |
//! | `quiet`, `verbose` | `quiet` or `verbose=0`: failures are not told on standard error |
//!
//! Others are for methods of ADIOS 1.13 that this library does not need, and change nothing.

use crate::error;
use std::sync::Mutex;
use std::time::Duration;
use thalweg_reader::Reads;

/// See the module's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Bytes.
    pub max_chunk: u64,
    /// Between two looks.
    pub poll: Duration,
    /// Whether hidden attributes are shown.
    pub show_hidden: bool,
    /// What is compared before values are handed over.
    pub reads: Reads,
}

const DEFAULT: Options =
    Options { max_chunk: 16 << 20, poll: Duration::from_millis(100), show_hidden: false, reads: Reads::Compared };

static NOW: Mutex<Options> = Mutex::new(DEFAULT);

/// Those of files opened now.
pub fn now() -> Options {
    *crate::process::lock(&NOW)
}

/// Back to what holds without `adios_read_init_method`.
pub fn reset() {
    *crate::process::lock(&NOW) = DEFAULT;
    error::be_quiet(false);
}

/// Reads `key=value;key=value`. A value that makes no sense is left out, and told once on standard error: nothing is lost by
/// it.
pub fn set(text: &str) {
    let mut options = now();
    let mut quiet = None;
    for pair in text.split([';', '\n']).map(str::trim).filter(|p| !p.is_empty()) {
        let (key, value) = pair.split_once('=').map_or((pair, None), |(k, v)| (k.trim_end(), Some(v.trim())));
        let number = |least: u64| -> Option<u64> {
            let value = value.unwrap_or("");
            let number = value.parse().ok().filter(|n| *n >= least);
            if number.is_none() {
                thalweg_warnings::tell_once(&format!(
                    "parameter {key}={value} for reading: expected a whole number, at least {least}; it is left out"
                ));
            }
            number
        };
        match key.to_ascii_lowercase().as_str() {
            "max_chunk_size" => {
                options.max_chunk = number(1).map_or(options.max_chunk, |mib| mib.saturating_mul(1 << 20))
            }
            "poll_interval" => {
                options.poll = number(0).map_or(options.poll, |ms| Duration::from_millis(ms.clamp(1, 60_000)));
            }
            "show_hidden_attrs" => {
                options.show_hidden = !value.is_some_and(|v| ["no", "false", "0"].contains(&v));
            }
            "reads" => match value.unwrap_or("").parse() {
                Ok(reads) => options.reads = reads,
                Err(e) => {
                    let e: thalweg_types::Error = e;
                    thalweg_warnings::tell_once(&format!("parameter for reading: {}; it is left out", e.what()));
                }
            },
            "quiet" => quiet = Some(true),
            "verbose" => quiet = Some(value == Some("0")),
            _ => {}
        }
    }
    *crate::process::lock(&NOW) = options;
    if let Some(quiet) = quiet {
        error::be_quiet(quiet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_left_out_and_the_rest_counts() {
        set("max_chunk_size=much; poll_interval=7; verbose=2; max_chunk_size=0;unheard_of;reads=perhaps");
        assert_eq!(now(), Options { poll: Duration::from_millis(7), ..DEFAULT });
        set("reads=checked");
        assert_eq!(now().reads, Reads::Checked);
        reset();
        assert_eq!(now(), DEFAULT);
    }
}
