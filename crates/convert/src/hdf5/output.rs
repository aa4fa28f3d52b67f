//! Files that a running program writes, one step after the other: what HDF5 says of its arrays, and where their values belong.
//!
//! The library reserves places ([`Reserved`]) and writes nothing to them: the ranks of the program do. Nothing of a step is written
//! before its commit but values, at places that the file does not refer to yet: so a process that ends before the commit leaves the
//! file as it was. A file is open from the question for a step to its commit; it is then like any other file.

use crate::library::reading::{self, Object, names};
use crate::library::scales::{self, Reference};
use crate::library::writing::{self as library, Element, File, Oldest, Reserved, Storage};
use crate::library::{Handle, close_inherited};
use crate::source::found::{self, Form, Value};
use crate::values::element_of;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, ErrorKind as Cause, Write};
use std::mem::ManuallyDrop;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thalweg_io::hdf5::protocol::{Answer, Ask};
use thalweg_io::whole_arrays::content::{Array, Content, Single};
use thalweg_io::whole_arrays::places::Places;
use thalweg_io::whole_arrays::unfinished;
use thalweg_types::{ElementType, Error, ErrorKind, Result};
use thalweg_views::arrays::STEP_IN_FILE;
use thalweg_views::hdf5::{Attribute, BARE_SCALE, Kind, Stored, Values, name_of_bare_scale};

/// Most bytes of a chunk; HDF5 takes less than 4 GiB.
const CHUNK: u64 = 1 << 30;
/// The name of the axis of steps, unless a variable has it.
const AXIS_OF_STEPS: &str = "step";
/// Single values that share a chunk.
const TOGETHER: u64 = 1024;

/// Answers questions on standard input until it ends. Called first in the process.
///
/// # Errors
/// `Io` if whoever asks cannot be heard or answered any more.
pub fn serve() -> Result<()> {
    let deaf = |e: std::io::Error| Error::io("cannot speak with the program that writes the file", e);
    close_inherited();
    let (asked, mut said) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut open = None;
    for line in asked.lines() {
        let ask = serde_json::from_str(&line.map_err(deaf)?);
        let ask =
            ask.map_err(|e| Error::new(ErrorKind::InvalidArgument, format!("a question of another release: {e}")));
        let answer = ask.and_then(|ask| answer(&mut open, ask)).unwrap_or_else(|e| Answer::failed(&e));
        let mut line = serde_json::to_vec(&answer).map_err(|e| deaf(e.into()))?;
        line.push(b'\n');
        said.write_all(&line).and_then(|()| said.flush()).map_err(deaf)?;
    }
    Ok(())
}

/// The file of a step that is not committed.
struct Open {
    /// Closed by a commit alone: the library writes what it holds when it closes a file.
    file: ManuallyDrop<File>,
    _lock: fs::File,
    /// Its name, and the one that it has until its first step is committed.
    name: PathBuf,
    now: PathBuf,
}

fn answer(open: &mut Option<Open>, ask: Ask) -> Result<Answer> {
    match ask {
        Ask::Open { path } => steps(&path).map(Answer::Steps),
        Ask::Step { path, is_new, content } => {
            if open.is_some() {
                return Err(Error::new(ErrorKind::InvalidArgument, "the step before is not committed"));
            }
            let name = PathBuf::from(path);
            let now = if is_new { unfinished(&name) } else { name.clone() };
            let shown = now.to_str().ok_or_else(|| Error::new(ErrorKind::Unsupported, "a name that is not UTF-8"))?;
            let lock = lock(&now, is_new)?;
            let made = begin(&content, is_new, shown).inspect_err(|_| {
                if is_new {
                    // It is this process's, which has the lock. If it cannot be removed, the next one begins it anew.
                    let _ = fs::remove_file(&now);
                }
            });
            let (file, arrays) = made?;
            let answer = Answer::Places { file: shown.to_string(), arrays };
            *open = Some(Open { file, _lock: lock, name, now });
            Ok(answer)
        }
        Ask::Commit { sync } => {
            let Open { file, name, now, _lock } =
                open.take().ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "there is no step to commit"))?;
            ManuallyDrop::into_inner(file).close()?;
            let failed = |e: std::io::Error| Error::io("cannot complete the file", e);
            if sync {
                fs::File::open(&now).and_then(|file| file.sync_all()).map_err(failed)?;
            }
            if name != now {
                fs::rename(&now, &name).map_err(failed)?;
                if let Some(folder) = name.parent().filter(|_| sync) {
                    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
                }
            }
            Ok(Answer::Done)
        }
    }
}

