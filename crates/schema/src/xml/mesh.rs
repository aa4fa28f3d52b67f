//! `mesh` and its contents.

use super::Reader;
use super::element_attributes::{ElementAttributes, Found, Spellings};
use super::group::PendingVariable;
use crate::dimension::Scope;
use crate::mesh;
use crate::model::*;
use crate::name::{check_name, few};
use roxmltree::Node;
use std::collections::HashMap;
use thalweg_diagnostics::Problem;
use thalweg_params::Parameter;

/// `time-varying`, the one attribute of a mesh with a value of its own kind.
const TIME_VARYING: Parameter = Parameter::switch("time-varying", false, "the mesh changes from step to step");
const MESH_ATTRIBUTES: &[Spellings] = &[
    &["name"],
    &["type"],
    &["time-varying"],
    &["time-steps"],
    &["time-scale"],
    &["time-series-format"],
    &["file", "ref"],
    &["group"],
];
const MESH_ELEMENTS: &[&str] = &[
    "nspace",
    "dimensions",
    "origin",
    "spacing",
    "maximum",
    "coordinates-single-var",
    "coordinates-multi-var",
    "points-single-var",
    "points-multi-var",
    "number-of-points",
    "uniform-cells",
    "mixed-cells",
];

/// The values in a mesh that name variables.
pub(super) type MeshPlaces<'a> = Vec<Found<'a>>;

pub(super) fn time_marks(attributes: &ElementAttributes<'_>) -> TimeMarks {
    TimeMarks {
        steps: attributes.text("time-steps"),
        scale: attributes.text("time-scale"),
        series_format: attributes.text("time-series-format"),
    }
}

