//! Zarr folders that are read.

use crate::source::Source;
use crate::source::found::{Attribute, Content, Form, Found, MOST_TEXT, Value};
use crate::values::element_of;
use crate::zarr::names;
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use thalweg_convert::LeftOut;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_views::arrays::AXES;
use zarrs::array::{Array, ArrayBytes, ArrayMetadata, ArraySubset};
use zarrs::filesystem::FilesystemStore;
use zarrs::metadata::GroupMetadata;
use zarrs::node::{Node, NodeMetadata};

/// A folder that is read.
pub struct Zarr {
    content: Content,
    arrays: HashMap<String, Array<FilesystemStore>>,
}

fn failed(what: &str, why: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {what}: Zarr: {why}"))
}

/// Whether the library found each group and array that lies in the folder of a group: it passes over those that it cannot open.
fn all_are_known(folder: &Path, group: &Node) -> Result<()> {
    let io = |e: std::io::Error, what: &Path| failed(&format!("list '{}'", what.display()), &e);
    for entry in std::fs::read_dir(folder).map_err(|e| io(e, folder))? {
        let path = entry.map_err(|e| io(e, folder))?.path();
        let mut is_node = false;
        if path.is_dir() {
            for metadata in ["zarr.json", ".zarray", ".zgroup"] {
                is_node |= path.join(metadata).try_exists().map_err(|e| io(e, &path))?;
            }
        }
        let name = path.file_name().unwrap_or_default();
        if is_node && !group.children().iter().any(|child| Path::new(child.path().as_str()).file_name() == Some(name)) {
            return Err(failed(&format!("open '{}'", path.display()), &"its metadata could not be read"));
        }
    }
    Ok(())
}

impl Zarr {
    /// Opens a folder, and looks at everything in it. No value is read, but texts.
    ///
    /// # Errors
    /// `NotFound` if it is no folder; `Io` with the library's reason. An array that the library cannot read is left out.
    pub fn open(path: &str) -> Result<Zarr> {
        if !Path::new(path).is_dir() {
            return Err(Error::new(ErrorKind::NotFound, "no such folder"));
        }
        let store = Arc::new(FilesystemStore::new(path).map_err(|e| failed("open the folder", &e))?);
        let root = Node::open(&store, "/").map_err(|e| failed("open the folder", &e))?;
        let mut zarr = Zarr { content: Content::default(), arrays: HashMap::new() };
        zarr.node(Path::new(path), &store, &root)?;
        Ok(zarr)
    }

