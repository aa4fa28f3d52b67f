//! `thalweg view`: small files that let tools of other formats read the values in place.

use crate::arguments::{Following, References, ViewHdf5, ViewOpenpmd, ViewVtk, ViewZarr};
use crate::converter::{Program, SAFE, Staying, replace, replace_folder, unwritten};
use crate::file;
use crate::following::{Came, Follow};
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Terminal, complain, plain};
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use thalweg_convert::InFolder;
use thalweg_reader::Reader;
use thalweg_report::text::count;
use thalweg_types::{Error, ErrorKind};
use thalweg_views::LeftOut;
use thalweg_views::hdf5::{Plan, View};
use thalweg_views::openpmd;
use thalweg_views::zarr::tables::{Tabled, Tables};

pub fn zarr(arguments: &ViewZarr, out: &mut Terminal) -> Result<Outcome, Failure> {
    let ends =
        |ending: &str| arguments.output.as_ref().is_some_and(|name| name.extension() == Some(OsStr::new(ending)));
    let form = arguments.form.unwrap_or(match ends("parquet") || ends("parq") {
        true => References::Parquet,
        false => References::Json,
    });
    let named = |ending: &str| arguments.output.clone().unwrap_or_else(|| arguments.file.with_extension(ending));
    match form {
        References::Json => document(arguments, &named("zarr.json"), out),
        References::Parquet => tables(arguments, &named("zarr.parquet"), out),
    }
}

/// References as one document.
fn document(arguments: &ViewZarr, target: &Path, out: &mut Terminal) -> Result<Outcome, Failure> {
    let mut made = Made::new(&arguments.file, target)?;
    made.each(&arguments.following, out, &mut |made, reader, out| {
        let view = thalweg_views::zarr::references(reader, arguments.at.as_deref())?;
        replace(target, |file| file.write_all(&view.json).map_err(|e| unwritten(target, e).into()))?;
        made.tell(view.arrays, view.references, view.left_out, out)
    })
}

/// References as a folder of tables, in which further steps change the last ones.
fn tables(arguments: &ViewZarr, target: &Path, out: &mut Terminal) -> Result<Outcome, Failure> {
    let mut made = Made::new(&arguments.file, target)?;
    no_other_thing(target)?;
    let name = |path: &Path| {
        let name = path.to_str().map(str::to_string);
        name.ok_or_else(|| Failure::Usage(format!("'{}' is no UTF-8 text", path.display())))
    };
    let shown = name(target)?;
    let mut tables: Option<Tables> = None;
    let mut program: Option<Staying> = None;
    made.each(&arguments.following, out, &mut |made, reader, out| {
        let grown = tables.as_mut().map(|tables| tables.advance(reader)).transpose()?.flatten();
        let is_whole = grown.is_none();
        let Tabled { change, arrays, references, left_out } = match grown {
            Some(tabled) => tabled,
            None => {
                let (made, tabled) = Tables::of(reader, arguments.at.as_deref())?;
                tables = Some(made);
                tabled
            }
        };
        let program = match &mut program {
            Some(program) => program,
            none => {
                let started = Program::start("views as tables are written", &[OsStr::new("references")], target, SAFE)?;
                none.insert(started.stay())
            }
        };
        let write = |folder: &Path| program.ask(&InFolder { folder: name(folder)?, shown: shown.clone(), change });
        if is_whole {
            replace_folder(target, write)?
        } else {
            write(target)?
        };
        made.tell(arrays, references, left_out, out)
    })
}

/// Refuses to replace anything but an earlier view that is a folder.
fn no_other_thing(target: &Path) -> Result<(), Failure> {
    if target.symlink_metadata().is_err() || target.join(".zmetadata").is_file() {
        return Ok(());
    }
    let what = "it is there already and no view of tables: remove it, or choose another name with -o";
    Err(Error::new(ErrorKind::AlreadyExists, what).in_object(target.display().to_string()).into())
}

pub fn hdf5(arguments: &ViewHdf5, out: &mut Terminal) -> Result<Outcome, Failure> {
    let target = arguments.output.clone().unwrap_or_else(|| arguments.file.with_extension("h5"));
    Made::new(&arguments.file, &target)?.each(&arguments.following, out, &mut |made, reader, out| {
        made.in_hdf5(thalweg_views::hdf5::view(reader)?, arguments.relative, out)
    })
}

