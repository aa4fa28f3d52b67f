//! A write that may get stuck: a separate thread writes it piece by piece, so that a rank can abandon it.
//!
//! | question | answer |
//! |---|---|
//! | who owns the bytes of a piece | the write, from [`WriteInFlight::give`] until its thread has written them |
//! | an abandoned write | its thread finishes the piece being written and drops the pieces queued behind it. If no piece was written, the hole marker is written |
//! | until when can it be abandoned | until its thread has begun with the task [`Task::Seal`]: the thread and the rank decide that with one exchange of a value, so that the rank need not be awake between the last piece and the seal |
//! | who waits for an abandoned write | an output that truncates or replaces the file, and the end of the session; for at most half the communicator's timeout |
//! | threads | one for each write in flight; a thread that has ended its write waits two seconds for another one: starting one costs more than a small write |

use crate::buffer::Reservation;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use thalweg_layout::{WriteObject, write_all_at};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Longest time that a thread waits for another write.
const KEPT: Duration = Duration::from_secs(2);

/// A task of the thread.
pub enum Task {
    /// Writes bytes at an offset.
    Write(u64, Vec<u8>),
    /// Writes bytes at an offset, after which the write cannot be abandoned; nothing if it was abandoned before.
    Seal(u64, Vec<u8>),
    /// Reserves space: offset and bytes.
    Reserve(u64, u64),
    /// Makes the written bytes durable.
    Sync,
}

impl Task {
    fn bytes(&self) -> u64 {
        match self {
            Task::Write(_, bytes) | Task::Seal(_, bytes) => bytes.len() as u64,
            Task::Reserve(_, length) => *length,
            Task::Sync => 0,
        }
    }
}

type Done = (Result<()>, Vec<u8>);

/// Whether a write can be abandoned.
#[derive(Debug, Default)]
struct Fate(AtomicU8);

impl Fate {
    const OPEN: u8 = 0;
    const LEFT: u8 = 1;
    const SEALED: u8 = 2;

    /// Whether the fate is this one now; it is only if it was open or this one before.
    fn becomes(&self, fate: u8) -> bool {
        let before = self.0.compare_exchange(Self::OPEN, fate, Ordering::SeqCst, Ordering::SeqCst);
        before.is_ok() || before == Err(fate)
    }

    fn is_left(&self) -> bool {
        self.0.load(Ordering::SeqCst) == Self::LEFT
    }

    /// Abandons the write, whatever it was.
    fn leave(&self) {
        self.0.store(Self::LEFT, Ordering::SeqCst);
    }
}

/// A write in flight.
pub struct WriteInFlight {
    tasks: Sender<Task>,
    done: Receiver<Done>,
    fate: Arc<Fate>,
    ended: Arc<OnceLock<Instant>>,
    /// Bytes of each unfinished task, the oldest first.
    waiting: std::collections::VecDeque<u64>,
    /// Start of the oldest unfinished task.
    since: Instant,
}

/// Notes when it is dropped: after all that a thread used for a write.
struct Ends(Arc<OnceLock<Instant>>);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.set(Instant::now());
    }
}

impl WriteInFlight {
    /// Starts a thread that writes to `object`.
    ///
    /// - `mark`: hole marker and its offset, written if the write is abandoned before its first piece; `reservation`: the buffer
    ///   reservation of the pieces, released when the write ends.
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
        let fate = Arc::new(Fate::default());
        let ended = Arc::new(OnceLock::new());
        let (known, ends) = (fate.clone(), Ends(ended.clone()));
        let work = move || {
            // What was named last is dropped first.
            let _ends = ends;
            let (object, given, _reservation, mut mark) = (object, given, reservation, mark);
            while let Ok(task) = given.recv() {
                if known.is_left() {
                    break;
                }
                let is_piece = matches!(task, Task::Write(..));
                let (outcome, buffer) = match task {
                    Task::Seal(..) if !known.becomes(Fate::SEALED) => break,
                    Task::Write(offset, bytes) | Task::Seal(offset, bytes) => {
                        (write_all_at(&*object, offset, &bytes), bytes)
                    }
                    Task::Reserve(offset, length) => (object.reserve(offset, length), Vec::new()),
                    Task::Sync => (object.sync(), Vec::new()),
                };
                let failed = outcome.is_err();
                if is_piece {
                    mark = None;
                }
                if tell.send((outcome, buffer)).is_err() || failed {
                    break;
                }
            }
            if let Some((offset, bytes)) = mark.filter(|_| known.is_left()) {
                // Best effort: without the marker, a scan searches the extent.
                let _ = write_all_at(&*object, offset, &bytes);
            }
        };
        in_a_thread(Box::new(work))?;
        let waiting = std::collections::VecDeque::new();
        Ok(WriteInFlight { tasks, done, fate, ended, waiting, since: Instant::now() })
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

    /// Abandons the write unless its thread has begun to seal it; returns whether it is abandoned.
    pub fn stop(&self) -> bool {
        self.fate.becomes(Fate::LEFT)
    }

    /// Returns without waiting for the queued tasks, which the thread still executes. Their duration is not measured.
    pub fn end_alone(self, target: u32, patience: Duration) -> Late {
        Late { target, bytes: 0, since: self.since, ended: self.ended, patience }
    }

