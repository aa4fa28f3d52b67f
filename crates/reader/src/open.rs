//! The reader: opens a file by its last bytes, answers from the index, and reads values from the process groups.
//!
//! | part of the file | read |
//! |---|---|
//! | footer, extension section with the directory of entries | at open |
//! | step records behind the last full index | at open |
//! | the index entry of a variable or attribute | at the first request for it; cached, up to 64 MiB in total |
//! | the process group index | at the first request for an array of several dimensions, for the dimension order of its group |
//! | the process group index, and the trailer of a process group in a subfile | before the first payload of the group ([`Reads`]) |
//! | payloads | by `read` |
//!
//! [`Reader::catch_up`] adds the steps that a writer has appended since.
//!
//! Files of other libraries have no directory: their process group index and the head of every entry are read at open.
//!
//! | room | what it owns |
//! |------|--------------|
//! | `names` | names of variables and attributes, and where their index entries lie |
//! | `status` | the status of a file, from its index and records |
//! | `lookup` | a variable or attribute by its name; the cache of index entries |
//! | `blocks` | the blocks of a variable in a step, and what is known without payloads: shapes, values of scalars, summaries |
//! | `block_records` | facts about blocks that their index entries lack |
//! | `groups` | the process group index |
//! | `origin` | comparison of process groups with the index, before values are read |
//! | `read` | selections, planned together and read |
//! | `series` | one element of many steps, read again and again |
//! | `grow` | steps that a writer has appended since the open |

use crate::object::{self, Before, Object};
use crate::precision::Digits;
use crate::{Block, Element, Head, Kind, Status};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_bp::extension::{Records, Tag};
use thalweg_bp::index::{self, ProcessGroupEntry};
use thalweg_bp::live::Live;
use thalweg_bp::scan;
use thalweg_bp::source::{self, Source};
use thalweg_bp::wire::Cursor;
use thalweg_layout::Layout;
use thalweg_types::mutex::Mutex;
use thalweg_types::{BoundingBox, ByteOrder, ElementType, Error, ErrorKind, Result, Selection};

mod block_records;
mod blocks;
mod groups;
mod grow;
mod lookup;
mod names;
mod origin;
mod read;
mod series;
mod status;

use block_records::BlockRecords;
use groups::{Fortran, Groups};
use lookup::{CachedSets, IndexedVariable};
use names::Names;
pub use origin::Reads;
use origin::{FirstReads, GroupRead};
pub use read::Batch;
use status::status_of;

/// An open file, as it was when it was opened. Clones share it; any thread may use them.
#[derive(Clone)]
pub struct Reader(Arc<Inner>);

struct Inner {
    layout: Arc<dyn Layout>,
    path: String,
    /// The data file: subfiles take its name; without subfiles it contains the payloads.
    data_path: String,
    file: Object,
    live: Live,
    order: ByteOrder,
    status: Status,
    variables: Names,
    attributes: Names,
    /// Objects with payloads, opened on demand; several threads open different objects concurrently.
    objects: Mutex<HashMap<Option<u32>, Slot>>,
    cached_sets: Mutex<CachedSets>,
    fortran: OnceLock<Fortran>,
    /// Dimension order set by the program; overrides the file's.
    assumed: OnceLock<bool>,
    groups: OnceLock<Arc<Groups>>,
    block_records: OnceLock<BlockRecords>,
    /// Names of variables by id and group.
    ids: OnceLock<HashMap<u32, HashMap<String, String>>>,
    /// Shortest the data file of an index file may be.
    data_length: u64,
    reads: Reads,
    digits: Digits,
    /// Blocks that were read and have no checksum.
    without_checksum: Arc<AtomicU64>,
    series: Mutex<series::Series>,
}

/// An object, once it is open.
type Slot = Arc<Mutex<Option<Object>>>;

impl Reader {
    /// Opens a file, metadata file or index file.
    ///
    /// An output that was cut off, or is in flight, is not visible; [`Status::torn_bytes`] is its size.
    ///
    /// # Errors
    /// `NotFound`; `Torn` if no index and no step record of the file is valid: see [`crate::recover()`]; the failure of a read, instead
    /// of a reader with fewer steps.
    /// # Cost
    /// Files of Thalweg that were closed for good: two reads, and memory proportional to the number of names.
    pub fn open(layout: Arc<dyn Layout>, path: &str) -> Result<Reader> {
        let mut file = Object::open_at_end(&*layout, path)?;
        loop {
            match Reader::open_up_to(layout.clone(), path, file.clone(), file.length()) {
                // A writer has just cut off an interrupted output: the last valid end is before it. Each round finds a shorter
                // file.
                Err(_) if file.was_cut() => file = file.now()?,
                outcome => return outcome,
            }
        }
    }

