//! `VTK`: outputs as files that ParaView, VisIt and VTK's own readers open, a list of steps and a file for each grid of a step.
//!
//! | question | answer |
//! |----------|--------|
//! | how | as every format in which [arrays are whole](crate::whole_arrays) |
//! | where | `NAME.pvd` for the program's `NAME.bp`, the list of steps, and `NAME.pvd.dir/STEP.vti`, `.vtr` or `.vts`: [`mod@file`] |
//! | when a step counts | when the list has it: it is written anew beside the old one, and takes its name |
//! | what is refused | a mesh that VTK cannot have or whose variables are not written in the step; mounts; updates of a step |
//! | what is left out, and told | arrays that can be on no grid, with the reason |
//!
//! Source: `docs/decisions/0093-vtk-files-that-ranks-write-in-place.md`; Kitware, VTK file formats; ParaView's guide, `.pvd`.

pub mod file;
pub mod series;

use crate::whole_arrays::content::{Attributes, Content, Rules};
use crate::whole_arrays::{self, Begun, Format, Room, Target, unfinished};
use series::Entry;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{ErrorKind as Cause, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_movement::method::{self, MethodKind, Parameter, Parameters};
use thalweg_movement::{Method, Mode, OpenRequest};
use thalweg_schema::escape::is_allowed;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_views::mesh::Facts;

/// How the name of a list of steps ends.
const LIST: &str = ".pvd";

const TIME: Parameter = Parameter::text(
    "time",
    "the name of a scalar",
    "scalar with the time of a step, as viewers show it; by default that of the mesh's time-scale, else the number of the step",
);

/// `VTK` in the registry.
pub const KIND: MethodKind = MethodKind {
    names: &["VTK"],
    id: 251,
    about: "a file of VTK for each grid and step, written by all ranks, and a list of them for ParaView",
    parameters: &[method::SYNC, method::SPILL_COPY, TIME],
    least: thalweg_movement::output_file::spill::LEAST,
    tried: &[],
    make,
};

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    let time = parameters.text(&TIME).map(str::to_string);
    whole_arrays::make(Vtk { time }, parameters)
}

struct Vtk {
    time: Option<String>,
}

static RULES: Rules = Rules {
    format: "VTK",
    is_no_name: |part| !is_allowed(part),
    axes: usize::MAX,
    has_groups: false,
    attributes: Some(&["units"]),
};

impl Format for Vtk {
    fn name(&self) -> &'static str {
        KIND.names[0]
    }

    fn rules(&self) -> &'static Rules {
        &RULES
    }

    fn keeps_attributes(&self) -> bool {
        // Each file of a step says all.
        false
    }

    fn begin(&self, request: &OpenRequest<'_>) -> Result<Begun> {
        let unsupported = |what: &str| Error::new(ErrorKind::Unsupported, what);
        let plain = request.layout.plain_file(request.path);
        let plain =
            plain.ok_or_else(|| unsupported("this is a mount: files of VTK are written to file systems alone"))?;
        let list = list_of(&std::path::absolute(&plain).map_err(|e| Error::io("cannot find the file", e))?);
        if list.to_str().is_none_or(|name| !is_allowed(name)) {
            return Err(unsupported("the name of the file, or of its folder, is no text that XML can have"));
        }
        let known = known(&list).map_err(|e| e.in_object(list.to_string_lossy()))?;
        // What is replaced may be anything.
        let parsed = known.as_deref().map_or_else(|| Ok(Vec::new()), series::parse);
        let (kept, stale) = match request.mode {
            Mode::Write => (Vec::new(), parsed.unwrap_or_default()),
            Mode::Update => return Err(unsupported("an update of a step of VTK: write the step anew")),
            Mode::Append => (parsed.map_err(|e| e.in_object(list.to_string_lossy()))?, Vec::new()),
            Mode::AppendAfter(step) => {
                let all = parsed.map_err(|e| e.in_object(list.to_string_lossy()))?;
                let steps = steps(&all);
                if step >= steps {
                    let what = format!("a restart after step {step} of a file that has {steps} steps");
                    return Err(Error::new(ErrorKind::OutOfBounds, what).in_object(list.to_string_lossy()));
                }
                all.into_iter().partition(|entry| entry.step <= step)
            }
        };
        let (steps, time) = (steps(&kept), self.time.clone());
        let series = Series { list: list.clone(), known, kept, stale, time, begun: Vec::new() };
        Ok(Begun { target: Box::new(series), file: list, steps })
    }
}

