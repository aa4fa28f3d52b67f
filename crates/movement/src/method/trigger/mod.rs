//! Triggers: after each output of the preceding methods, rank 0 runs a command or sends an HTTP notification.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | no rank writes data; rank 0 runs `command` or posts to `url` |
//! | when         | after the preceding methods in the document have closed the output, so that the command can read its files. The command runs concurrently with the program; only `finalize` waits for it, at most `at_end` |
//! | where        | no data; the command, its exit status and the end of its error output are appended to `log` |
//! | what moves   | a summary of each variable (type, shape, minimum, maximum), merged up a tree to rank 0: about 100 bytes per variable and message |
//! | memory       | the summary, and the queued outputs: they run one after the other, at most `waiting` are queued |
//! | who calls    | every rank; each sends its summary and continues, no rank waits for the outcome |
//! | on failure   | errors are logged and never reach the program: a command that does not exist, hangs or fails, a server that refuses or does not answer. An output that failed on any rank is not triggered |
//!
//! The command reads a JSON document from its standard input; a URL receives it as the body of a POST request:
//!
//! ```json
//! {"output": "heat.bp", "group": "heat", "step": 3, "method": "MPI", "bytes": 2128, "ranks": 4, "folder": "/scratch/run7",
//!  "variables": [
//!   {"name": "t", "type": "double", "kind": "global array", "shape": [4, 8], "blocks": 4, "min": 0.0, "max": 307.0}]}
//! ```
//!
//! Source: the design's own; the names of the document are those of `thalweg ls --json`.

use crate::method::trigger::jobs::{Action, Job, Jobs, Rules};
use crate::method::{
    CloseRequest, Closed, Finished, Method, MethodKind, OpenRequest, Opened, Parameter, Parameters, folder_of,
    not_open, null,
};
use crate::output_file::cache::Cache;
use crate::pack::Reach;
use crate::pack::blocks::Takes;
use crate::summary::Summary;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use thalweg_bp::process_group::Header;
use thalweg_comm::guarded::caught;
use thalweg_comm::tree;
use thalweg_comm::tree_gather::{self, Gathering};
use thalweg_comm::{Request, tags};
use thalweg_layout::WriteObject;
use thalweg_params::Unit;
use thalweg_params::time::LONGEST;
use thalweg_types::{Error, ErrorKind, Result};

/// How the registry lists it.
pub const KIND: MethodKind = MethodKind {
    names: &["TRIGGER"],
    id: super::STORES_NOTHING,
    about: "runs a command or posts to an HTTP address for each output",
    parameters: &[COMMAND, URL, TIMEOUT, LOG, WAITING, AT_END],
    least: 0,
    tried: &[],
    make,
};

pub mod jobs;

const COMMAND: Parameter = Parameter::text(
    "command",
    "a command for the shell",
    "command that sh -c runs for each output, in the program's working folder; a JSON document is its standard input, its standard output is discarded. Either command or url is needed",
);
const URL: Parameter = Parameter::text(
    "url",
    "an address, as http://host:8080/path",
    "address to which the JSON document is posted for each output; only http; for https, command=curl with --data-binary @-",
);
const TIMEOUT: Parameter = Parameter::time(
    "timeout",
    Duration::from_secs(60),
    Unit::Seconds,
    "longest time of one command or request; then it is killed with all processes that it started",
)
.lasting(Duration::from_millis(1), LONGEST);
const LOG: Parameter = Parameter::text(
    "log",
    "a file, or no",
    "log file with each command, its result and the end of its error output; no: no log",
)
.or_else("GROUP.trigger.log beside the output");
const WAITING: Parameter = Parameter::count(
    "waiting",
    100,
    "largest number of outputs that wait for their turn; further outputs are skipped and logged as skipped",
);
const AT_END: Parameter = Parameter::time(
    "at_end",
    Duration::from_secs(60),
    Unit::Seconds,
    "how long finalize waits for commands that still run or wait; then they are killed, or not started",
)
.or_else("as timeout");

