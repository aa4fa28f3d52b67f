//! The index alone, as a small file: a BP file whose data lies elsewhere.
//!
//! A full index from byte 0 with an additional extension record: name and length of the data file. Queries of the index are answered
//! from this file; values are read from the data file if it lies in the same folder. Offsets are those of the data file.

use crate::object::Object;
use thalweg_bp::extension::Tag;
use thalweg_bp::live::Live;
use thalweg_bp::source::Source;
use thalweg_bp::wire::{Cursor, Put};
use thalweg_layout::Layout;
use thalweg_types::{ByteOrder, Result};

/// The bytes of an index file of the file at `path`.
///
/// # Errors
/// `Torn` if the file has no valid index; `Unsupported` for files of the other byte order.
pub fn index_only(layout: &dyn Layout, path: &str) -> Result<Vec<u8>> {
    let file = Object::open(layout, path)?;
    let live = Live::find(&file).map_err(|e| e.in_object(path))?;
    let mut index = live.load(&file).map_err(|e| e.in_object(path))?;
    let subfiles = match &live.base {
        Some(base) => base.footer.subfiles,
        None => !crate::object::subfiles(layout, path)?.is_empty(),
    };
    if index.records.get(Tag::DataFile).is_empty() {
        let list = index.records.list(Tag::DataFile);
        list.put_u64(if subfiles { 0 } else { file.length() });
        list.put_str16(path.rsplit('/').next().unwrap_or(path).as_bytes());
    }
    Ok(index.encode(0, subfiles, live.finished())?.to_bytes())
}

/// The record of an index file: length and name of the data file.
pub(crate) fn data_file(record: &[u8], order: ByteOrder) -> Option<(u64, String)> {
    let mut c = Cursor::new(record, order, 0);
    let length = c.u64("data file").ok()?;
    let name = c.name("data file").ok()?;
    // Only a name in the same folder is accepted.
    (!name.is_empty() && !name.contains('/') && name != "..").then_some((length, name))
}
