//! `adios-group` and its contents, in two passes: first the declarations, then the references.

use super::Reader;
use super::element_attributes::{ElementAttributes, Found};
use super::elements::{ATTRIBUTE, BOUNDS, COPY_ON_WRITE, GROUP, READ, SCHEMA, VARIABLE, WRITE};
use super::mesh::time_marks;
use crate::attribute::parse_type;
use crate::declare::{attribute_from, check_centering, check_variable_type};
use crate::dimension::{Dimension, Extents, Scope, check_agreement, mark_dimensions};
use crate::model::*;
use crate::name::{check_name, check_path};
use roxmltree::Node;
use std::collections::{HashMap, HashSet};
use thalweg_diagnostics::Problem;
use thalweg_types::{ElementType, Value};

const GROUP_ELEMENTS: &[&str] = &["var", "global-bounds", "attribute", "mesh", "gwrite", "schema", "multilink"];

/// Elements left by the first pass over a group for the second, when all names are known.
pub(super) struct PendingVariable<'a> {
    pub(super) at: usize,
    pub(super) local: Option<Found<'a>>,
    pub(super) bounds: Option<usize>,
    pub(super) attributes: ElementAttributes<'a>,
}

/// A `global-bounds` element.
pub(super) struct Bounds<'a> {
    attributes: ElementAttributes<'a>,
    /// Whether its dimensions or offsets were reported already.
    reported: bool,
}

/// The attributes of a group: positions by full name, and their unresolved references.
#[derive(Default)]
pub(super) struct Attributes<'a> {
    at: HashMap<String, usize>,
    pending: Vec<PendingAttribute<'a>>,
}

pub(super) enum PendingAttribute<'a> {
    Ready,
    From(Found<'a>),
}

impl<'a> Reader<'a> {
    pub(super) fn group(&mut self, node: Node<'a, 'a>, version: Option<String>) {
        let attributes = self.attributes(node, GROUP);
        let mut group = Group { schema_version: version, ..Group::default() };
        self.meshes.clear();
        if let Some(name) = self.need(&attributes, "name", "adios-group") {
            self.check(name.span, check_name("group", name.value));
            group.name = name.value.trim().to_string();
            if !self.groups.insert(group.name.clone()) {
                let problem =
                    Problem::new(format!("group {:?} is defined already", group.name)).expected("another name");
                self.report.error(name.span, problem);
            }
        }
        group.coordination_communicator = attributes.text("coordination-communicator");
        group.coordination_var = attributes.text("coordination-var");
        group.statistics = self.statistics(&attributes).unwrap_or_default();
        let schema = self.value::<String>(&attributes, &SCHEMA);
        group.has_openpmd = schema.is_some_and(|schema| schema.eq_ignore_ascii_case("openPMD"));
        group.time_index = attributes.text("time-index");
        if let Some(name) = &group.time_index {
            self.check(attributes.span("time-index"), check_name("time index", name));
        }
        if let Some(found) = attributes.get("host-language") {
            let language = self.host_language(found);
            if language.is_some_and(|l| l != self.schema.host_language) {
                let problem = Problem::new(format!("group {:?} with a host language of its own", group.name))
                    .expected("the one of <adios-config>");
                self.report.error(found.span, problem);
            }
        }

        // First pass: elements in the order of the document.
        let mut ids = 1..;
        let (mut variables, mut meshes, mut all_bounds) = (Vec::new(), Vec::new(), Vec::new());
        let mut known = Attributes::default();
        let mut names = HashSet::new();
        for (name, child) in self.children(node) {
            match name.as_str() {
                "var" => variables.extend(self.variable(child, None, &mut group, &mut names, &mut ids)),
                "global-bounds" => {
                    let attributes = self.attributes(child, BOUNDS);
                    let mut reported = self.need(&attributes, "dimensions", "global-bounds").is_none();
                    let joined =
                        attributes.get("dimensions").is_some_and(|d| d.value.to_ascii_lowercase().contains("joined"));
                    if !joined {
                        reported |= self.need(&attributes, "offsets", "global-bounds").is_none();
                    }
                    let bounds = all_bounds.len();
                    all_bounds.push(Bounds { attributes, reported });
                    for (name, inner) in self.children(child) {
                        if name == "var" {
                            variables.extend(self.variable(inner, Some(bounds), &mut group, &mut names, &mut ids));
                        } else if name == "gwrite" {
                            self.program_text(inner, &mut group);
                        } else {
                            self.unknown_element(inner, "global-bounds", &["var", "gwrite"]);
                        }
                    }
                }
                "attribute" => self.attribute(child, &mut group, &mut known, &mut ids),
                "mesh" => meshes.extend(self.mesh(child, &mut group)),
                "gwrite" => self.program_text(child, &mut group),
                "schema" => group.schema_version = self.schema_element(child).or(group.schema_version),
                "multilink" => {
                    let problem = Problem::new("<multilink>: links to other files are not kept");
                    self.report.warning(self.element_span(child), problem);
                }
                _ => self.unknown_element(child, "adios-group", GROUP_ELEMENTS),
            }
        }

        // Second pass: references. Variables first, so that attributes of variables can be used as dimensions.
        let mut scope = Scope::default();
        scope.set_time_index(group.time_index.as_deref());
        for pending in &variables {
            scope.add_variable(&group.variables[pending.at], pending.local.is_none());
        }
        for (attribute, pending) in group.attributes.iter_mut().zip(&known.pending) {
            if let PendingAttribute::From(variable) = pending {
                let value = self.check(variable.span, attribute_from(variable.value, &scope));
                attribute.value = value.unwrap_or(AttributeSource::Variable(variable.value.to_string()));
            }
            scope.add_attribute(attribute);
        }
        for pending in &variables {
            self.dimensions(pending, &mut all_bounds, &mut group, &scope);
        }
        self.check_meshes(&meshes, &scope);
        for pending in &variables {
            self.check_mesh_of(pending, &group);
        }
        for owner in std::iter::once(&attributes).chain(all_bounds.iter().map(|b| &b.attributes)) {
            let missing = owner.text("coordination-var").and_then(|name| scope.need_variable(&name).err());
            if let Some(problem) = missing {
                self.report.warning(owner.span("coordination-var"), problem);
            }
        }
        mark_dimensions(&mut group);
        self.schema.groups.push(group);
    }