fn job(parameters: &Parameters) -> Result<Action> {
    let config = |what: String| Err(Error::new(ErrorKind::Config, what));
    match (parameters.text(&COMMAND).map(str::trim), parameters.text(&URL).map(str::trim)) {
        (Some(command), None) if command.is_empty() || command.contains('\0') => {
            config(format!("parameter command: expected {}", COMMAND.expected()))
        }
        (Some(command), None) => Ok(Action::Command(command.to_string())),
        (None, Some(url)) => {
            let parsed = url.parse::<ureq::http::Uri>().ok();
            let host = parsed.as_ref().and_then(|uri| uri.host()).is_some_and(|host| !host.is_empty());
            match parsed.as_ref().and_then(|uri| uri.scheme_str()) {
                Some("http") if host => Ok(Action::Post(url.to_string())),
                Some("https") => config(format!(
                    "parameter url={url}: https is not spoken here; use http, or command=curl with --data-binary @-"
                )),
                _ => config(format!("parameter url={url}: expected {}", URL.expected())),
            }
        }
        (Some(_), Some(_)) => config("parameters command and url: one of the two, not both".into()),
        (None, None) => config("neither command nor url is given".into()),
    }
}

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    let timeout = parameters.get(&TIMEOUT)?;
    Ok(Box::new(Trigger {
        rules: Rules {
            action: job(parameters)?,
            timeout,
            waiting: parameters.get(&WAITING)?,
            at_end: parameters.get::<Option<Duration>>(&AT_END)?.unwrap_or(timeout),
        },
        log: match parameters.text(&LOG) {
            None => Log::Beside,
            Some("no" | "none" | "") => Log::Nowhere,
            Some(path) => Log::At(path.to_string()),
        },
        open: None,
        before: Vec::new(),
    }))
}

enum Log {
    Beside,
    Nowhere,
    At(String),
}

struct Trigger {
    rules: Rules,
    log: Log,
    open: Option<TriggerOutput>,
    before: Vec<Finished>,
}

/// State of an output, from open to close.
struct TriggerOutput {
    cache: Arc<Cache>,
    path: String,
    /// This method's own count of outputs, used if no preceding method stores the output.
    time_index: u32,
    counted: Option<null::Counted>,
}

impl Method for Trigger {
    fn name(&self) -> &'static str {
        "TRIGGER"
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let counted = null::count(request, "TRIGGER");
        let time_index = counted.time_index;
        let (cache, path) = (request.cache.clone(), request.path.to_string());
        self.open = Some(TriggerOutput { cache, path, time_index, counted: Some(counted) });
        Ok(Opened { time_index, first_time: 1, run: request.run, levels: Vec::new() })
    }

    fn at_once(&self, _: &Reach) -> Option<u64> {
        // No limit of its own: the storing methods decide.
        Some(0)
    }

    fn takes(&self) -> Takes {
        Takes::Nothing
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        Ok((&null::Nowhere, 0))
    }

    fn after(&mut self, finished: &[Finished]) {
        self.before = finished.to_vec();
    }

    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed> {
        let mut open = self.open.take().ok_or_else(not_open)?;
        open.counted.take().into_iter().for_each(null::Counted::close);
        let CloseRequest { comm, header, pack, failed } = request;
        let before = std::mem::take(&mut self.before);
        let broken = before.iter().find_map(|f| f.outcome.as_ref().err());
        if before.iter().any(Finished::lost_a_rank) {
            // A rank is missing: the summaries are not gathered.
            if comm.rank() == 0 {
                self.leave_out(&open, header, &before, "the output failed");
            }
            return failed.map_or(Ok(Closed::default()), Err);
        }
        let failure = failed.as_ref().map(Error::kind);
        let mut summary = caught("summarise the blocks", || Ok(Summary::of(pack, header.fortran, failure)))
            .unwrap_or_else(|e| Summary::of(pack, header.fortran, Some(e.kind())));
        let call = Gathering { tag: tags::TRIGGER, run: 0, time_index: self.step(&open, &before) as u32, attempt: 0 };
        let heard = tree_gather::gather(
            comm,
            tree::FAN_IN,
            call,
            &mut summary,
            |own, _, more| own.join(more),
            |own| own.encode(),
        )
        .and_then(|sent| sent.map_or(Ok(None), Request::wait));
        if comm.rank() == 0 {
            let failure = match (broken, &heard, summary.failed()) {
                (Some((_, what)), ..) => Some(format!("the output failed: {what}")),
                (None, Err(e), _) => Some(format!("no answer from other ranks: {e}")),
                (None, Ok(_), Some(kind)) => Some(format!("the output failed on a rank: {kind:?}")),
                (None, Ok(_), None) => None,
            };
            match failure {
                Some(why) => self.leave_out(&open, header, &before, &why),
                None => self.send(&open, header, &before, &summary, comm.size()),
            }
        } else if let Err(e) = heard {
            tracing::warn!("nothing is triggered: {e}");
        }
        failed.map_or(Ok(Closed::default()), Err)
    }
}

