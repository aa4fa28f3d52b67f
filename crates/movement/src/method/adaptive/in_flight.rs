//! A write that may get stuck: it runs in a thread of its own, a piece at a time, and can be left to itself.
//!
//! | question | answer |
//! |---|---|
//! | who owns the bytes of a piece | the flight, from [`InFlight::give`] until its thread has written them |
//! | an abandoned flight | finishes the piece being written and drops the pieces queued behind it. If no piece was written, the hole marker is written |
//! | who waits for an abandoned flight | an output that truncates or replaces the file, and the end of the session; for at most half the communicator's timeout |

use crate::buffer::Reservation;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_layout::{WriteObject, write_all_at};
use thalweg_types::{Error, ErrorKind, Result};

/// What is asked of the thread.
pub enum Task {
    /// Bytes, and where.
    Write(u64, Vec<u8>),
    /// Space for so many bytes from there.
    Reserve(u64, u64),
    /// Durable.
    Sync,
}

impl Task {
    fn bytes(&self) -> u64 {
        match self {
            Task::Write(_, bytes) => bytes.len() as u64,
            Task::Reserve(_, length) => *length,
            Task::Sync => 0,
        }
    }
}

type Done = (Result<()>, Vec<u8>);

/// A write under way.
pub struct InFlight {
    tasks: Sender<Task>,
    done: Receiver<Done>,
    left: Arc<AtomicBool>,
    ended: Arc<OnceLock<Instant>>,
    thread: JoinHandle<()>,
    /// Tasks that are not done, the oldest first: bytes of each.
    waiting: std::collections::VecDeque<u64>,
    /// When the oldest began.
    since: Instant,
}

impl InFlight {
    /// Starts a thread that writes to this object.
    ///
    /// - `mark`: what is written, and where, if it is left before it has written a piece; `held`: what its pieces count in the
    ///   buffer, until its thread is through with them.
    ///
    /// # Errors
    /// `NoMemory` where no thread can be had.
    pub fn begin(
        object: Arc<dyn WriteObject>,
        mark: Option<(u64, Vec<u8>)>,
        held: Option<Reservation>,
    ) -> Result<InFlight> {
        let (tasks, given) = channel::<Task>();
        let (tell, done) = channel::<Done>();
        let left = Arc::new(AtomicBool::new(false));
        let ended = Arc::new(OnceLock::new());
        let (is_left, end) = (left.clone(), ended.clone());
        let work = move || {
            let mut mark = mark;
            while let Ok(task) = given.recv() {
                if is_left.load(Ordering::SeqCst) {
                    break;
                }
                let is_write = matches!(task, Task::Write(..));
                let (outcome, buffer) = match task {
                    Task::Write(offset, bytes) => (write_all_at(&*object, offset, &bytes), bytes),
                    Task::Reserve(offset, length) => (object.reserve(offset, length), Vec::new()),
                    Task::Sync => (object.sync(), Vec::new()),
                };
                let failed = outcome.is_err();
                if is_write {
                    mark = None;
                }
                if tell.send((outcome, buffer)).is_err() || failed {
                    break;
                }
            }
            if let Some((offset, bytes)) = mark.filter(|_| is_left.load(Ordering::SeqCst)) {
                // Best effort: without it a scan searches the place.
                let _ = write_all_at(&*object, offset, &bytes);
            }
            let _ = end.set(Instant::now());
            drop((given, held));
        };
        let thread = std::thread::Builder::new().name("flight".into()).stack_size(256 << 10).spawn(work);
        let thread = thread.map_err(|e| Error::new(ErrorKind::NoMemory, "no thread to write in").caused_by(e))?;
        let waiting = std::collections::VecDeque::new();
        Ok(InFlight { tasks, done, left, ended, thread, waiting, since: Instant::now() })
    }

    /// Asks for more, behind what was asked before.
    pub fn give(&mut self, task: Task) {
        if self.waiting.is_empty() {
            self.since = Instant::now();
        }
        self.waiting.push_back(task.bytes());
        // A thread that has gone said why, and that comes first.
        let _ = self.tasks.send(task);
    }

    /// How much that was asked for is not done.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How long the oldest of it has been under way.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Waits for the next task to be done: its outcome, and the memory of its bytes. `None` where it takes longer.
    pub fn wait(&mut self, longest: Duration) -> Option<Result<Vec<u8>>> {
        let (outcome, buffer) = match self.done.recv_timeout(longest) {
            Ok(done) => done,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => {
                return Some(Err(Error::new(ErrorKind::Io, "the thread that writes has gone")));
            }
        };
        self.waiting.pop_front();
        self.since = Instant::now();
        Some(outcome.map(|()| buffer))
    }

    /// Leaves it to itself, to do what it was asked for last; nobody asks how long that took.
    pub fn end_alone(self, target: u32, patience: Duration) -> Late {
        let (since, thread) = (self.since, Some(self.thread));
        Late { target, bytes: 0, since, ended: self.ended, thread, patience }
    }

