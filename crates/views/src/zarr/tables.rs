//! References as tables, in kerchunk's Parquet form: a folder that readers open without reading the references in it.
//!
//! | in the folder | content |
//! |---|---|
//! | `.zmetadata` | the metadata of all arrays and groups ([`super`]), and [`ROWS`] as `record_size` |
//! | `NAME/refs.N.parq` | rows `N * ROWS..` of an array: a row for each chunk, in the order of chunks, slowest axis first |
//!
//! The first axis of arrays that grow is that of steps, so that new steps add rows at the end: a step changes the last file of each
//! array and `.zmetadata`, however many steps are before it. The metadata are written last. Readers that have read earlier ones find
//! in the files the rows that they know.
//!
//! Values that the index contains are in the tables themselves; those of several steps are one chunk (`TOGETHER`), so that readers get
//! them with few accesses, and the last file of an array stays short.
//!
//! Pure but for the index: the program `thalweg-convert` writes the files. Source: `LazyReferenceMapper` of fsspec; kerchunk's
//! documentation.

use super::{Json, attribute, attributes_of, bytes_of, group, metadata, typed};
use crate::arrays::growing::Growing;
use crate::arrays::{Array, Arrays, Content, LeftOut, Pieces};
use crate::place::url_of;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use std::collections::{BTreeMap, HashMap};
use thalweg_reader::Reader;
use thalweg_types::{ElementType, Result, Value};

/// Rows of a file.
pub const ROWS: u64 = 512;
/// Bytes of values that are one chunk, at least one step of them; of texts as if each had 16.
const TOGETHER: u64 = 512;

/// Files that are written: first those of tables, then the metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The files of tables.
    pub tables: Vec<Table>,
    /// The content of `.zmetadata`.
    pub metadata: String,
}

/// A file of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Name of the array: folders with slashes between, none of which is `.` or `..`.
    pub array: String,
    /// Number of the file.
    pub number: u64,
    /// URLs of the files with chunks.
    pub urls: Vec<String>,
    /// For each row, the file (position in `urls`), offset and length of its chunk; `None` for chunks that were not written, and for values.
    pub places: Vec<Option<(u32, u64, u64)>>,
    /// Rows with values, rising, and their bytes in base64.
    pub values: Vec<(u64, String)>,
}

/// A change of the tables, and what they show after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tabled {
    /// What is written.
    pub change: Change,
    /// Number of arrays.
    pub arrays: u64,
    /// Number of references to bytes of the file.
    pub references: u64,
    /// Variables that the tables do not show.
    pub left_out: Vec<LeftOut>,
}

/// The tables of a file, as far as further steps change them.
#[derive(Debug)]
pub struct Tables {
    growing: Growing,
    at: Option<String>,
    urls: HashMap<Option<u32>, String>,
    fields: HashMap<String, Field>,
    references: u64,
}

/// The rows of an array.
#[derive(Debug, Default)]
struct Field {
    rows: u64,
    /// The last file with a chunk, and its rows.
    last: Option<(u64, Vec<Row>)>,
    /// Steps with values, and the values of the last chunk.
    steps: u64,
    values: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Row {
    /// A chunk that was not written.
    Hole,
    /// Subfile, offset, length.
    Place(Option<u32>, u64, u64),
    /// Its bytes.
    Values(Vec<u8>),
}

impl Tables {
    /// The tables of all steps, for an empty folder.
    ///
    /// - `at`: as for [`super::references`].
    ///
    /// # Errors
    /// As [`super::references`].
    /// # Cost
    /// As [`Arrays::of`]; memory for one file of each array remains in use.
    pub fn of(reader: &Reader, at: Option<&str>) -> Result<(Tables, Tabled)> {
        let all = Arrays::of(reader, Pieces::Chunks)?;
        let growing = Growing::of(reader, &all)?;
        let at = at.map(str::to_string);
        let mut tables = Tables { growing, at, urls: HashMap::new(), fields: HashMap::new(), references: 0 };
        let tabled = tables.take(reader, all)?;
        Ok((tables, tabled))
    }

