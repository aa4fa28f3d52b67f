//! HDF5 files that are read.

use crate::library::Handle;
use crate::library::reading::{self as library, File, Object};
use crate::source::Source;
use crate::source::found::{Attribute, Content, Form, Found, MOST_TEXT, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use thalweg_convert::LeftOut;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_views::hdf5::{Kind, RESERVED};

/// How the attribute `NAME` of a dimension without a variable begins, as netCDF writes it.
const NO_VARIABLE: &str = "This is a netCDF dimension but not a netCDF variable";

/// What is known of the axes before their names are.
#[derive(Default)]
struct Numbers {
    /// The name of the axis that netCDF gives this number.
    names: HashMap<i32, String>,
    /// Numbers of the axes of a dataset, by its position.
    of: Vec<(usize, Vec<i32>)>,
}

/// A file that is read.
pub struct Hdf5 {
    file: File,
    content: Content,
    /// Datasets that were read stay open, with what is decoded of their chunks: several steps may share a chunk.
    open: RefCell<HashMap<String, Handle>>,
}

/// Bytes of decoded chunks of all datasets together; each has at least what HDF5 gives it by itself, 1 MiB.
const CACHES: usize = 256 << 20;

impl Hdf5 {
    /// Opens a file, and looks at everything in it. No value is read, but texts of any length.
    ///
    /// # Errors
    /// `Io` with the library's reason. A link that leads nowhere is left out.
    pub fn open(path: &str) -> Result<Hdf5> {
        let file = File::open(path)?;
        let content = content(&file)?;
        Ok(Hdf5 { file, content, open: RefCell::default() })
    }
}

impl Source for Hdf5 {
    fn content(&self) -> &Content {
        &self.content
    }

    fn read(&self, found: &Found, offset: &[u64], stride: &[u64], count: &[u64]) -> Result<Vec<u8>> {
        let mut open = self.open.borrow_mut();
        if !open.contains_key(&found.name) {
            let cache = CACHES / self.content.datasets.len().max(1);
            open.insert(found.name.clone(), library::dataset(self.file.root(), &found.name, cache)?);
        }
        library::read(&open[&found.name], &found.form, offset, stride, count)
    }
}

fn content(file: &File) -> Result<Content> {
    let mut all = Looking::default();
    let mut numbers = Numbers::default();
    let mut above = vec![library::identity(file.root(), ".")?];
    all.group(file.root(), "", &mut above, &mut numbers)?;
    for (position, of) in numbers.of {
        let axes = &mut all.content.datasets[position].axes;
        for (axis, number) in axes.iter_mut().zip(of).filter(|(axis, _)| axis.is_none()) {
            *axis = numbers.names.get(&number).cloned();
        }
    }
    Ok(all.content)
}

/// What was found so far.
#[derive(Default)]
struct Looking {
    content: Content,
}

impl Looking {
    fn leave_out(&mut self, name: &str, why: impl Into<String>) {
        self.content.left_out.push(LeftOut::new(name, why));
    }

    /// - `above`: the groups that it is in, itself included.
    fn group(&mut self, group: &Handle, full: &str, above: &mut Vec<[u64; 4]>, numbers: &mut Numbers) -> Result<()> {
        let attributes = self.own_attributes(group, full)?;
        self.content.groups.push((full.to_string(), attributes));
        for own in library::names(group)? {
            let name = if full.is_empty() { own.clone() } else { format!("{full}/{own}") };
            match library::object(group, &own) {
                Ok(Object::Group(inner)) => {
                    let identity = library::identity(group, &own)?;
                    if above.contains(&identity) {
                        self.leave_out(&name, "a link to a group that it is in");
                        continue;
                    }
                    above.push(identity);
                    self.group(&inner, &name, above, numbers)?;
                    above.pop();
                }
                Ok(Object::Dataset(dataset)) => {
                    self.dataset(&dataset, &name, numbers).map_err(|e| e.in_variable(name.clone()))?;
                }
                // A type has no values.
                Ok(Object::Other) => {}
                // What lies in this file and cannot be opened is damage, or an error of the storage.
                Err(e) if library::is_by_name(group, &own)? => {
                    self.leave_out(&name, format!("a link that leads nowhere: {}", e.what()));
                }
                Err(e) => return Err(e.in_variable(name)),
            }
        }
        Ok(())
    }

    /// The attributes that are no business of the library's own.
    fn own_attributes(&mut self, of: &Handle, full: &str) -> Result<Vec<Attribute>> {
        let mut all = library::attributes(of)?;
        all.retain(|attribute| !RESERVED.contains(&attribute.name.as_str()));
        for attribute in all.extract_if(.., |attribute| matches!(attribute.value, Value::Other(_))) {
            if let Value::Other(why) = attribute.value {
                let name = if full.is_empty() { attribute.name } else { format!("{full}/{}", attribute.name) };
                self.leave_out(&name, format!("the attribute: {why}"));
            }
        }
        Ok(all)
    }

    fn dataset(&mut self, dataset: &Handle, name: &str, numbers: &mut Numbers) -> Result<()> {
        let form = match library::form(dataset)? {
            Form::Other(sort) => {
                self.leave_out(name, format!("no BP file has its type: {sort}"));
                return Ok(());
            }
            form => form,
        };
        let Some(shape) = library::shape(dataset)? else {
            self.leave_out(name, "it has no space for a value");
            return Ok(());
        };
        if let Form::Nearest(kind, width) = &form {
            let becomes = if *kind == (Kind::Real(4, matches!(kind, Kind::Real(_, true)))) { "real" } else { "double" };
            self.leave_out(name, format!("its real numbers {width}: values become {becomes}"));
        }
        let all = library::attributes(dataset)?;
        let is_scale = library::is_scale(dataset)?;
        let last = name.rsplit('/').next().unwrap_or(name);
        let mut axes = library::scales(dataset, shape.len())?;
        for axis in axes.iter_mut().flatten() {
            *axis = axis.rsplit('/').next().unwrap_or_default().to_string();
        }
        let (mut is_only_an_axis, mut of) = (false, None);
        for Attribute { name: key, value, .. } in &all {
            match (key.as_str(), value) {
                ("NAME", Value::Texts(texts)) if is_scale => {
                    is_only_an_axis = texts.first().is_some_and(|text| text.starts_with(NO_VARIABLE.as_bytes()));
                }
                ("_Netcdf4Dimid", Value::Numbers(Kind::Integer(4, ..), bytes)) if is_scale => {
                    if let Some(number) = integers(bytes).first() {
                        numbers.names.insert(*number, last.to_string());
                    }
                }
                ("_Netcdf4Coordinates", Value::Numbers(Kind::Integer(4, ..), bytes)) => of = Some(integers(bytes)),
                _ => {}
            }
        }
        if let Some(of) = of {
            numbers.of.push((self.content.datasets.len(), of));
        }
        if is_scale && axes.len() == 1 {
            axes[0] = Some(last.to_string());
        }
        let texts = match form {
            Form::Texts if !is_only_an_axis => {
                let elements = shape.iter().try_fold(1u64, |all, extent| all.checked_mul(*extent));
                let elements = elements.filter(|elements| *elements <= MOST_TEXT / 16).ok_or_else(|| {
                    Error::new(ErrorKind::NoMemory, format!("texts of any length, {shape:?}: they are kept in memory"))
                })?;
                library::texts(dataset, elements)?
            }
            _ => Vec::new(),
        };
        let attributes = self.own_attributes(dataset, name)?;
        let name = name.to_string();
        self.content.datasets.push(Found { name, shape, form, texts, axes, is_only_an_axis, attributes });
        Ok(())
    }
}

/// Integers of 4 bytes in this machine's byte order.
fn integers(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).filter_map(|word| word.try_into().ok().map(i32::from_ne_bytes)).collect()
}