    fn node(&mut self, path: &Path, store: &Arc<FilesystemStore>, node: &Node) -> Result<()> {
        let name = node.path().as_str().trim_matches('/').to_string();
        match node.metadata() {
            NodeMetadata::Group(group) => {
                let all = match group {
                    GroupMetadata::V3(v3) => &v3.attributes,
                    GroupMetadata::V2(v2) => &v2.attributes,
                };
                let attributes = self.attributes(&name, all, None);
                self.content.groups.push((name, attributes));
                all_are_known(&path.join(node.path().as_str().trim_matches('/')), node)?;
                // The library lists them in any order.
                let mut children: Vec<&Node> = node.children().iter().collect();
                children.sort_unstable_by(|a, b| a.path().as_str().cmp(b.path().as_str()));
                for child in children {
                    self.node(path, store, child)?;
                }
            }
            NodeMetadata::Array(metadata) => {
                match Array::new_with_metadata(store.clone(), node.path().as_str(), metadata.clone()) {
                    Ok(array) => self.array(name.clone(), array, metadata).map_err(|e| e.in_variable(name))?,
                    // What is in it is known; what is said is that the library lacks a type or a codec.
                    Err(e) => self.leave_out(&name, format!("it cannot be read: {e}")),
                }
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, name: &str, why: impl Into<String>) {
        self.content.left_out.push(LeftOut::new(name, why));
    }

    fn attributes(&mut self, of: &str, all: &Map<String, Json>, form: Option<&Form>) -> Vec<Attribute> {
        let element = form.and_then(Form::kind).and_then(element_of);
        let mut made = Vec::new();
        // What the library writes of itself.
        for (key, json) in all.iter().filter(|(key, _)| *key != "_zarrs") {
            let (attribute, remark) = names::attribute_of(key, json, element);
            let name = if of.is_empty() { key.clone() } else { format!("{of}/{key}") };
            if let Value::Other(why) = &attribute.value {
                self.leave_out(&name, format!("the attribute: {why}"));
                continue;
            }
            if let Some(remark) = remark {
                self.leave_out(&name, format!("the attribute: {remark}"));
            }
            made.push(attribute);
        }
        made
    }

    fn array(&mut self, name: String, array: Array<FilesystemStore>, metadata: &ArrayMetadata) -> Result<()> {
        // It prints the names of both versions.
        let kind = array.data_type().to_string();
        let form = names::form_of(kind.split(" / ").next().unwrap_or_default());
        match &form {
            Form::Other(sort) => {
                self.leave_out(&name, format!("no BP file has its type: {sort}"));
                return Ok(());
            }
            Form::Nearest(_, width) => {
                self.leave_out(&name, format!("its real numbers {width}: values become real"));
            }
            _ => {}
        }
        let shape = array.shape().to_vec();
        let mut all = array.attributes().clone();
        let own = all.remove(AXES);
        let axes: Vec<Option<String>> = match (array.dimension_names(), own) {
            (Some(names), _) => names.clone(),
            (None, Some(Json::Array(names))) => names.iter().map(|name| name.as_str().map(str::to_string)).collect(),
            _ => vec![],
        };
        let axes = if axes.len() == shape.len() { axes } else { vec![None; shape.len()] };
        // Version 2 has no other place for it, and xarray takes it so.
        if let ArrayMetadata::V2(v2) = metadata
            && let Ok(fill) = serde_json::to_value(&v2.fill_value)
            && !fill.is_null()
            && matches!(form, Form::Numbers(_) | Form::Nearest(..))
        {
            all.entry(names::FILL).or_insert(fill);
        }
        let attributes = self.attributes(&name, &all, Some(&form));
        let texts = if form == Form::Texts { texts(&array, &shape)? } else { Vec::new() };
        let found = Found { name: name.clone(), shape, form, texts, axes, is_only_an_axis: false, attributes };
        self.content.datasets.push(found);
        self.arrays.insert(name, array);
        Ok(())
    }
}

fn texts(array: &Array<FilesystemStore>, shape: &[u64]) -> Result<Vec<Vec<u8>>> {
    let elements = shape.iter().try_fold(1u64, |all, extent| all.checked_mul(*extent));
    elements.filter(|elements| *elements <= MOST_TEXT / 16).ok_or_else(|| {
        Error::new(ErrorKind::NoMemory, format!("texts of any length, {shape:?}: they are kept in memory"))
    })?;
    let texts: Vec<String> = array.retrieve_array_subset(&array.subset_all()).map_err(|e| failed("read texts", &e))?;
    Ok(texts.into_iter().map(String::into_bytes).collect())
}

impl Source for Zarr {
    fn content(&self) -> &Content {
        &self.content
    }

    fn read(&self, found: &Found, offset: &[u64], stride: &[u64], count: &[u64]) -> Result<Vec<u8>> {
        let none = || Error::new(ErrorKind::NotFound, "no such array");
        let array = self.arrays.get(&found.name).ok_or_else(none)?;
        if count.contains(&0) {
            return Ok(Vec::new());
        }
        let rows = (count.first().copied().unwrap_or(1), stride.first().copied().unwrap_or(1));
        if stride.iter().all(|stride| *stride <= 1) {
            return values(array, &found.form, offset, count);
        }
        // The library reads boxes alone: of every n-th element a row at a time.
        let mut bytes = Vec::new();
        for row in 0..rows.0 {
            let (mut from, mut extents) = (offset.to_vec(), vec![0; count.len()]);
            for d in 0..count.len() {
                extents[d] = (count[d] - 1) * stride[d].max(1) + 1;
            }
            (from[0], extents[0]) = (offset[0] + row * rows.1.max(1), 1);
            let all = values(array, &found.form, &from, &extents)?;
            pick(&all, found.form.size() as usize, &extents[1..], &stride[1..], &mut bytes);
        }
        Ok(bytes)
    }
}

/// Every `stride`-th element along each axis.
fn pick(all: &[u8], size: usize, extents: &[u64], stride: &[u64], out: &mut Vec<u8>) {
    match (extents, stride) {
        ([extent, inner @ ..], [step, rest @ ..]) => {
            let length = inner.iter().product::<u64>() as usize * size;
            for at in (0..*extent as usize).step_by((*step).max(1) as usize) {
                pick(&all[at * length..(at + 1) * length], size, inner, rest, out);
            }
        }
        _ => out.extend_from_slice(&all[..size]),
    }
}

/// The elements of a box.
fn values(array: &Array<FilesystemStore>, form: &Form, offset: &[u64], count: &[u64]) -> Result<Vec<u8>> {
    let subset = ArraySubset::new_with_start_shape(offset.to_vec(), count.to_vec()).map_err(|e| failed("read", &e))?;
    if let Form::Nearest(..) = form {
        let halves: Vec<half::f16> = array.retrieve_array_subset(&subset).map_err(|e| failed("read values", &e))?;
        return Ok(halves.iter().flat_map(|half| half.to_f32().to_ne_bytes()).collect());
    }
    let bytes: ArrayBytes<'static> = array.retrieve_array_subset(&subset).map_err(|e| failed("read values", &e))?;
    let bytes = bytes.into_fixed().map_err(|e| failed("read values", &e))?;
    Ok(bytes.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nth_element_is_picked_along_each_axis() {
        let all: Vec<u8> = (0..15).collect();
        let mut out = Vec::new();
        pick(&all, 1, &[3, 5], &[2, 3], &mut out);
        assert_eq!(out, [0, 3, 10, 13]);
        let mut out = Vec::new();
        pick(&[7, 8], 2, &[], &[], &mut out);
        assert_eq!(out, [7, 8]);
    }
}
