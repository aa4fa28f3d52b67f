//! The content of a view for HDF5, and of a file that has the values themselves.
//!
//! | in the view | from the file |
//! |---|---|
//! | group | a folder in names of variables |
//! | `.blocks/N`, a dataset with external storage | a file as one array of elements, from its first byte that is one |
//! | virtual dataset | an array: its [runs](crate::runs::Run) of blocks are selections of these |
//! | dataset with external storage | an array of one block |
//! | dataset with values | scalars, texts, one value per writer |
//! | dataset whose values are read and written | in a conversion: an array |
//! | dimension scale | a named axis: the variable of this name with its values, else a dimension without a variable, as netCDF has it |
//! | attribute | an attribute |
//!
//! HDF5 reads external storage with a system call for each row that lies in one piece in memory, unless it converts the elements: then it
//! reads whole blocks. From an enumeration of the same integers it converts without touching them, so sources of short rows of integers
//! have this type. No such type exists for real numbers.
//!
//! The axis of steps is unlimited. Complex numbers are compounds of `r` and `i`. All of this is data, [`Plan`]: the program
//! `thalweg-convert`, which is linked with HDF5, gets it as JSON and writes the file.
//!
//! Source: the file format of netCDF-4, in its users' guide; HDF5's dimension scales; h5py's complex numbers.

use crate::arrays::{Array, Arrays, Content, LeftOut, Pieces};
use crate::chosen::{Chosen, Read};
use crate::chunks;
use crate::place::url_of;
use crate::runs;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use thalweg_choice::Pattern;
use thalweg_reader::Reader;
use thalweg_types::value::long_double_to_f64;
use thalweg_types::{AttributeValue, ByteOrder, ElementType, Error, ErrorKind, Result, Value};

/// The content of an HDF5 file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Files with blocks: names as HDF5 opens them.
    pub files: Vec<String>,
    /// The groups, parents first.
    pub groups: Vec<Group>,
    /// The datasets that users see, dimension scales among them.
    pub datasets: Vec<Dataset>,
    /// The files as arrays of elements.
    pub sources: Vec<Source>,
    /// The group of the sources, which is written if there are any.
    pub blocks: String,
    /// Attributes of the root group.
    pub attributes: Vec<Attribute>,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Full name, without a slash at its begin.
    pub name: String,
    /// Attributes.
    pub attributes: Vec<Attribute>,
}

impl Group {
    /// A group without attributes.
    pub fn bare(name: impl Into<String>) -> Group {
        Group { name: name.into(), attributes: Vec::new() }
    }
}

/// A dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dataset {
    /// Full name, without a slash at its begin.
    pub name: String,
    /// Type of the elements.
    pub kind: Kind,
    /// Extents, slowest axis first.
    pub shape: Vec<u64>,
    /// Whether the first axis is unlimited.
    pub is_unlimited: bool,
    /// Elements that no block has: NaN, not 0.
    pub is_nan_missing: bool,
    /// Its elements.
    pub content: Elements,
    /// Name as a dimension scale, if it is one.
    pub scale: Option<String>,
    /// Names of the datasets that are the scales of its axes; empty if its axes have none.
    pub axes: Vec<String>,
    /// Attributes.
    pub attributes: Vec<Attribute>,
    /// How the file stores the elements itself.
    #[serde(default)]
    pub stored: Stored,
}

impl Dataset {
    /// A dataset whose values are read, without scales and attributes.
    pub fn read(name: String, kind: Kind, shape: Vec<u64>, content: Elements) -> Dataset {
        Dataset {
            name,
            kind,
            shape,
            is_unlimited: false,
            is_nan_missing: false,
            content,
            scale: None,
            axes: Vec::new(),
            attributes: Vec::new(),
            stored: Stored::default(),
        }
    }
}

/// How a file stores elements itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Extents of chunks; `None`: one chunk if the dataset can grow, else none.
    pub chunk: Option<Vec<u64>>,
    /// The level of deflate, 0 to 9; `None`: not compressed.
    pub deflate: Option<u32>,
}

