//! HDF5 files from a plan.

use crate::library::{self, Element, External, File, Handle, Mappings, Storage};
use std::collections::HashMap;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_views::hdf5::{Attribute, Dataset, Elements, Plan, Source};

/// Writes the file of a plan; no block is read.
///
/// # Errors
/// `Io` with the library's reason; `InvalidArgument` if the plan contradicts itself. The file is then not usable.
pub fn write(file: &str, plan: &Plan) -> Result<()> {
    let created = File::create(file)?;
    attributes(created.root(), &plan.attributes)?;
    for group in &plan.groups {
        attributes(&created.group(&group.name)?, &group.attributes)?;
    }
    let sources = sources(&created, plan)?;
    let mut made: HashMap<&str, Handle> = HashMap::new();
    for dataset in &plan.datasets {
        made.insert(&dataset.name, one(&created, plan, &sources, dataset)?);
    }
    for dataset in &plan.datasets {
        // A scale of one axis is not attached to itself.
        if dataset.scale.is_some() {
            continue;
        }
        for (axis, scale) in dataset.axes.iter().enumerate() {
            let scale = made.get(scale.as_str()).ok_or_else(|| missing("a dimension scale"))?;
            library::attach_scale(&made[dataset.name.as_str()], scale, axis)?;
        }
    }
    drop(made);
    created.close()
}

fn missing(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("the plan is wrong: {what} is missing"))
}

/// Creates the sources of virtual datasets; returns their full names.
fn sources(file: &File, plan: &Plan) -> Result<Vec<String>> {
    if plan.sources.is_empty() {
        return Ok(Vec::new());
    }
    let group = file.group(&plan.blocks)?;
    let create = |(number, source): (usize, &Source)| {
        let Source { kind, elements, phase, .. } = source;
        let place = External { file: named(plan, source.file)?, offset: *phase };
        let element = match source.is_enumeration {
            true => Element::Enumeration(*kind, "element"),
            false => Element::Plain(*kind),
        };
        let own = number.to_string();
        library::dataset(&group, &own, element, &[*elements], false, false, &Storage::External(place))?;
        Ok(format!("/{}/{own}", plan.blocks))
    };
    plan.sources.iter().enumerate().map(create).collect()
}

fn named(plan: &Plan, file: usize) -> Result<&str> {
    plan.files.get(file).map(String::as_str).ok_or_else(|| missing("the name of a file"))
}

/// - `sources`: their full names.
fn one(file: &File, plan: &Plan, sources: &[String], dataset: &Dataset) -> Result<Handle> {
    let Dataset { name, kind, shape, is_unlimited, is_nan_missing, .. } = dataset;
    let own = if *is_unlimited { Storage::Chunk } else { Storage::Own };
    let create = |storage: &Storage<'_>| {
        library::dataset(file.root(), name, Element::Plain(*kind), shape, *is_unlimited, *is_nan_missing, storage)
    };
    let made = match &dataset.content {
        Elements::Missing | Elements::Values(_) => create(&own)?,
        Elements::Block(place) => {
            create(&Storage::External(External { file: named(plan, place.file)?, offset: place.offset }))?
        }
        Elements::Boxes(runs) => {
            let mut mappings = Mappings::new(shape)?;
            for run in runs {
                let (source, name) =
                    plan.sources.get(run.source).zip(sources.get(run.source)).ok_or_else(|| missing("a source"))?;
                mappings.add(run, source.elements, name)?;
            }
            create(&Storage::Virtual(&mappings))?
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

fn attributes(of: &Handle, attributes: &[Attribute]) -> Result<()> {
    attributes.iter().try_for_each(|one| library::attribute(of, &one.key, one.kind, one.length, &one.values))
}
