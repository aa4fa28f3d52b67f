//! Panics become errors: who panics must not leave others waiting: ranks in the next collective call, clients for an answer.
//!
//! Each step that a rank takes alone, between collective calls, runs inside [`caught`], and the error is agreed on like any other failure of
//! a rank. So does each request that a server answers.

use crate::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; a panic in it becomes an error.
///
/// - `doing`: the step, as in "cannot `doing`".
///
/// After a panic, state that `work` was changing may be inconsistent: discard it, as after any other failure.
///
/// # Errors
/// Errors of `work`; `Io` with the panic's message.
pub fn caught<T>(doing: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
            (Some(message), _) => message,
            (_, Some(message)) => message.as_str(),
            _ => "no message",
        };
        Err(Error::new(ErrorKind::Io, format!("cannot {doing}: the program panicked: {message}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_own_message() {
        let e = caught::<()>("think", || panic!("{} things", 2)).unwrap_err();
        assert_eq!((e.kind(), e.what()), (ErrorKind::Io, "cannot think: the program panicked: 2 things"));
        assert_eq!(caught("think", || Ok(3)).unwrap(), 3);
    }
}
