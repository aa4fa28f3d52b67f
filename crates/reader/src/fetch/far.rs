//! Fetching from stores whose requests take long: several requests are under way at the same time, each for as many bytes as
//! are worth one, and their bytes are put where they belong by the caller's thread.
//!
//! | question | answer |
//! |----------|--------|
//! | what one request reads | neighbouring bytes of one file, gaps up to the cost of a request included, at most [`Limits::window`] bytes |
//! | how many at the same time | as many as hold 64 MiB, 4 to 16 |
//! | memory   | the window of each request under way, and one more that is being placed |
//! | order    | of the file; where blocks share elements one request after the other, as the later block counts |
//!
//! On a near store [`super::execute`] lets each thread fill its own part of the caller's memory instead: a part holds pieces of
//! many blocks, which would be a request each.

use super::{Opening, Order, Span, Task, copy, no_window, place, too_short};
use crate::object::Object;
use crate::plan::{Limits, Piece, Plan, Read};
use memmap2::{Advice, MmapMut};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use thalweg_bp::source::Source;
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// Bytes that requests under way may hold together.
const UNDER_WAY: u64 = 64 << 20;

/// Orders as tasks: all whose blocks share no elements in one, so that neighbours in the file are one request whichever order
/// they belong to.
pub(super) fn joined<'a>(orders: &'a mut [Order<'_>], alone: bool) -> Vec<Task<'a>> {
    let mut tasks = Vec::new();
    let mut all = Task { spans: Vec::new(), plan: Plan::default(), order: alone.then_some(0) };
    let mut base = 0;
    for (number, order) in orders.iter_mut().enumerate().filter(|(_, o)| !o.plan.pieces.is_empty()) {
        let (word, length) = (order.word, order.out.len() as u64);
        if order.plan.overlapping {
            let span = Span { base: 0, word, bytes: &mut *order.out };
            let plan = Plan { pieces: order.plan.pieces.clone(), overlapping: true, ..Plan::default() };
            tasks.push(Task { spans: vec![span], plan, order: alone.then_some(number) });
            continue;
        }
        all.spans.push(Span { base, word, bytes: &mut *order.out });
        all.plan.pieces.extend(order.plan.pieces.iter().map(|p| Piece { target: p.target + base, ..p.clone() }));
        base += length;
    }
    if !all.plan.pieces.is_empty() {
        tasks.push(all);
    }
    tasks
}

/// Carries out one task.
///
/// # Errors
/// Errors of opening and reading; the memory may then be filled in part.
pub(super) fn run(task: &mut Task<'_>, limits: &Limits, open: Opening<'_>) -> Result<()> {
    if !task.plan.overlapping {
        task.plan.sort();
    }
    let mut ends: BTreeMap<Option<u32>, (u64, u64)> = BTreeMap::new();
    for piece in &task.plan.pieces {
        let last = ends.entry(piece.file).or_default();
        *last = (*last).max((piece.source.saturating_add(piece.span()), piece.source));
    }
    let reads = reads(&task.plan, limits);
    let fetch = |read: &Read| -> Result<Memory> {
        let (end, from) = ends.get(&read.file).copied().unwrap_or_default();
        let object = super::opened(read.file, (end, from), open)?;
        bytes(&object, read.extent)
    };
    let spans = &mut task.spans;
    let mut put = |read: &Read, bytes: &[u8]| -> Result<()> {
        for piece in &read.pieces {
            let (to, word) = place(spans, piece.target, piece.target_span())?;
            let from = bytes.get((piece.source - read.extent.offset) as usize..).ok_or_else(too_short)?;
            copy(piece, from, to, word);
        }
        Ok(())
    };
    let threads = (UNDER_WAY / limits.window.max(1)).clamp(4, 16) as usize;
    let threads = threads.min(reads.len());
    if threads < 2 || task.plan.overlapping {
        return reads.iter().try_for_each(|read| put(read, &fetch(read)?));
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, fetched) = mpsc::sync_channel(0);
        for _ in 0..threads {
            let (sender, next, reads, fetch) = (sender.clone(), &next, &reads, &fetch);
            scope.spawn(move || {
                while let Some(read) = reads.get(next.fetch_add(1, Relaxed)) {
                    // After a failure the channel has no receiver any more.
                    if sender.send((read, fetch(read))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        fetched.into_iter().try_for_each(|(read, bytes)| put(read, &bytes?))
    })
}

/// The requests of a plan. Bytes that lie behind each other in the file and in memory are cut into windows, so that several
/// requests share a large block.
fn reads(plan: &Plan, limits: &Limits) -> Vec<Read> {
    let mut reads = Vec::new();
    let done: std::result::Result<(), std::convert::Infallible> = plan.for_each_read(limits, |read| {
        match read.pieces.as_slice() {
            [one] if one.strides.is_empty() && one.run > limits.window => {
                let mut cut = 0;
                while cut < one.run {
                    let run = limits.window.min(one.run - cut);
                    let piece =
                        Piece { source: one.source + cut, target: one.target + cut, run, strides: Vec::new(), ..*one };
                    reads.push(Read { file: read.file, extent: Extent::new(piece.source, run), pieces: vec![piece] });
                    cut += run;
                }
            }
            _ => reads.push(read.clone()),
        }
        Ok(())
    });
    match done {
        Ok(()) => reads,
        Err(never) => match never {},
    }
}

/// Memory from which on huge pages are asked for, in bytes: one of them.
const HUGE: usize = 2 << 20;

/// The bytes of one request.
enum Memory {
    Short(Vec<u8>),
    /// A thousand pages cost the system as much time as the request.
    Huge(MmapMut),
}

impl Memory {
    fn new(length: usize) -> Result<Memory> {
        // Where the system has no such memory, it is as other memory is.
        if length >= HUGE
            && let Ok(memory) = MmapMut::map_anon(length)
        {
            let _ = memory.advise(Advice::HugePage);
            return Ok(Memory::Huge(memory));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| no_window(length))?;
        bytes.resize(length, 0);
        Ok(Memory::Short(bytes))
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Memory::Short(bytes) => bytes,
            Memory::Huge(bytes) => bytes,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Short(bytes) => bytes,
            Memory::Huge(bytes) => bytes,
        }
    }
}

fn bytes(object: &Object, extent: Extent) -> Result<Memory> {
    let length = usize::try_from(extent.length).map_err(|_| too_short())?;
    if extent.end().is_none_or(|end| end > object.length()) {
        let what = format!("{length} bytes are not there: the file ends at byte {}", object.length());
        return Err(Error::new(ErrorKind::Torn, what).in_object(&*object.path).at_byte(extent.offset));
    }
    let mut bytes = Memory::new(length)?;
    object.read(extent.offset, &mut bytes)?;
    Ok(bytes)
}
