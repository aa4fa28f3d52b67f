//! HDF5 files from a plan.

use crate::library::{self, File, Handle, Mappings, Storage};
use std::collections::HashMap;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_views::hdf5::{Attribute, Dataset, Elements, Place, Plan};

/// Writes the file of a plan; no block is read.
///
/// # Errors
/// `Io` with the library's reason; `InvalidArgument` if the plan contradicts itself. The file is then not usable.
pub fn write(file: &str, plan: &Plan) -> Result<()> {
    let created = File::create(file)?;
    attributes(created.root(), &plan.attributes)?;
    for group in &plan.groups {
        created.group(group)?;
    }
    let mut blocks = Blocks { plan, file: &created, root: None };
    let mut made: HashMap<&str, (usize, Handle)> = HashMap::new();
    for (number, dataset) in plan.datasets.iter().enumerate() {
        made.insert(&dataset.name, (number, one(&created, &mut blocks, number, dataset)?));
    }
    for dataset in &plan.datasets {
        // A scale of one axis is not attached to itself.
        if dataset.scale.is_some() {
            continue;
        }
        for (axis, scale) in dataset.axes.iter().enumerate() {
            let (_, scale) = made.get(scale.as_str()).ok_or_else(|| missing("a dimension scale"))?;
            library::attach_scale(&made[dataset.name.as_str()].1, scale, axis)?;
        }
    }
    drop(made);
    created.close()
}

fn missing(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("the plan is wrong: {what} is missing"))
}

fn one(file: &File, blocks: &mut Blocks<'_>, number: usize, dataset: &Dataset) -> Result<Handle> {
    let Dataset { name, kind, shape, is_unlimited, is_nan_missing, .. } = dataset;
    let own = if *is_unlimited { Storage::Chunk } else { Storage::Own };
    let made = match &dataset.content {
        Elements::Missing | Elements::Values(_) => {
            library::dataset(file.root(), name, *kind, shape, *is_unlimited, *is_nan_missing, &own)?
        }
        Elements::Block(place) => {
            let storage = Storage::External(blocks.named(place)?, place);
            library::dataset(file.root(), name, *kind, shape, *is_unlimited, *is_nan_missing, &storage)?
        }
        Elements::Blocks(all) => {
            let (group, folder) = blocks.group(number)?;
            let mut mappings = Mappings::new(shape)?;
            for (number, block) in all.iter().enumerate() {
                let storage = Storage::External(blocks.named(&block.place)?, &block.place);
                let own = number.to_string();
                library::dataset(&group, &own, *kind, &block.count, false, false, &storage)?;
                mappings.add(&block.offset, &block.count, &format!("{folder}/{own}"))?;
            }
            let storage = Storage::Virtual(&mappings);
            library::dataset(file.root(), name, *kind, shape, *is_unlimited, *is_nan_missing, &storage)?
        }
    };
    if let Elements::Values(values) = &dataset.content
        && !shape.contains(&0)
    {
        library::write(&made, *kind, shape, values)?;
    }
    if let Some(scale) = &dataset.scale {
        library::make_scale(&made, scale)?;
    }
    attributes(&made, &dataset.attributes)?;
    Ok(made)
}

/// The source datasets of virtual ones.
struct Blocks<'p> {
    plan: &'p Plan,
    file: &'p File,
    root: Option<Handle>,
}

impl<'p> Blocks<'p> {
    /// The group for the blocks of a dataset, and its full name.
    fn group(&mut self, dataset: usize) -> Result<(Handle, String)> {
        if self.root.is_none() {
            self.root = Some(self.file.group(&self.plan.blocks)?);
        }
        let name = format!("/{}/{dataset}", self.plan.blocks);
        Ok((self.file.group(&name)?, name))
    }

    /// The file of a block.
    fn named(&self, place: &Place) -> Result<&'p str> {
        let file = self.plan.files.get(place.file);
        file.map(String::as_str).ok_or_else(|| missing("the name of a file"))
    }
}

fn attributes(of: &Handle, attributes: &[Attribute]) -> Result<()> {
    attributes.iter().try_for_each(|one| library::attribute(of, &one.key, one.kind, one.length, &one.values))
}