    /// Abandons the write.
    ///
    /// - `target`: its storage target; `patience`: longest time that [`Late::wait`] waits for its end.
    pub fn leave(self, target: u32, patience: Duration) -> Late {
        self.fate.leave();
        let bytes = self.waiting.front().copied().unwrap_or(0);
        Late { target, bytes, since: self.since, ended: self.ended, patience }
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
    patience: Duration,
}

impl Late {
    /// Whether the write has ended.
    pub fn has_landed(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Duration of the write of the piece; until now, if it has not ended.
    pub fn took(&self) -> Duration {
        self.ended.get().copied().unwrap_or_else(Instant::now).saturating_duration_since(self.since)
    }

    /// Waits until the write has ended. Its outcome is ignored: the extent counts as a hole in any case.
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
        Ok(())
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// The threads of this process that have ended a write and wait for another one, by number.
struct Idle {
    /// The process: a child of `fork` has none of its parent's threads.
    process: u32,
    threads: Vec<(u64, Sender<Work>)>,
    next: u64,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle { process: 0, threads: Vec::new(), next: 0 });

fn with_idle<T>(change: impl FnOnce(&mut Idle) -> T) -> T {
    let (process, mut idle) = (std::process::id(), IDLE.lock());
    if idle.process != process {
        idle.process = process;
        idle.threads.clear();
    }
    change(&mut idle)
}

/// Runs `work` in a thread that waits for some, else in a new one.
fn in_a_thread(mut work: Work) -> Result<()> {
    while let Some((_, idle)) = with_idle(|idle| idle.threads.pop()) {
        match idle.send(work) {
            Ok(()) => return Ok(()),
            // It has panicked.
            Err(SendError(back)) => work = back,
        }
    }
    let thread = move || {
        let mut work = work;
        loop {
            work();
            let (give, given) = channel();
            let number = with_idle(|idle| {
                idle.next += 1;
                idle.threads.push((idle.next, give));
                idle.next
            });
            let next = given.recv_timeout(KEPT).or_else(|_| {
                let place = |idle: &mut Idle| idle.threads.iter().position(|(own, _)| *own == number);
                // Whoever took it from the list sends work, or has ended.
                match with_idle(|idle| place(idle).map(|at| idle.threads.swap_remove(at))) {
                    Some(_) => Err(()),
                    None => given.recv().map_err(drop),
                }
            });
            match next {
                Ok(next) => work = next,
                Err(()) => return,
            }
        }
    };
    let made = std::thread::Builder::new().name("flight".into()).stack_size(256 << 10).spawn(thread);
    made.map(drop).map_err(|e| Error::new(ErrorKind::NoMemory, "cannot start a thread for the write").caused_by(e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_layout::OpenWrite;
    use thalweg_store::memory::Memory;
    use thalweg_store::wrap::{Operation, Slow, Verdict, Watch, Wrapped};
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
    fn a_write_is_abandoned_or_sealed_and_never_both() {
        for stops in [true, false] {
            let memory = Arc::new(Memory::new());
            let mut write = WriteInFlight::begin(slow(&memory, 100.0), None, None).unwrap();
            write.give(Task::Write(4, b"piece".to_vec()));
            write.give(Task::Seal(0, b"head".to_vec()));
            if !stops {
                while write.waiting() > 0 {
                    write.wait(Duration::from_secs(10)).unwrap().unwrap();
                }
            }
            assert_eq!(write.stop(), stops);
            write.end_alone(0, Duration::from_secs(10)).wait().unwrap();
            assert_eq!(bytes_of(&memory) == b"headpiece", !stops);
        }
    }

    #[test]
    fn at_any_moment_a_write_is_abandoned_or_sealed() {
        let (mut left, mut sealed) = (0, 0);
        for turn in 0..2000u64 {
            let memory = Arc::new(Memory::new());
            let mut write = WriteInFlight::begin(slow(&memory, f64::INFINITY), None, None).unwrap();
            write.give(Task::Write(4, b"piece".to_vec()));
            write.give(Task::Seal(0, b"head".to_vec()));
            let until = Instant::now() + Duration::from_micros(turn % 40);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            let stopped = write.stop();
            write.end_alone(0, Duration::from_secs(10)).wait().unwrap();
            let is_sealed = memory.read_all("x").unwrap().starts_with(b"head");
            assert_ne!(stopped, is_sealed, "turn {turn}");
            if stopped { left += 1 } else { sealed += 1 }
        }
        assert!(left + sealed == 2000);
    }

    /// Notes the threads that write.
    #[derive(Default, Clone)]
    struct Threads(Arc<Mutex<std::collections::HashSet<std::thread::ThreadId>>>);

    impl Watch for Threads {
        fn describe(&self) -> &'static str {
            "threads"
        }

        fn before(&self, _: &Operation<'_>) -> Verdict {
            self.0.lock().insert(std::thread::current().id());
            Verdict::Pass
        }
    }

    #[test]
    fn writes_one_after_the_other_share_threads() {
        let threads = Threads::default();
        for _ in 0..100 {
            let store = Wrapped::with(Arc::new(Memory::new()), threads.clone());
            let object: Arc<dyn WriteObject> = Arc::from(store.open_write("x", OpenWrite::Any).unwrap());
            let mut write = WriteInFlight::begin(object, None, None).unwrap();
            write.give(Task::Write(0, b"x".to_vec()));
            write.wait(Duration::from_secs(10)).unwrap().unwrap();
            write.end_alone(0, Duration::from_secs(10)).wait().unwrap();
        }
        // This thread opened the objects. Other tests take threads meanwhile, and a write may begin just before a thread waits again.
        let threads = threads.0.lock().len() - 1;
        assert!((1..50).contains(&threads), "{threads} threads");
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
