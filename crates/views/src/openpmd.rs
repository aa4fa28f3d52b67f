//! The records and attributes of the openPMD standard that meshes, variables and steps of a file are.
//!
//! | room | what it owns |
//! |---|---|
//! | this one | records, and the attributes of a series, of its iterations and of their records; pure |
//! | [`mod@file`] | the files of a view, as they lie beside the data |
//! | [`mod@unit`] | units as texts, and what they are in the SI; pure |
//! | [`view`] | the view of a file: a small BP file with these attributes and names, whose blocks are those of the file |
//!
//! | of the file | in openPMD |
//! |---|---|
//! | step | iteration of this number |
//! | array | mesh record; its name with `_` for what is neither letter nor digit |
//! | arrays `E/x`, `E/y`, `E/z`, or `E_x`, `E_y`, `E_z`, of one shape on one mesh (two at least) | record `E` with these components |
//! | uniform mesh | `geometry` cartesian, `gridSpacing`, `gridGlobalOffset`; `position` 0 at points, 0.5 in cells |
//! | rectilinear or structured mesh | `geometry` other, its variables in `geometryParameters`; openPMD has no other distances than equal ones |
//! | no mesh | distance 1, from 0 |
//! | attribute `units` of an array | `unitSI` and `unitDimension` |
//! | scalar with the time: `time-scale` of a mesh, else the one named `time`; scalar `dt` | `time` and `dt`; `timeUnitSI` from its `units` |
//! | other scalars and texts, other attributes | attributes of the iteration, of the record or component, of the series |
//! | attribute of an array or mesh with a name of the standard | that attribute, in place of the one above |
//!
//! Axes are slowest first (`dataOrder` C), with the names of `_ARRAY_DIMENSIONS`, else z, y, x from the fastest one on.
//!
//! Source: the openPMD standard, version 1.1.0; what openPMD-api 0.17 reads.

pub mod file;
pub mod unit;
pub mod view;

use crate::LeftOut;
use crate::arrays;
use crate::hdf5::Kind;
use crate::mesh::{self, Centering, Facts, Geometry};
use std::collections::{BTreeMap, HashMap, HashSet};
use thalweg_types::{AttributeValue, ByteOrder, ElementType, Value};
use unit::Unit;

/// Attributes with their names, in order.
pub type Attributes = Vec<(String, AttributeValue)>;

/// The version of the standard.
pub const VERSION: &str = "1.1.0";
/// Where the standard has iterations.
const BASE: &str = "/data/%T/";
/// Where records of meshes are, below an iteration.
pub const MESHES: &str = "meshes";

/// Attributes of a record that the standard has.
const OF_RECORDS: &[&str] = &[
    "geometry",
    "geometryParameters",
    "dataOrder",
    "axisLabels",
    "gridSpacing",
    "gridGlobalOffset",
    "gridUnitSI",
    "unitDimension",
    "timeOffset",
];
/// Those of a component.
const OF_COMPONENTS: &[&str] = &["position", "unitSI"];
/// Names of components, in their order.
const LABELS: [&str; 3] = ["x", "y", "z"];

/// An array of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Field<'a> {
    /// Full name, without a slash at its begin.
    pub name: &'a str,
    /// Type of its elements.
    pub element: ElementType,
    /// Extents, slowest axis first; at least one.
    pub space: &'a [u64],
    /// Names of its axes, where the file says them.
    pub labels: Option<&'a [String]>,
    /// Its attributes.
    pub attributes: &'a [(String, AttributeValue)],
}

/// A record of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// Its attributes; those of the component too, if it is one without a name.
    pub attributes: Attributes,
    /// Its components.
    pub components: Vec<Component>,
}

/// A component of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// Its name; `None` for the only one of a scalar record.
    pub label: Option<&'static str>,
    /// The array that it is, by its position.
    pub field: usize,
    /// Its attributes, if it has a name.
    pub attributes: Attributes,
}

impl Record {
    /// The name of a component's variable and of its attributes' path, below the records.
    pub fn path_of(&self, component: &Component) -> String {
        match component.label {
            Some(label) => format!("{}/{label}", self.name),
            None => self.name.clone(),
        }
    }
}

