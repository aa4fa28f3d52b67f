//! The content of a view for VTK: an HDF5 file with a group `VTKHDF`, one grid with arrays at its points and cells.
//!
//! | mesh of the file | `Type` | geometry |
//! |---|---|---|
//! | uniform | `ImageData` | `WholeExtent`, `Origin`, `Spacing` |
//! | rectilinear | `RectilinearGrid` | `XCoordinates`, `YCoordinates`, `ZCoordinates`: variables, in place |
//! | structured | `StructuredGrid` | `Points`: one variable per component, or one of all, in place |
//! | none | `ImageData` | origin 0, spacing 1; all arrays with the shape of the first one are at its points |
//!
//! It is the plan of [`crate::hdf5`] with datasets that have other names and axes: axes of extent 1 and an axis of components are added to
//! boxes, or the axis of steps is joined with the next one, without another order of their elements. The slowest axis is VTK's last one.
//! A mesh in a group written by Fortran lists its axes fastest first.
//!
//! Source: Kitware, VTKHDF file format specification, version 2; what `vtkHDFWriter` of VTK 9.7 writes.

use crate::LeftOut;
use crate::hdf5::{self, Attribute, Dataset, Elements, Group, Kind, Mapping, Plan, Source, Stored, Values, View};
use std::collections::{HashMap, HashSet};
use thalweg_reader::Reader;
use thalweg_types::{AttributeValue, Error, ErrorKind, Result, Value};

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
    let mut facts = HashMap::new();
    for head in reader.attributes() {
        let text = match reader.attribute(&head.name)?.value {
            AttributeValue::One(Value::String(text)) => String::from_utf8_lossy(&text).into_owned(),
            AttributeValue::One(value) => value.to_string(),
            _ => continue,
        };
        facts.insert(head.name.trim_matches('/').to_string(), text);
    }
    let first = reader.variables().first();
    let is_fortran = match first {
        Some(head) => reader.is_fortran(&head.group)?,
        None => false,
    };
    of(whole, &Facts { texts: facts, is_fortran }, mesh)
}

/// What attributes say.
#[derive(Debug, Default)]
pub struct Facts {
    /// Attributes of the file and of its variables, by full name without slashes at its ends.
    pub texts: HashMap<String, String>,
    /// Lists of axes are fastest first.
    pub is_fortran: bool,
}

impl Facts {
    fn text(&self, mesh: &str, what: &str) -> Option<&str> {
        self.texts.get(&format!("adios_schema/{mesh}/{what}")).map(String::as_str)
    }

    /// A list with an entry for each axis, slowest first.
    fn list(&self, mesh: &str, what: &str) -> Vec<&str> {
        let mut all: Vec<&str> = (0..).map_while(|number| self.text(mesh, &format!("{what}{number}"))).collect();
        if self.is_fortran {
            all.reverse();
        }
        all
    }
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
    let mesh_of = |dataset: &Dataset| facts.texts.get(&format!("{}/adios_schema", dataset.name)).cloned();
    let mesh = match wanted {
        Some(mesh) => Some(mesh.to_string()),
        None => plan.datasets.iter().find_map(mesh_of),
    };
    let mut made = Made::new(&plan, facts);
    let on_mesh: Vec<&Dataset> = match &mesh {
        Some(mesh) => plan.datasets.iter().filter(|dataset| mesh_of(dataset).as_ref() == Some(mesh)).collect(),
        None => plan.datasets.iter().filter(|dataset| is_field(dataset)).collect(),
    };
    let Some(first) = on_mesh.first() else {
        let what = match &mesh {
            Some(mesh) => format!("no variable that the view can show is on the mesh '{mesh}'"),
            None => "the file has no array of one to three axes that VTK can read".to_string(),
        };
        return Err(Error::new(ErrorKind::NotFound, what));
    };
    let points = match &mesh {
        Some(mesh) => made.points(mesh, &on_mesh)?,
        None => space_of(first).to_vec(),
    };
    if points.is_empty() || points.len() > 3 || points.contains(&0) {
        return Err(refused(format!("a grid of VTK has one to three axes, not the shape {points:?}")));
    }
    let steps = steps_of(first);
    made.geometry(mesh.as_deref(), &points, steps)?;
    for dataset in &plan.datasets {
        let why = if on_mesh.iter().any(|one| one.name == dataset.name) {
            made.field(dataset, mesh.as_deref(), &points, steps).err()
        } else {
            mesh_of(dataset).map(|other| format!("it is on the mesh {other}: --mesh {other}"))
        };
        left_out.extend(why.map(|why| LeftOut { name: dataset.name.clone(), why }));
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
        && matches!(dataset.kind, Kind::Integer(..) | Kind::Real(..))
        && (1..=3).contains(&space_of(dataset).len())
        && dataset.scale.is_none()
}

/// What has been planned.
struct Made<'p> {
    plan: &'p Plan,
    facts: &'p Facts,
    named: HashMap<&'p str, &'p Dataset>,
    sources: Vec<Source>,
    datasets: Vec<Dataset>,
    attributes: Vec<Attribute>,
    /// `PointData` or `CellData`, and the names of the arrays there.
    fields: Vec<(&'static str, String)>,
    taken: HashSet<String>,
}

impl<'p> Made<'p> {
    fn new(plan: &'p Plan, facts: &'p Facts) -> Made<'p> {
        let named = plan.datasets.iter().map(|dataset| (dataset.name.as_str(), dataset)).collect();
        Made {
            plan,
            facts,
            named,
            sources: plan.sources.clone(),
            datasets: Vec::new(),
            attributes: Vec::new(),
            fields: Vec::new(),
            taken: HashSet::new(),
        }
    }

