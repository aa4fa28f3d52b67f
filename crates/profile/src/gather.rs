//! Gathers all ranks' records on rank 0, with aligned clocks.
//!
//! | question | answer |
//! |---|---|
//! | calls | [`CLOCKS`] barriers at open; at close one message per rank to rank 0, after the methods' own messages |
//! | clocks | all ranks leave a barrier after the last one has entered it, so that their exit times are equal up to the duration of the barrier. The barrier with the shortest duration on its slowest rank is used, and this duration bounds the error |
//! | a rank that failed | sends its part as usual |
//! | a lost rank | its part is missing; the lowest survivor takes the place of rank 0 |
//! | on failure | a warning: no output fails because of its profile |

use crate::calls::{CallLog, MOST_CALLS};
use crate::document::{Document, FORMAT, RankPart, VERSION, folder_of, path_of, step_of};
use crate::ranks::{self, Left};
use crate::recorder::{MOST_SPANS, Recorder, Running, shorten};
use crate::{Phase, storage};
use serde::{Deserialize, Serialize};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_comm::watched::Watched;
use thalweg_comm::{Communicator, Reduce, tags};
use thalweg_layout::{Layout, OpenWrite, WriterId};
use thalweg_types::{Error, ErrorKind, Result};

/// Number of barriers to align clocks.
pub const CLOCKS: usize = 4;
/// Most spans of all ranks together.
const MOST_IN_ALL: usize = 1 << 20;
/// Longest wait of rank 0 for parts, and of other ranks for rank 0, after the close.
const PATIENCE: Duration = Duration::from_secs(30);

/// A rank's message.
#[derive(Serialize, Deserialize)]
struct Sent {
    /// Identifies the output: see [`Taking`].
    token: u64,
    /// Times at which it entered and left the barriers.
    clocks: Vec<[i64; 2]>,
    /// Begin of its open, in µs since 1970.
    unix_us: u64,
    part: RankPart,
}

/// The profile of one output in progress, on one rank.
pub struct Taking {
    recorder: Arc<Recorder>,
    calls: Arc<CallLog>,
    /// Identifies the output; the same on all ranks.
    token: u64,
    rank: u32,
    ranks: u32,
    left: Left,
    clocks: Vec<[i64; 2]>,
    unix_us: u64,
    open: [i64; 2],
    closes: i64,
}

/// The result of [`Taking::begin`]: profile, communicator and layout of a profiled output.
pub struct Begun {
    /// Its profile.
    pub taking: Taking,
    /// The span of the open, which has not ended.
    pub opening: Running,
    /// The communicator.
    pub comm: Box<dyn Communicator>,
    /// The layout.
    pub layout: Arc<dyn Layout>,
}

/// Description of the output, for the document.
pub struct About<'a> {
    /// Where the profile goes.
    pub layout: &'a dyn Layout,
    /// Name of the file.
    pub output: &'a str,
    /// The group.
    pub group: &'a str,
    /// First names of the methods.
    pub methods: Vec<String>,
    /// From 0.
    pub step: u64,
    /// Run id; the document contains rank 0's.
    pub run: u64,
    /// The file is new: profiles of an older file of the same name are removed.
    pub is_new: bool,
    /// Bytes of this rank's process group.
    pub group_bytes: u64,
    /// Most bytes that the buffer of this process has held.
    pub buffer_bytes: u64,
    /// Bytes of all ranks, or the output's error.
    pub outcome: std::result::Result<u64, &'a Error>,
}

impl Taking {
    /// Collective: begins a profile in an open that began at `zero`, and whose first meeting this rank entered at `met`. The
    /// returned communicator and layout record.
    ///
    /// - `token`: identifies the output; rank 0's is used.
    pub fn begin(
        comm: Box<dyn Communicator>,
        layout: Arc<dyn Layout>,
        zero: Instant,
        met: Instant,
        token: u64,
    ) -> Begun {
        let recorder = Recorder::new(zero);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(zero.elapsed());
        let opening = recorder.span_from(Phase::Open, zero);
        drop(recorder.meeting_from(met));
        let mut clocks = Vec::new();
        let running = recorder.span(Phase::Wait);
        let own = if comm.rank() == 0 { token } else { 0 };
        // An error is ignored: the open detects a lost rank.
        let token = comm.all_reduce(&[own], Reduce::Max).map_or(0, |all| all[0]);
        for _ in 0..CLOCKS {
            let enters = recorder.now();
            if comm.size() == 1 || comm.barrier().is_err() {
                break;
            }
            clocks.push([enters, recorder.now()]);
        }
        drop(running);
        let (rank, ranks) = (comm.rank(), comm.size());
        let left = ranks::Left::default();
        let comm = Watched::with(comm, ranks::Recorded::new(recorder.clone(), left.clone()));
        let taking = Taking {
            recorder: recorder.clone(),
            calls: Arc::new(CallLog::new(recorder.clone())),
            token,
            rank,
            ranks,
            left,
            clocks,
            unix_us: since.as_micros() as u64,
            open: [0, 0],
            closes: 0,
        };
        let (comm, layout) = (Box::new(comm), Arc::new(storage::Recorded::new(layout, recorder)));
        Begun { taking, opening, comm, layout }
    }

    /// The recorder.
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// The log of the program's calls, for doors.
    pub fn calls(&self) -> &Arc<CallLog> {
        &self.calls
    }

    /// Records the end of the open.
    pub fn opened(&mut self) {
        self.open[1] = self.recorder.now();
    }

    /// Records the begin of the close.
    pub fn closes(&mut self) {
        self.closes = self.recorder.now();
    }

