//! The grid of VTK that a mesh of the file is: its geometry, and the arrays at its points and cells. Pure.
//!
//! | mesh | [`Geometry`] | from |
//! |---|---|---|
//! | uniform | `Uniform` | `origins`, `spacings` or `maximums` |
//! | rectilinear | `Rectilinear` | a variable with the coordinates of each axis |
//! | structured | `Structured` | one variable with all points, or one per component |
//! | unstructured | `Unstructured` | points as of structured meshes, in a list; variables that list the points of each cell, one for each set of cells |
//! | none | `Uniform` | origin 0, spacing 1; arrays with the shape of the first one are at its points |
//!
//! The slowest axis of an array is VTK's last one. A mesh in a group written by Fortran lists its axes fastest first.
//!
//! Source: the mesh schema of ADIOS 1.13, as its manual has it; Kitware, VTK file formats.

use crate::LeftOut;
use crate::hdf5::Kind;
use std::collections::{HashMap, HashSet};
use thalweg_types::{AttributeValue, Error, ErrorKind, Result, Value};

/// What attributes say of meshes.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Attributes of the file and of its variables, by full name without slashes at its ends.
    pub texts: HashMap<String, String>,
    /// Lists of axes are fastest first.
    pub is_fortran: bool,
}

impl Facts {
    /// Adds an attribute by its full name, where it is one text or number.
    pub fn add(&mut self, name: &str, value: &AttributeValue) {
        let text = match value {
            AttributeValue::One(Value::String(text)) => String::from_utf8_lossy(text).into_owned(),
            AttributeValue::One(value) => value.to_string(),
            _ => return,
        };
        self.texts.insert(name.trim_matches('/').to_string(), text);
    }

    /// The mesh that a variable is on.
    pub fn mesh_of(&self, variable: &str) -> Option<&str> {
        self.texts.get(&format!("{variable}/adios_schema")).map(String::as_str)
    }

    /// What is said of a mesh.
    pub fn text(&self, mesh: &str, what: &str) -> Option<&str> {
        self.texts.get(&format!("adios_schema/{mesh}/{what}")).map(String::as_str)
    }

    pub(crate) fn centering(&self, variable: &str) -> Option<&str> {
        self.texts.get(&format!("{variable}/adios_schema/centering")).map(String::as_str)
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

/// An array that a grid may be made of.
#[derive(Debug, Clone)]
pub struct Array<'a> {
    /// Full name, without a slash at its begin.
    pub name: &'a str,
    /// Type of its elements.
    pub kind: Kind,
    /// Extents in a step, slowest axis first.
    pub space: &'a [u64],
    /// It can be at the points of a grid without a mesh.
    pub is_field: bool,
}

/// A grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// The first array on the mesh.
    pub first: usize,
    /// Points along each axis, slowest first: one to three; those of an unstructured grid are a list.
    pub points: Vec<u64>,
    /// Where they are.
    pub geometry: Geometry,
    /// The arrays on it.
    pub fields: Vec<Field>,
    /// Arrays on this mesh that VTK cannot have there, with the reason.
    pub left_out: Vec<LeftOut>,
}

/// Where the points of a grid are. Arrays are told by their positions.
#[derive(Debug, Clone, PartialEq)]
pub enum Geometry {
    /// At equal distances, x first.
    Uniform {
        /// The first point.
        origin: [f64; 3],
        /// Distances.
        spacing: [f64; 3],
    },
    /// At coordinates of each axis.
    Rectilinear {
        /// The arrays with coordinates, that of x first; axes without one have the coordinate 0.
        coordinates: Vec<usize>,
    },
    /// Anywhere.
    Structured {
        /// The points.
        points: Points,
    },
    /// Cells between points anywhere.
    Unstructured {
        /// The points.
        points: Points,
        /// The cells, one set behind the other.
        cells: Vec<Cells>,
    },
}

