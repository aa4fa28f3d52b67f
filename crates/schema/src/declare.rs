//! The same schema declared from code, with no document at all.
//!
//! ```
//! use thalweg_schema::{GroupBuilder, Schema};
//! use thalweg_types::ElementType;
//!
//! let mut group = GroupBuilder::new("restart")?;
//! group.define_variable("NX", "", ElementType::I32, "", "", "")?;
//! group.define_variable("t", "", ElementType::F64, "1,NX", "16,NX", "0,0")?;
//! group.define_attribute("units", "/t", ElementType::String, "K")?;
//! group.select_method("MPI", "stripe_count=4", "")?;
//!
//! let mut schema = Schema::default();
//! schema.declare(group)?;
//! assert!(schema.group("restart").unwrap().variables[0].is_dimension);
//! # Ok::<(), thalweg_types::Error>(())
//! ```
//!
//! Names used in dimensions must be defined before. A name may be defined again with the same type: one more block of the
//! same variable with its own dimensions, which keeps the first id. All functions leave the group as it was on error.

use crate::dimension::{Dimension, NameRef, Scope, check_agreement, mark_dimensions};
use crate::mesh;
use crate::method;
use crate::model::{
    Attribute, AttributeSource, Group, Mesh, MeshKind, MethodChoice, Schema, Statistics, TimeMarks, Variable,
};
use crate::name::{check_name, check_path};
use std::collections::HashMap;
use thalweg_diagnostics::Problem;
use thalweg_types::transform_names::{TRANSFORM_NAMES, is_transform_name};
use thalweg_types::{ElementType, Error, ErrorKind, Result, Value};

/// A group being declared; more may be added at any time, also between two outputs.
#[derive(Debug, Clone)]
pub struct GroupBuilder {
    group: Group,
    methods: Vec<MethodChoice>,
    scope: Scope,
    /// All assigned ids, including those of deleted names: a name keeps its id for the lifetime of the group.
    ids: HashMap<(Member, String), u32>,
    next_id: u32,
    /// Positions of a variable's definitions, and of an attribute, by full name.
    definitions: HashMap<String, Vec<usize>>,
    attribute_at: HashMap<String, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Member {
    Variable,
    Attribute,
}

impl GroupBuilder {
    /// An empty group.
    ///
    /// # Errors
    /// `Config` for a bad name, as in all functions here.
    pub fn new(name: &str) -> Result<GroupBuilder> {
        check_name("group", name)?;
        Ok(GroupBuilder::from_group(Group { name: name.to_string(), ..Group::default() }))
    }

    /// Continues the declaration of a group, for example of a document.
    pub fn from_group(group: Group) -> GroupBuilder {
        let variables = group.variables.iter().map(|v| ((Member::Variable, v.full_name()), v.id));
        let attributes = group.attributes.iter().map(|a| ((Member::Attribute, a.full_name()), a.id));
        let ids: HashMap<_, u32> = variables.chain(attributes).collect();
        let next_id = ids.values().max().map_or(1, |last| last + 1);
        let mut definitions: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, variable) in group.variables.iter().enumerate() {
            definitions.entry(variable.full_name()).or_default().push(at);
        }
        let attribute_at = group.attributes.iter().enumerate().map(|(at, a)| (a.full_name(), at)).collect();
        GroupBuilder { scope: Scope::of(&group), group, methods: Vec::new(), ids, next_id, definitions, attribute_at }
    }

    /// Sets the name of the time dimension; empty text for none.
    ///
    /// # Errors
    /// See [`GroupBuilder::new`].
    pub fn set_time_index(&mut self, name: &str) -> Result<()> {
        let name = name.trim();
        if name.is_empty() {
            self.group.time_index = None;
        } else {
            check_name("time index", name)?;
            self.group.time_index = Some(name.to_string());
        }
        self.scope.set_time_index(self.group.time_index.as_deref());
        Ok(())
    }

    /// Sets the statistics of variables that do not choose their own.
    pub fn set_statistics(&mut self, statistics: Statistics) {
        self.group.statistics = statistics;
    }

