//! A file that one rank makes, or replaces, and others then open.
//!
//! A layout may show a file only once it is published (`small_file`). Until then another process does not find it; and what others publish in
//! a file before the rank that replaces it has published its open is replaced, too, without an error.

use crate::method::OpenRequest;
use thalweg_layout::WriteObject;
use thalweg_types::Result;

/// Shows the other ranks a file that this rank has just made or replaced. They open it afterwards.
///
/// # Errors
/// Errors of the store.
/// # Cost
/// That of [`WriteObject::publish`]: none where bytes are visible at once. None for a single rank.
pub fn show(request: &OpenRequest<'_>, object: &dyn WriteObject) -> Result<()> {
    if request.comm.size() > 1 { object.publish() } else { Ok(()) }
}
