//! A write that may get stuck: a separate thread writes it piece by piece, so that a rank can abandon it.
//!
//! | question | answer |
//! |---|---|
//! | who owns the bytes of a piece | the write, from [`WriteInFlight::give`] until its thread has written them |
//! | an abandoned write | its thread finishes the piece being written and drops the pieces queued behind it. If no piece was written, the hole marker is written |
//! | who waits for an abandoned write | an output that truncates or replaces the file, and the end of the session; for at most half the communicator's timeout |

use crate::buffer::Reservation;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_layout::{WriteObject, write_all_at};
use thalweg_types::{Error, ErrorKind, Result};

/// A task of the thread.
pub enum Task {
    /// Writes bytes at an offset.
    Write(u64, Vec<u8>),
    /// Reserves space: offset and bytes.
    Reserve(u64, u64),
    /// Makes the written bytes durable.
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

/// A write in flight.
pub struct WriteInFlight {
    tasks: Sender<Task>,
    done: Receiver<Done>,
    left: Arc<AtomicBool>,
    ended: Arc<OnceLock<Instant>>,
    thread: JoinHandle<()>,
    /// Bytes of each unfinished task, the oldest first.
    waiting: std::collections::VecDeque<u64>,
    /// Start of the oldest unfinished task.
    since: Instant,
}

impl WriteInFlight {
    /// Starts a thread that writes to `object`.
    ///
    /// - `mark`: hole marker and its offset, written if the write is abandoned before its first piece; `reservation`: the buffer
    ///   reservation of the pieces, released when the thread ends.
    ///
    /// # Errors
    /// `NoMemory` if the system cannot start a thread.
    pub fn begin(
        object: Arc<dyn WriteObject>,
        mark: Option<(u64, Vec<u8>)>,
        reservation: Option<Reservation>,
    ) -> Result<WriteInFlight> {
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
                // Best effort: without the marker, a scan searches the extent.
                let _ = write_all_at(&*object, offset, &bytes);
            }
            let _ = end.set(Instant::now());
            drop((given, reservation));
        };
        let thread = std::thread::Builder::new().name("flight".into()).stack_size(256 << 10).spawn(work);
        let thread =
            thread.map_err(|e| Error::new(ErrorKind::NoMemory, "cannot start a thread for the write").caused_by(e))?;
        let waiting = std::collections::VecDeque::new();
        Ok(WriteInFlight { tasks, done, left, ended, thread, waiting, since: Instant::now() })
    }

    /// Queues a task behind the earlier ones.
    pub fn give(&mut self, task: Task) {
        if self.waiting.is_empty() {
            self.since = Instant::now();
        }
        self.waiting.push_back(task.bytes());
        // If the thread has ended, its error is still in the queue of `wait`.
        let _ = self.tasks.send(task);
    }

    /// Number of unfinished tasks.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Time since the oldest unfinished task began.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Waits for the oldest task. Returns its outcome, with the memory of its bytes; `None` if it takes longer than `longest`.
    pub fn wait(&mut self, longest: Duration) -> Option<Result<Vec<u8>>> {
        let (outcome, buffer) = match self.done.recv_timeout(longest) {
            Ok(done) => done,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => {
                return Some(Err(Error::new(ErrorKind::Io, "the thread of the write ended unexpectedly")));
            }
        };
        self.waiting.pop_front();
        self.since = Instant::now();
        Some(outcome.map(|()| buffer))
    }

    /// Returns without waiting for the queued tasks, which the thread still executes. Their duration is not measured.
    pub fn end_alone(self, target: u32, patience: Duration) -> Late {
        let (since, thread) = (self.since, Some(self.thread));
        Late { target, bytes: 0, since, ended: self.ended, thread, patience }
    }

    /// Abandons the write.
    ///
    /// - `target`: its storage target; `patience`: longest time that [`Late::wait`] waits for its end.
    pub fn leave(self, target: u32, patience: Duration) -> Late {
        self.left.store(true, Ordering::SeqCst);
        let bytes = self.waiting.front().copied().unwrap_or(0);
        Late { target, bytes, since: self.since, ended: self.ended, thread: Some(self.thread), patience }
    }
}