/// Whether an output's name is that of a list of steps.
pub(crate) fn is_list(name: &str) -> bool {
    name.ends_with(LIST)
}

/// The list of steps of the program's file.
fn list_of(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name =
        name.strip_suffix(LIST).or_else(|| name.strip_suffix(".bp")).filter(|name| !name.is_empty()).unwrap_or(&name);
    file.with_file_name(format!("{name}{LIST}"))
}

/// The folder of a list's files.
fn folder_of(list: &Path) -> PathBuf {
    let name = list.file_name().unwrap_or_default().to_string_lossy();
    list.with_file_name(format!("{name}.dir"))
}

fn known(list: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(list) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == Cause::NotFound => Ok(None),
        Err(e) => Err(Error::io("cannot read the list of steps", e)),
    }
}

fn steps(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| entry.step + 1).max().unwrap_or(0)
}

/// The files of an output.
struct Series {
    list: PathBuf,
    /// The list as it was when the output began.
    known: Option<Vec<u8>>,
    /// Its entries that stay.
    kept: Vec<Entry>,
    /// Those of files that go.
    stale: Vec<Entry>,
    /// The scalar with the time.
    time: Option<String>,
    /// The files of the step, which have other names until they are written.
    begun: Vec<Entry>,
}

impl Series {
    fn path(&self, entry: &Entry) -> PathBuf {
        self.list.with_file_name(&entry.file)
    }

    /// The time of a step, and what is to be told of it.
    fn time(&self, content: &Content, facts: &Facts) -> Result<(f64, Option<(String, String)>)> {
        if let Some(name) = &self.time {
            let lost = || Error::new(ErrorKind::NotFound, format!("the scalar '{name}' with the time is not written"));
            return match file::scalar(content, name).ok_or_else(lost)? {
                time if time.is_finite() => Ok((time, None)),
                time => Err(Error::new(ErrorKind::InvalidArgument, format!("the time '{name}' is {time}"))),
            };
        }
        let of_mesh = content.arrays.iter().find_map(|array| {
            let mesh = facts.mesh_of(&array.name)?;
            facts.text(mesh, "time-scale-var")
        });
        let number = content.step as f64;
        let Some(name) = of_mesh else { return Ok((number, None)) };
        let own = file::scalar(content, name).filter(|time| time.is_finite());
        let why = || (name.to_string(), "the mesh's time is no number here: the step has its own number".to_string());
        Ok((own.unwrap_or(number), own.is_none().then(why)))
    }

    /// Writes the list; readers see the old or the new one.
    fn write_list(&self, entries: &[Entry], sync: bool) -> Result<()> {
        let failed = |e| Error::io("cannot write the list of steps", e);
        let new = unfinished(&self.list);
        let written = File::create(&new).and_then(|mut file| {
            file.write_all(&series::encode(entries))?;
            if sync { file.sync_all() } else { Ok(()) }
        });
        let written = written.and_then(|()| fs::rename(&new, &self.list));
        written.map_err(|e| {
            let _ = fs::remove_file(&new);
            failed(e)
        })
    }

    fn sync_folder(&self, of: &Path) -> Result<()> {
        let folder = of.parent().unwrap_or(Path::new("."));
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|e| Error::io("cannot write to the device", e).in_object(folder.to_string_lossy()))
    }
}

