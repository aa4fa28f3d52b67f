//! References for Zarr: one JSON document that gives the place of each chunk, as kerchunk writes them and fsspec reads them.
//!
//! | in the document | from the file |
//! |---|---|
//! | `.zgroup`, `.zattrs` | the file and its attributes; a group for each folder in names of variables |
//! | `NAME/.zarray`, `NAME/.zattrs` | type, shape and chunks of an array (Zarr version 2), its attributes, `_ARRAY_DIMENSIONS` |
//! | `.zmetadata` | all of these together, for readers that open metadata consolidated |
//! | `NAME/0.1.0` | URL, offset and length of a block; or values that the index contains, in base64 |
//!
//! Readers: zarr-python through `reference://` of fsspec, xarray with `engine="kerchunk"`, dask.
//!
//! | room | what it owns |
//! |---|---|
//! | [`tables`] | the same references as tables, in kerchunk's Parquet form, and what a step changes in them |
//!
//! Source: the specification of references, version 1, in fsspec's and kerchunk's documentation; Zarr version 2.

use crate::arrays::{Array, Arrays, Codec, Content, LeftOut, Pieces};
use crate::place::url_of;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use thalweg_reader::Reader;
use thalweg_types::value::long_double_to_f64;
use thalweg_types::{AttributeValue, ByteOrder, ElementType, Result, Value};

pub mod tables;

/// References and what they show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The document.
    pub json: Vec<u8>,
    /// Number of arrays.
    pub arrays: u64,
    /// Number of references to bytes of the file.
    pub references: u64,
    /// Variables that the view does not show.
    pub left_out: Vec<LeftOut>,
}

/// The references of a file.
///
/// - `at`: the URL under which readers find the file, if it is not the file that is read here: `s3://bucket/run.bp`. Subfiles then have
///   the names below it that they have beside the file.
///
/// # Errors
/// `Unsupported` without `at` if other programs cannot find the file's bytes: its layout arranges them in another way ([`thalweg_layout::Layout::url`]);
/// errors of [`Arrays::of`].
/// # Cost
/// As [`Arrays::of`]; about 50 bytes of the document per block, more for long names.
pub fn references(reader: &Reader, at: Option<&str>) -> Result<View> {
    let Arrays { arrays, mut left_out, attributes } = Arrays::of(reader, Pieces::Chunks)?;
    let mut all = Document::new();
    let mut groups: BTreeSet<&str> = BTreeSet::new();
    let mut urls = Urls { reader, at, known: HashMap::new() };
    let (mut shown, mut references) = (0, 0);
    let attributes: Map<String, Json> = attributes.iter().map(|(key, value)| (key.clone(), attribute(value))).collect();
    all.group("");
    all.metadata(".zattrs", Json::Object(attributes));
    for array in &arrays {
        let Some(kind) = typed(array, &mut left_out) else { continue };
        array.groups().filter(|folder| groups.insert(folder)).for_each(|folder| all.group(folder));
        all.metadata(&format!("{}/.zarray", array.name), metadata(array, &kind, None));
        all.metadata(&format!("{}/.zattrs", array.name), attributes_of(array));
        references += all.chunks(array, &mut urls)?;
        shown += 1;
    }
    Ok(View { json: all.end(), arrays: shown, references, left_out })
}

/// The type of an array, if Zarr has it.
fn typed(array: &Array, left_out: &mut Vec<LeftOut>) -> Option<String> {
    let kind = type_of(array.element, array.order);
    if kind.is_none() {
        let why = format!("Zarr has no type for {}", array.element.name());
        left_out.push(LeftOut { name: array.name.clone(), why });
    }
    kind
}

/// The document, as far as it is written: the text is made at once, because a tree of many references would take several times its memory.
struct Document {
    json: Vec<u8>,
    is_first: bool,
    /// All metadata once more, as one document: readers need not list groups. Sorted, as zarr-python 3.1 loses members of groups
    /// that do not follow each other.
    consolidated: BTreeMap<String, Json>,
}

impl Document {
    fn new() -> Document {
        Document { json: b"{\"version\":1,\"refs\":{".to_vec(), is_first: true, consolidated: BTreeMap::new() }
    }

    fn key(&mut self, key: &str) {
        if !std::mem::replace(&mut self.is_first, false) {
            self.json.push(b',');
        }
        self.json.push(b'\n');
        self.string(key);
        self.json.push(b':');
    }

