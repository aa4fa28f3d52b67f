//! Zarr folders from BP files.

use crate::values::{Part, hand_on, total};
use crate::zarr::names;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use thalweg_choice::choice::check_transform;
use thalweg_convert::{Converted, LeftOut, Message, Request};
use thalweg_reader::Reader;
use thalweg_types::{AttributeValue, ElementType, Error, ErrorKind, Result, Value};
use thalweg_views::arrays::{Array, Arrays, Content, Pieces};
use thalweg_views::chunks::{self, parse};
use thalweg_views::hdf5::{Dataset, Elements, Kind};
use thalweg_views::{Chosen, hdf5};
use zarrs::array::{ArrayBytes, ArrayMetadata, ArraySubset};
use zarrs::filesystem::FilesystemStore;
use zarrs::group::GroupBuilder;
use zarrs::storage::{StoreKey, WritableStorageTraits};

/// The store, and what is written there.
type Written = zarrs::array::Array<FilesystemStore>;

/// An error of the library.
fn failed(what: impl Into<String>, why: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {}: Zarr: {why}", what.into()))
}

/// Converts a BP file.
///
/// # Errors
/// `Unsupported` for a transform that Zarr does not have; those of reads and writes.
pub fn convert(request: &Request, chunks: &[String], tell: &dyn Fn(Message)) -> Result<Converted> {
    let choice = request.chosen.parse()?;
    let wanted = chunks.iter().map(|text| parse(text)).collect::<Result<Vec<_>>>()?;
    let reader = Reader::open(thalweg_io::mounts::layout()?, &request.source)?;
    let most = (request.memory / 4).max(1 << 20);
    let Arrays { arrays, left_out, attributes } =
        Arrays::of(&reader, Pieces::Values(Chosen { choice: &choice, most }))?;
    let mut left_out: Vec<LeftOut> = left_out.into_iter().map(|left| LeftOut::new(left.name, left.why)).collect();
    let store = FilesystemStore::new(&request.target).map_err(|e| failed("make the folder", &e))?;
    let store = Arc::new(store);
    // It would write of itself into all attributes.
    zarrs::config::global_config_mut().set_include_zarrs_metadata(false);
    let own = listed("", &attributes, None, &mut left_out);
    group(&store, "/", own)?;
    let mut groups = BTreeSet::new();
    let mut made: Vec<(Written, bool)> = Vec::new();
    let mut datasets: Vec<Dataset> = Vec::new();
    let mut shown = 0;
    for array in &arrays {
        if names::name_of(array.element).is_none() {
            left_out.push(LeftOut::new(&array.variable, format!("Zarr has no type for {}", array.element.name())));
            continue;
        }
        shown += 1;
        for (at, _) in array.name.match_indices('/') {
            if groups.insert(&array.name[..at]) {
                group(&store, &format!("/{}", &array.name[..at]), Map::new())?;
            }
        }
        let chunk = wanted.iter().rev().find(|(pattern, _)| pattern.fits(&array.variable)).map(|(_, chunk)| &chunk[..]);
        let codec = codec(choice.transform(&array.variable)).map_err(|e| e.in_variable(array.variable.clone()))?;
        let joins = joins(array);
        let written = create(&store, array, joins, chunk, codec, &mut left_out)?;
        match &array.content {
            Content::Values(values) if !array.shape.contains(&0) => inline(&written, array, values)?,
            Content::Read { variable, element, parts, .. } => {
                let kind = hdf5::Kind::of(array.element, array.order).unwrap_or(Kind::Letter);
                let content = Elements::Read { variable: variable.clone(), element: *element, parts: parts.clone() };
                datasets.push(Dataset::read(array.name.clone(), kind, array.shape.clone(), content));
                made.push((written, joins));
            }
            Content::Values(_) | Content::Chunks { .. } | Content::Boxes { .. } => {}
        }
    }
    let bytes = total(&datasets);
    tell(Message::Total(bytes));
    let mut done = 0u64;
    hand_on(&reader, &datasets, most, &mut |part| {
        let (written, joins) = &made[part.dataset];
        let length = part.bytes.len() as u64;
        store_part(written, *joins, part).map_err(|e| e.in_variable(datasets_name(written)))?;
        done += length;
        tell(Message::Done(done));
        Ok(())
    })?;
    let names: Vec<&str> = reader.variables().iter().map(|head| head.name.as_str()).collect();
    Ok(Converted {
        variables: shown,
        steps: (0..reader.status().steps).filter(|step| choice.steps.contain(*step)).count() as u64,
        bytes,
        left_out,
        unknown: choice.unknown(&names).into_iter().map(str::to_string).collect(),
    })
}

fn datasets_name(written: &Written) -> String {
    written.path().as_str().trim_start_matches('/').to_string()
}

fn group(store: &Arc<FilesystemStore>, path: &str, attributes: Map<String, Json>) -> Result<()> {
    let mut group =
        GroupBuilder::new().build(store.clone(), path).map_err(|e| failed(format!("make the group {path}"), &e))?;
    *group.attributes_mut() = attributes;
    group.store_metadata().map_err(|e| failed(format!("write the group {path}"), &e))
}

/// Attributes in JSON; what is not as it was is told.
fn listed(
    of: &str,
    attributes: &[(String, AttributeValue)],
    element: Option<ElementType>,
    left_out: &mut Vec<LeftOut>,
) -> Map<String, Json> {
    let mut all = Map::new();
    for (key, value) in attributes {
        let own = match value {
            AttributeValue::One(value) => Some(value.element_type()),
            AttributeValue::Many(element, _) => Some(*element),
            AttributeValue::Variable(_) => None,
        };
        if own.is_some_and(ElementType::is_complex) {
            let name = if of.is_empty() { key.clone() } else { format!("{of}/{key}") };
            left_out.push(LeftOut::new(name, "the attribute: complex numbers become pairs of numbers"));
        }
        all.insert(key.clone(), names::json_of(key, value, element));
    }
    all
}

