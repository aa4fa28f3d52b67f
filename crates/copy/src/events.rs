//! What a target of a copy is told, whatever the source is.

use crate::services::Unprocessed;
use std::sync::Arc;
use thalweg_choice::plan::Place;
use thalweg_reader::Attribute;
use thalweg_reader::variable::Kind;
use thalweg_schema::Statistics;
use thalweg_types::{ElementType, Selection};

/// What a variable of the copy is.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    /// Its full name.
    pub full: String,
    /// Path alone.
    pub path: String,
    /// Name alone.
    pub name: String,
    /// Type of its values.
    pub element: ElementType,
    /// Its kind in the source.
    pub kind: Kind,
    /// Number of dimensions.
    pub dimensions: usize,
    /// Its statistics.
    pub statistics: Statistics,
    /// Its transform; empty for none.
    pub transform: String,
}

/// The beginning of an output.
#[derive(Clone)]
pub struct Opening {
    /// Step of the source.
    pub step: u64,
    /// Its group.
    pub group: Arc<GroupForm>,
    /// The variables of this step.
    pub variables: Vec<InStep>,
    /// Attributes, where they are new or have changed.
    pub attributes: Option<Vec<Attribute>>,
    /// Services without which it passes.
    pub unprocessed: Vec<Unprocessed>,
    /// The services, as they were written.
    pub document: Option<String>,
}

/// A variable in a step of the copy.
#[derive(Clone)]
pub struct InStep {
    /// What it is.
    pub form: Arc<Form>,
    /// Number of its blocks.
    pub blocks: u64,
    /// Shape of its global array; empty for others.
    pub shape: Vec<u64>,
    /// A service makes it: it is none of the source.
    pub made: bool,
}

/// What a group of the copy is.
#[derive(Debug, PartialEq)]
pub struct GroupForm {
    /// Its name.
    pub name: String,
    /// Dimensions are stored fastest first.
    pub fortran: bool,
    /// Name of its time dimension.
    pub time_name: String,
}

/// A block with its values.
#[derive(Clone)]
pub struct Values {
    /// Its variable.
    pub form: Arc<Form>,
    /// Where it lies in the copy.
    pub place: Option<Place>,
    /// The values, in this machine's byte order.
    pub bytes: Vec<u8>,
    /// Where they lie in the source.
    pub from: Selection,
    /// Number of the block among those of its variable in the copy.
    pub number: u64,
}

/// What the target is told, in this order for each output.
pub enum Event {
    /// An output begins.
    Open(Opening),
    /// Some of its blocks.
    Blocks(Vec<Values>),
    /// It is no output: it begins again.
    Drop,
    /// It is whole.
    Close,
}