impl<'a> Reader<'a> {
    pub(super) fn mesh(&mut self, node: Node<'a, 'a>, group: &mut Group) -> Option<MeshPlaces<'a>> {
        let attributes = self.spelled_attributes(node, MESH_ATTRIBUTES);
        let name = self.need(&attributes, "name", "mesh");
        if let Some(name) = name {
            self.check(name.span, check_name("mesh", name.value));
            if !self.meshes.insert(name.value.trim().to_string()) {
                let problem =
                    Problem::new(format!("mesh {:?} is defined already", name.value)).expected("another name");
                self.report.error(name.span, problem);
            }
        }
        let mut values: HashMap<&'static str, Found<'a>> = HashMap::new();
        let mut cells = Vec::new();
        let mut places = Vec::new();
        for (element, child) in self.children(node) {
            let Some(known) = MESH_ELEMENTS.iter().copied().find(|e| *e == element) else {
                self.unknown_element(child, "mesh", MESH_ELEMENTS);
                continue;
            };
            if known.ends_with("-cells") {
                let attributes = self.spelled_attributes(child, &[&["count"], &["data"], &["type"]]);
                let parts = ["count", "data", "type"].map(|n| self.need(&attributes, n, known));
                let [Some(count), Some(data), Some(kind)] = parts else { continue };
                match mesh::cells(data.value, count.value, kind.value) {
                    Ok(sets) if known == "uniform-cells" && sets.len() > 1 => {
                        let problem = Problem::new("several sets in <uniform-cells>").expected("<mixed-cells>");
                        self.report.error(attributes.element, problem);
                    }
                    Ok(sets) => cells.extend(sets),
                    Err(problem) => self.report.error(attributes.element, problem),
                }
                places.extend([count, data]);
            } else {
                let attributes = self.spelled_attributes(child, &[&["value"]]);
                let Some(value) = self.need(&attributes, "value", known) else { continue };
                if values.insert(known, value).is_some() {
                    let problem = Problem::new(format!("a second <{known}> in one mesh")).expected("one");
                    self.report.error(attributes.element, problem);
                }
                places.push(value);
            }
        }
        let file = attributes.text("file");
        let kind = self.mesh_kind(&attributes, &values, cells, file.is_some())?;
        let mesh = Mesh {
            name: name?.value.trim().to_string(),
            time_varying: self.yes_or_no(&attributes, &TIME_VARYING),
            kind,
            file,
            group: attributes.text("group"),
            time: time_marks(&attributes),
        };
        let elsewhere = mesh.file.is_some() || mesh.group.is_some();
        group.meshes.push(mesh);
        (!elsewhere).then_some(places)
    }

    pub(super) fn mesh_kind(
        &mut self,
        attributes: &ElementAttributes<'a>,
        values: &HashMap<&'static str, Found<'a>>,
        cells: Vec<Cells>,
        in_file: bool,
    ) -> Option<MeshKind> {
        let kind = self.need(attributes, "type", "mesh")?;
        let word = kind.value.trim().to_ascii_lowercase();
        let belongs: &[&str] = match word.as_str() {
            "uniform" => &["nspace", "dimensions", "origin", "spacing", "maximum"],
            "rectilinear" => &["nspace", "dimensions", "coordinates-single-var", "coordinates-multi-var"],
            "structured" => &["nspace", "dimensions", "points-single-var", "points-multi-var"],
            "unstructured" => &["nspace", "number-of-points", "points-single-var", "points-multi-var"],
            _ => {
                let known = ["uniform", "rectilinear", "structured", "unstructured"];
                self.report.error(kind.span, Problem::unknown("type of mesh", kind.value, known));
                return None;
            }
        };
        for (name, found) in values {
            if !belongs.contains(name) {
                let problem = Problem::new(format!("<{name}> in a {word} mesh")).expected(belongs.join(", "));
                self.report.error(found.span, problem);
            }
        }
        if word != "unstructured" && !cells.is_empty() {
            let problem = Problem::new(format!("cells in a {word} mesh")).expected(belongs.join(", "));
            self.report.error(attributes.element, problem);
        }
        let text = |name: &str| values.get(name).map(|f| f.value);
        let part = |name: &str| text(name).map_or_else(Vec::new, mesh::list);
        if in_file && values.is_empty() && cells.is_empty() {
            // All of it is in that other file.
            let (dimensions, nspace) = (Vec::new(), None);
            return Some(match word.as_str() {
                "uniform" => MeshKind::Uniform { dimensions, origin: vec![], spacing: vec![], maximum: vec![], nspace },
                "rectilinear" => MeshKind::Rectilinear { dimensions, coordinates: vec![], single_var: false, nspace },
                "structured" => MeshKind::Structured { dimensions, points: vec![], single_var: false, nspace },
                _ => MeshKind::Unstructured { points: vec![], single_var: false, npoints: None, nspace, cells },
            });
        }
        let needed = |name: &str| {
            text(name).ok_or_else(|| {
                Problem::new(format!("a {word} mesh without <{name}>")).expected(format!("<{name} value=\"...\"/>"))
            })
        };
        // One variable for all coordinates, or one for each.
        let either =
            |what: &str| -> Result<(&str, bool), Problem> {
                let (single, multi) = (format!("{what}-single-var"), format!("{what}-multi-var"));
                match (text(&single), text(&multi)) {
                    (Some(one), None) if part(&single).len() == 1 => Ok((one, true)),
                    (None, Some(several)) if part(&multi).len() > 1 => Ok((several, false)),
                    (Some(_), None) => {
                        Err(Problem::new(format!("several variables in <{single}>")).expected(format!("<{multi}>")))
                    }
                    (None, Some(_)) => Err(Problem::new(format!("one variable in <{multi}>"))
                        .expected(format!("two or more, or <{single}>"))),
                    (None, None) => Err(Problem::new(format!("a {word} mesh without {what}"))
                        .expected(format!("<{single}> or <{multi}>"))),
                    (Some(_), Some(_)) => {
                        Err(Problem::new(format!("both <{single}> and <{multi}>")).expected("one of them"))
                    }
                }
            };
        let nspace = text("nspace");
        let made = match word.as_str() {
            "uniform" => needed("dimensions")
                .and_then(|d| MeshKind::uniform(d, text("origin"), text("spacing"), text("maximum"), nspace)),
            "rectilinear" => needed("dimensions")
                .and_then(|d| either("coordinates").and_then(|(c, _)| MeshKind::rectilinear(d, c, nspace))),
            "structured" => needed("dimensions")
                .and_then(|d| either("points").and_then(|(p, _)| MeshKind::structured(d, p, nspace))),
            _ => either("points").and_then(|(points, single_var)| {
                if cells.is_empty() {
                    return Err(
                        Problem::new("an unstructured mesh without cells").expected("<uniform-cells> or <mixed-cells>")
                    );
                }
                let points = mesh::list(points);
                let trimmed = |name: &str| text(name).map(|t| t.trim().to_string()).filter(|t| !t.is_empty());
                let (npoints, nspace) = (trimmed("number-of-points"), trimmed("nspace"));
                Ok(MeshKind::Unstructured { points, single_var, npoints, nspace, cells })
            }),
        };
        self.check(attributes.element, made)
    }

    /// Whether the names in meshes are variables of the group.
    pub(super) fn check_meshes(&mut self, meshes: &[MeshPlaces<'a>], scope: &Scope) {
        for found in meshes.iter().flatten() {
            let mut at = 0;
            for entry in found.value.split(',') {
                let start = at + entry.len() - entry.trim_start().len();
                at += entry.len() + 1;
                let entry = entry.trim();
                if !entry.is_empty() {
                    self.check(found.part(start..start + entry.len()), mesh::check_name(entry, scope));
                }
            }
        }
    }

    pub(super) fn check_mesh_of(&mut self, pending: &PendingVariable<'a>, group: &Group) {
        let variable = &group.variables[pending.at];
        match (&variable.mesh, &variable.centering) {
            (Some(mesh), centering) => {
                if !self.meshes.contains(mesh) {
                    let known = few(&self.look_ups, group.meshes.iter().map(|m| m.name.as_str()));
                    let problem = Problem::unknown("mesh", mesh, known);
                    self.report.error(pending.attributes.span("mesh"), problem);
                } else if centering.is_none() && pending.attributes.get("center").is_none() {
                    let problem = Problem::new("a variable on a mesh without centering")
                        .expected("center=\"point\" or center=\"cell\"");
                    self.report.warning(pending.attributes.span("mesh"), problem);
                }
            }
            (None, Some(_)) => {
                let problem = Problem::new("centering of a variable on no mesh").expected("mesh=\"...\"");
                self.report.warning(pending.attributes.span("center"), problem);
            }
            (None, None) => {}
        }
    }
}
