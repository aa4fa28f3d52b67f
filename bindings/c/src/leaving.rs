//! Sessions that a program leaves open when it exits: their files get the full index of all steps that were closed, so
//! that every reader opens them. Steps in flight are dropped; nobody is waited for, and no call into MPI is made.
//!
//! Where that fails, or what layouts keep open between calls cannot be ended, bytes that the program was told are written may be
//! lost: one line on standard error says so, and a process that would exit with 0 exits with 1.
//!
//! A process that dies by a signal or `_exit` does not come here: its files are readable by Thalweg, and by others after
//! `thalweg recover`. A child made by `fork` leaves the files of its parent alone.

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

/// Ends a session when the process exits, should it still be there.
///
/// - `drop_outputs`: drops what is open of it.
pub fn watch(session: &Arc<Session>, drop_outputs: impl FnOnce() + Send + 'static) {
    let watched =
        Watched { process: std::process::id(), session: Arc::downgrade(session), drop_outputs: Box::new(drop_outputs) };
    let mut all = WATCHED.lock();
    all.retain(|w| w.session.strong_count() > 0);
    all.push(watched);
    drop(all);
    listen();
}

/// Before the process exits its mounts end what they keep open between calls.
pub fn listen() {
    AT_EXIT.call_once(|| {
        // What is registered first is called last.
        thalweg_exit_status::watch();
        // SAFETY: the function takes nothing and returns; where it cannot be registered, files stay as after a kill.
        #[allow(unsafe_code)]
        let _ = unsafe { libc::atexit(at_exit) };
    });
}

extern "C" fn at_exit() {
    // On a thread of its own: what belongs to this one (`thread_local`) may be gone already. A panic ends there too.
    let left = std::thread::Builder::new().spawn(leave_all);
    let _ = left.map(std::thread::JoinHandle::join);
}

fn leave_all() {
    let Some(mut all) = WATCHED.try_lock() else { return };
    let own = std::process::id();
    for Watched { session, drop_outputs, .. } in all.drain(..).filter(|w| w.process == own) {
        // Taken first: where an output was the last to use it, it is ended all the same.
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