    /// Sets the names of the communicator and of the variable that distinguishes the ranks of an output; empty text for none.
    pub fn set_coordination(&mut self, communicator: &str, variable: &str) {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_string());
        self.group.coordination_communicator = given(communicator);
        self.group.coordination_var = given(variable);
    }

    /// Sets the version of the mesh schema, as `1.1`.
    ///
    /// # Errors
    /// `Config` for text that is no version.
    pub fn set_schema_version(&mut self, version: &str) -> Result<()> {
        self.group.schema_version = Some(check_version(version)?);
        Ok(())
    }

    /// Sets whether the group's files get a view for openPMD when they are closed for good.
    pub fn set_openpmd(&mut self, has: bool) {
        self.group.has_openpmd = has;
    }

    /// Adds a variable and returns its position in [`Group::variables`].
    ///
    /// - `local`, `global`, `offset`: dimensions separated by commas (`"2*NX+1,4"`); all empty for a scalar, the latter two
    ///   empty for a local array.
    ///
    /// # Errors
    /// `Config` for bad names and dimensions, and where the name is defined already with another type.
    /// # Cost
    /// As [`Dimension::parse`] for each dimension; all definitions of the names used in dimensions are marked. The number of
    /// variables does not matter otherwise.
    pub fn define_variable(
        &mut self,
        name: &str,
        path: &str,
        element: ElementType,
        local: &str,
        global: &str,
        offset: &str,
    ) -> Result<usize> {
        check_name("variable", name)?;
        check_path(path)?;
        check_variable_type(element, !local.trim().is_empty())?;
        let list = |text: &str| -> Result<Vec<Dimension>> {
            Dimension::parse_list(text, &self.scope).map_err(|problems| {
                problems.into_iter().next().map_or_else(|| Problem::new("no dimension"), |(_, p)| p).into()
            })
        };
        let mut variable = Variable::new(0, name, path, element);
        (|| {
            variable.local = list(local)?;
            variable.global = list(global)?;
            variable.offset = list(offset)?;
            check_agreement(&variable.local, &variable.global, &variable.offset).map_err(|(_, problem)| problem)?;
            Ok(())
        })()
        .map_err(|e: Error| e.in_variable(variable.full_name()))?;
        let full = variable.full_name();
        if let Some(first) = self.definitions.get(&full).and_then(|d| d.first()) {
            let Variable { element: known, is_dimension, .. } = self.group.variables[*first];
            if known != element {
                return Err(Error::new(ErrorKind::Config, format!("defined as {known} before, now as {element}"))
                    .in_variable(full));
            }
            variable.is_dimension = is_dimension;
        }
        variable.id = self.id(Member::Variable, &full);
        self.scope.add_variable(&variable, variable.local.is_empty());
        let handle = self.group.variables.len();
        self.definitions.entry(full).or_default().push(handle);
        self.group.variables.push(variable);
        self.mark_used_by(handle);
        Ok(handle)
    }

    /// The variable at a position, to set fields without a function of their own (`copy_on_write`, `statistics`, ...).
    pub fn variable_mut(&mut self, handle: usize) -> Option<&mut Variable> {
        self.group.variables.get_mut(handle)
    }

    /// Sets the transform of a variable, as `zlib:5`; empty text or `none` for none.
    ///
    /// # Errors
    /// `NotFound` for an unknown position, `Config` for an unknown transform.
    pub fn set_transform(&mut self, handle: usize, transform: &str) -> Result<()> {
        let transform = check_transform(transform)?;
        let variable = self.group.variables.get_mut(handle);
        variable.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no variable {handle}")))?.transform = transform;
        Ok(())
    }

    /// Adds an attribute with a text as value, see [`AttributeSource::parse`]; replaces an earlier one of its name.
    ///
    /// # Errors
    /// `Config` for a bad name or a text that is no such value.
    pub fn define_attribute(&mut self, name: &str, path: &str, element: ElementType, value: &str) -> Result<()> {
        let value = AttributeSource::parse(element, value)?;
        self.add_attribute(name, path, value)
    }

    /// Adds an attribute with the value of a scalar variable.
    ///
    /// # Errors
    /// `Config` for a bad name, or where there is no such variable or it is an array.
    pub fn define_attribute_from(&mut self, name: &str, path: &str, variable: &str) -> Result<()> {
        let value = attribute_from(variable, &self.scope)?;
        self.add_attribute(name, path, value)
    }

    /// Adds an attribute with these values, all of type `element`; strings may be several, too.
    ///
    /// # Errors
    /// `Config` for a bad name, no values, or values of another type.
    pub fn define_attribute_values(
        &mut self,
        name: &str,
        path: &str,
        element: ElementType,
        mut values: Vec<Value>,
    ) -> Result<()> {
        let element_of_values = if element == ElementType::StringArray { ElementType::String } else { element };
        if values.is_empty() || values.iter().any(|v| v.element_type() != element_of_values) {
            let what = format!("{} values of an attribute of type {element}", values.len());
            return Err(Problem::new(what).expected("one or more values of that type").into());
        }
        let single = values.len() == 1 && element != ElementType::StringArray;
        let value = if single {
            AttributeSource::One(values.remove(0))
        } else {
            AttributeSource::Many(element_of_values, values)
        };
        self.add_attribute(name, path, value)
    }

    fn add_attribute(&mut self, name: &str, path: &str, value: AttributeSource) -> Result<()> {
        check_name("attribute", name)?;
        check_path(path)?;
        let mut attribute = Attribute { id: 0, name: name.to_string(), path: path.to_string(), value };
        let full = attribute.full_name();
        attribute.id = self.id(Member::Attribute, &full);
        self.scope.add_attribute(&attribute);
        match self.attribute_at.get(&full) {
            Some(known) => self.group.attributes[*known] = attribute,
            None => {
                self.attribute_at.insert(full, self.group.attributes.len());
                self.group.attributes.push(attribute);
            }
        }
        Ok(())
    }

    /// Adds a mesh of equally spaced points. Empty text is the same as none.
    ///
    /// # Errors
    /// `Config` for a bad or known name, and for lists that do not fit each other; the same holds for the other meshes.
    pub fn define_mesh_uniform(
        &mut self,
        name: &str,
        dimensions: &str,
        origin: Option<&str>,
        spacing: Option<&str>,
        maximum: Option<&str>,
        nspace: Option<&str>,
    ) -> Result<()> {
        let kind = MeshKind::uniform(dimensions, origin, spacing, maximum, nspace)?;
        self.add_mesh(name, kind)
    }

    /// Adds a rectilinear mesh.
    ///
    /// # Errors
    /// See [`GroupBuilder::define_mesh_uniform`].
    pub fn define_mesh_rectilinear(
        &mut self,
        name: &str,
        dimensions: &str,
        coordinates: &str,
        nspace: Option<&str>,
    ) -> Result<()> {
        let kind = MeshKind::rectilinear(dimensions, coordinates, nspace)?;
        self.add_mesh(name, kind)
    }

    /// Adds a structured mesh.
    ///
    /// # Errors
    /// See [`GroupBuilder::define_mesh_uniform`].
    pub fn define_mesh_structured(
        &mut self,
        name: &str,
        dimensions: &str,
        points: &str,
        nspace: Option<&str>,
    ) -> Result<()> {
        let kind = MeshKind::structured(dimensions, points, nspace)?;
        self.add_mesh(name, kind)
    }

    /// Adds an unstructured mesh; `data`, `count` and `cell_type` have one entry per set of cells.
    ///
    /// # Errors
    /// See [`GroupBuilder::define_mesh_uniform`].
    #[allow(clippy::too_many_arguments)] // as adios_define_mesh_unstructured
    pub fn define_mesh_unstructured(
        &mut self,
        name: &str,
        points: &str,
        data: &str,
        count: &str,
        cell_type: &str,
        npoints: Option<&str>,
        nspace: Option<&str>,
    ) -> Result<()> {
        let kind = MeshKind::unstructured(points, data, count, cell_type, npoints, nspace)?;
        self.add_mesh(name, kind)
    }

    fn add_mesh(&mut self, name: &str, kind: MeshKind) -> Result<()> {
        check_name("mesh", name)?;
        if self.group.meshes.iter().any(|m| m.name == name) {
            return Err(Error::new(ErrorKind::Config, format!("mesh {name:?} is defined already")));
        }
        self.group.meshes.push(Mesh::new(name, kind));
        Ok(())
    }

    /// The mesh of this name, to set whether it varies, its file, group and time marks.
    ///
    /// # Errors
    /// `NotFound` with the nearest name.
    pub fn mesh_mut(&mut self, name: &str) -> Result<&mut Mesh> {
        match self.group.meshes.iter().position(|m| m.name == name) {
            Some(at) => Ok(&mut self.group.meshes[at]),
            None => {
                let problem = Problem::unknown("mesh", name, self.group.meshes.iter().map(|m| m.name.as_str()));
                Err(Error::new(ErrorKind::NotFound, problem.to_string()))
            }
        }
    }

    /// Lays a variable (full or bare name, every definition of it) on a mesh.
    ///
    /// # Errors
    /// `Config` where there is no such variable.
    pub fn set_variable_mesh(&mut self, variable: &str, mesh: &str) -> Result<()> {
        self.each_definition(variable, |v| v.mesh = Some(mesh.to_string()))
    }

    /// Sets whether a variable's values belong to `cell` or `point` of its mesh.
    ///
    /// # Errors
    /// `Config` for another word, or where there is no such variable.
    pub fn set_variable_centering(&mut self, variable: &str, centering: &str) -> Result<()> {
        let centering = check_centering(centering)?;
        self.each_definition(variable, |v| v.centering = Some(centering.clone()))
    }

    /// Sets which steps a variable's values belong to.
    ///
    /// # Errors
    /// `Config` where there is no such variable.
    pub fn set_variable_time(&mut self, variable: &str, time: TimeMarks) -> Result<()> {
        self.each_definition(variable, |v| v.time = time.clone())
    }

    /// Sets the part of a variable that viewers show.
    ///
    /// # Errors
    /// `Config` where there is no such variable.
    pub fn set_variable_hyperslab(&mut self, variable: &str, hyperslab: &str) -> Result<()> {
        self.each_definition(variable, |v| v.hyperslab = Some(hyperslab.to_string()))
    }

    fn each_definition(&mut self, name: &str, mut f: impl FnMut(&mut Variable)) -> Result<()> {
        let (full, _, _) = self.scope.need_variable(name)?;
        for at in self.definitions.get(full).into_iter().flatten() {
            f(&mut self.group.variables[*at]);
        }
        Ok(())
    }

    /// Chooses one more method for the group.
    ///
    /// - `parameters`: `key=value;key=value`.
    /// - `base_path`: folder put in front of file names; empty for none.
    ///
    /// # Errors
    /// `Config` for an empty name. Whether there is such a method is checked where methods are made.
    pub fn select_method(&mut self, method: &str, parameters: &str, base_path: &str) -> Result<()> {
        let method = method.trim();
        check_name("method", method)?;
        let mut choice = MethodChoice::new(&self.group.name, method);
        choice.base_path = method::base_path(base_path);
        choice.parameters = thalweg_params::pairs(parameters).into_iter().map(|(_, pair)| pair).collect();
        self.methods.push(choice);
        Ok(())
    }

    /// Forgets all variables, so that others can be defined for the next output. A name defined again gets its old id.
    ///
    /// # Cost
    /// O(variables + attributes): the names for dimensions are collected again.
    pub fn delete_variables(&mut self) {
        self.group.variables.clear();
        self.group.program_text.clear();
        self.definitions.clear();
        self.scope = Scope::of(&self.group);
    }

    /// Forgets all attributes. A name defined again gets its old id.
    ///
    /// # Cost
    /// O(variables + attributes): the names for dimensions are collected again.
    pub fn delete_attributes(&mut self) {
        self.group.attributes.clear();
        self.attribute_at.clear();
        self.scope = Scope::of(&self.group);
        mark_dimensions(&mut self.group);
    }

    /// Checks conditions between definitions, which may come in any order: that the variables of meshes and the meshes of
    /// variables exist, and that attributes and dimensions refer to existing variables and attributes.
    ///
    /// # Errors
    /// `Config` for the first thing missing.
    /// # Cost
    /// O(variables + attributes + meshes), and for each variable on a mesh a comparison with the names of all meshes.
    pub fn check(&self) -> Result<()> {
        let in_group = |e: Error| e.in_group(&self.group.name);
        for mesh in &self.group.meshes {
            mesh::check_names(mesh, &self.scope).map_err(|p| in_group(p.into()))?;
        }
        for variable in &self.group.variables {
            let known = |mesh: &&String| self.group.meshes.iter().any(|m| m.name == **mesh);
            if let Some(mesh) = variable.mesh.as_ref().filter(|m| !known(m)) {
                let problem = Problem::unknown("mesh", mesh, self.group.meshes.iter().map(|m| m.name.as_str()));
                return Err(in_group(Error::from(problem)).in_variable(variable.full_name()));
            }
        }
        let known = |name: NameRef<'_>| match name {
            NameRef::Variable(name) => self.definitions.contains_key(name),
            NameRef::Attribute(name) => self.attribute_at.contains_key(name),
        };
        for variable in &self.group.variables {
            let mut missing = None;
            for dimension in variable.local.iter().chain(&variable.global).chain(&variable.offset) {
                dimension.for_each_name(&mut |name| {
                    if !known(name) {
                        missing = Some(format!("{name:?}"));
                    }
                });
            }
            if let Some(missing) = missing {
                let error = Error::new(ErrorKind::Config, format!("a dimension names {missing}, which was deleted"));
                return Err(in_group(error).in_variable(variable.full_name()));
            }
        }
        for attribute in &self.group.attributes {
            if let AttributeSource::Variable(name) = &attribute.value {
                self.scope
                    .need_variable(name)
                    .map_err(|p| in_group(Error::from(p)).in_variable(attribute.full_name()))?;
            }
        }
        Ok(())
    }

    /// The group as declared so far.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Its methods, in order.
    pub fn methods(&self) -> &[MethodChoice] {
        &self.methods
    }

    /// The names that dimensions and attributes of the group may use.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Ends the declaration.
    ///
    /// # Errors
    /// See [`GroupBuilder::check`].
    pub fn finish(self) -> Result<(Group, Vec<MethodChoice>)> {
        self.check()?;
        Ok((self.group, self.methods))
    }

    /// The id that a variable of this full name has in files, given now where it has none: for variables that are
    /// written under another path than the declared one.
    pub fn variable_id(&mut self, full: &str) -> u32 {
        self.id(Member::Variable, full)
    }

    /// As [`GroupBuilder::variable_id`], of an attribute that the library adds.
    pub fn attribute_id(&mut self, full: &str) -> u32 {
        self.id(Member::Attribute, full)
    }

    fn id(&mut self, member: Member, full: &str) -> u32 {
        let id = *self.ids.entry((member, full.to_string())).or_insert(self.next_id);
        self.next_id = self.next_id.max(id + 1);
        id
    }

    fn mark_used_by(&mut self, handle: usize) {
        let variable = &self.group.variables[handle];
        let mut used = Vec::new();
        for dimension in variable.local.iter().chain(&variable.global).chain(&variable.offset) {
            dimension.for_each_name(&mut |name| {
                let definitions = match name {
                    NameRef::Variable(name) => self.definitions.get(name),
                    NameRef::Attribute(name) => {
                        match self.attribute_at.get(name).map(|at| &self.group.attributes[*at].value) {
                            Some(AttributeSource::Variable(behind)) => self.definitions.get(behind),
                            _ => None,
                        }
                    }
                };
                used.extend(definitions.into_iter().flatten().copied());
            });
        }
        for at in used {
            self.group.variables[at].is_dimension = true;
        }
    }
}

