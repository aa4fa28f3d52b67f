//! A scheduled read: a part of a variable at some of its steps, as plain boxes, points and blocks of the file.
//!
//! | selection | of a global array | of a local array | of a scalar |
//! |---|---|---|---|
//! | none | a box of the shape of the variable's first step; elements that other steps do not cover are not changed | the first block, if it is as large as in the first step | the value |
//! | box | that box | that box of the first block, as in ADIOS 1.x | |
//! | strided box | every so many elements of that box | | |
//! | points | those points; within a container, relative to it; of one dimension, offsets in its row-major order | as in a box at 0 | |
//! | block | by its number in each step, or over all steps; or a range of its elements | the same | the value that rank wrote |
//! | automatic | this rank's share of the blocks, one after the other | the same | the value |
//!
//! Steps are one after the other in the program's memory. A text takes its bytes and a zero byte; without a block selection it
//! must not be longer than in the first step, because programs know no other length.

use super::ReadFile;
use super::info::Info;
use crate::adios1::error::{Doing, Failure, Outcome, number};
use thalweg_reader::Kind;
use thalweg_types::bounding_box::copy_shared;
use thalweg_types::{BoundingBox, ElementType, Error, Selection};

/// A selection of C, copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedSelection {
    /// None was given.
    All,
    /// A box.
    Box(BoundingBox),
    /// Every so many elements of a box.
    Strided {
        /// The box.
        bounds: BoundingBox,
        /// 1 or more for each dimension.
        stride: Vec<u64>,
    },
    /// Points, coordinate after coordinate.
    Points {
        /// Coordinates per point.
        rank: usize,
        /// Of all points.
        coordinates: Vec<u64>,
        /// The container of the coordinates: a box or a block.
        container: Option<Box<OwnedSelection>>,
    },
    /// A block.
    Block {
        /// Its number.
        index: u64,
        /// Counted over all steps of the variable; else in the step.
        absolute: bool,
        /// Only so many elements from this one.
        range: Option<(u64, u64)>,
    },
    /// Chosen by the library.
    Auto,
}

/// A read that was scheduled.
#[derive(Debug, Clone)]
pub struct ScheduledRead {
    /// The variable's place in the list.
    pub place: i32,
    /// The variable.
    pub info: Info,
    /// The first of its steps.
    pub from: i32,
    /// The file's steps.
    pub steps: Vec<u64>,
    /// Of each step.
    pub part: OwnedSelection,
    /// Address of the program's memory; `None`: for `adios_check_reads`.
    pub memory: Option<usize>,
}

/// The part of a scheduled read that one call of `adios_check_reads` returns.
#[derive(Debug, Clone)]
pub struct ReadChunk {
    /// The scheduled read, restricted to this part.
    pub request: ScheduledRead,
}

/// One step of a read, as the reader does it.
#[derive(Debug, Clone)]
pub struct Read {
    /// The file's step.
    pub step: u64,
    /// The selection to read.
    pub selection: Selection,
    /// Bytes that it takes in the program's memory.
    pub length: u64,
    /// How it gets there.
    pub delivery: Delivery,
}

/// Conversion of the values read to the requested ones.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// As it is.
    Straight,
    /// The part of the box `from` that is in the box `to`; nothing else of the memory changes.
    Cut {
        /// The box fetched.
        from: BoundingBox,
        /// The requested box.
        to: BoundingBox,
    },
    /// Single elements of the block fetched, by their number; nothing for those it does not have.
    Pick(Vec<Option<u64>>),
    /// So many bytes from this one.
    Range(u64, u64),
    /// With a zero byte at the end.
    Text,
}

fn argument(info: &Info, text: impl std::fmt::Display) -> Failure {
    Failure::argument(format!("{}: {text}", info.name))
}

fn bounds(info: &Info, step: u64, text: impl std::fmt::Display) -> Failure {
    Failure::new(number::OUT_OF_BOUND, format!("{} at step {step}: {text}", info.name))
}

