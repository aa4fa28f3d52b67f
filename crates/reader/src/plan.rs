//! Planning: from a selection and the blocks of a step to extents to read and copies to make. Pure.
//!
//! A [`Piece`] is the contribution of a block to a selection: runs of bytes in its file and their targets, as strides. Pieces are ordered
//! by file and offset; [`Plan::for_each_read`] joins neighbouring ones into one read, and splits those that are too large or too sparse.
//!
//! Source: reading through gaps is data sieving: Thakur, Gropp, Lusk, Frontiers 1999.

use crate::overlap;
use thalweg_types::{BoundingBox, Extent, MemorySelection};

/// Limits of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Gaps up to this many bytes are read through instead of skipped, if they are not larger than the requested bytes.
    pub merge_gap: u64,
    /// Gaps up to this many bytes are always read through, because another request costs more.
    pub skip: u64,
    /// Bytes of memory for one read into a window.
    pub window: u64,
    /// Contiguous pieces of at least this size are read directly to their target, alone.
    pub direct: u64,
    /// So are pieces whose target has gaps, if the runs between them are at least this long.
    pub scatter: u64,
}

impl Default for Limits {
    /// 64 KiB; a page; 1 MiB, which fits a processor's cache until it is copied; 256 KiB; a page if copies bypass the cache
    /// (shorter runs cost more as separate pieces of memory than as copied bytes), else 512 bytes.
    fn default() -> Limits {
        let scatter = if crate::stream::HERE { 4096 } else { 512 };
        Limits { merge_gap: 64 << 10, skip: 4096, window: 1 << 20, direct: 256 << 10, scatter }
    }
}

impl Limits {
    /// Limits for a store with a known cost of a request ([`thalweg_layout::Layout::request_cost`]).
    ///
    /// If requests are expensive, gaps up to their cost are read through, the transfer of a window takes four times as long as
    /// the wait for a request, and every byte is read into a window: no run is read alone.
    pub fn of(request_cost: u64) -> Limits {
        match request_cost {
            0 => Limits::default(),
            cost => {
                let window = cost.saturating_mul(4).clamp(4 << 20, 16 << 20);
                Limits { merge_gap: cost, skip: cost, window, direct: window, scatter: u64::MAX }
            }
        }
    }

    /// Whether requests take so long that several are made in parallel.
    pub fn is_far(&self) -> bool {
        self.scatter == u64::MAX
    }

    /// Whether a gap before `useful` bytes is read through.
    pub(crate) fn joins(&self, gap: u64, useful: u64) -> bool {
        gap <= self.merge_gap && (gap <= self.skip || gap <= useful)
    }
}

/// A block that may intersect a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The subfile; `None` for the file itself.
    pub file: Option<u32>,
    /// First byte of its payload.
    pub offset: u64,
    /// Its box in the array.
    pub bounds: BoundingBox,
    /// The number, within the plan, of a block that must be decoded as a whole; `offset` is then relative to the decoded bytes,
    /// and 0.
    pub coded: Option<u32>,
}

/// The position of a box in the caller's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// First byte of the array in memory.
    pub base: u64,
    /// Extents of the array, in elements.
    pub shape: Vec<u64>,
    /// Offset of the box in the array.
    pub start: Vec<u64>,
}

impl Target {
    /// The target of a box of `count` elements in an array that starts at byte `base`: part of `memory`, or all of it.
    pub fn new(count: &[u64], memory: Option<&MemorySelection>, base: u64) -> Target {
        match memory {
            Some(memory) => Target { base, shape: memory.shape.clone(), start: memory.start.clone() },
            None => Target { base, shape: count.to_vec(), start: vec![0; count.len()] },
        }
    }

    /// Bytes between two indices of the slowest dimension with an extent above 1.
    pub fn pitch(&self, size: u64) -> u64 {
        let slowest = self.shape.iter().position(|n| *n > 1).map_or(self.shape.len(), |d| d + 1);
        self.shape[slowest..].iter().fold(size, |n, extent| n.saturating_mul(*extent))
    }
}

