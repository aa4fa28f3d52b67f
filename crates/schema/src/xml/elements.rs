//! XML elements whose attributes are parameters, declared for the reader and for help.

use thalweg_params::Parameter;
use thalweg_params::parameter::ABOVE_ZERO;

/// An element and its attributes.
pub struct Element {
    /// Its name in the document.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// Its attributes.
    pub attributes: &'static [Parameter],
}

/// Those of `<buffer>`.
pub(super) const BUFFER: &[Parameter] = &[MAX_SIZE, FREE_MEMORY, ALLOCATE];
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

/// Every element that is declared.
pub const ELEMENTS: &[Element] =
    &[Element { name: "buffer", about: "the memory that holds output until close", attributes: BUFFER }];