impl Schema {
    /// Adds a group declared from code, with its methods.
    ///
    /// # Errors
    /// `Config` where a group of this name is there already, or [`GroupBuilder::check`] fails.
    pub fn declare(&mut self, group: GroupBuilder) -> Result<()> {
        let (group, methods) = group.finish()?;
        if self.group(&group.name).is_some() {
            return Err(Error::new(ErrorKind::Config, format!("group {:?} is declared already", group.name)));
        }
        self.groups.push(group);
        self.methods.extend(methods);
        Ok(())
    }
}

/// A version `major.minor`.
pub(crate) fn check_version(version: &str) -> std::result::Result<String, Problem> {
    let version = version.trim();
    let fits = version.split('.').count() <= 2 && version.split('.').all(|part| part.parse::<u32>().is_ok());
    if fits {
        Ok(version.to_string())
    } else {
        Err(Problem::new(format!("schema version {version:?}")).expected("a version such as 1.1"))
    }
}

/// Whether a variable may be of this type.
pub(crate) fn check_variable_type(element: ElementType, array: bool) -> std::result::Result<(), Problem> {
    match element {
        ElementType::StringArray => {
            Err(Problem::new("a variable of type string array").expected("string arrays as attributes only"))
        }
        ElementType::String if array => Err(Problem::new("a string with dimensions")
            .expected("no dimensions: a string has the length it is written with")),
        _ => Ok(()),
    }
}

