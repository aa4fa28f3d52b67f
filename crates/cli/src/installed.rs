//! Where an installation keeps what belongs to this command: libraries, and the program that writes HDF5 views.
//!
//! | folder | of |
//! |---|---|
//! | the command's own | a build |
//! | `../libexec/thalweg/lib` | an installation; a link to the folder of its libraries, which may be `lib64` |
//! | `../lib` | an installation without that link |

use std::io;
use std::path::{Path, PathBuf};
use thalweg_types::abi::ABI;

/// The folder of this command.
pub fn own_folder() -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.parent().unwrap_or(Path::new("/")).to_owned())
}

/// The name of a library, such as `thalweg-openmpi`, that belongs to this command.
pub fn library_name(library: &str) -> String {
    format!("lib{library}.so.{ABI}")
}

/// The folders in which libraries of this installation may lie, the first one to be searched first.
pub fn library_folders() -> io::Result<Vec<PathBuf>> {
    let own = own_folder()?;
    Ok(vec![own.clone(), own.join("../libexec/thalweg/lib"), own.join("../lib")])
}
