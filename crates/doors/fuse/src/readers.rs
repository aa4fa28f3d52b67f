//! Controls how many of the door's threads wait for the kernel's requests; the other threads rest.
//!
//! The kernel gives a request to the thread that has waited longest. If several threads wait, each request of a program
//! that makes one call after the other wakes another thread on another core: measured, that doubled the processor time of a
//! small file. So only as many threads take requests as the load needs, usually one.
//!
//! | question | answer |
//! |----------|--------|
//! | active threads | one at first; a thread that has answered rests if enough other threads are active and one of them waits for the kernel |
//! | one more | after [`STREAK`] requests without a pause while no active thread waits; after a [`TICK`] in which no thread took a request because all are busy |
//! | one less | if another thread was idle at [`SURPLUS`] answers in a row |
//! | no thread waits for the kernel | for at most two ticks while a thread rests: a long call, or one that needs another call to end, delays other programs no longer than that |
//! | a thread that never had a request | is not counted: it may be the one that receives the end of the mount |
//! | the mount ends | the first thread that ends wakes all resting threads |
//!
//! Independent of the requests' contents: a thread calls [`Readers::begin`] when it has received a request, and drops the
//! returned [`Turn`] when it has answered.

use std::cell::RefCell;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::{Duration, Instant};
use thalweg_types::mutex::{Condvar, Mutex};

/// How long no thread may wait for the kernel before a resting thread is woken.
pub const TICK: Duration = Duration::from_millis(1);
/// Longest time between an answer and the next request that counts as no pause: the request was already queued.
pub const PAUSE: Duration = Duration::from_micros(4);
/// Number of successive requests without a pause after which one more thread becomes active. More than one, because
/// requests that no program waits for (`release`, `forget`) also follow other requests immediately.
const STREAK: u32 = 8;
/// Number of successive answers, each with another idle thread, after which one thread less is active.
const SURPLUS: u32 = 64;
/// Number of ticks without a request after which the watching thread sleeps.
const QUIET: u32 = 10;

#[derive(Debug, Default)]
struct State {
    /// Threads that have received a request.
    seen: usize,
    /// Of these, threads that wait for the kernel or are about to.
    waiting: usize,
    resting: usize,
    /// Threads that were woken and still have to run; they count as waiting.
    called: usize,
    /// Number of threads that should be active.
    crew: usize,
    begun: u64,
    streak: u32,
    surplus: u32,
    /// The watching thread checks at each tick.
    watched: bool,
    ended: bool,
}

impl State {
    /// Wakes a resting thread.
    fn grow(&mut self, bell: &Condvar) {
        if self.resting == 0 {
            return;
        }
        self.resting -= 1;
        self.called += 1;
        self.waiting += 1;
        self.crew = self.seen - self.resting;
        (self.streak, self.surplus) = (0, 0);
        bell.notify_one();
    }
}

/// The threads of a mount. See the module's page.
#[derive(Debug)]
pub struct Readers {
    state: Mutex<State>,
    /// Wakes resting threads.
    bell: Condvar,
    /// Wakes the watching thread.
    watch: Condvar,
    tick: Duration,
    pause: Duration,
}

/// A request in progress. The same thread drops it after the answer; the drop may block, as the thread may rest there.
pub struct Turn<'r>(&'r Readers);

/// Wakes all resting threads when its thread ends.
struct Leaves(Weak<Readers>);

thread_local! {
    static LEAVES: RefCell<Option<Leaves>> = const { RefCell::new(None) };
    static ANSWERED: std::cell::Cell<Option<Instant>> = const { std::cell::Cell::new(None) };
}