/// An abandoned write.
pub struct Late {
    /// Its storage target.
    pub target: u32,
    /// Bytes of the piece that was being written.
    pub bytes: u64,
    since: Instant,
    ended: Arc<OnceLock<Instant>>,
    thread: Option<JoinHandle<()>>,
    patience: Duration,
}

impl Late {
    /// Whether the write has ended.
    pub fn has_landed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Duration of the write of the piece; until now, if it has not ended.
    pub fn took(&self) -> Duration {
        self.ended.get().copied().unwrap_or_else(Instant::now).saturating_duration_since(self.since)
    }

    /// Waits until the write has ended.
    ///
    /// # Errors
    /// `Timeout` after `patience`.
    pub fn wait(&mut self) -> Result<()> {
        let until = Instant::now() + self.patience;
        let mut nap = Duration::from_micros(50);
        while !self.has_landed() {
            if Instant::now() >= until {
                let what = format!("a write to storage target {} has been stuck for {:?}", self.target, self.took());
                return Err(Error::new(ErrorKind::Timeout, what));
            }
            std::thread::sleep(nap);
            nap = (2 * nap).min(Duration::from_millis(20));
        }
        if let Some(thread) = self.thread.take() {
            // The outcome is ignored: the extent counts as a hole in any case.
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
        let mut write = WriteInFlight::begin(slow(&memory, f64::INFINITY), None, None).unwrap();
        write.give(Task::Write(0, b"abcd".to_vec()));
        write.give(Task::Write(2, b"xy".to_vec()));
        write.give(Task::Sync);
        while write.waiting() > 0 {
            write.wait(Duration::from_secs(10)).unwrap().unwrap();
        }
        let mut bytes = [0; 4];
        memory.open_read("x").unwrap().read_exact_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"abxy");
        write.give(Task::Write(u64::MAX - 1, b"abcd".to_vec()));
        assert!(write.wait(Duration::from_secs(10)).unwrap().is_err());
    }

    #[test]
    fn one_that_is_left_ends_its_piece_and_begins_no_other() {
        let memory = Arc::new(Memory::new());
        let mut write = WriteInFlight::begin(slow(&memory, 20.0), Some((0, b"mark".to_vec())), None).unwrap();
        write.give(Task::Write(0, b"abcd".to_vec()));
        write.give(Task::Write(4, b"efgh".to_vec()));
        assert!(write.wait(Duration::from_millis(20)).is_none());
        let mut late = write.leave(3, Duration::from_secs(10));
        assert!(!late.has_landed() && late.bytes == 4 && late.target == 3);
        late.wait().unwrap();
        assert!(late.took() > Duration::from_millis(100), "{:?}", late.took());
        assert_eq!(bytes_of(&memory), b"abcd");
    }

    #[test]
    fn one_that_is_left_before_it_began_says_that_nothing_is_there() {
        let memory = Arc::new(Memory::new());
        let mut write = WriteInFlight::begin(slow(&memory, f64::INFINITY), Some((2, b"mark".to_vec())), None).unwrap();
        write.give(Task::Sync);
        write.leave(0, Duration::from_secs(10)).wait().unwrap();
        assert_eq!(bytes_of(&memory), b"\0\0mark");
        let mut write = WriteInFlight::begin(slow(&memory, f64::INFINITY), Some((0, b"mark".to_vec())), None).unwrap();
        write.give(Task::Write(2, b"piece".to_vec()));
        write.wait(Duration::from_secs(10)).unwrap().unwrap();
        write.leave(0, Duration::from_secs(10)).wait().unwrap();
        assert_eq!(bytes_of(&memory), b"\0\0piece");
    }
}
