//! The threads of one call: the caller's thread takes tasks from a list; helper threads join if that takes long.
//!
//! Cost: none for a short list of fast tasks. The first helper starts after 0.3 ms, each further one after four times as long. If one
//! task exceeds that time, as on a remote store, all helpers that are due start at once.

use std::sync::OnceLock;
use std::time::{Duration, Instant};
use thalweg_types::mutex::Mutex;

/// After this time a thread helps; each further one after four times as long.
const HELP_AFTER: Duration = Duration::from_micros(300);

/// Most threads of one call.
pub fn most_threads() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    // Waiting for a store needs no processor: a few help even where there is one.
    *MOST.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from).clamp(4, 16))
}

/// Carries out all tasks. The first failure ends the work: tasks that were not begun are dropped.
///
/// - `state`: made once per thread.
pub fn work_off<T: Send, S, E: Send>(
    tasks: Vec<T>,
    state: impl Fn() -> S + Sync,
    run: impl Fn(&mut S, T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    if tasks.len() < 2 {
        return tasks.into_iter().try_for_each(|task| run(&mut state(), task));
    }
    let most = most_threads().min(tasks.len());
    let queue = Mutex::new((tasks.into_iter(), None));
    let lock = || queue.lock();
    // Between tasks a thread checks whether more threads should start.
    let work = |mut between: Option<&mut dyn FnMut()>| {
        let mut state = state();
        loop {
            let task = match &mut *lock() {
                (tasks, None) => tasks.next(),
                _ => None,
            };
            let Some(task) = task else { break };
            if let Err(e) = run(&mut state, task) {
                lock().1.get_or_insert(e);
                break;
            }
            if let Some(between) = &mut between {
                between();
            }
        }
    };
    let (start, mut helpers, mut after) = (Instant::now(), 1, HELP_AFTER);
    std::thread::scope(|scope| {
        work(Some(&mut || {
            let mut left = None;
            while helpers < most && start.elapsed() >= after && *left.get_or_insert_with(|| lock().0.len()) > 0 {
                (helpers, after, left) = (helpers + 1, after * 4, left.map(|n| n - 1));
                scope.spawn(|| work(None));
            }
        }));
    });
    let failed = lock().1.take();
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn every_task_is_done_once() {
        for n in [0, 1, 2, 100] {
            let done = AtomicUsize::new(0);
            let outcome: Result<(), ()> = work_off(
                (1..=n).collect(),
                || (),
                |(), k| {
                    done.fetch_add(k, Relaxed);
                    Ok(())
                },
            );
            assert_eq!((outcome, done.into_inner()), (Ok(()), n * (n + 1) / 2));
        }
    }

    #[test]
    fn after_a_long_task_several_are_done_at_once() {
        let (together, first) = (Barrier::new(4), AtomicUsize::new(0));
        // Four tasks wait for each other: they only ever end where four threads work.
        let outcome: Result<(), ()> = work_off(
            (0..5).collect(),
            || (),
            |(), _| {
                match first.fetch_add(1, Relaxed) {
                    0 => std::thread::sleep(HELP_AFTER * 64),
                    _ => drop(together.wait()),
                }
                Ok(())
            },
        );
        assert_eq!(outcome, Ok(()));
    }

    #[test]
    fn the_first_failure_is_told_and_what_nobody_began_is_left() {
        let begun = AtomicUsize::new(0);
        let outcome = work_off(
            (0..1000).collect(),
            || (),
            |(), k| {
                begun.fetch_add(1, Relaxed);
                if k == 3 { Err(k) } else { Ok(()) }
            },
        );
        assert_eq!(outcome, Err(3));
        assert!(begun.into_inner() < 1000);
    }
}
