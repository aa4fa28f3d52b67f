//! `thalweg view`: small files that let tools of other formats read the values in place.

use crate::arguments::ViewZarr;
use crate::file;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Terminal, complain, plain};
use std::io::Write;
use std::path::Path;
use thalweg_report::text::count;
use thalweg_types::Error;
use thalweg_views::LeftOut;

pub fn zarr(arguments: &ViewZarr, out: &mut Terminal) -> Result<Outcome, Failure> {
    let target = arguments.output.clone().unwrap_or_else(|| arguments.file.with_extension("zarr.json"));
    file::not_itself(&arguments.file, &target, "its view")?;
    let reader = file::open(&arguments.file, None)?;
    let view = thalweg_views::zarr::references(&reader, arguments.at.as_deref())?;
    replace(&target, &view.json)?;
    let of = plain(&arguments.file.display().to_string());
    let shown = plain(&target.display().to_string());
    let (arrays, references) = (count(view.arrays, "array"), count(view.references, "block"));
    writeln!(out, "{shown}: {arrays} of {of}, {references} in place")?;
    for LeftOut { name, why } in &view.left_out {
        complain("thalweg", &format!("not shown: {}: {}", plain(name), plain(why)));
    }
    Ok(if view.arrays == 0 && !view.left_out.is_empty() { Outcome::No } else { Outcome::Done })
}

/// Writes a file under another name, and gives it its name: readers of an older view see it whole, before and after.
fn replace(target: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |e| {
        Error::io(format!("cannot write '{}'", target.display()), e)
            .safe("the data, and an earlier view file of this name")
    };
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || {
        let mut file = tempfile::Builder::new().prefix(".thalweg-view-").permissions(mode()).tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.persist(target).map_err(|e| e.error)?;
        Ok(())
    };
    write().map_err(|e| Failure::File(failed(e)))
}

/// As for other new files: the umask is subtracted when the file is made.
fn mode() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    std::fs::Permissions::from_mode(0o666)
}