/// Locks a file for the writer of a step. HDF5's own locks are off: a reader that has the file open would cost an output.
fn lock(path: &Path, is_new: bool) -> Result<fs::File> {
    let failed = |e: std::io::Error| Error::io("cannot open the file", e);
    let file =
        fs::OpenOptions::new().read(true).write(true).create(is_new).truncate(false).open(path).map_err(failed)?;
    let whole = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // Of this open file alone: HDF5 opens and closes the file, too.
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole)) {
        Ok(_) => {
            // The one that had the lock may have given the file its name, or removed it.
            let same = |own: fs::Metadata, named: fs::Metadata| (own.dev(), own.ino()) == (named.dev(), named.ino());
            match file.metadata().and_then(|own| Ok(same(own, fs::metadata(path)?))) {
                Ok(true) => Ok(file),
                Ok(false) => Err(Error::new(ErrorKind::NotReady, "another program has written the file meanwhile")),
                Err(e) => Err(failed(e)),
            }
        }
        Err(Errno::EACCES | Errno::EAGAIN) => {
            Err(Error::new(ErrorKind::NotReady, "another program is writing a step of the file"))
        }
        Err(e) => Err(failed(e.into())),
    }
}

/// Opens a file, or creates it, and makes room for a step.
fn begin(content: &Content, is_new: bool, name: &str) -> Result<(ManuallyDrop<File>, Vec<Places>)> {
    let file = match is_new {
        true => File::create(name, Oldest::V18, true)?,
        false => File::open(name, Oldest::V18)?,
    };
    let file = ManuallyDrop::new(file);
    let places = Step::of(&file, content)?.places()?;
    Ok((file, places))
}

/// Steps of a file; 0 if there is none.
fn steps(path: &str) -> Result<u64> {
    if matches!(fs::metadata(path), Err(e) if e.kind() == Cause::NotFound) {
        return Ok(0);
    }
    let file = reading::File::open(path)?;
    axis_of_steps(file.root())?.map(|(_, steps)| steps).ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "the file has no axis of steps: it is not one of methods PHDF5 and NC4")
    })
}

/// The name of the axis of steps of a file, and their number.
fn axis_of_steps(root: &Handle) -> Result<Option<(String, u64)>> {
    let mut all = names(root)?;
    // Where it nearly always is: other arrays need not be opened.
    all.sort_by_key(|name| name != AXIS_OF_STEPS);
    for name in all {
        let Object::Dataset(dataset) = reading::object(root, &name)? else { continue };
        let is_it = |one: &found::Attribute| {
            one.name == "long_name" && one.value == Value::Texts(vec![STEP_IN_FILE.as_bytes().to_vec()])
        };
        if reading::is_scale(&dataset)? && reading::attributes(&dataset)?.iter().any(is_it) {
            return Ok(reading::shape(&dataset)?.and_then(|shape| shape.first().copied()).map(|steps| (name, steps)));
        }
    }
    Ok(None)
}

fn refused(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, what.into())
}

/// A step on its way into the file.
struct Step<'s> {
    file: &'s File,
    content: &'s Content,
    /// Name of the axis of steps; `None` in a new file.
    axis: Option<String>,
    /// The scales that were looked at.
    scales: BTreeMap<String, Scale>,
}

/// A dimension scale on its way to the datasets that have it.
struct Scale {
    extent: u64,
    reference: Reference,
    /// Axes that have it from this step on.
    axes: Vec<(Reference, usize)>,
}