fn elements(info: &Info, count: &[u64]) -> Outcome<u64> {
    thalweg_types::bounding_box::elements(count).ok_or_else(|| argument(info, "more elements than 64 bits count"))
}

fn bytes_of(info: &Info, n: u64) -> Outcome<u64> {
    n.checked_mul(info.element.size()).ok_or_else(|| argument(info, "more bytes than 64 bits count"))
}

/// The number of a point in a box of these extents; `None` outside.
fn row_major(count: &[u64], point: &[u64]) -> Option<u64> {
    count.iter().zip(point).try_fold(0u64, |at, (n, p)| if p >= n { None } else { at.checked_mul(*n)?.checked_add(*p) })
}

/// The point at a number in a box of these extents; `None` outside.
fn point_at(count: &[u64], mut number: u64) -> Option<Vec<u64>> {
    if number >= thalweg_types::bounding_box::elements(count)? {
        return None;
    }
    let mut point = vec![0; count.len()];
    for d in (0..count.len()).rev() {
        point[d] = number % count[d];
        number /= count[d];
    }
    Some(point)
}

impl ReadFile {
    /// Notes down a read.
    ///
    /// # Errors
    /// Steps that the variable does not have; a selection that no variable of its kind has.
    pub fn schedule(
        &mut self,
        place: i32,
        from: i32,
        steps: i32,
        part: OwnedSelection,
        memory: Option<usize>,
    ) -> Outcome<()> {
        let info = self.info(place)?;
        let (from, steps) = if self.is_stream() {
            if steps > 1 {
                let text = format!("{}: {steps} steps of a stream, which shows one at a time", info.name);
                return Err(Failure::new(number::INVALID_TIMESTEP, text));
            }
            (0, 1)
        } else {
            (from, steps)
        };
        let steps = info.file_steps(from, steps)?.to_vec();
        let rank = info.shape.len();
        match &part {
            OwnedSelection::Box(b) if b.offset.len() != rank => {
                return Err(argument(
                    &info,
                    format!("a box of {} dimensions, the variable has {rank}", b.offset.len()),
                ));
            }
            OwnedSelection::Strided { .. } if !info.is_global() => {
                return Err(argument(&info, "only a global array has every so many elements of a box"));
            }
            OwnedSelection::Strided { stride, .. } if stride.len() != rank => {
                let text = format!("a box of {} dimensions, the variable has {rank}", stride.len());
                return Err(argument(&info, text));
            }
            OwnedSelection::Points { .. } if rank == 0 => return Err(argument(&info, "a single value has no points")),
            OwnedSelection::Points { rank: given, container: None, .. } if *given != rank && *given != 1 => {
                return Err(argument(&info, format!("points of {given} dimensions, the variable has {rank}")));
            }
            OwnedSelection::Points { container: Some(container), .. }
                if !matches!(**container, OwnedSelection::Box(_) | OwnedSelection::Block { .. }) =>
            {
                let text = format!("{}: points lie in a box or a block", info.name);
                return Err(Failure::new(number::INVALID_SELECTION, text));
            }
            OwnedSelection::Block { absolute: true, .. } if steps.len() > 1 => {
                return Err(argument(&info, "a block counted over all steps is in one of them"));
            }
            _ => {}
        }
        self.scheduled.push(ScheduledRead { place, info, from, steps, part, memory });
        Ok(())
    }

    /// Takes the scheduled reads, to carry them out immediately.
    pub fn take_scheduled(&mut self) -> Vec<ScheduledRead> {
        std::mem::take(&mut self.scheduled)
    }

    /// Divides the scheduled reads into pieces for [`ReadFile::next_piece`].
    ///
    /// # Errors
    /// A damaged index entry.
    pub fn begin_pieces(&mut self) -> Outcome<()> {
        for request in self.take_scheduled() {
            let pieces = self.cut(request)?;
            self.pieces.extend(pieces);
        }
        Ok(())
    }

    /// The next piece; `None` where there is none.
    pub fn next_piece(&mut self) -> Option<ReadChunk> {
        self.pieces.pop_front()
    }