/// The elements of a dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Elements {
    /// None were written.
    Missing,
    /// Here.
    Values(Values),
    /// Integers of one axis, one row behind the other.
    Rows(Vec<Row>),
    /// The bytes of one block.
    Block(Place),
    /// The elements of blocks.
    Boxes(Vec<Mapping>),
    /// They are read from a variable, and written.
    #[serde(skip)]
    Read {
        /// Its full name.
        variable: String,
        /// Type of its values.
        element: ElementType,
        /// The parts.
        parts: Vec<Read>,
    },
}

/// Integers at one distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The first one.
    pub first: u64,
    /// The distance, 0 of equal ones.
    pub every: u64,
    /// Their number.
    pub count: u64,
}

impl Row {
    /// The integer at a position.
    pub fn at(&self, position: u64) -> u64 {
        self.first + self.every * position
    }
}

/// A file as an array of elements, or of enumerations of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Source {
    /// Position in [`Plan::files`].
    pub file: usize,
    /// The first byte that is an element.
    pub phase: u64,
    /// Type of the elements.
    pub kind: Kind,
    /// Whether the type is an enumeration of these integers.
    pub is_enumeration: bool,
    /// Number of elements: up to the last one that a virtual dataset has.
    pub elements: u64,
}

/// A run of blocks of a virtual dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mapping {
    /// First element of the first block, along each axis.
    pub offset: Vec<u64>,
    /// Number of elements of a block along each axis; along the first at most `every` if there are several blocks.
    pub count: Vec<u64>,
    /// Number of blocks.
    pub times: u64,
    /// Distance of two blocks along the first axis.
    pub every: u64,
    /// Position in [`Plan::sources`].
    pub source: usize,
    /// First element of the first block there.
    pub first: u64,
    /// Distance of two blocks there.
    pub stride: u64,
}

/// Bytes of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// Position in [`Plan::files`].
    pub file: usize,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// Values that the view contains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Values {
    /// Numbers in this machine's byte order, in base64.
    Bytes(String),
    /// Texts without a byte 0.
    Texts(Vec<String>),
}

/// An attribute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attribute {
    /// Its key.
    pub key: String,
    /// Type of its values.
    pub kind: Kind,
    /// Their number; `None` for a single one.
    pub length: Option<u64>,
    /// Its values.
    pub values: Values,
}

impl Attribute {
    /// An attribute as HDF5 has it, or the reason why it cannot have it.
    ///
    /// - `element`: type of the variable that it belongs to.
    ///
    /// # Errors
    /// The reason.
    pub fn of(
        key: &str,
        value: &AttributeValue,
        element: Option<ElementType>,
    ) -> std::result::Result<Attribute, &'static str> {
        if key.is_empty() || key.contains('\0') {
            return Err("HDF5 has no such name");
        }
        if RESERVED.contains(&key) {
            return Err("HDF5 and netCDF have this name for themselves");
        }
        let (own, values, mut length) = match value {
            AttributeValue::One(one) => (one.element_type(), std::slice::from_ref(one), None),
            AttributeValue::Many(element, values) => (*element, &values[..], Some(values.len() as u64)),
            AttributeValue::Variable(_) => return Err("its value is that of a variable without values"),
        };
        if key == "_FillValue" {
            if values.len() != 1 || element.is_some_and(|element| element != own) {
                return Err("it is not one value of the variable's type");
            }
            length = Some(1);
        }
        let nearest = |value: &Value| match value {
            Value::LongDouble(bytes) => Value::F64(long_double_to_f64(bytes)),
            other => other.clone(),
        };
        let own = if own == ElementType::LongDouble { ElementType::F64 } else { own };
        let values: Vec<Value> = values.iter().map(nearest).collect();
        let kind = Kind::of(own, ByteOrder::NATIVE).ok_or("HDF5 has no such type")?;
        let values = Values::of(own, &values).ok_or("one of its texts contains a byte 0")?;
        Ok(Attribute { key: key.into(), kind, length, values })
    }
}

