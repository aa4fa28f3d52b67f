//! The content of a view for VTK: an HDF5 file with a group `VTKHDF`, one grid with arrays at its points and cells.
//!
//! | mesh of the file | `Type` | geometry |
//! |---|---|---|
//! | uniform | `ImageData` | `WholeExtent`, `Origin`, `Spacing` |
//! | rectilinear | `RectilinearGrid` | `XCoordinates`, `YCoordinates`, `ZCoordinates`: variables, in place |
//! | structured | `StructuredGrid` | `Points`: one variable per component, or one of all, in place |
//! | unstructured | `UnstructuredGrid` | `Points` likewise, `Connectivity`: the lists of all sets of cells, in place; `Offsets` and `Types` are written, 9 bytes for each cell |
//! | none | `ImageData` | origin 0, spacing 1; all arrays with the shape of the first one are at its points |
//!
//! It is the plan of [`crate::hdf5`] with datasets that have other names and axes: axes of extent 1 and an axis of components are added to
//! boxes, or the axis of steps is joined with the next one, without another order of their elements. The slowest axis is VTK's last one.
//! A mesh in a group written by Fortran lists its axes fastest first.
//!
//! Source: Kitware, VTKHDF file format specification, version 2; what `vtkHDFWriter` of VTK 9.7 writes.

use crate::LeftOut;
use crate::hdf5::{self, Attribute, Dataset, Elements, Group, Kind, Mapping, Plan, Row, Source, Stored, Values, View};
use crate::mesh::{self, Cells, Facts, Field, Geometry, Grid, Points};
use std::collections::HashMap;
use thalweg_reader::Reader;
use thalweg_types::{Error, ErrorKind, Result};

/// The group of the format.
const ROOT: &str = "VTKHDF";
/// Names of VTK's axes.
const AXES: [&str; 3] = ["X", "Y", "Z"];

/// The content of a view of one mesh.
///
/// - `mesh`: its name; `None` for that of the first variable with one, or a grid without a mesh if there is none.
///
/// # Errors
/// `NotFound` if no variable is on the mesh; `Unsupported` if VTK cannot have it, with the reason; errors of [`hdf5::view`].
/// # Cost
/// As [`hdf5::view`].
pub fn view(reader: &Reader, mesh: Option<&str>) -> Result<View> {
    let whole = hdf5::view(reader)?;
    let mut facts = Facts::default();
    for head in reader.attributes() {
        facts.add(&head.name, &reader.attribute(&head.name)?.value);
    }
    facts.is_fortran = match reader.variables().first() {
        Some(head) => reader.is_fortran(&head.group)?,
        None => false,
    };
    of(whole, &facts, mesh)
}

fn refused(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, why)
}

/// The view of a mesh, from all of a file's arrays.
fn of(whole: View, facts: &Facts, wanted: Option<&str>) -> Result<View> {
    let View { mut plan, mut left_out, .. } = whole;
    // VTK reads a single step as none.
    for dataset in plan.datasets.iter_mut().filter(|dataset| dataset.is_unlimited && dataset.shape[0] == 1) {
        without_steps(dataset);
    }
    let mesh = match wanted {
        Some(mesh) => Some(mesh),
        None => plan.datasets.iter().find_map(|dataset| facts.mesh_of(&dataset.name)),
    };
    let arrays: Vec<mesh::Array<'_>> = plan
        .datasets
        .iter()
        .map(|dataset| {
            let Dataset { name, kind, .. } = dataset;
            mesh::Array { name, kind: *kind, space: space_of(dataset), is_field: is_field(dataset) }
        })
        .collect();
    let number = |name: &str| {
        let at = mesh::named(plan.datasets.iter().map(|dataset| dataset.name.as_str()), name)?;
        let dataset = &plan.datasets[at];
        match &dataset.content {
            Elements::Values(values) => values.number_of(dataset.kind),
            _ => None,
        }
    };
    let Grid { first, geometry, points, fields, left_out: unfit } = mesh::grid(&arrays, facts, &number, mesh)?;
    left_out.extend(unfit);
    if mesh.is_some() {
        let others = plan.datasets.iter().filter_map(|dataset| {
            let other = facts.mesh_of(&dataset.name).filter(|other| Some(*other) != mesh)?;
            let why = format!("it is on the mesh {other}: --mesh {other}");
            Some(LeftOut { name: dataset.name.clone(), why })
        });
        left_out.extend(others);
    }
    let steps = steps_of(&plan.datasets[first]);
    let mut made = Made::new(&plan);
    made.geometry(&geometry, &points, steps)?;
    for field in &fields {
        let dataset = &plan.datasets[field.array];
        if steps_of(dataset) == steps {
            made.field(field, dataset, steps, matches!(geometry, Geometry::Unstructured { .. }))?;
        } else {
            let why = "it is in other steps than the first variable of the grid".to_string();
            left_out.push(LeftOut { name: dataset.name.clone(), why });
        }
    }
    Ok(made.finish(steps, left_out))
}

