//! A file that a thread of its own serves, for programs that ask for one: ranks that compute for long without a call then delay nobody.
//!
//! | question | answer |
//! |---|---|
//! | which communicators | those of [`ThreadLevel::Multiple`] |
//! | what the thread does | [`File::progress`], in turns with the program's own calls; it sleeps up to a millisecond while nothing happens |
//! | callbacks | of [`File::on_complete`] run in the thread or in the program's calls |
//!
//! Without it no thread is started: see [`mod@crate::file`].

use crate::file::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use thalweg_comm::ThreadLevel;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// See the module's page.
pub struct Background {
    file: Arc<Mutex<Option<File>>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Whether a second thread may use a communicator.
fn allowed(level: ThreadLevel) -> Result<()> {
    if level == ThreadLevel::Multiple {
        return Ok(());
    }
    let what = format!("a thread that serves output windows needs an MPI initialised for any thread, not {level:?}");
    Err(Error::new(ErrorKind::Unsupported, what))
}

impl Background {
    /// Starts the thread. Not collective: any number of ranks may do so.
    ///
    /// # Errors
    /// `Unsupported` if the communicator is not for any thread, and the file is lost; the system's if it starts no thread.
    pub fn serve(file: File) -> Result<Background> {
        allowed(file.post.comm.thread_level()).map_err(|e| file.about(e))?;
        let (file, ends) = (Arc::new(Mutex::new(Some(file))), Arc::new(AtomicBool::new(false)));
        let (served, ended) = (file.clone(), ends.clone());
        let serve = move || {
            let mut nap = Duration::ZERO;
            while !ended.load(Ordering::Acquire) {
                let moved = served.lock().as_mut().is_some_and(File::progress);
                nap = if moved {
                    Duration::ZERO
                } else {
                    (nap + Duration::from_micros(50)).min(Duration::from_millis(1))
                };
                // Also after an event, so that the program's calls get their turn.
                std::thread::sleep(nap);
            }
        };
        let thread = std::thread::Builder::new().name("output windows".into()).spawn(serve);
        let thread = Some(thread.map_err(|e| Error::io("cannot start a thread for output windows", e))?);
        Ok(Background { file, ends, thread })
    }

    /// Makes calls on the file. The thread waits meanwhile; calls that wait serve as usual.
    ///
    /// # Panics
    /// Inside `calls` of another `with` of the same file.
    pub fn with<T>(&self, calls: impl FnOnce(&mut File) -> T) -> T {
        let mut file = self.file.lock();
        calls(file.as_mut().expect("the file is there until close"))
    }

    /// Collective: ends the thread and closes the file.
    ///
    /// # Errors
    /// As [`File::close`].
    pub fn close(mut self) -> Result<()> {
        self.end();
        let file = self.file.lock().take();
        file.map_or(Ok(()), File::close)
    }

    fn end(&mut self) {
        self.ends.store(true, Ordering::Release);
        // A panic of the thread is one of a callback, which has been printed.
        _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_communicators_for_any_thread_are_served_by_one() {
        assert!(allowed(ThreadLevel::Multiple).is_ok());
        for level in [ThreadLevel::Single, ThreadLevel::Funneled, ThreadLevel::Serialized] {
            assert_eq!(allowed(level).unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }
}
