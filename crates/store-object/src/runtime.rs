//! The runtime of the asynchronous clients: two threads, shared by all stores of the process until it ends.

use std::future::Future;
use std::sync::OnceLock;
use thalweg_types::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Runtime};

struct Ours {
    process: u32,
    runtime: Runtime,
}

static OURS: OnceLock<std::result::Result<Ours, std::io::ErrorKind>> = OnceLock::new();

/// The runtime, for clients that start tasks of their own.
///
/// # Errors
/// `Unsupported` in a process that was forked from one with a runtime, as it lacks the threads; `Io` if threads cannot be started.
pub fn runtime() -> Result<&'static Runtime> {
    let ours = OURS.get_or_init(|| {
        let built = Builder::new_multi_thread().worker_threads(2).thread_name("thalweg-store").enable_all().build();
        built.map(|runtime| Ours { process: std::process::id(), runtime }).map_err(|e| e.kind())
    });
    match ours {
        Ok(ours) if ours.process == std::process::id() => Ok(&ours.runtime),
        Ok(_) => Err(Error::new(
            ErrorKind::Unsupported,
            "a far store was opened before this process forked; open it again after exec, or in the parent",
        )),
        Err(kind) => Err(Error::io("cannot start the threads of a far store", (*kind).into())),
    }
}

/// Waits for a future, in any thread, also in a thread of another runtime.
///
/// # Errors
/// As [`runtime`].
pub fn run<F: Future>(future: F) -> Result<F::Output> {
    let _within = runtime()?.enter();
    Ok(pollster::block_on(future))
}

/// As [`run`], for a future whose parts come one by one: it is polled by the runtime's own threads, and the caller wakes once, at its end,
/// not for each part.
///
/// # Errors
/// As [`runtime`]; `Io` where the future was given up.
/// # Panics
/// As the future.
pub fn run_apart<F>(future: F) -> Result<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    match pollster::block_on(runtime()?.spawn(future)) {
        Ok(output) => Ok(output),
        Err(e) => match e.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(e) => Err(Error::new(ErrorKind::Io, format!("a request was given up: {e}"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn futures_run_within_another_runtime_too() {
        let other = Builder::new_current_thread().build().unwrap();
        let nap = || async { tokio::time::sleep(std::time::Duration::from_millis(1)).await };
        other.block_on(async { run(nap()).unwrap() });
        run(nap()).unwrap();
    }

    #[test]
    fn futures_are_run_apart_and_their_panics_are_the_callers() {
        let caller = std::thread::current().id();
        assert_ne!(run_apart(async { std::thread::current().id() }).unwrap(), caller);
        let panics = || run_apart(async { panic!("as the future") });
        assert_eq!(*std::panic::catch_unwind(panics).unwrap_err().downcast::<&str>().unwrap(), "as the future");
    }
}
