//! Messages of the library for a program with a handler of its own.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;
use thalweg_warnings::{Hearer, Level};

/// `thalweg_message_handler`.
type Handler = unsafe extern "C" fn(level: c_int, text: *const c_char, context: *mut c_void);

/// The context pointer of the handler.
struct Context(*mut c_void);

// SAFETY: the pointer is the program's; it promises in `thalweg.h` that its handler may be called by any thread.
unsafe impl Send for Context {}
// SAFETY: as above; nothing here follows the pointer.
unsafe impl Sync for Context {}

/// The numbers of `thalweg_message_level`.
fn number(level: Level) -> c_int {
    match level {
        Level::Warn => 1,
        Level::Info => 2,
        Level::Debug => 3,
    }
}

/// Gives messages to the program; without a handler they go to the standard error stream.
///
/// # Safety
/// `handler` is a function of this kind, which any thread may call with `context` as long as it is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_set_message_handler(handler: Option<Handler>, context: *mut c_void) {
    let context = Context(context);
    let hearer = handler.map(|handler| -> Hearer {
        Arc::new(move |level, text: &str| {
            let context: &Context = &context;
            let text = CString::new(text.replace('\0', "")).unwrap_or_default();
            // SAFETY: as the caller of `thalweg_set_message_handler` promised; the text lives until the handler returns.
            unsafe { handler(number(level), text.as_ptr(), context.0) }
        })
    });
    thalweg_warnings::hear(hearer);
}