    /// As [`Reader::open`], where the last end is known to lie at byte `end` or before.
    pub(crate) fn open_up_to(layout: Arc<dyn Layout>, path: &str, file: Object, end: u64) -> Result<Reader> {
        let mut live = Live::find(&Before { source: &file, end }).map_err(|e| e.in_object(path))?;
        live.torn = file.length() - live.end;
        let order = live.base.as_ref().map_or(ByteOrder::NATIVE, |b| b.footer.order);
        let variables = Names::of(&live, false, &live.steps.variables);
        let attributes = Names::of(&live, true, &live.steps.attributes);
        let mut data = (path.to_string(), 0);
        let mut data_file = None;
        if let Some(records) = live.base.as_ref().and_then(|b| b.records())
            && let Some((length, name)) = crate::index_file::data_file(records.get(Tag::DataFile), order)
        {
            let folder = path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
            data = (format!("{folder}{name}"), length);
            data_file = Some(name);
        }
        let status = status_of(&file, &live, order, &variables, &attributes, data_file);
        Ok(Reader(Arc::new(Inner {
            layout,
            path: path.to_string(),
            data_path: data.0,
            data_length: data.1,
            file,
            live,
            order,
            status,
            variables,
            attributes,
            objects: Mutex::default(),
            cached_sets: Mutex::default(),
            fortran: OnceLock::new(),
            assumed: OnceLock::new(),
            groups: OnceLock::new(),
            block_records: OnceLock::new(),
            ids: OnceLock::new(),
            reads: Reads::default(),
            digits: Digits::ALL,
            without_checksum: Arc::default(),
            series: Mutex::default(),
        })))
    }

    /// The path it was opened by.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// The step, from 0, of a time index of the file. Files of ours count time from 1; later files of a process of
    /// ADIOS 1.x begin with another time index, which is step 0.
    pub fn step_of_time(&self, time_index: u32) -> u64 {
        self.0.live.step_of(time_index)
    }

    /// Summary of the file.
    pub fn status(&self) -> &Status {
        &self.0.status
    }

    /// Every variable's head, in the order of the file.
    pub fn variables(&self) -> &[Head] {
        &self.0.variables.heads
    }

    /// Every attribute's head, in the order of the file; `blocks` is how often it was written.
    pub fn attributes(&self) -> &[Head] {
        &self.0.attributes.heads
    }

    /// The order of bytes inside the file's numbers.
    pub fn byte_order(&self) -> ByteOrder {
        self.0.order
    }

    /// The layout through which it was opened.
    pub fn layout(&self) -> &Arc<dyn Layout> {
        &self.0.layout
    }

    /// The path of the file that holds payloads.
    ///
    /// - `subfile`: as in [`Block::subfile`].
    pub fn data_path(&self, subfile: Option<u32>) -> String {
        match subfile {
            Some(number) => object::subfile(&self.0.data_path, number),
            None => self.0.data_path.clone(),
        }
    }

    /// Length of the file that holds payloads, in bytes, as it was when it was opened.
    ///
    /// - `subfile`: as in [`Block::subfile`].
    ///
    /// # Errors
    /// `NotFound` if the file is missing; errors of opening it.
    /// # Cost
    /// The first call for a file opens it.
    pub fn data_length(&self, subfile: Option<u32>) -> Result<u64> {
        Ok(self.object(subfile)?.length())
    }

    /// Whether the file that holds payloads reaches up to byte `end`, by now: that of a file that is followed grows after it was opened.
    ///
    /// - `subfile`: as in [`Block::subfile`].
    ///
    /// # Errors
    /// As [`Reader::data_length`].
    /// # Cost
    /// A request for the length, if it did not reach so far when it was opened.
    pub fn data_reaches(&self, subfile: Option<u32>, end: u64) -> Result<bool> {
        Ok(self.object(subfile)?.reaching(end)?.length() >= end)
    }

    /// The object that holds payloads.
    fn object(&self, subfile: Option<u32>) -> Result<Object> {
        let inner = &*self.0;
        if subfile.is_none() && inner.data_path == inner.path {
            return Ok(inner.file.clone());
        }
        let slot = {
            let mut objects = inner.objects.lock();
            objects.entry(subfile).or_default().clone()
        };
        let mut slot = slot.lock();
        if let Some(object) = &*slot {
            return Ok(object.clone());
        }
        let path = self.data_path(subfile);
        let object = Object::open(&*inner.layout, &path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => Error::new(ErrorKind::NotFound, "the data file is missing; only its index exists")
                .in_object(path.clone())
                .caused_by(e),
            _ => e,
        })?;
        if subfile.is_none() && object.length() < inner.data_length {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("{} bytes, its index was made when it had {}", object.length(), inner.data_length),
            )
            .in_object(path));
        }
        Ok(slot.insert(object).clone())
    }
}