/// Whether the last axis of an array is that of characters, which become texts.
fn joins(array: &Array) -> bool {
    array.element == ElementType::Char && array.shape.len() > usize::from(array.has_steps)
}

/// The codec of a transform; `None` if nothing is compressed.
fn codec(transform: Option<&str>) -> Result<Option<Json>> {
    let Some(text) = transform.filter(|text| *text != "none") else { return Ok(None) };
    check_transform(text)?;
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let level = rest.rsplit('=').next().unwrap_or_default().trim().parse::<i64>().ok();
    Ok(Some(match name.to_ascii_lowercase().as_str() {
        "zlib" => json!({"name": "gzip", "configuration": {"level": level.unwrap_or(6).clamp(0, 9)}}),
        "zstd" => json!({"name": "zstd", "configuration": {"level": level.unwrap_or(3), "checksum": false}}),
        _ => {
            let what = format!("transform {text}: zlib and zstd are written to Zarr, which all its programs decode");
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
    }))
}

fn create(
    store: &Arc<FilesystemStore>,
    array: &Array,
    joins: bool,
    wanted: Option<&[u64]>,
    codec: Option<Json>,
    left_out: &mut Vec<LeftOut>,
) -> Result<Written> {
    let name = names::name_of(array.element).unwrap_or("string");
    let is_text = name == "string";
    let cut = array.shape.len() - usize::from(joins);
    let (shape, axes) = (&array.shape[..cut], array.axes.get(..cut.min(array.axes.len())).unwrap_or_default());
    let size = if is_text { 16 } else { array.element.size() };
    let chunk = match &array.content {
        Content::Values(_) => shape.iter().map(|extent| (*extent).max(1)).collect(),
        _ => chunks::extents(shape, size, array.has_steps, wanted),
    };
    let has_holes = matches!(array.content, Content::Read { has_holes: true, .. });
    let own: Vec<(String, AttributeValue)> =
        array.attributes.iter().filter(|(key, _)| !(is_text && key == "_Encoding")).cloned().collect();
    let attributes = listed(&array.name, &own, Some(array.element), left_out);
    let serializer = match is_text {
        true => json!({"name": "vlen-utf8"}),
        false if array.element.size() == 1 => json!({"name": "bytes"}),
        false => json!({"name": "bytes", "configuration": {"endian": "little"}}),
    };
    let codecs: Vec<Json> = std::iter::once(serializer).chain(codec).collect();
    let mut metadata = json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": names::fill_value(array.element, has_holes),
        "codecs": codecs,
        "attributes": attributes,
    });
    if axes.len() == shape.len() && !axes.is_empty() {
        metadata["dimension_names"] = json!(axes);
    }
    let path = format!("/{}", array.name);
    let what = || format!("make the array {path}");
    let text = serde_json::to_vec_pretty(&metadata).map_err(|e| failed(what(), &e))?;
    let metadata: ArrayMetadata = serde_json::from_value(metadata).map_err(|e| failed(what(), &e))?;
    let written = Written::new_with_metadata(store.clone(), &path, metadata).map_err(|e| failed(what(), &e))?;
    // The library writes codecs without a configuration as their names alone, which zarr-python does not read.
    let key = StoreKey::new(format!("{}/zarr.json", array.name)).map_err(|e| failed(what(), &e))?;
    store.set(&key, text.into()).map_err(|e| failed(what(), &e))?;
    Ok(written)
}

/// Writes values that the index has.
fn inline(written: &Written, array: &Array, values: &[Value]) -> Result<()> {
    let all = written.subset_all();
    let what = || format!("write {}", array.name);
    if array.element.is_text() {
        let text = |value: &Value| match value {
            Value::String(text) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        };
        let texts: Vec<String> = values.iter().map(text).collect();
        return written.store_array_subset(&all, texts).map_err(|e| failed(what(), &e));
    }
    if array.element == ElementType::Char {
        let letter = |value: &Value| match value {
            Value::Char(byte) => char::from(*byte).to_string(),
            _ => String::new(),
        };
        let texts: Vec<String> = values.iter().map(letter).collect();
        return written.store_array_subset(&all, texts).map_err(|e| failed(what(), &e));
    }
    let mut bytes = Vec::new();
    values.iter().for_each(|value| value.append_to(&mut bytes));
    written.store_array_subset(&all, ArrayBytes::new_flen(bytes)).map_err(|e| failed(what(), &e))
}

fn store_part(written: &Written, joins: bool, part: Part) -> Result<()> {
    let axes = part.bounds.offset.len() - usize::from(joins);
    let (offset, count) = (part.bounds.offset[..axes].to_vec(), part.bounds.count[..axes].to_vec());
    let subset = ArraySubset::new_with_start_shape(offset, count).map_err(|e| failed("write a part", &e))?;
    let is_text = written.data_type().to_string().contains("string");
    if !is_text {
        return written
            .store_array_subset(&subset, ArrayBytes::new_flen(part.bytes))
            .map_err(|e| failed("write a part", &e));
    }
    let width = if joins { part.bounds.count.last().copied().unwrap_or(1) } else { 1 } as usize;
    let text = |bytes: &[u8]| {
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        String::from_utf8(bytes[..end].to_vec())
            .map_err(|_| Error::new(ErrorKind::Unsupported, "one of its texts is not UTF-8, which Zarr's are"))
    };
    let texts: Vec<String> = part.bytes.chunks(width.max(1)).map(text).collect::<Result<_>>()?;
    written.store_array_subset(&subset, texts).map_err(|e| failed("write a part", &e))
}