pub fn vtk(arguments: &ViewVtk, out: &mut Terminal) -> Result<Outcome, Failure> {
    let target = arguments.output.clone().unwrap_or_else(|| arguments.file.with_extension("vtkhdf"));
    Made::new(&arguments.file, &target)?.each(&arguments.following, out, &mut |made, reader, out| {
        made.in_hdf5(thalweg_views::vtk::view(reader, arguments.mesh.as_deref())?, arguments.relative, out)
    })
}

pub fn openpmd(arguments: &ViewOpenpmd, out: &mut Terminal) -> Result<Outcome, Failure> {
    let target = arguments.output.clone().unwrap_or_else(|| openpmd::file::beside(&arguments.file));
    Made::new(&arguments.file, &target)?.each(&arguments.following, out, &mut |made, reader, out| {
        let view = openpmd::view::view(reader)?;
        openpmd::file::write(&view, &target)?;
        made.tell(view.arrays, view.blocks, view.left_out, out)
    })
}

/// A view that is made, once or again for further steps.
struct Made<'a> {
    file: &'a Path,
    target: &'a Path,
    /// What users know already: not shown, and why.
    told: Vec<LeftOut>,
    /// How often it was made.
    times: u64,
}

impl<'a> Made<'a> {
    fn new(file: &'a Path, target: &'a Path) -> Result<Made<'a>, Failure> {
        file::not_itself(file, target, "its view")?;
        Ok(Made { file, target, told: Vec::new(), times: 0 })
    }

    /// Makes the view; if it follows a writer, again whenever it has closed a step.
    fn each(
        &mut self,
        following: &Following,
        out: &mut Terminal,
        make: &mut dyn FnMut(&mut Made<'a>, &Reader, &mut Terminal) -> Result<Outcome, Failure>,
    ) -> Result<Outcome, Failure> {
        if !following.follow {
            return make(self, &file::open(self.file, None)?, out);
        }
        let mut follow = Follow::open(self.file, None, following.wait)?;
        let mut outcome = make(self, follow.reader(), out)?;
        loop {
            out.flush()?;
            match follow.next(true)? {
                Came::Step => outcome = make(self, follow.reader(), out)?,
                Came::End | Came::Stopped => return Ok(outcome),
                Came::WriterDied => {
                    complain("thalweg", "the writer died: the view shows the steps that it has closed");
                    return Ok(Outcome::No);
                }
                Came::Late => {
                    complain("thalweg", "no further step came in time: the view shows those that are closed");
                    return Ok(Outcome::No);
                }
            }
        }
    }

    /// Writes a view that is an HDF5 file.
    fn in_hdf5(&mut self, mut view: View, is_relative: bool, out: &mut Terminal) -> Result<Outcome, Failure> {
        if is_relative {
            relate(&mut view.plan, self.target)?;
        }
        replace(self.target, |made| planned(&view.plan, made.path(), self.target))?;
        let outcome = self.tell(view.arrays, view.blocks, view.left_out, out)?;
        if is_relative && self.times == 1 {
            writeln!(out, "programs that read it need the environment variable HDF5_EXTFILE_PREFIX='${{ORIGIN}}'")?;
        }
        Ok(outcome)
    }

    /// Says what was written, and what is not shown.
    fn tell(
        &mut self,
        arrays: u64,
        blocks: u64,
        left_out: Vec<LeftOut>,
        out: &mut Terminal,
    ) -> Result<Outcome, Failure> {
        self.times += 1;
        let (of, shown) = (plain(&self.file.display().to_string()), plain(&self.target.display().to_string()));
        writeln!(out, "{shown}: {} of {of}, {} in place", count(arrays, "array"), count(blocks, "block"))?;
        let is_nothing = arrays == 0 && !left_out.is_empty();
        for left in left_out {
            if !self.told.contains(&left) {
                complain("thalweg", &format!("not shown: {}: {}", plain(&left.name), plain(&left.why)));
                self.told.push(left);
            }
        }
        Ok(if is_nothing { Outcome::No } else { Outcome::Done })
    }
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

/// Writes the HDF5 file of a plan with the program that is linked with HDF5.
///
/// - `target`: the name that the file will have, for messages.
fn planned(plan: &Plan, file: &Path, target: &Path) -> Result<(), Failure> {
    let arguments = [OsStr::new("hdf5"), file.as_os_str(), target.as_os_str()];
    let program = Program::start("views for HDF5 and VTK are written", &arguments, target, SAFE)?;
    program.ask(plan, &mut |_| {})
}