/// `count` repetitions, at constant distances in the file and in the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stride {
    /// Number of repetitions.
    pub count: u64,
    /// Distance in the file, in bytes.
    pub source: u64,
    /// Distance in the target, in bytes.
    pub target: u64,
}

/// Runs of bytes in a file and their targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The subfile; `None` for the file itself.
    pub file: Option<u32>,
    /// First byte in the file.
    pub source: u64,
    /// First byte in the target.
    pub target: u64,
    /// Length of a run, in bytes.
    pub run: u64,
    /// Repetitions of the run, outermost first.
    pub strides: Vec<Stride>,
}

impl Piece {
    /// Bytes from the first to the last one needed.
    pub fn span(&self) -> u64 {
        self.span_from(0)
    }

    fn span_from(&self, level: usize) -> u64 {
        self.run + self.strides[level..].iter().map(|s| (s.count - 1) * s.source).sum::<u64>()
    }

    /// Number of needed bytes.
    pub fn bytes(&self) -> u64 {
        self.run * self.strides.iter().map(|s| s.count).product::<u64>()
    }

    /// Number of bytes that reads bring: the needed ones, and gaps that are read through.
    pub fn transferred(&self, limits: &Limits) -> u64 {
        let (mut span, mut useful, mut all) = (self.run, self.run, self.run);
        for stride in self.strides.iter().rev() {
            let joins = all == span && limits.joins(stride.source.saturating_sub(span), useful);
            let wider = span.saturating_add((stride.count - 1).saturating_mul(stride.source));
            all = if joins { wider } else { all.saturating_mul(stride.count) };
            (span, useful) = (wider, useful.saturating_mul(stride.count));
        }
        all
    }

    /// Number of such reads, as far as windows don't cut them.
    pub fn reads(&self, limits: &Limits) -> u64 {
        let (mut span, mut useful, mut reads) = (self.run, self.run, 1u64);
        for stride in self.strides.iter().rev() {
            if reads > 1 || !limits.joins(stride.source.saturating_sub(span), useful) {
                reads = reads.saturating_mul(stride.count);
            }
            span = span.saturating_add((stride.count - 1).saturating_mul(stride.source));
            useful = useful.saturating_mul(stride.count);
        }
        reads
    }

    /// Bytes from the first to the last one filled.
    pub fn target_span(&self) -> u64 {
        self.run + self.strides.iter().map(|s| (s.count - 1) * s.target).sum::<u64>()
    }

    /// Whether its bytes are contiguous in the file and its runs long enough to be read to their targets one by one.
    pub fn scatters(&self, limits: &Limits) -> bool {
        self.run >= limits.scatter && self.is_contiguous()
    }

    /// Whether the needed bytes are contiguous in the file.
    fn is_contiguous(&self) -> bool {
        self.span() == self.bytes()
    }

    /// Calls `each` with the offsets of every run: relative to `source`, and to `target`.
    pub fn for_each_run(&self, each: &mut impl FnMut(u64, u64)) {
        fn level(strides: &[Stride], source: u64, target: u64, each: &mut impl FnMut(u64, u64)) {
            match strides {
                [] => each(source, target),
                // The innermost loop, which runs longest, calls no function.
                [s] => (0..s.count).for_each(|i| each(source + i * s.source, target + i * s.target)),
                [s, inner @ ..] => {
                    for i in 0..s.count {
                        level(inner, source + i * s.source, target + i * s.target, each);
                    }
                }
            }
        }
        level(&self.strides, 0, 0, each);
    }

