//! State that methods keep between outputs of a process, each in a type of its own, so that a new method with such state changes
//! no other file.
//!
//! | question | answer |
//! |---|---|
//! | lifetime | as long as the session; nothing of it is stored in a file |
//! | access | every output of the session whose method requests the type |
//! | threads | one at a time: [`Remembered::lock`] |

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};
use thalweg_types::Result;
use thalweg_types::mutex::Mutex;

/// State of a method, or shared by methods, between outputs; empty in a new session.
pub trait Memory: Default + Send + 'static {
    /// Waits, for a bounded time, for writes in flight to a file.
    ///
    /// - `name`: the file, with its layout.
    ///
    /// # Errors
    /// `Timeout` if they have not ended.
    fn settle(_memory: &Remembered<Self>, _name: &str) -> Result<()> {
        Ok(())
    }

    /// Another method adds to a file: what is known of its end is no longer so. Returns whether writes of any rank may be in flight to it;
    /// the same on all ranks.
    ///
    /// - `name`: as for [`Memory::settle`].
    fn forget(_memory: &Remembered<Self>, _name: &str) -> bool {
        false
    }

    /// Called at the end of the session: waits, for a bounded time, for all writes in flight.
    ///
    /// # Errors
    /// `Timeout` if they have not ended.
    fn end(_memory: &Remembered<Self>) -> Result<()> {
        Ok(())
    }
}

/// State of one type, shared by the outputs of a session.
pub struct Remembered<M>(Arc<Mutex<M>>);

impl<M> Remembered<M> {
    /// Locks the state for one output.
    pub fn lock(&self) -> MutexGuard<'_, M> {
        // After a panic in one output the others keep their state, which is consistent between statements.
        self.0.lock()
    }
}

/// State of any type.
trait Ends: Send + Sync {
    fn settle(&self, name: &str) -> Result<()>;
    fn forget(&self, name: &str) -> bool;
    fn end(&self) -> Result<()>;
    fn any(&self) -> &dyn Any;
}

impl<M: Memory> Ends for Remembered<M> {
    fn settle(&self, name: &str) -> Result<()> {
        M::settle(self, name)
    }

    fn forget(&self, name: &str) -> bool {
        M::forget(self, name)
    }

    fn end(&self) -> Result<()> {
        M::end(self)
    }

    fn any(&self) -> &dyn Any {
        self
    }
}

/// The states of a session, by type.
#[derive(Default)]
pub struct Memories(Mutex<HashMap<TypeId, Arc<dyn Ends>>>);

impl Memories {
    /// The state of this type; empty at the first request.
    pub fn of<M: Memory>(&self) -> Remembered<M> {
        let mut all = self.0.lock();
        let memory = all.entry(TypeId::of::<M>()).or_insert_with(|| Arc::new(Remembered::<M>(Arc::default())));
        match memory.any().downcast_ref::<Remembered<M>>() {
            Some(memory) => Remembered(memory.0.clone()),
            None => unreachable!("a memory lies under its own type"),
        }
    }

    /// Calls [`Memory::settle`] of all; the first failure is returned.
    ///
    /// # Errors
    /// Errors of [`Memory::settle`].
    pub fn settle(&self, name: &str) -> Result<()> {
        self.all().iter().map(|memory| memory.settle(name)).fold(Ok(()), Result::and)
    }

    /// Calls [`Memory::forget`] of all; whether any returns `true`.
    pub fn forget(&self, name: &str) -> bool {
        // All of them, whatever one answers.
        self.all().iter().filter(|memory| memory.forget(name)).count() > 0
    }

    /// Calls [`Memory::end`] of all; the first failure is returned.
    ///
    /// # Errors
    /// Errors of [`Memory::end`].
    pub fn end(&self) -> Result<()> {
        self.all().iter().map(|memory| memory.end()).fold(Ok(()), Result::and)
    }

    fn all(&self) -> Vec<Arc<dyn Ends>> {
        self.0.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_types::{Error, ErrorKind};

    #[derive(Default)]
    struct Seen(Vec<u32>);
    impl Memory for Seen {}

    #[derive(Default)]
    struct Late(u32);
    impl Memory for Late {
        fn settle(memory: &Remembered<Late>, name: &str) -> Result<()> {
            memory.lock().0 += 1;
            Err(Error::new(ErrorKind::Timeout, name.to_string()))
        }

        fn forget(memory: &Remembered<Late>, _: &str) -> bool {
            std::mem::take(&mut memory.lock().0) > 0
        }
    }

    #[test]
    fn a_memory_is_one_for_all_who_ask_for_its_type() {
        let memories = Memories::default();
        memories.of::<Seen>().lock().0.push(7);
        memories.of::<Late>().lock().0 = 3;
        assert_eq!(memories.of::<Seen>().lock().0, [7]);
        assert_eq!(memories.of::<Late>().lock().0, 3);
    }

    #[test]
    fn all_memories_settle_whatever_one_of_them_says() {
        let memories = Memories::default();
        memories.of::<Seen>();
        memories.of::<Late>();
        assert_eq!(memories.settle("a").unwrap_err().kind(), ErrorKind::Timeout);
        assert_eq!(memories.of::<Late>().lock().0, 1);
        assert!(memories.forget("a") && memories.of::<Late>().lock().0 == 0, "what is known of it is void");
        memories.end().unwrap();
    }
}
