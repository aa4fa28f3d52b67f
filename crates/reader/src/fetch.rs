//! Fetching: reads the extents of a plan in order and places the bytes, in this machine's byte order.

use crate::crew::{self, most_threads};
use crate::object::Object;
use crate::plan::{Limits, Piece, Plan};
use crate::precision::Kept;
use crate::stream;
use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use thalweg_bp::source::Source;
#[cfg(doc)]
use thalweg_layout::ReadObject;
use thalweg_types::element::swap_bytes;
use thalweg_types::{ElementType, Error, ErrorKind, Result};

mod far;
mod picked;

/// Numbers in memory whose bytes are those of an element type.
pub trait Element: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Copy {
    /// Whether values of this type in a file are of this Rust type.
    fn is(element: ElementType) -> bool;
}

macro_rules! element {
    ($($rust:ty: $($t:ident)|+),* $(,)?) => {$(
        impl Element for $rust {
            fn is(element: ElementType) -> bool {
                matches!(element, $(ElementType::$t)|+)
            }
        }
    )*};
}
element! {
    i8: I8, i16: I16, i32: I32, i64: I64, u8: U8 | Char | String, u16: U16, u32: U32, u64: U64, f32: F32, f64: F64,
    [f32; 2]: Complex, [f64; 2]: DoubleComplex, [u8; 16]: LongDouble,
}

/// A plan and the memory it fills.
pub struct Order<'a> {
    /// Targets count from the start of `out`.
    pub plan: &'a Plan,
    /// Word size for swapping, if the file has the other byte order; else 1.
    pub word: u64,
    /// The bytes of its numbers that are kept, if not all; the others become 0.
    pub(crate) kept: Option<Kept>,
    /// The memory may be divided at multiples of this many bytes: no run crosses them.
    pub pitch: u64,
    /// The memory.
    pub out: &'a mut [u8],
}

/// Opens the object of a subfile, or of the file itself.
pub type Opening<'a> = &'a (dyn Fn(Option<u32>) -> Result<Object> + Sync);
/// Gives the values of a block that has to be decoded, in the file's byte order, by number of the order and [`crate::plan::Stored::coded`].
pub type Decoding<'a> = &'a (dyn Fn(usize, u32) -> Result<Vec<u8>> + Sync);

/// Bytes that are read for a task, which one thread places at a time.
const TASK: u64 = 4 << 20;
/// Results of at least this size bypass the caches.
const LARGE: u64 = 8 << 20;
/// Least length of a run for such copies.
const STREAMED: u64 = 256;
/// Fixed cost of a read, expressed in bytes.
const READ: u64 = 16 << 10;
/// Part of an order's memory, with its position among the memory of all orders of a call.
struct Span<'a> {
    base: u64,
    word: u64,
    bytes: &'a mut [u8],
}

/// Pieces that fill these spans and no other: the task of one thread.
struct Task<'a> {
    spans: Vec<Span<'a>>,
    plan: Plan,
    /// The place of the order among all, where there is one alone.
    order: Option<usize>,
}

/// Executes plans: reads their extents in file order, joins neighbouring ones into one read, and places the bytes.
///
/// Threads fill disjoint parts of the memory; helper threads start only if the call takes long. Memory beside the
/// caller's: [`Limits::window`] per thread. From stores whose requests take long ([`Limits::is_far`]) whole windows are read
/// at the same time, up to 16 of them, and placed by the caller's thread. From objects at servers that pick out bytes
/// ([`ReadObject::picks`]) pieces with wide gaps are read as views, without the gaps. Blocks that have to be decoded are decoded by threads and placed by the
/// caller's, at most one more than threads in memory.
///
/// # Errors
/// With the place of the order where only one can be meant.
pub fn execute(
    orders: Vec<Order<'_>>,
    limits: &Limits,
    open: Opening<'_>,
    decode: Decoding<'_>,
) -> std::result::Result<(), (Error, Option<usize>)> {
    let alone = orders.len() == 1;
    let mut later = Vec::new();
    for (number, order) in orders.iter().enumerate().filter(|(_, o)| !o.plan.coded.is_empty()) {
        later.push((number, order.plan));
    }
    let mut orders = orders;
    let left = picked::apart(&mut orders, limits, open)?;
    if let Some(left) = &left {
        orders = orders.into_iter().zip(left).map(|(order, plan)| Order { plan, ..order }).collect();
    }
    if limits.is_far() {
        for mut task in far::joined(&mut orders, alone) {
            far::run(&mut task, limits, open).map_err(|e| (e, task.order))?;
        }
        return place_later(later, &mut orders, limits, decode);
    }
    let large = orders.iter().flat_map(|o| &o.plan.pieces).map(Piece::bytes).sum::<u64>() >= LARGE;
    let tasks = cut(&mut orders, alone, limits);
    run_all(tasks, large, limits, open)?;
    place_later(later, &mut orders, limits, decode)
}

