//! What methods remember between outputs of a process, each in a type of its own: a method with memory touches no other file.
//!
//! | question | answer |
//! |---|---|
//! | how long | as long as the session; nothing of it lies in a file |
//! | who sees it | every output of the session whose method asks for the type |
//! | threads | one at a time: [`Remembered::lock`] |

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};
use thalweg_types::Result;
use thalweg_types::mutex::Mutex;

/// What a method, or what methods share, remembers between outputs; empty in a new session.
pub trait Memory: Default + Send + 'static {
    /// Waits, for a bounded time, for what is still under way to a file.
    ///
    /// - `name`: the file, with the layout that it lies on.
    ///
    /// # Errors
    /// `Timeout`: it has not ended.
    fn settle(_memory: &Remembered<Self>, _name: &str) -> Result<()> {
        Ok(())
    }

    /// The session ends: waits, for a bounded time, for all that is under way.
    ///
    /// # Errors
    /// `Timeout`: it has not ended.
    fn end(_memory: &Remembered<Self>) -> Result<()> {
        Ok(())
    }
}

/// A memory of one type, shared by the outputs of a session.
pub struct Remembered<M>(Arc<Mutex<M>>);

impl<M> Remembered<M> {
    /// The memory, for one output at a time.
    pub fn lock(&self) -> MutexGuard<'_, M> {
        // A panic in one output must not cost the others theirs; memories stay consistent between statements.
        self.0.lock()
    }
}

/// A memory whose type is not known here.
trait Ends: Send + Sync {
    fn settle(&self, name: &str) -> Result<()>;
    fn end(&self) -> Result<()>;
    fn any(&self) -> &dyn Any;
}

impl<M: Memory> Ends for Remembered<M> {
    fn settle(&self, name: &str) -> Result<()> {
        M::settle(self, name)
    }

    fn end(&self) -> Result<()> {
        M::end(self)
    }

    fn any(&self) -> &dyn Any {
        self
    }
}

/// The memories of a session, by type.
#[derive(Default)]
pub struct Memories(Mutex<HashMap<TypeId, Arc<dyn Ends>>>);

impl Memories {
    /// The memory of this type; empty where nobody has asked for it before.
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
    /// Those of [`Memory::settle`].
    pub fn settle(&self, name: &str) -> Result<()> {
        self.all().iter().map(|memory| memory.settle(name)).fold(Ok(()), Result::and)
    }

    /// Calls [`Memory::end`] of all; the first failure is returned.
    ///
    /// # Errors
    /// Those of [`Memory::end`].
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
        memories.end().unwrap();
    }
}
