//! The drain of a mount's burst buffers that starts by itself: when an object is closed, a process of its own moves it on.
//!
//! | question | answer |
//! |----------|--------|
//! | when     | after each close in the fast store, where nobody drains it now |
//! | who      | `thalweg drain STORE --behind`, a process in a session of its own; never a thread of the program |
//! | how many | one for each fast store, so for each node and mount: the lock of the drain |
//! | ends     | when nothing closed has been waiting for [`IDLE`]; a store that fails is asked again for [`PATIENCE`] |
//! | errors   | in the log in the fast store's own folder, which `thalweg drain STORE --status` shows |
//! | killed   | loses nothing; the next close starts another |
//! | off      | `drain = "manual"` in the mount table; or the variable [`VARIABLE`] is `manual` |
//! | fast stores without files | are drained by `thalweg drain` alone: no other process sees them |

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};
use thalweg_store::wrap::tiered::{OURS, Tiered};
use thalweg_store::{Lease, Store};
use thalweg_types::{Error, Result};

/// Keeps the drain from starting by itself where it is `manual`; for whole jobs and for tests.
pub const VARIABLE: &str = "THALWEG_DRAIN";
/// Names the `thalweg` command, where it is neither this process nor in `PATH`.
pub const COMMAND: &str = "THALWEG_COMMAND";
/// How long a drain that was started so stays when nothing closed waits.
pub const IDLE: Duration = Duration::from_secs(10);
/// How long it goes on trying where nothing can be moved.
pub const PATIENCE: Duration = Duration::from_secs(3600);
/// Bytes after which the log is begun anew; the one before is kept.
const LONGEST_LOG: u64 = 1 << 20;

/// The log of the drains of this burst buffer, where its fast store has files.
pub fn log_of(tiered: &Tiered) -> Option<PathBuf> {
    tiered.shadow().plain_file(&format!("{OURS}/log"))
}

/// Opens the log to write behind its end; one that has become long is begun anew.
///
/// # Errors
/// What the system says.
pub fn open_log(path: &Path) -> Result<File> {
    let failed = |e| Error::io("cannot open the drain's log", e).in_object(path.display().to_string());
    if std::fs::metadata(path).is_ok_and(|about| about.len() > LONGEST_LOG) {
        let _ = std::fs::rename(path, path.with_extension("old"));
    }
    OpenOptions::new().create(true).append(true).open(path).map_err(failed)
}

/// Lets the drain of a burst buffer start after each close.
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

/// The time, as the log has it: seconds since 1970.
pub fn moment() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:03}", since.as_secs(), since.subsec_millis())
}

/// Starts the drain unless one is at work.
fn start(shadow: &dyn Store, url: &str, log: &Path) -> Result<()> {
    // Of many that close at once one starts it; what the others closed is there when it first looks.
    let Some(_starting) = free(shadow, "starting")? else { return Ok(()) };
    match free(shadow, "drain")? {
        Some(nobody) => drop(nobody),
        None => return Ok(()),
    }
    let failed = |e| Error::io("cannot start thalweg drain", e);
    let mut starting = Command::new(command())
        .args(["drain", url, "--behind"])
        // The drain is no program of the mounts.
        .env_remove("LD_PRELOAD")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(open_log(log)?)
        .spawn()
        .map_err(failed)?;
    // It puts the drain into a session of its own and ends at once. A program that waits for any child may have had it.
    let _ = starting.wait();
    Ok(())
}

fn free(shadow: &dyn Store, what: &str) -> Result<Option<Lease>> {
    shadow.lock(&format!("{OURS}/{what}"), false)
}

fn command() -> PathBuf {
    if let Some(named) = std::env::var_os(COMMAND).filter(|named| !named.is_empty()) {
        return named.into();
    }
    let own = std::env::current_exe().ok().filter(|own| own.file_name().is_some_and(|name| name == "thalweg"));
    own.unwrap_or_else(|| "thalweg".into())
}
