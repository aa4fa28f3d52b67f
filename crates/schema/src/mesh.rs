//! Meshes: checked, and turned into the attributes of the ADIOS mesh schema, version 1.1.
//!
//! | attribute | type | holds |
//! |-----------|------|-------|
//! | `/adios_schema/version_major`, `version_minor` | string | the schema's version, where the group gives one |
//! | `/adios_schema/M/type`, `time-varying` | string | kind of mesh `M`; `yes` or `no` |
//! | `/adios_schema/M/mesh-file`, `mesh-group` | string | where else its variables are |
//! | `/adios_schema/M/nspace`, `npoints` | string | a number or a variable |
//! | `/adios_schema/M/dimensions0`.., `dimensions-num` | string, integer | lists: one text per entry, and their number; so `origins`, `spacings`, `maximums`, `coords-multi-var`, `points-multi-var` |
//! | `/adios_schema/M/coords-single-var`, `points-single-var` | string | the one variable |
//! | `/adios_schema/M/ncsets` | integer | number of cell sets; `ccount`, `cdata`, `ctype` (one set) or `ccount0`.. (several) |
//! | `V/adios_schema`, `V/adios_schema/centering` | string | mesh of variable `V`; `point` or `cell` |
//! | `.../time-steps-*`, `time-scale-*` | double, string | `var`; `count`; `min`, `max`; `start`, `stride`, `count` |
//! | `V/adios_schema/singleton`; `min`, `max`; `start`, `stride`, `count` | string | the hyperslab |
//!
//! Read back with ADIOS 1.13.1 from files it wrote for documents with each kind of mesh.

use crate::dimension::Scope;
use crate::model::{Attribute, AttributeSource, Cells, Group, Mesh, MeshKind, TimeMarks, Variable};
use std::collections::HashSet;
use thalweg_diagnostics::Problem;
use thalweg_types::Value;

/// Types of cells by name; a number of points serves, too.
pub const CELL_TYPES: &[&str] = &["pt", "line", "triangle", "quad", "hex", "prism", "tet", "pyr"];

/// Entries separated by commas, without the blanks around them.
pub(crate) fn list(text: &str) -> Vec<String> {
    if text.trim().is_empty() { Vec::new() } else { text.split(',').map(|t| t.trim().to_string()).collect() }
}

fn optional(text: Option<&str>) -> Option<String> {
    text.map(str::trim).filter(|t| !t.is_empty()).map(str::to_string)
}

fn entries(what: &str, text: &str) -> Result<Vec<String>, Problem> {
    let entries = list(text);
    if entries.is_empty() || entries.iter().any(String::is_empty) {
        return Err(Problem::new(format!("{what} {text:?} of a mesh")).expected("names or numbers separated by commas"));
    }
    Ok(entries)
}

fn as_many(what: &str, entries: &[String], dimensions: usize) -> Result<(), Problem> {
    if entries.is_empty() || entries.len() == dimensions {
        return Ok(());
    }
    Err(Problem::new(format!("{} {what} in a mesh of {dimensions} dimensions", entries.len()))
        .expected(format!("{dimensions} {what}")))
}

impl Mesh {
    /// A mesh of this kind, not varying in time, its variables in the same group.
    pub fn new(name: impl Into<String>, kind: MeshKind) -> Mesh {
        Mesh { name: name.into(), time_varying: false, kind, file: None, group: None, time: TimeMarks::default() }
    }
}

/// All functions take lists as text separated by commas, as the document gives them.
impl MeshKind {
    /// Equally spaced points.
    ///
    /// # Errors
    /// Missing dimensions, or a list with another number of entries.
    pub fn uniform(
        dimensions: &str,
        origin: Option<&str>,
        spacing: Option<&str>,
        maximum: Option<&str>,
        nspace: Option<&str>,
    ) -> Result<MeshKind, Problem> {
        let dimensions = entries("dimensions", dimensions)?;
        let part = |what: &str, text: Option<&str>| {
            let part = optional(text).map_or(Ok(Vec::new()), |t| entries(what, &t))?;
            as_many(what, &part, dimensions.len()).map(|()| part)
        };
        let (origin, spacing, maximum) =
            (part("origin", origin)?, part("spacing", spacing)?, part("maximum", maximum)?);
        Ok(MeshKind::Uniform { dimensions, origin, spacing, maximum, nspace: optional(nspace) })
    }

    /// Lines of points per dimension. One variable holds all coordinates, or there is one per dimension.
    ///
    /// # Errors
    /// Missing dimensions or coordinates, or another number of coordinates than of dimensions.
    pub fn rectilinear(dimensions: &str, coordinates: &str, nspace: Option<&str>) -> Result<MeshKind, Problem> {
        let (dimensions, coordinates) = (entries("dimensions", dimensions)?, entries("coordinates", coordinates)?);
        let single_var = coordinates.len() == 1;
        if !single_var {
            as_many("coordinates", &coordinates, dimensions.len())?;
        }
        Ok(MeshKind::Rectilinear { dimensions, coordinates, single_var, nspace: optional(nspace) })
    }

