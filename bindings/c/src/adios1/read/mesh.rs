//! Meshes and links, gathered from the attributes that describe them (`/adios_schema/...`, `/adios_link/...`).
//!
//! Numbers are stored as text or as the name of a scalar, which is looked up. Defaults of a uniform mesh: origins are 0, spacings
//! follow from maximums, else are 1, and maximums follow from spacings.

use super::ReadFile;
use crate::adios1::error::{Failure, Outcome, number};
use thalweg_types::{AttributeValue, Value};

/// A mesh.
#[derive(Debug, Clone, PartialEq)]
pub struct Mesh {
    /// Its name.
    pub name: String,
    /// Whether it changes from step to step.
    pub time_varying: bool,
    /// The kind of mesh, with its properties.
    pub shape: Shape,
}

/// The properties of a kind of mesh. Names are those of variables.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Equally spaced points.
    Uniform {
        /// Points in each dimension.
        dimensions: Vec<u64>,
        /// Of the first point.
        origins: Vec<f64>,
        /// Between points.
        spacings: Vec<f64>,
        /// Of the last point.
        maximums: Vec<f64>,
    },
    /// Spacing from variables.
    Rectilinear {
        /// Points in each dimension.
        dimensions: Vec<u64>,
        /// One variable per dimension, or one for all.
        coordinates: Vec<String>,
        /// Whether it is one for all.
        single: bool,
    },
    /// Points anywhere, in rows and columns.
    Structured {
        /// Points in each dimension.
        dimensions: Vec<u64>,
        /// Dimensions of the space.
        nspaces: u64,
        /// As for rectilinear meshes.
        points: Vec<String>,
        /// Whether it is one for all.
        single: bool,
    },
    /// Cells between points.
    Unstructured {
        /// Dimensions of the space.
        nspaces: u64,
        /// Number of points.
        npoints: u64,
        /// One variable per dimension, or one for all.
        points: Vec<String>,
        /// Sets of cells: how many, the variable, their type's number.
        cells: Vec<(u64, String, i32)>,
    },
}

/// A link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its references: variable (or image), file, whether it is an image.
    pub references: Vec<(String, Option<String>, bool)>,
}

/// Where several programs put their types of cells.
const CELLS: &[(&str, i32)] = &[
    ("pt", 1),
    ("point", 1),
    ("line", 2),
    ("tri", 3),
    ("triangle", 3),
    ("quad", 4),
    ("hex", 5),
    ("hexahedron", 5),
    ("pri", 6),
    ("prism", 6),
    ("tet", 7),
    ("tetrahedron", 7),
    ("pyr", 8),
    ("pyramid", 8),
];

/// Names between a start and an end, each once.
fn between(file: &ReadFile, start: &str, end: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for attribute in file.attribute_names() {
        let full = if attribute.starts_with('/') { attribute.to_string() } else { format!("/{attribute}") };
        let name = full.strip_prefix(start).and_then(|r| r.strip_suffix(end)).filter(|n| !n.contains('/'));
        if let Some(name) = name.filter(|n| !n.is_empty() && !names.iter().any(|m| m == n)) {
            names.push(name.to_string());
        }
    }
    names
}

/// The names of meshes: those described here, then those that variables here lie on and that are in another file.
pub fn mesh_names(file: &ReadFile) -> Vec<String> {
    let mut names = between(file, "/adios_schema/", "/type");
    let of_variables: Vec<String> =
        file.attribute_names().filter(|n| n.ends_with("/adios_schema")).map(str::to_string).collect();
    for attribute in of_variables {
        if let Some(mesh) = text(file, &attribute)
            && !names.contains(&mesh)
            && text(file, &format!("/adios_schema/{mesh}/mesh-file")).is_some()
        {
            names.push(mesh);
        }
    }
    names
}

/// The names of links.
pub fn link_names(file: &ReadFile) -> Vec<String> {
    between(file, "/adios_link/", "/ref-num")
}

fn value(file: &ReadFile, name: &str) -> Option<Value> {
    let place = file.find_attribute(name).ok()?;
    match file.attribute(i32::try_from(place).ok()?).ok()?.value {
        AttributeValue::One(value) => Some(value),
        _ => None,
    }
}

fn text(file: &ReadFile, name: &str) -> Option<String> {
    match value(file, name)? {
        Value::String(text) => Some(String::from_utf8_lossy(&text).into_owned()),
        other => other.as_f64().map(|n| n.to_string()),
    }
}

fn wrong(mesh: &str, what: impl std::fmt::Display) -> Failure {
    Failure::new(number::MESH_MISSING, format!("mesh \"{mesh}\": {what}"))
}

