//! Automatic draining of a mount's burst buffers: after an object is closed, a separate process moves it to the canonical store.
//!
//! | question | answer |
//! |----------|--------|
//! | when     | after each close in the fast store, unless a drain is running |
//! | who      | `thalweg drain STORE --behind`, a process in its own session; never a thread of the program |
//! | how many | one per fast store, that is per node and mount: the drain takes a lock |
//! | ends     | after [`IDLE`] without closed objects to move; a failing store is retried for [`PATIENCE`] |
//! | errors   | in the log in the fast store's own folder, which `thalweg drain STORE --status` shows |
//! | killed   | nothing is lost; the next close starts another drain |
//! | off      | `drain = "manual"` in the mount table; or the variable [`VARIABLE`] is `manual` |
//! | fast stores without files | only `thalweg drain` drains them: no other process sees them |

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};
use thalweg_store::wrap::tiered::{OURS, Tiered};
use thalweg_store::{Lease, Store};
use thalweg_types::{Error, Result};

/// Environment variable: `manual` disables automatic draining, for whole jobs and for tests.
pub const VARIABLE: &str = "THALWEG_DRAIN";
/// Environment variable: path of the `thalweg` command, if it is neither this process nor in `PATH`.
pub const COMMAND: &str = "THALWEG_COMMAND";
/// How long an automatic drain stays without closed objects to move.
pub const IDLE: Duration = Duration::from_secs(10);
/// How long it retries while nothing can be moved.
pub const PATIENCE: Duration = Duration::from_secs(3600);
/// Size in bytes at which the log is rotated; one old log is kept.
const LONGEST_LOG: u64 = 1 << 20;

/// The log of this burst buffer's drains, if its fast store has files.
pub fn log_of(tiered: &Tiered) -> Option<PathBuf> {
    tiered.shadow().plain_file(&format!("{OURS}/log"))
}

/// Opens the log for appending; rotates a long one.
///
/// # Errors
/// Errors of the system's `open`.
pub fn open_log(path: &Path) -> Result<File> {
    let failed = |e| Error::io("cannot open the drain's log", e).in_object(path.display().to_string());
    if std::fs::metadata(path).is_ok_and(|about| about.len() > LONGEST_LOG) {
        let _ = std::fs::rename(path, path.with_extension("old"));
    }
    OpenOptions::new().create(true).append(true).open(path).map_err(failed)
}

/// Starts the drain of a burst buffer after each close.
pub fn after_close(tiered: &Tiered, url: &str) {
    if std::env::var_os(VARIABLE).is_some_and(|how| how == "manual") {
        return;
    }
    let Some(log) = log_of(tiered) else { return };
    let (shadow, url) = (tiered.shadow().clone(), url.to_string());
    tiered.after_close(move || {
        if let Err(why) = start(&*shadow, &url, &log)
            && let Ok(mut log) = open_log(&log)
        {
            let _ = writeln!(log, "{} not started: {why}", moment());
        }
    });
}

/// The current time in the log's format: seconds since 1970.
pub fn moment() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:03}", since.as_secs(), since.subsec_millis())
}

/// Starts the drain unless one is running.
fn start(shadow: &dyn Store, url: &str, log: &Path) -> Result<()> {
    // Of many concurrent closes one starts the drain, which finds the objects of all.
    let Some(_starting) = free(shadow, "starting")? else { return Ok(()) };
    match free(shadow, "drain")? {
        Some(nobody) => drop(nobody),
        None => return Ok(()),
    }
    let failed = |e| Error::io("cannot start thalweg drain", e);
    let mut starting = Command::new(command())
        .args(["drain", url, "--behind"])
        // The drain must not use the mounts itself.
        .env_remove("LD_PRELOAD")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(open_log(log)?)
        .spawn()
        .map_err(failed)?;
    // The command starts the drain in its own session and ends immediately. A program that waits for any child may have reaped it.
    let _ = starting.wait();
    Ok(())
}

fn free(shadow: &dyn Store, what: &str) -> Result<Option<Lease>> {
    shadow.lock(&format!("{OURS}/{what}"), false)
}

/// The `thalweg` command: [`COMMAND`], this process, or one in `PATH`.
pub fn command() -> PathBuf {
    if let Some(named) = std::env::var_os(COMMAND).filter(|named| !named.is_empty()) {
        return named.into();
    }
    let own = std::env::current_exe().ok().filter(|own| own.file_name().is_some_and(|name| name == "thalweg"));
    own.unwrap_or_else(|| "thalweg".into())
}
