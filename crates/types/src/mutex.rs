//! Mutexes, read-write locks and condition variables that a panic does not poison.
//!
//! A thread that panics while it holds a lock of the standard library poisons it, and every later `lock()` is a `Result`.
//! In this library a panic becomes an error of the operation in which it happened, and what a lock protects is left
//! consistent by each step taken under it; so these types give the value in any case. Guards are those of [`std::sync`].
//!
//! Not `parking_lot`: a thread that waits for one of its locks is in a table of the whole process, which has locks of its
//! own; in a program that is forked (preload, Python) while another thread holds one of these, the child waits for ever.

use std::sync::{self, LockResult, MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::Duration;

fn whole<G>(result: LockResult<G>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

/// Mutual exclusion, as [`sync::Mutex`], never poisoned.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Holds `value`, unlocked.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    /// The value itself.
    pub fn into_inner(self) -> T {
        whole(self.0.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until no other thread holds the lock, and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        whole(self.0.lock())
    }

    /// Takes the lock if no thread holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value, through exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        whole(self.0.get_mut())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

/// Many readers or one writer, as [`sync::RwLock`], never poisoned.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Holds `value`, unlocked.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(sync::RwLock::new(value))
    }

    /// The value itself.
    pub fn into_inner(self) -> T {
        whole(self.0.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no thread writes, and reads beside other readers.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        whole(self.0.read())
    }

    /// Waits until no other thread reads or writes, and writes alone.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        whole(self.0.write())
    }

    /// The value, through exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        whole(self.0.get_mut())
    }
}

/// Wakes threads that wait for a change of the value in a [`Mutex`], as [`sync::Condvar`].
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// A condition variable without waiting threads.
    pub const fn new() -> Condvar {
        Condvar(sync::Condvar::new())
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Gives the lock back until woken; may also wake for no reason.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        whole(self.0.wait(guard))
    }

    /// Waits as long as `condition` says `true`.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        whole(self.0.wait_while(guard, condition))
    }

    /// As [`Condvar::wait`], for at most `limit`. The second value is whether the time has passed.
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, limit: Duration) -> (MutexGuard<'a, T>, bool) {
        let (guard, outcome) = whole(self.0.wait_timeout(guard, limit));
        (guard, outcome.timed_out())
    }

    /// As [`Condvar::wait_while`], for at most `limit`. The second value is whether the time has passed.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, bool) {
        let (guard, outcome) = whole(self.0.wait_timeout_while(guard, limit, condition));
        (guard, outcome.timed_out())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn what_a_panicking_thread_held_goes_on_working() {
        let mutex = Mutex::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut value = mutex.lock();
            *value = 2;
            panic!("while the lock is held");
        }));
        assert!(panicked.is_err());
        assert_eq!(*mutex.lock(), 2);
        assert_eq!(mutex.try_lock().map(|v| *v), Some(2));
        assert_eq!(mutex.into_inner(), 2);

        let lock = RwLock::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            *lock.write() = 2;
            let _value = lock.write();
            panic!("while the lock is held");
        }));
        assert!(panicked.is_err());
        assert_eq!(*lock.read(), 2);
        assert_eq!(*lock.write(), 2);
    }

    #[test]
    fn a_lock_that_another_thread_holds_is_not_taken() {
        let mutex = Mutex::new(());
        let held = mutex.lock();
        std::thread::scope(|scope| {
            assert!(scope.spawn(|| mutex.try_lock().is_none()).join().unwrap());
        });
        drop(held);
    }

    #[test]
    fn a_waiting_thread_sees_the_change_it_was_woken_for() {
        let (state, changed) = (Mutex::new(0), Condvar::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *state.lock() = 1;
                changed.notify_all();
            });
            assert_eq!(*changed.wait_while(state.lock(), |n| *n == 0), 1);
        });
        let (value, late) = changed.wait_timeout_while(state.lock(), Duration::from_millis(1), |n| *n == 1);
        assert_eq!((*value, late), (1, true));
    }
}