/// The time of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Time {
    /// Of the step.
    pub time: f64,
    /// Distance to the one before.
    pub dt: f64,
    /// A second is so many times their unit.
    pub unit_si: f64,
}

/// The attributes of a series.
///
/// - `of_file`: those of the file.
pub fn of_series(of_file: &[(String, AttributeValue)]) -> Attributes {
    let mut all = vec![
        ("openPMD".to_string(), text(VERSION)),
        ("openPMDextension".to_string(), AttributeValue::One(Value::U32(0))),
        ("basePath".to_string(), text(BASE)),
        ("meshesPath".to_string(), text(&format!("{MESHES}/"))),
        ("iterationEncoding".to_string(), text("groupBased")),
        ("iterationFormat".to_string(), text(BASE)),
        ("software".to_string(), text("Thalweg")),
        ("softwareVersion".to_string(), text(env!("CARGO_PKG_VERSION"))),
    ];
    let is_replaced = |name: &str| ["software", "softwareVersion"].contains(&name);
    for (name, value) in of_file.iter().filter(|(name, _)| !is_of_mesh_schema(name)) {
        if is_replaced(name) {
            all.retain(|(own, _)| own != name);
        }
        push_free(&mut all, &safe(name), value.clone());
    }
    all
}

/// The attributes of an iteration.
///
/// - `scalars`: scalars and texts of the step, by full name.
pub fn of_iteration(time: Time, scalars: &[(String, AttributeValue)]) -> Attributes {
    let number = |value| AttributeValue::One(Value::F64(value));
    let mut all = vec![
        ("time".to_string(), number(time.time)),
        ("dt".to_string(), number(time.dt)),
        ("timeUnitSI".to_string(), number(time.unit_si)),
    ];
    for (name, value) in scalars {
        let name = safe(name);
        // The scalars that the time is made of.
        let is = |own: f64| matches!(value, AttributeValue::One(one) if one.as_f64() == Some(own));
        if (name == "time" && is(time.time)) || (name == "dt" && is(time.dt)) {
            continue;
        }
        push_free(&mut all, &name, value.clone());
    }
    all
}

/// The records of a step.
///
/// - `number`: the value of a scalar of the step by its name, as a mesh gives it ([`mesh::named`]).
/// - `left_out`: gets what openPMD cannot hold, with the reason; the same again in each step.
pub fn records(
    fields: &[Field<'_>],
    facts: &Facts,
    number: &dyn Fn(&str) -> Option<f64>,
    left_out: &mut Vec<LeftOut>,
) -> Vec<Record> {
    let grids = grids(fields, facts, number, left_out);
    let mut taken = HashSet::new();
    let mut all = Vec::new();
    let of =
        |field: usize, key: &str| fields[field].attributes.iter().find(|(own, _)| own == key).map(|(_, value)| value);
    for (stem, members) in groups(fields, facts) {
        let name = free(safe(stem), &mut taken);
        let first = members[0].1;
        let own = Own { fields, facts, grid: grids[first].as_ref(), number };
        let mut attributes = own.record(first, left_out);
        let mut components = Vec::new();
        for (label, field) in members {
            let mut of_component = own.component(field, left_out);
            if label.is_none() {
                of_component.splice(0..0, std::mem::take(&mut attributes));
            }
            for (key, value) in fields[field].attributes.iter().filter(|(key, _)| key != "adios_schema") {
                if !is_standard(key) {
                    push_free(&mut of_component, &safe(key), value.clone());
                } else if OF_RECORDS.contains(&key.as_str()) && field != first && of(first, key) != Some(value) {
                    let why = "the components of a record have this attribute together: that of the first one is taken";
                    left_out.push(LeftOut { name: format!("{}/{key}", fields[field].name), why: why.into() });
                }
            }
            let (of_record, attributes_of) =
                if label.is_none() { (of_component, Vec::new()) } else { (attributes, of_component) };
            attributes = of_record;
            components.push(Component { label, field, attributes: attributes_of });
        }
        all.push(Record { name, attributes, components });
    }
    all
}

/// Arrays of one record: label and position of each.
type Members = Vec<(Option<&'static str>, usize)>;

/// The arrays of each record, with the begin of their names.
fn groups<'a>(fields: &[Field<'a>], facts: &Facts) -> Vec<(&'a str, Members)> {
    let split = |name: &'a str| {
        let (stem, label) = name.rsplit_once(['/', '_'])?;
        let label = LABELS.iter().find(|own| **own == label)?;
        // The separator counts: `a/x` and `a_y` are no components of one record.
        (!stem.is_empty()).then_some((stem, &name[stem.len()..=stem.len()], *label))
    };
    let mut vectors: HashMap<_, Members> = HashMap::new();
    let key = |field: &Field<'a>| {
        let (stem, separator, label) = split(field.name)?;
        let on = (facts.mesh_of(field.name), facts.centering(field.name));
        // Components measure the same, in units that may differ.
        let unit = unit_in(field.attributes).and_then(|unit| Unit::parse(&unit)).unwrap_or(Unit::ONE);
        Some(((stem, separator, field.space, on, unit.dimension.map(f64::to_bits)), label))
    };
    for (at, field) in fields.iter().enumerate() {
        if let Some((key, label)) = key(field) {
            vectors.entry(key).or_default().push((Some(label), at));
        }
    }
    let mut all = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let members = key(field).and_then(|(key, _)| vectors.get(&key).map(|members| (key.0, members)));
        match members.filter(|(_, members)| members.len() > 1) {
            // Once, where its first array is.
            Some((stem, members)) if members[0].1 == at => {
                let mut members = members.clone();
                members.sort_by_key(|(label, _)| *label);
                all.push((stem, members));
            }
            Some(_) => {}
            None => all.push((field.name, vec![(None, at)])),
        }
    }
    all
}

