//! The grid of VTK that a mesh of the file is: its geometry, and the arrays at its points and cells. Pure.
//!
//! | mesh | [`Geometry`] | from |
//! |---|---|---|
//! | uniform | `Uniform` | `origins`, `spacings` or `maximums` |
//! | rectilinear | `Rectilinear` | a variable with the coordinates of each axis |
//! | structured | `Structured` | one variable with all points, or one per component |
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

    fn centering(&self, variable: &str) -> Option<&str> {
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
    /// Points along each axis, slowest first: one to three.
    pub points: Vec<u64>,
    /// Where they are.
    pub geometry: Geometry,
    /// The arrays on it: at least one.
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
}

/// The arrays with points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Points {
    /// One whose fastest axis has three components.
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
            Geometry::Structured { points: Points::Together(one) } => *one == array,
            Geometry::Structured { points: Points::Apart(several) } => several.contains(&array),
        }
    }
}

impl Grid {
    /// Points along x, y and z.
    pub fn extents(&self) -> [u64; 3] {
        std::array::from_fn(|axis| self.points.iter().rev().nth(axis).copied().unwrap_or(1))
    }
}

fn refused(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, why)
}

/// Whether VTK has arrays of such elements.
pub fn is_number(kind: Kind) -> bool {
    matches!(kind, Kind::Integer(..) | Kind::Real(..))
}

/// The grid of a mesh.
///
/// - `mesh`: its name; `None` for arrays without a mesh.
/// - `number`: the value of a scalar by its full name.
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
    let points = match mesh {
        Some(mesh) => sought.points(mesh, &on)?,
        None => arrays[*first].space.to_vec(),
    };
    if points.is_empty() || points.len() > 3 || points.contains(&0) {
        return Err(refused(format!("a grid of VTK has one to three axes, not the shape {points:?}")));
    }
    let mut grid = Grid { geometry: sought.geometry(mesh, &points)?, points, fields: Vec::new(), left_out: Vec::new() };
    let mut taken = HashSet::new();
    for at in on {
        match sought.centering(&arrays[at], mesh, &grid.points) {
            Ok(centering) => {
                let mut name = arrays[at].name.replace(['/', '.'], "_");
                while !taken.insert((centering, name.clone())) {
                    name.push('_');
                }
                grid.fields.push(Field { array: at, at: centering, name });
            }
            Err(why) => grid.left_out.push(LeftOut { name: arrays[at].name.to_string(), why }),
        }
    }
    Ok(grid)
}

/// Where a mesh finds what it is made of.
struct Sought<'a> {
    arrays: &'a [Array<'a>],
    facts: &'a Facts,
    number: &'a dyn Fn(&str) -> Option<f64>,
}

impl Sought<'_> {
    fn variable(&self, name: &str) -> Result<usize> {
        let own = name.trim_matches('/');
        let found = self.arrays.iter().position(|array| array.name == own && is_number(array.kind));
        found.ok_or_else(|| refused(format!("the mesh needs the variable '{name}', which is no array of numbers here")))
    }

    /// A number, or the value of the variable of this name.
    fn number(&self, text: &str) -> Result<f64> {
        let found = text.parse().ok().or_else(|| (self.number)(text.trim_matches('/')));
        found.ok_or_else(|| refused(format!("the mesh needs the number '{text}', which is no scalar here")))
    }

    /// Numbers of points along each axis, slowest first.
    fn points(&self, mesh: &str, on_mesh: &[usize]) -> Result<Vec<u64>> {
        let kind = self.facts.text(mesh, "type");
        if !matches!(kind, Some("uniform" | "rectilinear" | "structured")) {
            return Err(refused(format!(
                "the mesh '{mesh}' is {}; uniform, rectilinear and structured ones can be shown",
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

    /// Where on the grid an array is, or the reason why it is nowhere.
    fn centering(&self, of: &Array<'_>, mesh: Option<&str>, points: &[u64]) -> std::result::Result<Centering, String> {
        let is_cells = of.space.len() == points.len() && of.space.iter().zip(points).all(|(own, all)| own + 1 == *all);
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
