//! The schema: groups, methods and the buffer, as an XML document or a program describes them.

use crate::dimension::Dimension;
use crate::services::Services;
use thalweg_diagnostics::SourceSpan;
use thalweg_types::{ElementType, Value};

/// The contents of a document.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schema {
    /// Language of the program: decides the order of dimensions in memory.
    pub host_language: HostLanguage,
    /// Groups, in the document's order.
    pub groups: Vec<Group>,
    /// Methods, in the document's order; the methods of a group run in this order.
    pub methods: Vec<MethodChoice>,
    /// The buffer of the process.
    pub buffer: Buffer,
    /// Data services, in the document's order.
    pub services: Vec<Services>,
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
    /// Everything, but other libraries see minimum and maximum alone, as in files that ADIOS 1.x writes by default.
    #[default]
    Default,
    /// Minimum, maximum, count, sum and sum of squares, for other libraries, too.
    Full,
}

/// Named variables and attributes that are written together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Name of the program's variable for the communicator, for generated code.
    pub coordination_communicator: Option<String>,
    /// Name of the variable that distinguishes the ranks of an output. Accepted and validated, but without effect yet (for staging).
    pub coordination_var: Option<String>,
    /// Statistics of variables that do not choose their own.
    pub statistics: Statistics,
    /// Name of the time dimension.
    pub time_index: Option<String>,
    /// Variables, in the order of declaration. A name declared again from code (another block of the same variable) has an entry of
    /// its own with its own dimensions, and the id of the first one.
    pub variables: Vec<Variable>,
    /// Attributes, in the order of declaration.
    pub attributes: Vec<Attribute>,
    /// Meshes, in the order of declaration.
    pub meshes: Vec<Mesh>,
    /// Version of the mesh schema, as `1.1`.
    pub schema_version: Option<String>,
    /// Its files get a view for openPMD when they are closed for good (`schema="openPMD"`).
    pub has_openpmd: bool,
    /// Lines of program text between variables (`<gwrite src="..."/>`), for generated code.
    pub program_text: Vec<ProgramText>,
}

/// A line of program text that generated code gets in front of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramText {
    /// Index in [`Group::variables`] of the next variable (their number: at the end).
    pub before: usize,
    /// The text.
    pub text: String,
}

/// Position in a document, for reports; none for declarations in code. Positions are not part of a declaration, so all are equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct SourcePosition(pub Option<SourceSpan>);

impl PartialEq for SourcePosition {
    fn eq(&self, _: &SourcePosition) -> bool {
        true
    }
}

/// One variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Id in files: one per full name in the group, from 1, variables and attributes counted in one sequence.
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
    /// Its position in the document.
    pub transform_position: SourcePosition,
    /// Name of its mesh.
    pub mesh: Option<String>,
    /// `cell` or `point` on that mesh.
    pub centering: Option<String>,
    /// Which steps its values belong to, for viewers.
    pub time: TimeMarks,
    /// `start,stride,count`, `min,max` or one position, for viewers (`hyperslab`).
    pub hyperslab: Option<String>,
    /// `coordination-communicator` of its `global-bounds`, for generated code.
    pub coordination_communicator: Option<String>,
    /// `coordination-var` of its `global-bounds`. Accepted and validated, but without effect yet (for staging).
    pub coordination_var: Option<String>,
    /// Whether a dimension of another variable names it.
    pub is_dimension: bool,
    /// The declared extents are placeholders: every write has a box of its own.
    pub needs_box: bool,
}

/// Which steps something belongs to, for viewers. Each text is one, two or three numbers or names of variables:
/// a count, a minimum and maximum, or start, stride and count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeMarks {
    /// In steps (`time-steps`).
    pub steps: Option<String>,
    /// In the simulation's time (`time-scale`).
    pub scale: Option<String>,
    /// Digits in the names of image files (`time-series-format`).
    pub series_format: Option<String>,
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

/// A mesh: validated, and written as the attributes of the ADIOS mesh schema.
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
    /// Which steps it belongs to, for viewers.
    pub time: TimeMarks,
}

/// The kinds of mesh. Each string is a number or the name of a variable.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum MeshKind {
    Uniform {
        dimensions: Vec<String>,
        origin: Vec<String>,
        spacing: Vec<String>,
        maximum: Vec<String>,
        nspace: Option<String>,
    },
    Rectilinear {
        dimensions: Vec<String>,
        coordinates: Vec<String>,
        single_var: bool,
        nspace: Option<String>,
    },
    Structured {
        dimensions: Vec<String>,
        points: Vec<String>,
        single_var: bool,
        nspace: Option<String>,
    },
    Unstructured {
        points: Vec<String>,
        single_var: bool,
        npoints: Option<String>,
        nspace: Option<String>,
        cells: Vec<Cells>,
    },
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

/// A method chosen for a group. Two are equal wherever in a document they were found.
#[derive(Debug, Clone)]
pub struct MethodChoice {
    /// The group it serves.
    pub group: String,
    /// Its name as written (`MPI`, `POSIX`, ...).
    pub method: String,
    /// Folder put in front of file names.
    pub base_path: String,
    /// Accepted and validated, but without effect yet (for staging).
    pub priority: i32,
    /// Iterations between outputs. Accepted and validated, but without effect yet (for staging).
    pub iterations: u32,
    /// `key=value` pairs of the text, in its order.
    pub parameters: Vec<(String, String)>,
    /// Its place in the document, for reports about method names and parameters; `None` from code.
    pub source: Option<MethodSource>,
}

impl PartialEq for MethodChoice {
    fn eq(&self, other: &MethodChoice) -> bool {
        let MethodChoice { group, method, base_path, priority, iterations, parameters, source: _ } = self;
        *group == other.group
            && *method == other.method
            && *base_path == other.base_path
            && *priority == other.priority
            && *iterations == other.iterations
            && *parameters == other.parameters
    }
}

impl MethodChoice {
    /// A method without parameters, priority and iterations at their default of 1.
    pub fn new(group: impl Into<String>, method: impl Into<String>) -> MethodChoice {
        MethodChoice {
            group: group.into(),
            method: method.into(),
            base_path: String::new(),
            priority: 1,
            iterations: 1,
            parameters: Vec::new(),
            source: None,
        }
    }
}

/// Where a method was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodSource {
    /// The name of the method.
    pub method: SourceSpan,
    /// The name of the group.
    pub group: SourceSpan,
    /// Each parameter, in the order of [`MethodChoice::parameters`].
    pub parameters: Vec<SourceSpan>,
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
    /// No limit: as much as outputs need.
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
    /// A scalar that leaves every choice at its default.
    pub fn new(id: u32, name: impl Into<String>, path: impl Into<String>, element: ElementType) -> Variable {
        Variable {
            id,
            name: name.into(),
            path: path.into(),
            element,
            local: Vec::new(),
            global: Vec::new(),
            offset: Vec::new(),
            gwrite: None,
            gread: None,
            write: true,
            read: true,
            copy_on_write: true,
            statistics: None,
            transform: None,
            transform_position: SourcePosition::default(),
            mesh: None,
            centering: None,
            time: TimeMarks::default(),
            hyperslab: None,
            coordination_communicator: None,
            coordination_var: None,
            is_dimension: false,
            needs_box: false,
        }
    }

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
