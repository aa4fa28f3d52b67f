//! Reading values: the selections of a call are planned together and read.

use super::*;
use crate::boxes::Boxes;
use crate::decode;
use crate::fetch::{self, Order};
use crate::plan::{self, Lattice, Limits, Piece, Plan, Stored, Target};
use thalweg_bp::characteristic::Transform;
use thalweg_types::{Extent, MemorySelection};

/// A planned read.
struct Job {
    name: String,
    plan: Plan,
    /// Bytes of the caller's memory.
    bytes: u64,
    element: ElementType,
    /// Bytes between two indices of the slowest dimension in memory.
    pitch: u64,
    /// Values of scalars, which come from the index; then nothing is read.
    values: Vec<u8>,
    /// Blocks that must be decoded, or whose checksums are compared: [`Stored::coded`] contains their numbers.
    coded: Vec<Coded>,
    /// Reads from process groups that were not compared with the index yet.
    unverified: Vec<GroupRead>,
}

/// A block that is read as a whole.
struct Coded {
    file: Option<u32>,
    payload: Extent,
    /// Position of its checksum.
    place: GroupRead,
    /// Its transform.
    transform: Option<Transform>,
}

/// Zeros, if memory for them is available; refused for a sparse selection that needs far more memory than its data.
fn zeros<T: Element>(n: u64, filled: u64) -> Result<Vec<T>> {
    const MUCH: u64 = 64 << 20;
    let refuse = || {
        Error::new(
            ErrorKind::NoMemory,
            format!("a selection of {n} elements, of which the file holds {filled}; read it in parts"),
        )
    };
    let bytes = n.saturating_mul(size_of::<T>() as u64);
    if bytes > MUCH && n / 1024 > filled {
        return Err(refuse());
    }
    let n = usize::try_from(n).map_err(|_| refuse())?;
    // Reserved first, so that too large a request is an error; then allocated as zeros, which cost nothing until they are
    // touched.
    Vec::<T>::new().try_reserve_exact(n).map_err(|_| refuse())?;
    Ok(vec![T::new_zeroed(); n])
}

/// Reads that are planned and carried out together: neighbouring bytes of the file are read at once, for any variables, steps and
/// selections.
///
/// ```no_run
/// # use thalweg_types::{BoundingBox, Selection};
/// # fn all(reader: &thalweg_reader::Reader) -> thalweg_types::Result<()> {
/// let mut batch = reader.batch();
/// let u = batch.add("u", &[3], &Selection::Box(BoundingBox::new([0, 0], [10, 20])), None)?;
/// let t = batch.add("t", &[0, 1, 2, 3], &Selection::All, None)?;
/// let mut memory: Vec<Vec<u8>> = (0..batch.len()).map(|n| vec![0; batch.bytes(n) as usize]).collect();
/// let mut out: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
/// let filled = batch.perform(&mut out)?;
/// println!("{} elements of u, {} of t", filled[u], filled[t]);
/// # Ok(())
/// # }
/// ```
pub struct Batch {
    reader: Reader,
    jobs: Vec<Job>,
}

impl Batch {
    /// Plans a further read and returns its number. Reads only index entries.
    ///
    /// - `steps`: one after the other in memory, all of the same size.
    /// - `memory`: position of the selection in a larger array; `None`: the selection fills the memory.
    ///
    /// # Errors
    /// As [`Reader::read`] and [`Reader::read_into`].
    pub fn add(
        &mut self,
        name: &str,
        steps: &[u64],
        selection: &Selection,
        memory: Option<&MemorySelection>,
    ) -> Result<usize> {
        self.jobs.push(self.reader.plan(name, steps, selection, memory)?);
        Ok(self.jobs.len() - 1)
    }

    /// Number of reads.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Bytes of memory that a read needs.
    pub fn bytes(&self, number: usize) -> u64 {
        self.jobs[number].bytes
    }

    /// Type of the values of a read.
    pub fn element(&self, number: usize) -> ElementType {
        self.jobs[number].element
    }