/// What is known of the grid of an array.
#[derive(Debug, Clone, PartialEq)]
struct OnGrid {
    geometry: Geometry,
    at: Centering,
    mesh: String,
}

/// The grid that each array is on.
fn grids(
    fields: &[Field<'_>],
    facts: &Facts,
    number: &dyn Fn(&str) -> Option<f64>,
    left_out: &mut Vec<LeftOut>,
) -> Vec<Option<OnGrid>> {
    let mut all = vec![None; fields.len()];
    let mut meshes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, field) in fields.iter().enumerate() {
        if let Some(mesh) = facts.mesh_of(field.name) {
            meshes.entry(mesh).or_default().push(at);
        }
    }
    if meshes.is_empty() {
        return all;
    }
    let kind = |element| Kind::of(element, ByteOrder::NATIVE).unwrap_or(Kind::Text);
    let arrays: Vec<mesh::Array<'_>> = fields
        .iter()
        .map(|f| mesh::Array { name: f.name, kind: kind(f.element), space: f.space, is_field: false })
        .collect();
    for (mesh, members) in meshes {
        let grid = match mesh::grid(&arrays, facts, number, Some(mesh)) {
            Ok(grid) => grid,
            Err(e) => {
                left_out.push(LeftOut { name: format!("mesh {mesh}"), why: e.what().to_string() });
                continue;
            }
        };
        for unfit in grid.left_out {
            left_out.push(LeftOut { name: format!("mesh {mesh} of {}", unfit.name), why: unfit.why });
        }
        if !matches!(grid.geometry, Geometry::Uniform { .. }) {
            let why =
                "openPMD has points at equal distances alone; the names of its variables are in geometryParameters";
            left_out.push(LeftOut { name: format!("points of mesh {mesh}"), why: why.into() });
        }
        for field in grid.fields {
            debug_assert!(members.contains(&field.array));
            let on = OnGrid { geometry: grid.geometry.clone(), at: field.at, mesh: mesh.to_string() };
            all[field.array] = Some(on);
        }
    }
    all
}

/// What the attributes of an array are made of.
struct Own<'a> {
    fields: &'a [Field<'a>],
    facts: &'a Facts,
    grid: Option<&'a OnGrid>,
    number: &'a dyn Fn(&str) -> Option<f64>,
}

