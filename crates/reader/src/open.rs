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

use crate::block::{self, How};
use crate::object::{self, Before, Object};
use crate::sets::Sets;
use crate::summary::Joining;
use crate::variable::full_name;
use crate::{Attribute, Block, Element, Head, Kind, Status, Summary, Variable};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_bp::extension::{Records, Tag};
use thalweg_bp::index::{self, ProcessGroupEntry};
use thalweg_bp::live::Live;
use thalweg_bp::scan;
use thalweg_bp::source::{self, Source};
use thalweg_bp::statistics::{Level, Statistics};
use thalweg_bp::wire::Cursor;
use thalweg_layout::Layout;
use thalweg_types::mutex::Mutex;
use thalweg_types::{AttributeValue, BoundingBox, ByteOrder, ElementType, Error, ErrorKind, Result, Selection, Value};

mod block_records;
mod groups;
mod grow;
mod names;
mod origin;
mod read;
mod status;

use block_records::BlockRecords;
use groups::{Fortran, Groups};
use names::{Names, not_found};
pub use origin::Reads;
use origin::{FirstReads, GroupRead};
pub use read::Batch;
use status::{has_subfiles, status_of};

/// Capacity of the cache of index entries, in bytes.
const ENTRY_CACHE: usize = 64 << 20;

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
    /// Blocks that were read and have no checksum.
    without_checksum: Arc<AtomicU64>,
}

#[derive(Clone, Default)]
struct CachedSets {
    sets: HashMap<(bool, usize), Arc<Sets>>,
    /// Oldest first.
    order: VecDeque<(bool, usize)>,
    weight: usize,
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
            without_checksum: Arc::default(),
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

    /// A variable by its full name (a slash in front may be left out).
    ///
    /// # Errors
    /// `NotFound` with the nearest name; `Unsupported` for a type that BP version 3 does not have; `Corrupt` where
    /// its index entry is damaged.
    /// # Cost
    /// Reads the index entry of this variable alone.
    pub fn variable(&self, name: &str) -> Result<Variable> {
        let v = self.look_up(name)?;
        let steps = v.sets.steps();
        let shape_changes = match v.kind {
            Kind::Global => v.sets.global_changes,
            Kind::Local => v.sets.local_changes,
            Kind::Scalar | Kind::LocalValue => false,
        };
        let shape = match steps.first() {
            Some(first) if v.kind != Kind::Scalar => self.shape(name, *first)?,
            _ => Vec::new(),
        };
        let head = &self.0.variables.heads[v.number];
        Ok(Variable {
            name: head.name.clone(),
            path: head.path.clone(),
            short_name: head.short_name.clone(),
            group: head.group.clone(),
            element: v.original,
            kind: v.kind,
            steps,
            shape,
            shape_changes,
            blocks: v.sets.len() as u64,
            transform: v.transform.clone(),
        })
    }

    /// The last value of an attribute, by its full name (a slash in front may be left out).
    ///
    /// # Errors
    /// As [`Reader::variable`].
    pub fn attribute(&self, name: &str) -> Result<Attribute> {
        let inner = &*self.0;
        let number = inner.attributes.find(name).ok_or_else(|| not_found("attribute", name, &inner.attributes))?;
        let head = &inner.attributes.heads[number];
        let sets = self.sets(true, number).map_err(|e| e.in_variable(name))?;
        let bare = || {
            Error::new(ErrorKind::Corrupt, "an attribute without a value")
                .in_variable(name)
                .in_object(inner.path.clone())
        };
        let last = sets.len().checked_sub(1).ok_or_else(bare)?;
        let mut value = sets.get(last)?.value.ok_or_else(bare)?;
        let mut variable = None;
        if let AttributeValue::Variable(id) = value {
            let named = self.variable_of_id(&head.group, id);
            let named = named.ok_or_else(|| {
                Error::new(
                    ErrorKind::NotFound,
                    format!("it refers to variable {id} of its group, which does not exist"),
                )
                .in_variable(name)
                .in_object(inner.path.clone())
            })?;
            let v = self.look_up(&named)?;
            let step = v.sets.len().checked_sub(1).map(|last| v.sets.step(last)).ok_or_else(bare)?;
            value = AttributeValue::One(self.value(&named, step)?);
            variable = Some(named);
        }
        // ADIOS 1.13 stores an array of one text without dimensions; it is an array all the same.
        if let (AttributeValue::One(one), Some(ElementType::StringArray)) = (&value, head.element) {
            value = AttributeValue::Many(ElementType::String, vec![one.clone()]);
        }
        let element = match &value {
            AttributeValue::One(v) => v.element_type(),
            AttributeValue::Many(ElementType::String, _) => ElementType::StringArray,
            AttributeValue::Many(t, _) => *t,
            AttributeValue::Variable(_) => return Err(bare()),
        };
        Ok(Attribute {
            name: head.name.clone(),
            path: head.path.clone(),
            short_name: head.short_name.clone(),
            group: head.group.clone(),
            element,
            value,
            variable,
            internal: head.name.starts_with("/__adios__"),
        })
    }