/// Cells of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cells {
    /// The array with the points of each cell, counted from 0.
    pub array: usize,
    /// Number of cells.
    pub count: u64,
    /// Points of each cell.
    pub points: u64,
    /// VTK's number of the type.
    pub kind: u8,
}

/// The arrays with points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Points {
    /// One whose fastest axis has three components; of an unstructured grid also one or two, or all numbers in one axis.
    Together(usize),
    /// One for each component, x first: one to three.
    Apart(Vec<usize>),
}

/// An array on a grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its position.
    pub array: usize,
    /// Where it is.
    pub at: Centering,
    /// Its name there.
    pub name: String,
}

/// What of a grid has values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Centering {
    /// Its points.
    Points,
    /// Its cells.
    Cells,
}

impl Centering {
    /// The name of VTK.
    pub fn group(self) -> &'static str {
        match self {
            Centering::Points => "PointData",
            Centering::Cells => "CellData",
        }
    }
}

impl Geometry {
    /// Whether an array tells where the points are.
    pub fn has(&self, array: usize) -> bool {
        match self {
            Geometry::Uniform { .. } => false,
            Geometry::Rectilinear { coordinates } => coordinates.contains(&array),
            Geometry::Structured { points } => points.has(array),
            Geometry::Unstructured { points, cells } => points.has(array) || cells.iter().any(|set| set.array == array),
        }
    }
}

impl Points {
    /// The arrays, that of x first.
    pub fn arrays(&self) -> &[usize] {
        match self {
            Points::Together(one) => std::slice::from_ref(one),
            Points::Apart(several) => several,
        }
    }

    fn has(&self, array: usize) -> bool {
        self.arrays().contains(&array)
    }
}

/// Cell types of the schema: their name, number of points, and VTK's number.
const CELLS: [(&str, u64, u8); 8] = [
    ("pt", 1, 1),
    ("line", 2, 3),
    ("triangle", 3, 5),
    ("quad", 4, 9),
    ("tet", 4, 10),
    ("pyr", 5, 14),
    ("prism", 6, 13),
    ("hex", 8, 12),
];

impl Grid {
    /// Points along x, y and z.
    pub fn extents(&self) -> [u64; 3] {
        std::array::from_fn(|axis| self.points.iter().rev().nth(axis).copied().unwrap_or(1))
    }
}

/// Most points along an axis: VTK's extents are 32-bit integers.
pub const MOST: u64 = i32::MAX as u64;

fn refused(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, why)
}

/// The position of a name as a mesh gives it: a full name, else the last part of one alone.
pub fn named<'n>(names: impl Iterator<Item = &'n str> + Clone, name: &str) -> Option<usize> {
    let own = name.trim_matches('/');
    let last = |name: &str| name.rsplit('/').next() == Some(own);
    names.clone().position(|name| name == own).or_else(|| {
        let mut alike = names.enumerate().filter(|(_, name)| last(name));
        let first = alike.next()?.0;
        alike.next().is_none().then_some(first)
    })
}

/// Whether VTK has arrays of such elements.
pub fn is_number(kind: Kind) -> bool {
    matches!(kind, Kind::Integer(..) | Kind::Real(..))
}

