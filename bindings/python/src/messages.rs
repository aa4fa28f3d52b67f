//! Delivery of the library's messages to Python's `logging`.
//!
//! | question | answer |
//! |----------|--------|
//! | which thread calls Python | a separate thread, started with the first message. The thread that emits a message may hold locks of the library, so it must not wait for the GIL; a thread that holds the GIL waits for no lock here |
//! | order | messages are delivered in the order in which they were emitted |
//! | at interpreter exit | the package calls [`flush_messages`] |
//! | fork | a child process starts its own thread |

use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use thalweg_types::mutex::Mutex;
use thalweg_warnings::Level;

/// Longest time that interpreter exit waits for undelivered messages.
const PATIENCE: Duration = Duration::from_secs(2);

/// An entry of the thread's queue.
enum QueueItem {
    Message(Level, String),
    /// Request for a reply when all earlier messages are delivered.
    Flush(Sender<()>),
}

/// The process that started the thread, and the thread's queue.
static SENDER: Mutex<Option<(u32, Sender<QueueItem>)>> = Mutex::new(None);

fn send(handler: &Arc<Py<PyAny>>, item: QueueItem) {
    let mut current = SENDER.lock();
    let own = std::process::id();
    if current.as_ref().is_none_or(|(process, _)| *process != own) {
        let (sender, receiver) = channel::<QueueItem>();
        let handler = handler.clone();
        let begun = std::thread::Builder::new().name("thalweg-messages".into()).spawn(move || {
            for item in receiver {
                match item {
                    QueueItem::Message(level, text) => tell(&handler, level, &text),
                    QueueItem::Flush(done) => drop(done.send(())),
                }
            }
        });
        if begun.is_err() {
            return;
        }
        *current = Some((own, sender));
    }
    if let Some((_, sender)) = &*current {
        let _ = sender.send(item);
    }
}

fn tell(handler: &Py<PyAny>, level: Level, text: &str) {
    // The level numbers of Python's `logging`.
    let number = match level {
        Level::Warn => 30,
        Level::Info => 20,
        Level::Debug => 10,
    };
    // After the end of the interpreter, messages are dropped.
    let _ = Python::try_attach(|py| {
        if let Err(e) = handler.call1(py, (number, text)) {
            e.write_unraisable(py, None);
        }
    });
}

/// Delivers all further messages to `handler(level, text)`; `level` is a level number of `logging`.
#[pyfunction]
pub fn hear_messages(handler: Py<PyAny>) {
    let handler = Arc::new(handler);
    thalweg_warnings::hear(Some(Arc::new(move |level, text: &str| {
        send(&handler, QueueItem::Message(level, text.to_string()));
    })));
}

/// Waits at most two seconds until all messages are delivered. Later messages are written to the standard error stream.
#[pyfunction]
pub fn flush_messages(py: Python<'_>) {
    thalweg_warnings::hear(None);
    py.detach(|| {
        let current = SENDER.lock();
        let Some((process, sender)) = &*current else { return };
        let (done, told) = channel();
        if *process == std::process::id() && sender.send(QueueItem::Flush(done)).is_ok() {
            let _ = told.recv_timeout(PATIENCE);
        }
    });
}
