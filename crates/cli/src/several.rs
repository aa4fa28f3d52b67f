//! Commands on several files.
//!
//! | question | answer |
//! |---|---|
//! | order | that of the command line, one after the other |
//! | a file fails | its reason is told at once; the others are treated all the same |
//! | exit code | the highest of those that the files alone would give |
//! | `--json` | of one file its document; of several an array with one document each: `{"file", "error"}` for one that failed |

use crate::outcome::{Failure, Outcome};
use crate::terminal::{Terminal, complain};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What a command does with one file.
pub type Act<'a> = dyn FnMut(&Path, &mut Terminal) -> Result<Outcome, Failure> + 'a;

/// Treats each file.
///
/// # Errors
/// Of one file: its failure. Of several: `Usage`, `Pipe`, a failure of the output; `Told` if any of them failed.
pub fn each(files: &[PathBuf], is_json: bool, out: &mut Terminal, act: &mut Act<'_>) -> Result<Outcome, Failure> {
    if let [file] = files {
        return act(file, out);
    }
    let (mut outcome, mut is_failed) = (Outcome::Done, false);
    for (number, file) in files.iter().enumerate() {
        if is_json {
            writeln!(out, "{}", if number == 0 { "[" } else { "," })?;
        }
        match act(file, out) {
            Ok(Outcome::Done) => {}
            Ok(Outcome::No) => outcome = Outcome::No,
            Err(failure @ (Failure::Pipe | Failure::Usage(_))) => return Err(failure),
            // With its document in place.
            Err(Failure::Told) => is_failed = true,
            Err(failure) => {
                let why = failure.to_string();
                if is_json {
                    writeln!(out, "{}", json!({ "file": file.display().to_string(), "error": why }))?;
                }
                // What was printed before comes before.
                out.flush()?;
                complain("thalweg", &why);
                match failure {
                    Failure::Absent(_) => outcome = Outcome::No,
                    _ => is_failed = true,
                }
            }
        }
    }
    if is_json {
        writeln!(out, "]")?;
    }
    if is_failed { Err(Failure::Told) } else { Ok(outcome) }
}
