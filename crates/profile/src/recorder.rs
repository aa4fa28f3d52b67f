//! Spans of one rank, from open to close.
//!
//! A span begins and ends on one thread, and may be inside another span. Each phase's own time, calls and bytes are exact;
//! concurrent spans of a rank's threads are counted once, for the one that began last. At most [`MOST_SPANS`] spans are kept:
//! beyond that, adjacent spans of the same phase are joined and short ones dropped, according to [`Record::resolution`]. Meetings
//! of all ranks are always kept.

use crate::Phase;
use crate::waits::runs;
use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, MutexGuard};
use std::thread::ThreadId;
use std::time::Instant;
use thalweg_types::mutex::Mutex;

/// Most spans that a rank keeps.
pub const MOST_SPANS: usize = 512;
/// The first resolution, in ns: shorter spans are dropped first.
const SHORT: u64 = 1_000;
/// Most meetings of all ranks that are kept: no method has more per output.
const MOST_MEETINGS: u32 = 128;

/// The peer of a wait or send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// No particular rank.
    Nobody,
    /// This rank.
    Rank(u32),
    /// All ranks, at the meeting with this number, which is the same on all ranks.
    Meeting(u32),
}

/// An interval of time in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The phase.
    pub phase: Phase,
    /// Begin, in ns since the recorder's zero.
    pub begin: i64,
    /// Length in ns, including spans inside it.
    pub length: u64,
    /// Bytes of the operation.
    pub bytes: u64,
    /// The peer.
    pub whom: Whom,
}

impl Span {
    /// End, in ns since the recorder's zero.
    pub fn end(&self) -> i64 {
        self.begin.saturating_add_unsigned(self.length)
    }
}

/// Totals of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Total {
    /// Own time in ns, without phases inside it.
    pub own: u64,
    /// Number of spans.
    pub calls: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The record of one rank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// By [`Phase::place`].
    pub totals: [Total; Phase::ALL.len()],
    /// In the order in which they began.
    pub spans: Vec<Span>,
    /// Spans shorter than this many ns may be missing, or joined with adjacent ones.
    pub resolution: u64,
}

struct Frame {
    phase: Phase,
    begin: Instant,
    /// Time of the spans inside.
    inner: u64,
}

#[derive(Default)]
struct State {
    /// Open spans, by thread.
    frames: HashMap<ThreadId, Vec<Frame>>,
    record: Record,
    meetings: u32,
    finished: bool,
}

/// Records the phases of one rank in one output.
pub struct Recorder {
    zero: Instant,
    state: Mutex<State>,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Recorder>>> = const { RefCell::new(None) };
}

/// While this exists, [`span`] on this thread records for an output.
pub struct Working {
    before: Option<Arc<Recorder>>,
    here: PhantomData<*const ()>,
}

