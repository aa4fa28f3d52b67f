//! The run file: which process steers an output, the settings in force, and the answers to the last requests.
//!
//! The run overwrites it in place, because its lock is on it; a reader that meets a change reads again: the first and the last line
//! have the number of the version.

use crate::lines;
use crate::settings::Change;
use thalweg_types::{Error, ErrorKind, Result};

/// Answers that are kept: as many requests can be answered before their askers look.
pub const ANSWERS: usize = 16;

const HEAD: &str = "thalweg run 1";

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Id of the request.
    pub id: String,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Accepted {
        /// From this output on, counted by the program.
        output: u64,
        /// The step that this is in the file, if all goes well.
        step: u64,
    },
    /// It is refused, for this reason.
    Refused(String),
}

/// A run, as it tells others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Host of rank 0.
    pub host: String,
    /// Process of rank 0.
    pub pid: u32,
    /// Settings in force, as a change from the default ones.
    pub settings: Change,
    /// The first output for which they hold.
    pub since: u64,
    /// To the last requests, at most [`ANSWERS`], the latest last.
    pub answers: Vec<Answer>,
}

impl Record {
    /// Adds the answer to a request.
    pub fn answer(&mut self, answer: Answer) {
        self.answers.push(answer);
        let surplus = self.answers.len().saturating_sub(ANSWERS);
        self.answers.drain(..surplus);
    }

    /// The run file.
    ///
    /// - `version`: a number that grows with every version.
    pub fn encode(&self, version: u64) -> String {
        let mut text = format!("{HEAD}\n");
        let mut put = |key: &str, value: String| lines::put(&mut text, key, &value);
        put("version", version.to_string());
        put("host", self.host.clone());
        put("pid", self.pid.to_string());
        put("since", self.since.to_string());
        for Answer { id, verdict } in &self.answers {
            put("answer", id.clone());
            match verdict {
                Verdict::Accepted { output, step } => put("accepted", format!("{output} {step}")),
                Verdict::Refused(why) => put("refused", why.clone()),
            }
        }
        self.settings.put(&mut text);
        lines::put(&mut text, "end", &version.to_string());
        text
    }

    /// Reads a run file. `None`: it is being changed; read it again.
    ///
    /// # Errors
    /// `Corrupt` if it is none.
    pub fn parse(bytes: &[u8]) -> Result<Option<Record>> {
        let corrupt = |what: String| Error::new(ErrorKind::Corrupt, what);
        if bytes.is_empty() {
            return Ok(None);
        }
        // A version that is being written has the end of another one, or none.
        let lines = lines::parse(bytes, HEAD)?;
        let version = lines.first().filter(|(key, _)| key == "version").map(|(_, version)| version);
        let end = lines.last().filter(|(key, _)| key == "end").map(|(_, version)| version);
        if version.is_none() || version != end {
            return Ok(None);
        }
        let mut record = Record::default();
        let mut id = String::new();
        for (key, value) in &lines {
            let wrong = || corrupt(format!("invalid value: {key} {value}"));
            let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
            match key.as_str() {
                "version" | "end" => {}
                "host" => record.host = value.clone(),
                "pid" => record.pid = value.parse().map_err(|_| wrong())?,
                "since" => record.since = number(value)?,
                "answer" => id.clone_from(value),
                "accepted" => {
                    let (output, step) = value.split_once(' ').ok_or_else(wrong)?;
                    let verdict = Verdict::Accepted { output: number(output)?, step: number(step)? };
                    record.answer(Answer { id: id.clone(), verdict });
                }
                "refused" => record.answer(Answer { id: id.clone(), verdict: Verdict::Refused(value.clone()) }),
                // Later releases may tell more.
                _ => _ = record.settings.take(key, value)?,
            }
        }
        Ok(Some(record))
    }
}