impl Readers {
    /// - `tick`, `pause`: [`TICK`] and [`PAUSE`], except in tests.
    ///
    /// # Errors
    /// If the watching thread cannot be started.
    pub fn new(tick: Duration, pause: Duration) -> std::io::Result<Arc<Readers>> {
        let state = Mutex::new(State { crew: 1, ..State::default() });
        let readers = Arc::new(Readers { state, bell: Condvar::new(), watch: Condvar::new(), tick, pause });
        let watched = readers.clone();
        std::thread::Builder::new().name("fuse-watch".into()).spawn(move || watched.look())?;
        Ok(readers)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Call when this thread has received a request.
    pub fn begin(self: &Arc<Readers>) -> Turn<'_> {
        let is_new = LEAVES.with_borrow_mut(|leaves| {
            let is_new = leaves.is_none();
            leaves.get_or_insert_with(|| Leaves(Arc::downgrade(self)));
            is_new
        });
        let at_once = ANSWERED.get().is_some_and(|answered| answered.elapsed() < self.pause);
        let mut state = self.state();
        match is_new {
            true => state.seen += 1,
            false => state.waiting = state.waiting.saturating_sub(1),
        }
        state.begun += 1;
        state.streak = if at_once { state.streak + 1 } else { 0 };
        if state.waiting == 0 && state.resting > 0 {
            if state.streak >= STREAK {
                state.grow(&self.bell);
            } else if !state.watched {
                state.watched = true;
                self.watch.notify_one();
            }
        }
        Turn(self)
    }

    fn end(&self) {
        let mut state = self.state();
        if state.waiting == 0 {
            state.surplus = 0;
        } else {
            state.surplus += 1;
            if state.surplus >= SURPLUS {
                state.crew = state.crew.saturating_sub(1).max(1);
                state.surplus = 0;
            }
            let at_work = state.seen - state.resting;
            if at_work > state.crew && !state.ended && !std::thread::panicking() {
                state.resting += 1;
                state = self.bell.wait_while(state, |state| state.called == 0 && !state.ended);
                ANSWERED.set(None);
                // The waking thread has counted this one as waiting.
                state.called = state.called.saturating_sub(1);
                return;
            }
        }
        state.waiting += 1;
        drop(state);
        ANSWERED.set(Some(Instant::now()));
    }

    /// Checks at each tick, while there are requests, whether a thread waits for the kernel.
    fn look(&self) {
        let mut state = self.state();
        let (mut begun, mut quiet) = (0, 0);
        while !state.ended {
            if !state.watched {
                state = self.watch.wait(state);
                (begun, quiet) = (state.begun, 0);
                continue;
            }
            let waited = self.watch.wait_timeout(state, self.tick);
            state = waited.0;
            if state.begun != begun {
                (begun, quiet) = (state.begun, 0);
                continue;
            }
            if state.waiting == 0 {
                state.grow(&self.bell);
            }
            quiet += 1;
            // A thread waits, or none rests: a request that changes this wakes the watching thread.
            if quiet >= QUIET && (state.waiting > 0 || state.resting == 0) {
                state.watched = false;
            }
        }
    }