    fn variable(&self, name: &str) -> Result<&'p Dataset> {
        let dataset = self.named.get(name.trim_matches('/')).copied();
        let is_number = |dataset: &&Dataset| matches!(dataset.kind, Kind::Integer(..) | Kind::Real(..));
        dataset
            .filter(is_number)
            .ok_or_else(|| refused(format!("the mesh needs the variable '{name}', which the view cannot show")))
    }

    /// A number, or the first value of the variable of this name.
    fn number(&self, text: &str) -> Result<f64> {
        if let Ok(number) = text.parse() {
            return Ok(number);
        }
        let dataset = self.variable(text)?;
        let value = match &dataset.content {
            Elements::Values(values) => values.bytes().and_then(|bytes| first_of(dataset.kind, &bytes)),
            _ => None,
        };
        value.ok_or_else(|| refused(format!("the mesh needs the number '{text}', which is no scalar")))
    }

    /// Numbers of points along each axis, slowest first.
    fn points(&self, mesh: &str, on_mesh: &[&Dataset]) -> Result<Vec<u64>> {
        let kind = self.facts.text(mesh, "type");
        if !matches!(kind, Some("uniform" | "rectilinear" | "structured")) {
            return Err(refused(format!(
                "the mesh '{mesh}' is {}; a view shows uniform, rectilinear and structured ones",
                kind.unwrap_or("not described in this file")
            )));
        }
        let given = self.facts.list(mesh, "dimensions");
        if !given.is_empty() {
            return given.iter().map(|text| Ok(self.number(text)? as u64)).collect();
        }
        let at_points = on_mesh.iter().find(|dataset| self.centering(dataset) != Some("cell"));
        let shape = at_points.map(|dataset| space_of(dataset).to_vec());
        shape.ok_or_else(|| refused(format!("the mesh '{mesh}' has no dimensions")))
    }

    fn centering(&self, dataset: &Dataset) -> Option<&'p str> {
        self.facts.texts.get(&format!("{}/adios_schema/centering", dataset.name)).map(String::as_str)
    }

    /// The grid itself: attributes of the group, coordinates.
    ///
    /// - `points`: slowest axis first.
    fn geometry(&mut self, mesh: Option<&str>, points: &[u64], steps: Option<(&str, u64)>) -> Result<()> {
        let kind = mesh.and_then(|mesh| self.facts.text(mesh, "type")).unwrap_or("uniform");
        let extents: Vec<u64> = (0..3).map(|axis| points.iter().rev().nth(axis).copied().unwrap_or(1)).collect();
        let mesh = mesh.unwrap_or_default();
        match kind {
            "rectilinear" => {
                self.head("RectilinearGrid", 8);
                self.attributes.push(integers("Dimensions", &extents));
                let mut names = self.facts.list(mesh, "coords-multi-var");
                if points.len() == 1 {
                    names.extend(self.facts.text(mesh, "coords-single-var"));
                }
                if names.len() != points.len() {
                    return Err(refused(format!(
                        "the mesh '{mesh}' has not one variable with coordinates for each of its {} axes",
                        points.len()
                    )));
                }
                for (axis, own) in AXES.iter().enumerate() {
                    match names.iter().rev().nth(axis) {
                        Some(name) => self.coordinates(own, self.variable(name)?, extents[axis], steps)?,
                        None => self.values(&format!("{own}Coordinates"), Kind::Real(8, IS_BIG), &0f64.to_ne_bytes()),
                    }
                    if let Some((_, count)) = steps
                        && names.len() <= axis
                    {
                        self.offsets(&format!("Steps/{own}CoordinatesOffsets"), count, 0);
                    }
                }
            }
            "structured" => {
                self.head("StructuredGrid", 8);
                self.attributes.push(integers("Dimensions", &extents));
                self.structured(mesh, points, steps)?;
            }
            _ => {
                self.head("ImageData", 0);
                let whole: Vec<u64> = extents.iter().flat_map(|extent| [0, extent - 1]).collect();
                self.attributes.push(integers("WholeExtent", &whole));
                let numbers = |what: &str, missing: f64| -> Result<Vec<f64>> {
                    let mut all = vec![missing; 3];
                    for (own, text) in all.iter_mut().zip(self.facts.list(mesh, what).iter().rev()) {
                        *own = self.number(text)?;
                    }
                    Ok(all)
                };
                let origin = numbers("origins", 0.0)?;
                let (mut spacing, last) = (numbers("spacings", f64::NAN)?, numbers("maximums", f64::NAN)?);
                for axis in 0..3 {
                    if spacing[axis].is_nan() {
                        let between = (last[axis] - origin[axis]) / (extents[axis] - 1) as f64;
                        spacing[axis] = if between.is_finite() { between } else { 1.0 };
                    }
                }
                self.attributes.push(reals("Origin", &origin));
                self.attributes.push(reals("Spacing", &spacing));
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
        let name = &of.name;
        if space_of(of) != [extent] {
            return Err(refused(format!("the variable '{name}' has not a coordinate for each of {extent} points")));
        }
        let mut made = Dataset { name: format!("{ROOT}/{axis}Coordinates"), ..bare(of) };
        if of.is_unlimited {
            let all = of.shape[0].checked_mul(extent).filter(|all| *all <= i64::MAX as u64);
            made.shape = vec![all.ok_or_else(|| refused(format!("the variable '{name}' has too many coordinates")))?];
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

    fn structured(&mut self, mesh: &str, points: &[u64], steps: Option<(&str, u64)>) -> Result<()> {
        let one = self.facts.text(mesh, "points-single-var");
        // On one axis, it may be the x components alone.
        let is_x = |name: &&str| points.len() == 1 && self.variable(name).is_ok_and(|found| space_of(found) == points);
        let single = one.filter(|name| !is_x(name));
        let names = match one {
            Some(name) => vec![name],
            // Components, not axes: x is the first one in all languages.
            None => (0..).map_while(|n| self.facts.text(mesh, &format!("points-multi-var{n}"))).collect(),
        };
        let parts: Vec<&Dataset> = names.iter().map(|name| self.variable(name)).collect::<Result<_>>()?;
        let Some(first) = parts.first().filter(|_| parts.len() <= 3) else {
            return Err(refused(format!("the mesh '{mesh}' has not one to three variables with points")));
        };
        let lead = usize::from(first.is_unlimited);
        let mut runs = Vec::new();
        for (component, part) in parts.iter().enumerate() {
            let mut wanted = points.to_vec();
            wanted.extend(single.map(|_| 3));
            if space_of(part) != wanted || steps_of(part) != steps_of(first) {
                let what = format!("the variable '{}' has not the points of the mesh '{mesh}': {wanted:?}", part.name);
                return Err(refused(what));
            }
            for mut run in self.runs(part)? {
                for _ in points.len()..3 {
                    run.offset.insert(lead, 0);
                    run.count.insert(lead, 1);
                }
                if single.is_none() {
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

    /// An array at the points or cells of the grid, or the reason why it is none.
    fn field(
        &mut self,
        of: &Dataset,
        mesh: Option<&str>,
        points: &[u64],
        steps: Option<(&str, u64)>,
    ) -> std::result::Result<(), String> {
        let cells: Vec<u64> = points.iter().map(|extent| extent - 1).collect();
        let space = space_of(of);
        let group = match mesh.and_then(|_| self.centering(of)) {
            Some("cell") if space == cells => "CellData",
            Some("point") | None if space == points => "PointData",
            None if mesh.is_some() && space == cells => "CellData",
            _ => {
                return Err(format!(
                    "its shape {space:?} is not that of the grid's points {points:?}, nor of its cells"
                ));
            }
        };
        if !matches!(of.kind, Kind::Integer(..) | Kind::Real(..)) {
            return Err("VTK has no such type".into());
        }
        if steps_of(of) != steps {
            return Err("it is in other steps than the first variable of the grid".into());
        }
        let mut own = of.name.replace(['/', '.'], "_");
        while !self.taken.insert(format!("{group}/{own}")) {
            own.push('_');
        }
        self.datasets.push(Dataset {
            name: format!("{ROOT}/{group}/{own}"),
            is_unlimited: of.is_unlimited,
            attributes: of.attributes.iter().filter(|one| !one.key.starts_with("adios_schema")).cloned().collect(),
            ..bare(of)
        });
        if let Some((_, count)) = steps {
            self.offsets(&format!("Steps/{group}Offsets/{own}"), count, 1);
        }
        self.fields.push((group, own));
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
            let numbers = self.named.get(axis).and_then(|dataset| match &dataset.content {
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
                if self.fields.iter().any(|(own, _)| *own == group) {
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

/// The first number of values in this machine's byte order.
fn first_of(kind: Kind, bytes: &[u8]) -> Option<f64> {
    macro_rules! read {
        ($type:ty) => {
            <$type>::from_ne_bytes(bytes.get(..size_of::<$type>())?.try_into().ok()?) as f64
        };
    }
    Some(match kind {
        Kind::Integer(1, true, _) => read!(i8),
        Kind::Integer(2, true, _) => read!(i16),
        Kind::Integer(4, true, _) => read!(i32),
        Kind::Integer(8, true, _) => read!(i64),
        Kind::Integer(1, false, _) => read!(u8),
        Kind::Integer(2, false, _) => read!(u16),
        Kind::Integer(4, false, _) => read!(u32),
        Kind::Integer(8, false, _) => read!(u64),
        Kind::Real(4, _) => read!(f32),
        Kind::Real(8, _) => read!(f64),
        _ => return None,
    })
}