/// The pieces that must be decoded first.
fn place_later(
    later: Vec<(usize, &Plan)>,
    orders: &mut [Order<'_>],
    limits: &Limits,
    decode: Decoding<'_>,
) -> std::result::Result<(), (Error, Option<usize>)> {
    for (number, plan) in later {
        let (word, out) = (orders[number].word, &mut *orders[number].out);
        place_decoded(plan, word, out, limits.is_far(), &|block| decode(number, block))
            .map_err(|e| (e, Some(number)))?;
    }
    Ok(())
}

/// Opens the object of a file that must reach byte `end`; the error names byte `from`.
fn opened(file: Option<u32>, (end, from): (u64, u64), open: Opening<'_>) -> Result<Object> {
    let object = open(file)?.reaching(end)?;
    if end > object.length() {
        let what = format!("a block ends at byte {end}, the file at byte {}", object.length());
        return Err(Error::new(ErrorKind::Torn, what).in_object(&*object.path).at_byte(from));
    }
    Ok(object)
}

/// Disjoint parts that threads can fill. Orders whose blocks share elements keep the order of their pieces.
fn cut<'a>(orders: &'a mut [Order<'_>], alone: bool, limits: &Limits) -> Vec<Task<'a>> {
    let mut tasks = Vec::new();
    let mut joined = Task { spans: Vec::new(), plan: Plan::default(), order: None };
    let (mut base, mut cost) = (0, 0);
    for (number, order) in orders.iter_mut().enumerate().filter(|(_, o)| !o.plan.pieces.is_empty()) {
        let number = alone.then_some(number);
        let (word, length) = (order.word, order.out.len() as u64);
        if order.plan.overlapping {
            let span = Span { base: 0, word, bytes: &mut *order.out };
            let plan = Plan { pieces: order.plan.pieces.clone(), overlapping: true, ..Plan::default() };
            tasks.push(Task { spans: vec![span], plan, order: number });
            continue;
        }
        let own: u64 = order.plan.pieces.iter().map(|p| p.transferred(limits).saturating_add(READ)).sum();
        let pitch = order.pitch.max(1);
        // As many rows as make a task.
        let parts = (own / TASK).clamp(1, length.div_ceil(pitch).max(1));
        let rows = length.div_ceil(pitch).div_ceil(parts).max(1);
        let step = rows.saturating_mul(pitch).max(1);
        if parts == 1 {
            joined.spans.push(Span { base, word, bytes: &mut *order.out });
            let moved = order.plan.pieces.iter().map(|p| Piece { target: p.target + base, ..p.clone() });
            joined.plan.pieces.extend(moved);
            (base, cost) = (base + length, cost + own);
            if cost >= TASK {
                tasks.push(std::mem::replace(
                    &mut joined,
                    Task { spans: Vec::new(), plan: Plan::default(), order: None },
                ));
                (base, cost) = (0, 0);
            }
            continue;
        }
        let mut bands: Vec<Vec<Piece>> = vec![Vec::new(); length.div_ceil(step) as usize];
        for piece in &order.plan.pieces {
            piece.clone().cut_every(step, &mut |band, part| bands[band as usize].push(part));
        }
        for ((i, bytes), pieces) in order.out.chunks_mut(step as usize).enumerate().zip(bands) {
            let span = Span { base: i as u64 * step, word, bytes };
            tasks.push(Task { spans: vec![span], plan: Plan { pieces, ..Plan::default() }, order: number });
        }
    }
    if !joined.plan.pieces.is_empty() {
        joined.order = alone.then_some(0);
        tasks.push(joined);
    }
    tasks
}

/// Runs tasks in order, with helper threads if that takes long. The first error stops all.
fn run_all(
    tasks: Vec<Task<'_>>,
    large: bool,
    limits: &Limits,
    open: Opening<'_>,
) -> std::result::Result<(), (Error, Option<usize>)> {
    crew::work_off(tasks, Vec::new, |window, mut task| {
        run(&mut task, large, limits, open, window).map_err(|e| (e, task.order))
    })
}

fn run(task: &mut Task<'_>, large: bool, limits: &Limits, open: Opening<'_>, window: &mut Vec<u8>) -> Result<()> {
    if !task.plan.overlapping {
        task.plan.sort();
    }
    // Lengths of an index that may be damaged are compared with the length of its file before any read.
    let mut ends: BTreeMap<Option<u32>, (u64, u64)> = BTreeMap::new();
    for piece in &task.plan.pieces {
        let last = ends.entry(piece.file).or_default();
        *last = (*last).max((piece.source.saturating_add(piece.span()), piece.source));
    }
    let mut current: Option<(Option<u32>, Object)> = None;
    let spans = &mut task.spans;
    let outcome = task.plan.for_each_read(limits, |read| {
        let object = match &current {
            Some((file, object)) if *file == read.file => object,
            _ => {
                let (end, from) = ends.get(&read.file).copied().unwrap_or_default();
                &current.insert((read.file, opened(read.file, (end, from), open)?)).1
            }
        };
        let extent = read.extent;
        if let [one] = read.pieces.as_slice()
            && one.strides.is_empty()
        {
            let (place, word) = place(spans, one.target, one.run)?;
            object.read(extent.offset, place)?;
            swap_bytes(place, word);
            return Ok(());
        }
        if let [one] = read.pieces.as_slice()
            && one.scatters(limits)
        {
            let (place, word) = place(spans, one.target, one.target_span())?;
            return scatter(one, object, place, word);
        }
        let length = usize::try_from(extent.length).map_err(|_| too_short())?;
        if let Some(more) = length.checked_sub(window.len()) {
            window.try_reserve_exact(more).map_err(|_| no_window(length))?;
            window.resize(length, 0);
        }
        object.read(extent.offset, &mut window[..length])?;
        for piece in &read.pieces {
            let all = piece.target_span();
            let (to, word) = place(spans, piece.target, all)?;
            let from = &window[(piece.source - extent.offset) as usize..length];
            match large && word <= 1 && piece.run >= STREAMED {
                true => stream_runs(piece, from, to),
                false => copy(piece, from, to, word),
            }
        }
        Ok(())
    });
    stream::finish();
    outcome
}

/// Reads the runs of a piece, which lie behind each other in the file, each to its place.
fn scatter(piece: &Piece, object: &Object, to: &mut [u8], word: u64) -> Result<()> {
    const MOST: usize = 1024;
    let mut places: Vec<IoSliceMut<'_>> = Vec::with_capacity(MOST);
    let (mut at, mut outcome) = (piece.source, Ok(()));
    let mut flush = |places: &mut Vec<IoSliceMut<'_>>, outcome: &mut Result<()>| {
        if outcome.is_ok() {
            *outcome = object.read_pieces(at, places);
            at += places.len() as u64 * piece.run;
        }
        if word > 1 {
            places.iter_mut().for_each(|place| swap_bytes(place, word));
        }
        places.clear();
    };
    // Runs come in the order of memory: each is cut off the front of the remaining memory.
    let (mut rest, mut cut) = (to, 0);
    piece.for_each_run(&mut |_, target| {
        let (_, behind) = std::mem::take(&mut rest).split_at_mut((target - cut) as usize);
        let (run, behind) = behind.split_at_mut(piece.run as usize);
        (rest, cut) = (behind, target + piece.run);
        places.push(IoSliceMut::new(run));
        if places.len() == MOST {
            flush(&mut places, &mut outcome);
        }
    });
    flush(&mut places, &mut outcome);
    outcome
}

fn no_window(length: usize) -> Error {
    let what = format!("cannot allocate {length} bytes to read a range with gaps; read it in parts");
    Error::new(ErrorKind::NoMemory, what)
}

fn too_short() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the buffer to read into is too short")
}

