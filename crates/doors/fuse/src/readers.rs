//! Which of the door's threads wait for the kernel's requests, and which rest.
//!
//! The kernel gives a request to the thread that has waited longest. With several of them each request of one program, which waits
//! for each answer, so wakes another thread on another core: measured, that doubled the processor time of a small file. So as many
//! threads take requests as there is work for, one as a rule; the others rest.
//!
//! | question | answer |
//! |----------|--------|
//! | at work  | one thread at first; a thread that has answered rests where enough others are at work, one of which waits for the kernel |
//! | one more | where all threads at work had no pause between requests for a while ([`STREAK`]); where none has taken a request during a [`TICK`], as all are busy |
//! | one less | where at [`SURPLUS`] answers in a row another thread had nothing to do |
//! | nobody waits for the kernel | no longer than two ticks, while a thread rests: a call that takes long, or needs another to end, keeps no program waiting longer |
//! | a thread that never had a request | counts for nothing: it may be the one that hears of the end |
//! | the mount ends | the first thread that leaves calls all that rest |
//!
//! Knows nothing of requests: [`Readers::begin`] when a thread has one, and the [`Turn`] that it returns is dropped when it is answered.

use std::cell::RefCell;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::{Duration, Instant};
use thalweg_types::mutex::{Condvar, Mutex};

/// How long nobody may wait for the kernel before a thread that rests is called.
pub const TICK: Duration = Duration::from_millis(1);
/// A thread that finds the next request so soon after an answer has not slept: another program's was there already.
pub const PAUSE: Duration = Duration::from_micros(4);
/// Requests without a pause, one after the other, after which one more thread is at work: what nobody waits for (the end of a handle,
/// numbers that are forgotten) comes together with other requests, too.
const STREAK: u32 = 8;
/// Answers in a row, at each of which another thread had nothing to do, after which one thread less is at work.
const SURPLUS: u32 = 64;
/// Ticks without a request after which nobody looks any longer.
const QUIET: u32 = 10;

#[derive(Debug, Default)]
struct State {
    /// Threads that had a request.
    seen: usize,
    /// Of these, those that wait for the kernel, or are on their way there.
    waiting: usize,
    resting: usize,
    /// Resting threads that were called and have not gone yet; they count as waiting.
    called: usize,
    /// So many are to be at work.
    crew: usize,
    begun: u64,
    streak: u32,
    surplus: u32,
    /// Somebody looks at each tick.
    watched: bool,
    ended: bool,
}

impl State {
    /// One more at work.
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
    /// For those that rest.
    bell: Condvar,
    /// For whoever looks at each tick.
    watch: Condvar,
    tick: Duration,
    pause: Duration,
}

/// A request that a thread works on. To be dropped when it is answered, by the same thread, which may rest there.
pub struct Turn<'r>(&'r Readers);

/// Ends a mount when its thread does.
struct Leaves(Weak<Readers>);

thread_local! {
    static LEAVES: RefCell<Option<Leaves>> = const { RefCell::new(None) };
    static ANSWERED: std::cell::Cell<Option<Instant>> = const { std::cell::Cell::new(None) };
}

impl Readers {
    /// - `tick`, `pause`: [`TICK`] and [`PAUSE`], but for tests.
    ///
    /// # Errors
    /// A thread that cannot be started.
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

    /// This thread has a request.
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
                // Whoever called has counted it among those that wait.
                state.called = state.called.saturating_sub(1);
                return;
            }
        }
        state.waiting += 1;
        drop(state);
        ANSWERED.set(Some(Instant::now()));
    }

    /// Looks at each tick whether somebody waits for the kernel, as long as there are requests.
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
            // Nobody is waited for, or nobody rests: the next request that changes this tells.
            if quiet >= QUIET && (state.waiting > 0 || state.resting == 0) {
                state.watched = false;
            }
        }
    }

    /// No thread rests any longer.
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

    /// What a request does: tells who has it, then waits for leave to end.
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

    /// Threads that take requests as the kernel gives them out: who has waited longest has the next.
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

    fn until(holds: impl Fn() -> bool) {
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

        /// Sends a request as soon as a thread waits for one; returns what tells who has it, and what lets it end when dropped.
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

        /// One that ends at once; who had it.
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
        for _ in 0..50 {
            threads.insert(served.one());
        }
        assert!(threads.len() > 1, "one thread has all the work");
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