impl Drop for Working {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

fn ns(from: Instant, to: Instant) -> i64 {
    match to.checked_duration_since(from) {
        Some(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        None => -i64::try_from(from.duration_since(to).as_nanos()).unwrap_or(i64::MAX),
    }
}

impl Recorder {
    /// A recorder whose times count from `zero`.
    pub fn new(zero: Instant) -> Arc<Recorder> {
        Arc::new(Recorder { zero, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // After a panic in another thread, the record only lacks that thread's last span.
        self.state.lock()
    }

    /// Until the return value is dropped, [`span`] on this thread records here. Threads of asynchronous methods call this too;
    /// their spans are recorded concurrently.
    pub fn work(self: &Arc<Self>) -> Working {
        Working { before: CURRENT.replace(Some(self.clone())), here: PhantomData }
    }

    /// Begins a span.
    pub fn span(self: &Arc<Self>, phase: Phase) -> Running {
        self.span_from(phase, Instant::now())
    }

    /// A span that began at `begin`.
    pub fn span_from(self: &Arc<Self>, phase: Phase, begin: Instant) -> Running {
        self.state().begin(phase, begin);
        Running { recorder: Some(self.clone()), bytes: 0, whom: Whom::Nobody, here: PhantomData }
    }

    /// A span of waiting for all ranks.
    pub fn meeting(self: &Arc<Self>) -> Running {
        let now = Instant::now();
        self.meeting_from(now)
    }

    /// As [`Recorder::meeting`], begun at `begin`.
    pub fn meeting_from(self: &Arc<Self>, begin: Instant) -> Running {
        let mut running = self.span_from(Phase::Wait, begin);
        let mut state = self.state();
        running.whom = Whom::Meeting(state.meetings);
        state.meetings += 1;
        drop(state);
        running
    }

    /// Adds a complete span that is not inside another one.
    pub fn add(&self, phase: Phase, begin: Instant, end: Instant) {
        let begin = ns(self.zero, begin);
        let length = ns(self.zero, end).saturating_sub(begin).max(0) as u64;
        let mut state = self.state();
        if !state.finished {
            state.keep(Span { phase, begin, length, bytes: 0, whom: Whom::Nobody }, length);
        }
    }

    /// Time spent so far in waits that have ended, in ns.
    pub fn waited(&self) -> u64 {
        self.state().record.totals[Phase::Wait.place()].own
    }

    /// Nanoseconds since the recorder's zero.
    pub fn now(&self) -> i64 {
        ns(self.zero, Instant::now())
    }

    /// Ends the recording; later spans are ignored.
    pub fn finish(&self) -> Record {
        let mut state = self.state();
        state.finished = true;
        let threads = state.frames.len();
        state.frames.clear();
        let mut record = std::mem::take(&mut state.record);
        record.spans.sort_by_key(|s| (s.begin, std::cmp::Reverse(s.length)));
        if threads > 1 && record.resolution == 0 {
            // Concurrent spans are counted once.
            record.totals.iter_mut().for_each(|total| total.own = 0);
            for run in runs(record.spans.iter().copied()) {
                record.totals[run.phase.place()].own += run.end.abs_diff(run.begin);
            }
        }
        record
    }
}

impl State {
    fn begin(&mut self, phase: Phase, begin: Instant) {
        if self.finished {
            return;
        }
        let frames = self.frames.entry(std::thread::current().id()).or_default();
        // Writes inside the index phase count as index.
        let in_index = frames.iter().any(|f| f.phase == Phase::Index);
        let phase = if in_index && phase == Phase::Write { Phase::Index } else { phase };
        frames.push(Frame { phase, begin, inner: 0 });
    }

    fn end(&mut self, zero: Instant, bytes: u64, whom: Whom) {
        let end = Instant::now();
        let Some(frames) = self.frames.get_mut(&std::thread::current().id()) else { return };
        let Some(frame) = frames.pop() else { return };
        let length = ns(frame.begin, end).max(0) as u64;
        if let Some(outer) = frames.last_mut() {
            outer.inner += length;
        }
        let own = length.saturating_sub(frame.inner);
        self.keep(Span { phase: frame.phase, begin: ns(zero, frame.begin), length, bytes, whom }, own);
    }

    fn keep(&mut self, span: Span, own: u64) {
        let total = &mut self.record.totals[span.phase.place()];
        total.own += own;
        total.calls += 1;
        total.bytes += span.bytes;
        self.record.spans.push(span);
        if self.record.spans.len() >= 2 * MOST_SPANS {
            shorten(&mut self.record, MOST_SPANS);
        }
    }
}

/// Reduces a record to `most` spans, in addition to meetings: joins adjacent spans and drops short ones.
pub fn shorten(record: &mut Record, most: usize) {
    let is_kept = |s: &Span| matches!(s.whom, Whom::Meeting(n) if n < MOST_MEETINGS);
    record.spans.sort_by_key(|s| (s.begin, std::cmp::Reverse(s.length)));
    while record.spans.iter().filter(|s| !is_kept(s)).count() > most {
        record.resolution = record.resolution.saturating_mul(2).max(SHORT);
        let resolution = record.resolution;
        let mut joined: Vec<Span> = Vec::with_capacity(record.spans.len());
        for span in record.spans.drain(..) {
            match joined.last_mut() {
                Some(last)
                    if last.phase == span.phase
                        && last.whom == span.whom
                        && !is_kept(&span)
                        && span.begin >= last.end()
                        && span.begin.abs_diff(last.end()) <= resolution =>
                {
                    last.length = span.end().abs_diff(last.begin);
                    last.bytes += span.bytes;
                }
                _ => joined.push(span),
            }
        }
        joined.retain(|s| s.length >= resolution || is_kept(s));
        record.spans = joined;
        if resolution == u64::MAX {
            break;
        }
    }
}

/// A span that has begun; it ends when this is dropped.
pub struct Running {
    recorder: Option<Arc<Recorder>>,
    bytes: u64,
    whom: Whom,
    here: PhantomData<*const ()>,
}

impl Running {
    /// Sets the bytes of the operation.
    pub fn bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Sets the peer.
    pub fn with(&mut self, rank: u32) {
        self.whom = Whom::Rank(rank);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            recorder.state().end(recorder.zero, self.bytes, self.whom);
        }
    }
}

/// Begins a span of `bytes` bytes for the output that this thread works on; without a profile, nothing is recorded.
pub fn span(phase: Phase, bytes: u64) -> Running {
    let recorder = CURRENT.with_borrow(Clone::clone);
    if let Some(recorder) = &recorder {
        recorder.state().begin(phase, Instant::now());
    }
    Running { recorder, bytes, whom: Whom::Nobody, here: PhantomData }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_phase_has_its_own_time_alone_and_inner_spans_lie_in_outer_ones() {
        let recorder = Recorder::new(Instant::now());
        {
            let _here = recorder.work();
            let _close = span(Phase::Close, 0);
            std::thread::sleep(Duration::from_millis(2));
            {
                let _write = span(Phase::Write, 7);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        drop(span(Phase::Write, 100));
        let record = recorder.finish();
        let of = |phase: Phase| record.totals[phase.place()];
        assert_eq!((of(Phase::Write).bytes, of(Phase::Write).calls), (7, 1));
        assert!(of(Phase::Write).own >= 20_000_000);
        let [close, write] = record.spans[..] else { panic!("{record:?}") };
        assert_eq!(close.length, of(Phase::Close).own + of(Phase::Write).own);
        assert!(close.begin <= write.begin && write.end() <= close.end());
    }

    #[test]
    fn writes_inside_the_index_are_the_index() {
        let recorder = Recorder::new(Instant::now());
        {
            let _here = recorder.work();
            let _index = span(Phase::Index, 0);
            drop(span(Phase::Write, 9));
        }
        let record = recorder.finish();
        assert_eq!((record.totals[Phase::Index.place()].bytes, record.totals[Phase::Write.place()].calls), (9, 0));
        // Too late to be recorded.
        drop(recorder.span(Phase::Write));
        assert_eq!(recorder.finish(), Record::default());
    }

    #[test]
    fn a_million_spans_take_bounded_memory_and_add_up_all_the_same() {
        let recorder = Recorder::new(Instant::now());
        let _here = recorder.work();
        drop(recorder.meeting());
        for i in 0..200_000u64 {
            drop(span(if i % 2 == 0 { Phase::Write } else { Phase::Send }, 3));
        }
        let record = recorder.finish();
        assert!(record.spans.len() <= 2 * MOST_SPANS);
        assert!(record.resolution > 0);
        assert_eq!(record.spans[0].whom, Whom::Meeting(0));
        assert_eq!(
            (record.totals[Phase::Write.place()].bytes, record.totals[Phase::Send.place()].calls),
            (300_000, 100_000)
        );
    }
}