    /// A line of program text in front of the variable that comes next.
    fn program_text(&mut self, node: Node<'a, 'a>, group: &mut Group) {
        let attributes = self.spelled_attributes(node, &[&["src"]]);
        if let Some(text) = self.need(&attributes, "src", "gwrite") {
            group.program_text.push(ProgramText { before: group.variables.len(), text: text.value.to_string() });
        }
    }

    pub(super) fn variable(
        &mut self,
        node: Node<'a, 'a>,
        bounds: Option<usize>,
        group: &mut Group,
        names: &mut HashSet<String>,
        ids: &mut std::ops::RangeFrom<u32>,
    ) -> Option<PendingVariable<'a>> {
        self.children(node).into_iter().for_each(|(_, child)| self.unknown_element(child, "var", &[]));
        let attributes = self.attributes(node, VARIABLE);
        let name = self.need(&attributes, "name", "var");
        let element = match self.need(&attributes, "type", "var") {
            Some(found) => self.check(found.span, parse_type(found.value)),
            None => None,
        };
        let name = name?;
        self.check(name.span, check_name("variable", name.value));
        let path = attributes.get("path").map_or("", |f| f.value.trim());
        self.check(attributes.span("path"), check_path(path));
        // With an unknown type, the name is still known to others.
        let mut variable = Variable::new(ids.next()?, name.value.trim(), path, element.unwrap_or(ElementType::I32));
        let local = attributes.get("dimensions").filter(|f| !f.value.trim().is_empty());
        if let Some(element) = element {
            self.check(attributes.span("type"), check_variable_type(element, local.is_some()));
            let digits = !variable.name.is_empty() && variable.name.bytes().all(|b| b.is_ascii_digit());
            if digits && element.is_integer() && local.is_none() {
                let problem = Problem::new(format!("variable {:?} cannot serve as a dimension", variable.name))
                    .expected("a name with at least one character that is no digit");
                self.report.warning(name.span, problem);
            }
        }
        if !names.insert(variable.full_name()) {
            let problem = Problem::new(format!("variable {:?} is defined already", variable.full_name()))
                .expected("another name or path");
            self.report.error(name.span, problem);
        }
        let expression = |name: &str| attributes.get(name).or(attributes.get("gname")).map(|f| f.value.to_string());
        variable.gwrite = expression("gwrite");
        variable.gread = expression("gread");
        variable.write = self.yes_or_no(&attributes, &WRITE);
        variable.read = self.yes_or_no(&attributes, &READ);
        variable.copy_on_write = self.yes_or_no(&attributes, &COPY_ON_WRITE);
        variable.statistics = self.statistics(&attributes);
        if let Some(found) = attributes.get("transform") {
            // Which transforms there are is known later, and one that is not known costs no document.
            let name = found.value.split(':').next().unwrap_or("").trim();
            let is_none = name.is_empty() || name.eq_ignore_ascii_case("none");
            variable.transform = (!is_none).then(|| found.value.trim().to_string());
            variable.transform_position = SourcePosition(Some(found.span));
        }
        variable.mesh = attributes.text("mesh");
        if let Some(found) = attributes.get("center").filter(|f| !f.value.trim().is_empty()) {
            variable.centering = self.check(found.span, check_centering(found.value));
        }
        variable.time = time_marks(&attributes);
        variable.hyperslab = attributes.text("hyperslab");
        let at = group.variables.len();
        group.variables.push(variable);
        Some(PendingVariable { at, local, bounds, attributes })
    }

    pub(super) fn dimensions(
        &mut self,
        pending: &PendingVariable<'a>,
        all: &mut [Bounds<'a>],
        group: &mut Group,
        scope: &Scope,
    ) {
        let variable = &mut group.variables[pending.at];
        let mut complete = true;
        if let Some(found) = pending.local {
            match self.dimension_list(found, scope) {
                Some(list) => variable.local = list,
                None => complete = false,
            }
        }
        if let Some(bounds) = pending.bounds.map(|b| &mut all[b]) {
            variable.coordination_communicator = bounds.attributes.text("coordination-communicator");
            variable.coordination_var = bounds.attributes.text("coordination-var");
            if pending.local.is_none() {
                let problem = Problem::new(format!(
                    "scalar {:?} in <global-bounds> is written as a scalar",
                    variable.full_name()
                ));
                self.report.warning(
                    pending.attributes.element,
                    problem.expected("dimensions=\"...\", or a place outside <global-bounds>"),
                );
                return;
            }
            if bounds.reported {
                return;
            }
            for (name, list) in [("dimensions", &mut variable.global), ("offsets", &mut variable.offset)] {
                let Some(found) = bounds.attributes.get(name) else { continue };
                match self.dimension_list(found, scope) {
                    Some(dimensions) => *list = dimensions,
                    None => bounds.reported = true,
                }
            }
            if bounds.reported {
                return;
            }
        }
        if !complete {
            return;
        }
        if let Err((extents, problem)) = check_agreement(&variable.local, &variable.global, &variable.offset) {
            let bounds = pending.bounds.map(|b| &mut all[b]);
            let span = match (extents, bounds) {
                (Extents::Local, _) | (_, None) => pending.attributes.span("dimensions"),
                (Extents::Global, Some(bounds)) => {
                    bounds.reported = true;
                    bounds.attributes.span("dimensions")
                }
                (Extents::Offset, Some(bounds)) => {
                    bounds.reported = true;
                    bounds.attributes.span("offsets")
                }
            };
            self.report.error(span, problem);
        }
    }

    pub(super) fn dimension_list(&mut self, found: Found<'a>, scope: &Scope) -> Option<Vec<Dimension>> {
        match Dimension::parse_list(found.value, scope) {
            Ok(list) => Some(list),
            Err(problems) => {
                for (range, problem) in problems {
                    self.report.error(found.part(range), problem);
                }
                None
            }
        }
    }

    pub(super) fn attribute(
        &mut self,
        node: Node<'a, 'a>,
        group: &mut Group,
        known: &mut Attributes<'a>,
        ids: &mut std::ops::RangeFrom<u32>,
    ) {
        self.children(node).into_iter().for_each(|(_, child)| self.unknown_element(child, "attribute", &[]));
        let attributes = self.attributes(node, ATTRIBUTE);
        let name = self.need(&attributes, "name", "attribute");
        let element = match attributes.get("type") {
            Some(found) => self.check(found.span, parse_type(found.value)),
            None => Some(ElementType::String),
        };
        let mut value = AttributeSource::One(Value::String(Vec::new()));
        let mut pending = PendingAttribute::Ready;
        match (attributes.get("value"), attributes.get("var")) {
            (Some(text), None) => {
                if let Some(element) = element {
                    value = self.check(text.span, AttributeSource::parse(element, text.value)).unwrap_or(value);
                }
            }
            (None, Some(variable)) => {
                if let Some(found) = attributes.get("type") {
                    let problem =
                        Problem::new("an attribute with \"var\" and \"type\"").expected("the type of the variable");
                    self.report.error(found.span, problem);
                }
                pending = PendingAttribute::From(variable);
            }
            (text, _) => {
                let what = if text.is_some() { "both \"value\" and \"var\"" } else { "neither \"value\" nor \"var\"" };
                let problem =
                    Problem::new(format!("an attribute with {what}")).expected("one of value=\"...\", var=\"...\"");
                self.report.error(attributes.element, problem);
            }
        }
        let Some(name) = name else { return };
        self.check(name.span, check_name("attribute", name.value));
        let path = attributes.get("path").map_or("", |f| f.value.trim());
        self.check(attributes.span("path"), check_path(path));
        let mut attribute = Attribute { id: 0, name: name.value.trim().to_string(), path: path.to_string(), value };
        let full = attribute.full_name();
        if let Some(at) = known.at.get(&full).copied() {
            let problem = Problem::new(format!("attribute {full:?} is defined already; the last one counts"));
            self.report.warning(name.span, problem.expected("another name or path"));
            group.attributes[at].value = attribute.value;
            known.pending[at] = pending;
            return;
        }
        attribute.id = ids.next().unwrap_or(u32::MAX);
        known.at.insert(full, group.attributes.len());
        group.attributes.push(attribute);
        known.pending.push(pending);
    }
}