    /// Splits the piece where the target crosses a multiple of `step` bytes, and calls `each` with the parts and the number of
    /// steps before them.
    pub fn cut_every(self, step: u64, each: &mut impl FnMut(u64, Piece)) {
        let band = self.target / step;
        if (self.target + self.target_span() - 1) / step == band {
            return each(band, self);
        }
        let Some((s, inner)) = self.strides.split_first() else {
            let mut done = 0;
            while done < self.run {
                let target = self.target + done;
                let run = (step - target % step).min(self.run - done);
                each(target / step, Piece { source: self.source + done, target, run, strides: Vec::new(), ..self });
                done += run;
            }
            return;
        };
        // As many repetitions at a time as end in the same step; a repetition that crosses the boundary is split itself.
        let one = Piece { strides: inner.to_vec(), ..self };
        let span = one.target_span();
        let mut i = 0;
        while i < s.count {
            let start = self.target + i * s.target;
            let room = step - start % step;
            let together = if span <= room { ((room - span) / s.target.max(1) + 1).min(s.count - i) } else { 0 };
            let (source, target) = (self.source + i * s.source, start);
            if together == 0 {
                Piece { source, target, strides: one.strides.clone(), ..one }.cut_every(step, each);
                i += 1;
                continue;
            }
            let mut strides = one.strides.clone();
            if together > 1 {
                strides.insert(0, Stride { count: together, ..*s });
            }
            each(start / step, Piece { source, target, strides, ..one });
            i += together;
        }
    }

    /// Calls `each` with parts that fit one read: no gap above `merge_gap`, and at most `window` bytes unless contiguous.
    fn parts(&self, limits: &Limits, each: &mut impl FnMut(Piece)) {
        // If all bytes are needed, a window that fits the nearest cache; if much is read through, fewer and longer reads.
        let window = if self.is_contiguous() && !self.scatters(limits) {
            limits.window.min(limits.direct)
        } else {
            limits.window
        };
        let mut level = self.strides.len();
        let (mut span, mut useful) = (self.run, self.run);
        while level > 0 {
            let s = self.strides[level - 1];
            let wider = span + (s.count - 1) * s.source;
            if !limits.joins(s.source - span, useful) || wider > window {
                break;
            }
            (level, span, useful) = (level - 1, wider, useful * s.count);
        }
        if level == 0 {
            return each(self.clone());
        }
        // As many repetitions of the stride that did not fit as a window can contain.
        let s = self.strides[level - 1];
        let together =
            if !limits.joins(s.source - span, useful) || span > window { 1 } else { 1 + (window - span) / s.source };
        let outer = Piece { strides: self.strides[..level - 1].to_vec(), ..self.clone() };
        outer.for_each_run(&mut |source, target| {
            let mut done = 0;
            while done < s.count {
                let count = together.min(s.count - done);
                let mut strides = Vec::with_capacity(self.strides.len() - level + 1);
                if count > 1 {
                    strides.push(Stride { count, ..s });
                }
                strides.extend_from_slice(&self.strides[level..]);
                each(Piece {
                    file: self.file,
                    source: self.source + source + done * s.source,
                    target: self.target + target + done * s.target,
                    run: self.run,
                    strides,
                });
                done += count;
            }
        });
    }
}

/// One read, and the targets of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// The subfile; `None` for the file itself.
    pub file: Option<u32>,
    /// The extent to read.
    pub extent: Extent,
    /// The pieces to place, in this order.
    pub pieces: Vec<Piece>,
}

/// The plan of one call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Pieces, in the order of reading.
    pub pieces: Vec<Piece>,
    /// Pieces of blocks that must be decoded first, with the block's number, in the order of the numbers.
    pub coded: Vec<(u32, Piece)>,
    /// Elements that blocks contribute; an element that blocks share counts once for each: see [`Plan::filled`].
    pub elements: u64,
    /// Whether blocks share elements, so that the order of pieces matters.
    pub overlapping: bool,
}

impl Plan {
    /// Joins plans of different parts of the target.
    pub fn join(plans: impl IntoIterator<Item = Plan>) -> Plan {
        let mut all = Plan::default();
        for mut plan in plans {
            all.pieces.append(&mut plan.pieces);
            all.coded.append(&mut plan.coded);
            all.elements = all.elements.saturating_add(plan.elements);
            all.overlapping |= plan.overlapping;
        }
        if !all.overlapping {
            all.sort();
        }
        all
    }