    fn string(&mut self, text: &str) {
        self.json.extend(Json::from(text).to_string().as_bytes());
    }

    fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        self.string(text);
    }

    fn metadata(&mut self, key: &str, metadata: Json) {
        self.text(key, &metadata.to_string());
        self.consolidated.insert(key.into(), metadata);
    }

    fn group(&mut self, folder: &str) {
        let (key, metadata) = group(folder);
        self.metadata(&key, metadata);
    }

    /// The chunks of an array; returns how many of them are in files.
    fn chunks(&mut self, array: &Array, urls: &mut Urls<'_>) -> Result<u64> {
        match &array.content {
            Content::Chunks { chunks, .. } => {
                let name = Json::from(array.name.as_str()).to_string();
                let name = &name[..name.len() - 1];
                for chunk in chunks {
                    let url = urls.of(chunk.subfile)?;
                    if !std::mem::replace(&mut self.is_first, false) {
                        self.json.push(b',');
                    }
                    // A `Vec` takes any write.
                    let _ = write!(
                        self.json,
                        "\n{name}/{}\":[{url},{},{}]",
                        number(&chunk.number),
                        chunk.bytes.offset,
                        chunk.bytes.length
                    );
                }
                Ok(chunks.len() as u64)
            }
            Content::Boxes { .. } | Content::Read { .. } => unreachable!("arrays of chunks were asked for"),
            Content::Values(values) => {
                if !array.shape.contains(&0) {
                    let key = format!("{}/{}", array.name, number(&vec![0; array.shape.len()]));
                    self.text(&key, &format!("base64:{}", BASE64_STANDARD.encode(bytes_of(array.element, values))));
                }
                Ok(0)
            }
        }
    }

    fn end(mut self) -> Vec<u8> {
        let consolidated = std::mem::take(&mut self.consolidated);
        self.text(".zmetadata", &json!({"zarr_consolidated_format": 1, "metadata": consolidated}).to_string());
        self.json.extend(b"\n}}\n");
        self.json
    }
}

/// The key of a group's metadata, and these.
fn group(folder: &str) -> (String, Json) {
    let key = if folder.is_empty() { ".zgroup".to_string() } else { format!("{folder}/.zgroup") };
    (key, json!({"zarr_format": 2}))
}

/// The key of a chunk.
fn number(number: &[u64]) -> String {
    match number {
        [] => "0".into(),
        number => number.iter().map(u64::to_string).collect::<Vec<_>>().join("."),
    }
}

/// URLs of the files with payloads, as JSON.
struct Urls<'r> {
    reader: &'r Reader,
    at: Option<&'r str>,
    known: HashMap<Option<u32>, String>,
}

impl Urls<'_> {
    fn of(&mut self, subfile: Option<u32>) -> Result<&str> {
        if !self.known.contains_key(&subfile) {
            let url = url_of(self.reader, subfile, self.at)?;
            self.known.insert(subfile, Json::from(url).to_string());
        }
        Ok(&self.known[&subfile])
    }
}

/// The type of an element in Zarr version 2; `None` if there is none.
fn type_of(element: ElementType, order: ByteOrder) -> Option<String> {
    let letter = match element {
        ElementType::I8 | ElementType::I16 | ElementType::I32 | ElementType::I64 => "i",
        ElementType::U8 | ElementType::U16 | ElementType::U32 | ElementType::U64 => "u",
        ElementType::F32 | ElementType::F64 => "f",
        ElementType::Complex | ElementType::DoubleComplex => "c",
        ElementType::Char => return Some("|S1".into()),
        ElementType::String => return Some("|O".into()),
        ElementType::LongDouble | ElementType::StringArray => return None,
    };
    let mark = match (element.size(), order) {
        (1, _) => "|",
        (_, ByteOrder::Little) => "<",
        (_, ByteOrder::Big) => ">",
    };
    Some(format!("{mark}{letter}{}", element.size()))
}