/// A number, or the value of the scalar that is named.
fn real(file: &ReadFile, mesh: &str, said: &str) -> Outcome<f64> {
    if let Ok(number) = said.trim().parse() {
        return Ok(number);
    }
    let place =
        file.find_variable(said.trim()).map_err(|_| wrong(mesh, format!("no number and no variable: \"{said}\"")))?;
    let info = file.info(i32::try_from(place).unwrap_or(i32::MAX))?;
    let number = info.value.as_ref().and_then(Value::as_f64);
    number.ok_or_else(|| wrong(mesh, format!("variable \"{said}\" is no single number")))
}

fn whole(file: &ReadFile, mesh: &str, said: &str) -> Outcome<u64> {
    let number = real(file, mesh, said)?;
    if number < 0.0 || number.fract() != 0.0 || number > 9e15 {
        return Err(wrong(mesh, format!("{number} is no number of points")));
    }
    Ok(number as u64)
}

/// A list: `<name>-num`, `<name>0`, `<name>1`...
fn list(file: &ReadFile, mesh: &str, name: &str) -> Outcome<Option<Vec<String>>> {
    let about = format!("/adios_schema/{mesh}/{name}");
    let Some(count) = value(file, &format!("{about}-num")) else { return Ok(None) };
    let count = count.as_u64().filter(|n| *n <= 1000).ok_or_else(|| wrong(mesh, format!("{name}-num is no number")))?;
    let one = |i: u64| text(file, &format!("{about}{i}")).ok_or_else(|| wrong(mesh, format!("{name}{i} is missing")));
    (0..count).map(one).collect::<Outcome<_>>().map(Some)
}

/// One variable for all dimensions, or one for each.
fn variables(file: &ReadFile, mesh: &str, name: &str) -> Outcome<(Vec<String>, bool)> {
    if let Some(one) = text(file, &format!("/adios_schema/{mesh}/{name}-single-var")) {
        return Ok((vec![one], true));
    }
    let several = list(file, mesh, &format!("{name}-multi-var"))?;
    several.map(|v| (v, false)).ok_or_else(|| wrong(mesh, format!("no {name}-single-var and no {name}-multi-var")))
}

/// In which other file a mesh is.
pub fn other_file(file: &ReadFile, mesh: &str) -> Option<String> {
    text(file, &format!("/adios_schema/{mesh}/mesh-file"))
}

