//! Creates the layouts of mounts. Stores on other machines are reached through the daemon of this machine, so that an
//! unmodified program gets neither threads nor a runtime of ours.

use std::sync::Arc;
use thalweg_layout::Layout;
use thalweg_mounts::table::{self as mounts, Entry};
use thalweg_remote::Remote;
use thalweg_remote::transport::unix::Socket;

/// Creates the layout of a mount; the error gives the reason why this is not possible.
pub fn layout(entry: &Entry) -> Result<Arc<dyn Layout>, String> {
    match entry.is_far() {
        false => mounts::make_now(entry),
        true => remote(entry),
    }
}

fn remote(entry: &Entry) -> Result<Arc<dyn Layout>, String> {
    let socket = Socket::at(&thalweg_remote::default_socket());
    match Remote::over(Arc::new(socket), &entry.path) {
        Ok(remote) => Ok(Arc::new(remote)),
        Err(e) => Err(e.to_string()),
    }
}