/// The grid of a mesh.
///
/// - `mesh`: its name; `None` for arrays without a mesh.
/// - `number`: the value of a scalar by its name, as a mesh gives it ([`named`]).
///
/// # Errors
/// `NotFound` if no array is on the mesh; `Unsupported` if VTK cannot have it, with the reason.
pub fn grid(
    arrays: &[Array<'_>],
    facts: &Facts,
    number: &dyn Fn(&str) -> Option<f64>,
    mesh: Option<&str>,
) -> Result<Grid> {
    let is_on = |array: &Array<'_>| match mesh {
        Some(mesh) => facts.mesh_of(array.name) == Some(mesh),
        None => array.is_field,
    };
    let on: Vec<usize> = (0..arrays.len()).filter(|at| is_on(&arrays[*at])).collect();
    let Some(first) = on.first() else {
        let what = match mesh {
            Some(mesh) => format!("no variable that can be shown is on the mesh '{mesh}'"),
            None => "there is no array of one to three axes that VTK can read".to_string(),
        };
        return Err(Error::new(ErrorKind::NotFound, what));
    };
    let sought = Sought { arrays, facts, number };
    if let Some(mesh) = mesh.filter(|mesh| facts.text(mesh, "type") == Some("unstructured")) {
        return sought.unstructured(mesh, &on);
    }
    let points = match mesh {
        Some(mesh) => sought.points(mesh, &on)?,
        None => arrays[*first].space.to_vec(),
    };
    if points.is_empty() || points.len() > 3 || points.contains(&0) {
        return Err(refused(format!("a grid of VTK has one to three axes, not the shape {points:?}")));
    }
    if let Some(extent) = points.iter().find(|extent| **extent > MOST) {
        return Err(refused(format!("VTK counts at most {MOST} points along an axis, not {extent}")));
    }
    let first = *first;
    let geometry = sought.geometry(mesh, &points)?;
    let centering = |array: &Array<'_>| sought.centering(array, mesh, &points);
    let (fields, left_out) = fields(arrays, &on, &centering);
    Ok(Grid { first, geometry, points, fields, left_out })
}

/// The arrays on a grid, and those that it cannot have.
fn fields(
    arrays: &[Array<'_>],
    on: &[usize],
    centering: &dyn Fn(&Array<'_>) -> std::result::Result<Centering, String>,
) -> (Vec<Field>, Vec<LeftOut>) {
    let (mut fields, mut left_out, mut taken) = (Vec::new(), Vec::new(), HashSet::new());
    for at in on {
        match centering(&arrays[*at]) {
            Ok(centering) => {
                let mut name = arrays[*at].name.replace(['/', '.'], "_");
                while !taken.insert((centering, name.clone())) {
                    name.push('_');
                }
                fields.push(Field { array: *at, at: centering, name });
            }
            Err(why) => left_out.push(LeftOut { name: arrays[*at].name.to_string(), why }),
        }
    }
    (fields, left_out)
}

/// Where a mesh finds what it is made of.
struct Sought<'a> {
    arrays: &'a [Array<'a>],
    facts: &'a Facts,
    number: &'a dyn Fn(&str) -> Option<f64>,
}