/// Extents without the axis of steps.
fn space_of(dataset: &Dataset) -> &[u64] {
    &dataset.shape[usize::from(dataset.is_unlimited)..]
}

/// Takes the axis of a single step away.
fn without_steps(dataset: &mut Dataset) {
    dataset.is_unlimited = false;
    dataset.shape.remove(0);
    if !dataset.axes.is_empty() {
        dataset.axes.remove(0);
    }
    if let Elements::Boxes(runs) = &mut dataset.content {
        for run in runs {
            run.offset.remove(0);
            run.count.remove(0);
        }
    }
}

/// The dataset with the numbers of steps that a dataset has, and their number.
fn steps_of(dataset: &Dataset) -> Option<(&str, u64)> {
    let axis = dataset.axes.first().filter(|_| dataset.is_unlimited)?;
    Some((axis, dataset.shape[0]))
}

/// Whether a dataset without a mesh can be at the points of a grid.
fn is_field(dataset: &Dataset) -> bool {
    matches!(dataset.content, Elements::Block(_) | Elements::Boxes(_))
        && mesh::is_number(dataset.kind)
        && (1..=3).contains(&space_of(dataset).len())
        && dataset.scale.is_none()
}

/// What has been planned.
struct Made<'p> {
    plan: &'p Plan,
    sources: Vec<Source>,
    datasets: Vec<Dataset>,
    attributes: Vec<Attribute>,
    /// `PointData` or `CellData`, for each array there.
    fields: Vec<&'static str>,
}

impl<'p> Made<'p> {
    fn new(plan: &'p Plan) -> Made<'p> {
        let sources = plan.sources.clone();
        Made { plan, sources, datasets: Vec::new(), attributes: Vec::new(), fields: Vec::new() }
    }

    /// The grid itself: attributes of the group, coordinates.
    ///
    /// - `points`: slowest axis first.
    fn geometry(&mut self, geometry: &Geometry, points: &[u64], steps: Option<(&str, u64)>) -> Result<()> {
        let extents: Vec<u64> = (0..3).map(|axis| points.iter().rev().nth(axis).copied().unwrap_or(1)).collect();
        match geometry {
            Geometry::Rectilinear { coordinates } => {
                self.head("RectilinearGrid", 8);
                self.attributes.push(integers("Dimensions", &extents));
                for (axis, own) in AXES.iter().enumerate() {
                    match coordinates.get(axis) {
                        Some(at) => self.coordinates(own, &self.plan.datasets[*at], extents[axis], steps)?,
                        None => self.values(&format!("{own}Coordinates"), Kind::Real(8, IS_BIG), &0f64.to_ne_bytes()),
                    }
                    if let Some((_, count)) = steps
                        && coordinates.len() <= axis
                    {
                        self.offsets(&format!("Steps/{own}CoordinatesOffsets"), count, 0);
                    }
                }
            }
            Geometry::Structured { points: arrays } => {
                self.head("StructuredGrid", 8);
                self.attributes.push(integers("Dimensions", &extents));
                self.structured(arrays, points, steps)?;
            }
            Geometry::Unstructured { points: arrays, cells } => {
                self.head("UnstructuredGrid", 0);
                self.cloud(arrays, points[0], steps)?;
                self.cells(cells, steps)?;
                self.number("NumberOfPoints", points[0]);
            }
            Geometry::Uniform { origin, spacing } => {
                self.head("ImageData", 0);
                let whole: Vec<u64> = extents.iter().flat_map(|extent| [0, extent - 1]).collect();
                self.attributes.push(integers("WholeExtent", &whole));
                self.attributes.push(reals("Origin", origin));
                self.attributes.push(reals("Spacing", spacing));
                self.attributes.push(reals("Direction", &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]));
            }
        }
        Ok(())
    }