impl<'s> Step<'s> {
    fn of(file: &'s File, content: &'s Content) -> Result<Step<'s>> {
        Ok(Step { file, content, axis: axis_of_steps(file.root())?.map(|(name, _)| name), scales: BTreeMap::new() })
    }

    /// Makes room for everything; the places of the arrays.
    fn places(mut self) -> Result<Vec<Places>> {
        let content = self.content;
        let axis = self.steps()?;
        set(self.file.root(), &content.attributes)?;
        let mut places = Vec::with_capacity(content.arrays.len());
        for array in &content.arrays {
            places.push(self.array(array, &axis).map_err(|e| e.in_variable(&*array.name))?);
        }
        for value in &content.values {
            self.value(value, &axis).map_err(|e| e.in_variable(&*value.name))?;
        }
        for (name, scale) in self.scales.iter().filter(|(_, scale)| !scale.axes.is_empty()) {
            scales::has_axes(&self.file.dataset(name)?, &scale.axes)?;
        }
        Ok(places)
    }

    /// The axis of steps, with this one.
    fn steps(&mut self) -> Result<String> {
        let step = self.content.step;
        let axis = match &self.axis {
            Some(axis) => axis.clone(),
            None => self.free(AXIS_OF_STEPS, None)?,
        };
        let kind = Kind::of(ElementType::I64, thalweg_types::ByteOrder::NATIVE)
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "no type for steps"))?;
        let dataset = match self.file.has(&axis)? {
            true => self.file.dataset(&axis)?,
            false => {
                let storage = Storage::Own(&Stored { chunk: Some(vec![TOGETHER]), deflate: None });
                let made =
                    library::dataset(self.file.root(), &axis, Element::Plain(kind), &[0], true, false, &storage)?;
                scales::make(&made, &axis)?;
                let text = Values::Texts(vec![STEP_IN_FILE.into()]);
                library::attribute(&made, "long_name", Kind::Text, None, &text)?;
                made
            }
        };
        let before = extents(&dataset)?.first().copied().unwrap_or(0);
        let steps = before.max(step + 1);
        library::extend(&dataset, &[steps])?;
        for position in before.min(step)..=step {
            let number = Values::of_bytes(&(position as i64).to_ne_bytes());
            library::write_at(&dataset, kind, position, &number)?;
        }
        self.remember(&axis, &dataset, steps)?;
        Ok(axis)
    }

    /// A name for an axis: the wanted one, unless something else has it. With an extent: that of a scale that is there, or a new one.
    fn free(&mut self, wanted: &str, extent: Option<(u64, &[String])>) -> Result<String> {
        let mut name = wanted.replace(['/', '\0'], "_");
        if name.is_empty() || name == "." {
            name.push('_');
        }
        loop {
            let is_variable = |one: &str| one.split('/').next() == Some(&name);
            let taken =
                self.content.arrays.iter().map(|one| &one.name).chain(self.content.values.iter().map(|one| &one.name));
            let fits = match extent {
                Some((_, used)) if used.contains(&name) => false,
                _ if taken.into_iter().any(|one| is_variable(one)) => false,
                Some((extent, _)) if let Some(scale) = self.scales.get(&name) => scale.extent == extent,
                _ if !self.file.has(&name)? => true,
                Some((extent, _)) => match reading::object(self.file.root(), &name)? {
                    Object::Dataset(dataset) => reading::is_scale(&dataset)? && extents(&dataset)? == [extent],
                    _ => false,
                },
                None => false,
            };
            if fits {
                return Ok(name);
            }
            name = match extent {
                Some((extent, _)) if !name.ends_with(&format!("_{extent}")) && !name.ends_with('_') => {
                    format!("{name}_{extent}")
                }
                _ => format!("{name}_"),
            };
        }
    }

    /// Creates the groups above a name.
    fn groups(&self, name: &str) -> Result<()> {
        for (at, _) in name.match_indices('/') {
            if !self.file.has(&name[..at])? {
                self.file.group(&name[..at])?;
            }
        }
        Ok(())
    }

    /// Checks that nothing above a name is a dataset.
    fn above(&self, name: &str) -> Result<()> {
        for (at, _) in name.match_indices('/') {
            let above = &name[..at];
            if !self.file.has(above)? {
                return Ok(());
            }
            if !matches!(reading::object(self.file.root(), above)?, Object::Group(_)) {
                let what = format!(
                    "the file has an array {above}: it has one block in a step and several in another, or this name lies below it"
                );
                return Err(refused(what));
            }
        }
        Ok(())
    }

    /// Opens the dataset of a variable; `None` if the file has none.
    fn there(&self, name: &str, kind: Kind, axis: &str) -> Result<Option<Handle>> {
        if name == axis {
            return Err(refused("the axis of steps has this name"));
        }
        self.above(name)?;
        if !self.file.has(name)? {
            return Ok(None);
        }
        let Object::Dataset(dataset) = reading::object(self.file.root(), name)? else {
            return Err(refused("the file has a group of this name"));
        };
        if reading::is_scale(&dataset)? {
            return Err(refused(
                "an axis of the file has this name: such a variable is written from the first step on",
            ));
        }
        let there = reading::form(&dataset)?;
        let there = if matches!(there, Form::Texts) { Some(Kind::Text) } else { there.kind() };
        if there != Some(kind) {
            let named = |kind: Option<Kind>| kind.and_then(element_of).map_or("another type", ElementType::name);
            return Err(refused(format!(
                "the file has it as another type: {}, not {}",
                named(there),
                named(Some(kind))
            )));
        }
        Ok(Some(dataset))
    }

    fn array(&mut self, array: &Array, axis: &str) -> Result<Places> {
        let Array { name, kind, shape, attributes, .. } = array;
        let step = self.content.step;
        let row = shape.iter().skip(1).try_fold(kind.size(), |bytes, extent| bytes.checked_mul(*extent));
        let row =
            row.filter(|row| *row < 4 * CHUNK).ok_or_else(|| refused("rows of 4 GiB: HDF5 has no such chunks"))?;
        let there = self.there(name, *kind, axis)?;
        if !array.has_steps {
            if there.is_some() {
                return Err(Error::new(ErrorKind::AlreadyExists, "the file has this block of this step"));
            }
            self.groups(name)?;
            let storage = Storage::Reserved(Reserved::Whole);
            let made = library::dataset(self.file.root(), name, Element::Plain(*kind), shape, false, false, &storage)?;
            set(&made, attributes)?;
            let chunks = if shape.contains(&0) { Vec::new() } else { vec![library::place(&made)?] };
            return Ok(Places { rows: shape[0].max(1), chunks, skipped: Vec::new() });
        }
        let with_steps = |steps: u64| [&[steps][..], shape].concat();
        let (dataset, before) = match there {
            Some(dataset) => {
                let before = extents(&dataset)?;
                if before.get(1..) != Some(shape) {
                    let what = format!(
                        "an array of HDF5 has one shape in all steps: {:?} and not {shape:?}",
                        before.get(1..).unwrap_or(&[])
                    );
                    return Err(refused(what));
                }
                if before[0] > step {
                    return Err(again());
                }
                (dataset, before[0])
            }
            None => {
                self.groups(name)?;
                // Pieces of about the same length.
                let pieces = shape[0].div_ceil((CHUNK / row.max(1)).max(1)).max(1);
                let mut chunk: Vec<u64> = shape.iter().map(|extent| (*extent).max(1)).collect();
                chunk[0] = shape[0].div_ceil(pieces).max(1);
                chunk.insert(0, 1);
                let storage = Storage::Reserved(Reserved::Chunks(&chunk));
                let whole = with_steps(0);
                let made =
                    library::dataset(self.file.root(), name, Element::Plain(*kind), &whole, true, false, &storage)?;
                self.attach(&made, array, axis)?;
                (made, 0)
            }
        };
        library::extend(&dataset, &with_steps(before.max(step + 1)))?;
        set(&dataset, attributes)?;
        let axes = shape.len() + 1;
        if !library::is_plain(&dataset, *kind)? {
            return Err(refused("the file has it compressed, or in another byte order: another program wrote it"));
        }
        let chunk =
            library::chunk(&dataset, axes)?.filter(|chunk| chunk[0] == 1 && chunk[2..] == with_ones(&shape[1..]));
        let rows = chunk.ok_or_else(|| refused("the file has it in chunks that are not those of this method"))?[1];
        let of = |step: u64| {
            let number = if shape.contains(&0) { 0 } else { shape[0].div_ceil(rows) };
            (0..number).map(move |chunk| {
                let mut offset = vec![0; axes];
                (offset[0], offset[1]) = (step, chunk * rows);
                offset
            })
        };
        let places =
            |step: u64| of(step).map(|offset| library::place_of_chunk(&dataset, &offset)).collect::<Result<Vec<_>>>();
        let mut skipped = Vec::new();
        for step in before..step {
            skipped.extend(places(step)?);
        }
        Ok(Places { rows, chunks: places(step)?, skipped })
    }

    /// Attaches the scales of an array's axes.
    fn attach(&mut self, made: &Handle, array: &Array, axis: &str) -> Result<()> {
        let Some(axes) = &array.axes else { return Ok(()) };
        let mut used = vec![axis.to_string()];
        for (wanted, extent) in axes.iter().zip(&array.shape) {
            let name = self.free(wanted, Some((*extent, &used)))?;
            if !self.scales.contains_key(&name) {
                let scale = if self.file.has(&name)? {
                    self.file.dataset(&name)?
                } else {
                    let (element, storage) =
                        (Element::Plain(BARE_SCALE), Storage::Own(&Stored { chunk: None, deflate: None }));
                    let scale = library::dataset(self.file.root(), &name, element, &[*extent], false, false, &storage)?;
                    scales::make(&scale, &name_of_bare_scale(*extent))?;
                    scale
                };
                self.remember(&name, &scale, *extent)?;
            }
            used.push(name);
        }
        self.attach_all(made, &used)
    }

    /// Keeps what is known of a scale.
    fn remember(&mut self, name: &str, scale: &Handle, extent: u64) -> Result<()> {
        let scale = Scale { extent, reference: scales::reference(scale)?, axes: Vec::new() };
        self.scales.insert(name.into(), scale);
        Ok(())
    }

    /// Attaches scales to a new dataset, one to each axis. The scales hear of it when all datasets are made.
    fn attach_all(&mut self, made: &Handle, names: &[String]) -> Result<()> {
        let own = scales::reference(made)?;
        let mut named = Vec::with_capacity(names.len());
        for (axis, name) in names.iter().enumerate() {
            let scale = self.scales.get_mut(name);
            let scale = scale.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "a scale that nobody made"))?;
            scale.axes.push((own, axis));
            named.push(scale.reference);
        }
        scales::of_axes(made, &named)
    }

    fn value(&mut self, value: &Single, axis: &str) -> Result<()> {
        let Single { name, kind, value, attributes } = value;
        let dataset = match self.there(name, *kind, axis)? {
            Some(dataset) => dataset,
            None => {
                self.groups(name)?;
                let storage = Storage::Own(&Stored { chunk: Some(vec![TOGETHER]), deflate: None });
                let is_real = matches!(kind, Kind::Real(..));
                let made =
                    library::dataset(self.file.root(), name, Element::Plain(*kind), &[0], true, is_real, &storage)?;
                self.attach_all(&made, &[axis.to_string()])?;
                made
            }
        };
        let before = extents(&dataset)?;
        let [before] = before[..] else { return Err(refused("the file has an array of this name")) };
        if before > self.content.step {
            return Err(again());
        }
        library::extend(&dataset, &[before.max(self.content.step + 1)])?;
        library::write_at(&dataset, *kind, self.content.step, value)?;
        set(&dataset, attributes)
    }
}