/// - `together`: how many steps of values are a chunk; `None` for all.
fn metadata(array: &Array, kind: &str, together: Option<u64>) -> Json {
    let whole = || {
        let mut whole: Vec<u64> = array.shape.iter().map(|extent| (*extent).max(1)).collect();
        whole.iter_mut().zip(together).for_each(|(steps, together)| *steps = together);
        whole
    };
    let (chunks, has_holes, codec) = match &array.content {
        Content::Chunks { extents, has_holes, codec, .. } => (extents.clone(), *has_holes, *codec),
        Content::Values(_) | Content::Boxes { .. } | Content::Read { .. } => (whole(), false, Codec::Plain),
    };
    // Streams say how they are decoded; the other parameters are for writing.
    let compressor = match codec {
        Codec::Plain => Json::Null,
        Codec::Zlib => json!({"id": "zlib", "level": 6}),
        Codec::Bzip2 => json!({"id": "bz2", "level": 9}),
        Codec::Zstd => json!({"id": "zstd", "level": 3}),
        Codec::Blosc => json!({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}),
    };
    let is_real = matches!(array.element, ElementType::F32 | ElementType::F64);
    let missing = array.attributes.iter().find(|(key, _)| key == FILL).map(|(_, value)| attribute(value));
    // A value that stands for missing ones would hide equal ones: without an attribute only reals have one, where there are holes.
    let fill = missing.or_else(|| (has_holes && is_real).then(|| Json::from("NaN")));
    let filters = array.element.is_text().then(|| json!([{"id": "vlen-utf8"}]));
    json!({
        "zarr_format": 2,
        "shape": array.shape,
        "chunks": chunks,
        "dtype": kind,
        "compressor": compressor,
        "filters": filters,
        "fill_value": fill,
        "order": "C",
    })
}

/// The attribute with the value of missing elements; Zarr keeps it with the type.
const FILL: &str = "_FillValue";

fn attributes_of(array: &Array) -> Json {
    let own = array.attributes.iter().filter(|(key, _)| key != FILL);
    let mut all: Map<String, Json> = own.map(|(key, value)| (key.clone(), attribute(value))).collect();
    all.insert("_ARRAY_DIMENSIONS".into(), json!(array.axes));
    Json::Object(all)
}

/// An attribute; NaN and infinities are texts, as Zarr has them.
pub fn attribute(value: &AttributeValue) -> Json {
    match value {
        AttributeValue::One(value) => scalar(value),
        AttributeValue::Many(_, values) => values.iter().map(scalar).collect(),
        AttributeValue::Variable(_) => Json::Null,
    }
}

/// A value; see [`attribute`].
pub fn scalar(value: &Value) -> Json {
    // JSON has no number for these; Zarr and its readers take their names.
    let real = |v: f64| match v {
        v if v.is_nan() => Json::from("NaN"),
        v if v == f64::INFINITY => Json::from("Infinity"),
        v if v == f64::NEG_INFINITY => Json::from("-Infinity"),
        v => Json::from(v),
    };
    match value {
        Value::F32(v) => real(f64::from(*v)),
        Value::F64(v) => real(*v),
        Value::Complex([re, im]) => json!([real(f64::from(*re)), real(f64::from(*im))]),
        Value::DoubleComplex([re, im]) => json!([real(*re), real(*im)]),
        Value::U64(v) => Json::from(*v),
        Value::String(text) => Json::from(String::from_utf8_lossy(text)),
        Value::Char(v) => Json::from(char::from(*v).to_string()),
        Value::LongDouble(v) => real(long_double_to_f64(v)),
        other => other.as_i64().map_or(Json::Null, Json::from),
    }
}

/// The bytes of a chunk with all values of an array, in this machine's order. Texts have the form of the codec `vlen-utf8`: their
/// number, then length and bytes of each, lengths of 4 bytes, least significant first.
fn bytes_of(element: ElementType, values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if element.is_text() {
        bytes.extend((values.len() as u32).to_le_bytes());
    }
    for value in values {
        match value {
            Value::String(text) => {
                let text = String::from_utf8_lossy(text);
                bytes.extend((text.len() as u32).to_le_bytes());
                bytes.extend(text.as_bytes());
            }
            other => other.append_to(&mut bytes),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_order_of_their_bytes() {
        assert_eq!(type_of(ElementType::F64, ByteOrder::Big).unwrap(), ">f8");
        assert_eq!(type_of(ElementType::I8, ByteOrder::Big).unwrap(), "|i1");
        assert_eq!(type_of(ElementType::Complex, ByteOrder::Little).unwrap(), "<c8");
        assert_eq!(type_of(ElementType::LongDouble, ByteOrder::Little), None);
    }
}