impl Sought<'_> {
    fn variable(&self, name: &str) -> Result<usize> {
        let found = named(self.arrays.iter().map(|array| array.name), name);
        let found = found.filter(|at| is_number(self.arrays[*at].kind));
        found.ok_or_else(|| refused(format!("the mesh needs the variable '{name}', which is no array of numbers here")))
    }

    /// A number, or the value of the variable of this name.
    fn number(&self, text: &str) -> Result<f64> {
        let found = text.parse().ok().or_else(|| (self.number)(text));
        found.ok_or_else(|| refused(format!("the mesh needs the number '{text}', which is no scalar here")))
    }

    /// Numbers of points along each axis, slowest first.
    fn points(&self, mesh: &str, on_mesh: &[usize]) -> Result<Vec<u64>> {
        let kind = self.facts.text(mesh, "type");
        if !matches!(kind, Some("uniform" | "rectilinear" | "structured")) {
            return Err(refused(format!(
                "the mesh '{mesh}' is {}; uniform, rectilinear, structured and unstructured ones can be shown",
                kind.unwrap_or("not described")
            )));
        }
        let given = self.facts.list(mesh, "dimensions");
        if !given.is_empty() {
            return given.iter().map(|text| Ok(self.number(text)? as u64)).collect();
        }
        let at_points = |at: &&usize| self.facts.centering(self.arrays[**at].name) != Some("cell");
        let shape = on_mesh.iter().find(at_points).map(|at| self.arrays[*at].space.to_vec());
        shape.ok_or_else(|| refused(format!("the mesh '{mesh}' has no dimensions")))
    }

    /// - `points`: slowest axis first.
    fn geometry(&self, mesh: Option<&str>, points: &[u64]) -> Result<Geometry> {
        let kind = mesh.and_then(|mesh| self.facts.text(mesh, "type")).unwrap_or("uniform");
        let mesh = mesh.unwrap_or_default();
        match kind {
            "rectilinear" => self.rectilinear(mesh, points),
            "structured" => Ok(Geometry::Structured { points: self.structured(mesh, points)? }),
            _ => {
                let numbers = |what: &str, missing: f64| -> Result<[f64; 3]> {
                    let mut all = [missing; 3];
                    for (own, text) in all.iter_mut().zip(self.facts.list(mesh, what).iter().rev()) {
                        *own = self.number(text)?;
                    }
                    Ok(all)
                };
                let origin = numbers("origins", 0.0)?;
                let (mut spacing, last) = (numbers("spacings", f64::NAN)?, numbers("maximums", f64::NAN)?);
                for axis in 0..3 {
                    if spacing[axis].is_nan() {
                        let extent = points.iter().rev().nth(axis).copied().unwrap_or(1);
                        let between = (last[axis] - origin[axis]) / (extent - 1) as f64;
                        spacing[axis] = if between.is_finite() { between } else { 1.0 };
                    }
                }
                Ok(Geometry::Uniform { origin, spacing })
            }
        }
    }

    fn rectilinear(&self, mesh: &str, points: &[u64]) -> Result<Geometry> {
        let mut names = self.facts.list(mesh, "coords-multi-var");
        if points.len() == 1 {
            names.extend(self.facts.text(mesh, "coords-single-var"));
        }
        if names.len() != points.len() {
            let axes = points.len();
            let what = format!("the mesh '{mesh}' has not one variable with coordinates for each of its {axes} axes");
            return Err(refused(what));
        }
        let mut coordinates = Vec::new();
        for (name, extent) in names.iter().zip(points).rev() {
            let at = self.variable(name)?;
            if self.arrays[at].space != [*extent] {
                let name = self.arrays[at].name;
                return Err(refused(format!("the variable '{name}' has not a coordinate for each of {extent} points")));
            }
            coordinates.push(at);
        }
        Ok(Geometry::Rectilinear { coordinates })
    }

    fn structured(&self, mesh: &str, points: &[u64]) -> Result<Points> {
        let one = self.facts.text(mesh, "points-single-var");
        let space = |at: usize| self.arrays[at].space;
        // On one axis, it may be the x components alone.
        let is_x = |name: &&str| points.len() == 1 && self.variable(name).is_ok_and(|at| space(at) == points);
        let single = one.filter(|name| !is_x(name));
        let names = match one {
            Some(name) => vec![name],
            // Components, not axes: x is the first one in all languages.
            None => (0..).map_while(|n| self.facts.text(mesh, &format!("points-multi-var{n}"))).collect(),
        };
        if names.is_empty() || names.len() > 3 {
            return Err(refused(format!("the mesh '{mesh}' has not one to three variables with points")));
        }
        let mut wanted = points.to_vec();
        wanted.extend(single.map(|_| 3));
        let mut parts = Vec::new();
        for name in names {
            let at = self.variable(name)?;
            if space(at) != wanted {
                let name = self.arrays[at].name;
                return Err(refused(format!(
                    "the variable '{name}' has not the points of the mesh '{mesh}': {wanted:?}"
                )));
            }
            parts.push(at);
        }
        Ok(if single.is_some() { Points::Together(parts[0]) } else { Points::Apart(parts) })
    }

    /// The grid of an unstructured mesh.
    fn unstructured(&self, mesh: &str, on: &[usize]) -> Result<Grid> {
        let (points, count) = self.cloud(mesh)?;
        let cells = self.cells(mesh)?;
        let all = cells.iter().try_fold(0u64, |all, set| all.checked_add(set.count));
        let all = all.ok_or_else(|| refused(format!("the mesh '{mesh}' has too many cells")))?;
        let centering = |of: &Array<'_>| {
            let [own, ..] = of.space else { return Err("it has no axis of points or cells".to_string()) };
            let wanted = self.facts.centering(of.name);
            let at = match wanted {
                Some("cell") if *own == all => Centering::Cells,
                Some("point") | None if *own == count => Centering::Points,
                None if *own == all => Centering::Cells,
                _ => return Err(format!("its {own} elements are not the {count} points, nor the {all} cells")),
            };
            match of.space {
                _ if !is_number(of.kind) => Err("VTK has no such type".into()),
                [0, ..] | [_, 0] => Err("it has no elements".into()),
                [_] | [_, 1..=9] => Ok(at),
                space => Err(format!("its shape {space:?} is not that of numbers, vectors or tensors")),
            }
        };
        let (fields, left_out) = fields(self.arrays, on, &centering);
        let geometry = Geometry::Unstructured { points, cells };
        Ok(Grid { first: on[0], points: vec![count], geometry, fields, left_out })
    }

    /// The points of an unstructured mesh, and their number.
    fn cloud(&self, mesh: &str) -> Result<(Points, u64)> {
        let given = |what: &str| -> Result<Option<u64>> {
            self.facts.text(mesh, what).map(|text| Ok(self.number(text)? as u64)).transpose()
        };
        let (count, components) = (given("npoints")?, given("nspace")?);
        let (points, found) = match self.facts.text(mesh, "points-single-var") {
            Some(name) => {
                let at = self.variable(name)?;
                let found = match *self.arrays[at].space {
                    [count, components] if (1..=3).contains(&components) => Some(count),
                    [all] => {
                        let components = components.or_else(|| count.and_then(|count| all.checked_div(count)));
                        components.filter(|one| (1..=3).contains(one) && all % one == 0).map(|one| all / one)
                    }
                    _ => None,
                };
                (Points::Together(at), found)
            }
            None => {
                // Components, not axes: x is the first one in all languages.
                let names = (0..).map_while(|n| self.facts.text(mesh, &format!("points-multi-var{n}")));
                let parts: Vec<usize> = names.map(|name| self.variable(name)).collect::<Result<_>>()?;
                let extents: HashSet<&[u64]> = parts.iter().map(|at| self.arrays[*at].space).collect();
                let found = match extents.into_iter().collect::<Vec<_>>()[..] {
                    [[count]] if parts.len() <= 3 => Some(*count),
                    _ => None,
                };
                (Points::Apart(parts), found)
            }
        };
        let wanted = count.or(found);
        match found.filter(|found| *found > 0 && Some(*found) == wanted) {
            Some(count) => Ok((points, count)),
            None => {
                let count = wanted.map_or_else(String::new, |count| format!(" of {count} points"));
                Err(refused(format!(
                    "the variables with the points of the mesh '{mesh}' are no list{count} of one to three components"
                )))
            }
        }
    }

    fn cells(&self, mesh: &str) -> Result<Vec<Cells>> {
        let text = |what: &str, number: &str| self.facts.text(mesh, &format!("{what}{number}"));
        let sets: Vec<String> = match text("cdata", "") {
            Some(_) => vec![String::new()],
            None => {
                (0..).map(|number| number.to_string()).take_while(|number| text("cdata", number).is_some()).collect()
            }
        };
        if sets.is_empty() {
            return Err(refused(format!("the mesh '{mesh}' has no cells")));
        }
        let one = |number: &String| -> Result<Cells> {
            let [data, kind] = ["cdata", "ctype"].map(|what| text(what, number).unwrap_or_default());
            let array = self.variable(data)?;
            let alike: Vec<_> = match kind.parse::<u64>() {
                Ok(points) => CELLS.iter().filter(|(_, own, _)| *own == points).collect(),
                Err(_) => CELLS.iter().filter(|(name, ..)| *name == kind).collect(),
            };
            let [(_, points, kind)] = alike[..] else {
                return Err(refused(format!(
                    "cells of type '{kind}' in the mesh '{mesh}' are not those of one type of VTK"
                )));
            };
            let name = self.arrays[array].name;
            let found = match *self.arrays[array].space {
                [count, own] if own == *points => Some(count),
                [all] if all % points == 0 => Some(all / points),
                _ => None,
            };
            let wanted = text("ccount", number).map(|text| self.number(text)).transpose()?.map(|count| count as u64);
            match (found, self.arrays[array].kind) {
                (Some(count), Kind::Integer(..)) if wanted.is_none_or(|wanted| wanted == count) => {
                    Ok(Cells { array, count, points: *points, kind: *kind })
                }
                _ => Err(refused(format!(
                    "the variable '{name}' does not list {points} points for each cell of the mesh '{mesh}'"
                ))),
            }
        };
        sets.iter().map(one).collect()
    }

    /// Where on the grid an array is, or the reason why it is nowhere.
    fn centering(&self, of: &Array<'_>, mesh: Option<&str>, points: &[u64]) -> std::result::Result<Centering, String> {
        let is_cells =
            of.space.len() == points.len() && of.space.iter().zip(points).all(|(own, all)| *own == (all - 1).max(1));
        if of.space.contains(&0) {
            return Err("it has no elements".into());
        }
        let at = match mesh.and_then(|_| self.facts.centering(of.name)) {
            Some("cell") if is_cells => Centering::Cells,
            Some("point") | None if of.space == points => Centering::Points,
            None if mesh.is_some() && is_cells => Centering::Cells,
            _ => {
                let space = of.space;
                return Err(format!(
                    "its shape {space:?} is not that of the grid's points {points:?}, nor of its cells"
                ));
            }
        };
        if is_number(of.kind) { Ok(at) } else { Err("VTK has no such type".into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F64: Kind = Kind::Real(8, false);

    fn array<'a>(name: &'a str, space: &'a [u64]) -> Array<'a> {
        Array { name, kind: F64, space, is_field: !space.is_empty() && space.len() < 4 }
    }

    fn facts(all: &[(&str, &str)]) -> Facts {
        let texts = all.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        Facts { texts, is_fortran: false }
    }

    #[test]
    fn names_of_a_mesh_are_full_ones_or_the_last_part_of_one_alone() {
        let all = ["a/x", "b/x", "b/y", "z", "c/z"];
        let at = |name| named(all.iter().copied(), name);
        assert_eq!([at("/b/x"), at("y"), at("z"), at("x"), at("q")], [Some(1), Some(2), Some(3), None, None]);
    }

    #[test]
    fn arrays_are_where_their_shape_says_and_others_are_named() {
        let all = facts(&[
            ("u/adios_schema", "m"),
            ("c/adios_schema", "m"),
            ("thin/adios_schema", "m"),
            ("none/adios_schema", "m"),
            ("adios_schema/m/type", "uniform"),
            ("adios_schema/m/dimensions0", "5"),
            ("adios_schema/m/dimensions1", "n"),
        ]);
        let arrays = [array("u", &[5, 1]), array("c", &[4, 1]), array("thin", &[4, 2]), array("none", &[4, 0])];
        let made = grid(&arrays, &all, &|name| (name == "n").then_some(1.0), Some("m")).unwrap();
        let at: Vec<_> = made.fields.iter().map(|field| (field.array, field.at)).collect();
        assert_eq!(at, [(0, Centering::Points), (1, Centering::Cells)]);
        let why: Vec<&str> = made.left_out.iter().map(|one| &*one.why).collect();
        assert!(why[0].contains("[4, 2]") && why[1] == "it has no elements", "{why:?}");
    }

    #[test]
    fn cells_of_several_sets_follow_one_another() {
        let all = facts(&[
            ("u/adios_schema", "m"),
            ("c/adios_schema", "m"),
            ("v/adios_schema", "m"),
            ("none/adios_schema", "m"),
            ("adios_schema/m/type", "unstructured"),
            ("adios_schema/m/npoints", "n"),
            ("adios_schema/m/points-multi-var0", "x"),
            ("adios_schema/m/points-multi-var1", "y"),
            ("adios_schema/m/cdata0", "t"),
            ("adios_schema/m/ccount0", "2"),
            ("adios_schema/m/ctype0", "triangle"),
            ("adios_schema/m/cdata1", "q"),
            ("adios_schema/m/ctype1", "quad"),
        ]);
        let integers = |name, space| Array { kind: Kind::Integer(4, true, false), ..array(name, space) };
        let mut arrays = vec![array("u", &[6]), array("c", &[3]), array("v", &[6, 3]), array("none", &[4])];
        arrays.extend([array("x", &[6]), array("y", &[6]), integers("t", &[2, 3]), integers("q", &[4])]);
        let grid = |arrays: &[Array<'_>]| grid(arrays, &all, &|name| (name == "n").then_some(6.0), Some("m"));
        let made = grid(&arrays).unwrap();
        let at: Vec<_> = made.fields.iter().map(|field| (field.array, field.at)).collect();
        assert_eq!(at, [(0, Centering::Points), (1, Centering::Cells), (2, Centering::Points)]);
        assert!(
            made.left_out[0].why.contains("4 elements are not the 6 points, nor the 3 cells"),
            "{:?}",
            made.left_out
        );
        let cells =
            vec![Cells { array: 6, count: 2, points: 3, kind: 5 }, Cells { array: 7, count: 1, points: 4, kind: 9 }];
        assert_eq!(made.geometry, Geometry::Unstructured { points: Points::Apart(vec![4, 5]), cells });
        for (at, space) in [(4, &[5][..]), (6, &[2, 4]), (6, &[3, 3]), (7, &[5])] {
            let mut other = arrays.clone();
            other[at].space = space;
            assert_eq!(grid(&other).unwrap_err().kind(), ErrorKind::Unsupported, "{at} {space:?}");
        }
        arrays[6].kind = F64;
        assert_eq!(grid(&arrays).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn grids_that_vtk_cannot_have_are_refused() {
        let nothing = facts(&[]);
        let kind = |arrays: &[Array<'_>], facts: &Facts, mesh| grid(arrays, facts, &|_| None, mesh).unwrap_err().kind();
        assert_eq!(kind(&[array("u", &[MOST + 1])], &nothing, None), ErrorKind::Unsupported);
        assert_eq!(kind(&[array("u", &[])], &nothing, None), ErrorKind::NotFound);
        assert_eq!(kind(&[array("u", &[3])], &nothing, Some("m")), ErrorKind::NotFound);
        for more in [
            &[("adios_schema/m/type", "unstructured")][..],
            &[("adios_schema/m/type", "unstructured"), ("adios_schema/m/points-single-var", "v")],
            &[("adios_schema/m/type", "uniform"), ("adios_schema/m/dimensions0", "n")],
            &[("adios_schema/m/type", "rectilinear"), ("adios_schema/m/coords-single-var", "x")],
            &[("adios_schema/m/type", "structured"), ("adios_schema/m/points-multi-var0", "v")],
        ] {
            let all = facts(&[&[("u/adios_schema", "m")], more].concat());
            assert_eq!(
                kind(&[array("u", &[3]), array("v", &[4])], &all, Some("m")),
                ErrorKind::Unsupported,
                "{more:?}"
            );
        }
    }
}