    /// What the steps that are new change. `None`: the tables are to be made anew, in another folder, and these are of no use any more.
    ///
    /// - `reader`: of the same file.
    ///
    /// # Errors
    /// As [`super::references`].
    /// # Cost
    /// As [`Growing::advance`], and at most [`ROWS`] rows for each array besides the new ones.
    pub fn advance(&mut self, reader: &Reader) -> Result<Option<Tabled>> {
        self.growing.advance(reader)?.map(|grown| self.take(reader, grown)).transpose()
    }

    /// - `all`: the arrays, with the elements that the tables do not have.
    fn take(&mut self, reader: &Reader, all: Arrays) -> Result<Tabled> {
        let Arrays { arrays, mut left_out, attributes } = all;
        let attributes: Map<String, Json> =
            attributes.iter().map(|(key, value)| (key.clone(), attribute(value))).collect();
        let mut metadata_of = BTreeMap::from([group(""), (".zattrs".to_string(), Json::Object(attributes))]);
        let (mut shown, mut tables) = (0, Vec::new());
        for array in &arrays {
            let Some(kind) = typed(array, &mut left_out) else { continue };
            let rows = rows(array);
            let why = match rows {
                _ if !is_folder(&array.name) => "no folder can have its name",
                None => "it has more chunks than 64 bits count",
                Some(_) => "",
            };
            let Some(rows) = rows.filter(|_| why.is_empty()) else {
                left_out.push(LeftOut { name: array.name.clone(), why: why.into() });
                continue;
            };
            metadata_of.extend(array.groups().map(group));
            metadata_of.insert(format!("{}/.zarray", array.name), metadata(array, &kind, together(array)));
            metadata_of.insert(format!("{}/.zattrs", array.name), attributes_of(array));
            self.add(reader, array, rows, &mut tables)?;
            shown += 1;
        }
        let metadata = json!({"metadata": metadata_of, "record_size": ROWS}).to_string();
        let references = self.references;
        Ok(Tabled { change: Change { tables, metadata }, arrays: shown, references, left_out })
    }

