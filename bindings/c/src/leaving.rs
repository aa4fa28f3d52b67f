//! Sessions that a program leaves open when it exits: their files get the full index of all closed steps, so that every reader
//! can open them. Steps in flight are dropped; no rank waits for another, and no function of MPI is called.
//!
//! If that fails, or if layouts cannot close what they keep open between calls, bytes may be lost although the program's writes
//! succeeded: a line on standard error reports it, and a process that would exit with 0 exits with 1.
//!
//! A process that ends by a signal or `_exit` skips this: its files are readable by Thalweg, and by others after `thalweg
//! recover`. A child made by `fork` does not change the files of its parent.

use std::sync::{Arc, Once, Weak};
use thalweg_exit_status::record_loss;
use thalweg_io::Session;
use thalweg_types::mutex::Mutex;

struct Watched {
    process: u32,
    session: Weak<Session>,
    drop_outputs: Box<dyn FnOnce() + Send>,
}

static WATCHED: Mutex<Vec<Watched>> = Mutex::new(Vec::new());
static AT_EXIT: Once = Once::new();

/// Registers a session to be ended at exit, if it still exists then.
///
/// - `drop_outputs`: drops its open outputs.
pub fn watch(session: &Arc<Session>, drop_outputs: impl FnOnce() + Send + 'static) {
    let watched =
        Watched { process: std::process::id(), session: Arc::downgrade(session), drop_outputs: Box::new(drop_outputs) };
    let mut all = WATCHED.lock();
    all.retain(|w| w.session.strong_count() > 0);
    all.push(watched);
    drop(all);
    listen();
}

/// Registers the close of files and folders that mounts keep open between calls.
pub fn listen() {
    AT_EXIT.call_once(|| {
        // Functions run in the reverse order of their registration.
        thalweg_exit_status::watch();
        // SAFETY: the function takes no arguments and returns; if it cannot be registered, files stay as after a kill.
        #[allow(unsafe_code)]
        let _ = unsafe { libc::atexit(at_exit) };
    });
}

extern "C" fn at_exit() {
    // On a thread of its own, because `thread_local` values of this one may be gone already. A panic ends there too.
    let left = std::thread::Builder::new().spawn(leave_all);
    let _ = left.map(std::thread::JoinHandle::join);
}

fn leave_all() {
    let Some(mut all) = WATCHED.try_lock() else { return };
    let own = std::process::id();
    for Watched { session, drop_outputs, .. } in all.drain(..).filter(|w| w.process == own) {
        // Taken first, so that it is ended even if an output was its last user.
        let Some(session) = session.upgrade() else { continue };
        drop_outputs();
        if let Err(e) = session.leave() {
            eprintln!("thalweg: closing files that the program left open: {e}");
            record_loss();
        }
    }
    if let Err(e) = thalweg_io::mounts::finish() {
        eprintln!("thalweg: cannot close files at the end of the process: {e}");
        record_loss();
    }
}
