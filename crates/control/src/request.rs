//! The control file: a change that someone asks for.
//!
//! | line | meaning |
//! |------|---------|
//! | `thalweg control 1` | the first line |
//! | `id TEXT` | by which the answer names the request |
//! | `every N` | one output of N |
//! | `only NAME` | one line for each array; `only-all yes`: all |
//! | `box A:B,C:D` | the part of global arrays; `box-all yes`: all |
//! | `stop yes` or `stop no` | the program is asked to stop, or no longer; `stop-after GROUP`: once an output of this group is closed |
//! | `method NAME;KEY=VALUE` | the method; `method-declared yes`: the one that the program's configuration has |
//!
//! Other lines are refused.

use crate::lines;
use crate::settings::Change;
use thalweg_types::{Error, ErrorKind, Result};

const HEAD: &str = "thalweg control 1";

/// A change that someone asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// By which the answer names it.
    pub id: String,
    /// What is asked for.
    pub change: Change,
}

impl Request {
    /// The control file.
    pub fn encode(&self) -> String {
        let mut text = format!("{HEAD}\n");
        lines::put(&mut text, "id", &self.id);
        self.change.put(&mut text);
        text
    }

    /// Reads a control file.
    ///
    /// # Errors
    /// `Corrupt` if it is none, or has unknown lines; `InvalidArgument` for an invalid value.
    pub fn parse(bytes: &[u8]) -> Result<Request> {
        let mut request = Request::default();
        for (key, value) in lines::parse(bytes, HEAD)? {
            if key == "id" {
                request.id = value;
            } else if !request.change.take(&key, &value)? {
                return Err(Error::new(ErrorKind::Corrupt, format!("unknown line \"{key}\"")));
            }
        }
        Ok(request)
    }

    /// The id in a control file that is otherwise invalid, to answer it.
    pub fn id_of(bytes: &[u8]) -> Option<String> {
        let lines = lines::parse(bytes, HEAD).ok()?;
        lines.into_iter().find(|(key, _)| key == "id").map(|(_, id)| id)
    }
}