    /// Number of filled elements of a target of `elements` elements, each counted once.
    pub fn filled(&self, size: u64, elements: u64) -> u64 {
        if !self.overlapping {
            return self.elements;
        }
        let mut filled = vec![false; elements as usize];
        for p in self.pieces.iter().chain(self.coded.iter().map(|(_, piece)| piece)) {
            p.for_each_run(&mut |_, target| {
                let start = ((p.target + target) / size) as usize;
                filled[start..start + (p.run / size) as usize].fill(true);
            });
        }
        filled.iter().filter(|f| **f).count() as u64
    }

    fn add(&mut self, stored: &Stored, piece: Piece) {
        match stored.coded {
            Some(number) => self.coded.push((number, piece)),
            None => self.pieces.push(piece),
        }
    }

    pub(crate) fn sort(&mut self) {
        self.coded.sort_by_key(|(number, piece)| (*number, piece.source));
        self.pieces.sort_by_key(|p| (p.file, p.source));
        // Pieces that are neighbours in the file and in the target are joined.
        self.pieces.dedup_by(|next, last| {
            let one = next.strides.is_empty()
                && last.strides.is_empty()
                && next.file == last.file
                && next.source == last.source + last.run
                && next.target == last.target + last.run;
            if one {
                last.run += next.run;
            }
            one
        });
    }

    /// Calls `each` with the reads, in order.
    ///
    /// # Errors
    /// The first failure of `each`, which ends the calls.
    pub fn for_each_read<E>(&self, limits: &Limits, mut each: impl FnMut(&Read) -> Result<(), E>) -> Result<(), E> {
        let mut open: Option<Read> = None;
        let mut failed = None;
        for piece in &self.pieces {
            piece.parts(limits, &mut |part| {
                if failed.is_some() {
                    return;
                }
                let (start, end) = (part.source, part.source + part.span());
                let alone = part.is_contiguous() && end - start >= limits.direct;
                if let Some(read) = &mut open {
                    let last = read.extent.offset + read.extent.length;
                    let joins = !alone
                        && read.file == part.file
                        && start >= read.extent.offset
                        && limits.joins(start.saturating_sub(last), part.bytes())
                        && end.max(last) - read.extent.offset <= limits.window;
                    if joins {
                        read.extent.length = end.max(last) - read.extent.offset;
                        read.pieces.push(part);
                        return;
                    }
                    failed = each(read).err();
                    open = None;
                    if failed.is_some() {
                        return;
                    }
                }
                let read = Read { file: part.file, extent: Extent::new(start, end - start), pieces: vec![part] };
                if alone {
                    failed = each(&read).err();
                } else {
                    open = Some(read);
                }
            });
            if let Some(e) = failed.take() {
                return Err(e);
            }
        }
        open.map_or(Ok(()), |read| each(&read))
    }
}

/// The elements of a box that are requested: all of them, or every n-th one along each dimension.
#[derive(Debug, Clone, Copy)]
pub struct Lattice<'a> {
    /// The box.
    pub bounds: &'a BoundingBox,
    /// One number for each dimension, slowest first, at least 1; none for all elements.
    pub stride: Option<&'a [u64]>,
}