    /// Wakes all resting threads, permanently.
    pub fn leave(&self) {
        self.state().ended = true;
        self.bell.notify_all();
        self.watch.notify_all();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Drop for Leaves {
    fn drop(&mut self) {
        if let Some(readers) = self.0.upgrade() {
            readers.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashSet, VecDeque};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::{JoinHandle, ThreadId};

    const LONG: Duration = Duration::from_secs(60);

    /// A test request: sends its thread's number, then waits for permission to end.
    struct Request {
        began: Sender<ThreadId>,
        may_end: Receiver<()>,
    }

    /// Those that wait for a request, the longest first; `None` once there are no more.
    #[derive(Default)]
    struct Kernel {
        waiting: Mutex<Option<VecDeque<Sender<Request>>>>,
        more: Condvar,
    }

    /// Threads that take requests in the kernel's order: the thread that has waited longest gets the next one.
    struct Served {
        kernel: Arc<Kernel>,
        threads: Vec<JoinHandle<()>>,
        readers: Arc<Readers>,
    }

    fn served(count: usize, tick: Duration, pause: Duration) -> Served {
        let kernel = Arc::new(Kernel { waiting: Mutex::new(Some(VecDeque::new())), more: Condvar::new() });
        let readers = Readers::new(tick, pause).unwrap();
        let serve = |kernel: Arc<Kernel>, readers: Arc<Readers>| {
            move || loop {
                let (give, given) = channel();
                match &mut *kernel.waiting.lock() {
                    Some(waiting) => waiting.push_back(give),
                    None => return,
                }
                kernel.more.notify_all();
                let Ok(request) = given.recv() else { return };
                let _turn = readers.begin();
                request.began.send(std::thread::current().id()).unwrap();
                let _ = request.may_end.recv();
            }
        };
        let threads = (0..count).map(|_| std::thread::spawn(serve(kernel.clone(), readers.clone()))).collect();
        until(|| kernel.waiting.lock().as_ref().unwrap().len() == count);
        Served { kernel, threads, readers }
    }

    fn until(mut holds: impl FnMut() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < LONG);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    impl Served {
        fn resting(&self) -> usize {
            self.readers.state().resting
        }

        /// Sends a request as soon as a thread waits for one; returns the receiver of its thread's number, and a sender
        /// whose drop ends the request.
        fn send(&self) -> (Receiver<ThreadId>, Sender<()>) {
            let ((began, who), (end, may_end)) = (channel(), channel());
            let none = |waiting: &mut Option<VecDeque<_>>| waiting.as_ref().is_some_and(VecDeque::is_empty);
            let waiting = self.kernel.waiting.lock();
            let (mut waiting, late) = self.kernel.more.wait_timeout_while(waiting, LONG, none);
            assert!(!late, "nobody takes the request");
            let longest = waiting.as_mut().unwrap().pop_front().unwrap();
            longest.send(Request { began, may_end }).unwrap();
            (who, end)
        }

        /// Sends a request that ends immediately; returns the number of its thread.
        fn one(&self) -> ThreadId {
            let (who, end) = self.send();
            drop(end);
            who.recv_timeout(LONG).expect("nobody takes the request")
        }

        fn some(&self, requests: std::ops::Range<u32>) {
            for _ in requests {
                self.one();
            }
        }

        /// All threads leave.
        fn end(mut self) {
            drop(self.kernel.waiting.lock().take());
            for thread in self.threads.drain(..) {
                // Or it rests for ever.
                until(|| thread.is_finished());
                thread.join().unwrap();
            }
        }
    }

    #[test]
    fn requests_that_come_one_after_the_other_are_one_threads() {
        let served = served(4, LONG, Duration::ZERO);
        // Each has one, at first.
        served.some(0..8);
        until(|| served.resting() == 3);
        let threads: HashSet<ThreadId> = (0..500).map(|_| served.one()).collect();
        assert_eq!(threads.len(), 1);
        served.end();
    }

    #[test]
    fn requests_that_take_long_keep_no_other_waiting_while_a_thread_rests() {
        let served = served(4, Duration::from_millis(1), Duration::ZERO);
        served.some(0..100);
        for _ in 0..3 {
            let long: Vec<_> = (0..3).map(|_| served.send()).collect();
            let threads: HashSet<ThreadId> = long.iter().map(|(who, _)| who.recv_timeout(LONG).unwrap()).collect();
            assert_eq!(threads.len(), 3);
            served.some(0..200);
            drop(long);
            served.some(0..200);
        }
        served.end();
    }

    #[test]
    fn where_requests_wait_for_threads_more_threads_are_at_work() {
        // Each request finds the next there already.
        let served = served(4, LONG, LONG);
        served.some(0..8);
        until(|| served.resting() == 3);
        let mut threads = HashSet::new();
        // The second one is woken at once, and takes a request when the machine lets it run.
        until(|| {
            threads.insert(served.one());
            threads.len() > 1
        });
        served.end();
    }

    #[test]
    fn threads_that_rest_leave_with_the_first_that_does() {
        let served = served(8, LONG, Duration::ZERO);
        served.some(0..100);
        until(|| served.resting() == 7);
        served.end();
    }
}
