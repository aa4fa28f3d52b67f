//! The attributes of XML elements, declared once: for the reader, for `thalweg help element`, and for the guide.

use std::time::Duration;
use thalweg_params::Parameter;
use thalweg_params::parameter::ABOVE_ZERO;

/// An element and its attributes.
pub struct Element {
    /// Its name in the document, and others that mean the same.
    pub names: &'static [&'static str],
    /// One line.
    pub about: &'static str,
    /// Its attributes.
    pub attributes: &'static [Parameter],
}

/// Every element that holds attributes, but for those inside `<mesh>`.
pub const ELEMENTS: &[Element] = &[
    Element { names: &["adios-config"], about: "the document", attributes: CONFIG },
    Element { names: &["adios-group"], about: "variables and attributes that are written together", attributes: GROUP },
    Element {
        names: &["global-bounds"],
        about: "the global shape of the variables inside, and the offset of each rank's block in it",
        attributes: BOUNDS,
    },
    Element { names: &["var"], about: "a variable", attributes: VARIABLE },
    Element { names: &["attribute"], about: "an attribute of a group or variable", attributes: ATTRIBUTE },
    Element {
        names: &["method", "transport"],
        about: "the method of a group; its parameters are the element's text, key=value;key=value",
        attributes: METHOD,
    },
    Element { names: &["buffer"], about: "the memory that holds output until close", attributes: BUFFER },
    Element {
        names: &["services"],
        about: "what a staging server, or thalweg copy, does with the outputs of a group on their way; the services inside work in their order",
        attributes: SERVICES,
    },
    Element {
        names: &["statistics"],
        about: "a service: statistics of each block, in the index",
        attributes: STATISTICS_SERVICE,
    },
    Element {
        names: &["histogram"],
        about: "a service: how many values of a step lie in each part of a range, as variables histogram/NAME and histogram/NAME_edges",
        attributes: HISTOGRAM,
    },
    Element { names: &["reorganize"], about: "a service: global arrays in other blocks", attributes: REORGANIZE },
    Element { names: &["transform"], about: "a service: the transform of blocks", attributes: TRANSFORM },
    Element {
        names: &["function"],
        about: "a service: a function of yours, of a shared library or of Python, called for each block",
        attributes: FUNCTION,
    },
];

const NAME: Parameter = Parameter::text("name", "a name", "its name");
const PATH: Parameter = Parameter::text("path", "a path, as /grid", "path in front of the name").or_else("none");
const LANGUAGES: &str = "C, C++, Fortran or Python";
const COORDINATION_COMMUNICATOR: Parameter = Parameter::text(
    "coordination-communicator",
    "a name",
    "variable of the program that holds the communicator, for thalweg gen",
);
const COORDINATION_VAR: Parameter = Parameter::text(
    "coordination-var",
    "a name",
    "variable that distinguishes the ranks of an output; checked, without effect so far",
);
pub(super) const STATISTICS: Parameter = Parameter::choice(
    "stats",
    &["default", "off", "minmax", "on", "no", "yes", "full"],
    "statistics of each block. off, no: none; minmax: minimum and maximum; default: these in the index, average and deviation beside it, known here only; on, yes, full: all in the index, for other libraries too",
);

pub(super) const CONFIG: &[Parameter] = &[
    Parameter::text("host-language", LANGUAGES, "order of dimensions: of C or of Fortran")
        .or_else("Fortran, with a warning"),
    Parameter::text("schema-version", "a version, as 1.1", "version of the mesh schema, recorded in the file"),
];

pub(super) const SCHEMA: Parameter = Parameter::choice(
    "schema",
    &["ADIOS", "openPMD"],
    "openPMD: files of the group get a view for programs of openPMD when they are closed for good",
);

pub(super) const GROUP: &[Parameter] = &[
    NAME,
    COORDINATION_COMMUNICATOR,
    COORDINATION_VAR,
    STATISTICS,
    Parameter::text("time-index", "a name", "name of the time dimension"),
    Parameter::text("host-language", LANGUAGES, "must be that of the document").or_else("the document's"),
    SCHEMA,
];

const DIMENSIONS: &str = "numbers, variables and expressions between commas";
pub(super) const BOUNDS: &[Parameter] = &[
    Parameter::text("dimensions", DIMENSIONS, "global shape").also(&[
        "dimension",
        "global-dimensions",
        "global-dimension",
    ]),
    Parameter::text("offsets", DIMENSIONS, "first index of the rank's block").also(&[
        "offset",
        "local-offsets",
        "local-offset",
    ]),
    COORDINATION_COMMUNICATOR,
    COORDINATION_VAR,
];

pub(super) const WRITE: Parameter =
    Parameter::switch("write", true, "no: thalweg gen leaves it out of the calls that write");
pub(super) const READ: Parameter =
    Parameter::switch("read", true, "no: thalweg gen leaves it out of the calls that read");