    /// Pieces of at most the size that was settled, where it can be cut: by steps, then along the slowest dimension.
    fn cut(&self, request: ScheduledRead) -> Outcome<Vec<ReadChunk>> {
        let most = self.options.max_chunk;
        if request.memory.is_some() {
            return Ok(vec![ReadChunk { request }]);
        }
        if request.part == OwnedSelection::Auto && !request.info.shape.is_empty() {
            // Block by block, so that a program sees where each belongs.
            let mut pieces = Vec::new();
            for (i, step) in request.steps.iter().enumerate() {
                for index in self.share(&request.info, *step)? {
                    let part = OwnedSelection::Block { index, absolute: false, range: None };
                    let from = request.from + i as i32;
                    pieces.push(ReadChunk {
                        request: ScheduledRead { part, from, steps: vec![*step], ..request.clone() },
                    });
                }
            }
            return Ok(pieces);
        }
        let whole: u64 = self.resolve_all(&request)?.iter().map(|r| r.length).sum();
        if whole <= most {
            return Ok(vec![ReadChunk { request }]);
        }
        let mut pieces = Vec::new();
        for (i, step) in request.steps.iter().enumerate() {
            let one = ScheduledRead { from: request.from + i as i32, steps: vec![*step], ..request.clone() };
            let asked = match &one.part {
                OwnedSelection::Box(b) => b.clone(),
                OwnedSelection::All if one.info.is_global() => BoundingBox::whole(&one.info.shape),
                _ => {
                    pieces.push(ReadChunk { request: one });
                    continue;
                }
            };
            let rows = asked.count.first().copied().unwrap_or(1).max(1);
            let bytes = bytes_of(&one.info, elements(&one.info, &asked.count)?)?;
            let rows_each = (most / (bytes / rows).max(1)).clamp(1, rows);
            let mut row = 0;
            while row < rows {
                let mut part = asked.clone();
                if let (Some(offset), Some(count)) = (part.offset.first_mut(), part.count.first_mut()) {
                    *offset += row;
                    *count = rows_each.min(rows - row);
                }
                pieces.push(ReadChunk { request: ScheduledRead { part: OwnedSelection::Box(part), ..one.clone() } });
                row += rows_each;
            }
        }
        Ok(pieces)
    }

    /// Each step of a read.
    ///
    /// # Errors
    /// `err_out_of_bound` where the part leaves the variable there.
    pub fn resolve_all(&self, request: &ScheduledRead) -> Outcome<Vec<Read>> {
        let mut reads = Vec::new();
        for step in &request.steps {
            reads.extend(self.resolve(&request.info, *step, &request.part)?);
        }
        Ok(reads)
    }

    fn blocks(&self, info: &Info, step: u64) -> Outcome<Vec<thalweg_reader::Block>> {
        self.reader().blocks(&info.name, step).map_err(|e| Doing::Read.failed(self.place(e)))
    }

    fn first_block(&self, info: &Info, step: u64) -> Outcome<thalweg_reader::Block> {
        let block = self.reader().block_of_step(&info.name, step, 0).map_err(|e| Doing::Read.failed(self.place(e)))?;
        block.ok_or_else(|| bounds(info, step, "no block"))
    }

    /// The blocks of a step that automatic selections give this rank.
    fn share(&self, info: &Info, step: u64) -> Outcome<std::ops::Range<u64>> {
        let n = info.steps.iter().position(|s| *s == step).map_or(0, |i| info.blocks[i]);
        let (rank, size) = (u128::from(self.comm.rank()), u128::from(self.comm.size().max(1)));
        let at = |r: u128| (r * u128::from(n) / size) as u64;
        Ok(at(rank)..at(rank + 1))
    }

    /// A block's number in a step, and that step.
    fn block_number(&self, info: &Info, step: u64, index: u64, absolute: bool) -> Outcome<(u64, u64)> {
        let mut left = index;
        for (s, n) in info.steps.iter().zip(&info.blocks) {
            if absolute && left >= *n {
                left -= n;
            } else if absolute {
                return Ok((*s, left));
            } else if *s == step && index < *n {
                return Ok((step, index));
            }
        }
        Err(bounds(info, step, format!("no block {index}")))
    }