impl Own<'_> {
    /// The attributes of the record that begins with this array.
    fn record(&self, field: usize, left_out: &mut Vec<LeftOut>) -> Attributes {
        let field = &self.fields[field];
        let axes = field.space.len();
        let mut geometry = ("cartesian", None);
        let (mut spacing, mut offset) = (vec![1.0; axes], vec![0.0; axes]);
        match self.grid.map(|grid| &grid.geometry) {
            None => {}
            Some(Geometry::Uniform { origin, spacing: distances }) => {
                for axis in 0..axes.min(3) {
                    spacing[axes - 1 - axis] = distances[axis];
                    offset[axes - 1 - axis] = origin[axis];
                }
            }
            Some(Geometry::Rectilinear { coordinates }) => {
                geometry = ("other", Some(("rectilinear", coordinates.clone())))
            }
            Some(Geometry::Structured { points }) => {
                geometry = ("other", Some(("structured", points.arrays().to_vec())))
            }
            Some(Geometry::Unstructured { points, cells }) => {
                let lists = cells.iter().map(|set| set.array);
                let all = points.arrays().iter().copied().chain(lists).collect();
                geometry = ("other", Some(("unstructured", all)));
            }
        }
        let unit = self.unit(field, left_out);
        let mut all = vec![("geometry".to_string(), text(geometry.0))];
        if let Some((kind, variables)) = geometry.1 {
            let names: Vec<&str> = variables.iter().map(|at| self.fields[*at].name).collect();
            all.push(("geometryParameters".into(), text(&format!("{kind}: {}", names.join(", ")))));
        }
        all.extend([
            ("dataOrder".to_string(), text("C")),
            ("axisLabels".to_string(), texts(&labels(field))),
            ("gridSpacing".to_string(), numbers(&spacing)),
            ("gridGlobalOffset".to_string(), numbers(&offset)),
            ("gridUnitSI".to_string(), AttributeValue::One(Value::F64(self.unit_of_grid(left_out)))),
            ("unitDimension".to_string(), numbers(&unit.dimension)),
            ("timeOffset".to_string(), AttributeValue::One(Value::F64(0.0))),
        ]);
        self.given(field, OF_RECORDS, &mut all, left_out);
        all
    }

    /// The attributes of an array as a component.
    fn component(&self, field: usize, left_out: &mut Vec<LeftOut>) -> Attributes {
        let field = &self.fields[field];
        let position = if self.grid.is_some_and(|grid| grid.at == Centering::Cells) { 0.5 } else { 0.0 };
        let mut told = Vec::new();
        let unit = self.unit(field, &mut told);
        let mut all = vec![
            ("position".to_string(), numbers(&vec![position; field.space.len()])),
            ("unitSI".to_string(), AttributeValue::One(Value::F64(unit.si))),
        ];
        self.given(field, OF_COMPONENTS, &mut all, left_out);
        all
    }

    /// The unit of an array.
    fn unit(&self, field: &Field<'_>, left_out: &mut Vec<LeftOut>) -> Unit {
        let Some(said) = unit_in(field.attributes) else { return Unit::ONE };
        Unit::parse(&said).unwrap_or_else(|| {
            left_out.push(LeftOut { name: format!("unit of {}", field.name), why: not_understood(&said) });
            Unit::ONE
        })
    }

    /// The unit of a mesh's lengths.
    fn unit_of_grid(&self, left_out: &mut Vec<LeftOut>) -> f64 {
        let Some(mesh) = self.grid.map(|grid| &grid.mesh) else { return 1.0 };
        if let Some(said) = self.facts.text(mesh, "gridUnitSI") {
            let number = said.parse().ok().or_else(|| (self.number)(said)).filter(|number: &f64| number.is_finite());
            return number.unwrap_or_else(|| {
                let why = format!("'{said}' is no number: 1 is taken");
                left_out.push(LeftOut { name: format!("gridUnitSI of mesh {mesh}"), why });
                1.0
            });
        }
        let Some(said) = self.facts.text(mesh, "units") else { return 1.0 };
        let unit = Unit::parse(said).filter(|unit| unit.dimension == Unit::LENGTH);
        unit.map_or_else(
            || {
                left_out.push(LeftOut { name: format!("unit of mesh {mesh}"), why: not_understood(said) });
                1.0
            },
            |unit| unit.si,
        )
    }

    /// Replaces attributes by those that the file gives under names of the standard.
    fn given(&self, field: &Field<'_>, names: &[&str], all: &mut Attributes, left_out: &mut Vec<LeftOut>) {
        for (key, value) in field.attributes.iter().filter(|(key, _)| names.contains(&key.as_str())) {
            let at = all.iter().position(|(own, _)| own == key);
            let fits = match (key.as_str(), at) {
                ("geometryParameters", _) => word(value),
                ("geometry" | "dataOrder", _) => word(value),
                ("axisLabels", Some(_)) => arrays::names_of_axes(value)
                    .filter(|names| names.len() == field.space.len())
                    .map(|names| texts(&names)),
                (_, Some(at)) => reals(value, &all[at].1),
                (_, None) => None,
            };
            match (fits, at) {
                (Some(value), Some(at)) => all[at].1 = value,
                (Some(value), None) => all.push((key.clone(), value)),
                (None, _) => {
                    let why = "it has not the type or number of values that openPMD wants".to_string();
                    left_out.push(LeftOut { name: format!("{}/{key}", field.name), why });
                }
            }
        }
    }
}