pub(super) const COPY_ON_WRITE: Parameter = Parameter::switch(
    "copy-on-write",
    true,
    "no: blocks are not copied; the program does not change their memory before close",
);
pub(super) const VARIABLE: &[Parameter] = &[
    NAME,
    PATH,
    Parameter::text("type", "a type, as double", "type of its values"),
    Parameter::text("dimensions", DIMENSIONS, "shape of the rank's block")
        .or_else("a single value")
        .also(&["dimension"]),
    WRITE,
    READ,
    Parameter::text("gwrite", "an expression", "expression of the program that is written, for thalweg gen")
        .or_else("gname, else its name"),
    Parameter::text("gread", "an expression", "expression of the program that is read into, for thalweg gen")
        .or_else("gname, else its name"),
    Parameter::text("gname", "an expression", "both of gwrite and gread"),
    COPY_ON_WRITE,
    STATISTICS.or_else("the group's"),
    Parameter::text("transform", "a transform, as zlib:5", "transform of its blocks before they are stored")
        .or_else("none"),
    Parameter::text("mesh", "a name", "mesh of its values"),
    Parameter::text("center", "point or cell", "position of its values on the mesh").also(&["centering"]),
    Parameter::text(
        "time-steps",
        "one to three numbers or variables",
        "steps that its values belong to, for viewers: a count; a minimum and maximum; or start, stride and count",
    ),
    Parameter::text("time-scale", "one to three numbers or variables", "the same in the simulation's time"),
    Parameter::text("time-series-format", "a number", "digits in the names of image files, for viewers"),
    Parameter::text("hyperslab", "start,stride,count, or min,max, or a position", "part of it that viewers show"),
];

pub(super) const ATTRIBUTE: &[Parameter] = &[
    NAME,
    PATH,
    Parameter::text("value", "a value of its type", "its value; either this or var"),
    Parameter::text("type", "a type, as string", "type of its value"),
    Parameter::text("var", "a variable", "variable whose value it has"),
];

pub(super) const METHOD: &[Parameter] = &[
    Parameter::text("group", "a group", "group that it writes"),
    Parameter::text("method", "a method, as MPI", "name of the method: thalweg help method lists them"),
    Parameter::text("base-path", "a folder", "put in front of file names").or_else("none"),
    Parameter::text("priority", "a whole number", "parameter priority of method STAGING; no effect in others")
        .or_else("1"),
    Parameter::text(
        "iterations",
        "a whole number, not negative",
        "parameter iterations of method STAGING; no effect in others",
    )
    .or_else("1"),
];

pub(super) const MAX_SIZE: Parameter = Parameter::real(
    "max-size-MB",
    0.0,
    "limit of the memory that holds output until close, in units of 2^20 bytes; for the process, all groups together. Either this or free-memory-percentage",
)
.between(0.0, f64::MAX)
.or_else("no limit without <buffer>")
.also(&["size-MB"]);
pub(super) const FREE_MEMORY: Parameter =
    Parameter::real("free-memory-percentage", 0.0, "the limit as a share of the memory that is free")
        .between(ABOVE_ZERO, 100.0)
        .or_nothing();
pub(super) const ALLOCATE: Parameter = Parameter::choice(
    "allocate-time",
    &["now", "later", "oncall"],
    "when free memory is measured. now: when the library starts; later, oncall: at the first open",
);
pub(super) const BUFFER: &[Parameter] = &[MAX_SIZE, FREE_MEMORY, ALLOCATE];

pub(super) const SERVICES: &[Parameter] = &[
    Parameter::text("group", "a group", "group whose outputs the services get"),
    Parameter::text(
        "output",
        "a file",
        "file that gets what leaves the services, relative to the folder of the program's file; % is its name without .bp",
    )
    .or_else("%.served.bp"),
];
const VAR: Parameter =
    Parameter::text("var", "names between commas", "full names of variables; * stands for any characters");
pub(super) const STATISTICS_SERVICE: &[Parameter] = &[VAR, STATISTICS];
pub(super) const BINS: Parameter = Parameter::count("bins", 100, "number of parts of the range").within(1, 1 << 20);
pub(super) const MIN: Parameter =
    Parameter::real("min", 0.0, "the smallest value that counts").or_else("the smallest of the step");
pub(super) const MAX: Parameter =
    Parameter::real("max", 0.0, "the largest value that counts").or_else("the largest of the step");
pub(super) const HISTOGRAM: &[Parameter] = &[VAR, BINS, MIN, MAX];
pub(super) const REORGANIZE: &[Parameter] = &[Parameter::text(
    "blocks",
    "merged, or numbers as 4x2",
    "as few blocks as the memory allows, or so many along each dimension",
)];
pub(super) const TRANSFORM: &[Parameter] =
    &[VAR, Parameter::text("type", "a transform, as zlib:5", "transform of the blocks; none for none")];
pub(super) const VALUES: Parameter =
    Parameter::count("values", 1, "so many values for each block").or_else("as many as the block has").at_least(1);
pub(super) const TIMEOUT: Parameter = Parameter::time(
    "timeout",
    crate::services::TIMEOUT,
    thalweg_params::time::Unit::Seconds,
    "longest time of a call; beyond, the step passes without this service",
)
.lasting(Duration::from_millis(1), Duration::from_secs(86_400));
pub(super) const FUNCTION: &[Parameter] = &[
    Parameter::text("library", "a file", "shared library of the function; either this or python"),
    Parameter::text("python", "a file", "file of Python with the function"),
    Parameter::text("name", "a name", "its name there"),
    Parameter::text("var", "names between commas", "full names of the variables whose blocks it gets"),
    Parameter::text("into", "a name", "variable that gets the result").or_else("the first of var"),
    Parameter::text("type", "a type, as double", "type of the result").or_else("that of the first of var"),
    VALUES,
    TIMEOUT,
];