    fn resolve(&self, info: &Info, step: u64, part: &OwnedSelection) -> Outcome<Vec<Read>> {
        if info.kind == Kind::Scalar {
            return Ok(vec![self.resolve_scalar(info, step, part)?]);
        }
        let local = info.kind == Kind::Local;
        match part {
            OwnedSelection::All if local => {
                let first = self.first_block(info, step)?;
                if first.count != info.shape {
                    let text = format!(
                        "the first block is {:?}, in the variable's first step it was {:?}: choose it by a block selection",
                        first.count, info.shape
                    );
                    return Err(bounds(info, step, text));
                }
                let length = bytes_of(info, elements(info, &info.shape)?)?;
                Ok(vec![Read { step, selection: Selection::Block(0), length, delivery: Delivery::Straight }])
            }
            OwnedSelection::All => {
                let to = BoundingBox::whole(&info.shape);
                let shape = self.reader().shape(&info.name, step).map_err(|e| Doing::Read.failed(self.place(e)))?;
                if shape.len() != to.count.len() {
                    return Err(bounds(info, step, "another number of dimensions than in the first step"));
                }
                let length = bytes_of(info, elements(info, &to.count)?)?;
                if to.fits(&shape) {
                    return Ok(vec![Read {
                        step,
                        selection: Selection::Box(to),
                        length,
                        delivery: Delivery::Straight,
                    }]);
                }
                // Smaller than in the first step.
                let from = BoundingBox::whole(&shape).intersect(&to);
                let from = from.unwrap_or_else(|| BoundingBox::whole(&vec![0; shape.len()]));
                let delivery = Delivery::Cut { from: from.clone(), to };
                Ok(vec![Read { step, selection: Selection::Box(from), length, delivery }])
            }
            OwnedSelection::Box(requested) if local => {
                let length = bytes_of(info, elements(info, &requested.count)?)?;
                let first = self.first_block(info, step)?;
                if !requested.fits(&first.count) {
                    let text = format!(
                        "a box at {:?} of {:?} leaves the first block, which is {:?}: choose another by a block selection",
                        requested.offset, requested.count, first.count
                    );
                    return Err(bounds(info, step, text));
                }
                let delivery = Delivery::Cut { from: BoundingBox::whole(&first.count), to: requested.clone() };
                Ok(vec![Read { step, selection: Selection::Block(0), length, delivery }])
            }
            OwnedSelection::Box(requested) => {
                let length = bytes_of(info, elements(info, &requested.count)?)?;
                Ok(vec![Read {
                    step,
                    selection: Selection::Box(requested.clone()),
                    length,
                    delivery: Delivery::Straight,
                }])
            }
            OwnedSelection::Strided { bounds, stride } => {
                let found: Vec<u64> = bounds.count.iter().zip(stride).map(|(n, s)| n.div_ceil(*s)).collect();
                let length = bytes_of(info, elements(info, &found)?)?;
                let selection = Selection::Strided { bounds: bounds.clone(), stride: stride.clone() };
                Ok(vec![Read { step, selection, length, delivery: Delivery::Straight }])
            }
            OwnedSelection::Block { index, absolute, range } => {
                let (step, n) = self.block_number(info, step, *index, *absolute)?;
                let selection = Selection::Block(n);
                let whole = self.reader().length(&info.name, step, &selection);
                let whole = whole.map_err(|e| Doing::Read.failed(self.place(e)))?;
                let Some((first, count)) = range else {
                    return Ok(vec![Read { step, selection, length: whole, delivery: Delivery::Straight }]);
                };
                let (first, length) = (bytes_of(info, *first)?, bytes_of(info, *count)?);
                if first.checked_add(length).is_none_or(|end| end > whole) {
                    return Err(bounds(
                        info,
                        step,
                        format!("block {n} has {} elements", whole / info.element.size().max(1)),
                    ));
                }
                Ok(vec![Read { step, selection, length, delivery: Delivery::Range(first, length) }])
            }
            OwnedSelection::Points { rank, coordinates, container } => {
                self.resolve_points(info, step, *rank, coordinates, container.as_deref())
            }
            OwnedSelection::Auto => {
                let mut reads = Vec::new();
                for n in self.share(info, step)? {
                    let part = OwnedSelection::Block { index: n, absolute: false, range: None };
                    reads.extend(self.resolve(info, step, &part)?);
                }
                Ok(reads)
            }
        }
    }

