//! Threads that help one that answers the kernel with work of many equal parts.
//!
//! | question | answer |
//! |----------|--------|
//! | who works | whoever has the work does it itself; helpers take parts of it as soon as they run |
//! | who waits | nobody for a helper that has not begun: what is left is done by then |
//! | how many | started when they are asked for first, and kept: a thread costs more than the work that it helps with |
//! | a helper that fails | its parts are done by whoever has the work |
//! | the end | they leave when the last that may ask them is gone |

use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_types::mutex::{Condvar, Mutex};

/// What helpers take part in.
trait Work: Send + Sync {
    fn take_part(&self);
}

#[derive(Default)]
struct State {
    /// Work that helpers were called for, once for each.
    calls: VecDeque<Arc<dyn Work>>,
    threads: usize,
    ended: bool,
}

#[derive(Default)]
struct Room {
    state: Mutex<State>,
    bell: Condvar,
}

impl Room {
    fn help(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(work) = state.calls.pop_front() {
                drop(state);
                work.take_part();
                drop(work);
                state = self.state.lock();
            } else if state.ended {
                return;
            } else {
                state = self.bell.wait(state);
            }
        }
    }
}

/// Threads that help. See the module's page.
#[derive(Default)]
pub struct Helpers(Arc<Room>);

/// Parts `0..count`, in shares of some each.
struct Parts<F, T> {
    each: F,
    count: usize,
    share: usize,
    state: Mutex<Taken<T>>,
    done: Condvar,
}

struct Taken<T> {
    /// First part that nobody has taken.
    next: usize,
    /// Shares that are being worked on.
    under_way: usize,
    done: Vec<Option<T>>,
}

/// A share that is being worked on, however that ends.
struct Share<'p, F, T>(&'p Parts<F, T>);

impl<F, T> Drop for Share<'_, F, T> {
    fn drop(&mut self) {
        let mut taken = self.0.state.lock();
        taken.under_way -= 1;
        if taken.under_way == 0 {
            self.0.done.notify_all();
        }
    }
}

impl<F: Fn(usize) -> T + Send + Sync, T: Send> Work for Parts<F, T> {
    fn take_part(&self) {
        loop {
            let mut taken = self.state.lock();
            let from = taken.next;
            let to = (from + self.share).min(self.count);
            if from >= to {
                return;
            }
            taken.next = to;
            taken.under_way += 1;
            drop(taken);
            let share = Share(self);
            let some: Vec<T> = (from..to).map(&self.each).collect();
            let mut taken = self.state.lock();
            for (place, one) in taken.done[from..to].iter_mut().zip(some) {
                *place = Some(one);
            }
            drop(taken);
            drop(share);
        }
    }
}

impl Helpers {
    /// What `each` returns for `0..count`, in this order.
    ///
    /// - `helpers`: threads that are called to help.
    pub fn share<T: Send + 'static>(
        &self,
        helpers: usize,
        count: usize,
        each: impl Fn(usize) -> T + Send + Sync + 'static,
    ) -> Vec<T> {
        if helpers == 0 || count < 2 {
            return (0..count).map(each).collect();
        }
        let parts = Arc::new(Parts {
            each,
            count,
            // Small: each part may take a time of its own.
            share: (count / (4 * (helpers + 1))).clamp(1, 16),
            state: Mutex::new(Taken { next: 0, under_way: 0, done: (0..count).map(|_| None).collect() }),
            done: Condvar::new(),
        });
        self.call(helpers, &parts);
        parts.take_part();
        let mut taken = parts.done.wait_while(parts.state.lock(), |taken| taken.under_way > 0);
        let done = std::mem::take(&mut taken.done);
        done.into_iter().enumerate().map(|(part, done)| done.unwrap_or_else(|| (parts.each)(part))).collect()
    }

    fn call<W: Work + 'static>(&self, helpers: usize, work: &Arc<W>) {
        let mut state = self.0.state.lock();
        while state.threads < helpers {
            let room = self.0.clone();
            let started = std::thread::Builder::new().name("fuse-helper".into()).spawn(move || {
                // Whatever fails in one share, others are helped with.
                while std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| room.help())).is_err() {}
            });
            if started.is_err() {
                break;
            }
            state.threads += 1;
        }
        let helpers = helpers.min(state.threads);
        // Of work that is done by now its callers have given up all helpers that have not begun.
        state.calls.truncate(64);
        for _ in 0..helpers {
            state.calls.push_back(work.clone());
            self.0.bell.notify_one();
        }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.0.state.lock().ended = true;
        self.0.bell.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    #[test]
    fn each_part_is_done_once_and_told_in_its_order_however_many_help() {
        let helpers = Helpers::default();
        for (count, called) in [(0, 0), (0, 3), (1, 3), (7, 2), (1000, 0), (1000, 1), (1000, 15), (5, 15)] {
            let done = Arc::new(AtomicUsize::new(0));
            let counted = done.clone();
            let told = helpers.share(called, count, move |part| {
                counted.fetch_add(1, Ordering::Relaxed);
                part * part
            });
            assert_eq!(told, (0..count).map(|part| part * part).collect::<Vec<_>>());
            assert_eq!(done.load(Ordering::Relaxed), count);
        }
    }

    #[test]
    fn parts_that_wait_wait_together() {
        let helpers = Helpers::default();
        let together = Arc::new((Mutex::new(HashSet::new()), Condvar::new()));
        // Ends when eight threads are in it at once.
        helpers.share(7, 8, move |_| {
            let (threads, more) = &*together;
            let mut threads = threads.lock();
            threads.insert(std::thread::current().id());
            more.notify_all();
            let began = Instant::now();
            while threads.len() < 8 {
                assert!(began.elapsed() < Duration::from_secs(60), "{} threads", threads.len());
                threads = more.wait_timeout(threads, Duration::from_secs(1)).0;
            }
        });
    }

    #[test]
    fn what_a_helper_fails_in_is_done_by_whoever_asked() {
        let helpers = Helpers::default();
        let asked = std::thread::current().id();
        for _ in 0..20 {
            let told = helpers.share(2, 40, move |part| {
                std::thread::sleep(Duration::from_micros(100));
                assert!(std::thread::current().id() == asked, "a helper that fails");
                part
            });
            assert_eq!(told, (0..40).collect::<Vec<_>>());
        }
    }

    #[test]
    fn helpers_leave_with_the_last_that_may_ask_them() {
        let helpers = Helpers::default();
        helpers.share(3, 100, |part| part);
        let room = Arc::downgrade(&helpers.0);
        drop(helpers);
        let began = Instant::now();
        while room.strong_count() > 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "threads stay");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