/// Values of a committed step are not written again: what fails in between would leave them half new.
fn again() -> Error {
    Error::new(ErrorKind::AlreadyExists, "the file has it in this step, which an update does not change")
}

fn with_ones(extents: &[u64]) -> Vec<u64> {
    extents.iter().map(|extent| (*extent).max(1)).collect()
}

fn extents(dataset: &Handle) -> Result<Vec<u64>> {
    Ok(reading::shape(dataset)?.unwrap_or_default())
}

/// Writes attributes, in place of older ones.
fn set(of: &Handle, attributes: &[Attribute]) -> Result<()> {
    if attributes.is_empty() {
        return Ok(());
    }
    // An object counts the attributes that it ever had, up to 65,535.
    let there = reading::attributes(of)?;
    for one in attributes.iter().filter(|one| !there.iter().any(|there| is_same(there, one))) {
        let Attribute { key, kind, length, values } = one;
        library::forget(of, key)?;
        library::attribute(of, key, *kind, *length, values)?;
    }
    Ok(())
}

fn is_same(there: &found::Attribute, wanted: &Attribute) -> bool {
    let shape: Vec<u64> = wanted.length.into_iter().collect();
    let is_equal = match (&there.value, &wanted.values) {
        (Value::Numbers(kind, bytes), values) => *kind == wanted.kind && values.bytes().as_ref() == Some(bytes),
        (Value::Texts(texts), Values::Texts(own)) => {
            wanted.kind == Kind::Text && texts.iter().map(Vec::as_slice).eq(own.iter().map(String::as_bytes))
        }
        _ => false,
    };
    there.name == wanted.key && there.shape == shape && is_equal
}