    /// The shape at a step, slowest first, in elements: of the global array, or of block 0 of local arrays; empty for
    /// scalars. Where blocks disagree, the last one's.
    ///
    /// # Errors
    /// `NotFound` where the variable was not written in that step; errors of [`Reader::blocks`].
    pub fn shape(&self, name: &str, step: u64) -> Result<Vec<u64>> {
        let v = self.look_up(name)?;
        let sets = v.sets.of_steps(step..step.saturating_add(1));
        if sets.is_empty() {
            return Err(self.no_such_step(name, step, &v));
        }
        if v.kind == Kind::Global {
            let block = self.block(&v, sets.end - 1, sets.start)?;
            if !block.shape.contains(&thalweg_bp::shape::JOINED) {
                return Ok(block.shape);
            }
        }
        let blocks = self.blocks_of(&v, sets)?;
        Ok(match v.kind {
            Kind::Local => blocks.into_iter().next().map(|b| b.count),
            _ => blocks.into_iter().last().map(|b| b.shape),
        }
        .unwrap_or_default())
    }

    /// The blocks of a step in the order they were written; none where the variable was not written in it.
    ///
    /// # Errors
    /// As [`Reader::variable`]; `Corrupt` where a block's characteristics are damaged.
    pub fn blocks(&self, name: &str, step: u64) -> Result<Vec<Block>> {
        let v = self.look_up(name)?;
        self.blocks_of(&v, v.sets.of_steps(step..step.saturating_add(1)))
    }

    /// One block of a step; `None` if the step has no more than `number`. The others are decoded only if the block's offset depends
    /// on them.
    ///
    /// # Errors
    /// As [`Reader::blocks`].
    pub fn block_of_step(&self, name: &str, step: u64, number: u64) -> Result<Option<Block>> {
        let v = self.look_up(name)?;
        let sets = v.sets.of_steps(step..step.saturating_add(1));
        if number >= sets.len() as u64 {
            return Ok(None);
        }
        let first = sets.start;
        let block = self.block(&v, first + number as usize, first)?;
        if !block::needs_the_others(&block, v.kind) {
            return Ok(Some(block));
        }
        Ok(Some(self.blocks_of(&v, sets)?.swap_remove(number as usize)))
    }

    /// Number of blocks of a variable in a step; 0 if it was not written. No block is decoded.
    ///
    /// # Errors
    /// As [`Reader::variable`].
    pub fn block_count(&self, name: &str, step: u64) -> Result<u64> {
        Ok(self.look_up(name)?.sets.of_steps(step..step.saturating_add(1)).len() as u64)
    }

    /// The last step in which a variable was written; `None` for one without blocks.
    ///
    /// # Errors
    /// As [`Reader::variable`].
    pub fn last_step_of(&self, name: &str) -> Result<Option<u64>> {
        let sets = self.look_up(name)?.sets;
        Ok(sets.len().checked_sub(1).map(|last| sets.step(last)))
    }

    /// Hands every block of these steps to `each`, step by step.
    ///
    /// # Errors
    /// As [`Reader::blocks`]; the first failure of `each`, which is handed no further block.
    /// # Cost
    /// Memory for one block at a time, or for those of one step where they are joined.
    pub fn for_each_block(
        &self,
        name: &str,
        steps: Range<u64>,
        each: &mut dyn FnMut(Block) -> Result<()>,
    ) -> Result<()> {
        let v = self.look_up(name)?;
        let mut sets = v.sets.of_steps(steps);
        while sets.start < sets.end {
            let step = v.sets.step(sets.start);
            let of_step = v.sets.of_steps(step..step.saturating_add(1));
            sets.start = of_step.end;
            let first = self.block(&v, of_step.start, of_step.start)?;
            if block::needs_the_others(&first, v.kind) {
                self.blocks_of(&v, of_step)?.into_iter().try_for_each(&mut *each)?;
                continue;
            }
            // One at a time: a step may have a hundred thousand.
            let start = of_step.start;
            each(first)?;
            for number in start + 1..of_step.end {
                each(self.block(&v, number, start)?)?;
            }
        }
        Ok(())
    }