impl Target for Series {
    fn room(&mut self, content: &Content, attributes: &Attributes, fortran: bool, _: Duration) -> Result<Room> {
        let mut facts = Facts { is_fortran: fortran, ..Facts::default() };
        attributes.iter().for_each(|(name, value)| facts.add(name, value));
        let (time, told) = self.time(content, &facts)?;
        let file::Files { files, mut left_out } = file::files(content, &facts, time)?;
        left_out.extend(told);
        let folder = folder_of(&self.list);
        if let Err(e) = fs::create_dir(&folder)
            && e.kind() != Cause::AlreadyExists
        {
            let e = Error::io("cannot make the folder for files of steps", e);
            return Err(e.in_object(folder.to_string_lossy()));
        }
        let mut room = Room { left_out, ..Room::default() };
        let several = files.len() > 1;
        let mut taken = HashSet::new();
        for (number, one) in files.into_iter().enumerate() {
            let within = folder.file_name().unwrap_or_default().to_string_lossy();
            let step = content.step;
            let mut own = safe(&one.name);
            while !taken.insert(own.clone()) {
                own.push('_');
            }
            let own =
                if several { format!("{step:06}.{own}.{}", one.ending) } else { format!("{step:06}.{}", one.ending) };
            let file = format!("{within}/{own}");
            let entry = Entry { step, time, part: number as u32, name: one.name, file };
            let path = unfinished(&self.path(&entry));
            self.begun.push(entry);
            let failed = |e| Error::io("cannot begin the file of a step", e).in_object(path.to_string_lossy());
            let file = File::create(&path).map_err(failed)?;
            for (at, bytes) in &one.known {
                file.write_all_at(bytes, *at).map_err(failed)?;
            }
            room.parts.extend(one.parts.into_iter().map(|part| whole_arrays::Part { file: number, ..part }));
            room.files.push(path);
        }
        Ok(room)
    }

    fn drop_later(&mut self) -> Result<()> {
        if !self.stale.is_empty() {
            self.write_list(&self.kept, false)?;
            self.known = Some(series::encode(&self.kept));
            self.remove_stale();
        }
        Ok(())
    }

    fn commit(&mut self, sync: bool, _: Duration) -> Result<()> {
        self.complete(sync).map_err(|e| e.safe("the steps of the series that were closed before"))
    }
}

impl Series {
    fn complete(&mut self, sync: bool) -> Result<()> {
        if known(&self.list)? != self.known {
            return Err(Error::new(ErrorKind::NotReady, "another program has written the list of steps meanwhile"));
        }
        if !self.stale.is_empty() {
            // Before a file of the same name is replaced.
            self.write_list(&self.kept, sync)?;
            self.known = Some(series::encode(&self.kept));
            if sync {
                self.sync_folder(&self.list)?;
            }
        }
        for entry in &self.begun {
            let (new, path) = (unfinished(&self.path(entry)), self.path(entry));
            let failed = |e| Error::io("cannot complete the file of a step", e).in_object(path.to_string_lossy());
            if sync {
                File::open(&new).and_then(|file| file.sync_all()).map_err(failed)?;
            }
            fs::rename(&new, &path).map_err(failed)?;
        }
        if sync && let Some(entry) = self.begun.first() {
            self.sync_folder(&self.path(entry))?;
            self.sync_folder(&folder_of(&self.list))?;
        }
        let all: Vec<Entry> = self.kept.iter().chain(&self.begun).cloned().collect();
        self.write_list(&all, sync)?;
        if sync {
            self.sync_folder(&self.list)?;
        }
        self.stale.retain(|entry| !all.iter().any(|one| one.file == entry.file));
        self.remove_stale();
        self.begun.clear();
        Ok(())
    }

    fn remove_stale(&mut self) {
        let folder = folder_of(&self.list);
        let folder = folder.file_name().unwrap_or_default().to_string_lossy();
        for entry in std::mem::take(&mut self.stale) {
            // A list of others may name any file.
            let is_own = entry.file.split_once('/').is_some_and(|(own, name)| own == folder && !name.contains('/'));
            if is_own {
                // One that stays costs room alone.
                let _ = fs::remove_file(self.path(&entry));
            }
        }
    }
}

impl Drop for Series {
    /// Without a commit the list is as before the output.
    fn drop(&mut self) {
        for entry in &self.begun {
            let _ = fs::remove_file(unfinished(&self.path(entry)));
        }
    }
}

/// A name as a part of a file's name.
fn safe(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() || "-_".contains(c) { c } else { '_' }).collect()
}