    /// - `minor`: the version 2.`minor` of the format has this type.
    fn head(&mut self, kind: &str, minor: u64) {
        self.attributes.push(integers("Version", &[2, minor]));
        let (key, length) = ("Type".to_string(), None);
        let values = Values::of_bytes(kind.as_bytes());
        self.attributes.push(Attribute { key, kind: Kind::Word(kind.len() as u64), length, values });
    }

    /// The coordinates of an axis: those of all steps, one after the other.
    fn coordinates(&mut self, axis: &str, of: &Dataset, extent: u64, steps: Option<(&str, u64)>) -> Result<()> {
        let mut made = Dataset { name: format!("{ROOT}/{axis}Coordinates"), ..bare(of) };
        if of.is_unlimited {
            made.shape = vec![times(of, extent)?];
            if let Elements::Boxes(runs) = &mut made.content {
                runs.iter_mut().for_each(|run| join_first_axes(run, extent));
            }
            made.is_unlimited = false;
        }
        self.datasets.push(made);
        if let Some((_, count)) = steps {
            let distance = self.per_step(of, steps)? * extent;
            self.offsets(&format!("Steps/{axis}CoordinatesOffsets"), count, distance);
        }
        Ok(())
    }

    /// 1 if geometry is written in each step that data are written in, 0 if it has no steps.
    fn per_step(&self, of: &Dataset, steps: Option<(&str, u64)>) -> Result<u64> {
        match steps_of(of) {
            None => Ok(0),
            Some(own) if Some(own) == steps => Ok(1),
            Some(_) => Err(refused(format!("the variable '{}' of the mesh is in other steps than the data", of.name))),
        }
    }

    fn structured(&mut self, arrays: &Points, points: &[u64], steps: Option<(&str, u64)>) -> Result<()> {
        let (parts, is_apart) = self.parts(arrays)?;
        let first = parts[0];
        let lead = usize::from(first.is_unlimited);
        let mut runs = Vec::new();
        for (component, part) in parts.iter().enumerate() {
            for mut run in self.runs(part)? {
                for _ in points.len()..3 {
                    run.offset.insert(lead, 0);
                    run.count.insert(lead, 1);
                }
                if is_apart {
                    run.offset.push(component as u64);
                    run.count.push(1);
                }
                runs.push(run);
            }
        }
        let mut shape: Vec<u64> = first.shape[..lead].to_vec();
        shape.extend(std::iter::repeat_n(1, 3 - points.len()));
        shape.extend_from_slice(points);
        shape.push(3);
        let content = Elements::Boxes(runs);
        // Components that the mesh does not have are 0.
        let made = Dataset { name: format!("{ROOT}/Points"), shape, content, is_nan_missing: false, ..bare(first) };
        self.datasets.push(made);
        if let Some((_, count)) = steps {
            let distance = self.per_step(first, steps)?;
            self.offsets("Steps/PointOffsets", count, distance);
        }
        Ok(())
    }

    /// The datasets with points, in the same steps, and whether each has one component.
    fn parts(&self, arrays: &Points) -> Result<(Vec<&'p Dataset>, bool)> {
        let plan = self.plan;
        let is_apart = matches!(arrays, Points::Apart(_));
        let parts: Vec<&Dataset> = arrays.arrays().iter().map(|at| &plan.datasets[*at]).collect();
        let first = parts[0];
        if let Some(part) = parts.iter().find(|part| steps_of(part) != steps_of(first)) {
            let (own, other) = (&part.name, &first.name);
            return Err(refused(format!("the variables '{own}' and '{other}' of the mesh are in different steps")));
        }
        Ok((parts, is_apart))
    }