/// A mesh, from its attributes in this file.
///
/// # Errors
/// `err_mesh_missing` naming the missing property.
pub fn mesh(file: &ReadFile, name: &str) -> Outcome<Mesh> {
    let about = |what: &str| text(file, &format!("/adios_schema/{name}/{what}"));
    let kind = about("type").ok_or_else(|| wrong(name, "its type is missing"))?;
    let dimensions = || -> Outcome<Vec<u64>> {
        let dimensions = list(file, name, "dimensions")?.ok_or_else(|| wrong(name, "no dimensions"))?;
        dimensions.iter().map(|d| whole(file, name, d)).collect()
    };
    let nspaces = |otherwise: usize| match about("nspace") {
        Some(n) => whole(file, name, &n),
        None => Ok(otherwise as u64),
    };
    let shape = match kind.trim() {
        "uniform" => {
            let dimensions = dimensions()?;
            let n = dimensions.len();
            let reals = |what: &str| -> Outcome<Option<Vec<f64>>> {
                let Some(said) = list(file, name, what)? else { return Ok(None) };
                if said.len() < n {
                    return Err(wrong(name, format!("{} {what} for {n} dimensions", said.len())));
                }
                said.iter().take(n).map(|s| real(file, name, s)).collect::<Outcome<_>>().map(Some)
            };
            let origins = reals("origins")?.unwrap_or_else(|| vec![0.0; n]);
            let (given, ends) = (reals("spacings")?, reals("maximums")?);
            let gaps = |i: usize| dimensions[i].saturating_sub(1) as f64;
            let spacings = given.unwrap_or_else(|| match &ends {
                Some(ends) => (0..n).map(|i| (ends[i] - origins[i]) / gaps(i).max(1.0)).collect(),
                None => vec![1.0; n],
            });
            let maximums = ends.unwrap_or_else(|| (0..n).map(|i| origins[i] + spacings[i] * gaps(i)).collect());
            Shape::Uniform { dimensions, origins, spacings, maximums }
        }
        "rectilinear" => {
            let (coordinates, single) = variables(file, name, "coords")?;
            Shape::Rectilinear { dimensions: dimensions()?, coordinates, single }
        }
        "structured" => {
            let (points, single) = variables(file, name, "points")?;
            let dimensions = dimensions()?;
            Shape::Structured { nspaces: nspaces(dimensions.len())?, dimensions, points, single }
        }
        "unstructured" => {
            let (points, single) = variables(file, name, "points")?;
            let sets = value(file, &format!("/adios_schema/{name}/ncsets")).and_then(|v| v.as_u64()).unwrap_or(1);
            let set = |i: u64| -> Outcome<(u64, String, i32)> {
                let said = |what: &str| {
                    let numbered = about(&format!("{what}{i}"));
                    let found = if sets == 1 { about(what).or(numbered) } else { numbered };
                    found.ok_or_else(|| wrong(name, format!("{what} of set {i} is missing")))
                };
                let kind = said("ctype")?;
                let known = CELLS.iter().find(|(n, _)| n.eq_ignore_ascii_case(kind.trim())).map(|(_, k)| *k);
                let kind = known.ok_or_else(|| wrong(name, format!("\"{kind}\" is no type of cells")))?;
                Ok((whole(file, name, &said("ccount")?)?, said("cdata")?, kind))
            };
            if sets > 1000 {
                return Err(wrong(name, format!("{sets} sets of cells")));
            }
            let cells = (0..sets).map(set).collect::<Outcome<Vec<_>>>()?;
            let nspaces = nspaces(if single { 3 } else { points.len() })?;
            let npoints = match about("npoints") {
                Some(n) => whole(file, name, &n)?,
                None => {
                    // As many as the variable has rows, or values over dimensions.
                    let place = file.find_variable(&points[0])?;
                    let shape = file.info(i32::try_from(place).unwrap_or(i32::MAX))?.shape;
                    match shape.as_slice() {
                        [n] if single => n / nspaces.max(1),
                        [n, ..] => *n,
                        [] => return Err(wrong(name, "its points are a single value")),
                    }
                }
            };
            Shape::Unstructured { nspaces, npoints, points, cells }
        }
        other => return Err(wrong(name, format!("\"{other}\" is no type of mesh"))),
    };
    let time_varying = about("time-varying").is_some_and(|t| t.trim() == "yes");
    Ok(Mesh { name: name.to_string(), time_varying, shape })
}

/// The kind of a mesh as `enum ADIOS_MESH_TYPE` counts them.
pub fn kind(shape: &Shape) -> i32 {
    match shape {
        Shape::Uniform { .. } => 1,
        Shape::Structured { .. } => 2,
        Shape::Rectilinear { .. } => 3,
        Shape::Unstructured { .. } => 4,
    }
}

/// The index of a variable's mesh, and whether its values belong to cells instead of points.
///
/// # Errors
/// `err_mesh_missing` if it names an unknown mesh, or has no valid centering.
pub fn of_variable(file: &ReadFile, meshes: &[String], variable: &str) -> Outcome<Option<(usize, bool)>> {
    let Some(mesh) = text(file, &format!("{variable}/adios_schema")) else { return Ok(None) };
    let missing = || wrong(&mesh, format!("variable \"{variable}\" is on this mesh, but the mesh is not described"));
    let place = meshes.iter().position(|m| *m == mesh).ok_or_else(missing)?;
    match text(file, &format!("{variable}/adios_schema/centering")).as_deref() {
        Some("point") => Ok(Some((place, false))),
        Some("cell") => Ok(Some((place, true))),
        _ => Err(wrong(&mesh, format!("variable \"{variable}\" has no valid centering: expected point or cell"))),
    }
}

/// A link.
///
/// # Errors
/// A reference that names nothing.
pub fn link(file: &ReadFile, name: &str) -> Outcome<Link> {
    let about = |what: &str, i: u64| text(file, &format!("/adios_link/{name}/{what}{i}"));
    let count = value(file, &format!("/adios_link/{name}/ref-num")).and_then(|v| v.as_u64()).unwrap_or(1);
    if count > 1000 {
        return Err(Failure::new(number::INVALID_ATTRNAME, format!("link \"{name}\": {count} references")));
    }
    let one = |i: u64| {
        let missing = || Failure::new(number::INVALID_ATTRNAME, format!("link \"{name}\": objref{i} is missing"));
        let image = about("type", i).is_some_and(|t| t.eq_ignore_ascii_case("image"));
        Ok((about("objref", i).ok_or_else(missing)?, about("extref", i).filter(|f| !f.is_empty()), image))
    };
    Ok(Link { name: name.to_string(), references: (0..count).map(one).collect::<Outcome<_>>()? })
}