    /// Ends the recording; called on every rank at the end of close, whatever its outcome. Rank 0 writes the profile.
    pub fn finish(self, comm: &mut dyn Communicator, about: &About<'_>) {
        let closed = self.recorder.now();
        let mut record = self.recorder.finish();
        shorten(&mut record, (MOST_IN_ALL / comm.size() as usize).clamp(16, MOST_SPANS));
        let mut part = RankPart::of(self.rank, self.open, [self.closes, closed], &record);
        let mut calls = self.calls.finish();
        calls.shorten((MOST_IN_ALL / comm.size() as usize).clamp(16, 2 * MOST_CALLS));
        (part.calls, part.collective, part.collective_every) = (calls.totals, calls.collective, calls.every);
        part.group_bytes = about.group_bytes;
        part.buffer_bytes = about.buffer_bytes;
        part.error = about.outcome.err().map(|e| format!("{:?}: {}", e.kind(), e.what()));
        let Taking { token, ranks, left, clocks, unix_us, .. } = self;
        let mut left = left.lock().take();
        let comm = left.as_deref_mut().unwrap_or(comm);
        let sent = Sent { token, clocks, unix_us, part };
        let before = comm.timeout();
        comm.set_timeout(before.min(PATIENCE));
        let outcome = match comm.rank() {
            0 => write(about, ranks, gather(comm, sent)),
            _ => serde_json::to_vec(&sent)
                .map_err(|e| Error::new(ErrorKind::Io, e.to_string()))
                .and_then(|text| comm.send(0, tags::PROFILE, &text)),
        };
        comm.set_timeout(before);
        if let Err(e) = outcome {
            tracing::warn!(output = about.output, step = about.step, "the profile of this output is not written: {e}");
        }
    }
}

/// On rank 0: its own part, and the parts of other ranks that arrive in time.
fn gather(comm: &mut dyn Communicator, own: Sent) -> Vec<Sent> {
    let until = Instant::now() + comm.timeout();
    let token = own.token;
    let mut all = vec![own];
    for rank in 1..comm.size() {
        loop {
            comm.set_timeout(until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
            let Ok(message) = comm.receive(Some(rank), tags::PROFILE) else { break };
            let part = serde_json::from_slice::<Sent>(&message.bytes).ok();
            // Skip a late message of an earlier output.
            match part.filter(|p| p.token == token) {
                Some(part) => {
                    all.push(part);
                    break;
                }
                None => continue,
            }
        }
    }
    all
}

/// The shift from each rank's clock to rank 0's, and the largest error. The first part is rank 0's.
fn align(all: &[Sent]) -> (Vec<i64>, u64) {
    let many = all.iter().map(|s| s.clocks.len()).min().unwrap_or(0);
    let slowest = |k: usize| all.iter().map(|s| s.clocks[k][1].abs_diff(s.clocks[k][0])).max().unwrap_or(0);
    let Some((best, error)) = (0..many).map(|k| (k, slowest(k))).min_by_key(|(_, error)| *error) else {
        return (vec![0; all.len()], 0);
    };
    (all.iter().map(|s| all[0].clocks[best][1].saturating_sub(s.clocks[best][1])).collect(), error)
}

fn write(about: &About<'_>, ranks: u32, mut all: Vec<Sent>) -> Result<()> {
    let (shifts, clock_error_ns) = align(&all);
    let first = all.iter().zip(&shifts).map(|(s, shift)| s.part.open[0].saturating_add(*shift)).min().unwrap_or(0);
    for (sent, shift) in all.iter_mut().zip(&shifts) {
        sent.part.shift(shift.saturating_sub(first));
    }
    let document = Document {
        format: FORMAT.into(),
        version: VERSION,
        output: about.output.to_string(),
        group: about.group.to_string(),
        methods: about.methods.clone(),
        step: about.step,
        run: format!("{:x}", about.run),
        ranks,
        began_unix_us: all[0].unix_us.saturating_add_signed(first / 1000),
        clock_error_ns,
        bytes: about.outcome.unwrap_or(0),
        error: about.outcome.err().map(|e| format!("{:?}: {}", e.kind(), e.what())),
        phases: Phase::ALL.iter().map(|p| p.name().to_string()).collect(),
        by_rank: all.into_iter().map(|s| s.part).collect(),
    };
    save(about, document)
}

fn save(about: &About<'_>, document: Document) -> Result<()> {
    let folder = folder_of(about.output);
    about.layout.make_folder(&folder)?;
    if about.is_new {
        for name in about.layout.list(&folder)?.iter().filter(|name| step_of(name).is_some()) {
            about.layout.remove(&format!("{folder}/{name}"))?;
        }
    }
    let object = about.layout.open_write(&path_of(about.output, about.step), OpenWrite::Replace, WriterId(0))?;
    object.write_at(0, &[IoSlice::new(&document.to_json())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Record;

    fn sent(rank: u32, clocks: &[[i64; 2]]) -> Sent {
        let part = RankPart::of(rank, [0, 1], [2, 3], &Record::default());
        Sent { token: 1, clocks: clocks.to_vec(), unix_us: 0, part }
    }

    #[test]
    fn clocks_are_aligned_by_the_barrier_that_was_over_soonest() {
        // Rank 1's clock is 1000 ahead; it was kept waiting in the first barrier.
        let all = [sent(0, &[[0, 500], [510, 530]]), sent(1, &[[1400, 1480], [1495, 1525]])];
        assert_eq!(align(&all), (vec![0, -995], 30));
        assert_eq!(align(&[sent(0, &[])]), (vec![0], 0));
    }
}