    /// Leaves it to itself.
    ///
    /// - `target`: where it goes to; `patience`: how long [`Late::wait`] waits for it at most.
    pub fn leave(self, target: u32, patience: Duration) -> Late {
        self.left.store(true, Ordering::SeqCst);
        let bytes = self.waiting.front().copied().unwrap_or(0);
        Late { target, bytes, since: self.since, ended: self.ended, thread: Some(self.thread), patience }
    }
}

/// A write that was left to itself.
pub struct Late {
    /// Where it goes to.
    pub target: u32,
    /// Bytes of the piece that was being written.
    pub bytes: u64,
    since: Instant,
    ended: Arc<OnceLock<Instant>>,
    thread: Option<JoinHandle<()>>,
    patience: Duration,
}

impl Late {
    /// Whether it has ended.
    pub fn has_landed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What the piece took, or has taken so far.
    pub fn took(&self) -> Duration {
        self.ended.get().copied().unwrap_or_else(Instant::now).saturating_duration_since(self.since)
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// `Timeout`.
    pub fn wait(&mut self) -> Result<()> {
        let until = Instant::now() + self.patience;
        let mut nap = Duration::from_micros(50);
        while !self.has_landed() {
            if Instant::now() >= until {
                let what = format!("a write to storage target {} is stuck since {:?}", self.target, self.took());
                return Err(Error::new(ErrorKind::Timeout, what));
            }
            std::thread::sleep(nap);
            nap = (2 * nap).min(Duration::from_millis(20));
        }
        if let Some(thread) = self.thread.take() {
            // It leaves a hole, whatever became of it.
            let _ = thread.join();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_layout::OpenWrite;
    use thalweg_store::memory::Memory;
    use thalweg_store::wrap::Slow;
    use thalweg_store::{Store, StoreExt};

    fn slow(memory: &Arc<Memory>, bytes_per_second: f64) -> Arc<dyn WriteObject> {
        let store = Slow::new(memory.clone(), Duration::ZERO, bytes_per_second);
        Arc::from(store.open_write("x", OpenWrite::Any).unwrap())
    }

    fn bytes_of(memory: &Memory) -> Vec<u8> {
        memory.read_all("x").unwrap()
    }

    #[test]
    fn what_is_given_is_written_in_order_and_failures_are_told() {
        let memory = Arc::new(Memory::new());
        let mut flight = InFlight::begin(slow(&memory, f64::INFINITY), None, None).unwrap();
        flight.give(Task::Write(0, b"abcd".to_vec()));
        flight.give(Task::Write(2, b"xy".to_vec()));
        flight.give(Task::Sync);
        while flight.waiting() > 0 {
            flight.wait(Duration::from_secs(10)).unwrap().unwrap();
        }
        let mut bytes = [0; 4];
        memory.open_read("x").unwrap().read_exact_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"abxy");
        flight.give(Task::Write(u64::MAX - 1, b"abcd".to_vec()));
        assert!(flight.wait(Duration::from_secs(10)).unwrap().is_err());
    }

    #[test]
    fn one_that_is_left_ends_its_piece_and_begins_no_other() {
        let memory = Arc::new(Memory::new());
        let mut flight = InFlight::begin(slow(&memory, 20.0), Some((0, b"mark".to_vec())), None).unwrap();
        flight.give(Task::Write(0, b"abcd".to_vec()));
        flight.give(Task::Write(4, b"efgh".to_vec()));
        assert!(flight.wait(Duration::from_millis(20)).is_none());
        let mut late = flight.leave(3, Duration::from_secs(10));
        assert!(!late.has_landed() && late.bytes == 4 && late.target == 3);
        late.wait().unwrap();
        assert!(late.took() > Duration::from_millis(100), "{:?}", late.took());
        assert_eq!(bytes_of(&memory), b"abcd");
    }

    #[test]
    fn one_that_is_left_before_it_began_says_that_nothing_is_there() {
        let memory = Arc::new(Memory::new());
        let mut flight = InFlight::begin(slow(&memory, f64::INFINITY), Some((2, b"mark".to_vec())), None).unwrap();
        flight.give(Task::Sync);
        flight.leave(0, Duration::from_secs(10)).wait().unwrap();
        assert_eq!(bytes_of(&memory), b"\0\0mark");
        let mut flight = InFlight::begin(slow(&memory, f64::INFINITY), Some((0, b"mark".to_vec())), None).unwrap();
        flight.give(Task::Write(2, b"piece".to_vec()));
        flight.wait(Duration::from_secs(10)).unwrap().unwrap();
        flight.leave(0, Duration::from_secs(10)).wait().unwrap();
        assert_eq!(bytes_of(&memory), b"\0\0piece");
    }
}