/// The type of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Bytes, whether there is a sign, whether the most significant byte is the first.
    Integer(u64, bool, bool),
    /// IEEE numbers: bytes, whether the most significant byte is the first.
    Real(u64, bool),
    /// Two of them, real and imaginary.
    Complex(u64, bool),
    /// Text of one byte.
    Letter,
    /// Texts of any length.
    Text,
    /// ASCII texts of this many bytes.
    Word(u64),
}

impl Kind {
    /// The kind of elements; `None` if netCDF has none.
    pub fn of(element: ElementType, order: ByteOrder) -> Option<Kind> {
        use ElementType::*;
        let is_big = order == ByteOrder::Big;
        Some(match element {
            I8 | I16 | I32 | I64 => Kind::Integer(element.size(), true, is_big),
            U8 | U16 | U32 | U64 => Kind::Integer(element.size(), false, is_big),
            F32 | F64 => Kind::Real(element.size(), is_big),
            Complex | DoubleComplex => Kind::Complex(element.size() / 2, is_big),
            Char => Kind::Letter,
            String => Kind::Text,
            // netCDF takes it for texts, and follows its bytes as pointers.
            LongDouble | StringArray => return None,
        })
    }

    /// Bytes of an element; 0 for texts.
    pub fn size(self) -> u64 {
        match self {
            Kind::Integer(bytes, ..) | Kind::Real(bytes, _) => bytes,
            Kind::Complex(bytes, _) => 2 * bytes,
            Kind::Letter => 1,
            Kind::Word(bytes) => bytes,
            Kind::Text => 0,
        }
    }

    /// An element that was not written, in this machine's byte order: NaN where there is one, else 0.
    pub fn missing(self) -> Vec<u8> {
        match self {
            Kind::Real(4, _) => f32::NAN.to_ne_bytes().to_vec(),
            Kind::Real(8, _) => f64::NAN.to_ne_bytes().to_vec(),
            kind => vec![0; kind.size() as usize],
        }
    }
}

impl Elements {
    /// Number of blocks that are read in place.
    pub fn blocks(&self) -> u64 {
        match self {
            Elements::Missing | Elements::Values(_) | Elements::Rows(_) => 0,
            Elements::Block(_) => 1,
            Elements::Boxes(runs) => runs.iter().map(|run| run.times).sum(),
            Elements::Read { .. } => 0,
        }
    }
}

impl Values {
    /// Values of a type; `None` if a text contains a byte 0: HDF5's texts end there.
    pub fn of(element: ElementType, values: &[Value]) -> Option<Values> {
        if element.is_text() {
            let text = |value: &Value| match value {
                Value::String(text) if !text.contains(&0) => Some(String::from_utf8_lossy(text).into_owned()),
                _ => None,
            };
            return Some(Values::Texts(values.iter().map(text).collect::<Option<_>>()?));
        }
        let mut bytes = Vec::new();
        values.iter().for_each(|value| value.append_to(&mut bytes));
        Some(Values::of_bytes(&bytes))
    }

    /// Numbers in this machine's byte order.
    pub fn of_bytes(bytes: &[u8]) -> Values {
        Values::Bytes(BASE64_STANDARD.encode(bytes))
    }