    /// Carries out all reads, in the cheapest order.
    ///
    /// - `out`: the memory of each read, in the order of `add`, with [`Batch::bytes`] bytes.
    ///
    /// Returns the number of filled elements of each read.
    ///
    /// # Errors
    /// As [`Reader::read`]; the memory of all reads may then be filled in part.
    /// # Memory
    /// A window of at most 1 MiB per thread; up to 16 MiB of values read around trailers; one whole block per thread if blocks
    /// are transformed.
    /// # Cost
    /// As [`Reader::read`]; neighbouring bytes of all reads share store reads.
    pub fn perform(self, out: &mut [&mut [u8]]) -> Result<Vec<u64>> {
        self.reader.carry_out(&self.jobs, out)
    }
}

impl Reader {
    /// A new, empty batch.
    pub fn batch(&self) -> Batch {
        Batch { reader: self.clone(), jobs: Vec::new() }
    }

    /// Bytes of memory that [`Reader::read`] needs for a selection at a step.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn length(&self, name: &str, step: u64, selection: &Selection) -> Result<u64> {
        self.plan(name, &[step], selection, None).map(|p| p.bytes)
    }

    /// Reads the part of a variable inside `selection` at one step, from all blocks that intersect it.
    ///
    /// - `out`: [`Reader::length`] bytes, row-major, this machine's byte order; elements that no block covers are not changed. If
    ///   blocks share elements, those of the later block are used.
    ///
    /// Returns the number of filled elements. Not collective: any rank and any thread may call it.
    ///
    /// # Errors
    /// `NotFound` if the variable was not written in `step`; `OutOfBounds` if `selection` exceeds its shape there;
    /// `InvalidArgument` if `selection` does not fit the kind of the variable, or `out` has another length; `Unsupported` names a
    /// transform; `Torn` names file and byte of missing data; `Corrupt` names file, step and rank if a process group in a subfile
    /// differs from the index ([`Reads`]).
    /// # Cost
    /// At most one store read per contiguous extent. Gaps of up to a page are read through, larger ones up to 64 KiB if they are
    /// small compared with the requested bytes. Whole blocks are read directly into `out`, other bytes are copied once. Several
    /// threads read if it takes long ([`crate::fetch`]). The first read from a process group in a subfile also reads its trailer:
    /// together with nearby values, else in one further small read. Values of scalars and texts come from the index.
    pub fn read(&self, name: &str, step: u64, selection: &Selection, out: &mut [u8]) -> Result<u64> {
        self.read_steps(name, &[step], selection, out)
    }

    /// As [`Reader::read`], into a part of a larger array, for example one with ghost cells.
    ///
    /// - `out`: the whole array that `memory` describes; elements outside the selection are not changed.
    ///
    /// # Errors
    /// As [`Reader::read`]; also `OutOfBounds` if the selection exceeds the array in memory, and `InvalidArgument` for another
    /// number of dimensions, and for points.
    pub fn read_into(
        &self,
        name: &str,
        step: u64,
        selection: &Selection,
        out: &mut [u8],
        memory: &MemorySelection,
    ) -> Result<u64> {
        let job = self.plan(name, &[step], selection, Some(memory))?;
        self.carry_out_one(job, out)
    }

    /// Reads the same selection at several steps, one after the other in `out`.
    ///
    /// # Errors
    /// As [`Reader::read`]; also `InvalidArgument` if the selection has another size at another step.
    /// # Cost
    /// As [`Reader::read`]. The second time that one element of the same variable and steps (64 and more) is read, the blocks of these
    /// steps are read into memory if they have at most 8 MiB and the same place in all steps; further elements cost no read.
    pub fn read_steps(&self, name: &str, steps: &[u64], selection: &Selection, out: &mut [u8]) -> Result<u64> {
        let job = self.plan(name, steps, selection, None)?;
        self.carry_out_one(job, out)
    }

    /// As [`Reader::read`], into new memory; 0 for elements that no block covers.
    ///
    /// # Errors
    /// As [`Reader::read`]; `NoMemory` if the system has no memory for the result.
    pub fn read_to_vec(&self, name: &str, step: u64, selection: &Selection) -> Result<Vec<u8>> {
        let job = self.plan(name, &[step], selection, None)?;
        let mut out = zeros(job.bytes, job.plan.elements).map_err(|e| self.name_it(e, name))?;
        self.carry_out_one(job, &mut out)?;
        Ok(out)
    }

    /// As [`Reader::read_to_vec`], as numbers of type `T`.
    ///
    /// # Errors
    /// Also `InvalidArgument` if `T` is not the variable's type.
    pub fn read_as<T: Element>(&self, name: &str, step: u64, selection: &Selection) -> Result<Vec<T>> {
        self.read_steps_as(name, &[step], selection)
    }

    /// As [`Reader::read_steps`], as numbers of type `T` in new memory.
    ///
    /// # Errors
    /// As [`Reader::read_steps`]; also `InvalidArgument` if `T` is not the variable's type.
    pub fn read_steps_as<T: Element>(&self, name: &str, steps: &[u64], selection: &Selection) -> Result<Vec<T>> {
        let job = self.plan(name, steps, selection, None)?;
        if !T::is(job.element) {
            let what = format!("its type is {}, requested as {}", job.element, std::any::type_name::<T>());
            return Err(self.fail(ErrorKind::InvalidArgument, what, name));
        }
        let n = job.bytes / size_of::<T>() as u64;
        let mut out = zeros(n, job.plan.elements).map_err(|e| self.name_it(e, name))?;
        self.carry_out_one(job, zerocopy::IntoBytes::as_mut_bytes(out.as_mut_slice()))?;
        Ok(out)
    }

    fn plan(&self, name: &str, steps: &[u64], selection: &Selection, memory: Option<&MemorySelection>) -> Result<Job> {
        let v = self.look_up(name)?;
        let mut job = Job {
            name: name.to_string(),
            plan: Plan::default(),
            bytes: 0,
            element: v.original,
            pitch: 0,
            values: Vec::new(),
            coded: Vec::new(),
            unverified: Vec::new(),
        };
        if let (Selection::Box(requested), None, Some(boxes)) = (selection, memory, self.boxes(&v))
            && self.0.digits.kept(v.original, self.0.order).is_none()
            && let Some(values) = self.series(&v, boxes, name, steps, requested)
        {
            (job.bytes, job.pitch, job.values) = (values.len() as u64, v.original.size(), values);
            job.plan = Plan { elements: steps.len() as u64, ..Plan::default() };
            return Ok(job);
        }
        let mut plans = Vec::new();
        let mut first = None;
        for step in steps {
            let sets = v.sets.of_steps(*step..step.saturating_add(1));
            if sets.is_empty() {
                return Err(self.no_such_step(name, *step, &v));
            }
            let before = job.bytes;
            let planned = self.plan_step(&v, sets.clone(), selection, memory, &mut job).and_then(|plan| {
                let mut used: Vec<u32> = plan.coded.iter().map(|(number, _)| *number).collect();
                used.sort_unstable();
                used.dedup();
                let coded = used.iter().filter_map(|n| job.coded.get(*n as usize)).map(|c| (c.file, c.payload));
                let coded: Vec<(Option<u32>, Extent)> = coded.collect();
                job.unverified.extend(self.unverified_groups(&v, sets, *step, &plan, &coded)?);
                Ok(plan)
            });
            plans.push(planned.map_err(|e| self.name_it(e.at_step(*step), name))?);
            let length = job.bytes - before;
            if *first.get_or_insert(length) != length {
                let what = "the selection has another size than at the steps before";
                return Err(self.fail(ErrorKind::InvalidArgument, what, name).at_step(*step));
            }
        }
        job.plan = Plan::join(plans);
        Ok(job)
    }

    fn plan_step(
        &self,
        v: &IndexedVariable,
        sets: Range<usize>,
        selection: &Selection,
        memory: Option<&MemorySelection>,
        job: &mut Job,
    ) -> Result<Plan> {
        let out_of_bounds = |what: String| Error::new(ErrorKind::OutOfBounds, what);
        let base = job.bytes;
        let size = v.original.size();
        let one_block = |n: u64| -> Result<Block> {
            if n >= sets.len() as u64 {
                return Err(out_of_bounds(format!("block {n} of {}", sets.len())));
            }
            let mut blocks = match v.kind {
                Kind::Scalar | Kind::Local => return self.block(v, sets.start + n as usize, sets.start),
                _ => self.blocks_of(v, sets.clone())?,
            };
            Ok(blocks.swap_remove(n as usize))
        };
        let no_memory = |what: &str| match memory {
            Some(_) => Err(Error::new(ErrorKind::InvalidArgument, format!("{what} have no place in a larger array"))),
            None => Ok(()),
        };
        // A box of `count` elements: its target and its bytes.
        let target = |count: &[u64], job: &mut Job| -> Result<Target> {
            let too_large = || out_of_bounds("a box of more bytes than 64 bits count".into());
            if let Some(memory) = memory {
                memory.check(count)?;
            }
            let target = Target::new(count, memory, base);
            let bytes = thalweg_types::bounding_box::elements(&target.shape).and_then(|n| n.checked_mul(size));
            job.bytes = bytes.and_then(|b| base.checked_add(b)).ok_or_else(too_large)?;
            job.pitch = target.pitch(size);
            Ok(target)
        };
        match (selection, v.kind) {
            (Selection::Block(_) | Selection::All, Kind::Scalar) => {
                no_memory("single values")?;
                let n = if let Selection::Block(n) = selection { *n } else { 0 };
                self.value_of(v, &one_block(n)?)?.append_to(&mut job.values);
                job.bytes = job.values.len() as u64;
                return Ok(Plan { elements: 1, ..Plan::default() });
            }
            (_, Kind::Scalar) => {
                return Err(Error::new(ErrorKind::InvalidArgument, "a single value: it has no boxes and points"));
            }
            (Selection::Block(_), _) | (Selection::All, Kind::Local) => {
                let n = if let Selection::Block(n) = selection { *n } else { 0 };
                let block = one_block(n)?;
                let target = target(&block.count, job)?;
                let stored = self.stored(v, block, sets.start + n as usize, job)?;
                return Ok(plan::of_box(Lattice::whole(&stored.bounds), std::slice::from_ref(&stored), size, &target));
            }
            (_, Kind::Local) => {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    "a local array has no boxes and points of a whole: choose a block",
                ));
            }
            _ => {}
        }
        if let Some(boxes) = self.boxes(v) {
            // The last block determines the shape; the others are numbers.
            let shape = boxes.shape(&v.sets, sets.end - 1)?;
            let subfiles = v.how.subfiles;
            if let Selection::Points(points) = selection {
                no_memory("points")?;
                if points.len() <= FEW {
                    point_bytes(points, &shape, size, job)?;
                    let pieces = points.iter().enumerate().filter_map(|(i, point)| {
                        let (file, source) = boxes.element(sets.clone(), point, subfiles)?;
                        let target = base + i as u64 * size;
                        Some(Piece { file, source, target, run: size, strides: Vec::new() })
                    });
                    let pieces: Vec<Piece> = pieces.collect();
                    return Ok(Plan { elements: pieces.len() as u64, pieces, ..Plan::default() });
                }
                let whole = BoundingBox::whole(&shape);
                point_bytes(points, &shape, size, job)?;
                return Ok(plan::of_points(points, &boxes.meeting(sets, &whole, subfiles), size, base));
            }
            let whole = BoundingBox::whole(&shape);
            let lattice = requested(selection, &whole)?;
            let requested = lattice.bounds;
            check_box(requested, &shape)?;
            if memory.is_none() && !shape.is_empty() && requested.count.iter().all(|n| *n == 1) {
                // One element of many steps, a series in time: its place takes no lists of blocks.
                let bytes = base.checked_add(size);
                (job.bytes, job.pitch) =
                    (bytes.ok_or_else(|| out_of_bounds("more bytes than 64 bits count".into()))?, size);
                let found = boxes.element(sets, &requested.offset, subfiles);
                let pieces =
                    found.map(|(file, source)| Piece { file, source, target: base, run: size, strides: Vec::new() });
                let pieces: Vec<Piece> = pieces.into_iter().collect();
                return Ok(Plan { elements: pieces.len() as u64, pieces, ..Plan::default() });
            }
            let target = target(&lattice.count(), job)?;
            return Ok(plan::of_box(lattice, &boxes.meeting(sets, requested, subfiles), size, &target));
        }
        let blocks = self.blocks_of(v, sets.clone())?;
        let shape = blocks.last().map(|b| b.shape.clone()).unwrap_or_default();
        let blocks = sets.zip(blocks).filter(|(_, b)| b.elements() > 0);
        let stored = blocks.map(|(set, b)| self.stored(v, b, set, job)).collect::<Result<Vec<Stored>>>()?;
        if let Selection::Points(points) = selection {
            no_memory("points")?;
            point_bytes(points, &shape, size, job)?;
            return Ok(plan::of_points(points, &stored, size, base));
        }
        let whole = BoundingBox::whole(&shape);
        let requested = requested(selection, &whole)?;
        check_box(requested.bounds, &shape)?;
        let target = target(&requested.count(), job)?;
        Ok(plan::of_box(requested, &stored, size, &target))
    }

    /// The positions of a variable's blocks, if they can be determined without decoding their sets.
    fn boxes<'v>(&self, v: &'v IndexedVariable) -> Option<&'v Boxes> {
        let plain = v.kind == Kind::Global && v.transform.is_none() && v.sets.shape.is_some();
        let plain = plain && self.0.reads != Reads::Checked;
        if plain { v.sets.boxes(v.how.fortran) } else { None }
    }

    fn carry_out_one(&self, job: Job, out: &mut [u8]) -> Result<u64> {
        let filled = self.carry_out(&[job], &mut [out])?;
        Ok(filled.into_iter().sum())
    }

    fn carry_out(&self, jobs: &[Job], out: &mut [&mut [u8]]) -> Result<Vec<u64>> {
        if out.len() != jobs.len() {
            let what = format!("{} reads, memory for {}", jobs.len(), out.len());
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let mut orders = Vec::with_capacity(jobs.len());
        for (job, out) in jobs.iter().zip(out.iter_mut()) {
            if out.len() as u64 != job.bytes {
                let what = format!("the selection has {} bytes, the buffer {}", job.bytes, out.len());
                return Err(self.fail(ErrorKind::InvalidArgument, what, &job.name));
            }
            if !job.values.is_empty() {
                out.copy_from_slice(&job.values);
            }
            let word = if self.0.order == ByteOrder::NATIVE { 1 } else { job.element.word() };
            let kept = self.0.digits.kept(job.element, self.0.order);
            orders.push(Order { plan: &job.plan, word, kept, pitch: job.pitch, out });
        }
        let unverified = jobs.iter().enumerate();
        let unverified = unverified.flat_map(|(n, job)| job.unverified.iter().map(move |read| (n, *read))).collect();
        let first_reads = self.compare(unverified).map_err(|(e, n)| self.name_it(e, &jobs[n].name))?;
        let open = |file| self.object_with(file, &first_reads);
        let done = fetch::execute(orders, &self.limits(), &open, &|order, block| {
            self.decoded(&jobs[order].coded[block as usize], &first_reads)
        });
        done.map_err(|(e, order)| match order {
            Some(order) => self.name_it(e, &jobs[order].name),
            None => e.in_object(self.0.path.clone()),
        })?;
        for (job, out) in jobs.iter().zip(out) {
            if let Some(kept) = self.0.digits.kept(job.element, self.0.order) {
                job.plan.pieces.iter().chain(job.plan.coded.iter().map(|(_, piece)| piece)).for_each(|piece| {
                    let target = |at: u64| (piece.target + at) as usize;
                    piece.for_each_run(&mut |_, at| kept.round(&mut out[target(at)..target(at + piece.run)]));
                });
            }
        }
        let filled = |job: &Job| {
            let size = job.element.size().max(1);
            job.plan.filled(size, job.bytes / size)
        };
        Ok(jobs.iter().map(filled).collect())
    }

    /// The limits of reads of this file.
    pub(super) fn limits(&self) -> Limits {
        Limits::of(self.0.layout.request_cost(&self.0.data_path))
    }

    /// The values of a transformed or checked block, in the file's byte order.
    fn decoded(&self, coded: &Coded, first_reads: &FirstReads) -> Result<Vec<u8>> {
        let Extent { offset, length } = coded.payload;
        let object = self.object_with(coded.file, first_reads)?.reaching(coded.payload.end().unwrap_or(u64::MAX))?;
        let place = |e: Error| e.in_object(&*object.path).at_byte(offset);
        let bytes = source::bytes(&object, offset, length, "block").map_err(place)?;
        if self.0.reads == Reads::Checked {
            self.check_sum(&coded.place, &bytes).map_err(place)?;
        }
        match &coded.transform {
            Some(transform) => decode::values(transform, self.0.order, &bytes).map_err(place),
            None => Ok(bytes),
        }
    }

    /// A block for the planner; a block that is read as a whole is recorded in the job. `set`: its number.
    fn stored(&self, v: &IndexedVariable, block: Block, set: usize, job: &mut Job) -> Result<Stored> {
        let file = block.subfile;
        let mut stored = Stored { file, offset: block.payload.offset, bounds: BoundingBox::default(), coded: None };
        let mut transform = None;
        if block.transform.is_some() {
            transform = v.sets.get(set)?.transform.map(|t| decode::before(t, v.how.fortran));
        }
        if transform.is_some() || self.0.reads == Reads::Checked {
            (stored.offset, stored.coded) = (0, Some(job.coded.len() as u32));
            job.coded.push(Coded { file, payload: block.payload, place: GroupRead::of(&block), transform });
        }
        stored.bounds = BoundingBox { offset: block.offset, count: block.count };
        Ok(stored)
    }
}

