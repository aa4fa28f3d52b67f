//! Helper threads for requests that consist of many equal parts.
//!
//! | question | answer |
//! |----------|--------|
//! | who works | the requesting thread processes the parts itself; helpers take parts as soon as they run |
//! | who waits | the requesting thread waits only for parts that a helper has begun |
//! | how many | threads are started at the first request for them and kept, because starting a thread costs more than the work |
//! | a helper that panics | the requesting thread processes its parts |
//! | the end | the threads end when [`Helpers`] is dropped |

use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_types::mutex::{Condvar, Mutex};

/// Work that helpers can share.
trait Work: Send + Sync {
    fn take_part(&self);
}

#[derive(Default)]
struct State {
    /// Queued work, one entry per requested helper.
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

/// Helper threads. See the module's page.
#[derive(Default)]
pub struct Helpers(Arc<Room>);

/// Parts `0..count`, taken in shares of `share` parts.
struct Parts<F, T> {
    each: F,
    count: usize,
    share: usize,
    state: Mutex<Taken<T>>,
    done: Condvar,
}

struct Taken<T> {
    /// First part that no thread has taken.
    next: usize,
    /// Number of shares in progress.
    under_way: usize,
    done: Vec<Option<T>>,
}

/// A share in progress; its drop counts it as ended, also after a panic.
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
    /// Calls `each` for `0..count` and returns the results in this order.
    ///
    /// - `helpers`: number of helper threads.
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
            // Small shares, because the parts may take different times.
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
                // After a panic in one share, the thread continues with others.
                while std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| room.help())).is_err() {}
            });
            if started.is_err() {
                break;
            }
            state.threads += 1;
        }
        let helpers = helpers.min(state.threads);
        // Bounds the queue: entries of finished work may remain in it, and work without helpers is still completed by its
        // own thread.
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