    /// The bytes of numbers; `None` for texts, and if they are not base64.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Values::Bytes(text) => BASE64_STANDARD.decode(text).ok(),
            Values::Texts(_) => None,
        }
    }

    /// The first of numbers of this kind; `None` for texts and complex numbers, and if there is none.
    pub fn number_of(&self, kind: Kind) -> Option<f64> {
        let bytes = self.bytes()?;
        macro_rules! read {
            ($type:ty) => {
                <$type>::from_ne_bytes(bytes.get(..size_of::<$type>())?.try_into().ok()?) as f64
            };
        }
        Some(match kind {
            Kind::Integer(1, true, _) => read!(i8),
            Kind::Integer(2, true, _) => read!(i16),
            Kind::Integer(4, true, _) => read!(i32),
            Kind::Integer(8, true, _) => read!(i64),
            Kind::Integer(1, false, _) => read!(u8),
            Kind::Integer(2, false, _) => read!(u16),
            Kind::Integer(4, false, _) => read!(u32),
            Kind::Integer(8, false, _) => read!(u64),
            Kind::Real(4, _) => read!(f32),
            Kind::Real(8, _) => read!(f64),
            _ => return None,
        })
    }
}

/// A plan and what it shows.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The content of the file.
    pub plan: Plan,
    /// Number of arrays.
    pub arrays: u64,
    /// Number of blocks that are read in place.
    pub blocks: u64,
    /// Variables and attributes that the view does not show.
    pub left_out: Vec<LeftOut>,
}

/// The content of a view of a file.
///
/// # Errors
/// `Unsupported` if other programs cannot find the file's bytes in a local file; errors of [`Arrays::of`].
/// # Cost
/// As [`Arrays::of`].
pub fn view(reader: &Reader) -> Result<View> {
    planned(reader, Arrays::of(reader, Pieces::Boxes)?, None)
}

/// How a file is converted.
#[derive(Debug, Clone, Copy)]
pub struct Conversion<'c> {
    /// What is converted. Transforms `zlib` and `none` of the choice say what is compressed.
    pub chosen: Chosen<'c>,
    /// Extents of chunks by name, without the axis of steps; the last one that fits counts.
    pub chunks: &'c [(Pattern, Vec<u64>)],
}

/// The content of a file that has the values themselves.
///
/// # Errors
/// `Unsupported` for a transform that HDF5 does not have; errors of [`Arrays::of`].
/// # Cost
/// As [`Arrays::of`].
pub fn converted(reader: &Reader, conversion: Conversion<'_>) -> Result<View> {
    planned(reader, Arrays::of(reader, Pieces::Values(conversion.chosen))?, Some(conversion))
}