    /// Adds the files that the new elements of an array change.
    ///
    /// - `rows`: its chunks by now.
    fn add(&mut self, reader: &Reader, array: &Array, rows: u64, tables: &mut Vec<Table>) -> Result<()> {
        let field = self.fields.entry(array.name.clone()).or_default();
        let mut new: Vec<(u64, Row)> = match &array.content {
            Content::Chunks { chunks, extents, .. } => {
                self.references += chunks.len() as u64;
                let counts = || array.shape.iter().zip(extents).map(|(shape, chunk)| shape.div_ceil(*chunk));
                let row = |number: &[u64]| number.iter().zip(counts()).fold(0, |row, (at, count)| row * count + at);
                let rows = chunks.iter().map(|chunk| {
                    let bytes = chunk.bytes;
                    (row(&chunk.number), Row::Place(chunk.subfile, bytes.offset, bytes.length))
                });
                rows.collect()
            }
            Content::Values(values) => field.values(array, values),
            Content::Boxes { .. } | Content::Read { .. } => unreachable!("arrays of chunks were asked for"),
        };
        if new.is_empty() && rows == field.rows {
            return Ok(());
        }
        new.sort_unstable_by_key(|(row, _)| *row);
        let mut files: BTreeMap<u64, (Vec<Row>, bool)> = BTreeMap::new();
        files.extend(field.last.take().map(|(number, rows)| (number, (rows, false))));
        for (row, content) in new {
            let (rows, is_changed) = files.entry(row / ROWS).or_default();
            let at = (row % ROWS) as usize;
            rows.resize(rows.len().max(at + 1), Row::Hole);
            rows[at] = content;
            *is_changed = true;
        }
        for (number, (mut content, is_changed)) in files {
            // Readers look for rows of chunks that were not written, too.
            let length = rows.saturating_sub(number * ROWS).min(ROWS) as usize;
            let is_longer = content.len() < length;
            content.resize(length, Row::Hole);
            if is_changed || is_longer {
                tables.push(table(&array.name, number, &content, &mut |subfile| {
                    if let Some(url) = self.urls.get(&subfile) {
                        return Ok(url.clone());
                    }
                    let url = url_of(reader, subfile, self.at.as_deref())?;
                    Ok(self.urls.entry(subfile).or_insert(url).clone())
                })?);
            }
            field.last = Some((number, content));
        }
        field.rows = rows;
        Ok(())
    }
}

impl Field {
    /// The rows that further values of an array change.
    fn values(&mut self, array: &Array, new: &[Value]) -> Vec<(u64, Row)> {
        if new.is_empty() {
            return Vec::new();
        }
        let Some(together) = together(array) else {
            return vec![(0, Row::Values(chunk(array.element, new, new.len())))];
        };
        let steps = self.steps..array.shape[0];
        let most = new.len() / (steps.end - steps.start).max(1) as usize * together as usize;
        // The last chunk may have space for them.
        let first = steps.start / together;
        self.values.extend_from_slice(new);
        let rows = (first..).zip(self.values.chunks(most));
        let rows = rows.map(|(row, values)| (row, Row::Values(chunk(array.element, values, most)))).collect();
        let open = self.values.len() % most;
        self.values.drain(..self.values.len() - open);
        self.steps = steps.end;
        rows
    }
}

/// Chunks of an array; `None` beyond 64 bits.
fn rows(array: &Array) -> Option<u64> {
    let extents = match (&array.content, together(array)) {
        (Content::Chunks { extents, .. }, _) => extents,
        (_, Some(together)) => &[vec![together], array.shape[1..].to_vec()].concat(),
        _ => &array.shape,
    };
    let counts = array.shape.iter().zip(extents).map(|(shape, chunk)| shape.div_ceil((*chunk).max(1)));
    counts.map(Some).reduce(|all, count| all?.checked_mul(count?)).unwrap_or(Some(1))
}

/// How many steps of the values of an array are one chunk; `None` if it has none or no axis of steps.
fn together(array: &Array) -> Option<u64> {
    if !array.has_steps || !matches!(array.content, Content::Values(_)) {
        return None;
    }
    let size = if array.element.is_text() { 16 } else { array.element.size() };
    let step = array.shape[1..].iter().fold(size, |bytes, extent| bytes.saturating_mul(*extent));
    Some((TOGETHER / step.max(1)).max(1))
}

/// The bytes of a chunk of values, with as many behind as it needs to be whole.
fn chunk(element: ElementType, values: &[Value], most: usize) -> Vec<u8> {
    let missing = most - values.len();
    if element.is_text() {
        let missing = std::iter::repeat_n(Value::String(Vec::new()), missing);
        return bytes_of(element, &values.iter().cloned().chain(missing).collect::<Vec<_>>());
    }
    let mut bytes = bytes_of(element, values);
    bytes.resize(bytes.len() + missing * element.size() as usize, 0);
    bytes
}

/// Whether an array of this name can be a folder, and no metadata.
fn is_folder(name: &str) -> bool {
    let is_part = |part: &str| {
        !matches!(part, "" | "." | "..") && !part.starts_with(".z") && part.len() <= 255 && !part.contains('\0')
    };
    name.split('/').all(is_part)
}

/// - `url`: of a subfile.
fn table(array: &str, number: u64, rows: &[Row], url: &mut dyn FnMut(Option<u32>) -> Result<String>) -> Result<Table> {
    let (mut urls, mut values) = (Vec::new(), Vec::new());
    let mut known: HashMap<Option<u32>, u32> = HashMap::new();
    let mut places = Vec::with_capacity(rows.len());
    for (at, row) in (0..).zip(rows) {
        places.push(match row {
            Row::Place(subfile, offset, length) => {
                let position = match known.get(subfile) {
                    Some(position) => *position,
                    None => {
                        urls.push(url(*subfile)?);
                        *known.entry(*subfile).or_insert(urls.len() as u32 - 1)
                    }
                };
                Some((position, *offset, *length))
            }
            Row::Hole => None,
            Row::Values(bytes) => {
                values.push((at, BASE64_STANDARD.encode(bytes)));
                None
            }
        });
    }
    Ok(Table { array: array.into(), number, urls, places, values })
}