    /// Characteristics joined over these steps (`0..u64::MAX` for all). No payload is read.
    ///
    /// # Errors
    /// As [`Reader::blocks`].
    pub fn summary(&self, name: &str, steps: Range<u64>) -> Result<Summary> {
        let v = self.look_up(name)?;
        let mut all = Joining::new(v.original);
        self.for_each_block(name, steps, &mut |block| {
            all.add(&block);
            Ok(())
        })?;
        Ok(all.finish())
    }

    /// The value of a scalar or text at a step: the first block's.
    ///
    /// # Errors
    /// `NotFound` where it was not written in that step; `InvalidArgument` for arrays.
    pub fn value(&self, name: &str, step: u64) -> Result<Value> {
        let v = self.look_up(name)?;
        let sets = v.sets.of_steps(step..step.saturating_add(1));
        if sets.is_empty() {
            return Err(self.no_such_step(name, step, &v));
        }
        if v.kind != Kind::Scalar {
            return Err(self.fail(ErrorKind::InvalidArgument, "an array, not one value", name).at_step(step));
        }
        let block = self.block(&v, sets.start, sets.start)?;
        self.value_of(&v, &block).map_err(|e| e.in_variable(name).at_step(step))
    }

    /// The steps in which a variable was written, rising, and how many blocks each has.
    ///
    /// # Errors
    /// As [`Reader::variable`].
    pub fn block_counts(&self, name: &str) -> Result<Vec<(u64, u64)>> {
        let v = self.look_up(name)?;
        let mut counts: Vec<(u64, u64)> = Vec::new();
        for step in (0..v.sets.len()).map(|i| v.sets.step(i)) {
            match counts.last_mut() {
                Some((last, n)) if *last == step => *n += 1,
                _ => counts.push((step, 1)),
            }
        }
        Ok(counts)
    }

    /// Whether a variable was written in a step.
    ///
    /// # Errors
    /// As [`Reader::variable`].
    pub fn is_written(&self, name: &str, step: u64) -> Result<bool> {
        Ok(!self.look_up(name)?.sets.of_steps(step..step.saturating_add(1)).is_empty())
    }
}

/// A variable and its characteristics.
struct Known {
    number: usize,
    sets: Arc<Sets>,
    how: How,
    /// Type before any transform.
    original: ElementType,
    kind: Kind,
    transform: Option<String>,
}

impl Reader {
    fn fail(&self, kind: ErrorKind, what: impl Into<String>, name: &str) -> Error {
        self.name_it(Error::new(kind, what), name)
    }

    fn name_it(&self, e: Error, name: &str) -> Error {
        e.in_variable(name).in_object(self.0.path.clone())
    }

    fn no_such_step(&self, name: &str, step: u64, v: &Known) -> Error {
        let steps = self.0.status.steps;
        let what = if step >= steps {
            format!("the file has {steps} steps, counted from 0")
        } else {
            format!("not written in this step; it has {} blocks in others", v.sets.len())
        };
        self.fail(ErrorKind::NotFound, what, name).at_step(step)
    }

    /// The sets of a variable or attribute, read or cached.
    fn sets(&self, attributes: bool, number: usize) -> Result<Arc<Sets>> {
        let inner = &*self.0;
        let key = (attributes, number);
        {
            let cached = inner.cached_sets.lock();
            if let Some(sets) = cached.sets.get(&key) {
                return Ok(sets.clone());
            }
        }
        let (names, table) = match attributes {
            true => (&inner.attributes, &inner.live.steps.attributes),
            false => (&inner.variables, &inner.live.steps.variables),
        };
        let (base, step) = names.places[number];
        let base = base.zip(inner.live.base.as_ref()).map(|(i, b)| &b.entries[i]);
        let sets =
            Sets::load(&inner.file, base, inner.order, step.map(|i| &table.entries()[i]), inner.live.first_time())
                .map_err(|e| self.name_it(e, &names.heads[number].name))?;
        let sets = Arc::new(sets);
        let mut cached = inner.cached_sets.lock();
        // Another thread may have read them meanwhile.
        if cached.sets.insert(key, sets.clone()).is_none() {
            cached.order.push_back(key);
            cached.weight += sets.weight();
        }
        while cached.weight > ENTRY_CACHE && cached.order.len() > 1 {
            let Some(oldest) = cached.order.pop_front().and_then(|k| cached.sets.remove(&k)) else { break };
            cached.weight -= oldest.weight();
        }
        Ok(sets)
    }