    /// A deformed grid. One variable holds all points, or there is one per dimension of space.
    ///
    /// # Errors
    /// Missing dimensions or points.
    pub fn structured(dimensions: &str, points: &str, nspace: Option<&str>) -> Result<MeshKind, Problem> {
        let (dimensions, points) = (entries("dimensions", dimensions)?, entries("points", points)?);
        Ok(MeshKind::Structured { dimensions, single_var: points.len() == 1, points, nspace: optional(nspace) })
    }

    /// Points and cells. `data`, `count` and `cell_type` have one entry per set of cells.
    ///
    /// # Errors
    /// Missing points or cells, numbers of entries that differ, or an unknown type of cell.
    pub fn unstructured(
        points: &str,
        data: &str,
        count: &str,
        cell_type: &str,
        npoints: Option<&str>,
        nspace: Option<&str>,
    ) -> Result<MeshKind, Problem> {
        let points = entries("points", points)?;
        let cells = cells(data, count, cell_type)?;
        Ok(MeshKind::Unstructured {
            single_var: points.len() == 1,
            points,
            npoints: optional(npoints),
            nspace: optional(nspace),
            cells,
        })
    }

    /// Every variable that the mesh names: purpose and name.
    pub(crate) fn names(&self) -> Vec<&str> {
        fn some(name: &Option<String>) -> &[String] {
            name.as_ref().map_or(&[], std::slice::from_ref)
        }
        let lists: Vec<&[String]> = match self {
            MeshKind::Uniform { dimensions, origin, spacing, maximum, nspace } => {
                vec![dimensions, origin, spacing, maximum, some(nspace)]
            }
            MeshKind::Rectilinear { dimensions, coordinates: other, nspace, .. }
            | MeshKind::Structured { dimensions, points: other, nspace, .. } => vec![dimensions, other, some(nspace)],
            MeshKind::Unstructured { points, npoints, nspace, .. } => vec![points, some(npoints), some(nspace)],
        };
        let cells: &[Cells] = if let MeshKind::Unstructured { cells, .. } = self { cells } else { &[] };
        let cells = cells.iter().flat_map(|c| [&c.count, &c.data]);
        lists.into_iter().flatten().chain(cells).map(String::as_str).collect()
    }

    fn word(&self) -> &'static str {
        match self {
            MeshKind::Uniform { .. } => "uniform",
            MeshKind::Rectilinear { .. } => "rectilinear",
            MeshKind::Structured { .. } => "structured",
            MeshKind::Unstructured { .. } => "unstructured",
        }
    }
}

/// Sets of cells from lists separated by commas.
pub(crate) fn cells(data: &str, count: &str, cell_type: &str) -> Result<Vec<Cells>, Problem> {
    let (data, count, types) =
        (entries("cell data", data)?, entries("cell count", count)?, entries("cell type", cell_type)?);
    if data.len() != count.len() || data.len() != types.len() {
        let what = format!("{} counts, {} data and {} types of cells", count.len(), data.len(), types.len());
        return Err(Problem::new(what).expected("as many of each"));
    }
    if let Some(wrong) = types.iter().find(|t| !CELL_TYPES.contains(&t.as_str()) && t.parse::<u32>().is_err()) {
        return Err(Problem::unknown("type of cell", wrong, CELL_TYPES.iter().copied()));
    }
    let sets = data.into_iter().zip(count).zip(types);
    Ok(sets.map(|((data, count), cell_type)| Cells { count, data, cell_type }).collect())
}

/// Whether a text is a number or names a variable of the group.
pub(crate) fn check_name(name: &str, scope: &Scope) -> Result<(), Problem> {
    if name.parse::<f64>().is_ok() { Ok(()) } else { scope.need_variable(name).map(|_| ()) }
}

/// Whether the names in a mesh are variables of its group; a mesh whose variables are in another group is not checked.
pub(crate) fn check_names(mesh: &Mesh, scope: &Scope) -> Result<(), Problem> {
    if mesh.file.is_some() || mesh.group.is_some() {
        return Ok(());
    }
    mesh.kind.names().into_iter().try_for_each(|name| check_name(name, scope))
}

