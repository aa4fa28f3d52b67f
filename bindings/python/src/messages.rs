//! Messages of the library for Python's `logging`.
//!
//! | question | answer |
//! |----------|--------|
//! | who calls Python | a thread of its own, begun with the first message: whoever says something may hold locks, and a thread that holds Python's waits for nobody here |
//! | order | that in which they were said |
//! | at the end | [`flush_messages`], which the package calls when the interpreter ends |
//! | fork | a child begins a thread of its own |

use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use thalweg_types::mutex::Mutex;
use thalweg_warnings::Level;

/// How long the end of the interpreter waits for what is on its way.
const PATIENCE: Duration = Duration::from_secs(2);

enum Said {
    Message(Level, String),
    /// All before has been told.
    Flush(Sender<()>),
}

/// The process that has the thread, and the way to it.
static WAY: Mutex<Option<(u32, Sender<Said>)>> = Mutex::new(None);

fn send(handler: &Arc<Py<PyAny>>, said: Said) {
    let mut way = WAY.lock();
    let own = std::process::id();
    if way.as_ref().is_none_or(|(process, _)| *process != own) {
        let (sender, receiver) = channel::<Said>();
        let handler = handler.clone();
        let begun = std::thread::Builder::new().name("thalweg-messages".into()).spawn(move || {
            for said in receiver {
                match said {
                    Said::Message(level, text) => tell(&handler, level, &text),
                    Said::Flush(done) => drop(done.send(())),
                }
            }
        });
        if begun.is_err() {
            return;
        }
        *way = Some((own, sender));
    }
    if let Some((_, sender)) = &*way {
        let _ = sender.send(said);
    }
}

fn tell(handler: &Py<PyAny>, level: Level, text: &str) {
    // The numbers of Python's `logging`.
    let number = match level {
        Level::Warn => 30,
        Level::Info => 20,
        Level::Debug => 10,
    };
    // Nobody is left to tell once the interpreter ends.
    let _ = Python::try_attach(|py| {
        if let Err(e) = handler.call1(py, (number, text)) {
            e.write_unraisable(py, None);
        }
    });
}

/// From now on messages go to `handler(level, text)`, level a number of `logging`.
#[pyfunction]
pub fn hear_messages(handler: Py<PyAny>) {
    let handler = Arc::new(handler);
    thalweg_warnings::hear(Some(Arc::new(move |level, text: &str| {
        send(&handler, Said::Message(level, text.to_string()));
    })));
}

/// Waits, for two seconds at most, until all messages were told; messages go to the standard error stream from then on.
#[pyfunction]
pub fn flush_messages(py: Python<'_>) {
    thalweg_warnings::hear(None);
    py.detach(|| {
        let way = WAY.lock();
        let Some((process, sender)) = &*way else { return };
        let (done, told) = channel();
        if *process == std::process::id() && sender.send(Said::Flush(done)).is_ok() {
            let _ = told.recv_timeout(PATIENCE);
        }
    });
}