/// The unit that attributes say.
pub fn unit_in(attributes: &[(String, AttributeValue)]) -> Option<String> {
    let said = ["units", "unit"].iter().find_map(|name| attributes.iter().find(|(key, _)| key == name));
    match said {
        Some((_, AttributeValue::One(Value::String(text)))) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

/// Why a unit is left out.
pub fn not_understood(unit: &str) -> String {
    format!("'{unit}' is no unit that is understood here: 1 of the SI is taken")
}

/// Names of the axes of an array.
fn labels(field: &Field<'_>) -> Vec<String> {
    let axes = field.space.len();
    let named = field.labels.filter(|labels| labels.len() == axes);
    named.map(<[String]>::to_vec).unwrap_or_else(|| match axes {
        1..=3 => LABELS[..axes].iter().rev().map(|label| label.to_string()).collect(),
        _ => arrays::unnamed(axes),
    })
}

/// Whether an attribute of a file describes meshes.
fn is_of_mesh_schema(name: &str) -> bool {
    name.split('/').any(|part| part == "adios_schema")
}

fn is_standard(name: &str) -> bool {
    OF_RECORDS.contains(&name) || OF_COMPONENTS.contains(&name)
}

/// A name as the standard allows it: letters, digits and `_`.
pub fn safe(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// A name that is not taken yet: underscores are added.
fn free(mut name: String, taken: &mut HashSet<String>) -> String {
    while !taken.insert(name.clone()) {
        name.push('_');
    }
    name
}

/// Adds an attribute; where there is one of its name, underscores are added.
fn push_free(all: &mut Attributes, name: &str, value: AttributeValue) {
    let mut name = name.to_string();
    while all.iter().any(|(own, _)| *own == name) {
        name.push('_');
    }
    all.push((name, value));
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::One(Value::String(text.as_bytes().to_vec()))
}

fn texts(all: &[String]) -> AttributeValue {
    let values = all.iter().map(|text| Value::String(text.as_bytes().to_vec())).collect();
    AttributeValue::Many(ElementType::String, values)
}

fn numbers(all: &[f64]) -> AttributeValue {
    AttributeValue::Many(ElementType::F64, all.iter().map(|number| Value::F64(*number)).collect())
}

/// A single text.
fn word(value: &AttributeValue) -> Option<AttributeValue> {
    matches!(value, AttributeValue::One(Value::String(_))).then(|| value.clone())
}

/// Numbers, or a text with numbers between commas, as many as `like` has.
fn reals(value: &AttributeValue, like: &AttributeValue) -> Option<AttributeValue> {
    let all: Vec<f64> = match value {
        AttributeValue::One(Value::String(said)) => {
            let said = std::str::from_utf8(said).ok()?;
            said.split(',').map(|one| one.trim().parse().ok()).collect::<Option<_>>()?
        }
        AttributeValue::One(one) => vec![one.as_f64()?],
        AttributeValue::Many(_, several) => several.iter().map(Value::as_f64).collect::<Option<_>>()?,
        AttributeValue::Variable(_) => return None,
    };
    match like {
        AttributeValue::Many(_, wanted) => (wanted.len() == all.len()).then(|| numbers(&all)),
        _ => (all.len() == 1).then(|| AttributeValue::One(Value::F64(all[0]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field<'a>(name: &'a str, space: &'a [u64], attributes: &'a [(String, AttributeValue)]) -> Field<'a> {
        Field { name, element: ElementType::F64, space, labels: None, attributes }
    }

    fn unit(unit: &str) -> [(String, AttributeValue); 1] {
        [("units".to_string(), text(unit))]
    }

    /// The records of arrays, as their names with those of their components; and what is left out.
    fn named(fields: &[Field<'_>], facts: &Facts) -> (Vec<String>, Vec<LeftOut>) {
        let mut left_out = Vec::new();
        let all = records(fields, facts, &|_| None, &mut left_out);
        let paths = all.iter().flat_map(|record| record.components.iter().map(|component| record.path_of(component)));
        (paths.collect(), left_out)
    }

    #[test]
    fn components_have_one_shape_and_measure_the_same() {
        let (kilo, volts, kelvin) = (unit("kV/m"), unit("V/m"), unit("K"));
        let fields = [
            field("E/z", &[4], &kilo),
            field("E/x", &[4], &volts),
            // Another separator, another shape, another quantity, alone, no components.
            field("E_y", &[4], &volts),
            field("B/x", &[4], &[]),
            field("B/y", &[5], &[]),
            field("v_x", &[4], &volts),
            field("v_y", &[4], &kelvin),
            field("max", &[4], &[]),
            field("x", &[4], &[]),
            field("y", &[4], &[]),
        ];
        let (paths, left_out) = named(&fields, &Facts::default());
        assert_eq!(paths, ["E/x", "E/z", "E_y", "B_x", "B_y", "v_x", "v_y", "max", "x", "y"]);
        assert_eq!(left_out, []);
    }

    #[test]
    fn names_that_become_alike_stay_apart() {
        let fields = [field("a.b", &[4], &[]), field("a/b", &[4], &[]), field("a_b", &[4], &[])];
        assert_eq!(named(&fields, &Facts::default()).0, ["a_b", "a_b_", "a_b__"]);
    }

    #[test]
    fn attributes_of_the_standard_are_taken_and_those_that_do_not_fit_are_named() {
        let given = [
            ("unitSI".to_string(), text("2.5")),
            ("position".to_string(), numbers(&[0.25, 0.75])),
            ("gridSpacing".to_string(), numbers(&[1.0])),
            ("geometry".to_string(), text("thetaMode")),
            ("note".to_string(), text("of mine")),
        ];
        let fields = [field("T", &[3, 4], &given)];
        let mut left_out = Vec::new();
        let all = records(&fields, &Facts::default(), &|_| None, &mut left_out);
        let of = |name: &str| &all[0].attributes.iter().find(|(own, _)| own == name).unwrap().1;
        assert_eq!(*of("unitSI"), AttributeValue::One(Value::F64(2.5)));
        assert_eq!(*of("position"), numbers(&[0.25, 0.75]));
        assert_eq!(*of("gridSpacing"), numbers(&[1.0, 1.0]));
        assert_eq!((of("geometry"), of("note")), (&text("thetaMode"), &text("of mine")));
        assert_eq!(*of("axisLabels"), texts(&["y".to_string(), "x".to_string()]));
        assert_eq!(left_out.iter().map(|left| left.name.as_str()).collect::<Vec<_>>(), ["T/gridSpacing"]);
    }

    #[test]
    fn a_mesh_that_cannot_be_is_named_and_its_arrays_are_shown_without_it() {
        let mut facts = Facts::default();
        facts.add("T/adios_schema", &text("m"));
        facts.add("/adios_schema/m/type", &text("unstructured"));
        let (paths, left_out) = named(&[field("T", &[4], &[])], &facts);
        assert_eq!(paths, ["T"]);
        assert!(
            left_out.len() == 1
                && left_out[0].name == "mesh m"
                && left_out[0].why.contains("with the points of the mesh 'm'"),
            "{left_out:?}"
        );
    }
}