/// A transform with parameters (`zlib:5`); `None` for no transform.
fn check_transform(text: &str) -> std::result::Result<Option<String>, Problem> {
    let text = text.trim();
    let name = text.split(':').next().unwrap_or("").trim();
    if name.is_empty() || name.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    if is_transform_name(name) {
        Ok(Some(text.to_string()))
    } else {
        Err(Problem::unknown("transform", name, TRANSFORM_NAMES.iter().copied()))
    }
}

pub(crate) fn check_centering(text: &str) -> std::result::Result<String, Problem> {
    let word = text.trim().to_ascii_lowercase();
    if ["cell", "point"].contains(&word.as_str()) {
        Ok(word)
    } else {
        Err(Problem::unknown("centering", text, ["cell", "point"]))
    }
}

/// The source of an attribute that takes its value from a variable.
pub(crate) fn attribute_from(variable: &str, scope: &Scope) -> std::result::Result<AttributeSource, Problem> {
    match scope.need_variable(variable.trim())? {
        (full, _, true) => Ok(AttributeSource::Variable(full.to_string())),
        (full, _, false) => {
            Err(Problem::new(format!("array {full:?} cannot be the value of an attribute"))
                .expected("a scalar variable"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> GroupBuilder {
        let mut group = GroupBuilder::new("g").unwrap();
        group.define_variable("NX", "", ElementType::I32, "", "", "").unwrap();
        group
    }

    #[test]
    fn a_name_defined_again_is_one_more_block_with_the_first_id() {
        let mut group = group();
        let first = group.define_variable("t", "/v", ElementType::F64, "NX", "100", "0").unwrap();
        group.define_attribute("a", "", ElementType::I32, "1").unwrap();
        let second = group.define_variable("t", "/v", ElementType::F64, "5", "100", "NX").unwrap();
        assert_ne!(first, second);
        let ids: Vec<u32> = group.group().variables.iter().map(|v| v.id).collect();
        assert_eq!(ids, [1, 2, 2]);
        assert_eq!(group.group().attributes[0].id, 3);
        let error = group.define_variable("t", "/v", ElementType::F32, "5", "", "").unwrap_err();
        assert!(error.to_string().contains("defined as double before, now as real"), "{error}");
        assert_eq!(group.group().variables.len(), 3, "an error leaves the group as it was");
    }

    #[test]
    fn variables_may_come_and_go_and_keep_their_ids() {
        let mut group = group();
        group.define_variable("a", "", ElementType::F64, "NX", "", "").unwrap();
        group.delete_variables();
        assert!(group.group().variables.is_empty());
        assert!(group.define_variable("a", "", ElementType::F64, "NX", "", "").is_err(), "NX is gone");
        group.define_variable("b", "", ElementType::F64, "", "", "").unwrap();
        group.define_variable("a", "", ElementType::F64, "3", "", "").unwrap();
        let ids: Vec<(&str, u32)> = group.group().variables.iter().map(|v| (v.name.as_str(), v.id)).collect();
        assert_eq!(ids, [("b", 3), ("a", 2)]);
        group.define_attribute("n", "", ElementType::I32, "4").unwrap();
        group.define_variable("c", "", ElementType::F64, "n", "", "").unwrap();
        group.delete_attributes();
        let error = group.check().unwrap_err().to_string();
        assert!(error.contains("which was deleted") && error.contains("\"c\""), "{error}");
    }

    #[test]
    fn a_dimension_defined_through_an_attribute_is_marked() {
        let mut group = group();
        group.define_attribute_from("extent", "", "NX").unwrap();
        group.define_variable("a", "", ElementType::F64, "2*extent", "", "").unwrap();
        assert!(group.group().variables[0].is_dimension);
        assert!(!group.group().variables[1].is_dimension);
    }

    #[test]
    fn an_attribute_defined_again_is_replaced() {
        let mut group = group();
        group.define_attribute("a", "", ElementType::I32, "1").unwrap();
        group.define_attribute_values("a", "", ElementType::F64, vec![Value::F64(1.0), Value::F64(2.0)]).unwrap();
        let [attribute] = &group.group().attributes[..] else { panic!() };
        assert_eq!(attribute.value, AttributeSource::Many(ElementType::F64, vec![Value::F64(1.0), Value::F64(2.0)]));
        assert!(group.define_attribute_values("b", "", ElementType::F64, vec![Value::I8(1)]).is_err());
        assert!(
            group.define_attribute_from("b", "", "NXX").unwrap_err().to_string().contains("nearest known name: \"NX\"")
        );
    }

    #[test]
    fn errors_name_the_variable_and_what_was_expected() {
        let mut group = group();
        let mut fails = |local, global, offset| {
            group.define_variable("t", "", ElementType::F64, local, global, offset).unwrap_err().to_string()
        };
        assert!(fails("MX", "", "").contains("unknown name \"MX\""));
        let error = fails("NX", "100,100", "0,0");
        assert!(error.contains("1 dimensions in a global array of 2") && error.contains("(\"t\")"), "{error}");
        assert!(fails("NX", "100", "").contains("without offsets"));
        assert!(group.define_variable("a,b", "", ElementType::F64, "", "", "").is_err());
        assert!(group.define_variable("s", "", ElementType::String, "3", "", "").is_err());
        assert!(GroupBuilder::new("  ").is_err());
    }

    #[test]
    fn meshes_are_checked_when_the_declaration_ends() {
        let mut group = group();
        group.define_mesh_uniform("m", "NX,4", Some("0,0.5"), Some("1,1"), None, Some("2")).unwrap();
        assert!(group.define_mesh_uniform("m", "NX", None, None, None, None).is_err(), "known already");
        assert!(
            group.define_mesh_uniform("n", "NX,4", Some("0"), None, None, None).is_err(),
            "one origin, two dimensions"
        );
        assert!(group.check().is_ok());
        group.set_variable_mesh("NX", "o").unwrap();
        assert!(group.check().unwrap_err().to_string().contains("unknown mesh \"o\""));
        group.set_variable_mesh("NX", "m").unwrap();
        group.define_mesh_rectilinear("late", "NX", "X", None).unwrap();
        assert!(group.check().unwrap_err().to_string().contains("no variable \"X\""));
        group.define_variable("X", "", ElementType::F64, "NX", "", "").unwrap();
        assert!(group.check().is_ok());
        assert!(group.set_variable_centering("NX", "middle").is_err());
        group.mesh_mut("late").unwrap().time_varying = true;
    }
}
