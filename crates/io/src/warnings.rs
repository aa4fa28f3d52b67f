//! What a program should know although it goes on: on the standard error stream, each text once in a process.
//! `THALWEG_ERRORS=quiet` leaves it out.

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// Texts kept to be told once; a program that makes new ones for ever hears the later ones again.
const KEPT: usize = 4096;

static TOLD: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// Tells a text that was not told before.
pub fn tell_once(text: &str) {
    if std::env::var("THALWEG_ERRORS").is_ok_and(|v| v == "quiet") {
        return;
    }
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let told = told.get_or_insert_default();
    if told.len() < KEPT && !told.insert(text.to_string()) {
        return;
    }
    // In one piece, as several ranks share the stream; where it is closed there is nobody to tell.
    let _ = std::io::stderr().write_all(format!("thalweg: warning: {}\n", text.trim_end()).as_bytes());
}