    /// The points of an unstructured grid: those of all steps, one after the other.
    fn cloud(&mut self, arrays: &Points, count: u64, steps: Option<(&str, u64)>) -> Result<()> {
        let (parts, is_apart) = self.parts(arrays)?;
        let first = parts[0];
        let mut runs = Vec::new();
        for (component, part) in parts.iter().enumerate() {
            for mut run in self.runs(part)? {
                if !is_apart && space_of(part).len() == 1 {
                    split_last_axis(&mut run, space_of(part)[0] / count).ok_or_else(|| odd(part, "points"))?;
                }
                if is_apart {
                    run.offset.push(component as u64);
                    run.count.push(1);
                }
                if part.is_unlimited {
                    join_first_axes(&mut run, count);
                }
                runs.push(run);
            }
        }
        let all = times(first, count)?;
        let content = Elements::Boxes(runs);
        // Components that the mesh does not have are 0.
        let name = format!("{ROOT}/Points");
        self.datasets.push(Dataset { name, shape: vec![all, 3], content, is_nan_missing: false, ..bare(first) });
        if let Some((_, steps_count)) = steps {
            let distance = self.per_step(first, steps)? * count;
            self.offsets("Steps/PointOffsets", steps_count, distance);
        }
        Ok(())
    }

    /// The cells of an unstructured grid: one set behind the other, and the lists of all steps one after the other.
    fn cells(&mut self, sets: &[Cells], steps: Option<(&str, u64)>) -> Result<()> {
        let plan = self.plan;
        let first = &plan.datasets[sets[0].array];
        let too_many = || refused("a mesh with too many cells");
        let listed = |all: u64, set: &Cells| set.count.checked_mul(set.points)?.checked_add(all);
        let each = sets.iter().try_fold(0, listed).ok_or_else(too_many)?;
        let (mut runs, mut before) = (Vec::new(), 0);
        for set in sets {
            let part = &plan.datasets[set.array];
            if steps_of(part) != steps_of(first) || part.kind != first.kind {
                let (own, other) = (&part.name, &first.name);
                return Err(refused(format!(
                    "the variables '{own}' and '{other}' of the mesh are of different types or in different steps"
                )));
            }
            for mut run in self.runs(part)? {
                if space_of(part).len() == 2 {
                    join_last_axes(&mut run, set.points).ok_or_else(|| odd(part, "cells"))?;
                }
                if part.is_unlimited {
                    // The lists of a step lie behind those of all sets of the steps before.
                    join_first_axes(&mut run, each);
                }
                run.offset[0] += before;
                runs.push(run);
            }
            before += set.count * set.points;
        }
        let (name, shape) = (format!("{ROOT}/Connectivity"), vec![times(first, each)?]);
        self.datasets.push(Dataset {
            name,
            shape,
            content: Elements::Boxes(runs),
            is_nan_missing: false,
            ..bare(first)
        });
        let count: u64 = sets.iter().map(|set| set.count).sum();
        let (mut offsets, mut types, mut end) = (vec![Row { first: 0, every: 0, count: 1 }], Vec::new(), 0);
        for set in sets {
            offsets.push(Row { first: end + set.points, every: set.points, count: set.count });
            types.push(Row { first: u64::from(set.kind), every: 0, count: set.count });
            end += set.count * set.points;
        }
        let integer = Kind::Integer(8, true, IS_BIG);
        for (name, kind, length, rows) in
            [("Offsets", integer, count + 1, offsets), ("Types", Kind::Integer(1, false, IS_BIG), count, types)]
        {
            let content = Elements::Rows(rows);
            self.datasets.push(Dataset::read(format!("{ROOT}/{name}"), kind, vec![length], content));
        }
        self.number("NumberOfCells", count);
        self.number("NumberOfConnectivityIds", each);
        if let Some((_, steps_count)) = steps {
            let distance = self.per_step(first, steps)? * each;
            self.offsets("Steps/ConnectivityIdOffsets", steps_count, distance);
            // Numbers and types of cells are those of all steps.
            self.offsets("Steps/CellOffsets", steps_count, 0);
            self.offsets("Steps/PartOffsets", steps_count, 0);
            let ones: Vec<u8> = (0..steps_count).flat_map(|_| 1i64.to_ne_bytes()).collect();
            self.values("Steps/NumberOfParts", integer, &ones);
        }
        Ok(())
    }

    fn number(&mut self, name: &str, number: u64) {
        self.values(name, Kind::Integer(8, true, IS_BIG), &(number as i64).to_ne_bytes());
    }

