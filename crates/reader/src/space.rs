//! The space of a file by kind: values, framing, holes, index, dead bytes.
//!
//! | kind | bytes |
//! |---|---|
//! | values | payloads of blocks |
//! | framing | the rest of process groups: heads, attributes, trailers |
//! | holes | between process groups that begin at stripe boundaries; not written, and no space in sparse files |
//! | index | the index and the step records that readers use |
//! | dead | replaced indexes, outputs that were cut off, late copies of process groups, bytes that a scan does not recognize |

use crate::object::{self, Before, Object};
use crate::verify::index_extents;
use thalweg_bp::footer::FOOTER;
use thalweg_bp::hole;
use thalweg_bp::live::{Base, Live};
use thalweg_bp::scan;
use thalweg_bp::source::{self, Source};
use thalweg_layout::Layout;
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

/// Bytes by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bytes {
    /// Payloads.
    pub values: u64,
    /// The rest of process groups.
    pub framing: u64,
    /// Between groups at stripe boundaries.
    pub holes: u64,
    /// Indexes and step records that readers use.
    pub index: u64,
    /// Everything else.
    pub dead: u64,
}

impl Bytes {
    /// All of them: the length of the files.
    pub fn all(&self) -> u64 {
        self.values + self.framing + self.holes + self.index + self.dead
    }

    fn add(&mut self, other: Bytes) {
        self.values += other.values;
        self.framing += other.framing;
        self.holes += other.holes;
        self.index += other.index;
        self.dead += other.dead;
    }
}

/// One file of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSpace {
    /// Its path.
    pub object: String,
    /// Process groups of closed steps in it.
    pub process_groups: u64,
    /// How many holes it has.
    pub holes: u64,
    /// Its bytes by kind.
    pub bytes: Bytes,
}

/// The space of a file and its subfiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// Steps.
    pub steps: u64,
    /// The file itself first, then its subfiles by number.
    pub parts: Vec<FileSpace>,
    /// Whether process groups were distinguished; not in files of adios2, where all bytes but the index count as dead.
    pub groups_known: bool,
}

impl Space {
    /// Of all parts together.
    pub fn bytes(&self) -> Bytes {
        let mut all = Bytes::default();
        self.parts.iter().for_each(|part| all.add(part.bytes));
        all
    }
}

/// Measures the space of a file and its subfiles by kind.
///
/// # Errors
/// `NotFound`; `Torn` if the file has no valid index; `Unsupported` for an index file, which holds no data.
/// # Cost
/// A scan: reads everything but payloads and holes.
pub fn space(layout: &dyn Layout, path: &str) -> Result<Space> {
    let file = Object::open(layout, path)?;
    let live = Live::find(&file).map_err(|e| e.in_object(path))?;
    let base = live.base.as_ref();
    if base.and_then(|b| b.records()).is_some_and(|r| !r.get(thalweg_bp::extension::Tag::DataFile).is_empty()) {
        let what = "an index file contains no data: give the file that it was made from";
        return Err(Error::new(ErrorKind::Unsupported, what).in_object(path));
    }
    let order = base.map_or(ByteOrder::NATIVE, |b| b.footer.order);
    let subfiles = match base {
        Some(base) => base.footer.subfiles,
        None => !object::subfiles(layout, path)?.is_empty(),
    };
    let last_time = live.last_time();
    let index = index_extents(&live);
    let mut groups_known = true;
    if let Some(base) = base.filter(|b| b.extension.is_none()) {
        let mut tag = [0; 11];
        source::fill(&file, base.end - FOOTER, &mut tag)?;
        groups_known = !tag.starts_with(b"ADIOS-BP v2");
    }
    let looked_at = |object: &Object, end: u64| match groups_known {
        true => part(object, end, last_time, order),
        false => {
            Ok(FileSpace { object: object.path.to_string(), process_groups: 0, holes: 0, bytes: Bytes::default() })
        }
    };
    let finish = |mut part: FileSpace, object: &Object, index: u64| {
        part.bytes.index = index;
        part.bytes.dead = object.length().saturating_sub(part.bytes.all());
        part
    };
    let own_index = index.iter().map(|e| e.length).sum();
    let data_end = match base {
        _ if subfiles => 0,
        Some(base) if base.extension.is_none() => base.footer.process_groups,
        _ => live.end,
    };
    let mut parts = vec![finish(looked_at(&file, data_end)?, &file, own_index)];
    for k in if subfiles { object::subfiles(layout, path)? } else { Vec::new() } {
        let object = Object::open(layout, &object::subfile(path, k))?;
        // The subfiles of ADIOS 1.13 end with an index of their own, which readers don't use.
        let own = source::unless_damaged(Base::ending_at(&object, object.length()))?.flatten();
        let end =
            own.map_or(object.length(), |b| b.extension.as_ref().map_or(b.footer.process_groups, |e| e.extent.offset));
        parts.push(finish(looked_at(&object, end)?, &object, 0));
    }
    Ok(Space { steps: u64::from(live.step_count()), parts, groups_known })
}

/// The part that a scan of the first `end` bytes finds; `dead` are the remaining bytes.
fn part(object: &Object, end: u64, last_time: u32, order: ByteOrder) -> Result<FileSpace> {
    let scan = scan::scan(&Before { source: object, end }, order).map_err(|e| e.in_object(&*object.path))?;
    let mut part = FileSpace { object: object.path.to_string(), process_groups: 0, holes: 0, bytes: Bytes::default() };
    for group in scan.groups.iter().filter(|g| g.header.time_index <= last_time) {
        let values: u64 = group.variables.iter().map(|(_, v)| v.payload.length).sum();
        let values = values.min(group.extent.length);
        part.process_groups += 1;
        part.bytes.values += values;
        part.bytes.framing += group.extent.length - values;
    }
    for Extent { offset, length } in scan.dead {
        let record = source::unless_damaged(source::array(object, offset))?;
        if record.is_some_and(|r| hole::length(&r, offset, order).is_some() && !hole::is_dead(&r, order)) {
            part.holes += 1;
            part.bytes.holes += length;
        }
    }
    Ok(part)
}
