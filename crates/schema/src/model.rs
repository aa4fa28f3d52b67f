//! The schema: what an XML document or a program says about groups, methods and the buffer.

use crate::dimension::Dimension;
use thalweg_types::{ElementType, Value};

/// Everything a document says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schema {
    /// Language of the program: decides the order of dimensions in memory.
    pub host_language: HostLanguage,
    /// Groups in the order given.
    pub groups: Vec<Group>,
    /// Methods in the order given; a group's methods run in this order.
    pub methods: Vec<MethodChoice>,
    /// The buffer of the process.
    pub buffer: Buffer,
}

/// Language of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostLanguage {
    /// Row-major: slowest dimension first (C, C++, Python).
    #[default]
    C,
    /// Column-major: fastest dimension first.
    Fortran,
}

/// Which statistics are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Statistics {
    /// None.
    Off,
    /// Minimum, maximum and whether any value is finite.
    MinMax,
    /// Those, count, sum and sum of squares.
    #[default]
    Full,
}

/// Named variables and attributes that are written together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Name of the variable that holds the communicator, kept for generated code.
    pub coordination_communicator: Option<String>,
    /// Name of the variable that tells ranks of one output apart. Kept and checked; staging will use it.
    pub coordination_var: Option<String>,
    /// Statistics of variables that do not choose their own.
    pub statistics: Statistics,
    /// Name that stands for the time index in dimensions.
    pub time_index: Option<String>,
    /// Variables in the order given; ids are their position + 1, counted together with attributes.
    pub variables: Vec<Variable>,
    /// Attributes in the order given.
    pub attributes: Vec<Attribute>,
    /// Meshes in the order given.
    pub meshes: Vec<Mesh>,
    /// Version of the mesh schema, as `1.1`.
    pub schema_version: Option<String>,
}

/// One variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Id in files: unique in the group, from 1, variables and attributes counted in one sequence.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its path; the full name is path + "/" + name where a path is given.
    pub path: String,
    /// Type of its elements.
    pub element: ElementType,
    /// Local extents, slowest first for C, fastest first for Fortran (as the document gives them). Empty for scalars.
    pub local: Vec<Dimension>,
    /// Global extents; empty for local arrays.
    pub global: Vec<Dimension>,
    /// Offsets in the global array; empty for local arrays.
    pub offset: Vec<Dimension>,
    /// Expression in the program's language that generated code writes from (`gwrite`).
    pub gwrite: Option<String>,
    /// Expression generated code reads into (`gread`).
    pub gread: Option<String>,
    /// Whether generated code writes it (`write`), default yes.
    pub write: bool,
    /// Whether generated code reads it (`read`), default yes.
    pub read: bool,
    /// `false` (`copy-on-write="no"`) promises that the memory stays unchanged until close.
    pub copy_on_write: bool,
    /// Its own statistics, where it chooses.
    pub statistics: Option<Statistics>,
    /// Transform with parameters, as `zlib:5`; none by default.
    pub transform: Option<String>,
    /// Name of the mesh it lies on.
    pub mesh: Option<String>,
    /// `cell` or `point` on that mesh.
    pub centering: Option<String>,
    /// Whether a dimension of another variable names it.
    pub is_dimension: bool,
}

/// One attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Id in files, from the same sequence as variables.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its path.
    pub path: String,
    /// Its value, or the variable that holds it.
    pub value: AttributeSource,
}

/// Where the value of an attribute comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeSource {
    /// A single value.
    One(Value),
    /// An array; [`ElementType::String`] for an array of strings.
    Many(ElementType, Vec<Value>),
    /// The scalar variable of this full name.
    Variable(String),
}

/// A mesh: kept, checked, and written as the attributes of the ADIOS mesh schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Mesh {
    /// Its name.
    pub name: String,
    /// Whether it changes from step to step.
    pub time_varying: bool,
    /// Its kind and parts.
    pub kind: MeshKind,
    /// File that holds it, where it is another one.
    pub file: Option<String>,
    /// Group that holds its variables, where it is another one.
    pub group: Option<String>,
}

/// The kinds of mesh. Each string is a number or the name of a variable.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum MeshKind {
    Uniform { dimensions: Vec<String>, origin: Vec<String>, spacing: Vec<String>, maximum: Vec<String>, nspace: Option<String> },
    Rectilinear { dimensions: Vec<String>, coordinates: Vec<String>, single_var: bool, nspace: Option<String> },
    Structured { dimensions: Vec<String>, points: Vec<String>, single_var: bool, nspace: Option<String> },
    Unstructured { points: Vec<String>, single_var: bool, npoints: Option<String>, nspace: Option<String>, cells: Vec<Cells> },
}

/// Cells of one type in an unstructured mesh.
#[derive(Debug, Clone, PartialEq)]
pub struct Cells {
    /// How many: a number or a variable.
    pub count: String,
    /// Variable that lists the points of each cell.
    pub data: String,
    /// Cell type: `pt line triangle quad hex prism tet pyr`, or a number of points.
    pub cell_type: String,
}

/// A method chosen for a group.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodChoice {
    /// The group it serves.
    pub group: String,
    /// Its name as given (`MPI`, `POSIX`, ...).
    pub method: String,
    /// Folder put in front of file names.
    pub base_path: String,
    /// Kept and checked; staging will use it.
    pub priority: i32,
    /// Kept and checked: iterations between outputs; staging will use it.
    pub iterations: u32,
    /// `key=value` pairs of the text, in the order given.
    pub parameters: Vec<(String, String)>,
}

/// How much memory the process may use for buffering.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Buffer {
    /// The limit.
    pub limit: BufferLimit,
    /// Whether a percentage is taken at initialisation or at the first open.
    pub allocate: AllocateTime,
}

/// The buffer limit of the process, all groups together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum BufferLimit {
    /// No limit given: what outputs need.
    #[default]
    Unlimited,
    /// Bytes; 0 writes everything through.
    Bytes(u64),
    /// Share of the memory free at [`Buffer::allocate`], in percent.
    FreeMemoryPercentage(f64),
}

/// When the buffer's size is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AllocateTime {
    /// At initialisation.
    #[default]
    Now,
    /// At the first open (`later`, `oncall`).
    Later,
}

impl Schema {
    /// The group of this name.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|g| g.name == name)
    }

    /// The methods of a group, in order.
    pub fn methods_of<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a MethodChoice> {
        self.methods.iter().filter(move |m| m.group == group)
    }
}

/// Joins a path and a name as files and readers spell full names: `path + "/" + name`, no second slash.
pub fn full_name(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_string()
    } else if path.ends_with('/') {
        format!("{path}{name}")
    } else {
        format!("{path}/{name}")
    }
}

impl Variable {
    /// Path and name joined.
    pub fn full_name(&self) -> String {
        full_name(&self.path, &self.name)
    }
}

impl Attribute {
    /// Path and name joined.
    pub fn full_name(&self) -> String {
        full_name(&self.path, &self.name)
    }
}