    /// The runs of a dataset, also of one of one block.
    fn runs(&mut self, of: &Dataset) -> Result<Vec<Mapping>> {
        match &of.content {
            Elements::Boxes(runs) => Ok(runs.clone()),
            Elements::Block(place) => {
                let (size, elements) = (of.kind.size(), of.shape.iter().product());
                let (phase, first) = (place.offset % size, place.offset / size);
                let kind = of.kind;
                self.sources.push(Source {
                    file: place.file,
                    phase,
                    kind,
                    is_enumeration: false,
                    elements: first + elements,
                });
                Ok(vec![Mapping {
                    offset: vec![0; of.shape.len()],
                    count: of.shape.clone(),
                    times: 1,
                    every: 1,
                    source: self.sources.len() - 1,
                    first,
                    stride: elements,
                }])
            }
            _ => Err(refused(format!("the variable '{}' of the mesh has no blocks", of.name))),
        }
    }

    /// An array at the points or cells of the grid.
    ///
    /// - `is_list`: of an unstructured grid, where the arrays of all steps are one.
    fn field(&mut self, field: &Field, of: &Dataset, steps: Option<(&str, u64)>, is_list: bool) -> Result<()> {
        let (group, own) = (field.at.group(), &field.name);
        let mut made = Dataset {
            name: format!("{ROOT}/{group}/{own}"),
            is_unlimited: of.is_unlimited,
            attributes: of.attributes.iter().filter(|one| !one.key.starts_with("adios_schema")).cloned().collect(),
            ..bare(of)
        };
        let mut distance = 1;
        if is_list && of.is_unlimited {
            distance = space_of(of)[0];
            made.shape = [&[times(of, distance)?], &space_of(of)[1..]].concat();
            if let Elements::Boxes(runs) = &mut made.content {
                runs.iter_mut().for_each(|run| join_first_axes(run, distance));
            }
            made.is_unlimited = false;
        }
        self.datasets.push(made);
        if let Some((_, count)) = steps {
            self.offsets(&format!("Steps/{group}Offsets/{own}"), count, distance);
        }
        self.fields.push(group);
        Ok(())
    }

    /// Positions of steps in a dataset: multiples of `distance`.
    fn offsets(&mut self, name: &str, steps: u64, distance: u64) {
        let bytes: Vec<u8> = (0..steps).flat_map(|step| ((step * distance) as i64).to_ne_bytes()).collect();
        self.values(name, Kind::Integer(8, true, IS_BIG), &bytes);
    }

    /// A dataset of one axis with values.
    fn values(&mut self, name: &str, kind: Kind, bytes: &[u8]) {
        self.datasets.push(Dataset {
            name: format!("{ROOT}/{name}"),
            kind,
            shape: vec![bytes.len() as u64 / kind.size()],
            is_unlimited: false,
            is_nan_missing: false,
            content: Elements::Values(Values::of_bytes(bytes)),
            scale: None,
            axes: Vec::new(),
            attributes: Vec::new(),
            stored: Stored::default(),
        });
    }

