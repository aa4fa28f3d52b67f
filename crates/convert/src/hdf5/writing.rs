//! HDF5 files from a plan.

use crate::library::Handle;
use crate::library::scales::{self, Reference};
use crate::library::writing::{self as library, Element, External, File, Mappings, Oldest, Storage};
use crate::values;
use std::collections::{BTreeMap, HashMap};
use thalweg_convert::{Converted, LeftOut, Message, Request};
use thalweg_reader::Reader;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_views::Chosen;
use thalweg_views::chunks::parse;
use thalweg_views::hdf5::{self, Attribute, Conversion, Dataset, Elements, Kind, Plan, Row, Source};

/// Where the values of a plan are, and how they are read.
pub struct Values<'v> {
    /// The file.
    pub reader: &'v Reader,
    /// Bytes that are read together.
    pub most: u64,
    /// Is told of bytes written.
    pub tell: &'v dyn Fn(Message),
}

/// Converts a BP file.
///
/// # Errors
/// Those of [`hdf5::converted`], and of reads and writes.
pub fn convert(request: &Request, chunks: &[String], tell: &dyn Fn(Message)) -> Result<Converted> {
    let choice = request.chosen.parse()?;
    let chunks = chunks.iter().map(|text| parse(text)).collect::<Result<Vec<_>>>()?;
    let reader = Reader::open(thalweg_io::mounts::layout()?, &request.source)?;
    // What is being read, what waits, what is being written.
    let most = (request.memory / 4).max(1 << 20);
    let view = hdf5::converted(&reader, Conversion { chosen: Chosen { choice: &choice, most }, chunks: &chunks })?;
    let bytes = values::total(&view.plan.datasets);
    tell(Message::Total(bytes));
    // The command gives the file its name when it is whole.
    write(&request.target, &view.plan, Some(&Values { reader: &reader, most, tell }))
        .map_err(|e| e.safe("the source, and an earlier file of the target's name"))?;
    let names: Vec<&str> = reader.variables().iter().map(|head| head.name.as_str()).collect();
    Ok(Converted {
        variables: view.arrays,
        steps: (0..reader.status().steps).filter(|step| choice.steps.contain(*step)).count() as u64,
        bytes,
        left_out: view.left_out.into_iter().map(|left| LeftOut::new(left.name, left.why)).collect(),
        unknown: choice.unknown(&names).into_iter().map(str::to_string).collect(),
    })
}

/// Writes the file of a plan.
///
/// - `values`: where the values are that the plan reads; `None`: it reads none.
///
/// # Errors
/// `Io` with the library's reason; `InvalidArgument` if the plan contradicts itself; those of reads. The file is then not usable.
pub fn write(file: &str, plan: &Plan, values: Option<&Values<'_>>) -> Result<()> {
    let created = File::create(file, Oldest::V110, false)?;
    attributes(created.root(), &plan.attributes)?;
    for group in &plan.groups {
        attributes(&created.group(&group.name)?, &group.attributes)?;
    }
    let sources = sources(&created, plan)?;
    let mut made: HashMap<&str, Handle> = HashMap::new();
    for dataset in &plan.datasets {
        made.insert(&dataset.name, one(&created, plan, &sources, dataset)?);
    }
    let mut axes: BTreeMap<&str, Vec<(Reference, usize)>> = BTreeMap::new();
    // A scale of one axis is not attached to itself.
    for dataset in plan.datasets.iter().filter(|one| one.scale.is_none() && !one.axes.is_empty()) {
        let own = &made[dataset.name.as_str()];
        let mut named = Vec::with_capacity(dataset.axes.len());
        for (axis, scale) in dataset.axes.iter().enumerate() {
            axes.entry(scale).or_default().push((scales::reference(own)?, axis));
            named.push(scales::reference(made.get(scale.as_str()).ok_or_else(|| missing("a dimension scale"))?)?);
        }
        scales::of_axes(own, &named)?;
    }
    for (scale, axes) in axes {
        scales::has_axes(&made[scale], &axes)?;
    }
    drop(made);
    if let Some(values) = values {
        fill(&created, plan, values)?;
    }
    created.close()
}

/// Writes the values that are read. One dataset is open at a time: each has a cache of chunks.
fn fill(file: &File, plan: &Plan, values: &Values<'_>) -> Result<()> {
    let mut open: Option<(usize, Handle)> = None;
    let mut done = 0u64;
    values::hand_on(values.reader, &plan.datasets, values.most, &mut |part| {
        let dataset = &plan.datasets[part.dataset];
        let failed = |e: Error| e.in_variable(dataset.name.clone());
        if open.as_ref().is_none_or(|(number, _)| *number != part.dataset) {
            // The one before is closed first.
            open = None;
            open = Some((part.dataset, file.dataset(&dataset.name).map_err(failed)?));
        }
        if let Some((_, handle)) = &open {
            library::write_box(handle, dataset.kind, &part.bounds.offset, &part.bounds.count, &part.bytes)
                .map_err(failed)?;
        }
        done += part.bytes.len() as u64;
        (values.tell)(Message::Done(done));
        Ok(())
    })
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
    let own = Storage::Own(&dataset.stored);
    let create = |storage: &Storage<'_>| {
        library::dataset(file.root(), name, Element::Plain(*kind), shape, *is_unlimited, *is_nan_missing, storage)
    };
    let made = match &dataset.content {
        Elements::Missing | Elements::Values(_) | Elements::Rows(_) | Elements::Read { .. } => create(&own)?,
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
    if let Elements::Rows(all) = &dataset.content {
        rows(&made, *kind, all)?;
    }
    if let Some(scale) = &dataset.scale {
        scales::make(&made, scale)?;
    }
    attributes(&made, &dataset.attributes)?;
    Ok(made)
}

/// Most integers that are written at once.
const AT_ONCE: u64 = 1 << 16;

fn rows(dataset: &Handle, kind: Kind, rows: &[Row]) -> Result<()> {
    let mut done = 0;
    for row in rows {
        for begin in (0..row.count).step_by(AT_ONCE as usize) {
            let count = AT_ONCE.min(row.count - begin);
            let numbers = (begin..begin + count).map(|position| row.at(position));
            let bytes: Vec<u8> = match kind {
                Kind::Integer(1, ..) => numbers.map(|number| number as u8).collect(),
                Kind::Integer(8, ..) => numbers.flat_map(u64::to_ne_bytes).collect(),
                _ => return Err(missing("the type of integers")),
            };
            library::write_box(dataset, kind, &[done], &[count], &bytes)?;
            done += count;
        }
    }
    Ok(())
}

fn attributes(of: &Handle, attributes: &[Attribute]) -> Result<()> {
    attributes.iter().try_for_each(|one| library::attribute(of, &one.key, one.kind, one.length, &one.values))
}
