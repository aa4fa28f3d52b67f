//! `thalweg view`: small files that let tools of other formats read the values in place.

use crate::arguments::{ViewHdf5, ViewVtk, ViewZarr};
use crate::file;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Terminal, complain, plain};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use thalweg_report::text::count;
use thalweg_types::{Error, ErrorKind};
use thalweg_views::LeftOut;
use thalweg_views::hdf5::{Plan, View};

/// The program that is linked with the libraries of other formats.
const CONVERT: &str = "thalweg-convert";

pub fn zarr(arguments: &ViewZarr, out: &mut Terminal) -> Result<Outcome, Failure> {
    let target = arguments.output.clone().unwrap_or_else(|| arguments.file.with_extension("zarr.json"));
    file::not_itself(&arguments.file, &target, "its view")?;
    let reader = file::open(&arguments.file, None)?;
    let view = thalweg_views::zarr::references(&reader, arguments.at.as_deref())?;
    replace(&target, |file| file.write_all(&view.json).map_err(|e| unwritten(&target, e).into()))?;
    tell(&arguments.file, &target, view.arrays, view.references, &view.left_out, out)
}

pub fn hdf5(arguments: &ViewHdf5, out: &mut Terminal) -> Result<Outcome, Failure> {
    let target = arguments.output.clone().unwrap_or_else(|| arguments.file.with_extension("h5"));
    file::not_itself(&arguments.file, &target, "its view")?;
    let reader = file::open(&arguments.file, None)?;
    in_hdf5(&arguments.file, &target, thalweg_views::hdf5::view(&reader)?, arguments.relative, out)
}

pub fn vtk(arguments: &ViewVtk, out: &mut Terminal) -> Result<Outcome, Failure> {
    let target = arguments.output.clone().unwrap_or_else(|| arguments.file.with_extension("vtkhdf"));
    file::not_itself(&arguments.file, &target, "its view")?;
    let reader = file::open(&arguments.file, None)?;
    let view = thalweg_views::vtk::view(&reader, arguments.mesh.as_deref())?;
    in_hdf5(&arguments.file, &target, view, arguments.relative, out)
}

/// Writes a view that is an HDF5 file.
fn in_hdf5(
    file: &Path,
    target: &Path,
    mut view: View,
    is_relative: bool,
    out: &mut Terminal,
) -> Result<Outcome, Failure> {
    if is_relative {
        relate(&mut view.plan, target)?;
    }
    replace(target, |made| converted(&view.plan, made.path(), target))?;
    let outcome = tell(file, target, view.arrays, view.blocks, &view.left_out, out)?;
    if is_relative {
        writeln!(out, "programs that read it need the environment variable HDF5_EXTFILE_PREFIX='${{ORIGIN}}'")?;
    }
    Ok(outcome)
}

/// Makes the names of data files relative to the folder of the view.
fn relate(plan: &mut Plan, target: &Path) -> Result<(), Failure> {
    // Links to folders would make `..` lead elsewhere.
    let real = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        folder.canonicalize().map_err(|e| unwritten(target, e))
    };
    let folder = real(target)?;
    for file in &mut plan.files {
        let path = Path::new(file.as_str());
        let absolute = real(path)?.join(path.file_name().unwrap_or_default());
        let seen = thalweg_views::place::seen_from(&folder, &absolute);
        let text = seen.to_str().ok_or_else(|| {
            let what = format!("a relative view needs names in UTF-8, which '{}' is not", seen.display());
            Error::new(ErrorKind::Unsupported, what).safe(SAFE)
        })?;
        *file = text.to_string();
    }
    Ok(())
}

/// Says what was written, and what is not shown.
fn tell(
    file: &Path,
    target: &Path,
    arrays: u64,
    blocks: u64,
    left_out: &[LeftOut],
    out: &mut Terminal,
) -> Result<Outcome, Failure> {
    let (of, shown) = (plain(&file.display().to_string()), plain(&target.display().to_string()));
    writeln!(out, "{shown}: {} of {of}, {} in place", count(arrays, "array"), count(blocks, "block"))?;
    for LeftOut { name, why } in left_out {
        complain("thalweg", &format!("not shown: {}: {}", plain(name), plain(why)));
    }
    Ok(if arrays == 0 && !left_out.is_empty() { Outcome::No } else { Outcome::Done })
}

/// Writes the HDF5 file of a plan with the program that is linked with HDF5.
///
/// - `target`: the name that the file will have, for messages.
fn converted(plan: &Plan, file: &Path, target: &Path) -> Result<(), Failure> {
    let program = convert_program();
    let mut running = Command::new(&program).arg("hdf5").arg(file).stdin(Stdio::piped()).spawn().map_err(|e| {
        let what = match e.kind() {
            io::ErrorKind::NotFound => format!(
                "views for HDF5 and VTK are written by the program {CONVERT}, which is neither beside thalweg nor in PATH; it is installed \
                 with thalweg where HDF5 is (Debian: libhdf5-dev)"
            ),
            _ => format!("cannot start '{}'", program.display()),
        };
        Error::io(what, e)
    })?;
    let mut plan_text = BufWriter::new(running.stdin.take().expect("a pipe was asked for"));
    let sent = serde_json::to_writer(&mut plan_text, plan).map_err(io::Error::from).and_then(|()| plan_text.flush());
    drop(plan_text);
    let ended = running.wait().map_err(|e| unwritten(target, e))?;
    if !ended.success() {
        // The program has said why.
        let what = format!("cannot write '{}': {CONVERT} failed ({ended})", target.display());
        return Err(Error::new(ErrorKind::Io, what).safe(SAFE).into());
    }
    sent.map_err(|e| unwritten(target, e).into())
}

/// The program beside this one; else its name, which is looked for in PATH.
fn convert_program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(CONVERT));
    beside.filter(|program| program.is_file()).unwrap_or_else(|| CONVERT.into())
}

/// What a failure leaves as it was.
const SAFE: &str = "the data, and an earlier view file of this name";

fn unwritten(target: &Path, cause: io::Error) -> Error {
    Error::io(format!("cannot write '{}'", target.display()), cause).safe(SAFE)
}

/// Writes a file under another name, and gives it its name: readers of an older view see it whole, before and after.
fn replace(
    target: &Path,
    write: impl FnOnce(&mut tempfile::NamedTempFile<File>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = tempfile::Builder::new().prefix(".thalweg-view-").permissions(mode()).tempfile_in(folder);
    let mut file = made.map_err(|e| unwritten(target, e))?;
    write(&mut file)?;
    file.persist(target).map_err(|e| unwritten(target, e.error))?;
    Ok(())
}

/// As for other new files: the umask is subtracted when the file is made.
fn mode() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    std::fs::Permissions::from_mode(0o666)
}