    fn finish(mut self, steps: Option<(&str, u64)>, left_out: Vec<LeftOut>) -> View {
        let mut groups = vec![Group { name: ROOT.into(), attributes: std::mem::take(&mut self.attributes) }];
        groups.extend(["PointData", "CellData"].map(|name| Group::bare(format!("{ROOT}/{name}"))));
        if let Some((axis, count)) = steps {
            let name = format!("{ROOT}/Steps");
            let attribute = Attribute { length: None, ..integers("NSteps", &[count]) };
            groups.push(Group { name: name.clone(), attributes: vec![attribute] });
            let named = self.plan.datasets.iter().find(|dataset| dataset.name == axis);
            let numbers = named.and_then(|dataset| match &dataset.content {
                Elements::Values(values) => values.bytes(),
                _ => None,
            });
            // The numbers of steps are 64-bit integers of this machine; without them, steps are counted.
            let counted = || (0..count).map(|step| step as f64).collect::<Vec<_>>();
            let times = numbers.filter(|bytes| bytes.len() as u64 == 8 * count).map_or_else(counted, |bytes| {
                bytes.chunks_exact(8).map(|one| i64::from_ne_bytes(one.try_into().expect("8 bytes")) as f64).collect()
            });
            let bytes: Vec<u8> = times.iter().flat_map(|time| time.to_ne_bytes()).collect();
            self.values("Steps/Values", Kind::Real(8, IS_BIG), &bytes);
            for group in ["PointData", "CellData"] {
                if self.fields.contains(&group) {
                    groups.push(Group::bare(format!("{name}/{group}Offsets")));
                }
            }
        }
        // Sources of other arrays are not needed.
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        let mut sources = Vec::new();
        for dataset in &mut self.datasets {
            let Elements::Boxes(runs) = &mut dataset.content else { continue };
            for run in runs {
                run.source = *numbers.entry(run.source).or_insert_with(|| {
                    sources.push(self.sources[run.source].clone());
                    sources.len() - 1
                });
            }
        }
        let blocks = self.datasets.iter().map(|dataset| dataset.content.blocks()).sum();
        let plan = Plan {
            files: self.plan.files.clone(),
            groups,
            datasets: self.datasets,
            sources,
            blocks: ".blocks".into(),
            attributes: Vec::new(),
        };
        View { plan, arrays: self.fields.len() as u64, blocks, left_out }
    }
}

/// A dataset without names of axes, attributes and an unlimited axis.
fn bare(of: &Dataset) -> Dataset {
    Dataset { scale: None, axes: Vec::new(), attributes: Vec::new(), is_unlimited: false, ..of.clone() }
}

/// Joins the axis of steps with the next one, of this extent.
fn join_first_axes(run: &mut Mapping, extent: u64) {
    let (step, steps) = (run.offset.remove(0), run.count.remove(0));
    debug_assert_eq!(steps, 1, "blocks of arrays with steps have one step");
    run.offset[0] += step * extent;
    run.every *= extent;
}

/// Elements of all steps of a dataset that has so many in each.
fn times(of: &Dataset, each: u64) -> Result<u64> {
    let steps = if of.is_unlimited { of.shape[0] } else { 1 };
    let all = steps.checked_mul(each).filter(|all| *all <= i64::MAX as u64);
    all.ok_or_else(|| refused(format!("the variable '{}' has too many elements", of.name)))
}

fn odd(of: &Dataset, what: &str) -> Error {
    refused(format!("blocks of the variable '{}' end within its {what}", of.name))
}

/// Joins the last axis, of this extent, with the one before; `None` if the run has only a part of it.
fn join_last_axes(run: &mut Mapping, extent: u64) -> Option<()> {
    let (offset, count) = (run.offset.pop()?, run.count.pop()?);
    if offset != 0 || count != extent {
        return None;
    }
    *run.offset.last_mut()? *= extent;
    *run.count.last_mut()? *= extent;
    if run.offset.len() == 1 {
        run.every *= extent;
    }
    Some(())
}

/// Makes two axes of the last one, of which the second one has this extent; `None` if the run begins or ends within it.
fn split_last_axis(run: &mut Mapping, extent: u64) -> Option<()> {
    let is_only = run.offset.len() == 1;
    let (offset, count) = (run.offset.last_mut()?, run.count.last_mut()?);
    if !offset.is_multiple_of(extent) || !count.is_multiple_of(extent) {
        return None;
    }
    *offset /= extent;
    *count /= extent;
    if is_only && run.times > 1 {
        if !run.every.is_multiple_of(extent) {
            return None;
        }
        run.every /= extent;
    }
    run.offset.push(0);
    run.count.push(extent);
    Some(())
}

const IS_BIG: bool = cfg!(target_endian = "big");

fn integers(key: &str, values: &[u64]) -> Attribute {
    let bytes: Vec<u8> = values.iter().flat_map(|value| (*value as i64).to_ne_bytes()).collect();
    let length = Some(values.len() as u64);
    Attribute { key: key.into(), kind: Kind::Integer(8, true, IS_BIG), length, values: Values::of_bytes(&bytes) }
}

fn reals(key: &str, values: &[f64]) -> Attribute {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let length = Some(values.len() as u64);
    Attribute { key: key.into(), kind: Kind::Real(8, IS_BIG), length, values: Values::of_bytes(&bytes) }
}