impl Trigger {
    fn step(&self, open: &TriggerOutput, before: &[Finished]) -> u64 {
        Finished::last_stored(before).map_or(u64::from(open.time_index.saturating_sub(1)), |f| f.step)
    }

    /// Key of the queue: jobs of a group and action run one after the other, independent of file names.
    fn line(&self, header: &Header) -> String {
        format!("{}\0{:?}", header.group, self.rules.action)
    }

    /// A job without document and environment.
    fn task(&self, open: &TriggerOutput, header: &Header, before: &[Finished]) -> Job {
        let path = Finished::last_stored(before).map_or(open.path.as_str(), |f| f.path.as_str());
        let log = match &self.log {
            Log::Nowhere => None,
            Log::At(path) => Some(path.clone()),
            Log::Beside => {
                let name: String = header.group.chars().map(|c| if c == '/' || c == '\0' { '_' } else { c }).collect();
                Some(format!("{}/{name}.trigger.log", folder_of(path)))
            }
        };
        Job { about: format!("{path} step {}", self.step(open, before)), log, ..Job::default() }
    }

    fn leave_out(&self, open: &TriggerOutput, header: &Header, before: &[Finished], why: &str) {
        let task = self.task(open, header, before);
        open.cache.of::<Jobs>().lock().leave_out(&self.line(header), &self.rules, task, why);
    }

    fn send(&self, open: &TriggerOutput, header: &Header, before: &[Finished], summary: &Summary, ranks: u32) {
        let file = Finished::last_stored(before);
        let path = file.map_or(open.path.as_str(), |f| f.path.as_str());
        let step = self.step(open, before);
        let document = json!({
            "output": path,
            "group": header.group,
            "step": step,
            "method": file.map(|f| f.method),
            "bytes": file.map(|f| f.outcome.as_ref().copied().unwrap_or(0)),
            "ranks": ranks,
            "folder": std::env::current_dir().ok().map(|folder| folder.display().to_string()),
            "variables": summary.to_json(),
        });
        let task = Job {
            document: document.to_string().into_bytes(),
            environment: vec![
                ("THALWEG_OUTPUT", path.to_string()),
                ("THALWEG_GROUP", header.group.clone()),
                ("THALWEG_STEP", step.to_string()),
            ],
            ..self.task(open, header, before)
        };
        open.cache.of::<Jobs>().lock().send(&self.line(header), &self.rules, task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked_before_anything_runs() {
        let with = |pairs: &[(&str, &str)]| make(&pairs.iter().copied().collect()).map(|_| ());
        for good in [
            &[("command", "true")][..],
            &[("command", "a b | c"), ("timeout", "5min"), ("log", "x.log"), ("waiting", "3"), ("at_end", "0")],
            &[("url", "http://localhost:80/x?a=b"), ("timeout", "0.5")],
        ] {
            with(good).unwrap();
        }
        for (wrong, says) in [
            (&[][..], "neither command nor url"),
            (&[("command", "")], "expected a command"),
            (&[("command", "true"), ("url", "http://a/")], "not both"),
            (&[("url", "https://a/")], "https"),
            (&[("url", "localhost")], "expected an address"),
            (&[("url", "ftp://a/")], "expected an address"),
            (&[("command", "true"), ("timeout", "soon")], "timeout=soon"),
            (&[("command", "true"), ("timeout", "0")], "timeout"),
            (&[("command", "true"), ("timeout", "-1")], "timeout"),
            (&[("command", "true"), ("at_end", "1e300")], "at_end"),
            (&[("command", "true"), ("waiting", "many")], "waiting"),
        ] {
            let e = with(wrong).unwrap_err();
            assert!(e.kind() == ErrorKind::Config && e.what().contains(says), "{wrong:?}: {e}");
        }
    }
}