impl<'a> Lattice<'a> {
    /// All elements of a box.
    pub fn whole(bounds: &'a BoundingBox) -> Lattice<'a> {
        Lattice { bounds, stride: None }
    }

    fn stride(&self, d: usize) -> u64 {
        self.stride.map_or(1, |stride| stride[d])
    }

    /// Number of requested elements along each dimension.
    pub fn count(&self) -> Vec<u64> {
        (0..self.bounds.rank()).map(|d| self.bounds.count[d].div_ceil(self.stride(d))).collect()
    }

    /// The requested elements within a block, as a box of all requested ones; `None` if there are none.
    fn within(&self, block: &BoundingBox) -> Option<BoundingBox> {
        let shared = block.intersect(self.bounds)?;
        let mut inside = BoundingBox::default();
        for d in 0..shared.rank() {
            let (stride, from) = (self.stride(d), shared.offset[d] - self.bounds.offset[d]);
            let (first, end) = (from.div_ceil(stride), (from + shared.count[d]).div_ceil(stride));
            if first == end {
                return None;
            }
            inside.offset.push(first);
            inside.count.push(end - first);
        }
        Some(inside)
    }
}

/// The piece of `inside`, requested elements of a block as a box of all `requested` ones. Sizes must have been checked: they fit 64
/// bits.
fn piece(stored: &Stored, inside: &BoundingBox, requested: Lattice<'_>, size: u64, to: &Target) -> Piece {
    let (file, source) = (stored.file, stored.offset);
    let mut piece = Piece { file, source, target: to.base, run: size, strides: Vec::new() };
    let (mut source, mut target) = (size, size);
    for d in (0..inside.rank()).rev() {
        let stride = requested.stride(d);
        let first = requested.bounds.offset[d] + inside.offset[d] * stride;
        piece.source += (first - stored.bounds.offset[d]) * source;
        piece.target += (inside.offset[d] + to.start[d]) * target;
        let count = inside.count[d];
        if count > 1 {
            let source = source * stride;
            match piece.strides.last_mut() {
                None if source == piece.run && target == piece.run => piece.run *= count,
                Some(s) if source == s.source * s.count && target == s.target * s.count => s.count *= count,
                _ => piece.strides.push(Stride { count, source, target }),
            }
        }
        // After the last dimension the product is not used; it may exceed the block's bytes.
        source = source.wrapping_mul(stored.bounds.count[d]);
        target = target.wrapping_mul(to.shape[d]);
    }
    piece.strides.reverse();
    piece
}

/// Plans a box or every n-th element of one: the piece of each block, later blocks over earlier ones.
///
/// - `size`: bytes of an element.
pub fn of_box(requested: Lattice<'_>, blocks: &[Stored], size: u64, target: &Target) -> Plan {
    let (mut plan, mut parts) = (Plan::default(), Vec::new());
    for stored in blocks {
        if let Some(inside) = requested.within(&stored.bounds) {
            plan.add(stored, piece(stored, &inside, requested, size, target));
            parts.push(inside);
        }
    }
    plan.elements = parts.iter().map(|p| p.elements().unwrap_or(0)).fold(0, u64::saturating_add);
    // If blocks share elements their order determines the result, so it is kept.
    plan.overlapping = overlap::find(&parts).is_some();
    if !plan.overlapping {
        plan.sort();
    }
    plan
}

/// Plans single elements, in the order of `points`, each from the last block that contains it.
pub fn of_points(points: &[Vec<u64>], blocks: &[Stored], size: u64, base: u64) -> Plan {
    // Points by their slowest index: a block examines only those between its first and last row.
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|i| points[*i].first().copied());
    let mut owner: Vec<Option<usize>> = vec![None; points.len()];
    for (b, stored) in blocks.iter().enumerate() {
        let rows = match (stored.bounds.offset.first(), stored.bounds.count.first()) {
            (Some(first), Some(count)) => {
                let from = order.partition_point(|i| points[*i].first() < Some(first));
                let to = order.partition_point(|i| points[*i].first() < Some(&first.saturating_add(*count)));
                from..to.max(from)
            }
            _ => 0..order.len(),
        };
        for i in &order[rows] {
            let inside = points[*i].len() == stored.bounds.rank()
                && points[*i]
                    .iter()
                    .zip(stored.bounds.offset.iter().zip(&stored.bounds.count))
                    .all(|(p, (o, c))| p >= o && p - o < *c);
            if inside {
                owner[*i] = Some(b);
            }
        }
    }
    let mut plan = Plan::default();
    for (i, b) in owner.iter().enumerate().filter_map(|(i, b)| Some((i, (*b)?))) {
        let point = BoundingBox { offset: points[i].clone(), count: vec![1; points[i].len()] };
        let target = Target::new(&point.count, None, base + i as u64 * size);
        let first = BoundingBox { offset: vec![0; points[i].len()], count: vec![1; points[i].len()] };
        plan.add(&blocks[b], piece(&blocks[b], &first, Lattice::whole(&point), size, &target));
        plan.elements += 1;
    }
    plan.sort();
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_that_are_read_through_are_bytes_of_a_read() {
        let piece = |run, strides: &[(u64, u64)]| Piece {
            file: None,
            source: 0,
            target: 0,
            run,
            strides: strides
                .iter()
                .map(|(count, source)| Stride { count: *count, source: *source, target: run })
                .collect(),
        };
        let limits = Limits::default();
        // An element of each row of a block of 64 x 64 x 64 doubles, whose rows have 512 bytes.
        let plane = piece(8, &[(64, 64 * 512), (64, 512)]);
        assert_eq!(plane.bytes(), 8 * 64 * 64);
        assert_eq!((plane.transferred(&limits), plane.reads(&limits)), (plane.span(), 1));
        // Rows that are too far apart are skipped to.
        let far = piece(8, &[(64, 1 << 20), (64, 512)]);
        assert_eq!((far.transferred(&limits), far.reads(&limits)), (64 * (63 * 512 + 8), 64));
        assert_eq!(piece(100, &[]).transferred(&limits), 100);
    }
    use proptest::prelude::*;
    use std::convert::Infallible;