    fn resolve_scalar(&self, info: &Info, step: u64, part: &OwnedSelection) -> Outcome<Read> {
        let (step, selection) = match part {
            OwnedSelection::All | OwnedSelection::Box(_) | OwnedSelection::Auto => (step, Selection::All),
            OwnedSelection::Block { index, absolute, range: None } => {
                let (step, n) = self.block_number(info, step, *index, *absolute)?;
                (step, Selection::Block(n))
            }
            OwnedSelection::Block { .. } | OwnedSelection::Points { .. } | OwnedSelection::Strided { .. } => {
                return Err(argument(info, "a single value has no parts"));
            }
        };
        if !info.element.is_text() {
            return Ok(Read { step, selection, length: info.element.size(), delivery: Delivery::Straight });
        }
        let length = self.reader().length(&info.name, step, &selection);
        let length = length.map_err(|e| Doing::Read.failed(self.place(e)))?;
        let known = match &info.value {
            Some(thalweg_types::Value::String(text)) => text.len() as u64,
            _ => 0,
        };
        if selection == Selection::All && length > known {
            let text = format!(
                "a text of {length} bytes, {known} in the variable's first step: a block selection reads it whole, and so does a stream"
            );
            return Err(bounds(info, step, text));
        }
        Ok(Read { step, selection, length: length + 1, delivery: Delivery::Text })
    }

    fn resolve_points(
        &self,
        info: &Info,
        step: u64,
        rank: usize,
        coordinates: &[u64],
        container: Option<&OwnedSelection>,
    ) -> Outcome<Vec<Read>> {
        let dims = info.shape.len();
        let n = coordinates.len().checked_div(rank).unwrap_or(0);
        let length = bytes_of(info, n as u64)?;
        let local = info.kind == Kind::Local;
        let mut step = step;
        // The box that points are relative to, and the block it is, if it is one.
        let (within, block) = match container {
            Some(OwnedSelection::Box(b)) => (b.clone(), None),
            Some(OwnedSelection::Block { index, absolute, .. }) => {
                let (at, number) = self.block_number(info, step, *index, *absolute)?;
                step = at;
                let block = self.blocks(info, step)?.into_iter().nth(number as usize);
                let block = block.ok_or_else(|| bounds(info, step, format!("no block {number}")))?;
                (block.as_box(), Some(number))
            }
            _ if local => {
                let first = self.first_block(info, step)?;
                (BoundingBox::whole(&first.count), Some(0))
            }
            _ => {
                let shape = self.reader().shape(&info.name, step).map_err(|e| Doing::Read.failed(self.place(e)))?;
                (BoundingBox::whole(&shape), None)
            }
        };
        if within.count.len() != dims || (rank != dims && rank != 1) {
            return Err(argument(info, format!("points of {rank} dimensions, the variable has {dims}")));
        }
        let leaves = |point: &[u64]| bounds(info, step, format!("point {point:?} leaves {:?}", within.count));
        let mut points = Vec::with_capacity(n);
        for point in coordinates.chunks_exact(rank.max(1)) {
            let point = if rank == dims {
                row_major(&within.count, point).map(|_| point.to_vec())
            } else {
                point_at(&within.count, point[0])
            }
            .ok_or_else(|| leaves(point))?;
            points.push(point);
        }
        if let Some(number) = block {
            let at = points.iter().map(|p| row_major(&within.count, p)).collect();
            return Ok(vec![Read { step, selection: Selection::Block(number), length, delivery: Delivery::Pick(at) }]);
        }
        if local {
            let first = self.first_block(info, step)?;
            let mut at = Vec::with_capacity(n);
            for p in &points {
                let p: Vec<u64> = p.iter().zip(&within.offset).map(|(p, o)| p.saturating_add(*o)).collect();
                at.push(Some(row_major(&first.count, &p).ok_or_else(|| leaves(&p))?));
            }
            return Ok(vec![Read { step, selection: Selection::Block(0), length, delivery: Delivery::Pick(at) }]);
        }
        for point in &mut points {
            point.iter_mut().zip(&within.offset).for_each(|(p, o)| *p = p.saturating_add(*o));
        }
        Ok(vec![Read { step, selection: Selection::Points(points), length, delivery: Delivery::Straight }])
    }

