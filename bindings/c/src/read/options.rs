//! What `adios_read_init_method` settles, for files that are opened later.
//!
//! | parameter | means |
//! |-----------|-------|
//! | `max_chunk_size` | most MiB of a piece that `adios_check_reads` gives; 16 |
//! | `poll_interval` | milliseconds between two looks at a file that is waited for; 100 |
//! | `show_hidden_attrs` | attributes of the library itself (`/__adios__/`) are shown |
//! | `quiet`, `verbose` | `quiet` or `verbose=0`: failures are not told on standard error |
//!
//! Others are for methods of ADIOS 1.13 that this library does not need, and change nothing.

use crate::error::{self, Failure, Outcome};
use std::sync::Mutex;
use std::time::Duration;

/// See the module's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Bytes.
    pub max_chunk: u64,
    /// Between two looks.
    pub poll: Duration,
    /// Whether hidden attributes are shown.
    pub show_hidden: bool,
}

const DEFAULT: Options = Options { max_chunk: 16 << 20, poll: Duration::from_millis(100), show_hidden: false };

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

/// Reads `key=value;key=value`.
///
/// # Errors
/// A value that is no number where one is needed.
pub fn set(text: &str) -> Outcome<()> {
    let mut options = now();
    let mut quiet = None;
    for pair in text.split([';', '\n']).map(str::trim).filter(|p| !p.is_empty()) {
        let (key, value) = pair.split_once('=').map_or((pair, None), |(k, v)| (k.trim_end(), Some(v.trim())));
        let number = || -> Outcome<u64> {
            let value = value.unwrap_or("");
            value.parse().map_err(|_| Failure::argument(format!("{key}: \"{value}\" is no number")))
        };
        match key.to_ascii_lowercase().as_str() {
            "max_chunk_size" => {
                let mib = number()?;
                if mib == 0 {
                    return Err(Failure::argument("max_chunk_size: 0 MiB hold nothing"));
                }
                options.max_chunk = mib.saturating_mul(1 << 20);
            }
            "poll_interval" => options.poll = Duration::from_millis(number()?.clamp(1, 60_000)),
            "show_hidden_attrs" => {
                options.show_hidden = !value.is_some_and(|v| ["no", "false", "0"].contains(&v));
            }
            "quiet" => quiet = Some(true),
            "verbose" => quiet = Some(value == Some("0")),
            _ => {}
        }
    }
    *crate::process::lock(&NOW) = options;
    if let Some(quiet) = quiet {
        error::be_quiet(quiet);
    }
    Ok(())
}