/// The level of a transform that HDF5 has; `None` if it does not compress.
fn deflate(transform: Option<&str>) -> Result<Option<u32>> {
    /// That of zlib, where nothing is said.
    const USUAL: u32 = 6;
    let Some(text) = transform.filter(|text| *text != "none") else { return Ok(None) };
    let (name, level) = text.split_once(':').unwrap_or((text, ""));
    if !name.eq_ignore_ascii_case("zlib") {
        let what = format!("transform {text}: programs of HDF5 and netCDF decode zlib alone everywhere");
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    let level = level.rsplit('=').next().unwrap_or_default().trim();
    Ok(Some(level.parse().unwrap_or(USUAL)))
}

fn planned(reader: &Reader, arrays: Arrays, conversion: Option<Conversion<'_>>) -> Result<View> {
    let Arrays { arrays, left_out, attributes } = arrays;
    let mut names = Names::of(&arrays);
    let (files, names_of_files, sources) = (HashMap::new(), Vec::new(), Sources::default());
    let mut all = Planned { reader, conversion, files, names: names_of_files, sources, left_out };
    let mut taken: HashSet<String> = HashSet::new();
    let mut datasets = Vec::new();
    let mut axes: BTreeMap<String, (String, u64)> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    let mut blocks = 0;
    for array in &arrays {
        let Some(dataset) = all.dataset(array, &mut taken)? else { continue };
        blocks += dataset.content.blocks();
        datasets.push(dataset);
    }
    let shown = datasets.len() as u64;
    // The scale of an axis is the array of its name along it, else a dataset without values.
    for dataset in &mut datasets {
        for (position, axis) in dataset.axes.iter_mut().enumerate() {
            if !axes.contains_key(axis) {
                let own = names.scale(axis, &taken);
                axes.insert(axis.clone(), (own, dataset.shape[position]));
                order.push(axis.clone());
            }
            axis.clone_from(&axes[axis].0);
        }
        if dataset.axes == [dataset.name.as_str()] {
            dataset.scale = Some(dataset.name.clone());
        }
    }
    let with_values: HashSet<String> = datasets.iter().filter_map(|dataset| dataset.scale.clone()).collect();
    let unlimited: HashSet<&String> =
        datasets.iter().filter(|d| d.is_unlimited).filter_map(|d| d.axes.first()).collect();
    let without: Vec<Dataset> = order
        .iter()
        .map(|axis| &axes[axis])
        .filter(|(name, _)| !with_values.contains(name))
        .map(|(name, extent)| Dataset {
            name: name.clone(),
            kind: BARE_SCALE,
            shape: vec![*extent],
            is_unlimited: unlimited.contains(name),
            is_nan_missing: false,
            content: Elements::Missing,
            scale: Some(name_of_bare_scale(*extent)),
            axes: Vec::new(),
            attributes: Vec::new(),
            stored: Stored::default(),
        })
        .collect();
    datasets.extend(without);
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashSet<&str> = HashSet::new();
    for dataset in &datasets {
        let folders = dataset.name.match_indices('/').map(|(at, _)| &dataset.name[..at]);
        groups.extend(folders.filter(|folder| known.insert(folder)).map(Group::bare));
    }
    let attributes = all.attributes("", &attributes, None);
    let plan =
        Plan { files: all.names, groups, datasets, sources: all.sources.made, blocks: names.blocks(), attributes };
    Ok(View { plan, arrays: shown, blocks, left_out: all.left_out })
}

/// The type of a dimension scale without values.
pub const BARE_SCALE: Kind = Kind::Real(4, true);

/// The name that netCDF gives to a dimension scale without values.
pub fn name_of_bare_scale(extent: u64) -> String {
    format!("This is a netCDF dimension but not a netCDF variable. {extent:10}")
}

/// The first parts of all names.
struct Names {
    first: HashSet<String>,
}

impl Names {
    fn of(arrays: &[Array]) -> Names {
        let first = |array: &Array| array.name.split('/').next().unwrap_or_default().to_string();
        Names { first: arrays.iter().map(first).collect() }
    }

    /// The name of a dataset for an axis: that of the axis, unless something else has it.
    fn scale(&mut self, axis: &str, taken: &HashSet<String>) -> String {
        if taken.contains(&format!("{AXIS_OF_ITSELF}{axis}")) {
            return axis.to_string();
        }
        let mut name = axis.replace(['/', '\0'], "_");
        while is_no_name(&name) || !self.first.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    fn blocks(&self) -> String {
        let mut name = ".blocks".to_string();
        while self.first.contains(&name) {
            name.push('_');
        }
        name
    }
}

/// In the set of names: the array is the scale of its only axis.
const AXIS_OF_ITSELF: &str = "\0";

/// Attributes that HDF5's dimension scales and netCDF have for themselves.
pub const RESERVED: [&str; 8] = [
    "CLASS",
    "NAME",
    "DIMENSION_LIST",
    "REFERENCE_LIST",
    "_NCProperties",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
    "_nc3_strict",
];

/// What is being planned.
struct Planned<'r> {
    reader: &'r Reader,
    conversion: Option<Conversion<'r>>,
    files: HashMap<Option<u32>, usize>,
    names: Vec<String>,
    sources: Sources,
    left_out: Vec<LeftOut>,
}

/// Rows of at least this many bytes are read in place as fast as whole blocks that are then copied: 1.2 microseconds for a row, 0.3
/// nanoseconds for a byte that is copied (HDF5 2.0).
const LONG_ROW: u64 = 4096;

/// The sources of virtual datasets.
#[derive(Default)]
struct Sources {
    made: Vec<Source>,
    numbers: HashMap<(usize, u64, Kind, bool), usize>,
}

impl Sources {
    /// The mapping of a run of an array of this shape; `None` if the run lies behind the end of all files.
    fn mapping(&mut self, kind: Kind, shape: &[u64], run: runs::Run) -> Option<Mapping> {
        let is_enumeration = matches!(kind, Kind::Integer(..)) && row(kind.size(), shape, &run.bounds.count) < LONG_ROW;
        let end = run.end().filter(|end| end.checked_mul(kind.size()).is_some_and(|end| end <= i64::MAX as u64))?;
        let made = &mut self.made;
        let source = *self.numbers.entry((run.file, run.phase, kind, is_enumeration)).or_insert_with(|| {
            made.push(Source { file: run.file, phase: run.phase, kind, is_enumeration, elements: 0 });
            made.len() - 1
        });
        made[source].elements = made[source].elements.max(end);
        let runs::Run { bounds, times, every, first, stride, .. } = run;
        Some(Mapping { offset: bounds.offset, count: bounds.count, times, every, source, first, stride })
    }
}

/// Bytes of a box that lie in one piece in an array of this shape.
fn row(size: u64, shape: &[u64], count: &[u64]) -> u64 {
    let mut bytes = size;
    for (extent, count) in shape.iter().zip(count).rev() {
        bytes = bytes.saturating_mul(*count);
        if count != extent {
            break;
        }
    }
    bytes
}

impl Planned<'_> {
    /// Parts of a variable are left out for the same reason, which is told once.
    fn leave_out(&mut self, name: &str, why: impl Into<String>) {
        let left = LeftOut { name: name.into(), why: why.into() };
        if self.left_out.last() != Some(&left) {
            self.left_out.push(left);
        }
    }

    /// The dataset of an array; `None` if it is left out.
    fn dataset(&mut self, array: &Array, taken: &mut HashSet<String>) -> Result<Option<Dataset>> {
        let name = &array.name;
        let Some(kind) = Kind::of(array.element, array.order) else {
            self.leave_out(&array.variable, format!("netCDF programs crash when they read {}", array.element.name()));
            return Ok(None);
        };
        let why = if name.split('/').any(is_no_name) {
            "HDF5 has no such name"
        } else if array.shape.len() > 32 {
            "HDF5 has at most 32 axes"
        } else if array.shape.iter().any(|extent| *extent > i64::MAX as u64) {
            "one of its extents is larger than any of HDF5"
        } else if !taken.insert(name.clone()) {
            "another variable has this name"
        } else {
            ""
        };
        if !why.is_empty() {
            self.leave_out(&array.variable, why);
            return Ok(None);
        }
        let is_real = matches!(kind, Kind::Real(..));
        let mut is_nan_missing = false;
        let content = match &array.content {
            Content::Values(values) => match Values::of(array.element, values) {
                Some(values) => Elements::Values(values),
                None => {
                    self.leave_out(&array.variable, "one of its texts contains a byte 0");
                    return Ok(None);
                }
            },
            Content::Boxes { boxes, has_holes } => {
                is_nan_missing = *has_holes && is_real;
                match &boxes[..] {
                    [] => Elements::Missing,
                    // HDF5 cannot extend external storage.
                    [one] if one.bounds.count == array.shape && !array.has_steps => Elements::Block(Place {
                        file: self.file(one.subfile)?,
                        offset: one.bytes.offset,
                        length: one.bytes.length,
                    }),
                    boxes => {
                        let mut placed = Vec::with_capacity(boxes.len());
                        for one in boxes {
                            placed.push((one.bounds.clone(), self.file(one.subfile)?, one.bytes.offset));
                        }
                        let mut mappings = Vec::new();
                        for run in runs::of(kind.size(), array.has_steps, placed) {
                            match self.sources.mapping(kind, &array.shape, run) {
                                Some(mapping) => mappings.push(mapping),
                                None => {
                                    self.leave_out(&array.variable, "a block lies behind the end of all files of HDF5");
                                    return Ok(None);
                                }
                            }
                        }
                        Elements::Boxes(mappings)
                    }
                }
            }
            Content::Read { variable, element, parts, has_holes } => {
                is_nan_missing = *has_holes && is_real;
                match &parts[..] {
                    [] => Elements::Missing,
                    parts => {
                        let (variable, parts) = (variable.clone(), parts.to_vec());
                        Elements::Read { variable, element: *element, parts }
                    }
                }
            }
            Content::Chunks { .. } => unreachable!("arrays of boxes were asked for"),
        };
        if array.axes.len() == 1 && array.axes[0] == *name {
            taken.insert(format!("{AXIS_OF_ITSELF}{name}"));
        }
        Ok(Some(Dataset {
            kind,
            shape: array.shape.clone(),
            is_unlimited: array.has_steps,
            is_nan_missing,
            content,
            scale: None,
            axes: array.axes.clone(),
            attributes: self.attributes(&array.variable, &array.attributes, Some(array.element)),
            stored: self.stored(array, kind)?,
            name: name.clone(),
        }))
    }

    /// How an array that is converted is stored.
    fn stored(&self, array: &Array, kind: Kind) -> Result<Stored> {
        let Some(Conversion { chosen, chunks }) = self.conversion else { return Ok(Stored::default()) };
        let wanted =
            chunks.iter().rev().find(|(pattern, _)| pattern.fits(&array.variable)).map(|(_, chunk)| &chunk[..]);
        let is_scalar = array.shape.len() == usize::from(array.has_steps);
        let deflate = match is_scalar || kind == Kind::Text {
            true => None,
            false => {
                deflate(chosen.choice.transform(&array.variable)).map_err(|e| e.in_variable(array.variable.clone()))?
            }
        };
        if array.shape.is_empty() || !(array.has_steps || wanted.is_some() || deflate.is_some()) {
            return Ok(Stored::default());
        }
        let size = if kind == Kind::Text { 16 } else { kind.size() };
        Ok(Stored { chunk: Some(chunks::extents(&array.shape, size, array.has_steps, wanted)), deflate })
    }

    /// - `element`: type of the variable that they belong to.
    fn attributes(
        &mut self,
        of: &str,
        attributes: &[(String, AttributeValue)],
        element: Option<ElementType>,
    ) -> Vec<Attribute> {
        let mut keys: HashSet<&str> = HashSet::new();
        let mut made = Vec::new();
        for (key, value) in attributes {
            match Attribute::of(key, value, element)
                .and_then(|one| keys.insert(key).then_some(one).ok_or("there are two of them"))
            {
                Ok(attribute) => made.push(attribute),
                Err(why) => {
                    let name = format!("{of}/{key}");
                    self.leave_out(name.trim_start_matches('/'), format!("the attribute cannot be shown: {why}"));
                }
            }
        }
        made
    }

    /// The position of a file in the list of files.
    fn file(&mut self, subfile: Option<u32>) -> Result<usize> {
        if let Some(known) = self.files.get(&subfile) {
            return Ok(*known);
        }
        let url = url_of(self.reader, subfile, None)?;
        let Some(path) = url.strip_prefix("file://") else {
            let what = format!("HDF5 reads local files alone, and the bytes are at {url}");
            return Err(Error::new(ErrorKind::Unsupported, what).in_object(self.reader.data_path(subfile)));
        };
        if path.contains('\0') {
            let what = "HDF5 cannot open a file with a byte 0 in its name";
            return Err(Error::new(ErrorKind::Unsupported, what).in_object(self.reader.data_path(subfile)));
        }
        self.names.push(path.to_string());
        self.files.insert(subfile, self.names.len() - 1);
        Ok(self.names.len() - 1)
    }
}

/// Whether a part of a path is none for HDF5.
pub fn is_no_name(part: &str) -> bool {
    part.is_empty() || part == "." || part.contains('\0')
}
