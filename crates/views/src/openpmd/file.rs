//! The files of a view for openPMD: `NAME.openpmd.bp`, and the folder `NAME.openpmd.bp.dir` with links to the files that have the blocks.
//!
//! | question | answer |
//! |---|---|
//! | what readers see meanwhile | the view before, or this one: links are made first, and the file takes its name when it is whole |
//! | what is never replaced | files in the folder that are no links: it is then that of another BP file |
//! | what may be moved | view, folder and data together: links are relative |

use super::view::View;
use crate::place::seen_from;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind as Cause};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use thalweg_types::{Error, ErrorKind, Result};

/// What a failure leaves as it was.
const SAFE: &str = "the data, and an earlier file of this name";

/// The name of a file's view.
pub fn beside(file: &Path) -> PathBuf {
    file.with_extension("openpmd.bp")
}

/// Writes a view.
///
/// - `target`: its name, which ends with `.bp`.
///
/// # Errors
/// `InvalidArgument` for another name, or if the folder of this name is that of another BP file; failures of the file system.
pub fn write(view: &View, target: &Path) -> Result<()> {
    let told = |e: Error| e.in_object(target.to_string_lossy()).safe(SAFE);
    if target.extension().is_none_or(|ending| ending != "bp") {
        let what = "programs of openPMD know a BP file by its name, which ends with .bp";
        return Err(told(Error::new(ErrorKind::InvalidArgument, what)));
    }
    link(target, &view.files).map_err(told)?;
    let new = target.with_file_name(format!(".thalweg-new-{}", std::process::id()));
    let written = fs::write(&new, &view.index).and_then(|()| fs::rename(&new, target));
    written.map_err(|e| {
        let _ = fs::remove_file(&new);
        told(failed(e))
    })
}

fn failed(cause: io::Error) -> Error {
    Error::io("cannot write the view for openPMD", cause)
}

/// The folder of a file, without links: these would make `..` lead elsewhere.
fn folder_of(path: &Path) -> Result<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.canonicalize().map_err(failed)
}

/// Makes the subfiles of a view.
///
/// - `files`: the file of each, by its number.
fn link(target: &Path, files: &BTreeMap<u32, String>) -> Result<()> {
    let named = |ending: &str| -> OsString {
        let mut name = target.file_name().unwrap_or_default().to_os_string();
        name.push(ending);
        name
    };
    let folder = target.with_file_name(named(".dir"));
    match fs::create_dir(&folder) {
        Err(e) if e.kind() == Cause::AlreadyExists => {}
        made => made.map_err(failed)?,
    }
    let folder = folder.canonicalize().map_err(failed)?;
    let mut stale = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_type().map_err(failed)?.is_symlink() {
            let what = format!("'{}' is the folder of another BP file", folder.display());
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        stale.push(entry.path());
    }
    for (number, file) in files {
        let file = Path::new(file);
        let absolute = folder_of(file)?.join(file.file_name().unwrap_or_default());
        let (link, leads_to) = (folder.join(named(&format!(".{number}"))), seen_from(&folder, &absolute));
        stale.retain(|path| *path != link);
        if fs::read_link(&link).is_ok_and(|known| known == leads_to) {
            continue;
        }
        let new = folder.join(format!(".thalweg-new-{}", std::process::id()));
        symlink(&leads_to, &new).and_then(|()| fs::rename(&new, &link)).map_err(|e| {
            let _ = fs::remove_file(&new);
            failed(e)
        })?;
    }
    // Nobody looks for links that are not listed.
    stale.iter().for_each(|path| drop(fs::remove_file(path)));
    Ok(())
}
