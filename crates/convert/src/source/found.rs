//! What a file of another format has: arrays, with the names of their axes and their attributes.

use thalweg_convert::LeftOut;
use thalweg_views::hdf5::Kind;

/// Most bytes of texts of any length that are kept for one dataset.
pub const MOST_TEXT: u64 = 1 << 30;
/// What the elements of a dataset or an attribute are, and as what they are read.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// Numbers, read as this kind, in this machine's byte order.
    Numbers(Kind),
    /// Real numbers of another width, read as this kind.
    Nearest(Kind, &'static str),
    /// Integers with names: the kind, and each name with the bytes of its value.
    Enumeration(Kind, Vec<(String, Vec<u8>)>),
    /// Texts of so many bytes each.
    Words(u64),
    /// Texts of any length.
    Texts,
    /// What no file of ours has; the name of its sort.
    Other(String),
}

impl Form {
    /// The kind as which numbers are read.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Form::Numbers(kind) | Form::Nearest(kind, _) | Form::Enumeration(kind, _) => Some(*kind),
            Form::Words(_) | Form::Texts | Form::Other(_) => None,
        }
    }

    /// Bytes of an element as it is read; 0 for texts of any length.
    pub fn size(&self) -> u64 {
        match self {
            Form::Words(bytes) => *bytes,
            other => other.kind().map_or(0, Kind::size),
        }
    }
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Numbers of a kind.
    Numbers(Kind, Vec<u8>),
    /// Texts.
    Texts(Vec<Vec<u8>>),
    /// What no file of ours has; why.
    Other(String),
}

/// An attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its extents; empty for a single value.
    pub shape: Vec<u64>,
    /// Its value.
    pub value: Value,
}

/// A text of a fixed length, without the zeros behind it.
pub fn trimmed(text: &[u8]) -> Vec<u8> {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    text[..end].to_vec()
}

/// An array.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Its full name, without a slash in front.
    pub name: String,
    /// Its extents.
    pub shape: Vec<u64>,
    /// What its elements are.
    pub form: Form,
    /// Its texts, if they may have any length.
    pub texts: Vec<Vec<u8>>,
    /// Names of its axes; `None` where the file has none.
    pub axes: Vec<Option<String>>,
    /// Whether it is the scale of an axis, without values: no variable.
    pub is_only_an_axis: bool,
    /// Its attributes, without those of scales.
    pub attributes: Vec<Attribute>,
}

/// All that is in a file.
#[derive(Debug, Default)]
pub struct Content {
    /// The datasets, in the order of the file.
    pub datasets: Vec<Found>,
    /// Attributes of groups, by full name; that of the root is empty.
    pub groups: Vec<(String, Vec<Attribute>)>,
    /// What cannot be read, and why.
    pub left_out: Vec<LeftOut>,
}