    fn look_up(&self, name: &str) -> Result<Known> {
        let inner = &*self.0;
        let number = inner
            .variables
            .find(name)
            .ok_or_else(|| not_found("variable", name, &inner.variables).in_object(inner.path.clone()))?;
        let sets = self.sets(false, number)?;
        let unknown = || self.fail(ErrorKind::Unsupported, "its type is none of BP version 3", name);
        let element = sets.element.ok_or_else(unknown)?;
        let facts = sets.facts()?;
        let group = &inner.variables.heads[number].group;
        let fortran = facts.is_some_and(|f| f.rank > 1) && self.fortran(group)?;
        let kind = facts.map_or(Kind::Scalar, |f| f.kind);
        Ok(Known {
            number,
            how: How { element, fortran, subfiles: inner.status.subfiles, kind },
            original: facts.map_or(element, |f| f.original),
            kind,
            transform: facts.and_then(|f| f.transform.clone()),
            sets,
        })
    }

    /// Block of set `number`, in a step whose sets start at `first`; dimensions that are joined are not resolved.
    fn block(&self, v: &Known, number: usize, first: usize) -> Result<Block> {
        let set = v.sets.get(number)?;
        let key = (set.file_index, set.payload_offset);
        let mut block = v.how.block(set, v.sets.step(number), (number - first) as u64)?;
        self.add_records(v.original, key, &mut block);
        Ok(block)
    }

    fn blocks_of(&self, v: &Known, sets: Range<usize>) -> Result<Vec<Block>> {
        let first = sets.start;
        let mut blocks = sets.map(|i| self.block(v, i, first)).collect::<Result<Vec<_>>>()?;
        block::resolve(&mut blocks, v.kind)?;
        Ok(blocks)
    }

    /// Adds the extension section's records of a block.
    fn add_records(&self, element: ElementType, key: (u32, u64), block: &mut Block) {
        if !element.is_complex() && block.statistics.is_none() {
            return;
        }
        let records = self.0.block_records.get_or_init(|| BlockRecords::of(&self.0.live, self.0.order));
        if let (true, Some((finite, parts))) = (element.is_complex(), records.complex.get(&key)) {
            let zero = match element {
                ElementType::Complex => Value::Complex([0.0; 2]),
                _ => Value::DoubleComplex([0.0; 2]),
            };
            block.statistics = Some(Statistics {
                level: Level::Full,
                min: zero.clone(),
                max: zero,
                finite: *finite,
                sum: 0.0,
                sum_of_squares: 0.0,
                exact_sum: None,
                complex: Some(*parts),
            });
        }
        if let Some(s) = &mut block.statistics {
            if let Some(sum) = records.sums.get(&key) {
                s.exact_sum = Some(*sum);
            }
            if let Some(finite) = records.counts.get(&key) {
                s.finite = *finite;
            }
        }
    }

    /// The full name of the variable with this id in a group.
    fn variable_of_id(&self, group: &str, id: u32) -> Option<String> {
        let inner = &*self.0;
        let ids = inner.ids.get_or_init(|| {
            let base = inner.live.base.iter().flat_map(|b| &b.entries).filter(|e| !e.is_attribute);
            let base = base.map(|e| (e.head.id, &e.head.group, &e.head.path, &e.head.name));
            let steps = inner.live.steps.variables.entries().iter().map(|e| (e.id, &e.group, &e.path, &e.name));
            let mut ids: HashMap<u32, HashMap<String, String>> = HashMap::new();
            for (id, group, path, name) in base.chain(steps) {
                ids.entry(id).or_default().entry(group.clone()).or_insert_with(|| full_name(path, name));
            }
            ids
        });
        ids.get(&id)?.get(group).cloned()
    }

    /// The value of a scalar's block: from the index, or from the data where the index has none.
    fn value_of(&self, v: &Known, block: &Block) -> Result<Value> {
        if let Some(value) = &block.value {
            return Ok(value.clone());
        }
        if v.how.element.size() == 0 {
            return Err(Error::new(ErrorKind::Unsupported, "a text without a value in the index")
                .in_object(self.0.path.clone())
                .at_byte(block.record_offset));
        }
        let first_reads = self.compare(vec![(0, GroupRead::of(block))]).map_err(|(e, _)| e)?;
        let object =
            self.object_with(block.subfile, &first_reads)?.reaching(block.payload.end().unwrap_or(u64::MAX))?;
        let bytes = source::bytes(&object, block.payload.offset, block.payload.length, "value")
            .map_err(|e| e.in_object(&*object.path))?;
        if self.0.reads == Reads::Checked {
            self.check_sum(&GroupRead::of(block), &bytes).map_err(|e| e.in_object(&*object.path))?;
        }
        Value::from_bytes(v.how.element, &bytes, self.0.order)
            .ok_or_else(|| Error::new(ErrorKind::Corrupt, "a value of no size"))
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
        let path = match subfile {
            Some(k) => object::subfile(&inner.data_path, k),
            None => inner.data_path.clone(),
        };
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