/// The memory at a place, and its word.
fn place<'s>(spans: &'s mut [Span<'_>], at: u64, length: u64) -> Result<(&'s mut [u8], u64)> {
    let number = spans.partition_point(|s| s.base <= at).checked_sub(1).ok_or_else(too_short)?;
    let span = &mut spans[number];
    let range = usize::try_from(at - span.base).ok().zip(usize::try_from(length).ok());
    let word = span.word;
    let bytes = range.and_then(|(at, length)| span.bytes.get_mut(at..at.checked_add(length)?));
    bytes.map(|bytes| (bytes, word)).ok_or_else(too_short)
}

/// Decodes blocks and puts their pieces in place. Where several are large, threads decode, and the caller places.
fn place_decoded(
    plan: &Plan,
    word: u64,
    out: &mut [u8],
    far: bool,
    decode: &(dyn Fn(u32) -> Result<Vec<u8>> + Sync),
) -> Result<()> {
    let groups: Vec<&[(u32, Piece)]> = plan.coded.chunk_by(|a, b| a.0 == b.0).collect();
    let put = |group: &[(u32, Piece)], bytes: &[u8], out: &mut [u8]| {
        for (_, piece) in group {
            let from = usize::try_from(piece.source).ok().zip(usize::try_from(piece.span()).ok());
            let from = from.and_then(|(at, length)| bytes.get(at..at.checked_add(length)?)).ok_or_else(|| {
                Error::new(ErrorKind::Corrupt, format!("a block gave {} bytes, too few for its shape", bytes.len()))
            })?;
            let mut span = [Span { base: 0, word, bytes: &mut *out }];
            let (to, _) = place(&mut span, piece.target, piece.target_span())?;
            copy(piece, from, to, word);
        }
        Ok(())
    };
    let threads = most_threads().min(groups.len());
    let large = plan.coded.iter().map(|(_, p)| p.bytes()).sum::<u64>() >= 1 << 20;
    if threads < 2 || !(large || far) || plan.overlapping {
        return groups.iter().try_for_each(|group| put(group, &decode(group[0].0)?, out));
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, decoded) = mpsc::sync_channel(1);
        for _ in 0..threads {
            let (sender, next, groups) = (sender.clone(), &next, &groups);
            scope.spawn(move || {
                while let Some(group) = groups.get(next.fetch_add(1, Relaxed)) {
                    // After a failure the channel has no receiver any more.
                    if sender.send((*group, decode(group[0].0))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        decoded.into_iter().try_for_each(|(group, bytes)| put(group, &bytes?, out))
    })
}

/// Copies the runs of a piece, in one pass: `from` and `to` begin where it begins.
fn copy(piece: &Piece, from: &[u8], to: &mut [u8], word: u64) {
    // Single elements have a length the compiler knows.
    match piece.run {
        1 => runs::<1>(piece, from, to),
        2 => runs::<2>(piece, from, to),
        4 => runs::<4>(piece, from, to),
        8 => runs::<8>(piece, from, to),
        16 => runs::<16>(piece, from, to),
        n => piece.for_each_run(&mut |s, t| {
            let (s, t, n) = (s as usize, t as usize, n as usize);
            to[t..t + n].copy_from_slice(&from[s..s + n]);
        }),
    }
    if word > 1 {
        piece.for_each_run(&mut |_, t| swap_bytes(&mut to[t as usize..(t + piece.run) as usize], word));
    }
}

/// As [`copy`], past the caches.
fn stream_runs(piece: &Piece, from: &[u8], to: &mut [u8]) {
    let n = piece.run as usize;
    piece.for_each_run(&mut |s, t| stream::copy(&from[s as usize..][..n], &mut to[t as usize..][..n]));
}

fn runs<const N: usize>(piece: &Piece, from: &[u8], to: &mut [u8]) {
    piece.for_each_run(&mut |s, t| {
        let (s, t) = (s as usize, t as usize);
        to[t..t + N].copy_from_slice(&from[s..s + N]);
    });
}