/// Largest number of points that are looked up one by one.
const FEW: usize = 64;

/// Checks points, and returns the memory that they need in addition to that of the job.
fn point_bytes(points: &[Vec<u64>], shape: &[u64], size: u64, job: &mut Job) -> Result<()> {
    for p in points {
        if p.len() != shape.len() || p.iter().zip(shape).any(|(p, s)| p >= s) {
            return Err(Error::new(ErrorKind::OutOfBounds, format!("point {p:?} leaves the shape {shape:?}")));
        }
    }
    let bytes = (points.len() as u64).checked_mul(size).and_then(|b| job.bytes.checked_add(b));
    let too_large = || Error::new(ErrorKind::OutOfBounds, "points of more bytes than 64 bits count");
    (job.bytes, job.pitch) = (bytes.ok_or_else(too_large)?, size);
    Ok(())
}

/// The elements of a global array that a selection names; `whole`: all of them.
fn requested<'a>(selection: &'a Selection, whole: &'a BoundingBox) -> Result<Lattice<'a>> {
    match selection {
        Selection::Box(bounds) => Ok(Lattice::whole(bounds)),
        Selection::Strided { bounds, stride } => {
            if stride.len() != bounds.rank() || stride.contains(&0) {
                let what =
                    format!("strides {stride:?} for a box of {} dimensions: one of 1 or more for each", bounds.rank());
                return Err(Error::new(ErrorKind::InvalidArgument, what));
            }
            Ok(Lattice { bounds, stride: Some(stride) })
        }
        _ => Ok(Lattice::whole(whole)),
    }
}

fn check_box(requested: &BoundingBox, shape: &[u64]) -> Result<()> {
    if requested.offset.len() == requested.count.len() && requested.fits(shape) {
        return Ok(());
    }
    let what = format!("a box at {:?} of {:?} leaves the shape {shape:?}", requested.offset, requested.count);
    Err(Error::new(ErrorKind::OutOfBounds, what))
}