/// The attributes that describe a group's meshes and their variables to viewers.
///
/// Ids follow those of the group.
///
/// # Cost
/// O(variables + attributes + meshes) at every call: the attributes are made anew.
pub fn mesh_attributes(group: &Group) -> Vec<Attribute> {
    let used = group.variables.iter().map(|v| v.id).chain(group.attributes.iter().map(|a| a.id));
    let mut out = Attributes { next_id: used.max().unwrap_or(0) + 1, list: Vec::new() };
    if let Some(version) = &group.schema_version {
        let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
        out.text("/adios_schema/version_major", major);
        out.text("/adios_schema/version_minor", minor);
    }
    for mesh in &group.meshes {
        out.mesh(mesh);
    }
    let nothing = TimeMarks::default();
    let says = |v: &Variable| v.mesh.is_some() || v.centering.is_some() || v.hyperslab.is_some() || v.time != nothing;
    let mut seen = HashSet::new();
    // Most groups have no meshes: names are then not put together.
    let speaking = if group.variables.iter().any(says) { group.variables.as_slice() } else { &[] };
    for variable in speaking {
        let about = format!("{}/adios_schema", variable.full_name());
        if !seen.insert(about.clone()) {
            continue;
        }
        if let Some(mesh) = &variable.mesh {
            out.text(&about, mesh);
        }
        if let Some(centering) = &variable.centering {
            out.text(&format!("{about}/centering"), centering);
        }
        out.time(&about, &variable.time);
        if let Some(hyperslab) = &variable.hyperslab {
            let parts = list(hyperslab);
            let names: &[&str] = match parts.len() {
                1 => &["singleton"],
                2 => &["min", "max"],
                _ => &["start", "stride", "count"],
            };
            for (name, part) in names.iter().zip(&parts) {
                out.text(&format!("{about}/{name}"), part);
            }
        }
    }
    // The file of a mesh may have been set before the mesh was defined.
    let own: HashSet<&str> = group.attributes.iter().filter(|a| a.path.is_empty()).map(|a| a.name.as_str()).collect();
    out.list.retain(|a| !own.contains(a.name.as_str()));
    out.list
}

struct Attributes {
    next_id: u32,
    list: Vec<Attribute>,
}

impl Attributes {
    fn add(&mut self, name: &str, value: Value) {
        // The full name as name: both foreign readers then build the same full name from it.
        let value = AttributeSource::One(value);
        self.list.push(Attribute { id: self.next_id, name: name.to_string(), path: String::new(), value });
        self.next_id += 1;
    }

    fn text(&mut self, name: &str, text: &str) {
        self.add(name, Value::String(text.as_bytes().to_vec()));
    }

    fn optional(&mut self, name: &str, text: &Option<String>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    fn list(&mut self, name: &str, entries: &[String]) {
        if entries.is_empty() {
            return;
        }
        for (at, entry) in entries.iter().enumerate() {
            self.text(&format!("{name}{at}"), entry);
        }
        self.add(&format!("{name}-num"), Value::I32(entries.len() as i32));
    }

    fn single_or_list(&mut self, about: &str, what: &str, entries: &[String], single: bool) {
        match entries {
            [one] if single => self.text(&format!("{about}/{what}-single-var"), one),
            several => self.list(&format!("{about}/{what}-multi-var"), several),
        }
    }

    fn mesh(&mut self, mesh: &Mesh) {
        let about = format!("/adios_schema/{}", mesh.name);
        let at = |part: &str| format!("{about}/{part}");
        self.text(&at("type"), mesh.kind.word());
        self.text(&at("time-varying"), if mesh.time_varying { "yes" } else { "no" });
        self.time(&about, &mesh.time);
        self.optional(&at("mesh-file"), &mesh.file);
        self.optional(&at("mesh-group"), &mesh.group);
        match &mesh.kind {
            MeshKind::Uniform { dimensions, origin, spacing, maximum, nspace } => {
                self.optional(&at("nspace"), nspace);
                self.list(&at("dimensions"), dimensions);
                self.list(&at("origins"), origin);
                self.list(&at("spacings"), spacing);
                self.list(&at("maximums"), maximum);
            }
            MeshKind::Rectilinear { dimensions, coordinates, single_var, nspace } => {
                self.optional(&at("nspace"), nspace);
                self.list(&at("dimensions"), dimensions);
                self.single_or_list(&about, "coords", coordinates, *single_var);
            }
            MeshKind::Structured { dimensions, points, single_var, nspace } => {
                self.optional(&at("nspace"), nspace);
                self.list(&at("dimensions"), dimensions);
                self.single_or_list(&about, "points", points, *single_var);
            }
            MeshKind::Unstructured { points, single_var, npoints, nspace, cells } => {
                self.optional(&at("nspace"), nspace);
                self.optional(&at("npoints"), npoints);
                self.single_or_list(&about, "points", points, *single_var);
                if cells.is_empty() {
                    return;
                }
                self.add(&at("ncsets"), Value::I32(cells.len() as i32));
                for (number, set) in cells.iter().enumerate() {
                    let number = if cells.len() == 1 { String::new() } else { number.to_string() };
                    self.text(&at(&format!("ccount{number}")), &set.count);
                    self.text(&at(&format!("cdata{number}")), &set.data);
                    self.text(&at(&format!("ctype{number}")), &set.cell_type);
                }
            }
        }
    }

    fn time(&mut self, about: &str, time: &TimeMarks) {
        for (what, text) in [("time-steps", &time.steps), ("time-scale", &time.scale)] {
            let parts = text.as_deref().map(list).unwrap_or_default();
            let names: &[&str] = match parts.len() {
                1 if parts[0].parse::<f64>().is_err() => &["var"],
                1 => &["count"],
                2 => &["min", "max"],
                _ => &["start", "stride", "count"],
            };
            for (name, part) in names.iter().zip(&parts) {
                let value = part.parse().map_or_else(|_| Value::String(part.clone().into_bytes()), Value::F64);
                self.add(&format!("{about}/{what}-{name}"), value);
            }
        }
        self.optional(&format!("{about}/time-series-format"), &time.series_format);
    }
}