    /// Warns, once, of blocks without a checksum, if checksums are to be compared.
    pub fn say_unchecked(&self) {
        if self.reader().blocks_without_checksum() > 0 {
            let what = "blocks without checksums are read unchecked: the library that wrote them makes none";
            thalweg_warnings::tell_once(&format!("{}: {what}", self.path));
        }
    }

    /// Carries out one read that is not straight.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn read_indirectly(&self, info: &Info, read: &Read, out: &mut [u8]) -> Outcome<()> {
        let fetch = |selection: &Selection| {
            let fetched = self.reader().read_to_vec(&info.name, read.step, selection);
            fetched.map_err(|e| Doing::Read.failed(self.place(e)))
        };
        let fetched = fetch(&read.selection)?;
        self.say_unchecked();
        place(&read.delivery, &fetched, info.element, out);
        Ok(())
    }

    /// Carries out one read.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn read_one(&self, info: &Info, read: &Read, out: &mut [u8]) -> Outcome<()> {
        match read.delivery {
            Delivery::Straight => {
                let done = self.reader().read(&info.name, read.step, &read.selection, out);
                self.say_unchecked();
                done.map(drop).map_err(|e: Error| Doing::Read.failed(self.place(e)))
            }
            _ => self.read_indirectly(info, read, out),
        }
    }

    /// The box of the global array that a piece holds, where it holds one.
    pub fn box_of(&self, request: &ScheduledRead) -> OwnedSelection {
        match &request.part {
            OwnedSelection::All if request.info.is_global() => {
                OwnedSelection::Box(BoundingBox::whole(&request.info.shape))
            }
            part => part.clone(),
        }
    }
}

fn place(delivery: &Delivery, fetched: &[u8], element: ElementType, out: &mut [u8]) {
    let size = element.size() as usize;
    match delivery {
        Delivery::Straight => {
            let n = out.len().min(fetched.len());
            out[..n].copy_from_slice(&fetched[..n]);
        }
        Delivery::Cut { from, to } => copy_shared(from, fetched, to, out, size),
        Delivery::Pick(at) => {
            for (to, at) in out.chunks_exact_mut(size.max(1)).zip(at) {
                let found = at.and_then(|at| fetched.get(at as usize * size..(at as usize + 1) * size));
                if let Some(value) = found {
                    to.copy_from_slice(value);
                }
            }
        }
        Delivery::Range(first, length) => {
            if let Some(part) = fetched.get(*first as usize..(first + length) as usize) {
                out[..part.len()].copy_from_slice(part);
            }
        }
        Delivery::Text => {
            let n = fetched.len().min(out.len().saturating_sub(1));
            out[..n].copy_from_slice(&fetched[..n]);
            if let Some(end) = out.get_mut(n) {
                *end = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_box_and_points_of_it_are_each_others_inverse() {
        let count = [2, 3, 4];
        for n in 0..24 {
            assert_eq!(row_major(&count, &point_at(&count, n).unwrap()), Some(n));
        }
        assert_eq!(point_at(&count, 24), None);
        assert_eq!(row_major(&count, &[1, 3, 0]), None);
    }
}