    /// Blocks laid one behind the other, with gaps, in one of three files; every element is a number of its own.
    struct World {
        files: Vec<Vec<u16>>,
        blocks: Vec<Stored>,
    }

    fn all(requested: &BoundingBox) -> Target {
        Target::new(&requested.count, None, 0)
    }

    fn coordinates(mut n: u64, b: &BoundingBox) -> Vec<u64> {
        let mut at = vec![0; b.rank()];
        for d in (0..b.rank()).rev() {
            at[d] = b.offset[d] + n % b.count[d];
            n /= b.count[d];
        }
        at
    }

    fn world(boxes: &[(BoundingBox, u32, u64)]) -> World {
        let mut world = World { files: vec![vec![]; 3], blocks: vec![] };
        let mut next = 1;
        for (bounds, file, gap) in boxes {
            let f = &mut world.files[*file as usize];
            f.resize(f.len() + *gap as usize, 0);
            let offset = 2 * f.len() as u64;
            world.blocks.push(Stored { file: Some(*file), offset, bounds: bounds.clone(), coded: None });
            for _ in 0..bounds.elements().unwrap() {
                f.push(next);
                next += 1;
            }
        }
        world
    }

    impl World {
        fn at(&self, point: &[u64]) -> Option<u16> {
            self.blocks.iter().rev().find_map(|b| {
                let one = BoundingBox::new(point, vec![1; point.len()]);
                b.bounds.intersect(&one).filter(|_| !point.is_empty()).or((point.is_empty()).then_some(one))?;
                let n = (0..point.len()).fold(0, |n, d| n * b.bounds.count[d] + point[d] - b.bounds.offset[d]);
                Some(self.files[b.file? as usize][b.offset as usize / 2 + n as usize])
            })
        }

        /// Follows a plan by the letter; checks that reads keep to the limits and to their own bytes.
        fn follow(&self, plan: &Plan, limits: &Limits, elements: usize) -> Vec<u16> {
            let mut out = vec![0u16; elements];
            let done: Result<(), Infallible> = plan.for_each_read(limits, |read| {
                let file = &self.files[read.file.unwrap() as usize];
                assert!(read.extent.end().unwrap() <= 2 * file.len() as u64);
                let contiguous = read.pieces.len() == 1 && read.pieces[0].strides.is_empty();
                assert!(read.extent.length <= limits.window || contiguous, "{read:?}");
                for p in &read.pieces {
                    assert!(p.source >= read.extent.offset && p.source + p.span() <= read.extent.end().unwrap());
                    p.for_each_run(&mut |source, target| {
                        for k in 0..p.run / 2 {
                            out[((p.target + target) / 2 + k) as usize] = file[((p.source + source) / 2 + k) as usize];
                        }
                    });
                }
                Ok(())
            });
            done.unwrap();
            out
        }
    }

