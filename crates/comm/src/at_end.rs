//! Work that needs the ranks' messages for the last time: before the library that carries them ends.
//!
//! MPI calls a function of ours at the beginning of `MPI_Finalize`, when all ranks are there or will come. `io` ends its outputs in flight
//! then, of programs that have not ended their sessions.

use thalweg_types::mutex::Mutex;

static WORK: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Registers work, once.
pub fn register(work: fn()) {
    let mut all = WORK.lock();
    if !all.iter().any(|other| std::ptr::fn_addr_eq(*other, work)) {
        all.push(work);
    }
}

/// Does all that was registered. For the library that carries messages, on the program's thread.
pub fn run() {
    let all = WORK.lock().clone();
    all.iter().for_each(|work| work());
}
