//! `thalweg view`: small files that let tools of other formats read the values in place.

use crate::arguments::{ViewHdf5, ViewVtk, ViewZarr};
use crate::converter::{Program, SAFE, replace, unwritten};
use crate::file;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Terminal, complain, plain};
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use thalweg_report::text::count;
use thalweg_types::{Error, ErrorKind};
use thalweg_views::LeftOut;
use thalweg_views::hdf5::{Plan, View};

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
    replace(target, |made| planned(&view.plan, made.path(), target))?;
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
fn planned(plan: &Plan, file: &Path, target: &Path) -> Result<(), Failure> {
    let arguments = [OsStr::new("hdf5"), file.as_os_str(), target.as_os_str()];
    let program = Program::start("views for HDF5 and VTK are written", &arguments, target)?;
    program.ask(plan, &mut |_| {})
}