    /// A shape of 0 to 7 dimensions, cut at random places into blocks that don't overlap, some left out, some doubled.
    fn decomposition() -> impl Strategy<Value = (Vec<u64>, Vec<(BoundingBox, u32, u64)>)> {
        (0usize..=7).prop_flat_map(|rank| {
            let most = [1u64, 40, 9, 6, 4, 3, 3, 3][rank];
            (
                prop::collection::vec(1..=most, rank),
                prop::collection::vec((0usize..7, 0.0f64..1.0, 0usize..8), 0..7),
                prop::collection::vec((0u32..3, 0u64..20, 0u8..10), 9),
            )
                .prop_map(|(shape, cuts, how)| {
                    let mut boxes = vec![BoundingBox::whole(&shape)];
                    for (d, at, which) in cuts {
                        let i = which % boxes.len();
                        let Some(count) = boxes[i].count.get(d).copied() else { continue };
                        let at = (count as f64 * at) as u64;
                        let mut other = boxes[i].clone();
                        boxes[i].count[d] = at;
                        other.offset[d] += at;
                        other.count[d] -= at;
                        boxes.push(other);
                    }
                    let mut blocks = Vec::new();
                    for (i, b) in boxes.into_iter().enumerate() {
                        let (file, gap, what) = how[i % how.len()];
                        if what > 0 {
                            blocks.push((b.clone(), file, gap));
                        }
                        if what > 7 {
                            blocks.push((b, file, gap));
                        }
                    }
                    (shape, blocks)
                })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]
        #[test]
        fn a_planned_box_holds_what_looking_up_each_element_gives(
            (shape, blocks) in decomposition(),
            from in prop::collection::vec(0.0f64..1.0, 7),
            size in prop::collection::vec(0.0f64..1.01, 7),
            stride in prop::option::of(prop::collection::vec(1u64..5, 7)),
            merge_gap in 0u64..60, window in 16u64..400, direct in 2u64..200,
        ) {
            let world = world(&blocks);
            let offset: Vec<u64> = shape.iter().zip(&from).map(|(s, f)| (*s as f64 * f) as u64).collect();
            let count: Vec<u64> =
                shape.iter().zip(&offset).zip(&size).map(|((s, o), f)| ((s - o) as f64 * f).ceil() as u64).collect();
            let count: Vec<u64> = count.iter().zip(&shape).zip(&offset).map(|((c, s), o)| (*c).min(s - o)).collect();
            let requested = BoundingBox::new(offset, count);
            let stride = stride.map(|s| s[..shape.len()].to_vec());
            let lattice = Lattice { bounds: &requested, stride: stride.as_deref() };
            let found = BoundingBox::whole(&lattice.count());
            let n = found.elements().unwrap();
            let element = |i| {
                let mut at = coordinates(i, &found);
                for (d, at) in at.iter_mut().enumerate() {
                    *at = requested.offset[d] + *at * stride.as_ref().map_or(1, |s| s[d]);
                }
                world.at(&at).unwrap_or(0)
            };
            let naive: Vec<u16> = (0..n).map(element).collect();
            let plan = of_box(lattice, &world.blocks, 2, &all(&found));
            // One element's window always fits a run of the tests' largest array.
            let limits = Limits { merge_gap, window, direct, skip: merge_gap.min(9), scatter: window / 3 };
            prop_assert_eq!(&world.follow(&plan, &limits, n as usize), &naive);
            if !shape.is_empty() {
                prop_assert_eq!(plan.filled(2, n), naive.iter().filter(|v| **v > 0).count() as u64);
            }
        }

        #[test]
        fn pieces_cut_anywhere_hold_the_same_bytes_each_within_one_step(
            run in 1u64..9, target in 0u64..50, step in 1u64..40,
            strides in prop::collection::vec((1u64..5, 0u64..7, 0u64..7), 0..4),
        ) {
            let mut piece = Piece { file: None, source: 1000, target, run, strides: Vec::new() };
            for (count, gap, hole) in strides {
                let (source, target) = (piece.span() + gap, piece.target_span() + hole);
                piece.strides.insert(0, Stride { count, source, target });
            }
            let bytes = |piece: &Piece| {
                let mut bytes = Vec::new();
                piece.for_each_run(&mut |s, t| {
                    bytes.extend((0..piece.run).map(|i| (piece.source + s + i, piece.target + t + i)));
                });
                bytes
            };
            let (whole, mut parts) = (bytes(&piece), Vec::new());
            piece.cut_every(step, &mut |band, part| {
                assert!(part.target / step == band && (part.target + part.target_span() - 1) / step == band, "{part:?}");
                parts.extend(bytes(&part));
            });
            prop_assert_eq!(parts, whole);
        }

        #[test]
        fn planned_points_hold_what_looking_up_each_gives(
            (shape, blocks) in decomposition(),
            points in prop::collection::vec(prop::collection::vec(0.0f64..1.0, 7), 0..20),
        ) {
            let world = world(&blocks);
            let points: Vec<Vec<u64>> = points
                .iter()
                .map(|p| shape.iter().zip(p).map(|(s, f)| (*s as f64 * f) as u64).collect())
                .collect();
            let naive: Vec<u16> = points.iter().map(|p| world.at(p).unwrap_or(0)).collect();
            let plan = of_points(&points, &world.blocks, 2, 0);
            prop_assert_eq!(&world.follow(&plan, &Limits::default(), points.len()), &naive);
        }
    }

    fn reads(plan: &Plan, limits: &Limits) -> Vec<Extent> {
        let mut extents = Vec::new();
        let done: Result<(), Infallible> = plan.for_each_read(limits, |r| {
            extents.push(r.extent);
            Ok(())
        });
        done.unwrap();
        extents
    }

    #[test]
    fn near_blocks_are_read_together_and_far_ones_apart() {
        let block =
            |offset: u64, x: u64| Stored { file: None, offset, bounds: BoundingBox::new([x], [10]), coded: None };
        // Given out of order; 20 bytes between the first two, 900 behind the second.
        let blocks = [block(200, 10), block(100, 0), block(1180, 20)];
        let requested = BoundingBox::new([0], [30]);
        let plan = of_box(Lattice::whole(&requested), &blocks, 8, &all(&requested));
        let limits = Limits { merge_gap: 64, skip: 64, window: 1000, direct: 1000, scatter: 1000 };
        assert_eq!(reads(&plan, &limits), [Extent::new(100, 180), Extent::new(1180, 80)]);
        assert_eq!(reads(&plan, &Limits { merge_gap: 10, ..limits }).len(), 3);
    }

    #[test]
    fn whole_rows_are_one_run_and_a_column_is_strided() {
        let block = [Stored { file: None, offset: 0, bounds: BoundingBox::new([0, 0], [100, 50]), coded: None }];
        let of_box = |requested: BoundingBox| of_box(Lattice::whole(&requested), &block, 8, &all(&requested));
        let rows = of_box(BoundingBox::new([10, 0], [20, 50]));
        assert_eq!((rows.pieces[0].run, rows.pieces[0].strides.len()), (20 * 50 * 8, 0));
        let column = of_box(BoundingBox::new([0, 7], [100, 1]));
        assert_eq!(column.pieces[0].strides, [Stride { count: 100, source: 400, target: 8 }]);
        // Read through in one go, or row by row where the gap is too wide.
        assert_eq!(reads(&column, &Limits::default()), [Extent::new(56, 99 * 400 + 8)]);
        assert_eq!(reads(&column, &Limits { merge_gap: 100, ..Limits::default() }).len(), 100);
    }
}
